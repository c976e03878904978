//! Nodes that calibration, verification, bit tests and benches run; sizes count output elements.

use crate::{Example, ExampleInput};
use onl_ir::Attribute;
use onl_tensor::{Bool, ElementType, Shape, Tensor, bf16, f16};
use std::sync::Arc;

/// Makes the input of an example with these dimensions.
type Make = fn(ElementType, &[usize]) -> ExampleInput;

fn uniform(element_type: ElementType, dims: &[usize], low: f64, high: f64) -> ExampleInput {
    ExampleInput::Uniform {
        element_type,
        shape: Shape::new(dims),
        low,
        high,
    }
}

fn positive(element_type: ElementType, dims: &[usize]) -> ExampleInput {
    uniform(element_type, dims, 1.0, 100.0)
}

/// Two operands of equal shapes, a scalar second one, and rows that repeat: long ones and ones of four elements.
fn pairs(element_type: ElementType, size: usize, left: Make, right: Make) -> Vec<Example> {
    let size = size.max(1);
    let rows = (size / 256).max(1);
    let columns = size / rows;
    let short = (size / 4).max(1);
    let pair = |name, a: &[usize], b: &[usize]| {
        Example::new(name, vec![left(element_type, a), right(element_type, b)])
    };
    vec![
        pair("equal_shapes", &[size], &[size]),
        pair("scalar", &[size], &[]),
        pair("multidirectional", &[rows, columns], &[columns]),
        pair("multidirectional_short_rows", &[short, 4], &[1, 4]),
        pair("multidirectional_outer", &[rows, 1], &[1, columns]),
    ]
}

pub(super) fn unary(element_type: ElementType, size: usize) -> Vec<Example> {
    let input = ExampleInput::random(element_type, &[size]);
    vec![Example::new("contiguous", vec![input])]
}

pub(super) fn unary_positive(element_type: ElementType, size: usize) -> Vec<Example> {
    let input = uniform(element_type, &[size], 0.01, 10.0);
    vec![Example::new("contiguous", vec![input])]
}

pub(super) fn unary_unit(element_type: ElementType, size: usize) -> Vec<Example> {
    let input = uniform(element_type, &[size], -1.0, 1.0);
    vec![Example::new("contiguous", vec![input])]
}

pub(super) fn unary_above_one(element_type: ElementType, size: usize) -> Vec<Example> {
    let input = uniform(element_type, &[size], 1.0, 10.0);
    vec![Example::new("contiguous", vec![input])]
}

/// Every bit pattern, over and over.
pub(super) fn unary_bytes(element_type: ElementType, size: usize) -> Vec<Example> {
    let bytes: Vec<u8> = (0..size).map(|i| (i * 37 % 256) as u8).collect();
    let tensor = Tensor::from_bytes(element_type, &[size], &bytes).expect("a byte an element");
    let input = ExampleInput::Constant(Arc::new(tensor));
    vec![Example::new("contiguous", vec![input])]
}

pub(super) fn gelu(element_type: ElementType, size: usize) -> Vec<Example> {
    let input = || vec![ExampleInput::random(element_type, &[size])];
    let tanh = Attribute::String(b"tanh".to_vec());
    vec![
        Example::new("contiguous", input()),
        Example::new("tanh_form", input()).with_attribute("approximate", tanh),
    ]
}

pub(super) fn clip_attributes(element_type: ElementType, size: usize) -> Vec<Example> {
    let input = ExampleInput::random(element_type, &[size]);
    let example = Example::new("contiguous", vec![input])
        .with_attribute("min", Attribute::Float(-0.5))
        .with_attribute("max", Attribute::Float(0.75));
    vec![example]
}

pub(super) fn clip(element_type: ElementType, size: usize) -> Vec<Example> {
    let input = || ExampleInput::random(element_type, &[size]);
    let bound = |value| ExampleInput::Constant(Arc::new(scalar(element_type, value)));
    let mut one_sided = Example::new("one_bound", vec![input()]);
    one_sided.inputs.push(None);
    one_sided.inputs.push(Some(bound(1)));
    vec![
        Example::new("contiguous", vec![input(), bound(0), bound(1)]),
        one_sided,
    ]
}

/// A scalar tensor of a numeric type.
fn scalar(element_type: ElementType, value: u8) -> Tensor {
    let tensor = match element_type {
        ElementType::Float32 => Tensor::scalar(f32::from(value)),
        ElementType::Float64 => Tensor::scalar(f64::from(value)),
        ElementType::Float16 => Tensor::scalar(f16::from(value)),
        ElementType::BFloat16 => Tensor::scalar(bf16::from(value)),
        ElementType::Int8 => Tensor::scalar(value as i8),
        ElementType::Int16 => Tensor::scalar(i16::from(value)),
        ElementType::Int32 => Tensor::scalar(i32::from(value)),
        ElementType::Int64 => Tensor::scalar(i64::from(value)),
        ElementType::UInt16 => Tensor::scalar(u16::from(value)),
        ElementType::UInt32 => Tensor::scalar(u32::from(value)),
        ElementType::UInt64 => Tensor::scalar(u64::from(value)),
        ElementType::Bool => Tensor::scalar(Bool(value & 1)),
        _ => Tensor::scalar(value),
    };
    tensor.expect("one element fits")
}

