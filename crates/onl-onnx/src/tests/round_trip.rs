//! Whatever a model holds, writing and reading it gives the same model.

use crate::{LoadLimits, model_to_bytes, read_model, read_model_bytes, write_model};
use onl_ir::{
    Attribute, AttributeKind, Dim, Function, Graph, Model, Node, OpId, OpsetImport, TensorType,
    TypeInfo, ValueId, ValueInfo,
};
use onl_tensor::{ElementType, Tensor, Value, byte_length};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

fn element_types() -> impl Strategy<Value = ElementType> {
    prop::sample::select(&ElementType::ALL[..])
}

fn tensors() -> impl Strategy<Value = Arc<Tensor>> {
    (
        element_types(),
        prop::collection::vec(0usize..4, 0..4),
        any::<u64>(),
    )
        .prop_map(|(element_type, dims, seed)| {
            let byte = |i: usize| (seed.wrapping_mul(i as u64 + 1) >> 17) as u8;
            let tensor = if element_type == ElementType::String {
                let count = dims.iter().product();
                let strings = (0..count).map(|i| format!("s{}ß", byte(i))).collect();
                Tensor::from_strings(&dims, strings)
            } else {
                let length = byte_length(element_type, &dims).unwrap();
                let bytes: Vec<u8> = (0..length).map(byte).collect();
                Tensor::from_bytes(element_type, &dims, &bytes)
            };
            Arc::new(tensor.unwrap())
        })
}

fn dims() -> impl Strategy<Value = Dim> {
    prop_oneof![
        (0usize..1000).prop_map(Dim::Known),
        "[a-z]{1,5}".prop_map(Dim::Named),
        Just(Dim::Unknown),
    ]
}

fn tensor_types() -> impl Strategy<Value = TensorType> {
    (
        element_types(),
        prop::option::of(prop::collection::vec(dims(), 0..4)),
    )
        .prop_map(|(element_type, dims)| TensorType { element_type, dims })
}

fn types() -> impl Strategy<Value = TypeInfo> {
    let leaf = prop_oneof![
        tensor_types().prop_map(TypeInfo::Tensor),
        tensor_types().prop_map(TypeInfo::SparseTensor),
    ];
    leaf.prop_recursive(3, 6, 1, |inner| {
        prop_oneof![
            inner.clone().prop_map(|t| TypeInfo::Sequence(Box::new(t))),
            inner.clone().prop_map(|t| TypeInfo::Optional(Box::new(t))),
            (
                prop::sample::select(&[ElementType::Int64, ElementType::String][..]),
                inner
            )
                .prop_map(|(key, t)| TypeInfo::Map(key, Box::new(t))),
        ]
    })
}

fn sparse_values() -> impl Strategy<Value = Value> {
    prop::collection::btree_set(0i64..12, 0..6).prop_map(|indices| {
        let indices: Vec<i64> = indices.into_iter().collect();
        let values: Vec<f32> = indices.iter().map(|&i| i as f32 + 0.5).collect();
        Value::SparseTensor {
            values: Arc::new(Tensor::from_slice(&[values.len()], &values).unwrap()),
            indices: Arc::new(Tensor::from_slice(&[indices.len()], &indices).unwrap()),
            dims: vec![3, 4],
        }
    })
}

fn byte_strings() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..6)
}

/// Finite floats, which equal themselves.
fn floats() -> impl Strategy<Value = f32> {
    prop::num::f32::NORMAL | prop::num::f32::ZERO | prop::num::f32::SUBNORMAL
}

