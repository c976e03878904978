//! The stated order of arithmetic in plain Rust, and random rows.
#![allow(dead_code)]

use onl_cpu::IsaTier;
use onl_executor::CpuExecutor;
use onl_reduce::{BLOCK, Execution};
use onl_snapshot::ParallelConfig;

/// Runs a body for every tier of this processor and several lane counts and grains.
pub fn everywhere(mut body: impl FnMut(&Execution<'_>, String)) {
    for &tier in IsaTier::available() {
        for (lanes, grain) in [(1, 1 << 40), (1, 256), (2, 256), (3, 5000), (7, 16_384)] {
            let executor = CpuExecutor::with_lanes(lanes);
            let run = executor.enter();
            let config = ParallelConfig {
                minimum_elements: 1,
                grain_elements: grain,
                maximum_participants: 0,
            };
            let execution = Execution::new(run.lanes(), config, tier);
            body(&execution, format!("{tier}, {lanes} lanes, grain {grain}"));
        }
    }
}

/// Reduces a row by the stated order: blocks, 64 lanes, halving folds, blocks left to right.
pub fn ordered<R: Copy>(
    row: &[R],
    start: R,
    accumulate: impl Fn(R, R) -> R,
    combine: impl Fn(R, R) -> R,
) -> R {
    let block = |elements: &[R]| {
        let mut lanes = [start; 64];
        for (i, &x) in elements.iter().enumerate() {
            lanes[i % 64] = accumulate(lanes[i % 64], x);
        }
        let mut step = 32;
        while step > 0 {
            for lane in 0..step {
                lanes[lane] = combine(lanes[lane], lanes[lane + step]);
            }
            step /= 2;
        }
        lanes[0]
    };
    let mut blocks = row.chunks(BLOCK).map(block);
    let first = blocks.next().unwrap_or(start);
    blocks.fold(first, &combine)
}

/// Pseudo-random numbers around zero with a few magnitudes.
pub fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let unit = (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5;
            unit * [1.0, 8.0, 0.01][(state % 3) as usize]
        })
        .collect()
}

/// Equal bits, where any NaN equals any NaN.
pub fn same_bits(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .all(|(x, y)| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan())
}

/// Elements of a row of a tensor: those whose kept coordinates are those of output `output`.
pub fn rows(dims: &[usize], reduce: &[bool]) -> Vec<Vec<usize>> {
    let kept: usize = dims
        .iter()
        .zip(reduce)
        .filter(|(_, r)| !**r)
        .map(|(d, _)| *d)
        .product();
    let mut rows = vec![Vec::new(); kept];
    for element in 0..dims.iter().product() {
        let mut rest: usize = element;
        let mut output = 0;
        let mut step = 1;
        for axis in (0..dims.len()).rev() {
            let index = rest % dims[axis];
            rest /= dims[axis];
            if !reduce[axis] {
                output += index * step;
                step *= dims[axis];
            }
        }
        rows[output].push(element);
    }
    rows
}
