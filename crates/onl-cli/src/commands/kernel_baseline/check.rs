//! Tests again whether promoted rows still beat the default.

use super::Arguments;
use crate::commands::tune_kernels::report::interval;
use crate::commands::tune_kernels::setup::{Selection, Setup, build, refuse_debug_build, settings};
use crate::exit::Exit;
use crate::table::table;
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use onl::CalibrationTarget;
use onl::tuning::drift::{DriftReport, DriftRow, DriftRule, DriftVerdict, check};
use onl::tuning::process::Proposal;
use onl::tuning::{Controls, MonotonicClock, Progress, RowKind, SystemEnvironment};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Measures every promoted row of this machine and policy against the default.
pub fn run(arguments: &Arguments) -> Result<Exit> {
    let setup = Setup::new(&arguments.common)?;
    setup.print_diagnostics()?;
    let promoted = promoted(&setup, &arguments.selection);
    let rows = if promoted.is_empty() {
        Vec::new()
    } else {
        refuse_debug_build("nothing was measured")?;
        measure(arguments, &setup, &promoted)?
    };
    let report = DriftReport::new(setup.execution.clone(), rows);
    let document = serde_json::to_string_pretty(&report)?;
    if let Some(path) = &arguments.output {
        std::fs::write(path, format!("{document}\n"))
            .with_context(|| format!("report {}", path.display()))?;
    }
    if arguments.common.json {
        println!("{document}");
    } else {
        print(&report.kernels);
        eprintln!(
            "{} threads, {} wait",
            setup.execution.participants, setup.execution.wait_mode
        );
    }
    let undecided = |row: &DriftRow| row.verdict == DriftVerdict::Undecided;
    Ok(
        if !report.kernels.is_empty() && report.kernels.iter().all(undecided) {
            eprintln!("no row could be decided, nothing was changed; try again at a quieter time");
            Exit::TooNoisy
        } else {
            Exit::Done
        },
    )
}

/// Promoted rows that this machine and policy use, with their values.
fn promoted(setup: &Setup, selection: &Selection) -> Vec<Proposal> {
    let Some(folder) = setup.environment.cache_folder() else {
        return Vec::new();
    };
    let rows = folder.load().choices.rows.into_iter();
    let mut rows: Vec<Proposal> = rows
        .filter(|row| row.kind == RowKind::Promoted && row.execution == setup.execution)
        .filter(|row| setup.has_choice(&row.key) && selection.holds(&row.key))
        .map(|row| Proposal {
            key: row.key,
            values: row.values,
            level_ns: None,
        })
        .collect();
    rows.sort_by(|a, b| a.key.cmp(&b.key));
    rows
}

fn measure(arguments: &Arguments, setup: &Setup, rows: &[Proposal]) -> Result<Vec<DriftRow>> {
    let targets = setup.targets(setup.saved_lane_costs()?);
    let targets: Vec<&dyn CalibrationTarget> = targets.iter().map(AsRef::as_ref).collect();
    let (clock, probe) = (MonotonicClock::new(), SystemEnvironment);
    let calibrator = setup.calibrator(
        &clock,
        &probe,
        settings(&arguments.limits),
        build()?,
        Some(setup.ceilings()),
    );
    let cancel = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&cancel);
    ctrlc::set_handler(move || flag.store(true, Ordering::SeqCst))
        .context("Ctrl-C cannot be watched")?;
    let bar = ProgressBar::new(rows.len() as u64);
    bar.set_style(
        ProgressStyle::with_template("{bar:24} {pos}/{len} rows: {wide_msg}")
            .context("the progress bar has a legal template")?,
    );
    let mut progress = |p: &Progress<'_>| {
        bar.set_position(p.done as u64);
        bar.set_message(format!("{} {}", p.key, p.step));
    };
    let mut controls = Controls {
        progress: Some(&mut progress),
        cancel: Some(&cancel),
        ..Controls::default()
    };
    let checked = check(
        &calibrator,
        &targets,
        rows,
        &DriftRule::default(),
        &mut controls,
    );
    bar.finish_and_clear();
    Ok(checked)
}

fn print(kernels: &[DriftRow]) {
    if kernels.is_empty() {
        println!("no promoted row is saved for this machine and policy; 0 samples were taken");
        return;
    }
    let mut rows = table(
        &["key", "pairs", "time ratio", "verdict", "why"],
        &["pairs"],
    );
    for row in kernels {
        rows.add_row([
            row.key.clone(),
            row.pairs.to_string(),
            interval(row.ratio.as_ref()),
            row.verdict.name().to_owned(),
            row.reason.clone(),
        ]);
    }
    println!("{rows}");
    let count = |verdict| kernels.iter().filter(|row| row.verdict == verdict).count();
    println!(
        "{} hold, {} drifted, {} undecided; nothing was changed",
        count(DriftVerdict::Holds),
        count(DriftVerdict::Drifted),
        count(DriftVerdict::Undecided)
    );
}
