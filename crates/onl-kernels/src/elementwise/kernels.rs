//! Prepared kernels: from attributes and types of a node to an operation of `onl_elementwise`.

use super::{REVISION, implementation};
use crate::{KernelError, KernelIo, PrepareContext, PrepareError, PreparedKernel};
use onl_elementwise::{
    Binary, BinaryOp, Clip, ElementwiseError, Pow, Select, Unary, UnaryOp, Variadic, VariadicOp,
    broadcast_shape,
};
use onl_executor::Lanes;
use onl_ir::NodeView;
use onl_snapshot::{KernelKey, ParallelConfig, Tuned};
use onl_tensor::{ElementType, Tensor, TensorView, bf16, f16};
use smallvec::SmallVec;
use std::ops::RangeInclusive;

type Prepared = Result<Box<dyn PreparedKernel>, PrepareError>;

/// Element type of an input, which the types of the graph must tell.
fn element_type(node: &NodeView<'_>, index: usize) -> Result<ElementType, PrepareError> {
    if node.input(index).is_none() {
        return Err(PrepareError::MissingInput { index });
    }
    node.input_element_type(index).ok_or_else(|| {
        PrepareError::Other(format!(
            "the element type of input {index} is unknown; infer types before preparing kernels"
        ))
    })
}

/// Checks that all inputs of a range that are there have one element type.
fn expect_types(
    node: &NodeView<'_>,
    inputs: impl Iterator<Item = usize>,
    expected: ElementType,
) -> Result<(), PrepareError> {
    for index in inputs {
        if let Some(actual) = node.input_element_type(index)
            && actual != expected
        {
            return Err(PrepareError::ElementType {
                index,
                element_type: actual,
                allowed: format!("it must be {expected} as the other inputs are"),
            });
        }
    }
    Ok(())
}

fn expect_inputs(node: &NodeView<'_>, allowed: RangeInclusive<usize>) -> Result<(), PrepareError> {
    let actual = node.input_count();
    if allowed.contains(&actual) {
        return Ok(());
    }
    let (first, last) = (*allowed.start(), *allowed.end());
    Err(PrepareError::Arity {
        what: "number of",
        expected: match last {
            usize::MAX => format!("{first} or more inputs"),
            _ if first == last => format!("{first} inputs"),
            _ => format!("{first} to {last} inputs"),
        },
        actual,
    })
}

/// Tuning key of an operator's entry for an element type.
pub(super) fn key(op_type: &str, element_type: ElementType) -> KernelKey {
    KernelKey {
        kernel: op_type.to_owned().into(),
        ..KernelKey::builtin("", implementation(element_type), element_type, REVISION)
    }
}

fn tuned(
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
    element_type: ElementType,
) -> Tuned<ParallelConfig> {
    let key = key(&node.node.op.op_type, element_type);
    context.snapshot.config(&key)
}

fn refuse(error: ElementwiseError) -> PrepareError {
    match error {
        ElementwiseError::ElementType {
            operation,
            element_type,
        } => PrepareError::ElementType {
            index: 0,
            element_type,
            allowed: format!("{operation} is not defined for it"),
        },
        other => PrepareError::Other(other.to_string()),
    }
}

fn unknown(node: &NodeView<'_>) -> PrepareError {
    PrepareError::Other(format!("{} is not an elementwise operator", node.node.op))
}

struct UnaryKernel {
    operation: Unary,
    config: Tuned<ParallelConfig>,
}

impl PreparedKernel for UnaryKernel {
    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let x = io.input(0)?;
        let config = self.config.at(x.len() as u64);
        let mut output = io.output(0, self.operation.output_type(), x.dims())?;
        Ok(self.operation.run(x, &mut output, config, lanes)?)
    }
}

