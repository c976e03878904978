//! The tuning contract as data: keys, schemas, parameter rows, snapshots and the traits of calibration.
//!
//! Kernels depend on this crate and on nothing else of tuning: no registry, file, clock or executor is known here.

#![forbid(unsafe_code)]

mod calibration;
mod key;
mod parallel;
mod schema;
mod snapshot;

pub use calibration::{
    CacheState, CalibrationError, CalibrationInstance, CalibrationTarget, Candidate, Digest,
    Search, Workload,
};
pub use key::{Device, KernelKey};
pub use parallel::{GRAIN_ELEMENTS, MAXIMUM_PARTICIPANTS, MINIMUM_ELEMENTS, ParallelConfig};
pub use schema::{Parameter, ParameterKind, ParameterRow, ParameterValue, Schema, SchemaError};
pub use snapshot::{
    LaneCosts, ResolvedRow, SizeDomain, Tuned, TunedConfig, TuningSnapshot, ValueSource,
};
