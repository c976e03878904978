use super::fixture::report;
use super::*;
use crate::report::read;
use onl::KernelTable;
use std::collections::BTreeSet;

fn problems(report: &BaselineReport) -> Vec<String> {
    report.check().iter().map(ToString::to_string).collect()
}

/// Findings of a report after an edit.
fn edited(edit: impl FnOnce(&mut BaselineReport)) -> Vec<String> {
    let mut report = report();
    edit(&mut report);
    problems(&report)
}

fn found(problems: &[String], words: &str) -> bool {
    problems.iter().any(|problem| problem.contains(words))
}

#[test]
fn a_report_follows_from_its_samples_after_it_was_written_and_read() {
    let report = report();
    assert_eq!(problems(&report), Vec::<String>::new());
    let text = serde_json::to_string_pretty(&report).expect("JSON");
    let again: BaselineReport = read(&text).expect("a baseline report");
    assert_eq!(again, report);
    assert_eq!(problems(&again), Vec::<String>::new());
    assert_eq!(report.corpus().len(), report.measurements().len());
}

#[test]
fn figures_are_those_of_hand_computation() {
    let report = report();
    let row = &report.cases[4];
    assert_eq!(
        (row.case.as_str(), row.threads),
        ("Abs/f32 contiguous/4000000", ThreadSetting::Serial)
    );
    // 100 + 4e6 / 4 ns, the middle one of seven samples 0.4 % apart.
    let median = (100.0 + 1e6) * 1.012;
    let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-12;
    assert!(close(row.time.median_ns, median), "{:?}", row.time);
    assert_eq!(row.time.lower_ns, Some(row.samples_ns[0]));
    assert!(close(row.gbytes.unwrap(), 32e6 / median));
    let roofline = row.roofline.as_ref().unwrap();
    assert_eq!(
        (roofline.ceiling.as_str(), roofline.participants),
        ("L3", 1)
    );
    assert!(close(roofline.share, 32e6 / 40.0 / median), "{roofline:?}");
    let divided = report.cases[5].roofline.as_ref().unwrap();
    assert_eq!(divided.participants, 2);
    let product = report
        .cases
        .iter()
        .find(|row| row.case == "Gemm/f32 square/1024^3" && row.threads == ThreadSetting::Serial)
        .expect("a seed case");
    let roofline = product.roofline.as_ref().unwrap();
    assert_eq!(roofline.ceiling, "fma");
    assert!(close(roofline.least_ns, 2.0 * 1024_f64.powi(3) / 200.0));
    assert!((report.noise.largest.unwrap() - 0.01).abs() < 1e-12);
}

#[test]
fn lists_are_ordered_by_what_the_regions_cost() {
    let report = report();
    let names = |regions: &[RankedRegion]| -> Vec<(String, Option<String>)> {
        regions
            .iter()
            .map(|r| (r.operator.clone(), r.region.clone()))
            .collect()
    };
    let row =
        |operator: &str, region: Option<&str>| (operator.to_owned(), region.map(str::to_owned));
    assert_eq!(
        names(&report.serial_regions),
        [
            row("NonZero", None),
            row("Add", Some("elementwise.binary")),
            row("Softmax", None),
            row("MatMul", None),
            row("Add", None),
        ]
    );
    let first = &report.serial_regions[0];
    // 15 % of each of two models, of which one of two participants could take half.
    assert!((first.share - 0.3).abs() < 1e-9 && (first.score - 0.15).abs() < 1e-9);
    assert_eq!(first.serial_reason.as_ref().unwrap().category, "ordered");
    assert_eq!(first.models, ["alpha", "beta"]);
    assert_eq!(
        report.serial_regions[1].inline_reasons["below_threshold"],
        20
    );
    assert_eq!(
        names(&report.parallel_regions),
        [
            row("MatMul", Some("gemm.product")),
            row("Softmax", Some("reduce.softmax"))
        ]
    );
    let product = &report.parallel_regions[0];
    assert!(
        (product.score - 2.0 * 0.59 * 0.25).abs() < 1e-9,
        "{}",
        product.score
    );
    assert!((product.utilization.unwrap() - 0.75).abs() < 1e-9);
    let counts = &product.counters.as_ref().unwrap().counts;
    assert_eq!(counts[0].value, Some(6_000));
    assert_eq!(counts[2].value, None);
}

#[test]
fn a_model_with_dropped_events_is_not_ranked() {
    let mut report = report();
    report.models[0].complete = false;
    derive(&mut report);
    assert_eq!(report.serial_regions[0].models, ["beta"]);
}

