//! Page of a kernel baseline.

use super::chart::{self, Bar, Key, Line, LogLog, Mark, Points};
use super::numbers::{bytes, duration, figure, optional, percent};
use super::{chart_block, table, text};
use anyhow::{Context, Result};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Rows of a ranked chart; the table has all.
const CHARTED: usize = 20;

#[derive(Deserialize)]
struct Baseline {
    settings: Settings,
    ceilings: Vec<Ceilings>,
    noise: Noise,
    cases: Vec<Case>,
    models: Vec<Model>,
    serial_regions: Vec<Ranked>,
    parallel_regions: Vec<Ranked>,
}

#[derive(Deserialize)]
struct Settings {
    repeat: u64,
    confidence: f64,
}

#[derive(Deserialize)]
struct Ceilings {
    participants: u64,
    fma: Rate,
    bandwidth: Vec<Level>,
}

#[derive(Deserialize)]
struct Rate {
    best: f64,
}

#[derive(Deserialize)]
struct Level {
    level: String,
    capacity_bytes: Option<f64>,
    working_set_bytes: f64,
    read: Rate,
    add: Rate,
    copy: Rate,
    write: Rate,
}

impl Level {
    /// The highest of its rates.
    fn best(&self) -> f64 {
        let others = self.add.best.max(self.copy.best).max(self.write.best);
        self.read.best.max(others)
    }
}

#[derive(Deserialize)]
struct Noise {
    largest: Option<f64>,
    median: Option<f64>,
}

#[derive(Deserialize)]
struct Case {
    case: String,
    threads: String,
    session_lanes: u64,
    flops: f64,
    bytes_read: f64,
    bytes_written: f64,
    value_source: Option<String>,
    startup_ns: f64,
    samples_ns: Vec<f64>,
    time: MedianTime,
    dispatch_ns: Option<f64>,
    regions: Vec<Region>,
    gflops: Option<f64>,
    gbytes: Option<f64>,
    roofline: Option<Roofline>,
}

#[derive(Deserialize)]
struct MedianTime {
    median_ns: f64,
    lower_ns: Option<f64>,
    upper_ns: Option<f64>,
}

