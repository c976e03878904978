//! Tensors between `TensorProto` and memory.

use crate::external::ExternalData;
use crate::proto::*;
use crate::types::element_type;
use crate::{ExternalProblem, LoadLimits, OnnxError, Problem};
use bytes::Bytes;
use onl_tensor::{AlignedBuffer, Element, ElementType, Tensor, Value, byte_length, element_count};
use std::sync::Arc;

/// The field of a `TensorProto` that holds elements of a type when `raw_data` does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Float,
    Int32,
    Int64,
    Double,
    Uint64,
    String,
}

impl Field {
    fn of(element_type: ElementType) -> Self {
        use ElementType::*;
        match element_type {
            Float32 | Complex64 => Field::Float,
            Float64 | Complex128 => Field::Double,
            Int64 => Field::Int64,
            UInt32 | UInt64 => Field::Uint64,
            String => Field::String,
            Int32 | Int16 | Int8 | UInt16 | UInt8 | Bool | Float16 | BFloat16 | Float8E4M3FN
            | Float8E4M3FNUZ | Float8E5M2 | Float8E5M2FNUZ | Float8E8M0 | UInt4 | Int4
            | Float4E2M1 | UInt2 | Int2 => Field::Int32,
        }
    }

    const ALL: [Field; 6] = [
        Field::Float,
        Field::Int32,
        Field::Int64,
        Field::Double,
        Field::Uint64,
        Field::String,
    ];

    fn name(self) -> &'static str {
        match self {
            Field::Float => "float_data",
            Field::Int32 => "int32_data",
            Field::Int64 => "int64_data",
            Field::Double => "double_data",
            Field::Uint64 => "uint64_data",
            Field::String => "string_data",
        }
    }

    fn len(self, proto: &TensorProto) -> usize {
        match self {
            Field::Float => proto.float_data.len(),
            Field::Int32 => proto.int32_data.len(),
            Field::Int64 => proto.int64_data.len(),
            Field::Double => proto.double_data.len(),
            Field::Uint64 => proto.uint64_data.len(),
            Field::String => proto.string_data.len(),
        }
    }
}

/// Dimensions as sizes.
pub(crate) fn sizes(dims: &[i64]) -> Result<Vec<usize>, OnnxError> {
    dims.iter()
        .map(|&dim| usize::try_from(dim).map_err(|_| OnnxError::new(Problem::Dimension { dim })))
        .collect()
}

/// The tensor of a message. Raw and external bytes are shared, not copied, where they are aligned.
pub(crate) fn tensor_from_proto(
    proto: &TensorProto,
    external: &mut ExternalData,
) -> Result<Tensor, OnnxError> {
    let element_type = element_type(proto.data_type)?;
    let dims = sizes(&proto.dims)?;
    let bytes = byte_length(element_type, &dims)?;
    let count = element_count(&dims).unwrap_or(0);
    if proto.segment.is_some() {
        return Err(OnnxError::new(Problem::DataField {
            element_type,
            found: "a segment of a larger tensor".to_owned(),
            expected: "one whole tensor",
        }));
    }
    if proto.data_location == DATA_LOCATION_EXTERNAL {
        if element_type == ElementType::String {
            return Err(OnnxError::new(Problem::External {
                location: String::new(),
                reason: ExternalProblem::Strings,
            }));
        }
        let entries = proto
            .external_data
            .iter()
            .map(|entry| (entry.key.as_str(), entry.value.as_str()));
        let shared = external.bytes(entries, bytes as u64)?;
        return Ok(Tensor::from_shared(element_type, &dims, shared)?);
    }

    let field = Field::of(element_type);
    let mut filled: Vec<&str> = Field::ALL
        .iter()
        .filter(|f| f.len(proto) > 0)
        .map(|f| f.name())
        .collect();
    let raw = proto.raw_data.as_ref().filter(|raw| !raw.is_empty());
    if raw.is_some() {
        filled.push("raw_data");
    }
    let expected = if filled.contains(&"raw_data") && element_type != ElementType::String {
        "raw_data"
    } else {
        field.name()
    };
    if filled.iter().any(|&name| name != expected) {
        return Err(OnnxError::new(Problem::DataField {
            element_type,
            found: filled.join(" and "),
            expected,
        }));
    }
    if let Some(raw) = raw {
        check_length(element_type, &dims, "raw_data", bytes, raw.len())?;
        return Ok(Tensor::from_shared(element_type, &dims, raw.clone())?);
    }

    let entries = match element_type {
        ElementType::Complex64 | ElementType::Complex128 => 2 * count,
        // Below one byte, an entry holds the packed elements of one byte.
        _ if element_type.bits() > 0 && element_type.bits() < 8 => bytes,
        _ => count,
    };
    check_length(element_type, &dims, field.name(), entries, field.len(proto))?;
    from_entries(proto, element_type, &dims, bytes, field)
}

