//! Sine, cosine and tangent of `f64`.

use super::{ROUND, lane_by_lane, or_nan};
use crate::math::polynomial_f64;
use crate::{Scalar, VectorOps};

/// Largest |x| that the vector reduction takes; beyond it lanes go through `libm`.
const LIMIT: f64 = 1e6;
const TWO_OVER_PI: f64 = std::f64::consts::FRAC_2_PI;
/// π/2 = high + middle + low.
const HALF_PI_HIGH: f64 = std::f64::consts::FRAC_PI_2;
const HALF_PI_MIDDLE: f64 = 6.123_233_995_736_766e-17;
const HALF_PI_LOW: f64 = -1.497_384_904_859_183_3e-33;
/// (sin r − r) / r³ in r² on ±π/4, highest degree first.
const SIN: [f64; 7] = [
    -7.388_426_569_700_74e-13,
    1.605_429_656_465_008_6e-10,
    -2.505_207_084_895_807e-8,
    2.755_731_907_384_546e-6,
    -0.000_198_412_698_409_624_05,
    0.008_333_333_333_333_042,
    -0.166_666_666_666_666_66,
];
/// (cos r − 1) / r² in r² on ±π/4, highest degree first; the last coefficient is fixed.
const COS: [f64; 7] = [
    -1.135_875_904_888_391e-11,
    2.087_570_558_272_924_7e-9,
    -2.755_731_421_834_336_5e-7,
    2.480_158_728_900_602_6e-5,
    -0.001_388_888_888_887_334_6,
    0.041_666_666_666_666_595,
    -0.5,
];

/// The quadrant n (in the low bits), sin and cos of r for x = n π/2 + r, |x| ≤ [`LIMIT`].
#[inline(always)]
fn parts<I: VectorOps>(isa: I, x: I::F64) -> (I::I64, I::F64, I::F64) {
    let sum = isa.fma_f64(x, isa.splat_f64(TWO_OVER_PI), isa.splat_f64(ROUND));
    let n = isa.neg_f64(isa.sub_f64(sum, isa.splat_f64(ROUND)));
    // Exact: x lies within π/4 of n times the constant.
    let first = isa.fma_f64(n, isa.splat_f64(HALF_PI_HIGH), x);
    let middle = isa.splat_f64(HALF_PI_MIDDLE);
    let p = isa.mul_f64(n, middle);
    let p_error = isa.fma_f64(n, middle, isa.neg_f64(p));
    // Two-sum of the parts, so that arguments near a multiple of π/2 keep relative accuracy.
    let r = isa.add_f64(first, p);
    let b = isa.sub_f64(r, first);
    let l = isa.add_f64(isa.sub_f64(first, isa.sub_f64(r, b)), isa.sub_f64(p, b));
    let l = isa.fma_f64(n, isa.splat_f64(HALF_PI_LOW), isa.add_f64(l, p_error));

    let u = isa.mul_f64(r, r);
    let s = isa.fma_f64(isa.mul_f64(r, u), polynomial_f64(isa, u, &SIN), l);
    let correction = isa.neg_f64(isa.mul_f64(r, l));
    let c = isa.fma_f64(u, polynomial_f64(isa, u, &COS), correction);
    (
        isa.bits_f64(sum),
        isa.add_f64(r, s),
        isa.add_f64(isa.splat_f64(1.0), c),
    )
}

/// The lanes whose quadrant is odd.
#[inline(always)]
fn odd<I: VectorOps>(isa: I, quadrant: I::I64) -> I::M64 {
    // The lowest bit in the place of the sign of 1.
    let one = isa.bits_f64(isa.splat_f64(1.0));
    let signed = isa.or_i64(isa.shl_i64::<63>(quadrant), one);
    isa.lt_f64(isa.from_bits_f64(signed), isa.splat_f64(0.0))
}

/// sin(n π/2 + r), the quadrant counted from `first`.
#[inline(always)]
fn wave<I: VectorOps>(isa: I, x: I::F64, first: i64) -> I::F64 {
    let (quadrant, s, c) = parts(isa, x);
    let quadrant = isa.add_i64(quadrant, isa.splat_i64(first));
    let value = isa.bits_f64(isa.select_f64(odd(isa, quadrant), c, s));
    let sign = isa.shl_i64::<62>(isa.and_i64(quadrant, isa.splat_i64(2)));
    isa.from_bits_f64(isa.xor_i64(value, sign))
}

/// s / c, or −c / s in odd quadrants.
#[inline(always)]
fn slope<I: VectorOps>(isa: I, x: I::F64) -> I::F64 {
    let (quadrant, s, c) = parts(isa, x);
    let odd = odd(isa, quadrant);
    let quotient = isa.div_f64(isa.select_f64(odd, c, s), isa.select_f64(odd, s, c));
    let sign = isa.shl_i64::<63>(quadrant);
    isa.from_bits_f64(isa.xor_i64(isa.bits_f64(quotient), sign))
}

/// x itself where |x| < 2⁻²⁷, which keeps the sign of zero.
#[inline(always)]
fn or_linear<I: VectorOps>(isa: I, x: I::F64, result: I::F64) -> I::F64 {
    let linear = isa.lt_f64(isa.abs_f64(x), isa.splat_f64(1.0 / 134217728.0));
    isa.select_f64(linear, x, result)
}

/// Whether some lane is beyond the vector reduction.
#[inline(always)]
fn any_large<I: VectorOps>(isa: I, x: I::F64) -> bool {
    let small = isa.le_f64(isa.abs_f64(x), isa.splat_f64(LIMIT));
    isa.any_m64(isa.not_m64(small))
}

#[inline(always)]
fn sin_small<I: VectorOps>(isa: I, x: I::F64) -> I::F64 {
    or_linear(isa, x, wave(isa, x, 0))
}

#[inline(always)]
fn cos_small<I: VectorOps>(isa: I, x: I::F64) -> I::F64 {
    wave(isa, x, 1)
}

#[inline(always)]
fn tan_small<I: VectorOps>(isa: I, x: I::F64) -> I::F64 {
    or_linear(isa, x, slope(isa, x))
}

macro_rules! with_large {
    ($($(#[$doc:meta])* $name:ident $small:ident $lane:ident;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name<I: VectorOps>(isa: I, x: I::F64) -> I::F64 {
            if any_large(isa, x) {
                or_nan(isa, x, lane_by_lane(isa, x, $lane))
            } else {
                $small(isa, x)
            }
        }

        #[inline(never)]
        fn $lane(x: f64) -> f64 {
            if x.abs() <= LIMIT { $small(Scalar::new(), x) } else { libm::$name(x) }
        }
    )*};
}

with_large! {
    /// Sine. Error below 1 ULP; sin(±0) = ±0, NaN for infinite x.
    sin sin_small sin_lane;
    /// Cosine. Error below 1 ULP; NaN for infinite x.
    cos cos_small cos_lane;
    /// Tangent. Error below 3 ULP; tan(±0) = ±0, NaN for infinite x.
    tan tan_small tan_lane;
}
