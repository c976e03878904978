use crate::strided::Axes;
use crate::unit::{Unit, by_unit, check_output};
use crate::{Execution, MovementError, PAD};
use onl_tensor::{Shape, TensorView, TensorViewMut, row_major_strides};
use smallvec::SmallVec;

/// What padded elements are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PadMode {
    /// A fill value.
    Constant,
    /// The input mirrored at its first and last element, which are not repeated.
    Reflect,
    /// The first or last element.
    Edge,
    /// The input from its other end, as on a ring.
    Wrap,
}

impl PadMode {
    /// Source index of an output index (`at` counts from the first kept input element), or `None` for the fill value.
    #[inline]
    fn source(self, at: isize, size: usize) -> Option<usize> {
        let length = size as isize;
        if (0..length).contains(&at) {
            return Some(at as usize);
        }
        match self {
            PadMode::Constant => None,
            PadMode::Edge => Some(at.clamp(0, length - 1) as usize),
            PadMode::Wrap => Some(at.rem_euclid(length) as usize),
            PadMode::Reflect if length == 1 => Some(0),
            PadMode::Reflect => {
                let period = 2 * (length - 1);
                let at = at.rem_euclid(period);
                Some(at.min(period - at) as usize)
            }
        }
    }
}

/// The input with elements added (or, for negative pads, removed) before and after every axis (ONNX `Pad`). `fill`
/// is a tensor of one element that `Constant` uses; zero bits without it.
///
/// # Errors
/// [`MovementError::Shapes`] when pads and input do not give the output's shape, or an empty axis is to be extended
/// by its own elements.
pub fn pad(
    input: TensorView<'_>,
    before: &[isize],
    mode: PadMode,
    fill: Option<TensorView<'_>>,
    output: &mut TensorViewMut<'_>,
    execution: &Execution<'_>,
) -> Result<(), MovementError> {
    let dims = input.dims();
    let sizes = Shape::new(output.dims());
    check_output(input.element_type(), output, &sizes)?;
    if before.len() != dims.len() || sizes.len() != dims.len() {
        return Err(MovementError::shapes(
            &[dims, &sizes],
            "input, output and pads must have one rank",
        ));
    }
    if output.is_empty() {
        return Ok(());
    }
    if mode != PadMode::Constant && input.is_empty() {
        return Err(MovementError::shapes(
            &[dims, &sizes],
            "an axis without elements can be padded with a constant only",
        ));
    }
    let steps = row_major_strides(dims);
    by_unit!(input.element_type(), U => {
        let source = <U as Unit>::of(&input)?;
        let fill = match fill {
            Some(view) => <U as Unit>::of(&view)?.first().cloned().unwrap_or_default(),
            None => U::default(),
        };
        let target = <U as Unit>::of_mut(output)?;
        if dims.is_empty() {
            target.clone_from_slice(source);
            return Ok(());
        }
        let last = dims.len() - 1;
        let inner = sizes[last];
        let spec = execution.spec(target.len() / inner, inner, 300, "");
        execution.lanes.region_over(&PAD, spec, target, inner, |chunk, part| {
            let mut index: Axes<usize> = SmallVec::from_elem(0, last);
            for (row, line) in chunk.range.zip(part.chunks_exact_mut(inner)) {
                let mut rest = row;
                let mut start = Some(0);
                for axis in (0..last).rev() {
                    index[axis] = rest % sizes[axis];
                    rest /= sizes[axis];
                    let at = index[axis] as isize - before[axis];
                    start = match (start, mode.source(at, dims[axis])) {
                        (Some(start), Some(at)) => Some(start + at * steps[axis]),
                        _ => None,
                    };
                }
                match start {
                    Some(start) => pad_line(&source[start..][..dims[last]], before[last], mode, &fill, line),
                    None => line.iter_mut().for_each(|slot| slot.clone_from(&fill)),
                }
            }
        })?;
        Ok(())
    })
}

/// Pads one row.
#[inline]
fn pad_line<T: Unit>(source: &[T], before: isize, mode: PadMode, fill: &T, target: &mut [T]) {
    let length = target.len() as isize;
    let kept_start = before.clamp(0, length);
    let kept_end = (before + source.len() as isize).clamp(kept_start, length);
    let element = |at: isize| match mode.source(at - before, source.len()) {
        Some(index) => source[index].clone(),
        None => fill.clone(),
    };
    for at in (0..kept_start).chain(kept_end..length) {
        target[at as usize] = element(at);
    }
    if kept_end > kept_start {
        let first = (kept_start - before) as usize;
        let kept = (kept_end - kept_start) as usize;
        target[kept_start as usize..kept_end as usize]
            .clone_from_slice(&source[first..first + kept]);
    }
}
