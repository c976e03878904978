//! The measured functions: bodies with attributes as types, since a body takes none.

// The same digits serve f32 and f64.
#![allow(clippy::excessive_precision)]

use onl_simd::VectorOps;
use onl_simd::math::{self, UnaryF32, UnaryF64, double};

/// Functions with fixed attributes.
macro_rules! with_attributes {
    ($($name:ident $function:ident($($attribute:literal),*);)*) => {$(
        pub struct $name;

        impl UnaryF32 for $name {
            #[inline(always)]
            fn apply<V: VectorOps>(ops: V, x: V::F32) -> V::F32 {
                math::$function(ops, x, $($attribute),*)
            }
        }

        impl UnaryF64 for $name {
            #[inline(always)]
            fn apply<V: VectorOps>(ops: V, x: V::F64) -> V::F64 {
                double::$function(ops, x, $($attribute),*)
            }
        }
    )*};
}

// Attributes that f32 holds.
with_attributes! {
    Elu elu(1.0);
    Celu celu(2.0);
    Selu selu(1.671875, 1.05078125);
    Swish swish(1.0);
    SwishSteep swish(1.703125);
}

pub struct Reciprocal;

impl UnaryF32 for Reciprocal {
    #[inline(always)]
    fn apply<V: VectorOps>(ops: V, x: V::F32) -> V::F32 {
        ops.div_f32(ops.splat_f32(1.0), x)
    }
}

impl UnaryF64 for Reciprocal {
    #[inline(always)]
    fn apply<V: VectorOps>(ops: V, x: V::F64) -> V::F64 {
        ops.div_f64(ops.splat_f64(1.0), x)
    }
}

/// x to a fixed power.
macro_rules! powers {
    ($($name:ident $exponent:literal;)*) => {$(
        pub struct $name;

        impl UnaryF32 for $name {
            #[inline(always)]
            fn apply<V: VectorOps>(ops: V, x: V::F32) -> V::F32 {
                math::pow(ops, x, ops.splat_f32($exponent))
            }
        }

        impl UnaryF64 for $name {
            #[inline(always)]
            fn apply<V: VectorOps>(ops: V, x: V::F64) -> V::F64 {
                double::pow(ops, x, ops.splat_f64($exponent))
            }
        }
    )*};
}

powers! {
    PowMinus2Point5 -2.5;
    Pow9Point75 9.75;
}
