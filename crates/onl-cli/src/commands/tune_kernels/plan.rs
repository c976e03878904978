//! The dry run: keys, candidates, seconds, and what each key is worth to a model.

use super::Arguments;
use super::setup::{KEY_SECONDS, Setup};
use crate::commands;
use crate::exit::Exit;
use crate::table::{duration, table};
use anyhow::Result;
use onl::profiling::{Collector, CollectorOptions, ProfilingLevel, Summary};
use onl::tuning::plan::{KernelUse, Saved, Worth, worth};
use onl::tuning::{EvidenceRecord, RowKind};
use onl::{CalibrationTarget, KernelKey, RunControl};
use onl_evidence::Repeated;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Runs of the model before the recorded ones, and recorded ones.
const WARM_RUNS: u32 = 3;
const RECORDED_RUNS: u32 = 10;
/// Events of each kind that are held at most.
const MOST_EVENTS: usize = 1 << 20;

pub fn run(
    arguments: &Arguments,
    setup: &Setup,
    selected: &[&dyn CalibrationTarget],
) -> Result<Exit> {
    let value = match &arguments.model {
        Some(model) => Some(ModelValue::of(arguments, setup, model)?),
        None => None,
    };
    let mut lines: Vec<Line> = selected
        .iter()
        .map(|target| Line::new(*target, setup, value.as_ref()))
        .collect();
    if value.is_some() {
        let most = |line: &Line| line.worth.as_ref().and_then(Worth::most_ns).unwrap_or(-1.0);
        lines.sort_by(|a, b| most(b).total_cmp(&most(a)));
    }
    let seconds = (KEY_SECONDS * lines.len() as f64).min(arguments.limits.budget);
    if arguments.common.json {
        let document = serde_json::json!({
            "schema": 1,
            "threads": setup.execution.participants,
            "seconds_at_most": seconds,
            "model": value.as_ref().map(|v| v.document(&lines)),
            "kernels": lines,
        });
        println!("{}", serde_json::to_string_pretty(&document)?);
    } else {
        match &value {
            Some(value) => print_value(value, &lines),
            None => print_plan(&lines),
        }
        println!(
            "{} kernels, at most {seconds:.0} s of measuring; run again with --apply",
            lines.len()
        );
        eprintln!(
            "{} threads, {} wait",
            setup.execution.participants, setup.execution.wait_mode
        );
    }
    Ok(Exit::Done)
}

/// One kernel of the plan.
#[derive(Serialize)]
struct Line {
    key: String,
    candidates: usize,
    workloads: usize,
    saved: bool,
    seconds_at_most: f64,
    /// What the model does with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    uses: Option<KernelUse>,
    /// What tuning it could save of a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    worth: Option<Worth>,
}

impl Line {
    fn new(target: &dyn CalibrationTarget, setup: &Setup, value: Option<&ModelValue>) -> Self {
        let uses = value.and_then(|value| value.uses.get(target.key()).cloned());
        let saved = value.and_then(|value| value.saved.get(target.key()));
        let participants = setup.execution.participants;
        Line {
            key: target.key().to_string(),
            candidates: candidates(target),
            workloads: target.workloads().len(),
            saved: setup.has_choice(target.key()),
            seconds_at_most: KEY_SECONDS,
            worth: uses
                .as_ref()
                .map(|uses| worth(uses, saved.unwrap_or(&Saved::Nothing), participants)),
            uses,
        }
    }
}

fn candidates(target: &dyn CalibrationTarget) -> usize {
    match target.search() {
        onl::Search::Crossover { grid, .. } => grid.len(),
        onl::Search::Candidates(candidates) => candidates.len(),
    }
}

fn print_plan(lines: &[Line]) {
    let mut rows = table(
        &["key", "candidates", "workloads", "saved choice"],
        &["candidates", "workloads"],
    );
    for line in lines {
        rows.add_row([
            line.key.clone(),
            line.candidates.to_string(),
            line.workloads.to_string(),
            yes(line.saved),
        ]);
    }
    println!("{rows}");
}

