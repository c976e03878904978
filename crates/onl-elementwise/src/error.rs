use onl_executor::RegionError;
use onl_tensor::{ElementType, TensorError};
use thiserror::Error;

/// Why an elementwise operation could not be chosen or run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ElementwiseError {
    /// A region did not finish.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// A tensor is not what the operation was chosen for.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// Shapes cannot be broadcast to each other.
    #[error("shapes {shapes:?} do not fit together: {reason}")]
    Shapes {
        /// Shapes of all operands.
        shapes: Vec<Vec<usize>>,
        /// The rule that they break.
        reason: String,
    },
    /// An integer was divided by zero.
    #[error("integer division by zero at output position {position}")]
    DivisionByZero {
        /// Smallest row-major position within the output at which it happens.
        position: usize,
    },
    /// The operation is not defined for an element type.
    #[error("{operation} is not defined for elements of type {element_type}")]
    ElementType {
        /// Name of the operation.
        operation: &'static str,
        /// The refused type.
        element_type: ElementType,
    },
    /// A bound or other parameter operand is not a single element.
    #[error("operand {index} must hold one element, its shape is {dims:?}")]
    NotScalar {
        /// Index of the operand.
        index: usize,
        /// Its shape.
        dims: Vec<usize>,
    },
}
