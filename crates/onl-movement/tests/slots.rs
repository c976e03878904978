//! Transpositions of every width and scatters, against plain references.

use onl_cpu::IsaTier;
use onl_executor::CpuExecutor;
use onl_movement::{
    Execution, MovementError, Reduction, count_blocks, count_chosen, scatter_elements, scatter_nd,
    transpose, write_positions,
};
use onl_snapshot::ParallelConfig;
use onl_tensor::{Element, ElementType, Tensor, row_major_strides};
use proptest::prelude::*;

/// Runs a body for every tier, on the caller alone and divided.
fn everywhere(mut body: impl FnMut(&Execution<'_>)) {
    for (lanes, grain) in [(1, 1 << 30), (3, 1)] {
        let executor = CpuExecutor::with_lanes(lanes);
        let run = executor.enter();
        for &tier in IsaTier::available() {
            let config = ParallelConfig {
                minimum_elements: 1,
                grain_elements: grain,
                maximum_participants: 0,
            };
            body(&Execution::new(run.lanes(), config, tier));
        }
    }
}

fn turns<T: Element>(batch: usize, rows: usize, columns: usize, value: impl Fn(usize) -> T) {
    let values: Vec<T> = (0..batch * rows * columns).map(value).collect();
    let input = Tensor::from_slice(&[batch, rows, columns], &values).unwrap();
    let mut expected = Vec::new();
    for matrix in values.chunks_exact((rows * columns).max(1)) {
        for column in 0..columns {
            expected.extend((0..rows).map(|row| matrix[row * columns + column]));
        }
    }
    everywhere(|execution| {
        let mut output = Tensor::zeros(T::TYPE, &[batch, columns, rows]).unwrap();
        let mut view = output.view_mut().unwrap();
        transpose(input.view(), &[0, 2, 1], &mut view, execution).unwrap();
        let result = output.as_slice::<T>().unwrap();
        assert!(
            result == expected,
            "{batch}×{rows}×{columns} of {}",
            T::TYPE
        );
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn matrices_of_every_width_are_turned(batch in 1usize..4, rows in 1usize..150, columns in 1usize..150) {
        turns(batch, rows, columns, |i| (i * 31 + i / 256) as u8);
        turns(batch, rows, columns, |i| i as u16);
        turns(batch, rows, columns, |i| i as u32);
        turns(batch, rows, columns, |i| i as u64);
    }

    #[test]
    fn narrow_matrices_of_every_width_are_turned(batch in 1usize..9, rows in 1usize..20, columns in 1usize..20) {
        turns(batch, rows, columns, |i| (i * 31 + i / 256) as u8);
        turns(batch, rows, columns, |i| i as u16);
        turns(batch, rows, columns, |i| i as u32);
        turns(batch, rows, columns, |i| i as u64);
    }

    #[test]
    fn scatters_apply_updates_in_order(
        dims in prop::collection::vec(1usize..6, 1..4),
        less in prop::collection::vec(0usize..3, 4),
        axis in 0usize..4,
        which in 0usize..5,
        seed in any::<u32>(),
    ) {
        let axis = axis % dims.len();
        let mut shape: Vec<usize> = dims.iter().zip(&less).map(|(&d, &l)| d.saturating_sub(l)).collect();
        shape[axis] = less[3] * 4 + 1;
        let count: usize = shape.iter().product();
        let size = dims[axis] as i64;
        let mut state = u64::from(seed);
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as i64
        };
        let indices: Vec<i64> = (0..count).map(|_| random() % (2 * size) - size).collect();
        let updates: Vec<i32> = (0..count).map(|_| random() as i32).collect();
        let data: Vec<i32> = (0..dims.iter().product::<usize>()).map(|_| random() as i32).collect();
        let reduction = REDUCTIONS[which];
        let mut expected = data.clone();
        let steps = row_major_strides(&dims);
        for position in 0..count {
            let (mut rest, mut slot) = (position, 0);
            for a in (0..dims.len()).rev() {
                let at = rest % shape[a];
                rest /= shape[a];
                slot += steps[a] * if a == axis { indices[position].rem_euclid(size) as usize } else { at };
            }
            expected[slot] = reduced(reduction, expected[slot], updates[position]);
        }
        let input = Tensor::from_slice(&dims, &data).unwrap();
        let indices = Tensor::from_slice(&shape, &indices).unwrap();
        let updates = Tensor::from_slice(&shape, &updates).unwrap();
        everywhere(|execution| {
            let mut output = Tensor::zeros(ElementType::Int32, &dims).unwrap();
            let mut view = output.view_mut().unwrap();
            scatter_elements(input.view(), indices.view(), updates.view(), axis, reduction, &mut view, execution).unwrap();
            assert_eq!(output.as_slice::<i32>().unwrap(), expected);
        });
    }

    #[test]
    fn slices_are_scattered_in_order(
        rows in 1usize..7,
        inner in prop_oneof![0usize..5, 100usize..700],
        tuples in 0usize..20,
        which in 0usize..5,
    ) {
        let indices: Vec<i32> = (0..tuples).map(|t| (t * 7 % (2 * rows)) as i32 - rows as i32).collect();
        let updates: Vec<i64> = (0..tuples * inner).map(|i| (i * 7919 % 1013) as i64 - 500).collect();
        let data: Vec<i64> = (0..rows * inner).map(|i| i as i64).collect();
        let reduction = REDUCTIONS[which];
        let mut expected = data.clone();
        for (tuple, index) in indices.iter().enumerate() {
            let row = index.rem_euclid(rows as i32) as usize;
            for i in 0..inner {
                let slot = &mut expected[row * inner + i];
                *slot = reduced(reduction, *slot, updates[tuple * inner + i]);
            }
        }
        let input = Tensor::from_slice(&[rows, inner], &data).unwrap();
        let indices = Tensor::from_slice(&[tuples, 1], &indices).unwrap();
        let updates = Tensor::from_slice(&[tuples, inner], &updates).unwrap();
        everywhere(|execution| {
            let mut output = Tensor::zeros(ElementType::Int64, &[rows, inner]).unwrap();
            let mut view = output.view_mut().unwrap();
            scatter_nd(input.view(), indices.view(), updates.view(), reduction, &mut view, execution).unwrap();
            assert_eq!(output.as_slice::<i64>().unwrap(), expected);
        });
    }

    #[test]
    fn positions_are_those_of_a_plain_search(dims in prop::collection::vec(1usize..40, 0..4), every in 1usize..9) {
        let count: usize = dims.iter().product();
        let values: Vec<f32> = (0..count).map(|i| if i * 7 % every == 0 { -1.5 } else { -0.0 }).collect();
        let chosen: Vec<usize> = (0..count).filter(|&i| values[i] != 0.0).collect();
        let steps = row_major_strides(&dims);
        let mut expected = Vec::new();
        for (axis, &size) in dims.iter().enumerate() {
            expected.extend(chosen.iter().map(|&i| (i / steps[axis] % size) as i64));
        }
        let input = Tensor::from_slice(&dims, &values).unwrap();
        everywhere(|execution| {
            let mut counts = vec![0; count_blocks(count)];
            let total = count_chosen(input.view(), &mut counts, execution).unwrap();
            assert_eq!(total, chosen.len());
            let mut output = Tensor::zeros(ElementType::Int64, &[dims.len(), total]).unwrap();
            write_positions(input.view(), &counts, &mut output.view_mut().unwrap(), execution).unwrap();
            assert_eq!(output.as_slice::<i64>().unwrap(), expected);
        });
    }
}

const REDUCTIONS: [Reduction; 5] = [
    Reduction::None,
    Reduction::Add,
    Reduction::Mul,
    Reduction::Max,
    Reduction::Min,
];

/// Two's complement of the integer types that the tests use.
trait Wrapping: Ord {
    fn sum(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
}
impl Wrapping for i32 {
    fn sum(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    fn product(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }
}
impl Wrapping for i64 {
    fn sum(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    fn product(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }
}

fn reduced<T: Wrapping>(reduction: Reduction, slot: T, update: T) -> T {
    match reduction {
        Reduction::None => update,
        Reduction::Add => slot.sum(update),
        Reduction::Mul => slot.product(update),
        Reduction::Max => slot.max(update),
        Reduction::Min => slot.min(update),
    }
}

#[test]
fn the_first_bad_index_of_a_scatter_is_reported() {
    for (rows, columns, axis) in [(100, 300, 1), (300, 100, 0)] {
        let dims = [rows, columns];
        let mut indices = vec![0_i64; rows * columns];
        indices[17_000] = -301;
        indices[16_999] = 300;
        let data = Tensor::zeros(ElementType::Float32, &dims).unwrap();
        let indices = Tensor::from_slice(&dims, &indices).unwrap();
        everywhere(|execution| {
            let mut output = Tensor::zeros(ElementType::Float32, &dims).unwrap();
            let mut view = output.view_mut().unwrap();
            let result = scatter_elements(
                data.view(),
                indices.view(),
                data.view(),
                axis,
                Reduction::Add,
                &mut view,
                execution,
            );
            let expected = MovementError::IndexOutOfRange {
                index: 300,
                position: 16_999,
                axis,
                size: 300,
            };
            assert_eq!(result, Err(expected));
        });
    }
}
