use crate::unit::{Unit, by_unit, check_output, copy_rows};
use crate::{CONCAT, Execution, MovementError, SPLIT};
use onl_simd::{Isa, SimdOp, dispatch};
use onl_tensor::{Shape, TensorView, TensorViewMut};
use smallvec::SmallVec;

/// Number of parts that are handled without heap memory.
const PARTS: usize = 16;

/// Rows of at most this many elements are joined and cut by columns of many rows; longer ones piece by piece.
const NARROW: usize = 4096;

/// Elements of the rows that are joined input by input, so that their target stays in the level-1 cache meanwhile.
const BAND: usize = 4096;

/// Some rows of a concatenation.
struct Columns<'a, T> {
    sources: &'a [&'a [T]],
    widths: &'a [usize],
    /// Elements of a joined row.
    width: usize,
    /// Number of the first row.
    first: usize,
    target: &'a mut [T],
}

impl<T: Unit> SimdOp for Columns<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, _: I) {
        let mut row = self.first;
        let band = (BAND / self.width).max(1) * self.width;
        for target in self.target.chunks_mut(band) {
            let rows = target.len() / self.width;
            let mut column = 0;
            for (source, &width) in self.sources.iter().zip(self.widths) {
                let source = &source[row * width..][..rows * width];
                let target = &mut target[column..];
                if width > 0 {
                    // SAFETY: the source has as many rows of its width, and the target as many of the joined width,
                    // of which this input's columns end inside.
                    unsafe {
                        copy_rows(
                            source.as_ptr(),
                            width as isize,
                            target.as_mut_ptr(),
                            self.width,
                            width,
                            rows,
                        );
                    }
                }
                column += width;
            }
            row += rows;
        }
    }
}

/// Some rows of one part of a split.
struct Piece<'a, T> {
    /// The same rows of the input.
    source: &'a [T],
    /// Elements of a row of the input.
    width: usize,
    /// First column of the part.
    start: usize,
    piece_width: usize,
    target: &'a mut [T],
}

impl<T: Unit> SimdOp for Piece<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, _: I) {
        let rows = self.target.len() / self.piece_width;
        assert!(
            self.start + self.piece_width <= self.width && self.source.len() == rows * self.width,
            "the part's columns lie inside the rows"
        );
        // SAFETY: as was just checked; the target has as many rows of the part's width.
        unsafe {
            let source = self.source.as_ptr().add(self.start);
            let (step, width) = (self.width as isize, self.piece_width);
            copy_rows(source, step, self.target.as_mut_ptr(), width, width, rows);
        }
    }
}

