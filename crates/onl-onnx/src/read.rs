use crate::external::ExternalData;
use crate::function::read_functions;
use crate::limits::{MessageKind, check_wire_form};
use crate::proto::*;
use crate::read_graph::{Reader, read_main_graph};
use crate::{LoadLimits, OnnxError, Problem};
use bytes::Bytes;
use onl_ir::{Model, OpId, OpsetImport};
use onl_tensor::MappedFile;
use prost::Message;
use std::collections::HashMap;
use std::path::Path;

/// Newest IR version that is read.
pub const NEWEST_IR_VERSION: i64 = 13;

/// Reads a model file of IR version 1 to 13.
///
/// The file and its external data are mapped; initializers whose bytes are aligned to their element type share
/// the mapping, so the files must not be changed in place while the model lives (see [`MappedFile::open`]).
/// External data must lie in the model's folder after symbolic links are followed; if the model file is itself a
/// link, the folder of its target is allowed too.
///
/// Values of subgraphs that come from an enclosing graph are listed as captures, through every level between.
/// Sparse initializers become dense. Nodes come in topological order. An initializer that is also a graph input
/// is a default of an optional input from IR version 4 on, a constant before. The type of an initializer is that
/// of its tensor. Operators are not checked.
///
/// # Errors
/// [`OnnxError`] with file, place and problem for anything that breaks the ONNX specification or `limits`.
pub fn read_model(path: impl AsRef<Path>, limits: &LoadLimits) -> Result<Model, OnnxError> {
    let path = path.as_ref();
    read_opened_model(open_model(path)?, path, limits)
}

/// Maps a model file; the first half of [`read_model`], for callers that time or share it.
///
/// # Errors
/// [`OnnxError`] when the file cannot be mapped.
pub fn open_model(path: impl AsRef<Path>) -> Result<Bytes, OnnxError> {
    map(path.as_ref())
}

/// Reads a model from the bytes that [`open_model`] gave for `path`; the second half of [`read_model`].
///
/// # Errors
/// As [`read_model`].
pub fn read_opened_model(
    bytes: Bytes,
    path: impl AsRef<Path>,
    limits: &LoadLimits,
) -> Result<Model, OnnxError> {
    let path = path.as_ref();
    decode_model(bytes, ExternalData::beside(path), limits).map_err(|e| e.in_file(path))
}

/// Reads a model from bytes, as [`read_model`] does. External data are looked for in `external_folder`, and
/// refused without one.
///
/// # Errors
/// As [`read_model`].
pub fn read_model_bytes(
    bytes: Bytes,
    external_folder: Option<&Path>,
    limits: &LoadLimits,
) -> Result<Model, OnnxError> {
    let external = external_folder.map_or_else(ExternalData::default, ExternalData::in_folder);
    decode_model(bytes, external, limits)
}

pub(crate) fn map(path: &Path) -> Result<Bytes, OnnxError> {
    MappedFile::open(path).map_err(|source| {
        OnnxError::new(Problem::Io {
            action: "mapping the file",
            source,
        })
        .in_file(path)
    })
}

/// Decodes a message whose wire form fits the limits.
pub(crate) fn decode<M: Message + Default>(
    bytes: Bytes,
    kind: MessageKind,
    message: &'static str,
    limits: &LoadLimits,
) -> Result<M, OnnxError> {
    check_wire_form(&bytes, kind, message, limits)?;
    M::decode(bytes).map_err(|e| {
        OnnxError::new(Problem::Decode {
            message,
            reason: e.to_string(),
        })
    })
}

fn decode_model(
    bytes: Bytes,
    external: ExternalData,
    limits: &LoadLimits,
) -> Result<Model, OnnxError> {
    if bytes.is_empty() {
        return Err(OnnxError::new(Problem::Empty));
    }
    let proto: ModelProto = decode(bytes, MessageKind::Model, "model", limits)?;
    if !(1..=NEWEST_IR_VERSION).contains(&proto.ir_version) {
        return Err(OnnxError::new(Problem::IrVersion {
            version: proto.ir_version,
            newest: NEWEST_IR_VERSION,
        }));
    }
    let graph = proto.graph.ok_or(Problem::Missing {
        what: "the model's graph",
    })?;
    let mut opset_imports = opset_imports(&proto.opset_import)?;
    // Before IR version 3 there were no imports and one operator set.
    if proto.ir_version < 3 && opset_imports.is_empty() {
        opset_imports.push(OpsetImport {
            domain: OpId::ONNX.to_owned(),
            version: 1,
        });
    }
    let mut reader = Reader {
        limits,
        external,
        ir_version: proto.ir_version,
        in_function: false,
        captured_bytes: 0,
    };
    let graph = read_main_graph(&mut reader, graph)?;
    let functions = read_functions(&mut reader, proto.functions)?;
    Ok(Model {
        ir_version: proto.ir_version,
        producer_name: proto.producer_name,
        producer_version: proto.producer_version,
        domain: proto.domain,
        model_version: proto.model_version,
        doc_string: proto.doc_string,
        opset_imports,
        graph,
        functions,
        metadata: proto
            .metadata_props
            .into_iter()
            .map(|entry| (entry.key, entry.value))
            .collect(),
    })
}

/// Imports with canonical domains; one domain in two versions is an error.
pub(crate) fn opset_imports(imports: &[OperatorSetIdProto]) -> Result<Vec<OpsetImport>, OnnxError> {
    let mut result: Vec<OpsetImport> = Vec::new();
    let mut versions: HashMap<&str, i64> = HashMap::new();
    for import in imports {
        let domain = if import.domain.is_empty() {
            OpId::ONNX
        } else {
            &import.domain
        };
        match versions.insert(domain, import.version) {
            None => result.push(OpsetImport {
                domain: domain.to_owned(),
                version: import.version,
            }),
            Some(first) if first == import.version => {}
            Some(first) => {
                return Err(OnnxError::new(Problem::OpsetConflict {
                    domain: domain.to_owned(),
                    first,
                    second: import.version,
                }));
            }
        }
    }
    Ok(result)
}
