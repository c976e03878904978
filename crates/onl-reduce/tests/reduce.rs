//! Reductions against the stated order (bits) and against f64 (tolerance).

mod common;

use common::{everywhere, numbers, ordered, rows, same_bits};
use onl_reduce::{Execution, ReduceError, ReduceKind, reduce, reduce_workspace};
use onl_tensor::{AlignedBuffer, Element, ElementType, TensorView, TensorViewMut, bf16, f16};
use proptest::prelude::*;

fn run<T: Element>(
    kind: ReduceKind,
    dims: &[usize],
    axes: &[bool],
    values: &[T],
    execution: &Execution<'_>,
) -> Result<Vec<T>, ReduceError> {
    let outputs: usize = dims
        .iter()
        .zip(axes)
        .filter(|(_, r)| !**r)
        .map(|(d, _)| *d)
        .product();
    let mut result = vec![values.first().copied().unwrap_or(T::zeroed()); outputs];
    let exact = reduce_workspace(kind, T::TYPE, dims, Some(axes));
    let bound = reduce_workspace(kind, T::TYPE, dims, None);
    assert!(exact <= bound, "{exact} within the bound {bound}");
    let mut workspace = AlignedBuffer::zeroed(exact).unwrap();
    let input = TensorView::from_slice(dims, values).unwrap();
    let shape = [outputs];
    let mut output = TensorViewMut::from_slice(&shape, &mut result).unwrap();
    reduce(
        kind,
        input,
        axes,
        &mut output,
        workspace.as_bytes_mut(),
        execution,
    )?;
    Ok(result)
}

fn max(a: f32, b: f32) -> f32 {
    if a.is_nan() || a > b { a } else { b }
}

fn min(a: f32, b: f32) -> f32 {
    if a.is_nan() || a < b { a } else { b }
}

fn expected(kind: ReduceKind, row: &[f32]) -> f32 {
    let n = row.len() as f32;
    match kind {
        ReduceKind::Sum if row.is_empty() => 0.0,
        ReduceKind::Sum => ordered(row, -0.0, |a, x| a + x, |a, b| a + b),
        ReduceKind::Mean => expected(ReduceKind::Sum, row) / n,
        ReduceKind::Max => ordered(row, f32::NEG_INFINITY, max, max),
        ReduceKind::Min => ordered(row, f32::INFINITY, min, min),
        ReduceKind::Prod => ordered(row, 1.0, |a, x| a * x, |a, b| a * b),
        ReduceKind::L1 => ordered(row, 0.0, |a, x| a + x.abs(), |a, b| a + b),
        ReduceKind::SumSquare => ordered(row, 0.0, |a, x| x.mul_add(x, a), |a, b| a + b),
        ReduceKind::L2 => expected(ReduceKind::SumSquare, row).sqrt(),
        ReduceKind::LogSum | ReduceKind::LogSumExp => unreachable!("compared by tolerance"),
    }
}

const EXACT: [ReduceKind; 8] = [
    ReduceKind::Sum,
    ReduceKind::Mean,
    ReduceKind::Max,
    ReduceKind::Min,
    ReduceKind::Prod,
    ReduceKind::L1,
    ReduceKind::SumSquare,
    ReduceKind::L2,
];

