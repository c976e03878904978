use onl_executor::Cancelled;
use onl_ir::GraphError;
use onl_kernels::{InferError, KernelError, LookupError, PrepareError};
use onl_tensor::{ElementType, TensorError};
use thiserror::Error;

/// Why a session could not be made from a model.
#[derive(Debug, Clone, PartialEq, Error)]
#[allow(missing_docs)]
pub enum SessionError {
    #[error("{node}: domain '{domain}' is not imported by the model; add it to opset_import")]
    DomainNotImported { node: String, domain: String },
    #[error(
        "the model imports version {version} of the operator set ai.onnx; this runtime knows versions 1 to {newest}"
    )]
    UnknownOpset { version: i64, newest: i64 },
    #[error("{node}: {source}")]
    Lookup { node: String, source: LookupError },
    #[error("{node}: {source}")]
    Infer { node: String, source: InferError },
    #[error("{node}: {source}")]
    Prepare { node: String, source: PrepareError },
    #[error("{node}: the type of input {index} ('{value}') is not known; declare it in the model")]
    UnknownType {
        node: String,
        index: usize,
        value: String,
    },
    #[error("{node} could not be computed ahead of time: {source}")]
    Fold { node: String, source: KernelError },
    #[error("value '{value}' is declared as {declared} but its node gives {inferred}")]
    DeclaredType {
        value: String,
        declared: ElementType,
        inferred: ElementType,
    },
    #[error("model-local function {function} calls itself; ONNX functions must not recurse")]
    RecursiveFunction { function: String },
    #[error(
        "{node}: attribute '{attribute}' refers to '{referred}', which the calling node does not give"
    )]
    MissingAttribute {
        node: String,
        attribute: String,
        referred: String,
    },
    #[error(transparent)]
    Graph(#[from] GraphError),
    #[error(transparent)]
    Tensor(#[from] TensorError),
    #[error(
        "the tuning snapshot was resolved for another execution identity than the executor has; \
         resolve it with the descriptor of the session's policy"
    )]
    SnapshotMismatch,
}

/// Why the inputs of a run do not fit the model.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum InputError {
    #[error("the model has no input '{name}'; its inputs are: {known}")]
    UnknownName { name: String, known: String },
    #[error(
        "input '{name}' has a constant value in the model and cannot be given; remove it from the inputs"
    )]
    Initializer { name: String },
    #[error("input '{name}' is missing")]
    Missing { name: String },
    #[error("input '{name}' is given twice")]
    Duplicate { name: String },
    #[error("input '{name}' has element type {actual}; the model wants {expected}")]
    ElementType {
        name: String,
        expected: ElementType,
        actual: ElementType,
    },
    #[error("input '{name}' has rank {actual}; the model wants rank {expected} ({declared})")]
    Rank {
        name: String,
        expected: usize,
        actual: usize,
        declared: String,
    },
    #[error(
        "input '{name}' has size {actual} on axis {axis}; the model wants {expected} ({reason})"
    )]
    Dimension {
        name: String,
        axis: usize,
        expected: usize,
        actual: usize,
        reason: String,
    },
    #[error("input '{name}' must be a tensor")]
    NotATensor { name: String },
    #[error("{given} outputs are bound; the model has {expected}")]
    OutputCount { given: usize, expected: usize },
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum RunError {
    /// The inputs do not fit the model.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The run was cancelled; the session stays usable.
    #[error("{cancelled}, at {node}")]
    Cancelled {
        /// The node that was running or would have been next.
        node: String,
        /// Why.
        cancelled: Cancelled,
    },
    /// A node failed.
    #[error("{node}: {source}")]
    Node {
        /// The node.
        node: String,
        /// What went wrong in its kernel.
        source: KernelError,
    },
    /// An output is not a tensor and cannot be bound.
    #[error("output '{name}' is not a tensor; use `run` instead of `run_into`")]
    OutputNotATensor {
        /// Name of the output.
        name: String,
    },
    /// Memory for an output or a buffer could not be had.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// The executor refused the run.
    #[error(transparent)]
    Executor(#[from] onl_executor::ExecutorError),
}

impl RunError {
    /// What a kernel's error is for the run.
    pub(crate) fn of_node(node: &str, source: KernelError) -> Self {
        let node = node.to_owned();
        match source.cancelled() {
            Some(cancelled) => RunError::Cancelled { node, cancelled },
            None => RunError::Node { node, source },
        }
    }
}
