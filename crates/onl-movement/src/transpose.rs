use crate::strided::{Axes, Layout, Rows, copy_layout};
use crate::turn::Block;
use crate::unit::{Shared, Unit, check_output};
use crate::{Execution, MovementError, TRANSPOSE};
use onl_simd::{Isa, SimdOp, dispatch};
use onl_tensor::{Shape, TensorView, TensorViewMut, row_major_strides};
use smallvec::SmallVec;

/// Bytes of a row of the blocks that a transposition is divided into: both sides of a block fit the level-1 cache.
const BLOCK_BYTES: usize = 256;

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
    let layout = permuted_layout(dims, perm)?;
    check_output(input.element_type(), output, &layout.sizes)?;
    copy_layout(&input, &layout, output, execution, &TRANSPOSE)
}

/// The layout of an output whose axis `a` is axis `perm[a]` of the input.
fn permuted_layout(dims: &[usize], perm: &[usize]) -> Result<Layout, MovementError> {
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
    let steps = row_major_strides(dims);
    Ok(Layout {
        sizes: perm.iter().map(|&a| dims[a]).collect(),
        strides: perm.iter().map(|&a| steps[a] as isize).collect(),
        offset: 0,
    })
}

/// As [`transpose`] of the input under the shape `dims`, into an output of any shape of as many elements: axes are
/// split, permuted and joined again (ONNX `DepthToSpace`, `SpaceToDepth`).
///
/// # Errors
/// [`MovementError::Shapes`] when `dims` or the output have another number of elements than the input, or `perm` is no
/// permutation.
pub fn rearrange(
    input: TensorView<'_>,
    dims: &[usize],
    perm: &[usize],
    output: &mut TensorViewMut<'_>,
    execution: &Execution<'_>,
) -> Result<(), MovementError> {
    let input = input.with_dims(dims)?;
    let shape = Shape::new(output.dims());
    check_output(input.element_type(), output, &shape)?;
    if shape.iter().product::<usize>() != input.len() {
        return Err(MovementError::shapes(
            &[dims, &shape],
            "both must have as many elements",
        ));
    }
    copy_layout(
        &input,
        &permuted_layout(dims, perm)?,
        output,
        execution,
        &TRANSPOSE,
    )
}

/// Rows and columns of the blocks of a matrix of this size: as many elements a block for flat and steep matrices as
/// for square ones, and whole registers.
fn block_of(rows: usize, columns: usize, width: usize) -> (usize, usize) {
    let side = (BLOCK_BYTES / width.max(1)).clamp(32, 128);
    let other = |size: usize| (side * side / size.clamp(1, side)).next_multiple_of(64);
    match (rows < side, columns < side) {
        (true, _) => (rows, other(rows)),
        (_, true) => (other(columns), columns),
        _ => (side, side),
    }
}

/// Transposes blocks of the two axes that are contiguous in the source (`axis`) and in the target (the innermost).
pub(crate) fn transpose_blocks<T: Unit>(
    source: &[T],
    layout: &Layout,
    axis: usize,
    target: &mut [T],
    execution: &Execution<'_>,
    site: &'static onl_profiling::RegionSite,
) -> Result<(), MovementError> {
    let rank = layout.sizes.len();
    let (rows, columns) = (layout.sizes[axis], layout.sizes[rank - 1]);
    let target_steps = row_major_strides(&layout.sizes);
    let mut sizes: Axes<usize> = SmallVec::new();
    let mut strides: Axes<isize> = SmallVec::new();
    let mut outer_steps: Axes<isize> = SmallVec::new();
    for outer in (0..rank - 1).filter(|&a| a != axis) {
        sizes.push(layout.sizes[outer]);
        strides.push(layout.strides[outer]);
        outer_steps.push(target_steps[outer] as isize);
    }
    layout.assert_inside(source.len());
    assert_eq!(layout.len(), target.len(), "the layout gives the target");
    let matrices: usize = sizes.iter().product();
    let block = block_of(rows, columns, T::WIDTH);
    let (bands, across) = (rows.div_ceil(block.0), columns.div_ceil(block.1));
    // A unit is a block: it is an even share of a large matrix and a whole small one.
    let per_unit = rows.min(block.0) * columns.min(block.1);
    let spec = execution.spec(matrices * bands * across, per_unit, 400, "blocks");
    let target = Shared::new(target);
    execution.lanes.region(site, spec, |chunk| {
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
                block,
                row_step: target_steps[axis],
                column_step: layout.strides[rank - 1],
            },
        );
    })?;
    Ok(())
}

/// Some blocks of a transposition. `target[row · row_step + column] = source[column · column_step + row]`.
struct Blocks<'a, T> {
    source: &'a [T],
    target: &'a Shared<'a, T>,
    range: std::ops::Range<usize>,
    sizes: &'a [usize],
    strides: &'a [isize],
    outer_steps: &'a [isize],
    offset: usize,
    rows: usize,
    columns: usize,
    block: (usize, usize),
    row_step: usize,
    column_step: isize,
}

impl<T: Unit> SimdOp for Blocks<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, _: I) {
        let (bands, across) = (
            self.rows.div_ceil(self.block.0),
            self.columns.div_ceil(self.block.1),
        );
        let first = self.range.start / (bands * across);
        let mut from = Rows::at(self.sizes, self.strides, self.offset, first);
        let mut to = Rows::at(self.sizes, self.outer_steps, 0, first);
        let mut band = self.range.start / across % bands;
        let mut place = self.range.start % across;
        for _ in self.range {
            let (row, column) = (band * self.block.0, place * self.block.1);
            let rows = self.block.0.min(self.rows - row);
            let columns = self.block.1.min(self.columns - column);
            // SAFETY: the layout lies inside the source and the block inside the target, as was checked before the
            // region; units are disjoint blocks of the target, each run once. The token is this processor's.
            unsafe {
                Block {
                    source: self
                        .source
                        .as_ptr()
                        .offset(from.start + column as isize * self.column_step)
                        .add(row),
                    column_step: self.column_step,
                    target: self
                        .target
                        .start()
                        .add(to.start as usize + row * self.row_step + column),
                    row_step: self.row_step,
                    rows,
                    columns,
                }
                .turn::<I>();
            }
            place += 1;
            if place == across {
                place = 0;
                band += 1;
                if band == bands {
                    band = 0;
                    from.advance();
                    to.advance();
                }
            }
        }
    }
}