/// Inputs joined along an axis (ONNX `Concat`).
///
/// # Errors
/// [`MovementError::Shapes`] when the inputs differ in type or in another axis, or the output has another shape.
pub fn concat(
    inputs: &[TensorView<'_>],
    axis: usize,
    output: &mut TensorViewMut<'_>,
    execution: &Execution<'_>,
) -> Result<(), MovementError> {
    let Some(first) = inputs.first() else {
        return Err(MovementError::shapes(&[], "there is no input"));
    };
    let mut joined = Shape::new(first.dims());
    if axis >= joined.rank() {
        return Err(MovementError::shapes(
            &[first.dims()],
            format!("there is no axis {axis}"),
        ));
    }
    joined.dims_mut()[axis] = 0;
    for input in inputs {
        if input.rank() != first.rank() {
            return Err(MovementError::shapes(
                &[first.dims(), input.dims()],
                "ranks differ",
            ));
        }
        for (a, &size) in input.dims().iter().enumerate() {
            if a == axis {
                joined.dims_mut()[axis] += size;
            } else if size != first.dims()[a] {
                return Err(MovementError::shapes(
                    &[first.dims(), input.dims()],
                    format!("sizes of axis {a} differ; only axis {axis} may"),
                ));
            }
        }
        if input.element_type() != first.element_type() {
            return Err(onl_tensor::TensorError::ElementType {
                expected: first.element_type(),
                actual: input.element_type(),
            }
            .into());
        }
    }
    check_output(first.element_type(), output, &joined)?;
    if output.is_empty() {
        return Ok(());
    }
    let inner: usize = joined[axis + 1..].iter().product();
    by_unit!(first.element_type(), U => {
        let sources = inputs
            .iter()
            .map(<U as Unit>::of)
            .collect::<Result<SmallVec<[&[U]; PARTS]>, _>>()?;
        let widths: SmallVec<[usize; PARTS]> = inputs.iter().map(|i| i.dims()[axis] * inner).collect();
        let width = joined[axis] * inner;
        let target = <U as Unit>::of_mut(output)?;
        if width <= NARROW {
            let spec = execution.spec(target.len() / width, width, 200, "rows");
            execution.lanes.region_over(&CONCAT, spec, target, width, |chunk, target| {
                let columns = Columns { sources: &sources, widths: &widths, width, first: chunk.range.start, target };
                dispatch(execution.tier, columns);
            })?;
            return Ok(());
        }
        let spec = execution.spec(target.len(), 1, 150, "pieces");
        execution.lanes.region_over(&CONCAT, spec, target, 1, |chunk, part| {
            let mut part = part;
            let mut row = chunk.range.start / width;
            let mut column = chunk.range.start % width;
            // Input that the current column belongs to, and the column within it.
            let mut which = 0;
            while column >= widths[which] {
                column -= widths[which];
                which += 1;
            }
            while !part.is_empty() {
                let (piece, rest) = part.split_at_mut((widths[which] - column).min(part.len()));
                U::copy_run(&sources[which][row * widths[which] + column..][..piece.len()], piece);
                part = rest;
                column = 0;
                which += 1;
                if which == widths.len() {
                    which = 0;
                    row += 1;
                }
            }
        })?;
        Ok(())
    })
}

/// The input cut along an axis into the outputs, in order (ONNX `Split`).
///
/// # Errors
/// [`MovementError::Shapes`] when the outputs do not join to the input's shape.
pub fn split(
    input: TensorView<'_>,
    axis: usize,
    outputs: &mut [TensorViewMut<'_>],
    execution: &Execution<'_>,
) -> Result<(), MovementError> {
    let dims = input.dims();
    if axis >= dims.len() {
        return Err(MovementError::shapes(
            &[dims],
            format!("there is no axis {axis}"),
        ));
    }
    let inner: usize = dims[axis + 1..].iter().product();
    let width = dims[axis] * inner;
    let mut before = 0;
    for output in outputs {
        let mut expected = Shape::new(dims);
        let size = output.dims().get(axis).copied().unwrap_or(0);
        expected.dims_mut()[axis] = size;
        check_output(input.element_type(), output, &expected)?;
        if size > dims[axis] - before {
            return Err(MovementError::shapes(
                &[dims, output.dims()],
                format!("the parts of axis {axis} are larger than the input"),
            ));
        }
        let start = before * inner;
        before += size;
        if output.is_empty() {
            continue;
        }
        let piece_width = size * inner;
        by_unit!(input.element_type(), U => {
            let source = <U as Unit>::of(&input)?;
            let target = <U as Unit>::of_mut(output)?;
            if piece_width <= NARROW {
                let spec = execution.spec(target.len() / piece_width, piece_width, 200, "rows");
                execution.lanes.region_over(&SPLIT, spec, target, piece_width, |chunk, target| {
                    let source = &source[chunk.range.start * width..chunk.range.end * width];
                    dispatch(execution.tier, Piece { source, width, start, piece_width, target });
                })?;
                continue;
            }
            let spec = execution.spec(target.len(), 1, 150, "pieces");
            execution.lanes.region_over(&SPLIT, spec, target, 1, |chunk, part| {
                let mut part = part;
                let mut row = chunk.range.start / piece_width;
                let mut column = chunk.range.start % piece_width;
                while !part.is_empty() {
                    let (piece, rest) = part.split_at_mut((piece_width - column).min(part.len()));
                    U::copy_run(&source[row * width + start + column..][..piece.len()], piece);
                    part = rest;
                    column = 0;
                    row += 1;
                }
            })?;
            Ok::<(), MovementError>(())
        })?;
    }
    Ok(())
}
