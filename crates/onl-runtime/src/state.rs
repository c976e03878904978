//! Buffers of one run, and the run along a plan.

use crate::RunError;
use crate::plan::{Location, Plan, PlannedValue};
use crate::prepared::{InputViews, PreparedGraph, PreparedNode};
use onl_executor::Lanes;
use onl_ir::ValueId;
use onl_kernels::{KernelError, KernelIo, OutputSlot};
use onl_tensor::{AlignedBuffer, Tensor, TensorError, TensorView, Value};
use smallvec::SmallVec;
use std::sync::Arc;

/// Memory that follows a plan; reused from run to run.
pub(crate) struct RunState {
    pub plan: Arc<Plan>,
    buffers: Vec<AlignedBuffer>,
    /// Values whose node gave another shape than the plan foresaw.
    strays: Vec<Option<Tensor>>,
    has_strays: bool,
    workspace: AlignedBuffer,
    /// What runs have lost to sleeping lanes since one woke them, in nanoseconds.
    pub lost_ns: u64,
}

impl RunState {
    pub fn new(plan: Arc<Plan>) -> Result<Self, TensorError> {
        let mut is_output = vec![false; plan.slot_bytes.len()];
        for slot in plan.outputs.iter().filter_map(|o| o.slot) {
            is_output[slot] = true;
        }
        let buffers = plan
            .slot_bytes
            .iter()
            .zip(is_output)
            .map(|(&bytes, output)| {
                if output {
                    Ok(AlignedBuffer::empty())
                } else {
                    AlignedBuffer::zeroed(bytes)
                }
            })
            .collect::<Result<_, _>>()?;
        let strays = (0..plan.values.len()).map(|_| None).collect();
        let workspace = AlignedBuffer::zeroed(plan.workspace_bytes)?;
        Ok(RunState {
            plan,
            buffers,
            strays,
            has_strays: false,
            workspace,
            lost_ns: 0,
        })
    }

