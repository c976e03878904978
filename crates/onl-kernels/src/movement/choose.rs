//! Compress and Unique: slices chosen by a mask or by being the first of their kind.

use super::support::{axis_of, check_inputs};
use super::{Division, entry};
use crate::infer::resolve_axis;
use crate::{
    Coverage, Example, ExampleInput, InferContext, InferError, KernelEntry, KernelError, KernelIo,
    PrepareContext, PrepareError, PreparedKernel, SerialCategory, ShapeDependence,
};
use onl_executor::Lanes;
use onl_ir::{Attribute, Dim, NodeView};
use onl_movement::{GATHER, gather, words};
use onl_tensor::{Bool, ElementType, Shape, Tensor, TensorView, bf16, f16};
use std::cmp::Ordering;
use std::sync::Arc;

pub(super) fn entries() -> Vec<KernelEntry> {
    let unique_types = const {
        use ElementType::*;
        &[
            Float32, Float64, Float16, BFloat16, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32,
            UInt64, Bool, String,
        ]
    };
    vec![
        KernelEntry {
            regions: const { &[&GATHER] },
            shape_dependence: ShapeDependence::Values(&[1]),
            ..entry(
                "Compress",
                (9, i64::MAX),
                prepare_compress,
                infer_compress,
                compress_examples,
            )
        },
        KernelEntry {
            element_types: unique_types,
            implementation: "sort",
            shape_dependence: ShapeDependence::AllValues,
            coverage: Coverage::Serial {
                category: SerialCategory::Ordered,
                reason: "Elements are sorted, and where one goes depends on all others.",
            },
            ..entry(
                "Unique",
                (11, i64::MAX),
                prepare_unique,
                infer_unique,
                unique_examples,
            )
        },
    ]
}

/// The input as the operator walks it: flattened without an axis.
fn walked<'a>(
    dims: &'a [usize],
    flat: &'a [usize; 1],
    axis: Option<i64>,
) -> Result<(&'a [usize], usize), KernelError> {
    match axis {
        Some(axis) => Ok((dims, axis_of(axis, dims.len())?)),
        None => Ok((flat, 0)),
    }
}

/// Size of the axis that is walked, for scratch memory; 0 when the axis does not exist.
fn walked_size(dims: &[usize], axis: Option<i64>) -> usize {
    match axis {
        Some(axis) => axis_of(axis, dims.len()).map_or(0, |axis| dims[axis]),
        None => dims.iter().product(),
    }
}

struct Compress {
    axis: Option<i64>,
    division: Division,
}

fn prepare_compress(
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 2, 2)?;
    Ok(Box::new(Compress {
        axis: node.int("axis")?,
        division: Division::new("Compress", node, context),
    }))
}

impl PreparedKernel for Compress {
    fn workspace(&self, input_dims: &[&[usize]], _: usize) -> usize {
        let mask = input_dims
            .get(1)
            .map_or(0, |dims| dims.iter().product::<usize>());
        8 * mask
    }

    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let (input, condition) = (io.input(0)?, io.input(1)?);
        if condition.rank() != 1 {
            return Err(KernelError::InvalidInput {
                index: 1,
                reason: format!("one axis is needed, it has {}", condition.rank()),
            });
        }
        let mask = condition.as_slice::<Bool>()?;
        let flat = [input.len()];
        let (dims, axis) = walked(input.dims(), &flat, self.axis)?;
        // Numpy refuses a chosen index behind the axis, and takes shorter masks.
        if let Some(position) = mask.iter().rposition(|m| m.0 != 0)
            && position >= dims[axis]
        {
            return Err(KernelError::IndexOutOfRange {
                index: position as i64,
                position,
                axis,
                size: dims[axis],
            });
        }
        let count = mask.iter().filter(|m| m.0 != 0).count();
        let mut shape = Shape::new(dims);
        shape.dims_mut()[axis] = count;
        let (mut output, workspace) = io.output_and_workspace(0, input.element_type(), &shape)?;
        let chosen = words(workspace, count);
        let positions = (0_i64..).zip(mask).filter(|(_, m)| m.0 != 0);
        for (slot, (position, _)) in chosen.iter_mut().zip(positions) {
            *slot = position;
        }
        let execution = self.division.execution(output.len(), lanes);
        let (count, input) = ([count], input.with_dims(dims)?);
        let chosen = TensorView::from_slice(&count, chosen)?;
        Ok(gather(input, chosen, axis, &mut output, &execution)?)
    }
}

