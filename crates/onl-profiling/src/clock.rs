//! The clock of events: the processor's own constant-rate counter where it has one, else the system's monotonic clock.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The rate of the counter is taken over at least this time, some thousand times as long as reading both clocks takes.
const SHORTEST_CALIBRATION: Duration = Duration::from_micros(200);

/// A point on the clock of events. Points of all threads of a process are comparable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ticks(u64);

impl Ticks {
    /// Now. Takes no system call where the processor's counter is used.
    #[inline]
    pub fn now() -> Ticks {
        let anchor = Anchor::get();
        Ticks(match anchor.source {
            Source::Counter => counter::read(),
            Source::Monotonic => nanoseconds(anchor.instant.elapsed()),
        })
    }

    /// Ticks from an earlier point, 0 when it is later.
    pub fn since(self, earlier: Ticks) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Turns ticks into nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct TickRate {
    ns_per_tick: f64,
}

impl TickRate {
    /// The rate, measured from the first use of the clock until now; waits up to 200 µs when that was just now.
    pub fn measure() -> TickRate {
        let anchor = Anchor::get();
        let ns_per_tick = match anchor.source {
            Source::Monotonic => 1.0,
            Source::Counter => counter::known_ns_per_tick().unwrap_or_else(|| {
                while anchor.instant.elapsed() < SHORTEST_CALIBRATION {
                    std::hint::spin_loop();
                }
                let (instant, ticks) = simultaneous();
                let elapsed = instant.duration_since(anchor.instant);
                nanoseconds(elapsed) as f64 / Ticks(ticks).since(Ticks(anchor.ticks)).max(1) as f64
            }),
        };
        TickRate { ns_per_tick }
    }

    /// Nanoseconds of a number of ticks.
    pub fn nanoseconds(self, ticks: u64) -> u64 {
        (ticks as f64 * self.ns_per_tick).round() as u64
    }
}

#[derive(Debug, Clone, Copy)]
enum Source {
    Counter,
    Monotonic,
}

/// The same moment on both clocks.
struct Anchor {
    source: Source,
    instant: Instant,
    ticks: u64,
}

impl Anchor {
    #[inline]
    fn get() -> &'static Anchor {
        static ANCHOR: OnceLock<Anchor> = OnceLock::new();
        ANCHOR.get_or_init(|| {
            if counter::is_constant() {
                let (instant, ticks) = simultaneous();
                Anchor {
                    source: Source::Counter,
                    instant,
                    ticks,
                }
            } else {
                Anchor {
                    source: Source::Monotonic,
                    instant: Instant::now(),
                    ticks: 0,
                }
            }
        })
    }
}

/// Both clocks at one moment: the pair with the least time between its readings.
fn simultaneous() -> (Instant, u64) {
    let mut best = (u64::MAX, Instant::now(), 0);
    for _ in 0..16 {
        let before = counter::read();
        let instant = Instant::now();
        let width = counter::read().wrapping_sub(before);
        if width < best.0 {
            best = (width, instant, before + width / 2);
        }
    }
    (best.1, best.2)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(target_arch = "x86_64")]
mod counter {
    use std::arch::x86_64::{__cpuid, _rdtsc};

    #[inline]
    pub(super) fn read() -> u64 {
        // SAFETY: reads the time-stamp counter, which user programs may.
        unsafe { _rdtsc() }
    }

    /// Whether the counter runs at one rate in every power state (CPUID 8000_0007h, EDX bit 8) and the system has not
    /// found it unstable.
    pub(super) fn is_constant() -> bool {
        const POWER_LEAF: u32 = 0x8000_0007;
        let invariant =
            __cpuid(0x8000_0000).eax >= POWER_LEAF && __cpuid(POWER_LEAF).edx & 1 << 8 != 0;
        let source = std::fs::read_to_string(
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        )
        .unwrap_or_default();
        invariant
            && !matches!(
                source.trim(),
                "hpet" | "acpi_pm" | "jiffies" | "refined-jiffies"
            )
    }

    pub(super) fn known_ns_per_tick() -> Option<f64> {
        None
    }
}

#[cfg(target_arch = "aarch64")]
mod counter {
    use std::arch::asm;

    #[inline]
    pub(super) fn read() -> u64 {
        let ticks: u64;
        // SAFETY: reads the virtual counter, which Linux lets user programs read.
        unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
        ticks
    }

    /// The generic timer runs at one rate by architecture (Arm ARM, D12).
    pub(super) fn is_constant() -> bool {
        cfg!(target_os = "linux")
    }

    pub(super) fn known_ns_per_tick() -> Option<f64> {
        let frequency: u64;
        // SAFETY: reads the frequency of the generic timer, which Linux lets user programs read.
        unsafe { asm!("mrs {}, cntfrq_el0", out(reg) frequency, options(nomem, nostack)) };
        (frequency > 0).then(|| 1e9 / frequency as f64)
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod counter {
    pub(super) fn read() -> u64 {
        0
    }

    pub(super) fn is_constant() -> bool {
        false
    }

    pub(super) fn known_ns_per_tick() -> Option<f64> {
        None
    }
}

/// Processor time of all threads of this process, in nanoseconds; `None` where the system does not tell.
pub fn process_cpu_ns() -> Option<u64> {
    #[cfg(unix)]
    {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the system writes the given structure and nothing else.
        let status = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
        (status == 0).then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }
    #[cfg(not(unix))]
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_measure_what_the_monotonic_clock_measures() {
        let (ticks, instant) = (Ticks::now(), Instant::now());
        std::thread::sleep(Duration::from_millis(40));
        let (ticks, elapsed) = (Ticks::now().since(ticks), instant.elapsed());
        let measured = TickRate::measure().nanoseconds(ticks) as f64;
        let expected = nanoseconds(elapsed) as f64;
        // The two pairs of readings are taken apart; a preemption between them is as long as a time slice.
        assert!(
            (measured / expected - 1.0).abs() < 0.25,
            "{measured} ns by ticks, {expected} ns by the clock"
        );
    }

    #[test]
    fn an_earlier_point_is_no_time_after_a_later_one() {
        let first = Ticks::now();
        assert_eq!(first.since(Ticks(u64::MAX)), 0);
        assert!(Ticks::now() >= first);
    }

    #[cfg(unix)]
    #[test]
    fn process_time_grows_with_work() {
        let before = process_cpu_ns().unwrap();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        assert!(process_cpu_ns().unwrap() > before);
    }
}
