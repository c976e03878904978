//! Scalar operations. Integer arithmetic wraps.

use crate::body::{Configured, Map1, Map2, Parameters, without_attributes};
use onl_tensor::Bool;

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        $($(#[$doc])* #[derive(Debug, Clone, Copy, Default)] pub(crate) struct $name;)*
        without_attributes!($($name),*);
    };
}

macro_rules! parametric {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        $($(#[$doc])* #[derive(Debug, Clone, Copy)] pub(crate) struct $name(Parameters);

        impl Configured for $name {
            #[inline(always)]
            fn with(parameters: Parameters) -> Self { $name(parameters) }
        })*
    };
}

macro_rules! map1 {
    ($name:ty: $($t:ty),*; |$self:ident, $a:ident| $body:expr) => {
        $(impl Map1<$t, $t> for $name {
            #[inline(always)]
            fn apply($self, $a: $t) -> $t { $body }
        })*
    };
    ($name:ty: $($t:ty),*; |$a:ident| $body:expr) => {
        $(impl Map1<$t, $t> for $name {
            #[inline(always)]
            fn apply(self, $a: $t) -> $t { $body }
        })*
    };
}

macro_rules! map2 {
    ($name:ty: $($t:ty),*; |$a:ident, $b:ident| $body:expr) => {
        $(impl Map2<$t, $t> for $name {
            #[inline(always)]
            fn apply(self, $a: $t, $b: $t) -> $t { $body }
        })*
    };
}

macro_rules! test1 {
    ($name:ty: $($t:ty),*; |$a:ident| $body:expr) => {
        $(impl Map1<$t, Bool> for $name {
            #[inline(always)]
            fn apply(self, $a: $t) -> Bool { Bool::from($body) }
        })*
    };
}

macro_rules! test2 {
    ($name:ty: $($t:ty),*; |$a:ident, $b:ident| $body:expr) => {
        $(impl Map2<$t, Bool> for $name {
            #[inline(always)]
            fn apply(self, $a: $t, $b: $t) -> Bool { Bool::from($body) }
        })*
    };
}

operations! {
    Abs, Neg, Floor, Ceil,
    /// To the nearest integer, halves to the even one.
    Round,
    Sqrt, Reciprocal, Relu, Sign, IsNan,
    /// x / (1 + |x|), with the limits ±1.
    Softsign,
    /// x · min(max(x + 3, 0), 6) / 6, with the limit −0.
    HardSwish,
    /// The error function of an integer, truncated.
    ErfTruncated,
    /// All bits flipped.
    BitNot,
    /// The lowest bit flipped: the negation of a boolean that is stored as 0 or 1.
    Not,
    /// Sign bit of a 16-bit float cleared.
    HalfAbs,
    /// Sign bit of a 16-bit float flipped.
    HalfNeg,
    Add, Sub, Mul, Div,
    /// Remainder with the sign of the divisor.
    ModFloor,
    /// Remainder with the sign of the dividend.
    ModTruncated,
    /// The smaller operand; NaN when either is NaN.
    Min,
    /// The larger operand; NaN when either is NaN.
    Max,
    Equal, Less, LessOrEqual,
    And, Or, Xor, ShiftLeft, ShiftRight,
    /// a, or a · b where a is negative.
    PRelu,
}

parametric! {
    /// x, or α x where x is negative.
    LeakyRelu,
    /// x where it is above α, 0 elsewhere.
    ThresholdedRelu,
    /// min(max(α x + β, 0), 1), the sum fused.
    HardSigmoid,
    /// x + β below −α, x − β above α, 0 elsewhere.
    Shrink,
}

/// Whether a float is infinite with one of the admitted signs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct IsInf<const NEGATIVE: bool, const POSITIVE: bool>;

impl<const NEGATIVE: bool, const POSITIVE: bool> Configured for IsInf<NEGATIVE, POSITIVE> {
    #[inline(always)]
    fn with(_: Parameters) -> Self {
        Self
    }
}

