//! Bodies of transcendental functions.

use crate::body::UnaryBody;
use crate::broadcast::BLOCK;
use onl_simd::Isa;
use onl_simd::math::{Tanh, UnaryF32, UnaryF64};

/// Body of a function of `onl_simd::math`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Vector<U>(U);

/// Two vectors a turn, then one, then the rest with the other lanes at 1.
macro_rules! vector_body {
    ($function:ident, $t:ty, $lanes:ident, $load:ident, $store:ident, $load_partial:ident, $store_partial:ident) => {
        impl<U: $function + Copy + Default + Send + Sync> UnaryBody<$t, $t> for Vector<U> {
            #[inline(always)]
            fn run<I: Isa>(self, isa: I, a: &[$t], out: &mut [$t]) {
                let mut inputs = a.chunks_exact(2 * I::$lanes);
                let mut outputs = out.chunks_exact_mut(2 * I::$lanes);
                for (a, out) in (&mut inputs).zip(&mut outputs) {
                    let first = U::apply(isa, isa.$load(a));
                    let second = U::apply(isa, isa.$load(&a[I::$lanes..]));
                    isa.$store(first, out);
                    isa.$store(second, &mut out[I::$lanes..]);
                }
                let inputs = inputs.remainder().chunks(I::$lanes);
                let outputs = outputs.into_remainder().chunks_mut(I::$lanes);
                for (a, out) in inputs.zip(outputs) {
                    isa.$store_partial(U::apply(isa, isa.$load_partial(a, 1.0)), out);
                }
            }
        }
    };
}

vector_body!(
    UnaryF32,
    f32,
    F32_LANES,
    load_f32,
    store_f32,
    load_partial_f32,
    store_partial_f32
);
vector_body!(
    UnaryF64,
    f64,
    F64_LANES,
    load_f64,
    store_f64,
    load_partial_f64,
    store_partial_f64
);

/// x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct GeluTanh;

macro_rules! gelu_tanh {
    ($($t:ident),*) => {
        $(impl UnaryBody<$t, $t> for GeluTanh {
            #[inline(always)]
            fn run<I: Isa>(self, isa: I, a: &[$t], out: &mut [$t]) {
                // √(2/π)
                let scale = std::$t::consts::FRAC_2_SQRT_PI * std::$t::consts::FRAC_1_SQRT_2;
                let mut argument = [0.0; BLOCK];
                for (a, out) in a.chunks(BLOCK).zip(out.chunks_mut(BLOCK)) {
                    let n = a.len();
                    for (u, &x) in argument.iter_mut().zip(a) {
                        *u = (x + x * x * x * 0.044715) * scale;
                    }
                    Vector(Tanh).run(isa, &argument[..n], out);
                    for (y, &x) in out.iter_mut().zip(a) {
                        *y = x * 0.5 * (1.0 + *y);
                    }
                }
            }
        })*
    };
}

gelu_tanh!(f32, f64);

/// x to the power y for elements of equal index.
#[inline(always)]
pub(crate) fn pow_f32<I: Isa>(isa: I, x: &[f32], y: &[f32], out: &mut [f32]) {
    let whole = out.len() / I::F32_LANES * I::F32_LANES;
    for i in (0..whole).step_by(I::F32_LANES) {
        let power = onl_simd::math::pow(isa, isa.load_f32(&x[i..]), isa.load_f32(&y[i..]));
        isa.store_f32(power, &mut out[i..]);
    }
    if whole < out.len() {
        let x = isa.load_partial_f32(&x[whole..], 1.0);
        let y = isa.load_partial_f32(&y[whole..], 1.0);
        isa.store_partial_f32(onl_simd::math::pow(isa, x, y), &mut out[whole..]);
    }
}