fn from_entries(
    proto: &TensorProto,
    element_type: ElementType,
    dims: &[usize],
    bytes: usize,
    field: Field,
) -> Result<Tensor, OnnxError> {
    if field == Field::String {
        return Ok(Tensor::from_strings(dims, strings(&proto.string_data)?)?);
    }
    let mut buffer = AlignedBuffer::zeroed(bytes)?;
    let out = buffer.as_bytes_mut();
    match field {
        Field::Float => put(out, proto.float_data.iter().map(|v| v.to_le_bytes())),
        Field::Double => put(out, proto.double_data.iter().map(|v| v.to_le_bytes())),
        Field::Int64 => put(out, proto.int64_data.iter().map(|v| v.to_le_bytes())),
        Field::Uint64 if element_type == ElementType::UInt64 => {
            put(out, proto.uint64_data.iter().map(|v| v.to_le_bytes()));
        }
        Field::Uint64 => {
            for (index, (&value, out)) in proto
                .uint64_data
                .iter()
                .zip(out.chunks_exact_mut(4))
                .enumerate()
            {
                let narrow = u32::try_from(value)
                    .map_err(|_| out_of_range(element_type, field, index, value.into()))?;
                out.copy_from_slice(&narrow.to_le_bytes());
            }
        }
        Field::Int32 => {
            let width = element_type.bits().div_ceil(8);
            // Producers store small types sign-extended or zero-extended; both mean the same low bits.
            let (low, high) = match width {
                1 => (i32::from(i8::MIN), i32::from(u8::MAX)),
                2 => (i32::from(i16::MIN), i32::from(u16::MAX)),
                _ => (i32::MIN, i32::MAX),
            };
            for (index, (&value, out)) in proto
                .int32_data
                .iter()
                .zip(out.chunks_exact_mut(width))
                .enumerate()
            {
                let value = if element_type == ElementType::Bool {
                    i32::from(value != 0)
                } else {
                    value
                };
                let fits = match element_type {
                    ElementType::Int8 => i8::try_from(value).is_ok(),
                    ElementType::Int16 => i16::try_from(value).is_ok(),
                    ElementType::UInt8 => u8::try_from(value).is_ok(),
                    ElementType::UInt16 => u16::try_from(value).is_ok(),
                    _ => (low..=high).contains(&value),
                };
                if !fits {
                    return Err(out_of_range(element_type, field, index, value.into()));
                }
                out.copy_from_slice(&value.to_le_bytes()[..width]);
            }
        }
        Field::String => unreachable!("strings returned above"),
    }
    Ok(Tensor::from_buffer(element_type, dims, buffer)?)
}

fn put<const N: usize>(out: &mut [u8], elements: impl Iterator<Item = [u8; N]>) {
    for (element, out) in elements.zip(out.chunks_exact_mut(N)) {
        out.copy_from_slice(&element);
    }
}

fn out_of_range(element_type: ElementType, field: Field, index: usize, value: i128) -> OnnxError {
    OnnxError::new(Problem::DataRange {
        element_type,
        field: field.name(),
        index,
        value,
    })
}

