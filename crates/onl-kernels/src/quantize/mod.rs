//! `QuantizeLinear`, `DequantizeLinear` and `DynamicQuantizeLinear`.
//!
//! The arithmetic is that of `onl_elementwise`'s quantization. Scales are scalars, vectors along an axis, or tensors of
//! blocks along an axis. Specifications: `QuantizeLinear` and `DequantizeLinear` of operator sets 10 to 25, integers of 4,
//! 8 and 16 bits (8- and 4-bit floats are not served); `DynamicQuantizeLinear` of 11, whose scale is 1 when all elements
//! are zero and which takes no notice of NaN when it looks for the range.

mod dynamic;
#[cfg(test)]
mod tests;

use crate::{
    Coverage, Example, ExampleInput, InferContext, InferError, KernelEntry, KernelError, KernelIo,
    PrepareContext, PrepareError, PreparedKernel, ShapeDependence, TypeSource,
};
use onl_cpu::IsaTier;
use onl_elementwise::{Granularity, QUANTIZE, Quantization, QuantizeOperands, quantize};
use onl_executor::Lanes;
use onl_ir::{Attribute, NodeView};
use onl_profiling::RegionSite;
use onl_snapshot::{KernelKey, ParallelConfig, Tuned, TunedConfig};
use onl_tensor::{ElementType, Shape};

const IMPLEMENTATION: &str = "vector";
const REVISION: u32 = 2;

const FLOATS: &[ElementType] = &[
    ElementType::Float32,
    ElementType::Float16,
    ElementType::BFloat16,
];
/// Types that are quantized, and of scales of quantization.
const WIDE: &[ElementType] = &[
    ElementType::Float32,
    ElementType::Float16,
    ElementType::BFloat16,
    ElementType::Int32,
];
/// Types that quantization leads to.
const NARROW: &[ElementType] = &[
    ElementType::UInt8,
    ElementType::Int8,
    ElementType::UInt16,
    ElementType::Int16,
    ElementType::UInt4,
    ElementType::Int4,
];
/// Types that are dequantized.
const QUANTIZED: &[ElementType] = &[
    ElementType::UInt8,
    ElementType::Int8,
    ElementType::UInt16,
    ElementType::Int16,
    ElementType::UInt4,
    ElementType::Int4,
    ElementType::Int32,
];

static REGIONS: &[&RegionSite] = &[&QUANTIZE];

/// Kernels of the family.
pub(crate) fn entries() -> Vec<KernelEntry> {
    let quantize = KernelEntry {
        domain: "ai.onnx",
        op_type: "QuantizeLinear",
        opsets: (10, i64::MAX),
        type_source: TypeSource::Input(0),
        element_types: WIDE,
        implementation: IMPLEMENTATION,
        revision: REVISION,
        prepare: |node, context| prepare("QuantizeLinear", quantize_types(node)?, node, context),
        infer: |context| {
            let types = quantize_types(&context.node)?;
            infer(types, context)
        },
        shape_dependence: ShapeDependence::Shapes,
        coverage: Coverage::Tunable(ParallelConfig::schema),
        regions: REGIONS,
        examples: quantize_examples,
    };
    let dequantize = KernelEntry {
        op_type: "DequantizeLinear",
        element_types: QUANTIZED,
        prepare: |node, context| {
            prepare("DequantizeLinear", dequantize_types(node)?, node, context)
        },
        infer: |context| {
            let types = dequantize_types(&context.node)?;
            infer(types, context)
        },
        examples: dequantize_examples,
        ..quantize.clone()
    };
    vec![quantize, dequantize, dynamic::entry()]
}

/// What the types of a node's inputs and its attributes say.
#[derive(Debug, Clone, Copy)]
struct Types {
    operation: Quantization,
    output: ElementType,
}

fn one_of(
    node: &NodeView<'_>,
    index: usize,
    allowed: &[ElementType],
) -> Result<ElementType, PrepareError> {
    let element_type = node
        .input_element_type(index)
        .ok_or(PrepareError::MissingInput { index })?;
    if allowed.contains(&element_type) {
        return Ok(element_type);
    }
    let names: Vec<&str> = allowed.iter().map(|t| t.name()).collect();
    Err(PrepareError::ElementType {
        index,
        element_type,
        allowed: format!("served: {}", names.join(", ")),
    })
}

