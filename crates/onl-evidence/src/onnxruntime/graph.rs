//! Graphs of this project's loader as models of ONNX Runtime, built through its Model Editor.
//!
//! The editor makes nodes only with attributes of numbers and text, and takes no types of inner values, without which ONNX
//! Runtime fuses fewer nodes. So an editor session begins with the graph as the loader has it, whose large constants are
//! inputs for now, and the editor then gives it these constants by address and takes the inputs back. Neither side
//! copies them.

use super::error::Doing;
use super::{OnnxRuntimeError, values};
use crate::attribution::visit_constants;
use onl_ir::{Attribute, Dim, Graph, Model, OpId, TensorType, TypeInfo, ValueId};
use onl_tensor::{ElementType, Tensor};
use ort::memory::MemoryInfo;
use ort::session::Session;
use ort::session::builder::SessionBuilder;
use ort::{AsPointer, editor, sys};
use std::ffi::CString;
use std::ptr;
use std::sync::Arc;

/// A model of ONNX Runtime that borrows its constants from ours.
#[derive(Debug)]
pub struct EditedModel {
    /// The graph without the constants that are borrowed, as bytes of a model.
    skeleton: Vec<u8>,
    /// Gives the graph its constants and inputs; `None` when nothing is borrowed.
    edit: Option<editor::Model>,
    /// What the constants are borrowed from.
    pub(super) borrowed: Arc<Model>,
    copied_bytes: u64,
}

impl EditedModel {
    /// Constants below this size are copied, because ONNX Runtime's shape inference reads no external data; the editor
    /// refuses to borrow them.
    pub const LEAST_BORROWED_BYTES: usize = 128;

    /// Bytes of constants that were copied: small ones, text, and those of subgraphs and functions.
    pub fn copied_bytes(&self) -> u64 {
        self.copied_bytes
    }

    pub(super) fn new(model: Arc<Model>) -> Result<Self, OnnxRuntimeError> {
        let (skeleton, constants) = split(&model);
        let edit = if constants.is_empty() {
            None
        } else {
            let mut graph = editor::Graph::new().doing(|| "making a graph".to_owned())?;
            set_inputs(&mut graph, &model.graph)?;
            for (name, tensor) in &constants {
                borrow(&mut graph, name, tensor)?;
            }
            let mut edit = editor::Model::new([]).doing(|| "making a model".to_owned())?;
            edit.set_graph(graph)
                .doing(|| "adding a graph".to_owned())?;
            Some(edit)
        };
        let mut copied_bytes = 0;
        visit_constants(&skeleton, &mut |tensor| {
            copied_bytes += tensor.bytes().len() as u64;
        });
        let skeleton = onl_onnx::model_to_bytes(&skeleton);
        Ok(EditedModel {
            copied_bytes,
            skeleton,
            edit,
            borrowed: model,
        })
    }

    /// A session on the model, and what it borrows from.
    pub(super) fn into_session(
        self,
        builder: &mut SessionBuilder,
    ) -> Result<(Session, Arc<Model>), OnnxRuntimeError> {
        let making = || "making a session of the edited model".to_owned();
        let Some(edit) = self.edit else {
            let session = builder.commit_from_memory(&self.skeleton).doing(making)?;
            return Ok((session, self.borrowed));
        };
        let mut session = builder.edit_from_memory(&self.skeleton).doing(making)?;
        session.apply_model(&edit).doing(making)?;
        let session = session.into_session().doing(making)?;
        Ok((session, self.borrowed))
    }
}

/// The model with its large constants as inputs, and the constants with their names.
fn split(model: &Model) -> (Model, Vec<(String, Arc<Tensor>)>) {
    let mut skeleton = model.clone();
    let graph = &mut skeleton.graph;
    let borrows = |tensor: &Tensor| {
        tensor.element_type() != ElementType::String
            && tensor.bytes().len() >= EditedModel::LEAST_BORROWED_BYTES
    };
    let mut constants: Vec<(ValueId, Arc<Tensor>)> = Vec::new();
    graph.initializers.retain(|&id, tensor| {
        let stays = !borrows(tensor);
        if !stays {
            constants.push((id, Arc::clone(tensor)));
        }
        stays
    });
    graph.nodes.retain(|node| {
        // ONNX Runtime makes initializers of these nodes too.
        if node.op == OpId::new("", "Constant")
            && let Some(Attribute::Tensor(tensor)) = node.attributes.get("value")
            && let [Some(output)] = node.outputs[..]
            && borrows(tensor)
        {
            constants.push((output, Arc::clone(tensor)));
            return false;
        }
        true
    });
    for (id, tensor) in &constants {
        graph.values[id.index()].value_type = Some(TypeInfo::Tensor(TensorType::with_dims(
            tensor.element_type(),
            tensor.dims(),
        )));
        if !graph.optional_inputs.contains(id) {
            graph.inputs.push(*id);
        }
    }
    let named = constants
        .into_iter()
        .map(|(id, tensor)| (model.graph.value_name(id).to_owned(), tensor))
        .collect();
    (skeleton, named)
}

/// Calls a function of the library and gives what it says.
macro_rules! call {
    ($action:expr, $function:expr, $($argument:expr),* $(,)?) => {{
        // SAFETY: every pointer argument is null-terminated text, memory or an object of the library that lives through
        // the call; see the caller for what the call takes over.
        let status = unsafe { ($function)($($argument),*) };
        // SAFETY: the status was just given by the library and nobody else has it.
        unsafe { ort::Error::result_from_status(status) }.doing($action)
    }};
}

