//! Exponential, logistic function and logarithm of `f32`.

use super::{any_outside, polynomial, quiet};
use crate::VectorOps;

/// 1.5 · 2²³: adding it rounds a small float to an integer, nearest even, that stands in the low bits of the sum.
pub(super) const ROUND: f32 = 12582912.0;
const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// ln 2 in two parts; the first has few bits, so that its product with an exponent is exact.
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -0.000_212_194_44;
/// (eʳ − 1 − r) / r² on ±ln 2 / 2, weighted by r² e⁻ʳ, highest degree first; then 1 + r.
const EXP: [f32; 7] = [
    0.001_383_899_8,
    0.008_369_195,
    0.041_668_102,
    0.166_665_17,
    0.499_999_94,
    1.0,
    1.0,
];

/// Largest |x| whose exponential is finite and normal, with room to spare: the domain of [`exp_ordinary`].
pub const EXP_ORDINARY_LIMIT: f32 = 87.33;

/// Beyond it the exponential is 0 or ∞.
const EXP_FLAT: f32 = 104.0;

/// x = n ln 2 + r with |r| ≤ ln 2 / 2: n (in the low bits) and r.
#[inline(always)]
pub(super) fn exp_argument<I: VectorOps>(isa: I, x: I::F32) -> (I::I32, I::F32) {
    let sum = isa.fma_f32(x, isa.splat_f32(LOG2_E), isa.splat_f32(ROUND));
    let n = isa.sub_f32(sum, isa.splat_f32(ROUND));
    let r = isa.fma_f32(n, isa.splat_f32(-LN2_HIGH), x);
    (
        isa.bits_f32(sum),
        isa.fma_f32(n, isa.splat_f32(-LN2_LOW), r),
    )
}

/// eʳ for the reduced argument and, in the low bits of the second result, the power of two that scales it.
#[inline(always)]
pub(super) fn exp_reduced<I: VectorOps>(isa: I, x: I::F32) -> (I::F32, I::I32) {
    let (n, r) = exp_argument(isa, x);
    (polynomial(isa, r, &EXP), n)
}

/// Exponential for |x| ≤ [`EXP_ORDINARY_LIMIT`], bits as [`exp`]; lanes beyond it hold garbage.
///
/// For callers that test the domain of several vectors at once.
#[inline(always)]
pub fn exp_ordinary<I: VectorOps>(isa: I, x: I::F32) -> I::F32 {
    let (p, n) = exp_reduced(isa, x);
    isa.from_bits_f32(isa.add_i32(isa.bits_f32(p), isa.shl_i32::<23>(n)))
}

/// eˣ. Error below 0.9 ULP; denormal results are rounded to nearest even; exp(−∞) = 0, exp(∞) = ∞.
#[inline(always)]
pub fn exp<I: VectorOps>(isa: I, x: I::F32) -> I::F32 {
    // Ordinary magnitudes are normal and up to the limit: shifted so that they are the lowest signed integers, the bits of
    // all others compare greater.
    let magnitude = isa.abs_f32(x);
    let shifted = isa.add_i32(isa.bits_f32(magnitude), isa.splat_i32(0x7f80_0000));
    let last = isa.splat_i32((EXP_ORDINARY_LIMIT.to_bits().wrapping_add(0x7f80_0000)) as i32);
    if isa.any_m32(isa.lt_i32(last, shifted)) {
        // Zeros stand for denormals, which multiply slowly.
        let least = isa.splat_f32(f32::MIN_POSITIVE);
        let x = isa.select_f32(isa.lt_f32(magnitude, least), isa.splat_f32(0.0), x);
        let below = isa.le_f32(magnitude, isa.splat_f32(EXP_ORDINARY_LIMIT));
        let flat = isa.lt_f32(isa.splat_f32(EXP_FLAT), magnitude);
        let nan = isa.is_nan_f32(x);
        let simple = isa.or_m32(isa.or_m32(below, flat), nan);
        if isa.any_m32(isa.not_m32(simple)) {
            return exp_full(isa, x);
        }
        let zero = isa.splat_f32(0.0);
        let ordinary = exp_ordinary(isa, isa.select_f32(below, x, zero));
        let end = isa.select_f32(isa.lt_f32(x, zero), zero, isa.splat_f32(f32::INFINITY));
        let result = isa.select_f32(flat, end, ordinary);
        isa.select_f32(nan, quiet(isa, x), result)
    } else {
        exp_ordinary(isa, x)
    }
}

