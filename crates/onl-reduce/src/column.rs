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
    let panel = Panel {
        source,
        rows,
        place,
        shifts,
    };
    let mut column = 0;
    while column + WIDTH * width <= columns {
        let count = WIDTH * width;
        let target = &mut target[column..column + count];
        if O::SMALL && rows >= LANES {
            panel.deep_totals::<O, I, WIDTH>(isa, column, target);
        } else {
            panel.totals::<O, I, WIDTH>(isa, column, target);
        }
        column += count;
    }
    while column < columns {
        let count = width.min(columns);
        // The last whole vector overlaps the one before, and gives the same there.
        column = column.min(columns - count);
        panel.totals::<O, I, 1>(isa, column, &mut target[column..column + count]);
        column += count;
    }
}

/// Rows that are reduced side by side.
#[derive(Clone, Copy)]
struct Panel<'a, T: Numeric> {
    source: &'a [T],
    rows: usize,
    place: Place<'a>,
    shifts: &'a [T::Real],
}

impl<T: Numeric> Panel<'_, T> {
    /// Parameters of the columns from `column` on.
    #[inline(always)]
    fn shift<I: Isa, const N: usize>(
        &self,
        isa: I,
        column: usize,
        count: usize,
    ) -> [<T::Real as Real>::V<I>; N] {
        let mut shift = [<T::Real as Real>::splat(isa, T::Real::ZERO); N];
        if !self.shifts.is_empty() {
            let shifts = &self.shifts[column..column + count];
            for (v, shift) in shift.iter_mut().enumerate() {
                let at = v * <T::Real as Real>::lanes::<I>();
                *shift = load_at::<T::Real, I, N>(isa, shifts, at);
            }
        }
        shift
    }

    /// Total of a virtual lane, which has a row, for `N` whole vectors of columns.
    #[inline(always)]
    fn lane<O: Operation<T::Real>, I: Isa, const N: usize>(
        &self,
        isa: I,
        column: usize,
        lane: usize,
        shift: &[<T::Real as Real>::V<I>; N],
    ) -> [<T::Real as Real>::V<I>; N] {
        let width = <T::Real as Real>::lanes::<I>();
        let mut total = [<T::Real as Real>::splat(isa, O::START); N];
        let elements = self.elements(lane, column, N * width);
        for v in 0..N {
            total[v] = O::first(isa, T::load(isa, &elements[v * width..]), shift[v]);
        }
        let mut row = lane + LANES;
        while row < self.rows {
            let elements = self.elements(row, column, N * width);
            for v in 0..N {
                let x = T::load(isa, &elements[v * width..]);
                total[v] = O::accumulate(isa, total[v], x, shift[v]);
            }
            row += LANES;
        }
        total
    }

    #[inline(always)]
    fn elements(&self, row: usize, column: usize, count: usize) -> &[T] {
        let from = self.place.offset(row) + column;
        &self.source[from..from + count]
    }

    /// As [`totals`](Self::totals), for whole vectors and rows in every virtual lane: a subtree stays in registers.
    #[inline(always)]
    fn deep_totals<O: Operation<T::Real>, I: Isa, const N: usize>(
        &self,
        isa: I,
        column: usize,
        target: &mut [T::Real],
    ) {
        let width = <T::Real as Real>::lanes::<I>();
        let shift = self.shift::<I, N>(isa, column, N * width);
        let start = <T::Real as Real>::splat(isa, O::START);
        let mut roots = [[start; N]; 8];
        for (base, root) in roots.iter_mut().enumerate() {
            macro_rules! lane {
                ($lane:expr) => {
                    self.lane::<O, I, N>(isa, column, $lane, &shift)
                };
            }
            macro_rules! join {
                ($a:expr, $b:expr) => {{
                    let (a, b) = ($a, $b);
                    join::<T::Real, O, I, N>(isa, a, b)
                }};
            }
            let even = join!(
                join!(lane!(base), lane!(base + 32)),
                join!(lane!(base + 16), lane!(base + 48))
            );
            let odd = join!(
                join!(lane!(base + 8), lane!(base + 40)),
                join!(lane!(base + 24), lane!(base + 56))
            );
            *root = join!(even, odd);
        }
        let totals = fold::<T::Real, O, I, N>(isa, &mut roots, 8);
        for v in 0..N {
            <T::Real as Numeric>::store(isa, totals[v], &mut target[v * width..]);
        }
    }

    /// Totals of `N` vectors of columns from `column` on; the last vector may be partial when `N` is 1.
    ///
    /// The fold of 64 virtual lanes is walked depth first: first the lanes at distances of 8, which form a subtree,
    /// then the eight subtrees. Lanes beyond the next power of two above the number of rows are neutral, and so are
    /// the steps of the fold that would bring them in.
    #[inline(always)]
    fn totals<O: Operation<T::Real>, I: Isa, const N: usize>(
        &self,
        isa: I,
        column: usize,
        target: &mut [T::Real],
    ) {
        let width = <T::Real as Real>::lanes::<I>();
        let count = target.len();
        let start = <T::Real as Real>::splat(isa, O::START);
        let shift = self.shift::<I, N>(isa, column, count);
        let lanes = self.rows.next_power_of_two().min(LANES);
        let (subtrees, leaves) = (lanes.min(8), lanes.div_ceil(8));
        let mut roots = [[start; N]; 8];
        for (base, root) in roots[..subtrees].iter_mut().enumerate() {
            let mut nodes = [[start; N]; 8];
            for (leaf, node) in nodes[..leaves].iter_mut().enumerate() {
                let mut total = [start; N];
                let mut row = base + 8 * leaf;
                while row < self.rows {
                    let elements = self.elements(row, column, count);
                    for v in 0..N {
                        let x = load_at::<T, I, N>(isa, elements, v * width);
                        total[v] = O::accumulate(isa, total[v], x, shift[v]);
                    }
                    row += LANES;
                }
                *node = total;
            }
            *root = fold::<T::Real, O, I, N>(isa, &mut nodes, leaves);
        }
        let totals = fold::<T::Real, O, I, N>(isa, &mut roots, subtrees);
        for v in 0..N {
            let part = &mut target[v * width..];
            if N > 1 || part.len() >= width {
                <T::Real as Numeric>::store(isa, totals[v], part);
            } else {
                <T::Real as Numeric>::store_partial(isa, totals[v], part);
            }
        }
    }
}

