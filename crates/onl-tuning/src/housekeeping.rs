//! Housekeeping of saved choices: carrying them between machines, and removing them.
//!
//! What leaves a machine is for an explicit class of processors, so nothing that arrives elsewhere can pass for that
//! machine's own measurement.

use crate::cache::{CachedProfile, CachedRow, Choices, LoadReport};
use crate::drift::{DriftReport, DriftVerdict};
use crate::operations::{UnusedRow, usability};
use crate::{CpuSelector, ProfileBatch, RegistryError, TuningRegistry, execution_id};
use onl_cpu::CpuExecutionDescriptor;
use onl_snapshot::{KernelKey, ValueSource};
use std::collections::{BTreeMap, HashSet};

/// Conditions of the narrowest class that an export leaves out, each only when asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Widening {
    /// The model, and with it what tells models of a family apart.
    pub model: bool,
    /// Features required and excluded.
    pub features: bool,
    /// The number of participants.
    pub participants: bool,
    /// How lanes are used: shared cores, affinity, wait mode, quota.
    pub usage: bool,
    /// Further models of the same family.
    pub more_models: Vec<u32>,
}

impl Widening {
    fn widen(&self, selector: &mut CpuSelector) {
        if self.model {
            selector.models.clear();
        } else {
            selector.models.extend(&self.more_models);
            selector.models.sort_unstable();
            selector.models.dedup();
        }
        if self.features {
            selector.required_features.clear();
            selector.excluded_features.clear();
        }
        if self.participants {
            selector.minimum_participants = None;
            selector.maximum_participants = None;
        }
        if self.usage {
            selector.smt_used = None;
            selector.affinity = None;
            selector.wait_mode = None;
            selector.quota = None;
        }
    }
}

/// Profiles to carry to other machines.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Export {
    /// The profiles, each with its class.
    pub profiles: Vec<CachedProfile>,
    /// Rows that were selected and are not among them.
    pub skipped: Vec<UnusedRow>,
}

impl Export {
    /// The text of a file with these profiles alone; equal profiles give equal bytes.
    pub fn render(&self) -> String {
        Choices {
            profiles: self.profiles.clone(),
            ..Choices::default()
        }
        .render()
    }
}

/// The rows of the selected execution identities as profiles for the narrowest class that each is in, widened as asked;
/// with `imported`, the profiles that were imported before as well. Of two rows that no resolution could choose between,
/// the first in the order of the file is exported.
pub fn export_profiles(
    choices: &Choices,
    selects: impl Fn(&CpuExecutionDescriptor) -> bool,
    imported: bool,
    widening: &Widening,
) -> Export {
    let mut export = Export::default();
    let mut rows: Vec<&CachedRow> = choices
        .rows
        .iter()
        .filter(|row| selects(&row.execution))
        .collect();
    rows.sort_by_cached_key(|row| row.slot());
    let mut profiles = Vec::new();
    for row in rows {
        match exact_profile(row) {
            Ok(mut profile) => {
                widening.widen(&mut profile.selector);
                profiles.push((profile, unused_row(row, String::new())));
            }
            Err(reason) => export.skipped.push(unused_row(row, reason)),
        }
    }
    if imported {
        for profile in &choices.profiles {
            profiles.push((profile.clone(), unused_profile(profile, String::new())));
        }
    }
    for (profile, row) in profiles {
        match export.profiles.iter().find(|o| undecided(o, &profile)) {
            Some(rival) => export.skipped.push(UnusedRow {
                reason: format!(
                    "another exported row is for {}, and nothing would choose between them; export fewer executions or \
                     leave out fewer conditions",
                    rival.selector
                ),
                ..row
            }),
            None => export.profiles.push(profile),
        }
    }
    export
}

