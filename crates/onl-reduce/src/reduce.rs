use crate::column::{self, Place, Strip};
use crate::layout::Layout;
use crate::operation::{
    AbsoluteSum, ExponentialSum, Maximum, Minimum, Operation, Product, SquareSum, Sum,
};
use crate::real::{Numeric, Real};
use crate::{BLOCK, COLUMNS, Execution, ROWS, ReduceError, ReduceKind, integer, row};
use onl_cpu::IsaTier;
use onl_executor::DisjointSlice;
use onl_simd::{Isa, SimdOp, dispatch};
use onl_tensor::{ElementType, TensorView, TensorViewMut, bf16, f16};
use std::marker::PhantomData;
use std::ops::Range;

/// Columns of a unit of work; the last unit of a line takes the rest too.
const PANEL: usize = 64;

/// Units of a line of columns.
fn panels(columns: usize) -> usize {
    (columns / PANEL).max(1)
}

/// Neighbouring units that are best reduced together: rows are read in longer pieces then. Every lane finds work.
fn neighbours(units: usize, lanes: usize) -> usize {
    let share = if lanes > 1 {
        units / (4 * lanes)
    } else {
        units
    };
    share.clamp(1, 8)
}

/// Scratch bytes that [`reduce`] needs for an input of this type and shape. `axes` has one flag per axis; without
/// it, the result is enough for every choice of axes.
pub fn reduce_workspace(
    kind: ReduceKind,
    element_type: ElementType,
    dims: &[usize],
    axes: Option<&[bool]>,
) -> usize {
    let (size, narrow) = match element_type {
        ElementType::Float32 => (4, false),
        ElementType::Float64 => (8, false),
        ElementType::Float16 | ElementType::BFloat16 => (4, true),
        ElementType::Int64 | ElementType::UInt64 => (8, false),
        _ => (4, false),
    };
    let elements: usize = dims.iter().product();
    if elements == 0 {
        return 0;
    }
    let scratch = match axes {
        Some(axes) if axes.len() == dims.len() => {
            let layout = Layout::new(dims, axes);
            Scratch::new(kind, narrow, layout.kept.len(), layout.reduced.len())
        }
        _ => Scratch {
            shifts: if kind == ReduceKind::LogSumExp {
                elements
            } else {
                0
            },
            totals: if narrow { elements } else { 0 },
            partials: elements / (BLOCK / 2),
        },
    };
    scratch.len().saturating_mul(size)
}

/// Numbers of scratch values of a reduction.
struct Scratch {
    /// One per output for `LogSumExp`.
    shifts: usize,
    /// One per output when the output is narrower than what is computed in.
    totals: usize,
    /// One per block when a row has several.
    partials: usize,
}

impl Scratch {
    fn new(kind: ReduceKind, narrow: bool, outputs: usize, count: usize) -> Self {
        Scratch {
            shifts: if kind == ReduceKind::LogSumExp {
                outputs
            } else {
                0
            },
            totals: if narrow { outputs } else { 0 },
            partials: partials(outputs, count),
        }
    }

    fn len(&self) -> usize {
        self.shifts
            .saturating_add(self.totals)
            .saturating_add(self.partials)
    }
}

/// Reduces the flagged axes (ONNX `Reduce…`); the output has as many elements as the other axes together, in their
/// order. Reducing nothing at all (an axis of size 0) gives 0, and for `Prod` 1, for `Max` and `Min` the infinity or
/// extreme integer that is neutral, for `Mean` NaN (integers 0), for the logarithms −∞.
///
/// Element types: f32, f64, f16, bf16, i32, i64, u32, u64; `Max` and `Min` also i8, u8 and bool. `workspace` is
/// aligned to 8 bytes and has the length that [`reduce_workspace`] gives.
///
/// # Errors
/// [`ReduceError::Shapes`], [`ReduceError::ElementType`] or [`ReduceError::Workspace`].
pub fn reduce(
    kind: ReduceKind,
    input: TensorView<'_>,
    axes: &[bool],
    output: &mut TensorViewMut<'_>,
    workspace: &mut [u8],
    execution: &Execution<'_>,
) -> Result<(), ReduceError> {
    let dims = input.dims();
    if axes.len() != dims.len() {
        return Err(ReduceError::shapes(
            &[dims],
            format!("{} axis flags were given", axes.len()),
        ));
    }
    let layout = Layout::new(dims, axes);
    if output.len() != layout.kept.len() {
        return Err(ReduceError::shapes(
            &[dims, output.dims()],
            format!("the output must have {} elements", layout.kept.len()),
        ));
    }
    match input.element_type() {
        ElementType::Float32 => floats::<f32>(kind, input, &layout, output, workspace, execution),
        ElementType::Float64 => floats::<f64>(kind, input, &layout, output, workspace, execution),
        ElementType::Float16 => floats::<f16>(kind, input, &layout, output, workspace, execution),
        ElementType::BFloat16 => floats::<bf16>(kind, input, &layout, output, workspace, execution),
        _ => integer::reduce(kind, input, &layout, output, workspace, execution),
    }
}

