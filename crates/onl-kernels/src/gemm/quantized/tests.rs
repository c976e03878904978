use super::*;
use crate::testing::run_node;
use onl_cpu::IsaTier;
use onl_tensor::{Element, Tensor, f16};

fn tensor<T: Element>(dims: &[usize], elements: &[T]) -> Option<Tensor> {
    Some(Tensor::from_slice(dims, elements).expect("the shape's length"))
}

fn copy(tensor: &Option<Tensor>) -> Option<Tensor> {
    tensor.as_ref().map(|t| t.try_clone().expect("memory"))
}

fn counting<T: Element>(dims: &[usize], convert: impl Fn(i32) -> T) -> Option<Tensor> {
    let count: usize = dims.iter().product();
    let elements: Vec<T> = (0..count).map(|i| convert(i as i32 * 37 % 101)).collect();
    tensor(dims, &elements)
}

fn integer(inputs: &[Option<Tensor>]) -> Result<Vec<i32>, String> {
    let outputs = run_node("MatMulInteger", 10, inputs, &[], 2, IsaTier::detect())?;
    Ok(outputs[0].as_slice::<i32>().expect("i32").to_vec())
}

fn linear(opset: i64, inputs: &[Option<Tensor>]) -> Result<Vec<u8>, String> {
    let outputs = run_node("QLinearMatMul", opset, inputs, &[], 2, IsaTier::detect())?;
    Ok(outputs[0].as_slice::<u8>().expect("u8").to_vec())
}

#[test]
fn zero_points_take_every_shape_of_their_operand() {
    let (a, b) = (
        counting(&[2, 3, 4], |v| v as u8),
        counting(&[2, 4, 5], |v| (v - 50) as i8),
    );
    let rows: [&[usize]; 6] = [&[], &[1], &[3], &[3, 1], &[1, 3, 1], &[2, 3, 1]];
    let columns: [&[usize]; 6] = [&[], &[1, 1], &[5], &[1, 5], &[1, 1, 5], &[2, 1, 5]];
    for row_dims in rows {
        for column_dims in columns {
            let a_zero_point = counting(row_dims, |v| (v * 2) as u8);
            let b_zero_point = counting(column_dims, |v| (3 - v) as i8);
            let inputs = [&a, &b, &a_zero_point, &b_zero_point].map(copy);
            let sums = integer(&inputs).expect("valid");
            let slice = |t: &Option<Tensor>| t.as_ref().expect("there").bytes().to_vec();
            let (za, zb) = (slice(&a_zero_point), slice(&b_zero_point));
            for (index, &sum) in sums.iter().enumerate() {
                let (batch, i, j) = (index / 15, index / 5 % 3, index % 5);
                let za = i32::from(za[(batch * 3 + i) % za.len()]);
                let zb = i32::from(zb[(batch * 5 + j) % zb.len()] as i8);
                let (a, b) = (slice(&a), slice(&b));
                let expected: i32 = (0..4)
                    .map(|p| {
                        let x = i32::from(a[(batch * 3 + i) * 4 + p]) - za;
                        let y = i32::from(b[(batch * 4 + p) * 5 + j] as i8) - zb;
                        x * y
                    })
                    .sum();
                assert_eq!(
                    sum, expected,
                    "{row_dims:?}, {column_dims:?}, element {index}"
                );
            }
        }
    }
}

#[test]
fn batches_of_a_over_one_b_keep_their_row_zero_points() {
    let a = counting(&[2, 3, 1], |v| v as u8);
    let b = tensor(&[1, 1], &[1i8]);
    let per_row = integer(&[copy(&a), copy(&b), tensor(&[3], &[1u8, 2, 3]), None]).expect("valid");
    let a: Vec<i32> = a
        .expect("there")
        .bytes()
        .iter()
        .map(|&x| i32::from(x))
        .collect();
    let expected: Vec<i32> = a
        .iter()
        .enumerate()
        .map(|(i, x)| x - 1 - (i % 3) as i32)
        .collect();
    assert_eq!(per_row, expected);
}

#[test]
fn vectors_are_promoted() {
    let (x, y) = (tensor(&[3], &[1u8, 2, 3]), tensor(&[3], &[4i8, -5, 6]));
    assert_eq!(integer(&[copy(&x), y]), Ok(vec![12]));
    let b = tensor(&[3, 2], &[1i8, 0, 0, 1, 2, -2]);
    assert_eq!(integer(&[x, b]), Ok(vec![7, -4]));
}

