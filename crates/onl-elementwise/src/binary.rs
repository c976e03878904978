//! Operations of two operands with multidirectional broadcasting.

use crate::body::{BinaryBody, BinaryChunk, Division, Plain, Remainder, Widened};
use crate::broadcast::Plan;
use crate::operations::{
    Add, And, Div, Equal, Less, LessOrEqual, Max, Min, ModFloor, ModTruncated, Mul, Or, PRelu,
    ShiftLeft, ShiftRight, Sub, Xor,
};
use crate::unary::expect_type;
use crate::{ElementwiseError, region};
use half::{bf16, f16};
use onl_cpu::IsaTier;
use onl_executor::{Lanes, RegionSpec};
use onl_simd::dispatch;
use onl_snapshot::ParallelConfig;
use onl_tensor::{Bool, Element, ElementType, TensorView, TensorViewMut};
use std::sync::atomic::{AtomicUsize, Ordering};

/// An operation of two operands of one element type.
///
/// *Numeric* types are f32, f64, f16, bf16 and the signed and unsigned integers of 8 to 64 bits. Integer arithmetic
/// wraps; 16-bit floats are computed as f32 and rounded once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// a + b, numeric.
    Add,
    /// a − b, numeric.
    Sub,
    /// a · b, numeric.
    Mul,
    /// a / b, numeric; integers truncate towards zero, division by zero is an error.
    Div,
    /// Remainder with the sign of b, numeric; a zero integer b is an error. With floats an infinite b gives a or, if
    /// the signs differ, b.
    ModFloor,
    /// Remainder with the sign of a, numeric (C's `fmod` for floats); a zero integer b is an error.
    ModTruncated,
    /// The smaller operand, numeric; NaN when either is NaN.
    Min,
    /// The larger operand, numeric; NaN when either is NaN.
    Max,
    /// a = b, numeric, booleans and strings; gives booleans.
    Equal,
    /// a < b, numeric; gives booleans.
    Less,
    /// a ≤ b, numeric; gives booleans.
    LessOrEqual,
    /// a > b, numeric; gives booleans.
    Greater,
    /// a ≥ b, numeric; gives booleans.
    GreaterOrEqual,
    /// Conjunction of booleans, or bit by bit of integers.
    And,
    /// Disjunction of booleans, or bit by bit of integers.
    Or,
    /// Exclusive disjunction of booleans, or bit by bit of integers.
    Xor,
    /// a · 2^b of integers; 0 when b is negative, or the width or more.
    ShiftLeft,
    /// ⌊a / 2^b⌋ of integers; when b is negative, or the width or more, −1 for a negative a and 0 else.
    ShiftRight,
    /// a, or a · b where a is negative; floats and integers of 32 and 64 bits.
    PRelu,
}

/// An operation of two operands, chosen for an element type and an instruction-set tier.
#[derive(Clone, Copy)]
pub struct Binary {
    element_type: ElementType,
    output_type: ElementType,
    nanoseconds_per_element: f64,
    swapped: bool,
    tier: IsaTier,
    function: Function,
}

struct Call<'a> {
    tier: IsaTier,
    plan: Plan<2>,
    a: TensorView<'a>,
    b: TensorView<'a>,
    spec: RegionSpec,
    lanes: Lanes<'a>,
}

type Function = fn(Call<'_>, &mut TensorViewMut<'_>) -> Result<(), ElementwiseError>;

impl Binary {
    /// Chooses the loops of an operation.
    ///
    /// # Errors
    /// [`ElementwiseError::ElementType`] when the operation is not defined for the type.
    pub fn new(
        op: BinaryOp,
        element_type: ElementType,
        tier: IsaTier,
    ) -> Result<Self, ElementwiseError> {
        let function = function(op, element_type).ok_or(ElementwiseError::ElementType {
            operation: op.name(),
            element_type,
        })?;
        Ok(Binary {
            element_type,
            output_type: op.output_type(element_type),
            nanoseconds_per_element: op.nanoseconds_per_element(element_type),
            swapped: matches!(op, BinaryOp::Greater | BinaryOp::GreaterOrEqual),
            tier,
            function,
        })
    }

