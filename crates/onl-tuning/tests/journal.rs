//! Keys one after another: what a calibration keeps when it is stopped, and how it goes on.

mod support;

use onl_snapshot::{
    Candidate, LaneCosts, Parameter, ParameterKind, ParameterValue, Schema, Search,
};
use onl_tuning::decision::DecisionRule;
use onl_tuning::journal::*;
use onl_tuning::process::{Watched, calibrate_keys};
use onl_tuning::*;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use support::*;

/// A kernel whose candidate takes `ratio` times the default's time.
fn target(machine: &Arc<ScriptedMachine>, name: &'static str, ratio: f64) -> ScriptedTarget {
    ScriptedTarget {
        machine: Arc::clone(machine),
        key: key(name),
        schema: &TILES,
        sizes: vec![40_000],
        search: Search::Candidates(vec![Candidate {
            name: "other".to_owned(),
            values: tile(1),
        }]),
        script: Arc::new(move |row, size| {
            let tile = row.integer("algorithm.tile_m");
            let ratio = if tile == 0 { 1.0 } else { ratio };
            behaves(size as f64 * ratio, format!("tile {tile}"))
        }),
        memory_bytes: 0,
        flops: 0,
    }
}

fn targets(machine: &Arc<ScriptedMachine>) -> Vec<ScriptedTarget> {
    [("Abs", 0.5), ("Add", 1.5), ("Gemm", 0.7), ("Not", 0.6)]
        .map(|(name, ratio)| target(machine, name, ratio))
        .into()
}

/// The second process in this one; sees the same machine.
struct Second<'a> {
    calibrator: &'a Calibrator<'a>,
    targets: Vec<&'a dyn CalibrationTarget>,
    asked: Cell<usize>,
}

use onl_snapshot::CalibrationTarget;

impl ProcessRunner for Second<'_> {
    fn confirm(&self, proposals: &Proposals) -> Result<Confirmations, ProcessError> {
        assert_eq!(proposals.proposals.len(), 1, "every key is confirmed alone");
        self.asked.set(self.asked.get() + 1);
        let controls = &mut Controls::default();
        Ok(self.calibrator.confirm(&self.targets, proposals, controls))
    }
}

fn setup(calibrator: &Calibrator, targets: &[ScriptedTarget]) -> JournalSetup {
    JournalSetup {
        execution: calibrator.execution.clone(),
        build: calibrator.build.clone(),
        settings: calibrator.settings.clone(),
        selection: vec!["--element-type f32".to_owned()],
        keys: targets.iter().map(|t| t.key.clone()).collect(),
        lane_costs: LaneCosts::default(),
        lane_costs_measured: false,
    }
}

/// Calibrates and journals; `stop_after` results the journal's owner is gone, as when the process is killed.
fn calibrate(
    machine: &Arc<ScriptedMachine>,
    targets: &[ScriptedTarget],
    journal: &mut Journal,
    stop_after: usize,
) -> Result<Vec<KeyResult>, String> {
    let calibrator = calibrator(machine, CalibrationSettings::default());
    let targets: Vec<&dyn CalibrationTarget> = targets.iter().map(|t| t as _).collect();
    let second = Second {
        calibrator: &calibrator,
        targets: targets.clone(),
        asked: Cell::new(0),
    };
    let mut seen = 0;
    calibrate_keys(
        &calibrator,
        &targets,
        &second,
        &mut Controls::default(),
        &mut |result| {
            if seen == stop_after {
                return Err("killed".to_owned());
            }
            seen += 1;
            journal.key(result).map_err(|e| e.to_string())
        },
    )
}

fn names(results: &[KeyResult]) -> Vec<&str> {
    results.iter().map(|r| r.key.kernel.as_ref()).collect()
}

fn found(folder: &Path, setup: &JournalSetup) -> (Option<JournalContents>, Vec<String>) {
    JournalContents::interrupted(folder, setup).expect("a readable folder")
}

