//! Evidence: everything a decision rests on, and its replay.

use crate::calibrator::CalibrationSettings;
use crate::ceilings::Ceilings;
use crate::coupling::CouplingLevel;
use crate::decision::{
    self, ConfirmationSamples, Decision, DecisionRule, KeepReason, Verdict, WorkloadPairs,
};
use crate::environment::Environment;
use crate::participants::{ParticipantSamples, ParticipantStep};
use crate::search::{
    CrossoverChoice, CrossoverFit, CrossoverSamples, CrossoverStep, RaceSamples, RaceStep,
};
use onl_cpu::CpuExecutionDescriptor;
use onl_snapshot::{
    Candidate, KernelKey, MAXIMUM_PARTICIPANTS, ParameterRow, ParameterValue, SizeDomain, Workload,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thiserror::Error;

/// Version of the evidence records that this crate writes and reads.
pub const EVIDENCE_FORMAT: u32 = 1;

/// Which process measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Process {
    /// The one that searched and confirmed.
    First,
    /// The one that confirmed again.
    Second,
}

/// A candidate that was not raced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excluded {
    /// Name of the candidate.
    pub candidate: String,
    /// Whether it takes the default's path on every workload.
    pub same_path: bool,
    /// Why.
    pub reason: String,
}

/// What the search measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchEvidence {
    /// The row was given by another process.
    Given,
    /// A threshold.
    Crossover {
        /// Parameter that holds it.
        parameter: String,
        /// Samples.
        samples: CrossoverSamples,
        /// The cost model: a fixed cost and a cost per unit of size for each form; absent before it was fitted.
        #[serde(default)]
        fit: Option<CrossoverFit>,
        /// What the samples came to; absent while more were wanted.
        #[serde(default)]
        choice: Option<CrossoverChoice>,
    },
    /// A race of rows.
    Race {
        /// All declared candidates.
        rows: Vec<Candidate>,
        /// Those that were not raced.
        excluded: Vec<Excluded>,
        /// Samples.
        samples: RaceSamples,
    },
}

/// The record of one key in one process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeyEvidence {
    /// Version of the record's form.
    pub format: u32,
    /// Kernel.
    pub key: KernelKey,
    /// Execution identity.
    pub execution: CpuExecutionDescriptor,
    /// Which process measured.
    pub process: Process,
    /// Settings, the decision rule among them.
    pub settings: CalibrationSettings,
    /// Seed of orders and jitter of this key.
    pub seed: u64,
    /// State of the machine before and after.
    pub environment: Vec<Environment>,
    /// Names of compiler, flags, sources and the like, as the caller gave them.
    pub build: BTreeMap<String, String>,
    /// The declared workloads that were measured.
    pub workloads: Vec<Workload>,
    /// Declared workloads that were skipped, with the reason.
    pub skipped: Vec<String>,
    /// The row that candidates are compared with.
    pub default: ParameterRow,
    /// What the search measured.
    pub search: SearchEvidence,
    /// What the search for a number of participants measured, if there was one.
    #[serde(default)]
    pub participants: Option<ParticipantSamples>,
    /// Ceilings of the execution, if they were measured.
    #[serde(default)]
    pub ceilings: Option<Ceilings>,
    /// How closely lanes were coupled while the samples were taken; absent when it was not asked.
    #[serde(default)]
    pub coupling: Option<CouplingLevel>,
    /// The row that was confirmed.
    pub chosen: Option<ParameterRow>,
    /// Samples of the confirmation.
    pub samples: ConfirmationSamples,
    /// The decision; absent when measuring stopped before one.
    pub decision: Option<Decision>,
    /// Why measuring stopped early.
    pub stopped: Option<String>,
}

/// What a search came to.
#[derive(Debug, Clone, PartialEq)]
pub enum SearchOutcome {
    /// A row to confirm.
    Row(ParameterRow),
    /// Nothing to confirm.
    Keep(KeepReason),
    /// More samples are needed.
    Unfinished,
}

