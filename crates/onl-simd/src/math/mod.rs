//! Elementary functions with equal bits on every tier.
//!
//! Every function has one body, generic over [`VectorOps`], of IEEE operations and explicit fused multiply-adds. Common
//! arguments take a straight path; arguments that need more (NaN, infinities, denormals) send the whole vector
//! through a second path that gives the common lanes the same bits, so that a lane's result never depends on its
//! neighbours. NaN results are the argument with its quiet bit set, or 0x7fc00000 for a domain error.

mod activation;
pub mod double;
mod exponential;
mod hyperbolic;
mod inverse;
mod map;
mod piecewise;
mod power;
mod trigonometric;

pub use activation::{celu, elu, expm1, gelu_tanh, mish, selu, softplus, swish};
pub use exponential::{EXP_ORDINARY_LIMIT, exp, exp_ordinary, log, sigmoid};
pub use hyperbolic::{cosh, sinh};
pub use inverse::{acos, acosh, asin, asinh, atan, atanh};
pub use map::{
    Acos, Acosh, Asin, Asinh, Atan, Atanh, Cos, Cosh, Erf, Exp, Expm1, FunctionF32, FunctionF64,
    Gelu, GeluTanh, Log, Mish, Of, Sigmoid, Sin, Sinh, Softplus, Sqrt, Tan, Tanh, UnaryF32,
    UnaryF64, map, map_bf16, map_block_bf16, map_block_f16, map_block_f32, map_block_f64, map_f16,
    map_f64, map_in_place_bf16, map_in_place_f16, map_in_place_f32, map_in_place_f64,
};
pub use piecewise::{erf, gelu, tanh};
pub use power::pow;
pub use trigonometric::{cos, sin, tan};

use crate::{MAXIMUM_F32_LANES, VectorOps};

/// Square root, correctly rounded.
#[inline(always)]
pub fn sqrt<I: VectorOps>(isa: I, x: I::F32) -> I::F32 {
    isa.sqrt_f32(x)
}

/// Horner's scheme, highest degree first.
#[inline(always)]
fn polynomial<I: VectorOps, const N: usize>(isa: I, x: I::F32, coefficients: &[f32; N]) -> I::F32 {
    let mut sum = isa.splat_f32(coefficients[0]);
    for degree in 1..N {
        sum = isa.fma_f32(sum, x, isa.splat_f32(coefficients[degree]));
    }
    sum
}

/// Horner's scheme, highest degree first.
#[inline(always)]
fn polynomial_f64<I: VectorOps, const N: usize>(
    isa: I,
    x: I::F64,
    coefficients: &[f64; N],
) -> I::F64 {
    let mut sum = isa.splat_f64(coefficients[0]);
    for degree in 1..N {
        sum = isa.fma_f64(sum, x, isa.splat_f64(coefficients[degree]));
    }
    sum
}

/// The NaN lanes of `x` quieted.
#[inline(always)]
fn quiet<I: VectorOps>(isa: I, x: I::F32) -> I::F32 {
    isa.from_bits_f32(isa.or_i32(isa.bits_f32(x), isa.splat_i32(0x0040_0000)))
}

/// Whether any lane is NaN or beyond ±`limit`.
#[inline(always)]
fn any_outside<I: VectorOps>(isa: I, x: I::F32, limit: f32) -> bool {
    let inside = isa.le_f32(isa.abs_f32(x), isa.splat_f32(limit));
    isa.any_m32(isa.not_m32(inside))
}

/// The lanes as an array, the rest 0.
#[inline(always)]
fn spill_f32<I: VectorOps>(isa: I, x: I::F32) -> [f32; MAXIMUM_F32_LANES] {
    let mut lanes = [0.0; MAXIMUM_F32_LANES];
    isa.store_f32(x, &mut lanes);
    lanes
}

/// The first lanes of an array.
#[inline(always)]
fn lanes_f32<I: VectorOps>(isa: I, lanes: &[f32; MAXIMUM_F32_LANES]) -> I::F32 {
    isa.load_f32(lanes)
}

/// The sign of `x` on the non-negative `magnitude`.
#[inline(always)]
fn with_sign<I: VectorOps>(isa: I, magnitude: I::F32, x: I::F32) -> I::F32 {
    let sign = isa.and_i32(isa.bits_f32(x), isa.splat_i32(i32::MIN));
    isa.from_bits_f32(isa.or_i32(isa.bits_f32(magnitude), sign))
}
