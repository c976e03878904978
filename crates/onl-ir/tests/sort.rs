//! Topological order and single sources of values.

use onl_ir::{Attribute, Graph, GraphError, Node, NodeView, OpId, ValueId, ValueInfo};
use onl_tensor::Tensor;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A graph whose values are made on first mention.
#[derive(Default)]
struct Builder(Graph);

impl Builder {
    fn value(&mut self, name: &str) -> ValueId {
        match self.0.find_value(name) {
            Some(id) => id,
            None => self.0.add_value(ValueInfo {
                name: name.to_owned(),
                value_type: None,
            }),
        }
    }

    fn input(mut self, name: &str) -> Self {
        let id = self.value(name);
        self.0.inputs.push(id);
        self
    }

    fn output(mut self, name: &str) -> Self {
        let id = self.value(name);
        self.0.outputs.push(id);
        self
    }

    fn initializer(mut self, name: &str) -> Self {
        let id = self.value(name);
        let tensor = Tensor::scalar(1.0f32).unwrap();
        self.0.initializers.insert(id, Arc::new(tensor));
        self
    }

    fn capture(mut self, name: &str) -> Self {
        let id = self.value(name);
        self.0.captures.push(id);
        self
    }

    /// A node named after its operator; an empty name stands for an omitted value.
    fn node(mut self, name: &str, inputs: &[&str], outputs: &[&str]) -> Self {
        let mut ids = |names: &[&str]| {
            names
                .iter()
                .map(|name| (!name.is_empty()).then(|| self.value(name)))
                .collect()
        };
        let (inputs, outputs) = (ids(inputs), ids(outputs));
        self.0.nodes.push(Node {
            name: name.to_owned(),
            op: OpId::new("", "Op"),
            overload: String::new(),
            inputs,
            outputs,
            attributes: BTreeMap::new(),
        });
        self
    }

    /// Gives the last node a subgraph.
    fn with_body(mut self, attribute: Attribute) -> Self {
        let node = self.0.nodes.last_mut().unwrap();
        node.attributes.insert("body".to_owned(), attribute);
        self
    }

    fn sorted(mut self) -> Result<String, GraphError> {
        self.0.sort_and_check()?;
        let names: Vec<&str> = self.0.nodes.iter().map(|n| n.name.as_str()).collect();
        Ok(names.join(" "))
    }
}

fn graph() -> Builder {
    Builder::default().input("x")
}

fn body(captures: &[&str]) -> Arc<Graph> {
    Arc::new(
        captures
            .iter()
            .fold(Builder::default(), |b, name| b.capture(name))
            .0,
    )
}

#[test]
fn nodes_come_after_what_they_read() {
    let cases = [
        ("nothing", graph(), ""),
        (
            "order kept",
            graph()
                .node("c", &["x"], &["1"])
                .node("b", &["x"], &["2"])
                .node("a", &["1"], &["3"]),
            "c b a",
        ),
        (
            "reversed chain",
            graph()
                .node("c", &["2"], &["3"])
                .node("b", &["1"], &["2"])
                .node("a", &["x"], &["1"]),
            "a b c",
        ),
        (
            "earliest node first",
            graph()
                .node("late", &["1"], &["2"])
                .node("free", &["x"], &["3"])
                .node("early", &["x"], &["1"])
                .node("last", &["x"], &["4"]),
            "free early late last",
        ),
        (
            "one value read twice",
            graph()
                .node("b", &["1", "1", ""], &["2", ""])
                .node("a", &["x"], &["1"]),
            "a b",
        ),
        (
            "initializers and captures are given",
            graph()
                .initializer("w")
                .capture("k")
                .node("a", &["w", "k", "x"], &["1"]),
            "a",
        ),
    ];
    for (case, builder, expected) in cases {
        assert_eq!(builder.sorted().as_deref(), Ok(expected), "{case}");
    }
}

