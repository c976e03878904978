use crate::Tensor;
use std::sync::Arc;

/// A value of an ONNX graph: a tensor, a sequence, an optional or a map.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A tensor; shared, so that passing a value on copies no elements.
    Tensor(Arc<Tensor>),
    /// A sparse tensor in coordinate form: values `[n]`, indices `[n]` or `[n, rank]`, dense dimensions.
    SparseTensor {
        /// Non-zero elements.
        values: Arc<Tensor>,
        /// Linear indices or coordinates of the elements.
        indices: Arc<Tensor>,
        /// Dimensions of the dense tensor.
        dims: Vec<usize>,
    },
    /// A sequence of values of one type.
    Sequence(Vec<Value>),
    /// An optional value.
    Optional(Option<Box<Value>>),
    /// A map from keys (a tensor of integers or strings of rank 1) to values, in insertion order.
    Map {
        /// Keys, rank 1.
        keys: Arc<Tensor>,
        /// Values, as many as keys.
        values: Vec<Value>,
    },
}

impl Value {
    /// The tensor, if this is one.
    pub fn as_tensor(&self) -> Option<&Tensor> {
        match self {
            Value::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Self {
        Value::Tensor(Arc::new(tensor))
    }
}
