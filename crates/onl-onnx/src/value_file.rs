use crate::external::ExternalData;
use crate::limits::MessageKind;
use crate::npy::{read_npy, write_npy};
use crate::proto::*;
use crate::read::{decode, map};
use crate::tensor::{
    sparse_from_proto, sparse_to_proto, strings, tensor_from_proto, tensor_to_proto, widened,
};
use crate::types::describe_type;
use crate::write::write_replacing;
use crate::{LoadLimits, OnnxError, Problem};
use bytes::Bytes;
use onl_ir::TypeInfo;
use onl_tensor::{Element, ElementType, Tensor, Value};
use prost::Message;
use std::path::Path;
use std::sync::Arc;

/// Reads a tensor from a `.npy` file or a `.pb` file (one `TensorProto`); the file name's ending tells which.
///
/// # Errors
/// [`OnnxError`] for another ending and as [`read_npy`] and [`read_value_pb`].
pub fn read_tensor_file(path: impl AsRef<Path>) -> Result<Tensor, OnnxError> {
    let path = path.as_ref();
    match format(path)? {
        Format::Npy => read_npy(path),
        Format::Pb => {
            let proto: TensorProto =
                decode_file(map(path)?, path, MessageKind::Tensor, "TensorProto")?;
            tensor_from_proto(&proto, &mut ExternalData::beside(path)).map_err(|e| e.in_file(path))
        }
    }
}

/// Writes a tensor as `.npy` or `.pb` file; the file name's ending tells which.
///
/// # Errors
/// [`OnnxError`] for another ending and as [`write_npy`] and [`write_value_pb`].
pub fn write_tensor_file(path: impl AsRef<Path>, tensor: &Tensor) -> Result<(), OnnxError> {
    let path = path.as_ref();
    match format(path)? {
        Format::Npy => write_npy(path, tensor),
        Format::Pb => {
            let bytes = tensor_to_proto("", tensor).encode_to_vec();
            write_replacing(path, |file| file.write_all(&bytes))
        }
    }
}

/// Reads a value of the expected type from a `.npy` file (tensors only) or a `.pb` file.
///
/// # Errors
/// [`OnnxError`] for another ending, for a value of another type, and as [`read_npy`] and [`read_value_pb`].
pub fn read_value_file(path: impl AsRef<Path>, expected: &TypeInfo) -> Result<Value, OnnxError> {
    let path = path.as_ref();
    match format(path)? {
        Format::Pb => read_value_pb(path, expected),
        Format::Npy => {
            let tensor = read_npy(path)?;
            check_type(&tensor, expected).map_err(|e| e.in_file(path))?;
            Ok(tensor.into())
        }
    }
}

/// Reads a value from a `.pb` file of ONNX backend test data: a `TensorProto`, `SparseTensorProto`,
/// `SequenceProto`, `OptionalProto` or `MapProto`. The bytes do not tell which, the expected type does; of a tensor
/// type, the element type must agree, the shape is not looked at.
///
/// # Errors
/// [`OnnxError`] for a file that cannot be mapped, is no such message, or holds a value of another type.
pub fn read_value_pb(path: impl AsRef<Path>, expected: &TypeInfo) -> Result<Value, OnnxError> {
    let path = path.as_ref();
    let bytes = map(path)?;
    value_from_bytes(bytes, expected, &mut ExternalData::beside(path)).map_err(|e| e.in_file(path))
}

/// Reads a value from the bytes of a `.pb` file, as [`read_value_pb`] does; external data are refused.
///
/// # Errors
/// As [`read_value_pb`].
pub fn value_from_pb_bytes(bytes: Bytes, expected: &TypeInfo) -> Result<Value, OnnxError> {
    value_from_bytes(bytes, expected, &mut ExternalData::default())
}

