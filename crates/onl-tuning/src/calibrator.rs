//! The calibration protocol: pre-flight, comparison of outputs, search, confirmation on fresh pairs.

use crate::bench::{Bench, Stop};
use crate::clock::Clock;
use crate::decision::{ConfirmationSamples, Decision, DecisionRule, Pair, Verdict, WorkloadPairs};
use crate::environment::{EnvironmentLimits, EnvironmentProbe};
use crate::evidence::{
    EVIDENCE_FORMAT, Excluded, KeyEvidence, Process, SearchEvidence, SearchOutcome,
};
use crate::identity::sha256_hex;
use crate::process::{Confirmations, KeyResult, Outcome, Proposals};
use crate::search::{CrossoverSamples, CrossoverStep, FitPoint, RaceSample, RaceSamples, RaceStep};
use onl_cpu::CpuExecutionDescriptor;
use onl_snapshot::{CalibrationTarget, KernelKey, ParameterRow, ParameterValue, Search, Workload};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;

/// Settings of a calibration; part of its evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CalibrationSettings {
    /// Seed of orders and jitter.
    pub seed: u64,
    /// Length of one sample in nanoseconds; a kernel that takes longer runs once.
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
    /// Candidates that take this many times the default's time on some workload are not raced.
    pub abandon_ratio: f64,
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
}

/// Calibrates kernels of one execution identity.
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
}

struct KeyRun<'r, 'c> {
    controls: &'r mut Controls<'c>,
    start_ns: u64,
    done: usize,
    total: usize,
}

