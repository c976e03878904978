//! What it costs a region to be recorded.

use crate::Settings;
use crate::claims::Claim;
use crate::contestants::region_of_both;
use crate::processes::{self, Samples};
use crate::statistics::{median, quantile};
use onl_executor::{CpuExecutor, RegionSpec, RunOptions, WaitMode};
use onl_profiling::{
    Collector, CollectorOptions, CounterSet, ProfilingLevel, RegionSite, region_site,
};
use std::time::Instant;

static SITE: RegionSite = region_site!("bench.recorded");

/// A level, its counters, and the most nanoseconds that it may add to a region.
struct Level {
    name: &'static str,
    level: ProfilingLevel,
    counters: CounterSet,
    most_ns: f64,
}

const LEVELS: [Level; 3] = [
    Level {
        name: "timing",
        level: ProfilingLevel::Timing,
        counters: CounterSet::Hardware,
        most_ns: 150.0,
    },
    Level {
        name: "counters, hardware",
        level: ProfilingLevel::Counters,
        counters: CounterSet::Hardware,
        most_ns: 5000.0,
    },
    Level {
        name: "counters, software",
        level: ProfilingLevel::Counters,
        counters: CounterSet::Software,
        most_ns: 5000.0,
    },
];
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
    for Level {
        name,
        level,
        most_ns,
        ..
    } in LEVELS
    {
        for lanes in LANES {
            let text = format!("{name}: added to a region of {}", in_words(lanes));
            let target = format!("<= {most_ns} ns");
            if let Err(reason) = &collected {
                claims.push(Claim::not_available(text, target, reason));
                continue;
            }
            let none = Vec::new();
            let of = |label: &str| samples.get(label).unwrap_or(&none);
            let added = of(&label(name, lanes));
            let counted = of(&counted_label(name, lanes)).first() > Some(&0.0);
            let [low, p50, high] = [0.1, 0.5, 0.9].map(|q| quantile(added, q));
            let missing = level == ProfilingLevel::Counters && !counted;
            println!(
                "{name:<20}{:<20}{:>24}{}",
                in_words(lanes),
                format!("{p50:.0} ({low:.0} to {high:.0})"),
                if missing {
                    "  without counts: this system has none for this process"
                } else {
                    ""
                }
            );
            claims.push(if missing {
                Claim::not_available(text, target, "no counters for this process")
            } else {
                Claim::at_most(text, p50, most_ns, "ns")
            });
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

fn counted_label(level: &str, lanes: usize) -> String {
    format!("counts of {}", label(level, lanes))
}

/// Measures in this process. Argument: pairs of blocks.
pub(crate) fn child(arguments: &[String]) -> Result<(), String> {
    let pairs: usize = arguments
        .first()
        .and_then(|count| count.parse().ok())
        .ok_or("how many pairs of blocks?")?;
    for lanes in LANES {
        let executor = CpuExecutor::with_wait_mode(lanes, WaitMode::Latency);
        for level in LEVELS {
            let collector = Collector::with_options(CollectorOptions {
                level: level.level,
                counters: level.counters,
                regions: REGIONS,
                ..CollectorOptions::default()
            });
            // The first lets threads open their counters.
            let mut counted = 0;
            for _ in 0..2 {
                block(&executor, Some(&collector));
                counted = drain(&collector)?;
            }
            let mut added = Vec::with_capacity(pairs);
            for pair in 0..pairs {
                // Each kind goes first in half of the pairs.
                let first = (pair % 2 == 0).then_some(&collector);
                let second = (pair % 2 == 1).then_some(&collector);
                let difference = block(&executor, first) - block(&executor, second);
                added.push(if pair % 2 == 0 {
                    difference
                } else {
                    -difference
                });
                drain(&collector)?;
            }
            processes::emit(&label(level.name, lanes), &added);
            processes::emit(&counted_label(level.name, lanes), &[counted as f64]);
        }
    }
    Ok(())
}

/// Empties a collector, and returns how many counts the caller's lane had in the last region.
fn drain(collector: &Collector) -> Result<usize, String> {
    let events = collector.drain();
    if events.regions.len() != REGIONS {
        return Err(format!(
            "{} of {REGIONS} regions were recorded",
            events.regions.len()
        ));
    }
    let last = events
        .regions
        .last()
        .and_then(|region| region.lanes.first());
    Ok(last.map_or(0, |sample| {
        sample.counters.values().iter().flatten().count()
    }))
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
    median(&times)
}
