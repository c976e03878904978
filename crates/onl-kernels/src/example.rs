use onl_ir::Attribute;
use onl_tensor::{ElementType, Shape, Tensor};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A node with inputs, as calibration, verification, bit tests and benches build it.
#[derive(Debug, Clone)]
pub struct Example {
    /// Name, unique among the examples of an entry, as `equal_shapes`.
    pub name: &'static str,
    /// Inputs; `None` for an omitted optional one.
    pub inputs: Vec<Option<ExampleInput>>,
    /// Attributes.
    pub attributes: BTreeMap<String, Attribute>,
    /// Number of outputs.
    pub outputs: usize,
}

/// One input of an [`Example`].
#[derive(Debug, Clone)]
pub enum ExampleInput {
    /// Seeded random elements: floats are normal with unit variance, integers lie in `[-100, 100]` or `[0, 100]`,
    /// booleans are fair.
    Random {
        /// Element type.
        element_type: ElementType,
        /// Shape.
        shape: Shape,
        /// Whether the value is a constant of the graph (as weights are).
        constant: bool,
    },
    /// Seeded random floats or integers within `[low, high]`.
    Uniform {
        /// Element type.
        element_type: ElementType,
        /// Shape.
        shape: Shape,
        /// Smallest value.
        low: f64,
        /// Largest value.
        high: f64,
    },
    /// A given constant tensor (axes, shapes, indices).
    Constant(Arc<Tensor>),
}

impl Example {
    /// An example without attributes and with one output.
    pub fn new(name: &'static str, inputs: Vec<ExampleInput>) -> Self {
        Example {
            name,
            inputs: inputs.into_iter().map(Some).collect(),
            attributes: BTreeMap::new(),
            outputs: 1,
        }
    }

    /// Bytes of each input that is there.
    pub fn input_bytes(&self) -> impl Iterator<Item = u64> {
        self.inputs.iter().flatten().map(|input| match input {
            ExampleInput::Random {
                element_type,
                shape,
                ..
            }
            | ExampleInput::Uniform {
                element_type,
                shape,
                ..
            } => onl_tensor::byte_length(*element_type, shape).unwrap_or(0) as u64,
            ExampleInput::Constant(tensor) => tensor.bytes().len() as u64,
        })
    }

    /// The example with one attribute more.
    pub fn with_attribute(mut self, name: &str, value: Attribute) -> Self {
        self.attributes.insert(name.to_owned(), value);
        self
    }
}

impl ExampleInput {
    /// Seeded random elements of a value that is not constant.
    pub fn random(element_type: ElementType, dims: &[usize]) -> Self {
        ExampleInput::Random {
            element_type,
            shape: Shape::new(dims),
            constant: false,
        }
    }

    /// Constant i64 elements of rank 1.
    pub fn integers(values: &[i64]) -> Self {
        let tensor =
            Tensor::from_slice(&[values.len()], values).expect("length is that of the slice");
        ExampleInput::Constant(Arc::new(tensor))
    }
}
