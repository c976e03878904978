//! Calibration from the command line: plans, refusals, and what stored evidence tells. What is measured here is measured
//! under a scripted clock; real measurements are in the slow suite.

use onl::tuning::decision::Verdict;
use onl::tuning::journal::{Journal, JournalContents, JournalSetup};
use onl::tuning::process::{KeyResult, Outcome};
use onl::tuning::{
    CacheFolder, CalibrationSettings, Calibrator, Clock, Controls, EvidenceRecord, KeyEvidence,
    SystemEnvironment, evidence, update_kernel_tuning_cache,
};
use onl::{
    CalibrationTarget, CpuExecutionPolicy, Environment, KernelKey, LaneCosts, ParameterValue,
    ProfileSource, calibration_targets,
};
use onl_snapshot::SizeDomain;
use onl_tensor::ElementType;
use onl_tests::{ModelBuilder, onl};
use serde_json::Value;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use tempfile::TempDir;

/// A clock on which every look takes a tenth of a millisecond, so that no real time decides anything. The first looks take
/// a nanosecond: a calibrator that finds its clock coarse makes samples longer.
struct Looks(Cell<u64>);

impl Clock for Looks {
    fn now_ns(&self) -> u64 {
        const FINE_LOOKS: u64 = 900;
        let now = self.0.get();
        self.0.set(now + if now < FINE_LOOKS { 1 } else { 100_000 });
        self.0.get()
    }
}

/// Measures kernels of the default policy under the scripted clock.
fn measured(kernel: &str) -> Vec<KeyResult> {
    let environment = Environment::new(ProfileSource::None);
    let resolved = environment
        .resolve(&CpuExecutionPolicy::default())
        .expect("the default policy fits every machine");
    let lease = environment.lease(&resolved).expect("an executor");
    let targets = calibration_targets(&environment, &lease, &resolved, LaneCosts::default());
    let targets: Vec<&dyn CalibrationTarget> = targets
        .iter()
        .map(AsRef::as_ref)
        .filter(|t| t.key().matches(kernel))
        .collect();
    assert!(!targets.is_empty(), "{kernel} can be calibrated");
    let clock = Looks(Cell::new(0));
    let calibrator = Calibrator {
        clock: &clock,
        environment: &SystemEnvironment,
        settings: CalibrationSettings {
            memory_bytes: 3 << 20,
            key_budget_ns: u64::MAX / 4,
            limits: onl::tuning::EnvironmentLimits {
                others: 2.0,
                steal: 2.0,
                steal_minimum_ticks: u64::MAX,
            },
            ..CalibrationSettings::default()
        },
        execution: resolved.descriptor(),
        build: BTreeMap::new(),
        coupling: None,
        ceilings: None,
    };
    let mut results = calibrator.calibrate_first(&targets, &mut Controls::default());
    for result in &mut results {
        // What won is confirmed in the second process by the same samples.
        if let [first] = result.evidence.as_slice()
            && matches!(result.outcome, Outcome::Promoted { .. })
        {
            let second = KeyEvidence {
                process: evidence::Process::Second,
                search: evidence::SearchEvidence::Given,
                ..first.clone()
            };
            result.evidence.push(second);
        }
    }
    results
}

/// Makes evidence say that another row takes half the default's time, and decides it anew.
fn promoted(mut evidence: KeyEvidence, row: onl::ParameterRow) -> KeyEvidence {
    evidence.process = evidence::Process::Second;
    evidence.search = evidence::SearchEvidence::Given;
    evidence.chosen = Some(row);
    let pair = |second_ns| onl::tuning::decision::Pair {
        first_ns: 100.0,
        second_ns,
    };
    evidence.samples = onl::tuning::decision::ConfirmationSamples {
        workloads: vec![onl::tuning::decision::WorkloadPairs {
            name: "case".to_owned(),
            size: 4_096,
            pairs: (0..20).map(|i| pair(50.0 + f64::from(i) / 100.0)).collect(),
        }],
        placebo: vec![pair(100.0); 20],
    };
    let decision = evidence.decide(&evidence.settings.rule);
    assert_eq!(decision.verdict, Verdict::Promote);
    evidence.decision = Some(decision);
    evidence
}

