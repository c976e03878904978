//! What nodes and regions did, summed over the runs that a collector kept.
//!
//! Only the events of runs that have ended are summed. A figure that would need an event which was dropped, or a sample
//! that is missing, is absent instead of too small.

use crate::{
    COUNTERS, CounterSample, CounterSet, CounterStatus, Dropped, Events, InlineReason, NodeEvent,
    ParallelRegionEvent, ProcessCpu, RegionSite,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Recorded runs, by node and by region.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Runs that ended.
    pub runs: u64,
    /// Wall time of all runs. The denominator of every share.
    pub wall_ns: u64,
    /// Median wall time of a run.
    pub median_wall_ns: u64,
    /// Processor time of the process, of the runs for which it is known.
    pub process_cpu: ProcessCpuSummary,
    /// Wall time of runs that lies in no node; `None` when nodes were dropped.
    pub outside_nodes_ns: Option<u64>,
    /// Counts of all regions that lie in no other one, together.
    pub counters: CounterSample,
    /// Events that were dropped.
    pub dropped: Dropped,
    /// Nodes, those with the largest part of the time first.
    pub nodes: Vec<NodeSummary>,
    /// Regions, those with the largest part of the time first.
    pub regions: Vec<RegionSummary>,
}

/// Processor time of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ProcessCpuSummary {
    /// Runs whose processor time is known.
    pub valid_runs: u64,
    /// Their processor time.
    pub cpu_ns: u64,
    /// Their wall time.
    pub wall_ns: u64,
    /// Runs during which another one was active.
    pub overlapped_runs: u64,
    /// Runs for which the system tells nothing.
    pub unsupported_runs: u64,
}

impl ProcessCpuSummary {
    /// Processors busy on average; `None` when no run's processor time is known.
    pub fn processors(&self) -> Option<f64> {
        (self.valid_runs > 0 && self.wall_ns > 0).then(|| self.cpu_ns as f64 / self.wall_ns as f64)
    }
}

/// Median and extremes of a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// Smallest.
    pub minimum: u32,
    /// The middle one; of two, the lower.
    pub median: u32,
    /// Largest.
    pub maximum: u32,
}

impl Spread {
    /// Of at least one count.
    fn of(mut counts: Vec<u32>) -> Self {
        counts.sort_unstable();
        let at = |position: usize| counts.get(position).copied().unwrap_or(0);
        Spread {
            minimum: at(0),
            median: at(counts.len().saturating_sub(1) / 2),
            maximum: at(counts.len().saturating_sub(1)),
        }
    }
}

/// A node over all runs. The nodes of a subgraph count for the node that the subgraph belongs to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeSummary {
    /// Position in the plan.
    pub node: u32,
    /// Times that it ran.
    pub calls: u64,
    /// Wall time of all calls.
    pub wall_ns: u64,
    /// Median wall time of a call.
    pub median_wall_ns: u64,
    /// Part of the runs' wall time.
    pub share: f64,
    /// Wall time in regions that its caller opened, whether they were divided or ran inline; `None` when regions were
    /// dropped.
    pub in_regions_ns: Option<u64>,
    /// Wall time outside them, spent by the caller alone; `None` when regions were dropped.
    pub serial_ns: Option<u64>,
}

/// Nodes of one operator over all runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OperatorSummary {
    /// Operator.
    pub operator: String,
    /// Nodes.
    pub nodes: u64,
    /// Times that they ran.
    pub calls: u64,
    /// Wall time of all calls.
    pub wall_ns: u64,
    /// Part of the runs' wall time.
    pub share: f64,
    /// As for [`NodeSummary`].
    pub in_regions_ns: Option<u64>,
    /// As for [`NodeSummary`].
    pub serial_ns: Option<u64>,
}

