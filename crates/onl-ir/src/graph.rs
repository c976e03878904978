use crate::{Attribute, AttributeKind, GraphError, TensorType, TypeInfo, ValueInfo};
use onl_tensor::Tensor;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Number of a value within its graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

impl ValueId {
    /// The number as an index into [`Graph::values`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Domain and type of an operator. The domain `ai.onnx` is stored as the empty string's canonical form
/// `"ai.onnx"`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpId {
    /// Operator-set domain.
    pub domain: String,
    /// Operator name.
    pub op_type: String,
}

impl OpId {
    /// The default operator-set domain.
    pub const ONNX: &'static str = "ai.onnx";

    /// An operator; the empty domain means `ai.onnx`.
    pub fn new(domain: &str, op_type: &str) -> Self {
        let domain = if domain.is_empty() {
            Self::ONNX
        } else {
            domain
        };
        OpId {
            domain: domain.to_owned(),
            op_type: op_type.to_owned(),
        }
    }
}

impl fmt::Display for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.domain == Self::ONNX {
            f.write_str(&self.op_type)
        } else {
            write!(f, "{}:{}", self.domain, self.op_type)
        }
    }
}

/// One operator application.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Name; may be empty and need not be unique.
    pub name: String,
    /// Operator.
    pub op: OpId,
    /// Overload of a model-local function; empty otherwise.
    pub overload: String,
    /// Inputs; `None` stands for an omitted optional one.
    pub inputs: Vec<Option<ValueId>>,
    /// Outputs; `None` stands for an omitted optional one.
    pub outputs: Vec<Option<ValueId>>,
    /// Attributes by name.
    pub attributes: BTreeMap<String, Attribute>,
}

/// Version of one operator-set domain that a model imports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpsetImport {
    /// Domain, `ai.onnx` for the default one.
    pub domain: String,
    /// Version.
    pub version: i64,
}

/// A graph: numbered values and nodes in topological order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Graph {
    /// Name.
    pub name: String,
    /// All values; a [`ValueId`] is an index here.
    pub values: Vec<ValueInfo>,
    /// Inputs, without those that only repeat an initializer.
    pub inputs: Vec<ValueId>,
    /// Inputs that an initializer gives a default to (IR version 4 and later).
    pub optional_inputs: Vec<ValueId>,
    /// Outputs.
    pub outputs: Vec<ValueId>,
    /// Constant values.
    pub initializers: BTreeMap<ValueId, Arc<Tensor>>,
    /// Nodes; every input of a node comes from an input, an initializer, a capture or an earlier node.
    pub nodes: Vec<Node>,
    /// Values that come from an enclosing graph, under the same name there.
    pub captures: Vec<ValueId>,
}

impl Graph {
    /// Name of a value.
    pub fn value_name(&self, id: ValueId) -> &str {
        &self.values[id.index()].name
    }

    /// The value with this name, if there is one. Linear in the number of values.
    pub fn find_value(&self, name: &str) -> Option<ValueId> {
        self.values
            .iter()
            .position(|v| v.name == name)
            .map(|i| ValueId(i as u32))
    }

    /// Adds a value.
    pub fn add_value(&mut self, info: ValueInfo) -> ValueId {
        self.values.push(info);
        ValueId(self.values.len() as u32 - 1)
    }

    /// Declared or inferred tensor type of a value.
    pub fn tensor_type(&self, id: ValueId) -> Option<&TensorType> {
        self.values[id.index()]
            .value_type
            .as_ref()
            .and_then(TypeInfo::as_tensor)
    }

    /// Text that tells a user which node is meant: its name, or its index and operator.
    pub fn describe_node(&self, index: usize) -> String {
        let node = &self.nodes[index];
        if node.name.is_empty() {
            format!("node {index} ({})", node.op)
        } else {
            format!("node '{}' ({})", node.name, node.op)
        }
    }
}

/// A model-local function.
#[derive(Debug, Clone, PartialEq)]
pub struct Function {
    /// Domain and name.
    pub op: OpId,
    /// Overload; empty when there is only one.
    pub overload: String,
    /// Operator sets that the body uses.
    pub opset_imports: Vec<OpsetImport>,
    /// Names of attributes without default.
    pub attributes: Vec<String>,
    /// Attributes with defaults.
    pub default_attributes: BTreeMap<String, Attribute>,
    /// Body; its inputs and outputs are those of the function.
    pub body: Graph,
}

