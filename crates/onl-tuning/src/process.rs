//! The second process: a promotion needs the win in each of two.

use crate::decision::{Decision, KeepReason, Verdict};
use crate::environment::{Environment, EnvironmentProbe};
use crate::evidence::{KeyEvidence, Process};
use crate::statistics::RatioInterval;
use onl_snapshot::{KernelKey, ParameterRow, SizeDomain};
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::time::Duration;
use thiserror::Error;

/// What calibration came to for one key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A row beat the default. From one process it is a proposal, from [`decide`] it is a promotion.
    Promoted {
        /// The row.
        values: ParameterRow,
        /// Sizes it applies to.
        domain: SizeDomain,
        /// Its time over the default's.
        ratio: RatioInterval,
        /// Rounds of paired samples behind it.
        rounds: u32,
    },
    /// The default stays.
    DefaultConfirmed {
        /// The default row.
        values: ParameterRow,
        /// Measured sizes.
        domain: SizeDomain,
        /// Why.
        reason: KeepReason,
        /// The best candidate's time over the default's, when one was confirmed.
        ratio: Option<RatioInterval>,
        /// Rounds of paired samples behind it.
        rounds: u32,
    },
    /// The default was told apart from itself.
    Void {
        /// Placebo over default.
        placebo: RatioInterval,
    },
    /// The key cannot be calibrated.
    Failed {
        /// Why.
        reason: String,
    },
    /// Time or patience ended first; nothing is known of the key.
    NotMeasured {
        /// Why.
        reason: String,
    },
    /// The machine is too noisy to decide.
    TooNoisy {
        /// Why, and what to do.
        reason: String,
    },
}

impl Outcome {
    /// What one process's record comes to by its decision. Of a first process a promotion is a proposal.
    pub fn of(evidence: &KeyEvidence) -> Self {
        if let [before, .., after] = evidence.environment.as_slice()
            && let Some(reason) = evidence.settings.limits.refuses_interval(before, after)
        {
            return Outcome::TooNoisy { reason };
        }
        let Some(Decision {
            verdict,
            rounds,
            ratio,
        }) = &evidence.decision
        else {
            return Outcome::Failed {
                reason: "no decision was reached".to_owned(),
            };
        };
        match (verdict, &evidence.chosen, ratio) {
            (Verdict::Promote, Some(values), Some(ratio)) => Outcome::Promoted {
                values: values.clone(),
                domain: evidence.domain(),
                ratio: *ratio,
                rounds: *rounds,
            },
            (Verdict::Keep(reason), _, _) => Outcome::DefaultConfirmed {
                values: evidence.default.clone(),
                domain: evidence.domain(),
                reason: reason.clone(),
                ratio: *ratio,
                rounds: *rounds,
            },
            (Verdict::Void { placebo }, _, _) => Outcome::Void { placebo: *placebo },
            (Verdict::Invalid(reason), _, _) => Outcome::Failed {
                reason: reason.clone(),
            },
            (Verdict::TooNoisy | Verdict::Undecided | Verdict::Promote, _, _) => {
                Outcome::TooNoisy {
                    reason: format!(
                        "after {rounds} rounds the interval of the ratio is too wide to decide; try again at a quieter \
                         time"
                    ),
                }
            }
        }
    }

    /// What the records of a key come to when every decision is taken again from its samples. `None` when the samples do
    /// not tell: nothing was measured, measuring ended early, or a proposal was not confirmed.
    pub fn from_samples(processes: &[KeyEvidence]) -> Option<Self> {
        let decided: Vec<KeyResult> = processes
            .iter()
            .filter(|evidence| evidence.stopped.is_none())
            .map(|evidence| {
                let rule = &evidence.settings.rule;
                let evidence = KeyEvidence {
                    decision: Some(evidence.decide(rule)),
                    ..evidence.clone()
                };
                KeyResult {
                    key: evidence.key.clone(),
                    outcome: Outcome::of(&evidence),
                    evidence: vec![evidence],
                }
            })
            .collect();
        let confirmed = |second: KeyResult| {
            Ok(Confirmations {
                results: vec![second],
            })
        };
        let mut decided = decided.into_iter();
        let first = decided
            .next()
            .filter(|first| first.evidence[0].process == Process::First)?;
        if !matches!(first.outcome, Outcome::Promoted { .. }) {
            return Some(first.outcome);
        }
        // One confirmation for each coupling of the lanes, until one refuses.
        let mut result = join(first, &confirmed(decided.next()?));
        for second in decided {
            if matches!(result.outcome, Outcome::Promoted { .. }) {
                result = join(result, &confirmed(second));
            }
        }
        Some(result.outcome)
    }

    /// Name in tables.
    pub fn name(&self) -> &'static str {
        match self {
            Outcome::Promoted { .. } => "promoted",
            Outcome::DefaultConfirmed { .. } => "default_confirmed",
            Outcome::Void { .. } => "void",
            Outcome::Failed { .. } => "failed",
            Outcome::NotMeasured { .. } => "not_measured",
            Outcome::TooNoisy { .. } => "too_noisy",
        }
    }
}

/// Outcome of a key with its evidence: one record per process that measured it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeyResult {
    /// Kernel.
    pub key: KernelKey,
    /// What calibration came to.
    pub outcome: Outcome,
    /// Records behind it.
    pub evidence: Vec<KeyEvidence>,
}

