use crate::RegionSite;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Lanes whose busy time an event keeps one by one; the time of higher lanes is kept as a sum.
pub const RECORDED_LANES: usize = 32;

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

/// Busy nanoseconds of the lanes of one region, in a fixed amount of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LaneBusy {
    each: [u64; RECORDED_LANES],
    higher: u64,
}

impl LaneBusy {
    /// No lane was busy.
    pub const fn none() -> Self {
        LaneBusy {
            each: [0; RECORDED_LANES],
            higher: 0,
        }
    }

    /// Adds nanoseconds to a lane.
    pub fn add(&mut self, lane: usize, nanoseconds: u64) {
        match self.each.get_mut(lane) {
            Some(busy) => *busy += nanoseconds,
            None => self.higher += nanoseconds,
        }
    }

    /// Busy nanoseconds of a lane; `None` from [`RECORDED_LANES`] on, which only [`sum`](Self::sum) contains.
    pub fn lane(&self, lane: usize) -> Option<u64> {
        self.each.get(lane).copied()
    }

    /// Busy nanoseconds of all lanes.
    pub fn sum(&self) -> u64 {
        self.each.iter().sum::<u64>() + self.higher
    }
}

impl Default for LaneBusy {
    fn default() -> Self {
        LaneBusy::none()
    }
}

/// What one parallel region did. Times are nanoseconds of the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
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
    /// From the caller's last chunk until the last claimed chunk was complete.
    pub wait_ns: u64,
    /// From opening to return.
    pub wall_ns: u64,
    /// Time that each lane spent on its chunks.
    pub busy: LaneBusy,
}

impl ParallelRegionEvent {
    /// Σ lane busy time / (wall × admitted); `None` when the region was too short for the clock.
    pub fn utilization(&self) -> Option<f64> {
        let offered = self.wall_ns as f64 * f64::from(self.admitted);
        (offered > 0.0).then(|| self.busy.sum() as f64 / offered)
    }
}
