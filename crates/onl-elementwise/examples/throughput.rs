//! Prints nanoseconds per output element of elementwise operations on one lane, beside a plain copy of as many bytes as
//! the operation moves: `cargo run --release -p onl-elementwise --example throughput [-- SIZE [FILTER]]`.

use onl_cpu::IsaTier;
use onl_elementwise::{
    Binary, BinaryOp, Clip, Pow, Select, Unary, UnaryOp, Variadic, VariadicOp, broadcast_shape,
};
use onl_executor::Lanes;
use onl_snapshot::ParallelConfig;
use onl_tensor::{Bool, ElementType, Tensor, bf16, f16};
use std::time::Instant;

const CONFIG: ParallelConfig = ParallelConfig {
    minimum_elements: usize::MAX,
    grain_elements: 16_384,
    maximum_participants: 0,
};
/// Measurements of a case, of which the median counts.
const REPETITIONS: usize = 9;
/// Length of one measurement, in nanoseconds.
const MEASUREMENT: f64 = 1.5e6;

/// Standard normal numbers, roughly, times three; the same in every run.
fn normal(count: usize) -> Vec<f32> {
    let mut state = 1u64;
    let mut uniform = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    (0..count)
        .map(|_| 3.0 * ((0..12).map(|_| uniform()).sum::<f32>() - 6.0))
        .collect()
}

fn converted(element_type: ElementType, dims: &[usize], values: &[f32]) -> Tensor {
    macro_rules! tensor {
        ($convert:expr) => {
            Tensor::from_slice(dims, &values.iter().map($convert).collect::<Vec<_>>())
        };
    }
    let tensor = match element_type {
        ElementType::Float64 => tensor!(|&v| f64::from(v)),
        ElementType::Float16 => tensor!(|&v| f16::from_f32(v)),
        ElementType::BFloat16 => tensor!(|&v| bf16::from_f32(v)),
        ElementType::Int32 => tensor!(|&v| (v * 1000.0) as i32 | 1),
        ElementType::Int64 => tensor!(|&v| (v * 1000.0) as i64 | 1),
        ElementType::Int8 => tensor!(|&v| (v * 10.0) as i8 | 1),
        ElementType::Bool => tensor!(|&v| Bool::from(v > 0.0)),
        _ => tensor!(|&v| v),
    };
    tensor.expect("values for every element")
}

/// Median time of `run` in nanoseconds.
fn median(mut run: impl FnMut()) -> f64 {
    let start = Instant::now();
    run();
    let once = start.elapsed().as_nanos().max(20) as f64;
    let times = (MEASUREMENT / once).clamp(1.0, 1e5) as usize;
    let mut samples: Vec<f64> = (0..REPETITIONS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..times {
                run();
            }
            start.elapsed().as_nanos() as f64 / times as f64
        })
        .collect();
    samples.sort_by(f64::total_cmp);
    samples[REPETITIONS / 2]
}

struct Bench {
    size: usize,
    filter: String,
}

impl Bench {
    /// Measures an operation of some inputs whose output has the broadcast shape, and prints it beside a copy.
    fn case(
        &self,
        name: &str,
        inputs: &[&Tensor],
        output_type: ElementType,
        mut run: impl FnMut(&mut Tensor),
    ) {
        if !name.contains(&self.filter) {
            return;
        }
        let dims: Vec<&[usize]> = inputs.iter().map(|t| t.dims()).collect();
        let shape = broadcast_shape(&dims).expect("shapes fit");
        let mut output = Tensor::zeros(output_type, &shape).expect("the output fits into memory");
        let time = median(|| run(&mut output));
        let moved = inputs.iter().map(|t| t.bytes().len()).sum::<usize>() + output.bytes().len();
        let (source, mut target) = (vec![1u8; moved / 2], vec![0u8; moved / 2]);
        let copy = median(|| {
            std::hint::black_box(&mut target).copy_from_slice(std::hint::black_box(&source));
        });
        let elements = output.len().max(1) as f64;
        println!(
            "{name:28} {:8} {:9.4} copy {:9.4}",
            output.len(),
            time / elements,
            copy / elements
        );
    }

    fn unary(&self, name: &str, op: UnaryOp, input: &Tensor) {
        let operation = Unary::new(op, input.element_type(), IsaTier::detect()).expect(name);
        self.case(name, &[input], operation.output_type(), |output| {
            let mut view = output.view_mut().expect("a tensor of its own");
            operation
                .run(input.view(), &mut view, &CONFIG, Lanes::serial())
                .expect(name);
        });
    }

