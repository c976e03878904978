//! Normalization by statistics of channels, groups of channels, or any axes: BatchNormalization, GroupNormalization,
//! InstanceNormalization, MeanVarianceNormalization, LpNormalization.
//!
//! Means and mean squared deviations are reductions in the order of the crate over the elements that they are taken of;
//! deviations are taken from the rounded mean. Everything is computed in f32 (f64 for f64), results are rounded once.

use crate::apply::{Affine, Parameter, Quotient, Standardize, apply, line};
use crate::layout::{Layout, Pattern};
use crate::operation::{AbsoluteSum, CentredSquareSum, SquareSum, Sum};
use crate::real::{Numeric, Real, for_floats};
use crate::reduce::{Pass, partials, real_size, scratch};
use crate::{CHANNELS, Execution, ReduceError, ReduceKind, row};
use onl_simd::{Isa, SimdOp, dispatch};
use onl_tensor::{ElementType, TensorView, TensorViewMut, bf16, f16};
use std::ops::Range;

/// Values of a parameter of any float type, as what is computed in.
fn widen_into<R: Real>(view: &TensorView<'_>, target: &mut [R]) -> Result<(), ReduceError> {
    fn copy<T: Numeric>(
        view: &TensorView<'_>,
        target: &mut [impl Real],
    ) -> Result<(), ReduceError> {
        for (slot, &x) in target.iter_mut().zip(view.as_slice::<T>()?) {
            *slot = Real::from_f64(x.widen().to_f64());
        }
        Ok(())
    }
    for_floats!(view.element_type(), "normalization", copy(view, target))
}

/// Rounds values into an output of any float type.
fn narrow_into<R: Real>(source: &[R], view: &mut TensorViewMut<'_>) -> Result<(), ReduceError> {
    fn copy<T: Numeric>(
        source: &[impl Real],
        view: &mut TensorViewMut<'_>,
    ) -> Result<(), ReduceError> {
        for (slot, &x) in view.as_slice_mut::<T>()?.iter_mut().zip(source) {
            *slot = T::round(T::Real::from_f64(x.to_f64()));
        }
        Ok(())
    }
    for_floats!(view.element_type(), "normalization", copy(source, view))
}

/// 1 / √(variance + ε), both rounded.
fn inverse_deviation<R: Real>(variance: R, epsilon: R) -> R {
    R::ONE.over(variance.plus(epsilon).root())
}

/// Means over the reduced axes, and mean squares of the deviations from them.
fn statistics<T: Numeric>(
    source: &[T],
    layout: &Layout,
    mean: &mut [T::Real],
    variance: &mut [T::Real],
    partials: &mut [T::Real],
    execution: &Execution<'_>,
) -> Result<(), ReduceError> {
    let pass = |shifts| Pass {
        source,
        layout,
        shifts,
        finish: Some(ReduceKind::Mean),
    };
    pass(&[]).run::<Sum>(mean, partials, execution)?;
    pass(mean).run::<CentredSquareSum>(variance, partials, execution)
}

/// Scratch memory cut into pieces.
struct Pieces<'a, R>(&'a mut [R]);

impl<'a, R: Real> Pieces<'a, R> {
    fn take(&mut self, length: usize) -> &'a mut [R] {
        let (piece, rest) = std::mem::take(&mut self.0).split_at_mut(length);
        self.0 = rest;
        piece
    }
}

/// Training of a [`BatchNorm`]: statistics are those of the batch.
#[derive(Debug, Clone, Copy)]
pub struct Training {
    /// Share of the given statistics in the running ones.
    pub momentum: f32,
}

/// Parameters of a batch normalization of `[batch, channels, inner]` elements.
#[derive(Debug, Clone, Copy)]
pub struct BatchNorm<'a> {
    /// Batch, channels, elements of a channel.
    pub shape: [usize; 3],
    /// Added to the variance.
    pub epsilon: f32,
    /// Factors, one per channel.
    pub scale: TensorView<'a>,
    /// Summands, one per channel.
    pub bias: TensorView<'a>,
    /// Means, one per channel.
    pub mean: TensorView<'a>,
    /// Variances, one per channel.
    pub variance: TensorView<'a>,
    /// Whether and how statistics are taken of the input.
    pub training: Option<Training>,
}

