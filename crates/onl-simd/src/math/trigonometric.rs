//! Sine and cosine of `f32`.

use super::exponential::ROUND;
use super::{any_outside, lanes_f32, polynomial, quiet, spill_f32};
use crate::{MAXIMUM_F32_LANES, VectorOps};

/// Largest |x| that the vector reduction takes: a multiple of π/2 below it has an exact product with [`HALF_PI_HIGH`]'s
/// error terms.
const LIMIT: f32 = 32768.0;
const TWO_OVER_PI: f32 = std::f32::consts::FRAC_2_PI;
/// π/2 = high − middle − low.
const HALF_PI_HIGH: f32 = std::f32::consts::FRAC_PI_2;
const HALF_PI_MIDDLE: f32 = 4.371_139e-8;
const HALF_PI_LOW: f32 = 1.715_124_9e-15;
/// (sin r − r) / r³ in r² on ±π/4, highest degree first.
const SIN: [f32; 3] = [-0.000_195_180_94, 0.008_332_188, -0.166_666_55];
/// (cos r − 1) / r² in r² on ±π/4, highest degree first; the last coefficient is fixed.
const COS: [f32; 4] = [2.443_232_7e-5, -0.001_388_731, 0.041_666_646, -0.5];

/// x = n π/2 + r + l with |r| ≤ π/4: the quadrant n (in its low bits), r and its correction l.
struct Reduced<I: VectorOps> {
    quadrant: I::I32,
    r: I::F32,
    l: I::F32,
}

/// Reduction for |x| ≤ [`LIMIT`].
#[inline(always)]
fn reduce<I: VectorOps>(isa: I, x: I::F32) -> Reduced<I> {
    let sum = isa.fma_f32(x, isa.splat_f32(TWO_OVER_PI), isa.splat_f32(ROUND));
    let n = isa.sub_f32(sum, isa.splat_f32(ROUND));
    // Exact: x lies within π/4 of n times the constant.
    let first = isa.fma_f32(n, isa.splat_f32(-HALF_PI_HIGH), x);
    let middle = isa.splat_f32(HALF_PI_MIDDLE);
    let p = isa.mul_f32(n, middle);
    let p_error = isa.fma_f32(n, middle, isa.neg_f32(p));
    // Two-sum of the parts, so that arguments near a multiple of π/2 keep relative accuracy.
    let r = isa.add_f32(first, p);
    let b = isa.sub_f32(r, first);
    let l = isa.add_f32(isa.sub_f32(first, isa.sub_f32(r, b)), isa.sub_f32(p, b));
    let l = isa.add_f32(l, p_error);
    let l = isa.fma_f32(n, isa.splat_f32(HALF_PI_LOW), l);
    Reduced {
        quadrant: isa.bits_f32(sum),
        r,
        l,
    }
}

/// 2/π as a fixed-point number: 32 bits before the point, 224 after.
const TWO_OVER_PI_WORDS: [u32; 8] = [
    0,
    0xa2f9_836e,
    0x4e44_1529,
    0xfc27_57d1,
    0xf534_ddc0,
    0xdb62_9599,
    0x3c43_9041,
    0xfe51_63ab,
];

/// Reduction of finite |x| > [`LIMIT`] (Payne and Hanek): of the product of the mantissa with 2/π only the 96 bits that
/// can matter are formed; those above are multiples of four quadrants.
fn reduce_large(x: f32) -> (i32, f32, f32) {
    let bits = x.to_bits();
    let mantissa = u64::from((bits & 0x007f_ffff) | 0x0080_0000);
    let offset = ((bits >> 23) & 0xff) - 120;
    let (word, shift) = ((offset / 32) as usize, offset % 32);
    let part = |index: usize| -> u64 {
        let pair = u64::from(TWO_OVER_PI_WORDS[word + index]) << 32
            | u64::from(TWO_OVER_PI_WORDS[word + index + 1]);
        (pair << shift) >> 32
    };
    let product = (mantissa.wrapping_mul(part(0)) << 32)
        .wrapping_add(mantissa * part(1))
        .wrapping_add((mantissa * part(2)) >> 32);
    // The two leading bits count quadrants; the nearest one leaves a signed rest.
    let n = product.wrapping_add(1 << 61) >> 62;
    let rest = product.wrapping_sub(n << 62) as i64;
    let rest = rest as f64 * (std::f64::consts::FRAC_PI_2 / 4611686018427387904.0);
    let r = rest as f32;
    let l = (rest - f64::from(r)) as f32;
    if x < 0.0 {
        (-(n as i32), -r, -l)
    } else {
        (n as i32, r, l)
    }
}

/// Replaces what [`reduce`] gave in lanes beyond [`LIMIT`].
#[cold]
#[inline(never)]
fn replace_large(
    x: &[f32; MAXIMUM_F32_LANES],
    quadrant: &mut [f32; MAXIMUM_F32_LANES],
    r: &mut [f32; MAXIMUM_F32_LANES],
    l: &mut [f32; MAXIMUM_F32_LANES],
    lanes: usize,
) {
    for lane in 0..lanes {
        if x[lane].is_finite() && x[lane].abs() > LIMIT {
            let (n, high, low) = reduce_large(x[lane]);
            quadrant[lane] = f32::from_bits(n as u32);
            r[lane] = high;
            l[lane] = low;
        }
    }
}

