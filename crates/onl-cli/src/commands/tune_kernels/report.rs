//! What a calibration prints at its end.

use super::Arguments;
use super::apply::Resolved;
use super::setup::Setup;
use crate::exit::Exit;
use crate::table::{duration, table};
use anyhow::Result;
use onl::tuning::process::{KeyResult, Outcome};
use onl::tuning::{CalibrationSettings, RatioInterval};
use onl::{KernelKey, LaneCosts, ParameterRow, ValueSource};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// A calibration that measured and saved.
pub struct Applied<'a> {
    pub arguments: &'a Arguments,
    pub setup: &'a Setup,
    pub lane_costs: LaneCosts,
    /// Time of measuring, without waiting.
    pub measured: Duration,
    pub before: &'a BTreeMap<KernelKey, ParameterRow>,
    pub results: &'a [KeyResult],
    /// Results of an interrupted calibration among them.
    pub taken_over: usize,
    /// Source of every tuned key as a fresh process resolves it.
    pub fresh: &'a BTreeMap<String, Resolved>,
    pub journal: &'a Path,
    pub settings: &'a CalibrationSettings,
}

/// Every selected kernel has a saved choice.
pub fn nothing_missing(arguments: &Arguments, setup: &Setup) -> Result<Exit> {
    if arguments.common.json {
        let document = serde_json::json!({
            "schema": 1,
            "threads": setup.execution.participants,
            "samples": 0,
            "kernels": [],
        });
        println!("{}", serde_json::to_string_pretty(&document)?);
    } else {
        println!("every selected kernel has a saved choice; 0 samples were taken");
    }
    Ok(Exit::Done)
}

/// The expectation in two digits, rounded up.
fn at_most(expected: f64) -> String {
    if expected <= 0.0 {
        return "0".to_owned();
    }
    let digits = (1 - expected.log10().floor() as i32).max(0);
    let scale = 10f64.powi(digits);
    // Products of decimal levels are a hair above what they stand for.
    let rounded = (expected * scale * (1.0 - 1e-9)).ceil() / scale;
    format!("{rounded:.*}", digits as usize)
}

/// Samples behind a result, of both processes.
fn samples(results: &[KeyResult]) -> usize {
    let of_processes = results.iter().flat_map(|r| &r.evidence);
    of_processes
        .flat_map(|e| &e.samples.workloads)
        .map(|w| w.pairs.len())
        .sum()
}

/// Coupling levels at which samples were taken, the closest first.
fn couplings(results: &[KeyResult]) -> Vec<f64> {
    let records = results.iter().flat_map(|r| &r.evidence);
    let mut levels: Vec<f64> = records
        .filter_map(|e| Some(e.coupling?.handoff_ns))
        .collect();
    levels.sort_by(f64::total_cmp);
    levels.dedup();
    levels
}

