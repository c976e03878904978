//! Measured ceilings of an execution.

use crate::Error;
use onl_cpu::{CpuDescriptor, CpuExecutionDescriptor, IsaTier};
use onl_executor::{CpuExecutor, RegionSpec};
use onl_profiling::{RegionSite, region_site};
use onl_simd::probe;
use onl_tensor::AlignedBuffer;
use onl_tuning::Ceilings;
use onl_tuning::roofline::{CeilingRate, DRAM, LevelCeilings, ParticipantCeilings, highest};
use std::hint::black_box;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

static SITE: RegionSite = region_site!("tuning.ceilings");

/// Steps of multiply-adds between two looks at the clock.
const ROUNDS: u32 = 10_000;

const USUAL_L1D_BYTES: u64 = 32 << 10;
const USUAL_L2_BYTES: u64 = 1 << 20;
/// Most bytes of a lane's working set beyond its own caches.
const MOST_BYTES: u64 = 16 << 20;
/// Most bytes of all working sets together.
const MOST_BYTES_IN_ALL: u64 = 256 << 20;
/// Least and most bytes that are measured beyond all caches, of all lanes together.
const MEMORY_BYTES: (u64, u64) = (256 << 20, 1 << 30);
const F32_BYTES: usize = 4;
/// Elements that one step of a probe covers at most on any tier.
const STEP: usize = 128;
/// Elements of an array that one call of a probe covers at most.
const BLOCK: usize = 1 << 20;
/// Elements between arrays beyond their lengths: whole cache lines, and no multiple of 4 KiB, at which processors take
/// loads for dependent on earlier stores.
const GAP: usize = 272;
/// Bytes between two looks at the clock, at least.
const LOOK_BYTES: usize = 1 << 20;

/// How long a figure is measured.
#[derive(Clone, Copy)]
struct Effort {
    /// Work of each lane in one repetition; longer than a parked lane takes to wake.
    repetition: Duration,
    /// Repetitions of a probe.
    repetitions: u32,
    /// Time of one probe after which no repetition begins.
    limit: Duration,
}

/// A part of a second for all figures.
const QUICK: Effort = Effort {
    repetition: Duration::from_micros(1_500),
    repetitions: 6,
    limit: Duration::from_millis(12),
};
const CACHES: Effort = Effort {
    repetition: Duration::from_micros(1_500),
    repetitions: 16,
    limit: Duration::from_secs(1),
};
const MEMORY: Effort = Effort {
    repetition: Duration::from_millis(2),
    repetitions: 40,
    limit: Duration::from_secs(2),
};

/// Memory of one lane, used as one to three arrays.
struct Streams<'m> {
    memory: &'m mut [f32],
    elements: usize,
    /// Where the next block of each array begins.
    next: usize,
    tier: IsaTier,
}

/// Elements of the arrays of one lane: whole steps of every tier in each of three, so that none is left for a scalar loop.
fn elements(bytes_of_lane: u64) -> usize {
    (bytes_of_lane as usize / F32_BYTES).next_multiple_of(6 * STEP)
}

/// Bytes of memory for the largest of some levels.
fn bytes_for(levels: &[Level], lanes: usize) -> usize {
    let of_lane = levels
        .iter()
        .map(|level| elements(level.bytes_of_lane) + 3 * GAP);
    of_lane.max().unwrap_or(0) * lanes * F32_BYTES
}

impl<'m> Streams<'m> {
    /// One for each lane, out of memory that [`bytes_for`] is the size of.
    fn of_lanes(
        memory: &'m mut [f32],
        lanes: usize,
        bytes_of_lane: u64,
        tier: IsaTier,
    ) -> Vec<Mutex<Self>> {
        let elements = elements(bytes_of_lane);
        memory
            .chunks_exact_mut(elements + 3 * GAP)
            .take(lanes)
            .map(|memory| {
                Mutex::new(Streams {
                    memory,
                    elements,
                    next: 0,
                    tier,
                })
            })
            .collect()
    }