/// Bytes of a number that elements of this type are computed in.
pub(crate) fn real_size(element_type: ElementType) -> usize {
    if element_type == ElementType::Float64 {
        8
    } else {
        4
    }
}

/// Numbers that [`Pass::run`] takes for the blocks of `outputs` rows of `count` elements.
pub(crate) fn partials(outputs: usize, count: usize) -> usize {
    match count.div_ceil(BLOCK) {
        0 | 1 => 0,
        blocks => outputs.saturating_mul(blocks),
    }
}

/// Typed scratch memory of at least `length` values.
pub(crate) fn scratch<R: Real>(
    workspace: &mut [u8],
    length: usize,
) -> Result<&mut [R], ReduceError> {
    if length == 0 {
        // An empty slice of bytes need not be aligned.
        return Ok(&mut []);
    }
    let needed = length.saturating_mul(size_of::<R>());
    let given = workspace.len();
    let bytes = workspace
        .get_mut(..needed)
        .ok_or(ReduceError::Workspace { needed, given })?;
    bytemuck::try_cast_slice_mut(bytes).map_err(|_| ReduceError::Workspace { needed, given })
}

fn floats<T: Numeric>(
    kind: ReduceKind,
    input: TensorView<'_>,
    layout: &Layout,
    output: &mut TensorViewMut<'_>,
    workspace: &mut [u8],
    execution: &Execution<'_>,
) -> Result<(), ReduceError> {
    let source = input.as_slice::<T>()?;
    let target = output.as_slice_mut::<T>()?;
    let (outputs, count) = (layout.kept.len(), layout.reduced.len());
    if outputs == 0 {
        return Ok(());
    }
    if count == 0 {
        let nothing = kind.empty::<T::Real>().one(|isa, total| {
            let zero = T::Real::splat(isa, T::Real::ZERO);
            kind.finish::<T::Real, _>(isa, total, zero, zero)
        });
        target.fill(T::round(nothing));
        return Ok(());
    }
    let narrow = T::as_reals(target).is_none();
    let sizes = Scratch::new(kind, narrow, outputs, count);
    let all = scratch::<T::Real>(workspace, sizes.len())?;
    let (shifts, rest) = all.split_at_mut(sizes.shifts);
    let (narrow_totals, partials) = rest.split_at_mut(sizes.totals);
    if kind == ReduceKind::LogSumExp {
        let pass = Pass {
            source,
            layout,
            shifts: &[],
            finish: None,
        };
        pass.run::<Maximum>(shifts, partials, execution)?;
    }
    let pass = Pass {
        source,
        layout,
        shifts,
        finish: Some(kind),
    };
    let totals = match T::as_reals(target) {
        Some(totals) => totals,
        None => narrow_totals,
    };
    match kind {
        ReduceKind::Sum | ReduceKind::Mean | ReduceKind::LogSum => {
            pass.run::<Sum>(totals, partials, execution)
        }
        ReduceKind::Max => pass.run::<Maximum>(totals, partials, execution),
        ReduceKind::Min => pass.run::<Minimum>(totals, partials, execution),
        ReduceKind::Prod => pass.run::<Product>(totals, partials, execution),
        ReduceKind::L1 => pass.run::<AbsoluteSum>(totals, partials, execution),
        ReduceKind::L2 | ReduceKind::SumSquare => {
            pass.run::<SquareSum>(totals, partials, execution)
        }
        ReduceKind::LogSumExp => pass.run::<ExponentialSum>(totals, partials, execution),
    }?;
    if narrow {
        for (slot, &total) in target.iter_mut().zip(narrow_totals.iter()) {
            *slot = T::round(total);
        }
    }
    Ok(())
}

/// One walk over the input that gives a total per output element.
pub(crate) struct Pass<'a, T: Numeric> {
    pub source: &'a [T],
    pub layout: &'a Layout,
    /// One parameter per output element, or none.
    pub shifts: &'a [T::Real],
    /// What is made of the totals; nothing without it.
    pub finish: Option<ReduceKind>,
}

