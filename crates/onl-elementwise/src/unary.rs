//! Operations of one operand.

use crate::body::{Plain, UnaryBody, UnaryChunk, Widened};
use crate::math::{GeluTanh, Vector};
use crate::operations::{
    Abs, BitNot, Ceil, Floor, HalfAbs, HalfNeg, IsInf, IsNan, Neg, Not, Reciprocal, Relu, Round,
    Sign, Sqrt,
};
use crate::{ElementwiseError, region};
use half::{bf16, f16};
use onl_cpu::IsaTier;
use onl_executor::{Lanes, RegionSpec};
use onl_simd::dispatch;
use onl_simd::math::{Cos, Erf, Exp, Gelu, Log, Sigmoid, Sin, Tanh};
use onl_snapshot::ParallelConfig;
use onl_tensor::{Bool, Element, ElementType, TensorError, TensorView, TensorViewMut};

/// An operation of one operand.
///
/// Float types are f32, f64, f16 and bf16; 16-bit floats are computed as f32 and rounded once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// Absolute value of every numeric type; the smallest signed integer stays.
    Abs,
    /// Sign changed, of floats and signed integers; the smallest signed integer stays.
    Neg,
    /// e to the power, of floats.
    Exp,
    /// Natural logarithm of floats; NaN below zero.
    Log,
    /// Square root of floats, correctly rounded; NaN below zero.
    Sqrt,
    /// 1 / x of floats, correctly rounded.
    Reciprocal,
    /// 1 / (1 + e^-x) of floats.
    Sigmoid,
    /// Hyperbolic tangent of floats.
    Tanh,
    /// Error function of floats.
    Erf,
    /// Sine of floats.
    Sin,
    /// Cosine of floats.
    Cos,
    /// x Φ(x) of floats with Φ the normal distribution function.
    Gelu,
    /// x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2 of floats.
    GeluTanh,
    /// max(x, 0) of floats and signed integers; NaN stays NaN.
    Relu,
    /// Largest integer not above, of floats.
    Floor,
    /// Smallest integer not below, of floats.
    Ceil,
    /// Nearest integer, halves to the even one, of floats.
    Round,
    /// −1, 0 or 1 by the sign, of every numeric type; NaN stays NaN.
    Sign,
    /// Whether a float is NaN; gives booleans.
    IsNan,
    /// Whether a float is infinite with an admitted sign; gives booleans.
    IsInf {
        /// Whether −∞ counts.
        negative: bool,
        /// Whether +∞ counts.
        positive: bool,
    },
    /// Negation of booleans.
    Not,
    /// All bits flipped, of integers.
    BitwiseNot,
}

/// An operation of one operand, chosen for an element type and an instruction-set tier.
#[derive(Clone, Copy)]
pub struct Unary {
    element_type: ElementType,
    output_type: ElementType,
    nanoseconds_per_element: f64,
    tier: IsaTier,
    function: Function,
}

