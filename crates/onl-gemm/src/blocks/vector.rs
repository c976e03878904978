//! Products of a single row.

use super::{Blocks, Run};
use crate::pack::pack_rows;
use crate::plan::Place;
use crate::{BLOCK, Compute, Factor, Storage};

impl<S: Storage> Blocks<'_, S> {
    /// One output row straight from rows or columns of B.
    ///
    /// # Safety
    /// As [`units`](Self::units).
    pub(super) unsafe fn vector(&self, run: &Run<S>) {
        let Factor::Matrix(b) = &self.b else {
            unreachable!("a packed operand has a path of its own");
        };
        let columns = run.columns.clone();
        let b_first_element = b
            .elements
            .as_ptr()
            .wrapping_add(run.b_matrix * b.batch_stride + columns.start * b.column_stride);
        let b_first = b_first_element.cast::<S::Compute>();
        let a = run.a.cast::<S::Compute>();
        let a_stride = self.a.column_stride;
        // SAFETY: sums are in the output, or in scratch where types differ; the columns belong to this unit, the scratch
        // has room for them when k has more than one block.
        let (sums, partial) = unsafe {
            (
                std::slice::from_raw_parts_mut(run.sums.start, columns.len()),
                std::slice::from_raw_parts_mut(
                    run.partials.start,
                    if self.k > BLOCK { columns.len() } else { 0 },
                ),
            )
        };
        sums.fill(S::Compute::ZERO);
        for start in (0..self.k).step_by(BLOCK) {
            let depth = BLOCK.min(self.k - start);
            let (a, b_rows) = (
                a.wrapping_add(start * a_stride),
                b_first.wrapping_add(start * b.row_stride),
            );
            let chains = if start == 0 {
                &mut *sums
            } else {
                partial.fill(S::Compute::ZERO);
                &mut *partial
            };
            // SAFETY: A and B cover these steps and columns; the processor has the tier's features.
            unsafe {
                if let (Some(halves), Some(form)) = (self.kernels.halves, S::HALF) {
                    let source = run.a.wrapping_add(start * a_stride);
                    let widened = run.scratch;
                    pack_rows(
                        source,
                        depth,
                        a_stride,
                        1,
                        depth,
                        widened,
                        depth,
                        self.kernels,
                    );
                    let b_rows = b_first_element
                        .wrapping_add(start * b.row_stride)
                        .cast::<u16>();
                    (halves[form].continue_row)(widened, depth, b_rows, b.row_stride, chains);
                } else if self.plan.place == Place::Vector {
                    (self.kernels.continue_row)(a, a_stride, depth, b_rows, b.row_stride, chains);
                } else {
                    let lanes = self.kernels.lanes;
                    for (group, chains) in chains.chunks_mut(lanes).enumerate() {
                        let first = b_rows.wrapping_add(group * lanes * b.column_stride);
                        let continue_columns = self.kernels.continue_columns;
                        continue_columns(a, a_stride, depth, first, b.column_stride, chains);
                    }
                }
            }
            if start > 0 {
                for (sum, &chain) in sums.iter_mut().zip(&*partial) {
                    *sum = sum.add(chain);
                }
            }
        }
        if self.finishes {
            // SAFETY: handed on from the caller.
            unsafe { self.finish(run, 0..1, columns, run.sums.start, 0) };
        }
    }
}
