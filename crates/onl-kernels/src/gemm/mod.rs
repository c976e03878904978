//! Matrix products: `Gemm`, `MatMul`, `MatMulInteger` and `QLinearMatMul`, and `FusedGemm` and `FusedMatMul` of the
//! domain `com.microsoft`, over `onl-gemm`.
//!
//! The order of arithmetic is that of `onl-gemm`; integers wrap around. Specifications: `Gemm` of operator sets 7, 9,
//! 11 and 13, `MatMul` of 1, 9 and 13. 16-bit brain floats came with 13, integers with 9, and input C of `Gemm` became
//! optional with 11.

mod general;
mod geometry;
mod integer;
mod matmul;
mod quantized;
#[cfg(test)]
mod tests;

use crate::{
    Coverage, Example, ExampleInput, KernelEntry, KernelError, PrepareContext, PrepareError,
    PreparedKernel, SearchContext, ShapeDependence, TypeSource,
};
use onl_cpu::IsaTier;
use onl_gemm::{GemmConfig, GemmError, Matrix, PRODUCT_REGION, PackedB, Storage};
use onl_ir::{Attribute, NodeView};
use onl_profiling::RegionSite;
use onl_snapshot::{KernelKey, ParallelConfig, Search, Tuned, TunedConfig};
use onl_tensor::{ElementType, Shape};
use std::sync::Arc;

const FLOATS: &[ElementType] = &[
    ElementType::Float32,
    ElementType::Float64,
    ElementType::Float16,
    ElementType::BFloat16,
];
/// Types whose B can be read in place.
const NATIVE: &[ElementType] = &[ElementType::Float32, ElementType::Float64];
/// Types that are widened while they are packed.
const WIDENED: &[ElementType] = &[ElementType::Float16, ElementType::BFloat16];
const INTEGERS: &[ElementType] = &[
    ElementType::Int32,
    ElementType::Int64,
    ElementType::UInt32,
    ElementType::UInt64,
];

const IMPLEMENTATION: &str = "packed";
const REVISION: u32 = 4;
/// Names of the fused operators in tuning keys.
const FUSED_GEMM: &str = "com.microsoft:FusedGemm";
const FUSED_MATMUL: &str = "com.microsoft:FusedMatMul";

/// Multiply-adds of the calibrated examples: products that one lane may keep, that lanes share, and that leave the
/// second-level cache.
const SIZES: &[usize] = &[32 * 32 * 32, 128 * 128 * 128, 256 * 256 * 256];

static REGIONS: &[&RegionSite] = &[&PRODUCT_REGION];
static INTEGER_REGIONS: &[&RegionSite] = &[&integer::REGION];

/// Kernels of the family.
pub(crate) fn entries() -> Vec<KernelEntry> {
    let gemm = KernelEntry {
        domain: "ai.onnx",
        op_type: "Gemm",
        opsets: (7, i64::MAX),
        type_source: TypeSource::Input(0),
        element_types: NATIVE,
        implementation: IMPLEMENTATION,
        revision: REVISION,
        prepare: general::prepare,
        infer: general::infer,
        shape_dependence: ShapeDependence::Shapes,
        coverage: Coverage::Calibratable {
            schema: GemmConfig::schema,
            sizes: SIZES,
            search,
        },
        regions: REGIONS,
        examples: gemm_examples,
    };
    let matmul = KernelEntry {
        op_type: "MatMul",
        opsets: (1, i64::MAX),
        prepare: matmul::prepare,
        infer: matmul::infer,
        examples: matmul_examples,
        ..gemm.clone()
    };
    let fused_gemm = KernelEntry {
        domain: "com.microsoft",
        op_type: "FusedGemm",
        opsets: (1, i64::MAX),
        prepare: general::prepare_fused,
        infer: general::infer_fused,
        examples: fused_gemm_examples,
        ..gemm.clone()
    };
    let fused_matmul = KernelEntry {
        domain: "com.microsoft",
        op_type: "FusedMatMul",
        opsets: (1, i64::MAX),
        prepare: matmul::prepare_fused,
        infer: matmul::infer_fused,
        examples: fused_matmul_examples,
        ..gemm.clone()
    };
    let integers = |entry: &KernelEntry, prepare| KernelEntry {
        opsets: (9, i64::MAX),
        element_types: INTEGERS,
        implementation: integer::IMPLEMENTATION,
        revision: integer::REVISION,
        prepare,
        coverage: Coverage::Tunable(ParallelConfig::schema),
        regions: INTEGER_REGIONS,
        ..entry.clone()
    };
    let integer_entries = [
        integers(&gemm, integer::prepare_gemm),
        integers(&matmul, integer::prepare),
    ];
    let widened = |entry: &KernelEntry| KernelEntry {
        element_types: WIDENED,
        coverage: Coverage::Calibratable {
            schema: GemmConfig::widened_schema,
            sizes: SIZES,
            search: widened_search,
        },
        ..entry.clone()
    };
    let floats = [gemm, matmul, fused_gemm, fused_matmul];
    floats
        .into_iter()
        .flat_map(|entry| [widened(&entry), entry])
        .chain(integer_entries)
        .chain(quantized::entries())
        .collect()
}