type Function =
    fn(IsaTier, &[u8], &mut [u8], RegionSpec, Lanes<'_>) -> Result<(), ElementwiseError>;

impl Unary {
    /// Chooses the loops of an operation.
    ///
    /// # Errors
    /// [`ElementwiseError::ElementType`] when the operation is not defined for the type.
    pub fn new(
        op: UnaryOp,
        element_type: ElementType,
        tier: IsaTier,
    ) -> Result<Self, ElementwiseError> {
        let function = function(op, element_type).ok_or(ElementwiseError::ElementType {
            operation: op.name(),
            element_type,
        })?;
        Ok(Unary {
            element_type,
            output_type: op.output_type(element_type),
            nanoseconds_per_element: op.nanoseconds_per_element(element_type),
            tier,
            function,
        })
    }

    /// Element type of the output.
    pub fn output_type(&self) -> ElementType {
        self.output_type
    }

    /// Computes `output` (of the shape of `input`).
    ///
    /// # Errors
    /// [`ElementwiseError::Tensor`] when an element type is not the chosen one, [`ElementwiseError::Shapes`] when the
    /// lengths differ, [`ElementwiseError::Region`] when a lane panicked.
    pub fn run(
        &self,
        input: TensorView<'_>,
        output: &mut TensorViewMut<'_>,
        config: &ParallelConfig,
        lanes: Lanes<'_>,
    ) -> Result<(), ElementwiseError> {
        expect_type(self.element_type, input.element_type())?;
        expect_type(self.output_type, output.element_type())?;
        if input.len() != output.len() {
            return Err(ElementwiseError::Shapes {
                shapes: vec![input.dims().to_vec(), output.dims().to_vec()],
                reason: "the output must have the shape of the input".to_owned(),
            });
        }
        let spec = region::division(input.len(), config, self.nanoseconds_per_element);
        (self.function)(self.tier, input.bytes(), output.bytes_mut(), spec, lanes)
    }
}

pub(crate) fn expect_type(
    expected: ElementType,
    actual: ElementType,
) -> Result<(), ElementwiseError> {
    if expected == actual {
        Ok(())
    } else {
        Err(TensorError::ElementType { expected, actual }.into())
    }
}

impl UnaryOp {
    /// Name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            UnaryOp::Abs => "Abs",
            UnaryOp::Neg => "Neg",
            UnaryOp::Exp => "Exp",
            UnaryOp::Log => "Log",
            UnaryOp::Sqrt => "Sqrt",
            UnaryOp::Reciprocal => "Reciprocal",
            UnaryOp::Sigmoid => "Sigmoid",
            UnaryOp::Tanh => "Tanh",
            UnaryOp::Erf => "Erf",
            UnaryOp::Sin => "Sin",
            UnaryOp::Cos => "Cos",
            UnaryOp::Gelu | UnaryOp::GeluTanh => "Gelu",
            UnaryOp::Relu => "Relu",
            UnaryOp::Floor => "Floor",
            UnaryOp::Ceil => "Ceil",
            UnaryOp::Round => "Round",
            UnaryOp::Sign => "Sign",
            UnaryOp::IsNan => "IsNaN",
            UnaryOp::IsInf { .. } => "IsInf",
            UnaryOp::Not => "Not",
            UnaryOp::BitwiseNot => "BitwiseNot",
        }
    }

    /// Element type of the output.
    pub const fn output_type(self, input: ElementType) -> ElementType {
        match self {
            UnaryOp::IsNan | UnaryOp::IsInf { .. } => ElementType::Bool,
            _ => input,
        }
    }

    /// Rough serial cost, which decides whether parked lanes are worth waking.
    fn nanoseconds_per_element(self, element_type: ElementType) -> f64 {
        let memory = element_type.bits() as f64 / 8.0 * 0.08;
        let arithmetic = match self {
            UnaryOp::Exp | UnaryOp::Log | UnaryOp::Sigmoid | UnaryOp::Tanh | UnaryOp::Erf => 0.3,
            UnaryOp::Gelu | UnaryOp::Sin | UnaryOp::Cos => 0.5,
            UnaryOp::GeluTanh => 0.6,
            UnaryOp::Sqrt | UnaryOp::Reciprocal => 0.2,
            _ => 0.0,
        };
        memory
            + arithmetic
                * if element_type == ElementType::Float64 {
                    3.0
                } else {
                    1.0
                }
    }
}

/// Runs body `K` from elements stored as `A` to elements stored as `C`.
fn run<A: Element, C: Element, K: UnaryBody<A, C>>(
    tier: IsaTier,
    input: &[u8],
    output: &mut [u8],
    spec: RegionSpec,
    lanes: Lanes<'_>,
) -> Result<(), ElementwiseError> {
    let a: &[A] = bytemuck::cast_slice(input);
    let out: &mut [C] = bytemuck::cast_slice_mut(output);
    lanes.region_over(&region::UNARY, spec, out, 1, |chunk, out| {
        let op = UnaryChunk {
            body: K::default(),
            a: &a[chunk.range],
            out,
        };
        dispatch(tier, op);
    })?;
    Ok(())
}

