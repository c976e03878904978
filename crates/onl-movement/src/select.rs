//! Elements chosen by their values or by a mask, and marks set at indices.

use crate::unit::{Shared, Unit, by_unit, check_output};
use crate::{Execution, MovementError, ONE_HOT, POSITIONS, STRIDED};
use onl_simd::{Isa, SimdOp, dispatch};
use onl_tensor::{Bool, Complex, ElementType, TensorView, TensorViewMut, bf16, f16};

/// Elements whose chosen ones are counted together, so that lanes know where theirs go.
const BLOCK: usize = 4096;

/// Number of counts that [`count_chosen`] needs for a tensor of this many elements.
pub const fn count_blocks(elements: usize) -> usize {
    elements.div_ceil(BLOCK)
}

fn fill<T: Clone>(slots: &mut [T], value: &T) {
    slots.fill(value.clone());
}

/// The first `count` integers of scratch memory, which is aligned to a cache line.
///
/// # Panics
/// When the memory is not aligned or too short.
pub fn words(workspace: &mut [u8], count: usize) -> &mut [i64] {
    bytemuck::cast_slice_mut(&mut workspace[..8 * count])
}

/// Runs an expression with `$elements` bound to the elements and `$chosen` to whether one is not zero.
macro_rules! by_choice {
    ($view:expr, $elements:ident, $chosen:ident => $body:expr) => {{
        macro_rules! case {
            ($t:ty, $zero:expr) => {{
                let $elements = $view.as_slice::<$t>()?;
                let $chosen = |x: &$t| *x != $zero;
                $body
            }};
        }
        match $view.element_type() {
            ElementType::Float32 => case!(f32, 0.0),
            ElementType::Float64 => case!(f64, 0.0),
            // Twice the bits, the sign dropped, is zero for both zeros alone.
            ElementType::Float16 => {
                let $elements = $view.as_slice::<f16>()?;
                let $chosen = |x: &f16| x.to_bits() << 1 != 0;
                $body
            }
            ElementType::BFloat16 => {
                let $elements = $view.as_slice::<bf16>()?;
                let $chosen = |x: &bf16| x.to_bits() << 1 != 0;
                $body
            }
            ElementType::UInt8 => case!(u8, 0),
            ElementType::UInt16 => case!(u16, 0),
            ElementType::UInt32 => case!(u32, 0),
            ElementType::UInt64 => case!(u64, 0),
            ElementType::Int8 => case!(i8, 0),
            ElementType::Int16 => case!(i16, 0),
            ElementType::Int32 => case!(i32, 0),
            ElementType::Int64 => case!(i64, 0),
            ElementType::Bool => case!(Bool, Bool(0)),
            ElementType::Complex64 => case!(Complex<f32>, Complex { re: 0.0, im: 0.0 }),
            ElementType::Complex128 => case!(Complex<f64>, Complex { re: 0.0, im: 0.0 }),
            ElementType::String => {
                let $elements = $view.as_strings()?;
                let $chosen = |x: &String| !x.is_empty();
                $body
            }
            element_type => Err(MovementError::Zero { element_type }),
        }
    }};
}

/// Counts the elements of each block that are not zero (strings: not empty), and gives the total. `counts` has
/// [`count_blocks`] slots and afterwards holds how many are chosen before each block.
///
/// # Errors
/// [`MovementError::Zero`] for types that have no zero here.
pub fn count_chosen(
    input: TensorView<'_>,
    counts: &mut [i64],
    execution: &Execution<'_>,
) -> Result<usize, MovementError> {
    assert_eq!(
        counts.len(),
        count_blocks(input.len()),
        "one count per block"
    );
    let spec = execution.spec(counts.len(), BLOCK, 200, "count");
    by_choice!(input, elements, chosen => {
        execution.lanes.region_over(&POSITIONS, spec, counts, 1, |chunk, counts| {
            for (block, count) in chunk.range.zip(counts) {
                let end = ((block + 1) * BLOCK).min(elements.len());
                let elements = &elements[block * BLOCK..end];
                *count = dispatch(execution.tier, Count { elements, chosen: &chosen });
            }
        })?;
        Ok::<(), MovementError>(())
    })?;
    let mut total = 0;
    for count in counts {
        total += std::mem::replace(count, total);
    }
    Ok(total as usize)
}

struct Count<'a, T, F> {
    elements: &'a [T],
    chosen: F,
}

impl<T, F: Fn(&T) -> bool> SimdOp for Count<'_, T, F> {
    type Output = i64;

    #[inline(always)]
    fn eval<I: Isa>(self, _: I) -> i64 {
        self.elements
            .iter()
            .map(|x| i64::from((self.chosen)(x)))
            .sum()
    }
}

