//! Measured ceilings of an execution.

use onl_cpu::{CpuExecutionDescriptor, IsaTier};
use onl_executor::{CpuExecutor, RegionSpec};
use onl_profiling::{RegionSite, region_site};
use onl_simd::probe;
use onl_tuning::{BandwidthCeiling, Ceilings};
use std::hint::black_box;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

static SITE: RegionSite = region_site!("tuning.ceilings");

/// Work of each lane in one repetition; longer than a parked lane takes to wake.
const REPETITION: Duration = Duration::from_micros(1_500);
/// Repetitions of a figure; the highest counts.
const REPETITIONS: u32 = 6;
/// Time of one figure after which no repetition begins.
const FIGURE: Duration = Duration::from_millis(15);
/// Steps of multiply-adds between two looks at the clock.
const ROUNDS: u32 = 10_000;

const USUAL_L1D_BYTES: u64 = 32 << 10;
const USUAL_L2_BYTES: u64 = 1 << 20;
/// Most bytes of a lane's working set beyond its own caches.
const MOST_BYTES: u64 = 16 << 20;
/// Most bytes of all working sets together.
const MOST_BYTES_IN_ALL: u64 = 256 << 20;
const F32_BYTES: usize = 4;
/// Elements that one step of a read covers at most.
const STEP: usize = 128;
/// Bytes between two looks at the clock, at least.
const LOOK_BYTES: u64 = 1 << 20;

/// Data of one lane.
struct Arrays {
    a: Vec<f32>,
    b: Vec<f32>,
    c: Vec<f32>,
}

impl Arrays {
    fn new(bytes: usize) -> Self {
        // Whole steps of every tier, so that no element is left for a scalar loop.
        let elements = (bytes / (3 * F32_BYTES) / STEP * STEP).max(STEP);
        let array = || vec![1.0; elements];
        Arrays {
            a: array(),
            b: array(),
            c: array(),
        }
    }

    /// Reads two arrays; bytes read.
    fn read(&mut self, tier: IsaTier, passes: usize) -> u64 {
        let sum = probe::read(tier, &self.a, passes) + probe::read(tier, &self.b, passes);
        black_box(sum);
        (passes * F32_BYTES * (self.a.len() + self.b.len())) as u64
    }

    /// Copies one array to another; bytes read and written.
    fn copy(&mut self, _: IsaTier, passes: usize) -> u64 {
        for _ in 0..passes {
            self.c.copy_from_slice(&self.a);
            black_box(&self.c);
        }
        (passes * 2 * F32_BYTES * self.a.len()) as u64
    }

    /// Adds two arrays into the third; bytes read and written.
    fn add(&mut self, tier: IsaTier, passes: usize) -> u64 {
        for _ in 0..passes {
            probe::add(tier, &self.a, &self.b, &mut self.c);
            black_box(&self.c);
        }
        (passes * 3 * F32_BYTES * self.a.len()) as u64
    }
}

/// What one lane's share came to.
#[derive(Clone, Copy, Default)]
struct Share {
    per_ns: f64,
    lane: usize,
}

