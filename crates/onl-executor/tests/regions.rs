//! Regions on real lanes: every chunk once, whatever lanes come.
#![allow(clippy::disallowed_methods)] // several callers at once need threads of their own

use onl_executor::{CpuExecutor, FirstError, Lanes, RegionError, RegionSpec, RunOptions, WaitMode};
use onl_profiling::{Collector, InlineReason, ParallelRegionEvent, RegionSite, region_site};
use proptest::prelude::*;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

static SITE: RegionSite = region_site!("test.region");
static INNER: RegionSite = region_site!("test.inner");

const MODES: [WaitMode; 5] = [
    WaitMode::Latency,
    WaitMode::Balanced,
    WaitMode::Frugal,
    WaitMode::Fixed(Duration::ZERO),
    WaitMode::Fixed(Duration::from_micros(30)),
];

/// Runs a region and checks that its chunks are those of the specification, each once, on lanes that exist.
fn check_region(lanes: Lanes<'_>, spec: RegionSpec) {
    let visits: Vec<AtomicU32> = (0..spec.total).map(|_| AtomicU32::new(0)).collect();
    let chunks: Vec<AtomicU32> = (0..spec.chunks()).map(|_| AtomicU32::new(0)).collect();
    lanes
        .region(&SITE, spec, |chunk| {
            assert!(chunk.lane < lanes.count());
            let start = chunk.index * spec.grain.max(1);
            assert_eq!(
                chunk.range,
                start..(start + spec.grain.max(1)).min(spec.total)
            );
            chunks[chunk.index].fetch_add(1, Ordering::Relaxed);
            for unit in chunk.range {
                visits[unit].fetch_add(1, Ordering::Relaxed);
            }
        })
        .unwrap();
    let once = |counts: &[AtomicU32]| counts.iter().all(|n| n.load(Ordering::Relaxed) == 1);
    assert!(once(&visits) && once(&chunks), "{spec:?}");
}

