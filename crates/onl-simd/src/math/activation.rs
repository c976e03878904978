//! Activation functions of `f32` around the exponential, and eˣ − 1.

use super::exponential::{LOG, decay, exp_full, exp_ordinary, sigmoid_ordinary};
use super::{EXP_ORDINARY_LIMIT, any_outside, polynomial, quiet};
use crate::VectorOps;

/// (eʳ − 1 − r) / r² on ±ln 2 / 2, weighted by r² / (eʳ − 1), highest degree first.
const EXPM1: [f32; 6] = [
    0.000_197_617_16,
    0.001_393_232,
    0.008_333_546,
    0.041_666_493,
    0.166_666_66,
    0.5,
];
/// Below it eˣ − 1 = x and ln(1 + x) = x in f32, and squares of greater numbers are normal.
const LINEAR: f32 = 1.0 / 67108864.0;
const LN_2: f32 = std::f32::consts::LN_2;

/// eˣ − 1. Error below 1.5 ULP; expm1(±0) = ±0, expm1(−∞) = −1, expm1(∞) = ∞.
#[inline(always)]
pub fn expm1<I: VectorOps>(isa: I, x: I::F32) -> I::F32 {
    let bound = isa.splat_f32(LINEAR);
    let linear = isa.lt_f32(isa.abs_f32(x), bound);
    // From −18 on the result rounds to −1, from 89 on it overflows.
    let clamped = isa.min_f32(isa.splat_f32(89.0), isa.max_f32(isa.splat_f32(-20.0), x));
    let clamped = isa.select_f32(linear, isa.splat_f32(0.0), clamped);
    let (n, r) = super::exponential::exp_argument(isa, clamped);
    let p = isa.fma_f32(isa.mul_f32(r, r), polynomial(isa, r, &EXPM1), r);
    // Half of 2ⁿ p + 2ⁿ − 1, which does not overflow.
    let half = isa.add_i32(isa.shl_i32::<23>(n), isa.splat_i32(126 << 23));
    let half = isa.from_bits_f32(half);
    let sum = isa.fma_f32(half, p, isa.sub_f32(half, isa.splat_f32(0.5)));
    isa.select_f32(linear, x, isa.add_f32(sum, sum))
}

/// x for x ≥ 0, α (eˣ − 1) below (ONNX `Elu`). Error below 2.5 ULP.
#[inline(always)]
pub fn elu<I: VectorOps>(isa: I, x: I::F32, alpha: f32) -> I::F32 {
    let zero = isa.splat_f32(0.0);
    let below = isa.mul_f32(isa.splat_f32(alpha), expm1(isa, isa.min_f32(x, zero)));
    isa.select_f32(isa.lt_f32(x, zero), below, x)
}

/// γ x for x > 0, γ α (eˣ − 1) else (ONNX `Selu`). Error below 3 ULP; γ α is rounded to `f32` beforehand.
#[inline(always)]
pub fn selu<I: VectorOps>(isa: I, x: I::F32, alpha: f32, gamma: f32) -> I::F32 {
    let zero = isa.splat_f32(0.0);
    let factor = isa.splat_f32((f64::from(alpha) * f64::from(gamma)) as f32);
    let below = isa.mul_f32(factor, expm1(isa, isa.min_f32(x, zero)));
    let above = isa.mul_f32(isa.splat_f32(gamma), x);
    let result = isa.select_f32(isa.lt_f32(x, zero), below, above);
    isa.select_f32(isa.is_nan_f32(x), quiet(isa, x), result)
}

/// max(x, 0) + min(α (e^(x/α) − 1), 0) (ONNX `Celu`). Error below 3 ULP for positive α.
#[inline(always)]
pub fn celu<I: VectorOps>(isa: I, x: I::F32, alpha: f32) -> I::F32 {
    let zero = isa.splat_f32(0.0);
    let alpha = isa.splat_f32(alpha);
    // For either sign of α the second term is 0 where x is positive.
    let argument = isa.div_f32(isa.min_f32(x, zero), alpha);
    let below = isa.mul_f32(alpha, expm1(isa, argument));
    isa.select_f32(isa.lt_f32(x, zero), below, x)
}

