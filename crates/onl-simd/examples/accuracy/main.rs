//! Measures the errors of the elementary functions and prints the tables of `docs/accuracy.md`; fails when a bound does
//! not hold. The samples, and since bits are equal everywhere the tables, are the same on every machine.

mod functions;
mod reference;

use functions::{Celu, Elu, Pow9Point75, PowMinus2Point5, Reciprocal, Selu, Swish, SwishSteep};
use half::{bf16, f16};
use onl_cpu::IsaTier;
use onl_simd::math::{
    self, Acos, Acosh, Asin, Asinh, Atan, Atanh, Cos, Cosh, Erf, Exp, Expm1, Gelu, GeluTanh, Log,
    Mish, Sigmoid, Sin, Sinh, Softplus, Sqrt, Tan, Tanh, UnaryF32, UnaryF64,
};
use reference::{Big, Elementary, Real};
use std::process::ExitCode;

/// Inputs of `f32` in a range: evenly spread bit patterns, and evenly spread values.
const PATTERNS: usize = 1_500_000;
const VALUES: usize = 500_000;
/// As above, for `f64`, whose reference is slow.
const WIDE_PATTERNS: usize = 2_000;
const WIDE_VALUES: usize = 1_500;

/// How errors in a range are counted, and the bound that they keep.
#[derive(Debug, Clone, Copy)]
enum Bound {
    /// In units of the last place of the exact result.
    Ulp(f64),
    /// As a difference.
    Absolute(f64),
}

/// The largest and the mean error of some inputs.
#[derive(Default)]
struct Errors {
    points: usize,
    largest: f64,
    at: f64,
    sum: f64,
}

impl Errors {
    fn add(&mut self, x: f64, error: f64) {
        self.points += 1;
        self.sum += error;
        // NaN counts as the largest.
        if error.is_nan() || error > self.largest {
            self.largest = error;
            self.at = x;
        }
    }
}

/// The table under construction.
#[derive(Default)]
struct Report {
    failed: bool,
}

impl Report {
    fn row(
        &mut self,
        function: &str,
        element_type: &str,
        (from, to): (f64, f64),
        bound: Bound,
        errors: &Errors,
    ) {
        let (unit, limit) = match bound {
            Bound::Ulp(limit) => ("ULP", limit),
            Bound::Absolute(limit) => ("absolute", limit),
        };
        let holds = errors.largest <= limit;
        self.failed |= !holds;
        let number = |x: f64| match bound {
            Bound::Ulp(_) => format!("{x:.3}"),
            Bound::Absolute(_) => format!("{x:.1e}"),
        };
        println!(
            "| {function} | {element_type} | {} to {} | {} | {} | {} | {:e} | {limit} {unit}{} |",
            shown(from),
            shown(to),
            errors.points,
            number(errors.largest),
            number(errors.sum / errors.points as f64),
            errors.at,
            if holds { "" } else { " exceeded" }
        );
    }
}

/// A bound of a range, in few digits.
fn shown(x: f64) -> String {
    let size = x.abs();
    if x == 0.0 || (1e-3..1e6).contains(&size) {
        format!("{x}")
    } else {
        format!("{x:e}")
    }
}

/// Distance of `got` from `expected` in units of the last place of a format with `digits` fraction bits and a smallest
/// normal exponent; 0 where both overflow to the same infinity.
fn ulps(got: f64, expected: f64, overflows: bool, digits: i32, least: i32) -> f64 {
    if got.is_infinite() && overflows && (got > 0.0) == (expected > 0.0) {
        return 0.0;
    }
    let exponent = if expected == 0.0 {
        least
    } else {
        libm::ilogb(expected).max(least)
    };
    libm::scalbn((got - expected).abs(), digits - exponent)
}

/// Positions of the floats on a line: their order, as integers.
fn position_f32(x: f32) -> i64 {
    let bits = i64::from(x.to_bits() & 0x7fff_ffff);
    if x.is_sign_negative() { -bits } else { bits }
}

