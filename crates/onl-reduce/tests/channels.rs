//! Normalization of channels and over any axes against f64.

mod common;

use common::{everywhere, numbers, same_bits};
use onl_reduce::{
    BatchNorm, GroupNorm, Standardization, Training, batch_norm, batch_norm_workspace, group_norm,
    group_norm_workspace, lp_normalize, lp_normalize_workspace, standardize, standardize_workspace,
};
use onl_tensor::{AlignedBuffer, ElementType, TensorView, TensorViewMut, f16};

const F32: ElementType = ElementType::Float32;

fn memory(bytes: usize) -> AlignedBuffer {
    AlignedBuffer::zeroed(bytes).unwrap()
}

/// Sums over at most 20 000 terms in 64 lanes and blocks carry some tens of roundings; what follows adds a few. Results
/// are of the order of 1, inputs of the order of their deviation.
fn close(actual: &[f32], expected: &[f64], what: &str) {
    for (&a, &e) in actual.iter().zip(expected) {
        let tolerance = (1.0 + e.abs()) * 2e-5;
        assert!((f64::from(a) - e).abs() <= tolerance, "{what}: {a} for {e}");
    }
}

fn moments(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count;
    let variance = values.map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    (mean, variance)
}

const SHAPES: [[usize; 3]; 7] = [
    [1, 1, 1],
    [2, 3, 5],
    [3, 4, 49],
    [5, 70, 1],
    [1, 2, 9000],
    [2, 8, 256],
    [4, 6, 33],
];

#[test]
fn batches_are_normalized_by_channel() {
    for shape @ [batch, channels, inner] in SHAPES {
        let values = numbers(batch * channels * inner, 5);
        let [scale, bias, mean] = [1, 2, 3].map(|seed| numbers(channels, seed));
        let variance: Vec<f32> = numbers(channels, 9).iter().map(|x| x * x + 0.5).collect();
        let dims = [channels];
        for training in [false, true] {
            let mut expected = vec![0.0; values.len()];
            let mut running = [vec![0.0; channels], vec![0.0; channels]];
            for c in 0..channels {
                let elements = (0..batch)
                    .flat_map(move |n| (0..inner).map(move |i| (n * channels + c) * inner + i));
                let (m, v) = if training {
                    moments(elements.clone().map(|e| f64::from(values[e])))
                } else {
                    (f64::from(mean[c]), f64::from(variance[c]))
                };
                running[0][c] = f64::from(mean[c]) * 0.75 + m * 0.25;
                running[1][c] = f64::from(variance[c]) * 0.75 + v * 0.25;
                for e in elements {
                    expected[e] = (f64::from(values[e]) - m) / (v + 1e-3).sqrt()
                        * f64::from(scale[c])
                        + f64::from(bias[c]);
                }
            }
            let mut first: Option<Vec<f32>> = None;
            everywhere(|execution, name| {
                let parameter = |values| TensorView::from_slice(&dims, values).unwrap();
                let norm = BatchNorm {
                    shape,
                    epsilon: 1e-3,
                    scale: parameter(&scale),
                    bias: parameter(&bias),
                    mean: parameter(&mean),
                    variance: parameter(&variance),
                    training: training.then_some(Training { momentum: 0.75 }),
                };
                let mut actual = vec![0f32; values.len()];
                let [mut m, mut v] = [vec![0f32; channels], vec![0f32; channels]];
                {
                    let mut means = TensorViewMut::from_slice(&dims, &mut m).unwrap();
                    let mut variances = TensorViewMut::from_slice(&dims, &mut v).unwrap();
                    batch_norm(
                        TensorView::from_slice(&shape, &values).unwrap(),
                        &norm,
                        &mut TensorViewMut::from_slice(&shape, &mut actual).unwrap(),
                        training.then_some([&mut means, &mut variances]),
                        memory(batch_norm_workspace(F32, shape, training)).as_bytes_mut(),
                        execution,
                    )
                    .unwrap();
                }
                close(&actual, &expected, &name);
                if training {
                    close(&m, &running[0], &name);
                    close(&v, &running[1], &name);
                }
                let first = first.get_or_insert_with(|| actual.clone());
                assert!(same_bits(first, &actual), "bits of {shape:?}, {name}");
            });
        }
    }
}

