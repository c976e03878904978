//! Attribution: the same models in `onl` and in ONNX Runtime, loaded in four ways, and where their difference comes from.

mod check;
mod constants;
mod decision;
mod derive;
mod experiment;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
mod measure;
mod operators;
mod probe;
mod report;
mod request;
mod sample;
#[cfg(test)]
mod tests;

pub(crate) use constants::visit_constants;
pub use decision::{
    Decision, DecisionFigures, DecisionKind, EXPLAINED_PART, OperatorExcess, UNSHARED, decide,
};
pub use derive::{CONFIDENCE, LEAST_ROUNDS};
pub use experiment::{
    AttributionError, ModelPlan, RunnerError, SampleRunner, attribute_model, describe_library,
};
pub use measure::{MeasureError, OnlSettings, answer, file_sha256};
pub(crate) use measure::{read_inputs, session_settings};
pub use operators::{OperatorRow, OperatorTable, RegionRow};
pub use report::{
    ArmFigures, AttributionReport, Comparison, InputShape, ModelAttribution, ModelIdentity,
    NoiseFloor, OutputAgreement, Protocol, Quantity, QuantityRatio, RatioVerdict, RuntimeLibrary,
    UnsupportedArm,
};
pub use request::{Answer, InputFile, OperatorTime, Profile, Request, Subject};
pub use sample::{
    Arm, Consumer, Count, Counters, OutputDigest, Phase, PhaseSample, Phases, Resources, Sample,
    SteadyRuns,
};
