//! Hyperbolic sine and cosine of `f32`.

use super::exponential::exp_reduced;
use super::{any_outside, polynomial, quiet, with_sign};
use crate::VectorOps;

/// (sinh t − t) / t³ in t² on [0, 1], weighted by t³ / sinh t, highest degree first.
const SINH: [f32; 4] = [2.782_213_2e-6, 0.000_198_428_96, 0.008_333_31, 0.166_666_67];
/// Below it sinh(x) = x in f32, and squares of greater numbers are normal.
const LINEAR: f32 = 1.0 / 8192.0;
/// Largest |x| of the common path: e⁻ˣ is normal, and eˣ far from overflow.
const LIMIT: f32 = 80.0;

/// eᵃ / 2 and e⁻ᵃ / 2 for 0 ≤ a ≤ [`LIMIT`].
#[inline(always)]
fn halves<I: VectorOps>(isa: I, a: I::F32) -> (I::F32, I::F32) {
    let (p, n) = exp_reduced(isa, a);
    let n = isa.shl_i32::<23>(isa.sub_i32(n, isa.splat_i32(1)));
    let grown = isa.from_bits_f32(isa.add_i32(isa.bits_f32(p), n));
    (grown, isa.div_f32(isa.splat_f32(0.25), grown))
}

/// As [`halves`], for every a; beyond [`LIMIT`] the second is 0, which is nothing beside the first.
#[inline(always)]
fn halves_full<I: VectorOps>(isa: I, a: I::F32) -> (I::F32, I::F32) {
    let a = isa.min_f32(isa.splat_f32(90.0), a);
    let ordinary = isa.le_f32(a, isa.splat_f32(LIMIT));
    let (grown, shrunk) = halves(isa, isa.select_f32(ordinary, a, isa.splat_f32(1.0)));
    let (p, n) = exp_reduced(isa, a);
    let n = isa.shl_i32::<23>(isa.sub_i32(n, isa.splat_i32(2)));
    let quarter = isa.from_bits_f32(isa.add_i32(isa.bits_f32(p), n));
    (
        isa.select_f32(ordinary, grown, isa.add_f32(quarter, quarter)),
        isa.select_f32(ordinary, shrunk, isa.splat_f32(0.0)),
    )
}

/// sinh of a = |x| from [`halves`].
#[inline(always)]
fn sinh_of<I: VectorOps>(isa: I, a: I::F32, (grown, shrunk): (I::F32, I::F32)) -> I::F32 {
    let one = isa.splat_f32(1.0);
    let t = isa.min_f32(isa.max_f32(a, isa.splat_f32(LINEAR)), one);
    let z = isa.mul_f32(t, t);
    let near = isa.fma_f32(isa.mul_f32(t, z), polynomial(isa, z, &SINH), t);
    isa.select_f32(isa.lt_f32(a, one), near, isa.sub_f32(grown, shrunk))
}

/// Hyperbolic sine. Error below 2.5 ULP; sinh(±0) = ±0, sinh(±∞) = ±∞.
#[inline(always)]
pub fn sinh<I: VectorOps>(isa: I, x: I::F32) -> I::F32 {
    let a = isa.abs_f32(x);
    let linear = isa.lt_f32(a, isa.splat_f32(LINEAR));
    if any_outside(isa, x, LIMIT) {
        let result = with_sign(isa, sinh_of(isa, a, halves_full(isa, a)), x);
        let result = isa.select_f32(linear, x, result);
        isa.select_f32(isa.is_nan_f32(x), quiet(isa, x), result)
    } else {
        let result = with_sign(isa, sinh_of(isa, a, halves(isa, a)), x);
        isa.select_f32(linear, x, result)
    }
}

/// Hyperbolic cosine. Error below 2 ULP; cosh(±0) = 1, cosh(±∞) = ∞.
#[inline(always)]
pub fn cosh<I: VectorOps>(isa: I, x: I::F32) -> I::F32 {
    let a = isa.abs_f32(x);
    if any_outside(isa, x, LIMIT) {
        let (grown, shrunk) = halves_full(isa, a);
        let result = isa.add_f32(grown, shrunk);
        isa.select_f32(isa.is_nan_f32(x), quiet(isa, x), result)
    } else {
        let (grown, shrunk) = halves(isa, a);
        isa.add_f32(grown, shrunk)
    }
}
