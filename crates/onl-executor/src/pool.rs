//! Worker lanes, and the region descriptors through which callers share work with them.
//!
//! A run owns the worker lanes that it took from the free mask. Its *leader* is the lowest of them; the run's regions
//! use the descriptor beside the leader, so descriptors are as many as workers and entering a run allocates nothing.
//! A region is published by the claim word ([`Claims`]) and announced by one store into the mailbox of every
//! admitted lane. The caller returns when all *claimed* units are reported: a lane that did not come costs nothing.

use crate::cancel::StopCondition;
use crate::claims::{Claims, GENERATION_MASK, MAX_UNITS};
use crate::lanes::{Chunk, RegionSpec};
use crate::scope::Scope;
use crate::sync::{
    AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering, Point, UnsafeCell, fence_at, kept, lock,
    ordering_at,
};
use crate::thread_affinity::{CpuMask, current_cpu};
use crate::wait::{Mailbox, Reports, WaitMode, Waiter};
use crossbeam::utils::CachePadded;
use onl_cpu::{DenormalGuard, DenormalMode};
use onl_profiling::{Collector, CounterReading, LaneRecord, Ticks};
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Most lanes of an executor, the caller included.
pub(crate) const MAX_LANES: usize = 4096;
/// Words of a mask of workers.
pub(crate) const MASK_WORDS: usize = MAX_LANES / 64;

/// A message: `generation : 36 | leader : 12 | lane : 12 | 0 : 3 | stop : 1`.
const STOP: u64 = 1;
const LANE_SHIFT: u32 = 4;
const LEADER_SHIFT: u32 = 16;
const GENERATION_SHIFT: u32 = 28;
const INDEX_MASK: u64 = 0xfff;

fn message(generation: u64, leader: usize, lane: usize) -> u64 {
    generation << GENERATION_SHIFT | (leader as u64) << LEADER_SHIFT | (lane as u64) << LANE_SHIFT
}

/// A region body without its type.
#[derive(Clone, Copy)]
pub(crate) struct Body {
    data: *const (),
    call: unsafe fn(*const (), Chunk),
}

impl Body {
    pub(crate) fn new<F: Fn(Chunk) + Sync>(body: &F) -> Self {
        /// # Safety
        /// `data` is the address of a live `F`.
        unsafe fn call<F: Fn(Chunk)>(data: *const (), chunk: Chunk) {
            // SAFETY: the caller's obligation.
            unsafe { (*data.cast::<F>())(chunk) }
        }
        Body {
            data: std::ptr::from_ref(body).cast(),
            call: call::<F>,
        }
    }

    /// Runs the body on one chunk.
    ///
    /// # Safety
    /// The body that this was made of is alive.
    pub(crate) unsafe fn run(self, chunk: Chunk) {
        // SAFETY: `call` is the instance for the type of `data`, which is alive and `Sync`.
        unsafe { (self.call)(self.data, chunk) }
    }
}

/// What the lanes of a region need to know.
#[derive(Clone, Copy)]
pub(crate) struct Task {
    pub(crate) body: Body,
    pub(crate) total: usize,
    /// At least 1.
    pub(crate) grain: usize,
    /// Identity of the run, for regions opened inside chunks.
    pub(crate) run: usize,
    /// Number of the region, 0 when it is not recorded.
    pub(crate) region: u64,
    /// Where the region is recorded; null when it is not, and no clock is read.
    pub(crate) collector: *const Collector,
    /// When the run has to end; null when it never has to.
    pub(crate) stop: *const StopCondition<'static>,
}

impl Task {
    /// The chunks of a region that is not recorded and cannot be cancelled, outside any run.
    pub(crate) fn new(body: Body, spec: &RegionSpec) -> Self {
        Task {
            body,
            total: spec.total,
            grain: spec.grain.max(1),
            run: 0,
            region: 0,
            collector: std::ptr::null(),
            stop: std::ptr::null(),
        }
    }

    /// Number of chunks.
    pub(crate) fn chunks(&self) -> usize {
        self.total.div_ceil(self.grain)
    }

