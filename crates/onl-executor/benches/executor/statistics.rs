//! Quantiles, and the interval of a ratio of means.

/// The quantile `q` of samples in any order, `NaN` of none.
pub(crate) fn quantile(samples: &[f64], q: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    sorted
        .get((last as f64 * q).round() as usize)
        .copied()
        .unwrap_or(f64::NAN)
}

/// The median of samples in any order, `NaN` of none.
pub(crate) fn median(samples: &[f64]) -> f64 {
    quantile(samples, 0.5)
}

/// The ratio `sum(numerators) / sum(denominators)` of paired blocks, and its 95 % interval: the percentile bootstrap
/// over pairs.
pub(crate) fn ratio_of_sums(numerators: &[f64], denominators: &[f64]) -> (f64, [f64; 2]) {
    const RESAMPLES: usize = 2000;
    let pairs = numerators.len().min(denominators.len());
    let ratio_of = |pick: &mut dyn FnMut(usize) -> usize| {
        let (mut above, mut below) = (0.0, 0.0);
        for position in 0..pairs {
            let pair = pick(position);
            above += numerators[pair];
            below += denominators[pair];
        }
        above / below
    };
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |_: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % pairs as u64) as usize
    };
    let resampled: Vec<f64> = (0..RESAMPLES).map(|_| ratio_of(&mut random)).collect();
    (
        ratio_of(&mut |position| position),
        [quantile(&resampled, 0.025), quantile(&resampled, 0.975)],
    )
}
