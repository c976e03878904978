//! What a model spent where, out of the events of recorded runs.

use super::measure::region_figures;
use super::report::{ModelNode, ModelProfile, ModelRegion, Operand};
use crate::inventory::SerialReason;
use onl::{KernelEntry, KernelKey, KernelTable, Session, Tensor, Value};
use onl_profiling::{Dropped, Events, ParallelRegionEvent, RegionSummary, Summary};

/// The recorded model.
pub struct RecordedModel<'m> {
    /// Name.
    pub name: &'m str,
    /// Bytes of its file.
    pub file_bytes: u64,
    /// Its session, of whose last run there is a plan.
    pub session: &'m Session,
    /// Kernels that the session chose from.
    pub table: &'m KernelTable,
    /// Inputs of the runs.
    pub inputs: &'m [(String, Value)],
    /// Events of the recorded runs.
    pub events: &'m Events,
    /// Events that found no room.
    pub dropped: Dropped,
}

impl RecordedModel<'_> {
    /// Sums the events by node and region.
    pub fn profile(&self) -> ModelProfile {
        let summary = Summary::new(self.events, self.dropped);
        let planned = self.session.runtime().planned_inputs().unwrap_or_default();
        let infos: Vec<_> = self.session.runtime().nodes().collect();
        let mut nodes: Vec<ModelNode> = summary
            .nodes
            .iter()
            .filter_map(|node| {
                let info = infos.get(node.node as usize)?;
                let inputs = planned.get(node.node as usize).into_iter().flatten();
                let (state, serial_reason) = coverage(self.table, &info.key);
                Some(ModelNode {
                    node: node.node,
                    name: info.name.clone(),
                    operator: info.op_type.clone(),
                    element_type: info.key.element_type.to_string(),
                    key: info.key.to_string(),
                    state,
                    serial_reason,
                    inputs: inputs
                        .map(|input| {
                            input.as_ref().map(|input| Operand {
                                element_type: input.element_type.to_string(),
                                dims: input.shape.to_vec(),
                                constant: input.constant,
                            })
                        })
                        .collect(),
                    calls: node.calls,
                    wall_ns: node.wall_ns,
                    serial_ns: node.serial_ns.unwrap_or(0),
                })
            })
            .collect();
        nodes.sort_by_key(|node| node.node);
        let mut regions = Vec::new();
        for divided in [true, false] {
            let part = |region: &&ParallelRegionEvent| region.inline_reason.is_none() == divided;
            let events = Events {
                runs: self.events.runs.clone(),
                nodes: Vec::new(),
                regions: self.events.regions.iter().filter(part).cloned().collect(),
            };
            let summary = Summary::new(&events, self.dropped);
            let outer = summary.regions.iter().filter(|region| !region.nested);
            regions.extend(outer.filter_map(|region| model_region(region, divided)));
        }
        regions.sort_by_key(|region| region.node);
        ModelProfile {
            model: self.name.to_owned(),
            file_bytes: self.file_bytes,
            inputs: self.inputs.iter().filter_map(named_operand).collect(),
            participants: self.session.policy().descriptor().participants,
            run_ns: self.events.runs.iter().map(|run| run.wall_ns).collect(),
            complete: self.dropped.is_none(),
            nodes,
            regions,
        }
    }
}

fn model_region(region: &RegionSummary, divided: bool) -> Option<ModelRegion> {
    Some(ModelRegion {
        node: region.node?,
        divided,
        figures: region_figures(region),
    })
}

fn named_operand((name, value): &(String, Value)) -> Option<(String, Operand)> {
    let tensor: &Tensor = value.as_tensor()?;
    let operand = Operand {
        element_type: tensor.element_type().to_string(),
        dims: tensor.dims().to_vec(),
        constant: false,
    };
    Some((name.clone(), operand))
}

/// State of a kernel in the inventory, with its serial reason.
fn coverage(table: &KernelTable, key: &KernelKey) -> (String, Option<SerialReason>) {
    let serves = |entry: &&KernelEntry| {
        entry.element_types.contains(&key.element_type) && entry.key(key.element_type) == *key
    };
    let Some(entry) = table.entries().iter().find(serves) else {
        return ("serial".to_owned(), None);
    };
    let reason = SerialReason::of(&entry.coverage);
    (entry.coverage.state().to_owned(), reason)
}
