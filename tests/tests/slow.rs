//! Tests that measure for real. Run with `cargo test --release -p onl-tests --test slow -- --ignored`.

use onl::tuning::journal::{JournalContents, journals};
use onl::tuning::process::{
    Confirmations, KeyResult, Outcome, ProcessError, ProcessRunner, Proposals,
};
use onl::tuning::{
    CacheFolder, CalibrationSettings, Calibrator, Controls, MonotonicClock, SystemEnvironment,
    calibrate_registered_kernels,
};
use onl::{
    CalibrationTarget, CpuExecutionPolicy, Environment, LaneCosts, ProfileSource,
    calibration_targets,
};
use onl_tests::{onl, planted_table};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// The second measurement of a promotion, in this process: the test asks whether decisions are right, not whether
/// processes can be started.
struct Again<'a> {
    calibrator: &'a Calibrator<'a>,
    targets: &'a [&'a dyn CalibrationTarget],
}

impl ProcessRunner for Again<'_> {
    fn confirm(&self, proposals: &Proposals) -> Result<Confirmations, ProcessError> {
        Ok(self
            .calibrator
            .confirm(self.targets, proposals, &mut Controls::default()))
    }
}

fn calibrate_once(seed: u64) -> Vec<KeyResult> {
    let environment = Environment::with_table(planted_table(), ProfileSource::None);
    let resolved = environment
        .resolve(&CpuExecutionPolicy::default())
        .expect("the default policy fits every machine");
    let lease = environment.lease(&resolved).expect("an executor");
    let targets = calibration_targets(&environment, &lease, &resolved, LaneCosts::default());
    let targets: Vec<&dyn CalibrationTarget> = targets.iter().map(AsRef::as_ref).collect();
    let (clock, probe) = (MonotonicClock::new(), SystemEnvironment);
    let settings = CalibrationSettings {
        seed,
        key_budget_ns: 5_000_000_000,
        ..CalibrationSettings::default()
    };
    let calibrator = Calibrator {
        clock: &clock,
        environment: &probe,
        settings,
        execution: resolved.descriptor(),
        build: BTreeMap::new(),
        coupling: None,
        ceilings: None,
    };
    let again = Again {
        calibrator: &calibrator,
        targets: &targets,
    };
    calibrate_registered_kernels(&calibrator, &targets, &again, &mut Controls::default())
}

/// Calibrations that are tried until two have decided every kernel; each takes about a second.
const ATTEMPTS: u64 = 20;

#[test]
#[ignore = "measures for seconds"]
fn planted_defaults_are_promoted_twice_and_a_placebo_never() {
    let mut complete = 0;
    for seed in 1..=ATTEMPTS {
        let results = calibrate_once(seed);
        let promoted = |r: &KeyResult| matches!(r.outcome, Outcome::Promoted { .. });
        let undecided = |r: &KeyResult| {
            matches!(
                r.outcome,
                Outcome::TooNoisy { .. } | Outcome::NotMeasured { .. } | Outcome::Void { .. }
            )
        };
        for result in &results {
            let planted = result.key.kernel != "Placebo";
            assert!(
                promoted(result) == planted || (planted && undecided(result)),
                "calibration {seed}: {} ended as {:?}",
                result.key,
                result.outcome
            );
        }
        complete += u32::from(!results.iter().any(undecided));
        if complete == 2 {
            return;
        }
    }
    panic!(
        "{complete} of {ATTEMPTS} calibrations decided every kernel; try again on a quieter machine"
    );
}

/// Kernels that a calibration from the command line measures here.
const KERNELS: [&str; 8] = [
    "tune-kernels",
    "--apply",
    "--kernel",
    "Abs/f32",
    "--kernel",
    "Log/f32",
    "--kernel",
    "Not",
];

fn start(folder: &Path, more: &[&str]) -> Child {
    onl()
        .env("ONL_TUNING_CACHE", folder)
        .args(KERNELS)
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts")
}

fn journal(folder: &Path) -> Option<JournalContents> {
    let path: PathBuf = journals(&folder.join("evidence")).ok()?.pop()?;
    JournalContents::read(&path).ok()
}

