//! `Pow`: powers whose exponents may have another type than the bases.

use crate::binary::{FirstError, expect_broadcast};
use crate::body::{Half, narrow, widen};
use crate::broadcast::{BLOCK, Plan};
use crate::math::pow_f32;
use crate::unary::expect_type;
use crate::{ElementwiseError, region};
use half::{bf16, f16};
use onl_cpu::IsaTier;
use onl_executor::{Lanes, RegionSpec};
use onl_simd::{Isa, Scalar, SimdOp, dispatch};
use onl_snapshot::ParallelConfig;
use onl_tensor::{Element, ElementType, TensorView, TensorViewMut};

/// a to the power b, for bases of type f32, f64, f16, bf16, i32 and i64 and exponents of every numeric type, chosen
/// for both types and a tier.
///
/// *Floating bases.* Exponents 1, 2, 3 and ½ mean a, a · a, a · a · a and √a in the arithmetic of the base. Others
/// follow `onl_simd::math` for f32, in f64 where f32 does not hold the exponent, and the `libm` crate for f64.
///
/// *Integer bases.* Integer exponents multiply with wrap-around; negative ones truncate the exact power towards zero,
/// and are a division by zero for base 0. Floating exponents compute in f64, truncate and saturate; NaN gives 0.
#[derive(Clone, Copy)]
pub struct Pow {
    base_type: ElementType,
    exponent_type: ElementType,
    tier: IsaTier,
    function: Function,
}

struct Call<'a> {
    tier: IsaTier,
    plan: Plan<2>,
    bases: &'a [u8],
    exponents: &'a [u8],
    spec: RegionSpec,
    lanes: Lanes<'a>,
}

