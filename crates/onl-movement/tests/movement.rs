//! Every movement against a naive reference that addresses element by element.

use onl_cpu::IsaTier;
use onl_executor::CpuExecutor;
use onl_movement::{
    Execution, MovementError, PadMode, SliceAxis, concat, expand, gather, gather_elements,
    gather_nd, pad, slice, split, tile, transpose, triangle,
};
use onl_snapshot::ParallelConfig;
use onl_tensor::{Element, ElementType, Tensor, TensorView, TensorViewMut, row_major_strides};
use proptest::prelude::*;

/// Runs a body for every tier and several lane counts and grains.
fn everywhere(mut body: impl FnMut(&Execution<'_>, String)) {
    for &tier in IsaTier::available() {
        for (lanes, grain) in [(1, 1 << 30), (2, 256), (3, 300), (7, 1)] {
            let executor = CpuExecutor::with_lanes(lanes);
            let run = executor.enter();
            let config = ParallelConfig {
                minimum_elements: 1,
                grain_elements: grain,
                maximum_participants: 0,
            };
            let name = format!("{tier}, {lanes} lanes, grain {grain}");
            body(&Execution::new(run.lanes(), config, tier), name);
        }
    }
}

fn count(dims: &[usize]) -> usize {
    dims.iter().product()
}

fn counting(dims: &[usize]) -> Tensor {
    let values: Vec<u32> = (0..count(dims) as u32).collect();
    Tensor::from_slice(dims, &values).unwrap()
}

/// Index of every axis of an element.
fn coordinates(mut element: usize, dims: &[usize]) -> Vec<usize> {
    let mut result = vec![0; dims.len()];
    for axis in (0..dims.len()).rev() {
        result[axis] = element % dims[axis];
        element /= dims[axis];
    }
    result
}

fn position(index: &[usize], dims: &[usize]) -> usize {
    index
        .iter()
        .zip(row_major_strides(dims))
        .map(|(i, s)| i * s)
        .sum()
}

/// Checks that an operation gives `expected(index of the output)` everywhere.
fn check(
    input: &Tensor,
    output_dims: &[usize],
    operation: impl Fn(
        TensorView<'_>,
        &mut TensorViewMut<'_>,
        &Execution<'_>,
    ) -> Result<(), MovementError>,
    expected: impl Fn(&[usize]) -> u32,
) {
    let wanted: Vec<u32> = (0..count(output_dims))
        .map(|element| expected(&coordinates(element, output_dims)))
        .collect();
    everywhere(|execution, name| {
        let mut result = vec![u32::MAX; count(output_dims)];
        let mut output = TensorViewMut::from_slice(output_dims, &mut result).unwrap();
        operation(input.view(), &mut output, execution).unwrap();
        assert_eq!(result, wanted, "{name}");
    });
}

fn dims() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![Just(0usize), 1usize..6, 7usize..20], 0..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn transposes(dims in dims(), seed in any::<u64>()) {
        let mut perm: Vec<usize> = (0..dims.len()).collect();
        let mut state = seed;
        for i in (1..perm.len()).rev() {
            perm.swap(i, (state % (i as u64 + 1)) as usize);
            state /= 7;
        }
        let input = counting(&dims);
        let permuted: Vec<usize> = perm.iter().map(|&a| dims[a]).collect();
        check(&input, &permuted, |x, y, e| transpose(x, &perm, y, e), |index| {
            let mut source = vec![0; dims.len()];
            for (axis, &from) in perm.iter().enumerate() {
                source[from] = index[axis];
            }
            position(&source, &dims) as u32
        });
    }

    #[test]
    fn slices(dims in dims(), bounds in prop::collection::vec((-25i64..25, -25i64..25, prop_oneof![1i64..4, -4i64..0]), 5)) {
        let input = counting(&dims);
        let axes: Vec<SliceAxis> = dims
            .iter()
            .zip(&bounds)
            .map(|(&size, &(start, end, step))| SliceAxis::clamped(start, end, step, size).unwrap())
            .collect();
        for ((&size, &(start, end, step)), part) in dims.iter().zip(&bounds).zip(&axes) {
            let taken: Vec<i64> = (0..part.length as i64).map(|k| part.start as i64 + k * step).collect();
            prop_assert_eq!(taken, python_slice(start, end, step, size as i64));
        }
        let sizes: Vec<usize> = axes.iter().map(|a| a.length).collect();
        check(&input, &sizes, |x, y, e| slice(x, &axes, y, e), |index| {
            let source: Vec<usize> = index
                .iter()
                .zip(&axes)
                .map(|(&i, a)| (a.start as i64 + i as i64 * a.step) as usize)
                .collect();
            position(&source, &dims) as u32
        });
    }

    #[test]
    fn expands_and_tiles(dims in dims(), added in 0usize..2, repeats in prop::collection::vec(0usize..4, 5)) {
        let single: Vec<usize> = dims.iter().map(|&d| if d > 3 { d } else { 1 }).collect();
        let mut target: Vec<usize> = repeats[..added].to_vec();
        target.extend(dims.iter().zip(&single).map(|(&d, &s)| if s == 1 { d } else { s }));
        check(&counting(&single), &target, expand, |index| {
            let source: Vec<usize> = index[added..]
                .iter()
                .zip(&single)
                .map(|(&i, &s)| if s == 1 { 0 } else { i })
                .collect();
            position(&source, &single) as u32
        });
        let repeats = &repeats[..dims.len()];
        let tiled: Vec<usize> = dims.iter().zip(repeats).map(|(d, r)| d * r).collect();
        check(&counting(&dims), &tiled, |x, y, e| tile(x, repeats, y, e), |index| {
            let source: Vec<usize> = index.iter().zip(&dims).map(|(&i, &d)| i % d).collect();
            position(&source, &dims) as u32
        });
    }

    #[test]
    fn joins_and_cuts(dims in prop::collection::vec(0usize..6, 1..5), axis in 0usize..4, sizes in prop::collection::vec(0usize..5, 1..6)) {
        let axis = axis % dims.len();
        let mut joined = dims.clone();
        joined[axis] = sizes.iter().sum();
        let whole = counting(&joined);
        let mut start = 0;
        let parts: Vec<Tensor> = sizes
            .iter()
            .map(|&size| {
                let mut part_dims = dims.clone();
                part_dims[axis] = size;
                let values: Vec<u32> = (0..count(&part_dims))
                    .map(|element| {
                        let mut index = coordinates(element, &part_dims);
                        index[axis] += start;
                        position(&index, &joined) as u32
                    })
                    .collect();
                start += size;
                Tensor::from_slice(&part_dims, &values).unwrap()
            })
            .collect();
        everywhere(|execution, name| {
            let views: Vec<TensorView<'_>> = parts.iter().map(Tensor::view).collect();
            let mut result = Tensor::zeros(ElementType::UInt32, &joined).unwrap();
            concat(&views, axis, &mut result.view_mut().unwrap(), execution).unwrap();
            assert_eq!(result, whole, "concat, {name}");
            let mut cut: Vec<Tensor> = parts
                .iter()
                .map(|p| Tensor::zeros(ElementType::UInt32, p.dims()).unwrap())
                .collect();
            let mut outputs: Vec<TensorViewMut<'_>> = cut.iter_mut().map(|t| t.view_mut().unwrap()).collect();
            split(whole.view(), axis, &mut outputs, execution).unwrap();
            assert_eq!(cut, parts, "split, {name}");
        });
    }

    #[test]
    fn gathers(dims in prop::collection::vec(1usize..7, 1..4), axis in 0usize..3, shape in prop::collection::vec(0usize..5, 0..3), seed in any::<u64>()) {
        let axis = axis % dims.len();
        let size = dims[axis] as i64;
        let indices: Vec<i64> = (0..count(&shape) as i64).map(|k| (k * 5 + seed as i64 % 11).rem_euclid(2 * size) - size).collect();
        let resolved = |p: usize| indices[p].rem_euclid(size) as usize;
        let index_tensor = Tensor::from_slice(&shape, &indices).unwrap();
        let mut output: Vec<usize> = dims[..axis].to_vec();
        output.extend(&shape);
        output.extend(&dims[axis + 1..]);
        check(&counting(&dims), &output, |x, y, e| gather(x, index_tensor.view(), axis, y, e), |index| {
            let place = position(&index[axis..axis + shape.len()], &shape);
            let mut source = index[..axis].to_vec();
            source.push(resolved(place));
            source.extend(&index[axis + shape.len()..]);
            position(&source, &dims) as u32
        });
        let mut elements = dims.clone();
        elements[axis] = 3;
        let indices: Vec<i32> = (0..count(&elements) as i32).map(|k| (k * 3).rem_euclid(2 * size as i32) - size as i32).collect();
        let index_tensor = Tensor::from_slice(&elements, &indices).unwrap();
        check(&counting(&dims), &elements, |x, y, e| gather_elements(x, index_tensor.view(), axis, y, e), |index| {
            let mut source = index.to_vec();
            source[axis] = indices[position(index, &elements)].rem_euclid(size as i32) as usize;
            position(&source, &dims) as u32
        });
    }

    #[test]
    fn pads(dims in prop::collection::vec(1usize..6, 0..4), amounts in prop::collection::vec((-3isize..5, -3isize..5), 4), which in 0usize..4) {
        let mode = [PadMode::Constant, PadMode::Reflect, PadMode::Edge, PadMode::Wrap][which];
        let before: Vec<isize> = amounts[..dims.len()].iter().map(|a| a.0).collect();
        let output: Vec<usize> = dims
            .iter()
            .zip(&amounts)
            .map(|(&d, &(b, a))| (d as isize + b + a).max(0) as usize)
            .collect();
        let fill = Tensor::from_slice(&[1], &[77u32]).unwrap();
        check(&counting(&dims), &output, |x, y, e| pad(x, &before, mode, Some(fill.view()), y, e), |index| {
            let mut source = Vec::new();
            for (axis, &i) in index.iter().enumerate() {
                let (at, size) = (i as isize - before[axis], dims[axis] as isize);
                let at = match mode {
                    PadMode::Constant if !(0..size).contains(&at) => return 77,
                    PadMode::Constant => at,
                    PadMode::Edge => at.max(0).min(size - 1),
                    PadMode::Wrap => at.rem_euclid(size),
                    PadMode::Reflect => {
                        // Step by step, as a ray between two mirrors.
                        let mut at = at;
                        while size > 1 && !(0..size).contains(&at) {
                            at = if at < 0 { -at } else { 2 * (size - 1) - at };
                        }
                        if size == 1 { 0 } else { at }
                    }
                };
                source.push(at as usize);
            }
            position(&source, &dims) as u32
        });
    }
}

