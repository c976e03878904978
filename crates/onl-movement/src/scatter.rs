//! The scatters: a copy of the data into which updates are written at indices.
//!
//! Updates that meet in one slot are applied in row-major order of the updates, whatever the division: a lane owns
//! slots, not updates. In `scatter_elements` the slots of two updates differ whenever their coordinates beside the
//! axis differ, so lanes own lines along the axis; in `scatter_nd` lanes own columns of the slices, and short slices
//! stay with the caller, because tuples may name a slice twice.

use crate::gather::check_elementwise_indices;
use crate::indices::{FirstBad, Index, Indices, Tuples, by_index};
use crate::strided::Rows;
use crate::unit::{Shared, Unit, by_unit, check_output};
use crate::{Execution, MovementError, SCATTER};
use onl_executor::Lanes;
use onl_tensor::{
    Bool, Complex, ElementType, Shape, TensorView, TensorViewMut, bf16, f16, row_major_strides,
};
use smallvec::SmallVec;
use std::ops::Range;

/// Fewest columns of a slice that a lane owns: two cache lines of the narrowest elements.
const COLUMNS: usize = 128;

/// What a scatter makes of the element in a slot and an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// The update.
    None,
    /// The sum; integers wrap, f16 and bf16 are added in f32 and rounded at every update, booleans are or-ed, strings
    /// are joined.
    Add,
    /// The product; integers wrap, f16 and bf16 as for sums, booleans are and-ed.
    Mul,
    /// The larger; NaN when either is.
    Max,
    /// The smaller; NaN when either is.
    Min,
}

impl Reduction {
    /// Name in ONNX.
    pub const fn name(self) -> &'static str {
        match self {
            Reduction::None => "none",
            Reduction::Add => "add",
            Reduction::Mul => "mul",
            Reduction::Max => "max",
            Reduction::Min => "min",
        }
    }

    /// Whether elements of a type can be reduced so.
    pub fn serves(self, element_type: ElementType) -> bool {
        use ElementType::*;
        let number = matches!(
            element_type,
            Float32
                | Float64
                | Float16
                | BFloat16
                | Bool
                | UInt8
                | UInt16
                | UInt32
                | UInt64
                | Int8
                | Int16
                | Int32
                | Int64
        );
        match self {
            Reduction::None => true,
            Reduction::Add => number || matches!(element_type, String | Complex64 | Complex128),
            Reduction::Mul => number || matches!(element_type, Complex64 | Complex128),
            Reduction::Max | Reduction::Min => number,
        }
    }
}

/// A number that sums and products are made of.
trait Arithmetic: Copy + Send + Sync + 'static {
    fn add(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
}

/// A number that has an order.
trait Ordered: Copy + Send + Sync + 'static {
    fn max(self, other: Self) -> Self;
    fn min(self, other: Self) -> Self;
}

macro_rules! reduce {
    ($($t:ty),*: |$a:ident, $b:ident| $add:expr, $mul:expr, $max:expr, $min:expr) => {$(
        impl Arithmetic for $t {
            #[inline(always)]
            fn add(self, other: Self) -> Self { let ($a, $b) = (self, other); $add }
            #[inline(always)]
            fn mul(self, other: Self) -> Self { let ($a, $b) = (self, other); $mul }
        }
        impl Ordered for $t {
            #[inline(always)]
            fn max(self, other: Self) -> Self { let ($a, $b) = (self, other); $max }
            #[inline(always)]
            fn min(self, other: Self) -> Self { let ($a, $b) = (self, other); $min }
        }
    )*};
}
reduce!(u8, u16, u32, u64, i8, i16, i32, i64: |a, b| a.wrapping_add(b), a.wrapping_mul(b), Ord::max(a, b), Ord::min(a, b));
reduce!(f32, f64: |a, b| a + b, a * b,
    if a.is_nan() || a > b { a } else { b }, if a.is_nan() || a < b { a } else { b });
reduce!(f16: |a, b| f16::from_f32(a.to_f32() + b.to_f32()), f16::from_f32(a.to_f32() * b.to_f32()),
    if a.is_nan() || a > b { a } else { b }, if a.is_nan() || a < b { a } else { b });