/// Regions of one node at one site, of equal problem and division.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RegionSummary {
    /// Node that opened them, by its position in the plan.
    pub node: Option<u32>,
    /// Where they stand in the source.
    pub site: &'static RegionSite,
    /// Algorithm that the kernel chose; empty when it has only one.
    pub path: &'static str,
    /// Tiles of the problem; 0 when the kernel has none.
    pub tiles: u64,
    /// Work units.
    pub total: u64,
    /// Work units per chunk.
    pub grain: u64,
    /// Whether they were opened inside chunks of other regions, whose time theirs is a part of.
    pub nested: bool,
    /// Regions.
    pub calls: u64,
    /// Wall time of all calls.
    pub wall_ns: u64,
    /// Median wall time of a call.
    pub median_wall_ns: u64,
    /// Part of the runs' wall time; `None` for nested regions, which several lanes may run at once.
    pub share: Option<f64>,
    /// Lanes that the kernel and the session allow.
    pub requested: Spread,
    /// Lanes that were invited, the caller included.
    pub admitted: Spread,
    /// Lanes that ran at least one chunk.
    pub participants: Spread,
    /// Calls that ran inline, by reason.
    pub inline_reasons: BTreeMap<&'static str, u64>,
    /// From the caller's last chunk until the last claimed chunk was complete, of all calls.
    pub wait_ns: u64,
    /// Calls that have the sample of every participant; utilization and imbalance are of these.
    pub sampled_calls: u64,
    /// Σ busy / Σ (wall × admitted).
    pub utilization: Option<f64>,
    /// Σ busiest lane / Σ (busy / admitted).
    pub imbalance: Option<f64>,
    /// Counts of all calls and lanes.
    pub counters: CounterSample,
}

impl RegionSummary {
    /// Instructions per cycle.
    ///
    /// # Errors
    /// The reason why there is no such figure. Counts of another set than [`CounterSet::Hardware`] are
    /// [`Disabled`](CounterStatus::Disabled).
    pub fn instructions_per_cycle(&self, set: CounterSet) -> Result<f64, CounterStatus> {
        instructions_per_cycle(&self.counters, set)
    }
}

fn instructions_per_cycle(sample: &CounterSample, set: CounterSet) -> Result<f64, CounterStatus> {
    match set {
        CounterSet::Hardware => ratio_of_hardware(sample.values(), sample.statuses()),
        CounterSet::Software => Err(CounterStatus::Disabled),
    }
}

fn ratio_of_hardware(
    values: [Option<u64>; COUNTERS],
    statuses: [CounterStatus; COUNTERS],
) -> Result<f64, CounterStatus> {
    match values {
        [Some(cycles), Some(instructions), ..] if cycles > 0 => {
            Ok(instructions as f64 / cycles as f64)
        }
        _ => Err(statuses[..2]
            .iter()
            .copied()
            .find(|&status| status != CounterStatus::Valid)
            .unwrap_or(CounterStatus::Unsupported)),
    }
}

impl Summary {
    /// Sums events, of which the collector dropped some.
    pub fn new(events: &Events, dropped: Dropped) -> Self {
        let runs: HashSet<u64> = events.runs.iter().map(|run| run.run).collect();
        let wall_ns: u64 = events.runs.iter().map(|run| run.wall_ns).sum();
        let nodes = outer_nodes(&events.nodes, &runs);
        let regions: Vec<&ParallelRegionEvent> = events
            .regions
            .iter()
            .filter(|region| runs.contains(&region.run))
            .collect();
        let in_nodes_ns: u64 = nodes.iter().map(|node| node.wall_ns).sum();
        let all_regions = dropped.regions == 0;
        let outer_regions = regions.iter().filter(|region| region.parent.is_none());
        Summary {
            runs: events.runs.len() as u64,
            wall_ns,
            median_wall_ns: median(events.runs.iter().map(|run| run.wall_ns).collect()),
            process_cpu: process_cpu(events),
            outside_nodes_ns: (dropped.nodes == 0).then(|| wall_ns.saturating_sub(in_nodes_ns)),
            counters: if all_regions {
                CounterSample::sum(outer_regions.map(|region| region.counters()))
            } else {
                CounterSample::without(CounterStatus::Partial)
            },
            dropped,
            nodes: sum_nodes(&nodes, &regions, wall_ns, all_regions),
            regions: sum_regions(&regions, wall_ns),
        }
    }

