//! Gather, GatherElements and GatherND.

use crate::indices::{FirstBad, Index, Indices, Tuples, by_index};
use crate::strided::Rows;
use crate::unit::{Unit, by_unit, check_output};
use crate::{Execution, GATHER, MovementError};
use onl_simd::{Isa, SimdOp, dispatch};
use onl_tensor::{Shape, TensorView, TensorViewMut, row_major_strides};
use smallvec::SmallVec;
use std::ops::Range;

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
    let size = dims[axis];
    let inner: usize = dims[axis + 1..].iter().product();
    let bad = FirstBad::new();
    if output.is_empty() {
        // No element is read, and still a bad index is an error.
        by_index!(positions, values => {
            if let Some(position) = first_bad(values, size) {
                bad.report(position);
            }
        });
        return bad.check(&positions, |_| (axis, size));
    }
    by_unit!(input.element_type(), U => by_index!(positions, indices => {
        let source = <U as Unit>::of(&input)?;
        let target = <U as Unit>::of_mut(output)?;
        let (cost, path) = if inner == 1 { (800, "elements") } else { (200, "runs") };
        let spec = execution.spec(target.len() / inner, inner, cost, path);
        execution.lanes.region_over(&GATHER, spec, target, inner, |chunk, target| {
            let range = chunk.range;
            dispatch(execution.tier, Slices { source, indices, size, inner, range, target, bad: &bad });
        })?;
        Ok::<(), MovementError>(())
    }))?;
    bad.check(&positions, |_| (axis, size))
}

/// Some slices of a [`gather`].
struct Slices<'a, T, I> {
    source: &'a [T],
    indices: &'a [I],
    /// Size of the axis.
    size: usize,
    /// Elements of a slice.
    inner: usize,
    /// Numbers of the slices.
    range: Range<usize>,
    target: &'a mut [T],
    bad: &'a FirstBad,
}

impl<T: Unit, N: Index> SimdOp for Slices<'_, T, N> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, _: I) {
        let (inner, size, count) = (self.inner, self.size, self.indices.len());
        let mut outer = self.range.start / count;
        let mut position = self.range.start % count;
        let mut target = self.target;
        while !target.is_empty() {
            let slices = (count - position).min(target.len() / inner);
            let (part, rest) = target.split_at_mut(slices * inner);
            target = rest;
            let source = &self.source[outer * size * inner..][..size * inner];
            let indices = &self.indices[position..position + slices];
            if inner == 1 {
                // SAFETY: the source has as many elements as the axis; the size is not 0.
                let all_good =
                    size > 0 && unsafe { gather_line(source, indices, size, 1, 0, part) };
                if !all_good && let Some(k) = first_bad(indices, size) {
                    self.bad.report(position + k);
                }
            } else {
                for (k, (slice, index)) in part.chunks_exact_mut(inner).zip(indices).enumerate() {
                    match index.resolve(size) {
                        Some(index) => T::copy_run(&source[index * inner..][..inner], slice),
                        None => self.bad.report(position + k),
                    }
                }
            }
            position = 0;
            outer += 1;
        }
    }
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
    check_elementwise_indices(dims, shape, axis)?;
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
    by_unit!(input.element_type(), U => by_index!(positions, indices => {
        let source = <U as Unit>::of(&input)?;
        let target = <U as Unit>::of_mut(output)?;
        let spec = execution.spec(target.len() / inner, inner, 1000, "");
        if size == 0 {
            bad.report(0);
            return Ok::<(), MovementError>(());
        }
        execution.lanes.region_over(&GATHER, spec, target, inner, |chunk, part| {
            let first = chunk.range.start;
            let rows = Rows::at(&shape[..last], &strides[..last], 0, first);
            let (step, stride) = (steps[axis], strides[last] as usize);
            let indices = &indices[first * inner..][..part.len()];
            let elements = Elements { source, indices, rows, first, inner, size, step, stride, target: part, bad: &bad };
            dispatch(execution.tier, elements);
        })?;
        Ok::<(), MovementError>(())
    }))?;
    bad.check(&positions, |_| (axis, size))
}

/// Some rows of a [`gather_elements`].
struct Elements<'a, T, I> {
    source: &'a [T],
    /// Indices of these rows.
    indices: &'a [I],
    rows: Rows<'a>,
    /// Number of the first row.
    first: usize,
    /// Elements of a row.
    inner: usize,
    /// Size of the axis, not 0.
    size: usize,
    /// Source elements from one index to the next.
    step: usize,
    /// Source elements from one column to the next: 0 along the last axis, else 1.
    stride: usize,
    target: &'a mut [T],
    bad: &'a FirstBad,
}

