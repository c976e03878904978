//! Selections and cumulations against plain loops.

mod common;

use common::{everywhere, numbers};
use onl_reduce::{
    BLOCK, Cumulation, Execution, TopK, arg_extreme, arg_workspace, cumulate, cumulate_workspace,
    hardmax, hardmax_workspace, top_k, top_k_workspace,
};
use onl_tensor::{AlignedBuffer, Element, TensorView, TensorViewMut, bf16, f16};
use std::cmp::Ordering;

/// Edges of strips, blocks and panels, single rows and elements, and columns.
const SHAPES: [[usize; 3]; 11] = [
    [1, 1, 1],
    [3, 5, 1],
    [7, 64, 1],
    [2, 300, 1],
    [9, 1000, 1],
    [1, BLOCK + 1, 1],
    [2, 3 * BLOCK - 5, 1],
    [2, 9, 5],
    [3, 70, 33],
    [1, 50, 300],
    [1, BLOCK + 100, 3],
];

/// Elements of a `[outer, length, inner]` tensor, row by row.
fn rows([outer, length, inner]: [usize; 3]) -> Vec<Vec<usize>> {
    (0..outer * inner)
        .map(|row| {
            let (o, i) = (row / inner, row % inner);
            (0..length).map(|k| (o * length + k) * inner + i).collect()
        })
        .collect()
}

fn memory(bytes: usize) -> AlignedBuffer {
    AlignedBuffer::zeroed(bytes).unwrap()
}

