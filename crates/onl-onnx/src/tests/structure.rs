//! Structure of graphs, subgraphs and functions.

use super::*;
use onl_ir::{Attribute, AttributeKind, Dim, GraphError, OpId, TypeInfo};
use onl_tensor::ElementType;

fn names(graph: &onl_ir::Graph, ids: &[onl_ir::ValueId]) -> Vec<String> {
    ids.iter()
        .map(|&id| graph.value_name(id).to_owned())
        .collect()
}

fn subgraph<'a>(graph: &'a onl_ir::Graph, node: usize, attribute: &str) -> &'a onl_ir::Graph {
    match &graph.nodes[node].attributes[attribute] {
        Attribute::Graph(graph) => graph,
        other => panic!("{other:?} is no graph"),
    }
}

fn if_node(outputs: &[&str], then_branch: GraphProto, else_branch: GraphProto) -> NodeProto {
    NodeProto {
        attribute: vec![
            graph_attribute("then_branch", then_branch),
            graph_attribute("else_branch", else_branch),
        ],
        ..node("If", &["c"], outputs)
    }
}

#[test]
fn initializers_that_are_inputs_depend_on_the_ir_version() {
    for (ir_version, optional) in [(3, vec![]), (4, vec!["w"]), (13, vec!["w"])] {
        let mut graph = graph(vec![node("Add", &["x", "w"], &["y"])], &["x", "w"], &["y"]);
        graph.initializer.push(weight("w"));
        let model = read(&model(ir_version, graph)).unwrap();
        assert_eq!(names(&model.graph, &model.graph.inputs), ["x"]);
        assert_eq!(
            names(&model.graph, &model.graph.optional_inputs),
            optional,
            "IR version {ir_version}"
        );
        assert_eq!(model.graph.initializers.len(), 1);
    }
}

#[test]
fn dimensions_keep_what_is_known() {
    let named = |name: &str| DimensionProto {
        dim_value: None,
        dim_param: Some(name.to_owned()),
    };
    let dims = [
        size(3),
        size(0),
        size(-1),
        named("batch"),
        named(""),
        named("?"),
        named("None"),
        DimensionProto::default(),
    ];
    let mut graph = graph(vec![], &[], &[]);
    graph.input = vec![tensor_info("x", 7, &dims), value("unranked")];
    let tensor = graph.input[1].r#type.as_mut().unwrap().tensor_type.as_mut();
    tensor.unwrap().shape = None;
    graph.output = graph.input.clone();
    let graph = read(&model(9, graph)).unwrap().graph;
    let info = graph.tensor_type(graph.inputs[0]).unwrap();
    assert_eq!(info.element_type, ElementType::Int64);
    let expected = [
        Dim::Known(3),
        Dim::Known(0),
        Dim::Unknown,
        Dim::Named("batch".to_owned()),
        Dim::Unknown,
        Dim::Unknown,
        Dim::Unknown,
        Dim::Unknown,
    ];
    assert_eq!(info.dims.as_deref(), Some(&expected[..]));
    assert_eq!(graph.tensor_type(graph.inputs[1]).unwrap().dims, None);
}

#[test]
fn omitted_inputs_and_outputs_are_none() {
    let proto = graph(
        vec![node("Clip", &["x", "", "x"], &["y", ""])],
        &["x"],
        &["y"],
    );
    let graph = read(&model(9, proto)).unwrap().graph;
    let node = &graph.nodes[0];
    assert_eq!(node.inputs, [node.inputs[0], None, node.inputs[0]]);
    assert_eq!(node.outputs[1], None);
}

#[test]
fn initializers_have_the_type_of_their_tensor() {
    let mut proto = graph(vec![node("Add", &["x", "w"], &["y"])], &["x"], &["y"]);
    proto.initializer.push(weight("w"));
    let graph = read(&model(9, proto)).unwrap().graph;
    let (&id, _) = graph.initializers.iter().next().unwrap();
    let info = graph.tensor_type(id).unwrap();
    assert_eq!(info.element_type, ElementType::Float32);
    assert_eq!(info.dims, Some(vec![Dim::Known(2)]));
}

