use crate::execution::SHORT;
use crate::layout::Layout;
use crate::operation::{CentredSquareSum, SquareSum, Sum};
use crate::real::{Numeric, Real, for_floats};
use crate::reduce::{Pass, partials, real_size, scratch};
use crate::row::{self, TOGETHER, together};
use crate::{BLOCK, Execution, NORMALIZATION, ReduceError, ReduceKind};
use onl_executor::DisjointSlice;
use onl_simd::{Isa, SimdOp, dispatch};
use onl_tensor::{ElementType, TensorView, TensorViewMut, bf16, f16};
use std::ops::Range;

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

/// Scratch bytes that [`layer_norm`] needs for this many rows.
pub fn layer_norm_workspace(element_type: ElementType, rows: usize, length: usize) -> usize {
    if length <= SHORT {
        return 0;
    }
    row_scratch(rows, length).saturating_mul(real_size(element_type))
}

/// Values of scratch of rows that are divided themselves: means, factors, partials.
fn row_scratch(rows: usize, length: usize) -> usize {
    rows.saturating_mul(2)
        .saturating_add(partials(rows, length))
}

/// Normalizes rows of `length` elements (ONNX `LayerNormalization` and `RMSNormalization`).
///
/// With n elements and the order of the crate: mean = Σ x / n; variance = Σ (x − mean)² / n, squares accumulated by
/// fused multiply-adds; r = 1 / √(variance + ε), both rounded; y = fma((x − mean) · r, scale, bias), or
/// ((x − mean) · r) · scale without a bias. Without centring, mean is 0 and is not subtracted. f16 and bf16 are
/// computed in f32 and rounded once.
///
/// `mean` and `inverse_deviation`, if wanted, get one f32 a row. Element types: f32, f64, f16, bf16; scale and bias
/// have the type of the input. `workspace` is aligned to 8 bytes and has the length that [`layer_norm_workspace`]
/// gives.
///
/// # Errors
/// [`ReduceError::Shapes`], [`ReduceError::ElementType`] or [`ReduceError::Workspace`].
pub fn layer_norm(
    input: TensorView<'_>,
    norm: &LayerNorm<'_>,
    output: &mut TensorViewMut<'_>,
    mean: Option<&mut [f32]>,
    inverse_deviation: Option<&mut [f32]>,
    workspace: &mut [u8],
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
    let statistics = [mean, inverse_deviation];
    for_floats!(
        input.element_type(),
        "normalization",
        run(input, norm, output, statistics, workspace, execution)
    )
}

fn run<T: Numeric>(
    input: TensorView<'_>,
    norm: &LayerNorm<'_>,
    output: &mut TensorViewMut<'_>,
    statistics: [Option<&mut [f32]>; 2],
    workspace: &mut [u8],
    execution: &Execution<'_>,
) -> Result<(), ReduceError> {
    let length = norm.length;
    let source = input.as_slice::<T>()?;
    let scale = norm.scale.as_slice::<T>()?;
    let bias = norm.bias.map(|b| b.as_slice::<T>()).transpose()?;
    let target = output.as_slice_mut::<T>()?;
    let rows = source.len() / length;
    let weights = Weights {
        scale,
        bias,
        centre: norm.centre,
    };
    if execution.splits(rows, length) {
        return divided(
            source, target, norm, weights, statistics, workspace, execution,
        );
    }
    let [mean, deviation] = statistics.map(|s| s.map(DisjointSlice::new));
    let spec = execution.spec(rows, length, 250, "rows");
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
                    weights,
                    mean,
                    deviation,
                    length,
                    epsilon: norm.epsilon,
                },
            );
        })?;
    Ok(())
}