/// An attribute that names one of some element types; 0 and nothing mean none.
fn type_attribute(
    node: &NodeView<'_>,
    attribute: &'static str,
    allowed: &[ElementType],
) -> Result<Option<ElementType>, PrepareError> {
    match node.int(attribute)? {
        None | Some(0) => Ok(None),
        Some(number) => i32::try_from(number)
            .ok()
            .and_then(ElementType::from_onnx)
            .filter(|t| allowed.contains(t))
            .map(Some)
            .ok_or_else(|| PrepareError::Attribute {
                attribute,
                reason: format!("element type number {number} is not served"),
            }),
    }
}

fn check_arity(node: &NodeView<'_>) -> Result<(), PrepareError> {
    let arity = |what, expected: &str, actual| {
        Err(PrepareError::Arity {
            what,
            expected: expected.to_owned(),
            actual,
        })
    };
    match (node.input_count(), node.output_count()) {
        (2..=3, 1) => Ok(()),
        (2..=3, outputs) => arity("outputs", "1", outputs),
        (inputs, _) => arity("inputs", "2 to 3", inputs),
    }
}

fn quantize_types(node: &NodeView<'_>) -> Result<Types, PrepareError> {
    check_arity(node)?;
    one_of(node, 0, WIDE)?;
    let scale = one_of(node, 1, WIDE)?;
    let zero_point = match node.input(2) {
        Some(_) => Some(one_of(node, 2, NARROW)?),
        None => None,
    };
    let named = type_attribute(node, "output_dtype", NARROW)?;
    if let (Some(zero_point), Some(named)) = (zero_point, named)
        && zero_point != named
    {
        return Err(PrepareError::Attribute {
            attribute: "output_dtype",
            reason: format!("it names {named}, the zero point is {zero_point}"),
        });
    }
    let precision = type_attribute(node, "precision", FLOATS)?.unwrap_or(scale);
    Ok(Types {
        operation: Quantization::Quantize(precision),
        output: zero_point.or(named).unwrap_or(ElementType::UInt8),
    })
}

fn dequantize_types(node: &NodeView<'_>) -> Result<Types, PrepareError> {
    check_arity(node)?;
    let element_type = one_of(node, 0, QUANTIZED)?;
    let scale = one_of(node, 1, FLOATS)?;
    if node.input(2).is_some() {
        one_of(node, 2, &[element_type])?;
    }
    Ok(Types {
        operation: Quantization::Dequantize,
        output: type_attribute(node, "output_dtype", FLOATS)?.unwrap_or(scale),
    })
}

fn infer(types: Types, context: &mut InferContext<'_>) -> Result<(), InferError> {
    let dims = context.dims(0).map(<[_]>::to_vec);
    context.set_output(0, types.output, dims);
    Ok(())
}

struct Quantize {
    types: Types,
    axis: i64,
    block: usize,
    tier: IsaTier,
    config: Tuned<ParallelConfig>,
}

fn prepare(
    op_type: &'static str,
    types: Types,
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    let block = node.int("block_size")?.unwrap_or(0);
    let block = usize::try_from(block).map_err(|_| PrepareError::Attribute {
        attribute: "block_size",
        reason: format!("{block} is negative"),
    })?;
    let element_type = node
        .input_element_type(0)
        .ok_or(PrepareError::MissingInput { index: 0 })?;
    Ok(Box::new(Quantize {
        types,
        axis: node.int("axis")?.unwrap_or(1),
        block,
        tier: context.tier,
        config: config(op_type, element_type, context),
    }))
}

fn config(
    op_type: &'static str,
    element_type: ElementType,
    context: &PrepareContext<'_>,
) -> Tuned<ParallelConfig> {
    context.snapshot.config(&KernelKey::builtin(
        op_type,
        IMPLEMENTATION,
        element_type,
        REVISION,
    ))
}

/// Which elements of a scale of these dimensions belong to which of the input.
fn granularity(
    dims: &[usize],
    scale: &[usize],
    axis: i64,
    block: usize,
) -> Result<Granularity, KernelError> {
    let refuse = |reason: String| Err(KernelError::InvalidInput { index: 1, reason });
    if block == 0 && scale.iter().all(|&dim| dim == 1) {
        return Ok(Granularity::Tensor);
    }
    let rank = dims.len() as i64;
    let resolved = if axis < 0 { axis + rank } else { axis };
    // The axis of a vector is not in doubt.
    let resolved = if rank == 1 { 0 } else { resolved };
    if !(0..rank).contains(&resolved) {
        return refuse(format!("axis {axis} is outside an input of rank {rank}"));
    }
    let index = resolved as usize;
    let (size, inner) = (
        dims[index],
        dims[index + 1..]
            .iter()
            .fold(1usize, |product, &dim| product.saturating_mul(dim)),
    );
    if block == 0 {
        if scale != [size] {
            return refuse(format!(
                "dimensions {scale:?} are neither a scalar nor one element for each of {size} indices of axis {index}"
            ));
        }
        return Ok(Granularity::Axis { axis: size, inner });
    }
    let fits = scale.len() == dims.len()
        && scale.iter().zip(dims).enumerate().all(|(i, (&s, &d))| {
            if i == index {
                s == d.div_ceil(block)
            } else {
                s == d
            }
        });
    if !fits {
        return refuse(format!(
            "dimensions {scale:?} do not give blocks of {block} along axis {index} of {dims:?}"
        ));
    }
    Ok(Granularity::Blocked {
        axis: size,
        inner,
        block,
    })
}

