//! Bodies of transcendental functions.

use crate::body::{Configured, Parameters, UnaryBody};
use onl_simd::math::{self, FunctionF32, FunctionF64, Of, double};
use onl_simd::{Isa, Paired, VectorOps};

impl<U: Send + Sync> Configured for Of<U> {
    #[inline(always)]
    fn with(_: Parameters) -> Self {
        Self::default()
    }
}

/// Functions with attributes.
macro_rules! parametric {
    ($($(#[$doc:meta])* $name:ident $function:ident($($attribute:ident),*);)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct $name(Parameters);

        impl Configured for $name {
            #[inline(always)]
            fn with(parameters: Parameters) -> Self {
                $name(parameters)
            }
        }

        impl FunctionF32 for $name {
            #[inline(always)]
            fn apply<V: VectorOps>(self, ops: V, x: V::F32) -> V::F32 {
                math::$function(ops, x, $(self.0.$attribute),*)
            }
        }

        impl FunctionF64 for $name {
            #[inline(always)]
            fn apply<V: VectorOps>(self, ops: V, x: V::F64) -> V::F64 {
                double::$function(ops, x, $(f64::from(self.0.$attribute)),*)
            }
        }
    )*};
}

parametric! {
    Elu elu(alpha);
    Celu celu(alpha);
    /// β is the factor γ.
    Selu selu(alpha, beta);
    Swish swish(alpha);
}

/// Body of a function of `onl_simd::math`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Vector<U>(U);

impl<U: Configured> Configured for Vector<U> {
    #[inline(always)]
    fn with(parameters: Parameters) -> Self {
        Vector(U::with(parameters))
    }
}

impl<U: FunctionF32 + Configured> UnaryBody<f32, f32> for Vector<U> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I, a: &[f32], out: &mut [f32]) {
        math::map_block_f32(isa, self.0, a, out);
    }
}

impl<U: FunctionF64 + Configured> UnaryBody<f64, f64> for Vector<U> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I, a: &[f64], out: &mut [f64]) {
        math::map_block_f64(isa, self.0, a, out);
    }
}

/// x to the power y for elements of equal index.
#[inline(always)]
pub(crate) fn pow_f32<I: Isa>(isa: I, x: &[f32], y: &[f32], out: &mut [f32]) {
    let (pair, lanes) = (Paired(isa), Paired::<I>::F32_LANES);
    let whole = out.len() / lanes * lanes;
    for i in (0..whole).step_by(lanes) {
        let power = math::pow(pair, pair.load_f32(&x[i..]), pair.load_f32(&y[i..]));
        pair.store_f32(power, &mut out[i..]);
    }
    if whole < out.len() {
        let x = pair.load_partial_f32(&x[whole..], 1.0);
        let y = pair.load_partial_f32(&y[whole..], 1.0);
        pair.store_partial_f32(math::pow(pair, x, y), &mut out[whole..]);
    }
}