fn exact_profile(row: &CachedRow) -> Result<CachedProfile, String> {
    let reason = |reason| format!("{reason}, so no class holds this processor alone");
    Ok(CachedProfile {
        key: row.key.clone(),
        selector: CpuSelector::exactly(&row.execution).map_err(reason)?,
        priority: 0,
        kind: row.kind,
        values: row.values.clone(),
        domain: row.domain,
        evidence: row.evidence.clone(),
        unknown: row.unknown.clone(),
    })
}

fn undecided(a: &CachedProfile, b: &CachedProfile) -> bool {
    let kernel = |key: &KernelKey| KernelKey {
        revision: 0,
        ..key.clone()
    };
    kernel(&a.key) == kernel(&b.key)
        && a.priority == b.priority
        && a.selector.source() == b.selector.source()
        && a.selector.specificity() == b.selector.specificity()
        && a.selector.overlaps(&b.selector)
}

/// What an import takes from a file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Import {
    /// Profiles that fit the registered kernels, for [`Choices::merge_profiles`].
    pub accepted: Vec<CachedProfile>,
    /// Rows that were not taken.
    pub skipped: Vec<UnusedRow>,
}

/// Checks what a file offers, row by row, against the registered kernels and the profiles that are stored. A row for one
/// execution identity becomes a profile for the narrowest class that this identity is in. `priority` replaces the file's.
///
/// # Errors
/// [`RegistryError::Poisoned`] only.
pub fn check_import(
    registry: &TuningRegistry,
    offered: &LoadReport,
    stored: &Choices,
    priority: Option<i32>,
) -> Result<Import, RegistryError> {
    let registered = registry.kernels()?;
    let scratch = TuningRegistry::new();
    scratch.register_all(registered.iter().cloned())?;
    let kernels: BTreeMap<_, _> = registered.into_iter().collect();
    let rows = stored.profiles.iter().map(|p| p.profile("the stored file"));
    scratch.publish_valid(batch(rows))?;

    let file = offered.path.display().to_string();
    let mut import = Import::default();
    let mut candidates = Vec::new();
    for row in &offered.choices.rows {
        match exact_profile(row) {
            Ok(profile) => candidates.push(profile),
            Err(reason) => import.skipped.push(unused_row(row, reason)),
        }
    }
    candidates.extend(offered.choices.profiles.iter().cloned());
    let mut slots = HashSet::new();
    for mut profile in candidates {
        profile.priority = priority.unwrap_or(profile.priority);
        let usable = usability(&kernels, &profile.key, profile.kind, &profile.values)
            .map_err(|flaw| flaw.reason())
            .and_then(|()| {
                if slots.insert(profile.slot()) {
                    Ok(())
                } else {
                    Err("an earlier row is for the same kernel, class and priority".to_owned())
                }
            });
        let refused = match usable {
            Ok(()) => {
                let refused = scratch.publish_valid(batch([profile.profile(&file)]))?;
                refused.into_iter().next().map(|(_, e)| e.to_string())
            }
            Err(reason) => Some(reason),
        };
        match refused {
            None => import.accepted.push(profile),
            Some(reason) => import.skipped.push(unused_profile(&profile, reason)),
        }
    }
    Ok(import)
}

fn batch(rows: impl IntoIterator<Item = crate::ProfileRow>) -> ProfileBatch {
    ProfileBatch {
        rows: rows.into_iter().collect(),
        lane_costs: Vec::new(),
    }
}

/// What was removed from the choices, and what was asked for and stays.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Removal {
    /// Rows that are gone, each with the reason.
    pub removed: Vec<UnusedRow>,
    /// Rows that stay although something speaks against them, each with the reason.
    pub kept: Vec<UnusedRow>,
}