/// The loops of an operation for an element type.
fn function(op: UnaryOp, element_type: ElementType) -> Option<Function> {
    use ElementType::{
        BFloat16, Float16, Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32,
        UInt64,
    };

    macro_rules! floats {
        ($body:ty) => {
            match element_type {
                Float32 => run::<f32, f32, $body>,
                Float64 => run::<f64, f64, $body>,
                Float16 => run::<f16, f16, Widened<$body>>,
                BFloat16 => run::<bf16, bf16, Widened<$body>>,
                _ => return None,
            }
        };
    }
    macro_rules! float_tests {
        ($op:ty) => {
            match element_type {
                Float32 => run::<f32, Bool, Plain<$op>>,
                Float64 => run::<f64, Bool, Plain<$op>>,
                Float16 => run::<f16, Bool, Widened<Plain<$op>>>,
                BFloat16 => run::<bf16, Bool, Widened<Plain<$op>>>,
                _ => return None,
            }
        };
    }
    macro_rules! integers {
        ($op:ident: $($onnx:ident $rust:ident),*; else $rest:expr) => {
            match element_type {
                $($onnx => run::<$rust, $rust, Plain<$op>>,)*
                _ => $rest,
            }
        };
    }

    Some(match op {
        UnaryOp::Abs => integers!(Abs: Int8 i8, Int16 i16, Int32 i32, Int64 i64,
        UInt8 u8, UInt16 u16, UInt32 u32, UInt64 u64, Float32 f32, Float64 f64;
        else match element_type {
            Float16 | BFloat16 => run::<u16, u16, Plain<HalfAbs>>,
            _ => return None,
        }),
        UnaryOp::Neg => {
            integers!(Neg: Int8 i8, Int16 i16, Int32 i32, Int64 i64, Float32 f32, Float64 f64;
            else match element_type {
                Float16 | BFloat16 => run::<u16, u16, Plain<HalfNeg>>,
                _ => return None,
            })
        }
        UnaryOp::Exp => floats!(Vector<Exp>),
        UnaryOp::Log => floats!(Vector<Log>),
        UnaryOp::Sigmoid => floats!(Vector<Sigmoid>),
        UnaryOp::Tanh => floats!(Vector<Tanh>),
        UnaryOp::Erf => floats!(Vector<Erf>),
        UnaryOp::Sin => floats!(Vector<Sin>),
        UnaryOp::Cos => floats!(Vector<Cos>),
        UnaryOp::Gelu => floats!(Vector<Gelu>),
        UnaryOp::GeluTanh => floats!(GeluTanh),
        UnaryOp::Sqrt => floats!(Plain<Sqrt>),
        UnaryOp::Reciprocal => floats!(Plain<Reciprocal>),
        UnaryOp::Floor => floats!(Plain<Floor>),
        UnaryOp::Ceil => floats!(Plain<Ceil>),
        UnaryOp::Round => floats!(Plain<Round>),
        UnaryOp::Relu => {
            integers!(Relu: Int8 i8, Int16 i16, Int32 i32, Int64 i64; else floats!(Plain<Relu>))
        }
        UnaryOp::Sign => integers!(Sign: Int8 i8, Int16 i16, Int32 i32, Int64 i64,
            UInt8 u8, UInt16 u16, UInt32 u32, UInt64 u64; else floats!(Plain<Sign>)),
        UnaryOp::IsNan => float_tests!(IsNan),
        UnaryOp::IsInf { negative, positive } => match (negative, positive) {
            (false, false) => float_tests!(IsInf<false, false>),
            (false, true) => float_tests!(IsInf<false, true>),
            (true, false) => float_tests!(IsInf<true, false>),
            (true, true) => float_tests!(IsInf<true, true>),
        },
        UnaryOp::Not => match element_type {
            ElementType::Bool => run::<u8, u8, Plain<Not>>,
            _ => return None,
        },
        UnaryOp::BitwiseNot => match element_type {
            Int8 | UInt8 => run::<u8, u8, Plain<BitNot>>,
            Int16 | UInt16 => run::<u16, u16, Plain<BitNot>>,
            Int32 | UInt32 => run::<u32, u32, Plain<BitNot>>,
            Int64 | UInt64 => run::<u64, u64, Plain<BitNot>>,
            _ => return None,
        },
    })
}
