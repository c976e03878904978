//! The calibration protocol: pre-flight, comparison of outputs, search, confirmation on fresh pairs.

use crate::bench::{Bench, Stop};
use crate::ceilings::Ceilings;
use crate::clock::Clock;
use crate::coupling::{CouplingProbe, Gate};
use crate::decision::{ConfirmationSamples, DecisionRule};
use crate::environment::{
    Environment, EnvironmentLimits, EnvironmentProbe, Reading, quota_refusal,
};
use crate::evidence::{EVIDENCE_FORMAT, KeyEvidence, Process, SearchEvidence, SearchOutcome};
use crate::identity::sha256_hex;
use crate::process::{Confirmations, KeyResult, Outcome, Proposals};
use crate::search::{CrossoverSamples, RaceSamples};
use onl_cpu::CpuExecutionDescriptor;
use onl_snapshot::{CalibrationTarget, KernelKey, ParameterRow, ParameterValue, Search, Workload};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Settings of a calibration; part of its evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CalibrationSettings {
    /// Seed of orders and jitter.
    pub seed: u64,
    /// Least length of one sample in nanoseconds, more when the clock advances in large steps; a kernel that takes longer
    /// runs once.
    pub sample_ns: u64,
    /// Share by which the length of samples varies, so that they do not lock on the scheduler's period.
    pub sample_jitter: f64,
    /// Most untimed calls before a sample.
    pub warm_calls: u32,
    /// Most untimed time before a sample, as a share of its length; one call is always made.
    pub warm_share: f64,
    /// Pairs per probe of a threshold.
    pub probe_pairs: u32,
    /// Pairs per size of the fit.
    pub fit_pairs: u32,
    /// Candidates that take this many times the fastest row's time on some workload are not raced.
    pub abandon_ratio: f64,
    /// How long a calibration waits for a coupling of lanes that it saw and wants to measure at, and lasts at least when
    /// it has seen only one. 0 where no other comes, as on a machine of one's own.
    pub coupling_watch_ns: u64,
    /// Most time of one key.
    pub key_budget_ns: u64,
    /// Most time of all keys together.
    pub total_budget_ns: Option<u64>,
    /// Most memory of the workloads held at once; a workload that would take more than a third is skipped.
    pub memory_bytes: u64,
    /// When a row is promoted.
    pub rule: DecisionRule,
    /// When the machine is too noisy.
    pub limits: EnvironmentLimits,
}

impl Default for CalibrationSettings {
    fn default() -> Self {
        CalibrationSettings {
            seed: 1,
            sample_ns: 200_000,
            sample_jitter: 0.2,
            warm_calls: 3,
            warm_share: 0.4,
            probe_pairs: 5,
            fit_pairs: 2,
            abandon_ratio: 3.0,
            coupling_watch_ns: 0,
            key_budget_ns: 1_500_000_000,
            total_budget_ns: None,
            memory_bytes: 512 << 20,
            rule: DecisionRule::default(),
            limits: EnvironmentLimits::default(),
        }
    }
}

/// What a calibration is doing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress<'a> {
    /// Kernel in work.
    pub key: &'a KernelKey,
    /// What is measured of it: a phase, a size, a candidate.
    pub step: &'a str,
    /// Keys finished.
    pub done: usize,
    /// Keys in all.
    pub total: usize,
    /// Time since the start.
    pub elapsed_ns: u64,
    /// Expected time to the end, from the keys finished; at the start the most that the budgets allow.
    pub remaining_ns: u64,
}

/// How the caller follows and stops a calibration.
#[derive(Default)]
pub struct Controls<'a> {
    /// Called before every block of samples, so at least once per sample of a slow kernel.
    pub progress: Option<&'a mut dyn FnMut(&Progress)>,
    /// Set to end the calibration before its next sample; finished keys keep their results.
    pub cancel: Option<&'a AtomicBool>,
    /// Time that the calibration spent waiting for another coupling of lanes; it does not count for budgets.
    pub waited_ns: u64,
}

