//! Whole steps of tuning: calibrate, save, load, ask.

use crate::cache::{
    CacheError, CacheFolder, CachedLaneCosts, CachedProfile, CachedRow, FileState, LoadReport,
    RowKind, UpdateReport,
};
use crate::calibrator::{Calibrator, Controls};
use crate::evidence::KeyEvidence;
use crate::identity::execution_differences;
use crate::process::{self, KeyResult, Outcome, ProcessRunner};
use crate::resolution::{self, Explanation};
use crate::{ProfileBatch, ProfileRow, ProfileScope, RegistryError, TuningRegistry};
use onl_cpu::CpuExecutionDescriptor;
use onl_snapshot::{CalibrationTarget, KernelKey, LaneCosts, ParameterRow, Schema, ValueSource};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Calibrates kernels in this process and, whenever a row won, confirms it in a second one. Publishes and saves nothing.
pub fn calibrate_registered_kernels(
    calibrator: &Calibrator,
    targets: &[&dyn CalibrationTarget],
    second: &dyn ProcessRunner,
    controls: &mut Controls,
) -> Vec<KeyResult> {
    let never = &mut |_: &KeyResult| Ok::<(), std::convert::Infallible>(());
    match process::calibrate_keys(calibrator, targets, second, controls, never) {
        Ok(results) => results,
        Err(never) => match never {},
    }
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

impl CachedRow {
    /// The row as the registry takes it; `file` is where it was read.
    pub(crate) fn profile(&self, file: &str) -> ProfileRow {
        ProfileRow {
            key: self.key.clone(),
            scope: ProfileScope::execution(&self.execution),
            values: self.values.clone(),
            domain: self.domain,
            origin: format!("{file}, evidence {}", self.evidence),
        }
    }
}

impl CachedProfile {
    /// The profile as the registry takes it; `file` is where it was read.
    pub(crate) fn profile(&self, file: &str) -> ProfileRow {
        ProfileRow {
            key: self.key.clone(),
            scope: ProfileScope::selector(self.selector.clone(), self.priority),
            values: self.values.clone(),
            domain: self.domain,
            origin: format!("{file}, for {}, evidence {}", self.selector, self.evidence),
        }
    }
}

/// A row that was not published, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusedRow {
    /// Kernel of the row.
    pub key: KernelKey,
    /// Rank that the row would have.
    pub source: ValueSource,
    /// Where the row comes from.
    pub origin: String,
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
    /// Kernels with a published row that is for this execution identity.
    pub loaded: Vec<KernelKey>,
    /// Rows of another execution identity, or of a class that this one is not in; the reason names the fields that
    /// differ.
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
    publish_choices(registry, folder.load(), execution)
}

/// As [`load_kernel_tuning_cache`], from choices that were read already.
///
/// # Errors
/// [`RegistryError::Poisoned`] only.
pub fn publish_choices(
    registry: &TuningRegistry,
    report: LoadReport,
    execution: &CpuExecutionDescriptor,
) -> Result<LoadOutcome, RegistryError> {
    let kernels: BTreeMap<_, _> = registry.kernels()?.into_iter().collect();
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
    let path = outcome.path.display().to_string();
    for row in report.choices.rows {
        let profile = row.profile(&path);
        if row.execution != *execution {
            let fields = execution_differences(&row.execution, execution).join("; ");
            outcome.incompatible.push(unused(&profile, fields));
            continue;
        }
        match usability(&kernels, &row.key, row.kind, &row.values) {
            Ok(()) => batch.rows.push(profile),
            Err(flaw) => outcome.refuse(&profile, flaw),
        }
    }
    // Published whether or not they are for this execution, so that an explanation shows why they are not.
    for imported in report.choices.profiles {
        let profile = imported.profile(&path);
        match usability(&kernels, &imported.key, imported.kind, &imported.values) {
            Ok(()) => batch.rows.push(profile),
            Err(flaw) => outcome.refuse(&profile, flaw),
        }
    }
    for costs in report.choices.lane_costs {
        if costs.execution == *execution {
            batch.lane_costs.push((costs.execution, costs.costs));
            outcome.lane_costs = true;
        }
    }
    let rows = batch.rows.clone();
    let mut refused: BTreeMap<usize, RegistryError> =
        registry.publish_valid(batch)?.into_iter().collect();
    for (i, profile) in rows.into_iter().enumerate() {
        if let Some(error) = refused.remove(&i) {
            outcome.refuse(&profile, Flaw::Invalid(error.to_string()));
        } else if let Some(reason) = resolution::mismatch(&profile.scope, execution) {
            outcome.incompatible.push(unused(&profile, reason));
        } else if !outcome.loaded.contains(&profile.key) {
            outcome.loaded.push(profile.key);
        }
    }
    outcome.missing = kernels
        .into_keys()
        .filter(|key| !outcome.loaded.contains(key))
        .collect();
    Ok(outcome)
}

fn unused(profile: &ProfileRow, reason: String) -> UnusedRow {
    UnusedRow {
        key: profile.key.clone(),
        source: profile.scope.source(),
        origin: profile.origin.clone(),
        reason,
    }
}

impl LoadOutcome {
    fn refuse(&mut self, profile: &ProfileRow, flaw: Flaw) {
        let list = match &flaw {
            Flaw::Unregistered(_) => &mut self.unregistered,
            Flaw::Stale(_) => &mut self.stale,
            Flaw::Invalid(reason) => {
                let path = self.path.display();
                self.diagnostics.push(format!("{path}: {reason}"));
                &mut self.invalid
            }
        };
        list.push(unused(profile, flaw.reason()));
    }

    /// The rows of other execution identities in few lines: one for each way to differ, with the number of rows.
    pub fn foreign(&self) -> Vec<String> {
        let mut rows: BTreeMap<&str, usize> = BTreeMap::new();
        for row in &self.incompatible {
            *rows.entry(&row.reason).or_default() += 1;
        }
        let path = self.path.display();
        rows.into_iter()
            .map(|(reason, n)| {
                let rows = if n == 1 { "row is" } else { "rows are" };
                format!("{path}: {n} {rows} for other executions: {reason}")
            })
            .collect()
    }
}

/// Why a saved row cannot be used with the registered kernels, whatever the execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Flaw {
    Unregistered(String),
    Stale(String),
    Invalid(String),
}

impl Flaw {
    pub(crate) fn reason(self) -> String {
        match self {
            Flaw::Unregistered(reason) | Flaw::Stale(reason) | Flaw::Invalid(reason) => reason,
        }
    }
}

/// Checks a saved row against the registered kernels.
pub(crate) fn usability(
    kernels: &BTreeMap<KernelKey, &'static Schema>,
    key: &KernelKey,
    kind: RowKind,
    values: &ParameterRow,
) -> Result<(), Flaw> {
    let Some(schema) = kernels.get(key) else {
        let of_revision = |revision| KernelKey {
            revision,
            ..key.clone()
        };
        let other = kernels.range(of_revision(0)..=of_revision(u32::MAX)).next();
        return Err(match other {
            Some((registered, _)) => Flaw::Stale(format!(
                "measured at revision {}, the kernel is at {}; tune it again",
                key.revision, registered.revision
            )),
            None => Flaw::Unregistered("no such kernel is registered".to_owned()),
        });
    };
    schema
        .check_row(values)
        .map_err(|error| Flaw::Invalid(format!("row of {key}: {error}")))?;
    if kind == RowKind::DefaultConfirmed && *values != schema.defaults() {
        let reason = "the portable default has changed since it was confirmed".to_owned();
        return Err(Flaw::Stale(reason));
    }
    Ok(())
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