impl<T: Unit, N: Index> SimdOp for Elements<'_, T, N> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(mut self, _: I) {
        let (inner, size) = (self.inner, self.size);
        let reach = (size - 1) * self.step + (inner - 1) * self.stride + 1;
        let lines = self.target.chunks_exact_mut(inner);
        for (row, (line, indices)) in lines.zip(self.indices.chunks_exact(inner)).enumerate() {
            let source = &self.source[self.rows.start as usize..][..reach];
            // SAFETY: the source reaches to the last index of the last column.
            let all_good = unsafe {
                match (self.step, self.stride) {
                    (1, 0) => gather_line(source, indices, size, 1, 0, line),
                    (step, 0) => gather_line(source, indices, size, step, 0, line),
                    (step, _) => gather_line(source, indices, size, step, 1, line),
                }
            };
            if !all_good && let Some(k) = first_bad(indices, size) {
                self.bad.report((self.first + row) * inner + k);
            }
            self.rows.advance();
        }
    }
}

/// Position of the first index that lies outside an axis.
#[cold]
fn first_bad<N: Index>(indices: &[N], size: usize) -> Option<usize> {
    indices.iter().position(|i| i.resolve(size).is_none())
}

/// Fills a line with `source[index · step + column · stride]` and tells whether all indices are inside the axis; the
/// element of index 0 stands in where one is not, so that no element needs a branch.
///
/// # Safety
/// `source` reaches to index `size − 1` of the last column; `size` is not 0.
#[inline(always)]
unsafe fn gather_line<T: Unit, N: Index>(
    source: &[T],
    indices: &[N],
    size: usize,
    step: usize,
    stride: usize,
    line: &mut [T],
) -> bool {
    // The loop of indices that count from the start needs no decision, and all are such most of the time.
    let mut plain = true;
    for index in indices {
        plain &= (index.wide() as u64) < size as u64;
    }
    if plain {
        for (column, (slot, index)) in line.iter_mut().zip(indices).enumerate() {
            let at = index.wide() as usize * step + column * stride;
            // SAFETY: the index is below the size; the caller's promise.
            slot.clone_from(unsafe { source.get_unchecked(at) });
        }
        return true;
    }
    let mut all_good = true;
    for (column, (slot, index)) in line.iter_mut().zip(indices).enumerate() {
        let index = index.resolve(size);
        all_good &= index.is_some();
        // SAFETY: a resolved index is below the size, and so is 0; the caller's promise.
        let element = unsafe { source.get_unchecked(index.unwrap_or(0) * step + column * stride) };
        slot.clone_from(element);
    }
    all_good
}

/// Whether indices that stand for elements have the data's rank and are, besides the axis, no larger.
pub(crate) fn check_elementwise_indices(
    dims: &[usize],
    shape: &[usize],
    axis: usize,
) -> Result<(), MovementError> {
    let fits = dims.len() == shape.len()
        && axis < dims.len()
        && (0..dims.len()).all(|a| a == axis || shape[a] <= dims[a]);
    if fits {
        return Ok(());
    }
    Err(MovementError::shapes(
        &[dims, shape],
        format!("indices must have the input's rank and, besides axis {axis}, be no larger"),
    ))
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
    let tuples = Tuples::new(dims, shape, batch_dims)?;
    let expected: Shape = shape[..shape.len() - 1]
        .iter()
        .chain(&dims[batch_dims + tuples.depth..])
        .copied()
        .collect();
    check_output(input.element_type(), output, &expected)?;
    let positions = Indices::of(&indices)?;
    let inner = tuples.inner;
    let bad = FirstBad::new();
    if output.is_empty() {
        by_index!(positions, indices => {
            let starts = tuples.starts(indices, &bad);
            (0..tuples.count).any(|tuple| starts.of(tuple).is_none());
        });
        return bad.check(&positions, |position| tuples.axis_size(position));
    }
    by_unit!(input.element_type(), U => by_index!(positions, indices => {
        let source = <U as Unit>::of(&input)?;
        let target = <U as Unit>::of_mut(output)?;
        let cost = if inner < 16 { 2000 } else { 300 };
        let spec = execution.spec(tuples.count, inner, cost, "");
        execution.lanes.region_over(&GATHER, spec, target, inner, |chunk, target| {
            let range = chunk.range;
            dispatch(execution.tier, TupleSlices { source, indices, tuples: &tuples, range, target, bad: &bad });
        })?;
        Ok::<(), MovementError>(())
    }))?;
    bad.check(&positions, |position| tuples.axis_size(position))
}

/// Some slices of a [`gather_nd`].
struct TupleSlices<'a, T, I> {
    source: &'a [T],
    indices: &'a [I],
    tuples: &'a Tuples<'a>,
    range: Range<usize>,
    target: &'a mut [T],
    bad: &'a FirstBad,
}

impl<T: Unit, N: Index> SimdOp for TupleSlices<'_, T, N> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, _: I) {
        let (inner, starts) = (
            self.tuples.inner,
            self.tuples.starts(self.indices, self.bad),
        );
        for (tuple, slice) in self.range.zip(self.target.chunks_exact_mut(inner)) {
            if let Some(start) = starts.of(tuple) {
                T::copy_run(&self.source[start..][..inner], slice);
            }
        }
    }
}
