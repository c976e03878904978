use super::*;
use crate::fixtures::calibration_report;
use crate::report::{check_text, write};
use onl_tuning::decision::Verdict;

fn selected(kernels: &[&str]) -> CalibrationSelection {
    CalibrationSelection {
        kernels: kernels.iter().map(|k| (*k).to_owned()).collect(),
        ..CalibrationSelection::default()
    }
}

fn report() -> CalibrationReport {
    calibration_report(selected(&["Tanh/f32", "Gemm/f32"]), 1)
}

/// Places of all findings.
fn places(report: &CalibrationReport) -> Vec<String> {
    let findings = report.check().into_iter();
    findings.map(|finding| finding.place).collect()
}

fn index(report: &CalibrationReport, kernel: &str) -> usize {
    let mut kernels = report.kernels.iter();
    kernels
        .position(|k| k.key.kernel == kernel)
        .expect("the kernel is there")
}

#[test]
fn a_report_as_it_was_measured_has_no_findings() {
    let report = report();
    assert_eq!(report.check(), []);
    let tanh = &report.kernels[index(&report, "Tanh")];
    assert_eq!(tanh.outcome.name(), "promoted", "{:?}", tanh.outcome);
    assert_eq!(tanh.evidence.len(), 2);
    let checked = check_text(&write(&report).unwrap()).unwrap();
    assert_eq!(checked.findings, []);
}

#[test]
fn an_edited_sample_is_found_by_its_digest_and_by_its_decision() {
    let mut report = report();
    let tanh = index(&report, "Tanh");
    let evidence = &mut report.kernels[tanh].evidence[1];
    evidence.samples.workloads[0].pairs[0].second_ns *= 1.5;
    let found = places(&report);
    assert!(
        found.contains(&format!("kernels[{tanh}].evidence_sha256")),
        "{found:?}"
    );

    // With the digest made anew, the decision gives it away.
    for workload in &mut report.kernels[tanh].evidence[1].samples.workloads {
        for pair in &mut workload.pairs {
            pair.second_ns *= 4.0;
        }
    }
    report.kernels[tanh].evidence_sha256 = evidence_digest(&report.kernels[tanh].evidence);
    let found = places(&report);
    assert!(
        found.contains(&format!("kernels[{tanh}].evidence[1].decision")),
        "{found:?}"
    );
    assert!(
        found.contains(&format!("kernels[{tanh}].outcome")),
        "{found:?}"
    );
}

#[test]
fn an_outcome_that_does_not_follow_is_found_with_a_consistent_digest() {
    let mut report = report();
    let tanh = index(&report, "Tanh");
    let kernel = &mut report.kernels[tanh];
    let Outcome::Promoted { ratio, .. } = &mut kernel.outcome else {
        panic!("it is promoted");
    };
    ratio.estimate *= 0.5;
    assert_eq!(places(&report), [format!("kernels[{tanh}].outcome")]);

    // A default that is called promoted because a record's decision says so.
    let mut report = self::report();
    let kernel = &mut report.kernels[tanh];
    let decision = kernel.evidence[0].decision.as_mut().unwrap();
    decision.verdict = Verdict::TooNoisy;
    kernel.evidence_sha256 = evidence_digest(&kernel.evidence);
    assert_eq!(
        places(&report),
        [format!("kernels[{tanh}].evidence[0].decision")]
    );

    // A promotion whose samples are gone.
    let mut report = self::report();
    report.kernels[tanh].evidence.pop();
    report.kernels[tanh].evidence_sha256 = evidence_digest(&report.kernels[tanh].evidence);
    assert_eq!(places(&report), [format!("kernels[{tanh}].outcome")]);
}

#[test]
fn missing_kernels_and_a_shorter_plan_are_found() {
    let mut report = report();
    let removed = report.kernels.remove(0);
    assert_eq!(places(&report), ["kernels"]);
    report.plan.retain(|key| *key != removed.key);
    assert_eq!(places(&report), ["plan"]);
}

#[test]
fn values_that_are_not_the_chosen_ones_or_not_legal_are_found() {
    let mut report = report();
    let tanh = index(&report, "Tanh");
    let values = |report: &mut CalibrationReport, value: i64| {
        let values = &mut report.kernels[tanh].values;
        let threshold = values
            .iter_mut()
            .find(|v| v.parameter == "parallel.minimum_elements");
        threshold.expect("a threshold").value = ParameterValue::Integer(value);
    };
    values(&mut report, 77);
    let found = report.check();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].problem.contains("the outcome chose"), "{found:?}");
    values(&mut report, -5);
    let found = report.check();
    assert!(found[0].problem.contains("-5"), "{found:?}");
}

#[test]
fn weaker_rules_and_other_executions_are_found() {
    let mut report = report();
    report.settings.rule.alpha = 0.4;
    let found = places(&report);
    assert!(found.contains(&"settings.rule".to_owned()), "{found:?}");
    let mut report = self::report();
    report.head.execution.participants = 3;
    let found = places(&report);
    assert!(
        found.contains(&"kernels[0].evidence[0].execution".to_owned()),
        "{found:?}"
    );
}

#[test]
fn fields_that_no_build_writes_are_found() {
    let text = write(&report()).unwrap();
    let edited = text.replacen("\"flops\":", "\"flop\": 1, \"flops\":", 1);
    let checked = check_text(&edited).unwrap();
    assert_eq!(checked.findings.len(), 1, "{:?}", checked.findings);
    assert!(
        checked.findings[0].place.ends_with(".flop"),
        "{:?}",
        checked.findings
    );
}
