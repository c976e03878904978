//! Cumulative sums and products.

use crate::{BLOCK, CUMULATIVE, Execution, ReduceError};
use bytemuck::Pod;
use onl_executor::DisjointSlice;
use onl_simd::{Isa, SimdOp, dispatch};
use onl_tensor::{Element, ElementType, TensorView, TensorViewMut, bf16, f16};
use std::ops::Range;

/// Columns that one unit of work walks side by side.
const PANEL: usize = 256;

/// Which cumulation of which rows: `outer · inner` rows, where element `k` of row `(o, i)` is
/// `input[(o · length + k) · inner + i]`.
#[derive(Debug, Clone, Copy)]
pub struct Cumulation {
    /// Outer rows, elements of a row, and their distance.
    pub shape: [usize; 3],
    /// Products instead of sums.
    pub product: bool,
    /// Whether a result leaves out the element at its own place.
    pub exclusive: bool,
    /// Whether rows are walked from their end.
    pub reverse: bool,
}

impl Cumulation {
    fn blocks(&self) -> usize {
        self.shape[1].div_ceil(BLOCK)
    }

    /// Totals that are kept when blocks of a row are walked apart.
    fn totals(&self) -> usize {
        let [outer, _, inner] = self.shape;
        match self.blocks() {
            0 | 1 => 0,
            blocks => outer.saturating_mul(inner).saturating_mul(blocks),
        }
    }
}

/// Scratch bytes that [`cumulate`] needs.
pub fn cumulate_workspace(cumulation: &Cumulation) -> usize {
    cumulation.totals().saturating_mul(size_of::<u64>())
}

/// An element that is cumulated.
trait Term: Element {
    /// What is computed in.
    type Wide: Pod + Send + Sync;
    /// Neutral elements of sum and product: combining them with x gives x.
    const NEUTRAL: [Self::Wide; 2];
    /// What an exclusive sum or product starts with.
    const FIRST: [Self::Wide; 2];
    /// Whether results are what is computed in, so that a written one can be read again.
    const EXACT: bool;

    fn wide(self) -> Self::Wide;
    fn rounded(x: Self::Wide) -> Self;
    fn combine<const PRODUCT: bool>(a: Self::Wide, b: Self::Wide) -> Self::Wide;
}

macro_rules! terms {
    ($($t:ty, $wide:ty: $neutral:expr, $one:expr, |$x:ident| $widen:expr, |$y:ident| $round:expr,
       |$a:ident, $b:ident| $sum:expr, $product:expr;)*) => {$(
        impl Term for $t {
            type Wide = $wide;
            const NEUTRAL: [$wide; 2] = [$neutral, $one];
            const FIRST: [$wide; 2] = [0 as $wide, $one];
            const EXACT: bool = size_of::<$t>() == size_of::<$wide>();

            #[inline(always)]
            fn wide(self) -> $wide {
                let $x = self;
                $widen
            }
            #[inline(always)]
            fn rounded($y: $wide) -> $t {
                $round
            }
            #[inline(always)]
            fn combine<const PRODUCT: bool>($a: $wide, $b: $wide) -> $wide {
                if PRODUCT { $product } else { $sum }
            }
        }
    )*};
}
terms! {
    f32, f32: -0.0, 1.0, |x| x, |y| y, |a, b| a + b, a * b;
    f64, f64: -0.0, 1.0, |x| x, |y| y, |a, b| a + b, a * b;
    f16, f32: -0.0, 1.0, |x| x.to_f32(), |y| f16::from_f32(y), |a, b| a + b, a * b;
    bf16, f32: -0.0, 1.0, |x| x.to_f32(), |y| bf16::from_f32(y), |a, b| a + b, a * b;
    i32, i32: 0, 1, |x| x, |y| y, |a, b| a.wrapping_add(b), a.wrapping_mul(b);
    i64, i64: 0, 1, |x| x, |y| y, |a, b| a.wrapping_add(b), a.wrapping_mul(b);
    u32, u32: 0, 1, |x| x, |y| y, |a, b| a.wrapping_add(b), a.wrapping_mul(b);
    u64, u64: 0, 1, |x| x, |y| y, |a, b| a.wrapping_add(b), a.wrapping_mul(b);
}