fn record(executor: &CpuExecutor, f: impl FnOnce(Lanes<'_>)) -> Vec<ParallelRegionEvent> {
    record_with(executor, RunOptions::default(), f)
}

fn record_with(
    executor: &CpuExecutor,
    options: RunOptions<'_>,
    f: impl FnOnce(Lanes<'_>),
) -> Vec<ParallelRegionEvent> {
    let collector = Collector::new(64);
    {
        let run = executor
            .enter_with(RunOptions {
                collector: Some(&collector),
                ..options
            })
            .unwrap();
        f(run.lanes());
    }
    collector.drain().regions
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_chunk_runs_exactly_once(
        regions in prop::collection::vec((0usize..3000, 0usize..200, 0usize..9, 0usize..3000), 1..8),
        lanes in prop::sample::select(vec![1usize, 2, 3, 7]),
        mode in prop::sample::select(MODES.to_vec()),
    ) {
        let executor = CpuExecutor::with_wait_mode(lanes, mode);
        let run = executor.enter();
        for (total, grain, max_participants, minimum_total) in regions {
            check_region(run.lanes(), RegionSpec {
                grain,
                max_participants,
                minimum_total,
                ..RegionSpec::new(total, 1)
            });
        }
    }
}

#[test]
fn more_chunks_than_the_claim_word_counts() {
    let executor = CpuExecutor::with_lanes(3);
    let run = executor.enter();
    for total in [65_534, 65_535, 65_536, 65_537, 200_001] {
        check_region(run.lanes(), RegionSpec::new(total, 1));
    }
}

#[test]
fn huge_totals_do_not_overflow() {
    let executor = CpuExecutor::with_lanes(2);
    let run = executor.enter();
    let grain = usize::MAX / 2 + 1;
    let units = AtomicUsize::new(0);
    run.lanes()
        .region(&SITE, RegionSpec::new(usize::MAX, grain), |chunk| {
            units.fetch_add(chunk.range.len(), Ordering::Relaxed);
        })
        .unwrap();
    assert_eq!(units.into_inner(), usize::MAX);
}

#[test]
fn region_over_gives_each_chunk_its_part() {
    let executor = CpuExecutor::with_lanes(3);
    let run = executor.enter();
    let mut output = vec![0usize; 3 * 101];
    run.lanes()
        .region_over(
            &SITE,
            RegionSpec::new(101, 7),
            &mut output,
            3,
            |chunk, part| {
                assert_eq!(part.len(), chunk.range.len() * 3);
                for (offset, element) in part.iter_mut().enumerate() {
                    *element = chunk.range.start * 3 + offset;
                }
            },
        )
        .unwrap();
    assert!(output.iter().enumerate().all(|(i, &x)| i == x));
}

#[test]
fn lanes_that_meet_in_a_region_are_observed_and_start_with_their_chunk() {
    for mode in MODES {
        let executor = CpuExecutor::with_wait_mode(3, mode);
        let events = record(&executor, |lanes| {
            let meeting = Barrier::new(3);
            let lane_of = [const { AtomicUsize::new(usize::MAX) }; 3];
            lanes
                .for_node(9)
                .region(
                    &SITE,
                    RegionSpec {
                        path: "meeting",
                        tiles: 12,
                        ..RegionSpec::new(3, 1)
                    },
                    |chunk| {
                        lane_of[chunk.index].store(chunk.lane, Ordering::Relaxed);
                        meeting.wait();
                    },
                )
                .unwrap();
            let lane_of = lane_of.map(AtomicUsize::into_inner);
            assert_eq!(lane_of, [0, 1, 2], "{mode:?}");
        });
        let [event] = events.as_slice() else {
            panic!("one region, one event")
        };
        assert_eq!(event.inline_reason, None);
        assert_eq!(
            (event.requested, event.admitted, event.participants),
            (3, 3, 3)
        );
        assert_eq!((event.total, event.grain, event.tiles), (3, 1, 12));
        assert_eq!(
            (event.path, event.site, event.node),
            ("meeting", &SITE, Some(9))
        );
        assert_eq!((event.parent, event.opener, event.run), (None, 0, 1));
        assert_eq!(event.executor, executor.identity());
        let lanes: Vec<u32> = event.lanes.iter().map(|sample| sample.lane).collect();
        assert_eq!(lanes, [0, 1, 2]);
        assert!(
            event
                .lanes
                .iter()
                .all(|sample| sample.busy_ns > 0 && sample.chunks == 1)
        );
        // Each of the two is rounded to a nanosecond.
        assert!(event.lanes[0].busy_ns + event.wait_ns <= event.wall_ns + 2);
        assert!(event.utilization().unwrap() > 0.0);
    }
}

#[test]
fn regions_that_run_inline_say_why() {
    let executor = CpuExecutor::with_lanes(3);
    let alone = CpuExecutor::with_lanes(1);
    let spec = RegionSpec::new(100, 10);
    let costs = RunOptions {
        hot_ns: 1e6,
        cold_ns: 1e6,
        ..RunOptions::default()
    };
    let one = RunOptions {
        max_lanes: 1,
        ..RunOptions::default()
    };
    let none = RunOptions::default();
    let cases: [(&str, &CpuExecutor, RunOptions<'_>, RegionSpec, InlineReason); 8] = [
        (
            "empty",
            &executor,
            none,
            RegionSpec::new(0, 1),
            InlineReason::BelowThreshold,
        ),
        (
            "one chunk",
            &executor,
            none,
            RegionSpec::new(10, 10),
            InlineReason::BelowThreshold,
        ),
        (
            "below the minimum",
            &executor,
            none,
            RegionSpec {
                minimum_total: 101,
                ..spec
            },
            InlineReason::BelowThreshold,
        ),
        (
            "one participant",
            &executor,
            none,
            RegionSpec {
                max_participants: 1,
                ..spec
            },
            InlineReason::Limit,
        ),
        (
            "one lane in the run",
            &executor,
            one,
            spec,
            InlineReason::Limit,
        ),
        (
            "one lane in the executor",
            &alone,
            none,
            spec,
            InlineReason::Limit,
        ),
        (
            "dear lanes",
            &executor,
            costs,
            RegionSpec {
                serial_ns: 1000,
                ..spec
            },
            InlineReason::Cost,
        ),
        (
            "lanes as dear as the work",
            &executor,
            costs,
            RegionSpec {
                serial_ns: 1_499_999,
                ..spec
            },
            InlineReason::Cost,
        ),
    ];
    for (name, executor, options, spec, reason) in cases {
        let events = record_with(executor, options, |lanes| check_region(lanes, spec));
        assert_eq!(events.len(), 1, "{name}");
        assert_eq!(events[0].inline_reason, Some(reason), "{name}");
        assert_eq!(events[0].admitted, 1, "{name}");
        assert_eq!(events[0].participants, u32::from(spec.total > 0), "{name}");
    }
    let worth_it = RegionSpec {
        serial_ns: 1_500_001,
        ..spec
    };
    let events = record_with(&executor, costs, |lanes| check_region(lanes, worth_it));
    assert_eq!((events[0].inline_reason, events[0].admitted), (None, 3));
}

#[test]
fn lanes_are_used_awake_and_left_asleep_when_waking_costs_more_than_it_saves() {
    let options = RunOptions {
        hot_ns: 1.0,
        cold_ns: 1e9,
        ..RunOptions::default()
    };
    let spec = RegionSpec {
        serial_ns: 1000,
        ..RegionSpec::new(10, 1)
    };
    let spinning = CpuExecutor::with_wait_mode(3, WaitMode::Latency);
    let events = record_with(&spinning, options, |lanes| check_region(lanes, spec));
    assert_eq!((events[0].inline_reason, events[0].admitted), (None, 3));

    let sleeping = CpuExecutor::with_wait_mode(3, WaitMode::Frugal);
    let give_up = Instant::now() + Duration::from_secs(60);
    loop {
        // Lanes that have not fallen asleep yet are invited; soon there are none.
        let events = record_with(&sleeping, options, |lanes| check_region(lanes, spec));
        if events[0].inline_reason == Some(InlineReason::Cost) {
            break;
        }
        assert!(Instant::now() < give_up, "frugal lanes never sleep");
        std::thread::yield_now();
    }
}

#[test]
fn nested_regions_run_inline_on_the_lane_of_their_chunk() {
    let executor = CpuExecutor::with_lanes(3);
    let other = CpuExecutor::with_lanes(2);
    let mut events = record(&executor, |lanes| {
        let meeting = Barrier::new(3);
        lanes
            .region(&SITE, RegionSpec::new(3, 1), |outer| {
                meeting.wait();
                lanes
                    .region(&INNER, RegionSpec::new(50, 1), |inner| {
                        assert_eq!(inner.lane, outer.lane);
                    })
                    .unwrap();
                let thread = std::thread::current().id();
                let run = other.enter();
                run.lanes()
                    .region(&INNER, RegionSpec::new(50, 1), |inner| {
                        assert_eq!((inner.lane, std::thread::current().id()), (0, thread));
                    })
                    .unwrap();
                Lanes::serial()
                    .region(&INNER, RegionSpec::new(2, 1), |inner| {
                        assert_eq!(inner.lane, 0);
                    })
                    .unwrap();
            })
            .unwrap();
        // The scope is left again: the next region is parallel.
        lanes
            .region(&SITE, RegionSpec::new(3, 1), |_| {
                meeting.wait();
            })
            .unwrap();
    });
    events.sort_by_key(|event| event.region);
    let outer = events[0].region;
    assert_eq!(events.len(), 5);
    assert_eq!((events[0].inline_reason, events[0].parent), (None, None));
    let mut openers = Vec::new();
    for nested in &events[1..4] {
        assert_eq!(nested.inline_reason, Some(InlineReason::Nested));
        assert_eq!((nested.parent, nested.site), (Some(outer), &INNER));
        openers.push(nested.opener);
    }
    openers.sort_unstable();
    assert_eq!(openers, [0, 1, 2]);
    assert_eq!((events[4].parent, events[4].participants), (None, 3));
}

#[test]
fn a_panic_is_an_error_that_names_node_and_lane() {
    let executor = CpuExecutor::with_lanes(3);
    let run = executor.enter();
    let lanes = run.lanes().for_node(4);
    for victim in 0..3 {
        let meeting = Barrier::new(3);
        let error = lanes
            .region(&SITE, RegionSpec::new(1000, 1), |chunk| {
                if chunk.index < 3 {
                    meeting.wait();
                    assert!(chunk.lane != victim, "lane {victim} stumbles");
                }
            })
            .unwrap_err();
        assert_eq!(
            error,
            RegionError::Panicked {
                node: Some(4),
                lane: victim,
                site: "test.region",
                message: format!("lane {victim} stumbles"),
            }
        );
        assert_eq!(
            error.to_string(),
            format!(
                "lane {victim} panicked in region 'test.region' of node 4: lane {victim} stumbles"
            )
        );
        check_region(lanes, RegionSpec::new(100, 3));
    }
}

#[test]
fn panics_of_every_kind_leave_the_executor_usable() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("payload panics when dropped");
            }
        }
    }
    let executor = CpuExecutor::with_lanes(2);
    let run = executor.enter();
    for spec in [RegionSpec::new(100, 1), RegionSpec::new(1, 1)] {
        let everybody = run.lanes().region(&SITE, spec, |_| panic!("all fail"));
        let Err(RegionError::Panicked { message, .. }) = everybody else {
            panic!("a panic is an error")
        };
        assert_eq!(message, "all fail");
        // Both lanes panic at once where there are chunks for both, so one payload is dropped unkept.
        let meeting = Barrier::new(spec.total.min(2));
        let strange = run.lanes().region(&SITE, spec, |_| {
            meeting.wait();
            std::panic::panic_any(Bomb)
        });
        let Err(RegionError::Panicked { message, .. }) = strange else {
            panic!("a panic is an error")
        };
        assert_eq!(message, "panic without a message");
        check_region(run.lanes(), RegionSpec::new(100, 1));
    }
}

