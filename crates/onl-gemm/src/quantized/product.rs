use super::pack::pack_strip;
use super::plan::Source;
use super::requantize::{Rounding, RowScale};
use super::tile::{Kernels, MAXIMUM_ROWS, PANELS, Starts, Strip, Tile};
use super::{
    QuantizedFactor, QuantizedMatrix, QuantizedOutput, QuantizedPlan, QuantizedProblem,
    Requantization,
};
use crate::GemmError;
use crate::plan::Cut;
use onl_executor::Lanes;
use onl_profiling::{RegionSite, region_site};
use std::ops::Range;
use std::slice::{from_raw_parts, from_raw_parts_mut};

/// Site of the region that copies or sums rows of A.
pub static QUANTIZED_ROWS_REGION: RegionSite = region_site!("gemm.quantized_rows");
/// Site of the region in which the product runs.
pub static QUANTIZED_PRODUCT_REGION: RegionSite = region_site!("gemm.quantized_product");

/// Groups of rows of B that one pass over the columns of a unit reads in place: as many streams as a prefetcher follows.
const GROUPS_PER_PASS: usize = 8;

/// Computes a product by the arithmetic of the module. `plan` is [`QuantizedPlan::new`] of the problem's shape;
/// `workspace` has [`QuantizedPlan::workspace`] bytes for as many lanes, aligned to a cache line.
///
/// # Errors
/// [`GemmError`] when memory and dimensions do not fit, before anything is written, or when a lane panicked.
pub fn quantized_product(
    plan: &QuantizedPlan,
    problem: &QuantizedProblem<'_>,
    output: QuantizedOutput<'_>,
    workspace: &mut [u8],
    lanes: Lanes<'_>,
) -> Result<(), GemmError> {
    check(plan, problem, &output)?;
    if plan.region().total == 0 {
        return Ok(());
    }
    let needed = plan.workspace(lanes.count());
    if workspace.len() < needed || !(workspace.as_ptr() as usize).is_multiple_of(align_of::<i32>())
    {
        return Err(GemmError::Workspace {
            needed,
            actual: workspace.len(),
        });
    }
    let kernels = plan.instructions.kernels(problem.a.signed);
    let (b_signed, has_sums) = match &problem.b {
        QuantizedFactor::Packed(packed) => (packed.signed(), true),
        QuantizedFactor::Matrix(b) => (b.signed, plan.source != Source::InPlace),
    };
    let b_offset = kernels.b_form.offset(b_signed);
    let b_zero_point = problem.b_zero_points.uniform().map(|z| z + b_offset);
    let a_zero_point = problem
        .a_zero_points
        .uniform()
        .map(|z| z + kernels.a_form.offset(problem.a.signed));
    let (sums, bytes, requantization) = match output {
        QuantizedOutput::Sums(sums) => (sums.as_mut_ptr(), std::ptr::null_mut(), None),
        QuantizedOutput::Bytes(bytes, requantization) => (
            std::ptr::null_mut(),
            bytes.as_mut_ptr(),
            Some(requantization),
        ),
    };
    let product = Product {
        plan,
        problem,
        kernels,
        wide_kernels: plan.instructions.wide_kernels(),
        a_zero_point,
        b_zero_point,
        b_offset,
        row_terms: b_zero_point != Some(0) || a_zero_point.is_none(),
        factored: has_sums && (a_zero_point.is_none() || b_zero_point.is_none()),
        sums,
        bytes,
        scale: requantization.as_ref().and_then(|r| {
            let uniform = r.a_scales.len() == 1 && r.b_scales.len() == 1;
            uniform.then(|| r.a_scales.at(0) * r.b_scales.at(0) / r.y_scale)
        }),
        requantization,
        workspace: workspace.as_mut_ptr(),
    };
    if plan.copy_a || plan.copy_wide_a || product.row_terms {
        lanes.region(&QUANTIZED_ROWS_REGION, plan.rows_region(), |chunk| {
            for row in chunk.range {
                // SAFETY: `check` proved that A reaches as far as its rows; each row has parts of the scratch of its own.
                unsafe { product.row(row) };
            }
        })?;
    }
    lanes.region(&QUANTIZED_PRODUCT_REGION, plan.region(), |chunk| {
        let mut ready = None;
        for unit in chunk.range {
            // SAFETY: `check` proved that operands and output reach as far as the dimensions; units are disjoint parts
            // of the output, and the lane's scratch belongs to this chunk alone while it runs.
            unsafe { product.unit(unit, chunk.lane, &mut ready) };
        }
    })?;
    Ok(())
}

