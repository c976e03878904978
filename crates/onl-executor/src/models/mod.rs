//! Models of the pool's protocol on its shipping source. `cargo xtask model-check` runs them, and once more with every
//! [`Point`] weakened.

#[cfg(loom)]
mod claims;
#[cfg(shuttle)]
mod executor;
#[cfg(loom)]
mod mailbox;
#[cfg(loom)]
mod pool;
#[cfg(loom)]
mod reports;

use crate::sync::Point;

/// The models that must fail when a point is weakened: of loom, and of shuttle.
fn finders(point: Point) -> (&'static [&'static str], &'static [&'static str]) {
    match point {
        Point::Publish | Point::Claim => (&["claims::published"], &[]),
        Point::CompareGeneration => (&[], &["executor::late_lanes"]),
        Point::Post | Point::Receive | Point::FenceAfterPost | Point::FenceAsleep => {
            (&["mailbox::told", "pool::told_lanes_come"], &[])
        }
        Point::LookAgain => (
            &["mailbox::told", "pool::told_lanes_come"],
            &["executor::runs"],
        ),
        Point::Woken => (&["mailbox::woken"], &[]),
        Point::Report | Point::Reported => (&["pool::region_returns", "pool::reuse"], &[]),
        // Bodies of whole executors end with their region; only a model of the pool can let them outlive it.
        Point::AwaitReports => (&["pool::region_returns", "pool::reuse"], &[]),
        Point::LookForReports => (&["reports::awaited"], &[]),
        Point::WakeCaller => (&["reports::awaited", "pool::region_returns"], &[]),
        Point::Open | Point::Close => (&["pool::one_region_at_a_time"], &[]),
        Point::OpenAlone => (&["pool::one_region_at_a_time"], &[]),
        Point::DropUnits => (&[], &["executor::runs"]),
        Point::TakeWorker | Point::GiveBack => (&["pool::ownership"], &[]),
        Point::FenceAfterStop => (&["pool::stop"], &[]),
        Point::WakeToStop => (&["pool::stop"], &["executor::runs"]),
    }
}

/// Points that protect the same access: it is safe while one of them is kept.
#[cfg(loom)]
const TOGETHER: &[(&str, &str)] = &[
    ("Publish+Post", "pool::reuse"),
    ("Claim+Receive", "pool::reuse"),
    ("TakeWorker+Open", "pool::handed_over"),
    ("GiveBack+Close", "pool::handed_over"),
];
#[cfg(shuttle)]
const TOGETHER: &[(&str, &str)] = &[];

/// Prints the lines `weaken POINTS MODEL` for the task that runs the models.
#[test]
fn weakenings() {
    for &point in Point::ALL {
        let (loom, shuttle) = finders(point);
        assert!(!loom.is_empty() || !shuttle.is_empty(), "{point:?}");
        for model in if cfg!(loom) { loom } else { shuttle } {
            println!("weaken {point:?} {model}");
        }
    }
    for (points, model) in TOGETHER {
        println!("weaken {points} {model}");
    }
}

/// How a model's stores are explored; see [`exchange_instead_of_store`](crate::sync::exchange_instead_of_store).
#[cfg(loom)]
#[derive(Clone, Copy, PartialEq)]
enum Stores {
    Plain,
    Exchanges,
}

/// Explores every execution of a model with at most this many preemptions, or as many as `LOOM_MAX_PREEMPTIONS` says.
#[cfg(loom)]
fn explore(stores: Stores, preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    let executions = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&executions);
    crate::sync::exchange_instead_of_store(stores == Stores::Exchanges);
    builder.check(move || {
        count.fetch_add(1, Ordering::Relaxed);
        model();
    });
    println!("{} executions", executions.load(Ordering::Relaxed));
}
