use crate::packed::{code_at, write_codes};
use crate::strided::Axes;
use crate::unit::{Unit, by_unit, check_output};
use crate::{Execution, MovementError, PAD};
use onl_simd::{Isa, SimdOp, dispatch};
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
        // One reflection or turn is the common case, and needs no division.
        match self {
            PadMode::Constant => None,
            PadMode::Edge => Some(at.clamp(0, length - 1) as usize),
            PadMode::Wrap if (-length..0).contains(&at) => Some((at + length) as usize),
            PadMode::Wrap => Some(at.rem_euclid(length) as usize),
            PadMode::Reflect if (-length + 1..0).contains(&at) => Some(-at as usize),
            PadMode::Reflect if (length..2 * length - 1).contains(&at) => {
                Some((2 * (length - 1) - at) as usize)
            }
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
    if let bits @ (2 | 4) = input.element_type().bits() {
        let count = output.len();
        let fill = fill.map_or(0, |view| code_at(view.bytes(), bits, 0));
        let (bytes, target) = (input.bytes(), output.bytes_mut());
        return write_codes(bits, count, target, execution, &PAD, |element| {
            let mut elements = element..;
            let (steps, sizes) = (&steps, &sizes);
            move || {
                let mut rest = elements.next().unwrap_or(0);
                let mut source = Some(0);
                for axis in (0..dims.len()).rev() {
                    let at = (rest % sizes[axis]) as isize - before[axis];
                    rest /= sizes[axis];
                    source = source
                        .zip(mode.source(at, dims[axis]))
                        .map(|(source, at)| source + at * steps[axis]);
                }
                source.map_or(fill, |source| code_at(bytes, bits, source))
            }
        });
    }
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
        execution.lanes.region_over(&PAD, spec, target, inner, |chunk, target| {
            let first = chunk.range.start;
            let lines = Lines { source, dims, before, mode, fill: &fill, sizes: &sizes, steps: &steps, first, target };
            dispatch(execution.tier, lines);
        })?;
        Ok(())
    })
}

/// Some rows of a padding.
struct Lines<'a, T> {
    source: &'a [T],
    dims: &'a [usize],
    before: &'a [isize],
    mode: PadMode,
    fill: &'a T,
    /// Sizes of the output.
    sizes: &'a [usize],
    /// Row-major steps of the input.
    steps: &'a [usize],
    /// Number of the first row.
    first: usize,
    target: &'a mut [T],
}

impl<T: Unit> Lines<'_, T> {
    /// First source element of the rows at an index of the leading axes; `None` in the fill.
    #[inline(always)]
    fn start(&self, index: &[usize]) -> Option<usize> {
        let mut start = 0;
        for (axis, &at) in index.iter().enumerate() {
            let at = self
                .mode
                .source(at as isize - self.before[axis], self.dims[axis])?;
            start += at * self.steps[axis];
        }
        Some(start)
    }
}

impl<T: Unit> SimdOp for Lines<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(mut self, _: I) {
        let last = self.dims.len() - 1;
        let (inner, length) = (self.sizes[last], self.dims[last]);
        let mut index: Axes<usize> = SmallVec::from_elem(0, last);
        let mut rest = self.first;
        for axis in (0..last).rev() {
            index[axis] = rest % self.sizes[axis];
            rest /= self.sizes[axis];
        }
        let target = std::mem::take(&mut self.target);
        let mut lines = target.chunks_exact_mut(inner);
        // Planes of the innermost of the leading axes: the axes before it are worked out once each.
        let Some((outer, plane)) = last.checked_sub(1).map(|axis| (axis, self.sizes[axis])) else {
            for line in lines {
                pad_line(self.source, self.before[last], self.mode, self.fill, line);
            }
            return;
        };
        loop {
            let base = self.start(&index[..outer]);
            for row in index[outer]..plane {
                let Some(line) = lines.next() else {
                    return;
                };
                let at = row as isize - self.before[outer];
                let start = match (base, self.mode.source(at, self.dims[outer])) {
                    (Some(base), Some(at)) => base + at * self.steps[outer],
                    _ => {
                        line.fill(self.fill.clone());
                        continue;
                    }
                };
                let source = &self.source[start..][..length];
                pad_line(source, self.before[last], self.mode, self.fill, line);
            }
            index[outer] = 0;
            for axis in (0..outer).rev() {
                index[axis] += 1;
                if index[axis] < self.sizes[axis] {
                    break;
                }
                index[axis] = 0;
            }
        }
    }
}

/// Pads one row.
#[inline(always)]
fn pad_line<T: Unit>(source: &[T], before: isize, mode: PadMode, fill: &T, target: &mut [T]) {
    let length = target.len() as isize;
    let kept_start = before.clamp(0, length);
    let kept_end = (before + source.len() as isize).clamp(kept_start, length);
    let (head, rest) = target.split_at_mut(kept_start as usize);
    let (kept, tail) = rest.split_at_mut((kept_end - kept_start) as usize);
    if !kept.is_empty() {
        T::copy_run(
            &source[(kept_start - before) as usize..][..kept.len()],
            kept,
        );
    }
    // Borders are a few elements, for which a call to fill them would weigh.
    let set = |slots: &mut [T], value: &T| match slots {
        [] => {}
        [slot] => slot.clone_from(value),
        slots => {
            for slot in slots {
                slot.clone_from(value);
            }
        }
    };
    match mode {
        PadMode::Constant => {
            set(head, fill);
            set(tail, fill);
        }
        PadMode::Edge => {
            set(head, &source[0]);
            set(tail, &source[source.len() - 1]);
        }
        // Reflected once, without a decision per element.
        PadMode::Reflect
            if head.len() as isize == before && head.len().max(tail.len()) < source.len() =>
        {
            let end = source.len() - 1;
            for (slot, element) in head
                .iter_mut()
                .zip(source[1..=before as usize].iter().rev())
            {
                slot.clone_from(element);
            }
            for (slot, element) in tail.iter_mut().zip(source[..end].iter().rev()) {
                slot.clone_from(element);
            }
        }
        PadMode::Reflect | PadMode::Wrap => {
            for (slots, first) in [(head, 0), (tail, kept_end)] {
                for (at, slot) in (first - before..).zip(slots) {
                    if let Some(index) = mode.source(at, source.len()) {
                        slot.clone_from(&source[index]);
                    }
                }
            }
        }
    }
}