pub(crate) fn strings(data: &[Bytes]) -> Result<Vec<String>, OnnxError> {
    data.iter()
        .enumerate()
        .map(|(index, bytes)| {
            std::str::from_utf8(bytes)
                .map(str::to_owned)
                .map_err(|_| OnnxError::new(Problem::StringEncoding { index }))
        })
        .collect()
}

fn check_length(
    element_type: ElementType,
    dims: &[usize],
    field: &'static str,
    expected: usize,
    actual: usize,
) -> Result<(), OnnxError> {
    if expected == actual {
        return Ok(());
    }
    Err(OnnxError::new(Problem::DataLength {
        dims: dims.to_vec(),
        element_type,
        field,
        expected: expected as u64,
        actual: actual as u64,
    }))
}

/// A sparse tensor in coordinate form, with its parts checked against each other: values `[n]`, indices `[n]` or
/// `[n, rank]` of i64, in range, ascending and without repetition.
pub(crate) struct SparseTensor {
    pub values: Tensor,
    pub indices: Tensor,
    pub dims: Vec<usize>,
}

impl SparseTensor {
    pub(crate) fn into_value(self) -> Value {
        Value::SparseTensor {
            values: Arc::new(self.values),
            indices: Arc::new(self.indices),
            dims: self.dims,
        }
    }
}

pub(crate) fn sparse_from_proto(
    proto: &SparseTensorProto,
    external: &mut ExternalData,
) -> Result<SparseTensor, OnnxError> {
    let values = proto.values.as_ref().ok_or(Problem::Missing {
        what: "the values tensor of a sparse tensor",
    })?;
    let values = tensor_from_proto(values, external).map_err(|e| e.within("values"))?;
    let dims = sizes(&proto.dims)?;
    // An empty sparse tensor may leave its indices out.
    let indices = match &proto.indices {
        Some(indices) => tensor_from_proto(indices, external).map_err(|e| e.within("indices"))?,
        None => Tensor::from_slice::<i64>(&[0], &[])?,
    };
    let sparse = SparseTensor {
        values,
        indices,
        dims,
    };
    sparse.positions()?;
    Ok(sparse)
}

impl SparseTensor {
    /// Row-major positions of the values in the dense tensor.
    fn positions(&self) -> Result<Vec<usize>, OnnxError> {
        let problem = |reason: String| OnnxError::new(Problem::Sparse { reason });
        byte_length(self.values.element_type(), &self.dims)?;
        let size = element_count(&self.dims).unwrap_or(0);
        if self.values.shape().rank() != 1 {
            return Err(problem(format!(
                "values have shape {}, they must have rank 1",
                self.values.shape()
            )));
        }
        let count = self.values.len();
        let rank = self.dims.len();
        let linear = match *self.indices.shape().dims() {
            [n] if n == count => true,
            [n, r] if n == count && r == rank => false,
            _ => {
                return Err(problem(format!(
                    "indices have shape {}, {count} values of rank {rank} need [{count}] or [{count}x{rank}]",
                    self.indices.shape()
                )));
            }
        };
        let indices = self.indices.as_slice::<i64>()?;
        let mut positions = Vec::with_capacity(count);
        for index in 0..count {
            let position = if linear {
                usize::try_from(indices[index]).ok().filter(|&i| i < size)
            } else {
                let coordinates = &indices[index * rank..][..rank];
                coordinates
                    .iter()
                    .zip(&self.dims)
                    .try_fold(0usize, |position, (&i, &dim)| {
                        let i = usize::try_from(i).ok().filter(|&i| i < dim)?;
                        position.checked_mul(dim)?.checked_add(i)
                    })
            };
            let Some(position) = position.filter(|&p| p < size) else {
                return Err(problem(format!(
                    "index {index} lies outside the shape {:?}",
                    self.dims
                )));
            };
            if positions.last().is_some_and(|&last| last >= position) {
                return Err(problem(format!(
                    "index {index} does not come after the one before; indices must ascend without repetition"
                )));
            }
            positions.push(position);
        }
        Ok(positions)
    }

