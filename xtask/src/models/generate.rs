use super::list::{Model, Script};
use crate::process;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folder of the scripts and of the list of packages that they need.
const GENERATORS: &str = "tests/models/generate";

/// Makes a generated model with its script, in a virtual environment of pinned packages below `target`.
pub fn run(model: &Model, script: &Script, folder: &Path, output: &Path) -> Result<()> {
    let python = environment()?;
    let work = tempfile::Builder::new()
        .prefix(".generate-")
        .tempdir_in(folder)?;
    if let Some(base) = &script.needs {
        let from = folder.join(format!("{base}.onnx"));
        // Scripts know the names of files, the list those of models.
        let to = work
            .path()
            .join(format!("{}.onnx", base.trim_start_matches("gen_")));
        if fs::hard_link(&from, &to).is_err() {
            fs::copy(&from, &to).with_context(|| {
                format!("generate: the base model {} is not there", from.display())
            })?;
        }
    }
    let stem = script.file.trim_end_matches(".onnx");
    let mut command = Command::new(&python);
    command
        .arg(process::workspace().join(GENERATORS).join(&script.script))
        .arg(work.path())
        .arg(stem);
    process::quiet(&mut command).context("generate")?;
    let made = work.path().join(&script.file);
    if !made.is_file() {
        bail!(
            "generate: {} made no file {} for {}",
            script.script,
            script.file,
            model.name
        );
    }
    fs::rename(&made, output).with_context(|| format!("cannot move {}", made.display()))
}

/// Python of the virtual environment, which is made when its list of packages is new.
fn environment() -> Result<PathBuf> {
    let workspace = process::workspace();
    let folder = workspace.join("target/models-python");
    let python = folder.join("bin/python");
    let requirements = workspace.join(GENERATORS).join("requirements.txt");
    let wanted = fs::read_to_string(&requirements)
        .with_context(|| format!("cannot read {}", requirements.display()))?;
    let stamp = folder.join("installed.txt");
    if python.is_file() && fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    eprintln!("installing the packages of {GENERATORS}/requirements.txt below target");
    process::quiet(
        Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(&folder),
    )
    .context("environment: python3 with its module venv is needed")?;
    let mut install = Command::new(&python);
    install
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--only-binary",
            ":all:",
            "--requirement",
        ])
        .arg(&requirements);
    process::quiet(&mut install)
        .context("environment: the pinned packages could not be installed")?;
    fs::write(&stamp, wanted)?;
    Ok(python)
}
