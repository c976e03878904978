use crate::attribute::kind_number;
use crate::proto::*;
use crate::tensor::{sparse_to_proto, tensor_header, tensor_to_proto};
use crate::types::{type_to_proto, value_info_to_proto};
use crate::{OnnxError, Problem};
use bytes::Bytes;
use onl_ir::{Attribute, Function, Graph, Model, Node, OpId, OpsetImport, ValueId};
use onl_tensor::{ElementType, Tensor, Value};
use prost::Message;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Alignment of tensors in an external file: the page size that ONNX advises, so that each can be mapped.
const EXTERNAL_ALIGNMENT: u64 = 4096;

/// Largest protobuf message that other readers accept.
const MAX_MESSAGE_BYTES: usize = i32::MAX as usize;

/// How [`write_model_with`] stores a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Stores initializers of at least this many bytes in a file of their own beside the model, named after it
    /// with `.data` appended. `None` keeps everything in the model file.
    pub external_from_bytes: Option<usize>,
}

/// Writes a model file with all data inside. See [`write_model_with`].
///
/// # Errors
/// As [`write_model_with`].
pub fn write_model(model: &Model, path: impl AsRef<Path>) -> Result<(), OnnxError> {
    write_model_with(model, path, &WriteOptions::default())
}

/// Writes a model file. Files are written beside their target and renamed at the end, so a failure leaves an older
/// file whole, and so does a mapping of it.
///
/// Types are written for inputs, outputs and the values between; values without a name get one. Initializers of a
/// function body, which the format has no place for, become `Constant` nodes.
///
/// # Errors
/// [`OnnxError`] when a file cannot be written, or when the message would exceed 2 GiB, which other readers
/// refuse.
pub fn write_model_with(
    model: &Model,
    path: impl AsRef<Path>,
    options: &WriteOptions,
) -> Result<(), OnnxError> {
    let path = path.as_ref();
    write_files(model, path, options).map_err(|e| e.in_file(path))
}

/// The bytes of a model file with all data inside.
pub fn model_to_bytes(model: &Model) -> Vec<u8> {
    model_to_proto(model, &mut Writer::new(model)).encode_to_vec()
}

fn write_files(model: &Model, path: &Path, options: &WriteOptions) -> Result<(), OnnxError> {
    let mut writer = Writer::new(model);
    let data_path = options.external_from_bytes.map(|threshold| {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".data");
        writer.threshold = Some(threshold.max(1));
        writer.location = name.to_string_lossy().into_owned();
        path.with_file_name(name)
    });
    let proto = model_to_proto(model, &mut writer);
    let size = proto.encoded_len();
    if size > MAX_MESSAGE_BYTES {
        return Err(OnnxError::new(Problem::Limit {
            what: "the size of the model message (store initializers in an external file)",
            limit: MAX_MESSAGE_BYTES as u64,
            actual: size as u64,
        }));
    }
    if let Some(data_path) = data_path
        && !writer.tensors.is_empty()
    {
        write_replacing(&data_path, |file| writer.write(file))?;
    }
    write_replacing(path, |file| file.write_all(&proto.encode_to_vec()))
}

/// Writes a file under a temporary name in the same folder and renames it to `path`.
pub(crate) fn write_replacing(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), OnnxError> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(
        ".{}.{}.tmp",
        std::process::id(),
        COUNTER.fetch_add(1, Ordering::Relaxed)
    ));
    let temporary: PathBuf = path.with_file_name(name);
    let result = (|| {
        let mut file = BufWriter::new(File::create_new(&temporary)?);
        write(&mut file)?;
        file.into_inner()
            .map_err(io::IntoInnerError::into_error)?
            .sync_all()?;
        std::fs::rename(&temporary, path)
    })();
    result.map_err(|source| {
        // What is left of the temporary file is of no use to anyone.
        let _ = std::fs::remove_file(&temporary);
        OnnxError::new(Problem::Io {
            action: "writing the file",
            source,
        })
        .in_file(path)
    })
}

/// What writing the parts of a model shares: its IR version, and the tensors that go to an external file.
struct Writer {
    ir_version: i64,
    threshold: Option<usize>,
    location: String,
    tensors: Vec<(u64, Arc<Tensor>)>,
    end: u64,
}

impl Writer {
    fn new(model: &Model) -> Self {
        Writer {
            ir_version: model.ir_version,
            threshold: None,
            location: String::new(),
            tensors: Vec::new(),
            end: 0,
        }
    }

