//! Advanced SIMD bodies: eight rows of two 128-bit vectors.
//!
//! `udot` and `sdot` take two operands of one sign, so B is packed with the sign of A, which stays in place.

use super::register_tile::register_tile;
use super::{Form, always, unwatched};
use std::arch::aarch64::*;

type V = int32x4_t;

register_tile!(
    udot, NEON_UDOT, feature = "neon,dotprod", lanes = 4, rows = [1 2 3 4 5 6 7 8], strips = [1 2],
    a_form = Form::Unsigned, b_form = Form::Unsigned,
    zero = vdupq_n_s32(0), splat = vdupq_n_s32, load = vld1q_s32, store = vst1q_s32,
    store_partial = store_partial, add = vaddq_s32, multiply = vmulq_s32,
    interleave = interleave_bytes, dot = dot_unsigned, watch = unwatched, exact = always
);

register_tile!(
    sdot, NEON_SDOT, feature = "neon,dotprod", lanes = 4, rows = [1 2 3 4 5 6 7 8], strips = [1 2],
    a_form = Form::Signed, b_form = Form::Signed,
    zero = vdupq_n_s32(0), splat = vdupq_n_s32, load = vld1q_s32, store = vst1q_s32,
    store_partial = store_partial, add = vaddq_s32, multiply = vmulq_s32,
    interleave = interleave_bytes, dot = dot_signed, watch = unwatched, exact = always
);

register_tile!(
    words, NEON, feature = "neon", lanes = 4, rows = [1 2 3 4 5 6 7 8], strips = [1 2],
    a_form = Form::Words, b_form = Form::Words,
    zero = vdupq_n_s32(0), splat = vdupq_n_s32, load = vld1q_s32, store = vst1q_s32,
    store_partial = store_partial, add = vaddq_s32, multiply = vmulq_s32,
    interleave = interleave_words, dot = dot_words, watch = unwatched, exact = always
);

/// # Safety
/// `target` is valid for writing `count` elements, at most a vector.
#[target_feature(enable = "neon")]
#[inline]
unsafe fn store_partial(target: *mut i32, count: usize, value: V) {
    let mut lanes = [0; 4];
    // SAFETY: the array is a whole vector, and `count` elements are writable.
    unsafe {
        vst1q_s32(lanes.as_mut_ptr(), value);
        std::ptr::copy_nonoverlapping(lanes.as_ptr(), target, count);
    }
}

#[target_feature(enable = "neon,dotprod")]
#[inline]
fn dot_unsigned(sum: V, a: V, b: V) -> V {
    let mut sum = sum;
    // SAFETY: the instruction works on registers alone, and the feature is enabled.
    unsafe {
        std::arch::asm!(
            "udot {0:v}.4s, {1:v}.16b, {2:v}.16b",
            inout(vreg) sum, in(vreg) a, in(vreg) b,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}

#[target_feature(enable = "neon,dotprod")]
#[inline]
fn dot_signed(sum: V, a: V, b: V) -> V {
    let mut sum = sum;
    // SAFETY: as above.
    unsafe {
        std::arch::asm!(
            "sdot {0:v}.4s, {1:v}.16b, {2:v}.16b",
            inout(vreg) sum, in(vreg) a, in(vreg) b,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}

#[target_feature(enable = "neon")]
#[inline]
fn dot_words(sum: V, a: V, b: V) -> V {
    let (a, b) = (vreinterpretq_s16_s32(a), vreinterpretq_s16_s32(b));
    let low = vmull_s16(vget_low_s16(a), vget_low_s16(b));
    let high = vmull_high_s16(a, b);
    vaddq_s32(sum, vpaddq_s32(low, high))
}

/// # Safety
/// `source` is valid for reading four rows of 16 bytes.
#[target_feature(enable = "neon")]
#[inline]
unsafe fn interleave_bytes(source: *const u8, stride: usize, flip: u32) -> [V; 4] {
    let flip = vdupq_n_u8(flip as u8);
    let row = |row: usize| {
        // SAFETY: as above.
        veorq_u8(unsafe { vld1q_u8(source.wrapping_add(row * stride)) }, flip)
    };
    let (r0, r1, r2, r3) = (row(0), row(1), row(2), row(3));
    let pair = |x, y| {
        let (low, high) = (vzip1q_u8(x, y), vzip2q_u8(x, y));
        (vreinterpretq_u16_u8(low), vreinterpretq_u16_u8(high))
    };
    let ((low01, high01), (low23, high23)) = (pair(r0, r1), pair(r2, r3));
    [
        vreinterpretq_s32_u16(vzip1q_u16(low01, low23)),
        vreinterpretq_s32_u16(vzip2q_u16(low01, low23)),
        vreinterpretq_s32_u16(vzip1q_u16(high01, high23)),
        vreinterpretq_s32_u16(vzip2q_u16(high01, high23)),
    ]
}

/// # Safety
/// `source` is valid for reading two rows of 16 bytes.
#[target_feature(enable = "neon")]
#[inline]
unsafe fn interleave_words(source: *const u8, stride: usize, sign: u32) -> [V; 4] {
    let sign = vdupq_n_u16(sign as u16);
    // SAFETY: as above.
    let (r0, r1) = unsafe { (vld1q_u8(source), vld1q_u8(source.wrapping_add(stride))) };
    let (low, high) = (vzip1q_u8(r0, r1), vzip2q_u8(r0, r1));
    let words = |pairs| vreinterpretq_s32_u16(vsubq_u16(veorq_u16(pairs, sign), sign));
    [
        words(vmovl_u8(vget_low_u8(low))),
        words(vmovl_high_u8(low)),
        words(vmovl_u8(vget_low_u8(high))),
        words(vmovl_high_u8(high)),
    ]
}
