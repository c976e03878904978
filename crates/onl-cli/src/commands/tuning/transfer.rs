//! `onl tuning export` and `onl tuning import`.

use super::{folder, json_rows, json_void, print_rows, saved};
use crate::exit::Exit;
use crate::{Common, commands};
use anyhow::{Context, Result, bail};
use onl::CpuExecutionDescriptor;
use onl::tuning::{
    CacheFolder, CachedProfile, Choices, FileState, Import, ProcessorIdentity, Widening,
    check_import, export_profiles,
};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub struct ExportArguments {
    /// File to write; standard output when omitted.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Rows of these processors instead of this machine's; VENDOR, VENDOR,FAMILY or VENDOR,FAMILY,MODEL. Repeat for more.
    #[arg(long = "processor", value_name = "VENDOR,FAMILY,MODEL", value_parser = processor)]
    processors: Vec<Processor>,
    /// Rows of every processor, and profiles that were imported.
    #[arg(long, conflicts_with = "processors")]
    all: bool,
    /// Leave a condition out of the class of processors: model, features, threads, or usage, which is how lanes are
    /// placed and wait. Repeat for more.
    #[arg(long = "relax", value_name = "CONDITION", value_enum)]
    relaxed: Vec<Condition>,
    /// Let another model of the family be in the class. Repeat for more.
    #[arg(long = "also-model", value_name = "N")]
    more_models: Vec<u32>,
    #[command(flatten)]
    common: Common,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Condition {
    Model,
    Features,
    Threads,
    Usage,
}

/// Processors by vendor, and family and model when given.
#[derive(Clone)]
struct Processor {
    vendor: String,
    family: Option<u32>,
    model: Option<u32>,
}

fn processor(text: &str) -> Result<Processor, String> {
    let mut parts = text.split(',');
    let vendor = parts.next().unwrap_or("").trim().to_owned();
    let mut number = |name: &str| match parts.next().map(str::trim) {
        None => Ok(None),
        Some(text) => match text.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(format!("the {name} '{text}' is no number")),
        },
    };
    let (family, model) = (number("family")?, number("model")?);
    if vendor.is_empty() || parts.next().is_some() {
        return Err("expected VENDOR, VENDOR,FAMILY or VENDOR,FAMILY,MODEL".to_owned());
    }
    Ok(Processor {
        vendor,
        family,
        model,
    })
}

impl Processor {
    fn is_of(&self, d: &CpuExecutionDescriptor) -> bool {
        d.vendor.as_ref() == Some(&self.vendor)
            && (self.family.is_none() || self.family == d.family)
            && (self.model.is_none() || self.model == d.model)
    }
}

pub fn export(arguments: &ExportArguments) -> Result<Exit> {
    let common = &arguments.common;
    let environment = commands::environment(common);
    let here = environment.resolve(&commands::policy(common))?.descriptor();
    let here = ProcessorIdentity::of(&here);
    let folder = folder(&environment)?;
    let report = saved(folder)?;
    let relaxed = |condition| arguments.relaxed.contains(&condition);
    let widening = Widening {
        model: relaxed(Condition::Model),
        features: relaxed(Condition::Features),
        participants: relaxed(Condition::Threads),
        usage: relaxed(Condition::Usage),
        more_models: arguments.more_models.clone(),
    };
    let selects = |d: &CpuExecutionDescriptor| {
        if arguments.all {
            true
        } else if arguments.processors.is_empty() {
            ProcessorIdentity::of(d) == here
        } else {
            arguments.processors.iter().any(|p| p.is_of(d))
        }
    };
    let export = export_profiles(&report.choices, selects, arguments.all, &widening);
    for row in &export.skipped {
        eprintln!(
            "note: {} ({}) is left out: {}",
            row.key, row.origin, row.reason
        );
    }
    if export.profiles.is_empty() {
        let which = if report.state == FileState::Missing {
            "no choices are saved yet"
        } else if arguments.all || !arguments.processors.is_empty() {
            "no row of these processors is saved"
        } else {
            "no row of this processor is saved; see --processor and --all"
        };
        bail!(
            "nothing to export from {}: {which}",
            folder.path().display()
        );
    }
    let text = export.render();
    if let Some(path) = &arguments.output {
        if same_file(path, folder) {
            bail!(
                "{} holds the choices themselves; give another --output",
                path.display()
            );
        }
        write(path, text.as_bytes())
            .with_context(|| format!("cannot write {}; give another --output", path.display()))?;
        eprintln!(
            "{} profiles written to {}",
            export.profiles.len(),
            path.display()
        );
    }
    if common.json {
        let document = serde_json::json!({
            "schema": 1,
            "output": arguments.output,
            "profiles": json_profiles(&export.profiles),
            "skipped": json_rows(&export.skipped),
            "text": arguments.output.is_none().then_some(text),
        });
        println!("{}", serde_json::to_string_pretty(&document)?);
    } else if arguments.output.is_none() {
        print!("{text}");
    }
    Ok(Exit::Done)
}