fn widened_search(context: &SearchContext) -> Search {
    let schema = GemmConfig::widened_schema();
    Search::Candidates(GemmConfig::candidates(schema, 4, context.l2_bytes))
}

fn search(context: &SearchContext) -> Search {
    let accumulator = if context.element_type == ElementType::Float64 {
        8
    } else {
        4
    };
    Search::Candidates(GemmConfig::candidates(
        GemmConfig::schema(),
        accumulator,
        context.l2_bytes,
    ))
}

/// Instantiates a generic prepared kernel for the element type of input 0.
macro_rules! for_float {
    ($node:expr, $make:path, $($argument:expr),*) => {
        match crate::gemm::element_type($node, crate::gemm::FLOATS)? {
            onl_tensor::ElementType::Float64 => $make(PhantomData::<f64>, $($argument),*),
            onl_tensor::ElementType::Float16 => $make(PhantomData::<onl_tensor::f16>, $($argument),*),
            onl_tensor::ElementType::BFloat16 => $make(PhantomData::<onl_tensor::bf16>, $($argument),*),
            _ => $make(PhantomData::<f32>, $($argument),*),
        }
    };
}
use for_float;

/// Element type of all inputs, one of `served` that the operator set allows.
fn element_type(node: &NodeView<'_>, served: &[ElementType]) -> Result<ElementType, PrepareError> {
    let element_type = node
        .input_element_type(0)
        .ok_or(PrepareError::MissingInput { index: 0 })?;
    let refuse = |index, element_type, allowed: String| {
        Err(PrepareError::ElementType {
            index,
            element_type,
            allowed,
        })
    };
    if element_type == ElementType::BFloat16 && node.opset < 13 {
        return refuse(0, element_type, "bf16 came with operator set 13".to_owned());
    }
    if !served.contains(&element_type) {
        let names: Vec<&str> = served.iter().map(|t| t.name()).collect();
        return refuse(0, element_type, format!("served: {}", names.join(", ")));
    }
    for index in 1..node.input_count() {
        match node.input_element_type(index) {
            Some(other) if other != element_type => {
                return refuse(
                    index,
                    other,
                    format!("all inputs have the type of input 0, {element_type}"),
                );
            }
            _ => {}
        }
    }
    Ok(element_type)
}

/// Checks how many inputs and outputs a node has.
fn check_arity(node: &NodeView<'_>, required: usize, most: usize) -> Result<(), PrepareError> {
    let count = node.input_count();
    if count > most {
        let expected = if required == most {
            format!("{most}")
        } else {
            format!("{required} to {most}")
        };
        return Err(PrepareError::Arity {
            what: "inputs",
            expected,
            actual: count,
        });
    }
    if let Some(index) = (0..required).find(|&i| node.input(i).is_none()) {
        return Err(PrepareError::MissingInput { index });
    }
    if node.output_count() != 1 {
        return Err(PrepareError::Arity {
            what: "outputs",
            expected: "1".to_owned(),
            actual: node.output_count(),
        });
    }
    Ok(())
}

/// A constant B, packed for the tier and shared with whoever packed the same. A single column stays as it is: its
/// product is that of a row by the transpose of A.
fn packed_constant<S: Storage>(
    matrix: &Matrix<'_, S>,
    matrices: usize,
    k: usize,
    n: usize,
    tier: IsaTier,
) -> Result<Option<Arc<PackedB<S>>>, PrepareError> {
    if n == 1 {
        return Ok(None);
    }
    match PackedB::shared(matrix, matrices, k, n, tier) {
        Ok(packed) => Ok(Some(packed)),
        Err(GemmError::Tensor(error)) => Err(error.into()),
        Err(error) => Err(PrepareError::Other(error.to_string())),
    }
}

fn config(
    op_type: &'static str,
    element_type: ElementType,
    context: &PrepareContext<'_>,
) -> Tuned<GemmConfig> {
    context.snapshot.config(&KernelKey::builtin(
        op_type,
        IMPLEMENTATION,
        element_type,
        REVISION,
    ))
}

impl From<GemmError> for KernelError {
    fn from(error: GemmError) -> Self {
        match error {
            GemmError::Region(error) => error.into(),
            GemmError::Tensor(error) => error.into(),
            other => KernelError::Other(other.to_string()),
        }
    }
}

type Prepared = Result<Box<dyn PreparedKernel>, PrepareError>;

/// Edge of a cube, and of a square times `height`, of about `size` multiply-adds.
fn edges(size: usize, height: usize) -> (usize, usize) {
    let edge = (size as f64).cbrt().round().max(1.0) as usize;
    let wide = (size as f64 / height as f64).sqrt().round().max(1.0) as usize;
    (edge, wide)
}

