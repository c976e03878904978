//! Reduction of contiguous elements.

use crate::BLOCK;
use crate::operation::Operation;
use crate::real::{Numeric, Real};
use onl_simd::{Isa, MAXIMUM_F32_LANES, Scalar};

/// Virtual lanes.
pub(crate) const LANES: usize = 64;

/// Most rows that are worked on phase by phase, so that what one waits for overlaps with work on the others.
pub(crate) const TOGETHER: usize = 8;

/// How many rows are worked on phase by phase: as many as stay in a first-level cache.
#[inline(always)]
pub(crate) fn together(length: usize) -> usize {
    (2048 / length.max(1)).clamp(1, TOGETHER)
}

/// First lane of a vector.
#[inline(always)]
pub(crate) fn first<R: Real, I: Isa>(isa: I, vector: R::V<I>) -> R {
    let mut elements = [R::ZERO; MAXIMUM_F32_LANES];
    R::store(isa, vector, &mut elements);
    elements[0]
}

/// Folds 64 virtual lanes: i with i + 32, then 16, 8, 4, 2, 1.
#[inline(always)]
pub(crate) fn fold<R: Real, O: Operation<R>, I: Isa>(isa: I, mut lanes: R::X64<I>) -> R {
    let width = R::lanes::<I>();
    let vectors = lanes.as_mut();
    macro_rules! whole_vectors {
        ($($step:literal)*) => {$(
            if $step >= width {
                for v in 0..$step / width {
                    vectors[v] = O::combine(isa, vectors[v], vectors[v + $step / width]);
                }
            }
        )*};
    }
    whole_vectors!(32 16 8 4 2 1);
    let mut vector = vectors[0];
    macro_rules! lanes_of_one {
        ($($step:literal)*) => {$(
            if $step < width {
                vector = O::combine(isa, vector, R::swap::<I, $step>(isa, vector));
            }
        )*};
    }
    lanes_of_one!(8 4 2 1);
    first::<R, I>(isa, vector)
}

/// Two totals, as the vector operation combines them.
#[inline(always)]
pub(crate) fn combine<R: Real, O: Operation<R>>(a: R, b: R) -> R {
    a.one(|isa: Scalar, a| O::combine(isa, a, R::splat(isa, b)))
}

/// 64 elements, one to each virtual lane.
#[inline(always)]
pub(crate) fn load64<T: Numeric, I: Isa>(isa: I, elements: &[T]) -> <T::Real as Real>::X64<I> {
    let width = <T::Real as Real>::lanes::<I>();
    let elements = &elements[..LANES];
    let mut lanes = T::Real::splat64(isa, T::Real::ZERO);
    for (v, vector) in lanes.as_mut().iter_mut().enumerate() {
        *vector = T::load(isa, &elements[v * width..]);
    }
    lanes
}

/// Total of at most [`BLOCK`] contiguous elements.
#[inline(always)]
pub(crate) fn block<T: Numeric, O: Operation<T::Real>, I: Isa>(
    isa: I,
    source: &[T],
    shift: T::Real,
) -> T::Real {
    let width = <T::Real as Real>::lanes::<I>();
    let fill = O::fill(shift);
    let shift = <T::Real as Real>::splat(isa, shift);
    let mut lanes = <T::Real as Real>::splat64(isa, O::START);
    let mut whole = source.chunks_exact(LANES);
    for elements in whole.by_ref() {
        O::accumulate64(isa, &mut lanes, load64::<T, I>(isa, elements), shift);
    }
    let rest = whole.remainder();
    for (v, total) in lanes.as_mut().iter_mut().enumerate() {
        let start = v * width;
        if start + width <= rest.len() {
            *total = O::accumulate(isa, *total, T::load(isa, &rest[start..]), shift);
        } else if start < rest.len() {
            let rest = &rest[start..];
            let x = T::load_partial(isa, rest, fill);
            let ones = [T::Real::ONE; MAXIMUM_F32_LANES];
            let there = <T::Real as Numeric>::load_partial(isa, &ones[..rest.len()], T::Real::ZERO);
            *total = O::accumulate_part(isa, *total, x, shift, there);
        }
    }
    fold::<T::Real, O, I>(isa, lanes)
}

/// Total of a whole row: its blocks merged left to right.
#[inline(always)]
pub(crate) fn row<T: Numeric, O: Operation<T::Real>, I: Isa>(
    isa: I,
    source: &[T],
    shift: T::Real,
) -> T::Real {
    let mut total = T::Real::ZERO;
    let mut first = true;
    // One body for all blocks; a row without elements has one too.
    let mut rest = source;
    loop {
        let (part, after) = rest.split_at(rest.len().min(BLOCK));
        let part = block::<T, O, I>(isa, part, shift);
        total = if first {
            part
        } else {
            combine::<T::Real, O>(total, part)
        };
        first = false;
        rest = after;
        if rest.is_empty() {
            return total;
        }
    }
}
