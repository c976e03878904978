//! Samples that are not paired: the shift between them and its limits.

use super::RatioInterval;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Products of sample sizes up to which the distribution of the rank sum is computed exactly.
const EXACT: usize = 2_500;

/// Distribution function of the Mann–Whitney statistic of samples of `first` and `second` values from one population:
/// entry `u` is P(U ≤ u). By the recurrence of Mann and Whitney (1947).
fn rank_sum_distribution(first: usize, second: usize) -> Arc<Vec<f64>> {
    static TABLES: OnceLock<Mutex<HashMap<(usize, usize), Arc<Vec<f64>>>>> = OnceLock::new();
    let sizes = (first.min(second), first.max(second));
    let tables = TABLES.get_or_init(Mutex::default);
    let mut tables = tables.lock().unwrap_or_else(PoisonError::into_inner);
    let table = tables.entry(sizes).or_insert_with(|| {
        let (first, second) = sizes;
        // Row m of the step for n values holds P(U = u) of n and m values.
        let mut rows: Vec<Vec<f64>> = vec![vec![1.0]; second + 1];
        for n in 1..=first {
            let mut next: Vec<Vec<f64>> = vec![vec![1.0]];
            for m in 1..=second {
                let (fewer_first, fewer_second) = (&rows[m], &next[m - 1]);
                let share = n as f64 / (n + m) as f64;
                let mass = (0..=n * m).map(|u| {
                    let of_first = u.checked_sub(m).and_then(|u| fewer_first.get(u));
                    let of_second = fewer_second.get(u);
                    share * of_first.unwrap_or(&0.0) + (1.0 - share) * of_second.unwrap_or(&0.0)
                });
                next.push(mass.collect());
            }
            rows = next;
        }
        let mut distribution = rows.pop().unwrap_or_default();
        let mut sum = 0.0;
        for value in &mut distribution {
            sum += *value;
            *value = sum;
        }
        Arc::new(distribution)
    });
    Arc::clone(table)
}

/// Upper quantile of the standard normal distribution, 0 < `alpha` ≤ 0.5 (Abramowitz and Stegun 26.2.23, error below
/// 4.5e-4).
fn normal_quantile(alpha: f64) -> f64 {
    let t = (-2.0 * alpha.ln()).sqrt();
    let numerator = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let denominator = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    t - numerator / denominator
}

/// Differences of all pairs of values of two samples that are not paired (Hodges and Lehmann 1963).
#[derive(Debug, Clone)]
pub struct ShiftDifferences {
    /// `second − first`, ascending.
    differences: Vec<f64>,
    sizes: (usize, usize),
}

impl ShiftDifferences {
    /// The differences of two samples of finite values.
    pub fn new(first: &[f64], second: &[f64]) -> Self {
        let pairs = first.iter().flat_map(|a| second.iter().map(move |b| b - a));
        let mut differences: Vec<f64> = pairs.collect();
        differences.sort_unstable_by(f64::total_cmp);
        ShiftDifferences {
            differences,
            sizes: (first.len(), second.len()),
        }
    }

    /// The Hodges–Lehmann estimate of the shift from the first sample to the second; `None` when one is empty.
    pub fn estimate(&self) -> Option<f64> {
        let sorted = &self.differences;
        let middle = sorted.len() / 2;
        match sorted.len() {
            0 => None,
            n if n % 2 == 1 => Some(sorted[middle]),
            _ => Some(0.5 * (sorted[middle - 1] + sorted[middle])),
        }
    }

    /// One-sided lower and upper limits of the shift at level `alpha`, by inverting the rank-sum test (Moses 1965); exact
    /// for small samples, by the normal approximation for large ones. `None` when the samples are too small.
    pub fn limits(&self, alpha: f64) -> Option<(f64, f64)> {
        let count = self.differences.len();
        if count == 0 {
            return None;
        }
        let rank = if count <= EXACT {
            let distribution = rank_sum_distribution(self.sizes.0, self.sizes.1);
            distribution.partition_point(|p| *p <= alpha)
        } else {
            let (n, m) = (self.sizes.0 as f64, self.sizes.1 as f64);
            let deviation = (n * m * (n + m + 1.0) / 12.0).sqrt();
            let rank = 0.5 * n * m - 0.5 - normal_quantile(alpha) * deviation;
            rank.max(0.0) as usize
        };
        let rank = rank.min(count);
        (rank > 0).then(|| (self.differences[rank - 1], self.differences[count - rank]))
    }
}