fn same_file(path: &Path, folder: &CacheFolder) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    real(path).is_some_and(|path| real(&folder.choices_path()) == Some(path))
}

/// Writes a file in one step; what is no regular file is written as it is.
fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if std::fs::metadata(path).is_ok_and(|known| !known.is_file()) {
        return std::fs::write(path, bytes);
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".tmp-{}", std::process::id()));
    let temporary = PathBuf::from(name);
    let written = std::fs::write(&temporary, bytes)
        .and_then(|()| std::fs::File::open(&temporary)?.sync_all())
        .and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

fn json_profiles(profiles: &[CachedProfile]) -> Vec<serde_json::Value> {
    profiles
        .iter()
        .map(|profile| {
            serde_json::json!({
                "key": profile.key.to_string(),
                "revision": profile.key.revision,
                "selector": profile.selector,
                "priority": profile.priority,
                "source": profile.selector.source(),
                "kind": profile.kind,
                "values": profile.values,
                "domain": { "minimum": profile.domain.minimum, "maximum": profile.domain.maximum },
                "evidence": profile.evidence,
            })
        })
        .collect()
}

pub fn import(file: &Path, priority: Option<i32>, dry_run: bool, common: &Common) -> Result<Exit> {
    let environment = commands::environment(common);
    let folder = folder(&environment)?;
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let offered = CacheFolder::parse(file, &bytes);
    if offered.state != FileState::Read {
        bail!(
            "{} is no export: {}; nothing was changed",
            file.display(),
            offered.state
        );
    }
    for diagnostic in offered.diagnostics() {
        eprintln!("note: {diagnostic}");
    }
    if !offered.choices.lane_costs.is_empty() {
        eprintln!("note: lane costs of other machines are not imported");
    }
    let check = |stored: &Choices| check_import(environment.registry(), &offered, stored, priority);
    let (mut written, mut quarantined) = (false, None);
    // Bad rows alone leave the saved choices as they are.
    let mut import: Import = check(&folder.load().choices)?;
    if !dry_run && !import.accepted.is_empty() {
        let mut checked = Ok(Import::default());
        let update = folder.modify(|choices| {
            checked = check(choices);
            if let Ok(import) = &checked {
                choices.merge_profiles(&import.accepted);
            }
        })?;
        written = update.changed;
        quarantined = update.quarantined;
        import = checked?;
    }
    let useless =
        import.accepted.is_empty() && !(import.skipped.is_empty() && offered.void.is_empty());
    let exit = if useless { Exit::Failed } else { Exit::Done };
    let previous = Some(folder.previous_path()).filter(|path| written && path.exists());
    if common.json {
        let document = serde_json::json!({
            "schema": 1,
            "path": folder.choices_path(),
            "dry_run": dry_run,
            "changed": written,
            "imported": json_profiles(&import.accepted),
            "skipped": json_rows(&import.skipped),
            "void": json_void(&offered.void),
            "previous": previous,
            "quarantined": quarantined,
        });
        println!("{}", serde_json::to_string_pretty(&document)?);
        return Ok(exit);
    }
    let taken = if dry_run { "would import" } else { "imported" };
    for profile in &import.accepted {
        println!(
            "{taken} {} revision {} for {}",
            profile.key, profile.key.revision, profile.selector
        );
    }
    print_rows("skipped", &import.skipped);
    println!(
        "{taken} {} profiles, skipped {} rows",
        import.accepted.len(),
        import.skipped.len() + offered.void.len()
    );
    if let Some(previous) = previous {
        eprintln!("what was saved before is in {}", previous.display());
    }
    if let Some(copy) = quarantined {
        eprintln!("the file with unreadable parts is in {}", copy.display());
    }
    Ok(exit)
}
