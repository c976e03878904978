//! Bodies over whole rows, compiled once per tier by the wrappers of the register tiles.

use crate::Compute;

/// Rows of B that [`continue_row`] reads in one pass over the output row.
const ROWS_PER_PASS: usize = 8;

/// What is added to a row of the product.
#[derive(Clone, Copy)]
pub(crate) enum RowAddend<'a, T> {
    /// Nothing.
    None,
    /// The same element in every column.
    Splat(T),
    /// One element a column.
    Row(&'a [T]),
}

/// Continues the chains of one output row by `depth` steps: `row[j] = fma(a[k], b[k][j], row[j])` for increasing k.
///
/// # Safety
/// `a` is valid for reading `depth` elements `a_stride` apart, `b` for `depth` rows of `row.len()` elements
/// `b_stride` apart.
#[inline(always)]
pub(super) unsafe fn continue_row<T: Compute>(
    a: *const T,
    a_stride: usize,
    depth: usize,
    b: *const T,
    b_stride: usize,
    row: &mut [T],
) {
    let columns = row.len();
    let mut k = 0;
    while k + ROWS_PER_PASS <= depth {
        let mut x = [T::ZERO; ROWS_PER_PASS];
        let mut rows: [&[T]; ROWS_PER_PASS] = [&[]; ROWS_PER_PASS];
        for step in 0..ROWS_PER_PASS {
            // SAFETY: k + step < depth; the caller's pointers reach that far.
            unsafe {
                x[step] = *a.add((k + step) * a_stride);
                rows[step] = std::slice::from_raw_parts(b.add((k + step) * b_stride), columns);
            }
        }
        for (j, sum) in row.iter_mut().enumerate() {
            let mut chain = *sum;
            for step in 0..ROWS_PER_PASS {
                // SAFETY: j < columns, the length of every row.
                chain = x[step].mul_add(unsafe { *rows[step].get_unchecked(j) }, chain);
            }
            *sum = chain;
        }
        k += ROWS_PER_PASS;
    }
    while k < depth {
        // SAFETY: k < depth.
        let (x, elements) = unsafe {
            (
                *a.add(k * a_stride),
                std::slice::from_raw_parts(b.add(k * b_stride), columns),
            )
        };
        for (sum, &element) in row.iter_mut().zip(elements) {
            *sum = x.mul_add(element, *sum);
        }
        k += 1;
    }
}

/// `row = fma(beta, addend, alpha · row)`, or `alpha · row` without an addend.
#[inline(always)]
pub(super) fn finish_row<T: Compute>(row: &mut [T], alpha: T, beta: T, addend: RowAddend<'_, T>) {
    if alpha != T::ONE {
        for sum in row.iter_mut() {
            *sum = alpha.mul(*sum);
        }
    }
    match addend {
        RowAddend::None => {}
        RowAddend::Splat(c) => {
            for sum in row.iter_mut() {
                *sum = beta.mul_add(c, *sum);
            }
        }
        RowAddend::Row(c) => {
            for (sum, &c) in row.iter_mut().zip(c) {
                *sum = beta.mul_add(c, *sum);
            }
        }
    }
}
