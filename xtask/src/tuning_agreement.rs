//! Whether two independent calibrations of this machine choose the same.

use crate::process::{self, workspace};
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

/// Options of `cargo xtask tuning-agreement`.
#[derive(Args)]
pub struct AgreementArguments {
    /// Calibrations to compare with the first one.
    #[arg(long, default_value_t = 1)]
    repeats: usize,
    /// Most seconds of measuring of each.
    #[arg(long, default_value_t = 90)]
    budget: u32,
    /// Most seconds that each waits for another coupling of the lanes.
    #[arg(long, default_value_t = 300)]
    watch: u32,
}

/// Calibrations that may be of other couplings than the first one before none is waited for any longer.
const MOST_OTHERS: usize = 5;

/// Share of keys on which two calibrations have to agree.
const AGREEING_SHARE: f64 = 0.95;
/// Thresholds are powers of two; neighbours on their grid differ by this factor.
const GRID_STEP: i64 = 2;
const THRESHOLD: &str = "parallel.minimum_elements";

type Choices = BTreeMap<String, BTreeMap<String, Value>>;

/// What a calibration chose, and at how many couplings of the lanes its choices hold; `None` when some were measured at
/// fewer than others.
struct Calibration {
    choices: Choices,
    couplings: Option<usize>,
}

/// Calibrates into folders of their own and compares the choices key by key. A machine whose host left its processors
/// in one place is another one than that whose host moved them, so calibrations are compared that saw as many couplings.
pub fn compare(arguments: &AgreementArguments) -> Result<()> {
    process::run(process::cargo().args(["build", "--release", "--quiet"]))?;
    let mut all = vec![calibrate(arguments)?];
    let mut left = arguments.repeats.max(1);
    while left > 0 {
        let second = calibrate(arguments)?;
        let alike =
            |known: &&Calibration| known.couplings.is_some() && known.couplings == second.couplings;
        let Some(first) = all.iter().find(alike) else {
            ensure!(
                all.len() <= MOST_OTHERS,
                "no two calibrations could measure at as many couplings of the lanes; try again with a longer --watch"
            );
            println!(
                "no calibration before was measured at as many couplings; it is compared with none"
            );
            all.push(second);
            continue;
        };
        left -= 1;
        let (first, second) = (&first.choices, second.choices);
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
fn calibrate(arguments: &AgreementArguments) -> Result<Calibration> {
    let folder = tempfile::tempdir().context("a folder for the profile")?;
    let (budget, watch) = (arguments.budget, arguments.watch);
    let applied = onl(folder.path())
        .args(["tune-kernels", "--apply", "--json"])
        .args(["--budget", &budget.to_string()])
        .args(["--watch", &watch.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .context("the built command")?;
    let status = applied.status;
    let applied: Value = serde_json::from_slice(&applied.stdout)
        .with_context(|| format!("`onl tune-kernels --json` ended with {status}"))?;
    let failed: Vec<String> = applied["kernels"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|kernel| kernel["outcome"].get("failed").is_some())
        .map(|kernel| {
            format!(
                "{}: {}",
                kernel["key"], kernel["outcome"]["failed"]["reason"]
            )
        })
        .collect();
    ensure!(
        status.success(),
        "`onl tune-kernels` ended with {status}: {}",
        failed.join("; ")
    );
    let seconds = applied["measured_seconds"].as_f64().unwrap_or(f64::NAN);
    let couplings = &applied["couplings_ns"];
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
    println!(
        "{} keys decided in {seconds:.0} s of measuring; hand-over of the lanes in ns: {couplings}",
        choices.len()
    );
    let of_promoted: BTreeSet<usize> = applied["kernels"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|kernel| kernel["outcome"].get("promoted").is_some())
        .map(|kernel| kernel["couplings_ns"].as_array().map_or(0, Vec::len))
        .collect();
    Ok(Calibration {
        choices,
        couplings: of_promoted
            .first()
            .copied()
            .filter(|_| of_promoted.len() == 1),
    })
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
