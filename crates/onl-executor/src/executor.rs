use crate::budget::{BudgetEntry, LaneBudget};
use crate::cancel::{CancelToken, StopCondition};
use crate::error::ExecutorError;
use crate::fork;
use crate::lanes::Lanes;
use crate::pool::{MAX_LANES, Pool, Team};
use crate::sync::thread::{Builder, JoinHandle};
use crate::wait::WaitMode;
use onl_cpu::{DenormalGuard, DenormalMode};
use onl_profiling::{
    Collector, InlineReason, ProcessCpu, ProfilingLevel, RunRecord, TickRate, Ticks, process_cpu_ns,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The worker lanes of one resolved policy. Dropping it ends its worker threads.
pub struct CpuExecutor {
    pool: Arc<Pool>,
    threads: Vec<JoinHandle<()>>,
    identity: u64,
    generation: u64,
    budget: Arc<LaneBudget>,
}

/// How an executor is built; a policy resolves to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct ExecutorPlan {
    pub(crate) lanes: usize,
    pub(crate) wait: WaitMode,
    pub(crate) denormals: DenormalMode,
    /// Processor of each lane, the caller's first; empty without affinity.
    pub(crate) cpus: Vec<u32>,
    /// Processors that the lanes share, 0 when unknown.
    pub(crate) processors: usize,
}

impl CpuExecutor {
    /// An executor with exactly this many lanes (1 to 4096), the caller included, however many processors there are.
    /// It takes nothing from the lane budget. For tests; sessions resolve a policy.
    ///
    /// # Panics
    /// When the system refuses a thread.
    pub fn with_lanes(lanes: usize) -> Arc<Self> {
        Self::with_wait_mode(lanes, WaitMode::default())
    }

    /// As [`with_lanes`](Self::with_lanes), with a wait mode.
    ///
    /// # Panics
    /// When the system refuses a thread.
    pub fn with_wait_mode(lanes: usize, wait: WaitMode) -> Arc<Self> {
        let plan = ExecutorPlan {
            lanes,
            wait,
            ..ExecutorPlan::default()
        };
        match Self::build(&plan, LaneBudget::unlimited()) {
            Ok(executor) => Arc::new(executor),
            Err(error) => panic!("{error}"),
        }
    }

    /// Starts the worker threads of a plan.
    pub(crate) fn build(
        plan: &ExecutorPlan,
        budget: Arc<LaneBudget>,
    ) -> Result<Self, ExecutorError> {
        static IDENTITIES: AtomicU64 = AtomicU64::new(1);
        fork::watch();
        let lanes = plan.lanes.clamp(1, MAX_LANES);
        let processors = match plan.processors {
            0 => std::thread::available_parallelism().map_or(lanes, usize::from),
            known => known,
        };
        let pool = Arc::new(Pool::new(
            lanes - 1,
            plan.wait,
            lanes > processors,
            plan.denormals,
        ));
        let mut executor = CpuExecutor {
            pool,
            threads: Vec::with_capacity(lanes - 1),
            identity: IDENTITIES.fetch_add(1, Ordering::Relaxed),
            generation: fork::generation(),
            budget,
        };
        for lane in 1..lanes {
            let pool = Arc::clone(&executor.pool);
            let pin = plan.cpus.get(lane).copied();
            let builder = Builder::new().name(format!("onl-lane-{lane}"));
            // The one place in the workspace that creates threads for kernel work.
            #[allow(clippy::disallowed_methods)]
            let thread = builder.spawn(move || pool.serve(lane - 1, pin));
            match thread {
                Ok(thread) => executor.threads.push(thread),
                Err(error) => {
                    return Err(ExecutorError::Spawn {
                        lane,
                        lanes,
                        reason: error.to_string(),
                    });
                }
            }
        }
        Ok(executor)
    }

    /// Most lanes of a run, the caller included.
    pub fn participants(&self) -> usize {
        self.pool.workers() + 1
    }

    /// Number of this executor, unique in its process; events carry it.
    pub fn identity(&self) -> u64 {
        self.identity
    }

    /// Whether this process is a forked child of the one that made the executor.
    pub(crate) fn is_inherited(&self) -> bool {
        fork::generation() != self.generation
    }

