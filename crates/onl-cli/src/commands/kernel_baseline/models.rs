//! Records the models whose regions are ranked.

use super::Arguments;
use crate::commands;
use crate::inputs::InputArguments;
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use onl::RunControl;
use onl::profiling::{Collector, CollectorOptions, CounterSet, ProfilingLevel};
use onl_evidence::Repeated;
use onl_evidence::baseline::{ModelProfile, RecordedModel};
use std::path::{Path, PathBuf};

/// Runs before the recorded ones.
const WARMUP: u32 = 3;

/// Size of a named dimension, of one model or of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dimension {
    model: Option<String>,
    name: String,
    size: usize,
}

/// Reads `[MODEL:]NAME=N`.
pub fn dimension(text: &str) -> Result<Dimension, String> {
    let (name, size) = crate::inputs::dimension(text)?;
    let (model, name) = match name.split_once(':') {
        Some((model, name)) => (Some(model.to_owned()), name.to_owned()),
        None => (None, name),
    };
    Ok(Dimension { model, name, size })
}

/// Files of the models: those that were named must run, those of the folder may not.
fn files(arguments: &Arguments) -> Result<Vec<(PathBuf, bool)>> {
    let mut files: Vec<(PathBuf, bool)> = arguments
        .models
        .iter()
        .map(|file| (file.clone(), true))
        .collect();
    if let Some(folder) = &arguments.folder {
        let entries = std::fs::read_dir(folder)
            .with_context(|| format!("folder of models {}", folder.display()))?;
        let mut found = Vec::new();
        for entry in entries {
            let path = entry
                .with_context(|| format!("folder of models {}", folder.display()))?
                .path();
            if path
                .extension()
                .is_some_and(|extension| extension == "onnx")
            {
                found.push(path);
            }
        }
        found.sort();
        if found.is_empty() {
            bail!(
                "folder of models {} holds no file that ends in .onnx",
                folder.display()
            );
        }
        files.extend(found.into_iter().map(|file| (file, false)));
    }
    Ok(files)
}

/// Name of a model in reports.
fn name(file: &Path) -> String {
    file.file_stem()
        .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
}

/// Records every model; those of the folder that cannot be run are named on stderr.
pub fn record(arguments: &Arguments) -> Result<Vec<ModelProfile>> {
    let files = files(arguments)?;
    let names: Vec<String> = files.iter().map(|(file, _)| name(file)).collect();
    if let Some(twice) = names
        .iter()
        .enumerate()
        .find(|(i, n)| names[..*i].contains(n))
    {
        bail!("two models are named '{}'; rename one file", twice.1);
    }
    let of_none = arguments
        .dims
        .iter()
        .filter_map(|dim| dim.model.as_ref())
        .find(|model| !names.contains(model));
    if let Some(model) = of_none {
        bail!(
            "--dim names the model '{model}', which is not among: {}",
            names.join(", ")
        );
    }
    let bar = ProgressBar::new(files.len() as u64);
    bar.set_style(
        ProgressStyle::with_template("{bar:24} {pos}/{len} models: {wide_msg}")
            .context("the progress bar has a legal template")?,
    );
    let mut profiles = Vec::new();
    for ((file, required), name) in files.iter().zip(&names) {
        bar.set_message(name.clone());
        match record_one(arguments, file, name) {
            Ok(profile) => profiles.push(profile),
            Err(error) if *required => return Err(error),
            Err(error) => bar.suspend(|| eprintln!("note: model {name} is left out: {error:#}")),
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(profiles)
}

fn record_one(arguments: &Arguments, file: &Path, name: &str) -> Result<ModelProfile> {
    let session = commands::session(&arguments.common, file)?;
    let applies = |dim: &&Dimension| dim.model.as_ref().is_none_or(|model| model == name);
    // Those of this model come first and win.
    let mut dims: Vec<&Dimension> = arguments.dims.iter().filter(applies).collect();
    dims.sort_by_key(|dim| dim.model.is_none());
    let dims = dims.into_iter().map(|dim| (dim.name.clone(), dim.size));
    let gathered = InputArguments::random_of(dims.collect()).gather(&session)?;
    for note in &gathered.notes {
        eprintln!("note: {name}: {note}");
    }
    let outputs = session.run(&gathered.named())?;
    let mut repeated = Repeated::new(&session, &gathered.values, &outputs)?;
    let lanes = session.policy().descriptor().participants as usize;
    let room = repeated.room(arguments.model_runs)?;
    for _ in 0..WARMUP {
        repeated.run(RunControl::default())?;
    }
    let collector = Collector::with_options(CollectorOptions {
        level: ProfilingLevel::Counters,
        counters: CounterSet::Hardware,
        regions: room.regions,
        nodes: room.nodes,
        lanes,
    });
    for _ in 0..arguments.model_runs {
        repeated.run(RunControl {
            collector: Some(&collector),
            ..RunControl::default()
        })?;
    }
    let file_bytes = std::fs::metadata(file)
        .with_context(|| format!("model {}", file.display()))?
        .len();
    let (events, dropped) = (collector.drain(), collector.dropped());
    let environment = commands::environment(&arguments.common);
    let recorded = RecordedModel {
        name,
        file_bytes,
        session: &session,
        table: environment.table(),
        inputs: &gathered.values,
        events: &events,
        dropped,
    };
    Ok(recorded.profile())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_belong_to_all_models_or_to_one() {
        let read = |text| dimension(text).map(|d| (d.model, d.name, d.size));
        assert_eq!(read("batch=4"), Ok((None, "batch".to_owned(), 4)));
        let of_one = (Some("bert".to_owned()), "sequence".to_owned(), 128);
        assert_eq!(read("bert:sequence=128"), Ok(of_one));
        assert!(read("batch").is_err());
        assert!(read("batch=x").is_err());
    }
}
