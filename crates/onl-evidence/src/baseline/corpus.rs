//! The corpus of kernel baselines, as plain data, and the models that it becomes.

use onl_ir::{Graph, Model, Node, OpId, OpsetImport, TensorType, TypeInfo, ValueInfo};
use onl_kernels::{Example, ExampleInput, KernelEntry, KernelTable, PrepareError};
use onl_tensor::{ElementType, Tensor};
use std::sync::Arc;
use thiserror::Error;

/// An example of a kernel at some sizes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CorpusCase {
    /// Operator of the default domain.
    pub operator: &'static str,
    /// Element type that selects the kernel.
    pub element_type: ElementType,
    /// Name of one of the kernel's examples.
    pub example: &'static str,
    /// Sizes in the unit of the kernel's parameters: elements, or multiply-adds for products.
    pub sizes: &'static [usize],
    /// Whether it is measured twice, for the noise floor.
    pub twice: bool,
}

const fn cube(edge: usize) -> usize {
    edge * edge * edge
}

/// Sizes of the elementwise seed cases.
const SEED: &[usize] = &[1_000, 100_000, 4_000_000];
/// Products that fit the first level of cache, the second, and neither.
const PRODUCTS: &[usize] = &[cube(32), cube(256), cube(1024)];
/// Products of a batch, whose examples stay smaller.
const BATCHES: &[usize] = &[cube(32), cube(96), cube(160)];
/// Elements: far below the portable threshold of division, at it, and far above.
const ELEMENTS: &[usize] = &[1_024, 32_768, 4_194_304];

use ElementType::{BFloat16, Bool, Float16, Float32, Int64, UInt8};

const fn case(
    operator: &'static str,
    element_type: ElementType,
    example: &'static str,
    sizes: &'static [usize],
) -> CorpusCase {
    CorpusCase {
        operator,
        element_type,
        example,
        sizes,
        twice: false,
    }
}

const fn seed(
    operator: &'static str,
    element_type: ElementType,
    example: &'static str,
    sizes: &'static [usize],
) -> CorpusCase {
    CorpusCase {
        twice: true,
        ..case(operator, element_type, example, sizes)
    }
}

/// Every case: the seed, then one or more per family of kernels.
pub const CORPUS: &[CorpusCase] = &[
    seed("Abs", Float32, "contiguous", SEED),
    seed("Not", Bool, "contiguous", SEED),
    seed("Gemm", Float32, "square", PRODUCTS),
    // Elementwise, light and heavy.
    case("Relu", Float32, "contiguous", ELEMENTS),
    case("Exp", Float32, "contiguous", ELEMENTS),
    case("Tanh", Float32, "contiguous", ELEMENTS),
    case("Sigmoid", Float16, "contiguous", ELEMENTS),
    case("Clip", Float32, "contiguous", ELEMENTS),
    case("Add", Float32, "equal_shapes", ELEMENTS),
    case("Mul", Float32, "multidirectional", ELEMENTS),
    case("Add", Float32, "multidirectional_short_rows", ELEMENTS),
    case("Pow", Float32, "scalar", ELEMENTS),
    case("Equal", Int64, "equal_shapes", ELEMENTS),
    case("Max", Float32, "multidirectional", ELEMENTS),
    case("Where", Float32, "equal_shapes", ELEMENTS),
    // Products.
    case(
        "Gemm",
        Float32,
        "transposed",
        &[cube(32), cube(96), cube(160)],
    ),
    case("MatMul", Float32, "constant_b", PRODUCTS),
    case("MatMul", Float32, "batched", BATCHES),
    case("MatMul", Float32, "skinny", BATCHES),
    case(
        "MatMul",
        BFloat16,
        "square",
        &[cube(32), cube(256), cube(512)],
    ),
    case("MatMul", Int64, "square", &[cube(16), cube(32), cube(128)]),
    case("MatMulInteger", UInt8, "constant_b", PRODUCTS),
    // Reductions.
    case("ReduceSum", Float32, "last_axis", ELEMENTS),
    case("ReduceMean", Float32, "first_axis", ELEMENTS),
    case("ReduceMax", Int64, "last_axis", ELEMENTS),
    case("Softmax", Float32, "attention", ELEMENTS),
    case("LayerNormalization", Float32, "hidden", ELEMENTS),
    case("BatchNormalization", Float32, "image", ELEMENTS),
    case("CumSum", Float32, "last_axis", ELEMENTS),
    case("ArgMax", Float32, "last_axis", ELEMENTS),
    case("TopK", Float32, "classes", ELEMENTS),
    // Quantization.
    case("QuantizeLinear", Float32, "tensor", ELEMENTS),
    case("DynamicQuantizeLinear", Float32, "normal", ELEMENTS),
    // Movement.
    case("Transpose", Float32, "matrix", ELEMENTS),
    case("Transpose", Float32, "heads", ELEMENTS),
    case("Gather", Float32, "rows", ELEMENTS),
    case("Concat", Float32, "inner", ELEMENTS),
    case("Split", Float32, "three", ELEMENTS),
    case("Slice", Float32, "columns", ELEMENTS),
    case("Expand", Float32, "rows", ELEMENTS),
    case("Pad", Float32, "constant", ELEMENTS),
    case("Cast", Float32, "vector", ELEMENTS),
    case("ScatterElements", Float32, "along_rows", ELEMENTS),
    case("OneHot", Float32, "classes", ELEMENTS),
    case("NonZero", Bool, "vector", ELEMENTS),
];

