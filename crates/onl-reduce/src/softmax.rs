use crate::layout::Layout;
use crate::operation::{ExponentialSum, Maximum, Sum};
use crate::real::{Numeric, Real};
use crate::reduce::{Pass, scratch};
use crate::row::{self, LANES};
use crate::{BLOCK, Execution, ReduceError, SOFTMAX};
use onl_executor::DisjointSlice;
use onl_simd::{Isa, SimdOp, dispatch};
use onl_tensor::{ElementType, TensorView, TensorViewMut, bf16, f16};

/// Scratch bytes that [`softmax`] needs for rows of `length` elements at a distance of `inner`, `outer · inner` of
/// them.
pub fn softmax_workspace(
    element_type: ElementType,
    outer: usize,
    length: usize,
    inner: usize,
) -> usize {
    if inner == 1 {
        return 0;
    }
    let size = if element_type == ElementType::Float64 {
        8
    } else {
        4
    };
    column_scratch(outer.saturating_mul(inner), length).saturating_mul(size)
}

/// Values of scratch: maxima, sums, and partials of rows of several blocks.
fn column_scratch(outputs: usize, length: usize) -> usize {
    let blocks = length.div_ceil(BLOCK);
    let partials = if blocks > 1 { blocks } else { 0 };
    outputs.saturating_mul(2 + partials)
}

/// Softmax (or its logarithm) of `outer · inner` rows: element `k` of row `(o, i)` is
/// `input[(o · length + k) · inner + i]` (ONNX `Softmax` and `LogSoftmax`).
///
/// With the maximum m of a row and s = Σ eˣ⁻ᵐ in the order of the crate: softmax is eˣ⁻ᵐ · (1 / s), the reciprocal
/// rounded once; log-softmax is (x − m) − ln s. A row with a NaN, a +∞, or nothing but −∞ gives NaN.
///
/// Element types: f32, f64, f16, bf16. `workspace` is aligned to 8 bytes and has the length that
/// [`softmax_workspace`] gives.
///
/// # Errors
/// [`ReduceError::Shapes`], [`ReduceError::ElementType`] or [`ReduceError::Workspace`].
pub fn softmax(
    input: TensorView<'_>,
    [outer, length, inner]: [usize; 3],
    logarithm: bool,
    output: &mut TensorViewMut<'_>,
    workspace: &mut [u8],
    execution: &Execution<'_>,
) -> Result<(), ReduceError> {
    let elements = [outer, length, inner].iter().product::<usize>();
    if input.len() != elements || output.len() != elements {
        return Err(ReduceError::shapes(
            &[input.dims(), output.dims()],
            format!("{outer} x {inner} rows of {length} elements were asked for"),
        ));
    }
    if elements == 0 {
        return Ok(());
    }
    let shape = [outer, length, inner];
    match input.element_type() {
        ElementType::Float32 => run::<f32>(input, shape, logarithm, output, workspace, execution),
        ElementType::Float64 => run::<f64>(input, shape, logarithm, output, workspace, execution),
        ElementType::Float16 => run::<f16>(input, shape, logarithm, output, workspace, execution),
        ElementType::BFloat16 => run::<bf16>(input, shape, logarithm, output, workspace, execution),
        element_type => Err(ReduceError::ElementType {
            operation: "softmax",
            element_type,
        }),
    }
}

fn run<T: Numeric>(
    input: TensorView<'_>,
    [outer, length, inner]: [usize; 3],
    logarithm: bool,
    output: &mut TensorViewMut<'_>,
    workspace: &mut [u8],
    execution: &Execution<'_>,
) -> Result<(), ReduceError> {
    let source = input.as_slice::<T>()?;
    let target = output.as_slice_mut::<T>()?;
    if inner == 1 {
        let spec = execution.spec(outer, length, 400, "rows");
        execution
            .lanes
            .region_over(&SOFTMAX, spec, target, length, |chunk, part| {
                let rows = chunk.range.start * length..chunk.range.end * length;
                dispatch(
                    execution.tier,
                    Rows {
                        source: &source[rows],
                        target: part,
                        length,
                        logarithm,
                    },
                );
            })?;
        return Ok(());
    }
    let outputs = outer * inner;
    let all = scratch::<T::Real>(workspace, column_scratch(outputs, length))?;
    let (maxima, rest) = all.split_at_mut(outputs);
    let (sums, partials) = rest.split_at_mut(outputs);
    let layout = Layout::new(&[outer, length, inner], &[false, true, false]);
    let pass = |shifts| Pass {
        source,
        layout: &layout,
        shifts,
        finish: None,
    };
    pass(&[]).run::<Maximum>(maxima, partials, execution)?;
    pass(maxima).run::<ExponentialSum>(sums, partials, execution)?;
    for sum in sums.iter_mut() {
        *sum = if logarithm {
            sum.ln()
        } else {
            T::Real::ONE.over(*sum)
        };
    }
    let (maxima, sums) = (&*maxima, &*sums);
    let spec = execution.spec(outer * length, inner, 400, "columns");
    let target = DisjointSlice::new(target);
    execution.lanes.region(&SOFTMAX, spec, |chunk| {
        for line in chunk.range {
            let elements = line * inner..(line + 1) * inner;
            let group = line / length * inner..(line / length + 1) * inner;
            // SAFETY: each line of the region is run once, and lines are disjoint.
            let target = unsafe { target.part(elements.clone()) };
            dispatch(
                execution.tier,
                Line {
                    source: &source[elements],
                    maxima: &maxima[group.clone()],
                    sums: &sums[group],
                    target,
                    logarithm,
                },
            );
        }
    })?;
    Ok(())
}

