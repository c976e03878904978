//! How a kernel was decided, from stored evidence.

use super::report::{interval, shown};
use super::setup::Setup;
use crate::Common;
use crate::exit::Exit;
use crate::table::{duration, table};
use anyhow::{Context, Result, bail};
use onl::tuning::decision::{Decision, Verdict};
use onl::tuning::evidence::Process;
use onl::tuning::explain::{Confirmed, ProcessExplanation, SearchExplanation, explain};
use onl::tuning::journal::{JournalContents, journals};
use onl::tuning::{EvidenceRecord, KeyEvidence, RowKind};
use onl::{KernelKey, ParameterRow};
use serde::Serialize;

/// A decided kernel with where its evidence lies.
#[derive(Serialize)]
struct Explained {
    key: String,
    revision: u32,
    /// What is saved: `promoted`, `default_confirmed`, or what the last calibration came to without saving it.
    outcome: String,
    /// Digest of the evidence, or the journal.
    evidence: String,
    processes: Vec<ProcessExplanation>,
}

pub fn run(pattern: &str, common: &Common) -> Result<Exit> {
    let setup = Setup::new(common)?;
    let Some(folder) = setup.environment.cache_folder() else {
        bail!("there is no profile folder; set ONL_TUNING_CACHE");
    };
    let registered = setup.environment.registry().kernels()?;
    if !registered.iter().any(|(key, _)| key.matches(pattern)) {
        bail!(
            "no kernel matches '{pattern}'; give Kernel, Kernel/type or library/Kernel/implementation/type"
        );
    }
    let mut explained = Vec::new();
    let mut known: Vec<KernelKey> = Vec::new();
    for row in folder.load().choices.rows {
        if row.execution != setup.execution || !row.key.matches(pattern) {
            continue;
        }
        let text = folder.read_evidence(&row.evidence)?;
        let record: EvidenceRecord = serde_json::from_str(&text)
            .with_context(|| format!("evidence {} of {}", row.evidence, row.key))?;
        let outcome = match row.kind {
            RowKind::Promoted => "promoted",
            RowKind::DefaultConfirmed => "default_confirmed",
        };
        explained.push(of(&row.key, outcome, &row.evidence, &record.processes));
        known.push(row.key);
    }
    // Kernels that were measured and not decided are in the journals only.
    let evidence = setup.evidence_folder().unwrap_or_default();
    for path in journals(&evidence)?.iter().rev() {
        let Ok(contents) = JournalContents::read(path) else {
            continue;
        };
        if contents.setup.execution != setup.execution {
            continue;
        }
        for result in contents.results {
            if result.key.matches(pattern) && !known.contains(&result.key) {
                let (outcome, path) = (result.outcome.name(), path.display().to_string());
                explained.push(of(&result.key, outcome, &path, &result.evidence));
                known.push(result.key);
            }
        }
    }
    if explained.is_empty() {
        bail!(
            "there is no evidence of '{pattern}' for this machine and policy; `onl tune-kernels --apply --kernel \
             {pattern}` measures it"
        );
    }
    explained.sort_by(|a, b| a.key.cmp(&b.key));
    if common.json {
        let document = serde_json::json!({
            "schema": 1,
            "execution": setup.execution,
            "kernels": explained,
        });
        println!("{}", serde_json::to_string_pretty(&document)?);
        return Ok(Exit::Done);
    }
    for (i, kernel) in explained.iter().enumerate() {
        if i > 0 {
            println!();
        }
        print(kernel);
    }
    Ok(Exit::Done)
}

fn of(key: &KernelKey, outcome: &str, evidence: &str, processes: &[KeyEvidence]) -> Explained {
    Explained {
        key: key.to_string(),
        revision: key.revision,
        outcome: outcome.to_owned(),
        evidence: evidence.to_owned(),
        processes: processes.iter().map(explain).collect(),
    }
}

fn print(kernel: &Explained) {
    println!(
        "{} revision {}: {}",
        kernel.key,
        kernel.revision,
        kernel.outcome.replace('_', " ")
    );
    println!("evidence {}", kernel.evidence);
    for process in &kernel.processes {
        println!();
        print_process(process);
    }
}

