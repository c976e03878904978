//! ONNX files as plain data: models between protobuf and [`onl_ir::Model`], external data, and the `.npy` and
//! `.pb` files that hold single values.
//!
//! Reading maps files and shares their bytes ([`read_model`]); writing goes to a file beside the target that
//! is renamed at the end ([`write_model`]), so that mappings of an older file stay whole. Nothing here knows an
//! operator: checks are those of structure.

#![forbid(unsafe_code)]

mod attribute;
mod error;
mod external;
mod function;
mod limits;
mod npy;
mod proto;
mod read;
mod read_graph;
mod tensor;
#[cfg(test)]
mod tests;
mod types;
mod value_file;
mod write;

pub use error::{ExternalProblem, OnnxError, Problem};
pub use limits::LoadLimits;
pub use npy::{npy_from_bytes, npy_to_bytes, read_npy, write_npy};
pub use read::{NEWEST_IR_VERSION, open_model, read_model, read_model_bytes, read_opened_model};
pub use value_file::{
    read_tensor_file, read_value_file, read_value_pb, value_from_pb_bytes, value_to_pb_bytes,
    write_tensor_file, write_value_pb,
};
pub use write::{WriteOptions, model_to_bytes, write_model, write_model_with};