fn yes(saved: bool) -> String {
    if saved { "yes" } else { "no" }.to_owned()
}

fn print_value(value: &ModelValue, lines: &[Line]) {
    let columns = [
        "key",
        "candidates",
        "seconds",
        "saved choice",
        "nodes",
        "calls",
        "share",
        "worth per run",
    ];
    let mut rows = table(
        &columns,
        &["candidates", "seconds", "nodes", "calls", "share"],
    );
    let mut unused = 0;
    for line in lines {
        let (Some(uses), Some(worth)) = (&line.uses, &line.worth) else {
            unused += 1;
            continue;
        };
        rows.add_row([
            line.key.clone(),
            line.candidates.to_string(),
            format!("{:.0}", line.seconds_at_most),
            yes(line.saved),
            uses.nodes.to_string(),
            format!("{:.0}", uses.calls),
            format!("{:.1} %", 100.0 * uses.share),
            in_words(worth),
        ]);
    }
    println!("{rows}");
    let totals = value.totals(lines);
    println!(
        "a run takes {}; these kernels are {:.0} % of it, tuning them takes at most {:.0} s and saves at most {}{}",
        duration(value.run_ns),
        100.0 * totals.share,
        totals.seconds,
        duration(totals.most_ns),
        match totals.unknown {
            0 => String::new(),
            n => format!(" in those that are known; {n} are not"),
        }
    );
    if unused > 0 {
        println!("{unused} selected kernels do not run in this model");
    }
}

fn in_words(worth: &Worth) -> String {
    match worth {
        Worth::Measured { upper_ns, .. } if *upper_ns <= 0.0 => {
            "nothing, the default was confirmed".to_owned()
        }
        Worth::Measured {
            lower_ns,
            ns,
            upper_ns,
        } => format!(
            "{} [{}, {}] by evidence",
            duration(*ns),
            duration(*lower_ns),
            duration(*upper_ns)
        ),
        Worth::AtMost { ns } => format!("at most {} by better division", duration(*ns)),
        Worth::InUse { saves_ns: Some(ns) } => format!("in use, saves {}", duration(*ns)),
        Worth::InUse { saves_ns: None } => "in use".to_owned(),
        Worth::Unknown => "unknown".to_owned(),
    }
}

/// What a model does with every kernel, and what is saved of them.
struct ModelValue {
    model: String,
    run_ns: f64,
    uses: BTreeMap<KernelKey, KernelUse>,
    saved: BTreeMap<KernelKey, Saved>,
}

struct Totals {
    share: f64,
    seconds: f64,
    most_ns: f64,
    unknown: usize,
}