/// Rows that won in the first process, handed to the second.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Proposals {
    /// One per key that won.
    pub proposals: Vec<Proposal>,
    /// Time that confirming them may take, in nanoseconds.
    #[serde(default)]
    pub budget_ns: Option<u64>,
}

/// A row to confirm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// Kernel.
    pub key: KernelKey,
    /// Row that won.
    pub values: ParameterRow,
    /// Coupling of lanes at which it has to win, as nanoseconds of a hand-over; any when absent.
    #[serde(default)]
    pub level_ns: Option<f64>,
}

impl Proposals {
    /// The rows that won in the first process.
    pub fn from_results(first: &[KeyResult]) -> Self {
        let proposals = first
            .iter()
            .filter_map(|result| match &result.outcome {
                Outcome::Promoted { values, .. } => Some(Proposal {
                    key: result.key.clone(),
                    values: values.clone(),
                    level_ns: None,
                }),
                _ => None,
            })
            .collect();
        Proposals {
            proposals,
            budget_ns: None,
        }
    }
}

/// What the second process hands back.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Confirmations {
    /// One per proposal.
    pub results: Vec<KeyResult>,
}

pub use crate::schedule::calibrate_keys;

/// The second process could not be run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the second process did not confirm: {reason}")]
pub struct ProcessError {
    /// What went wrong.
    pub reason: String,
}

/// Runs [`Calibrator::confirm`](crate::Calibrator::confirm) in a fresh process; given by the command line.
pub trait ProcessRunner {
    /// Confirms the proposals in a fresh process of the same build and execution identity.
    ///
    /// # Errors
    /// [`ProcessError`] when the process fails or its answer cannot be read.
    fn confirm(&self, proposals: &Proposals) -> Result<Confirmations, ProcessError>;
}

/// Joins what two processes found: a row is promoted when it won in both. A key that did not win in the first keeps
/// that outcome.
pub fn decide(
    first: Vec<KeyResult>,
    second: Result<Confirmations, ProcessError>,
) -> Vec<KeyResult> {
    first
        .into_iter()
        .map(|result| {
            let proposed = matches!(result.outcome, Outcome::Promoted { .. });
            if proposed {
                join(result, &second)
            } else {
                result
            }
        })
        .collect()
}

fn join(first: KeyResult, second: &Result<Confirmations, ProcessError>) -> KeyResult {
    let KeyResult {
        key,
        outcome: proposal,
        mut evidence,
    } = first;
    let default = evidence.first().map(|e| (e.default.clone(), e.domain()));
    let not_measured = |reason: String| Outcome::NotMeasured { reason };
    let found = match second {
        Err(error) => Err(not_measured(error.to_string())),
        Ok(confirmations) => confirmations
            .results
            .iter()
            .find(|result| result.key == key)
            .ok_or_else(|| not_measured("the second process gave no result".to_owned())),
    };
    let outcome = match found {
        Err(outcome) => outcome,
        Ok(second) => {
            evidence.extend(second.evidence.iter().cloned());
            match (proposal, &second.outcome) {
                (
                    Outcome::Promoted {
                        values,
                        domain,
                        ratio,
                        rounds,
                    },
                    Outcome::Promoted {
                        values: confirmed,
                        ratio: again,
                        rounds: more,
                        ..
                    },
                ) => {
                    if values == *confirmed {
                        Outcome::Promoted {
                            values,
                            domain,
                            // The smaller of the two gains is the one that was shown twice.
                            ratio: if again.estimate > ratio.estimate {
                                *again
                            } else {
                                ratio
                            },
                            rounds: rounds.saturating_add(*more),
                        }
                    } else {
                        Outcome::Failed {
                            reason: "the second process confirmed another row".to_owned(),
                        }
                    }
                }
                (_, Outcome::DefaultConfirmed { ratio, rounds, .. }) => match default {
                    Some((values, domain)) => Outcome::DefaultConfirmed {
                        values,
                        domain,
                        reason: KeepReason::NotRepeated,
                        ratio: *ratio,
                        rounds: *rounds,
                    },
                    None => not_measured("the first process left no evidence".to_owned()),
                },
                (_, other) => other.clone(),
            }
        }
    };
    KeyResult {
        key,
        outcome,
        evidence,
    }
}

/// A machine whose other work was watched a moment ago: it is not watched again, and calibration begins at once.
pub struct Watched<'a> {
    probe: &'a dyn EnvironmentProbe,
    last: RefCell<Option<Environment>>,
    repeats: Cell<bool>,
}

impl<'a> Watched<'a> {
    /// The machine behind a probe.
    pub fn new(probe: &'a dyn EnvironmentProbe) -> Self {
        Watched {
            probe,
            last: RefCell::new(None),
            repeats: Cell::new(false),
        }
    }
}

impl EnvironmentProbe for Watched<'_> {
    fn observe(&self) -> Environment {
        let repeats = self.repeats.replace(false);
        let last = self.last.borrow().clone().filter(|_| repeats);
        let now = last.unwrap_or_else(|| self.probe.observe());
        *self.last.borrow_mut() = Some(now.clone());
        now
    }

    /// Does not wait; what is observed next is what was observed before, for nothing can be said of so short a time.
    fn watch(&self, _: Duration) {
        self.repeats.set(true);
    }

    fn pause(&self, duration: Duration) {
        self.probe.pause(duration);
    }
}
