//! What recorded runs leave in their collector.

use onl_executor::{CpuExecutor, RegionSpec, RunOptions};
use onl_profiling::{
    Collector, CollectorOptions, CounterStatus, ProcessCpu, ProfilingLevel, RegionSite, region_site,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

static SITE: RegionSite = region_site!("test.recording");

fn options(collector: &Collector) -> RunOptions<'_> {
    RunOptions {
        collector: Some(collector),
        ..RunOptions::default()
    }
}

fn compute(duration: Duration) {
    let start = Instant::now();
    while start.elapsed() < duration {
        std::hint::spin_loop();
    }
}

#[test]
fn chunks_of_all_lanes_add_up_and_lie_within_the_region() {
    let executor = CpuExecutor::with_lanes(3);
    let collector = Collector::new(16);
    let run = executor.enter_with(options(&collector)).unwrap();
    for chunks in [2, 7, 200] {
        run.lanes()
            .region(&SITE, RegionSpec::new(chunks, 1), |_| {
                compute(Duration::from_micros(20));
            })
            .unwrap();
    }
    for event in collector.drain().regions {
        assert!(event.is_complete(), "{event:?}");
        let chunks: u64 = event.lanes.iter().map(|sample| sample.chunks).sum();
        assert_eq!(chunks, event.total);
        for sample in &event.lanes {
            // Each time is rounded to a nanosecond.
            assert!(sample.start_ns + 1 >= event.start_ns);
            let end = event.start_ns + event.wall_ns;
            assert!(sample.start_ns + sample.busy_ns <= end + 2);
        }
        assert!(event.utilization().unwrap() > 0.0);
        let imbalance = event.imbalance().unwrap();
        assert!((1.0..=f64::from(event.admitted)).contains(&imbalance));
        assert_eq!(event.counters().status(), CounterStatus::Disabled);
    }
}

#[test]
fn a_run_alone_knows_its_processor_time_and_overlapping_runs_do_not() {
    let executor = CpuExecutor::with_lanes(1);
    // Other tests of this process enter runs too, so that it may take more than one attempt to be alone.
    let alone = (0..1_000).any(|_| {
        let collector = Collector::new(1);
        let run = executor.enter_with(options(&collector)).unwrap();
        compute(Duration::from_millis(2));
        drop(run);
        let event = collector.drain().runs[0];
        assert_eq!((event.run, event.lanes), (1, 1));
        assert!(event.wall_ns >= 2_000_000);
        event.process_cpu.nanoseconds().is_some_and(|cpu| cpu > 0)
    });
    assert!(alone);
    let collector = Collector::new(1);
    let outer = executor.enter_with(options(&collector)).unwrap();
    let inner = executor.enter_with(options(&collector)).unwrap();
    drop(inner);
    assert_eq!(
        collector.drain().runs[0].process_cpu,
        ProcessCpu::Overlapped
    );
    drop(outer);
    assert_eq!(
        collector.drain().runs[0].process_cpu,
        ProcessCpu::Overlapped
    );
}

#[test]
fn nodes_are_timed_only_in_recorded_runs() {
    let executor = CpuExecutor::with_lanes(1);
    let collector = Collector::new(4);
    let run = executor.enter_with(options(&collector)).unwrap();
    {
        let _timer = run.lanes().time_node(7);
        compute(Duration::from_millis(1));
    }
    drop(executor.enter().lanes().time_node(8));
    let nodes = collector.drain().nodes;
    assert_eq!(nodes.len(), 1);
    assert_eq!((nodes[0].node, nodes[0].run), (7, 1));
    assert!(nodes[0].wall_ns >= 1_000_000);
}

#[test]
fn a_collector_at_level_off_is_as_none() {
    let executor = CpuExecutor::with_lanes(2);
    let collector = Collector::with_options(CollectorOptions {
        level: ProfilingLevel::Off,
        ..CollectorOptions::default()
    });
    let run = executor.enter_with(options(&collector)).unwrap();
    run.lanes()
        .region(&SITE, RegionSpec::new(9, 1), |_| {})
        .unwrap();
    assert_eq!((run.number(), run.divisible_ns()), (None, 0));
    drop(run);
    assert_eq!(collector.drain(), onl_profiling::Events::default());
}

#[test]
fn divisible_time_is_that_of_regions_that_lanes_could_share() {
    let executor = CpuExecutor::with_lanes(2);
    let collector = Collector::new(8);
    let run = executor.enter_with(options(&collector)).unwrap();
    let work = |spec| {
        let done = AtomicUsize::new(0);
        let result = run.lanes().region(&SITE, spec, |_| {
            compute(Duration::from_millis(1));
            done.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(result, Ok(()));
    };
    work(RegionSpec::new(1, 1));
    work(RegionSpec {
        minimum_total: 100,
        ..RegionSpec::new(4, 1)
    });
    assert_eq!(run.divisible_ns(), 0);
    work(RegionSpec::new(4, 1));
    assert!(run.divisible_ns() >= 1_000_000);
}
