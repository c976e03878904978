//! Plans, runs, resumes, explains and replays calibrations.

mod apply;
mod explain;
mod plan;
mod progress;
mod replay;
pub mod report;
mod second;
pub mod setup;

pub use second::{ConfirmArguments, common_arguments, confirm, myself};

use crate::Common;
use crate::exit::Exit;
use crate::inputs::InputArguments;
use anyhow::{Result, bail};
use onl::tuning::CalibrationSettings;
use onl::{CpuDescriptor, KernelKey};
use setup::{Limits, Selection, Setup};
use std::path::PathBuf;

/// Most seconds to wait for another coupling of the lanes unless asked for more.
const LONGEST_WATCH: f64 = 30.0;

#[derive(clap::Args)]
pub struct Arguments {
    /// Measure, and save what was decided. Ctrl-C saves the kernels that are finished.
    #[arg(long)]
    apply: bool,
    #[command(flatten)]
    selection: Selection,
    /// Only kernels without a saved choice for this machine and policy.
    #[arg(long)]
    only_missing: bool,
    #[command(flatten)]
    limits: Limits,
    /// Most seconds to wait for another coupling of the lanes, where a host moves the virtual processors of this machine:
    /// thresholds have to hold at every coupling that is seen. By default a second for each kernel, at most 30.
    #[arg(long, value_name = "SECONDS", value_parser = setup::positive)]
    watch: Option<f64>,
    /// Go on with the last interrupted calibration of the same machine, policy, build and selection.
    #[arg(long, requires = "apply")]
    resume: bool,
    /// Also write the report of the calibration to this file: selected values, outcomes and all samples.
    #[arg(long, requires = "apply", value_name = "FILE")]
    output: Option<PathBuf>,
    /// Also tell what every kernel could be worth to this model; its inputs are as for `onl run`.
    #[arg(long, value_name = "MODEL", conflicts_with = "apply")]
    model: Option<PathBuf>,
    #[command(flatten)]
    inputs: InputArguments,
    /// Show from stored evidence how a kernel was decided; measures nothing.
    #[arg(long, value_name = "KEY", conflicts_with_all = ["apply", "model"])]
    explain: Option<String>,
    /// Decide again from the samples in a file of evidence or a journal; measures nothing.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["apply", "model", "explain"])]
    replay: Option<PathBuf>,
    /// Level of the replayed decisions instead of the stored one.
    #[arg(long, requires = "replay", value_name = "LEVEL")]
    alpha: Option<f64>,
    /// Least gain of the replayed decisions instead of the stored one: 0.01 asks for 1 % less time.
    #[arg(long, requires = "replay", value_name = "SHARE")]
    margin: Option<f64>,
    #[command(flatten)]
    common: Common,
}

impl Arguments {
    fn selection_words(&self) -> Vec<String> {
        let mut words = self.selection.words();
        words.extend(self.only_missing.then(|| "--only-missing".to_owned()));
        words
    }

    /// Settings of a calibration of so many kernels.
    fn settings(&self, kernels: usize) -> CalibrationSettings {
        let guest = CpuDescriptor::current().hypervisor == Some(true);
        let watch = self.watch.unwrap_or((kernels as f64).min(LONGEST_WATCH));
        CalibrationSettings {
            coupling_watch_ns: if guest { (watch * 1e9) as u64 } else { 0 },
            ..setup::settings(&self.limits)
        }
    }
}

pub fn run(arguments: &Arguments) -> Result<Exit> {
    if let Some(file) = &arguments.replay {
        return replay::run(file, arguments.alpha, arguments.margin, &arguments.common);
    }
    if let Some(pattern) = &arguments.explain {
        return explain::run(pattern, &arguments.common);
    }
    let setup = Setup::new(&arguments.common)?;
    setup.print_diagnostics()?;
    let targets = setup.targets(setup.saved_lane_costs()?);
    let selected: Vec<_> = targets
        .iter()
        .map(AsRef::as_ref)
        .filter(|t| arguments.selection.holds(t.key()))
        .collect();
    if selected.is_empty() {
        bail!(
            "no calibratable kernel is selected; `onl inventory --state calibratable` lists them"
        );
    }
    let wanted: Vec<_> = selected
        .into_iter()
        .filter(|t| !arguments.only_missing || !setup.has_choice(t.key()))
        .collect();
    if !arguments.apply {
        return plan::run(arguments, &setup, &wanted);
    }
    let keys: Vec<KernelKey> = wanted.iter().map(|t| t.key().clone()).collect();
    apply::apply(arguments, &setup, &keys)
}
