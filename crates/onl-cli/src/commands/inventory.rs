use crate::exit::Exit;
use crate::table::table;
use crate::{Common, commands};
use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use onl::{KernelTable, TuningSnapshot};
use onl_evidence::{
    Verdict, apply_verdicts, inventory, markdown, validate_inventory, verify_table,
};

#[derive(clap::Args)]
pub struct Arguments {
    /// Only paths in this state.
    #[arg(long, value_parser = ["serial", "parallel_fixed_policy", "tunable", "calibratable"])]
    state: Option<String>,
    /// Run every path and prove its state: every parameter must change what is observed.
    #[arg(long)]
    verify: bool,
    /// Print the page of the inventory with portable defaults, the same on every machine.
    #[arg(long, conflicts_with_all = ["json", "state", "verify"])]
    markdown: bool,
    #[command(flatten)]
    common: Common,
}

pub fn run(arguments: &Arguments) -> Result<Exit> {
    if arguments.markdown {
        let list = inventory(&KernelTable::builtin(), &TuningSnapshot::portable());
        print!("{}", markdown(&list));
        return Ok(Exit::Done);
    }
    let environment = commands::environment(&arguments.common);
    let resolved = environment.resolve(&commands::policy(&arguments.common))?;
    let snapshot = environment.snapshot(&resolved)?;
    let mut list = inventory(environment.table(), &snapshot);
    let verified = if arguments.verify {
        let bar = ProgressBar::new(0);
        bar.set_style(
            ProgressStyle::with_template("verifying {bar:40} {pos}/{len}")
                .expect("a legal template"),
        );
        let verified = verify_table(
            environment.table(),
            onl::IsaTier::detect(),
            |done, total| {
                bar.set_length(total as u64);
                bar.set_position(done as u64);
            },
        );
        bar.finish_and_clear();
        Some(verified)
    } else {
        None
    };
    if let Some(verified) = &verified {
        apply_verdicts(&mut list, verified);
    }
    let errors = validate_inventory(&list).err().unwrap_or_default();
    if let Some(state) = &arguments.state {
        list.paths.retain(|row| row.state == *state);
    }
    let unproved = verified
        .iter()
        .flatten()
        .filter(|v| v.verdict != Verdict::Proved)
        .count();
    if arguments.common.json {
        let document = serde_json::json!({
            "schema": 1,
            "inventory": list,
            "errors": errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "verified": verified,
        });
        println!("{}", serde_json::to_string_pretty(&document)?);
    } else {
        let mut rows = table(
            &[
                "path",
                "state",
                "implementation",
                "opsets",
                "parameters or reason",
            ],
            &[],
        );
        for row in &list.paths {
            let opsets: Vec<String> = row
                .implementations
                .iter()
                .map(|i| {
                    i.last_opset.map_or(format!("{}+", i.first_opset), |last| {
                        format!("{}-{last}", i.first_opset)
                    })
                })
                .collect();
            let about = match &row.serial_reason {
                Some(reason) => format!("{}: {}", reason.category, reason.reason),
                None => row
                    .parameters
                    .iter()
                    .map(|p| format!("{}={} ({})", p.name, p.value, p.source))
                    .collect::<Vec<_>>()
                    .join(", "),
            };
            let domain = if row.domain == "ai.onnx" {
                String::new()
            } else {
                format!("{}:", row.domain)
            };
            rows.add_row([
                format!("{domain}{}/{}", row.op_type, row.element_type),
                row.state.clone(),
                row.implementations
                    .first()
                    .map_or_else(String::new, |i| i.name.clone()),
                opsets.join(" "),
                about,
            ]);
        }
        println!("{rows}");
        let counts: Vec<String> = list
            .states
            .iter()
            .map(|(state, count)| format!("{count} {state}"))
            .collect();
        println!(
            "{} paths: {}",
            list.states.values().sum::<usize>(),
            counts.join(", ")
        );
        if let Some(verified) = &verified {
            println!(
                "{} of {} states proved",
                verified.len() - unproved,
                verified.len()
            );
        }
    }
    for error in &errors {
        eprintln!("error: {error}");
    }
    for failed in verified
        .iter()
        .flatten()
        .filter(|v| v.verdict != Verdict::Proved)
    {
        eprintln!(
            "error: {} is declared {}, not proved: {}",
            failed.key, failed.state, failed.detail
        );
    }
    Ok(if errors.is_empty() && unproved == 0 {
        Exit::Done
    } else {
        Exit::Failed
    })
}
