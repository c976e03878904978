//! NonZero and OneHot: between values and indices.

use super::entry;
use super::support::{BYTE_TYPES, check_inputs};
use crate::{
    Coverage, Example, ExampleInput, InferContext, InferError, KernelEntry, KernelError, KernelIo,
    PrepareContext, PrepareError, PreparedKernel, SerialCategory, ShapeDependence, TypeSource,
};
use onl_executor::Lanes;
use onl_ir::{Attribute, Dim, NodeView};
use onl_tensor::{ElementType, Shape, Tensor, TensorView, TensorViewMut, bf16, f16};
use smallvec::SmallVec;
use std::sync::Arc;

pub(super) fn entries() -> Vec<KernelEntry> {
    let non_zero = KernelEntry {
        element_types: &[
            ElementType::Float32,
            ElementType::Float64,
            ElementType::Float16,
            ElementType::BFloat16,
            ElementType::Int8,
            ElementType::Int16,
            ElementType::Int32,
            ElementType::Int64,
            ElementType::UInt8,
            ElementType::UInt16,
            ElementType::UInt32,
            ElementType::UInt64,
            ElementType::Bool,
        ],
        implementation: "scan",
        shape_dependence: ShapeDependence::AllValues,
        coverage: Coverage::Serial {
            category: SerialCategory::Ordered,
            reason: "Where an index goes depends on how many elements before it are not zero.",
        },
        ..entry(
            "NonZero",
            (9, i64::MAX),
            prepare_non_zero,
            infer_non_zero,
            |element_type, size| {
                vec![Example::new(
                    "vector",
                    vec![ExampleInput::random(element_type, &[size])],
                )]
            },
        )
    };
    let one_hot = KernelEntry {
        type_source: TypeSource::Input(2),
        element_types: BYTE_TYPES,
        implementation: "fill",
        shape_dependence: ShapeDependence::Values(&[1]),
        coverage: Coverage::Serial {
            category: SerialCategory::TinyPayload,
            reason: "The output is filled with one value and a few elements are set.",
        },
        ..entry(
            "OneHot",
            (9, i64::MAX),
            prepare_one_hot,
            infer_one_hot,
            one_hot_examples,
        )
    };
    vec![non_zero, one_hot]
}

struct NonZero;

fn prepare_non_zero(
    node: &NodeView<'_>,
    _: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 1, 1)?;
    Ok(Box::new(NonZero))
}

impl PreparedKernel for NonZero {
    fn run(&self, io: &mut KernelIo<'_>, _: Lanes<'_>) -> Result<(), KernelError> {
        let input = io.input(0)?;
        macro_rules! by_type {
            ($($element_type:ident $t:ty, $zero:expr;)*) => {
                match input.element_type() {
                    $(ElementType::$element_type => {
                        let elements = input.as_slice::<$t>()?;
                        let zero = $zero;
                        write_positions(io, input.dims(), |i| elements[i] != zero)
                    })*
                    other => Err(KernelError::InvalidInput {
                        index: 0,
                        reason: format!("elements of {other} are not compared with zero"),
                    }),
                }
            };
        }
        by_type! {
            Float32 f32, 0.0; Float64 f64, 0.0; Float16 f16, f16::ZERO; BFloat16 bf16, bf16::ZERO;
            Int8 i8, 0; Int16 i16, 0; Int32 i32, 0; Int64 i64, 0;
            UInt8 u8, 0; UInt16 u16, 0; UInt32 u32, 0; UInt64 u64, 0;
            Bool onl_tensor::Bool, onl_tensor::Bool(0);
        }
    }
}

/// Writes the coordinates of the chosen elements, one row per axis.
fn write_positions(
    io: &mut KernelIo<'_>,
    dims: &[usize],
    chosen: impl Fn(usize) -> bool,
) -> Result<(), KernelError> {
    let total: usize = dims.iter().product();
    let count = (0..total).filter(|&i| chosen(i)).count();
    let mut output = io.output(0, ElementType::Int64, &[dims.len(), count])?;
    let rows = output.as_slice_mut::<i64>()?;
    for (column, element) in (0..total).filter(|&i| chosen(i)).enumerate() {
        let mut rest = element;
        for axis in (0..dims.len()).rev() {
            rows[axis * count + column] = (rest % dims[axis]) as i64;
            rest /= dims[axis];
        }
    }
    Ok(())
}

fn infer_non_zero(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let rank = context
        .dims(0)
        .map_or(Dim::Unknown, |dims| Dim::Known(dims.len()));
    context.set_output(0, ElementType::Int64, Some(vec![rank, Dim::Unknown]));
    Ok(())
}

struct OneHot {
    axis: i64,
}

fn prepare_one_hot(
    node: &NodeView<'_>,
    _: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 3, 3)?;
    Ok(Box::new(OneHot {
        axis: node.int("axis")?.unwrap_or(-1),
    }))
}

