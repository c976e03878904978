//! Tests under the thread sanitizer, which finds accesses to the same memory that nothing orders.
//!
//! Without a standard library that is instrumented too it reports correct programs, so the library is built as well, from
//! the sources in the toolchain of `test-arm64`.

use crate::{arm64, process};
use anyhow::{Context, Result, bail};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "x86_64-unknown-linux-gnu";
const REPORT: &str = "WARNING: ThreadSanitizer: data race";
/// A test with a race, by target and name.
const PLANTED: [&str; 2] = ["planted_race", "chunks_that_share_memory"];

/// Arguments of `test-threads`.
#[derive(Args)]
pub struct TestArguments {
    /// Packages to test. Separate repeats.
    #[arg(
        short,
        long = "package",
        value_name = "NAME",
        default_value = "onl-executor"
    )]
    packages: Vec<String>,
    /// Folder that keeps the toolchain [default: onl-arm64 in the user's cache folder].
    #[arg(long, value_name = "DIR")]
    toolchain_folder: Option<PathBuf>,
}

/// Runs `test-threads`.
pub fn test(arguments: &TestArguments) -> Result<()> {
    arm64::make_toolchain(arguments.toolchain_folder.as_deref())?;
    let sysroot = process::output(
        Command::new("rustc")
            .env_remove("LD_LIBRARY_PATH")
            .env("RUSTUP_TOOLCHAIN", arm64::TOOLCHAIN)
            .args(["--print", "sysroot"]),
    )?;
    let sources = Path::new(sysroot.trim_end()).join("lib/rustlib/src/rust/library");
    if !sources.exists() {
        bail!(
            "{} is missing: the toolchain has no sources of the standard library to instrument",
            sources.display()
        );
    }
    find_planted_race()?;
    let mut command = sanitized();
    command
        .args(
            arguments
                .packages
                .iter()
                .flat_map(|package| ["-p", package.as_str()]),
        )
        .args(["--lib", "--tests", "--no-fail-fast"]);
    process::run(&mut command).context("tests under the thread sanitizer")?;
    println!("no test raced");
    Ok(())
}

/// `cargo test` under the thread sanitizer.
fn sanitized() -> Command {
    let mut command = arm64::cargo();
    command
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        // What the compiler of a release refuses otherwise: both flags are not stable yet.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", "-Zsanitizer=thread")
        // Tests of forked processes make threads in the child.
        .env("TSAN_OPTIONS", "die_after_fork=0")
        .args(["test", "-Zbuild-std", "--target", TARGET])
        .arg("--target-dir")
        .arg(process::workspace().join("target/tsan"));
    command
}

/// Requires a report about the test that races.
fn find_planted_race() -> Result<()> {
    let [target, name] = PLANTED;
    let mut command = sanitized();
    command.args(["-p", "onl-executor", "--test", target]);
    process::run(command.arg("--no-run")).context("a build under the thread sanitizer")?;
    let mut command = sanitized();
    command.args(["-p", "onl-executor", "--test", target]);
    let output = command
        .args(["--", "--ignored", "--exact", name])
        .output()
        .with_context(|| format!("cannot start {}", process::shown(&command)))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() || !said.contains(REPORT) {
        bail!("the sanitizer does not find the race planted in {target}:\n{said}");
    }
    println!("the planted race is found");
    Ok(())
}
