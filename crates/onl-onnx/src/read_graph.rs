use crate::attribute::read_attributes;
use crate::external::ExternalData;
use crate::proto::*;
use crate::tensor::{sparse_from_proto, tensor_from_proto};
use crate::types::type_from_proto;
use crate::{LoadLimits, OnnxError, Problem};
use onl_ir::{Dim, Graph, Node, OpId, TensorType, TypeInfo, ValueId, ValueInfo};
use onl_tensor::Tensor;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// What reading a graph needs beside the graph.
pub(crate) struct Reader<'a> {
    pub limits: &'a LoadLimits,
    pub external: ExternalData,
    pub ir_version: i64,
    /// Whether a function body is being read, where attributes may refer to those of the calling node.
    pub in_function: bool,
    /// Memory spent so far on types that captures repeat from enclosing graphs.
    pub captured_bytes: u64,
}

impl Reader<'_> {
    /// Counts the memory of a type that a capture repeats: many small subgraphs could each repeat a large one.
    fn spend(&mut self, info: &TypeInfo) -> Result<(), OnnxError> {
        self.captured_bytes += size_of_type(info);
        if self.captured_bytes > self.limits.max_decoded_bytes {
            return Err(OnnxError::new(Problem::Limit {
                what: "max_decoded_bytes",
                limit: self.limits.max_decoded_bytes,
                actual: self.captured_bytes,
            }));
        }
        Ok(())
    }
}

/// Memory of a type with what it points to.
fn size_of_type(info: &TypeInfo) -> u64 {
    let inner = match info {
        TypeInfo::Tensor(tensor) | TypeInfo::SparseTensor(tensor) => {
            let dims = tensor.dims.iter().flatten();
            dims.map(|dim| match dim {
                Dim::Named(name) => (size_of::<Dim>() + name.len()) as u64,
                _ => size_of::<Dim>() as u64,
            })
            .sum()
        }
        TypeInfo::Sequence(element) | TypeInfo::Optional(element) => size_of_type(element),
        TypeInfo::Map(_, value) => size_of_type(value),
    };
    size_of::<TypeInfo>() as u64 + inner
}

/// Names that a graph gives values to, for the graphs inside it.
pub(crate) struct Scope<'p> {
    defined: HashSet<String>,
    types: HashMap<String, TypeInfo>,
    parent: Option<&'p Scope<'p>>,
}

impl Scope<'_> {
    /// Whether this graph or one around it gives the name a value, and the value's type there.
    fn find(&self, name: &str) -> Option<Option<&TypeInfo>> {
        let mut scope = Some(self);
        while let Some(current) = scope {
            if current.defined.contains(name) {
                return Some(current.types.get(name));
            }
            scope = current.parent;
        }
        None
    }
}

/// Numbers the values of one graph as they are met.
struct Numbering<'s> {
    scope: &'s Scope<'s>,
    graph: Graph,
    ids: HashMap<String, ValueId>,
}

impl Numbering<'_> {
    /// The number of the value of this name. A name that only an enclosing graph gives is a capture.
    fn id(&mut self, reader: &mut Reader<'_>, name: &str) -> Result<ValueId, OnnxError> {
        if let Some(&id) = self.ids.get(name) {
            return Ok(id);
        }
        if self.graph.values.len() >= u32::MAX as usize {
            return Err(OnnxError::new(Problem::Limit {
                what: "values of a graph",
                limit: u32::MAX.into(),
                actual: u32::MAX.into(),
            }));
        }
        let outer = if self.scope.defined.contains(name) {
            None
        } else {
            self.scope.parent.and_then(|parent| parent.find(name))
        };
        if let Some(Some(info)) = outer {
            reader.spend(info)?;
        }
        let id = self.graph.add_value(ValueInfo {
            name: name.to_owned(),
            value_type: self.scope.types.get(name).or(outer.flatten()).cloned(),
        });
        if outer.is_some() {
            self.graph.captures.push(id);
        }
        self.ids.insert(name.to_owned(), id);
        Ok(id)
    }
}

/// The parts of a graph that a main graph, a subgraph and a function body share.
pub(crate) struct GraphParts {
    pub name: String,
    pub nodes: Vec<NodeProto>,
    pub inputs: Vec<ValueInfoProto>,
    pub outputs: Vec<ValueInfoProto>,
    pub value_infos: Vec<ValueInfoProto>,
    pub initializers: Vec<TensorProto>,
    pub sparse_initializers: Vec<SparseTensorProto>,
}

