//! 64 virtual lanes: the order in which a row is reduced, on every tier.
//!
//! Element i of a row belongs to virtual lane i mod 64; lanes accumulate block by block, and fold at the end as
//! i + (i + 32), then 16, 8, 4, 2 and 1. A block is [`Isa::F32x64`] (or [`Isa::F64x64`]): four AVX-512 registers, eight
//! AVX2 registers, sixteen NEON registers, or an array. The last block of a row is padded with the operation's neutral
//! element: [`SUM_FILL`], −∞ for a maximum, ∞ for a minimum.
//!
//! Maximum and minimum are compare-and-select and keep the second operand when either is NaN; whether a row holds NaN
//! has to be watched apart.
//!
//! ```
//! use onl_simd::{Isa, SimdOp, dispatch, reduce};
//!
//! struct RowSum<'a>(&'a [f32]);
//!
//! impl SimdOp for RowSum<'_> {
//!     type Output = f32;
//!
//!     #[inline(always)]
//!     fn eval<I: Isa>(self, isa: I) -> f32 {
//!         let mut sum = isa.splat_f32x64(reduce::SUM_FILL);
//!         let mut blocks = self.0.chunks_exact(64);
//!         for block in &mut blocks {
//!             sum = reduce::add_block(isa, sum, reduce::load_block64(isa, block));
//!         }
//!         let rest = reduce::load_block64_partial(isa, blocks.remainder(), reduce::SUM_FILL);
//!         reduce::fold_sum(isa, reduce::add_block(isa, sum, rest))
//!     }
//! }
//!
//! let row: Vec<f32> = (1..=100).map(|i| i as f32).collect();
//! assert_eq!(dispatch(onl_cpu::IsaTier::detect(), RowSum(&row)), 5050.0);
//! ```

use crate::Isa;
use half::{bf16, f16};

/// Elements of a block.
pub const BLOCK: usize = 64;
/// Neutral element of a sum: −0 keeps the sign of a sum of negative zeros.
pub const SUM_FILL: f32 = -0.0;

/// Loads of one element type: a whole block, and the last block of a row.
macro_rules! loads {
    ($whole:ident, $part:ident, $element:ty, $block:ident, $lanes:ident, $splat:ident, $splat_fill:expr,
     $load:ident, $load_partial:ident) => {
        /// The first 64 elements, widened where the element type is narrower than the lane.
        ///
        /// # Panics
        /// When there are fewer.
        #[inline(always)]
        pub fn $whole<I: Isa>(isa: I, source: &[$element]) -> I::$block {
            let source = &source[..BLOCK];
            let mut block = isa.$splat(0.0);
            for (v, vector) in block.as_mut().iter_mut().enumerate() {
                *vector = isa.$load(&source[v * I::$lanes..]);
            }
            block
        }

        /// All of `source` (at most 64 elements), the other virtual lanes filled.
        ///
        /// # Panics
        /// When there are more.
        #[inline(always)]
        pub fn $part<I: Isa>(isa: I, source: &[$element], fill: $element) -> I::$block {
            assert!(
                source.len() <= BLOCK,
                "a block has {BLOCK} elements, not {}",
                source.len()
            );
            let mut block = isa.$splat($splat_fill(fill));
            for (vector, part) in block.as_mut().iter_mut().zip(source.chunks(I::$lanes)) {
                *vector = isa.$load_partial(part, fill);
            }
            block
        }
    };
}

loads!(
    load_block64,
    load_block64_partial,
    f32,
    F32x64,
    F32_LANES,
    splat_f32x64,
    f32::from,
    load_f32,
    load_partial_f32
);
loads!(
    load_block64_f16,
    load_block64_partial_f16,
    f16,
    F32x64,
    F32_LANES,
    splat_f32x64,
    f16::to_f32,
    load_f16,
    load_partial_f16
);
loads!(
    load_block64_bf16,
    load_block64_partial_bf16,
    bf16,
    F32x64,
    F32_LANES,
    splat_f32x64,
    bf16::to_f32,
    load_bf16,
    load_partial_bf16
);
loads!(
    load_block64_f64,
    load_block64_partial_f64,
    f64,
    F64x64,
    F64_LANES,
    splat_f64x64,
    f64::from,
    load_f64,
    load_partial_f64
);