    /// Worker lanes that the system did not let run on the processor of their policy; they run anywhere.
    pub fn refused_pins(&self) -> u32 {
        self.pool.refused_pins()
    }

    /// Takes a team for one run with default options. Where [`enter_with`](Self::enter_with) would fail, in a forked
    /// child, the run has its caller's lane only.
    pub fn enter(&self) -> Run<'_> {
        self.start(
            &RunOptions::default(),
            fork::generation() != self.generation,
        )
    }

    /// Takes a team for one run: the caller's lane, and of the others what is free. Until the run is dropped the
    /// calling thread rounds to nearest and treats denormal numbers as the policy says.
    ///
    /// # Errors
    /// [`ExecutorError::Forked`] in a forked child of the process that made the executor.
    pub fn enter_with<'e>(&'e self, options: RunOptions<'e>) -> Result<Run<'e>, ExecutorError> {
        if self.is_inherited() {
            return Err(ExecutorError::Forked);
        }
        Ok(self.start(&options, false))
    }

    fn start<'e>(&'e self, options: &RunOptions<'e>, alone: bool) -> Run<'e> {
        let allowed = match options.max_lanes {
            0 => self.participants(),
            most => most.min(self.participants()),
        };
        let workers = if alone { 0 } else { allowed - 1 };
        let entry = self.budget.take(workers);
        let granted = entry.workers;
        let team = self.pool.take(granted);
        if team.workers < granted {
            self.budget.give_back(granted - team.workers);
        }
        let lone_reason = if workers == 0 && !alone {
            InlineReason::Limit
        } else if granted == 0 && !alone {
            InlineReason::Budget
        } else {
            InlineReason::NoLane
        };
        if options.expects_regions {
            self.pool.wake(&team);
        }
        let collector = options
            .collector
            .filter(|collector| collector.level() != ProfilingLevel::Off);
        let recording = collector.map(|_| RunRecording {
            entered: Ticks::now(),
            cpu_ns: process_cpu_ns(),
        });
        Run {
            state: RunState {
                pool: &self.pool,
                budget: &self.budget,
                entry,
                recording,
                team,
                allowed,
                lone_reason,
                hot_ns: options.hot_ns,
                cold_ns: options.cold_ns,
                stop: StopCondition {
                    token: options.cancel,
                    deadline: options.deadline,
                },
                collector,
                divisible: AtomicU64::new(0),
                run: collector.map_or(0, Collector::next_run),
                executor: self.identity,
            },
            _float_control: DenormalGuard::new(self.pool.denormals()),
        }
    }
}

// A panic in a region leaves the executor as it was.
impl std::panic::UnwindSafe for CpuExecutor {}
impl std::panic::RefUnwindSafe for CpuExecutor {}

impl std::fmt::Debug for CpuExecutor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CpuExecutor")
            .field("identity", &self.identity)
            .field("participants", &self.participants())
            .finish_non_exhaustive()
    }
}

impl Drop for CpuExecutor {
    fn drop(&mut self) {
        let threads = std::mem::take(&mut self.threads);
        if self.is_inherited() {
            // The threads live in the parent only.
            std::mem::forget(threads);
            return;
        }
        self.pool.stop();
        for thread in threads {
            // A worker catches what its chunks throw, so it cannot have panicked.
            let _ = thread.join();
        }
    }
}

/// What a run asks of its executor.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunOptions<'e> {
    /// Where region events go; nothing is recorded and no clock read without one.
    pub collector: Option<&'e Collector>,
    /// Wakes sleeping lanes at the start of the run, for plans with a region that pays for it. Frugal lanes sleep on.
    pub expects_regions: bool,
    /// Nanoseconds that a region costs when its lanes spin; 0 when unknown.
    pub hot_ns: f64,
    /// Nanoseconds that a region costs when its lanes sleep; 0 when unknown.
    pub cold_ns: f64,
    /// Most lanes of this run, the caller included; 0 for all of the executor.
    pub max_lanes: usize,
    /// Ends the run when it is cancelled.
    pub cancel: Option<&'e CancelToken>,
    /// Ends the run when it passes. Lanes read the clock between chunks of a run that has one.
    pub deadline: Option<Instant>,
}

