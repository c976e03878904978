//! Functions of one argument over slices.

use super::{
    acos, acosh, asin, asinh, atan, atanh, cos, cosh, double, erf, exp, expm1, gelu, gelu_tanh,
    log, mish, sigmoid, sin, sinh, softplus, sqrt, tan, tanh,
};
use crate::{Isa, MAXIMUM_F32_LANES, Paired, SimdOp, VectorOps, dispatch};
use half::{bf16, f16};
use onl_cpu::IsaTier;
use std::marker::PhantomData;

/// A function of one `f32`, with one body for every tier. `apply` is `#[inline(always)]`, and a lane of its result
/// depends on the same lane of `x` alone.
pub trait UnaryF32 {
    /// The function of every lane.
    fn apply<I: VectorOps>(isa: I, x: I::F32) -> I::F32;
}

/// A function of one `f64`; see [`UnaryF32`].
pub trait UnaryF64 {
    /// The function of every lane.
    fn apply<I: VectorOps>(isa: I, x: I::F64) -> I::F64;
}

/// Marker types for functions that exist for both element types.
macro_rules! markers {
    ($($name:ident $single:ident $double:ident;)*) => {$(
        #[doc = concat!("[`", stringify!($single), "`](super::", stringify!($single), ") of `f32`, [`double::",
            stringify!($double), "`](super::double::", stringify!($double), ") of `f64`.")]
        #[derive(Debug, Clone, Copy, Default)]
        pub struct $name;

        impl UnaryF32 for $name {
            #[inline(always)]
            fn apply<I: VectorOps>(isa: I, x: I::F32) -> I::F32 {
                $single(isa, x)
            }
        }

        impl UnaryF64 for $name {
            #[inline(always)]
            fn apply<I: VectorOps>(isa: I, x: I::F64) -> I::F64 {
                double::$double(isa, x)
            }
        }
    )*};
}

markers! {
    Exp exp exp;
    Log log log;
    Sqrt sqrt sqrt;
    Sigmoid sigmoid sigmoid;
    Tanh tanh tanh;
    Erf erf erf;
    Gelu gelu gelu;
    Sin sin sin;
    Cos cos cos;
    Tan tan tan;
    Asin asin asin;
    Acos acos acos;
    Atan atan atan;
    Sinh sinh sinh;
    Cosh cosh cosh;
    Asinh asinh asinh;
    Acosh acosh acosh;
    Atanh atanh atanh;
    Expm1 expm1 expm1;
    Softplus softplus softplus;
    Mish mish mish;
    GeluTanh gelu_tanh gelu_tanh;
}

/// A function of one `f32` that may have attributes; see [`UnaryF32`].
pub trait FunctionF32: Copy {
    /// The function of every lane.
    fn apply<V: VectorOps>(self, ops: V, x: V::F32) -> V::F32;
}

/// A function of one `f64`; see [`FunctionF32`].
pub trait FunctionF64: Copy {
    /// The function of every lane.
    fn apply<V: VectorOps>(self, ops: V, x: V::F64) -> V::F64;
}

/// A function without attributes.
#[derive(Debug)]
pub struct Of<U>(PhantomData<U>);

impl<U> Default for Of<U> {
    fn default() -> Self {
        Of(PhantomData)
    }
}

impl<U> Clone for Of<U> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<U> Copy for Of<U> {}

impl<U: UnaryF32> FunctionF32 for Of<U> {
    #[inline(always)]
    fn apply<V: VectorOps>(self, ops: V, x: V::F32) -> V::F32 {
        U::apply(ops, x)
    }
}

impl<U: UnaryF64> FunctionF64 for Of<U> {
    #[inline(always)]
    fn apply<V: VectorOps>(self, ops: V, x: V::F64) -> V::F64 {
        U::apply(ops, x)
    }
}

