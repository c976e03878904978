//! Reductions over 64 virtual lanes: the stated order, on every tier.

mod common;

use common::{Random, same_f32, same_f64};
use half::{bf16, f16};
use onl_cpu::IsaTier;
use onl_simd::{Isa, SimdOp, dispatch, reduce};

/// Sum, maximum, minimum, product, sum of squares of a row; sum of it as f16 and bf16.
struct Row<'a> {
    single: &'a [f32],
    half: &'a [f16],
    brain: &'a [bf16],
}

/// One accumulation over a row, block by block.
macro_rules! accumulate {
    ($isa:ident, $row:expr, $load:ident, $part:ident, $start:expr, $fill:expr, $combine:ident) => {{
        let mut total = $start;
        let mut blocks = $row.chunks_exact(reduce::BLOCK);
        for block in &mut blocks {
            total = reduce::$combine($isa, total, reduce::$load($isa, block));
        }
        let rest = reduce::$part($isa, blocks.remainder(), $fill);
        reduce::$combine($isa, total, rest)
    }};
}

impl SimdOp for Row<'_> {
    type Output = [f32; 7];

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) -> [f32; 7] {
        let infinity = f32::INFINITY;
        let zero = isa.splat_f32x64(reduce::SUM_FILL);
        let sum = accumulate!(
            isa,
            self.single,
            load_block64,
            load_block64_partial,
            zero,
            -0.0,
            add_block
        );
        let start = isa.splat_f32x64(-infinity);
        let max = accumulate!(
            isa,
            self.single,
            load_block64,
            load_block64_partial,
            start,
            -infinity,
            max_block
        );
        let start = isa.splat_f32x64(infinity);
        let min = accumulate!(
            isa,
            self.single,
            load_block64,
            load_block64_partial,
            start,
            infinity,
            min_block
        );
        let start = isa.splat_f32x64(1.0);
        let product = accumulate!(
            isa,
            self.single,
            load_block64,
            load_block64_partial,
            start,
            1.0,
            mul_block
        );
        let half = accumulate!(
            isa,
            self.half,
            load_block64_f16,
            load_block64_partial_f16,
            zero,
            f16::NEG_ZERO,
            add_block
        );
        let brain = accumulate!(
            isa,
            self.brain,
            load_block64_bf16,
            load_block64_partial_bf16,
            zero,
            bf16::NEG_ZERO,
            add_block
        );
        let mut squares = zero;
        for block in self.single.chunks(reduce::BLOCK) {
            let block = reduce::load_block64_partial(isa, block, 0.0);
            squares = reduce::fma_block(isa, block, block, squares);
        }
        [
            reduce::fold_sum(isa, sum),
            reduce::fold_max(isa, max),
            reduce::fold_min(isa, min),
            reduce::fold_product(isa, product),
            reduce::fold_sum(isa, half),
            reduce::fold_sum(isa, brain),
            reduce::fold_sum(isa, squares),
        ]
    }
}

/// The order as the module's documentation states it, written without vectors.
fn specified(row: &[f32], start: f32, combine: fn(f32, f32) -> f32, fill: f32) -> f32 {
    let mut lanes = [start; 64];
    for block in 0..=row.len() / 64 {
        for lane in 0..64 {
            let x = row.get(block * 64 + lane).copied().unwrap_or(fill);
            lanes[lane] = combine(lanes[lane], x);
        }
    }
    for step in [32, 16, 8, 4, 2, 1] {
        for lane in 0..step {
            lanes[lane] = combine(lanes[lane], lanes[lane + step]);
        }
    }
    lanes[0]
}

fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