/// Removes the rows that no session can use any more: of kernels, revisions or schemas that are not registered. Rows of
/// a library of which nothing is registered stay, since a program that registers it may use them.
///
/// # Errors
/// [`RegistryError::Poisoned`]; the choices are unchanged then.
pub fn prune_unusable(
    registry: &TuningRegistry,
    choices: &mut Choices,
) -> Result<Removal, RegistryError> {
    let kernels: BTreeMap<_, _> = registry.kernels()?.into_iter().collect();
    let libraries: HashSet<String> = kernels.keys().map(|k| k.library.to_string()).collect();
    let known = |key: &KernelKey| libraries.contains(key.library.as_ref());
    let mut removal = Removal::default();
    let mut keeps = |key: &KernelKey, flaw: Option<String>, row: &dyn Fn(String) -> UnusedRow| {
        let Some(reason) = flaw else {
            return true;
        };
        if known(key) {
            removal.removed.push(row(reason));
            return false;
        }
        let reason = format!(
            "library '{}' is not known here, a program may register it",
            key.library
        );
        removal.kept.push(row(reason));
        true
    };
    choices.rows.retain(|row| {
        let usable = usability(&kernels, &row.key, row.kind, &row.values);
        let flaw = usable.err().map(|flaw| flaw.reason());
        keeps(&row.key, flaw, &|reason| unused_row(row, reason))
    });
    choices.profiles.retain(|profile| {
        let usable = usability(&kernels, &profile.key, profile.kind, &profile.values);
        let flaw = usable.err().map(|flaw| flaw.reason());
        keeps(&profile.key, flaw, &|reason| {
            unused_profile(profile, reason)
        })
    });
    Ok(removal)
}

/// Removes rows of the kernels that `selects`, for every execution identity and class.
pub fn remove_kernels(choices: &mut Choices, selects: impl Fn(&KernelKey) -> bool) -> Removal {
    let mut removal = Removal::default();
    let reason = || "asked for".to_owned();
    choices.rows.retain(|row| {
        let selected = selects(&row.key);
        if selected {
            removal.removed.push(unused_row(row, reason()));
        }
        !selected
    });
    choices.profiles.retain(|profile| {
        let selected = selects(&profile.key);
        if selected {
            removal.removed.push(unused_profile(profile, reason()));
        }
        !selected
    });
    removal
}

/// Removes the rows that a report found drifted, for its execution identity only.
pub fn prune_drifted(choices: &mut Choices, report: &DriftReport) -> Removal {
    let mut removal = Removal::default();
    let drifted: BTreeMap<&str, u32> = report
        .kernels
        .iter()
        .filter(|kernel| kernel.verdict == DriftVerdict::Drifted)
        .map(|kernel| (kernel.key.as_str(), kernel.revision))
        .collect();
    choices.rows.retain(|row| {
        let Some(revision) = drifted.get(row.key.to_string().as_str()) else {
            return true;
        };
        if row.execution != report.execution {
            return true;
        }
        if row.key.revision != *revision {
            let reason = format!("the report is about revision {revision}");
            removal.kept.push(unused_row(row, reason));
            return true;
        }
        let reason = "it does not hold any more on this execution".to_owned();
        removal.removed.push(unused_row(row, reason));
        false
    });
    for profile in &choices.profiles {
        if drifted.get(profile.key.to_string().as_str()) == Some(&profile.key.revision)
            && profile.selector.mismatch(&report.execution).is_none()
        {
            let reason = "it drifted on one execution of its class; `onl tuning remove` takes it \
                          from all"
                .to_owned();
            removal.kept.push(unused_profile(profile, reason));
        }
    }
    removal
}

fn unused_row(row: &CachedRow, reason: String) -> UnusedRow {
    let d = &row.execution;
    UnusedRow {
        key: row.key.clone(),
        source: ValueSource::ExactExecution,
        origin: format!(
            "execution {}, {} threads, {} wait",
            execution_id(d),
            d.participants,
            d.wait_mode
        ),
        reason,
    }
}

fn unused_profile(profile: &CachedProfile, reason: String) -> UnusedRow {
    UnusedRow {
        key: profile.key.clone(),
        source: profile.selector.source(),
        origin: profile.selector.to_string(),
        reason,
    }
}
