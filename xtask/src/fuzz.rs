//! Fuzzing of the reader of saved choices with cargo-fuzz.

use crate::process;
use anyhow::{Context, Result, bail};
use clap::Args;
use std::process::{Command, Stdio};

/// Arguments of `fuzz-cache`.
#[derive(Args)]
pub struct FuzzArguments {
    /// Minutes to fuzz.
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1440))]
    minutes: u64,
}

/// Runs `fuzz-cache`.
pub fn fuzz(arguments: &FuzzArguments) -> Result<()> {
    install()?;
    let folder = process::workspace().join("tests/fuzz");
    let corpus = folder.join("corpus/choices");
    std::fs::create_dir_all(&corpus).with_context(|| format!("creating {}", corpus.display()))?;
    let mut command = cargo_fuzz();
    // The reader has no unsafe code; what counts here are panics and the promises that the target checks.
    command
        .args(["run", "--fuzz-dir"])
        .arg(&folder)
        .args(["--sanitizer", "none", "--target-dir"])
        .arg(process::workspace().join("target/fuzz"))
        .arg("choices")
        .args([&corpus, &folder.join("seeds")])
        .arg("--")
        .arg(format!("-max_total_time={}", arguments.minutes * 60))
        .arg(format!("-dict={}", folder.join("choices.dict").display()))
        .args(["-max_len=8192", "-timeout=20", "-print_final_stats=1"]);
    process::run(&mut command).context(
        "a broken promise; the input is in tests/fuzz/artifacts, repeat it with its path in place of the corpus",
    )?;
    println!("no input broke a promise in {} min", arguments.minutes);
    Ok(())
}

/// `cargo fuzz`, with what the compiler of a release refuses otherwise: instrumentation of coverage is not stable yet.
fn cargo_fuzz() -> Command {
    let mut command = process::cargo();
    command
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTC_BOOTSTRAP", "1")
        .arg("fuzz");
    command
}

fn install() -> Result<()> {
    let known = cargo_fuzz()
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if known.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    let mut command = process::cargo();
    command.args(["install", "--locked", "cargo-fuzz"]);
    process::run(&mut command)?;
    let mut version = cargo_fuzz();
    if process::output(version.arg("--version"))?.is_empty() {
        bail!("cargo-fuzz is installed and does not start");
    }
    Ok(())
}
