//! Inverse trigonometric and hyperbolic functions of `f32`.
//!
//! The trigonometric ones are odd polynomials t + t³ P(t²) of a reduced argument, with multiples of π/2 in two parts.
//! The hyperbolic ones are logarithms and need more bits than `f32` has inside, so they are computed in `f64`.

use super::power::LOG2;
use super::{polynomial, polynomial_f64, quiet, with_sign};
use crate::VectorOps;

/// (asin t − t) / t³ in t² on [0, 1/4], weighted by t³ / asin t, highest degree first.
const ASIN: [f32; 5] = [
    0.042_158_306,
    0.024_184_778,
    0.045_469_15,
    0.074_953_094,
    0.166_667_52,
];
/// (atan t − t) / t³ in t² on [0, 1], weighted by t³ / atan t, highest degree first.
const ATAN: [f32; 9] = [
    -0.001_787_547_6,
    0.010_887_361,
    -0.031_127_002,
    0.057_906_546,
    -0.084_004_75,
    0.109_511_75,
    -0.142_640_52,
    0.199_985_31,
    -0.333_333,
];
const HALF_PI: f32 = std::f32::consts::FRAC_PI_2;
/// π/2 less [`HALF_PI`].
const HALF_PI_LOW: f32 = -4.371_139e-8;
/// Below it asin(x), atan(x), asinh(x) and atanh(x) are x in f32, and squares of greater numbers are normal.
const LINEAR: f32 = 1.0 / 8192.0;
const NAN: i32 = 0x7fc0_0000;

/// The reduced argument of asin and acos for a = |x|: whether a ≤ 1/2; then a, else √((1 − a) / 2); its square; and the
/// polynomial.
#[inline(always)]
fn arc<I: VectorOps>(isa: I, a: I::F32) -> (I::M32, I::F32, I::F32, I::F32) {
    let half = isa.splat_f32(0.5);
    let small = isa.le_f32(a, half);
    // Exact beyond 1/2.
    let folded = isa.fma_f32(a, isa.splat_f32(-0.5), half);
    let z = isa.select_f32(small, isa.mul_f32(a, a), folded);
    let s = isa.select_f32(small, a, isa.sqrt_f32(folded));
    (small, s, z, polynomial(isa, z, &ASIN))
}

/// Inverse sine. Error below 1.3 ULP; asin(±0) = ±0, NaN beyond ±1.
#[inline(always)]
pub fn asin<I: VectorOps>(isa: I, x: I::F32) -> I::F32 {
    let magnitude = isa.abs_f32(x);
    let bound = isa.splat_f32(LINEAR);
    let (small, s, z, p) = arc(isa, isa.max_f32(bound, magnitude));
    let zero = isa.splat_f32(0.0);
    // s + s z P, or π/2 − 2 s − 2 s z P, of which π/2 − 2 s is exact below 1.
    let twice = isa.add_f32(s, s);
    let base = isa.select_f32(small, s, isa.sub_f32(isa.splat_f32(HALF_PI), twice));
    let factor = isa.mul_f32(isa.select_f32(small, s, isa.neg_f32(twice)), z);
    let low = isa.select_f32(small, zero, isa.splat_f32(HALF_PI_LOW));
    let result = isa.add_f32(base, isa.fma_f32(factor, p, low));
    let result = with_sign(isa, result, x);
    let result = isa.select_f32(isa.lt_f32(magnitude, bound), x, result);
    of_domain(isa, x, isa.le_f32(magnitude, isa.splat_f32(1.0)), result)
}