fn float_at(position: i64) -> f32 {
    let magnitude = f32::from_bits(position.unsigned_abs() as u32);
    if position < 0 { -magnitude } else { magnitude }
}

fn position_f64(x: f64) -> i128 {
    let bits = i128::from(x.to_bits() & (u64::MAX >> 1));
    if x.is_sign_negative() { -bits } else { bits }
}

fn double_at(position: i128) -> f64 {
    let magnitude = f64::from_bits(position.unsigned_abs() as u64);
    if position < 0 { -magnitude } else { magnitude }
}

fn inputs_f32(from: f32, to: f32) -> Vec<f32> {
    let (first, last) = (position_f32(from), position_f32(to));
    let step = ((last - first) / PATTERNS as i64).max(1);
    let mut inputs: Vec<f32> = (first..=last)
        .step_by(step as usize)
        .map(float_at)
        .collect();
    inputs.extend((0..VALUES).map(|i| {
        let part = i as f64 / VALUES as f64;
        (f64::from(from) * (1.0 - part) + f64::from(to) * part) as f32
    }));
    inputs
}

fn inputs_f64(from: f64, to: f64) -> Vec<f64> {
    let (first, last) = (position_f64(from), position_f64(to));
    let pattern = |i: usize| double_at(first + (last - first) * i as i128 / WIDE_PATTERNS as i128);
    // An irrational stride, so that fractions do not end in zeros.
    let value = |i: usize| {
        let part = (i as f64 * std::f64::consts::FRAC_1_SQRT_2).fract();
        from * (1.0 - part) + to * part
    };
    let mut inputs: Vec<f64> = (0..=WIDE_PATTERNS).map(pattern).collect();
    inputs.extend((0..WIDE_VALUES).map(value));
    inputs
}

fn measure_f32<U: UnaryF32>(
    reference: fn(&f64, bool) -> f64,
    (from, to): (f64, f64),
    bound: Bound,
) -> Errors {
    let inputs = inputs_f32(from as f32, to as f32);
    let mut outputs = vec![0.0; inputs.len()];
    math::map::<U>(IsaTier::detect(), &inputs, &mut outputs);
    let mut errors = Errors::default();
    for (&x, &y) in inputs.iter().zip(&outputs) {
        let x = f64::from(x);
        let expected = reference(&x, x < 0.0);
        let overflows = (expected as f32).is_infinite();
        errors.add(
            x,
            match bound {
                Bound::Ulp(_) => ulps(f64::from(y), expected, overflows, 23, -126),
                Bound::Absolute(_) => (f64::from(y) - expected).abs(),
            },
        );
    }
    errors
}

fn measure_f64<U: UnaryF64>(
    reference: fn(&Big, bool) -> Big,
    (from, to): (f64, f64),
    bound: Bound,
) -> Errors {
    let inputs = inputs_f64(from, to);
    let mut outputs = vec![0.0; inputs.len()];
    math::map_f64::<U>(IsaTier::detect(), &inputs, &mut outputs);
    let mut errors = Errors::default();
    for (&x, &y) in inputs.iter().zip(&outputs) {
        let expected = reference(&Big::of(x), x < 0.0);
        let exponent = expected.exponent();
        let overflows = exponent > 1023;
        let error = if y.is_infinite() && overflows {
            0.0
        } else {
            let difference = expected.minus(y);
            match bound {
                Bound::Ulp(_) => difference.scaled_to_f64(52 - exponent.max(-1022)).abs(),
                Bound::Absolute(_) => difference.scaled_to_f64(0).abs(),
            }
        };
        errors.add(x, error);
    }
    errors
}

