//! Regions of random sizes from many callers over several sessions' executors: each index exactly once, whatever
//! panics and cancellations happen around it.
//!
//! `ONL_STRESS_REGIONS` sets the number of regions, one million unless it is given.
#![allow(clippy::disallowed_methods)] // callers are threads of their own

use onl_cpu::CpuSystem;
use onl_executor::{
    CancelToken, CpuExecutionPolicy, CpuExecutor, ExecutorRegistry, RegionError, RegionSpec,
    RunOptions, WaitMode,
};
use onl_profiling::{RegionSite, region_site};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

static SITE: RegionSite = region_site!("test.stress");

const CALLERS: usize = 8;
const MOST_UNITS: usize = 300;

/// SplitMix64 (Steele, Lea and Flood, 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// What happens to a region.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Completes,
    /// The chunk with this unit panics.
    Panics(usize),
    /// The chunk with this unit cancels the run.
    Cancelled(usize),
}

struct Tally {
    regions: AtomicU64,
    panics: AtomicU64,
    cancellations: AtomicU64,
}

/// One run with some regions; returns how many.
fn one_run(executor: &CpuExecutor, random: &mut Random, units: &[AtomicU8], tally: &Tally) -> u64 {
    let token = CancelToken::new();
    let run = executor
        .enter_with(RunOptions {
            cancel: Some(&token),
            expects_regions: random.below(4) == 0,
            max_lanes: random.below(5),
            ..RunOptions::default()
        })
        .expect("not forked");
    let regions = 1 + random.below(16);
    for number in 0..regions {
        let total = 1 + random.below(MOST_UNITS);
        let spec = RegionSpec {
            max_participants: random.below(4),
            ..RegionSpec::new(total, 1 + random.below(40))
        };
        let fate = match random.below(64) {
            0 => Fate::Panics(random.below(total)),
            1 if number + 1 == regions => Fate::Cancelled(random.below(total)),
            _ => Fate::Completes,
        };
        for unit in &units[..total] {
            unit.store(0, Ordering::Relaxed);
        }
        let chunks = AtomicUsize::new(0);
        let result = run.lanes().region(&SITE, spec, |chunk| {
            chunks.fetch_add(1, Ordering::Relaxed);
            for unit in chunk.range.clone() {
                units[unit].fetch_add(1, Ordering::Relaxed);
                match fate {
                    // No message on the terminal for each of thousands.
                    Fate::Panics(at) if at == unit => resume_unwind(Box::new("planned")),
                    Fate::Cancelled(at) if at == unit => token.cancel(),
                    _ => {}
                }
            }
        });
        tally.regions.fetch_add(1, Ordering::Relaxed);
        let counts: Vec<u8> = units[..total]
            .iter()
            .map(|unit| unit.load(Ordering::Relaxed))
            .collect();
        assert!(
            counts.iter().all(|&count| count <= 1),
            "{spec:?}: {counts:?}"
        );
        let all_once = counts.iter().all(|&count| count == 1);
        match (fate, result) {
            (Fate::Completes, Ok(())) => assert!(all_once, "{spec:?}: {counts:?}"),
            (Fate::Panics(at), Err(RegionError::Panicked { message, .. })) => {
                assert_eq!((message.as_str(), counts[at]), ("planned", 1));
                tally.panics.fetch_add(1, Ordering::Relaxed);
            }
            // Every chunk may have been taken when the request came.
            (Fate::Cancelled(_), Ok(())) => assert!(all_once, "{spec:?}: {counts:?}"),
            (Fate::Cancelled(_), Err(RegionError::Cancelled { .. })) => {
                assert!(chunks.load(Ordering::Relaxed) < spec.chunks());
                tally.cancellations.fetch_add(1, Ordering::Relaxed);
            }
            (fate, result) => panic!("{fate:?} ended as {result:?}"),
        }
    }
    regions as u64
}

#[test]
fn every_index_is_run_once_whatever_happens_around_it() {
    let wanted: u64 = std::env::var("ONL_STRESS_REGIONS")
        .ok()
        .map_or(1_000_000, |text| text.parse().expect("a number of regions"));
    let registry = ExecutorRegistry::with_limits(3, 10);
    let system = CpuSystem::current();
    let sessions: Vec<_> = [
        (2, WaitMode::Balanced),
        (2, WaitMode::Frugal),
        // More lanes than many machines have processors.
        (4, WaitMode::Balanced),
    ]
    .into_iter()
    .map(|(threads, wait)| {
        let policy = CpuExecutionPolicy {
            threads,
            wait,
            ..CpuExecutionPolicy::default()
        };
        let resolved = policy.resolve(&system).expect("threads are no hard limit");
        registry.lease(&resolved).expect("a pool is free")
    })
    .collect();
    let executors: Vec<Arc<CpuExecutor>> = sessions
        .iter()
        .map(|lease| Arc::clone(lease.executor()))
        .collect();
    let tally = Tally {
        regions: AtomicU64::new(0),
        panics: AtomicU64::new(0),
        cancellations: AtomicU64::new(0),
    };
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let (executors, tally) = (&executors, &tally);
            scope.spawn(move || {
                let mut random = Random(caller as u64);
                let units: Vec<AtomicU8> = (0..MOST_UNITS).map(|_| AtomicU8::new(0)).collect();
                let mut done = 0;
                while done < wanted.div_ceil(CALLERS as u64) {
                    let executor = &executors[random.below(executors.len())];
                    done += one_run(executor, &mut random, &units, tally);
                }
            });
        }
    });
    assert!(tally.regions.into_inner() >= wanted);
    assert!(tally.panics.into_inner() > 0 && tally.cancellations.into_inner() > 0);
    assert_eq!(registry.budget().used(), 0);
}