/// Operations of two blocks, virtual lane by virtual lane.
macro_rules! lane_operations {
    ($($(#[$doc:meta])* $name:ident, $block:ident, $method:ident;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name<I: Isa>(isa: I, mut a: I::$block, b: I::$block) -> I::$block {
            for (a, &b) in a.as_mut().iter_mut().zip(b.as_ref()) {
                *a = isa.$method(*a, b);
            }
            a
        }
    )*};
}

lane_operations! {
    /// a + b.
    add_block, F32x64, add_f32;
    /// a − b.
    sub_block, F32x64, sub_f32;
    /// a · b.
    mul_block, F32x64, mul_f32;
    /// `a > b ? a : b`.
    max_block, F32x64, max_f32;
    /// `a < b ? a : b`.
    min_block, F32x64, min_f32;
    /// a + b.
    add_block_f64, F64x64, add_f64;
    /// a − b.
    sub_block_f64, F64x64, sub_f64;
    /// a · b.
    mul_block_f64, F64x64, mul_f64;
    /// `a > b ? a : b`.
    max_block_f64, F64x64, max_f64;
    /// `a < b ? a : b`.
    min_block_f64, F64x64, min_f64;
}

/// a · b + c with one rounding, virtual lane by virtual lane.
#[inline(always)]
pub fn fma_block<I: Isa>(isa: I, a: I::F32x64, b: I::F32x64, mut c: I::F32x64) -> I::F32x64 {
    for ((c, &a), &b) in c.as_mut().iter_mut().zip(a.as_ref()).zip(b.as_ref()) {
        *c = isa.fma_f32(a, b, *c);
    }
    c
}

/// a · b + c with one rounding, virtual lane by virtual lane.
#[inline(always)]
pub fn fma_block_f64<I: Isa>(isa: I, a: I::F64x64, b: I::F64x64, mut c: I::F64x64) -> I::F64x64 {
    for ((c, &a), &b) in c.as_mut().iter_mut().zip(a.as_ref()).zip(b.as_ref()) {
        *c = isa.fma_f64(a, b, *c);
    }
    c
}

/// Folds of the virtual lanes: whole vectors while a step spans them, then the lanes of the last one.
macro_rules! folds {
    ($($(#[$doc:meta])* $name:ident, $element:ty, $block:ident, $lanes:ident, $store:ident, $swap:ident, $method:ident;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name<I: Isa>(isa: I, mut block: I::$block) -> $element {
            let vectors = block.as_mut();
            folds!(@vectors isa, vectors, I::$lanes, $method, 32 16 8 4 2 1);
            let mut vector = vectors[0];
            folds!(@lanes isa, vector, I::$lanes, $swap, $method, 8 4 2 1);
            let mut lanes = [0.0; crate::MAXIMUM_F32_LANES];
            isa.$store(vector, &mut lanes);
            lanes[0]
        }
    )*};
    (@vectors $isa:ident, $vectors:ident, $lanes:expr, $method:ident, $($step:literal)*) => {$(
        if $step >= $lanes {
            let apart = $step / $lanes;
            for v in 0..apart {
                $vectors[v] = $isa.$method($vectors[v], $vectors[v + apart]);
            }
        }
    )*};
    (@lanes $isa:ident, $vector:ident, $lanes:expr, $swap:ident, $method:ident, $($step:literal)*) => {$(
        if $step < $lanes {
            $vector = $isa.$method($vector, $isa.$swap::<$step>($vector));
        }
    )*};
}

folds! {
    /// Sum of the 64 virtual lanes.
    fold_sum, f32, F32x64, F32_LANES, store_f32, swap_f32, add_f32;
    /// Maximum of the 64 virtual lanes.
    fold_max, f32, F32x64, F32_LANES, store_f32, swap_f32, max_f32;
    /// Minimum of the 64 virtual lanes.
    fold_min, f32, F32x64, F32_LANES, store_f32, swap_f32, min_f32;
    /// Product of the 64 virtual lanes.
    fold_product, f32, F32x64, F32_LANES, store_f32, swap_f32, mul_f32;
    /// Sum of the 64 virtual lanes.
    fold_sum_f64, f64, F64x64, F64_LANES, store_f64, swap_f64, add_f64;
    /// Maximum of the 64 virtual lanes.
    fold_max_f64, f64, F64x64, F64_LANES, store_f64, swap_f64, max_f64;
    /// Minimum of the 64 virtual lanes.
    fold_min_f64, f64, F64x64, F64_LANES, store_f64, swap_f64, min_f64;
    /// Product of the 64 virtual lanes.
    fold_product_f64, f64, F64x64, F64_LANES, store_f64, swap_f64, mul_f64;
}
