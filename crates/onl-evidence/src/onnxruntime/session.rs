use super::error::Doing;
use super::{EditedModel, InputValues, OnnxRuntimeError, values};
use onl_ir::Model;
use onl_tensor::Tensor;
use ort::AsPointer;
use ort::environment::Environment;
use ort::memory::Allocator;
use ort::session::builder::SessionBuilder;
use ort::session::{IoBinding, Session};
use ort::value::DynTensor;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a session of ONNX Runtime uses the processor. The graph is optimized as by default, one node runs after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSettings {
    /// Threads within a node, the caller included.
    pub threads: usize,
    /// Whether idle threads spin for a while before they sleep.
    pub spin: bool,
    /// Logical CPU of each thread, the caller's first; empty for wherever the system puts them. The caller's place is not
    /// ONNX Runtime's to choose.
    pub cpus: Vec<u32>,
    /// Whether denormal numbers are flushed to zero.
    pub flush_denormals: bool,
    /// Begin of the name of a file for a profile.
    pub profile: Option<PathBuf>,
}

/// A model that ONNX Runtime has loaded.
#[derive(Debug)]
pub struct OnnxRuntimeSession {
    binding: Option<IoBinding>,
    session: Session,
    /// Holds the constants that the session borrows; declared last, so that it is dropped last.
    _borrowed: Option<Arc<Model>>,
}

fn builder(
    environment: &Environment,
    settings: &SessionSettings,
) -> Result<SessionBuilder, OnnxRuntimeError> {
    let options = || "setting session options".to_owned();
    let mut builder = Session::builder(environment)
        .doing(options)?
        .with_intra_threads(settings.threads)
        .doing(options)?
        .with_inter_threads(1)
        .doing(options)?
        .with_intra_op_spinning(settings.spin)
        .doing(options)?;
    if settings.flush_denormals {
        builder = builder.with_flush_to_zero().doing(options)?;
    }
    if settings.threads > 1 && settings.cpus.len() == settings.threads {
        // One place for every thread but the caller; the option counts processors from 1.
        let places: Vec<String> = settings.cpus[1..]
            .iter()
            .map(|cpu| (cpu + 1).to_string())
            .collect();
        builder = builder
            .with_config_entry("session.intra_op_thread_affinities", places.join(";"))
            .doing(options)?;
    }
    if let Some(prefix) = &settings.profile {
        builder = builder.with_profiling(prefix).doing(options)?;
    }
    Ok(builder)
}

/// Writes the model of one file in ONNX Runtime's own format, optimized for this machine.
pub(super) fn write_ort_format(
    environment: &Environment,
    onnx: &Path,
    ort: &Path,
) -> Result<(), OnnxRuntimeError> {
    let writing = || format!("writing {}", ort.display());
    let settings = SessionSettings {
        threads: 1,
        spin: false,
        cpus: Vec::new(),
        flush_denormals: false,
        profile: None,
    };
    builder(environment, &settings)?
        .with_config_entry("session.save_model_format", "ORT")
        .doing(writing)?
        .with_optimized_model_path(ort)
        .doing(writing)?
        .commit_from_file(onnx)
        .doing(writing)?;
    Ok(())
}

impl OnnxRuntimeSession {
    pub(super) fn of_file(
        environment: &Environment,
        path: &Path,
        settings: &SessionSettings,
    ) -> Result<Self, OnnxRuntimeError> {
        let session = builder(environment, settings)?
            .commit_from_file(path)
            .doing(|| format!("loading {}", path.display()))?;
        Ok(OnnxRuntimeSession {
            binding: None,
            session,
            _borrowed: None,
        })
    }

    pub(super) fn of_model(
        environment: &Environment,
        model: EditedModel,
        settings: &SessionSettings,
    ) -> Result<Self, OnnxRuntimeError> {
        let mut builder = builder(environment, settings)?;
        let (session, borrowed) = model.into_session(&mut builder)?;
        Ok(OnnxRuntimeSession {
            binding: None,
            session,
            _borrowed: Some(borrowed),
        })
    }

    /// One run whose outputs ONNX Runtime allocates.
    ///
    /// # Errors
    /// [`OnnxRuntimeError::Call`] with what ONNX Runtime says.
    pub fn run(&mut self, inputs: &InputValues) -> Result<Outputs<'_>, OnnxRuntimeError> {
        let outputs = self
            .session
            .run(inputs.named())
            .doing(|| "running".to_owned())?;
        Ok(Outputs(outputs))
    }

    /// Binds inputs, and memory of its own for outputs of the types and shapes of `outputs`.
    ///
    /// # Errors
    /// [`OnnxRuntimeError::Call`] with what ONNX Runtime says.
    pub fn bind(
        &mut self,
        inputs: &InputValues,
        outputs: &[(String, Tensor)],
    ) -> Result<(), OnnxRuntimeError> {
        let binding = || "binding inputs and outputs".to_owned();
        let mut bound = self.session.create_binding().doing(binding)?;
        for (name, value) in &inputs.0 {
            bound.bind_input(name, value).doing(binding)?;
        }
        let allocator = Allocator::default();
        for (name, tensor) in outputs {
            let element_type = values::theirs(tensor.element_type())?;
            let value = DynTensor::new(&allocator, element_type, values::dims(tensor.dims()))
                .doing(binding)?;
            bound.bind_output(name, value).doing(binding)?;
        }
        self.binding = Some(bound);
        Ok(())
    }

    /// One run on what was bound.
    ///
    /// # Errors
    /// [`OnnxRuntimeError::Call`] with what ONNX Runtime says, or when nothing was bound.
    pub fn run_bound(&mut self) -> Result<(), OnnxRuntimeError> {
        let Some(binding) = &self.binding else {
            return Err(OnnxRuntimeError::Call {
                action: "running on bound values".to_owned(),
                reason: "no values were bound".to_owned(),
            });
        };
        let run = ort::api().RunWithBinding;
        // SAFETY: session and binding live, the binding was made by this session, no options are given, and `&mut self`
        // keeps other runs away.
        let status = unsafe {
            run(
                self.session.ptr().cast_mut(),
                std::ptr::null(),
                binding.ptr(),
            )
        };
        // SAFETY: the status was just given by the library and nobody else has it.
        unsafe { ort::Error::result_from_status(status) }.doing(|| "running".to_owned())
    }

    /// Ends the profile and gives its file.
    ///
    /// # Errors
    /// [`OnnxRuntimeError::Call`] with what ONNX Runtime says.
    pub fn end_profile(&mut self) -> Result<PathBuf, OnnxRuntimeError> {
        let ended = self.session.end_profiling();
        Ok(PathBuf::from(
            ended.doing(|| "ending the profile".to_owned())?,
        ))
    }
}

/// Outputs of a run, in memory of ONNX Runtime.
pub struct Outputs<'s>(ort::session::SessionOutputs<'s>);

impl Outputs<'_> {
    /// Copies of the outputs, in graph order.
    ///
    /// # Errors
    /// [`OnnxRuntimeError::Unsupported`] for an output that is no tensor.
    pub fn tensors(&self) -> Result<Vec<(String, Tensor)>, OnnxRuntimeError> {
        let copied = self
            .0
            .iter()
            .map(|(name, value)| Ok((name.to_owned(), values::tensor(name, &value)?)));
        copied.collect()
    }
}
