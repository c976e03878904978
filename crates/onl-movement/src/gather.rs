//! Gather, GatherElements and GatherND. An index that is out of range is found by whichever lane meets it; the one
//! with the smallest position is reported.

use crate::unit::{Unit, by_unit, check_output};
use crate::{Execution, GATHER, MovementError};
use onl_tensor::{Shape, TensorView, TensorViewMut, row_major_strides};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Indices of 32 or 64 bits.
#[derive(Clone, Copy)]
enum Indices<'a> {
    Short(&'a [i32]),
    Long(&'a [i64]),
}

impl<'a> Indices<'a> {
    fn of(view: &TensorView<'a>) -> Result<Self, MovementError> {
        match view.as_slice::<i32>() {
            Ok(values) => Ok(Indices::Short(values)),
            Err(_) => Ok(Indices::Long(view.as_slice::<i64>()?)),
        }
    }

    #[inline]
    fn at(&self, position: usize) -> i64 {
        match self {
            Indices::Short(values) => i64::from(values[position]),
            Indices::Long(values) => values[position],
        }
    }

    /// The index resolved against an axis: negative ones count from the end.
    #[inline]
    fn resolve(&self, position: usize, size: usize) -> Option<usize> {
        let index = self.at(position);
        let resolved = if index < 0 {
            index + size as i64
        } else {
            index
        };
        (0 <= resolved && (resolved as usize) < size).then_some(resolved as usize)
    }
}

/// Smallest position of an index that was out of range.
struct FirstBad(AtomicUsize);

impl FirstBad {
    fn new() -> Self {
        FirstBad(AtomicUsize::new(usize::MAX))
    }

    fn report(&self, position: usize) {
        self.0.fetch_min(position, Ordering::Relaxed);
    }

    fn check(
        &self,
        indices: &Indices<'_>,
        axis_size: impl Fn(usize) -> (usize, usize),
    ) -> Result<(), MovementError> {
        match self.0.load(Ordering::Relaxed) {
            usize::MAX => Ok(()),
            position => {
                let (axis, size) = axis_size(position);
                Err(MovementError::IndexOutOfRange {
                    index: indices.at(position),
                    position,
                    axis,
                    size,
                })
            }
        }
    }
}

/// Slices of the input along `axis` at `indices` (ONNX `Gather`): output shape
/// `input[..axis] + indices + input[axis + 1..]`. Indices are i32 or i64; negative ones count from the end.
///
/// # Errors
/// [`MovementError::IndexOutOfRange`], or [`MovementError::Shapes`] when the output has another shape.
pub fn gather(
    input: TensorView<'_>,
    indices: TensorView<'_>,
    axis: usize,
    output: &mut TensorViewMut<'_>,
    execution: &Execution<'_>,
) -> Result<(), MovementError> {
    let dims = input.dims();
    if axis >= dims.len() {
        return Err(MovementError::shapes(
            &[dims],
            format!("there is no axis {axis}"),
        ));
    }
    let expected: Shape = dims[..axis]
        .iter()
        .chain(indices.dims())
        .chain(&dims[axis + 1..])
        .copied()
        .collect();
    check_output(input.element_type(), output, &expected)?;
    let positions = Indices::of(&indices)?;
    let count = indices.len();
    let size = dims[axis];
    let inner: usize = dims[axis + 1..].iter().product();
    let bad = FirstBad::new();
    if output.is_empty() {
        // No element is read, and still a bad index is an error.
        if let Some(position) = (0..count).find(|&p| positions.resolve(p, size).is_none()) {
            bad.report(position);
        }
        return bad.check(&positions, |_| (axis, size));
    }
    by_unit!(input.element_type(), U => {
        let source = <U as Unit>::of(&input)?;
        let target = <U as Unit>::of_mut(output)?;
        let cost = if inner < 16 { 1500 } else { 200 };
        let spec = execution.spec(target.len() / inner, inner, cost, "");
        execution.lanes.region_over(&GATHER, spec, target, inner, |chunk, part| {
            for (unit, block) in chunk.range.zip(part.chunks_exact_mut(inner)) {
                let (outer, position) = (unit / count, unit % count);
                match positions.resolve(position, size) {
                    Some(index) => {
                        block.clone_from_slice(&source[(outer * size + index) * inner..][..inner]);
                    }
                    None => bad.report(position),
                }
            }
        })?;
        Ok::<(), MovementError>(())
    })?;
    bad.check(&positions, |_| (axis, size))
}

/// `output[i] = input[i with i[axis] replaced by indices[i]]` (ONNX `GatherElements`); the output has the shape of
/// `indices`, which is not larger than the input on the other axes.
///
/// # Errors
/// [`MovementError::IndexOutOfRange`], or [`MovementError::Shapes`] when shapes do not fit.
pub fn gather_elements(
    input: TensorView<'_>,
    indices: TensorView<'_>,
    axis: usize,
    output: &mut TensorViewMut<'_>,
    execution: &Execution<'_>,
) -> Result<(), MovementError> {
    let (dims, shape) = (input.dims(), indices.dims());
    let fits = dims.len() == shape.len()
        && axis < dims.len()
        && (0..dims.len()).all(|a| a == axis || shape[a] <= dims[a]);
    if !fits {
        return Err(MovementError::shapes(
            &[dims, shape],
            format!("indices must have the input's rank and, besides axis {axis}, be no larger"),
        ));
    }
    check_output(input.element_type(), output, shape)?;
    if output.is_empty() {
        return Ok(());
    }
    let positions = Indices::of(&indices)?;
    let size = dims[axis];
    let steps = row_major_strides(dims);
    let mut strides: SmallVec<[isize; 8]> = steps.iter().map(|&s| s as isize).collect();
    strides[axis] = 0;
    let last = shape.len() - 1;
    let inner = shape[last];
    let bad = FirstBad::new();
    by_unit!(input.element_type(), U => {
        let source = <U as Unit>::of(&input)?;
        let target = <U as Unit>::of_mut(output)?;
        let spec = execution.spec(target.len() / inner, inner, 1500, "");
        execution.lanes.region_over(&GATHER, spec, target, inner, |chunk, part| {
            let mut rows = crate::strided::Rows::at(&shape[..last], &strides[..last], 0, chunk.range.start);
            for (row, line) in chunk.range.zip(part.chunks_exact_mut(inner)) {
                for (column, slot) in line.iter_mut().enumerate() {
                    let position = row * inner + column;
                    match positions.resolve(position, size) {
                        Some(index) => {
                            let start = rows.start as usize + column * strides[last] as usize;
                            slot.clone_from(&source[start + index * steps[axis]]);
                        }
                        None => bad.report(position),
                    }
                }
                rows.advance();
            }
        })?;
        Ok::<(), MovementError>(())
    })?;
    bad.check(&positions, |_| (axis, size))
}

/// Slices of the input at index tuples (ONNX `GatherND`): the last axis of `indices` holds tuples that select
/// within `input[batch_dims..]`; the leading `batch_dims` axes of both are equal and walked together.
///
/// # Errors
/// [`MovementError::IndexOutOfRange`], or [`MovementError::Shapes`] when shapes do not fit.
pub fn gather_nd(
    input: TensorView<'_>,
    indices: TensorView<'_>,
    batch_dims: usize,
    output: &mut TensorViewMut<'_>,
    execution: &Execution<'_>,
) -> Result<(), MovementError> {
    let (dims, shape) = (input.dims(), indices.dims());
    let depth = shape.last().copied().unwrap_or(0);
    let fits = !shape.is_empty()
        && batch_dims < shape.len()
        && batch_dims + depth <= dims.len()
        && dims[..batch_dims] == shape[..batch_dims];
    if !fits {
        return Err(MovementError::shapes(
            &[dims, shape],
            format!("tuples of {depth} indices do not fit after {batch_dims} batch axes"),
        ));
    }
    let expected: Shape = shape[..shape.len() - 1]
        .iter()
        .chain(&dims[batch_dims + depth..])
        .copied()
        .collect();
    check_output(input.element_type(), output, &expected)?;
    let positions = Indices::of(&indices)?;
    let tuples: usize = shape[..shape.len() - 1].iter().product();
    let batches: usize = dims[..batch_dims].iter().product();
    let per_batch = tuples / batches.max(1);
    let inner: usize = dims[batch_dims + depth..].iter().product();
    let batch_step: usize = dims[batch_dims..].iter().product();
    let steps = row_major_strides(dims);
    let axis_size = |position: usize| {
        let axis = batch_dims + position % depth.max(1);
        (axis, dims[axis])
    };
    let bad = FirstBad::new();
    // Source element of a tuple's slice.
    let start_of = |tuple: usize| -> Option<usize> {
        let mut start = tuple / per_batch.max(1) * batch_step;
        for k in 0..depth {
            let position = tuple * depth + k;
            match positions.resolve(position, dims[batch_dims + k]) {
                Some(index) => start += index * steps[batch_dims + k],
                None => {
                    bad.report(position);
                    return None;
                }
            }
        }
        Some(start)
    };
    if output.is_empty() {
        for tuple in 0..tuples {
            if start_of(tuple).is_none() {
                break;
            }
        }
        return bad.check(&positions, axis_size);
    }
    by_unit!(input.element_type(), U => {
        let source = <U as Unit>::of(&input)?;
        let target = <U as Unit>::of_mut(output)?;
        let cost = if inner < 16 { 3000 } else { 300 };
        let spec = execution.spec(tuples, inner, cost, "");
        execution.lanes.region_over(&GATHER, spec, target, inner, |chunk, part| {
            for (tuple, block) in chunk.range.zip(part.chunks_exact_mut(inner)) {
                if let Some(start) = start_of(tuple) {
                    block.clone_from_slice(&source[start..][..inner]);
                }
            }
        })?;
        Ok::<(), MovementError>(())
    })?;
    bad.check(&positions, axis_size)
}
