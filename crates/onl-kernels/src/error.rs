use onl_executor::{Cancelled, RegionError};
use onl_ir::GraphError;
use onl_tensor::{ElementType, TensorError};
use thiserror::Error;

/// Why a node could not be prepared: the model asks for something that its operator or this runtime forbids.
#[derive(Debug, Clone, PartialEq, Error)]
#[allow(missing_docs)]
pub enum PrepareError {
    #[error(transparent)]
    Graph(#[from] GraphError),
    #[error("attribute '{attribute}': {reason}")]
    Attribute {
        attribute: &'static str,
        reason: String,
    },
    #[error("input {index} is missing; the operator requires it")]
    MissingInput { index: usize },
    #[error("{what} inputs or outputs: the operator takes {expected}, the node has {actual}")]
    Arity {
        what: &'static str,
        expected: String,
        actual: usize,
    },
    #[error("element type {element_type} of input {index} is not allowed here; {allowed}")]
    ElementType {
        index: usize,
        element_type: ElementType,
        allowed: String,
    },
    #[error(transparent)]
    Tensor(#[from] TensorError),
    #[error("{0}")]
    Other(String),
}

/// Why a kernel could not run on the values that it got.
#[derive(Debug, Clone, PartialEq, Error)]
#[allow(missing_docs)]
pub enum KernelError {
    #[error(transparent)]
    Region(#[from] RegionError),
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    #[error(transparent)]
    Tensor(#[from] TensorError),
    #[error("shapes {shapes:?} do not fit together: {reason}")]
    Shapes {
        shapes: Vec<Vec<usize>>,
        reason: String,
    },
    /// `position` is the row-major position of the index within the tensor of indices.
    #[error("index {index} at position {position} is out of range for axis {axis} of size {size}")]
    IndexOutOfRange {
        index: i64,
        position: usize,
        axis: usize,
        size: usize,
    },
    /// `position` is the row-major position within the output.
    #[error("integer division by zero at output position {position}")]
    DivisionByZero { position: usize },
    #[error("input {index}: {reason}")]
    InvalidInput { index: usize, reason: String },
    #[error("{0}")]
    Other(String),
}

impl KernelError {
    /// The cancellation that ended the kernel, if one did.
    pub fn cancelled(&self) -> Option<Cancelled> {
        match self {
            KernelError::Cancelled(cancelled)
            | KernelError::Region(RegionError::Cancelled { cancelled, .. }) => Some(*cancelled),
            _ => None,
        }
    }
}