    /// Consecutive chunks per unit.
    fn chunks_per_unit(&self) -> usize {
        self.chunks().div_ceil(MAX_UNITS)
    }

    /// Where the region is recorded. `RECORDED` says whether it is at all, so that the code of regions that are not
    /// recorded asks nothing.
    ///
    /// # Safety
    /// The run that opened the region has not ended.
    pub(crate) unsafe fn collector<const RECORDED: bool>(&self) -> Option<&Collector> {
        if !RECORDED {
            return None;
        }
        // SAFETY: null, or the run's collector, by the caller's obligation.
        unsafe { self.collector.as_ref() }
    }

    /// Whether the run has to end.
    ///
    /// # Safety
    /// The run that opened the region has not ended.
    pub(crate) unsafe fn is_stopped(&self) -> bool {
        // SAFETY: null, or the run's condition, by the caller's obligation.
        unsafe { self.stop.as_ref() }.is_some_and(|stop| stop.check().is_err())
    }

    /// The chunk of a number.
    pub(crate) fn chunk(&self, index: usize, lane: usize) -> Chunk {
        let start = index * self.grain;
        Chunk {
            index,
            range: start..start.saturating_add(self.grain).min(self.total),
            lane,
        }
    }
}

/// Where a slot points before its first region.
fn no_task() -> Task {
    /// # Safety
    /// None.
    unsafe fn nothing(_: *const (), _: Chunk) {}
    Task::new(
        Body {
            data: std::ptr::null(),
            call: nothing,
        },
        &RegionSpec::new(0, 1),
    )
}

/// A panic that a lane caught.
pub(crate) struct CaughtPanic {
    pub(crate) lane: usize,
    pub(crate) message: String,
}

/// The region descriptor of the run that a worker leads.
struct Slot {
    /// Nothing writes this line: lanes find the claim words without waiting for another one.
    claims: CachePadded<Claims>,
    /// Of the open region.
    task: CachePadded<UnsafeCell<Task>>,
    reports: CachePadded<Reports>,
    /// Generation of the last region. Only the run's caller touches it, under `open`.
    generation: AtomicU64,
    /// Whether a region is open.
    open: AtomicBool,
    panicked: AtomicBool,
    /// Whether a lane left units undone because the run has to end.
    cancelled: AtomicBool,
    panic: Mutex<Option<CaughtPanic>>,
}

// SAFETY: `task` is written by the caller that holds `open`, before the claim word is published and after every
// unit of the region before was reported; lanes read it only while they hold an unreported unit. The pointers in it
// lead to a body, a collector and a stop condition, all `Sync`, that live until the region returns.
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

struct Worker {
    mailbox: CachePadded<Mailbox>,
    slot: Slot,
}

/// Worker lanes of one executor.
pub(crate) struct Pool {
    workers: Box<[Worker]>,
    free: Box<[CachePadded<AtomicU64>]>,
    wait: WaitMode,
    /// More lanes than processors.
    crowded: bool,
    denormals: DenormalMode,
    refused_pins: AtomicU32,
}

/// Workers that a run took.
pub(crate) struct Team {
    mask: [u64; MASK_WORDS],
    words: usize,
    pub(crate) leader: Option<usize>,
    pub(crate) workers: usize,
}

impl Team {
    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.mask[..self.words]
            .iter()
            .enumerate()
            .flat_map(|(index, &word)| {
                let mut left = word;
                std::iter::from_fn(move || {
                    (left != 0).then(|| {
                        let bit = left.trailing_zeros() as usize;
                        left &= left - 1;
                        index * 64 + bit
                    })
                })
            })
    }
}

/// Which of a team's lanes a region invites.
#[derive(Clone, Copy)]
pub(crate) struct Admission {
    /// Lanes, the caller included, at least 2.
    pub(crate) lanes: usize,
    /// Whether sleeping lanes are left asleep.
    pub(crate) awake_only: bool,
}

/// What a region that ran on several lanes did.
pub(crate) struct Outcome {
    pub(crate) panic: Option<CaughtPanic>,
    /// Whether chunks were left undone because the run has to end.
    pub(crate) cancelled: bool,
    pub(crate) participants: u32,
    /// When the opener had no more chunks, in a recorded region.
    pub(crate) exhausted: Option<Ticks>,
}

