//! Events as a file in the Chrome trace event format, which Perfetto and `chrome://tracing` open.
//!
//! The format (Google, *Trace Event Format*): a JSON object whose `traceEvents` hold complete events (`"ph": "X"`, with
//! `ts` and `dur` in microseconds) and metadata events (`"ph": "M"`) that name tracks. The slices of a track must nest:
//! viewers drop one that overlaps another in part. Runs that overlap therefore get tracks of their own, and ends that the
//! clock's rounding moved by a nanosecond are brought back into their parents.

use crate::{
    COUNTERS, CounterSample, CounterSet, Dropped, Events, LaneSample, NodeEvent,
    ParallelRegionEvent, ProcessCpu, RunEvent,
};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::io;

/// Version of what the slices' arguments mean.
const SCHEMA: u32 = 1;
/// The only process of a trace.
const PROCESS: u32 = 1;

/// Events, ready to be written as a trace.
///
/// A run, its nodes and the regions that its caller opened are nested slices of a track `runs`; what lane `N` did is a
/// slice of a track `lane N`, and there lie the regions that were opened inside chunks of that lane. Runs that overlap use
/// further sets of tracks, `runs (2)`, `lane 0 (2)` and so on.
pub struct Trace<'e> {
    events: &'e Events,
    counters: Option<CounterSet>,
    dropped: Dropped,
    node_name: &'e dyn Fn(u32) -> Option<String>,
}

impl<'e> Trace<'e> {
    /// A trace without counts, whose nodes are called by their positions.
    pub fn new(events: &'e Events) -> Self {
        Trace {
            events,
            counters: None,
            dropped: Dropped::default(),
            node_name: &|_| None,
        }
    }

    /// Names nodes by their position in the plan.
    #[must_use]
    pub fn node_names(self, node_name: &'e dyn Fn(u32) -> Option<String>) -> Self {
        Trace { node_name, ..self }
    }

    /// Adds what lanes counted, of this set. A count that is missing is written as its status.
    #[must_use]
    pub fn counters(self, set: CounterSet) -> Self {
        Trace {
            counters: Some(set),
            ..self
        }
    }

    /// What the collector dropped; the file mentions it.
    #[must_use]
    pub fn dropped(self, dropped: Dropped) -> Self {
        Trace { dropped, ..self }
    }

    /// Writes the trace as JSON. The text is not built in memory; give a buffered writer.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(&self, writer: impl io::Write) -> io::Result<()> {
        serde_json::to_writer(writer, self).map_err(io::Error::from)
    }

    fn name_of(&self, node: u32) -> String {
        (self.node_name)(node).unwrap_or_else(|| format!("node {node}"))
    }
}

impl Serialize for Trace<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Other {
            schema: u32,
            dropped: Dropped,
        }
        let mut file = serializer.serialize_map(Some(3))?;
        file.serialize_entry("displayTimeUnit", "ns")?;
        let other = Other {
            schema: SCHEMA,
            dropped: self.dropped,
        };
        file.serialize_entry("otherData", &other)?;
        file.serialize_entry("traceEvents", &Written(self))?;
        file.end()
    }
}

/// The list of trace events.
struct Written<'e>(&'e Trace<'e>);

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let tracks = Tracks::of(self.0.events);
        let mut list = serializer.serialize_seq(None)?;
        list.serialize_element(&Metadata::process())?;
        for (position, track) in tracks.tracks.keys().enumerate() {
            let thread = position as u32 + 1;
            let name = track.name();
            list.serialize_element(&Metadata::thread(thread, "thread_name", Label::Name(name)))?;
            let order = Label::Order(thread);
            list.serialize_element(&Metadata::thread(thread, "thread_sort_index", order))?;
        }
        for (position, slices) in tracks.tracks.into_values().enumerate() {
            for slice in nested(slices) {
                list.serialize_element(&self.0.complete(&slice, position as u32 + 1))?;
            }
        }
        list.end()
    }
}