/// A folder with choices and a journal, as two calibrations would leave it.
struct Saved {
    folder: TempDir,
    promoted: KernelKey,
    digest: String,
    journal: PathBuf,
}

fn saved() -> Saved {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cache = CacheFolder::at(folder.path());
    let environment = Environment::new(ProfileSource::None);
    let mut results = measured("Not");
    let first = results[0].evidence[0].clone();
    let execution = first.execution.clone();
    let key = first.key.clone();
    let defaults = environment.schema(&key).expect("registered").defaults();
    let row = defaults.with("parallel.minimum_elements", ParameterValue::Integer(4_096));
    let evidence = promoted(first, row.clone());
    let decision = evidence.decision.clone().expect("decided");
    results[0] = KeyResult {
        key: key.clone(),
        outcome: Outcome::Promoted {
            values: row,
            domain: SizeDomain::ALL,
            ratio: decision.ratio.expect("an interval"),
            rounds: decision.rounds,
        },
        evidence: vec![evidence.clone(), evidence],
    };
    update_kernel_tuning_cache(&cache, &execution, &results, None).expect("a writable folder");
    let digest = cache.load().choices.rows[0].evidence.clone();

    let others = measured("Abs/f32");
    let setup = JournalSetup {
        execution,
        build: BTreeMap::new(),
        settings: others[0].evidence[0].settings.clone(),
        selection: Vec::new(),
        keys: vec![others[0].key.clone()],
        lane_costs: LaneCosts::default(),
        lane_costs_measured: false,
    };
    let mut journal = Journal::begin(&folder.path().join("evidence"), &setup).expect("writable");
    journal.key(&others[0]).expect("writable");
    let kept = JournalContents::read(journal.path()).expect("a journal");
    assert_eq!(kept.results, others[..1], "nothing of it is lost");
    Saved {
        journal: journal.path().to_owned(),
        folder,
        promoted: key,
        digest,
    }
}

fn onl_in(folder: &Path, arguments: &[&str]) -> Output {
    onl()
        .env("ONL_TUNING_CACHE", folder)
        .args(arguments)
        .output()
        .expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Output of a command that ends with a code.
fn ends(folder: &Path, code: i32, arguments: &[&str]) -> (String, String) {
    let output = onl_in(folder, arguments);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(
        output.status.code(),
        Some(code),
        "{arguments:?}: {stdout}{stderr}"
    );
    (stdout, stderr)
}

fn json(folder: &Path, code: i32, arguments: &[&str]) -> Value {
    let arguments: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
    serde_json::from_str(&ends(folder, code, &arguments).0).expect("JSON")
}

/// Every file below a folder with its bytes.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).expect("readable").flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.insert(path.clone(), fs::read(path).expect("readable"));
            }
        }
    }
    found
}