#[test]
fn captures_are_reads_of_the_node_that_owns_the_subgraph() {
    for (case, attribute) in [
        ("graph", Attribute::Graph(body(&["1", "x"]))),
        (
            "graphs",
            Attribute::Graphs(vec![body(&[]), body(&["x", "1"])]),
        ),
    ] {
        let builder = graph()
            .node("owner", &["x"], &["2"])
            .with_body(attribute)
            .node("producer", &["x"], &["1"]);
        assert_eq!(builder.sorted().as_deref(), Ok("producer owner"), "{case}");
    }
    let own_output = graph()
        .node("owner", &["x"], &["1"])
        .with_body(Attribute::Graph(body(&["1"])));
    assert!(matches!(own_output.sorted(), Err(GraphError::Cycle { .. })));
    let given = graph().capture("k").node("owner", &[], &["1"]);
    assert_eq!(
        given
            .with_body(Attribute::Graph(body(&["k"])))
            .sorted()
            .as_deref(),
        Ok("owner")
    );
    for name in ["ghost", "unused"] {
        let mut builder = graph()
            .node("owner", &[], &["1"])
            .with_body(Attribute::Graph(body(&[name])));
        builder.value("unused");
        assert_eq!(
            builder.sorted().unwrap_err(),
            GraphError::MissingInput {
                node: "node 'owner' (Op)".to_owned(),
                name: name.to_owned()
            }
        );
    }
}

#[test]
fn circles_are_named() {
    let error = graph()
        .node("before", &["x"], &["0"])
        .node("after", &["3"], &["9"])
        .node("a", &["3", "0"], &["1"])
        .node("b", &["1"], &["2"])
        .node("c", &["2"], &["3"])
        .sorted()
        .unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, GraphError::Cycle { .. }), "{text}");
    for name in ["'a'", "'b'", "'c'"] {
        assert!(text.contains(name), "{name} is in the circle: {text}");
    }
    for name in ["'before'", "'after'"] {
        assert!(!text.contains(name), "{name} is not in the circle: {text}");
    }
    let own = graph()
        .node("self", &["1"], &["1"])
        .sorted()
        .unwrap_err()
        .to_string();
    assert!(
        own.starts_with("node 'self' (Op) depends on its own output"),
        "{own}"
    );
    let long = (0..20).fold(graph(), |b, i| {
        b.node(
            &format!("n{i}"),
            &[&i.to_string()],
            &[&((i + 1) % 20).to_string()],
        )
    });
    let text = long.sorted().unwrap_err().to_string();
    assert!(text.contains("and 15 more, depends"), "{text}");
}

#[test]
fn every_value_has_one_source() {
    let duplicate = |name: &str| GraphError::DuplicateValue {
        name: name.to_owned(),
    };
    for (case, builder) in [
        ("input twice", graph().input("x")),
        ("input and initializer", graph().initializer("x")),
        ("input and capture", graph().capture("x")),
        (
            "capture twice",
            Builder::default().capture("x").capture("x"),
        ),
    ] {
        assert_eq!(builder.sorted().unwrap_err(), duplicate("x"), "{case}");
    }
    let error = graph()
        .node("a", &[], &["1"])
        .node("b", &[], &["1"])
        .sorted();
    assert_eq!(
        error.unwrap_err(),
        GraphError::DuplicateOutput {
            node: "node 'b' (Op)".to_owned(),
            first: "node 'a' (Op)".to_owned(),
            name: "1".to_owned()
        }
    );
    let error = graph()
        .node("", &[], &["1", "1"])
        .sorted()
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("node 0 (Op) gives value '1', which node 0 (Op)"),
        "{error}"
    );
    let error = graph().node("a", &[], &["x"]).sorted().unwrap_err();
    assert!(matches!(error, GraphError::DuplicateOutput { .. }));
}

#[test]
fn every_read_value_has_a_source() {
    let error = graph().node("a", &["ghost"], &["1"]).sorted().unwrap_err();
    assert_eq!(
        error,
        GraphError::MissingInput {
            node: "node 'a' (Op)".to_owned(),
            name: "ghost".to_owned()
        }
    );
    let error = graph().output("ghost").sorted().unwrap_err();
    assert_eq!(
        error,
        GraphError::MissingValue {
            name: "ghost".to_owned()
        }
    );
    assert_eq!(graph().output("x").output("x").sorted().as_deref(), Ok(""));
}

