//! Ratios as a picture.

use super::report::{Ratio, Report};
use anyhow::{Context, Result};
use plotters::prelude::*;
use std::path::Path;

const WIDTH: u32 = 1_100;
const ROW: u32 = 15;
const HEAD: u32 = 60;
const LABELS: i32 = 470;

/// Draws the ratios to ONNX Runtime of every case with their intervals, on a logarithmic scale, one row each.
pub fn draw(report: &Report, path: &Path) -> Result<()> {
    let drawing = || format!("drawing {}", path.display());
    let rows: u32 = report
        .groups
        .iter()
        .map(|group| group.cases.len() as u32 + 2)
        .sum();
    let size = (WIDTH, HEAD + ROW * rows.max(1) + 40);
    let area = SVGBackend::new(path, size).into_drawing_area();
    let failed = |error: &dyn std::fmt::Display| anyhow::anyhow!("{error}");
    area.fill(&WHITE)
        .map_err(|e| failed(&e))
        .with_context(drawing)?;
    let text = |size: i32| ("sans-serif", size).into_font();
    let at = |ratio: f64| {
        let share = (ratio.clamp(0.25, 16.0) / 0.25).log2() / 6.0;
        LABELS + (share * f64::from(WIDTH as i32 - LABELS - 30)) as i32
    };
    let put = |words: &str, position: (i32, i32), size: i32| {
        area.draw(&Text::new(words.to_owned(), position, text(size)))
            .map_err(|e| failed(&e))
            .with_context(drawing)
    };
    put(
        "Time of ONNX Runtime over time of onl (1 thread blue, 2 threads orange)",
        (10, 10),
        16,
    )?;
    let bottom = size.1 as i32 - 30;
    for ratio in [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0] {
        let style = if ratio == 1.0 {
            BLACK.stroke_width(1)
        } else {
            RGBColor(210, 210, 210).stroke_width(1)
        };
        let x = at(ratio);
        area.draw(&PathElement::new(
            vec![(x, HEAD as i32 - 15), (x, bottom)],
            style,
        ))
        .map_err(|e| failed(&e))
        .with_context(drawing)?;
        put(&format!("{ratio}"), (x - 8, HEAD as i32 - 30), 12)?;
    }
    let mut y = HEAD as i32;
    for group in &report.groups {
        y += ROW as i32 / 2;
        put(&group.title, (10, y), 14)?;
        y += ROW as i32;
        for case in &group.cases {
            put(&shortened(&case.case), (20, y), 11)?;
            let ratios = case
                .ratios
                .iter()
                .filter(|ratio| ratio.peer == "onnxruntime");
            for ratio in ratios {
                let color = if ratio.threads == 1 {
                    RGBColor(31, 119, 180)
                } else {
                    RGBColor(255, 127, 14)
                };
                let height = y + 4 + if ratio.threads == 1 { 0 } else { 4 };
                let Ratio {
                    low, median, high, ..
                } = ratio;
                let line = PathElement::new(vec![(at(*low), height), (at(*high), height)], color);
                area.draw(&line)
                    .map_err(|e| failed(&e))
                    .with_context(drawing)?;
                let dot = Circle::new((at(*median), height), 2, color.filled());
                area.draw(&dot)
                    .map_err(|e| failed(&e))
                    .with_context(drawing)?;
            }
            y += ROW as i32;
        }
        y += ROW as i32 / 2;
    }
    area.present().map_err(|e| failed(&e)).with_context(drawing)
}

fn shortened(case: &str) -> String {
    const MOST: usize = 78;
    if case.chars().count() <= MOST {
        return case.to_owned();
    }
    case.chars().take(MOST - 1).chain(['…']).collect()
}
