//! `Clip`: elements held within two bounds.

use crate::body::{Half, Map2, narrow, widen};
use crate::broadcast::BLOCK;
use crate::operations::{Max, Min};
use crate::unary::expect_type;
use crate::{ElementwiseError, region};
use half::{bf16, f16};
use onl_cpu::IsaTier;
use onl_executor::{Lanes, RegionSpec};
use onl_simd::{Isa, SimdOp, dispatch};
use onl_snapshot::ParallelConfig;
use onl_tensor::{Element, ElementType, TensorView, TensorViewMut};

/// min(max(x, low), high) for every numeric type, chosen for an element type and a tier.
///
/// An omitted bound is not applied. Where `low` exceeds `high` the result is `high`. NaN stays NaN, and a NaN bound
/// makes every element NaN, as [`BinaryOp::Min`](crate::BinaryOp::Min) and [`BinaryOp::Max`](crate::BinaryOp::Max) do.
#[derive(Clone, Copy)]
pub struct Clip {
    element_type: ElementType,
    tier: IsaTier,
    function: Function,
}

struct Call<'a> {
    tier: IsaTier,
    input: &'a [u8],
    low: Option<TensorView<'a>>,
    high: Option<TensorView<'a>>,
    spec: RegionSpec,
    lanes: Lanes<'a>,
}

