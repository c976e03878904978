//! What it costs to begin and end a region of two lanes.

use crate::Settings;
use crate::claims::Claim;
use crate::contestants::{self, GAPS_US, Libgomp};
use crate::processes::{self, Samples};
use crate::statistics::{median, quantile};
use crate::work::compute_for;
use onl_executor::{CpuExecutor, WaitMode};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const MOST_US: f64 = 0.6;
/// Gaps from which on a balanced lane may sleep: the longest time that it spins.
const BALANCED_BUDGET_US: u64 = 500;
const LEAST_RAYON_RATIO: f64 = 10.0;
const MOST_COLD_US: f64 = 60.0;

/// Medians in microseconds by contestant and gap, or why there are none.
type Medians = BTreeMap<&'static str, Result<[f64; GAPS_US.len()], String>>;

pub(crate) fn measure(settings: Settings) -> Vec<Claim> {
    let rounds = if settings.quick { 1 } else { 3 };
    let divisor = if settings.quick { 4 } else { 1 };
    let libgomp = Libgomp::compile();
    let mut gathered: BTreeMap<&'static str, Result<Samples, String>> = contestants::ALL
        .iter()
        .map(|&name| (name, Ok(Samples::new())))
        .collect();
    let mut cold: Result<Samples, String> = Ok(Samples::new());
    for _ in 0..rounds {
        for (name, result) in &mut gathered {
            if let Ok(samples) = result
                && let Err(reason) = contestants::compete(name, &libgomp, divisor, samples)
            {
                *result = Err(reason);
            }
        }
        if let Ok(samples) = &mut cold {
            let runs = settings.rounds(80).to_string();
            let collected = processes::own(&["cold", &runs])
                .and_then(|command| processes::collect(command, samples));
            if let Err(reason) = collected {
                cold = Err(reason);
            }
        }
    }
    let medians = print_table(&gathered);
    let mut claims = region_claims(&medians);
    claims.push(cold_claim(cold));
    claims
}

fn print_table(gathered: &BTreeMap<&'static str, Result<Samples, String>>) -> Medians {
    println!(
        "a region that two lanes have to join, us: p50 (p99), by the caller's gap between regions in us"
    );
    print!("{:<22}", "gap");
    for gap in GAPS_US {
        print!("{gap:>18}");
    }
    println!();
    let mut medians = Medians::new();
    for name in contestants::ALL {
        print!("{name:<22}");
        let row = gathered[name]
            .as_ref()
            .map_err(Clone::clone)
            .map(|samples| {
                GAPS_US.map(|gap| {
                    let none = Vec::new();
                    let samples = samples.get(&gap.to_string()).unwrap_or(&none);
                    let p50 = median(samples) / 1e3;
                    let p99 = quantile(samples, 0.99) / 1e3;
                    print!("{:>18}", format!("{p50:.2} ({p99:.1})"));
                    p50
                })
            });
        match &row {
            Ok(_) => println!(),
            Err(reason) => println!("  not available: {reason}"),
        }
        medians.insert(name, row);
    }
    medians
}

/// The gap at which `figure` is largest, and that figure.
fn worst(gaps: impl Fn(u64) -> bool, figure: impl Fn(usize) -> f64) -> (u64, f64) {
    GAPS_US
        .iter()
        .enumerate()
        .filter(|(_, gap)| gaps(**gap))
        .map(|(index, &gap)| (gap, figure(index)))
        .max_by(|one, other| one.1.total_cmp(&other.1))
        .unwrap_or((0, f64::NAN))
}

fn region_claims(medians: &Medians) -> Vec<Claim> {
    let within = |gap: u64| gap < BALANCED_BUDGET_US;
    let cases: [(
        &'static str,
        &'static str,
        &str,
        &dyn Fn(u64) -> bool,
        &'static str,
    ); 2] = [
        (
            contestants::LATENCY,
            "every gap",
            "every gap",
            &|_| true,
            contestants::LIBGOMP,
        ),
        (
            contestants::BALANCED,
            "gaps within its budget",
            "gaps beyond its budget",
            &|gap| !within(gap),
            contestants::LIBGOMP_PASSIVE,
        ),
    ];
    let mut claims = Vec::new();
    for (name, absolute, compared, compared_gaps, peer) in cases {
        let absolute_text = format!("{name}: region p50, {absolute}");
        let compared_text = format!("{name}: not slower than {peer}, {compared}");
        let own = match &medians[name] {
            Ok(own) => own,
            Err(reason) => {
                for text in [absolute_text, compared_text] {
                    claims.push(Claim::not_available(text, "", reason));
                }
                continue;
            }
        };
        let absolute_gaps = |gap| name == contestants::LATENCY || within(gap);
        let (gap, slowest) = worst(absolute_gaps, |index| own[index]);
        claims.push(Claim::new(
            absolute_text,
            format!("{slowest:.2} us at gap {gap}"),
            format!("<= {MOST_US} us"),
            slowest <= MOST_US,
        ));
        claims.push(match &medians[peer] {
            Ok(others) => {
                let (gap, _) = worst(compared_gaps, |index| own[index] / others[index]);
                let index = GAPS_US.iter().position(|&other| other == gap).unwrap_or(0);
                Claim::new(
                    compared_text,
                    format!(
                        "{:.2} us to {:.2} us at gap {gap}",
                        own[index], others[index]
                    ),
                    "ratio <= 1",
                    own[index] <= others[index],
                )
            }
            Err(reason) => Claim::not_available(compared_text, "ratio <= 1", reason),
        });
    }
    claims.extend(rayon_claims(medians));
    claims
}

