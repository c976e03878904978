//! Reports whose kind is found in them.

use super::{
    Finding, Measurement, Report, ReportError, ReportHead, ReportKind, kind_of, not_a_report, read,
};
use crate::attribution::AttributionReport;
use crate::baseline::BaselineReport;
use crate::calibration::CalibrationReport;
use serde_json::Value;

/// What reports are compared by.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportFigures {
    /// Its head.
    pub head: ReportHead,
    /// What was measured, in words.
    pub corpus: Vec<String>,
    /// Every figure with its samples.
    pub measurements: Vec<Measurement>,
}

/// What a check of a report's text came to.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedReport {
    /// Its head.
    pub head: ReportHead,
    /// What does not follow from its samples or is missing; empty when all is well.
    pub findings: Vec<Finding>,
}

/// Reads a report of any kind for comparison.
///
/// # Errors
/// Every [`ReportError`].
pub fn read_figures(text: &str) -> Result<ReportFigures, ReportError> {
    fn of<R: Report>(text: &str) -> Result<ReportFigures, ReportError> {
        let report: R = read(text)?;
        Ok(ReportFigures {
            head: report.head().clone(),
            corpus: report.corpus(),
            measurements: report.measurements(),
        })
    }
    match kind_of(text)? {
        ReportKind::Baseline => of::<BaselineReport>(text),
        ReportKind::Calibration => of::<CalibrationReport>(text),
        ReportKind::Attribution => of::<AttributionReport>(text),
    }
}

/// Checks the text of a report of any kind. Beside what the kind's own check finds, fields that this build does not know
/// and numbers that it would write otherwise are findings: such a text was not written by a build of this version.
///
/// # Errors
/// Every [`ReportError`].
pub fn check_text(text: &str) -> Result<CheckedReport, ReportError> {
    fn of<R: Report>(text: &str) -> Result<CheckedReport, ReportError> {
        let report: R = read(text)?;
        let document: Value = serde_json::from_str(text).map_err(|error| not_a_report(&error))?;
        let written = serde_json::to_value(&report).map_err(|error| not_a_report(&error))?;
        let mut findings = Vec::new();
        if let Some(finding) = difference(&document, &written, String::new()) {
            findings.push(finding);
        }
        findings.extend(report.check());
        Ok(CheckedReport {
            head: report.head().clone(),
            findings,
        })
    }
    match kind_of(text)? {
        ReportKind::Baseline => of::<BaselineReport>(text),
        ReportKind::Calibration => of::<CalibrationReport>(text),
        ReportKind::Attribution => of::<AttributionReport>(text),
    }
}

/// The first place at which a document differs from what this build writes for it.
fn difference(document: &Value, written: &Value, place: String) -> Option<Finding> {
    match (document, written) {
        (Value::Object(found), Value::Object(known)) => {
            let below = |name: &str| match place.as_str() {
                "" => name.to_owned(),
                place => format!("{place}.{name}"),
            };
            let unknown = found.keys().find(|name| !known.contains_key(*name));
            if let Some(name) = unknown {
                return Some(Finding::new(below(name), "this build knows no such field"));
            }
            known
                .iter()
                .find_map(|(name, value)| match found.get(name) {
                    Some(other) => difference(other, value, below(name)),
                    None => Some(Finding::new(below(name), "the field is missing")),
                })
        }
        (Value::Array(found), Value::Array(known)) if found.len() == known.len() => {
            let mut pairs = found.iter().zip(known).enumerate();
            pairs.find_map(|(i, (a, b))| difference(a, b, format!("{place}[{i}]")))
        }
        (found, known) if found == known => None,
        (found, known) => Some(Finding::new(
            place,
            format!("it is {found}, this build writes {known}"),
        )),
    }
}
