//! The second process of a calibration.

use super::setup::{Limits, Setup, build, settings};
use crate::Common;
use crate::exit::Exit;
use anyhow::{Context, Result};
use onl::tuning::process::{Confirmations, ProcessError, ProcessRunner, Proposals, Watched};
use onl::tuning::{
    Calibrator, Ceilings, Controls, CouplingProbe, MonotonicClock, SystemEnvironment,
};
use onl::{CalibrationTarget, LaneCosts};
use std::io::{Read, Seek, SeekFrom, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time of a confirmation without a budget.
const LONGEST_NS: u64 = 86_400_000_000_000;
/// How often the first process looks whether the second has ended or the user wants to stop.
const LOOK: Duration = Duration::from_millis(5);

#[derive(clap::Args)]
pub struct ConfirmArguments {
    #[command(flatten)]
    limits: Limits,
    /// Lane costs of the first process as HOT,COLD nanoseconds.
    #[arg(long, value_parser = costs)]
    lane_costs: LaneCosts,
    /// Ceilings of the first process as JSON.
    #[arg(long, value_parser = ceilings)]
    ceilings: Option<Ceilings>,
    #[command(flatten)]
    common: Common,
}

fn ceilings(text: &str) -> Result<Ceilings, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn costs(text: &str) -> Result<LaneCosts, String> {
    let parsed = text
        .split_once(',')
        .and_then(|(hot, cold)| Some((hot.parse().ok()?, cold.parse().ok()?)));
    parsed
        .map(|(hot_ns, cold_ns)| LaneCosts { hot_ns, cold_ns })
        .ok_or_else(|| "expected HOT,COLD".to_owned())
}

/// Runs a confirmation in a process of its own, started from this very file, in the time that is left.
pub struct SecondProcess<'a> {
    pub common: &'a Common,
    pub memory: u64,
    pub costs: LaneCosts,
    pub ceilings: Option<Ceilings>,
    pub cancel: &'a AtomicBool,
}

impl ProcessRunner for SecondProcess<'_> {
    fn confirm(&self, proposals: &Proposals) -> Result<Confirmations, ProcessError> {
        let failed = |reason: String| ProcessError { reason };
        let request = serde_json::to_vec(proposals).map_err(|e| failed(e.to_string()))?;
        let left_ns = proposals.budget_ns.unwrap_or(LONGEST_NS);
        if left_ns == 0 {
            return Err(failed("the time budget ended first".to_owned()));
        }
        let ceilings = self
            .ceilings
            .as_ref()
            .map(serde_json::to_string)
            .transpose()
            .map_err(|e| failed(e.to_string()))?;
        // A file takes an answer of any length while nobody reads it.
        let mut answer = tempfile::tempfile().map_err(|e| failed(e.to_string()))?;
        let stdout = answer.try_clone().map_err(|e| failed(e.to_string()))?;
        let mut child = myself()
            .map_err(|e| failed(e.to_string()))?
            .arg("confirm-calibration")
            .args(common_arguments(self.common))
            .args([
                "--budget",
                &format!("{:?}", left_ns as f64 / 1e9),
                "--memory",
                &self.memory.to_string(),
            ])
            .arg(format!(
                "--lane-costs={:?},{:?}",
                self.costs.hot_ns, self.costs.cold_ns
            ))
            .args(ceilings.map(|text| format!("--ceilings={text}")))
            .stdin(Stdio::piped())
            .stdout(stdout)
            .spawn()
            .map_err(|e| failed(e.to_string()))?;
        let sent = child.stdin.take().map(|mut pipe| pipe.write_all(&request));
        let status = loop {
            if self.cancel.load(Ordering::SeqCst) {
                // It may have ended by itself meanwhile; what matters is that it has.
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed("stopped by the user".to_owned()));
            }
            match child.try_wait().map_err(|e| failed(e.to_string()))? {
                Some(status) => break status,
                None => std::thread::sleep(LOOK),
            }
        };
        if !status.success() {
            return Err(failed(format!("it ended with {status}")));
        }
        if let Some(Err(error)) = sent {
            return Err(failed(error.to_string()));
        }
        let mut text = Vec::new();
        answer
            .seek(SeekFrom::Start(0))
            .and_then(|_| answer.read_to_end(&mut text))
            .map_err(|e| failed(e.to_string()))?;
        serde_json::from_slice(&text).map_err(|e| failed(e.to_string()))
    }
}

/// The second process: reads proposals from stdin and writes what it confirmed to stdout.
pub fn confirm(arguments: &ConfirmArguments) -> Result<Exit> {
    let mut request = Vec::new();
    std::io::stdin().read_to_end(&mut request)?;
    let proposals: Proposals = serde_json::from_slice(&request).context("proposals on stdin")?;
    let setup = Setup::new(&arguments.common)?;
    let targets = setup.targets(arguments.lane_costs);
    let targets: Vec<&dyn CalibrationTarget> = targets.iter().map(AsRef::as_ref).collect();
    let clock = MonotonicClock::new();
    // The first process watched the machine and has been waiting since.
    let probe = Watched::new(&SystemEnvironment);
    let settings = settings(&arguments.limits);
    let coupling = setup.lane_cost_probe();
    let calibrator = Calibrator {
        coupling: coupling.as_ref().map(|probe| probe as &dyn CouplingProbe),
        ..setup.calibrator(
            &clock,
            &probe,
            settings,
            build()?,
            arguments.ceilings.clone(),
        )
    };
    let confirmations = calibrator.confirm(&targets, &proposals, &mut Controls::default());
    println!("{}", serde_json::to_string(&confirmations)?);
    Ok(Exit::Done)
}

/// The command that is running, to be started anew.
pub fn myself() -> Result<Command> {
    Ok(Command::new(
        std::env::current_exe().context("the command's own file")?,
    ))
}

/// The common options as they were given.
pub fn common_arguments(common: &Common) -> Vec<String> {
    vec![
        "--threads".to_owned(),
        common.threads.to_string(),
        "--wait".to_owned(),
        common.wait.to_string(),
        "--affinity".to_owned(),
        common.affinity.to_string(),
        "--denormals".to_owned(),
        common.denormals.to_string(),
    ]
}
