//! What a baseline report holds.

use crate::inventory::SerialReason;
use crate::report::ReportHead;
use onl_cpu::CpuExecutionDescriptor;
use onl_profiling::{CounterSet, CounterStatus, Spread};
use onl_snapshot::CacheState;
use onl_tuning::roofline::ParticipantCeilings;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Times of the kernel corpus under one lane and under the session default, what the processor can do at most, and the
/// regions of whole models ranked by what they cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaselineReport {
    /// First fields; the execution is that of the session default.
    pub head: ReportHead,
    /// How it was measured.
    pub settings: BaselineSettings,
    /// How the sessions used the processor.
    pub policy: BaselinePolicy,
    /// Measured ceilings: of one participant, of powers of two, and of as many as the session default has.
    pub ceilings: Vec<ParticipantCeilings>,
    /// How far two measurements of the same thing lay apart in this run.
    pub noise: NoiseFloor,
    /// One row per case and thread setting; the two rows of a case stand beside each other, the serial one first.
    pub cases: Vec<CaseRow>,
    /// The models of the ranked lists with what they spent where.
    pub models: Vec<ModelProfile>,
    /// Serial regions by Σ (share of model time) × (1 − 1 / participants), the largest first.
    pub serial_regions: Vec<RankedRegion>,
    /// Divided regions by Σ (share of model time) × (1 − utilization), the largest first.
    pub parallel_regions: Vec<RankedRegion>,
    /// Digest of everything else, which tells edited documents.
    pub digest: String,
}

/// How a baseline was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaselineSettings {
    /// Samples per row.
    pub repeat: u32,
    /// Runs before the samples, the first run not counted.
    pub warmup: u32,
    /// Nanoseconds that a sample lasts at least; shorter runs are repeated and the sample is their mean.
    pub sample_ns: u64,
    /// Runs recorded for regions, counters and dispatch.
    pub recorded_runs: u32,
    /// Two-sided confidence of all intervals.
    pub confidence: f64,
    /// Seed of the order of samples.
    pub seed: u64,
    /// Patterns of operators that were asked for; empty for the whole corpus.
    pub operators: Vec<String>,
    /// Recorded runs of each model.
    pub model_runs: u32,
}

/// How the sessions of a baseline used the processor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaselinePolicy {
    /// What float arithmetic does with denormal numbers: `preserve` or `flush`.
    pub denormals: String,
    /// Instruction-set tier of the kernels.
    pub tier: String,
    /// Whether saved profiles were read.
    pub profiles: bool,
    /// Execution of `num_threads = 1`.
    pub serial: CpuExecutionDescriptor,
    /// Execution of `num_threads = 0`.
    pub session: CpuExecutionDescriptor,
}

/// Thread setting of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadSetting {
    /// `num_threads = 1`.
    Serial,
    /// `num_threads = 0`: the session default.
    Session,
}

impl ThreadSetting {
    /// Both, in the order of rows.
    pub const ALL: [ThreadSetting; 2] = [ThreadSetting::Serial, ThreadSetting::Session];

    /// Name in documents and tables.
    pub const fn name(self) -> &'static str {
        match self {
            ThreadSetting::Serial => "serial",
            ThreadSetting::Session => "session",
        }
    }

    /// The `num_threads` that it stands for.
    pub const fn num_threads(self) -> u32 {
        match self {
            ThreadSetting::Serial => 1,
            ThreadSetting::Session => 0,
        }
    }
}

/// Two measurements of one thing: sessions of their own, samples interleaved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoisePair {
    /// Case.
    pub case: String,
    /// Thread setting.
    pub threads: ThreadSetting,
    /// Samples of the first arm in nanoseconds.
    pub a_ns: Vec<f64>,
    /// Samples of the second arm, taken beside those of the first.
    pub b_ns: Vec<f64>,
    /// Hodges–Lehmann estimate of b over a.
    pub ratio: f64,
}

/// How far two measurements of the same thing lay apart.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoiseFloor {
    /// The pairs.
    pub pairs: Vec<NoisePair>,
    /// Largest relative difference of a pair, as 0.02; absent without pairs.
    pub largest: Option<f64>,
    /// Median of the relative differences.
    pub median: Option<f64>,
}

