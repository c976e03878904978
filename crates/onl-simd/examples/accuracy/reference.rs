//! References: `f64` for functions of `f32`, numbers of 320 bits for functions of `f64`.

use astro_float_num::{BigFloat, Consts, RoundingMode, Sign};
use std::cell::RefCell;

/// A number type in which the references are written once.
pub trait Real: Clone {
    fn of(x: f64) -> Self;
    fn plus(&self, other: &Self) -> Self;
    fn times(&self, other: &Self) -> Self;
    fn over(&self, other: &Self) -> Self;
    fn call(&self, function: Elementary) -> Self;
    fn power(&self, exponent: f64) -> Self;
    fn erfc(&self) -> Self;
    fn erf(&self) -> Self;

    fn negated(&self) -> Self {
        self.times(&Self::of(-1.0))
    }

    fn exp(&self) -> Self {
        self.call(Elementary::Exp)
    }
}

/// Functions that both number types have.
#[derive(Debug, Clone, Copy)]
pub enum Elementary {
    Exp,
    Expm1,
    Log,
    Log1p,
    Sqrt,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
}

impl Real for f64 {
    fn of(x: f64) -> Self {
        x
    }

    fn plus(&self, other: &Self) -> Self {
        self + other
    }

    fn times(&self, other: &Self) -> Self {
        self * other
    }

    fn over(&self, other: &Self) -> Self {
        self / other
    }

    fn call(&self, function: Elementary) -> Self {
        let x = *self;
        match function {
            Elementary::Exp => libm::exp(x),
            Elementary::Expm1 => libm::expm1(x),
            Elementary::Log => libm::log(x),
            Elementary::Log1p => libm::log1p(x),
            Elementary::Sqrt => libm::sqrt(x),
            Elementary::Sin => libm::sin(x),
            Elementary::Cos => libm::cos(x),
            Elementary::Tan => libm::tan(x),
            Elementary::Asin => libm::asin(x),
            Elementary::Acos => libm::acos(x),
            Elementary::Atan => libm::atan(x),
            Elementary::Sinh => libm::sinh(x),
            Elementary::Cosh => libm::cosh(x),
            Elementary::Tanh => libm::tanh(x),
            Elementary::Asinh => libm::asinh(x),
            Elementary::Acosh => libm::acosh(x),
            Elementary::Atanh => libm::atanh(x),
        }
    }

    fn power(&self, exponent: f64) -> Self {
        libm::pow(*self, exponent)
    }

    fn erf(&self) -> Self {
        libm::erf(*self)
    }

    fn erfc(&self) -> Self {
        libm::erfc(*self)
    }
}

/// Mantissa bits; the tails of erfc cancel up to 180 of them.
const PRECISION: usize = 320;
const ROUNDING: RoundingMode = RoundingMode::ToEven;

thread_local! {
    static CONSTANTS: RefCell<Consts> = RefCell::new(Consts::new().expect("constants need memory only"));
}

/// A number of [`PRECISION`] bits.
#[derive(Clone)]
pub struct Big(BigFloat);

impl Big {
    /// The number times 2ᵉ as a double, to within a few of its units.
    pub fn scaled_to_f64(&self, e: i32) -> f64 {
        let Some((words, _, sign, exponent, _)) = self.0.as_raw_parts() else {
            return if self.0.is_nan() {
                f64::NAN
            } else {
                f64::INFINITY
            };
        };
        let Some(&top) = words.last() else { return 0.0 };
        // The top word is a fraction of 64 bits.
        let magnitude = libm::scalbn(top as f64, exponent.saturating_add(e) - 64);
        if sign == Sign::Neg {
            -magnitude
        } else {
            magnitude
        }
    }

    pub fn minus(&self, x: f64) -> Big {
        self.plus(&Big::of(-x))
    }

    /// Power of two of the leading bit: the value is in [2ᵉ, 2ᵉ⁺¹).
    pub fn exponent(&self) -> i32 {
        self.0.exponent().map_or(i32::MIN, |e| e - 1)
    }

    fn is_small(&self) -> bool {
        self.exponent() < -30
    }
}

impl Real for Big {
    fn of(x: f64) -> Self {
        let big = |x: f64| Big(BigFloat::from_f64(x, PRECISION));
        if x.is_subnormal() {
            // The library takes no denormals.
            let scale = libm::scalbn(1.0, 200);
            return big(x * scale).over(&big(scale));
        }
        big(x)
    }

    fn plus(&self, other: &Self) -> Self {
        Big(self.0.add(&other.0, PRECISION, ROUNDING))
    }

    fn times(&self, other: &Self) -> Self {
        Big(self.0.mul(&other.0, PRECISION, ROUNDING))
    }

    fn over(&self, other: &Self) -> Self {
        Big(self.0.div(&other.0, PRECISION, ROUNDING))
    }