/// ln(1 + e) for 0 ≤ e ≤ 1, not denormal unless 0.
#[inline(always)]
fn log1p_of_unit<I: VectorOps>(isa: I, e: I::F32) -> I::F32 {
    let bound = isa.splat_f32(LINEAR);
    // 1 + e = (1 + f) 2ᵏ with k = 0 or 1 and f in [−1/3, 1/3]; both forms of f are exact.
    let a = isa.max_f32(e, bound);
    let upper = isa.lt_f32(isa.splat_f32(1.0 / 3.0), a);
    let half = isa.splat_f32(0.5);
    let f = isa.select_f32(upper, isa.sub_f32(isa.mul_f32(a, half), half), a);
    let q = polynomial(isa, f, &LOG);
    let r = isa.fma_f32(isa.mul_f32(f, f), q, f);
    let k = isa.select_f32(upper, isa.splat_f32(LN_2), isa.splat_f32(0.0));
    isa.select_f32(isa.lt_f32(e, bound), e, isa.add_f32(k, r))
}

/// ln(1 + eˣ) (ONNX `Softplus`), with relative accuracy on both sides. Error below 2.5 ULP; softplus(−∞) = 0.
#[inline(always)]
pub fn softplus<I: VectorOps>(isa: I, x: I::F32) -> I::F32 {
    let zero = isa.splat_f32(0.0);
    let below = decay(isa, x);
    if any_outside(isa, x, EXP_ORDINARY_LIMIT) {
        let e = exp_full(isa, below);
        let tiny = isa.lt_f32(below, isa.splat_f32(-EXP_ORDINARY_LIMIT));
        let sum = log1p_of_unit(isa, isa.select_f32(tiny, zero, e));
        let sum = isa.add_f32(isa.max_f32(x, zero), sum);
        let end = isa.select_f32(isa.lt_f32(x, zero), e, x);
        let result = isa.select_f32(tiny, end, sum);
        isa.select_f32(isa.is_nan_f32(x), quiet(isa, x), result)
    } else {
        let e = exp_ordinary(isa, below);
        isa.add_f32(isa.max_f32(x, zero), log1p_of_unit(isa, e))
    }
}

/// x e^(y + correction) for y below −32 and beyond: no intermediate result is denormal, so that a denormal result is as near as a
/// normal one. x must not be infinite.
#[inline(always)]
fn scaled_exp<I: VectorOps>(isa: I, x: I::F32, y: I::F32, correction: I::F32) -> I::F32 {
    const E_TO_MINUS_32: f32 = 1.266_416_6e-14;
    let raised = isa.add_f32(y, isa.splat_f32(32.0));
    let raised = isa.max_f32(isa.splat_f32(-EXP_ORDINARY_LIMIT), raised);
    let raised = isa.min_f32(isa.splat_f32(0.0), raised);
    let product = isa.mul_f32(x, exp_ordinary(isa, raised));
    let product = isa.fma_f32(product, correction, product);
    isa.mul_f32(product, isa.splat_f32(E_TO_MINUS_32))
}

/// x tanh(ln(1 + eˣ)) (ONNX `Mish`), with relative accuracy on both sides. Error below 4 ULP; mish(−∞) = −0.
#[inline(always)]
pub fn mish<I: VectorOps>(isa: I, x: I::F32) -> I::F32 {
    if any_outside(isa, x, EXP_ORDINARY_LIMIT) {
        let bound = isa.splat_f32(EXP_ORDINARY_LIMIT);
        let ordinary = isa.le_f32(isa.abs_f32(x), bound);
        let inner = mish_of(isa, isa.select_f32(ordinary, x, bound));
        // From −112 on the result is less than half of the least denormal.
        let vanishes = isa.lt_f32(x, isa.splat_f32(-112.0));
        let outer = isa.select_f32(vanishes, isa.splat_f32(-1.0), x);
        let deep = isa.select_f32(vanishes, isa.splat_f32(-104.0), x);
        let low = isa.lt_f32(x, isa.splat_f32(0.0));
        let low = isa.and_m32(low, isa.not_m32(ordinary));
        let tail = scaled_exp(
            isa,
            isa.select_f32(low, outer, isa.splat_f32(1.0)),
            isa.select_f32(low, deep, isa.splat_f32(0.0)),
            isa.splat_f32(0.0),
        );
        let tail = isa.select_f32(vanishes, isa.splat_f32(-0.0), tail);
        let result = isa.select_f32(low, tail, x);
        let result = isa.select_f32(ordinary, inner, result);
        isa.select_f32(isa.is_nan_f32(x), quiet(isa, x), result)
    } else {
        mish_of(isa, x)
    }
}

