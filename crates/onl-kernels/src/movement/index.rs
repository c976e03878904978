//! NonZero, OneHot and EyeLike: between values and indices.

use super::support::{BYTE_TYPES, check_inputs};
use super::{Division, entry};
use crate::{
    Coverage, Example, ExampleInput, InferContext, InferError, KernelEntry, KernelError, KernelIo,
    PrepareContext, PrepareError, PreparedKernel, SerialCategory, ShapeDependence, TypeSource,
};
use onl_executor::Lanes;
use onl_ir::{Attribute, Dim, NodeView};
use onl_movement::{
    CAST, CastRules, ONE_HOT, POSITIONS, cast, count_blocks, count_chosen, one_hot, words,
    write_positions,
};
use onl_tensor::{Element, ElementType, Shape, Tensor, TensorViewMut, bf16, f16};
use std::sync::Arc;

pub(super) fn entries() -> Vec<KernelEntry> {
    let non_zero = KernelEntry {
        element_types: const {
            use ElementType::*;
            &[
                Float32, Float64, Float16, BFloat16, Int8, Int16, Int32, Int64, UInt8, UInt16,
                UInt32, UInt64, Bool, Complex64, Complex128, String,
            ]
        },
        implementation: "scan",
        shape_dependence: ShapeDependence::AllValues,
        regions: const { &[&POSITIONS] },
        ..entry(
            "NonZero",
            (9, i64::MAX),
            prepare_non_zero,
            infer_non_zero,
            |element_type, size| {
                let rows = (size / 32).max(1);
                vec![
                    Example::new("vector", vec![ExampleInput::random(element_type, &[size])]),
                    Example::new(
                        "matrix",
                        vec![ExampleInput::random(element_type, &[rows, 32])],
                    ),
                ]
            },
        )
    };
    let one_hot = KernelEntry {
        type_source: TypeSource::Input(2),
        element_types: BYTE_TYPES,
        implementation: "fill",
        shape_dependence: ShapeDependence::Values(&[1]),
        regions: const { &[&ONE_HOT, &CAST] },
        ..entry(
            "OneHot",
            (9, i64::MAX),
            prepare_one_hot,
            infer_one_hot,
            one_hot_examples,
        )
    };
    let eye_like = KernelEntry {
        element_types: EYE_TYPES,
        implementation: "diagonal",
        shape_dependence: ShapeDependence::MetadataOnly,
        coverage: Coverage::Serial {
            category: SerialCategory::TinyPayload,
            reason: "The output depends on a shape only, and sessions compute it once per shape.",
        },
        ..entry(
            "EyeLike",
            (9, i64::MAX),
            prepare_eye_like,
            infer_eye_like,
            |element_type, size| {
                vec![Example::new(
                    "matrix",
                    vec![super::matrix(element_type, size)],
                )]
            },
        )
    };
    vec![non_zero, one_hot, eye_like]
}

struct NonZero {
    division: Division,
}

fn prepare_non_zero(
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 1, 1)?;
    Ok(Box::new(NonZero {
        division: Division::named("NonZero", "scan", 0, node, context),
    }))
}

impl PreparedKernel for NonZero {
    fn workspace(&self, input_dims: &[&[usize]], _: usize) -> usize {
        8 * count_blocks(input_dims[0].iter().product())
    }

    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let input = io.input(0)?;
        let blocks = count_blocks(input.len());
        let execution = self.division.execution(input.len(), lanes);
        let count = count_chosen(input, words(io.workspace(), blocks), &execution)?;
        let dims = [input.rank(), count];
        let (mut output, workspace) = io.output_and_workspace(0, ElementType::Int64, &dims)?;
        let before = words(workspace, blocks);
        Ok(write_positions(input, before, &mut output, &execution)?)
    }
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
    /// Whether negative indices count from the end, as they do since version 11.
    negative: bool,
    division: Division,
}

fn prepare_one_hot(
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 3, 3)?;
    Ok(Box::new(OneHot {
        axis: node.int("axis")?.unwrap_or(-1),
        negative: node.opset >= 11,
        division: Division::named("OneHot", "fill", 2, node, context),
    }))
}

/// The one number of a tensor as an integer, toward zero.
fn number(index: usize, view: &onl_tensor::TensorView<'_>) -> Result<i64, KernelError> {
    let mut value = [0_i64];
    let dims = view.dims();
    if view.len() != 1 {
        return Err(KernelError::InvalidInput {
            index,
            reason: format!("one number is needed, not {}", view.len()),
        });
    }
    let mut target = TensorViewMut::from_slice(dims, &mut value)?;
    cast(
        *view,
        CastRules::default(),
        &mut target,
        &Division::serial(),
    )?;
    Ok(value[0])
}