/// A tensor of a case or node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operand {
    /// Element type.
    pub element_type: String,
    /// Shape.
    pub dims: Vec<usize>,
    /// Whether it is a constant of the graph.
    pub constant: bool,
}

/// Where a case comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseOrigin {
    /// The corpus, which is the same on every machine.
    Corpus,
    /// Added at the size of the threshold that is resolved on this machine; no part of the corpus.
    ResolvedThreshold,
}

/// Median with a confidence interval that assumes nothing of the distribution.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MedianTime {
    /// Median in nanoseconds.
    pub median_ns: f64,
    /// Lower end; absent when there are too few samples.
    pub lower_ns: Option<f64>,
    /// Upper end.
    pub upper_ns: Option<f64>,
}

/// The least time that the measured ceilings allow, and how near a case came to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RooflineShare {
    /// `fma`, or the level of memory that holds the working set: `L1d`, `L2`, `L3`, `DRAM`.
    pub ceiling: String,
    /// Participants of the ceiling.
    pub participants: u32,
    /// The least time in nanoseconds.
    pub least_ns: f64,
    /// The least time over the median.
    pub share: f64,
}

/// One count of processor events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CounterFigure {
    /// Name.
    pub name: String,
    /// Whether it is a count, or why not.
    pub status: CounterStatus,
    /// The count, where the status is valid.
    pub value: Option<u64>,
}

/// Counts of processor events over all recorded calls and lanes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CounterFigures {
    /// What was counted.
    pub set: CounterSet,
    /// Status of all counts together.
    pub status: CounterStatus,
    /// The counts.
    pub counts: Vec<CounterFigure>,
}

/// Recorded regions of one site, problem and division.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegionFigures {
    /// Label of the site.
    pub label: String,
    /// Algorithm that the kernel chose; empty when it has only one.
    pub path: String,
    /// Tiles of the problem; 0 when the kernel has none.
    pub tiles: u64,
    /// Work units.
    pub total: u64,
    /// Work units per chunk.
    pub grain: u64,
    /// Recorded calls.
    pub calls: u64,
    /// Wall time of all calls in nanoseconds.
    pub wall_ns: u64,
    /// Lanes that the kernel and the session allow.
    pub requested: Spread,
    /// Lanes that were invited, the caller included.
    pub admitted: Spread,
    /// Lanes that ran at least one chunk.
    pub participants: Spread,
    /// Calls that ran inline, by reason.
    pub inline_reasons: BTreeMap<String, u64>,
    /// Busy time of lanes over wall time × admitted lanes; absent when regions were too short for the clock.
    pub utilization: Option<f64>,
    /// Busiest lane over the mean lane.
    pub imbalance: Option<f64>,
    /// Counts.
    pub counters: CounterFigures,
}

/// One case under one thread setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseRow {
    /// Name of the case, as `Abs/f32 contiguous/1000`; the same on every machine.
    pub case: String,
    /// Whether the case is of the corpus.
    pub origin: CaseOrigin,
    /// Kernel, as `onl/Abs/vector/f32`.
    pub key: String,
    /// Revision of the kernel.
    pub revision: u32,
    /// Operator.
    pub operator: String,
    /// Element type that selects the kernel.
    pub element_type: String,
    /// Size of the problem in the unit of the kernel's parameters.
    pub size: u64,
    /// Inputs; absent for omitted ones.
    pub inputs: Vec<Option<Operand>>,
    /// Outputs.
    pub outputs: Vec<Operand>,
    /// State in which runs find their data.
    pub cache_state: CacheState,
    /// Floating-point operations of one run, a multiply-add counting as two; 0 for operators that are not products.
    pub flops: u64,
    /// Bytes that one run reads at least.
    pub bytes_read: u64,
    /// Bytes that one run writes at least.
    pub bytes_written: u64,
    /// Thread setting.
    pub threads: ThreadSetting,
    /// Lanes of the session, the caller included.
    pub session_lanes: u32,
    /// Threshold of the resolved parameters from which the kernel divides its work; absent when it has none.
    pub threshold: Option<i64>,
    /// Where the kernel's parameters come from; absent when it has none.
    pub value_source: Option<String>,
    /// From the model's bytes to the end of the first run, in nanoseconds: reading, resolving, preparing, planning.
    pub startup_ns: f64,
    /// Part of the startup that made the session.
    pub build_ns: f64,
    /// Runs that one sample is the mean of.
    pub runs_per_sample: u32,
    /// Nanoseconds of a run, in the order in which the samples were taken.
    pub samples_ns: Vec<f64>,
    /// Of the samples.
    pub time: MedianTime,
    /// Nanoseconds of recorded runs outside the kernel: entering the executor, checking inputs, leaving.
    pub dispatch_samples_ns: Vec<f64>,
    /// Median of these.
    pub dispatch_ns: Option<f64>,
    /// Recorded regions, those with the most time first; empty when the kernel opened none.
    pub regions: Vec<RegionFigures>,
    /// Achieved floating-point operations per nanosecond (GFLOP/s); absent where there are none.
    pub gflops: Option<f64>,
    /// Achieved bytes read and written per nanosecond (GB/s); absent where there are none.
    pub gbytes: Option<f64>,
    /// Share of the roofline; absent when neither operations nor bytes are known.
    pub roofline: Option<RooflineShare>,
}