#[test]
fn a_killed_calibration_loses_the_key_in_flight_and_goes_on_with_the_rest() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let machine = ScriptedMachine::quiet();
    let targets = targets(&machine);
    let calibrator = calibrator(&machine, CalibrationSettings::default());
    let setup = setup(&calibrator, &targets);
    let mut journal = Journal::begin(folder.path(), &setup).expect("a writable folder");
    let path = journal.path().to_owned();
    assert_eq!(
        calibrate(&machine, &targets, &mut journal, 2),
        Err("killed".to_owned())
    );
    assert!(
        matches!(Journal::resume(&path), Err(JournalError::InUse { .. })),
        "the writer still lives"
    );
    drop(journal);
    // The kill left half of the third line.
    let mut bytes = fs::read(&path).expect("a journal");
    bytes.extend_from_slice(b"{\"key\":{\"result\":{\"key\":{\"libr");
    fs::write(&path, &bytes).expect("a writable folder");

    let (interrupted, _) = found(folder.path(), &setup);
    let contents = interrupted.expect("an interrupted journal");
    assert_eq!((contents.complete, contents.damaged), (false, 1));
    let settled = contents.settled();
    assert_eq!(names(&settled), ["Abs", "Add"]);
    assert!(matches!(settled[0].outcome, Outcome::Promoted { .. }));
    assert_eq!(settled[0].evidence.len(), 2, "both processes are kept");

    let (mut journal, contents) = Journal::resume(&path).expect("nobody writes it");
    let calls = machine.calls.load(Ordering::Relaxed);
    let rest = &targets[contents.settled().len()..];
    let results = calibrate(&machine, rest, &mut journal, usize::MAX).expect("nothing stops it");
    assert!(machine.calls.load(Ordering::Relaxed) > calls);
    assert_eq!(names(&results), ["Gemm", "Not"]);
    journal.end(0).expect("a writable folder");
    assert!(
        fs::read(&path).expect("a journal").starts_with(&bytes),
        "only appended to"
    );

    let (none, notes) = found(folder.path(), &setup);
    assert_eq!(none, None);
    assert!(notes[0].contains("complete"), "{notes:?}");
    // A newer one that got nowhere can be resumed, and one with results before it is better.
    let begin = || Journal::begin(folder.path(), &setup).expect("a writable folder");
    let nowhere = begin().path().to_owned();
    assert_eq!(found(folder.path(), &setup).0.expect("one").path, nowhere);
    let mut second = begin();
    second.key(&results[0]).expect("a writable folder");
    let third = begin();
    let best = found(folder.path(), &setup).0.expect("one").path;
    assert_eq!(best, second.path());
    third.discard().expect("a writable folder");
    let contents = JournalContents::read(&path).expect("a journal");
    assert!(contents.complete);
    assert_eq!(names(&contents.results), ["Abs", "Add", "Gemm", "Not"]);
}

#[test]
fn a_resumed_key_is_decided_as_in_a_run_without_interruption() {
    let whole = tempfile::tempdir().expect("a temporary folder");
    let machine = ScriptedMachine::quiet();
    let all = targets(&machine);
    let setup = setup(&calibrator(&machine, CalibrationSettings::default()), &all);
    let mut journal = Journal::begin(whole.path(), &setup).expect("a writable folder");
    let at_once = calibrate(&machine, &all, &mut journal, usize::MAX).expect("no stop");
    let mut parts = calibrate(&machine, &all[..1], &mut journal, usize::MAX).expect("no stop");
    parts.extend(calibrate(&machine, &all[1..], &mut journal, usize::MAX).expect("no stop"));
    let outcomes = |results: &[KeyResult]| {
        results
            .iter()
            .map(|r| (r.key.clone(), r.outcome.name()))
            .collect::<Vec<_>>()
    };
    assert_eq!(outcomes(&at_once), outcomes(&parts));
}

