/// One step of k: a row of B, and for each row of A a broadcast element and `COUNT` fused multiply-adds.
///
/// Rows are written out, not looped over: LLVM gives up unrolling tall tiles and then keeps accumulators in memory.
macro_rules! step {
    (
        rows = $row_count:ident [$($row:literal)*], vectors = $count:ident, lanes = $lanes:expr, step = $step:expr,
        bases = ($base0:ident, $base1:ident, $base2:ident, $base3:ident), stride = $stride:ident,
        b = $b:ident, b_stride = $b_stride:ident, sums = $sums:ident,
        zero = $zero:expr, splat = $splat:expr, load = $load:expr, fma = $fma:expr
    ) => {
        let mut row = [$zero; $count];
        for v in 0..$count {
            // SAFETY: `b` is valid for whole vectors of the rows that are left, of which this is one.
            row[v] = unsafe { $load($b.wrapping_add($step * $b_stride + v * $lanes)) };
        }
        $(
            if $row_count >= $row {
                let base = match ($row - 1) / 3 { 0 => $base0, 1 => $base1, 2 => $base2, _ => $base3 };
                let element = base.wrapping_byte_add((($row - 1) % 3) * $stride).wrapping_add($step);
                // SAFETY: `a` is valid for this row and the steps that are left.
                let x = $splat(unsafe { *element });
                for v in 0..$count {
                    $sums[$row - 1][v] = $fma(x, row[v], $sums[$row - 1][v]);
                }
            }
        )*
    };
}

