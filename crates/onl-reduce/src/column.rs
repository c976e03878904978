//! Reduction along an outer axis: neighbouring output elements are reduced side by side, each in the order of its
//! row.

use crate::operation::Operation;
use crate::real::{Numeric, Real};
use crate::row::LANES;
use onl_simd::Isa;
use std::mem::MaybeUninit;

/// Vectors of columns that are reduced together.
const WIDTH: usize = 4;

/// Bytes of the totals of a strip: the columns that are walked along, a row at a time, where rows are many.
const STRIP_BYTES: usize = 2048;

/// Rows of one virtual lane that are read side by side.
const SIDE: usize = 4;

/// Columns of a strip that lanes are reduced along one after another, where each has [`SIDE`] rows.
const LONG: usize = 128;

/// Memory of a strip: the totals of eight subtrees of lanes, and of the eight lanes of a subtree.
pub(crate) struct Strip {
    memory: [MaybeUninit<u64>; 16 * STRIP_BYTES / size_of::<u64>()],
    /// Words that hold a value.
    ready: usize,
}

impl Strip {
    pub(crate) fn new() -> Self {
        Strip {
            memory: [const { MaybeUninit::uninit() }; _],
            ready: 0,
        }
    }

    /// Most columns of a strip.
    fn columns<R>() -> usize {
        STRIP_BYTES / size_of::<R>()
    }

    /// Memory for `count` numbers, of any values.
    #[inline(always)]
    fn first<R: Real>(&mut self, count: usize) -> &mut [R] {
        let words = (count * size_of::<R>()).div_ceil(size_of::<u64>());
        if self.ready < words {
            self.memory[self.ready..words].fill(MaybeUninit::new(0));
            self.ready = words;
        }
        let words = &mut self.memory[..words];
        // SAFETY: these words hold values.
        let words = unsafe { &mut *(std::ptr::from_mut(words) as *mut [u64]) };
        &mut bytemuck::cast_slice_mut(words)[..count]
    }
}

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
/// parameter per column, or is empty when the operation takes none. `strip` holds nothing from call to call.
#[inline(always)]
pub(crate) fn block<T: Numeric, O: Operation<T::Real>, I: Isa>(
    isa: I,
    source: &[T],
    rows: usize,
    place: Place<'_>,
    shifts: &[T::Real],
    target: &mut [T::Real],
    strip: &mut Strip,
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
    if O::SMALL && rows >= LANES {
        let step = WIDTH * width;
        while column + step <= columns {
            let count = (columns - column).min(Strip::columns::<T::Real>()) / step * step;
            panel.strip::<O, I>(isa, column, &mut target[column..column + count], strip);
            column += count;
        }
    }
    while column + WIDTH * width <= columns {
        let count = WIDTH * width;
        panel.totals::<O, I, WIDTH>(isa, column, &mut target[column..column + count]);
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

    /// Total of the eight virtual lanes at distances of 8 from `base` on, for `N` whole vectors of columns.
    #[inline(always)]
    fn subtree<O: Operation<T::Real>, I: Isa, const N: usize>(
        &self,
        isa: I,
        column: usize,
        base: usize,
    ) -> [<T::Real as Real>::V<I>; N] {
        let width = <T::Real as Real>::lanes::<I>();
        let shift = self.shift::<I, N>(isa, column, N * width);
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
        join!(even, odd)
    }

    /// As [`totals`](Self::totals), for a multiple of `WIDTH` vectors and rows in every virtual lane. Columns are walked
    /// along within few rows at a time: memory is fetched ahead then, whatever the distance of rows.
    #[inline(always)]
    fn strip<O: Operation<T::Real>, I: Isa>(
        &self,
        isa: I,
        column: usize,
        target: &mut [T::Real],
        strip: &mut Strip,
    ) {
        let width = <T::Real as Real>::lanes::<I>();
        let count = target.len();
        let along = self.rows >= SIDE * LANES && count >= LONG;
        let memory = strip.first::<T::Real>(if along { 16 * count } else { 8 * count });
        let (roots, lanes) = memory.split_at_mut(8 * count);
        for (base, root) in roots.chunks_exact_mut(count).enumerate() {
            if along {
                for (leaf, total) in lanes.chunks_exact_mut(count).enumerate() {
                    self.lane_along::<O, I>(isa, base + 8 * leaf, column, total);
                }
                fold_lines::<T::Real, O, I>(isa, lanes, root);
                continue;
            }
            let mut column = column;
            for part in root.chunks_exact_mut(WIDTH * width) {
                let total = self.subtree::<O, I, WIDTH>(isa, column, base);
                for v in 0..WIDTH {
                    <T::Real as Numeric>::store(isa, total[v], &mut part[v * width..]);
                }
                column += part.len();
            }
        }
        fold_lines::<T::Real, O, I>(isa, roots, target);
    }

    /// Totals of a virtual lane, which has a row, for whole vectors of columns.
    #[inline(always)]
    fn lane_along<O: Operation<T::Real>, I: Isa>(
        &self,
        isa: I,
        lane: usize,
        column: usize,
        total: &mut [T::Real],
    ) {
        let mut row = lane;
        while row + (SIDE - 1) * LANES < self.rows {
            self.accumulate::<O, I, SIDE>(isa, row, column, row > lane, total);
            row += SIDE * LANES;
        }
        while row < self.rows {
            self.accumulate::<O, I, 1>(isa, row, column, row > lane, total);
            row += LANES;
        }
    }

    /// A virtual lane's totals with `N` rows more; without any before them unless the lane is `begun`.
    #[inline(always)]
    fn accumulate<O: Operation<T::Real>, I: Isa, const N: usize>(
        &self,
        isa: I,
        row: usize,
        column: usize,
        begun: bool,
        total: &mut [T::Real],
    ) {
        let width = <T::Real as Real>::lanes::<I>();
        let mut lines = [self.source; N];
        for (k, line) in lines.iter_mut().enumerate() {
            *line = self.elements(row + k * LANES, column, total.len());
        }
        for (v, part) in total.chunks_exact_mut(width).enumerate() {
            let at = v * width;
            let [shift] = self.shift::<I, 1>(isa, column + at, width);
            let mut x = if begun {
                <T::Real as Numeric>::load(isa, part)
            } else {
                <T::Real as Real>::splat(isa, O::START)
            };
            for line in lines {
                x = O::accumulate(isa, x, T::load(isa, &line[at..]), shift);
            }
            <T::Real as Numeric>::store(isa, x, part);
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

/// Folds eight lines of totals, i with i + 4, then 2 and 1, into one of whole pairs of vectors.
#[inline(always)]
fn fold_lines<R: Real, O: Operation<R>, I: Isa>(isa: I, lines: &[R], target: &mut [R]) {
    let width = R::lanes::<I>();
    let count = target.len();
    for (k, part) in target.chunks_exact_mut(2 * width).enumerate() {
        let mut nodes = [[R::splat(isa, R::ZERO); 2]; 8];
        for (node, line) in nodes.iter_mut().zip(lines.chunks_exact(count)) {
            let elements = &line[k * 2 * width..][..2 * width];
            *node = [R::load(isa, elements), R::load(isa, &elements[width..])];
        }
        let [low, high] = fold::<R, O, I, 2>(isa, &mut nodes, 8);
        R::store(isa, low, part);
        R::store(isa, high, &mut part[width..]);
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