/// Coordinates of the elements that are not zero in row-major order, one row of the output per axis (ONNX
/// `NonZero`). `before` is what [`count_chosen`] left.
///
/// # Errors
/// As [`count_chosen`], or [`MovementError::Shapes`] when the output has not one row per axis.
pub fn write_positions(
    input: TensorView<'_>,
    before: &[i64],
    output: &mut TensorViewMut<'_>,
    execution: &Execution<'_>,
) -> Result<(), MovementError> {
    let dims = input.dims();
    let &[rows, columns] = output.dims() else {
        return Err(MovementError::shapes(
            &[output.dims()],
            "two axes are needed",
        ));
    };
    if rows != dims.len() {
        return Err(MovementError::shapes(
            &[dims, output.dims()],
            "one row per axis is needed",
        ));
    }
    let Some((&run, outer)) = dims.split_last() else {
        return Ok(());
    };
    let target = Shared::new(output.as_slice_mut::<i64>()?);
    let spec = execution.spec(before.len(), BLOCK, 1000, "write");
    by_choice!(input, elements, chosen => {
        execution.lanes.region(&POSITIONS, spec, |chunk| {
            let mut found = [0_i64; BLOCK];
            for block in chunk.range {
                let mut at = block * BLOCK;
                let end = (at + BLOCK).min(elements.len());
                let mut column = before[block] as usize;
                let behind = before.get(block + 1).map_or(columns, |&c| c as usize);
                assert!(column <= behind && behind <= columns, "counts belong to the input");
                while at < end {
                    let within = at % run;
                    let length = (run - within).min(end - at);
                    let mut count = 0;
                    for (k, element) in elements[at..at + length].iter().enumerate() {
                        // Written in any case and kept if chosen: chosen elements follow no pattern that a branch
                        // could be predicted by.
                        found[count] = (within + k) as i64;
                        count += usize::from(chosen(element));
                    }
                    assert!(column + count <= behind, "counts belong to the input");
                    // SAFETY: rows are `columns` long, and a block writes the columns `before[block]..behind` of
                    // each row alone.
                    let slots = |axis: usize| unsafe {
                        std::slice::from_raw_parts_mut(target.start().add(axis * columns + column), count)
                    };
                    slots(rows - 1).copy_from_slice(&found[..count]);
                    let mut rest = at / run;
                    for axis in (0..outer.len()).rev() {
                        slots(axis).fill((rest % outer[axis]) as i64);
                        rest /= outer[axis];
                    }
                    column += count;
                    at += length;
                }
            }
        })?;
        Ok(())
    })
}

/// `output[o, p, i] = values[1]` where `p` is `places[o, i]`, else `values[0]` (ONNX `OneHot`): `inner` is the number
/// of elements behind the new axis. Places outside `[0, depth)` set nothing.
///
/// # Errors
/// [`MovementError::Shapes`] when there are not two values, or places and depth do not give the output.
pub fn one_hot(
    places: &[i64],
    depth: usize,
    inner: usize,
    values: TensorView<'_>,
    output: &mut TensorViewMut<'_>,
    execution: &Execution<'_>,
) -> Result<(), MovementError> {
    if values.len() != 2 || values.element_type() != output.element_type() {
        return Err(MovementError::shapes(
            &[values.dims()],
            "an off and an on value are needed",
        ));
    }
    if places.len().checked_mul(depth) != Some(output.len()) {
        return Err(MovementError::shapes(
            &[&[places.len(), depth], output.dims()],
            "places and depth do not give the output",
        ));
    }
    if output.is_empty() {
        return Ok(());
    }
    by_unit!(values.element_type(), U => {
        let values = <U as Unit>::of(&values)?;
        let target = <U as Unit>::of_mut(output)?;
        let row = depth * inner;
        let spec = execution.spec(target.len() / row, row, 150, "");
        execution.lanes.region_over(&ONE_HOT, spec, target, row, |chunk, part| {
            fill(part, &values[0]);
            let places = &places[chunk.range.start * inner..chunk.range.end * inner];
            for (places, row) in places.chunks_exact(inner).zip(part.chunks_exact_mut(row)) {
                for (i, &place) in places.iter().enumerate() {
                    if let Some(place) = usize::try_from(place).ok().filter(|&p| p < depth) {
                        row[place * inner + i].clone_from(&values[1]);
                    }
                }
            }
        })?;
        Ok(())
    })
}

/// The first `lengths[b]` elements along axis `time` reversed for every index `b` of axis `1 − time`, the others
/// copied (ONNX `ReverseSequence`).
///
/// # Errors
/// [`MovementError::IndexOutOfRange`] for the first length that is negative or exceeds the axis, or
/// [`MovementError::Shapes`] when shapes do not fit.
pub fn reverse_sequence(
    input: TensorView<'_>,
    lengths: TensorView<'_>,
    time: usize,
    output: &mut TensorViewMut<'_>,
    execution: &Execution<'_>,
) -> Result<(), MovementError> {
    let dims = input.dims();
    if dims.len() < 2 || time > 1 || lengths.dims() != [dims[1 - time]] {
        return Err(MovementError::shapes(
            &[dims, lengths.dims()],
            format!(
                "time axis {time} of 0 and 1, and one length per index of the other, are needed"
            ),
        ));
    }
    check_output(input.element_type(), output, dims)?;
    let size = dims[time];
    let lengths = lengths.as_slice::<i64>()?;
    if let Some(position) = lengths
        .iter()
        .position(|&l| usize::try_from(l).ok().is_none_or(|l| l > size))
    {
        return Err(MovementError::IndexOutOfRange {
            index: lengths[position],
            position,
            axis: time,
            size,
        });
    }
    if output.is_empty() {
        return Ok(());
    }
    let inner: usize = dims[2..].iter().product();
    by_unit!(input.element_type(), U => {
        let source = <U as Unit>::of(&input)?;
        let target = <U as Unit>::of_mut(output)?;
        let spec = execution.spec(target.len() / inner, inner, 300, "");
        execution.lanes.region_over(&STRIDED, spec, target, inner, |chunk, part| {
            for (row, slot) in chunk.range.zip(part.chunks_exact_mut(inner)) {
                let mut index = [row / dims[1], row % dims[1]];
                let length = lengths[index[1 - time]] as usize;
                if index[time] < length {
                    index[time] = length - 1 - index[time];
                }
                U::copy_run(&source[(index[0] * dims[1] + index[1]) * inner..][..inner], slot);
            }
        })?;
        Ok(())
    })
}
