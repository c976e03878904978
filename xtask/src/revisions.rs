//! Revisions of kernels against their sources: a body that changed needs a new revision, so that no saved profile speaks
//! for code that it did not measure.

mod tokens;

use crate::process;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tokens::{Source, sha256_hex};

/// The committed list, from the root of the workspace.
const LIST: &str = "crates/onl-kernels/revisions.toml";

const HEADER: &str = "\
# Sources of the kernel bodies and the digests of their tokens, compared by `cargo xtask check-revisions`.
# A changed body needs a new revision of its kernels: bump `revision` in their table entry, then run
# `cargo xtask check-revisions --accept`, which writes `revision`, `parameters`, `digest` and [files]; the rest is
# written by hand. docs/tuning.md says what counts as a body.
";

/// Options of `check-revisions`.
#[derive(clap::Args)]
pub struct RevisionArguments {
    /// Write the digests of bodies whose revision was bumped, and of new ones.
    #[arg(long)]
    accept: bool,
    /// The built `onl` whose kernel table is compared; built anew without it.
    #[arg(long, value_name = "PATH")]
    onl: Option<PathBuf>,
}

/// The committed list.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// Folders in which every source file must be part of a body or stand outside with a reason.
    roots: Vec<String>,
    /// Files and folders that are no part of a body, with the reason.
    outside: BTreeMap<String, String>,
    /// Named lists of files and folders.
    sources: BTreeMap<String, Vec<String>>,
    /// Bodies by name.
    body: BTreeMap<String, Body>,
    /// Digests of single files, which tell what changed within a body.
    #[serde(default)]
    files: BTreeMap<String, String>,
}

/// Kernels that are made of the same sources.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    /// Kernels as `Abs/vector`; with the domain before a colon where it is not `ai.onnx`.
    kernels: Vec<String>,
    /// Names of lists in [`List::sources`].
    sources: Vec<String>,
    /// Revision whose tokens the digest is of; 0 in a new body.
    #[serde(default)]
    revision: u32,
    /// Names and units of the parameters of its kernels.
    #[serde(default)]
    parameters: Vec<String>,
    /// Digest of all its files and parameters.
    #[serde(default)]
    digest: String,
}

/// What the built `onl` says of one kernel.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Kernel {
    revisions: BTreeSet<u32>,
    parameters: BTreeSet<String>,
}

type Kernels = BTreeMap<String, Kernel>;

/// The part of `onl inventory --json` that is needed.
#[derive(Deserialize)]
struct InventoryDocument {
    inventory: Inventory,
}

#[derive(Deserialize)]
struct Inventory {
    paths: Vec<InventoryPath>,
}

#[derive(Deserialize)]
struct InventoryPath {
    domain: String,
    op_type: String,
    implementations: Vec<InventoryImplementation>,
    parameters: Vec<InventoryParameter>,
}

#[derive(Deserialize)]
struct InventoryImplementation {
    name: String,
    revision: u32,
}

#[derive(Deserialize)]
struct InventoryParameter {
    name: String,
    unit: String,
}

/// Compares the list with the sources and the kernel table of this workspace.
pub fn check_workspace(arguments: &RevisionArguments) -> Result<()> {
    let root = process::workspace();
    let mut onl = match &arguments.onl {
        Some(path) => Command::new(root.join(path)),
        None => {
            let mut run = process::cargo();
            run.args(["run", "--quiet", "--release", "--package", "onl-cli", "--"]);
            run
        }
    };
    let json = process::output(onl.args(["inventory", "--no-profiles", "--json"]))?;
    let path = root.join(LIST);
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let list: List = toml::from_str(&text).with_context(|| format!("{LIST} is not as expected"))?;
    let report = check(&root, &list, &kernels(&json)?)?;
    for problem in &report.problems {
        eprintln!("{problem}");
    }
    if !report.problems.is_empty() {
        bail!(
            "revisions and sources disagree in {} places",
            report.problems.len()
        );
    }
    if report.accepted == list {
        println!(
            "{} kernels of {} bodies keep their revisions",
            report.kernels,
            list.body.len()
        );
        return Ok(());
    }
    if arguments.accept {
        fs::write(&path, render(&report.accepted))
            .with_context(|| format!("cannot write {}", path.display()))?;
        println!("{LIST} is written; commit it with the change");
        return Ok(());
    }
    for change in &report.changes {
        eprintln!("{change}");
    }
    bail!("{LIST} is out of date: run `cargo xtask check-revisions --accept` and commit it")
}

