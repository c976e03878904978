//! Copies from a strided view of the input into a contiguous output: slices, expansion, tiling.

use crate::packed::copy_packed;
use crate::transpose::transpose_blocks;
use crate::unit::{Unit, by_unit, check_output, copy_rows, repeat};
use crate::{Execution, MovementError, STRIDED};
use onl_simd::{Isa, SimdOp, dispatch};
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

    /// This merged layout in units of 2 to 16 bytes that each hold a whole innermost run, with their width: a source
    /// that is contiguous over a few bytes only is then moved as if it were made of wider elements.
    fn widened(&self, width: usize, elements: usize) -> Option<(Layout, usize)> {
        let inner = self.sizes.len() - 1;
        let run = self.sizes[inner];
        let fits = width > 0
            && inner > 0
            && self.strides[inner] == 1
            && run > 1
            && matches!(run * width, 2 | 4 | 8 | 16)
            && elements.is_multiple_of(run)
            && self.offset.is_multiple_of(run)
            && self.strides[..inner].iter().all(|s| s % run as isize == 0);
        fits.then(|| {
            let wide = Layout {
                sizes: SmallVec::from_slice(&self.sizes[..inner]),
                strides: self.strides[..inner]
                    .iter()
                    .map(|s| s / run as isize)
                    .collect(),
                offset: self.offset / run,
            };
            (wide.merged(), run * width)
        })
    }

    /// Panics when an element of the layout lies outside a source of this length.
    pub(crate) fn assert_inside(&self, length: usize) {
        let (mut first, mut last) = (self.offset as i128, self.offset as i128);
        for (&size, &stride) in self.sizes.iter().zip(&self.strides) {
            let span = (size as i128 - 1) * stride as i128;
            first += span.min(0);
            last += span.max(0);
        }
        assert!(
            first >= 0 && last < length as i128,
            "a layout lies inside its source"
        );
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

    /// Rows from here to the end of the innermost axis, this one included.
    pub(crate) fn rest(&self) -> usize {
        match (self.sizes.last(), self.index.last()) {
            (Some(size), Some(index)) => size - index,
            _ => 1,
        }
    }

    /// Forward by at most [`rest`](Self::rest) rows, at least one.
    pub(crate) fn skip(&mut self, rows: usize) {
        if let (Some(index), Some(stride)) = (self.index.last_mut(), self.strides.last()) {
            *index += rows - 1;
            self.start += (rows - 1) as isize * stride;
        }
        self.advance();
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

/// Copies one piece of a row. Elements `start`, `start + stride`, … of the source, one per slot, lie inside it.
#[inline(always)]
fn copy_row<T: Unit>(source: &[T], start: isize, stride: isize, target: &mut [T]) {
    match stride {
        1 => T::copy_run(&source[start as usize..][..target.len()], target),
        0 => target.fill(source[start as usize].clone()),
        -1 => {
            let first = start + 1 - target.len() as isize;
            let run = &source[first as usize..=start as usize];
            for (slot, element) in target.iter_mut().zip(run.iter().rev()) {
                slot.clone_from(element);
            }
        }
        _ => {
            let Some(last) = target.len().checked_sub(1) else {
                return;
            };
            let end = start + last as isize * stride;
            assert!(
                start.min(end) >= 0 && (start.max(end) as usize) < source.len(),
                "a row lies inside the source"
            );
            let mut at = start;
            for slot in target {
                // SAFETY: between the first and the last element of the row, both of which lie inside.
                slot.clone_from(unsafe { source.get_unchecked(at as usize) });
                at += stride;
            }
        }
    }
}

/// Fills a contiguous output of the layout's size: the one mechanism behind all operators that rearrange.
pub(crate) fn copy_layout(
    input: &TensorView<'_>,
    layout: &Layout,
    output: &mut TensorViewMut<'_>,
    execution: &Execution<'_>,
    site: &'static onl_profiling::RegionSite,
) -> Result<(), MovementError> {
    let layout = layout.merged();
    if layout.len() == 0 {
        return Ok(());
    }
    if let bits @ (2 | 4) = input.element_type().bits() {
        return copy_packed(
            bits,
            input.bytes(),
            &layout,
            output.bytes_mut(),
            execution,
            site,
        );
    }
    let width = input.element_type().bits() / 8;
    if let Some((wide, wide_width)) = layout.widened(width, input.len()) {
        macro_rules! wide {
            ($($unit:ty),*) => {
                match wide_width {
                    $(w if w == size_of::<$unit>() => {
                        let source = bytemuck::try_cast_slice::<u8, $unit>(input.bytes());
                        let target = bytemuck::try_cast_slice_mut::<u8, $unit>(output.bytes_mut());
                        // Memory that is not aligned to the wider unit is moved by elements below.
                        if let (Ok(source), Ok(target)) = (source, target) {
                            return copy_merged(source, &wide, target, execution, site);
                        }
                    })*
                    _ => {}
                }
            };
        }
        wide!(u16, u32, u64, [u64; 2]);
    }
    by_unit!(input.element_type(), U => {
        copy_merged(<U as Unit>::of(input)?, &layout, <U as Unit>::of_mut(output)?, execution, site)
    })
}

/// Fills the contiguous `target` from a merged layout of `source`, by blocks when the source is contiguous along
/// another axis than the target.
fn copy_merged<T: Unit>(
    source: &[T],
    layout: &Layout,
    target: &mut [T],
    execution: &Execution<'_>,
    site: &'static onl_profiling::RegionSite,
) -> Result<(), MovementError> {
    let inner = layout.sizes.len() - 1;
    if !matches!(layout.strides[inner], 0 | 1)
        && let Some(axis) = layout.strides.iter().position(|&s| s == 1)
    {
        return transpose_blocks(source, layout, axis, target, execution, site);
    }
    let path = match layout.strides[inner] {
        1 => "runs",
        0 => "fill",
        _ => "elements",
    };
    let cost = if path == "elements" { 800 } else { 150 };
    let spec = execution.spec(target.len(), 1, cost, path);
    execution
        .lanes
        .region_over(site, spec, target, 1, |chunk, part| {
            let at = chunk.range.start;
            dispatch(
                execution.tier,
                Runs {
                    source,
                    layout,
                    at,
                    target: part,
                },
            );
        })?;
    Ok(())
}

/// Part of a strided copy: the target's elements from `at` on.
struct Runs<'a, T> {
    source: &'a [T],
    layout: &'a Layout,
    at: usize,
    target: &'a mut [T],
}

impl<T: Unit> SimdOp for Runs<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, _: I) {
        let inner = self.layout.sizes.len() - 1;
        let (length, stride) = (self.layout.sizes[inner], self.layout.strides[inner]);
        let (sizes, strides) = (&self.layout.sizes[..inner], &self.layout.strides[..inner]);
        let mut rows = Rows::at(sizes, strides, self.layout.offset, self.at / length);
        let mut column = self.at % length;
        let mut target = self.target;
        // The innermost of the outer axes is walked by a plain loop.
        let step = strides.last().copied().unwrap_or(0);
        while !target.is_empty() {
            let rest = if column > 0 || target.len() < length {
                1
            } else {
                rows.rest().min(target.len() / length)
            };
            let piece = (length - column).min(target.len());
            let (part, behind) = target.split_at_mut(piece * rest);
            let mut start = rows.start + column as isize * stride;
            match (stride, step) {
                (1, 0) if rest > 1 => repeat(&self.source[start as usize..][..piece], part),
                (1, _) if rest > 1 => {
                    let last = start + (rest - 1) as isize * step;
                    let inside = start.min(last) >= 0
                        && start.max(last) as usize + piece <= self.source.len();
                    assert!(inside, "rows lie inside the source");
                    // SAFETY: first and last row lie inside the source, and the rows fill the part.
                    unsafe {
                        let source = self.source.as_ptr().offset(start);
                        copy_rows(source, step, part.as_mut_ptr(), piece, piece, rest);
                    }
                }
                _ => {
                    for line in part.chunks_exact_mut(piece) {
                        copy_row(self.source, start, stride, line);
                        start += step;
                    }
                }
            }
            target = behind;
            column = 0;
            rows.skip(rest);
        }
    }
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
    copy_layout(&input, &layout, output, execution, &STRIDED)
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
    copy_layout(&input, &layout, output, execution, &STRIDED)
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
    copy_layout(&input, &layout, output, execution, &STRIDED)
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
