//! A graph whose nodes are typed, folded and prepared.

use crate::SessionError;
use crate::functions::FlatGraph;
use crate::recording::run_node;
use crate::subgraph::GraphSubgraphs;
use onl_cpu::IsaTier;
use onl_executor::Lanes;
use onl_ir::{Attribute, Graph, NodeView, OpsetImport, TypeInfo, ValueId};
use onl_kernels::{
    InferContext, KernelEntry, KernelTable, LookupError, PrepareContext, PreparedKernel,
    SerialCategory, ShapeDependence, TypeSource,
};
use onl_snapshot::{KernelKey, TuningSnapshot};
use onl_tensor::{ElementType, Tensor, TensorView, Value};
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Folded constants may grow by this factor over their inputs, or to this many bytes, whichever is more.
const FOLD_GROWTH: usize = 8;
const FOLD_BYTES: usize = 16 << 20;

/// What a session was built from, for preparing a graph and its subgraphs alike.
#[derive(Clone)]
pub(crate) struct Preparation {
    pub table: Arc<KernelTable>,
    pub snapshot: Arc<TuningSnapshot>,
    pub tier: IsaTier,
    pub lanes: usize,
    pub imports: Arc<Vec<OpsetImport>>,
}

/// Facts about a prepared node that tools show.
#[derive(Debug, Clone)]
pub struct PreparedNodeInfo {
    /// The node in words.
    pub description: String,
    /// Name of the node, empty when it has none.
    pub name: String,
    /// Operator.
    pub op_type: String,
    /// Tuning key of the kernel that runs it.
    pub key: KernelKey,
}

pub(crate) struct PreparedNode {
    pub kernel: Box<dyn PreparedKernel>,
    pub inputs: SmallVec<[Option<ValueId>; 4]>,
    pub outputs: SmallVec<[Option<ValueId>; 2]>,
    pub info: PreparedNodeInfo,
    pub dependence: ShapeDependence,
}

pub(crate) struct PreparedGraph {
    pub graph: Graph,
    /// Constant values by value number.
    pub constants: Vec<Option<Arc<Tensor>>>,
    pub nodes: Vec<PreparedNode>,
    /// Time that typing and folding took.
    pub resolve: Duration,
    /// Time that preparing the kernels took.
    pub ready: Duration,
}

impl PreparedGraph {
    /// Types, folds and prepares a graph. `outer` gives the types of captured values; `resolved` is called between
    /// folding and preparing.
    pub fn new(
        flat: FlatGraph,
        preparation: &Preparation,
        outer: &dyn Fn(&str) -> Option<TypeInfo>,
        resolved: &mut dyn FnMut(),
    ) -> Result<Self, SessionError> {
        let started = Instant::now();
        let FlatGraph { mut graph, opsets } = flat;
        let mut constants: Vec<Option<Arc<Tensor>>> = vec![None; graph.values.len()];
        for (id, tensor) in &graph.initializers {
            constants[id.index()] = Some(Arc::clone(tensor));
            graph.values[id.index()].value_type = Some(TypeInfo::Tensor(
                onl_ir::TensorType::with_dims(tensor.element_type(), tensor.dims()),
            ));
        }
        for id in graph.captures.clone() {
            if graph.values[id.index()].value_type.is_none() {
                graph.values[id.index()].value_type = outer(graph.value_name(id));
            }
        }
        let mut chosen: Vec<Option<KernelEntry>> = Vec::with_capacity(graph.nodes.len());
        for index in 0..graph.nodes.len() {
            let entry = type_node(&mut graph, index, opsets[index], preparation, &constants)?;
            let folded = fold_node(
                &graph,
                index,
                opsets[index],
                &entry,
                preparation,
                &mut constants,
            )?;
            chosen.push((!folded).then_some(entry));
        }
        let resolve = started.elapsed();
        resolved();
        let preparing = Instant::now();
        let live = live_nodes(&graph, &chosen);
        let mut nodes = Vec::new();
        for (index, entry) in chosen.into_iter().enumerate() {
            let Some(entry) = entry.filter(|_| live[index]) else {
                continue;
            };
            nodes.push(prepare_node(
                &graph,
                index,
                opsets[index],
                &entry,
                preparation,
                &constants,
            )?);
        }
        drop_unread(&graph, &nodes, &mut constants);
        let ready = preparing.elapsed();
        Ok(PreparedGraph {
            graph,
            constants,
            nodes,
            resolve,
            ready,
        })
    }

    /// Number of values.
    pub fn value_count(&self) -> usize {
        self.graph.values.len()
    }
}

