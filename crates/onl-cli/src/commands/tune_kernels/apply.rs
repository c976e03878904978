//! Measuring and saving.

use super::Arguments;
use super::progress::Bar;
use super::report::{self, Applied};
use super::second::{SecondProcess, common_arguments, myself};
use super::setup::{Setup, build, refuse_debug_build};
use crate::Common;
use crate::exit::Exit;
use anyhow::{Context, Result, bail};
use onl::tuning::identity::sha256_hex;
use onl::tuning::journal::{Journal, JournalContents, JournalSetup, settles};
use onl::tuning::process::{KeyResult, Outcome, calibrate_keys};
use onl::tuning::{
    Calibrator, Clock, Controls, CouplingProbe, MonotonicClock, Progress, SystemEnvironment,
    update_kernel_tuning_cache,
};
use onl::{CalibrationTarget, KernelKey, LaneCosts, ParameterRow, ValueSource};
use onl_evidence::calibration::{
    CALIBRATION_SCHEMA, CalibratedKernel, CalibrationReport, selected_values,
};
use onl_evidence::report::{ReportHead, ReportKind};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Calibrates the selected kernels, or the rest of an interrupted calibration, and saves what was decided.
pub fn apply(arguments: &Arguments, setup: &Setup, keys: &[KernelKey]) -> Result<Exit> {
    let Some(folder) = setup.environment.cache_folder() else {
        bail!("nothing was saved: there is no profile folder; set ONL_TUNING_CACHE");
    };
    // Better now than after a minute of measuring.
    folder.check_writable().context("nothing was saved")?;
    if keys.is_empty() && !arguments.resume {
        if let Some(path) = &arguments.output {
            eprintln!(
                "note: nothing is measured, so {} is not written; leave out --only-missing",
                path.display()
            );
        }
        return report::nothing_missing(arguments, setup);
    }
    refuse_debug_build("nothing was measured or saved")?;
    let evidence_folder = folder.path().join("evidence");
    let mut journal_setup = JournalSetup {
        execution: setup.execution.clone(),
        build: build()?,
        settings: arguments.settings(keys.len()),
        selection: arguments.selection_words(),
        keys: keys.to_vec(),
        lane_costs: LaneCosts::default(),
        lane_costs_measured: false,
    };
    let (mut journal, taken_over) = if arguments.resume {
        let (journal, contents) = resume(&evidence_folder, &journal_setup)?;
        let settled = contents.settled();
        journal_setup.keys = contents.setup.keys;
        journal_setup.lane_costs = contents.setup.lane_costs;
        journal_setup.lane_costs_measured = contents.setup.lane_costs_measured;
        (journal, settled)
    } else {
        let measured = setup.measured_lane_costs();
        journal_setup.lane_costs = match measured {
            Some(costs) => costs,
            None => setup.saved_lane_costs()?,
        };
        journal_setup.lane_costs_measured = measured.is_some();
        let journal = Journal::begin(&evidence_folder, &journal_setup);
        (journal.context("nothing was saved")?, Vec::new())
    };
    let targets = setup.targets(journal_setup.lane_costs);
    let mut rest: Vec<&dyn CalibrationTarget> = Vec::new();
    for key in &journal_setup.keys {
        if taken_over.iter().any(|result| result.key == *key) {
            continue;
        }
        match targets.iter().find(|target| target.key() == key) {
            Some(target) => rest.push(target.as_ref()),
            None => {
                bail!("kernel {key} of the interrupted calibration can no longer be calibrated")
            }
        }
    }
    let before: BTreeMap<KernelKey, ParameterRow> = targets
        .iter()
        .filter(|t| journal_setup.keys.contains(t.key()))
        .map(|t| {
            let explained = setup
                .environment
                .registry()
                .explain(t.key(), &setup.execution);
            let row = explained.map_or_else(|_| t.schema().defaults(), |e| e.row.values);
            (t.key().clone(), row)
        })
        .collect();

    let cancel = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&cancel);
    ctrlc::set_handler(move || flag.store(true, Ordering::SeqCst))
        .context("Ctrl-C cannot be watched")?;
    let (measured, measured_time) = measure(
        arguments,
        setup,
        &journal_setup,
        &rest,
        &taken_over,
        &mut journal,
        &cancel,
    )?;
    let stopped = cancel.load(Ordering::SeqCst);
    let count = taken_over.len();
    let mut results = taken_over;
    results.extend(measured);

    let decided = |r: &KeyResult| {
        matches!(
            r.outcome,
            Outcome::Promoted { .. } | Outcome::DefaultConfirmed { .. }
        )
    };
    let unfinished = results.iter().filter(|r| !settles(&r.outcome)).count();
    let noisy = results.iter().find_map(|r| match &r.outcome {
        Outcome::TooNoisy { reason } => Some(reason.clone()),
        _ => None,
    });
    if let Some(reason) = noisy.filter(|_| !stopped && !results.iter().any(decided)) {
        if results.iter().all(|r| r.evidence.is_empty()) && !arguments.resume {
            journal.discard()?;
        } else {
            journal.end(unfinished)?;
        }
        eprintln!("too noisy to decide, nothing was changed: {reason}");
        return Ok(Exit::TooNoisy);
    }
    let costs = journal_setup
        .lane_costs_measured
        .then_some(journal_setup.lane_costs);
    if results.iter().any(decided) || !stopped {
        update_kernel_tuning_cache(folder, &setup.execution, &results, costs)
            .context("nothing was saved, but what was measured is kept for --resume")?;
    }
    // Only now: a calibration that is killed before its choices are saved can be resumed to save them.
    let journal_path = journal.path().to_owned();
    journal.end(unfinished)?;
    let fresh = resolve_in_fresh_process(&arguments.common)?;
    if let Some(path) = &arguments.output {
        write_report(
            path,
            arguments,
            setup,
            &journal_setup,
            &journal_path,
            &results,
            &fresh,
        )?;
    }
    report::print(&Applied {
        arguments,
        setup,
        lane_costs: journal_setup.lane_costs,
        measured: measured_time,
        before: &before,
        results: &results,
        taken_over: count,
        fresh: &fresh,
        journal: &journal_path,
        settings: &journal_setup.settings,
    })?;
    if stopped {
        eprintln!(
            "stopped by the user: {} of {} kernels were decided and saved; --resume goes on with the others",
            results.iter().filter(|r| decided(r)).count(),
            results.len()
        );
        return Ok(Exit::Failed);
    }
    let failed = |r: &KeyResult| matches!(r.outcome, Outcome::Failed { .. });
    Ok(if results.iter().any(failed) {
        Exit::Failed
    } else {
        Exit::Done
    })
}