    /// The next block of each of `N` arrays, with the number of times that it is worth going over it between two looks
    /// at the clock.
    fn blocks<const N: usize>(&mut self) -> ([&mut [f32]; N], usize) {
        let length = self.elements / N;
        let block = length.min(BLOCK);
        let start = if self.next + block > length {
            0
        } else {
            self.next
        };
        self.next = start + block;
        let mut rest: &mut [f32] = &mut *self.memory;
        let blocks = std::array::from_fn(|_| {
            let (array, after) = std::mem::take(&mut rest)
                .split_at_mut_checked(length + GAP)
                .unwrap_or_default();
            rest = after;
            array.get_mut(start..start + block).unwrap_or_default()
        });
        // A block of a larger array is gone over once.
        let bytes = N * block * F32_BYTES;
        let passes = if block < length {
            1
        } else {
            LOOK_BYTES.div_ceil(bytes)
        };
        (blocks, passes)
    }
}

/// One way to move bytes; gives how many were moved.
type Probe = fn(&mut Streams<'_>) -> u64;

fn moved<const N: usize>(blocks: [&mut [f32]; N], passes: usize) -> u64 {
    let elements: usize = blocks.iter().map(|block| block.len()).sum();
    black_box(blocks);
    (passes * elements * F32_BYTES) as u64
}

const READS: &[Probe] = &[|streams| {
    let tier = streams.tier;
    let ([block], passes) = streams.blocks();
    black_box(probe::read(tier, block, passes));
    moved([block], passes)
}];
const WRITES: &[Probe] = &[
    |streams| {
        let tier = streams.tier;
        let ([block], passes) = streams.blocks();
        probe::write(tier, 1.0, block, passes);
        moved([block], passes)
    },
    |streams| {
        let tier = streams.tier;
        let ([block], passes) = streams.blocks();
        probe::write_past_caches(tier, 1.0, block, passes);
        moved([block], passes)
    },
    |streams| {
        let ([block], passes) = streams.blocks();
        for _ in 0..passes {
            // Some processors write lines of zeros faster than others.
            bytemuck::cast_slice_mut::<f32, u8>(black_box(&mut *block)).fill(1);
        }
        moved([block], passes)
    },
];
const COPIES: &[Probe] = &[
    |streams| {
        let tier = streams.tier;
        let ([from, to], passes) = streams.blocks();
        probe::copy(tier, from, to, passes);
        moved([from, to], passes)
    },
    |streams| {
        let tier = streams.tier;
        let ([from, to], passes) = streams.blocks();
        probe::copy_past_caches(tier, from, to, passes);
        moved([from, to], passes)
    },
    |streams| {
        let ([from, to], passes) = streams.blocks();
        for _ in 0..passes {
            black_box(&mut *to).copy_from_slice(from);
        }
        moved([from, to], passes)
    },
];
const ADDITIONS: &[Probe] = &[|streams| {
    let tier = streams.tier;
    let ([a, b, c], passes) = streams.blocks();
    probe::add(tier, a, b, c, passes);
    moved([a, b, c], passes)
}];

/// A level to be measured.
struct Level {
    name: &'static str,
    /// Bytes that it holds, of all lanes together.
    capacity: Option<u64>,
    bytes_of_lane: u64,
    effort: Effort,
}

/// Bytes of a lane's own caches.
fn own_caches(execution: &CpuExecutionDescriptor) -> (u64, u64) {
    let l1d = execution.l1d_bytes.unwrap_or(USUAL_L1D_BYTES);
    let l2 = execution.l2_bytes.unwrap_or(USUAL_L2_BYTES).max(2 * l1d);
    (l1d, l2)
}

/// Measures what all participants of an executor can do at most, in at most 300 ms or so: multiply-adds of 32-bit floats,
/// and bandwidth in the first and second level of cache and beyond. Each figure is the sum of what each lane reached
/// while the others worked as well, at its best of several repetitions.
///
/// Bandwidths are absent when the system refuses memory.
pub fn measure_ceilings(executor: &CpuExecutor, execution: &CpuExecutionDescriptor) -> Ceilings {
    let lanes = executor.participants().max(1);
    let (l1d, l2) = own_caches(execution);
    let beyond = (4 * l2)
        .min(MOST_BYTES)
        .min(MOST_BYTES_IN_ALL / lanes as u64)
        .max(l2);
    let levels = [
        ("L1d", l1d / 2, l1d),
        ("L2", l2 / 2, l2),
        (DRAM, beyond, beyond),
    ];
    let levels = levels.map(|(name, bytes_of_lane, capacity)| Level {
        name,
        capacity: Some(capacity * lanes as u64),
        bytes_of_lane,
        effort: QUICK,
    });
    let (levels, mut memory) = match AlignedBuffer::zeroed(bytes_for(&levels, lanes)) {
        Ok(memory) => (&levels[..], memory),
        Err(_) => (&[][..], AlignedBuffer::empty()),
    };
    Ceilings::from(&measure(executor, lanes, QUICK, levels, &mut memory))
}

/// Measures what 1, 2, 4, … and all participants of an executor can do at most, in some seconds: multiply-adds of 32-bit
/// floats, and reads, writes and copies by level of cache, up to memory beyond all caches.
///
/// # Errors
/// [`Error::Tensor`] when the system refuses memory beyond the caches.
pub fn measure_roofline(
    executor: &CpuExecutor,
    execution: &CpuExecutionDescriptor,
    processor: &CpuDescriptor,
) -> Result<Vec<ParticipantCeilings>, Error> {
    let all = executor.participants().max(1);
    let mut counts: Vec<usize> = std::iter::successors(Some(1), |n| Some(2 * n))
        .take_while(|n| *n < all)
        .collect();
    counts.push(all);
    let levels = counts
        .iter()
        .map(|&lanes| levels(execution, processor, lanes as u64));
    let levels: Vec<Vec<Level>> = levels.collect();
    let buffers = counts.iter().zip(&levels);
    let bytes = buffers
        .map(|(lanes, levels)| bytes_for(levels, *lanes))
        .max();
    let mut memory = AlignedBuffer::zeroed(bytes.unwrap_or(0))?;
    let measured = counts
        .iter()
        .zip(&levels)
        .map(|(&lanes, levels)| measure(executor, lanes, CACHES, levels, &mut memory));
    Ok(measured.collect())
}

fn levels(execution: &CpuExecutionDescriptor, processor: &CpuDescriptor, lanes: u64) -> Vec<Level> {
    let (l1d, l2) = own_caches(execution);
    let cache = |name, capacity, bytes_of_lane| Level {
        name,
        capacity: Some(capacity),
        bytes_of_lane,
        effort: CACHES,
    };
    let mut levels = vec![
        cache("L1d", l1d * lanes, l1d / 2),
        cache("L2", l2 * lanes, l2 / 2),
    ];
    let l3 = processor.l3_bytes.unwrap_or(0);
    let share = (l3 / (2 * lanes)).min(MOST_BYTES / 2);
    if share >= 2 * l2 {
        levels.push(cache("L3", l3, share));
    }
    levels.push(Level {
        name: DRAM,
        capacity: None,
        bytes_of_lane: (4 * l3).clamp(MEMORY_BYTES.0, MEMORY_BYTES.1) / lanes,
        effort: MEMORY,
    });
    levels
}

fn measure(
    executor: &CpuExecutor,
    lanes: usize,
    effort: Effort,
    levels: &[Level],
    memory: &mut AlignedBuffer,
) -> ParticipantCeilings {
    let tier = IsaTier::detect();
    let memory: &mut [f32] = bytemuck::cast_slice_mut(memory.as_bytes_mut());
    let fma = repetitions(executor, lanes, effort, &|_| {
        timed(effort.repetition, || {
            let (sum, operations) = probe::multiply_adds(tier, ROUNDS);
            black_box(sum);
            operations
        })
    });
    ParticipantCeilings {
        participants: lanes as u32,
        fma: CeilingRate::new(fma),
        bandwidth: levels
            .iter()
            .map(|level| {
                let streams = Streams::of_lanes(memory, lanes, level.bytes_of_lane, tier);
                bandwidth(executor, &streams, level)
            })
            .collect(),
    }
}

/// Bandwidths of a level, on the memory of each lane.
fn bandwidth(
    executor: &CpuExecutor,
    streams: &[Mutex<Streams<'_>>],
    level: &Level,
) -> LevelCeilings {
    // The probe that reaches most stands for the level.
    let best = |probes: &[Probe]| {
        let rates = probes.iter().map(|probe| {
            repetitions(executor, streams.len(), level.effort, &|index| {
                let mut own = streams[index]
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                // Into this lane's caches first.
                probe(&mut own);
                timed(level.effort.repetition, || probe(&mut own))
            })
        });
        let best = rates.max_by(|a, b| highest(a).total_cmp(&highest(b)));
        CeilingRate::new(best.unwrap_or_default())
    };
    LevelCeilings {
        level: level.name.to_owned(),
        capacity_bytes: level.capacity,
        working_set_bytes: level.bytes_of_lane * streams.len() as u64,
        read: best(READS),
        add: best(ADDITIONS),
        copy: best(COPIES),
        write: best(WRITES),
    }
}

/// Repeats work until its time is over; units per nanosecond.
fn timed(least: Duration, mut work: impl FnMut() -> u64) -> f64 {
    let start = Instant::now();
    let mut units = 0;
    loop {
        units += work();
        let elapsed = start.elapsed();
        if elapsed >= least {
            return units as f64 / elapsed.as_nanos() as f64;
        }
    }
}

/// What one lane's share came to.
#[derive(Clone, Copy, Default)]
struct Share {
    per_ns: f64,
    lane: usize,
}

/// Sums of the lanes' rates. Repetitions in which every lane took a share count; when there are none, those in which one
/// lane had the machine to itself.
fn repetitions(
    executor: &CpuExecutor,
    lanes: usize,
    effort: Effort,
    rate: &(dyn Fn(usize) -> f64 + Sync),
) -> Vec<f64> {
    let start = Instant::now();
    let (mut together, mut apart) = (Vec::new(), Vec::new());
    for _ in 0..effort.repetitions {
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
            if seen.len() == lanes {
                together.push(sum);
            } else {
                apart.push(sum);
            }
        }
        if start.elapsed() >= effort.limit {
            break;
        }
    }
    if together.is_empty() { apart } else { together }
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

    #[test]
    fn blocks_cover_their_arrays_in_turn_and_do_not_overlap() {
        let tier = IsaTier::detect();
        let level = |bytes_of_lane| Level {
            name: DRAM,
            capacity: None,
            bytes_of_lane,
            effort: QUICK,
        };
        let memory = bytes_for(&[level(24 << 10), level(48 << 20)], 2);
        let mut memory = vec![0.0; memory / F32_BYTES];
        let small = Streams::of_lanes(&mut memory, 2, 24 << 10, tier);
        assert_eq!(small.len(), 2);
        let mut own = small[1].lock().expect("nobody else has it");
        let ([a, b], passes) = own.blocks();
        assert_eq!((a.len(), b.len()), (3 << 10, 3 << 10));
        assert_eq!(passes, LOOK_BYTES.div_ceil(24 << 10));
        let distance = b.as_ptr().addr() - a.as_ptr().addr();
        assert!(distance >= (12 << 10) && !distance.is_multiple_of(4 << 10));
        assert!(distance.is_multiple_of(64));
        drop(own);
        drop(small);
        let large = Streams::of_lanes(&mut memory, 2, 48 << 20, tier);
        let mut large = large[0].lock().expect("nobody else has it");
        let mut starts = Vec::new();
        for _ in 0..5 {
            let ([a, b, c], passes) = large.blocks();
            assert_eq!(
                (a.len(), b.len(), c.len(), passes),
                (BLOCK, BLOCK, BLOCK, 1)
            );
            starts.push(a.as_ptr().addr());
        }
        assert_eq!(starts[1] - starts[0], BLOCK * F32_BYTES);
        assert_eq!(starts[4], starts[0], "four blocks, then the first again");
    }

    #[test]
    fn levels_end_with_memory_beyond_all_caches() {
        let environment = Environment::new(ProfileSource::None);
        let policy = CpuExecutionPolicy::default();
        let mut execution = environment.resolve(&policy).expect("a policy").descriptor();
        (execution.l1d_bytes, execution.l2_bytes) = (Some(48 << 10), Some(2 << 20));
        let processor = CpuDescriptor {
            l3_bytes: Some(260 << 20),
            ..CpuDescriptor::default()
        };
        let names = |levels: &[Level]| levels.iter().map(|level| level.name).collect::<Vec<_>>();
        let with = levels(&execution, &processor, 2);
        assert_eq!(names(&with), ["L1d", "L2", "L3", DRAM]);
        assert_eq!(with[1].capacity, Some(4 << 20));
        assert_eq!(with[2].capacity, Some(260 << 20));
        assert_eq!(with[3].bytes_of_lane, 512 << 20, "twice 512 MiB are a GiB");
        let without = levels(&execution, &CpuDescriptor::default(), 1);
        assert_eq!(names(&without), ["L1d", "L2", DRAM]);
    }
}
