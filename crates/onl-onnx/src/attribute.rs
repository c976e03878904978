//! Node attributes between protobuf and the graph's form.

use crate::proto::*;
use crate::read_graph::{Reader, Scope, read_graph};
use crate::tensor::{sparse_from_proto, tensor_from_proto};
use crate::types::type_from_proto;
use crate::{OnnxError, Problem};
use onl_ir::{Attribute, AttributeKind, Graph, TypeInfo};
use onl_tensor::{Tensor, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

const KINDS: [(i32, AttributeKind); 14] = [
    (attribute_type::FLOAT, AttributeKind::Float),
    (attribute_type::INT, AttributeKind::Int),
    (attribute_type::STRING, AttributeKind::String),
    (attribute_type::TENSOR, AttributeKind::Tensor),
    (attribute_type::GRAPH, AttributeKind::Graph),
    (attribute_type::FLOATS, AttributeKind::Floats),
    (attribute_type::INTS, AttributeKind::Ints),
    (attribute_type::STRINGS, AttributeKind::Strings),
    (attribute_type::TENSORS, AttributeKind::Tensors),
    (attribute_type::GRAPHS, AttributeKind::Graphs),
    (attribute_type::SPARSE_TENSOR, AttributeKind::SparseTensor),
    (attribute_type::SPARSE_TENSORS, AttributeKind::SparseTensors),
    (attribute_type::TYPE_PROTO, AttributeKind::Type),
    (attribute_type::TYPE_PROTOS, AttributeKind::Types),
];

/// Number of a kind in `AttributeProto.type`.
pub(crate) fn kind_number(kind: AttributeKind) -> i32 {
    KINDS
        .iter()
        .find(|(_, known)| *known == kind)
        .map_or(0, |(number, _)| *number)
}

/// Reads the attributes of a node, or the default attributes of a function; `scope` is the graph around their
/// subgraphs.
pub(crate) fn read_attributes(
    reader: &mut Reader<'_>,
    protos: Vec<AttributeProto>,
    scope: Option<&Scope<'_>>,
) -> Result<BTreeMap<String, Attribute>, OnnxError> {
    let mut attributes = BTreeMap::new();
    for mut proto in protos {
        let name = std::mem::take(&mut proto.name);
        if name.is_empty() {
            return Err(OnnxError::new(Problem::Missing {
                what: "the name of an attribute",
            }));
        }
        let attribute = read_attribute(reader, proto, scope)
            .map_err(|e| e.within(format!("attribute '{name}'")))?;
        if attributes.insert(name.clone(), attribute).is_some() {
            return Err(OnnxError::new(Problem::Duplicate {
                what: "attribute",
                name,
            }));
        }
    }
    Ok(attributes)
}

fn read_attribute(
    reader: &mut Reader<'_>,
    proto: AttributeProto,
    scope: Option<&Scope<'_>>,
) -> Result<Attribute, OnnxError> {
    let kind = kind_of(&proto)?;
    if !proto.ref_attr_name.is_empty() {
        if !reader.in_function {
            return Err(problem(format!(
                "refers to attribute '{}' of a calling node, which only a function body may do",
                proto.ref_attr_name
            )));
        }
        return Ok(Attribute::Reference {
            name: proto.ref_attr_name,
            kind,
        });
    }
    Ok(match kind {
        // Writers of proto3 style leave out zeros and empty strings.
        AttributeKind::Int => Attribute::Int(proto.i.unwrap_or(0)),
        AttributeKind::Float => Attribute::Float(proto.f.unwrap_or(0.0)),
        AttributeKind::String => Attribute::String(proto.s.unwrap_or_default().to_vec()),
        AttributeKind::Tensor => {
            Attribute::Tensor(read_tensor(reader, &*required(proto.t, "tensor")?)?)
        }
        AttributeKind::SparseTensor => {
            let proto = required(proto.sparse_tensor, "sparse tensor")?;
            Attribute::SparseTensor(read_sparse(reader, &proto)?)
        }
        AttributeKind::Graph => {
            Attribute::Graph(read_subgraph(reader, *required(proto.g, "graph")?, scope)?)
        }
        AttributeKind::Type => Attribute::Type(read_type(&*required(proto.tp, "type")?)?),
        AttributeKind::Ints => Attribute::Ints(proto.ints),
        AttributeKind::Floats => Attribute::Floats(proto.floats),
        AttributeKind::Strings => {
            Attribute::Strings(proto.strings.iter().map(|s| s.to_vec()).collect())
        }
        AttributeKind::Tensors => {
            Attribute::Tensors(each(&proto.tensors, |tensor| read_tensor(reader, tensor))?)
        }
        AttributeKind::SparseTensors => {
            Attribute::SparseTensors(each(&proto.sparse_tensors, |tensor| {
                read_sparse(reader, tensor)
            })?)
        }
        AttributeKind::Graphs => {
            let mut graphs = Vec::with_capacity(proto.graphs.len());
            for graph in proto.graphs {
                graphs.push(read_subgraph(reader, graph, scope)?);
            }
            Attribute::Graphs(graphs)
        }
        AttributeKind::Types => Attribute::Types(each(&proto.type_protos, read_type)?),
    })
}

/// The kind that an attribute states, or, as in IR version 1, the one whose field it fills.
fn kind_of(proto: &AttributeProto) -> Result<AttributeKind, OnnxError> {
    if proto.r#type != 0 {
        return KINDS
            .iter()
            .find(|(number, _)| *number == proto.r#type)
            .map(|(_, kind)| *kind)
            .ok_or_else(|| problem(format!("has the unknown kind {}", proto.r#type)));
    }
    let filled = [
        (proto.f.is_some(), AttributeKind::Float),
        (proto.i.is_some(), AttributeKind::Int),
        (proto.s.is_some(), AttributeKind::String),
        (proto.t.is_some(), AttributeKind::Tensor),
        (proto.g.is_some(), AttributeKind::Graph),
        (proto.tp.is_some(), AttributeKind::Type),
        (proto.sparse_tensor.is_some(), AttributeKind::SparseTensor),
        (!proto.floats.is_empty(), AttributeKind::Floats),
        (!proto.ints.is_empty(), AttributeKind::Ints),
        (!proto.strings.is_empty(), AttributeKind::Strings),
        (!proto.tensors.is_empty(), AttributeKind::Tensors),
        (!proto.graphs.is_empty(), AttributeKind::Graphs),
        (!proto.type_protos.is_empty(), AttributeKind::Types),
        (
            !proto.sparse_tensors.is_empty(),
            AttributeKind::SparseTensors,
        ),
    ];
    let mut kinds = filled
        .iter()
        .filter(|(filled, _)| *filled)
        .map(|(_, kind)| *kind);
    match (kinds.next(), kinds.next()) {
        (Some(kind), None) => Ok(kind),
        (None, _) => Err(problem(
            "states no kind and has no value; export the model again".into(),
        )),
        (Some(first), Some(second)) => Err(problem(format!(
            "states no kind and has values of kinds {first:?} and {second:?}; export the model again"
        ))),
    }
}

fn problem(reason: String) -> OnnxError {
    OnnxError::new(Problem::Attribute { reason })
}

fn required<T>(value: Option<T>, what: &str) -> Result<T, OnnxError> {
    value.ok_or_else(|| {
        problem(format!(
            "states the kind {what} but has none; export the model again"
        ))
    })
}

/// Reads every part of a list, saying which one failed.
fn each<P, T>(
    protos: &[P],
    mut read: impl FnMut(&P) -> Result<T, OnnxError>,
) -> Result<Vec<T>, OnnxError> {
    protos
        .iter()
        .enumerate()
        .map(|(index, proto)| read(proto).map_err(|e| e.within(format!("entry {index}"))))
        .collect()
}

fn read_tensor(reader: &mut Reader<'_>, proto: &TensorProto) -> Result<Arc<Tensor>, OnnxError> {
    Ok(Arc::new(tensor_from_proto(proto, &mut reader.external)?))
}

fn read_sparse(reader: &mut Reader<'_>, proto: &SparseTensorProto) -> Result<Value, OnnxError> {
    Ok(sparse_from_proto(proto, &mut reader.external)?.into_value())
}

fn read_type(proto: &TypeProto) -> Result<TypeInfo, OnnxError> {
    type_from_proto(proto)?.ok_or_else(|| problem("has a type that says nothing".into()))
}

fn read_subgraph(
    reader: &mut Reader<'_>,
    proto: GraphProto,
    scope: Option<&Scope<'_>>,
) -> Result<Arc<Graph>, OnnxError> {
    let place = format!("graph '{}'", proto.name);
    read_graph(reader, proto.into(), scope)
        .map(Arc::new)
        .map_err(|e| e.within(place))
}
