//! The calibration protocol on a scripted machine: no real time passes and the right answer is known.

mod support;

use onl_snapshot::{
    Candidate, MINIMUM_ELEMENTS, ParallelConfig, ParameterValue, Search, SizeDomain, TunedConfig,
};
use onl_tuning::decision::DecisionRule;
use onl_tuning::statistics::SplitMix64;
use onl_tuning::*;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use support::*;

/// A race: candidate `i + 1` takes `ratios[i]` times the default's time on every size.
fn race(machine: &Arc<ScriptedMachine>, sizes: &[u64], ratios: &[f64]) -> ScriptedTarget {
    let ratios = ratios.to_vec();
    let candidates = (1..=ratios.len())
        .map(|i| Candidate {
            name: format!("tile {i}"),
            values: tile(i as i64),
        })
        .collect();
    ScriptedTarget {
        machine: Arc::clone(machine),
        key: key("Gemm"),
        schema: &TILES,
        sizes: sizes.to_vec(),
        search: Search::Candidates(candidates),
        script: Arc::new(move |row, size| {
            let i = row.integer("algorithm.tile_m") as usize;
            let ratio = if i == 0 { 1.0 } else { ratios[i - 1] };
            behaves(size as f64 * ratio, format!("tile {i}"))
        }),
        memory_bytes: 0,
        flops: 0,
    }
}

fn first(machine: &ScriptedMachine, target: &ScriptedTarget, seed: u64) -> KeyResult {
    let settings = CalibrationSettings {
        seed,
        ..CalibrationSettings::default()
    };
    run(machine, target, settings)
}

fn run(
    machine: &ScriptedMachine,
    target: &ScriptedTarget,
    settings: CalibrationSettings,
) -> KeyResult {
    let calibrator = calibrator(machine, settings);
    let mut results = calibrator.calibrate_first(&[target], &mut Controls::default());
    assert_eq!(results.len(), 1);
    results.remove(0)
}

fn promotions(trials: u64, sizes: &[u64], ratios: &[f64]) -> (u64, Vec<u32>) {
    let mut promoted = 0;
    let mut rounds = Vec::new();
    for seed in 0..trials {
        let machine = ScriptedMachine::noisy(seed, 1.0);
        let result = first(&machine, &race(&machine, sizes, ratios), seed);
        match result.outcome {
            Outcome::Promoted { rounds: r, .. } => {
                promoted += 1;
                rounds.push(r);
            }
            Outcome::DefaultConfirmed { .. } | Outcome::TooNoisy { .. } | Outcome::Void { .. } => {}
            other => panic!("unexpected outcome {other:?}"),
        }
    }
    (promoted, rounds)
}

#[test]
fn equal_candidates_are_never_promoted() {
    assert_eq!(promotions(500, &[40_000], &[1.0, 1.0, 1.0, 1.0]).0, 0);
}

#[test]
fn slower_candidates_are_never_promoted() {
    assert_eq!(promotions(500, &[40_000], &[1.02, 1.02]).0, 0);
}

#[test]
fn a_gain_of_the_margin_is_promoted_at_most_at_the_stated_level() {
    // One percent is the null hypothesis; 1 % of 500 trials, and three binomial standard deviations.
    let (promoted, _) = promotions(500, &[40_000], &[0.99]);
    assert!(promoted <= 11, "{promoted} of 500");
}

#[test]
fn a_gain_of_ten_percent_is_found() {
    let (promoted, _) = promotions(200, &[40_000], &[1.0, 0.9, 1.02]);
    assert!(promoted >= 190, "{promoted} of 200");
}

#[test]
fn a_gain_of_five_percent_is_found_within_eighty_rounds() {
    let (promoted, rounds) = promotions(200, &[40_000], &[0.95]);
    assert!(promoted >= 190, "{promoted} of 200");
    assert!(rounds.iter().all(|r| *r <= 80));
}

