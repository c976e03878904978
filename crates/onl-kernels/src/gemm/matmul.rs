//! `MatMul` of floats.

use super::geometry::{Geometry, count, infer_dims};
use super::{Prepared, check_arity, config, for_float};
use crate::{
    InferContext, InferError, KernelError, KernelIo, PrepareContext, PrepareError, PreparedKernel,
};
use onl_cpu::IsaTier;
use onl_executor::Lanes;
use onl_gemm::{
    BForm, Dimensions, Epilogue, Factor, GemmConfig, Matrix, Output, PackedB, Plan, Problem,
    Storage, gemm,
};
use onl_ir::NodeView;
use onl_snapshot::Tuned;
use std::marker::PhantomData;

struct MatMul<S: Storage> {
    config: Tuned<GemmConfig>,
    tier: IsaTier,
    packed: Option<PackedB<S>>,
}

pub(super) fn prepare(node: &NodeView<'_>, context: &PrepareContext<'_>) -> Prepared {
    check_arity(node, 2, 2)?;
    for_float!(node, prepare_for, node, context)
}

fn prepare_for<S: Storage>(
    _: PhantomData<S>,
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Prepared {
    let packed = match context.constant_input(node, 1) {
        Some(b) => pack(&b.view(), context.tier)?,
        None => None,
    };
    Ok(Box::new(MatMul::<S> {
        config: config("MatMul", S::TYPE, context),
        tier: context.tier,
        packed,
    }))
}

/// Packs a constant B; scalars stay for [`Geometry::new`] to refuse.
fn pack<S: Storage>(
    b: &onl_tensor::TensorView<'_>,
    tier: IsaTier,
) -> Result<Option<PackedB<S>>, PrepareError> {
    let dims = b.dims();
    let (matrices, k, n) = match dims {
        [] => return Ok(None),
        [k] => (1, *k, 1),
        [batch @ .., k, n] => (count(batch), *k, *n),
    };
    let matrix = Matrix::row_major(b.as_slice::<S>()?, k, n);
    match PackedB::new(&matrix, matrices, k, n, tier) {
        Ok(packed) => Ok(Some(packed)),
        Err(onl_gemm::GemmError::Tensor(error)) => Err(error.into()),
        Err(error) => Err(PrepareError::Other(error.to_string())),
    }
}

impl<S: Storage> MatMul<S> {
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
                row_stride: geometry.n,
                column_stride: 1,
            },
        };
        let config = self.config.at(geometry.fmas() as u64);
        Plan::new::<S>(dims, (geometry.k, 1), b, config, self.tier)
    }
}

impl<S: Storage> PreparedKernel for MatMul<S> {
    fn workspace(&self, input_dims: &[&[usize]], lanes: usize) -> usize {
        match input_dims {
            [a, b, ..] => {
                Geometry::new(a, b).map_or(0, |geometry| self.plan(&geometry).workspace(lanes))
            }
            _ => 0,
        }
    }

    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let (a, b) = (io.input(0)?, io.input(1)?);
        let geometry = Geometry::new(a.dims(), b.dims())?;
        let Geometry { m, n, k, .. } = geometry;
        let b = match &self.packed {
            Some(packed) => Factor::Packed(packed),
            None => Factor::Matrix(Matrix::row_major(b.as_slice::<S>()?, k, n)),
        };
        let a = Matrix::row_major(a.as_slice::<S>()?, m, k);
        let problem = Problem {
            m,
            n,
            k,
            a,
            b,
            batch: geometry.batch(),
        };
        let plan = self.plan(&geometry);
        let (mut output, workspace) = io.output_and_workspace(0, S::TYPE, &geometry.output)?;
        let output = Output::row_major(output.as_slice_mut::<S>()?, m, n);
        Ok(gemm(
            &plan,
            &problem,
            output,
            &Epilogue::NONE,
            workspace,
            lanes,
        )?)
    }
}

/// Output type of `MatMul`, integers included.
pub(super) fn infer(context: &mut InferContext<'_>) -> Result<(), InferError> {
    check_arity(&context.node, 2, 2)?;
    let element_type = context.element_type(0)?;
    let dims = match (context.dims(0), context.dims(1)) {
        (Some(a), Some(b)) => Some(infer_dims(a, b)?),
        _ => None,
    };
    context.set_output(0, element_type, dims);
    Ok(())
}
