//! Operations of one operand.

use crate::body::{Parameters, Plain, UnaryBody, UnaryChunk, Widened};
use crate::math::{Celu, Elu, Selu, Swish, Vector};
use crate::operations::{
    Abs, BitNot, BitsWithin, Ceil, ErfTruncated, Floor, HalfAbs, HalfNeg, HalfRelu, HardSigmoid,
    HardSwish, IsInf, IsNan, LeakyRelu, Neg, Not, Reciprocal, Relu, Round, Shrink, Sign, Softsign,
    Sqrt, ThresholdedRelu,
};
use crate::{ElementwiseError, region};
use half::{bf16, f16};
use onl_cpu::IsaTier;
use onl_executor::{Lanes, RegionSpec};
use onl_simd::dispatch;
use onl_simd::math::{
    Acos, Acosh, Asin, Asinh, Atan, Atanh, Cos, Cosh, Erf, Exp, Gelu, GeluTanh, Log, Mish, Of,
    Sigmoid, Sin, Sinh, Softplus, Tan, Tanh,
};
use onl_snapshot::ParallelConfig;
use onl_tensor::{Bool, Element, ElementType, TensorError, TensorView, TensorViewMut};

/// An operation of one operand.
///
/// Float types are f32, f64, f16 and bf16; 16-bit floats are computed as f32 and rounded once.
#[derive(Debug, Clone, Copy, PartialEq)]
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
    /// Error function of floats, and of integers, truncated.
    Erf,
    /// Sine of floats.
    Sin,
    /// Cosine of floats.
    Cos,
    /// Tangent of floats.
    Tan,
    /// Inverse sine of floats; NaN beyond ±1.
    Asin,
    /// Inverse cosine of floats; NaN beyond ±1.
    Acos,
    /// Inverse tangent of floats.
    Atan,
    /// Hyperbolic sine of floats.
    Sinh,
    /// Hyperbolic cosine of floats.
    Cosh,
    /// Inverse hyperbolic sine of floats.
    Asinh,
    /// Inverse hyperbolic cosine of floats; NaN below 1.
    Acosh,
    /// Inverse hyperbolic tangent of floats; NaN beyond ±1.
    Atanh,
    /// ln(1 + eˣ) of floats.
    Softplus,
    /// x / (1 + |x|) of floats; ±1 at ±∞.
    Softsign,
    /// x tanh(ln(1 + eˣ)) of floats; −0 at −∞.
    Mish,
    /// x / (1 + e^−αx) of floats; 0 where αx is −∞.
    Swish {
        /// Slope of the gate.
        alpha: f32,
    },
    /// x, or α (eˣ − 1) below zero, of floats.
    Elu {
        /// Negative of the limit at −∞.
        alpha: f32,
    },
    /// max(x, 0) + min(α (e^(x/α) − 1), 0) of floats.
    Celu {
        /// Negative of the limit at −∞.
        alpha: f32,
    },
    /// γ x, or γ α (eˣ − 1) from zero down, of floats.
    Selu {
        /// Factor of the exponential side.
        alpha: f32,
        /// Factor of both sides.
        gamma: f32,
    },
    /// min(max(α x + β, 0), 1) of floats, the sum fused.
    HardSigmoid {
        /// Slope.
        alpha: f32,
        /// Value at zero.
        beta: f32,
    },
    /// x · min(max(x + 3, 0), 6) / 6 of floats; −0 at −∞.
    HardSwish,
    /// x, or α x below zero, of floats.
    LeakyRelu {
        /// Slope below zero.
        alpha: f32,
    },
    /// x above α, 0 elsewhere (NaN included), of floats.
    ThresholdedRelu {
        /// Threshold.
        alpha: f32,
    },
    /// x + bias below −λ, x − bias above λ, 0 elsewhere (NaN included), of every numeric type; sums of integers are
    /// truncated towards zero and saturate.
    Shrink {
        /// Threshold.
        lambda: f32,
        /// What is taken off the magnitude.
        bias: f32,
    },
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
    /// Whether a float, of 8 bits included, is NaN; gives booleans.
    IsNan,
    /// Whether a float, of 8 bits included, is infinite with an admitted sign; gives booleans.
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
    parameters: Parameters,
    tier: IsaTier,
    function: Function,
}

struct Call<'a> {
    tier: IsaTier,
    parameters: Parameters,
    input: &'a [u8],
    spec: RegionSpec,
    lanes: Lanes<'a>,
}

