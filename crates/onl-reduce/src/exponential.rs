//! Exponentials of f32 numbers that are at most 0, or NaN: of a row from which its maximum was subtracted.

use crate::real::{Numeric, Real};
use onl_simd::{Isa, Paired, math};

/// Elements whose domain is tested at once.
const PIECE: usize = 128;

/// Below it, the exponential is less than half of the smallest denormal, which rounds to 0.
const NOTHING: f32 = -104.0;

/// Lanes whose exponential is normal.
#[inline(always)]
fn ordinary<I: Isa>(isa: I, x: I::F32) -> I::M32 {
    isa.le_f32(isa.splat_f32(-math::EXP_ORDINARY_LIMIT), x)
}

/// eˣ of lanes that are at most 0, or NaN; bits as [`math::exp`]. Lanes that give 0, as masked elements do, cost no more
/// than others.
#[inline(always)]
pub(crate) fn exp<I: Isa>(isa: I, x: I::F32) -> I::F32 {
    let kept = ordinary(isa, x);
    if !isa.any_m32(isa.not_m32(kept)) {
        return math::exp_ordinary(isa, x);
    }
    let gone = isa.lt_f32(x, isa.splat_f32(NOTHING));
    if isa.any_m32(isa.not_m32(isa.or_m32(kept, gone))) {
        return math::exp(isa, x);
    }
    let zero = isa.splat_f32(0.0);
    if !isa.any_m32(kept) {
        return zero;
    }
    isa.select_f32(kept, math::exp_ordinary(isa, x), zero)
}

/// As [`exp`], of two vectors whose lanes give normal numbers or 0, in whatever order.
#[inline(always)]
fn kept_or_gone<I: Isa>(isa: I, x: [I::F32; 2]) -> [I::F32; 2] {
    let kept = x.map(|x| ordinary(isa, x));
    let gone = x.map(|x| isa.lt_f32(x, isa.splat_f32(NOTHING)));
    let expected = isa.and_m32(isa.or_m32(kept[0], gone[0]), isa.or_m32(kept[1], gone[1]));
    if isa.any_m32(isa.not_m32(expected)) {
        return x.map(|x| exp(isa, x));
    }
    let zero = isa.splat_f32(0.0);
    let [low, high] = math::exp_ordinary(Paired(isa), x);
    [
        isa.select_f32(kept[0], low, zero),
        isa.select_f32(kept[1], high, zero),
    ]
}

/// As [`exp`], of 64 virtual lanes.
#[inline(always)]
pub(crate) fn exp64<I: Isa>(isa: I, mut x: I::F32x64) -> I::F32x64 {
    let mut kept = ordinary(isa, x.as_ref()[0]);
    for &vector in &x.as_ref()[1..] {
        kept = isa.and_m32(kept, ordinary(isa, vector));
    }
    if isa.any_m32(isa.not_m32(kept)) {
        for vector in x.as_mut() {
            *vector = exp(isa, *vector);
        }
    } else {
        for vector in x.as_mut() {
            *vector = math::exp_ordinary(isa, *vector);
        }
    }
    x
}

/// Applies a function of pairs of vectors to whole vectors less the shift; an odd one makes up a pair with itself.
#[inline(always)]
fn piece<T: Numeric<Real = f32>, I: Isa>(
    isa: I,
    source: &[T],
    shifts: I::F32,
    target: &mut [f32],
    mut function: impl FnMut([I::F32; 2]) -> [I::F32; 2],
) {
    let width = I::F32_LANES;
    let less = |source: &[T]| isa.sub_f32(T::load(isa, source), shifts);
    let (mut sources, mut targets) = (
        source.chunks_exact(2 * width),
        target.chunks_exact_mut(2 * width),
    );
    for (source, target) in (&mut sources).zip(&mut targets) {
        let [low, high] = function([less(source), less(&source[width..])]);
        isa.store_f32(low, target);
        isa.store_f32(high, &mut target[width..]);
    }
    let (source, target) = (sources.remainder(), targets.into_remainder());
    if !source.is_empty() {
        let x = less(source);
        isa.store_f32(function([x, x])[0], target);
    }
}

/// Writes eˣ⁻ˢʰⁱᶠᵗ of a row of which no element exceeds the shift. `masked` remembers, from row to row, whether
/// elements were met whose exponential is not normal.
#[inline(always)]
pub(crate) fn row<T: Numeric<Real = f32>, I: Isa>(
    isa: I,
    source: &[T],
    shift: f32,
    target: &mut [f32],
    masked: &mut bool,
) {
    let width = I::F32_LANES;
    let (whole, rest) = (source.len() / width * width, source.len() % width);
    let shifts = isa.splat_f32(shift);
    let pieces = source[..whole].chunks(PIECE);
    for (source, target) in pieces.zip(target.chunks_mut(PIECE)) {
        if !*masked {
            let mut all = ordinary(isa, isa.splat_f32(0.0));
            let pairs = |x: [I::F32; 2]| {
                all = isa.and_m32(all, isa.and_m32(ordinary(isa, x[0]), ordinary(isa, x[1])));
                math::exp_ordinary(Paired(isa), x)
            };
            piece(isa, source, shifts, target, pairs);
            *masked = isa.any_m32(isa.not_m32(all));
        }
        if *masked {
            piece(isa, source, shifts, target, |x| kept_or_gone(isa, x));
        }
    }
    if rest > 0 {
        // A vector of the elements that are left, or of the last ones, some of which are done again then.
        let start = if whole > 0 { whole + rest - width } else { 0 };
        let x = T::load_partial(isa, &source[start..], shift);
        let x = exp(isa, isa.sub_f32(x, shifts));
        <f32 as Numeric>::store_partial(isa, x, &mut target[start..]);
    }
}

/// As [`row`], of f64.
#[inline(always)]
pub(crate) fn row_f64<T: Numeric<Real = f64>, I: Isa>(
    isa: I,
    source: &[T],
    shift: f64,
    target: &mut [f64],
    _: &mut bool,
) {
    let width = I::F64_LANES;
    let shifts = isa.splat_f64(shift);
    for (source, target) in source.chunks(width).zip(target.chunks_mut(width)) {
        let x = T::load_partial(isa, source, shift);
        let x = <f64 as Real>::exp(isa, isa.sub_f64(x, shifts));
        <f64 as Numeric>::store_partial(isa, x, target);
    }
}
