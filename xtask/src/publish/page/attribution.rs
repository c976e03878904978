//! Page of an attribution.

use super::chart::{self, Bar, Key, Whisker};
use super::numbers::{Ratio, bytes, duration, duration_words, figure, optional, percent};
use super::{chart_block, interval, table, text};
use anyhow::{Context, Result};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

/// Operators of a model that the table lists.
const OPERATORS: usize = 15;

#[derive(Deserialize)]
struct Attribution {
    onnxruntime: Library,
    protocol: Protocol,
    models: Vec<Model>,
}

#[derive(Deserialize)]
struct Library {
    version: String,
}

#[derive(Deserialize)]
struct Protocol {
    rounds: u64,
    warmup: u64,
    min_time_s: f64,
    confidence: f64,
}

#[derive(Deserialize)]
struct Model {
    model: Identity,
    unsupported: Vec<Unsupported>,
    figures: Vec<Figures>,
    noise: Vec<Noise>,
    comparisons: Vec<Comparison>,
    outputs: Outputs,
    operators: Operators,
    decision: Decision,
}

#[derive(Deserialize)]
struct Identity {
    name: String,
    file_bytes: f64,
    inputs: Vec<Shape>,
}

#[derive(Deserialize)]
struct Shape {
    name: String,
    element_type: String,
    dims: Vec<u64>,
}

#[derive(Deserialize)]
struct Unsupported {
    arm: String,
    reason: String,
}

#[derive(Deserialize)]
struct Figures {
    arm: String,
    open_ns: Option<f64>,
    parse_ns: Option<f64>,
    resolve_ns: Option<f64>,
    ready_ns: Option<f64>,
    load_ns: Option<f64>,
    first_run_ns: Option<f64>,
    steady_ns: Option<f64>,
    peak_memory_bytes: Option<f64>,
}

impl Figures {
    /// Phases in the order of the legend.
    fn phases(&self) -> [Option<f64>; 6] {
        [
            self.open_ns,
            self.parse_ns,
            self.resolve_ns,
            self.ready_ns,
            self.first_run_ns,
            self.steady_ns,
        ]
    }
}

#[derive(Deserialize)]
struct Noise {
    quantity: String,
    floor: Option<f64>,
    agrees: Option<bool>,
}

#[derive(Deserialize)]
struct Comparison {
    arm: String,
    reference: String,
    ratios: Vec<QuantityRatio>,
}

#[derive(Deserialize)]
struct QuantityRatio {
    quantity: String,
    ratio: Ratio,
    verdict: String,
}

#[derive(Deserialize)]
struct Outputs {
    loader_equals_protobuf: Option<bool>,
    ort_format_equals_protobuf: Option<bool>,
    onl_relative_l2: Option<f64>,
}

#[derive(Deserialize)]
struct Operators {
    operators: Vec<Operator>,
}

#[derive(Deserialize)]
struct Operator {
    operator: String,
    onl_nodes: u64,
    onl_ns: f64,
    onnxruntime_nodes: u64,
    onnxruntime_ns: f64,
}

#[derive(Deserialize)]
struct Decision {
    kind: String,
    sentence: String,
}

/// Phases with the number of their colour.
const PHASES: [(usize, &str); 6] = [
    (1, "open"),
    (2, "parse"),
    (3, "resolve"),
    (4, "ready"),
    (5, "first run"),
    (6, "one steady run"),
];

/// Name of an arm for people.
fn arm(name: &str) -> &str {
    match name {
        "onl" => "onl",
        "onl_again" => "onl, again",
        "onnxruntime" => "ONNX Runtime, .onnx",
        "onnxruntime_with_onl_loader" => "ONNX Runtime, onl's loader",
        "onnxruntime_ort_format" => "ONNX Runtime, .ort",
        other => other,
    }
}

pub fn body(document: &Value) -> Result<Markup> {
    let report = Attribution::deserialize(document).context("the attribution's fields")?;
    let protocol = &report.protocol;
    Ok(html! {
        p {
            (report.models.len()) " models in onl and in ONNX Runtime " (report.onnxruntime.version)
            ", loaded in four ways. " (protocol.rounds) " rounds with one process per arm, interleaved; "
            (protocol.warmup) " untimed runs, then at least " (protocol.min_time_s)
            " s of runs. Ratios are paired by round, with intervals at "
            (figure(protocol.confidence, format!("{:.0} %", 100.0 * protocol.confidence)))
            ". onl runs twice in every round: what the two differ by is noise."
        }
        h2 { "Decisions" }
        (decisions(&report))
        (overview(&report)?)
        @for model in &report.models {
            (of_model(model)?)
        }
    })
}

