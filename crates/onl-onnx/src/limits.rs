use crate::proto::*;
use crate::{OnnxError, Problem};
use std::mem::size_of;

/// What a model file may cost before it is refused. The defaults admit every model that is known to be used and
/// keep damaged or hostile files from exhausting memory or stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadLimits {
    /// Bytes of the model file, external data not counted. Default 64 GiB (the file is mapped, not read).
    pub max_file_bytes: u64,
    /// Nodes, those of subgraphs and functions included. Default 4 million.
    pub max_nodes: u64,
    /// Depth of subgraphs below a main graph or function body. Default 24; the decoder itself allows about 30.
    pub max_graph_depth: u64,
    /// Bytes of memory that the decoded messages take beside their data. Default 4 GiB.
    pub max_decoded_bytes: u64,
    /// Bytes of a tensor that is larger than its stored form (a sparse initializer made dense). Default 4 GiB.
    pub max_dense_bytes: u64,
}

impl Default for LoadLimits {
    fn default() -> Self {
        LoadLimits {
            max_file_bytes: 64 << 30,
            max_nodes: 4_000_000,
            max_graph_depth: 24,
            max_decoded_bytes: 4 << 30,
            max_dense_bytes: 4 << 30,
        }
    }
}

/// Messages nested deeper than this are refused, as by the decoder.
const MAX_MESSAGE_DEPTH: usize = 100;

/// The messages that the scan tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageKind {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
    SparseTensor,
    ValueInfo,
    Type,
    TensorType,
    ElementType,
    MapType,
    Shape,
    Function,
    Sequence,
    Map,
    Optional,
    /// A message without messages or repeated fields of interest.
    Leaf,
}

impl MessageKind {
    /// Memory of one decoded message, without what it points to.
    fn decoded_bytes(self) -> usize {
        match self {
            Self::Model => size_of::<ModelProto>(),
            Self::Graph => size_of::<GraphProto>(),
            Self::Node => size_of::<NodeProto>(),
            Self::Attribute => size_of::<AttributeProto>(),
            Self::Tensor => size_of::<TensorProto>(),
            Self::SparseTensor => size_of::<SparseTensorProto>(),
            Self::ValueInfo => size_of::<ValueInfoProto>(),
            Self::Type => size_of::<TypeProto>(),
            Self::TensorType => size_of::<TensorTypeProto>(),
            Self::ElementType => size_of::<ElementTypeProto>(),
            Self::MapType => size_of::<MapTypeProto>(),
            Self::Shape => size_of::<TensorShapeProto>(),
            Self::Function => size_of::<FunctionProto>(),
            Self::Sequence => size_of::<SequenceProto>(),
            Self::Map => size_of::<MapProto>(),
            Self::Optional => size_of::<OptionalProto>(),
            Self::Leaf => size_of::<DimensionProto>().max(size_of::<StringStringEntryProto>()),
        }
    }

    /// Kind of the message in a field, if the decoder reads one there.
    fn child(self, field: u64) -> Option<MessageKind> {
        use MessageKind::*;
        Some(match (self, field) {
            (Model, 7) => Graph,
            (Model, 25) => Function,
            (Model, 8 | 14) => Leaf,
            (Graph, 1) | (Function, 7) => Node,
            (Graph, 5) => Tensor,
            (Graph, 11..=13) | (Function, 12) => ValueInfo,
            (Graph, 15) => SparseTensor,
            (Function, 9) => Leaf,
            (Function, 11) | (Node, 5) => Attribute,
            (Attribute, 5 | 10) => Tensor,
            (Attribute, 6 | 11) => Graph,
            (Attribute, 14 | 15) => Type,
            (Attribute, 22 | 23) => SparseTensor,
            (Tensor, 3 | 13) => Leaf,
            (SparseTensor, 1 | 2) => Tensor,
            (ValueInfo, 2) => Type,
            (Type, 1 | 8) => TensorType,
            (Type, 4 | 9) => ElementType,
            (Type, 5) => MapType,
            (Type, 7) => Leaf,
            (TensorType, 2) => Shape,
            (ElementType, 1) | (MapType, 2) => Type,
            (Shape, 1) => Leaf,
            (Sequence, 3) | (Optional, 3) => Tensor,
            (Sequence, 4) | (Optional, 4) => SparseTensor,
            (Sequence, 5) | (Map, 5) | (Optional, 5) => Sequence,
            (Sequence, 6) | (Optional, 6) => Map,
            (Sequence, 7) | (Optional, 7) => Optional,
            _ => return None,
        })
    }

