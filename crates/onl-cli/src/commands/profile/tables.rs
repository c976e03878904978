use crate::table::{duration, table};
use onl::profiling::{
    CounterSet, CounterStatus, Dropped, NodeSummary, OperatorSummary, RegionSummary, Spread,
    Summary,
};
use serde::Serialize;
use std::fmt;

/// Stands for a figure that is missing.
const MISSING: &str = "–";
/// Characters of a node's name that are shown.
const NAME_WIDTH: usize = 40;

/// What a node of the plan is called.
#[derive(Debug, Clone, Serialize)]
pub struct NodeLabel {
    /// Operator.
    pub operator: String,
    /// Name in the model, possibly empty.
    pub name: String,
    /// Tuning key of its kernel.
    pub kernel: String,
}

impl NodeLabel {
    /// Operator and name.
    pub fn in_words(&self) -> String {
        if self.name.is_empty() {
            self.operator.clone()
        } else {
            format!("{} {}", self.operator, self.name)
        }
    }
}

/// The operator of a position in the plan.
pub fn operator_of(labels: &[NodeLabel], node: u32) -> String {
    labels
        .get(node as usize)
        .map_or_else(|| "unknown".to_owned(), |label| label.operator.clone())
}

/// A summary as tables and notes.
pub struct Rendering<'a> {
    pub summary: &'a Summary,
    /// Nodes by their position in the plan.
    pub labels: &'a [NodeLabel],
    /// `op`, `node`, `region` or `all`.
    pub by: &'a str,
    /// Rows of a table.
    pub top: usize,
    /// What was counted, if anything was.
    pub counters: Option<CounterSet>,
}

impl fmt::Display for Rendering<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wanted = |name: &str| self.by == name || self.by == "all";
        if wanted("op") {
            self.operators(f)?;
        }
        if wanted("node") {
            self.nodes(f)?;
        }
        if wanted("region") {
            self.regions(f)?;
        }
        self.totals(f)
    }
}