fn print_process(process: &ProcessExplanation) {
    let name = match process.process {
        Process::First => "first process",
        Process::Second => "second process",
    };
    let rule = &process.rule;
    println!(
        "{name}: alpha {}, margin {}, looks {:?}",
        rule.alpha, rule.margin, rule.looks
    );
    for skipped in &process.skipped {
        println!("  skipped: {skipped}");
    }
    print_search(&process.search);
    if let Some(chosen) = &process.chosen {
        let differing = differing(&process.default, chosen);
        println!("  confirmed against the default: {differing}");
    }
    if !process.workloads.is_empty() {
        let all = process.workloads.iter().chain([&process.placebo]);
        print_pairs("workload", all);
    }
    if let Some(stopped) = &process.stopped {
        println!("  measuring stopped: {stopped}");
    }
    if let Some(decision) = &process.decision {
        println!("  decision: {}", decision_in_words(decision));
    }
}

fn print_pairs<'a>(name: &str, pairs: impl Iterator<Item = &'a Confirmed>) {
    let mut rows = table(
        &["", name, "pairs", "default", "other", "time ratio"],
        &["pairs", "default", "other"],
    );
    let time = |ns: Option<f64>| ns.map_or_else(String::new, duration);
    for row in pairs {
        rows.add_row([
            String::new(),
            row.workload.clone(),
            row.pairs.to_string(),
            time(row.default_ns),
            time(row.other_ns),
            interval(row.ratio.as_ref()),
        ]);
    }
    println!("{rows}");
}

fn print_search(search: &SearchExplanation) {
    match search {
        SearchExplanation::Given => {}
        SearchExplanation::Crossover {
            parameter,
            fit,
            crossing,
            sizes,
            choice,
        } => {
            println!("  search for threshold {parameter}");
            if let Some(fit) = fit {
                println!(
                    "  fit: below {} + {:.4} ns·n, above {} + {:.4} ns·n, {}",
                    duration(fit.below.fixed_ns),
                    fit.below.slope_ns,
                    duration(fit.above.fixed_ns),
                    fit.above.slope_ns,
                    match crossing {
                        Some(n) => format!("crossing at n = {n:.0}"),
                        None => "which never cross".to_owned(),
                    }
                );
            }
            print_pairs("size", sizes.iter().flat_map(|size| &size.workloads));
            match choice {
                Some(choice) => println!("  found: {}", in_words(choice)),
                None => println!("  the search did not end"),
            }
        }
        SearchExplanation::Race { candidates } => {
            let mut rows = table(
                &["", "candidate", "rounds", "time ratio", "fate"],
                &["rounds"],
            );
            for candidate in candidates {
                let ratio = match (&candidate.ratio, candidate.estimate) {
                    (Some(ratio), _) => interval(Some(ratio)),
                    (None, Some(estimate)) => format!("{estimate:.3}"),
                    (None, None) => String::new(),
                };
                rows.add_row([
                    String::new(),
                    candidate.name.clone(),
                    candidate.rounds.to_string(),
                    ratio,
                    candidate.fate.clone(),
                ]);
            }
            println!("{rows}");
        }
        SearchExplanation::Other { evidence } => println!("  search: {evidence}"),
    }
}

/// A tagged value in one line: its name, then its fields.
fn in_words(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    let Some((name, fields)) = value.as_object().and_then(|object| object.iter().next()) else {
        return value.as_str().unwrap_or_default().replace('_', " ");
    };
    let fields: Vec<String> = fields
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| {
            let never = value.as_i64() == Some(i64::MAX);
            let value = if never {
                "never".to_owned()
            } else if value.is_null() {
                "none".to_owned()
            } else {
                value.to_string()
            };
            format!("{} {value}", name.replace('_', " "))
        })
        .collect();
    format!("{}: {}", name.replace('_', " "), fields.join(", "))
}

fn differing(default: &ParameterRow, chosen: &ParameterRow) -> String {
    let values: Vec<String> = chosen
        .0
        .iter()
        .filter(|(name, value)| default.get(name) != Some(value))
        .map(|(name, value)| format!("{name}={}", shown(value)))
        .collect();
    if values.is_empty() {
        "the default itself".to_owned()
    } else {
        values.join(" ")
    }
}

/// A decision with its reason.
pub fn decision_in_words(decision: &Decision) -> String {
    let verdict = match &decision.verdict {
        Verdict::Promote => "promote".to_owned(),
        Verdict::Keep(reason) => format!("keep the default, {reason}"),
        Verdict::Void { placebo } => format!(
            "void, the placebo is told apart: {}",
            interval(Some(placebo))
        ),
        Verdict::TooNoisy => "too noisy".to_owned(),
        Verdict::Undecided => "undecided, more pairs are needed".to_owned(),
        other => in_words(other),
    };
    let ratio = interval(decision.ratio.as_ref());
    match decision.rounds {
        0 => verdict,
        rounds => format!("{verdict} after {rounds} pairs, ratio {ratio}"),
    }
}
