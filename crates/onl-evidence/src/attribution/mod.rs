//! Attribution: the same models in `onl` and in ONNX Runtime, loaded in four ways, and where their difference comes from.

mod decision;
mod operators;
mod report;
mod sample;

pub use decision::{Decision, DecisionFigures, DecisionKind, OperatorExcess};
pub use operators::{OperatorRow, OperatorTable, RegionRow};
pub use report::{
    ArmFigures, AttributionReport, Comparison, InputShape, ModelAttribution, ModelIdentity,
    NoiseFloor, OutputAgreement, Protocol, Quantity, QuantityRatio, RatioVerdict, RuntimeLibrary,
    UnsupportedArm,
};
pub use sample::{
    Arm, Consumer, Count, Counters, OutputDigest, Phase, PhaseSample, Phases, Resources, Sample,
    SteadyRuns,
};