#[test]
fn concurrent_runs_share_the_lanes() {
    let executor = CpuExecutor::with_lanes(5);
    let (first, second) = (executor.enter(), executor.enter());
    assert_eq!((first.lanes().count(), second.lanes().count()), (5, 1));
    let events = record(&executor, |lanes| {
        check_region(lanes, RegionSpec::new(10, 1))
    });
    assert_eq!(events[0].inline_reason, Some(InlineReason::NoLane));
    drop(first);
    let two = RunOptions {
        max_lanes: 3,
        ..RunOptions::default()
    };
    let third = executor.enter_with(two).unwrap();
    let fourth = executor.enter();
    assert_eq!((third.lanes().count(), fourth.lanes().count()), (3, 3));
    drop((second, third, fourth));

    std::thread::scope(|scope| {
        for caller in 0..4 {
            let executor = &executor;
            scope.spawn(move || {
                for round in 0..300 {
                    let run = executor
                        .enter_with(RunOptions {
                            max_lanes: 1 + (round + caller) % 5,
                            expects_regions: round % 7 == 0,
                            ..RunOptions::default()
                        })
                        .unwrap();
                    for total in [1, 17, 64] {
                        check_region(run.lanes(), RegionSpec::new(total, 1));
                    }
                }
            });
        }
    });
}