    /// Element type of the output.
    pub fn output_type(&self) -> ElementType {
        self.output_type
    }

    /// Computes `output`, whose shape is [`broadcast_shape`](crate::broadcast_shape) of the operands' shapes.
    ///
    /// # Errors
    /// [`ElementwiseError::DivisionByZero`] with the smallest output position, whatever the division among lanes;
    /// [`ElementwiseError::Shapes`] when an operand does not broadcast to the output; [`ElementwiseError::Tensor`] when
    /// an element type is not the chosen one; [`ElementwiseError::Region`] when a lane panicked.
    pub fn run(
        &self,
        a: TensorView<'_>,
        b: TensorView<'_>,
        output: &mut TensorViewMut<'_>,
        config: &ParallelConfig,
        lanes: Lanes<'_>,
    ) -> Result<(), ElementwiseError> {
        for operand in [&a, &b] {
            expect_type(self.element_type, operand.element_type())?;
        }
        expect_type(self.output_type, output.element_type())?;
        expect_broadcast(&[a.dims(), b.dims()], output.dims())?;
        let (a, b) = if self.swapped { (b, a) } else { (a, b) };
        let call = Call {
            tier: self.tier,
            plan: Plan::new(output.dims(), [a.dims(), b.dims()]),
            a,
            b,
            spec: region::division(output.len(), config, self.nanoseconds_per_element),
            lanes,
        };
        (self.function)(call, output)
    }
}

/// Checks that every operand broadcasts to the output shape as it is.
pub(crate) fn expect_broadcast(
    operands: &[&[usize]],
    output: &[usize],
) -> Result<(), ElementwiseError> {
    let fits = operands.iter().all(|operand| {
        operand.len() <= output.len()
            && operand
                .iter()
                .rev()
                .zip(output.iter().rev())
                .all(|(own, size)| own == size || *own == 1)
    });
    if fits {
        return Ok(());
    }
    Err(ElementwiseError::Shapes {
        shapes: operands.iter().map(|s| s.to_vec()).collect(),
        reason: format!("an operand does not broadcast to the output shape {output:?}"),
    })
}

/// Smallest output position at which lanes met an error.
pub(crate) struct FirstError(AtomicUsize);

impl FirstError {
    pub fn new() -> Self {
        FirstError(AtomicUsize::new(usize::MAX))
    }

    pub fn meet(&self, position: Option<usize>) {
        if let Some(position) = position {
            self.0.fetch_min(position, Ordering::Relaxed);
        }
    }

    pub fn into_result(self) -> Result<(), ElementwiseError> {
        match self.0.into_inner() {
            usize::MAX => Ok(()),
            position => Err(ElementwiseError::DivisionByZero { position }),
        }
    }
}

impl BinaryOp {
    /// Name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            BinaryOp::Add => "Add",
            BinaryOp::Sub => "Sub",
            BinaryOp::Mul => "Mul",
            BinaryOp::Div => "Div",
            BinaryOp::ModFloor => "Mod with fmod = 0",
            BinaryOp::ModTruncated => "Mod with fmod = 1",
            BinaryOp::Min => "Min",
            BinaryOp::Max => "Max",
            BinaryOp::Equal => "Equal",
            BinaryOp::Less => "Less",
            BinaryOp::LessOrEqual => "LessOrEqual",
            BinaryOp::Greater => "Greater",
            BinaryOp::GreaterOrEqual => "GreaterOrEqual",
            BinaryOp::And => "And",
            BinaryOp::Or => "Or",
            BinaryOp::Xor => "Xor",
            BinaryOp::ShiftLeft => "BitShift to the left",
            BinaryOp::ShiftRight => "BitShift to the right",
            BinaryOp::PRelu => "PRelu",
        }
    }

    /// Element type of the output.
    pub const fn output_type(self, input: ElementType) -> ElementType {
        match self {
            BinaryOp::Equal
            | BinaryOp::Less
            | BinaryOp::LessOrEqual
            | BinaryOp::Greater
            | BinaryOp::GreaterOrEqual => ElementType::Bool,
            _ => input,
        }
    }

    /// Rough serial cost, which decides whether parked lanes are worth waking.
    fn nanoseconds_per_element(self, element_type: ElementType) -> f64 {
        if element_type == ElementType::String {
            return 5.0;
        }
        let memory = element_type.bits() as f64 / 8.0 * 0.1;
        let arithmetic = match self {
            BinaryOp::Div if element_type.is_float() => 0.2,
            BinaryOp::ModTruncated | BinaryOp::ModFloor if element_type == ElementType::Float64 => {
                8.0
            }
            BinaryOp::Div | BinaryOp::ModFloor | BinaryOp::ModTruncated => 2.0,
            _ => 0.0,
        };
        memory + arithmetic
    }
}

