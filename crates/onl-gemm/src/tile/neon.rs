//! Advanced SIMD tiles: eight rows of two 128-bit vectors.

use super::register_tile::register_tile;
use super::scalar::no_halves;
use std::arch::aarch64::*;

register_tile!(
    neon_f32, NEON_F32, Neon, feature = "neon", element = f32,
    lanes = 4, rows = [1 2 3 4 5 6 7 8], sliver = [], strided = [1 2 3 4 5 6 7 8],
    packed_wide = [1: 4 2: 2], strided_wide = [], halves = no,
    zero = vdupq_n_f32(0.0), splat = vdupq_n_f32, load = vld1q_f32, store = vst1q_f32,
    load_partial = load_partial_f32, store_partial = store_partial_f32,
    widen_f16 = no_halves, widen_bf16 = no_halves, widen_plain = no_halves,
    turn = turn_f32, fma = fma_f32, add = vaddq_f32
);

register_tile!(
    neon_f64, NEON_F64, Neon, feature = "neon", element = f64,
    lanes = 2, rows = [1 2 3 4 5 6 7 8], sliver = [], strided = [1 2 3 4 5 6 7 8],
    packed_wide = [1: 4 2: 2], strided_wide = [], halves = no,
    zero = vdupq_n_f64(0.0), splat = vdupq_n_f64, load = vld1q_f64, store = vst1q_f64,
    load_partial = load_partial_f64, store_partial = store_partial_f64,
    widen_f16 = no_halves, widen_bf16 = no_halves, widen_plain = no_halves,
    turn = turn_f64, fma = fma_f64, add = vaddq_f64
);

#[target_feature(enable = "neon")]
#[inline]
fn fma_f32(x: float32x4_t, y: float32x4_t, sum: float32x4_t) -> float32x4_t {
    vfmaq_f32(sum, x, y)
}

#[target_feature(enable = "neon")]
#[inline]
fn fma_f64(x: float64x2_t, y: float64x2_t, sum: float64x2_t) -> float64x2_t {
    vfmaq_f64(sum, x, y)
}

macro_rules! partial {
    ($load_partial:ident, $store_partial:ident, $t:ty, $v:ty, $lanes:literal, $load:ident, $store:ident) => {
        /// # Safety
        /// `source` is valid for reading `count` elements, at most a vector.
        #[target_feature(enable = "neon")]
        #[inline]
        unsafe fn $load_partial(source: *const $t, count: usize) -> $v {
            let mut lanes = [0.0; $lanes];
            // SAFETY: `count` elements are readable and fit the array, which is a whole vector.
            unsafe {
                std::ptr::copy_nonoverlapping(source, lanes.as_mut_ptr(), count);
                $load(lanes.as_ptr())
            }
        }

        /// # Safety
        /// `target` is valid for writing `count` elements, at most a vector.
        #[target_feature(enable = "neon")]
        #[inline]
        unsafe fn $store_partial(target: *mut $t, count: usize, value: $v) {
            let mut lanes = [0.0; $lanes];
            // SAFETY: the array is a whole vector, and `count` elements are writable.
            unsafe {
                $store(lanes.as_mut_ptr(), value);
                std::ptr::copy_nonoverlapping(lanes.as_ptr(), target, count);
            }
        }
    };
}

partial!(
    load_partial_f32,
    store_partial_f32,
    f32,
    float32x4_t,
    4,
    vld1q_f32,
    vst1q_f32
);
partial!(
    load_partial_f64,
    store_partial_f64,
    f64,
    float64x2_t,
    2,
    vld1q_f64,
    vst1q_f64
);

/// Transposes 4 × 4.
#[target_feature(enable = "neon")]
#[inline]
fn turn_f32(rows: [float32x4_t; 4]) -> [float32x4_t; 4] {
    let wide = |x| vreinterpretq_f64_f32(x);
    let narrow = |x| vreinterpretq_f32_f64(x);
    let (even_low, odd_low) = (
        wide(vtrn1q_f32(rows[0], rows[1])),
        wide(vtrn2q_f32(rows[0], rows[1])),
    );
    let (even_high, odd_high) = (
        wide(vtrn1q_f32(rows[2], rows[3])),
        wide(vtrn2q_f32(rows[2], rows[3])),
    );
    [
        narrow(vtrn1q_f64(even_low, even_high)),
        narrow(vtrn1q_f64(odd_low, odd_high)),
        narrow(vtrn2q_f64(even_low, even_high)),
        narrow(vtrn2q_f64(odd_low, odd_high)),
    ]
}

/// Transposes 2 × 2.
#[target_feature(enable = "neon")]
#[inline]
fn turn_f64(rows: [float64x2_t; 2]) -> [float64x2_t; 2] {
    [vtrn1q_f64(rows[0], rows[1]), vtrn2q_f64(rows[0], rows[1])]
}