#[test]
fn groups_are_normalized() {
    for shape @ [batch, channels, inner] in SHAPES {
        for groups in [1, 2, channels] {
            if channels % groups != 0 {
                continue;
            }
            let per_group = channels / groups;
            let values = numbers(batch * channels * inner, 15);
            let [scale, bias] = [1, 2].map(|seed| numbers(channels, seed));
            let dims = [channels];
            let mut expected = vec![0.0; values.len()];
            for (row, elements) in values.chunks(per_group * inner).enumerate() {
                let (m, v) = moments(elements.iter().map(|&x| f64::from(x)));
                for (at, &x) in elements.iter().enumerate() {
                    let c = row % groups * per_group + at / inner;
                    expected[row * per_group * inner + at] = (f64::from(x) - m) / (v + 1e-3).sqrt()
                        * f64::from(scale[c])
                        + f64::from(bias[c]);
                }
            }
            let mut first: Option<Vec<f32>> = None;
            everywhere(|execution, name| {
                let parameter = |values| TensorView::from_slice(&dims, values).unwrap();
                let norm = GroupNorm {
                    shape,
                    groups,
                    epsilon: 1e-3,
                    scale: parameter(&scale),
                    bias: parameter(&bias),
                };
                let mut actual = vec![0f32; values.len()];
                group_norm(
                    TensorView::from_slice(&shape, &values).unwrap(),
                    &norm,
                    &mut TensorViewMut::from_slice(&shape, &mut actual).unwrap(),
                    memory(group_norm_workspace(F32, shape, groups)).as_bytes_mut(),
                    execution,
                )
                .unwrap();
                close(&actual, &expected, &name);
                let first = first.get_or_insert_with(|| actual.clone());
                assert!(same_bits(first, &actual), "bits of {shape:?}, {name}");
            });
        }
    }
}

#[test]
fn any_axes_are_standardized() {
    let all = (0..16u8).map(|flags| ([3, 4, 5, 70], flags));
    // Many rows of many columns.
    for (dims, flags) in all.chain([([9, 4, 10, 150], 7)]) {
        let values = numbers(dims.iter().product(), 25);
        let axes = [0, 1, 2, 3].map(|bit| flags >> bit & 1 == 1);
        let mut expected = vec![0.0; values.len()];
        for row in common::rows(&dims, &axes) {
            let (m, v) = moments(row.iter().map(|&e| f64::from(values[e])));
            for e in row {
                expected[e] = (f64::from(values[e]) - m) / (v.sqrt() + 1e-3);
            }
        }
        let mut first: Option<Vec<f32>> = None;
        everywhere(|execution, name| {
            let mut actual = vec![0f32; values.len()];
            standardize(
                TensorView::from_slice(&dims, &values).unwrap(),
                &Standardization {
                    axes: &axes,
                    epsilon: 1e-3,
                },
                &mut TensorViewMut::from_slice(&dims, &mut actual).unwrap(),
                memory(standardize_workspace(F32, &dims, &axes)).as_bytes_mut(),
                execution,
            )
            .unwrap();
            close(&actual, &expected, &format!("{axes:?} {name}"));
            let first = first.get_or_insert_with(|| actual.clone());
            assert!(same_bits(first, &actual), "bits of {axes:?}, {name}");
        });
    }
}

#[test]
fn rows_are_divided_by_their_norm() {
    for shape @ [outer, length, inner] in [[3, 5, 1], [2, 700, 1], [1, 9000, 1], [2, 30, 40]] {
        for euclidean in [false, true] {
            let mut values = numbers(outer * length * inner, 35);
            for k in 0..length {
                values[k * inner] = 0.0;
            }
            let mut expected = vec![0.0; values.len()];
            for row in 0..outer * inner {
                let (o, i) = (row / inner, row % inner);
                let elements = (0..length).map(|k| (o * length + k) * inner + i);
                let terms = elements.clone().map(|e| f64::from(values[e]));
                let norm = if euclidean {
                    terms.map(|x| x * x).sum::<f64>().sqrt()
                } else {
                    terms.map(f64::abs).sum()
                };
                for e in elements {
                    expected[e] = if norm == 0.0 {
                        0.0
                    } else {
                        f64::from(values[e]) / norm
                    };
                }
            }
            everywhere(|execution, name| {
                let mut actual = vec![0f32; values.len()];
                lp_normalize(
                    TensorView::from_slice(&shape, &values).unwrap(),
                    shape,
                    euclidean,
                    &mut TensorViewMut::from_slice(&shape, &mut actual).unwrap(),
                    memory(lp_normalize_workspace(F32, shape)).as_bytes_mut(),
                    execution,
                )
                .unwrap();
                close(&actual, &expected, &format!("{shape:?} {name}"));
            });
        }
    }
}

#[test]
fn parameters_may_be_wider_than_the_input() {
    everywhere(|execution, name| {
        let values = [1.0, 2.0, 3.0, 4.0].map(f16::from_f32);
        let mut result = [f16::ZERO; 4];
        let (ones, zeros) = ([1f32; 2], [0f64; 2]);
        let norm = BatchNorm {
            shape: [2, 2, 1],
            epsilon: 0.0,
            scale: TensorView::from_slice(&[2], &ones).unwrap(),
            bias: TensorView::from_slice(&[2], &zeros).unwrap(),
            mean: TensorView::from_slice(&[2], &ones).unwrap(),
            variance: TensorView::from_slice(&[2], &ones).unwrap(),
            training: None,
        };
        let bytes = batch_norm_workspace(ElementType::Float16, norm.shape, false);
        batch_norm(
            TensorView::from_slice(&[2, 2], &values).unwrap(),
            &norm,
            &mut TensorViewMut::from_slice(&[2, 2], &mut result).unwrap(),
            None,
            memory(bytes).as_bytes_mut(),
            execution,
        )
        .unwrap();
        assert_eq!(result.map(f16::to_f32), [0.0, 1.0, 2.0, 3.0], "{name}");
    });
}