#[test]
fn gains_over_several_workloads_are_found() {
    let (promoted, _) = promotions(100, &[1_000, 40_000, 900_000], &[0.95]);
    assert!(promoted >= 95, "{promoted} of 100");
}

#[test]
fn a_planted_slow_default_loses_to_the_best_candidate() {
    for seed in 0..20 {
        let machine = ScriptedMachine::noisy(seed, 1.0);
        // The default is 1.5 times slower than candidate 2.
        let target = race(&machine, &[10_000, 80_000], &[0.9, 1.0 / 1.5, 0.8, 1.1]);
        let result = first(&machine, &target, seed);
        let Outcome::Promoted {
            values,
            domain,
            ratio,
            ..
        } = result.outcome
        else {
            panic!("{:?}", result.outcome);
        };
        assert_eq!(values, tile(2));
        let expected = SizeDomain {
            minimum: 10_000,
            maximum: 80_000,
        };
        assert_eq!(domain, expected);
        assert!(ratio.lower <= ratio.estimate && ratio.estimate <= ratio.upper);
        // Two percent covers the interval's own width at this noise.
        assert!((ratio.estimate * 1.5 - 1.0).abs() < 0.02, "{ratio:?}");
    }
}

#[test]
fn a_candidate_that_harms_one_workload_is_not_promoted() {
    let machine = ScriptedMachine::noisy(3, 1.0);
    let mut target = race(&machine, &[10_000, 80_000], &[0.5]);
    target.script = Arc::new(|row, size| match row.integer("algorithm.tile_m") {
        0 => behaves(size as f64, "default"),
        _ if size == 10_000 => behaves(10_000.0 * 1.1, "tile"),
        _ => behaves(size as f64 * 0.5, "tile"),
    });
    let result = first(&machine, &target, 3);
    let Outcome::DefaultConfirmed { reason, .. } = result.outcome else {
        panic!("{:?}", result.outcome);
    };
    let workload = "case/10000".to_owned();
    assert_eq!(reason, KeepReason::Regression { workload });
}

#[test]
fn far_slower_candidates_are_abandoned_after_their_first_calls() {
    let machine = ScriptedMachine::quiet();
    let target = race(&machine, &[100_000], &[1_000.0, 4.0]);
    let result = first(&machine, &target, 1);
    let Outcome::DefaultConfirmed { reason, .. } = result.outcome else {
        panic!("{:?}", result.outcome);
    };
    assert_eq!(reason, KeepReason::NoCandidate);
    // The first run and its repetition for the estimate, of 100 ms each, and little else.
    assert!(machine.now_ns() < 220_000_000, "{}", machine.now_ns());
}

#[test]
fn candidates_on_the_defaults_path_cannot_win() {
    let machine = ScriptedMachine::noisy(4, 1.0);
    let mut target = race(&machine, &[10_000], &[0.5]);
    target.script = Arc::new(|row, size| {
        // Faster by mistake of the clock, but the same path.
        let ns = if row.integer("algorithm.tile_m") == 0 {
            1.0
        } else {
            0.5
        };
        behaves(size as f64 * ns, "the one path")
    });
    let result = first(&machine, &target, 4);
    let Outcome::DefaultConfirmed { reason, .. } = result.outcome else {
        panic!("{:?}", result.outcome);
    };
    assert_eq!(reason, KeepReason::SamePath);
}

#[test]
fn different_outputs_fail_the_key_loudly() {
    let machine = ScriptedMachine::quiet();
    let mut target = race(&machine, &[10_000], &[0.5]);
    target.script = Arc::new(|row, size| {
        let i = row.integer("algorithm.tile_m");
        let mut behaviour = behaves(size as f64, format!("tile {i}"));
        behaviour.output = i as u64;
        behaviour
    });
    let Outcome::Failed { reason } = first(&machine, &target, 1).outcome else {
        panic!("not failed");
    };
    for part in ["tile 1", "default", "case/10000", "bit for bit"] {
        assert!(reason.contains(part), "{reason}");
    }
}

