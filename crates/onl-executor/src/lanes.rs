use crate::DisjointSlice;
use crate::cancel::Cancelled;
use crate::executor::RunState;
use crate::pool::{Admission, Body, CaughtPanic, LaneTimer, Outcome, Task, panic_message};
use crate::scope::Scope;
use crate::sync::Ordering;
use onl_profiling::{Collector, InlineReason, RegionRecord, RegionSite, Ticks};
use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use thiserror::Error;

/// How a kernel wants a region divided. Chunk `i` covers `[i · grain, min((i + 1) · grain, total))`: boundaries
/// depend on nothing else.
#[derive(Debug, Clone, Copy)]
pub struct RegionSpec {
    /// Work units.
    pub total: usize,
    /// Units per chunk, at least 1.
    pub grain: usize,
    /// Below this total the region runs on the caller (`below_threshold`).
    pub minimum_total: usize,
    /// Most lanes that may take part; 0 leaves it to the session.
    pub max_participants: usize,
    /// Estimated serial nanoseconds of the whole region, 0 when unknown.
    pub serial_ns: u64,
    /// Algorithm that the kernel chose, recorded in the event; empty when there is only one.
    pub path: &'static str,
    /// Tiles that the kernel divided its problem into, recorded in the event; 0 when it has none.
    pub tiles: u64,
}

impl RegionSpec {
    /// Units in chunks of `grain`, without threshold, limit or estimate.
    pub fn new(total: usize, grain: usize) -> Self {
        RegionSpec {
            total,
            grain: grain.max(1),
            minimum_total: 0,
            max_participants: 0,
            serial_ns: 0,
            path: "",
            tiles: 0,
        }
    }

    /// Number of chunks.
    pub fn chunks(&self) -> usize {
        self.total.div_ceil(self.grain.max(1))
    }
}

/// A part of a region that one lane works on.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// Number of the chunk.
    pub index: usize,
    /// Work units.
    pub range: Range<usize>,
    /// Lane that runs the chunk, below [`Lanes::count`]; selects per-lane scratch.
    pub lane: usize,
}

/// Why a region did not finish.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RegionError {
    /// A chunk panicked; the executor stays usable.
    #[error("lane {lane} panicked in region '{site}'{}: {message}", at_node(.node))]
    Panicked {
        /// Node that was being executed, by its position in the plan.
        node: Option<u32>,
        /// Lane that ran the chunk.
        lane: usize,
        /// Label of the region's site.
        site: &'static str,
        /// Panic message.
        message: String,
    },
    /// The run was cancelled and chunks were left undone; those that lanes had begun are complete.
    #[error("{cancelled}, in region '{site}'{}", at_node(.node))]
    Cancelled {
        /// Node that was being executed, by its position in the plan.
        node: Option<u32>,
        /// Label of the region's site.
        site: &'static str,
        /// Why.
        cancelled: Cancelled,
    },
}

fn at_node(node: &Option<u32>) -> String {
    node.map_or(String::new(), |node| format!(" of node {node}"))
}

/// The lanes of a run: what a kernel gets to open regions with.
#[derive(Clone, Copy)]
pub struct Lanes<'run> {
    run: Option<&'run RunState<'run>>,
    node: Option<u32>,
}

/// How a region came to its end.
struct Ended {
    admitted: usize,
    inline_reason: Option<InlineReason>,
    outcome: Outcome,
}