/// Attributes of every kind but graphs and references.
fn attributes() -> BoxedStrategy<Attribute> {
    use Attribute as A;
    prop_oneof![
        any::<i64>().prop_map(A::Int),
        floats().prop_map(A::Float),
        byte_strings().prop_map(A::String),
        tensors().prop_map(A::Tensor),
        sparse_values().prop_map(A::SparseTensor),
        types().prop_map(A::Type),
        prop::collection::vec(any::<i64>(), 0..4).prop_map(A::Ints),
        prop::collection::vec(floats(), 0..4).prop_map(A::Floats),
        prop::collection::vec(byte_strings(), 0..4).prop_map(A::Strings),
        prop::collection::vec(tensors(), 0..3).prop_map(A::Tensors),
        prop::collection::vec(sparse_values(), 0..3).prop_map(A::SparseTensors),
        prop::collection::vec(types(), 0..3).prop_map(A::Types),
    ]
    .boxed()
}

/// What a graph is built from; numbers choose among the values there are.
#[derive(Debug, Clone)]
struct Plan {
    inputs: Vec<Option<TypeInfo>>,
    initializers: Vec<(Arc<Tensor>, bool)>,
    nodes: Vec<NodePlan>,
    outputs: Vec<prop::sample::Index>,
}

#[derive(Debug, Clone)]
struct NodePlan {
    inputs: Vec<Option<prop::sample::Index>>,
    outputs: Vec<Option<Option<TypeInfo>>>,
    attributes: Vec<Attribute>,
    subgraphs: Vec<Plan>,
    domain: &'static str,
}

fn plans() -> impl Strategy<Value = Plan> {
    let node = |subgraphs: BoxedStrategy<Vec<Plan>>| {
        (
            prop::collection::vec(prop::option::of(any::<prop::sample::Index>()), 0..4),
            prop::collection::vec(prop::option::of(prop::option::of(types())), 1..3),
            prop::collection::vec(attributes(), 0..3),
            subgraphs,
            prop::sample::select(&["", "com.example"][..]),
        )
            .prop_map(
                |(inputs, outputs, attributes, subgraphs, domain)| NodePlan {
                    inputs,
                    outputs,
                    attributes,
                    subgraphs,
                    domain,
                },
            )
    };
    let plan = move |subgraphs: BoxedStrategy<Vec<Plan>>| {
        (
            prop::collection::vec(prop::option::of(types()), 0..3),
            prop::collection::vec((tensors(), any::<bool>()), 0..3),
            prop::collection::vec(node(subgraphs), 0..4),
            prop::collection::vec(any::<prop::sample::Index>(), 0..3),
        )
            .prop_map(|(inputs, initializers, nodes, outputs)| Plan {
                inputs,
                initializers,
                nodes,
                outputs,
            })
    };
    plan(Just(Vec::new()).boxed()).prop_recursive(2, 8, 2, move |inner| {
        plan(prop::collection::vec(inner, 0..3).boxed())
    })
}