/// Scratch bytes that [`batch_norm`] needs.
pub fn batch_norm_workspace(
    element_type: ElementType,
    [batch, channels, inner]: [usize; 3],
    training: bool,
) -> usize {
    let partials = if training {
        partials(channels, batch.saturating_mul(inner))
    } else {
        0
    };
    let values = channels.saturating_mul(6).saturating_add(partials);
    values.saturating_mul(real_size(element_type))
}

/// Normalizes channels (ONNX `BatchNormalization`): with f = scale · (1 / √(variance + ε)),
/// y = fma(x − mean, f, bias).
///
/// In training, mean and variance are those of the input, and `running` gets given · momentum + taken · (1 − momentum)
/// of both. Element types: f32, f64, f16, bf16; each parameter and statistic may have another of them. `workspace` is
/// aligned to 8 bytes and has the length that [`batch_norm_workspace`] gives.
///
/// # Errors
/// [`ReduceError::Shapes`], [`ReduceError::ElementType`] or [`ReduceError::Workspace`].
pub fn batch_norm(
    input: TensorView<'_>,
    norm: &BatchNorm<'_>,
    output: &mut TensorViewMut<'_>,
    running: Option<[&mut TensorViewMut<'_>; 2]>,
    workspace: &mut [u8],
    execution: &Execution<'_>,
) -> Result<(), ReduceError> {
    let [batch, channels, inner] = norm.shape;
    let elements = batch * channels * inner;
    let parameters = [&norm.scale, &norm.bias, &norm.mean, &norm.variance];
    let fits = parameters.iter().all(|p| p.len() == channels)
        && running
            .iter()
            .flatten()
            .all(|statistic| statistic.len() == channels);
    if input.len() != elements || output.len() != elements || !fits {
        return Err(ReduceError::shapes(
            &[input.dims(), norm.scale.dims()],
            format!("one value of each parameter for each of {channels} channels is needed"),
        ));
    }
    for_floats!(
        input.element_type(),
        "BatchNormalization",
        by_channels(input, norm, output, running, workspace, execution)
    )
}

fn by_channels<T: Numeric>(
    input: TensorView<'_>,
    norm: &BatchNorm<'_>,
    output: &mut TensorViewMut<'_>,
    running: Option<[&mut TensorViewMut<'_>; 2]>,
    workspace: &mut [u8],
    execution: &Execution<'_>,
) -> Result<(), ReduceError> {
    let source = input.as_slice::<T>()?;
    let [batch, channels, inner] = norm.shape;
    let count = if norm.training.is_some() {
        partials(channels, batch * inner)
    } else {
        0
    };
    let mut pieces = Pieces(scratch::<T::Real>(workspace, channels * 6 + count)?);
    let [mean, variance, factor, bias] = std::array::from_fn(|_| pieces.take(channels));
    widen_into(&norm.scale, factor)?;
    widen_into(&norm.bias, bias)?;
    widen_into(&norm.mean, mean)?;
    widen_into(&norm.variance, variance)?;
    if let Some(training) = norm.training {
        let [taken_mean, taken_variance] = std::array::from_fn(|_| pieces.take(channels));
        if source.is_empty() {
            // Statistics of nothing.
            let nothing = T::Real::ZERO.over(T::Real::ZERO);
            taken_mean.fill(nothing);
            taken_variance.fill(nothing);
        } else {
            let layout = Layout::new(&norm.shape, &[true, false, true]);
            let partials = pieces.take(count);
            statistics(
                source,
                &layout,
                taken_mean,
                taken_variance,
                partials,
                execution,
            )?;
        }
        let old = T::Real::from_f32(training.momentum);
        let new = T::Real::from_f32(1.0 - training.momentum);
        for (given, taken) in [
            (&mut *mean, &*taken_mean),
            (&mut *variance, &*taken_variance),
        ] {
            for (given, &taken) in given.iter_mut().zip(taken) {
                *given = given.times(old).plus(taken.times(new));
            }
        }
        if let Some([running_mean, running_variance]) = running {
            narrow_into(mean, running_mean)?;
            narrow_into(variance, running_variance)?;
        }
        mean.copy_from_slice(taken_mean);
        variance.copy_from_slice(taken_variance);
    }
    if source.is_empty() {
        return Ok(());
    }
    let epsilon = T::Real::from_f32(norm.epsilon);
    for (factor, &variance) in factor.iter_mut().zip(&*variance) {
        *factor = factor.times(inverse_deviation(variance, epsilon));
    }
    apply::<T, Affine>(
        &CHANNELS,
        source,
        output.as_slice_mut::<T>()?,
        &Pattern::new(&norm.shape, &[true, false, true]),
        [mean, factor, bias],
        execution,
    )
}

/// Parameters of a normalization of groups of channels of `[batch, channels, inner]` elements.
#[derive(Debug, Clone, Copy)]
pub struct GroupNorm<'a> {
    /// Batch, channels, elements of a channel.
    pub shape: [usize; 3],
    /// Groups that the channels divide into; as many as channels for instance normalization.
    pub groups: usize,
    /// Added to the variance.
    pub epsilon: f32,
    /// Factors, one per channel or one per group.
    pub scale: TensorView<'a>,
    /// Summands, one per channel or one per group.
    pub bias: TensorView<'a>,
}

/// Scratch bytes that [`group_norm`] needs.
pub fn group_norm_workspace(
    element_type: ElementType,
    [batch, channels, inner]: [usize; 3],
    groups: usize,
) -> usize {
    let rows = batch.saturating_mul(groups);
    let length = channels
        .checked_div(groups)
        .unwrap_or(0)
        .saturating_mul(inner);
    let values = [
        channels.saturating_mul(2),
        rows.saturating_mul(2),
        batch.saturating_mul(channels).saturating_mul(3),
        partials(rows, length),
    ];
    let values = values.into_iter().fold(0, usize::saturating_add);
    values.saturating_mul(real_size(element_type))
}

/// Normalizes groups of channels of each element of the batch (ONNX `GroupNormalization`, `InstanceNormalization`):
/// with f = scale · (1 / √(variance + ε)), y = fma(x − mean, f, bias).
///
/// Element types: f32, f64, f16, bf16. `workspace` is aligned to 8 bytes and has the length that
/// [`group_norm_workspace`] gives.
///
/// # Errors
/// [`ReduceError::Shapes`], [`ReduceError::ElementType`] or [`ReduceError::Workspace`].
pub fn group_norm(
    input: TensorView<'_>,
    norm: &GroupNorm<'_>,
    output: &mut TensorViewMut<'_>,
    workspace: &mut [u8],
    execution: &Execution<'_>,
) -> Result<(), ReduceError> {
    let [batch, channels, inner] = norm.shape;
    let elements = batch * channels * inner;
    let fits = |count: usize| count == channels || count == norm.groups;
    if input.len() != elements
        || output.len() != elements
        || norm.groups == 0
        || !channels.is_multiple_of(norm.groups)
    {
        return Err(ReduceError::shapes(
            &[input.dims(), output.dims()],
            format!(
                "{} groups of {channels} channels were asked for",
                norm.groups
            ),
        ));
    }
    if !fits(norm.scale.len()) || norm.bias.len() != norm.scale.len() {
        return Err(ReduceError::shapes(
            &[input.dims(), norm.scale.dims(), norm.bias.dims()],
            format!("scale and bias must have one value for each of {channels} channels"),
        ));
    }
    if elements == 0 {
        return Ok(());
    }
    for_floats!(
        input.element_type(),
        "GroupNormalization",
        by_groups(input, norm, output, workspace, execution)
    )
}

fn by_groups<T: Numeric>(
    input: TensorView<'_>,
    norm: &GroupNorm<'_>,
    output: &mut TensorViewMut<'_>,
    workspace: &mut [u8],
    execution: &Execution<'_>,
) -> Result<(), ReduceError> {
    let source = input.as_slice::<T>()?;
    let target = output.as_slice_mut::<T>()?;
    let [batch, channels, inner] = norm.shape;
    let per_group = channels / norm.groups;
    let (rows, length) = (batch * norm.groups, per_group * inner);
    let count = partials(rows, length);
    let planes = batch * channels;
    let values = channels * 2 + rows * 2 + planes * 3 + count;
    let mut pieces = Pieces(scratch::<T::Real>(workspace, values)?);
    let [scale, bias] = std::array::from_fn(|_| pieces.take(channels));
    for (values, view) in [(&mut *scale, &norm.scale), (&mut *bias, &norm.bias)] {
        widen_into(view, &mut values[..view.len()])?;
        if view.len() < channels {
            for channel in (0..channels).rev() {
                values[channel] = values[channel / per_group];
            }
        }
    }
    let epsilon = T::Real::from_f32(norm.epsilon);
    if !execution.splits(rows, length) {
        let spec = execution.spec(rows, length, 250, "groups");
        execution
            .lanes
            .region_over(&CHANNELS, spec, target, length, |chunk, target| {
                let source = &source[chunk.range.start * length..chunk.range.end * length];
                dispatch(
                    execution.tier,
                    Groups {
                        source,
                        target,
                        range: chunk.range,
                        groups: norm.groups,
                        per_group,
                        inner,
                        scale,
                        bias,
                        epsilon,
                    },
                );
            })?;
        return Ok(());
    }
    let [mean, variance] = std::array::from_fn(|_| pieces.take(rows));
    let [means, factors, summands] = std::array::from_fn(|_| pieces.take(planes));
    let layout = Layout::new(&[rows, length], &[false, true]);
    statistics(
        source,
        &layout,
        mean,
        variance,
        pieces.take(count),
        execution,
    )?;
    for plane in 0..planes {
        let (row, channel) = (plane / per_group, plane % channels);
        means[plane] = mean[row];
        factors[plane] = scale[channel].times(inverse_deviation(variance[row], epsilon));
        summands[plane] = bias[channel];
    }
    apply::<T, Affine>(
        &CHANNELS,
        source,
        target,
        &Pattern::new(&[planes, inner], &[false, true]),
        [means, factors, summands],
        execution,
    )
}

/// Whole groups, one after the other.
struct Groups<'a, T: Numeric> {
    source: &'a [T],
    target: &'a mut [T],
    range: Range<usize>,
    groups: usize,
    per_group: usize,
    inner: usize,
    scale: &'a [T::Real],
    bias: &'a [T::Real],
    epsilon: T::Real,
}

