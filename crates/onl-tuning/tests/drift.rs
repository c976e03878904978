//! Drift of promoted rows, on a scripted machine.

mod support;

use onl_snapshot::{CalibrationTarget, Search};
use onl_tuning::decision::{ConfirmationSamples, Pair, WorkloadPairs};
use onl_tuning::drift::*;
use onl_tuning::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use support::*;

/// A kernel whose saved row takes `small` and `large` times the default's time on two sizes; equal paths when both are 1.
fn target(
    machine: &Arc<ScriptedMachine>,
    name: &'static str,
    small: f64,
    large: f64,
) -> ScriptedTarget {
    ScriptedTarget {
        machine: Arc::clone(machine),
        key: key(name),
        schema: &TILES,
        sizes: vec![40_000, 400_000],
        search: Search::Candidates(Vec::new()),
        script: Arc::new(move |row, size| {
            let tile = row.integer("algorithm.tile_m");
            let ratio = match (tile, size) {
                (0, _) => 1.0,
                (_, 40_000) => small,
                _ => large,
            };
            let same = small == 1.0 && large == 1.0;
            behaves(
                size as f64 * ratio,
                if same {
                    "same".to_owned()
                } else {
                    format!("tile {tile}")
                },
            )
        }),
        memory_bytes: 0,
        flops: 0,
    }
}

fn rows(targets: &[ScriptedTarget]) -> Vec<Proposal> {
    targets
        .iter()
        .map(|t| Proposal {
            key: t.key.clone(),
            values: tile(1),
            level_ns: None,
        })
        .collect()
}

fn check_all(machine: &Arc<ScriptedMachine>, targets: &[ScriptedTarget]) -> Vec<DriftRow> {
    let calibrator = calibrator(machine, CalibrationSettings::default());
    let list: Vec<&dyn CalibrationTarget> = targets.iter().map(|t| t as _).collect();
    check(
        &calibrator,
        &list,
        &rows(targets),
        &DriftRule::default(),
        &mut Controls::default(),
    )
}

#[test]
fn a_changed_cost_makes_a_row_drift_and_others_hold() {
    for seed in 0..20 {
        let machine = ScriptedMachine::noisy(seed, 0.5);
        let targets = [
            target(&machine, "Abs", 0.7, 0.8),
            target(&machine, "Add", 1.1, 1.05),
            target(&machine, "Gemm", 0.7, 1.2),
            target(&machine, "Not", 1.0, 1.0),
        ];
        let rows = check_all(&machine, &targets);
        let verdicts: Vec<(&str, DriftVerdict)> =
            rows.iter().map(|r| (r.key.as_str(), r.verdict)).collect();
        assert_eq!(
            verdicts,
            [
                ("onl/Abs/scripted/f32", DriftVerdict::Holds),
                ("onl/Add/scripted/f32", DriftVerdict::Drifted),
                ("onl/Gemm/scripted/f32", DriftVerdict::Drifted),
                ("onl/Not/scripted/f32", DriftVerdict::Undecided),
            ],
            "seed {seed}: {rows:?}"
        );
        let ratio = rows[0].ratio.expect("an interval");
        assert!(ratio.upper < 1.0 && rows[0].pairs == 20);
        assert!(rows[2].reason.contains("case/400000"), "{}", rows[2].reason);
    }
}

#[test]
fn equal_rows_do_not_hold_and_a_quiet_machine_sees_them_drift() {
    let mut held = 0;
    for seed in 0..100 {
        let machine = ScriptedMachine::noisy(seed, 0.5);
        // Paths differ, times do not.
        let targets = [target(&machine, "Abs", 1.0, 1.0 + 1e-12)];
        let rows = check_all(&machine, &targets);
        held += u32::from(rows[0].verdict == DriftVerdict::Holds);
    }
    // A level of 0.5 %, and more than three binomial standard deviations.
    assert!(held <= 3, "{held} of 100");
    let machine = ScriptedMachine::quiet();
    let rows = check_all(&machine, &[target(&machine, "Abs", 1.0, 1.0 + 1e-12)]);
    assert_eq!(rows[0].verdict, DriftVerdict::Drifted);
}