/// What Python's `range(*slice(start, end, step).indices(size))` gives, with bounds as ONNX clamps them.
fn python_slice(start: i64, end: i64, step: i64, size: i64) -> Vec<i64> {
    let from_end = |bound: i64| if bound < 0 { bound + size } else { bound };
    let (low, high) = if step > 0 { (0, size) } else { (-1, size - 1) };
    let (mut at, end) = (
        from_end(start).clamp(low, high),
        from_end(end).clamp(low, high),
    );
    if step < 0 && from_end(start) < 0 {
        // ONNX clamps the start of a backward slice to [0, size − 1].
        at = 0.min(size - 1);
    }
    let mut taken = Vec::new();
    while (step > 0 && at < end) || (step < 0 && at > end) {
        taken.push(at);
        at += step;
    }
    if size == 0 { Vec::new() } else { taken }
}

#[test]
fn large_transpositions_use_blocks() {
    for dims in [&[200usize, 130][..], &[3, 100, 70], &[65, 64, 2]] {
        for perm in permutations(dims.len()) {
            let permuted: Vec<usize> = perm.iter().map(|&a| dims[a]).collect();
            check(
                &counting(dims),
                &permuted,
                |x, y, e| transpose(x, &perm, y, e),
                |index| {
                    let mut source = vec![0; dims.len()];
                    for (axis, &from) in perm.iter().enumerate() {
                        source[from] = index[axis];
                    }
                    position(&source, dims) as u32
                },
            );
        }
    }
}

