//! The report of a calibration: every selected value, every outcome, and the samples that they follow from.

mod check;

use crate::report::{Finding, Measurement, Report, ReportHead, ReportKind};
use onl_snapshot::{KernelKey, LaneCosts, ParameterRow, ParameterValue, ValueSource};
use onl_tuning::evidence::SearchEvidence;
use onl_tuning::identity::sha256_hex;
use onl_tuning::process::{KeyResult, Outcome};
use onl_tuning::{CalibrationSettings, Ceilings, EvidenceRecord, KeyEvidence};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of [`CalibrationReport`].
pub const CALIBRATION_SCHEMA: u32 = 1;

/// Which kernels a calibration was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalibrationSelection {
    /// Patterns as in [`KernelKey::matches`]; empty for all kernels.
    pub kernels: Vec<String>,
    /// Name of the only element type, if there was one.
    pub element_type: Option<String>,
    /// Whether kernels with a saved choice were left out.
    pub only_missing: bool,
}

impl CalibrationSelection {
    /// Whether a key was asked for, saved choices aside.
    pub fn holds(&self, key: &KernelKey) -> bool {
        let of_kernel = self.kernels.is_empty() || self.kernels.iter().any(|k| key.matches(k));
        let wanted = self.element_type.as_deref();
        of_kernel && wanted.is_none_or(|wanted| key.element_type.name() == wanted)
    }
}

/// The value of one parameter as a new session resolves it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SelectedValue {
    /// Dotted name.
    pub parameter: String,
    /// The value in use.
    pub value: ParameterValue,
    /// The portable default.
    pub default: ParameterValue,
    /// Where the value comes from.
    pub source: ValueSource,
}

/// One kernel of a calibration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalibratedKernel {
    /// Kernel.
    pub key: KernelKey,
    /// Every parameter of its schema, by name, as a fresh process resolved it after the calibration was saved.
    pub values: Vec<SelectedValue>,
    /// What the calibration came to.
    pub outcome: Outcome,
    /// SHA-256 of the evidence as it lies in the profile folder, lower-case hexadecimal.
    pub evidence_sha256: String,
    /// Records of both processes, raw samples included; the second confirmed what the first proposed.
    pub evidence: Vec<KeyEvidence>,
}

impl CalibratedKernel {
    /// A kernel with its outcome and the values that are in use now.
    pub fn new(result: &KeyResult, values: Vec<SelectedValue>) -> Self {
        CalibratedKernel {
            key: result.key.clone(),
            values,
            outcome: result.outcome.clone(),
            evidence_sha256: evidence_digest(&result.evidence),
            evidence: result.evidence.clone(),
        }
    }
}

/// Digest of records as the profile folder names them.
fn evidence_digest(processes: &[KeyEvidence]) -> String {
    let record = EvidenceRecord {
        processes: processes.to_vec(),
    };
    // Names and finite numbers have a JSON form.
    serde_json::to_string(&record)
        .map_or_else(|_| String::new(), |text| sha256_hex(text.as_bytes()))
}

/// Report of `onl tune-kernels --apply`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalibrationReport {
    /// Who measured what where.
    pub head: ReportHead,
    /// Which kernels were asked for.
    pub selection: CalibrationSelection,
    /// The kernels that were to be measured, in order.
    pub plan: Vec<KernelKey>,
    /// Settings, the decision rule among them.
    pub settings: CalibrationSettings,
    /// What waking and joining lanes costs.
    pub lane_costs: LaneCosts,
    /// Whether the lane costs were measured, rather than taken over or assumed.
    pub lane_costs_measured: bool,
    /// What the participants together reach at most; samples beyond it void their kernel.
    pub ceilings: Option<Ceilings>,
    /// SHA-256 of the journal, lower-case hexadecimal.
    pub journal_sha256: String,
    /// One entry per kernel of the plan, in its order.
    pub kernels: Vec<CalibratedKernel>,
}

/// Parameters of a kernel with values and source, by name.
pub fn selected_values(
    defaults: &ParameterRow,
    resolved: &ParameterRow,
    source: ValueSource,
) -> Vec<SelectedValue> {
    let parameters = defaults.0.iter();
    parameters
        .map(|(name, default)| SelectedValue {
            parameter: name.clone(),
            value: resolved.get(name).unwrap_or(default).clone(),
            default: default.clone(),
            source,
        })
        .collect()
}

impl Report for CalibrationReport {
    const KIND: ReportKind = ReportKind::Calibration;
    const SCHEMA: u32 = CALIBRATION_SCHEMA;

    fn head(&self) -> &ReportHead {
        &self.head
    }

    fn check(&self) -> Vec<Finding> {
        check::check(self)
    }

    fn corpus(&self) -> Vec<String> {
        let of_kernel = |kernel: &CalibratedKernel| {
            let name = format!("{} revision {}", kernel.key, kernel.key.revision);
            let first = kernel.evidence.first();
            let workloads = first.into_iter().flat_map(|e| &e.workloads);
            let workloads: Vec<String> = workloads
                .map(|workload| format!("{name}: {}", workload.name))
                .collect();
            if workloads.is_empty() {
                vec![name]
            } else {
                workloads
            }
        };
        self.kernels.iter().flat_map(of_kernel).collect()
    }

    /// Times of the default and of the row that was confirmed against it on each workload of the confirmation, and of
    /// both forms at every size that a search for a threshold asked. What was measured depends on what the search found,
    /// so two reports of one corpus share some figures only.
    fn measurements(&self) -> Vec<Measurement> {
        let mut samples: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for kernel in &self.kernels {
            let key = &kernel.key;
            for evidence in &kernel.evidence {
                let confirmed = evidence.samples.workloads.iter();
                let confirmed = confirmed.map(|w| (w, "default", "tuned"));
                let probed = match &evidence.search {
                    SearchEvidence::Crossover { samples, .. } => samples.probes.values().collect(),
                    _ => Vec::new(),
                };
                let probed = probed.into_iter().flatten();
                let probed = probed.map(|w| (w, "below threshold", "above threshold"));
                for (workload, first, second) in confirmed.chain(probed) {
                    for (form, pick) in [(first, true), (second, false)] {
                        let name = format!("{key} {}, {form}", workload.name);
                        let pairs = workload.pairs.iter();
                        let times = pairs.map(|p| if pick { p.first_ns } else { p.second_ns });
                        samples.entry(name).or_default().extend(times);
                    }
                }
            }
        }
        let measurement = |(name, samples_ns)| Measurement { name, samples_ns };
        samples.into_iter().map(measurement).collect()
    }
}

#[cfg(test)]
mod tests;