/// Waits until some key is in the journal or the command has ended; gives the number of keys.
fn some_key(child: &mut Child, folder: &Path) -> usize {
    loop {
        let keys = journal(folder).map_or(0, |journal| journal.results.len());
        if keys > 0 || child.try_wait().expect("a child").is_some() {
            return keys;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn ended(child: Child) -> (Option<i32>, String) {
    let output: Output = child.wait_with_output().expect("it ends");
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// The saved choices are those of settled keys, whole, and with evidence.
fn assert_sound(folder: &Path) {
    let cache = CacheFolder::at(folder);
    let report = cache.load();
    assert!(
        report.diagnostics().is_empty(),
        "{:?}",
        report.diagnostics()
    );
    for row in report.choices.rows {
        cache
            .read_evidence(&row.evidence)
            .expect("every choice has evidence");
    }
}

#[test]
#[ignore = "measures for seconds"]
fn a_killed_calibration_is_resumed_without_measuring_anything_twice() {
    for _ in 0..5 {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut child = start(folder.path(), &[]);
        if some_key(&mut child, folder.path()) == 0 {
            // Too noisy to begin.
            continue;
        }
        // On Unix this is SIGKILL.
        child.kill().expect("it can be killed");
        ended(child);
        assert_sound(folder.path());
        let before = journal(folder.path()).expect("a journal");
        if before.complete {
            continue;
        }
        let (code, stderr) = ended(start(folder.path(), &["--resume"]));
        assert!(matches!(code, Some(0 | 1 | 3)), "{code:?}: {stderr}");
        let settled = before.settled();
        let said = format!("{} of 3 kernels were taken over", settled.len());
        assert!(stderr.contains(&said), "{stderr}");
        let after = journal(folder.path()).expect("a journal");
        for result in settled {
            assert!(after.results.contains(&result), "{}", result.key);
        }
        assert_sound(folder.path());
        if after.complete {
            let (code, stderr) = ended(start(folder.path(), &["--resume"]));
            assert_eq!(code, Some(1), "{stderr}");
            assert!(stderr.contains("complete"), "{stderr}");
            return;
        }
    }
    eprintln!("no calibration was decided in five attempts; try again on a quieter machine");
}

#[test]
#[ignore = "measures for seconds"]
fn an_interrupted_calibration_saves_what_it_decided() {
    for _ in 0..5 {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut child = start(folder.path(), &[]);
        if some_key(&mut child, folder.path()) == 0 {
            continue;
        }
        let interrupt = Command::new("kill")
            .args(["-INT", &child.id().to_string()])
            .status();
        assert!(interrupt.is_ok_and(|status| status.success()));
        let (code, stderr) = ended(child);
        assert_sound(folder.path());
        let contents = journal(folder.path()).expect("a journal");
        if contents.complete {
            continue;
        }
        assert_eq!(code, Some(1), "{stderr}");
        assert!(stderr.contains("stopped by the user"), "{stderr}");
        let rows = CacheFolder::at(folder.path()).load().choices.rows;
        for result in contents.results {
            let decided = matches!(
                result.outcome,
                Outcome::Promoted { .. } | Outcome::DefaultConfirmed { .. }
            );
            assert_eq!(rows.iter().any(|row| row.key == result.key), decided);
        }
        return;
    }
}

#[test]
#[ignore = "measures for seconds"]
fn a_tiny_budget_saves_nothing_half_decided() {
    for budget in ["0.001", "0.05", "0.4"] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (code, stderr) = ended(start(
            folder.path(),
            &["--budget", budget, "--memory", "64"],
        ));
        assert!(matches!(code, Some(0 | 3)), "{code:?}: {stderr}");
        assert_sound(folder.path());
        let rows = CacheFolder::at(folder.path()).load().choices.rows;
        let settled = journal(folder.path()).map_or(0, |journal| journal.settled().len());
        assert!(rows.len() <= settled, "{} of {settled}", rows.len());
    }
}

#[test]
#[ignore = "measures for seconds"]
fn a_check_of_promoted_rows_changes_nothing_in_the_folder() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (_, stderr) = ended(start(folder.path(), &[]));
    let bytes = || {
        let mut files: Vec<(PathBuf, Vec<u8>)> = [folder.path(), &folder.path().join("evidence")]
            .iter()
            .flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten())
            .filter(|entry| entry.path().is_file())
            .map(|entry| (entry.path(), fs::read(entry.path()).expect("readable")))
            .collect();
        files.sort();
        files
    };
    let before = bytes();
    let output = onl()
        .env("ONL_TUNING_CACHE", folder.path())
        .args(["kernel-baseline", "--check", "--json"])
        .output()
        .expect("the command starts");
    assert!(
        matches!(output.status.code(), Some(0 | 3)),
        "{stderr}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["kind"], "drift");
    assert_eq!(bytes(), before);
}