/// max(x, 0) of a 16-bit float by its bits, those of −∞ being `LOWEST`; NaN stays NaN.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HalfRelu<const LOWEST: u16>;

impl<const LOWEST: u16> Configured for HalfRelu<LOWEST> {
    #[inline(always)]
    fn with(_: Parameters) -> Self {
        Self
    }
}

impl<const LOWEST: u16> Map1<u16, u16> for HalfRelu<LOWEST> {
    #[inline(always)]
    fn apply(self, a: u16) -> u16 {
        if (0x8000..=LOWEST).contains(&a) { 0 } else { a }
    }
}

/// Whether the bits of a small float, those of `MASK` alone, lie from `LOW` to `HIGH`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BitsWithin<const MASK: u16, const LOW: u16, const HIGH: u16>;

impl<const MASK: u16, const LOW: u16, const HIGH: u16> Configured for BitsWithin<MASK, LOW, HIGH> {
    #[inline(always)]
    fn with(_: Parameters) -> Self {
        Self
    }
}

macro_rules! bits_within {
    ($($t:ty),*) => {
        $(impl<const MASK: u16, const LOW: u16, const HIGH: u16> Map1<$t, Bool> for BitsWithin<MASK, LOW, HIGH> {
            #[inline(always)]
            fn apply(self, a: $t) -> Bool {
                let bits = a & MASK as $t;
                Bool::from((LOW as $t..=HIGH as $t).contains(&bits))
            }
        })*
    };
}

bits_within!(u8, u16);

map1!(Abs: f32, f64; |a| a.abs());
map1!(Abs: i8, i16, i32, i64; |a| a.wrapping_abs());
map1!(Abs: u8, u16, u32, u64; |a| a);
map1!(Neg: f32, f64; |a| -a);
map1!(Neg: i8, i16, i32, i64; |a| a.wrapping_neg());
map1!(HalfAbs: u16; |a| a & 0x7fff);
map1!(HalfNeg: u16; |a| a ^ 0x8000);
map1!(Floor: f32, f64; |a| a.floor());
map1!(Ceil: f32, f64; |a| a.ceil());
map1!(Round: f32, f64; |a| a.round_ties_even());
map1!(Sqrt: f32, f64; |a| a.sqrt());
map1!(Reciprocal: f32, f64; |a| 1.0 / a);
// NaN stays, and a negative zero becomes a positive one.
map1!(Relu: f32, f64; |a| if a <= 0.0 { 0.0 } else { a });
map1!(Relu: i8, i16, i32, i64; |a| a.max(0));
map1!(Sign: f32, f64; |a| if a > 0.0 { 1.0 } else if a < 0.0 { -1.0 } else if a == 0.0 { 0.0 } else { a });
map1!(Sign: i8, i16, i32, i64; |a| a.signum());
map1!(Sign: u8, u16, u32, u64; |a| a.min(1));
map1!(BitNot: u8, u16, u32, u64; |a| !a);
map1!(Not: u8; |a| a ^ 1);
map1!(Softsign: f32, f64; |a| if a.is_infinite() { a.signum() } else { a / (1.0 + a.abs()) });
map1!(ErfTruncated: i8, i16, i32, i64; |a| if a >= ERF_IS_ONE as _ { 1 } else { -((a <= -(ERF_IS_ONE as i8) as _) as i8) as _ });
map1!(ErfTruncated: u8, u16, u32, u64; |a| (a >= ERF_IS_ONE as _) as _);

