//! Activation functions of `f64` around the exponential; see those of `f32` for what they compute.

use super::hyperbolic::{expm1, log1p_of_unit};
use super::{exp, or_nan, sigmoid, with_sign};
use crate::VectorOps;

/// x for x ≥ 0, α (eˣ − 1) below. Error below 2.5 ULP.
#[inline(always)]
pub fn elu<I: VectorOps>(isa: I, x: I::F64, alpha: f64) -> I::F64 {
    let zero = isa.splat_f64(0.0);
    let below = isa.mul_f64(isa.splat_f64(alpha), expm1(isa, isa.min_f64(x, zero)));
    isa.select_f64(isa.lt_f64(x, zero), below, x)
}

/// γ x for x > 0, γ α (eˣ − 1) else. Error below 3 ULP.
#[inline(always)]
pub fn selu<I: VectorOps>(isa: I, x: I::F64, alpha: f64, gamma: f64) -> I::F64 {
    let zero = isa.splat_f64(0.0);
    let factor = isa.splat_f64(alpha * gamma);
    let below = isa.mul_f64(factor, expm1(isa, isa.min_f64(x, zero)));
    let above = isa.mul_f64(isa.splat_f64(gamma), x);
    let result = isa.select_f64(isa.lt_f64(x, zero), below, above);
    or_nan(isa, x, result)
}

/// max(x, 0) + min(α (e^(x/α) − 1), 0). Error below 3 ULP for positive α.
#[inline(always)]
pub fn celu<I: VectorOps>(isa: I, x: I::F64, alpha: f64) -> I::F64 {
    let zero = isa.splat_f64(0.0);
    let alpha = isa.splat_f64(alpha);
    let argument = isa.div_f64(isa.min_f64(x, zero), alpha);
    let below = isa.mul_f64(alpha, expm1(isa, argument));
    isa.select_f64(isa.lt_f64(x, zero), below, x)
}

/// ln(1 + eˣ). Error below 2.5 ULP.
#[inline(always)]
pub fn softplus<I: VectorOps>(isa: I, x: I::F64) -> I::F64 {
    let e = exp(isa, isa.neg_f64(isa.abs_f64(x)));
    let sum = isa.add_f64(isa.max_f64(x, isa.splat_f64(0.0)), log1p_of_unit(isa, e));
    or_nan(isa, x, sum)
}

/// x tanh(ln(1 + eˣ)). Error below 4 ULP where the result is normal; mish(−∞) = −0.
#[inline(always)]
pub fn mish<I: VectorOps>(isa: I, x: I::F64) -> I::F64 {
    let (one, two) = (isa.splat_f64(1.0), isa.splat_f64(2.0));
    let e = exp(isa, isa.neg_f64(isa.abs_f64(x)));
    let negative = isa.lt_f64(x, isa.splat_f64(0.0));
    let twice = isa.add_f64(e, e);
    let n = isa.fma_f64(e, e, twice);
    let m = isa.fma_f64(e, two, one);
    let numerator = isa.select_f64(negative, n, m);
    let denominator = isa.select_f64(negative, isa.add_f64(n, two), isa.fma_f64(twice, e, m));
    gate(isa, x, isa.div_f64(numerator, denominator))
}

/// x · `gate`, with the limit ±0 where an infinite x meets a closed gate.
#[inline(always)]
fn gate<I: VectorOps>(isa: I, x: I::F64, gate: I::F64) -> I::F64 {
    let zero = isa.splat_f64(0.0);
    let closed = isa.eq_f64(gate, zero);
    let closed = isa.select_f64(closed, with_sign(isa, zero, x), isa.mul_f64(x, gate));
    or_nan(isa, x, closed)
}

/// x / (1 + e^−αx). Error below 3.5 ULP where the result is normal; the limit 0 where αx = −∞.
#[inline(always)]
pub fn swish<I: VectorOps>(isa: I, x: I::F64, alpha: f64) -> I::F64 {
    let alpha = isa.splat_f64(alpha);
    let y = isa.mul_f64(x, alpha);
    // What the product loses moves the gate by its part 1 − gate; beyond 1000 the gate is open or closed.
    let inside = isa.le_f64(isa.abs_f64(y), isa.splat_f64(1000.0));
    let lost = isa.fma_f64(x, alpha, isa.neg_f64(y));
    let lost = isa.select_f64(inside, lost, isa.splat_f64(0.0));
    let open = sigmoid(isa, y);
    let part = isa.mul_f64(lost, isa.sub_f64(isa.splat_f64(1.0), open));
    gate(isa, x, isa.fma_f64(open, part, open))
}

/// x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2, as x / (1 + e^−y). Error below 4 ULP from −1 on; below, the absolute error
/// stays under 1e-16.
#[inline(always)]
pub fn gelu_tanh<I: VectorOps>(isa: I, x: I::F64) -> I::F64 {
    /// √(8/π), and 0.044715 of it.
    const LINEAR_TERM: f64 = 1.595_769_121_605_730_6;
    const CUBIC_TERM: f64 = 0.044715 * LINEAR_TERM;
    let a = isa.min_f64(isa.splat_f64(200.0), isa.abs_f64(x));
    let slope = isa.fma_f64(
        isa.mul_f64(a, a),
        isa.splat_f64(CUBIC_TERM),
        isa.splat_f64(LINEAR_TERM),
    );
    gate(isa, x, sigmoid(isa, isa.mul_f64(x, slope)))
}