/// Runs body `K` from elements stored as `A` to elements stored as `C`.
fn run<A: Element, C: Element, K: BinaryBody<A, C>>(
    call: Call<'_>,
    output: &mut TensorViewMut<'_>,
) -> Result<(), ElementwiseError> {
    let a: &[A] = bytemuck::cast_slice(call.a.bytes());
    let b: &[A] = bytemuck::cast_slice(call.b.bytes());
    let out: &mut [C] = bytemuck::cast_slice_mut(output.bytes_mut());
    let error = FirstError::new();
    let Call {
        tier, plan, spec, ..
    } = &call;
    call.lanes
        .region_over(&region::BINARY, *spec, out, 1, |chunk, out| {
            let op = BinaryChunk {
                body: K::default(),
                plan,
                a,
                b,
                range: chunk.range,
                out,
            };
            error.meet(dispatch(*tier, op));
        })?;
    error.into_result()
}

/// Equality of strings.
fn run_equal_strings(
    call: Call<'_>,
    output: &mut TensorViewMut<'_>,
) -> Result<(), ElementwiseError> {
    let (a, b) = (call.a.as_strings()?, call.b.as_strings()?);
    let out = output.as_slice_mut::<Bool>()?;
    let plan = &call.plan;
    call.lanes
        .region_over(&region::BINARY, call.spec, out, 1, |chunk, out| {
            let mut out = out.iter_mut();
            for run in plan.runs(chunk.range) {
                for (i, out) in out.by_ref().take(run.len).enumerate() {
                    let a = &a[run.offsets[0] + i * plan.inner_stride(0)];
                    let b = &b[run.offsets[1] + i * plan.inner_stride(1)];
                    *out = Bool::from(a == b);
                }
            }
        })?;
    Ok(())
}

