//! Shape and Size: outputs made of the input's shape.

use super::METADATA_ONLY;
use crate::movement::support::{ALL_TYPES, check_inputs};
use crate::{
    Example, ExampleInput, InferContext, InferError, KernelEntry, KernelError, KernelIo,
    PrepareContext, PrepareError, PreparedKernel, ShapeDependence, TypeSource,
};
use onl_executor::Lanes;
use onl_ir::{Dim, NodeView, OpId};
use onl_tensor::ElementType;
use smallvec::SmallVec;

pub(super) fn entries() -> Vec<KernelEntry> {
    let shape = KernelEntry {
        domain: OpId::ONNX,
        op_type: "Shape",
        opsets: (1, i64::MAX),
        type_source: TypeSource::Input(0),
        element_types: ALL_TYPES,
        implementation: "metadata",
        revision: 1,
        prepare: prepare_shape,
        infer: infer_shape,
        shape_dependence: ShapeDependence::MetadataOnly,
        coverage: METADATA_ONLY,
        regions: &[],
        examples: |element_type, size| {
            vec![Example::new(
                "vector",
                vec![ExampleInput::random(element_type, &[size])],
            )]
        },
    };
    let size = KernelEntry {
        op_type: "Size",
        prepare: prepare_size,
        infer: infer_size,
        ..shape.clone()
    };
    vec![shape, size]
}

struct ShapeKernel {
    start: i64,
    end: Option<i64>,
}

fn bounds(node: &NodeView<'_>) -> Result<ShapeKernel, PrepareError> {
    if node.opset < 15 {
        return Ok(ShapeKernel {
            start: 0,
            end: None,
        });
    }
    Ok(ShapeKernel {
        start: node.int("start")?.unwrap_or(0),
        end: node.int("end")?,
    })
}

impl ShapeKernel {
    /// Axes whose sizes are given: bounds count from the end when negative and are clamped.
    fn axes(&self, rank: usize) -> std::ops::Range<usize> {
        let clamp = |bound: i64| {
            let bound = if bound < 0 {
                bound.saturating_add(rank as i64)
            } else {
                bound
            };
            bound.clamp(0, rank as i64) as usize
        };
        let start = clamp(self.start);
        let end = self.end.map_or(rank, clamp);
        start..end.max(start)
    }
}

fn prepare_shape(
    node: &NodeView<'_>,
    _: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 1, 1)?;
    Ok(Box::new(bounds(node)?))
}

impl PreparedKernel for ShapeKernel {
    fn run(&self, io: &mut KernelIo<'_>, _: Lanes<'_>) -> Result<(), KernelError> {
        let dims = io.input(0)?.dims();
        let sizes: SmallVec<[i64; 8]> = dims[self.axes(dims.len())]
            .iter()
            .map(|&d| d as i64)
            .collect();
        io.write_output(0, &[sizes.len()], &sizes)
    }
}

fn infer_shape(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let rank = context.dims(0).map(<[Dim]>::len);
    let kernel = bounds(&context.node)?;
    let length = rank.map_or(Dim::Unknown, |rank| Dim::Known(kernel.axes(rank).len()));
    context.set_output(0, ElementType::Int64, Some(vec![length]));
    Ok(())
}

struct SizeKernel;

fn prepare_size(
    node: &NodeView<'_>,
    _: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 1, 1)?;
    Ok(Box::new(SizeKernel))
}

impl PreparedKernel for SizeKernel {
    fn run(&self, io: &mut KernelIo<'_>, _: Lanes<'_>) -> Result<(), KernelError> {
        let size = io.input(0)?.len() as i64;
        io.write_output(0, &[], &[size])
    }
}

fn infer_size(context: &mut InferContext<'_>) -> Result<(), InferError> {
    context.set_output(0, ElementType::Int64, Some(Vec::new()));
    Ok(())
}
