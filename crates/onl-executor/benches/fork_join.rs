//! Latency of an empty region on two lanes, by wait mode and by the gap between regions, beside
//! `std::thread::scope`.
//!
//! `cargo bench -p onl-executor --bench fork_join`
#![allow(clippy::disallowed_methods)] // the peer creates its threads itself

use onl_executor::{CpuExecutor, RegionSpec, RunOptions, WaitMode};
use onl_profiling::{RegionSite, region_site};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

static SITE: RegionSite = region_site!("bench.fork_join");

const GAPS_US: [u64; 5] = [0, 20, 100, 500, 2000];

/// Quantiles of `f`, called after gaps in which this thread computes.
fn measure(gap: Duration, rounds: usize, mut f: impl FnMut()) -> (f64, f64) {
    let mut samples: Vec<f64> = (0..rounds)
        .map(|_| {
            let gap_start = Instant::now();
            while gap_start.elapsed() < gap {
                std::hint::spin_loop();
            }
            let start = Instant::now();
            f();
            start.elapsed().as_nanos() as f64 / 1000.0
        })
        .collect();
    samples.sort_by(f64::total_cmp);
    (samples[rounds / 2], samples[rounds * 99 / 100])
}

/// Rounds that fit a second and a half or so.
fn rounds(gap_us: u64) -> usize {
    (1_000_000 / (gap_us + 20)).clamp(300, 20_000) as usize
}

fn row(name: &str, cells: impl Iterator<Item = (f64, f64)>) {
    print!("{name:<22}");
    for (p50, p99) in cells {
        print!(" {:>18}", format!("{p50:.2} ({p99:.1})"));
    }
    println!();
}

fn main() {
    // `cargo test --benches` only asks whether this builds and starts.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    print!("{:<22}", "p50 (p99), us");
    for gap in GAPS_US {
        print!(" {:>18}", format!("gap {gap}"));
    }
    println!();
    let modes = [
        WaitMode::Latency,
        WaitMode::Fixed(Duration::from_micros(500)),
        WaitMode::Balanced,
        WaitMode::Frugal,
    ];
    for joined in [true, false] {
        for mode in modes {
            let executor = CpuExecutor::with_wait_mode(2, mode);
            let options = RunOptions {
                expects_regions: true,
                ..RunOptions::default()
            };
            let run = executor
                .enter_with(options)
                .unwrap_or_else(|error| panic!("{error}"));
            let cells = GAPS_US.iter().map(|&gap| {
                measure(Duration::from_micros(gap), rounds(gap), || {
                    let arrived = AtomicUsize::new(0);
                    let result = run.lanes().region(&SITE, RegionSpec::new(2, 1), |_| {
                        arrived.fetch_add(1, Ordering::Relaxed);
                        // Both lanes at once: a fork and a join, not a caller who does everything itself.
                        while joined && arrived.load(Ordering::Relaxed) < 2 {
                            std::hint::spin_loop();
                        }
                    });
                    if let Err(error) = result {
                        panic!("{error}");
                    }
                })
            });
            let what = if joined { "both join" } else { "claimed" };
            row(&format!("{} {what}", mode.name()), cells);
        }
    }
    let cells = GAPS_US.iter().map(|&gap| {
        measure(Duration::from_micros(gap), rounds(gap).min(2000), || {
            std::thread::scope(|scope| {
                scope.spawn(|| std::hint::black_box(0));
            });
        })
    });
    row("std::thread::scope", cells);

    let executor = CpuExecutor::with_wait_mode(2, WaitMode::Balanced);
    let (p50, p99) = measure(Duration::ZERO, 20_000, || {
        std::hint::black_box(executor.enter().lanes());
    });
    println!("enter and leave a run    {p50:.2} ({p99:.1})");
}