type Function = fn(Call<'_>, &mut [u8]) -> Result<(), ElementwiseError>;

impl Pow {
    /// Chooses the loops for a pair of types.
    ///
    /// # Errors
    /// [`ElementwiseError::ElementType`] when one of the types is not allowed.
    pub fn new(
        base_type: ElementType,
        exponent_type: ElementType,
        tier: IsaTier,
    ) -> Result<Self, ElementwiseError> {
        let refused = |operation, element_type| ElementwiseError::ElementType {
            operation,
            element_type,
        };
        macro_rules! exponents {
            ($base:ty: $($onnx:ident $exponent:ty),*) => {
                match exponent_type {
                    $(ElementType::$onnx => run::<$base, $exponent>,)*
                    _ => return Err(refused("the exponent of Pow", exponent_type)),
                }
            };
        }
        macro_rules! bases {
            ($($onnx:ident $base:ty),*) => {
                match base_type {
                    $(ElementType::$onnx => exponents!($base:
                        Float32 f32, Float64 f64, Float16 f16, BFloat16 bf16,
                        Int8 i8, Int16 i16, Int32 i32, Int64 i64,
                        UInt8 u8, UInt16 u16, UInt32 u32, UInt64 u64),)*
                    _ => return Err(refused("Pow", base_type)),
                }
            };
        }
        let function: Function =
            bases!(Float32 f32, Float64 f64, Float16 f16, BFloat16 bf16, Int32 i32, Int64 i64);
        Ok(Pow {
            base_type,
            exponent_type,
            tier,
            function,
        })
    }

    /// Computes `output`, of the bases' type and the broadcast shape of the operands.
    ///
    /// # Errors
    /// As [`Binary::run`](crate::Binary::run).
    pub fn run(
        &self,
        bases: TensorView<'_>,
        exponents: TensorView<'_>,
        output: &mut TensorViewMut<'_>,
        config: &ParallelConfig,
        lanes: Lanes<'_>,
    ) -> Result<(), ElementwiseError> {
        expect_type(self.base_type, bases.element_type())?;
        expect_type(self.exponent_type, exponents.element_type())?;
        expect_type(self.base_type, output.element_type())?;
        expect_broadcast(&[bases.dims(), exponents.dims()], output.dims())?;
        let nanoseconds = match self.base_type {
            ElementType::Float64 => 20.0,
            _ => 2.0,
        };
        let call = Call {
            tier: self.tier,
            plan: Plan::new(output.dims(), [bases.dims(), exponents.dims()]),
            bases: bases.bytes(),
            exponents: exponents.bytes(),
            spec: region::division(output.len(), config, nanoseconds),
            lanes,
        };
        (self.function)(call, output.bytes_mut())
    }
}

fn run<B: Base, E: Exponent>(call: Call<'_>, output: &mut [u8]) -> Result<(), ElementwiseError> {
    let bases: &[B] = bytemuck::cast_slice(call.bases);
    let exponents: &[E] = bytemuck::cast_slice(call.exponents);
    let out: &mut [B] = bytemuck::cast_slice_mut(output);
    let error = FirstError::new();
    let (tier, plan) = (call.tier, &call.plan);
    let equal = plan.period(1) == 1;
    call.lanes
        .region_over(&region::BINARY, call.spec, out, 1, |chunk, out| {
            let first = chunk.range.start;
            let mut base_buffer = [B::zeroed(); BLOCK];
            let mut exponent_buffer = [E::zeroed(); BLOCK];
            let mut blocks = plan.blocks(chunk.range);
            while let Some(block) = blocks.advance() {
                let x = blocks.operand(0, bases, &block, &mut base_buffer);
                let y = blocks.operand(1, exponents, &block, &mut exponent_buffer);
                let out = &mut out[block.start - first..block.end - first];
                if let Some(i) = B::power_block(tier, x, y, equal, out) {
                    error.meet(Some(block.start + i));
                    break;
                }
            }
        })?;
    error.into_result()
}

/// An exponent type.
trait Exponent: Element {
    /// Value as f64, rounded.
    fn to_f64(self) -> f64;

    /// Exact value of an integer type.
    fn to_integer(self) -> Option<i128> {
        None
    }

    /// Whether an `f32` is this value exactly, where `f64` is sure to tell.
    #[inline(always)]
    fn equals(self, narrowed: f32) -> bool {
        let wide = self.to_f64();
        f64::from(narrowed) == wide && (wide.is_infinite() || wide.abs() < 9007199254740992.0)
    }

    /// x to this power. Integers that f64 does not hold are so large that only the sign depends on their parity.
    fn power_of(self, x: f64) -> f64 {
        match self.to_integer() {
            Some(exact) if exact & 1 == 1 && x.is_sign_negative() => -libm::pow(-x, self.to_f64()),
            Some(_) => libm::pow(x.abs(), self.to_f64()),
            None => libm::pow(x, self.to_f64()),
        }
    }
}

macro_rules! exponents {
    (floats $($t:ty),*; integers $($i:ty),*) => {
        $(impl Exponent for $t {
            #[inline(always)]
            fn to_f64(self) -> f64 { self.into() }
        })*
        $(impl Exponent for $i {
            #[inline(always)]
            fn to_f64(self) -> f64 { self as f64 }
            #[inline(always)]
            fn to_integer(self) -> Option<i128> { Some(self.into()) }
        })*
    };
}

exponents!(floats f32, f64, f16, bf16; integers i8, i16, i32, i64, u8, u16, u32, u64);

/// A base type.
trait Base: Element {
    /// Powers of a block of at most [`BLOCK`] elements; `equal` tells that all exponents are the same. Gives the index
    /// of the first power that does not exist.
    fn power_block<E: Exponent>(
        tier: IsaTier,
        x: &[Self],
        y: &[E],
        equal: bool,
        out: &mut [Self],
    ) -> Option<usize>;
}

/// Exponents whose powers are products or a root.
macro_rules! special_power {
    ($name:ident, $is_special:ident, $block:ident, $t:ty) => {
        #[inline(always)]
        fn $is_special(y: $t) -> bool {
            y == 1.0 || y == 2.0 || y == 3.0 || y == 0.5
        }

        /// The power where the exponent is special, else `general`.
        #[inline(always)]
        fn $name(x: $t, y: $t, general: $t) -> $t {
            let root = if x == 0.0 {
                0.0
            } else if x == <$t>::NEG_INFINITY {
                <$t>::INFINITY
            } else {
                x.sqrt()
            };
            let result = if y == 0.5 { root } else { general };
            let result = if y == 3.0 { x * x * x } else { result };
            let result = if y == 2.0 { x * x } else { result };
            if y == 1.0 { x } else { result }
        }

        /// The powers of a block with one special exponent: a loop of its own for each.
        #[inline(always)]
        fn $block(x: &[$t], y: $t, out: &mut [$t]) {
            macro_rules! block_of {
                ($special:literal) => {
                    if y == $special {
                        for (c, &x) in out.iter_mut().zip(x) {
                            *c = $name(x, $special, 0.0);
                        }
                    }
                };
            }
            block_of!(1.0);
            block_of!(2.0);
            block_of!(3.0);
            block_of!(0.5);
        }
    };
}

special_power!(special_f32, is_special_f32, special_block_f32, f32);
special_power!(special_f64, is_special_f64, special_block_f64, f64);

/// Powers of f32 elements with exponents that f32 holds.
#[inline(always)]
fn power_f32<I: Isa>(isa: I, x: &[f32], y: &[f32], equal: bool, out: &mut [f32]) {
    match y.first() {
        Some(&y) if equal && is_special_f32(y) => special_block_f32(x, y, out),
        Some(_) if equal => pow_f32(isa, x, y, out),
        _ => {
            pow_f32(isa, x, y, out);
            if y.iter().fold(false, |any, &y| any | is_special_f32(y)) {
                for ((c, &x), &y) in out.iter_mut().zip(x).zip(y) {
                    *c = special_f32(x, y, *c);
                }
            }
        }
    }
}

struct PowerBlock<'a, B> {
    x: &'a [B],
    y: &'a [f32],
    equal: bool,
    out: &'a mut [B],
}

impl SimdOp for PowerBlock<'_, f32> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        power_f32(isa, self.x, self.y, self.equal, self.out);
    }
}

struct HalfPowerBlock<'a, B>(PowerBlock<'a, B>);