/// Folds the first `count` nodes, a power of two: i with i + count / 2, and so on.
#[inline(always)]
fn fold<R: Real, O: Operation<R>, I: Isa, const N: usize>(
    isa: I,
    nodes: &mut [[R::V<I>; N]; 8],
    count: usize,
) -> [R::V<I>; N] {
    let mut apart = count / 2;
    while apart > 0 {
        for node in 0..apart {
            nodes[node] = join::<R, O, I, N>(isa, nodes[node], nodes[node + apart]);
        }
        apart /= 2;
    }
    nodes[0]
}

#[inline(always)]
fn join<R: Real, O: Operation<R>, I: Isa, const N: usize>(
    isa: I,
    mut a: [R::V<I>; N],
    b: [R::V<I>; N],
) -> [R::V<I>; N] {
    for v in 0..N {
        a[v] = O::combine(isa, a[v], b[v]);
    }
    a
}

/// A vector of elements; only when `N` is 1 may there be fewer than lanes.
#[inline(always)]
fn load_at<T: Numeric, I: Isa, const N: usize>(
    isa: I,
    source: &[T],
    at: usize,
) -> <T::Real as Real>::V<I> {
    let part = &source[at..];
    if N > 1 || part.len() >= <T::Real as Real>::lanes::<I>() {
        T::load(isa, part)
    } else {
        T::load_partial(isa, part, T::Real::ZERO)
    }
}
