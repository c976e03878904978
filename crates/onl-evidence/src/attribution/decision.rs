use onl_tuning::statistics::RatioInterval;
use serde::{Deserialize, Serialize};

/// Who owns the difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionKind {
    /// Kernels of `onl`.
    NativeKernel,
    /// The loader of `onl`.
    Loading,
    /// The execution provider of ONNX Runtime.
    ExecutionProvider,
    /// The file format.
    FormatTradeoff,
    /// Nobody: what was asked lies within the noise.
    None,
}

/// What a model's samples say, with the figures that led to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// Who owns the difference.
    pub kind: DecisionKind,
    /// The same in a sentence with figures.
    pub sentence: String,
    /// What was looked at.
    pub figures: DecisionFigures,
}

/// Figures of a decision. Ratios are `None` when an arm is missing or there are too few rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecisionFigures {
    /// Noise floor of steady runs.
    pub steady_floor: Option<f64>,
    /// Noise floor of loading.
    pub load_floor: Option<f64>,
    /// Steady runs: `onl` over `onnxruntime`.
    pub steady_onl_to_onnxruntime: Option<RatioInterval>,
    /// Steady runs: `onl` over `onnxruntime_with_onl_loader`.
    pub steady_onl_to_loader: Option<RatioInterval>,
    /// Loading: `onnxruntime_with_onl_loader` over `onnxruntime`.
    pub load_loader_to_onnxruntime: Option<RatioInterval>,
    /// Loading: `onl` over `onnxruntime`.
    pub load_onl_to_onnxruntime: Option<RatioInterval>,
    /// Loading: `onl` over `onnxruntime_ort_format`.
    pub load_onl_to_ort_format: Option<RatioInterval>,
    /// Nanoseconds that a steady run of `onl` takes longer than one of `onnxruntime`; negative when it is shorter.
    pub gap_ns: Option<f64>,
    /// Nanoseconds that the profiled operators of `onl` take longer than those of `onnxruntime`, all together.
    pub operators_gap_ns: Option<f64>,
    /// Operators of `onl` that take longest beyond ONNX Runtime's, the largest excess first.
    pub leading_operators: Vec<OperatorExcess>,
}

/// How much longer an operator takes in `onl` than in ONNX Runtime.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorExcess {
    /// Operator, or what operators that only one of the runtimes has are together.
    pub operator: String,
    /// Nanoseconds of a run.
    pub excess_ns: f64,
    /// The operator's region of `onl` with the largest time; `None` when its nodes open none.
    pub region: Option<String>,
}