/// A node of a model with what it did in the recorded runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelNode {
    /// Position in the plan.
    pub node: u32,
    /// Name in the model, empty when it has none.
    pub name: String,
    /// Operator.
    pub operator: String,
    /// Element type that selects the kernel.
    pub element_type: String,
    /// Kernel.
    pub key: String,
    /// State of the path in the inventory: `serial`, `tunable` or `calibratable`.
    pub state: String,
    /// Why a serial path is serial.
    pub serial_reason: Option<SerialReason>,
    /// Inputs; absent for omitted ones and ones that are not tensors.
    pub inputs: Vec<Option<Operand>>,
    /// Recorded calls.
    pub calls: u64,
    /// Wall time of all calls in nanoseconds.
    pub wall_ns: u64,
    /// Part of it outside regions, spent by the caller alone.
    pub serial_ns: u64,
}

/// Regions of a model's node that were all divided, or all ran inline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelRegion {
    /// Position of the node in the plan.
    pub node: u32,
    /// Whether the regions were divided among lanes.
    pub divided: bool,
    /// What they did.
    pub figures: RegionFigures,
}

/// What a model spent where, by recorded runs under the session default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelProfile {
    /// Name: that of the file without its extension.
    pub model: String,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Inputs with their shapes by name.
    pub inputs: BTreeMap<String, Operand>,
    /// Participants of the session.
    pub participants: u32,
    /// Wall times of the recorded runs in nanoseconds.
    pub run_ns: Vec<u64>,
    /// Whether every event was kept; the lists leave out models of which some were dropped.
    pub complete: bool,
    /// Nodes, in the order of the plan.
    pub nodes: Vec<ModelNode>,
    /// Regions that lie in no other one.
    pub regions: Vec<ModelRegion>,
}

/// Part of a ranked row: nodes of one model with equal inputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankedPart {
    /// Model.
    pub model: String,
    /// Inputs of the nodes.
    pub inputs: Vec<Option<Operand>>,
    /// Nodes.
    pub nodes: u64,
    /// Calls per run.
    pub calls_per_run: f64,
    /// Nanoseconds per run.
    pub ns_per_run: f64,
    /// Part of the model's time.
    pub share: f64,
    /// What it adds to the score.
    pub score: f64,
}

/// A region, or the time outside regions, of one kernel over all models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankedRegion {
    /// Place in the list, from 1.
    pub rank: u32,
    /// What the list is ordered by.
    pub score: f64,
    /// Σ over models of the part of their time.
    pub share: f64,
    /// Operator.
    pub operator: String,
    /// Element type.
    pub element_type: String,
    /// Kernel.
    pub key: String,
    /// State of the path in the inventory.
    pub state: String,
    /// Why a serial path is serial.
    pub serial_reason: Option<SerialReason>,
    /// Label of the region; absent for time outside regions.
    pub region: Option<String>,
    /// Models in which it occurs.
    pub models: Vec<String>,
    /// Utilization over all calls, weighted by wall time; absent in the serial list.
    pub utilization: Option<f64>,
    /// Calls that ran inline, by reason.
    pub inline_reasons: BTreeMap<String, u64>,
    /// Counts of all calls; absent for time outside regions.
    pub counters: Option<CounterFigures>,
    /// By model and shapes, the largest part first.
    pub parts: Vec<RankedPart>,
}
