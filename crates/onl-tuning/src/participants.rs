//! How many lanes a kernel is worth: a pure function of paired samples at powers of two.
//!
//! The fewest participants within 2 % of the best are proposed, so that a kernel that memory holds back leaves lanes to
//! other sessions. As any proposal it is confirmed on fresh samples.

use crate::decision::Pair;
use crate::search::HOPELESS;
use crate::statistics::median;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most time over that of the best number of participants, on each workload.
const TOLERANCE: f64 = 0.02;
/// Rounds before a number is dropped.
const FIRST_CUT: usize = 3;
/// Rounds in all.
const LAST_ROUND: usize = 9;

/// One sample of a limit beside the same row without it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ParticipantSample {
    /// Most lanes.
    pub participants: u32,
    /// Name of the workload.
    pub workload: String,
    /// First: all participants of the execution; second: at most these.
    pub pair: Pair,
}

/// Samples of the search for a number of participants.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ParticipantSamples {
    /// Numbers that may be chosen, ascending, fewer than all participants.
    pub limits: Vec<u32>,
    /// Rounds in order.
    pub rounds: Vec<Vec<ParticipantSample>>,
}

/// Next step of the search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParticipantStep {
    /// Another round of these numbers is wanted.
    Round(Vec<u32>),
    /// The fewest participants within 2 % of the best; `None` when that is all of them.
    Done(Option<u32>),
}

impl ParticipantSamples {
    /// Numbers to try in an execution with this many participants: powers of two below it; none for two or fewer.
    pub fn candidates(participants: u32) -> Vec<u32> {
        if participants <= 2 {
            return Vec::new();
        }
        let powers = (0..u32::BITS).map(|bits| 1_u32 << bits);
        powers.take_while(|p| *p < participants).collect()
    }

    /// What to measure next, or the result.
    pub fn step(&self) -> ParticipantStep {
        let rounds = self.rounds.len();
        if rounds < FIRST_CUT && !self.limits.is_empty() {
            return ParticipantStep::Round(self.limits.clone());
        }
        // The number with all participants is the reference, with gain 0 on every workload.
        let mut gains: BTreeMap<&str, BTreeMap<u32, Vec<f64>>> = BTreeMap::new();
        for sample in self.rounds.iter().flatten() {
            let of_workload = gains.entry(&sample.workload).or_default();
            let list = of_workload.entry(sample.participants).or_default();
            list.push(sample.pair.gain());
        }
        let shortfall = |limit: u32| {
            gains
                .values()
                .map(|of_workload| {
                    let gain = |list: &Vec<f64>| median(list).unwrap_or(f64::NEG_INFINITY);
                    let best = of_workload.values().map(gain).fold(0.0, f64::max);
                    best - of_workload.get(&limit).map_or(0.0, gain)
                })
                .fold(0.0, f64::max)
        };
        if rounds < LAST_ROUND {
            let hopeful = |limit: &&u32| shortfall(**limit) < -HOPELESS;
            let live: Vec<u32> = self.limits.iter().filter(hopeful).copied().collect();
            if !live.is_empty() {
                return ParticipantStep::Round(live);
            }
        }
        let within = |limit: &&u32| shortfall(**limit) <= TOLERANCE.ln_1p();
        ParticipantStep::Done(self.limits.iter().find(within).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(participants: u32, times: &[(&str, fn(u32) -> f64)]) -> (Option<u32>, usize) {
        let mut samples = ParticipantSamples {
            limits: ParticipantSamples::candidates(participants),
            rounds: Vec::new(),
        };
        loop {
            match samples.step() {
                ParticipantStep::Done(limit) => {
                    return (limit, samples.rounds.iter().map(Vec::len).sum());
                }
                ParticipantStep::Round(live) => {
                    let mut round = Vec::new();
                    for limit in live {
                        round.extend(times.iter().map(|(name, time)| ParticipantSample {
                            participants: limit,
                            workload: (*name).to_owned(),
                            pair: Pair {
                                first_ns: time(participants),
                                second_ns: time(limit),
                            },
                        }));
                    }
                    samples.rounds.push(round);
                }
            }
        }
    }

    #[test]
    fn the_fewest_within_two_percent_of_the_best_are_chosen() {
        let saturating = |p: u32| [0.0, 100.0, 51.0, 0.0, 50.2, 0.0, 0.0, 0.0, 53.0][p as usize];
        // 51 is 1.6 % above the best, 53 is 5.6 %.
        assert_eq!(search(8, &[("a", saturating)]).0, Some(2));
        assert_eq!(search(8, &[("a", |p| 100.0 / f64::from(p))]).0, None);
        // One workload saturates at two, the other at four.
        let later = |p: u32| 100.0 / f64::from(p.min(4));
        assert_eq!(search(8, &[("a", saturating), ("b", later)]).0, Some(4));
        assert_eq!(search(6, &[("a", |_| 7.0)]).0, Some(1));
    }

    #[test]
    fn hopeless_numbers_are_dropped_after_three_rounds() {
        let (limit, samples) = search(8, &[("a", |p| 100.0 / f64::from(p))]);
        assert_eq!((limit, samples), (None, 9));
    }

    #[test]
    fn two_participants_need_no_search() {
        assert!(ParticipantSamples::candidates(2).is_empty());
        assert_eq!(ParticipantSamples::candidates(6), [1, 2, 4]);
        assert_eq!(ParticipantSamples::candidates(8), [1, 2, 4]);
        let nothing = ParticipantSamples::default();
        assert_eq!(nothing.step(), ParticipantStep::Done(None));
    }
}
