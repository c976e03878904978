//! `Where`: elements of one of two operands by a condition.

use crate::binary::expect_broadcast;
use crate::body::Operand;
use crate::broadcast::{BLOCK, Plan};
use crate::unary::expect_type;
use crate::{ElementwiseError, region};
use bytemuck::Pod;
use onl_cpu::IsaTier;
use onl_executor::{Lanes, RegionSpec};
use onl_simd::{Isa, SimdOp, dispatch};
use onl_snapshot::ParallelConfig;
use onl_tensor::{Bool, ElementType, TensorView, TensorViewMut};
use std::ops::Range;

/// `condition ? x : y` with three-way broadcasting, for every element type of at least one byte and strings, chosen for
/// a type and a tier. Elements are moved, never computed with: NaN payloads stay.
#[derive(Clone, Copy)]
pub struct Select {
    element_type: ElementType,
    tier: IsaTier,
    function: Function,
}

struct Call<'a> {
    tier: IsaTier,
    plan: Plan<3>,
    condition: &'a [Bool],
    x: TensorView<'a>,
    y: TensorView<'a>,
    spec: RegionSpec,
    lanes: Lanes<'a>,
}

type Function = fn(Call<'_>, &mut TensorViewMut<'_>) -> Result<(), ElementwiseError>;

impl Select {
    /// Chooses the loops for an element type.
    ///
    /// # Errors
    /// [`ElementwiseError::ElementType`] for types of less than a byte.
    pub fn new(element_type: ElementType, tier: IsaTier) -> Result<Self, ElementwiseError> {
        let function: Function = match (element_type, element_type.bits()) {
            (ElementType::String, _) => run_strings,
            (_, 8) => run::<u8>,
            (_, 16) => run::<u16>,
            (_, 32) => run::<u32>,
            (ElementType::Complex64, _) => run::<[u32; 2]>,
            (_, 64) => run::<u64>,
            (_, 128) => run::<[u64; 2]>,
            _ => {
                return Err(ElementwiseError::ElementType {
                    operation: "Where",
                    element_type,
                });
            }
        };
        Ok(Select {
            element_type,
            tier,
            function,
        })
    }

    /// Computes `output`, whose shape is [`broadcast_shape`](crate::broadcast_shape) of the three shapes.
    ///
    /// # Errors
    /// As [`Binary::run`](crate::Binary::run), without division.
    pub fn run(
        &self,
        condition: TensorView<'_>,
        x: TensorView<'_>,
        y: TensorView<'_>,
        output: &mut TensorViewMut<'_>,
        config: &ParallelConfig,
        lanes: Lanes<'_>,
    ) -> Result<(), ElementwiseError> {
        expect_type(self.element_type, x.element_type())?;
        expect_type(self.element_type, y.element_type())?;
        expect_type(self.element_type, output.element_type())?;
        let operands = [condition.dims(), x.dims(), y.dims()];
        expect_broadcast(&operands, output.dims())?;
        let nanoseconds = match self.element_type {
            ElementType::String => 20.0,
            _ => 0.1 + self.element_type.bits() as f64 / 8.0 * 0.1,
        };
        let call = Call {
            tier: self.tier,
            plan: Plan::new(output.dims(), operands),
            condition: condition.as_slice::<Bool>()?,
            x,
            y,
            spec: region::division(output.len(), config, nanoseconds),
            lanes,
        };
        (self.function)(call, output)
    }
}

fn run<T: Pod + Send + Sync>(
    call: Call<'_>,
    output: &mut TensorViewMut<'_>,
) -> Result<(), ElementwiseError> {
    let x: &[T] = bytemuck::cast_slice(call.x.bytes());
    let y: &[T] = bytemuck::cast_slice(call.y.bytes());
    let out: &mut [T] = bytemuck::cast_slice_mut(output.bytes_mut());
    let (tier, plan, condition) = (call.tier, &call.plan, call.condition);
    call.lanes
        .region_over(&region::SELECT, call.spec, out, 1, |chunk, out| {
            let op = SelectChunk {
                plan,
                condition,
                x,
                y,
                range: chunk.range,
                out,
            };
            dispatch(tier, op);
        })?;
    Ok(())
}

