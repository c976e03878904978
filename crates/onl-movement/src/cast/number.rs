//! Conversions of one number into another, as loops of a whole vector compile them.

use onl_tensor::{Bool, Element};

/// Conversion of one number.
pub(crate) trait CastTo<D>: Element {
    fn cast_to(self) -> D;
}

/// Nearest f32 whose later rounding to fewer bits gives what rounding `x` at once would: truncated, with the last
/// bit set when bits were lost.
pub(super) fn round_to_odd(x: f64) -> f32 {
    let nearest = x as f32;
    if f64::from(nearest) == x || !nearest.is_finite() {
        return nearest;
    }
    let bits = nearest.to_bits();
    let truncated = if f64::from(nearest.abs()) > x.abs() {
        bits - 1
    } else {
        bits
    };
    f32::from_bits(truncated | 1)
}

macro_rules! primitive_casts {
    ($($s:ty),*; to $to:tt) => {$( primitive_casts!(@ $s => $to); )*};
    (@ $s:ty => [$($d:ty),*]) => {
        $(impl CastTo<$d> for $s {
            #[inline(always)]
            fn cast_to(self) -> $d { self as $d }
        })*
        impl CastTo<Bool> for $s {
            #[inline(always)]
            fn cast_to(self) -> Bool { Bool((self != 0 as $s) as u8) }
        }
    };
}
primitive_casts!(u8, u16, u32, u64, i8, i16, i32, i64; to [f32, f64, u8, u16, u32, u64, i8, i16, i32, i64]);
primitive_casts!(f32, f64; to [f32, f64]);

/// Float to integer as `as` converts, but of comparisons and conversions that vectorize: the float is brought into
/// the range first. `$step` is the type that the hardware converts to.
macro_rules! float_to_integer {
    ($($s:ty => $($d:ty: $step:ty),*;)*) => {$($(
        impl CastTo<$d> for $s {
            #[inline(always)]
            fn cast_to(self) -> $d {
                const LOW: $s = <$d>::MIN as $s;
                const TOP: $s = <$d>::MAX as $s;
                // Where the type's largest value is no float, TOP is one more than it.
                const EXACT: bool = <$d>::BITS < <$s>::MANTISSA_DIGITS;
                const HIGH: $s = if EXACT { TOP } else { <$s>::from_bits(TOP.to_bits() - 1) };
                // Comparisons that are false for NaN lead it to LOW.
                let inside = if self > LOW { self } else { LOW };
                let inside = if inside < HIGH { inside } else { HIGH };
                // SAFETY: LOW ≤ inside ≤ HIGH, and both are values of the type.
                let value = unsafe { inside.to_int_unchecked::<$step>() } as $d;
                let value = if !EXACT && self >= TOP { <$d>::MAX } else { value };
                if self.is_nan() { 0 } else { value }
            }
        }
    )*)*};
}
float_to_integer! {
    f32 => u8: i32, u16: i32, i8: i32, i16: i32, u32: u32, i32: i32, u64: u64, i64: i64;
    f64 => u8: i32, u16: i32, i8: i32, i16: i32, u32: u32, i32: i32, u64: u64, i64: i64;
}

macro_rules! bool_casts {
    ($($d:ty),*) => {$(
        impl CastTo<$d> for Bool {
            #[inline(always)]
            fn cast_to(self) -> $d { self.0 as $d }
        }
    )*};
}
bool_casts!(f32, f64, u8, u16, u32, u64, i8, i16, i32, i64);
impl CastTo<Bool> for Bool {
    #[inline(always)]
    fn cast_to(self) -> Bool {
        self
    }
}