#[test]
fn numbers_of_no_value_are_errors() {
    let bad = ValueId(7);
    let unknown = Err(GraphError::UnknownValue {
        number: 7,
        count: 2,
    });
    let changes: [fn(&mut Graph, ValueId); 5] = [
        |g, id| g.inputs.push(id),
        |g, id| g.outputs.push(id),
        |g, id| g.captures.push(id),
        |g, id| g.nodes[0].inputs.push(Some(id)),
        |g, id| g.nodes[0].outputs.push(Some(id)),
    ];
    for change in changes {
        let mut graph = graph().node("a", &["x"], &["1"]).0;
        change(&mut graph, bad);
        let before = graph.clone();
        assert_eq!(graph.sort_and_check(), unknown);
        assert_eq!(graph, before, "a refused graph is unchanged");
    }
}

#[test]
fn node_views_look_at_attributes_by_kind() {
    let mut graph = graph().node("a", &["x", ""], &["1"]).0;
    let attributes = &mut graph.nodes[0].attributes;
    attributes.insert("i".to_owned(), Attribute::Int(3));
    attributes.insert("f".to_owned(), Attribute::Float(0.5));
    attributes.insert("s".to_owned(), Attribute::String(b"text".to_vec()));
    attributes.insert("bad".to_owned(), Attribute::String(vec![0xff]));
    attributes.insert("is".to_owned(), Attribute::Ints(vec![1, 2]));
    let view = NodeView {
        graph: &graph,
        node: &graph.nodes[0],
        index: 0,
        opset: 21,
    };
    assert_eq!((view.input_count(), view.output_count()), (2, 1));
    assert_eq!(
        (view.input(0), view.input(1), view.input(2)),
        (Some(graph.inputs[0]), None, None)
    );
    assert_eq!(view.int("i"), Ok(Some(3)));
    assert_eq!(view.float("f"), Ok(Some(0.5)));
    assert_eq!(view.string("s"), Ok(Some("text")));
    assert_eq!(view.ints("is"), Ok(Some(&[1, 2][..])));
    assert_eq!(view.int("none"), Ok(None));
    assert_eq!(view.tensor("none"), Ok(None));
    let text = view.int("f").unwrap_err().to_string();
    assert!(
        text.contains("node 'a' (Op)") && text.contains("Int") && text.contains("Float"),
        "{text}"
    );
    assert!(view.string("bad").is_err());
    assert!(view.tensor("i").is_err());
}

proptest! {
    /// Nodes of a random acyclic graph, given in random order, come in an order in which each reads only what
    /// came before; sorting again changes nothing.
    #[test]
    fn any_order_of_an_acyclic_graph_is_sorted(
        reads in prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 0..4), 1..30),
        shuffle in any::<u64>(),
        nested in any::<u32>(),
    ) {
        let mut order: Vec<usize> = (0..reads.len()).collect();
        order.sort_by_key(|&i| (i as u64 + 1).wrapping_mul(shuffle | 1));
        let mut builder = graph();
        for i in order {
            let mut names: Vec<String> =
                reads[i].iter().filter(|_| i > 0).map(|r| r.index(i).to_string()).collect();
            // Some nodes read through a subgraph.
            let captured: Vec<String> = if nested >> (i % 32) & 1 == 1 {
                std::mem::take(&mut names)
            } else {
                Vec::new()
            };
            let list = |names: &[String]| names.iter().map(String::as_str).collect::<Vec<_>>().join(",");
            let (names, captured_list) = (names.clone(), list(&captured));
            let inputs: Vec<&str> = names.iter().map(String::as_str).collect();
            builder = builder.node(&i.to_string(), &inputs, &[&i.to_string()]);
            let mut captured: Vec<&str> = captured_list.split(',').filter(|s| !s.is_empty()).collect();
            captured.sort_unstable();
            captured.dedup();
            builder = builder.with_body(Attribute::Graph(body(&captured)));
        }
        let mut graph = builder.0;
        graph.sort_and_check().unwrap();
        let position: BTreeMap<&str, usize> =
            graph.nodes.iter().enumerate().map(|(i, n)| (n.name.as_str(), i)).collect();
        prop_assert_eq!(position.len(), reads.len());
        for (i, indices) in reads.iter().enumerate().skip(1) {
            for producer in indices.iter().map(|r| r.index(i).to_string()) {
                prop_assert!(position[producer.as_str()] < position[i.to_string().as_str()]);
            }
        }
        let once = graph.clone();
        graph.sort_and_check().unwrap();
        prop_assert_eq!(graph, once);
    }
}