    fn initializer(&mut self, name: &str, tensor: &Arc<Tensor>) -> TensorProto {
        let length = tensor.bytes().len();
        let external = self.threshold.is_some_and(|threshold| length >= threshold)
            && tensor.element_type() != ElementType::String;
        if !external {
            return tensor_to_proto(name, tensor);
        }
        let offset = self.end.next_multiple_of(EXTERNAL_ALIGNMENT);
        self.end = offset + length as u64;
        self.tensors.push((offset, tensor.clone()));
        let entry = |key: &str, value: String| StringStringEntryProto {
            key: key.to_owned(),
            value,
        };
        TensorProto {
            data_location: DATA_LOCATION_EXTERNAL,
            external_data: vec![
                entry("location", self.location.clone()),
                entry("offset", offset.to_string()),
                entry("length", length.to_string()),
            ],
            ..tensor_header(name, tensor)
        }
    }

    fn write(&self, file: &mut dyn Write) -> io::Result<()> {
        let mut position = 0u64;
        for (offset, tensor) in &self.tensors {
            let padding = [0u8; EXTERNAL_ALIGNMENT as usize];
            file.write_all(&padding[..(offset - position) as usize])?;
            file.write_all(tensor.bytes())?;
            position = offset + tensor.bytes().len() as u64;
        }
        Ok(())
    }
}

fn model_to_proto(model: &Model, writer: &mut Writer) -> ModelProto {
    ModelProto {
        ir_version: model.ir_version,
        producer_name: model.producer_name.clone(),
        producer_version: model.producer_version.clone(),
        domain: model.domain.clone(),
        model_version: model.model_version,
        doc_string: model.doc_string.clone(),
        graph: Some(graph_to_proto(&model.graph, writer)),
        opset_import: imports_to_proto(&model.opset_imports),
        metadata_props: model
            .metadata
            .iter()
            .map(|(key, value)| StringStringEntryProto {
                key: key.clone(),
                value: value.clone(),
            })
            .collect(),
        functions: model
            .functions
            .iter()
            .map(|function| function_to_proto(function, writer))
            .collect(),
    }
}

/// The default domain is written as the empty string, the form that every reader knows.
fn domain_to_proto(domain: &str) -> String {
    if domain == OpId::ONNX { "" } else { domain }.to_owned()
}

fn imports_to_proto(imports: &[OpsetImport]) -> Vec<OperatorSetIdProto> {
    imports
        .iter()
        .map(|import| OperatorSetIdProto {
            domain: domain_to_proto(&import.domain),
            version: import.version,
        })
        .collect()
}

/// Names of a graph's values in the file.
struct Names<'a> {
    graph: &'a Graph,
    taken: HashSet<&'a str>,
}

impl<'a> Names<'a> {
    fn of(graph: &'a Graph) -> Self {
        let unnamed = graph.values.iter().any(|value| value.name.is_empty());
        let taken = if unnamed {
            graph
                .values
                .iter()
                .map(|value| value.name.as_str())
                .collect()
        } else {
            HashSet::new()
        };
        Names { graph, taken }
    }

    fn get(&self, id: ValueId) -> Cow<'a, str> {
        let name = self.graph.value_name(id);
        if !name.is_empty() {
            return Cow::Borrowed(name);
        }
        let mut name = format!("value_{}", id.0);
        while self.taken.contains(name.as_str()) {
            name.push('_');
        }
        Cow::Owned(name)
    }

    fn value_info(&self, id: ValueId) -> ValueInfoProto {
        ValueInfoProto {
            name: self.get(id).into_owned(),
            ..value_info_to_proto(&self.graph.values[id.index()])
        }
    }

    fn list(&self, ids: &[Option<ValueId>]) -> Vec<String> {
        ids.iter()
            .map(|id| id.map_or_else(String::new, |id| self.get(id).into_owned()))
            .collect()
    }

    /// Types of the values that are neither inputs, outputs nor initializers.
    fn inner_types(&self) -> Vec<ValueInfoProto> {
        let graph = self.graph;
        let listed: BTreeSet<ValueId> = graph
            .inputs
            .iter()
            .chain(&graph.optional_inputs)
            .chain(&graph.outputs)
            .chain(graph.initializers.keys())
            .copied()
            .collect();
        (0..graph.values.len() as u32)
            .map(ValueId)
            .filter(|id| !listed.contains(id) && graph.values[id.index()].value_type.is_some())
            .map(|id| self.value_info(id))
            .collect()
    }
}

fn graph_to_proto(graph: &Graph, writer: &mut Writer) -> GraphProto {
    let names = Names::of(graph);
    let infos =
        |ids: &mut dyn Iterator<Item = &ValueId>| ids.map(|&id| names.value_info(id)).collect();
    // Before IR version 4, every initializer had to be listed as an input too.
    let all = (writer.ir_version < 4).then_some(graph.initializers.keys());
    let defaults = if all.is_some() {
        &[][..]
    } else {
        &graph.optional_inputs
    };
    let mut inputs = graph
        .inputs
        .iter()
        .chain(defaults)
        .chain(all.into_iter().flatten());
    GraphProto {
        name: graph.name.clone(),
        node: nodes_to_proto(graph, &names, writer),
        initializer: graph
            .initializers
            .iter()
            .map(|(&id, tensor)| writer.initializer(&names.get(id), tensor))
            .collect(),
        input: infos(&mut inputs),
        output: infos(&mut graph.outputs.iter()),
        value_info: names.inner_types(),
        sparse_initializer: Vec::new(),
    }
}