impl<T: Numeric> SimdOp for Groups<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        let length = self.per_group * self.inner;
        let count = T::Real::from_count(length);
        let rows = self.source.chunks_exact(length);
        for (index, (source, target)) in rows.zip(self.target.chunks_exact_mut(length)).enumerate()
        {
            let mean = row::row::<T, Sum, I>(isa, source, T::Real::ZERO).over(count);
            let squares = row::row::<T, CentredSquareSum, I>(isa, source, mean);
            let inverse = inverse_deviation(squares.over(count), self.epsilon);
            let first = (self.range.start + index) % self.groups * self.per_group;
            let planes = source.chunks_exact(self.inner);
            for (plane, (source, target)) in
                planes.zip(target.chunks_exact_mut(self.inner)).enumerate()
            {
                let channel = first + plane;
                let parameters = [
                    Parameter::One(mean),
                    Parameter::One(self.scale[channel].times(inverse)),
                    Parameter::One(self.bias[channel]),
                ];
                line::<T, Affine, I>(isa, source, target, &parameters);
            }
        }
    }
}

/// Over which axes elements are set to mean 0 and deviation 1.
#[derive(Debug, Clone, Copy)]
pub struct Standardization<'a> {
    /// One flag per axis: whether statistics are taken over it.
    pub axes: &'a [bool],
    /// Added to the deviation.
    pub epsilon: f32,
}

