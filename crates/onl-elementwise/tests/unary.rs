//! Operations of one operand: exact ones against a reference, transcendental ones by units in the last place, and
//! equal bits over tiers and divisions among lanes.

mod common;

use common::{NUMERIC, Number, Number::*, Random, SERIAL, assert_same, numbers, tensor};
use half::{bf16, f16};
use onl_cpu::IsaTier;
use onl_elementwise::{ElementwiseError, Unary, UnaryOp};
use onl_executor::CpuExecutor;
use onl_snapshot::ParallelConfig;
use onl_tensor::{Bool, ElementType, Tensor};
use std::f32::consts::{FRAC_PI_2, PI};

const FLOATS: [ElementType; 4] = [
    ElementType::Float32,
    ElementType::Float64,
    ElementType::Float16,
    ElementType::BFloat16,
];

const TRANSCENDENTAL: [UnaryOp; 24] = [
    UnaryOp::Exp,
    UnaryOp::Log,
    UnaryOp::Sigmoid,
    UnaryOp::Tanh,
    UnaryOp::Erf,
    UnaryOp::Sin,
    UnaryOp::Cos,
    UnaryOp::Gelu,
    UnaryOp::GeluTanh,
    UnaryOp::Tan,
    UnaryOp::Asin,
    UnaryOp::Acos,
    UnaryOp::Atan,
    UnaryOp::Sinh,
    UnaryOp::Cosh,
    UnaryOp::Asinh,
    UnaryOp::Acosh,
    UnaryOp::Atanh,
    UnaryOp::Softplus,
    UnaryOp::Mish,
    UnaryOp::Swish { alpha: 1.25 },
    UnaryOp::Elu { alpha: 0.75 },
    UnaryOp::Celu { alpha: 1.5 },
    UnaryOp::Selu {
        alpha: 1.671875,
        gamma: 1.0625,
    },
];

const EXACT: [UnaryOp; 23] = [
    UnaryOp::Abs,
    UnaryOp::Neg,
    UnaryOp::Sqrt,
    UnaryOp::Reciprocal,
    UnaryOp::Relu,
    UnaryOp::Floor,
    UnaryOp::Ceil,
    UnaryOp::Round,
    UnaryOp::Sign,
    UnaryOp::IsNan,
    UnaryOp::IsInf {
        negative: false,
        positive: false,
    },
    UnaryOp::IsInf {
        negative: false,
        positive: true,
    },
    UnaryOp::IsInf {
        negative: true,
        positive: false,
    },
    UnaryOp::IsInf {
        negative: true,
        positive: true,
    },
    UnaryOp::Not,
    UnaryOp::BitwiseNot,
    UnaryOp::Softsign,
    UnaryOp::HardSwish,
    UnaryOp::HardSigmoid {
        alpha: 0.25,
        beta: 0.5,
    },
    UnaryOp::LeakyRelu { alpha: 0.125 },
    UnaryOp::ThresholdedRelu { alpha: 0.75 },
    UnaryOp::Shrink {
        lambda: 1.5,
        bias: -0.75,
    },
    UnaryOp::Shrink {
        lambda: 2.0,
        bias: 3.5,
    },
];

fn run(op: UnaryOp, input: &Tensor, tier: IsaTier) -> Result<Tensor, ElementwiseError> {
    run_divided(op, input, tier, SERIAL, 1)
}

fn run_divided(
    op: UnaryOp,
    input: &Tensor,
    tier: IsaTier,
    config: ParallelConfig,
    lanes: usize,
) -> Result<Tensor, ElementwiseError> {
    let operation = Unary::new(op, input.element_type(), tier)?;
    let mut output = Tensor::zeros(operation.output_type(), input.dims())?;
    let executor = CpuExecutor::with_lanes(lanes);
    let run = executor.enter();
    operation.run(input.view(), &mut output.view_mut()?, &config, run.lanes())?;
    Ok(output)
}

