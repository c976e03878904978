//! How a lane waits for its next region.

use crate::claims::MAX_UNITS;
use crate::pool::MAX_LANES;
use crate::sync::{
    AtomicU32, AtomicU64, Instant, Ordering, Point, Sleeper, fence_at, kept, ordering_at,
    spin_loop, thread,
};
use crate::thread_affinity::{CallerAvoidance, current_cpu};
use std::time::Duration;

/// How lanes wait between regions. Part of the execution identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum WaitMode {
    /// Spins for as long as the executor lives: lanes join at once and use their processors all the time.
    Latency,
    /// Spins for an adaptive, bounded time of 20 to 500 µs, then sleeps. The time grows while spinning up to the bound
    /// catches the next region, and shrinks while it does not.
    #[default]
    Balanced,
    /// Sleeps at once.
    Frugal,
    /// Spins for this time, then sleeps.
    Fixed(Duration),
}

impl WaitMode {
    /// Name in the execution identity.
    pub const fn name(self) -> &'static str {
        match self {
            WaitMode::Latency => "latency",
            WaitMode::Balanced => "balanced",
            WaitMode::Frugal => "frugal",
            WaitMode::Fixed(_) => "fixed",
        }
    }
}

const SHORTEST_SPIN: Duration = Duration::from_micros(20);
const LONGEST_SPIN: Duration = Duration::from_micros(500);
const FIRST_SPIN: Duration = Duration::from_micros(100);
/// A lane that spins longer than this lets other threads of its processor run now and then.
const YIELD_AFTER: Duration = Duration::from_millis(10);
/// A lane that woke before or after the region it was meant for spins at least so long for the next one.
const MISSED_SPIN: Duration = Duration::from_micros(200);
/// Polls between two looks at the clock.
const POLLS_PER_CLOCK: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 64 };

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

/// Where a lane is told what to do. Callers write, the lane reads; only a lane that goes to sleep writes.
pub(crate) struct Mailbox {
    word: AtomicU64,
    sleeper: Sleeper,
    caller_cpu: AtomicU32,
}

impl Mailbox {
    pub(crate) fn new() -> Self {
        Mailbox {
            word: AtomicU64::new(0),
            sleeper: Sleeper::new(),
            // Whoever makes an executor usually runs on it.
            caller_cpu: AtomicU32::new(current_cpu()),
        }
    }

    /// Leaves a message for a lane that is awake. A fence and [`is_asleep`](Self::is_asleep) must follow.
    pub(crate) fn post(&self, word: u64) {
        self.word
            .store(word, ordering_at(Point::Post, Ordering::Release));
    }

    /// Whether the lane sleeps or is about to.
    pub(crate) fn is_asleep(&self) -> bool {
        self.sleeper.word().load(Ordering::Relaxed) == ASLEEP
    }

    /// Says where the lane's caller runs; the lane keeps off that processor.
    pub(crate) fn set_caller_cpu(&self, caller_cpu: u32) {
        // A lane reads this while it waits; a store would take the line away from it each time.
        if self.caller_cpu.load(Ordering::Relaxed) != caller_cpu {
            self.caller_cpu.store(caller_cpu, Ordering::Relaxed);
        }
    }

    /// Wakes the lane if it sleeps.
    pub(crate) fn wake(&self) {
        // The lane must find the message for which it is woken. The fence between the two, which also releases, sees
        // to that.
        if self.sleeper.word().swap(AWAKE, Ordering::Relaxed) == ASLEEP {
            self.sleeper.wake();
        }
    }

    pub(crate) fn message_other_than(&self, seen: u64) -> Option<u64> {
        let word = self
            .word
            .load(ordering_at(Point::Receive, Ordering::Acquire));
        (word != seen).then_some(word)
    }

    /// Sleeps until a caller wakes the lane; returns at once when there is a message already.
    pub(crate) fn sleep(&self, seen: u64) {
        let asleep = self.sleeper.word();
        asleep.store(ASLEEP, Ordering::Relaxed);
        // Pairs with the fence after `post`: either the caller sees the lane asleep, or the lane the message.
        fence_at(Point::FenceAsleep);
        if kept(Point::LookAgain) && self.message_other_than(seen).is_some() {
            asleep.store(AWAKE, Ordering::Relaxed);
            return;
        }
        while asleep.load(ordering_at(Point::Woken, Ordering::Acquire)) == ASLEEP {
            self.sleeper.sleep(ASLEEP);
        }
    }
}

/// The waiting of one lane.
pub(crate) struct Waiter {
    mode: WaitMode,
    /// More lanes than processors: a spinning lane gives its processor to the one it waits for.
    crowded: bool,
    spin: Duration,
    avoidance: CallerAvoidance,
}

impl Waiter {
    pub(crate) fn new(mode: WaitMode, crowded: bool, pinned: bool) -> Self {
        Waiter {
            mode,
            crowded,
            spin: FIRST_SPIN,
            avoidance: CallerAvoidance::new(!pinned),
        }
    }

