//! Measures models in `onl` and in ONNX Runtime, each process for itself, and says where their difference comes from.

mod process;
mod tables;

pub use process::{ProcessArguments, process};

use crate::exit::Exit;
use crate::inputs::InputArguments;
use crate::{Common, commands};
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use onl::Tensor;
use onl_evidence::attribution::{
    Arm, AttributionReport, CONFIDENCE, DecisionKind, InputFile, InputShape, LEAST_ROUNDS,
    ModelAttribution, ModelIdentity, ModelPlan, Protocol, Quantity, attribute_model,
    describe_library, file_sha256,
};
use onl_evidence::onnxruntime::FILE_NAME;
use onl_evidence::report::{Report, ReportHead};
use process::Processes;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Noise of steady runs from which nothing can be said about a model.
const TOO_NOISY: f64 = 0.25;

#[derive(clap::Args)]
pub struct Arguments {
    /// Model files.
    #[arg(required = true, value_name = "MODEL")]
    models: Vec<PathBuf>,
    #[command(flatten)]
    inputs: InputArguments,
    /// The library of ONNX Runtime 1.32 [default: onnxruntime/libonnxruntime.so.1.32.0 beside the program's folder].
    #[arg(long, value_name = "FILE")]
    ort_lib: Option<PathBuf>,
    /// Rounds; each has one process of every consumer, in shuffled order.
    #[arg(long, default_value_t = 12, value_name = "N", value_parser = rounds)]
    rounds: u32,
    /// Seconds of steady runs in every process.
    #[arg(long, default_value_t = 0.3, value_name = "SECONDS", value_parser = super::bench::seconds)]
    min_time: f64,
    /// Runs before the steady ones.
    #[arg(long, default_value_t = 5, value_name = "N")]
    warmup: u32,
    /// Also write the report to this file.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

fn rounds(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(rounds) if (LEAST_ROUNDS..=1000).contains(&rounds) => Ok(rounds),
        _ => Err(format!(
            "expected {LEAST_ROUNDS} to 1000 rounds; intervals at {:.0} % do not exist with fewer",
            100.0 * CONFIDENCE
        )),
    }
}

pub fn run(arguments: &Arguments) -> Result<Exit> {
    for (index, model) in arguments.models.iter().enumerate() {
        if arguments.models[..index].contains(model) {
            eprintln!("error: {} is given twice", model.display());
            return Ok(Exit::Usage);
        }
    }
    let library = match &arguments.ort_lib {
        Some(path) => path.clone(),
        None => default_library()?,
    };
    let report = measure(arguments, &library)?;
    // A report that its own check refuses is a fault of this program, and better known at once.
    if let Some(finding) = report.check().first() {
        bail!("the report does not follow from its samples, {finding}");
    }
    let document = serde_json::to_string(&report)?;
    if let Some(path) = &arguments.output {
        std::fs::write(path, format!("{document}\n"))
            .with_context(|| format!("report {}", path.display()))?;
    }
    if arguments.common.json {
        println!("{document}");
    } else {
        print!("{}", tables::render(&report));
    }
    Ok(verdict(&report.models))
}

/// How the command ends, with what a user should know about it.
fn verdict(models: &[ModelAttribution]) -> Exit {
    for model in models {
        if model.outputs.loader_equals_protobuf == Some(false) {
            eprintln!(
                "error: {}: onnxruntime fed by onl's loader gives other outputs than with protobuf; its figures are of \
                 another computation",
                model.model.name
            );
            return Exit::Failed;
        }
    }
    let undecided = |model: &ModelAttribution| {
        let floor = model
            .noise
            .iter()
            .find(|noise| noise.quantity == Quantity::Steady)
            .and_then(|noise| noise.floor);
        model.decision.kind == DecisionKind::None && floor.is_none_or(|floor| floor > TOO_NOISY)
    };
    if models.iter().all(undecided) {
        eprintln!(
            "equal programs came out more than {:.0} % apart, so nothing could be decided; try again at a quieter time, or \
             with more --rounds",
            100.0 * TOO_NOISY
        );
        return Exit::TooNoisy;
    }
    Exit::Done
}