fn reference(op: UnaryOp, x: Number) -> Number {
    match (op, x) {
        (UnaryOp::Abs, Integer(x)) => Integer(x.abs()),
        (UnaryOp::Abs, Float(x)) => Float(x.abs()),
        (UnaryOp::Neg, Integer(x)) => Integer(-x),
        (UnaryOp::Neg, Float(x)) => Float(-x),
        (UnaryOp::Sqrt, Float(x)) => Float(x.sqrt()),
        (UnaryOp::Reciprocal, Float(x)) => Float(1.0 / x),
        (UnaryOp::Relu, Integer(x)) => Integer(x.max(0)),
        (UnaryOp::Relu, Float(x)) => Float(if x.is_nan() || x > 0.0 { x } else { 0.0 }),
        (UnaryOp::Floor, Float(x)) => Float(x.floor()),
        (UnaryOp::Ceil, Float(x)) => Float(x.ceil()),
        (UnaryOp::Round, Float(x)) => Float(libm::rint(x)),
        (UnaryOp::Sign, Integer(x)) => Integer(x.signum()),
        (UnaryOp::Sign, Float(x)) if x.is_nan() => Float(x),
        (UnaryOp::Sign, Float(x)) => {
            Float(f64::from(i8::from(x > 0.0)) - f64::from(i8::from(x < 0.0)))
        }
        (UnaryOp::IsNan, Float(x)) => Boolean(x.is_nan()),
        (UnaryOp::IsInf { negative, positive }, Float(x)) => {
            Boolean((negative && x == f64::NEG_INFINITY) || (positive && x == f64::INFINITY))
        }
        (UnaryOp::Softsign, Float(x)) if x.is_infinite() => Float(x.signum()),
        (UnaryOp::LeakyRelu { alpha }, Float(x)) => {
            Float(if x < 0.0 { x * f64::from(alpha) } else { x })
        }
        (UnaryOp::ThresholdedRelu { alpha }, Float(x)) => {
            Float(if x > f64::from(alpha) { x } else { 0.0 })
        }
        (UnaryOp::HardSigmoid { alpha, beta }, Float(x)) => {
            let y = x.mul_add(f64::from(alpha), f64::from(beta));
            Float(if y.is_nan() { y } else { y.clamp(0.0, 1.0) })
        }
        (UnaryOp::Shrink { lambda, bias }, Float(x)) => Float(if x < -f64::from(lambda) {
            x + f64::from(bias)
        } else if x > f64::from(lambda) {
            x - f64::from(bias)
        } else {
            0.0
        }),
        (UnaryOp::Shrink { lambda, bias }, Integer(x)) => {
            // In quarters, which hold the tested attributes.
            let (threshold, bias) = ((lambda * 4.0) as i128, (bias * 4.0) as i128);
            let quarters = 4 * x;
            Integer(if quarters < -threshold {
                (quarters + bias) / 4
            } else if quarters > threshold {
                (quarters - bias) / 4
            } else {
                0
            })
        }
        (UnaryOp::Not, Boolean(x)) => Boolean(!x),
        (UnaryOp::BitwiseNot, Integer(x)) => Integer(!x),
        (op, x) => panic!("{op:?} of {x:?}"),
    }
}

