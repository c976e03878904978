//! The `onl` command: parsing, progress, tables. Results go to stdout, everything else to stderr.

#![forbid(unsafe_code)]

mod commands;
mod exit;
mod inputs;
mod table;

use clap::{Args, Parser, Subcommand};
use exit::Exit;
use onl::{Affinity, Denormals, WaitMode};
use std::process::ExitCode;

/// Runs ONNX models on CPUs, with kernels tuned from measured evidence.
#[derive(Parser)]
#[command(name = "onl", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a model once and show or save its outputs.
    Run(commands::run::Arguments),
    /// Measure a model: load phases, first run, steady runs.
    Bench(commands::bench::Arguments),
    /// Record runs of a model: time by operator, node and parallel region.
    Profile(commands::profile::Arguments),
    /// List every kernel path with its coverage state.
    Inventory(commands::inventory::Arguments),
    /// Measure the kernel corpus, the processor's ceilings and the regions of models; --check tests promoted rows again.
    KernelBaseline(commands::kernel_baseline::Arguments),
    /// Plan the calibration of kernels, or run it and save the profile with --apply.
    TuneKernels(commands::tune_kernels::Arguments),
    /// Look at saved profiles, carry them to other machines, remove them.
    Tuning(commands::tuning::Arguments),
    /// Measure models in onl and in ONNX Runtime, and say where their difference comes from.
    Attribute(commands::attribute::Arguments),
    /// Compare two reports of one kind: machines, commits, before and after tuning.
    Compare(commands::compare::Arguments),
    /// Check that a report follows from its own samples.
    #[command(hide = true)]
    CheckReport(commands::check_report::Arguments),
    /// The second process of a calibration; started by `tune-kernels`.
    #[command(hide = true)]
    ConfirmCalibration(commands::tune_kernels::ConfirmArguments),
    /// A process of a measurement; started by `attribute`.
    #[command(hide = true)]
    AttributionProcess(commands::attribute::ProcessArguments),
    /// One side of a comparison of runtimes; started by `cargo xtask peer-bench`.
    #[command(hide = true)]
    PeerProcess(commands::peer_process::Arguments),
}

/// Options that every command understands.
#[derive(Args, Clone)]
pub struct Common {
    /// Lanes, the caller included; 0 is the session default, 1 is serial.
    #[arg(long, default_value_t = 0, value_name = "N")]
    threads: u32,
    /// How idle lanes wait: latency spins, balanced spins for a bounded time, frugal sleeps at once, fixed:200us spins
    /// for that time.
    #[arg(long, default_value_t, value_name = "MODE")]
    wait: WaitMode,
    /// Where lanes run: none, physical_cores, performance_cores, physical_then_smt, or CPUs as 2,3, the caller's first.
    #[arg(long, default_value_t, value_name = "PLACES")]
    affinity: Affinity,
    /// What float arithmetic does with denormal numbers: preserve or flush.
    #[arg(long, default_value_t, value_name = "MODE")]
    denormals: Denormals,
    /// Use portable defaults instead of saved profiles.
    #[arg(long)]
    no_profiles: bool,
    /// Print one JSON document instead of text.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Run(arguments) => commands::run::run(&arguments),
        Command::Bench(arguments) => commands::bench::run(&arguments),
        Command::Profile(arguments) => commands::profile::run(&arguments),
        Command::Inventory(arguments) => commands::inventory::run(&arguments),
        Command::KernelBaseline(arguments) => commands::kernel_baseline::run(&arguments),
        Command::TuneKernels(arguments) => commands::tune_kernels::run(&arguments),
        Command::Tuning(arguments) => commands::tuning::run(&arguments),
        Command::Attribute(arguments) => commands::attribute::run(&arguments),
        Command::AttributionProcess(arguments) => commands::attribute::process(&arguments),
        Command::PeerProcess(arguments) => commands::peer_process::run(&arguments),
        Command::Compare(arguments) => commands::compare::run(&arguments),
        Command::CheckReport(arguments) => commands::check_report::run(&arguments),
        Command::ConfirmCalibration(arguments) => commands::tune_kernels::confirm(&arguments),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(error) => {
            eprintln!("error: {error:#}");
            Exit::Failed.into()
        }
    }
}
