//! What becomes of complete sums.

use super::{Blocks, Run};
use crate::element::Rows;
use crate::tile::Finish;
use crate::{Activation, Compute, Epilogue, Storage};
use std::ops::Range;

/// Columns of an addend that are widened at a time.
const WIDENED_COLUMNS: usize = 128;

impl<S: Storage> Blocks<'_, S> {
    /// Applies the epilogue to finished sums and stores them.
    ///
    /// # Safety
    /// As [`units`](Self::units); `sums` has these rows and columns.
    #[inline(never)]
    pub(super) unsafe fn finish(
        &self,
        run: &Run<S>,
        rows: Range<usize>,
        columns: Range<usize>,
        sums: *mut S::Compute,
        stride: usize,
    ) {
        if self.scales && S::NATIVE {
            // SAFETY: handed on from the caller; storage is the type of accumulation.
            unsafe { self.finish_part(run, rows.clone(), columns.clone(), sums, stride) };
        } else if self.scales {
            for (index, row) in rows.clone().enumerate() {
                for start in columns.clone().step_by(WIDENED_COLUMNS) {
                    let part = start..(start + WIDENED_COLUMNS).min(columns.end);
                    let sums = sums.wrapping_add(index * stride + start - columns.start);
                    // SAFETY: as above, for a part of one row.
                    unsafe { self.finish_part(run, row..row + 1, part, sums, stride) };
                }
            }
        }
        if self.epilogue.activation != Activation::Identity {
            for index in 0..rows.len() {
                let row = sums.wrapping_add(index * stride);
                // SAFETY: the row's columns belong to this unit.
                let row = unsafe { std::slice::from_raw_parts_mut(row, columns.len()) };
                S::Compute::activate(self.plan.tier, self.epilogue.activation, row);
            }
        }
        if !S::NATIVE {
            let target = run
                .output
                .wrapping_add(rows.start * self.row_stride + columns.start);
            // SAFETY: sums and output are two memories; the output's rows and columns belong to this unit.
            let rows = unsafe {
                Rows::new(
                    (sums.cast_const(), stride),
                    (target, self.row_stride),
                    rows.len(),
                    columns.len(),
                )
            };
            S::narrow_rows(self.plan.tier, rows);
        }
    }

    /// Scales and adds. Of a type that is widened: one row and at most [`WIDENED_COLUMNS`] columns.
    ///
    /// # Safety
    /// As [`finish`](Self::finish).
    unsafe fn finish_part(
        &self,
        run: &Run<S>,
        rows: Range<usize>,
        columns: Range<usize>,
        sums: *mut S::Compute,
        stride: usize,
    ) {
        let Epilogue {
            alpha,
            beta,
            c,
            residual,
            ..
        } = &self.epilogue;
        let (mut for_addend, mut for_residual);
        let widened = |first: usize, elements: &[S], count: usize, buffer: &mut [S::Compute]| {
            let elements = &elements[first..];
            if S::NATIVE {
                elements.as_ptr().cast::<S::Compute>()
            } else {
                S::widen_slice(self.plan.tier, &elements[..count], &mut buffer[..count]);
                buffer.as_ptr()
            }
        };
        let mut finish = Finish {
            sums,
            stride,
            rows: rows.len(),
            columns: columns.len(),
            alpha: S::Compute::from_f32(*alpha),
            beta: S::Compute::from_f32(*beta),
            addend: std::ptr::null(),
            addend_row: 0,
            addend_column: 0,
            residual: std::ptr::null(),
            residual_row: 0,
        };
        if let Some(c) = c {
            let first = rows.start * c.row_stride + columns.start * c.column_stride;
            let count = if c.column_stride == 0 {
                1
            } else {
                columns.len()
            };
            for_addend = [S::Compute::ZERO; WIDENED_COLUMNS];
            finish.addend = widened(first, c.elements, count, &mut for_addend);
            (finish.addend_row, finish.addend_column) = (c.row_stride, c.column_stride);
        }
        if let Some(residual) = residual {
            let first = run.entry * residual.batch_stride
                + rows.start * residual.row_stride
                + columns.start;
            for_residual = [S::Compute::ZERO; WIDENED_COLUMNS];
            finish.residual = widened(first, residual.elements, columns.len(), &mut for_residual);
            finish.residual_row = residual.row_stride;
        }
        // SAFETY: the processor has the tier's features; `check` found that addend and residual cover the result.
        unsafe { (self.kernels.finish)(&finish) };
    }
}
