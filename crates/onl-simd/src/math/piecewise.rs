//! Hyperbolic tangent, error function and Gaussian error linear unit of `f32`, as eight polynomial pieces.
//!
//! Each piece is value + t · P(t) with t = |x| − centre. Centres lie next to the nominal ones where the function's
//! value is very nearly a float, so that the value adds almost no error.

use super::{quiet, with_sign};
use crate::VectorOps;

/// Eight polynomials in |x| − centre: value + t · (slopes, highest degree first).
struct Pieces<const DEGREE: usize> {
    centre: [f32; 8],
    value: [f32; 8],
    slopes: [[f32; 8]; DEGREE],
}

impl<const DEGREE: usize> Pieces<DEGREE> {
    /// t and P(t) of the pieces `index & 7`.
    #[inline(always)]
    fn slope<I: VectorOps>(&self, isa: I, magnitude: I::F32, index: I::I32) -> (I::F32, I::F32) {
        let t = isa.sub_f32(magnitude, isa.lookup8_f32(&self.centre, index));
        let mut slope = isa.lookup8_f32(&self.slopes[0], index);
        for degree in 1..DEGREE {
            slope = isa.fma_f32(slope, t, isa.lookup8_f32(&self.slopes[degree], index));
        }
        (t, slope)
    }

    #[inline(always)]
    fn value<I: VectorOps>(&self, isa: I, index: I::I32) -> I::F32 {
        isa.lookup8_f32(&self.value, index)
    }
}

/// Pieces between 0, 0.5, 1, 2, 3, 5, 7 and 9.2, rotated by six (the last piece stands twice); the first lacks its
/// term of degree one, 1, which is added apart.
const TANH: Pieces<8> = Pieces {
    centre: [
        1.500_016_6,
        2.499_981_6,
        4.000_021_5,
        6.000_394,
        8.103_814,
        8.103_814,
        0.0,
        0.750_006_4,
    ],
    value: [
        0.905_151_25,
        0.986_613_8,
        0.999_329_3,
        0.999_987_7,
        0.999_999_8,
        0.999_999_8,
        0.0,
        0.635_152_76,
    ],
    slopes: [
        [
            0.000_791_215_2,
            4.727_773_2e-5,
            -4.193_706_4e-6,
            -8.342_812e-8,
            5.249_629_7e-8,
            5.249_629_7e-8,
            0.027_890_906,
            -0.009_832_405,
        ],
        [
            -0.003_820_232_8,
            6.083_354_7e-5,
            1.811_226_1e-5,
            3.526_744_5e-7,
            6.320_212e-9,
            6.320_212e-9,
            -0.070_639_49,
            0.021_213_373,
        ],
        [
            0.007_144_183,
            -0.000_721_678_6,
            -5.811_312_4e-5,
            -1.090_776_7e-6,
            -1.626_162e-7,
            -1.626_162e-7,
            0.005_600_269_4,
            -0.001_020_199_3,
        ],
        [
            -0.002_688_162_3,
            0.002_860_965,
            0.000_175_632_38,
            3.242_309_7e-6,
            4.639_072e-8,
            4.639_072e-8,
            0.132_245,
            -0.064_006_016,
        ],
        [
            -0.024_969_308,
            -0.008_047_781,
            -0.000_444_949_05,
            -8.182_045e-6,
            1.100_496_6e-8,
            1.100_496_6e-8,
            0.000_117_218_23,
            0.099_750_05,
        ],
        [
            0.087_816_6,
            0.017_021_336,
            0.000_892_508_8,
            1.637_966e-5,
            2.449_115_5e-7,
            2.449_115_5e-7,
            -0.333_339_48,
            0.041_810_96,
        ],
        [
            -0.163_561_8,
            -0.026_237_218,
            -0.001_339_985_6,
            -2.455_817e-5,
            -4.104_395_3e-7,
            -4.104_395_3e-7,
            1.116_503e-7,
            -0.378_920_05,
        ],
        [
            0.180_701_18,
            0.026_593_195,
            0.001_340_864_8,
            2.455_653_2e-5,
            3.656_193_1e-7,
            3.656_193_1e-7,
            0.0,
            0.596_581,
        ],
    ],
};

