//! Events as an executor would record them, made by hand.

use onl_profiling::{
    CounterSample, CounterStatus, InlineReason, LaneSample, NodeEvent, ParallelRegionEvent,
    ProcessCpu, RegionSite, RunEvent, region_site,
};

pub static SITE: RegionSite = region_site!("test.region");

pub fn run(run: u64, start_ns: u64, wall_ns: u64) -> RunEvent {
    RunEvent {
        run,
        executor: 1,
        lanes: 2,
        start_ns,
        wall_ns,
        process_cpu: ProcessCpu::Valid(2 * wall_ns),
    }
}

pub fn node(run: u64, node: u32, start_ns: u64, wall_ns: u64) -> NodeEvent {
    NodeEvent {
        run,
        node,
        start_ns,
        wall_ns,
    }
}

pub fn lane(lane: u32, start_ns: u64, busy_ns: u64) -> LaneSample {
    LaneSample {
        lane,
        chunks: 3,
        start_ns,
        busy_ns,
        counters: CounterSample::without(CounterStatus::Unsupported),
    }
}

/// A region of two lanes that were both invited; without samples it ran inline on one.
pub fn region(
    run: u64,
    region: u64,
    node: u32,
    start_ns: u64,
    wall_ns: u64,
    lanes: &[LaneSample],
) -> ParallelRegionEvent {
    let inline = lanes.len() < 2;
    ParallelRegionEvent {
        region,
        parent: None,
        run,
        node: Some(node),
        opener: 0,
        executor: 1,
        site: &SITE,
        path: "",
        tiles: 0,
        total: 100,
        grain: 10,
        requested: 2,
        admitted: if inline { 1 } else { 2 },
        participants: lanes.len() as u32,
        inline_reason: inline.then_some(InlineReason::BelowThreshold),
        start_ns,
        wall_ns,
        wait_ns: 5,
        lanes: lanes.to_vec(),
    }
}
