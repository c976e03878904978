//! Cases in which other tuners failed their users and that no test beside the code covers; `docs/tuning-cases.md` lists
//! them all.

#[path = "../../crates/onl-tuning/tests/support/mod.rs"]
mod support;

use onl::{
    Affinity, CpuExecutionPolicy, Environment, KernelTable, ProfileSource, WaitMode,
    current_execution_descriptor,
};
use onl_cpu::fixtures::Machine;
use onl_snapshot::{
    CacheState, CalibrationError, CalibrationInstance, CalibrationTarget, Candidate, Digest,
    KernelKey, Parameter, ParameterKind, ParameterRow, ParameterValue, Schema, Search, SizeDomain,
    ValueSource, Workload,
};
use onl_tensor::ElementType;
use onl_tests::{ModelBuilder, onl, run};
use onl_tuning::process::{KeyResult, Outcome};
use onl_tuning::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use support::{ScriptedMachine, TILES, calibrator, execution, key};

/// Candidates that take `ratios[i]` times the default's 40 µs, on a machine whose speed changes by `ramp` over a second.
struct Race {
    machine: Arc<ScriptedMachine>,
    key: KernelKey,
    ratios: Vec<f64>,
    call_ns: f64,
    ramp: f64,
}

impl Race {
    fn new(machine: &Arc<ScriptedMachine>, ratios: &[f64]) -> Self {
        Race {
            machine: Arc::clone(machine),
            key: key("Gemm"),
            ratios: ratios.to_vec(),
            call_ns: 40_000.0,
            ramp: 0.0,
        }
    }

    fn calibrate(&self, seed: u64) -> KeyResult {
        let settings = CalibrationSettings {
            seed,
            ..CalibrationSettings::default()
        };
        let calibrator = calibrator(&self.machine, settings);
        let mut results = calibrator.calibrate_first(&[self], &mut Controls::default());
        assert_eq!(results.len(), 1);
        results.remove(0)
    }
}

struct Arm {
    machine: Arc<ScriptedMachine>,
    index: usize,
    ns: f64,
    ramp: f64,
}

impl CalibrationTarget for Race {
    fn key(&self) -> &KernelKey {
        &self.key
    }

    fn schema(&self) -> &'static Schema {
        &TILES
    }

    fn workloads(&self) -> Vec<Workload> {
        // From its stored form, in which figures that are not known may be left out.
        let workload = serde_json::json!({
            "name": "case", "size": 4096, "memory_bytes": 0, "cache_state": CacheState::OwnWarm,
        });
        vec![serde_json::from_value(workload).expect("a workload")]
    }

    fn search(&self) -> Search {
        let candidate = |i: usize| Candidate {
            name: format!("tile {i}"),
            values: tile(i as i64),
        };
        Search::Candidates((1..=self.ratios.len()).map(candidate).collect())
    }

    fn instance(
        &self,
        _: &Workload,
        values: &ParameterRow,
    ) -> Result<Box<dyn CalibrationInstance>, CalibrationError> {
        let index = values.integer("algorithm.tile_m") as usize;
        let ratio = if index == 0 {
            1.0
        } else {
            self.ratios[index - 1]
        };
        Ok(Box::new(Arm {
            machine: Arc::clone(&self.machine),
            index,
            ns: self.call_ns * ratio,
            ramp: self.ramp,
        }))
    }
}

impl CalibrationInstance for Arm {
    fn restore(&mut self) {}

    fn run(&mut self, times: u32) -> Result<(), CalibrationError> {
        for _ in 0..times {
            let progress = (self.machine.now_ns() as f64 / 1e9).min(1.0);
            self.machine.spend(self.ns * (1.0 + self.ramp * progress));
        }
        Ok(())
    }

    fn output_digest(&mut self) -> Digest {
        Digest([42; 4])
    }

    fn execution_path(&self) -> String {
        format!("tile {}", self.index)
    }
}

fn tile(value: i64) -> ParameterRow {
    let value = ParameterValue::Integer(value);
    TILES.defaults().with("algorithm.tile_m", value)
}

/// The row that an outcome leaves in force.
fn chosen(result: &KeyResult) -> ParameterRow {
    match &result.outcome {
        Outcome::Promoted { values, .. } => values.clone(),
        _ => tile(0),
    }
}