/// Rows along the innermost axis.
struct Rows<'a, T> {
    source: &'a [T],
    target: &'a mut [T],
    length: usize,
    logarithm: bool,
}

impl<T: Numeric> SimdOp for Rows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        let rows = self.source.chunks_exact(self.length);
        for (source, target) in rows.zip(self.target.chunks_exact_mut(self.length)) {
            let largest = row::row::<T, Maximum, I>(isa, source, T::Real::ZERO);
            if self.logarithm {
                let sum = row::row::<T, ExponentialSum, I>(isa, source, largest);
                map::<T, Difference, I>(isa, source, target, largest, sum.ln());
            } else if T::as_reals(target).is_some() {
                map::<T, Exponential, I>(isa, source, target, largest, T::Real::ONE);
                let sum = row::row::<T, Sum, I>(isa, target, T::Real::ZERO);
                scale::<T, I>(isa, target, T::Real::ONE.over(sum));
            } else {
                let sum = row::row::<T, ExponentialSum, I>(isa, source, largest);
                let factor = T::Real::ONE.over(sum);
                map::<T, ScaledExponential, I>(isa, source, target, largest, factor);
            }
        }
    }
}

/// An element of the result from an element and two parameters of its row. A type and not a closure: closures are
/// not compiled for the tier of their caller.
trait Step<R: Real> {
    fn apply<I: Isa>(isa: I, x: R::V<I>, largest: R::V<I>, parameter: R::V<I>) -> R::V<I>;
}

/// eˣ⁻ᵐ.
struct Exponential;
/// eˣ⁻ᵐ times the parameter.
struct ScaledExponential;
/// (x − m) less the parameter.
struct Difference;

impl<R: Real> Step<R> for Exponential {
    #[inline(always)]
    fn apply<I: Isa>(isa: I, x: R::V<I>, largest: R::V<I>, _: R::V<I>) -> R::V<I> {
        R::exp(isa, R::sub(isa, x, largest))
    }
}

impl<R: Real> Step<R> for ScaledExponential {
    #[inline(always)]
    fn apply<I: Isa>(isa: I, x: R::V<I>, largest: R::V<I>, factor: R::V<I>) -> R::V<I> {
        R::mul(isa, R::exp(isa, R::sub(isa, x, largest)), factor)
    }
}

impl<R: Real> Step<R> for Difference {
    #[inline(always)]
    fn apply<I: Isa>(isa: I, x: R::V<I>, largest: R::V<I>, logarithm: R::V<I>) -> R::V<I> {
        R::sub(isa, R::sub(isa, x, largest), logarithm)
    }
}

/// Element-wise from source to target.
#[inline(always)]
fn map<T: Numeric, S: Step<T::Real>, I: Isa>(
    isa: I,
    source: &[T],
    target: &mut [T],
    largest: T::Real,
    parameter: T::Real,
) {
    let width = <T::Real as Real>::lanes::<I>();
    let largest = T::Real::splat(isa, largest);
    let parameter = T::Real::splat(isa, parameter);
    let mut sources = source.chunks_exact(width);
    let mut targets = target.chunks_exact_mut(width);
    for (source, target) in sources.by_ref().zip(targets.by_ref()) {
        let x = T::load(isa, source);
        T::store(isa, S::apply(isa, x, largest, parameter), target);
    }
    let (source, target) = (sources.remainder(), targets.into_remainder());
    if !source.is_empty() {
        let x = T::load_partial(isa, source, T::Real::ZERO);
        T::store_partial(isa, S::apply(isa, x, largest, parameter), target);
    }
}

#[inline(always)]
fn scale<T: Numeric, I: Isa>(isa: I, target: &mut [T], factor: T::Real) {
    let width = <T::Real as Real>::lanes::<I>();
    let factor = <T::Real as Real>::splat(isa, factor);
    for part in target.chunks_mut(width) {
        if part.len() == width {
            let x = T::load(isa, part);
            T::store(isa, T::Real::mul(isa, x, factor), part);
        } else {
            let x = T::load_partial(isa, part, T::Real::ZERO);
            T::store_partial(isa, T::Real::mul(isa, x, factor), part);
        }
    }
}

/// One line of columns, each with its own maximum and sum.
struct Line<'a, T: Numeric> {
    source: &'a [T],
    maxima: &'a [T::Real],
    /// Reciprocal sums, or their logarithms.
    sums: &'a [T::Real],
    target: &'a mut [T],
    logarithm: bool,
}

impl<T: Numeric> SimdOp for Line<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        let width = <T::Real as Real>::lanes::<I>();
        let zero = T::Real::ZERO;
        let mut at = 0;
        for target in self.target.chunks_mut(width) {
            let range = at..at + target.len();
            at = range.end;
            let (x, largest, sum) = if target.len() == width {
                (
                    T::load(isa, &self.source[range.clone()]),
                    <T::Real as Numeric>::load(isa, &self.maxima[range.clone()]),
                    <T::Real as Numeric>::load(isa, &self.sums[range]),
                )
            } else {
                (
                    T::load_partial(isa, &self.source[range.clone()], zero),
                    <T::Real as Numeric>::load_partial(isa, &self.maxima[range.clone()], zero),
                    <T::Real as Numeric>::load_partial(isa, &self.sums[range], zero),
                )
            };
            let d = T::Real::sub(isa, x, largest);
            let y = if self.logarithm {
                T::Real::sub(isa, d, sum)
            } else {
                T::Real::mul(isa, T::Real::exp(isa, d), sum)
            };
            if target.len() == width {
                T::store(isa, y, target);
            } else {
                T::store_partial(isa, y, target);
            }
        }
    }
}

const _: () = assert!(
    BLOCK.is_multiple_of(LANES),
    "blocks hold whole rounds of the lanes"
);
