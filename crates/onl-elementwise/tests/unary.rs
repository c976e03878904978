//! Operations of one operand: exact ones against a reference, transcendental ones by units in the last place, and
//! equal bits over tiers and divisions among lanes.

mod common;

use common::{NUMERIC, Number, Number::*, Random, assert_same, numbers, tensor};
use half::{bf16, f16};
use onl_cpu::IsaTier;
use onl_elementwise::{Clip, ElementwiseError, Unary, UnaryOp};
use onl_executor::{CpuExecutor, Lanes};
use onl_snapshot::ParallelConfig;
use onl_tensor::{ElementType, Tensor};

const FLOATS: [ElementType; 4] = [
    ElementType::Float32,
    ElementType::Float64,
    ElementType::Float16,
    ElementType::BFloat16,
];

const TRANSCENDENTAL: [UnaryOp; 9] = [
    UnaryOp::Exp,
    UnaryOp::Log,
    UnaryOp::Sigmoid,
    UnaryOp::Tanh,
    UnaryOp::Erf,
    UnaryOp::Sin,
    UnaryOp::Cos,
    UnaryOp::Gelu,
    UnaryOp::GeluTanh,
];

const EXACT: [UnaryOp; 16] = [
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
];

const SERIAL: ParallelConfig = ParallelConfig {
    minimum_elements: usize::MAX,
    grain_elements: 16_384,
    maximum_participants: 0,
};

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
        (UnaryOp::Not, Boolean(x)) => Boolean(!x),
        (UnaryOp::BitwiseNot, Integer(x)) => Integer(!x),
        (op, x) => panic!("{op:?} of {x:?}"),
    }
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
                    let expected: Vec<Number> = numbers(&input)
                        .into_iter()
                        .map(|x| reference(op, x))
                        .collect();
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
            UnaryOp::Abs | UnaryOp::Sign => NUMERIC.to_vec(),
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
        other => panic!("{other:?} is exact"),
    }
}

/// Units in the last place of the result's type, and absolute errors below which they do not count. f32 functions
/// state at most 2.4 units; narrowing to 16 bits adds half a unit to a fraction of one; f64 functions have the error of
/// the `libm` reference on top of their own unit. Both Gelu forms lose relative accuracy where 1 + Φ cancels.
fn tolerance(op: UnaryOp, element_type: ElementType) -> (f64, f64) {
    let absolute = match (op, element_type) {
        (UnaryOp::Gelu, _) => 1e-7,
        (UnaryOp::GeluTanh, ElementType::Float64) => 1e-15,
        (UnaryOp::GeluTanh, _) => 5e-7,
        _ => 0.0,
    };
    let units = match element_type {
        ElementType::Float16 | ElementType::BFloat16 => 1.0,
        _ => 3.0,
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
                    Float(if op == UnaryOp::Log { x.abs() } else { x })
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
                        .all(|(i, y)| i == 21 || *y == output[0]),
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

fn clip(
    input: &Tensor,
    low: Option<&Tensor>,
    high: Option<&Tensor>,
    tier: IsaTier,
) -> Result<Tensor, ElementwiseError> {
    let operation = Clip::new(input.element_type(), tier)?;
    let mut output = Tensor::zeros(input.element_type(), input.dims())?;
    operation.run(
        input.view(),
        low.map(Tensor::view),
        high.map(Tensor::view),
        &mut output.view_mut()?,
        &SERIAL,
        Lanes::serial(),
    )?;
    Ok(output)
}

#[test]
fn clip_follows_the_reference() {
    let mut random = Random(17);
    let nan = |x: Number| matches!(x, Float(x) if x.is_nan());
    let less = |a: Number, b: Number| match (a, b) {
        (Integer(a), Integer(b)) => a < b,
        (a, b) => a.float() < b.float(),
    };
    for element_type in NUMERIC {
        for bounds in 0..16 {
            let input = random.tensor(element_type, &[700]);
            let low = (bounds & 1 == 1).then(|| random.tensor(element_type, &[]));
            let high = (bounds & 2 == 2).then(|| random.tensor(element_type, &[1]));
            let expected: Vec<Number> = numbers(&input)
                .into_iter()
                .map(|mut x| {
                    if let Some(low) = &low {
                        let low = numbers(low)[0];
                        // Equal signed zeros give the bound.
                        if !nan(x) && !less(low, x) {
                            x = low;
                        }
                    }
                    if let Some(high) = &high {
                        let high = numbers(high)[0];
                        if !nan(x) && !less(x, high) {
                            x = high;
                        }
                    }
                    x
                })
                .collect();
            let expected = tensor(element_type, &[700], &expected);
            for &tier in IsaTier::available() {
                let actual = clip(&input, low.as_ref(), high.as_ref(), tier).unwrap();
                let case = format!("Clip {element_type} {low:?} {high:?} {tier}");
                assert_same(&case, &actual, &expected);
            }
        }
    }
}

#[test]
fn clip_edges() {
    let x = Tensor::from_slice(&[5], &[-3.0f32, 0.0, 9.0, f32::NAN, f32::INFINITY]).unwrap();
    let scalar = |v: f32| Tensor::scalar(v).unwrap();
    let nan = f32::NAN;
    for (case, low, high, expected) in [
        (
            "low above high gives high",
            Some(5.0),
            Some(2.0),
            [2.0, 2.0, 2.0, nan, 2.0],
        ),
        (
            "no bounds",
            None,
            None,
            [-3.0, 0.0, 9.0, nan, f32::INFINITY],
        ),
        (
            "low only",
            Some(1.0),
            None,
            [1.0, 1.0, 9.0, nan, f32::INFINITY],
        ),
        ("high only", None, Some(1.0), [-3.0, 0.0, 1.0, nan, 1.0]),
        ("a NaN bound", Some(nan), None, [nan; 5]),
    ] {
        let (low, high) = (low.map(scalar), high.map(scalar));
        let actual = clip(&x, low.as_ref(), high.as_ref(), IsaTier::detect()).unwrap();
        assert_same(case, &actual, &Tensor::from_slice(&[5], &expected).unwrap());
    }
    let two = Tensor::from_slice(&[2], &[0.0f32, 1.0]).unwrap();
    assert_eq!(
        clip(&x, None, Some(&two), IsaTier::Scalar),
        Err(ElementwiseError::NotScalar {
            index: 2,
            dims: vec![2]
        })
    );
}
