use crate::clock::{TickRate, Ticks};
use crate::event::{
    Dropped, Events, LaneSample, NodeEvent, ParallelRegionEvent, ProcessCpu, RunEvent,
};
use crate::{CounterReading, CounterSample, CounterSet, CounterStatus, InlineReason, RegionSite};
use crossbeam::queue::ArrayQueue;
use crossbeam::utils::CachePadded;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// How much a run records.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum ProfilingLevel {
    /// Nothing, and no clock is read.
    #[default]
    Off,
    /// One event per run, node and region, with times.
    Timing,
    /// As `Timing`, and every lane reads its counters before and after its part of a region.
    Counters,
}

/// Lanes with a buffer of their own; higher ones share these.
const MAX_LANE_BUFFERS: usize = 64;

/// What a [`Collector`] is made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectorOptions {
    /// How much is recorded.
    pub level: ProfilingLevel,
    /// What lanes count at level [`ProfilingLevel::Counters`].
    pub counters: CounterSet,
    /// Regions held at a time, and samples held for each lane; at least 1.
    pub regions: usize,
    /// Nodes, and runs, held at a time; at least 1.
    pub nodes: usize,
    /// Lanes that are given buffers of their own, 0 for one per processor that the process may use.
    pub lanes: usize,
}

impl Default for CollectorOptions {
    /// Level `Timing` with room for 65 536 regions and as many nodes.
    fn default() -> Self {
        CollectorOptions {
            level: ProfilingLevel::Timing,
            counters: CounterSet::Hardware,
            regions: 1 << 16,
            nodes: 1 << 16,
            lanes: 0,
        }
    }
}

/// A bounded store of events. Runs on any threads record into it at once; recording neither allocates nor takes a lock.
/// Each lane writes its samples to a buffer of its own; what finds a buffer full is dropped and counted.
#[derive(Debug)]
pub struct Collector {
    options: CollectorOptions,
    created: Ticks,
    runs: Buffer<RunRecord>,
    nodes: Buffer<NodeRecord>,
    regions: Buffer<RegionRecord>,
    lanes: Box<[CachePadded<LaneBuffers>]>,
    /// Samples that were taken out before the event of their region was there.
    early: Mutex<Early>,
    /// Counted by callers, apart from what lanes read.
    last_region: CachePadded<AtomicU64>,
    last_run: CachePadded<AtomicU64>,
}

/// What one lane writes. Samples are small and apart from counts, so that lanes that do not count write little.
#[derive(Debug)]
struct LaneBuffers {
    samples: Buffer<LaneRecord>,
    /// Holds one element only at levels without counters.
    counts: Buffer<CountRecord>,
}

#[derive(Debug, Default)]
struct Early {
    samples: Vec<LaneRecord>,
    counts: Vec<CountRecord>,
}

#[derive(Debug)]
struct Buffer<T> {
    records: ArrayQueue<T>,
    dropped: AtomicU64,
}

impl<T> Buffer<T> {
    fn new(capacity: usize) -> Self {
        Buffer {
            records: ArrayQueue::new(capacity.max(1)),
            dropped: AtomicU64::new(0),
        }
    }