/// Kernels of the table by name.
fn kernels(json: &str) -> Result<Kernels> {
    let document: InventoryDocument =
        serde_json::from_str(json).context("cannot read the output of onl inventory")?;
    let mut kernels = Kernels::new();
    for path in document.inventory.paths {
        for implementation in &path.implementations {
            let operator = match path.domain.as_str() {
                "ai.onnx" => path.op_type.clone(),
                domain => format!("{domain}:{}", path.op_type),
            };
            let kernel = kernels
                .entry(format!("{operator}/{}", implementation.name))
                .or_default();
            kernel.revisions.insert(implementation.revision);
            let parameters = path.parameters.iter();
            kernel.parameters.extend(parameters.map(|p| {
                format!("{} in {}", p.name, p.unit)
                    .trim_end_matches(" in ")
                    .to_owned()
            }));
        }
    }
    Ok(kernels)
}

/// What a check found.
#[derive(Debug)]
struct Report {
    /// Kernels that were compared.
    kernels: usize,
    /// What `--accept` does not mend.
    problems: Vec<String>,
    /// What `--accept` writes, in words.
    changes: Vec<String>,
    /// The list as `--accept` writes it.
    accepted: List,
}

fn check(root: &Path, list: &List, kernels: &Kernels) -> Result<Report> {
    let digests = digests(root, &list.roots)?;
    let mut problems = uncovered(list, &digests);
    problems.extend(unlisted(list, kernels));
    let mut changes = Vec::new();
    let mut accepted = list.clone();
    accepted.files.clear();
    for (name, body) in &list.body {
        let mut files = BTreeMap::new();
        for source in &body.sources {
            let Some(paths) = list.sources.get(source) else {
                problems.push(format!(
                    "body '{name}' names the sources '{source}', which are not listed"
                ));
                continue;
            };
            for path in paths {
                files.extend(below(&digests, path).map(|(k, v)| (k.clone(), v.clone())));
            }
        }
        if files.is_empty() {
            problems.push(format!("body '{name}' has no source file"));
        }
        let own = body.kernels.iter().filter_map(|kernel| kernels.get(kernel));
        let (mut revisions, mut parameters) = (BTreeSet::new(), BTreeSet::new());
        for kernel in own {
            revisions.extend(&kernel.revisions);
            parameters.extend(kernel.parameters.iter().cloned());
        }
        let &[revision] = revisions.iter().copied().collect::<Vec<u32>>().as_slice() else {
            problems.push(format!(
                "the kernels of body '{name}' have the revisions {revisions:?}: give kernels that change alone a body \
                 of their own"
            ));
            continue;
        };
        let parameters: Vec<String> = parameters.into_iter().collect();
        let digest = body_digest(files.values(), &parameters);
        let new = body.revision == 0 && body.digest.is_empty();
        if !new && revision < body.revision {
            problems.push(format!(
                "body '{name}' has revision {revision}, the list has {}: a revision never goes back",
                body.revision
            ));
        } else if !new && revision == body.revision && digest != body.digest {
            problems.push(changed_body(name, body, list, &files, &parameters));
        } else if revision != body.revision || digest != body.digest {
            changes.push(format!("body '{name}': revision {revision}"));
        }
        accepted.files.extend(files);
        accepted.body.insert(
            name.clone(),
            Body {
                revision,
                parameters,
                digest,
                ..body.clone()
            },
        );
    }
    if accepted.files != list.files && changes.is_empty() {
        changes.push("the digests of single files".to_owned());
    }
    Ok(Report {
        kernels: kernels.len(),
        problems,
        changes,
        accepted,
    })
}

fn body_digest<'a>(files: impl Iterator<Item = &'a String>, parameters: &[String]) -> String {
    let mut parts: Vec<&str> = files.map(String::as_str).collect();
    // Without their paths, so that a file that moves changes nothing.
    parts.sort_unstable();
    parts.extend(parameters.iter().map(String::as_str));
    sha256_hex(parts.join("\n").as_bytes())
}

fn changed_body(
    name: &str,
    body: &Body,
    list: &List,
    files: &BTreeMap<String, String>,
    parameters: &[String],
) -> String {
    let mut changed: Vec<&str> = files
        .iter()
        .filter(|(path, digest)| list.files.get(*path) != Some(digest))
        .map(|(path, _)| path.as_str())
        .collect();
    if *parameters != body.parameters {
        changed.push("its parameters");
    }
    if changed.is_empty() {
        changed.push("the list of its sources");
    }
    format!(
        "body '{name}' changed and its revision is still {}\n  kernels: {}\n  changed: {}\n  bump the revision in \
         their table entry, then run `cargo xtask check-revisions --accept` and commit {LIST}; saved profiles of the \
         old revision become stale, which is the purpose",
        body.revision,
        body.kernels.join(" "),
        changed.join(" ")
    )
}

