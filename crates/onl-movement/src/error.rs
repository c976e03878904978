use onl_executor::RegionError;
use onl_tensor::{ElementType, TensorError};
use thiserror::Error;

/// Why data could not be moved.
#[derive(Debug, Clone, PartialEq, Error)]
#[allow(missing_docs)]
pub enum MovementError {
    #[error(transparent)]
    Region(#[from] RegionError),
    #[error(transparent)]
    Tensor(#[from] TensorError),
    #[error("shapes {shapes:?} do not fit together: {reason}")]
    Shapes {
        shapes: Vec<Vec<usize>>,
        reason: String,
    },
    /// `position` is the row-major position of the index within the tensor of indices; the smallest one when several
    /// are out of range.
    #[error("index {index} at position {position} is out of range for axis {axis} of size {size}")]
    IndexOutOfRange {
        index: i64,
        position: usize,
        axis: usize,
        size: usize,
    },
    #[error("elements of {element_type} are narrower than a byte; cast them to a wider type first")]
    SubByte { element_type: ElementType },
    #[error("elements of {element_type} cannot be reduced by '{reduction}'")]
    Reduction {
        reduction: &'static str,
        element_type: ElementType,
    },
    #[error("elements of {element_type} are not compared with zero")]
    Zero { element_type: ElementType },
    #[error("elements of {from} cannot be cast to {to}")]
    Cast { from: ElementType, to: ElementType },
    /// `position` is that of the first string that does not parse.
    #[error("string {text:?} at position {position} is not a number that {to} can be parsed from")]
    Parse {
        text: String,
        position: usize,
        to: ElementType,
    },
}

impl MovementError {
    pub(crate) fn shapes(shapes: &[&[usize]], reason: impl Into<String>) -> Self {
        MovementError::Shapes {
            shapes: shapes.iter().map(|s| s.to_vec()).collect(),
            reason: reason.into(),
        }
    }
}
