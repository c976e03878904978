//! Reduction along an outer axis: neighbouring output elements are reduced side by side, each in the order of its
//! row.

use crate::operation::Operation;
use crate::real::{Numeric, Real};
use crate::row::LANES;
use onl_simd::Isa;

/// Vectors of columns that are reduced together.
const WIDTH: usize = 4;

/// Where the rows of a block are in the source: at equal distances, or at listed places.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    /// First element of the panel of columns.
    pub start: usize,
    /// Distance of two rows when `offsets` is empty.
    pub step: usize,
    /// Place of every row, relative to `start`.
    pub offsets: &'a [usize],
}

impl Place<'_> {
    #[inline(always)]
    fn offset(&self, row: usize) -> usize {
        if self.offsets.is_empty() {
            self.start + row * self.step
        } else {
            self.start + self.offsets[row]
        }
    }
}

/// Totals of `rows` rows (at most [`BLOCK`](crate::BLOCK)) for each of `target.len()` columns. `shifts` has one
/// parameter per column, or is empty when the operation takes none.
#[inline(always)]
pub(crate) fn block<T: Numeric, O: Operation<T::Real>, I: Isa>(
    isa: I,
    source: &[T],
    rows: usize,
    place: Place<'_>,
    shifts: &[T::Real],
    target: &mut [T::Real],
) {
    let width = <T::Real as Real>::lanes::<I>();
    let columns = target.len();
    let mut column = 0;
    while column + WIDTH * width <= columns {
        panel::<T, O, I, WIDTH>(isa, source, rows, place, shifts, column, target);
        column += WIDTH * width;
    }
    while column < columns {
        panel::<T, O, I, 1>(isa, source, rows, place, shifts, column, target);
        column += width;
    }
}

/// Totals of `N` vectors of columns from `column` on; the last vector may be partial when `N` is 1.
#[inline(always)]
fn panel<T: Numeric, O: Operation<T::Real>, I: Isa, const N: usize>(
    isa: I,
    source: &[T],
    rows: usize,
    place: Place<'_>,
    shifts: &[T::Real],
    column: usize,
    target: &mut [T::Real],
) {
    let width = <T::Real as Real>::lanes::<I>();
    let count = (target.len() - column).min(N * width);
    let start = <T::Real as Real>::splat(isa, O::START);
    let mut shift = [<T::Real as Real>::splat(isa, <T::Real as Real>::ZERO); N];
    if !shifts.is_empty() {
        for (v, shift) in shift.iter_mut().enumerate() {
            *shift = load_at::<T::Real, I>(isa, &shifts[column..], v * width, T::Real::ZERO);
        }
    }
    // The fold tree is walked depth first: leaf k is virtual lane reverse(k), and `pending[level]` waits for its
    // sibling. A lane without rows is neutral and left out.
    let mut pending = [[start; N]; 7];
    let mut present = [false; 7];
    let mut root = [start; N];
    for k in 0..LANES {
        let lane = (k as u8).reverse_bits() as usize >> 2;
        let mut node = [start; N];
        let mut any = false;
        let mut row = lane;
        while row < rows {
            let from = place.offset(row) + column;
            let elements = &source[from..from + count];
            for v in 0..N {
                let x = load_at::<T, I>(isa, elements, v * width, T::Real::ZERO);
                node[v] = O::accumulate(isa, node[v], x, shift[v]);
            }
            any = true;
            row += LANES;
        }
        let mut level = 0;
        let mut rest = k;
        while rest & 1 == 1 {
            if present[level] && any {
                for v in 0..N {
                    node[v] = O::combine(isa, pending[level][v], node[v]);
                }
            } else if present[level] {
                node = pending[level];
                any = true;
            }
            rest >>= 1;
            level += 1;
        }
        pending[level] = node;
        present[level] = any;
        root = node;
    }
    for v in 0..N {
        let part = &mut target[column + v * width..];
        if part.len() >= width {
            <T::Real as Numeric>::store(isa, root[v], part);
        } else {
            <T::Real as Numeric>::store_partial(isa, root[v], part);
        }
    }
}

#[inline(always)]
fn load_at<T: Numeric, I: Isa>(
    isa: I,
    source: &[T],
    at: usize,
    fill: T::Real,
) -> <T::Real as Real>::V<I> {
    let part = &source[at..];
    if part.len() >= <T::Real as Real>::lanes::<I>() {
        T::load(isa, part)
    } else {
        T::load_partial(isa, part, fill)
    }
}
