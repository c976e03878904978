//! Bodies of transcendental functions.

use crate::body::UnaryBody;
use crate::broadcast::BLOCK;
use onl_simd::Isa;

macro_rules! functions {
    ($($name:ident: $single:path, $double:path;)*) => {
        $(
            #[derive(Debug, Clone, Copy, Default)]
            pub(crate) struct $name;

            impl UnaryBody<f32, f32> for $name {
                #[inline(always)]
                fn run<I: Isa>(self, _: I, a: &[f32], out: &mut [f32]) {
                    for (c, &a) in out.iter_mut().zip(a) {
                        *c = $single(a);
                    }
                }
            }

            impl UnaryBody<f64, f64> for $name {
                #[inline(always)]
                fn run<I: Isa>(self, _: I, a: &[f64], out: &mut [f64]) {
                    for (c, &a) in out.iter_mut().zip(a) {
                        *c = $double(a);
                    }
                }
            }
        )*
    };
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-x))
}
fn sigmoidf(x: f32) -> f32 {
    sigmoid(x as f64) as f32
}
fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + libm::erf(x * std::f64::consts::FRAC_1_SQRT_2))
}
fn geluf(x: f32) -> f32 {
    gelu(x as f64) as f32
}

functions! {
    Exp: libm::expf, libm::exp;
    Log: libm::logf, libm::log;
    Sigmoid: sigmoidf, sigmoid;
    Tanh: libm::tanhf, libm::tanh;
    Erf: libm::erff, libm::erf;
    Sin: libm::sinf, libm::sin;
    Cos: libm::cosf, libm::cos;
    Gelu: geluf, gelu;
}

/// x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct GeluTanh;

macro_rules! gelu_tanh {
    ($($t:ty),*) => {
        $(impl UnaryBody<$t, $t> for GeluTanh {
            #[inline(always)]
            fn run<I: Isa>(self, isa: I, a: &[$t], out: &mut [$t]) {
                let mut argument = [0.0; BLOCK];
                for (a, out) in a.chunks(BLOCK).zip(out.chunks_mut(BLOCK)) {
                    let n = a.len();
                    for (u, &x) in argument.iter_mut().zip(a) {
                        *u = (x + x * x * x * 0.044715) * 0.797_884_560_802_865_4;
                    }
                    Tanh.run(isa, &argument[..n], out);
                    for (y, &x) in out.iter_mut().zip(a) {
                        *y = x * 0.5 * (1.0 + *y);
                    }
                }
            }
        })*
    };
}

gelu_tanh!(f32, f64);

/// x to the power y for elements of equal index, correctly rounded in all but a few cases of f32.
#[inline(always)]
pub(crate) fn pow_f32<I: Isa>(_isa: I, x: &[f32], y: &[f32], out: &mut [f32]) {
    for ((c, &x), &y) in out.iter_mut().zip(x).zip(y) {
        *c = libm::pow(x as f64, y as f64) as f32;
    }
}