/// The interrupted calibration that this one goes on with.
fn resume(folder: &Path, setup: &JournalSetup) -> Result<(Journal, JournalContents)> {
    let (contents, notes) = JournalContents::interrupted(folder, setup)?;
    let Some(contents) = contents else {
        for note in &notes {
            eprintln!("note: {note}");
        }
        bail!(
            "there is no interrupted calibration of this machine, policy, build and selection; start one without --resume"
        );
    };
    let (journal, contents) = Journal::resume(&contents.path)?;
    if contents.complete {
        bail!(
            "'{}' was completed by another process meanwhile",
            contents.path.display()
        );
    }
    let total = contents.setup.keys.len();
    let settled = contents.settled().len();
    eprintln!(
        "resumed: {settled} of {total} kernels were taken over, none of them is measured again"
    );
    if contents.damaged > 0 {
        eprintln!(
            "note: {} unreadable lines of '{}' are ignored",
            contents.damaged,
            contents.path.display()
        );
    }
    Ok((journal, contents))
}

fn measure(
    arguments: &Arguments,
    setup: &Setup,
    journal_setup: &JournalSetup,
    rest: &[&dyn CalibrationTarget],
    taken_over: &[KeyResult],
    journal: &mut Journal,
    cancel: &AtomicBool,
) -> Result<(Vec<KeyResult>, Duration)> {
    if rest.is_empty() {
        return Ok((Vec::new(), Duration::ZERO));
    }
    let (clock, probe) = (MonotonicClock::new(), SystemEnvironment);
    let coupling = setup.lane_cost_probe();
    let calibrator = Calibrator {
        coupling: coupling.as_ref().map(|probe| probe as &dyn CouplingProbe),
        ..setup.calibrator(
            &clock,
            &probe,
            journal_setup.settings.clone(),
            journal_setup.build.clone(),
            Some(setup.ceilings()),
        )
    };
    let second = SecondProcess {
        common: &arguments.common,
        memory: arguments.limits.memory,
        costs: journal_setup.lane_costs,
        ceilings: calibrator.ceilings.clone(),
        cancel,
    };
    let bar = Bar::new(journal_setup.keys.len(), taken_over)?;
    let mut progress = |p: &Progress<'_>| bar.show(p);
    let mut controls = Controls {
        progress: Some(&mut progress),
        cancel: Some(cancel),
        ..Controls::default()
    };
    let start_ns = clock.now_ns();
    let results = calibrate_keys(&calibrator, rest, &second, &mut controls, &mut |result| {
        bar.finished(result);
        journal.key(result)
    });
    bar.clear();
    let elapsed_ns = clock.now_ns().saturating_sub(start_ns);
    let measured = Duration::from_nanos(elapsed_ns.saturating_sub(controls.waited_ns));
    let results =
        results.context("nothing was saved, but what was measured before is kept for --resume")?;
    Ok((results, measured))
}

