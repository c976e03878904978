use crate::pack::{pack_panels, pack_rows};
use crate::plan::{Source, part};
use crate::tile::{Kernels, RowAddend, Tile};
use crate::{
    Addend, BForm, BLOCK, Batch, Compute, Dimensions, Epilogue, GemmError, Matrix, PackedB, Plan,
    Storage,
};
use onl_executor::Lanes;
use onl_profiling::{RegionSite, region_site};
use std::ops::Range;

/// Site of the region in which every product runs.
pub static PRODUCT_REGION: RegionSite = region_site!("gemm.product");

/// The second operand of a product.
#[derive(Debug, Clone, Copy)]
pub enum Factor<'a, S: Storage> {
    /// In memory.
    Matrix(Matrix<'a, S>),
    /// Packed at preparation, for the plan's tier.
    Packed(&'a PackedB<S>),
}

/// The operands of a product.
#[derive(Debug, Clone, Copy)]
pub struct Problem<'a, S: Storage> {
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Length of the chains.
    pub k: usize,
    /// First operand, m × k.
    pub a: Matrix<'a, S>,
    /// Second operand, k × n.
    pub b: Factor<'a, S>,
    /// Which matrices are multiplied.
    pub batch: Batch<'a>,
}

impl<S: Storage> Problem<'_, S> {
    /// Sizes of the product.
    pub fn dimensions(&self) -> Dimensions {
        Dimensions {
            batches: self.batch.count(),
            m: self.m,
            n: self.n,
            k: self.k,
        }
    }

    /// How B is given.
    pub fn b_form(&self) -> BForm {
        match &self.b {
            Factor::Packed(_) => BForm::Constant,
            Factor::Matrix(b) => BForm::Strided {
                row_stride: b.row_stride,
                column_stride: b.column_stride,
            },
        }
    }
}

/// Where a product goes: element (i, j) of batch entry `b` is
/// `elements[b · batch_stride + i · row_stride + j]`.
#[derive(Debug)]
pub struct Output<'a, S> {
    /// Elements of all results.
    pub elements: &'a mut [S],
    /// Elements from one row to the next, at least the number of columns.
    pub row_stride: usize,
    /// Elements from one result to the next, at least the rows' extent.
    pub batch_stride: usize,
}

impl<'a, S> Output<'a, S> {
    /// Contiguous row-major results of `rows` × `columns`.
    pub fn row_major(elements: &'a mut [S], rows: usize, columns: usize) -> Self {
        Output {
            elements,
            row_stride: columns,
            batch_stride: rows.saturating_mul(columns),
        }
    }
}

/// Computes a product by the order of arithmetic of this crate. `plan` is [`Plan::new`] of the same dimensions,
/// strides and form of B; `workspace` has [`Plan::workspace`] bytes for as many lanes, aligned to a cache line.
///
/// # Errors
/// [`GemmError`] when memory and dimensions do not fit, before anything is written, or when a lane panicked.
pub fn gemm<S: Storage>(
    plan: &Plan,
    problem: &Problem<'_, S>,
    output: Output<'_, S>,
    epilogue: &Epilogue<'_, S>,
    workspace: &mut [u8],
    lanes: Lanes<'_>,
) -> Result<(), GemmError> {
    check(plan, problem, &output, epilogue)?;
    if plan.region().total == 0 {
        return Ok(());
    }
    let needed = plan.workspace(lanes.count());
    let misaligned = !(workspace.as_ptr() as usize).is_multiple_of(align_of::<S::Compute>());
    if workspace.len() < needed || misaligned && needed > 0 {
        return Err(GemmError::Workspace {
            needed,
            actual: workspace.len(),
        });
    }
    let shared = Shared {
        plan,
        problem,
        epilogue,
        kernels: S::Compute::kernels(plan.tier),
        output: output.elements.as_mut_ptr(),
        row_stride: output.row_stride,
        batch_stride: output.batch_stride,
        workspace: workspace.as_mut_ptr(),
    };
    lanes.region(&PRODUCT_REGION, plan.region(), |chunk| {
        let mut packed = None;
        for unit in chunk.range {
            // SAFETY: `check` proved that operands and output reach as far as the dimensions; units are disjoint parts
            // of the output, and the lane's scratch belongs to this chunk alone while it runs.
            unsafe { shared.unit(unit, chunk.lane, &mut packed) };
        }
    })?;
    Ok(())
}

