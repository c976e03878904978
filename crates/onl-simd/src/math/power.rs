//! Powers of `f32`, through `f64`.

use super::{lanes_f32, polynomial_f64, spill_f32};
use crate::{MAXIMUM_F32_LANES, Scalar, VectorOps};

/// log2(1 + f) / f on [√½ − 1, √2 − 1], highest degree first.
pub(super) const LOG2: [f64; 13] = [
    0.077_368_865_600_350_61,
    -0.142_838_708_421_885_87,
    0.144_748_905_868_769_12,
    -0.143_156_623_752_155_65,
    0.158_769_744_382_140_7,
    -0.180_300_586_627_955_06,
    0.206_175_363_093_853_68,
    -0.240_453_166_064_893_14,
    0.288_537_293_369_816_9,
    -0.360_673_674_827_989_23,
    0.480_898_361_395_921,
    -0.721_347_520_868_589_8,
    1.442_695_040_868_709_4,
];
/// 2ʳ on ±½, highest degree first.
const EXP2: [f64; 7] = [
    0.000_153_458_136_001_480_3,
    0.001_339_995_822_511_031_1,
    0.009_618_489_147_456_628,
    0.055_503_287_096_326_43,
    0.240_226_468_872_747_6,
    0.693_147_205_769_563_5,
    1.000_000_000_554_578,
];
/// 1.5 · 2⁵²: adding it rounds a small double to an integer that stands in the low bits of the sum.
const ROUND: f64 = 6755399441055744.0;
/// Bits of √½, rounded down.
const SQRT_HALF: i32 = 0x3f35_04f3;

/// (m 2ᵏ)ʸ from f = m − 1, k and y in double precision; before narrowing.
#[inline(always)]
fn power_of_parts<I: VectorOps>(isa: I, f: I::F64, k: I::F64, y: I::F64) -> I::F64 {
    let logarithm = isa.fma_f64(f, polynomial_f64(isa, f, &LOG2), k);
    let z = isa.mul_f64(y, logarithm);
    // Beyond these the narrowed result is 0 or infinity.
    let z = isa.max_f64(isa.min_f64(z, isa.splat_f64(130.0)), isa.splat_f64(-152.0));
    let sum = isa.add_f64(z, isa.splat_f64(ROUND));
    let r = isa.sub_f64(z, isa.sub_f64(sum, isa.splat_f64(ROUND)));
    let p = polynomial_f64(isa, r, &EXP2);
    let scaled = isa.add_i64(isa.bits_f64(p), isa.shl_i64::<52>(isa.bits_f64(sum)));
    isa.from_bits_f64(scaled)
}

/// Splits a positive normal x = m 2ᵏ, m in [√½, √2): m − 1 and k, both exact.
#[inline(always)]
fn split<I: VectorOps>(isa: I, x: I::F32) -> (I::F32, I::F32) {
    let bits = isa.bits_f32(x);
    let e = isa.and_i32(
        isa.sub_i32(bits, isa.splat_i32(SQRT_HALF)),
        isa.splat_i32(0xff80_0000_u32 as i32),
    );
    let f = isa.sub_f32(isa.from_bits_f32(isa.sub_i32(bits, e)), isa.splat_f32(1.0));
    let k = isa.mul_f32(isa.to_f32(e), isa.splat_f32(1.0 / 8388608.0));
    (f, k)
}

/// `power` = |x|ʸ with the sign that an ordinary negative x gives it: negative for odd y, NaN for y that is no integer.
#[inline(always)]
fn with_sign_of_power<I: VectorOps>(isa: I, x: I::F32, y: I::F32, power: I::F32) -> I::F32 {
    // Below 2²³ the sum with 2²³ is y rounded to an integer, with its parity in the lowest bit; from 2²³ on y is an
    // integer that holds its own parity there, and from 2²⁴ on it is even.
    let two_23 = isa.splat_f32(8388608.0);
    let magnitude = isa.abs_f32(y);
    let small = isa.lt_f32(magnitude, two_23);
    let sum = isa.add_f32(magnitude, two_23);
    let exact = isa.eq_f32(isa.sub_f32(sum, two_23), magnitude);
    let integer = isa.or_m32(isa.not_m32(small), exact);
    let parity = isa.bits_f32(isa.select_f32(small, sum, magnitude));
    let below_two_24 = isa.lt_f32(magnitude, isa.splat_f32(16777216.0));
    let sign = isa.select_i32(below_two_24, isa.shl_i32::<31>(parity), isa.splat_i32(0));
    let signed = isa.from_bits_f32(isa.xor_i32(isa.bits_f32(power), sign));
    let nan = isa.from_bits_f32(isa.splat_i32(0x7fc0_0000));
    let negative = isa.lt_f32(x, isa.splat_f32(0.0));
    isa.select_f32(negative, isa.select_f32(integer, signed, nan), power)
}

