/// One group of k: a row of a panel, and for each row of A a broadcast group and `COUNT` multiplications.
///
/// Rows are written out, not looped over: LLVM gives up unrolling tall tiles and then keeps sums in memory.
macro_rules! group {
    (
        rows = $row_count:ident [$($row:literal)*], vectors = $count:ident, lanes = $lanes:expr, step = $step:expr,
        bases = ($base0:ident, $base1:ident, $base2:ident, $base3:ident), stride = $stride:ident,
        b = $b:ident, sums = $sums:ident, word = $word:ident($tail:expr),
        zero = $zero:expr, splat = $splat:expr, load = $load:expr, dot = $dot:expr
    ) => {
        let mut row = [$zero; $count];
        for v in 0..$count {
            // SAFETY: `b` is valid for the groups that are left, of which this is one.
            row[v] = unsafe { $load($b.wrapping_add(($step * VECTORS + v) * $lanes)) };
        }
        $(
            if $row_count >= $row {
                let base = match ($row - 1) / 3 { 0 => $base0, 1 => $base1, 2 => $base2, _ => $base3 };
                let address = base.wrapping_byte_add((($row - 1) % 3) * $stride).wrapping_add($step);
                // SAFETY: `a` is valid for this row and the groups that are left.
                let x = $splat(unsafe { $word(address, $tail) } as i32);
                for v in 0..$count {
                    $sums[$row - 1][v] = $dot($sums[$row - 1][v], x, row[v]);
                }
            }
        )*
    };
}