type Function = fn(Call<'_>, &mut [u8]) -> Result<(), ElementwiseError>;

impl Clip {
    /// Chooses the loops for an element type.
    ///
    /// # Errors
    /// [`ElementwiseError::ElementType`] when the type is not numeric.
    pub fn new(element_type: ElementType, tier: IsaTier) -> Result<Self, ElementwiseError> {
        let function: Function = match element_type {
            ElementType::Float32 => run::<f32>,
            ElementType::Float64 => run::<f64>,
            ElementType::Float16 => run::<f16>,
            ElementType::BFloat16 => run::<bf16>,
            ElementType::Int8 => run::<i8>,
            ElementType::Int16 => run::<i16>,
            ElementType::Int32 => run::<i32>,
            ElementType::Int64 => run::<i64>,
            ElementType::UInt8 => run::<u8>,
            ElementType::UInt16 => run::<u16>,
            ElementType::UInt32 => run::<u32>,
            ElementType::UInt64 => run::<u64>,
            _ => {
                return Err(ElementwiseError::ElementType {
                    operation: "Clip",
                    element_type,
                });
            }
        };
        Ok(Clip {
            element_type,
            tier,
            function,
        })
    }

    /// Computes `output` (of the shape of `input`); bounds hold one element each.
    ///
    /// # Errors
    /// [`ElementwiseError::NotScalar`] for a bound of another size (operands 1 and 2), [`ElementwiseError::Tensor`] for
    /// another element type, [`ElementwiseError::Shapes`] when the lengths of input and output differ,
    /// [`ElementwiseError::Region`] when a lane panicked.
    pub fn run(
        &self,
        input: TensorView<'_>,
        low: Option<TensorView<'_>>,
        high: Option<TensorView<'_>>,
        output: &mut TensorViewMut<'_>,
        config: &ParallelConfig,
        lanes: Lanes<'_>,
    ) -> Result<(), ElementwiseError> {
        expect_type(self.element_type, input.element_type())?;
        expect_type(self.element_type, output.element_type())?;
        for (index, bound) in [(1, &low), (2, &high)] {
            if let Some(bound) = bound {
                expect_type(self.element_type, bound.element_type())?;
                if bound.len() != 1 {
                    return Err(ElementwiseError::NotScalar {
                        index,
                        dims: bound.dims().to_vec(),
                    });
                }
            }
        }
        if input.len() != output.len() {
            return Err(ElementwiseError::Shapes {
                shapes: vec![input.dims().to_vec(), output.dims().to_vec()],
                reason: "the output must have the shape of the input".to_owned(),
            });
        }
        let nanoseconds = self.element_type.bits() as f64 / 8.0 * 0.08;
        let call = Call {
            tier: self.tier,
            input: input.bytes(),
            low,
            high,
            spec: region::division(input.len(), config, nanoseconds),
            lanes,
        };
        (self.function)(call, output.bytes_mut())
    }
}

/// An element type with bounds that change nothing.
trait Bounded: Element {
    const LOWEST: Self;
    const HIGHEST: Self;
    /// Implementations are `#[inline(always)]`.
    fn clip<I: Isa>(isa: I, low: Self, high: Self, a: &[Self], out: &mut [Self]);
}

#[inline(always)]
fn clip_plain<T: Copy>(low: T, high: T, a: &[T], out: &mut [T])
where
    Min: Map2<T, T>,
    Max: Map2<T, T>,
{
    for (c, &a) in out.iter_mut().zip(a) {
        *c = Min.apply(Max.apply(a, low), high);
    }
}

macro_rules! bounded {
    ($low:ident, $high:ident: $($t:ident),*) => {
        $(impl Bounded for $t {
            const LOWEST: Self = $t::$low;
            const HIGHEST: Self = $t::$high;
            #[inline(always)]
            fn clip<I: Isa>(_: I, low: Self, high: Self, a: &[Self], out: &mut [Self]) {
                clip_plain(low, high, a, out);
            }
        })*
    };
}

macro_rules! bounded_halves {
    ($($t:ident),*) => {
        $(impl Bounded for $t {
            const LOWEST: Self = $t::NEG_INFINITY;
            const HIGHEST: Self = $t::INFINITY;
            #[inline(always)]
            fn clip<I: Isa>(isa: I, low: Self, high: Self, a: &[Self], out: &mut [Self]) {
                clip_half(isa, low, high, a, out);
            }
        })*
    };
}

#[inline(always)]
fn clip_half<I: Isa, H: Half>(isa: I, low: H, high: H, a: &[H], out: &mut [H]) {
    let mut bounds = [0f32; 2];
    widen(isa, &[low, high], &mut bounds);
    let (mut wide, mut result) = ([0f32; BLOCK], [0f32; BLOCK]);
    for (a, out) in a.chunks(BLOCK).zip(out.chunks_mut(BLOCK)) {
        let n = a.len();
        widen(isa, a, &mut wide);
        clip_plain(bounds[0], bounds[1], &wide[..n], &mut result[..n]);
        narrow(isa, &result, out);
    }
}

bounded!(NEG_INFINITY, INFINITY: f32, f64);
bounded!(MIN, MAX: i8, i16, i32, i64, u8, u16, u32, u64);
bounded_halves!(f16, bf16);

struct ClipChunk<'a, T> {
    low: T,
    high: T,
    a: &'a [T],
    out: &'a mut [T],
}

impl<T: Bounded> SimdOp for ClipChunk<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        T::clip(isa, self.low, self.high, self.a, self.out);
    }
}

fn run<T: Bounded>(call: Call<'_>, output: &mut [u8]) -> Result<(), ElementwiseError> {
    let bound = |view: Option<TensorView<'_>>, omitted: T| -> Result<T, ElementwiseError> {
        match view {
            Some(view) => Ok(view.as_slice::<T>()?[0]),
            None => Ok(omitted),
        }
    };
    let (low, high) = (bound(call.low, T::LOWEST)?, bound(call.high, T::HIGHEST)?);
    let a: &[T] = bytemuck::cast_slice(call.input);
    let out: &mut [T] = bytemuck::cast_slice_mut(output);
    let tier = call.tier;
    call.lanes
        .region_over(&region::UNARY, call.spec, out, 1, |chunk, out| {
            let op = ClipChunk {
                low,
                high,
                a: &a[chunk.range],
                out,
            };
            dispatch(tier, op);
        })?;
    Ok(())
}
