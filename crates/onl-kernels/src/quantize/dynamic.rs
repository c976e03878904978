//! `DynamicQuantizeLinear`: the range of the elements and zero gives scale and zero point.

use super::{IMPLEMENTATION, REVISION, config};
use crate::{
    Coverage, Example, ExampleInput, InferContext, InferError, KernelEntry, KernelError, KernelIo,
    PrepareContext, PrepareError, PreparedKernel, ShapeDependence, TypeSource,
};
use onl_cpu::IsaTier;
use onl_elementwise::{Granularity, QUANTIZE, Quantization, QuantizeOperands, quantize};
use onl_executor::{Lanes, RegionSpec};
use onl_ir::NodeView;
use onl_profiling::{RegionSite, region_site};
use onl_snapshot::{ParallelConfig, Tuned, TunedConfig};
use onl_tensor::{ElementType, TensorView};

static RANGE: RegionSite = region_site!("quantize.range");
static REGIONS: &[&RegionSite] = &[&RANGE, &QUANTIZE];

/// Elements whose range is one element of the scratch.
const BLOCK: usize = 4_096;
/// Accumulators that hide the latency of comparisons.
const WAYS: usize = 32;

pub(super) fn entry() -> KernelEntry {
    KernelEntry {
        domain: "ai.onnx",
        op_type: "DynamicQuantizeLinear",
        opsets: (11, i64::MAX),
        type_source: TypeSource::Input(0),
        element_types: &[ElementType::Float32],
        implementation: IMPLEMENTATION,
        revision: REVISION,
        prepare,
        infer,
        shape_dependence: ShapeDependence::Shapes,
        coverage: Coverage::Tunable(ParallelConfig::schema),
        regions: REGIONS,
        examples: |element_type, size| {
            vec![Example {
                outputs: 3,
                ..Example::new("normal", vec![ExampleInput::random(element_type, &[size])])
            }]
        },
    }
}

fn check(node: &NodeView<'_>) -> Result<(), PrepareError> {
    match (node.input_count(), node.output_count()) {
        (1, 1..=3) => Ok(()),
        (1, outputs) => Err(PrepareError::Arity {
            what: "outputs",
            expected: "3".to_owned(),
            actual: outputs,
        }),
        (inputs, _) => Err(PrepareError::Arity {
            what: "inputs",
            expected: "1".to_owned(),
            actual: inputs,
        }),
    }
}

fn infer(context: &mut InferContext<'_>) -> Result<(), InferError> {
    check(&context.node)?;
    let dims = context.dims(0).map(<[_]>::to_vec);
    context.set_output(0, ElementType::UInt8, dims);
    context.set_output(1, ElementType::Float32, Some(Vec::new()));
    context.set_output(2, ElementType::UInt8, Some(Vec::new()));
    Ok(())
}

struct Dynamic {
    tier: IsaTier,
    config: Tuned<ParallelConfig>,
}

fn prepare(
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check(node)?;
    Ok(Box::new(Dynamic {
        tier: context.tier,
        config: config("DynamicQuantizeLinear", ElementType::Float32, context),
    }))
}

/// Smallest and largest of zero and the elements that are numbers.
fn range(elements: &[f32]) -> [f32; 2] {
    let (mut low, mut high) = ([0f32; WAYS], [0f32; WAYS]);
    let mut chunks = elements.chunks_exact(WAYS);
    let mut take = |chunk: &[f32]| {
        for ((low, high), &x) in low.iter_mut().zip(&mut high).zip(chunk) {
            *low = if x < *low { x } else { *low };
            *high = if x > *high { x } else { *high };
        }
    };
    (&mut chunks).for_each(&mut take);
    take(chunks.remainder());
    merge(low.into_iter().zip(high).map(|(low, high)| [low, high]))
}

fn merge(ranges: impl Iterator<Item = [f32; 2]>) -> [f32; 2] {
    ranges.fold([0.0, 0.0], |[low, high], [other_low, other_high]| {
        [
            if other_low < low { other_low } else { low },
            if other_high > high { other_high } else { high },
        ]
    })
}

impl PreparedKernel for Dynamic {
    fn workspace(&self, input_dims: &[&[usize]], _: usize) -> usize {
        let elements = input_dims
            .first()
            .and_then(|dims| onl_tensor::element_count(dims))
            .unwrap_or(0);
        elements.div_ceil(BLOCK) * size_of::<[f32; 2]>()
    }

    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let input = io.input(0)?;
        let elements = input.as_slice::<f32>()?;
        let config = self.config.at(elements.len() as u64);
        let blocks = elements.len().div_ceil(BLOCK);
        let spec = RegionSpec {
            minimum_total: config.minimum_elements.div_ceil(BLOCK),
            max_participants: config.maximum_participants,
            serial_ns: elements.len() as u64 / 16,
            ..RegionSpec::new(blocks, config.grain_elements / BLOCK)
        };
        let (_, workspace) = io.output_and_workspace(0, ElementType::UInt8, input.dims())?;
        let length = blocks * size_of::<[f32; 2]>();
        let ranges: &mut [[f32; 2]] = workspace
            .get_mut(..length)
            .and_then(|bytes| bytemuck::try_cast_slice_mut(bytes).ok())
            .ok_or_else(|| KernelError::Other("scratch memory is too small".to_owned()))?;
        lanes.region_over(&RANGE, spec, ranges, 1, |chunk, ranges| {
            for (block, slot) in chunk.range.zip(ranges) {
                let end = ((block + 1) * BLOCK).min(elements.len());
                *slot = range(&elements[block * BLOCK..end]);
            }
        })?;
        let [low, high] = merge(ranges.iter().copied());
        let scale = if low == high {
            1.0
        } else {
            (high - low) / 255.0
        };
        let zero_point = (0.0 - low / scale).clamp(0.0, 255.0).round_ties_even() as u8;
        let zero_points = [zero_point];
        let operands = QuantizeOperands {
            input,
            scale: TensorView::from_bytes(ElementType::Float32, &[], bytemuck::bytes_of(&scale))?,
            zero_point: Some(TensorView::from_bytes(
                ElementType::UInt8,
                &[],
                &zero_points,
            )?),
            granularity: Granularity::Tensor,
        };
        let mut outputs = io.all_outputs(&[
            (ElementType::UInt8, input.dims()),
            (ElementType::Float32, &[]),
            (ElementType::UInt8, &[]),
        ])?;
        let precision = Quantization::Quantize(ElementType::Float32);
        if !input.is_empty() {
            quantize(
                precision,
                operands,
                &mut outputs[0],
                self.tier,
                config,
                lanes,
            )?;
        }
        if let Some(output) = outputs.get_mut(1) {
            output.as_slice_mut()?.copy_from_slice(&[scale]);
        }
        if let Some(output) = outputs.get_mut(2) {
            output.as_slice_mut()?.copy_from_slice(&zero_points);
        }
        Ok(())
    }
}
