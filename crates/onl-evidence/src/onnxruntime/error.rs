use super::{FILE_NAME, RELEASE};
use std::path::PathBuf;
use thiserror::Error;

/// Why ONNX Runtime cannot be used, or refuses.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum OnnxRuntimeError {
    #[error(
        "there is no library of ONNX Runtime at {}; fetch it with `cargo xtask fetch-models onnxruntime`, or name the file \
         {FILE_NAME} of the Python package onnxruntime with --ort-lib",
        path.display()
    )]
    NoLibrary { path: PathBuf },
    #[error(
        "{} is not the library of ONNX Runtime {RELEASE}: {reason}; fetch it with `cargo xtask fetch-models onnxruntime`",
        path.display()
    )]
    WrongLibrary { path: PathBuf, reason: String },
    #[error("{action} {}: {source}", path.display())]
    File {
        action: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("ONNX Runtime, {action}: {reason}")]
    Call { action: String, reason: String },
    #[error("{what}")]
    Unsupported { what: String },
    #[error("the profile of ONNX Runtime is not of the expected form: {reason}")]
    Profile { reason: String },
}

impl OnnxRuntimeError {
    /// What cannot be expressed.
    pub(super) fn unsupported(what: impl Into<String>) -> Self {
        OnnxRuntimeError::Unsupported { what: what.into() }
    }
}

/// Names what was being done when ONNX Runtime refused.
pub(super) trait Doing<T> {
    fn doing(self, action: impl FnOnce() -> String) -> Result<T, OnnxRuntimeError>;
}

impl<T, R> Doing<T> for Result<T, ort::Error<R>> {
    fn doing(self, action: impl FnOnce() -> String) -> Result<T, OnnxRuntimeError> {
        self.map_err(|error| OnnxRuntimeError::Call {
            action: action(),
            reason: error.message().to_owned(),
        })
    }
}