impl KeyEvidence {
    /// What the search's samples say. Pure: the calibrator and replay both ask here.
    pub fn search_outcome(&self) -> SearchOutcome {
        let found = self.search_row();
        let Some(participants) = &self.participants else {
            return found;
        };
        let limit = match participants.step() {
            ParticipantStep::Round(_) => return SearchOutcome::Unfinished,
            ParticipantStep::Done(None) => return found,
            ParticipantStep::Done(Some(limit)) => ParameterValue::Integer(i64::from(limit)),
        };
        let row = match found {
            SearchOutcome::Row(row) => row,
            SearchOutcome::Keep(_) => self.default.clone(),
            SearchOutcome::Unfinished => return found,
        };
        match row.with(MAXIMUM_PARTICIPANTS, limit) {
            row if row == self.default => SearchOutcome::Keep(KeepReason::SearchChoseDefault),
            row => SearchOutcome::Row(row),
        }
    }

    /// The row that the search came to with all participants.
    fn search_row(&self) -> SearchOutcome {
        let row = match &self.search {
            SearchEvidence::Given => match &self.chosen {
                Some(row) => row.clone(),
                None => return SearchOutcome::Unfinished,
            },
            SearchEvidence::Crossover { samples, .. } if samples.sizes.is_empty() => {
                return SearchOutcome::Keep(KeepReason::SamePath);
            }
            SearchEvidence::Crossover {
                parameter, samples, ..
            } => {
                let value = match samples.step() {
                    CrossoverStep::Measure(_) => return SearchOutcome::Unfinished,
                    CrossoverStep::Done(CrossoverChoice::NotMonotone { size }) => {
                        return SearchOutcome::Keep(KeepReason::NotMonotone { size });
                    }
                    CrossoverStep::Done(
                        CrossoverChoice::Threshold { value, .. }
                        | CrossoverChoice::Always { value }
                        | CrossoverChoice::Never { value },
                    ) => value,
                };
                let value = ParameterValue::Integer(value);
                self.default.clone().with(parameter, value)
            }
            SearchEvidence::Race {
                rows,
                excluded,
                samples,
            } => match samples.step() {
                RaceStep::Round(_) => return SearchOutcome::Unfinished,
                RaceStep::Empty if excluded.iter().all(|e| e.same_path) => {
                    return SearchOutcome::Keep(KeepReason::SamePath);
                }
                RaceStep::Empty => return SearchOutcome::Keep(KeepReason::NoCandidate),
                RaceStep::Finalist(name) => match rows.iter().find(|row| row.name == name) {
                    Some(row) => row.values.clone(),
                    None => return SearchOutcome::Unfinished,
                },
            },
        };
        if row == self.default {
            SearchOutcome::Keep(KeepReason::SearchChoseDefault)
        } else {
            SearchOutcome::Row(row)
        }
    }

    /// What all samples say under a rule. Pure: the calibrator and replay both ask here.
    pub fn decide(&self, rule: &DecisionRule) -> Decision {
        if let Some(reason) = self.implausible() {
            return Decision::without_samples(Verdict::Invalid(reason));
        }
        match self.search_outcome() {
            SearchOutcome::Row(_) => decision::decide(&self.samples, rule),
            SearchOutcome::Keep(reason) => Decision::without_samples(Verdict::Keep(reason)),
            SearchOutcome::Unfinished => Decision::without_samples(Verdict::Undecided),
        }
    }

