//! A baseline report for people.

use crate::table::{bytes, duration, table};
use onl_evidence::SerialReason;
use onl_evidence::baseline::{
    BaselineReport, CaseOrigin, CaseRow, LevelCeilings, NoiseFloor, Operand, ParticipantCeilings,
    RankedRegion, RegionFigures, ThreadSetting,
};
use std::fmt;

/// A report, with so many rows of each ranked table.
pub struct Rendering<'r> {
    pub report: &'r BaselineReport,
    pub top: usize,
}

impl fmt::Display for Rendering<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.report;
        let cpu = report.head.cpu.brand.as_deref().unwrap_or("processor");
        let session = &report.policy.session;
        let profiles = if report.policy.profiles {
            "with saved profiles"
        } else {
            "portable defaults"
        };
        writeln!(
            f,
            "{}, {}, session default {} threads, {} wait, {}, {profiles}\n",
            cpu.trim(),
            report.policy.tier,
            session.participants,
            session.wait_mode,
            session.quota
        )?;
        ceilings(f, &report.ceilings)?;
        cases(f, &report.cases)?;
        noise(f, &report.noise, &report.cases)?;
        if report.models.is_empty() {
            return writeln!(
                f,
                "\nno model was given, so no regions are ranked; see --model and --models"
            );
        }
        let names: Vec<&str> = report.models.iter().map(|m| m.model.as_str()).collect();
        writeln!(f, "\nmodels: {}", names.join(", "))?;
        for model in report.models.iter().filter(|model| !model.complete) {
            writeln!(
                f,
                "events of {} were dropped, so it is not ranked; use fewer --model-runs",
                model.model
            )?;
        }
        writeln!(
            f,
            "\nserial regions, by Σ (share of model time) × (1 − 1/participants)"
        )?;
        ranked(f, &report.serial_regions, self.top)?;
        writeln!(
            f,
            "\ndivided regions, by Σ (share of model time) × (1 − utilization)"
        )?;
        ranked(f, &report.parallel_regions, self.top)
    }
}

fn ceilings(f: &mut fmt::Formatter<'_>, ceilings: &[ParticipantCeilings]) -> fmt::Result {
    let header = [
        "participants",
        "ceiling",
        "working set",
        "GFLOP/s",
        "read GB/s",
        "add GB/s",
        "copy GB/s",
        "write GB/s",
    ];
    let mut rows = table(&header, &header[2..]);
    for ceiling in ceilings {
        let participants = ceiling.participants.to_string();
        let mut row = vec![participants.clone(), "fma".to_owned(), String::new()];
        row.push(format!("{:.1}", ceiling.fma.best));
        row.resize(header.len(), String::new());
        rows.add_row(row);
        for level in &ceiling.bandwidth {
            let rate = |rate: fn(&LevelCeilings) -> f64| format!("{:.1}", rate(level));
            rows.add_row([
                participants.clone(),
                level.level.clone(),
                bytes(level.working_set_bytes),
                String::new(),
                rate(|l| l.read.best),
                rate(|l| l.add.best),
                rate(|l| l.copy.best),
                rate(|l| l.write.best),
            ]);
        }
    }
    writeln!(f, "{rows}\n")
}

fn cases(f: &mut fmt::Formatter<'_>, cases: &[CaseRow]) -> fmt::Result {
    let header = [
        "case",
        "threads",
        "median",
        "interval",
        "speed-up",
        "GFLOP/s",
        "GB/s",
        "roofline",
        "of",
        "utilization",
        "lanes",
        "grain",
        "path",
        "dispatch",
        "startup",
    ];
    let right = [
        "median",
        "interval",
        "speed-up",
        "GFLOP/s",
        "GB/s",
        "roofline",
        "utilization",
        "grain",
        "dispatch",
        "startup",
    ];
    let mut rows = table(&header, &right);
    for row in cases {
        let main = row.regions.first();
        let number = |value: Option<f64>| value.map_or_else(String::new, |v| format!("{v:.1}"));
        let percent =
            |value: Option<f64>| value.map_or_else(String::new, |v| format!("{:.0} %", 100.0 * v));
        let name = match row.origin {
            CaseOrigin::Corpus => row.case.clone(),
            CaseOrigin::ResolvedThreshold => format!("{} (threshold)", row.case),
        };
        rows.add_row([
            name,
            row.threads.name().to_owned(),
            duration(row.time.median_ns),
            interval(row),
            speed_up(row, cases),
            number(row.gflops),
            number(row.gbytes),
            percent(row.roofline.as_ref().map(|r| r.share)),
            row.roofline
                .as_ref()
                .map_or_else(String::new, |r| r.ceiling.clone()),
            percent(main.and_then(|region| region.utilization)),
            main.map_or_else(|| "no region".to_owned(), lanes),
            main.map_or_else(String::new, |region| region.grain.to_string()),
            main.map_or_else(String::new, |region| region.path.clone()),
            row.dispatch_ns.map_or_else(String::new, duration),
            duration(row.startup_ns),
        ]);
    }
    writeln!(f, "{rows}")
}