type Function = fn(Call<'_>, &mut [u8]) -> Result<(), ElementwiseError>;

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
            parameters: op.parameters(),
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
        let call = Call {
            tier: self.tier,
            parameters: self.parameters,
            input: input.bytes(),
            spec: region::division(input.len(), config, self.nanoseconds_per_element),
            lanes,
        };
        (self.function)(call, output.bytes_mut())
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
            UnaryOp::Tan => "Tan",
            UnaryOp::Asin => "Asin",
            UnaryOp::Acos => "Acos",
            UnaryOp::Atan => "Atan",
            UnaryOp::Sinh => "Sinh",
            UnaryOp::Cosh => "Cosh",
            UnaryOp::Asinh => "Asinh",
            UnaryOp::Acosh => "Acosh",
            UnaryOp::Atanh => "Atanh",
            UnaryOp::Softplus => "Softplus",
            UnaryOp::Softsign => "Softsign",
            UnaryOp::Mish => "Mish",
            UnaryOp::Swish { .. } => "Swish",
            UnaryOp::Elu { .. } => "Elu",
            UnaryOp::Celu { .. } => "Celu",
            UnaryOp::Selu { .. } => "Selu",
            UnaryOp::HardSigmoid { .. } => "HardSigmoid",
            UnaryOp::HardSwish => "HardSwish",
            UnaryOp::LeakyRelu { .. } => "LeakyRelu",
            UnaryOp::ThresholdedRelu { .. } => "ThresholdedRelu",
            UnaryOp::Shrink { .. } => "Shrink",
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

    /// The attributes, under the names that bodies have for them.
    fn parameters(self) -> Parameters {
        let (alpha, beta) = match self {
            UnaryOp::Swish { alpha }
            | UnaryOp::Elu { alpha }
            | UnaryOp::Celu { alpha }
            | UnaryOp::LeakyRelu { alpha }
            | UnaryOp::ThresholdedRelu { alpha } => (alpha, 0.0),
            UnaryOp::Selu { alpha, gamma } => (alpha, gamma),
            UnaryOp::HardSigmoid { alpha, beta } => (alpha, beta),
            UnaryOp::Shrink { lambda, bias } => (lambda, bias),
            _ => (0.0, 0.0),
        };
        Parameters { alpha, beta }
    }

    /// Rough serial cost, which decides whether parked lanes are worth waking.
    fn nanoseconds_per_element(self, element_type: ElementType) -> f64 {
        let memory = element_type.bits() as f64 / 8.0 * 0.08;
        let arithmetic = match self {
            UnaryOp::Exp | UnaryOp::Log | UnaryOp::Sigmoid | UnaryOp::Tanh | UnaryOp::Erf => 0.3,
            UnaryOp::Elu { .. } | UnaryOp::Selu { .. } | UnaryOp::Celu { .. } => 0.3,
            UnaryOp::Gelu | UnaryOp::GeluTanh | UnaryOp::Sin | UnaryOp::Cos | UnaryOp::Tan => 0.5,
            UnaryOp::Softplus | UnaryOp::Mish | UnaryOp::Swish { .. } => 0.5,
            UnaryOp::Asin | UnaryOp::Acos | UnaryOp::Atan | UnaryOp::Sinh | UnaryOp::Cosh => 0.5,
            UnaryOp::Asinh | UnaryOp::Acosh | UnaryOp::Atanh => 2.0,
            UnaryOp::Sqrt | UnaryOp::Reciprocal | UnaryOp::Softsign => 0.2,
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
    call: Call<'_>,
    output: &mut [u8],
) -> Result<(), ElementwiseError> {
    let a: &[A] = bytemuck::cast_slice(call.input);
    let out: &mut [C] = bytemuck::cast_slice_mut(output);
    let (tier, body) = (call.tier, K::with(call.parameters));
    call.lanes
        .region_over(&region::UNARY, call.spec, out, 1, |chunk, out| {
            let op = UnaryChunk {
                body,
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
        BFloat16, Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ, Float16, Float32,
        Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64,
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
    // Bits of 16-bit and 8-bit floats: those under a mask, within bounds.
    macro_rules! bits {
        ($storage:ty: $mask:literal, $low:literal, $high:literal) => {
            run::<$storage, Bool, Plain<BitsWithin<$mask, $low, $high>>>
        };
    }
    // Whether infinities of one sign are looked for, in formats that have them: bits under a mask that equal a value.
    macro_rules! infinities {
        ($negative:literal, $positive:literal: $mask16:literal, $f16:literal, $bf16:literal, $mask8:literal, $e5m2:literal) => {
            match element_type {
                Float32 => run::<f32, Bool, Plain<IsInf<$negative, $positive>>>,
                Float64 => run::<f64, Bool, Plain<IsInf<$negative, $positive>>>,
                Float16 => bits!(u16: $mask16, $f16, $f16),
                BFloat16 => bits!(u16: $mask16, $bf16, $bf16),
                Float8E5M2 => bits!(u8: $mask8, $e5m2, $e5m2),
                Float8E4M3FN | Float8E4M3FNUZ | Float8E5M2FNUZ => bits!(u8: 0xff, 1, 0),
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
        UnaryOp::Exp => floats!(Vector<Of<Exp>>),
        UnaryOp::Log => floats!(Vector<Of<Log>>),
        UnaryOp::Sigmoid => floats!(Vector<Of<Sigmoid>>),
        UnaryOp::Tanh => floats!(Vector<Of<Tanh>>),
        UnaryOp::Sin => floats!(Vector<Of<Sin>>),
        UnaryOp::Cos => floats!(Vector<Of<Cos>>),
        UnaryOp::Tan => floats!(Vector<Of<Tan>>),
        UnaryOp::Asin => floats!(Vector<Of<Asin>>),
        UnaryOp::Acos => floats!(Vector<Of<Acos>>),
        UnaryOp::Atan => floats!(Vector<Of<Atan>>),
        UnaryOp::Sinh => floats!(Vector<Of<Sinh>>),
        UnaryOp::Cosh => floats!(Vector<Of<Cosh>>),
        UnaryOp::Asinh => floats!(Vector<Of<Asinh>>),
        UnaryOp::Acosh => floats!(Vector<Of<Acosh>>),
        UnaryOp::Atanh => floats!(Vector<Of<Atanh>>),
        UnaryOp::Softplus => floats!(Vector<Of<Softplus>>),
        UnaryOp::Mish => floats!(Vector<Of<Mish>>),
        UnaryOp::Gelu => floats!(Vector<Of<Gelu>>),
        UnaryOp::GeluTanh => floats!(Vector<Of<GeluTanh>>),
        UnaryOp::Erf => integers!(ErfTruncated: Int8 i8, Int16 i16, Int32 i32, Int64 i64,
            UInt8 u8, UInt16 u16, UInt32 u32, UInt64 u64; else floats!(Vector<Of<Erf>>)),
        UnaryOp::Swish { .. } => floats!(Vector<Swish>),
        UnaryOp::Elu { .. } => floats!(Vector<Elu>),
        UnaryOp::Celu { .. } => floats!(Vector<Celu>),
        UnaryOp::Selu { .. } => floats!(Vector<Selu>),
        UnaryOp::Softsign => floats!(Plain<Softsign>),
        UnaryOp::HardSigmoid { .. } => floats!(Plain<HardSigmoid>),
        UnaryOp::HardSwish => floats!(Plain<HardSwish>),
        UnaryOp::LeakyRelu { .. } => floats!(Plain<LeakyRelu>),
        UnaryOp::ThresholdedRelu { .. } => floats!(Plain<ThresholdedRelu>),
        UnaryOp::Shrink { .. } => integers!(Shrink: Int8 i8, Int16 i16, Int32 i32, Int64 i64,
            UInt8 u8, UInt16 u16, UInt32 u32, UInt64 u64; else floats!(Plain<Shrink>)),
        UnaryOp::Sqrt => floats!(Plain<Sqrt>),
        UnaryOp::Reciprocal => floats!(Plain<Reciprocal>),
        UnaryOp::Floor => floats!(Plain<Floor>),
        UnaryOp::Ceil => floats!(Plain<Ceil>),
        UnaryOp::Round => floats!(Plain<Round>),
        UnaryOp::Relu => {
            integers!(Relu: Int8 i8, Int16 i16, Int32 i32, Int64 i64, Float32 f32, Float64 f64;
            else match element_type {
                Float16 => run::<u16, u16, Plain<HalfRelu<0xfc00>>>,
                BFloat16 => run::<u16, u16, Plain<HalfRelu<0xff80>>>,
                _ => return None,
            })
        }
        UnaryOp::Sign => integers!(Sign: Int8 i8, Int16 i16, Int32 i32, Int64 i64,
            UInt8 u8, UInt16 u16, UInt32 u32, UInt64 u64; else floats!(Plain<Sign>)),
        UnaryOp::IsNan => match element_type {
            Float32 => run::<f32, Bool, Plain<IsNan>>,
            Float64 => run::<f64, Bool, Plain<IsNan>>,
            Float16 => bits!(u16: 0x7fff, 0x7c01, 0x7fff),
            BFloat16 => bits!(u16: 0x7fff, 0x7f81, 0x7fff),
            Float8E4M3FN => bits!(u8: 0x7f, 0x7f, 0x7f),
            Float8E5M2 => bits!(u8: 0x7f, 0x7d, 0x7f),
            Float8E4M3FNUZ | Float8E5M2FNUZ => bits!(u8: 0xff, 0x80, 0x80),
            _ => return None,
        },
        UnaryOp::IsInf { negative, positive } => match (negative, positive) {
            (false, false) => infinities!(false, false: 0, 1, 1, 0, 1),
            (false, true) => infinities!(false, true: 0xffff, 0x7c00, 0x7f80, 0xff, 0x7c),
            (true, false) => infinities!(true, false: 0xffff, 0xfc00, 0xff80, 0xff, 0xfc),
            (true, true) => infinities!(true, true: 0x7fff, 0x7c00, 0x7f80, 0x7f, 0x7c),
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
