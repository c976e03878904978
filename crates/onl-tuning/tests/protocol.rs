//! The whole calibrator on a scripted machine: budgets, memory, ceilings, participants, drift and faults.

mod support;

use onl_snapshot::{
    CalibrationInstance, CalibrationTarget, Candidate, GRAIN_ELEMENTS, MAXIMUM_PARTICIPANTS,
    MINIMUM_ELEMENTS, ParallelConfig, ParameterRow, ParameterValue, Search, TunedConfig, Workload,
};
use onl_tuning::evidence::SearchEvidence;
use onl_tuning::search::CrossoverChoice;
use onl_tuning::*;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use support::*;

fn parallel(name: &str, value: i64) -> ParameterRow {
    ParallelConfig::schema()
        .defaults()
        .with(name, ParameterValue::Integer(value))
}

fn integer(row: &ParameterRow, name: &str) -> u64 {
    row.integer(name) as u64
}

/// A race over grains: grain `1000 · (i + 1)` takes `ratios[i]` times the default's time.
fn grains(machine: &Arc<ScriptedMachine>, sizes: &[u64], ratios: &[f64]) -> ScriptedTarget {
    let ratios = ratios.to_vec();
    let candidates = (1..=ratios.len())
        .map(|i| Candidate {
            name: format!("grain {i}"),
            values: parallel(GRAIN_ELEMENTS, 1_000 * i as i64),
        })
        .collect();
    ScriptedTarget {
        machine: Arc::clone(machine),
        key: key("Add"),
        schema: ParallelConfig::schema(),
        sizes: sizes.to_vec(),
        search: Search::Candidates(candidates),
        script: Arc::new(move |row, size| {
            let ratio = match integer(row, GRAIN_ELEMENTS) {
                16_384 => 1.0,
                grain => ratios[grain as usize / 1_000 - 1],
            };
            let path = integer(row, GRAIN_ELEMENTS).to_string();
            behaves(size as f64 * ratio, path)
        }),
        memory_bytes: 0,
        flops: 0,
    }
}

fn threshold(machine: &Arc<ScriptedMachine>, sizes: &[u64], overhead_ns: f64) -> ScriptedTarget {
    let grid = sizes.iter().map(|s| *s as i64).chain([i64::MAX]).collect();
    ScriptedTarget {
        search: Search::Crossover {
            parameter: MINIMUM_ELEMENTS,
            below: parallel(MINIMUM_ELEMENTS, i64::MAX),
            above: parallel(MINIMUM_ELEMENTS, 1),
            grid,
        },
        script: Arc::new(move |row, size| {
            let n = size as f64;
            match size >= integer(row, MINIMUM_ELEMENTS) {
                true => behaves(overhead_ns + n / 4.0, "lanes"),
                false => behaves(n, "caller"),
            }
        }),
        ..grains(machine, sizes, &[])
    }
}

fn calibrate(calibrator: &Calibrator, target: &dyn CalibrationTarget) -> KeyResult {
    let mut results = calibrator.calibrate_first(&[target], &mut Controls::default());
    assert_eq!(results.len(), 1);
    let result = results.remove(0);
    for evidence in &result.evidence {
        let json = serde_json::to_string(evidence).unwrap();
        let stored: KeyEvidence = serde_json::from_str(&json).unwrap();
        assert_eq!(stored, *evidence, "evidence survives JSON to the bit");
        if evidence.decision.is_some() {
            let again = replay(&stored, None, None).unwrap();
            assert!(again.agrees, "{:?}", again.decision);
            assert_eq!(Some(&again.decision), evidence.decision.as_ref());
        }
    }
    result
}

fn seeded(seed: u64) -> CalibrationSettings {
    CalibrationSettings {
        seed,
        ..CalibrationSettings::default()
    }
}

