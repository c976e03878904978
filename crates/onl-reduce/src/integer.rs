//! Reductions of integers: wrapping, so that the order does not matter.

use crate::layout::Layout;
use crate::real::Real;
use crate::{BLOCK, Execution, INTEGERS, ReduceError, ReduceKind};
use onl_simd::{Isa, SimdOp, dispatch};
use onl_tensor::{Bool, Element, ElementType, TensorView, TensorViewMut};
use std::ops::Range;

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
    workspace: &mut [u8],
    execution: &Execution<'_>,
) -> Result<(), ReduceError> {
    let selects = matches!(kind, ReduceKind::Max | ReduceKind::Min);
    macro_rules! typed {
        ($t:ty) => {
            run::<$t>(
                kind,
                input.as_slice()?,
                layout,
                output.as_slice_mut()?,
                workspace,
                execution,
            )
        };
    }
    match input.element_type() {
        ElementType::Int32 => typed!(i32),
        ElementType::Int64 => typed!(i64),
        ElementType::UInt32 => typed!(u32),
        ElementType::UInt64 => typed!(u64),
        ElementType::Int8 if selects => typed!(i8),
        ElementType::UInt8 if selects => typed!(u8),
        ElementType::Bool if selects => {
            let source = bytemuck::cast_slice::<Bool, u8>(input.as_slice::<Bool>()?);
            let target = bytemuck::cast_slice_mut::<Bool, u8>(output.as_slice_mut::<Bool>()?);
            // The neutral elements of booleans are 0 and 1, those of bytes reach further.
            run(kind, source, layout, target, workspace, execution)?;
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

/// Largest share of neighbouring outputs that are reduced side by side.
const PANEL: usize = 256;

fn run<T: Integer>(
    kind: ReduceKind,
    source: &[T],
    layout: &Layout,
    target: &mut [T],
    workspace: &mut [u8],
    execution: &Execution<'_>,
) -> Result<(), ReduceError> {
    let (outputs, count) = (target.len(), layout.reduced.len());
    if outputs == 0 {
        return Ok(());
    }
    let tier = execution.tier;
    if kind == ReduceKind::LogSumExp {
        let spec = execution.spec(outputs, count, 20_000, "");
        let lanes = execution.lanes;
        lanes.region_over(&INTEGERS, spec, target, 1, |chunk, part| {
            for (output, slot) in chunk.range.zip(part) {
                *slot = log_sum_exp(source, layout, output);
            }
        })?;
        return Ok(());
    }
    let fold = |first: usize, part: &mut [T], places: Range<usize>| {
        dispatch(
            tier,
            Fold {
                kind,
                source,
                layout,
                first,
                target: part,
                places,
            },
        );
    };
    let blocks = count.div_ceil(BLOCK);
    let few =
        execution.splits(outputs, count) || !layout.inner_reduced && blocks > 1 && outputs <= PANEL;
    if few && blocks > 1 {
        let needed = outputs * blocks * size_of::<T>();
        let given = workspace.len();
        let bytes = workspace
            .get_mut(..needed)
            .ok_or(ReduceError::Workspace { needed, given })?;
        let partials: &mut [T] = bytemuck::try_cast_slice_mut(bytes)
            .map_err(|_| ReduceError::Workspace { needed, given })?;
        let spec = execution.spec(blocks, BLOCK * outputs, 60, "blocks");
        execution
            .lanes
            .region_over(&INTEGERS, spec, partials, outputs, |chunk, part| {
                for (block, part) in chunk.range.zip(part.chunks_exact_mut(outputs)) {
                    fold(0, part, block * BLOCK..count.min((block + 1) * BLOCK));
                }
            })?;
        target.copy_from_slice(&partials[..outputs]);
        for block in partials[outputs..].chunks_exact(outputs) {
            for (total, &part) in target.iter_mut().zip(block) {
                *total = merged(kind, *total, part);
            }
        }
        finish(kind, target, count);
        return Ok(());
    }
    let spec = execution.spec(outputs, count, 60, "");
    execution
        .lanes
        .region_over(&INTEGERS, spec, target, 1, |chunk, part| {
            fold(chunk.range.start, part, 0..count);
            finish(kind, part, count);
        })?;
    Ok(())
}

/// Two totals.
fn merged<T: Integer>(kind: ReduceKind, a: T, b: T) -> T {
    match kind {
        ReduceKind::Max => a.max(b),
        ReduceKind::Min => a.min(b),
        ReduceKind::Prod => a.times(b),
        _ => a.plus(b),
    }
}

/// Results from totals of `count` elements.
fn finish<T: Integer>(kind: ReduceKind, totals: &mut [T], count: usize) {
    for total in totals {
        *total = match kind {
            ReduceKind::Mean => total.over(count),
            ReduceKind::L2 => T::from_f64(Real::root(total.to_f64())),
            ReduceKind::LogSum => T::from_f64(Real::ln(total.to_f64())),
            _ => return,
        };
    }
}

/// Totals of a range of places of the rows of the outputs from `first` on.
struct Fold<'a, T> {
    kind: ReduceKind,
    source: &'a [T],
    layout: &'a Layout,
    first: usize,
    target: &'a mut [T],
    places: Range<usize>,
}

impl<T: Integer> SimdOp for Fold<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(mut self, _: I) {
        match self.kind {
            ReduceKind::Max => self.fold(T::SMALLEST, T::max),
            ReduceKind::Min => self.fold(T::LARGEST, T::min),
            ReduceKind::Prod => self.fold(T::ONE, T::times),
            ReduceKind::L1 => self.fold(T::ZERO, |total, x| total.plus(x.magnitude())),
            ReduceKind::SumSquare | ReduceKind::L2 => {
                self.fold(T::ZERO, |total, x| total.plus(x.times(x)));
            }
            _ => self.fold(T::ZERO, T::plus),
        }
    }
}

impl<T: Integer> Fold<'_, T> {
    #[inline(always)]
    fn fold(&mut self, start: T, step: impl Fn(T, T) -> T) {
        let (kept, reduced) = (&self.layout.kept, &self.layout.reduced);
        self.target.fill(start);
        if self.places.is_empty() {
            return;
        }
        if self.layout.inner_reduced {
            let run = reduced.sizes.last().copied().unwrap_or(1);
            for (index, total) in self.target.iter_mut().enumerate() {
                let origin = kept.offset(self.first + index);
                let mut place = self.places.start;
                while place < self.places.end {
                    let length = (run - place % run).min(self.places.end - place);
                    let elements = &self.source[origin + reduced.offset(place)..][..length];
                    let mut sum = *total;
                    for &x in elements {
                        sum = step(sum, x);
                    }
                    *total = sum;
                    place += length;
                }
            }
            return;
        }
        let columns = kept.sizes.last().copied().unwrap_or(1);
        let mut done = 0;
        while done < self.target.len() {
            let output = self.first + done;
            let width = (columns - output % columns)
                .min(self.target.len() - done)
                .min(PANEL);
            let totals = &mut self.target[done..done + width];
            let origin = kept.offset(output);
            for place in self.places.clone() {
                let elements = &self.source[origin + reduced.offset(place)..][..width];
                for (total, &x) in totals.iter_mut().zip(elements) {
                    *total = step(*total, x);
                }
            }
            done += width;
        }
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