/// A place for slices, in the order in which tracks are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Track {
    /// Runs of one set do not overlap.
    set: usize,
    /// `None` is the track of runs, nodes and regions.
    lane: Option<u32>,
}

impl Track {
    fn name(self) -> String {
        let name = self
            .lane
            .map_or_else(|| "runs".to_owned(), |lane| format!("lane {lane}"));
        match self.set {
            0 => name,
            set => format!("{name} ({})", set + 1),
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Content<'e> {
    Run(&'e RunEvent),
    Node(&'e NodeEvent),
    Region(&'e ParallelRegionEvent),
    Lane(&'e ParallelRegionEvent, &'e LaneSample),
}

#[derive(Debug, Clone, Copy)]
struct Slice<'e> {
    start_ns: u64,
    end_ns: u64,
    /// Depth among the kinds of slices: of two that begin together, the lower one contains the other.
    rank: u32,
    content: Content<'e>,
}

impl<'e> Slice<'e> {
    fn new(start_ns: u64, wall_ns: u64, rank: u32, content: Content<'e>) -> Self {
        Slice {
            start_ns,
            end_ns: start_ns.saturating_add(wall_ns),
            rank,
            content,
        }
    }
}

struct Tracks<'e> {
    tracks: BTreeMap<Track, Vec<Slice<'e>>>,
}

impl<'e> Tracks<'e> {
    fn of(events: &'e Events) -> Self {
        let sets = track_sets(events);
        let set_of = |run: u64| sets.get(&run).copied().unwrap_or(0);
        let depths = Depths::of(&events.regions);
        let mut tracks: BTreeMap<Track, Vec<Slice<'e>>> = BTreeMap::new();
        let mut place = |run: u64, lane: Option<u32>, slice: Slice<'e>| {
            let set = set_of(run);
            tracks.entry(Track { set, lane }).or_default().push(slice);
        };
        for run in &events.runs {
            let slice = Slice::new(run.start_ns, run.wall_ns, 0, Content::Run(run));
            place(run.run, None, slice);
        }
        for node in &events.nodes {
            let slice = Slice::new(node.start_ns, node.wall_ns, 1, Content::Node(node));
            place(node.run, None, slice);
        }
        for region in &events.regions {
            let rank = 2 + 2 * depths.of_region(region);
            let opener = (rank > 2).then_some(region.opener);
            let slice = Slice::new(
                region.start_ns,
                region.wall_ns,
                rank,
                Content::Region(region),
            );
            place(region.run, opener, slice);
            for sample in &region.lanes {
                let content = Content::Lane(region, sample);
                let slice = Slice::new(sample.start_ns, sample.busy_ns, rank + 1, content);
                place(region.run, Some(sample.lane), slice);
            }
        }
        Tracks { tracks }
    }
}

/// How deep regions lie in chunks of others.
struct Depths {
    /// Parent and run of every region.
    parents: HashMap<u64, (Option<u64>, u64)>,
}

impl Depths {
    fn of(regions: &[ParallelRegionEvent]) -> Self {
        Depths {
            parents: regions
                .iter()
                .map(|region| (region.region, (region.parent, region.run)))
                .collect(),
        }
    }

    /// 0 for a region that lies in no chunk of its run. A parent that was not kept still counts.
    fn of_region(&self, region: &ParallelRegionEvent) -> u32 {
        let mut depth = 0;
        let mut parent = region.parent;
        while let Some(number) = parent {
            match self.parents.get(&number) {
                Some((_, run)) if *run != region.run => break,
                Some((next, _)) if (depth as usize) < self.parents.len() => parent = *next,
                _ => parent = None,
            }
            depth += 1;
        }
        depth
    }
}

/// The set of tracks of every run: the first one in which no other run is active at that time.
fn track_sets(events: &Events) -> HashMap<u64, usize> {
    // A run whose own event is missing lasts as long as its parts.
    let mut extents: HashMap<u64, (u64, u64)> = HashMap::new();
    let mut extend = |run: u64, start_ns: u64, wall_ns: u64| {
        let end_ns = start_ns.saturating_add(wall_ns);
        let extent = extents.entry(run).or_insert((start_ns, end_ns));
        *extent = (extent.0.min(start_ns), extent.1.max(end_ns));
    };
    for run in &events.runs {
        extend(run.run, run.start_ns, run.wall_ns);
    }
    for node in &events.nodes {
        extend(node.run, node.start_ns, node.wall_ns);
    }
    for region in &events.regions {
        extend(region.run, region.start_ns, region.wall_ns);
        for sample in &region.lanes {
            extend(region.run, sample.start_ns, sample.busy_ns);
        }
    }
    let mut runs: Vec<(u64, u64, u64)> = extents
        .into_iter()
        .map(|(run, (start, end))| (start, end, run))
        .collect();
    runs.sort_unstable();
    let mut ends: Vec<u64> = Vec::new();
    let mut sets = HashMap::new();
    for (start, end, run) in runs {
        let set = match ends.iter().position(|&busy_until| busy_until <= start) {
            Some(set) => set,
            None => {
                ends.push(0);
                ends.len() - 1
            }
        };
        ends[set] = end;
        sets.insert(run, set);
    }
    sets
}

/// Slices in the order in which they begin, parents first, each within its parent and after the one before. Only rounding
/// is corrected where the events are of one clock.
fn nested(mut slices: Vec<Slice<'_>>) -> Vec<Slice<'_>> {
    slices.sort_by_key(|slice| (slice.start_ns, slice.rank, Reverse(slice.end_ns)));
    // Ends and ranks of the open slices.
    let mut open: Vec<(u64, u32)> = Vec::new();
    let mut latest_start = 0;
    for slice in &mut slices {
        // A slice that was moved behind its predecessor moves those that began with it.
        slice.start_ns = slice.start_ns.max(latest_start);
        while let Some(&(end, rank)) = open.last() {
            let shared = end.saturating_sub(slice.start_ns);
            let beyond = slice.end_ns.saturating_sub(end);
            let precedes = rank > slice.rank || shared <= beyond;
            if shared > 0 && !(beyond > 0 && precedes) {
                break;
            }
            open.pop();
            slice.start_ns = slice.start_ns.max(end);
        }
        latest_start = slice.start_ns;
        let limit = open.last().map_or(u64::MAX, |&(end, _)| end);
        slice.end_ns = slice.end_ns.clamp(slice.start_ns.min(limit), limit);
        open.push((slice.end_ns, slice.rank));
    }
    slices
}

/// Microseconds that viewers read back as the given nanoseconds. They multiply by a thousand and cut, so a value that is
/// too small by one unit in the last place would lose a nanosecond; a picosecond more (or a few such units) prevents it.
fn microseconds(nanoseconds: u64) -> f64 {
    let quotient = nanoseconds as f64 / 1000.0;
    quotient + (quotient * 4.0 * f64::EPSILON).max(1e-6)
}

#[derive(Serialize)]
struct Metadata {
    name: &'static str,
    ph: &'static str,
    pid: u32,
    tid: u32,
    args: Label,
}

#[derive(Serialize)]
enum Label {
    #[serde(rename = "name")]
    Name(String),
    #[serde(rename = "sort_index")]
    Order(u32),
}

impl Metadata {
    fn process() -> Self {
        Metadata {
            tid: 0,
            ..Metadata::thread(0, "process_name", Label::Name("onl".to_owned()))
        }
    }

    fn thread(tid: u32, name: &'static str, args: Label) -> Self {
        Metadata {
            name,
            ph: "M",
            pid: PROCESS,
            tid,
            args,
        }
    }
}

#[derive(Serialize)]
struct Complete<'e> {
    name: String,
    cat: &'static str,
    ph: &'static str,
    ts: f64,
    dur: f64,
    pid: u32,
    tid: u32,
    args: Arguments<'e>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Arguments<'e> {
    Run {
        run: u64,
        executor: u64,
        lanes: u32,
        process_cpu: ProcessCpu,
    },
    Node {
        run: u64,
        node: u32,
    },
    Region(Box<RegionArguments<'e>>),
    Lane {
        region: u64,
        lane: u32,
        chunks: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        counters: Option<Counts>,
    },
}

#[derive(Serialize)]
struct RegionArguments<'e> {
    run: u64,
    region: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<u32>,
    source: String,
    total: u64,
    grain: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    path: &'e str,
    #[serde(skip_serializing_if = "is_zero")]
    tiles: u64,
    requested: u32,
    admitted: u32,
    participants: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    inline_reason: Option<&'static str>,
    wait_us: f64,
    utilization: OrMissing,
    imbalance: OrMissing,
    #[serde(skip_serializing_if = "Option::is_none")]
    counters: Option<Counts>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A number, or the word `missing`.
struct OrMissing(Option<f64>);

impl Serialize for OrMissing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(number) => serializer.serialize_f64(number),
            None => serializer.serialize_str("missing"),
        }
    }
}

/// Every count by its name, or why it is missing.
struct Counts {
    set: CounterSet,
    sample: CounterSample,
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(COUNTERS))?;
        let (values, statuses) = (self.sample.values(), self.sample.statuses());
        for (i, name) in self.set.names().into_iter().enumerate() {
            match values[i] {
                Some(count) => map.serialize_entry(name, &count)?,
                None => map.serialize_entry(name, statuses[i].name())?,
            }
        }
        map.end()
    }
}

