use crate::{Graph, TypeInfo};
use onl_tensor::{Tensor, Value};
use std::sync::Arc;

/// Value of a node attribute.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Attribute {
    Int(i64),
    Float(f32),
    /// Bytes: ONNX strings are not guaranteed to be UTF-8.
    String(Vec<u8>),
    Tensor(Arc<Tensor>),
    /// A sparse tensor ([`Value::SparseTensor`]).
    SparseTensor(Value),
    Graph(Arc<Graph>),
    Type(TypeInfo),
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    Strings(Vec<Vec<u8>>),
    Tensors(Vec<Arc<Tensor>>),
    SparseTensors(Vec<Value>),
    Graphs(Vec<Arc<Graph>>),
    Types(Vec<TypeInfo>),
    /// Inside a model-local function: refers to an attribute of the calling node.
    Reference {
        name: String,
        kind: AttributeKind,
    },
}

/// Kind of an [`Attribute`], for messages and for references.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum AttributeKind {
    Int,
    Float,
    String,
    Tensor,
    SparseTensor,
    Graph,
    Type,
    Ints,
    Floats,
    Strings,
    Tensors,
    SparseTensors,
    Graphs,
    Types,
}

impl Attribute {
    /// Kind of this attribute.
    pub fn kind(&self) -> AttributeKind {
        match self {
            Attribute::Int(_) => AttributeKind::Int,
            Attribute::Float(_) => AttributeKind::Float,
            Attribute::String(_) => AttributeKind::String,
            Attribute::Tensor(_) => AttributeKind::Tensor,
            Attribute::SparseTensor(_) => AttributeKind::SparseTensor,
            Attribute::Graph(_) => AttributeKind::Graph,
            Attribute::Type(_) => AttributeKind::Type,
            Attribute::Ints(_) => AttributeKind::Ints,
            Attribute::Floats(_) => AttributeKind::Floats,
            Attribute::Strings(_) => AttributeKind::Strings,
            Attribute::Tensors(_) => AttributeKind::Tensors,
            Attribute::SparseTensors(_) => AttributeKind::SparseTensors,
            Attribute::Graphs(_) => AttributeKind::Graphs,
            Attribute::Types(_) => AttributeKind::Types,
            Attribute::Reference { kind, .. } => *kind,
        }
    }
}