    fn binary(&self, name: &str, op: BinaryOp, a: &Tensor, b: &Tensor) {
        let operation = Binary::new(op, a.element_type(), IsaTier::detect()).expect(name);
        self.case(name, &[a, b], operation.output_type(), |output| {
            let mut view = output.view_mut().expect("a tensor of its own");
            operation
                .run(a.view(), b.view(), &mut view, &CONFIG, Lanes::serial())
                .expect(name);
        });
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let size = arguments
        .next()
        .map_or(65_536, |s| s.parse().expect("a number of elements"));
    let filter = arguments.next().unwrap_or_default();
    let bench = Bench { size, filter };
    let tier = IsaTier::detect();
    let n = bench.size;
    let values = normal(n);
    let map = |f: fn(f32) -> f32| values.iter().map(|&v| f(v)).collect::<Vec<f32>>();
    let f32s = |values: &[f32]| converted(ElementType::Float32, &[values.len()], values);
    let x = f32s(&values);
    let positive = f32s(&map(|v| v.abs() + 0.001));
    let unit = f32s(&map(|v| (v / 20.0).clamp(-1.0, 1.0)));
    let above_one = f32s(&map(|v| v.abs() + 1.0));
    let denormal = f32s(&map(|v| v * 1e-39));
    let infinite = f32s(&map(|v| if v > 0.0 { v } else { f32::NEG_INFINITY }));
    let low = f32s(&map(|v| -88.0 - v.abs()));

    for (name, op, input) in [
        ("Abs", UnaryOp::Abs, &x),
        ("Neg", UnaryOp::Neg, &x),
        ("Exp", UnaryOp::Exp, &x),
        ("Log", UnaryOp::Log, &positive),
        ("Sqrt", UnaryOp::Sqrt, &positive),
        ("Reciprocal", UnaryOp::Reciprocal, &positive),
        ("Sigmoid", UnaryOp::Sigmoid, &x),
        ("Tanh", UnaryOp::Tanh, &x),
        ("Erf", UnaryOp::Erf, &x),
        ("Gelu", UnaryOp::Gelu, &x),
        ("GeluTanh", UnaryOp::GeluTanh, &x),
        ("Sin", UnaryOp::Sin, &x),
        ("Cos", UnaryOp::Cos, &x),
        ("Tan", UnaryOp::Tan, &x),
        ("Asin", UnaryOp::Asin, &unit),
        ("Acos", UnaryOp::Acos, &unit),
        ("Atan", UnaryOp::Atan, &x),
        ("Sinh", UnaryOp::Sinh, &x),
        ("Cosh", UnaryOp::Cosh, &x),
        ("Asinh", UnaryOp::Asinh, &x),
        ("Acosh", UnaryOp::Acosh, &above_one),
        ("Atanh", UnaryOp::Atanh, &unit),
        ("Softplus", UnaryOp::Softplus, &x),
        ("Softsign", UnaryOp::Softsign, &x),
        ("Mish", UnaryOp::Mish, &x),
        ("Swish", UnaryOp::Swish { alpha: 1.0 }, &x),
        ("Elu", UnaryOp::Elu { alpha: 1.0 }, &x),
        ("Celu", UnaryOp::Celu { alpha: 1.0 }, &x),
        (
            "Selu",
            UnaryOp::Selu {
                alpha: 1.673_263_2,
                gamma: 1.050_701,
            },
            &x,
        ),
        (
            "HardSigmoid",
            UnaryOp::HardSigmoid {
                alpha: 0.2,
                beta: 0.5,
            },
            &x,
        ),
        ("HardSwish", UnaryOp::HardSwish, &x),
        ("LeakyRelu", UnaryOp::LeakyRelu { alpha: 0.01 }, &x),
        (
            "ThresholdedRelu",
            UnaryOp::ThresholdedRelu { alpha: 1.0 },
            &x,
        ),
        (
            "Shrink",
            UnaryOp::Shrink {
                lambda: 0.5,
                bias: 0.0,
            },
            &x,
        ),
        ("Relu", UnaryOp::Relu, &x),
        ("Round", UnaryOp::Round, &x),
        ("Floor", UnaryOp::Floor, &x),
        ("Sign", UnaryOp::Sign, &x),
        ("IsNaN", UnaryOp::IsNan, &x),
        ("Exp denormal", UnaryOp::Exp, &denormal),
        ("Exp infinite", UnaryOp::Exp, &infinite),
        ("Exp low", UnaryOp::Exp, &low),
        ("Tanh denormal", UnaryOp::Tanh, &denormal),
        ("Erf denormal", UnaryOp::Erf, &denormal),
        ("Gelu denormal", UnaryOp::Gelu, &denormal),
        ("Sigmoid infinite", UnaryOp::Sigmoid, &infinite),
        ("Sin denormal", UnaryOp::Sin, &denormal),
        ("Atan denormal", UnaryOp::Atan, &denormal),
        ("Softplus infinite", UnaryOp::Softplus, &infinite),
        ("Elu infinite", UnaryOp::Elu { alpha: 1.0 }, &infinite),
        (
            "Log denormal",
            UnaryOp::Log,
            &f32s(&map(|v| v.abs() * 1e-39)),
        ),
    ] {
        bench.unary(name, op, input);
    }
    for element_type in [
        ElementType::Float64,
        ElementType::Float16,
        ElementType::BFloat16,
    ] {
        let x = converted(element_type, &[n], &values);
        for (name, op) in [
            ("Exp", UnaryOp::Exp),
            ("Tanh", UnaryOp::Tanh),
            ("Sigmoid", UnaryOp::Sigmoid),
            ("Sin", UnaryOp::Sin),
            ("Abs", UnaryOp::Abs),
            ("Relu", UnaryOp::Relu),
        ] {
            bench.unary(&format!("{name} {element_type}"), op, &x);
        }
        bench.binary(&format!("Add {element_type}"), BinaryOp::Add, &x, &x);
    }

    let scalar = f32s(&[2.5]);
    let rows = (n / 768).max(1);
    let matrix = converted(ElementType::Float32, &[rows, 768], &normal(rows * 768));
    let row = f32s(&normal(768));
    let column = converted(ElementType::Float32, &[rows, 1], &normal(rows));
    for (name, op) in [
        ("Add", BinaryOp::Add),
        ("Mul", BinaryOp::Mul),
        ("Div", BinaryOp::Div),
        ("Max", BinaryOp::Max),
        ("Less", BinaryOp::Less),
        ("PRelu", BinaryOp::PRelu),
    ] {
        bench.binary(name, op, &x, &positive);
        bench.binary(&format!("{name} scalar"), op, &x, &scalar);
    }
    bench.binary("Add row", BinaryOp::Add, &matrix, &row);
    bench.binary("Add column", BinaryOp::Add, &matrix, &column);
    for element_type in [ElementType::Int8, ElementType::Int32, ElementType::Int64] {
        let x = converted(element_type, &[n], &values);
        for (name, op) in [
            ("Add", BinaryOp::Add),
            ("Div", BinaryOp::Div),
            ("Mod", BinaryOp::ModFloor),
            ("Equal", BinaryOp::Equal),
        ] {
            bench.binary(&format!("{name} {element_type}"), op, &x, &x);
        }
    }
    let operation = Clip::new(ElementType::Float32, tier).expect("Clip");
    let bounds = (f32s(&[-1.0]), f32s(&[1.0]));
    bench.case("Clip", &[&x], ElementType::Float32, |output| {
        let mut view = output.view_mut().expect("a tensor of its own");
        let (low, high) = (Some(bounds.0.view()), Some(bounds.1.view()));
        operation
            .run(x.view(), low, high, &mut view, &CONFIG, Lanes::serial())
            .expect("Clip");
    });
    for (name, op) in [
        ("Sum of three", VariadicOp::Sum),
        ("Max of three", VariadicOp::Max),
        ("Mean of three", VariadicOp::Mean),
    ] {
        let operation = Variadic::new(op, ElementType::Float32, tier).expect(name);
        bench.case(
            name,
            &[&x, &positive, &unit],
            ElementType::Float32,
            |output| {
                let mut view = output.view_mut().expect("a tensor of its own");
                let operands = [x.view(), positive.view(), unit.view()];
                operation
                    .run(&operands, &mut view, &CONFIG, Lanes::serial())
                    .expect(name);
            },
        );
    }
    let condition = converted(ElementType::Bool, &[n], &values);
    let operation = Select::new(ElementType::Float32, tier).expect("Where");
    bench.case(
        "Where",
        &[&condition, &x, &positive],
        ElementType::Float32,
        |output| {
            let mut view = output.view_mut().expect("a tensor of its own");
            operation
                .run(
                    condition.view(),
                    x.view(),
                    positive.view(),
                    &mut view,
                    &CONFIG,
                    Lanes::serial(),
                )
                .expect("Where");
        },
    );
    let two = f32s(&[2.0]);
    for (name, exponents) in [
        ("Pow square", &two),
        ("Pow scalar", &scalar),
        ("Pow", &unit),
    ] {
        let operation = Pow::new(ElementType::Float32, ElementType::Float32, tier).expect("Pow");
        bench.case(
            name,
            &[&positive, exponents],
            ElementType::Float32,
            |output| {
                let mut view = output.view_mut().expect("a tensor of its own");
                operation
                    .run(
                        positive.view(),
                        exponents.view(),
                        &mut view,
                        &CONFIG,
                        Lanes::serial(),
                    )
                    .expect(name);
            },
        );
    }
}
