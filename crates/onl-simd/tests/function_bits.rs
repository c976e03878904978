//! Every function gives the same bits on every tier, whatever its neighbours in the vector.

mod common;

use common::{Random, same_f32, same_f64, special_f32, special_f64, vector_tiers};
use half::{bf16, f16};
use onl_cpu::IsaTier;
use onl_simd::math::{
    self, Acos, Acosh, Asin, Asinh, Atan, Atanh, Cos, Cosh, Erf, Exp, Expm1, Gelu, GeluTanh, Log,
    Mish, Sigmoid, Sin, Sinh, Softplus, Sqrt, Tan, Tanh, UnaryF32, UnaryF64, double,
};
use onl_simd::{Isa, SimdOp, VectorOps, dispatch};

/// Elements compared at a time.
const BLOCK: usize = 4096;

fn compare_f32<U: UnaryF32>(name: &str, input: &[f32]) {
    let mut expected = vec![0.0; input.len()];
    math::map::<U>(IsaTier::Scalar, input, &mut expected);
    for tier in vector_tiers() {
        let mut got = vec![0.0; input.len()];
        math::map::<U>(tier, input, &mut got);
        for i in 0..input.len() {
            assert!(
                same_f32(got[i], expected[i]),
                "{name} of {:e} ({:#010x}) on {tier}: {:#010x}, not {:#010x}",
                input[i],
                input[i].to_bits(),
                got[i].to_bits(),
                expected[i].to_bits()
            );
        }
    }
}

fn compare_f64<U: UnaryF64>(name: &str, input: &[f64]) {
    let mut expected = vec![0.0; input.len()];
    math::map_f64::<U>(IsaTier::Scalar, input, &mut expected);
    for tier in vector_tiers() {
        let mut got = vec![0.0; input.len()];
        math::map_f64::<U>(tier, input, &mut got);
        for i in 0..input.len() {
            assert!(
                same_f64(got[i], expected[i]),
                "{name} of {:e} on {tier}: {:#018x}, not {:#018x}",
                input[i],
                got[i].to_bits(),
                expected[i].to_bits()
            );
        }
    }
}

/// Functions with attributes, of usual and of odd values.
macro_rules! with_attributes {
    ($($name:ident $function:ident($($attribute:literal),*);)*) => {$(
        struct $name;

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

with_attributes! {
    Elu elu(0.75);
    Celu celu(1.5);
    CeluNegative celu(-0.5);
    Selu selu(1.671875, 1.0625);
    Swish swish(1.0);
    SwishNegative swish(-2.25);
}

/// Calls a generic check with every function and its name.
macro_rules! every_function {
    ($check:ident($($argument:expr),*)) => {
        every_function!($check($($argument),*): Exp, Log, Sqrt, Sigmoid, Tanh, Erf, Gelu, GeluTanh, Sin, Cos, Tan, Asin, Acos,
            Atan, Sinh, Cosh, Asinh, Acosh, Atanh, Expm1, Softplus, Mish, Elu, Celu, CeluNegative, Selu, Swish, SwishNegative)
    };
    ($check:ident $arguments:tt: $($function:ident),*) => {
        $(every_function!(@ $check $function $arguments);)*
    };
    (@ $check:ident $function:ident ($($argument:expr),*)) => {
        $check::<$function>(stringify!($function) $(, $argument)*)
    };
}

fn compare_all_f32(input: &[f32]) {
    every_function!(compare_f32(input));
}

fn compare_all_f64(input: &[f64]) {
    every_function!(compare_f64(input));
}

#[test]
fn special_values_of_f32() {
    compare_all_f32(&special_f32());
}

#[test]
fn special_values_of_f64() {
    compare_all_f64(&special_f64());
}

#[test]
fn random_bit_patterns_of_f32() {
    let mut random = Random(1);
    for _ in 0..1_000_000 / BLOCK {
        let input: Vec<f32> = (0..BLOCK).map(|_| random.next_f32()).collect();
        compare_all_f32(&input);
    }
}

#[test]
fn ordinary_values_of_f32() {
    let mut random = Random(2);
    for _ in 0..100 {
        let input: Vec<f32> = (0..BLOCK)
            .map(|_| random.uniform(-12.0, 12.0) as f32)
            .collect();
        compare_all_f32(&input);
    }
}

#[test]
fn random_values_of_f64() {
    let mut random = Random(3);
    for _ in 0..50 {
        let input: Vec<f64> = (0..BLOCK).map(|_| random.next_f64()).collect();
        compare_all_f64(&input);
        let input: Vec<f64> = (0..BLOCK).map(|_| random.uniform(-40.0, 40.0)).collect();
        compare_all_f64(&input);
    }
}

fn every_float(step: usize) {
    let mut input = Vec::with_capacity(BLOCK);
    for bits in (0..=u32::MAX).step_by(step) {
        input.push(f32::from_bits(bits));
        if input.len() == BLOCK {
            compare_all_f32(&input);
            input.clear();
        }
    }
    compare_all_f32(&input);
}

#[test]
fn every_997th_float() {
    every_float(997);
}

#[test]
#[ignore = "the whole space of f32 takes tens of minutes, and only in a release build"]
fn every_float_there_is() {
    every_float(1);
}

struct Pow<'a> {
    x: &'a [f32],
    y: &'a [f32],
    result: &'a mut [f32],
}

impl SimdOp for Pow<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        let n = I::F32_LANES;
        let arguments = self.x.chunks(n).zip(self.y.chunks(n));
        for ((x, y), result) in arguments.zip(self.result.chunks_mut(n)) {
            let x = isa.load_partial_f32(x, 1.0);
            let y = isa.load_partial_f32(y, 1.0);
            isa.store_partial_f32(math::pow(isa, x, y), result);
        }
    }
}

