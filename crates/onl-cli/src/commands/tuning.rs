use crate::exit::Exit;
use crate::table::table;
use crate::{Common, commands};
use anyhow::{Result, bail};
use onl::KernelKey;

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
}

pub fn run(arguments: &Arguments) -> Result<Exit> {
    match &arguments.action {
        Action::Show { key, common } => show(key.as_deref(), common),
        Action::Path { common } => path(common),
    }
}

fn path(common: &Common) -> Result<Exit> {
    let environment = commands::environment(common);
    let Some(folder) = environment.cache_folder() else {
        for diagnostic in environment.diagnostics() {
            eprintln!("note: {diagnostic}");
        }
        bail!("no profile folder is in use");
    };
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

fn show(pattern: Option<&str>, common: &Common) -> Result<Exit> {
    let environment = commands::environment(common);
    let resolved = environment.resolve(&commands::policy(common))?;
    let descriptor = resolved.descriptor();
    let diagnostics = environment.profile_diagnostics(&resolved)?;
    for diagnostic in &diagnostics {
        eprintln!("note: {diagnostic}");
    }
    let mut keys: Vec<KernelKey> = environment
        .registry()
        .kernels()?
        .into_iter()
        .map(|(key, _)| key)
        .collect();
    if let Some(pattern) = pattern {
        keys.retain(|key| key.matches(pattern));
        if keys.is_empty() {
            bail!(
                "no kernel matches '{pattern}'; give Kernel, Kernel/type or library/Kernel/implementation/type"
            );
        }
    }
    let mut explained = Vec::new();
    for key in &keys {
        explained.push(environment.registry().explain(key, &descriptor)?);
    }
    if pattern.is_none() {
        explained.retain(|e| {
            e.row.source != onl::ValueSource::PortableDefault || !e.rejected.is_empty()
        });
    }
    if common.json {
        let rows: Vec<serde_json::Value> = explained
            .iter()
            .map(|e| {
                serde_json::json!({
                    "key": e.key.to_string(),
                    "revision": e.key.revision,
                    "source": e.row.source,
                    "origin": e.origin,
                    "values": e.row.values,
                    "domain": { "minimum": e.row.domain.minimum, "maximum": e.row.domain.maximum },
                    "rejected": e.rejected.iter().map(|r| serde_json::json!({
                        "source": r.source, "origin": r.origin, "reason": r.reason,
                    })).collect::<Vec<_>>(),
                })
            })
            .collect();
        let document = serde_json::json!({
            "schema": 1,
            "threads": descriptor.participants,
            "execution": descriptor,
            "kernels": rows,
            "diagnostics": diagnostics,
        });
        println!("{}", serde_json::to_string_pretty(&document)?);
        return Ok(Exit::Done);
    }
    if explained.is_empty() {
        println!("no saved profile applies; every kernel uses its portable default");
    } else {
        let mut rows = table(&["key", "source", "sizes", "values"], &[]);
        for e in &explained {
            let domain = e.row.domain;
            let sizes = match (domain.minimum, domain.maximum) {
                (0, u64::MAX) => "all".to_owned(),
                (low, u64::MAX) => format!("from {low}"),
                (low, high) => format!("{low} to {high}"),
            };
            rows.add_row([
                e.key.to_string(),
                e.row.source.to_string(),
                sizes,
                e.row.values.to_string(),
            ]);
        }
        println!("{rows}");
    }
    for e in &explained {
        for rejected in &e.rejected {
            println!(
                "{}: not {} from {}: {}",
                e.key, rejected.source, rejected.origin, rejected.reason
            );
        }
    }
    eprintln!(
        "{} threads, {} wait",
        descriptor.participants, descriptor.wait_mode
    );
    Ok(Exit::Done)
}
