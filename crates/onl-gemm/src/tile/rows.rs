//! Bodies over whole rows, compiled once per tier by the wrappers of the register tiles.

use crate::Compute;

/// Rows of B that [`continue_row`] reads in one pass over the output row.
const ROWS_PER_PASS: usize = 8;

/// What becomes of finished sums: `sum = alpha · sum`, then `sum = fma(beta, addend, sum)` if there is an addend, then
/// `sum = sum + residual` if there is a residual. Factors alpha of 1 change nothing.
pub(crate) struct Finish<T> {
    /// Sums, changed in place.
    pub sums: *mut T,
    /// Elements from one row of sums to the next.
    pub stride: usize,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
    /// Factor of the sums.
    pub alpha: T,
    /// Factor of the addend.
    pub beta: T,
    /// First element of the addend; null when there is none.
    pub addend: *const T,
    /// Elements from one row of the addend to the next.
    pub addend_row: usize,
    /// 0 or 1.
    pub addend_column: usize,
    /// First element of the residual, elements of a row adjacent; null when there is none.
    pub residual: *const T,
    /// Elements from one row of the residual to the next.
    pub residual_row: usize,
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

/// See [`Finish`].
///
/// # Safety
/// The pointers are valid for the rows and columns, the sums for writing by this call alone.
#[inline(always)]
pub(super) unsafe fn finish<T: Compute>(finish: &Finish<T>) {
    let &Finish {
        columns,
        alpha,
        beta,
        ..
    } = finish;
    for row in 0..finish.rows {
        // SAFETY: handed on from the caller.
        let sums = unsafe {
            std::slice::from_raw_parts_mut(finish.sums.add(row * finish.stride), columns)
        };
        if alpha != T::ONE {
            for sum in sums.iter_mut() {
                *sum = alpha.mul(*sum);
            }
        }
        if !finish.addend.is_null() {
            let addend = finish.addend.wrapping_add(row * finish.addend_row);
            if finish.addend_column == 0 {
                // SAFETY: handed on from the caller.
                let addend = unsafe { *addend };
                for sum in sums.iter_mut() {
                    *sum = beta.mul_add(addend, *sum);
                }
            } else {
                // SAFETY: handed on from the caller.
                let addend = unsafe { std::slice::from_raw_parts(addend, columns) };
                for (sum, &addend) in sums.iter_mut().zip(addend) {
                    *sum = beta.mul_add(addend, *sum);
                }
            }
        }
        if !finish.residual.is_null() {
            let residual = finish.residual.wrapping_add(row * finish.residual_row);
            // SAFETY: handed on from the caller.
            let residual = unsafe { std::slice::from_raw_parts(residual, columns) };
            for (sum, &residual) in sums.iter_mut().zip(residual) {
                *sum = sum.add(residual);
            }
        }
    }
}
