use crate::apply::{Difference, Parameter, ScaledExponential, apply, line};
use crate::execution::SHORT;
use crate::layout::{Layout, Pattern};
use crate::operation::{ExponentialSum, Largest, Maximum, Sum};
use crate::real::{Numeric, Real, for_floats};
use crate::reduce::{Pass, partials, real_size, scratch};
use crate::row::{self, TOGETHER, together};
use crate::{Execution, ReduceError, SOFTMAX};
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
    if inner == 1 && length <= SHORT {
        return 0;
    }
    column_scratch(outer.saturating_mul(inner), length).saturating_mul(real_size(element_type))
}

/// Values of scratch: maxima, sums, and partials of rows of several blocks.
fn column_scratch(outputs: usize, length: usize) -> usize {
    outputs
        .saturating_mul(2)
        .saturating_add(partials(outputs, length))
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
    for_floats!(
        input.element_type(),
        "softmax",
        run(input, shape, logarithm, output, workspace, execution)
    )
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
    if inner == 1 && !execution.splits(outer, length) {
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
    let (shape, axes) = ([outer, length, inner], [false, true, false]);
    let layout = Layout::new(&shape, &axes);
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
    let pattern = Pattern::new(&shape, &axes);
    let parameters: [&[T::Real]; 3] = [maxima, sums, &[]];
    if logarithm {
        apply::<T, Difference>(&SOFTMAX, source, target, &pattern, parameters, execution)
    } else {
        apply::<T, ScaledExponential>(&SOFTMAX, source, target, &pattern, parameters, execution)
    }
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
        let length = self.length;
        let elements = together(length) * length;
        let groups = self.source.chunks(elements);
        let mut masked = false;
        for (sources, targets) in groups.zip(self.target.chunks_mut(elements)) {
            let rows = sources.chunks_exact(length);
            // A NaN makes NaN of every result, by way of its own exponential.
            let mut largest = [T::Real::ZERO; TOGETHER];
            for (source, largest) in rows.clone().zip(&mut largest) {
                *largest = row::row::<T, Largest, I>(isa, source, T::Real::ZERO);
            }
            let mut sums = [T::Real::ZERO; TOGETHER];
            if let Some(targets) = T::as_reals(targets) {
                let results = targets.chunks_exact_mut(length);
                for ((source, target), &largest) in rows.clone().zip(results).zip(&largest) {
                    T::Real::exp_row(isa, source, largest, target, &mut masked);
                }
                for (target, sum) in targets.chunks_exact(length).zip(&mut sums) {
                    *sum = row::row::<T::Real, Sum, I>(isa, target, T::Real::ZERO);
                }
                if !self.logarithm {
                    for (target, &sum) in targets.chunks_exact_mut(length).zip(&sums) {
                        scale::<T::Real, I>(isa, target, T::Real::ONE.over(sum));
                    }
                    continue;
                }
            } else {
                for ((source, &largest), sum) in rows.clone().zip(&largest).zip(&mut sums) {
                    *sum = row::row::<T, ExponentialSum, I>(isa, source, largest);
                }
            }
            let results = targets.chunks_exact_mut(length);
            for (((source, target), &largest), &sum) in rows.zip(results).zip(&largest).zip(&sums) {
                let second = if self.logarithm {
                    row::first::<T::Real, I>(isa, T::Real::log(isa, T::Real::splat(isa, sum)))
                } else {
                    T::Real::ONE.over(sum)
                };
                let parameters = [
                    Parameter::One(largest),
                    Parameter::One(second),
                    Parameter::One(T::Real::ZERO),
                ];
                if self.logarithm {
                    line::<T, Difference, I>(isa, source, target, &parameters);
                } else {
                    line::<T, ScaledExponential, I>(isa, source, target, &parameters);
                }
            }
        }
    }
}

#[inline(always)]
fn scale<R: Real, I: Isa>(isa: I, target: &mut [R], factor: R) {
    let width = R::lanes::<I>();
    let factor = R::splat(isa, factor);
    let mut parts = target.chunks_exact_mut(width);
    for part in parts.by_ref() {
        let x = R::mul(isa, <R as Numeric>::load(isa, part), factor);
        <R as Numeric>::store(isa, x, part);
    }
    let part = parts.into_remainder();
    if !part.is_empty() {
        let x = R::mul(
            isa,
            <R as Numeric>::load_partial(isa, part, R::ZERO),
            factor,
        );
        <R as Numeric>::store_partial(isa, x, part);
    }
}
