//! The promotion decision: a pure function of paired samples and a rule.
//!
//! A round measures default and candidate once per workload, back to back. Its gain is the mean over workloads of
//! `ln(default / candidate)`. At each planned look the one-sided lower limit of the gain (Wilcoxon signed rank, level
//! `alpha` divided by the number of looks) must exceed the margin, and for each workload the upper limit of its
//! slow-down must stay below the regression limit.

use crate::statistics::{RatioInterval, WalshAverages};
use serde::{Deserialize, Serialize};
use std::fmt;

/// When a candidate replaces the default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DecisionRule {
    /// Numbers of rounds after which the samples are looked at, ascending.
    pub looks: Vec<u32>,
    /// Probability of promoting a candidate whose gain is the margin, over all looks of one process.
    pub alpha: f64,
    /// Least gain: 0.01 asks for 1 % less time.
    pub margin: f64,
    /// Most slow-down of one workload: 0.02 allows 2 % more time.
    pub regression_limit: f64,
    /// Level of each workload's slow-down limit.
    pub regression_alpha: f64,
    /// Two-sided level at which the placebo counts as distinguishable from the default.
    pub placebo_alpha: f64,
    /// Difference of the placebo that does not matter; less than the margin.
    pub placebo_tolerance: f64,
    /// Half width of the ratio's interval above which an undecided key is too noisy rather than equal.
    pub noise_limit: f64,
}

impl Default for DecisionRule {
    fn default() -> Self {
        DecisionRule {
            looks: vec![20, 40, 80],
            alpha: 0.01,
            margin: 0.01,
            regression_limit: 0.02,
            regression_alpha: 0.05,
            placebo_alpha: 0.001,
            placebo_tolerance: 0.005,
            noise_limit: 0.05,
        }
    }
}

impl DecisionRule {
    /// Rounds of the last look.
    pub fn maximum_rounds(&self) -> u32 {
        self.looks.last().copied().unwrap_or(0)
    }

    /// Promotions to expect among this many keys when every candidate's gain is exactly the margin: each of two
    /// processes lets one pass with probability `alpha`. Candidates that are equal or slower pass far more rarely.
    pub fn expected_false_promotions(&self, keys: usize) -> f64 {
        keys as f64 * self.alpha * self.alpha
    }

    /// Whether the rule is usable.
    ///
    /// # Errors
    /// A sentence that says which value is not legal.
    pub fn check(&self) -> Result<(), String> {
        let level = |name: &str, value: f64| match value {
            v if v > 0.0 && v < 0.5 => Ok(()),
            v => Err(format!("{name} must lie between 0 and 0.5, it is {v}")),
        };
        let share = |name: &str, value: f64| match value {
            v if (0.0..1.0).contains(&v) => Ok(()),
            v => Err(format!("{name} must lie in 0 to 1, it is {v}")),
        };
        level("alpha", self.alpha)?;
        level("regression_alpha", self.regression_alpha)?;
        level("placebo_alpha", self.placebo_alpha)?;
        share("margin", self.margin)?;
        share("regression_limit", self.regression_limit)?;
        share("placebo_tolerance", self.placebo_tolerance)?;
        share("noise_limit", self.noise_limit)?;
        let ascending = self.looks.windows(2).all(|w| w[0] < w[1]);
        if self.looks.is_empty() || !ascending || self.looks[0] == 0 {
            return Err(format!(
                "looks must be ascending numbers of rounds, they are {:?}",
                self.looks
            ));
        }
        Ok(())
    }
}

/// Nanoseconds per call of two arms measured back to back.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// Default, or the form below a threshold.
    pub first_ns: f64,
    /// Candidate, placebo, or the form above a threshold.
    pub second_ns: f64,
}

impl Pair {
    /// `ln(first / second)`; positive when the second is faster.
    pub fn gain(&self) -> f64 {
        (self.first_ns / self.second_ns).ln()
    }
}

