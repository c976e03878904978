//! What profiling that is off costs a region: instructions counted by valgrind, beside a build that cannot record.

use crate::process;
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A build without a collector is the same source under this flag.
const WITHOUT_PROFILING: &str = "--cfg onl_without_profiling";
/// Load, compare and jump.
const ONE_BRANCH: i64 = 3;
const REGIONS: u64 = 10_000;

/// Counts the instructions of a region in both builds and compares them.
pub fn compare() -> Result<()> {
    ensure_valgrind()?;
    let with = instructions_per_region(&build("with", "")?)?;
    let without = instructions_per_region(&build("without", WITHOUT_PROFILING)?)?;
    println!("instructions of a serial region of 4 chunks, by callgrind");
    println!("profiling off             {with}");
    println!("built without profiling   {without}");
    let difference = with - without;
    println!("difference                {difference} (one branch: {ONE_BRANCH} at most)");
    ensure!(
        difference <= ONE_BRANCH,
        "profiling that is off costs a region {difference} instructions, more than one branch"
    );
    Ok(())
}

fn ensure_valgrind() -> Result<()> {
    let found = Command::new("valgrind").arg("--version").output();
    if found.is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    let missing = "valgrind is missing and could not be installed; install it and try again";
    process::run(Command::new("apt-get").args(["update", "-qq"])).context(missing)?;
    process::run(
        Command::new("apt-get")
            .args([
                "install",
                "-y",
                "-qq",
                "--no-install-recommends",
                "valgrind",
            ])
            .env("DEBIAN_FRONTEND", "noninteractive"),
    )
    .context(missing)
}

/// Builds the example in a target folder of its own.
fn build(name: &str, flags: &str) -> Result<PathBuf> {
    let target = Path::new("target/profiling-cost").join(name);
    process::run(
        Command::new("cargo")
            .args(["build", "--quiet", "--release", "-p", "onl-executor"])
            .args(["--example", "region_cost", "--target-dir"])
            .arg(&target)
            .env("RUSTFLAGS", flags),
    )?;
    Ok(target.join("release/examples/region_cost"))
}

/// The difference between two numbers of regions leaves out what comes before and after them.
fn instructions_per_region(program: &Path) -> Result<i64> {
    let few = instructions(program, REGIONS)?;
    let many = instructions(program, 2 * REGIONS)?;
    Ok((many - few) / REGIONS as i64)
}

fn instructions(program: &Path, regions: u64) -> Result<i64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .arg(regions.to_string())
        .output()
        .context("valgrind could not be started")?;
    let report = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{} under valgrind failed:\n{report}", program.display());
    }
    report
        .lines()
        .find_map(|line| line.split("Collected :").nth(1))
        .and_then(|count| count.trim().parse().ok())
        .with_context(|| format!("valgrind did not tell a count:\n{report}"))
}
