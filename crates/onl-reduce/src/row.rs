//! Reduction of contiguous elements.

use crate::BLOCK;
use crate::operation::Operation;
use crate::real::{Numeric, Real};
use onl_simd::{Isa, MAXIMUM_F32_LANES, Scalar};

/// Virtual lanes.
pub(crate) const LANES: usize = 64;

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
    let mut elements = [R::ZERO; MAXIMUM_F32_LANES];
    R::store(isa, vectors[0], &mut elements);
    macro_rules! elements_of_one {
        ($($step:literal)*) => {$(
            if $step < width {
                for lane in 0..$step {
                    let other = elements[lane + $step];
                    elements[lane] = combine::<R, O>(elements[lane], other);
                }
            }
        )*};
    }
    elements_of_one!(8 4 2 1);
    elements[0]
}

/// Two totals, as the vector operation combines them.
#[inline(always)]
pub(crate) fn combine<R: Real, O: Operation<R>>(a: R, b: R) -> R {
    a.one(|isa: Scalar, a| O::combine(isa, a, R::splat(isa, b)))
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
        for (v, total) in lanes.as_mut().iter_mut().enumerate() {
            let x = T::load(isa, &elements[v * width..]);
            *total = O::accumulate(isa, *total, x, shift);
        }
    }
    let rest = whole.remainder();
    for (v, total) in lanes.as_mut().iter_mut().enumerate() {
        let start = v * width;
        if start + width <= rest.len() {
            *total = O::accumulate(isa, *total, T::load(isa, &rest[start..]), shift);
        } else if start < rest.len() {
            let x = T::load_partial(isa, &rest[start..], fill);
            *total = O::accumulate(isa, *total, x, shift);
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
    if source.len() <= BLOCK {
        return block::<T, O, I>(isa, source, shift);
    }
    let (first, rest) = source.split_at(BLOCK);
    let mut total = block::<T, O, I>(isa, first, shift);
    for part in rest.chunks(BLOCK) {
        total = combine::<T::Real, O>(total, block::<T, O, I>(isa, part, shift));
    }
    total
}
