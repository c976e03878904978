//! Places of extreme elements: ArgMax, ArgMin, Hardmax.

use crate::order::{Key, Order, Ordered, for_ordered, stored};
use crate::{BLOCK, Execution, ReduceError, SELECTION};
use onl_executor::DisjointSlice;
use onl_simd::{Isa, SimdOp, dispatch};
use onl_tensor::{Element, ElementType, TensorView, TensorViewMut, bf16, f16};
use std::ops::Range;

/// Columns that one unit of work looks through side by side.
const PANEL: usize = 128;
/// Elements of a row whose largest key is found at once.
const STRIP: usize = 256;

/// Scratch bytes that [`arg_extreme`] needs for `outer · inner` rows of `length` elements.
pub fn arg_workspace([outer, length, inner]: [usize; 3]) -> usize {
    partials(outer.saturating_mul(inner), length).saturating_mul(size_of::<i64>())
}

/// Scratch bytes that [`hardmax`] needs.
pub fn hardmax_workspace(shape @ [outer, _, inner]: [usize; 3]) -> usize {
    let places = outer.saturating_mul(inner).saturating_mul(size_of::<i64>());
    arg_workspace(shape).saturating_add(places)
}

/// One place per block when rows have several.
fn partials(outputs: usize, length: usize) -> usize {
    let blocks = length.div_ceil(BLOCK);
    if blocks > 1 {
        outputs.saturating_mul(blocks)
    } else {
        0
    }
}

/// Place of the largest element (or the smallest) of each of `outer · inner` rows: element `k` of row `(o, i)` is
/// `input[(o · length + k) · inner + i]` (ONNX `ArgMax` and `ArgMin`). Of equal elements the first, or the last, is
/// taken; −0 equals 0, and a NaN comes before every number, as in numpy.
///
/// The output has i64 elements, one per row. Element types of the input: floats and integers of 8 to 64 bits.
/// `workspace` is aligned to 8 bytes and has the length that [`arg_workspace`] gives.
///
/// # Errors
/// [`ReduceError::Shapes`] (rows without elements have no largest one), [`ReduceError::ElementType`] or
/// [`ReduceError::Workspace`].
pub fn arg_extreme(
    input: TensorView<'_>,
    shape: [usize; 3],
    largest: bool,
    last: bool,
    output: &mut TensorViewMut<'_>,
    workspace: &mut [u8],
    execution: &Execution<'_>,
) -> Result<(), ReduceError> {
    let [outer, length, inner] = shape;
    check(&input, shape, output.dims(), output.len(), outer * inner)?;
    if output.is_empty() {
        return Ok(());
    }
    if length == 0 {
        return Err(ReduceError::shapes(
            &[input.dims()],
            "an axis of size 0 has no largest or smallest element",
        ));
    }
    let target = output.as_slice_mut::<i64>()?;
    let partials = integers(workspace, partials(outer * inner, length))?;
    let choice = Choice {
        shape,
        largest,
        last,
    };
    for_ordered!(
        input.element_type(),
        "selection",
        places(input, choice, target, partials, execution)
    )
}

fn check(
    input: &TensorView<'_>,
    [outer, length, inner]: [usize; 3],
    output_dims: &[usize],
    output_len: usize,
    expected: usize,
) -> Result<(), ReduceError> {
    if input.len() == outer * length * inner && output_len == expected {
        return Ok(());
    }
    Err(ReduceError::shapes(
        &[input.dims(), output_dims],
        format!("{outer} x {inner} rows of {length} elements were asked for"),
    ))
}

/// Scratch memory as indices.
fn integers(workspace: &mut [u8], length: usize) -> Result<&mut [i64], ReduceError> {
    if length == 0 {
        return Ok(&mut []);
    }
    let needed = length.saturating_mul(size_of::<i64>());
    let given = workspace.len();
    let bytes = workspace
        .get_mut(..needed)
        .ok_or(ReduceError::Workspace { needed, given })?;
    bytemuck::try_cast_slice_mut(bytes).map_err(|_| ReduceError::Workspace { needed, given })
}

/// What is looked for.
#[derive(Clone, Copy)]
struct Choice {
    shape: [usize; 3],
    largest: bool,
    last: bool,
}