#[test]
fn a_call_longer_than_the_budget_overruns_it_by_no_more_than_itself() {
    for (call_ns, budget_ns) in [(5e9, 1_000_000), (5e9, 7_000_000_000), (3e6, 2_000_000)] {
        let machine = ScriptedMachine::quiet();
        let mut target = grains(&machine, &[1], &[0.9, 1.0]);
        target.script =
            Arc::new(move |row, _| behaves(call_ns, integer(row, GRAIN_ELEMENTS).to_string()));
        let settings = CalibrationSettings {
            total_budget_ns: Some(budget_ns),
            key_budget_ns: u64::MAX,
            ..seeded(1)
        };
        let result = calibrate(&calibrator(&machine, settings), &target);
        assert!(matches!(result.outcome, Outcome::NotMeasured { .. }));
        let spent = machine.now_ns() as f64;
        assert!(
            spent <= budget_ns as f64 + call_ns,
            "{spent} of {budget_ns}"
        );
    }
}

/// Counts the bytes of the instances that live.
struct Counted {
    target: ScriptedTarget,
    live: Arc<AtomicU64>,
    most: Arc<AtomicU64>,
}

struct CountedInstance {
    instance: Box<dyn CalibrationInstance>,
    bytes: u64,
    live: Arc<AtomicU64>,
}

