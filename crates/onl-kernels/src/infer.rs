//! Output types from input types: what every kernel entry's `infer` works with.

use crate::PrepareError;
use onl_ir::{Dim, NodeView, TensorType, TypeInfo, ValueId};
use onl_tensor::{ElementType, Tensor};
use std::sync::Arc;
use thiserror::Error;

/// Why output types could not be inferred.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum InferError {
    /// The node breaks a rule of its operator.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// Declared shapes contradict each other.
    #[error("input shapes do not fit together: {0}")]
    Shapes(String),
}

impl From<onl_ir::GraphError> for InferError {
    fn from(error: onl_ir::GraphError) -> Self {
        InferError::Prepare(error.into())
    }
}

/// A node with the types of its inputs, and its outputs to be filled in.
pub struct InferContext<'a> {
    /// The node.
    pub node: NodeView<'a>,
    input_types: &'a [Option<TypeInfo>],
    constants: &'a dyn Fn(ValueId) -> Option<Arc<Tensor>>,
    outputs: Vec<Option<TypeInfo>>,
}

impl<'a> InferContext<'a> {
    /// A context whose outputs are all unknown.
    pub fn new(
        node: NodeView<'a>,
        input_types: &'a [Option<TypeInfo>],
        constants: &'a dyn Fn(ValueId) -> Option<Arc<Tensor>>,
    ) -> Self {
        let outputs = vec![None; node.output_count()];
        InferContext {
            node,
            input_types,
            constants,
            outputs,
        }
    }

    /// Type of an input that is a tensor, if the input is there.
    pub fn tensor(&self, index: usize) -> Option<&'a TensorType> {
        self.input_types
            .get(index)
            .and_then(Option::as_ref)
            .and_then(TypeInfo::as_tensor)
    }

    /// Element type of an input that must be there.
    ///
    /// # Errors
    /// [`PrepareError::MissingInput`] when it is not.
    pub fn element_type(&self, index: usize) -> Result<ElementType, InferError> {
        match self.tensor(index) {
            Some(tensor) => Ok(tensor.element_type),
            None => Err(PrepareError::MissingInput { index }.into()),
        }
    }

    /// Dimensions of an input, when its rank is known.
    pub fn dims(&self, index: usize) -> Option<&'a [Dim]> {
        self.tensor(index).and_then(|t| t.dims.as_deref())
    }

    /// Constant value of an input, if it has one.
    pub fn constant(&self, index: usize) -> Option<Arc<Tensor>> {
        self.node.input(index).and_then(self.constants)
    }

    /// Constant integers of an input (i64 or i32), if it has them.
    pub fn constant_integers(&self, index: usize) -> Option<Vec<i64>> {
        let tensor = self.constant(index)?;
        if let Ok(values) = tensor.as_slice::<i64>() {
            return Some(values.to_vec());
        }
        tensor
            .as_slice::<i32>()
            .ok()
            .map(|values| values.iter().map(|&v| i64::from(v)).collect())
    }

    /// Sets the type of an output that the node has; others are ignored.
    pub fn set_output(&mut self, index: usize, element_type: ElementType, dims: Option<Vec<Dim>>) {
        if let Some(slot) = self.outputs.get_mut(index) {
            *slot = Some(TypeInfo::Tensor(TensorType { element_type, dims }));
        }
    }

    /// The inferred types.
    pub fn into_outputs(self) -> Vec<Option<TypeInfo>> {
        self.outputs
    }
}

/// Every output has type and shape of input 0.
///
/// # Errors
/// [`InferError`] when input 0 is missing.
pub fn same_as_first(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let element_type = context.element_type(0)?;
    let dims = context.dims(0).map(<[Dim]>::to_vec);
    for index in 0..context.node.output_count() {
        context.set_output(index, element_type, dims.clone());
    }
    Ok(())
}

/// Output 0 has the element type of input 0 and the broadcast shape of all inputs.
///
/// # Errors
/// [`InferError`] when shapes cannot be broadcast.
pub fn broadcast(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let element_type = context.element_type(0)?;
    let dims = broadcast_all(context)?;
    context.set_output(0, element_type, dims);
    Ok(())
}

/// As [`broadcast`], with boolean output.
///
/// # Errors
/// [`InferError`] when shapes cannot be broadcast.
pub fn broadcast_to_bool(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let dims = broadcast_all(context)?;
    context.set_output(0, ElementType::Bool, dims);
    Ok(())
}

/// Broadcast shape of all inputs; `None` when one has an unknown rank.
///
/// # Errors
/// [`InferError::Shapes`] when known sizes cannot be broadcast.
pub fn broadcast_all(context: &InferContext<'_>) -> Result<Option<Vec<Dim>>, InferError> {
    let mut result: Vec<Dim> = Vec::new();
    for index in 0..context.node.input_count() {
        let Some(dims) = context.dims(index) else {
            return Ok(None);
        };
        result = broadcast_dims(&result, dims)?;
    }
    Ok(Some(result))
}

/// Broadcast shape of two shapes (ONNX multidirectional broadcasting).
///
/// # Errors
/// [`InferError::Shapes`] when known sizes cannot be broadcast.
pub fn broadcast_dims(a: &[Dim], b: &[Dim]) -> Result<Vec<Dim>, InferError> {
    let rank = a.len().max(b.len());
    let at = |dims: &[Dim], axis: usize| -> Dim {
        (axis + dims.len())
            .checked_sub(rank)
            .map_or(Dim::Known(1), |i| dims[i].clone())
    };
    (0..rank)
        .map(|axis| {
            let (x, y) = (at(a, axis), at(b, axis));
            Ok(match (&x, &y) {
                (Dim::Known(1), _) => y,
                (_, Dim::Known(1)) => x,
                (Dim::Known(p), Dim::Known(q)) if p != q => {
                    return Err(InferError::Shapes(format!(
                        "sizes {p} and {q} cannot be broadcast"
                    )));
                }
                (Dim::Known(_), _) => x,
                (_, Dim::Known(_)) => y,
                (Dim::Named(p), Dim::Named(q)) if p == q => x,
                _ => Dim::Unknown,
            })
        })
        .collect()
}

/// Resolves a possibly negative axis.
///
/// # Errors
/// [`PrepareError::Attribute`] when it is outside the rank.
pub fn resolve_axis(axis: i64, rank: usize) -> Result<usize, PrepareError> {
    let resolved = if axis < 0 { axis + rank as i64 } else { axis };
    if (0..rank as i64).contains(&resolved) {
        Ok(resolved as usize)
    } else {
        Err(PrepareError::Attribute {
            attribute: "axis",
            reason: format!("axis {axis} is outside a tensor of rank {rank}"),
        })
    }
}