impl<'run> Lanes<'run> {
    /// Lanes of a caller that works alone.
    pub fn serial() -> Lanes<'static> {
        Lanes {
            run: None,
            node: None,
        }
    }

    pub(crate) fn of_run(run: &'run RunState<'run>) -> Self {
        Lanes {
            run: Some(run),
            node: None,
        }
    }

    /// The same lanes, whose events and errors name a node of the plan.
    #[must_use]
    pub fn for_node(self, node: u32) -> Self {
        Lanes {
            node: Some(node),
            ..self
        }
    }

    /// Most lanes that a region can get, the caller included; per-lane scratch is sized by it.
    pub fn count(&self) -> usize {
        self.run.map_or(1, |run| run.team.workers + 1)
    }

    /// `Err` once the run has to end. Regions ask by themselves, between chunks.
    ///
    /// # Errors
    /// [`Cancelled`], with the reason.
    pub fn check_cancelled(&self) -> Result<(), Cancelled> {
        self.run.map_or(Ok(()), |run| run.stop.check())
    }

    /// Measures a node of the plan until the timer is dropped; does nothing when the run is not recorded.
    pub fn time_node(&self, node: u32) -> NodeTimer<'run> {
        NodeTimer {
            recording: self.run.and_then(|run| {
                let collector = run.collector?;
                Some((collector, run.run, Ticks::now()))
            }),
            node,
        }
    }

    /// Runs `body` once for every chunk of the region, in any order and on any lane, and returns when all are done. Lane
    /// `l` starts with chunk `l` if it comes before another lane has taken it. A region opened inside a chunk runs
    /// inline, on the lane of that chunk.
    ///
    /// # Errors
    /// [`RegionError::Panicked`] when a chunk panicked; the other claimed chunks are complete.
    /// [`RegionError::Cancelled`] when the run had to end before every chunk was begun.
    pub fn region<F: Fn(Chunk) + Sync>(
        &self,
        site: &'static RegionSite,
        spec: RegionSpec,
        body: F,
    ) -> Result<(), RegionError> {
        // SAFETY: `body` lives until `open` returns.
        unsafe { self.open(site, &spec, Body::new(&body)) }
    }

    /// As [`region`](Self::region), and gives each chunk its own part of `output`: unit `u` owns elements
    /// `[u · per_unit, (u + 1) · per_unit)`.
    ///
    /// # Errors
    /// As [`region`](Self::region).
    ///
    /// # Panics
    /// When `output` does not have `total · per_unit` elements.
    pub fn region_over<T: Send, F: Fn(Chunk, &mut [T]) + Sync>(
        &self,
        site: &'static RegionSite,
        spec: RegionSpec,
        output: &mut [T],
        per_unit: usize,
        body: F,
    ) -> Result<(), RegionError> {
        assert_eq!(
            Some(output.len()),
            spec.total.checked_mul(per_unit),
            "output of a region has per_unit elements a unit"
        );
        let output = DisjointSlice::new(output);
        self.region(site, spec, |chunk| {
            let range = chunk.range.start * per_unit..chunk.range.end * per_unit;
            // SAFETY: chunks of a region are disjoint ranges of units, and each is run once.
            let part = unsafe { output.part(range) };
            body(chunk, part)
        })
    }

    /// # Safety
    /// The body lives until this returns.
    unsafe fn open(
        &self,
        site: &'static RegionSite,
        spec: &RegionSpec,
        body: Body,
    ) -> Result<(), RegionError> {
        let Some(run) = self.run else {
            let task = Task::new(body, spec);
            // SAFETY: the caller's obligation.
            let ended = unsafe { inline::<false>(&task, self.opener(0), InlineReason::Limit) };
            return self.result(site, ended.outcome);
        };
        // The flag is for measuring what this branch costs.
        if let Some(collector) = run.collector
            && !cfg!(onl_without_profiling)
        {
            // SAFETY: the caller's obligation.
            return unsafe { self.open_recorded(run, collector, site, spec, body) };
        }
        if let Err(cancelled) = run.stop.check() {
            return Err(self.cancelled(site, cancelled));
        }
        let task = self.task(run, body, spec);
        // SAFETY: the caller's obligation.
        let ended = unsafe { self.dispatch::<false>(run, spec, &task) };
        self.result(site, ended.outcome)
    }

    fn task(&self, run: &RunState<'_>, body: Body, spec: &RegionSpec) -> Task {
        Task {
            run: std::ptr::from_ref(run) as usize,
            stop: run.stop_pointer(),
            ..Task::new(body, spec)
        }
    }

    /// Runs a region where it gets lanes, else inline. `RECORDED` is whether the task has a collector.
    ///
    /// # Safety
    /// The task's body lives until this returns.
    #[inline(always)]
    unsafe fn dispatch<const RECORDED: bool>(
        &self,
        run: &RunState<'_>,
        spec: &RegionSpec,
        task: &Task,
    ) -> Ended {
        let reason = match admit(run, spec, task, Scope::current()) {
            Err(reason) => reason,
            Ok(admission) => match run.pool.run::<RECORDED>(&run.team, *task, admission) {
                Some(outcome) => {
                    return Ended {
                        admitted: admission.lanes,
                        inline_reason: None,
                        outcome,
                    };
                }
                None => InlineReason::NoLane,
            },
        };
        // SAFETY: the caller's obligation; the run lasts until this returns.
        unsafe { inline::<RECORDED>(task, self.opener(task.run), reason) }
    }

    /// Runs a region and records it.
    ///
    /// # Safety
    /// The body lives until this returns.
    #[cold]
    #[inline(never)]
    unsafe fn open_recorded(
        &self,
        run: &RunState<'_>,
        collector: &Collector,
        site: &'static RegionSite,
        spec: &RegionSpec,
        body: Body,
    ) -> Result<(), RegionError> {
        if let Err(cancelled) = run.stop.check() {
            return Err(self.cancelled(site, cancelled));
        }
        let opened = Ticks::now();
        let task = Task {
            region: collector.next_region(),
            collector,
            ..self.task(run, body, spec)
        };
        let scope = Scope::current();
        let opener = self.opener(task.run);
        // SAFETY: the caller's obligation.
        let ended = unsafe { self.dispatch::<true>(run, spec, &task) };
        let ended_at = Ticks::now();
        if task.chunks() > 1
            && ended
                .inline_reason
                .is_none_or(InlineReason::is_want_of_lanes)
        {
            run.divisible
                .fetch_add(ended_at.since(opened), Ordering::Relaxed);
        }
        let parent = scope
            .inside
            .then_some(scope.region)
            .filter(|&region| region != 0);
        collector.record_region(RegionRecord {
            region: task.region,
            parent,
            run: run.run,
            node: self.node,
            opener: opener as u32,
            executor: run.executor,
            site,
            path: spec.path,
            tiles: spec.tiles,
            total: task.total as u64,
            grain: task.grain as u64,
            requested: most_lanes(run.allowed, spec, &task) as u32,
            admitted: ended.admitted as u32,
            participants: ended.outcome.participants,
            inline_reason: ended.inline_reason,
            opened,
            exhausted: ended.outcome.exhausted.unwrap_or(ended_at),
            ended: ended_at,
        });
        self.result(site, ended.outcome)
    }

    /// The lane that opens a region of a run.
    fn opener(&self, run: usize) -> usize {
        let scope = Scope::current();
        if scope.inside && scope.run == run {
            scope.lane
        } else {
            0
        }
    }

    fn result(&self, site: &'static RegionSite, outcome: Outcome) -> Result<(), RegionError> {
        if let Some(CaughtPanic { lane, message }) = outcome.panic {
            return Err(RegionError::Panicked {
                node: self.node,
                lane,
                site: site.label,
                message,
            });
        }
        match self.check_cancelled() {
            Err(cancelled) if outcome.cancelled => Err(self.cancelled(site, cancelled)),
            _ => Ok(()),
        }
    }

    fn cancelled(&self, site: &'static RegionSite, cancelled: Cancelled) -> RegionError {
        RegionError::Cancelled {
            node: self.node,
            site: site.label,
            cancelled,
        }
    }
}