fn nodes_to_proto(graph: &Graph, names: &Names<'_>, writer: &mut Writer) -> Vec<NodeProto> {
    graph
        .nodes
        .iter()
        .map(|node| node_to_proto(node, names, writer))
        .collect()
}

fn node_to_proto(node: &Node, names: &Names<'_>, writer: &mut Writer) -> NodeProto {
    NodeProto {
        input: names.list(&node.inputs),
        output: names.list(&node.outputs),
        name: node.name.clone(),
        op_type: node.op.op_type.clone(),
        attribute: node
            .attributes
            .iter()
            .map(|(name, attribute)| attribute_to_proto(name, attribute, writer))
            .collect(),
        domain: domain_to_proto(&node.op.domain),
        overload: node.overload.clone(),
    }
}

fn attribute_to_proto(name: &str, attribute: &Attribute, writer: &mut Writer) -> AttributeProto {
    let mut proto = AttributeProto {
        name: name.to_owned(),
        r#type: kind_number(attribute.kind()),
        ..AttributeProto::default()
    };
    match attribute {
        Attribute::Int(value) => proto.i = Some(*value),
        Attribute::Float(value) => proto.f = Some(*value),
        Attribute::String(value) => proto.s = Some(Bytes::copy_from_slice(value)),
        Attribute::Tensor(tensor) => proto.t = Some(Box::new(tensor_to_proto("", tensor))),
        Attribute::SparseTensor(value) => {
            proto.sparse_tensor = sparse_value(value).map(Box::new);
        }
        Attribute::Graph(graph) => proto.g = Some(Box::new(graph_to_proto(graph, writer))),
        Attribute::Type(info) => proto.tp = Some(Box::new(type_to_proto(info))),
        Attribute::Ints(values) => proto.ints.clone_from(values),
        Attribute::Floats(values) => proto.floats.clone_from(values),
        Attribute::Strings(values) => {
            proto.strings = values.iter().map(|v| Bytes::copy_from_slice(v)).collect();
        }
        Attribute::Tensors(tensors) => {
            proto.tensors = tensors.iter().map(|t| tensor_to_proto("", t)).collect();
        }
        Attribute::SparseTensors(values) => {
            proto.sparse_tensors = values.iter().filter_map(sparse_value).collect();
        }
        Attribute::Graphs(graphs) => {
            proto.graphs = graphs
                .iter()
                .map(|graph| graph_to_proto(graph, writer))
                .collect();
        }
        Attribute::Types(infos) => proto.type_protos = infos.iter().map(type_to_proto).collect(),
        Attribute::Reference { name, .. } => proto.ref_attr_name.clone_from(name),
    }
    proto
}

fn sparse_value(value: &Value) -> Option<SparseTensorProto> {
    match value {
        Value::SparseTensor {
            values,
            indices,
            dims,
        } => Some(sparse_to_proto("", values, indices, dims)),
        _ => None,
    }
}

fn function_to_proto(function: &Function, writer: &mut Writer) -> FunctionProto {
    let body = &function.body;
    let names = Names::of(body);
    let constants = body.initializers.iter().map(|(&id, tensor)| NodeProto {
        output: vec![names.get(id).into_owned()],
        op_type: "Constant".to_owned(),
        attribute: vec![AttributeProto {
            name: "value".to_owned(),
            r#type: attribute_type::TENSOR,
            t: Some(Box::new(tensor_to_proto("", tensor))),
            ..AttributeProto::default()
        }],
        ..NodeProto::default()
    });
    let list = |ids: &[ValueId]| ids.iter().map(|&id| names.get(id).into_owned()).collect();
    // A function states no types of its inputs and outputs; `value_info` is where they may stand.
    let mut value_info = names.inner_types();
    let ends: BTreeSet<ValueId> = body.inputs.iter().chain(&body.outputs).copied().collect();
    value_info.extend(
        ends.into_iter()
            .filter(|id| body.values[id.index()].value_type.is_some())
            .map(|id| names.value_info(id)),
    );
    FunctionProto {
        name: function.op.op_type.clone(),
        input: list(&body.inputs),
        output: list(&body.outputs),
        attribute: function.attributes.clone(),
        node: constants
            .collect::<Vec<_>>()
            .into_iter()
            .chain(nodes_to_proto(body, &names, writer))
            .collect(),
        opset_import: imports_to_proto(&function.opset_imports),
        domain: domain_to_proto(&function.op.domain),
        attribute_proto: function
            .default_attributes
            .iter()
            .map(|(name, attribute)| attribute_to_proto(name, attribute, writer))
            .collect(),
        value_info,
        overload: function.overload.clone(),
    }
}
