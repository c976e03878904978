//! Bodies of transcendental functions.

use crate::body::{Configured, Parameters, UnaryBody};
use onl_simd::Isa;
use onl_simd::math::{self, UnaryF32, UnaryF64, double};

/// A function of `f32`, with or without attributes.
pub(crate) trait FunctionF32: Configured {
    /// The function of every lane; implementations are `#[inline(always)]`.
    fn apply<I: Isa>(self, isa: I, x: I::F32) -> I::F32;
}

/// A function of `f64`; see [`FunctionF32`].
pub(crate) trait FunctionF64: Configured {
    fn apply<I: Isa>(self, isa: I, x: I::F64) -> I::F64;
}

/// A function of `onl_simd::math` without attributes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Of<U>(U);

impl<U: Copy + Default + Send + Sync> Configured for Of<U> {
    #[inline(always)]
    fn with(_: Parameters) -> Self {
        Self::default()
    }
}

impl<U: UnaryF32 + Copy + Default + Send + Sync> FunctionF32 for Of<U> {
    #[inline(always)]
    fn apply<I: Isa>(self, isa: I, x: I::F32) -> I::F32 {
        U::apply(isa, x)
    }
}

impl<U: UnaryF64 + Copy + Default + Send + Sync> FunctionF64 for Of<U> {
    #[inline(always)]
    fn apply<I: Isa>(self, isa: I, x: I::F64) -> I::F64 {
        U::apply(isa, x)
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
            fn apply<I: Isa>(self, isa: I, x: I::F32) -> I::F32 {
                math::$function(isa, x, $(self.0.$attribute),*)
            }
        }

        impl FunctionF64 for $name {
            #[inline(always)]
            fn apply<I: Isa>(self, isa: I, x: I::F64) -> I::F64 {
                double::$function(isa, x, $(f64::from(self.0.$attribute)),*)
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

/// Two vectors a turn, then one, then the rest with the other lanes at 1.
macro_rules! vector_body {
    ($function:ident, $t:ty, $lanes:ident, $load:ident, $store:ident, $load_partial:ident, $store_partial:ident) => {
        impl<U: $function> UnaryBody<$t, $t> for Vector<U> {
            #[inline(always)]
            fn run<I: Isa>(self, isa: I, a: &[$t], out: &mut [$t]) {
                let mut inputs = a.chunks_exact(2 * I::$lanes);
                let mut outputs = out.chunks_exact_mut(2 * I::$lanes);
                for (a, out) in (&mut inputs).zip(&mut outputs) {
                    let first = self.0.apply(isa, isa.$load(a));
                    let second = self.0.apply(isa, isa.$load(&a[I::$lanes..]));
                    isa.$store(first, out);
                    isa.$store(second, &mut out[I::$lanes..]);
                }
                let inputs = inputs.remainder().chunks(I::$lanes);
                let outputs = outputs.into_remainder().chunks_mut(I::$lanes);
                for (a, out) in inputs.zip(outputs) {
                    isa.$store_partial(self.0.apply(isa, isa.$load_partial(a, 1.0)), out);
                }
            }
        }
    };
}

vector_body!(
    FunctionF32,
    f32,
    F32_LANES,
    load_f32,
    store_f32,
    load_partial_f32,
    store_partial_f32
);
vector_body!(
    FunctionF64,
    f64,
    F64_LANES,
    load_f64,
    store_f64,
    load_partial_f64,
    store_partial_f64
);

/// x to the power y for elements of equal index.
#[inline(always)]
pub(crate) fn pow_f32<I: Isa>(isa: I, x: &[f32], y: &[f32], out: &mut [f32]) {
    let whole = out.len() / I::F32_LANES * I::F32_LANES;
    for i in (0..whole).step_by(I::F32_LANES) {
        let power = math::pow(isa, isa.load_f32(&x[i..]), isa.load_f32(&y[i..]));
        isa.store_f32(power, &mut out[i..]);
    }
    if whole < out.len() {
        let x = isa.load_partial_f32(&x[whole..], 1.0);
        let y = isa.load_partial_f32(&y[whole..], 1.0);
        isa.store_partial_f32(math::pow(isa, x, y), &mut out[whole..]);
    }
}
