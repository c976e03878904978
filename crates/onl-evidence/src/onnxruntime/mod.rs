//! ONNX Runtime, loaded at run time: sessions on files and on graphs of this project's loader.
//!
//! This is the only part that knows the other runtime. Nothing loads the library before [`Library::load`].

mod error;
mod graph;
mod profile;
mod session;
mod values;

pub use error::OnnxRuntimeError;
pub use graph::EditedModel;
pub use profile::{ProfiledOperator, read_profile};
pub use session::{OnnxRuntimeSession, SessionSettings};
pub use values::InputValues;

use crate::attribution::{RuntimeLibrary, file_sha256};
use onl_ir::Model;
use onl_tensor::Tensor;
use ort::environment::Environment;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The release whose library is accepted: figures of another one would answer another question.
pub const RELEASE: &str = "1.32";

/// File name of the library.
pub const FILE_NAME: &str = "libonnxruntime.so.1.32.0";

/// The library of ONNX Runtime with its environment. There is one in a process.
#[derive(Debug)]
pub struct Library {
    path: PathBuf,
    version: String,
    environment: Environment,
}

/// SHA-256 of bytes as lower-case hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Version that a library tells of itself.
fn version_of(path: &Path) -> Result<String, String> {
    // SAFETY: loading runs the library's initializers; the user names a library of ONNX Runtime, whose initializers
    // need nothing from their host.
    let library = unsafe { libloading::Library::new(path) }.map_err(|error| error.to_string())?;
    type ApiBase = unsafe extern "C" fn() -> *const ort::sys::OrtApiBase;
    // SAFETY: every library of ONNX Runtime exports this function with this signature.
    let base = unsafe { library.get::<ApiBase>(b"OrtGetApiBase") }
        .map_err(|_| "it has no function OrtGetApiBase".to_owned())?;
    // SAFETY: the function takes nothing, and gives null or a structure that lives as long as the library.
    let base = unsafe { base().as_ref() }.ok_or("OrtGetApiBase gives nothing")?;
    // SAFETY: the function gives a text that ends with a zero byte and lives as long as the library, which is open.
    let version = unsafe { std::ffi::CStr::from_ptr((base.GetVersionString)()) };
    Ok(version.to_string_lossy().into_owned())
}

impl Library {
    /// Loads the library and makes its environment.
    ///
    /// # Errors
    /// [`OnnxRuntimeError`] when there is no such file, it is no library of ONNX Runtime, or one of another release.
    pub fn load(path: &Path) -> Result<Self, OnnxRuntimeError> {
        if !path.is_file() {
            return Err(OnnxRuntimeError::NoLibrary {
                path: path.to_owned(),
            });
        }
        let wrong = |reason: String| OnnxRuntimeError::WrongLibrary {
            path: path.to_owned(),
            reason,
        };
        let version = version_of(path).map_err(wrong)?;
        if version.split('.').take(2).ne(RELEASE.split('.')) {
            return Err(wrong(format!("it is release {version}")));
        }
        let builder = ort::init_from(path).map_err(|error| wrong(error.to_string()))?;
        let environment = builder
            .with_telemetry(false)
            .with_name("onl")
            .build()
            .map_err(|error| wrong(error.to_string()))?;
        Ok(Library {
            path: path.to_owned(),
            version,
            environment,
        })
    }

    /// What the library tells of itself.
    ///
    /// # Errors
    /// [`OnnxRuntimeError::File`] when its file cannot be read.
    pub fn describe(&self) -> Result<RuntimeLibrary, OnnxRuntimeError> {
        let sha256 = file_sha256(&self.path).map_err(|source| OnnxRuntimeError::File {
            action: "reading the library",
            path: self.path.clone(),
            source,
        })?;
        Ok(RuntimeLibrary {
            version: self.version.clone(),
            build: ort::info().to_owned(),
            sha256,
        })
    }

    /// Copies inputs into values of ONNX Runtime.
    ///
    /// # Errors
    /// [`OnnxRuntimeError`] when it has no such element type, or no memory.
    pub fn inputs(&self, inputs: &[(String, Tensor)]) -> Result<InputValues, OnnxRuntimeError> {
        InputValues::new(inputs)
    }

    /// A session on a file: `.onnx`, or `.ort` that ONNX Runtime wrote.
    ///
    /// # Errors
    /// [`OnnxRuntimeError::Call`] with what ONNX Runtime says.
    pub fn session(
        &self,
        path: &Path,
        settings: &SessionSettings,
    ) -> Result<OnnxRuntimeSession, OnnxRuntimeError> {
        OnnxRuntimeSession::of_file(&self.environment, path, settings)
    }

    /// Builds a model of ONNX Runtime through its Model Editor. Initializers of at least
    /// [`EditedModel::LEAST_BORROWED_BYTES`] are borrowed from `model`, which the result keeps.
    ///
    /// # Errors
    /// [`OnnxRuntimeError::Unsupported`] for what the editor cannot express.
    pub fn edited_model(&self, model: Arc<Model>) -> Result<EditedModel, OnnxRuntimeError> {
        EditedModel::new(model)
    }

    /// A session on an edited model.
    ///
    /// # Errors
    /// [`OnnxRuntimeError::Call`] with what ONNX Runtime says.
    pub fn session_of_model(
        &self,
        model: EditedModel,
        settings: &SessionSettings,
    ) -> Result<OnnxRuntimeSession, OnnxRuntimeError> {
        OnnxRuntimeSession::of_model(&self.environment, model, settings)
    }

    /// Lets ONNX Runtime write a model in its own format.
    ///
    /// # Errors
    /// [`OnnxRuntimeError::Call`] with what ONNX Runtime says.
    pub fn write_ort_format(&self, onnx: &Path, ort: &Path) -> Result<(), OnnxRuntimeError> {
        session::write_ort_format(&self.environment, onnx, ort)
    }
}