impl RatioInterval {
    /// Time of the second sample over time of the first with its two-sided interval; the samples are not paired. `None`
    /// when a time is not positive or the samples are too small.
    pub fn of_samples(first_ns: &[f64], second_ns: &[f64], confidence: f64) -> Option<Self> {
        let positive = |ns: &f64| ns.is_finite() && *ns > 0.0;
        if !first_ns.iter().chain(second_ns).all(positive) {
            return None;
        }
        let logs = |times: &[f64]| times.iter().map(|ns| ns.ln()).collect::<Vec<f64>>();
        let shift = ShiftDifferences::new(&logs(first_ns), &logs(second_ns));
        let (low, high) = shift.limits(0.5 * (1.0 - confidence))?;
        Some(RatioInterval {
            estimate: shift.estimate()?.exp(),
            lower: low.exp(),
            upper: high.exp(),
            confidence,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::SplitMix64;
    use super::*;

    #[test]
    fn rank_sum_distribution_matches_published_critical_values() {
        // Largest U with P(U <= c) <= alpha, one-sided tables of Mann and Whitney.
        for (n, m, alpha, critical) in [
            (5, 5, 0.05, 4),
            (5, 5, 0.025, 2),
            (8, 8, 0.01, 9),
            (10, 10, 0.025, 23),
            (20, 20, 0.05, 138),
            (20, 20, 0.01, 114),
            (7, 12, 0.025, 18),
        ] {
            let table = rank_sum_distribution(n, m);
            assert!(table[critical] <= alpha, "{n} and {m} at {alpha}");
            assert!(table[critical + 1] > alpha, "{n} and {m} at {alpha}");
            assert!((table[n * m] - 1.0).abs() < 1e-12);
            assert_eq!(*table, *rank_sum_distribution(m, n));
        }
    }

    #[test]
    fn the_approximation_agrees_with_the_exact_ranks_where_they_meet() {
        let (n, m) = (50_usize, 50_usize);
        let exact = rank_sum_distribution(n, m);
        for alpha in [0.005_f64, 0.025, 0.05] {
            let rank = exact.partition_point(|p| *p <= alpha) as f64;
            let (n, m) = (n as f64, m as f64);
            let deviation = (n * m * (n + m + 1.0) / 12.0).sqrt();
            let approximate = 0.5 * n * m - 0.5 - normal_quantile(alpha) * deviation;
            assert!((rank - approximate).abs() < 6.0, "{rank} {approximate}");
        }
    }

    #[test]
    fn a_planted_ratio_is_found_and_swapping_samples_inverts_it() {
        let mut random = SplitMix64(3);
        let mut sample = |scale: f64, n: usize| -> Vec<f64> {
            (0..n)
                .map(|_| scale * (0.1 * random.next_f64()).exp())
                .collect()
        };
        for n in [12, 80] {
            let (a, b) = (sample(1_000.0, n), sample(1_200.0, n + 3));
            let ratio = RatioInterval::of_samples(&a, &b, 0.99).unwrap();
            assert!(ratio.lower < 1.2 && 1.2 < ratio.upper, "{ratio:?}");
            assert!(ratio.lower > 1.1 && ratio.upper < 1.3, "{ratio:?}");
            let swapped = RatioInterval::of_samples(&b, &a, 0.99).unwrap();
            assert!((swapped.estimate * ratio.estimate - 1.0).abs() < 1e-9);
            assert!((swapped.lower * ratio.upper - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn limits_hold_their_level_under_the_null() {
        let mut random = SplitMix64(11);
        let trials = 4_000;
        let outside = (0..trials)
            .filter(|_| {
                let mut sample = || (0..15).map(|_| random.next_f64()).collect::<Vec<f64>>();
                let (low, high) = ShiftDifferences::new(&sample(), &sample())
                    .limits(0.025)
                    .unwrap();
                low > 0.0 || high < 0.0
            })
            .count();
        // 5 % nominal; three binomial standard deviations are 1 %.
        assert!((140..=245).contains(&outside), "{outside} of {trials}");
    }

    #[test]
    fn too_small_or_illegal_samples_have_no_interval() {
        assert_eq!(RatioInterval::of_samples(&[1.0; 3], &[2.0; 3], 0.99), None);
        assert_eq!(RatioInterval::of_samples(&[], &[2.0; 30], 0.99), None);
        assert_eq!(
            RatioInterval::of_samples(&[0.0; 20], &[2.0; 30], 0.99),
            None
        );
    }
}
