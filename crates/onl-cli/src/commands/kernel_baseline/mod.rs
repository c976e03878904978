//! Measures the kernel corpus, the ceilings of the processor and the regions of models; or tests promoted rows again.

mod check;
mod measure;
mod models;
mod tables;

use crate::Common;
use crate::commands::tune_kernels::setup::{Limits, Selection};
use crate::exit::Exit;
use anyhow::Result;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Arguments {
    /// Only cases of this operator: Gemm or Gemm/f32; repeat for more.
    #[arg(long = "op", value_name = "NAME", conflicts_with = "check")]
    operators: Vec<String>,
    /// Samples of each case and thread setting; an interval needs six.
    #[arg(long, default_value_t = 15, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), conflicts_with = "check")]
    repeat: u32,
    /// Also rank the regions of this model; repeat for more.
    #[arg(long = "model", value_name = "FILE", conflicts_with = "check")]
    models: Vec<PathBuf>,
    /// Also rank the regions of every model in this folder that can be run; others are named.
    #[arg(long = "models", value_name = "DIR", conflicts_with = "check")]
    folder: Option<PathBuf>,
    /// Size of a named dimension of the models' inputs, of all models or of one; 1 where not given.
    #[arg(long = "dim", value_name = "[MODEL:]NAME=N", value_parser = models::dimension, conflicts_with = "check")]
    dims: Vec<models::Dimension>,
    /// Recorded runs of each model.
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), conflicts_with = "check")]
    model_runs: u32,
    /// Rows of each ranked table; the document has all.
    #[arg(long, default_value_t = 20, value_name = "N", conflicts_with = "check")]
    top: u32,
    /// Also write the report to this file.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Instead measure every promoted row of this machine and policy against the default; changes nothing, and the
    /// report is for `onl tuning prune --drifted`.
    #[arg(long)]
    check: bool,
    #[command(flatten, next_help_heading = "Options of --check")]
    selection: Selection,
    #[command(flatten)]
    limits: Limits,
    #[command(flatten, next_help_heading = "Common options")]
    common: Common,
}

pub fn run(arguments: &Arguments) -> Result<Exit> {
    if arguments.check {
        check::run(arguments)
    } else {
        measure::run(arguments)
    }
}
