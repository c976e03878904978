//! `Gemm` of floats, and `FusedGemm` of the domain `com.microsoft`: the same with an activation.

use super::{Prepared, check_arity, config, for_float, packed_constant};
use crate::{
    InferContext, InferError, KernelError, KernelIo, PrepareContext, PrepareError, PreparedKernel,
};
use onl_cpu::IsaTier;
use onl_executor::Lanes;
use onl_gemm::{
    Activation, Addend, BForm, Batch, Dimensions, Epilogue, Factor, GemmConfig, Matrix, Output,
    PackedB, Plan, Problem, Storage, gemm,
};
use onl_ir::{Dim, NodeView};
use onl_snapshot::Tuned;
use onl_tensor::{Element, TensorView};
use std::marker::PhantomData;
use std::sync::Arc;

pub(super) struct Attributes {
    pub alpha: f32,
    pub beta: f32,
    pub transpose_a: bool,
    pub transpose_b: bool,
}

impl Attributes {
    pub fn read(node: &NodeView<'_>) -> Result<Self, PrepareError> {
        Ok(Attributes {
            alpha: node.float("alpha")?.unwrap_or(1.0),
            beta: node.float("beta")?.unwrap_or(1.0),
            transpose_a: node.int("transA")?.unwrap_or(0) != 0,
            transpose_b: node.int("transB")?.unwrap_or(0) != 0,
        })
    }
}

/// Activation of `FusedGemm`, by the names of the operators that fusion replaces.
fn activation(node: &NodeView<'_>) -> Result<Activation, PrepareError> {
    let parameter = |name, default| Ok::<_, PrepareError>(node.float(name)?.unwrap_or(default));
    Ok(match node.string("activation")?.unwrap_or("") {
        "" => Activation::Identity,
        "Relu" => Activation::Relu,
        "LeakyRelu" => Activation::LeakyRelu {
            slope: parameter("activation_alpha", 0.01)?,
        },
        "Clip" => Activation::Clip {
            low: parameter("activation_alpha", f32::MIN)?,
            high: parameter("activation_beta", f32::MAX)?,
        },
        "Sigmoid" => Activation::Sigmoid,
        "Tanh" => Activation::Tanh,
        "Gelu" => Activation::Gelu,
        other => {
            return Err(PrepareError::Attribute {
                attribute: "activation",
                reason: format!(
                    "'{other}' is not served; served are Relu, LeakyRelu, Clip, Sigmoid, Tanh, Gelu"
                ),
            });
        }
    })
}

struct Gemm<S: Storage> {
    attributes: Attributes,
    activation: Activation,
    config: Tuned<GemmConfig>,
    tier: IsaTier,
    packed: Option<Arc<PackedB<S>>>,
}

pub(super) fn check(node: &NodeView<'_>) -> Result<(), PrepareError> {
    check_arity(node, if node.opset < 11 { 3 } else { 2 }, 3)
}

pub(super) fn prepare(node: &NodeView<'_>, context: &PrepareContext<'_>) -> Prepared {
    check(node)?;
    let activation = Activation::Identity;
    for_float!(node, prepare_for, "Gemm", activation, node, context)
}

pub(super) fn prepare_fused(node: &NodeView<'_>, context: &PrepareContext<'_>) -> Prepared {
    check_arity(node, 2, 3)?;
    let activation = activation(node)?;
    for_float!(
        node,
        prepare_for,
        super::FUSED_GEMM,
        activation,
        node,
        context
    )
}

fn prepare_for<S: Storage>(
    _: PhantomData<S>,
    kernel: &'static str,
    activation: Activation,
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Prepared {
    let attributes = Attributes::read(node)?;
    let packed = match context.constant_input(node, 1) {
        Some(b) if b.dims().len() == 2 => {
            let (k, n) = oriented(b.dims(), attributes.transpose_b);
            let matrix = matrix(b.as_slice::<S>()?, k, n, attributes.transpose_b);
            packed_constant(&matrix, 1, k, n, context.tier)?
        }
        _ => None,
    };
    Ok(Box::new(Gemm::<S> {
        attributes,
        activation,
        config: config(kernel, S::TYPE, context),
        tier: context.tier,
        packed,
    }))
}

/// Rows and columns of a matrix as it takes part in the product.
fn oriented(dims: &[usize], transposed: bool) -> (usize, usize) {
    if transposed {
        (dims[1], dims[0])
    } else {
        (dims[0], dims[1])
    }
}

pub(super) fn matrix<S>(
    elements: &[S],
    rows: usize,
    columns: usize,
    transposed: bool,
) -> Matrix<'_, S> {
    if transposed {
        Matrix::transposed(elements, rows, columns)
    } else {
        Matrix::row_major(elements, rows, columns)
    }
}

impl Attributes {
    /// Rows, columns and length of the chains.
    pub fn dimensions(&self, a: &[usize], b: &[usize]) -> Result<Dimensions, KernelError> {
        let fail = |reason: String| {
            Err(KernelError::Shapes {
                shapes: vec![a.to_vec(), b.to_vec()],
                reason,
            })
        };
        if a.len() != 2 || b.len() != 2 {
            return fail("A and B of Gemm are matrices".to_owned());
        }
        let (m, k) = oriented(a, self.transpose_a);
        let (b_k, n) = oriented(b, self.transpose_b);
        if k != b_k {
            return fail(format!(
                "A has {k} columns and B has {b_k} rows, after transposition; they must be equal"
            ));
        }
        Ok(Dimensions {
            batches: 1,
            m,
            n,
            k,
        })
    }
}

