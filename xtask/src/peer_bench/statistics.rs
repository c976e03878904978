//! Medians and their intervals.

/// Median; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The median with the narrowest interval between two order statistics that holds it with a probability of at least 95 %,
/// whatever the distribution is (all values where so few cannot). `None` of nothing.
pub fn median_interval(values: &[f64]) -> Option<[f64; 3]> {
    let sorted = sorted(values);
    let (first, last) = (sorted.first()?, sorted.last()?);
    let n = sorted.len();
    // The chance that at most `rank` of `n` values lie below the median.
    let (mut rank, mut below, mut term) = (0, 0.0, 0.5f64.powi(n as i32));
    while below + term <= 0.025 && rank < n / 2 {
        below += term;
        term *= (n - rank) as f64 / (rank + 1) as f64;
        rank += 1;
    }
    let bounds = match rank {
        0 => (*first, *last),
        rank => (sorted[rank - 1], sorted[n - rank]),
    };
    Some([bounds.0, median(values)?, bounds.1])
}

/// Geometric mean of positive values; `None` of nothing.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    Some((values.iter().map(|x| x.ln()).sum::<f64>() / values.len() as f64).exp())
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_hold_the_median_as_often_as_they_say() {
        assert_eq!(median_interval(&[]), None);
        assert_eq!(median_interval(&[3.0, 1.0, 2.0]), Some([1.0, 2.0, 3.0]));
        // Of six values, all lie on one side of the median with a probability of 2 / 64.
        let six: Vec<f64> = (1..=6).map(f64::from).collect();
        assert_eq!(median_interval(&six), Some([1.0, 3.5, 6.0]));
        // Fifteen: P(X <= 3) = 0.0176, P(X <= 4) = 0.0592 of a binomial with 1/2.
        let fifteen: Vec<f64> = (1..=15).map(f64::from).collect();
        assert_eq!(median_interval(&fifteen), Some([4.0, 8.0, 12.0]));
        assert_eq!(geometric_mean(&[2.0, 8.0]), Some(4.0));
    }
}