#[test]
fn nodes_are_sorted_and_imports_made_canonical() {
    let mut proto = model(
        9,
        graph(
            vec![node("B", &["a"], &["b"]), node("A", &["x"], &["a"])],
            &["x"],
            &["b"],
        ),
    );
    proto.opset_import.push(OperatorSetIdProto {
        domain: "ai.onnx".to_owned(),
        version: 21,
    });
    proto.opset_import.push(OperatorSetIdProto {
        domain: "com.microsoft".to_owned(),
        version: 1,
    });
    let model = read(&proto).unwrap();
    let ops: Vec<_> = model.graph.nodes.iter().map(|n| n.op.clone()).collect();
    assert_eq!(ops, [OpId::new("ai.onnx", "A"), OpId::new("", "B")]);
    assert_eq!(model.opset_imports.len(), 2);
    assert_eq!(model.opset("ai.onnx"), Some(21));
    proto.opset_import[1].version = 20;
    assert_problem(
        "two versions",
        read(&proto),
        |p| {
            matches!(
                p,
                Problem::OpsetConflict {
                    first: 21,
                    second: 20,
                    ..
                }
            )
        },
        &["ai.onnx"],
    );
    proto.opset_import.clear();
    assert!(read(&proto).is_ok(), "a model without imports is read");
    proto.ir_version = 2;
    assert_eq!(read(&proto).unwrap().opset("ai.onnx"), Some(1));
}

#[test]
fn subgraphs_capture_through_every_level() {
    let inner = graph(vec![node("Add", &["a", "x"], &["r"])], &[], &["r"]);
    let middle = graph(vec![if_node(&["m"], inner.clone(), inner)], &[], &["m"]);
    let direct = graph(vec![node("Neg", &["a"], &["n"])], &[], &["n"]);
    // The producer of `a` stands after the node whose subgraph reads it.
    let outer = graph(
        vec![if_node(&["y"], middle, direct), node("Abs", &["x"], &["a"])],
        &["c", "x"],
        &["y"],
    );
    let graph = read(&model(9, outer)).unwrap().graph;
    assert_eq!(graph.nodes[0].op.op_type, "Abs");
    assert!(graph.captures.is_empty());
    let middle = subgraph(&graph, 1, "then_branch");
    assert_eq!(names(middle, &middle.captures), ["c", "a", "x"]);
    let inner = subgraph(middle, 0, "else_branch");
    assert_eq!(names(inner, &inner.captures), ["a", "x"]);
    let x = inner.captures[1];
    assert_eq!(
        inner.tensor_type(x),
        graph.tensor_type(graph.inputs[1]),
        "a capture has the type of its source"
    );
    let direct = subgraph(&graph, 1, "else_branch");
    assert_eq!(names(direct, &direct.captures), ["a"]);
}

#[test]
fn a_subgraph_may_return_an_outer_value_and_shadow_a_name() {
    let returns = graph(vec![], &[], &["x"]);
    let shadows = graph(
        vec![node("Abs", &["x"], &["r"]), node("Neg", &["c"], &["x"])],
        &[],
        &["r"],
    );
    let outer = graph(vec![if_node(&["y"], returns, shadows)], &["c", "x"], &["y"]);
    let graph = read(&model(9, outer)).unwrap().graph;
    let returns = subgraph(&graph, 0, "then_branch");
    assert_eq!(returns.captures, returns.outputs);
    let shadows = subgraph(&graph, 0, "else_branch");
    assert_eq!(names(shadows, &shadows.captures), ["c"]);
    assert_eq!(shadows.nodes[0].op.op_type, "Neg");
}

