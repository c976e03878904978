//! Two lanes beside other busy processes: as fast as one lane on average, and hardly later at worst.
//!
//! Two copies of this program compute without end while blocks of regions on two lanes and on one take turns.

use crate::Settings;
use crate::claims::Claim;
use crate::contestants::enter;
use crate::processes::{self, Background, Samples};
use crate::statistics::{median, quantile, ratio_of_sums};
use crate::work::{compute, steps_per_nanosecond};
use onl_executor::{CpuExecutor, RegionSpec, WaitMode};
use onl_profiling::{RegionSite, region_site};
use std::io::Read;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

static SITE: RegionSite = region_site!("bench.neighbours");

const NEIGHBOURS: usize = 2;
/// Microseconds that a region takes one undisturbed lane.
const WORKS_US: [u64; 3] = [20, 100, 1000];
/// Chunks of a region: several for each lane, as kernels have them.
const CHUNKS: usize = 8;
/// Undisturbed time of a block: some turns of the scheduler.
const BLOCK_US: u64 = 40_000;
/// Blocks of one length of regions begin for so long at most.
const LONGEST: Duration = Duration::from_secs(12);
const LEAST_THROUGHPUT: f64 = 0.95;
const SLICES: u32 = 2;

pub(crate) fn measure(settings: Settings) -> Vec<Claim> {
    let mut samples = Samples::new();
    let collected = with_neighbours(settings, &mut samples);
    let (slice, source) = scheduler_slice();
    println!(
        "beside {NEIGHBOURS} busy processes (balanced, {CHUNKS} chunks a region, runs of {} ms of work); scheduler \
         slice {:.1} ms ({source})",
        BLOCK_US / 1000,
        slice.as_secs_f64() * 1e3
    );
    println!(
        "{:<16}{:>14}{:>14}{:>22}{:>14}{:>14}{:>14}{:>14}",
        "region, us",
        "serial mean",
        "two lanes",
        "throughput (95 %)",
        "serial p50",
        "two lanes",
        "serial p99",
        "two lanes"
    );
    let mut claims = Vec::new();
    for work in WORKS_US {
        let texts = [
            format!("{work} us beside neighbours: mean throughput over serial"),
            format!("{work} us beside neighbours: p99"),
        ];
        if let Err(reason) = &collected {
            claims.extend(texts.map(|text| Claim::not_available(text, "", reason)));
            continue;
        }
        let none = Vec::new();
        let of = |lanes: usize| samples.get(&label(work, lanes)).unwrap_or(&none);
        let blocks = |lanes: usize| samples.get(&block_label(work, lanes)).unwrap_or(&none);
        let mean = |lanes: usize| of(lanes).iter().sum::<f64>() / of(lanes).len() as f64 / 1e3;
        let p99 = |lanes: usize| quantile(of(lanes), 0.99) / 1e3;
        let (throughput, [low, high]) = ratio_of_sums(blocks(1), blocks(2));
        println!(
            "{work:<16}{:>14.1}{:>14.1}{:>22}{:>14.1}{:>14.1}{:>14.0}{:>14.0}",
            mean(1),
            mean(2),
            format!("{throughput:.2} ({low:.2} to {high:.2})"),
            median(of(1)) / 1e3,
            median(of(2)) / 1e3,
            p99(1),
            p99(2)
        );
        let [throughput_text, p99_text] = texts;
        claims.push(Claim::new(
            throughput_text,
            format!("{throughput:.2} x ({low:.2} to {high:.2})"),
            format!(">= {LEAST_THROUGHPUT} x"),
            throughput >= LEAST_THROUGHPUT,
        ));
        let latest = p99(1) + f64::from(SLICES) * slice.as_secs_f64() * 1e6;
        claims.push(Claim::new(
            p99_text,
            format!("{:.0} us (serial {:.0} us)", p99(2), p99(1)),
            format!("<= {latest:.0} us"),
            p99(2) <= latest,
        ));
    }
    claims
}

fn label(work: u64, lanes: usize) -> String {
    format!("{work} us, {lanes} lanes")
}

fn block_label(work: u64, lanes: usize) -> String {
    format!("blocks of {}", label(work, lanes))
}

fn with_neighbours(settings: Settings, samples: &mut Samples) -> Result<(), String> {
    let _neighbours = (0..NEIGHBOURS)
        .map(|_| processes::own(&["neighbour"]).and_then(Background::start))
        .collect::<Result<Vec<Background>, String>>()?;
    let pairs = settings.rounds(80).to_string();
    processes::collect(processes::own(&["neighbours", &pairs])?, samples)
}