impl Pool {
    pub(crate) fn new(
        workers: usize,
        wait: WaitMode,
        crowded: bool,
        denormals: DenormalMode,
    ) -> Self {
        let worker = || Worker {
            mailbox: CachePadded::new(Mailbox::new()),
            slot: Slot {
                claims: CachePadded::new(Claims::new(workers + 1)),
                task: CachePadded::new(UnsafeCell::new(no_task())),
                reports: CachePadded::new(Reports::new()),
                generation: AtomicU64::new(0),
                open: AtomicBool::new(false),
                panicked: AtomicBool::new(false),
                cancelled: AtomicBool::new(false),
                panic: Mutex::new(None),
            },
        };
        let words = workers.div_ceil(64);
        Pool {
            workers: (0..workers).map(|_| worker()).collect(),
            free: (0..words)
                .map(|word| {
                    let here = (workers - word * 64).min(64);
                    CachePadded::new(AtomicU64::new(u64::MAX >> (64 - here)))
                })
                .collect(),
            wait,
            crowded,
            denormals,
            refused_pins: AtomicU32::new(0),
        }
    }

    pub(crate) fn workers(&self) -> usize {
        self.workers.len()
    }

    pub(crate) fn denormals(&self) -> DenormalMode {
        self.denormals
    }

    /// Lanes whose processor the system refused.
    pub(crate) fn refused_pins(&self) -> u32 {
        self.refused_pins.load(Ordering::Relaxed)
    }

    /// Takes up to `wanted` free workers.
    pub(crate) fn take(&self, wanted: usize) -> Team {
        let mut team = Team {
            mask: [0; MASK_WORDS],
            words: self.free.len(),
            leader: None,
            workers: 0,
        };
        for (index, free) in self.free.iter().enumerate() {
            let missing = wanted - team.workers;
            if missing == 0 {
                break;
            }
            let mut available = free.load(Ordering::Relaxed);
            loop {
                let taken = lowest_bits(available, missing);
                if taken == 0 {
                    break;
                }
                match free.compare_exchange_weak(
                    available,
                    available & !taken,
                    ordering_at(Point::TakeWorker, Ordering::Acquire),
                    Ordering::Relaxed,
                ) {
                    Ok(_) => {
                        team.mask[index] = taken;
                        team.workers += taken.count_ones() as usize;
                        break;
                    }
                    Err(now) => available = now,
                }
            }
        }
        let leader = team.iter().next();
        team.leader = leader;
        if team.workers > 0 {
            let cpu = current_cpu();
            for worker in team.iter() {
                self.workers[worker].mailbox.set_caller_cpu(cpu);
            }
        }
        team
    }

    /// Gives a team's workers back.
    pub(crate) fn give_back(&self, team: &Team) {
        for (free, &mask) in self.free.iter().zip(&team.mask) {
            if mask != 0 {
                free.fetch_or(mask, ordering_at(Point::GiveBack, Ordering::Release));
            }
        }
    }

    /// Wakes the sleeping workers of a team, so that they are awake at its first region.
    pub(crate) fn wake(&self, team: &Team) {
        // A frugal lane would sleep again before it is needed.
        if self.wait == WaitMode::Frugal {
            return;
        }
        for worker in team.iter() {
            let mailbox = &self.workers[worker].mailbox;
            if mailbox.is_asleep() {
                mailbox.wake();
            }
        }
    }

    /// Workers of a team that are awake.
    pub(crate) fn awake(&self, team: &Team) -> usize {
        team.iter()
            .filter(|&worker| !self.workers[worker].mailbox.is_asleep())
            .count()
    }