#[test]
fn one_run_used_from_two_threads_stays_whole() {
    let executor = CpuExecutor::with_lanes(3);
    let run = executor.enter();
    let lanes = run.lanes();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for total in 0..500 {
                    check_region(lanes, RegionSpec::new(total, 5));
                }
            });
        }
    });
}

#[test]
fn storms_of_tiny_regions_finish_in_every_mode() {
    for (mode, lanes, regions) in [
        (WaitMode::Latency, 2, 100_000),
        (WaitMode::Balanced, 2, 100_000),
        (WaitMode::Frugal, 2, 20_000),
        (WaitMode::Fixed(Duration::from_micros(1)), 2, 20_000),
        (WaitMode::Balanced, 7, 5_000),
        (WaitMode::Latency, 7, 5_000),
        (WaitMode::Frugal, 7, 2_000),
    ] {
        let executor = CpuExecutor::with_wait_mode(lanes, mode);
        let run = executor.enter();
        let sum = AtomicUsize::new(0);
        for _ in 0..regions {
            run.lanes()
                .region(&SITE, RegionSpec::new(4, 1), |chunk| {
                    sum.fetch_add(chunk.index + 1, Ordering::Relaxed);
                })
                .unwrap();
        }
        assert_eq!(sum.into_inner(), regions * 10, "{mode:?} on {lanes} lanes");
    }
}

