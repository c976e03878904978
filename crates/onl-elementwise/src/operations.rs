//! Scalar operations. Integer arithmetic wraps.

use crate::body::{Map1, Map2};
use onl_tensor::Bool;

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        $($(#[$doc])* #[derive(Debug, Clone, Copy, Default)] pub(crate) struct $name;)*
    };
}

macro_rules! map1 {
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

/// Whether a float is infinite with one of the admitted signs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct IsInf<const NEGATIVE: bool, const POSITIVE: bool>;

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
test1!(IsNan: f32, f64; |a| a.is_nan());
test1!(IsInf<false, false>: f32, f64; |_a| false);
test1!(IsInf<false, true>: f32, f64; |a| a.is_infinite() && a.is_sign_positive());
test1!(IsInf<true, false>: f32, f64; |a| a.is_infinite() && a.is_sign_negative());
test1!(IsInf<true, true>: f32, f64; |a| a.is_infinite());

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

/// Operations on integers that must not divide by zero; callers look for zeros first, so that the zero branch only
/// keeps the body total.
macro_rules! dividing {
    ($name:ty: $($t:ty),*; |$a:ident, $b:ident| $body:expr) => {
        $(impl Map2<$t, $t> for $name {
            const DIVIDES: bool = true;
            #[inline(always)]
            fn apply(self, $a: $t, $b: $t) -> $t {
                if $b == 0 { 0 } else { $body }
            }
        })*
    };
}

dividing!(Div: i8, i16, i32, i64, u8, u16, u32, u64; |a, b| a.wrapping_div(b));
dividing!(ModTruncated: i8, i16, i32, i64, u8, u16, u32, u64; |a, b| a.wrapping_rem(b));
dividing!(ModFloor: u8, u16, u32, u64; |a, b| a % b);
dividing!(ModFloor: i8, i16, i32, i64; |a, b| {
    let remainder = a.wrapping_rem(b);
    if remainder != 0 && (remainder < 0) != (b < 0) { remainder.wrapping_add(b) } else { remainder }
});

/// Shifts; a count of the width or more gives zero.
macro_rules! shifts {
    ($($t:ty),*) => {
        $(impl Map2<$t, $t> for ShiftLeft {
            #[inline(always)]
            fn apply(self, a: $t, b: $t) -> $t {
                if b < <$t>::BITS as $t { a << b } else { 0 }
            }
        }
        impl Map2<$t, $t> for ShiftRight {
            #[inline(always)]
            fn apply(self, a: $t, b: $t) -> $t {
                if b < <$t>::BITS as $t { a >> b } else { 0 }
            }
        })*
    };
}

shifts!(u8, u16, u32, u64);
