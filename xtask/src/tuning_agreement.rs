//! Whether two independent calibrations of this machine choose the same.

use crate::process::{self, workspace};
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Options of `cargo xtask tuning-agreement`.
#[derive(Args)]
pub struct AgreementArguments {
    /// Calibrations to compare with the first one.
    #[arg(long, default_value_t = 1)]
    repeats: usize,
    /// Most seconds of measuring of each.
    #[arg(long, default_value_t = 90)]
    budget: u32,
}

/// Share of keys on which two calibrations have to agree.
const AGREEING_SHARE: f64 = 0.95;
/// Thresholds are powers of two; neighbours on their grid differ by this factor.
const GRID_STEP: i64 = 2;
const THRESHOLD: &str = "parallel.minimum_elements";

type Choices = BTreeMap<String, BTreeMap<String, Value>>;

/// Calibrates into folders of their own and compares the choices key by key.
pub fn compare(arguments: &AgreementArguments) -> Result<()> {
    process::run(process::cargo().args(["build", "--release", "--quiet"]))?;
    let first = calibrate(arguments.budget)?;
    for _ in 0..arguments.repeats.max(1) {
        let second = calibrate(arguments.budget)?;
        let both: Vec<&String> = first
            .keys()
            .filter(|key| second.contains_key(*key))
            .collect();
        let decided = first.len().max(second.len());
        ensure!(
            both.len() as f64 >= AGREEING_SHARE * decided as f64,
            "only {} keys were decided by both calibrations; the machine is too noisy, try again on a quiet one",
            both.len()
        );
        let differing: Vec<&String> = both
            .iter()
            .copied()
            .filter(|key| !agree(&first[*key], &second[*key]))
            .collect();
        let agreeing = both.len() - differing.len();
        println!("{agreeing} of {} keys agree", both.len());
        for key in &differing {
            println!("  {key}: {:?} and {:?}", first[*key], second[*key]);
        }
        ensure!(
            agreeing as f64 >= AGREEING_SHARE * both.len() as f64,
            "fewer than {} % of the keys agree",
            AGREEING_SHARE * 100.0
        );
    }
    Ok(())
}

/// Values of all tuned keys after a calibration into an empty folder.
fn calibrate(budget: u32) -> Result<Choices> {
    let folder = tempfile::tempdir().context("a folder for the profile")?;
    let start = Instant::now();
    process::run(
        onl(folder.path())
            .args(["tune-kernels", "--apply", "--json", "--budget"])
            .arg(budget.to_string())
            .stdout(std::process::Stdio::null()),
    )?;
    let seconds = start.elapsed().as_secs_f64();
    let shown = process::output(onl(folder.path()).args(["tuning", "show", "--json"]))?;
    let document: Value = serde_json::from_str(&shown).context("`onl tuning show --json`")?;
    let kernels = document["kernels"]
        .as_array()
        .context("no kernels are shown")?;
    let choices: Choices = kernels
        .iter()
        .filter(|kernel| kernel["source"] == "exact_execution")
        .filter_map(|kernel| {
            let values = kernel["values"].as_object()?;
            let values = values
                .iter()
                .map(|(name, value)| (name.clone(), value.clone()));
            Some((kernel["key"].as_str()?.to_owned(), values.collect()))
        })
        .collect();
    println!("{} keys decided in {seconds:.0} s", choices.len());
    Ok(choices)
}

fn onl(cache: &Path) -> Command {
    let mut command = Command::new(workspace().join("target/release/onl"));
    command.env("ONL_TUNING_CACHE", cache);
    command
}

/// Whether all values are equal, but for thresholds, which may be neighbours.
fn agree(first: &BTreeMap<String, Value>, second: &BTreeMap<String, Value>) -> bool {
    first.keys().eq(second.keys())
        && first.iter().all(|(name, value)| {
            let other = &second[name];
            value == other
                || (name == THRESHOLD
                    && match (value.as_i64(), other.as_i64()) {
                        (Some(a), Some(b)) => a
                            .min(b)
                            .checked_mul(GRID_STEP)
                            .is_some_and(|next| next >= a.max(b)),
                        _ => false,
                    })
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(threshold: i64, tile: i64) -> BTreeMap<String, Value> {
        BTreeMap::from([
            (THRESHOLD.to_owned(), json!(threshold)),
            ("algorithm.tile_m".to_owned(), json!(tile)),
        ])
    }

    #[test]
    fn neighbouring_thresholds_agree_and_other_values_must_be_equal() {
        assert!(agree(&row(8192, 12), &row(16384, 12)));
        assert!(agree(&row(16384, 12), &row(8192, 12)));
        assert!(!agree(&row(8192, 12), &row(32768, 12)));
        assert!(!agree(&row(8192, 12), &row(8192, 6)));
        assert!(agree(&row(i64::MAX, 12), &row(i64::MAX, 12)));
        assert!(!agree(&row(i64::MAX, 12), &row(1 << 20, 12)));
    }
}
