use super::*;
use crate::calibration::CalibrationSelection;
use crate::fixtures::{calibration_report, head};
use crate::report::{Measurement, ReportHead, read_figures, write};
use onl_tuning::statistics::SplitMix64;

fn figures(head: ReportHead, seed: u64, cases: &[(&str, f64, usize)]) -> ReportFigures {
    let mut random = SplitMix64(seed);
    let mut sample = |ns: f64| ns * (0.02 * (random.next_f64() - 0.5)).exp();
    ReportFigures {
        head,
        corpus: cases.iter().map(|case| case.0.to_owned()).collect(),
        measurements: cases
            .iter()
            .map(|&(name, ns, count)| Measurement {
                name: name.to_owned(),
                samples_ns: (0..count).map(|_| sample(ns)).collect(),
            })
            .collect(),
    }
}

fn baseline() -> ReportHead {
    head(ReportKind::Baseline, 1)
}

#[test]
fn planted_ratios_get_their_verdicts() {
    let first = figures(
        baseline(),
        1,
        &[
            ("a", 1e3, 30),
            ("b", 1e3, 30),
            ("c", 1e6, 30),
            ("d", 10.0, 3),
        ],
    );
    let second = figures(
        baseline(),
        2,
        &[
            ("a", 800.0, 30),
            ("b", 1.1e3, 25),
            ("c", 1.001e6, 40),
            ("d", 5.0, 3),
        ],
    );
    let comparison = compare(&first, &second, ComparisonRule::default()).unwrap();
    let verdicts: Vec<_> = comparison.figures.iter().map(|f| f.verdict).collect();
    assert_eq!(
        verdicts,
        [
            ComparisonVerdict::Faster,
            ComparisonVerdict::Slower,
            ComparisonVerdict::NoDifference,
            ComparisonVerdict::TooFewSamples,
        ]
    );
    let ratio = comparison.figures[0].ratio.unwrap();
    assert!(ratio.lower < 0.8 && 0.8 < ratio.upper, "{ratio:?}");
    let mean = comparison.summary.geometric_mean.unwrap();
    assert!(
        (mean - (0.8_f64 * 1.1 * 1.001).cbrt()).abs() < 0.01,
        "{mean}"
    );
    assert_eq!(comparison.differences, []);
    assert_eq!(comparison.warnings, Vec::<String>::new());
    // What is faster one way is slower the other way.
    let back = compare(&second, &first, ComparisonRule::default()).unwrap();
    assert_eq!(back.figures[0].verdict, ComparisonVerdict::Slower);
    assert!((back.summary.geometric_mean.unwrap() * mean - 1.0).abs() < 1e-9);
}

#[test]
fn what_the_margin_covers_is_no_difference() {
    let first = figures(baseline(), 1, &[("a", 1e3, 60)]);
    let second = figures(baseline(), 2, &[("a", 1.05e3, 60)]);
    let verdict = |margin| {
        let rule = ComparisonRule {
            margin,
            ..ComparisonRule::default()
        };
        compare(&first, &second, rule).unwrap().figures[0].verdict
    };
    assert_eq!(verdict(0.02), ComparisonVerdict::Slower);
    assert_eq!(verdict(0.10), ComparisonVerdict::NoDifference);
}

#[test]
fn other_kinds_and_corpora_are_refused_with_the_names() {
    let first = figures(baseline(), 1, &[("a", 1e3, 9), ("b", 1e3, 9)]);
    let second = figures(baseline(), 1, &[("b", 1e3, 9), ("c", 1e3, 9)]);
    let rule = ComparisonRule::default();
    let error = compare(&first, &second, rule).unwrap_err();
    assert_eq!(
        error.to_string(),
        "they measured different things; only the first has a; only the second has c; make both reports over the same \
         cases"
    );
    let other = figures(head(ReportKind::Attribution, 1), 1, &[("a", 1e3, 9)]);
    let error = compare(&first, &other, rule).unwrap_err().to_string();
    assert!(
        error.contains("baseline") && error.contains("attribution"),
        "{error}"
    );
}

#[test]
fn heads_are_compared_field_by_field() {
    let first = figures(baseline(), 1, &[("a", 1e3, 30)]);
    let mut other = baseline();
    other.build.dirty = true;
    other.cpu.l2_bytes = None;
    other.cpu.features = ["avx2", "avx512f"].map(str::to_owned).into();
    other.emulated = true;
    let second = figures(other, 1, &[("a", 1e3, 30)]);
    let comparison = compare(&first, &second, ComparisonRule::default()).unwrap();
    let lines: Vec<String> = comparison
        .differences
        .iter()
        .map(|d| format!("{}: {} | {}", d.field, d.first, d.second))
        .collect();
    assert_eq!(
        lines,
        [
            "build.dirty: false | true",
            "cpu.features: fma | avx512f",
            "cpu.l2_bytes: 1048576 | unknown",
            "emulated: false | true",
        ]
    );
    assert_eq!(comparison.warnings.len(), 2, "{:?}", comparison.warnings);
}

#[test]
fn two_calibrations_of_one_machine_do_not_differ() {
    let figures = |seed| {
        let selection = CalibrationSelection {
            kernels: vec!["Tanh/f32".to_owned()],
            ..CalibrationSelection::default()
        };
        read_figures(&write(&calibration_report(selection, seed)).unwrap()).unwrap()
    };
    let comparison = compare(&figures(1), &figures(2), ComparisonRule::default()).unwrap();
    assert!(comparison.figures.len() > 4, "{comparison:?}");
    assert_eq!(comparison.summary.faster + comparison.summary.slower, 0);
}
