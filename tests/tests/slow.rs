//! Tests that measure for real. Run with `cargo test --release -p onl-tests --test slow -- --ignored`.

use onl::tuning::process::{
    Confirmations, KeyResult, Outcome, ProcessError, ProcessRunner, Proposals,
};
use onl::tuning::{
    CalibrationSettings, Calibrator, Controls, MonotonicClock, SystemEnvironment,
    calibrate_registered_kernels,
};
use onl::{
    CalibrationTarget, CpuExecutionPolicy, Environment, LaneCosts, ProfileSource,
    calibration_targets,
};
use onl_tests::planted_table;
use std::collections::BTreeMap;

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
    };
    let again = Again {
        calibrator: &calibrator,
        targets: &targets,
    };
    calibrate_registered_kernels(&calibrator, &targets, &again, &mut Controls::default())
}

/// A machine that is too noisy for a moment, or a placebo that is told apart by chance, is measured again; a machine that
/// stays too noisy proves nothing either way.
fn calibrate(seed: u64) -> Option<Vec<KeyResult>> {
    (0..5)
        .map(|attempt| calibrate_once(seed + attempt))
        .find(|results| {
            !results.iter().any(|r| {
                matches!(
                    r.outcome,
                    Outcome::TooNoisy { .. } | Outcome::NotMeasured { .. }
                )
            })
        })
}

#[test]
#[ignore = "measures for seconds"]
fn planted_defaults_are_promoted_twice_and_a_placebo_never() {
    let mut decided = 0;
    for run in 0..2 {
        let Some(results) = calibrate(run * 100 + 1) else {
            eprintln!("the machine was too noisy to decide in five attempts");
            continue;
        };
        decided += 1;
        for result in results {
            let promoted = matches!(result.outcome, Outcome::Promoted { .. });
            let expected = result.key.kernel != "Placebo";
            assert_eq!(
                promoted, expected,
                "run {run}: {} ended as {:?}",
                result.key, result.outcome
            );
        }
    }
    assert!(
        decided > 0,
        "no run could decide; try again on a quiet machine"
    );
}
