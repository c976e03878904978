//! Copies from a strided view of the input into a contiguous output: slices, expansion, tiling.

use crate::unit::{Unit, by_unit, check_output};
use crate::{Execution, MovementError, STRIDED};
use onl_tensor::{Shape, TensorView, TensorViewMut, row_major_strides};
use smallvec::SmallVec;

/// Axes of a strided copy.
pub(crate) type Axes<T> = SmallVec<[T; 8]>;

/// A strided view: element `i` of the output is `source[offset + Σ i_axis · stride_axis]`.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// Sizes of the output, outermost first.
    pub sizes: Axes<usize>,
    /// Steps in the source, in elements; 0 repeats, negative runs backwards.
    pub strides: Axes<isize>,
    /// Source element of the first output element.
    pub offset: usize,
}

impl Layout {
    /// The layout without axes of size 1 and with axes merged that one stride covers.
    pub(crate) fn merged(&self) -> Layout {
        let mut sizes: Axes<usize> = SmallVec::new();
        let mut strides: Axes<isize> = SmallVec::new();
        for (&size, &stride) in self.sizes.iter().zip(&self.strides) {
            if size == 1 {
                continue;
            }
            match (sizes.last_mut(), strides.last_mut()) {
                (Some(last_size), Some(last_stride))
                    if *last_stride == stride.wrapping_mul(size as isize) =>
                {
                    *last_size *= size;
                    *last_stride = stride;
                }
                _ => {
                    sizes.push(size);
                    strides.push(stride);
                }
            }
        }
        if sizes.is_empty() {
            sizes.push(1);
            strides.push(1);
        }
        Layout {
            sizes,
            strides,
            offset: self.offset,
        }
    }

    /// Number of output elements.
    pub(crate) fn len(&self) -> usize {
        self.sizes.iter().product()
    }
}

/// Walks the outer axes of a layout in row-major order.
pub(crate) struct Rows<'a> {
    sizes: &'a [usize],
    strides: &'a [isize],
    index: Axes<usize>,
    /// Source element of the current row.
    pub start: isize,
}

impl<'a> Rows<'a> {
    /// At row `row` of the axes `sizes`.
    pub(crate) fn at(sizes: &'a [usize], strides: &'a [isize], offset: usize, row: usize) -> Self {
        let mut index: Axes<usize> = SmallVec::from_elem(0, sizes.len());
        let mut rest = row;
        let mut start = offset as isize;
        for axis in (0..sizes.len()).rev() {
            index[axis] = rest % sizes[axis];
            rest /= sizes[axis];
            start += index[axis] as isize * strides[axis];
        }
        Rows {
            sizes,
            strides,
            index,
            start,
        }
    }

    /// To the next row.
    pub(crate) fn advance(&mut self) {
        for axis in (0..self.sizes.len()).rev() {
            self.index[axis] += 1;
            self.start += self.strides[axis];
            if self.index[axis] < self.sizes[axis] {
                return;
            }
            self.start -= self.sizes[axis] as isize * self.strides[axis];
            self.index[axis] = 0;
        }
    }
}

/// Copies one piece of a row.
#[inline]
fn copy_row<T: Unit>(source: &[T], start: isize, stride: isize, target: &mut [T]) {
    match stride {
        1 => target.clone_from_slice(&source[start as usize..][..target.len()]),
        0 => target.fill(source[start as usize].clone()),
        _ => {
            let mut at = start;
            for slot in target {
                *slot = source[at as usize].clone();
                at += stride;
            }
        }
    }
}

/// Fills the contiguous `target` from a strided view of `source`.
pub(crate) fn copy_strided<T: Unit>(
    source: &[T],
    layout: &Layout,
    target: &mut [T],
    execution: &Execution<'_>,
    site: &'static onl_profiling::RegionSite,
) -> Result<(), MovementError> {
    let layout = layout.merged();
    if layout.len() == 0 {
        return Ok(());
    }
    let inner_axis = layout.sizes.len() - 1;
    let (inner, inner_stride) = (layout.sizes[inner_axis], layout.strides[inner_axis]);
    let (sizes, strides) = (&layout.sizes[..inner_axis], &layout.strides[..inner_axis]);
    let (path, cost) = match inner_stride {
        1 => ("blocks", 150),
        0 => ("fill", 150),
        _ => ("elements", 800),
    };
    let spec = execution.spec(target.len(), 1, cost, path);
    execution
        .lanes
        .region_over(site, spec, target, 1, |chunk, part| {
            let mut at = chunk.range.start;
            let mut rows = Rows::at(sizes, strides, layout.offset, at / inner);
            let mut part = part;
            while !part.is_empty() {
                let column = at % inner;
                let (piece, rest) = part.split_at_mut((inner - column).min(part.len()));
                let start = rows.start + column as isize * inner_stride;
                at += piece.len();
                copy_row(source, start, inner_stride, piece);
                rows.advance();
                part = rest;
            }
        })?;
    Ok(())
}