impl<T: Numeric> Pass<'_, T> {
    /// Writes the totals of all rows. `partials` has one value per block when rows have several.
    pub(crate) fn run<O: Operation<T::Real>>(
        &self,
        totals: &mut [T::Real],
        partials: &mut [T::Real],
        execution: &Execution<'_>,
    ) -> Result<(), ReduceError> {
        let count = self.layout.reduced.len();
        let blocks = count.div_ceil(BLOCK);
        let columns = if self.layout.inner_reduced {
            1
        } else {
            self.layout.kept.sizes.last().copied().unwrap_or(1)
        };
        let target = if blocks > 1 {
            &mut *partials
        } else {
            &mut *totals
        };
        if self.layout.inner_reduced {
            let spec = execution.spec(target.len(), count.min(BLOCK), 100, "rows");
            execution
                .lanes
                .region_over(&ROWS, spec, target, 1, |chunk, part| {
                    dispatch(
                        execution.tier,
                        RowUnits::<T, O> {
                            pass: self,
                            blocks,
                            range: chunk.range,
                            target: part,
                            operation: PhantomData,
                        },
                    );
                })?;
        } else {
            let panels = panels(columns);
            let groups = target.len() / columns;
            let per_unit = count.min(BLOCK) * columns.min(PANEL);
            let mut spec = execution.spec(groups * panels, per_unit, 100, "columns");
            spec.grain = spec
                .grain
                .max(neighbours(spec.total, execution.lanes.count()));
            let target = DisjointSlice::new(target);
            execution.lanes.region(&COLUMNS, spec, |chunk| {
                dispatch(
                    execution.tier,
                    ColumnUnits::<T, O> {
                        pass: self,
                        blocks,
                        columns,
                        range: chunk.range,
                        target: &target,
                        operation: PhantomData,
                    },
                );
            })?;
        }
        if blocks > 1 {
            self.merge::<O>(totals, partials, blocks, columns, execution.tier);
        }
        Ok(())
    }

    /// Merges the blocks of every row left to right. Partials lie as `[group][block][column]`.
    fn merge<O: Operation<T::Real>>(
        &self,
        totals: &mut [T::Real],
        partials: &[T::Real],
        blocks: usize,
        columns: usize,
        tier: IsaTier,
    ) {
        let groups = totals.chunks_exact_mut(columns);
        for (totals, partials) in groups.zip(partials.chunks_exact(blocks * columns)) {
            totals.copy_from_slice(&partials[..columns]);
            for block in partials[columns..].chunks_exact(columns) {
                for (total, &part) in totals.iter_mut().zip(block) {
                    *total = row::combine::<T::Real, O>(*total, part);
                }
            }
        }
        self.finish(tier, 0, totals);
    }

    /// Makes results of the totals of the outputs from `first` on.
    fn finish(&self, tier: IsaTier, first: usize, totals: &mut [T::Real]) {
        if let Some(kind) = self.finish.filter(|kind| kind.has_finish()) {
            dispatch(
                tier,
                Finish::<T> {
                    kind,
                    count: self.layout.reduced.len(),
                    shifts: if self.shifts.is_empty() {
                        &[]
                    } else {
                        &self.shifts[first..first + totals.len()]
                    },
                    totals,
                },
            );
        }
    }

    #[inline(always)]
    fn shift(&self, output: usize) -> T::Real {
        self.shifts.get(output).copied().unwrap_or(T::Real::ZERO)
    }
}

/// Results of totals: an operation of its own, as it is the same for all that make totals.
struct Finish<'a, T: Numeric> {
    kind: ReduceKind,
    /// Elements of each total.
    count: usize,
    /// One parameter per total, or none.
    shifts: &'a [T::Real],
    totals: &'a mut [T::Real],
}

impl<T: Numeric> SimdOp for Finish<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        let width = <T::Real as Real>::lanes::<I>();
        let zero = T::Real::ZERO;
        let count = T::Real::splat(isa, T::Real::from_count(self.count));
        for (index, part) in self.totals.chunks_mut(width).enumerate() {
            let shift = if self.shifts.is_empty() {
                T::Real::splat(isa, zero)
            } else {
                let shifts = &self.shifts[index * width..][..part.len()];
                <T::Real as Numeric>::load_partial(isa, shifts, zero)
            };
            let total = <T::Real as Numeric>::load_partial(isa, part, zero);
            let result = self.kind.finish::<T::Real, I>(isa, total, count, shift);
            <T::Real as Numeric>::store_partial(isa, result, part);
        }
    }
}

/// Blocks of rows along the innermost axis.
struct RowUnits<'a, T: Numeric, O> {
    pass: &'a Pass<'a, T>,
    blocks: usize,
    range: Range<usize>,
    target: &'a mut [T::Real],
    operation: PhantomData<O>,
}

