//! What of a calibration's report does not follow from its samples.

use super::{CalibratedKernel, CalibrationReport, evidence_digest, selected_values};
use crate::report::Finding;
use onl_kernels::{Coverage, KernelTable};
use onl_snapshot::{KernelKey, ParameterRow, Schema, ValueSource};
use onl_tuning::evidence::Process;
use onl_tuning::process::Outcome;
use onl_tuning::{CalibrationSettings, KeyEvidence, replay};
use std::collections::BTreeMap;

/// Findings about one report.
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, place: impl Into<String>, problem: impl Into<String>) {
        self.0.push(Finding::new(place, problem));
    }
}

/// Calibratable kernels of this build with their schemas.
fn calibratable() -> BTreeMap<KernelKey, &'static Schema> {
    let table = KernelTable::builtin();
    let mut keys = BTreeMap::new();
    for entry in table.entries() {
        if let Coverage::Calibratable { schema, .. } = &entry.coverage {
            for &element_type in entry.element_types {
                keys.insert(entry.key(element_type), schema());
            }
        }
    }
    keys
}

/// Settings whose budgets do not count.
fn timeless(settings: &CalibrationSettings) -> CalibrationSettings {
    CalibrationSettings {
        total_budget_ns: None,
        ..settings.clone()
    }
}

pub(super) fn check(report: &CalibrationReport) -> Vec<Finding> {
    let mut findings = Findings(Vec::new());
    let known = calibratable();
    check_setup(report, &known, &mut findings);
    let names: Vec<&KernelKey> = report.kernels.iter().map(|k| &k.key).collect();
    for (index, key) in report.plan.iter().enumerate() {
        match names.iter().filter(|name| **name == key).count() {
            1 => {}
            0 => findings.add(
                "kernels",
                format!("{key} of the plan is missing; the plan names it at {index}"),
            ),
            n => findings.add("kernels", format!("{key} is there {n} times")),
        }
    }
    for (index, kernel) in report.kernels.iter().enumerate() {
        let place = format!("kernels[{index}]");
        if !report.plan.contains(&kernel.key) {
            findings.add(&place, format!("{} is not in the plan", kernel.key));
        }
        check_kernel(
            report,
            kernel,
            known.get(&kernel.key),
            &place,
            &mut findings,
        );
    }
    findings.0
}

fn check_setup(
    report: &CalibrationReport,
    known: &BTreeMap<KernelKey, &'static Schema>,
    findings: &mut Findings,
) {
    let defaults = CalibrationSettings::default();
    if report.settings.rule != defaults.rule {
        findings.add("settings.rule", "it is not the decision rule of this build");
    }
    if report.settings.limits != defaults.limits {
        findings.add(
            "settings.limits",
            "they are not the limits of noise of this build",
        );
    }
    let costs = [
        ("hot_ns", report.lane_costs.hot_ns),
        ("cold_ns", report.lane_costs.cold_ns),
    ];
    for (name, ns) in costs {
        if !(ns.is_finite() && ns >= 0.0) {
            findings.add(
                format!("lane_costs.{name}"),
                format!("{ns} is no number of nanoseconds"),
            );
        }
    }
    if let Some(ceilings) = &report.ceilings {
        let rates = ceilings.bandwidth.iter().map(|level| level.bytes_per_ns);
        if !rates
            .chain([ceilings.flops_per_ns])
            .all(|rate| rate.is_finite() && rate >= 0.0)
        {
            findings.add("ceilings", "a rate is not a positive number");
        }
        let evidence = report.kernels.iter().flat_map(|kernel| &kernel.evidence);
        let mut measured = evidence.filter_map(|record| record.ceilings.as_ref());
        if !measured.any(|other| other == ceilings) {
            findings.add("ceilings", "no kernel was measured under these ceilings");
        }
    }
    let digest = &report.journal_sha256;
    if digest.len() != 64 || !digest.bytes().all(|b| b.is_ascii_hexdigit()) {
        findings.add("journal_sha256", "it is not a SHA-256 digest");
    }
    if !report.selection.only_missing {
        let asked = known.keys().filter(|key| report.selection.holds(key));
        for key in asked.filter(|key| !report.plan.contains(key)) {
            findings.add(
                "plan",
                format!(
                    "{key} revision {} was asked for and is missing",
                    key.revision
                ),
            );
        }
    }
    for key in report
        .plan
        .iter()
        .filter(|key| !report.selection.holds(key))
    {
        findings.add("plan", format!("{key} was not asked for"));
    }
}

fn check_kernel(
    report: &CalibrationReport,
    kernel: &CalibratedKernel,
    schema: Option<&&'static Schema>,
    place: &str,
    findings: &mut Findings,
) {
    let key = &kernel.key;
    let digest = evidence_digest(&kernel.evidence);
    if digest != kernel.evidence_sha256 {
        findings.add(
            format!("{place}.evidence_sha256"),
            format!(
                "{key}: the evidence has digest {digest}, the report says {}; samples or decisions were changed",
                kernel.evidence_sha256
            ),
        );
    }
    for (index, evidence) in kernel.evidence.iter().enumerate() {
        let place = format!("{place}.evidence[{index}]");
        check_record(report, kernel, evidence, index, schema, &place, findings);
    }
    check_outcome(kernel, place, findings);
    check_values(kernel, schema, place, findings);
}

