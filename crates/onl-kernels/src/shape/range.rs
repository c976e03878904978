//! Range: an arithmetic sequence.

use super::TINY_PAYLOAD;
use crate::movement::support::check_inputs;
use crate::{
    Example, ExampleInput, InferContext, InferError, KernelEntry, KernelError, KernelIo,
    PrepareContext, PrepareError, PreparedKernel, ShapeDependence, TypeSource,
};
use onl_executor::Lanes;
use onl_ir::{Dim, NodeView, OpId};
use onl_tensor::{Element, ElementType, Tensor, TensorView, bf16, f16};
use std::sync::Arc;

pub(super) fn entries() -> Vec<KernelEntry> {
    vec![KernelEntry {
        domain: OpId::ONNX,
        op_type: "Range",
        opsets: (11, i64::MAX),
        type_source: TypeSource::Input(0),
        element_types: &[
            ElementType::Float32,
            ElementType::Float64,
            ElementType::Float16,
            ElementType::BFloat16,
            ElementType::Int16,
            ElementType::Int32,
            ElementType::Int64,
        ],
        implementation: "sequence",
        revision: 1,
        prepare,
        infer,
        shape_dependence: ShapeDependence::AllValues,
        coverage: TINY_PAYLOAD,
        regions: &[],
        examples,
    }]
}

fn examples(element_type: ElementType, size: usize) -> Vec<Example> {
    let scalar = |value: f64| {
        let tensor = match element_type {
            ElementType::Float32 => Tensor::scalar(value as f32),
            ElementType::Float64 => Tensor::scalar(value),
            ElementType::Float16 => Tensor::scalar(f16::from_f64(value)),
            ElementType::BFloat16 => Tensor::scalar(bf16::from_f64(value)),
            ElementType::Int16 => Tensor::scalar(value as i16),
            ElementType::Int32 => Tensor::scalar(value as i32),
            _ => Tensor::scalar(value as i64),
        };
        ExampleInput::Constant(Arc::new(tensor.expect("a scalar can be allocated")))
    };
    // 16-bit sequences stay inside their type's exact integers.
    let limit = (size as f64).min(if element_type.bits() == 16 {
        256.0
    } else {
        1e9
    });
    vec![Example::new(
        "counting",
        vec![scalar(0.0), scalar(limit), scalar(1.0)],
    )]
}

struct Range;

fn prepare(
    node: &NodeView<'_>,
    _: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 3, 3)?;
    Ok(Box::new(Range))
}

/// Number types that a range runs over. Element `i` is `start + i · delta`: one product and one sum, each rounded
/// to the type (f16 and bf16: computed in f32 and rounded once); integers wrap.
trait Sequence: Element {
    /// max(0, ceil((limit − start) / delta)); `None` when it is no number of elements.
    fn count(start: Self, limit: Self, delta: Self) -> Option<usize>;
    /// Element `i`.
    fn at(start: Self, delta: Self, i: usize) -> Self;
}

fn float_count(start: f64, limit: f64, delta: f64) -> Option<usize> {
    let count = ((limit - start) / delta).ceil();
    // 2^53 elements cannot be held anyway; NaN (delta 0, infinities) fails the comparison.
    (count < 9.0e15).then(|| count.max(0.0) as usize)
}

fn integer_count(start: i64, limit: i64, delta: i64) -> Option<usize> {
    let (span, delta) = (i128::from(limit) - i128::from(start), i128::from(delta));
    if delta == 0 {
        return None;
    }
    let count = if (span > 0) == (delta > 0) {
        (span.abs() + delta.abs() - 1) / delta.abs()
    } else {
        0
    };
    usize::try_from(count).ok()
}

macro_rules! float_sequences {
    ($($t:ty),*) => {$(
        impl Sequence for $t {
            fn count(start: Self, limit: Self, delta: Self) -> Option<usize> {
                if delta == 0.0 { return None; }
                float_count(f64::from(start), f64::from(limit), f64::from(delta))
            }
            fn at(start: Self, delta: Self, i: usize) -> Self {
                start + i as $t * delta
            }
        }
    )*};
}
float_sequences!(f32, f64);

