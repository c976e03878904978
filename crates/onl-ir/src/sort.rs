use crate::{Attribute, Graph, GraphError, Node, ValueId};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Nodes that a message about a circle names.
const NAMED_IN_CIRCLE: usize = 4;

/// What gives a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Nothing,
    /// A graph input, an initializer or a capture.
    Given,
    Node(usize),
}

impl Graph {
    /// Puts nodes into topological order and checks that every value that is read has exactly one source.
    ///
    /// A node reads its inputs and, by name, the captures of its subgraphs. Where dependencies leave a choice,
    /// nodes keep their order. Subgraphs themselves are not sorted or checked.
    ///
    /// # Errors
    /// [`GraphError::Cycle`], [`GraphError::DuplicateValue`], [`GraphError::DuplicateOutput`],
    /// [`GraphError::MissingInput`], [`GraphError::MissingValue`] or [`GraphError::UnknownValue`]; the nodes are
    /// unchanged then.
    pub fn sort_and_check(&mut self) -> Result<(), GraphError> {
        let sources = self.sources()?;
        let reads = self.reads(&sources)?;
        for &id in &self.outputs {
            if self.source(&sources, id)? == Source::Nothing {
                return Err(GraphError::MissingValue {
                    name: self.value_name(id).to_owned(),
                });
            }
        }
        let order = self.topological_order(&reads)?;
        if order.is_sorted() {
            return Ok(());
        }
        let mut nodes: Vec<Option<Node>> = std::mem::take(&mut self.nodes)
            .into_iter()
            .map(Some)
            .collect();
        self.nodes = order
            .into_iter()
            .map(|i| nodes[i].take().expect("an order names each node once"))
            .collect();
        Ok(())
    }

    fn source(&self, sources: &[Source], id: ValueId) -> Result<Source, GraphError> {
        sources
            .get(id.index())
            .copied()
            .ok_or(GraphError::UnknownValue {
                number: id.0,
                count: self.values.len(),
            })
    }

    /// The source of every value.
    fn sources(&self) -> Result<Vec<Source>, GraphError> {
        let mut sources = vec![Source::Nothing; self.values.len()];
        let given = self
            .inputs
            .iter()
            .chain(self.initializers.keys())
            .chain(&self.captures);
        for &id in given {
            if self.source(&sources, id)? != Source::Nothing {
                return Err(GraphError::DuplicateValue {
                    name: self.value_name(id).to_owned(),
                });
            }
            sources[id.index()] = Source::Given;
        }
        for (index, node) in self.nodes.iter().enumerate() {
            for &id in node.outputs.iter().flatten() {
                let first = match self.source(&sources, id)? {
                    Source::Nothing => {
                        sources[id.index()] = Source::Node(index);
                        continue;
                    }
                    Source::Given => {
                        "a graph input, an initializer or an enclosing graph".to_owned()
                    }
                    Source::Node(first) => self.describe_node(first),
                };
                return Err(GraphError::DuplicateOutput {
                    node: self.describe_node(index),
                    first,
                    name: self.value_name(id).to_owned(),
                });
            }
        }
        Ok(sources)
    }

    /// For every node, the nodes whose outputs it reads, in ascending order.
    fn reads(&self, sources: &[Source]) -> Result<Vec<Vec<usize>>, GraphError> {
        let has_subgraphs = self.nodes.iter().any(|n| subgraphs(n).next().is_some());
        let names: HashMap<&str, ValueId> = if has_subgraphs {
            let values = self.values.iter().enumerate();
            values
                .map(|(i, value)| (value.name.as_str(), ValueId(i as u32)))
                .collect()
        } else {
            HashMap::new()
        };
        let mut reads = Vec::with_capacity(self.nodes.len());
        for (index, node) in self.nodes.iter().enumerate() {
            let missing = |name: &str| GraphError::MissingInput {
                node: self.describe_node(index),
                name: name.to_owned(),
            };
            let mut producers = Vec::new();
            let mut read = |source, name: &str| match source {
                Source::Nothing => Err(missing(name)),
                Source::Given => Ok(()),
                Source::Node(producer) => {
                    producers.push(producer);
                    Ok(())
                }
            };
            for &id in node.inputs.iter().flatten() {
                read(self.source(sources, id)?, self.value_name(id))?;
            }
            for subgraph in subgraphs(node) {
                for &capture in &subgraph.captures {
                    let name = subgraph.value_name(capture);
                    let source = names
                        .get(name)
                        .map_or(Source::Nothing, |id| sources[id.index()]);
                    read(source, name)?;
                }
            }
            producers.sort_unstable();
            producers.dedup();
            reads.push(producers);
        }
        Ok(reads)
    }

    /// Node indices such that every node comes after those it reads from.
    fn topological_order(&self, reads: &[Vec<usize>]) -> Result<Vec<usize>, GraphError> {
        let mut pending: Vec<usize> = reads.iter().map(Vec::len).collect();
        let mut readers: Vec<Vec<usize>> = vec![Vec::new(); reads.len()];
        for (index, producers) in reads.iter().enumerate() {
            for &producer in producers {
                readers[producer].push(index);
            }
        }
        // A heap keeps the file's order wherever dependencies leave a choice.
        let mut ready: BinaryHeap<Reverse<usize>> = (0..reads.len())
            .filter(|&i| pending[i] == 0)
            .map(Reverse)
            .collect();
        let mut order = Vec::with_capacity(reads.len());
        while let Some(Reverse(index)) = ready.pop() {
            order.push(index);
            for &reader in &readers[index] {
                pending[reader] -= 1;
                if pending[reader] == 0 {
                    ready.push(Reverse(reader));
                }
            }
        }
        match pending.iter().position(|&count| count > 0) {
            None => Ok(order),
            Some(stuck) => Err(GraphError::Cycle {
                node: self.describe_circle(stuck, reads, &pending),
            }),
        }
    }

    /// Walks from a node that cannot be ordered towards its producers until a node comes up again: from there on
    /// the walk is a circle.
    fn describe_circle(&self, stuck: usize, reads: &[Vec<usize>], pending: &[usize]) -> String {
        let mut step = vec![None; reads.len()];
        let mut walk = Vec::new();
        let mut node = stuck;
        while step[node].is_none() {
            step[node] = Some(walk.len());
            walk.push(node);
            // A node stays pending only while one of its producers does.
            match reads[node].iter().find(|&&producer| pending[producer] > 0) {
                Some(&producer) => node = producer,
                None => break,
            }
        }
        let circle = &walk[step[node].unwrap_or(0)..];
        let mut text = self.describe_node(circle[0]);
        for (i, &node) in circle[1..].iter().take(NAMED_IN_CIRCLE).enumerate() {
            text.push_str(if i == 0 { ", by way of " } else { ", " });
            text.push_str(&self.describe_node(node));
        }
        if circle.len() > 1 + NAMED_IN_CIRCLE {
            text.push_str(&format!(" and {} more", circle.len() - 1 - NAMED_IN_CIRCLE));
        }
        if circle.len() > 1 {
            text.push(',');
        }
        text
    }
}

/// The subgraphs among a node's attributes.
fn subgraphs(node: &Node) -> impl Iterator<Item = &Graph> {
    node.attributes
        .values()
        .flat_map(|attribute| match attribute {
            Attribute::Graph(graph) => std::slice::from_ref(graph),
            Attribute::Graphs(graphs) => graphs.as_slice(),
            _ => &[],
        })
        .map(|graph| graph.as_ref())
}