/// Part of one axis that a slice takes: elements `start, start + step, …`, `length` of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SliceAxis {
    /// First index; anything when `length` is 0.
    pub start: usize,
    /// Distance of two indices; negative runs backwards, never 0.
    pub step: i64,
    /// Number of indices.
    pub length: usize,
}

impl SliceAxis {
    /// The whole axis.
    pub fn whole(size: usize) -> Self {
        SliceAxis {
            start: 0,
            step: 1,
            length: size,
        }
    }

    /// What ONNX `Slice` takes of an axis: negative bounds count from the end, then bounds are clamped to
    /// `[0, size]`, or to `[0, size − 1]` and `[−1, size − 1]` for a negative step. `None` when the step is 0.
    pub fn clamped(start: i64, end: i64, step: i64, size: usize) -> Option<Self> {
        let length = i128::try_from(size).ok()?;
        let (start, end, step_wide) = (i128::from(start), i128::from(end), i128::from(step));
        let from_end = |bound: i128| if bound < 0 { bound + length } else { bound };
        let (first, count) = match step_wide {
            0 => return None,
            1.. => {
                let start = from_end(start).clamp(0, length);
                let end = from_end(end).clamp(0, length);
                (start, (end - start + step_wide - 1).max(0) / step_wide)
            }
            _ => {
                let start = from_end(start).clamp(0, (length - 1).max(0));
                let end = from_end(end).clamp(-1, length - 1);
                let back = -step_wide;
                (start, (start - end + back - 1).max(0) / back)
            }
        };
        let count = if length == 0 { 0 } else { count };
        Some(SliceAxis {
            start: if count == 0 { 0 } else { first as usize },
            step,
            length: count as usize,
        })
    }
}

/// `output[i] = input[start + i · step]` on every axis (ONNX `Slice`). `axes` has one part per axis of the input.
///
/// # Errors
/// [`MovementError::Shapes`] when the parts do not lie inside the input or do not give the output's shape.
pub fn slice(
    input: TensorView<'_>,
    axes: &[SliceAxis],
    output: &mut TensorViewMut<'_>,
    execution: &Execution<'_>,
) -> Result<(), MovementError> {
    let dims = input.dims();
    if axes.len() != dims.len() {
        return Err(MovementError::shapes(
            &[dims],
            format!("a slice of {} axes was asked for", axes.len()),
        ));
    }
    let sizes: Shape = axes.iter().map(|a| a.length).collect();
    check_output(input.element_type(), output, &sizes)?;
    if output.is_empty() {
        return Ok(());
    }
    let steps = row_major_strides(dims);
    let mut layout = Layout {
        sizes: SmallVec::from_slice(&sizes),
        strides: SmallVec::new(),
        offset: 0,
    };
    for (axis, part) in axes.iter().enumerate() {
        let last = part.start as i128 + (part.length as i128 - 1) * i128::from(part.step);
        let inside = 0..dims[axis] as i128;
        if !inside.contains(&(part.start as i128)) || !inside.contains(&last) {
            return Err(MovementError::shapes(
                &[dims],
                format!("part {part:?} of axis {axis} lies outside the input"),
            ));
        }
        layout.offset += part.start * steps[axis];
        layout
            .strides
            .push((part.step as isize).wrapping_mul(steps[axis] as isize));
    }
    by_unit!(input.element_type(), U => {
        copy_strided(<U as Unit>::of(&input)?, &layout, <U as Unit>::of_mut(output)?, execution, &STRIDED)
    })
}

