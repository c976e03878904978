//! Figures for people, each with the document's own number beside it.

use maud::{Markup, html};
use serde::Deserialize;

/// A ratio of times with its interval.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Ratio {
    /// Estimate.
    pub estimate: f64,
    /// Lower end.
    pub lower: f64,
    /// Upper end.
    pub upper: f64,
}

/// A number as people read it, with the exact one of the document as machine-readable value.
pub fn figure(value: f64, shown: String) -> Markup {
    let exact = serde_json::Number::from_f64(value).map_or_else(String::new, |n| n.to_string());
    html! { data value=(exact) { (shown) } }
}

/// A duration.
pub fn duration(ns: f64) -> Markup {
    figure(ns, duration_words(ns))
}

/// A duration in words.
pub fn duration_words(ns: f64) -> String {
    match ns.abs() {
        n if n < 1e3 => format!("{ns:.0} ns"),
        n if n < 1e6 => format!("{:.2} µs", ns / 1e3),
        n if n < 1e9 => format!("{:.3} ms", ns / 1e6),
        _ => format!("{:.3} s", ns / 1e9),
    }
}

/// A count or rate with an order of magnitude, as ticks of axes show it.
pub fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        n if n >= 1e9 => (value / 1e9, "G"),
        n if n >= 1e6 => (value / 1e6, "M"),
        n if n >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{scaled:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}{unit}")
}

/// A number of bytes.
pub fn bytes(count: f64) -> Markup {
    figure(count, bytes_words(count))
}

/// A number of bytes in words.
pub fn bytes_words(count: f64) -> String {
    const KIB: f64 = 1024.0;
    match count {
        n if n < KIB => format!("{n:.0} B"),
        n if n < KIB * KIB => format!("{:.1} KiB", n / KIB),
        n if n < KIB * KIB * KIB => format!("{:.1} MiB", n / (KIB * KIB)),
        n => format!("{:.2} GiB", n / (KIB * KIB * KIB)),
    }
}

/// A share in percent.
pub fn percent(share: f64) -> Markup {
    figure(share, format!("{:.1} %", 100.0 * share))
}

/// A figure that may be absent.
pub fn optional(value: Option<f64>, shown: impl Fn(f64) -> Markup) -> Markup {
    value.map_or_else(|| html! {}, shown)
}

/// Median; `None` of nothing.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        _ => Some(0.5 * (values[middle - 1] + values[middle])),
    }
}
