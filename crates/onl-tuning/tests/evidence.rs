//! What stored evidence says without measuring: explanation, replay, worth.

mod support;

use onl_snapshot::{Candidate, Search};
use onl_tuning::explain::{SearchExplanation, explain};
use onl_tuning::plan::{KernelUse, Saved, Worth, worth};
use onl_tuning::*;
use std::sync::Arc;
use support::*;

fn raced(machine: &Arc<ScriptedMachine>, ratios: &'static [f64]) -> KeyEvidence {
    let target = ScriptedTarget {
        machine: Arc::clone(machine),
        key: key("Gemm"),
        schema: &TILES,
        sizes: vec![40_000, 80_000],
        search: Search::Candidates(
            (1..=ratios.len())
                .map(|i| Candidate {
                    name: format!("tile {i}"),
                    values: tile(i as i64),
                })
                .collect(),
        ),
        script: Arc::new(|row, size| {
            let i = row.integer("algorithm.tile_m") as usize;
            let ratio = if i == 0 { 1.0 } else { ratios[i - 1] };
            behaves(size as f64 * ratio, format!("tile {i}"))
        }),
        memory_bytes: 0,
        flops: 0,
    };
    let calibrator = calibrator(machine, CalibrationSettings::default());
    let mut results = calibrator.calibrate_first(&[&target], &mut Controls::default());
    results.remove(0).evidence.remove(0)
}

#[test]
fn an_explanation_names_every_candidate_with_its_ratio_and_its_fate() {
    let machine = ScriptedMachine::quiet();
    let evidence = raced(&machine, &[0.95, 0.8, 1.1, 9.0, 1.2]);
    let explained = explain(&evidence);
    let SearchExplanation::Race { candidates } = &explained.search else {
        panic!("a race, {:?}", explained.search);
    };
    let names: Vec<&str> = candidates.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["tile 1", "tile 2", "tile 3", "tile 4", "tile 5"]);
    for (candidate, ratio) in candidates.iter().zip([0.95, 0.8, 1.1, f64::NAN, 1.2]) {
        match candidate.estimate {
            Some(found) => assert!((found - ratio).abs() < 0.01, "{candidate:?}"),
            None => assert!(ratio.is_nan(), "{candidate:?}"),
        }
    }
    assert!(candidates[1].fate.contains("confirmed"));
    assert!(
        candidates[3].fate.contains("11.2 times"),
        "{}",
        candidates[3].fate
    );
    assert!(
        candidates[4].fate.contains("dropped"),
        "{}",
        candidates[4].fate
    );
    assert_eq!(explained.chosen, Some(tile(2)));
    assert_eq!(explained.workloads.len(), 2);
    for workload in &explained.workloads {
        let ratio = workload.ratio.expect("an interval");
        assert!(ratio.lower <= 0.8 + 1e-6 && 0.8 - 1e-6 <= ratio.upper);
        assert_eq!(workload.pairs, 20);
    }
    assert_eq!(explained.placebo.pairs, 20);
    serde_json::to_string(&explained).expect("JSON");
}

#[test]
fn a_replay_is_equal_to_the_bit_after_storage_and_notices_a_changed_sample() {
    for seed in 0..20 {
        let machine = ScriptedMachine::noisy(seed, 1.0);
        let evidence = raced(&machine, &[0.97, 0.93]);
        let json = serde_json::to_string(&evidence).expect("JSON");
        let stored: KeyEvidence = serde_json::from_str(&json).expect("its own form");
        let again = replay(&stored, None, None).expect("sound");
        assert!(again.agrees, "seed {seed}");
        assert_eq!(
            serde_json::to_string(&again.decision).expect("JSON"),
            serde_json::to_string(&evidence.decision.clone().expect("decided")).expect("JSON")
        );
        let strict = replay(&stored, None, Some(0.5)).expect("sound");
        assert_ne!(strict.decision.verdict, Verdict::Promote, "seed {seed}");
        assert!(replay(&stored, Some(0.7), None).is_err(), "no legal level");
    }
    let machine = ScriptedMachine::quiet();
    let mut changed = raced(&machine, &[0.8]);
    for workload in &mut changed.samples.workloads {
        for pair in &mut workload.pairs {
            pair.second_ns *= 1.5;
        }
    }
    assert!(!replay(&changed, None, None).expect("sound").agrees);
}

#[test]
fn worth_follows_from_evidence_and_else_from_what_lanes_leave_unused() {
    let kernel = KernelUse {
        key: key("Gemm"),
        nodes: 3,
        calls: 3.0,
        ns: 1_000.0,
        share: 0.5,
        serial_ns: Some(800.0),
        unused_ns: Some(50.0),
    };
    let ratio = RatioInterval {
        estimate: 0.8,
        lower: 0.7,
        upper: 0.9,
        confidence: 0.99,
    };
    let close = |a: Option<f64>, b: f64| a.is_some_and(|a| (a - b).abs() < 1e-9);
    let of = |saved: &Saved, lanes| worth(&kernel, saved, lanes);
    assert!(close(of(&Saved::Nothing, 4).most_ns(), 650.0));
    assert_eq!(of(&Saved::Nothing, 1), Worth::Unknown);
    let in_use = Saved::Promoted {
        ratio: Some(ratio),
        in_use: true,
    };
    match of(&in_use, 4) {
        Worth::InUse { saves_ns } => assert!(close(saves_ns, 250.0)),
        other => panic!("{other:?}"),
    }
    let unused = Saved::Promoted {
        ratio: Some(ratio),
        in_use: false,
    };
    match of(&unused, 4) {
        Worth::Measured {
            lower_ns,
            ns,
            upper_ns,
        } => {
            assert!(close(Some(lower_ns), 100.0) && close(Some(ns), 200.0));
            assert!(close(Some(upper_ns), 300.0));
        }
        other => panic!("{other:?}"),
    }
    let confirmed = |ratio| of(&Saved::DefaultConfirmed { ratio }, 4).most_ns();
    assert!(close(confirmed(None), 0.0));
    assert!(close(confirmed(Some(ratio)), 300.0));
    let dropped = KernelUse {
        serial_ns: None,
        ..kernel.clone()
    };
    assert_eq!(worth(&dropped, &Saved::Nothing, 4), Worth::Unknown);
}