#[test]
fn another_setup_is_not_resumed_and_the_reason_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let machine = ScriptedMachine::quiet();
    let targets = targets(&machine);
    let calibrator = calibrator(&machine, CalibrationSettings::default());
    let own = setup(&calibrator, &targets);
    assert_eq!(found(&folder.path().join("none"), &own), (None, vec![]));
    drop(Journal::begin(folder.path(), &own).expect("a writable folder"));

    let mut budget = own.clone();
    budget.settings.total_budget_ns = Some(1);
    budget.keys.pop();
    assert!(found(folder.path(), &budget).0.is_some(), "time may differ");

    let mut execution = own.clone();
    execution.execution.participants = 2;
    let mut build = own.clone();
    build.build.insert("version".to_owned(), "other".to_owned());
    let mut settings = own.clone();
    settings.settings.memory_bytes /= 2;
    let mut selection = own.clone();
    selection.selection.clear();
    for (name, word, setup) in [
        ("execution", "execution identity", execution),
        ("build", "build", build),
        ("settings", "settings", settings),
        ("selection", "kernels", selection),
    ] {
        let (none, notes) = found(folder.path(), &setup);
        assert!(none.is_none(), "{name}");
        assert!(notes[0].contains(word), "{name}: {notes:?}");
    }
    fs::write(folder.path().join("000009-x.journal"), b"no journal\n").expect("writable");
    let (some, notes) = found(folder.path(), &own);
    assert!(some.is_some() && notes[0].contains("000009"), "{notes:?}");
}

#[test]
fn any_damage_to_a_journal_is_an_error_or_fewer_results_and_never_a_panic() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let machine = ScriptedMachine::quiet();
    let targets = &targets(&machine)[1..2];
    let setup = setup(
        &calibrator(&machine, CalibrationSettings::default()),
        targets,
    );
    let mut journal = Journal::begin(folder.path(), &setup).expect("a writable folder");
    calibrate(&machine, targets, &mut journal, usize::MAX).expect("no stop");
    let path = journal.path().to_owned();
    drop(journal);
    let bytes = fs::read(&path).expect("a journal");
    for cut in (0..bytes.len()).step_by(bytes.len() / 97) {
        if let Ok(contents) = JournalContents::parse(&path, &bytes[..cut]) {
            assert!(
                contents.results.len() <= 1 && !contents.complete,
                "cut at {cut}"
            );
        }
        let mut flipped = bytes.clone();
        flipped[cut] ^= 0x20;
        if let Ok(contents) = JournalContents::parse(&path, &flipped) {
            assert!(contents.results.len() <= 1, "flipped at {cut}");
        }
    }
}

#[test]
fn a_stop_keeps_what_was_decided_and_measures_nothing_more() {
    let machine = ScriptedMachine::quiet();
    let targets = targets(&machine);
    let targets: Vec<&dyn CalibrationTarget> = targets.iter().map(|t| t as _).collect();
    let calibrator = calibrator(&machine, CalibrationSettings::default());
    let second = Second {
        calibrator: &calibrator,
        targets: targets.clone(),
        asked: Cell::new(0),
    };
    let cancel = AtomicBool::new(false);
    let calls_at_stop = Cell::new(0);
    let mut finished = 0;
    let results = calibrate_keys(
        &calibrator,
        &targets,
        &second,
        &mut Controls {
            progress: None,
            cancel: Some(&cancel),
            waited_ns: 0,
        },
        &mut |_| {
            finished += 1;
            if finished == 2 {
                cancel.store(true, Ordering::SeqCst);
                calls_at_stop.set(machine.calls.load(Ordering::Relaxed));
            }
            Ok::<(), Infallible>(())
        },
    )
    .unwrap_or_else(|never| match never {});
    let outcomes: Vec<&str> = results.iter().map(|r| r.outcome.name()).collect();
    assert_eq!(
        outcomes,
        [
            "promoted",
            "default_confirmed",
            "not_measured",
            "not_measured"
        ]
    );
    assert_eq!(machine.calls.load(Ordering::Relaxed), calls_at_stop.get());
    assert_eq!(second.asked.get(), 1);
}