/// Calibrates kernels of one execution identity.
#[derive(Clone)]
pub struct Calibrator<'a> {
    /// Clock of samples and budgets.
    pub clock: &'a dyn Clock,
    /// State of the machine.
    pub environment: &'a dyn EnvironmentProbe,
    /// Settings.
    pub settings: CalibrationSettings,
    /// Execution identity of the executor that runs the targets.
    pub execution: CpuExecutionDescriptor,
    /// Compiler, flags, sources and the like, for the evidence.
    pub build: BTreeMap<String, String>,
    /// How closely the lanes are coupled; `None` when that cannot change, or with one lane.
    pub coupling: Option<&'a dyn CouplingProbe>,
    /// What the participants can do at most, if it was measured: samples beyond it invalidate their key.
    pub ceilings: Option<Ceilings>,
}

/// Readings of the clock before anything is measured.
const CLOCK_READINGS: usize = 1_000;
/// Steps of the clock that a sample lasts at least.
const STEPS_PER_SAMPLE: u64 = 1_000;

/// How long others are watched before anything is measured.
const PREFLIGHT: Duration = Duration::from_millis(300);

/// One key to measure.
struct Job<'t> {
    target: &'t dyn CalibrationTarget,
    /// A row to confirm; without one there is a search first.
    given: Option<ParameterRow>,
    /// Coupling level at which samples count.
    level_ns: Option<f64>,
}

pub(crate) struct KeyRun<'r, 'c> {
    controls: &'r mut Controls<'c>,
    start_ns: u64,
    done: usize,
    total: usize,
    preflight: Preflight,
}

/// What was found before anything was measured.
#[derive(Clone, Copy)]
struct Preflight {
    clock_step_ns: Reading<u64>,
    quota_cpus: Reading<f64>,
}

/// Shortest advance of a clock that was seen in a number of readings; `None` when it did not advance.
///
/// # Errors
/// A sentence when the clock goes backwards.
fn clock_step(clock: &dyn Clock) -> Result<Option<u64>, String> {
    let mut step = None;
    let mut last = clock.now_ns();
    for _ in 0..CLOCK_READINGS {
        let now = clock.now_ns();
        let advance = now
            .checked_sub(last)
            .ok_or("the clock went backwards; nothing can be measured with it")?;
        if advance > 0 {
            step = Some(step.map_or(advance, |s: u64| s.min(advance)));
        }
        last = now;
    }
    Ok(step)
}

impl KeyRun<'_, '_> {
    pub(crate) fn report(&mut self, calibrator: &Calibrator, key: &KernelKey, step: &str) {
        let Some(progress) = self.controls.progress.as_deref_mut() else {
            return;
        };
        let settings = &calibrator.settings;
        let elapsed_ns = calibrator.clock.now_ns().saturating_sub(self.start_ns);
        let left = (self.total - self.done) as u64;
        let per_key = match elapsed_ns.checked_div(self.done as u64) {
            Some(mean) => mean,
            None => settings.key_budget_ns,
        };
        let budget = settings.total_budget_ns.unwrap_or(u64::MAX);
        progress(&Progress {
            key,
            step,
            done: self.done,
            total: self.total,
            elapsed_ns,
            remaining_ns: per_key
                .saturating_mul(left)
                .min(budget.saturating_sub(elapsed_ns)),
        });
    }
}