impl PreparedKernel for Quantize {
    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let (input, scale, zero_point) = (io.input(0)?, io.input(1)?, io.optional_input(2));
        let granularity = granularity(input.dims(), scale.dims(), self.axis, self.block)?;
        if let Some(zero_point) = zero_point
            && zero_point.len() != scale.len()
        {
            return Err(KernelError::InvalidInput {
                index: 2,
                reason: format!(
                    "dimensions {:?} are not those of the scale, {:?}",
                    zero_point.dims(),
                    scale.dims()
                ),
            });
        }
        let operands = QuantizeOperands {
            input,
            scale,
            zero_point,
            granularity,
        };
        let mut output = io.output(0, self.types.output, input.dims())?;
        if input.is_empty() {
            return Ok(());
        }
        let config = self.config.at(input.len() as u64);
        let operation = self.types.operation;
        Ok(quantize(
            operation,
            operands,
            &mut output,
            self.tier,
            config,
            lanes,
        )?)
    }
}

fn scales(element_type: ElementType, dims: &[usize], low: f64) -> ExampleInput {
    ExampleInput::Uniform {
        element_type,
        shape: Shape::new(dims),
        low,
        high: 2.0 * low,
    }
}

/// A matrix of about `size` elements.
fn matrix(size: usize) -> [usize; 2] {
    let rows = (size as f64).sqrt().round().max(1.0) as usize;
    [rows, size.div_ceil(rows).max(1)]
}

fn quantize_examples(element_type: ElementType, size: usize) -> Vec<Example> {
    let [rows, columns] = matrix(size);
    let random = |dims: &[usize]| ExampleInput::random(element_type, dims);
    let point = ExampleInput::random;
    let low = if element_type == ElementType::Int32 {
        0.5
    } else {
        0.02
    };
    let scale = |dims: &[usize]| scales(ElementType::Float32, dims, low);
    let x = [rows, columns];
    vec![
        Example::new(
            "tensor",
            vec![random(&x), scale(&[]), point(ElementType::UInt8, &[])],
        ),
        Example::new(
            "rows",
            vec![
                random(&x),
                scale(&[rows]),
                point(ElementType::Int8, &[rows]),
            ],
        )
        .with_attribute("axis", Attribute::Int(0)),
        Example::new(
            "columns",
            vec![
                random(&x),
                scales(ElementType::Float16, &[columns], low),
                point(ElementType::Int16, &[columns]),
            ],
        )
        .with_attribute("axis", Attribute::Int(-1)),
        Example::new(
            "blocks",
            vec![
                random(&x),
                scale(&[rows, columns.div_ceil(32)]),
                point(ElementType::UInt4, &[rows, columns.div_ceil(32)]),
            ],
        )
        .with_attribute("block_size", Attribute::Int(32)),
    ]
}

fn dequantize_examples(element_type: ElementType, size: usize) -> Vec<Example> {
    let [rows, columns] = matrix(size);
    let random = |dims: &[usize]| ExampleInput::random(element_type, dims);
    let scale = |dims: &[usize]| scales(ElementType::Float32, dims, 0.02);
    let x = [rows, columns];
    vec![
        Example::new("tensor", vec![random(&x), scale(&[]), random(&[])]),
        Example::new("rows", vec![random(&x), scale(&[rows]), random(&[rows])])
            .with_attribute("axis", Attribute::Int(0)),
        Example::new(
            "columns",
            vec![random(&x), scales(ElementType::BFloat16, &[columns], 0.02)],
        ),
        Example::new(
            "blocks",
            vec![
                random(&x),
                scale(&[rows.div_ceil(16), columns]),
                random(&[rows.div_ceil(16), columns]),
            ],
        )
        .with_attribute("axis", Attribute::Int(0))
        .with_attribute("block_size", Attribute::Int(16)),
    ]
}