impl ModelValue {
    fn of(arguments: &Arguments, setup: &Setup, model: &Path) -> Result<Self> {
        let session = commands::session(&arguments.common, model)?;
        let gathered = arguments.inputs.gather(&session)?;
        for note in &gathered.notes {
            eprintln!("note: {note}");
        }
        let outputs = session.run(&gathered.named())?;
        let mut repeated = Repeated::new(&session, &gathered.values, &outputs)?;
        let lanes = session.policy().descriptor().participants as usize;
        let mut record = |runs: u32, room: usize| -> Result<_> {
            let collector = Collector::with_options(CollectorOptions {
                level: ProfilingLevel::Timing,
                regions: room,
                nodes: room,
                lanes,
                ..CollectorOptions::default()
            });
            for _ in 0..runs {
                repeated.run(RunControl {
                    collector: Some(&collector),
                    ..RunControl::default()
                })?;
            }
            Ok((collector.drain(), collector.dropped()))
        };
        let (events, dropped) = record(WARM_RUNS, MOST_EVENTS / 64)?;
        let held = events.regions.len().max(events.nodes.len())
            + dropped.regions.max(dropped.nodes) as usize;
        let room = (held + 1) * RECORDED_RUNS as usize / WARM_RUNS as usize + 1;
        let (events, dropped) = record(RECORDED_RUNS, room.min(MOST_EVENTS))?;
        let summary = Summary::new(&events, dropped);

        let infos: Vec<_> = session.runtime().nodes().collect();
        let runs = (summary.runs.max(1)) as f64;
        let mut uses: BTreeMap<KernelKey, KernelUse> = BTreeMap::new();
        for node in &summary.nodes {
            let Some(info) = infos.get(node.node as usize) else {
                continue;
            };
            let divided = summary
                .regions
                .iter()
                .filter(|r| r.node == Some(node.node) && !r.nested && r.admitted.median > 1);
            let mut divided_ns = 0.0;
            let mut unused_ns = Some(0.0);
            for region in divided {
                divided_ns += region.wall_ns as f64;
                unused_ns = match (unused_ns, region.utilization) {
                    (Some(sum), Some(share)) => {
                        Some(sum + region.wall_ns as f64 * (1.0 - share).max(0.0))
                    }
                    _ => None,
                };
            }
            let known = node.in_regions_ns.is_some();
            let serial_ns = known.then(|| (node.wall_ns as f64 - divided_ns).max(0.0));
            let entry = uses.entry(info.key.clone()).or_insert_with(|| KernelUse {
                key: info.key.clone(),
                nodes: 0,
                calls: 0.0,
                ns: 0.0,
                share: 0.0,
                serial_ns: Some(0.0),
                unused_ns: Some(0.0),
            });
            let sum = |a: Option<f64>, b: Option<f64>| Some(a? + b? / runs);
            entry.nodes += 1;
            entry.calls += node.calls as f64 / runs;
            entry.ns += node.wall_ns as f64 / runs;
            entry.share += node.share;
            entry.serial_ns = sum(entry.serial_ns, serial_ns);
            entry.unused_ns = sum(entry.unused_ns, unused_ns.filter(|_| known));
        }
        Ok(ModelValue {
            model: model.display().to_string(),
            run_ns: summary.wall_ns as f64 / runs,
            saved: saved(setup, arguments.common.no_profiles),
            uses,
        })
    }

    fn totals(&self, lines: &[Line]) -> Totals {
        let used = || lines.iter().filter(|line| line.uses.is_some());
        Totals {
            share: used()
                .filter_map(|line| line.uses.as_ref())
                .map(|u| u.share)
                .sum(),
            seconds: used().map(|line| line.seconds_at_most).sum(),
            most_ns: used()
                .filter_map(|line| line.worth.as_ref())
                .filter_map(Worth::most_ns)
                .sum(),
            unknown: used()
                .filter(|line| line.worth.as_ref().is_some_and(|w| w.most_ns().is_none()))
                .count(),
        }
    }

    fn document(&self, lines: &[Line]) -> serde_json::Value {
        let totals = self.totals(lines);
        serde_json::json!({
            "path": self.model,
            "run_ns": self.run_ns,
            "share": totals.share,
            "seconds_at_most": totals.seconds,
            "worth_at_most_ns": totals.most_ns,
            "worth_unknown": totals.unknown,
        })
    }
}

/// What the profile folder holds for this execution identity, with the ratios of its evidence.
fn saved(setup: &Setup, unused: bool) -> BTreeMap<KernelKey, Saved> {
    // Rows that the session does not use say what it could gain all the same.
    let folder = match setup.environment.cache_folder() {
        Some(folder) => folder.clone(),
        None => match onl::tuning::CacheFolder::locate() {
            Ok(folder) => folder,
            Err(_) => return BTreeMap::new(),
        },
    };
    let rows = folder.load().choices.rows.into_iter();
    rows.filter(|row| row.execution == setup.execution)
        .map(|row| {
            let record = folder.read_evidence(&row.evidence).ok();
            let ratio = record
                .and_then(|text| serde_json::from_str::<EvidenceRecord>(&text).ok())
                .and_then(|record| Saved::ratio_of(&record.processes));
            let saved = match row.kind {
                RowKind::Promoted => Saved::Promoted {
                    ratio,
                    in_use: !unused && setup.has_choice(&row.key),
                },
                RowKind::DefaultConfirmed => Saved::DefaultConfirmed { ratio },
            };
            (row.key, saved)
        })
        .collect()
}