/// Finds the kernel of a node and writes the types of its outputs into the graph.
fn type_node(
    graph: &mut Graph,
    index: usize,
    opset: i64,
    preparation: &Preparation,
    constants: &[Option<Arc<Tensor>>],
) -> Result<KernelEntry, SessionError> {
    let describe = || graph.describe_node(index);
    let node = &graph.nodes[index];
    let types: Vec<Option<TypeInfo>> = node
        .inputs
        .iter()
        .map(|input| input.and_then(|id| graph.values[id.index()].value_type.clone()))
        .collect();
    for (position, input) in node.inputs.iter().enumerate() {
        if let Some(id) = input
            && types[position].is_none()
        {
            let value = graph.value_name(*id).to_owned();
            return Err(SessionError::UnknownType {
                node: describe(),
                index: position,
                value,
            });
        }
    }
    let lookup = |source| SessionError::Lookup {
        node: describe(),
        source,
    };
    let candidates = preparation
        .table
        .operator(&node.op, opset)
        .map_err(lookup)?;
    let view = NodeView {
        graph,
        node,
        index,
        opset,
    };
    let constant = |id: ValueId| constants.get(id.index()).cloned().flatten();
    let infer = |entry: &KernelEntry| -> Result<Vec<Option<TypeInfo>>, SessionError> {
        let mut context = InferContext::new(view, &types, &constant);
        (entry.infer)(&mut context).map_err(|source| SessionError::Infer {
            node: describe(),
            source,
        })?;
        Ok(context.into_outputs())
    };
    let mut seen = None;
    let mut found = None;
    for entry in &candidates {
        let (element_type, outputs) = match entry.type_source {
            TypeSource::Input(position) => {
                let element_type = types
                    .get(position)
                    .and_then(Option::as_ref)
                    .and_then(element_type_of);
                (element_type, None)
            }
            TypeSource::Output => {
                let outputs = infer(entry)?;
                (
                    outputs
                        .first()
                        .and_then(Option::as_ref)
                        .and_then(element_type_of),
                    Some(outputs),
                )
            }
        };
        seen = seen.or(element_type);
        // An operator whose selecting input is omitted is the business of `infer` and `prepare` to refuse.
        if element_type.is_none_or(|t| entry.element_types.contains(&t)) {
            found = Some(((*entry).clone(), outputs));
            break;
        }
    }
    let Some((entry, outputs)) = found else {
        let element_type = seen.unwrap_or(ElementType::Float32);
        let source = match preparation.table.find(&node.op, opset, element_type) {
            Err(source) => source,
            Ok(_) => LookupError::UnknownOperator {
                op: node.op.clone(),
            },
        };
        return Err(lookup(source));
    };
    let outputs = match outputs {
        Some(outputs) => outputs,
        None => infer(&entry)?,
    };
    let ids: Vec<Option<ValueId>> = node.outputs.clone();
    for (id, inferred) in ids.into_iter().zip(outputs) {
        if let Some(id) = id {
            set_type(graph, id, inferred)?;
        }
    }
    Ok(entry)
}

fn element_type_of(value_type: &TypeInfo) -> Option<ElementType> {
    match value_type {
        TypeInfo::Tensor(tensor) | TypeInfo::SparseTensor(tensor) => Some(tensor.element_type),
        TypeInfo::Sequence(inner) | TypeInfo::Optional(inner) => element_type_of(inner),
        TypeInfo::Map(_, value) => element_type_of(value),
    }
}

/// Joins a declared type with an inferred one; what is inferred is more specific, what is declared must not
/// contradict it.
fn set_type(
    graph: &mut Graph,
    id: ValueId,
    inferred: Option<TypeInfo>,
) -> Result<(), SessionError> {
    let Some(inferred) = inferred else {
        return Ok(());
    };
    let slot = &mut graph.values[id.index()];
    match (&slot.value_type, &inferred) {
        (Some(TypeInfo::Tensor(declared)), TypeInfo::Tensor(new)) => {
            if declared.element_type != new.element_type {
                return Err(SessionError::DeclaredType {
                    value: slot.name.clone(),
                    declared: declared.element_type,
                    inferred: new.element_type,
                });
            }
            if new.dims.is_some() {
                slot.value_type = Some(inferred);
            }
        }
        _ => slot.value_type = Some(inferred),
    }
    Ok(())
}

