use crate::exit::Exit;
use crate::inputs::InputArguments;
use crate::table::{bytes, duration, table};
use crate::{Common, commands};
use anyhow::Result;
use onl::{RunControl, Tensor};
use onl_evidence::Repeated;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Samples kept at most; runs beyond are not timed one by one any more.
const MOST_SAMPLES: usize = 100_000;

#[derive(clap::Args)]
pub struct Arguments {
    /// Model file.
    model: PathBuf,
    #[command(flatten)]
    inputs: InputArguments,
    /// Runs before the timed ones.
    #[arg(long, default_value_t = 5)]
    warmup: u32,
    /// Seconds of timed runs at least; at least three runs are timed.
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS", value_parser = seconds)]
    min_time: f64,
    #[command(flatten)]
    common: Common,
}

pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && (0.0..=86_400.0).contains(&value) => Ok(value),
        _ => Err("expected seconds between 0 and 86400".to_owned()),
    }
}

pub fn run(arguments: &Arguments) -> Result<Exit> {
    let started = Instant::now();
    let session = commands::session(&arguments.common, &arguments.model)?;
    let load_ns = started.elapsed().as_nanos() as f64;
    let gathered = arguments.inputs.gather(&session)?;
    for note in &gathered.notes {
        eprintln!("note: {note}");
    }
    let first = Instant::now();
    let outputs = session.run(&gathered.named())?;
    let first_run_ns = first.elapsed().as_nanos() as f64;
    let mut repeated = Repeated::new(&session, &gathered.values, &outputs)?;
    for _ in 0..arguments.warmup {
        repeated.run(RunControl::default())?;
    }
    let mut samples: Vec<f64> = Vec::new();
    let least = Duration::from_secs_f64(arguments.min_time);
    let steady = Instant::now();
    while (samples.len() < 3 || steady.elapsed() < least) && samples.len() < MOST_SAMPLES {
        let start = Instant::now();
        repeated.run(RunControl::default())?;
        samples.push(start.elapsed().as_nanos() as f64);
    }
    let mut sorted = samples.clone();
    sorted.sort_by(f64::total_cmp);
    let quantile = |q: f64| sorted[((sorted.len() - 1) as f64 * q).round() as usize];
    let peak = onl::peak_memory_bytes();
    let phases = session.load_phases();
    if arguments.common.json {
        let document = serde_json::json!({
            "schema": 1,
            "model": arguments.model.display().to_string(),
            "execution": session.execution_summary(),
            "inputs": gathered.values.iter().map(|(name, value)| serde_json::json!({
                "name": name,
                "shape": value.as_tensor().map(Tensor::dims),
            })).collect::<Vec<_>>(),
            "phases": {
                "open_ns": phases.open.as_nanos() as u64,
                "parse_ns": phases.parse.as_nanos() as u64,
                "resolve_ns": phases.resolve.as_nanos() as u64,
                "ready_ns": phases.ready.as_nanos() as u64,
                "load_ns": load_ns,
                "first_run_ns": first_run_ns,
            },
            "steady": {
                "median_ns": quantile(0.5),
                "minimum_ns": sorted[0],
                "p90_ns": quantile(0.9),
                "samples_ns": samples,
            },
            "peak_memory_bytes": peak,
        });
        println!("{}", serde_json::to_string_pretty(&document)?);
    } else {
        let mut rows = table(&["phase", "time"], &["time"]);
        for (name, time) in [
            ("open", phases.open.as_nanos() as f64),
            ("parse", phases.parse.as_nanos() as f64),
            ("resolve", phases.resolve.as_nanos() as f64),
            ("ready", phases.ready.as_nanos() as f64),
            ("first run", first_run_ns),
            ("steady minimum", sorted[0]),
            ("steady median", quantile(0.5)),
            ("steady p90", quantile(0.9)),
        ] {
            rows.add_row([name.to_owned(), duration(time)]);
        }
        println!("{rows}");
        let memory = peak.map_or_else(|| "unknown".to_owned(), bytes);
        println!("{} timed runs, peak memory {memory}", samples.len());
        eprintln!("{}", session.execution_line());
    }
    Ok(Exit::Done)
}
