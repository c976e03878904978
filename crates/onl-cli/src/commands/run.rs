use crate::exit::Exit;
use crate::inputs::InputArguments;
use crate::table::table;
use crate::{Common, commands};
use anyhow::{Context, Result};
use onl::{Tensor, Value};
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Arguments {
    /// Model file.
    model: PathBuf,
    #[command(flatten)]
    inputs: InputArguments,
    /// Folder that gets output_<i>.npy (or .pb) in graph order.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Format of saved outputs.
    #[arg(long, default_value = "npy", value_parser = ["npy", "pb"])]
    format: String,
    #[command(flatten)]
    common: Common,
}

pub fn run(arguments: &Arguments) -> Result<Exit> {
    let session = commands::session(&arguments.common, &arguments.model)?;
    let gathered = arguments.inputs.gather(&session)?;
    for note in &gathered.notes {
        eprintln!("note: {note}");
    }
    let outputs = session.run(&gathered.named())?;
    let names: Vec<&str> = session.output_names().collect();
    if let Some(folder) = &arguments.output {
        std::fs::create_dir_all(folder).with_context(|| format!("folder {}", folder.display()))?;
        for (index, value) in outputs.iter().enumerate() {
            let path = folder.join(format!("output_{index}.{}", arguments.format));
            onl::write_value(&path, value)
                .with_context(|| format!("output '{}' to {}", names[index], path.display()))?;
        }
    }
    if arguments.common.json {
        let outputs: Vec<serde_json::Value> = names
            .iter()
            .zip(&outputs)
            .map(|(name, value)| {
                let summary = Summary::of(value);
                serde_json::json!({
                    "name": name,
                    "element_type": summary.element_type,
                    "shape": summary.dims,
                    "minimum": summary.range.map(|r| r.0),
                    "maximum": summary.range.map(|r| r.1),
                })
            })
            .collect();
        let document = serde_json::json!({
            "schema": 1,
            "model": arguments.model.display().to_string(),
            "execution": session.execution_summary(),
            "outputs": outputs,
        });
        println!("{}", serde_json::to_string_pretty(&document)?);
    } else {
        let mut rows = table(
            &["output", "type", "shape", "minimum", "maximum"],
            &["minimum", "maximum"],
        );
        for (name, value) in names.iter().zip(&outputs) {
            let summary = Summary::of(value);
            let bound = |pick: fn((f64, f64)) -> f64| {
                summary
                    .range
                    .map_or_else(String::new, |r| format!("{:.6}", pick(r)))
            };
            let shape = summary
                .dims
                .iter()
                .map(usize::to_string)
                .collect::<Vec<_>>()
                .join("x");
            rows.add_row([
                (*name).to_owned(),
                summary.element_type.clone(),
                shape,
                bound(|r| r.0),
                bound(|r| r.1),
            ]);
        }
        println!("{rows}");
        eprintln!("{}", session.execution_line());
    }
    Ok(Exit::Done)
}

struct Summary {
    element_type: String,
    dims: Vec<usize>,
    range: Option<(f64, f64)>,
}

impl Summary {
    fn of(value: &Value) -> Self {
        match value.as_tensor() {
            Some(tensor) => Summary {
                element_type: tensor.element_type().to_string(),
                dims: tensor.dims().to_vec(),
                range: range(tensor),
            },
            None => Summary {
                element_type: "not a tensor".to_owned(),
                dims: Vec::new(),
                range: None,
            },
        }
    }
}

fn range(tensor: &Tensor) -> Option<(f64, f64)> {
    onl::to_f64(tensor)?
        .into_iter()
        .filter(|v| !v.is_nan())
        .fold(None, |range, v| {
            Some(range.map_or((v, v), |(low, high): (f64, f64)| (low.min(v), high.max(v))))
        })
}
