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
    match extension(path).as_str() {
        "npy" => Ok(onl_onnx::read_npy(path)?.into()),
        "pb" => Ok(onl_onnx::read_value_file(path, value_type)?),
        other => Err(unknown(path, other)),
    }
}

/// Writes a value under the name of its graph value to a `.npy` or `.pb` file.
///
/// # Errors
/// [`Error::Onnx`] when the file cannot be written or its format does not hold the value's type.
pub fn write_value(path: &Path, name: &str, value: &Value) -> Result<(), Error> {
    match extension(path).as_str() {
        "npy" => match value.as_tensor() {
            Some(tensor) => Ok(onl_onnx::write_npy(path, tensor)?),
            None => Err(Error::Other(format!("'{name}' is not a tensor and does not fit a .npy file; use .pb"))),
        },
        "pb" => Ok(onl_onnx::write_value_file(path, name, value)?),
        other => Err(unknown(path, other)),
    }
}

fn extension(path: &Path) -> String {
    path.extension().map_or_else(String::new, |e| e.to_string_lossy().to_lowercase())
}

fn unknown(path: &Path, extension: &str) -> Error {
    Error::Other(format!("{}: '.{extension}' files are not read or written here; use .npy or .pb", path.display()))
}