/// Few long rows: their blocks are divided among lanes, for the same bits.
fn divided<T: Numeric>(
    source: &[T],
    target: &mut [T],
    norm: &LayerNorm<'_>,
    weights: Weights<'_, T>,
    statistics: [Option<&mut [f32]>; 2],
    workspace: &mut [u8],
    execution: &Execution<'_>,
) -> Result<(), ReduceError> {
    let length = norm.length;
    let rows = source.len() / length;
    let all = scratch::<T::Real>(workspace, row_scratch(rows, length))?;
    let (mean, rest) = all.split_at_mut(rows);
    let (factor, partials) = rest.split_at_mut(rows);
    let layout = Layout::new(&[rows, length], &[false, true]);
    let pass = |shifts| Pass {
        source,
        layout: &layout,
        shifts,
        finish: Some(ReduceKind::Mean),
    };
    if norm.centre {
        pass(&[]).run::<Sum>(mean, partials, execution)?;
        pass(mean).run::<CentredSquareSum>(factor, partials, execution)?;
    } else {
        mean.fill(T::Real::ZERO);
        pass(&[]).run::<SquareSum>(factor, partials, execution)?;
    }
    let epsilon = T::Real::from_f32(norm.epsilon);
    for factor in factor.iter_mut() {
        *factor = T::Real::ONE.over(factor.plus(epsilon).root());
    }
    for (statistic, values) in statistics.into_iter().zip([&*mean, &*factor]) {
        for (slot, value) in statistic.into_iter().flatten().zip(values) {
            *slot = value.narrow();
        }
    }
    let (mean, factor) = (&*mean, &*factor);
    let segments = length.div_ceil(BLOCK);
    let spec = execution.spec(rows * segments, BLOCK, 150, "segments");
    let target = DisjointSlice::new(target);
    execution.lanes.region(&NORMALIZATION, spec, |chunk| {
        for unit in chunk.range {
            let (row, segment) = (unit / segments, unit % segments);
            let within = segment * BLOCK..length.min((segment + 1) * BLOCK);
            let elements = row * length + within.start..row * length + within.end;
            // SAFETY: each unit of the region is run once and owns its segment of a row.
            let target = unsafe { target.part(elements.clone()) };
            dispatch(
                execution.tier,
                Segment {
                    source: &source[elements],
                    target,
                    weights: weights.part(within),
                    mean: mean[row],
                    factor: factor[row],
                },
            );
        }
    })?;
    Ok(())
}

/// What becomes of normalized elements.
#[derive(Clone, Copy)]
struct Weights<'a, T> {
    scale: &'a [T],
    bias: Option<&'a [T]>,
    /// Whether there is a mean to subtract.
    centre: bool,
}

impl<T> Weights<'_, T> {
    /// Those of a part of a row.
    fn part(&self, range: Range<usize>) -> Self {
        let part = |values: &'_ [T]| -> Range<usize> {
            if values.len() == 1 {
                0..1
            } else {
                range.clone()
            }
        };
        Weights {
            scale: &self.scale[part(self.scale)],
            bias: self.bias.map(|bias| &bias[part(bias)]),
            centre: self.centre,
        }
    }
}

/// A part of a row whose statistics are known.
struct Segment<'a, T: Numeric> {
    source: &'a [T],
    target: &'a mut [T],
    weights: Weights<'a, T>,
    mean: T::Real,
    factor: T::Real,
}

impl<T: Numeric> SimdOp for Segment<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        normalize::<T, I>(
            isa,
            self.source,
            self.target,
            &self.weights,
            self.mean,
            self.factor,
        );
    }
}

struct Rows<'a, T> {
    source: &'a [T],
    target: &'a mut [T],
    weights: Weights<'a, T>,
    mean: Option<&'a mut [f32]>,
    deviation: Option<&'a mut [f32]>,
    length: usize,
    epsilon: f32,
}

impl<T: Numeric> SimdOp for Rows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(mut self, isa: I) {
        let length = self.length;
        let count = T::Real::from_count(length);
        let epsilon = T::Real::from_f32(self.epsilon);
        let group = together(length);
        let groups = self.source.chunks(group * length);
        for (index, (sources, targets)) in groups
            .zip(self.target.chunks_mut(group * length))
            .enumerate()
        {
            let rows = sources.chunks_exact(length);
            let mut means = [T::Real::ZERO; TOGETHER];
            let mut factors = [T::Real::ZERO; TOGETHER];
            if self.weights.centre {
                for (source, mean) in rows.clone().zip(&mut means) {
                    *mean = row::row::<T, Sum, I>(isa, source, T::Real::ZERO).over(count);
                }
                for ((source, &mean), factor) in rows.clone().zip(&means).zip(&mut factors) {
                    *factor = row::row::<T, CentredSquareSum, I>(isa, source, mean);
                }
            } else {
                for (source, factor) in rows.clone().zip(&mut factors) {
                    *factor = row::row::<T, SquareSum, I>(isa, source, T::Real::ZERO);
                }
            }
            for factor in &mut factors {
                *factor = T::Real::ONE.over(factor.over(count).plus(epsilon).root());
            }
            let first = index * group;
            let here = rows.len();
            for (statistic, values) in [(&mut self.mean, &means), (&mut self.deviation, &factors)] {
                if let Some(statistic) = statistic {
                    for (slot, value) in statistic[first..first + here].iter_mut().zip(values) {
                        *slot = value.narrow();
                    }
                }
            }
            let results = targets.chunks_exact_mut(length);
            for (((source, target), &mean), &factor) in rows.zip(results).zip(&means).zip(&factors)
            {
                normalize::<T, I>(isa, source, target, &self.weights, mean, factor);
            }
        }
    }
}