/// Pieces around the multiples of 1/2; the first has its coefficient of degree one less 1, which is added apart.
const ERF: Pieces<7> = Pieces {
    centre: [
        0.0,
        0.499_999_94,
        0.999_999_1,
        1.499_977_6,
        1.999_986_6,
        2.499_987,
        2.999_837,
        3.500_953_4,
    ],
    value: [
        0.0,
        0.520_499_8,
        0.842_700_4,
        0.966_102_5,
        0.995_322,
        0.999_593,
        0.999_977_9,
        0.999_999_3,
    ],
    slopes: [
        [
            -0.025_746_526,
            0.004_799_632_4,
            0.015_081_757,
            -0.004_442_912,
            -0.003_390_261,
            0.000_504_846_1,
            0.000_392_375_66,
            0.000_569_890_4,
        ],
        [
            -5.565_056_2e-5,
            -0.048_858_16,
            0.004_046_155_6,
            0.019_047_357,
            0.000_649_474_5,
            -0.002_768_847_9,
            -0.000_750_641_2,
            -0.000_430_676,
        ],
        [
            0.112_722_1,
            0.007_364_567,
            -0.069_194_29,
            -0.014_887_329,
            0.013_089_966,
            0.006_119_504,
            0.001_017_200_1,
            5.253_52e-5,
        ],
        [
            2.939_121_6e-5,
            0.183_037_43,
            0.069_205_515,
            -0.044_587_42,
            -0.034_452_792,
            -0.008_623_682,
            -0.001_045_074,
            -1.964_771_4e-5,
        ],
        [
            -0.376_129_12,
            -0.146_464_56,
            0.138_369_46,
            0.138_756_45,
            0.048_224_777,
            0.008_350_503,
            0.000_789_783_43,
            4.126_026e-5,
        ],
        [
            9.864_194e-8,
            -0.439_390_84,
            -0.415_108_08,
            -0.178_404_85,
            -0.041_335_83,
            -0.005_446_035_4,
            -0.000_418_137_93,
            -2.078_214_9e-5,
        ],
        [
            0.128_379_17,
            0.878_782_63,
            0.415_108_23,
            0.118_938_28,
            0.020_668_09,
            0.002_178_427_3,
            0.000_139_389_36,
            5.395_481_4e-6,
        ],
    ],
};

/// Pieces of h(a) = a · erfc(a / √2) / 2 around the multiples of 3/4.
const GELU: Pieces<8> = Pieces {
    centre: [
        0.0,
        0.749_997_56,
        1.499_982_4,
        2.250_177_6,
        3.000_014,
        3.749_992_1,
        4.499_993_3,
        5.249_872,
    ],
    value: [
        0.0,
        0.169_970_51,
        0.100_213_05,
        0.027_494_552,
        0.004_049_526,
        0.000_331_574_53,
        1.528_998_7e-5,
        3.995_277_8e-7,
    ],
    slopes: [
        [
            0.000_828_899_1,
            -0.000_539_144_5,
            -0.000_269_252_43,
            0.000_335_878_78,
            -4.501_926_7e-5,
            -2.897_489_5e-5,
            3.861_547e-6,
            1.339_741_9e-6,
        ],
        [
            0.000_409_147_44,
            0.002_703_399_6,
            -0.001_434_508_4,
            -0.000_414_344_1,
            0.000_356_078_85,
            2.211_906_2e-5,
            -2.113_343_2e-5,
            -3.260_923e-6,
        ],
        [
            -0.010_174_506,
            0.002_424_341_6,
            0.004_875_164,
            -0.001_770_757_6,
            -0.000_775_194_96,
            0.000_154_369_93,
            6.124_537e-5,
            5.832_056_6e-6,
        ],
        [
            5.148_031_8e-5,
            -0.022_819_48,
            0.002_726_267_6,
            0.007_176_709,
            7.957_197e-7,
            -0.000_673_150_35,
            -0.000_123_081_22,
            -8.561_146e-6,
        ],
        [
            0.066_483_36,
            0.004_754_673_7,
            -0.036_089_182,
            -0.007_675_265_4,
            0.004_062_48,
            0.001_517_930_1,
            0.000_181_359_84,
            9.823_707e-6,
        ],
        [
            4.668_527_5e-7,
            0.129_394_6,
            0.056_666_628,
            -0.012_651_851,
            -0.011_079_428,
            -0.002_217_536,
            -0.000_194_806_01,
            -8.517_31e-6,
        ],
        [
            -0.398_942_3,
            -0.216_443_48,
            0.016_186_686,
            0.048_594_598,
            0.015_511_003,
            0.002_126_644_4,
            0.000_145_855_56,
            5.279_964e-6,
        ],
        [
            0.5,
            0.000_775_339_8,
            -0.127_469_76,
            -0.059_172_478,
            -0.011_945_21,
            -0.001_233_85,
            -6.853_112e-5,
            -2.092_741e-6,
        ],
    ],
};

/// Below it tanh(x) = x in f32.
const TANH_LINEAR: f32 = 1e-9;

#[inline(always)]
fn tanh_magnitude<I: VectorOps>(isa: I, magnitude: I::F32) -> I::F32 {
    let a = isa.min_f32(magnitude, isa.splat_f32(9.2));
    // The exponent and leading mantissa bit of 1 + a count the pieces, from 6 (mod 8).
    let sum = isa.add_f32(a, isa.splat_f32(1.0));
    let index = isa.shr_i32::<22>(isa.bits_f32(sum));
    let (t, slope) = TANH.slope(isa, a, index);
    let first = isa.lt_f32(sum, isa.splat_f32(1.5));
    let base = isa.select_f32(first, t, TANH.value(isa, index));
    isa.fma_f32(t, slope, base)
}

