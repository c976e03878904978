//! Functions of one argument over slices.

use super::{
    acos, acosh, asin, asinh, atan, atanh, cos, cosh, double, erf, exp, expm1, gelu, gelu_tanh,
    log, mish, sigmoid, sin, sinh, softplus, sqrt, tan, tanh,
};
use crate::{Isa, SimdOp, dispatch};
use half::{bf16, f16};
use onl_cpu::IsaTier;
use std::marker::PhantomData;

/// A function of one `f32`, with one body for every tier. `apply` is `#[inline(always)]`, and a lane of its result
/// depends on the same lane of `x` alone.
pub trait UnaryF32 {
    /// The function of every lane.
    fn apply<I: Isa>(isa: I, x: I::F32) -> I::F32;
}

/// A function of one `f64`; see [`UnaryF32`].
pub trait UnaryF64 {
    /// The function of every lane.
    fn apply<I: Isa>(isa: I, x: I::F64) -> I::F64;
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
            fn apply<I: Isa>(isa: I, x: I::F32) -> I::F32 {
                $single(isa, x)
            }
        }

        impl UnaryF64 for $name {
            #[inline(always)]
            fn apply<I: Isa>(isa: I, x: I::F64) -> I::F64 {
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

/// Two vectors a turn, then one, then the rest with the other lanes at 1.
macro_rules! driver {
    ($name:ident, $function:ident, $element:ty, $lanes:ident,
     $load:ident, $store:ident, $load_partial:ident, $store_partial:ident, $one:expr) => {
        struct $name<'a, U> {
            input: &'a [$element],
            output: &'a mut [$element],
            function: PhantomData<U>,
        }

        impl<U: $function> SimdOp for $name<'_, U> {
            type Output = ();

            #[inline(always)]
            fn eval<I: Isa>(self, isa: I) {
                let mut inputs = self.input.chunks_exact(2 * I::$lanes);
                let mut outputs = self.output.chunks_exact_mut(2 * I::$lanes);
                for (input, output) in (&mut inputs).zip(&mut outputs) {
                    let first = U::apply(isa, isa.$load(input));
                    let second = U::apply(isa, isa.$load(&input[I::$lanes..]));
                    isa.$store(first, output);
                    isa.$store(second, &mut output[I::$lanes..]);
                }
                let inputs = inputs.remainder().chunks(I::$lanes);
                let outputs = outputs.into_remainder().chunks_mut(I::$lanes);
                for (input, output) in inputs.zip(outputs) {
                    let result = U::apply(isa, isa.$load_partial(input, $one));
                    isa.$store_partial(result, output);
                }
            }
        }
    };
}

driver!(
    MapF32,
    UnaryF32,
    f32,
    F32_LANES,
    load_f32,
    store_f32,
    load_partial_f32,
    store_partial_f32,
    1.0
);
driver!(
    MapF16,
    UnaryF32,
    f16,
    F32_LANES,
    load_f16,
    store_f16,
    load_partial_f16,
    store_partial_f16,
    f16::ONE
);
driver!(
    MapBf16,
    UnaryF32,
    bf16,
    F32_LANES,
    load_bf16,
    store_bf16,
    load_partial_bf16,
    store_partial_bf16,
    bf16::ONE
);
driver!(
    MapF64,
    UnaryF64,
    f64,
    F64_LANES,
    load_f64,
    store_f64,
    load_partial_f64,
    store_partial_f64,
    1.0
);

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
