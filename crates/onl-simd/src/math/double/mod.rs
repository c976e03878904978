//! Elementary functions of `f64`.
//!
//! What rests on exponential and logarithm is vector code; the others call `libm` lane by lane, whose portable code
//! gives the same bits everywhere.

mod activation;
mod hyperbolic;
mod trigonometric;

pub use activation::{celu, elu, gelu_tanh, mish, selu, softplus, swish};
pub use hyperbolic::{acosh, asinh, atanh, cosh, expm1, sinh, tanh};
pub use trigonometric::{cos, sin, tan};

use super::polynomial_f64;
use crate::{MAXIMUM_F32_LANES, Scalar, VectorOps};

const LOG2_E: f64 = std::f64::consts::LOG2_E;
/// ln 2 in two parts.
const LN2_HIGH: f64 = std::f64::consts::LN_2;
const LN2_LOW: f64 = 2.319_046_813_846_299_6e-17;
/// 1.5 · 2⁵²: adding it rounds a small double to an integer that stands in the low bits of the sum.
const ROUND: f64 = 6755399441055744.0;
/// (eʳ − 1 − r) / r² on ±ln 2 / 2, weighted by r² e⁻ʳ, highest degree first.
const EXP: [f64; 10] = [
    2.500_725_607_056_794e-8,
    2.763_045_158_678_478e-7,
    2.755_756_329_162_259_6e-6,
    2.480_149_246_329_911_2e-5,
    0.000_198_412_695_329_070_8,
    0.001_388_888_894_433_089_7,
    0.008_333_333_333_482_013,
    0.041_666_666_666_527,
    0.166_666_666_666_664_33,
    0.500_000_000_000_001_1,
];
/// Largest |x| of the common path.
const EXP_LIMIT: f64 = 708.0;

/// The lanes of `x` through a function of one number.
#[inline(always)]
fn lane_by_lane<I: VectorOps>(isa: I, x: I::F64, function: fn(f64) -> f64) -> I::F64 {
    let mut lanes = [0.0; MAXIMUM_F32_LANES];
    isa.store_f64(x, &mut lanes);
    for lane in &mut lanes[..I::F64_LANES] {
        *lane = function(*lane);
    }
    isa.load_f64(&lanes)
}

/// The sign of `x` on the non-negative `magnitude`.
#[inline(always)]
fn with_sign<I: VectorOps>(isa: I, magnitude: I::F64, x: I::F64) -> I::F64 {
    let sign = isa.and_i64(isa.bits_f64(x), isa.splat_i64(i64::MIN));
    isa.from_bits_f64(isa.or_i64(isa.bits_f64(magnitude), sign))
}

/// The NaN lanes of `x` quieted, `result` elsewhere.
#[inline(always)]
fn or_nan<I: VectorOps>(isa: I, x: I::F64, result: I::F64) -> I::F64 {
    let quieted = isa.or_i64(isa.bits_f64(x), isa.splat_i64(0x0008_0000_0000_0000));
    isa.select_f64(isa.is_nan_f64(x), isa.from_bits_f64(quieted), result)
}

#[inline(always)]
fn quiet_lane(x: f64) -> f64 {
    f64::from_bits(x.to_bits() | 0x0008_0000_0000_0000)
}

/// Square root, correctly rounded.
#[inline(always)]
pub fn sqrt<I: VectorOps>(isa: I, x: I::F64) -> I::F64 {
    isa.sqrt_f64(x)
}

/// x = n ln 2 + r with |r| ≤ ln 2 / 2: n (in the low bits) and r.
#[inline(always)]
fn exp_argument<I: VectorOps>(isa: I, x: I::F64) -> (I::I64, I::F64) {
    let sum = isa.fma_f64(x, isa.splat_f64(LOG2_E), isa.splat_f64(ROUND));
    let n = isa.sub_f64(sum, isa.splat_f64(ROUND));
    let r = isa.fma_f64(n, isa.splat_f64(-LN2_HIGH), x);
    (
        isa.bits_f64(sum),
        isa.fma_f64(n, isa.splat_f64(-LN2_LOW), r),
    )
}

/// eʳ for the reduced argument and, in the low bits of the second result, the power of two that scales it.
#[inline(always)]
fn exp_reduced<I: VectorOps>(isa: I, x: I::F64) -> (I::F64, I::I64) {
    let (n, r) = exp_argument(isa, x);
    let one = isa.splat_f64(1.0);
    let q = polynomial_f64(isa, r, &EXP);
    (isa.fma_f64(isa.fma_f64(q, r, one), r, one), n)
}

