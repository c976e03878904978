//! Claims and the table that sums them up.

use std::fmt;

/// Whether a figure reaches its target.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Met,
    Short,
    NotAvailable,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Met => "met",
            Verdict::Short => "short",
            Verdict::NotAvailable => "not available",
        })
    }
}

/// One line of the contract with what was measured.
pub(crate) struct Claim {
    text: String,
    figure: String,
    target: String,
    verdict: Verdict,
}

impl Claim {
    /// A claim whose figure is described in words.
    pub(crate) fn new(
        text: impl Into<String>,
        figure: impl Into<String>,
        target: impl Into<String>,
        met: bool,
    ) -> Self {
        Claim {
            text: text.into(),
            figure: figure.into(),
            target: target.into(),
            verdict: if met { Verdict::Met } else { Verdict::Short },
        }
    }

    /// A claim of a figure with two decimals that may not exceed a limit.
    pub(crate) fn at_most(text: impl Into<String>, figure: f64, limit: f64, unit: &str) -> Self {
        Claim::new(
            text,
            format!("{figure:.2} {unit}"),
            format!("<= {limit} {unit}"),
            figure <= limit,
        )
    }

    /// A claim of a figure with two decimals that must reach a limit.
    pub(crate) fn at_least(text: impl Into<String>, figure: f64, limit: f64, unit: &str) -> Self {
        Claim::new(
            text,
            format!("{figure:.2} {unit}"),
            format!(">= {limit} {unit}"),
            figure >= limit,
        )
    }

    /// A claim that this machine cannot decide.
    pub(crate) fn not_available(
        text: impl Into<String>,
        target: impl Into<String>,
        reason: &str,
    ) -> Self {
        Claim {
            text: text.into(),
            figure: reason.to_owned(),
            target: target.into(),
            verdict: Verdict::NotAvailable,
        }
    }
}

/// Prints each claim of a section with its figure, its target, and whether a quiet machine measured it.
pub(crate) fn print_summary(results: &[(&str, Claim, bool)]) {
    let mut rows = vec![[
        "section".to_owned(),
        "claim".to_owned(),
        "figure".to_owned(),
        "target".to_owned(),
        "verdict".to_owned(),
        "quiet".to_owned(),
    ]];
    rows.extend(results.iter().map(|(section, claim, quiet)| {
        [
            (*section).to_owned(),
            claim.text.clone(),
            claim.figure.clone(),
            claim.target.clone(),
            claim.verdict.to_string(),
            if *quiet { "yes" } else { "no" }.to_owned(),
        ]
    }));
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max())
        .map(|width| width.unwrap_or(0))
        .collect();
    for row in &rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, &width)| format!("{cell:<width$}"))
            .collect();
        println!("{}", cells.join("  ").trim_end());
    }
    let count = |verdict| {
        results
            .iter()
            .filter(|(_, claim, _)| claim.verdict == verdict)
            .count()
    };
    println!(
        "{} met, {} short, {} not available",
        count(Verdict::Met),
        count(Verdict::Short),
        count(Verdict::NotAvailable)
    );
}