/// Kept places and elements of each, from flags of axes.
fn extent(dims: &[usize], axes: &[bool]) -> (usize, usize) {
    let product = |flag: bool| {
        dims.iter()
            .zip(axes)
            .filter(|(_, a)| **a == flag)
            .map(|(d, _)| *d)
            .fold(1, usize::saturating_mul)
    };
    (product(false), product(true))
}

/// Scratch bytes that [`standardize`] needs, with one flag per axis.
pub fn standardize_workspace(element_type: ElementType, dims: &[usize], axes: &[bool]) -> usize {
    let (rows, count) = extent(dims, axes);
    let values = rows.saturating_mul(2).saturating_add(partials(rows, count));
    values.saturating_mul(real_size(element_type))
}

/// (x − mean) · (1 / (√variance + ε)), with the statistics of the flagged axes (ONNX `MeanVarianceNormalization`).
///
/// Element types: f32, f64, f16, bf16. `workspace` is aligned to 8 bytes and has the length that
/// [`standardize_workspace`] gives.
///
/// # Errors
/// [`ReduceError::Shapes`], [`ReduceError::ElementType`] or [`ReduceError::Workspace`].
pub fn standardize(
    input: TensorView<'_>,
    how: &Standardization<'_>,
    output: &mut TensorViewMut<'_>,
    workspace: &mut [u8],
    execution: &Execution<'_>,
) -> Result<(), ReduceError> {
    check_axes(&input, how.axes, output)?;
    if input.is_empty() {
        return Ok(());
    }
    for_floats!(
        input.element_type(),
        "MeanVarianceNormalization",
        by_deviation(input, how, output, workspace, execution)
    )
}