/// Builds a graph whose inner nodes may read the values of `outer`, by name and type.
fn build(
    plan: &Plan,
    outer: &[(String, Option<TypeInfo>)],
    prefix: &str,
    in_function: bool,
) -> Graph {
    let mut graph = Graph {
        name: format!("graph{prefix}"),
        ..Graph::default()
    };
    let mut captured: HashMap<String, ValueId> = HashMap::new();
    let mut available: Vec<ValueId> = Vec::new();
    for (i, value_type) in plan.inputs.iter().enumerate() {
        let id = graph.add_value(ValueInfo {
            name: format!("input{prefix}_{i}"),
            value_type: value_type.clone(),
        });
        graph.inputs.push(id);
        available.push(id);
    }
    for (i, (tensor, optional)) in plan
        .initializers
        .iter()
        .enumerate()
        .filter(|_| !in_function)
    {
        let info = TensorType::with_dims(tensor.element_type(), tensor.shape());
        let id = graph.add_value(ValueInfo {
            name: format!("weight{prefix}_{i}"),
            value_type: Some(TypeInfo::Tensor(info)),
        });
        graph.initializers.insert(id, tensor.clone());
        if *optional {
            graph.optional_inputs.push(id);
        }
        available.push(id);
    }
    for (n, plan) in plan.nodes.iter().enumerate() {
        let mut pick = |graph: &mut Graph, index: &prop::sample::Index| {
            let count = available.len() + outer.len();
            let choice = index.index(count.max(1));
            if count == 0 {
                return None;
            }
            Some(match available.get(choice) {
                Some(&id) => id,
                None => {
                    let (name, value_type) = &outer[choice - available.len()];
                    capture(graph, &mut captured, name, value_type)
                }
            })
        };
        let mut inputs: Vec<Option<ValueId>> = Vec::new();
        for index in &plan.inputs {
            inputs.push(index.as_ref().and_then(|index| pick(&mut graph, index)));
        }
        let mut attributes: BTreeMap<String, Attribute> = BTreeMap::new();
        for (i, attribute) in plan.attributes.iter().enumerate() {
            attributes.insert(format!("attribute{i}"), attribute.clone());
        }
        if in_function {
            let reference = Attribute::Reference {
                name: "outer".to_owned(),
                kind: AttributeKind::Ints,
            };
            attributes.insert("reference".to_owned(), reference);
        }
        let mut scope: Vec<(String, Option<TypeInfo>)> = available
            .iter()
            .map(|&id| {
                (
                    graph.value_name(id).to_owned(),
                    graph.values[id.index()].value_type.clone(),
                )
            })
            .collect();
        scope.extend_from_slice(outer);
        let subgraphs: Vec<Arc<Graph>> = plan
            .subgraphs
            .iter()
            .enumerate()
            .map(|(i, inner)| Arc::new(build(inner, &scope, &format!("{prefix}_{n}_{i}"), false)))
            .collect();
        for subgraph in &subgraphs {
            for &id in &subgraph.captures {
                let name = subgraph.value_name(id);
                if let Some((_, value_type)) = outer.iter().find(|(outer, _)| outer == name) {
                    capture(&mut graph, &mut captured, name, value_type);
                }
            }
        }
        if let [only] = &subgraphs[..] {
            attributes.insert("body".to_owned(), Attribute::Graph(only.clone()));
        } else if !subgraphs.is_empty() {
            attributes.insert("bodies".to_owned(), Attribute::Graphs(subgraphs));
        }
        let outputs: Vec<Option<ValueId>> = plan
            .outputs
            .iter()
            .enumerate()
            .map(|(i, value_type)| {
                value_type.as_ref().map(|value_type| {
                    graph.add_value(ValueInfo {
                        name: format!("value{prefix}_{n}_{i}"),
                        value_type: value_type.clone(),
                    })
                })
            })
            .collect();
        available.extend(outputs.iter().flatten());
        graph.nodes.push(Node {
            name: if n % 2 == 0 {
                format!("node{n}")
            } else {
                String::new()
            },
            op: OpId::new(plan.domain, "Op"),
            overload: String::new(),
            inputs,
            outputs,
            attributes,
        });
    }
    if !available.is_empty() {
        graph.outputs = plan
            .outputs
            .iter()
            .map(|index| *index.get(&available))
            .collect();
    }
    graph
}

fn capture(
    graph: &mut Graph,
    captured: &mut HashMap<String, ValueId>,
    name: &str,
    value_type: &Option<TypeInfo>,
) -> ValueId {
    if let Some(&id) = captured.get(name) {
        return id;
    }
    let id = graph.add_value(ValueInfo {
        name: name.to_owned(),
        value_type: value_type.clone(),
    });
    graph.captures.push(id);
    captured.insert(name.to_owned(), id);
    id
}