/// Computes until the parent kills this process or ends.
pub(crate) fn be_a_neighbour() -> ! {
    std::thread::spawn(|| {
        // Nothing is ever written: this returns when the parent is gone.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    loop {
        compute(1_000_000);
    }
}

/// Measures in this process. Argument: pairs of blocks.
pub(crate) fn child(arguments: &[String]) -> Result<(), String> {
    let pairs: usize = arguments
        .first()
        .and_then(|count| count.parse().ok())
        .ok_or("how many pairs of blocks?")?;
    let rate = steps_per_nanosecond();
    let executors = [1, 2].map(|lanes| CpuExecutor::with_wait_mode(lanes, WaitMode::Balanced));
    for work in WORKS_US {
        let steps = (work as f64 * 1e3 * rate / CHUNKS as f64) as u64;
        let regions = (BLOCK_US / work) as usize;
        let [mut times, mut blocks] = [(); 2].map(|()| [const { Vec::new() }; 2]);
        let began = Instant::now();
        for pair in 0..pairs {
            // Each kind goes first in half of the pairs.
            if pair % 2 == 0 && pair > 0 && began.elapsed() > LONGEST {
                break;
            }
            for which in [pair % 2, 1 - pair % 2] {
                let block = block(&executors[which], regions, steps);
                blocks[which].push(block.iter().sum::<f64>());
                times[which].extend(block);
            }
        }
        for which in [0, 1] {
            let lanes = executors[which].participants();
            processes::emit(&label(work, lanes), &times[which]);
            processes::emit(&block_label(work, lanes), &blocks[which]);
        }
    }
    Ok(())
}

/// Nanoseconds of the regions of one run.
fn block(executor: &CpuExecutor, regions: usize, steps: u64) -> Vec<f64> {
    let run = enter(executor);
    (0..regions)
        .map(|_| {
            let start = Instant::now();
            let result = run.lanes().region(&SITE, RegionSpec::new(CHUNKS, 1), |_| {
                compute(steps);
            });
            let taken = start.elapsed().as_nanos() as f64;
            if let Err(error) = result {
                panic!("{error}");
            }
            taken
        })
        .collect()
}

/// How long a thread stays off its processor when it shares it with one other: the median over a second, while the
/// scheduler's own parameter says little where preemption waits for a timer tick.
fn scheduler_slice() -> (Duration, &'static str) {
    const MEASURED: Duration = Duration::from_secs(1);
    /// Interrupts are shorter.
    const SHORTEST: Duration = Duration::from_micros(300);
    let stop = AtomicBool::new(false);
    let ready = Barrier::new(2);
    let absences = std::thread::scope(|scope| {
        scope.spawn(|| {
            let pinned = pin_to_first_processor();
            ready.wait();
            while pinned && !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let measured = scope.spawn(|| {
            let pinned = pin_to_first_processor();
            ready.wait();
            let mut absences = Vec::new();
            let start = Instant::now();
            let mut last = start;
            while pinned && last - start < MEASURED {
                let now = Instant::now();
                if now - last > SHORTEST {
                    absences.push((now - last).as_nanos() as f64);
                }
                last = now;
            }
            stop.store(true, Ordering::Relaxed);
            absences
        });
        measured.join().unwrap_or_default()
    });
    if absences.len() < 10 {
        return (Duration::from_millis(3), "assumed");
    }
    let slice = Duration::from_nanos(median(&absences) as u64);
    (slice, "measured")
}

/// Keeps the calling thread on the first processor that it may use; false where the system does not let it.
#[cfg(target_os = "linux")]
fn pin_to_first_processor() -> bool {
    // SAFETY: an all-zero set is an empty one.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    let size = std::mem::size_of_val(&set);
    // SAFETY: the system writes at most `size` bytes to the set; the macros stay within it.
    unsafe {
        if libc::sched_getaffinity(0, size, &mut set) != 0 {
            return false;
        }
        let first = (0..libc::CPU_SETSIZE as usize).find(|&cpu| libc::CPU_ISSET(cpu, &set));
        let Some(first) = first else { return false };
        libc::CPU_ZERO(&mut set);
        libc::CPU_SET(first, &mut set);
        libc::sched_setaffinity(0, size, &set) == 0
    }
}

/// Not known here.
#[cfg(not(target_os = "linux"))]
fn pin_to_first_processor() -> bool {
    false
}