fn check<S: Storage>(
    plan: &Plan,
    problem: &Problem<'_, S>,
    output: &Output<'_, S>,
    epilogue: &Epilogue<'_, S>,
) -> Result<(), GemmError> {
    let operand = |operand, length| GemmError::Operand { operand, length };
    let Dimensions { batches, m, n, k } = plan.dims;
    let (a_matrices, b_matrices) = problem
        .batch
        .extent()
        .ok_or_else(|| operand("batch", problem.batch.dims.len()))?;
    if plan.dims != problem.dimensions()
        || plan.a_strides != (problem.a.row_stride, problem.a.column_stride)
        || plan.b != problem.b_form()
        || !onl_cpu::IsaTier::available().contains(&plan.tier)
    {
        return Err(GemmError::Plan);
    }
    if !problem.a.covers(a_matrices, m, k) {
        return Err(operand("A", problem.a.elements.len()));
    }
    match &problem.b {
        Factor::Matrix(b) if !b.covers(b_matrices, k, n) => {
            return Err(operand("B", b.elements.len()));
        }
        Factor::Packed(b) if b.tier() != plan.tier => return Err(GemmError::Plan),
        Factor::Packed(b) if b.dims() != (k, n) || b.matrices() < b_matrices => {
            return Err(operand("B", b.bytes() / size_of::<S::Compute>()));
        }
        _ => {}
    }
    let target = Matrix {
        elements: &*output.elements,
        row_stride: output.row_stride,
        column_stride: 1,
        batch_stride: output.batch_stride,
    };
    // Rows and results must not overlap, or lanes would write the same elements.
    let disjoint = (m <= 1 || output.row_stride >= n)
        && (batches <= 1
            || m == 0
            || output.batch_stride >= (m - 1).saturating_mul(output.row_stride).saturating_add(n));
    if !disjoint || !target.covers(batches, m, n) {
        return Err(operand("output", output.elements.len()));
    }
    if let Some(c) = &epilogue.c {
        let addend = Matrix {
            elements: c.elements,
            row_stride: c.row_stride,
            column_stride: c.column_stride,
            batch_stride: 0,
        };
        if c.column_stride > 1 || !addend.covers(batches.min(1), m, n) {
            return Err(operand("C", c.elements.len()));
        }
    }
    Ok(())
}

struct Shared<'a, S: Storage> {
    plan: &'a Plan,
    problem: &'a Problem<'a, S>,
    epilogue: &'a Epilogue<'a, S>,
    kernels: &'static Kernels<S::Compute>,
    output: *mut S,
    row_stride: usize,
    batch_stride: usize,
    workspace: *mut u8,
}

// SAFETY: lanes write disjoint units of the output and their own scratch; everything else is only read.
unsafe impl<S: Storage> Sync for Shared<'_, S> {}

/// A block of B that a lane's scratch holds.
type PackedBlock = Option<(usize, Range<usize>, Range<usize>)>;

/// Rows × columns of accumulators.
struct Sums<T> {
    start: *mut T,
    stride: usize,
}