/// The loop over a block, a pair of vectors a turn. The last turn goes through a buffer whose other elements are 1, so
/// that there is one copy of the function's code.
macro_rules! over_block {
    ($(#[$doc:meta])* $name:ident, $function:ident, $element:ty, $lanes:ident, $load:ident, $store:ident, $one:expr) => {
        $(#[$doc])*
        #[inline(always)]
        pub fn $name<I: Isa, F: $function>(isa: I, function: F, input: &[$element], output: &mut [$element]) {
            let pair = Paired(isa);
            let lanes = Paired::<I>::$lanes;
            let mut rest = [$one; MAXIMUM_F32_LANES];
            for (input, output) in input.chunks(lanes).zip(output.chunks_mut(lanes)) {
                let whole = input.len() == lanes;
                if !whole {
                    rest[..input.len()].copy_from_slice(input);
                }
                let result = function.apply(pair, pair.$load(if whole { input } else { &rest }));
                pair.$store(result, if whole { output } else { &mut rest });
                if !whole {
                    output.copy_from_slice(&rest[..output.len()]);
                }
            }
        }
    };
}

over_block!(
    /// `output[i] = function(input[i])` as far as both reach, for bodies that hold a token.
    map_block_f32, FunctionF32, f32, F32_LANES, load_f32, store_f32, 1.0
);
over_block!(
    /// As [`map_block_f32`], computed in `f32` and rounded once.
    map_block_f16, FunctionF32, f16, F32_LANES, load_f16, store_f16, f16::ONE
);
over_block!(
    /// As [`map_block_f32`], computed in `f32` and rounded once.
    map_block_bf16, FunctionF32, bf16, F32_LANES, load_bf16, store_bf16, bf16::ONE
);
over_block!(
    /// As [`map_block_f32`].
    map_block_f64, FunctionF64, f64, F64_LANES, load_f64, store_f64, 1.0
);

/// As [`over_block`], with the results in place of the arguments.
macro_rules! in_place {
    ($(#[$doc:meta])* $name:ident, $function:ident, $element:ty, $lanes:ident, $load:ident, $store:ident, $one:expr) => {
        $(#[$doc])*
        #[inline(always)]
        pub fn $name<I: Isa, F: $function>(isa: I, function: F, elements: &mut [$element]) {
            let pair = Paired(isa);
            let lanes = Paired::<I>::$lanes;
            let mut rest = [$one; MAXIMUM_F32_LANES];
            for elements in elements.chunks_mut(lanes) {
                let count = elements.len();
                let whole = count == lanes;
                if !whole {
                    rest[..count].copy_from_slice(elements);
                }
                let result = function.apply(pair, pair.$load(if whole { elements } else { &rest }));
                pair.$store(result, if whole { elements } else { &mut rest });
                if !whole {
                    elements.copy_from_slice(&rest[..count]);
                }
            }
        }
    };
}

in_place!(
    /// As [`map_block_f32`], with the results in place of the arguments.
    map_in_place_f32, FunctionF32, f32, F32_LANES, load_f32, store_f32, 1.0
);
in_place!(
    /// As [`map_block_f64`], with the results in place of the arguments.
    map_in_place_f64, FunctionF64, f64, F64_LANES, load_f64, store_f64, 1.0
);

/// A block as an operation.
macro_rules! driver {
    ($name:ident, $function:ident, $element:ty, $block:ident) => {
        struct $name<'a, U> {
            input: &'a [$element],
            output: &'a mut [$element],
            function: PhantomData<U>,
        }

        impl<U: $function> SimdOp for $name<'_, U> {
            type Output = ();

            #[inline(always)]
            fn eval<I: Isa>(self, isa: I) {
                $block(isa, Of(self.function), self.input, self.output);
            }
        }
    };
}

driver!(MapF32, UnaryF32, f32, map_block_f32);
driver!(MapF16, UnaryF32, f16, map_block_f16);
driver!(MapBf16, UnaryF32, bf16, map_block_bf16);
driver!(MapF64, UnaryF64, f64, map_block_f64);

#[track_caller]
fn same_length(input: usize, output: usize) {
    assert_eq!(
        input, output,
        "input and output of a map have the same length"
    );
}

/// `output[i] = U(input[i])`.
///
/// # Panics
/// When the lengths differ or the processor does not run the tier.
pub fn map<U: UnaryF32>(tier: IsaTier, input: &[f32], output: &mut [f32]) {
    same_length(input.len(), output.len());
    let function = PhantomData::<U>;
    dispatch(
        tier,
        MapF32 {
            input,
            output,
            function,
        },
    );
}

/// `output[i] = U(input[i])`, computed in `f32` and rounded once; see [`map`].
pub fn map_f16<U: UnaryF32>(tier: IsaTier, input: &[f16], output: &mut [f16]) {
    same_length(input.len(), output.len());
    let function = PhantomData::<U>;
    dispatch(
        tier,
        MapF16 {
            input,
            output,
            function,
        },
    );
}

/// `output[i] = U(input[i])`, computed in `f32` and rounded once; see [`map`].
pub fn map_bf16<U: UnaryF32>(tier: IsaTier, input: &[bf16], output: &mut [bf16]) {
    same_length(input.len(), output.len());
    let function = PhantomData::<U>;
    dispatch(
        tier,
        MapBf16 {
            input,
            output,
            function,
        },
    );
}

/// `output[i] = U(input[i])`; see [`map`].
pub fn map_f64<U: UnaryF64>(tier: IsaTier, input: &[f64], output: &mut [f64]) {
    same_length(input.len(), output.len());
    let function = PhantomData::<U>;
    dispatch(
        tier,
        MapF64 {
            input,
            output,
            function,
        },
    );
}