    /// Nodes summed by operator, those with the largest part of the time first. `operator_of` names the operator of a
    /// position in the plan.
    pub fn operators(&self, operator_of: impl Fn(u32) -> String) -> Vec<OperatorSummary> {
        let mut operators: BTreeMap<String, OperatorSummary> = BTreeMap::new();
        for node in &self.nodes {
            let operator = operator_of(node.node);
            let sum = operators
                .entry(operator.clone())
                .or_insert(OperatorSummary {
                    operator,
                    nodes: 0,
                    calls: 0,
                    wall_ns: 0,
                    share: 0.0,
                    in_regions_ns: Some(0),
                    serial_ns: Some(0),
                });
            let add = |sum: Option<u64>, part: Option<u64>| Some(sum? + part?);
            sum.nodes += 1;
            sum.calls += node.calls;
            sum.wall_ns += node.wall_ns;
            sum.share = share(sum.wall_ns, self.wall_ns);
            sum.in_regions_ns = add(sum.in_regions_ns, node.in_regions_ns);
            sum.serial_ns = add(sum.serial_ns, node.serial_ns);
        }
        let mut operators: Vec<OperatorSummary> = operators.into_values().collect();
        operators.sort_by_key(|sum| std::cmp::Reverse(sum.wall_ns));
        operators
    }

    /// Instructions per cycle of all regions; as [`RegionSummary::instructions_per_cycle`].
    ///
    /// # Errors
    /// As there.
    pub fn instructions_per_cycle(&self, set: CounterSet) -> Result<f64, CounterStatus> {
        instructions_per_cycle(&self.counters, set)
    }
}

/// Nodes of ended runs that lie in no other node.
fn outer_nodes(nodes: &[NodeEvent], runs: &HashSet<u64>) -> Vec<NodeEvent> {
    let mut sorted: Vec<NodeEvent> = nodes
        .iter()
        .filter(|node| runs.contains(&node.run))
        .copied()
        .collect();
    sorted.sort_by_key(|node| (node.run, node.start_ns, std::cmp::Reverse(node.wall_ns)));
    let mut outer: Vec<NodeEvent> = Vec::with_capacity(sorted.len());
    for node in sorted {
        let inside = outer.last().is_some_and(|last| {
            let end = last.start_ns + last.wall_ns;
            // Rounding lets neighbours overlap by a nanosecond.
            last.run == node.run && node.start_ns + 1 < end
        });
        if !inside {
            outer.push(node);
        }
    }
    outer
}

fn process_cpu(events: &Events) -> ProcessCpuSummary {
    let mut sum = ProcessCpuSummary {
        valid_runs: 0,
        cpu_ns: 0,
        wall_ns: 0,
        overlapped_runs: 0,
        unsupported_runs: 0,
    };
    for run in &events.runs {
        match run.process_cpu {
            ProcessCpu::Valid(nanoseconds) => {
                sum.valid_runs += 1;
                sum.cpu_ns += nanoseconds;
                sum.wall_ns += run.wall_ns;
            }
            ProcessCpu::Overlapped => sum.overlapped_runs += 1,
            ProcessCpu::Unsupported => sum.unsupported_runs += 1,
        }
    }
    sum
}

fn sum_nodes(
    nodes: &[NodeEvent],
    regions: &[&ParallelRegionEvent],
    run_wall_ns: u64,
    all_regions: bool,
) -> Vec<NodeSummary> {
    let mut in_regions: HashMap<u32, u64> = HashMap::new();
    for region in regions.iter().filter(|region| region.parent.is_none()) {
        if let Some(node) = region.node {
            *in_regions.entry(node).or_default() += region.wall_ns;
        }
    }
    let mut walls: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for node in nodes {
        walls.entry(node.node).or_default().push(node.wall_ns);
    }
    let mut sums: Vec<NodeSummary> = walls
        .into_iter()
        .map(|(node, walls)| {
            let wall_ns: u64 = walls.iter().sum();
            let in_regions_ns = in_regions.get(&node).copied().unwrap_or(0).min(wall_ns);
            NodeSummary {
                node,
                calls: walls.len() as u64,
                wall_ns,
                median_wall_ns: median(walls),
                share: share(wall_ns, run_wall_ns),
                in_regions_ns: all_regions.then_some(in_regions_ns),
                serial_ns: all_regions.then_some(wall_ns - in_regions_ns),
            }
        })
        .collect();
    sums.sort_by_key(|sum| std::cmp::Reverse(sum.wall_ns));
    sums
}

/// What regions of one summary have in common.
type Alike = (
    Option<u32>,
    &'static str,
    u32,
    &'static str,
    &'static str,
    u64,
    u64,
    u64,
    bool,
);

