//! Charts as SVG whose colours are those of the page, light or dark.

use super::numbers::short;
use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::fmt::Display;

/// Colours of series as they are drawn; the page replaces each by its own of that number. 0 is the colour of text.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 0, 0),
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];
const FONT: &str = "sans-serif";

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// An entry of a legend.
pub struct Key {
    /// Number of the colour.
    pub colour: usize,
    /// How the series is drawn: a dot, a line, a bar.
    pub sign: &'static str,
    /// Name of the series.
    pub name: String,
}

impl Key {
    /// An entry.
    pub fn new(colour: usize, sign: &'static str, name: impl Into<String>) -> Self {
        let name = name.into();
        Key { colour, sign, name }
    }
}

/// Shape of points; shapes and colours both tell series apart.
#[derive(Clone, Copy)]
pub enum Mark {
    Circle,
    Square,
    Triangle,
}

/// Points of one series.
pub struct Points {
    pub colour: usize,
    pub mark: Mark,
    pub points: Vec<(f64, f64)>,
}

/// A line through points.
pub struct Line {
    pub colour: usize,
    pub dashed: bool,
    pub points: Vec<(f64, f64)>,
}

/// What a chart with two logarithmic axes shows.
pub struct LogLog<'a> {
    /// What it is, for those who cannot see it.
    pub label: &'a str,
    pub x_title: &'a str,
    pub y_title: &'a str,
    pub lines: Vec<Line>,
    pub points: Vec<Points>,
    /// Vertical lines.
    pub verticals: Vec<(usize, f64)>,
    pub size: (u32, u32),
}

fn fail(error: impl Display) -> anyhow::Error {
    anyhow!("a chart cannot be drawn: {error}")
}

/// Draws into an SVG that takes the page's colours and width.
fn svg(
    size: (u32, u32),
    label: &str,
    draw: impl FnOnce(&Area<'_>) -> Result<()>,
) -> Result<String> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw(&area)?;
        area.present().map_err(fail)?;
    }
    for (number, colour) in COLOURS.iter().enumerate() {
        let drawn = format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2);
        let replaced = match number {
            0 => "currentColor".to_owned(),
            n => format!("var(--c{n})"),
        };
        text = text.replace(&drawn, &replaced);
    }
    let label = label
        .replace('&', "&amp;")
        .replace('"', "&quot;")
        .replace('<', "&lt;");
    let start = format!("<svg width=\"{}\" height=\"{}\"", size.0, size.1);
    let opened = format!("<svg role=\"img\" aria-label=\"{label}\"");
    Ok(text.replacen(&start, &opened, 1))
}

fn words(size: u32) -> TextStyle<'static> {
    (FONT, size).into_font().color(&BLACK)
}

fn anchored(size: u32, horizontal: HPos, vertical: VPos) -> TextStyle<'static> {
    words(size).pos(Pos::new(horizontal, vertical))
}

/// Least and largest positive value with room at both ends.
fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let positive = values.filter(|v| v.is_finite() && *v > 0.0);
    let (low, high) = positive.fold((f64::INFINITY, 0.0_f64), |(low, high), v| {
        (low.min(v), high.max(v))
    });
    (high > 0.0).then(|| (low / 1.4, high * 1.4))
}

