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
