//! `MatMul` of floats, and `FusedMatMul` of the domain `com.microsoft`: a factor, and operands that are turned first.

use super::geometry::{Geometry, Side, Turn, count, infer_dims};
use super::{Prepared, check_arity, config, for_float, packed_constant};
use crate::{
    InferContext, InferError, KernelError, KernelIo, PrepareContext, PrepareError, PreparedKernel,
};
use onl_cpu::IsaTier;
use onl_executor::Lanes;
use onl_gemm::{
    BForm, Dimensions, Epilogue, Factor, GemmConfig, Output, PackedB, Plan, Problem, Storage, gemm,
};
use onl_ir::NodeView;
use onl_snapshot::Tuned;
use std::marker::PhantomData;
use std::sync::Arc;

/// Attributes of `FusedMatMul`; those of `MatMul` are the defaults.
#[derive(Clone, Copy)]
struct Fused {
    alpha: f32,
    turns: [Turn; 2],
}

impl Fused {
    const NONE: Fused = Fused {
        alpha: 1.0,
        turns: [Turn {
            transpose: false,
            batch_first: false,
        }; 2],
    };

    fn read(node: &NodeView<'_>) -> Result<Self, PrepareError> {
        let flag = |name| Ok::<_, PrepareError>(node.int(name)?.unwrap_or(0) != 0);
        Ok(Fused {
            alpha: node.float("alpha")?.unwrap_or(1.0),
            turns: [
                Turn {
                    transpose: flag("transA")?,
                    batch_first: flag("transBatchA")?,
                },
                Turn {
                    transpose: flag("transB")?,
                    batch_first: flag("transBatchB")?,
                },
            ],
        })
    }
}

struct MatMul<S: Storage> {
    fused: Fused,
    config: Tuned<GemmConfig>,
    tier: IsaTier,
    packed: Option<Arc<PackedB<S>>>,
}

pub(super) fn prepare(node: &NodeView<'_>, context: &PrepareContext<'_>) -> Prepared {
    check_arity(node, 2, 2)?;
    for_float!(node, prepare_for, "MatMul", Fused::NONE, node, context)
}

pub(super) fn prepare_fused(node: &NodeView<'_>, context: &PrepareContext<'_>) -> Prepared {
    check_arity(node, 2, 2)?;
    let fused = Fused::read(node)?;
    for_float!(node, prepare_for, super::FUSED_MATMUL, fused, node, context)
}

fn prepare_for<S: Storage>(
    _: PhantomData<S>,
    kernel: &'static str,
    fused: Fused,
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Prepared {
    let packed = match context.constant_input(node, 1) {
        Some(b) => match Side::new(b.dims(), fused.turns[1], false) {
            Some(side) => {
                let matrix = side.layout.of(b.as_slice::<S>()?);
                let matrices = count(side.batch);
                packed_constant(&matrix, matrices, side.rows, side.columns, context.tier)?
            }
            // Scalars stay for `Geometry` to refuse.
            None => None,
        },
        None => None,
    };
    Ok(Box::new(MatMul::<S> {
        fused,
        config: config(kernel, S::TYPE, context),
        tier: context.tier,
        packed,
    }))
}

impl<S: Storage> MatMul<S> {
    fn geometry(&self, a: &[usize], b: &[usize]) -> Result<Geometry, KernelError> {
        Geometry::turned(a, b, self.fused.turns)
    }

    fn plan(&self, geometry: &Geometry) -> Plan {
        let dims = Dimensions {
            batches: geometry.batch().count(),
            m: geometry.m,
            n: geometry.n,
            k: geometry.k,
        };
        let b = match self.packed {
            Some(_) => BForm::Constant,
            None => BForm::Strided {
                row_stride: geometry.b.row_stride,
                column_stride: geometry.b.column_stride,
            },
        };
        let config = self.config.at(geometry.fmas() as u64);
        let a_strides = (geometry.a.row_stride, geometry.a.column_stride);
        Plan::new::<S>(dims, a_strides, b, config, self.tier)
    }
}

impl<S: Storage> PreparedKernel for MatMul<S> {
    fn workspace(&self, input_dims: &[&[usize]], lanes: usize) -> usize {
        match input_dims {
            [a, b, ..] => self
                .geometry(a, b)
                .map_or(0, |geometry| self.plan(&geometry).workspace(lanes)),
            _ => 0,
        }
    }

    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let (a, b) = (io.input(0)?, io.input(1)?);
        let geometry = self.geometry(a.dims(), b.dims())?;
        let Geometry { m, n, k, .. } = geometry;
        let b = match &self.packed {
            Some(packed) => Factor::Packed(&**packed),
            None => Factor::Matrix(geometry.b.of(b.as_slice::<S>()?)),
        };
        let problem = Problem {
            m,
            n,
            k,
            a: geometry.a.of(a.as_slice::<S>()?),
            b,
            batch: geometry.batch(),
        };
        let plan = self.plan(&geometry);
        let (mut output, workspace) = io.output_and_workspace(0, S::TYPE, &geometry.output)?;
        let output = Output::row_major(output.as_slice_mut::<S>()?, m, n);
        let epilogue = Epilogue {
            alpha: self.fused.alpha,
            ..Epilogue::NONE
        };
        Ok(gemm(&plan, &problem, output, &epilogue, workspace, lanes)?)
    }
}

fn infer_turned(context: &mut InferContext<'_>, turns: [Turn; 2]) -> Result<(), InferError> {
    check_arity(&context.node, 2, 2)?;
    let element_type = context.element_type(0)?;
    let dims = match (context.dims(0), context.dims(1)) {
        (Some(a), Some(b)) => Some(infer_dims(a, b, turns)?),
        _ => None,
    };
    context.set_output(0, element_type, dims);
    Ok(())
}

/// Output type of `MatMul`, integers included.
pub(super) fn infer(context: &mut InferContext<'_>) -> Result<(), InferError> {
    infer_turned(context, Fused::NONE.turns)
}

/// Output type of `FusedMatMul`.
pub(super) fn infer_fused(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let turns = Fused::read(&context.node)?.turns;
    infer_turned(context, turns)
}
