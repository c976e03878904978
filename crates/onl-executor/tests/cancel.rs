//! Runs that end before their end.

use onl_executor::{
    CancelReason, CancelToken, Cancelled, CpuExecutor, RegionError, RegionSpec, RunOptions,
};
use onl_profiling::{RegionSite, region_site};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

static SITE: RegionSite = region_site!("test.cancel");

fn cancelled(reason: CancelReason) -> RegionError {
    RegionError::Cancelled {
        node: Some(4),
        site: "test.cancel",
        cancelled: Cancelled { reason },
    }
}

#[test]
fn a_cancelled_region_leaves_chunks_undone_and_the_executor_usable() {
    for lanes in [1, 2, 3] {
        let executor = CpuExecutor::with_lanes(lanes);
        let token = CancelToken::new();
        let ran = AtomicUsize::new(0);
        let run = executor
            .enter_with(RunOptions {
                cancel: Some(&token),
                ..RunOptions::default()
            })
            .unwrap();
        let region = |at: usize| {
            run.lanes()
                .for_node(4)
                .region(&SITE, RegionSpec::new(10_000, 1), |_| {
                    if ran.fetch_add(1, Ordering::Relaxed) == at {
                        token.cancel();
                    }
                })
        };
        assert_eq!(region(10), Err(cancelled(CancelReason::Requested)));
        let first = ran.load(Ordering::Relaxed);
        assert!(first >= 11);
        assert!(first < 10_000);
        assert_eq!(region(0), Err(cancelled(CancelReason::Requested)));
        assert_eq!(
            ran.load(Ordering::Relaxed),
            first,
            "no chunk of a later region"
        );
        assert!(run.lanes().check_cancelled().is_err());
        drop(run);
        let after = AtomicUsize::new(0);
        executor
            .enter()
            .lanes()
            .region(&SITE, RegionSpec::new(100, 1), |_| {
                after.fetch_add(1, Ordering::Relaxed);
            })
            .unwrap();
        assert_eq!(after.into_inner(), 100);
    }
}

#[test]
fn a_region_whose_chunks_are_all_done_is_not_cancelled() {
    for lanes in [1, 2] {
        let executor = CpuExecutor::with_lanes(lanes);
        let token = CancelToken::new();
        let run = executor
            .enter_with(RunOptions {
                cancel: Some(&token),
                ..RunOptions::default()
            })
            .unwrap();
        let last = AtomicUsize::new(0);
        let result = run.lanes().region(&SITE, RegionSpec::new(8, 1), |_| {
            if last.fetch_add(1, Ordering::Relaxed) == 7 {
                token.cancel();
            }
        });
        assert_eq!(result, Ok(()), "{lanes} lanes");
    }
}

#[test]
fn a_deadline_ends_regions_of_every_kind() {
    let executor = CpuExecutor::with_lanes(2);
    for max_participants in [0, 1] {
        let run = executor
            .enter_with(RunOptions {
                deadline: Some(Instant::now() + Duration::from_millis(20)),
                ..RunOptions::default()
            })
            .unwrap();
        let spec = RegionSpec {
            max_participants,
            ..RegionSpec::new(usize::MAX, 1)
        };
        let result = run.lanes().for_node(4).region(&SITE, spec, |_| {
            std::thread::sleep(Duration::from_millis(1));
        });
        assert_eq!(result, Err(cancelled(CancelReason::Deadline)));
    }
}

#[test]
fn a_panic_outweighs_a_cancellation() {
    let executor = CpuExecutor::with_lanes(2);
    let token = CancelToken::new();
    let run = executor
        .enter_with(RunOptions {
            cancel: Some(&token),
            ..RunOptions::default()
        })
        .unwrap();
    let result = run.lanes().region(&SITE, RegionSpec::new(100, 1), |_| {
        token.cancel();
        panic!("broken");
    });
    assert!(
        matches!(result, Err(RegionError::Panicked { .. })),
        "{result:?}"
    );
}

#[test]
fn the_error_says_where_and_why() {
    let text = cancelled(CancelReason::Deadline).to_string();
    assert_eq!(
        text,
        "the run was cancelled: its deadline passed, in region 'test.cancel' of node 4"
    );
}