impl PreparedKernel for OneHot {
    fn workspace(&self, input_dims: &[&[usize]], _: usize) -> usize {
        8 * input_dims[0].iter().product::<usize>()
    }

    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let (indices, depth, values) = (io.input(0)?, io.input(1)?, io.input(2)?);
        let depth = number(1, &depth)?;
        if depth <= 0 {
            return Err(KernelError::InvalidInput {
                index: 1,
                reason: format!("the depth must be positive, it is {depth}"),
            });
        }
        if values.dims() != [2] {
            return Err(KernelError::InvalidInput {
                index: 2,
                reason: format!(
                    "an off and an on value are needed, not a tensor of shape {:?}",
                    values.dims()
                ),
            });
        }
        let dims = indices.dims();
        let axis = super::support::axis_of(self.axis, dims.len() + 1)?;
        let mut shape = Shape::new(&dims[..axis]);
        shape.push(depth as usize);
        for &size in &dims[axis..] {
            shape.push(size);
        }
        let inner: usize = dims[axis..].iter().product();
        let (mut output, workspace) = io.output_and_workspace(0, values.element_type(), &shape)?;
        let execution = self.division.execution(output.len(), lanes);
        let places = words(workspace, indices.len());
        let unsigned = indices.element_type() == ElementType::UInt64;
        cast(
            indices,
            CastRules::default(),
            &mut TensorViewMut::from_slice(dims, places)?,
            &execution,
        )?;
        if self.negative && !unsigned {
            for place in places.iter_mut().filter(|place| **place < 0) {
                *place += depth;
            }
        }
        Ok(one_hot(
            places,
            depth as usize,
            inner,
            values,
            &mut output,
            &execution,
        )?)
    }
}

fn infer_one_hot(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let element_type = context.element_type(2)?;
    let axis = context.node.int("axis")?.unwrap_or(-1);
    let depth = context
        .constant(1)
        .and_then(|t| number(1, &t.view()).ok())
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
    let indices = ExampleInput::Uniform {
        element_type: ElementType::Int64,
        shape: Shape::new(&[(size / 32).max(1)]),
        low: 0.0,
        high: 31.0,
    };
    let Ok(values) = Tensor::zeros(element_type, &[2]) else {
        return Vec::new();
    };
    let values = ExampleInput::Constant(Arc::new(values));
    let example = |name, axis| {
        Example::new(
            name,
            vec![
                indices.clone(),
                ExampleInput::integers(&[32]),
                values.clone(),
            ],
        )
        .with_attribute("axis", Attribute::Int(axis))
    };
    vec![example("classes", -1), example("planes", 0)]
}

/// Types of the elements of identity matrices.
const EYE_TYPES: &[ElementType] = {
    use ElementType::*;
    &[
        Float32, Float64, Float16, BFloat16, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32,
        UInt64, Bool,
    ]
};

struct EyeLike {
    /// `None` takes the input's type.
    element_type: Option<ElementType>,
    k: i64,
}

/// The type that a node asks for.
fn eye_type(node: &NodeView<'_>) -> Result<Option<ElementType>, PrepareError> {
    let Some(number) = node.int("dtype")? else {
        return Ok(None);
    };
    i32::try_from(number)
        .ok()
        .and_then(ElementType::from_onnx)
        .filter(|t| EYE_TYPES.contains(t))
        .map(Some)
        .ok_or_else(|| PrepareError::Attribute {
            attribute: "dtype",
            reason: format!("element type number {number} is not served"),
        })
}

fn prepare_eye_like(
    node: &NodeView<'_>,
    _: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 1, 1)?;
    Ok(Box::new(EyeLike {
        element_type: eye_type(node)?,
        k: node.int("k")?.unwrap_or(0),
    }))
}

impl PreparedKernel for EyeLike {
    fn run(&self, io: &mut KernelIo<'_>, _: Lanes<'_>) -> Result<(), KernelError> {
        let input = io.input(0)?;
        let &[rows, columns] = input.dims() else {
            return Err(KernelError::InvalidInput {
                index: 0,
                reason: format!("a matrix is needed, not a tensor of rank {}", input.rank()),
            });
        };
        let element_type = self.element_type.unwrap_or(input.element_type());
        let mut output = io.output(0, element_type, &[rows, columns])?;
        /// Sets every element of one type.
        fn fill<T: Element>(
            output: &mut TensorViewMut<'_>,
            (zero, one): (T, T),
            columns: usize,
            k: i64,
        ) -> Result<(), KernelError> {
            let elements = output.as_slice_mut::<T>()?;
            elements.fill(zero);
            for (row, line) in (0_i64..).zip(elements.chunks_exact_mut(columns.max(1))) {
                let column = row.checked_add(k).and_then(|c| usize::try_from(c).ok());
                if let Some(slot) = column.and_then(|column| line.get_mut(column)) {
                    *slot = one;
                }
            }
            Ok(())
        }
        macro_rules! by_type {
            ($($name:ident: $zero:expr, $one:expr;)*) => {
                match element_type {
                    $(ElementType::$name => fill(&mut output, ($zero, $one), columns, self.k),)*
                    other => Err(KernelError::InvalidInput {
                        index: 0,
                        reason: format!("there is no identity matrix of {other}"),
                    }),
                }
            };
        }
        by_type! {
            Float32: 0f32, 1f32; Float64: 0f64, 1f64; Float16: f16::ZERO, f16::ONE; BFloat16: bf16::ZERO, bf16::ONE;
            Int8: 0i8, 1i8; Int16: 0i16, 1i16; Int32: 0i32, 1i32; Int64: 0i64, 1i64;
            UInt8: 0u8, 1u8; UInt16: 0u16, 1u16; UInt32: 0u32, 1u32; UInt64: 0u64, 1u64;
            Bool: onl_tensor::Bool(0), onl_tensor::Bool(1);
        }
    }
}

fn infer_eye_like(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let element_type = match eye_type(&context.node)? {
        Some(element_type) => element_type,
        None => context.element_type(0)?,
    };
    let dims = context.dims(0).map(<[Dim]>::to_vec);
    context.set_output(0, element_type, dims);
    Ok(())
}