/// xʸ. Error below 0.6 ULP, denormal results included; zeros, infinities, negative x and NaN as C99 F.9.4.4.
#[inline(always)]
pub fn pow<I: VectorOps>(isa: I, x: I::F32, y: I::F32) -> I::F32 {
    let magnitude = isa.abs_f32(x);
    let (f, k) = split(isa, magnitude);
    let (f_low, f_high) = isa.widen_f64(f);
    let (k_low, k_high) = isa.widen_f64(k);
    let (y_low, y_high) = isa.widen_f64(y);
    let power = isa.narrow_f64(
        power_of_parts(isa, f_low, k_low, y_low),
        power_of_parts(isa, f_high, k_high, y_high),
    );
    let least = isa.splat_f32(f32::MIN_POSITIVE);
    let maximum = isa.splat_f32(f32::MAX);
    let finite = isa.and_m32(
        isa.le_f32(magnitude, maximum),
        isa.le_f32(isa.abs_f32(y), maximum),
    );
    let common = isa.and_m32(finite, isa.le_f32(least, x));
    if !isa.any_m32(isa.not_m32(common)) {
        return power;
    }
    let signed = with_sign_of_power(isa, x, y, power);
    let ordinary = isa.and_m32(finite, isa.le_f32(least, magnitude));
    if !isa.any_m32(isa.not_m32(ordinary)) {
        return signed;
    }
    let mut lanes = spill_f32(isa, signed);
    replace_special(
        &spill_f32(isa, x),
        &spill_f32(isa, y),
        &mut lanes,
        I::F32_LANES,
    );
    lanes_f32(isa, &lanes)
}

/// Gives the lanes whose base is not finite and normal, or whose exponent is not finite, their value.
#[cold]
#[inline(never)]
fn replace_special(
    x: &[f32; MAXIMUM_F32_LANES],
    y: &[f32; MAXIMUM_F32_LANES],
    result: &mut [f32; MAXIMUM_F32_LANES],
    lanes: usize,
) {
    for lane in 0..lanes {
        let (x, y) = (x[lane], y[lane]);
        if !x.is_normal() || !y.is_finite() {
            result[lane] = pow_special(x, y);
        }
    }
}

/// Whether y is an integer, and an odd one.
fn parity(y: f32) -> (bool, bool) {
    // From 2²⁴ on every float is an even integer.
    let integer = y.trunc() == y;
    let odd = integer && y.abs() < 16777216.0 && (y as i32) & 1 != 0;
    (integer, odd)
}

fn pow_special(x: f32, y: f32) -> f32 {
    if y == 0.0 || x == 1.0 {
        return 1.0;
    }
    if x.is_nan() || y.is_nan() {
        let nan = if x.is_nan() { x } else { y };
        return f32::from_bits(nan.to_bits() | 0x0040_0000);
    }
    let magnitude = x.abs();
    if y.is_infinite() {
        return if magnitude == 1.0 {
            1.0
        } else if (magnitude > 1.0) == (y > 0.0) {
            f32::INFINITY
        } else {
            0.0
        };
    }
    let (integer, odd) = parity(y);
    let negative = x.is_sign_negative() && odd;
    let unsigned = if magnitude == 0.0 || magnitude.is_infinite() {
        if (magnitude == 0.0) == (y < 0.0) {
            f32::INFINITY
        } else {
            0.0
        }
    } else if x < 0.0 && !integer {
        return f32::from_bits(0x7fc0_0000);
    } else {
        // The bits of a denormal as an integer are its value in units of 2⁻¹⁴⁹.
        let (normal, exponent) = if magnitude < f32::MIN_POSITIVE {
            (magnitude.to_bits() as f32, -149.0)
        } else {
            (magnitude, 0.0)
        };
        let isa = Scalar::new();
        let (f, k) = split(isa, normal);
        power_of_parts(isa, f64::from(f), f64::from(k) + exponent, f64::from(y)) as f32
    };
    if negative { -unsigned } else { unsigned }
}