    /// Memory that one entry of a repeated field of strings or bytes takes beside its text.
    fn entry_bytes(self, field: u64) -> usize {
        match (self, field) {
            (Self::Node, 1 | 2) | (Self::Function, 4..=6) => size_of::<String>(),
            (Self::Attribute, 9) | (Self::Tensor, 6) | (Self::Map, 4) => size_of::<bytes::Bytes>(),
            _ => 0,
        }
    }
}

/// Walks the wire form without decoding it and checks counts and depth, so that the decoder meets only files
/// whose messages fit the limits.
pub(crate) fn check_wire_form(
    bytes: &[u8],
    kind: MessageKind,
    message: &'static str,
    limits: &LoadLimits,
) -> Result<(), OnnxError> {
    if bytes.len() as u64 > limits.max_file_bytes {
        return Err(OnnxError::new(Problem::Limit {
            what: "max_file_bytes",
            limit: limits.max_file_bytes,
            actual: bytes.len() as u64,
        }));
    }
    let mut scan = Scan {
        limits,
        message,
        nodes: 0,
        decoded_bytes: 0,
    };
    scan.message(bytes, kind, 0, 0)
}

struct Scan<'a> {
    limits: &'a LoadLimits,
    message: &'static str,
    nodes: u64,
    decoded_bytes: u64,
}

impl Scan<'_> {
    fn message(
        &mut self,
        mut bytes: &[u8],
        kind: MessageKind,
        depth: usize,
        graph_depth: u64,
    ) -> Result<(), OnnxError> {
        if depth > MAX_MESSAGE_DEPTH {
            return Err(self.invalid("messages are nested too deeply"));
        }
        if graph_depth > self.limits.max_graph_depth {
            return Err(OnnxError::new(Problem::Limit {
                what: "max_graph_depth",
                limit: self.limits.max_graph_depth,
                actual: graph_depth,
            }));
        }
        if kind == MessageKind::Node {
            self.nodes += 1;
            if self.nodes > self.limits.max_nodes {
                return Err(OnnxError::new(Problem::Limit {
                    what: "max_nodes",
                    limit: self.limits.max_nodes,
                    actual: self.nodes,
                }));
            }
        }
        self.spend(kind.decoded_bytes())?;
        while !bytes.is_empty() {
            let key = self.varint(&mut bytes)?;
            let field = key >> 3;
            match key & 7 {
                0 => {
                    self.varint(&mut bytes)?;
                }
                1 => {
                    self.take(&mut bytes, 8)?;
                }
                2 => {
                    let length = self.varint(&mut bytes)?;
                    let content = self.take(&mut bytes, length)?;
                    if let Some(child) = kind.child(field) {
                        let inner = kind == MessageKind::Attribute && child == MessageKind::Graph;
                        self.message(content, child, depth + 1, graph_depth + inner as u64)?;
                    } else {
                        self.spend(kind.entry_bytes(field))?;
                    }
                }
                5 => {
                    self.take(&mut bytes, 4)?;
                }
                wire_type => {
                    return Err(self.invalid(&format!(
                        "field {field} has wire type {wire_type}, which ONNX does not use"
                    )));
                }
            }
        }
        Ok(())
    }

    fn spend(&mut self, bytes: usize) -> Result<(), OnnxError> {
        self.decoded_bytes += bytes as u64;
        if self.decoded_bytes > self.limits.max_decoded_bytes {
            return Err(OnnxError::new(Problem::Limit {
                what: "max_decoded_bytes",
                limit: self.limits.max_decoded_bytes,
                actual: self.decoded_bytes,
            }));
        }
        Ok(())
    }

    fn varint(&self, bytes: &mut &[u8]) -> Result<u64, OnnxError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let Some((&byte, rest)) = bytes.split_first() else {
                return Err(self.invalid("it ends within a number"));
            };
            *bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.invalid("a number has more than ten bytes"))
    }

    fn take<'b>(&self, bytes: &mut &'b [u8], length: u64) -> Result<&'b [u8], OnnxError> {
        let split = usize::try_from(length)
            .ok()
            .and_then(|length| bytes.split_at_checked(length));
        let Some((taken, rest)) = split else {
            return Err(self.invalid(&format!(
                "a field of {length} bytes runs past the {} bytes that are left",
                bytes.len()
            )));
        };
        *bytes = rest;
        Ok(taken)
    }

    fn invalid(&self, reason: &str) -> OnnxError {
        OnnxError::new(Problem::Decode {
            message: self.message,
            reason: reason.to_owned(),
        })
    }
}