/// −|x|, and the greatest negative normal number in place of a denormal or zero.
#[inline(always)]
pub(super) fn decay<I: VectorOps>(isa: I, x: I::F32) -> I::F32 {
    let least = isa.splat_f32(f32::MIN_POSITIVE);
    isa.neg_f32(isa.max_f32(least, isa.abs_f32(x)))
}

/// As [`exp`], for every lane, without a multiplication that produces or consumes a denormal.
#[inline(always)]
pub(super) fn exp_full<I: VectorOps>(isa: I, x: I::F32) -> I::F32 {
    let clamped = isa.max_f32(isa.min_f32(x, isa.splat_f32(89.0)), isa.splat_f32(-104.0));
    let (p, n) = exp_reduced(isa, clamped);

    // The result in units of 2⁻¹⁴⁹, where it may be denormal: adding 2²³ rounds it to an integer, whose bits are
    // those of the denormal.
    let two_23 = isa.splat_f32(8388608.0);
    let low = isa.lt_f32(clamped, isa.splat_f32(-87.0));
    let units = isa.add_i32(
        isa.bits_f32(p),
        isa.shl_i32::<23>(isa.add_i32(n, isa.splat_i32(149))),
    );
    let units = isa.select_f32(low, isa.from_bits_f32(units), two_23);
    let denormal = isa.lt_f32(units, two_23);
    let tiny = isa.sub_i32(
        isa.bits_f32(isa.add_f32(units, two_23)),
        isa.bits_f32(two_23),
    );

    // Half of the result, doubled where it may overflow.
    let positive = isa.lt_f32(isa.splat_f32(0.0), clamped);
    let n = isa.sub_i32(
        n,
        isa.select_i32(positive, isa.splat_i32(1), isa.splat_i32(0)),
    );
    let scaled = isa.add_i32(isa.bits_f32(p), isa.shl_i32::<23>(n));
    let one = isa.splat_f32(1.0);
    let scaled = isa.select_f32(denormal, one, isa.from_bits_f32(scaled));
    let scaled = isa.mul_f32(scaled, isa.select_f32(positive, isa.splat_f32(2.0), one));

    let result = isa.select_f32(denormal, isa.from_bits_f32(tiny), scaled);
    isa.select_f32(isa.is_nan_f32(x), quiet(isa, x), result)
}

/// n / (1 + e), for n = e or 1 and 0 ≤ e ≤ 1. What the sum loses is put back where it counts, on the side of n = e: the
/// quotient q changes by its part −q (1 − q) of the loss.
#[inline(always)]
fn logistic_quotient<I: VectorOps>(isa: I, numerator: I::F32, e: I::F32) -> I::F32 {
    let one = isa.splat_f32(1.0);
    let sum = isa.add_f32(one, e);
    let lost = isa.sub_f32(e, isa.sub_f32(sum, one));
    let q = isa.div_f32(numerator, sum);
    let slope = isa.fma_f32(q, q, isa.neg_f32(q));
    isa.fma_f32(slope, lost, q)
}

/// [`sigmoid`] where |x| ≤ [`EXP_ORDINARY_LIMIT`].
#[inline(always)]
pub(super) fn sigmoid_ordinary<I: VectorOps>(isa: I, x: I::F32) -> I::F32 {
    sigmoid_of(isa, x, decay(isa, x))
}

/// Logistic function of `x` from `below` = −|x|.
#[inline(always)]
fn sigmoid_of<I: VectorOps>(isa: I, x: I::F32, below: I::F32) -> I::F32 {
    let e = exp_ordinary(isa, below);
    let negative = isa.lt_f32(x, isa.splat_f32(0.0));
    logistic_quotient(isa, isa.select_f32(negative, e, isa.splat_f32(1.0)), e)
}

/// Logistic function 1 / (1 + e⁻ˣ). Relative accuracy on both sides: error below 1.9 ULP.
#[inline(always)]
pub fn sigmoid<I: VectorOps>(isa: I, x: I::F32) -> I::F32 {
    if any_outside(isa, x, EXP_ORDINARY_LIMIT) {
        let limit = isa.splat_f32(-EXP_ORDINARY_LIMIT);
        let below = decay(isa, x);
        // On the positive side the clamped exponential is nothing beside 1; on the negative one it is the result itself.
        let quotient = sigmoid_of(isa, x, isa.max_f32(limit, below));
        let low = isa.lt_f32(x, limit);
        let denormal = isa.and_m32(low, isa.le_f32(isa.splat_f32(-104.0), x));
        let tail = if isa.any_m32(denormal) {
            exp_full(isa, below)
        } else {
            isa.splat_f32(0.0)
        };
        let result = isa.select_f32(low, tail, quotient);
        isa.select_f32(isa.is_nan_f32(x), quiet(isa, x), result)
    } else {
        sigmoid_ordinary(isa, x)
    }
}