/// A model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Model {
    /// IR version of the file.
    pub ir_version: i64,
    /// Name of the producer.
    pub producer_name: String,
    /// Version of the producer.
    pub producer_version: String,
    /// Domain of the model.
    pub domain: String,
    /// Version of the model.
    pub model_version: i64,
    /// Documentation.
    pub doc_string: String,
    /// Imported operator sets.
    pub opset_imports: Vec<OpsetImport>,
    /// Main graph.
    pub graph: Graph,
    /// Model-local functions.
    pub functions: Vec<Function>,
    /// Free metadata.
    pub metadata: BTreeMap<String, String>,
}

impl Model {
    /// Imported version of a domain.
    pub fn opset(&self, domain: &str) -> Option<i64> {
        self.opset_imports
            .iter()
            .find(|o| o.domain == domain)
            .map(|o| o.version)
    }
}

/// A node in its graph, with the operator-set version it is read under: what a kernel is prepared from.
#[derive(Debug, Clone, Copy)]
pub struct NodeView<'a> {
    /// Graph that holds the node.
    pub graph: &'a Graph,
    /// The node.
    pub node: &'a Node,
    /// Index of the node within its graph.
    pub index: usize,
    /// Imported version of the operator's domain.
    pub opset: i64,
}

impl<'a> NodeView<'a> {
    /// Number of inputs written in the node, omitted ones included.
    pub fn input_count(&self) -> usize {
        self.node.inputs.len()
    }

    /// An input, or `None` when it is omitted.
    pub fn input(&self, index: usize) -> Option<ValueId> {
        self.node.inputs.get(index).copied().flatten()
    }

    /// Element type of an input, if the input is there and its type is known.
    pub fn input_element_type(&self, index: usize) -> Option<onl_tensor::ElementType> {
        self.input(index)
            .and_then(|id| self.graph.tensor_type(id))
            .map(|t| t.element_type)
    }

    /// Number of outputs written in the node, omitted ones included.
    pub fn output_count(&self) -> usize {
        self.node.outputs.len()
    }

    /// An attribute.
    pub fn attribute(&self, name: &str) -> Option<&'a Attribute> {
        self.node.attributes.get(name)
    }

    /// An integer attribute.
    ///
    /// # Errors
    /// [`GraphError::AttributeKind`] when the attribute is of another kind.
    pub fn int(&self, name: &str) -> Result<Option<i64>, GraphError> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Int(value)) => Ok(Some(*value)),
            Some(other) => Err(self.wrong_kind(name, AttributeKind::Int, other)),
        }
    }

    /// A float attribute.
    ///
    /// # Errors
    /// [`GraphError::AttributeKind`] when the attribute is of another kind.
    pub fn float(&self, name: &str) -> Result<Option<f32>, GraphError> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Float(value)) => Ok(Some(*value)),
            Some(other) => Err(self.wrong_kind(name, AttributeKind::Float, other)),
        }
    }

    /// A list of integers.
    ///
    /// # Errors
    /// [`GraphError::AttributeKind`] when the attribute is of another kind.
    pub fn ints(&self, name: &str) -> Result<Option<&'a [i64]>, GraphError> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Ints(values)) => Ok(Some(values)),
            Some(other) => Err(self.wrong_kind(name, AttributeKind::Ints, other)),
        }
    }

    /// A string attribute.
    ///
    /// # Errors
    /// [`GraphError::AttributeKind`] when the attribute is of another kind or not UTF-8.
    pub fn string(&self, name: &str) -> Result<Option<&'a str>, GraphError> {
        match self.attribute(name) {
            None => Ok(None),
            Some(value @ Attribute::String(bytes)) => std::str::from_utf8(bytes)
                .map(Some)
                .map_err(|_| self.wrong_kind(name, AttributeKind::String, value)),
            Some(other) => Err(self.wrong_kind(name, AttributeKind::String, other)),
        }
    }

    /// A tensor attribute.
    ///
    /// # Errors
    /// [`GraphError::AttributeKind`] when the attribute is of another kind.
    pub fn tensor(&self, name: &str) -> Result<Option<&'a Arc<Tensor>>, GraphError> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Tensor(value)) => Ok(Some(value)),
            Some(other) => Err(self.wrong_kind(name, AttributeKind::Tensor, other)),
        }
    }

    /// Text that tells a user which node is meant.
    pub fn describe(&self) -> String {
        self.graph.describe_node(self.index)
    }

    fn wrong_kind(&self, name: &str, expected: AttributeKind, actual: &Attribute) -> GraphError {
        GraphError::AttributeKind {
            node: self.describe(),
            attribute: name.to_owned(),
            expected,
            actual: actual.kind(),
        }
    }
}
