//! The plan of a graph for one set of input shapes: which nodes run, and where every value lives.

use crate::prepared::PreparedGraph;
use crate::recording::{Recorded, Recording};
use crate::waking::Waking;
use onl_ir::ValueId;
use onl_kernels::ShapeDependence;
use onl_tensor::{ElementType, Shape, Tensor, TensorError, Value, byte_length};
use std::sync::Arc;

/// Where the elements of a value are during a run.
#[derive(Debug, Clone)]
pub(crate) enum Location {
    /// Nowhere: the value is not used by the plan.
    Absent,
    /// Constant for these input shapes.
    Constant(Arc<Tensor>),
    /// In the caller's input.
    Input(usize),
    /// In a buffer of the run state.
    Slot(usize),
}

#[derive(Debug, Clone)]
pub(crate) struct PlannedValue {
    pub element_type: ElementType,
    pub shape: Shape,
    pub bytes: usize,
    pub location: Location,
    /// Whether the value shares the elements of one of its node's inputs.
    pub is_alias: bool,
}

/// A graph output that is computed into memory which then becomes the caller's.
#[derive(Debug, Clone)]
pub(crate) struct OutputBinding {
    pub value: ValueId,
    /// Buffer that only this output uses; `None` when the output must be copied from where it is.
    pub slot: Option<usize>,
}

pub(crate) struct Plan {
    pub input_dims: Vec<Shape>,
    pub values: Vec<PlannedValue>,
    /// Indices of the nodes that run.
    pub steps: Vec<usize>,
    /// Bytes of each buffer; buffers of outputs are supplied by each run.
    pub slot_bytes: Vec<usize>,
    pub outputs: Vec<OutputBinding>,
    pub workspace_bytes: usize,
    /// When runs wake sleeping lanes.
    pub waking: Waking,
}

/// Which values have a shape, and which have elements, that follow from the input shapes alone.
pub(crate) struct ShapeKnowledge {
    pub value_known: Vec<bool>,
}

impl ShapeKnowledge {
    pub fn of(graph: &PreparedGraph) -> Self {
        let count = graph.value_count();
        let mut value_known = vec![false; count];
        let mut shape_known = vec![false; count];
        for (id, constant) in graph.constants.iter().enumerate() {
            value_known[id] = constant.is_some();
            shape_known[id] = constant.is_some();
        }
        for id in &graph.graph.inputs {
            shape_known[id.index()] = true;
        }
        for node in &graph.nodes {
            let inputs = || node.inputs.iter().flatten();
            let shapes = inputs().all(|id| shape_known[id.index()]);
            let values = inputs().all(|id| value_known[id.index()]);
            let listed = |positions: &[usize]| {
                positions.iter().all(|&p| {
                    node.inputs
                        .get(p)
                        .copied()
                        .flatten()
                        .is_none_or(|id| value_known[id.index()])
                })
            };
            let shape = match node.dependence {
                ShapeDependence::Shapes | ShapeDependence::MetadataOnly => shapes,
                ShapeDependence::Values(positions) => shapes && listed(positions),
                ShapeDependence::AllValues => values,
            };
            let value = values || (node.dependence == ShapeDependence::MetadataOnly && shapes);
            for id in node.outputs.iter().flatten() {
                shape_known[id.index()] = shape;
                value_known[id.index()] = value;
            }
        }
        ShapeKnowledge { value_known }
    }
}

impl Plan {
    /// Makes a plan of what a recording saw; `None` when some value cannot be planned.
    pub fn new(
        graph: &PreparedGraph,
        knowledge: &ShapeKnowledge,
        recording: &Recording,
        input_dims: Vec<Shape>,
        waking: Waking,
    ) -> Result<Option<Plan>, TensorError> {
        if recording.unplannable {
            return Ok(None);
        }
        let mut values: Vec<PlannedValue> = (0..graph.value_count())
            .map(|_| PlannedValue {
                element_type: ElementType::UInt8,
                shape: Shape::scalar(),
                bytes: 0,
                location: Location::Absent,
                is_alias: false,
            })
            .collect();
        let constant = |tensor: &Arc<Tensor>| PlannedValue {
            element_type: tensor.element_type(),
            shape: tensor.shape().clone(),
            bytes: tensor.bytes().len(),
            location: Location::Constant(Arc::clone(tensor)),
            is_alias: false,
        };
        for (id, tensor) in graph.constants.iter().enumerate() {
            if let Some(tensor) = tensor {
                values[id] = constant(tensor);
            }
        }
        for (index, id) in graph.graph.inputs.iter().enumerate() {
            let Some(declared) = graph.graph.tensor_type(*id) else {
                return Ok(None);
            };
            values[id.index()] = PlannedValue {
                element_type: declared.element_type,
                shape: input_dims[index].clone(),
                bytes: byte_length(declared.element_type, &input_dims[index])?,
                location: Location::Input(index),
                is_alias: false,
            };
        }
        let mut steps = Vec::new();
        for (index, node) in graph.nodes.iter().enumerate() {
            let mut runs = false;
            for id in node.outputs.iter().flatten() {
                if !knowledge.value_known[id.index()] {
                    runs = true;
                } else if let Some(Value::Tensor(tensor)) = &recording.values[id.index()] {
                    values[id.index()] = constant(tensor);
                }
            }
            if runs {
                steps.push(index);
            }
        }
        let mut layout = SlotLayout::new(graph, &steps, &recording.recorded, &values);
        for &index in &steps {
            for id in graph.nodes[index].outputs.iter().flatten() {
                if knowledge.value_known[id.index()] {
                    continue;
                }
                let Some(recorded) = &recording.recorded[id.index()] else {
                    return Ok(None);
                };
                let location = match layout.root(*id) {
                    root if root == *id => Location::Slot(0),
                    root => values[root.index()].location.clone(),
                };
                values[id.index()] = PlannedValue {
                    element_type: recorded.element_type,
                    shape: recorded.shape.clone(),
                    bytes: byte_length(recorded.element_type, &recorded.shape)?,
                    location,
                    is_alias: recorded.alias_of.is_some(),
                };
            }
        }
        let slot_bytes = layout.assign(graph, &steps, &mut values);
        let outputs = graph
            .graph
            .outputs
            .iter()
            .scan(Vec::new(), |taken: &mut Vec<usize>, id| {
                let slot = match values[id.index()].location {
                    Location::Slot(slot) if !taken.contains(&slot) => {
                        taken.push(slot);
                        Some(slot)
                    }
                    _ => None,
                };
                Some(OutputBinding { value: *id, slot })
            })
            .collect();
        Ok(Some(Plan {
            input_dims,
            values,
            steps,
            slot_bytes,
            outputs,
            workspace_bytes: recording.workspace,
            waking,
        }))
    }

