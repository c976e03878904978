//! Inputs and comparisons shared by the tests of vector code.
#![allow(dead_code)]

use onl_cpu::IsaTier;

/// Every tier of this processor except the reference.
pub fn vector_tiers() -> impl Iterator<Item = IsaTier> {
    IsaTier::available()
        .iter()
        .copied()
        .filter(|&tier| tier != IsaTier::Scalar)
}

/// Reproducible 64-bit patterns (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Any bit pattern.
    pub fn next_f32(&mut self) -> f32 {
        f32::from_bits((self.next_u64() >> 32) as u32)
    }

    /// Any bit pattern.
    pub fn next_f64(&mut self) -> f64 {
        f64::from_bits(self.next_u64())
    }

    /// Uniform in [low, high).
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * ((self.next_u64() >> 11) as f64 / 9007199254740992.0)
    }
}

/// Zeros, denormals, the ends of the normal range, infinities, quiet and signalling NaN, and the neighbours of every
/// bound that the functions compare with; both signs.
pub fn special_f32() -> Vec<f32> {
    let bounds = [
        0.0_f32,
        1e-30,
        1e-9,
        0.25,
        0.5,
        1.0,
        1.5,
        2.0,
        3.0,
        3.5,
        3.95,
        5.0,
        5.62,
        7.0,
        9.2,
        87.0,
        87.33,
        87.336,
        88.0,
        88.722_84,
        88.8,
        89.0,
        103.0,
        103.278_93,
        103.97,
        104.0,
        105.0,
        127.0,
        128.0,
        150.0,
        1e4,
        32768.0,
        65504.0,
        65519.0,
        65520.0,
        8388607.5,
        16777216.0,
        16777217.0,
        3e9,
        1e30,
        f32::MAX,
        f32::MIN_POSITIVE,
        f32::INFINITY,
        6.1e-5,
        5.96e-8,
        2.98e-8,
        0.000_244_140_63,
        2.0 / 3.0,
        4.0 / 3.0,
        std::f32::consts::FRAC_1_SQRT_2,
        std::f32::consts::SQRT_2,
        std::f32::consts::PI,
        std::f32::consts::FRAC_PI_2,
    ];
    let mut bits: Vec<u32> = vec![
        1,
        2,
        3,
        0x1234,
        0x0040_0000,
        0x007f_ffff,
        0x0080_0001,
        0x7f80_0001,
        0x7fa0_0000,
        0x7fbf_ffff,
        0x7fc0_0000,
        0x7fc1_2345,
        0x7fff_ffff,
        0x3f80_8000,
        0x3f81_8000,
        0x3f80_7fff,
        0x7f7f_8000,
        0x3f80_1000,
        0x3f80_3000,
    ];
    for bound in bounds {
        let b = bound.to_bits();
        bits.extend([
            b.wrapping_sub(2) & 0x7fff_ffff,
            b.wrapping_sub(1) & 0x7fff_ffff,
            b,
            b + 1,
            b + 2,
        ]);
    }
    bits.iter()
        .flat_map(|&b| [f32::from_bits(b), f32::from_bits(b | 0x8000_0000)])
        .collect()
}

/// As [`special_f32`], for `f64`.
pub fn special_f64() -> Vec<f64> {
    let bounds = [
        0.0,
        1e-300,
        1e-20,
        1.0,
        2.0,
        22.0,
        36.0,
        708.0,
        709.78,
        709.782_712_893_384,
        710.0,
        744.0,
        745.13,
        746.0,
        1e10,
        f64::MAX,
        f64::MIN_POSITIVE,
        f64::INFINITY,
        std::f64::consts::FRAC_1_SQRT_2,
        std::f64::consts::SQRT_2,
    ];
    let mut bits: Vec<u64> = vec![
        1,
        2,
        77,
        0x000f_ffff_ffff_ffff,
        0x7ff0_0000_0000_0001,
        0x7ff8_0000_0000_0000,
    ];
    for bound in bounds {
        let b = f64::to_bits(bound);
        bits.extend([b.wrapping_sub(1) & (u64::MAX >> 1), b, b + 1]);
    }
    bits.extend(special_f32().iter().map(|&x| f64::from(x).to_bits()));
    bits.iter()
        .flat_map(|&b| [f64::from_bits(b), f64::from_bits(b | 1 << 63)])
        .collect()
}

/// Equal bits, or both NaN.
pub fn same_f32(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

/// Equal bits, or both NaN.
pub fn same_f64(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

/// Distance of `got` from the nearly exact `expected` in units of the last place of an `f32` there; 0 where both
/// overflow, are NaN, or are the same infinity.
pub fn ulp_f32(got: f32, expected: f64) -> f64 {
    let rounded = expected as f32;
    if same_f32(got, rounded) {
        if got.is_nan() || got.is_infinite() {
            return 0.0;
        }
    } else if got.is_nan() || rounded.is_nan() || got.is_infinite() != rounded.is_infinite() {
        return f64::INFINITY;
    }
    let exponent = ((expected.abs().to_bits() >> 52) as i32 - 1023).max(-126);
    (f64::from(got) - expected).abs() / f64::powi(2.0, exponent - 23)
}

/// Distance in units of the last place between two doubles, the second correct to about one unit.
pub fn ulp_f64(got: f64, expected: f64) -> f64 {
    if same_f64(got, expected) {
        return 0.0;
    }
    if !got.is_finite() || !expected.is_finite() {
        return f64::INFINITY;
    }
    let ordered = |x: f64| {
        let bits = x.to_bits() as i64;
        if bits < 0 {
            i64::MIN.wrapping_sub(bits)
        } else {
            bits
        }
    };
    ordered(got).abs_diff(ordered(expected)) as f64
}
