//! `onl tuning prune` and `onl tuning remove`.

use super::{folder, json_rows, json_void, print_rows, saved};
use crate::exit::Exit;
use crate::{Common, commands};
use anyhow::{Context, Result, anyhow, bail};
use onl::tuning::drift::DriftReport;
use onl::tuning::{Choices, FileState, Removal, prune_drifted, prune_unusable, remove_kernels};
use std::path::Path;

pub fn prune(drifted: Option<&Path>, dry_run: bool, common: &Common) -> Result<Exit> {
    let environment = commands::environment(common);
    match drifted {
        Some(path) => {
            let text =
                std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            let report = DriftReport::from_json(&text)
                .map_err(|reason| anyhow!("{}: {reason}", path.display()))?;
            change(dry_run, common, |choices| {
                Ok(prune_drifted(choices, &report))
            })
        }
        None => change(dry_run, common, |choices| {
            Ok(prune_unusable(environment.registry(), choices)?)
        }),
    }
}

pub fn remove(pattern: Option<&str>, dry_run: bool, common: &Common) -> Result<Exit> {
    if let Some(pattern) = pattern {
        let environment = commands::environment(common);
        let registered = environment.registry().kernels()?;
        let saved = folder(&environment)?.load().choices;
        let known = registered.iter().map(|(key, _)| key);
        let mut known = known
            .chain(saved.rows.iter().map(|row| &row.key))
            .chain(saved.profiles.iter().map(|profile| &profile.key));
        if !known.any(|key| key.matches(pattern)) {
            bail!(
                "no kernel matches '{pattern}'; give Kernel, Kernel/type or library/Kernel/implementation/type"
            );
        }
    }
    change(dry_run, common, |choices| {
        let removal = remove_kernels(choices, |key| pattern.is_none_or(|p| key.matches(p)));
        if pattern.is_none() {
            choices.lane_costs.clear();
        }
        Ok(removal)
    })
}

/// Changes the saved choices, or a copy of them in a dry run, and says what is gone.
fn change(
    dry_run: bool,
    common: &Common,
    remove: impl FnOnce(&mut Choices) -> Result<Removal>,
) -> Result<Exit> {
    let environment = commands::environment(common);
    let folder = folder(&environment)?;
    let before = saved(folder)?;
    let (mut void, mut written, mut quarantined) = (before.void, false, None);
    let removal = if dry_run || before.state == FileState::Missing {
        let mut choices = before.choices;
        remove(&mut choices)?
    } else {
        let mut removal = Ok(Removal::default());
        let update = folder.modify(|choices| removal = remove(choices))?;
        void = update.before.void;
        written = update.changed;
        quarantined = update.quarantined;
        removal?
    };
    let previous = written.then(|| folder.previous_path());
    if common.json {
        let document = serde_json::json!({
            "schema": 1,
            "path": folder.choices_path(),
            "dry_run": dry_run,
            "changed": written,
            "removed": json_rows(&removal.removed),
            "kept": json_rows(&removal.kept),
            "void": json_void(&void),
            "previous": previous,
            "quarantined": quarantined,
        });
        println!("{}", serde_json::to_string_pretty(&document)?);
        return Ok(Exit::Done);
    }
    let (gone, stays) = if dry_run {
        ("would remove", "would keep")
    } else {
        ("removed", "kept")
    };
    print_rows(gone, &removal.removed);
    for row in &void {
        println!(
            "{gone} {} at line {}, unreadable: {}",
            row.item, row.line, row.reason
        );
    }
    print_rows(stays, &removal.kept);
    if before.state == FileState::Missing {
        println!("no choices saved yet in {}", folder.path().display());
    } else if removal.removed.is_empty() && void.is_empty() {
        println!("nothing to remove in {}", folder.choices_path().display());
    }
    if let Some(previous) = previous {
        eprintln!("what was saved before is in {}", previous.display());
    }
    if let Some(copy) = quarantined {
        eprintln!("the file with unreadable parts is in {}", copy.display());
    }
    Ok(Exit::Done)
}