reduce!(bf16: |a, b| bf16::from_f32(a.to_f32() + b.to_f32()), bf16::from_f32(a.to_f32() * b.to_f32()),
    if a.is_nan() || a > b { a } else { b }, if a.is_nan() || a < b { a } else { b });
reduce!(Bool: |a, b| Bool(a.0 | b.0), Bool(a.0 & b.0), Bool(a.0 | b.0), Bool(a.0 & b.0));

macro_rules! complex {
    ($($t:ty),*) => {$(
        impl Arithmetic for Complex<$t> {
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                Complex {
                    re: self.re + other.re,
                    im: self.im + other.im,
                }
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                Complex {
                    re: self.re * other.re - self.im * other.im,
                    im: self.re * other.im + self.im * other.re,
                }
            }
        }
    )*};
}
complex!(f32, f64);

/// A combination of runs made of one of elements.
fn each<T>(one: impl Fn(&mut T, &T) + Sync) -> impl Fn(&mut [T], &[T]) + Sync {
    move |slots, updates| {
        for (slot, update) in slots.iter_mut().zip(updates) {
            one(slot, update);
        }
    }
}

/// Writes updates into a target that holds the data.
trait Updates {
    /// Applies `combine` to all slots that indices select, as many at once as lie side by side, with their updates.
    fn apply<T: Send + Sync>(
        &self,
        target: &mut [T],
        indices: &Indices<'_>,
        updates: &[T],
        bad: &FirstBad,
        combine: impl Fn(&mut [T], &[T]) + Sync,
    ) -> Result<(), MovementError>;
}

/// Copies the data and applies the updates with a reduction.
fn scatter(
    input: &TensorView<'_>,
    positions: &Indices<'_>,
    updates: &TensorView<'_>,
    reduction: Reduction,
    output: &mut TensorViewMut<'_>,
    execution: &Execution<'_>,
    bad: &FirstBad,
    plan: &impl Updates,
) -> Result<(), MovementError> {
    let element_type = input.element_type();
    if updates.element_type() != element_type {
        return Err(onl_tensor::TensorError::ElementType {
            expected: element_type,
            actual: updates.element_type(),
        }
        .into());
    }
    if !reduction.serves(element_type) {
        return Err(MovementError::Reduction {
            reduction: reduction.name(),
            element_type,
        });
    }
    by_unit!(element_type, U => {
        let source = <U as Unit>::of(input)?;
        let target = <U as Unit>::of_mut(output)?;
        let spec = execution.spec(target.len(), 1, 150, "copy");
        execution.lanes.region_over(&SCATTER, spec, target, 1, |chunk, part| {
            U::copy_run(&source[chunk.range], part);
        })?;
        if reduction == Reduction::None {
            let updates = <U as Unit>::of(updates)?;
            plan.apply(target, positions, updates, bad, |slots: &mut [U], updates| U::copy_run(updates, slots))?;
        }
        Ok::<(), MovementError>(())
    })?;
    macro_rules! reduced {
        ($t:ty: $($reduction:ident $combine:path),*) => {{
            let (target, updates) = (output.as_slice_mut::<$t>()?, updates.as_slice::<$t>()?);
            match reduction {
                $(Reduction::$reduction => {
                    plan.apply(target, positions, updates, bad, each(|slot, &x| *slot = $combine(*slot, x)))
                })*
                _ => Ok(()),
            }
        }};
    }
    macro_rules! by_type {
        ($($name:ident: $t:ty),*) => {
            match element_type {
                _ if reduction == Reduction::None => Ok(()),
                $(ElementType::$name => {
                    reduced!($t: Add Arithmetic::add, Mul Arithmetic::mul, Max Ordered::max, Min Ordered::min)
                })*
                ElementType::Complex64 => reduced!(Complex<f32>: Add Arithmetic::add, Mul Arithmetic::mul),
                ElementType::Complex128 => reduced!(Complex<f64>: Add Arithmetic::add, Mul Arithmetic::mul),
                ElementType::String => {
                    let (target, updates) = (output.as_strings_mut()?, updates.as_strings()?);
                    plan.apply(target, positions, updates, bad, each(|slot: &mut String, update: &String| slot.push_str(update)))
                }
                _ => Ok(()),
            }
        };
    }
    by_type!(Float32: f32, Float64: f64, Float16: f16, BFloat16: bf16, Bool: Bool,
        UInt8: u8, UInt16: u16, UInt32: u32, UInt64: u64, Int8: i8, Int16: i16, Int32: i32, Int64: i64)
}

