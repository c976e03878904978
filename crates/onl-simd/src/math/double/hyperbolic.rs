//! Hyperbolic functions of `f64`, their inverses, and eˣ − 1.

use super::{EXP, exp, exp_argument, lane_by_lane, log_of_parts, or_nan, with_sign};
use crate::VectorOps;
use crate::math::polynomial_f64;

/// Below it eˣ − 1 = x in f64.
const LINEAR: f64 = 1.0 / 18014398509481984.0;

/// eˣ − 1. Error below 1.5 ULP; expm1(±0) = ±0, expm1(−∞) = −1, expm1(∞) = ∞.
#[inline(always)]
pub fn expm1<I: VectorOps>(isa: I, x: I::F64) -> I::F64 {
    let bound = isa.splat_f64(LINEAR);
    let linear = isa.lt_f64(isa.abs_f64(x), bound);
    // From −38 on the result rounds to −1, from 710 on it overflows.
    let clamped = isa.min_f64(isa.splat_f64(710.0), isa.max_f64(isa.splat_f64(-40.0), x));
    let (n, r) = exp_argument(isa, clamped);
    let q = polynomial_f64(isa, r, &EXP);
    let p = isa.fma_f64(isa.mul_f64(r, r), q, r);
    // Half of 2ⁿ p + 2ⁿ − 1, which does not overflow.
    let half = isa.add_i64(isa.shl_i64::<52>(n), isa.splat_i64(1022 << 52));
    let half = isa.from_bits_f64(half);
    let sum = isa.fma_f64(half, p, isa.sub_f64(half, isa.splat_f64(0.5)));
    isa.select_f64(linear, x, isa.add_f64(sum, sum))
}

/// Hyperbolic tangent, from t = e²ˣ − 1 as t / (t + 2) below 2 and 1 − 2 / (t + 2) beyond. Error below 2 ULP, never
/// beyond ±1; tanh(±0) = ±0, tanh(±∞) = ±1.
#[inline(always)]
pub fn tanh<I: VectorOps>(isa: I, x: I::F64) -> I::F64 {
    let (one, two) = (isa.splat_f64(1.0), isa.splat_f64(2.0));
    let a = isa.min_f64(isa.splat_f64(22.0), isa.abs_f64(x));
    let t = expm1(isa, isa.add_f64(a, a));
    let near = isa.lt_f64(t, two);
    let sum = isa.add_f64(t, two);
    let q = isa.div_f64(isa.select_f64(near, t, isa.splat_f64(-2.0)), sum);
    // What the sum loses, relative to it, is put back where the quotient is the result.
    let lost = isa.sub_f64(t, isa.sub_f64(sum, two));
    let part = isa.mul_f64(
        lost,
        isa.fma_f64(q, isa.splat_f64(-0.5), isa.splat_f64(0.5)),
    );
    let corrected = isa.fma_f64(isa.neg_f64(q), part, q);
    let result = isa.select_f64(near, corrected, isa.add_f64(one, q));
    or_nan(isa, x, with_sign(isa, result, x))
}

/// Hyperbolic sine, from t = eˣ − 1 as (t + t / (t + 1)) / 2. Error below 3 ULP; sinh(±0) = ±0, sinh(±∞) = ±∞.
#[inline(always)]
pub fn sinh<I: VectorOps>(isa: I, x: I::F64) -> I::F64 {
    let a = isa.abs_f64(x);
    let half = isa.splat_f64(0.5);
    let large = isa.lt_f64(isa.splat_f64(40.0), a);
    let t = expm1(isa, isa.select_f64(large, half, a));
    let rest = isa.div_f64(t, isa.add_f64(t, isa.splat_f64(1.0)));
    let near = isa.mul_f64(isa.add_f64(t, rest), half);
    let result = isa.select_f64(large, half_exp(isa, a, large), near);
    let linear = isa.lt_f64(a, isa.splat_f64(LINEAR));
    let result = isa.select_f64(linear, x, with_sign(isa, result, x));
    or_nan(isa, x, result)
}

/// eᵃ / 2 in the lanes of `mask`, without overflow before the result does.
#[inline(always)]
fn half_exp<I: VectorOps>(isa: I, a: I::F64, mask: I::M64) -> I::F64 {
    let half = isa.splat_f64(0.5);
    let top = isa.and_m64(mask, isa.lt_f64(isa.splat_f64(700.0), a));
    let b = isa.select_f64(mask, a, half);
    let b = isa.select_f64(top, isa.sub_f64(b, isa.splat_f64(64.0)), b);
    let e = exp(isa, isa.min_f64(isa.splat_f64(700.0), b));
    /// e⁶⁴
    const E_TO_64: f64 = 6.235149080811617e27;
    let scale = isa.select_f64(top, isa.splat_f64(E_TO_64), isa.splat_f64(1.0));
    isa.mul_f64(isa.mul_f64(e, half), scale)
}

/// Hyperbolic cosine. Error below 3 ULP; cosh(±∞) = ∞.
#[inline(always)]
pub fn cosh<I: VectorOps>(isa: I, x: I::F64) -> I::F64 {
    let a = isa.abs_f64(x);
    let half = isa.splat_f64(0.5);
    let large = isa.lt_f64(isa.splat_f64(40.0), a);
    let e = exp(isa, isa.select_f64(large, half, a));
    let near = isa.fma_f64(half, e, isa.div_f64(half, e));
    or_nan(isa, x, isa.select_f64(large, half_exp(isa, a, large), near))
}

/// ln(1 + e) for 0 ≤ e ≤ 1.
#[inline(always)]
pub(super) fn log1p_of_unit<I: VectorOps>(isa: I, e: I::F64) -> I::F64 {
    let (half, one) = (isa.splat_f64(0.5), isa.splat_f64(1.0));
    // 1 + e = (1 + f) 2ᵏ with k = 0 or 1; both forms of f are exact.
    let upper = isa.lt_f64(isa.splat_f64(0.414), e);
    let f = isa.select_f64(upper, isa.sub_f64(isa.mul_f64(e, half), half), e);
    let k = isa.select_f64(upper, one, isa.splat_f64(0.0));
    let result = log_of_parts(isa, f, k);
    isa.select_f64(isa.lt_f64(e, isa.splat_f64(LINEAR)), e, result)
}

/// Inverse hyperbolic sine. Error below 2 ULP.
#[inline(always)]
pub fn asinh<I: VectorOps>(isa: I, x: I::F64) -> I::F64 {
    lane_by_lane(isa, x, libm::asinh)
}

/// Inverse hyperbolic cosine. Error below 2 ULP; NaN below 1.
#[inline(always)]
pub fn acosh<I: VectorOps>(isa: I, x: I::F64) -> I::F64 {
    lane_by_lane(isa, x, libm::acosh)
}

/// Inverse hyperbolic tangent. Error below 2 ULP; NaN beyond ±1.
#[inline(always)]
pub fn atanh<I: VectorOps>(isa: I, x: I::F64) -> I::F64 {
    lane_by_lane(isa, x, libm::atanh)
}
