//! `onl compare` and `onl check-report` on reports of all three kinds.

use onl_evidence::calibration::CalibrationSelection;
use onl_evidence::fixtures::{attribution_report, baseline_report, calibration_report};
use onl_evidence::report::{Report, write};
use onl_tests::onl;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Output;

/// Writes a report to a folder.
fn file<R: Report>(folder: &Path, name: &str, report: &R) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, write(report).expect("a report has a JSON form")).expect("writable");
    path
}

fn run(arguments: &[&str], files: &[&Path]) -> Output {
    onl()
        .args(arguments)
        .args(files)
        .output()
        .expect("onl starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

fn tanh() -> CalibrationSelection {
    CalibrationSelection {
        kernels: vec!["Tanh/f32".to_owned()],
        ..CalibrationSelection::default()
    }
}

#[test]
fn two_calibrations_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let first = file(folder.path(), "a.json", &calibration_report(tanh(), 1));
    let mut other = calibration_report(tanh(), 2);
    other.head.build.commit = "f".repeat(40);
    other.head.cpu.l2_bytes = Some(2 << 20);
    let second = file(folder.path(), "b.json", &other);
    let output = run(&["compare"], &[&first, &second]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    insta::assert_snapshot!(text(&output.stdout));
}

#[test]
fn slower_cases_are_named_in_the_document_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let first = file(folder.path(), "a.json", &baseline_report(1, 1.0));
    let second = file(folder.path(), "b.json", &baseline_report(2, 1.25));
    let output = run(&["compare", "--json"], &[&first, &second]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["kind"], "baseline");
    let figures = document["figures"].as_array().unwrap();
    assert!(figures.len() > 20);
    assert!(figures.iter().all(|figure| figure["verdict"] == "slower"));
    assert_eq!(document["summary"]["slower"], figures.len());
    let mean = document["summary"]["geometric_mean"].as_f64().unwrap();
    assert!((mean - 1.25).abs() < 0.01, "{mean}");
    let attribution = file(folder.path(), "c.json", &attribution_report(1));
    let again = file(folder.path(), "d.json", &attribution_report(2));
    let output = run(&["compare", "--json"], &[&attribution, &again]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["summary"]["faster"], 0, "{document}");
    assert_eq!(document["summary"]["slower"], 0, "{document}");
}

#[test]
fn kinds_schemas_and_corpora_that_differ_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let calibration = file(
        folder.path(),
        "calibration.json",
        &calibration_report(tanh(), 1),
    );
    let attribution = file(folder.path(), "attribution.json", &attribution_report(1));
    let refused = |first: &Path, second: &Path| {
        let output = run(&["compare"], &[first, second]);
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty());
        text(&output.stderr)
    };
    let reason = refused(&calibration, &attribution);
    assert!(
        reason.contains("of kind calibration") && reason.contains("attribution"),
        "{reason}"
    );

    let mut other = calibration_report(tanh(), 1);
    other.head.schema = 77;
    let newer = file(folder.path(), "newer.json", &other);
    let reason = refused(&calibration, &newer);
    assert!(reason.contains("version 77"), "{reason}");

    let log = CalibrationSelection {
        kernels: vec!["Log/f32".to_owned()],
        ..CalibrationSelection::default()
    };
    let others = file(folder.path(), "log.json", &calibration_report(log, 1));
    let reason = refused(&calibration, &others);
    assert!(
        reason.contains("only the first has onl/Tanh/vector/f32"),
        "{reason}"
    );
    assert!(
        reason.contains("only the second has onl/Log/vector/f32"),
        "{reason}"
    );

    let reason = refused(&calibration, &path("none.json"));
    assert!(reason.contains("none.json"), "{reason}");
    std::fs::write(path("text.json"), "{}").unwrap();
    let reason = refused(&calibration, &path("text.json"));
    assert!(reason.contains("it is not a report"), "{reason}");
}

#[test]
fn checks_end_with_1_and_name_what_they_find() {
    let folder = tempfile::tempdir().unwrap();
    let good = [
        file(folder.path(), "a.json", &calibration_report(tanh(), 1)),
        file(folder.path(), "b.json", &baseline_report(1, 1.0)),
        file(folder.path(), "c.json", &attribution_report(1)),
    ];
    for path in &good {
        let output = run(&["check-report"], &[path]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    }
    let mut baseline = baseline_report(1, 1.0);
    baseline.cases[0].samples_ns[0] *= 3.0;
    let mut attribution = attribution_report(1);
    attribution.models[0].samples[0].steady.samples_ns[0] += 1;
    let bad = [
        file(folder.path(), "d.json", &baseline),
        file(folder.path(), "e.json", &attribution),
    ];
    for path in &bad {
        let output = run(&["check-report", "--json"], &[path]);
        assert_eq!(output.status.code(), Some(1));
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let findings = document["findings"].as_array().unwrap();
        assert!(!findings.is_empty(), "{}", path.display());
    }
}
