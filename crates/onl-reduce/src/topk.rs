//! The k largest or smallest elements of rows.

use crate::order::{Float, Key, Order, Ordered, for_ordered, stored, stored_mut};
use crate::{Execution, ReduceError, TOP_K};
use bytemuck::Pod;
use onl_executor::DisjointSlice;
use onl_simd::{Isa, SimdOp, dispatch};
use onl_tensor::{ElementType, TensorView, TensorViewMut};
use std::ops::Range;

/// Fewest elements of a segment: longer rows are searched in segments, whose candidates are then compared.
const SEGMENT: usize = 1 << 15;
/// Candidates that are collected beyond the k best before the worst of them are dropped.
const SPARE: usize = 64;
/// Elements that are compared with the worst candidate at once.
const STRIP: usize = 32;
/// Most candidates that are kept in order while a row is searched, so that the worst of them is always known.
const SORTED: usize = 32;

/// Which elements of which rows: those of `outer · inner` rows, where element `n` of row `(o, i)` is
/// `input[(o · length + n) · inner + i]`.
#[derive(Debug, Clone, Copy)]
pub struct TopK {
    /// Outer rows, elements of a row, and their distance.
    pub shape: [usize; 3],
    /// How many elements of each row are wanted; at most its length.
    pub k: usize,
    /// The largest ones, or the smallest.
    pub largest: bool,
}

impl TopK {
    fn rows(&self) -> usize {
        self.shape[0].saturating_mul(self.shape[2])
    }

    fn segments(&self) -> usize {
        (self.shape[1] / SEGMENT.max(self.k.saturating_mul(4))).max(1)
    }

    /// Candidates that a lane holds while it looks through a segment.
    fn capacity(&self) -> usize {
        let longest = self.shape[1].div_ceil(self.segments());
        longest.min(self.k.saturating_mul(2).saturating_add(SPARE))
    }

    /// Candidates that segments leave for each other.
    fn partials(&self) -> usize {
        match self.segments() {
            1 => 0,
            segments => self.rows().saturating_mul(segments).saturating_mul(self.k),
        }
    }
}

/// Scratch bytes that [`top_k`] needs with this many lanes; without `k`, enough for every k.
pub fn top_k_workspace(
    element_type: ElementType,
    shape: [usize; 3],
    k: Option<usize>,
    lanes: usize,
) -> usize {
    let size = match element_type {
        ElementType::Float64 | ElementType::Int64 | ElementType::UInt64 => size_of::<u128>(),
        _ => size_of::<u64>(),
    };
    let top = TopK {
        shape,
        k: k.unwrap_or(0),
        largest: true,
    };
    let (candidates, partials) = match k {
        Some(_) => (top.capacity(), top.partials()),
        // Segments are four times as long as what each leaves.
        None => (shape[1], top.rows().saturating_mul(shape[1] / 4)),
    };
    candidates
        .saturating_mul(lanes)
        .saturating_add(partials)
        .saturating_mul(size)
}

/// An element and its place in one integer: the better the element, the higher; among equals, the earlier.
trait Ranked: Ordered {
    type Rank: Copy + Ord + Pod + Send + Sync;

    fn rank(key: Self::Key, place: usize) -> Self::Rank;
    fn place(rank: Self::Rank) -> usize;
}

macro_rules! ranked {
    ($($t:ty: $rank:ty, $unsigned:ty;)*) => {$(
        impl Ranked for $t {
            type Rank = $rank;

            #[inline(always)]
            fn rank(key: Self::Key, place: usize) -> $rank {
                let shifted = (key as $unsigned) ^ (<Self::Key as Key>::LOWEST as $unsigned);
                <$rank>::from(shifted) << 32 | <$rank>::from(!(place as u32))
            }

            #[inline(always)]
            fn place(rank: $rank) -> usize {
                !(rank as u32) as usize
            }
        }
    )*};
}
ranked! {
    i8: u64, u8; i16: u64, u16; i32: u64, u32; i64: u128, u64;
    Float<i16>: u64, u16; Float<i32>: u64, u32; Float<i64>: u128, u64;
}

