use crate::operation::{CentredSquareSum, SquareSum, Sum};
use crate::real::{Numeric, Real};
use crate::row;
use crate::{Execution, NORMALIZATION, ReduceError};
use onl_executor::DisjointSlice;
use onl_simd::{Isa, SimdOp, dispatch};
use onl_tensor::{ElementType, TensorView, TensorViewMut, bf16, f16};

/// Parameters of a normalization of rows.
#[derive(Debug, Clone, Copy)]
pub struct LayerNorm<'a> {
    /// Elements of a row.
    pub length: usize,
    /// Added to the variance.
    pub epsilon: f32,
    /// Whether the mean is subtracted: layer normalization; without, root-mean-square normalization.
    pub centre: bool,
    /// Factors, as many as a row has elements, or one.
    pub scale: TensorView<'a>,
    /// Summands, as many as a row has elements, or one; none for no bias.
    pub bias: Option<TensorView<'a>>,
}

/// Normalizes rows of `length` elements (ONNX `LayerNormalization` and `RMSNormalization`).
///
/// With n elements and the order of the crate: mean = Σ x / n; variance = Σ (x − mean)² / n, squares accumulated by
/// fused multiply-adds; r = 1 / √(variance + ε), both rounded; y = fma((x − mean) · r, scale, bias), or
/// ((x − mean) · r) · scale without a bias. Without centring, mean is 0 and is not subtracted. f16 and bf16 are
/// computed in f32 and rounded once.
///
/// `mean` and `inverse_deviation`, if wanted, get one f32 a row. Element types: f32, f64, f16, bf16; scale and bias
/// have the type of the input.
///
/// # Errors
/// [`ReduceError::Shapes`] or [`ReduceError::ElementType`].
pub fn layer_norm(
    input: TensorView<'_>,
    norm: &LayerNorm<'_>,
    output: &mut TensorViewMut<'_>,
    mean: Option<&mut [f32]>,
    inverse_deviation: Option<&mut [f32]>,
    execution: &Execution<'_>,
) -> Result<(), ReduceError> {
    let length = norm.length;
    let rows = input.len().checked_div(length).unwrap_or(0);
    let fits = |count: usize| count == length || count == 1;
    if output.len() != input.len() || rows * length != input.len() {
        return Err(ReduceError::shapes(
            &[input.dims(), output.dims()],
            format!("rows of {length} elements were asked for"),
        ));
    }
    if !fits(norm.scale.len()) || norm.bias.is_some_and(|b| !fits(b.len())) {
        return Err(ReduceError::shapes(
            &[input.dims(), norm.scale.dims()],
            format!("scale and bias must have {length} elements, or one"),
        ));
    }
    for statistic in [mean.as_deref(), inverse_deviation.as_deref()]
        .into_iter()
        .flatten()
    {
        if statistic.len() != rows {
            return Err(ReduceError::shapes(
                &[input.dims(), &[statistic.len()]],
                format!("one value for each of {rows} rows is given"),
            ));
        }
    }
    if rows == 0 {
        return Ok(());
    }
    let statistics = (mean, inverse_deviation);
    match input.element_type() {
        ElementType::Float32 => run::<f32>(input, norm, output, statistics, execution),
        ElementType::Float64 => run::<f64>(input, norm, output, statistics, execution),
        ElementType::Float16 => run::<f16>(input, norm, output, statistics, execution),
        ElementType::BFloat16 => run::<bf16>(input, norm, output, statistics, execution),
        element_type => Err(ReduceError::ElementType {
            operation: "normalization",
            element_type,
        }),
    }
}