impl From<GraphProto> for GraphParts {
    fn from(proto: GraphProto) -> Self {
        GraphParts {
            name: proto.name,
            nodes: proto.node,
            inputs: proto.input,
            outputs: proto.output,
            value_infos: proto.value_info,
            initializers: proto.initializer,
            sparse_initializers: proto.sparse_initializer,
        }
    }
}

pub(crate) fn read_main_graph(
    reader: &mut Reader<'_>,
    proto: GraphProto,
) -> Result<Graph, OnnxError> {
    let place = format!("graph '{}'", proto.name);
    read_graph(reader, proto.into(), None).map_err(|e| e.within(place))
}

/// Reads a graph; `parent` is the graph around it.
pub(crate) fn read_graph(
    reader: &mut Reader<'_>,
    parts: GraphParts,
    parent: Option<&Scope<'_>>,
) -> Result<Graph, OnnxError> {
    let mut types = HashMap::new();
    for info in parts
        .value_infos
        .iter()
        .chain(&parts.outputs)
        .chain(&parts.inputs)
    {
        if let Some(proto) = &info.r#type
            && let Some(info_type) =
                type_from_proto(proto).map_err(|e| e.within(format!("value '{}'", info.name)))?
        {
            types.insert(info.name.clone(), info_type);
        }
    }
    let initializers = read_initializers(reader, &parts)?;
    let mut input_names = HashSet::new();
    for info in &parts.inputs {
        if !input_names.insert(info.name.as_str()) {
            return Err(duplicate("graph input", &info.name));
        }
    }
    for (name, tensor) in &initializers {
        let actual = TensorType::with_dims(tensor.element_type(), tensor.shape());
        if let Some(declared) = types.get(name) {
            check_declared(name, declared, &actual)?;
        }
        if !input_names.contains(name.as_str()) || reader.ir_version < 4 {
            types.insert(name.clone(), TypeInfo::Tensor(actual));
        }
    }
    let mut defined: HashSet<String> = input_names.iter().map(|&name| name.to_owned()).collect();
    defined.extend(initializers.iter().map(|(name, _)| name.clone()));
    for output in parts.nodes.iter().flat_map(|node| &node.output) {
        if !output.is_empty() {
            defined.insert(output.clone());
        }
    }

    let scope = Scope {
        defined,
        types,
        parent,
    };
    let mut numbering = Numbering {
        scope: &scope,
        graph: Graph {
            name: parts.name,
            ..Graph::default()
        },
        ids: HashMap::new(),
    };
    let initialized: HashSet<&str> = initializers.iter().map(|(name, _)| name.as_str()).collect();
    for info in &parts.inputs {
        require_name(&info.name, "the name of a graph input")?;
        let id = numbering.id(reader, &info.name)?;
        if !initialized.contains(info.name.as_str()) {
            numbering.graph.inputs.push(id);
        } else if reader.ir_version >= 4 {
            numbering.graph.optional_inputs.push(id);
        }
    }
    for (name, tensor) in &initializers {
        let id = numbering.id(reader, name)?;
        numbering.graph.initializers.insert(id, tensor.clone());
    }
    for (index, proto) in parts.nodes.into_iter().enumerate() {
        let place = describe_node(index, &proto);
        let node = read_node(reader, &mut numbering, proto).map_err(|e| e.within(place))?;
        numbering.graph.nodes.push(node);
    }
    for info in &parts.outputs {
        require_name(&info.name, "the name of a graph output")?;
        let id = numbering.id(reader, &info.name)?;
        numbering.graph.outputs.push(id);
    }
    let mut graph = numbering.graph;
    graph.sort_and_check()?;
    Ok(graph)
}

fn read_node(
    reader: &mut Reader<'_>,
    numbering: &mut Numbering<'_>,
    proto: NodeProto,
) -> Result<Node, OnnxError> {
    require_name(&proto.op_type, "the operator of a node (op_type)")?;
    let attributes = read_attributes(reader, proto.attribute, Some(numbering.scope))?;
    let mut ids = |names: &[String]| {
        names
            .iter()
            .map(|name| {
                (!name.is_empty())
                    .then(|| numbering.id(reader, name))
                    .transpose()
            })
            .collect::<Result<Vec<_>, _>>()
    };
    let inputs = ids(&proto.input)?;
    let outputs = ids(&proto.output)?;
    // What a subgraph takes from further out passes through this graph.
    for graph in subgraphs(&attributes) {
        for &capture in &graph.captures {
            numbering.id(reader, graph.value_name(capture))?;
        }
    }
    Ok(Node {
        name: proto.name,
        op: OpId::new(&proto.domain, &proto.op_type),
        overload: proto.overload,
        inputs,
        outputs,
        attributes,
    })
}