fn places<T: Ordered>(
    input: TensorView<'_>,
    choice: Choice,
    target: &mut [i64],
    partials: &mut [i64],
    execution: &Execution<'_>,
) -> Result<(), ReduceError> {
    let source: &[T] = stored(&input);
    let [outer, length, inner] = choice.shape;
    let order = Order::new(input.element_type(), choice.largest, true);
    let blocks = length.div_ceil(BLOCK);
    let found = if blocks > 1 {
        &mut *partials
    } else {
        &mut *target
    };
    let search = Search {
        source,
        order,
        last: choice.last,
        shape: choice.shape,
        blocks,
    };
    if inner == 1 {
        let spec = execution.spec(outer * blocks, length.min(BLOCK), 60, "rows");
        execution
            .lanes
            .region_over(&SELECTION, spec, found, 1, |chunk, found| {
                let range = chunk.range;
                dispatch(
                    execution.tier,
                    RowUnits {
                        search: &search,
                        range,
                        found,
                    },
                );
            })?;
    } else {
        let panels = inner.div_ceil(PANEL);
        let per_unit = length.min(BLOCK) * inner.min(PANEL);
        let spec = execution.spec(outer * blocks * panels, per_unit, 100, "columns");
        let found = DisjointSlice::new(found);
        execution.lanes.region(&SELECTION, spec, |chunk| {
            let range = chunk.range;
            dispatch(
                execution.tier,
                ColumnUnits {
                    search: &search,
                    range,
                    found: &found,
                },
            );
        })?;
    }
    if blocks > 1 {
        search.merge(partials, target);
    }
    Ok(())
}

struct Search<'a, T: Ordered> {
    source: &'a [T],
    order: Order<T::Key>,
    last: bool,
    shape: [usize; 3],
    blocks: usize,
}

impl<T: Ordered> Search<'_, T> {
    /// Whether a later element takes the place of an earlier one.
    #[inline(always)]
    fn replaces(&self, later: T::Key, earlier: T::Key) -> bool {
        later > earlier || self.last && later == earlier
    }

    /// The places of the rows from those of their blocks, which lie as `[outer][block][inner]`.
    fn merge(&self, partials: &[i64], target: &mut [i64]) {
        let [_, length, inner] = self.shape;
        for (output, place) in target.iter_mut().enumerate() {
            let (o, i) = (output / inner, output % inner);
            let key = |place: i64| {
                let element = (o * length + place as usize) * inner + i;
                self.source[element].key(self.order)
            };
            let mut places = (0..self.blocks).map(|b| partials[(o * self.blocks + b) * inner + i]);
            let mut best = places.next().unwrap_or(0);
            for other in places {
                if self.replaces(key(other), key(best)) {
                    best = other;
                }
            }
            *place = best;
        }
    }

    /// Place within contiguous elements, of which there is at least one.
    #[inline(always)]
    fn within(&self, elements: &[T]) -> usize {
        let mut best = T::Key::LOWEST;
        let mut strip = 0;
        for (index, part) in elements.chunks(STRIP).enumerate() {
            let mut highest = T::Key::LOWEST;
            for &x in part {
                highest = highest.max(x.key(self.order));
            }
            if self.replaces(highest, best) {
                best = highest;
                strip = index;
            }
        }
        let start = strip * STRIP;
        let part = &elements[start..elements.len().min(start + STRIP)];
        let mut place = 0;
        for (index, few) in part.chunks(32).enumerate() {
            let mut hit = false;
            for &x in few {
                hit |= x.key(self.order) == best;
            }
            if !hit {
                continue;
            }
            for (at, &x) in few.iter().enumerate() {
                if x.key(self.order) == best {
                    place = index * 32 + at;
                    if !self.last {
                        return start + place;
                    }
                }
            }
        }
        start + place
    }
}

/// Blocks of contiguous rows.
struct RowUnits<'a, T: Ordered> {
    search: &'a Search<'a, T>,
    range: Range<usize>,
    found: &'a mut [i64],
}

impl<T: Ordered> SimdOp for RowUnits<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, _: I) {
        let search = self.search;
        let [_, length, _] = search.shape;
        for (unit, place) in self.range.zip(self.found) {
            let (row, block) = (unit / search.blocks, unit % search.blocks);
            let start = block * BLOCK;
            let end = length.min(start + BLOCK);
            let elements = &search.source[row * length + start..row * length + end];
            *place = (start + search.within(elements)) as i64;
        }
    }
}

/// Blocks of panels of columns.
struct ColumnUnits<'a, T: Ordered> {
    search: &'a Search<'a, T>,
    range: Range<usize>,
    found: &'a DisjointSlice<'a, i64>,
}