    /// Runs a region on the caller and the admitted lanes of its team. `None`: the team has no worker, or a region
    /// of the same run is open on another thread. `RECORDED` is whether the task has a collector.
    pub(crate) fn run<const RECORDED: bool>(
        &self,
        team: &Team,
        task: Task,
        admission: Admission,
    ) -> Option<Outcome> {
        let leader = team.leader?;
        let slot = &self.workers[leader].slot;
        let acquire = ordering_at(Point::Open, Ordering::Acquire);
        if slot.open.swap(true, acquire) && kept(Point::OpenAlone) {
            return None;
        }
        let last = slot.generation.load(Ordering::Relaxed);
        // 0 is what claim words hold before the first region.
        let generation = ((last + 1) & GENERATION_MASK).max(1);
        slot.generation.store(generation, Ordering::Relaxed);
        let chunks = task.chunks();
        let units = chunks.div_ceil(task.chunks_per_unit());
        // SAFETY: this caller holds `open`; every unit of the region before was reported, so no lane reads the
        // task, and none will before the claim word of this generation is published.
        slot.task.with_mut(|published| unsafe { *published = task });
        slot.reports.reset();
        slot.claims.open(generation, units, admission.lanes);
        self.announce(team, leader, generation, admission);

        let own = slot.work::<RECORDED>(task, generation, 0, 0);
        slot.reports.wait_for(units - own.units, self.crowded);
        let participants = 1 + slot.reports.lanes();

        let cancelled = slot.cancelled.load(Ordering::Relaxed);
        if cancelled {
            slot.cancelled.store(false, Ordering::Relaxed);
        }
        let panic = if slot.panicked.load(Ordering::Relaxed) {
            slot.panicked.store(false, Ordering::Relaxed);
            lock(&slot.panic).take()
        } else {
            None
        };
        slot.open
            .store(false, ordering_at(Point::Close, Ordering::Release));
        Some(Outcome {
            panic,
            cancelled,
            participants,
            exhausted: own.ended,
        })
    }

    /// Tells the admitted lanes, and wakes those that sleep.
    fn announce(&self, team: &Team, leader: usize, generation: u64, admission: Admission) {
        let invited = admission.lanes - 1;
        let mut told = 0;
        for (position, worker) in team.iter().enumerate() {
            if told == invited {
                break;
            }
            let mailbox = &self.workers[worker].mailbox;
            if admission.awake_only && mailbox.is_asleep() {
                continue;
            }
            mailbox.post(message(generation, leader, position + 1));
            told += 1;
        }
        // A lane that fell asleep after it was told stays asleep: its units go to the others.
        if admission.awake_only {
            return;
        }
        fence_at(Point::FenceAfterPost);
        for worker in team.iter().take(invited) {
            let mailbox = &self.workers[worker].mailbox;
            if mailbox.is_asleep() {
                mailbox.wake();
            }
        }
    }

    /// Ends every worker. No run may be entered.
    pub(crate) fn stop(&self) {
        for worker in &self.workers {
            worker.mailbox.post(STOP);
        }
        fence_at(Point::FenceAfterStop);
        for worker in &self.workers {
            if kept(Point::WakeToStop) {
                worker.mailbox.wake();
            }
        }
    }

    /// The life of worker `index`.
    pub(crate) fn serve(&self, index: usize, pin: Option<u32>) {
        let _float_control = DenormalGuard::new(self.denormals);
        let pinned = pin.is_some_and(|cpu| {
            let applied = CpuMask::one(cpu).is_some_and(|mask| mask.apply_to_this_thread());
            if !applied {
                self.refused_pins.fetch_add(1, Ordering::Relaxed);
            }
            applied
        });
        let worker = &self.workers[index];
        let mut waiter = Waiter::new(self.wait, self.crowded, pinned);
        let mut seen = 0;
        loop {
            seen = waiter.next(&worker.mailbox, seen);
            if seen & STOP != 0 {
                return;
            }
            let generation = seen >> GENERATION_SHIFT;
            let leader = (seen >> LEADER_SHIFT & INDEX_MASK) as usize;
            let lane = (seen >> LANE_SHIFT & INDEX_MASK) as usize;
            let slot = &self.workers[leader].slot;
            match slot.join(generation, lane) {
                Some(own) => slot.reports.report(own.units),
                None => waiter.missed(),
            }
        }
    }
}

/// What one lane did in a region.
struct LaneWork {
    /// Units that need no more waiting: done, or dropped after a panic or because the run has to end.
    units: usize,
    /// When it had no more of them, in a recorded region.
    ended: Option<Ticks>,
}

