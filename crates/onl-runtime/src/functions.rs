//! Model-local functions are replaced by their bodies before anything else looks at the graph.

use crate::SessionError;
use onl_ir::{Attribute, Function, Graph, Model, Node, OpsetImport, ValueId, ValueInfo};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

const DEEPEST_CALL: usize = 64;

/// A graph whose nodes each carry the operator-set version they are read under.
pub(crate) struct FlatGraph {
    pub graph: Graph,
    pub opsets: Vec<i64>,
}

/// Replaces every call of a model-local function by the function's body.
pub(crate) fn inline(model: &Model) -> Result<FlatGraph, SessionError> {
    inline_graph(&model.graph, &model.opset_imports, &model.functions)
}

/// As [`inline`], for a subgraph without functions of its own.
pub(crate) fn inline_graph(
    graph: &Graph,
    imports: &[OpsetImport],
    functions: &[Function],
) -> Result<FlatGraph, SessionError> {
    let mut flat = Graph {
        nodes: Vec::new(),
        ..graph.clone()
    };
    let mut opsets = Vec::new();
    let mut inliner = Inliner {
        functions,
        graph: &mut flat,
        opsets: &mut opsets,
        calls: 0,
    };
    for (index, node) in graph.nodes.iter().enumerate() {
        inliner.place(node.clone(), imports, || graph.describe_node(index), 0)?;
    }
    Ok(FlatGraph {
        graph: flat,
        opsets,
    })
}

struct Inliner<'a> {
    functions: &'a [Function],
    graph: &'a mut Graph,
    opsets: &'a mut Vec<i64>,
    calls: usize,
}

impl Inliner<'_> {
    fn place(
        &mut self,
        node: Node,
        imports: &[OpsetImport],
        describe: impl Fn() -> String,
        depth: usize,
    ) -> Result<(), SessionError> {
        let functions = self.functions;
        if let Some(function) = functions
            .iter()
            .find(|f| f.op == node.op && f.overload == node.overload)
        {
            if depth == DEEPEST_CALL {
                return Err(SessionError::RecursiveFunction {
                    function: function.op.to_string(),
                });
            }
            return self.call(&node, function, &describe(), depth);
        }
        let opset = imports
            .iter()
            .find(|o| o.domain == node.op.domain)
            .map(|o| o.version)
            .ok_or_else(|| SessionError::DomainNotImported {
                node: describe(),
                domain: node.op.domain.clone(),
            })?;
        self.graph.nodes.push(node);
        self.opsets.push(opset);
        Ok(())
    }

    fn call(
        &mut self,
        caller: &Node,
        function: &Function,
        description: &str,
        depth: usize,
    ) -> Result<(), SessionError> {
        self.calls += 1;
        let prefix = format!("{}#{}/", function.op, self.calls);
        let body = &function.body;
        let mut map: HashMap<ValueId, Option<ValueId>> = HashMap::new();
        for (index, &input) in body.inputs.iter().enumerate() {
            map.insert(input, caller.inputs.get(index).copied().flatten());
        }
        for (index, &output) in body.outputs.iter().enumerate() {
            if let Some(&Some(id)) = caller.outputs.get(index)
                && !map.contains_key(&output)
            {
                map.insert(output, Some(id));
            }
        }
        for (&id, tensor) in &body.initializers {
            let fresh = self.fresh(&prefix, body, id);
            self.graph.initializers.insert(fresh, Arc::clone(tensor));
            map.insert(id, Some(fresh));
        }
        for inner in &body.nodes {
            let mut node = inner.clone();
            node.name = format!("{prefix}{}", inner.name);
            for slot in node.inputs.iter_mut().chain(node.outputs.iter_mut()) {
                if let Some(id) = *slot {
                    *slot = match map.get(&id) {
                        Some(known) => *known,
                        None => {
                            let fresh = self.fresh(&prefix, body, id);
                            map.insert(id, Some(fresh));
                            Some(fresh)
                        }
                    };
                }
            }
            node.attributes = resolve_attributes(&node, caller, function, description)?;
            let name = format!("{description} > {}", inner.op);
            self.place(node, &function.opset_imports, || name.clone(), depth + 1)?;
        }
        Ok(())
    }

    fn fresh(&mut self, prefix: &str, body: &Graph, id: ValueId) -> ValueId {
        let name = format!("{prefix}{}", body.value_name(id));
        self.graph.add_value(ValueInfo {
            name,
            value_type: None,
        })
    }
}

fn resolve_attributes(
    node: &Node,
    caller: &Node,
    function: &Function,
    description: &str,
) -> Result<BTreeMap<String, Attribute>, SessionError> {
    let mut resolved = BTreeMap::new();
    for (name, value) in &node.attributes {
        let value = match value {
            Attribute::Reference { name: referred, .. } => {
                let given = caller
                    .attributes
                    .get(referred)
                    .or_else(|| function.default_attributes.get(referred));
                match given {
                    Some(value) => value.clone(),
                    // An attribute without default that the caller omits is omitted in the body, too.
                    None if function.attributes.contains(referred) => continue,
                    None => {
                        return Err(SessionError::MissingAttribute {
                            node: description.to_owned(),
                            attribute: name.clone(),
                            referred: referred.clone(),
                        });
                    }
                }
            }
            other => other.clone(),
        };
        resolved.insert(name.clone(), value);
    }
    Ok(resolved)
}