impl<T: Numeric, O: Operation<T::Real>> SimdOp for RowUnits<'_, T, O> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        let Layout { kept, reduced, .. } = self.pass.layout;
        let count = reduced.len();
        let contiguous = reduced.sizes.len() <= 1;
        // Distance of rows, when there is one.
        let step = match kept.strides.as_slice() {
            [] => Some(0),
            [step] => Some(*step),
            _ => None,
        };
        let mut gathered = None;
        for (unit, slot) in self.range.clone().zip(self.target.iter_mut()) {
            let (output, block) = if self.blocks == 1 {
                (unit, 0)
            } else {
                (unit / self.blocks, unit % self.blocks)
            };
            let places = block * BLOCK..count.min((block + 1) * BLOCK);
            let start = step.map_or_else(|| kept.offset(output), |step| output * step);
            let elements = if contiguous {
                &self.pass.source[start + places.start..start + places.end]
            } else {
                let length = places.len();
                let gathered = gathered.get_or_insert([T::zeroed(); BLOCK]);
                gather(self.pass, start, places, &mut gathered[..length]);
                &gathered[..length]
            };
            *slot = row::block::<T, O, I>(isa, elements, self.pass.shift(output));
        }
        if self.blocks == 1 {
            self.pass.finish(I::TIER, self.range.start, self.target);
        }
    }
}

/// Copies the elements of a row that several axes make up.
fn gather<T: Numeric>(pass: &Pass<'_, T>, start: usize, places: Range<usize>, target: &mut [T]) {
    let reduced = &pass.layout.reduced;
    let run = reduced.sizes.last().copied().unwrap_or(1);
    let mut place = places.start;
    let mut target = target;
    while !target.is_empty() {
        let length = (run - place % run).min(target.len());
        let (piece, rest) = target.split_at_mut(length);
        piece.copy_from_slice(&pass.source[start + reduced.offset(place)..][..length]);
        target = rest;
        place += length;
    }
}

/// Blocks of panels of columns.
struct ColumnUnits<'a, T: Numeric, O> {
    pass: &'a Pass<'a, T>,
    blocks: usize,
    columns: usize,
    range: Range<usize>,
    target: &'a DisjointSlice<'a, T::Real>,
    operation: PhantomData<O>,
}

impl<T: Numeric, O: Operation<T::Real>> SimdOp for ColumnUnits<'_, T, O> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        let reduced = &self.pass.layout.reduced;
        let panels = panels(self.columns);
        let step = reduced.strides.first().copied().unwrap_or(0);
        let mut strip = Strip::new();
        let mut listed = None;
        for units in self.neighbours(panels) {
            let (start, block, rows) = self.place(units.start, panels);
            let place = if reduced.sizes.len() > 1 {
                let offsets = &mut listed.get_or_insert([0; BLOCK])[..rows];
                reduced.offsets(block * BLOCK, offsets);
                Place {
                    start,
                    step: 0,
                    offsets,
                }
            } else {
                Place {
                    start: start + block * BLOCK * step,
                    step,
                    offsets: &[],
                }
            };
            self.units(isa, units, panels, rows, place, &mut strip);
        }
    }
}

impl<T: Numeric, O: Operation<T::Real>> ColumnUnits<'_, T, O> {
    /// The range in pieces of one group each.
    fn neighbours(&self, panels: usize) -> impl Iterator<Item = Range<usize>> {
        let end = self.range.end;
        let mut unit = self.range.start;
        std::iter::from_fn(move || {
            let start = unit;
            unit = end.min((start / panels + 1) * panels);
            (start < end).then_some(start..unit)
        })
    }

    /// Columns of neighbouring units.
    #[inline(always)]
    fn panels(&self, units: &Range<usize>, panels: usize) -> Range<usize> {
        let start = units.start % panels * PANEL;
        let end = if units.end.is_multiple_of(panels) {
            self.columns
        } else {
            start + units.len() * PANEL
        };
        start..end
    }

    /// First element of a unit's columns, its block, and the rows of that.
    #[inline(always)]
    fn place(&self, unit: usize, panels: usize) -> (usize, usize, usize) {
        let Layout { kept, reduced, .. } = self.pass.layout;
        let group = unit / panels;
        let (outer, block) = (group / self.blocks, group % self.blocks);
        let start = kept.offset(outer * self.columns) + unit % panels * PANEL;
        (start, block, BLOCK.min(reduced.len() - block * BLOCK))
    }

    #[inline(always)]
    fn units<I: Isa>(
        &self,
        isa: I,
        units: Range<usize>,
        panels: usize,
        rows: usize,
        place: Place<'_>,
        strip: &mut Strip,
    ) {
        let columns = self.panels(&units, panels);
        let group = units.start / panels;
        let first = group / self.blocks * self.columns + columns.start;
        let shifts = if self.pass.shifts.is_empty() {
            &[]
        } else {
            &self.pass.shifts[first..first + columns.len()]
        };
        let from = group * self.columns + columns.start;
        // SAFETY: each unit of the region owns one panel of one group and is run once; these are neighbours.
        let target = unsafe { self.target.part(from..from + columns.len()) };
        column::block::<T, O, I>(isa, self.pass.source, rows, place, shifts, target, strip);
        if self.blocks == 1 {
            self.pass.finish(I::TIER, first, target);
        }
    }
}