    #[inline]
    fn push(&self, record: T) {
        if self.records.push(record).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes out what is held now.
    fn drain(&self) -> Vec<T> {
        let mut drained = Vec::with_capacity(self.records.len());
        while drained.len() < self.records.capacity()
            && let Some(record) = self.records.pop()
        {
            drained.push(record);
        }
        drained
    }

    fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// A finished region, as its opener records it. Fields as in [`ParallelRegionEvent`].
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct RegionRecord {
    pub region: u64,
    pub parent: Option<u64>,
    pub run: u64,
    pub node: Option<u32>,
    pub opener: u32,
    pub executor: u64,
    pub site: &'static RegionSite,
    pub path: &'static str,
    pub tiles: u64,
    pub total: u64,
    pub grain: u64,
    pub requested: u32,
    pub admitted: u32,
    pub participants: u32,
    pub inline_reason: Option<InlineReason>,
    pub opened: Ticks,
    /// When the opener had no more chunks.
    pub exhausted: Ticks,
    pub ended: Ticks,
}

/// A lane's part of a region, as the lane records it. Fields as in [`LaneSample`].
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct LaneRecord {
    pub region: u64,
    pub lane: u32,
    /// Saturates.
    pub chunks: u32,
    pub started: Ticks,
    pub ended: Ticks,
}

#[derive(Debug, Clone, Copy)]
struct CountRecord {
    region: u64,
    lane: u32,
    counters: CounterSample,
}

#[derive(Debug, Clone, Copy)]
struct NodeRecord {
    run: u64,
    node: u32,
    started: Ticks,
    ended: Ticks,
}

/// A finished run, as its executor records it. Fields as in [`RunEvent`].
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct RunRecord {
    pub run: u64,
    pub executor: u64,
    pub lanes: u32,
    pub entered: Ticks,
    pub left: Ticks,
    pub process_cpu: ProcessCpu,
}

impl Collector {
    /// A collector at level [`ProfilingLevel::Timing`] that holds `capacity` regions, at least 1, and as many nodes.
    pub fn new(capacity: usize) -> Self {
        Collector::with_options(CollectorOptions {
            regions: capacity,
            nodes: capacity,
            ..CollectorOptions::default()
        })
    }

    /// A collector with its buffers; nothing is allocated later on.
    pub fn with_options(options: CollectorOptions) -> Self {
        let lanes = match options.lanes {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            lanes => lanes,
        };
        Collector {
            options,
            created: Ticks::now(),
            runs: Buffer::new(options.nodes),
            nodes: Buffer::new(options.nodes),
            regions: Buffer::new(options.regions),
            lanes: (0..lanes.min(MAX_LANE_BUFFERS))
                .map(|_| {
                    CachePadded::new(LaneBuffers {
                        samples: Buffer::new(options.regions),
                        counts: Buffer::new(match options.level {
                            ProfilingLevel::Counters => options.regions,
                            ProfilingLevel::Off | ProfilingLevel::Timing => 1,
                        }),
                    })
                })
                .collect(),
            early: Mutex::new(Early::default()),
            last_region: CachePadded::new(AtomicU64::new(0)),
            last_run: CachePadded::new(AtomicU64::new(0)),
        }
    }

    /// How much is recorded.
    pub fn level(&self) -> ProfilingLevel {
        self.options.level
    }

    /// What lanes count at level [`ProfilingLevel::Counters`].
    pub fn counter_set(&self) -> CounterSet {
        self.options.counters
    }

    /// Most regions held at a time.
    pub fn capacity(&self) -> usize {
        self.regions.records.capacity()
    }

    /// Regions held now.
    pub fn len(&self) -> usize {
        self.regions.records.len()
    }

    /// Whether no region is held.
    pub fn is_empty(&self) -> bool {
        self.regions.records.is_empty()
    }

    /// A new region number, from 1.
    pub fn next_region(&self) -> u64 {
        self.last_region.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A new run number, from 1.
    pub fn next_run(&self) -> u64 {
        self.last_run.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The counters of the calling thread, when this collector's level asks for them.
    #[inline]
    pub fn read_counters(&self) -> Option<CounterReading> {
        (self.options.level == ProfilingLevel::Counters)
            .then(|| CounterReading::of_this_thread(self.options.counters))
    }

    /// Keeps a region.
    #[inline]
    pub fn record_region(&self, record: RegionRecord) {
        self.regions.push(record);
    }

    /// Keeps a lane's part of a region, and what the calling thread counted since its reading before; comes before the
    /// region's own record.
    #[inline]
    pub fn record_lane(&self, record: LaneRecord, before: Option<&CounterReading>) {
        let buffers = &self.lanes[record.lane as usize % self.lanes.len()];
        if let Some(before) = before {
            buffers.counts.push(CountRecord {
                region: record.region,
                lane: record.lane,
                counters: CounterReading::of_this_thread(self.options.counters).since(before),
            });
        }
        buffers.samples.push(record);
    }

    /// Keeps a node that was called at `started` and returns now.
    #[inline]
    pub fn record_node(&self, run: u64, node: u32, started: Ticks) {
        self.nodes.push(NodeRecord {
            run,
            node,
            started,
            ended: Ticks::now(),
        });
    }

    /// Keeps a run.
    pub fn record_run(&self, record: RunRecord) {
        self.runs.push(record);
    }

    /// Events that found their buffer full since the collector's creation.
    pub fn dropped(&self) -> Dropped {
        Dropped {
            runs: self.runs.dropped(),
            nodes: self.nodes.dropped(),
            regions: self.regions.dropped(),
            lane_samples: self
                .lanes
                .iter()
                .map(|lane| lane.samples.dropped() + lane.counts.dropped())
                .sum(),
        }
    }

    /// Takes out the events held now.
    pub fn drain(&self) -> Events {
        let rate = TickRate::measure();
        let at = |point: Ticks| rate.nanoseconds(point.since(self.created));
        let between = |from: Ticks, to: Ticks| rate.nanoseconds(to.since(from));
        let uncounted = CounterSample::without(match self.options.level {
            ProfilingLevel::Counters => CounterStatus::Partial,
            ProfilingLevel::Off | ProfilingLevel::Timing => CounterStatus::Disabled,
        });
        let regions = self.regions.drain();
        let mut samples = self.drain_samples(regions.iter().map(|record| record.region));
        let regions = regions
            .into_iter()
            .map(|record| {
                let mut lanes: Vec<LaneSample> = samples
                    .remove(&record.region)
                    .unwrap_or_default()
                    .iter()
                    .map(|(sample, counters)| LaneSample {
                        lane: sample.lane,
                        chunks: u64::from(sample.chunks),
                        start_ns: at(sample.started),
                        busy_ns: between(sample.started, sample.ended),
                        counters: counters.unwrap_or(uncounted),
                    })
                    .collect();
                lanes.sort_unstable_by_key(|sample| sample.lane);
                ParallelRegionEvent {
                    region: record.region,
                    parent: record.parent,
                    run: record.run,
                    node: record.node,
                    opener: record.opener,
                    executor: record.executor,
                    site: record.site,
                    path: record.path,
                    tiles: record.tiles,
                    total: record.total,
                    grain: record.grain,
                    requested: record.requested,
                    admitted: record.admitted,
                    participants: record.participants,
                    inline_reason: record.inline_reason,
                    start_ns: at(record.opened),
                    wall_ns: between(record.opened, record.ended),
                    wait_ns: between(record.exhausted, record.ended),
                    lanes,
                }
            })
            .collect();
        let nodes = self.nodes.drain().into_iter().map(|record| NodeEvent {
            run: record.run,
            node: record.node,
            start_ns: at(record.started),
            wall_ns: between(record.started, record.ended),
        });
        let runs = self.runs.drain().into_iter().map(|record| RunEvent {
            run: record.run,
            executor: record.executor,
            lanes: record.lanes,
            start_ns: at(record.entered),
            wall_ns: between(record.entered, record.left),
            process_cpu: record.process_cpu,
        });
        Events {
            runs: runs.collect(),
            nodes: nodes.collect(),
            regions,
        }
    }

    /// Takes out the samples of these regions. Others are kept for a later call, as many as the buffers hold.
    fn drain_samples(
        &self,
        regions: impl Iterator<Item = u64>,
    ) -> HashMap<u64, Vec<(LaneRecord, Option<CounterSample>)>> {
        let mut wanted: HashMap<u64, Vec<_>> = regions.map(|region| (region, Vec::new())).collect();
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        let Early { samples, counts } = std::mem::take(&mut *early);
        let samples = samples
            .into_iter()
            .chain(self.lanes.iter().flat_map(|lane| lane.samples.drain()));
        for record in samples {
            match wanted.get_mut(&record.region) {
                Some(samples) => samples.push((record, None)),
                None => early.samples.push(record),
            }
        }
        let counts = counts
            .into_iter()
            .chain(self.lanes.iter().flat_map(|lane| lane.counts.drain()));
        for record in counts {
            match wanted.get_mut(&record.region) {
                Some(samples) => {
                    let of_lane = samples.iter_mut().find(|(s, _)| s.lane == record.lane);
                    if let Some((_, counters)) = of_lane {
                        *counters = Some(record.counters);
                    }
                }
                None => early.counts.push(record),
            }
        }
        // What is older than the buffers belongs to regions that were dropped.
        let most = self.capacity() * self.lanes.len();
        let excess = early.samples.len().saturating_sub(most);
        early.samples.drain(..excess);
        let excess = early.counts.len().saturating_sub(most);
        early.counts.drain(..excess);
        wanted
    }
}