#[test]
fn structural_faults_are_refused() {
    let good = || graph(vec![node("Add", &["x", "w"], &["y"])], &["x"], &["y"]);
    let with_weight = || GraphProto {
        initializer: vec![weight("w")],
        ..good()
    };
    type Change = fn(&mut GraphProto);
    type Expected = fn(&Problem) -> bool;
    let cases: [(&str, Change, Expected, &[&str]); 16] = [
        (
            "input twice",
            |g| g.input.push(value("x")),
            |p| {
                matches!(
                    p,
                    Problem::Duplicate {
                        what: "graph input",
                        ..
                    }
                )
            },
            &["'x'"],
        ),
        (
            "initializer twice",
            |g| g.initializer.push(weight("w")),
            |p| {
                matches!(
                    p,
                    Problem::Duplicate {
                        what: "initializer",
                        ..
                    }
                )
            },
            &["'w'"],
        ),
        (
            "initializer without name",
            |g| g.initializer[0].name.clear(),
            |p| matches!(p, Problem::Missing { .. }),
            &["initializer"],
        ),
        (
            "output given twice",
            |g| g.node.push(node("Neg", &["x"], &["y"])),
            |p| matches!(p, Problem::Graph(GraphError::DuplicateOutput { .. })),
            &["node 1 (Neg)", "node 0 (Add)", "'y'"],
        ),
        (
            "node gives an input",
            |g| g.node.push(node("Neg", &["x"], &["x"])),
            |p| matches!(p, Problem::Graph(GraphError::DuplicateOutput { .. })),
            &["node 1 (Neg)", "'x'"],
        ),
        (
            "missing input",
            |g| g.initializer.clear(),
            |p| matches!(p, Problem::Graph(GraphError::MissingInput { .. })),
            &["node 0 (Add)", "'w'"],
        ),
        (
            "missing output",
            |g| g.output.push(value("z")),
            |p| matches!(p, Problem::Graph(GraphError::MissingValue { .. })),
            &["'z'"],
        ),
        (
            "circle",
            |g| {
                g.node[0].input.push("b".to_owned());
                g.node.push(node("Neg", &["y"], &["b"]));
            },
            |p| matches!(p, Problem::Graph(GraphError::Cycle { .. })),
            &["node 0 (Add)", "node 1 (Neg)"],
        ),
        (
            "output without name",
            |g| g.output.push(value("")),
            |p| matches!(p, Problem::Missing { .. }),
            &["graph output"],
        ),
        (
            "node without operator",
            |g| g.node[0].op_type.clear(),
            |p| matches!(p, Problem::Missing { .. }),
            &["op_type"],
        ),
        (
            "declared element type differs",
            |g| g.value_info.push(tensor_info("w", 7, &[size(2)])),
            |p| matches!(p, Problem::Type { .. }),
            &["'w'", "i64", "f32"],
        ),
        (
            "declared shape differs",
            |g| g.input.push(tensor_info("w", 1, &[size(3)])),
            |p| matches!(p, Problem::Type { .. }),
            &["'w'", "[3]", "[2]"],
        ),
        (
            "declared as sequence",
            |g| {
                let mut info = value("w");
                info.r#type = Some(TypeProto {
                    sequence_type: Some(Box::new(ElementTypeProto {
                        elem_type: value("w").r#type,
                    })),
                    ..TypeProto::default()
                });
                g.value_info.push(info);
            },
            |p| matches!(p, Problem::Type { .. }),
            &["sequence(tensor(f32))"],
        ),
        (
            "unknown element type",
            |g| g.input[0] = tensor_info("x", 99, &[]),
            |p| matches!(p, Problem::ElementType { number: 99 }),
            &["'x'"],
        ),
        (
            "opaque type",
            |g| {
                g.input[0].r#type = Some(TypeProto {
                    opaque_type: Some(OpaqueTypeProto {
                        domain: "d".to_owned(),
                        name: "thing".to_owned(),
                    }),
                    ..TypeProto::default()
                });
            },
            |p| matches!(p, Problem::Type { .. }),
            &["opaque(d, thing)"],
        ),
        (
            "subgraph reads what nobody gives",
            |g| {
                let body = graph(vec![node("Neg", &["ghost"], &["r"])], &[], &["r"]);
                g.node[0].attribute.push(graph_attribute("body", body));
            },
            |p| matches!(p, Problem::Graph(GraphError::MissingInput { .. })),
            &[
                "graph 'main', node 0 (Add), attribute 'body', graph 'main': node 0 (Neg)",
                "'ghost'",
            ],
        ),
    ];
    assert!(read(&model(9, with_weight())).is_ok());
    for (case, change, expected, parts) in cases {
        let mut graph = with_weight();
        change(&mut graph);
        assert_problem(case, read(&model(9, graph)), expected, parts);
    }
    for version in [0, -1, 14, i64::MAX] {
        assert_problem(
            "IR version",
            read(&model(version, with_weight())),
            |p| matches!(p, Problem::IrVersion { .. }),
            &[&version.to_string()],
        );
    }
    let mut without_graph = model(9, good());
    without_graph.graph = None;
    assert_problem(
        "no graph",
        read(&without_graph),
        |p| matches!(p, Problem::Missing { .. }),
        &["graph"],
    );
}