    /// The dense tensor: zeros (empty strings) where no value is given.
    pub(crate) fn to_dense(&self, limits: &LoadLimits) -> Result<Tensor, OnnxError> {
        let element_type = self.values.element_type();
        let positions = self.positions()?;
        let bytes = match element_type {
            ElementType::String => (element_count(&self.dims).unwrap_or(0) as u64)
                .saturating_mul(size_of::<String>() as u64),
            _ => byte_length(element_type, &self.dims)? as u64,
        };
        if bytes > limits.max_dense_bytes {
            return Err(OnnxError::new(Problem::Limit {
                what: "max_dense_bytes",
                limit: limits.max_dense_bytes,
                actual: bytes,
            }));
        }
        let mut dense = Tensor::zeros(element_type, &self.dims)?;
        let mut view = dense.view_mut()?;
        if element_type == ElementType::String {
            let strings = view.as_strings_mut()?;
            for (&position, value) in positions.iter().zip(self.values.as_strings()?) {
                strings[position].clone_from(value);
            }
            return Ok(dense);
        }
        let (out, values) = (view.bytes_mut(), self.values.bytes());
        let bits = element_type.bits();
        if bits >= 8 {
            let width = bits / 8;
            for (&position, value) in positions.iter().zip(values.chunks_exact(width)) {
                out[position * width..][..width].copy_from_slice(value);
            }
        } else {
            let per_byte = 8 / bits;
            let mask = (1u8 << bits) - 1;
            for (i, &position) in positions.iter().enumerate() {
                let value = values[i / per_byte] >> (i % per_byte * bits) & mask;
                out[position / per_byte] |= value << (position % per_byte * bits);
            }
        }
        Ok(dense)
    }
}

/// The message of a tensor, with its elements as raw data (strings as `string_data`).
pub(crate) fn tensor_to_proto(name: &str, tensor: &Tensor) -> TensorProto {
    let mut proto = tensor_header(name, tensor);
    match tensor.as_strings() {
        Ok(strings) => {
            proto.string_data = strings
                .iter()
                .map(|s| Bytes::copy_from_slice(s.as_bytes()))
                .collect();
        }
        Err(_) => proto.raw_data = Some(Bytes::copy_from_slice(tensor.bytes())),
    }
    proto
}

/// The message of a tensor without its elements.
pub(crate) fn tensor_header(name: &str, tensor: &Tensor) -> TensorProto {
    TensorProto {
        name: name.to_owned(),
        data_type: tensor.element_type().onnx_number(),
        dims: tensor.shape().iter().map(|&d| d as i64).collect(),
        ..TensorProto::default()
    }
}

pub(crate) fn sparse_to_proto(
    name: &str,
    values: &Tensor,
    indices: &Tensor,
    dims: &[usize],
) -> SparseTensorProto {
    SparseTensorProto {
        values: Some(tensor_to_proto(name, values)),
        indices: Some(tensor_to_proto("", indices)),
        dims: dims.iter().map(|&d| d as i64).collect(),
    }
}

/// Integers of any width as i64, for keys of maps.
pub(crate) fn widened(tensor: &Tensor) -> Option<Vec<i64>> {
    fn all<T: Element + TryInto<i64>>(tensor: &Tensor) -> Option<Vec<i64>> {
        let elements = tensor.as_slice::<T>().ok()?;
        elements.iter().map(|&e| e.try_into().ok()).collect()
    }
    match tensor.element_type() {
        ElementType::Int8 => all::<i8>(tensor),
        ElementType::Int16 => all::<i16>(tensor),
        ElementType::Int32 => all::<i32>(tensor),
        ElementType::Int64 => all::<i64>(tensor),
        ElementType::UInt8 => all::<u8>(tensor),
        ElementType::UInt16 => all::<u16>(tensor),
        ElementType::UInt32 => all::<u32>(tensor),
        ElementType::UInt64 => all::<u64>(tensor),
        _ => None,
    }
}
