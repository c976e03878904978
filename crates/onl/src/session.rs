use crate::{Environment, Error, ProfileSource};
use bytes::Bytes;
use onl_cpu::IsaTier;
use onl_executor::{CpuExecutionPolicy, ExecutorLease, ResolvedCpuExecutionPolicy};
use onl_ir::{Model, TypeInfo};
use onl_onnx::LoadLimits;
use onl_runtime::{RunControl, RuntimeSession, SessionOptions};
use onl_snapshot::{KernelKey, ParameterRow, TuningSnapshot, ValueSource};
use onl_tensor::{Tensor, TensorView, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A model that is ready to run. `Send + Sync`: any number of threads may run it at once.
pub struct Session {
    runtime: RuntimeSession,
    _lease: Arc<ExecutorLease>,
    resolved: ResolvedCpuExecutionPolicy,
    diagnostics: Vec<String>,
    phases: LoadPhases,
}

/// Name and declared type of a model input.
#[derive(Debug, Clone)]
pub struct InputInfo {
    /// Name.
    pub name: String,
    /// Declared type, if any.
    pub value_type: Option<TypeInfo>,
}

/// Where the time of making a session went.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoadPhases {
    /// Opening and mapping the file.
    pub open: Duration,
    /// Reading protobuf into a graph.
    pub parse: Duration,
    /// Inlining, typing and folding the graph.
    pub resolve: Duration,
    /// Preparing kernels, packing constants included.
    pub ready: Duration,
}

/// Phases of making a session, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoadPhase {
    /// Opening and mapping the file.
    Open,
    /// Reading protobuf into a graph.
    Parse,
    /// Leasing an executor and resolving profiles; inlining, typing and folding the graph.
    Resolve,
    /// Preparing kernels, packing constants included.
    Ready,
}

enum ModelSource {
    Path(PathBuf),
    Bytes(Bytes),
    Model(Box<Model>),
}

/// A source after its file was opened.
enum Opened {
    Bytes(Bytes, Option<PathBuf>),
    Model(Box<Model>),
}

/// Collects what a session is made with.
#[derive(Default)]
pub struct SessionBuilder {
    model: Option<ModelSource>,
    environment: Option<Environment>,
    profiles: ProfileSource,
    policy: CpuExecutionPolicy,
    limits: LoadLimits,
    overrides: Vec<(KernelKey, ParameterRow)>,
    tier: Option<IsaTier>,
    observer: Option<Box<dyn FnMut(LoadPhase)>>,
}

impl Session {
    /// A builder with default policy, profiles and limits.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::default()
    }

    /// Inputs in graph order.
    pub fn inputs(&self) -> Vec<InputInfo> {
        self.runtime
            .input_names()
            .enumerate()
            .map(|(index, name)| InputInfo {
                name: name.to_owned(),
                value_type: self.runtime.input_type(index).cloned(),
            })
            .collect()
    }

    /// Names of the outputs in graph order.
    pub fn output_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.runtime.output_names()
    }

    /// One inference. Inputs are given by name in any order; outputs come in graph order.
    ///
    /// # Errors
    /// [`Error::Run`]; the session stays usable.
    pub fn run(&self, inputs: &[(&str, Value)]) -> Result<Vec<Value>, Error> {
        Ok(self.runtime.run(inputs)?)
    }

    /// As [`run`](Self::run), recorded, cancelled or limited in time as asked.
    ///
    /// # Errors
    /// As [`run`](Self::run); [`RunError::Cancelled`](crate::RunError::Cancelled) within.
    pub fn run_with(
        &self,
        inputs: &[(&str, Value)],
        control: RunControl<'_>,
    ) -> Result<Vec<Value>, Error> {
        Ok(self.runtime.run_with(inputs, control)?)
    }

    /// One inference on tensors in graph order into tensors in graph order. Outputs of the right type and shape are
    /// written in place; once a set of input shapes has been run, such runs allocate nothing.
    ///
    /// # Errors
    /// [`Error::Run`]; the session stays usable, the elements of `outputs` are undefined.
    pub fn run_into(&self, inputs: &[TensorView<'_>], outputs: &mut [Tensor]) -> Result<(), Error> {
        Ok(self.runtime.run_into(inputs, outputs)?)
    }

    /// As [`run_into`](Self::run_into), recorded, cancelled or limited in time as asked.
    ///
    /// # Errors
    /// As [`run_into`](Self::run_into); [`RunError::Cancelled`](crate::RunError::Cancelled) within.
    pub fn run_into_with(
        &self,
        inputs: &[TensorView<'_>],
        outputs: &mut [Tensor],
        control: RunControl<'_>,
    ) -> Result<(), Error> {
        Ok(self.runtime.run_into_with(inputs, outputs, control)?)
    }

    /// The snapshot that the session captured.
    pub fn snapshot(&self) -> &Arc<TuningSnapshot> {
        self.runtime.snapshot()
    }

    /// The resolved policy.
    pub fn policy(&self) -> &ResolvedCpuExecutionPolicy {
        &self.resolved
    }

    /// The runtime session behind this one.
    pub fn runtime(&self) -> &RuntimeSession {
        &self.runtime
    }

    /// What a user should know about how the session was made: fallbacks of the policy, problems of the cache.
    pub fn diagnostics(&self) -> &[String] {
        &self.diagnostics
    }

    /// Where the time of making the session went.
    pub fn load_phases(&self) -> LoadPhases {
        self.phases
    }

    /// Number of the session's nodes by the source of their kernel's parameters.
    pub fn value_sources(&self) -> BTreeMap<ValueSource, usize> {
        let mut sources = BTreeMap::new();
        for node in self.runtime.nodes() {
            if let Some(row) = self.snapshot().row(&node.key) {
                *sources.entry(row.source).or_insert(0) += 1;
            }
        }
        sources
    }

    /// Threads, tier, snapshot and profile sources in one line.
    pub fn execution_line(&self) -> String {
        let sources: Vec<String> = self
            .value_sources()
            .iter()
            .map(|(source, count)| format!("{count} {source}"))
            .collect();
        let descriptor = self.resolved.descriptor();
        format!(
            "{} threads, {} wait, {}, snapshot {}, tuned nodes: {}",
            descriptor.participants,
            descriptor.wait_mode,
            self.runtime.tier(),
            self.snapshot().id(),
            if sources.is_empty() {
                "none".to_owned()
            } else {
                sources.join(", ")
            }
        )
    }

    /// The same as data.
    pub fn execution_summary(&self) -> BTreeMap<&'static str, String> {
        let descriptor = self.resolved.descriptor();
        let sources: Vec<String> = self
            .value_sources()
            .iter()
            .map(|(source, count)| format!("{source}:{count}"))
            .collect();
        BTreeMap::from([
            ("threads", descriptor.participants.to_string()),
            ("wait", descriptor.wait_mode),
            ("affinity", descriptor.affinity),
            ("tier", self.runtime.tier().to_string()),
            ("snapshot", self.snapshot().id().to_owned()),
            ("value_sources", sources.join(",")),
            ("diagnostics", self.diagnostics.join("; ")),
        ])
    }
}