/// The graph with values numbered in the order of their names, as files do not keep numbers.
fn renumbered(graph: &Graph) -> Graph {
    let names: BTreeSet<&str> = graph.values.iter().map(|v| v.name.as_str()).collect();
    assert_eq!(names.len(), graph.values.len(), "names are unique");
    let numbers: HashMap<&str, u32> = names.iter().zip(0..).map(|(&name, i)| (name, i)).collect();
    let new = |id: &ValueId| ValueId(numbers[graph.value_name(*id)]);
    let list = |ids: &[ValueId]| ids.iter().map(new).collect::<Vec<_>>();
    let mut values = graph.values.clone();
    values.sort_by(|a, b| a.name.cmp(&b.name));
    let mut captures = list(&graph.captures);
    captures.sort();
    let nodes = graph.nodes.iter().map(|node| {
        let optional =
            |ids: &[Option<ValueId>]| ids.iter().map(|id| id.as_ref().map(new)).collect();
        let attributes = node.attributes.iter().map(|(name, attribute)| {
            let attribute = match attribute {
                Attribute::Graph(graph) => Attribute::Graph(Arc::new(renumbered(graph))),
                Attribute::Graphs(graphs) => {
                    Attribute::Graphs(graphs.iter().map(|g| Arc::new(renumbered(g))).collect())
                }
                other => other.clone(),
            };
            (name.clone(), attribute)
        });
        Node {
            inputs: optional(&node.inputs),
            outputs: optional(&node.outputs),
            attributes: attributes.collect(),
            ..node.clone()
        }
    });
    Graph {
        name: graph.name.clone(),
        values,
        inputs: list(&graph.inputs),
        optional_inputs: list(&graph.optional_inputs),
        outputs: list(&graph.outputs),
        initializers: graph
            .initializers
            .iter()
            .map(|(id, tensor)| (new(id), tensor.clone()))
            .collect(),
        nodes: nodes.collect(),
        captures,
    }
}

fn canonical(model: &Model) -> Model {
    let functions = model.functions.iter().map(|function| Function {
        body: Graph {
            // A function's body has the function's name.
            name: function.op.op_type.clone(),
            ..renumbered(&function.body)
        },
        ..function.clone()
    });
    Model {
        graph: renumbered(&model.graph),
        functions: functions.collect(),
        ..model.clone()
    }
}