/// The graphs among attributes.
pub(crate) fn subgraphs(
    attributes: &BTreeMap<String, onl_ir::Attribute>,
) -> impl Iterator<Item = &Arc<Graph>> {
    attributes.values().flat_map(|attribute| match attribute {
        onl_ir::Attribute::Graph(graph) => std::slice::from_ref(graph),
        onl_ir::Attribute::Graphs(graphs) => graphs,
        _ => &[],
    })
}

fn describe_node(index: usize, proto: &NodeProto) -> String {
    let op = OpId::new(&proto.domain, &proto.op_type);
    if proto.name.is_empty() {
        format!("node {index} ({op})")
    } else {
        format!("node '{}' ({op})", proto.name)
    }
}

fn read_initializers(
    reader: &mut Reader<'_>,
    parts: &GraphParts,
) -> Result<Vec<(String, Arc<Tensor>)>, OnnxError> {
    let mut names = HashSet::new();
    let mut initializers = Vec::with_capacity(parts.initializers.len());
    for proto in &parts.initializers {
        require_name(&proto.name, "the name of an initializer")?;
        if !names.insert(proto.name.as_str()) {
            return Err(duplicate("initializer", &proto.name));
        }
        let tensor = tensor_from_proto(proto, &mut reader.external)
            .map_err(|e| e.within(format!("initializer '{}'", proto.name)))?;
        initializers.push((proto.name.clone(), Arc::new(tensor)));
    }
    for proto in &parts.sparse_initializers {
        let name = proto.values.as_ref().map_or("", |values| &values.name);
        require_name(name, "the name of a sparse initializer")?;
        if !names.insert(name) {
            return Err(duplicate("initializer", name));
        }
        let tensor = sparse_from_proto(proto, &mut reader.external)
            .and_then(|sparse| sparse.to_dense(reader.limits))
            .map_err(|e| e.within(format!("sparse initializer '{name}'")))?;
        initializers.push((name.to_owned(), Arc::new(tensor)));
    }
    Ok(initializers)
}

/// Compares the declared type of an initializer with its tensor.
fn check_declared(name: &str, declared: &TypeInfo, actual: &TensorType) -> Result<(), OnnxError> {
    let (TypeInfo::Tensor(tensor) | TypeInfo::SparseTensor(tensor)) = declared else {
        return Err(contradicts(
            name,
            crate::types::describe_type(declared),
            actual,
        ));
    };
    let same_dims = match (&tensor.dims, &actual.dims) {
        (Some(declared), Some(actual)) => {
            declared.len() == actual.len()
                && declared
                    .iter()
                    .zip(actual)
                    .all(|pair| !matches!(pair, (Dim::Known(a), Dim::Known(b)) if a != b))
        }
        _ => true,
    };
    if tensor.element_type != actual.element_type || !same_dims {
        return Err(contradicts(name, describe_tensor(tensor), actual));
    }
    Ok(())
}

fn contradicts(name: &str, declared: String, actual: &TensorType) -> OnnxError {
    OnnxError::new(Problem::Type {
        reason: format!(
            "{declared} is declared for initializer '{name}', whose tensor is {}; export the model again",
            describe_tensor(actual)
        ),
    })
}

fn describe_tensor(tensor: &TensorType) -> String {
    let dims = tensor.dims.as_ref().map_or_else(
        || "of any shape".to_owned(),
        |dims| {
            let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
            format!("[{}]", dims.join("x"))
        },
    );
    format!("{} {dims}", tensor.element_type)
}

fn duplicate(what: &'static str, name: &str) -> OnnxError {
    OnnxError::new(Problem::Duplicate {
        what,
        name: name.to_owned(),
    })
}

fn require_name(name: &str, what: &'static str) -> Result<(), OnnxError> {
    if name.is_empty() {
        return Err(OnnxError::new(Problem::Missing { what }));
    }
    Ok(())
}
