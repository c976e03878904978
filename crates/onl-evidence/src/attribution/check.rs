//! Whether everything in a report follows from its samples, and nothing is missing.

use super::derive::{
    CONFIDENCE, LEAST_ROUNDS, agreement, comparisons, figures, noise, order, samples_digest,
};
use super::{
    Arm, AttributionReport, ModelAttribution, Phase, PhaseSample, Protocol, Quantity, Sample,
    decide,
};
use crate::report::{Finding, Measurement, Report, ReportHead, ReportKind};
use serde::Serialize;
use serde_json::Value;

/// Relative difference up to which two figures are the same: reading a decimal number may miss its last binary digit.
const TOLERANCE: f64 = 1e-9;

impl Report for AttributionReport {
    const KIND: ReportKind = ReportKind::Attribution;
    const SCHEMA: u32 = 1;

    fn head(&self) -> &ReportHead {
        &self.head
    }

    fn check(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        if self.head.kind != Self::KIND || self.head.schema != Self::SCHEMA {
            findings.push(Finding::new(
                "head",
                format!(
                    "kind {} and schema {} stand there, expected {} and {}",
                    self.head.kind,
                    self.head.schema,
                    Self::KIND,
                    Self::SCHEMA
                ),
            ));
        }
        if self.protocol.rounds < LEAST_ROUNDS {
            findings.push(Finding::new(
                "protocol.rounds",
                format!(
                    "{} rounds, at least {LEAST_ROUNDS} are needed",
                    self.protocol.rounds
                ),
            ));
        }
        if self.protocol.confidence != CONFIDENCE {
            findings.push(Finding::new(
                "protocol.confidence",
                format!("{} instead of {CONFIDENCE}", self.protocol.confidence),
            ));
        }
        if self.models.is_empty() {
            findings.push(Finding::new("models", "there is none"));
        }
        for (index, model) in self.models.iter().enumerate() {
            let place = format!("models[{index}]");
            if self.models[..index]
                .iter()
                .any(|other| other.model == model.model)
            {
                findings.push(Finding::new(&place, "the model stands there twice"));
            }
            check_model(&place, model, &self.protocol, &mut findings);
        }
        findings
    }

    fn corpus(&self) -> Vec<String> {
        self.models.iter().map(in_words).collect()
    }

    fn measurements(&self) -> Vec<Measurement> {
        let of_model = |model: &ModelAttribution| {
            let name = in_words(model);
            let mut measurements = Vec::new();
            for arm in Arm::ALL {
                for quantity in [Quantity::Load, Quantity::FirstRun, Quantity::Steady] {
                    let mut samples: Vec<&Sample> = model
                        .samples
                        .iter()
                        .filter(|sample| sample.arm == arm)
                        .collect();
                    samples.sort_by_key(|sample| sample.round);
                    let samples_ns: Vec<f64> = samples
                        .into_iter()
                        .filter_map(|sample| super::derive::quantity(sample, quantity))
                        .collect();
                    if !samples_ns.is_empty() {
                        measurements.push(Measurement {
                            name: format!("{name}, {arm}, {quantity}"),
                            samples_ns,
                        });
                    }
                }
            }
            measurements
        };
        self.models.iter().flat_map(of_model).collect()
    }
}

/// A model with its inputs, as `minilm (input_ids i64 1x128)`.
fn in_words(model: &ModelAttribution) -> String {
    let inputs: Vec<String> = model
        .model
        .inputs
        .iter()
        .map(|input| {
            let dims: Vec<String> = input.dims.iter().map(usize::to_string).collect();
            format!("{} {} {}", input.name, input.element_type, dims.join("x"))
        })
        .collect();
    format!("{} ({})", model.model.name, inputs.join(", "))
}