/// The measuring of one lane's part of a region.
pub(crate) struct LaneTimer<'c> {
    collector: &'c Collector,
    region: u64,
    started: Ticks,
    counters: Option<CounterReading>,
}

impl<'c> LaneTimer<'c> {
    pub(crate) fn start(collector: &'c Collector, region: u64) -> Self {
        let counters = collector.read_counters();
        LaneTimer {
            collector,
            region,
            started: Ticks::now(),
            counters,
        }
    }

    /// Records the part and returns when it ended.
    pub(crate) fn stop(self, lane: usize, chunks: usize) -> Ticks {
        let ended = Ticks::now();
        let record = LaneRecord {
            region: self.region,
            lane: lane as u32,
            chunks: u32::try_from(chunks).unwrap_or(u32::MAX),
            started: self.started,
            ended,
        };
        self.collector.record_lane(record, self.counters.as_ref());
        ended
    }
}

impl Slot {
    /// Takes part in the region of a generation; `None` when it has no unit left.
    fn join(&self, generation: u64, lane: usize) -> Option<LaneWork> {
        let first = self.claims.take(generation, lane)?;
        // SAFETY: this lane holds a unit of this generation that it has not reported, so the task was completed
        // before the claim word it took it from, and is not written before the report.
        let task = self.task.with(|task| unsafe { *task });
        Some(if task.collector.is_null() {
            self.work::<false>(task, generation, lane, first)
        } else {
            self.work::<true>(task, generation, lane, first)
        })
    }

    /// Runs the unit in hand and takes and runs others until none is left. The units are not reported here.
    fn work<const RECORDED: bool>(
        &self,
        task: Task,
        generation: u64,
        lane: usize,
        in_hand: usize,
    ) -> LaneWork {
        let claims = &self.claims;
        let chunks = task.chunks();
        let stride = task.chunks_per_unit();
        // SAFETY: the run waits for this lane's report.
        let timer = unsafe { task.collector::<RECORDED>() }
            .map(|collector| LaneTimer::start(collector, task.region));
        let outer = Scope::enter(task.run, task.region, lane);
        let finished = Cell::new(0usize);
        let begun = Cell::new(0usize);
        let result = catch_unwind(AssertUnwindSafe(|| {
            let mut unit = in_hand;
            loop {
                finished.set(finished.get() + 1);
                let start = unit * stride;
                let end = (start + stride).min(chunks);
                for index in start..end {
                    begun.set(begun.get() + 1);
                    // SAFETY: the body lives until the region returns, which waits for this unit's report.
                    unsafe { task.body.run(task.chunk(index, lane)) };
                    // SAFETY: the run waits for this unit's report.
                    if unsafe { task.is_stopped() } {
                        let dropped = claims.close(generation);
                        finished.set(finished.get() + dropped);
                        if dropped > 0 || index + 1 < end {
                            self.cancelled.store(true, Ordering::Relaxed);
                        }
                        return;
                    }
                }
                match claims.take(generation, lane) {
                    Some(next) => unit = next,
                    None => return,
                }
            }
        }));
        Scope::leave(outer);
        let mut accounted = finished.get();
        if let Err(payload) = result {
            if kept(Point::DropUnits) {
                accounted += claims.close(generation);
            }
            // Takes care of the payload's drop, whether this panic is kept or not.
            let message = panic_message(payload);
            lock(&self.panic).get_or_insert(CaughtPanic { lane, message });
            self.panicked.store(true, Ordering::Relaxed);
        }
        LaneWork {
            units: accounted,
            ended: timer.map(|timer| timer.stop(lane, begun.get())),
        }
    }
}

/// The text of a panic.
pub(crate) fn panic_message(payload: Box<dyn Any + Send>) -> String {
    let message = if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "panic without a message".to_owned()
    };
    // A payload may panic when dropped; what it throws then is leaked.
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
    message
}

/// The lowest `count` set bits.
fn lowest_bits(word: u64, count: usize) -> u64 {
    if word.count_ones() as usize <= count {
        return word;
    }
    let mut rest = word;
    for _ in 0..count {
        rest &= rest - 1;
    }
    word & !rest
}
