//! Page of a calibration.

use super::super::rules::kernel_name;
use super::chart::{self, Key, Line, LogLog, Mark, Points, Whisker};
use super::numbers::{Ratio, bytes_words, duration, figure, median, optional};
use super::{chart_block, interval, legend_line, table, text};
use anyhow::{Context, Result};
use maud::{Markup, PreEscaped, html};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Calibration {
    settings: Settings,
    lane_costs: LaneCosts,
    lane_costs_measured: bool,
    ceilings: Option<Ceilings>,
    kernels: Vec<Kernel>,
}

#[derive(Deserialize)]
struct Settings {
    rule: Rule,
}

#[derive(Deserialize)]
struct Rule {
    alpha: f64,
    margin: f64,
    regression_limit: f64,
}

#[derive(Deserialize)]
struct LaneCosts {
    hot_ns: f64,
    cold_ns: f64,
}

#[derive(Deserialize)]
struct Ceilings {
    flops_per_ns: f64,
    bandwidth: Vec<Bandwidth>,
}

#[derive(Deserialize)]
struct Bandwidth {
    working_set_bytes: f64,
    bytes_per_ns: f64,
}

#[derive(Deserialize)]
struct Kernel {
    key: Value,
    values: Vec<Selected>,
    outcome: Outcome,
    evidence: Vec<Evidence>,
}

#[derive(Deserialize)]
struct Selected {
    parameter: String,
    value: Value,
    default: Value,
    source: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Promoted {
        ratio: Ratio,
        rounds: u64,
    },
    DefaultConfirmed {
        reason: Value,
        ratio: Option<Ratio>,
        rounds: u64,
    },
    Void {
        placebo: Ratio,
    },
    Failed {
        reason: String,
    },
    NotMeasured {
        reason: String,
    },
    TooNoisy {
        reason: String,
    },
}

#[derive(Deserialize)]
struct Evidence {
    search: Search,
    samples: Confirmation,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Search {
    Given,
    Crossover {
        samples: Crossover,
        fit: Option<Fit>,
        choice: Option<Value>,
    },
    Race {},
}

#[derive(Deserialize)]
struct Crossover {
    sizes: Vec<f64>,
    fit: Vec<FitPoint>,
    probes: BTreeMap<usize, Vec<Workload>>,
}

#[derive(Deserialize)]
struct FitPoint {
    size: f64,
    pair: Pair,
}

#[derive(Deserialize)]
struct Fit {
    below: FitLine,
    above: FitLine,
}

#[derive(Deserialize)]
struct FitLine {
    fixed_ns: f64,
    slope_ns: f64,
}

#[derive(Deserialize)]
struct Confirmation {
    workloads: Vec<Workload>,
}

#[derive(Deserialize)]
struct Workload {
    name: String,
    pairs: Vec<Pair>,
}

#[derive(Deserialize)]
struct Pair {
    first_ns: f64,
    second_ns: f64,
}

impl Workload {
    /// Median nanoseconds of both forms.
    fn medians(&self) -> (Option<f64>, Option<f64>) {
        let times = |pick: fn(&Pair) -> f64| median(self.pairs.iter().map(pick).collect());
        (times(|p| p.first_ns), times(|p| p.second_ns))
    }
}

impl Outcome {
    fn words(&self) -> String {
        match self {
            Outcome::Promoted { .. } => "promoted".to_owned(),
            Outcome::DefaultConfirmed { reason, .. } => {
                format!("default confirmed: {}", reason_words(reason))
            }
            Outcome::Void { .. } => "void: the default was told apart from itself".to_owned(),
            Outcome::Failed { reason } => format!("failed: {reason}"),
            Outcome::NotMeasured { reason } | Outcome::TooNoisy { reason } => {
                format!("not decided: {reason}")
            }
        }
    }

    fn ratio(&self) -> Option<&Ratio> {
        match self {
            Outcome::Promoted { ratio, .. } | Outcome::Void { placebo: ratio } => Some(ratio),
            Outcome::DefaultConfirmed { ratio, .. } => ratio.as_ref(),
            _ => None,
        }
    }