/// A chart with two logarithmic axes; `None` when there is nothing to show.
pub fn log_log(chart: &LogLog<'_>) -> Result<Option<String>> {
    let of_lines = chart.lines.iter().flat_map(|line| &line.points);
    let all = || {
        of_lines
            .clone()
            .chain(chart.points.iter().flat_map(|series| &series.points))
            .copied()
    };
    let x = range(
        all()
            .map(|p| p.0)
            .chain(chart.verticals.iter().map(|v| v.1)),
    );
    let (Some(x), Some(y)) = (x, range(all().map(|p| p.1))) else {
        return Ok(None);
    };
    let small = chart.size.0 < 500;
    let font = if small { 11 } else { 14 };
    let drawn = svg(chart.size, chart.label, |area| {
        let mut plot = ChartBuilder::on(area)
            .margin(6)
            .margin_right(18)
            .x_label_area_size(if small { 34 } else { 46 })
            .y_label_area_size(if small { 52 } else { 70 })
            .build_cartesian_2d((x.0..x.1).log_scale(), (y.0..y.1).log_scale())
            .map_err(fail)?;
        plot.configure_mesh()
            .x_desc(chart.x_title)
            .y_desc(chart.y_title)
            .x_labels(if small { 5 } else { 9 })
            .y_labels(if small { 5 } else { 8 })
            .x_label_formatter(&|v| short(*v))
            .y_label_formatter(&|v| short(*v))
            .label_style(words(font))
            .axis_desc_style(words(font))
            .axis_style(BLACK.mix(0.6))
            .bold_line_style(BLACK.mix(0.12))
            .light_line_style(TRANSPARENT)
            .draw()
            .map_err(fail)?;
        for line in &chart.lines {
            let style = COLOURS[line.colour].stroke_width(2);
            let points = line.points.iter().copied();
            if line.dashed {
                let dashes = DashedPathElement::new(points, 7, 5, style);
                plot.draw_series(std::iter::once(dashes)).map_err(fail)?;
            } else {
                let path = PathElement::new(points.collect::<Vec<_>>(), style);
                plot.draw_series(std::iter::once(path)).map_err(fail)?;
            }
        }
        for (colour, at) in &chart.verticals {
            let path = vec![(*at, y.0), (*at, y.1)];
            let path = PathElement::new(path, COLOURS[*colour].stroke_width(2));
            plot.draw_series(std::iter::once(path)).map_err(fail)?;
        }
        for series in &chart.points {
            let colour = COLOURS[series.colour];
            let points = series.points.iter().copied();
            match series.mark {
                Mark::Circle => {
                    let marks = points.map(|p| Circle::new(p, 4, colour.filled()));
                    plot.draw_series(marks).map_err(fail)?;
                }
                Mark::Triangle => {
                    let marks = points.map(|p| TriangleMarker::new(p, 6, colour.filled()));
                    plot.draw_series(marks).map_err(fail)?;
                }
                Mark::Square => {
                    let marks = points.map(|p| {
                        EmptyElement::at(p)
                            + Rectangle::new([(-4, -4), (4, 4)], colour.stroke_width(2))
                    });
                    plot.draw_series(marks).map_err(fail)?;
                }
            }
        }
        Ok(())
    })?;
    Ok(Some(drawn))
}

/// A bar of one or several parts.
pub struct Bar {
    pub name: String,
    /// Colour and length of each part.
    pub parts: Vec<(usize, f64)>,
    /// What is written at its end.
    pub value: String,
}

/// Pixels of a row of bars or intervals.
const ROW: u32 = 24;
/// Pixels for the names of rows.
const NAMES: u32 = 300;
/// Characters of a name that fit there.
const NAME_LENGTH: usize = 42;

fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME_LENGTH {
        return name.to_owned();
    }
    let kept: String = name.chars().take(NAME_LENGTH - 1).collect();
    format!("{kept}…")
}

/// Horizontal bars, the first on top; `None` without bars.
pub fn bars(label: &str, x_title: &str, bars: &[Bar]) -> Result<Option<String>> {
    let length = |bar: &Bar| bar.parts.iter().map(|part| part.1).sum::<f64>();
    let longest = bars.iter().map(length).fold(0.0, f64::max);
    if bars.is_empty() || longest <= 0.0 {
        return Ok(None);
    }
    let count = bars.len() as f64;
    let height = ROW * bars.len() as u32 + 60;
    let drawn = svg((900, height), label, |area| {
        let mut plot = ChartBuilder::on(area)
            .margin(6)
            .margin_right(90)
            .x_label_area_size(44)
            .y_label_area_size(NAMES)
            .build_cartesian_2d(0.0..longest, 0.0..count)
            .map_err(fail)?;
        plot.configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .x_desc(x_title)
            .x_labels(7)
            .x_label_formatter(&|v| short(*v))
            .label_style(words(14))
            .axis_desc_style(words(14))
            .axis_style(BLACK.mix(0.6))
            .bold_line_style(BLACK.mix(0.12))
            .light_line_style(TRANSPARENT)
            .draw()
            .map_err(fail)?;
        for (index, bar) in bars.iter().enumerate() {
            let middle = count - index as f64 - 0.5;
            let mut from = 0.0;
            for (colour, part) in &bar.parts {
                let corners = [(from, middle - 0.36), (from + part, middle + 0.36)];
                let rectangle = Rectangle::new(corners, COLOURS[*colour].filled());
                plot.draw_series(std::iter::once(rectangle)).map_err(fail)?;
                from += part;
            }
            let start = plot.backend_coord(&(0.0, middle));
            let end = plot.backend_coord(&(from, middle));
            let name = Text::new(
                shortened(&bar.name),
                (start.0 - 8, start.1),
                anchored(14, HPos::Right, VPos::Center),
            );
            area.draw(&name).map_err(fail)?;
            let value = Text::new(
                bar.value.clone(),
                (end.0 + 6, end.1),
                anchored(13, HPos::Left, VPos::Center),
            );
            area.draw(&value).map_err(fail)?;
        }
        Ok(())
    })?;
    Ok(Some(drawn))
}