/// Writes a value as `.pb` file: the message that [`read_value_pb`] reads for a value of this type.
///
/// # Errors
/// [`OnnxError`] when the file cannot be written or the value mixes types that no message can hold together.
pub fn write_value_pb(path: impl AsRef<Path>, value: &Value) -> Result<(), OnnxError> {
    let path = path.as_ref();
    let bytes = value_to_pb_bytes(value).map_err(|e| e.in_file(path))?;
    write_replacing(path, |file| file.write_all(&bytes))
}

/// The bytes of a `.pb` file with this value.
///
/// # Errors
/// [`OnnxError`] when the value mixes types that no message can hold together.
pub fn value_to_pb_bytes(value: &Value) -> Result<Vec<u8>, OnnxError> {
    Ok(match value {
        Value::Tensor(tensor) => tensor_to_proto("", tensor).encode_to_vec(),
        Value::SparseTensor {
            values,
            indices,
            dims,
        } => sparse_to_proto("", values, indices, dims).encode_to_vec(),
        Value::Sequence(values) => sequence_to_proto(values)?.encode_to_vec(),
        Value::Optional(value) => optional_to_proto(value.as_deref())?.encode_to_vec(),
        Value::Map { keys, values } => map_to_proto(keys, values)?.encode_to_vec(),
    })
}

enum Format {
    Npy,
    Pb,
}

fn format(path: &Path) -> Result<Format, OnnxError> {
    match path.extension().and_then(|e| e.to_str()) {
        Some("npy") => Ok(Format::Npy),
        Some("pb") => Ok(Format::Pb),
        _ => Err(OnnxError::new(Problem::UnknownFormat).in_file(path)),
    }
}

fn decode_file<M: Message + Default>(
    bytes: Bytes,
    path: &Path,
    kind: MessageKind,
    message: &'static str,
) -> Result<M, OnnxError> {
    decode(bytes, kind, message, &LoadLimits::default()).map_err(|e| e.in_file(path))
}

fn value_from_bytes(
    bytes: Bytes,
    expected: &TypeInfo,
    external: &mut ExternalData,
) -> Result<Value, OnnxError> {
    let limits = LoadLimits::default();
    match expected {
        TypeInfo::Tensor(_) => {
            let proto: TensorProto = decode(bytes, MessageKind::Tensor, "TensorProto", &limits)?;
            tensor_value(&proto, expected, external)
        }
        TypeInfo::SparseTensor(_) => {
            let proto: SparseTensorProto = decode(
                bytes,
                MessageKind::SparseTensor,
                "SparseTensorProto",
                &limits,
            )?;
            sparse_value(&proto, expected, external)
        }
        TypeInfo::Sequence(element) => {
            let proto: SequenceProto =
                decode(bytes, MessageKind::Sequence, "SequenceProto", &limits)?;
            Ok(Value::Sequence(sequence_values(&proto, element, external)?))
        }
        TypeInfo::Optional(element) => {
            let proto: OptionalProto =
                decode(bytes, MessageKind::Optional, "OptionalProto", &limits)?;
            optional_value(&proto, element, external)
        }
        TypeInfo::Map(key, value) => {
            let proto: MapProto = decode(bytes, MessageKind::Map, "MapProto", &limits)?;
            map_value(&proto, *key, value, external)
        }
    }
}

fn tensor_value(
    proto: &TensorProto,
    expected: &TypeInfo,
    external: &mut ExternalData,
) -> Result<Value, OnnxError> {
    let tensor = tensor_from_proto(proto, external)?;
    check_type(&tensor, expected)?;
    Ok(tensor.into())
}

fn sparse_value(
    proto: &SparseTensorProto,
    expected: &TypeInfo,
    external: &mut ExternalData,
) -> Result<Value, OnnxError> {
    let sparse = sparse_from_proto(proto, external)?;
    let actual = sparse.values.element_type();
    match expected {
        TypeInfo::SparseTensor(tensor) if tensor.element_type == actual => Ok(sparse.into_value()),
        _ => Err(wrong_type(expected, format!("sparse_tensor({actual})"))),
    }
}