#[test]
fn a_stopped_check_a_missing_kernel_and_a_failing_one_are_undecided() {
    let machine = ScriptedMachine::quiet();
    let mut failing = target(&machine, "Add", 0.5, 0.5);
    failing.script = Arc::new(|_, size| Behaviour {
        fault: Fault::Panic,
        ..behaves(size as f64, "path")
    });
    let targets = [target(&machine, "Abs", 0.5, 0.5), failing];
    let mut wanted = rows(&targets);
    wanted.insert(
        0,
        Proposal {
            key: key("Gone"),
            values: tile(1),
            level_ns: None,
        },
    );
    let calibrator = calibrator(&machine, CalibrationSettings::default());
    let list: Vec<&dyn CalibrationTarget> = targets.iter().map(|t| t as _).collect();
    let rule = DriftRule::default();
    let found = check(&calibrator, &list, &wanted, &rule, &mut Controls::default());
    let verdicts: Vec<_> = found.iter().map(|r| r.verdict.name()).collect();
    assert_eq!(verdicts, ["undecided", "holds", "undecided"]);
    assert!(found[0].key.contains("Gone") && found[2].reason.contains("panic"));

    let calls = machine.calls.load(Ordering::Relaxed);
    let cancel = AtomicBool::new(true);
    let mut controls = Controls {
        cancel: Some(&cancel),
        ..Controls::default()
    };
    let found = check(&calibrator, &list, &wanted, &rule, &mut controls);
    assert!(
        found
            .iter()
            .all(|r| r.verdict == DriftVerdict::Undecided && r.pairs == 0)
    );
    assert_eq!(machine.calls.load(Ordering::Relaxed), calls);
}

#[test]
fn judging_needs_pairs_a_sound_placebo_and_sound_samples() {
    let pairs = |first: f64, second: f64, count: usize| {
        vec![
            Pair {
                first_ns: first,
                second_ns: second
            };
            count
        ]
    };
    let samples = |candidate: Vec<Pair>, placebo: Vec<Pair>| ConfirmationSamples {
        workloads: vec![WorkloadPairs {
            name: "w".to_owned(),
            size: 1,
            pairs: candidate,
        }],
        placebo,
    };
    let rule = DriftRule::default();
    let verdict = |s: &ConfirmationSamples| judge(s, &rule).0;
    let even = || pairs(1.0, 1.0, 20);
    assert_eq!(
        verdict(&samples(pairs(1.0, 0.9, 20), even())),
        DriftVerdict::Holds
    );
    for (name, undecided) in [
        ("nothing", ConfirmationSamples::default()),
        ("few", samples(pairs(1.0, 0.9, 4), pairs(1.0, 1.0, 4))),
        ("placebo", samples(pairs(1.0, 0.9, 20), pairs(1.0, 1.1, 20))),
        ("negative", samples(pairs(1.0, -0.9, 20), even())),
        ("infinite", samples(pairs(f64::INFINITY, 0.9, 20), even())),
        ("no time", samples(pairs(0.0, 0.0, 20), even())),
    ] {
        assert_eq!(verdict(&undecided), DriftVerdict::Undecided, "{name}");
    }
    // A gain below half the margin, with certainty.
    assert_eq!(
        verdict(&samples(pairs(1.0, 0.997, 20), even())),
        DriftVerdict::Drifted
    );
}

#[test]
fn a_report_reads_as_it_was_written() {
    let machine = ScriptedMachine::quiet();
    let rows = check_all(&machine, &[target(&machine, "Abs", 0.7, 0.7)]);
    let report = DriftReport::new(execution(4), rows);
    let json = serde_json::to_string(&report).expect("JSON");
    assert!(json.starts_with("{\"schema\":1,\"kind\":\"drift\",\"execution\":{"));
    assert!(json.contains("\"verdict\":\"holds\""));
    assert_eq!(
        serde_json::from_str::<DriftReport>(&json).expect("its own form"),
        report
    );
}
