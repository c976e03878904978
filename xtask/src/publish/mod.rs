//! Publishing reports: nothing gets into `reports/` that is not a complete measurement of a clean build on real hardware
//! whose verdicts follow from its samples.

mod format;
mod input;
mod page;
mod readme;
mod rules;
#[cfg(test)]
mod tests;

use crate::process;
use anyhow::{Context, Result, bail};
use input::Input;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub struct PublishArguments {
    /// Reports of one machine, at most one of each kind, as `onl kernel-baseline`, `onl tune-kernels --apply` and `onl
    /// attribute` write them with `--output`.
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// The `onl` that checks them: of the version that made them.
    #[arg(long, value_name = "PATH", default_value = "target/release/onl")]
    onl: PathBuf,
    /// Where published reports live.
    #[arg(long, value_name = "FOLDER", default_value = "reports")]
    folder: PathBuf,
}

/// Checks all inputs, then writes each as `<architecture>_<kind>.json` with its page, and updates the table of the folder's
/// README. Nothing is written when one is refused.
pub fn publish(arguments: &PublishArguments) -> Result<()> {
    let workspace = process::workspace();
    let onl = workspace.join(&arguments.onl);
    if !onl.is_file() {
        bail!(
            "there is no onl at {}; build it with `cargo build --release` or name it with --onl",
            onl.display()
        );
    }
    let folder = workspace.join(&arguments.folder);
    let mut accepted: Vec<(Input, String)> = Vec::new();
    let mut refusals = Vec::new();
    for path in &arguments.inputs {
        match accept(path, &onl) {
            Ok(input) => {
                let page = page::render(&input)
                    .with_context(|| format!("the page of {}", path.display()))?;
                accepted.push((input, page));
            }
            Err(error) => refusals.push(format!("{error:#}")),
        }
    }
    refusals.extend(together(&accepted));
    if !refusals.is_empty() {
        bail!("nothing is published:\n{}", refusals.join("\n"));
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("folder {}", folder.display()))?;
    for (input, page) in &accepted {
        let name = input.published_name();
        let text = format::stable(&input.document);
        write(&folder.join(format!("{name}.json")), &text)?;
        write(&folder.join(format!("{name}.html")), page)?;
        println!("published {name}.json and {name}.html");
    }
    readme::update(&folder)
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

/// Reads a report and refuses it with every reason found.
fn accept(path: &Path, onl: &Path) -> Result<Input> {
    let input = Input::read(path)?;
    let mut reasons = rules::refusals(&input);
    if reasons.is_empty() {
        reasons.extend(rules::recomputed(&input, onl)?);
    }
    if reasons.is_empty() {
        return Ok(input);
    }
    bail!("{} is refused:\n  {}", path.display(), reasons.join("\n  "));
}

/// What is wrong with inputs that are right by themselves.
fn together(inputs: &[(Input, String)]) -> Vec<String> {
    let mut reasons = Vec::new();
    let mut kinds = BTreeSet::new();
    for (input, _) in inputs {
        if !kinds.insert(input.kind) {
            reasons.push(format!(
                "{} is a second report of kind {}; publish one of each kind",
                input.path.display(),
                input.kind.name()
            ));
        }
    }
    for pair in inputs.windows(2) {
        let (first, second) = (&pair[0].0, &pair[1].0);
        if first.head().cpu != second.head().cpu {
            reasons.push(format!(
                "{} and {} are of different machines; publish those of each machine by themselves",
                first.path.display(),
                second.path.display()
            ));
        }
    }
    reasons
}
