//! Why a key was decided as it was, from its stored evidence alone.

use crate::decision::{Decision, DecisionRule, Pair};
use crate::evidence::{KeyEvidence, Process, SearchEvidence};
use crate::search::{CrossoverChoice, CrossoverFit, CrossoverStep, RaceStep};
use crate::statistics::{RatioInterval, WalshAverages, median};
use onl_snapshot::ParameterRow;
use serde::Serialize;

/// Two-sided confidence of the ratios of a search, which has too few samples for more.
pub const SEARCH_CONFIDENCE: f64 = 0.9;

/// One process's measurement of a key.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProcessExplanation {
    /// Which process.
    pub process: Process,
    /// The default's row.
    pub default: ParameterRow,
    /// The row that was confirmed.
    pub chosen: Option<ParameterRow>,
    /// Workloads that were skipped, with the reason.
    pub skipped: Vec<String>,
    /// How the row was found.
    pub search: SearchExplanation,
    /// Confirmation of the chosen row on each workload where it differs from the default.
    pub workloads: Vec<Confirmed>,
    /// The default against itself.
    pub placebo: Confirmed,
    /// The decision.
    pub decision: Option<Decision>,
    /// The rule it was taken by.
    pub rule: DecisionRule,
    /// Why measuring ended early.
    pub stopped: Option<String>,
}

/// Pairs of one workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Confirmed {
    /// Workload.
    pub workload: String,
    /// Pairs measured.
    pub pairs: usize,
    /// Median nanoseconds of the default.
    pub default_ns: Option<f64>,
    /// Median nanoseconds of the other row.
    pub other_ns: Option<f64>,
    /// Other row over default; absent of too few pairs.
    pub ratio: Option<RatioInterval>,
}

/// What the search measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum SearchExplanation {
    /// The row was given by the first process.
    Given,
    /// A threshold.
    Crossover {
        /// Parameter.
        parameter: String,
        /// Fitted times of both forms, `fixed + slope × size`.
        fit: Option<CrossoverFit>,
        /// Size at which the fitted lines cross.
        crossing: Option<f64>,
        /// Sizes that were measured.
        sizes: Vec<ProbedSize>,
        /// What it came to, with the bracket; absent when the search did not end.
        choice: Option<CrossoverChoice>,
    },
    /// A race of rows.
    Race {
        /// Every declared candidate.
        candidates: Vec<CandidateExplanation>,
    },
    /// A search of another kind, in its stored form.
    Other {
        /// The stored form.
        evidence: serde_json::Value,
    },
}

/// One size of a search for a threshold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProbedSize {
    /// Size.
    pub size: u64,
    /// Form above the threshold over the form below it, by workload.
    pub workloads: Vec<Confirmed>,
}

/// One candidate of a race.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CandidateExplanation {
    /// Name.
    pub name: String,
    /// Row.
    pub values: ParameterRow,
    /// Rounds in which it was measured.
    pub rounds: usize,
    /// Median ratio to the default over the rounds.
    pub estimate: Option<f64>,
    /// The ratio with its interval; absent of too few rounds.
    pub ratio: Option<RatioInterval>,
    /// What became of it: why it was left out or dropped, or that it was confirmed.
    pub fate: String,
}

/// Explains one process's evidence.
pub fn explain(evidence: &KeyEvidence) -> ProcessExplanation {
    let rule = &evidence.settings.rule;
    let confidence = 1.0 - rule.alpha;
    ProcessExplanation {
        process: evidence.process,
        default: evidence.default.clone(),
        chosen: evidence.chosen.clone(),
        skipped: evidence.skipped.clone(),
        search: search(evidence),
        workloads: evidence
            .samples
            .workloads
            .iter()
            .map(|w| confirmed(&w.name, &w.pairs, confidence))
            .collect(),
        placebo: confirmed("placebo", &evidence.samples.placebo, confidence),
        decision: evidence.decision.clone(),
        rule: rule.clone(),
        stopped: evidence.stopped.clone(),
    }
}

fn confirmed(name: &str, pairs: &[Pair], confidence: f64) -> Confirmed {
    let gains: Vec<f64> = pairs.iter().map(Pair::gain).collect();
    let times = |pick: fn(&Pair) -> f64| median(&pairs.iter().map(pick).collect::<Vec<_>>());
    Confirmed {
        workload: name.to_owned(),
        pairs: pairs.len(),
        default_ns: times(|p| p.first_ns),
        other_ns: times(|p| p.second_ns),
        ratio: RatioInterval::of_gains(&WalshAverages::new(&gains), confidence),
    }
}

fn search(evidence: &KeyEvidence) -> SearchExplanation {
    match &evidence.search {
        SearchEvidence::Given => SearchExplanation::Given,
        SearchEvidence::Crossover {
            parameter, samples, ..
        } => {
            let fit = samples.lines();
            SearchExplanation::Crossover {
                parameter: parameter.clone(),
                crossing: fit.and_then(|fit| fit.crossing()),
                fit,
                sizes: samples
                    .probes
                    .iter()
                    .map(|(index, workloads)| ProbedSize {
                        size: samples.sizes.get(*index).copied().unwrap_or(0),
                        workloads: workloads
                            .iter()
                            .map(|w| confirmed(&w.name, &w.pairs, SEARCH_CONFIDENCE))
                            .collect(),
                    })
                    .collect(),
                choice: match samples.step() {
                    CrossoverStep::Done(choice) => Some(choice),
                    _ => None,
                },
            }
        }
        SearchEvidence::Race {
            rows,
            excluded,
            samples,
        } => {
            let finalist = match samples.step() {
                RaceStep::Finalist(name) => Some(name),
                _ => None,
            };
            let ended = finalist.is_some();
            let candidates = rows
                .iter()
                .map(|row| {
                    let per_round: Vec<(usize, f64)> = samples
                        .rounds
                        .iter()
                        .enumerate()
                        .filter_map(|(round, entries)| {
                            let gains: Vec<f64> = entries
                                .iter()
                                .filter(|sample| sample.candidate == row.name)
                                .map(|sample| sample.pair.gain())
                                .collect();
                            let mean = gains.iter().sum::<f64>() / gains.len() as f64;
                            (!gains.is_empty()).then_some((round, mean))
                        })
                        .collect();
                    let last = per_round.last().map_or(0, |(round, _)| round + 1);
                    let gains: Vec<f64> = per_round.iter().map(|(_, gain)| *gain).collect();
                    let fate =
                        if let Some(out) = excluded.iter().find(|out| out.candidate == row.name) {
                            format!("not raced: {}", out.reason)
                        } else if finalist.as_ref() == Some(&row.name) {
                            "best of the race, confirmed on fresh pairs".to_owned()
                        } else if last < samples.rounds.len() {
                            format!("dropped after round {last}: others were faster")
                        } else if ended {
                            "lost the last round's comparison".to_owned()
                        } else {
                            "in the race when it ended early".to_owned()
                        };
                    CandidateExplanation {
                        name: row.name.clone(),
                        values: row.values.clone(),
                        rounds: gains.len(),
                        estimate: median(&gains).map(|gain| (-gain).exp()),
                        ratio: RatioInterval::of_gains(
                            &WalshAverages::new(&gains),
                            SEARCH_CONFIDENCE,
                        ),
                        fate,
                    }
                })
                .collect();
            SearchExplanation::Race { candidates }
        }
        #[allow(unreachable_patterns)]
        other => SearchExplanation::Other {
            evidence: serde_json::to_value(other).unwrap_or_default(),
        },
    }
}
