//! Whole executors: callers that enter, run regions of every kind and leave, until the executor ends.

use crate::budget::LaneBudget;
use crate::executor::ExecutorPlan;
use crate::sync::thread;
use crate::{
    CancelToken, CpuExecutionPolicy, CpuExecutor, ExecutorRegistry, Lanes, RegionError, RegionSpec,
    RunOptions, WaitMode,
};
use onl_cpu::CpuSystem;
use onl_profiling::{Collector, RegionSite, region_site};
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

static SITE: RegionSite = region_site!("model.region");
static INNER: RegionSite = region_site!("model.inner");
static SYSTEM: OnceLock<CpuSystem> = OnceLock::new();

std::thread_local! {
    /// Regions of the model that ran on more than one lane; without any it would show nothing.
    static SHARED: Cell<usize> = const { Cell::new(0) };
}

const PLANNED: &str = "planned panic";

/// Explores executions of a model, half of them at random, half with few preemptions at random places.
fn check(iterations: usize, model: fn()) {
    explore(RandomScheduler::new(iterations), model);
    explore(PctScheduler::new(4, iterations), model);
}

fn explore(scheduler: impl Scheduler + 'static, model: fn()) {
    let mut config = shuttle::Config::new();
    // Chunks that panic unwind.
    config.stack_size = 1 << 18;
    config.max_steps = shuttle::MaxSteps::FailAfter(200_000);
    config.silence_warnings = true;
    let count = shuttle::Runner::new(scheduler, config).run(model);
    let shared = SHARED.take();
    println!("{count} executions, {shared} regions on several lanes");
    assert!(shared >= count / 10, "lanes share work");
}

fn below(limit: usize) -> usize {
    thread_rng().gen_range(0..limit)
}

fn one_in(count: usize) -> bool {
    below(count) == 0
}

fn random_spec() -> RegionSpec {
    RegionSpec {
        max_participants: below(4),
        serial_ns: below(3) as u64 * 1000,
        ..RegionSpec::new(below(6), 1 + below(2))
    }
}

/// Runs a region, with a panic or regions inside it or neither, and checks all that [`Lanes::region`] promises.
fn check_region(lanes: Lanes<'_>, spec: RegionSpec) {
    let chunks = spec.chunks();
    let most_lanes = match spec.max_participants {
        0 => lanes.count(),
        most => most.min(lanes.count()),
    };
    let panicking = (chunks > 0 && one_in(3)).then(|| below(chunks));
    let nesting = one_in(3);
    // Nothing here is visible to the scheduler: it switches at the pool's own accesses and where chunks yield.
    let visits: Vec<AtomicUsize> = (0..chunks).map(|_| AtomicUsize::new(0)).collect();
    let flags = || {
        (0..lanes.count())
            .map(|_| AtomicBool::new(false))
            .collect::<Vec<_>>()
    };
    let (came, occupied) = (flags(), flags());
    let result = lanes.region(&SITE, spec, |chunk| {
        came[chunk.lane].store(true, Ordering::Relaxed);
        assert!(
            !occupied[chunk.lane].swap(true, Ordering::Relaxed),
            "one chunk at a time on a lane"
        );
        visits[chunk.index].fetch_add(1, Ordering::Relaxed);
        thread::yield_now();
        if nesting {
            let inner = AtomicUsize::new(0);
            let result = lanes.region(&INNER, RegionSpec::new(3, 1), |nested| {
                assert_eq!(nested.lane, chunk.lane, "a nested region stays on its lane");
                inner.fetch_add(1, Ordering::Relaxed);
            });
            match result {
                Ok(()) => assert_eq!(inner.into_inner(), 3),
                Err(error) => assert!(is_cancelled(&lanes, &error), "{error}"),
            }
        }
        occupied[chunk.lane].store(false, Ordering::Relaxed);
        if panicking == Some(chunk.index) {
            // Unlike `panic`, this is nothing that the model checker reports.
            resume_unwind(Box::new(PLANNED));
        }
    });
    let set = |flags: &[AtomicBool]| {
        flags
            .iter()
            .filter(|flag| flag.load(Ordering::Relaxed))
            .count()
    };
    assert_eq!(set(&occupied), 0, "a region returns after its last chunk");
    assert!(set(&came) <= most_lanes, "admitted lanes only");
    if set(&came) > 1 {
        SHARED.set(SHARED.get() + 1);
    }
    let visits: Vec<usize> = visits.into_iter().map(AtomicUsize::into_inner).collect();
    assert!(visits.iter().all(|&count| count <= 1), "no chunk twice");
    let all = visits.iter().all(|&count| count == 1);
    match (result, panicking) {
        (Ok(()), None) => assert!(all, "each chunk once"),
        (Err(RegionError::Panicked { lane, message, .. }), Some(index)) => {
            assert_eq!((message.as_str(), visits[index]), (PLANNED, 1));
            assert!(lane < lanes.count());
        }
        (Err(error), _) if is_cancelled(&lanes, &error) => {
            assert!(!all || chunks == 0, "what is complete is not cancelled");
        }
        (result, _) => panic!("{result:?} with a panic in {panicking:?}"),
    }
}