fn permutations(rank: usize) -> Vec<Vec<usize>> {
    if rank == 0 {
        return vec![Vec::new()];
    }
    permutations(rank - 1)
        .into_iter()
        .flat_map(|p| {
            (0..rank).map(move |at| {
                let mut p = p.clone();
                p.insert(at, rank - 1);
                p
            })
        })
        .collect()
}

fn turned<T: Element>(values: &[T]) -> Vec<T> {
    let input = Tensor::from_slice(&[9, 10], values).unwrap();
    let mut output = Tensor::zeros(T::TYPE, &[10, 9]).unwrap();
    everywhere(|execution, _| {
        let mut view = output.view_mut().unwrap();
        transpose(input.view(), &[1, 0], &mut view, execution).unwrap();
    });
    output.as_slice::<T>().unwrap().to_vec()
}

#[test]
fn every_width_and_strings_move() {
    let order: Vec<usize> = (0..90).map(|i| i % 9 * 10 + i / 9).collect();
    assert_eq!(
        turned(&(0..90u8).collect::<Vec<_>>()),
        order.iter().map(|&i| i as u8).collect::<Vec<_>>()
    );
    assert_eq!(
        turned(&(0..90i16).collect::<Vec<_>>()),
        order.iter().map(|&i| i as i16).collect::<Vec<_>>()
    );
    assert_eq!(
        turned(&(0..90i64).collect::<Vec<_>>()),
        order.iter().map(|&i| i as i64).collect::<Vec<_>>()
    );
    let complex = |i: usize| onl_tensor::Complex {
        re: i as f64,
        im: -1.0,
    };
    assert_eq!(
        turned(&(0..90).map(complex).collect::<Vec<_>>()),
        order.iter().map(|&i| complex(i)).collect::<Vec<_>>()
    );
    let short = |i: usize| onl_tensor::Complex {
        re: i as f32,
        im: -1.0,
    };
    assert_eq!(
        turned(&(0..90).map(short).collect::<Vec<_>>()),
        order.iter().map(|&i| short(i)).collect::<Vec<_>>()
    );
    let texts: Vec<String> = (0..90).map(|i| i.to_string()).collect();
    let input = Tensor::from_strings(&[9, 10], texts).unwrap();
    let mut output = Tensor::zeros(ElementType::String, &[10, 9]).unwrap();
    everywhere(|execution, _| {
        let mut view = output.view_mut().unwrap();
        transpose(input.view(), &[1, 0], &mut view, execution).unwrap();
    });
    let expected: Vec<String> = order.iter().map(|i| i.to_string()).collect();
    assert_eq!(output.as_strings().unwrap(), expected);
}