fn check_model(
    place: &str,
    model: &ModelAttribution,
    protocol: &Protocol,
    findings: &mut Vec<Finding>,
) {
    let before = findings.len();
    let arms = check_arms(place, model, protocol, findings);
    for round in 0..protocol.rounds {
        check_round(
            place,
            model,
            &order(&arms, protocol.order_seed, round),
            round,
            findings,
        );
    }
    for (index, sample) in model.samples.iter().enumerate() {
        check_sample(&format!("{place}.samples[{index}]"), sample, findings);
    }
    let digest = samples_digest(&model.samples);
    if model.samples_sha256 != digest {
        findings.push(Finding::new(
            format!("{place}.samples_sha256"),
            format!(
                "it is {}, the samples have {digest}: samples were changed",
                model.samples_sha256
            ),
        ));
    }
    check_operators(place, model, findings);
    // Without the samples nothing can be derived from them.
    if findings.len() > before && model.samples.is_empty() {
        return;
    }
    let expected_figures = figures(&model.samples);
    compare(
        &format!("{place}.figures"),
        &model.figures,
        &expected_figures,
        findings,
    );
    let expected_noise = noise(&model.samples);
    compare(
        &format!("{place}.noise"),
        &model.noise,
        &expected_noise,
        findings,
    );
    let expected_comparisons = comparisons(&model.samples, &expected_noise);
    compare(
        &format!("{place}.comparisons"),
        &model.comparisons,
        &expected_comparisons,
        findings,
    );
    let distance = model.outputs.onl_relative_l2;
    if distance.is_some_and(|distance| !(distance.is_finite() && distance >= 0.0)) {
        findings.push(Finding::new(
            format!("{place}.outputs.onl_relative_l2"),
            "it is no distance",
        ));
    }
    let expected_outputs = agreement(&model.samples, distance);
    compare(
        &format!("{place}.outputs"),
        &model.outputs,
        &expected_outputs,
        findings,
    );
    let expected_decision = decide(
        &expected_figures,
        &expected_noise,
        &expected_comparisons,
        &model.operators,
    );
    compare(
        &format!("{place}.decision"),
        &model.decision,
        &expected_decision,
        findings,
    );
}

/// Every arm has samples or a reason why not; those that have are returned.
fn check_arms(
    place: &str,
    model: &ModelAttribution,
    protocol: &Protocol,
    findings: &mut Vec<Finding>,
) -> Vec<Arm> {
    let mut arms = Vec::new();
    for arm in Arm::ALL {
        let samples = model
            .samples
            .iter()
            .filter(|sample| sample.arm == arm)
            .count();
        let reason = model
            .unsupported
            .iter()
            .any(|unsupported| unsupported.arm == arm);
        match (samples, reason) {
            (0, true) if matches!(arm, Arm::Onl | Arm::OnlAgain) => findings.push(Finding::new(
                format!("{place}.unsupported"),
                format!("a model that {arm} cannot run has no attribution"),
            )),
            (0, true) => {}
            (0, false) => findings.push(Finding::new(
                format!("{place}.samples"),
                format!("{arm} is missing: it has neither samples nor a reason"),
            )),
            (_, true) => findings.push(Finding::new(
                format!("{place}.unsupported"),
                format!("{arm} has samples and a reason to have none"),
            )),
            (count, false) => {
                arms.push(arm);
                if count != protocol.rounds as usize {
                    findings.push(Finding::new(
                        format!("{place}.samples"),
                        format!("{arm} has {count} samples in {} rounds", protocol.rounds),
                    ));
                }
            }
        }
    }
    arms
}

/// A round has every arm once, in its seeded order.
fn check_round(
    place: &str,
    model: &ModelAttribution,
    order: &[Arm],
    round: u32,
    findings: &mut Vec<Finding>,
) {
    let mut taken: Vec<&Sample> = model
        .samples
        .iter()
        .filter(|sample| sample.round == round)
        .collect();
    taken.sort_by_key(|sample| sample.position);
    let found: Vec<(u32, Arm)> = taken
        .iter()
        .map(|sample| (sample.position, sample.arm))
        .collect();
    let expected: Vec<(u32, Arm)> = (0..).zip(order.iter().copied()).collect();
    if found != expected {
        let words = |order: &[(u32, Arm)]| {
            let names: Vec<&str> = order.iter().map(|(_, arm)| arm.name()).collect();
            names.join(", ")
        };
        findings.push(Finding::new(
            format!("{place}.samples"),
            format!(
                "round {round} holds {}; the seed gives {}",
                words(&found),
                words(&expected)
            ),
        ));
    }
}

