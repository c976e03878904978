/// One step of k: a row of B, and for each row of A a broadcast element and `COUNT` fused multiply-adds.
///
/// Rows are written out, not looped over: LLVM gives up unrolling tall tiles and then keeps accumulators in memory.
macro_rules! step {
    (
        rows = $row_count:ident [$($row:literal)*], vectors = $count:ident, form = $form:ident, lanes = $lanes:expr,
        step = $step:expr, bases = ($base0:ident, $base1:ident, $base2:ident, $base3:ident), stride = $stride:ident,
        b = $b:ident, b_step = $b_step:ident, panel_stride = $panel_stride:ident, pack = $pack:ident, sums = $sums:ident,
        zero = $zero:expr, splat = $splat:expr, load = $load:expr, store = $store:expr,
        widen_f16 = $widen_f16:expr, widen_bf16 = $widen_bf16:expr, fma = $fma:expr
    ) => {
        let mut row = [$zero; $count];
        let b_row = $b.wrapping_byte_add($step * $b_step);
        if $form == form::F16 || $form == form::BF16 {
            for panel in 0..$count.div_ceil(VECTORS) {
                let words = b_row.wrapping_byte_add(panel * $panel_stride).cast::<u16>();
                // SAFETY: `b` is valid for whole rows of these panels.
                let pair = unsafe {
                    if $form == form::F16 { $widen_f16(words) } else { $widen_bf16(words) }
                };
                for v in 0..VECTORS {
                    if panel * VECTORS + v < $count {
                        row[panel * VECTORS + v] = pair[v];
                    }
                }
            }
        } else {
            for v in 0..$count {
                let panel = b_row.wrapping_byte_add(v / VECTORS * $panel_stride);
                // SAFETY: `b` is valid for whole vectors of the rows that are left, of which this is one.
                row[v] = unsafe { $load(panel.wrapping_add(v % VECTORS * $lanes)) };
                if $form == form::PACKING {
                    // SAFETY: `pack` is valid for as many rows of a panel.
                    unsafe { $store($pack.wrapping_add(($step * VECTORS + v) * $lanes), row[v]) };
                }
            }
        }
        $(
            if $row_count >= $row {
                let element = if $form == form::SLIVER {
                    $base0.wrapping_add($step * $row_count + $row - 1)
                } else {
                    let base = match ($row - 1) / 3 { 0 => $base0, 1 => $base1, 2 => $base2, _ => $base3 };
                    base.wrapping_byte_add((($row - 1) % 3) * $stride).wrapping_add($step)
                };
                // SAFETY: `a` is valid for this row and the steps that are left.
                let x = $splat(unsafe { *element });
                for v in 0..$count {
                    $sums[$row - 1][v] = $fma(x, row[v], $sums[$row - 1][v]);
                }
            }
        )*
    };
}

