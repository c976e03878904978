//! Loops around register tiles.

mod finish;
mod vector;

use crate::constant::element_bytes;
use crate::pack::{HalfPanels, Source, Strided, pack_rows, pack_sliver};
use crate::plan::{AForm, Place};
use crate::tile::{Kernels, Tile, TileKernel};
use crate::{
    Addend, BLOCK, Batch, Compute, Epilogue, Factor, Matrix, Output, Plan, Problem, Storage,
};
use std::ops::Range;

/// The parts of a product: what plan, operands and memory say, with a single column turned into a single row.
pub(crate) struct Blocks<'a, S: Storage> {
    plan: &'a Plan,
    kernels: &'static Kernels<S::Compute>,
    m: usize,
    n: usize,
    k: usize,
    a: Matrix<'a, S>,
    b: Factor<'a, S>,
    batch: Batch<'a>,
    epilogue: Epilogue<'a, S>,
    /// Whether anything is left to do with complete sums.
    finishes: bool,
    /// Whether they are scaled or added to.
    scales: bool,
    output: *mut S,
    row_stride: usize,
    batch_stride: usize,
    workspace: *mut u8,
}

// SAFETY: lanes write disjoint units of the output and their own scratch; everything else is only read.
unsafe impl<S: Storage> Sync for Blocks<'_, S> {}

/// Rows × columns of accumulators.
struct Sums<T> {
    start: *mut T,
    stride: usize,
    /// Whether they are those of one register tile, wherever it stands.
    of_tile: bool,
}

/// A group of rows by a range of panels of one batch entry.
struct Run<S: Storage> {
    entry: usize,
    a: *const S,
    b_matrix: usize,
    output: *mut S,
    tiles: Range<usize>,
    rows: Range<usize>,
    panels: Range<usize>,
    columns: Range<usize>,
    scratch: *mut S::Compute,
    sums: Sums<S::Compute>,
    partials: Sums<S::Compute>,
}

/// A slice of k, and A as tiles read it there.
struct Slice<T> {
    ks: Range<usize>,
    a: *const T,
    a_stride: usize,
}

/// What register tiles of one panel, or of adjacent ones, read of B.
struct Panel<T> {
    /// First column.
    column: usize,
    columns: usize,
    first: *const T,
    row_stride: usize,
    panel_stride: usize,
    pack: *mut T,
    next: *const u8,
    next_lines: usize,
}