/// Defines the bodies for one kind of instructions and their table.
///
/// Groups are unrolled by four. Rows of A hang on four base pointers, three rows each, which bounds the height to 12.
macro_rules! register_tile {
    (
        $module:ident, $table:ident, $(feature = $feature:literal,)? lanes = $lanes:expr, rows = [$($rows:literal)*],
        strips = [$($strips:literal)*], a_form = $a_form:expr, b_form = $b_form:expr,
        zero = $zero:expr, splat = $splat:expr, load = $load:expr, store = $store:expr,
        store_partial = $store_partial:expr, add = $add:expr, multiply = $multiply:expr,
        interleave = $interleave:expr, dot = $dot:expr, watch = $watch:expr, exact = $exact:expr
    ) => {
        mod $module {
            use super::*;
            use crate::quantized::requantize::{self, Rounding, RowScale};
            use crate::quantized::rows;
            use crate::quantized::tile::register_tile::group;
            use crate::quantized::tile::{
                MAXIMUM_STRIP, STRIP_VECTORS, Strip, Tile, VECTORS, last_group, opaque, opaque_distance, prefetch,
                prefetch_second_level, whole_group,
            };

            const LANES: usize = $lanes;
            const GROUP: usize = $b_form.group();
            const STRIP: usize = STRIP_VECTORS * LANES;

            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn tile<const ROWS: usize, const COUNT: usize>(tile: &Tile) {
                const UNROLL: usize = 4;
                // Few rows leave the pace to memory, whose latency asks for a longer distance.
                let ahead = if ROWS <= 2 && LANES <= 8 { 64 } else { 16 };
                let mut sums = [[$zero; COUNT]; ROWS];
                let starts = &tile.starts;
                // SAFETY: starts are valid for the rows of the instance and the columns of whole vectors.
                unsafe {
                    $(if ROWS >= $rows {
                        let row = $splat(*starts.rows.wrapping_add($rows - 1));
                        for v in 0..COUNT {
                            sums[$rows - 1][v] = $add($load(starts.columns.wrapping_add(v * LANES)), row);
                        }
                    })*
                    if starts.factored {
                        $(if ROWS >= $rows {
                            let a_factor = $splat(*starts.a_factors.wrapping_add($rows - 1));
                            let b_factor = $splat(*starts.b_factors.wrapping_add($rows - 1));
                            for v in 0..COUNT {
                                let column_sums = $load(starts.column_sums.wrapping_add(v * LANES));
                                let zero_points = $load(starts.b_zero_points.wrapping_add(v * LANES));
                                let factored = $add(
                                    $multiply(a_factor, column_sums), $multiply(b_factor, zero_points));
                                sums[$rows - 1][v] = $add(sums[$rows - 1][v], factored);
                            }
                        })*
                    }
                }
                let mut stride = tile.a_stride;
                let mut base0 = tile.a.cast::<u32>();
                let mut base1 = base0.wrapping_byte_add(3 * stride);
                let mut base2 = base0.wrapping_byte_add(6 * stride);
                let mut base3 = base0.wrapping_byte_add(9 * stride);
                let mut b = tile.b;
                let mut next = tile.next;
                let mut left = tile.groups;
                while left >= UNROLL {
                    base0 = opaque(base0);
                    if ROWS > 3 { base1 = opaque(base1); }
                    if ROWS > 6 { base2 = opaque(base2); }
                    if ROWS > 9 { base3 = opaque(base3); }
                    stride = opaque_distance(stride);
                    for line in 0..(UNROLL * VECTORS * LANES).div_ceil(16) {
                        prefetch(b.wrapping_add(ahead * VECTORS * LANES + 16 * line));
                    }
                    for _ in 0..tile.next_lines {
                        prefetch_second_level(next);
                        next = next.wrapping_add(64);
                    }
                    group!(
                        rows = ROWS [$($rows)*], vectors = COUNT, lanes = LANES, step = 0,
                        bases = (base0, base1, base2, base3), stride = stride, b = b, sums = sums,
                        word = whole_group(0),
                        zero = $zero, splat = $splat, load = $load, dot = $dot
                    );
                    group!(
                        rows = ROWS [$($rows)*], vectors = COUNT, lanes = LANES, step = 1,
                        bases = (base0, base1, base2, base3), stride = stride, b = b, sums = sums,
                        word = whole_group(0),
                        zero = $zero, splat = $splat, load = $load, dot = $dot
                    );
                    group!(
                        rows = ROWS [$($rows)*], vectors = COUNT, lanes = LANES, step = 2,
                        bases = (base0, base1, base2, base3), stride = stride, b = b, sums = sums,
                        word = whole_group(0),
                        zero = $zero, splat = $splat, load = $load, dot = $dot
                    );
                    group!(
                        rows = ROWS [$($rows)*], vectors = COUNT, lanes = LANES, step = 3,
                        bases = (base0, base1, base2, base3), stride = stride, b = b, sums = sums,
                        word = whole_group(0),
                        zero = $zero, splat = $splat, load = $load, dot = $dot
                    );
                    base0 = base0.wrapping_add(UNROLL);
                    base1 = base1.wrapping_add(UNROLL);
                    base2 = base2.wrapping_add(UNROLL);
                    base3 = base3.wrapping_add(UNROLL);
                    b = b.wrapping_add(UNROLL * VECTORS * LANES);
                    left -= UNROLL;
                }
                while left > 0 {
                    group!(
                        rows = ROWS [$($rows)*], vectors = COUNT, lanes = LANES, step = 0,
                        bases = (base0, base1, base2, base3), stride = stride, b = b, sums = sums,
                        word = whole_group(0),
                        zero = $zero, splat = $splat, load = $load, dot = $dot
                    );
                    base0 = base0.wrapping_add(1);
                    base1 = base1.wrapping_add(1);
                    base2 = base2.wrapping_add(1);
                    base3 = base3.wrapping_add(1);
                    b = b.wrapping_add(VECTORS * LANES);
                    left -= 1;
                }
                if tile.tail > 0 {
                    group!(
                        rows = ROWS [$($rows)*], vectors = COUNT, lanes = LANES, step = 0,
                        bases = (base0, base1, base2, base3), stride = stride, b = b, sums = sums,
                        word = last_group(tile.tail),
                        zero = $zero, splat = $splat, load = $load, dot = $dot
                    );
                }
                $(if ROWS >= $rows {
                    for v in 0..COUNT {
                        let target = tile.c.wrapping_add(($rows - 1) * tile.c_stride + v * LANES);
                        // SAFETY: `c` is valid for the existing columns of ROWS rows and belongs to this call.
                        unsafe {
                            if v + 1 == COUNT {
                                $store_partial(target, tile.last_lanes, sums[$rows - 1][v]);
                            } else {
                                $store(target, sums[$rows - 1][v]);
                            }
                        }
                    }
                })*
            }

            /// A group of all columns of a strip, from `rows` rows of B.
            ///
            /// # Safety
            /// B is valid for reading as the strip says.
            $(#[target_feature(enable = $feature)])?
            #[inline]
            unsafe fn strip_group(strip: &Strip, first_row: usize) -> [V; STRIP_VECTORS] {
                let source = strip.b.wrapping_add(first_row * strip.b_stride);
                if strip.depth - first_row >= GROUP && strip.columns == STRIP && strip.b_column_stride == 1 {
                    for row in 0..GROUP {
                        prefetch(source.wrapping_add((4 * GROUP + row) * strip.b_stride));
                    }
                    // SAFETY: whole rows of a whole group exist.
                    return unsafe { $interleave(source, strip.b_stride, strip.conversion.0) };
                }
                // SAFETY: handed on from the caller.
                unsafe { copied_group(strip, first_row) }
            }

            /// As [`strip_group`], by way of a copy; out of line, which keeps the other way short.
            ///
            /// # Safety
            /// B is valid for reading as the strip says.
            $(#[target_feature(enable = $feature)])?
            #[inline(never)]
            unsafe fn copied_group(strip: &Strip, first_row: usize) -> [V; STRIP_VECTORS] {
                let source = strip.b.wrapping_add(first_row * strip.b_stride);
                let rows = GROUP.min(strip.depth - first_row);
                let (bits, zero) = strip.conversion;
                let mut copy = [zero; GROUP * MAXIMUM_STRIP];
                for row in 0..rows {
                    let source = source.wrapping_add(row * strip.b_stride);
                    for column in 0..strip.columns {
                        // SAFETY: these rows and columns of B exist.
                        copy[row * STRIP + column] = unsafe { *source.wrapping_add(column * strip.b_column_stride) };
                    }
                }
                // SAFETY: the copy has a whole group of whole rows.
                unsafe { $interleave(copy.as_ptr(), STRIP, bits) }
            }

            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn strip<const ROWS: usize>(strip: &Strip) {
                let mut sums = [[$zero; STRIP_VECTORS]; ROWS];
                let mut column_sums = [$zero; STRIP_VECTORS];
                let ones = $splat($b_form.ones() as i32);
                // SAFETY: the rows of sums, A and B are valid as the strip says.
                unsafe {
                    for row in 0..ROWS {
                        for v in 0..STRIP_VECTORS {
                            sums[row][v] = $load(strip.sums.wrapping_add(row * strip.sums_stride + v * LANES));
                        }
                    }
                    for v in 0..STRIP_VECTORS {
                        column_sums[v] = $load(strip.sums.wrapping_add(ROWS * strip.sums_stride + v * LANES));
                    }
                    let mut a = strip.a;
                    for first_row in (0..strip.depth).step_by(GROUP) {
                        let group = strip_group(strip, first_row);
                        for row in 0..ROWS {
                            let word = a.wrapping_add(row * strip.a_stride).cast::<u32>().read_unaligned();
                            let x = $splat(word as i32);
                            for v in 0..STRIP_VECTORS {
                                sums[row][v] = $dot(sums[row][v], x, group[v]);
                            }
                        }
                        for v in 0..STRIP_VECTORS {
                            column_sums[v] = $dot(column_sums[v], ones, group[v]);
                        }
                        a = a.wrapping_add(4);
                    }
                    for row in 0..ROWS {
                        for v in 0..STRIP_VECTORS {
                            $store(strip.sums.wrapping_add(row * strip.sums_stride + v * LANES), sums[row][v]);
                        }
                    }
                    for v in 0..STRIP_VECTORS {
                        $store(strip.sums.wrapping_add(ROWS * strip.sums_stride + v * LANES), column_sums[v]);
                    }
                }
            }

            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn pack_strip(strip: &Strip, panels: *mut i32) -> bool {
                let mut column_sums = [$zero; STRIP_VECTORS];
                let mut bounds = [$zero; 2];
                let ones = $splat($b_form.ones() as i32);
                let groups = strip.depth.div_ceil(GROUP);
                for group in 0..groups {
                    // SAFETY: B is valid as the strip says, the panels hold all groups.
                    unsafe {
                        let vectors = strip_group(strip, group * GROUP);
                        for v in 0..STRIP_VECTORS {
                            column_sums[v] = $dot(column_sums[v], ones, vectors[v]);
                            bounds = $watch(bounds, vectors[v]);
                            let panel = panels.wrapping_add(v / VECTORS * groups * VECTORS * LANES);
                            $store(panel.wrapping_add((group * VECTORS + v % VECTORS) * LANES), vectors[v]);
                        }
                    }
                }
                for v in 0..STRIP_VECTORS {
                    // SAFETY: there is a sum for every column of the strip.
                    unsafe { $store(strip.sums.wrapping_add(v * LANES), column_sums[v]) };
                }
                $exact(bounds)
            }

            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn copy_row(source: &[u8], signed: bool, target: &mut [u8]) {
                rows::copy_row(source, signed, $a_form, target);
            }

            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn row_sum(source: &[u8], signed: bool) -> i32 {
                rows::row_sum(source, signed, $a_form)
            }

            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn correct_row(
                sums: &mut [i32], start: i32, a: (i32, &[i32]), b: (i32, &[i32]),
            ) {
                requantize::correct_row(sums, start, a, b);
            }

            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn requantize_row(
                sums: &[i32], scale: RowScale<'_>, rounding: Rounding, bytes: &mut [u8],
            ) {
                requantize::requantize_row(sums, scale, rounding, bytes);
            }
        }

        pub(in crate::quantized) static $table: crate::quantized::tile::Kernels = crate::quantized::tile::Kernels {
            lanes: $lanes,
            a_form: $a_form,
            b_form: $b_form,
            packed: &[$([$module::tile::<$rows, 1>, $module::tile::<$rows, 2>]),*],
            strips: &[$($module::strip::<$strips>),*],
            pack_strip: $module::pack_strip,
            copy_row: $module::copy_row,
            row_sum: $module::row_sum,
            correct_row: $module::correct_row,
            requantize_row: $module::requantize_row,
        };
    };
}

pub(super) use {group, register_tile};