/// Inverse cosine. Error below 1.6 ULP; NaN beyond ±1.
#[inline(always)]
pub fn acos<I: VectorOps>(isa: I, x: I::F32) -> I::F32 {
    let magnitude = isa.abs_f32(x);
    let bound = isa.splat_f32(LINEAR);
    let (small, s, z, p) = arc(isa, isa.max_f32(bound, magnitude));
    let zero = isa.splat_f32(0.0);
    // π/2 − x − x z P near 0; 2 s + 2 s z P near 1; π − 2 s − 2 s z P near −1.
    let negative = isa.lt_f32(x, zero);
    let twice = isa.add_f32(s, s);
    let pi = isa.splat_f32(std::f32::consts::PI);
    let base = isa.select_f32(negative, isa.sub_f32(pi, twice), twice);
    let base = isa.select_f32(small, isa.sub_f32(isa.splat_f32(HALF_PI), x), base);
    let away = isa.select_f32(negative, isa.neg_f32(twice), twice);
    // A tiny x, times z, would be denormal, and is nothing beside π/2.
    let near = isa.select_f32(isa.lt_f32(magnitude, bound), zero, isa.neg_f32(x));
    let factor = isa.mul_f32(isa.select_f32(small, near, away), z);
    let low = isa.select_f32(negative, isa.splat_f32(2.0 * HALF_PI_LOW), zero);
    let low = isa.select_f32(small, isa.splat_f32(HALF_PI_LOW), low);
    let result = isa.add_f32(base, isa.fma_f32(factor, p, low));
    of_domain(isa, x, isa.le_f32(magnitude, isa.splat_f32(1.0)), result)
}

/// Inverse tangent. Error below 1.6 ULP; atan(±0) = ±0, atan(±∞) = ±π/2.
#[inline(always)]
pub fn atan<I: VectorOps>(isa: I, x: I::F32) -> I::F32 {
    let magnitude = isa.abs_f32(x);
    let (zero, one) = (isa.splat_f32(0.0), isa.splat_f32(1.0));
    let bound = isa.splat_f32(LINEAR);
    // Beyond 2⁶⁰ the result stays, and 1 / x might be denormal.
    let a = isa.min_f32(isa.splat_f32(1.152_921_5e18), isa.max_f32(bound, magnitude));
    // atan a = π/2 − atan(1 / a).
    let inverted = isa.lt_f32(one, a);
    let t = isa.div_f32(
        isa.select_f32(inverted, isa.splat_f32(-1.0), a),
        isa.select_f32(inverted, a, one),
    );
    let z = isa.mul_f32(t, t);
    let p = polynomial(isa, z, &ATAN);
    let low = isa.select_f32(inverted, isa.splat_f32(HALF_PI_LOW), zero);
    let rest = isa.add_f32(t, isa.fma_f32(isa.mul_f32(t, z), p, low));
    let base = isa.select_f32(inverted, isa.splat_f32(HALF_PI), zero);
    let result = with_sign(isa, isa.add_f32(base, rest), x);
    let result = isa.select_f32(isa.lt_f32(magnitude, bound), x, result);
    isa.select_f32(isa.is_nan_f32(x), quiet(isa, x), result)
}

/// `result` where `inside` is set; elsewhere a quiet NaN, that of `x` if it is one.
#[inline(always)]
fn of_domain<I: VectorOps>(isa: I, x: I::F32, inside: I::M32, result: I::F32) -> I::F32 {
    let nan = isa.from_bits_f32(isa.splat_i32(NAN));
    let outside = isa.select_f32(isa.is_nan_f32(x), quiet(isa, x), nan);
    isa.select_f32(inside, result, outside)
}

/// A function of `f64` through which a function of `f32` is computed.
trait Wide {
    fn apply<I: VectorOps>(isa: I, x: I::F64) -> I::F64;
}

/// `W` of the lanes, rounded once.
#[inline(always)]
fn through_f64<W: Wide, I: VectorOps>(isa: I, x: I::F32) -> I::F32 {
    let (low, high) = isa.widen_f64(x);
    isa.narrow_f64(W::apply(isa, low), W::apply(isa, high))
}

/// Natural logarithm of positive normal numbers to about 2⁻³⁵, relative also near 1.
#[inline(always)]
fn ln<I: VectorOps>(isa: I, x: I::F64) -> I::F64 {
    let (f, k) = super::double::split(isa, x);
    let logarithm = isa.fma_f64(f, polynomial_f64(isa, f, &LOG2), k);
    isa.mul_f64(logarithm, isa.splat_f64(std::f64::consts::LN_2))
}

