//! `onl tuning`: saved profiles, looked at, carried to other machines, removed.

mod removal;
mod show;
mod transfer;

use crate::exit::Exit;
use crate::{Common, commands};
use anyhow::{Result, bail};
use onl::Environment;
use onl::tuning::{CacheFolder, FileState, LoadReport, UnusedRow, VoidRow};
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Show where the parameters of kernels come from.
    Show {
        /// Kernel as Gemm, Gemm/f32 or onl/Gemm/packed/f32; all tuned kernels when omitted.
        key: Option<String>,
        #[command(flatten)]
        common: Common,
    },
    /// Print the folder of saved profiles.
    Path {
        #[command(flatten)]
        common: Common,
    },
    /// Write saved rows as profiles for an explicit class of processors.
    Export(transfer::ExportArguments),
    /// Save the profiles of an export; they are used within their class of processors only.
    Import {
        /// File that `onl tuning export` wrote, or another machine's choices.toml.
        file: PathBuf,
        /// Order among profiles of equally specific classes, higher first, instead of the file's.
        #[arg(long, value_name = "N", allow_negative_numbers = true)]
        priority: Option<i32>,
        /// Say what would be saved, and change nothing.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Remove rows that cannot be used any more: of kernels, revisions or schemas that no longer exist.
    Prune {
        /// Remove the rows that this report of `onl kernel-baseline --check` found drifted, and nothing else.
        #[arg(long, value_name = "REPORT")]
        drifted: Option<PathBuf>,
        /// Say what would be removed, and change nothing.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Remove the rows of kernels, for every execution and class of processors.
    Remove {
        /// Kernel as Gemm, Gemm/f32 or onl/Gemm/packed/f32.
        #[arg(required_unless_present = "all")]
        key: Option<String>,
        /// Remove the rows of all kernels.
        #[arg(long, conflicts_with = "key")]
        all: bool,
        /// Say what would be removed, and change nothing.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        common: Common,
    },
}

pub fn run(arguments: &Arguments) -> Result<Exit> {
    match &arguments.action {
        Action::Show { key, common } => show::show(key.as_deref(), common),
        Action::Path { common } => path(common),
        Action::Export(arguments) => transfer::export(arguments),
        Action::Import {
            file,
            priority,
            dry_run,
            common,
        } => transfer::import(file, *priority, *dry_run, common),
        Action::Prune {
            drifted,
            dry_run,
            common,
        } => removal::prune(drifted.as_deref(), *dry_run, common),
        Action::Remove {
            key,
            all: _,
            dry_run,
            common,
        } => removal::remove(key.as_deref(), *dry_run, common),
    }
}

/// The folder of saved profiles.
fn folder(environment: &Environment) -> Result<&CacheFolder> {
    let Some(folder) = environment.cache_folder() else {
        for diagnostic in environment.diagnostics() {
            eprintln!("note: {diagnostic}");
        }
        bail!("no profile folder is in use");
    };
    Ok(folder)
}

fn path(common: &Common) -> Result<Exit> {
    let environment = commands::environment(common);
    let folder = folder(&environment)?;
    if common.json {
        println!(
            "{}",
            serde_json::json!({ "schema": 1, "path": folder.path() })
        );
    } else {
        println!("{}", folder.path().display());
    }
    Ok(Exit::Done)
}

/// What the folder holds, with notes about what of it cannot be used.
///
/// # Errors
/// When the file as a whole cannot be used.
fn saved(folder: &CacheFolder) -> Result<LoadReport> {
    let report = folder.load();
    if !matches!(report.state, FileState::Read | FileState::Missing) {
        bail!(
            "{}: {}; nothing was changed, move the file away or use the version that wrote it",
            report.path.display(),
            report.state
        );
    }
    for diagnostic in report.diagnostics() {
        eprintln!("note: {diagnostic}");
    }
    Ok(report)
}

fn json_rows(rows: &[UnusedRow]) -> Vec<serde_json::Value> {
    rows.iter()
        .map(|row| {
            serde_json::json!({
                "key": row.key.to_string(),
                "revision": row.key.revision,
                "source": row.source,
                "origin": row.origin,
                "reason": row.reason,
            })
        })
        .collect()
}

fn json_void(rows: &[VoidRow]) -> Vec<serde_json::Value> {
    rows.iter()
        .map(|row| serde_json::json!({ "line": row.line, "item": row.item, "reason": row.reason }))
        .collect()
}

fn print_rows(what: &str, rows: &[UnusedRow]) {
    for row in rows {
        println!(
            "{what} {} revision {} ({}; {}): {}",
            row.key, row.key.revision, row.source, row.origin, row.reason
        );
    }
}
