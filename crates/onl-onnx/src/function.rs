//! Model-local functions (IR version 8 and later).

use crate::attribute::read_attributes;
use crate::proto::*;
use crate::read::opset_imports;
use crate::read_graph::{GraphParts, Reader, read_graph, subgraphs};
use crate::{OnnxError, Problem};
use onl_ir::{Function, Graph, OpId};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Reads functions; their names must be unique and their calls must end.
pub(crate) fn read_functions(
    reader: &mut Reader<'_>,
    protos: Vec<FunctionProto>,
) -> Result<Vec<Function>, OnnxError> {
    reader.in_function = true;
    let mut functions = Vec::with_capacity(protos.len());
    let mut numbers = HashMap::new();
    for proto in protos {
        let op = OpId::new(&proto.domain, &proto.name);
        let place = format!("function '{op}'");
        if numbers
            .insert((op.clone(), proto.overload.clone()), functions.len())
            .is_some()
        {
            return Err(OnnxError::new(Problem::Duplicate {
                what: "function",
                name: op.to_string(),
            }));
        }
        functions.push(read_function(reader, op, proto).map_err(|e| e.within(place))?);
    }
    reader.in_function = false;
    check_calls(&functions, &numbers)?;
    Ok(functions)
}

fn read_function(
    reader: &mut Reader<'_>,
    op: OpId,
    proto: FunctionProto,
) -> Result<Function, OnnxError> {
    if op.op_type.is_empty() {
        return Err(OnnxError::new(Problem::Missing {
            what: "the name of a function",
        }));
    }
    let named = |names: Vec<String>| {
        names
            .into_iter()
            .map(|name| ValueInfoProto { name, r#type: None })
            .collect()
    };
    let default_attributes = read_attributes(reader, proto.attribute_proto, None)?;
    let mut names = HashSet::new();
    for name in &proto.attribute {
        if default_attributes.contains_key(name) || !names.insert(name) {
            return Err(OnnxError::new(Problem::Duplicate {
                what: "attribute",
                name: name.clone(),
            }));
        }
    }
    let body = GraphParts {
        name: proto.name,
        nodes: proto.node,
        inputs: named(proto.input),
        outputs: named(proto.output),
        value_infos: proto.value_info,
        initializers: Vec::new(),
        sparse_initializers: Vec::new(),
    };
    Ok(Function {
        op,
        overload: proto.overload,
        opset_imports: opset_imports(&proto.opset_import)?,
        attributes: proto.attribute,
        default_attributes,
        body: read_graph(reader, body, None)?,
    })
}

/// Refuses functions that call each other in a circle, which nothing could expand.
fn check_calls(
    functions: &[Function],
    numbers: &HashMap<(OpId, String), usize>,
) -> Result<(), OnnxError> {
    let calls: Vec<Vec<usize>> = functions
        .iter()
        .map(|function| {
            let mut callees = Vec::new();
            collect_calls(&function.body, numbers, &mut callees);
            for graph in subgraphs(&function.default_attributes) {
                collect_calls(graph, numbers, &mut callees);
            }
            callees.sort_unstable();
            callees.dedup();
            callees
        })
        .collect();
    let mut pending: Vec<usize> = calls.iter().map(Vec::len).collect();
    let mut callers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (caller, callees) in calls.iter().enumerate() {
        for &callee in callees {
            callers.entry(callee).or_default().push(caller);
        }
    }
    let mut ready: Vec<usize> = (0..functions.len()).filter(|&i| pending[i] == 0).collect();
    while let Some(index) = ready.pop() {
        for &caller in callers.get(&index).into_iter().flatten() {
            pending[caller] -= 1;
            if pending[caller] == 0 {
                ready.push(caller);
            }
        }
    }
    match pending.iter().position(|&count| count > 0) {
        None => Ok(()),
        Some(index) => Err(OnnxError::new(Problem::RecursiveFunction {
            name: functions[index].op.to_string(),
        })),
    }
}

fn collect_calls(
    graph: &Graph,
    numbers: &HashMap<(OpId, String), usize>,
    callees: &mut Vec<usize>,
) {
    for node in &graph.nodes {
        if let Some(&index) = numbers.get(&(node.op.clone(), node.overload.clone())) {
            callees.push(index);
        }
        for inner in subgraphs(&node.attributes) {
            collect_calls(inner, numbers, callees);
        }
    }
}
