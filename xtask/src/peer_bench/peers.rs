//! Processes that measure when they are told to.

use super::cases::ElementType;
use super::model::Files;
use crate::process;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest time that threads of a process may stay awake after its answer.
const LONGEST_SETTLING: Duration = Duration::from_millis(60);
/// A process whose threads ran for less than a tenth of such a time is at rest.
const REST: Duration = Duration::from_millis(2);

/// A block of runs.
#[derive(Debug, Clone)]
pub struct Block {
    /// Nanoseconds of one run, sample by sample.
    pub samples_ns: Vec<f64>,
    /// Operations or bytes of a run, where the process counts them.
    pub units: u64,
}

/// One process.
pub struct Peer {
    /// `onl`, `onnxruntime`, `openblas`, `gemm` or `probe`.
    pub name: &'static str,
    pub threads: u32,
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts a process that talks the language of `onl peer-process`.
    pub fn start(name: &'static str, threads: u32, command: &mut Command) -> Result<Peer> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", process::shown(command)))?;
        let requests = child.stdin.take().context("a pipe to the process")?;
        let answers = child.stdout.take().context("a pipe from the process")?;
        Ok(Peer {
            name,
            threads,
            child,
            requests,
            answers: BufReader::new(answers),
        })
    }

    fn ask(&mut self, request: &Value) -> Result<Value> {
        let what = || format!("{} with {} threads", self.name, self.threads);
        writeln!(self.requests, "{request}").with_context(what)?;
        self.requests.flush().with_context(what)?;
        let mut line = String::new();
        if self.answers.read_line(&mut line).with_context(what)? == 0 {
            bail!("{}: the process ended", what());
        }
        let answer: Value = serde_json::from_str(&line).with_context(what)?;
        if let Some(reason) = answer.pointer("/failed/reason").and_then(Value::as_str) {
            bail!("{}: {reason}", what());
        }
        Ok(answer)
    }

    /// Opens a model; gives the bytes of its outputs.
    pub fn open(&mut self, consumer: &str, files: &Files, library: &Path) -> Result<u64> {
        let inputs: Vec<Value> = files
            .inputs
            .iter()
            .map(|(name, path)| json!({ "name": name, "path": path }))
            .collect();
        let answer = self.ask(&json!({ "open": {
            "consumer": consumer,
            "model": files.model,
            "library": library,
            "inputs": inputs,
        }}))?;
        Ok(answer
            .pointer("/opened/output_bytes")
            .and_then(Value::as_u64)
            .unwrap_or(0))
    }

    /// Makes a loop at a ceiling ready.
    pub fn probe(&mut self, work: &str, bytes: u64) -> Result<()> {
        self.ask(&json!({ "probe": { "work": work, "bytes": bytes } }))?;
        Ok(())
    }

    /// Makes a product ready, in a process that knows nothing of models.
    pub fn product(
        &mut self,
        (batches, m, k, n): (usize, usize, usize, usize),
        element_type: ElementType,
    ) -> Result<()> {
        self.ask(&json!({ "product": {
            "batches": batches,
            "m": m,
            "k": k,
            "n": n,
            "element_type": element_type.name(),
        }}))?;
        Ok(())
    }

    /// Measures a block of runs of what is open, and waits until the process is at rest.
    pub fn measure(&mut self, least: Duration) -> Result<Block> {
        let answer = self.ask(&json!({ "measure": { "least_ns": least.as_nanos() as u64 } }))?;
        let measured = answer.get("measured").context("an answer without times")?;
        let runs = measured["runs_per_sample"].as_f64().unwrap_or(1.0).max(1.0);
        let samples = measured["samples_ns"].as_array().context("no samples")?;
        let samples_ns = samples.iter().filter_map(Value::as_f64);
        self.settle();
        Ok(Block {
            samples_ns: samples_ns.map(|ns| ns / runs).collect(),
            units: measured["units"].as_u64().unwrap_or(0),
        })
    }

    /// Lets the process write the outputs of its first run.
    pub fn write(&mut self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        self.ask(&json!({ "write": { "folder": folder } }))?;
        Ok(())
    }

    /// Closes what is open, so that its memory is free.
    pub fn close(&mut self) -> Result<()> {
        self.ask(&json!("close"))?;
        self.settle();
        Ok(())
    }

    /// Waits until idle threads that wait by spinning have gone to sleep.
    fn settle(&self) {
        let started = Instant::now();
        let mut before = self.ran();
        while started.elapsed() < LONGEST_SETTLING {
            std::thread::sleep(REST);
            let after = self.ran();
            match (before, after) {
                // The sum falls when a thread ends, which is no rest.
                (Some(before), Some(after))
                    if after.checked_sub(before).is_some_and(|ran| ran < REST / 10) =>
                {
                    return;
                }
                (None, _) | (_, None) => return,
                (_, after) => before = after,
            }
        }
    }

    /// Time that all threads of the process ran, where the system tells.
    fn ran(&self) -> Option<Duration> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).ok()?;
        let mut total = 0;
        for task in tasks.flatten() {
            let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            total += text.split_whitespace().next()?.parse::<u64>().ok()?;
        }
        Some(Duration::from_nanos(total))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