/// Cumulative sums or products (ONNX `CumSum` and `CumProd`).
///
/// A row is cut into blocks of [`BLOCK`] elements. Within a block results follow each other in order; the total of a
/// block is its last result. Before block b stands the prefix P(b), the totals of the blocks before it combined left
/// to right, and what is written is P(b) combined with the result within the block. f16 and bf16 are computed in f32,
/// each result rounded once; integers wrap.
///
/// Element types: f32, f64, f16, bf16, i32, i64, u32, u64. `workspace` is aligned to 8 bytes and has the length that
/// [`cumulate_workspace`] gives.
///
/// # Errors
/// [`ReduceError::Shapes`], [`ReduceError::ElementType`] or [`ReduceError::Workspace`].
pub fn cumulate(
    input: TensorView<'_>,
    cumulation: &Cumulation,
    output: &mut TensorViewMut<'_>,
    workspace: &mut [u8],
    execution: &Execution<'_>,
) -> Result<(), ReduceError> {
    let [outer, length, inner] = cumulation.shape;
    if input.len() != outer * length * inner || output.len() != input.len() {
        return Err(ReduceError::shapes(
            &[input.dims(), output.dims()],
            format!("{outer} x {inner} rows of {length} elements were asked for"),
        ));
    }
    if input.is_empty() {
        return Ok(());
    }
    macro_rules! types {
        ($($name:ident $t:ty),*) => {
            match input.element_type() {
                $(ElementType::$name => {
                    let source = input.as_slice::<$t>()?;
                    let target = output.as_slice_mut::<$t>()?;
                    if cumulation.product {
                        run::<$t, true>(source, target, cumulation, workspace, execution)
                    } else {
                        run::<$t, false>(source, target, cumulation, workspace, execution)
                    }
                })*
                element_type => Err(ReduceError::ElementType {
                    operation: if cumulation.product { "CumProd" } else { "CumSum" },
                    element_type,
                }),
            }
        };
    }
    types!(
        Float32 f32, Float64 f64, Float16 f16, BFloat16 bf16, Int32 i32, Int64 i64, UInt32 u32, UInt64 u64
    )
}

fn run<T: Term, const PRODUCT: bool>(
    source: &[T],
    target: &mut [T],
    cumulation: &Cumulation,
    workspace: &mut [u8],
    execution: &Execution<'_>,
) -> Result<(), ReduceError> {
    let needed = cumulation.totals().saturating_mul(size_of::<T::Wide>());
    let given = workspace.len();
    let bytes = workspace
        .get_mut(..needed)
        .ok_or(ReduceError::Workspace { needed, given })?;
    let totals: &mut [T::Wide] = if needed == 0 {
        &mut []
    } else {
        bytemuck::try_cast_slice_mut(bytes).map_err(|_| ReduceError::Workspace { needed, given })?
    };
    let [outer, length, inner] = cumulation.shape;
    let blocks = cumulation.blocks();
    let walk = Walk::<T, PRODUCT> {
        source,
        target: &DisjointSlice::new(target),
        cumulation,
        blocks,
        panels: inner.div_ceil(PANEL),
    };
    let per_unit = length.min(BLOCK) * inner.min(PANEL);
    if blocks > 1 {
        let shared = DisjointSlice::new(totals);
        let spec = execution.spec(walk.units(), per_unit, 1000, "totals");
        execution.lanes.region(&CUMULATIVE, spec, |chunk| {
            walk.run(chunk.range, Totals::Give(&shared), execution);
        })?;
        for o in 0..outer {
            for i in 0..inner {
                let mut prefix = T::NEUTRAL[usize::from(PRODUCT)];
                for b in 0..blocks {
                    let slot = &mut totals[(o * blocks + b) * inner + i];
                    let next = T::combine::<PRODUCT>(prefix, *slot);
                    *slot = prefix;
                    prefix = next;
                }
            }
        }
    }
    let path = if inner == 1 { "rows" } else { "columns" };
    let spec = execution.spec(walk.units(), per_unit, 1000, path);
    let totals = &*totals;
    execution.lanes.region(&CUMULATIVE, spec, |chunk| {
        walk.run(chunk.range, Totals::Take(totals), execution);
    })?;
    Ok(())
}