/// The k largest or smallest elements of each row with their places, best first, of equal elements the earlier first
/// (ONNX `TopK`). −0 equals 0. A NaN counts as larger than every number, as in numpy: it comes first among the largest
/// and last among the smallest.
///
/// `values` has the element type of the input and `places` is i64, both `[outer, k, inner]`. Element types: floats and
/// integers of 8 to 64 bits. `workspace` is aligned to 16 bytes and has the length that [`top_k_workspace`] gives.
///
/// # Errors
/// [`ReduceError::Shapes`], [`ReduceError::ElementType`] or [`ReduceError::Workspace`].
pub fn top_k(
    input: TensorView<'_>,
    top: &TopK,
    values: &mut TensorViewMut<'_>,
    places: &mut TensorViewMut<'_>,
    workspace: &mut [u8],
    execution: &Execution<'_>,
) -> Result<(), ReduceError> {
    let [outer, length, inner] = top.shape;
    let outputs = top.rows().saturating_mul(top.k);
    let fits = input.len() == outer * length * inner && values.len() == outputs;
    if !fits || places.len() != outputs || top.k > length || u32::try_from(length).is_err() {
        return Err(ReduceError::shapes(
            &[input.dims(), values.dims(), places.dims()],
            format!(
                "the best {} of {outer} x {inner} rows of {length} elements were asked for",
                top.k
            ),
        ));
    }
    if outputs == 0 {
        return Ok(());
    }
    for_ordered!(
        input.element_type(),
        "TopK",
        run(input, top, values, places, workspace, execution)
    )
}

fn run<T: Ranked>(
    input: TensorView<'_>,
    top: &TopK,
    values: &mut TensorViewMut<'_>,
    places: &mut TensorViewMut<'_>,
    workspace: &mut [u8],
    execution: &Execution<'_>,
) -> Result<(), ReduceError> {
    let source: &[T] = stored(&input);
    let capacity = top.capacity();
    let lanes = execution.lanes.count();
    let needed = (capacity * lanes + top.partials()) * size_of::<T::Rank>();
    let given = workspace.len();
    let bytes = workspace
        .get_mut(..needed)
        .ok_or(ReduceError::Workspace { needed, given })?;
    let ranks: &mut [T::Rank] = bytemuck::try_cast_slice_mut(bytes)
        .map_err(|_| ReduceError::Workspace { needed, given })?;
    let (candidates, partials) = ranks.split_at_mut(capacity * lanes);
    let candidates = DisjointSlice::new(candidates);
    let search = Search {
        source,
        top,
        order: Order::new(input.element_type(), top.largest, top.largest),
    };
    let result = Outputs {
        values: DisjointSlice::new(stored_mut(values)),
        places: DisjointSlice::new(places.as_slice_mut::<i64>()?),
    };
    let (rows, length, segments) = (top.rows(), top.shape[1], top.segments());
    if segments == 1 {
        let spec = execution.spec(rows, length, 1000, "rows");
        execution.lanes.region(&TOP_K, spec, |chunk| {
            let lane = chunk.lane * capacity..(chunk.lane + 1) * capacity;
            // SAFETY: a lane runs one chunk at a time, and each lane has candidates of its own.
            let candidates = unsafe { candidates.part(lane) };
            for row in chunk.range {
                let segment = search.segment(row, 0..length);
                let kept = search.best(execution, segment, candidates);
                search.write(row, kept, &result);
            }
        })?;
        return Ok(());
    }
    let spec = execution.spec(rows * segments, length / segments, 500, "segments");
    execution
        .lanes
        .region_over(&TOP_K, spec, partials, top.k, |chunk, partials| {
            let lane = chunk.lane * capacity..(chunk.lane + 1) * capacity;
            // SAFETY: a lane runs one chunk at a time, and each lane has candidates of its own.
            let candidates = unsafe { candidates.part(lane) };
            for (unit, partial) in chunk.range.zip(partials.chunks_exact_mut(top.k)) {
                let (row, segment) = (unit / segments, unit % segments);
                let part = segment * length / segments..(segment + 1) * length / segments;
                let segment = search.segment(row, part);
                partial.copy_from_slice(search.best(execution, segment, candidates));
            }
        })?;
    let spec = execution.spec(rows, segments * top.k, 2000, "merge");
    execution.lanes.region_over(
        &TOP_K,
        spec,
        partials,
        segments * top.k,
        |chunk, partials| {
            let rows = partials.chunks_exact_mut(segments * top.k);
            for (row, ranks) in chunk.range.zip(rows) {
                let count = ranks.len();
                search.write(row, keep(ranks, count, top.k), &result);
            }
        },
    )?;
    Ok(())
}

