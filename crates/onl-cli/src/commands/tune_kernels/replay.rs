//! Decides again from stored samples.

use super::explain::decision_in_words;
use crate::Common;
use crate::exit::Exit;
use crate::table::table;
use anyhow::{Context, Result, bail};
use onl::tuning::decision::{Decision, Verdict};
use onl::tuning::evidence::Process;
use onl::tuning::journal::JournalContents;
use onl::tuning::process::Outcome;
use onl::tuning::{EvidenceRecord, KeyEvidence, replay};
use serde::Serialize;
use std::path::Path;

/// One process's decision on a kernel, as stored and as replayed.
#[derive(Serialize)]
struct Replayed {
    key: String,
    revision: u32,
    process: Process,
    stored: Option<Decision>,
    replayed: Option<Decision>,
    /// Whether row and decision are equal to the bit; `None` when nothing was decided then.
    equal: Option<bool>,
    /// Why there is nothing to replay.
    note: Option<String>,
}

/// A kernel over both processes.
#[derive(Serialize)]
struct Joint {
    key: String,
    /// Outcome in the file, when it holds one.
    stored: Option<String>,
    /// Outcome of the replayed decisions; `None` when one of them is missing.
    replayed: Option<String>,
}

/// Evidence of a file by kernel, with the outcome where the file has it.
type Entries = Vec<(Vec<KeyEvidence>, Option<Outcome>)>;

fn read(path: &Path) -> Result<Entries> {
    let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    if let Ok(record) = serde_json::from_slice::<EvidenceRecord>(&bytes) {
        return Ok(vec![(record.processes, None)]);
    }
    match JournalContents::parse(path, &bytes) {
        Ok(contents) => {
            if contents.damaged > 0 {
                eprintln!("note: {} unreadable lines are ignored", contents.damaged);
            }
            Ok(contents
                .results
                .into_iter()
                .map(|result| (result.evidence, Some(result.outcome)))
                .collect())
        }
        Err(error) => bail!(
            "{} is neither a record of evidence nor a journal: {error}",
            path.display()
        ),
    }
}

pub fn run(path: &Path, alpha: Option<f64>, margin: Option<f64>, common: &Common) -> Result<Exit> {
    let entries = read(path)?;
    let stored_rule = alpha.is_none() && margin.is_none();
    let mut rows = Vec::new();
    let mut joint = Vec::new();
    for (processes, outcome) in &entries {
        let mut decisions = Vec::new();
        for evidence in processes {
            let row = again(evidence, alpha, margin)?;
            decisions.push(row.replayed.clone());
            rows.push(row);
        }
        if let Some(first) = processes.first() {
            joint.push(Joint {
                key: first.key.to_string(),
                stored: outcome.as_ref().map(|o| o.name().to_owned()),
                replayed: together(&decisions).map(str::to_owned),
            });
        }
    }
    let differ = rows.iter().filter(|row| row.equal == Some(false)).count();
    let contradicts = joint.iter().filter(|j| j.contradicts()).count();
    let equal = differ == 0 && contradicts == 0;
    if common.json {
        let document = serde_json::json!({
            "schema": 1,
            "file": path,
            "alpha": alpha,
            "margin": margin,
            "equal": equal,
            "decisions": rows,
            "kernels": joint,
        });
        println!("{}", serde_json::to_string_pretty(&document)?);
    } else {
        print(&rows, &joint, stored_rule, differ);
    }
    Ok(if stored_rule && !equal {
        Exit::Failed
    } else {
        Exit::Done
    })
}

fn again(evidence: &KeyEvidence, alpha: Option<f64>, margin: Option<f64>) -> Result<Replayed> {
    let mut row = Replayed {
        key: evidence.key.to_string(),
        revision: evidence.key.revision,
        process: evidence.process,
        stored: evidence.decision.clone(),
        replayed: None,
        equal: None,
        note: None,
    };
    if evidence.decision.is_none() {
        let stopped = evidence.stopped.as_deref();
        row.note = Some(stopped.unwrap_or("nothing was decided").to_owned());
        return Ok(row);
    }
    let replayed = replay(evidence, alpha, margin)?;
    // Equal text of a number means equal bits.
    let text = |decision: &Option<Decision>| serde_json::to_string(decision);
    let decision = Some(replayed.decision);
    row.equal = Some(replayed.agrees && text(&decision)? == text(&row.stored)?);
    row.replayed = decision;
    Ok(row)
}

/// What the decisions of all processes come to.
fn together(decisions: &[Option<Decision>]) -> Option<&'static str> {
    for decision in decisions {
        match decision.as_ref()?.verdict {
            Verdict::Promote => {}
            Verdict::Keep(_) => return Some("default_confirmed"),
            Verdict::Void { .. } => return Some("void"),
            Verdict::TooNoisy => return Some("too_noisy"),
            Verdict::Undecided => return Some("undecided"),
            _ => return Some("failed"),
        }
    }
    match decisions.len() {
        0 => None,
        // One process alone only proposes.
        1 => Some("proposed"),
        _ => Some("promoted"),
    }
}

impl Joint {
    /// Whether the file says one thing and its samples another. Beyond the samples, a calibration ends without an
    /// outcome when the machine was too noisy or time ended.
    fn contradicts(&self) -> bool {
        let decided = |name: &str| matches!(name, "promoted" | "default_confirmed" | "void");
        match (&self.stored, &self.replayed) {
            (Some(stored), Some(replayed)) => decided(stored) && stored != replayed,
            _ => false,
        }
    }
}

fn print(rows: &[Replayed], joint: &[Joint], stored_rule: bool, differ: usize) {
    let mut lines = table(&["key", "process", "stored", "replayed", ""], &[]);
    let words = |decision: &Option<Decision>, note: &Option<String>| match (decision, note) {
        (Some(decision), _) => decision_in_words(decision),
        (None, Some(note)) => format!("not decided: {note}"),
        (None, None) => String::new(),
    };
    for row in rows {
        lines.add_row([
            row.key.clone(),
            match row.process {
                Process::First => "first",
                Process::Second => "second",
            }
            .to_owned(),
            words(&row.stored, &row.note),
            words(&row.replayed, &None),
            match row.equal {
                Some(true) => "equal",
                Some(false) => "differs",
                None => "",
            }
            .to_owned(),
        ]);
    }
    println!("{lines}");
    for kernel in joint.iter().filter(|kernel| kernel.contradicts()) {
        let rule = if stored_rule {
            "the stored rule"
        } else {
            "this rule"
        };
        println!(
            "{}: {} in the file, {} by its samples under {rule}",
            kernel.key,
            kernel.stored.as_deref().unwrap_or_default(),
            kernel.replayed.as_deref().unwrap_or_default()
        );
    }
    let decided = rows.iter().filter(|row| row.equal.is_some()).count();
    match (differ, stored_rule) {
        (0, _) => println!("{decided} decisions, all equal to the bit"),
        (n, true) => println!(
            "{n} of {decided} decisions differ from the stored ones: the file was changed, or this version decides \
             otherwise"
        ),
        (n, false) => println!("{n} of {decided} decisions are other ones under this rule"),
    }
}
