//! Statistics of paired log ratios: medians, the exact signed-rank distribution, and the limits of Hodges and Lehmann.
//!
//! All functions are deterministic. Limits follow from inverting the one-sided Wilcoxon signed-rank test over the
//! Walsh averages (Hodges and Lehmann 1963), so a limit above a margin and the test against that margin say the same.
//! Samples that are not paired are compared by [`ShiftDifferences`].

mod rank_sum;

pub use rank_sum::ShiftDifferences;

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Median; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(0.5 * (sorted[middle - 1] + sorted[middle])),
    }
}

/// Two-sided confidence interval of the median by order statistics, which assumes nothing of the distribution; `None` of
/// too few values.
pub fn median_interval(values: &[f64], confidence: f64) -> Option<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let most = 0.5 * (1.0 - confidence);
    // Ranks from the outside in, while the binomial tail beyond them is small enough.
    let (mut mass, mut tail, mut rank) = (0.5_f64.powi(i32::try_from(n).ok()?), 0.0, 0);
    while 2 * (rank + 1) <= n && tail + mass <= most {
        tail += mass;
        mass *= (n - rank) as f64 / (rank + 1) as f64;
        rank += 1;
    }
    (rank > 0).then(|| (sorted[rank - 1], sorted[n - rank]))
}

/// Distribution function of the signed-rank statistic of `n` values symmetric about zero: entry `k` is P(W ≤ k).
fn signed_rank_distribution(n: usize) -> Arc<Vec<f64>> {
    static TABLES: OnceLock<Mutex<HashMap<usize, Arc<Vec<f64>>>>> = OnceLock::new();
    let tables = TABLES.get_or_init(Mutex::default);
    let mut tables = tables.lock().unwrap_or_else(PoisonError::into_inner);
    let table = tables.entry(n).or_insert_with(|| {
        let mut mass = vec![0.0; n * (n + 1) / 2 + 1];
        mass[0] = 1.0;
        for rank in 1..=n {
            for k in (0..mass.len()).rev() {
                let without = mass[k];
                let with = if k >= rank { mass[k - rank] } else { 0.0 };
                mass[k] = 0.5 * (without + with);
            }
        }
        let mut sum = 0.0;
        for value in &mut mass {
            sum += *value;
            *value = sum;
        }
        Arc::new(mass)
    });
    Arc::clone(table)
}

/// Walsh averages of a sample: means of all pairs of values, each value with itself included.
#[derive(Debug, Clone)]
pub struct WalshAverages {
    averages: Vec<f64>,
    count: usize,
}

impl WalshAverages {
    /// The averages of a sample of finite values.
    pub fn new(values: &[f64]) -> Self {
        let mut averages = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
        for (i, a) in values.iter().enumerate() {
            averages.extend(values[i..].iter().map(|b| 0.5 * (a + b)));
        }
        WalshAverages {
            averages,
            count: values.len(),
        }
    }

    /// The Hodges–Lehmann estimate of the centre; `None` of an empty sample.
    pub fn estimate(&self) -> Option<f64> {
        let middle = self.averages.len() / 2;
        match self.averages.len() {
            0 => None,
            n if n % 2 == 1 => Some(self.ranked(middle)),
            _ => Some(0.5 * (self.ranked(middle - 1) + self.ranked(middle))),
        }
    }

    /// The average at an index of their ascending order.
    fn ranked(&self, index: usize) -> f64 {
        let mut averages = self.averages.clone();
        *averages.select_nth_unstable_by(index, f64::total_cmp).1
    }

    /// Rank of the limit at level `alpha`; 0 when the sample is too small to have one.
    fn limit_rank(&self, alpha: f64) -> usize {
        let rank = signed_rank_distribution(self.count).partition_point(|p| *p <= alpha);
        rank.min(self.averages.len())
    }

    /// One-sided lower limit of the centre at level `alpha`; −∞ when the sample is too small.
    pub fn lower_limit(&self, alpha: f64) -> f64 {
        match self.limit_rank(alpha) {
            0 => f64::NEG_INFINITY,
            rank => self.ranked(rank - 1),
        }
    }

    /// One-sided upper limit of the centre at level `alpha`; +∞ when the sample is too small.
    pub fn upper_limit(&self, alpha: f64) -> f64 {
        match self.limit_rank(alpha) {
            0 => f64::INFINITY,
            rank => self.ranked(self.averages.len() - rank),
        }
    }

