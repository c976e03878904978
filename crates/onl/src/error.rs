use onl_executor::PolicyError;
use onl_onnx::OnnxError;
use onl_runtime::{RunError, SessionError};
use onl_tensor::TensorError;
use thiserror::Error;

/// What can fail when a session is made or run.
#[derive(Debug, Error)]
pub enum Error {
    /// The builder was given neither a path nor bytes.
    #[error("no model was given; call `model_path` or `model_bytes`")]
    NoModel,
    /// The model file cannot be read.
    #[error(transparent)]
    Onnx(#[from] OnnxError),
    /// The model breaks a rule of ONNX or asks for what this runtime does not have.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A run failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The execution policy cannot be had.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The executor cannot be had.
    #[error(transparent)]
    Executor(#[from] onl_executor::ExecutorError),
    /// The tuning registry refused.
    #[error(transparent)]
    Registry(#[from] onl_tuning::RegistryError),
    /// A tensor could not be made.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// Something else, in words.
    #[error("{0}")]
    Other(String),
}
