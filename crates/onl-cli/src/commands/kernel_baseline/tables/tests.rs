use super::*;
use onl_evidence::baseline::{derive, fixture};

/// The rendering of a part of the fixture.
fn rendered(edit: impl FnOnce(&mut BaselineReport), top: usize) -> String {
    let mut report = fixture::report();
    let shown = ["Abs/", "Gemm/f32 square", "NonZero"];
    report
        .cases
        .retain(|row| shown.iter().any(|case| row.case.starts_with(case)));
    edit(&mut report);
    derive(&mut report);
    Rendering {
        report: &report,
        top,
    }
    .to_string()
}

#[test]
fn a_report_in_tables() {
    insta::assert_snapshot!("report", rendered(|_| (), 20));
}

#[test]
fn what_is_missing_is_said() {
    let without_models = rendered(
        |report| {
            report.cases.truncate(2);
            report.cases[1].samples_ns.truncate(2);
            report.noise.pairs.clear();
            report.models.clear();
        },
        20,
    );
    insta::assert_snapshot!("without_models", without_models);
    let short = rendered(
        |report| {
            report.cases.truncate(1);
            report.models[1].complete = false;
        },
        1,
    );
    insta::assert_snapshot!("short", short);
}