impl<S: Storage> Gemm<S> {
    fn plan(&self, dims: Dimensions) -> Plan {
        let strides = |transposed, rows, columns| if transposed { (1, rows) } else { (columns, 1) };
        let a_strides = strides(self.attributes.transpose_a, dims.m, dims.k);
        let (row_stride, column_stride) = strides(self.attributes.transpose_b, dims.k, dims.n);
        let b = match self.packed {
            Some(_) => BForm::Constant,
            None => BForm::Strided {
                row_stride,
                column_stride,
            },
        };
        let size = dims.m.saturating_mul(dims.n).saturating_mul(dims.k);
        Plan::new::<S>(dims, a_strides, b, self.config.at(size as u64), self.tier)
    }
}

/// C as it is broadcast to m × n.
pub(super) fn addend<S: Element>(
    c: TensorView<'_>,
    m: usize,
    n: usize,
) -> Result<Addend<'_, S>, KernelError> {
    let (rows, columns) = match c.dims() {
        [] => (1, 1),
        [columns] => (1, *columns),
        [rows, columns] => (*rows, *columns),
        _ => (usize::MAX, 0),
    };
    if (rows != m && rows != 1) || (columns != n && columns != 1) {
        return Err(KernelError::Shapes {
            shapes: vec![vec![m, n], c.dims().to_vec()],
            reason: "C must be broadcastable to the shape of the product without changing it"
                .to_owned(),
        });
    }
    Ok(Addend {
        elements: c.as_slice::<S>()?,
        row_stride: if rows == 1 { 0 } else { columns },
        column_stride: if columns == 1 { 0 } else { 1 },
    })
}

impl<S: Storage> PreparedKernel for Gemm<S> {
    fn workspace(&self, input_dims: &[&[usize]], lanes: usize) -> usize {
        match input_dims {
            [a, b, ..] => self
                .attributes
                .dimensions(a, b)
                .map_or(0, |dims| self.plan(dims).workspace(lanes)),
            _ => 0,
        }
    }

    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let (a, b) = (io.input(0)?, io.input(1)?);
        let dims = self.attributes.dimensions(a.dims(), b.dims())?;
        let Dimensions { m, n, k, .. } = dims;
        let Attributes {
            alpha,
            beta,
            transpose_a,
            transpose_b,
        } = self.attributes;
        let c = io
            .optional_input(2)
            .map(|c| addend::<S>(c, m, n))
            .transpose()?;
        let b = match &self.packed {
            Some(packed) => Factor::Packed(&**packed),
            None => Factor::Matrix(matrix(b.as_slice::<S>()?, k, n, transpose_b)),
        };
        let a = matrix(a.as_slice::<S>()?, m, k, transpose_a);
        let problem = Problem {
            m,
            n,
            k,
            a,
            b,
            batch: Batch::ONE,
        };
        let plan = self.plan(dims);
        let (mut output, workspace) = io.output_and_workspace(0, S::TYPE, &[m, n])?;
        let output = Output::row_major(output.as_slice_mut::<S>()?, m, n);
        let epilogue = Epilogue {
            alpha,
            beta,
            c,
            activation: self.activation,
            ..Epilogue::NONE
        };
        Ok(gemm(&plan, &problem, output, &epilogue, workspace, lanes)?)
    }
}

/// Output type of `Gemm`, integers included.
pub(super) fn infer(context: &mut InferContext<'_>) -> Result<(), InferError> {
    check(&context.node)?;
    infer_checked(context)
}

/// Output type of `FusedGemm`.
pub(super) fn infer_fused(context: &mut InferContext<'_>) -> Result<(), InferError> {
    check_arity(&context.node, 2, 3)?;
    infer_checked(context)
}

fn infer_checked(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let attributes = Attributes::read(&context.node)?;
    let element_type = context.element_type(0)?;
    let side = |dims: Option<&[Dim]>, name: &str, transposed: bool| match dims {
        None => Ok((Dim::Unknown, Dim::Unknown)),
        Some([rows, columns]) if transposed => Ok((columns.clone(), rows.clone())),
        Some([rows, columns]) => Ok((rows.clone(), columns.clone())),
        Some(dims) => Err(InferError::Shapes(format!(
            "{name} of Gemm is a matrix, it has {} dimensions",
            dims.len()
        ))),
    };
    let (m, a_k) = side(context.dims(0), "A", attributes.transpose_a)?;
    let (b_k, n) = side(context.dims(1), "B", attributes.transpose_b)?;
    if let (Some(x), Some(y)) = (a_k.known(), b_k.known())
        && x != y
    {
        return Err(InferError::Shapes(format!(
            "A has {x} columns and B has {y} rows, after transposition"
        )));
    }
    context.set_output(0, element_type, Some(vec![m, n]));
    Ok(())
}
