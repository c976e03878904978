//! Calibrations on a machine whose lanes are coupled closely and loosely by turns.

mod support;

use onl_snapshot::{
    CalibrationError, CalibrationInstance, CalibrationTarget, Candidate, Digest, KernelKey,
    Parameter, ParameterKind, ParameterRow, ParameterValue, Schema, Search, Workload,
};
use onl_tuning::process::calibrate_keys;
use onl_tuning::{
    CalibrationSettings, Calibrator, Confirmations, Controls, CouplingProbe, Environment,
    EnvironmentProbe, KeepReason, KeyResult, Outcome, ProcessError, ProcessRunner, Proposals,
};
use std::cell::Cell;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use support::{ScriptedMachine, calibrator, key};

const SECOND: u64 = 1_000_000_000;
const CLOSE_NS: f64 = 250.0;
const LOOSE_NS: f64 = 950.0;

/// Hand-over at a time.
type Coupling = Arc<dyn Fn(u64) -> f64 + Send + Sync>;

/// Close and loose by turns of this length, loose first when asked.
fn turns(length_ns: u64, loose_first: bool) -> Coupling {
    Arc::new(move |now| {
        if (now / length_ns + u64::from(loose_first)).is_multiple_of(2) {
            CLOSE_NS
        } else {
            LOOSE_NS
        }
    })
}

/// The machine as environment and probe: waiting takes time, a reading takes a little.
struct Host {
    machine: Arc<ScriptedMachine>,
    coupling: Coupling,
}

impl Host {
    fn handoff(&self) -> f64 {
        use onl_tuning::Clock;
        (self.coupling)(self.machine.now_ns())
    }
}

impl EnvironmentProbe for Host {
    fn observe(&self) -> Environment {
        Environment::UNKNOWN
    }

    fn pause(&self, duration: Duration) {
        self.machine.pass(duration.as_nanos() as u64);
    }
}

impl CouplingProbe for Host {
    fn handoff_ns(&self) -> f64 {
        self.machine.pass(40_000);
        self.handoff()
    }
}

static THRESHOLD: Schema = Schema {
    parameters: &[
        Parameter {
            name: "parallel.minimum_elements",
            kind: ParameterKind::Integer {
                default: 32_768,
                minimum: 1,
                maximum: i64::MAX,
            },
            unit: "elements",
            meaning: "Scripted.",
        },
        Parameter {
            name: "algorithm.tile_m",
            kind: ParameterKind::Integer {
                default: 0,
                minimum: 0,
                maximum: 9,
            },
            unit: "rows",
            meaning: "Scripted.",
        },
    ],
    check: |_| Ok(()),
};

/// Time of a form on a size: `forms(divided, tile, size, handoff)`.
type Forms = fn(bool, i64, f64, f64) -> f64;

struct Kernel {
    host: Arc<Host>,
    key: KernelKey,
    search: Search,
    forms: Forms,
}

struct Instance {
    host: Arc<Host>,
    forms: Forms,
    divided: bool,
    tile: i64,
    size: u64,
}

impl CalibrationTarget for Kernel {
    fn key(&self) -> &KernelKey {
        &self.key
    }

    fn schema(&self) -> &'static Schema {
        &THRESHOLD
    }

    fn workloads(&self) -> Vec<Workload> {
        (10..=20)
            .map(|bits| Workload {
                name: format!("case/{}", 1_u64 << bits),
                size: 1 << bits,
                memory_bytes: 8,
                flops: 0,
                bytes: 0,
                cache_state: onl_snapshot::CacheState::OwnWarm,
            })
            .collect()
    }

    fn search(&self) -> Search {
        self.search.clone()
    }

    fn instance(
        &self,
        workload: &Workload,
        values: &ParameterRow,
    ) -> Result<Box<dyn CalibrationInstance>, CalibrationError> {
        let threshold = values.integer("parallel.minimum_elements");
        Ok(Box::new(Instance {
            host: Arc::clone(&self.host),
            forms: self.forms,
            divided: workload.size as i64 >= threshold,
            tile: values.integer("algorithm.tile_m"),
            size: workload.size,
        }))
    }
}

impl CalibrationInstance for Instance {
    fn restore(&mut self) {}

    fn run(&mut self, times: u32) -> Result<(), CalibrationError> {
        let handoff = self.host.handoff();
        let ns = (self.forms)(self.divided, self.tile, self.size as f64, handoff);
        self.host.machine.spend(ns * f64::from(times));
        Ok(())
    }

    fn output_digest(&mut self) -> Digest {
        Digest([1; 4])
    }

