//! Tuning: registry, resolution, calibration, profile cache and evidence.
//!
//! A [`TuningRegistry`] holds schemas and profiles and gives sessions their immutable snapshot. A [`CacheFolder`]
//! keeps profiles between processes. A [`Calibrator`] measures kernels through the traits of `onl-snapshot` and
//! decides by the pure functions of [`decision`] and [`search`], which [`evidence::replay`] repeats on stored samples.

#![forbid(unsafe_code)]

mod bench;
mod cache;
mod calibrator;
mod ceilings;
mod clock;
mod coupling;
pub mod decision;
pub mod drift;
mod environment;
pub mod evidence;
pub mod explain;
mod housekeeping;
pub mod identity;
pub mod journal;
mod lane_costs;
mod measure;
mod operations;
pub mod participants;
pub mod plan;
pub mod process;
mod profile;
mod registry;
mod resolution;
pub mod roofline;
mod schedule;
pub mod search;
mod selector;
pub mod statistics;

pub use cache::{
    CacheError, CacheFolder, CachedLaneCosts, CachedProfile, CachedRow, Choices, FORMAT_VERSION,
    FileState, LoadReport, RowKind, UpdateReport, UpdateStep, VoidRow,
};
pub use calibrator::{CalibrationSettings, Calibrator, Controls, Progress};
pub use ceilings::{BandwidthCeiling, Ceilings};
pub use clock::{Clock, MonotonicClock};
pub use coupling::{CouplingLevel, CouplingProbe};
pub use decision::{Decision, DecisionRule, KeepReason, Verdict};
pub use environment::{
    Environment, EnvironmentLimits, EnvironmentProbe, Reading, SystemEnvironment,
};
pub use evidence::{KeyEvidence, Replay, ReplayError, replay};
pub use housekeeping::{
    Export, Import, Removal, Widening, check_import, export_profiles, prune_drifted,
    prune_unusable, remove_kernels,
};
pub use identity::{ProcessorIdentity, execution_id};
pub use lane_costs::{LaneCostProbe, measure_lane_costs};
pub use operations::{
    EvidenceRecord, LoadOutcome, UnusedRow, calibrate_registered_kernels, kernel_tuning_parameters,
    load_kernel_tuning_cache, publish_choices, update_kernel_tuning_cache,
};
pub use process::{
    Confirmations, KeyResult, Outcome, ProcessError, ProcessRunner, Proposal, Proposals,
};
pub use profile::{ProfileRow, ProfileScope};
pub use registry::{ProfileBatch, RegistryCounters, RegistryError, TuningRegistry};
pub use resolution::{Explanation, RejectedRow};
pub use selector::{CpuSelector, Specificity};
pub use statistics::RatioInterval;