fn check(dims: &[usize], axes: &[bool], values: &[f32], kinds: &[ReduceKind]) {
    let rows = rows(dims, axes);
    for &kind in kinds {
        let expected: Vec<f32> = rows
            .iter()
            .map(|row| expected(kind, &row.iter().map(|&i| values[i]).collect::<Vec<_>>()))
            .collect();
        everywhere(|execution, name| {
            let actual = run(kind, dims, axes, values, execution).unwrap();
            assert!(
                same_bits(&actual, &expected),
                "{kind:?} of {dims:?} over {axes:?}, {name}: {actual:?} is not {expected:?}"
            );
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn bits_follow_the_stated_order(
        dims in prop::collection::vec(prop_oneof![Just(0usize), 1usize..9, Just(70usize)], 0..4),
        flags in prop::collection::vec(any::<bool>(), 4),
        seed in any::<u64>(),
    ) {
        let values = numbers(dims.iter().product(), seed);
        check(&dims, &flags[..dims.len()], &values, &EXACT);
    }

    #[test]
    fn integers_reduce_exactly(
        dims in prop::collection::vec(0usize..6, 1..5),
        flags in prop::collection::vec(any::<bool>(), 5),
        values in prop::collection::vec(any::<i32>(), 3125),
    ) {
        let axes = &flags[..dims.len()];
        let count = dims.iter().product();
        let rows = rows(&dims, axes);
        let sums: Vec<i32> = rows
            .iter()
            .map(|r| r.iter().fold(0, |a: i32, &i| a.wrapping_add(values[i])))
            .collect();
        let maxima: Vec<i32> = rows
            .iter()
            .map(|r| r.iter().map(|&i| values[i]).max().unwrap_or(i32::MIN))
            .collect();
        everywhere(|execution, name| {
            let sum = run(ReduceKind::Sum, &dims, axes, &values[..count], execution).unwrap();
            assert_eq!(sum, sums, "sum, {name}");
            let max = run(ReduceKind::Max, &dims, axes, &values[..count], execution).unwrap();
            assert_eq!(max, maxima, "max, {name}");
        });
    }
}

#[test]
fn rows_of_several_blocks_keep_the_order() {
    let kinds = [ReduceKind::Sum, ReduceKind::Max, ReduceKind::SumSquare];
    let cases: [(&[usize], &[bool]); 8] = [
        (&[2, 10_000], &[false, true]),
        (&[9_000, 5], &[true, false]),
        (&[4_097, 1], &[true, true]),
        (&[3, 70, 90], &[true, false, true]),
        (&[90, 3, 70, 2], &[true, false, true, false]),
        // Many rows of many columns.
        (&[4_200, 155], &[true, false]),
        (&[2, 330, 600], &[false, true, false]),
        (&[110, 2, 3, 140], &[true, false, true, false]),
    ];
    for (dims, axes) in cases {
        let values = numbers(dims.iter().product(), 7);
        check(dims, axes, &values, &kinds);
    }
}

#[test]
fn special_values_keep_their_meaning() {
    let nan = f32::NAN;
    for position in [0, 1, 15, 16, 40, 63, 64, 99] {
        let mut row = numbers(100, 3);
        row[position] = nan;
        for kind in [ReduceKind::Max, ReduceKind::Min, ReduceKind::Sum] {
            everywhere(|execution, name| {
                let along = run(kind, &[1, 100], &[false, true], &row, execution).unwrap();
                assert!(along[0].is_nan(), "{kind:?} with NaN at {position}, {name}");
                let twice: Vec<f32> = row.iter().flat_map(|&x| [x, 1.0]).collect();
                let down = run(kind, &[100, 2], &[true, false], &twice, execution).unwrap();
                assert!(
                    down[0].is_nan(),
                    "{kind:?} with NaN in row {position}, {name}"
                );
                assert!(!down[1].is_nan(), "{kind:?} beside a NaN, {name}");
            });
        }
    }
    check(&[5], &[true], &[-0.0; 5], &[ReduceKind::Sum]);
    check(&[5], &[true], &[f32::NEG_INFINITY; 5], &[ReduceKind::Max]);
}

#[test]
fn empty_rows_give_the_neutral_element() {
    let cases = [
        (ReduceKind::Sum, 0.0f32),
        (ReduceKind::Prod, 1.0),
        (ReduceKind::Max, f32::NEG_INFINITY),
        (ReduceKind::Min, f32::INFINITY),
        (ReduceKind::L1, 0.0),
        (ReduceKind::L2, 0.0),
        (ReduceKind::SumSquare, 0.0),
        (ReduceKind::LogSum, f32::NEG_INFINITY),
        (ReduceKind::LogSumExp, f32::NEG_INFINITY),
        (ReduceKind::Mean, f32::NAN),
    ];
    for (kind, value) in cases {
        everywhere(|execution, name| {
            let result = run::<f32>(kind, &[2, 0, 4], &[false, true, false], &[], execution);
            assert!(
                same_bits(&result.unwrap(), &[value; 8]),
                "{kind:?} of nothing, {name}"
            );
        });
    }
}

/// f32 sums of n terms in 64 lanes differ from the exact sum by at most about n/64 + log₂ 64 roundings of the
/// running sum of magnitudes; 2⁻²⁴ each. The bound below is that with a factor of two to spare.
#[test]
fn sums_are_close_to_f64() {
    let values = numbers(30_000, 11);
    let exact: f64 = values.iter().map(|&x| f64::from(x)).sum();
    let magnitude: f64 = values.iter().map(|&x| f64::from(x.abs())).sum();
    everywhere(|execution, name| {
        let sum = run(ReduceKind::Sum, &[30_000], &[true], &values, execution).unwrap()[0];
        let bound = magnitude * 2.0 * (BLOCK_DEPTH + 8.0) * 2f64.powi(-24);
        assert!(
            (f64::from(sum) - exact).abs() <= bound,
            "{sum} for {exact}, {name}"
        );
    });
}

/// Elements that a lane of one block adds, and the fold.
const BLOCK_DEPTH: f64 = 64.0 + 6.0;

/// The exponential is within 0.9 ULP and the logarithm within 1 ULP; with the sum's roundings the relative error of
/// the sum stays below 2⁻¹⁷, which is the absolute error of its logarithm.
#[test]
fn log_sum_exp_is_close_to_f64_and_does_not_overflow() {
    for offset in [0.0f32, 300.0, -500.0] {
        let dims = [5, 333];
        let values: Vec<f32> = numbers(5 * 333, 5).iter().map(|x| x + offset).collect();
        for axes in [[false, true], [true, false], [true, true]] {
            let rows = rows(&dims, &axes);
            everywhere(|execution, name| {
                let actual = run(ReduceKind::LogSumExp, &dims, &axes, &values, execution).unwrap();
                for (row, &y) in rows.iter().zip(&actual) {
                    let sum: f64 = row
                        .iter()
                        .map(|&i| (f64::from(values[i]) - f64::from(offset)).exp())
                        .sum();
                    let exact = f64::from(offset) + sum.ln();
                    let tolerance = 2f64.powi(-17) + exact.abs() * 2f64.powi(-23);
                    assert!(
                        (f64::from(y) - exact).abs() < tolerance,
                        "{y} for {exact}, {name}"
                    );
                }
            });
        }
    }
    everywhere(|execution, name| {
        let infinite = [f32::NEG_INFINITY; 3];
        let y = run(ReduceKind::LogSumExp, &[3], &[true], &infinite, execution).unwrap();
        assert_eq!(y, [f32::NEG_INFINITY], "{name}");
        let y = run(
            ReduceKind::LogSumExp,
            &[2],
            &[true],
            &[f32::INFINITY, 0.0],
            execution,
        )
        .unwrap();
        assert_eq!(y, [f32::INFINITY], "{name}");
    });
}

#[test]
fn short_floats_are_reduced_as_f32_and_rounded_once() {
    let wide = numbers(3 * 500, 13);
    let half: Vec<f16> = wide.iter().map(|&x| f16::from_f32(x)).collect();
    let brain: Vec<bf16> = wide.iter().map(|&x| bf16::from_f32(x)).collect();
    for axes in [[false, true], [true, false]] {
        for kind in [ReduceKind::Sum, ReduceKind::Max, ReduceKind::L2] {
            let rows = rows(&[3, 500], &axes);
            let expected_of = |element: &dyn Fn(usize) -> f32| -> Vec<f32> {
                rows.iter()
                    .map(|r| expected(kind, &r.iter().map(|&i| element(i)).collect::<Vec<_>>()))
                    .collect()
            };
            let of_half = expected_of(&|i| half[i].to_f32());
            let of_brain = expected_of(&|i| brain[i].to_f32());
            everywhere(|execution, name| {
                let y = run(kind, &[3, 500], &axes, &half, execution).unwrap();
                let rounded: Vec<f16> = of_half.iter().map(|&x| f16::from_f32(x)).collect();
                assert_eq!(y, rounded, "{kind:?} f16, {name}");
                let y = run(kind, &[3, 500], &axes, &brain, execution).unwrap();
                let rounded: Vec<bf16> = of_brain.iter().map(|&x| bf16::from_f32(x)).collect();
                assert_eq!(y, rounded, "{kind:?} bf16, {name}");
            });
        }
    }
}

#[test]
fn f64_uses_the_same_order() {
    let values: Vec<f64> = numbers(2 * 5000, 17)
        .iter()
        .map(|&x| f64::from(x) / 3.0)
        .collect();
    for axes in [[false, true], [true, false]] {
        let expected: Vec<f64> = rows(&[2, 5000], &axes)
            .iter()
            .map(|r| {
                let row: Vec<f64> = r.iter().map(|&i| values[i]).collect();
                ordered(&row, -0.0, |a, x| a + x, |a, b| a + b)
            })
            .collect();
        everywhere(|execution, name| {
            let y = run(ReduceKind::Sum, &[2, 5000], &axes, &values, execution).unwrap();
            assert_eq!(y, expected, "{name}");
        });
    }
}

#[test]
fn integers_have_their_own_rules() {
    everywhere(|execution, name| {
        let one = |kind, values: &[i64]| {
            run(kind, &[values.len()], &[true], values, execution).unwrap()[0]
        };
        assert_eq!(one(ReduceKind::Mean, &[-7, 0]), -3, "toward zero, {name}");
        assert_eq!(
            one(ReduceKind::Sum, &[i64::MAX, 1]),
            i64::MIN,
            "wraps, {name}"
        );
        assert_eq!(one(ReduceKind::L1, &[-3, 4]), 7, "{name}");
        assert_eq!(one(ReduceKind::L2, &[3, 4]), 5, "{name}");
        assert_eq!(one(ReduceKind::Prod, &[]), 1, "{name}");
        assert_eq!(one(ReduceKind::LogSumExp, &[10, 10]), 10, "{name}");
        let flags = run(
            ReduceKind::Max,
            &[2],
            &[true],
            &[onl_tensor::Bool(0), onl_tensor::Bool(1)],
            execution,
        );
        assert_eq!(flags.unwrap(), [onl_tensor::Bool(1)], "{name}");
        let short = run(ReduceKind::Sum, &[1], &[true], &[1i8], execution);
        let expected = ReduceError::ElementType {
            operation: "Sum",
            element_type: ElementType::Int8,
        };
        assert_eq!(short, Err(expected), "{name}");
    });
}