#[inline(always)]
fn exp_ordinary<I: VectorOps>(isa: I, x: I::F64) -> I::F64 {
    let (p, n) = exp_reduced(isa, x);
    isa.from_bits_f64(isa.add_i64(isa.bits_f64(p), isa.shl_i64::<52>(n)))
}

/// eˣ. Error below 1 ULP; denormal results are rounded to nearest even; exp(−∞) = 0, exp(∞) = ∞.
#[inline(always)]
pub fn exp<I: VectorOps>(isa: I, x: I::F64) -> I::F64 {
    let inside = isa.le_f64(isa.abs_f64(x), isa.splat_f64(EXP_LIMIT));
    if isa.any_m64(isa.not_m64(inside)) {
        lane_by_lane(isa, x, exp_lane)
    } else {
        exp_ordinary(isa, x)
    }
}

#[inline(never)]
fn exp_lane(x: f64) -> f64 {
    let isa = Scalar::new();
    if x.abs() <= EXP_LIMIT {
        return exp_ordinary(isa, x);
    }
    if x.is_nan() {
        return quiet_lane(x);
    }
    // 2ⁿ in two factors, the first product exact; the clamped ends overflow and vanish.
    let (p, bits) = exp_reduced(isa, x.clamp(-746.0, 710.0));
    let n = ((bits << 52) >> 52) as i32;
    let half = n >> 1;
    let power = |n: i32| f64::from_bits(((1023 + n) as u64) << 52);
    p * power(half) * power(n - half)
}

/// Logistic function 1 / (1 + e⁻ˣ). Relative accuracy on both sides: error below 1.9 ULP.
#[inline(always)]
pub fn sigmoid<I: VectorOps>(isa: I, x: I::F64) -> I::F64 {
    let one = isa.splat_f64(1.0);
    let e = exp(isa, isa.neg_f64(isa.abs_f64(x)));
    let negative = isa.lt_f64(x, isa.splat_f64(0.0));
    // What the sum loses changes the quotient q of the negative side by its part −q (1 − q).
    let sum = isa.add_f64(one, e);
    let lost = isa.sub_f64(e, isa.sub_f64(sum, one));
    let q = isa.div_f64(isa.select_f64(negative, e, one), sum);
    let slope = isa.fma_f64(q, q, isa.neg_f64(q));
    isa.select_f64(isa.is_nan_f64(x), e, isa.fma_f64(slope, lost, q))
}

/// (log(1 + s) − log(1 − s)) / s − 2 over s², highest degree first.
const LOG: [f64; 7] = [
    0.147_955_888_663_322_02,
    0.153_140_882_560_465_07,
    0.181_835_627_686_256_1,
    0.222_221_986_054_791_32,
    0.285_714_287_420_356_76,
    0.399_999_999_994_165_8,
    0.666_666_666_666_673_4,
];
/// ln 2 in two parts; the first ends in zeros, so that its product with an exponent is exact.
const LOG_LN2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
const LOG_LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// Bits of √½, rounded up.
const SQRT_HALF: i64 = 0x3fe6_a09e_667f_3bcd;

/// Splits a positive normal x = (1 + f) 2ᵏ, 1 + f in [√½, √2): f and k, both exact.
#[inline(always)]
pub(super) fn split<I: VectorOps>(isa: I, x: I::F64) -> (I::F64, I::F64) {
    let bits = isa.bits_f64(x);
    let offset = isa.sub_i64(bits, isa.splat_i64(SQRT_HALF));
    let e = isa.and_i64(offset, isa.splat_i64(0xfff0_0000_0000_0000_u64 as i64));
    let f = isa.sub_f64(isa.from_bits_f64(isa.sub_i64(bits, e)), isa.splat_f64(1.0));
    // The exponent plus 2048 in the low bits of 2⁵²: exact without a conversion from 64-bit integers.
    let biased = isa.shr_i64::<52>(isa.add_i64(offset, isa.splat_i64(i64::MIN)));
    let k = isa.from_bits_f64(isa.or_i64(biased, isa.splat_i64(0x4330_0000_0000_0000)));
    let k = isa.sub_f64(k, isa.splat_f64(4503599627370496.0 + 2048.0));
    (f, k)
}