    fn rounds(&self) -> u64 {
        match self {
            Outcome::Promoted { rounds, .. } | Outcome::DefaultConfirmed { rounds, .. } => *rounds,
            _ => 0,
        }
    }
}

/// A reason to keep the default, from its name and details.
fn reason_words(reason: &Value) -> String {
    match reason {
        Value::String(name) => name.replace('_', " "),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, details)| {
                let details = details.as_object().into_iter().flatten();
                let details: Vec<String> = details
                    .map(|(k, v)| format!("{k} {}", super::words(v)))
                    .collect();
                format!("{} ({})", name.replace('_', " "), details.join(", "))
            })
            .collect(),
        other => other.to_string(),
    }
}

/// A parameter's value; the largest integer means never.
fn value_words(value: &Value) -> String {
    match value {
        Value::Number(n) if n.as_i64() == Some(i64::MAX) => "never".to_owned(),
        other => super::words(other),
    }
}

pub fn body(document: &Value) -> Result<Markup> {
    let report = Calibration::deserialize(document).context("the calibration's fields")?;
    let promoted = report
        .kernels
        .iter()
        .filter(|k| matches!(k.outcome, Outcome::Promoted { .. }));
    let confirmed = report
        .kernels
        .iter()
        .filter(|k| matches!(k.outcome, Outcome::DefaultConfirmed { .. }));
    let rule = &report.settings.rule;
    let (promoted, confirmed) = (promoted.count(), confirmed.count());
    Ok(html! {
        p {
            (promoted) " kernels left their portable default, " (confirmed) " defaults were confirmed, "
            (report.kernels.len() - promoted - confirmed) " were not decided. A value is promoted when it takes at least "
            (figure(rule.margin, format!("{:.0} %", 100.0 * rule.margin)))
            " less time at level " (figure(rule.alpha, format!("{}", rule.alpha)))
            " in each of two processes, and no workload may take more than "
            (figure(rule.regression_limit, format!("{:.0} %", 100.0 * rule.regression_limit))) " longer."
        }
        p {
            "Lanes cost " (duration(report.lane_costs.hot_ns)) " to join while they spin and "
            (duration(report.lane_costs.cold_ns)) " while they are parked ("
            (if report.lane_costs_measured { "measured" } else { "taken over" }) ")."
        }
        (ratios(&report)?)
        (crossovers(&report)?)
        h2 { "Selected values" }
        (selected(&report))
        h2 { "Confirmation by workload" }
        (workloads(&report))
        @if let Some(ceilings) = &report.ceilings {
            h2 { "Ceilings" }
            (ceilings_table(ceilings))
        }
    })
}

fn ratios(report: &Calibration) -> Result<Markup> {
    let mut rows: Vec<Whisker> = Vec::new();
    for kernel in &report.kernels {
        if let Outcome::Promoted { ratio, .. } = &kernel.outcome {
            rows.push(Whisker {
                name: kernel_name(&kernel.key),
                colour: 1,
                estimate: ratio.estimate,
                lower: ratio.lower,
                upper: ratio.upper,
            });
        }
    }
    rows.sort_by(|a, b| a.estimate.total_cmp(&b.estimate));
    let drawn = chart::whiskers(
        "Time ratios of promoted kernels with their intervals",
        "time of the promoted values over time of the default (logarithmic)",
        &rows,
    )?;
    Ok(html! {
        h2 { "Promoted kernels" }
        @match drawn {
            Some(svg) => (chart_block(
                "Time with the promoted values over time with the default",
                &svg,
                &[Key::new(1, "●", "estimate with its 99 % interval")],
                "Left of 1 the promoted values are faster. Each is the smaller of the two gains that two processes showed, \
                 over all workloads on which the values matter.",
            )),
            None => p { "No kernel was promoted: every default is confirmed or undecided." },
        }
    })
}

