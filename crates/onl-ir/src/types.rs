use onl_tensor::ElementType;
use std::fmt;

/// One dimension of a declared or inferred shape.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Dim {
    /// A size that is known.
    Known(usize),
    /// A size that has a name (`dim_param`): equal names within a graph are equal sizes.
    Named(String),
    /// A size of which nothing is known.
    Unknown,
}

impl Dim {
    /// The size, if it is known.
    pub fn known(&self) -> Option<usize> {
        match self {
            Dim::Known(size) => Some(*size),
            _ => None,
        }
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Known(size) => write!(f, "{size}"),
            Dim::Named(name) => f.write_str(name),
            Dim::Unknown => f.write_str("?"),
        }
    }
}

/// Element type and, as far as known, shape of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorType {
    /// Element type.
    pub element_type: ElementType,
    /// Dimensions; `None` when not even the rank is known.
    pub dims: Option<Vec<Dim>>,
}

impl TensorType {
    /// A tensor type of unknown shape.
    pub fn unknown_shape(element_type: ElementType) -> Self {
        TensorType {
            element_type,
            dims: None,
        }
    }

    /// A tensor type of a known shape.
    pub fn with_dims(element_type: ElementType, dims: &[usize]) -> Self {
        TensorType {
            element_type,
            dims: Some(dims.iter().map(|&d| Dim::Known(d)).collect()),
        }
    }
}

/// Type of an ONNX value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeInfo {
    /// A dense tensor.
    Tensor(TensorType),
    /// A sparse tensor.
    SparseTensor(TensorType),
    /// A sequence of values of one type.
    Sequence(Box<TypeInfo>),
    /// An optional value.
    Optional(Box<TypeInfo>),
    /// A map from integers or strings to values of one type.
    Map(ElementType, Box<TypeInfo>),
}

impl TypeInfo {
    /// The tensor type, if this is a dense tensor.
    pub fn as_tensor(&self) -> Option<&TensorType> {
        match self {
            TypeInfo::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }
}

/// Name and, if declared or inferred, type of a graph value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueInfo {
    /// Name; unique within its graph.
    pub name: String,
    /// Type, if known.
    pub value_type: Option<TypeInfo>,
}
