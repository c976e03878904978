//! Adapters of the reduce family: reductions, softmax, normalization, selection, cumulation.

mod axes;
mod channel;
mod cumulative;
mod norm;
mod select;
mod softmax;

use crate::movement::support::{Identity, axis_of};
use crate::{
    Coverage, Example, ExampleInput, InferContext, InferError, KernelEntry, KernelError,
    PrepareContext, PrepareError, PreparedKernel, ShapeDependence, TypeSource,
};
use onl_cpu::IsaTier;
use onl_executor::Lanes;
use onl_ir::{Attribute, NodeView, OpId};
use onl_reduce::{Execution, ReduceError};
use onl_snapshot::{ParallelConfig, Tuned, TunedConfig};
use onl_tensor::ElementType;

/// Kernels of the family.
pub(crate) fn entries() -> Vec<KernelEntry> {
    let mut entries = axes::entries();
    entries.extend(softmax::entries());
    entries.extend(norm::entries());
    entries.extend(channel::entries());
    entries.extend(select::entries());
    entries.extend(cumulative::entries());
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
        revision: REVISION,
        prepare,
        infer,
        shape_dependence: ShapeDependence::Shapes,
        coverage: TUNABLE,
        regions: &[],
        examples,
    }
}

/// Revision of every kernel of the family.
const REVISION: u32 = 4;

/// Division among lanes has parameters.
const TUNABLE: Coverage = Coverage::Tunable(ParallelConfig::schema);

/// As [`TUNABLE`], and the threshold from which division pays is searched for.
const CALIBRATABLE: Coverage = Coverage::Calibratable {
    schema: ParallelConfig::schema,
    sizes: &[
        1 << 11,
        1 << 12,
        1 << 13,
        1 << 14,
        1 << 15,
        1 << 16,
        1 << 17,
        1 << 18,
        1 << 19,
        1 << 20,
    ],
    search: |_| ParallelConfig::crossover(11..=22),
};

/// Outer rows, elements of a row, and their distance, for rows along an axis; a scalar is a row of one element.
fn along(dims: &[usize], axis: i64) -> Result<[usize; 3], KernelError> {
    if dims.is_empty() && (axis == 0 || axis == -1) {
        return Ok([1, 1, 1]);
    }
    let axis = axis_of(axis, dims.len())?;
    let product = |dims: &[usize]| dims.iter().product::<usize>();
    Ok([
        product(&dims[..axis]),
        dims[axis],
        product(&dims[axis + 1..]),
    ])
}

/// Rejects statistics in another type than f32, which 16-bit types are computed in.
fn check_stash_type(node: &NodeView<'_>) -> Result<(), PrepareError> {
    let stash = node.int("stash_type")?.unwrap_or(1);
    if stash == i64::from(ElementType::Float32.onnx_number()) {
        return Ok(());
    }
    Err(PrepareError::Attribute {
        attribute: "stash_type",
        reason: format!("{stash} is not served; statistics are f32 (1)"),
    })
}

/// Many short rows, and one long row.
fn last_axis_examples(element_type: ElementType, size: usize) -> Vec<Example> {
    let example = |name, dims: [usize; 2]| {
        Example::new(name, vec![ExampleInput::random(element_type, &dims)])
            .with_attribute("axis", Attribute::Int(1))
    };
    vec![
        example("last_axis", [(size / 768).max(1), 768]),
        example("one_row", [1, size]),
    ]
}

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
            revision: REVISION,
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
