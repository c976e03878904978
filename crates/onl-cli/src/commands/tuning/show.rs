//! `onl tuning show`.

use crate::exit::Exit;
use crate::table::table;
use crate::{Common, commands};
use anyhow::{Result, bail};
use onl::KernelKey;
use onl::tuning::{LoadOutcome, RejectedRow, UnusedRow};

/// Rows of the saved file for this kernel, of any revision, that were not published.
fn unpublished(outcome: &LoadOutcome, key: &KernelKey) -> Vec<RejectedRow> {
    let same = |row: &&UnusedRow| {
        let of_revision = KernelKey {
            revision: key.revision,
            ..row.key.clone()
        };
        of_revision == *key
    };
    [&outcome.incompatible, &outcome.stale, &outcome.invalid]
        .into_iter()
        .flatten()
        .filter(same)
        .map(|row| RejectedRow {
            source: row.source,
            origin: row.origin.clone(),
            reason: row.reason.clone(),
        })
        .collect()
}

pub fn show(pattern: Option<&str>, common: &Common) -> Result<Exit> {
    let environment = commands::environment(common);
    let resolved = environment.resolve(&commands::policy(common))?;
    let descriptor = resolved.descriptor();
    let mut diagnostics = environment.profile_diagnostics(&resolved)?;
    let outcome = environment.load_profiles(&resolved)?;
    if let Some(outcome) = &outcome {
        diagnostics.extend(outcome.foreign());
    }
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
        let mut explanation = environment.registry().explain(key, &descriptor)?;
        if let (Some(outcome), Some(_)) = (&outcome, pattern) {
            // A class of processors is in the registry whether or not it fits, and has its reason there already.
            for row in unpublished(outcome, key) {
                let known = |other: &RejectedRow| other.origin == row.origin;
                if !explanation.rejected.iter().any(known) {
                    explanation.rejected.push(row);
                }
            }
            explanation.rejected.sort_by_key(|row| row.source);
        }
        explained.push(explanation);
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