/// With e = e⁻|ˣ|: x n / (n + 2), n = e (e + 2), for negative x, and x (1 + 2 e) / (1 + 2 e + 2 e²) else.
#[inline(always)]
fn mish_of<I: VectorOps>(isa: I, x: I::F32) -> I::F32 {
    let (one, two) = (isa.splat_f32(1.0), isa.splat_f32(2.0));
    let e = exp_ordinary(isa, decay(isa, x));
    let negative = isa.lt_f32(x, isa.splat_f32(0.0));
    let twice = isa.add_f32(e, e);
    let n = isa.fma_f32(e, e, twice);
    let m = isa.fma_f32(e, two, one);
    let numerator = isa.select_f32(negative, n, m);
    let denominator = isa.select_f32(negative, isa.add_f32(n, two), isa.fma_f32(twice, e, m));
    isa.mul_f32(x, isa.div_f32(numerator, denominator))
}

/// x / (1 + e^−(y + correction)) for a small correction, which is zero unless `CORRECTED`.
#[inline(always)]
fn gated<I: VectorOps, const CORRECTED: bool>(
    isa: I,
    x: I::F32,
    y: I::F32,
    correction: I::F32,
) -> I::F32 {
    let one = isa.splat_f32(1.0);
    if any_outside(isa, y, EXP_ORDINARY_LIMIT) {
        let zero = isa.splat_f32(0.0);
        let ordinary = isa.le_f32(isa.abs_f32(y), isa.splat_f32(EXP_ORDINARY_LIMIT));
        let gate = sigmoid_ordinary(isa, isa.select_f32(ordinary, y, zero));
        // Of an overflowing product the correction is no number.
        let near = isa.le_f32(isa.abs_f32(y), isa.splat_f32(1e4));
        let correction = isa.select_f32(near, correction, zero);
        let complement = isa.mul_f32(correction, isa.sub_f32(one, gate));
        let gate = isa.fma_f32(gate, complement, gate);
        let result = isa.mul_f32(isa.select_f32(ordinary, x, zero), gate);
        let closed = isa.lt_f32(y, isa.splat_f32(-EXP_ORDINARY_LIMIT));
        let infinite = isa.eq_f32(isa.abs_f32(x), isa.splat_f32(f32::INFINITY));
        let finite = isa.select_f32(infinite, super::with_sign(isa, zero, x), x);
        let vanishing = scaled_exp(
            isa,
            isa.select_f32(closed, finite, zero),
            isa.select_f32(closed, y, zero),
            correction,
        );
        let end = isa.select_f32(closed, vanishing, x);
        let result = isa.select_f32(ordinary, result, end);
        let result = isa.select_f32(isa.is_nan_f32(y), quiet(isa, y), result);
        isa.select_f32(isa.is_nan_f32(x), quiet(isa, x), result)
    } else {
        let gate = sigmoid_ordinary(isa, y);
        if !CORRECTED {
            return isa.mul_f32(x, gate);
        }
        let complement = isa.mul_f32(correction, isa.sub_f32(one, gate));
        isa.mul_f32(x, isa.fma_f32(gate, complement, gate))
    }
}

/// x / (1 + e^−αx) (ONNX `Swish`). Error below 3.5 ULP where the result is normal; the limit 0 where αx = −∞.
#[inline(always)]
pub fn swish<I: VectorOps>(isa: I, x: I::F32, alpha: f32) -> I::F32 {
    let alpha = isa.splat_f32(alpha);
    let y = isa.mul_f32(x, alpha);
    let correction = isa.fma_f32(x, alpha, isa.neg_f32(y));
    gated::<I, true>(isa, x, y, correction)
}

/// x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2 (ONNX `Gelu`, `approximate` = `tanh`), as x / (1 + e^−y). Error below
/// 4 ULP from −1 on; below, the absolute error stays under 2e-8.
#[inline(always)]
pub fn gelu_tanh<I: VectorOps>(isa: I, x: I::F32) -> I::F32 {
    /// √(8/π), and 0.044715 of it.
    const LINEAR_TERM: f32 = 1.595_769_2;
    const CUBIC_TERM: f32 = 0.071_354_82;
    // The square of a smaller number might be denormal, and is nothing beside the linear term.
    let a = isa.max_f32(isa.splat_f32(1e-18), isa.abs_f32(x));
    // Beyond 50 the exponential is out of range by far; the product must not overflow to ∞ − ∞.
    let a = isa.min_f32(isa.splat_f32(50.0), a);
    let slope = isa.fma_f32(
        isa.mul_f32(a, a),
        isa.splat_f32(CUBIC_TERM),
        isa.splat_f32(LINEAR_TERM),
    );
    gated::<I, false>(isa, x, isa.mul_f32(x, slope), isa.splat_f32(0.0))
}
