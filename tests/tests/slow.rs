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

/// Calibrations that are tried until two have decided every kernel.
const ATTEMPTS: u64 = 8;

#[test]
#[ignore = "measures for seconds"]
fn planted_defaults_are_promoted_twice_and_a_placebo_never() {
    let mut complete = 0;
    let mut undecided = 0;
    let mut kept = 0;
    for seed in 1..=ATTEMPTS {
        let results = calibrate_once(seed);
        let promoted = |r: &KeyResult| matches!(r.outcome, Outcome::Promoted { .. });
        for result in results.iter().filter(|r| r.key.kernel == "Placebo") {
            assert!(
                !promoted(result),
                "a placebo was promoted: {:?}",
                result.outcome
            );
        }
        let noisy = results.iter().any(|r| {
            matches!(
                r.outcome,
                Outcome::TooNoisy { .. } | Outcome::NotMeasured { .. } | Outcome::Void { .. }
            )
        });
        if results.iter().filter(|r| promoted(r)).count() == 3 {
            complete += 1;
        } else if noisy {
            undecided += 1;
        } else {
            kept += 1;
            assert!(
                kept < 3,
                "planted defaults were kept in {kept} calibrations: {results:?}"
            );
        }
        if complete == 2 {
            return;
        }
    }
    // Noise proves nothing either way; the scripted tests of the tuner do not depend on it.
    eprintln!(
        "inconclusive: {undecided} of {ATTEMPTS} calibrations met a machine too noisy to decide"
    );
}