/// The best `k` of the first `count` ranks, best first.
fn keep<R: Copy + Ord>(ranks: &mut [R], count: usize, k: usize) -> &[R] {
    if count > k {
        ranks[..count].select_nth_unstable_by(k - 1, |a, b| b.cmp(a));
    }
    ranks[..k].sort_unstable_by(|a, b| b.cmp(a));
    &ranks[..k]
}

struct Outputs<'a, T> {
    values: DisjointSlice<'a, T>,
    places: DisjointSlice<'a, i64>,
}

struct Search<'a, T: Ranked> {
    source: &'a [T],
    top: &'a TopK,
    order: Order<T::Key>,
}

impl<T: Ranked> Search<'_, T> {
    /// A part of a row.
    fn segment(&self, row: usize, range: Range<usize>) -> Segment<'_, T> {
        let [_, length, inner] = self.top.shape;
        let (o, i) = (row / inner, row % inner);
        Segment {
            source: &self.source[o * length * inner + i..],
            step: inner,
            range,
            order: self.order,
            k: self.top.k,
        }
    }

    /// The best k elements of a segment, best first.
    fn best<'c>(
        &self,
        execution: &Execution<'_>,
        segment: Segment<'_, T>,
        candidates: &'c mut [T::Rank],
    ) -> &'c [T::Rank] {
        let k = segment.k;
        let count = dispatch(
            execution.tier,
            Collect {
                segment,
                candidates: &mut *candidates,
            },
        );
        keep(candidates, count, k)
    }

    fn write(&self, row: usize, ranks: &[T::Rank], outputs: &Outputs<'_, T>) {
        let [_, length, inner] = self.top.shape;
        let (o, i) = (row / inner, row % inner);
        for (j, &rank) in ranks.iter().enumerate() {
            let place = T::place(rank);
            let at = (o * self.top.k + j) * inner + i;
            // SAFETY: each row is written once, and rows are disjoint.
            let (value, index) = unsafe {
                (
                    outputs.values.part(at..at + 1),
                    outputs.places.part(at..at + 1),
                )
            };
            value[0] = self.source[(o * length + place) * inner + i];
            index[0] = place as i64;
        }
    }
}

struct Segment<'a, T: Ranked> {
    /// From the row's first element on.
    source: &'a [T],
    step: usize,
    range: Range<usize>,
    order: Order<T::Key>,
    k: usize,
}

/// Collects candidates, among them the best k, and says how many there are.
struct Collect<'a, T: Ranked> {
    segment: Segment<'a, T>,
    candidates: &'a mut [T::Rank],
}

impl<T: Ranked> SimdOp for Collect<'_, T> {
    type Output = usize;

    #[inline(always)]
    fn eval<I: Isa>(self, _: I) -> usize {
        let Segment {
            source,
            step,
            range,
            order,
            k,
        } = self.segment;
        let candidates = self.candidates;
        let mut count = 0;
        // Key of the worst of the best k so far: an element has to be above it, since it comes later.
        let mut worst: Option<T::Key> = None;
        let mut place = range.start;
        while place < range.end {
            let end = range.end.min(place + STRIP);
            if let Some(worst) = worst
                && step == 1
            {
                let mut any = false;
                for &x in &source[place..end] {
                    any |= x.key(order) > worst;
                }
                if !any {
                    place = end;
                    continue;
                }
            }
            for at in place..end {
                let key = source[at * step].key(order);
                if worst.is_some_and(|worst| key <= worst) {
                    continue;
                }
                let rank = T::rank(key, at);
                if k <= SORTED {
                    // The last of k candidates makes room.
                    let mut slot = if count == k { k - 1 } else { count };
                    count = slot + 1;
                    while slot > 0 && candidates[slot - 1] < rank {
                        candidates[slot] = candidates[slot - 1];
                        slot -= 1;
                    }
                    candidates[slot] = rank;
                    if count == k {
                        worst = Some(source[T::place(candidates[k - 1]) * step].key(order));
                    }
                    continue;
                }
                if count == candidates.len() {
                    candidates.select_nth_unstable_by(k - 1, |a, b| b.cmp(a));
                    count = k;
                    let bound = source[T::place(candidates[k - 1]) * step].key(order);
                    worst = Some(bound);
                    if key <= bound {
                        continue;
                    }
                }
                candidates[count] = rank;
                count += 1;
            }
            place = end;
        }
        count
    }
}
