//! Development tasks of the workspace. `cargo xtask TASK`; nothing here links a crate of the workspace.

mod accuracy;
mod arm64;
mod cases;
mod fuzz;
mod layers;
mod model_check;
mod models;
mod next_migrations;
mod peer_bench;
mod process;
mod profiling_cost;
mod publish;
mod revisions;
mod thread_sanitizer;
mod tuning_agreement;

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
    /// Measure the errors of the elementary functions and write their page.
    Accuracy(accuracy::AccuracyArguments),
    /// Check that the table of tuning cases is complete and the tests that it names exist.
    CheckCases,
    /// Compare the dependencies of all crates with the table of layers.
    CheckLayers,
    /// Compare the sources of kernel bodies with the committed list: a changed body needs a new revision.
    CheckRevisions(revisions::RevisionArguments),
    /// Fetch or generate the models that tests and benches run.
    FetchModels(models::FetchArguments),
    /// Feed damaged files to the reader of saved choices; installs cargo-fuzz when it is missing.
    FuzzCache(fuzz::FuzzArguments),
    /// Check the executor's protocol with the model checkers loom and shuttle, as it is and with each of its points
    /// weakened, which they must notice.
    ModelCheck(model_check::ModelArguments),
    /// Write the order in which kernels should be migrated from the published reports.
    NextMigrations(next_migrations::NextMigrationsArguments),
    /// Measure kernels beside ONNX Runtime, products also beside OpenBLAS and the crate gemm, and compare with the gates.
    PeerBench(peer_bench::PeerArguments),
    /// Count what profiling that is off costs a region, beside a build that cannot record.
    ProfilingCost,
    /// Check reports of this machine and publish them, with a page each, in `reports/`.
    PublishReport(publish::PublishArguments),
    /// Run the tests of the kernel crates on emulated arm64 processors and compare digests with this machine's.
    TestArm64(arm64::TestArguments),
    /// Run the tests of the executor under the thread sanitizer, with a standard library that is instrumented too.
    TestThreads(thread_sanitizer::TestArguments),
    /// Calibrate this machine several times and compare what was chosen.
    TuningAgreement(tuning_agreement::AgreementArguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Accuracy(arguments) => accuracy::generate(&arguments),
        Task::CheckCases => cases::check_workspace(),
        Task::CheckLayers => layers::check_workspace(),
        Task::CheckRevisions(arguments) => revisions::check_workspace(&arguments),
        Task::FetchModels(arguments) => models::fetch(&arguments),
        Task::FuzzCache(arguments) => fuzz::fuzz(&arguments),
        Task::ModelCheck(arguments) => model_check::check(&arguments),
        Task::NextMigrations(arguments) => next_migrations::generate(&arguments),
        Task::PeerBench(arguments) => peer_bench::bench(&arguments),
        Task::ProfilingCost => profiling_cost::compare(),
        Task::PublishReport(arguments) => publish::publish(&arguments),
        Task::TestArm64(arguments) => arm64::test(&arguments),
        Task::TestThreads(arguments) => thread_sanitizer::test(&arguments),
        Task::TuningAgreement(arguments) => tuning_agreement::compare(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