#[test]
fn a_failing_candidate_is_left_out_and_a_failing_default_fails_the_key() {
    let faulty = |bad: i64, fault: Fault| {
        let machine = ScriptedMachine::quiet();
        let mut target = race(&machine, &[10_000], &[0.5, 0.8]);
        target.script = Arc::new(move |row, size| {
            let i = row.integer("algorithm.tile_m");
            let ratio = [1.0, 0.5, 0.8][i as usize];
            let mut behaviour = behaves(size as f64 * ratio, format!("tile {i}"));
            if i == bad {
                behaviour.fault = fault;
            }
            behaviour
        });
        first(&machine, &target, 1).outcome
    };
    let Outcome::Promoted { values, .. } = faulty(1, Fault::Error) else {
        panic!("the other candidate should win");
    };
    assert_eq!(values, tile(2));
    assert!(matches!(faulty(0, Fault::Error), Outcome::Failed { .. }));
    let Outcome::Promoted { values, .. } = faulty(1, Fault::Panic) else {
        panic!("the other candidate should win");
    };
    assert_eq!(values, tile(2));
    let Outcome::Failed { reason } = faulty(0, Fault::Panic) else {
        panic!("a panic of the default fails the key");
    };
    assert!(reason.contains("planted panic"), "{reason}");
}

#[test]
fn a_default_that_differs_from_itself_voids_the_key() {
    let machine = ScriptedMachine::quiet();
    let mut target = race(&machine, &[200_000], &[0.9]);
    // Instances of one row differ by 2 % in turn, as placement in memory can make them.
    let made = std::sync::atomic::AtomicU64::new(0);
    target.script = Arc::new(move |row, size| match row.integer("algorithm.tile_m") {
        0 => {
            let odd = made.fetch_add(1, Ordering::Relaxed) % 2;
            behaves(size as f64 * (1.0 + 0.02 * odd as f64), "default")
        }
        _ => behaves(size as f64 * 0.9, "tile"),
    });
    let result = first(&machine, &target, 1);
    assert!(
        matches!(result.outcome, Outcome::Void { .. }),
        "{:?}",
        result.outcome
    );
}

#[test]
fn a_very_noisy_machine_decides_nothing() {
    let mut too_noisy = 0;
    for seed in 0..20 {
        let machine = ScriptedMachine::noisy(seed, 20.0);
        let result = first(&machine, &race(&machine, &[40_000], &[1.0]), seed);
        assert!(!matches!(result.outcome, Outcome::Promoted { .. }));
        too_noisy += u32::from(matches!(result.outcome, Outcome::TooNoisy { .. }));
    }
    assert!(too_noisy >= 10, "{too_noisy} of 20");
}

#[test]
fn a_loaded_machine_is_refused_before_anything_is_measured() {
    struct Loaded(Cell<u64>);
    impl EnvironmentProbe for Loaded {
        fn observe(&self) -> Environment {
            self.0.set(self.0.get() + 60);
            Environment {
                idle_ticks: Reading::Value(7),
                total_ticks: Reading::Value(self.0.get()),
                ..Environment::UNKNOWN
            }
        }
    }
    let loaded = Loaded(Cell::new(0));
    let machine = ScriptedMachine::quiet();
    let target = race(&machine, &[1_000], &[0.5]);
    let mut calibrator = calibrator(&machine, CalibrationSettings::default());
    calibrator.environment = &loaded;
    let results = calibrator.calibrate_first(&[&target], &mut Controls::default());
    assert!(matches!(results[0].outcome, Outcome::TooNoisy { .. }));
    assert_eq!(machine.calls.load(Ordering::Relaxed), 0);
}

const SIZES: [u64; 8] = [
    1_024, 4_096, 8_192, 16_384, 32_768, 65_536, 262_144, 1_048_576,
];