macro_rules! short_float_sequences {
    ($($t:ty),*) => {$(
        impl Sequence for $t {
            fn count(start: Self, limit: Self, delta: Self) -> Option<usize> {
                f32::count(start.to_f32(), limit.to_f32(), delta.to_f32())
            }
            fn at(start: Self, delta: Self, i: usize) -> Self {
                <$t>::from_f32(f32::at(start.to_f32(), delta.to_f32(), i))
            }
        }
    )*};
}
short_float_sequences!(f16, bf16);

macro_rules! integer_sequences {
    ($($t:ty),*) => {$(
        impl Sequence for $t {
            fn count(start: Self, limit: Self, delta: Self) -> Option<usize> {
                integer_count(i64::from(start), i64::from(limit), i64::from(delta))
            }
            fn at(start: Self, delta: Self, i: usize) -> Self {
                start.wrapping_add(delta.wrapping_mul(i as $t))
            }
        }
    )*};
}
integer_sequences!(i16, i32, i64);

fn bounds<T: Sequence>(inputs: [TensorView<'_>; 3]) -> Result<(T, T, usize), KernelError> {
    let mut values = [None; 3];
    for (index, input) in inputs.iter().enumerate() {
        match input.as_slice::<T>()? {
            [value] => values[index] = Some(*value),
            other => {
                return Err(KernelError::InvalidInput {
                    index,
                    reason: format!(
                        "a scalar is required, the tensor has {} elements",
                        other.len()
                    ),
                });
            }
        }
    }
    let [Some(start), Some(limit), Some(delta)] = values else {
        unreachable!("all three values were set")
    };
    let count = T::count(start, limit, delta).ok_or_else(|| KernelError::InvalidInput {
        index: 2,
        reason: format!(
            "a range from {start:?} to {limit:?} in steps of {delta:?} has no finite number of elements; \
             the step must not be zero"
        ),
    })?;
    Ok((start, delta, count))
}

fn write<T: Sequence>(io: &mut KernelIo<'_>) -> Result<(), KernelError> {
    let (start, delta, count) = bounds::<T>([io.input(0)?, io.input(1)?, io.input(2)?])?;
    let mut output = io.output(0, T::TYPE, &[count])?;
    for (i, slot) in output.as_slice_mut::<T>()?.iter_mut().enumerate() {
        *slot = T::at(start, delta, i);
    }
    Ok(())
}

impl PreparedKernel for Range {
    fn run(&self, io: &mut KernelIo<'_>, _: Lanes<'_>) -> Result<(), KernelError> {
        match io.input(0)?.element_type() {
            ElementType::Float32 => write::<f32>(io),
            ElementType::Float64 => write::<f64>(io),
            ElementType::Float16 => write::<f16>(io),
            ElementType::BFloat16 => write::<bf16>(io),
            ElementType::Int16 => write::<i16>(io),
            ElementType::Int32 => write::<i32>(io),
            ElementType::Int64 => write::<i64>(io),
            other => Err(KernelError::InvalidInput {
                index: 0,
                reason: format!("Range does not run over {other}"),
            }),
        }
    }
}

fn infer(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let element_type = context.element_type(0)?;
    let length = match (
        context.constant(0),
        context.constant(1),
        context.constant(2),
    ) {
        (Some(a), Some(b), Some(c)) => {
            let inputs = [a.view(), b.view(), c.view()];
            let count = match element_type {
                ElementType::Float32 => bounds::<f32>(inputs).map(|b| b.2),
                ElementType::Float64 => bounds::<f64>(inputs).map(|b| b.2),
                ElementType::Float16 => bounds::<f16>(inputs).map(|b| b.2),
                ElementType::BFloat16 => bounds::<bf16>(inputs).map(|b| b.2),
                ElementType::Int16 => bounds::<i16>(inputs).map(|b| b.2),
                ElementType::Int32 => bounds::<i32>(inputs).map(|b| b.2),
                _ => bounds::<i64>(inputs).map(|b| b.2),
            };
            Dim::Known(count.map_err(|e| InferError::Shapes(e.to_string()))?)
        }
        _ => Dim::Unknown,
    };
    context.set_output(0, element_type, Some(vec![length]));
    Ok(())
}