impl<B: Half> SimdOp for HalfPowerBlock<'_, B> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        let PowerBlock { x, y, equal, out } = self.0;
        let (mut wide, mut result) = ([0f32; BLOCK], [0f32; BLOCK]);
        let n = x.len();
        widen(isa, x, &mut wide);
        power_f32(isa, &wide[..n], y, equal, &mut result[..n]);
        narrow(isa, &result, out);
    }
}

/// Exponents as f32, of which `equal` ones need no second look; tells whether f32 holds all of them.
fn narrow_exponents<E: Exponent>(y: &[E], equal: bool, target: &mut [f32; BLOCK]) -> bool {
    if let (true, Some(first)) = (equal, y.first()) {
        let narrowed = first.to_f64() as f32;
        target[..y.len()].fill(narrowed);
        return first.equals(narrowed);
    }
    let mut exact = true;
    for (t, &y) in target.iter_mut().zip(y) {
        *t = y.to_f64() as f32;
        exact &= y.equals(*t);
    }
    exact
}

/// The part of a block that f32 exponents cannot compute.
fn correct<B: Copy, E: Exponent>(
    x: &[B],
    y: &[E],
    narrowed: &[f32],
    out: &mut [B],
    widen: fn(B) -> f64,
    narrow: fn(f64) -> B,
) {
    for i in 0..x.len() {
        if !y[i].equals(narrowed[i]) {
            out[i] = narrow(y[i].power_of(widen(x[i])));
        }
    }
}

impl Base for f32 {
    fn power_block<E: Exponent>(
        tier: IsaTier,
        x: &[f32],
        y: &[E],
        equal: bool,
        out: &mut [f32],
    ) -> Option<usize> {
        let mut narrowed = [0f32; BLOCK];
        let exact = narrow_exponents(y, equal, &mut narrowed);
        let op = PowerBlock {
            x,
            y: &narrowed[..x.len()],
            equal,
            out: &mut *out,
        };
        dispatch(tier, op);
        if !exact {
            correct(x, y, &narrowed, out, f64::from, |power| power as f32);
        }
        None
    }
}

macro_rules! half_bases {
    ($($t:ty),*) => {
        $(impl Base for $t {
            fn power_block<E: Exponent>(
                tier: IsaTier,
                x: &[$t],
                y: &[E],
                equal: bool,
                out: &mut [$t],
            ) -> Option<usize> {
                let mut narrowed = [0f32; BLOCK];
                let exact = narrow_exponents(y, equal, &mut narrowed);
                let op = PowerBlock {
                    x,
                    y: &narrowed[..x.len()],
                    equal,
                    out: &mut *out,
                };
                dispatch(tier, HalfPowerBlock(op));
                if !exact {
                    correct(x, y, &narrowed, out, f64::from, |power| {
                        let mut result = [<$t>::ZERO];
                        <$t>::store(Scalar::new(), power as f32, &mut result);
                        result[0]
                    });
                }
                None
            }
        })*
    };
}

half_bases!(f16, bf16);

struct WidePowerBlock<'a> {
    x: &'a [f64],
    y: f64,
    out: &'a mut [f64],
}

impl SimdOp for WidePowerBlock<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, _: I) {
        special_block_f64(self.x, self.y, self.out);
    }
}

impl Base for f64 {
    fn power_block<E: Exponent>(
        tier: IsaTier,
        x: &[f64],
        y: &[E],
        equal: bool,
        out: &mut [f64],
    ) -> Option<usize> {
        if let (true, Some(y)) = (equal, y.first().map(|y| y.to_f64()))
            && is_special_f64(y)
        {
            dispatch(tier, WidePowerBlock { x, y, out });
            return None;
        }
        for ((c, &x), &y) in out.iter_mut().zip(x).zip(y) {
            let wide = y.to_f64();
            *c = if is_special_f64(wide) {
                special_f64(x, wide, 0.0)
            } else {
                y.power_of(x)
            };
        }
        None
    }
}

macro_rules! integer_bases {
    ($($t:ident),*) => {
        $(impl Base for $t {
            fn power_block<E: Exponent>(
                _: IsaTier,
                x: &[$t],
                y: &[E],
                _: bool,
                out: &mut [$t],
            ) -> Option<usize> {
                for (i, (&x, &y)) in x.iter().zip(y).enumerate() {
                    out[i] = match y.to_integer() {
                        None => libm::pow(x as f64, y.to_f64()) as $t,
                        Some(exponent) if exponent >= 0 => {
                            let (mut square, mut rest, mut result) = (x, exponent as u64, 1 as $t);
                            while rest > 0 {
                                if rest & 1 == 1 {
                                    result = result.wrapping_mul(square);
                                }
                                square = square.wrapping_mul(square);
                                rest >>= 1;
                            }
                            result
                        }
                        Some(exponent) => match x {
                            0 => return Some(i),
                            1 => 1,
                            -1 if exponent & 1 == 0 => 1,
                            -1 => -1,
                            _ => 0,
                        },
                    };
                }
                None
            }
        })*
    };
}

integer_bases!(i32, i64);