/// Operator-set version of the models.
const OPSET: i64 = 22;
const IR_VERSION: i64 = 10;

/// Why a case cannot be built.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum CorpusError {
    #[error("case {case}: no kernel of the table serves it: {reason}")]
    NoKernel { case: String, reason: String },
    #[error("case {case}: the kernel has no example '{example}', it has: {examples}")]
    NoExample {
        case: String,
        example: String,
        examples: String,
    },
    #[error("case {case}: its inputs cannot be made: {reason}")]
    Inputs { case: String, reason: PrepareError },
}

impl CorpusCase {
    /// Name at a size, the same on every machine.
    pub fn name(&self, size: usize) -> String {
        let edge = (size as f64).cbrt().round() as usize;
        let size =
            if matches!(self.operator, "Gemm" | "MatMul" | "MatMulInteger") && cube(edge) == size {
                format!("{edge}^3")
            } else {
                size.to_string()
            };
        format!(
            "{}/{} {}/{size}",
            self.operator, self.element_type, self.example
        )
    }

    /// The kernel that runs it.
    ///
    /// # Errors
    /// [`CorpusError::NoKernel`].
    pub fn entry<'t>(&self, table: &'t KernelTable) -> Result<&'t KernelEntry, CorpusError> {
        let op = OpId::new(OpId::ONNX, self.operator);
        table
            .find(&op, OPSET, self.element_type)
            .map_err(|error| CorpusError::NoKernel {
                case: format!("{}/{}", self.operator, self.element_type),
                reason: error.to_string(),
            })
    }

    /// A one-node model at a size, with its inputs.
    ///
    /// # Errors
    /// Every [`CorpusError`].
    pub fn build(&self, table: &KernelTable, size: usize) -> Result<CaseModel, CorpusError> {
        let case = || self.name(size);
        let entry = self.entry(table)?;
        let examples = (entry.examples)(self.element_type, size);
        let names: Vec<&str> = examples.iter().map(|example| example.name).collect();
        let names = names.join(", ");
        let example = examples
            .into_iter()
            .find(|example| example.name == self.example)
            .ok_or_else(|| CorpusError::NoExample {
                case: case(),
                example: self.example.to_owned(),
                examples: names,
            })?;
        let inputs = example
            .materialize()
            .map_err(|reason| CorpusError::Inputs {
                case: case(),
                reason,
            })?;
        Ok(CaseModel::new(entry, &example, inputs))
    }
}

/// A one-node model with its inputs.
#[derive(Debug, Clone)]
pub struct CaseModel {
    /// The model.
    pub model: Model,
    /// Inputs of the graph in its order.
    pub inputs: Vec<Arc<Tensor>>,
    /// Inputs of the node; whether each is a constant of the graph.
    pub operands: Vec<Option<(Arc<Tensor>, bool)>>,
    /// Floating-point operations of one run, a multiply-add counting as two.
    pub flops: u64,
}

impl CaseModel {
    fn new(entry: &KernelEntry, example: &Example, tensors: Vec<Option<Arc<Tensor>>>) -> Self {
        let mut graph = Graph {
            name: "case".to_owned(),
            ..Graph::default()
        };
        let mut inputs = Vec::new();
        let mut operands = Vec::new();
        let mut node = Node {
            name: entry.op_type.to_owned(),
            op: OpId::new(entry.domain, entry.op_type),
            overload: String::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            attributes: example.attributes.clone(),
        };
        for (index, (tensor, input)) in tensors.into_iter().zip(&example.inputs).enumerate() {
            let Some(tensor) = tensor else {
                node.inputs.push(None);
                operands.push(None);
                continue;
            };
            let tensor_type = TensorType::with_dims(tensor.element_type(), tensor.dims());
            let id = graph.add_value(ValueInfo {
                name: format!("input_{index}"),
                value_type: Some(TypeInfo::Tensor(tensor_type)),
            });
            node.inputs.push(Some(id));
            let constant = matches!(
                input,
                Some(ExampleInput::Constant(_) | ExampleInput::Random { constant: true, .. })
            );
            if constant {
                graph.initializers.insert(id, Arc::clone(&tensor));
            } else {
                graph.inputs.push(id);
                inputs.push(Arc::clone(&tensor));
            }
            operands.push(Some((tensor, constant)));
        }
        for index in 0..example.outputs {
            let id = graph.add_value(ValueInfo {
                name: format!("output_{index}"),
                value_type: None,
            });
            node.outputs.push(Some(id));
            graph.outputs.push(id);
        }
        graph.nodes.push(node);
        let element_type = operands
            .iter()
            .flatten()
            .next()
            .map(|(tensor, _)| tensor.element_type());
        // The ceiling of operations is that of floats.
        let flops = match element_type {
            Some(element_type) if element_type.is_float() => example.work(entry.op_type).flops,
            _ => 0,
        };
        let model = Model {
            ir_version: IR_VERSION,
            opset_imports: vec![OpsetImport {
                domain: OpId::ONNX.to_owned(),
                version: OPSET.clamp(entry.opsets.0, entry.opsets.1),
            }],
            graph,
            ..Model::default()
        };
        CaseModel {
            model,
            inputs,
            operands,
            flops,
        }
    }

    /// The model as the bytes of a file.
    pub fn bytes(&self) -> Vec<u8> {
        onl_onnx::model_to_bytes(&self.model)
    }
}