fn run<T: Numeric>(
    input: TensorView<'_>,
    norm: &LayerNorm<'_>,
    output: &mut TensorViewMut<'_>,
    statistics: (Option<&mut [f32]>, Option<&mut [f32]>),
    execution: &Execution<'_>,
) -> Result<(), ReduceError> {
    let length = norm.length;
    let source = input.as_slice::<T>()?;
    let scale = norm.scale.as_slice::<T>()?;
    let bias = norm.bias.map(|b| b.as_slice::<T>()).transpose()?;
    let target = output.as_slice_mut::<T>()?;
    let mean = statistics.0.map(DisjointSlice::new);
    let deviation = statistics.1.map(DisjointSlice::new);
    let spec = execution.spec(source.len() / length, length, 250, "");
    execution
        .lanes
        .region_over(&NORMALIZATION, spec, target, length, |chunk, part| {
            let rows = chunk.range;
            // SAFETY: chunks of a region are disjoint ranges of rows, and each is run once.
            let mean = mean.as_ref().map(|m| unsafe { m.part(rows.clone()) });
            // SAFETY: as above.
            let deviation = deviation.as_ref().map(|d| unsafe { d.part(rows.clone()) });
            dispatch(
                execution.tier,
                Rows {
                    source: &source[rows.start * length..rows.end * length],
                    target: part,
                    scale,
                    bias,
                    mean,
                    deviation,
                    length,
                    epsilon: norm.epsilon,
                    centre: norm.centre,
                },
            );
        })?;
    Ok(())
}

struct Rows<'a, T> {
    source: &'a [T],
    target: &'a mut [T],
    scale: &'a [T],
    bias: Option<&'a [T]>,
    mean: Option<&'a mut [f32]>,
    deviation: Option<&'a mut [f32]>,
    length: usize,
    epsilon: f32,
    centre: bool,
}

impl<T: Numeric> SimdOp for Rows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(mut self, isa: I) {
        let count = T::Real::from_count(self.length);
        let epsilon = T::Real::from_f32(self.epsilon);
        let rows = self.source.chunks_exact(self.length);
        for (index, (source, target)) in rows
            .zip(self.target.chunks_exact_mut(self.length))
            .enumerate()
        {
            let (mean, squares) = if self.centre {
                let mean = row::row::<T, Sum, I>(isa, source, T::Real::ZERO).over(count);
                (mean, row::row::<T, CentredSquareSum, I>(isa, source, mean))
            } else {
                (
                    T::Real::ZERO,
                    row::row::<T, SquareSum, I>(isa, source, T::Real::ZERO),
                )
            };
            let variance = squares.over(count);
            let shifted = variance.one(|isa, v| T::Real::add(isa, v, T::Real::splat(isa, epsilon)));
            let factor = T::Real::ONE.over(shifted.root());
            if let Some(statistic) = &mut self.mean {
                statistic[index] = mean.narrow();
            }
            if let Some(statistic) = &mut self.deviation {
                statistic[index] = factor.narrow();
            }
            normalize::<T, I>(
                isa,
                source,
                target,
                self.scale,
                self.bias,
                mean,
                factor,
                self.centre,
            );
        }
    }
}

#[inline(always)]
fn normalize<T: Numeric, I: Isa>(
    isa: I,
    source: &[T],
    target: &mut [T],
    scale: &[T],
    bias: Option<&[T]>,
    mean: T::Real,
    factor: T::Real,
    centre: bool,
) {
    let width = <T::Real as Real>::lanes::<I>();
    let mean = T::Real::splat(isa, mean);
    let factor = T::Real::splat(isa, factor);
    let mut at = 0;
    for (source, target) in source.chunks(width).zip(target.chunks_mut(width)) {
        let range = at..at + source.len();
        at = range.end;
        let x = load::<T, I>(isa, source);
        let x = if centre {
            T::Real::sub(isa, x, mean)
        } else {
            x
        };
        let x = T::Real::mul(isa, x, factor);
        let scale = parameter::<T, I>(isa, scale, range.clone());
        let y = match bias {
            Some(bias) => T::Real::fma(isa, x, scale, parameter::<T, I>(isa, bias, range)),
            None => T::Real::mul(isa, x, scale),
        };
        if target.len() == width {
            T::store(isa, y, target);
        } else {
            T::store_partial(isa, y, target);
        }
    }
}

#[inline(always)]
fn load<T: Numeric, I: Isa>(isa: I, source: &[T]) -> <T::Real as Real>::V<I> {
    if source.len() >= <T::Real as Real>::lanes::<I>() {
        T::load(isa, source)
    } else {
        T::load_partial(isa, source, T::Real::ZERO)
    }
}

#[inline(always)]
fn parameter<T: Numeric, I: Isa>(
    isa: I,
    values: &[T],
    range: std::ops::Range<usize>,
) -> <T::Real as Real>::V<I> {
    match values {
        [one] => T::Real::splat(isa, one.widen()),
        values => load::<T, I>(isa, &values[range]),
    }
}