pub(super) fn binary(element_type: ElementType, size: usize) -> Vec<Example> {
    pairs(
        element_type,
        size,
        ExampleInput::random,
        ExampleInput::random,
    )
}

pub(super) fn dividing(element_type: ElementType, size: usize) -> Vec<Example> {
    pairs(element_type, size, ExampleInput::random, positive)
}

pub(super) fn modulo(element_type: ElementType, size: usize) -> Vec<Example> {
    let fmod = i64::from(element_type.is_float());
    dividing(element_type, size)
        .into_iter()
        .map(|example| example.with_attribute("fmod", Attribute::Int(fmod)))
        .collect()
}

pub(super) fn power(element_type: ElementType, size: usize) -> Vec<Example> {
    pairs(
        element_type,
        size,
        |t, dims| uniform(t, dims, 0.0, 4.0),
        |t, dims| {
            let low = if t.is_float() { -3.0 } else { 0.0 };
            uniform(t, dims, low, 3.0)
        },
    )
}

pub(super) fn shift(element_type: ElementType, size: usize) -> Vec<Example> {
    let counts: Make = |t, dims| uniform(t, dims, 0.0, 7.0);
    let direction = |example: Example, word: &str| {
        example.with_attribute("direction", Attribute::String(word.as_bytes().to_vec()))
    };
    let mut right = Example::new(
        "to_the_right",
        vec![
            ExampleInput::random(element_type, &[size]),
            counts(element_type, &[size]),
        ],
    );
    right = direction(right, "RIGHT");
    pairs(element_type, size, ExampleInput::random, counts)
        .into_iter()
        .map(|example| direction(example, "LEFT"))
        .chain([right])
        .collect()
}

pub(super) fn unidirectional(element_type: ElementType, size: usize) -> Vec<Example> {
    let mut examples = binary(element_type, size);
    examples.retain(|example| example.name != "multidirectional_outer");
    examples
}

pub(super) fn variadic(element_type: ElementType, size: usize) -> Vec<Example> {
    let rows = (size / 256).max(1);
    let columns = size / rows;
    let random = |dims: &[usize]| ExampleInput::random(element_type, dims);
    vec![
        Example::new(
            "equal_shapes",
            vec![random(&[size]), random(&[size]), random(&[size])],
        ),
        Example::new("pair", vec![random(&[size]), random(&[size])]),
        Example::new(
            "multidirectional",
            vec![
                random(&[rows, columns]),
                random(&[columns]),
                random(&[rows, 1]),
                random(&[]),
            ],
        ),
    ]
}

pub(super) fn select(element_type: ElementType, size: usize) -> Vec<Example> {
    let rows = (size / 256).max(1);
    let columns = size / rows;
    let condition = |dims: &[usize]| ExampleInput::random(ElementType::Bool, dims);
    let random = |dims: &[usize]| ExampleInput::random(element_type, dims);
    vec![
        Example::new(
            "equal_shapes",
            vec![condition(&[size]), random(&[size]), random(&[size])],
        ),
        Example::new(
            "scalar",
            vec![condition(&[size]), random(&[size]), random(&[])],
        ),
        Example::new(
            "multidirectional",
            vec![
                condition(&[1, columns]),
                random(&[rows, columns]),
                random(&[rows, 1]),
            ],
        ),
    ]
}

/// Strings of a few letters, of which about one in four pairs is equal.
fn words(dims: &[usize], seed: usize) -> ExampleInput {
    let count = dims.iter().product();
    let words = (0..count)
        .map(|i: usize| ["alpha", "beta", "gamma", "delta"][(i * 7 + i / 3 + seed) % 4].to_owned())
        .collect();
    let tensor = Tensor::from_strings(dims, words).expect("as many words as elements");
    ExampleInput::Constant(Arc::new(tensor))
}

pub(super) fn strings(_: ElementType, size: usize) -> Vec<Example> {
    vec![
        Example::new("equal_shapes", vec![words(&[size], 0), words(&[size], 1)]),
        Example::new("scalar", vec![words(&[size], 0), words(&[], 2)]),
    ]
}

pub(super) fn select_strings(_: ElementType, size: usize) -> Vec<Example> {
    let condition = ExampleInput::random(ElementType::Bool, &[size]);
    let inputs = vec![condition, words(&[size], 0), words(&[], 1)];
    vec![Example::new("scalar", inputs)]
}