fn registry(schema: &'static Schema) -> TuningRegistry {
    let registry = TuningRegistry::new();
    for kernel in ["Gemm", "Abs"] {
        registry
            .register(key(kernel), schema)
            .expect("a sound schema");
    }
    registry
}

/// Case 2: a key that left an option out mixed the results of two policies.
#[test]
fn options_that_decide_what_is_measured_change_the_identity() {
    let environment = Environment::with_system(
        KernelTable::builtin(),
        ProfileSource::None,
        Machine::smt().system(),
    );
    let default = CpuExecutionPolicy::default;
    let policies = [
        default(),
        CpuExecutionPolicy {
            threads: 1,
            ..default()
        },
        CpuExecutionPolicy {
            threads: 2,
            ..default()
        },
        CpuExecutionPolicy {
            wait: WaitMode::Latency,
            ..default()
        },
        CpuExecutionPolicy {
            wait: WaitMode::Frugal,
            ..default()
        },
        CpuExecutionPolicy {
            affinity: Affinity::PhysicalCores,
            ..default()
        },
        CpuExecutionPolicy {
            affinity: Affinity::PhysicalThenSmt,
            ..default()
        },
    ];
    let mut seen = BTreeMap::new();
    for policy in policies {
        let descriptor = current_execution_descriptor(&environment, &policy).expect("it fits");
        if let Some(other) = seen.insert(execution_id(&descriptor), policy.clone()) {
            panic!("{policy:?} and {other:?} have one identity");
        }
    }
}

/// Cases 7 and 8: hits were measured again, and one more candidate voided all that was known.
#[test]
fn a_decided_key_is_no_longer_missing_whatever_was_decided() {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let folder = CacheFolder::at(temporary.path().join("tuning"));
    let machine = ScriptedMachine::noisy(1, 1.0);
    let faster = Race::new(&machine, &[0.8]);
    let mut equal = Race::new(&machine, &[1.0]);
    equal.key = key("Abs");
    let results = [faster.calibrate(1), equal.calibrate(2)];
    let names: Vec<&str> = results.iter().map(|r| r.outcome.name()).collect();
    assert_eq!(names, ["promoted", "default_confirmed"]);
    let save = || update_kernel_tuning_cache(&folder, &execution(4), &results, None);
    assert!(save().expect("a writable folder").changed);
    let bytes = std::fs::read(folder.choices_path()).expect("saved");

    // A later release: the same schema, with candidates that nothing was told of here.
    let later = registry(&TILES);
    let outcome = load_kernel_tuning_cache(&later, &folder, &execution(4)).expect("a registry");
    assert_eq!(outcome.missing, [], "nothing is left to measure");
    assert!(!save().expect("a writable folder").changed);
    assert_eq!(std::fs::read(folder.choices_path()).expect("saved"), bytes);
}

/// Case 12: a field that was once recorded as unknown made a cache unusable for good.
#[test]
fn a_field_that_could_not_be_read_is_absent_and_heals() {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let folder = CacheFolder::at(temporary.path().join("tuning"));
    let machine = ScriptedMachine::noisy(3, 1.0);
    let results = [Race::new(&machine, &[0.8]).calibrate(3)];
    let mut unreadable = execution(4);
    unreadable.stepping = None;
    let mut readable = unreadable.clone();
    readable.stepping = Some(6);
    let save = |execution| update_kernel_tuning_cache(&folder, execution, &results, None);
    save(&unreadable).expect("a writable folder");
    let text = std::fs::read_to_string(folder.choices_path()).expect("saved");
    assert!(!text.to_lowercase().contains("unknown"), "{text}");

    let fresh = registry(&TILES);
    let outcome = load_kernel_tuning_cache(&fresh, &folder, &readable).expect("a registry");
    assert_eq!(outcome.incompatible[0].reason, "stepping: absent, here 6");
    assert!(
        outcome.missing.contains(&key("Gemm")),
        "it is measured anew"
    );
    save(&readable).expect("a writable folder");
    for here in [&readable, &unreadable] {
        let fresh = registry(&TILES);
        load_kernel_tuning_cache(&fresh, &folder, here).expect("a registry");
        let snapshot = fresh.snapshot(here);
        let row = snapshot.row(&key("Gemm")).expect("registered");
        assert_eq!(row.source, ValueSource::ExactExecution);
    }
}