impl KeyRun<'_, '_> {
    fn report(&mut self, calibrator: &Calibrator, key: &KernelKey, step: &str) {
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
        let jobs = targets.iter().map(|target| (*target, None)).collect();
        self.run(jobs, Process::First, controls)
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
                Some(target) => jobs.push((*target, Some(proposal.values.clone()))),
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

    fn run(
        &self,
        jobs: Vec<(&dyn CalibrationTarget, Option<ParameterRow>)>,
        process: Process,
        controls: &mut Controls,
    ) -> Vec<KeyResult> {
        let mut run = KeyRun {
            start_ns: self.clock.now_ns(),
            done: 0,
            total: jobs.len(),
            controls,
        };
        let refusal = match self.settings.rule.check() {
            Err(reason) => Some(Outcome::Failed {
                reason: format!("decision rule: {reason}"),
            }),
            Ok(()) => {
                let now = self.environment.observe();
                let refusal = self.settings.limits.refuses_start(&now);
                refusal.map(|reason| Outcome::TooNoisy { reason })
            }
        };
        let mut results = Vec::with_capacity(jobs.len());
        for (target, given) in jobs {
            let key = target.key().clone();
            let (outcome, evidence) = match &refusal {
                Some(outcome) => (outcome.clone(), Vec::new()),
                None => {
                    run.report(self, &key, "start");
                    let (outcome, evidence) = self.key(target, given, process, &mut run);
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

    fn key(
        &self,
        target: &dyn CalibrationTarget,
        given: Option<ParameterRow>,
        process: Process,
        run: &mut KeyRun,
    ) -> (Outcome, KeyEvidence) {
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
            environment: vec![self.environment.observe()],
            build: self.build.clone(),
            workloads: Vec::new(),
            skipped: Vec::new(),
            default: target.schema().defaults(),
            search: SearchEvidence::Given,
            chosen: given,
            samples: ConfirmationSamples::default(),
            decision: None,
            stopped: None,
        };
        let measured = catch_unwind(AssertUnwindSafe(|| {
            self.measure(target, &mut evidence, run)
        }));
        let stop = match measured {
            Ok(Ok(())) => None,
            Ok(Err(stop)) => Some(stop),
            Err(panic) => Some(Stop::Failed(format!(
                "the kernel panicked: {}",
                panic_text(&*panic)
            ))),
        };
        evidence.environment.push(self.environment.observe());
        let outcome = match stop {
            Some(stop) => {
                let outcome = stopped(stop);
                evidence.stopped = Some(match &outcome {
                    Outcome::Failed { reason } | Outcome::NotMeasured { reason } => reason.clone(),
                    other => other.name().to_owned(),
                });
                outcome
            }
            None => self.outcome(&evidence),
        };
        (outcome, evidence)
    }

    fn outcome(&self, evidence: &KeyEvidence) -> Outcome {
        if let [before, .., after] = evidence.environment.as_slice()
            && let Some(reason) = self.settings.limits.refuses_interval(before, after)
        {
            return Outcome::TooNoisy { reason };
        }
        let Some(Decision {
            verdict,
            rounds,
            ratio,
        }) = &evidence.decision
        else {
            return Outcome::Failed {
                reason: "no decision was reached".to_owned(),
            };
        };
        let noisy = || Outcome::TooNoisy {
            reason: format!(
                "after {rounds} rounds the interval of the ratio is too wide to decide; try again at a quieter time"
            ),
        };
        match (verdict, &evidence.chosen, ratio) {
            (Verdict::Promote, Some(values), Some(ratio)) => Outcome::Promoted {
                values: values.clone(),
                domain: evidence.domain(),
                ratio: *ratio,
                rounds: *rounds,
            },
            (Verdict::Keep(reason), _, _) => Outcome::DefaultConfirmed {
                values: evidence.default.clone(),
                domain: evidence.domain(),
                reason: reason.clone(),
                ratio: *ratio,
                rounds: *rounds,
            },
            (Verdict::Void { placebo }, _, _) => Outcome::Void { placebo: *placebo },
            (Verdict::Invalid(reason), _, _) => Outcome::Failed {
                reason: reason.clone(),
            },
            (Verdict::TooNoisy | Verdict::Undecided | Verdict::Promote, _, _) => noisy(),
        }
    }

    /// Fills the evidence; ends early with a reason.
    fn measure(
        &self,
        target: &dyn CalibrationTarget,
        evidence: &mut KeyEvidence,
        run: &mut KeyRun,
    ) -> Result<(), Stop> {
        let settings = &self.settings;
        self.declare(target, evidence)?;
        let now = self.clock.now_ns();
        let key_deadline = now.saturating_add(settings.key_budget_ns);
        let deadline = match settings.total_budget_ns {
            Some(total) => key_deadline.min(run.start_ns.saturating_add(total)),
            None => key_deadline,
        };
        let mut bench = Bench::new(
            target,
            self.clock,
            settings,
            run.controls.cancel,
            deadline,
            evidence.workloads.clone(),
            evidence.seed,
        );
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
                    };
                    self.search_crossover(&mut bench, below, above, evidence, run)?;
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
                    self.race(&mut bench, default, evidence, run)?;
                }
            }
            evidence.chosen = match evidence.search_outcome() {
                SearchOutcome::Row(row) => Some(row),
                SearchOutcome::Keep(_) | SearchOutcome::Unfinished => None,
            };
        }
        if let Some(chosen) = evidence.chosen.clone() {
            check_row(target, "chosen", &chosen)?;
            self.confirm_row(&mut bench, default, &chosen, evidence, run)?;
        }
        evidence.decision = Some(evidence.decide(&settings.rule));
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

    fn search_crossover(
        &self,
        bench: &mut Bench,
        below: usize,
        above: usize,
        evidence: &mut KeyEvidence,
        run: &mut KeyRun,
    ) -> Result<(), Stop> {
        let key = evidence.key.clone();
        // Workloads by size, where the two forms differ.
        let mut groups: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for workload in 0..bench.workloads.len() {
            run.report(self, &key, "comparing outputs");
            let serial = essential(bench.path(below, workload).map(str::to_owned))?;
            let parallel = essential(bench.path(above, workload).map(str::to_owned))?;
            if serial != parallel {
                let size = bench.workloads[workload].size;
                groups.entry(size).or_default().push(workload);
            }
        }
        let SearchEvidence::Crossover { samples, .. } = &mut evidence.search else {
            return Ok(());
        };
        samples.sizes = groups.keys().copied().collect();
        let groups: Vec<Vec<usize>> = groups.into_values().collect();
        let Some(last) = groups.len().checked_sub(1) else {
            return Ok(());
        };
        let pair = |bench: &mut Bench, workload: usize| -> Result<Pair, Stop> {
            let times = essential(bench.block(&[below, above], workload))?;
            Ok(Pair {
                first_ns: times[0],
                second_ns: times[1],
            })
        };
        for group in BTreeSet::from([0, last / 2, last]) {
            for _ in 0..self.settings.fit_pairs {
                run.report(self, &key, "fitting");
                let point = FitPoint {
                    size: samples.sizes[group],
                    pair: pair(bench, groups[group][0])?,
                };
                samples.fit.push(point);
            }
        }
        while let CrossoverStep::Measure(group) = samples.step() {
            let size = samples.sizes[group];
            let step = format!("size {size}");
            let mut probe: Vec<WorkloadPairs> = groups[group]
                .iter()
                .map(|w| WorkloadPairs {
                    name: bench.workloads[*w].name.clone(),
                    size,
                    pairs: Vec::new(),
                })
                .collect();
            for _ in 0..self.settings.probe_pairs.max(1) {
                for (i, workload) in groups[group].iter().enumerate() {
                    run.report(self, &key, &step);
                    probe[i].pairs.push(pair(bench, *workload)?);
                }
            }
            samples.probes.insert(group, probe);
        }
        Ok(())
    }

    fn race(
        &self,
        bench: &mut Bench,
        default: usize,
        evidence: &mut KeyEvidence,
        run: &mut KeyRun,
    ) -> Result<(), Stop> {
        let key = evidence.key.clone();
        let SearchEvidence::Race {
            rows,
            excluded,
            samples,
        } = &mut evidence.search
        else {
            return Ok(());
        };
        // Arms in the race with the workloads on which they differ from the default.
        let mut racers: BTreeMap<String, (usize, Vec<usize>)> = BTreeMap::new();
        for row in rows.iter() {
            let arm = bench.arm(&row.name, &row.values);
            match self.differing(bench, default, arm, &key, run) {
                Ok(workloads) if workloads.is_empty() => excluded.push(Excluded {
                    candidate: row.name.clone(),
                    same_path: true,
                    reason: "it takes the default's path on every workload".to_owned(),
                }),
                Ok(workloads) => {
                    racers.insert(row.name.clone(), (arm, workloads));
                    samples.candidates.push(row.name.clone());
                }
                Err(Stop::Arm { arm: bad, reason }) if bad == arm => excluded.push(Excluded {
                    candidate: row.name.clone(),
                    same_path: false,
                    reason,
                }),
                Err(stop) => return Err(stop),
            }
        }
        while let RaceStep::Round(live) = samples.step() {
            let mut round = Vec::new();
            for workload in 0..bench.workloads.len() {
                let here: Vec<&String> = live
                    .iter()
                    .filter(|name| racers[*name].1.contains(&workload))
                    .collect();
                if here.is_empty() {
                    continue;
                }
                let step = format!("race of {}", live.len());
                run.report(self, &key, &step);
                let mut arms = vec![default];
                arms.extend(here.iter().map(|name| racers[*name].0));
                let times = essential(bench.block(&arms, workload))?;
                for (name, ns) in here.iter().zip(&times[1..]) {
                    round.push(RaceSample {
                        candidate: (*name).clone(),
                        workload: bench.workloads[workload].name.clone(),
                        pair: Pair {
                            first_ns: times[0],
                            second_ns: *ns,
                        },
                    });
                }
            }
            samples.rounds.push(round);
        }
        Ok(())
    }

    /// Workloads on which an arm's path differs from the default's. An arm that takes far longer than the default
    /// somewhere is an [`Stop::Arm`] error.
    fn differing(
        &self,
        bench: &mut Bench,
        default: usize,
        arm: usize,
        key: &KernelKey,
        run: &mut KeyRun,
    ) -> Result<Vec<usize>, Stop> {
        let mut differing = Vec::new();
        for workload in 0..bench.workloads.len() {
            run.report(self, key, "comparing outputs");
            let path = bench.path(default, workload)?.to_owned();
            if path == bench.path(arm, workload)? {
                continue;
            }
            differing.push(workload);
            let reference = bench.estimate(default, workload)?;
            let ratio = bench.estimate(arm, workload)? / reference;
            if ratio > self.settings.abandon_ratio {
                return Err(Stop::Arm {
                    arm,
                    reason: format!(
                        "its first calls took {ratio:.1} times the default's on workload '{}'",
                        bench.workloads[workload].name
                    ),
                });
            }
        }
        Ok(differing)
    }

    /// Confirms a row against the default on fresh pairs, on the workloads where their paths differ.
    fn confirm_row(
        &self,
        bench: &mut Bench,
        default: usize,
        chosen: &ParameterRow,
        evidence: &mut KeyEvidence,
        run: &mut KeyRun,
    ) -> Result<(), Stop> {
        let key = evidence.key.clone();
        bench.release();
        let candidate = bench.arm("chosen", chosen);
        let placebo = bench.arm("placebo", &evidence.default);
        let mut workloads = Vec::new();
        for pass in [true, false] {
            for workload in 0..bench.workloads.len() {
                let size = bench.workloads[workload].size;
                let skip = pass && !threshold_separates(&evidence.default, chosen, evidence, size);
                if skip {
                    continue;
                }
                run.report(self, &key, "comparing outputs");
                let path = essential(bench.path(default, workload).map(str::to_owned))?;
                if path != essential(bench.path(candidate, workload))? {
                    workloads.push(workload);
                }
            }
            if !workloads.is_empty() {
                break;
            }
        }
        evidence.samples.workloads = workloads
            .iter()
            .map(|w| WorkloadPairs {
                name: bench.workloads[*w].name.clone(),
                size: bench.workloads[*w].size,
                pairs: Vec::new(),
            })
            .collect();
        if workloads.is_empty() {
            return Ok(());
        }
        let rule = &self.settings.rule;
        for round in 0..rule.maximum_rounds() {
            let step = format!(
                "confirming, round {} of {}",
                round + 1,
                rule.maximum_rounds()
            );
            let with_placebo = round as usize % workloads.len();
            let mut order: Vec<usize> = (0..workloads.len()).collect();
            bench.random.shuffle(&mut order);
            for i in order {
                run.report(self, &key, &step);
                let arms = [default, candidate, placebo];
                let arms = if i == with_placebo {
                    &arms[..]
                } else {
                    &arms[..2]
                };
                let times = essential(bench.block(arms, workloads[i]))?;
                let pair = |second: f64| Pair {
                    first_ns: times[0],
                    second_ns: second,
                };
                evidence.samples.workloads[i].pairs.push(pair(times[1]));
                if let Some(&ns) = times.get(2) {
                    evidence.samples.placebo.push(pair(ns));
                }
            }
            if rule.looks.contains(&(round + 1)) {
                if evidence.decide(rule).verdict != Verdict::Undecided {
                    break;
                }
                // Fresh memory, so that the placement of one allocation does not decide.
                bench.release();
            }
        }
        Ok(())
    }
}

/// Whether two rows of a threshold search can take different forms at a size. Rows of other searches always can.
fn threshold_separates(
    default: &ParameterRow,
    chosen: &ParameterRow,
    evidence: &KeyEvidence,
    size: u64,
) -> bool {
    let SearchEvidence::Crossover { parameter, .. } = &evidence.search else {
        return true;
    };
    let value = |row: &ParameterRow| match row.get(parameter) {
        Some(ParameterValue::Integer(value)) => u64::try_from(*value).ok(),
        _ => None,
    };
    match (value(default), value(chosen)) {
        (Some(a), Some(b)) => (a.min(b)..=a.max(b)).contains(&size),
        _ => true,
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
fn essential<T>(result: Result<T, Stop>) -> Result<T, Stop> {
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
        Stop::Cancelled => Outcome::NotMeasured {
            reason: "stopped by the user".to_owned(),
        },
        Stop::Failed(reason) | Stop::Arm { reason, .. } => Outcome::Failed { reason },
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}
