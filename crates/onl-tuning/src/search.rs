//! The search for a row worth confirming: pure functions of the samples so far that say what to measure next.
//!
//! What a search measures proposes only; a proposal is confirmed on fresh samples.

use crate::decision::{Pair, WorkloadPairs};
use crate::statistics::{Line, WalshAverages, median};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Times of both forms at one size, for the fit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FitPoint {
    /// Problem size.
    pub size: u64,
    /// First: the form below the threshold; second: the form above it.
    pub pair: Pair,
}

/// Fitted lines of both forms: `fixed_ns` is the cost of a call, `slope_ns` of a unit of size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CrossoverFit {
    /// Form below the threshold.
    pub below: Line,
    /// Form above the threshold.
    pub above: Line,
}

impl CrossoverFit {
    /// Size at which the second form begins to win; `None` when it never does.
    pub fn crossing(&self) -> Option<f64> {
        Some(self.below.crossing(&self.above)).filter(|n| n.is_finite())
    }
}

/// Samples of a search for a threshold.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CrossoverSamples {
    /// Sizes on which the two forms take different paths, ascending.
    pub sizes: Vec<u64>,
    /// Values that the threshold may take, ascending.
    pub grid: Vec<i64>,
    /// Points of the fit.
    pub fit: Vec<FitPoint>,
    /// Paired samples of every workload of a size, by index of size.
    pub probes: BTreeMap<usize, Vec<WorkloadPairs>>,
}

/// What a search for a threshold found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrossoverChoice {
    /// The second form wins from some size on.
    Threshold {
        /// Grid value.
        value: i64,
        /// Smallest size at which it won.
        first_win: u64,
        /// Largest size at which it lost.
        last_loss: u64,
    },
    /// The second form wins at every size.
    Always {
        /// The smallest grid value.
        value: i64,
    },
    /// The second form does not win by [`LEAST_GAIN`] at the largest size.
    Never {
        /// The largest grid value.
        value: i64,
    },
    /// Winning does not depend on size in one step.
    NotMonotone {
        /// A size that contradicts its neighbours.
        size: u64,
    },
}

/// Next step of a search.
#[derive(Debug, Clone, PartialEq)]
pub enum CrossoverStep {
    /// Paired samples are wanted at this index of size.
    Measure(usize),
    /// The search ended.
    Done(CrossoverChoice),
}

/// Least gain of a second form: one that saves less than 4 % of the time does not pay for what it takes from others (the
/// rule of GMP's `tuneup`). At the size where it begins to win, it leaves room between winning and a regression.
pub const LEAST_GAIN: f64 = 0.04;
/// Sizes on each side of a crossover that must agree with it.
const CHECKED_SIZES: usize = 3;
/// Pairs before a size counts as contradicting its neighbours; by less than [`LEAST_GAIN`] none does.
const CHECK_PAIRS: usize = 15;
/// Sizes of the fit.
const FIT_SIZES: usize = 8;

impl CrossoverSamples {
    /// Indices of the sizes for the fit: eight, as evenly spaced in the logarithm of the size as the sizes allow.
    pub fn fit_sizes(&self) -> Vec<usize> {
        let (Some(&first), Some(&last)) = (self.sizes.first(), self.sizes.last()) else {
            return Vec::new();
        };
        let log = |size: u64| (size.max(1) as f64).ln();
        let (low, high) = (log(first), log(last));
        let mut indices: Vec<usize> = (0..FIT_SIZES)
            .filter_map(|i| {
                let wanted = low + (high - low) * i as f64 / (FIT_SIZES - 1) as f64;
                let distance = |index: &usize| (log(self.sizes[*index]) - wanted).abs();
                (0..self.sizes.len()).min_by(|a, b| distance(a).total_cmp(&distance(b)))
            })
            .collect();
        indices.dedup();
        indices
    }

    /// Adds the paired samples of every workload of a size to those that it has.
    pub fn add(&mut self, index: usize, probe: Vec<WorkloadPairs>) {
        let known = self.probes.entry(index).or_default();
        if known.is_empty() {
            *known = probe;
            return;
        }
        for (known, new) in known.iter_mut().zip(probe) {
            known.pairs.extend(new.pairs);
        }
    }