fn check_type(tensor: &Tensor, expected: &TypeInfo) -> Result<(), OnnxError> {
    match expected {
        TypeInfo::Tensor(info) if info.element_type == tensor.element_type() => Ok(()),
        _ => Err(wrong_type(
            expected,
            format!("tensor({})", tensor.element_type()),
        )),
    }
}

fn wrong_type(expected: &TypeInfo, actual: impl Into<String>) -> OnnxError {
    OnnxError::new(Problem::ValueType {
        expected: describe_type(expected),
        actual: actual.into(),
    })
}

/// The kind of a type in `SequenceProto.elem_type` and `OptionalProto.elem_type`.
fn kind_of_type(info: &TypeInfo) -> i32 {
    match info {
        TypeInfo::Tensor(_) => value_kind::TENSOR,
        TypeInfo::SparseTensor(_) => value_kind::SPARSE_TENSOR,
        TypeInfo::Sequence(_) => value_kind::SEQUENCE,
        TypeInfo::Map(..) => value_kind::MAP,
        TypeInfo::Optional(_) => value_kind::OPTIONAL,
    }
}

fn kind_name(kind: i32) -> &'static str {
    match kind {
        value_kind::UNDEFINED => "values of no stated kind",
        value_kind::TENSOR => "tensors",
        value_kind::SPARSE_TENSOR => "sparse tensors",
        value_kind::SEQUENCE => "sequences",
        value_kind::MAP => "maps",
        value_kind::OPTIONAL => "optionals",
        _ => "values of an unknown kind",
    }
}

fn each<P>(
    protos: &[P],
    mut read: impl FnMut(&P) -> Result<Value, OnnxError>,
) -> Result<Vec<Value>, OnnxError> {
    protos
        .iter()
        .enumerate()
        .map(|(index, proto)| read(proto).map_err(|e| e.within(format!("entry {index}"))))
        .collect()
}

fn sequence_values(
    proto: &SequenceProto,
    element: &TypeInfo,
    external: &mut ExternalData,
) -> Result<Vec<Value>, OnnxError> {
    let counts = [
        (value_kind::TENSOR, proto.tensor_values.len()),
        (value_kind::SPARSE_TENSOR, proto.sparse_tensor_values.len()),
        (value_kind::SEQUENCE, proto.sequence_values.len()),
        (value_kind::MAP, proto.map_values.len()),
        (value_kind::OPTIONAL, proto.optional_values.len()),
    ];
    let kind = kind_of_type(element);
    // An empty sequence may leave its kind unstated.
    let stated = [kind, value_kind::UNDEFINED].contains(&proto.elem_type);
    let other = counts
        .iter()
        .find(|(other, count)| *other != kind && *count > 0);
    if !stated || other.is_some() {
        let actual = other.map_or(proto.elem_type, |(other, _)| *other);
        let expected = TypeInfo::Sequence(Box::new(element.clone()));
        return Err(wrong_type(
            &expected,
            format!("a sequence of {}", kind_name(actual)),
        ));
    }
    match element {
        TypeInfo::Tensor(_) => each(&proto.tensor_values, |p| tensor_value(p, element, external)),
        TypeInfo::SparseTensor(_) => each(&proto.sparse_tensor_values, |p| {
            sparse_value(p, element, external)
        }),
        TypeInfo::Sequence(inner) => each(&proto.sequence_values, |p| {
            Ok(Value::Sequence(sequence_values(p, inner, external)?))
        }),
        TypeInfo::Map(key, value) => {
            each(&proto.map_values, |p| map_value(p, *key, value, external))
        }
        TypeInfo::Optional(inner) => each(&proto.optional_values, |p| {
            optional_value(p, inner, external)
        }),
    }
}

