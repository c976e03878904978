use crate::{BForm, Batch, Dimensions, Epilogue, GemmError, Matrix, PackedB, Plan, Storage};
use onl_executor::Lanes;
use onl_profiling::{RegionSite, region_site};

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
    /// Elements from one row to the next, at least the number of columns; rows of a single element are adjacent.
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
    let region = plan.region(lanes.count());
    if region.total == 0 {
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
    let blocks = crate::blocks::Blocks::new(plan, problem, output, epilogue, workspace);
    lanes.region(&PRODUCT_REGION, region, |chunk| {
        // SAFETY: `check` proved that operands and output reach as far as the dimensions; units are disjoint parts of
        // the output, and the lane's scratch belongs to this chunk alone while it runs.
        unsafe { blocks.units(chunk.range, chunk.lane) };
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
            return Err(operand("B", b.bytes() / size_of::<S>()));
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
    let apart = plan.swapped && output.row_stride != 1;
    if !disjoint || apart || !target.covers(batches, m, n) {
        return Err(operand("output", output.elements.len()));
    }
    if let Some(c) = &epilogue.c {
        let addend = Matrix {
            elements: c.elements,
            row_stride: c.row_stride,
            column_stride: c.column_stride,
            batch_stride: 0,
        };
        let apart = plan.swapped && c.row_stride > 1;
        if c.column_stride > 1 || apart || !addend.covers(batches.min(1), m, n) {
            return Err(operand("C", c.elements.len()));
        }
    }
    if let Some(residual) = &epilogue.residual {
        let apart = plan.swapped && residual.row_stride != 1;
        let contiguous = residual.column_stride == 1 || n <= 1;
        if !contiguous || apart || !residual.covers(batches, m, n) {
            return Err(operand("residual", residual.elements.len()));
        }
    }
    Ok(())
}