/// The inputs that the graph has when constants are none of them.
fn set_inputs(target: &mut editor::Graph, graph: &Graph) -> Result<(), OnnxRuntimeError> {
    let mut infos = ValueInfos(Vec::new());
    for &id in graph.inputs.iter().chain(&graph.optional_inputs) {
        infos.0.push(value_info(graph, id)?);
    }
    // What the graph takes over, it sets to null.
    call!(
        || "naming inputs".to_owned(),
        editor_api()?.SetGraphInputs,
        target.ptr().cast_mut(),
        infos.0.as_mut_ptr(),
        infos.0.len(),
    )
}

/// Adds an initializer that stays where it is: in `tensor`, which must outlive every session made of the graph.
/// [`EditedModel`] and its session keep the model that holds it.
fn borrow(target: &mut editor::Graph, name: &str, tensor: &Tensor) -> Result<(), OnnxRuntimeError> {
    let adding = || format!("adding the initializer '{name}'");
    let text = text(name)?;
    let bytes = tensor.bytes();
    let dims = values::dims(tensor.dims());
    let memory = MemoryInfo::default();
    let mut value = ptr::null_mut();
    // The library only reads constants, though its signature says otherwise.
    call!(
        adding,
        ort::api().CreateTensorWithDataAsOrtValue,
        memory.ptr(),
        bytes.as_ptr().cast_mut().cast(),
        bytes.len(),
        dims.as_ptr(),
        dims.len(),
        values::theirs(tensor.element_type())?.into(),
        &mut value,
    )?;
    let added = call!(
        adding,
        editor_api()?.AddInitializerToGraph,
        target.ptr().cast_mut(),
        text.as_ptr(),
        value,
        true,
    );
    if added.is_err() {
        // SAFETY: the value was made above, and a graph that refused it has not taken it over.
        unsafe { (ort::api().ReleaseValue)(value) };
    }
    added
}

fn editor_api() -> Result<&'static sys::OrtModelEditorApi, OnnxRuntimeError> {
    editor::editor_api().doing(|| "asking for its Model Editor".to_owned())
}

fn text(name: &str) -> Result<CString, OnnxRuntimeError> {
    CString::new(name).map_err(|_| {
        OnnxRuntimeError::unsupported(format!("the name {name:?} holds a zero character"))
    })
}

/// Descriptions of inputs that no graph has taken over yet.
struct ValueInfos(Vec<*mut sys::OrtValueInfo>);

impl Drop for ValueInfos {
    fn drop(&mut self) {
        for &info in self.0.iter().filter(|info| !info.is_null()) {
            // SAFETY: the description was made by the library, and a graph would have set it to null.
            unsafe { (ort::api().ReleaseValueInfo)(info) };
        }
    }
}

/// Name and type of an input. An unknown rank stays unknown.
fn value_info(graph: &Graph, id: ValueId) -> Result<*mut sys::OrtValueInfo, OnnxRuntimeError> {
    let name = graph.value_name(id);
    let describing = || format!("describing '{name}'");
    let value_type = graph.values[id.index()].value_type.as_ref();
    let Some(TypeInfo::Tensor(tensor)) = value_type else {
        return Err(OnnxRuntimeError::unsupported(format!(
            "the Model Editor takes only tensors as inputs, and '{name}' is declared as none"
        )));
    };
    let api = ort::api();
    let mut shape = ptr::null_mut();
    call!(describing, api.CreateTensorTypeAndShapeInfo, &mut shape)?;
    let mut type_info = ptr::null_mut();
    let described = (|| {
        let element_type = values::theirs(tensor.element_type)?;
        call!(
            describing,
            api.SetTensorElementType,
            shape,
            element_type.into()
        )?;
        if let Some(dims) = &tensor.dims {
            let sizes: Vec<i64> = dims
                .iter()
                .map(|dim| dim.known().map_or(-1, |size| size as i64))
                .collect();
            call!(
                describing,
                api.SetDimensions,
                shape,
                sizes.as_ptr(),
                sizes.len()
            )?;
            let names = dims
                .iter()
                .map(|dim| match dim {
                    Dim::Named(name) => text(name),
                    Dim::Known(_) | Dim::Unknown => Ok(CString::default()),
                })
                .collect::<Result<Vec<_>, _>>()?;
            let mut pointers: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
            call!(
                describing,
                api.SetSymbolicDimensions,
                shape,
                pointers.as_mut_ptr(),
                pointers.len(),
            )?;
        }
        call!(
            describing,
            editor_api()?.CreateTensorTypeInfo,
            shape,
            &mut type_info
        )
    })();
    // SAFETY: the shape was made above; the type, if there is one, holds a copy of it.
    unsafe { (api.ReleaseTensorTypeAndShapeInfo)(shape) };
    described?;
    let mut info = ptr::null_mut();
    let named = text(name).and_then(|text| {
        call!(
            describing,
            editor_api()?.CreateValueInfo,
            text.as_ptr(),
            type_info,
            &mut info,
        )
    });
    // SAFETY: the type was made above; the description, if there is one, holds a copy of it.
    unsafe { (api.ReleaseTypeInfo)(type_info) };
    named.map(|()| info)
}