fn optional_value(
    proto: &OptionalProto,
    element: &TypeInfo,
    external: &mut ExternalData,
) -> Result<Value, OnnxError> {
    let filled = [
        (value_kind::TENSOR, proto.tensor_value.is_some()),
        (
            value_kind::SPARSE_TENSOR,
            proto.sparse_tensor_value.is_some(),
        ),
        (value_kind::SEQUENCE, proto.sequence_value.is_some()),
        (value_kind::MAP, proto.map_value.is_some()),
        (value_kind::OPTIONAL, proto.optional_value.is_some()),
    ];
    let kind = kind_of_type(element);
    let stated = [kind, value_kind::UNDEFINED].contains(&proto.elem_type);
    let other = filled
        .iter()
        .find(|(other, filled)| *other != kind && *filled);
    if !stated || other.is_some() {
        let actual = other.map_or(proto.elem_type, |(other, _)| *other);
        let expected = TypeInfo::Optional(Box::new(element.clone()));
        return Err(wrong_type(
            &expected,
            format!("an optional over {}", kind_name(actual)),
        ));
    }
    let value = match element {
        TypeInfo::Tensor(_) => proto
            .tensor_value
            .as_ref()
            .map(|p| tensor_value(p, element, external)),
        TypeInfo::SparseTensor(_) => proto
            .sparse_tensor_value
            .as_ref()
            .map(|p| sparse_value(p, element, external)),
        TypeInfo::Sequence(inner) => proto
            .sequence_value
            .as_ref()
            .map(|p| sequence_values(p, inner, external).map(Value::Sequence)),
        TypeInfo::Map(key, value) => proto
            .map_value
            .as_ref()
            .map(|p| map_value(p, *key, value, external)),
        TypeInfo::Optional(inner) => proto
            .optional_value
            .as_ref()
            .map(|p| optional_value(p, inner, external)),
    };
    Ok(Value::Optional(value.transpose()?.map(Box::new)))
}

fn map_value(
    proto: &MapProto,
    key: ElementType,
    value: &TypeInfo,
    external: &mut ExternalData,
) -> Result<Value, OnnxError> {
    let expected = || TypeInfo::Map(key, Box::new(value.clone()));
    if proto.key_type != key.onnx_number() {
        let actual = ElementType::from_onnx(proto.key_type)
            .map_or_else(|| format!("type {}", proto.key_type), |t| t.to_string());
        return Err(wrong_type(
            &expected(),
            format!("a map with keys of {actual}"),
        ));
    }
    let keys = if key == ElementType::String {
        Tensor::from_strings(&[proto.string_keys.len()], strings(&proto.string_keys)?)?
    } else {
        narrowed(key, &proto.keys)?
            .ok_or_else(|| wrong_type(&expected(), "a map whose keys are no integers or strings"))?
    };
    let values = match &proto.values {
        Some(values) => sequence_values(values, value, external)?,
        None => Vec::new(),
    };
    if values.len() != keys.len() {
        return Err(wrong_type(
            &expected(),
            format!("a map of {} keys and {} values", keys.len(), values.len()),
        ));
    }
    Ok(Value::Map {
        keys: Arc::new(keys),
        values,
    })
}

/// Keys of a map in their own type; `None` for types that cannot be keys.
fn narrowed(element_type: ElementType, keys: &[i64]) -> Result<Option<Tensor>, OnnxError> {
    fn all<T: Element + TryFrom<i64>>(keys: &[i64]) -> Result<Option<Tensor>, OnnxError> {
        let mut narrow = Vec::with_capacity(keys.len());
        for (index, &key) in keys.iter().enumerate() {
            narrow.push(T::try_from(key).map_err(|_| {
                OnnxError::new(Problem::DataRange {
                    element_type: T::TYPE,
                    field: "keys",
                    index,
                    value: key.into(),
                })
            })?);
        }
        Ok(Some(Tensor::from_slice(&[keys.len()], &narrow)?))
    }
    match element_type {
        ElementType::Int8 => all::<i8>(keys),
        ElementType::Int16 => all::<i16>(keys),
        ElementType::Int32 => all::<i32>(keys),
        ElementType::Int64 => all::<i64>(keys),
        ElementType::UInt8 => all::<u8>(keys),
        ElementType::UInt16 => all::<u16>(keys),
        ElementType::UInt32 => all::<u32>(keys),
        ElementType::UInt64 => all::<u64>(keys),
        _ => Ok(None),
    }
}