static PATHS: Schema = Schema {
    parameters: &[Parameter {
        name: "algorithm.path",
        kind: ParameterKind::Choice {
            default: "direct",
            values: &["direct", "packed", "skinny"],
        },
        unit: "",
        meaning: "Scripted.",
    }],
    check: |_| Ok(()),
};

/// As [`PATHS`] in a later release: another order, one more.
static LATER_PATHS: Schema = Schema {
    parameters: &[Parameter {
        name: "algorithm.path",
        kind: ParameterKind::Choice {
            default: "direct",
            values: &["skinny", "tiled", "direct", "packed"],
        },
        unit: "",
        meaning: "Scripted.",
    }],
    check: |_| Ok(()),
};

/// Case 13: a stored position meant another kernel after a rebuild.
#[test]
fn names_outlive_a_new_order_of_the_choices() {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let folder = CacheFolder::at(temporary.path().join("tuning"));
    let values = PATHS.defaults().with(
        "algorithm.path",
        ParameterValue::Choice("packed".to_owned()),
    );
    let results = [KeyResult {
        key: key("Gemm"),
        outcome: Outcome::Promoted {
            values: values.clone(),
            domain: SizeDomain::ALL,
            ratio: RatioInterval {
                estimate: 0.9,
                lower: 0.88,
                upper: 0.92,
                confidence: 0.99,
            },
            rounds: 20,
        },
        evidence: Vec::new(),
    }];
    update_kernel_tuning_cache(&folder, &execution(4), &results, None).expect("a writable folder");
    for schema in [&PATHS, &LATER_PATHS] {
        let fresh = registry(schema);
        load_kernel_tuning_cache(&fresh, &folder, &execution(4)).expect("a registry");
        let snapshot = fresh.snapshot(&execution(4));
        let row = snapshot.row(&key("Gemm")).expect("registered");
        assert_eq!(
            (&row.values, row.source),
            (&values, ValueSource::ExactExecution)
        );
    }
}

/// Case 26: tunings of near ties picked other winners each time.
#[test]
fn two_tunings_of_near_ties_agree() {
    let mut differing = 0;
    for kernel in 0..60_u64 {
        // Gains of 0.08 to 0.9 %, below the margin; every tenth key has one that is well above it.
        let gain = if kernel % 10 == 0 {
            0.08
        } else {
            0.0008 + 0.0082 * kernel as f64 / 60.0
        };
        let tune = |seed: u64| {
            let machine = ScriptedMachine::noisy(seed, 1.0);
            chosen(&Race::new(&machine, &[1.0, 1.0 - gain]).calibrate(seed))
        };
        differing += u32::from(tune(kernel) != tune(1_000 + kernel));
    }
    // At most 5 of 100, the bound that the reports ask for.
    assert!(differing <= 3, "{differing} of 60 keys differ");
}

/// Case 38: hours, then a hang without a word.
#[test]
fn progress_is_told_often_even_of_slow_kernels() {
    let machine = ScriptedMachine::quiet();
    let mut race = Race::new(&machine, &[0.9, 1.1, 2.0]);
    race.call_ns = 100e6;
    let (mut last, mut longest, mut told) = (0, 0, 0);
    let mut progress = |p: &Progress| {
        longest = longest.max(machine.now_ns() - last);
        last = machine.now_ns();
        assert!(p.done <= p.total && !p.step.is_empty());
        assert_eq!(p.key, &key("Gemm"));
        told += 1;
    };
    let calibrator = calibrator(&machine, CalibrationSettings::default());
    let mut controls = Controls {
        progress: Some(&mut progress),
        cancel: None,
        waited_ns: 0,
    };
    calibrator.calibrate_first(&[&race], &mut controls);
    assert!(told >= 5, "{told} reports");
    assert!(longest <= 2_000_000_000, "silent for {longest} ns");
}

/// Cases 44, 55 and 58: arms that were measured one after the other, while the clock changed, were compared.
#[test]
fn a_clock_that_ramps_by_thirty_percent_changes_no_decision() {
    for (name, ratios, expected) in [
        ("a clear gain", &[1.0, 0.9][..], tile(2)),
        ("a gain listed first", &[0.9, 1.0, 1.1], tile(1)),
        ("equal", &[1.0, 1.0], tile(0)),
        ("slower by 2 %", &[1.02], tile(0)),
    ] {
        for ramp in [-0.3, 0.0, 0.3] {
            for seed in 0..5 {
                let machine = ScriptedMachine::noisy(seed, 1.0);
                let mut race = Race::new(&machine, ratios);
                race.ramp = ramp;
                let result = race.calibrate(seed);
                assert_eq!(
                    chosen(&result),
                    expected,
                    "{name}, ramp {ramp}, seed {seed}: {:?}",
                    result.outcome
                );
            }
        }
    }
}

