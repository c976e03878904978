use crate::AttributeKind;
use thiserror::Error;

/// A graph that breaks a rule of the ONNX specification.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GraphError {
    /// Nodes depend on each other in a circle.
    #[error("{node} depends on its own output; an ONNX graph must be acyclic")]
    Cycle {
        /// One node of the circle, and the nodes by way of which it reads its own output.
        node: String,
    },
    /// Two sources give one value.
    #[error(
        "value '{name}' is defined twice among the graph's inputs, initializers and captures; names must be \
         unique within a graph"
    )]
    DuplicateValue {
        /// Name of the value.
        name: String,
    },
    /// A node gives a value that has a source already.
    #[error(
        "{node} gives value '{name}', which {first} gives already; rename one of them, names must be unique \
         within a graph"
    )]
    DuplicateOutput {
        /// The second source.
        node: String,
        /// The first source.
        first: String,
        /// Name of the value.
        name: String,
    },
    /// An output of the graph that nothing gives.
    #[error(
        "value '{name}' is used as a graph output, but no input, initializer or node gives it; rename the \
         output or add its source"
    )]
    MissingValue {
        /// Name of the value.
        name: String,
    },
    /// A node reads a value that nothing gives.
    #[error(
        "{node} reads value '{name}', but no input, initializer, node or enclosing graph gives it; check the \
         spelling or add its source"
    )]
    MissingInput {
        /// The reading node; for a subgraph, the node that owns it.
        node: String,
        /// Name of the value.
        name: String,
    },
    /// A number that is none of the graph's values.
    #[error(
        "value number {number} is used, but the graph has {count} values; add the value to the graph first"
    )]
    UnknownValue {
        /// The number.
        number: u32,
        /// Values of the graph.
        count: usize,
    },
    /// An attribute has another kind than the operator specifies.
    #[error(
        "{node}: attribute '{attribute}' must be of kind {expected:?}, the model has {actual:?}"
    )]
    AttributeKind {
        /// Node that carries the attribute.
        node: String,
        /// Attribute name.
        attribute: String,
        /// Kind of the specification.
        expected: AttributeKind,
        /// Kind in the model.
        actual: AttributeKind,
    },
}
