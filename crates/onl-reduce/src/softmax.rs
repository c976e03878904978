use crate::apply::{Difference, Exponential, Parameter, ScaledExponential, apply, line};
use crate::execution::SHORT;
use crate::layout::{Layout, Pattern};
use crate::operation::{ExponentialSum, Maximum, Sum};
use crate::real::{Numeric, Real};
use crate::reduce::{Pass, scratch};
use crate::row::{self, LANES};
use crate::{BLOCK, Execution, ReduceError, SOFTMAX};
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
        let rows = self.source.chunks_exact(self.length);
        for (source, target) in rows.zip(self.target.chunks_exact_mut(self.length)) {
            let largest = row::row::<T, Maximum, I>(isa, source, T::Real::ZERO);
            let parameters = |second| {
                [
                    Parameter::One(largest),
                    Parameter::One(second),
                    Parameter::One(T::Real::ZERO),
                ]
            };
            if self.logarithm {
                let sum = row::row::<T, ExponentialSum, I>(isa, source, largest);
                line::<T, Difference, I>(isa, source, target, &parameters(sum.ln()));
            } else if T::as_reals(target).is_some() {
                line::<T, Exponential, I>(isa, source, target, &parameters(T::Real::ZERO));
                let sum = row::row::<T, Sum, I>(isa, target, T::Real::ZERO);
                scale::<T, I>(isa, target, T::Real::ONE.over(sum));
            } else {
                let sum = row::row::<T, ExponentialSum, I>(isa, source, largest);
                let factor = T::Real::ONE.over(sum);
                line::<T, ScaledExponential, I>(isa, source, target, &parameters(factor));
            }
        }
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

const _: () = assert!(
    BLOCK.is_multiple_of(LANES),
    "blocks hold whole rounds of the lanes"
);