/// Sources of all kernels, or of one, as a fresh process resolves them, and what it wrote to stderr.
fn show(folder: &Path, arguments: &[&str]) -> (Vec<String>, String) {
    let output = onl()
        .env("ONL_TUNING_CACHE", folder)
        .args(["tuning", "show", "--json"])
        .args(arguments)
        .output()
        .expect("the command starts");
    assert!(output.status.success());
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let kernels = document["kernels"].as_array().expect("a list");
    let sources = kernels
        .iter()
        .map(|k| k["source"].as_str().expect("a name").to_owned());
    (
        sources.collect(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// Case 15: warnings that no tuned configuration was found alarmed people who had none to find.
#[test]
fn no_profile_is_no_warning() {
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let folder = scratch.path().join("tuning");
    let model = scratch.path().join("model.onnx");
    let bytes = ModelBuilder::new(17)
        .input("x", ElementType::Float32, &[64])
        .node("Abs", &["x"], &["y"])
        .output("y", ElementType::Float32)
        .bytes();
    std::fs::write(&model, bytes).expect("the folder is writable");
    let output = onl()
        .env("ONL_TUNING_CACHE", &folder)
        .arg("run")
        .arg(&model)
        .output()
        .expect("the command starts");
    let stderr = String::from_utf8_lossy(&output.stderr).to_lowercase();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    for word in ["warning", "missing", "not found", "error"] {
        assert!(!stderr.contains(word), "{stderr}");
    }
    let (sources, _) = show(&folder, &["Abs/f32"]);
    assert_eq!(sources, ["portable_default"]);
}

/// Case 34: caches bled from one investigation into another, and nobody saw what was picked.
#[test]
fn profiles_can_be_switched_off_and_what_is_used_is_shown() {
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let folder = scratch.path().join("tuning");
    let environment = Environment::new(ProfileSource::None);
    let execution = current_execution_descriptor(&environment, &CpuExecutionPolicy::default())
        .expect("a default policy fits");
    let entries = KernelTable::builtin();
    let entry = entries
        .entries()
        .iter()
        .find(|e| e.op_type == "Abs" && e.element_types.contains(&ElementType::Float32))
        .expect("a builtin kernel");
    let key = entry.key(ElementType::Float32);
    let results = [KeyResult {
        outcome: Outcome::DefaultConfirmed {
            values: environment.schema(&key).expect("registered").defaults(),
            domain: SizeDomain::ALL,
            reason: KeepReason::BelowMargin,
            ratio: None,
            rounds: 20,
        },
        key,
        evidence: Vec::new(),
    }];
    update_kernel_tuning_cache(&CacheFolder::at(&folder), &execution, &results, None)
        .expect("a writable folder");
    assert_eq!(show(&folder, &["Abs/f32"]).0, ["exact_execution"]);
    let (sources, _) = show(&folder, &["Abs/f32", "--no-profiles"]);
    assert_eq!(sources, ["portable_default"]);
}

/// Case 42: "days or hours left?"
#[test]
fn the_plan_tells_its_time_before_anything_is_measured() {
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let text = run(onl()
        .env("ONL_TUNING_CACHE", scratch.path().join("tuning"))
        .args([
            "tune-kernels",
            "--kernel",
            "Abs/f32",
            "--budget",
            "7",
            "--json",
        ]));
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let seconds = document
        .as_object()
        .expect("a document")
        .iter()
        .find(|(name, _)| name.contains("seconds"))
        .and_then(|(_, value)| value.as_f64());
    assert!(seconds.is_some_and(|s| s > 0.0 && s <= 7.0), "{text}");
    let kernels = document["kernels"].as_array().expect("a list");
    assert_eq!(kernels.len(), 1);
    assert!(kernels[0]["candidates"].as_u64() > Some(0), "{text}");
    assert_eq!(
        std::fs::read_dir(scratch.path()).map(Iterator::count).ok(),
        Some(0)
    );
}
