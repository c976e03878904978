//! What a collector keeps, drops and puts together.

use onl_profiling::{
    Collector, CollectorOptions, CounterSet, CounterStatus, InlineReason, LaneRecord,
    ParallelRegionEvent, ProcessCpu, ProfilingLevel, RegionRecord, RegionSite, RunRecord, Ticks,
    region_site,
};
use std::collections::BTreeSet;

static SITE: RegionSite = region_site!("test.collector");

fn region(region: u64, participants: u32) -> RegionRecord {
    let now = Ticks::now();
    RegionRecord {
        region,
        parent: None,
        run: 1,
        node: Some(3),
        opener: 0,
        executor: 1,
        site: &SITE,
        path: "",
        tiles: 0,
        total: 10,
        grain: 5,
        requested: 2,
        admitted: 2,
        participants,
        inline_reason: None,
        opened: now,
        exhausted: now,
        ended: now,
    }
}

fn lane(region: u64, lane: u32) -> LaneRecord {
    let now = Ticks::now();
    LaneRecord {
        region,
        lane,
        chunks: 1,
        started: now,
        ended: now,
    }
}

fn sampled(wall_ns: u64, busy: &[u64]) -> ParallelRegionEvent {
    let collector = Collector::new(1);
    collector.record_lane(lane(1, 0), None);
    collector.record_region(region(1, busy.len() as u32));
    let mut event = collector.drain().regions.remove(0);
    let sample = event.lanes[0];
    event.wall_ns = wall_ns;
    event.lanes = busy
        .iter()
        .map(|&busy_ns| onl_profiling::LaneSample { busy_ns, ..sample })
        .collect();
    event
}

#[test]
fn full_buffers_count_what_they_drop() {
    let collector = Collector::new(3);
    for number in 1..=5 {
        collector.record_region(region(number, 0));
        collector.record_node(1, number as u32, Ticks::now());
    }
    for _ in 0..4 {
        collector.record_lane(lane(1, 0), None);
    }
    let dropped = collector.dropped();
    assert_eq!((collector.len(), dropped.regions, dropped.nodes), (3, 2, 2));
    assert_eq!((dropped.lane_samples, dropped.runs), (1, 0));
    assert!(!dropped.is_none());
    let events = collector.drain();
    let kept: Vec<u64> = events.regions.iter().map(|e| e.region).collect();
    assert_eq!(kept, [1, 2, 3]);
    assert_eq!(events.nodes.len(), 3);
    collector.record_region(region(9, 0));
    assert_eq!((collector.len(), collector.dropped().regions), (1, 2));
}

#[test]
fn samples_find_their_region_in_lane_order_whenever_it_is_recorded() {
    let collector = Collector::with_options(CollectorOptions {
        regions: 8,
        lanes: 2,
        ..CollectorOptions::default()
    });
    for (number, of_lane) in [(2, 1), (1, 2), (1, 0), (2, 0), (1, 1)] {
        collector.record_lane(lane(number, of_lane), None);
    }
    collector.record_region(region(2, 2));
    let lanes = |event: &ParallelRegionEvent| -> Vec<u32> {
        event.lanes.iter().map(|sample| sample.lane).collect()
    };
    let first = collector.drain().regions;
    assert_eq!(first.len(), 1);
    assert_eq!(lanes(&first[0]), [0, 1]);
    collector.record_region(region(1, 3));
    let second = collector.drain().regions;
    assert_eq!(lanes(&second[0]), [0, 1, 2]);
    assert!(second[0].is_complete());
}

#[test]
fn samples_of_dropped_regions_do_not_pile_up() {
    let collector = Collector::with_options(CollectorOptions {
        regions: 2,
        lanes: 1,
        ..CollectorOptions::default()
    });
    for number in 1..1_000 {
        collector.record_lane(lane(number, 0), None);
        collector.drain();
    }
    // The last two are still waited for.
    collector.record_region(region(998, 1));
    collector.record_region(region(1, 1));
    let regions = collector.drain().regions;
    assert!(regions[0].is_complete());
    assert!(!regions[1].is_complete());
}

