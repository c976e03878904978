//! Which key is measured next: a calibration of many keys over the coupling levels that a machine shows.

use crate::calibrator::{Calibrator, Controls, Progress};
use crate::coupling::{Levels, same_level};
use crate::evidence::SearchEvidence;
use crate::process::{
    Confirmations, KeyResult, Outcome, ProcessError, ProcessRunner, Proposal, Proposals, Watched,
    decide,
};
use onl_snapshot::CalibrationTarget;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Share of the time left that the search of a key may take, so that the second process has some to confirm what it finds.
const SEARCH_SHARE: f64 = 0.75;
/// How long a level is waited for at least before it counts as gone.
const LEAST_PATIENCE_NS: u64 = 2_000_000_000;
/// Between looks at a machine with nothing to measure at its present level.
const LOOK: Duration = Duration::from_millis(20);
/// Departures from a level after which a key is measured at any.
const MOST_DEPARTURES: u32 = 4;

/// What is known of a key so far.
struct Job<'t> {
    target: &'t dyn CalibrationTarget,
    result: Option<KeyResult>,
    /// Level of the search; `None` when its samples are of any.
    searched_at: Option<f64>,
    /// Levels at which the second process confirmed what the search found.
    won_at: Vec<f64>,
    /// Times that a level was left while the key was measured.
    departures: u32,
}

impl Job<'_> {
    fn promoted(&self) -> bool {
        let outcome = self.result.as_ref().map(|r| &r.outcome);
        matches!(outcome, Some(Outcome::Promoted { .. }))
    }

    /// Whether a threshold that won at its level was searched at a faster one than the slowest that was seen: from how
    /// large a size lanes pay depends on what it costs to reach them. A default that a search confirmed at one level
    /// stays, and what wins a race is only confirmed at the others.
    fn outdated(&self, slowest: Option<f64>) -> bool {
        let first = self.result.as_ref().and_then(|r| r.evidence.first());
        let threshold = first.is_some_and(|e| matches!(e.search, SearchEvidence::Crossover { .. }));
        let faster = match (self.searched_at, slowest) {
            (Some(at), Some(slowest)) => at < slowest && !same_level(at, slowest),
            _ => false,
        };
        threshold && faster && self.promoted()
    }

    /// Whether what the search found has still to win at a level, or at all.
    fn wants_confirmation(&self, level: Option<f64>) -> bool {
        self.promoted()
            && match (self.searched_at, level) {
                (Some(_), Some(level)) => !self.won_at.iter().any(|won| same_level(*won, level)),
                _ => self.won_at.is_empty(),
            }
    }
}

/// Whether the last record of a result ended because its level was left.
fn left(result: &KeyResult) -> bool {
    let last = result.evidence.last();
    last.and_then(|e| e.coupling)
        .is_some_and(|coupling| coupling.left)
}

struct Schedule<'a, 'c, 't, E> {
    calibrator: &'a Calibrator<'a>,
    second: &'a dyn ProcessRunner,
    controls: &'a mut Controls<'c>,
    finished: &'a mut dyn FnMut(&KeyResult) -> Result<(), E>,
    jobs: Vec<Job<'t>>,
    start_ns: u64,
    /// Whether the machine was watched before.
    watched: bool,
}

/// Calibrates keys: each is searched and confirmed here and, when a row won, confirmed in the second process before the
/// next key begins. `finished` is handed every result at once; an error of it ends the calibration. When the user stops
/// it or its time ends, what was decided stays decided and the other keys are [`NotMeasured`](Outcome::NotMeasured).
/// Results are in the order of the targets.
///
/// Where the coupling of lanes is probed and changes, a row is promoted that the second process confirms at every level
/// seen. A threshold that won at a faster level than the slowest is searched again there; `finished` is handed the new
/// result as well.
///
/// # Errors
/// The first error of `finished`.
pub fn calibrate_keys<E>(
    calibrator: &Calibrator,
    targets: &[&dyn CalibrationTarget],
    second: &dyn ProcessRunner,
    controls: &mut Controls,
    finished: &mut dyn FnMut(&KeyResult) -> Result<(), E>,
) -> Result<Vec<KeyResult>, E> {
    let jobs = targets.iter().map(|target| Job {
        target: *target,
        result: None,
        searched_at: None,
        won_at: Vec::new(),
        departures: 0,
    });
    let mut schedule = Schedule {
        calibrator,
        second,
        controls,
        finished,
        jobs: jobs.collect(),
        start_ns: calibrator.clock.now_ns(),
        watched: false,
    };
    match calibrator.coupling {
        Some(probe) => schedule.over_levels(Levels::new(probe, calibrator.environment))?,
        None => schedule.in_order()?,
    }
    schedule.end()
}

