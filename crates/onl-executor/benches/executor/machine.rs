//! Whether the machine is quiet enough to believe what is measured on it.
//!
//! *Quiet* means: processor pressure and steal below 1 %, and two threads of fused multiply-adds at least 1.9 times as
//! fast as one, before and after. Pressure is taken while the two threads of the probe run: a stranger who takes a
//! processor then makes one of them wait.

use crate::statistics::median;
use std::fmt;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

const MOST_DISTURBANCE: f64 = 0.01;
const LEAST_SPEEDUP: f64 = 1.9;

/// Prints what the measurements ran on.
pub(crate) fn describe() {
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    let model = std::fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        })
        .unwrap_or_else(|| "unknown processor".to_owned());
    println!("{processors} processors, {model}");
    println!("a reading of the clock takes {:.0} ns", clock_reading());
    if processors < 2 {
        println!("two lanes share one processor here: no figure of two lanes means anything");
    }
}

/// Processor time of the whole machine, in the kernel's clock ticks.
pub(crate) struct ProcessorTimes(Option<Times>);

struct Times {
    all: f64,
    steal: f64,
}

impl ProcessorTimes {
    pub(crate) fn now() -> Self {
        ProcessorTimes(Self::read())
    }

    fn read() -> Option<Times> {
        let text = std::fs::read_to_string("/proc/stat").ok()?;
        // user nice system idle iowait irq softirq steal, see proc_stat(5).
        let times: Vec<f64> = text
            .lines()
            .next()?
            .split_whitespace()
            .skip(1)
            .take(8)
            .map_while(|word| word.parse().ok())
            .collect();
        Some(Times {
            all: times.iter().sum(),
            steal: *times.get(7)?,
        })
    }

    /// Share of the machine's processor time that the hypervisor gave to others since then.
    pub(crate) fn steal_since(&self) -> Option<f64> {
        let (before, now) = (self.0.as_ref()?, Self::read()?);
        let all = now.all - before.all;
        (all > 0.0).then(|| (now.steal - before.steal) / all)
    }
}

/// Microseconds since boot in which some thread waited for a processor.
fn pressure_total() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/pressure/cpu").ok()?;
    let line = text.lines().find(|line| line.starts_with("some "))?;
    line.split_once("total=")?.1.trim().parse().ok()
}

/// Whether a share of time lost to others is known and below the limit.
pub(crate) fn is_little(share: Option<f64>) -> bool {
    share.is_some_and(|share| share < MOST_DISTURBANCE)
}

/// A share in words.
pub(crate) fn percent(share: Option<f64>) -> String {
    share.map_or_else(
        || "unknown".to_owned(),
        |share| format!("{:.2} %", share * 100.0),
    )
}

/// What one look at the machine found.
pub(crate) struct Probe {
    /// Rate of two threads over that of one.
    speedup: f64,
    pressure: Option<f64>,
    /// Whether `pressure` comes from the load average, for want of a pressure file.
    estimated: bool,
    /// See [`round_trip`].
    round_trip_ns: f64,
}

impl Probe {
    /// Steal is judged over a whole section: the kernel's clock ticks are too coarse for this.
    pub(crate) fn is_quiet(&self) -> bool {
        self.speedup >= LEAST_SPEEDUP && is_little(self.pressure)
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} (two threads of multiply-adds {:.2} times one; pressure {}{}); a word to another thread and back {:.0} ns",
            if self.is_quiet() { "yes" } else { "no" },
            self.speedup,
            percent(self.pressure),
            if self.estimated {
                ", estimated from the load average: there is no /proc/pressure/cpu"
            } else {
                ""
            },
            self.round_trip_ns
        )
    }
}

/// Measures how two threads run beside each other now.
pub(crate) fn probe() -> Probe {
    const SAMPLES: usize = 250;
    let mut alone: Vec<f64> = (0..SAMPLES).map(|_| rate()).collect();
    let (together, pressed) = rate_of_two(SAMPLES);
    alone.extend((0..SAMPLES).map(|_| rate()));
    let estimate = || {
        let text = std::fs::read_to_string("/proc/loadavg").ok()?;
        let load: f64 = text.split_whitespace().next()?.parse().ok()?;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Some((load / processors as f64 - 1.0).max(0.0))
    };
    Probe {
        speedup: together / median(&alone),
        estimated: pressed.is_none(),
        pressure: pressed.or_else(estimate),
        round_trip_ns: round_trip(),
    }
}

/// Steps of a sample of the probe: around a millisecond.
const STEPS: usize = 400_000;

/// Steps per nanosecond of this thread in one sample.
fn rate() -> f64 {
    let start = Instant::now();
    black_box(multiply_add(STEPS));
    STEPS as f64 / start.elapsed().as_nanos() as f64
}

