//! Runs without a plan: every output gets memory of its own, and its type and shape are noted.

use crate::RunError;
use crate::prepared::{InputViews, PreparedGraph, PreparedNode};
use onl_executor::Lanes;
use onl_ir::ValueId;
use onl_kernels::{KernelError, KernelIo, OutputSlot};
use onl_tensor::{AlignedBuffer, ElementType, Shape, Tensor, Value};
use smallvec::SmallVec;
use std::sync::Arc;

/// What is known of a value after a run without a plan.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    pub element_type: ElementType,
    pub shape: Shape,
    /// Value whose elements this one shares, if its node only changed the shape.
    pub alias_of: Option<ValueId>,
}

pub(crate) struct Recording {
    pub values: Vec<Option<Value>>,
    pub recorded: Vec<Option<Recorded>>,
    /// Bytes of scratch memory that the most demanding node needs.
    pub workspace: usize,
    /// Whether a value is not a dense tensor of fixed element size, so that no plan can be made.
    pub unplannable: bool,
}

/// Runs a node on values and gives its outputs.
pub(crate) fn run_node(
    node: &PreparedNode,
    inputs: &[Option<Value>],
    lanes: Lanes<'_>,
) -> Result<SmallVec<[Option<Value>; 2]>, KernelError> {
    run_node_recording(node, inputs, lanes, lanes.count(), &mut 0).map(|(outputs, _)| outputs)
}

type NodeOutputs = (SmallVec<[Option<Value>; 2]>, SmallVec<[Option<usize>; 2]>);

fn run_node_recording(
    node: &PreparedNode,
    inputs: &[Option<Value>],
    lanes: Lanes<'_>,
    participants: usize,
    most_workspace: &mut usize,
) -> Result<NodeOutputs, KernelError> {
    let views: InputViews<'_> = inputs
        .iter()
        .map(|value| value.as_ref().and_then(Value::as_tensor).map(Tensor::view))
        .collect();
    let values: SmallVec<[Option<&Value>; 6]> = inputs.iter().map(Option::as_ref).collect();
    let dims: SmallVec<[&[usize]; 6]> = views
        .iter()
        .map(|v| v.map_or(&[][..], |v| v.dims()))
        .collect();
    let bytes = node
        .kernel
        .workspace(&dims, lanes.count().max(participants));
    *most_workspace = (*most_workspace).max(bytes);
    let mut workspace = AlignedBuffer::zeroed(bytes)?;
    let mut slots: SmallVec<[OutputSlot; 2]> =
        node.outputs.iter().map(|_| OutputSlot::Unplanned).collect();
    let mut io = KernelIo::new(&views, &values, &mut slots, workspace.as_bytes_mut());
    node.kernel.run(&mut io, lanes)?;
    let mut outputs: SmallVec<[Option<Value>; 2]> = SmallVec::new();
    let mut aliases: SmallVec<[Option<usize>; 2]> = SmallVec::new();
    for slot in slots {
        let (value, alias) = match slot {
            OutputSlot::Allocated { tensor, .. } => (Some(Value::from(tensor)), None),
            OutputSlot::Alias { input, shape, .. } => {
                let Some(Some(Value::Tensor(source))) = inputs.get(input) else {
                    return Err(KernelError::InvalidInput {
                        index: input,
                        reason: "a tensor is required".into(),
                    });
                };
                (
                    Some(Value::from(source.try_clone()?.reshaped(&shape)?)),
                    Some(input),
                )
            }
            OutputSlot::Value(value) => (Some(value), None),
            OutputSlot::Unplanned | OutputSlot::Planned { .. } => (None, None),
        };
        outputs.push(value);
        aliases.push(alias);
    }
    Ok((outputs, aliases))
}

/// Runs a whole graph without a plan. `lanes_of` gives the lanes of the node at each position, and
/// whether its time is recorded; a later run, whose team may be larger, has at most `participants`.
pub(crate) fn record<'l>(
    graph: &PreparedGraph,
    inputs: &[(ValueId, Value)],
    keep: &dyn Fn(ValueId) -> bool,
    lanes_of: &dyn Fn(usize) -> (Lanes<'l>, bool),
    participants: usize,
) -> Result<Recording, RunError> {
    let count = graph.value_count();
    let mut values: Vec<Option<Value>> = vec![None; count];
    let mut recorded: Vec<Option<Recorded>> = vec![None; count];
    let mut unplannable = false;
    for (id, constant) in graph.constants.iter().enumerate() {
        if let Some(tensor) = constant {
            values[id] = Some(Value::Tensor(Arc::clone(tensor)));
        }
    }
    for (id, value) in inputs {
        values[id.index()] = Some(value.clone());
    }
    let last_reader = last_readers(graph);
    let mut workspace = 0;
    for (step, node) in graph.nodes.iter().enumerate() {
        let arguments: SmallVec<[Option<Value>; 6]> = node
            .inputs
            .iter()
            .map(|input| input.and_then(|id| values[id.index()].clone()))
            .collect();
        let fail = |source| RunError::of_node(&node.info.description, source);
        let (lanes, timed) = lanes_of(step);
        lanes
            .check_cancelled()
            .map_err(|error| fail(error.into()))?;
        for (position, input) in node.inputs.iter().enumerate() {
            if input.is_some() && arguments[position].is_none() {
                let reason = "an earlier node gave no value for it".to_owned();
                return Err(fail(KernelError::InvalidInput {
                    index: position,
                    reason,
                }));
            }
        }
        let timer = timed.then(|| lanes.time_node(step as u32));
        let (outputs, aliases) =
            run_node_recording(node, &arguments, lanes, participants, &mut workspace)
                .map_err(fail)?;
        drop(timer);
        for ((id, output), alias) in node.outputs.iter().zip(outputs).zip(aliases) {
            let Some(id) = *id else { continue };
            match &output {
                Some(Value::Tensor(tensor)) if tensor.element_type() != ElementType::String => {
                    recorded[id.index()] = Some(Recorded {
                        element_type: tensor.element_type(),
                        shape: tensor.shape().clone(),
                        alias_of: alias.and_then(|input| node.inputs[input]),
                    });
                }
                _ => unplannable = true,
            }
            values[id.index()] = output;
        }
        for id in node.inputs.iter().flatten() {
            if last_reader[id.index()] == Some(step) && !keep(*id) {
                values[id.index()] = None;
            }
        }
    }
    Ok(Recording {
        values,
        recorded,
        workspace,
        unplannable,
    })
}

/// Index of the last node that reads each value; `None` when no node does or the value is a graph output.
pub(crate) fn last_readers(graph: &PreparedGraph) -> Vec<Option<usize>> {
    let mut last = vec![None; graph.value_count()];
    for (step, node) in graph.nodes.iter().enumerate() {
        for id in node.inputs.iter().flatten() {
            last[id.index()] = Some(step);
        }
    }
    for id in &graph.graph.outputs {
        last[id.index()] = None;
    }
    last
}