/// Measures what all participants of an executor can do at most, in at most 300 ms or so: multiply-adds of 32-bit floats, and
/// bandwidth in the first and second level of cache and beyond. Each figure is the sum of what each lane reached while
/// the others worked as well, at its best of several repetitions.
pub fn measure_ceilings(executor: &CpuExecutor, execution: &CpuExecutionDescriptor) -> Ceilings {
    let tier = IsaTier::detect();
    let lanes = executor.participants().max(1);
    let flops_per_ns = highest(executor, lanes, &|_| {
        timed(|| {
            let (sum, operations) = probe::multiply_adds(tier, ROUNDS);
            black_box(sum);
            operations
        })
    });
    let l1d = execution.l1d_bytes.unwrap_or(USUAL_L1D_BYTES);
    let l2 = execution.l2_bytes.unwrap_or(USUAL_L2_BYTES).max(2 * l1d);
    let beyond = (4 * l2)
        .min(MOST_BYTES)
        .min(MOST_BYTES_IN_ALL / lanes as u64)
        .max(l2);
    let level = |bytes_of_lane: u64, capacity: u64| {
        let arrays: Vec<Mutex<Arrays>> = (0..lanes)
            .map(|_| Mutex::new(Arrays::new(bytes_of_lane as usize)))
            .collect();
        let best = |pass: fn(&mut Arrays, IsaTier, usize) -> u64| {
            highest(executor, lanes, &|index| {
                let mut own = arrays[index].lock().unwrap_or_else(PoisonError::into_inner);
                // Into this lane's caches first.
                pass(&mut own, tier, 1);
                let passes = (LOOK_BYTES / bytes_of_lane.max(1)).max(1) as usize;
                timed(|| pass(&mut own, tier, passes))
            })
        };
        BandwidthCeiling {
            working_set_bytes: capacity * lanes as u64,
            bytes_per_ns: [Arrays::read, Arrays::copy, Arrays::add]
                .map(best)
                .into_iter()
                .fold(0.0, f64::max),
        }
    };
    Ceilings {
        flops_per_ns,
        bandwidth: vec![
            level(l1d / 2, l1d),
            level(l2 / 2, l2),
            level(beyond, beyond),
        ],
    }
}

/// Repeats work until its time is over; units per nanosecond.
fn timed(mut work: impl FnMut() -> u64) -> f64 {
    let start = Instant::now();
    let mut units = 0;
    loop {
        units += work();
        let elapsed = start.elapsed();
        if elapsed >= REPETITION {
            return units as f64 / elapsed.as_nanos() as f64;
        }
    }
}

/// The highest sum of the lanes' rates. Repetitions in which every lane took a share count before others, in which one
/// lane had the machine to itself.
fn highest(executor: &CpuExecutor, lanes: usize, rate: &(dyn Fn(usize) -> f64 + Sync)) -> f64 {
    let start = Instant::now();
    let (mut together, mut apart) = (0.0_f64, 0.0_f64);
    for _ in 0..REPETITIONS {
        let shares: Vec<Mutex<Share>> = (0..lanes).map(|_| Mutex::default()).collect();
        let run = executor.enter();
        let result = run
            .lanes()
            .region(&SITE, RegionSpec::new(lanes, 1), |chunk| {
                let share = Share {
                    per_ns: rate(chunk.index),
                    lane: chunk.lane,
                };
                *shares[chunk.index]
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner) = share;
            });
        drop(run);
        if result.is_ok() {
            let shares: Vec<Share> = shares
                .into_iter()
                .map(|share| share.into_inner().unwrap_or_else(PoisonError::into_inner))
                .collect();
            let sum = shares.iter().map(|share| share.per_ns).sum::<f64>();
            let mut seen: Vec<usize> = shares.iter().map(|share| share.lane).collect();
            seen.sort_unstable();
            seen.dedup();
            let best = if seen.len() == lanes {
                &mut together
            } else {
                &mut apart
            };
            *best = best.max(sum);
        }
        if start.elapsed() >= FIGURE {
            break;
        }
    }
    if together > 0.0 { together } else { apart }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CpuExecutionPolicy, Environment, ProfileSource};

    #[test]
    fn ceilings_are_positive_and_ordered_by_working_set() {
        let environment = Environment::new(ProfileSource::None);
        let resolved = environment
            .resolve(&CpuExecutionPolicy::default())
            .expect("the default policy fits every machine");
        let executor = CpuExecutor::with_lanes(2);
        let ceilings = measure_ceilings(&executor, &resolved.descriptor());
        assert!(ceilings.flops_per_ns > 0.0);
        assert_eq!(ceilings.bandwidth.len(), 3);
        assert!(ceilings.bandwidth.iter().all(|b| b.bytes_per_ns > 0.0));
        let sizes: Vec<u64> = ceilings
            .bandwidth
            .iter()
            .map(|b| b.working_set_bytes)
            .collect();
        assert!(sizes.is_sorted(), "{sizes:?}");
    }
}
