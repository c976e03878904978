use crate::Error;
use onl_ir::TypeInfo;
use onl_tensor::Value;
use std::path::Path;

/// Reads a value from a `.npy` or `.pb` file. A `.pb` file does not tell what it holds: `value_type` does, and a
/// tensor is assumed without it.
///
/// # Errors
/// [`Error::Onnx`] that names the file and what is wrong with it.
pub fn read_value(path: &Path, value_type: Option<&TypeInfo>) -> Result<Value, Error> {
    match value_type {
        // A tensor of another type or shape is refused by the session, which can name the input.
        Some(value_type) if value_type.as_tensor().is_none() => {
            Ok(onl_onnx::read_value_file(path, value_type)?)
        }
        _ => Ok(onl_onnx::read_tensor_file(path)?.into()),
    }
}

/// Writes a value to a `.npy` file (tensors only) or a `.pb` file; the file name's ending tells which.
///
/// # Errors
/// [`Error::Onnx`] when the file cannot be written or its format does not hold the value's type.
pub fn write_value(path: &Path, value: &Value) -> Result<(), Error> {
    match value.as_tensor() {
        Some(tensor) => Ok(onl_onnx::write_tensor_file(path, tensor)?),
        None => Ok(onl_onnx::write_value_pb(path, value)?),
    }
}