fn sum_regions(regions: &[&ParallelRegionEvent], run_wall_ns: u64) -> Vec<RegionSummary> {
    let mut groups: BTreeMap<Alike, Vec<&ParallelRegionEvent>> = BTreeMap::new();
    for &region in regions {
        let alike = (
            region.node,
            region.site.file,
            region.site.line,
            region.site.label,
            region.path,
            region.tiles,
            region.total,
            region.grain,
            region.parent.is_some(),
        );
        groups.entry(alike).or_default().push(region);
    }
    let mut sums: Vec<RegionSummary> = groups
        .into_values()
        .map(|group| sum_region(&group, run_wall_ns))
        .collect();
    sums.sort_by_key(|sum| (sum.nested, std::cmp::Reverse(sum.wall_ns)));
    sums
}

/// Sums regions that are alike; there is at least one.
fn sum_region(group: &[&ParallelRegionEvent], run_wall_ns: u64) -> RegionSummary {
    let first = group[0];
    let wall_ns: u64 = group.iter().map(|region| region.wall_ns).sum();
    let nested = first.parent.is_some();
    let spread = |count: fn(&ParallelRegionEvent) -> u32| {
        Spread::of(group.iter().map(|region| count(region)).collect())
    };
    let mut inline_reasons = BTreeMap::new();
    for reason in group.iter().filter_map(|region| region.inline_reason) {
        *inline_reasons
            .entry(InlineReason::name(reason))
            .or_insert(0) += 1;
    }
    let (mut offered, mut busy, mut busiest, mut mean) = (0.0, 0.0, 0.0, 0.0);
    let mut sampled_calls = 0;
    for region in group {
        let Some(busy_ns) = region.busy_ns() else {
            continue;
        };
        let admitted = f64::from(region.admitted);
        let longest = region.lanes.iter().map(|lane| lane.busy_ns).max();
        sampled_calls += 1;
        offered += region.wall_ns as f64 * admitted;
        busy += busy_ns as f64;
        busiest += longest.unwrap_or(0) as f64;
        mean += busy_ns as f64 / admitted.max(1.0);
    }
    RegionSummary {
        node: first.node,
        site: first.site,
        path: first.path,
        tiles: first.tiles,
        total: first.total,
        grain: first.grain,
        nested,
        calls: group.len() as u64,
        wall_ns,
        median_wall_ns: median(group.iter().map(|region| region.wall_ns).collect()),
        share: (!nested).then(|| share(wall_ns, run_wall_ns)),
        requested: spread(|region| region.requested),
        admitted: spread(|region| region.admitted),
        participants: spread(|region| region.participants),
        inline_reasons,
        wait_ns: group.iter().map(|region| region.wait_ns).sum(),
        sampled_calls,
        utilization: (offered > 0.0).then(|| (busy / offered).min(1.0)),
        imbalance: (mean > 0.0).then(|| busiest / mean),
        counters: CounterSample::sum(group.iter().map(|region| region.counters())),
    }
}

fn share(part_ns: u64, whole_ns: u64) -> f64 {
    if whole_ns == 0 {
        0.0
    } else {
        part_ns as f64 / whole_ns as f64
    }
}

/// The middle value; of two, the lower. 0 of none.
fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values
        .get(values.len().saturating_sub(1) / 2)
        .copied()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_per_cycle_needs_both_counts() {
        use CounterStatus::{PermissionDenied, Unsupported, Valid};
        let counts = [Some(200), Some(500), None, None];
        let statuses = [Valid, Valid, Unsupported, Unsupported];
        assert_eq!(ratio_of_hardware(counts, statuses), Ok(2.5));
        let counts = [Some(200), None, Some(1), Some(1)];
        let statuses = [Valid, PermissionDenied, Valid, Valid];
        assert_eq!(ratio_of_hardware(counts, statuses), Err(PermissionDenied));
        let counts = [Some(0), Some(5), None, None];
        let statuses = [Valid, Valid, Unsupported, Unsupported];
        assert_eq!(ratio_of_hardware(counts, statuses), Err(Unsupported));
    }

    #[test]
    fn medians_are_values_that_occurred() {
        for (values, expected) in [
            (vec![], 0),
            (vec![7], 7),
            (vec![9, 1], 1),
            (vec![3, 1, 2], 2),
        ] {
            assert_eq!(median(values), expected);
        }
    }
}