/// Numbers of any type as integers, toward zero.
fn numbers(index: usize, view: &TensorView<'_>) -> Result<SmallVec<[i64; 8]>, KernelError> {
    macro_rules! by_type {
        ($($element_type:ident $t:ty, $convert:expr;)*) => {
            match view.element_type() {
                $(ElementType::$element_type => {
                    Ok(view.as_slice::<$t>()?.iter().map($convert).collect())
                })*
                other => Err(KernelError::InvalidInput {
                    index,
                    reason: format!("elements of {other} are not indices"),
                }),
            }
        };
    }
    by_type! {
        Int8 i8, |&x| i64::from(x); Int16 i16, |&x| i64::from(x); Int32 i32, |&x| i64::from(x); Int64 i64, |&x| x;
        UInt8 u8, |&x| i64::from(x); UInt16 u16, |&x| i64::from(x); UInt32 u32, |&x| i64::from(x);
        UInt64 u64, |&x| i64::try_from(x).unwrap_or(i64::MAX);
        Float32 f32, |&x| x as i64; Float64 f64, |&x| x as i64;
        Float16 f16, |x| x.to_f32() as i64; BFloat16 bf16, |x| x.to_f32() as i64;
    }
}

impl PreparedKernel for OneHot {
    fn run(&self, io: &mut KernelIo<'_>, _: Lanes<'_>) -> Result<(), KernelError> {
        let (indices, depth, values) = (io.input(0)?, io.input(1)?, io.input(2)?);
        let depth = match numbers(1, &depth)?.as_slice() {
            [depth] if *depth > 0 => *depth as usize,
            other => {
                return Err(KernelError::InvalidInput {
                    index: 1,
                    reason: format!("the depth must be one positive number, not {other:?}"),
                });
            }
        };
        if values.len() != 2 {
            return Err(KernelError::InvalidInput {
                index: 2,
                reason: format!(
                    "an off and an on value are needed, not {} values",
                    values.len()
                ),
            });
        }
        let dims = indices.dims();
        let axis = super::support::axis_of(self.axis, dims.len() + 1)?;
        let mut shape = Shape::new(&dims[..axis]);
        shape.push(depth);
        for &size in &dims[axis..] {
            shape.push(size);
        }
        let inner: usize = dims[axis..].iter().product();
        let places = numbers(0, &indices)?;
        let mut output = io.output(0, values.element_type(), &shape)?;
        copy_element(&values, 0, &mut output, None);
        for (position, &place) in places.iter().enumerate() {
            // Indices outside [−depth, depth) set nothing.
            let place = if place < 0 {
                place + depth as i64
            } else {
                place
            };
            if (0..depth as i64).contains(&place) {
                let (outer, column) = (position / inner, position % inner);
                let target = (outer * depth + place as usize) * inner + column;
                copy_element(&values, 1, &mut output, Some(target));
            }
        }
        Ok(())
    }
}

/// Copies one element of `source` to one of `target`, or to all.
fn copy_element(
    source: &TensorView<'_>,
    from: usize,
    target: &mut TensorViewMut<'_>,
    to: Option<usize>,
) {
    if let (Ok(source), Ok(target)) = (source.as_strings(), target.as_strings_mut()) {
        match to {
            Some(to) => target[to].clone_from(&source[from]),
            None => target.fill(source[from].clone()),
        }
        return;
    }
    let width = source.element_type().bits() / 8;
    let element = &source.bytes()[from * width..][..width];
    match to {
        Some(to) => target.bytes_mut()[to * width..][..width].copy_from_slice(element),
        None => {
            for slot in target.bytes_mut().chunks_exact_mut(width) {
                slot.copy_from_slice(element);
            }
        }
    }
}

fn infer_one_hot(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let element_type = context.element_type(2)?;
    let axis = context.node.int("axis")?.unwrap_or(-1);
    let depth = context
        .constant(1)
        .and_then(|t| numbers(1, &t.view()).ok())
        .and_then(|v| v.first().copied())
        .and_then(|depth| usize::try_from(depth).ok())
        .map_or(Dim::Unknown, Dim::Known);
    let dims = match context.dims(0) {
        Some(dims) => {
            let axis = crate::infer::resolve_axis(axis, dims.len() + 1)?;
            let mut dims = dims.to_vec();
            dims.insert(axis, depth);
            Some(dims)
        }
        None => None,
    };
    context.set_output(0, element_type, dims);
    Ok(())
}

fn one_hot_examples(element_type: ElementType, size: usize) -> Vec<Example> {
    let indices: Vec<i64> = (0..(size / 32).max(1) as i64).map(|i| i * 7 % 32).collect();
    match Tensor::zeros(element_type, &[2]) {
        Ok(values) => vec![
            Example::new(
                "classes",
                vec![
                    ExampleInput::integers(&indices),
                    ExampleInput::integers(&[32]),
                    ExampleInput::Constant(Arc::new(values)),
                ],
            )
            .with_attribute("axis", Attribute::Int(-1)),
        ],
        Err(_) => Vec::new(),
    }
}