/// A copy of the input in which `output[i with i[axis] replaced by indices[i]]` is reduced with `updates[i]` (ONNX
/// `ScatterElements`, `Scatter`). Indices are i32 or i64; negative ones count from the end.
///
/// # Errors
/// [`MovementError::IndexOutOfRange`], [`MovementError::Reduction`] for a reduction that the type does not have, or
/// [`MovementError::Shapes`] when shapes do not fit.
pub fn scatter_elements(
    input: TensorView<'_>,
    indices: TensorView<'_>,
    updates: TensorView<'_>,
    axis: usize,
    reduction: Reduction,
    output: &mut TensorViewMut<'_>,
    execution: &Execution<'_>,
) -> Result<(), MovementError> {
    let (dims, shape) = (input.dims(), indices.dims());
    check_elementwise_indices(dims, shape, axis)?;
    if updates.dims() != shape {
        return Err(MovementError::shapes(
            &[shape, updates.dims()],
            "updates must have the shape of the indices",
        ));
    }
    check_output(input.element_type(), output, dims)?;
    let positions = Indices::of(&indices)?;
    let bad = FirstBad::new();
    let plan = LinesAlong {
        dims,
        shape,
        axis,
        execution,
    };
    scatter(
        &input, &positions, &updates, reduction, output, execution, &bad, &plan,
    )?;
    bad.check(&positions, |_| (axis, dims[axis]))
}

/// Updates whose slots lie on lines along an axis.
struct LinesAlong<'a> {
    dims: &'a [usize],
    shape: &'a [usize],
    axis: usize,
    execution: &'a Execution<'a>,
}

impl Updates for LinesAlong<'_> {
    fn apply<T: Send + Sync>(
        &self,
        target: &mut [T],
        indices: &Indices<'_>,
        updates: &[T],
        bad: &FirstBad,
        combine: impl Fn(&mut [T], &[T]) + Sync,
    ) -> Result<(), MovementError> {
        if updates.is_empty() {
            return Ok(());
        }
        let (dims, shape, axis) = (self.dims, self.shape, self.axis);
        let steps: SmallVec<[isize; 8]> = row_major_strides(dims)
            .into_iter()
            .map(|s| s as isize)
            .collect();
        let (size, along) = (dims[axis], shape[axis]);
        let outer: usize = shape[..axis].iter().product();
        let inner_shape = &shape[axis + 1..];
        let inner: usize = inner_shape.iter().product();
        // Behind the axis, coordinates are walked in runs along the last one.
        let (leading, run) = match inner_shape.split_last() {
            Some((&run, leading)) => (leading, run),
            None => (&[][..], 1),
        };
        let leading_steps = &steps[axis + 1..][..leading.len()];
        let step = steps[axis] as usize;
        let target = Shared::new(target);
        let spec = self.execution.spec(outer * inner, along, 1500, "lines");
        self.execution.lanes.region(&SCATTER, spec, |chunk| {
            let mut at = chunk.range.start;
            let mut base = Rows::at(&shape[..axis], &steps[..axis], 0, at / inner);
            // The run of updates from `position` on meets slots from `start` on, `step` apart for indices.
            let apply = |position: usize, start: usize, length: usize, stride: usize| {
                let updates = &updates[position..][..length];
                by_index!(*indices, indices => {
                    let indices = &indices[position..][..length];
                    for (k, (index, update)) in indices.iter().zip(updates).enumerate() {
                        match index.resolve(size) {
                            // SAFETY: indices are no larger than the data besides the axis, and the index lies
                            // inside the axis, so the slot lies inside the target. Slots of different coordinates
                            // besides the axis differ, and these are of this chunk alone.
                            Some(index) => unsafe {
                                let slot = target.start().add(start + k * stride + index * step);
                                combine(std::slice::from_mut(&mut *slot), std::slice::from_ref(update));
                            },
                            None => bad.report(position + k),
                        }
                    }
                });
            };
            while at < chunk.range.end {
                let columns = at % inner..(at % inner + chunk.range.end - at).min(inner);
                let first = at / inner * along * inner;
                let start = base.start as usize;
                if inner == 1 {
                    apply(first, start, along, 0);
                } else if leading.is_empty() {
                    for line in 0..along {
                        let position = first + line * inner + columns.start;
                        apply(position, start + columns.start, columns.len(), 1);
                    }
                } else {
                    for line in 0..along {
                        let mut column = columns.start;
                        let mut rows = Rows::at(leading, leading_steps, start, column / run);
                        while column < columns.end {
                            let within = column % run;
                            let length = (run - within).min(columns.end - column);
                            let position = first + line * inner + column;
                            apply(position, rows.start as usize + within, length, 1);
                            column += length;
                            rows.advance();
                        }
                    }
                }
                at += columns.len();
                base.advance();
            }
        })?;
        Ok(())
    }
}