/// Half of the interval's width, relative to the median.
fn interval(row: &CaseRow) -> String {
    match (row.time.lower_ns, row.time.upper_ns) {
        (Some(lower), Some(upper)) if row.time.median_ns > 0.0 => {
            let below = 100.0 * (lower / row.time.median_ns - 1.0);
            let above = 100.0 * (upper / row.time.median_ns - 1.0);
            format!("{below:+.1} {above:+.1} %")
        }
        _ => "too few".to_owned(),
    }
}

/// Serial time over the session's.
fn speed_up(row: &CaseRow, cases: &[CaseRow]) -> String {
    let serial = cases
        .iter()
        .find(|other| other.case == row.case && other.threads == ThreadSetting::Serial);
    match serial {
        Some(serial) if row.threads == ThreadSetting::Session && row.time.median_ns > 0.0 => {
            format!("{:.2}", serial.time.median_ns / row.time.median_ns)
        }
        _ => String::new(),
    }
}

/// Requested, admitted and observed lanes, and why a region ran inline.
fn lanes(region: &RegionFigures) -> String {
    let counts = format!(
        "{}/{}/{}",
        region.requested.median, region.admitted.median, region.participants.median
    );
    let reasons: Vec<String> = region
        .inline_reasons
        .iter()
        .map(|(reason, calls)| {
            if *calls == region.calls {
                reason.clone()
            } else {
                format!("{reason} {calls} of {}", region.calls)
            }
        })
        .collect();
    if reasons.is_empty() {
        counts
    } else {
        format!("{counts} {}", reasons.join(", "))
    }
}

fn noise(f: &mut fmt::Formatter<'_>, noise: &NoiseFloor, cases: &[CaseRow]) -> fmt::Result {
    match (noise.largest, noise.median) {
        (Some(largest), Some(median)) => writeln!(
            f,
            "\nnoise floor: {} pairs of equal sessions differ by {:.1} % at most, {:.1} % in the median",
            noise.pairs.len(),
            100.0 * largest,
            100.0 * median
        )?,
        _ => writeln!(f, "\nnoise floor: no case was measured twice")?,
    }
    let counters = cases
        .iter()
        .flat_map(|row| &row.regions)
        .map(|region| region.counters.status);
    let mut statuses: Vec<&str> = counters.map(|status| status.name()).collect();
    statuses.sort_unstable();
    statuses.dedup();
    if !statuses.is_empty() {
        writeln!(f, "counters of regions: {}", statuses.join(", "))?;
    }
    Ok(())
}

fn ranked(f: &mut fmt::Formatter<'_>, regions: &[RankedRegion], top: usize) -> fmt::Result {
    let header = [
        "rank",
        "score",
        "share",
        "kernel",
        "region",
        "utilization",
        "why",
        "models",
        "largest part",
    ];
    let mut rows = table(&header, &["rank", "score", "share", "utilization"]);
    for region in regions.iter().take(top) {
        let utilization = region.utilization.map(|u| format!("{:.0} %", 100.0 * u));
        rows.add_row([
            region.rank.to_string(),
            format!("{:.4}", region.score),
            format!("{:.4}", region.share),
            format!("{}/{}", region.operator, region.element_type),
            region
                .region
                .clone()
                .unwrap_or_else(|| "outside regions".to_owned()),
            utilization.unwrap_or_default(),
            why(region),
            models(&region.models),
            largest_part(region),
        ]);
    }
    writeln!(f, "{rows}")?;
    if let Some(rest) = regions.get(top..).filter(|rest| !rest.is_empty()) {
        let score: f64 = rest.iter().map(|region| region.score).sum();
        writeln!(
            f,
            "and {} more with a score of {score:.4} together",
            rest.len()
        )?;
    }
    Ok(())
}

/// Serial reason of a serial path, inline reasons of regions of others.
fn why(region: &RankedRegion) -> String {
    if let Some(SerialReason { category, .. }) = &region.serial_reason {
        return format!("serial: {category}");
    }
    let reasons: Vec<String> = region
        .inline_reasons
        .iter()
        .map(|(reason, calls)| format!("{reason} {calls}"))
        .collect();
    if reasons.is_empty() && region.region.is_none() {
        region.state.clone()
    } else {
        reasons.join(", ")
    }
}

fn models(models: &[String]) -> String {
    match models {
        [first, second, third, rest @ ..] if !rest.is_empty() => {
            format!("{first}, {second}, {third} and {} more", rest.len())
        }
        few => few.join(", "),
    }
}

/// Shapes of the part with the highest score.
fn largest_part(region: &RankedRegion) -> String {
    let Some(part) = region.parts.first() else {
        return String::new();
    };
    let shapes: Vec<String> = part
        .inputs
        .iter()
        .map(|input| input.as_ref().map_or_else(|| "-".to_owned(), shape))
        .collect();
    format!(
        "{:.1} % of {}: {} × {}",
        100.0 * part.share,
        part.model,
        part.nodes,
        shapes.join(", ")
    )
}

fn shape(operand: &Operand) -> String {
    if operand.dims.is_empty() {
        return "scalar".to_owned();
    }
    let dims: Vec<String> = operand.dims.iter().map(usize::to_string).collect();
    dims.join("x")
}

#[cfg(test)]
mod tests;