/// Pairs of one workload in the order in which they were measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadPairs {
    /// Workload name.
    pub name: String,
    /// Workload size.
    pub size: u64,
    /// One pair per round.
    pub pairs: Vec<Pair>,
}

/// Samples of a confirmation.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ConfirmationSamples {
    /// Default and candidate, for the workloads on which they take different paths.
    pub workloads: Vec<WorkloadPairs>,
    /// Default and the default under a second name; one pair per round, workloads in turn.
    pub placebo: Vec<Pair>,
}

impl ConfirmationSamples {
    /// Rounds that every workload and the placebo completed.
    pub fn rounds(&self) -> usize {
        self.workloads
            .iter()
            .map(|w| w.pairs.len())
            .chain([self.placebo.len()])
            .min()
            .unwrap_or(0)
    }
}

/// Why the default stays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeepReason {
    /// The search chose the default's own values.
    SearchChoseDefault,
    /// Every candidate takes the default's path on every workload.
    SamePath,
    /// Candidates failed or were far slower at once, and none was left to race.
    NoCandidate,
    /// The second form does not begin to win at one size and keep winning above it.
    NotMonotone {
        /// A size that contradicts its neighbours.
        size: u64,
    },
    /// The candidate's gain is below the margin, with certainty.
    BelowMargin,
    /// The last look did not prove a gain of the margin.
    NotProven,
    /// A workload is slower than allowed, or the samples do not exclude it.
    Regression {
        /// The workload.
        workload: String,
    },
    /// The second process did not repeat the win.
    NotRepeated,
}

impl fmt::Display for KeepReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeepReason::SearchChoseDefault => f.write_str("the search chose the default's values"),
            KeepReason::SamePath => f.write_str("every candidate takes the default's path"),
            KeepReason::NoCandidate => {
                f.write_str("every candidate failed or was far slower at once")
            }
            KeepReason::NotMonotone { size } => {
                write!(
                    f,
                    "no single threshold fits: size {size} contradicts its neighbours"
                )
            }
            KeepReason::BelowMargin => f.write_str("the gain is below the margin"),
            KeepReason::NotProven => f.write_str("a gain of the margin was not proven"),
            KeepReason::Regression { workload } => {
                write!(f, "workload '{workload}' may be slower than allowed")
            }
            KeepReason::NotRepeated => f.write_str("the second process did not repeat the win"),
        }
    }
}

/// What the samples say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The candidate is faster by the margin and harms no workload.
    Promote,
    /// The default stays.
    Keep(KeepReason),
    /// The default was told apart from itself: these samples decide nothing.
    Void {
        /// Placebo over default.
        placebo: RatioInterval,
    },
    /// The interval is too wide to call the two equal.
    TooNoisy,
    /// More rounds are needed than the samples hold.
    Undecided,
    /// A sample is not a positive number of nanoseconds, or the rule is not legal.
    Invalid(String),
}

/// A verdict with the figures behind it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// What the samples say.
    pub verdict: Verdict,
    /// Rounds that it rests on.
    pub rounds: u32,
    /// Candidate over default, over all workloads; absent when nothing was confirmed or the sample is too small.
    pub ratio: Option<RatioInterval>,
}

impl Decision {
    /// A decision that was reached without confirming anything.
    pub fn without_samples(verdict: Verdict) -> Self {
        Decision {
            verdict,
            rounds: 0,
            ratio: None,
        }
    }
}

