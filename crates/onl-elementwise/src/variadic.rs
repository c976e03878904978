//! Sums, means, minima and maxima of any number of operands.

use crate::binary::expect_broadcast;
use crate::body::{BinaryBody, Operand, Plain, narrow, widen};
use crate::broadcast::{BLOCK, Plan};
use crate::operations::{Add, Max, Min};
use crate::unary::expect_type;
use crate::{Binary, BinaryOp, ElementwiseError, region};
use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};
use onl_cpu::IsaTier;
use onl_executor::{Lanes, RegionSpec};
use onl_simd::{Isa, SimdOp, dispatch};
use onl_snapshot::ParallelConfig;
use onl_tensor::{Element, ElementType, TensorView, TensorViewMut};
use smallvec::SmallVec;
use std::marker::PhantomData;

/// An operation of one or more operands of one element type, from left to right.
///
/// 16-bit floats are combined as f32 and rounded once at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VariadicOp {
    /// Sum of floats.
    Sum,
    /// Sum of floats divided by the number of operands.
    Mean,
    /// Smallest operand, of every numeric type; NaN when one is NaN.
    Min,
    /// Largest operand, of every numeric type; NaN when one is NaN.
    Max,
}

/// An operation of any number of operands, chosen for an element type and a tier.
#[derive(Clone, Copy)]
pub struct Variadic {
    element_type: ElementType,
    tier: IsaTier,
    pair: Option<Binary>,
    function: Function,
}

struct Call<'a> {
    tier: IsaTier,
    operands: &'a [TensorView<'a>],
    dims: &'a [usize],
    spec: RegionSpec,
    lanes: Lanes<'a>,
}

type Function = fn(Call<'_>, &mut [u8]) -> Result<(), ElementwiseError>;

impl Variadic {
    /// Chooses the loops of an operation.
    ///
    /// # Errors
    /// [`ElementwiseError::ElementType`] when the operation is not defined for the type.
    pub fn new(
        op: VariadicOp,
        element_type: ElementType,
        tier: IsaTier,
    ) -> Result<Self, ElementwiseError> {
        use ElementType::{
            BFloat16, Float16, Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32,
            UInt64,
        };
        let refused = |operation| ElementwiseError::ElementType {
            operation,
            element_type,
        };
        macro_rules! floats {
            ($op:ident, $finish:ident, $name:literal) => {
                match element_type {
                    Float32 => run::<f32, Plain<$op>, $finish>,
                    Float64 => run::<f64, Plain<$op>, $finish>,
                    Float16 => run::<f16, Plain<$op>, $finish>,
                    BFloat16 => run::<bf16, Plain<$op>, $finish>,
                    _ => return Err(refused($name)),
                }
            };
        }
        macro_rules! numbers {
            ($op:ident, $name:literal) => {
                match element_type {
                    Int8 => run::<i8, Plain<$op>, Keep>,
                    Int16 => run::<i16, Plain<$op>, Keep>,
                    Int32 => run::<i32, Plain<$op>, Keep>,
                    Int64 => run::<i64, Plain<$op>, Keep>,
                    UInt8 => run::<u8, Plain<$op>, Keep>,
                    UInt16 => run::<u16, Plain<$op>, Keep>,
                    UInt32 => run::<u32, Plain<$op>, Keep>,
                    UInt64 => run::<u64, Plain<$op>, Keep>,
                    _ => floats!($op, Keep, $name),
                }
            };
        }
        let (function, pair): (Function, _) = match op {
            VariadicOp::Sum => (floats!(Add, Keep, "Sum"), Some(BinaryOp::Add)),
            VariadicOp::Mean => (floats!(Add, Divide, "Mean"), None),
            VariadicOp::Min => (numbers!(Min, "Min"), Some(BinaryOp::Min)),
            VariadicOp::Max => (numbers!(Max, "Max"), Some(BinaryOp::Max)),
        };
        Ok(Variadic {
            element_type,
            tier,
            pair: pair
                .map(|op| Binary::new(op, element_type, tier))
                .transpose()?,
            function,
        })
    }

    /// Computes `output`, whose shape is [`broadcast_shape`](crate::broadcast_shape) of the operands' shapes.
    ///
    /// # Errors
    /// As [`Binary::run`](crate::Binary::run); no operand at all is [`ElementwiseError::Shapes`].
    pub fn run(
        &self,
        operands: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        config: &ParallelConfig,
        lanes: Lanes<'_>,
    ) -> Result<(), ElementwiseError> {
        if let ([a, b], Some(pair)) = (operands, &self.pair) {
            return pair.run(*a, *b, output, config, lanes);
        }
        if operands.is_empty() {
            return Err(ElementwiseError::Shapes {
                shapes: Vec::new(),
                reason: "at least one operand is needed".to_owned(),
            });
        }
        let dims: SmallVec<[&[usize]; 8]> = operands.iter().map(TensorView::dims).collect();
        for operand in operands {
            expect_type(self.element_type, operand.element_type())?;
        }
        expect_type(self.element_type, output.element_type())?;
        expect_broadcast(&dims, output.dims())?;
        let bytes = self.element_type.bits() / 8 * (operands.len() + 1);
        let spec = region::division(output.len(), config, bytes as f64 * 0.05);
        let dims = output.dims();
        let call = Call {
            tier: self.tier,
            operands,
            dims,
            spec,
            lanes,
        };
        (self.function)(call, output.bytes_mut())
    }
}

/// Runs body `K` over all operands, then `F`.
fn run<T: Stored, K: BinaryBody<T::Wide, T::Wide>, F: Finish<T::Wide>>(
    call: Call<'_>,
    output: &mut [u8],
) -> Result<(), ElementwiseError> {
    let Call {
        tier,
        operands,
        dims,
        spec,
        lanes,
    } = call;
    let plans: SmallVec<[Plan<1>; 4]> = operands
        .iter()
        .map(|operand| Plan::new(dims, [operand.dims()]))
        .collect();
    let operands: SmallVec<[&[T]; 8]> = operands
        .iter()
        .map(|operand| bytemuck::cast_slice(operand.bytes()))
        .collect();
    let out: &mut [T] = bytemuck::cast_slice_mut(output);
    lanes.region_over(&region::VARIADIC, spec, out, 1, |chunk, out| {
        let mut gathered = [T::zeroed(); BLOCK];
        let mut fold = Fold::<T, K, F>::new(operands.len());
        for (block, out) in out.chunks_mut(BLOCK).enumerate() {
            let start = chunk.range.start + block * BLOCK;
            for (plan, operand) in plans.iter().zip(&operands) {
                let elements = if plan.is_flat(0) {
                    &operand[start..start + out.len()]
                } else {
                    let gathered = &mut gathered[..out.len()];
                    plan.gather(0, operand, start, gathered);
                    gathered
                };
                dispatch(
                    tier,
                    Step {
                        fold: &mut fold,
                        elements,
                    },
                );
            }
            let fold = &mut fold;
            dispatch(tier, End { fold, out });
        }
    })?;
    Ok(())
}

/// A block of partial results: every operand's step reads one half of `results` and writes the other.
struct Fold<T: Stored, K, F> {
    count: usize,
    total: usize,
    results: [[T::Wide; BLOCK]; 2],
    wide: [T::Wide; BLOCK],
    _body: PhantomData<(K, F)>,
}

impl<T: Stored, K, F> Fold<T, K, F> {
    fn new(total: usize) -> Self {
        Fold {
            count: 0,
            total,
            results: [[T::Wide::zeroed(); BLOCK]; 2],
            wide: [T::Wide::zeroed(); BLOCK],
            _body: PhantomData,
        }
    }
}

struct Step<'a, T: Stored, K, F> {
    fold: &'a mut Fold<T, K, F>,
    elements: &'a [T],
}