/// ln(1 + f) + k ln 2 for 1 + f in [√½, √2).
#[inline(always)]
fn log_of_parts<I: VectorOps>(isa: I, f: I::F64, k: I::F64) -> I::F64 {
    let s = isa.div_f64(f, isa.add_f64(isa.splat_f64(2.0), f));
    let z = isa.mul_f64(s, s);
    let half_square = isa.mul_f64(isa.mul_f64(f, f), isa.splat_f64(0.5));
    let series = isa.fma_f64(z, polynomial_f64(isa, z, &LOG), half_square);
    let low = isa.fma_f64(s, series, isa.mul_f64(k, isa.splat_f64(LOG_LN2_LOW)));
    let rest = isa.sub_f64(f, isa.sub_f64(half_square, low));
    isa.fma_f64(k, isa.splat_f64(LOG_LN2_HIGH), rest)
}

/// log of positive normal lanes, `exponent` powers of two to be added.
#[inline(always)]
fn log_normal<I: VectorOps>(isa: I, x: I::F64, exponent: I::F64) -> I::F64 {
    let (f, k) = split(isa, x);
    log_of_parts(isa, f, isa.add_f64(k, exponent))
}

/// Natural logarithm. Error below 1 ULP; log(±0) = −∞, log(∞) = ∞, NaN for negative x.
#[inline(always)]
pub fn log<I: VectorOps>(isa: I, x: I::F64) -> I::F64 {
    let inside = isa.and_m64(
        isa.le_f64(isa.splat_f64(f64::MIN_POSITIVE), x),
        isa.le_f64(x, isa.splat_f64(f64::MAX)),
    );
    if isa.any_m64(isa.not_m64(inside)) {
        lane_by_lane(isa, x, log_lane)
    } else {
        log_normal(isa, x, isa.splat_f64(0.0))
    }
}

#[inline(never)]
fn log_lane(x: f64) -> f64 {
    if x.is_nan() {
        quiet_lane(x)
    } else if x == 0.0 {
        f64::NEG_INFINITY
    } else if x < 0.0 {
        f64::from_bits(0x7ff8_0000_0000_0000)
    } else if x.is_infinite() {
        x
    } else if x < f64::MIN_POSITIVE {
        log_normal(Scalar::new(), x * 18014398509481984.0, -54.0)
    } else {
        log_normal(Scalar::new(), x, 0.0)
    }
}

/// Error function. Error below 1 ULP.
#[inline(always)]
pub fn erf<I: VectorOps>(isa: I, x: I::F64) -> I::F64 {
    lane_by_lane(isa, x, libm::erf)
}

/// Inverse sine. Error below 1 ULP.
#[inline(always)]
pub fn asin<I: VectorOps>(isa: I, x: I::F64) -> I::F64 {
    lane_by_lane(isa, x, libm::asin)
}

/// Inverse cosine. Error below 1 ULP.
#[inline(always)]
pub fn acos<I: VectorOps>(isa: I, x: I::F64) -> I::F64 {
    lane_by_lane(isa, x, libm::acos)
}

/// Inverse tangent. Error below 1 ULP.
#[inline(always)]
pub fn atan<I: VectorOps>(isa: I, x: I::F64) -> I::F64 {
    lane_by_lane(isa, x, libm::atan)
}

/// Gaussian error linear unit x erfc(−x / √2) / 2, with relative accuracy on both sides; gelu(−∞) = −0.
#[inline(always)]
pub fn gelu<I: VectorOps>(isa: I, x: I::F64) -> I::F64 {
    lane_by_lane(isa, x, gelu_lane)
}

#[inline(never)]
fn gelu_lane(x: f64) -> f64 {
    if x == f64::NEG_INFINITY {
        return -0.0;
    }
    0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}

/// xʸ. Error below 1 ULP; zeros, infinities, negative x and NaN as C99 F.9.4.4.
#[inline(always)]
pub fn pow<I: VectorOps>(isa: I, x: I::F64, y: I::F64) -> I::F64 {
    let mut bases = [0.0; MAXIMUM_F32_LANES];
    let mut exponents = [0.0; MAXIMUM_F32_LANES];
    isa.store_f64(x, &mut bases);
    isa.store_f64(y, &mut exponents);
    for lane in 0..I::F64_LANES {
        bases[lane] = libm::pow(bases[lane], exponents[lane]);
    }
    isa.load_f64(&bases)
}
