//! The page of a report: one HTML file that needs nothing but itself.

mod attribution;
mod baseline;
mod calibration;
mod chart;
mod numbers;

use super::input::{Head, Input, Kind};
use anyhow::Result;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use numbers::figure;
use serde_json::Value;

const STYLE: &str = include_str!("style.css");

/// Renders a report.
///
/// # Errors
/// When a chart cannot be drawn or the document is not what its schema says.
pub fn render(input: &Input) -> Result<String> {
    let (title, body) = match input.kind {
        Kind::Baseline => ("Kernel baseline", baseline::body(&input.document)?),
        Kind::Calibration => (
            "Calibration of kernels",
            calibration::body(&input.document)?,
        ),
        Kind::Attribution => (
            "Attribution: where the time goes",
            attribution::body(&input.document)?,
        ),
    };
    let head = input.head();
    let name = input.published_name();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                // Without it browsers ask the server for an icon.
                link rel="icon" href="data:,";
                title { (title) ", " (head.architecture()) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { (title) }
                    p class="lead" {
                        (head.processor()) ", " (head.participants()) " lanes. All figures with their raw samples: "
                        a href={ (name) ".json" } { (name) ".json" } "."
                    }
                    (who_and_where(head))
                    (body)
                }
            }
        }
    };
    Ok(page.into_string())
}

/// What the head says.
fn who_and_where(head: &Head) -> Markup {
    let build = &head.build;
    let rows = [
        ("Commit", build.commit.clone()),
        (
            "Build",
            format!("onl {}, {}, {}", build.version, build.profile, build.target),
        ),
        ("Compiler", build.compiler.clone()),
        ("Flags", build.flags.clone()),
    ];
    let of = |prefix: &str, value: &Value| -> Vec<(String, String)> {
        let fields = value.as_object().into_iter().flatten();
        fields
            .map(|(name, value)| (format!("{prefix}.{name}"), words(value)))
            .collect()
    };
    html! {
        details class="head" {
            summary { "Build, processor, execution" }
            div class="scroll" {
                table {
                    tbody {
                        @for (name, text) in rows.iter().filter(|(_, text)| !text.is_empty()) {
                            tr { th scope="row" { (name) } td { (text) } }
                        }
                        @for (name, text) in of("cpu", &head.cpu).into_iter().chain(of("execution", &head.execution)) {
                            tr { th scope="row" { (name) } td { (text) } }
                        }
                    }
                }
            }
        }
    }
}

/// A value of the head in words.
fn words(value: &Value) -> String {
    match value {
        Value::Null => "unknown".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(words).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

/// A chart with title, legend and a sentence on how to read it.
fn chart_block(title: &str, svg: &str, legend: &[chart::Key], reading: &str) -> Markup {
    html! {
        figure {
            figcaption { strong { (title) } }
            div class="scroll chart" { (PreEscaped(svg)) }
            (legend_line(legend))
            p class="reading" { (reading) }
        }
    }
}

fn legend_line(legend: &[chart::Key]) -> Markup {
    html! {
        @if !legend.is_empty() {
            ul class="legend" {
                @for key in legend {
                    li { span class={ "key c" (key.colour) } aria-hidden="true" { (key.sign) } " " (key.name) }
                }
            }
        }
    }
}

/// A table in a box that scrolls by itself; `header` has the meaning of each column as its title.
fn table(header: &[(&str, &str)], rows: &[Vec<Markup>]) -> Markup {
    html! {
        div class="scroll" {
            table {
                thead {
                    tr { @for (name, meaning) in header { th scope="col" title=(meaning) { (name) } } }
                }
                tbody {
                    @for row in rows {
                        tr { @for cell in row { td { (cell) } } }
                    }
                }
            }
        }
        details class="columns" {
            summary { "What the columns mean" }
            dl {
                @for (name, meaning) in header { dt { (name) } dd { (meaning) } }
            }
        }
    }
}

/// Estimate and ends of an interval, each as a figure of the document.
fn interval(ratio: &numbers::Ratio) -> Markup {
    let three = |value: f64| figure(value, format!("{value:.3}"));
    html! { (three(ratio.estimate)) " [" (three(ratio.lower)) ", " (three(ratio.upper)) "]" }
}

fn text(text: impl AsRef<str>) -> Markup {
    html! { (text.as_ref()) }
}