/// A copy of the input in which the slices at index tuples are reduced with `updates` (ONNX `ScatterND`): the last
/// axis of `indices` holds tuples; updates have the shape `indices[..−1] + input[depth..]`.
///
/// # Errors
/// As [`scatter_elements`].
pub fn scatter_nd(
    input: TensorView<'_>,
    indices: TensorView<'_>,
    updates: TensorView<'_>,
    reduction: Reduction,
    output: &mut TensorViewMut<'_>,
    execution: &Execution<'_>,
) -> Result<(), MovementError> {
    let (dims, shape) = (input.dims(), indices.dims());
    let tuples = Tuples::new(dims, shape, 0)?;
    let expected: Shape = shape[..shape.len() - 1]
        .iter()
        .chain(&dims[tuples.depth..])
        .copied()
        .collect();
    if updates.dims() != &*expected {
        return Err(MovementError::shapes(
            &[updates.dims(), &expected],
            "updates must have the second shape",
        ));
    }
    check_output(input.element_type(), output, dims)?;
    let positions = Indices::of(&indices)?;
    let bad = FirstBad::new();
    let plan = SlicesAt {
        tuples: &tuples,
        execution,
    };
    scatter(
        &input, &positions, &updates, reduction, output, execution, &bad, &plan,
    )?;
    bad.check(&positions, |position| tuples.axis_size(position))
}

/// Updates of whole slices.
struct SlicesAt<'a> {
    tuples: &'a Tuples<'a>,
    execution: &'a Execution<'a>,
}

impl Updates for SlicesAt<'_> {
    fn apply<T: Send + Sync>(
        &self,
        target: &mut [T],
        indices: &Indices<'_>,
        updates: &[T],
        bad: &FirstBad,
        combine: impl Fn(&mut [T], &[T]) + Sync,
    ) -> Result<(), MovementError> {
        let inner = self.tuples.inner;
        if inner == 0 || updates.is_empty() {
            // No slot is written, and still a bad index is an error.
            by_index!(*indices, values => {
                let starts = self.tuples.starts(values, bad);
                (0..self.tuples.count).any(|tuple| starts.of(tuple).is_none());
            });
            return Ok(());
        }
        let length = target.len();
        let target = Shared::new(target);
        let columns = |columns: Range<usize>| {
            by_index!(*indices, values => {
                let starts = self.tuples.starts(values, bad);
                for tuple in 0..self.tuples.count {
                    let Some(start) = starts.of(tuple) else {
                        continue;
                    };
                    assert!(start + inner <= length, "a slice lies inside the target");
                    let updates = &updates[tuple * inner..][..inner][columns.clone()];
                    // SAFETY: inside the target, as was just checked; a chunk owns its columns of every slice.
                    unsafe {
                        let slots = target.start().add(start + columns.start);
                        combine(
                            std::slice::from_raw_parts_mut(slots, columns.len()),
                            updates,
                        );
                    }
                }
            })
        };
        let mut spec = self
            .execution
            .spec(inner, self.tuples.count, 500, "columns");
        spec.grain = spec.grain.max(COLUMNS);
        if spec.chunks() > 1 {
            self.execution
                .lanes
                .region(&SCATTER, spec, |chunk| columns(chunk.range))?;
        } else {
            spec.path = "serial";
            Lanes::serial().region(&SCATTER, spec, |chunk| columns(chunk.range))?;
        }
        Ok(())
    }
}

