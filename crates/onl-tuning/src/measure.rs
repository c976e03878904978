//! What is measured in which order: searches, races, participants and confirmations.

use crate::bench::{Bench, Stop};
use crate::calibrator::{Calibrator, KeyRun, essential};
use crate::decision::{Pair, Verdict, WorkloadPairs};
use crate::evidence::{Excluded, KeyEvidence, SearchEvidence, SearchOutcome};
use crate::participants::{ParticipantSample, ParticipantSamples, ParticipantStep};
use crate::search::{CrossoverStep, FitPoint, RaceSample, RaceStep};
use onl_snapshot::{
    CalibrationTarget, KernelKey, MAXIMUM_PARTICIPANTS, ParameterRow, ParameterValue, Search,
};
use std::collections::BTreeMap;

/// Ratio of first calls that needs no second look.
const HOPELESS_RATIO: f64 = 50.0;

impl Calibrator<'_> {
    pub(crate) fn search_crossover(
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
        let SearchEvidence::Crossover {
            samples,
            fit,
            choice,
            ..
        } = &mut evidence.search
        else {
            return Ok(());
        };
        samples.sizes = groups.keys().copied().collect();
        let groups: Vec<Vec<usize>> = groups.into_values().collect();
        if groups.is_empty() {
            return Ok(());
        }
        let pair = |bench: &mut Bench, workload: usize| -> Result<Pair, Stop> {
            let times = essential(bench.block(&[below, above], workload))?;
            Ok(Pair {
                first_ns: times[0],
                second_ns: times[1],
            })
        };
        for group in samples.fit_sizes() {
            for _ in 0..self.settings.fit_pairs {
                run.report(self, &key, "fitting");
                let point = FitPoint {
                    size: samples.sizes[group],
                    pair: pair(bench, groups[group][0])?,
                };
                samples.fit.push(point);
            }
        }
        *fit = samples.lines();
        loop {
            let group = match samples.step() {
                CrossoverStep::Measure(group) => group,
                CrossoverStep::Done(found) => {
                    *choice = Some(found);
                    return Ok(());
                }
            };
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
            samples.add(group, probe);
        }
    }

    pub(crate) fn race(
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
        'race: while let RaceStep::Round(live) = samples.step() {
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
                let times = match bench.block(&arms, workload) {
                    Err(Stop::Arm { arm, reason }) if arm != default => {
                        let failed = |name: &String| racers[name].0 == arm;
                        if let Some(at) = samples.candidates.iter().position(failed) {
                            excluded.push(Excluded {
                                candidate: samples.candidates.remove(at),
                                same_path: false,
                                reason,
                            });
                        }
                        continue 'race;
                    }
                    times => essential(times)?,
                };
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

    /// Compares the row that the search found with itself under fewer participants.
    pub(crate) fn limit_participants(
        &self,
        bench: &mut Bench,
        default: usize,
        target: &dyn CalibrationTarget,
        evidence: &mut KeyEvidence,
        run: &mut KeyRun,
    ) -> Result<(), Stop> {
        let key = evidence.key.clone();
        let schema = target.schema();
        let known = |name: &str| schema.parameters.iter().any(|p| p.name == name);
        let limits = ParticipantSamples::candidates(self.execution.participants);
        let row = match evidence.search_outcome() {
            SearchOutcome::Row(row) => row,
            SearchOutcome::Keep(_) => evidence.default.clone(),
            SearchOutcome::Unfinished => return Ok(()),
        };
        if limits.is_empty() || !known(MAXIMUM_PARTICIPANTS) {
            return Ok(());
        }
        let all = if row == evidence.default {
            default
        } else {
            bench.arm("all participants", &row)
        };
        let samples = evidence.participants.insert(ParticipantSamples::default());
        let mut racers: BTreeMap<u32, (usize, Vec<usize>)> = BTreeMap::new();
        for limit in limits {
            let value = ParameterValue::Integer(i64::from(limit));
            let limited = row.clone().with(MAXIMUM_PARTICIPANTS, value);
            if schema.check_row(&limited).is_err() {
                continue;
            }
            let arm = bench.arm(&format!("at most {limit} participants"), &limited);
            match self.differing(bench, all, arm, &key, run) {
                Ok(workloads) if workloads.is_empty() => {}
                Ok(workloads) => {
                    samples.limits.push(limit);
                    racers.insert(limit, (arm, workloads));
                }
                Err(Stop::Arm { arm: bad, .. }) if bad == arm => {}
                Err(stop) => return Err(stop),
            }
        }
        while let ParticipantStep::Round(live) = samples.step() {
            let mut round = Vec::new();
            for workload in 0..bench.workloads.len() {
                let here: Vec<u32> = live
                    .iter()
                    .filter(|limit| racers[*limit].1.contains(&workload))
                    .copied()
                    .collect();
                if here.is_empty() {
                    continue;
                }
                run.report(self, &key, "participants");
                let mut arms = vec![all];
                arms.extend(here.iter().map(|limit| racers[limit].0));
                let times = essential(bench.block(&arms, workload))?;
                for (limit, ns) in here.iter().zip(&times[1..]) {
                    round.push(ParticipantSample {
                        participants: *limit,
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

    /// Workloads on which an arm's path differs from the reference's. An arm that takes far longer somewhere than the
    /// fastest one seen is a [`Stop::Arm`] error.
    fn differing(
        &self,
        bench: &mut Bench,
        reference: usize,
        arm: usize,
        key: &KernelKey,
        run: &mut KeyRun,
    ) -> Result<Vec<usize>, Stop> {
        let mut differing = Vec::new();
        for workload in 0..bench.workloads.len() {
            run.report(self, key, "comparing outputs");
            let path = bench.path(reference, workload)?.to_owned();
            if path == bench.path(arm, workload)? {
                continue;
            }
            differing.push(workload);
            let ratio = |bench: &mut Bench| -> Result<f64, Stop> {
                Ok(bench.estimate(arm, workload)? / bench.fastest(workload))
            };
            let mut ratio_here = ratio(bench)?;
            // One late call must not exclude a candidate; estimates keep the shortest time seen.
            for _ in 0..2 {
                if !(self.settings.abandon_ratio..HOPELESS_RATIO).contains(&ratio_here) {
                    break;
                }
                bench.block(&[reference, arm], workload)?;
                ratio_here = ratio(bench)?;
            }
            let ratio = ratio_here;
            if ratio > self.settings.abandon_ratio {
                return Err(Stop::Arm {
                    arm,
                    reason: format!(
                        "its first calls took {ratio:.1} times those of the fastest row on workload '{}'",
                        bench.workloads[workload].name
                    ),
                });
            }
        }
        Ok(differing)
    }

    /// Confirms a row against the default on fresh pairs, on the workloads where their paths differ.
    pub(crate) fn confirm_row(
        &self,
        bench: &mut Bench,
        default: usize,
        search: &Search,
        chosen: &ParameterRow,
        evidence: &mut KeyEvidence,
        run: &mut KeyRun,
    ) -> Result<(), Stop> {
        let key = evidence.key.clone();
        bench.release();
        let candidate = bench.arm("chosen", chosen);
        let placebo = bench.arm("placebo", &evidence.default);
        let mut workloads = Vec::new();
        // Sizes at which the rows cannot differ are run only when no other does.
        for pass in [true, false] {
            for workload in 0..bench.workloads.len() {
                let size = bench.workloads[workload].size;
                let skip = pass && !can_differ(search, &evidence.default, chosen, size);
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

/// Whether two rows can take different forms at a size. Rows that differ in a threshold alone, which is the first size of
/// the second form, differ from the smaller threshold on and below the larger one.
fn can_differ(search: &Search, a: &ParameterRow, b: &ParameterRow, size: u64) -> bool {
    let Search::Crossover { parameter, .. } = search else {
        return true;
    };
    let beside = |row: &ParameterRow| {
        let mut rest = row.clone();
        rest.0.remove(*parameter);
        rest
    };
    if beside(a) != beside(b) {
        return true;
    }
    let value = |row: &ParameterRow| match row.get(parameter) {
        Some(ParameterValue::Integer(value)) => u64::try_from(*value).ok(),
        _ => None,
    };
    match (value(a), value(b)) {
        (Some(a), Some(b)) => (a.min(b)..a.max(b)).contains(&size),
        _ => true,
    }
}