    /// Lines through the points of the fit.
    pub fn lines(&self) -> Option<CrossoverFit> {
        let line = |pick: fn(&Pair) -> f64| {
            let points: Vec<(f64, f64)> = self
                .fit
                .iter()
                .map(|point| (point.size as f64, pick(&point.pair)))
                .collect();
            Line::fit(&points)
        };
        Some(CrossoverFit {
            below: line(|pair| pair.first_ns)?,
            above: line(|pair| pair.second_ns)?,
        })
    }

    /// Median gains of the second form on the workloads of a size; `None` while it was not measured.
    fn gains(&self, index: usize) -> Option<Vec<f64>> {
        let workloads = self.probes.get(&index).filter(|w| !w.is_empty())?;
        let gain = |workload: &WorkloadPairs| {
            let gains: Vec<f64> = workload.pairs.iter().map(Pair::gain).collect();
            median(&gains)
        };
        workloads.iter().map(gain).collect()
    }

    /// Whether the second form won on every workload of a size by more than [`LEAST_GAIN`].
    fn wins(&self, index: usize) -> Option<bool> {
        let least = LEAST_GAIN.ln_1p();
        Some(self.gains(index)?.iter().all(|gain| *gain > least))
    }

    /// Whether a size contradicts what its side of the crossover says; `None` while more pairs are wanted.
    fn contradicts(&self, index: usize, expected_win: bool) -> Option<bool> {
        let gains = self.gains(index)?;
        if gains.iter().all(|gain| *gain > 0.0) == expected_win {
            return Some(false);
        }
        let enough = |w: &WorkloadPairs| w.pairs.len() >= CHECK_PAIRS;
        if !self.probes[&index].iter().all(enough) {
            return None;
        }
        let clear = LEAST_GAIN.ln_1p();
        Some(if expected_win {
            gains.iter().any(|gain| *gain < -clear)
        } else {
            gains.iter().all(|gain| *gain > clear)
        })
    }

    /// Asks the sizes beside a crossover in turn; `None` when they agree.
    fn check(
        &self,
        sizes: impl Iterator<Item = usize>,
        expected_win: bool,
    ) -> Option<CrossoverStep> {
        for index in sizes {
            match self.contradicts(index, expected_win) {
                None => return Some(CrossoverStep::Measure(index)),
                Some(true) => {
                    let size = self.sizes[index];
                    return Some(CrossoverStep::Done(CrossoverChoice::NotMonotone { size }));
                }
                Some(false) => {}
            }
        }
        None
    }

    /// What to measure next, or the result. The largest size is asked first, then the fit's proposal and the size
    /// below it, then the bracket is halved; at the end three sizes on each side must agree.
    pub fn step(&self) -> CrossoverStep {
        use CrossoverStep::{Done, Measure};
        let never = self.grid.last().copied().unwrap_or(i64::MAX);
        let (Some(top), Some(&always)) = (self.sizes.len().checked_sub(1), self.grid.first())
        else {
            return Done(CrossoverChoice::Never { value: never });
        };
        match self.wins(top) {
            None => return Measure(top),
            Some(false) => {
                let below = top.saturating_sub(CHECKED_SIZES)..top;
                let step = self.check(below.rev(), false);
                return step.unwrap_or(Done(CrossoverChoice::Never { value: never }));
            }
            Some(true) => {}
        }

        let crossing = self.lines().and_then(|lines| lines.crossing());
        let proposal = crossing.map(|n| self.sizes.partition_point(|size| (*size as f64) < n));
        let mut proposals: Vec<usize> = proposal
            .into_iter()
            .flat_map(|p| [Some(p), p.checked_sub(1)])
            .flatten()
            .rev()
            .collect();
        // `low` counts the sizes known to lose, `high` is a size known to win.
        let (mut low, mut high) = (0, top);
        while low < high {
            let mut middle = low + (high - low) / 2;
            while let Some(p) = proposals.pop() {
                if (low..high).contains(&p) {
                    middle = p;
                    break;
                }
            }
            match self.wins(middle) {
                None => return Measure(middle),
                Some(true) => high = middle,
                Some(false) => low = middle + 1,
            }
        }
        let above = high + 1..(high + 1 + CHECKED_SIZES).min(top + 1);
        let below = high.saturating_sub(1 + CHECKED_SIZES)..high.saturating_sub(1);
        let step = self.check(above, true);
        if let Some(step) = step.or_else(|| self.check(below.rev(), false)) {
            return step;
        }
        let Some(last_loss) = high.checked_sub(1).map(|i| self.sizes[i]) else {
            return Done(CrossoverChoice::Always { value: always });
        };
        let first_win = self.sizes[high];
        Done(CrossoverChoice::Threshold {
            value: self.snap(first_win, last_loss, crossing),
            first_win,
            last_loss,
        })
    }