/// ln(a + √(a² + 1)).
struct Asinh;

impl Wide for Asinh {
    #[inline(always)]
    fn apply<I: VectorOps>(isa: I, a: I::F64) -> I::F64 {
        let root = isa.sqrt_f64(isa.fma_f64(a, a, isa.splat_f64(1.0)));
        ln(isa, isa.add_f64(a, root))
    }
}

/// ln(x + √(x² − 1)).
struct Acosh;

impl Wide for Acosh {
    #[inline(always)]
    fn apply<I: VectorOps>(isa: I, x: I::F64) -> I::F64 {
        let root = isa.sqrt_f64(isa.fma_f64(x, x, isa.splat_f64(-1.0)));
        ln(isa, isa.add_f64(x, root))
    }
}

/// ln((1 + a) / (1 − a)) / 2.
struct Atanh;

impl Wide for Atanh {
    #[inline(always)]
    fn apply<I: VectorOps>(isa: I, a: I::F64) -> I::F64 {
        let one = isa.splat_f64(1.0);
        let quotient = isa.div_f64(isa.add_f64(one, a), isa.sub_f64(one, a));
        isa.mul_f64(ln(isa, quotient), isa.splat_f64(0.5))
    }
}

/// Inverse hyperbolic sine. Error below 0.7 ULP; asinh(±0) = ±0, asinh(±∞) = ±∞.
#[inline(always)]
pub fn asinh<I: VectorOps>(isa: I, x: I::F32) -> I::F32 {
    let magnitude = isa.abs_f32(x);
    let bound = isa.splat_f32(LINEAR);
    let a = isa.min_f32(isa.splat_f32(f32::MAX), isa.max_f32(bound, magnitude));
    let result = with_sign(isa, through_f64::<Asinh, I>(isa, a), x);
    let itself = isa.or_m32(
        isa.lt_f32(magnitude, bound),
        isa.eq_f32(magnitude, isa.splat_f32(f32::INFINITY)),
    );
    let result = isa.select_f32(itself, x, result);
    isa.select_f32(isa.is_nan_f32(x), quiet(isa, x), result)
}

/// Inverse hyperbolic cosine. Error below 0.6 ULP; acosh(1) = 0, acosh(∞) = ∞, NaN below 1.
#[inline(always)]
pub fn acosh<I: VectorOps>(isa: I, x: I::F32) -> I::F32 {
    let one = isa.splat_f32(1.0);
    let a = isa.min_f32(isa.max_f32(x, one), isa.splat_f32(f32::MAX));
    let result = through_f64::<Acosh, I>(isa, a);
    let infinite = isa.eq_f32(x, isa.splat_f32(f32::INFINITY));
    let result = isa.select_f32(infinite, x, result);
    of_domain(isa, x, isa.le_f32(one, x), result)
}

/// Inverse hyperbolic tangent. Error below 0.7 ULP; atanh(±0) = ±0, atanh(±1) = ±∞, NaN beyond.
#[inline(always)]
pub fn atanh<I: VectorOps>(isa: I, x: I::F32) -> I::F32 {
    let magnitude = isa.abs_f32(x);
    let bound = isa.splat_f32(LINEAR);
    let one = isa.splat_f32(1.0);
    // The float below 1: beyond it there is no logarithm.
    let a = isa.min_f32(isa.max_f32(magnitude, bound), isa.splat_f32(0.999_999_94));
    let result = through_f64::<Atanh, I>(isa, a);
    let end = isa.eq_f32(magnitude, one);
    let result = isa.select_f32(end, isa.splat_f32(f32::INFINITY), result);
    let result = with_sign(isa, result, x);
    let result = isa.select_f32(isa.lt_f32(magnitude, bound), x, result);
    of_domain(isa, x, isa.le_f32(magnitude, one), result)
}