    /// Runs all steps. `outputs` has one tensor per graph output: those of planned type and shape give their memory
    /// to the run, others are replaced.
    pub fn run(
        &mut self,
        graph: &PreparedGraph,
        inputs: &[TensorView<'_>],
        outputs: &mut [Tensor],
        lanes: Lanes<'_>,
    ) -> Result<(), RunError> {
        if self.has_strays {
            self.strays.iter_mut().for_each(|stray| *stray = None);
            self.has_strays = false;
        }
        self.take_output_memory(outputs)?;
        let plan = Arc::clone(&self.plan);
        let result = plan.steps.iter().try_for_each(|&index| {
            let node = &graph.nodes[index];
            let lanes = lanes.for_node(index as u32);
            lanes
                .check_cancelled()
                .map_err(KernelError::from)
                .and_then(|()| {
                    let _timer = lanes.time_node(index as u32);
                    self.step(&plan, node, inputs, lanes)
                })
                .map_err(|source| RunError::of_node(&node.info.description, source))
        });
        match result {
            Ok(()) => self.give_outputs(&plan, inputs, outputs),
            Err(error) => {
                // A node that failed may have kept its output's memory; the caller's tensor is then left empty.
                let _ = self.give_output_memory(&plan, outputs);
                Err(error)
            }
        }
    }

    fn take_output_memory(&mut self, outputs: &mut [Tensor]) -> Result<(), TensorError> {
        for (binding, output) in self.plan.outputs.iter().zip(outputs) {
            let Some(slot) = binding.slot else { continue };
            let value = &self.plan.values[binding.value.index()];
            let fits = output.element_type() == value.element_type
                && output.bytes().len() == value.bytes
                && value.bytes > 0;
            let taken = if fits {
                Some(std::mem::replace(output, placeholder()))
            } else {
                None
            };
            self.buffers[slot] = match taken.map(Tensor::into_buffer) {
                Some(Ok(buffer)) => buffer,
                _ => AlignedBuffer::zeroed(value.bytes)?,
            };
        }
        Ok(())
    }

    fn step(
        &mut self,
        plan: &Plan,
        node: &PreparedNode,
        inputs: &[TensorView<'_>],
        lanes: Lanes<'_>,
    ) -> Result<(), KernelError> {
        let mut slots: SmallVec<[OutputSlot; 4]> = SmallVec::new();
        for output in &node.outputs {
            slots.push(match output.map(|id| &plan.values[id.index()]) {
                Some(PlannedValue {
                    element_type,
                    shape,
                    location: Location::Slot(slot),
                    is_alias: false,
                    ..
                }) => OutputSlot::Planned {
                    element_type: *element_type,
                    shape: shape.clone(),
                    buffer: std::mem::take(&mut self.buffers[*slot]),
                    used: false,
                },
                _ => OutputSlot::Unplanned,
            });
        }
        let result = {
            let mut views: InputViews<'_> = SmallVec::new();
            for (position, input) in node.inputs.iter().enumerate() {
                views.push(match input {
                    None => None,
                    Some(id) => {
                        let view = look(plan, &self.buffers, &self.strays, inputs, *id)?;
                        if view.is_none() {
                            let reason = "an earlier node gave no value for it".to_owned();
                            return Err(KernelError::InvalidInput {
                                index: position,
                                reason,
                            });
                        }
                        view
                    }
                });
            }
            let mut io = KernelIo::new(&views, &[], &mut slots, self.workspace.as_bytes_mut());
            node.kernel.run(&mut io, lanes)
        };
        let mut strayed: SmallVec<[(ValueId, Tensor); 1]> = SmallVec::new();
        for (output, slot) in node.outputs.iter().zip(slots) {
            let location = output.map(|id| &plan.values[id.index()].location);
            let mut give_back = |buffer: Option<AlignedBuffer>| {
                if let (Some(buffer), Some(Location::Slot(slot))) = (buffer, location) {
                    self.buffers[*slot] = buffer;
                }
            };
            match slot {
                OutputSlot::Planned { buffer, .. } => give_back(Some(buffer)),
                OutputSlot::Allocated { tensor, planned } => {
                    give_back(planned);
                    if let Some(id) = *output {
                        strayed.push((id, tensor));
                    }
                }
                OutputSlot::Alias {
                    input,
                    shape,
                    planned,
                } => {
                    give_back(planned);
                    let (Some(id), Some(Some(source))) = (*output, node.inputs.get(input)) else {
                        continue;
                    };
                    let value = &plan.values[id.index()];
                    let foreseen = value.is_alias
                        && value.shape == shape
                        && self.strays[source.index()].is_none();
                    if !foreseen
                        && result.is_ok()
                        && let Some(view) =
                            look(plan, &self.buffers, &self.strays, inputs, *source)?
                    {
                        strayed.push((
                            id,
                            Tensor::from_bytes(view.element_type(), &shape, view.bytes())?,
                        ));
                    }
                }
                OutputSlot::Value(_) | OutputSlot::Unplanned => {}
            }
        }
        for (id, tensor) in strayed {
            self.has_strays = true;
            self.strays[id.index()] = Some(tensor);
        }
        result
    }

    fn give_outputs(
        &mut self,
        plan: &Plan,
        inputs: &[TensorView<'_>],
        outputs: &mut [Tensor],
    ) -> Result<(), RunError> {
        // Copies first: their source may be the memory of an output that is moved out afterwards.
        for (binding, output) in plan.outputs.iter().zip(outputs.iter_mut()) {
            let stray = self.strays[binding.value.index()].is_some();
            if binding.slot.is_some() && !stray {
                continue;
            }
            let Some(view) = look(plan, &self.buffers, &self.strays, inputs, binding.value)? else {
                continue;
            };
            copy_into(view, output)?;
        }
        self.give_output_memory(plan, outputs)
    }

    /// Gives the outputs that lie in planned memory that memory back.
    fn give_output_memory(&mut self, plan: &Plan, outputs: &mut [Tensor]) -> Result<(), RunError> {
        for (binding, output) in plan.outputs.iter().zip(outputs.iter_mut()) {
            if let Some(slot) = binding.slot
                && self.strays[binding.value.index()].is_none()
            {
                let value = &plan.values[binding.value.index()];
                let buffer = std::mem::take(&mut self.buffers[slot]);
                *output = Tensor::from_canonical_buffer(value.element_type, &value.shape, buffer)?;
            }
        }
        Ok(())
    }
}

/// A tensor that stands in for one whose memory is in use; allocates nothing.
pub(crate) fn placeholder() -> Tensor {
    Tensor::from_buffer(onl_tensor::ElementType::UInt8, &[0], AlignedBuffer::empty())
        .expect("no elements, no bytes")
}

fn copy_into(view: TensorView<'_>, output: &mut Tensor) -> Result<(), TensorError> {
    if output.element_type() == view.element_type()
        && output.dims() == view.dims()
        && !output.is_shared()
    {
        output.view_mut()?.bytes_mut().copy_from_slice(view.bytes());
    } else {
        *output = Tensor::from_bytes(view.element_type(), view.dims(), view.bytes())?;
    }
    Ok(())
}

fn look<'v>(
    plan: &'v Plan,
    buffers: &'v [AlignedBuffer],
    strays: &'v [Option<Tensor>],
    inputs: &'v [TensorView<'_>],
    id: ValueId,
) -> Result<Option<TensorView<'v>>, TensorError> {
    if let Some(stray) = &strays[id.index()] {
        return Ok(Some(stray.view()));
    }
    let value = &plan.values[id.index()];
    let bytes = match &value.location {
        Location::Absent => return Ok(None),
        Location::Constant(tensor) if tensor.shape() == &value.shape => {
            return Ok(Some(tensor.view()));
        }
        Location::Constant(tensor) => tensor.bytes(),
        Location::Input(index) if inputs[*index].dims() == value.shape.dims() => {
            return Ok(Some(inputs[*index]));
        }
        Location::Input(index) => inputs[*index].bytes(),
        Location::Slot(slot) => &buffers[*slot].as_bytes()[..value.bytes],
    };
    TensorView::from_bytes(value.element_type, &value.shape, bytes).map(Some)
}

/// A value as a tensor that a caller owns.
pub(crate) fn own(value: &Value) -> Option<Result<Tensor, TensorError>> {
    value.as_tensor().map(Tensor::try_clone)
}
