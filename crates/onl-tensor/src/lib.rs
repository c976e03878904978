//! Element types, shapes, tensors and values of ONNX, and the buffers that hold them.
//!
//! Nothing here knows how a tensor is computed. A [`Tensor`] owns or maps its bytes; kernels work on borrowed
//! [`TensorView`]s and [`TensorViewMut`]s.

mod buffer;
mod element;
mod error;
mod mapped;
mod shape;
mod tensor;
mod value;
mod view;

pub use buffer::AlignedBuffer;
pub use element::{Bool, Complex, Element, ElementType};
pub use error::TensorError;
pub use half::{bf16, f16};
pub use mapped::MappedFile;
pub use shape::{Shape, byte_length, element_count, row_major_strides};
pub use tensor::Tensor;
pub use value::Value;
pub use view::{TensorView, TensorViewMut};