/// Prints table or document.
pub fn print(applied: &Applied<'_>) -> Result<()> {
    let Applied {
        arguments,
        setup,
        lane_costs,
        before,
        results,
        fresh,
        ..
    } = *applied;
    let source = |key: &KernelKey| {
        fresh
            .get(&key.to_string())
            .map_or(ValueSource::PortableDefault, |resolved| resolved.source)
            .name()
    };
    let count = |name: &str| results.iter().filter(|r| r.outcome.name() == name).count();
    let resolved = results
        .iter()
        .filter(|r| source(&r.key) == "exact_execution")
        .count();
    let decided = count("promoted") + count("default_confirmed");
    let expected = applied.settings.rule.expected_false_promotions(decided);
    if arguments.common.json {
        let rows: Vec<serde_json::Value> = results
            .iter()
            .map(|r| {
                serde_json::json!({
                    "key": r.key.to_string(),
                    "before": before.get(&r.key),
                    "outcome": r.outcome,
                    "couplings_ns": couplings(std::slice::from_ref(r)),
                    "source": source(&r.key),
                })
            })
            .collect();
        let document = serde_json::json!({
            "schema": 1,
            "threads": setup.execution.participants,
            "lane_costs": { "hot_ns": lane_costs.hot_ns, "cold_ns": lane_costs.cold_ns },
            "journal": applied.journal,
            "couplings_ns": couplings(results),
            "measured_seconds": applied.measured.as_secs_f64(),
            "taken_over": applied.taken_over,
            "decided": decided,
            "expected_false_promotions_at_most": expected,
            "samples": samples(&results[applied.taken_over..]),
            "kernels": rows,
        });
        println!("{}", serde_json::to_string_pretty(&document)?);
        return Ok(());
    }
    let mut rows = table(
        &["key", "before", "now", "time ratio", "samples", "source"],
        &["samples"],
    );
    for result in results {
        let empty = ParameterRow::default();
        let old = before.get(&result.key).unwrap_or(&empty);
        let (was, now, ratio, samples) = match &result.outcome {
            Outcome::Promoted {
                values,
                ratio,
                rounds,
                ..
            } => {
                let (was, now) = difference(old, values);
                (was, now, interval(Some(ratio)), rounds.to_string())
            }
            Outcome::DefaultConfirmed {
                ratio,
                rounds,
                values,
                reason,
                ..
            } => {
                let (was, _) = difference(old, values);
                (
                    was,
                    format!("default confirmed: {reason}"),
                    interval(ratio.as_ref()),
                    rounds.to_string(),
                )
            }
            Outcome::Void { .. } => (
                String::new(),
                "void: placebo told apart".to_owned(),
                String::new(),
                String::new(),
            ),
            Outcome::Failed { reason } => (
                String::new(),
                format!("failed: {reason}"),
                String::new(),
                String::new(),
            ),
            Outcome::NotMeasured { reason } | Outcome::TooNoisy { reason } => (
                String::new(),
                format!("not decided: {reason}"),
                String::new(),
                String::new(),
            ),
        };
        rows.add_row([
            result.key.to_string(),
            was,
            now,
            ratio,
            samples,
            source(&result.key).to_owned(),
        ]);
    }
    println!("{rows}");
    println!(
        "{} promoted, {} defaults confirmed, {} not decided; a fresh process resolves {resolved} of {} from \
         exact_execution",
        count("promoted"),
        count("default_confirmed"),
        results.len() - decided,
        results.len()
    );
    println!(
        "at most {} false promotions are expected among {decided} kernels: each had to win at level {} in two processes",
        at_most(expected),
        applied.settings.rule.alpha
    );
    let couplings = couplings(results);
    if let [only] = couplings.as_slice()
        && applied.settings.coupling_watch_ns > 0
    {
        eprintln!(
            "note: the host may move this machine's virtual processors; one coupling of the lanes was seen ({}), so the \
             thresholds hold for that one; --watch 300 waits longer for others",
            duration(*only)
        );
    } else if couplings.len() > 1 {
        let seen: Vec<String> = couplings.iter().map(|ns| duration(*ns)).collect();
        let seen = seen.join(" and ");
        let narrow = results
            .iter()
            .filter(|r| matches!(r.outcome, Outcome::Promoted { .. }))
            .filter(|r| self::couplings(std::slice::from_ref(r)).len() < couplings.len())
            .count();
        if narrow == 0 {
            eprintln!("the lanes were coupled at {seen} by turns; what was promoted won at each");
        } else {
            eprintln!(
                "note: the lanes were coupled at {seen} by turns, but not long enough at each: {narrow} promoted kernels \
                 were not measured at all of them; a longer --watch waits for that"
            );
        }
    }
    eprintln!(
        "measured for {}; {} threads, {} wait; lanes cost {} hot and {} parked; journal {}",
        duration(applied.measured.as_nanos() as f64),
        setup.execution.participants,
        setup.execution.wait_mode,
        duration(lane_costs.hot_ns),
        duration(lane_costs.cold_ns),
        applied.journal.display()
    );
    Ok(())
}

/// The values that differ, before and after.
fn difference(old: &ParameterRow, new: &ParameterRow) -> (String, String) {
    let mut was = Vec::new();
    let mut now = Vec::new();
    for (name, value) in &new.0 {
        if old.get(name) != Some(value) {
            was.push(
                old.get(name)
                    .map_or_else(String::new, |v| format!("{name}={}", shown(v))),
            );
            now.push(format!("{name}={}", shown(value)));
        }
    }
    (was.join("\n"), now.join("\n"))
}

/// A value, with the largest integer in words.
pub fn shown(value: &onl::ParameterValue) -> String {
    match value {
        onl::ParameterValue::Integer(i64::MAX) => "never".to_owned(),
        other => other.to_string(),
    }
}

/// Estimate and interval of a ratio.
pub fn interval(ratio: Option<&RatioInterval>) -> String {
    ratio.map_or_else(String::new, |r| {
        format!("{:.3} [{:.3}, {:.3}]", r.estimate, r.lower, r.upper)
    })
}

#[cfg(test)]
mod tests {
    use super::at_most;

    #[test]
    fn expectations_are_rounded_up_to_two_digits() {
        for (expected, text) in [
            (0.0, "0"),
            (41.0 * 0.01 * 0.01, "0.0041"),
            (0.00411, "0.0042"),
            (0.5, "0.50"),
            (1.0, "1.0"),
            (12.3, "13"),
        ] {
            assert_eq!(at_most(expected), text);
        }
    }
}