/// What becomes of the totals of blocks, which lie as `[outer][block][inner]`.
#[derive(Clone, Copy)]
enum Totals<'a, W> {
    /// They are all that is wanted.
    Give(&'a DisjointSlice<'a, W>),
    /// Each place holds the prefix of its block; empty when rows have one block.
    Take(&'a [W]),
}

struct Walk<'a, T: Term, const PRODUCT: bool> {
    source: &'a [T],
    target: &'a DisjointSlice<'a, T>,
    cumulation: &'a Cumulation,
    blocks: usize,
    panels: usize,
}

impl<T: Term, const PRODUCT: bool> Walk<'_, T, PRODUCT> {
    /// Blocks of panels of columns; a row alone is a panel of one column.
    fn units(&self) -> usize {
        self.cumulation.shape[0] * self.blocks * self.panels
    }

    fn run(&self, range: Range<usize>, totals: Totals<'_, T::Wide>, execution: &Execution<'_>) {
        if self.cumulation.shape[2] == 1 {
            self.rows(range, totals);
        } else {
            dispatch(
                execution.tier,
                Columns {
                    walk: self,
                    range,
                    totals,
                },
            );
        }
    }

    /// Blocks of rows, four at a time: each is a chain of operations that wait for one another.
    fn rows(&self, range: Range<usize>, totals: Totals<'_, T::Wide>) {
        let mut unit = range.start;
        while unit < range.end {
            let block = |unit: usize| self.block(unit % self.blocks);
            let even =
                unit + 4 <= range.end && (1..4).all(|n| block(unit + n).len() == block(unit).len());
            if even {
                self.together::<4>(unit, totals);
                unit += 4;
            } else {
                self.together::<1>(unit, totals);
                unit += 1;
            }
        }
    }

    /// Elements of a block, counted from where the walk starts.
    fn block(&self, block: usize) -> Range<usize> {
        block * BLOCK..self.cumulation.shape[1].min((block + 1) * BLOCK)
    }

    fn together<const N: usize>(&self, first: usize, totals: Totals<'_, T::Wide>) {
        let Cumulation {
            shape: [_, length, _],
            exclusive,
            reverse,
            ..
        } = *self.cumulation;
        let count = self.block(first % self.blocks).len();
        let starts: [usize; N] = std::array::from_fn(|n| {
            let (row, block) = ((first + n) / self.blocks, (first + n) % self.blocks);
            let walked = self.block(block);
            let from = if reverse {
                length - walked.end
            } else {
                walked.start
            };
            row * length + from
        });
        let at = |step: usize| if reverse { count - 1 - step } else { step };
        let sources: [&[T]; N] = starts.map(|start| &self.source[start..start + count]);
        let neutral = T::NEUTRAL[usize::from(PRODUCT)];
        let mut results = [neutral; N];
        let prefixes = match totals {
            Totals::Give(totals) => {
                for step in 0..count {
                    for n in 0..N {
                        results[n] = T::combine::<PRODUCT>(results[n], sources[n][at(step)].wide());
                    }
                }
                // SAFETY: each unit of the region is run once and owns its total.
                let totals = unsafe { totals.part(first..first + N) };
                totals.copy_from_slice(&results);
                return;
            }
            Totals::Take([]) => [neutral; N],
            Totals::Take(prefixes) => std::array::from_fn(|n| prefixes[first + n]),
        };
        // SAFETY: each unit of the region is run once and owns its block of a row.
        let targets: [&mut [T]; N] =
            starts.map(|start| unsafe { self.target.part(start..start + count) });
        for step in 0..count {
            for n in 0..N {
                let before = results[n];
                results[n] = T::combine::<PRODUCT>(before, sources[n][at(step)].wide());
                let result = if exclusive { before } else { results[n] };
                targets[n][at(step)] = T::rounded(T::combine::<PRODUCT>(prefixes[n], result));
            }
        }
        if exclusive {
            for n in 0..N {
                if (first + n).is_multiple_of(self.blocks) {
                    targets[n][at(0)] = T::rounded(T::FIRST[usize::from(PRODUCT)]);
                }
            }
        }
    }
}