/// (log(1 + f) − f) / f² on [−1/3, 1/3], highest degree first; the last coefficient is fixed.
pub(super) const LOG: [f32; 9] = [
    -0.124_559_19,
    0.140_719_43,
    -0.122_772_47,
    0.139_883_16,
    -0.166_743_49,
    0.200_114_71,
    -0.249_999_2,
    0.333_331_97,
    -0.5,
];
const LN_2: f32 = std::f32::consts::LN_2;
/// Bits of 2/3, rounded up.
const TWO_THIRDS: i32 = 0x3f2a_aaab;

/// log of positive normal lanes, `exponent` powers of two to be added.
#[inline(always)]
fn log_normal<I: VectorOps>(isa: I, x: I::F32, exponent: I::F32) -> I::F32 {
    let bits = isa.bits_f32(x);
    let e = isa.and_i32(
        isa.sub_i32(bits, isa.splat_i32(TWO_THIRDS)),
        isa.splat_i32(0xff80_0000_u32 as i32),
    );
    let f = isa.sub_f32(isa.from_bits_f32(isa.sub_i32(bits, e)), isa.splat_f32(1.0));
    // e is a multiple of 2²³, so the conversion and the scaling are exact.
    let k = isa.fma_f32(isa.to_f32(e), isa.splat_f32(1.0 / 8388608.0), exponent);
    let q = polynomial(isa, f, &LOG);
    let r = isa.fma_f32(isa.mul_f32(f, f), q, f);
    isa.fma_f32(k, isa.splat_f32(LN_2), r)
}

/// Natural logarithm. Error below 1 ULP; log(±0) = −∞, log(∞) = ∞, NaN for negative x.
#[inline(always)]
pub fn log<I: VectorOps>(isa: I, x: I::F32) -> I::F32 {
    // Positive normal numbers are the 0x7f000000 bit patterns from 0x00800000 on: shifted so that they are the lowest
    // signed integers, all others compare greater.
    let bits = isa.bits_f32(x);
    let shifted = isa.add_i32(bits, isa.splat_i32(0x7f80_0000));
    let last = isa.splat_i32(0xfeff_ffff_u32 as i32);
    if isa.any_m32(isa.lt_i32(last, shifted)) {
        log_full(isa, x)
    } else {
        log_normal(isa, x, isa.splat_f32(0.0))
    }
}

/// As [`log`], for every lane.
#[inline(always)]
fn log_full<I: VectorOps>(isa: I, x: I::F32) -> I::F32 {
    let bits = isa.bits_f32(x);
    let zero = isa.splat_i32(0);
    let not_positive = isa.lt_i32(bits, isa.splat_i32(1));
    let below_normal = isa.lt_i32(bits, isa.splat_i32(0x0080_0000));
    let denormal = isa.and_m32(below_normal, isa.not_m32(not_positive));
    let beyond = isa.lt_i32(isa.splat_i32(0x7f7f_ffff), bits);
    let special = isa.or_m32(not_positive, beyond);

    // The bits of a denormal as an integer are its value in units of 2⁻¹⁴⁹.
    let integer = isa.to_f32(bits);
    let one = isa.splat_f32(1.0);
    let ordinary = isa.select_f32(special, one, isa.select_f32(denormal, integer, x));
    let exponent = isa.select_f32(denormal, isa.splat_f32(-149.0), isa.splat_f32(0.0));
    let result = log_normal(isa, ordinary, exponent);

    let nan = isa.from_bits_f32(isa.splat_i32(0x7fc0_0000));
    let result = isa.select_f32(isa.lt_i32(bits, zero), nan, result);
    let is_zero = isa.eq_f32(x, isa.splat_f32(0.0));
    let result = isa.select_f32(is_zero, isa.splat_f32(f32::NEG_INFINITY), result);
    let is_infinite = isa.eq_f32(x, isa.splat_f32(f32::INFINITY));
    let result = isa.select_f32(is_infinite, x, result);
    isa.select_f32(isa.is_nan_f32(x), quiet(isa, x), result)
}
