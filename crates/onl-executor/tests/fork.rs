//! A forked child has no worker threads: inherited executors say so, new ones work.
//!
//! One test, alone in its binary: the child has a copy of every lock that another test might hold.
#![cfg(unix)]

use onl_cpu::CpuSystem;
use onl_executor::{
    CpuExecutionPolicy, CpuExecutor, ExecutorError, ExecutorRegistry, RegionSpec, RunOptions,
};
use onl_profiling::{RegionSite, region_site};
use std::sync::atomic::{AtomicUsize, Ordering};

static SITE: RegionSite = region_site!("test.fork");

fn sum_on(executor: &CpuExecutor) -> usize {
    let sum = AtomicUsize::new(0);
    let run = executor.enter();
    let result = run.lanes().region(&SITE, RegionSpec::new(100, 1), |chunk| {
        sum.fetch_add(chunk.index, Ordering::Relaxed);
    });
    assert!(result.is_ok());
    sum.into_inner()
}

#[test]
fn forked_children_are_told_and_may_start_anew() {
    let policy = CpuExecutionPolicy {
        threads: 2,
        ..CpuExecutionPolicy::default()
    }
    .resolve(&CpuSystem::current())
    .expect("two threads are possible");
    let own = ExecutorRegistry::with_limits(2, 4);
    let own_lease = own.lease(&policy).expect("a first lease");
    let lease = ExecutorRegistry::global()
        .lease(&policy)
        .expect("a first lease");
    let open_run = lease.enter();
    assert_eq!(sum_on(&lease), 4950);

    // SAFETY: the child uses memory and threads of its own only, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        // SAFETY: ends a child that hangs.
        unsafe { libc::alarm(60) };
        let code = std::panic::catch_unwind(|| {
            let inherited = lease.enter_with(RunOptions::default()).err();
            if inherited != Some(ExecutorError::Forked) {
                return 1;
            }
            if own.lease(&policy).err() != Some(ExecutorError::Forked) {
                return 2;
            }
            // Without an error to return, the inherited executor works on the caller alone.
            if lease.enter().lanes().count() != 1 || sum_on(&own_lease) != 4950 {
                return 3;
            }
            let Ok(fresh) = ExecutorRegistry::global().lease(&policy) else {
                return 4;
            };
            if fresh.enter().lanes().count() != 2 || sum_on(&fresh) != 4950 {
                return 5;
            }
            drop(fresh);
            0
        })
        .unwrap_or(6);
        let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            drop(open_run);
            drop((own_lease, own));
        }));
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(if dropped.is_ok() { code } else { 7 }) };
    }
    let mut status = 0;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "child ended by a signal");
    assert_eq!(libc::WEXITSTATUS(status), 0, "child found something wrong");
    drop(open_run);
    assert_eq!(sum_on(&lease), 4950);
    assert_eq!(lease.enter().lanes().count(), 2);
}
