use super::decision::Decision;
use super::{Arm, OperatorTable, Sample};
use crate::report::ReportHead;
use onl_tuning::statistics::RatioInterval;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The same models in four consumers, and where each model's difference comes from: `onl attribute`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttributionReport {
    /// Build, processor and execution.
    pub head: ReportHead,
    /// The other runtime.
    pub onnxruntime: RuntimeLibrary,
    /// How it was measured.
    pub protocol: Protocol,
    /// One entry per model, in the order given.
    pub models: Vec<ModelAttribution>,
}

/// The library of ONNX Runtime that was loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuntimeLibrary {
    /// Its version, as it tells itself.
    pub version: String,
    /// What it tells of its build.
    pub build: String,
    /// SHA-256 of the file, lower-case hexadecimal.
    pub sha256: String,
}

/// How samples are taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Protocol {
    /// Rounds; every arm has one process in each.
    pub rounds: u32,
    /// Untimed runs before the steady ones.
    pub warmup: u32,
    /// Seconds of steady runs at least.
    pub min_time_s: f64,
    /// Seed of the order of arms within rounds.
    pub order_seed: u64,
    /// Two-sided confidence of intervals.
    pub confidence: f64,
}

/// One model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelAttribution {
    /// Which model on which inputs.
    pub model: ModelIdentity,
    /// Arms without samples, with the reason.
    pub unsupported: Vec<UnsupportedArm>,
    /// Raw samples, by round and position.
    pub samples: Vec<Sample>,
    /// SHA-256 of the raw samples as compact JSON, lower-case hexadecimal.
    pub samples_sha256: String,
    /// Medians over the rounds of every arm.
    pub figures: Vec<ArmFigures>,
    /// Noise of every quantity, from the two arms of `onl`.
    pub noise: Vec<NoiseFloor>,
    /// Ratios of arms, paired by round.
    pub comparisons: Vec<Comparison>,
    /// Whether outputs agree.
    pub outputs: OutputAgreement,
    /// Times by operator in both runtimes, from profiled processes of their own.
    pub operators: OperatorTable,
    /// Where the difference comes from.
    pub decision: Decision,
}

/// Which model on which inputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelIdentity {
    /// File name without its ending.
    pub name: String,
    /// Size of the file.
    pub file_bytes: u64,
    /// SHA-256 of the file, lower-case hexadecimal. External data are not in it.
    pub sha256: String,
    /// Inputs in graph order.
    pub inputs: Vec<InputShape>,
}

/// An input that a model was run with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputShape {
    /// Name.
    pub name: String,
    /// Element type: `f32`.
    pub element_type: String,
    /// Dimensions, outermost first.
    pub dims: Vec<usize>,
}

/// An arm that could not run the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnsupportedArm {
    /// The arm.
    pub arm: Arm,
    /// Why.
    pub reason: String,
}

/// What arms are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Wall time of opening the file.
    Open,
    /// Wall time of parsing.
    Parse,
    /// Wall time of resolving.
    Resolve,
    /// Wall time of making ready.
    Ready,
    /// Wall time of these four together.
    Load,
    /// Wall time of the first run.
    FirstRun,
    /// Median wall time of a run after warm-up.
    Steady,
    /// Most resident memory.
    PeakMemory,
}

impl Quantity {
    /// All quantities.
    pub const ALL: [Quantity; 8] = [
        Quantity::Open,
        Quantity::Parse,
        Quantity::Resolve,
        Quantity::Ready,
        Quantity::Load,
        Quantity::FirstRun,
        Quantity::Steady,
        Quantity::PeakMemory,
    ];

    /// Name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Quantity::Open => "open",
            Quantity::Parse => "parse",
            Quantity::Resolve => "resolve",
            Quantity::Ready => "ready",
            Quantity::Load => "load",
            Quantity::FirstRun => "first_run",
            Quantity::Steady => "steady",
            Quantity::PeakMemory => "peak_memory",
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Medians of an arm over its rounds; `None` where the consumer does not separate or tell a quantity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArmFigures {
    /// The arm.
    pub arm: Arm,
    /// Wall nanoseconds.
    pub open_ns: Option<f64>,
    /// Wall nanoseconds.
    pub parse_ns: Option<f64>,
    /// Wall nanoseconds.
    pub resolve_ns: Option<f64>,
    /// Wall nanoseconds; with those phases in it that the consumer does not separate.
    pub ready_ns: Option<f64>,
    /// Wall nanoseconds until ready.
    pub load_ns: Option<f64>,
    /// Wall nanoseconds.
    pub first_run_ns: Option<f64>,
    /// Wall nanoseconds of one run.
    pub steady_ns: Option<f64>,
    /// Bytes.
    pub peak_memory_bytes: Option<f64>,
}

/// Noise of a quantity: how far two arms of the same program came out apart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoiseFloor {
    /// The quantity.
    pub quantity: Quantity,
    /// `onl_again` over `onl`.
    pub ratio: Option<RatioInterval>,
    /// The end of the interval that is farther from 1, as a relative difference: 0.03 is 3 %.
    pub floor: Option<f64>,
    /// Whether the interval holds 1.
    pub agrees: Option<bool>,
}

/// Two arms side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// Numerator of the ratios.
    pub arm: Arm,
    /// Denominator.
    pub reference: Arm,
    /// A ratio for every quantity that both have; below 1 the arm is faster or smaller.
    pub ratios: Vec<QuantityRatio>,
}

/// Ratio of two arms in one quantity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuantityRatio {
    /// The quantity.
    pub quantity: Quantity,
    /// Ratio with its interval.
    pub ratio: RatioInterval,
    /// Which side of 1 the whole interval lies on, beyond the noise floor.
    pub verdict: RatioVerdict,
}

/// What a ratio says against the noise floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RatioVerdict {
    /// The whole interval lies below 1 / (1 + floor).
    Less,
    /// Neither.
    WithinNoise,
    /// The whole interval lies above 1 + floor.
    Greater,
}

/// Whether consumers gave the same outputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputAgreement {
    /// Arms whose own outputs differ in bits from round to round.
    pub unstable: Vec<Arm>,
    /// ONNX Runtime with our loader and with protobuf give equal bits; `None` when one of them is missing.
    pub loader_equals_protobuf: Option<bool>,
    /// ONNX Runtime with the `.ort` file and with protobuf give equal bits; `None` when one of them is missing.
    pub ort_format_equals_protobuf: Option<bool>,
    /// Largest relative L2 distance of an output of `onl` from that of ONNX Runtime; `None` when no output is numeric.
    pub onl_relative_l2: Option<f64>,
}