fn sequence_to_proto(values: &[Value]) -> Result<SequenceProto, OnnxError> {
    let mut proto = SequenceProto::default();
    for (index, value) in values.iter().enumerate() {
        let kind = match value {
            Value::Tensor(tensor) => {
                proto.tensor_values.push(tensor_to_proto("", tensor));
                value_kind::TENSOR
            }
            Value::SparseTensor {
                values,
                indices,
                dims,
            } => {
                let sparse = sparse_to_proto("", values, indices, dims);
                proto.sparse_tensor_values.push(sparse);
                value_kind::SPARSE_TENSOR
            }
            Value::Sequence(values) => {
                proto.sequence_values.push(sequence_to_proto(values)?);
                value_kind::SEQUENCE
            }
            Value::Map { keys, values } => {
                proto.map_values.push(map_to_proto(keys, values)?);
                value_kind::MAP
            }
            Value::Optional(value) => {
                proto
                    .optional_values
                    .push(optional_to_proto(value.as_deref())?);
                value_kind::OPTIONAL
            }
        };
        if index > 0 && kind != proto.elem_type {
            return Err(OnnxError::new(Problem::ValueType {
                expected: format!("a sequence of {} only", kind_name(proto.elem_type)),
                actual: format!("{} too", kind_name(kind)),
            }));
        }
        proto.elem_type = kind;
    }
    Ok(proto)
}

fn optional_to_proto(value: Option<&Value>) -> Result<OptionalProto, OnnxError> {
    let mut proto = OptionalProto::default();
    match value {
        None => {}
        Some(Value::Tensor(tensor)) => {
            proto.elem_type = value_kind::TENSOR;
            proto.tensor_value = Some(Box::new(tensor_to_proto("", tensor)));
        }
        Some(Value::SparseTensor {
            values,
            indices,
            dims,
        }) => {
            proto.elem_type = value_kind::SPARSE_TENSOR;
            proto.sparse_tensor_value = Some(Box::new(sparse_to_proto("", values, indices, dims)));
        }
        Some(Value::Sequence(values)) => {
            proto.elem_type = value_kind::SEQUENCE;
            proto.sequence_value = Some(Box::new(sequence_to_proto(values)?));
        }
        Some(Value::Map { keys, values }) => {
            proto.elem_type = value_kind::MAP;
            proto.map_value = Some(Box::new(map_to_proto(keys, values)?));
        }
        Some(Value::Optional(value)) => {
            proto.elem_type = value_kind::OPTIONAL;
            proto.optional_value = Some(Box::new(optional_to_proto(value.as_deref())?));
        }
    }
    Ok(proto)
}

fn map_to_proto(keys: &Tensor, values: &[Value]) -> Result<MapProto, OnnxError> {
    let mut proto = MapProto {
        key_type: keys.element_type().onnx_number(),
        values: Some(Box::new(sequence_to_proto(values)?)),
        ..MapProto::default()
    };
    if let Ok(strings) = keys.as_strings() {
        proto.string_keys = strings
            .iter()
            .map(|key| Bytes::copy_from_slice(key.as_bytes()))
            .collect();
    } else {
        proto.keys = widened(keys).ok_or_else(|| {
            OnnxError::new(Problem::ValueType {
                expected: "keys that are strings or integers of the range of i64".to_owned(),
                actual: format!("keys of {}", keys.element_type()),
            })
        })?;
    }
    Ok(proto)
}