    fn execution_path(&self) -> String {
        format!("{} {}", self.divided, self.tile)
    }
}

fn row(threshold: i64) -> ParameterRow {
    let value = ParameterValue::Integer(threshold);
    THRESHOLD
        .defaults()
        .with("parallel.minimum_elements", value)
}

fn crossover() -> Search {
    Search::Crossover {
        parameter: "parallel.minimum_elements",
        below: row(i64::MAX),
        above: row(1),
        grid: (10..=21).map(|bits| 1 << bits).chain([i64::MAX]).collect(),
    }
}

/// The second process in this one.
struct Second<'a>(&'a Calibrator<'a>, Vec<&'a dyn CalibrationTarget>);

impl ProcessRunner for Second<'_> {
    fn confirm(&self, proposals: &Proposals) -> Result<Confirmations, ProcessError> {
        Ok(self.0.confirm(&self.1, proposals, &mut Controls::default()))
    }
}

struct Calibration {
    results: Vec<KeyResult>,
    seconds: f64,
    handed_out: usize,
}

fn calibrate(
    noise: Option<u64>,
    coupling: Coupling,
    watch_ns: u64,
    kernels: &[(&'static str, Search, Forms)],
) -> Calibration {
    let machine = match noise {
        Some(seed) => ScriptedMachine::noisy(seed, 1.0),
        None => ScriptedMachine::quiet(),
    };
    let host = Arc::new(Host {
        machine: Arc::clone(&machine),
        coupling,
    });
    let kernels: Vec<Kernel> = kernels
        .iter()
        .map(|(name, search, forms)| Kernel {
            host: Arc::clone(&host),
            key: key(name),
            search: search.clone(),
            forms: *forms,
        })
        .collect();
    let targets: Vec<&dyn CalibrationTarget> = kernels.iter().map(|k| k as _).collect();
    let settings = CalibrationSettings {
        coupling_watch_ns: watch_ns,
        ..CalibrationSettings::default()
    };
    let calibrator = Calibrator {
        environment: &*host,
        coupling: Some(&*host),
        ..calibrator(&machine, settings)
    };
    let second = Second(&calibrator, targets.clone());
    let handed_out = Cell::new(0);
    let results = calibrate_keys::<Infallible>(
        &calibrator,
        &targets,
        &second,
        &mut Controls::default(),
        &mut |_| {
            handed_out.set(handed_out.get() + 1);
            Ok(())
        },
    );
    use onl_tuning::Clock;
    Calibration {
        results: results.unwrap(),
        seconds: machine.now_ns() as f64 / 1e9,
        handed_out: handed_out.get(),
    }
}

fn threshold(result: &KeyResult) -> i64 {
    match &result.outcome {
        Outcome::Promoted { values, .. } | Outcome::DefaultConfirmed { values, .. } => {
            values.integer("parallel.minimum_elements")
        }
        other => panic!("{}: {other:?}", result.key),
    }
}

/// Serial 0.5 ns an element; divided half of it and four hand-overs. Pays from 4 096 when close, from 16 384 when loose.
fn light(divided: bool, _: i64, size: f64, handoff: f64) -> f64 {
    if divided {
        4.0 * handoff * 0.9 + 0.25 * size
    } else {
        0.5 * size
    }
}

/// Pays from 1 024 when close, from 2 048 when loose.
fn heavy(divided: bool, _: i64, size: f64, handoff: f64) -> f64 {
    if divided {
        handoff + 1.0 * size
    } else {
        2.0 * size
    }
}

/// Never pays.
fn streaming(divided: bool, _: i64, size: f64, handoff: f64) -> f64 {
    if divided { handoff + 1.1 * size } else { size }
}

const LIGHT: (&str, i64) = ("Abs", 16_384);
const HEAVY: (&str, i64) = ("Exp", 2_048);

fn thresholds() -> Vec<(&'static str, Search, Forms)> {
    vec![
        (LIGHT.0, crossover(), light),
        (HEAVY.0, crossover(), heavy),
        ("Copy", crossover(), streaming),
    ]
}

#[test]
fn thresholds_hold_at_the_loosest_coupling_whichever_comes_first() {
    for (length_ns, loose_first) in [
        (SECOND / 5, false),
        (SECOND / 5, true),
        (SECOND, false),
        (SECOND, true),
        (20 * SECOND, false),
        (20 * SECOND, true),
    ] {
        let found = calibrate(
            None,
            turns(length_ns, loose_first),
            60 * SECOND,
            &thresholds(),
        );
        let case = format!("turns of {length_ns} ns, loose first: {loose_first}");
        for (result, (name, expected)) in found.results.iter().zip([LIGHT, HEAVY]) {
            assert_eq!(threshold(result), expected, "{name}, {case}");
            assert!(matches!(result.outcome, Outcome::Promoted { .. }), "{case}");
            let levels: Vec<f64> = result
                .evidence
                .iter()
                .map(|e| e.coupling.expect("a level").handoff_ns)
                .collect();
            assert_eq!(levels[0], LOOSE_NS, "{name} is searched there, {case}");
            assert!(levels[1..].contains(&CLOSE_NS), "{name}, {case}");
            assert!(levels[1..].contains(&LOOSE_NS), "{name}, {case}");
        }
        // From its default of 32 768 on it is divided, which loses; never dividing wins at both couplings.
        assert_eq!(threshold(&found.results[2]), i64::MAX, "{case}");
        assert!(found.handed_out >= 3, "{case}");
    }
}

#[test]
fn independent_calibrations_of_a_moving_machine_agree() {
    let within_a_step = |a: i64, b: i64| a == b || a.min(b).saturating_mul(2) == a.max(b);
    let all: Vec<Vec<i64>> = (0..12)
        .map(|seed| {
            let coupling = turns(SECOND * (1 + seed % 4) / 2, seed % 2 == 0);
            let found = calibrate(Some(seed + 1), coupling, 60 * SECOND, &thresholds());
            found.results.iter().map(threshold).collect()
        })
        .collect();
    let pairs: Vec<bool> = all
        .iter()
        .flat_map(|a| all.iter().map(move |b| (a, b)))
        .flat_map(|(a, b)| a.iter().zip(b))
        .map(|(a, b)| within_a_step(*a, *b))
        .collect();
    let agreeing = pairs.iter().filter(|agree| **agree).count();
    assert!(agreeing as f64 >= 0.95 * pairs.len() as f64, "{all:?}");
}

#[test]
fn what_wins_at_one_coupling_and_loses_at_the_other_is_not_promoted() {
    fn close_only(_: bool, tile: i64, size: f64, handoff: f64) -> f64 {
        match (tile, handoff < 500.0) {
            (1, true) => 0.7 * size,
            (1, false) => 1.2 * size,
            _ => size,
        }
    }
    fn both(_: bool, tile: i64, size: f64, _: f64) -> f64 {
        if tile == 1 { 0.8 * size } else { size }
    }
    let tile = THRESHOLD
        .defaults()
        .with("algorithm.tile_m", ParameterValue::Integer(1));
    let search = Search::Candidates(vec![Candidate {
        name: "one".to_owned(),
        values: tile,
    }]);
    let kernels = [
        ("Close", search.clone(), close_only as Forms),
        ("Both", search, both as Forms),
    ];
    let found = calibrate(None, turns(SECOND, false), 60 * SECOND, &kernels);
    let Outcome::DefaultConfirmed { reason, .. } = &found.results[0].outcome else {
        panic!("{:?}", found.results[0].outcome);
    };
    assert_eq!(*reason, KeepReason::NotRepeated);
    assert!(matches!(found.results[1].outcome, Outcome::Promoted { .. }));
}

#[test]
fn another_coupling_is_waited_for_only_as_long_as_asked() {
    let close: Coupling = Arc::new(|_| CLOSE_NS);
    let at_once = calibrate(None, Arc::clone(&close), 0, &thresholds());
    let patient = calibrate(None, close, 100 * SECOND, &thresholds());
    assert!(at_once.seconds < 20.0, "{}", at_once.seconds);
    assert!(
        (100.0..101.0).contains(&patient.seconds),
        "{}",
        patient.seconds
    );
    assert_eq!(threshold(&at_once.results[0]), 4_096);
    assert_eq!(threshold(&patient.results[0]), 4_096);
}

#[test]
fn a_coupling_that_does_not_come_back_does_not_hold_up_the_end() {
    // Loose for a tenth of a second, once.
    let once: Coupling = Arc::new(|now| {
        if (SECOND / 2..SECOND * 6 / 10).contains(&now) {
            LOOSE_NS
        } else {
            CLOSE_NS
        }
    });
    let found = calibrate(None, once, 10 * SECOND, &thresholds());
    assert!(found.seconds < 40.0, "{}", found.seconds);
    assert_eq!(threshold(&found.results[1]), 1_024);
}

#[test]
fn a_machine_that_never_settles_is_measured_all_the_same() {
    let restless = turns(SECOND / 1_000, false);
    let found = calibrate(None, restless, 5 * SECOND, &thresholds());
    for result in &found.results {
        threshold(result);
    }
    assert!(found.seconds < 120.0, "{}", found.seconds);
}