/// Serial `a + b·n`, parallel `c + d·n`.
fn crossover(machine: &Arc<ScriptedMachine>, overhead: f64, speedup: f64) -> ScriptedTarget {
    let schema = ParallelConfig::schema();
    let row = |value| {
        schema
            .defaults()
            .with(MINIMUM_ELEMENTS, ParameterValue::Integer(value))
    };
    ScriptedTarget {
        machine: Arc::clone(machine),
        key: key("Abs"),
        schema,
        sizes: SIZES.to_vec(),
        search: Search::Crossover {
            parameter: MINIMUM_ELEMENTS,
            below: row(i64::MAX),
            above: row(1),
            grid: SIZES
                .iter()
                .map(|size| *size as i64)
                .chain([i64::MAX])
                .collect(),
        },
        script: Arc::new(move |row, size| {
            let parallel = size >= row.integer(MINIMUM_ELEMENTS) as u64;
            let n = size as f64;
            if parallel {
                behaves(50.0 + overhead + n / speedup, "parallel")
            } else {
                behaves(50.0 + n, "serial")
            }
        }),
        memory_bytes: 0,
        flops: 0,
    }
}

fn threshold(outcome: &Outcome) -> i64 {
    match outcome {
        Outcome::Promoted { values, .. } | Outcome::DefaultConfirmed { values, .. } => {
            values.integer(MINIMUM_ELEMENTS)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn thresholds_come_out_near_the_best() {
    // Overheads put the true crossover between 1 500 and 400 000 elements.
    let mut worst: f64 = 0.0;
    let mut sum = 0.0;
    let mut trials = 0;
    for (i, overhead) in [1_000.0, 5_000.0, 20_000.0, 100_000.0, 300_000.0]
        .into_iter()
        .enumerate()
    {
        for seed in 0..20 {
            let machine = ScriptedMachine::noisy(seed * 10 + i as u64, 1.0);
            let target = crossover(&machine, overhead, 3.5);
            let result = first(&machine, &target, seed);
            let threshold = threshold(&result.outcome) as u64;
            let regret: f64 = SIZES
                .iter()
                .map(|&size| {
                    let n = size as f64;
                    let (serial, parallel) = (50.0 + n, 50.0 + overhead + n / 3.5);
                    let taken = if size >= threshold { parallel } else { serial };
                    taken / serial.min(parallel) - 1.0
                })
                .sum::<f64>()
                / SIZES.len() as f64;
            worst = worst.max(regret);
            sum += regret;
            trials += 1;
        }
    }
    let mean = sum / f64::from(trials);
    // One size on the wrong side near the crossing costs a few percent of one size in eight.
    assert!(mean < 0.005, "mean regret {mean}");
    assert!(worst < 0.05, "worst regret {worst}");
}

#[test]
fn a_threshold_that_wins_at_the_top_holds_upwards_without_bound() {
    let machine = ScriptedMachine::noisy(5, 1.0);
    let result = first(&machine, &crossover(&machine, 2_000.0, 3.5), 5);
    let Outcome::Promoted { values, domain, .. } = result.outcome else {
        panic!("{:?}", result.outcome);
    };
    assert_eq!(values.integer(MINIMUM_ELEMENTS), 4_096);
    let expected = SizeDomain {
        minimum: 1_024,
        maximum: u64::MAX,
    };
    assert_eq!(domain, expected);
}

#[test]
fn a_parallel_form_that_never_pays_is_switched_off_in_the_measured_sizes_only() {
    let machine = ScriptedMachine::noisy(6, 1.0);
    let result = first(&machine, &crossover(&machine, 5_000.0, 0.8), 6);
    let Outcome::Promoted { values, domain, .. } = result.outcome else {
        panic!("{:?}", result.outcome);
    };
    assert_eq!(values.integer(MINIMUM_ELEMENTS), i64::MAX);
    assert_eq!(domain.maximum, 1_048_576);
}

#[test]
fn one_lane_gives_one_path_and_the_default_stays() {
    let machine = ScriptedMachine::noisy(7, 1.0);
    let mut target = crossover(&machine, 0.0, 1.0);
    target.script = Arc::new(|_, size| behaves(size as f64, "serial"));
    let result = first(&machine, &target, 7);
    let Outcome::DefaultConfirmed { reason, .. } = result.outcome else {
        panic!("{:?}", result.outcome);
    };
    assert_eq!(reason, KeepReason::SamePath);
}

#[test]
fn budgets_are_kept_within_one_sample() {
    for call_ns in [1_000.0, 300_000.0, 40_000_000.0] {
        for budget_ns in [1_000_000, 50_000_000, 700_000_000_u64] {
            let machine = ScriptedMachine::quiet();
            let mut target = race(&machine, &[1], &[0.9, 1.0, 1.1]);
            target.script = Arc::new(move |row, _| {
                let i = row.integer("algorithm.tile_m");
                behaves(call_ns * [1.0, 0.9, 1.0, 1.1][i as usize], format!("{i}"))
            });
            let settings = CalibrationSettings {
                total_budget_ns: Some(budget_ns),
                ..CalibrationSettings::default()
            };
            // A sample is an untimed batch of at most the length of the timed one, and the timed one.
            let sample = 2.0 * f64::max(1.1 * call_ns, 1.2 * settings.sample_ns as f64);
            let result = run(&machine, &target, settings);
            let spent = machine.now_ns() as f64;
            assert!(
                spent <= budget_ns as f64 + sample,
                "call {call_ns} budget {budget_ns} spent {spent}"
            );
            if let Outcome::NotMeasured { reason } = &result.outcome {
                assert!(reason.contains("budget"), "{reason}");
            } else {
                assert!(spent < budget_ns as f64 + sample, "{:?}", result.outcome);
            }
        }
    }
}

#[test]
fn one_key_takes_its_own_budget_and_the_next_one_goes_on() {
    let machine = ScriptedMachine::quiet();
    let mut slow = race(&machine, &[1], &[0.9]);
    slow.script = Arc::new(|row, _| {
        let i = row.integer("algorithm.tile_m");
        behaves(100e6, format!("{i}"))
    });
    let fast = race(&machine, &[1_000], &[0.5]);
    let calibrator = calibrator(&machine, CalibrationSettings::default());
    let results = calibrator.calibrate_first(&[&slow, &fast], &mut Controls::default());
    assert!(matches!(results[0].outcome, Outcome::NotMeasured { .. }));
    assert!(matches!(results[1].outcome, Outcome::Promoted { .. }));
}

#[test]
fn a_key_costs_far_less_than_its_budget() {
    let machine = ScriptedMachine::noisy(8, 1.0);
    first(&machine, &crossover(&machine, 5_000.0, 3.5), 8);
    let spent = machine.now_ns();
    assert!(spent < 1_500_000_000, "{spent} ns");
}

#[test]
fn workloads_beyond_the_memory_limit_are_skipped_and_named() {
    let machine = ScriptedMachine::quiet();
    let mut target = race(&machine, &[1_000], &[0.5]);
    target.memory_bytes = 1 << 40;
    let Outcome::Failed { reason } = first(&machine, &target, 1).outcome else {
        panic!("measured beyond the limit");
    };
    assert!(
        reason.contains("case/1000") && reason.contains("--memory"),
        "{reason}"
    );
}

#[test]
fn cancelling_keeps_finished_keys() {
    let machine = ScriptedMachine::quiet();
    let targets: Vec<ScriptedTarget> = (0..3).map(|_| race(&machine, &[1_000], &[0.5])).collect();
    let targets: Vec<&dyn onl_snapshot::CalibrationTarget> =
        targets.iter().map(|t| t as _).collect();
    let cancel = AtomicBool::new(false);
    let mut seen = Vec::new();
    let mut progress = |p: &Progress| {
        seen.push((p.done, p.total, p.remaining_ns));
        if p.done == 1 && p.step.starts_with("confirming") {
            cancel.store(true, Ordering::Relaxed);
        }
    };
    let calibrator = calibrator(&machine, CalibrationSettings::default());
    let results = calibrator.calibrate_first(
        &targets,
        &mut Controls {
            progress: Some(&mut progress),
            cancel: Some(&cancel),
            waited_ns: 0,
        },
    );
    let names: Vec<&str> = results.iter().map(|r| r.outcome.name()).collect();
    assert_eq!(names, ["promoted", "not_measured", "not_measured"]);
    assert!(seen.iter().all(|(_, total, _)| *total == 3));
    assert!(seen.windows(2).all(|w| w[0].0 <= w[1].0));
}

/// A second process that measures on its own machine and hands everything over as JSON.
struct OtherProcess {
    ratio: f64,
}

impl ProcessRunner for OtherProcess {
    fn confirm(&self, proposals: &Proposals) -> Result<Confirmations, ProcessError> {
        let json = serde_json::to_string(proposals).unwrap();
        let proposals: Proposals = serde_json::from_str(&json).unwrap();
        let machine = ScriptedMachine::noisy(991, 1.0);
        let target = race(&machine, &[40_000], &[self.ratio]);
        let calibrator = calibrator(&machine, CalibrationSettings::default());
        let confirmations = calibrator.confirm(&[&target], &proposals, &mut Controls::default());
        let json = serde_json::to_string(&confirmations).unwrap();
        let back: Confirmations = serde_json::from_str(&json).unwrap();
        assert_eq!(back, confirmations, "evidence survives JSON exactly");
        Ok(back)
    }
}

struct NoProcess;

impl ProcessRunner for NoProcess {
    fn confirm(&self, _: &Proposals) -> Result<Confirmations, ProcessError> {
        Err(ProcessError {
            reason: "planted".to_owned(),
        })
    }
}

#[test]
fn a_promotion_needs_the_win_in_both_processes() {
    let both = |second: &dyn ProcessRunner| {
        let machine = ScriptedMachine::noisy(11, 1.0);
        let target = race(&machine, &[40_000], &[0.8]);
        let calibrator = calibrator(&machine, CalibrationSettings::default());
        let controls = &mut Controls::default();
        let mut results = calibrate_registered_kernels(&calibrator, &[&target], second, controls);
        results.remove(0)
    };
    let won = both(&OtherProcess { ratio: 0.8 });
    assert!(matches!(won.outcome, Outcome::Promoted { .. }));
    assert_eq!(won.evidence.len(), 2);
    let lost = both(&OtherProcess { ratio: 1.0 });
    assert!(
        matches!(
            &lost.outcome,
            Outcome::DefaultConfirmed {
                reason: KeepReason::NotRepeated,
                ..
            }
        ),
        "{:?}",
        lost.outcome
    );
    let alone = both(&NoProcess);
    let Outcome::NotMeasured { reason } = alone.outcome else {
        panic!("{:?}", alone.outcome);
    };
    assert!(reason.contains("planted"));
}

#[test]
fn replay_decides_the_same_and_answers_other_rules() {
    for seed in 0..30 {
        let machine = ScriptedMachine::noisy(seed, 1.0);
        let result = if seed % 2 == 0 {
            first(&machine, &race(&machine, &[40_000], &[1.0, 0.93]), seed)
        } else {
            first(&machine, &crossover(&machine, 5_000.0, 3.0), seed)
        };
        let json = serde_json::to_string(&result.evidence[0]).unwrap();
        let stored: KeyEvidence = serde_json::from_str(&json).unwrap();
        assert_eq!(stored, result.evidence[0]);
        let again = replay(&stored, None, None).unwrap();
        assert!(again.agrees, "seed {seed}: {:?}", again.decision);
        if again.chosen.is_some() {
            // A margin of half the time is beyond what was planted.
            let strict = replay(&stored, None, Some(0.5)).unwrap();
            assert_ne!(strict.decision.verdict, Verdict::Promote);
        }
        assert!(matches!(
            replay(&stored, Some(7.0), None),
            Err(ReplayError::Rule(_))
        ));
    }
}

#[test]
fn equal_seeds_give_equal_evidence() {
    let evidence = || {
        let machine = ScriptedMachine::noisy(12, 1.0);
        first(
            &machine,
            &race(&machine, &[5_000, 40_000], &[0.97, 1.01]),
            12,
        )
        .evidence
    };
    assert_eq!(evidence(), evidence());
}

#[test]
fn changed_evidence_is_noticed() {
    let machine = ScriptedMachine::noisy(13, 1.0);
    let result = first(&machine, &race(&machine, &[40_000], &[0.8]), 13);
    let mut evidence = result.evidence[0].clone();
    evidence.chosen = Some(tile(77));
    assert!(matches!(
        replay(&evidence, None, None),
        Err(ReplayError::OtherRow { .. })
    ));
    let mut evidence = result.evidence[0].clone();
    for pair in &mut evidence.samples.workloads[0].pairs {
        std::mem::swap(&mut pair.first_ns, &mut pair.second_ns);
    }
    let again = replay(&evidence, None, None).unwrap();
    assert!(!again.agrees);
    evidence.samples.workloads[0].pairs[0].first_ns = f64::NAN;
    let invalid = replay(&evidence, None, None).unwrap();
    assert!(matches!(invalid.decision.verdict, Verdict::Invalid(_)));
    evidence.format = 9;
    assert!(replay(&evidence, None, None).is_err());
}

#[test]
fn ill_formed_targets_fail_with_a_reason() {
    let machine = ScriptedMachine::quiet();
    let reason = |change: fn(&mut ScriptedTarget)| {
        let mut target = race(&machine, &[1_000], &[0.5]);
        change(&mut target);
        match first(&machine, &target, 1).outcome {
            Outcome::Failed { reason } => reason,
            other => panic!("{other:?}"),
        }
    };
    assert!(reason(|t| t.sizes.clear()).contains("no workload"));
    assert!(reason(|t| t.sizes = vec![5, 5]).contains("two workloads"));
    let out_of_range = reason(|t| {
        t.search = Search::Candidates(vec![Candidate {
            name: "huge".to_owned(),
            values: tile(101),
        }]);
    });
    assert!(out_of_range.contains("huge") && out_of_range.contains("out of range"));
    let grid = reason(|t| {
        t.search = Search::Crossover {
            parameter: "algorithm.tile_m",
            below: tile(0),
            above: tile(1),
            grid: vec![3, 2],
        };
    });
    assert!(grid.contains("ascending"), "{grid}");
}

#[test]
fn a_rule_that_is_not_legal_measures_nothing() {
    let machine = ScriptedMachine::quiet();
    let settings = CalibrationSettings {
        rule: DecisionRule {
            looks: vec![40, 20],
            ..DecisionRule::default()
        },
        ..CalibrationSettings::default()
    };
    let result = run(&machine, &race(&machine, &[1_000], &[0.5]), settings);
    assert!(matches!(result.outcome, Outcome::Failed { .. }));
    assert_eq!(machine.calls.load(Ordering::Relaxed), 0);
}

#[test]
fn lane_costs_are_medians_and_refuse_nonsense() {
    struct Probe(std::cell::RefCell<SplitMix64>, f64);
    impl LaneCostProbe for Probe {
        fn region_ns(&self, hot: bool) -> f64 {
            let spike = self.0.borrow_mut().next_f64() < 0.1;
            let base = if hot { 350.0 } else { 20_000.0 };
            self.1 * if spike { base * 100.0 } else { base }
        }
    }
    let probe = |scale| Probe(std::cell::RefCell::new(SplitMix64(1)), scale);
    let costs = measure_lane_costs(&probe(1.0)).unwrap();
    assert_eq!((costs.hot_ns, costs.cold_ns), (350.0, 20_000.0));
    assert_eq!(measure_lane_costs(&probe(f64::NAN)), None);
    assert_eq!(measure_lane_costs(&probe(-1.0)), None);
}