fn check_sample(place: &str, sample: &Sample, findings: &mut Vec<Finding>) {
    for phase in Phase::ALL {
        let PhaseSample::CombinedWith(other) = *sample.phases.get(phase) else {
            continue;
        };
        let legal = phase < Phase::Ready
            && other > phase
            && other <= Phase::Ready
            && sample.phases.get(other).wall_ns().is_some();
        if !legal {
            findings.push(Finding::new(
                format!("{place}.phases.{phase}"),
                format!("it cannot be within {other}"),
            ));
        }
    }
    let (steady, runs) = (sample.phases.steady.wall_ns(), &sample.steady);
    if runs.samples_ns.is_empty() || runs.runs_per_sample == 0 {
        findings.push(Finding::new(format!("{place}.steady"), "it has no runs"));
    }
    let sum = runs
        .samples_ns
        .iter()
        .fold(0u64, |sum, &ns| sum.saturating_add(ns));
    if steady.is_some_and(|wall| sum > wall) {
        findings.push(Finding::new(
            format!("{place}.steady"),
            format!("its runs take {sum} ns, more than the phase that they are in"),
        ));
    }
    if sample.outputs.is_empty() {
        findings.push(Finding::new(format!("{place}.outputs"), "there are none"));
    }
}

fn check_operators(place: &str, model: &ModelAttribution, findings: &mut Vec<Finding>) {
    let table = &model.operators;
    for (index, row) in table.operators.iter().enumerate() {
        let times = [
            (row.onl_nodes, row.onl_ns),
            (row.onnxruntime_nodes, row.onnxruntime_ns),
        ];
        let wrong =
            |(nodes, ns): (u64, f64)| !(ns.is_finite() && ns >= 0.0) || (nodes == 0 && ns != 0.0);
        if times.into_iter().any(wrong) {
            findings.push(Finding::new(
                format!("{place}.operators.operators[{index}]"),
                "a time is none, or belongs to no node",
            ));
        }
    }
    let onl_ran = table.operators.iter().any(|row| row.onl_nodes > 0);
    if table.onl_runs == 0 || !onl_ran && !table.operators.is_empty() {
        findings.push(Finding::new(
            format!("{place}.operators"),
            "the profile of onl is missing",
        ));
    }
}

/// Finds where two values of one type differ.
fn compare<T: Serialize>(place: &str, found: &T, expected: &T, findings: &mut Vec<Finding>) {
    match (serde_json::to_value(found), serde_json::to_value(expected)) {
        (Ok(found), Ok(expected)) => differences(place, &found, &expected, findings),
        _ => findings.push(Finding::new(place, "it cannot be written as JSON")),
    }
}

fn differences(place: &str, found: &Value, expected: &Value, findings: &mut Vec<Finding>) {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            for (name, expected) in expected {
                let found = found.get(name).unwrap_or(&Value::Null);
                differences(&format!("{place}.{name}"), found, expected, findings);
            }
        }
        (Value::Array(found), Value::Array(expected)) if found.len() == expected.len() => {
            for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
                differences(&format!("{place}[{index}]"), found, expected, findings);
            }
        }
        (Value::Number(a), Value::Number(b)) if close(a.as_f64(), b.as_f64()) => {}
        (found, expected) if found == expected => {}
        (found, expected) => findings.push(Finding::new(
            place,
            format!("it is {found}, the samples give {expected}"),
        )),
    }
}

fn close(a: Option<f64>, b: Option<f64>) -> bool {
    let Some((a, b)) = a.zip(b) else {
        return false;
    };
    (a - b).abs() <= TOLERANCE * a.abs().max(b.abs())
}
