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

/// The loops over a block, a pair of vectors a turn: once over the whole pairs and once over what is left, in a buffer
/// whose other elements are 1, so that there is one copy of the function's code.
macro_rules! blocks {
    ($function:ident, $element:ty, $lanes:ident, $load:ident, $store:ident, $one:expr;
     $(#[$map_doc:meta])* $map:ident, $(#[$in_place_doc:meta])* $in_place:ident) => {
        $(#[$map_doc])*
        #[inline(always)]
        pub fn $map<I: Isa, F: $function>(isa: I, function: F, input: &[$element], output: &mut [$element]) {
            let pair = Paired(isa);
            let lanes = Paired::<I>::$lanes;
            let count = input.len().min(output.len());
            let rest = count % lanes;
            let (input, input_rest) = input[..count].split_at(count - rest);
            let (output, output_rest) = output[..count].split_at_mut(count - rest);
            let mut last = [$one; MAXIMUM_F32_LANES];
            if rest > 0 {
                last[..rest].copy_from_slice(input_rest);
            }
            let mut results = [$one; MAXIMUM_F32_LANES];
            let (mut from, mut to) = (input, output);
            for left in [rest, 0] {
                for (from, to) in from.chunks_exact(lanes).zip(to.chunks_exact_mut(lanes)) {
                    pair.$store(function.apply(pair, pair.$load(from)), to);
                }
                if left == 0 {
                    break;
                }
                (from, to) = (&last[..lanes], &mut results[..lanes]);
            }
            if rest > 0 {
                output_rest.copy_from_slice(&results[..rest]);
            }
        }

        $(#[$in_place_doc])*
        #[inline(always)]
        pub fn $in_place<I: Isa, F: $function>(isa: I, function: F, elements: &mut [$element]) {
            let pair = Paired(isa);
            let lanes = Paired::<I>::$lanes;
            let rest = elements.len() % lanes;
            let (elements, elements_rest) = elements.split_at_mut(elements.len() - rest);
            let mut last = [$one; MAXIMUM_F32_LANES];
            if rest > 0 {
                last[..rest].copy_from_slice(elements_rest);
            }
            let mut at = elements;
            for left in [rest, 0] {
                for at in at.chunks_exact_mut(lanes) {
                    pair.$store(function.apply(pair, pair.$load(at)), at);
                }
                if left == 0 {
                    break;
                }
                at = &mut last[..lanes];
            }
            if rest > 0 {
                elements_rest.copy_from_slice(&last[..rest]);
            }
        }
    };
}

blocks!(
    FunctionF32, f32, F32_LANES, load_f32, store_f32, 1.0;
    /// `output[i] = function(input[i])` as far as both reach, for bodies that hold a token.
    map_block_f32,
    /// As [`map_block_f32`], with the results in place of the arguments.
    map_in_place_f32
);
blocks!(
    FunctionF32, f16, F32_LANES, load_f16, store_f16, f16::ONE;
    /// As [`map_block_f32`], computed in `f32` and rounded once.
    map_block_f16,
    /// As [`map_block_f16`], with the results in place of the arguments.
    map_in_place_f16
);
blocks!(
    FunctionF32, bf16, F32_LANES, load_bf16, store_bf16, bf16::ONE;
    /// As [`map_block_f32`], computed in `f32` and rounded once.
    map_block_bf16,
    /// As [`map_block_bf16`], with the results in place of the arguments.
    map_in_place_bf16
);
blocks!(
    FunctionF64, f64, F64_LANES, load_f64, store_f64, 1.0;
    /// As [`map_block_f32`].
    map_block_f64,
    /// As [`map_block_f64`], with the results in place of the arguments.
    map_in_place_f64
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