#[test]
fn elements_narrower_than_a_byte_are_turned_or_refused() {
    let bytes = [0x21, 0x43, 0x65];
    let input = TensorView::from_bytes(ElementType::Int4, &[2, 3], &bytes).unwrap();
    let index = Tensor::from_slice(&[1], &[0_i64]).unwrap();
    everywhere(|execution, name| {
        let mut turned = Tensor::zeros(ElementType::Int4, &[3, 2]).unwrap();
        let mut view = turned.view_mut().unwrap();
        transpose(input, &[1, 0], &mut view, execution).unwrap();
        assert_eq!(turned.bytes(), [0x41, 0x52, 0x63], "{name}");
        let mut row = Tensor::zeros(ElementType::Int4, &[1, 3]).unwrap();
        let mut view = row.view_mut().unwrap();
        let error = gather(input, index.view(), 0, &mut view, execution).unwrap_err();
        assert!(
            matches!(error, MovementError::SubByte { .. }),
            "{name}: {error}"
        );
    });
}

#[test]
fn the_first_bad_index_is_reported_whichever_lane_meets_it() {
    let table = counting(&[10, 40]);
    let mut indices = vec![3i64; 500];
    indices[123] = 10;
    indices[400] = -11;
    let index_tensor = Tensor::from_slice(&[500], &indices).unwrap();
    let pairs = Tensor::from_slice(&[250, 2], &indices).unwrap();
    let elements = Tensor::from_slice(&[10, 50], &indices).unwrap();
    let narrow = counting(&[10, 50]);
    everywhere(|execution, name| {
        let mut output = Tensor::zeros(ElementType::UInt32, &[500, 40]).unwrap();
        let error = gather(
            table.view(),
            index_tensor.view(),
            0,
            &mut output.view_mut().unwrap(),
            execution,
        );
        let expected = |axis, size| {
            Err(MovementError::IndexOutOfRange {
                index: 10,
                position: 123,
                axis,
                size,
            })
        };
        assert_eq!(error, expected(0, 10), "gather, {name}");
        let mut output = Tensor::zeros(ElementType::UInt32, &[10, 50]).unwrap();
        let error = gather_elements(
            narrow.view(),
            elements.view(),
            0,
            &mut output.view_mut().unwrap(),
            execution,
        );
        assert_eq!(error, expected(0, 10), "gather elements, {name}");
        let mut output = Tensor::zeros(ElementType::UInt32, &[250]).unwrap();
        let error = gather_nd(
            counting(&[10, 10]).view(),
            pairs.view(),
            0,
            &mut output.view_mut().unwrap(),
            execution,
        );
        assert_eq!(error, expected(1, 10), "gather tuples, {name}");
        let empty = Tensor::zeros(ElementType::UInt32, &[10, 0]).unwrap();
        let mut output = Tensor::zeros(ElementType::UInt32, &[500, 0]).unwrap();
        let error = gather(
            empty.view(),
            index_tensor.view(),
            0,
            &mut output.view_mut().unwrap(),
            execution,
        );
        assert_eq!(error, expected(0, 10), "gather of nothing, {name}");
    });
}

