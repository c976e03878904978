//! Indices of gathers and scatters. An index that is out of range is found by whichever lane meets it; the one with
//! the smallest position is reported.

use crate::MovementError;
use onl_tensor::TensorView;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Indices of 32 or 64 bits.
#[derive(Clone, Copy)]
pub(crate) enum Indices<'a> {
    Short(&'a [i32]),
    Long(&'a [i64]),
}

impl<'a> Indices<'a> {
    pub(crate) fn of(view: &TensorView<'a>) -> Result<Self, MovementError> {
        match view.as_slice::<i32>() {
            Ok(values) => Ok(Indices::Short(values)),
            Err(_) => Ok(Indices::Long(view.as_slice::<i64>()?)),
        }
    }

    pub(crate) fn at(&self, position: usize) -> i64 {
        match self {
            Indices::Short(values) => i64::from(values[position]),
            Indices::Long(values) => values[position],
        }
    }
}

/// Runs an expression with `$values` bound to the slice of indices.
macro_rules! by_index {
    ($indices:expr, $values:ident => $body:expr) => {
        match $indices {
            $crate::indices::Indices::Short($values) => $body,
            $crate::indices::Indices::Long($values) => $body,
        }
    };
}
pub(crate) use by_index;

/// An integer type of indices.
pub(crate) trait Index: Copy + Send + Sync + 'static {
    fn wide(self) -> i64;

    /// The index resolved against an axis: negative ones count from the end.
    #[inline(always)]
    fn resolve(self, size: usize) -> Option<usize> {
        let index = self.wide();
        let from_start = if index < 0 { size as u64 } else { 0 };
        // Out of range on either side is a large number here.
        let resolved = (index as u64).wrapping_add(from_start);
        (resolved < size as u64).then_some(resolved as usize)
    }
}

impl Index for i32 {
    #[inline(always)]
    fn wide(self) -> i64 {
        i64::from(self)
    }
}

impl Index for i64 {
    #[inline(always)]
    fn wide(self) -> i64 {
        self
    }
}

/// Smallest position of an index that was out of range.
pub(crate) struct FirstBad(AtomicUsize);

impl FirstBad {
    pub(crate) fn new() -> Self {
        FirstBad(AtomicUsize::new(usize::MAX))
    }

    #[cold]
    pub(crate) fn report(&self, position: usize) {
        self.0.fetch_min(position, Ordering::Relaxed);
    }

    /// The error, with the axis of a position and its size.
    pub(crate) fn check(
        &self,
        indices: &Indices<'_>,
        axis_size: impl Fn(usize) -> (usize, usize),
    ) -> Result<(), MovementError> {
        match self.0.load(Ordering::Relaxed) {
            usize::MAX => Ok(()),
            position => {
                let (axis, size) = axis_size(position);
                Err(MovementError::IndexOutOfRange {
                    index: indices.at(position),
                    position,
                    axis,
                    size,
                })
            }
        }
    }
}

/// Index tuples that select within the axes `dims[batch_dims..]`, as `GatherND` and `ScatterND` have them.
pub(crate) struct Tuples<'a> {
    /// Number of tuples.
    pub count: usize,
    /// Indices per tuple.
    pub depth: usize,
    /// Elements of the slice that a tuple selects.
    pub inner: usize,
    dims: &'a [usize],
    batch_dims: usize,
    per_batch: usize,
    batch_step: usize,
    /// Sizes and steps of the axes that a tuple selects within.
    axes: SmallVec<[(usize, usize); 4]>,
}

impl<'a> Tuples<'a> {
    /// Tuples in the last axis of `shape`; both shapes begin with `batch_dims` equal axes.
    pub(crate) fn new(
        dims: &'a [usize],
        shape: &[usize],
        batch_dims: usize,
    ) -> Result<Self, MovementError> {
        let depth = shape.last().copied().unwrap_or(0);
        let fits = !shape.is_empty()
            && batch_dims < shape.len()
            && batch_dims
                .checked_add(depth)
                .is_some_and(|fixed| fixed <= dims.len())
            && dims[..batch_dims] == shape[..batch_dims];
        if !fits {
            return Err(MovementError::shapes(
                &[dims, shape],
                format!("tuples of {depth} indices do not fit after {batch_dims} batch axes"),
            ));
        }
        let count: usize = shape[..shape.len() - 1].iter().product();
        let batches: usize = dims[..batch_dims].iter().product();
        Ok(Tuples {
            count,
            depth,
            inner: dims[batch_dims + depth..].iter().product(),
            dims,
            batch_dims,
            per_batch: (count / batches.max(1)).max(1),
            batch_step: dims[batch_dims..].iter().product(),
            axes: dims
                .iter()
                .copied()
                .zip(onl_tensor::row_major_strides(dims))
                .skip(batch_dims)
                .take(depth)
                .collect(),
        })
    }

    /// First elements of the slices that these indices select.
    #[inline(always)]
    pub(crate) fn starts<'t, I: Index>(
        &'t self,
        indices: &'t [I],
        bad: &'t FirstBad,
    ) -> Starts<'t, I> {
        Starts {
            indices,
            axes: &self.axes,
            batches: (self.batch_dims > 0).then_some((self.per_batch, self.batch_step)),
            bad,
        }
    }

    /// Axis and its size that the index at a position is for.
    pub(crate) fn axis_size(&self, position: usize) -> (usize, usize) {
        let axis = self.batch_dims + position % self.depth.max(1);
        (axis, self.dims[axis])
    }
}

/// Where the slices of [`Tuples`] begin, at hand for a loop over them.
pub(crate) struct Starts<'a, I> {
    indices: &'a [I],
    /// Sizes and steps of the axes that a tuple selects within.
    axes: &'a [(usize, usize)],
    /// Tuples of a batch and elements from one to the next.
    batches: Option<(usize, usize)>,
    bad: &'a FirstBad,
}

impl<I: Index> Starts<'_, I> {
    /// First element of a tuple's slice; reports the first index that is out of range.
    #[inline(always)]
    pub(crate) fn of(&self, tuple: usize) -> Option<usize> {
        let mut start = match self.batches {
            None => 0,
            Some((per_batch, step)) => tuple / per_batch * step,
        };
        let first = tuple * self.axes.len();
        let indices = &self.indices[first..first + self.axes.len()];
        for (k, (index, &(size, step))) in indices.iter().zip(self.axes).enumerate() {
            match index.resolve(size) {
                Some(index) => start += index * step,
                None => {
                    self.bad.report(first + k);
                    return None;
                }
            }
        }
        Some(start)
    }
}