#[test]
fn edited_samples_and_figures_are_found() {
    let untouched =
        BTreeSet::from(["digest: the document was edited after it was written".to_owned()]);
    // The largest sample decides neither median nor interval, and is found by the digest all the same.
    let largest = edited(|r| {
        let samples = &mut r.cases[0].samples_ns;
        let at = (0..samples.len()).max_by(|a, b| samples[*a].total_cmp(&samples[*b]));
        samples[at.unwrap()] *= 1.001;
    });
    assert!(found(&largest, "digest"), "{largest:?}");
    let median = edited(|r| r.cases[3].time.median_ns *= 0.9);
    assert!(found(&median, "cases[3].time.median_ns"), "{median:?}");
    let share = edited(|r| r.cases[7].roofline.as_mut().unwrap().share = 0.99);
    assert!(found(&share, "cases[7].roofline.share"), "{share:?}");
    let best = edited(|r| r.ceilings[0].fma.best = 500.0);
    assert!(found(&best, "ceilings[0].fma.best"), "{best:?}");
    let floor = edited(|r| r.noise.largest = Some(0.0));
    assert!(found(&floor, "noise.largest"), "{floor:?}");
    let score = edited(|r| r.serial_regions.swap(0, 1));
    assert!(found(&score, "serial_regions[0]"), "{score:?}");
    let fewer = edited(|r| {
        r.parallel_regions.pop();
    });
    assert!(found(&fewer, "parallel_regions"), "{fewer:?}");
    let build = edited(|r| r.head.build.dirty = true);
    assert_eq!(build.into_iter().collect::<BTreeSet<_>>(), untouched);
    let negative = edited(|r| r.cases[0].samples_ns[1] = -1.0);
    assert!(found(&negative, "not a positive"), "{negative:?}");
    let few = edited(|r| {
        r.cases[0].samples_ns.pop();
    });
    assert!(found(&few, "6 samples, the settings say 7"), "{few:?}");
}

#[test]
fn missing_and_foreign_cases_are_found_though_everything_else_is_derived_again() {
    let again = |edit: fn(&mut BaselineReport)| {
        edited(|r| {
            edit(r);
            derive(r);
        })
    };
    let missing = again(|r| {
        r.cases.remove(30);
    });
    assert_eq!(missing.len(), 1, "{missing:?}");
    assert!(found(&missing, "is missing"), "{missing:?}");
    let twice = again(|r| {
        let copy = r.cases[40].clone();
        r.cases.push(copy);
    });
    assert!(found(&twice, "listed twice"), "{twice:?}");
    let foreign = again(|r| {
        let mut row = r.cases[40].clone();
        row.case = "Abs/f32 contiguous/17".to_owned();
        r.cases.push(row);
    });
    assert!(found(&foreign, "no case of the corpus"), "{foreign:?}");
    let ceilings = again(|r| {
        r.ceilings.remove(0);
    });
    assert!(
        found(&ceilings, "ceilings of 1 participants"),
        "{ceilings:?}"
    );
    let models = again(|r| r.models.clear());
    assert!(found(&models, "no model was profiled"), "{models:?}");
    let pair = again(|r| r.noise.pairs[0].a_ns[0] *= 1.1);
    assert!(found(&pair, "other samples than its row"), "{pair:?}");
}

#[test]
fn a_case_at_a_resolved_threshold_is_no_part_of_the_corpus() {
    let mut report = report();
    let corpus = report.corpus();
    let mut row = report.cases[0].clone();
    row.case = "Abs/f32 contiguous/262144".to_owned();
    row.origin = CaseOrigin::ResolvedThreshold;
    report.cases.push(row);
    derive(&mut report);
    assert_eq!(problems(&report), Vec::<String>::new());
    assert_eq!(report.corpus(), corpus);
}

#[test]
fn names_of_cases_are_unique() {
    let names: Vec<String> = CORPUS
        .iter()
        .flat_map(|case| case.sizes.iter().map(|&size| case.name(size)))
        .collect();
    let unique: BTreeSet<&String> = names.iter().collect();
    assert_eq!(unique.len(), names.len());
}

/// A family is known by the sites of its regions.
#[test]
fn every_family_with_parameters_has_a_case() {
    let table = KernelTable::builtin();
    let with_parameters = table
        .entries()
        .iter()
        .filter(|e| e.coverage.schema().is_some());
    let families: BTreeSet<&str> = with_parameters
        .flat_map(|entry| entry.regions.iter().map(|site| site.label))
        .collect();
    let entries = CORPUS
        .iter()
        .map(|case| case.entry(&table).expect("a kernel"));
    let covered: BTreeSet<&str> = entries
        .flat_map(|entry| entry.regions.iter().map(|site| site.label))
        .collect();
    let missing: Vec<_> = families.difference(&covered).collect();
    assert!(
        missing.is_empty(),
        "no case of the corpus opens {missing:?}"
    );
    for entry in table
        .entries()
        .iter()
        .filter(|e| e.coverage.schema().is_some())
    {
        assert!(
            !entry.regions.is_empty(),
            "{} names no region",
            entry.op_type
        );
    }
}