macro_rules! float_activations {
    ($($t:ident),*) => {$(
        map1!(HardSwish: $t; |a| {
            let gate = a + 3.0;
            let gate = if gate < 0.0 { 0.0 } else { gate };
            let gate = if gate > 6.0 { 6.0 } else { gate };
            if a == $t::NEG_INFINITY { -0.0 } else { a * (gate * (1.0 / 6.0)) }
        });
        map1!(LeakyRelu: $t; |self, a| if a < 0.0 { a * $t::from(self.0.alpha) } else { a });
        map1!(ThresholdedRelu: $t; |self, a| if a > $t::from(self.0.alpha) { a } else { 0.0 });
        map1!(HardSigmoid: $t; |self, a| {
            let y = a.mul_add($t::from(self.0.alpha), $t::from(self.0.beta));
            let y = if y < 0.0 { 0.0 } else { y };
            if y > 1.0 { 1.0 } else { y }
        });
        map1!(Shrink: $t; |self, a| {
            let (threshold, bias) = ($t::from(self.0.alpha), $t::from(self.0.beta));
            let above = if a > threshold { a - bias } else { 0.0 };
            if a < -threshold { a + bias } else { above }
        });
    )*};
}

float_activations!(f32, f64);
// Sums of narrow integers and the bias are exact in f64, and truncated.
map1!(Shrink: i8, i16, i32, u8, u16, u32; |self, a| {
    let (x, threshold, bias) = (f64::from(a), f64::from(self.0.alpha), f64::from(self.0.beta));
    let above = if x > threshold { x - bias } else { 0.0 };
    (if x < -threshold { x + bias } else { above }) as _
});
map1!(Shrink: i64, u64; |self, a| {
    let (x, threshold, bias) = (a as f64, f64::from(self.0.alpha), f64::from(self.0.beta));
    let bias = if x < -threshold { bias } else if x > threshold { -bias } else { return 0 };
    if x.abs() < 4503599627370496.0 {
        return (x + bias) as _;
    }
    // A fraction taken off a magnitude takes one more off the truncated sum; a fraction added to it adds nothing.
    let bias = if (x < 0.0) == (bias < 0.0) { bias.trunc() } else { bias.abs().ceil().copysign(bias) };
    i128::from(a).saturating_add(bias as i128).saturated()
});
test1!(IsNan: f32, f64; |a| a.is_nan());
test1!(IsInf<false, false>: f32, f64; |_a| false);
test1!(IsInf<false, true>: f32, f64; |a| a.is_infinite() && a.is_sign_positive());
test1!(IsInf<true, false>: f32, f64; |a| a.is_infinite() && a.is_sign_negative());
test1!(IsInf<true, true>: f32, f64; |a| a.is_infinite());

/// An integer type that takes the nearest value to any integer.
trait Saturated<T> {
    fn saturated(self) -> T;
}

macro_rules! saturated {
    ($($t:ident),*) => {
        $(impl Saturated<$t> for i128 {
            #[inline(always)]
            fn saturated(self) -> $t {
                self.clamp($t::MIN.into(), $t::MAX.into()) as $t
            }
        })*
    };
}

saturated!(i64, u64);

/// The least integer whose error function rounds to 1 in f64.
const ERF_IS_ONE: u8 = 6;

map2!(Add: f32, f64; |a, b| a + b);
map2!(Add: u8, u16, u32, u64; |a, b| a.wrapping_add(b));
map2!(Sub: f32, f64; |a, b| a - b);
map2!(Sub: u8, u16, u32, u64; |a, b| a.wrapping_sub(b));
map2!(Mul: f32, f64; |a, b| a * b);
map2!(Mul: u8, u16, u32, u64; |a, b| a.wrapping_mul(b));
map2!(Div: f32, f64; |a, b| a / b);
map2!(ModTruncated: f32, f64; |a, b| a % b);
map2!(Min: f32, f64; |a, b| if a < b || a.is_nan() { a } else { b });
map2!(Min: i8, i16, i32, i64, u8, u16, u32, u64; |a, b| a.min(b));
map2!(Max: f32, f64; |a, b| if a > b || a.is_nan() { a } else { b });
map2!(Max: i8, i16, i32, i64, u8, u16, u32, u64; |a, b| a.max(b));
test2!(Equal: f32, f64, u8, u16, u32, u64; |a, b| a == b);
test2!(Less: f32, f64, i8, i16, i32, i64, u8, u16, u32, u64; |a, b| a < b);
test2!(LessOrEqual: f32, f64, i8, i16, i32, i64, u8, u16, u32, u64; |a, b| a <= b);
map2!(And: u8, u16, u32, u64; |a, b| a & b);
map2!(Or: u8, u16, u32, u64; |a, b| a | b);
map2!(Xor: u8, u16, u32, u64; |a, b| a ^ b);
map2!(PRelu: f32, f64; |a, b| if a < 0.0 { a * b } else { a });
map2!(PRelu: i32, i64; |a, b| if a < 0 { a.wrapping_mul(b) } else { a });
map2!(PRelu: u32, u64; |a, _b| a);

