//! Work of a known length, and gaps filled with it.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// A chain of dependent integer operations; no lane can do it faster than another.
#[inline(never)]
pub(crate) fn compute(steps: u64) -> u64 {
    let mut x = black_box(0x2545_f491_4f6c_dd1d_u64);
    for _ in 0..steps {
        x = (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    black_box(x)
}

/// Steps of [`compute`] per nanosecond, of the fastest of many short runs.
pub(crate) fn steps_per_nanosecond() -> f64 {
    const STEPS: u64 = 20_000;
    (0..200)
        .map(|_| {
            let start = Instant::now();
            compute(STEPS);
            STEPS as f64 / start.elapsed().as_nanos() as f64
        })
        .fold(0.0, f64::max)
}

/// Lets the calling thread compute for this time.
pub(crate) fn compute_for(gap: Duration) {
    if gap.is_zero() {
        return;
    }
    let start = Instant::now();
    while start.elapsed() < gap {
        compute(20);
    }
}

/// Nanoseconds of each call of `f`, made after gaps in which this thread computes. A busy machine ends it early.
pub(crate) fn time_after_gaps(gap: Duration, rounds: usize, mut f: impl FnMut()) -> Vec<f64> {
    const WARM_UP: usize = 20;
    const LONGEST: Duration = Duration::from_secs(1);
    let began = Instant::now();
    let mut samples = Vec::with_capacity(rounds);
    let mut warm = 0;
    while samples.is_empty() || (samples.len() < rounds && began.elapsed() < LONGEST) {
        compute_for(gap);
        let start = Instant::now();
        f();
        let taken = start.elapsed().as_nanos() as f64;
        if warm < WARM_UP {
            warm += 1;
        } else {
            samples.push(taken);
        }
    }
    samples
}
