use crate::strided::{Axes, Layout, Rows, copy_strided};
use crate::unit::{Unit, by_unit, check_output};
use crate::{Execution, MovementError, TRANSPOSE};
use onl_executor::DisjointSlice;
use onl_simd::{Isa, SimdOp, dispatch};
use onl_tensor::{Shape, TensorView, TensorViewMut, row_major_strides};
use smallvec::SmallVec;

/// Rows and columns of the blocks that a transposition is divided into: both sides of a block fit the level-1 cache.
const BLOCK: usize = 64;
/// Rows and columns that are transposed at once inside a block.
const TILE: usize = 8;

/// `output[i_0, …] = input` with axis `perm[a]` of the input as axis `a` of the output (ONNX `Transpose`).
///
/// # Errors
/// [`MovementError::Shapes`] when `perm` is not a permutation of the input's axes or the output has another shape.
pub fn transpose(
    input: TensorView<'_>,
    perm: &[usize],
    output: &mut TensorViewMut<'_>,
    execution: &Execution<'_>,
) -> Result<(), MovementError> {
    let dims = input.dims();
    let mut seen: Axes<bool> = SmallVec::from_elem(false, dims.len());
    let valid = perm.len() == dims.len()
        && perm
            .iter()
            .all(|&a| a < dims.len() && !std::mem::replace(&mut seen[a], true));
    if !valid {
        return Err(MovementError::shapes(
            &[dims],
            format!("{perm:?} is no permutation of the axes"),
        ));
    }
    let permuted: Shape = perm.iter().map(|&a| dims[a]).collect();
    check_output(input.element_type(), output, &permuted)?;
    if output.is_empty() {
        return Ok(());
    }
    let steps = row_major_strides(dims);
    let layout = Layout {
        sizes: SmallVec::from_slice(&permuted),
        strides: perm.iter().map(|&a| steps[a] as isize).collect(),
        offset: 0,
    }
    .merged();
    by_unit!(input.element_type(), U => {
        let source = <U as Unit>::of(&input)?;
        let target = <U as Unit>::of_mut(output)?;
        let inner = layout.sizes.len() - 1;
        match layout.strides.iter().position(|&s| s == 1) {
            Some(axis) if axis != inner => {
                transpose_blocks(source, &layout, axis, target, execution)
            }
            _ => copy_strided(source, &layout, target, execution, &TRANSPOSE),
        }
    })
}

/// Transposes blocks of the two axes that are contiguous in the source (`axis`) and in the target (the innermost).
fn transpose_blocks<T: Unit>(
    source: &[T],
    layout: &Layout,
    axis: usize,
    target: &mut [T],
    execution: &Execution<'_>,
) -> Result<(), MovementError> {
    let rank = layout.sizes.len();
    let (rows, columns) = (layout.sizes[axis], layout.sizes[rank - 1]);
    let column_step = layout.strides[rank - 1] as usize;
    let target_steps = row_major_strides(&layout.sizes);
    let row_step = target_steps[axis];
    let mut sizes: Axes<usize> = SmallVec::new();
    let mut strides: Axes<isize> = SmallVec::new();
    let mut outer_steps: Axes<isize> = SmallVec::new();
    for outer in (0..rank - 1).filter(|&a| a != axis) {
        sizes.push(layout.sizes[outer]);
        strides.push(layout.strides[outer]);
        outer_steps.push(target_steps[outer] as isize);
    }
    let matrices: usize = sizes.iter().product();
    let bands = rows.div_ceil(BLOCK);
    let blocks_across = columns.div_ceil(BLOCK);
    // A unit is a block: it is an even share of a large matrix and a whole small one.
    let total = matrices * bands * blocks_across;
    let spec = execution.spec(total, rows.min(BLOCK) * columns.min(BLOCK), 600, "blocks");
    let target = DisjointSlice::new(target);
    execution.lanes.region(&TRANSPOSE, spec, |chunk| {
        dispatch(
            execution.tier,
            Blocks {
                source,
                target: &target,
                range: chunk.range,
                sizes: &sizes,
                strides: &strides,
                outer_steps: &outer_steps,
                offset: layout.offset,
                rows,
                columns,
                row_step,
                column_step,
            },
        );
    })?;
    Ok(())
}

/// Some blocks of a transposition. `target[row · row_step + column] = source[column · column_step + row]`.
struct Blocks<'a, T> {
    source: &'a [T],
    target: &'a DisjointSlice<'a, T>,
    range: std::ops::Range<usize>,
    sizes: &'a [usize],
    strides: &'a [isize],
    outer_steps: &'a [isize],
    offset: usize,
    rows: usize,
    columns: usize,
    row_step: usize,
    column_step: usize,
}

impl<T: Unit> SimdOp for Blocks<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, _: I) {
        let (bands, across) = (self.rows.div_ceil(BLOCK), self.columns.div_ceil(BLOCK));
        for unit in self.range.clone() {
            let matrix = unit / (bands * across);
            let rest = unit % (bands * across);
            let (row, column) = (rest / across * BLOCK, rest % across * BLOCK);
            let source = Rows::at(self.sizes, self.strides, self.offset, matrix).start as usize;
            let target = Rows::at(self.sizes, self.outer_steps, 0, matrix).start as usize;
            self.block(
                source,
                target,
                row..(row + BLOCK).min(self.rows),
                column..(column + BLOCK).min(self.columns),
            );
        }
    }
}

impl<T: Unit> Blocks<'_, T> {
    #[inline(always)]
    fn block(
        &self,
        source: usize,
        target: usize,
        rows: std::ops::Range<usize>,
        columns: std::ops::Range<usize>,
    ) {
        let full_rows = rows.start + rows.len() / TILE * TILE;
        let full_columns = columns.start + columns.len() / TILE * TILE;
        for row in (rows.start..full_rows).step_by(TILE) {
            for column in (columns.start..full_columns).step_by(TILE) {
                self.tile(source, target, row, column);
            }
        }
        self.edge(
            source,
            target,
            rows.start..full_rows,
            full_columns..columns.end,
        );
        self.edge(source, target, full_rows..rows.end, columns);
    }

    #[inline(always)]
    fn tile(&self, source: usize, target: usize, row: usize, column: usize) {
        let lines: [&[T; TILE]; TILE] = std::array::from_fn(|c| {
            let start = source + (column + c) * self.column_step + row;
            self.source[start..start + TILE]
                .try_into()
                .expect("the range has the length of a tile")
        });
        let turned: [[T; TILE]; TILE] =
            std::array::from_fn(|r| std::array::from_fn(|c| lines[c][r].clone()));
        for (r, line) in turned.into_iter().enumerate() {
            let start = target + (row + r) * self.row_step + column;
            // SAFETY: units of the region are disjoint blocks of the target, each run once; lines of a block are
            // disjoint and one is held at a time.
            let part = unsafe { self.target.part(start..start + TILE) };
            for (slot, element) in part.iter_mut().zip(line) {
                *slot = element;
            }
        }
    }

    #[inline(always)]
    fn edge(
        &self,
        source: usize,
        target: usize,
        rows: std::ops::Range<usize>,
        columns: std::ops::Range<usize>,
    ) {
        for row in rows {
            let start = target + row * self.row_step;
            // SAFETY: as in `tile`.
            let part = unsafe { self.target.part(start + columns.start..start + columns.end) };
            for (slot, column) in part.iter_mut().zip(columns.clone()) {
                *slot = self.source[source + column * self.column_step + row].clone();
            }
        }
    }
}
