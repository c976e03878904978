//! Whole steps of tuning: calibrate, save, load, ask.

use crate::cache::{
    CacheError, CacheFolder, CachedLaneCosts, CachedRow, FileState, RowKind, UpdateReport,
};
use crate::calibrator::{Calibrator, Controls};
use crate::evidence::KeyEvidence;
use crate::identity::execution_differences;
use crate::process::{self, KeyResult, Outcome, ProcessRunner, Proposals};
use crate::resolution::Explanation;
use crate::{ProfileBatch, ProfileRow, ProfileScope, RegistryError, TuningRegistry};
use onl_cpu::CpuExecutionDescriptor;
use onl_snapshot::{CalibrationTarget, KernelKey, LaneCosts};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Calibrates kernels in this process and, when some row won, confirms it in a second one. Publishes and saves nothing.
pub fn calibrate_registered_kernels(
    calibrator: &Calibrator,
    targets: &[&dyn CalibrationTarget],
    second: &dyn ProcessRunner,
    controls: &mut Controls,
) -> Vec<KeyResult> {
    let first = calibrator.calibrate_first(targets, controls);
    let proposals = Proposals::from_results(&first);
    if proposals.proposals.is_empty() {
        return first;
    }
    let confirmations = second.confirm(&proposals);
    process::decide(first, confirmations)
}

/// The record that stands behind one saved row: what each process measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvidenceRecord {
    /// One entry per process.
    pub processes: Vec<KeyEvidence>,
}

/// Saves results: promoted rows, confirmed defaults, and lane costs of the execution identity, each row with the digest
/// of its evidence. Other outcomes leave what was saved before.
///
/// # Errors
/// [`CacheError`]; no row was saved then.
pub fn update_kernel_tuning_cache(
    folder: &CacheFolder,
    execution: &CpuExecutionDescriptor,
    results: &[KeyResult],
    lane_costs: Option<LaneCosts>,
) -> Result<UpdateReport, CacheError> {
    let mut rows = Vec::new();
    for result in results {
        let (kind, values, domain) = match &result.outcome {
            Outcome::Promoted { values, domain, .. } => (RowKind::Promoted, values, domain),
            Outcome::DefaultConfirmed { values, domain, .. } => {
                (RowKind::DefaultConfirmed, values, domain)
            }
            _ => continue,
        };
        let record = EvidenceRecord {
            processes: result.evidence.clone(),
        };
        let json = serde_json::to_string(&record).map_err(|error| CacheError::Row {
            kernel: result.key.to_string(),
            reason: format!("its evidence has no JSON form: {error}"),
        })?;
        rows.push(CachedRow {
            key: result.key.clone(),
            execution: execution.clone(),
            kind,
            values: values.clone(),
            domain: *domain,
            evidence: folder.append_evidence(&json)?,
            unknown: toml::Table::new(),
        });
    }
    let lane_costs: Vec<CachedLaneCosts> = lane_costs
        .into_iter()
        .map(|costs| CachedLaneCosts {
            execution: execution.clone(),
            costs,
            unknown: toml::Table::new(),
        })
        .collect();
    folder.update(&rows, &lane_costs)
}

/// A row that was not published, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusedRow {
    /// Kernel of the row.
    pub key: KernelKey,
    /// Why it is not used.
    pub reason: String,
}

/// What loading the cache into a registry gave.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadOutcome {
    /// File that was read.
    pub path: PathBuf,
    /// How it was found.
    pub state: FileState,
    /// Rows published.
    pub loaded: Vec<KernelKey>,
    /// Rows of another execution identity; the reason names the fields that differ.
    pub incompatible: Vec<UnusedRow>,
    /// Rows of another revision, or confirmations of a default that has changed since.
    pub stale: Vec<UnusedRow>,
    /// Rows that do not fit the kernel's schema.
    pub invalid: Vec<UnusedRow>,
    /// Rows of kernels that are not registered.
    pub unregistered: Vec<UnusedRow>,
    /// Registered keys without a usable row, which resolve to their defaults.
    pub missing: Vec<KernelKey>,
    /// Whether measured lane costs were published.
    pub lane_costs: bool,
    /// One line per finding in the file, each naming file, line and reason.
    pub diagnostics: Vec<String>,
}