/// Repeats axes of size 1 and adds outer axes until the input has the output's shape (ONNX `Expand` after its
/// shape was broadcast with the input's).
///
/// # Errors
/// [`MovementError::Shapes`] when the input cannot be broadcast to the output.
pub fn expand(
    input: TensorView<'_>,
    output: &mut TensorViewMut<'_>,
    execution: &Execution<'_>,
) -> Result<(), MovementError> {
    let (from, to) = (input.dims(), Shape::new(output.dims()));
    check_output(input.element_type(), output, &to)?;
    let fail =
        || MovementError::shapes(&[from, &to], "the first cannot be broadcast to the second");
    let added = to.len().checked_sub(from.len()).ok_or_else(fail)?;
    let steps = row_major_strides(from);
    let mut strides: Axes<isize> = SmallVec::from_elem(0, added);
    for (axis, &size) in from.iter().enumerate() {
        strides.push(match (size, to[added + axis]) {
            (a, b) if a == b => steps[axis] as isize,
            (1, _) => 0,
            _ => return Err(fail()),
        });
    }
    let layout = Layout {
        sizes: SmallVec::from_slice(&to),
        strides,
        offset: 0,
    };
    by_unit!(input.element_type(), U => {
        copy_strided(<U as Unit>::of(&input)?, &layout, <U as Unit>::of_mut(output)?, execution, &STRIDED)
    })
}

/// The input repeated `repeats[axis]` times along every axis (ONNX `Tile`).
///
/// # Errors
/// [`MovementError::Shapes`] when repeats and input do not give the output's shape.
pub fn tile(
    input: TensorView<'_>,
    repeats: &[usize],
    output: &mut TensorViewMut<'_>,
    execution: &Execution<'_>,
) -> Result<(), MovementError> {
    let dims = input.dims();
    let tiled: Shape = dims
        .iter()
        .zip(repeats)
        .map(|(&d, &r)| d.saturating_mul(r))
        .collect();
    if repeats.len() != dims.len() {
        return Err(MovementError::shapes(
            &[dims, repeats],
            "one repeat per axis is needed",
        ));
    }
    check_output(input.element_type(), output, &tiled)?;
    let steps = row_major_strides(dims);
    let mut layout = Layout {
        sizes: SmallVec::new(),
        strides: SmallVec::new(),
        offset: 0,
    };
    for axis in 0..dims.len() {
        layout.sizes.extend([repeats[axis], dims[axis]]);
        layout.strides.extend([0, steps[axis] as isize]);
    }
    by_unit!(input.element_type(), U => {
        copy_strided(<U as Unit>::of(&input)?, &layout, <U as Unit>::of_mut(output)?, execution, &STRIDED)
    })
}

/// Keeps the upper (`column ≥ row + k`) or lower (`column ≤ row + k`) triangle of the last two axes; other elements
/// become zero bits (ONNX `Trilu`).
///
/// # Errors
/// [`MovementError::Shapes`] when the input has fewer than two axes or another shape than the output.
pub fn triangle(
    input: TensorView<'_>,
    upper: bool,
    k: i64,
    output: &mut TensorViewMut<'_>,
    execution: &Execution<'_>,
) -> Result<(), MovementError> {
    let dims = input.dims();
    check_output(input.element_type(), output, dims)?;
    let [.., rows, columns] = *dims else {
        return Err(MovementError::shapes(
            &[dims],
            "two axes at least are needed",
        ));
    };
    if output.is_empty() {
        return Ok(());
    }
    by_unit!(input.element_type(), U => {
        let source = <U as Unit>::of(&input)?;
        let target = <U as Unit>::of_mut(output)?;
        let spec = execution.spec(target.len() / columns, columns, 150, "");
        execution.lanes.region_over(&STRIDED, spec, target, columns, |chunk, part| {
            for (row, target) in chunk.range.zip(part.chunks_exact_mut(columns)) {
                let source = &source[row * columns..][..columns];
                let diagonal = i128::from(k) + (row % rows) as i128;
                // Upper keeps [diagonal, columns), lower keeps [0, diagonal + 1).
                let split = (diagonal + i128::from(!upper)).clamp(0, columns as i128) as usize;
                let (head, tail) = target.split_at_mut(split);
                if upper {
                    head.fill(U::default());
                    tail.clone_from_slice(&source[split..]);
                } else {
                    head.clone_from_slice(&source[..split]);
                    tail.fill(U::default());
                }
            }
        })?;
        Ok(())
    })
}
