use crate::{CounterSample, CounterStatus, RegionSite};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a region ran on its caller alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InlineReason {
    /// The total lies below the kernel's threshold, or makes a single chunk.
    BelowThreshold,
    /// The region was opened inside a chunk of another one.
    Nested,
    /// Other runs held every worker lane.
    NoLane,
    /// The lane budget of the process was spent.
    Budget,
    /// The session, the run or the kernel allows one participant.
    Limit,
    /// Waking or joining lanes would have cost more than they save.
    Cost,
}

impl InlineReason {
    /// Every reason.
    pub const ALL: [InlineReason; 6] = [
        InlineReason::BelowThreshold,
        InlineReason::Nested,
        InlineReason::NoLane,
        InlineReason::Budget,
        InlineReason::Limit,
        InlineReason::Cost,
    ];

    /// Whether the region would have been divided among lanes if some had been awake and free.
    pub const fn is_want_of_lanes(self) -> bool {
        matches!(
            self,
            InlineReason::Cost | InlineReason::NoLane | InlineReason::Budget
        )
    }

    /// Name used in files and tables.
    pub const fn name(self) -> &'static str {
        match self {
            InlineReason::BelowThreshold => "below_threshold",
            InlineReason::Nested => "nested",
            InlineReason::NoLane => "no_lane",
            InlineReason::Budget => "budget",
            InlineReason::Limit => "limit",
            InlineReason::Cost => "cost",
        }
    }
}

impl fmt::Display for InlineReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What one lane did in one region. Times are nanoseconds since the collector's creation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LaneSample {
    /// Number of the lane in its run; 0 is the caller.
    pub lane: u32,
    /// Chunks that it ran.
    pub chunks: u64,
    /// When its first chunk began.
    pub start_ns: u64,
    /// From the start of its first chunk to the end of its last.
    pub busy_ns: u64,
    /// Counts of that interval.
    pub counters: CounterSample,
}

/// What one parallel region did. Times are nanoseconds since the collector's creation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ParallelRegionEvent {
    /// Number of the region, unique in its collector and never 0.
    pub region: u64,
    /// Region in one of whose chunks this one was opened.
    pub parent: Option<u64>,
    /// Number of the run, unique in its collector.
    pub run: u64,
    /// Node that was being executed, by its position in the plan.
    pub node: Option<u32>,
    /// Lane that opened the region.
    pub opener: u32,
    /// Executor that ran it, unique in its process.
    pub executor: u64,
    /// Where the region stands in the source.
    pub site: &'static RegionSite,
    /// Algorithm that the kernel chose; empty when it has only one.
    pub path: &'static str,
    /// Tiles that the kernel divided its problem into; 0 when it has none.
    pub tiles: u64,
    /// Work units.
    pub total: u64,
    /// Work units per chunk.
    pub grain: u64,
    /// Lanes that the kernel and the session allow this region.
    pub requested: u32,
    /// Lanes that were invited, the caller included.
    pub admitted: u32,
    /// Lanes that ran at least one chunk.
    pub participants: u32,
    /// Why the region ran on its caller alone, when it did.
    pub inline_reason: Option<InlineReason>,
    /// When it was opened.
    pub start_ns: u64,
    /// From opening to return.
    pub wall_ns: u64,
    /// From the opener's last chunk until the last claimed chunk was complete.
    pub wait_ns: u64,
    /// What each participant did, in the order of lanes. Samples that found their lane's buffer full are missing.
    pub lanes: Vec<LaneSample>,
}

impl ParallelRegionEvent {
    /// Whether the sample of every participant is there.
    pub fn is_complete(&self) -> bool {
        self.lanes.len() == self.participants as usize
    }

    /// Busy nanoseconds of all lanes; `None` when a lane's sample is missing.
    pub fn busy_ns(&self) -> Option<u64> {
        self.is_complete()
            .then(|| self.lanes.iter().map(|lane| lane.busy_ns).sum())
    }

    /// Σ lane busy time / (wall × admitted); `None` when the region was too short for the clock or a lane's sample is
    /// missing.
    pub fn utilization(&self) -> Option<f64> {
        let offered = self.wall_ns as f64 * f64::from(self.admitted);
        let busy = self.busy_ns()? as f64;
        (offered > 0.0).then(|| (busy / offered).min(1.0))
    }

    /// Busy time of the busiest admitted lane over the mean of all admitted lanes: 1 when they shared the work evenly,
    /// [`admitted`](Self::admitted) when one did everything. `None` as for [`utilization`](Self::utilization).
    pub fn imbalance(&self) -> Option<f64> {
        let busiest = self.lanes.iter().map(|lane| lane.busy_ns).max()? as f64;
        let mean = self.busy_ns()? as f64 / f64::from(self.admitted);
        (mean > 0.0).then(|| busiest / mean)
    }

    /// Counts of all lanes together, valid only if those of every participant are.
    pub fn counters(&self) -> CounterSample {
        let sum = CounterSample::sum(self.lanes.iter().map(|lane| lane.counters));
        let were_read = self.lanes.is_empty() || sum.status() != CounterStatus::Disabled;
        if !self.is_complete() && were_read {
            return CounterSample::without(CounterStatus::Partial);
        }
        sum
    }
}

/// One node's share of a run. Times are nanoseconds since the collector's creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct NodeEvent {
    /// Number of the run.
    pub run: u64,
    /// The node, by its position in the plan.
    pub node: u32,
    /// When its kernel was called.
    pub start_ns: u64,
    /// Until it returned.
    pub wall_ns: u64,
}

/// Processor time that a process spent during a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "status", content = "nanoseconds", rename_all = "snake_case")]
pub enum ProcessCpu {
    /// Nanoseconds of all threads of the process: lanes that work, lanes that spin, and threads that have nothing to do
    /// with the run.
    Valid(u64),
    /// Another run was active meanwhile, so the time is not this run's.
    Overlapped,
    /// The system does not tell.
    Unsupported,
}

impl ProcessCpu {
    /// Nanoseconds, when they are this run's.
    pub fn nanoseconds(self) -> Option<u64> {
        match self {
            ProcessCpu::Valid(nanoseconds) => Some(nanoseconds),
            ProcessCpu::Overlapped | ProcessCpu::Unsupported => None,
        }
    }
}

/// One run. Times are nanoseconds since the collector's creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RunEvent {
    /// Number of the run, unique in its collector and never 0.
    pub run: u64,
    /// Executor that it ran on, unique in its process.
    pub executor: u64,
    /// Lanes that the run was given, the caller included.
    pub lanes: u32,
    /// When it entered its executor.
    pub start_ns: u64,
    /// Until it left.
    pub wall_ns: u64,
    /// Processor time of the process meanwhile.
    pub process_cpu: ProcessCpu,
}

/// What a collector held.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct Events {
    /// Runs that have ended, in that order.
    pub runs: Vec<RunEvent>,
    /// Nodes that have ended, in that order.
    pub nodes: Vec<NodeEvent>,
    /// Regions that have ended, in that order.
    pub regions: Vec<ParallelRegionEvent>,
}

/// Events that found their buffer full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Default)]
pub struct Dropped {
    /// Runs.
    pub runs: u64,
    /// Nodes.
    pub nodes: u64,
    /// Regions.
    pub regions: u64,
    /// Samples of single lanes.
    pub lane_samples: u64,
}

impl Dropped {
    /// Whether everything was kept.
    pub fn is_none(&self) -> bool {
        *self == Dropped::default()
    }
}