/// The loops of an operation for an element type.
fn function(op: BinaryOp, element_type: ElementType) -> Option<Function> {
    use ElementType::{
        BFloat16, Float16, Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32,
        UInt64,
    };

    // Floats, then integers whose sign matters.
    macro_rules! signed {
        ($op:ident -> $output:tt) => {
            match element_type {
                Int8 => run::<i8, output!(i8 $output), Plain<$op>>,
                Int16 => run::<i16, output!(i16 $output), Plain<$op>>,
                Int32 => run::<i32, output!(i32 $output), Plain<$op>>,
                Int64 => run::<i64, output!(i64 $output), Plain<$op>>,
                _ => unsigned!($op -> $output),
            }
        };
    }
    // Floats and integers, signed ones through the unsigned ones of their width.
    macro_rules! wrapping {
        ($op:ident -> $output:tt) => {
            match element_type {
                Int8 => run::<u8, output!(u8 $output), Plain<$op>>,
                Int16 => run::<u16, output!(u16 $output), Plain<$op>>,
                Int32 => run::<u32, output!(u32 $output), Plain<$op>>,
                Int64 => run::<u64, output!(u64 $output), Plain<$op>>,
                _ => unsigned!($op -> $output),
            }
        };
    }
    macro_rules! unsigned {
        ($op:ident -> $output:tt) => {
            match element_type {
                UInt8 => run::<u8, output!(u8 $output), Plain<$op>>,
                UInt16 => run::<u16, output!(u16 $output), Plain<$op>>,
                UInt32 => run::<u32, output!(u32 $output), Plain<$op>>,
                UInt64 => run::<u64, output!(u64 $output), Plain<$op>>,
                _ => floats!($op -> $output),
            }
        };
    }
    macro_rules! floats {
        ($op:ident -> $output:tt) => {
            match element_type {
                Float32 => run::<f32, output!(f32 $output), Plain<$op>>,
                Float64 => run::<f64, output!(f64 $output), Plain<$op>>,
                Float16 => run::<f16, output!(f16 $output), Widened<Plain<$op>>>,
                BFloat16 => run::<bf16, output!(bf16 $output), Widened<Plain<$op>>>,
                _ => return None,
            }
        };
    }
    macro_rules! bits {
        ($op:ident) => {
            match element_type {
                ElementType::Bool | Int8 | UInt8 => run::<u8, u8, Plain<$op>>,
                Int16 | UInt16 => run::<u16, u16, Plain<$op>>,
                Int32 | UInt32 => run::<u32, u32, Plain<$op>>,
                Int64 | UInt64 => run::<u64, u64, Plain<$op>>,
                _ => return None,
            }
        };
    }
    macro_rules! shifts {
        ($op:ident) => {
            match element_type {
                Int8 => run::<i8, i8, Plain<$op>>,
                Int16 => run::<i16, i16, Plain<$op>>,
                Int32 => run::<i32, i32, Plain<$op>>,
                Int64 => run::<i64, i64, Plain<$op>>,
                UInt8 => run::<u8, u8, Plain<$op>>,
                UInt16 => run::<u16, u16, Plain<$op>>,
                UInt32 => run::<u32, u32, Plain<$op>>,
                UInt64 => run::<u64, u64, Plain<$op>>,
                _ => return None,
            }
        };
    }
    macro_rules! output {
        ($own:ident same) => {
            $own
        };
        ($own:ident bool) => {
            Bool
        };
    }

    Some(match op {
        BinaryOp::Add => wrapping!(Add -> same),
        BinaryOp::Sub => wrapping!(Sub -> same),
        BinaryOp::Mul => wrapping!(Mul -> same),
        BinaryOp::Div => match element_type {
            Int64 => run::<i64, i64, Division<Div>>,
            _ => signed!(Div -> same),
        },
        BinaryOp::ModFloor => match element_type {
            Int64 => run::<i64, i64, Division<ModFloor>>,
            Float32 => run::<f32, f32, Remainder<ModFloor>>,
            Float16 => run::<f16, f16, Widened<Remainder<ModFloor>>>,
            BFloat16 => run::<bf16, bf16, Widened<Remainder<ModFloor>>>,
            _ => signed!(ModFloor -> same),
        },
        BinaryOp::ModTruncated => match element_type {
            Int64 => run::<i64, i64, Division<ModTruncated>>,
            Float32 => run::<f32, f32, Remainder<ModTruncated>>,
            Float16 => run::<f16, f16, Widened<Remainder<ModTruncated>>>,
            BFloat16 => run::<bf16, bf16, Widened<Remainder<ModTruncated>>>,
            _ => signed!(ModTruncated -> same),
        },
        BinaryOp::Min => signed!(Min -> same),
        BinaryOp::Max => signed!(Max -> same),
        BinaryOp::Equal => match element_type {
            ElementType::Bool => run::<u8, Bool, Plain<Equal>>,
            ElementType::String => run_equal_strings,
            _ => wrapping!(Equal -> bool),
        },
        BinaryOp::Less | BinaryOp::Greater => signed!(Less -> bool),
        BinaryOp::LessOrEqual | BinaryOp::GreaterOrEqual => signed!(LessOrEqual -> bool),
        BinaryOp::And => bits!(And),
        BinaryOp::Or => bits!(Or),
        BinaryOp::Xor => bits!(Xor),
        BinaryOp::ShiftLeft => shifts!(ShiftLeft),
        BinaryOp::ShiftRight => shifts!(ShiftRight),
        BinaryOp::PRelu => match element_type {
            Int32 => run::<i32, i32, Plain<PRelu>>,
            Int64 => run::<i64, i64, Plain<PRelu>>,
            UInt32 => run::<u32, u32, Plain<PRelu>>,
            UInt64 => run::<u64, u64, Plain<PRelu>>,
            _ => floats!(PRelu -> same),
        },
    })
}
