use crate::{KernelKey, ParameterRow, Schema};
use serde::{Deserialize, Serialize};
use std::fmt;
use thiserror::Error;

/// State in which a workload's data are when a timed call begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheState {
    /// The candidate's own previous calls left them (untimed calls come first).
    OwnWarm,
    /// Lanes have just written the inputs, as the operator before would in a graph; the writing is part of the timed
    /// call, equal for every candidate.
    Produced,
    /// They stream from memory: the working set exceeds the caches.
    Streaming,
}

/// One declared case of a calibration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Name, unique within the target, as `equal_shapes/65536`.
    pub name: String,
    /// Problem size in the unit of the kernel's [`SizeDomain`](crate::SizeDomain).
    pub size: u64,
    /// Bytes that an instance needs: inputs, outputs and scratch.
    pub memory_bytes: u64,
    /// Floating-point operations of one call, a fused multiply-add counting as two; 0 when unknown.
    #[serde(default)]
    pub flops: u64,
    /// Bytes that one call must read and write at least; 0 when unknown.
    #[serde(default)]
    pub bytes: u64,
    /// Data state at the start of a timed call.
    pub cache_state: CacheState,
}

/// A named row that competes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Name, unique within the target, stable across releases.
    pub name: String,
    /// Values; checked against the schema by the calibrator.
    pub values: ParameterRow,
}

/// How a target's candidates are searched.
#[derive(Debug, Clone, PartialEq)]
pub enum Search {
    /// A threshold on the workload size: `serial` and `parallel` rows are compared per size, and `parameter`
    /// takes the grid value at which the second begins to win.
    Crossover {
        /// The integer parameter that holds the threshold.
        parameter: &'static str,
        /// Row that never takes the second form.
        below: ParameterRow,
        /// Row that always takes the second form.
        above: ParameterRow,
        /// Values that the threshold may take, ascending.
        grid: Vec<i64>,
    },
    /// Rows that compete over the whole workload.
    Candidates(Vec<Candidate>),
}

/// Digest of output bytes; any NaN counts as the same NaN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Digest(pub [u64; 4]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|word| write!(f, "{word:016x}"))
    }
}

/// A kernel that can be calibrated. Implemented by kernel families, driven by `onl_tuning::Calibrator`.
pub trait CalibrationTarget: Send + Sync {
    /// Key whose row is chosen.
    fn key(&self) -> &KernelKey;

    /// Schema of the row.
    fn schema(&self) -> &'static Schema;

    /// The declared workload, by ascending size.
    fn workloads(&self) -> Vec<Workload>;

    /// What is searched.
    fn search(&self) -> Search;

    /// A prepared kernel with its data under a row.
    ///
    /// # Errors
    /// [`CalibrationError`] when the instance cannot be made; the key is then reported as failed, others go on.
    fn instance(
        &self,
        workload: &Workload,
        values: &ParameterRow,
    ) -> Result<Box<dyn CalibrationInstance>, CalibrationError>;
}

/// A kernel under one row with inputs and outputs of one workload.
pub trait CalibrationInstance: Send {
    /// Puts inputs and outputs back to their first state; not timed.
    fn restore(&mut self);

    /// Runs the kernel `times` times; the timed call.
    ///
    /// # Errors
    /// [`CalibrationError`] when the kernel fails.
    fn run(&mut self, times: u32) -> Result<(), CalibrationError>;

    /// Digest of the output bytes.
    fn output_digest(&mut self) -> Digest;

    /// Names the path that the last run took (algorithm, participants, chunks): equal paths cannot win against
    /// each other.
    fn execution_path(&self) -> String;
}

/// Why a calibration instance could not be made or run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{kernel}, workload '{workload}': {reason}")]
pub struct CalibrationError {
    /// Key of the kernel.
    pub kernel: String,
    /// Workload name.
    pub workload: String,
    /// What went wrong.
    pub reason: String,
}