/// All 65 536 inputs of a 16-bit type that lie in a range.
macro_rules! measure_16 {
    ($name:ident, $t:ty, $map:ident, $digits:literal, $least:literal) => {
        fn $name<U: UnaryF32>(
            reference: fn(&f64, bool) -> f64,
            (from, to): (f64, f64),
            bound: Bound,
        ) -> Errors {
            let inputs: Vec<$t> = (0..=u16::MAX)
                .map(<$t>::from_bits)
                .filter(|x| x.to_f64() >= from && x.to_f64() <= to)
                .collect();
            let mut outputs = vec![<$t>::ZERO; inputs.len()];
            math::$map::<U>(IsaTier::detect(), &inputs, &mut outputs);
            let mut errors = Errors::default();
            for (x, y) in inputs.iter().zip(&outputs) {
                let x = x.to_f64();
                let expected = reference(&x, x < 0.0);
                let overflows = <$t>::from_f64(expected).is_infinite();
                errors.add(
                    x,
                    match bound {
                        Bound::Ulp(_) => ulps(y.to_f64(), expected, overflows, $digits, $least),
                        Bound::Absolute(_) => (y.to_f64() - expected).abs(),
                    },
                );
            }
            errors
        }
    };
}

measure_16!(measure_f16, f16, map_f16, 10, -14);
measure_16!(measure_bf16, bf16, map_bf16, 7, -126);

/// Rows of a function: ranges and bounds of `f32`, of `f64`, then `=> f16, bf16` bounds over the first range.
macro_rules! function {
    ($report:ident, $name:literal, $function:ty, |$x:ident, $negative:ident| $reference:expr,
     f32 $([$from:expr, $to:expr] $bound:expr),+; f64 $([$from64:expr, $to64:expr] $bound64:expr),+; small $bound16:expr) => {{
        fn reference<R: Real>($x: &R, $negative: bool) -> R {
            let _ = $negative;
            $reference
        }
        $($report.row($name, "f32", ($from, $to), $bound, &measure_f32::<$function>(reference::<f64>, ($from, $to), $bound));)+
        $($report.row($name, "f64", ($from64, $to64), $bound64,
            &measure_f64::<$function>(reference::<Big>, ($from64, $to64), $bound64));)+
        let (from, to) = [$(($from, $to)),+][0];
        $report.row($name, "f16", (from, to), $bound16, &measure_f16::<$function>(reference::<f64>, (from, to), $bound16));
        $report.row($name, "bf16", (from, to), $bound16, &measure_bf16::<$function>(reference::<f64>, (from, to), $bound16));
    }};
}