pub(crate) struct RunState<'e> {
    pub(crate) pool: &'e Pool,
    budget: &'e LaneBudget,
    entry: BudgetEntry,
    /// Present when a collector is.
    recording: Option<RunRecording>,
    pub(crate) team: Team,
    /// Lanes that executor and run allow.
    pub(crate) allowed: usize,
    /// Why a team without workers has none.
    pub(crate) lone_reason: InlineReason,
    pub(crate) hot_ns: f64,
    pub(crate) cold_ns: f64,
    pub(crate) stop: StopCondition<'e>,
    pub(crate) collector: Option<&'e Collector>,
    /// Ticks spent in recorded regions that lanes can share.
    pub(crate) divisible: AtomicU64,
    pub(crate) run: u64,
    pub(crate) executor: u64,
}

/// What was measured when a recorded run began.
struct RunRecording {
    entered: Ticks,
    cpu_ns: Option<u64>,
}

impl RunState<'_> {
    /// The stop condition for lanes, which use it only until the region returns; null when it can never be met.
    pub(crate) fn stop_pointer(&self) -> *const StopCondition<'static> {
        if self.stop.is_possible() {
            std::ptr::from_ref(&self.stop).cast()
        } else {
            std::ptr::null()
        }
    }

    fn record(&self) {
        let (Some(collector), Some(recording)) = (self.collector, &self.recording) else {
            return;
        };
        let process_cpu = match (recording.cpu_ns, process_cpu_ns()) {
            _ if self.budget.overlapped(self.entry) => ProcessCpu::Overlapped,
            (Some(before), Some(after)) => ProcessCpu::Valid(after.saturating_sub(before)),
            _ => ProcessCpu::Unsupported,
        };
        collector.record_run(RunRecord {
            run: self.run,
            executor: self.executor,
            lanes: self.team.workers as u32 + 1,
            entered: recording.entered,
            left: Ticks::now(),
            process_cpu,
        });
    }
}

impl std::panic::UnwindSafe for RunState<'_> {}
impl std::panic::RefUnwindSafe for RunState<'_> {}

/// One run on an executor; leaves its team when dropped. Stays on the thread that entered.
pub struct Run<'e> {
    state: RunState<'e>,
    _float_control: DenormalGuard,
}

impl Run<'_> {
    /// The lanes of this run.
    pub fn lanes(&self) -> Lanes<'_> {
        Lanes::of_run(&self.state)
    }

    /// Nanoseconds that this run has spent so far in regions that several lanes can share; 0 when nothing is recorded.
    pub fn divisible_ns(&self) -> u64 {
        match self.state.divisible.load(Ordering::Relaxed) {
            0 => 0,
            ticks => TickRate::measure().nanoseconds(ticks),
        }
    }

    /// Number of this run in its collector; `None` when nothing is recorded.
    pub fn number(&self) -> Option<u64> {
        (self.state.run != 0).then_some(self.state.run)
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.state.record();
        self.state.pool.give_back(&self.state.team);
        self.state.budget.give_back(1 + self.state.team.workers);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Lanes that are awake at the first moment of a run, whose lanes all slept before.
    fn awake_at_the_start(executor: &CpuExecutor, expects_regions: bool) -> usize {
        let run = |expects_regions| {
            let options = RunOptions {
                expects_regions,
                ..RunOptions::default()
            };
            let run = executor.start(&options, false);
            executor.pool.awake(&run.state.team)
        };
        while run(false) > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        run(expects_regions)
    }

    #[test]
    fn a_run_that_expects_regions_wakes_its_lanes_and_another_does_not() {
        let executor = CpuExecutor::with_lanes(2);
        assert!((0..10).all(|_| awake_at_the_start(&executor, false) == 0));
        // A lane that was woken may sleep again before this thread, if it is stopped meanwhile, looks.
        assert!((0..100).any(|_| awake_at_the_start(&executor, true) == 1));
    }

    #[test]
    fn frugal_lanes_sleep_on() {
        let executor = CpuExecutor::with_wait_mode(2, WaitMode::Frugal);
        assert!((0..10).all(|_| awake_at_the_start(&executor, true) == 0));
    }
}