/// A ratio with its interval.
pub struct Whisker {
    pub name: String,
    pub colour: usize,
    pub estimate: f64,
    pub lower: f64,
    pub upper: f64,
}

/// Ratios with their intervals on a logarithmic axis with a line at 1, the first on top; `None` without any.
pub fn whiskers(label: &str, x_title: &str, rows: &[Whisker]) -> Result<Option<String>> {
    let ends = rows.iter().flat_map(|row| [row.lower, row.upper, 1.0]);
    let Some((low, high)) = range(ends).filter(|_| !rows.is_empty()) else {
        return Ok(None);
    };
    let (low, high) = (low * 1.25, high / 1.25);
    let count = rows.len() as f64;
    let height = ROW * rows.len() as u32 + 60;
    let drawn = svg((900, height), label, |area| {
        let mut plot = ChartBuilder::on(area)
            .margin(6)
            .margin_right(70)
            .x_label_area_size(44)
            .y_label_area_size(NAMES)
            .build_cartesian_2d((low..high).log_scale(), 0.0..count)
            .map_err(fail)?;
        plot.configure_mesh()
            .disable_mesh()
            .disable_y_axis()
            .x_desc(x_title)
            // Its own ticks would be at other places than those drawn below.
            .x_labels(0)
            .x_label_formatter(&|_| String::new())
            .axis_desc_style(words(14))
            .axis_style(BLACK.mix(0.6))
            .draw()
            .map_err(fail)?;
        for tick in ticks(low, high) {
            let weight = if tick == 1.0 { 0.7 } else { 0.12 };
            let path = vec![(tick, 0.0), (tick, count)];
            let path = PathElement::new(path, BLACK.mix(weight).stroke_width(1));
            plot.draw_series(std::iter::once(path)).map_err(fail)?;
            let at = plot.backend_coord(&(tick, 0.0));
            let name = Text::new(
                short(tick),
                (at.0, at.1 + 6),
                anchored(14, HPos::Center, VPos::Top),
            );
            area.draw(&name).map_err(fail)?;
        }
        for (index, row) in rows.iter().enumerate() {
            let middle = count - index as f64 - 0.5;
            let colour = COLOURS[row.colour];
            let path = vec![(row.lower, middle), (row.upper, middle)];
            let path = PathElement::new(path, colour.stroke_width(3));
            plot.draw_series(std::iter::once(path)).map_err(fail)?;
            let mark = Circle::new((row.estimate, middle), 5, colour.filled());
            plot.draw_series(std::iter::once(mark)).map_err(fail)?;
            let start = plot.backend_coord(&(low, middle));
            let end = plot.backend_coord(&(row.upper.max(row.estimate), middle));
            let name = Text::new(
                shortened(&row.name),
                (start.0 - 8, start.1),
                anchored(14, HPos::Right, VPos::Center),
            );
            area.draw(&name).map_err(fail)?;
            let value = Text::new(
                format!("{:.3}", row.estimate),
                (end.0 + 8, end.1),
                anchored(13, HPos::Left, VPos::Center),
            );
            area.draw(&value).map_err(fail)?;
        }
        Ok(())
    })?;
    Ok(Some(drawn))
}

/// Round ratios within a range.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let steps = if high / low > 30.0 {
        &[1.0][..]
    } else if high / low > 4.0 {
        &[1.0, 2.0, 5.0][..]
    } else {
        &[1.0, 1.2, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0][..]
    };
    let mut ticks = Vec::new();
    for power in -6..7 {
        for step in steps {
            let tick = step * 10f64.powi(power);
            if (low..=high).contains(&tick) {
                // Products of powers of ten are a hair off.
                ticks.push(if (tick - 1.0).abs() < 1e-9 { 1.0 } else { tick });
            }
        }
    }
    ticks
}
