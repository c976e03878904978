//! Tuning: registry, resolution, calibration, profile cache and evidence.
//!
//! A [`TuningRegistry`] holds schemas and profiles and gives sessions their immutable snapshot. A [`CacheFolder`]
//! keeps profiles between processes. A [`Calibrator`] measures kernels through the traits of `onl-snapshot` and
//! decides by the pure functions of [`decision`] and [`search`], which [`replay`](evidence::replay) repeats on stored
//! samples.

#![forbid(unsafe_code)]

pub mod decision;
pub mod identity;
mod profile;
mod registry;
mod resolution;
mod selector;
pub mod statistics;

pub use decision::{
    ConfirmationSamples, Decision, DecisionRule, KeepReason, Pair, Verdict, WorkloadPairs,
};
pub use identity::{ProcessorIdentity, execution_id};
pub use profile::{ProfileRow, ProfileScope};
pub use registry::{ProfileBatch, RegistryCounters, RegistryError, TuningRegistry};
pub use resolution::{Explanation, RejectedRow};
pub use selector::{CpuSelector, Specificity};
pub use statistics::RatioInterval;