pub(super) fn prepare_unary(node: &NodeView<'_>, context: &PrepareContext<'_>) -> Prepared {
    expect_inputs(node, 1..=1)?;
    let element_type = element_type(node, 0)?;
    let float =
        |name, default| -> Result<f32, PrepareError> { Ok(node.float(name)?.unwrap_or(default)) };
    let op = match node.node.op.op_type.as_str() {
        "Abs" => UnaryOp::Abs,
        "Neg" => UnaryOp::Neg,
        "Not" => UnaryOp::Not,
        "Exp" => UnaryOp::Exp,
        "Log" => UnaryOp::Log,
        "Sqrt" => UnaryOp::Sqrt,
        "Reciprocal" => UnaryOp::Reciprocal,
        "Sigmoid" => UnaryOp::Sigmoid,
        "Tanh" => UnaryOp::Tanh,
        "Erf" => UnaryOp::Erf,
        "Sin" => UnaryOp::Sin,
        "Cos" => UnaryOp::Cos,
        "Tan" => UnaryOp::Tan,
        "Asin" => UnaryOp::Asin,
        "Acos" => UnaryOp::Acos,
        "Atan" => UnaryOp::Atan,
        "Sinh" => UnaryOp::Sinh,
        "Cosh" => UnaryOp::Cosh,
        "Asinh" => UnaryOp::Asinh,
        "Acosh" => UnaryOp::Acosh,
        "Atanh" => UnaryOp::Atanh,
        "Softplus" => UnaryOp::Softplus,
        "Softsign" => UnaryOp::Softsign,
        "Mish" => UnaryOp::Mish,
        "HardSwish" => UnaryOp::HardSwish,
        "Swish" => UnaryOp::Swish {
            alpha: float("alpha", 1.0)?,
        },
        "Elu" => UnaryOp::Elu {
            alpha: float("alpha", 1.0)?,
        },
        "Celu" => UnaryOp::Celu {
            alpha: float("alpha", 1.0)?,
        },
        "Selu" => UnaryOp::Selu {
            alpha: float("alpha", 1.673_263_2)?,
            gamma: float("gamma", 1.050_701)?,
        },
        "HardSigmoid" => UnaryOp::HardSigmoid {
            alpha: float("alpha", 0.2)?,
            beta: float("beta", 0.5)?,
        },
        "LeakyRelu" => UnaryOp::LeakyRelu {
            alpha: float("alpha", 0.01)?,
        },
        "ThresholdedRelu" => UnaryOp::ThresholdedRelu {
            alpha: float("alpha", 1.0)?,
        },
        "Shrink" => UnaryOp::Shrink {
            lambda: float("lambd", 0.5)?,
            bias: float("bias", 0.0)?,
        },
        "Gelu" => match node.string("approximate")?.unwrap_or("none") {
            "none" => UnaryOp::Gelu,
            "tanh" => UnaryOp::GeluTanh,
            other => {
                return Err(PrepareError::Attribute {
                    attribute: "approximate",
                    reason: format!("'{other}' is neither 'none' nor 'tanh'"),
                });
            }
        },
        "Relu" => UnaryOp::Relu,
        "Floor" => UnaryOp::Floor,
        "Ceil" => UnaryOp::Ceil,
        "Round" => UnaryOp::Round,
        "Sign" => UnaryOp::Sign,
        "BitwiseNot" => UnaryOp::BitwiseNot,
        "IsNaN" => UnaryOp::IsNan,
        "IsInf" => UnaryOp::IsInf {
            negative: node.int("detect_negative")?.unwrap_or(1) != 0,
            positive: node.int("detect_positive")?.unwrap_or(1) != 0,
        },
        _ => return Err(unknown(node)),
    };
    Ok(Box::new(UnaryKernel {
        operation: Unary::new(op, element_type, context.tier).map_err(refuse)?,
        config: tuned(node, context, element_type),
    }))
}

struct ClipKernel {
    operation: Clip,
    /// Bounds that are attributes rather than inputs.
    fixed: Option<[Option<Tensor>; 2]>,
    element_type: ElementType,
    config: Tuned<ParallelConfig>,
}

impl PreparedKernel for ClipKernel {
    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let x = io.input(0)?;
        let config = self.config.at(x.len() as u64);
        let (low, high) = match &self.fixed {
            Some([low, high]) => (
                low.as_ref().map(Tensor::view),
                high.as_ref().map(Tensor::view),
            ),
            None => (io.optional_input(1), io.optional_input(2)),
        };
        let mut output = io.output(0, self.element_type, x.dims())?;
        let operation = &self.operation;
        Ok(operation.run(x, low, high, &mut output, config, lanes)?)
    }
}