/// Integers held within their type where `Shrink` may leave it (the smallest number stays that of `Abs` and `Neg`).
fn saturated(op: UnaryOp, element_type: ElementType, expected: Vec<Number>) -> Vec<Number> {
    if !matches!(op, UnaryOp::Shrink { .. }) {
        return expected;
    }
    let bits = element_type.bits();
    let (low, high) = if element_type.name().starts_with('u') {
        (0, (1i128 << bits) - 1)
    } else {
        (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
    };
    expected
        .into_iter()
        .map(|x| match x {
            Integer(x) => Integer(x.clamp(low, high)),
            other => other,
        })
        .collect()
}

/// Softsign and HardSwish take up to four roundings: a result within two units of the last place, or of 2⁻²⁴ for the
/// 16-bit types beside their own half unit.
fn expect_near(case: &str, op: UnaryOp, element_type: ElementType, x: Number, y: Number) {
    let (x, y) = (x.float(), y.float());
    let expected = match op {
        _ if x.is_nan() => return assert!(y.is_nan(), "{case} of NaN is {y}"),
        UnaryOp::Softsign if x.is_infinite() => x.signum(),
        UnaryOp::Softsign => x / (1.0 + x.abs()),
        _ if x == f64::NEG_INFINITY => 0.0,
        _ => x * ((x + 3.0).clamp(0.0, 6.0) / 6.0),
    };
    let near = (y - expected).abs() <= 2.0 * unit(element_type, expected);
    assert!(
        y == expected || near,
        "{case} of {x:e} is {y:e}, expected {expected:e}"
    );
}

#[test]
fn exact_operations_follow_the_reference() {
    let mut random = Random(7);
    for op in EXACT {
        for element_type in NUMERIC.into_iter().chain([ElementType::Bool]) {
            for length in [0, 1, 15, 16, 17, 1_000] {
                let input = random.tensor(element_type, &[length]);
                for &tier in IsaTier::available() {
                    let case = format!("{op:?} {element_type} {length} {tier}");
                    let actual = match run(op, &input, tier) {
                        Err(ElementwiseError::ElementType { .. }) => continue,
                        other => other.expect(&case),
                    };
                    // Rounded in the steps of the type itself.
                    if matches!(op, UnaryOp::Softsign | UnaryOp::HardSwish) {
                        let (x, y) = (numbers(&input), numbers(&actual));
                        x.iter()
                            .zip(&y)
                            .for_each(|(x, y)| expect_near(&case, op, element_type, *x, *y));
                        continue;
                    }
                    let expected: Vec<Number> = numbers(&input)
                        .into_iter()
                        .map(|x| reference(op, x))
                        .collect();
                    let expected = saturated(op, element_type, expected);
                    let expected = tensor(op.output_type(element_type), &[length], &expected);
                    assert_same(&case, &actual, &expected);
                }
            }
        }
    }
}

#[test]
fn every_operation_admits_the_types_of_its_operator() {
    let integers = |signed_only: bool| {
        NUMERIC
            .into_iter()
            .filter(move |t| !t.is_float() && (!signed_only || t.name().starts_with('i')))
    };
    for op in TRANSCENDENTAL.into_iter().chain(EXACT) {
        let admitted: Vec<ElementType> = match op {
            UnaryOp::Abs | UnaryOp::Sign | UnaryOp::Erf | UnaryOp::Shrink { .. } => {
                NUMERIC.to_vec()
            }
            UnaryOp::IsNan | UnaryOp::IsInf { .. } => FLOATS
                .into_iter()
                .chain([
                    ElementType::Float8E4M3FN,
                    ElementType::Float8E4M3FNUZ,
                    ElementType::Float8E5M2,
                    ElementType::Float8E5M2FNUZ,
                ])
                .collect(),
            UnaryOp::Neg | UnaryOp::Relu => FLOATS.into_iter().chain(integers(true)).collect(),
            UnaryOp::Not => vec![ElementType::Bool],
            UnaryOp::BitwiseNot => integers(false).collect(),
            _ => FLOATS.to_vec(),
        };
        for element_type in ElementType::ALL {
            assert_eq!(
                Unary::new(op, element_type, IsaTier::Scalar).is_ok(),
                admitted.contains(&element_type),
                "{op:?} {element_type}"
            );
        }
    }
}

/// The function in f64.
fn wide(op: UnaryOp, x: f64) -> f64 {
    let half_erfc = |x: f64| 0.5 * libm::erfc(x);
    match op {
        UnaryOp::Exp => libm::exp(x),
        UnaryOp::Log => libm::log(x),
        UnaryOp::Sigmoid if x < 0.0 => libm::exp(x) / (1.0 + libm::exp(x)),
        UnaryOp::Sigmoid => 1.0 / (1.0 + libm::exp(-x)),
        UnaryOp::Tanh => libm::tanh(x),
        UnaryOp::Erf => libm::erf(x),
        UnaryOp::Sin => libm::sin(x),
        UnaryOp::Cos => libm::cos(x),
        UnaryOp::Gelu => x * half_erfc(-x * std::f64::consts::FRAC_1_SQRT_2),
        UnaryOp::GeluTanh => {
            let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
            0.5 * x * (1.0 + libm::tanh(u))
        }
        UnaryOp::Tan => libm::tan(x),
        UnaryOp::Asin => libm::asin(x),
        UnaryOp::Acos => libm::acos(x),
        UnaryOp::Atan => libm::atan(x),
        UnaryOp::Sinh => libm::sinh(x),
        UnaryOp::Cosh => libm::cosh(x),
        UnaryOp::Asinh => libm::asinh(x),
        UnaryOp::Acosh => libm::acosh(x),
        UnaryOp::Atanh => libm::atanh(x),
        UnaryOp::Softplus => x.max(0.0) + libm::log1p(libm::exp(-x.abs())),
        UnaryOp::Mish => {
            let e = libm::exp(-x.abs());
            let (n, d) = if x < 0.0 {
                (e * (e + 2.0), e * (e + 2.0) + 2.0)
            } else {
                (1.0 + 2.0 * e, 1.0 + 2.0 * e + 2.0 * e * e)
            };
            x * (n / d)
        }
        UnaryOp::Swish { alpha } => x / (1.0 + libm::exp(-x * f64::from(alpha))),
        UnaryOp::Elu { alpha } if x < 0.0 => f64::from(alpha) * libm::expm1(x),
        UnaryOp::Celu { alpha } if x < 0.0 => f64::from(alpha) * libm::expm1(x / f64::from(alpha)),
        UnaryOp::Selu { alpha, gamma } if x <= 0.0 => {
            f64::from(alpha) * f64::from(gamma) * libm::expm1(x)
        }
        UnaryOp::Selu { gamma, .. } => x * f64::from(gamma),
        UnaryOp::Elu { .. } | UnaryOp::Celu { .. } => x,
        other => panic!("{other:?} is exact"),
    }
}

/// Units in the last place of the result's type, and absolute errors below which they do not count. f32 functions
/// state at most 4 units; narrowing to 16 bits adds half a unit to a fraction of one; f64 functions have the error of
/// the reference on top of their own. Both Gelu forms lose relative accuracy far below zero.
fn tolerance(op: UnaryOp, element_type: ElementType) -> (f64, f64) {
    let absolute = match (op, element_type) {
        (UnaryOp::Gelu, _) => 1e-7,
        (UnaryOp::GeluTanh, ElementType::Float64) => 1e-15,
        (UnaryOp::GeluTanh, _) => 1e-7,
        _ => 0.0,
    };
    let units = match element_type {
        ElementType::Float16 | ElementType::BFloat16 => 1.0,
        // A unit of the argument of the exponential counts 50 times at −50, which the reference has too.
        ElementType::Float64 if matches!(op, UnaryOp::Swish { .. }) => 60.0,
        _ => 4.0,
    };
    (units, absolute)
}

/// Spacing of the floats of a type at a value.
fn unit(element_type: ElementType, x: f64) -> f64 {
    let (digits, smallest) = match element_type {
        ElementType::Float64 => (52, f64::from_bits(1)),
        ElementType::Float32 => (23, f64::from(f32::from_bits(1))),
        ElementType::Float16 => (10, f16::from_bits(1).to_f64()),
        _ => (7, bf16::from_bits(1).to_f64()),
    };
    if x == 0.0 {
        return smallest;
    }
    libm::exp2(f64::from(libm::ilogb(x) - digits)).max(smallest)
}

#[test]
fn transcendental_functions_are_accurate() {
    let mut random = Random(11);
    for op in TRANSCENDENTAL {
        for element_type in FLOATS {
            let inputs: Vec<Number> = (0..20_000)
                .map(|i| {
                    let u = random.next() as f64 / u64::MAX as f64 * 2.0 - 1.0;
                    let scale = [0.01, 1.0, 8.0, 40.0][i % 4];
                    let x = u * scale;
                    Float(match op {
                        UnaryOp::Log => x.abs(),
                        UnaryOp::Acosh => 1.0 + x.abs(),
                        UnaryOp::Asin | UnaryOp::Acos | UnaryOp::Atanh => u,
                        _ => x,
                    })
                })
                .collect();
            let input = tensor(element_type, &[inputs.len()], &inputs);
            let output = run(op, &input, IsaTier::detect()).unwrap();
            let (units, absolute) = tolerance(op, element_type);
            for (x, y) in numbers(&input).into_iter().zip(numbers(&output)) {
                let (x, y) = (x.float(), y.float());
                let expected = wide(op, x);
                let rounded = match element_type {
                    ElementType::Float64 => expected,
                    ElementType::Float32 => f64::from(expected as f32),
                    ElementType::Float16 => f16::from_f32(expected as f32).to_f64(),
                    _ => bf16::from_f32(expected as f32).to_f64(),
                };
                let error = (y - expected).abs();
                assert!(
                    y == rounded
                        || error <= absolute
                        || error <= units * unit(element_type, expected),
                    "{op:?} {element_type} of {x:e} is {y:e}, expected {expected:e}"
                );
            }
        }
    }
}

#[test]
fn special_values_of_transcendental_functions() {
    const INF: f32 = f32::INFINITY;
    const NAN: f32 = f32::NAN;
    for (op, cases) in [
        (
            UnaryOp::Exp,
            vec![(0.0, 1.0), (-INF, 0.0), (INF, INF), (NAN, NAN), (89.0, INF)],
        ),
        (
            UnaryOp::Log,
            vec![
                (1.0, 0.0),
                (0.0, -INF),
                (-0.0, -INF),
                (INF, INF),
                (-1.0, NAN),
                (NAN, NAN),
            ],
        ),
        (
            UnaryOp::Sigmoid,
            vec![(0.0, 0.5), (-INF, 0.0), (INF, 1.0), (NAN, NAN)],
        ),
        (
            UnaryOp::Tanh,
            vec![
                (0.0, 0.0),
                (-0.0, -0.0),
                (-INF, -1.0),
                (INF, 1.0),
                (NAN, NAN),
                (1e-40, 1e-40),
            ],
        ),
        (
            UnaryOp::Erf,
            vec![
                (0.0, 0.0),
                (-0.0, -0.0),
                (-INF, -1.0),
                (INF, 1.0),
                (NAN, NAN),
            ],
        ),
        (
            UnaryOp::Sin,
            vec![(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (NAN, NAN)],
        ),
        (UnaryOp::Cos, vec![(0.0, 1.0), (INF, NAN), (NAN, NAN)]),
        (
            UnaryOp::Tan,
            vec![
                (0.0, 0.0),
                (-0.0, -0.0),
                (-INF, NAN),
                (NAN, NAN),
                (1e-40, 1e-40),
            ],
        ),
        (
            UnaryOp::Asin,
            vec![
                (-0.0, -0.0),
                (1.0, FRAC_PI_2),
                (-1.0, -FRAC_PI_2),
                (1.5, NAN),
                (INF, NAN),
                (NAN, NAN),
            ],
        ),
        (
            UnaryOp::Acos,
            vec![(1.0, 0.0), (-1.0, PI), (-1.5, NAN), (NAN, NAN)],
        ),
        (
            UnaryOp::Atan,
            vec![
                (-0.0, -0.0),
                (INF, FRAC_PI_2),
                (-INF, -FRAC_PI_2),
                (NAN, NAN),
                (1e-40, 1e-40),
            ],
        ),
        (
            UnaryOp::Sinh,
            vec![
                (-0.0, -0.0),
                (INF, INF),
                (-INF, -INF),
                (-90.0, -INF),
                (NAN, NAN),
                (1e-40, 1e-40),
            ],
        ),
        (
            UnaryOp::Cosh,
            vec![(0.0, 1.0), (INF, INF), (-INF, INF), (90.0, INF), (NAN, NAN)],
        ),
        (
            UnaryOp::Asinh,
            vec![
                (-0.0, -0.0),
                (INF, INF),
                (-INF, -INF),
                (NAN, NAN),
                (1e-40, 1e-40),
            ],
        ),
        (
            UnaryOp::Acosh,
            vec![(1.0, 0.0), (INF, INF), (0.5, NAN), (-INF, NAN), (NAN, NAN)],
        ),
        (
            UnaryOp::Atanh,
            vec![
                (-0.0, -0.0),
                (1.0, INF),
                (-1.0, -INF),
                (1.5, NAN),
                (INF, NAN),
                (NAN, NAN),
                (1e-40, 1e-40),
            ],
        ),
        (
            UnaryOp::Softplus,
            vec![
                (-INF, 0.0),
                (INF, INF),
                (NAN, NAN),
                (-200.0, 0.0),
                (200.0, 200.0),
            ],
        ),
        (
            UnaryOp::Mish,
            vec![
                (-INF, -0.0),
                (INF, INF),
                (NAN, NAN),
                (-0.0, -0.0),
                (200.0, 200.0),
            ],
        ),
        (
            UnaryOp::Swish { alpha: 1.0 },
            vec![
                (-INF, -0.0),
                (INF, INF),
                (NAN, NAN),
                (-0.0, -0.0),
                (200.0, 200.0),
            ],
        ),
        (
            UnaryOp::Swish { alpha: -2.0 },
            vec![(-INF, -INF), (INF, 0.0), (NAN, NAN), (-3e38, -3e38)],
        ),
        (
            UnaryOp::Elu { alpha: 0.5 },
            vec![(-INF, -0.5), (INF, INF), (NAN, NAN), (-0.0, -0.0)],
        ),
        (
            UnaryOp::Celu { alpha: 2.0 },
            vec![(-INF, -2.0), (INF, INF), (NAN, NAN), (-0.0, -0.0)],
        ),
        (
            UnaryOp::Celu { alpha: -1.0 },
            vec![(-INF, -INF), (INF, INF), (NAN, NAN), (3.0, 3.0)],
        ),
        (
            UnaryOp::Selu {
                alpha: 2.0,
                gamma: 1.5,
            },
            vec![(-INF, -3.0), (INF, INF), (NAN, NAN), (0.0, 0.0), (2.0, 3.0)],
        ),
        (UnaryOp::Gelu, vec![(0.0, 0.0), (INF, INF), (NAN, NAN)]),
    ] {
        for &tier in IsaTier::available() {
            // Among ordinary neighbours, which must not matter.
            for (x, expected) in &cases {
                let mut elements = [0.75f32; 40];
                elements[21] = *x;
                let input = Tensor::from_slice(&[40], &elements).unwrap();
                let output = run(op, &input, tier).unwrap();
                let output = output.as_slice::<f32>().unwrap();
                let same = output[21].to_bits() == expected.to_bits()
                    || (output[21].is_nan() && expected.is_nan());
                assert!(
                    same,
                    "{op:?} of {x} is {}, expected {expected} ({tier})",
                    output[21]
                );
                assert!(
                    output
                        .iter()
                        .enumerate()
                        .all(|(i, y)| i == 21 || y.to_bits() == output[0].to_bits()),
                    "{op:?}: neighbours of {x} changed ({tier})"
                );
            }
        }
    }
}

#[test]
fn bits_are_equal_over_tiers_and_divisions() {
    let mut random = Random(13);
    for op in TRANSCENDENTAL.into_iter().chain(EXACT) {
        for element_type in NUMERIC.into_iter().chain([ElementType::Bool]) {
            let input = random.tensor(element_type, &[3, 1_111]);
            let Ok(expected) = run(op, &input, IsaTier::Scalar) else {
                continue;
            };
            for &tier in IsaTier::available() {
                for (lanes, minimum_elements, grain_elements) in [
                    (1, 1, 256),
                    (2, 1, 16_384),
                    (3, 1, 257),
                    (7, 1, 999),
                    (2, usize::MAX, 256),
                ] {
                    let config = ParallelConfig {
                        minimum_elements,
                        grain_elements,
                        maximum_participants: 0,
                    };
                    let actual = run_divided(op, &input, tier, config, lanes).unwrap();
                    let case = format!("{op:?} {element_type} {tier} {lanes} {config:?}");
                    assert_same(&case, &actual, &expected);
                }
            }
        }
    }
}

/// NaN and infinities of every bit pattern of the 8-bit formats, by their definition: E4M3FN has NaN alone, at all ones
/// below the sign; the FNUZ formats have one NaN, at negative zero; E5M2 is as IEEE.
#[test]
fn special_values_of_8_bit_floats() {
    let bytes: Vec<u8> = (0..=u8::MAX).collect();
    let e5m2 = |x: u8| (x & 0x7c == 0x7c, x & 3 != 0, x >= 0x80);
    for element_type in [
        ElementType::Float8E4M3FN,
        ElementType::Float8E4M3FNUZ,
        ElementType::Float8E5M2,
        ElementType::Float8E5M2FNUZ,
    ] {
        let input = Tensor::from_bytes(element_type, &[256], &bytes).unwrap();
        for (negative, positive) in [(false, false), (false, true), (true, false), (true, true)] {
            for &tier in IsaTier::available() {
                let nan = run(UnaryOp::IsNan, &input, tier).unwrap();
                let op = UnaryOp::IsInf { negative, positive };
                let infinite = run(op, &input, tier).unwrap();
                for x in bytes.iter().copied() {
                    let (special, fraction, below) = e5m2(x);
                    let (is_nan, is_infinite) = match element_type {
                        ElementType::Float8E4M3FN => (x & 0x7f == 0x7f, false),
                        ElementType::Float8E5M2 => (
                            special && fraction,
                            special && !fraction && if below { negative } else { positive },
                        ),
                        _ => (x == 0x80, false),
                    };
                    let at = |t: &Tensor| bool::from(t.as_slice::<Bool>().unwrap()[usize::from(x)]);
                    assert_eq!(at(&nan), is_nan, "IsNaN {element_type} {x:#x}");
                    assert_eq!(at(&infinite), is_infinite, "{op:?} {element_type} {x:#x}");
                }
            }
        }
    }
}

#[test]
fn erf_of_integers_is_truncated() {
    let input = Tensor::from_slice(&[7], &[-100i8, -6, -5, 0, 5, 6, 127]).unwrap();
    let expected = Tensor::from_slice(&[7], &[-1i8, -1, 0, 0, 0, 1, 1]).unwrap();
    assert_eq!(run(UnaryOp::Erf, &input, IsaTier::detect()), Ok(expected));
    let input = Tensor::from_slice(&[3], &[0u64, 5, u64::MAX]).unwrap();
    let expected = Tensor::from_slice(&[3], &[0u64, 0, 1]).unwrap();
    assert_eq!(run(UnaryOp::Erf, &input, IsaTier::detect()), Ok(expected));
}

/// The largest 64-bit integers, which f64 does not hold.
#[test]
fn shrink_of_large_integers_is_exact() {
    let op = UnaryOp::Shrink {
        lambda: 0.0,
        bias: 1.5,
    };
    let input = Tensor::from_slice(&[4], &[i64::MAX, i64::MIN, -(1 << 60), 1 << 60]).unwrap();
    let expected = [i64::MAX - 2, i64::MIN + 2, -(1 << 60) + 2, (1 << 60) - 2];
    let expected = Tensor::from_slice(&[4], &expected).unwrap();
    assert_eq!(run(op, &input, IsaTier::detect()), Ok(expected));
}