    /// Whether the plan was made for inputs of these shapes.
    pub fn fits<'d>(&self, mut dims: impl ExactSizeIterator<Item = &'d [usize]>) -> bool {
        dims.len() == self.input_dims.len()
            && self
                .input_dims
                .iter()
                .all(|p| dims.next() == Some(p.dims()))
    }
}

/// Gives values that live at different times the same buffer.
struct SlotLayout {
    /// Value whose memory each value uses.
    roots: Vec<ValueId>,
    /// Last step that reads a root's memory; `usize::MAX` for graph outputs.
    last_use: Vec<usize>,
    is_output: Vec<bool>,
}

impl SlotLayout {
    fn new(
        graph: &PreparedGraph,
        steps: &[usize],
        recorded: &[Option<Recorded>],
        values: &[PlannedValue],
    ) -> Self {
        let mut roots: Vec<ValueId> = (0..graph.value_count() as u32).map(ValueId).collect();
        for &index in steps {
            for id in graph.nodes[index].outputs.iter().flatten() {
                let placed = matches!(values[id.index()].location, Location::Constant(_));
                if !placed
                    && let Some(Recorded {
                        alias_of: Some(source),
                        ..
                    }) = &recorded[id.index()]
                {
                    roots[id.index()] = roots[source.index()];
                }
            }
        }
        let mut last_use = vec![0; graph.value_count()];
        for (step, &index) in steps.iter().enumerate() {
            let node = &graph.nodes[index];
            for id in node.inputs.iter().chain(&node.outputs).flatten() {
                let root = roots[id.index()].index();
                last_use[root] = last_use[root].max(step);
            }
        }
        let mut is_output = vec![false; graph.value_count()];
        for id in &graph.graph.outputs {
            let root = roots[id.index()].index();
            last_use[root] = usize::MAX;
            is_output[root] = true;
        }
        SlotLayout {
            roots,
            last_use,
            is_output,
        }
    }

    fn root(&self, id: ValueId) -> ValueId {
        self.roots[id.index()]
    }

    /// Numbers the slots of all values in place and gives the slots' sizes. Among free buffers the smallest that is
    /// large enough is taken, else the largest grows.
    fn assign(
        &mut self,
        graph: &PreparedGraph,
        steps: &[usize],
        values: &mut [PlannedValue],
    ) -> Vec<usize> {
        let mut slot_bytes: Vec<usize> = Vec::new();
        let mut free: Vec<usize> = Vec::new();
        let mut busy: Vec<(usize, usize)> = Vec::new();
        for (step, &index) in steps.iter().enumerate() {
            busy.retain(|&(last, slot)| {
                let stays = last >= step;
                if !stays {
                    free.push(slot);
                }
                stays
            });
            for id in graph.nodes[index].outputs.iter().flatten() {
                let root = self.root(*id);
                if !matches!(values[id.index()].location, Location::Slot(_)) {
                    continue;
                }
                if root != *id {
                    values[id.index()].location = values[root.index()].location.clone();
                    continue;
                }
                let bytes = values[id.index()].bytes;
                let slot = if self.is_output[id.index()] {
                    slot_bytes.push(bytes);
                    slot_bytes.len() - 1
                } else {
                    let best = free
                        .iter()
                        .enumerate()
                        .min_by_key(|&(_, &slot)| {
                            let size = slot_bytes[slot];
                            if size >= bytes {
                                (0, size)
                            } else {
                                (1, usize::MAX - size)
                            }
                        })
                        .map(|(position, _)| position);
                    let slot = best.map_or_else(
                        || {
                            slot_bytes.push(0);
                            slot_bytes.len() - 1
                        },
                        |position| free.swap_remove(position),
                    );
                    slot_bytes[slot] = slot_bytes[slot].max(bytes);
                    busy.push((self.last_use[id.index()], slot));
                    slot
                };
                values[id.index()].location = Location::Slot(slot);
            }
        }
        slot_bytes
    }
}
