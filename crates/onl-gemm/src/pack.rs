//! Copies of operands in the order in which register tiles read them.

use crate::tile::Kernels;
use crate::{Compute, Storage};
use std::ops::Range;

/// Steps of k that a transposing copy widens at a time.
const STRIP: usize = 64;
/// Most elements of a vector.
const MAXIMUM_LANES: usize = 16;

/// What packing reads: anything that can write a panel of a factor. Register tiles see panels alone, so that no form
/// of an operand is copied before it is packed.
pub(crate) trait Source<T> {
    /// Writes rows `ks` of columns `columns`, at most a panel's width, as `[k][width]`; columns that are missing
    /// become zero.
    ///
    /// # Safety
    /// The processor has the features of the kernels' tier, the source covers the rows and columns, and `target` is
    /// valid for writing the panel.
    unsafe fn panel(
        &self,
        ks: Range<usize>,
        columns: Range<usize>,
        kernels: &Kernels<T>,
        target: *mut T,
    );
}

/// A matrix at any strides, of a type that is widened to the type of accumulation.
pub(crate) struct Strided<S> {
    pub first: *const S,
    pub row_stride: usize,
    pub column_stride: usize,
}

impl<S: Storage> Source<S::Compute> for Strided<S> {
    unsafe fn panel(
        &self,
        ks: Range<usize>,
        columns: Range<usize>,
        kernels: &Kernels<S::Compute>,
        target: *mut S::Compute,
    ) {
        let (depth, width, live) = (ks.len(), kernels.columns(), columns.len());
        let source = self
            .first
            .wrapping_add(ks.start * self.row_stride + columns.start * self.column_stride);
        if self.column_stride == 1 && S::NATIVE && live == width {
            // SAFETY: storage is the type of accumulation; the caller's pointers cover the panel.
            unsafe { (kernels.copy_panel)(source.cast(), self.row_stride, depth, target) };
            return;
        }
        if self.column_stride == 1
            && live == width
            && let (Some(halves), Some(form)) = (kernels.halves, S::HALF)
        {
            // SAFETY: storage is of 16 bits; the caller's pointers cover the panel.
            unsafe { (halves[form].widen_rows)(source.cast(), self.row_stride, depth, target) };
            return;
        }
        // SAFETY: the panel holds depth · width elements.
        let rows = unsafe { std::slice::from_raw_parts_mut(target, depth * width) };
        if live < width {
            for row in rows.chunks_exact_mut(width) {
                row[live..].fill(S::Compute::ZERO);
            }
        }
        if self.column_stride == 1 {
            for (k, row) in rows.chunks_exact_mut(width).enumerate() {
                // SAFETY: `live` adjacent elements of row k are readable.
                let elements = unsafe {
                    std::slice::from_raw_parts(source.wrapping_add(k * self.row_stride), live)
                };
                S::widen_slice(kernels.tier, elements, &mut row[..live]);
            }
        } else if self.row_stride == 1 {
            // SAFETY: the caller's pointers cover `live` columns of `depth` elements and the panel.
            unsafe {
                transpose(
                    source,
                    self.column_stride,
                    live,
                    depth,
                    target,
                    width,
                    kernels,
                )
            };
        } else {
            for (k, row) in rows.chunks_exact_mut(width).enumerate() {
                for (column, slot) in row[..live].iter_mut().enumerate() {
                    let element =
                        source.wrapping_add(k * self.row_stride + column * self.column_stride);
                    // SAFETY: row k and this column are readable.
                    *slot = unsafe { *element }.widen();
                }
            }
        }
    }
}

/// Packed panels of 16-bit elements.
pub(crate) struct HalfPanels {
    /// First panel.
    pub first: *const u16,
    /// Rows of a panel.
    pub k: usize,
    /// Position of the type in the table of kernels.
    pub form: usize,
}

impl<T> Source<T> for HalfPanels {
    unsafe fn panel(
        &self,
        ks: Range<usize>,
        columns: Range<usize>,
        kernels: &Kernels<T>,
        target: *mut T,
    ) {
        let Some(halves) = kernels.halves else {
            unreachable!("panels of 16-bit elements are made for tiers that read them");
        };
        let row = kernels.columns();
        let panel = self
            .first
            .wrapping_add(columns.start / row * row * self.k + ks.start * row);
        // SAFETY: handed on from the caller.
        unsafe { (halves[self.form].widen_panel)(panel, row, ks.len(), target) };
    }
}