impl Drop for CountedInstance {
    fn drop(&mut self) {
        self.live.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl CalibrationInstance for CountedInstance {
    fn restore(&mut self) {
        self.instance.restore();
    }

    fn run(&mut self, times: u32) -> Result<(), onl_snapshot::CalibrationError> {
        self.instance.run(times)
    }

    fn output_digest(&mut self) -> onl_snapshot::Digest {
        self.instance.output_digest()
    }

    fn execution_path(&self) -> String {
        self.instance.execution_path()
    }
}

impl CalibrationTarget for Counted {
    fn key(&self) -> &onl_snapshot::KernelKey {
        self.target.key()
    }

    fn schema(&self) -> &'static onl_snapshot::Schema {
        self.target.schema()
    }

    fn workloads(&self) -> Vec<Workload> {
        self.target.workloads()
    }

    fn search(&self) -> Search {
        self.target.search()
    }

    fn instance(
        &self,
        workload: &Workload,
        values: &ParameterRow,
    ) -> Result<Box<dyn CalibrationInstance>, onl_snapshot::CalibrationError> {
        let bytes = workload.memory_bytes;
        let live = self.live.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.most.fetch_max(live, Ordering::Relaxed);
        Ok(Box::new(CountedInstance {
            instance: self.target.instance(workload, values)?,
            bytes,
            live: Arc::clone(&self.live),
        }))
    }
}

#[test]
fn instances_never_hold_more_memory_than_the_limit() {
    let machine = ScriptedMachine::noisy(2, 1.0);
    let mut target = grains(&machine, &[10_000, 20_000, 40_000], &[0.9, 0.95, 1.0, 1.0]);
    target.memory_bytes = 33 << 20;
    let most = Arc::new(AtomicU64::new(0));
    let counted = Counted {
        target,
        live: Arc::new(AtomicU64::new(0)),
        most: Arc::clone(&most),
    };
    let settings = CalibrationSettings {
        memory_bytes: 100 << 20,
        ..seeded(2)
    };
    let result = calibrate(&calibrator(&machine, settings), &counted);
    assert!(matches!(result.outcome, Outcome::Promoted { .. }));
    let most = most.load(Ordering::Relaxed);
    assert!((33 << 20..=100 << 20).contains(&most), "{most}");
}

#[test]
fn a_clock_that_speeds_up_by_a_third_changes_no_decision() {
    // Every call takes longer and longer: 30 % more at the end of the key than at its start.
    let outcome = |ramp: bool, ratio: f64| {
        let machine = ScriptedMachine::noisy(31, 0.5);
        let mut target = grains(&machine, &[40_000], &[1.1, ratio]);
        if ramp {
            machine.ramp(1.3, 60_000_000);
        }
        target.key = key("Mul");
        calibrate(&calibrator(&machine, seeded(31)), &target).outcome
    };
    for ratio in [0.9, 0.95] {
        for ramp in [false, true] {
            let Outcome::Promoted {
                values,
                ratio: found,
                ..
            } = outcome(ramp, ratio)
            else {
                panic!("{ramp} {ratio}: {:?}", outcome(ramp, ratio));
            };
            assert_eq!(values.integer(GRAIN_ELEMENTS), 2_000);
            assert!((found.estimate - ratio).abs() < 0.01, "{ramp} {found:?}");
        }
    }
    for ratio in [1.0, 1.02] {
        for ramp in [false, true] {
            assert!(matches!(
                outcome(ramp, ratio),
                Outcome::DefaultConfirmed { .. }
            ));
        }
    }
}

#[test]
fn a_sample_beyond_a_ceiling_makes_the_key_invalid_and_names_both_figures() {
    let outcome = |flops_per_ns: f64| {
        let machine = ScriptedMachine::quiet();
        let mut target = grains(&machine, &[10_000], &[0.5]);
        // The default does 20 operations per nanosecond, the candidate claims 40.
        target.flops = 200_000;
        let mut calibrator = calibrator(&machine, seeded(1));
        calibrator.ceilings = Some(Ceilings {
            flops_per_ns,
            bandwidth: Vec::new(),
        });
        calibrate(&calibrator, &target).outcome
    };
    let Outcome::Failed { reason } = outcome(30.0) else {
        panic!("{:?}", outcome(30.0));
    };
    for part in ["case/10000", "40.0 GFLOP/s", "30.0"] {
        assert!(reason.contains(part), "{reason}");
    }
    assert!(
        matches!(outcome(39.0), Outcome::Promoted { .. }),
        "within 105 %"
    );
}

/// A kernel that memory holds back: time falls up to four lanes and rises a little beyond.
fn saturating(machine: &Arc<ScriptedMachine>) -> ScriptedTarget {
    let mut target = threshold(machine, &[20_000, 80_000, 320_000], 0.0);
    target.script = Arc::new(|row, size| {
        let n = size as f64;
        let limit = match integer(row, MAXIMUM_PARTICIPANTS) {
            0 => 8,
            limit => limit.min(8),
        };
        if size < integer(row, MINIMUM_ELEMENTS) || limit == 1 {
            return behaves(n, "caller");
        }
        let lanes = limit as f64;
        let crowd = 1.0 + 0.03 * (lanes - 4.0).max(0.0);
        let ns = 500.0 * lanes + n / lanes.min(3.95) * crowd;
        behaves(ns, format!("{limit} lanes"))
    });
    target
}

#[test]
fn eight_participants_are_limited_to_the_fewest_within_two_percent_of_the_best() {
    for seed in 0..5 {
        let machine = ScriptedMachine::noisy(seed, 0.5);
        let mut calibrator = calibrator(&machine, seeded(seed));
        calibrator.execution = execution(8);
        let result = calibrate(&calibrator, &saturating(&machine));
        let Outcome::Promoted { values, .. } = &result.outcome else {
            panic!("seed {seed}: {:?}", result.outcome);
        };
        assert_eq!(values.integer(MAXIMUM_PARTICIPANTS), 4, "seed {seed}");
        let evidence = &result.evidence[0];
        let samples = evidence.participants.as_ref().unwrap();
        assert!(samples.limits.contains(&4), "{:?}", samples.limits);
        assert_eq!(evidence.chosen.as_ref(), Some(values));
    }
}

#[test]
fn two_participants_are_not_searched() {
    let machine = ScriptedMachine::noisy(1, 0.5);
    let mut calibrator = calibrator(&machine, seeded(1));
    calibrator.execution = execution(2);
    let result = calibrate(&calibrator, &saturating(&machine));
    let samples = result.evidence[0].participants.as_ref();
    assert!(samples.is_none(), "{samples:?}");
}

#[test]
fn the_cost_model_and_the_threshold_stand_in_the_evidence() {
    let machine = ScriptedMachine::noisy(5, 0.2);
    let sizes: Vec<u64> = (10..=20).map(|bits| 1 << bits).collect();
    // The forms cross at 6 667 elements.
    let target = threshold(&machine, &sizes, 5_000.0);
    let result = calibrate(&calibrator(&machine, seeded(5)), &target);
    let SearchEvidence::Crossover {
        fit,
        choice,
        samples,
        ..
    } = &result.evidence[0].search
    else {
        panic!("not a crossover");
    };
    let fit = fit.unwrap();
    assert!((fit.above.fixed_ns / 5_000.0 - 1.0).abs() < 0.1, "{fit:?}");
    assert!((fit.above.slope_ns / 0.25 - 1.0).abs() < 0.1, "{fit:?}");
    assert!((fit.below.slope_ns - 1.0).abs() < 0.1, "{fit:?}");
    assert_eq!(samples.fit.len(), 16);
    let expected = CrossoverChoice::Threshold {
        value: 8_192,
        first_win: 8_192,
        last_loss: 4_096,
    };
    assert_eq!(choice.as_ref(), Some(&expected));
}

#[test]
fn a_form_that_always_wins_takes_the_smallest_threshold() {
    let machine = ScriptedMachine::noisy(6, 0.5);
    let sizes: Vec<u64> = (10..=20).map(|bits| 1 << bits).collect();
    let result = calibrate(
        &calibrator(&machine, seeded(6)),
        &threshold(&machine, &sizes, 100.0),
    );
    let Outcome::Promoted { values, domain, .. } = &result.outcome else {
        panic!("{:?}", result.outcome);
    };
    assert_eq!(values.integer(MINIMUM_ELEMENTS), 1_024);
    assert_eq!((domain.minimum, domain.maximum), (1_024, u64::MAX));
}

#[test]
fn a_candidate_that_fails_during_the_race_leaves_it_and_the_others_go_on() {
    for fault in [Fault::Error, Fault::Panic] {
        let machine = ScriptedMachine::quiet();
        let mut target = grains(&machine, &[40_000], &[0.5, 0.8]);
        // The best candidate works once on each size and fails when it is made anew.
        let made = AtomicU64::new(0);
        let memory = 40 << 20;
        target.memory_bytes = memory;
        target.script = Arc::new(move |row, size| {
            let grain = integer(row, GRAIN_ELEMENTS);
            let ratio = [1.0, 0.5, 0.8][if grain == 16_384 {
                0
            } else {
                grain as usize / 1_000
            }];
            let mut behaviour = behaves(size as f64 * ratio, grain.to_string());
            if grain == 1_000 && made.fetch_add(1, Ordering::Relaxed) >= 2 {
                behaviour.fault = fault;
            }
            behaviour
        });
        // Three rows on two sizes are six instances; room for three makes each round make some anew.
        let settings = CalibrationSettings {
            memory_bytes: 3 * memory,
            ..seeded(1)
        };
        target.sizes = vec![40_000, 50_000];
        let result = calibrate(&calibrator(&machine, settings), &target);
        let Outcome::Promoted { values, .. } = &result.outcome else {
            panic!("{:?}", result.outcome);
        };
        assert_eq!(values.integer(GRAIN_ELEMENTS), 2_000);
        let SearchEvidence::Race { excluded, .. } = &result.evidence[0].search else {
            panic!("not a race");
        };
        assert_eq!(excluded.len(), 1);
        assert_eq!(excluded[0].candidate, "grain 1");
        assert!(
            excluded[0].reason.contains("planted"),
            "{}",
            excluded[0].reason
        );
    }
}

#[test]
fn a_candidate_three_times_slower_than_the_leader_is_abandoned_and_the_others_complete() {
    let machine = ScriptedMachine::quiet();
    // The last is faster than the default and hopeless beside the first.
    let target = grains(&machine, &[40_000], &[0.2, 0.9, 4.0]);
    let result = calibrate(&calibrator(&machine, seeded(1)), &target);
    let Outcome::Promoted { values, .. } = &result.outcome else {
        panic!("{:?}", result.outcome);
    };
    assert_eq!(values.integer(GRAIN_ELEMENTS), 1_000);
    let SearchEvidence::Race { excluded, .. } = &result.evidence[0].search else {
        panic!("not a race");
    };
    let names: Vec<&str> = excluded.iter().map(|e| e.candidate.as_str()).collect();
    assert_eq!(names, ["grain 2", "grain 3"]);
    assert!(
        excluded[0].reason.contains("4.5 times"),
        "{}",
        excluded[0].reason
    );
}

/// Gives a quota.
struct Quota(f64);

impl EnvironmentProbe for Quota {
    fn observe(&self) -> Environment {
        Environment::UNKNOWN
    }

