//! What a calibration prints at its end.

use super::Arguments;
use super::setup::Setup;
use crate::exit::Exit;
use crate::table::{duration, table};
use anyhow::Result;
use onl::tuning::RatioInterval;
use onl::tuning::decision::DecisionRule;
use onl::tuning::process::{KeyResult, Outcome};
use onl::{KernelKey, LaneCosts, ParameterRow};
use std::collections::BTreeMap;
use std::path::Path;

/// A calibration that measured and saved.
pub struct Applied<'a> {
    pub arguments: &'a Arguments,
    pub setup: &'a Setup,
    pub lane_costs: LaneCosts,
    pub before: &'a BTreeMap<KernelKey, ParameterRow>,
    pub results: &'a [KeyResult],
    /// Results of an interrupted calibration among them.
    pub taken_over: usize,
    /// Source of every tuned key as a fresh process resolves it.
    pub fresh: &'a BTreeMap<String, String>,
    pub journal: &'a Path,
    pub rule: &'a DecisionRule,
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
            .map_or("portable_default", String::as_str)
    };
    let count = |name: &str| results.iter().filter(|r| r.outcome.name() == name).count();
    let resolved = results
        .iter()
        .filter(|r| source(&r.key) == "exact_execution")
        .count();
    let decided = count("promoted") + count("default_confirmed");
    let expected = applied.rule.expected_false_promotions(decided);
    if arguments.common.json {
        let rows: Vec<serde_json::Value> = results
            .iter()
            .map(|r| {
                serde_json::json!({
                    "key": r.key.to_string(),
                    "before": before.get(&r.key),
                    "outcome": r.outcome,
                    "source": source(&r.key),
                })
            })
            .collect();
        let document = serde_json::json!({
            "schema": 1,
            "threads": setup.execution.participants,
            "lane_costs": { "hot_ns": lane_costs.hot_ns, "cold_ns": lane_costs.cold_ns },
            "journal": applied.journal,
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
        applied.rule.alpha
    );
    eprintln!(
        "{} threads, {} wait; lanes cost {} hot and {} parked; journal {}",
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