#[test]
fn all_keys_together_keep_the_budget_to_one_sample() {
    for budget_ns in [0, 1_000_000, 30_000_000, 90_000_000, 400_000_000] {
        let machine = ScriptedMachine::quiet();
        let targets = targets(&machine);
        let targets: Vec<&dyn CalibrationTarget> = targets.iter().map(|t| t as _).collect();
        let settings = CalibrationSettings {
            total_budget_ns: Some(budget_ns),
            ..CalibrationSettings::default()
        };
        let calibrator = calibrator(&machine, settings.clone());
        struct WithinBudget<'a>(&'a ScriptedMachine, u64, &'a [&'a dyn CalibrationTarget]);
        impl ProcessRunner for WithinBudget<'_> {
            fn confirm(&self, proposals: &Proposals) -> Result<Confirmations, ProcessError> {
                let settings = CalibrationSettings {
                    total_budget_ns: Some(self.1.saturating_sub(self.0.now_ns())),
                    ..CalibrationSettings::default()
                };
                let calibrator = support::calibrator(self.0, settings);
                Ok(calibrator.confirm(self.2, proposals, &mut Controls::default()))
            }
        }
        let second = WithinBudget(&machine, budget_ns, &targets);
        let left = RefCell::new(Vec::new());
        let mut progress = |p: &Progress| {
            assert!(p.elapsed_ns + p.remaining_ns <= budget_ns.max(p.elapsed_ns));
            assert_eq!(p.total, 4);
            left.borrow_mut().push((p.done, p.remaining_ns));
        };
        let results = calibrate_keys(
            &calibrator,
            &targets,
            &second,
            &mut Controls {
                progress: Some(&mut progress),
                cancel: None,
                waited_ns: 0,
            },
            &mut |_| Ok::<(), Infallible>(()),
        )
        .unwrap_or_else(|never| match never {});
        // A sample is a restore, at most a few untimed calls, and the timed batch.
        let sample_ns = settings.sample_ns * 2;
        let spent = machine.now_ns();
        assert!(spent <= budget_ns + sample_ns, "{spent} of {budget_ns} ns");
        assert_eq!(results.len(), 4);
        for result in &results {
            assert!(
                result.evidence.iter().all(|e| e.settings == settings),
                "evidence holds the settings of the whole calibration"
            );
        }
        if budget_ns >= 400_000_000 {
            assert!(results.iter().all(|r| settles(&r.outcome)), "{results:?}");
            let left = left.borrow();
            let first = left.iter().find(|(done, _)| *done == 1).expect("progress");
            let last = left.last().expect("progress");
            assert!(last.1 < first.1, "the time left falls: {first:?}, {last:?}");
        } else if budget_ns == 0 {
            assert!(results.iter().all(|r| !settles(&r.outcome)));
        }
    }
}

#[test]
fn a_machine_that_is_too_noisy_is_asked_once_and_no_key_is_measured() {
    struct Busy(Cell<u64>, Cell<u32>);
    impl EnvironmentProbe for Busy {
        fn observe(&self) -> Environment {
            self.0.set(self.0.get() + 100);
            Environment {
                idle_ticks: Reading::Value(7),
                total_ticks: Reading::Value(self.0.get()),
                ..Environment::UNKNOWN
            }
        }
        fn pause(&self, _: std::time::Duration) {
            self.1.set(self.1.get() + 1);
        }
    }
    let machine = ScriptedMachine::quiet();
    let targets = targets(&machine);
    let targets: Vec<&dyn CalibrationTarget> = targets.iter().map(|t| t as _).collect();
    let busy = Busy(Cell::new(0), Cell::new(0));
    let calibrator = Calibrator {
        environment: &busy,
        ..calibrator(&machine, CalibrationSettings::default())
    };
    let second = Second {
        calibrator: &calibrator,
        targets: targets.clone(),
        asked: Cell::new(0),
    };
    let results =
        calibrate_registered_kernels(&calibrator, &targets, &second, &mut Controls::default());
    assert_eq!(results.len(), 4);
    for result in &results {
        assert_eq!(result.outcome.name(), "too_noisy");
    }
    assert_eq!(
        (busy.1.get(), machine.calls.load(Ordering::Relaxed)),
        (1, 0)
    );

    // A machine that was watched a moment ago is not judged by the instant between two looks.
    let watched = Watched::new(&busy);
    let before = watched.observe();
    watched.watch(std::time::Duration::from_secs(9));
    assert_eq!(watched.observe(), before);
    assert_ne!(watched.observe(), before);
}