/// A remainder with the sign of the divisor, from the one with the sign of the dividend.
macro_rules! with_sign_of_divisor {
    ($t:ident, $remainder:expr, $divisor:expr) => {{
        let (remainder, divisor): ($t, $t) = ($remainder, $divisor);
        if remainder == 0.0 {
            $t::copysign(0.0, divisor)
        } else if remainder.is_nan() || (remainder < 0.0) == (divisor < 0.0) {
            remainder
        } else if divisor.is_infinite() {
            divisor
        } else {
            remainder + divisor
        }
    }};
}

map2!(ModFloor: f32; |a, b| with_sign_of_divisor!(f32, a % b, b));
map2!(ModFloor: f64; |a, b| with_sign_of_divisor!(f64, a % b, b));

/// Quotients of integers, truncated; callers look for zeros first, so that a zero divisor only must not panic.
trait Quotient: Copy {
    fn quotient(self, divisor: Self) -> Self;
}

/// Quotients of short integers are those of floats with more bits, truncated: the exact quotient is either an integer or
/// too far from the next one to be rounded to it. Vectors of floats have a division, those of integers none. Added to
/// 1.5 · 2ᵐ (m fraction bits) the quotient stands in the low bits, modulo the integers' range.
macro_rules! quotients_of_floats {
    ($float:ty, $anchor:literal: $($i:ident),*) => {
        $(impl Quotient for $i {
            #[inline(always)]
            fn quotient(self, divisor: $i) -> $i {
                ((self as $float / divisor as $float).trunc() + $anchor).to_bits() as $i
            }
        })*
    };
}

quotients_of_floats!(f32, 12582912.0: i8, i16, u8, u16);
quotients_of_floats!(f64, 6755399441055744.0: i32, u32);

macro_rules! quotients_of_integers {
    ($($t:ident),*) => {
        $(impl Quotient for $t {
            #[inline(always)]
            fn quotient(self, divisor: $t) -> $t {
                if divisor == 0 { 0 } else { self.wrapping_div(divisor) }
            }
        })*
    };
}

quotients_of_integers!(i64, u64);

/// A 64-bit integer of 51 bits and a sign, whose quotients are those of floats as well.
#[derive(Clone, Copy)]
struct Small(i64);

/// 1.5 · 2⁵²: a small integer added to its bits is the fraction.
const ANCHOR: f64 = 6755399441055744.0;

impl Small {
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from_bits(self.0.wrapping_add(ANCHOR.to_bits() as i64) as u64) - ANCHOR
    }

    #[inline(always)]
    fn quotient(self, divisor: Small) -> i64 {
        let quotient = (self.to_f64() / divisor.to_f64()).trunc();
        ((quotient + ANCHOR).to_bits() as i64).wrapping_sub(ANCHOR.to_bits() as i64)
    }
}

/// Whether [`Divided`] takes an integer.
#[inline(always)]
pub(crate) fn is_small(a: i64) -> bool {
    (a.wrapping_add(1 << 50) as u64) < 1 << 51
}

/// Whether [`Divided`] takes a pair of floats: both are finite, and the quotient has so few bits that its product with the
/// divisor is exact in `f64`.
#[inline(always)]
pub(crate) fn has_small_quotient(a: f32, b: f32) -> bool {
    let bound = f64::from(b.abs()) * f64::from(1 << 29);
    (f64::from(a.abs()) < bound) & (b.abs() <= f32::MAX)
}