#[derive(Deserialize)]
struct Region {
    path: String,
    grain: u64,
    requested: Spread,
    admitted: Spread,
    participants: Spread,
    utilization: Option<f64>,
    inline_reasons: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct Spread {
    median: u64,
}

#[derive(Deserialize)]
struct Roofline {
    ceiling: String,
    participants: u64,
    share: f64,
}

#[derive(Deserialize)]
struct Model {
    model: String,
    participants: u64,
    run_ns: Vec<f64>,
    complete: bool,
    nodes: Vec<Value>,
}

#[derive(Deserialize)]
struct Ranked {
    rank: u64,
    score: f64,
    share: f64,
    operator: String,
    element_type: String,
    key: String,
    state: String,
    serial_reason: Option<Value>,
    region: Option<String>,
    models: Vec<String>,
    utilization: Option<f64>,
    inline_reasons: BTreeMap<String, u64>,
}

impl Ranked {
    fn name(&self) -> String {
        let of = format!("{}/{}", self.operator, self.element_type);
        match &self.region {
            Some(region) => format!("{of} {region}"),
            None => format!("{of} outside regions"),
        }
    }
}

pub fn body(document: &Value) -> Result<Markup> {
    let report = Baseline::deserialize(document).context("the baseline's fields")?;
    Ok(html! {
        p {
            (report.cases.len()) " rows of cases, " (report.settings.repeat) " samples each, and "
            (report.models.len()) (if report.models.len() == 1 { " model" } else { " models" }) ". Intervals are those of the median at "
            (figure(report.settings.confidence, format!("{:.0} %", 100.0 * report.settings.confidence))) "."
            @if let (Some(largest), Some(median)) = (report.noise.largest, report.noise.median) {
                " Two measurements of the same thing lay apart by " (percent(median)) " in the median and "
                (percent(largest)) " at most: smaller differences say nothing."
            }
        }
        h2 { "Rooflines" }
        (rooflines(&report)?)
        (ceilings_table(&report))
        h2 { "Where models lose time to one lane" }
        (ranked(&report.serial_regions, "Serial regions by lost share of model time", 1,
            "Σ over models of (share of model time) × (1 − 1 / lanes)",
            "What could be gained at most if all lanes shared this work: 1 is the whole time of one model.")?)
        h2 { "Where lanes idle" }
        (ranked(&report.parallel_regions, "Divided regions by idle share of model time", 2,
            "Σ over models of (share of model time) × (1 − utilization)",
            "What could be gained at most if lanes were busy all the time: 1 is the whole time of one model.")?)
        h2 { "Cases" }
        (cases(&report))
        h2 { "Models" }
        (models(&report))
    })
}

fn rooflines(report: &Baseline) -> Result<Markup> {
    let intensity = |case: &Case| case.flops / (case.bytes_read + case.bytes_written).max(1.0);
    let products: Vec<&Case> = report.cases.iter().filter(|c| c.flops > 0.0).collect();
    let intensities = products.iter().map(|case| intensity(case));
    let (low, high) = intensities.fold((0.05_f64, 100.0_f64), |(low, high), v| {
        (low.min(v), high.max(v))
    });
    let mut lines = Vec::new();
    for ceilings in &report.ceilings {
        for level in &ceilings.bandwidth {
            let peak = ceilings.fma.best;
            let ridge = peak / level.best();
            let mut points = vec![(low, low * level.best())];
            points.extend((low..high).contains(&ridge).then_some((ridge, peak)));
            points.push((high, peak.min(high * level.best())));
            lines.push(Line {
                colour: if ceilings.participants == 1 { 1 } else { 2 },
                dashed: ceilings.participants == 1,
                points,
            });
        }
    }
    let series = |rate: fn(&Case) -> Option<f64>, x: &dyn Fn(&Case) -> f64, cases: &[&Case]| {
        let of = |threads: &str| {
            let of_setting = cases.iter().filter(|case| case.threads == threads);
            of_setting
                .filter_map(|case| Some((x(case), rate(case)?)))
                .collect::<Vec<_>>()
        };
        vec![
            Points {
                colour: 3,
                mark: Mark::Circle,
                points: of("serial"),
            },
            Points {
                colour: 4,
                mark: Mark::Square,
                points: of("session"),
            },
        ]
    };
    let roofline = chart::log_log(&LogLog {
        label: "Roofline of products",
        x_title: "floating-point operations per byte read and written",
        y_title: "GFLOP/s",
        lines,
        points: series(|case| case.gflops, &intensity, &products),
        verticals: Vec::new(),
        size: (900, 480),
    })?;
    let all: Vec<&Case> = report.cases.iter().collect();
    let bytes = |case: &Case| case.bytes_read + case.bytes_written;
    let largest = all.iter().map(|case| bytes(case)).fold(1e6, f64::max);
    let bandwidth_lines = report.ceilings.iter().map(|ceilings| {
        let mut points = Vec::new();
        let mut from = 1e3;
        for level in &ceilings.bandwidth {
            let to = level
                .capacity_bytes
                .unwrap_or(largest.max(level.working_set_bytes));
            points.extend([(from, level.best()), (to.max(from), level.best())]);
            from = to.max(from);
        }
        Line {
            colour: if ceilings.participants == 1 { 1 } else { 2 },
            dashed: ceilings.participants == 1,
            points,
        }
    });
    let bandwidth = chart::log_log(&LogLog {
        label: "Bandwidth of all cases",
        x_title: "bytes read and written by a run",
        y_title: "GB/s",
        lines: bandwidth_lines.collect(),
        points: series(|case| case.gbytes, &bytes, &all),
        verticals: Vec::new(),
        size: (900, 480),
    })?;
    let many = report
        .ceilings
        .iter()
        .map(|c| c.participants)
        .max()
        .unwrap_or(1);
    let legend = || {
        vec![
            Key::new(3, "●", "case on one lane"),
            Key::new(
                4,
                "□",
                format!("case under the session default, {many} lanes"),
            ),
            Key::new(1, "┅", "ceiling of one lane"),
            Key::new(2, "━", format!("ceiling of {many} lanes")),
        ]
    };
    Ok(html! {
        @if let Some(svg) = roofline {
            (chart_block(
                "Products: arithmetic against memory",
                &svg,
                &legend(),
                "The line of the level that holds its data bounds a case: slanted where bytes do, level where arithmetic \
                 does. One slanted line per cache level and for main memory.",
            ))
        }
        @if let Some(svg) = bandwidth {
            (chart_block(
                "All kernels: bytes moved against the level that holds them",
                &svg,
                &legend(),
                "Each step of the lines is the measured bandwidth of a level as far as it holds the data. Just beyond a \
                 step a case may lie above the line, because a part of its data stays in the nearer level. Small cases lie \
                 far below: a call costs more than its bytes.",
            ))
        }
    })
}

fn ceilings_table(report: &Baseline) -> Markup {
    let header = [
        ("lanes", "Participants that were measured together."),
        ("ceiling", "Fused multiply-adds, or the level of memory."),
        (
            "holds",
            "Largest working set that the level holds for all participants together.",
        ),
        (
            "FMA",
            "Highest rate of 32-bit operations, a multiply-add counting as two.",
        ),
        ("read", "Highest rate of reads alone."),
        (
            "add",
            "Highest rate of bytes read and written by additions of two arrays into a third.",
        ),
        ("write", "Highest rate of writes alone."),
        ("copy", "Highest rate of bytes read and written by copies."),
    ];
    let mut rows = Vec::new();
    let rate = |rate: f64, unit: &str| figure(rate, format!("{rate:.1} {unit}"));
    for ceilings in &report.ceilings {
        let lanes = || text(ceilings.participants.to_string());
        let fma = rate(ceilings.fma.best, "GFLOP/s");
        rows.push(vec![
            lanes(),
            text("FMA"),
            html! {},
            fma,
            html! {},
            html! {},
            html! {},
            html! {},
        ]);
        for level in &ceilings.bandwidth {
            rows.push(vec![
                lanes(),
                text(&level.level),
                optional(level.capacity_bytes, bytes),
                html! {},
                rate(level.read.best, "GB/s"),
                rate(level.add.best, "GB/s"),
                rate(level.write.best, "GB/s"),
                rate(level.copy.best, "GB/s"),
            ]);
        }
    }
    html! { h3 { "Measured ceilings" } (table(&header, &rows)) }
}

fn ranked(
    list: &[Ranked],
    title: &str,
    colour: usize,
    axis: &str,
    reading: &str,
) -> Result<Markup> {
    let bars: Vec<Bar> = list
        .iter()
        .take(CHARTED)
        .map(|row| Bar {
            name: format!("{}. {}", row.rank, row.name()),
            parts: vec![(colour, row.score)],
            value: format!("{:.4}", row.score),
        })
        .collect();
    let drawn = chart::bars(title, axis, &bars)?;
    let header = [
        ("rank", "Place in the list."),
        (
            "score",
            "What the list is ordered by: the most that could be gained, in shares of model time.",
        ),
        (
            "share",
            "Sum over the models of the part of their time that is spent here.",
        ),
        ("operator", "Operator and element type."),
        (
            "region",
            "Parallel region, or the time that nodes spend outside regions.",
        ),
        (
            "utilization",
            "Busy time of lanes over wall time × admitted lanes.",
        ),
        ("models", "Models in which it occurs."),
        ("state", "State of the kernel in the inventory."),
        (
            "why serial",
            "Reason of a serial path, or why calls ran on the caller alone.",
        ),
        ("kernel", "Key of the kernel."),
    ];
    let rows: Vec<Vec<Markup>> = list
        .iter()
        .map(|row| {
            let reasons = row.inline_reasons.iter();
            let mut why: Vec<String> = reasons.map(|(r, n)| format!("{r} {n}×")).collect();
            if let Some(reason) = &row.serial_reason {
                let part = |name: &str| reason[name].as_str().unwrap_or_default();
                why.insert(0, format!("{}: {}", part("category"), part("reason")));
            }
            vec![
                text(row.rank.to_string()),
                figure(row.score, format!("{:.4}", row.score)),
                percent(row.share),
                text(format!("{}/{}", row.operator, row.element_type)),
                text(row.region.as_deref().unwrap_or("outside regions")),
                optional(row.utilization, percent),
                text(row.models.join(", ")),
                text(&row.state),
                text(why.join("; ")),
                text(&row.key),
            ]
        })
        .collect();
    Ok(html! {
        @if let Some(svg) = drawn {
            (chart_block(title, &svg, &[], reading))
            (table(&header, &rows))
        } @else {
            p { "Nothing is ranked." }
        }
    })
}

fn cases(report: &Baseline) -> Markup {
    let header = [
        (
            "case",
            "Operator, element type, shape of the example, size of the problem.",
        ),
        (
            "threads",
            "serial: num_threads = 1; session: the session default.",
        ),
        ("lanes", "Lanes of the session, the caller included."),
        ("time", "Median of a run's wall time."),
        ("interval", "Interval of the median."),
        ("samples", "Samples taken."),
        (
            "startup",
            "From the model's bytes to the end of the first run.",
        ),
        ("dispatch", "Median time of a run outside the kernel."),
        ("GFLOP/s", "Achieved 32-bit operations per nanosecond."),
        ("GB/s", "Achieved bytes read and written per nanosecond."),
        (
            "roofline",
            "Least time that the ceilings allow over the median.",
        ),
        (
            "ceiling",
            "The ceiling that bounds the case, with its lanes.",
        ),
        (
            "utilization",
            "Busy time of lanes over wall time × admitted lanes, of the longest region.",
        ),
        (
            "lanes asked, admitted, seen",
            "Lanes that kernel and session allow; that were invited; that ran a chunk.",
        ),
        ("grain", "Work units per chunk."),
        (
            "path",
            "Algorithm that the kernel chose, or why it ran on the caller alone.",
        ),
        ("values", "Where the kernel's parameters come from."),
    ];
    let rows: Vec<Vec<Markup>> = report
        .cases
        .iter()
        .map(|case| {
            let region = case.regions.first();
            let rate = |value: f64| figure(value, format!("{value:.2}"));
            vec![
                text(&case.case),
                text(&case.threads),
                text(case.session_lanes.to_string()),
                duration(case.time.median_ns),
                match (case.time.lower_ns, case.time.upper_ns) {
                    (Some(low), Some(high)) => {
                        html! { "[" (duration(low)) ", " (duration(high)) "]" }
                    }
                    _ => html! {},
                },
                text(case.samples_ns.len().to_string()),
                duration(case.startup_ns),
                optional(case.dispatch_ns, duration),
                optional(case.gflops, rate),
                optional(case.gbytes, rate),
                optional(case.roofline.as_ref().map(|r| r.share), percent),
                case.roofline.as_ref().map_or_else(
                    || html! {},
                    |r| text(format!("{}, {} lanes", r.ceiling, r.participants)),
                ),
                optional(region.and_then(|r| r.utilization), percent),
                region.map_or_else(
                    || html! {},
                    |r| {
                        text(format!(
                            "{}, {}, {}",
                            r.requested.median, r.admitted.median, r.participants.median
                        ))
                    },
                ),
                region.map_or_else(|| html! {}, |r| text(r.grain.to_string())),
                region.map_or_else(
                    || html! {},
                    |r| {
                        let reasons = r
                            .inline_reasons
                            .keys()
                            .cloned()
                            .collect::<Vec<_>>()
                            .join(" ");
                        text(format!("{} {reasons}", r.path).trim())
                    },
                ),
                text(case.value_source.as_deref().unwrap_or_default()),
            ]
        })
        .collect();
    table(&header, &rows)
}

fn models(report: &Baseline) -> Markup {
    let header = [
        ("model", "Name of the file without its ending."),
        ("lanes", "Lanes of the session."),
        ("nodes", "Nodes of the plan."),
        ("recorded runs", "Runs whose events were recorded."),
        ("time of a run", "Median wall time of the recorded runs."),
        (
            "events",
            "Whether every event was kept; models of which some were dropped are not ranked.",
        ),
    ];
    let rows: Vec<Vec<Markup>> = report
        .models
        .iter()
        .map(|model| {
            vec![
                text(&model.model),
                text(model.participants.to_string()),
                text(model.nodes.len().to_string()),
                text(model.run_ns.len().to_string()),
                optional(super::numbers::median(model.run_ns.clone()), duration),
                text(if model.complete {
                    "all kept"
                } else {
                    "some dropped"
                }),
            ]
        })
        .collect();
    table(&header, &rows)
}
