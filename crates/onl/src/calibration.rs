//! What calibration works on: the calibratable kernels of an environment under one executor.

use crate::{Environment, Error};
use onl_cpu::{CpuExecutionDescriptor, IsaTier};
use onl_executor::{CpuExecutionPolicy, ExecutorLease, ResolvedCpuExecutionPolicy};
use onl_kernels::{CalibrationContext, NodeCalibration};
use onl_snapshot::{CalibrationTarget, LaneCosts};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Execution identity of a session with this policy on this machine: the same function that sessions use.
///
/// # Errors
/// [`Error::Policy`] when the machine cannot give what the policy asks for.
pub fn current_execution_descriptor(
    environment: &Environment,
    policy: &CpuExecutionPolicy,
) -> Result<CpuExecutionDescriptor, Error> {
    Ok(environment.resolve(policy)?.descriptor())
}

/// A target for every calibratable kernel of the environment, in the order of the table.
/// The targets must not outlive the lease.
pub fn calibration_targets(
    environment: &Environment,
    lease: &ExecutorLease,
    resolved: &ResolvedCpuExecutionPolicy,
    lane_costs: LaneCosts,
) -> Vec<Box<dyn CalibrationTarget>> {
    let descriptor = resolved.descriptor();
    let context = CalibrationContext {
        executor: Arc::clone(lease.executor()),
        tier: IsaTier::detect(),
        lane_costs,
        l1d_bytes: descriptor.l1d_bytes,
        l2_bytes: descriptor.l2_bytes,
    };
    let mut seen = BTreeSet::new();
    let mut targets: Vec<Box<dyn CalibrationTarget>> = Vec::new();
    // The newest form of an operator comes first and stands for its key.
    let mut entries: Vec<_> = environment.table().entries().iter().collect();
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.opsets.1));
    for entry in entries {
        for &element_type in entry.element_types {
            if let Some(target) = NodeCalibration::new(entry, element_type, &context)
                && seen.insert(entry.key(element_type))
            {
                targets.push(Box::new(target));
            }
        }
    }
    targets.sort_by(|a, b| a.key().cmp(b.key()));
    targets
}