#[test]
fn expected_false_promotions_are_those_of_two_processes() {
    let rule = DecisionRule::default();
    let expected = rule.expected_false_promotions(41);
    assert!((expected - 0.0041).abs() < 1e-12, "{expected}");
    assert_eq!(rule.expected_false_promotions(0), 0.0);
}

#[test]
fn what_is_journaled_survives_as_json_to_the_bit() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let machine = ScriptedMachine::noisy(5, 1.0);
    let targets = targets(&machine);
    let mut setup = setup(
        &calibrator(&machine, CalibrationSettings::default()),
        &targets,
    );
    setup.build = BTreeMap::from([("version".to_owned(), "1".to_owned())]);
    let mut journal = Journal::begin(folder.path(), &setup).expect("a writable folder");
    let results = calibrate(&machine, &targets, &mut journal, usize::MAX).expect("no stop");
    let contents = JournalContents::read(journal.path()).expect("a journal");
    assert_eq!(contents.setup, setup);
    assert_eq!(contents.results, results);
    for result in &contents.results {
        for evidence in &result.evidence {
            assert!(replay(evidence, None, None).expect("sound").agrees);
        }
    }
}

static THRESHOLD: Schema = Schema {
    parameters: &[Parameter {
        name: "parallel.minimum_elements",
        kind: ParameterKind::Integer {
            default: 50,
            minimum: 0,
            maximum: i64::MAX,
        },
        unit: "elements",
        meaning: "Scripted.",
    }],
    check: |_| Ok(()),
};

#[test]
fn a_search_for_a_threshold_survives_the_journal_too() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let machine = ScriptedMachine::noisy(3, 1.0);
    let name = "parallel.minimum_elements";
    let row = |value: i64| {
        THRESHOLD
            .defaults()
            .with(name, ParameterValue::Integer(value))
    };
    let mut threshold = target(&machine, "Abs", 1.0);
    threshold.schema = &THRESHOLD;
    threshold.sizes = vec![1_000, 8_000, 64_000, 512_000];
    threshold.search = Search::Crossover {
        parameter: name,
        below: row(i64::MAX),
        above: row(0),
        grid: vec![1_000, 8_000, 64_000, 512_000, i64::MAX],
    };
    threshold.script = Arc::new(|row, size| {
        if size >= row.integer("parallel.minimum_elements") as u64 {
            behaves(20_000.0 + 0.4 * size as f64, "above")
        } else {
            behaves(size as f64, "below")
        }
    });
    let targets = [threshold];
    let setup = setup(
        &calibrator(&machine, CalibrationSettings::default()),
        &targets,
    );
    let mut journal = Journal::begin(folder.path(), &setup).expect("a writable folder");
    let results = calibrate(&machine, &targets, &mut journal, usize::MAX).expect("no stop");
    let contents = JournalContents::read(journal.path()).expect("a journal");
    assert_eq!(contents.damaged, 0);
    assert_eq!(contents.results, results);
    assert!(
        replay(&results[0].evidence[0], None, None)
            .expect("sound")
            .agrees
    );
}
