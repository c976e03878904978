//! Measures ceilings, corpus and models, and shows or writes the report.

use super::{Arguments, models, tables};
use crate::commands;
use crate::exit::Exit;
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use onl_evidence::baseline::{BaselineSettings, MeasureControls, measure_baseline, selected};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Median difference of equal sessions from which a measurement is called noisy.
const NOISY: f64 = 0.05;

pub fn run(arguments: &Arguments) -> Result<Exit> {
    if arguments.common.threads != 0 {
        eprintln!(
            "error: kernel-baseline measures under one lane and under the session default; leave --threads out, or use --check"
        );
        return Ok(Exit::Usage);
    }
    if !arguments.selection.words().is_empty() {
        eprintln!("error: --kernel and --element-type belong to --check; choose cases with --op");
        return Ok(Exit::Usage);
    }
    // What cannot be selected or written is better known before the measurement than after it.
    if let Err(error) = selected(&arguments.operators) {
        eprintln!("error: {error}");
        return Ok(Exit::Usage);
    }
    let output = arguments
        .output
        .as_ref()
        .map(|path| {
            let file = File::create(path).with_context(|| format!("report {}", path.display()))?;
            anyhow::Ok((path, file))
        })
        .transpose()?;
    if cfg!(debug_assertions) {
        eprintln!("note: this is a debug build, whose times say nothing; build with --release");
    }
    let environment = commands::environment(&arguments.common);
    let policy = commands::policy(&arguments.common);
    let resolved = environment.resolve(&policy)?;
    for line in resolved
        .diagnostics
        .iter()
        .cloned()
        .chain(environment.profile_diagnostics(&resolved)?)
    {
        eprintln!("note: {line}");
    }
    let models = models::record(arguments)?;
    let settings = BaselineSettings {
        repeat: arguments.repeat,
        operators: arguments.operators.clone(),
        model_runs: arguments.model_runs,
        ..BaselineSettings::default()
    };
    let cancel = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&cancel);
    ctrlc::set_handler(move || flag.store(true, Ordering::SeqCst))
        .context("Ctrl-C cannot be watched")?;
    let bar = ProgressBar::new(0);
    bar.set_style(
        ProgressStyle::with_template("{bar:24} {pos}/{len}: {wide_msg}")
            .context("the progress bar has a legal template")?,
    );
    let mut progress = |name: &str, done: usize, total: usize| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
        bar.set_message(name.to_owned());
    };
    let mut controls = MeasureControls {
        progress: &mut progress,
        cancel: &cancel,
    };
    let report = measure_baseline(&environment, &policy, settings, models, &mut controls);
    bar.finish_and_clear();
    let report = report?;
    if let Some(noise) = report.noise.median.filter(|noise| *noise > NOISY) {
        eprintln!(
            "note: equal sessions differed by {:.0} % in the median, so the machine was busy; measure again at a quieter time",
            100.0 * noise
        );
    }
    if let Some((path, file)) = output {
        let mut writer = BufWriter::new(file);
        serde_json::to_writer_pretty(&mut writer, &report)
            .map_err(anyhow::Error::from)
            .and_then(|()| Ok(writeln!(writer)?))
            .and_then(|()| Ok(writer.flush()?))
            .with_context(|| format!("report {}", path.display()))?;
        eprintln!("note: report written to {}", path.display());
    }
    if arguments.common.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        let rendering = tables::Rendering {
            report: &report,
            top: arguments.top as usize,
        };
        print!("{rendering}");
    }
    Ok(Exit::Done)
}