#[test]
fn attributes_of_faulty_form_are_refused() {
    let attribute = |change: fn(&mut AttributeProto)| {
        let mut attribute = AttributeProto {
            name: "a".to_owned(),
            ..AttributeProto::default()
        };
        change(&mut attribute);
        let mut node = node("Op", &[], &["y"]);
        node.attribute.push(attribute);
        read(&model(9, graph(vec![node], &[], &["y"])))
    };
    let is_attribute = |p: &Problem| matches!(p, Problem::Attribute { .. });
    let refused: [(&str, fn(&mut AttributeProto), &str); 5] = [
        ("no kind, no value", |_| {}, "no kind"),
        (
            "no kind, two values",
            |a| {
                a.i = Some(1);
                a.floats = vec![1.0];
            },
            "Int and Floats",
        ),
        ("unknown kind", |a| a.r#type = 77, "77"),
        (
            "tensor without tensor",
            |a| a.r#type = attribute_type::TENSOR,
            "tensor",
        ),
        (
            "reference outside a function",
            |a| {
                a.r#type = attribute_type::INT;
                a.ref_attr_name = "outer".to_owned();
            },
            "'outer'",
        ),
    ];
    for (case, change, part) in refused {
        assert_problem(
            case,
            attribute(change),
            is_attribute,
            &[part, "node 0 (Op)", "'a'"],
        );
    }
    assert_problem(
        "no name",
        attribute(|a| a.name.clear()),
        |p| matches!(p, Problem::Missing { .. }),
        &["attribute"],
    );
    // Kinds of IR version 1 follow from the value; zeros of proto3 writers are absent.
    let model = attribute(|a| a.ints = vec![4, 5]).unwrap();
    assert_eq!(
        model.graph.nodes[0].attributes["a"],
        Attribute::Ints(vec![4, 5])
    );
    let model = attribute(|a| a.r#type = attribute_type::FLOAT).unwrap();
    assert_eq!(model.graph.nodes[0].attributes["a"], Attribute::Float(0.0));
}

fn function(name: &str, calls: &str) -> FunctionProto {
    let mut inner = node(calls, &["x"], &["y"]);
    inner.domain = "local".to_owned();
    inner.attribute.push(AttributeProto {
        name: "alpha".to_owned(),
        r#type: attribute_type::FLOAT,
        ref_attr_name: "beta".to_owned(),
        ..AttributeProto::default()
    });
    FunctionProto {
        name: name.to_owned(),
        domain: "local".to_owned(),
        input: vec!["x".to_owned()],
        output: vec!["y".to_owned()],
        attribute: vec!["beta".to_owned()],
        node: vec![inner],
        value_info: vec![value("x")],
        ..FunctionProto::default()
    }
}

#[test]
fn functions_are_read_with_references() {
    let mut proto = model(10, graph(vec![], &["x"], &["x"]));
    proto.functions = vec![function("F", "G"), function("G", "Leaf")];
    let model = read(&proto).unwrap();
    let f = &model.functions[0];
    assert_eq!(f.op, OpId::new("local", "F"));
    assert_eq!(names(&f.body, &f.body.inputs), ["x"]);
    assert_eq!(
        f.body.nodes[0].attributes["alpha"],
        Attribute::Reference {
            name: "beta".to_owned(),
            kind: AttributeKind::Float
        }
    );
    assert!(f.body.tensor_type(f.body.inputs[0]).is_some());

    proto.functions = vec![function("F", "G"), function("G", "F")];
    assert_problem(
        "recursion",
        read(&proto),
        |p| matches!(p, Problem::RecursiveFunction { .. }),
        &["local:F"],
    );
    proto.functions = vec![function("F", "G"), function("F", "H")];
    assert_problem(
        "function twice",
        read(&proto),
        |p| {
            matches!(
                p,
                Problem::Duplicate {
                    what: "function",
                    ..
                }
            )
        },
        &["local:F"],
    );
    proto.functions[1].overload = "other".to_owned();
    assert!(read(&proto).is_ok(), "overloads are different functions");
    proto.functions = vec![function("F", "G")];
    proto.functions[0].node[0].input.push("ghost".to_owned());
    assert_problem(
        "missing value",
        read(&proto),
        |p| matches!(p, Problem::Graph(GraphError::MissingInput { .. })),
        &["function 'local:F'", "'ghost'"],
    );
}

#[test]
fn sparse_initializers_become_dense() {
    let mut proto = graph(vec![node("Add", &["x", "s"], &["y"])], &["x"], &["y"]);
    proto.sparse_initializer.push(SparseTensorProto {
        values: Some(TensorProto {
            dims: vec![1],
            float_data: vec![2.5],
            ..weight("s")
        }),
        indices: Some(TensorProto {
            data_type: 7,
            dims: vec![1],
            int64_data: vec![1],
            ..TensorProto::default()
        }),
        dims: vec![2],
    });
    let graph = read(&model(11, proto)).unwrap().graph;
    let tensor = graph.initializers.values().next().unwrap();
    assert_eq!(tensor.as_slice::<f32>().unwrap(), [0.0, 2.5]);
    let (&id, _) = graph.initializers.iter().next().unwrap();
    assert_eq!(graph.value_name(id), "s");
}

#[test]
fn limits_refuse_with_the_limit_named() {
    let nested = |depth: usize| {
        let mut inner = graph(vec![node("Abs", &["x"], &["r"])], &[], &["r"]);
        for _ in 0..depth {
            let mut node = node("Op", &[], &["r"]);
            node.attribute.push(graph_attribute("body", inner));
            inner = graph(vec![node], &[], &["r"]);
        }
        inner.input.push(value("x"));
        model(9, inner).encode_to_vec()
    };
    let read = |bytes: Vec<u8>, limits: &LoadLimits| read_model_bytes(bytes.into(), None, limits);
    let default = LoadLimits::default();
    assert!(read(nested(24), &default).is_ok());
    let cases: [(&str, LoadLimits, Vec<u8>); 4] = [
        ("max_graph_depth", default.clone(), nested(25)),
        (
            "max_nodes",
            LoadLimits {
                max_nodes: 3,
                ..default.clone()
            },
            nested(3),
        ),
        (
            "max_file_bytes",
            LoadLimits {
                max_file_bytes: 50,
                ..default.clone()
            },
            nested(3),
        ),
        (
            "max_decoded_bytes",
            LoadLimits {
                max_decoded_bytes: 1000,
                ..default.clone()
            },
            nested(3),
        ),
    ];
    for (name, limits, bytes) in cases {
        assert_problem(
            name,
            read(bytes, &limits),
            |p| matches!(p, Problem::Limit { what, .. } if *what == name),
            &[name],
        );
    }
    // Without the limit, the decoder's own bound on nesting holds.
    let deep = LoadLimits {
        max_graph_depth: 1000,
        ..default
    };
    assert_problem(
        "nesting",
        read(nested(60), &deep),
        |p| matches!(p, Problem::Decode { .. }),
        &["nested"],
    );
}

#[test]
fn values_of_every_type_are_read() {
    let tensor = value("").r#type;
    let info = |proto: TypeProto| ValueInfoProto {
        name: "x".to_owned(),
        r#type: Some(proto),
    };
    let element = || {
        Some(Box::new(ElementTypeProto {
            elem_type: tensor.clone(),
        }))
    };
    let map = TypeProto {
        map_type: Some(Box::new(MapTypeProto {
            key_type: 8,
            value_type: tensor.clone(),
        })),
        ..TypeProto::default()
    };
    let cases = [
        (
            TypeProto {
                sequence_type: element(),
                ..TypeProto::default()
            },
            "sequence(tensor(f32))",
        ),
        (
            TypeProto {
                optional_type: element(),
                ..TypeProto::default()
            },
            "optional(tensor(f32))",
        ),
        (map, "map(string, tensor(f32))"),
        (
            TypeProto {
                sparse_tensor_type: tensor.clone().unwrap().tensor_type,
                ..TypeProto::default()
            },
            "sparse_tensor(f32)",
        ),
    ];
    for (proto, expected) in cases {
        let mut graph = graph(vec![], &[], &["x"]);
        graph.input = vec![info(proto.clone())];
        graph.output = vec![info(proto)];
        let graph = read(&model(9, graph)).unwrap().graph;
        let actual: &TypeInfo = graph.values[0].value_type.as_ref().unwrap();
        assert_eq!(crate::types::describe_type(actual), expected);
    }
    let mut untyped = graph(vec![], &[], &["x"]);
    untyped.input = vec![info(TypeProto {
        sequence_type: Some(Box::default()),
        ..TypeProto::default()
    })];
    assert_problem(
        "sequence of nothing",
        read(&model(9, untyped)),
        |p| matches!(p, Problem::Type { .. }),
        &["sequence"],
    );
}