fn check(
    plan: &QuantizedPlan,
    problem: &QuantizedProblem<'_>,
    output: &QuantizedOutput<'_>,
) -> Result<(), GemmError> {
    let operand = |operand, length| GemmError::Operand { operand, length };
    let QuantizedProblem { m, n, k, .. } = *problem;
    let (a_matrices, b_matrices) = problem
        .batch
        .extent()
        .ok_or_else(|| operand("batch", problem.batch.dims.len()))?;
    let requantized = matches!(output, QuantizedOutput::Bytes(..));
    if plan.shape != problem.shape(requantized) || !plan.instructions.is_available() {
        return Err(GemmError::Plan);
    }
    if problem
        .packed_for()
        .is_some_and(|layout| layout != (plan.instructions, problem.a.signed))
    {
        return Err(GemmError::Plan);
    }
    if !problem.a.bytes.covers(a_matrices, m, k) {
        return Err(operand("A", problem.a.bytes.elements.len()));
    }
    match &problem.b {
        QuantizedFactor::Matrix(b) if !b.bytes.covers(b_matrices, k, n) => {
            return Err(operand("B", b.bytes.elements.len()));
        }
        QuantizedFactor::Packed(b) if b.dims() != (k, n) || b.matrices() < b_matrices => {
            return Err(operand("B", b.bytes()));
        }
        _ => {}
    }
    let length = match output {
        QuantizedOutput::Sums(sums) => sums.len(),
        QuantizedOutput::Bytes(bytes, requantization) => {
            let Requantization {
                a_scales, b_scales, ..
            } = requantization;
            if a_scales.is_empty() || b_scales.is_empty() {
                return Err(operand("scale", 0));
            }
            bytes.len()
        }
    };
    let needed = [m, n]
        .iter()
        .try_fold(plan.shape.batches, |product, &x| product.checked_mul(x));
    let empty = plan.region().total == 0;
    if !empty && needed.is_none_or(|needed| length < needed) {
        return Err(operand("output", length));
    }
    Ok(())
}

struct Product<'a> {
    plan: &'a QuantizedPlan,
    problem: &'a QuantizedProblem<'a>,
    kernels: &'static Kernels,
    wide_kernels: Option<&'static Kernels>,
    /// Zero point of A in the form of the instructions, if all rows have the same.
    a_zero_point: Option<i32>,
    /// Zero point of B in the form of the instructions, if all columns have the same.
    b_zero_point: Option<i32>,
    b_offset: i32,
    /// Whether there are row terms.
    row_terms: bool,
    /// Whether register tiles multiply factors of rows and columns.
    factored: bool,
    sums: *mut i32,
    bytes: *mut u8,
    requantization: Option<Requantization<'a>>,
    /// The scale of all elements, if they have the same.
    scale: Option<f32>,
    workspace: *mut u8,
}

// SAFETY: lanes write disjoint rows, units and scratch; everything else is only read.
unsafe impl Sync for Product<'_> {}

/// Row terms where there are none.
static NO_TERMS: [i32; MAXIMUM_ROWS] = [0; MAXIMUM_ROWS];

/// Columns that a lane's scratch is ready for.
struct Columns {
    b_matrix: usize,
    block: usize,
    column_sums: *const i32,
}

