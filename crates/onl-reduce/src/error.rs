use onl_executor::RegionError;
use onl_tensor::{ElementType, TensorError};
use thiserror::Error;

/// Why a reduction could not be computed.
#[derive(Debug, Clone, PartialEq, Error)]
#[allow(missing_docs)]
pub enum ReduceError {
    #[error(transparent)]
    Region(#[from] RegionError),
    #[error(transparent)]
    Tensor(#[from] TensorError),
    #[error("shapes {shapes:?} do not fit together: {reason}")]
    Shapes {
        shapes: Vec<Vec<usize>>,
        reason: String,
    },
    #[error("{operation} is not served for elements of {element_type}; cast them first")]
    ElementType {
        operation: &'static str,
        element_type: ElementType,
    },
    #[error("{needed} bytes of scratch memory are needed, {given} were given")]
    Workspace { needed: usize, given: usize },
}

impl ReduceError {
    pub(crate) fn shapes(shapes: &[&[usize]], reason: impl Into<String>) -> Self {
        ReduceError::Shapes {
            shapes: shapes.iter().map(|s| s.to_vec()).collect(),
            reason: reason.into(),
        }
    }
}
