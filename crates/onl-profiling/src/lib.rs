//! What runs, nodes and parallel regions did: sites, events, the bounded collector that keeps them, and hardware counters.
//!
//! A run without a collector costs a region one predictable branch. With one, every run leaves a [`RunEvent`], every
//! node a [`NodeEvent`], and every region a [`ParallelRegionEvent`] with a [`LaneSample`] of each participant; the
//! collector holds a fixed number of them, allocated at its creation, and counts what it had to drop.

mod clock;
mod collector;
mod counters;
mod event;
mod site;
mod summary;
mod trace;

pub use clock::{TickRate, Ticks, process_cpu_ns};
pub use collector::{
    Collector, CollectorOptions, LaneRecord, ProfilingLevel, RegionRecord, RunRecord,
};
pub use counters::{COUNTERS, CounterReading, CounterSample, CounterSet, CounterStatus};
pub use event::{
    Dropped, Events, InlineReason, LaneSample, NodeEvent, ParallelRegionEvent, ProcessCpu, RunEvent,
};
pub use site::RegionSite;
pub use summary::{
    NodeSummary, OperatorSummary, ProcessCpuSummary, RegionSummary, Spread, Summary,
};
pub use trace::Trace;
