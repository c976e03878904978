//! Records runs of a model, and shows them by operator, node and region.

mod tables;

use crate::exit::Exit;
use crate::inputs::{Gathered, InputArguments};
use crate::{Common, commands};
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use onl::profiling::{
    Collector, CollectorOptions, CounterSet, Dropped, Events, NodeSummary, ProfilingLevel, Summary,
    Trace,
};
use onl::{RunControl, Session, Tensor};
use onl_evidence::{Repeated, Room};
use serde::Serialize;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use tables::{NodeLabel, Rendering};

#[derive(clap::Args)]
pub struct Arguments {
    /// Model file.
    model: PathBuf,
    #[command(flatten)]
    inputs: InputArguments,
    /// Runs before the recorded ones.
    #[arg(long, default_value_t = 5)]
    warmup: u32,
    /// Recorded runs.
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    runs: u32,
    /// Also count processor events of every lane in every region.
    #[arg(long)]
    counters: bool,
    /// What is counted: hardware (cycles, instructions, last-level cache) or software (time, faults, switches).
    #[arg(long, default_value = "hardware", value_parser = ["hardware", "software"], requires = "counters", value_name = "SET")]
    counter_set: String,
    /// Tables to print.
    #[arg(long, default_value = "all", value_parser = ["op", "node", "region", "all"])]
    by: String,
    /// Rows of a table; the others are summed in one row.
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    top: u32,
    /// Write the recorded runs as a Chrome trace, which Perfetto opens.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Events of each kind that are kept; 0 makes room for as many as a warm-up run has, times the recorded runs.
    #[arg(long, default_value_t = 0, value_name = "N")]
    events: u32,
    #[command(flatten)]
    common: Common,
}

impl Arguments {
    fn counter_set(&self) -> Option<CounterSet> {
        let set = match self.counter_set.as_str() {
            "software" => CounterSet::Software,
            _ => CounterSet::Hardware,
        };
        self.counters.then_some(set)
    }
}

pub fn run(arguments: &Arguments) -> Result<Exit> {
    let session = commands::session(&arguments.common, &arguments.model)?;
    let gathered = arguments.inputs.gather(&session)?;
    for note in &gathered.notes {
        eprintln!("note: {note}");
    }
    // What cannot be written is better known before the runs than after them.
    let trace_file = match &arguments.trace {
        Some(path) => Some((
            path,
            File::create(path).with_context(|| format!("trace file {}", path.display()))?,
        )),
        None => None,
    };
    let (events, dropped) = record(arguments, &session, &gathered)?;
    let labels: Vec<NodeLabel> = session
        .runtime()
        .nodes()
        .map(|info| NodeLabel {
            operator: info.op_type.clone(),
            name: info.name.clone(),
            kernel: info.key.to_string(),
        })
        .collect();
    if let Some((path, file)) = trace_file {
        write_trace(file, &events, dropped, arguments.counter_set(), &labels)
            .with_context(|| format!("trace file {}", path.display()))?;
        eprintln!("note: trace written to {}", path.display());
    }
    let summary = Summary::new(&events, dropped);
    if arguments.common.json {
        let document = document(arguments, &session, &gathered, &events, &summary, &labels);
        println!("{}", serde_json::to_string_pretty(&document)?);
    } else {
        println!("{}", header(&arguments.model, &session, &gathered));
        let rendering = Rendering {
            summary: &summary,
            labels: &labels,
            by: &arguments.by,
            top: arguments.top as usize,
            counters: arguments.counter_set(),
        };
        print!("{rendering}");
    }
    Ok(Exit::Done)
}

