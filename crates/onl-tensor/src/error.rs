use crate::ElementType;
use thiserror::Error;

/// Why a tensor could not be made or looked at.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TensorError {
    /// The number of elements or bytes of a shape does not fit an address space.
    #[error("shape {dims:?} of {element_type} overflows the address space; use smaller dimensions")]
    Overflow {
        /// Dimensions of the refused shape.
        dims: Vec<usize>,
        /// Element type of the refused tensor.
        element_type: ElementType,
    },
    /// The data have another length than the shape asks for.
    #[error(
        "shape {dims:?} of {element_type} needs {expected} {unit}, the data have {actual}; \
         give data of exactly that length"
    )]
    Length {
        /// Dimensions of the tensor.
        dims: Vec<usize>,
        /// Element type of the tensor.
        element_type: ElementType,
        /// What is counted: bytes or elements.
        unit: &'static str,
        /// Count that the shape asks for.
        expected: usize,
        /// Count that was given.
        actual: usize,
    },
    /// A typed look at a tensor of another element type.
    #[error("tensor holds {actual}, not {expected}")]
    ElementType {
        /// Asked element type.
        expected: ElementType,
        /// Element type of the tensor.
        actual: ElementType,
    },
    /// Memory for the tensor could not be had.
    #[error("could not allocate {bytes} bytes for a tensor")]
    OutOfMemory {
        /// Size of the refused allocation in bytes.
        bytes: usize,
    },
}