fn decisions(report: &Attribution) -> Markup {
    let header = [
        ("model", "Name of the file without its ending."),
        (
            "owner",
            "native_kernel: kernels of onl; loading: its loader; execution_provider: ONNX Runtime; format_tradeoff: \
                   the file format; none: within noise.",
        ),
        ("why", "The decision with its figures."),
    ];
    let rows: Vec<Vec<Markup>> = report
        .models
        .iter()
        .map(|model| {
            vec![
                text(&model.model.name),
                text(model.decision.kind.replace('_', " ")),
                html! { span class="wide" { (model.decision.sentence) } },
            ]
        })
        .collect();
    table(&header, &rows)
}

/// Steady and loading ratios of all models.
fn overview(report: &Attribution) -> Result<Markup> {
    let mut blocks = Vec::new();
    for (quantity, title) in [
        ("steady", "Steady runs: onl over ONNX Runtime"),
        ("load", "Loading: onl over ONNX Runtime"),
    ] {
        let mut rows = Vec::new();
        for model in &report.models {
            let comparison = model
                .comparisons
                .iter()
                .find(|c| c.arm == "onl" && c.reference == "onnxruntime");
            let ratios = comparison.into_iter().flat_map(|c| &c.ratios);
            for ratio in ratios.filter(|r| r.quantity == quantity) {
                rows.push(Whisker {
                    name: model.model.name.clone(),
                    colour: match ratio.verdict.as_str() {
                        "less" => 3,
                        "greater" => 2,
                        _ => 1,
                    },
                    estimate: ratio.ratio.estimate,
                    lower: ratio.ratio.lower,
                    upper: ratio.ratio.upper,
                });
            }
        }
        if let Some(svg) = chart::whiskers(title, "time ratio (logarithmic)", &rows)? {
            blocks.push((title, svg));
        }
    }
    let legend = [
        Key::new(3, "●", "onl faster beyond the noise"),
        Key::new(1, "●", "within the noise"),
        Key::new(2, "●", "onl slower beyond the noise"),
    ];
    Ok(html! {
        @for (title, svg) in &blocks {
            (chart_block(title, svg, &legend, "Below 1 onl is faster. Bars are intervals of the ratio, paired by round."))
        }
    })
}

fn of_model(model: &Model) -> Result<Markup> {
    let inputs: Vec<String> = model
        .model
        .inputs
        .iter()
        .map(|input| format!("{} {}{:?}", input.name, input.element_type, input.dims))
        .collect();
    let bars: Vec<Bar> = model
        .figures
        .iter()
        .map(|figures| {
            let phases = PHASES.iter().zip(figures.phases());
            let parts: Vec<(usize, f64)> = phases
                .filter_map(|((colour, _), ns)| Some((*colour, ns? / 1e6)))
                .collect();
            let total: f64 = parts.iter().map(|part| part.1).sum();
            Bar {
                name: arm(&figures.arm).to_owned(),
                parts,
                value: duration_words(total * 1e6),
            }
        })
        .collect();
    let name = &model.model.name;
    let phases = chart::bars(
        &format!("Phases of {name} by consumer"),
        "milliseconds",
        &bars,
    )?;
    let legend: Vec<Key> = PHASES
        .iter()
        .map(|(colour, name)| Key::new(*colour, "■", *name))
        .collect();
    Ok(html! {
        h2 { (name) }
        p { "File of " (bytes(model.model.file_bytes)) ", inputs "
            (inputs.join(", ")) ". Decision: " strong { (model.decision.kind.replace('_', " ")) } "." }
        @for arm_without in &model.unsupported {
            p { strong { (arm(&arm_without.arm)) } ": " (arm_without.reason) }
        }
        @if let Some(svg) = phases {
            (chart_block(
                "Phases by consumer",
                &svg,
                &legend,
                "Medians over the rounds, one after another as in the life of a process with a single steady run. A phase \
                 that a consumer does not separate is within the next one.",
            ))
        }
        (figures_table(model))
        (comparisons(model))
        (outputs(&model.outputs))
        (operators(&model.operators))
    })
}

