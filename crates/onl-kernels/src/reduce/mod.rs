//! Adapters of the reduce family: reductions, softmax, normalization.

mod axes;
mod norm;
mod softmax;

use crate::movement::support::Identity;
use crate::{
    Coverage, Example, InferContext, InferError, KernelEntry, KernelError, PrepareContext,
    PrepareError, PreparedKernel, ShapeDependence, TypeSource,
};
use onl_cpu::IsaTier;
use onl_executor::Lanes;
use onl_ir::{NodeView, OpId};
use onl_reduce::{Execution, ReduceError};
use onl_snapshot::{ParallelConfig, Tuned, TunedConfig};
use onl_tensor::ElementType;

/// Kernels of the family.
pub(crate) fn entries() -> Vec<KernelEntry> {
    let mut entries = axes::entries();
    entries.extend(softmax::entries());
    entries.extend(norm::entries());
    entries
}

/// Element types of softmax and normalization.
const FLOATS: &[ElementType] = &[
    ElementType::Float32,
    ElementType::Float64,
    ElementType::Float16,
    ElementType::BFloat16,
];

/// The entry that the operators of the family vary.
fn entry(
    op_type: &'static str,
    opsets: (i64, i64),
    prepare: fn(
        &NodeView<'_>,
        &PrepareContext<'_>,
    ) -> Result<Box<dyn PreparedKernel>, PrepareError>,
    infer: fn(&mut InferContext<'_>) -> Result<(), InferError>,
    examples: fn(ElementType, usize) -> Vec<Example>,
) -> KernelEntry {
    KernelEntry {
        domain: OpId::ONNX,
        op_type,
        opsets,
        type_source: TypeSource::Input(0),
        element_types: FLOATS,
        implementation: "vector",
        revision: 1,
        prepare,
        infer,
        shape_dependence: ShapeDependence::Shapes,
        coverage: TUNABLE,
        regions: &[],
        examples,
    }
}

/// Division among lanes has parameters.
const TUNABLE: Coverage = Coverage::Tunable(ParallelConfig::schema);

/// Division parameters and tier of a prepared node.
struct Division {
    tuned: Tuned<ParallelConfig>,
    tier: IsaTier,
}

impl Division {
    fn new(op_type: &'static str, node: &NodeView<'_>, context: &PrepareContext<'_>) -> Self {
        let identity = Identity {
            op_type,
            implementation: "vector",
            revision: 1,
        };
        Division {
            tuned: identity.config(node, context, 0),
            tier: context.tier,
        }
    }

    /// How a call that reads this many elements is executed.
    fn execution<'run>(&self, elements: usize, lanes: Lanes<'run>) -> Execution<'run> {
        Execution::new(lanes, *self.tuned.at(elements as u64), self.tier)
    }
}

impl From<ReduceError> for KernelError {
    fn from(error: ReduceError) -> Self {
        match error {
            ReduceError::Region(error) => error.into(),
            ReduceError::Tensor(error) => error.into(),
            ReduceError::Shapes { shapes, reason } => KernelError::Shapes { shapes, reason },
            ReduceError::ElementType { .. } => KernelError::InvalidInput {
                index: 0,
                reason: error.to_string(),
            },
            ReduceError::Workspace { .. } => KernelError::Other(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests;