/// Blocks of panels of columns.
struct Columns<'a, T: Term, const PRODUCT: bool> {
    walk: &'a Walk<'a, T, PRODUCT>,
    range: Range<usize>,
    totals: Totals<'a, T::Wide>,
}

impl<T: Term, const PRODUCT: bool> SimdOp for Columns<'_, T, PRODUCT> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, _: I) {
        let walk = self.walk;
        let Cumulation {
            shape: [_, length, inner],
            exclusive,
            reverse,
            ..
        } = *walk.cumulation;
        let neutral = T::NEUTRAL[usize::from(PRODUCT)];
        for unit in self.range {
            let (group, panel) = (unit / walk.panels, unit % walk.panels);
            let (o, block) = (group / walk.blocks, group % walk.blocks);
            let columns = panel * PANEL..inner.min((panel + 1) * PANEL);
            let width = columns.len();
            let place = group * inner + columns.start;
            let mut results = [neutral; PANEL];
            let mut prefixes = [neutral; PANEL];
            if let Totals::Take(totals) = self.totals
                && !totals.is_empty()
            {
                prefixes[..width].copy_from_slice(&totals[place..place + width]);
            }
            let plain = !exclusive && walk.blocks == 1;
            let walked = walk.block(block);
            for (step, k) in walked.enumerate() {
                let k = if reverse { length - 1 - k } else { k };
                let from = (o * length + k) * inner + columns.start;
                let elements = &walk.source[from..from + width];
                if let Totals::Give(_) = self.totals {
                    for (result, &x) in results.iter_mut().zip(elements) {
                        *result = T::combine::<PRODUCT>(*result, x.wide());
                    }
                    continue;
                }
                // SAFETY: each unit of the region is run once and owns its panel of these lines.
                let target = unsafe { walk.target.part(from..from + width) };
                if plain && T::EXACT {
                    // A result is the one before, as written, and one element more.
                    if step == 0 {
                        for (slot, &x) in target.iter_mut().zip(elements) {
                            *slot = T::rounded(T::combine::<PRODUCT>(neutral, x.wide()));
                        }
                        continue;
                    }
                    let before = if reverse { from + inner } else { from - inner };
                    // SAFETY: as above; the line before does not overlap this one.
                    let before = unsafe { walk.target.part(before..before + width) };
                    for ((slot, &x), &before) in target.iter_mut().zip(elements).zip(&*before) {
                        *slot = T::rounded(T::combine::<PRODUCT>(before.wide(), x.wide()));
                    }
                    continue;
                }
                if plain {
                    // Without a prefix, which would change nothing.
                    for ((slot, &x), result) in target.iter_mut().zip(elements).zip(&mut results) {
                        *result = T::combine::<PRODUCT>(*result, x.wide());
                        *slot = T::rounded(*result);
                    }
                    continue;
                }
                let columns = target.iter_mut().zip(elements);
                for ((slot, &x), (result, &prefix)) in
                    columns.zip(results.iter_mut().zip(&prefixes))
                {
                    let before = *result;
                    *result = T::combine::<PRODUCT>(before, x.wide());
                    let own = if exclusive { before } else { *result };
                    *slot = T::rounded(T::combine::<PRODUCT>(prefix, own));
                }
                if exclusive && block == 0 && step == 0 {
                    target.fill(T::rounded(T::FIRST[usize::from(PRODUCT)]));
                }
            }
            if let Totals::Give(totals) = self.totals {
                // SAFETY: each unit of the region is run once and owns the totals of its panel.
                let totals = unsafe { totals.part(place..place + width) };
                totals.copy_from_slice(&results[..width]);
            }
        }
    }
}