#[test]
fn empty_products_are_zero_or_empty() {
    let (a, b) = (tensor::<u8>(&[2, 0], &[]), tensor::<i8>(&[0, 3], &[]));
    let zero_points = (tensor(&[], &[7u8]), tensor(&[], &[9i8]));
    assert_eq!(
        integer(&[a, b, zero_points.0, zero_points.1]),
        Ok(vec![0; 6])
    );
    let (a, b) = (tensor::<u8>(&[0, 4], &[]), counting(&[4, 3], |v| v as i8));
    assert_eq!(integer(&[a, b, tensor::<u8>(&[0], &[])]), Ok(Vec::new()));
}

fn linear_inputs() -> Vec<Option<Tensor>> {
    vec![
        tensor(&[1, 2], &[10u8, 20]),
        tensor(&[], &[0.5f32]),
        tensor(&[], &[10u8]),
        tensor(&[2, 3], &[1i8, 1, 1, 1, 3, -60]),
        tensor(&[], &[0.5f32]),
        tensor(&[], &[0i8]),
        tensor(&[], &[1.0f32]),
        tensor(&[], &[1u8]),
    ]
}

#[test]
fn ties_round_to_even_before_the_zero_point_is_added() {
    // Sums 10, 30 and -600, scaled by a quarter: 2.5, 7.5 and -150.
    assert_eq!(linear(10, &linear_inputs()), Ok(vec![3, 9, 0]));
    let mut inputs = linear_inputs();
    for index in [1, 4] {
        inputs[index] = tensor(&[1], &[f16::from_f32(0.5)]);
    }
    inputs[6] = tensor(&[], &[f16::ONE]);
    assert_eq!(linear(21, &inputs), Ok(vec![3, 9, 0]));
    let refused = linear(20, &inputs).expect_err("16-bit scales came later");
    assert!(refused.contains("input 1"), "{refused}");
}

#[test]
fn scales_go_by_rows_and_columns() {
    let inputs = vec![
        tensor(&[2, 1], &[1u8, 1]),
        tensor(&[2, 1], &[1.0f32, 10.0]),
        tensor(&[], &[0u8]),
        tensor(&[1, 3], &[1u8, 1, 1]),
        tensor(&[3], &[1.0f32, 2.0, 3.0]),
        tensor(&[], &[0u8]),
        tensor(&[1], &[0.5f32]),
        tensor(&[1], &[100u8]),
    ];
    assert_eq!(linear(21, &inputs), Ok(vec![102, 104, 106, 120, 140, 160]));
}

#[test]
fn what_does_not_belong_together_is_refused_with_the_input() {
    let (a, b) = (
        counting(&[3, 4], |v| v as u8),
        counting(&[4, 5], |v| v as i8),
    );
    let wrong_type = integer(&[copy(&a), copy(&b), tensor(&[], &[1i8])]);
    assert!(wrong_type.expect_err("i8 for u8").contains("input 2"));
    let of_b = integer(&[copy(&a), copy(&b), None, tensor(&[], &[1u8])]);
    assert!(of_b.expect_err("u8 for i8").contains("input 3"));
    let shapes: [(&[usize], &[usize], usize); 5] = [
        (&[4], &[], 2),
        (&[1, 3], &[], 2),
        (&[2, 3, 1], &[], 2),
        (&[], &[4], 3),
        (&[], &[5, 1], 3),
    ];
    for (rows, columns, index) in shapes {
        let (za, zb) = (counting(rows, |v| v as u8), counting(columns, |v| v as i8));
        let error = integer(&[copy(&a), copy(&b), za, zb]).expect_err("another shape");
        assert!(error.contains(&format!("input {index}")), "{error}");
    }
    let float = integer(&[copy(&a), counting(&[4, 5], |v| v as f32)]);
    assert!(float.expect_err("a float B").contains("input 1"));
    let unequal = integer(&[a, counting(&[3, 5], |v| v as i8)]);
    assert!(unequal.is_err(), "unequal k");
    for (index, replacement) in [
        (6, counting(&[2], |v| v as f32)),
        (7, counting(&[2], |v| v as u8)),
        (4, counting(&[2], |v| v as f32)),
        (1, counting(&[0], |v| v as f32)),
    ] {
        let mut inputs = linear_inputs();
        inputs[index] = replacement;
        let error = linear(10, &inputs).expect_err("another shape");
        assert!(error.contains(&format!("input {index}")), "{error}");
    }
}

#[test]
fn candidates_fit_the_schema_and_have_names_of_their_own() {
    let candidates = QuantizedConfig::candidates(Some(1 << 20));
    let mut names: Vec<&str> = candidates.iter().map(|c| c.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), candidates.len());
    for candidate in &candidates {
        assert_ne!(candidate.values, QuantizedConfig::schema().defaults());
    }
    assert_eq!(QuantizedConfig::schema().check_definition(), Ok(()));
}