/// Defines a register tile `fn tile<const ROWS, const COUNT, const PACKED>(&Tile<T>)` and its companions for one
/// tier and element type, and the static table of all instances.
///
/// k is unrolled by four. Rows of A hang on four base pointers, three rows each, which bounds ROWS to 12.
macro_rules! register_tile {
    (
        $module:ident, $table:ident, $(feature = $feature:literal,)? element = $t:ty, lanes = $lanes:expr,
        rows = [$($rows:literal)*], zero = $zero:expr, splat = $splat:expr, load = $load:expr, store = $store:expr,
        load_partial = $load_partial:expr, store_partial = $store_partial:expr, fma = $fma:expr, add = $add:expr
    ) => {
        mod $module {
            #[allow(unused_imports)]
            use super::*;
            use crate::tile::register_tile::step;
            use crate::tile::{Tile, VECTORS, opaque, opaque_distance, prefetch, rows};

            /// See [`TileKernel`](crate::tile::TileKernel) for the contract.
            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn tile<const ROWS: usize, const COUNT: usize, const PACKED: bool>(tile: &Tile<$t>) {
                const UNROLL: usize = 4;
                const PREFETCH_STEPS: usize = 16;
                const LANES: usize = $lanes;
                const SIZE: usize = size_of::<$t>();
                let mut sums = [[$zero; COUNT]; ROWS];
                if !tile.start.is_null() {
                    $(if ROWS >= $rows {
                        for v in 0..COUNT {
                            let source = tile.start.wrapping_add(($rows - 1) * tile.start_stride + v * LANES);
                            // SAFETY: `start` is valid for the existing columns of ROWS rows.
                            sums[$rows - 1][v] = unsafe {
                                if v + 1 == COUNT { $load_partial(source, tile.last_lanes) } else { $load(source) }
                            };
                        }
                    })*
                }
                let mut stride = tile.a_stride * SIZE;
                let mut base0 = tile.a;
                let mut base1 = base0.wrapping_byte_add(3 * stride);
                let mut base2 = base0.wrapping_byte_add(6 * stride);
                let mut base3 = base0.wrapping_byte_add(9 * stride);
                let mut b = tile.b;
                let mut b_stride = if PACKED { VECTORS * LANES } else { tile.b_stride };
                let mut left = tile.depth;
                while left >= UNROLL {
                    base0 = opaque(base0);
                    if ROWS > 3 { base1 = opaque(base1); }
                    if ROWS > 6 { base2 = opaque(base2); }
                    if ROWS > 9 { base3 = opaque(base3); }
                    stride = opaque_distance(stride);
                    if !PACKED { b_stride = opaque_distance(b_stride); }
                    for step in 0..UNROLL {
                        let ahead = b.wrapping_add((PREFETCH_STEPS + step) * b_stride);
                        for v in 0..COUNT {
                            if (v * LANES * SIZE).is_multiple_of(64) {
                                prefetch(ahead.wrapping_add(v * LANES));
                            }
                        }
                    }
                    step!(
                        rows = ROWS [$($rows)*], vectors = COUNT, lanes = LANES, step = 0,
                        bases = (base0, base1, base2, base3), stride = stride, b = b, b_stride = b_stride, sums = sums,
                        zero = $zero, splat = $splat, load = $load, fma = $fma
                    );
                    step!(
                        rows = ROWS [$($rows)*], vectors = COUNT, lanes = LANES, step = 1,
                        bases = (base0, base1, base2, base3), stride = stride, b = b, b_stride = b_stride, sums = sums,
                        zero = $zero, splat = $splat, load = $load, fma = $fma
                    );
                    step!(
                        rows = ROWS [$($rows)*], vectors = COUNT, lanes = LANES, step = 2,
                        bases = (base0, base1, base2, base3), stride = stride, b = b, b_stride = b_stride, sums = sums,
                        zero = $zero, splat = $splat, load = $load, fma = $fma
                    );
                    step!(
                        rows = ROWS [$($rows)*], vectors = COUNT, lanes = LANES, step = 3,
                        bases = (base0, base1, base2, base3), stride = stride, b = b, b_stride = b_stride, sums = sums,
                        zero = $zero, splat = $splat, load = $load, fma = $fma
                    );
                    base0 = base0.wrapping_add(UNROLL);
                    base1 = base1.wrapping_add(UNROLL);
                    base2 = base2.wrapping_add(UNROLL);
                    base3 = base3.wrapping_add(UNROLL);
                    b = b.wrapping_add(UNROLL * b_stride);
                    left -= UNROLL;
                }
                while left > 0 {
                    step!(
                        rows = ROWS [$($rows)*], vectors = COUNT, lanes = LANES, step = 0,
                        bases = (base0, base1, base2, base3), stride = stride, b = b, b_stride = b_stride, sums = sums,
                        zero = $zero, splat = $splat, load = $load, fma = $fma
                    );
                    base0 = base0.wrapping_add(1);
                    base1 = base1.wrapping_add(1);
                    base2 = base2.wrapping_add(1);
                    base3 = base3.wrapping_add(1);
                    b = b.wrapping_add(b_stride);
                    left -= 1;
                }
                $(if ROWS >= $rows {
                    for v in 0..COUNT {
                        let target = tile.c.wrapping_add(($rows - 1) * tile.c_stride + v * LANES);
                        let partial = v + 1 == COUNT;
                        // SAFETY: `c` is valid for the existing columns of ROWS rows and belongs to this call.
                        unsafe {
                            let mut sum = sums[$rows - 1][v];
                            if tile.merge {
                                let old = if partial {
                                    $load_partial(target.cast_const(), tile.last_lanes)
                                } else {
                                    $load(target.cast_const())
                                };
                                sum = $add(old, sum);
                            }
                            if partial { $store_partial(target, tile.last_lanes, sum) } else { $store(target, sum) }
                        }
                    }
                })*
            }

            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn copy_panel(b: *const $t, b_stride: usize, depth: usize, panel: *mut $t) {
                const PREFETCH_ROWS: usize = 8;
                const LANES: usize = $lanes;
                for k in 0..depth {
                    let (source, target) = (b.wrapping_add(k * b_stride), panel.wrapping_add(k * VECTORS * LANES));
                    let ahead = source.wrapping_add(PREFETCH_ROWS * b_stride);
                    for v in 0..VECTORS {
                        prefetch(ahead.wrapping_add(v * LANES));
                        // SAFETY: `b` is valid for `depth` rows of a panel's width, `panel` for as many.
                        unsafe { $store(target.wrapping_add(v * LANES), $load(source.wrapping_add(v * LANES))) };
                    }
                }
            }

            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn continue_row(
                a: *const $t, a_stride: usize, depth: usize, b: *const $t, b_stride: usize, row: &mut [$t],
            ) {
                // SAFETY: the contract of `Kernels::continue_row` is that of the body.
                unsafe { rows::continue_row(a, a_stride, depth, b, b_stride, row) }
            }

            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn finish_row(row: &mut [$t], alpha: $t, beta: $t, addend: rows::RowAddend<'_, $t>) {
                rows::finish_row(row, alpha, beta, addend);
            }
        }

        pub(super) static $table: crate::tile::Kernels<$t> = crate::tile::Kernels {
            lanes: $lanes,
            packed: &[$([$module::tile::<$rows, 1, true>, $module::tile::<$rows, 2, true>]),*],
            strided: &[$([$module::tile::<$rows, 1, false>, $module::tile::<$rows, 2, false>]),*],
            copy_panel: $module::copy_panel,
            continue_row: $module::continue_row,
            finish_row: $module::finish_row,
        };
    };
}

pub(super) use {register_tile, step};