#[test]
fn a_debug_build_measures_nothing_and_says_why() {
    if !cfg!(debug_assertions) {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    for more in [&[][..], &["--resume"]] {
        let arguments = [&["tune-kernels", "--apply", "--kernel", "Not"], more].concat();
        let (_, stderr) = ends(folder.path(), 1, &arguments);
        for word in ["debug build", "--release", "nothing was measured"] {
            assert!(stderr.contains(word), "'{word}' is not in: {stderr}");
        }
    }
    assert!(!folder.path().join("choices.toml").exists());
    assert!(!folder.path().join("evidence").exists());

    let saved = saved();
    let before = contents(saved.folder.path());
    let report = saved.folder.path().join("report.json");
    let report = report.to_str().expect("a plain path");
    let check = ["kernel-baseline", "--check", "--output", report];
    let (_, stderr) = ends(saved.folder.path(), 1, &check);
    assert!(stderr.contains("debug build"), "{stderr}");
    assert_eq!(contents(saved.folder.path()), before);
}

#[test]
fn nothing_missing_takes_no_sample() {
    let saved = saved();
    let before = contents(saved.folder.path());
    let arguments = [
        "tune-kernels",
        "--apply",
        "--only-missing",
        "--kernel",
        "Not",
    ];
    let (stdout, _) = ends(saved.folder.path(), 0, &arguments);
    assert!(stdout.contains("0 samples"), "{stdout}");
    assert_eq!(json(saved.folder.path(), 0, &arguments)["samples"], 0);
    let mut after = contents(saved.folder.path());
    after.retain(|path, _| before.contains_key(path));
    assert_eq!(after, before);
    let plan = json(
        saved.folder.path(),
        0,
        &["tune-kernels", "--only-missing", "--kernel", "Not"],
    );
    assert_eq!(plan["kernels"].as_array().map(Vec::len), Some(0));
}

#[test]
fn evidence_explains_decisions_without_measuring() {
    let saved = saved();
    let before = contents(saved.folder.path());
    let (stdout, _) = ends(
        saved.folder.path(),
        0,
        &["tune-kernels", "--explain", "Not"],
    );
    for word in [
        saved.promoted.to_string().as_str(),
        "promoted",
        "alpha 0.01, margin 0.01",
        "placebo",
        "promote after 20 pairs",
        saved.digest.as_str(),
    ] {
        assert!(stdout.contains(word), "'{word}' is not in: {stdout}");
    }
    // What is in a journal only is explained too, with search and lines.
    let document = json(
        saved.folder.path(),
        0,
        &["tune-kernels", "--explain", "Abs/f32"],
    );
    assert_eq!(document["schema"], 1);
    let process = &document["kernels"][0]["processes"][0];
    assert_eq!(process["process"], "first");
    assert!(process["rule"]["alpha"].is_number(), "{process}");
    let (stdout, _) = ends(
        saved.folder.path(),
        0,
        &["tune-kernels", "--explain", "Abs/f32"],
    );
    assert!(stdout.contains("decision: "), "{stdout}");
    let (_, stderr) = ends(
        saved.folder.path(),
        1,
        &["tune-kernels", "--explain", "Add/f32"],
    );
    assert!(stderr.contains("no evidence"), "{stderr}");
    let (_, stderr) = ends(
        saved.folder.path(),
        1,
        &["tune-kernels", "--explain", "Nought"],
    );
    assert!(stderr.contains("no kernel matches"), "{stderr}");
    assert_eq!(contents(saved.folder.path()), before);
}

#[test]
fn a_replay_is_equal_to_the_bit_and_a_changed_file_is_noticed() {
    let saved = saved();
    let file = CacheFolder::at(saved.folder.path()).evidence_path(&saved.digest);
    let file = file.to_str().expect("a plain path");
    let journal = saved.journal.to_str().expect("a plain path");
    for path in [file, journal] {
        let (stdout, _) = ends(saved.folder.path(), 0, &["tune-kernels", "--replay", path]);
        assert!(stdout.contains("all equal to the bit"), "{stdout}");
        let document = json(saved.folder.path(), 0, &["tune-kernels", "--replay", path]);
        assert_eq!(document["equal"], true);
    }
    // Another margin is another question and no failure.
    let strict = ["tune-kernels", "--replay", file, "--margin", "0.9"];
    let document = json(saved.folder.path(), 0, &strict);
    assert_eq!(document["equal"], false);
    assert_eq!(document["kernels"][0]["replayed"], "default_confirmed");
    let (_, stderr) = ends(
        saved.folder.path(),
        1,
        &["tune-kernels", "--replay", file, "--alpha", "7"],
    );
    assert!(stderr.contains("alpha"), "{stderr}");

    let mut record: EvidenceRecord =
        serde_json::from_slice(&fs::read(file).expect("readable")).expect("a record");
    for pair in &mut record.processes[1].samples.workloads[0].pairs {
        pair.second_ns *= 2.0;
    }
    let changed = saved.folder.path().join("changed.json");
    fs::write(&changed, serde_json::to_vec(&record).expect("JSON")).expect("writable");
    let changed = changed.to_str().expect("a plain path");
    let (stdout, _) = ends(
        saved.folder.path(),
        1,
        &["tune-kernels", "--replay", changed],
    );
    assert!(stdout.contains("1 of 2 decisions differ"), "{stdout}");
    for (name, bytes) in [
        ("empty", &b""[..]),
        ("text", b"nonsense\n"),
        ("json", b"{}\n"),
    ] {
        let path = saved.folder.path().join(name);
        fs::write(&path, bytes).expect("writable");
        let path = path.to_str().expect("a plain path");
        let (_, stderr) = ends(saved.folder.path(), 1, &["tune-kernels", "--replay", path]);
        assert!(stderr.contains("neither"), "{name}: {stderr}");
    }
}

#[test]
fn the_plan_tells_what_kernels_are_worth_to_a_model() {
    let saved = saved();
    let folder = saved.folder.path();
    let model = ModelBuilder::new(17)
        .input("x", ElementType::Float32, &[64, 64])
        .node("Abs", &["x"], &["a"])
        .node("Abs", &["a"], &["b"])
        .node("Add", &["a", "b"], &["y"])
        .output("y", ElementType::Float32)
        .bytes();
    let path = folder.join("model.onnx");
    fs::write(&path, model).expect("writable");
    let path = path.to_str().expect("a plain path");
    let document = json(folder, 0, &["tune-kernels", "--model", path]);
    let kernels = document["kernels"].as_array().expect("a list");
    let line = |key: &str| {
        let found = kernels.iter().find(|k| {
            let name = k["key"].as_str().unwrap_or_default();
            name.contains(&format!("/{key}/")) && name.ends_with("/f32")
        });
        found.unwrap_or_else(|| panic!("{key} is not in {document}"))
    };
    assert_eq!(line("Abs")["uses"]["nodes"], 2);
    assert_eq!(line("Abs")["uses"]["calls"], 2.0);
    assert!(line("Abs")["uses"]["ns"].as_f64() > Some(0.0));
    assert_eq!(line("Add")["uses"]["nodes"], 1);
    assert!(line("Add")["worth"]["basis"].is_string());
    assert!(line("Gemm")["uses"].is_null(), "the model has none");
    let share = document["model"]["share"].as_f64().expect("a share");
    assert!(share > 0.0 && share <= 1.0, "{share}");
    let (stdout, _) = ends(folder, 0, &["tune-kernels", "--model", path]);
    for word in ["worth per run", "a run takes", "do not run in this model"] {
        assert!(stdout.contains(word), "'{word}' is not in: {stdout}");
    }
    let plan = json(folder, 0, &["tune-kernels", "--kernel", "Not"]);
    assert_eq!(plan["kernels"][0]["saved"], true);
    assert!(plan["kernels"][0]["candidates"].as_u64() > Some(0));
    assert!(plan["seconds_at_most"].as_f64() > Some(0.0));
    let (_, stderr) = ends(folder, 1, &["tune-kernels", "--model", "/nowhere.onnx"]);
    assert!(stderr.contains("nowhere.onnx"), "{stderr}");
}

#[test]
fn a_check_without_promoted_rows_measures_nothing_and_reports_so() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = tempfile::tempdir().expect("a temporary folder");
    let report = output.path().join("report.json");
    let report_path = report.to_str().expect("a plain path");
    let arguments = ["kernel-baseline", "--check", "--output", report_path];
    let (stdout, _) = ends(folder.path(), 0, &arguments);
    assert!(stdout.contains("0 samples"), "{stdout}");
    let document: Value =
        serde_json::from_slice(&fs::read(report).expect("written")).expect("JSON");
    assert_eq!(
        (&document["schema"], &document["kind"]),
        (&1.into(), &"drift".into())
    );
    assert!(document["execution"]["participants"].is_u64());
    assert_eq!(document["kernels"].as_array().map(Vec::len), Some(0));
    assert!(contents(folder.path()).is_empty(), "it changes nothing");
}

#[test]
fn options_that_do_not_go_together_are_refused_as_usage() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for arguments in [
        &["tune-kernels", "--resume"][..],
        &["tune-kernels", "--alpha", "0.01"],
        &["tune-kernels", "--margin", "0.01"],
        &["tune-kernels", "--apply", "--explain", "Abs"],
        &["tune-kernels", "--apply", "--replay", "x"],
        &["tune-kernels", "--apply", "--model", "x"],
        &["tune-kernels", "--apply", "--budget", "0"],
        &["tune-kernels", "--apply", "--budget", "-1"],
        &["tune-kernels", "--apply", "--budget", "NaN"],
        &["tune-kernels", "--memory", "0"],
        &["kernel-baseline", "--check", "--op", "Abs"],
    ] {
        ends(folder.path(), 2, arguments);
    }
    assert!(contents(folder.path()).is_empty());
}
