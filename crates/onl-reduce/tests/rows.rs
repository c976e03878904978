//! Softmax and normalization against the stated order and against f64.

mod common;

use common::{everywhere, numbers, ordered, same_bits};
use onl_cpu::IsaTier;
use onl_reduce::{
    Execution, LayerNorm, layer_norm, layer_norm_workspace, softmax, softmax_workspace,
};
use onl_simd::math::{Exp, map};
use onl_tensor::{AlignedBuffer, Element, ElementType, TensorView, TensorViewMut, f16};

fn run_softmax<T: Element>(
    shape: [usize; 3],
    logarithm: bool,
    values: &[T],
    execution: &Execution<'_>,
) -> Vec<T> {
    let mut result = values.to_vec();
    let [outer, length, inner] = shape;
    let mut workspace =
        AlignedBuffer::zeroed(softmax_workspace(T::TYPE, outer, length, inner)).unwrap();
    let input = TensorView::from_slice(&shape, values).unwrap();
    let mut output = TensorViewMut::from_slice(&shape, &mut result).unwrap();
    softmax(
        input,
        shape,
        logarithm,
        &mut output,
        workspace.as_bytes_mut(),
        execution,
    )
    .unwrap();
    result
}

/// Rows of a `[outer, length, inner]` tensor as lists of elements.
fn rows([outer, length, inner]: [usize; 3]) -> Vec<Vec<usize>> {
    (0..outer * inner)
        .map(|row| {
            let (o, i) = (row / inner, row % inner);
            (0..length).map(|k| (o * length + k) * inner + i).collect()
        })
        .collect()
}

/// Exponential within 0.9 ULP, sum of n positive terms within n/64 + 6 roundings, reciprocal and product half an ULP
/// each: for rows up to 5000 elements that is below 100 · 2⁻²⁴ relative.
#[test]
fn softmax_is_close_to_f64_and_divides_freely() {
    let shapes = [
        [3, 1, 1],
        [5, 7, 1],
        [4, 128, 1],
        [2, 1000, 1],
        [1, 5000, 1],
        [2, 9, 5],
        [3, 70, 33],
        [1, 4100, 3],
    ];
    for shape in shapes {
        let values = numbers(shape.iter().product(), 23);
        let mut first: Option<[Vec<f32>; 2]> = None;
        everywhere(|execution, name| {
            let plain = run_softmax(shape, false, &values, execution);
            let logarithm = run_softmax(shape, true, &values, execution);
            for row in rows(shape) {
                let largest = row
                    .iter()
                    .map(|&i| values[i])
                    .fold(f32::NEG_INFINITY, f32::max);
                let d = |i: usize| f64::from(values[i]) - f64::from(largest);
                let sum: f64 = row.iter().map(|&i| d(i).exp()).sum();
                for &i in &row {
                    let exact = d(i).exp() / sum;
                    let error = (f64::from(plain[i]) - exact).abs();
                    assert!(error <= exact * 100.0 * 2f64.powi(-24), "{shape:?}, {name}");
                    let exact = d(i) - sum.ln();
                    let error = (f64::from(logarithm[i]) - exact).abs();
                    assert!(
                        error <= (1.0 + exact.abs()) * 100.0 * 2f64.powi(-24),
                        "{shape:?}, {name}"
                    );
                }
            }
            let [a, b] = first.get_or_insert_with(|| [plain.clone(), logarithm.clone()]);
            assert!(
                same_bits(a, &plain) && same_bits(b, &logarithm),
                "bits of {shape:?}, {name}"
            );
        });
    }
}

#[test]
fn a_row_has_the_same_bits_along_every_axis() {
    let (count, length) = (6, 300);
    let values = numbers(count * length, 29);
    let turned: Vec<f32> = (0..length)
        .flat_map(|k| (0..count).map(move |row| row * length + k))
        .map(|i| values[i])
        .collect();
    everywhere(|execution, name| {
        for logarithm in [false, true] {
            let along = run_softmax([count, length, 1], logarithm, &values, execution);
            let down = run_softmax([1, length, count], logarithm, &turned, execution);
            for row in 0..count {
                for k in 0..length {
                    assert_eq!(
                        along[row * length + k].to_bits(),
                        down[k * count + row].to_bits(),
                        "row {row}, element {k}, {name}"
                    );
                }
            }
        }
    });
}

#[test]
fn masked_and_special_rows() {
    let infinity = f32::INFINITY;
    everywhere(|execution, name| {
        let masked = run_softmax([1, 3, 1], false, &[-infinity, 0.0, 0.0], execution);
        assert_eq!(masked, [0.0, 0.5, 0.5], "{name}");
        for row in [[-infinity; 3], [f32::NAN, 0.0, 1.0], [infinity, 0.0, 1.0]] {
            let y = run_softmax([1, 3, 1], false, &row, execution);
            assert!(y[0].is_nan(), "{row:?}, {name}");
        }
        let large = run_softmax([1, 2, 1], false, &[1e30, 1e30], execution);
        assert_eq!(large, [0.5, 0.5], "{name}");
    });
}