impl Rendering<'_> {
    /// Time of a single run, of a time of all runs.
    fn per_run(&self, nanoseconds: u64) -> String {
        match self.summary.runs {
            0 => MISSING.to_owned(),
            runs => duration(nanoseconds as f64 / runs as f64),
        }
    }

    fn per_run_or_missing(&self, nanoseconds: Option<u64>) -> String {
        nanoseconds.map_or_else(|| MISSING.to_owned(), |n| self.per_run(n))
    }

    fn operators(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let right = ["nodes", "calls", "per run", "share", "in regions", "serial"];
        let header: Vec<&str> = ["operator"].into_iter().chain(right).collect();
        let mut rows = table(&header, &right);
        let operators = self
            .summary
            .operators(|node| operator_of(self.labels, node));
        let (shown, rest) = operators.split_at(self.top.min(operators.len()));
        let mut add = |sum: &OperatorSummary| {
            rows.add_row([
                sum.operator.clone(),
                sum.nodes.to_string(),
                sum.calls.to_string(),
                self.per_run(sum.wall_ns),
                percent(sum.share),
                self.per_run_or_missing(sum.in_regions_ns),
                self.per_run_or_missing(sum.serial_ns),
            ]);
        };
        shown.iter().for_each(&mut add);
        if !rest.is_empty() {
            add(&OperatorSummary {
                operator: others(rest.len()),
                nodes: rest.iter().map(|sum| sum.nodes).sum(),
                calls: rest.iter().map(|sum| sum.calls).sum(),
                wall_ns: rest.iter().map(|sum| sum.wall_ns).sum(),
                share: rest.iter().map(|sum| sum.share).sum(),
                in_regions_ns: rest.iter().map(|sum| sum.in_regions_ns).sum(),
                serial_ns: rest.iter().map(|sum| sum.serial_ns).sum(),
            });
        }
        writeln!(f, "{rows}\n")
    }

    fn nodes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let right = [
            "calls",
            "median",
            "per run",
            "share",
            "in regions",
            "serial",
        ];
        let header: Vec<&str> = ["#", "operator", "node"].into_iter().chain(right).collect();
        let mut rows = table(&header, &[&["#"][..], &right[..]].concat());
        let nodes = &self.summary.nodes;
        let (shown, rest) = nodes.split_at(self.top.min(nodes.len()));
        for sum in shown {
            let label = self.labels.get(sum.node as usize);
            rows.add_row([
                sum.node.to_string(),
                operator_of(self.labels, sum.node),
                label.map_or_else(String::new, |label| shortened(&label.name)),
                sum.calls.to_string(),
                duration(sum.median_wall_ns as f64),
                self.per_run(sum.wall_ns),
                percent(sum.share),
                self.per_run_or_missing(sum.in_regions_ns),
                self.per_run_or_missing(sum.serial_ns),
            ]);
        }
        if !rest.is_empty() {
            let sum = |part: fn(&NodeSummary) -> u64| rest.iter().map(part).sum::<u64>();
            rows.add_row([
                String::new(),
                others(rest.len()),
                String::new(),
                sum(|node| node.calls).to_string(),
                String::new(),
                self.per_run(sum(|node| node.wall_ns)),
                percent(rest.iter().map(|node| node.share).sum()),
                self.per_run_or_missing(rest.iter().map(|node| node.in_regions_ns).sum()),
                self.per_run_or_missing(rest.iter().map(|node| node.serial_ns).sum()),
            ]);
        }
        writeln!(f, "{rows}\n")
    }

    fn regions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.counters == Some(CounterSet::Hardware);
        let mut header = vec![
            "#",
            "operator",
            "region",
            "path",
            "tiles",
            "total",
            "grain",
            "calls",
            "median",
            "share",
            "utilization",
            "imbalance",
            "participants",
            "admitted",
            "requested",
            "wait",
            "inline",
        ];
        if counts {
            header.push("IPC");
        }
        let left = ["operator", "region", "path", "inline"];
        let right: Vec<&str> = header
            .iter()
            .copied()
            .filter(|name| !left.contains(name))
            .collect();
        let mut rows = table(&header, &right);
        let regions = &self.summary.regions;
        let (shown, rest) = regions.split_at(self.top.min(regions.len()));
        for sum in shown {
            let mut row = self.region(sum);
            if counts {
                row.push(instructions_per_cycle(
                    sum.instructions_per_cycle(CounterSet::Hardware),
                ));
            }
            rows.add_row(row);
        }
        if !rest.is_empty() {
            let mut row = vec![String::new(); header.len()];
            row[1] = others(rest.len());
            row[7] = rest.iter().map(|sum| sum.calls).sum::<u64>().to_string();
            row[9] = percent(rest.iter().filter_map(|sum| sum.share).sum());
            rows.add_row(row);
        }
        writeln!(f, "{rows}\n")
    }

    fn region(&self, sum: &RegionSummary) -> Vec<String> {
        let figure = |figure: Option<f64>, show: fn(f64) -> String| {
            let text = figure.map_or_else(|| MISSING.to_owned(), show);
            if figure.is_some() && sum.sampled_calls < sum.calls {
                format!("{text} *")
            } else {
                text
            }
        };
        let nested = if sum.nested { " (nested)" } else { "" };
        let reasons: Vec<String> = sum
            .inline_reasons
            .iter()
            .map(|(reason, &calls)| {
                if calls == sum.calls {
                    (*reason).to_owned()
                } else {
                    format!("{reason} {calls}")
                }
            })
            .collect();
        vec![
            sum.node.map_or_else(String::new, |node| node.to_string()),
            sum.node
                .map_or_else(String::new, |node| operator_of(self.labels, node)),
            format!("{}{nested}", sum.site.label),
            sum.path.to_owned(),
            match sum.tiles {
                0 => String::new(),
                tiles => tiles.to_string(),
            },
            sum.total.to_string(),
            sum.grain.to_string(),
            sum.calls.to_string(),
            duration(sum.median_wall_ns as f64),
            sum.share.map_or_else(String::new, percent),
            figure(sum.utilization, percent),
            figure(sum.imbalance, |ratio| format!("{ratio:.2}")),
            spread(sum.participants),
            spread(sum.admitted),
            spread(sum.requested),
            match sum.wall_ns {
                0 => MISSING.to_owned(),
                wall => percent(sum.wait_ns as f64 / wall as f64),
            },
            reasons.join(", "),
        ]
    }

    fn totals(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let summary = self.summary;
        writeln!(
            f,
            "{} recorded runs, median {}; outside nodes {}",
            summary.runs,
            duration(summary.median_wall_ns as f64),
            match summary.outside_nodes_ns {
                Some(outside) if summary.wall_ns > 0 =>
                    percent(outside as f64 / summary.wall_ns as f64),
                _ => MISSING.to_owned(),
            }
        )?;
        let cpu = summary.process_cpu;
        match cpu.processors() {
            Some(processors) => writeln!(
                f,
                "process CPU: {} a run, {processors:.2} processors on average, of {} runs",
                duration(cpu.cpu_ns as f64 / cpu.valid_runs as f64),
                cpu.valid_runs
            )?,
            None => writeln!(f, "process CPU: {MISSING}")?,
        }
        if cpu.overlapped_runs > 0 {
            let runs = cpu.overlapped_runs;
            writeln!(
                f,
                "process CPU of {runs} runs is invalid: another run was active"
            )?;
        }
        if cpu.unsupported_runs > 0 {
            let runs = cpu.unsupported_runs;
            writeln!(f, "process CPU of {runs} runs: the system does not tell")?;
        }
        match self.counters {
            None => writeln!(f, "counters: not asked for (--counters)")?,
            Some(set) => self.counts(f, set)?,
        }
        self.missing(f)
    }

    fn counts(&self, f: &mut fmt::Formatter<'_>, set: CounterSet) -> fmt::Result {
        let counters = &self.summary.counters;
        let counts: Vec<String> = set
            .names()
            .iter()
            .zip(counters.values().iter().zip(counters.statuses()))
            .map(|(name, (value, status))| match value {
                Some(count) => format!("{name} {count}"),
                None => format!("{name} {status}"),
            })
            .collect();
        writeln!(f, "counters ({set}) of all regions: {}", counts.join(", "))?;
        if counters.statuses().contains(&CounterStatus::Unsupported) {
            writeln!(
                f,
                "unsupported: this processor, virtual machine or system does not count the event"
            )?;
        }
        if counters
            .statuses()
            .contains(&CounterStatus::PermissionDenied)
        {
            writeln!(
                f,
                "permission_denied: lower /proc/sys/kernel/perf_event_paranoid to 2 or less, or leave the sandbox"
            )?;
        }
        Ok(())
    }

    /// What a reader must know about figures that are missing.
    fn missing(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dropped = self.summary.dropped;
        if !dropped.is_none() {
            let Dropped {
                runs,
                nodes,
                regions,
                lane_samples,
            } = dropped;
            writeln!(
                f,
                "dropped for want of room: {runs} runs, {nodes} nodes, {regions} regions, {lane_samples} lane samples; times are too small. Use a larger --events or fewer --runs"
            )?;
        }
        if self
            .summary
            .regions
            .iter()
            .any(|sum| sum.sampled_calls > 0 && sum.sampled_calls < sum.calls)
        {
            writeln!(f, "*: only of the calls whose lane samples are complete")?;
        }
        let unsampled = self
            .summary
            .regions
            .iter()
            .any(|sum| sum.utilization.is_none());
        if !dropped.is_none() || unsampled {
            writeln!(f, "{MISSING}: not known, as events or samples are missing")?;
        }
        Ok(())
    }
}

fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

fn others(count: usize) -> String {
    format!("{count} more")
}

/// The median, and the range when there is one.
fn spread(spread: Spread) -> String {
    if spread.minimum == spread.maximum {
        spread.median.to_string()
    } else {
        format!("{} ({}-{})", spread.median, spread.minimum, spread.maximum)
    }
}

fn instructions_per_cycle(figure: Result<f64, CounterStatus>) -> String {
    match figure {
        Ok(ratio) => format!("{ratio:.2}"),
        Err(status) => status.to_string(),
    }
}

/// The end of a name, which tells nodes of a layered model apart.
fn shortened(name: &str) -> String {
    let length = name.chars().count();
    if length <= NAME_WIDTH {
        return name.to_owned();
    }
    let end: String = name.chars().skip(length - NAME_WIDTH + 1).collect();
    format!("…{end}")
}

#[cfg(test)]
mod tests;
