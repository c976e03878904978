//! Every operation of several operands against an index-by-index reference, over random shapes, divisions and tiers.

mod common;

use common::{
    NUMERIC, Number, Number::*, Random, assert_same, numbers, operand_index, shapes, tensor,
};
use onl_cpu::IsaTier;
use onl_elementwise::{
    Binary, BinaryOp, ElementwiseError, Pow, Select, Variadic, VariadicOp, broadcast_shape,
};
use onl_executor::CpuExecutor;
use onl_snapshot::ParallelConfig;
use onl_tensor::{ElementType, Tensor};
use proptest::prelude::*;

const BINARY: [BinaryOp; 19] = [
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::Div,
    BinaryOp::ModFloor,
    BinaryOp::ModTruncated,
    BinaryOp::Min,
    BinaryOp::Max,
    BinaryOp::Equal,
    BinaryOp::Less,
    BinaryOp::LessOrEqual,
    BinaryOp::Greater,
    BinaryOp::GreaterOrEqual,
    BinaryOp::And,
    BinaryOp::Or,
    BinaryOp::Xor,
    BinaryOp::ShiftLeft,
    BinaryOp::ShiftRight,
    BinaryOp::PRelu,
];

/// The operation on two elements; `None` for a division by zero.
fn reference(op: BinaryOp, bits: usize, a: Number, b: Number) -> Option<Number> {
    let nan = |x: f64, y: f64| x.is_nan() || y.is_nan();
    Some(match (op, a, b) {
        (BinaryOp::Add, Integer(a), Integer(b)) => Integer(a + b),
        (BinaryOp::Add, Float(a), Float(b)) => Float(a + b),
        (BinaryOp::Sub, Integer(a), Integer(b)) => Integer(a - b),
        (BinaryOp::Sub, Float(a), Float(b)) => Float(a - b),
        (BinaryOp::Mul, Integer(a), Integer(b)) => Integer(a.wrapping_mul(b)),
        (BinaryOp::Mul, Float(a), Float(b)) => Float(a * b),
        (BinaryOp::Div, Integer(a), Integer(b)) => Integer(a.checked_div(b)?),
        (BinaryOp::Div, Float(a), Float(b)) => Float(a / b),
        (BinaryOp::ModFloor, Integer(a), Integer(b)) => {
            let remainder = a.checked_rem(b)?;
            Integer(if remainder != 0 && (remainder < 0) != (b < 0) {
                remainder + b
            } else {
                remainder
            })
        }
        (BinaryOp::ModFloor, Float(a), Float(b)) => {
            let remainder = libm::fmod(a, b);
            Float(if remainder == 0.0 {
                0f64.copysign(b)
            } else if (remainder < 0.0) != (b < 0.0) && !remainder.is_nan() {
                if b.is_infinite() { b } else { remainder + b }
            } else {
                remainder
            })
        }
        (BinaryOp::ModTruncated, Integer(a), Integer(b)) => Integer(a.checked_rem(b)?),
        (BinaryOp::ModTruncated, Float(a), Float(b)) => Float(libm::fmod(a, b)),
        (BinaryOp::Min, Integer(a), Integer(b)) => Integer(a.min(b)),
        (BinaryOp::Min, Float(a), Float(b)) if nan(a, b) => Float(f64::NAN),
        (BinaryOp::Min, Float(a), Float(b)) => Float(if a < b { a } else { b }),
        (BinaryOp::Max, Integer(a), Integer(b)) => Integer(a.max(b)),
        (BinaryOp::Max, Float(a), Float(b)) if nan(a, b) => Float(f64::NAN),
        (BinaryOp::Max, Float(a), Float(b)) => Float(if a > b { a } else { b }),
        (BinaryOp::Equal, a, b) => Boolean(a == b),
        (BinaryOp::Less, Integer(a), Integer(b)) => Boolean(a < b),
        (BinaryOp::Less, Float(a), Float(b)) => Boolean(a < b),
        (BinaryOp::LessOrEqual, Integer(a), Integer(b)) => Boolean(a <= b),
        (BinaryOp::LessOrEqual, Float(a), Float(b)) => Boolean(a <= b),
        (BinaryOp::Greater, Integer(a), Integer(b)) => Boolean(a > b),
        (BinaryOp::Greater, Float(a), Float(b)) => Boolean(a > b),
        (BinaryOp::GreaterOrEqual, Integer(a), Integer(b)) => Boolean(a >= b),
        (BinaryOp::GreaterOrEqual, Float(a), Float(b)) => Boolean(a >= b),
        (BinaryOp::And, Integer(a), Integer(b)) => Integer(a & b),
        (BinaryOp::And, Boolean(a), Boolean(b)) => Boolean(a && b),
        (BinaryOp::Or, Integer(a), Integer(b)) => Integer(a | b),
        (BinaryOp::Or, Boolean(a), Boolean(b)) => Boolean(a || b),
        (BinaryOp::Xor, Integer(a), Integer(b)) => Integer(a ^ b),
        (BinaryOp::Xor, Boolean(a), Boolean(b)) => Boolean(a != b),
        (BinaryOp::ShiftLeft, Integer(a), Integer(b)) => {
            Integer(if (0..bits as i128).contains(&b) {
                a << b
            } else {
                0
            })
        }
        (BinaryOp::ShiftRight, Integer(a), Integer(b)) => {
            Integer(if (0..bits as i128).contains(&b) {
                a >> b
            } else {
                a >> 127
            })
        }
        (BinaryOp::PRelu, Integer(a), Integer(b)) => Integer(if a < 0 { a * b } else { a }),
        (BinaryOp::PRelu, Float(a), Float(b)) => Float(if a < 0.0 { a * b } else { a }),
        (op, a, b) => panic!("{op:?} of {a:?} and {b:?}"),
    })
}