    /// Waits for a message other than `seen`. The clock is read only once the wait has lasted some polls.
    pub(crate) fn next(&mut self, mailbox: &Mailbox, seen: u64) -> u64 {
        if let Some(word) = mailbox.message_other_than(seen) {
            return word;
        }
        let mut began = None;
        loop {
            if let Some(word) = self.spin(mailbox, seen, &mut began) {
                self.spin = (self.spin * 2).min(LONGEST_SPIN);
                return word;
            }
            self.avoidance
                .avoid(mailbox.caller_cpu.load(Ordering::Relaxed));
            let waited_since = *began.get_or_insert_with(Instant::now);
            mailbox.sleep(seen);
            self.avoidance
                .leave(mailbox.caller_cpu.load(Ordering::Relaxed));
            self.spin = if waited_since.elapsed() < LONGEST_SPIN {
                (self.spin * 2).min(LONGEST_SPIN)
            } else {
                (self.spin / 2).max(SHORTEST_SPIN)
            };
            if let Some(word) = mailbox.message_other_than(seen) {
                return word;
            }
            self.missed();
            began = None;
        }
    }

    /// Says that the lane was awake for nothing: no region was open yet, or none had work left.
    pub(crate) fn missed(&mut self) {
        self.spin = self.spin.max(MISSED_SPIN);
    }

    fn spin(&mut self, mailbox: &Mailbox, seen: u64, began: &mut Option<Instant>) -> Option<u64> {
        let limit = match self.mode {
            WaitMode::Latency => Duration::MAX,
            WaitMode::Balanced if self.crowded => SHORTEST_SPIN,
            WaitMode::Balanced => self.spin,
            WaitMode::Frugal => Duration::ZERO,
            WaitMode::Fixed(limit) => limit,
        };
        self.spin_for(mailbox, seen, limit, began)
    }

    fn spin_for(
        &mut self,
        mailbox: &Mailbox,
        seen: u64,
        limit: Duration,
        began: &mut Option<Instant>,
    ) -> Option<u64> {
        let mut polls = 0u32;
        loop {
            if let Some(word) = mailbox.message_other_than(seen) {
                return Some(word);
            }
            if limit.is_zero() {
                return None;
            }
            if self.crowded {
                thread::yield_now();
            } else {
                spin_loop();
            }
            polls += 1;
            if self.crowded || polls == POLLS_PER_CLOCK {
                polls = 0;
                self.avoidance
                    .leave(mailbox.caller_cpu.load(Ordering::Relaxed));
                let waited = began.get_or_insert_with(Instant::now).elapsed();
                if waited >= limit {
                    return None;
                }
                if waited >= YIELD_AFTER {
                    thread::yield_now();
                }
            }
        }
    }
}

/// A caller that has waited so long sleeps until a lane reports: about what a sleep and a wake cost. The lane has
/// probably lost its processor to another process; a caller that spun or yielded meanwhile would spend its own share of
/// a processor on nothing, and lack it when the lane is back.
const CALLER_SPIN: Duration = Duration::from_micros(50);

/// `0 : 2 | caller sleeps : 1 | lanes : 13 | units : 16`
const CALLER_SLEEPS: u32 = 1 << 29;
const LANE: u32 = 1 << 16;
const UNITS: u32 = LANE - 1;

/// Work that the worker lanes of a region have reported, in the word that their caller waits for and sleeps on.
pub(crate) struct Reports {
    sleeper: Sleeper,
}

impl Reports {
    pub(crate) fn new() -> Self {
        const { assert!(MAX_UNITS <= UNITS as usize && MAX_LANES < (CALLER_SLEEPS / LANE) as usize) }
        Reports {
            sleeper: Sleeper::new(),
        }
    }

    /// Forgets the reports of the region before, all of which have come.
    pub(crate) fn reset(&self) {
        self.sleeper.word().store(0, Ordering::Relaxed);
    }

    /// Lanes that have reported.
    pub(crate) fn lanes(&self) -> u32 {
        (self.sleeper.word().load(Ordering::Relaxed) & !CALLER_SLEEPS) / LANE
    }

    /// Reports units of one lane. The caller may reuse the region's descriptor from then on.
    pub(crate) fn report(&self, units: usize) {
        let release = ordering_at(Point::Report, Ordering::Release);
        let before = self.sleeper.word().fetch_add(LANE | units as u32, release);
        if before & CALLER_SLEEPS != 0 && kept(Point::WakeCaller) {
            self.sleeper.wake();
        }
    }

    /// Waits on the caller's lane until this many units are reported.
    pub(crate) fn wait_for(&self, units: usize, crowded: bool) {
        let complete = |word: u32| (word & UNITS) as usize == units;
        let word = self.sleeper.word();
        let acquire = ordering_at(Point::Reported, Ordering::Acquire);
        let mut polls = 0u32;
        let mut began = None;
        while !complete(word.load(acquire)) && kept(Point::AwaitReports) {
            if crowded {
                thread::yield_now();
                continue;
            }
            spin_loop();
            polls += 1;
            if polls == POLLS_PER_CLOCK {
                polls = 0;
                if began.get_or_insert_with(Instant::now).elapsed() >= CALLER_SPIN {
                    // A report changes the word, so that it comes either before this or wakes the caller.
                    let seen = word.fetch_or(CALLER_SLEEPS, Ordering::Relaxed) | CALLER_SLEEPS;
                    if !complete(seen) || !kept(Point::LookForReports) {
                        self.sleeper.sleep(seen);
                    }
                }
            }
        }
    }
}