/// Files of the roots that no body holds, and paths of the list that hold no file.
fn uncovered(list: &List, digests: &BTreeMap<String, String>) -> Vec<String> {
    let mut problems = Vec::new();
    let used: BTreeSet<&String> = list.body.values().flat_map(|body| &body.sources).collect();
    let mut covered = BTreeSet::new();
    let mut cover = |path: &str, place: &str| {
        let files: Vec<String> = below(digests, path).map(|(file, _)| file.clone()).collect();
        if files.is_empty() {
            problems.push(format!("{place} names {path}, where no source file is"));
        }
        covered.extend(files);
    };
    for (name, paths) in &list.sources {
        let place = format!("sources '{name}'");
        for path in paths.iter().filter(|_| used.contains(name)) {
            cover(path, &place);
        }
    }
    for path in list.outside.keys() {
        cover(path, "[outside]");
    }
    for name in list.sources.keys().filter(|name| !used.contains(name)) {
        problems.push(format!("no body uses the sources '{name}'"));
    }
    let missing = digests.keys().filter(|file| !covered.contains(*file));
    problems.extend(missing.map(|file| {
        format!(
            "{file} is part of no body: add it to the sources of the kernels that it serves in {LIST}, or to [outside] \
             with the reason"
        )
    }));
    problems
}

/// Kernels of the table without a body, and the reverse.
fn unlisted(list: &List, kernels: &Kernels) -> Vec<String> {
    let mut problems = Vec::new();
    let mut listed: BTreeMap<&String, &String> = BTreeMap::new();
    for (name, body) in &list.body {
        for kernel in &body.kernels {
            if let Some(other) = listed.insert(kernel, name) {
                problems.push(format!(
                    "kernel {kernel} is listed in the bodies '{other}' and '{name}'"
                ));
            }
            if !kernels.contains_key(kernel) {
                problems.push(format!(
                    "body '{name}' lists {kernel}, which the kernel table does not have"
                ));
            }
        }
    }
    let missing = kernels.keys().filter(|kernel| !listed.contains_key(kernel));
    problems.extend(missing.map(|kernel| {
        format!("kernel {kernel} belongs to no body: add it to one in {LIST}, or a body for it")
    }));
    problems
}

/// Files at or below a path.
fn below<'a>(
    digests: &'a BTreeMap<String, String>,
    path: &'a str,
) -> impl Iterator<Item = (&'a String, &'a String)> {
    digests
        .iter()
        .filter(move |(file, _)| match file.strip_prefix(path) {
            Some(rest) => rest.is_empty() || rest.starts_with('/'),
            None => false,
        })
}

/// Digests of all source files below the roots, those that are compiled for tests only left out.
fn digests(root: &Path, roots: &[String]) -> Result<BTreeMap<String, String>> {
    let mut digests = BTreeMap::new();
    let mut tests = Vec::new();
    for folder in roots {
        for path in rust_files(&root.join(folder))? {
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let source =
                Source::read(&text).with_context(|| format!("cannot read {}", path.display()))?;
            let name = path.file_stem().unwrap_or_default();
            let folder = if ["lib", "main", "mod"].iter().any(|n| name == *n) {
                path.with_file_name("")
            } else {
                path.with_extension("")
            };
            tests.extend(source.test_modules.iter().map(|name| folder.join(name)));
            digests.insert(path, source.digest);
        }
    }
    digests
        .into_iter()
        .filter(|(path, _)| {
            !tests
                .iter()
                .any(|test| path.with_extension("") == *test || path.starts_with(test))
        })
        .map(|(path, digest)| {
            let path = path.strip_prefix(root).unwrap_or(&path);
            let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
            Ok((parts.join("/"), digest))
        })
        .collect()
}

fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    Ok(files)
}

/// The list as a file.
fn render(list: &List) -> String {
    fn array(text: &mut String, name: &str, values: &[String]) {
        let quoted: Vec<String> = values.iter().map(|v| format!("{v:?}")).collect();
        let line = format!("{name} = [{}]", quoted.join(", "));
        if line.len() <= 100 {
            let _ = writeln!(text, "{line}");
            return;
        }
        let _ = writeln!(text, "{name} = [");
        for value in quoted {
            let _ = writeln!(text, "    {value},");
        }
        let _ = writeln!(text, "]");
    }
    let mut text = HEADER.to_owned();
    text.push('\n');
    array(&mut text, "roots", &list.roots);
    text.push_str("\n[outside]\n");
    for (path, reason) in &list.outside {
        let _ = writeln!(text, "{path:?} = {reason:?}");
    }
    text.push_str("\n[sources]\n");
    for (name, paths) in &list.sources {
        array(&mut text, name, paths);
    }
    for (name, body) in &list.body {
        let _ = writeln!(text, "\n[body.{name}]");
        array(&mut text, "kernels", &body.kernels);
        array(&mut text, "sources", &body.sources);
        let _ = writeln!(text, "revision = {}", body.revision);
        array(&mut text, "parameters", &body.parameters);
        let _ = writeln!(text, "digest = {:?}", body.digest);
    }
    text.push_str("\n[files]\n");
    for (path, digest) in &list.files {
        let _ = writeln!(text, "{path:?} = {digest:?}");
    }
    text
}

#[cfg(test)]
mod tests;
