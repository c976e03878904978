use super::super::{ORDINARY_ONLY, edges};
use crate::{Example, ExampleInput};
use onl_tensor::{ElementType, Shape};

fn constant(element_type: ElementType, dims: &[usize]) -> ExampleInput {
    ExampleInput::Random {
        element_type,
        shape: Shape::new(dims),
        constant: true,
    }
}

/// A product without scales: operands and zero points.
struct Product {
    name: &'static str,
    a: ExampleInput,
    b: ExampleInput,
    a_zero_point: Option<ExampleInput>,
    b_zero_point: Option<ExampleInput>,
    /// Dimensions of the scales of A and B.
    scales: (Vec<usize>, Vec<usize>),
    b_type: ElementType,
}

fn products(a_type: ElementType, size: usize) -> Vec<Product> {
    use ElementType::{Int8, UInt8};
    let (s, w) = edges(size, 4);
    let (b, v) = edges(size / 4, 1);
    let random = ExampleInput::random;
    let product = |name, a: &[usize], b: ExampleInput, b_type| Product {
        name,
        a: random(a_type, a),
        b,
        a_zero_point: None,
        b_zero_point: None,
        scales: (Vec::new(), Vec::new()),
        b_type,
    };
    let mut products = vec![
        Product {
            a_zero_point: Some(constant(a_type, &[])),
            ..product("constant_b", &[s, s], constant(Int8, &[s, s]), Int8)
        },
        product("square", &[s, s], random(Int8, &[s, s]), Int8),
    ];
    if size > ORDINARY_ONLY {
        return products;
    }
    products.extend([
        Product {
            a_zero_point: Some(random(a_type, &[])),
            b_zero_point: Some(random(UInt8, &[1])),
            ..product("unsigned_b", &[s, s], random(UInt8, &[s, s]), UInt8)
        },
        Product {
            a_zero_point: Some(random(a_type, &[s])),
            b_zero_point: Some(constant(Int8, &[s])),
            scales: (vec![s], vec![s]),
            ..product("rows_and_columns", &[s, s], constant(Int8, &[s, s]), Int8)
        },
        Product {
            b_zero_point: Some(random(Int8, &[w])),
            scales: (Vec::new(), vec![w]),
            ..product("skinny", &[4, w], random(Int8, &[w, w]), Int8)
        },
        Product {
            b_zero_point: Some(random(Int8, &[2, 1, 1, b])),
            scales: (vec![2, 2, b, 1], Vec::new()),
            ..product("batched", &[2, 2, b, b], random(Int8, &[2, 1, b, b]), Int8)
        },
        product("vector", &[2 * v], random(Int8, &[2 * v, 2 * v]), Int8),
        Product {
            a_zero_point: Some(random(a_type, &[])),
            ..product(
                "vector_constant_b",
                &[2 * v],
                constant(Int8, &[2 * v, 2 * v]),
                Int8,
            )
        },
    ]);
    products
}

pub(super) fn integer(a_type: ElementType, size: usize) -> Vec<Example> {
    products(a_type, size)
        .into_iter()
        .map(|product| Example {
            inputs: vec![
                Some(product.a),
                Some(product.b),
                product.a_zero_point,
                product.b_zero_point,
            ],
            ..Example::new(product.name, Vec::new())
        })
        .collect()
}

pub(super) fn linear(a_type: ElementType, size: usize) -> Vec<Example> {
    let edge = edges(size, 4).0 as f64;
    products(a_type, size)
        .into_iter()
        .enumerate()
        .map(|(index, product)| {
            let scale_type = match index {
                3 => ElementType::Float16,
                4 => ElementType::BFloat16,
                _ => ElementType::Float32,
            };
            let scale = |dims: &[usize], low: f64| {
                Some(ExampleInput::Uniform {
                    element_type: scale_type,
                    shape: Shape::new(dims),
                    low,
                    high: 2.0 * low,
                })
            };
            let (rows, columns) = &product.scales;
            // Sums of products of elements below 100, brought into the range of a byte.
            let y_scale = scale(&[], edge.sqrt() / 32.0);
            let y_type = if index % 2 == 0 {
                a_type
            } else {
                product.b_type
            };
            let or_zero = |point: Option<ExampleInput>, element_type| {
                point.or_else(|| Some(constant(element_type, &[])))
            };
            Example {
                inputs: vec![
                    Some(product.a),
                    scale(rows, 0.02),
                    or_zero(product.a_zero_point, a_type),
                    Some(product.b),
                    scale(columns, 0.02),
                    or_zero(product.b_zero_point, product.b_type),
                    y_scale,
                    Some(constant(y_type, &[])),
                ],
                ..Example::new(product.name, Vec::new())
            }
        })
        .collect()
}