/// A division among lanes and a tier.
#[derive(Debug)]
struct Setting {
    lanes: usize,
    config: ParallelConfig,
    tier: IsaTier,
}

fn setting(random: &mut Random) -> Setting {
    Setting {
        lanes: random.choose(&[1, 2, 3, 7]),
        config: ParallelConfig {
            minimum_elements: random.choose(&[1, 1, 1000, usize::MAX]),
            grain_elements: random.choose(&[256, 300, 16_384]),
            maximum_participants: 0,
        },
        tier: random.choose(IsaTier::available()),
    }
}

fn run_binary(
    op: BinaryOp,
    a: &Tensor,
    b: &Tensor,
    setting: &Setting,
) -> Result<Tensor, ElementwiseError> {
    let operation = Binary::new(op, a.element_type(), setting.tier)?;
    let shape = broadcast_shape(&[a.dims(), b.dims()])?;
    let mut output = Tensor::zeros(operation.output_type(), &shape)?;
    let executor = CpuExecutor::with_lanes(setting.lanes);
    let run = executor.enter();
    operation.run(
        a.view(),
        b.view(),
        &mut output.view_mut()?,
        &setting.config,
        run.lanes(),
    )?;
    Ok(output)
}

fn check_binary(op: BinaryOp, element_type: ElementType, random: &mut Random, largest: usize) {
    let (output, operands) = shapes(random, 2, largest);
    let a = random.tensor(element_type, &operands[0]);
    let b = random.tensor(element_type, &operands[1]);
    let setting = setting(random);
    let case = format!("{op:?} {element_type} {operands:?} {setting:?}");
    let actual = match run_binary(op, &a, &b, &setting) {
        Err(ElementwiseError::ElementType { .. }) => return,
        other => other,
    };
    let (x, y) = (numbers(&a), numbers(&b));
    let count: usize = output.iter().product();
    let elements: Vec<Option<Number>> = (0..count)
        .map(|i| {
            let a = x[operand_index(&output, &operands[0], i)];
            let b = y[operand_index(&output, &operands[1], i)];
            reference(op, element_type.bits(), a, b)
        })
        .collect();
    match elements.iter().position(Option::is_none) {
        Some(position) => assert_eq!(
            actual.expect_err(&case),
            ElementwiseError::DivisionByZero { position },
            "{case}"
        ),
        None => {
            let elements: Vec<Number> = elements.into_iter().flatten().collect();
            let output_type = op.output_type(element_type);
            let expected = tensor(output_type, &output, &elements);
            assert_same(&case, &actual.expect(&case), &expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn binary_operations_follow_the_reference(seed in 1u64..) {
        let mut random = Random(seed);
        for op in BINARY {
            for element_type in NUMERIC.into_iter().chain([ElementType::Bool]) {
                check_binary(op, element_type, &mut random, 3_000);
            }
        }
    }

    #[test]
    fn variadic_operations_follow_the_reference(seed in 1u64..) {
        let mut random = Random(seed);
        for op in [VariadicOp::Sum, VariadicOp::Mean, VariadicOp::Min, VariadicOp::Max] {
            for element_type in NUMERIC {
                check_variadic(op, element_type, &mut random);
            }
        }
    }

    #[test]
    fn select_follows_the_reference(seed in 1u64..) {
        let mut random = Random(seed);
        for element_type in NUMERIC.into_iter().chain([ElementType::Bool]) {
            check_select(element_type, &mut random);
        }
    }

    #[test]
    fn strings_follow_the_reference(seed in 1u64..) {
        check_strings(&mut Random(seed));
    }

    #[test]
    fn powers_follow_the_reference(seed in 1u64..) {
        let mut random = Random(seed);
        for base in [ElementType::Float32, ElementType::Float64, ElementType::Float16, ElementType::BFloat16] {
            for exponent in NUMERIC {
                check_float_power(base, exponent, &mut random);
            }
        }
        for base in [ElementType::Int32, ElementType::Int64] {
            for exponent in NUMERIC {
                check_integer_power(base, exponent, &mut random);
            }
        }
    }
}

/// Rounds to the type that elements are computed in.
fn step(element_type: ElementType, x: f64) -> f64 {
    match element_type {
        ElementType::Float64 => x,
        _ => f64::from(x as f32),
    }
}

fn check_variadic(op: VariadicOp, element_type: ElementType, random: &mut Random) {
    let count = 1 + random.below(4);
    let (output, operands) = shapes(random, count, 2_000);
    let setting = setting(random);
    let Ok(operation) = Variadic::new(op, element_type, setting.tier) else {
        assert!(!element_type.is_float() && matches!(op, VariadicOp::Sum | VariadicOp::Mean));
        return;
    };
    let case = format!("{op:?} {element_type} {operands:?} {setting:?}");
    let tensors: Vec<Tensor> = operands
        .iter()
        .map(|dims| random.tensor(element_type, dims))
        .collect();
    let values: Vec<Vec<Number>> = tensors.iter().map(numbers).collect();
    let total: usize = output.iter().product();
    let elements: Vec<Number> = (0..total)
        .map(|i| {
            let mut at = (0..count).map(|k| values[k][operand_index(&output, &operands[k], i)]);
            let first = at.next().unwrap();
            let combined = at.fold(first, |a, b| {
                let op = match op {
                    VariadicOp::Sum | VariadicOp::Mean => BinaryOp::Add,
                    VariadicOp::Min => BinaryOp::Min,
                    VariadicOp::Max => BinaryOp::Max,
                };
                match reference(op, 0, a, b).unwrap() {
                    Float(x) => Float(step(element_type, x)),
                    other => other,
                }
            });
            match (op, combined) {
                (VariadicOp::Mean, Float(sum)) => Float(sum / count as f64),
                _ => combined,
            }
        })
        .collect();
    let mut actual = Tensor::zeros(element_type, &output).unwrap();
    let executor = CpuExecutor::with_lanes(setting.lanes);
    let run = executor.enter();
    let views: Vec<_> = tensors.iter().map(Tensor::view).collect();
    operation
        .run(
            &views,
            &mut actual.view_mut().unwrap(),
            &setting.config,
            run.lanes(),
        )
        .expect(&case);
    assert_same(&case, &actual, &tensor(element_type, &output, &elements));
}

fn run_select(condition: &Tensor, x: &Tensor, y: &Tensor, setting: &Setting) -> Tensor {
    let operation = Select::new(x.element_type(), setting.tier).unwrap();
    let shape = broadcast_shape(&[condition.dims(), x.dims(), y.dims()]).unwrap();
    let mut output = Tensor::zeros(x.element_type(), &shape).unwrap();
    let executor = CpuExecutor::with_lanes(setting.lanes);
    let run = executor.enter();
    operation
        .run(
            condition.view(),
            x.view(),
            y.view(),
            &mut output.view_mut().unwrap(),
            &setting.config,
            run.lanes(),
        )
        .unwrap();
    output
}

fn check_select(element_type: ElementType, random: &mut Random) {
    let (output, operands) = shapes(random, 3, 2_000);
    let setting = setting(random);
    let condition = random.tensor(ElementType::Bool, &operands[0]);
    let x = random.tensor(element_type, &operands[1]);
    let y = random.tensor(element_type, &operands[2]);
    let (c, p, q) = (numbers(&condition), numbers(&x), numbers(&y));
    let total: usize = output.iter().product();
    let elements: Vec<Number> = (0..total)
        .map(|i| {
            if c[operand_index(&output, &operands[0], i)] == Boolean(true) {
                p[operand_index(&output, &operands[1], i)]
            } else {
                q[operand_index(&output, &operands[2], i)]
            }
        })
        .collect();
    let case = format!("Where {element_type} {operands:?} {setting:?}");
    let actual = run_select(&condition, &x, &y, &setting);
    assert_same(&case, &actual, &tensor(element_type, &output, &elements));
}

fn check_strings(random: &mut Random) {
    let (output, operands) = shapes(random, 3, 1_000);
    let setting = setting(random);
    let condition = random.tensor(ElementType::Bool, &operands[0]);
    let mut words = |dims: &[usize]| -> Vec<String> {
        let count = dims.iter().product();
        (0..count)
            .map(|_| random.choose(&["", "a", "longer"]).to_owned())
            .collect()
    };
    let (p, q) = (words(&operands[1]), words(&operands[2]));
    let x = Tensor::from_strings(&operands[1], p.clone()).unwrap();
    let y = Tensor::from_strings(&operands[2], q.clone()).unwrap();
    let c = numbers(&condition);
    let total: usize = output.iter().product();
    let at = |i: usize, k: usize| operand_index(&output, &operands[k], i);
    let chosen: Vec<String> = (0..total)
        .map(|i| {
            if c[at(i, 0)] == Boolean(true) {
                p[at(i, 1)].clone()
            } else {
                q[at(i, 2)].clone()
            }
        })
        .collect();
    let actual = run_select(&condition, &x, &y, &setting);
    assert_eq!(actual.as_strings().unwrap(), chosen);

    let shape = broadcast_shape(&[x.dims(), y.dims()]).unwrap();
    let equal = run_binary(BinaryOp::Equal, &x, &y, &setting).unwrap();
    let total: usize = shape.iter().product();
    let expected: Vec<Number> = (0..total)
        .map(|i| {
            let (i, j) = (
                operand_index(&shape, &operands[1], i),
                operand_index(&shape, &operands[2], i),
            );
            Boolean(p[i] == q[j])
        })
        .collect();
    assert_eq!(numbers(&equal), expected);
}

fn run_pow(a: &Tensor, b: &Tensor, setting: &Setting) -> Result<Tensor, ElementwiseError> {
    let operation = Pow::new(a.element_type(), b.element_type(), setting.tier)?;
    let shape = broadcast_shape(&[a.dims(), b.dims()])?;
    let mut output = Tensor::zeros(a.element_type(), &shape)?;
    let executor = CpuExecutor::with_lanes(setting.lanes);
    let run = executor.enter();
    operation.run(
        a.view(),
        b.view(),
        &mut output.view_mut()?,
        &setting.config,
        run.lanes(),
    )?;
    Ok(output)
}

/// Position of a float in the order of all floats of its type.
fn ordinal(element_type: ElementType, x: f64) -> i64 {
    let signed = |magnitude: u64, negative: bool| {
        let magnitude = magnitude as i64;
        if negative { -magnitude } else { magnitude }
    };
    match element_type {
        ElementType::Float64 => signed(x.abs().to_bits(), x < 0.0),
        ElementType::Float32 => signed((x.abs() as f32).to_bits().into(), x < 0.0),
        ElementType::Float16 => signed(
            half::f16::from_f32(x.abs() as f32).to_bits().into(),
            x < 0.0,
        ),
        _ => signed(
            half::bf16::from_f32(x.abs() as f32).to_bits().into(),
            x < 0.0,
        ),
    }
}

/// Powers lie within 2 units in the last place of `libm`'s f64 power: 1 of the computation (two roundings of a cube,
/// or 0.55 of the vector body) and 1 where the f64 power itself or the narrowing falls on the other side.
fn check_float_power(base: ElementType, exponent: ElementType, random: &mut Random) {
    let (output, operands) = shapes(random, 2, 1_500);
    let setting = setting(random);
    let a = random.tensor(base, &operands[0]);
    let b = random.tensor(exponent, &operands[1]);
    let case = format!("Pow {base} {exponent} {operands:?} {setting:?}");
    let actual = run_pow(&a, &b, &setting).expect(&case);
    let (x, y, z) = (numbers(&a), numbers(&b), numbers(&actual));
    for (i, z) in z.iter().enumerate() {
        let x = x[operand_index(&output, &operands[0], i)].float();
        let y = y[operand_index(&output, &operands[1], i)];
        let mut expected = libm::pow(x, y.float());
        if let Integer(y) = y
            && y.abs() > 1 << 53
            && y % 2 != 0
            && x.is_sign_negative()
        {
            expected = -libm::pow(-x, y as f64);
        }
        let z = z.float();
        let same = z.is_nan() && expected.is_nan();
        let distance = (ordinal(base, z) - ordinal(base, expected)).abs();
        assert!(
            same || (!z.is_nan() && !expected.is_nan() && distance <= 2),
            "{case}: {x:?} to the {y:?} is {z:?}, expected {expected:?}"
        );
    }
}

fn check_integer_power(base: ElementType, exponent: ElementType, random: &mut Random) {
    let (output, operands) = shapes(random, 2, 1_500);
    let setting = setting(random);
    let a = random.tensor(base, &operands[0]);
    let b = random.tensor(exponent, &operands[1]);
    let case = format!("Pow {base} {exponent} {operands:?} {setting:?}");
    let (x, y) = (numbers(&a), numbers(&b));
    let total: usize = output.iter().product();
    let narrow = |x: f64| match base {
        ElementType::Int32 => i128::from(x as i32),
        _ => i128::from(x as i64),
    };
    let elements: Vec<Option<Number>> = (0..total)
        .map(|i| {
            let x = x[operand_index(&output, &operands[0], i)].integer();
            let y = y[operand_index(&output, &operands[1], i)];
            match y {
                Float(y) => Some(Integer(narrow(libm::pow(x as f64, y)))),
                Integer(y) if y >= 0 => {
                    let mut result = 1i64;
                    // Powers repeat modulo 2^64 long before the exponent does: fold it by repeated squaring.
                    for bit in (0..64).rev() {
                        result = result.wrapping_mul(result);
                        if y >> bit & 1 == 1 {
                            result = result.wrapping_mul(x as i64);
                        }
                    }
                    Some(Integer(result.into()))
                }
                Integer(y) => match x {
                    0 => None,
                    1 => Some(Integer(1)),
                    -1 => Some(Integer(if y % 2 == 0 { 1 } else { -1 })),
                    _ => Some(Integer(0)),
                },
                Boolean(_) => unreachable!(),
            }
        })
        .collect();
    let actual = run_pow(&a, &b, &setting);
    match elements.iter().position(Option::is_none) {
        Some(position) => assert_eq!(
            actual.expect_err(&case),
            ElementwiseError::DivisionByZero { position },
            "{case}"
        ),
        None => {
            let elements: Vec<Number> = elements.into_iter().flatten().collect();
            assert_same(
                &case,
                &actual.expect(&case),
                &tensor(base, &output, &elements),
            );
        }
    }
}

#[test]
fn powers_of_special_exponents() {
    let x = [
        -2.0f32,
        -0.0,
        0.0,
        3.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        1e20,
        1e-20,
    ];
    let cases: [(&str, f32, [f32; 8]); 5] = [
        ("zero", 0.0, [1.0; 8]),
        ("one", 1.0, x),
        ("two", 2.0, x.map(|x| x * x)),
        ("three", 3.0, x.map(|x| x * x * x)),
        (
            "half",
            0.5,
            [
                f32::NAN,
                0.0,
                0.0,
                3.0f32.sqrt(),
                f32::INFINITY,
                f32::INFINITY,
                1e20f32.sqrt(),
                1e-20f32.sqrt(),
            ],
        ),
    ];
    let setting = setting(&mut Random(1));
    let bases = Tensor::from_slice(&[8], &x).unwrap();
    for (case, y, expected) in cases {
        let expected = Tensor::from_slice(&[8], &expected).unwrap();
        let one = run_pow(&bases, &Tensor::scalar(y).unwrap(), &setting).unwrap();
        assert_same(case, &one, &expected);
        let each = Tensor::from_slice(&[8], &[y; 8]).unwrap();
        let each = run_pow(&bases, &each, &setting).unwrap();
        assert_same(case, &each, &expected);
    }
}

#[test]
fn the_first_division_by_zero_is_reported_for_every_division_among_lanes() {
    for (case, dims, divisor_dims, zeros, position) in [
        ("one zero", vec![9_000], vec![9_000], vec![4_321], 4_321),
        (
            "two chunks meet one each",
            vec![9_000],
            vec![9_000],
            vec![8_000, 300],
            300,
        ),
        ("a scalar", vec![9_000], vec![], vec![0], 0),
        ("a repeated row", vec![90, 100], vec![100], vec![37], 37),
        ("a repeated short row", vec![3_000, 3], vec![3], vec![2], 2),
        ("a column", vec![90, 100], vec![90, 1], vec![41, 80], 4_100),
    ] {
        let a = Tensor::from_slice(&dims, &vec![7i32; dims.iter().product()]).unwrap();
        let mut divisors = vec![2i32; divisor_dims.iter().product()];
        for &zero in &zeros {
            divisors[zero] = 0;
        }
        let b = Tensor::from_slice(&divisor_dims, &divisors).unwrap();
        for lanes in [1, 2, 3, 7] {
            for grain_elements in [256, 1_000, 16_384] {
                for &tier in IsaTier::available() {
                    let config = ParallelConfig {
                        minimum_elements: 1,
                        grain_elements,
                        maximum_participants: 0,
                    };
                    let setting = Setting {
                        lanes,
                        config,
                        tier,
                    };
                    for op in [BinaryOp::Div, BinaryOp::ModFloor, BinaryOp::ModTruncated] {
                        assert_eq!(
                            run_binary(op, &a, &b, &setting),
                            Err(ElementwiseError::DivisionByZero { position }),
                            "{case}: {op:?} {setting:?}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn shapes_that_do_not_broadcast() {
    for (case, a, b, expected) in [
        ("ranks differ", vec![3, 4], vec![4], Ok(vec![3, 4])),
        ("scalars", vec![], vec![], Ok(vec![])),
        ("zero against one", vec![0, 3], vec![1], Ok(vec![0, 3])),
        ("one against zero", vec![1, 3], vec![0, 1], Ok(vec![0, 3])),
        ("zero against three", vec![0], vec![3], Err(())),
        ("two against three", vec![2, 1], vec![3, 1], Err(())),
    ] {
        let shape = broadcast_shape(&[&a, &b]).map(|s| s.to_vec());
        assert_eq!(shape.map_err(|_| ()), expected, "{case}");
    }
}

#[test]
fn an_empty_output_divides_nothing() {
    let a = Tensor::from_slice::<i32>(&[0, 1], &[]).unwrap();
    let b = Tensor::from_slice(&[3], &[0, 0, 0]).unwrap();
    let output = run_binary(BinaryOp::Div, &a, &b, &setting(&mut Random(1))).unwrap();
    assert_eq!(output.dims(), [0, 3]);
}

#[test]
fn remainders_of_floats_are_exact_around_multiples_of_the_divisor() {
    let mut random = Random(29);
    let mut pairs = Vec::new();
    for _ in 0..20_000 {
        let b = f32::from_bits(random.next() as u32);
        let multiple = b * (random.next() % (1 << (random.next() % 40))) as f32;
        let step = (random.next() % 3) as u32;
        let a = f32::from_bits(multiple.to_bits().wrapping_add(step).wrapping_sub(1));
        pairs.push((a, b));
        pairs.push((f32::from_bits(random.next() as u32), b));
    }
    let column = |pick: fn(&(f32, f32)) -> f32, pairs: &[(f32, f32)]| {
        let elements: Vec<f32> = pairs.iter().map(pick).collect();
        Tensor::from_slice(&[elements.len()], &elements).unwrap()
    };
    // Blocks of ordinary pairs alone, and mixed ones.
    let finite = |&&(a, b): &&(f32, f32)| a.is_finite() && b.is_finite() && b.abs() > a.abs() / 1e8;
    let ordinary: Vec<(f32, f32)> = pairs.iter().filter(finite).copied().collect();
    assert!(ordinary.len() > 10_000);
    for pairs in [&ordinary, &pairs] {
        let (a, b) = (column(|pair| pair.0, pairs), column(|pair| pair.1, pairs));
        let expected: Vec<f32> = pairs.iter().map(|&(a, b)| libm::fmodf(a, b)).collect();
        let expected = Tensor::from_slice(&[pairs.len()], &expected).unwrap();
        for &tier in IsaTier::available() {
            let setting = Setting {
                tier,
                ..setting(&mut random)
            };
            let actual = run_binary(BinaryOp::ModTruncated, &a, &b, &setting).unwrap();
            assert_same(&format!("remainder {tier}"), &actual, &expected);
        }
    }
}