/// A division of small integers (see [`is_small`]), or of floats with a small quotient (see [`has_small_quotient`]).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Divided<O>(O);

impl Map2<i64, i64> for Divided<Div> {
    const DIVIDES: bool = true;
    #[inline(always)]
    fn apply(self, a: i64, b: i64) -> i64 {
        Small(a).quotient(Small(b))
    }
}

impl Map2<i64, i64> for Divided<ModTruncated> {
    const DIVIDES: bool = true;
    #[inline(always)]
    fn apply(self, a: i64, b: i64) -> i64 {
        a.wrapping_sub(Small(a).quotient(Small(b)).wrapping_mul(b))
    }
}

impl Map2<i64, i64> for Divided<ModFloor> {
    const DIVIDES: bool = true;
    #[inline(always)]
    fn apply(self, a: i64, b: i64) -> i64 {
        let remainder = Divided(ModTruncated).apply(a, b);
        let other_side = remainder != 0 && (remainder < 0) != (b < 0);
        if other_side {
            remainder.wrapping_add(b)
        } else {
            remainder
        }
    }
}

impl Map2<f32, f32> for Divided<ModTruncated> {
    #[inline(always)]
    fn apply(self, a: f32, b: f32) -> f32 {
        let (dividend, divisor) = (f64::from(a.abs()), f64::from(b.abs()));
        let remainder = dividend - (dividend / divisor).trunc() * divisor;
        // The quotient may have been rounded up to the next integer.
        let remainder = if remainder < 0.0 {
            remainder + divisor
        } else {
            remainder
        };
        (remainder as f32).copysign(a)
    }
}

impl Map2<f32, f32> for Divided<ModFloor> {
    #[inline(always)]
    fn apply(self, a: f32, b: f32) -> f32 {
        with_sign_of_divisor!(f32, Divided(ModTruncated).apply(a, b), b)
    }
}

macro_rules! dividing {
    ($name:ty: $($t:ty),*; |$a:ident, $b:ident| $body:expr) => {
        $(impl Map2<$t, $t> for $name {
            const DIVIDES: bool = true;
            #[inline(always)]
            fn apply(self, $a: $t, $b: $t) -> $t { $body }
        })*
    };
}

dividing!(Div: i8, i16, i32, i64, u8, u16, u32, u64; |a, b| a.quotient(b));
dividing!(ModTruncated: i8, i16, i32, i64, u8, u16, u32, u64; |a, b| a.wrapping_sub(a.quotient(b).wrapping_mul(b)));
dividing!(ModFloor: u8, u16, u32, u64; |a, b| a.wrapping_sub(a.quotient(b).wrapping_mul(b)));
dividing!(ModFloor: i8, i16, i32, i64; |a, b| {
    let remainder = a.wrapping_sub(a.quotient(b).wrapping_mul(b));
    if remainder != 0 && (remainder < 0) != (b < 0) { remainder.wrapping_add(b) } else { remainder }
});

/// Shifts; a count that is negative or not below the width leaves what the fill alone gives: 0, or −1 to the right of a
/// negative integer.
macro_rules! shifts {
    ($($t:ident),*) => {
        $(impl Map2<$t, $t> for ShiftLeft {
            #[inline(always)]
            fn apply(self, a: $t, b: $t) -> $t {
                if (0..$t::BITS as $t).contains(&b) { a << b } else { 0 }
            }
        }
        impl Map2<$t, $t> for ShiftRight {
            #[inline(always)]
            fn apply(self, a: $t, b: $t) -> $t {
                const LAST: $t = $t::BITS as $t - 1;
                // Of unsigned integers the last shift leaves the highest bit, the second one nothing.
                if (0..=LAST).contains(&b) { a >> b } else { a >> LAST >> 1 }
            }
        })*
    };
}

shifts!(i8, i16, i32, i64, u8, u16, u32, u64);
