//! Drift: whether promoted rows still beat the default, on a few fresh pairs.
//!
//! A check reads and measures; it changes no saved choice. What it finds is a [`DriftReport`] that pruning can act on.

use crate::calibrator::{CalibrationSettings, Calibrator, Controls};
use crate::decision::{ConfirmationSamples, DecisionRule, Pair};
use crate::process::{KeyResult, Outcome, Proposal, Proposals};
use crate::statistics::{RatioInterval, WalshAverages};
use onl_cpu::CpuExecutionDescriptor;
use onl_snapshot::{CalibrationTarget, KernelKey};
use serde::{Deserialize, Serialize};

/// Version of the drift reports that this crate writes and reads.
pub const DRIFT_SCHEMA: u32 = 1;

/// When a row counts as drifted.
#[derive(Debug, Clone, PartialEq)]
pub struct DriftRule {
    /// Pairs per workload.
    pub pairs: u32,
    /// Two-sided confidence of the ratio's interval.
    pub confidence: f64,
    /// Gain that promoted rows once proved; half of it must still be possible.
    pub margin: f64,
    /// Most slow-down of one workload, as for promotion.
    pub regression_limit: f64,
    /// Two-sided level at which the placebo counts as distinguishable, and the difference that does not matter.
    pub placebo: (f64, f64),
}

impl Default for DriftRule {
    fn default() -> Self {
        let promotion = DecisionRule::default();
        DriftRule {
            pairs: 20,
            confidence: 0.99,
            margin: promotion.margin,
            regression_limit: promotion.regression_limit,
            placebo: (promotion.placebo_alpha, promotion.placebo_tolerance),
        }
    }
}

/// What became of a promoted row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriftVerdict {
    /// It is still faster than the default, with certainty.
    Holds,
    /// It is not faster by half the margin, or a workload is slower than allowed, with certainty.
    Drifted,
    /// The pairs do not say.
    Undecided,
}

impl DriftVerdict {
    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            DriftVerdict::Holds => "holds",
            DriftVerdict::Drifted => "drifted",
            DriftVerdict::Undecided => "undecided",
        }
    }
}

/// The check of one row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DriftRow {
    /// Kernel, as `onl/Gemm/packed/f32`.
    pub key: String,
    /// Revision of the kernel that was measured.
    pub revision: u32,
    /// What became of it.
    pub verdict: DriftVerdict,
    /// Why.
    #[serde(default)]
    pub reason: String,
    /// Its time over the default's; absent when there were too few pairs.
    #[serde(default)]
    pub ratio: Option<RatioInterval>,
    /// Pairs per workload.
    #[serde(default)]
    pub pairs: u32,
}

/// The check of all promoted rows of one execution identity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DriftReport {
    /// Version of the report's form.
    pub schema: u32,
    /// `drift`.
    pub kind: String,
    /// Execution identity.
    pub execution: CpuExecutionDescriptor,
    /// One per promoted row.
    pub kernels: Vec<DriftRow>,
}

impl DriftReport {
    /// A report of this version.
    pub fn new(execution: CpuExecutionDescriptor, kernels: Vec<DriftRow>) -> Self {
        DriftReport {
            schema: DRIFT_SCHEMA,
            kind: "drift".to_owned(),
            execution,
            kernels,
        }
    }

    /// Reads a report from its JSON text.
    ///
    /// # Errors
    /// A sentence that says why the text is no such report.
    pub fn from_json(text: &[u8]) -> Result<Self, String> {
        let report: DriftReport = serde_json::from_slice(text)
            .map_err(|error| format!("it is no drift report: {error}"))?;
        if report.kind != "drift" {
            return Err(format!("its kind is '{}', not 'drift'", report.kind));
        }
        if report.schema != DRIFT_SCHEMA {
            return Err(format!(
                "its schema is {}, this version reads {DRIFT_SCHEMA}",
                report.schema
            ));
        }
        Ok(report)
    }
}