#[test]
fn tuples_select_within_batches() {
    let dims = [2, 3, 4, 5];
    let tuples: Vec<i64> = vec![0, 1, 2, -1, 1, 0, 0, 0];
    let indices = Tensor::from_slice(&[2, 2, 2], &tuples).unwrap();
    check(
        &counting(&dims),
        &[2, 2, 5],
        |x, y, e| gather_nd(x, indices.view(), 1, y, e),
        |index| {
            let tuple = (index[0] * 2 + index[1]) * 2;
            let source = [
                index[0],
                tuples[tuple].rem_euclid(3) as usize,
                tuples[tuple + 1].rem_euclid(4) as usize,
                index[2],
            ];
            position(&source, &dims) as u32
        },
    );
}

#[test]
fn triangles_keep_their_side_of_the_diagonal() {
    for k in [-9, -2, 0, 1, 9] {
        for upper in [true, false] {
            let dims = [2, 4, 6];
            check(
                &counting(&dims),
                &dims,
                |x, y, e| triangle(x, upper, k, y, e),
                |index| {
                    let (row, column) = (index[1] as i64, index[2] as i64);
                    let kept = if upper {
                        column >= row + k
                    } else {
                        column <= row + k
                    };
                    if kept {
                        position(index, &dims) as u32
                    } else {
                        0
                    }
                },
            );
        }
    }
}

#[test]
fn shapes_that_do_not_fit_are_errors() {
    everywhere(|execution, name| {
        let input = counting(&[2, 3]);
        let mut output = Tensor::zeros(ElementType::UInt32, &[3, 2]).unwrap();
        let mut view = output.view_mut().unwrap();
        assert!(
            transpose(input.view(), &[0, 0], &mut view, execution).is_err(),
            "{name}"
        );
        assert!(
            expand(input.view(), &mut view, execution).is_err(),
            "{name}"
        );
        assert!(
            tile(input.view(), &[1], &mut view, execution).is_err(),
            "{name}"
        );
        let outside = [
            SliceAxis {
                start: 1,
                step: 1,
                length: 3,
            },
            SliceAxis {
                start: 0,
                step: 1,
                length: 2,
            },
        ];
        assert!(
            slice(input.view(), &outside, &mut view, execution).is_err(),
            "{name}"
        );
        assert!(concat(&[], 0, &mut view, execution).is_err(), "{name}");
        let mut wrong = Tensor::zeros(ElementType::Float32, &[3, 2]).unwrap();
        let error = transpose(
            input.view(),
            &[1, 0],
            &mut wrong.view_mut().unwrap(),
            execution,
        );
        assert!(error.is_err(), "{name}");
    });
}