#[inline(always)]
fn normalize<T: Numeric, I: Isa>(
    isa: I,
    source: &[T],
    target: &mut [T],
    weights: &Weights<'_, T>,
    mean: T::Real,
    factor: T::Real,
) {
    let width = <T::Real as Real>::lanes::<I>();
    let mean = T::Real::splat(isa, mean);
    let factor = T::Real::splat(isa, factor);
    let length = source.len();
    let whole = length / width * width;
    let scale = weights.scale;
    match weights.bias {
        Some(bias) if weights.centre && scale.len() == length && bias.len() == length => {
            let weights = scale.chunks_exact(width).zip(bias.chunks_exact(width));
            let elements = source
                .chunks_exact(width)
                .zip(target.chunks_exact_mut(width));
            for ((source, target), (scale, bias)) in elements.zip(weights) {
                let d = T::Real::sub(isa, T::load(isa, source), mean);
                let x = T::Real::mul(isa, d, factor);
                let y = T::Real::fma(isa, x, T::load(isa, scale), T::load(isa, bias));
                T::store(isa, y, target);
            }
        }
        None if !weights.centre && scale.len() == length => {
            let elements = source
                .chunks_exact(width)
                .zip(target.chunks_exact_mut(width));
            for ((source, target), scale) in elements.zip(scale.chunks_exact(width)) {
                let x = T::Real::mul(isa, T::load(isa, source), factor);
                let y = T::Real::mul(isa, x, T::load(isa, scale));
                T::store(isa, y, target);
            }
        }
        _ => {
            for at in (0..whole).step_by(width) {
                let x = T::load(isa, &source[at..]);
                let y = weighted::<T, I>(isa, x, weights, at..at + width, mean, factor);
                T::store(isa, y, &mut target[at..]);
            }
        }
    }
    if whole < length {
        let x = T::load_partial(isa, &source[whole..], T::Real::ZERO);
        let y = weighted::<T, I>(isa, x, weights, whole..length, mean, factor);
        T::store_partial(isa, y, &mut target[whole..]);
    }
}

/// The results of the elements of a range.
#[inline(always)]
fn weighted<T: Numeric, I: Isa>(
    isa: I,
    x: <T::Real as Real>::V<I>,
    weights: &Weights<'_, T>,
    range: Range<usize>,
    mean: <T::Real as Real>::V<I>,
    factor: <T::Real as Real>::V<I>,
) -> <T::Real as Real>::V<I> {
    let x = if weights.centre {
        T::Real::sub(isa, x, mean)
    } else {
        x
    };
    let x = T::Real::mul(isa, x, factor);
    let scale = parameter::<T, I>(isa, weights.scale, range.clone());
    match weights.bias {
        Some(bias) => T::Real::fma(isa, x, scale, parameter::<T, I>(isa, bias, range)),
        None => T::Real::mul(isa, x, scale),
    }
}

#[inline(always)]
fn parameter<T: Numeric, I: Isa>(
    isa: I,
    values: &[T],
    range: Range<usize>,
) -> <T::Real as Real>::V<I> {
    match values {
        [one] => T::Real::splat(isa, one.widen()),
        values if range.len() == <T::Real as Real>::lanes::<I>() => T::load(isa, &values[range]),
        values => T::load_partial(isa, &values[range], T::Real::ZERO),
    }
}
