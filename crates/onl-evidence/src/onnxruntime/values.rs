//! Values between tensors and ONNX Runtime.

use super::OnnxRuntimeError;
use super::error::Doing;
use onl_tensor::{ElementType, Tensor};
use ort::memory::Allocator;
use ort::session::SessionInputValue;
use ort::value::{DynTensor, DynTensorValueType, DynValue, TensorElementType, ValueType};

/// Element types of both sides.
const TYPES: [(ElementType, TensorElementType); 26] = [
    (ElementType::Float32, TensorElementType::Float32),
    (ElementType::UInt8, TensorElementType::Uint8),
    (ElementType::Int8, TensorElementType::Int8),
    (ElementType::UInt16, TensorElementType::Uint16),
    (ElementType::Int16, TensorElementType::Int16),
    (ElementType::Int32, TensorElementType::Int32),
    (ElementType::Int64, TensorElementType::Int64),
    (ElementType::String, TensorElementType::String),
    (ElementType::Bool, TensorElementType::Bool),
    (ElementType::Float16, TensorElementType::Float16),
    (ElementType::Float64, TensorElementType::Float64),
    (ElementType::UInt32, TensorElementType::Uint32),
    (ElementType::UInt64, TensorElementType::Uint64),
    (ElementType::Complex64, TensorElementType::Complex64),
    (ElementType::Complex128, TensorElementType::Complex128),
    (ElementType::BFloat16, TensorElementType::Bfloat16),
    (ElementType::Float8E4M3FN, TensorElementType::Float8E4M3FN),
    (
        ElementType::Float8E4M3FNUZ,
        TensorElementType::Float8E4M3FNUZ,
    ),
    (ElementType::Float8E5M2, TensorElementType::Float8E5M2),
    (
        ElementType::Float8E5M2FNUZ,
        TensorElementType::Float8E5M2FNUZ,
    ),
    (ElementType::UInt4, TensorElementType::Uint4),
    (ElementType::Int4, TensorElementType::Int4),
    (ElementType::Float4E2M1, TensorElementType::Float4E2M1),
    (ElementType::Float8E8M0, TensorElementType::Float8E8M0),
    (ElementType::UInt2, TensorElementType::Uint2),
    (ElementType::Int2, TensorElementType::Int2),
];

/// The type of the other side.
pub(super) fn theirs(element_type: ElementType) -> Result<TensorElementType, OnnxRuntimeError> {
    let found = TYPES.iter().find(|(ours, _)| *ours == element_type);
    found.map(|(_, theirs)| *theirs).ok_or_else(|| {
        OnnxRuntimeError::unsupported(format!(
            "ONNX Runtime has no tensors of {element_type} elements"
        ))
    })
}

fn ours(element_type: TensorElementType) -> Result<ElementType, OnnxRuntimeError> {
    let found = TYPES.iter().find(|(_, theirs)| *theirs == element_type);
    found.map(|(ours, _)| *ours).ok_or_else(|| {
        OnnxRuntimeError::unsupported(format!("no tensor here has {element_type} elements"))
    })
}

/// Dimensions as ONNX Runtime takes them.
pub(super) fn dims(dims: &[usize]) -> Vec<i64> {
    dims.iter()
        .map(|&dim| i64::try_from(dim).unwrap_or(i64::MAX))
        .collect()
}

/// A copy of a tensor in memory of ONNX Runtime.
pub(super) fn value(tensor: &Tensor) -> Result<DynTensor, OnnxRuntimeError> {
    let making = || format!("making a tensor of {}", tensor.element_type());
    if let Ok(strings) = tensor.as_strings() {
        let value = ort::value::Tensor::from_string_array((dims(tensor.dims()), strings));
        return Ok(value.doing(making)?.upcast());
    }
    let allocator = Allocator::default();
    let element_type = theirs(tensor.element_type())?;
    let mut value = DynTensor::new(&allocator, element_type, dims(tensor.dims())).doing(making)?;
    let bytes = tensor.bytes();
    if value.size() != Some(bytes.len()) {
        return Err(OnnxRuntimeError::unsupported(format!(
            "ONNX Runtime stores {} elements otherwise than ONNX",
            tensor.element_type()
        )));
    }
    if !bytes.is_empty() {
        let target = value.data_ptr_mut().cast::<u8>();
        // SAFETY: `target` is the new tensor's own memory on the CPU, of `bytes.len()` bytes as was just checked; it
        // overlaps nothing that Rust owns.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) };
    }
    Ok(value)
}

/// A copy of a tensor of ONNX Runtime.
pub(super) fn tensor(name: &str, value: &DynValue) -> Result<Tensor, OnnxRuntimeError> {
    if !matches!(value.dtype(), ValueType::Tensor { .. }) {
        return Err(OnnxRuntimeError::unsupported(format!(
            "output '{name}' is not a tensor, only tensors are compared"
        )));
    }
    let reading = || format!("reading output '{name}'");
    let value = value
        .view()
        .downcast::<DynTensorValueType>()
        .doing(reading)?;
    let dims: Vec<usize> = value
        .shape()
        .iter()
        .map(|&dim| usize::try_from(dim).unwrap_or(0))
        .collect();
    let element_type = ours(*value.data_type())?;
    let made = |made: Result<Tensor, onl_tensor::TensorError>| {
        made.map_err(|error| OnnxRuntimeError::Call {
            action: reading(),
            reason: error.to_string(),
        })
    };
    if element_type == ElementType::String {
        let (_, strings) = value.try_extract_strings().doing(reading)?;
        return made(Tensor::from_strings(&dims, strings));
    }
    let length = value.size().unwrap_or(0);
    if length == 0 {
        return made(Tensor::zeros(element_type, &dims));
    }
    let bytes = value.data_ptr().cast::<u8>();
    // SAFETY: the value is borrowed for as long as the slice lives, lies on the CPU because only the CPU provider is
    // there, and has this many bytes by its own account.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, length) };
    made(Tensor::from_bytes(element_type, &dims, bytes))
}

/// Inputs of a model, in memory of ONNX Runtime.
#[derive(Debug)]
pub struct InputValues(pub(super) Vec<(String, DynTensor)>);

impl InputValues {
    pub(super) fn new(inputs: &[(String, Tensor)]) -> Result<Self, OnnxRuntimeError> {
        let values = inputs
            .iter()
            .map(|(name, tensor)| Ok((name.clone(), value(tensor)?)));
        Ok(InputValues(values.collect::<Result<_, _>>()?))
    }

    /// The values as a run takes them.
    pub(super) fn named(&self) -> Vec<(&str, SessionInputValue<'_>)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.into()))
            .collect()
    }
}
