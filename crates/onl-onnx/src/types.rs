//! Types and shapes between protobuf and the graph's form.

use crate::proto::*;
use crate::{OnnxError, Problem};
use onl_ir::{Dim, TensorType, TypeInfo, ValueInfo};
use onl_tensor::ElementType;

/// Names that exporters write for sizes of which nothing is known; equal ones do not mean equal sizes.
const UNKNOWN_NAMES: [&str; 4] = ["", "?", "-1", "None"];

pub(crate) fn element_type(number: i32) -> Result<ElementType, OnnxError> {
    if number == 0 {
        return Err(OnnxError::new(Problem::Missing {
            what: "an element type",
        }));
    }
    ElementType::from_onnx(number).ok_or_else(|| OnnxError::new(Problem::ElementType { number }))
}

/// The type of a message, or `None` when it says nothing (no alternative, or a tensor without element type).
pub(crate) fn type_from_proto(proto: &TypeProto) -> Result<Option<TypeInfo>, OnnxError> {
    let info = if let Some(tensor) = &proto.tensor_type {
        tensor_type(tensor)?.map(TypeInfo::Tensor)
    } else if let Some(tensor) = &proto.sparse_tensor_type {
        tensor_type(tensor)?.map(TypeInfo::SparseTensor)
    } else if let Some(sequence) = &proto.sequence_type {
        let element = inner(sequence.elem_type.as_ref(), "sequence(...)")?;
        Some(TypeInfo::Sequence(Box::new(element)))
    } else if let Some(optional) = &proto.optional_type {
        let element = inner(optional.elem_type.as_ref(), "optional(...)")?;
        Some(TypeInfo::Optional(Box::new(element)))
    } else if let Some(map) = &proto.map_type {
        let value = inner(map.value_type.as_ref(), "map(...)")?;
        Some(TypeInfo::Map(element_type(map.key_type)?, Box::new(value)))
    } else if let Some(opaque) = &proto.opaque_type {
        return Err(OnnxError::new(Problem::Type {
            reason: format!(
                "opaque({}, {}) has no counterpart here; replace the operators that use it",
                opaque.domain, opaque.name
            ),
        }));
    } else {
        None
    };
    Ok(info)
}

fn inner(proto: Option<&TypeProto>, outer: &str) -> Result<TypeInfo, OnnxError> {
    match proto.map(type_from_proto).transpose()?.flatten() {
        Some(info) => Ok(info),
        None => Err(OnnxError::new(Problem::Type {
            reason: format!("{outer} does not say of what; export the model again"),
        })),
    }
}

fn tensor_type(proto: &TensorTypeProto) -> Result<Option<TensorType>, OnnxError> {
    // Number 0 is UNDEFINED: shape inference writes it for values whose type it could not tell.
    if proto.elem_type == 0 {
        return Ok(None);
    }
    let dims = proto
        .shape
        .as_ref()
        .map(|shape| shape.dim.iter().map(dim_from_proto).collect());
    Ok(Some(TensorType {
        element_type: element_type(proto.elem_type)?,
        dims,
    }))
}

fn dim_from_proto(proto: &DimensionProto) -> Dim {
    match (proto.dim_value, &proto.dim_param) {
        (Some(size), _) => usize::try_from(size).map_or(Dim::Unknown, Dim::Known),
        (None, Some(name)) if !UNKNOWN_NAMES.contains(&name.trim()) => Dim::Named(name.clone()),
        _ => Dim::Unknown,
    }
}

pub(crate) fn type_to_proto(info: &TypeInfo) -> TypeProto {
    let mut proto = TypeProto::default();
    match info {
        TypeInfo::Tensor(tensor) => proto.tensor_type = Some(tensor_type_to_proto(tensor)),
        TypeInfo::SparseTensor(tensor) => {
            proto.sparse_tensor_type = Some(tensor_type_to_proto(tensor));
        }
        TypeInfo::Sequence(element) => {
            proto.sequence_type = Some(Box::new(ElementTypeProto {
                elem_type: Some(type_to_proto(element)),
            }));
        }
        TypeInfo::Optional(element) => {
            proto.optional_type = Some(Box::new(ElementTypeProto {
                elem_type: Some(type_to_proto(element)),
            }));
        }
        TypeInfo::Map(key, value) => {
            proto.map_type = Some(Box::new(MapTypeProto {
                key_type: key.onnx_number(),
                value_type: Some(type_to_proto(value)),
            }));
        }
    }
    proto
}

fn tensor_type_to_proto(tensor: &TensorType) -> TensorTypeProto {
    TensorTypeProto {
        elem_type: tensor.element_type.onnx_number(),
        shape: tensor.dims.as_ref().map(|dims| TensorShapeProto {
            dim: dims.iter().map(dim_to_proto).collect(),
        }),
    }
}

fn dim_to_proto(dim: &Dim) -> DimensionProto {
    match dim {
        Dim::Known(size) => DimensionProto {
            dim_value: Some(*size as i64),
            dim_param: None,
        },
        Dim::Named(name) => DimensionProto {
            dim_value: None,
            dim_param: Some(name.clone()),
        },
        Dim::Unknown => DimensionProto::default(),
    }
}

pub(crate) fn value_info_to_proto(info: &ValueInfo) -> ValueInfoProto {
    ValueInfoProto {
        name: info.name.clone(),
        r#type: info.value_type.as_ref().map(type_to_proto),
    }
}

/// Text of a type for messages.
pub(crate) fn describe_type(info: &TypeInfo) -> String {
    match info {
        TypeInfo::Tensor(tensor) => format!("tensor({})", tensor.element_type),
        TypeInfo::SparseTensor(tensor) => format!("sparse_tensor({})", tensor.element_type),
        TypeInfo::Sequence(element) => format!("sequence({})", describe_type(element)),
        TypeInfo::Optional(element) => format!("optional({})", describe_type(element)),
        TypeInfo::Map(key, value) => format!("map({key}, {})", describe_type(value)),
    }
}
