//! Reductions of integers: wrapping, so that the order does not matter.

use crate::layout::Layout;
use crate::real::Real;
use crate::{Execution, INTEGERS, ReduceError, ReduceKind};
use onl_tensor::{Bool, Element, ElementType, TensorView, TensorViewMut};

/// An integer that is reduced.
trait Integer: Element + Ord {
    const ZERO: Self;
    const ONE: Self;
    const LARGEST: Self;
    const SMALLEST: Self;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn magnitude(self) -> Self;
    /// Quotient toward zero; 0 for a count of 0.
    fn over(self, count: usize) -> Self;
    fn to_f64(self) -> f64;
    /// Toward zero, saturating.
    fn from_f64(x: f64) -> Self;
}

macro_rules! integers {
    ($($t:ty: $magnitude:expr),*) => {$(
        impl Integer for $t {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const LARGEST: Self = <$t>::MAX;
            const SMALLEST: Self = <$t>::MIN;
            #[inline(always)]
            fn plus(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline(always)]
            fn times(self, other: Self) -> Self { self.wrapping_mul(other) }
            #[inline(always)]
            fn magnitude(self) -> Self { $magnitude(self) }
            fn over(self, count: usize) -> Self {
                let quotient = i128::from(self).checked_div(count as i128).unwrap_or(0);
                quotient as $t
            }
            fn to_f64(self) -> f64 { self as f64 }
            fn from_f64(x: f64) -> Self { x as $t }
        }
    )*};
}
integers!(
    i8: i8::wrapping_abs, i32: i32::wrapping_abs, i64: i64::wrapping_abs,
    u8: std::convert::identity, u32: std::convert::identity, u64: std::convert::identity
);

pub(crate) fn reduce(
    kind: ReduceKind,
    input: TensorView<'_>,
    layout: &Layout,
    output: &mut TensorViewMut<'_>,
    execution: &Execution<'_>,
) -> Result<(), ReduceError> {
    let selects = matches!(kind, ReduceKind::Max | ReduceKind::Min);
    match input.element_type() {
        ElementType::Int32 => typed::<i32>(kind, input, layout, output, execution),
        ElementType::Int64 => typed::<i64>(kind, input, layout, output, execution),
        ElementType::UInt32 => typed::<u32>(kind, input, layout, output, execution),
        ElementType::UInt64 => typed::<u64>(kind, input, layout, output, execution),
        ElementType::Int8 if selects => typed::<i8>(kind, input, layout, output, execution),
        ElementType::UInt8 if selects => typed::<u8>(kind, input, layout, output, execution),
        ElementType::Bool if selects => {
            let source = bytemuck::cast_slice::<Bool, u8>(input.as_slice::<Bool>()?);
            let target = bytemuck::cast_slice_mut::<Bool, u8>(output.as_slice_mut::<Bool>()?);
            // The neutral elements of booleans are 0 and 1, those of bytes reach further.
            run(kind, source, layout, target, execution)?;
            for byte in target {
                *byte = (*byte).min(1);
            }
            Ok(())
        }
        element_type => Err(ReduceError::ElementType {
            operation: kind.name(),
            element_type,
        }),
    }
}

fn typed<T: Integer>(
    kind: ReduceKind,
    input: TensorView<'_>,
    layout: &Layout,
    output: &mut TensorViewMut<'_>,
    execution: &Execution<'_>,
) -> Result<(), ReduceError> {
    let source = input.as_slice::<T>()?;
    run(kind, source, layout, output.as_slice_mut::<T>()?, execution)
}

/// Largest share of neighbouring outputs that are reduced side by side.
const PANEL: usize = 256;

fn run<T: Integer>(
    kind: ReduceKind,
    source: &[T],
    layout: &Layout,
    target: &mut [T],
    execution: &Execution<'_>,
) -> Result<(), ReduceError> {
    let count = layout.reduced.len();
    let body = |first: usize, part: &mut [T]| match kind {
        ReduceKind::Sum | ReduceKind::Mean => {
            fold(source, layout, first, part, T::ZERO, |total, x| {
                total.plus(x)
            });
            if kind == ReduceKind::Mean {
                for total in part {
                    *total = total.over(count);
                }
            }
        }
        ReduceKind::Max => fold(source, layout, first, part, T::SMALLEST, T::max),
        ReduceKind::Min => fold(source, layout, first, part, T::LARGEST, T::min),
        ReduceKind::Prod => fold(source, layout, first, part, T::ONE, |total, x| {
            total.times(x)
        }),
        ReduceKind::L1 => fold(source, layout, first, part, T::ZERO, |total, x| {
            total.plus(x.magnitude())
        }),
        ReduceKind::SumSquare | ReduceKind::L2 => {
            fold(source, layout, first, part, T::ZERO, |total, x| {
                total.plus(x.times(x))
            });
            if kind == ReduceKind::L2 {
                for total in part {
                    *total = T::from_f64(Real::root(total.to_f64()));
                }
            }
        }
        ReduceKind::LogSum => {
            fold(source, layout, first, part, T::ZERO, |total, x| {
                total.plus(x)
            });
            for total in part {
                *total = T::from_f64(Real::ln(total.to_f64()));
            }
        }
        ReduceKind::LogSumExp => {
            for (index, slot) in part.iter_mut().enumerate() {
                *slot = log_sum_exp(source, layout, first + index);
            }
        }
    };
    let spec = execution.spec(target.len(), count, 200, "");
    execution
        .lanes
        .region_over(&INTEGERS, spec, target, 1, |chunk, part| {
            body(chunk.range.start, part);
        })?;
    Ok(())
}

/// Reduces the rows of the outputs from `first` on.
fn fold<T: Integer>(
    source: &[T],
    layout: &Layout,
    first: usize,
    target: &mut [T],
    start: T,
    step: impl Fn(T, T) -> T,
) {
    let (kept, reduced) = (&layout.kept, &layout.reduced);
    target.fill(start);
    let count = reduced.len();
    if count == 0 {
        return;
    }
    if layout.inner_reduced {
        let run = reduced.sizes.last().copied().unwrap_or(1);
        for (index, total) in target.iter_mut().enumerate() {
            let origin = kept.offset(first + index);
            for place in (0..count).step_by(run) {
                let elements = &source[origin + reduced.offset(place)..][..run];
                *total = elements.iter().fold(*total, |total, &x| step(total, x));
            }
        }
        return;
    }
    let columns = kept.sizes.last().copied().unwrap_or(1);
    let mut done = 0;
    while done < target.len() {
        let output = first + done;
        let width = (columns - output % columns)
            .min(target.len() - done)
            .min(PANEL);
        let totals = &mut target[done..done + width];
        let origin = kept.offset(output);
        for place in 0..count {
            let elements = &source[origin + reduced.offset(place)..][..width];
            for (total, &x) in totals.iter_mut().zip(elements) {
                *total = step(*total, x);
            }
        }
        done += width;
    }
}

/// ln Σ eˣ in f64, element after element, toward zero.
fn log_sum_exp<T: Integer>(source: &[T], layout: &Layout, output: usize) -> T {
    let origin = layout.kept.offset(output);
    let element = |place: usize| source[origin + layout.reduced.offset(place)].to_f64();
    let count = layout.reduced.len();
    if count == 0 {
        return T::from_f64(f64::NEG_INFINITY);
    }
    let largest = (0..count).map(element).fold(f64::NEG_INFINITY, f64::max);
    let sum = (0..count).fold(0.0, |sum: f64, place| {
        sum + (element(place) - largest).one(<f64 as Real>::exp)
    });
    T::from_f64(largest + Real::ln(sum))
}
