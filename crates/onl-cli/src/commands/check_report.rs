//! `onl check-report`: does a report follow from its own samples?

use crate::exit::Exit;
use anyhow::{Context, Result};
use onl_evidence::report::check_text;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Arguments {
    /// Report of any kind.
    #[arg(value_name = "FILE")]
    report: PathBuf,
    /// Print one JSON document instead of text.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<Exit> {
    let path = arguments.report.display();
    let text =
        std::fs::read_to_string(&arguments.report).with_context(|| format!("report {path}"))?;
    let checked = check_text(&text).with_context(|| format!("report {path}"))?;
    if arguments.json {
        let document = serde_json::json!({
            "schema": 1,
            "kind": checked.head.kind,
            "findings": checked.findings,
        });
        println!("{}", serde_json::to_string_pretty(&document)?);
    } else {
        for finding in &checked.findings {
            println!("{finding}");
        }
        match checked.findings.len() {
            0 => println!("{path}: everything follows from the samples"),
            n => println!("{path}: {n} findings"),
        }
    }
    Ok(if checked.findings.is_empty() {
        Exit::Done
    } else {
        Exit::Failed
    })
}
