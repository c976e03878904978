//! What the adapters of movement, shapes and reductions share.

use crate::{InferContext, KernelError, PrepareContext, PrepareError};
use onl_ir::{Dim, NodeView};
use onl_snapshot::{KernelKey, ParallelConfig, Tuned};
use onl_tensor::{ElementType, Shape};
use smallvec::SmallVec;

/// Every element type.
pub(crate) const ALL_TYPES: &[ElementType] = &ElementType::ALL;

/// Element types of whole bytes, and strings.
pub(crate) const BYTE_TYPES: &[ElementType] = {
    use ElementType::*;
    &[
        Float32,
        UInt8,
        Int8,
        UInt16,
        Int16,
        Int32,
        Int64,
        String,
        Bool,
        Float16,
        Float64,
        UInt32,
        UInt64,
        Complex64,
        Complex128,
        BFloat16,
        Float8E4M3FN,
        Float8E4M3FNUZ,
        Float8E5M2,
        Float8E5M2FNUZ,
        Float8E8M0,
    ]
};

/// Element types of whole bytes.
pub(crate) const NUMERIC_TYPES: &[ElementType] = {
    use ElementType::*;
    &[
        Float32,
        UInt8,
        Int8,
        UInt16,
        Int16,
        Int32,
        Int64,
        Bool,
        Float16,
        Float64,
        UInt32,
        UInt64,
        Complex64,
        Complex128,
        BFloat16,
        Float8E4M3FN,
        Float8E4M3FNUZ,
        Float8E5M2,
        Float8E5M2FNUZ,
        Float8E8M0,
    ]
};

/// Implementation name and revision of a kernel, from which its tuning key follows.
#[derive(Clone, Copy)]
pub(crate) struct Identity {
    pub op_type: &'static str,
    pub implementation: &'static str,
    pub revision: u32,
}

impl Identity {
    /// Division parameters of this kernel for the element type of an input.
    pub(crate) fn config(
        &self,
        node: &NodeView<'_>,
        context: &PrepareContext<'_>,
        input: usize,
    ) -> Tuned<ParallelConfig> {
        let element_type = node
            .input_element_type(input)
            .unwrap_or(ElementType::Float32);
        context.snapshot.config(&KernelKey::builtin(
            self.op_type,
            self.implementation,
            element_type,
            self.revision,
        ))
    }
}

/// A possibly negative axis of a tensor that is only known at the run.
pub(crate) fn axis_of(axis: i64, rank: usize) -> Result<usize, KernelError> {
    let resolved = if axis < 0 {
        axis.checked_add(rank as i64).unwrap_or(-1)
    } else {
        axis
    };
    if (0..rank as i64).contains(&resolved) {
        Ok(resolved as usize)
    } else {
        Err(KernelError::Other(format!(
            "axis {axis} is outside a tensor of rank {rank}; it must lie in [-{rank}, {rank})"
        )))
    }
}

/// Possibly negative axes as flags per axis; an axis given twice is an error.
pub(crate) fn axis_flags(axes: &[i64], rank: usize) -> Result<SmallVec<[bool; 8]>, KernelError> {
    let mut flags: SmallVec<[bool; 8]> = SmallVec::from_elem(false, rank);
    for &axis in axes {
        let index = axis_of(axis, rank)?;
        if std::mem::replace(&mut flags[index], true) {
            return Err(KernelError::Other(format!(
                "axis {axis} is given twice for a tensor of rank {rank}"
            )));
        }
    }
    Ok(flags)
}

/// A list of integers that is an attribute or an input.
#[derive(Debug, Clone)]
pub(crate) enum Integers {
    /// Fixed when the node was prepared.
    Fixed(SmallVec<[i64; 8]>),
    /// Values of an input; `None` is read when the input is omitted.
    Input(usize),
    /// Neither.
    Absent,
}

impl Integers {
    /// An attribute, if the node has it.
    pub(crate) fn attribute(node: &NodeView<'_>, name: &str) -> Result<Self, PrepareError> {
        Ok(match node.ints(name)? {
            Some(values) => Integers::Fixed(SmallVec::from_slice(values)),
            None => Integers::Absent,
        })
    }

    /// An input, if the node has it.
    pub(crate) fn input(node: &NodeView<'_>, index: usize) -> Self {
        match node.input(index) {
            Some(_) => Integers::Input(index),
            None => Integers::Absent,
        }
    }

    /// The values, if there are any.
    pub(crate) fn read(
        &self,
        io: &crate::KernelIo<'_>,
    ) -> Result<Option<SmallVec<[i64; 8]>>, KernelError> {
        match self {
            Integers::Fixed(values) => Ok(Some(values.clone())),
            Integers::Input(index) if io.optional_input(*index).is_none() => Ok(None),
            Integers::Input(index) => io.integers(*index).map(Some),
            Integers::Absent => Ok(None),
        }
    }
}

/// Integers of an attribute or of a constant input, while types are inferred: `Ok(None)` when the node gives none,
/// `Err(())` when the values are not known yet.
pub(crate) fn known_integers(
    context: &InferContext<'_>,
    attribute: Option<&str>,
    input: usize,
) -> Result<Option<Vec<i64>>, ()> {
    if let Some(name) = attribute {
        return context
            .node
            .ints(name)
            .map(|v| v.map(<[i64]>::to_vec))
            .map_err(|_| ());
    }
    if context.node.input(input).is_none() {
        return Ok(None);
    }
    context.constant_integers(input).map(Some).ok_or(())
}

/// Rejects nodes with fewer or more inputs than the operator takes.
pub(crate) fn check_inputs(
    node: &NodeView<'_>,
    least: usize,
    most: usize,
) -> Result<(), PrepareError> {
    let actual = node.input_count();
    if actual < least || actual > most {
        let expected = if least == most {
            least.to_string()
        } else if most == usize::MAX {
            format!("at least {least}")
        } else {
            format!("{least} to {most}")
        };
        return Err(PrepareError::Arity {
            what: "number of",
            expected,
            actual,
        });
    }
    for index in 0..least {
        if node.input(index).is_none() {
            return Err(PrepareError::MissingInput { index });
        }
    }
    if node.output_count() == 0 {
        return Err(PrepareError::Arity {
            what: "number of",
            expected: "at least 1".to_owned(),
            actual: 0,
        });
    }
    Ok(())
}

/// A shape whose dimensions are all known, or `None`.
pub(crate) fn known_shape(dims: &[Dim]) -> Option<Shape> {
    dims.iter().map(Dim::known).collect()
}

/// Known dimensions.
pub(crate) fn known_dims(dims: &[usize]) -> Vec<Dim> {
    dims.iter().map(|&d| Dim::Known(d)).collect()
}

/// An error about shapes.
pub(crate) fn shape_error(shapes: &[&[usize]], reason: impl Into<String>) -> KernelError {
    KernelError::Shapes {
        shapes: shapes.iter().map(|s| s.to_vec()).collect(),
        reason: reason.into(),
    }
}
