//! Development tasks of the workspace. `cargo xtask TASK`; nothing here links a crate of the workspace.

mod arm64;
mod layers;
mod models;
mod process;
mod profiling_cost;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Development tasks of the workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Compare the dependencies of all crates with the table of layers.
    CheckLayers,
    /// Fetch or generate the models that tests and benches run.
    FetchModels(models::FetchArguments),
    /// Count what profiling that is off costs a region, beside a build that cannot record.
    ProfilingCost,
    /// Run the tests of the kernel crates on emulated arm64 processors and compare digests with this machine's.
    TestArm64(arm64::TestArguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::CheckLayers => layers::check_workspace(),
        Task::FetchModels(arguments) => models::fetch(&arguments),
        Task::ProfilingCost => profiling_cost::compare(),
        Task::TestArm64(arguments) => arm64::test(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