/// Writes the report of a calibration that was saved.
fn write_report(
    path: &Path,
    arguments: &Arguments,
    setup: &Setup,
    journal_setup: &JournalSetup,
    journal: &Path,
    results: &[KeyResult],
    fresh: &BTreeMap<String, Resolved>,
) -> Result<()> {
    let context = || format!("report {}", path.display());
    let registered: BTreeMap<_, _> = setup
        .environment
        .registry()
        .kernels()?
        .into_iter()
        .collect();
    let mut kernels = Vec::new();
    for key in &journal_setup.keys {
        let Some(result) = results.iter().find(|result| result.key == *key) else {
            continue;
        };
        let schema = registered
            .get(key)
            .with_context(|| format!("kernel {key} is not registered"))?;
        let defaults = schema.defaults();
        let values = match fresh.get(&key.to_string()) {
            Some(resolved) => selected_values(&defaults, &resolved.values, resolved.source),
            None => selected_values(&defaults, &defaults, ValueSource::PortableDefault),
        };
        kernels.push(CalibratedKernel::new(result, values));
    }
    let journal = std::fs::read(journal).with_context(context)?;
    let evidence = results.iter().flat_map(|result| &result.evidence);
    let report = CalibrationReport {
        head: ReportHead::current(
            ReportKind::Calibration,
            CALIBRATION_SCHEMA,
            setup.execution.clone(),
        ),
        selection: arguments.selection.of_report(arguments.only_missing),
        plan: journal_setup.keys.clone(),
        settings: journal_setup.settings.clone(),
        lane_costs: journal_setup.lane_costs,
        lane_costs_measured: journal_setup.lane_costs_measured,
        ceilings: evidence.rev().find_map(|record| record.ceilings.clone()),
        journal_sha256: sha256_hex(&journal),
        kernels,
    };
    let text = onl_evidence::report::write(&report)?;
    std::fs::write(path, text).with_context(context)
}

/// How a fresh process resolves a key.
pub struct Resolved {
    pub source: ValueSource,
    pub values: ParameterRow,
}

/// Every key whose values a fresh process does not take from the portable defaults.
fn resolve_in_fresh_process(common: &Common) -> Result<BTreeMap<String, Resolved>> {
    let output = myself()?
        .args(["tuning", "show", "--json"])
        .args(common_arguments(common))
        .output()
        .context("starting a fresh process")?;
    if !output.status.success() {
        bail!(
            "a fresh process ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    #[derive(serde::Deserialize)]
    struct Shown {
        kernels: Vec<ShownKernel>,
    }
    #[derive(serde::Deserialize)]
    struct ShownKernel {
        key: String,
        source: ValueSource,
        values: ParameterRow,
    }
    let document: Shown =
        serde_json::from_slice(&output.stdout).context("answer of the fresh process")?;
    let resolved = |k: ShownKernel| {
        let (source, values) = (k.source, k.values);
        (k.key, Resolved { source, values })
    };
    Ok(document.kernels.into_iter().map(resolved).collect())
}