    /// Whether the lower limit at level `alpha` lies above a value.
    pub fn lies_above(&self, value: f64, alpha: f64) -> bool {
        let others = self.averages.iter().filter(|a| **a <= value).count();
        others < self.limit_rank(alpha)
    }

    /// Whether the upper limit at level `alpha` lies below a value.
    pub fn lies_below(&self, value: f64, alpha: f64) -> bool {
        let others = self.averages.iter().filter(|a| **a >= value).count();
        others < self.limit_rank(alpha)
    }
}

/// Time of the candidate over time of the default, with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RatioInterval {
    /// Hodges–Lehmann estimate; below 1 the candidate is faster.
    pub estimate: f64,
    /// Lower end.
    pub lower: f64,
    /// Upper end.
    pub upper: f64,
    /// Two-sided confidence, as 0.99.
    pub confidence: f64,
}

impl RatioInterval {
    /// The interval of paired log ratios `ln(default / candidate)`; `None` while the sample is too small for it.
    pub fn of_gains(gains: &WalshAverages, confidence: f64) -> Option<Self> {
        let alpha = 0.5 * (1.0 - confidence);
        let (low, high) = (gains.lower_limit(alpha), gains.upper_limit(alpha));
        (low.is_finite() && high.is_finite()).then_some(RatioInterval {
            estimate: (-gains.estimate()?).exp(),
            lower: (-high).exp(),
            upper: (-low).exp(),
            confidence,
        })
    }
}

/// A line `fixed + slope × size` with coefficients that are not negative.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Nanoseconds at size 0.
    pub fixed_ns: f64,
    /// Nanoseconds per unit of size.
    pub slope_ns: f64,
}

impl Line {
    /// Relative least squares over `(size, nanoseconds)`: every point weighs by its own time, so small sizes count as
    /// much as large ones. `None` of fewer than two points or times that are not positive.
    pub fn fit(points: &[(f64, f64)]) -> Option<Self> {
        if points.len() < 2 || points.iter().any(|(_, y)| !(y.is_finite() && *y > 0.0)) {
            return None;
        }
        // Minimizes Σ (a·u + b·v − 1)² with u = 1/y and v = x/y.
        let (mut uu, mut uv, mut vv, mut u1, mut v1) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (x, y) in points {
            let (u, v) = (1.0 / y, x / y);
            uu += u * u;
            uv += u * v;
            vv += v * v;
            u1 += u;
            v1 += v;
        }
        let determinant = uu * vv - uv * uv;
        let (mut fixed, mut slope) = (
            (u1 * vv - v1 * uv) / determinant,
            (v1 * uu - u1 * uv) / determinant,
        );
        if !(fixed.is_finite() && slope.is_finite()) || fixed < 0.0 {
            (fixed, slope) = (0.0, if vv > 0.0 { v1 / vv } else { 0.0 });
        }
        if slope < 0.0 {
            (fixed, slope) = (u1 / uu, 0.0);
        }
        Some(Line {
            fixed_ns: fixed,
            slope_ns: slope,
        })
    }

    /// Size at which this line begins to lie above another: 0 when it always does, infinite when it never does.
    pub fn crossing(&self, other: &Line) -> f64 {
        let fixed = other.fixed_ns - self.fixed_ns;
        let slope = self.slope_ns - other.slope_ns;
        if fixed <= 0.0 && slope >= 0.0 {
            0.0
        } else if slope <= 0.0 {
            f64::INFINITY
        } else {
            (fixed / slope).max(0.0)
        }
    }
}

