//! Portable bodies: a "vector" is one group of bytes.

use super::register_tile::register_tile;
use super::{Form, always, unwatched};
use std::convert::identity;

type V = i32;

register_tile!(
    scalar, SCALAR, lanes = 1, rows = [1 2 3 4], strips = [1 2], a_form = Form::Unsigned, b_form = Form::Signed,
    zero = 0, splat = identity::<i32>, load = std::ptr::read::<i32>, store = std::ptr::write::<i32>,
    store_partial = store_one, add = i32::wrapping_add, multiply = i32::wrapping_mul,
    interleave = interleave, dot = dot, watch = unwatched, exact = always
);

/// # Safety
/// `target` is valid for writing one element.
unsafe fn store_one(target: *mut i32, _: usize, value: i32) {
    // SAFETY: as above.
    unsafe { *target = value }
}

#[inline(always)]
fn dot(sum: i32, a: i32, b: i32) -> i32 {
    let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
    (0..4).fold(sum, |sum, i| {
        sum.wrapping_add(i32::from(a[i]) * i32::from(b[i] as i8))
    })
}

/// # Safety
/// `source` is valid for reading four rows of four bytes.
#[inline(always)]
unsafe fn interleave(source: *const u8, stride: usize, flip: u32) -> [i32; 4] {
    std::array::from_fn(|column| {
        let bytes = std::array::from_fn(|row| {
            // SAFETY: as above.
            unsafe { *source.wrapping_add(row * stride + column) }
        });
        (u32::from_le_bytes(bytes) ^ flip) as i32
    })
}
