use crate::unit::{Unit, by_unit, check_output};
use crate::{CONCAT, Execution, MovementError, SPLIT};
use onl_tensor::{Shape, TensorView, TensorViewMut};
use smallvec::SmallVec;

/// Number of parts that are handled without heap memory.
const PARTS: usize = 16;

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
        let spec = execution.spec(target.len(), 1, 150, "");
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
                piece.clone_from_slice(&sources[which][row * widths[which] + column..][..piece.len()]);
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
            let spec = execution.spec(target.len(), 1, 150, "");
            execution.lanes.region_over(&SPLIT, spec, target, 1, |chunk, part| {
                let mut part = part;
                let mut row = chunk.range.start / piece_width;
                let mut column = chunk.range.start % piece_width;
                while !part.is_empty() {
                    let (piece, rest) = part.split_at_mut((piece_width - column).min(part.len()));
                    piece.clone_from_slice(&source[row * width + start + column..][..piece.len()]);
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