impl Calibrator<'_> {
    /// Searches and confirms every target once, in the order given. A [`Outcome::Promoted`] is a proposal that a second
    /// process has to repeat; see [`process::decide`](crate::process::decide).
    pub fn calibrate_first(
        &self,
        targets: &[&dyn CalibrationTarget],
        controls: &mut Controls,
    ) -> Vec<KeyResult> {
        self.search_at(targets, None, controls)
    }

    /// Searches and confirms with samples of one coupling level.
    pub(crate) fn search_at(
        &self,
        targets: &[&dyn CalibrationTarget],
        level_ns: Option<f64>,
        controls: &mut Controls,
    ) -> Vec<KeyResult> {
        let jobs = targets.iter().map(|target| Job {
            target: *target,
            given: None,
            level_ns,
        });
        self.run(jobs.collect(), Process::First, controls)
    }

    /// Confirms the proposals of another process on fresh samples; the targets are found by their keys.
    pub fn confirm(
        &self,
        targets: &[&dyn CalibrationTarget],
        proposals: &Proposals,
        controls: &mut Controls,
    ) -> Confirmations {
        let mut missing = Vec::new();
        let mut jobs = Vec::new();
        for proposal in &proposals.proposals {
            match targets.iter().find(|target| *target.key() == proposal.key) {
                Some(target) => jobs.push(Job {
                    target: *target,
                    given: Some(proposal.values.clone()),
                    level_ns: proposal.level_ns,
                }),
                None => missing.push(KeyResult {
                    key: proposal.key.clone(),
                    outcome: Outcome::Failed {
                        reason: "this process has no such calibration target; both processes must be of one build"
                            .to_owned(),
                    },
                    evidence: Vec::new(),
                }),
            }
        }
        let mut results = self.run(jobs, Process::Second, controls);
        results.extend(missing);
        Confirmations { results }
    }

    fn run(&self, jobs: Vec<Job>, process: Process, controls: &mut Controls) -> Vec<KeyResult> {
        let mut run = KeyRun {
            start_ns: self.clock.now_ns(),
            done: 0,
            total: jobs.len(),
            controls,
            preflight: Preflight {
                clock_step_ns: Reading::Unsupported,
                quota_cpus: Reading::Unsupported,
            },
        };
        let refusal = match self.preflight() {
            Ok(preflight) => {
                run.preflight = preflight;
                None
            }
            Err(outcome) => Some(outcome),
        };
        let mut results = Vec::with_capacity(jobs.len());
        for job in jobs {
            let key = job.target.key().clone();
            let (outcome, evidence) = match &refusal {
                Some(outcome) => (outcome.clone(), Vec::new()),
                None => {
                    run.report(self, &key, "start");
                    let (outcome, evidence) = self.key(job, process, &mut run);
                    (outcome, vec![evidence])
                }
            };
            results.push(KeyResult {
                key,
                outcome,
                evidence,
            });
            run.done += 1;
        }
        results
    }

    /// Looks for what would invalidate every measurement; the rest is recorded.
    fn preflight(&self) -> Result<Preflight, Outcome> {
        let failed = |reason: String| Outcome::Failed { reason };
        let rule = self.settings.rule.check();
        rule.map_err(|reason| failed(format!("decision rule: {reason}")))?;
        let quota_cpus = self.environment.quota_cpus();
        let participants = self.execution.participants;
        if let Some(reason) = quota_refusal(quota_cpus, participants) {
            return Err(failed(reason));
        }
        let clock_step_ns = match clock_step(self.clock).map_err(failed)? {
            Some(step) => Reading::Value(step),
            None => Reading::Unsupported,
        };
        let before = self.environment.observe();
        self.environment.watch(PREFLIGHT);
        let after = self.environment.observe();
        match self.settings.limits.refuses_start(&before, &after) {
            Some(reason) => Err(Outcome::TooNoisy { reason }),
            None => Ok(Preflight {
                clock_step_ns,
                quota_cpus,
            }),
        }
    }

    /// The state of the machine with what the pre-flight found.
    fn observe(&self, preflight: Preflight) -> Environment {
        Environment {
            clock_step_ns: preflight.clock_step_ns,
            quota_cpus: preflight.quota_cpus,
            ..self.environment.observe()
        }
    }

    fn key(&self, job: Job, process: Process, run: &mut KeyRun) -> (Outcome, KeyEvidence) {
        let Job {
            target,
            given,
            level_ns,
        } = job;
        let key = target.key();
        let process_name = match process {
            Process::First => "first",
            Process::Second => "second",
        };
        let text = format!("{key}/{}/{process_name}", key.revision);
        let digest = sha256_hex(text.as_bytes());
        let seed = self.settings.seed ^ u64::from_str_radix(&digest[..16], 16).unwrap_or(0);
        let mut evidence = KeyEvidence {
            format: EVIDENCE_FORMAT,
            key: key.clone(),
            execution: self.execution.clone(),
            process,
            settings: self.settings.clone(),
            seed,
            environment: vec![self.observe(run.preflight)],
            build: self.build.clone(),
            workloads: Vec::new(),
            skipped: Vec::new(),
            default: target.schema().defaults(),
            search: SearchEvidence::Given,
            participants: None,
            ceilings: self.ceilings.clone(),
            coupling: None,
            chosen: given,
            samples: ConfirmationSamples::default(),
            decision: None,
            stopped: None,
        };
        let measured = catch_unwind(AssertUnwindSafe(|| {
            self.measure(target, level_ns, &mut evidence, run)
        }));
        let stop = match measured {
            Ok(Ok(())) => None,
            Ok(Err(stop)) => Some(stop),
            Err(panic) => Some(Stop::Failed(format!(
                "the kernel panicked: {}",
                panic_text(&*panic)
            ))),
        };
        evidence.environment.push(self.observe(run.preflight));
        let outcome = match stop {
            Some(stop) => {
                let outcome = stopped(stop);
                evidence.stopped = Some(match &outcome {
                    Outcome::Failed { reason } | Outcome::NotMeasured { reason } => reason.clone(),
                    other => other.name().to_owned(),
                });
                outcome
            }
            None => Outcome::of(&evidence),
        };
        (outcome, evidence)
    }

    /// Fills the evidence; ends early with a reason.
    fn measure(
        &self,
        target: &dyn CalibrationTarget,
        level_ns: Option<f64>,
        evidence: &mut KeyEvidence,
        run: &mut KeyRun,
    ) -> Result<(), Stop> {
        let settings = &self.settings;
        self.declare(target, evidence)?;
        let gate = self
            .coupling
            .zip(level_ns)
            .map(|(probe, level_ns)| Gate::new(probe, self.environment, level_ns));
        let now = self.clock.now_ns();
        let key_deadline = now.saturating_add(settings.key_budget_ns);
        let deadline = match settings.total_budget_ns {
            Some(total) => key_deadline.min(run.start_ns.saturating_add(total)),
            None => key_deadline,
        };
        let step = run.preflight.clock_step_ns.value().unwrap_or(0);
        let sample_ns = settings
            .sample_ns
            .max(step.saturating_mul(STEPS_PER_SAMPLE));
        let mut bench = Bench::new(
            target,
            self.clock,
            settings,
            sample_ns,
            run.controls.cancel,
            deadline,
            gate,
            evidence.workloads.clone(),
            evidence.seed,
        );
        let measured = self.samples(target, &mut bench, evidence, run);
        evidence.coupling = bench.level(measured.as_ref().err());
        measured
    }

    /// Searches where nothing was given, and confirms.
    fn samples(
        &self,
        target: &dyn CalibrationTarget,
        bench: &mut Bench,
        evidence: &mut KeyEvidence,
        run: &mut KeyRun,
    ) -> Result<(), Stop> {
        let default = bench.arm("default", &evidence.default);
        if evidence.process == Process::First {
            match target.search() {
                Search::Crossover {
                    parameter,
                    below,
                    above,
                    grid,
                } => {
                    check_grid(parameter, &grid, evidence)?;
                    check_row(target, "below", &below)?;
                    check_row(target, "above", &above)?;
                    let below = bench.arm("below", &below);
                    let above = bench.arm("above", &above);
                    evidence.search = SearchEvidence::Crossover {
                        parameter: parameter.to_owned(),
                        samples: CrossoverSamples {
                            grid,
                            ..CrossoverSamples::default()
                        },
                        fit: None,
                        choice: None,
                    };
                    self.search_crossover(bench, below, above, evidence, run)?;
                }
                Search::Candidates(rows) => {
                    let mut names = BTreeSet::new();
                    for row in &rows {
                        check_row(target, &row.name, &row.values)?;
                        if !names.insert(&row.name) {
                            return Err(Stop::Failed(format!(
                                "two candidates are named '{}'",
                                row.name
                            )));
                        }
                    }
                    evidence.search = SearchEvidence::Race {
                        rows,
                        excluded: Vec::new(),
                        samples: RaceSamples::default(),
                    };
                    self.race(bench, default, evidence, run)?;
                }
            }
            self.limit_participants(bench, default, target, evidence, run)?;
            evidence.chosen = match evidence.search_outcome() {
                SearchOutcome::Row(row) => Some(row),
                SearchOutcome::Keep(_) | SearchOutcome::Unfinished => None,
            };
        }
        if let Some(chosen) = evidence.chosen.clone() {
            check_row(target, "chosen", &chosen)?;
            self.confirm_row(bench, default, &target.search(), &chosen, evidence, run)?;
        }
        evidence.decision = Some(evidence.decide(&self.settings.rule));
        Ok(())
    }

    /// Notes the workloads that fit the memory limit.
    fn declare(
        &self,
        target: &dyn CalibrationTarget,
        evidence: &mut KeyEvidence,
    ) -> Result<(), Stop> {
        let fail = |reason: String| Err(Stop::Failed(reason));
        if let Err(error) = target.schema().check_definition() {
            return fail(error.to_string());
        }
        let mut workloads = target.workloads();
        workloads.sort_by_key(|w| w.size);
        let mut names = BTreeSet::new();
        for workload in &workloads {
            if !names.insert(workload.name.clone()) {
                return fail(format!("two workloads are named '{}'", workload.name));
            }
        }
        let limit = self.settings.memory_bytes / 3;
        let (fitting, large): (Vec<Workload>, Vec<Workload>) =
            workloads.into_iter().partition(|w| w.memory_bytes <= limit);
        evidence.skipped = large
            .iter()
            .map(|w| {
                format!(
                    "workload '{}' needs {} bytes, a third of the memory limit is {limit}",
                    w.name, w.memory_bytes
                )
            })
            .collect();
        evidence.workloads = fitting;
        if evidence.workloads.is_empty() {
            let reason = evidence.skipped.first().map_or_else(
                || "the target declares no workload".to_owned(),
                |skipped| format!("{skipped}; raise --memory"),
            );
            return fail(reason);
        }
        Ok(())
    }
}