    fn quota_cpus(&self) -> Reading<f64> {
        Reading::Value(self.0)
    }
}

#[test]
fn a_quota_below_the_participants_refuses_the_start() {
    let machine = ScriptedMachine::quiet();
    let target = grains(&machine, &[1_000], &[0.5]);
    let outcome = |quota: f64| {
        let probe = Quota(quota);
        let mut calibrator = calibrator(&machine, seeded(1));
        calibrator.environment = &probe;
        calibrator
            .calibrate_first(&[&target], &mut Controls::default())
            .remove(0)
    };
    let refused = outcome(2.0);
    let Outcome::Failed { reason } = &refused.outcome else {
        panic!("{:?}", refused.outcome);
    };
    assert!(reason.contains("2.0 processors") && reason.contains("4 participants"));
    assert_eq!(machine.calls.load(Ordering::Relaxed), 0);
    let accepted = outcome(4.0);
    assert!(matches!(accepted.outcome, Outcome::Promoted { .. }));
    let recorded = accepted.evidence[0].environment[0].quota_cpus;
    assert_eq!(recorded, Reading::Value(4.0));
}

/// A clock in front of a machine: it advances on its own at each reading, or goes backwards once.
struct Reader<'a> {
    machine: &'a ScriptedMachine,
    step_ns: u64,
    readings: Cell<u64>,
    backwards_at: u64,
}

