use crate::ParallelRegionEvent;
use crossbeam::queue::ArrayQueue;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};

/// How much a run records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProfilingLevel {
    /// Nothing, and no clock is read.
    #[default]
    Off,
    /// One event per region, with times.
    Timing,
}

/// A bounded store of region events. Runs on any threads record into it at once; recording neither allocates nor
/// takes a lock.
#[derive(Debug)]
pub struct Collector {
    level: ProfilingLevel,
    events: ArrayQueue<ParallelRegionEvent>,
    dropped: AtomicU64,
    regions: AtomicU64,
    runs: AtomicU64,
}

impl Collector {
    /// A collector at level [`ProfilingLevel::Timing`] that holds `capacity` events, at least 1.
    pub fn new(capacity: usize) -> Self {
        Collector::with_level(ProfilingLevel::Timing, capacity)
    }

    /// A collector at the given level that holds `capacity` events, at least 1.
    pub fn with_level(level: ProfilingLevel, capacity: usize) -> Self {
        Collector {
            level,
            events: ArrayQueue::new(capacity.max(1)),
            dropped: AtomicU64::new(0),
            regions: AtomicU64::new(0),
            runs: AtomicU64::new(0),
        }
    }

    /// How much is recorded.
    pub fn level(&self) -> ProfilingLevel {
        self.level
    }

    /// Most events held at a time.
    pub fn capacity(&self) -> usize {
        self.events.capacity()
    }

    /// Events held now.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether no event is held.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// A new region number, from 1.
    pub fn next_region(&self) -> u64 {
        self.regions.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A new run number, from 1.
    pub fn next_run(&self) -> u64 {
        self.runs.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Keeps an event, or counts it as dropped when the collector is full. Level `Off` ignores it.
    pub fn record(&self, event: ParallelRegionEvent) {
        if self.level == ProfilingLevel::Off {
            return;
        }
        if self.events.push(event).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Events that found the collector full since its creation.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Takes out the events held now, in the order of recording.
    pub fn drain(&self) -> Vec<ParallelRegionEvent> {
        let mut drained = Vec::with_capacity(self.events.len());
        while drained.len() < self.events.capacity()
            && let Some(event) = self.events.pop()
        {
            drained.push(event);
        }
        drained
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{InlineReason, LaneBusy, RegionSite, region_site};

    static SITE: RegionSite = region_site!("test.collector");

    fn event(region: u64) -> ParallelRegionEvent {
        ParallelRegionEvent {
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
            participants: 2,
            inline_reason: None,
            wait_ns: 0,
            wall_ns: 100,
            busy: LaneBusy::none(),
        }
    }

    #[test]
    fn full_collector_counts_what_it_drops() {
        let collector = Collector::new(3);
        for region in 0..5 {
            collector.record(event(region));
        }
        assert_eq!((collector.len(), collector.dropped()), (3, 2));
        let regions: Vec<u64> = collector.drain().iter().map(|e| e.region).collect();
        assert_eq!(regions, [0, 1, 2]);
        collector.record(event(9));
        assert_eq!((collector.len(), collector.dropped()), (1, 2));
    }

    #[test]
    fn collector_at_level_off_keeps_nothing() {
        let collector = Collector::with_level(ProfilingLevel::Off, 3);
        collector.record(event(1));
        assert_eq!((collector.len(), collector.dropped()), (0, 0));
    }

    #[test]
    fn utilization_is_busy_time_over_wall_times_admitted() {
        let mut event = event(1);
        event.busy.add(0, 100);
        event.busy.add(1, 50);
        assert_eq!(event.utilization(), Some(0.75));
        event.wall_ns = 0;
        assert_eq!(event.utilization(), None);
    }

    #[test]
    fn lanes_past_the_recorded_ones_count_in_the_sum() {
        let mut busy = LaneBusy::none();
        busy.add(crate::RECORDED_LANES, 7);
        busy.add(crate::RECORDED_LANES - 1, 1);
        assert_eq!(busy.sum(), 8);
        assert_eq!(busy.lane(crate::RECORDED_LANES - 1), Some(1));
        assert_eq!(busy.lane(crate::RECORDED_LANES), None);
    }

    #[test]
    fn reasons_have_distinct_names() {
        let names: std::collections::BTreeSet<_> = InlineReason::ALL
            .iter()
            .map(|reason| reason.name())
            .collect();
        assert_eq!(names.len(), InlineReason::ALL.len());
    }
}