pub(super) fn prepare_clip(node: &NodeView<'_>, context: &PrepareContext<'_>) -> Prepared {
    let element_type = element_type(node, 0)?;
    // Bounds became inputs in operator set 11.
    let fixed = if node.opset < 11 {
        expect_inputs(node, 1..=1)?;
        let bound = |name| -> Result<Option<Tensor>, PrepareError> {
            let value = node.float(name)?;
            Ok(value.map(|v| scalar(element_type, v)).transpose()?)
        };
        Some([bound("min")?, bound("max")?])
    } else {
        expect_inputs(node, 1..=3)?;
        expect_types(node, 1..3, element_type)?;
        None
    };
    Ok(Box::new(ClipKernel {
        operation: Clip::new(element_type, context.tier).map_err(refuse)?,
        fixed,
        element_type,
        config: tuned(node, context, element_type),
    }))
}

/// A float attribute as a tensor of a float type.
fn scalar(element_type: ElementType, value: f32) -> Result<Tensor, onl_tensor::TensorError> {
    match element_type {
        ElementType::Float64 => Tensor::scalar(f64::from(value)),
        ElementType::Float16 => Tensor::scalar(f16::from_f32(value)),
        ElementType::BFloat16 => Tensor::scalar(bf16::from_f32(value)),
        _ => Tensor::scalar(value),
    }
}

struct BinaryKernel {
    operation: Binary,
    /// Whether the output must have the shape of input 0.
    unidirectional: bool,
    config: Tuned<ParallelConfig>,
}

impl PreparedKernel for BinaryKernel {
    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let (a, b) = (io.input(0)?, io.input(1)?);
        let shape = broadcast_shape(&[a.dims(), b.dims()])?;
        if self.unidirectional && shape.dims() != a.dims() {
            return Err(KernelError::Shapes {
                shapes: vec![a.dims().to_vec(), b.dims().to_vec()],
                reason: "the second must broadcast to the first as it is".to_owned(),
            });
        }
        let mut output = io.output(0, self.operation.output_type(), &shape)?;
        let config = self.config.at(output.len() as u64);
        Ok(self.operation.run(a, b, &mut output, config, lanes)?)
    }
}

pub(super) fn prepare_binary(node: &NodeView<'_>, context: &PrepareContext<'_>) -> Prepared {
    expect_inputs(node, 2..=2)?;
    let element_type = element_type(node, 0)?;
    expect_types(node, 1..2, element_type)?;
    let op_type = node.node.op.op_type.as_str();
    let op = match op_type {
        "Add" => BinaryOp::Add,
        "Sub" => BinaryOp::Sub,
        "Mul" => BinaryOp::Mul,
        "Div" => BinaryOp::Div,
        "Mod" => match node.int("fmod")?.unwrap_or(0) {
            1 => BinaryOp::ModTruncated,
            // Floats joined in operator set 28.
            0 if element_type.is_float() && node.opset < 28 => {
                return Err(PrepareError::Attribute {
                    attribute: "fmod",
                    reason: format!("it must be 1 for elements of type {element_type}"),
                });
            }
            0 => BinaryOp::ModFloor,
            other => {
                return Err(PrepareError::Attribute {
                    attribute: "fmod",
                    reason: format!("{other} is neither 0 nor 1"),
                });
            }
        },
        "PRelu" => BinaryOp::PRelu,
        "BitShift" => match node.string("direction")? {
            Some("LEFT") => BinaryOp::ShiftLeft,
            Some("RIGHT") => BinaryOp::ShiftRight,
            other => {
                return Err(PrepareError::Attribute {
                    attribute: "direction",
                    reason: format!(
                        "it must be 'LEFT' or 'RIGHT', not '{}'",
                        other.unwrap_or("")
                    ),
                });
            }
        },
        "And" | "BitwiseAnd" => BinaryOp::And,
        "Or" | "BitwiseOr" => BinaryOp::Or,
        "Xor" | "BitwiseXor" => BinaryOp::Xor,
        "Equal" => BinaryOp::Equal,
        "Less" => BinaryOp::Less,
        "LessOrEqual" => BinaryOp::LessOrEqual,
        "Greater" => BinaryOp::Greater,
        "GreaterOrEqual" => BinaryOp::GreaterOrEqual,
        _ => return Err(unknown(node)),
    };
    Ok(Box::new(BinaryKernel {
        operation: Binary::new(op, element_type, context.tier).map_err(refuse)?,
        unidirectional: op == BinaryOp::PRelu,
        config: tuned(node, context, element_type),
    }))
}

