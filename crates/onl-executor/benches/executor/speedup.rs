//! How much faster two lanes do little work: runs of one region each, on lanes that are awake, beside one lane.

use crate::Settings;
use crate::claims::Claim;
use crate::contestants::enter;
use crate::processes::{self, Samples};
use crate::statistics::quantile;
use crate::work::{compute, compute_for, steps_per_nanosecond};
use onl_executor::{CpuExecutor, RegionSpec, WaitMode};
use onl_profiling::{RegionSite, region_site};
use std::time::{Duration, Instant};

static SITE: RegionSite = region_site!("bench.speedup");

/// Microseconds of work for each lane, and the least speed-up.
const WORKS: [(u64, f64); 2] = [(20, 1.7), (5, 1.3)];
/// Chunks of a region: one for each lane, and several as kernels have them.
const CHUNKS: [usize; 2] = [2, 8];
/// What the caller computes between runs.
const GAP: Duration = Duration::from_micros(20);

pub(crate) fn measure(settings: Settings) -> Vec<Claim> {
    let blocks = settings.rounds(80).to_string();
    let mut samples = Samples::new();
    let collected = processes::own(&["speedup", &blocks])
        .and_then(|command| processes::collect(command, &mut samples));
    println!(
        "runs of one region after 20 us of the caller's own work: serial time over that of two lanes"
    );
    println!("{:<22}{:>10}{:>24}", "work", "chunks", "p50 (p10 to p90)");
    let mut claims = Vec::new();
    for (work, least) in WORKS {
        for chunks in CHUNKS {
            let text = format!("2 x {work} us in {chunks} chunks: speed-up over one lane");
            if let Err(reason) = &collected {
                claims.push(Claim::not_available(text, format!(">= {least} x"), reason));
                continue;
            }
            let none = Vec::new();
            let ratios = samples.get(&label(work, chunks)).unwrap_or(&none);
            let [low, p50, high] = [0.1, 0.5, 0.9].map(|q| quantile(ratios, q));
            println!(
                "{:<22}{chunks:>10}{:>24}",
                format!("2 x {work} us"),
                format!("{p50:.2} ({low:.2} to {high:.2})")
            );
            claims.push(Claim::at_least(text, p50, least, "x"));
        }
    }
    claims
}

fn label(work: u64, chunks: usize) -> String {
    format!("{work} {chunks}")
}

/// Measures in this process: ratios of the medians of blocks that take turns. Argument: blocks.
pub(crate) fn child(arguments: &[String]) -> Result<(), String> {
    let blocks: usize = arguments
        .first()
        .and_then(|count| count.parse().ok())
        .ok_or("how many blocks?")?;
    let serial = CpuExecutor::with_wait_mode(1, WaitMode::Balanced);
    let parallel = CpuExecutor::with_wait_mode(2, WaitMode::Balanced);
    let rate = steps_per_nanosecond();
    for (work, _) in WORKS {
        for chunks in CHUNKS {
            let steps = (2.0 * work as f64 * 1e3 * rate / chunks as f64) as u64;
            let ratios: Vec<f64> = (0..blocks)
                .map(|_| block(&serial, chunks, steps) / block(&parallel, chunks, steps))
                .collect();
            processes::emit(&label(work, chunks), &ratios);
        }
    }
    Ok(())
}

/// Median time of the runs of one block. Its first runs wake the lanes of this executor, and those of the other go to
/// sleep meanwhile.
fn block(executor: &CpuExecutor, chunks: usize, steps: u64) -> f64 {
    const WARM_UP: usize = 30;
    const RUNS: usize = 60;
    let mut times = Vec::with_capacity(RUNS);
    for repetition in 0..WARM_UP + RUNS {
        compute_for(GAP);
        let start = Instant::now();
        let run = enter(executor);
        let result = run.lanes().region(&SITE, RegionSpec::new(chunks, 1), |_| {
            compute(steps);
        });
        drop(run);
        let taken = start.elapsed().as_nanos() as f64;
        if let Err(error) = result {
            panic!("{error}");
        }
        if repetition >= WARM_UP {
            times.push(taken);
        }
    }
    crate::statistics::median(&times)
}