fn check_axes(
    input: &TensorView<'_>,
    axes: &[bool],
    output: &TensorViewMut<'_>,
) -> Result<(), ReduceError> {
    if axes.len() == input.rank() && output.len() == input.len() {
        return Ok(());
    }
    Err(ReduceError::shapes(
        &[input.dims(), output.dims()],
        format!("{} axis flags were given", axes.len()),
    ))
}

fn by_deviation<T: Numeric>(
    input: TensorView<'_>,
    how: &Standardization<'_>,
    output: &mut TensorViewMut<'_>,
    workspace: &mut [u8],
    execution: &Execution<'_>,
) -> Result<(), ReduceError> {
    let source = input.as_slice::<T>()?;
    let (rows, count) = extent(input.dims(), how.axes);
    let count = partials(rows, count);
    let mut pieces = Pieces(scratch::<T::Real>(workspace, rows * 2 + count)?);
    let [mean, factor] = std::array::from_fn(|_| pieces.take(rows));
    let layout = Layout::new(input.dims(), how.axes);
    let partials = pieces.take(count);
    statistics(source, &layout, mean, factor, partials, execution)?;
    let epsilon = T::Real::from_f32(how.epsilon);
    for factor in factor.iter_mut() {
        *factor = T::Real::ONE.over(factor.root().plus(epsilon));
    }
    apply::<T, Standardize>(
        &CHANNELS,
        source,
        output.as_slice_mut::<T>()?,
        &Pattern::new(input.dims(), how.axes),
        [mean, factor, &[]],
        execution,
    )
}

/// Scratch bytes that [`lp_normalize`] needs.
pub fn lp_normalize_workspace(
    element_type: ElementType,
    [outer, length, inner]: [usize; 3],
) -> usize {
    let rows = outer.saturating_mul(inner);
    let values = rows.saturating_add(partials(rows, length));
    values.saturating_mul(real_size(element_type))
}

/// Divides each of `outer · inner` rows by its norm, Σ|x| or √Σx² (ONNX `LpNormalization`); rows of norm 0 give 0.
/// Element `k` of row `(o, i)` is `input[(o · length + k) · inner + i]`.
///
/// Element types: f32, f64, f16, bf16. `workspace` is aligned to 8 bytes and has the length that
/// [`lp_normalize_workspace`] gives.
///
/// # Errors
/// [`ReduceError::Shapes`], [`ReduceError::ElementType`] or [`ReduceError::Workspace`].
pub fn lp_normalize(
    input: TensorView<'_>,
    shape: [usize; 3],
    euclidean: bool,
    output: &mut TensorViewMut<'_>,
    workspace: &mut [u8],
    execution: &Execution<'_>,
) -> Result<(), ReduceError> {
    let [outer, length, inner] = shape;
    if input.len() != outer * length * inner || output.len() != input.len() {
        return Err(ReduceError::shapes(
            &[input.dims(), output.dims()],
            format!("{outer} x {inner} rows of {length} elements were asked for"),
        ));
    }
    if input.is_empty() {
        return Ok(());
    }
    for_floats!(
        input.element_type(),
        "LpNormalization",
        by_norm(input, shape, euclidean, output, workspace, execution)
    )
}

fn by_norm<T: Numeric>(
    input: TensorView<'_>,
    shape: [usize; 3],
    euclidean: bool,
    output: &mut TensorViewMut<'_>,
    workspace: &mut [u8],
    execution: &Execution<'_>,
) -> Result<(), ReduceError> {
    let source = input.as_slice::<T>()?;
    let [outer, length, inner] = shape;
    let rows = outer * inner;
    let all = scratch::<T::Real>(workspace, rows + partials(rows, length))?;
    let (norms, partials) = all.split_at_mut(rows);
    let axes = [false, true, false];
    let layout = Layout::new(&shape, &axes);
    let pass = |finish| Pass {
        source,
        layout: &layout,
        shifts: &[],
        finish: Some(finish),
    };
    if euclidean {
        pass(ReduceKind::L2).run::<SquareSum>(norms, partials, execution)?;
    } else {
        pass(ReduceKind::L1).run::<AbsoluteSum>(norms, partials, execution)?;
    }
    apply::<T, Quotient>(
        &CHANNELS,
        source,
        output.as_slice_mut::<T>()?,
        &Pattern::new(&shape, &axes),
        [norms, &[], &[]],
        execution,
    )
}