impl<'a, S: Storage> Blocks<'a, S> {
    pub(crate) fn new(
        plan: &'a Plan,
        problem: &Problem<'a, S>,
        output: Output<'a, S>,
        epilogue: &Epilogue<'a, S>,
        workspace: &'a mut [u8],
    ) -> Self {
        let mut blocks = Blocks {
            plan,
            kernels: S::Compute::kernels(plan.tier),
            m: problem.m,
            n: problem.n,
            k: problem.k,
            a: problem.a,
            b: problem.b,
            batch: problem.batch,
            epilogue: *epilogue,
            finishes: !S::NATIVE || !epilogue.changes_nothing(),
            scales: epilogue.alpha != 1.0 || epilogue.c.is_some() || epilogue.residual.is_some(),
            output: output.elements.as_mut_ptr(),
            row_stride: output.row_stride,
            batch_stride: output.batch_stride,
            workspace: workspace.as_mut_ptr(),
        };
        if plan.swapped
            && let Factor::Matrix(b) = problem.b
        {
            let turned = |matrix: Matrix<'a, S>| Matrix {
                row_stride: matrix.column_stride,
                column_stride: matrix.row_stride,
                ..matrix
            };
            (blocks.m, blocks.n) = (problem.n, problem.m);
            (blocks.a, blocks.b) = (turned(b), Factor::Matrix(turned(problem.a)));
            blocks.batch = Batch {
                a_strides: problem.batch.b_strides,
                b_strides: problem.batch.a_strides,
                ..problem.batch
            };
            blocks.epilogue.c = epilogue.c.map(|c| Addend {
                row_stride: 0,
                column_stride: c.row_stride,
                ..c
            });
            blocks.epilogue.residual = epilogue.residual.map(turned);
        }
        blocks
    }

    /// Computes a range of units.
    ///
    /// # Safety
    /// Operands, output and workspace are as `gemm` checked; no other lane works on these units or with this lane's
    /// scratch.
    pub(crate) unsafe fn units(&self, units: Range<usize>, lane: usize) {
        let plan = self.plan;
        let (panels, groups) = (plan.panels, plan.groups.parts);
        let scratch = self
            .workspace
            .wrapping_add(lane * plan.scratch.total)
            .cast::<S::Compute>();
        let mut unit = units.start;
        let (mut panel, rest) = (unit % panels, unit / panels);
        let (mut group, mut entry) = (rest % groups, rest / groups);
        while unit < units.end {
            let count = (units.end - unit)
                .min(panels - panel)
                .min(plan.panels_per_run);
            let run = self.run(entry, group, panel..panel + count, scratch);
            // SAFETY: handed on from the caller.
            unsafe {
                if plan.place.is_row() {
                    self.vector(&run);
                } else {
                    self.slices(&run, unit + count < units.end);
                }
            }
            unit += count;
            panel += count;
            if panel == panels {
                panel = 0;
                group += 1;
                if group == groups {
                    group = 0;
                    entry += 1;
                }
            }
        }
    }

    fn run(
        &self,
        entry: usize,
        group: usize,
        panels: Range<usize>,
        scratch: *mut S::Compute,
    ) -> Run<S> {
        let plan = self.plan;
        let width = self.kernels.columns();
        let tiles = plan.groups.part(group);
        let rows = plan.rows.part(tiles.start).start..plan.rows.part(tiles.end - 1).end;
        let columns = panels.start * width..(panels.end * width).min(self.n);
        let (a_matrix, b_matrix) = self.batch.matrices(entry);
        let output = self.output.wrapping_add(entry * self.batch_stride);
        let layout = &plan.scratch;
        let sums = if S::NATIVE {
            Sums {
                start: output
                    .wrapping_add(rows.start * self.row_stride + columns.start)
                    .cast(),
                stride: self.row_stride,
                of_tile: false,
            }
        } else {
            Sums {
                start: scratch.wrapping_add(layout.sums),
                stride: layout.sums_stride,
                of_tile: layout.tile_sums,
            }
        };
        let partials = Sums {
            start: scratch.wrapping_add(layout.partials),
            stride: layout.sums_stride,
            of_tile: false,
        };
        Run {
            entry,
            a: self
                .a
                .elements
                .as_ptr()
                .wrapping_add(a_matrix * self.a.batch_stride),
            b_matrix,
            output,
            tiles,
            rows,
            panels,
            columns,
            scratch,
            sums,
            partials,
        }
    }

    /// Register tiles, slice by slice of k. `more` says that another run follows.
    ///
    /// # Safety
    /// As [`units`](Self::units).
    unsafe fn slices(&self, run: &Run<S>, more: bool) {
        let (plan, k) = (self.plan, self.k);
        let mut start = 0;
        loop {
            let block_end = (start - start % BLOCK + BLOCK).min(k);
            let ks = start..(start + plan.slice).min(block_end);
            // SAFETY: handed on from the caller; A was made ready for the slice.
            unsafe {
                let slice = self.slice_of_a(run, ks.clone());
                match plan.place {
                    Place::Rows => self.rows_in_place(run, &slice),
                    Place::Packed => self.packed_panels(run, &slice),
                    _ => self.constant_panels(run, &slice, more),
                }
            }
            start = ks.end;
            if start == k {
                return;
            }
        }
    }

    /// # Safety
    /// As [`units`](Self::units).
    unsafe fn slice_of_a(&self, run: &Run<S>, ks: Range<usize>) -> Slice<S::Compute> {
        let plan = self.plan;
        let (row_stride, column_stride) = (self.a.row_stride, self.a.column_stride);
        let row = |row: usize| {
            run.a
                .wrapping_add(row * row_stride + ks.start * column_stride)
        };
        let layout = &plan.scratch;
        // SAFETY: A covers the group's rows and the slice; the scratch has room for them.
        unsafe {
            match plan.a_form {
                AForm::InPlace => {
                    return Slice {
                        a: row(run.rows.start).cast(),
                        a_stride: row_stride,
                        ks,
                    };
                }
                AForm::Rows => pack_rows(
                    row(run.rows.start),
                    row_stride,
                    column_stride,
                    run.rows.len(),
                    ks.len(),
                    run.scratch,
                    layout.a_stride,
                    self.kernels,
                ),
                AForm::Slivers => {
                    for tile in run.tiles.clone() {
                        let rows = plan.rows.part(tile);
                        let sliver = run
                            .scratch
                            .wrapping_add((rows.start - run.rows.start) * ks.len());
                        pack_sliver(
                            row(rows.start),
                            row_stride,
                            column_stride,
                            rows.len(),
                            ks.len(),
                            sliver,
                            self.kernels,
                        );
                    }
                }
            }
        }
        Slice {
            a: run.scratch,
            a_stride: if plan.a_form == AForm::Slivers {
                ks.len()
            } else {
                layout.a_stride
            },
            ks,
        }
    }

    /// B in memory.
    ///
    /// # Safety
    /// As [`units`](Self::units); the slice is ready.
    unsafe fn rows_in_place(&self, run: &Run<S>, slice: &Slice<S::Compute>) {
        let kernels = self.kernels;
        let width = kernels.columns();
        let Factor::Matrix(b) = &self.b else {
            unreachable!("constants are packed");
        };
        let ragged = run.columns.len() % width;
        let packed = run.scratch.wrapping_add(self.plan.scratch.b);
        if ragged > 0 {
            let last = run.columns.end - ragged..run.columns.end;
            // SAFETY: B covers the slice and columns, the scratch has room for a panel.
            unsafe {
                self.strided(b, run.b_matrix)
                    .panel(slice.ks.clone(), last, kernels, packed);
            }
        }
        let first = b
            .elements
            .as_ptr()
            .wrapping_add(run.b_matrix * b.batch_stride + slice.ks.start * b.row_stride);
        let tallest = self.plan.rows.part(run.tiles.start).len();
        // The panel or pair of panels at a column, and whether it is a pair.
        let panel_at = |column: usize| {
            let whole = (run.columns.end - column) / width;
            let panels = match kernels.strided_wide.get(tallest - 1) {
                Some(&(panels, _)) if whole >= panels => panels,
                _ => whole.min(1),
            };
            Panel {
                column,
                columns: if panels == 0 { ragged } else { panels * width },
                first: if panels == 0 {
                    packed.cast_const()
                } else {
                    first.wrapping_add(column).cast()
                },
                row_stride: b.row_stride,
                panel_stride: 0,
                pack: std::ptr::null_mut(),
                next: std::ptr::null(),
                next_lines: 0,
            }
        };
        let tile_at = |tile: usize, panel: &Panel<S::Compute>| {
            let rows = self.plan.rows.part(tile);
            let index = rows.len() - 1;
            let kernel = if panel.columns > width {
                kernels.strided_wide[index].1
            } else if panel.columns == width {
                kernels.strided[index][1]
            } else {
                kernels.packed[index][ragged.div_ceil(kernels.lanes) - 1]
            };
            // SAFETY: handed on from the caller; the panel covers the slice.
            unsafe { self.tile(run, slice, rows, panel, kernel) };
        };
        let mut column = run.columns.start;
        while column < run.columns.end {
            let panel = panel_at(column);
            for tile in run.tiles.clone() {
                tile_at(tile, &panel);
            }
            column += panel.columns;
        }
    }

    /// Panels that the scratch holds one at a time.
    ///
    /// # Safety
    /// As [`units`](Self::units); the slice is ready.
    unsafe fn packed_panels(&self, run: &Run<S>, slice: &Slice<S::Compute>) {
        let kernels = self.kernels;
        let width = kernels.columns();
        let packed = run.scratch.wrapping_add(self.plan.scratch.b);
        let table = if self.plan.a_form == AForm::Slivers {
            kernels.sliver
        } else {
            kernels.packed
        };
        for column in run.columns.clone().step_by(width) {
            let columns = width.min(run.columns.end - column);
            let vectors = columns.div_ceil(kernels.lanes);
            let mut panel = Panel {
                column,
                columns,
                first: packed.cast_const(),
                row_stride: 0,
                panel_stride: 0,
                pack: std::ptr::null_mut(),
                next: std::ptr::null(),
                next_lines: 0,
            };
            let mut tiles = run.tiles.clone();
            let ks = slice.ks.clone();
            // SAFETY: B covers slice and columns, the scratch has room for a panel, which is filled before it is read.
            unsafe {
                match &self.b {
                    Factor::Matrix(b)
                        if S::NATIVE
                            && b.column_stride == 1
                            && columns == width
                            && self.plan.a_form == AForm::InPlace =>
                    {
                        let rows = self.plan.rows.part(tiles.start);
                        tiles.start += 1;
                        panel.first = b
                            .elements
                            .as_ptr()
                            .wrapping_add(
                                run.b_matrix * b.batch_stride + ks.start * b.row_stride + column,
                            )
                            .cast();
                        panel.row_stride = b.row_stride;
                        panel.pack = packed;
                        let index = rows.len() - 1;
                        let kernel = match kernels.strided.get(index) {
                            Some(in_place) if tiles.is_empty() => in_place[1],
                            _ => kernels.packing[index],
                        };
                        self.tile(run, slice, rows, &panel, kernel);
                        panel.first = packed;
                    }
                    Factor::Matrix(b) => self.strided(b, run.b_matrix).panel(
                        ks,
                        column..column + columns,
                        kernels,
                        packed,
                    ),
                    Factor::Packed(b) => HalfPanels {
                        first: b.matrix(run.b_matrix).cast(),
                        k: self.k,
                        form: S::HALF.unwrap_or(0),
                    }
                    .panel(ks, column..column + columns, kernels, packed),
                }
                for tile in tiles {
                    let rows = self.plan.rows.part(tile);
                    let kernel = table[rows.len() - 1][vectors - 1];
                    self.tile(run, slice, rows, &panel, kernel);
                }
            }
        }
    }

    /// Panels packed at preparation. While the tiles of one panel run, they ask for equal shares of the next one, so
    /// that traffic from beyond the second-level cache is spread over all tiles.
    ///
    /// # Safety
    /// As [`units`](Self::units); the slice is ready.
    unsafe fn constant_panels(&self, run: &Run<S>, slice: &Slice<S::Compute>, more: bool) {
        const LINE: usize = 64;
        const UNROLL: usize = 4;
        let (plan, kernels) = (self.plan, self.kernels);
        let width = kernels.columns();
        let Factor::Packed(b) = &self.b else {
            unreachable!("this place is of packed constants");
        };
        let (table, wide) = match (plan.place, kernels.halves, S::HALF) {
            (Place::Halves, Some(halves), Some(form)) => (halves[form].tiles, halves[form].wide),
            _ if plan.a_form == AForm::Slivers => (kernels.sliver, kernels.packed_wide),
            _ => (kernels.packed, kernels.packed_wide),
        };
        let row_bytes = width * element_bytes::<S>(plan.tier);
        let panel_stride = self.k * row_bytes;
        let matrix = b.matrix(run.b_matrix);
        let at = |panel: usize, k: usize| matrix.wrapping_add(panel * panel_stride + k * row_bytes);
        // Lines of a panel that one turn of a tile's loop reads: those that all tiles together ask for in a turn.
        let lines = (UNROLL * row_bytes / LINE).clamp(1, 8);
        let shares = lines.min(1 << run.tiles.len().ilog2());
        let (ks, end) = (slice.ks.clone(), slice.ks.end);
        let mut index = run.panels.start;
        while index < run.panels.end {
            let column = index * width;
            let height = plan.rows.part(run.tiles.start).len();
            let whole = (run.columns.end - column) / width;
            let (panels, wide_kernel) = match wide.get(height - 1) {
                Some(&(panels, kernel)) if run.tiles.len() == 1 && whole >= panels => {
                    (panels, Some(kernel))
                }
                _ => (1, None),
            };
            let columns = (panels * width).min(run.columns.end - column);
            let after = index + panels;
            let next = if after < run.panels.end {
                at(after, ks.start)
            } else if end < self.k {
                at(run.panels.start, end)
            } else if more {
                at(after % plan.panels, 0)
            } else {
                std::ptr::null()
            };
            let mut panel = Panel {
                column,
                columns,
                first: at(index, ks.start).cast(),
                row_stride: 0,
                panel_stride,
                pack: std::ptr::null_mut(),
                next,
                next_lines: lines / shares,
            };
            for (share, tile) in run.tiles.clone().enumerate() {
                let rows = plan.rows.part(tile);
                let vectors = columns.div_ceil(kernels.lanes);
                let kernel = wide_kernel.unwrap_or_else(|| table[rows.len() - 1][vectors - 1]);
                panel.next = next.wrapping_add(share * panel.next_lines * LINE);
                if share >= shares || next.is_null() || wide_kernel.is_some() {
                    panel.next_lines = 0;
                }
                // SAFETY: handed on from the caller; the constant holds the panel.
                unsafe { self.tile(run, slice, rows, &panel, kernel) };
            }
            index = after;
        }
    }

    fn strided(&self, b: &Matrix<'_, S>, matrix: usize) -> Strided<S> {
        Strided {
            first: b.elements.as_ptr().wrapping_add(matrix * b.batch_stride),
            row_stride: b.row_stride,
            column_stride: b.column_stride,
        }
    }

    /// One register tile, and what becomes of its sums when they are complete.
    ///
    /// # Safety
    /// As [`units`](Self::units); slice and panel are ready, and `kernel` is of this height and width.
    #[inline(always)]
    unsafe fn tile(
        &self,
        run: &Run<S>,
        slice: &Slice<S::Compute>,
        rows: Range<usize>,
        panel: &Panel<S::Compute>,
        kernel: TileKernel<S::Compute>,
    ) {
        let ks = &slice.ks;
        let opens = ks.start.is_multiple_of(BLOCK);
        let closes = ks.end.is_multiple_of(BLOCK) || ks.end == self.k;
        let later = ks.start >= BLOCK;
        let target = if later && !closes {
            &run.partials
        } else {
            &run.sums
        };
        let source = if later { &run.partials } else { &run.sums };
        let at = |sums: &Sums<S::Compute>| {
            if sums.of_tile {
                sums.start
            } else {
                sums.start.wrapping_add(
                    (rows.start - run.rows.start) * sums.stride + panel.column - run.columns.start,
                )
            }
        };
        let lanes = self.kernels.lanes;
        let tile = Tile {
            a: slice
                .a
                .wrapping_add((rows.start - run.rows.start) * slice.a_stride),
            a_stride: slice.a_stride,
            b: panel.first,
            b_stride: panel.row_stride,
            panel_stride: panel.panel_stride,
            pack: panel.pack,
            next: panel.next,
            next_lines: panel.next_lines,
            depth: ks.len(),
            start: if opens {
                std::ptr::null()
            } else {
                at(source).cast_const()
            },
            start_stride: source.stride,
            c: at(target),
            c_stride: target.stride,
            merge: later && closes,
            last_lanes: (panel.columns - 1) % lanes + 1,
        };
        // SAFETY: the tile's rows, columns and steps lie inside the operands and the unit's output or scratch.
        unsafe { kernel(&tile) };
        if ks.end == self.k && self.finishes {
            let columns = panel.column..panel.column + panel.columns;
            // SAFETY: the sums of these rows and columns are complete and belong to this unit.
            unsafe { self.finish(run, rows, columns, tile.c, tile.c_stride) };
        }
    }
}
