//! Bodies of control-flow nodes, prepared with the session's table, snapshot and tier.

use crate::prepared::{Preparation, PreparedGraph};
use crate::recording::record;
use crate::{RunError, functions};
use onl_executor::Lanes;
use onl_ir::{Graph, TypeInfo, ValueId};
use onl_kernels::{KernelError, PrepareError, PreparedSubgraph, SubgraphRunner};
use onl_tensor::Value;
use std::sync::Arc;

pub(crate) struct GraphSubgraphs<'a> {
    pub preparation: &'a Preparation,
    /// Types of the values of the enclosing graphs, by name.
    pub outer: &'a dyn Fn(&str) -> Option<TypeInfo>,
}

impl SubgraphRunner for GraphSubgraphs<'_> {
    fn prepare(&self, body: &Arc<Graph>) -> Result<Arc<dyn PreparedSubgraph>, PrepareError> {
        let failed = |error: crate::SessionError| {
            PrepareError::Other(format!("in subgraph '{}': {error}", body.name))
        };
        let flat = functions::inline_graph(body, &self.preparation.imports, &[]).map_err(failed)?;
        let graph =
            PreparedGraph::new(flat, self.preparation, self.outer, &mut || {}).map_err(failed)?;
        Ok(Arc::new(Body { graph }))
    }
}

struct Body {
    graph: PreparedGraph,
}

impl PreparedSubgraph for Body {
    fn run(
        &self,
        inputs: &[Value],
        captures: &[Value],
        lanes: Lanes<'_>,
    ) -> Result<Vec<Value>, KernelError> {
        let graph = &self.graph.graph;
        let given: Vec<(ValueId, Value)> = graph
            .inputs
            .iter()
            .zip(inputs)
            .chain(graph.captures.iter().zip(captures))
            .map(|(id, value)| (*id, value.clone()))
            .collect();
        // Regions of the body count for the node that the body belongs to.
        let recording = record(
            &self.graph,
            &given,
            &|_| false,
            &|_| (lanes, false),
            lanes.count(),
        )
        .map_err(|error| match error {
            RunError::Cancelled { cancelled, .. } => cancelled.into(),
            other => KernelError::Other(other.to_string()),
        })?;
        graph
            .outputs
            .iter()
            .map(|id| {
                recording.values[id.index()].clone().ok_or_else(|| {
                    KernelError::Other(format!(
                        "output '{}' of a subgraph has no value",
                        graph.value_name(*id)
                    ))
                })
            })
            .collect()
    }
}
