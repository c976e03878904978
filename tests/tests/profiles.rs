//! Saved profiles: what a fresh process resolves from them, and what it does with those it cannot use.

use onl::tuning::process::{KeyResult, Outcome};
use onl::tuning::{CacheFolder, RatioInterval, update_kernel_tuning_cache};
use onl::{
    CpuExecutionPolicy, Environment, KernelKey, KernelTable, ProfileSource, Session,
    TuningSnapshot, current_execution_descriptor,
};
use onl_cpu::fixtures::Machine;
use onl_kernels::Coverage;
use onl_runtime::{RuntimeSession, SessionOptions};
use onl_snapshot::SizeDomain;
use onl_tensor::ElementType;
use onl_tests::{ModelBuilder, onl, run};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Kernels that calibration must cover, with their element types.
const CALIBRATED: [(&str, usize); 7] = [
    ("Abs", 8),
    ("Add", 12),
    ("Not", 1),
    ("Gemm", 4),
    ("Log", 4),
    ("Sigmoid", 4),
    ("Tanh", 4),
];

fn calibratable_keys() -> Vec<KernelKey> {
    let mut keys = Vec::new();
    for entry in KernelTable::builtin().entries() {
        if matches!(entry.coverage, Coverage::Calibratable { .. }) {
            keys.extend(entry.element_types.iter().map(|&t| entry.key(t)));
        }
    }
    keys.sort();
    keys.dedup();
    keys
}

/// Saves a row for every calibratable key, as a calibration would.
fn save_all(folder: &Path) {
    let environment = Environment::new(ProfileSource::None);
    let execution = current_execution_descriptor(&environment, &CpuExecutionPolicy::default())
        .expect("a policy");
    let results: Vec<KeyResult> = calibratable_keys()
        .into_iter()
        .map(|key| {
            let values = environment.schema(&key).expect("registered").defaults();
            let ratio = RatioInterval {
                estimate: 0.9,
                lower: 0.88,
                upper: 0.92,
                confidence: 0.99,
            };
            let outcome = Outcome::Promoted {
                values,
                domain: SizeDomain::ALL,
                ratio,
                rounds: 20,
            };
            KeyResult {
                key,
                outcome,
                evidence: Vec::new(),
            }
        })
        .collect();
    update_kernel_tuning_cache(&CacheFolder::at(folder), &execution, &results, None)
        .expect("a writable folder");
}

struct Shown {
    sources: BTreeMap<String, String>,
    stderr: String,
}

/// What a fresh process shows.
fn show(folder: &Path, arguments: &[&str]) -> Shown {
    let output = onl()
        .env("ONL_TUNING_CACHE", folder)
        .args(["tuning", "show", "--json"])
        .args(arguments)
        .output()
        .expect("the command starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let sources = document["kernels"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|k| {
            (
                k["key"].as_str().unwrap_or("").to_owned(),
                k["source"].as_str().unwrap_or("").to_owned(),
            )
        })
        .collect();
    Shown {
        sources,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn exact(shown: &Shown) -> usize {
    shown
        .sources
        .values()
        .filter(|s| *s == "exact_execution")
        .count()
}

#[test]
fn a_fresh_process_resolves_every_saved_key() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    save_all(folder.path());
    let shown = show(folder.path(), &[]);
    let keys = calibratable_keys();
    assert_eq!(exact(&shown), keys.len(), "{:?}", shown.sources);
    for (kernel, least) in CALIBRATED {
        let found = keys.iter().filter(|k| k.kernel == kernel).count();
        assert!(
            found >= least,
            "{kernel} has {found} calibratable element types, {least} are wanted"
        );
    }
    assert!(
        !shown.stderr.contains("incompatible") && !shown.stderr.contains("invalid"),
        "{}",
        shown.stderr
    );
    let loaded = Environment::new(ProfileSource::Folder(folder.path().to_owned()));
    let resolved = loaded
        .resolve(&CpuExecutionPolicy::default())
        .expect("a policy");
    let outcome = loaded
        .load_profiles(&resolved)
        .expect("a sound registry")
        .expect("a folder");
    assert_eq!(
        (
            outcome.incompatible.len(),
            outcome.invalid.len(),
            outcome.stale.len()
        ),
        (0, 0, 0)
    );
}

#[test]
fn another_thread_count_and_a_deleted_cache_resolve_defaults() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    save_all(folder.path());
    assert_eq!(exact(&show(folder.path(), &["--threads", "5"])), 0);
    std::fs::remove_dir_all(folder.path()).expect("the folder can be deleted");
    let shown = show(folder.path(), &["Abs"]);
    assert!(shown.sources.len() >= 8);
    assert!(
        shown.sources.values().all(|s| s == "portable_default"),
        "{:?}",
        shown.sources
    );
}