impl Trace<'_> {
    fn complete<'e>(&'e self, slice: &Slice<'e>, thread: u32) -> Complete<'e> {
        let (name, cat, args) = match slice.content {
            Content::Run(run) => {
                let args = Arguments::Run {
                    run: run.run,
                    executor: run.executor,
                    lanes: run.lanes,
                    process_cpu: run.process_cpu,
                };
                (format!("run {}", run.run), "run", args)
            }
            Content::Node(node) => {
                let args = Arguments::Node {
                    run: node.run,
                    node: node.node,
                };
                (self.name_of(node.node), "node", args)
            }
            Content::Region(region) => {
                let args = Arguments::Region(Box::new(self.region(region)));
                (region.site.label.to_owned(), "region", args)
            }
            Content::Lane(region, sample) => {
                let args = Arguments::Lane {
                    region: region.region,
                    lane: sample.lane,
                    chunks: sample.chunks,
                    counters: self.counts(sample.counters),
                };
                (region.site.label.to_owned(), "lane", args)
            }
        };
        Complete {
            name,
            cat,
            ph: "X",
            ts: microseconds(slice.start_ns),
            dur: microseconds(slice.end_ns - slice.start_ns),
            pid: PROCESS,
            tid: thread,
            args,
        }
    }

    fn region<'e>(&self, region: &'e ParallelRegionEvent) -> RegionArguments<'e> {
        RegionArguments {
            run: region.run,
            region: region.region,
            parent: region.parent,
            node: region.node,
            source: format!("{}:{}", region.site.file, region.site.line),
            total: region.total,
            grain: region.grain,
            path: region.path,
            tiles: region.tiles,
            requested: region.requested,
            admitted: region.admitted,
            participants: region.participants,
            inline_reason: region.inline_reason.map(|reason| reason.name()),
            wait_us: microseconds(region.wait_ns),
            utilization: OrMissing(region.utilization()),
            imbalance: OrMissing(region.imbalance()),
            counters: self.counts(region.counters()),
        }
    }

    /// `None` when nobody asked for counters.
    fn counts(&self, sample: CounterSample) -> Option<Counts> {
        self.counters.map(|set| Counts { set, sample })
    }
}