impl<T: Stored, K: BinaryBody<T::Wide, T::Wide>, F> SimdOp for Step<'_, T, K, F> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        let n = self.elements.len();
        let fold = self.fold;
        let [even, odd] = &mut fold.results;
        let elements = T::widen_block(isa, self.elements, &mut fold.wide[..n]);
        if fold.count == 0 {
            even[..n].copy_from_slice(elements);
        } else {
            let (left, result) = if fold.count % 2 == 1 {
                (even, odd)
            } else {
                (odd, even)
            };
            let (a, b) = (Operand::Block(&left[..n]), Operand::Block(elements));
            K::default().run(isa, a, b, &mut result[..n]);
        }
        fold.count += 1;
    }
}

struct End<'a, T: Stored, K, F> {
    fold: &'a mut Fold<T, K, F>,
    out: &'a mut [T],
}

impl<T: Stored, K, F: Finish<T::Wide>> SimdOp for End<'_, T, K, F> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        let fold = self.fold;
        let result = &mut fold.results[(fold.count + 1) % 2][..self.out.len()];
        F::finish(isa, fold.total, result);
        T::narrow_block(isa, result, self.out);
        fold.count = 0;
    }
}

/// An element type and the type it is computed in.
trait Stored: Element {
    type Wide: Pod;
    /// The elements of `source` in the type of the computation, in place or in `target` (of the same length).
    fn widen_block<'a, I: Isa>(
        isa: I,
        source: &'a [Self],
        target: &'a mut [Self::Wide],
    ) -> &'a [Self::Wide];
    fn narrow_block<I: Isa>(isa: I, source: &[Self::Wide], target: &mut [Self]);
}

macro_rules! stored {
    (own $($t:ty),*; halves $($h:ty),*) => {
        $(impl Stored for $t {
            type Wide = $t;
            #[inline(always)]
            fn widen_block<'a, I: Isa>(_: I, source: &'a [$t], _: &'a mut [$t]) -> &'a [$t] {
                source
            }
            #[inline(always)]
            fn narrow_block<I: Isa>(_: I, source: &[$t], target: &mut [$t]) {
                target.copy_from_slice(source);
            }
        })*
        $(impl Stored for $h {
            type Wide = f32;
            #[inline(always)]
            fn widen_block<'a, I: Isa>(isa: I, source: &'a [$h], target: &'a mut [f32]) -> &'a [f32] {
                widen::<I, $h>(isa, source, target);
                target
            }
            #[inline(always)]
            fn narrow_block<I: Isa>(isa: I, source: &[f32], target: &mut [$h]) {
                narrow::<I, $h>(isa, source, target);
            }
        })*
    };
}

stored!(own f32, f64, i8, i16, i32, i64, u8, u16, u32, u64; halves f16, bf16);

/// What follows the last operand.
trait Finish<W>: Send + Sync {
    fn finish<I: Isa>(isa: I, count: usize, result: &mut [W]);
}

struct Keep;

impl<W> Finish<W> for Keep {
    #[inline(always)]
    fn finish<I: Isa>(_: I, _: usize, _: &mut [W]) {}
}

struct Divide;

macro_rules! divide {
    ($($t:ty),*) => {
        $(impl Finish<$t> for Divide {
            #[inline(always)]
            fn finish<I: Isa>(_: I, count: usize, result: &mut [$t]) {
                for x in result {
                    *x /= count as $t;
                }
            }
        })*
    };
}

divide!(f32, f64);
