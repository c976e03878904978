//! `onl compare`: two reports of one kind side by side.

use super::tune_kernels::report::interval;
use crate::exit::Exit;
use crate::table::{duration, table};
use anyhow::{Context, Result};
use onl_evidence::compare::{ComparisonRule, ReportComparison, compare};
use onl_evidence::report::{ReportFigures, read_figures};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub struct Arguments {
    /// Report that is compared with: the other machine, the older commit, before tuning.
    #[arg(value_name = "A")]
    first: PathBuf,
    /// Report of the same kind over the same cases.
    #[arg(value_name = "B")]
    second: PathBuf,
    /// Two-sided confidence of each ratio's interval.
    #[arg(long, default_value_t = ComparisonRule::default().confidence, value_name = "SHARE", value_parser = confidence)]
    confidence: f64,
    /// Relative difference that does not matter; the whole interval must lie beyond it.
    #[arg(long, default_value_t = ComparisonRule::default().margin, value_name = "SHARE", value_parser = margin)]
    margin: f64,
    /// Print one JSON document instead of text.
    #[arg(long)]
    json: bool,
}

fn confidence(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.5..1.0).contains(&value) => Ok(value),
        _ => Err("expected a share of at least 0.5 and below 1".to_owned()),
    }
}

fn margin(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..1.0).contains(&value) => Ok(value),
        _ => Err("expected a share of at least 0 and below 1".to_owned()),
    }
}

pub fn run(arguments: &Arguments) -> Result<Exit> {
    let first = read(&arguments.first)?;
    let second = read(&arguments.second)?;
    let rule = ComparisonRule {
        confidence: arguments.confidence,
        margin: arguments.margin,
    };
    let comparison = compare(&first, &second, rule).with_context(|| {
        format!(
            "{} and {} cannot be compared",
            arguments.first.display(),
            arguments.second.display()
        )
    })?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&comparison)?);
    } else {
        print(&comparison);
    }
    Ok(Exit::Done)
}

fn read(path: &Path) -> Result<ReportFigures> {
    let context = || format!("report {}", path.display());
    let text = std::fs::read_to_string(path).with_context(context)?;
    read_figures(&text).with_context(context)
}

fn print(comparison: &ReportComparison) {
    for warning in &comparison.warnings {
        eprintln!("note: {warning}");
    }
    let mut rows = table(&["", "A", "B"], &[]);
    for difference in &comparison.differences {
        rows.add_row([&difference.field, &difference.first, &difference.second]);
    }
    if comparison.differences.is_empty() {
        println!("same build, processor and execution\n");
    } else {
        println!("{rows}\n");
    }
    let mut rows = table(&["figure", "A", "B", "B / A", "verdict of B"], &["A", "B"]);
    let time = |ns: Option<f64>| ns.map_or_else(String::new, duration);
    for figure in &comparison.figures {
        rows.add_row([
            figure.name.clone(),
            time(figure.first_ns),
            time(figure.second_ns),
            interval(figure.ratio.as_ref()),
            figure.verdict.to_string(),
        ]);
    }
    println!("{rows}");
    for (which, names) in [
        ("A", &comparison.only_first),
        ("B", &comparison.only_second),
    ] {
        if !names.is_empty() {
            println!(
                "{} figures are only in {which}: --json names them",
                names.len()
            );
        }
    }
    let summary = &comparison.summary;
    if let Some(mean) = summary.geometric_mean {
        println!(
            "geometric mean of B / A {mean:.3}: {} faster, {} slower, {} without difference, {} with too few samples",
            summary.faster, summary.slower, summary.no_difference, summary.too_few_samples
        );
        println!(
            "intervals of {} %; beyond a margin of {} % at most {:.1} of these verdicts are expected by chance",
            100.0 * comparison.rule.confidence,
            100.0 * comparison.rule.margin,
            summary.expected_by_chance
        );
    } else {
        println!("no figure of both has samples enough to be compared");
    }
}