fn run_strings(call: Call<'_>, output: &mut TensorViewMut<'_>) -> Result<(), ElementwiseError> {
    let (x, y) = (call.x.as_strings()?, call.y.as_strings()?);
    let out = output.as_strings_mut()?;
    let (plan, condition) = (&call.plan, call.condition);
    call.lanes
        .region_over(&region::SELECT, call.spec, out, 1, |chunk, out| {
            let mut out = out.iter_mut();
            for run in plan.runs(chunk.range) {
                for (i, out) in out.by_ref().take(run.len).enumerate() {
                    let at = |k: usize| run.offsets[k] + i * plan.inner_stride(k);
                    let chosen = if bool::from(condition[at(0)]) {
                        &x[at(1)]
                    } else {
                        &y[at(2)]
                    };
                    out.clone_from(chosen);
                }
            }
        })?;
    Ok(())
}

struct SelectChunk<'a, T> {
    plan: &'a Plan<3>,
    condition: &'a [Bool],
    x: &'a [T],
    y: &'a [T],
    range: Range<usize>,
    out: &'a mut [T],
}

impl<T: Pod> SimdOp for SelectChunk<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, _: I) {
        let SelectChunk {
            plan,
            condition,
            x,
            y,
            range,
            out,
        } = self;
        let first = range.start;
        if plan.has_short_rows() {
            let mut condition_buffer = [Bool(0); BLOCK];
            let (mut x_buffer, mut y_buffer) = ([T::zeroed(); BLOCK], [T::zeroed(); BLOCK]);
            let mut blocks = plan.blocks(range);
            while let Some(block) = blocks.advance() {
                let condition = blocks.operand(0, condition, &block, &mut condition_buffer);
                let x = Operand::Block(blocks.operand(1, x, &block, &mut x_buffer));
                let y = Operand::Block(blocks.operand(2, y, &block, &mut y_buffer));
                let out = &mut out[block.start - first..block.end - first];
                select(Operand::Block(condition), x, y, out);
            }
            return;
        }
        for run in plan.runs(range) {
            let condition =
                Operand::of_run(condition, run.offsets[0], plan.inner_stride(0), run.len);
            let x = Operand::of_run(x, run.offsets[1], plan.inner_stride(1), run.len);
            let y = Operand::of_run(y, run.offsets[2], plan.inner_stride(2), run.len);
            select(condition, x, y, &mut out[run.position - first..][..run.len]);
        }
    }
}

#[inline(always)]
fn select<T: Copy>(
    condition: Operand<'_, Bool>,
    x: Operand<'_, T>,
    y: Operand<'_, T>,
    out: &mut [T],
) {
    let condition = match condition {
        Operand::Block(condition) => condition,
        Operand::One(condition) => {
            match if bool::from(condition) { x } else { y } {
                Operand::Block(chosen) => out.copy_from_slice(chosen),
                Operand::One(chosen) => out.fill(chosen),
            }
            return;
        }
    };
    match (x, y) {
        (Operand::Block(x), Operand::Block(y)) => {
            for (((out, &c), &x), &y) in out.iter_mut().zip(condition).zip(x).zip(y) {
                *out = if c.0 != 0 { x } else { y };
            }
        }
        (Operand::Block(x), Operand::One(y)) => {
            for ((out, &c), &x) in out.iter_mut().zip(condition).zip(x) {
                *out = if c.0 != 0 { x } else { y };
            }
        }
        (Operand::One(x), Operand::Block(y)) => {
            for ((out, &c), &y) in out.iter_mut().zip(condition).zip(y) {
                *out = if c.0 != 0 { x } else { y };
            }
        }
        (Operand::One(x), Operand::One(y)) => {
            for (out, &c) in out.iter_mut().zip(condition) {
                *out = if c.0 != 0 { x } else { y };
            }
        }
    }
}