impl<S: Storage> Shared<'_, S> {
    /// # Safety
    /// Operands, output and scratch are as `check` and `gemm` require; no other lane works on this unit or with this
    /// lane's scratch.
    unsafe fn unit(&self, unit: usize, lane: usize, packed: &mut PackedBlock) {
        let plan = self.plan;
        let per_batch = plan.column_blocks * plan.row_groups;
        let (batch, rest) = (unit / per_batch, unit % per_batch);
        let (column_block, row_group) = (rest / plan.row_groups, rest % plan.row_groups);
        let panels = part(plan.panels, plan.column_blocks, column_block);
        let width = self.kernels.columns();
        let columns = panels.start * width..(panels.end * width).min(plan.dims.n);
        let tiles = part(plan.row_tiles, plan.row_groups, row_group);
        let (a_matrix, b_matrix) = self.problem.batch.matrices(batch);
        let a = self
            .problem
            .a
            .elements
            .as_ptr()
            .wrapping_add(a_matrix * self.problem.a.batch_stride);
        let output = self.output.wrapping_add(batch * self.batch_stride);
        let scratch = self
            .workspace
            .wrapping_add(lane * plan.lane_bytes())
            .cast::<S::Compute>();
        // SAFETY: handed on from the caller.
        unsafe {
            if plan.source == Source::Vector {
                self.vector_unit(a, b_matrix, columns, output, scratch);
            } else {
                self.tile_unit(a, b_matrix, columns, tiles, output, scratch, packed);
            }
        }
    }

    /// # Safety
    /// As [`unit`](Self::unit).
    unsafe fn tile_unit(
        &self,
        a: *const S,
        b_matrix: usize,
        columns: Range<usize>,
        tiles: Range<usize>,
        output: *mut S,
        scratch: *mut S::Compute,
        packed: &mut PackedBlock,
    ) {
        let plan = self.plan;
        let Dimensions { m, k, .. } = plan.dims;
        let first_row = part(m, plan.row_tiles, tiles.start).start;
        let layout = &plan.scratch;
        let sums: Sums<S::Compute> = if S::NATIVE {
            let start = output.wrapping_add(first_row * self.row_stride + columns.start);
            Sums {
                start: start.cast(),
                stride: self.row_stride,
            }
        } else {
            Sums {
                start: scratch.wrapping_add(layout.sums),
                stride: layout.sums_stride,
            }
        };
        let partials = Sums {
            start: scratch.wrapping_add(layout.partials),
            stride: layout.sums_stride,
        };
        let blocks = tiles.len().div_ceil(plan.tiles_per_block);

        let mut start = 0;
        loop {
            let block_end = (start - start % BLOCK + BLOCK).min(k);
            let ks = start..(start + plan.slice).min(block_end);
            // SAFETY: handed on from the caller.
            let b = unsafe {
                self.slice_of_b(
                    b_matrix,
                    &ks,
                    &columns,
                    scratch.wrapping_add(layout.b),
                    packed,
                )
            };
            for block in 0..blocks {
                let block = part(tiles.len(), blocks, block);
                let block = tiles.start + block.start..tiles.start + block.end;
                let rows = part(m, plan.row_tiles, block.start).start
                    ..part(m, plan.row_tiles, block.end - 1).end;
                let (a_rows, a_stride) = if plan.copy_a {
                    let source =
                        a.wrapping_add(rows.start * plan.a_strides.0 + ks.start * plan.a_strides.1);
                    // SAFETY: A covers these rows; the scratch has room for a block of rows of a slice.
                    unsafe {
                        pack_rows(
                            source,
                            plan.a_strides.0,
                            plan.a_strides.1,
                            rows.len(),
                            ks.len(),
                            scratch,
                            layout.a_stride,
                        );
                    }
                    (scratch.cast_const(), layout.a_stride)
                } else {
                    let source = a.wrapping_add(rows.start * plan.a_strides.0 + ks.start);
                    (source.cast::<S::Compute>(), plan.a_strides.0)
                };
                // SAFETY: handed on from the caller; A and B were made ready for these rows, columns and steps.
                unsafe {
                    self.row_block(
                        (a_rows, a_stride),
                        &b,
                        &ks,
                        block,
                        first_row,
                        &columns,
                        &sums,
                        &partials,
                    );
                    if ks.end == k {
                        self.finish(rows, first_row, &columns, &sums, output);
                    }
                }
            }
            start = ks.end;
            if start == k {
                return;
            }
        }
    }

    /// Makes a slice of a block of B ready.
    ///
    /// # Safety
    /// As [`unit`](Self::unit); `scratch` is the lane's scratch for B.
    unsafe fn slice_of_b(
        &self,
        matrix: usize,
        ks: &Range<usize>,
        columns: &Range<usize>,
        scratch: *mut S::Compute,
        packed: &mut PackedBlock,
    ) -> SliceOfB<S::Compute> {
        let plan = self.plan;
        let width = self.kernels.columns();
        let b = match &self.problem.b {
            Factor::Packed(b) => {
                let panel = plan.dims.k * width;
                let first = b
                    .matrix(matrix)
                    .wrapping_add(columns.start / width * panel + ks.start * width);
                return SliceOfB {
                    first,
                    panel,
                    row_stride: None,
                    ragged: first,
                };
            }
            Factor::Matrix(b) => b,
        };
        let source = b.elements.as_ptr().wrapping_add(matrix * b.batch_stride);
        if plan.source == Source::Packed {
            let block = Some((matrix, ks.clone(), columns.clone()));
            if *packed != block {
                // SAFETY: B covers these rows and columns; the scratch has room for the panels.
                unsafe {
                    pack_panels(
                        source,
                        b.row_stride,
                        b.column_stride,
                        ks.clone(),
                        columns.clone(),
                        self.kernels,
                        scratch,
                    );
                }
                *packed = block;
            }
            return SliceOfB {
                first: scratch,
                panel: ks.len() * width,
                row_stride: None,
                ragged: scratch,
            };
        }
        let ragged = columns.len() % width;
        if ragged > 0 {
            let last = columns.end - ragged..columns.end;
            // SAFETY: as above; the scratch has room for one panel.
            unsafe {
                pack_panels(
                    source,
                    b.row_stride,
                    b.column_stride,
                    ks.clone(),
                    last,
                    self.kernels,
                    scratch,
                )
            };
        }
        let first = source.wrapping_add(ks.start * b.row_stride + columns.start);
        SliceOfB {
            first: first.cast(),
            panel: width,
            row_stride: Some(b.row_stride),
            ragged: scratch,
        }
    }

    /// # Safety
    /// As [`unit`](Self::unit); `a` is A (and its row stride) from the first row of `tiles`, `b` holds `columns`, both
    /// for `ks`.
    unsafe fn row_block(
        &self,
        a: (*const S::Compute, usize),
        b: &SliceOfB<S::Compute>,
        ks: &Range<usize>,
        tiles: Range<usize>,
        first_row: usize,
        columns: &Range<usize>,
        sums: &Sums<S::Compute>,
        partials: &Sums<S::Compute>,
    ) {
        let Dimensions { m, k, .. } = self.plan.dims;
        let (width, lanes) = (self.kernels.columns(), self.kernels.lanes);
        let opens = ks.start.is_multiple_of(BLOCK);
        let closes = ks.end.is_multiple_of(BLOCK) || ks.end == k;
        let later = ks.start >= BLOCK;
        let target = if later && !closes { partials } else { sums };
        let source = if later { partials } else { sums };
        let block_row = part(m, self.plan.row_tiles, tiles.start).start;
        for (panel, column) in columns.clone().step_by(width).enumerate() {
            let live = width.min(columns.end - column);
            let vectors = live.div_ceil(lanes);
            let (b_first, b_stride, table) = match b.row_stride {
                None => (
                    b.first.wrapping_add(panel * b.panel),
                    0,
                    self.kernels.packed,
                ),
                Some(stride) if live == width => (
                    b.first.wrapping_add(panel * b.panel),
                    stride,
                    self.kernels.strided,
                ),
                Some(_) => (b.ragged, 0, self.kernels.packed),
            };
            for tile in tiles.clone() {
                let rows = part(m, self.plan.row_tiles, tile);
                let at = |sums: &Sums<S::Compute>| {
                    sums.start
                        .wrapping_add((rows.start - first_row) * sums.stride + panel * width)
                };
                let tile = Tile {
                    a: a.0.wrapping_add((rows.start - block_row) * a.1),
                    a_stride: a.1,
                    b: b_first,
                    b_stride,
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
                    last_lanes: live - (vectors - 1) * lanes,
                };
                // SAFETY: the tile's rows, columns and steps lie inside the operands and the unit's output.
                unsafe { table[rows.len() - 1][vectors - 1](&tile) };
            }
        }
    }

    /// Applies the epilogue to finished sums and stores them.
    ///
    /// # Safety
    /// As [`unit`](Self::unit).
    unsafe fn finish(
        &self,
        rows: Range<usize>,
        first_row: usize,
        columns: &Range<usize>,
        sums: &Sums<S::Compute>,
        output: *mut S,
    ) {
        let Epilogue { alpha, beta, c } = self.epilogue;
        if S::NATIVE && *alpha == 1.0 && c.is_none() {
            return;
        }
        let (alpha, beta) = (S::Compute::from_f32(*alpha), S::Compute::from_f32(*beta));
        for row in rows {
            let start = sums.start.wrapping_add((row - first_row) * sums.stride);
            // SAFETY: the unit's sums have this row with all its columns.
            let sums = unsafe { std::slice::from_raw_parts_mut(start, columns.len()) };
            // SAFETY: the processor has the tier's features.
            unsafe { self.finish_row(sums, alpha, beta, c, row, columns.start) };
            if !S::NATIVE {
                let target = output.wrapping_add(row * self.row_stride + columns.start);
                // SAFETY: the row's columns belong to this unit.
                let target = unsafe { std::slice::from_raw_parts_mut(target, columns.len()) };
                S::narrow_slice(sums, target);
            }
        }
    }

    /// # Safety
    /// The processor has the tier's features.
    unsafe fn finish_row(
        &self,
        sums: &mut [S::Compute],
        alpha: S::Compute,
        beta: S::Compute,
        c: &Option<Addend<'_, S>>,
        row: usize,
        first_column: usize,
    ) {
        const CHUNK: usize = 256;
        let finish = self.kernels.finish_row;
        match c {
            // SAFETY: handed on from the caller, here and below.
            None => unsafe { finish(sums, alpha, beta, RowAddend::None) },
            Some(c) if c.column_stride == 0 => {
                let addend = c.elements[row * c.row_stride].widen();
                // SAFETY: as above.
                unsafe { finish(sums, alpha, beta, RowAddend::Splat(addend)) }
            }
            Some(c) => {
                let mut widened = [S::Compute::ZERO; CHUNK];
                for (index, sums) in sums.chunks_mut(CHUNK).enumerate() {
                    let start = row * c.row_stride + first_column + index * CHUNK;
                    let widened = &mut widened[..sums.len()];
                    S::widen_slice(&c.elements[start..start + sums.len()], widened);
                    // SAFETY: as above.
                    unsafe { finish(sums, alpha, beta, RowAddend::Row(widened)) }
                }
            }
        }
    }

    /// One output row straight from rows of B.
    ///
    /// # Safety
    /// As [`unit`](Self::unit).
    unsafe fn vector_unit(
        &self,
        a: *const S,
        b_matrix: usize,
        columns: Range<usize>,
        output: *mut S,
        scratch: *mut S::Compute,
    ) {
        let Dimensions { k, .. } = self.plan.dims;
        let Factor::Matrix(b) = &self.problem.b else {
            unreachable!("a packed operand has a path of its own");
        };
        let b_first: *const S::Compute = b
            .elements
            .as_ptr()
            .wrapping_add(b_matrix * b.batch_stride + columns.start)
            .cast();
        let a: *const S::Compute = a.cast();
        let a_stride = self.plan.a_strides.1;
        // SAFETY: storage is the type of accumulation on this path; the columns belong to this unit, the scratch has
        // room for them when k has more than one block.
        let (sums, partial) = unsafe {
            let sums = std::slice::from_raw_parts_mut(
                output.wrapping_add(columns.start).cast::<S::Compute>(),
                columns.len(),
            );
            let partials = if k > BLOCK { columns.len() } else { 0 };
            (
                sums,
                std::slice::from_raw_parts_mut(
                    scratch.wrapping_add(self.plan.scratch.partials),
                    partials,
                ),
            )
        };
        sums.fill(S::Compute::ZERO);
        for start in (0..k).step_by(BLOCK) {
            let depth = BLOCK.min(k - start);
            let (a, b_rows) = (
                a.wrapping_add(start * a_stride),
                b_first.wrapping_add(start * b.row_stride),
            );
            let chains = if start == 0 {
                &mut *sums
            } else {
                &mut *partial
            };
            chains.fill(S::Compute::ZERO);
            // SAFETY: A and B cover these steps and columns; the processor has the tier's features.
            unsafe {
                (self.kernels.continue_row)(a, a_stride, depth, b_rows, b.row_stride, chains)
            };
            if start > 0 {
                for (sum, &chain) in sums.iter_mut().zip(&*partial) {
                    *sum = sum.add(chain);
                }
            }
        }
        let sums = Sums {
            start: sums.as_mut_ptr(),
            stride: 0,
        };
        // SAFETY: handed on from the caller.
        unsafe { self.finish(0..1, 0, &columns, &sums, output) };
    }
}

/// A slice of a block of B as register tiles read it.
struct SliceOfB<T> {
    /// First panel.
    first: *const T,
    /// Elements from one panel to the next.
    panel: usize,
    /// Elements from one row to the next where rows are read in place; `None` for packed panels.
    row_stride: Option<usize>,
    /// The last panel, packed, when it is not whole and rows are read in place.
    ragged: *const T,
}