#[test]
fn a_missing_sample_is_no_zero() {
    // Level, samples of two participants, and the status of their counts.
    for (level, samples, expected) in [
        (ProfilingLevel::Timing, 1, CounterStatus::Disabled),
        (ProfilingLevel::Timing, 2, CounterStatus::Disabled),
        (ProfilingLevel::Counters, 1, CounterStatus::Partial),
        (ProfilingLevel::Counters, 0, CounterStatus::Partial),
    ] {
        let collector = Collector::with_options(CollectorOptions {
            level,
            regions: 4,
            lanes: 2,
            ..CollectorOptions::default()
        });
        for number in 0..samples {
            collector.record_lane(lane(1, number), collector.read_counters().as_ref());
        }
        collector.record_region(region(1, 2));
        let event = collector.drain().regions.remove(0);
        let complete = samples == 2;
        assert_eq!(event.is_complete(), complete);
        assert_eq!(event.busy_ns().is_some(), complete);
        if !complete {
            assert_eq!(event.utilization(), None);
            assert_eq!(event.imbalance(), None);
        }
        assert_eq!(event.counters().status(), expected, "{level:?}, {samples}");
    }
}

#[test]
fn counts_that_found_their_buffer_full_are_missing() {
    let collector = Collector::with_options(CollectorOptions {
        level: ProfilingLevel::Counters,
        counters: CounterSet::Software,
        regions: 2,
        lanes: 1,
        ..CollectorOptions::default()
    });
    let before = collector.read_counters();
    for number in 1..=2 {
        collector.record_lane(lane(number, 0), before.as_ref());
    }
    // A third one fits neither buffer; a region whose sample came without counts has none.
    collector.record_lane(lane(3, 0), before.as_ref());
    assert_eq!(collector.dropped().lane_samples, 2);
    collector.record_region(region(1, 1));
    let sampled = collector.drain().regions.remove(0);
    assert!(sampled.is_complete());
    assert_ne!(sampled.counters().status(), CounterStatus::Disabled);
    collector.record_lane(lane(4, 0), None);
    collector.record_region(region(4, 1));
    let uncounted = collector.drain().regions.remove(0);
    assert_eq!(uncounted.counters().status(), CounterStatus::Partial);
}

#[test]
fn utilization_is_busy_time_over_wall_times_admitted() {
    assert_eq!(sampled(100, &[100, 50]).utilization(), Some(0.75));
    assert_eq!(sampled(0, &[0, 0]).utilization(), None);
}

#[test]
fn imbalance_is_the_busiest_lane_over_the_mean_of_the_admitted() {
    assert_eq!(sampled(100, &[100, 50]).imbalance(), Some(100.0 / 75.0));
    assert_eq!(sampled(100, &[60, 60]).imbalance(), Some(1.0));
    // Two were admitted, one came.
    assert_eq!(sampled(100, &[60]).imbalance(), Some(2.0));
}

#[test]
fn times_are_nanoseconds_since_the_collector_was_made() {
    let collector = Collector::new(1);
    let entered = Ticks::now();
    std::thread::sleep(std::time::Duration::from_millis(20));
    collector.record_run(RunRecord {
        run: collector.next_run(),
        executor: 1,
        lanes: 2,
        entered,
        left: Ticks::now(),
        process_cpu: ProcessCpu::Valid(7),
    });
    let run = collector.drain().runs[0];
    assert!(run.wall_ns >= 19_000_000, "{run:?}");
    assert!(run.start_ns < 1_000_000_000, "{run:?}");
    assert_eq!((run.run, run.process_cpu.nanoseconds()), (1, Some(7)));
}

#[test]
fn counters_are_read_at_their_level_only() {
    for (level, expected) in [
        (ProfilingLevel::Off, false),
        (ProfilingLevel::Timing, false),
        (ProfilingLevel::Counters, true),
    ] {
        let collector = Collector::with_options(CollectorOptions {
            level,
            regions: 1,
            nodes: 1,
            ..CollectorOptions::default()
        });
        assert_eq!(collector.read_counters().is_some(), expected, "{level:?}");
    }
}

#[test]
fn reasons_have_distinct_names() {
    let names: BTreeSet<_> = InlineReason::ALL
        .iter()
        .map(|reason| reason.name())
        .collect();
    assert_eq!(names.len(), InlineReason::ALL.len());
}