fn main() -> ExitCode {
    use Bound::{Absolute, Ulp};
    use Elementary as E;
    const MAX: f64 = f32::MAX as f64;
    const MIN: f64 = f32::MIN_POSITIVE as f64;
    /// The least denormal.
    const TINY: f64 = 1.401_298_464_324_817e-45;
    /// The float below 1.
    const BELOW_ONE: f64 = 0.999_999_940_395_355_2;
    const DOUBLE: f64 = f64::MAX;
    /// One rounding of a result that is correct to a few units of f32.
    const ONCE: Bound = Ulp(0.501);
    let mut r = Report::default();
    println!("| function | type | range | points | largest error | mean error | at | bound |");
    println!("| --- | --- | --- | ---: | ---: | ---: | ---: | --- |");

    function!(r, "Exp", Exp, |x, _n| x.exp(),
        f32 [-104.0, 88.8] Ulp(1.0); f64 [-745.5, 709.9] Ulp(1.0); small ONCE);
    function!(r, "Log", Log, |x, _n| x.call(E::Log),
        f32 [TINY, MAX] Ulp(1.0), [0.5, 2.0] Ulp(1.0); f64 [f64::MIN_POSITIVE, DOUBLE] Ulp(1.0), [0.5, 2.0] Ulp(1.0); small ONCE);
    function!(r, "Sqrt", Sqrt, |x, _n| x.call(E::Sqrt),
        f32 [0.0, MAX] Ulp(0.501); f64 [MIN, DOUBLE] Ulp(0.501); small ONCE);
    function!(r, "Reciprocal", Reciprocal, |x, _n| R::of(1.0).over(x),
        f32 [TINY, MAX] Ulp(0.501); f64 [MIN, DOUBLE] Ulp(0.501); small ONCE);
    function!(r, "Sin", Sin, |x, _n| x.call(E::Sin),
        f32 [-MAX, MAX] Ulp(2.0), [-32.0, 32.0] Ulp(2.0); f64 [-1e9, 1e9] Ulp(2.0), [-32.0, 32.0] Ulp(2.0); small ONCE);
    function!(r, "Cos", Cos, |x, _n| x.call(E::Cos),
        f32 [-MAX, MAX] Ulp(2.0), [-32.0, 32.0] Ulp(2.0); f64 [-1e9, 1e9] Ulp(2.0), [-32.0, 32.0] Ulp(2.0); small ONCE);
    function!(r, "Tan", Tan, |x, _n| x.call(E::Tan),
        f32 [-MAX, MAX] Ulp(4.0), [-32.0, 32.0] Ulp(4.0); f64 [-1e9, 1e9] Ulp(4.0), [-32.0, 32.0] Ulp(4.0); small ONCE);
    function!(r, "Asin", Asin, |x, _n| x.call(E::Asin),
        f32 [-1.0, 1.0] Ulp(2.0); f64 [-1.0, 1.0] Ulp(2.0); small ONCE);
    function!(r, "Acos", Acos, |x, _n| x.call(E::Acos),
        f32 [-1.0, 1.0] Ulp(2.0); f64 [-1.0, 1.0] Ulp(2.0); small ONCE);
    function!(r, "Atan", Atan, |x, _n| x.call(E::Atan),
        f32 [-MAX, MAX] Ulp(2.0), [-8.0, 8.0] Ulp(2.0); f64 [-DOUBLE, DOUBLE] Ulp(2.0), [-8.0, 8.0] Ulp(2.0); small ONCE);
    function!(r, "Sinh", Sinh, |x, _n| x.call(E::Sinh),
        f32 [-89.5, 89.5] Ulp(4.0); f64 [-710.5, 710.5] Ulp(4.0); small ONCE);
    function!(r, "Cosh", Cosh, |x, _n| x.call(E::Cosh),
        f32 [-89.5, 89.5] Ulp(4.0); f64 [-710.5, 710.5] Ulp(4.0); small ONCE);
    function!(r, "Tanh", Tanh, |x, _n| x.call(E::Tanh),
        f32 [-MAX, MAX] Ulp(2.0), [-10.0, 10.0] Ulp(2.0); f64 [-100.0, 100.0] Ulp(2.0), [-2.0, 2.0] Ulp(2.0); small ONCE);
    function!(r, "Asinh", Asinh, |x, _n| x.call(E::Asinh),
        f32 [-MAX, MAX] Ulp(2.0), [-8.0, 8.0] Ulp(2.0); f64 [-1e300, 1e300] Ulp(2.0), [-2.0, 2.0] Ulp(2.0); small ONCE);
    function!(r, "Acosh", Acosh, |x, _n| x.call(E::Acosh),
        f32 [1.0, MAX] Ulp(2.0), [1.0, 4.0] Ulp(2.0); f64 [1.0, 1e300] Ulp(2.0), [1.0, 2.0] Ulp(2.0); small ONCE);
    function!(r, "Atanh", Atanh, |x, _n| x.call(E::Atanh),
        f32 [-BELOW_ONE, BELOW_ONE] Ulp(2.0); f64 [-BELOW_ONE, BELOW_ONE] Ulp(2.0); small ONCE);
    function!(r, "Sigmoid", Sigmoid, |x, _n| reference::sigmoid(x),
        f32 [-104.0, 104.0] Ulp(2.0), [-8.0, 8.0] Ulp(2.0); f64 [-708.0, 708.0] Ulp(2.0), [-8.0, 8.0] Ulp(2.0); small ONCE);
    function!(r, "Erf", Erf, |x, _n| x.erf(),
        f32 [-MAX, MAX] Ulp(2.0), [-4.0, 4.0] Ulp(2.0); f64 [-6.0, 6.0] Ulp(2.0); small ONCE);
    function!(r, "Gelu", Gelu, |x, _n| reference::gelu(x),
        f32 [-3.0, MAX] Ulp(4.0), [-40.0, -3.0] Absolute(6e-8); f64 [-1.0, 12.0] Ulp(4.0), [-10.0, -1.0] Absolute(1e-16);
        small ONCE);
    function!(r, "Gelu, tanh form", GeluTanh, |x, _n| reference::gelu_tanh(x),
        f32 [-1.0, 1e4] Ulp(4.0), [-100.0, -1.0] Absolute(6e-8); f64 [-1.0, 1e4] Ulp(4.0), [-100.0, -1.0] Absolute(1e-16);
        small ONCE);
    function!(r, "expm1 (inside others)", Expm1, |x, _n| x.call(E::Expm1),
        f32 [-20.0, 88.8] Ulp(2.0), [-1.0, 1.0] Ulp(2.0); f64 [-40.0, 709.9] Ulp(2.0), [-1.0, 1.0] Ulp(2.0); small ONCE);
    function!(r, "Softplus", Softplus, |x, n| reference::softplus(x, n),
        f32 [-104.0, 104.0] Ulp(4.0), [-8.0, 8.0] Ulp(4.0); f64 [-708.0, 708.0] Ulp(4.0), [-8.0, 8.0] Ulp(4.0); small ONCE);
    function!(r, "Mish", Mish, |x, _n| reference::mish(x),
        f32 [-110.0, 104.0] Ulp(4.0), [-8.0, 8.0] Ulp(4.0); f64 [-700.0, 300.0] Ulp(4.0), [-8.0, 8.0] Ulp(4.0); small ONCE);
    function!(r, "Swish, α = 1", Swish, |x, _n| reference::swish(x, 1.0),
        f32 [-110.0, 104.0] Ulp(4.0), [-8.0, 8.0] Ulp(4.0); f64 [-700.0, 708.0] Ulp(4.0), [-8.0, 8.0] Ulp(4.0); small ONCE);
    function!(r, "Swish, α = 1.703125", SwishSteep, |x, _n| reference::swish(x, 1.703125),
        f32 [-64.0, 104.0] Ulp(4.0), [-8.0, 8.0] Ulp(4.0); f64 [-400.0, 400.0] Ulp(4.0), [-8.0, 8.0] Ulp(4.0); small ONCE);
    function!(r, "Elu, α = 1", Elu, |x, n| reference::elu(x, n, 1.0, 1.0, 1.0),
        f32 [-40.0, 4.0] Ulp(4.0); f64 [-40.0, 4.0] Ulp(4.0); small ONCE);
    function!(r, "Celu, α = 2", Celu, |x, n| reference::elu(x, n, 2.0, 1.0, 2.0),
        f32 [-40.0, 4.0] Ulp(4.0); f64 [-40.0, 4.0] Ulp(4.0); small ONCE);
    function!(r, "Selu", Selu, |x, n| reference::elu(x, n, 1.671875, 1.05078125, 1.0),
        f32 [-40.0, 4.0] Ulp(4.0); f64 [-40.0, 4.0] Ulp(4.0); small ONCE);
    function!(r, "Pow, y = -2.5", PowMinus2Point5, |x, _n| x.power(-2.5),
        f32 [1e-14, 1e14] Ulp(1.0); f64 [1e-100, 1e100] Ulp(1.0); small ONCE);
    function!(r, "Pow, y = 9.75", Pow9Point75, |x, _n| x.power(9.75),
        f32 [1e-4, 1e4] Ulp(1.0); f64 [1e-30, 1e30] Ulp(1.0); small ONCE);

    if r.failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