/// At the gap of 20 µs.
fn rayon_claims(medians: &Medians) -> Vec<Claim> {
    const GAP: usize = 1;
    let fastest = [contestants::RAYON_INSIDE, contestants::RAYON_OUTSIDE]
        .into_iter()
        .filter_map(|name| Some((name, medians[name].as_ref().ok()?[GAP])))
        .min_by(|one, other| one.1.total_cmp(&other.1));
    [contestants::LATENCY, contestants::BALANCED]
        .into_iter()
        .map(|name| {
            let text = format!("{name}: faster than the faster rayon, gap {}", GAPS_US[GAP]);
            let target = format!(">= {LEAST_RAYON_RATIO} times");
            match (fastest, &medians[name]) {
                (Some((peer, theirs)), Ok(own)) => {
                    let ratio = theirs / own[GAP];
                    Claim::new(
                        text,
                        format!("{ratio:.1} times ({peer}, {theirs:.2} us)"),
                        target,
                        ratio >= LEAST_RAYON_RATIO,
                    )
                }
                _ => Claim::not_available(text, target, "no figures to compare"),
            }
        })
        .collect()
}

fn cold_claim(cold: Result<Samples, String>) -> Claim {
    let text = "cold run (workers parked, unpinned): its first region, p50";
    let samples = match cold {
        Ok(samples) => samples,
        Err(reason) => {
            return Claim::not_available(text, format!("<= {MOST_COLD_US} us"), &reason);
        }
    };
    let none = Vec::new();
    let p50 = |label: &str| median(samples.get(label).unwrap_or(&none)) / 1e3;
    let p99 = |label: &str| quantile(samples.get(label).unwrap_or(&none), 0.99) / 1e3;
    println!("a run whose worker is parked (balanced, unpinned), us: p50 (p99)");
    println!(
        "{:<22}{:>18}{:>18}{:>18}",
        "caller before", "enter", "first region", "both"
    );
    for before in ["computed 3 ms", "slept 3 ms"] {
        print!("{before:<22}");
        for part in ["enter", "region", "both"] {
            let label = format!("{before} {part}");
            print!("{:>18}", format!("{:.1} ({:.0})", p50(&label), p99(&label)));
        }
        println!();
    }
    println!(
        "the system's own part: a parked std thread answers its unpark after {:.1} ({:.0})",
        p50(BARE),
        p99(BARE)
    );
    Claim::at_most(text, p50("computed 3 ms region"), MOST_COLD_US, "us")
}

/// Measures cold runs in this process. Argument: how many of each kind.
pub(crate) fn cold_child(arguments: &[String]) -> Result<(), String> {
    const IDLE: Duration = Duration::from_millis(3);
    let runs: usize = arguments
        .first()
        .and_then(|count| count.parse().ok())
        .ok_or("how many cold runs?")?;
    let executor = CpuExecutor::with_wait_mode(2, WaitMode::Balanced);
    let befores: [(&str, fn(Duration)); 2] = [
        ("computed 3 ms", compute_for),
        ("slept 3 ms", std::thread::sleep),
    ];
    for (before, idle) in befores {
        let [mut enter, mut region, mut both] = [(); 3].map(|()| Vec::with_capacity(runs));
        for _ in 0..runs {
            idle(IDLE);
            let start = Instant::now();
            let run = contestants::enter(&executor);
            let entered = start.elapsed();
            contestants::region_of_both(&run);
            let ended = start.elapsed();
            enter.push(entered.as_nanos() as f64);
            region.push((ended - entered).as_nanos() as f64);
            both.push(ended.as_nanos() as f64);
        }
        for (part, samples) in [("enter", enter), ("region", region), ("both", both)] {
            processes::emit(&format!("{before} {part}"), &samples);
        }
    }
    drop(executor);
    processes::emit(BARE, &answers_of_a_parked_thread(runs, IDLE));
    Ok(())
}

const BARE: &str = "bare unpark";

/// Nanoseconds from the unpark of a thread that has slept so long to its answer.
fn answers_of_a_parked_thread(rounds: usize, idle: Duration) -> Vec<f64> {
    let (asked, answered) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            for round in 1..=rounds {
                while asked.load(Ordering::Acquire) < round {
                    std::thread::park();
                }
                answered.store(round, Ordering::Release);
            }
        });
        (1..=rounds)
            .map(|round| {
                compute_for(idle);
                let start = Instant::now();
                asked.store(round, Ordering::Release);
                thread.thread().unpark();
                while answered.load(Ordering::Acquire) < round {
                    std::hint::spin_loop();
                }
                start.elapsed().as_nanos() as f64
            })
            .collect()
    })
}