impl<T: Ordered> SimdOp for ColumnUnits<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, _: I) {
        let search = self.search;
        let [_, length, inner] = search.shape;
        let panels = inner.div_ceil(PANEL);
        for unit in self.range {
            let (group, panel) = (unit / panels, unit % panels);
            let (o, block) = (group / search.blocks, group % search.blocks);
            let first = panel * PANEL;
            let width = PANEL.min(inner - first);
            let mut best = [T::Key::LOWEST; PANEL];
            let mut places = [0u32; PANEL];
            let rows = block * BLOCK..length.min((block + 1) * BLOCK);
            for (index, k) in rows.clone().enumerate() {
                let from = (o * length + k) * inner + first;
                let elements = &search.source[from..from + width];
                for ((&x, best), place) in elements.iter().zip(&mut best).zip(&mut places) {
                    let key = x.key(search.order);
                    let better = (key > *best) | (search.last & (key == *best));
                    *best = if better { key } else { *best };
                    *place = if better { index as u32 } else { *place };
                }
            }
            let from = group * inner + first;
            // SAFETY: each unit of the region owns one panel of one group and is run once.
            let found = unsafe { self.found.part(from..from + width) };
            for (found, &place) in found.iter_mut().zip(&places) {
                *found = (rows.start + place as usize) as i64;
            }
        }
    }
}

/// 1 at the first largest element of each row, 0 elsewhere (ONNX `Hardmax`); rows and order as for [`arg_extreme`].
///
/// Element types: f32, f64, f16, bf16. `workspace` is aligned to 8 bytes and has the length that
/// [`hardmax_workspace`] gives.
///
/// # Errors
/// [`ReduceError::Shapes`], [`ReduceError::ElementType`] or [`ReduceError::Workspace`].
pub fn hardmax(
    input: TensorView<'_>,
    shape: [usize; 3],
    output: &mut TensorViewMut<'_>,
    workspace: &mut [u8],
    execution: &Execution<'_>,
) -> Result<(), ReduceError> {
    let [outer, length, inner] = shape;
    check(&input, shape, output.dims(), output.len(), input.len())?;
    if input.is_empty() {
        return Ok(());
    }
    let outputs = outer * inner;
    let all = integers(workspace, outputs + partials(outputs, length))?;
    let (target, partials) = all.split_at_mut(outputs);
    let choice = Choice {
        shape,
        largest: true,
        last: false,
    };
    macro_rules! marked {
        ($one:expr) => {{
            for_ordered!(
                input.element_type(),
                "Hardmax",
                places(input, choice, target, partials, execution)
            )?;
            mark(shape, target, $one, output, execution)
        }};
    }
    match input.element_type() {
        ElementType::Float32 => marked!(1f32),
        ElementType::Float64 => marked!(1f64),
        ElementType::Float16 => marked!(f16::ONE),
        ElementType::BFloat16 => marked!(bf16::ONE),
        element_type => Err(ReduceError::ElementType {
            operation: "Hardmax",
            element_type,
        }),
    }
}

/// Writes `one` at the places and zeros elsewhere.
fn mark<T: Element>(
    [outer, length, inner]: [usize; 3],
    places: &[i64],
    one: T,
    output: &mut TensorViewMut<'_>,
    execution: &Execution<'_>,
) -> Result<(), ReduceError> {
    let target = output.as_slice_mut::<T>()?;
    if inner == 1 {
        let spec = execution.spec(target.len(), 1, 60, "rows");
        execution
            .lanes
            .region_over(&SELECTION, spec, target, 1, |chunk, part| {
                part.fill(T::zeroed());
                let range = chunk.range;
                for row in range.start / length..range.end.div_ceil(length) {
                    let element = row * length + places[row] as usize;
                    if range.contains(&element) {
                        part[element - range.start] = one;
                    }
                }
            })?;
        return Ok(());
    }
    let spec = execution.spec(outer * length, inner, 100, "columns");
    execution
        .lanes
        .region_over(&SELECTION, spec, target, inner, |chunk, part| {
            for (line, part) in chunk.range.zip(part.chunks_exact_mut(inner)) {
                let (o, k) = (line / length, (line % length) as i64);
                let places = &places[o * inner..(o + 1) * inner];
                for (slot, &place) in part.iter_mut().zip(places) {
                    *slot = if place == k { one } else { T::zeroed() };
                }
            }
        })?;
    Ok(())
}