fn check_record(
    report: &CalibrationReport,
    kernel: &CalibratedKernel,
    evidence: &KeyEvidence,
    index: usize,
    schema: Option<&&'static Schema>,
    place: &str,
    findings: &mut Findings,
) {
    let key = &kernel.key;
    let expected = match index {
        0 => Process::First,
        _ => Process::Second,
    };
    if index > 1 || evidence.process != expected {
        findings.add(
            format!("{place}.process"),
            format!("{key}: records are those of a first and a second process, in this order"),
        );
    }
    if evidence.key != *key {
        findings.add(
            format!("{place}.key"),
            format!("it is of {}, expected {key}", evidence.key),
        );
    }
    if evidence.execution != report.head.execution {
        findings.add(
            format!("{place}.execution"),
            format!("{key} was measured under another execution than the report's"),
        );
    }
    if timeless(&evidence.settings) != timeless(&report.settings) {
        findings.add(
            format!("{place}.settings"),
            format!("{key} was measured with other settings than the report's"),
        );
    }
    if let Some(schema) = schema {
        if evidence.default != schema.defaults() {
            findings.add(
                format!("{place}.default"),
                format!("{key}: it is not the portable default of this build"),
            );
        }
        if let Some(Err(error)) = evidence.chosen.as_ref().map(|row| schema.check_row(row)) {
            findings.add(format!("{place}.chosen"), format!("{key}: {error}"));
        }
    }
    if evidence.decision.is_none() {
        if evidence.stopped.is_none() {
            findings.add(
                format!("{place}.decision"),
                format!("{key} was measured to its end and has no decision"),
            );
        }
        return;
    }
    match replay(evidence, None, None) {
        Err(error) => findings.add(place, error.to_string()),
        Ok(replayed) => {
            // Equal text of a number means equal bits.
            let text = |value| serde_json::to_string(&value).unwrap_or_default();
            let stored = text(&evidence.decision);
            let derived = text(&Some(replayed.decision));
            if stored != derived {
                findings.add(
                    format!("{place}.decision"),
                    format!("{key}: the samples lead to {derived}, the report says {stored}"),
                );
            } else if !replayed.agrees {
                findings.add(
                    format!("{place}.search"),
                    format!("{key}: cost model, choice or row do not follow from the samples"),
                );
            }
        }
    }
}

/// Compares the outcome with what the samples lead to.
fn check_outcome(kernel: &CalibratedKernel, place: &str, findings: &mut Findings) {
    let key = &kernel.key;
    let place = format!("{place}.outcome");
    match Outcome::from_samples(&kernel.evidence) {
        Some(derived) if derived != kernel.outcome => {
            let text = |outcome| serde_json::to_string(outcome).unwrap_or_default();
            findings.add(
                place,
                format!(
                    "{key}: the samples lead to {}, the report says {}",
                    text(&derived),
                    text(&kernel.outcome)
                ),
            );
        }
        Some(_) => {}
        None => {
            let undecided = matches!(
                kernel.outcome,
                Outcome::NotMeasured { .. } | Outcome::Failed { .. } | Outcome::TooNoisy { .. }
            );
            if !undecided {
                findings.add(
                    place,
                    format!(
                        "{key}: the report says {}, and there are no samples of both processes for it",
                        kernel.outcome.name()
                    ),
                );
            }
        }
    }
}

/// Compares the values in use with schema and outcome.
fn check_values(
    kernel: &CalibratedKernel,
    schema: Option<&&'static Schema>,
    place: &str,
    findings: &mut Findings,
) {
    let key = &kernel.key;
    let place = format!("{place}.values");
    let Some(schema) = schema else {
        findings.add(
            place,
            format!(
                "this build has no calibratable kernel {key} of revision {}",
                key.revision
            ),
        );
        return;
    };
    let row = kernel.values.iter();
    let row: BTreeMap<_, _> = row
        .map(|v| (v.parameter.clone(), v.value.clone()))
        .collect();
    let row = ParameterRow(row);
    if let Err(error) = schema.check_row(&row) {
        findings.add(place, format!("{key}: {error}"));
        return;
    }
    let decided = match &kernel.outcome {
        Outcome::Promoted { values, .. } | Outcome::DefaultConfirmed { values, .. } => {
            if *values != row {
                findings.add(
                    &place,
                    format!("{key}: the outcome chose [{values}], in use is [{row}]"),
                );
            }
            true
        }
        _ => false,
    };
    let source = kernel.values.first().map(|v| v.source);
    if let Some(source) = source {
        if kernel.values != selected_values(&schema.defaults(), &row, source) {
            findings.add(
                &place,
                format!("{key}: defaults, sources or order are not those of one resolved row"),
            );
        }
        if decided && source != ValueSource::ExactExecution {
            findings.add(
                &place,
                format!("{key} was decided and saved, but its values come from {source}"),
            );
        }
    }
}