    /// The grid value for a bracket: nearest to the fitted crossing among those above the last loss and not above the
    /// first win. When the grid has no value in the bracket, the next larger one.
    fn snap(&self, first_win: u64, last_loss: u64, crossing: Option<f64>) -> i64 {
        let size = |value: i64| u64::try_from(value).unwrap_or(0);
        let inside = |value: &&i64| (last_loss + 1..=first_win).contains(&size(**value));
        let target = crossing.unwrap_or(first_win as f64);
        let distance = |value: i64| ((value.max(1) as f64) / target.max(1.0)).ln().abs();
        self.grid
            .iter()
            .filter(inside)
            .min_by(|a, b| distance(**a).total_cmp(&distance(**b)))
            .or_else(|| self.grid.iter().find(|value| size(**value) >= first_win))
            .or_else(|| self.grid.last())
            .copied()
            .unwrap_or(i64::MAX)
    }
}

/// One sample of a race against the default of the same block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RaceSample {
    /// Name of the candidate.
    pub candidate: String,
    /// Name of the workload.
    pub workload: String,
    /// First: the default; second: the candidate.
    pub pair: Pair,
}

/// Samples of a race: each round measures every live candidate once per workload.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RaceSamples {
    /// Candidates that may win, in the order of the target.
    pub candidates: Vec<String>,
    /// Rounds in order.
    pub rounds: Vec<Vec<RaceSample>>,
}

/// Next step of a race.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RaceStep {
    /// Another round of these candidates is wanted.
    Round(Vec<String>),
    /// The race ended with this candidate.
    Finalist(String),
    /// No candidate may win.
    Empty,
}

/// Rounds before the first candidate is dropped.
const FIRST_CUT: usize = 3;
/// Rounds of a whole race.
const LAST_ROUND: usize = 9;
/// Log ratio below which a candidate is dropped whatever the others do: 25 % more time.
pub(crate) const HOPELESS: f64 = -0.223;
/// Level at which a sign-rank test drops a candidate as slower than the default.
const SLOWER_ALPHA: f64 = 0.05;

impl RaceSamples {
    /// What to measure next, or the winner. After three rounds and every second one from there the better half stays,
    /// at least two, and nothing that takes 25 % longer than the default or was shown to be slower than it. The best one
    /// is left in any case: its confirmation says how far it is from winning.
    pub fn step(&self) -> RaceStep {
        let mut live = self.candidates.clone();
        for round in 1..=LAST_ROUND {
            match live.as_slice() {
                [] => return RaceStep::Empty,
                [only] if round > FIRST_CUT || self.candidates.len() == 1 => {
                    return RaceStep::Finalist(only.clone());
                }
                _ => {}
            }
            if self.rounds.len() < round {
                return RaceStep::Round(live);
            }
            if round >= FIRST_CUT && round % 2 == 1 {
                let mut ranked = self.ranked(&live, round);
                ranked.truncate(ranked.len().div_ceil(2).max(2));
                let best = ranked.first().map(|(name, _)| name.clone());
                live = ranked
                    .into_iter()
                    .filter(|(name, gain)| *gain > HOPELESS && !self.slower(name, round))
                    .map(|(name, _)| name)
                    .collect();
                if live.is_empty() {
                    live.extend(best);
                }
            }
        }
        let ranked = self.ranked(&live, LAST_ROUND);
        match ranked.into_iter().next() {
            Some((name, _)) => RaceStep::Finalist(name),
            None => RaceStep::Empty,
        }
    }