/// Reduction of every finite lane.
#[inline(always)]
fn reduce_full<I: VectorOps>(isa: I, x: I::F32) -> Reduced<I> {
    let ordinary = reduce(isa, x);
    let mut quadrant = spill_f32(isa, isa.from_bits_f32(ordinary.quadrant));
    let mut r = spill_f32(isa, ordinary.r);
    let mut l = spill_f32(isa, ordinary.l);
    let lanes = I::F32_LANES;
    replace_large(&spill_f32(isa, x), &mut quadrant, &mut r, &mut l, lanes);
    Reduced {
        quadrant: isa.bits_f32(lanes_f32(isa, &quadrant)),
        r: lanes_f32(isa, &r),
        l: lanes_f32(isa, &l),
    }
}

/// sin(r + l) and cos(r + l).
#[inline(always)]
fn sine_and_cosine<I: VectorOps>(isa: I, r: I::F32, l: I::F32) -> (I::F32, I::F32) {
    let u = isa.mul_f32(r, r);
    let s = polynomial(isa, u, &SIN);
    let s = isa.add_f32(r, isa.fma_f32(isa.mul_f32(r, u), s, l));
    let c = polynomial(isa, u, &COS);
    let correction = isa.neg_f32(isa.mul_f32(r, l));
    let c = isa.add_f32(isa.splat_f32(1.0), isa.fma_f32(u, c, correction));
    (s, c)
}

/// sin(n π/2 + r + l).
#[inline(always)]
fn sine_of<I: VectorOps>(isa: I, quadrant: I::I32, r: I::F32, l: I::F32) -> I::F32 {
    let (s, c) = sine_and_cosine(isa, r, l);
    let one = isa.splat_i32(1);
    let odd = isa.eq_i32(isa.and_i32(quadrant, one), one);
    let value = isa.bits_f32(isa.select_f32(odd, c, s));
    let sign = isa.shl_i32::<30>(isa.and_i32(quadrant, isa.splat_i32(2)));
    isa.from_bits_f32(isa.xor_i32(value, sign))
}

/// NaN for infinite and NaN lanes of `x`, `result` elsewhere.
#[inline(always)]
fn of_finite<I: VectorOps>(isa: I, x: I::F32, result: I::F32) -> I::F32 {
    let infinite = isa.eq_f32(isa.abs_f32(x), isa.splat_f32(f32::INFINITY));
    let nan = isa.from_bits_f32(isa.splat_i32(0x7fc0_0000));
    let result = isa.select_f32(infinite, nan, result);
    isa.select_f32(isa.is_nan_f32(x), quiet(isa, x), result)
}

/// Whether |x| < 2⁻¹³, where sin(x) = tan(x) = x and cos(x) = 1; and x with those lanes cleared, whose squares might be
/// denormal.
#[inline(always)]
fn without_tiny<I: VectorOps>(isa: I, x: I::F32) -> (I::M32, I::F32) {
    let tiny = isa.lt_f32(isa.abs_f32(x), isa.splat_f32(1.0 / 8192.0));
    (tiny, isa.select_f32(tiny, isa.splat_f32(0.0), x))
}

/// Sine. Error below 1.2 ULP over all finite x; sin(±0) = ±0, NaN for infinite x.
#[inline(always)]
pub fn sin<I: VectorOps>(isa: I, x: I::F32) -> I::F32 {
    let (tiny, reducible) = without_tiny(isa, x);
    if any_outside(isa, x, LIMIT) {
        let Reduced { quadrant, r, l } = reduce_full(isa, reducible);
        let result = isa.select_f32(tiny, x, sine_of(isa, quadrant, r, l));
        of_finite(isa, x, result)
    } else {
        let Reduced { quadrant, r, l } = reduce(isa, reducible);
        isa.select_f32(tiny, x, sine_of(isa, quadrant, r, l))
    }
}

/// Cosine. Error below 1.2 ULP over all finite x; NaN for infinite x.
#[inline(always)]
pub fn cos<I: VectorOps>(isa: I, x: I::F32) -> I::F32 {
    let (_, reducible) = without_tiny(isa, x);
    if any_outside(isa, x, LIMIT) {
        let Reduced { quadrant, r, l } = reduce_full(isa, reducible);
        let quadrant = isa.add_i32(quadrant, isa.splat_i32(1));
        of_finite(isa, x, sine_of(isa, quadrant, r, l))
    } else {
        let Reduced { quadrant, r, l } = reduce(isa, reducible);
        let quadrant = isa.add_i32(quadrant, isa.splat_i32(1));
        sine_of(isa, quadrant, r, l)
    }
}

/// tan(n π/2 + r + l): s / c, or −c / s in odd quadrants.
#[inline(always)]
fn tangent_of<I: VectorOps>(isa: I, quadrant: I::I32, r: I::F32, l: I::F32) -> I::F32 {
    let (s, c) = sine_and_cosine(isa, r, l);
    let one = isa.splat_i32(1);
    let odd = isa.eq_i32(isa.and_i32(quadrant, one), one);
    let quotient = isa.div_f32(isa.select_f32(odd, c, s), isa.select_f32(odd, s, c));
    let sign = isa.shl_i32::<31>(quadrant);
    isa.from_bits_f32(isa.xor_i32(isa.bits_f32(quotient), sign))
}

/// Tangent. Error below 3 ULP over all finite x; tan(±0) = ±0, NaN for infinite x.
#[inline(always)]
pub fn tan<I: VectorOps>(isa: I, x: I::F32) -> I::F32 {
    let (tiny, reducible) = without_tiny(isa, x);
    if any_outside(isa, x, LIMIT) {
        let Reduced { quadrant, r, l } = reduce_full(isa, reducible);
        let result = isa.select_f32(tiny, x, tangent_of(isa, quadrant, r, l));
        of_finite(isa, x, result)
    } else {
        let Reduced { quadrant, r, l } = reduce(isa, reducible);
        isa.select_f32(tiny, x, tangent_of(isa, quadrant, r, l))
    }
}