/// What register tiles of one width read of A.
struct Rows {
    kernels: &'static Kernels,
    /// First row.
    a: *const u8,
    /// Bytes from one row to the next.
    stride: usize,
    /// Whole groups of a row.
    groups: usize,
    /// Elements of a last group that is not whole.
    tail: usize,
    /// Groups of a panel.
    panel_groups: usize,
}

impl Product<'_> {
    /// Arrays of starts, factors of column sums and factors of zero points, one element a row of A.
    fn terms(&self) -> [*mut i32; 3] {
        let terms = self
            .workspace
            .wrapping_add(self.plan.shared.terms)
            .cast::<i32>();
        let rows = self.plan.rows_region().total;
        [0, 1, 2].map(|i| terms.wrapping_add(i * rows))
    }

    /// Copies a row of A if the plan wants it, and writes its terms.
    ///
    /// # Safety
    /// A has the row; no other lane works on it.
    unsafe fn row(&self, row: usize) {
        let plan = self.plan;
        let (m, k) = (plan.shape.m, plan.shape.k);
        let a = &self.problem.a.bytes;
        let signed = self.problem.a.signed;
        let source = a.elements.as_ptr().wrapping_add(
            (row / m)
                .wrapping_mul(a.batch_stride)
                .wrapping_add(row % m * a.row_stride),
        );
        let layout = &plan.shared;
        let copies = [
            (
                plan.copy_a.then_some(self.kernels),
                row * layout.a_stride,
                plan.groups,
            ),
            (
                self.wide_kernels.filter(|_| plan.copy_wide_a),
                layout.wide_a + row * layout.wide_a_stride,
                plan.wide_groups,
            ),
        ];
        // Where all of B has the zero point 0, terms do without the sum.
        let mut sum = 0i32;
        let mut summed = self.b_zero_point == Some(0);
        for (kernels, offset, groups) in copies {
            let Some(kernels) = kernels else { continue };
            // SAFETY: the row has k elements at these distances, its copies room for all groups.
            unsafe {
                let target = from_raw_parts_mut(self.workspace.wrapping_add(offset), 4 * groups);
                if a.column_stride == 1 || k == 0 {
                    (kernels.copy_row)(from_raw_parts(source, k), signed, target);
                } else {
                    sum = self.gather_row(kernels, source, a.column_stride, target);
                    summed = true;
                }
            }
        }
        if !summed {
            // SAFETY: as above; a row whose elements are not adjacent was copied.
            sum = unsafe { (self.kernels.row_sum)(from_raw_parts(source, k), signed) };
        }
        let a_zero_point = self.problem.a_zero_points.at(row) + self.kernels.a_form.offset(signed);
        let rest = sum.wrapping_sub((k as i32).wrapping_mul(a_zero_point));
        let [starts, a_factors, b_factors] = self.terms();
        let start = self.b_zero_point.unwrap_or(0).wrapping_mul(rest);
        // SAFETY: the arrays have an element for every row.
        unsafe {
            *starts.wrapping_add(row) = start.wrapping_neg();
            *a_factors.wrapping_add(row) = -a_zero_point;
            *b_factors.wrapping_add(row) = rest.wrapping_neg();
        }
    }

    /// Copies a row whose elements are not adjacent, in pieces, and returns their sum in A's form.
    ///
    /// # Safety
    /// The row has k elements at this distance.
    unsafe fn gather_row(
        &self,
        kernels: &Kernels,
        source: *const u8,
        distance: usize,
        target: &mut [u8],
    ) -> i32 {
        const PIECE: usize = 64;
        let form = kernels.a_form;
        let k = self.plan.shape.k;
        let mut sum = 0i32;
        for start in (0..k).step_by(PIECE) {
            let mut piece = [0; PIECE];
            let length = PIECE.min(k - start);
            for (i, byte) in piece[..length].iter_mut().enumerate() {
                // SAFETY: start + i < k.
                *byte = unsafe { *source.wrapping_add((start + i) * distance) };
            }
            let end = if start + length == k {
                target.len()
            } else {
                (start + length) * form.bytes()
            };
            let target = &mut target[start * form.bytes()..end];
            let (piece, signed) = (&piece[..length], self.problem.a.signed);
            // SAFETY: the kernels' features are there.
            let part = unsafe {
                (kernels.copy_row)(piece, signed, target);
                (kernels.row_sum)(piece, signed)
            };
            sum = sum.wrapping_add(part);
        }
        sum
    }

    /// # Safety
    /// Operands, output and scratch are as `check` and `quantized_product` require; no other lane works on this unit or
    /// with this lane's scratch.
    unsafe fn unit(&self, unit: usize, lane: usize, ready: &mut Option<Columns>) {
        let plan = self.plan;
        let per_batch = plan.column_blocks * plan.row_groups;
        let (batch, rest) = (unit / per_batch, unit % per_batch);
        let (block, row_group) = (rest / plan.row_groups, rest % plan.row_groups);
        let (a_matrix, b_matrix) = self.problem.batch.matrices(batch);
        let strips = Cut::in_parts(plan.strips, plan.column_blocks).part(block);
        let scratch = self
            .workspace
            .wrapping_add(plan.shared.total + lane * plan.scratch.total);
        let tiles = Cut::in_parts(plan.row_tiles, plan.row_groups).part(row_group);
        let is_ready = ready
            .as_ref()
            .is_some_and(|c| (c.b_matrix, c.block) == (b_matrix, block));
        // SAFETY: handed on from the caller.
        unsafe {
            if !is_ready {
                *ready = Some(self.columns(b_matrix, block, &strips, scratch));
            }
            let Some(columns) = ready else { return };
            if plan.source == Source::InPlace {
                for tile in tiles {
                    self.strip_rows(
                        batch,
                        a_matrix,
                        b_matrix,
                        &strips,
                        plan.tile_rows(tile),
                        scratch,
                    );
                }
            } else {
                self.tiles(batch, a_matrix, columns, &strips, tiles, scratch);
            }
        }
    }

    /// Makes a block of columns ready: B packed, and starts, zero points and scales of its columns.
    ///
    /// # Safety
    /// As [`unit`](Self::unit).
    unsafe fn columns(
        &self,
        b_matrix: usize,
        block: usize,
        strips: &Range<usize>,
        scratch: *mut u8,
    ) -> Columns {
        let (plan, kernels) = (self.plan, self.kernels);
        let (n, k) = (plan.shape.n, plan.shape.k);
        let layout = &plan.scratch;
        let array = |offset: usize| scratch.wrapping_add(offset).cast::<i32>();
        let column_sums = match &self.problem.b {
            QuantizedFactor::Packed(packed) => packed
                .column_sums(b_matrix)
                .wrapping_add(strips.start * kernels.strip()),
            QuantizedFactor::Matrix(b) if plan.source == Source::Packed => {
                let sums = array(layout.column_sums);
                for (index, strip) in strips.clone().enumerate() {
                    // SAFETY: B has these columns; the scratch has room for the block.
                    unsafe {
                        let wide = pack_strip(
                            b,
                            b_matrix,
                            k,
                            n,
                            strip,
                            (plan.instructions, plan.shape.a_signed),
                            array(layout.b).wrapping_add(index * layout.strip),
                            sums.wrapping_add(index * kernels.strip()),
                        );
                        *array(layout.wide).wrapping_add(index) = i32::from(wide);
                    }
                }
                sums.cast_const()
            }
            QuantizedFactor::Matrix(_) => std::ptr::null(),
        };
        let first = strips.start * kernels.strip();
        let width = strips.len() * kernels.strip();
        let live = width.min(n - first);
        // SAFETY: the arrays have room for the columns of a unit.
        let (starts, zero_points, scales) = unsafe {
            (
                from_raw_parts_mut(array(layout.starts), width),
                from_raw_parts_mut(array(layout.zero_points), width),
                from_raw_parts_mut(array(layout.scales).cast::<f32>(), width),
            )
        };
        match self.a_zero_point {
            Some(zero_point) if zero_point != 0 && !column_sums.is_null() => {
                // SAFETY: packed columns have sums.
                let sums = unsafe { from_raw_parts(column_sums, width) };
                for (start, &sum) in starts.iter_mut().zip(sums) {
                    *start = zero_point.wrapping_mul(sum).wrapping_neg();
                }
            }
            _ => starts.fill(0),
        }
        if self.b_zero_point.is_some() {
            zero_points.fill(0);
        } else {
            let (zero_points, rest) = zero_points.split_at_mut(live);
            for (index, zero_point) in zero_points.iter_mut().enumerate() {
                let column = b_matrix * n + first + index;
                *zero_point = self.problem.b_zero_points.at(column) + self.b_offset;
            }
            rest.fill(0);
        }
        if let Some(requantization) = &self.requantization {
            let Requantization {
                a_scales,
                b_scales,
                y_scale,
                ..
            } = requantization;
            if a_scales.len() > 1 || b_scales.len() > 1 {
                for (index, scale) in scales[..live].iter_mut().enumerate() {
                    let b_scale = b_scales.at(b_matrix * n + first + index);
                    *scale = if a_scales.len() > 1 {
                        b_scale
                    } else {
                        a_scales.at(0) * b_scale / y_scale
                    };
                }
            }
        }
        Columns {
            b_matrix,
            block,
            column_sums,
        }
    }

    /// Rows of a matrix of A for tiles over strips of either width.
    fn rows(&self, a_matrix: usize, wide: bool) -> Rows {
        let plan = self.plan;
        let (m, k, layout) = (plan.shape.m, plan.shape.k, &plan.shared);
        let copied = |kernels, offset: usize, stride, groups| Rows {
            kernels,
            a: self
                .workspace
                .wrapping_add(offset + a_matrix * m * stride)
                .cast_const(),
            stride,
            groups,
            tail: 0,
            panel_groups: groups,
        };
        match self.wide_kernels {
            Some(kernels) if wide => copied(
                kernels,
                layout.wide_a,
                layout.wide_a_stride,
                plan.wide_groups,
            ),
            _ if plan.copy_a => copied(self.kernels, 0, layout.a_stride, plan.groups),
            _ => {
                let a = &self.problem.a.bytes;
                let group = self.kernels.a_form.group();
                Rows {
                    kernels: self.kernels,
                    a: a.elements.as_ptr().wrapping_add(a_matrix * a.batch_stride),
                    stride: a.row_stride,
                    groups: k / group,
                    tail: k % group,
                    panel_groups: plan.groups,
                }
            }
        }
    }

    /// Rows of register tiles over packed columns.
    ///
    /// # Safety
    /// As [`unit`](Self::unit); the columns are ready.
    unsafe fn tiles(
        &self,
        batch: usize,
        a_matrix: usize,
        columns: &Columns,
        strips: &Range<usize>,
        tiles: Range<usize>,
        scratch: *mut u8,
    ) {
        let (plan, kernels) = (self.plan, self.kernels);
        let (m, n) = (plan.shape.m, plan.shape.n);
        let layout = &plan.scratch;
        let array = |offset: usize| scratch.wrapping_add(offset).cast::<i32>();
        let of_width = [false, true].map(|wide| self.rows(a_matrix, wide));
        let strip_at = |index: usize| match &self.problem.b {
            QuantizedFactor::Packed(packed) => packed.strip(columns.b_matrix, strips.start + index),
            QuantizedFactor::Matrix(_) => {
                // SAFETY: the strips of the block are packed.
                let wide = unsafe { *array(layout.wide).wrapping_add(index) } != 0;
                let strip = array(layout.b).wrapping_add(index * layout.strip);
                (strip.cast_const(), wide)
            }
        };
        let terms = self.terms();
        let panel = kernels.panel();
        let first_column = strips.start * kernels.strip();
        let end_column = (strips.end * kernels.strip()).min(n);
        let panels = (end_column - first_column).div_ceil(panel);
        let blocks = tiles.len().div_ceil(plan.tiles_per_block);
        for block in 0..blocks {
            let block = Cut::in_parts(tiles.len(), blocks).part(block);
            let prefetch_lines = if plan.source == Source::Constant {
                (panel / 4).div_ceil(block.len())
            } else {
                0
            };
            for index in 0..panels {
                let offset = index * panel;
                let column = first_column + offset;
                let live = panel.min(end_column - column);
                let vectors = live.div_ceil(kernels.lanes);
                let (strip, wide) = strip_at(index / PANELS);
                let &Rows {
                    kernels,
                    a,
                    stride: a_stride,
                    groups,
                    tail,
                    panel_groups,
                } = &of_width[usize::from(wide)];
                let panel_words = panel * panel_groups;
                let b = strip.wrapping_add(index % PANELS * panel_words);
                for (turn, tile) in block.clone().enumerate() {
                    let rows = plan.tile_rows(tiles.start + tile);
                    let row = a_matrix * m + rows.start;
                    let term = |index: usize| {
                        if self.row_terms {
                            terms[index].wrapping_add(row).cast_const()
                        } else {
                            NO_TERMS.as_ptr()
                        }
                    };
                    let (c, c_stride) = match self.requantization {
                        None => {
                            let first = (batch * m + rows.start) * n + column;
                            (self.sums.wrapping_add(first), n)
                        }
                        Some(_) => (array(layout.sums), panel),
                    };
                    let fetched = turn * prefetch_lines * (groups / 4);
                    let call = Tile {
                        a: a.wrapping_add(rows.start * a_stride),
                        a_stride,
                        groups,
                        tail,
                        b,
                        starts: Starts {
                            columns: array(layout.starts).wrapping_add(offset),
                            rows: term(0),
                            factored: self.factored,
                            a_factors: if self.a_zero_point.is_some() {
                                NO_TERMS.as_ptr()
                            } else {
                                term(1)
                            },
                            column_sums: columns.column_sums.wrapping_add(offset),
                            b_factors: term(2),
                            b_zero_points: array(layout.zero_points).wrapping_add(offset),
                        },
                        c,
                        c_stride,
                        last_lanes: live - (vectors - 1) * kernels.lanes,
                        next: b.wrapping_add(panel_words + 16 * fetched).cast(),
                        next_lines: if fetched < panel_words.div_ceil(16) {
                            prefetch_lines
                        } else {
                            0
                        },
                    };
                    // SAFETY: A has these rows, the panel these columns; starts have whole vectors, C the rows and live
                    // columns of this unit. Row terms have an element for each row of A.
                    unsafe { kernels.packed[rows.len() - 1][vectors - 1](&call) };
                    if self.requantization.is_some() {
                        for (index, row) in rows.enumerate() {
                            // SAFETY: the tile wrote these sums; the output has the row and its columns.
                            unsafe {
                                let sums = from_raw_parts(c.wrapping_add(index * panel), live);
                                let scales = array(layout.scales).wrapping_add(offset);
                                self.requantize(batch, a_matrix, row, column, sums, scales.cast());
                            }
                        }
                    }
                }
            }
        }
    }

    /// Some rows over columns of B in place.
    ///
    /// # Safety
    /// As [`unit`](Self::unit); the columns are ready.
    unsafe fn strip_rows(
        &self,
        batch: usize,
        a_matrix: usize,
        b_matrix: usize,
        strips: &Range<usize>,
        rows: Range<usize>,
        scratch: *mut u8,
    ) {
        let plan = self.plan;
        let Rows {
            kernels,
            a,
            stride: a_stride,
            groups,
            ..
        } = self.rows(a_matrix, true);
        let (m, n, k) = (plan.shape.m, plan.shape.n, plan.shape.k);
        let QuantizedFactor::Matrix(QuantizedMatrix { bytes: b, signed }) = &self.problem.b else {
            return;
        };
        let layout = &plan.scratch;
        let array = |offset: usize| scratch.wrapping_add(offset).cast::<i32>();
        let (first_column, stride) = (strips.start * kernels.strip(), layout.columns);
        let width = strips.len() * kernels.strip();
        let sums = array(layout.sums);
        // SAFETY: the scratch has sums for the rows of a tile and the column sums.
        unsafe { from_raw_parts_mut(sums, (rows.len() + 1) * stride) }.fill(0);
        let a = a.wrapping_add(rows.start * a_stride);
        let source = b.elements.as_ptr().wrapping_add(b_matrix * b.batch_stride);
        let group = kernels.b_form.group();
        for first_group in (0..groups).step_by(GROUPS_PER_PASS) {
            let first_row = first_group * group;
            for offset in (0..width).step_by(kernels.strip()) {
                let column = first_column + offset;
                let strip = Strip {
                    a: a.wrapping_add(4 * first_group),
                    a_stride,
                    b: source.wrapping_add(first_row * b.row_stride + column * b.column_stride),
                    b_stride: b.row_stride,
                    b_column_stride: b.column_stride,
                    depth: (GROUPS_PER_PASS * group).min(k - first_row),
                    columns: kernels.strip().min(n - column),
                    conversion: kernels.b_form.conversion(*signed),
                    sums: sums.wrapping_add(offset),
                    sums_stride: stride,
                };
                // SAFETY: copied rows of A and B have these groups, sums whole strips.
                unsafe { kernels.strips[rows.len() - 1](&strip) };
            }
        }
        let live = width.min(n - first_column);
        let terms = self.terms();
        // SAFETY: as above; zero points and row terms were written before.
        unsafe {
            let column_sums = from_raw_parts(sums.wrapping_add(rows.len() * stride), live);
            let zero_points = from_raw_parts(array(layout.zero_points), live);
            for (index, row) in rows.enumerate() {
                let line = from_raw_parts_mut(sums.wrapping_add(index * stride), live);
                let [start, a_factor, b_factor] =
                    terms.map(|term| *term.wrapping_add(a_matrix * m + row));
                (self.kernels.correct_row)(
                    line,
                    start,
                    (a_factor, column_sums),
                    (b_factor, zero_points),
                );
                if self.requantization.is_some() {
                    let scales = array(layout.scales).cast();
                    self.requantize(batch, a_matrix, row, first_column, line, scales);
                } else {
                    let target = self.sums.wrapping_add((batch * m + row) * n + first_column);
                    from_raw_parts_mut(target, live).copy_from_slice(line);
                }
            }
        }
    }

    /// Requantizes sums of a row into the output.
    ///
    /// # Safety
    /// The output has these elements and no other lane writes them; `scales` has one for every sum, unless all are equal.
    unsafe fn requantize(
        &self,
        batch: usize,
        a_matrix: usize,
        row: usize,
        column: usize,
        sums: &[i32],
        scales: *const f32,
    ) {
        let Some(requantization) = &self.requantization else {
            return;
        };
        let (m, n) = (self.plan.shape.m, self.plan.shape.n);
        let scale = match self.scale {
            Some(scale) => RowScale::Splat(scale),
            None => {
                // SAFETY: `columns` wrote the scales of these columns.
                let scales = unsafe { from_raw_parts(scales, sums.len()) };
                if requantization.a_scales.len() == 1 {
                    RowScale::Columns(scales)
                } else {
                    RowScale::Outer {
                        a: requantization.a_scales.at(a_matrix * m + row),
                        b: scales,
                        y: requantization.y_scale,
                    }
                }
            }
        };
        let rounding = Rounding::new(requantization.y_zero_point, requantization.signed);
        let target = self.bytes.wrapping_add((batch * m + row) * n + column);
        // SAFETY: handed on from the caller; the kernels' features are there.
        unsafe {
            let bytes = from_raw_parts_mut(target, sums.len());
            (self.kernels.requantize_row)(sums, scale, rounding, bytes);
        }
    }
}