/// A copy of the input in which `updates` lie from an index of `axis` on, which differs by batch (ONNX
/// `TensorScatter`): `output[b, …, start_b + s, …] = updates[b, …, s, …]`. `starts` has one index per element of
/// axis 0, all 0 without it; `circular` wraps around at the end of the axis.
///
/// # Errors
/// [`MovementError::IndexOutOfRange`] for the first start whose updates leave the axis (circular: that lies outside
/// it), or [`MovementError::Shapes`] when shapes do not fit.
pub fn scatter_sequence(
    input: TensorView<'_>,
    updates: TensorView<'_>,
    starts: Option<TensorView<'_>>,
    axis: usize,
    circular: bool,
    output: &mut TensorViewMut<'_>,
    execution: &Execution<'_>,
) -> Result<(), MovementError> {
    let (dims, shape) = (input.dims(), updates.dims());
    let fits = dims.len() == shape.len()
        && (1..dims.len()).contains(&axis)
        && (0..dims.len()).all(|a| shape[a] == dims[a] || a == axis && shape[a] <= dims[a])
        && starts.is_none_or(|s| s.dims() == [dims[0]]);
    if !fits {
        return Err(MovementError::shapes(
            &[dims, shape, starts.map_or(&[][..], |s| s.dims())],
            format!(
                "updates must equal the data besides axis {axis}, which is not the first, and fit into it"
            ),
        ));
    }
    check_output(input.element_type(), output, dims)?;
    if updates.element_type() != input.element_type() {
        return Err(onl_tensor::TensorError::ElementType {
            expected: input.element_type(),
            actual: updates.element_type(),
        }
        .into());
    }
    let starts = starts.map(|s| s.as_slice::<i64>()).transpose()?;
    let (size, count) = (dims[axis], shape[axis]);
    for (position, &start) in starts.unwrap_or_default().iter().enumerate() {
        let limit = if circular { size } else { size - count + 1 };
        if usize::try_from(start)
            .ok()
            .is_none_or(|start| start >= limit)
        {
            return Err(MovementError::IndexOutOfRange {
                index: start,
                position,
                axis,
                size,
            });
        }
    }
    if output.is_empty() {
        return Ok(());
    }
    let inner: usize = dims[axis + 1..].iter().product();
    let per_batch: usize = dims[1..axis].iter().product();
    by_unit!(input.element_type(), U => {
        let (source, updates) = (<U as Unit>::of(&input)?, <U as Unit>::of(&updates)?);
        let target = <U as Unit>::of_mut(output)?;
        let line = size * inner;
        let spec = execution.spec(target.len() / line, line, 200, "");
        execution.lanes.region_over(&SCATTER, spec, target, line, |chunk, part| {
            for (number, line) in chunk.range.zip(part.chunks_exact_mut(line)) {
                line.clone_from_slice(&source[number * size * inner..][..size * inner]);
                let updates = &updates[number * count * inner..][..count * inner];
                let start = starts.map_or(0, |starts| starts[number / per_batch] as usize);
                let straight = (size - start).min(count) * inner;
                line[start * inner..][..straight].clone_from_slice(&updates[..straight]);
                let wrapped = updates.len() - straight;
                line[..wrapped].clone_from_slice(&updates[straight..]);
            }
        })?;
        Ok(())
    })
}
