//! Two reports of one kind side by side: two machines, two commits, before and after tuning.
//!
//! The two were measured in different processes, so their samples are not paired: ratios are Hodges–Lehmann shifts of log
//! times with limits of the rank-sum test. Such an interval covers how samples scatter within each of the two runs. It does
//! not cover what changes from run to run, as the places where memory lies; the margin is there for that.

mod heads;

pub use heads::HeadDifference;

use crate::report::{ReportFigures, ReportKind};
use onl_tuning::RatioInterval;
use onl_tuning::statistics::median;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use thiserror::Error;

/// Version of [`ReportComparison`].
pub const COMPARISON_SCHEMA: u32 = 1;

/// When two figures count as different.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ComparisonRule {
    /// Two-sided confidence of each ratio's interval.
    pub confidence: f64,
    /// Relative difference that does not matter: the whole interval must lie beyond it.
    pub margin: f64,
}

impl Default for ComparisonRule {
    fn default() -> Self {
        ComparisonRule {
            confidence: 0.99,
            margin: 0.02,
        }
    }
}

/// What a ratio says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparisonVerdict {
    /// The second report's time is shorter by more than the margin.
    Faster,
    /// It is longer by more than the margin.
    Slower,
    /// Neither is shown.
    NoDifference,
    /// There is no interval.
    TooFewSamples,
}

impl fmt::Display for ComparisonVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            ComparisonVerdict::Faster => "faster",
            ComparisonVerdict::Slower => "slower",
            ComparisonVerdict::NoDifference => "no difference",
            ComparisonVerdict::TooFewSamples => "too few samples",
        })
    }
}

/// A figure in both reports.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedFigure {
    /// What was measured.
    pub name: String,
    /// Median nanoseconds in the first report.
    pub first_ns: Option<f64>,
    /// Median nanoseconds in the second report.
    pub second_ns: Option<f64>,
    /// Samples of the first and of the second report.
    pub samples: [usize; 2],
    /// Second over first with its interval; below 1 the second is faster.
    pub ratio: Option<RatioInterval>,
    /// What that says.
    pub verdict: ComparisonVerdict,
}

/// All figures together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparisonSummary {
    /// Geometric mean of the ratios; absent when there are none.
    pub geometric_mean: Option<f64>,
    /// Figures that are faster in the second report.
    pub faster: usize,
    /// Figures that are slower.
    pub slower: usize,
    /// Figures without a difference.
    pub no_difference: usize,
    /// Figures without an interval.
    pub too_few_samples: usize,
    /// Verdicts of a difference to be expected by chance if no figure differed by more than the margin: at most this many.
    pub expected_by_chance: f64,
}

/// Two reports side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReportComparison {
    /// Version of this structure.
    pub schema: u32,
    /// Kind of both reports.
    pub kind: ReportKind,
    /// When figures count as different.
    pub rule: ComparisonRule,
    /// What differs between the heads.
    pub differences: Vec<HeadDifference>,
    /// Reasons not to trust the times of a report.
    pub warnings: Vec<String>,
    /// Figures that both have, in the order of the first.
    pub figures: Vec<ComparedFigure>,
    /// Figures that only the first has.
    pub only_first: Vec<String>,
    /// Figures that only the second has.
    pub only_second: Vec<String>,
    /// All figures together.
    pub summary: ComparisonSummary,
}

/// Why two reports cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum CompareError {
    #[error(
        "the first report is of kind {first}, the second of kind {second}; compare reports of one kind"
    )]
    Kind {
        first: ReportKind,
        second: ReportKind,
    },
    #[error(
        "they measured different things{}{}; make both reports over the same cases",
        listed("only the first", only_first),
        listed("only the second", only_second)
    )]
    Corpus {
        only_first: Vec<String>,
        only_second: Vec<String>,
    },
}

/// Names that a message gives before it only counts.
const LISTED: usize = 12;

