//! Processes of a measurement: this very command, started anew with a request on its standard input.

use crate::commands::tune_kernels::{common_arguments, myself};
use crate::exit::Exit;
use crate::{Common, commands};
use anyhow::{Context, Result};
use onl_evidence::attribution::{Answer, OnlSettings, Request, RunnerError, SampleRunner, answer};
use std::io::{Read, Write};
use std::process::Stdio;

#[derive(clap::Args)]
pub struct ProcessArguments {
    #[command(flatten)]
    common: Common,
}

/// Starts a process for every request.
pub struct Processes<'a> {
    pub common: &'a Common,
}

impl SampleRunner for Processes<'_> {
    fn run(&mut self, request: &Request) -> Result<Answer, RunnerError> {
        self.ask(request).map_err(|error| RunnerError {
            reason: format!("{error:#}"),
        })
    }
}

impl Processes<'_> {
    fn ask(&self, request: &Request) -> Result<Answer> {
        let mut command = myself()?;
        command
            .arg("attribution-process")
            .args(common_arguments(self.common))
            .args(self.common.no_profiles.then_some("--no-profiles"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().context("starting a process")?;
        if let Some(mut pipe) = child.stdin.take() {
            // A process that ends before it has read the request says why itself.
            let _ = pipe.write_all(&serde_json::to_vec(request)?);
        }
        let output = child.wait_with_output().context("waiting for a process")?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            let reason = text
                .lines()
                .rev()
                .find_map(|line| line.strip_prefix("error: "));
            let reason = reason.unwrap_or_else(|| text.trim());
            anyhow::bail!(
                "{}",
                if reason.is_empty() {
                    format!("a process ended with {}", output.status)
                } else {
                    reason.to_owned()
                }
            );
        }
        serde_json::from_slice(&output.stdout).context("the answer of a process")
    }
}

/// A process of a measurement: reads a request from stdin and writes the answer to stdout.
pub fn process(arguments: &ProcessArguments) -> Result<Exit> {
    let mut text = Vec::new();
    std::io::stdin().read_to_end(&mut text)?;
    let request: Request = serde_json::from_slice(&text).context("a request on stdin")?;
    let settings = OnlSettings {
        policy: commands::policy(&arguments.common),
        environment: commands::environment(&arguments.common),
    };
    let answer = answer(&request, &settings)?;
    println!("{}", serde_json::to_string(&answer)?);
    Ok(Exit::Done)
}
