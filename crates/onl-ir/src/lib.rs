//! ONNX models and graphs as plain data: no protobuf, no kernels.
//!
//! Values of a graph are numbered; a [`Node`] names its inputs and outputs by [`ValueId`]. Subgraphs (bodies of
//! `If`, `Loop`, `Scan`) number their own values and list what they read from outer scopes as captures.

#![forbid(unsafe_code)]

mod attribute;
mod error;
mod graph;
mod sort;
mod types;

pub use attribute::{Attribute, AttributeKind};
pub use error::GraphError;
pub use graph::{Function, Graph, Model, Node, NodeView, OpId, OpsetImport, ValueId};
pub use types::{Dim, TensorType, TypeInfo, ValueInfo};