impl SessionBuilder {
    /// Reads the model from a file; external data are looked for in its folder.
    pub fn model_path(mut self, path: impl AsRef<Path>) -> Self {
        self.model = Some(ModelSource::Path(path.as_ref().to_owned()));
        self
    }

    /// Reads the model from memory; external data are refused.
    pub fn model_bytes(mut self, bytes: impl Into<Bytes>) -> Self {
        self.model = Some(ModelSource::Bytes(bytes.into()));
        self
    }

    /// Takes a model that was read before.
    pub fn model(mut self, model: Model) -> Self {
        self.model = Some(ModelSource::Model(Box::new(model)));
        self
    }

    /// Calls `observer` at the end of every phase of making the session.
    pub fn observe(mut self, observer: impl FnMut(LoadPhase) + 'static) -> Self {
        self.observer = Some(Box::new(observer));
        self
    }

    /// How the session uses the processor.
    pub fn policy(mut self, policy: CpuExecutionPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Where saved profiles come from; ignored when an environment is given.
    pub fn profiles(mut self, profiles: ProfileSource) -> Self {
        self.profiles = profiles;
        self
    }

    /// Shares table, registry and loaded profiles with other sessions.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Limits on what a model file may ask for.
    pub fn limits(mut self, limits: LoadLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Forces the parameters of one kernel for every size.
    pub fn tuning_override(mut self, key: KernelKey, values: ParameterRow) -> Self {
        self.overrides.push((key, values));
        self
    }

    /// Runs kernels of another instruction-set tier than the best one.
    pub fn tier(mut self, tier: IsaTier) -> Self {
        self.tier = Some(tier);
        self
    }

    /// Loads the model and prepares it.
    ///
    /// # Errors
    /// [`Error`] that says what of model, policy or overrides is wrong.
    pub fn build(self) -> Result<Session, Error> {
        let mut observer = self.observer.unwrap_or_else(|| Box::new(|_| {}));
        let source = self.model.ok_or(Error::NoModel)?;
        let started = Instant::now();
        let source = match source {
            ModelSource::Path(path) => Opened::Bytes(onl_onnx::open_model(&path)?, Some(path)),
            ModelSource::Bytes(bytes) => Opened::Bytes(bytes, None),
            ModelSource::Model(model) => Opened::Model(model),
        };
        let open = started.elapsed();
        observer(LoadPhase::Open);
        let parsing = Instant::now();
        let model = match source {
            Opened::Bytes(bytes, Some(path)) => {
                onl_onnx::read_opened_model(bytes, &path, &self.limits)?
            }
            Opened::Bytes(bytes, None) => onl_onnx::read_model_bytes(bytes, None, &self.limits)?,
            Opened::Model(model) => *model,
        };
        let parse = parsing.elapsed();
        observer(LoadPhase::Parse);
        let environment = self
            .environment
            .unwrap_or_else(|| Environment::new(self.profiles));
        let resolved = environment.resolve(&self.policy)?;
        let mut snapshot = environment.snapshot(&resolved)?;
        for (key, values) in self.overrides {
            let schema = environment.schema(&key)?;
            schema
                .check_row(&values)
                .map_err(|error| Error::Other(format!("override of {key}: {error}")))?;
            snapshot = snapshot.with_override(key, values);
        }
        let lease = environment.lease(&resolved)?;
        let options = SessionOptions {
            table: Arc::clone(environment.table()),
            snapshot: Arc::new(snapshot),
            executor: Arc::clone(lease.executor()),
            descriptor: resolved.descriptor(),
            tier: self.tier.unwrap_or_else(IsaTier::detect),
        };
        let runtime = RuntimeSession::new_observed(&model, options, &mut || {
            observer(LoadPhase::Resolve);
        })?;
        observer(LoadPhase::Ready);
        let (resolve, ready) = runtime.preparation_times();
        let mut diagnostics: Vec<String> = resolved.diagnostics.clone();
        diagnostics.extend(environment.profile_diagnostics(&resolved)?);
        Ok(Session {
            runtime,
            _lease: lease,
            resolved,
            diagnostics,
            phases: LoadPhases {
                open,
                parse,
                resolve,
                ready,
            },
        })
    }
}