fn check_row(target: &dyn CalibrationTarget, name: &str, row: &ParameterRow) -> Result<(), Stop> {
    target
        .schema()
        .check_row(row)
        .map_err(|error| Stop::Failed(format!("row '{name}': {error}")))
}

fn check_grid(parameter: &str, grid: &[i64], evidence: &KeyEvidence) -> Result<(), Stop> {
    let fail = |reason: &str| Err(Stop::Failed(format!("threshold '{parameter}': {reason}")));
    if grid.is_empty() || !grid.windows(2).all(|w| w[0] < w[1]) {
        return fail("its grid must be ascending and not empty");
    }
    match evidence.default.get(parameter) {
        Some(ParameterValue::Integer(_)) => Ok(()),
        _ => fail("it is not an integer parameter of the schema"),
    }
}

/// A failure of an arm that the key cannot do without.
pub(crate) fn essential<T>(result: Result<T, Stop>) -> Result<T, Stop> {
    result.map_err(|stop| match stop {
        Stop::Arm { reason, .. } => Stop::Failed(reason),
        other => other,
    })
}

fn stopped(stop: Stop) -> Outcome {
    match stop {
        Stop::Budget => Outcome::NotMeasured {
            reason: "the time budget ended first; raise --budget or tune this key alone".to_owned(),
        },
        Stop::LevelLeft => Outcome::NotMeasured {
            reason: "the lanes' coupling changed; tune this key again".to_owned(),
        },
        Stop::Cancelled => Outcome::NotMeasured {
            reason: "stopped by the user".to_owned(),
        },
        Stop::Failed(reason) | Stop::Arm { reason, .. } => Outcome::Failed { reason },
    }
}

pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}
