//! What of a baseline report does not follow from its raw figures, or is missing.

use super::BaselineReport;
use super::corpus::CORPUS;
use super::derive::derive;
use super::report::{CaseOrigin, CaseRow, ThreadSetting};
use crate::report::Finding;
use serde_json::Value;
use std::collections::BTreeMap;

/// Findings of one kind are summed up beyond so many.
const MOST: usize = 20;

pub(super) fn check(report: &BaselineReport) -> Vec<Finding> {
    let mut findings = Vec::new();
    samples(report, &mut findings);
    ceilings(report, &mut findings);
    missing_cases(report, &mut findings);
    differences(report, &mut findings);
    findings
}

/// Derives the report again and names every figure that comes out otherwise.
fn differences(report: &BaselineReport, findings: &mut Vec<Finding>) {
    let mut derived = report.clone();
    derive(&mut derived);
    let document = |report: &BaselineReport| serde_json::to_value(report).unwrap_or_default();
    let (found, expected) = (document(report), document(&derived));
    let mut different = Vec::new();
    compare(String::new(), &found, &expected, &mut different);
    let count = different.len();
    findings.extend(different.into_iter().take(MOST));
    if count > MOST {
        let more = format!("{} more figures do not follow", count - MOST);
        findings.push(Finding::new("", more));
    }
}

fn compare(place: String, found: &Value, expected: &Value, different: &mut Vec<Finding>) {
    match (found, expected) {
        (Value::Object(a), Value::Object(b)) => {
            for (name, value) in a {
                let place = if place.is_empty() {
                    name.clone()
                } else {
                    format!("{place}.{name}")
                };
                compare(place, value, b.get(name).unwrap_or(&Value::Null), different);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                compare(format!("{place}[{index}]"), a, b, different);
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            let problem = format!(
                "it has {} entries, the raw figures give {}",
                a.len(),
                b.len()
            );
            different.push(Finding::new(place, problem));
        }
        (Value::Number(a), Value::Number(b)) if close(a.as_f64(), b.as_f64()) => {}
        (a, b) if a == b => {}
        _ if place == "digest" => different.push(Finding::new(
            place,
            "the document was edited after it was written",
        )),
        (a, b) => different.push(Finding::new(
            place,
            format!("it is {a}, the raw figures give {b}"),
        )),
    }
}

/// Whether two figures differ by no more than what mathematical libraries of two systems do.
fn close(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * a.abs().max(b.abs()),
        _ => false,
    }
}

fn samples(report: &BaselineReport, findings: &mut Vec<Finding>) {
    let legal = |ns: &f64| ns.is_finite() && *ns > 0.0;
    let expected = report.settings.repeat as usize;
    let check = |place: String, samples: &[f64], findings: &mut Vec<Finding>| {
        if samples.len() != expected {
            let problem = format!("{} samples, the settings say {expected}", samples.len());
            findings.push(Finding::new(place.clone(), problem));
        }
        if !samples.iter().all(legal) {
            let problem = "a sample is not a positive number of nanoseconds";
            findings.push(Finding::new(place, problem));
        }
    };
    for (index, row) in report.cases.iter().enumerate() {
        check(
            format!("cases[{index}].samples_ns"),
            &row.samples_ns,
            findings,
        );
    }
    for (index, pair) in report.noise.pairs.iter().enumerate() {
        check(format!("noise.pairs[{index}].a_ns"), &pair.a_ns, findings);
        check(format!("noise.pairs[{index}].b_ns"), &pair.b_ns, findings);
        // The first arm is the case's own row.
        let own = report
            .cases
            .iter()
            .find(|row| row.case == pair.case && row.threads == pair.threads);
        if own.is_none_or(|row| row.samples_ns != pair.a_ns) {
            let problem = format!("case '{}' has other samples than its row", pair.case);
            findings.push(Finding::new(format!("noise.pairs[{index}]"), problem));
        }
    }
}

fn ceilings(report: &BaselineReport, findings: &mut Vec<Finding>) {
    let lanes = report.policy.session.participants;
    for participants in [1, lanes] {
        let ceilings = report
            .ceilings
            .iter()
            .find(|c| c.participants == participants);
        let complete = ceilings.is_some_and(|c| {
            let mut rates = c
                .bandwidth
                .iter()
                .flat_map(|level| [&level.read, &level.add, &level.copy, &level.write]);
            !c.bandwidth.is_empty() && c.fma.best > 0.0 && rates.all(|rate| rate.best > 0.0)
        });
        if !complete {
            let problem = format!("no complete ceilings of {participants} participants");
            findings.push(Finding::new("ceilings", problem));
        }
    }
    if report.head.execution != report.policy.session {
        findings.push(Finding::new(
            "policy.session",
            "it is not the execution of the head",
        ));
    }
}

/// Every case of the corpus has a row for each thread setting, and every other row is one that a threshold added.
fn missing_cases(report: &BaselineReport, findings: &mut Vec<Finding>) {
    let mut rows: BTreeMap<(&str, ThreadSetting), Vec<&CaseRow>> = BTreeMap::new();
    for row in &report.cases {
        rows.entry((&row.case, row.threads)).or_default().push(row);
    }
    let mut known = Vec::new();
    for case in CORPUS {
        for &size in case.sizes {
            let name = case.name(size);
            for threads in ThreadSetting::ALL {
                match rows.get(&(name.as_str(), threads)).map(Vec::as_slice) {
                    Some([row]) if row.origin == CaseOrigin::Corpus => {}
                    Some([_]) => findings.push(Finding::new(
                        "cases",
                        format!("case '{name}' is not marked as one of the corpus"),
                    )),
                    Some(_) => findings.push(Finding::new(
                        "cases",
                        format!("case '{name}', {} is listed twice", threads.name()),
                    )),
                    None => findings.push(Finding::new(
                        "cases",
                        format!("case '{name}', {} is missing", threads.name()),
                    )),
                }
            }
            known.push(name);
        }
    }
    for (index, row) in report.cases.iter().enumerate() {
        if row.origin == CaseOrigin::Corpus && !known.contains(&row.case) {
            let problem = format!("'{}' is no case of the corpus", row.case);
            findings.push(Finding::new(format!("cases[{index}].case"), problem));
        }
    }
    if report.models.is_empty() {
        let problem = "no model was profiled, so the lists rank nothing";
        findings.push(Finding::new("models", problem));
    }
}