#[test]
fn a_lane_that_does_not_come_costs_nothing() {
    // The worker sits in a chunk of its own choice until the caller has finished everything else.
    let executor = CpuExecutor::with_lanes(2);
    let run = executor.enter();
    let done = AtomicUsize::new(0);
    run.lanes()
        .region(&SITE, RegionSpec::new(100, 1), |chunk| {
            if chunk.lane == 1 {
                while done.load(Ordering::Relaxed) < 99 {
                    std::thread::yield_now();
                }
            } else {
                done.fetch_add(1, Ordering::Relaxed);
                // One lane alone reaches 100 when the worker never comes.
            }
        })
        .unwrap();
    assert!(done.into_inner() >= 99);
}

#[test]
fn dropping_an_executor_ends_its_threads() {
    for mode in MODES {
        let executor = CpuExecutor::with_wait_mode(4, mode);
        let held = Arc::new(());
        let run = executor.enter();
        let kept = Arc::clone(&held);
        run.lanes()
            .region(&SITE, RegionSpec::new(8, 1), move |_| {
                let _ = Arc::strong_count(&kept);
            })
            .unwrap();
        drop(run);
        drop(executor); // joins; a worker that did not end would hang the test
        assert_eq!(Arc::strong_count(&held), 1);
    }
}

#[test]
fn first_error_is_the_serial_one_on_any_number_of_lanes() {
    for lanes in [1, 2, 3, 7] {
        let executor = CpuExecutor::with_lanes(lanes);
        let run = executor.enter();
        for first in [0usize, 1, 500, 999] {
            let errors = FirstError::new();
            run.lanes()
                .region(&SITE, RegionSpec::new(1000, 7), |chunk| {
                    for unit in chunk.range {
                        if unit >= first && (unit - first) % 3 == 0 {
                            errors.record(unit, unit);
                            break;
                        }
                    }
                })
                .unwrap();
            assert_eq!(errors.into_result(), Err(first), "{lanes} lanes");
        }
    }
}

#[test]
fn several_runs_record_into_one_collector() {
    let executor = CpuExecutor::with_lanes(3);
    let collector = Collector::new(100);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let run = executor
                    .enter_with(RunOptions {
                        collector: Some(&collector),
                        ..RunOptions::default()
                    })
                    .unwrap();
                for _ in 0..50 {
                    check_region(run.lanes(), RegionSpec::new(20, 1));
                }
            });
        }
    });
    assert_eq!((collector.len(), collector.dropped().regions), (100, 100));
    let events = collector.drain().regions;
    let regions: std::collections::BTreeSet<u64> = events.iter().map(|e| e.region).collect();
    assert_eq!(regions.len(), 100);
    assert!(events.iter().all(|e| (1..=4).contains(&e.run)));
}

#[test]
fn a_caller_that_waits_long_for_its_lanes_is_woken_by_the_last_of_them() {
    for mode in MODES {
        // More lanes than processors never sleep in a region.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let executor = CpuExecutor::with_wait_mode(processors.min(4), mode);
        let run = executor.enter();
        for region in 0..400u64 {
            let done = AtomicUsize::new(0);
            run.lanes()
                .region(&SITE, RegionSpec::new(12, 1), |chunk| {
                    if chunk.lane != 0 {
                        // Around the time after which the caller sleeps.
                        let end = Instant::now() + Duration::from_micros(10 + region % 80);
                        while Instant::now() < end {
                            std::hint::spin_loop();
                        }
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                })
                .unwrap();
            assert_eq!(done.load(Ordering::Relaxed), 12, "{mode:?}");
        }
        for _ in 0..5 {
            run.lanes()
                .region(&SITE, RegionSpec::new(12, 1), |chunk| {
                    if chunk.lane != 0 {
                        std::thread::sleep(Duration::from_millis(2));
                    }
                })
                .unwrap();
        }
    }
}