impl Clock for Reader<'_> {
    fn now_ns(&self) -> u64 {
        let readings = self.readings.get() + 1;
        self.readings.set(readings);
        let now = (self.machine.now_ns() + 1_000_000_000) / self.step_ns * self.step_ns;
        if readings == self.backwards_at {
            now - 1
        } else {
            now + readings * self.step_ns
        }
    }
}

#[test]
fn a_clock_that_goes_backwards_refuses_the_start() {
    let machine = ScriptedMachine::quiet();
    let target = grains(&machine, &[1_000], &[0.5]);
    let clock = Reader {
        machine: &machine,
        step_ns: 10,
        readings: Cell::new(0),
        backwards_at: 50,
    };
    let mut calibrator = calibrator(&machine, seeded(1));
    calibrator.clock = &clock;
    let results = calibrator.calibrate_first(&[&target], &mut Controls::default());
    let Outcome::Failed { reason } = &results[0].outcome else {
        panic!("{:?}", results[0].outcome);
    };
    assert!(reason.contains("backwards"), "{reason}");
    assert_eq!(machine.calls.load(Ordering::Relaxed), 0);
}

#[test]
fn a_coarse_clock_makes_samples_longer() {
    let machine = ScriptedMachine::quiet();
    let target = grains(&machine, &[1_000], &[0.5]);
    let clock = Reader {
        machine: &machine,
        step_ns: 10_000,
        readings: Cell::new(0),
        backwards_at: u64::MAX,
    };
    let settings = CalibrationSettings {
        key_budget_ns: u64::MAX,
        ..seeded(1)
    };
    let mut calibrator = calibrator(&machine, settings);
    calibrator.clock = &clock;
    let result = calibrate(&calibrator, &target);
    assert!(matches!(result.outcome, Outcome::Promoted { .. }));
    let step = result.evidence[0].environment[0].clock_step_ns;
    assert_eq!(step, Reading::Value(10_000));
    // A thousand steps are 10 ms; the longest batch is a jittered one of them.
    let longest = machine.longest_call_ns.load(Ordering::Relaxed);
    assert!((8_000_000..=12_500_000).contains(&longest), "{longest}");
}