/// What fresh pairs of row and default say: a pure function of the samples.
pub fn judge(
    samples: &ConfirmationSamples,
    rule: &DriftRule,
) -> (DriftVerdict, Option<RatioInterval>, String) {
    use DriftVerdict::{Drifted, Holds, Undecided};
    if samples.workloads.is_empty() {
        let reason = "the row takes the default's path on every workload";
        return (Undecided, None, reason.to_owned());
    }
    let legal = |pair: &Pair| pair.gain().is_finite();
    let mut pairs = samples.workloads.iter().flat_map(|w| &w.pairs);
    if !pairs.all(legal) || !samples.placebo.iter().all(legal) {
        let reason = "a sample is not a positive number of nanoseconds";
        return (Undecided, None, reason.to_owned());
    }
    let rounds = samples.rounds();
    let gains_of = |pairs: &[Pair]| -> WalshAverages {
        let gains: Vec<f64> = pairs[..rounds].iter().map(Pair::gain).collect();
        WalshAverages::new(&gains)
    };
    let total: Vec<f64> = (0..rounds)
        .map(|i| {
            let sum: f64 = samples.workloads.iter().map(|w| w.pairs[i].gain()).sum();
            sum / samples.workloads.len() as f64
        })
        .collect();
    let total = WalshAverages::new(&total);
    let Some(ratio) = RatioInterval::of_gains(&total, rule.confidence) else {
        let reason = format!("{rounds} pairs are too few");
        return (Undecided, None, reason);
    };
    let (level, tolerance) = rule.placebo;
    let placebo = gains_of(&samples.placebo);
    let tolerance = tolerance.ln_1p();
    if placebo.lower_limit(0.5 * level) > tolerance || placebo.upper_limit(0.5 * level) < -tolerance
    {
        let reason = "the default was told apart from itself".to_owned();
        return (Undecided, Some(ratio), reason);
    }
    let one_sided = 0.5 * (1.0 - rule.confidence);
    let worst = -rule.regression_limit.ln_1p();
    let slower = samples
        .workloads
        .iter()
        .find(|w| gains_of(&w.pairs).upper_limit(one_sided) < worst);
    let half_margin = -(-0.5 * rule.margin).ln_1p();
    let (verdict, reason) = if let Some(workload) = slower {
        (
            Drifted,
            format!("workload '{}' is slower than allowed", workload.name),
        )
    } else if total.upper_limit(one_sided) < half_margin {
        let percent = 50.0 * rule.margin;
        (
            Drifted,
            format!("it is not faster than the default by {percent} %"),
        )
    } else if total.lower_limit(one_sided) > 0.0 {
        (Holds, "it is still faster than the default".to_owned())
    } else {
        (
            Undecided,
            "the interval holds both a gain and none".to_owned(),
        )
    };
    (verdict, Some(ratio), reason)
}

/// Measures promoted rows against the default on fresh pairs and judges them, in the order of `rows`. The settings of the
/// calibrator hold, its decision rule does not.
pub fn check(
    calibrator: &Calibrator,
    targets: &[&dyn CalibrationTarget],
    rows: &[Proposal],
    rule: &DriftRule,
    controls: &mut Controls,
) -> Vec<DriftRow> {
    let of_pairs = Calibrator {
        settings: CalibrationSettings {
            rule: DecisionRule {
                looks: vec![rule.pairs],
                ..calibrator.settings.rule.clone()
            },
            ..calibrator.settings.clone()
        },
        ..calibrator.clone()
    };
    let proposals = Proposals {
        proposals: rows.to_vec(),
        budget_ns: None,
    };
    let results = of_pairs
        .confirm(targets, &proposals, controls)
        .results
        .into_iter();
    let mut checked: Vec<(KernelKey, DriftRow)> =
        results.map(|r| (r.key.clone(), row(&r, rule))).collect();
    let order = |key: &KernelKey| rows.iter().position(|row| row.key == *key);
    checked.sort_by_key(|(key, _)| order(key));
    checked.into_iter().map(|(_, row)| row).collect()
}

fn row(result: &KeyResult, rule: &DriftRule) -> DriftRow {
    let undecided = |reason: &str| (DriftVerdict::Undecided, None, reason.to_owned());
    let samples = result.evidence.first().map(|evidence| &evidence.samples);
    let (verdict, ratio, reason) = match (&result.outcome, samples) {
        (
            Outcome::Failed { reason }
            | Outcome::NotMeasured { reason }
            | Outcome::TooNoisy { reason },
            None,
        )
        | (Outcome::NotMeasured { reason }, Some(_)) => undecided(reason),
        // The calibrator refused the interval, or the samples are too wide: the latter is judged here.
        (Outcome::TooNoisy { reason }, Some(samples)) => {
            let (verdict, ratio, _) = judge(samples, rule);
            let verdict = match verdict {
                DriftVerdict::Drifted => DriftVerdict::Drifted,
                _ => DriftVerdict::Undecided,
            };
            (verdict, ratio, reason.clone())
        }
        (Outcome::Failed { reason }, Some(samples)) => {
            let ratio = judge(samples, rule).1;
            (DriftVerdict::Undecided, ratio, reason.clone())
        }
        (_, Some(samples)) => judge(samples, rule),
        (_, None) => undecided("there is no evidence"),
    };
    DriftRow {
        key: result.key.to_string(),
        revision: result.key.revision,
        verdict,
        reason,
        ratio,
        pairs: samples.map_or(0, |s| u32::try_from(s.rounds()).unwrap_or(u32::MAX)),
    }
}