fn infer_compress(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let element_type = context.element_type(0)?;
    let dims = match (context.node.int("axis")?, context.dims(0)) {
        (None, _) => Some(vec![Dim::Unknown]),
        (Some(axis), Some(dims)) => {
            let mut dims = dims.to_vec();
            let axis = resolve_axis(axis, dims.len())?;
            dims[axis] = Dim::Unknown;
            Some(dims)
        }
        _ => None,
    };
    context.set_output(0, element_type, dims);
    Ok(())
}

fn compress_examples(element_type: ElementType, size: usize) -> Vec<Example> {
    let mask = |count: usize| {
        let values: Vec<Bool> = (0..count).map(|i| Bool((i * 7 % 5 < 3) as u8)).collect();
        let tensor = Tensor::from_slice(&[count], &values).expect("one value per index");
        ExampleInput::Constant(Arc::new(tensor))
    };
    let rows = (size / 64).max(1);
    vec![
        Example::new(
            "rows",
            vec![ExampleInput::random(element_type, &[rows, 64]), mask(rows)],
        )
        .with_attribute("axis", Attribute::Int(0)),
        Example::new(
            "flat",
            vec![ExampleInput::random(element_type, &[size]), mask(size)],
        ),
    ]
}

struct Unique {
    axis: Option<i64>,
    sorted: bool,
    division: Division,
}

fn prepare_unique(
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 1, 1)?;
    Ok(Box::new(Unique {
        axis: node.int("axis")?,
        sorted: node.int("sorted")?.unwrap_or(1) != 0,
        division: Division::new("Unique", node, context),
    }))
}

/// Order of elements: NaN is equal to itself and behind all numbers.
trait Ordered {
    fn order(&self, other: &Self) -> Ordering;
}

macro_rules! ordered {
    ($($t:ty),*) => {$(
        impl Ordered for $t {
            fn order(&self, other: &Self) -> Ordering { self.cmp(other) }
        }
    )*};
}
ordered!(u8, u16, u32, u64, i8, i16, i32, i64, Bool, String);

macro_rules! ordered_floats {
    ($($t:ty),*) => {$(
        impl Ordered for $t {
            fn order(&self, other: &Self) -> Ordering {
                self.partial_cmp(other)
                    .unwrap_or_else(|| self.is_nan().cmp(&other.is_nan()))
            }
        }
    )*};
}
ordered_floats!(f32, f64, f16, bf16);

/// Orders two indices of the axis by their slices, element by element in row-major order.
fn compare<T: Ordered>(elements: &[T], size: usize, inner: usize, a: usize, b: usize) -> Ordering {
    for outer in elements.chunks_exact((size * inner).max(1)) {
        let slice = |index: usize| &outer[index * inner..][..inner];
        for (x, y) in slice(a).iter().zip(slice(b)) {
            match x.order(y) {
                Ordering::Equal => {}
                other => return other,
            }
        }
    }
    Ordering::Equal
}

impl PreparedKernel for Unique {
    fn workspace(&self, input_dims: &[&[usize]], _: usize) -> usize {
        4 * 8 * walked_size(input_dims[0], self.axis)
    }

    fn run(&self, io: &mut KernelIo<'_>, _: Lanes<'_>) -> Result<(), KernelError> {
        let input = io.input(0)?;
        let flat = [input.len()];
        let (dims, axis) = walked(input.dims(), &flat, self.axis)?;
        let (size, inner) = (dims[axis], dims[axis + 1..].iter().product::<usize>());
        // Four lists of one word per index: the order, then per kind its first index and its count, and per index
        // its kind.
        let (order, rest) = words(io.workspace(), 4 * size).split_at_mut(size);
        let (first, rest) = rest.split_at_mut(size);
        let (counts, kinds) = rest.split_at_mut(size);
        macro_rules! sort {
            ($($name:ident: $t:ty),*) => {
                match input.element_type() {
                    $(ElementType::$name => {
                        let elements = input.as_slice::<$t>()?;
                        group(order, first, counts, kinds, |a, b| compare(elements, size, inner, a, b))
                    })*
                    ElementType::String => {
                        let elements = input.as_strings()?;
                        group(order, first, counts, kinds, |a, b| compare(elements, size, inner, a, b))
                    }
                    other => return Err(KernelError::InvalidInput {
                        index: 0,
                        reason: format!("elements of {other} have no order"),
                    }),
                }
            };
        }
        let count = sort!(
            Float32: f32, Float64: f64, Float16: f16, BFloat16: bf16, Bool: Bool, Int8: i8, Int16: i16, Int32: i32,
            Int64: i64, UInt8: u8, UInt16: u16, UInt32: u32, UInt64: u64
        );
        if !self.sorted {
            by_occurrence(count, order, first, counts, kinds);
        }
        let lists: [(usize, usize); 3] = [(1, count), (3, size), (2, count)];
        for (output, (list, length)) in (1..).zip(lists) {
            if output < io.output_count() {
                let (mut target, workspace) =
                    io.output_and_workspace(output, ElementType::Int64, &[length])?;
                let words = words(workspace, 4 * size);
                target
                    .as_slice_mut::<i64>()?
                    .copy_from_slice(&words[list * size..][..length]);
            }
        }
        let mut shape = Shape::new(dims);
        shape.dims_mut()[axis] = count;
        let (mut output, workspace) = io.output_and_workspace(0, input.element_type(), &shape)?;
        let first = &words(workspace, 4 * size)[size..][..count];
        let (count, input) = ([count], input.with_dims(dims)?);
        let first = TensorView::from_slice(&count, first)?;
        let execution = self.division.execution(output.len(), Lanes::serial());
        Ok(gather(input, first, axis, &mut output, &execution)?)
    }
}