/// Publishes what the cache holds for an execution identity. What cannot be used is reported; a cache never stops a
/// session.
///
/// # Errors
/// [`RegistryError::Poisoned`] only.
pub fn load_kernel_tuning_cache(
    registry: &TuningRegistry,
    folder: &CacheFolder,
    execution: &CpuExecutionDescriptor,
) -> Result<LoadOutcome, RegistryError> {
    let report = folder.load();
    let kernels = registry.kernels()?;
    let mut outcome = LoadOutcome {
        diagnostics: report.diagnostics(),
        path: report.path,
        state: report.state,
        loaded: Vec::new(),
        incompatible: Vec::new(),
        stale: Vec::new(),
        invalid: Vec::new(),
        unregistered: Vec::new(),
        missing: Vec::new(),
        lane_costs: false,
    };
    let mut batch = ProfileBatch::default();
    for row in report.choices.rows {
        let unused = |reason: String| UnusedRow {
            key: row.key.clone(),
            reason,
        };
        if row.execution != *execution {
            let fields = execution_differences(&row.execution, execution).join("; ");
            outcome.incompatible.push(unused(fields));
            continue;
        }
        let Some((_, schema)) = kernels.iter().find(|(key, _)| *key == row.key) else {
            let other_revision = kernels.iter().map(|(key, _)| key).find(|key| {
                let as_saved = KernelKey {
                    revision: row.key.revision,
                    ..(*key).clone()
                };
                as_saved == row.key
            });
            match other_revision {
                Some(key) => outcome.stale.push(unused(format!(
                    "measured at revision {}, the kernel is at {}; tune it again",
                    row.key.revision, key.revision
                ))),
                None => {
                    let reason = "no such kernel is registered".to_owned();
                    outcome.unregistered.push(unused(reason));
                }
            }
            continue;
        };
        if row.kind == RowKind::DefaultConfirmed && row.values != schema.defaults() {
            let reason = "the portable default has changed since it was confirmed".to_owned();
            outcome.stale.push(unused(reason));
            continue;
        }
        let profile = ProfileRow {
            key: row.key.clone(),
            scope: ProfileScope::execution(&row.execution),
            values: row.values.clone(),
            domain: row.domain,
            origin: format!("{}, evidence {}", outcome.path.display(), row.evidence),
        };
        match registry.check_row(&profile) {
            Ok(()) => {
                outcome.loaded.push(row.key.clone());
                batch.rows.push(profile);
            }
            Err(RegistryError::Poisoned) => return Err(RegistryError::Poisoned),
            Err(error) => {
                let path = outcome.path.display();
                outcome.diagnostics.push(format!("{path}: {error}"));
                outcome.invalid.push(unused(error.to_string()));
            }
        }
    }
    for costs in report.choices.lane_costs {
        if costs.execution == *execution {
            batch.lane_costs.push((costs.execution, costs.costs));
            outcome.lane_costs = true;
        }
    }
    outcome.missing = kernels
        .into_iter()
        .map(|(key, _)| key)
        .filter(|key| !outcome.loaded.contains(key))
        .collect();
    registry.publish(batch)?;
    Ok(outcome)
}

/// How a kernel's parameters resolve for an execution identity, and why other rows do not apply.
///
/// # Errors
/// As [`TuningRegistry::explain`].
pub fn kernel_tuning_parameters(
    registry: &TuningRegistry,
    key: &KernelKey,
    execution: &CpuExecutionDescriptor,
) -> Result<Explanation, RegistryError> {
    registry.explain(key, execution)
}