fn listed(who: &str, names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let shown = names[..names.len().min(LISTED)].join(", ");
    match names.len().saturating_sub(LISTED) {
        0 => format!("; {who} has {shown}"),
        more => format!("; {who} has {shown} and {more} more"),
    }
}

/// Names of the first list that the second does not have.
fn missing(first: &[String], second: &[String]) -> Vec<String> {
    let second: BTreeSet<&String> = second.iter().collect();
    let lacks = |name: &&String| !second.contains(name);
    first.iter().filter(lacks).cloned().collect()
}

/// Compares two reports.
///
/// # Errors
/// [`CompareError`] when they are of different kinds or measured different things.
pub fn compare(
    first: &ReportFigures,
    second: &ReportFigures,
    rule: ComparisonRule,
) -> Result<ReportComparison, CompareError> {
    if first.head.kind != second.head.kind {
        return Err(CompareError::Kind {
            first: first.head.kind,
            second: second.head.kind,
        });
    }
    let only_first = missing(&first.corpus, &second.corpus);
    let only_second = missing(&second.corpus, &first.corpus);
    if !only_first.is_empty() || !only_second.is_empty() {
        return Err(CompareError::Corpus {
            only_first,
            only_second,
        });
    }
    let of_second: BTreeMap<&str, &[f64]> = second
        .measurements
        .iter()
        .map(|m| (m.name.as_str(), m.samples_ns.as_slice()))
        .collect();
    let figures: Vec<ComparedFigure> = first
        .measurements
        .iter()
        .filter_map(|m| {
            let other = of_second.get(m.name.as_str())?;
            Some(figure(&m.name, &m.samples_ns, other, rule))
        })
        .collect();
    let names = |report: &ReportFigures| -> Vec<String> {
        report.measurements.iter().map(|m| m.name.clone()).collect()
    };
    let (first_names, second_names) = (names(first), names(second));
    Ok(ReportComparison {
        schema: COMPARISON_SCHEMA,
        kind: first.head.kind,
        rule,
        differences: heads::differences(&first.head, &second.head),
        warnings: heads::warnings(&first.head, &second.head),
        summary: summary(&figures, rule),
        figures,
        only_first: missing(&first_names, &second_names),
        only_second: missing(&second_names, &first_names),
    })
}

fn figure(name: &str, first: &[f64], second: &[f64], rule: ComparisonRule) -> ComparedFigure {
    let ratio = RatioInterval::of_samples(first, second, rule.confidence);
    let verdict = match ratio {
        None => ComparisonVerdict::TooFewSamples,
        Some(ratio) if ratio.upper < 1.0 / (1.0 + rule.margin) => ComparisonVerdict::Faster,
        Some(ratio) if ratio.lower > 1.0 + rule.margin => ComparisonVerdict::Slower,
        Some(_) => ComparisonVerdict::NoDifference,
    };
    ComparedFigure {
        name: name.to_owned(),
        first_ns: median(first),
        second_ns: median(second),
        samples: [first.len(), second.len()],
        ratio,
        verdict,
    }
}

fn summary(figures: &[ComparedFigure], rule: ComparisonRule) -> ComparisonSummary {
    let count = |verdict| figures.iter().filter(|f| f.verdict == verdict).count();
    let ratios = figures.iter().filter_map(|f| f.ratio);
    let logs: Vec<f64> = ratios.map(|ratio| ratio.estimate.ln()).collect();
    let ratios = logs.len() as f64;
    ComparisonSummary {
        geometric_mean: (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / ratios).exp()),
        faster: count(ComparisonVerdict::Faster),
        slower: count(ComparisonVerdict::Slower),
        no_difference: count(ComparisonVerdict::NoDifference),
        too_few_samples: count(ComparisonVerdict::TooFewSamples),
        expected_by_chance: ratios * (1.0 - rule.confidence),
    }
}

#[cfg(test)]
mod tests;