fn models() -> impl Strategy<Value = Model> {
    (
        plans(),
        prop::collection::vec((plans(), attributes()), 0..3),
        prop::collection::btree_map("[a-z]{0,4}", ".{0,4}", 0..3),
        (4i64..=13, any::<i64>(), ".{0,8}"),
    )
        .prop_map(
            |(plan, functions, metadata, (ir_version, model_version, text))| {
                let imports = vec![
                    OpsetImport {
                        domain: OpId::ONNX.to_owned(),
                        version: 21,
                    },
                    OpsetImport {
                        domain: "com.example".to_owned(),
                        version: 1,
                    },
                ];
                Model {
                    ir_version,
                    producer_name: text.clone(),
                    producer_version: "1.2".to_owned(),
                    domain: "example".to_owned(),
                    model_version,
                    doc_string: text,
                    opset_imports: imports.clone(),
                    graph: build(&plan, &[], "", false),
                    functions: functions
                        .iter()
                        .enumerate()
                        .map(|(i, (plan, attribute))| Function {
                            op: OpId::new("local", &format!("Function{i}")),
                            overload: if i == 0 {
                                String::new()
                            } else {
                                "b".to_owned()
                            },
                            opset_imports: imports.clone(),
                            attributes: vec!["outer".to_owned()],
                            default_attributes: BTreeMap::from([(
                                "d".to_owned(),
                                attribute.clone(),
                            )]),
                            body: build(plan, &[], &format!("_f{i}"), true),
                        })
                        .collect(),
                    metadata,
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn models_survive_writing_and_reading(model in models()) {
        let bytes = model_to_bytes(&model);
        let read = read_model_bytes(bytes.into(), None, &LoadLimits::default()).unwrap();
        prop_assert_eq!(canonical(&read), canonical(&model));
        // What was read once is a fixed point, numbers of values included.
        let again = read_model_bytes(model_to_bytes(&read).into(), None, &LoadLimits::default()).unwrap();
        prop_assert_eq!(again, read);
    }
}

#[test]
fn initializers_of_functions_become_constants() {
    let mut body = Graph::default();
    let weight = body.add_value(ValueInfo {
        name: "w".to_owned(),
        value_type: None,
    });
    let tensor = Arc::new(Tensor::from_slice(&[1], &[4.0f32]).unwrap());
    body.initializers.insert(weight, tensor.clone());
    body.outputs.push(weight);
    let model = Model {
        ir_version: 10,
        functions: vec![Function {
            op: OpId::new("local", "F"),
            overload: String::new(),
            opset_imports: Vec::new(),
            attributes: Vec::new(),
            default_attributes: BTreeMap::new(),
            body,
        }],
        ..Model::default()
    };
    let bytes = model_to_bytes(&model);
    let read = read_model_bytes(bytes.into(), None, &LoadLimits::default()).unwrap();
    let node = &read.functions[0].body.nodes[0];
    assert_eq!(node.op, OpId::new("", "Constant"));
    assert_eq!(node.attributes["value"], Attribute::Tensor(tensor));
}

#[test]
fn values_without_name_get_one() {
    let mut graph = Graph::default();
    let unnamed = || ValueInfo {
        name: String::new(),
        value_type: None,
    };
    let (a, b) = (graph.add_value(unnamed()), graph.add_value(unnamed()));
    // The first choice for the second value is taken.
    let c = graph.add_value(ValueInfo {
        name: "value_1".to_owned(),
        value_type: None,
    });
    graph.inputs = vec![a, c];
    graph.outputs = vec![b];
    graph.nodes.push(Node {
        name: String::new(),
        op: OpId::new("", "Add"),
        overload: String::new(),
        inputs: vec![Some(a), Some(c)],
        outputs: vec![Some(b)],
        attributes: BTreeMap::new(),
    });
    let model = Model {
        ir_version: 10,
        graph,
        ..Model::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.onnx");
    write_model(&model, &path).unwrap();
    let read = read_model(&path, &LoadLimits::default()).unwrap().graph;
    assert_eq!(read.nodes.len(), 1);
    assert_eq!(
        read.nodes[0].inputs,
        [Some(read.inputs[0]), Some(read.inputs[1])]
    );
    assert_eq!(read.nodes[0].outputs, [Some(read.outputs[0])]);
    assert_eq!(read.values.len(), 3);
}

#[test]
fn random_models_have_all_parts() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    fn note(graph: &Graph, depth: usize, found: &mut BTreeSet<String>) {
        let mut see = |part: &str, present: bool| {
            if present {
                found.insert(part.to_owned());
            }
        };
        see("captures", !graph.captures.is_empty());
        see("optional inputs", !graph.optional_inputs.is_empty());
        see(
            "captures two levels up",
            depth > 1 && !graph.captures.is_empty(),
        );
        for node in &graph.nodes {
            see("omitted input", node.inputs.contains(&None));
            see("omitted output", node.outputs.contains(&None));
            for attribute in node.attributes.values() {
                let reference = matches!(attribute, Attribute::Reference { .. });
                see("reference", reference);
                see(&format!("{:?}", attribute.kind()), !reference);
            }
        }
        for tensor in graph.initializers.values() {
            see(tensor.element_type().name(), true);
        }
        for node in &graph.nodes {
            for inner in crate::read_graph::subgraphs(&node.attributes) {
                note(inner, depth + 1, found);
            }
        }
    }
    let mut runner = TestRunner::deterministic();
    let mut found = BTreeSet::new();
    for _ in 0..200 {
        let model = models().new_tree(&mut runner).unwrap().current();
        note(&model.graph, 0, &mut found);
        for function in &model.functions {
            note(&function.body, 0, &mut found);
        }
    }
    let kinds = 14;
    let parts = 6;
    assert_eq!(
        found.len(),
        kinds + parts + ElementType::ALL.len(),
        "{found:?}"
    );
}
