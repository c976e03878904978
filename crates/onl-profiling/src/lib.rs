//! What a parallel region did: sites, events, and the bounded collector that keeps them.
//!
//! A run without a collector costs a region one predictable branch. With one, every region leaves a
//! [`ParallelRegionEvent`]; the collector holds a fixed number of them, allocated at its creation, and counts what it
//! had to drop.

mod collector;
mod counters;
mod event;
mod site;

pub use collector::{Collector, ProfilingLevel};
pub use counters::{COUNTERS, CounterReading, CounterSample, CounterSet, CounterStatus};
pub use event::{InlineReason, LaneBusy, ParallelRegionEvent, RECORDED_LANES};
pub use site::RegionSite;