#[test]
fn one_broken_row_loses_that_row_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    save_all(folder.path());
    let path = folder.path().join("choices.toml");
    let text = std::fs::read_to_string(&path).expect("saved");
    let before = exact(&show(folder.path(), &[]));
    let place = text
        .find("parallel.minimum_elements")
        .expect("some row has a threshold");
    let value = place + text[place..].find("= ").expect("a value") + 2;
    let end = value + text[value..].find('\n').expect("a line");
    let broken = format!("{}-5{}", &text[..value], &text[end..]);
    std::fs::write(&path, broken).expect("the folder is writable");
    let shown = show(folder.path(), &[]);
    assert_eq!(exact(&shown), before - 1);
    for word in ["choices.toml", "parallel.minimum_elements", "-5"] {
        assert!(
            shown.stderr.contains(word),
            "'{word}' is not in: {}",
            shown.stderr
        );
    }
}

#[test]
fn saving_and_sessions_use_one_descriptor_on_every_machine() {
    let machines = [
        ("SMT on", Machine::smt()),
        ("SMT off", Machine::smt_off()),
        ("two packages", Machine::two_packages()),
        ("guest", Machine::guest()),
        ("hybrid", Machine::hybrid()),
        ("arm64 server", Machine::arm64_server()),
        ("arm64 mixed", Machine::arm64_mixed()),
        (
            "quota",
            Machine::smt().cgroup_v2("/box", Some(150_000), 100_000),
        ),
        ("cpuset", Machine::smt().cpuset_v2("/box", "0-1")),
    ];
    for (name, machine) in machines {
        let system = machine.system();
        let environment =
            Environment::with_system(KernelTable::builtin(), ProfileSource::None, system);
        let policy = CpuExecutionPolicy::default();
        let saved =
            current_execution_descriptor(&environment, &policy).expect("a default policy fits");
        let resolved = environment.resolve(&policy).expect("a default policy fits");
        let snapshot: TuningSnapshot = environment.snapshot(&resolved).expect("a sound registry");
        assert_eq!(snapshot.descriptor(), Some(&saved), "{}", name);
        if saved.participants > 16 {
            continue;
        }
        let model = ModelBuilder::new(17)
            .input("x", ElementType::Float32, &[2])
            .node("Abs", &["x"], &["y"])
            .output("y", ElementType::Float32)
            .bytes();
        let session = Session::builder()
            .environment(environment)
            .model_bytes(model)
            .build()
            .expect("a sound model");
        assert_eq!(session.policy().descriptor(), saved, "{}", name);
        assert_eq!(session.snapshot().descriptor(), Some(&saved), "{}", name);
    }
}

#[test]
fn path_is_a_function_of_the_environment() {
    let text = run(onl()
        .env("ONL_TUNING_CACHE", "/nowhere/in/particular")
        .args(["tuning", "path"]));
    assert_eq!(text.trim(), "/nowhere/in/particular");
}

#[test]
fn asking_whether_a_folder_is_writable_saves_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cache = CacheFolder::at(folder.path().join("tuning"));
    cache.check_writable().expect("a new folder is writable");
    assert!(!cache.choices_path().exists());
    std::fs::write(folder.path().join("blocked"), b"").expect("the folder is writable");
    let blocked = CacheFolder::at(folder.path().join("blocked"));
    let error = blocked
        .check_writable()
        .expect_err("a file is no folder")
        .to_string();
    assert!(
        error.contains("nothing was saved") && error.contains("blocked"),
        "{error}"
    );
}

#[test]
fn a_session_refuses_a_snapshot_of_another_execution() {
    let environment = Environment::new(ProfileSource::None);
    let resolve = |threads| {
        let policy = CpuExecutionPolicy {
            threads,
            ..CpuExecutionPolicy::default()
        };
        environment.resolve(&policy).expect("a small policy fits")
    };
    let (serial, parallel) = (resolve(1), resolve(2));
    let lease = environment.lease(&parallel).expect("an executor");
    let options = |snapshot: TuningSnapshot| SessionOptions {
        table: Arc::clone(environment.table()),
        snapshot: Arc::new(snapshot),
        executor: Arc::clone(lease.executor()),
        descriptor: parallel.descriptor(),
        tier: onl::IsaTier::detect(),
    };
    let model = ModelBuilder::new(17)
        .input("x", ElementType::Float32, &[2])
        .node("Abs", &["x"], &["y"])
        .output("y", ElementType::Float32)
        .build();
    let own = environment.snapshot(&parallel).expect("a sound registry");
    assert!(RuntimeSession::new(&model, options(own)).is_ok());
    let foreign = environment.snapshot(&serial).expect("a sound registry");
    let refused = RuntimeSession::new(&model, options(foreign)).err();
    assert_eq!(refused, Some(onl::SessionError::SnapshotMismatch));
}