fn constant(element_type: ElementType, dims: &[usize]) -> ExampleInput {
    ExampleInput::Random {
        element_type,
        shape: Shape::new(dims),
        constant: true,
    }
}

/// Products of more multiply-adds than this are exemplified by the two ordinary cases alone: the others take the same
/// paths at smaller sizes, and the operands of skinny products grow with the square of their edge.
const ORDINARY_ONLY: usize = 4 << 20;

fn gemm_examples(element_type: ElementType, size: usize) -> Vec<Example> {
    let (s, w) = edges(size, 4);
    let random = |dims: &[usize]| ExampleInput::random(element_type, dims);
    let fixed = |dims: &[usize]| constant(element_type, dims);
    let mut examples = vec![
        Example::new("square", vec![random(&[s, s]), random(&[s, s])]),
        Example::new(
            "constant_b",
            vec![random(&[s, s]), fixed(&[s, s]), fixed(&[s])],
        ),
    ];
    if size > ORDINARY_ONLY {
        return examples;
    }
    examples.extend([
        Example::new("skinny", vec![random(&[4, w]), random(&[w, w])]),
        Example::new("transposed", vec![random(&[s, s]), random(&[s, s])])
            .with_attribute("transA", Attribute::Int(1))
            .with_attribute("transB", Attribute::Int(1)),
        Example::new(
            "scaled_bias",
            vec![random(&[s, s]), random(&[s, s]), random(&[s, 1])],
        )
        .with_attribute("alpha", Attribute::Float(0.5))
        .with_attribute("beta", Attribute::Float(-2.0)),
    ]);
    examples
}

fn matmul_examples(element_type: ElementType, size: usize) -> Vec<Example> {
    let (s, w) = edges(size, 4);
    let (b, v) = edges(size / 4, 1);
    let random = |dims: &[usize]| ExampleInput::random(element_type, dims);
    let fixed = |dims: &[usize]| constant(element_type, dims);
    let mut examples = vec![
        Example::new("square", vec![random(&[s, s]), random(&[s, s])]),
        Example::new("constant_b", vec![random(&[s, s]), fixed(&[s, s])]),
    ];
    if size > ORDINARY_ONLY {
        return examples;
    }
    examples.extend([
        Example::new("skinny", vec![random(&[4, w]), random(&[w, w])]),
        Example::new(
            "batched",
            vec![random(&[2, 2, b, b]), random(&[2, 1, b, b])],
        ),
        Example::new("vector", vec![random(&[2 * v]), random(&[2 * v, 2 * v])]),
    ]);
    examples
}

fn fused_gemm_examples(element_type: ElementType, size: usize) -> Vec<Example> {
    let (s, _) = edges(size, 1);
    let random = |dims: &[usize]| ExampleInput::random(element_type, dims);
    let fixed = |dims: &[usize]| constant(element_type, dims);
    let activated = |name, activation: &str| {
        Example::new(name, vec![random(&[s, s]), fixed(&[s, s]), fixed(&[s])])
            .with_attribute("activation", Attribute::String(activation.into()))
    };
    let varying = vec![random(&[s, s]), random(&[s, s]), random(&[s])];
    let mut examples = vec![
        Example::new("square", varying)
            .with_attribute("activation", Attribute::String("Relu".into())),
        activated("constant_b", "Gelu"),
    ];
    if size > ORDINARY_ONLY {
        return examples;
    }
    examples.extend([
        activated("leaky_relu", "LeakyRelu")
            .with_attribute("activation_alpha", Attribute::Float(0.5)),
        activated("clip", "Clip")
            .with_attribute("activation_alpha", Attribute::Float(-0.5))
            .with_attribute("activation_beta", Attribute::Float(0.5)),
        activated("sigmoid", "Sigmoid"),
        activated("tanh", "Tanh"),
    ]);
    examples
}

fn fused_matmul_examples(element_type: ElementType, size: usize) -> Vec<Example> {
    let (s, _) = edges(size, 1);
    let (b, _) = edges(size / 6, 1);
    let random = |dims: &[usize]| ExampleInput::random(element_type, dims);
    let scaled = |name| {
        Example::new(name, vec![random(&[s, s]), random(&[s, s])])
            .with_attribute("alpha", Attribute::Float(0.125))
    };
    let mut examples = vec![
        scaled("square"),
        Example::new(
            "constant_b",
            vec![random(&[s, s]), constant(element_type, &[s, s])],
        )
        .with_attribute("alpha", Attribute::Float(0.125)),
    ];
    if size > ORDINARY_ONLY {
        return examples;
    }
    examples.extend([
        scaled("transposed_b").with_attribute("transB", Attribute::Int(1)),
        Example::new(
            "heads_between_rows",
            vec![random(&[b, 2, 3, b]), random(&[b, 2, 3, b])],
        )
        .with_attribute("transBatchA", Attribute::Int(1))
        .with_attribute("transBatchB", Attribute::Int(1))
        .with_attribute("transB", Attribute::Int(1)),
        Example::new("vector", vec![random(&[s, s]), random(&[s])]),
    ]);
    examples
}