struct PowKernel {
    operation: Pow,
    element_type: ElementType,
    config: Tuned<ParallelConfig>,
}

impl PreparedKernel for PowKernel {
    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let (a, b) = (io.input(0)?, io.input(1)?);
        let shape = broadcast_shape(&[a.dims(), b.dims()])?;
        let mut output = io.output(0, self.element_type, &shape)?;
        let config = self.config.at(output.len() as u64);
        Ok(self.operation.run(a, b, &mut output, config, lanes)?)
    }
}

pub(super) fn prepare_pow(node: &NodeView<'_>, context: &PrepareContext<'_>) -> Prepared {
    expect_inputs(node, 2..=2)?;
    let (base, exponent) = (element_type(node, 0)?, element_type(node, 1)?);
    Ok(Box::new(PowKernel {
        operation: Pow::new(base, exponent, context.tier).map_err(refuse)?,
        element_type: base,
        config: tuned(node, context, base),
    }))
}

struct VariadicKernel {
    operation: Variadic,
    element_type: ElementType,
    config: Tuned<ParallelConfig>,
}

impl PreparedKernel for VariadicKernel {
    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let operands = (0..io.input_count())
            .map(|index| io.input(index))
            .collect::<Result<SmallVec<[TensorView<'_>; 8]>, _>>()?;
        let dims: SmallVec<[&[usize]; 8]> = operands.iter().map(TensorView::dims).collect();
        let shape = broadcast_shape(&dims)?;
        let mut output = io.output(0, self.element_type, &shape)?;
        let config = self.config.at(output.len() as u64);
        Ok(self.operation.run(&operands, &mut output, config, lanes)?)
    }
}

pub(super) fn prepare_variadic(node: &NodeView<'_>, context: &PrepareContext<'_>) -> Prepared {
    expect_inputs(node, 1..=usize::MAX)?;
    let element_type = element_type(node, 0)?;
    expect_types(node, 1..node.input_count(), element_type)?;
    let op = match node.node.op.op_type.as_str() {
        "Sum" => VariadicOp::Sum,
        "Mean" => VariadicOp::Mean,
        "Min" => VariadicOp::Min,
        "Max" => VariadicOp::Max,
        _ => return Err(unknown(node)),
    };
    Ok(Box::new(VariadicKernel {
        operation: Variadic::new(op, element_type, context.tier).map_err(refuse)?,
        element_type,
        config: tuned(node, context, element_type),
    }))
}

struct SelectKernel {
    operation: Select,
    element_type: ElementType,
    config: Tuned<ParallelConfig>,
}

impl PreparedKernel for SelectKernel {
    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let (condition, x, y) = (io.input(0)?, io.input(1)?, io.input(2)?);
        let shape = broadcast_shape(&[condition.dims(), x.dims(), y.dims()])?;
        let mut output = io.output(0, self.element_type, &shape)?;
        let config = self.config.at(output.len() as u64);
        let operation = &self.operation;
        Ok(operation.run(condition, x, y, &mut output, config, lanes)?)
    }
}

pub(super) fn prepare_select(node: &NodeView<'_>, context: &PrepareContext<'_>) -> Prepared {
    expect_inputs(node, 3..=3)?;
    let condition = element_type(node, 0)?;
    if condition != ElementType::Bool {
        return Err(PrepareError::ElementType {
            index: 0,
            element_type: condition,
            allowed: "a condition is of type bool".to_owned(),
        });
    }
    let element_type = element_type(node, 1)?;
    expect_types(node, 2..3, element_type)?;
    Ok(Box::new(SelectKernel {
        operation: Select::new(element_type, context.tier).map_err(refuse)?,
        element_type,
        config: tuned(node, context, element_type),
    }))
}