/// Plans, warms up, and records.
fn record(
    arguments: &Arguments,
    session: &Session,
    gathered: &Gathered,
) -> Result<(Events, Dropped)> {
    let outputs = session.run(&gathered.named())?;
    let mut repeated = Repeated::new(session, &gathered.values, &outputs)?;
    let lanes = session.policy().descriptor().participants as usize;
    let room = match arguments.events {
        0 => repeated.room(arguments.runs)?,
        events => Room {
            regions: events as usize,
            nodes: events as usize,
        },
    };
    for _ in 0..arguments.warmup {
        repeated.run(RunControl::default())?;
    }
    let counters = arguments.counter_set();
    let collector = Collector::with_options(CollectorOptions {
        level: match counters {
            Some(_) => ProfilingLevel::Counters,
            None => ProfilingLevel::Timing,
        },
        counters: counters.unwrap_or(CounterSet::Hardware),
        regions: room.regions,
        nodes: room.nodes,
        lanes,
    });
    let bar = ProgressBar::new(u64::from(arguments.runs));
    bar.set_style(
        ProgressStyle::with_template("recording {bar:40} {pos}/{len}").expect("a legal template"),
    );
    for _ in 0..arguments.runs {
        repeated.run(RunControl {
            collector: Some(&collector),
            ..RunControl::default()
        })?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok((collector.drain(), collector.dropped()))
}

fn write_trace(
    file: File,
    events: &Events,
    dropped: Dropped,
    counters: Option<CounterSet>,
    labels: &[NodeLabel],
) -> Result<()> {
    let node_name = |node: u32| labels.get(node as usize).map(NodeLabel::in_words);
    let mut trace = Trace::new(events).node_names(&node_name).dropped(dropped);
    if let Some(set) = counters {
        trace = trace.counters(set);
    }
    let mut writer = BufWriter::new(file);
    trace.write(&mut writer)?;
    writer.flush()?;
    Ok(())
}

fn header(model: &Path, session: &Session, gathered: &Gathered) -> String {
    let mut words = vec![model.display().to_string()];
    for (name, value) in &gathered.values {
        let shape = value.as_tensor().map_or_else(
            || "not a tensor".to_owned(),
            |tensor| {
                let dims: Vec<String> = tensor.dims().iter().map(usize::to_string).collect();
                format!("{} {}", tensor.element_type(), dims.join("x"))
            },
        );
        words.push(format!("{name} {}", shape.trim_end()));
    }
    format!("{}\n{}\n", words.join(", "), session.execution_line())
}

/// A node of the plan with what it did.
#[derive(Serialize)]
struct NodeRow<'a> {
    #[serde(flatten)]
    label: Option<&'a NodeLabel>,
    #[serde(flatten)]
    summary: &'a NodeSummary,
}

fn document(
    arguments: &Arguments,
    session: &Session,
    gathered: &Gathered,
    events: &Events,
    summary: &Summary,
    labels: &[NodeLabel],
) -> serde_json::Value {
    let nodes: Vec<NodeRow<'_>> = summary
        .nodes
        .iter()
        .map(|summary| NodeRow {
            label: labels.get(summary.node as usize),
            summary,
        })
        .collect();
    let set = arguments.counter_set();
    serde_json::json!({
        "schema": 1,
        "model": arguments.model.display().to_string(),
        "execution": session.execution_summary(),
        "inputs": gathered.values.iter().map(|(name, value)| serde_json::json!({
            "name": name,
            "shape": value.as_tensor().map(Tensor::dims),
        })).collect::<Vec<_>>(),
        "level": match set {
            Some(_) => ProfilingLevel::Counters,
            None => ProfilingLevel::Timing,
        },
        "counter_set": set,
        "counter_names": set.map(CounterSet::names),
        "totals": {
            "runs": summary.runs,
            "wall_ns": summary.wall_ns,
            "median_wall_ns": summary.median_wall_ns,
            "process_cpu": summary.process_cpu,
            "outside_nodes_ns": summary.outside_nodes_ns,
            "counters": summary.counters,
            "dropped": summary.dropped,
        },
        "operators": summary.operators(|node| tables::operator_of(labels, node)),
        "nodes": nodes,
        "regions": summary.regions,
        "runs": events.runs,
    })
}