/// Groups equal indices: afterwards `first` and `counts` hold, per kind in ascending order, its first index and how
/// many there are, and `kinds` the kind of every index. Gives the number of kinds.
fn group(
    order: &mut [i64],
    first: &mut [i64],
    counts: &mut [i64],
    kinds: &mut [i64],
    compare: impl Fn(usize, usize) -> Ordering,
) -> usize {
    for (index, slot) in (0..).zip(order.iter_mut()) {
        *slot = index;
    }
    order.sort_unstable_by(|&a, &b| compare(a as usize, b as usize).then(a.cmp(&b)));
    let mut count = 0;
    for (position, &index) in order.iter().enumerate() {
        let new = position == 0
            || compare(order[position - 1] as usize, index as usize) != Ordering::Equal;
        if new {
            first[count] = index;
            counts[count] = 0;
            count += 1;
        }
        counts[count - 1] += 1;
        kinds[index as usize] = count as i64 - 1;
    }
    count
}

/// Renumbers kinds by their first occurrence; `scratch` is overwritten.
fn by_occurrence(
    count: usize,
    scratch: &mut [i64],
    first: &mut [i64],
    counts: &mut [i64],
    kinds: &mut [i64],
) {
    // Along the indices, a kind that was not met gets the next number; its old number says where its count is.
    let (mut next, old_counts) = (0, &mut scratch[..count]);
    old_counts.copy_from_slice(&counts[..count]);
    // A first index that was renumbered is kept as −1 − new number until all are.
    for index in 0..kinds.len() {
        let kind = kinds[index] as usize;
        if first[kind] == index as i64 {
            first[kind] = -1 - next;
            counts[next as usize] = old_counts[kind];
            next += 1;
        }
        kinds[index] = -1 - first[kind];
    }
    let mut met = 0;
    for (index, &kind) in (0..).zip(kinds.iter()) {
        if kind == met {
            first[met as usize] = index;
            met += 1;
        }
    }
}

fn infer_unique(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let element_type = context.element_type(0)?;
    let axis = context.node.int("axis")?;
    let (dims, size) = match (axis, context.dims(0)) {
        (None, _) => (Some(vec![Dim::Unknown]), Dim::Unknown),
        (Some(axis), Some(dims)) => {
            let mut dims = dims.to_vec();
            let axis = resolve_axis(axis, dims.len())?;
            let size = std::mem::replace(&mut dims[axis], Dim::Unknown);
            (Some(dims), size)
        }
        _ => (None, Dim::Unknown),
    };
    context.set_output(0, element_type, dims);
    for (index, size) in [(1, Dim::Unknown), (2, size), (3, Dim::Unknown)] {
        context.set_output(index, ElementType::Int64, Some(vec![size]));
    }
    Ok(())
}

fn unique_examples(element_type: ElementType, size: usize) -> Vec<Example> {
    let rows = (size / 4).max(1);
    let mut flat = Example::new("flat", vec![ExampleInput::random(element_type, &[size])]);
    flat.outputs = 4;
    let mut rows = Example::new("rows", vec![ExampleInput::random(element_type, &[rows, 4])])
        .with_attribute("axis", Attribute::Int(0))
        .with_attribute("sorted", Attribute::Int(0));
    rows.outputs = 4;
    vec![flat, rows]
}