fn figures_table(model: &Model) -> Markup {
    let header = [
        ("consumer", "What executes the model and how it is loaded."),
        ("open", "Opening and mapping the file."),
        ("parse", "From bytes to a graph."),
        ("resolve", "From the graph to what is executed."),
        (
            "ready",
            "Until the first run can start, with the phases that the consumer does not separate.",
        ),
        ("load", "All until ready."),
        ("first run", "Wall time of the first run."),
        ("steady", "Median wall time of a run after warm-up."),
        ("peak memory", "Most resident memory."),
    ];
    let rows: Vec<Vec<Markup>> = model
        .figures
        .iter()
        .map(|f| {
            let mut row = vec![text(arm(&f.arm))];
            let times = [
                f.open_ns,
                f.parse_ns,
                f.resolve_ns,
                f.ready_ns,
                f.load_ns,
                f.first_run_ns,
                f.steady_ns,
            ];
            row.extend(times.map(|ns| optional(ns, duration)));
            row.push(optional(f.peak_memory_bytes, bytes));
            row
        })
        .collect();
    html! { h3 { "Medians" } (table(&header, &rows)) }
}

fn comparisons(model: &Model) -> Markup {
    let header = [
        ("consumer", "Numerator."),
        ("reference", "Denominator."),
        ("quantity", "What is compared."),
        (
            "ratio",
            "Paired by round, with its interval; below 1 the consumer is faster or smaller.",
        ),
        (
            "verdict",
            "less or greater when the whole interval lies beyond the noise floor.",
        ),
    ];
    let mut rows = Vec::new();
    for comparison in &model.comparisons {
        for ratio in &comparison.ratios {
            rows.push(vec![
                text(arm(&comparison.arm)),
                text(arm(&comparison.reference)),
                text(ratio.quantity.replace('_', " ")),
                interval(&ratio.ratio),
                text(ratio.verdict.replace('_', " ")),
            ]);
        }
    }
    let noise = model
        .noise
        .iter()
        .filter_map(|noise| Some((noise, noise.floor?)));
    html! {
        h3 { "Ratios" }
        p class="reading" {
            "Noise floor, from the two arms of onl: "
            @for (i, (noise, floor)) in noise.enumerate() {
                @if i > 0 { ", " }
                (noise.quantity.replace('_', " ")) " " (percent(floor))
                @if noise.agrees == Some(false) { " (the arms disagree)" }
            }
            "."
        }
        details {
            summary { (rows.len()) " ratios" }
            (table(&header, &rows))
        }
    }
}

fn outputs(outputs: &Outputs) -> Markup {
    let equal = |equal: Option<bool>| match equal {
        Some(true) => "equal bits",
        Some(false) => "different bits",
        None => "not compared",
    };
    html! {
        p {
            "Outputs: ONNX Runtime with onl's loader and with protobuf: " (equal(outputs.loader_equals_protobuf))
            "; with .ort: " (equal(outputs.ort_format_equals_protobuf))
            @if let Some(distance) = outputs.onl_relative_l2 {
                "; largest relative L2 distance of onl to ONNX Runtime "
                (figure(distance, format!("{distance:.1e}")))
            }
            "."
        }
    }
}

fn operators(operators: &Operators) -> Markup {
    let header = [
        (
            "operator",
            "Operators that ONNX Runtime fused stand under the name that it gives them.",
        ),
        ("nodes in onl", "Nodes of onl's plan."),
        ("time in onl", "Mean time of a profiled run."),
        ("nodes in ONNX Runtime", "Nodes of its optimized graph."),
        ("time in ONNX Runtime", "Mean time of a profiled run."),
    ];
    let rows: Vec<Vec<Markup>> = operators
        .operators
        .iter()
        .take(OPERATORS)
        .map(|row| {
            let time = |nodes: u64, ns: f64| {
                if nodes > 0 {
                    duration(ns)
                } else {
                    html! {}
                }
            };
            vec![
                text(&row.operator),
                text(row.onl_nodes.to_string()),
                time(row.onl_nodes, row.onl_ns),
                text(row.onnxruntime_nodes.to_string()),
                time(row.onnxruntime_nodes, row.onnxruntime_ns),
            ]
        })
        .collect();
    html! {
        @if !rows.is_empty() {
            details {
                summary { "Time by operator" }
                (table(&header, &rows))
            }
        }
    }
}