    /// Mean gain over workloads of a candidate in each of the first rounds in which it ran.
    fn gains(&self, name: &str, rounds: usize) -> Vec<f64> {
        self.rounds[..rounds.min(self.rounds.len())]
            .iter()
            .filter_map(|round| {
                let gains: Vec<f64> = round
                    .iter()
                    .filter(|sample| sample.candidate == name)
                    .map(|sample| sample.pair.gain())
                    .collect();
                (!gains.is_empty()).then(|| gains.iter().sum::<f64>() / gains.len() as f64)
            })
            .collect()
    }

    /// Whether a sign-rank test shows a candidate to be slower than the default.
    fn slower(&self, name: &str, rounds: usize) -> bool {
        WalshAverages::new(&self.gains(name, rounds)).lies_below(0.0, SLOWER_ALPHA)
    }

    /// Candidates by median over rounds of the mean gain over workloads, best first; ties keep the target's order.
    fn ranked(&self, live: &[String], rounds: usize) -> Vec<(String, f64)> {
        let gain = |name: &String| median(&self.gains(name, rounds)).unwrap_or(f64::NEG_INFINITY);
        let mut ranked: Vec<(String, f64)> =
            live.iter().map(|name| (name.clone(), gain(name))).collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
        ranked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a search against known outcomes; gives the choice and the number of sizes measured.
    fn search(
        sizes: &[u64],
        grid: &[i64],
        fit: bool,
        ratio: impl Fn(u64) -> f64,
    ) -> (CrossoverChoice, usize) {
        let pair = |size: u64| Pair {
            first_ns: size as f64,
            second_ns: size as f64 * ratio(size),
        };
        let mut samples = CrossoverSamples {
            sizes: sizes.to_vec(),
            grid: grid.to_vec(),
            ..Default::default()
        };
        if fit {
            for &size in [sizes[0], sizes[sizes.len() / 2], sizes[sizes.len() - 1]].iter() {
                samples.fit.push(FitPoint {
                    size,
                    pair: pair(size),
                });
            }
        }
        loop {
            match samples.step() {
                CrossoverStep::Measure(i) => {
                    let known = samples.probes.get(&i).map_or(0, |w| w[0].pairs.len());
                    assert!(known < CHECK_PAIRS, "size asked for more than it needs");
                    let probe = WorkloadPairs {
                        name: "w".to_owned(),
                        size: sizes[i],
                        pairs: vec![pair(sizes[i]); 5],
                    };
                    samples.add(i, vec![probe]);
                }
                CrossoverStep::Done(choice) => return (choice, samples.probes.len()),
            }
        }
    }

    const SIZES: [u64; 8] = [256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304];
    const GRID: [i64; 9] = [
        256,
        1024,
        4096,
        16384,
        65536,
        262144,
        1048576,
        4194304,
        i64::MAX,
    ];

    #[test]
    fn every_position_of_the_crossover_is_found() {
        for (i, &first) in SIZES.iter().enumerate() {
            for fit in [false, true] {
                let (choice, probes) =
                    search(
                        &SIZES,
                        &GRID,
                        fit,
                        |size| {
                            if size >= first { 0.5 } else { 2.0 }
                        },
                    );
                let value = first as i64;
                let expected = match i.checked_sub(1) {
                    None => CrossoverChoice::Always { value },
                    Some(below) => CrossoverChoice::Threshold {
                        value,
                        first_win: first,
                        last_loss: SIZES[below],
                    },
                };
                assert_eq!(choice, expected);
                assert!(probes <= SIZES.len(), "{probes} sizes measured");
            }
        }
    }

    #[test]
    fn a_second_form_that_never_wins_takes_the_largest_value() {
        let (choice, probes) = search(&SIZES, &GRID, true, |_| 1.1);
        assert_eq!(choice, CrossoverChoice::Never { value: i64::MAX });
        assert_eq!(probes, 4);
    }

    #[test]
    fn a_gain_below_four_percent_at_the_largest_size_is_never() {
        let (choice, _) = search(&SIZES, &GRID, true, |_| 0.97);
        assert_eq!(choice, CrossoverChoice::Never { value: i64::MAX });
        let (choice, _) = search(&SIZES, &GRID, true, |_| 0.95);
        assert_eq!(choice, CrossoverChoice::Always { value: 256 });
    }

    #[test]
    fn a_size_that_contradicts_by_little_is_asked_again_and_then_let_pass() {
        let (choice, _) = search(&SIZES, &GRID, false, |size| match size {
            4096 => 0.98,
            65536.. => 0.5,
            _ => 2.0,
        });
        assert!(
            matches!(choice, CrossoverChoice::Threshold { value: 65536, .. }),
            "{choice:?}"
        );
        let (choice, _) = search(&SIZES, &GRID, false, |size| match size {
            4096 => 0.9,
            65536.. => 0.5,
            _ => 2.0,
        });
        assert_eq!(choice, CrossoverChoice::NotMonotone { size: 4096 });
    }

    #[test]
    fn the_fit_takes_eight_sizes_spread_over_the_range() {
        let fit_sizes = |sizes: Vec<u64>| {
            let samples = CrossoverSamples {
                sizes,
                ..Default::default()
            };
            samples.fit_sizes()
        };
        assert_eq!(fit_sizes(SIZES.to_vec()), (0..8).collect::<Vec<_>>());
        let many = fit_sizes((1..=1000).map(|i| i * 100).collect());
        assert_eq!(many.len(), 8);
        assert_eq!((many[0], many[7]), (0, 999));
        assert_eq!(fit_sizes(vec![7]), [0]);
        assert!(fit_sizes(vec![]).is_empty());
    }

    #[test]
    fn a_dip_beside_the_crossover_is_reported() {
        let (choice, _) = search(&SIZES, &GRID, false, |size| match size {
            16384 | 262144.. => 0.5,
            _ => 2.0,
        });
        // The bracket ends at 16384 or 262144; the neighbour that contradicts it is 65536 or 16384.
        assert!(
            matches!(choice, CrossoverChoice::NotMonotone { .. }),
            "{choice:?}"
        );
    }

    #[test]
    fn the_fit_chooses_among_grid_values_of_a_bracket() {
        // Below: 1 ns per element. Above: 10000 + 0.5 per element. Crossing at 20000.
        let (choice, probes) = search(
            &SIZES,
            &[4096, 16384, 20_000, 24_000, 65536, i64::MAX],
            true,
            |size| (10_000.0 + 0.5 * size as f64) / size as f64,
        );
        assert_eq!(
            choice,
            CrossoverChoice::Threshold {
                value: 20_000,
                first_win: 65536,
                last_loss: 16384
            }
        );
        assert!(probes <= SIZES.len());
    }

    #[test]
    fn degenerate_inputs_end() {
        for (sizes, grid) in [(vec![], vec![]), (vec![5], vec![]), (vec![], vec![3])] {
            let samples = CrossoverSamples {
                sizes,
                grid,
                ..Default::default()
            };
            assert!(matches!(samples.step(), CrossoverStep::Done(_)));
        }
        let race = RaceSamples::default();
        assert_eq!(race.step(), RaceStep::Empty);
    }

    #[test]
    fn a_race_keeps_the_better_half_and_ends_with_the_best() {
        let times = [("a", 1.0), ("b", 0.9), ("c", 1.1), ("d", 2.0), ("e", 0.95)];
        let mut race = RaceSamples {
            candidates: times.iter().map(|(name, _)| name.to_string()).collect(),
            rounds: Vec::new(),
        };
        let mut live_counts = Vec::new();
        loop {
            match race.step() {
                RaceStep::Round(live) => {
                    live_counts.push(live.len());
                    let round = live
                        .iter()
                        .map(|name| RaceSample {
                            candidate: name.clone(),
                            workload: "w".to_owned(),
                            pair: Pair {
                                first_ns: 1.0,
                                second_ns: times.iter().find(|t| t.0 == name).unwrap().1,
                            },
                        })
                        .collect();
                    race.rounds.push(round);
                }
                RaceStep::Finalist(name) => {
                    assert_eq!(name, "b");
                    break;
                }
                RaceStep::Empty => panic!("candidates were left"),
            }
        }
        assert_eq!(live_counts, [5, 5, 5, 3, 3, 2, 2, 2, 2]);
    }
}