    /// Why a sample is beyond what the processor can do; `None` when none is or the ceilings are not known.
    fn implausible(&self) -> Option<String> {
        let ceilings = self.ceilings.as_ref()?;
        let of_workloads = |list: &mut dyn Iterator<Item = &WorkloadPairs>| {
            list.flat_map(|w| w.pairs.iter().map(|pair| (w.name.clone(), *pair)))
                .collect::<Vec<_>>()
        };
        let mut pairs = of_workloads(&mut self.samples.workloads.iter());
        match &self.search {
            SearchEvidence::Given => {}
            SearchEvidence::Crossover { samples, .. } => {
                pairs.extend(of_workloads(&mut samples.probes.values().flatten()));
            }
            SearchEvidence::Race { samples, .. } => {
                let samples = samples.rounds.iter().flatten();
                pairs.extend(samples.map(|s| (s.workload.clone(), s.pair)));
            }
        }
        let participants = self.participants.iter().flat_map(|p| &p.rounds).flatten();
        pairs.extend(participants.map(|s| (s.workload.clone(), s.pair)));
        pairs.into_iter().find_map(|(name, pair)| {
            let workload = self.workloads.iter().find(|w| w.name == name)?;
            let shortest = pair.first_ns.min(pair.second_ns);
            ceilings.implausible(workload, shortest)
        })
    }

    /// Sizes that the samples speak for. A threshold whose second form won at the largest declared size holds upwards
    /// without bound; everything else holds for the measured sizes only.
    pub fn domain(&self) -> SizeDomain {
        let sizes = || self.workloads.iter().map(|w| w.size);
        let upwards = match &self.search {
            SearchEvidence::Crossover { samples, .. } => {
                self.skipped.is_empty()
                    && samples.sizes.last().copied() == sizes().max()
                    && matches!(
                        samples.step(),
                        CrossoverStep::Done(
                            CrossoverChoice::Threshold { .. } | CrossoverChoice::Always { .. }
                        )
                    )
            }
            _ => false,
        };
        SizeDomain {
            minimum: sizes().min().unwrap_or(0),
            maximum: match sizes().max() {
                Some(_) if upwards => u64::MAX,
                Some(size) => size,
                None => 0,
            },
        }
    }
}

/// What a replay came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// Row that the search's samples lead to; `None` when there was nothing to confirm.
    pub chosen: Option<ParameterRow>,
    /// Decision under the asked rule.
    pub decision: Decision,
    /// Whether cost model, row and decision are those of the record.
    pub agrees: bool,
}

/// Why a record cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum ReplayError {
    #[error("evidence has format {found}, this version replays format {EVIDENCE_FORMAT}")]
    Format { found: u32 },
    #[error(
        "the evidence of {key} confirmed a row that its search does not lead to; the record was changed"
    )]
    OtherRow { key: KernelKey },
    #[error("rule for the replay: {0}")]
    Rule(String),
}

/// Decides again from stored samples, with the record's own `alpha` and `margin` where none are given. Equal samples and
/// rule give the equal decision. A stricter rule may need more samples than were taken and then gives
/// [`Verdict::Undecided`].
///
/// # Errors
/// [`ReplayError`] when the record is of another format or contradicts itself, or the rule is not legal.
pub fn replay(
    evidence: &KeyEvidence,
    alpha: Option<f64>,
    margin: Option<f64>,
) -> Result<Replay, ReplayError> {
    if evidence.format != EVIDENCE_FORMAT {
        return Err(ReplayError::Format {
            found: evidence.format,
        });
    }
    let mut rule = evidence.settings.rule.clone();
    rule.alpha = alpha.unwrap_or(rule.alpha);
    rule.margin = margin.unwrap_or(rule.margin);
    rule.check().map_err(ReplayError::Rule)?;
    let chosen = match evidence.search_outcome() {
        SearchOutcome::Row(row) => Some(row),
        SearchOutcome::Keep(_) | SearchOutcome::Unfinished => None,
    };
    if chosen.is_some() && evidence.chosen.is_some() && chosen != evidence.chosen {
        return Err(ReplayError::OtherRow {
            key: evidence.key.clone(),
        });
    }
    let decision = evidence.decide(&rule);
    let search_agrees = match &evidence.search {
        SearchEvidence::Crossover {
            samples,
            fit,
            choice: Some(choice),
            ..
        } => *fit == samples.lines() && samples.step() == CrossoverStep::Done(choice.clone()),
        _ => true,
    };
    Ok(Replay {
        agrees: search_agrees
            && chosen == evidence.chosen
            && evidence.decision.as_ref() == Some(&decision),
        chosen,
        decision,
    })
}