struct PowF64<'a> {
    x: &'a [f64],
    y: &'a [f64],
    result: &'a mut [f64],
}

impl SimdOp for PowF64<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        let n = I::F64_LANES;
        let arguments = self.x.chunks(n).zip(self.y.chunks(n));
        for ((x, y), result) in arguments.zip(self.result.chunks_mut(n)) {
            let x = isa.load_partial_f64(x, 1.0);
            let y = isa.load_partial_f64(y, 1.0);
            isa.store_partial_f64(math::double::pow(isa, x, y), result);
        }
    }
}

fn pow(tier: IsaTier, x: &[f32], y: &[f32]) -> Vec<f32> {
    let mut result = vec![0.0; x.len()];
    let r = &mut result;
    dispatch(tier, Pow { x, y, result: r });
    result
}

fn compare_pow(x: &[f32], y: &[f32]) {
    let expected = pow(IsaTier::Scalar, x, y);
    for tier in vector_tiers() {
        let got = pow(tier, x, y);
        for i in 0..x.len() {
            assert!(
                same_f32(got[i], expected[i]),
                "pow({:e}, {:e}) on {tier}: {:e}, not {:e}",
                x[i],
                y[i],
                got[i],
                expected[i]
            );
        }
    }
}

#[test]
fn pow_of_special_and_random_pairs() {
    let special = special_f32();
    for &x in &special {
        compare_pow(&vec![x; special.len()], &special);
    }
    let mut random = Random(4);
    for _ in 0..100 {
        let x: Vec<f32> = (0..BLOCK).map(|_| random.next_f32()).collect();
        let y: Vec<f32> = (0..BLOCK).map(|_| random.next_f32()).collect();
        compare_pow(&x, &y);
        let x: Vec<f32> = (0..BLOCK)
            .map(|_| random.uniform(-20.0, 20.0) as f32)
            .collect();
        let y: Vec<f32> = (0..BLOCK)
            .map(|_| random.uniform(-9.0, 9.0).round() as f32)
            .collect();
        compare_pow(&x, &y);
        let x: Vec<f32> = (0..BLOCK)
            .map(|_| random.uniform(0.0, 50.0) as f32)
            .collect();
        let y: Vec<f32> = (0..BLOCK)
            .map(|_| random.uniform(-20.0, 20.0) as f32)
            .collect();
        compare_pow(&x, &y);
    }
}