fn is_cancelled(lanes: &Lanes<'_>, error: &RegionError) -> bool {
    matches!(error, RegionError::Cancelled { .. }) && lanes.check_cancelled().is_err()
}

fn check_run(executor: &CpuExecutor) {
    let collector = Collector::new(16);
    let token = CancelToken::new();
    let timed = one_in(3);
    let options = RunOptions {
        collector: timed.then_some(&collector),
        expects_regions: one_in(2),
        hot_ns: below(2) as f64 * 400.0,
        cold_ns: below(2) as f64 * 800.0,
        max_lanes: below(4),
        cancel: one_in(3).then_some(&token),
        ..RunOptions::default()
    };
    let run = executor.enter_with(options).expect("no fork");
    let lanes = run.lanes();
    let mut regions = 1 + below(3);
    thread::scope(|scope| {
        if options.cancel.is_some() {
            scope.spawn(|| token.cancel());
        }
        if one_in(4) {
            // Two threads of one run: one region gets the lanes, the other runs where it is opened.
            scope.spawn(move || check_region(lanes, random_spec()));
            regions = 1;
        }
        // On a thread of its own: shuttle wakes the one that made the scope when the others end, whatever it waits for.
        scope.spawn(move || {
            for _ in 0..regions {
                check_region(lanes, random_spec());
            }
        });
    });
    drop(run);
    for event in collector.drain().regions {
        assert!(event.participants <= event.admitted, "{event:?}");
    }
}

/// Every chunk runs once, on an admitted lane; panics are reported; lanes and budget come back; every worker ends.
#[test]
fn runs() {
    check(50_000, || {
        let lanes = 2 + below(3);
        let wait = match below(4) {
            0 => WaitMode::Latency,
            1 => WaitMode::Balanced,
            2 => WaitMode::Frugal,
            _ => WaitMode::Fixed(Duration::from_micros(30)),
        };
        let plan = ExecutorPlan {
            lanes,
            wait,
            processors: if one_in(2) { 1 } else { lanes },
            ..ExecutorPlan::default()
        };
        let budget = Arc::new(LaneBudget::new(1 + below(6)));
        let executor = CpuExecutor::build(&plan, Arc::clone(&budget)).expect("threads");
        thread::scope(|scope| {
            for _ in 0..1 + below(3) {
                scope.spawn(|| check_run(&executor));
            }
        });
        assert_eq!(budget.used(), 0);
        // With every worker free again, a lone run gets all that the budget allows.
        let most = lanes.min(budget.limit());
        assert_eq!(executor.enter().lanes().count(), most);
    });
}

/// A lane that comes when its region is over takes no part in the next one, to which it was not admitted.
#[test]
fn late_lanes() {
    check(20_000, || {
        let plan = ExecutorPlan {
            lanes: 3,
            ..ExecutorPlan::default()
        };
        let budget = Arc::new(LaneBudget::new(3));
        let executor = CpuExecutor::build(&plan, budget).expect("threads");
        let run = executor.enter();
        for lanes in [3, 2, 3, 2] {
            let spec = RegionSpec {
                max_participants: lanes,
                ..RegionSpec::new(3, 1)
            };
            check_region(run.lanes(), spec);
        }
    });
}

/// Sessions share an executor for as long as one of them lives.
#[test]
fn leases() {
    check(20_000, || {
        let policy = CpuExecutionPolicy {
            threads: 2,
            ..CpuExecutionPolicy::default()
        };
        let policy = policy
            .resolve(SYSTEM.get_or_init(CpuSystem::current))
            .expect("two lanes");
        let registry = ExecutorRegistry::with_limits(1, 1 + below(4));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..2 {
                        let lease = registry.lease(&policy).expect("one executor");
                        check_region(lease.enter().lanes(), random_spec());
                    }
                });
            }
        });
        assert_eq!((registry.live_pools(), registry.budget().used()), (0, 0));
    });
}