/// Steps per nanosecond of two threads that wait for each other after every sample, over all samples, and the share of
/// that time in which some thread of the machine waited for a processor. Unlike a median this shows a stranger who
/// takes a processor for a part of the time.
fn rate_of_two(samples: usize) -> (f64, Option<f64>) {
    const WARM_UP: usize = 20;
    let arrived = AtomicUsize::new(0);
    let lane = |rounds: std::ops::Range<usize>| {
        for round in rounds {
            black_box(multiply_add(STEPS));
            arrived.fetch_add(1, Ordering::AcqRel);
            wait_until(|| arrived.load(Ordering::Acquire) >= 2 * (round + 1));
        }
    };
    let rounds = WARM_UP + samples;
    let here = current_processor();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            leave_processor(here);
            lane(0..rounds);
        });
        lane(0..WARM_UP);
        let (pressed, start) = (pressure_total(), Instant::now());
        lane(WARM_UP..rounds);
        let taken = start.elapsed();
        let pressed = pressed
            .zip(pressure_total())
            .map(|(before, after)| (after - before) / (taken.as_nanos() as f64 / 1e3));
        let steps = 2 * samples * STEPS;
        (steps as f64 / taken.as_nanos() as f64, pressed)
    })
}

/// The processor that this thread runs on now.
#[cfg(target_os = "linux")]
fn current_processor() -> usize {
    // SAFETY: no arguments, no memory.
    usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0)
}

/// Lets this thread run anywhere but on one processor. Schedulers like to start a thread where its maker runs, and may
/// leave it there for long.
#[cfg(target_os = "linux")]
fn leave_processor(processor: usize) {
    // SAFETY: a mask is plain data; the calls read and write a mask of the stated size. A refusal leaves the thread where it is, which the probe then shows.
    unsafe {
        let mut mask: libc::cpu_set_t = std::mem::zeroed();
        let size = std::mem::size_of_val(&mask);
        if libc::sched_getaffinity(0, size, &mut mask) == 0 {
            if processor < libc::CPU_SETSIZE as usize {
                libc::CPU_CLR(processor, &mut mask);
            }
            libc::sched_setaffinity(0, size, &mask);
        }
    }
}

/// Unknown.
#[cfg(not(target_os = "linux"))]
fn current_processor() -> usize {
    0
}

/// Left to the scheduler.
#[cfg(not(target_os = "linux"))]
fn leave_processor(_: usize) {}

fn wait_until(done: impl Fn() -> bool) {
    let mut polls = 0u32;
    while !done() {
        polls += 1;
        if polls > 100_000 {
            std::thread::yield_now();
        }
        std::hint::spin_loop();
    }
}

/// Nanoseconds in which a word goes to another thread and comes back, both spinning: the least that a fork and a join
/// can take. It depends on which caches the two processors share, and a hypervisor may change that from one minute to
/// the next.
fn round_trip() -> f64 {
    const BLOCKS: usize = 400;
    const TRIPS: usize = 100;
    let word = AtomicUsize::new(0);
    let here = current_processor();
    let blocks: Vec<f64> = std::thread::scope(|scope| {
        scope.spawn(|| {
            leave_processor(here);
            for trip in 0..BLOCKS * TRIPS {
                wait_until(|| word.load(Ordering::Acquire) == 2 * trip + 1);
                word.store(2 * trip + 2, Ordering::Release);
            }
        });
        (0..BLOCKS)
            .map(|block| {
                let start = Instant::now();
                for trip in block * TRIPS..(block + 1) * TRIPS {
                    word.store(2 * trip + 1, Ordering::Release);
                    wait_until(|| word.load(Ordering::Acquire) == 2 * trip + 2);
                }
                start.elapsed().as_nanos() as f64 / TRIPS as f64
            })
            .collect()
    });
    median(&blocks)
}

/// Nanoseconds of one reading of the clock.
fn clock_reading() -> f64 {
    const READINGS: u32 = 1000;
    let blocks: Vec<f64> = (0..50)
        .map(|_| {
            let start = Instant::now();
            for _ in 1..READINGS {
                black_box(Instant::now());
            }
            start.elapsed().as_nanos() as f64 / f64::from(READINGS)
        })
        .collect();
    median(&blocks)
}

fn multiply_add(steps: usize) -> f32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        // SAFETY: this processor has both features.
        return unsafe { multiply_add_avx2(steps) };
    }
    multiply_add_chains(steps)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn multiply_add_avx2(steps: usize) -> f32 {
    multiply_add_chains(steps)
}

/// Independent chains, enough to keep the multiply-add units busy.
#[inline(always)]
fn multiply_add_chains(steps: usize) -> f32 {
    const CHAINS: usize = 12;
    const WIDTH: usize = 8;
    let (x, y) = (black_box(0.999_f32), black_box(0.001_f32));
    let mut sums = [[1.0_f32; WIDTH]; CHAINS];
    for _ in 0..steps {
        for sum in sums.as_flattened_mut() {
            *sum = sum.mul_add(x, y);
        }
    }
    sums.as_flattened().iter().sum()
}