/// Hyperbolic tangent. Error below 0.8 ULP, never beyond ±1; tanh(±0) = ±0, tanh(±∞) = ±1.
#[inline(always)]
pub fn tanh<I: VectorOps>(isa: I, x: I::F32) -> I::F32 {
    let magnitude = isa.abs_f32(x);
    let bound = isa.splat_f32(TANH_LINEAR);
    let ordinary = isa.le_f32(bound, magnitude);
    if isa.any_m32(isa.not_m32(ordinary)) {
        // Tiny, zero or NaN lanes; the others take the value that they would have among ordinary ones.
        let result = with_sign(isa, tanh_magnitude(isa, isa.max_f32(magnitude, bound)), x);
        let result = isa.select_f32(ordinary, result, x);
        isa.select_f32(isa.is_nan_f32(x), quiet(isa, x), result)
    } else {
        with_sign(isa, tanh_magnitude(isa, magnitude), x)
    }
}

/// 2 / √π − 1.
const TWO_OVER_SQRT_PI_LESS_1: f32 = 0.128_379_17;
/// Below it erf(x) = 2 x / √π in f32.
const ERF_LINEAR: f32 = 1e-30;

#[inline(always)]
fn erf_magnitude<I: VectorOps>(isa: I, magnitude: I::F32) -> I::F32 {
    // Around 2²² floats are the multiples of 1/2: the sum rounds to a piece, counted by its lowest bits.
    let a = isa.min_f32(magnitude, isa.splat_f32(3.95));
    let sum = isa.add_f32(a, isa.splat_f32(4194304.0));
    let index = isa.bits_f32(isa.min_f32(sum, isa.splat_f32(4194307.5)));
    let (t, slope) = ERF.slope(isa, a, index);
    // 0.25 lies halfway and rounds to even, the first piece.
    let first = isa.le_f32(a, isa.splat_f32(0.25));
    let base = isa.select_f32(first, t, ERF.value(isa, index));
    isa.fma_f32(t, slope, base)
}

/// Error function. Error below 0.9 ULP, never beyond ±1; erf(±0) = ±0, erf(±∞) = ±1.
#[inline(always)]
pub fn erf<I: VectorOps>(isa: I, x: I::F32) -> I::F32 {
    let magnitude = isa.abs_f32(x);
    let bound = isa.splat_f32(ERF_LINEAR);
    let ordinary = isa.le_f32(bound, magnitude);
    if isa.any_m32(isa.not_m32(ordinary)) {
        let result = with_sign(isa, erf_magnitude(isa, isa.max_f32(magnitude, bound)), x);
        let linear = isa.fma_f32(x, isa.splat_f32(TWO_OVER_SQRT_PI_LESS_1), x);
        let result = isa.select_f32(ordinary, result, linear);
        isa.select_f32(isa.is_nan_f32(x), quiet(isa, x), result)
    } else {
        with_sign(isa, erf_magnitude(isa, magnitude), x)
    }
}

/// Beyond it h is taken as 0.
const GELU_END: f32 = 5.62;
/// Below it gelu(x) = x / 2 in f32.
const GELU_LINEAR: f32 = 1e-30;

/// max(0, x) − h(`magnitude`).
#[inline(always)]
fn gelu_of<I: VectorOps>(isa: I, x: I::F32, magnitude: I::F32) -> I::F32 {
    let zero = isa.splat_f32(0.0);
    let end = isa.splat_f32(GELU_END);
    let a = isa.min_f32(magnitude, end);
    let sum = isa.fma_f32(
        a,
        isa.splat_f32(4.0 / 3.0),
        isa.splat_f32(super::exponential::ROUND),
    );
    let index = isa.bits_f32(sum);
    let (t, slope) = GELU.slope(isa, a, index);
    let h = isa.fma_f32(t, slope, GELU.value(isa, index));
    let h = isa.select_f32(isa.lt_f32(a, end), h, zero);
    isa.sub_f32(isa.max_f32(x, zero), h)
}

/// Gaussian error linear unit x Φ(x) = x (1 + erf(x / √2)) / 2 (Hendrycks and Gimpel; ONNX `Gelu`, `approximate` =
/// `none`).
///
/// Error below 1.2 ULP for positive x and 1.5 ULP down to −3; below that the absolute error stays under 3e-10 down to
/// −5.6, and the result is 0 from −5.62 on (6e-8 at most). gelu(±0) = ±0, gelu(−∞) = 0, gelu(∞) = ∞.
#[inline(always)]
pub fn gelu<I: VectorOps>(isa: I, x: I::F32) -> I::F32 {
    let magnitude = isa.abs_f32(x);
    let bound = isa.splat_f32(GELU_LINEAR);
    let ordinary = isa.le_f32(bound, magnitude);
    if isa.any_m32(isa.not_m32(ordinary)) {
        // A tiny lane must stay out of the subtraction too: it would produce a denormal.
        let replaced = isa.select_f32(ordinary, x, bound);
        let result = gelu_of(isa, replaced, isa.abs_f32(replaced));
        let linear = isa.mul_f32(x, isa.splat_f32(0.5));
        let result = isa.select_f32(ordinary, result, linear);
        isa.select_f32(isa.is_nan_f32(x), quiet(isa, x), result)
    } else {
        gelu_of(isa, x, magnitude)
    }
}
