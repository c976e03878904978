//! What it costs a region to be recorded.

use crate::Settings;
use crate::claims::Claim;
use crate::contestants::region_of_both;
use crate::processes::{self, Samples};
use crate::statistics::{median, quantile};
use onl_executor::{CpuExecutor, RegionSpec, RunOptions, WaitMode};
use onl_profiling::{Collector, ProfilingLevel, RegionSite, region_site};
use std::time::Instant;

static SITE: RegionSite = region_site!("bench.recorded");

/// A level, its name, and the most nanoseconds that it may add to a region.
const LEVELS: &[(ProfilingLevel, &str, f64)] = &[(ProfilingLevel::Timing, "timing", 150.0)];
const LANES: [usize; 2] = [1, 2];
const REGIONS: usize = 1000;

pub(crate) fn measure(settings: Settings) -> Vec<Claim> {
    let pairs = settings.rounds(300).to_string();
    let mut samples = Samples::new();
    let collected = processes::own(&["profiling", &pairs])
        .and_then(|command| processes::collect(command, &mut samples));
    println!(
        "nanoseconds that recording adds to an empty region: p50 (p10 to p90) of the differences of blocks"
    );
    let mut claims = Vec::new();
    for &(_, level, most) in LEVELS {
        for lanes in LANES {
            let text = format!("{level}: added to a region of {}", in_words(lanes));
            if let Err(reason) = &collected {
                claims.push(Claim::not_available(text, format!("<= {most} ns"), reason));
                continue;
            }
            let none = Vec::new();
            let added = samples.get(&label(level, lanes)).unwrap_or(&none);
            let [low, p50, high] = [0.1, 0.5, 0.9].map(|q| quantile(added, q));
            println!(
                "{level:<12}{:<20}{:>24}",
                in_words(lanes),
                format!("{p50:.0} ({low:.0} to {high:.0})")
            );
            claims.push(Claim::at_most(text, p50, most, "ns"));
        }
    }
    claims
}

fn in_words(lanes: usize) -> &'static str {
    if lanes == 1 {
        "one lane, inline"
    } else {
        "two lanes"
    }
}

fn label(level: &str, lanes: usize) -> String {
    format!("{level}, {lanes} lanes")
}

/// Measures in this process. Argument: pairs of blocks.
pub(crate) fn child(arguments: &[String]) -> Result<(), String> {
    let pairs: usize = arguments
        .first()
        .and_then(|count| count.parse().ok())
        .ok_or("how many pairs of blocks?")?;
    for lanes in LANES {
        let executor = CpuExecutor::with_wait_mode(lanes, WaitMode::Latency);
        for &(level, name, _) in LEVELS {
            let collector = Collector::with_level(level, REGIONS);
            let added: Vec<f64> = (0..pairs)
                .map(|pair| {
                    // Each kind goes first in half of the pairs.
                    let first = (pair % 2 == 0).then_some(&collector);
                    let second = (pair % 2 == 1).then_some(&collector);
                    let difference = block(&executor, first) - block(&executor, second);
                    if pair % 2 == 0 {
                        difference
                    } else {
                        -difference
                    }
                })
                .collect();
            processes::emit(&label(name, lanes), &added);
        }
    }
    Ok(())
}

/// Median time of a region of one block, in which the clock is read once for ten regions.
fn block(executor: &CpuExecutor, collector: Option<&Collector>) -> f64 {
    const TOGETHER: usize = 10;
    let options = RunOptions {
        collector,
        expects_regions: true,
        ..RunOptions::default()
    };
    let run = executor
        .enter_with(options)
        .unwrap_or_else(|error| panic!("{error}"));
    let region = || {
        if executor.participants() > 1 {
            region_of_both(&run);
        } else if let Err(error) = run.lanes().region(&SITE, RegionSpec::new(2, 1), |chunk| {
            std::hint::black_box(chunk);
        }) {
            panic!("{error}");
        }
    };
    let times: Vec<f64> = (0..REGIONS / TOGETHER)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..TOGETHER {
                region();
            }
            start.elapsed().as_nanos() as f64 / TOGETHER as f64
        })
        .collect();
    if let Some(collector) = collector {
        let events = collector.drain();
        assert_eq!(events.len(), REGIONS, "every region was recorded");
    }
    median(&times)
}