/// Defines a register tile `fn tile<const ROWS, const COUNT, const FORM>(&Tile<T>)` and its companions for one tier
/// and element type, and the static table of all instances.
///
/// k is unrolled by four. Rows of A hang on four base pointers, three rows each, which bounds ROWS to 12.
macro_rules! register_tile {
    (
        $module:ident, $table:ident, $tier:ident, $(feature = $feature:literal,)? element = $t:ty, lanes = $lanes:expr,
        rows = [$($rows:literal)*], sliver = [$($sliver:literal)*], strided = [$($strided:literal)*],
        packed_wide = [$($packed_rows:literal: $packed_panels:literal)*],
        strided_wide = [$($strided_rows:literal: $strided_panels:literal)*],
        halves = $halves:tt,
        zero = $zero:expr, splat = $splat:expr, load = $load:expr, store = $store:expr,
        load_partial = $load_partial:expr, store_partial = $store_partial:expr,
        widen_f16 = $widen_f16:expr, widen_bf16 = $widen_bf16:expr,
        widen_plain = $widen_plain:expr, turn = $turn:expr, fma = $fma:expr, add = $add:expr
    ) => {
        mod $module {
            #[allow(unused_imports)]
            use super::*;
            use crate::tile::register_tile::step;
            use crate::tile::{Tile, VECTORS, form, opaque, opaque_distance, prefetch, prefetch_next, rows};

            /// Squares of a vector's width that hold the rows of a sliver.
            const MOST_SQUARES: usize = 12usize.div_ceil($lanes);

            /// See [`TileKernel`](crate::tile::TileKernel) for the contract.
            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn tile<const ROWS: usize, const COUNT: usize, const FORM: u8>(tile: &Tile<$t>) {
                const UNROLL: usize = 4;
                const LANES: usize = $lanes;
                const SIZE: usize = size_of::<$t>();
                const LINE: usize = 64;
                let halves = FORM == form::F16 || FORM == form::BF16;
                let in_place = FORM == form::STRIDED || FORM == form::PACKING;
                // Few rows leave the pace to memory, whose latency asks for a longer distance.
                let ahead_steps = if in_place { 8 } else if ROWS <= 4 { 64 } else { 16 };
                let row_bytes = VECTORS * LANES * if halves { 2 } else { SIZE };
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
                let a_step = if FORM == form::SLIVER { ROWS } else { 1 };
                let mut base0 = tile.a;
                let mut base1 = base0.wrapping_byte_add(3 * stride);
                let mut base2 = base0.wrapping_byte_add(6 * stride);
                let mut base3 = base0.wrapping_byte_add(9 * stride);
                let mut b = tile.b;
                let mut b_step = if in_place { tile.b_stride * SIZE } else { row_bytes };
                let mut panel_stride = if in_place { row_bytes } else { tile.panel_stride };
                let mut pack = tile.pack;
                let mut next = tile.next;
                let next_lines = tile.next_lines;
                let mut left = tile.depth;
                while left >= UNROLL {
                    base0 = opaque(base0);
                    if FORM != form::SLIVER {
                        if ROWS > 3 { base1 = opaque(base1); }
                        if ROWS > 6 { base2 = opaque(base2); }
                        if ROWS > 9 { base3 = opaque(base3); }
                        stride = opaque_distance(stride);
                    }
                    if in_place {
                        b_step = opaque_distance(b_step);
                    } else {
                        if COUNT > VECTORS { panel_stride = opaque_distance(panel_stride); }
                        if next_lines > 0 {
                            prefetch_next::<{ LANES * SIZE }>(next);
                            if next_lines > 1 {
                                prefetch_next::<{ LANES * SIZE }>(next.wrapping_add(LINE));
                                if next_lines > 2 {
                                    prefetch_next::<{ LANES * SIZE }>(next.wrapping_add(2 * LINE));
                                    prefetch_next::<{ LANES * SIZE }>(next.wrapping_add(3 * LINE));
                                    if next_lines > 4 {
                                        for line in 4..8 {
                                            prefetch_next::<{ LANES * SIZE }>(next.wrapping_add(line * LINE));
                                        }
                                    }
                                }
                            }
                            next = opaque(next.wrapping_add(UNROLL * row_bytes));
                        }
                    }
                    for step in 0..UNROLL {
                        let ahead = b.wrapping_byte_add((ahead_steps + step) * b_step);
                        for panel in 0..COUNT.div_ceil(VECTORS) {
                            let ahead = ahead.wrapping_byte_add(panel * panel_stride).cast::<u8>();
                            for line in 0..row_bytes.div_ceil(LINE) {
                                if line == 0 || COUNT >= VECTORS {
                                    prefetch(ahead.wrapping_add(line * LINE));
                                }
                            }
                        }
                    }
                    step!(
                        rows = ROWS [$($rows)*], vectors = COUNT, form = FORM, lanes = LANES, step = 0,
                        bases = (base0, base1, base2, base3), stride = stride, b = b, b_step = b_step,
                        panel_stride = panel_stride, pack = pack, sums = sums, zero = $zero, splat = $splat,
                        load = $load, store = $store, widen_f16 = $widen_f16, widen_bf16 = $widen_bf16, fma = $fma
                    );
                    step!(
                        rows = ROWS [$($rows)*], vectors = COUNT, form = FORM, lanes = LANES, step = 1,
                        bases = (base0, base1, base2, base3), stride = stride, b = b, b_step = b_step,
                        panel_stride = panel_stride, pack = pack, sums = sums, zero = $zero, splat = $splat,
                        load = $load, store = $store, widen_f16 = $widen_f16, widen_bf16 = $widen_bf16, fma = $fma
                    );
                    step!(
                        rows = ROWS [$($rows)*], vectors = COUNT, form = FORM, lanes = LANES, step = 2,
                        bases = (base0, base1, base2, base3), stride = stride, b = b, b_step = b_step,
                        panel_stride = panel_stride, pack = pack, sums = sums, zero = $zero, splat = $splat,
                        load = $load, store = $store, widen_f16 = $widen_f16, widen_bf16 = $widen_bf16, fma = $fma
                    );
                    step!(
                        rows = ROWS [$($rows)*], vectors = COUNT, form = FORM, lanes = LANES, step = 3,
                        bases = (base0, base1, base2, base3), stride = stride, b = b, b_step = b_step,
                        panel_stride = panel_stride, pack = pack, sums = sums, zero = $zero, splat = $splat,
                        load = $load, store = $store, widen_f16 = $widen_f16, widen_bf16 = $widen_bf16, fma = $fma
                    );
                    base0 = base0.wrapping_add(UNROLL * a_step);
                    base1 = base1.wrapping_add(UNROLL);
                    base2 = base2.wrapping_add(UNROLL);
                    base3 = base3.wrapping_add(UNROLL);
                    b = b.wrapping_byte_add(UNROLL * b_step);
                    pack = pack.wrapping_add(UNROLL * VECTORS * LANES);
                    left -= UNROLL;
                }
                while left > 0 {
                    step!(
                        rows = ROWS [$($rows)*], vectors = COUNT, form = FORM, lanes = LANES, step = 0,
                        bases = (base0, base1, base2, base3), stride = stride, b = b, b_step = b_step,
                        panel_stride = panel_stride, pack = pack, sums = sums, zero = $zero, splat = $splat,
                        load = $load, store = $store, widen_f16 = $widen_f16, widen_bf16 = $widen_bf16, fma = $fma
                    );
                    base0 = base0.wrapping_add(a_step);
                    base1 = base1.wrapping_add(1);
                    base2 = base2.wrapping_add(1);
                    base3 = base3.wrapping_add(1);
                    b = b.wrapping_byte_add(b_step);
                    pack = pack.wrapping_add(VECTORS * LANES);
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
            pub(super) unsafe fn transpose(source: *const $t, source_stride: usize, target: *mut $t, target_stride: usize) {
                let mut rows = [$zero; $lanes];
                for (i, row) in rows.iter_mut().enumerate() {
                    // SAFETY: handed on from the caller.
                    *row = unsafe { $load(source.wrapping_add(i * source_stride)) };
                }
                for (i, column) in $turn(rows).into_iter().enumerate() {
                    // SAFETY: handed on from the caller.
                    unsafe { $store(target.wrapping_add(i * target_stride), column) };
                }
            }

            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn pack_sliver(
                a: *const $t, row_stride: usize, rows: usize, depth: usize, target: *mut $t,
            ) {
                let squares = match rows {
                    // SAFETY: handed on from the caller.
                    $($sliver => unsafe { turn_rows::<$sliver>(a, row_stride, depth, target) },)*
                    _ => 0,
                };
                for k in squares..depth {
                    for row in 0..rows {
                        // SAFETY: A has this row and step, the target this element.
                        unsafe {
                            *target.wrapping_add(k * rows + row) = *a.wrapping_add(row * row_stride + k);
                        }
                    }
                }
            }

            /// Writes the whole squares of a sliver and returns the steps that they have.
            ///
            /// # Safety
            /// As of [`Kernels::pack_sliver`](crate::tile::Kernels::pack_sliver).
            $(#[target_feature(enable = $feature)])?
            #[allow(dead_code)]
            unsafe fn turn_rows<const ROWS: usize>(
                a: *const $t, row_stride: usize, depth: usize, target: *mut $t,
            ) -> usize {
                const LANES: usize = $lanes;
                let mut k = 0;
                while k + LANES <= depth {
                    // Several squares beside each other; what their stores write beyond the rows, later ones overwrite.
                    let mut columns = [[$zero; LANES]; MOST_SQUARES];
                    for square in 0..ROWS.div_ceil(LANES) {
                        let mut rows = [$zero; LANES];
                        for i in 0..LANES {
                            let row = (square * LANES + i).min(ROWS - 1);
                            // SAFETY: A has this row and the steps.
                            rows[i] = unsafe { $load(a.wrapping_add(row * row_stride + k)) };
                        }
                        columns[square] = $turn(rows);
                    }
                    for step in 0..LANES {
                        for square in 0..ROWS.div_ceil(LANES) {
                            let slot = target.wrapping_add((k + step) * ROWS + square * LANES);
                            // SAFETY: the target has room for the sliver and a vector.
                            unsafe { $store(slot, columns[square][step]) };
                        }
                    }
                    k += LANES;
                }
                k
            }

            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn continue_columns(
                a: *const $t, a_stride: usize, depth: usize, b: *const $t, b_stride: usize, chains: &mut [$t],
            ) {
                const LANES: usize = $lanes;
                const PREFETCH_STEPS: usize = 256;
                // Columns that are missing repeat the last one.
                let last = chains.len() - 1;
                let column = |i: usize| b.wrapping_add(i.min(last) * b_stride);
                let mut buffer = [0.0; LANES];
                buffer[..=last].copy_from_slice(chains);
                // SAFETY: the buffer is a whole vector, here and below.
                let mut sums = unsafe { $load(buffer.as_ptr()) };
                let mut k = 0;
                while k + LANES <= depth {
                    // Towards the end of these columns, the ones after them come next.
                    let ahead = match (k + PREFETCH_STEPS).checked_sub(depth) {
                        None => PREFETCH_STEPS,
                        Some(beyond) => (LANES * b_stride + beyond).wrapping_sub(k),
                    };
                    let mut rows = [$zero; LANES];
                    for (i, row) in rows.iter_mut().enumerate() {
                        let source = column(i).wrapping_add(k);
                        prefetch(source.wrapping_add(ahead));
                        // SAFETY: columns of B have `depth` elements.
                        *row = unsafe { $load(source) };
                    }
                    for (step, row) in $turn(rows).into_iter().enumerate() {
                        // SAFETY: A has `depth` elements.
                        let x = $splat(unsafe { *a.wrapping_add((k + step) * a_stride) });
                        sums = $fma(x, row, sums);
                    }
                    k += LANES;
                }
                while k < depth {
                    // SAFETY: A and columns of B have `depth` elements.
                    unsafe {
                        for (i, slot) in buffer.iter_mut().enumerate() {
                            *slot = *column(i).wrapping_add(k);
                        }
                        sums = $fma($splat(*a.wrapping_add(k * a_stride)), $load(buffer.as_ptr()), sums);
                    }
                    k += 1;
                }
                // SAFETY: as above.
                unsafe { $store(buffer.as_mut_ptr(), sums) };
                chains.copy_from_slice(&buffer[..=last]);
            }

            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn continue_row(
                a: *const $t, a_stride: usize, depth: usize, b: *const $t, b_stride: usize, row: &mut [$t],
            ) {
                // SAFETY: the contract of `Kernels::continue_row` is that of the body.
                unsafe { rows::continue_row(a, a_stride, depth, b, b_stride, row) }
            }

            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn finish(finish: &rows::Finish<$t>) {
                // SAFETY: the contract of `Kernels::finish` is that of the body.
                unsafe { rows::finish(finish) }
            }

            crate::tile::register_tile::widen_panel!(
                $halves, $({ $feature },)? $t, $lanes, $splat, $load, $store, $fma, $widen_f16, $widen_bf16, $widen_plain
            );
        }

        pub(super) static $table: crate::tile::Kernels<$t> = {
            #[allow(unused_imports)]
            use crate::tile::{VECTORS, form};
            crate::tile::Kernels {
                tier: onl_cpu::IsaTier::$tier,
                lanes: $lanes,
                packed: &[$([
                    $module::tile::<$rows, 1, { form::PACKED }>,
                    $module::tile::<$rows, 2, { form::PACKED }>,
                ]),*],
                packed_wide: &[$((
                    $packed_panels, $module::tile::<$packed_rows, { $packed_panels * VECTORS }, { form::PACKED }>
                )),*],
                sliver: &[$([
                    $module::tile::<$sliver, 1, { form::SLIVER }>,
                    $module::tile::<$sliver, 2, { form::SLIVER }>,
                ]),*],
                strided: &[$([
                    $module::tile::<$strided, 1, { form::STRIDED }>,
                    $module::tile::<$strided, 2, { form::STRIDED }>,
                ]),*],
                strided_wide: &[$((
                    $strided_panels, $module::tile::<$strided_rows, { $strided_panels * VECTORS }, { form::STRIDED }>
                )),*],
                packing: &[$($module::tile::<$rows, 2, { form::PACKING }>),*],
                halves: crate::tile::register_tile::halves!(
                    $halves, $module, [$($rows)*], [$($packed_rows: $packed_panels)*]
                ),
                copy_panel: $module::copy_panel,
                transpose: $module::transpose,
                pack_sliver: $module::pack_sliver,
                continue_row: $module::continue_row,
                continue_columns: $module::continue_columns,
                finish: $module::finish,
            }
        };
    };
}

/// Bodies that widen whole panels of 16-bit elements, for tables that have them.
macro_rules! widen_panel {
    (no, $($rest:tt)*) => {};
    (
        yes, $({ $feature:literal },)? $t:ty, $lanes:expr, $splat:expr, $load:expr, $store:expr, $fma:expr,
        $widen_f16:expr, $widen_bf16:expr, $widen_plain:expr
    ) => {
        $(#[target_feature(enable = $feature)])?
        pub(super) unsafe fn widen_panel<const FORM: u8>(
            panel: *const u16, row_stride: usize, depth: usize, target: *mut $t,
        ) {
            const COLUMNS: usize = VECTORS * $lanes;
            for k in 0..depth {
                let words = panel.wrapping_add(k * row_stride);
                // SAFETY: both panels have `depth` rows.
                unsafe {
                    let pair = match FORM {
                        form::F16 => $widen_f16(words),
                        form::BF16 => $widen_bf16(words),
                        _ => $widen_plain(words),
                    };
                    for v in 0..VECTORS {
                        $store(target.wrapping_add(k * COLUMNS + v * $lanes), pair[v]);
                    }
                }
            }
        }

        $(#[target_feature(enable = $feature)])?
        pub(super) unsafe fn continue_row_halves<const FORM: u8>(
            a: *const $t, depth: usize, b: *const u16, b_stride: usize, row: &mut [$t],
        ) {
            const COLUMNS: usize = VECTORS * $lanes;
            const ROWS_PER_PASS: usize = 8;
            let columns = row.len();
            let whole = columns - columns % COLUMNS;
            for k in (0..depth).step_by(ROWS_PER_PASS) {
                let rows = ROWS_PER_PASS.min(depth - k);
                let mut x = [$splat(0.0); ROWS_PER_PASS];
                for (step, x) in x[..rows].iter_mut().enumerate() {
                    // SAFETY: A has `depth` elements.
                    *x = $splat(unsafe { *a.wrapping_add(k + step) });
                }
                // SAFETY: where columns are whole, B and the row have all of them; the last are read into buffers.
                unsafe {
                    for column in (0..whole).step_by(COLUMNS) {
                        let chains = row.as_mut_ptr().wrapping_add(column);
                        let mut sums = [$load(chains.cast_const()), $load(chains.wrapping_add($lanes).cast_const())];
                        for (step, &x) in x[..rows].iter().enumerate() {
                            let words = b.wrapping_add((k + step) * b_stride + column);
                            let pair = if FORM == form::F16 { $widen_f16(words) } else { $widen_plain(words) };
                            for v in 0..VECTORS {
                                sums[v] = $fma(x, pair[v], sums[v]);
                            }
                        }
                        $store(chains, sums[0]);
                        $store(chains.wrapping_add($lanes), sums[1]);
                    }
                    if whole < columns {
                        let rest = &mut row[whole..];
                        let (mut chains, mut words) = ([0.0; COLUMNS], [0u16; COLUMNS]);
                        chains[..rest.len()].copy_from_slice(rest);
                        let mut sums = [$load(chains.as_ptr()), $load(chains[$lanes..].as_ptr())];
                        for (step, &x) in x[..rows].iter().enumerate() {
                            let source = b.wrapping_add((k + step) * b_stride + whole);
                            std::ptr::copy_nonoverlapping(source, words.as_mut_ptr(), rest.len());
                            let words = words.as_ptr();
                            let pair = if FORM == form::F16 { $widen_f16(words) } else { $widen_plain(words) };
                            for v in 0..VECTORS {
                                sums[v] = $fma(x, pair[v], sums[v]);
                            }
                        }
                        $store(chains.as_mut_ptr(), sums[0]);
                        $store(chains[$lanes..].as_mut_ptr(), sums[1]);
                        rest.copy_from_slice(&chains[..rest.len()]);
                    }
                }
            }
        }
    };
}

/// The part of a table for panels of 16-bit elements.
macro_rules! halves {
    (no, $($rest:tt)*) => {
        None
    };
    (yes, $module:ident, $rows:tt, $wide:tt) => {
        Some(&[
            crate::tile::register_tile::halves!(@form F16, F16, $module, $rows, $wide),
            crate::tile::register_tile::halves!(@form BF16, PLAIN_BF16, $module, $rows, $wide),
        ])
    };
    (
        @form $form:ident, $plain:ident, $module:ident, [$($rows:literal)*], [$($wide_rows:literal: $wide_panels:literal)*]
    ) => {
        crate::tile::Halves {
            tiles: &[$([
                $module::tile::<$rows, 1, { form::$form }>,
                $module::tile::<$rows, 2, { form::$form }>,
            ]),*],
            wide: &[$((
                $wide_panels, $module::tile::<$wide_rows, { $wide_panels * VECTORS }, { form::$form }>
            )),*],
            widen_panel: $module::widen_panel::<{ form::$form }>,
            widen_rows: $module::widen_panel::<{ form::$plain }>,
            continue_row: $module::continue_row_halves::<{ form::$plain }>,
        }
    };
}

pub(super) use {halves, register_tile, step, widen_panel};