/// SplitMix64 (Steele, Lea and Flood 2014): the seeded generator of orders and jitter.
#[derive(Debug, Clone)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// Next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Next value in 0 ≤ x < 1.
    pub fn next_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Shuffles in place (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = (self.next_u64() % (i as u64 + 1)) as usize;
            items.swap(i, j);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signed_rank_distribution_matches_published_critical_values() {
        // One-sided critical values of Wilcoxon's table: P(W <= c) <= alpha < P(W <= c + 1).
        for (n, alpha, critical) in [
            (5, 0.05, 0),
            (8, 0.01, 1),
            (10, 0.05, 10),
            (10, 0.01, 5),
            (20, 0.05, 60),
            (20, 0.01, 43),
            (25, 0.01, 76),
        ] {
            let table = signed_rank_distribution(n);
            assert!(table[critical] <= alpha, "n {n} alpha {alpha}");
            assert!(table[critical + 1] > alpha, "n {n} alpha {alpha}");
            assert!((table[table.len() - 1] - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn median_intervals_take_the_ranks_of_the_binomial_table() {
        let values = |n: usize| (1..=n).rev().map(|i| i as f64).collect::<Vec<_>>();
        // Ranks of 95 % intervals as tables of the sign test give them.
        for (n, low) in [
            (6, 1),
            (8, 1),
            (9, 2),
            (11, 2),
            (12, 3),
            (15, 4),
            (25, 8),
            (50, 18),
        ] {
            let expected = (low as f64, (n + 1 - low) as f64);
            assert_eq!(median_interval(&values(n), 0.95), Some(expected), "{n}");
        }
        assert_eq!(median_interval(&values(5), 0.95), None);
        assert_eq!(median_interval(&[], 0.95), None);
    }

    #[test]
    fn limits_bracket_the_estimate_and_mirror_each_other() {
        let values: Vec<f64> = (0..20).map(|i| f64::from(i) * 0.3 - 1.0).collect();
        let mirrored: Vec<f64> = values.iter().map(|v| -v).collect();
        let (a, b) = (WalshAverages::new(&values), WalshAverages::new(&mirrored));
        assert!(a.lower_limit(0.01) < a.estimate().unwrap());
        assert!(a.upper_limit(0.01) > a.estimate().unwrap());
        assert_eq!(a.lower_limit(0.01), -b.upper_limit(0.01));
        assert!(a.lower_limit(0.001) < a.lower_limit(0.05));
        for value in values.iter().copied().chain([-9.0, 9.0]) {
            assert_eq!(a.lies_above(value, 0.01), a.lower_limit(0.01) > value);
            assert_eq!(a.lies_below(value, 0.01), a.upper_limit(0.01) < value);
        }
    }

    #[test]
    fn too_small_samples_have_no_limits() {
        let a = WalshAverages::new(&[1.0, 1.0, 1.0]);
        assert_eq!(a.lower_limit(0.01), f64::NEG_INFINITY);
        assert_eq!(a.upper_limit(0.01), f64::INFINITY);
        assert_eq!(WalshAverages::new(&[]).lower_limit(0.01), f64::NEG_INFINITY);
        assert_eq!(WalshAverages::new(&[]).estimate(), None);
        assert_eq!(RatioInterval::of_gains(&a, 0.99), None);
    }

    #[test]
    fn limits_hold_their_level_under_the_null() {
        let mut random = SplitMix64(7);
        let trials = 4_000;
        let above = (0..trials)
            .filter(|_| {
                let sample: Vec<f64> = (0..20).map(|_| random.next_f64() - 0.5).collect();
                WalshAverages::new(&sample).lower_limit(0.05) > 0.0
            })
            .count();
        // 5 % nominal; three binomial standard deviations are 1 %.
        assert!((160..=240).contains(&above), "{above} of {trials}");
    }

    #[test]
    fn line_fit_recovers_coefficients_and_keeps_them_non_negative() {
        let points: Vec<(f64, f64)> = [1e2, 1e3, 1e4, 1e5].map(|x| (x, 500.0 + 0.25 * x)).to_vec();
        let line = Line::fit(&points).unwrap();
        assert!((line.fixed_ns - 500.0).abs() < 1e-6);
        assert!((line.slope_ns - 0.25).abs() < 1e-9);
        let falling = Line::fit(&[(1.0, 10.0), (2.0, 5.0), (3.0, 2.0)]).unwrap();
        assert!(falling.fixed_ns >= 0.0 && falling.slope_ns >= 0.0);
        assert_eq!(Line::fit(&[(1.0, 10.0)]), None);
        assert_eq!(Line::fit(&[(1.0, 10.0), (2.0, 0.0)]), None);
    }

    #[test]
    fn crossing_of_lines() {
        let line = |fixed_ns, slope_ns| Line { fixed_ns, slope_ns };
        assert_eq!(line(0.0, 1.0).crossing(&line(100.0, 0.5)), 200.0);
        assert_eq!(line(0.0, 1.0).crossing(&line(0.0, 0.5)), 0.0);
        assert_eq!(line(0.0, 1.0).crossing(&line(100.0, 1.0)), f64::INFINITY);
    }
}