/// `target[column · target_stride + row] = source[row · source_stride + column]`, widened.
///
/// # Safety
/// The processor has the features of the kernels' tier; source and target are valid for `rows` × `columns`.
unsafe fn transpose<S: Storage>(
    source: *const S,
    source_stride: usize,
    rows: usize,
    columns: usize,
    target: *mut S::Compute,
    target_stride: usize,
    kernels: &Kernels<S::Compute>,
) {
    let lanes = kernels.lanes;
    let mut widened = [S::Compute::ZERO; MAXIMUM_LANES * STRIP];
    for row in (0..rows).step_by(lanes) {
        let height = lanes.min(rows - row);
        for strip in (0..columns).step_by(STRIP) {
            let length = STRIP.min(columns - strip);
            let first = source.wrapping_add(row * source_stride + strip);
            let (from, stride) = if S::NATIVE {
                (first.cast::<S::Compute>(), source_stride)
            } else {
                for i in 0..height {
                    // SAFETY: `length` adjacent elements of row `row + i` are readable.
                    let elements = unsafe {
                        std::slice::from_raw_parts(first.wrapping_add(i * source_stride), length)
                    };
                    S::widen_slice(
                        kernels.tier,
                        elements,
                        &mut widened[i * STRIP..i * STRIP + length],
                    );
                }
                (widened.as_ptr(), STRIP)
            };
            let to = target.wrapping_add(strip * target_stride + row);
            let squares = if height == lanes {
                length - length % lanes
            } else {
                0
            };
            for column in (0..squares).step_by(lanes) {
                // SAFETY: whole squares lie inside source and target.
                unsafe {
                    (kernels.transpose)(
                        from.wrapping_add(column),
                        stride,
                        to.wrapping_add(column * target_stride),
                        target_stride,
                    )
                };
            }
            for column in squares..length {
                for i in 0..height {
                    // SAFETY: the element lies inside source and target.
                    unsafe {
                        *to.wrapping_add(column * target_stride + i) =
                            *from.wrapping_add(i * stride + column);
                    }
                }
            }
        }
    }
}

/// Copies rows `ks` and columns `columns` of a factor into panels `[panel][k][width]`.
///
/// # Safety
/// As [`Source::panel`], for all panels.
pub(crate) unsafe fn pack_panels<T>(
    source: &impl Source<T>,
    ks: Range<usize>,
    columns: Range<usize>,
    kernels: &Kernels<T>,
    target: *mut T,
) {
    let width = kernels.columns();
    for (panel, first) in columns.clone().step_by(width).enumerate() {
        let target = target.wrapping_add(panel * ks.len() * width);
        // SAFETY: handed on from the caller.
        unsafe {
            source.panel(
                ks.clone(),
                first..(first + width).min(columns.end),
                kernels,
                target,
            );
        }
    }
}

/// Copies `rows` rows of `depth` elements of A into rows `target_stride` apart.
///
/// # Safety
/// The processor has the features of the kernels' tier; `a` is valid for reading the rows at these strides, `target`
/// for writing them.
pub(crate) unsafe fn pack_rows<S: Storage>(
    a: *const S,
    row_stride: usize,
    column_stride: usize,
    rows: usize,
    depth: usize,
    target: *mut S::Compute,
    target_stride: usize,
    kernels: &Kernels<S::Compute>,
) {
    if column_stride == 1 {
        for row in 0..rows {
            // SAFETY: row `row` has `depth` elements on both sides.
            unsafe {
                let source = std::slice::from_raw_parts(a.add(row * row_stride), depth);
                let target = std::slice::from_raw_parts_mut(target.add(row * target_stride), depth);
                S::widen_slice(kernels.tier, source, target);
            }
        }
    } else if row_stride == 1 {
        // SAFETY: handed on from the caller; a column of A is a row of the source.
        unsafe {
            transpose(
                a,
                column_stride,
                depth,
                rows,
                target,
                target_stride,
                kernels,
            )
        };
    } else {
        for row in 0..rows {
            for k in 0..depth {
                // SAFETY: the element lies inside A and target.
                unsafe {
                    *target.add(row * target_stride + k) =
                        (*a.add(row * row_stride + k * column_stride)).widen();
                }
            }
        }
    }
}

/// Steps of k that a sliver widens at a time.
const SLIVER_STEPS: usize = 128;
/// Most rows of a sliver that is widened so.
const MAXIMUM_SLIVER: usize = 12;

/// Copies `rows` rows of `depth` elements of A into a sliver `[k][rows]`.
///
/// # Safety
/// The processor has the features of the kernels' tier; `a` is valid for reading the rows at these strides, `target`
/// for writing the sliver and a vector beyond it.
pub(crate) unsafe fn pack_sliver<S: Storage>(
    a: *const S,
    row_stride: usize,
    column_stride: usize,
    rows: usize,
    depth: usize,
    target: *mut S::Compute,
    kernels: &Kernels<S::Compute>,
) {
    if S::NATIVE && column_stride == 1 {
        // SAFETY: handed on from the caller; storage is the type of accumulation.
        unsafe { (kernels.pack_sliver)(a.cast(), row_stride, rows, depth, target) };
        return;
    }
    if column_stride == 1 && rows <= MAXIMUM_SLIVER {
        let mut widened = [S::Compute::ZERO; MAXIMUM_SLIVER * SLIVER_STEPS];
        for k in (0..depth).step_by(SLIVER_STEPS) {
            let steps = SLIVER_STEPS.min(depth - k);
            for (row, target) in widened
                .chunks_exact_mut(SLIVER_STEPS)
                .take(rows)
                .enumerate()
            {
                // SAFETY: A has this row and the steps.
                let source = unsafe {
                    std::slice::from_raw_parts(a.wrapping_add(row * row_stride + k), steps)
                };
                S::widen_slice(kernels.tier, source, &mut target[..steps]);
            }
            let target = target.wrapping_add(k * rows);
            // SAFETY: the buffer has the rows and steps; what is written beyond this part of the sliver, the next part
            // overwrites.
            unsafe { (kernels.pack_sliver)(widened.as_ptr(), SLIVER_STEPS, rows, steps, target) };
        }
        return;
    }
    for k in 0..depth {
        for row in 0..rows {
            // SAFETY: the element lies inside A and target.
            unsafe {
                *target.add(k * rows + row) =
                    (*a.add(row * row_stride + k * column_stride)).widen();
            }
        }
    }
}