/// Measures a node; see [`Lanes::time_node`].
#[must_use]
pub struct NodeTimer<'run> {
    recording: Option<(&'run Collector, u64, Ticks)>,
    node: u32,
}

impl Drop for NodeTimer<'_> {
    fn drop(&mut self) {
        if let Some((collector, run, started)) = self.recording {
            collector.record_node(run, self.node, started);
        }
    }
}

/// Lanes that a region may have, of those available.
fn most_lanes(available: usize, spec: &RegionSpec, task: &Task) -> usize {
    let limit = match spec.max_participants {
        0 => usize::MAX,
        limit => limit,
    };
    available.min(limit).min(task.chunks()).max(1)
}

/// Which lanes a region gets in the state in which it meets them.
#[inline(always)]
fn admit(
    run: &RunState<'_>,
    spec: &RegionSpec,
    task: &Task,
    scope: Scope,
) -> Result<Admission, InlineReason> {
    if scope.inside {
        return Err(InlineReason::Nested);
    }
    if task.chunks() < 2 || spec.total < spec.minimum_total {
        return Err(InlineReason::BelowThreshold);
    }
    if spec.max_participants == 1 {
        return Err(InlineReason::Limit);
    }
    if run.team.workers == 0 {
        return Err(run.lone_reason);
    }
    let lanes = most_lanes(run.team.workers + 1, spec, task);
    let everybody = Admission {
        lanes,
        awake_only: false,
    };
    if spec.serial_ns == 0 || (run.hot_ns <= 0.0 && run.cold_ns <= 0.0) {
        return Ok(everybody);
    }
    let serial = spec.serial_ns as f64;
    let saved = |lanes: usize| serial * (1.0 - 1.0 / lanes as f64);
    let awake = 1 + run.pool.awake(&run.team).min(lanes - 1);
    let gain_awake = saved(awake) - run.hot_ns;
    let gain_all = saved(lanes) - run.cold_ns;
    let awake_pays = awake > 1 && gain_awake >= 0.0;
    if awake < lanes && gain_all >= 0.0 && (!awake_pays || gain_all > gain_awake) {
        Ok(everybody)
    } else if awake_pays {
        Ok(Admission {
            lanes: awake,
            awake_only: true,
        })
    } else {
        Err(InlineReason::Cost)
    }
}

/// Runs every chunk on the calling lane.
///
/// # Safety
/// The task's body lives until this returns, and the run has not ended.
unsafe fn inline<const RECORDED: bool>(task: &Task, lane: usize, reason: InlineReason) -> Ended {
    // SAFETY: the caller's obligation.
    let timer = unsafe { task.collector::<RECORDED>() }
        .map(|collector| LaneTimer::start(collector, task.region));
    let outer = Scope::enter(task.run, task.region, lane);
    let chunks = task.chunks();
    let begun = Cell::new(0);
    let result = catch_unwind(AssertUnwindSafe(|| {
        for index in 0..chunks {
            // SAFETY: the caller's obligation. The opener has just asked for the first chunk.
            if index > 0 && unsafe { task.is_stopped() } {
                break;
            }
            begun.set(index + 1);
            // SAFETY: the caller's obligation.
            unsafe { task.body.run(task.chunk(index, lane)) };
        }
    }));
    Scope::leave(outer);
    let participants = u32::from(chunks > 0);
    let exhausted = match timer {
        Some(timer) if participants > 0 => Some(timer.stop(lane, begun.get())),
        _ => None,
    };
    Ended {
        admitted: 1,
        inline_reason: Some(reason),
        outcome: Outcome {
            cancelled: result.is_ok() && begun.get() < chunks,
            panic: result.err().map(|payload| CaughtPanic {
                lane,
                message: panic_message(payload),
            }),
            participants,
            exhausted,
        },
    }
}