/// Computes a node whose inputs are all constant. Returns whether its outputs became constants.
fn fold_node(
    graph: &Graph,
    index: usize,
    opset: i64,
    entry: &KernelEntry,
    preparation: &Preparation,
    constants: &mut [Option<Arc<Tensor>>],
) -> Result<bool, SessionError> {
    let node = &graph.nodes[index];
    let pure = !matches!(
        entry.coverage,
        onl_kernels::Coverage::Serial {
            category: SerialCategory::DeterministicRng | SerialCategory::ControlFlow,
            ..
        }
    );
    let constant_inputs = node
        .inputs
        .iter()
        .flatten()
        .all(|id| constants.get(id.index()).is_some_and(Option::is_some));
    if !pure || !constant_inputs || node.attributes.values().any(is_graph) {
        return Ok(false);
    }
    let input_bytes: usize = node
        .inputs
        .iter()
        .flatten()
        .filter_map(|id| constants[id.index()].as_ref())
        .map(|t| t.bytes().len())
        .sum();
    let limit = FOLD_BYTES.max(input_bytes.saturating_mul(FOLD_GROWTH));
    for id in node.outputs.iter().flatten() {
        let known = graph.tensor_type(*id).and_then(|t| {
            let dims: Option<Vec<usize>> =
                t.dims.as_ref()?.iter().map(onl_ir::Dim::known).collect();
            onl_tensor::byte_length(t.element_type, &dims?).ok()
        });
        if known.is_some_and(|bytes| bytes > limit) {
            return Ok(false);
        }
    }
    let prepared = prepare_node(graph, index, opset, entry, preparation, constants)?;
    let inputs: SmallVec<[Option<Value>; 4]> = node
        .inputs
        .iter()
        .map(|input| {
            input
                .and_then(|id| constants[id.index()].clone())
                .map(Value::Tensor)
        })
        .collect();
    let outputs =
        run_node(&prepared, &inputs, Lanes::serial()).map_err(|source| SessionError::Fold {
            node: prepared.info.description.clone(),
            source,
        })?;
    let tensors: Option<Vec<Option<Arc<Tensor>>>> = outputs
        .into_iter()
        .map(|output| match output {
            Some(Value::Tensor(tensor)) => Some(Some(tensor)),
            None => Some(None),
            Some(_) => None,
        })
        .collect();
    let Some(tensors) = tensors else {
        return Ok(false);
    };
    for (id, tensor) in node.outputs.iter().zip(tensors) {
        if let Some(id) = id {
            constants[id.index()] = tensor;
        }
    }
    Ok(true)
}

fn is_graph(attribute: &Attribute) -> bool {
    matches!(attribute, Attribute::Graph(_) | Attribute::Graphs(_))
}

fn prepare_node(
    graph: &Graph,
    index: usize,
    opset: i64,
    entry: &KernelEntry,
    preparation: &Preparation,
    constants: &[Option<Arc<Tensor>>],
) -> Result<PreparedNode, SessionError> {
    let node = &graph.nodes[index];
    let view = NodeView {
        graph,
        node,
        index,
        opset,
    };
    let constant = |id: ValueId| constants.get(id.index()).cloned().flatten();
    let outer = |name: &str| {
        graph
            .find_value(name)
            .and_then(|id| graph.values[id.index()].value_type.clone())
    };
    let subgraphs = GraphSubgraphs {
        preparation,
        outer: &outer,
    };
    let context = PrepareContext {
        snapshot: &preparation.snapshot,
        tier: preparation.tier,
        lanes: preparation.lanes,
        constants: &constant,
        subgraphs: &subgraphs,
    };
    let kernel = (entry.prepare)(&view, &context).map_err(|source| SessionError::Prepare {
        node: view.describe(),
        source,
    })?;
    let element_type = match entry.type_source {
        TypeSource::Input(position) => view.input_element_type(position),
        TypeSource::Output => node
            .outputs
            .first()
            .copied()
            .flatten()
            .and_then(|id| graph.tensor_type(id))
            .map(|t| t.element_type),
    };
    let info = PreparedNodeInfo {
        description: view.describe(),
        name: node.name.clone(),
        op_type: node.op.to_string(),
        key: entry.key(
            element_type
                .or(entry.element_types.first().copied())
                .unwrap_or(ElementType::Float32),
        ),
    };
    Ok(PreparedNode {
        kernel,
        inputs: node.inputs.iter().copied().collect(),
        outputs: node.outputs.iter().copied().collect(),
        info,
        dependence: entry.shape_dependence,
    })
}

/// Which unfolded nodes a graph output depends on.
fn live_nodes(graph: &Graph, chosen: &[Option<KernelEntry>]) -> Vec<bool> {
    let mut wanted = vec![false; graph.values.len()];
    for id in &graph.outputs {
        wanted[id.index()] = true;
    }
    let mut live = vec![false; graph.nodes.len()];
    for (index, node) in graph.nodes.iter().enumerate().rev() {
        if chosen[index].is_some() && node.outputs.iter().flatten().any(|id| wanted[id.index()]) {
            live[index] = true;
            for id in node.inputs.iter().flatten() {
                wanted[id.index()] = true;
            }
        }
    }
    live
}

/// Lets go of constants that no node and no output reads.
fn drop_unread(graph: &Graph, nodes: &[PreparedNode], constants: &mut [Option<Arc<Tensor>>]) {
    let mut read = vec![false; constants.len()];
    for id in nodes
        .iter()
        .flat_map(|n| n.inputs.iter().flatten())
        .chain(&graph.outputs)
    {
        read[id.index()] = true;
    }
    for (constant, read) in constants.iter_mut().zip(read) {
        if !read {
            *constant = None;
        }
    }
}

/// Views of a node's inputs, for kernels.
pub(crate) type InputViews<'a> = SmallVec<[Option<TensorView<'a>>; 6]>;