fn smaller(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

#[test]
fn rows_of_every_length_follow_the_specification() {
    let mut random = Random(31);
    for length in (0..200).chain([255, 256, 257, 1000, 4096, 5001]) {
        let single: Vec<f32> = (0..length)
            .map(|_| random.uniform(-3.0, 3.0) as f32)
            .collect();
        let half: Vec<f16> = single.iter().map(|&x| f16::from_f32(x)).collect();
        let brain: Vec<bf16> = single.iter().map(|&x| bf16::from_f32(x)).collect();
        let wide16: Vec<f32> = half.iter().map(|x| x.to_f32()).collect();
        let wideb: Vec<f32> = brain.iter().map(|x| x.to_f32()).collect();
        let infinity = f32::INFINITY;
        let expected = [
            specified(&single, -0.0, |a, b| a + b, -0.0),
            specified(&single, -infinity, larger, -infinity),
            specified(&single, infinity, smaller, infinity),
            specified(&single, 1.0, |a, b| a * b, 1.0),
            specified(&wide16, -0.0, |a, b| a + b, -0.0),
            specified(&wideb, -0.0, |a, b| a + b, -0.0),
        ];
        let mut squares = None;
        for &tier in IsaTier::available() {
            let op = Row {
                single: &single,
                half: &half,
                brain: &brain,
            };
            let got = dispatch(tier, op);
            for (i, (&got, &expected)) in got.iter().zip(&expected).enumerate() {
                assert!(
                    same_f32(got, expected),
                    "reduction {i} of {length} elements on {tier}: {got:e}, not {expected:e}"
                );
            }
            let first = *squares.get_or_insert(got[6]);
            assert!(
                same_f32(first, got[6]),
                "squares of {length} elements on {tier}"
            );
        }
    }
}

#[test]
fn a_sum_of_negative_zeros_is_negative_zero() {
    for &tier in IsaTier::available() {
        for length in [1, 63, 64, 65, 128] {
            let single = vec![-0.0; length];
            let op = Row {
                single: &single,
                half: &[],
                brain: &[],
            };
            assert_eq!(
                dispatch(tier, op)[0].to_bits(),
                (-0.0_f32).to_bits(),
                "{length} zeros on {tier}"
            );
        }
    }
}

struct RowF64<'a>(&'a [f64]);

impl SimdOp for RowF64<'_> {
    type Output = [f64; 4];

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) -> [f64; 4] {
        let infinity = f64::INFINITY;
        let start = isa.splat_f64x64(-0.0);
        let sum = accumulate!(
            isa,
            self.0,
            load_block64_f64,
            load_block64_partial_f64,
            start,
            -0.0,
            add_block_f64
        );
        let start = isa.splat_f64x64(-infinity);
        let max = accumulate!(
            isa,
            self.0,
            load_block64_f64,
            load_block64_partial_f64,
            start,
            -infinity,
            max_block_f64
        );
        let start = isa.splat_f64x64(infinity);
        let min = accumulate!(
            isa,
            self.0,
            load_block64_f64,
            load_block64_partial_f64,
            start,
            infinity,
            min_block_f64
        );
        let start = isa.splat_f64x64(1.0);
        let product = accumulate!(
            isa,
            self.0,
            load_block64_f64,
            load_block64_partial_f64,
            start,
            1.0,
            mul_block_f64
        );
        [
            reduce::fold_sum_f64(isa, sum),
            reduce::fold_max_f64(isa, max),
            reduce::fold_min_f64(isa, min),
            reduce::fold_product_f64(isa, product),
        ]
    }
}

#[test]
fn rows_of_f64_agree_across_tiers() {
    let mut random = Random(32);
    for length in (0..140).chain([1000]) {
        let row: Vec<f64> = (0..length).map(|_| random.uniform(-3.0, 3.0)).collect();
        let expected = dispatch(IsaTier::Scalar, RowF64(&row));
        let sum: f64 = row.iter().sum();
        assert!(
            (expected[0] - sum).abs() <= 1e-12,
            "sum of {length} elements"
        );
        assert_eq!(
            expected[1],
            row.iter().copied().fold(f64::NEG_INFINITY, f64::max)
        );
        assert_eq!(
            expected[2],
            row.iter().copied().fold(f64::INFINITY, f64::min)
        );
        for &tier in IsaTier::available() {
            let got = dispatch(tier, RowF64(&row));
            assert!(
                got.iter().zip(&expected).all(|(&a, &b)| same_f64(a, b)),
                "{length} elements on {tier}"
            );
        }
    }
}

#[test]
#[should_panic(expected = "a block has 64 elements")]
fn a_partial_block_longer_than_a_block_is_refused() {
    struct Long;
    impl SimdOp for Long {
        type Output = f32;

        #[inline(always)]
        fn eval<I: Isa>(self, isa: I) -> f32 {
            reduce::fold_sum(isa, reduce::load_block64_partial(isa, &[0.0; 65], 0.0))
        }
    }
    dispatch(IsaTier::detect(), Long);
}