fn crossovers(report: &Calibration) -> Result<Markup> {
    let mut charts: Vec<(String, String, String)> = Vec::new();
    for kernel in &report.kernels {
        let Some(Evidence {
            search:
                Search::Crossover {
                    samples,
                    fit,
                    choice,
                },
            ..
        }) = kernel.evidence.first()
        else {
            continue;
        };
        let name = kernel_name(&kernel.key);
        if let Some((svg, words)) = crossover(&name, samples, fit.as_ref(), choice.as_ref())? {
            charts.push((name, svg, words));
        }
    }
    if charts.is_empty() {
        return Ok(html! {});
    }
    let legend = [
        Key::new(
            1,
            "━ ●",
            "on the caller alone: fitted line, measured medians",
        ),
        Key::new(
            2,
            "┅ ▲",
            "shared among lanes: fitted line, measured medians",
        ),
        Key::new(3, "│", "chosen threshold"),
    ];
    Ok(html! {
        h2 { "Crossover by kernel" }
        p class="reading" {
            "Time of a call over the size of the problem, both axes logarithmic. From the chosen threshold on lanes share \
             the work. The lines are the cost model that proposes where to look; the points decide."
        }
        (legend_line(&legend))
        div class="small" {
            @for (name, svg, words) in &charts {
                figure {
                    figcaption { strong { (name) } br; (words) }
                    div class="chart" { (PreEscaped(svg)) }
                }
            }
        }
    })
}

/// Chart of one search with what it came to.
fn crossover(
    name: &str,
    samples: &Crossover,
    fit: Option<&Fit>,
    choice: Option<&Value>,
) -> Result<Option<(String, String)>> {
    let mut series: [Vec<(f64, f64)>; 2] = Default::default();
    for point in &samples.fit {
        series[0].push((point.size, point.pair.first_ns));
        series[1].push((point.size, point.pair.second_ns));
    }
    for (index, workloads) in &samples.probes {
        let Some(&size) = samples.sizes.get(*index) else {
            continue;
        };
        for workload in workloads {
            let (first, second) = workload.medians();
            series[0].extend(first.map(|ns| (size, ns)));
            series[1].extend(second.map(|ns| (size, ns)));
        }
    }
    let sizes = samples.sizes.iter().copied();
    let line = |line: &FitLine| -> Vec<(f64, f64)> {
        let at = |size: f64| (size, line.fixed_ns + line.slope_ns * size);
        // A line is a curve on logarithmic axes.
        sizes.clone().map(at).filter(|p| p.1 > 0.0).collect()
    };
    let mut lines = Vec::new();
    if let Some(fit) = fit {
        for (colour, dashed, fitted) in [(1, false, &fit.below), (2, true, &fit.above)] {
            lines.push(Line {
                colour,
                dashed,
                points: line(fitted),
            });
        }
    }
    let (words, threshold) = choice_words(choice);
    let [below, above] = series;
    let drawn = chart::log_log(&LogLog {
        label: &format!("Crossover of {name}: {words}"),
        x_title: "size",
        y_title: "ns",
        lines,
        points: vec![
            Points {
                colour: 1,
                mark: Mark::Circle,
                points: below,
            },
            Points {
                colour: 2,
                mark: Mark::Triangle,
                points: above,
            },
        ],
        verticals: threshold.map(|at| (3, at)).into_iter().collect(),
        size: (360, 250),
    })?;
    Ok(drawn.map(|svg| (svg, words)))
}

/// What a search for a threshold found, and the threshold where it lies among the sizes.
fn choice_words(choice: Option<&Value>) -> (String, Option<f64>) {
    let Some(Value::Object(choice)) = choice else {
        return ("no threshold was found".to_owned(), None);
    };
    let Some((name, details)) = choice.iter().next() else {
        return (String::new(), None);
    };
    let number = |field: &str| details[field].as_f64().unwrap_or_default();
    match name.as_str() {
        "threshold" => (
            format!(
                "threshold {}, between the last loss at {} and the first win at {}",
                number("value"),
                number("last_loss"),
                number("first_win")
            ),
            Some(number("value")),
        ),
        "always" => (
            format!("shared at every size, from {} on", number("value")),
            Some(number("value")),
        ),
        "never" => ("sharing does not pay at any size".to_owned(), None),
        _ => (
            format!("no single threshold: size {} contradicts", number("size")),
            None,
        ),
    }
}