/// Decides from samples, at the first planned look that is decisive.
pub fn decide(samples: &ConfirmationSamples, rule: &DecisionRule) -> Decision {
    let legal = |p: &Pair| {
        let positive = |ns: f64| ns.is_finite() && ns > 0.0;
        positive(p.first_ns) && positive(p.second_ns)
    };
    let mut pairs = samples.workloads.iter().flat_map(|w| &w.pairs);
    if !pairs.all(legal) || !samples.placebo.iter().all(legal) {
        let reason = "a sample is not a positive number of nanoseconds".to_owned();
        return Decision::without_samples(Verdict::Invalid(reason));
    }
    if let Err(reason) = rule.check() {
        return Decision::without_samples(Verdict::Invalid(reason));
    }
    if samples.workloads.is_empty() {
        return Decision::without_samples(Verdict::Keep(KeepReason::SamePath));
    }
    let rounds = samples.rounds();
    let last = rule.maximum_rounds();
    for &look in &rule.looks {
        if look as usize > rounds {
            break;
        }
        if let Some(decision) = look_at(samples, rule, look, look == last) {
            return decision;
        }
    }
    Decision {
        verdict: Verdict::Undecided,
        rounds: u32::try_from(rounds).unwrap_or(u32::MAX),
        ratio: RatioInterval::of_gains(&total_gains(samples, rounds), 1.0 - rule.alpha),
    }
}

fn total_gains(samples: &ConfirmationSamples, rounds: usize) -> WalshAverages {
    let count = samples.workloads.len() as f64;
    let gains: Vec<f64> = (0..rounds)
        .map(|i| {
            let sum: f64 = samples.workloads.iter().map(|w| w.pairs[i].gain()).sum();
            sum / count
        })
        .collect();
    WalshAverages::new(&gains)
}

/// The decision at one look; `None` when more rounds may decide.
fn look_at(
    samples: &ConfirmationSamples,
    rule: &DecisionRule,
    look: u32,
    last: bool,
) -> Option<Decision> {
    let rounds = look as usize;
    let alpha = rule.alpha / rule.looks.len() as f64;
    let margin = -(-rule.margin).ln_1p();
    let worst = -rule.regression_limit.ln_1p();
    let total = total_gains(samples, rounds);
    let gains = total.lies_above(margin, alpha);

    let mut excluded = None;
    let mut proved = None;
    for workload in &samples.workloads {
        let own: Vec<f64> = workload.pairs[..rounds].iter().map(Pair::gain).collect();
        let own = WalshAverages::new(&own);
        if own.lies_below(worst, alpha) {
            proved.get_or_insert(&workload.name);
        }
        if !own.lies_above(worst, rule.regression_alpha) {
            excluded.get_or_insert(&workload.name);
        }
    }
    let regression = |workload: &String| {
        Verdict::Keep(KeepReason::Regression {
            workload: workload.clone(),
        })
    };
    let ratio = || RatioInterval::of_gains(&total, 1.0 - rule.alpha);
    let too_wide = || ratio().is_none_or(|r| 0.5 * (r.upper - r.lower) > rule.noise_limit);
    let verdict = if let Some(workload) = proved {
        regression(workload)
    } else if total.lies_below(margin, alpha) {
        Verdict::Keep(KeepReason::BelowMargin)
    } else if gains && excluded.is_none() {
        Verdict::Promote
    } else if !last {
        return None;
    } else if too_wide() {
        Verdict::TooNoisy
    } else if gains {
        regression(excluded.expect("a workload blocks the promotion"))
    } else {
        Verdict::Keep(KeepReason::NotProven)
    };
    let verdict = placebo_difference(&samples.placebo[..rounds], rule).unwrap_or(verdict);
    Some(Decision {
        verdict,
        rounds: look,
        ratio: ratio(),
    })
}

fn placebo_difference(pairs: &[Pair], rule: &DecisionRule) -> Option<Verdict> {
    let gains: Vec<f64> = pairs.iter().map(Pair::gain).collect();
    let gains = WalshAverages::new(&gains);
    let one_sided = 0.5 * rule.placebo_alpha;
    let tolerance = rule.placebo_tolerance.ln_1p();
    if gains.lies_above(tolerance, one_sided) || gains.lies_below(-tolerance, one_sided) {
        let placebo = RatioInterval::of_gains(&gains, 1.0 - rule.placebo_alpha)?;
        return Some(Verdict::Void { placebo });
    }
    None
}