#[test]
fn masked_rows_follow_the_stated_order() {
    let (count, length) = (6, 333);
    let mut values = numbers(count * length, 31);
    for (row, values) in values.chunks_exact_mut(length).enumerate() {
        for (k, x) in values.iter_mut().enumerate() {
            match row {
                1 if k % 2 == 1 => *x = f32::NEG_INFINITY,
                2 if k >= 70 => *x = f32::NEG_INFINITY,
                // Exponentials that are normal, denormal and nothing.
                3 => *x *= 15.0,
                4 if k == 200 => *x = f32::NAN,
                5 if k != 330 => *x = -1e30,
                _ => {}
            }
        }
    }
    let mut softmax = Vec::new();
    for row in values.chunks_exact(length) {
        let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let differences: Vec<f32> = row.iter().map(|x| x - largest).collect();
        let mut exponentials = vec![0.0; length];
        map::<Exp>(IsaTier::Scalar, &differences, &mut exponentials);
        let sum = ordered(&exponentials, 0.0, |a, b| a + b, |a, b| a + b);
        softmax.extend(exponentials.iter().map(|e| {
            if sum.is_nan() {
                f32::NAN
            } else {
                e * (1.0 / sum)
            }
        }));
    }
    assert!(softmax.iter().any(|y| y.is_subnormal()));
    everywhere(|execution, name| {
        let result = run_softmax([count, length, 1], false, &values, execution);
        assert!(same_bits(&result, &softmax), "{name}");
    });
}

#[test]
fn f16_softmax_is_the_f32_one_rounded() {
    let half: Vec<f16> = numbers(4 * 100, 31)
        .iter()
        .map(|&x| f16::from_f32(x))
        .collect();
    let wide: Vec<f32> = half.iter().map(|x| x.to_f32()).collect();
    everywhere(|execution, name| {
        for shape in [[4, 100, 1], [2, 100, 2]] {
            let narrow = run_softmax(shape, false, &half, execution);
            let rounded: Vec<f16> = run_softmax(shape, false, &wide, execution)
                .iter()
                .map(|&x| f16::from_f32(x))
                .collect();
            assert_eq!(narrow, rounded, "{shape:?}, {name}");
        }
    });
}

#[test]
fn layer_norm_follows_the_stated_order() {
    for (rows, length) in [(1, 1), (3, 5), (7, 64), (4, 768), (2, 5000)] {
        let values = numbers(rows * length, 37);
        let scale = numbers(length, 41);
        let bias = numbers(length, 43);
        let epsilon = 1e-5f32;
        for (with_bias, centre) in [(true, true), (false, true), (false, false)] {
            let mut expected = Vec::new();
            let mut means = Vec::new();
            let mut deviations = Vec::new();
            for row in values.chunks(length) {
                let n = length as f32;
                let sum = ordered(row, -0.0, |a, x| a + x, |a, b| a + b);
                let mean = if centre { sum / n } else { 0.0 };
                let squares = ordered(
                    row,
                    0.0,
                    |a, x: f32| (x - mean).mul_add(x - mean, a),
                    |a, b| a + b,
                );
                let factor = 1.0 / (squares / n + epsilon).sqrt();
                means.push(mean);
                deviations.push(factor);
                for (k, &x) in row.iter().enumerate() {
                    let y = (x - mean) * factor;
                    expected.push(if with_bias {
                        y.mul_add(scale[k], bias[k])
                    } else {
                        y * scale[k]
                    });
                }
            }
            everywhere(|execution, name| {
                let dims = [rows, length];
                let parameter = [length];
                let norm = LayerNorm {
                    length,
                    epsilon,
                    centre,
                    scale: TensorView::from_slice(&parameter, &scale).unwrap(),
                    bias: with_bias.then(|| TensorView::from_slice(&parameter, &bias).unwrap()),
                };
                let mut actual = vec![0.0f32; rows * length];
                let mut statistics = [vec![0.0f32; rows], vec![0.0f32; rows]];
                let [mean, deviation] = &mut statistics;
                let bytes = layer_norm_workspace(ElementType::Float32, rows, length);
                let mut workspace = AlignedBuffer::zeroed(bytes).unwrap();
                layer_norm(
                    TensorView::from_slice(&dims, &values).unwrap(),
                    &norm,
                    &mut TensorViewMut::from_slice(&dims, &mut actual).unwrap(),
                    Some(mean),
                    Some(deviation),
                    workspace.as_bytes_mut(),
                    execution,
                )
                .unwrap();
                assert!(same_bits(&actual, &expected), "{dims:?}, {name}");
                assert!(
                    same_bits(&statistics[0], &means),
                    "means of {dims:?}, {name}"
                );
                assert!(
                    same_bits(&statistics[1], &deviations),
                    "deviations of {dims:?}, {name}"
                );
            });
        }
    }
}

#[test]
fn parameters_that_do_not_fit_are_errors() {
    everywhere(|execution, name| {
        let values = [1.0f32; 6];
        let short = [1.0f32; 2];
        let norm = LayerNorm {
            length: 3,
            epsilon: 0.0,
            centre: true,
            scale: TensorView::from_slice(&[2], &short).unwrap(),
            bias: None,
        };
        let mut result = [0.0f32; 6];
        let outcome = layer_norm(
            TensorView::from_slice(&[2, 3], &values).unwrap(),
            &norm,
            &mut TensorViewMut::from_slice(&[2, 3], &mut result).unwrap(),
            None,
            None,
            &mut [],
            execution,
        );
        assert!(outcome.is_err(), "{name}");
    });
}