#[test]
fn pow_of_f64() {
    let mut random = Random(5);
    let x: Vec<f64> = (0..10_001).map(|_| random.uniform(-5.0, 50.0)).collect();
    let y: Vec<f64> = (0..10_001)
        .map(|i| {
            if i % 3 == 0 {
                (i % 7) as f64
            } else {
                random.uniform(-20.0, 20.0)
            }
        })
        .collect();
    let run = |tier| {
        let mut result = vec![0.0; x.len()];
        let r = &mut result;
        dispatch(
            tier,
            PowF64 {
                x: &x,
                y: &y,
                result: r,
            },
        );
        result
    };
    let expected = run(IsaTier::Scalar);
    for tier in vector_tiers() {
        let got = run(tier);
        assert!(
            got.iter().zip(&expected).all(|(&a, &b)| same_f64(a, b)),
            "{tier}"
        );
    }
}

struct ExpOrdinary<'a>(&'a mut [f32]);

impl SimdOp for ExpOrdinary<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        for part in self.0.chunks_mut(I::F32_LANES) {
            let x = isa.load_partial_f32(part, 0.0);
            isa.store_partial_f32(math::exp_ordinary(isa, x), part);
        }
    }
}

#[test]
fn exp_ordinary_is_exp_in_its_domain() {
    let mut random = Random(6);
    let limit = math::EXP_ORDINARY_LIMIT;
    let mut input: Vec<f32> = (0..100_000)
        .map(|_| random.uniform(-87.33, 87.33) as f32)
        .collect();
    input.extend(special_f32().iter().filter(|x| x.abs() <= limit));
    for &tier in IsaTier::available() {
        let mut expected = vec![0.0; input.len()];
        math::map::<Exp>(tier, &input, &mut expected);
        let mut got = input.clone();
        dispatch(tier, ExpOrdinary(&mut got));
        assert!(
            got.iter()
                .zip(&expected)
                .all(|(a, b)| a.to_bits() == b.to_bits())
        );
    }
}

/// A lane does not depend on its neighbours, and a tail not on its length.
#[test]
fn lanes_are_independent() {
    fn check<U: UnaryF32>(name: &str) {
        let special = special_f32();
        for &tier in IsaTier::available() {
            let mut together = vec![0.0; special.len()];
            math::map::<U>(tier, &special, &mut together);
            for (&x, &expected) in special.iter().zip(&together) {
                let mut alone = [0.0];
                math::map::<U>(tier, &[x], &mut alone);
                assert!(same_f32(alone[0], expected), "{name} of {x:e} on {tier}");
            }
            for length in 0..67 {
                let mut tail = vec![7.0; length + 1];
                math::map::<U>(tier, &special[..length], &mut tail[..length]);
                assert!(
                    (0..length).all(|i| same_f32(tail[i], together[i])),
                    "{name}, {length} elements on {tier}"
                );
                assert_eq!(
                    tail[length], 7.0,
                    "{name} wrote past {length} elements on {tier}"
                );
            }
        }
    }
    every_function!(check());
}

/// 16-bit types: the f32 function of the widened value, rounded once, for every bit pattern there is.
#[test]
fn sixteen_bit_types_round_once() {
    fn check<U: UnaryF32>(name: &str) {
        let wide16: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
        let wideb: Vec<bf16> = (0..=u16::MAX).map(bf16::from_bits).collect();
        for &tier in IsaTier::available() {
            let x: Vec<f32> = wide16.iter().map(|x| x.to_f32()).collect();
            let mut y = vec![0.0; x.len()];
            math::map::<U>(tier, &x, &mut y);
            let mut got = vec![f16::ZERO; x.len() - 1];
            math::map_f16::<U>(tier, &wide16[1..], &mut got);
            for i in 1..x.len() {
                let expected = f16::from_f32(y[i]);
                assert!(
                    got[i - 1].to_bits() == expected.to_bits()
                        || (got[i - 1].is_nan() && expected.is_nan()),
                    "{name} of f16 {:#06x} on {tier}",
                    i
                );
            }
            let x: Vec<f32> = wideb.iter().map(|x| x.to_f32()).collect();
            math::map::<U>(tier, &x, &mut y);
            let mut got = vec![bf16::ZERO; x.len() - 1];
            math::map_bf16::<U>(tier, &wideb[1..], &mut got);
            for i in 1..x.len() {
                let expected = bf16::from_f32(y[i]);
                assert!(
                    got[i - 1].to_bits() == expected.to_bits()
                        || (got[i - 1].is_nan() && expected.is_nan()),
                    "{name} of bf16 {:#06x} on {tier}",
                    i
                );
            }
        }
    }
    every_function!(check());
}