impl<E> Schedule<'_, '_, '_, E> {
    fn elapsed_ns(&self) -> u64 {
        let now_ns = self.calibrator.clock.now_ns();
        now_ns.saturating_sub(self.start_ns)
    }

    /// Time left to measure; waiting does not count.
    fn left_ns(&self) -> Option<u64> {
        let budget_ns = self.calibrator.settings.total_budget_ns?;
        let measured_ns = self.elapsed_ns().saturating_sub(self.controls.waited_ns);
        Some(budget_ns.saturating_sub(measured_ns))
    }

    fn stopped(&self) -> bool {
        let cancel = self.controls.cancel;
        cancel.is_some_and(|flag| flag.load(Ordering::SeqCst))
    }

    /// Every key once, with samples of any level.
    fn in_order(&mut self) -> Result<(), E> {
        for index in 0..self.jobs.len() {
            if self.search(index, None)? == Next::Refused {
                break;
            }
            if self.jobs[index].promoted() {
                self.confirm(index, None);
            }
            self.report(index)?;
        }
        Ok(())
    }

    fn over_levels(&mut self, mut levels: Levels) -> Result<(), E> {
        let mut waiting_since_ns = None;
        loop {
            if self.stopped() || self.left_ns() == Some(0) {
                return Ok(());
            }
            let look_ns = self.calibrator.clock.now_ns();
            let now = levels.now();
            let slowest = levels.slowest();
            let position = |wanted: &dyn Fn(&Job) -> bool| self.jobs.iter().position(wanted);
            let to_repeat = position(&|job| job.outdated(slowest));
            let to_search = to_repeat
                .filter(|_| now == slowest)
                .or_else(|| position(&|job| job.result.is_none()));
            let to_confirm = position(&|job| !job.outdated(slowest) && job.wants_confirmation(now));
            let worn_out = |index: usize| self.jobs[index].departures >= MOST_DEPARTURES;
            match (to_confirm, to_search) {
                (Some(index), _) if now.is_some() || worn_out(index) => {
                    waiting_since_ns = None;
                    let level = now.filter(|_| !worn_out(index));
                    self.confirm(index, level);
                    // Another level may still be wanted; what is known so far is kept in any case.
                    self.report(index)?;
                }
                (_, Some(index)) if now.is_some() || worn_out(index) => {
                    waiting_since_ns = None;
                    let level = now.filter(|_| !worn_out(index));
                    match self.search(index, level)? {
                        Next::Refused => return Ok(()),
                        Next::Other => {}
                    }
                    if !self.jobs[index].promoted() {
                        self.report(index)?;
                    }
                }
                _ => {
                    let known = levels.known();
                    let wanted = to_search.or(to_repeat).is_some()
                        || self.jobs.iter().any(|job| {
                            known
                                .iter()
                                .any(|&level| job.wants_confirmation(Some(level)))
                        });
                    let since_ns = *waiting_since_ns.get_or_insert(look_ns);
                    let waited_ns = look_ns.saturating_sub(since_ns);
                    let watch_ns = self.calibrator.settings.coupling_watch_ns;
                    if wanted && waited_ns >= watch_ns.max(LEAST_PATIENCE_NS) {
                        // What is left to do is done at the level that is there, or at any when none settles.
                        waiting_since_ns = None;
                        match now {
                            Some(level) => levels.keep_only(level),
                            None => self.jobs.iter_mut().for_each(|job| {
                                job.departures = MOST_DEPARTURES;
                            }),
                        }
                    } else if !wanted && self.watched_enough(levels.known().len()) {
                        return Ok(());
                    }
                    self.calibrator.environment.pause(LOOK);
                    let idle_ns = self.calibrator.clock.now_ns().saturating_sub(look_ns);
                    self.controls.waited_ns += idle_ns;
                }
            }
        }
    }

    /// Whether another level need not be looked for any longer.
    fn watched_enough(&self, known: usize) -> bool {
        known > 1 || self.elapsed_ns() >= self.calibrator.settings.coupling_watch_ns
    }

    /// Searches a key at a level.
    fn search(&mut self, index: usize, level_ns: Option<f64>) -> Result<Next, E> {
        let probe = Watched::new(self.calibrator.environment);
        let mut settings = self.calibrator.settings.clone();
        settings.total_budget_ns = self
            .left_ns()
            .map(|left| (left as f64 * SEARCH_SHARE) as u64);
        let of_key = Calibrator {
            environment: if self.watched {
                &probe
            } else {
                self.calibrator.environment
            },
            settings,
            ..self.calibrator.clone()
        };
        self.watched = true;
        let target = self.jobs[index].target;
        let budget_ns = self.calibrator.settings.total_budget_ns;
        let key_budget_ns = self.calibrator.settings.key_budget_ns;
        let total = self.jobs.len();
        let done = self.jobs.iter().filter(|j| j.result.is_some()).count();
        let (start_ns, clock) = (self.start_ns, self.calibrator.clock);
        let cancel = self.controls.cancel;
        let mut forwarded;
        let progress: Option<&mut dyn FnMut(&Progress)> =
            match self.controls.progress.as_deref_mut() {
                None => None,
                Some(progress) => {
                    forwarded = |p: &Progress| {
                        let elapsed_ns = clock.now_ns().saturating_sub(start_ns);
                        progress(&Progress {
                            done,
                            total,
                            elapsed_ns,
                            remaining_ns: remaining(
                                elapsed_ns,
                                p.elapsed_ns,
                                done,
                                total,
                                key_budget_ns,
                                budget_ns,
                            ),
                            ..*p
                        });
                    };
                    Some(&mut forwarded)
                }
            };
        let mut controls = Controls {
            progress,
            cancel,
            waited_ns: 0,
        };
        let mut found = of_key.search_at(&[target], level_ns, &mut controls);
        let Some(result) = found.pop() else {
            return Ok(Next::Other);
        };
        // The machine was too noisy to begin with: it is not asked again for every key.
        let refused =
            result.evidence.is_empty() && matches!(result.outcome, Outcome::TooNoisy { .. });
        if refused {
            for job in self.jobs.iter_mut().filter(|job| job.result.is_none()) {
                let result = KeyResult {
                    key: job.target.key().clone(),
                    outcome: result.outcome.clone(),
                    evidence: Vec::new(),
                };
                (self.finished)(&result)?;
                job.result = Some(result);
            }
            return Ok(Next::Refused);
        }
        let job = &mut self.jobs[index];
        if left(&result) {
            job.departures += 1;
        } else {
            job.result = Some(result);
            job.searched_at = level_ns;
            job.won_at.clear();
        }
        Ok(Next::Other)
    }

    /// Confirms what a search found, in the second process and at a level.
    fn confirm(&mut self, index: usize, level_ns: Option<f64>) {
        let stopped = self.stopped();
        let left_ns = self.left_ns();
        let job = &mut self.jobs[index];
        let Some(first) = job.result.take() else {
            return;
        };
        let Outcome::Promoted { values, .. } = &first.outcome else {
            job.result = Some(first);
            return;
        };
        let proposals = Proposals {
            budget_ns: left_ns,
            proposals: vec![Proposal {
                key: first.key.clone(),
                values: values.clone(),
                level_ns,
            }],
        };
        let answer: Result<Confirmations, ProcessError> = if stopped {
            Err(ProcessError {
                reason: "stopped by the user".to_owned(),
            })
        } else {
            self.second.confirm(&proposals)
        };
        let departed = answer
            .as_ref()
            .is_ok_and(|confirmations| confirmations.results.iter().any(left));
        if departed {
            job.departures += 1;
            job.result = Some(first);
            return;
        }
        let joined = decide(vec![first], answer);
        job.result = joined.into_iter().next();
        if job.promoted() {
            match level_ns {
                Some(level) => job.won_at.push(level),
                None => {
                    // Confirmed at whatever level the machine is in: nothing more is asked.
                    job.searched_at = None;
                    job.won_at.push(f64::NAN);
                }
            }
        }
    }

    /// Hands out what is known of a key, unless it has won nowhere yet.
    fn report(&mut self, index: usize) -> Result<(), E> {
        let settings = &self.calibrator.settings;
        let job = &mut self.jobs[index];
        if job.promoted() && job.won_at.is_empty() {
            return Ok(());
        }
        let Some(result) = &mut job.result else {
            return Ok(());
        };
        for evidence in &mut result.evidence {
            // The time that was left for one key is no setting of the calibration, nor is the second process's.
            evidence.settings.total_budget_ns = settings.total_budget_ns;
            evidence.settings.coupling_watch_ns = settings.coupling_watch_ns;
        }
        (self.finished)(result)
    }

    /// Results of all keys; those that were not measured to their end say why.
    fn end(self) -> Result<Vec<KeyResult>, E> {
        let reason = if self.stopped() {
            "stopped by the user"
        } else {
            "the time budget ended first; raise --budget or tune this key alone"
        };
        let mut results = Vec::with_capacity(self.jobs.len());
        for job in self.jobs {
            let unconfirmed = job.promoted() && job.won_at.is_empty();
            let known = job.result.filter(|_| !unconfirmed);
            let result = match known {
                Some(result) => result,
                None => {
                    let result = KeyResult {
                        key: job.target.key().clone(),
                        outcome: Outcome::NotMeasured {
                            reason: reason.to_owned(),
                        },
                        evidence: Vec::new(),
                    };
                    (self.finished)(&result)?;
                    result
                }
            };
            results.push(result);
        }
        Ok(results)
    }
}

/// Whether keys can still be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Other keys can.
    Other,
    /// The machine refuses all.
    Refused,
}
/// Time to the end, by the mean of the keys finished so far; at the start by the budgets.
fn remaining(
    elapsed_ns: u64,
    of_key_ns: u64,
    done: usize,
    total: usize,
    key_budget_ns: u64,
    budget_ns: Option<u64>,
) -> u64 {
    let finished_ns = elapsed_ns.saturating_sub(of_key_ns);
    let per_key = finished_ns
        .checked_div(done as u64)
        .unwrap_or(key_budget_ns);
    let others = (total.saturating_sub(done + 1)) as u64;
    let estimate = per_key
        .saturating_mul(others)
        .saturating_add(per_key.saturating_sub(of_key_ns));
    let budget = budget_ns.unwrap_or(u64::MAX);
    estimate.min(budget.saturating_sub(elapsed_ns))
}