    fn call(&self, function: Elementary) -> Self {
        let x = &self.0;
        let (p, r) = (PRECISION, ROUNDING);
        CONSTANTS.with_borrow_mut(|c| {
            Big(match function {
                Elementary::Exp => x.exp(p, r, c),
                // x + x²/2 + …: what follows is below 2⁻²³⁰ of x.
                Elementary::Expm1 if self.is_small() => {
                    let mut term = self.clone();
                    let mut sum = self.clone();
                    for n in 2..=8 {
                        term = term.times(self).over(&Big::of(f64::from(n)));
                        sum = sum.plus(&term);
                    }
                    return sum;
                }
                Elementary::Expm1 => x.exp(p, r, c).sub(&BigFloat::from_f64(1.0, p), p, r),
                Elementary::Log => x.ln(p, r, c),
                Elementary::Log1p if self.is_small() => {
                    // x − x²/2 + …: what follows is below 2⁻²³⁰ of x.
                    let mut sum = self.clone();
                    let mut power = self.clone();
                    for n in 2..=8 {
                        power = power.times(self).negated();
                        sum = sum.plus(&power.over(&Big::of(f64::from(n))));
                    }
                    return sum;
                }
                Elementary::Log1p => x.add(&BigFloat::from_f64(1.0, p), p, r).ln(p, r, c),
                Elementary::Sqrt => x.sqrt(p, r),
                Elementary::Sin => x.sin(p, r, c),
                Elementary::Cos => x.cos(p, r, c),
                Elementary::Tan => x.tan(p, r, c),
                Elementary::Asin => x.asin(p, r, c),
                Elementary::Acos => x.acos(p, r, c),
                Elementary::Atan => x.atan(p, r, c),
                Elementary::Sinh => x.sinh(p, r, c),
                Elementary::Cosh => x.cosh(p, r, c),
                Elementary::Tanh => x.tanh(p, r, c),
                Elementary::Asinh => x.asinh(p, r, c),
                Elementary::Acosh => x.acosh(p, r, c),
                Elementary::Atanh => x.atanh(p, r, c),
            })
        })
    }

    fn power(&self, exponent: f64) -> Self {
        self.call(Elementary::Log).times(&Big::of(exponent)).exp()
    }

    /// 2 / √π Σ (−1)ⁿ x²ⁿ⁺¹ / (n! (2 n + 1)).
    fn erf(&self) -> Self {
        let square = self.times(self).negated();
        let mut term = self.clone();
        let mut sum = self.clone();
        for n in 1..2_000 {
            let n = f64::from(n);
            term = term.times(&square).over(&Big::of(n));
            let part = term.over(&Big::of(2.0 * n + 1.0));
            sum = sum.plus(&part);
            if part.exponent() < sum.exponent() - PRECISION as i32 {
                break;
            }
        }
        let pi = CONSTANTS.with_borrow_mut(|c| Big(c.pi(PRECISION, ROUNDING)));
        sum.times(&Big::of(2.0)).over(&pi.call(Elementary::Sqrt))
    }

    fn erfc(&self) -> Self {
        self.erf().negated().plus(&Big::of(1.0))
    }
}

pub fn sigmoid<R: Real>(x: &R) -> R {
    let one = R::of(1.0);
    one.over(&one.plus(&x.negated().exp()))
}

pub fn softplus<R: Real>(x: &R, negative: bool) -> R {
    if negative {
        x.exp().call(Elementary::Log1p)
    } else {
        x.plus(&x.negated().exp().call(Elementary::Log1p))
    }
}

/// x n / (n + 2) with n = eˣ (eˣ + 2): x tanh(ln(1 + eˣ)).
pub fn mish<R: Real>(x: &R) -> R {
    let two = R::of(2.0);
    let e = x.exp();
    let n = e.times(&e.plus(&two));
    x.times(&n).over(&n.plus(&two))
}

pub fn swish<R: Real>(x: &R, alpha: f64) -> R {
    x.times(&sigmoid(&x.times(&R::of(alpha))))
}

/// γ x above zero, γ α (e^(x/δ) − 1) else.
pub fn elu<R: Real>(x: &R, negative: bool, alpha: f64, gamma: f64, delta: f64) -> R {
    let x = x.clone();
    if negative {
        let e = x.over(&R::of(delta)).call(Elementary::Expm1);
        e.times(&R::of(alpha)).times(&R::of(gamma))
    } else {
        x.times(&R::of(gamma))
    }
}

pub fn gelu<R: Real>(x: &R) -> R {
    let half = R::of(0.5);
    let argument = x.times(&half.call(Elementary::Sqrt)).negated();
    x.times(&half).times(&argument.erfc())
}

/// x / (1 + e^−2u), u = √(2/π) (x + 0.044715 x³).
pub fn gelu_tanh<R: Real>(x: &R) -> R {
    let quarter = R::of(1.0).call(Elementary::Atan);
    let scale = R::of(0.5).over(&quarter).call(Elementary::Sqrt);
    let cube = x
        .times(x)
        .times(x)
        .times(&R::of(44_715.0))
        .over(&R::of(1e6));
    let u = x.plus(&cube).times(&scale);
    x.times(&sigmoid(&u.plus(&u)))
}