fn selected(report: &Calibration) -> Markup {
    let header = [
        ("kernel", "Library, operator, implementation, element type."),
        (
            "revision",
            "Revision of the kernel's body; a value holds for its revision only.",
        ),
        ("parameter", "Name of the parameter."),
        ("value", "The value that a new session resolves."),
        ("default", "The portable default."),
        (
            "source",
            "Where the value comes from: exact_execution is a row saved for this machine and policy.",
        ),
        ("outcome", "What the calibration came to."),
        (
            "time ratio",
            "Time over that of the default, with its 99 % interval; below 1 is a gain.",
        ),
        (
            "rounds",
            "Rounds of paired samples behind the outcome, both processes together.",
        ),
    ];
    let mut rows = Vec::new();
    for kernel in &report.kernels {
        for (i, value) in kernel.values.iter().enumerate() {
            let first = i == 0;
            let chosen = value_words(&value.value);
            let changed = value.value != value.default;
            rows.push(vec![
                if first {
                    text(kernel_name(&kernel.key))
                } else {
                    html! {}
                },
                if first {
                    text(kernel.key["revision"].to_string())
                } else {
                    html! {}
                },
                text(&value.parameter),
                if changed {
                    html! { strong { (chosen) } }
                } else {
                    text(chosen)
                },
                text(value_words(&value.default)),
                text(&value.source),
                if first {
                    text(kernel.outcome.words())
                } else {
                    html! {}
                },
                match kernel.outcome.ratio() {
                    Some(ratio) if first => interval(ratio),
                    _ => html! {},
                },
                if first {
                    figure(
                        kernel.outcome.rounds() as f64,
                        kernel.outcome.rounds().to_string(),
                    )
                } else {
                    html! {}
                },
            ]);
        }
    }
    table(&header, &rows)
}

fn workloads(report: &Calibration) -> Markup {
    let header = [
        ("kernel", "Library, operator, implementation, element type."),
        (
            "process",
            "The first searched and confirmed, the second confirmed again.",
        ),
        ("workload", "Shape of the case and size of the problem."),
        (
            "pairs",
            "Pairs of samples, default and candidate back to back.",
        ),
        ("default", "Median time of a call with the default."),
        ("candidate", "Median time of a call with the candidate."),
    ];
    let mut rows = Vec::new();
    for kernel in &report.kernels {
        for (process, evidence) in ["first", "second"].iter().zip(&kernel.evidence) {
            for workload in &evidence.samples.workloads {
                let (first, second) = workload.medians();
                rows.push(vec![
                    text(kernel_name(&kernel.key)),
                    text(process),
                    text(&workload.name),
                    text(workload.pairs.len().to_string()),
                    optional(first, duration),
                    optional(second, duration),
                ]);
            }
        }
    }
    html! {
        details {
            summary { (rows.len()) " rows" }
            (table(&header, &rows))
        }
    }
}

fn ceilings_table(ceilings: &Ceilings) -> Markup {
    let header = [
        ("ceiling", "What was measured, all participants together."),
        (
            "rate",
            "Highest rate; samples beyond 105 % of it void their kernel.",
        ),
    ];
    let mut rows = vec![vec![
        text("32-bit fused multiply-adds"),
        figure(
            ceilings.flops_per_ns,
            format!("{:.1} GFLOP/s", ceilings.flops_per_ns),
        ),
    ]];
    for level in &ceilings.bandwidth {
        rows.push(vec![
            text(format!(
                "copy within {}",
                bytes_words(level.working_set_bytes)
            )),
            figure(
                level.bytes_per_ns,
                format!("{:.1} GB/s", level.bytes_per_ns),
            ),
        ]);
    }
    table(&header, &rows)
}