/// Where `cargo xtask fetch-models onnxruntime` puts the library: beside the folder that the program lies in.
fn default_library() -> Result<PathBuf> {
    let program = std::env::current_exe().context("the command's own file")?;
    let builds = program.parent().and_then(Path::parent);
    let builds = builds.context("the command lies in no folder")?;
    Ok(builds.join("onnxruntime").join(FILE_NAME))
}

fn measure(arguments: &Arguments, library: &Path) -> Result<AttributionReport> {
    let environment = commands::environment(&arguments.common);
    let resolved = environment.resolve(&commands::policy(&arguments.common))?;
    if cfg!(debug_assertions) {
        eprintln!("note: this is a debug build; its figures say nothing about a release build");
    }
    let stopped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stopped);
    ctrlc::set_handler(move || flag.store(true, Ordering::SeqCst))
        .context("Ctrl-C cannot be watched")?;
    let mut runner = Processes {
        common: &arguments.common,
    };
    let onnxruntime = describe_library(&mut runner, library)?;
    let protocol = Protocol {
        rounds: arguments.rounds,
        warmup: arguments.warmup,
        min_time_s: arguments.min_time,
        order_seed: 0,
        confidence: CONFIDENCE,
    };
    let scratch = tempfile::tempdir().context("a folder for inputs and outputs")?;
    let mut models = Vec::new();
    for (index, path) in arguments.models.iter().enumerate() {
        let folder = scratch.path().join(index.to_string());
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("the folder {}", folder.display()))?;
        let plan = plan(arguments, path, library, folder)?;
        let bar = ProgressBar::new(u64::from(protocol.rounds) * Arm::ALL.len() as u64);
        bar.set_style(
            ProgressStyle::with_template("{prefix} {bar:24} {pos}/{len} {wide_msg}")
                .context("the progress bar has a legal template")?,
        );
        bar.set_prefix(plan.identity.name.clone());
        let mut progress = |arm: Arm, _round: u32| {
            bar.set_message(arm.to_string());
            bar.inc(1);
            !stopped.load(Ordering::SeqCst)
        };
        let attributed = attribute_model(&mut runner, &plan, &protocol, &mut progress)
            .with_context(|| format!("model {}", path.display()));
        bar.finish_and_clear();
        models.push(attributed?);
        // Outputs and `.ort` files of large models are large.
        let _ = std::fs::remove_dir_all(&plan.folder);
    }
    Ok(AttributionReport {
        head: ReportHead::current(
            AttributionReport::KIND,
            AttributionReport::SCHEMA,
            resolved.descriptor(),
        ),
        onnxruntime,
        protocol,
        models,
    })
}

/// Writes the inputs of a model to files.
fn plan(arguments: &Arguments, path: &Path, library: &Path, folder: PathBuf) -> Result<ModelPlan> {
    let session = commands::session(&arguments.common, path)?;
    let gathered = arguments.inputs.gather(&session)?;
    for note in &gathered.notes {
        eprintln!("note: {note}");
    }
    let mut inputs = Vec::new();
    let mut shapes = Vec::new();
    for (index, (name, value)) in gathered.values.iter().enumerate() {
        let Some(tensor) = value.as_tensor() else {
            bail!(
                "model {}: input '{name}' is not a tensor; only tensors are given to all consumers alike",
                path.display()
            );
        };
        let file = folder.join(format!("input_{index}.pb"));
        onl::write_value(&file, value)?;
        inputs.push(InputFile {
            name: name.clone(),
            path: file,
        });
        shapes.push(shape(name, tensor));
    }
    let read = || format!("model {}", path.display());
    let name = path
        .file_stem()
        .map(|name| name.to_string_lossy().into_owned());
    Ok(ModelPlan {
        identity: ModelIdentity {
            name: name.unwrap_or_default(),
            file_bytes: std::fs::metadata(path).with_context(read)?.len(),
            sha256: file_sha256(path).with_context(read)?,
            inputs: shapes,
        },
        model: path.to_owned(),
        library: library.to_owned(),
        inputs,
        folder,
    })
}

fn shape(name: &str, tensor: &Tensor) -> InputShape {
    InputShape {
        name: name.to_owned(),
        element_type: tensor.element_type().to_string(),
        dims: tensor.dims().to_vec(),
    }
}
