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

/// What one run of an [`Example`] has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// Floating-point operations, a multiply-add counting as two; 0 for operators that are not products, and for products of
    /// integers, whose instructions have other ceilings.
    pub flops: u64,
    /// Bytes of inputs and outputs; an output that is not a product's counts as the largest input.
    pub bytes: u64,
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

    /// The least work of one run as an operator of this type.
    pub fn work(&self, op_type: &str) -> Work {
        let inputs = self.input_bytes().sum::<u64>();
        let product = match op_type {
            "Gemm" | "MatMul" | "FusedGemm" | "FusedMatMul" => self.product(1, None),
            "MatMulInteger" => self.product(1, Some(ElementType::Int32)),
            "QLinearMatMul" => self.product(3, None),
            _ => None,
        };
        match product {
            Some((flops, output_bytes)) => Work {
                flops,
                bytes: inputs + output_bytes,
            },
            None => Work {
                flops: 0,
                bytes: inputs + self.input_bytes().max().unwrap_or(0),
            },
        }
    }

    /// Floating-point operations and output bytes of the product of the first input and input `b`; the output's type is that
    /// of the first input, unless another is given.
    fn product(&self, b: usize, output_type: Option<ElementType>) -> Option<(u64, u64)> {
        let operand = |index: usize| {
            let input = self.inputs.get(index)?.as_ref()?;
            Some((input.element_type(), input.dims()))
        };
        let transposed = |name: &str| matches!(self.attributes.get(name), Some(Attribute::Int(value)) if *value != 0);
        let ((element_type, a), (_, b)) = (operand(0)?, operand(b)?);
        let (m, k) = match (a, transposed("transA")) {
            ([k], _) => (1, *k),
            ([.., m, k], false) | ([.., k, m], true) => (*m, *k),
            ([], _) => return None,
        };
        let n = match (b, transposed("transB")) {
            ([_], _) => 1,
            ([.., _, n], false) | ([.., n, _], true) => *n,
            ([], _) => return None,
        };
        // Operands without the larger batch are repeated over it.
        let batch = |dims: &[usize], matrix: usize| {
            let elements: usize = dims.iter().product();
            elements.checked_div(matrix).unwrap_or(0)
        };
        let outputs = batch(a, m * k).max(batch(b, k * n)) * m * n;
        let flops = if element_type.is_float() {
            2 * (outputs * k) as u64
        } else {
            0
        };
        let element_type = output_type.unwrap_or(element_type);
        let bytes = onl_tensor::byte_length(element_type, &[outputs]).ok()?;
        Some((flops, bytes as u64))
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

impl ExampleInput {
    fn element_type(&self) -> ElementType {
        match self {
            ExampleInput::Random { element_type, .. }
            | ExampleInput::Uniform { element_type, .. } => *element_type,
            ExampleInput::Constant(tensor) => tensor.element_type(),
        }
    }

    fn dims(&self) -> &[usize] {
        match self {
            ExampleInput::Random { shape, .. } | ExampleInput::Uniform { shape, .. } => shape,
            ExampleInput::Constant(tensor) => tensor.dims(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(dims: &[usize]) -> ExampleInput {
        ExampleInput::Random {
            element_type: ElementType::Float32,
            shape: Shape::new(dims),
            constant: false,
        }
    }

    #[test]
    fn work_of_products_counts_multiply_adds_twice_and_all_bytes() {
        let work = |a: &[usize], b: &[usize]| {
            Example::new("case", vec![random(a), random(b)]).work("MatMul")
        };
        let bytes = |elements: u64| 4 * elements;
        let expected = Work {
            flops: 2 * 2 * 3 * 5,
            bytes: bytes(2 * 5 + 5 * 3 + 2 * 3),
        };
        assert_eq!(work(&[2, 5], &[5, 3]), expected);
        assert_eq!(work(&[5], &[5, 3]).flops, 2 * 5 * 3);
        assert_eq!(work(&[2, 5], &[5]).flops, 2 * 5 * 2);
        assert_eq!(work(&[7, 2, 5], &[5, 3]).flops, 7 * 60);
        assert_eq!(work(&[2, 5], &[7, 5, 3]).flops, 7 * 60);
        let transposed = Example::new("case", vec![random(&[5, 2]), random(&[3, 5])])
            .with_attribute("transA", Attribute::Int(1))
            .with_attribute("transB", Attribute::Int(1));
        assert_eq!(transposed.work("Gemm"), expected);
    }

    #[test]
    fn products_of_integers_do_no_floating_point_operations() {
        let bytes = |dims| ExampleInput::random(ElementType::UInt8, dims);
        let work = Example::new("case", vec![bytes(&[2, 5]), bytes(&[5, 3])]).work("MatMulInteger");
        let expected = Work {
            flops: 0,
            bytes: 2 * 5 + 5 * 3 + 4 * 2 * 3,
        };
        assert_eq!(work, expected);
    }

    #[test]
    fn work_of_other_operators_is_bytes_only() {
        let work = Example::new("case", vec![random(&[4, 8]), random(&[8])]).work("Add");
        let expected = Work {
            flops: 0,
            bytes: 4 * (32 + 8 + 32),
        };
        assert_eq!(work, expected);
    }
}
