//! Portable tiles, one element a vector: the reference for bits.

use super::register_tile::register_tile;

macro_rules! scalar_tile {
    ($module:ident, $table:ident, $t:ty) => {
        register_tile!(
            $module, $table, Scalar, element = $t, lanes = 1, rows = [1 2 3 4], sliver = [], strided = [1 2 3 4],
            packed_wide = [], strided_wide = [], halves = no,
            zero = 0.0, splat = std::convert::identity::<$t>, load = std::ptr::read::<$t>, store = std::ptr::write::<$t>,
            load_partial = load_one::<$t>, store_partial = store_one::<$t>,
            widen_f16 = no_halves, widen_bf16 = no_halves, widen_plain = no_halves,
            turn = std::convert::identity::<[$t; 1]>,
            fma = <$t>::mul_add, add = std::ops::Add::add
        );
    };
}

scalar_tile!(scalar_f32, SCALAR_F32, f32);
scalar_tile!(scalar_f64, SCALAR_F64, f64);

/// # Safety
/// `source` is valid for reading one element.
unsafe fn load_one<T: Copy>(source: *const T, _: usize) -> T {
    // SAFETY: as above.
    unsafe { *source }
}

/// # Safety
/// `target` is valid for writing one element.
unsafe fn store_one<T: Copy>(target: *mut T, _: usize, value: T) {
    // SAFETY: as above.
    unsafe { *target = value }
}

/// Stands where a table has no tiles over 16-bit panels.
///
/// # Safety
/// None; it is never called.
pub(super) unsafe fn no_halves<V>(_: *const u16) -> [V; super::VECTORS] {
    unreachable!("this tier has no tiles over 16-bit panels")
}