/// NaN before every number, as in numpy.
fn first_nan(a: f32, b: f32) -> Ordering {
    a.partial_cmp(&b)
        .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// Few values, so that there are equal ones, and some special ones.
fn repeated(count: usize, special: bool) -> Vec<f32> {
    let mut values: Vec<f32> = numbers(count, 7)
        .iter()
        .map(|x| (x * 8.0).round())
        .collect();
    if special {
        for (index, x) in values.iter_mut().enumerate() {
            match index % 97 {
                13 => *x = f32::NAN,
                29 => *x = -0.0,
                31 => *x = f32::NEG_INFINITY,
                37 => *x = 1e-40,
                _ => {}
            }
        }
    }
    values
}

fn arg<T: Element>(
    shape: [usize; 3],
    values: &[T],
    largest: bool,
    last: bool,
    execution: &Execution<'_>,
) -> Vec<i64> {
    let dims = [shape[0], shape[2]];
    let mut result = vec![-1i64; dims[0] * dims[1]];
    arg_extreme(
        TensorView::from_slice(&shape, values).unwrap(),
        shape,
        largest,
        last,
        &mut TensorViewMut::from_slice(&dims, &mut result).unwrap(),
        memory(arg_workspace(shape)).as_bytes_mut(),
        execution,
    )
    .unwrap();
    result
}

#[test]
fn places_of_extreme_elements() {
    for shape in SHAPES {
        for special in [false, true] {
            let values = repeated(shape.iter().product(), special);
            for (largest, last) in [(true, false), (true, true), (false, false), (false, true)] {
                let expected: Vec<i64> = rows(shape)
                    .iter()
                    .map(|row| {
                        let better = |a: f32, b: f32| {
                            let order = match (a.is_nan(), b.is_nan()) {
                                (false, false) if !largest => first_nan(b, a),
                                _ => first_nan(a, b),
                            };
                            order == Ordering::Greater || last && order == Ordering::Equal
                        };
                        let mut place = 0;
                        for k in 1..row.len() {
                            if better(values[row[k]], values[row[place]]) {
                                place = k;
                            }
                        }
                        place as i64
                    })
                    .collect();
                everywhere(|execution, name| {
                    let actual = arg(shape, &values, largest, last, execution);
                    assert_eq!(actual, expected, "{shape:?} {largest} {last} {name}");
                });
            }
        }
    }
}

#[test]
fn every_element_type_is_ordered() {
    let shape = [3, 40, 1];
    let values: Vec<i64> = numbers(120, 3).iter().map(|x| (x * 20.0) as i64).collect();
    everywhere(|execution, name| {
        let expected = arg(shape, &values, false, false, execution);
        macro_rules! same {
            ($($t:ty: $make:expr),*) => {$(
                let narrow: Vec<$t> = values.iter().map(|&x| $make(x)).collect();
                assert_eq!(arg(shape, &narrow, false, false, execution), expected, "{name}");
            )*};
        }
        same!(
            i8: |x| x as i8, i16: |x| x as i16, i32: |x| x as i32, f64: |x| x as f64,
            f16: |x| f16::from_f32(x as f32), bf16: |x| bf16::from_f32(x as f32),
            u8: |x| (x + 100) as u8, u16: |x| (x + 100) as u16, u32: |x| (x + 100) as u32,
            u64: |x| (x + 100) as u64
        );
    });
}

#[test]
fn nothing_has_no_largest_element() {
    everywhere(|execution, name| {
        let none: [f32; 0] = [];
        let mut result = [0i64; 2];
        let outcome = arg_extreme(
            TensorView::from_slice(&[2, 0, 1], &none).unwrap(),
            [2, 0, 1],
            true,
            false,
            &mut TensorViewMut::from_slice(&[2, 1], &mut result).unwrap(),
            &mut [],
            execution,
        );
        assert!(outcome.is_err(), "{name}");
    });
}

#[test]
fn hardmax_marks_the_first_largest_element() {
    for shape in SHAPES {
        let values = repeated(shape.iter().product(), true);
        everywhere(|execution, name| {
            let places = arg(shape, &values, true, false, execution);
            let mut expected = vec![0f32; values.len()];
            for (row, place) in rows(shape).iter().zip(places) {
                expected[row[place as usize]] = 1.0;
            }
            let mut actual = vec![7f32; values.len()];
            hardmax(
                TensorView::from_slice(&shape, &values).unwrap(),
                shape,
                &mut TensorViewMut::from_slice(&shape, &mut actual).unwrap(),
                memory(hardmax_workspace(shape)).as_bytes_mut(),
                execution,
            )
            .unwrap();
            assert_eq!(actual, expected, "{shape:?} {name}");
        });
    }
}

#[test]
fn best_elements_in_order() {
    let shapes = [
        [1, 1, 1],
        [4, 70, 1],
        [3, 2000, 1],
        [2, 40, 5],
        [1, 140_000, 1],
    ];
    for shape in shapes {
        let values = repeated(shape.iter().product(), true);
        for (largest, k) in [(true, 1), (false, 1), (true, 7), (false, 30), (true, 600)] {
            let k = k.min(shape[1]);
            let mut places = Vec::new();
            for row in rows(shape) {
                let mut order: Vec<usize> = (0..row.len()).collect();
                order.sort_by(|&a, &b| {
                    let order = first_nan(values[row[a]], values[row[b]]);
                    (if largest { order.reverse() } else { order }).then(a.cmp(&b))
                });
                places.push(order);
            }
            let dims = [shape[0], k, shape[2]];
            let mut expected = vec![0i64; dims.iter().product()];
            for (row, target) in places.iter().zip(rows(dims)) {
                for (&place, at) in row.iter().zip(target) {
                    expected[at] = place as i64;
                }
            }
            everywhere(|execution, name| {
                let top = TopK { shape, k, largest };
                let mut best = vec![0f32; expected.len()];
                let mut actual = vec![0i64; expected.len()];
                let f32s = onl_tensor::ElementType::Float32;
                let lanes = execution.lanes.count();
                let bytes = top_k_workspace(f32s, shape, Some(k), lanes);
                assert!(bytes <= top_k_workspace(f32s, shape, None, lanes));
                top_k(
                    TensorView::from_slice(&shape, &values).unwrap(),
                    &top,
                    &mut TensorViewMut::from_slice(&dims, &mut best).unwrap(),
                    &mut TensorViewMut::from_slice(&dims, &mut actual).unwrap(),
                    memory(bytes).as_bytes_mut(),
                    execution,
                )
                .unwrap();
                assert_eq!(actual, expected, "{shape:?} {largest} {k} {name}");
                for (row, target) in rows(shape).iter().zip(rows(dims)) {
                    for at in target {
                        let value = values[row[actual[at] as usize]];
                        assert_eq!(value.to_bits(), best[at].to_bits(), "{shape:?} {name}");
                    }
                }
            });
        }
    }
}

#[test]
fn cumulations_follow_the_stated_order() {
    for shape in SHAPES {
        let values = numbers(shape.iter().product(), 11);
        let integers: Vec<i32> = values.iter().map(|x| (x * 1e9) as i32).collect();
        for flags in 0..8u8 {
            let [product, exclusive, reverse] = [0, 1, 2].map(|bit| flags >> bit & 1 == 1);
            let cumulation = Cumulation {
                shape,
                product,
                exclusive,
                reverse,
            };
            let mut expected = vec![0f32; values.len()];
            let mut whole = vec![0i32; values.len()];
            for mut row in rows(shape) {
                if reverse {
                    row.reverse();
                }
                let (neutral, first) = if product { (1.0, 1.0) } else { (-0.0, 0.0) };
                let combine = |a: f32, b: f32| if product { a * b } else { a + b };
                let mut prefix: f32 = neutral;
                for (b, block) in row.chunks(BLOCK).enumerate() {
                    let mut own = neutral;
                    for (k, &at) in block.iter().enumerate() {
                        let before = own;
                        own = combine(own, values[at]);
                        let result = combine(prefix, if exclusive { before } else { own });
                        expected[at] = if exclusive && b == 0 && k == 0 {
                            first
                        } else {
                            result
                        };
                    }
                    prefix = combine(prefix, own);
                }
                let mut own = i32::from(product);
                for &at in &row {
                    let before = own;
                    own = if product {
                        own.wrapping_mul(integers[at])
                    } else {
                        own.wrapping_add(integers[at])
                    };
                    whole[at] = if exclusive { before } else { own };
                }
            }
            everywhere(|execution, name| {
                let mut actual = vec![0f32; values.len()];
                let mut actual_whole = vec![0i32; values.len()];
                let mut scratch = memory(cumulate_workspace(&cumulation));
                cumulate(
                    TensorView::from_slice(&shape, &values).unwrap(),
                    &cumulation,
                    &mut TensorViewMut::from_slice(&shape, &mut actual).unwrap(),
                    scratch.as_bytes_mut(),
                    execution,
                )
                .unwrap();
                cumulate(
                    TensorView::from_slice(&shape, &integers).unwrap(),
                    &cumulation,
                    &mut TensorViewMut::from_slice(&shape, &mut actual_whole).unwrap(),
                    scratch.as_bytes_mut(),
                    execution,
                )
                .unwrap();
                assert!(
                    common::same_bits(&actual, &expected),
                    "{cumulation:?} {name}"
                );
                assert_eq!(actual_whole, whole, "{cumulation:?} {name}");
            });
        }
    }
}
