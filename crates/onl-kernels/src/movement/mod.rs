//! Adapters of the movement family: operators that copy, rearrange or convert elements.

mod arrange;
mod choose;
mod convert;
mod index;
mod join;
mod pad;
mod scatter;
mod select;
pub(crate) mod support;

use crate::{
    Coverage, Example, ExampleInput, InferContext, InferError, KernelEntry, KernelError,
    PrepareContext, PrepareError, PreparedKernel, ShapeDependence, TypeSource,
};
use onl_cpu::IsaTier;
use onl_executor::Lanes;
use onl_ir::{NodeView, OpId};
use onl_movement::{Execution, MovementError};
use onl_snapshot::{ParallelConfig, Tuned, TunedConfig};
use onl_tensor::ElementType;
use support::{BYTE_TYPES, Identity};

/// Revision of the family's bodies, which share their mechanisms.
const REVISION: u32 = 3;

/// Sizes that calibration measures, in elements.
const SIZES: &[usize] = &[
    1 << 12,
    1 << 13,
    1 << 14,
    1 << 15,
    1 << 16,
    1 << 17,
    1 << 18,
    1 << 19,
    1 << 20,
];

/// Element types for which thresholds are calibrated, one of each width and conversion that models spend time in.
const CALIBRATED_TYPES: &[ElementType] = {
    use ElementType::*;
    &[Float32, Float16, BFloat16, Int32, Int64, UInt8, Bool]
};

/// The types of a list that are not calibrated.
const fn without_calibrated<const N: usize>(types: &[ElementType]) -> [ElementType; N] {
    let mut rest = [ElementType::Float32; N];
    let (mut index, mut kept) = (0, 0);
    while index < types.len() {
        let mut calibrated = false;
        let mut candidate = 0;
        while candidate < CALIBRATED_TYPES.len() {
            calibrated |= CALIBRATED_TYPES[candidate] as i32 == types[index] as i32;
            candidate += 1;
        }
        if !calibrated {
            rest[kept] = types[index];
            kept += 1;
        }
        index += 1;
    }
    assert!(kept == N, "the list holds every calibrated type");
    rest
}

/// An entry twice: calibratable for the calibrated types, as it is for the rest of its types.
fn calibrated(entry: KernelEntry, rest: &'static [ElementType]) -> [KernelEntry; 2] {
    [
        KernelEntry {
            element_types: CALIBRATED_TYPES,
            coverage: CALIBRATABLE,
            ..entry.clone()
        },
        KernelEntry {
            element_types: rest,
            ..entry
        },
    ]
}

/// Coverage of the operators that models spend time in: calibration finds the size from which lanes pay.
const CALIBRATABLE: Coverage = Coverage::Calibratable {
    schema: ParallelConfig::schema,
    sizes: SIZES,
    search: |_| ParallelConfig::crossover(12..=21),
};

/// Kernels of the family.
pub(crate) fn entries() -> Vec<KernelEntry> {
    let mut entries = arrange::entries();
    entries.extend(join::entries());
    entries.extend(select::entries());
    entries.extend(scatter::entries());
    entries.extend(pad::entries());
    entries.extend(convert::entries());
    entries.extend(index::entries());
    entries.extend(choose::entries());
    entries
}

/// The entry that the operators of the family vary: all types of whole bytes, division among lanes tunable.
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
        element_types: BYTE_TYPES,
        implementation: "strided",
        revision: REVISION,
        prepare,
        infer,
        shape_dependence: ShapeDependence::Shapes,
        coverage: Coverage::Tunable(ParallelConfig::schema),
        regions: &[],
        examples,
    }
}

/// Division parameters and tier of a prepared node.
struct Division {
    tuned: Tuned<ParallelConfig>,
    tier: IsaTier,
}

impl Division {
    fn new(op_type: &'static str, node: &NodeView<'_>, context: &PrepareContext<'_>) -> Self {
        Self::named(op_type, "strided", 0, node, context)
    }

    /// For an implementation of another name, or one whose type is that of another input.
    fn named(
        op_type: &'static str,
        implementation: &'static str,
        input: usize,
        node: &NodeView<'_>,
        context: &PrepareContext<'_>,
    ) -> Self {
        let identity = Identity {
            op_type,
            implementation,
            revision: REVISION,
        };
        Division {
            tuned: identity.config(node, context, input),
            tier: context.tier,
        }
    }

    /// How a call is executed that concerns a few elements.
    fn serial() -> Execution<'static> {
        let config = ParallelConfig::from_row(&ParallelConfig::schema().defaults());
        Execution::new(Lanes::serial(), config, IsaTier::Scalar)
    }

    /// How a call that writes this many elements is executed.
    fn execution<'run>(&self, elements: usize, lanes: Lanes<'run>) -> Execution<'run> {
        Execution::new(lanes, *self.tuned.at(elements as u64), self.tier)
    }
}

impl From<MovementError> for KernelError {
    fn from(error: MovementError) -> Self {
        match error {
            MovementError::Region(error) => error.into(),
            MovementError::Tensor(error) => error.into(),
            MovementError::Shapes { shapes, reason } => KernelError::Shapes { shapes, reason },
            MovementError::IndexOutOfRange {
                index,
                position,
                axis,
                size,
            } => KernelError::IndexOutOfRange {
                index,
                position,
                axis,
                size,
            },
            MovementError::SubByte { .. }
            | MovementError::Reduction { .. }
            | MovementError::Zero { .. }
            | MovementError::Cast { .. }
            | MovementError::Parse { .. } => KernelError::InvalidInput {
                index: 0,
                reason: error.to_string(),
            },
        }
    }
}

/// Two-dimensional random input of about `size` elements.
fn matrix(element_type: ElementType, size: usize) -> ExampleInput {
    let side = ((size as f64).sqrt() as usize).max(1);
    ExampleInput::random(element_type, &[size.div_ceil(side), side])
}

#[cfg(test)]
pub(crate) mod harness;
#[cfg(test)]
mod tests;
