use crate::plan::{Location, Plan, ShapeKnowledge};
use crate::prepared::{Preparation, PreparedGraph, PreparedNodeInfo};
use crate::recording::record;
use crate::state::{RunState, own, placeholder};
use crate::waking::Waking;
use crate::{InputError, RunError, SessionError, functions};
use onl_cpu::CpuExecutionDescriptor;
use onl_cpu::IsaTier;
use onl_executor::{CancelToken, CpuExecutor, Run, RunOptions};
use onl_ir::{Dim, Model, OpId, TypeInfo, ValueId};
use onl_kernels::{KernelTable, NEWEST_OPSET};
use onl_profiling::{Collector, CollectorOptions, ProfilingLevel};
use onl_snapshot::TuningSnapshot;
use onl_tensor::{ElementType, Shape, Tensor, TensorView, Value};
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Idle run states that a session keeps for later runs.
const IDLE_STATES: usize = 8;

/// What a session is made with, beside the model.
#[derive(Clone)]
pub struct SessionOptions {
    /// Kernels to choose from.
    pub table: Arc<KernelTable>,
    /// Tuning parameters, captured for the session's life.
    pub snapshot: Arc<TuningSnapshot>,
    /// Executor that all kernel work runs on.
    pub executor: Arc<CpuExecutor>,
    /// Execution identity of the executor's policy; the snapshot must have been resolved for it.
    pub descriptor: CpuExecutionDescriptor,
    /// Instruction-set tier.
    pub tier: IsaTier,
}

/// What may be asked of a single run.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunControl<'r> {
    /// Records the run, its nodes and its regions.
    pub collector: Option<&'r Collector>,
    /// Ends the run when it is cancelled: at the next node or between two chunks of a region.
    pub cancel: Option<&'r CancelToken>,
    /// Ends the run when it passes, at the same places. Lanes read the clock between chunks of a run that has one.
    pub deadline: Option<Instant>,
}

/// A model that is ready to run. `run` takes `&self`: runs of several threads share kernels and constants, and each
/// has buffers of its own.
pub struct RuntimeSession {
    graph: PreparedGraph,
    knowledge: ShapeKnowledge,
    inputs: Vec<InputSpec>,
    initializer_inputs: Vec<String>,
    output_names: Vec<String>,
    options: SessionOptions,
    idle: Mutex<Vec<RunState>>,
}

/// An input of a node in a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedInput {
    /// Element type.
    pub element_type: ElementType,
    /// Shape.
    pub shape: Shape,
    /// Whether it is constant for the input shapes of the plan.
    pub constant: bool,
}

struct InputSpec {
    name: String,
    id: ValueId,
    element_type: Option<ElementType>,
    dims: Option<Vec<Dim>>,
}

impl RuntimeSession {
    /// Prepares a model.
    ///
    /// # Errors
    /// [`SessionError`] when the model breaks a rule of ONNX, or asks for a kernel that the table does not have.
    pub fn new(model: &Model, options: SessionOptions) -> Result<Self, SessionError> {
        Self::new_observed(model, options, &mut || {})
    }

    /// As [`new`](Self::new); `resolved` is called when the graph is typed and folded, before kernels are prepared.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn new_observed(
        model: &Model,
        options: SessionOptions,
        resolved: &mut dyn FnMut(),
    ) -> Result<Self, SessionError> {
        if options
            .snapshot
            .descriptor()
            .is_some_and(|d| *d != options.descriptor)
        {
            return Err(SessionError::SnapshotMismatch);
        }
        if let Some(version) = model.opset(OpId::ONNX)
            && !(1..=NEWEST_OPSET).contains(&version)
        {
            return Err(SessionError::UnknownOpset {
                version,
                newest: NEWEST_OPSET,
            });
        }
        let flat = functions::inline(model)?;
        let preparation = Preparation {
            table: Arc::clone(&options.table),
            snapshot: Arc::clone(&options.snapshot),
            tier: options.tier,
            lanes: options.executor.participants(),
            imports: Arc::new(model.opset_imports.clone()),
        };
        let graph = PreparedGraph::new(flat, &preparation, &|_| None, resolved)?;
        let knowledge = ShapeKnowledge::of(&graph);
        let inputs = graph
            .graph
            .inputs
            .iter()
            .map(|&id| {
                let tensor = graph.graph.tensor_type(id);
                InputSpec {
                    name: graph.graph.value_name(id).to_owned(),
                    id,
                    element_type: tensor.map(|t| t.element_type),
                    dims: tensor.and_then(|t| t.dims.clone()),
                }
            })
            .collect();
        let name = |id: &ValueId| graph.graph.value_name(*id).to_owned();
        let output_names = graph.graph.outputs.iter().map(name).collect();
        let initializer_inputs = graph.graph.optional_inputs.iter().map(name).collect();
        Ok(RuntimeSession {
            graph,
            knowledge,
            inputs,
            initializer_inputs,
            output_names,
            options,
            idle: Mutex::new(Vec::with_capacity(IDLE_STATES + 1)),
        })
    }

    /// Names of the inputs in graph order.
    pub fn input_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.inputs.iter().map(|i| i.name.as_str())
    }

    /// Declared type of an input.
    pub fn input_type(&self, index: usize) -> Option<&TypeInfo> {
        self.graph.graph.values[self.inputs[index].id.index()]
            .value_type
            .as_ref()
    }

    /// Names of the outputs in graph order.
    pub fn output_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.output_names.iter().map(String::as_str)
    }

    /// The snapshot that the session captured.
    pub fn snapshot(&self) -> &Arc<TuningSnapshot> {
        &self.options.snapshot
    }

    /// The executor that the session runs on.
    pub fn executor(&self) -> &Arc<CpuExecutor> {
        &self.options.executor
    }

    /// The tier that kernels were prepared for.
    pub fn tier(&self) -> IsaTier {
        self.options.tier
    }

    /// Time that typing and folding the graph took, and time that preparing its kernels took.
    pub fn preparation_times(&self) -> (Duration, Duration) {
        (self.graph.resolve, self.graph.ready)
    }

    /// The nodes that run, after folding, in their order.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &PreparedNodeInfo> {
        self.graph.nodes.iter().map(|n| &n.info)
    }

    /// Inputs of every node, in their order, as the plan of the last run has them; `None` when that run made none.
    pub fn planned_inputs(&self) -> Option<Vec<Vec<Option<PlannedInput>>>> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = Arc::clone(&idle.last()?.plan);
        drop(idle);
        let planned = |id: &ValueId| {
            let value = &plan.values[id.index()];
            let constant = match value.location {
                Location::Absent => return None,
                Location::Constant(_) => true,
                Location::Input(_) | Location::Slot(_) => false,
            };
            Some(PlannedInput {
                element_type: value.element_type,
                shape: value.shape.clone(),
                constant,
            })
        };
        let nodes = self.graph.nodes.iter();
        let inputs_of = |inputs: &[Option<ValueId>]| -> Vec<Option<PlannedInput>> {
            inputs
                .iter()
                .map(|id| id.as_ref().and_then(planned))
                .collect()
        };
        Some(nodes.map(|node| inputs_of(&node.inputs)).collect())
    }

    /// One inference. Inputs are given by name in any order; outputs come in graph order.
    ///
    /// # Errors
    /// [`RunError`] when the inputs do not fit or a node fails; the session stays usable.
    pub fn run(&self, inputs: &[(&str, Value)]) -> Result<Vec<Value>, RunError> {
        self.run_with(inputs, RunControl::default())
    }

    /// As [`run`](Self::run), recorded, cancelled or limited in time as asked.
    ///
    /// # Errors
    /// As [`run`](Self::run), and [`RunError::Cancelled`].
    pub fn run_with(
        &self,
        inputs: &[(&str, Value)],
        control: RunControl<'_>,
    ) -> Result<Vec<Value>, RunError> {
        let ordered = self.order(inputs)?;
        if let Some(views) = tensor_views(&ordered)
            && let Some(mut state) = self.planned_state(&views)
        {
            let mut outputs: Vec<Tensor> =
                self.output_names.iter().map(|_| placeholder()).collect();
            let result = self.follow(&mut state, &views, &mut outputs, control);
            self.keep(state);
            return result.map(|()| outputs.into_iter().map(Value::from).collect());
        }
        self.record_and_plan(&ordered, control)
    }

    /// One inference on tensors in graph order, with outputs written to `outputs` (in graph order). Outputs of the
    /// right type and shape are written in place; others are replaced. Once a set of input shapes has been run,
    /// runs with right outputs allocate nothing.
    ///
    /// # Errors
    /// [`RunError`] when the inputs do not fit or a node fails; the elements of `outputs` are then undefined.
    pub fn run_into(
        &self,
        inputs: &[TensorView<'_>],
        outputs: &mut [Tensor],
    ) -> Result<(), RunError> {
        self.run_into_with(inputs, outputs, RunControl::default())
    }

    /// As [`run_into`](Self::run_into), recorded, cancelled or limited in time as asked.
    ///
    /// # Errors
    /// As [`run_into`](Self::run_into), and [`RunError::Cancelled`].
    pub fn run_into_with(
        &self,
        inputs: &[TensorView<'_>],
        outputs: &mut [Tensor],
        control: RunControl<'_>,
    ) -> Result<(), RunError> {
        if outputs.len() != self.output_names.len() {
            let (given, expected) = (outputs.len(), self.output_names.len());
            return Err(InputError::OutputCount { given, expected }.into());
        }
        if let Some(spec) = self.inputs.get(inputs.len()) {
            return Err(InputError::Missing {
                name: spec.name.clone(),
            }
            .into());
        }
        for (spec, view) in self.inputs.iter().zip(inputs) {
            check_element_type(spec, view.element_type())?;
        }
        // Kernels rely on booleans of 0 and 1. Others are made so below, on the way without a plan.
        let stray = inputs.iter().any(has_stray_booleans);
        if !stray && let Some(mut state) = self.planned_state(inputs) {
            let result = self.follow(&mut state, inputs, outputs, control);
            self.keep(state);
            return result;
        }
        let values = inputs
            .iter()
            .map(|view| match view.as_strings() {
                Ok(strings) => Tensor::from_strings(view.dims(), strings.to_vec()),
                Err(_) => Tensor::from_bytes(view.element_type(), view.dims(), view.bytes()),
            })
            .map(|tensor| tensor.map(Value::from))
            .collect::<Result<Vec<_>, _>>()?;
        let given = self.record_and_plan(&values, control)?;
        for ((value, output), name) in given.iter().zip(outputs).zip(&self.output_names) {
            *output =
                own(value).ok_or_else(|| RunError::OutputNotATensor { name: name.clone() })??;
        }
        Ok(())
    }

    fn enter<'r>(
        &'r self,
        control: RunControl<'r>,
        expects_regions: bool,
    ) -> Result<Run<'r>, RunError> {
        let costs = self.options.snapshot.lane_costs();
        let options = RunOptions {
            collector: control.collector,
            cancel: control.cancel,
            deadline: control.deadline,
            expects_regions,
            hot_ns: costs.hot_ns,
            cold_ns: costs.cold_ns,
            ..RunOptions::default()
        };
        Ok(self.options.executor.enter_with(options)?)
    }

    fn follow(
        &self,
        state: &mut RunState,
        inputs: &[TensorView<'_>],
        outputs: &mut [Tensor],
        control: RunControl<'_>,
    ) -> Result<(), RunError> {
        let wakes = state.plan.waking.wakes(&mut state.lost_ns);
        let run = self.enter(control, wakes)?;
        state.run(&self.graph, inputs, outputs, run.lanes())
    }

    /// Takes an idle state that was planned for these shapes.
    fn planned_state(&self, inputs: &[TensorView<'_>]) -> Option<RunState> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let position = idle
            .iter()
            .rposition(|s| s.plan.fits(inputs.iter().map(|view| view.dims())))?;
        let state = idle.remove(position);
        drop(idle);
        Some(state)
    }

    /// Keeps a state for later runs; the longest unused one goes when there are too many.
    fn keep(&self, state: RunState) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(state);
        let excess = if idle.len() > IDLE_STATES {
            Some(idle.remove(0))
        } else {
            None
        };
        drop(idle);
        drop(excess);
    }

    fn record_and_plan(
        &self,
        inputs: &[Value],
        control: RunControl<'_>,
    ) -> Result<Vec<Value>, RunError> {
        self.check_dims(inputs)?;
        let given: Vec<(ValueId, Value)> = self
            .inputs
            .iter()
            .zip(inputs)
            .map(|(spec, value)| (spec.id, value.clone()))
            .collect();
        // Somebody has to record for the run to notice what its regions take.
        let unread = Collector::with_options(CollectorOptions {
            level: ProfilingLevel::Timing,
            regions: 1,
            nodes: 1,
            lanes: 1,
            ..CollectorOptions::default()
        });
        let recorded = RunControl {
            collector: control.collector.or(Some(&unread)),
            ..control
        };
        let run = self.enter(recorded, false)?;
        let lanes = run.lanes();
        let known = &self.knowledge.value_known;
        let recording = record(
            &self.graph,
            &given,
            &|id| known[id.index()],
            &|step| (lanes.for_node(step as u32), true),
            self.options.executor.participants(),
        )?;
        let divisible_ns = run.divisible_ns();
        drop(run);
        let outputs = self
            .graph
            .graph
            .outputs
            .iter()
            .map(|id| {
                recording.values[id.index()]
                    .clone()
                    .ok_or_else(|| RunError::Node {
                        node: format!("output '{}'", self.graph.graph.value_name(*id)),
                        source: onl_kernels::KernelError::Other(
                            "no node gave it a value".to_owned(),
                        ),
                    })
            })
            .collect::<Result<Vec<_>, _>>()?;
        if let Some(views) = tensor_views(inputs) {
            let dims: Vec<Shape> = views.iter().map(|v| Shape::new(v.dims())).collect();
            let cold_ns = self.options.snapshot.lane_costs().cold_ns;
            if let Some(plan) = Plan::new(
                &self.graph,
                &self.knowledge,
                &recording,
                dims,
                Waking::new(divisible_ns, cold_ns),
            )? {
                self.keep(RunState::new(Arc::new(plan))?);
            }
        }
        Ok(outputs)
    }

    fn order(&self, inputs: &[(&str, Value)]) -> Result<SmallVec<[Value; 4]>, InputError> {
        for (index, (name, _)) in inputs.iter().enumerate() {
            if inputs[..index].iter().any(|(other, _)| other == name) {
                return Err(InputError::Duplicate {
                    name: (*name).to_owned(),
                });
            }
            if !self.inputs.iter().any(|spec| spec.name == *name) {
                if self.initializer_inputs.iter().any(|n| n == name) {
                    return Err(InputError::Initializer {
                        name: (*name).to_owned(),
                    });
                }
                let known = self.input_names().collect::<Vec<_>>().join(", ");
                return Err(InputError::UnknownName {
                    name: (*name).to_owned(),
                    known,
                });
            }
        }
        self.inputs
            .iter()
            .map(|spec| {
                let (_, value) = inputs
                    .iter()
                    .find(|(name, _)| *name == spec.name)
                    .ok_or_else(|| InputError::Missing {
                        name: spec.name.clone(),
                    })?;
                if let Some(tensor) = value.as_tensor() {
                    check_element_type(spec, tensor.element_type())?;
                } else if spec.element_type.is_some() {
                    return Err(InputError::NotATensor {
                        name: spec.name.clone(),
                    });
                }
                Ok(value.clone())
            })
            .collect()
    }

    /// Checks input shapes against the declared ones: known sizes, and equal sizes under equal names.
    fn check_dims(&self, inputs: &[Value]) -> Result<(), InputError> {
        let mut named: Vec<(&str, usize, &str)> = Vec::new();
        for (spec, value) in self.inputs.iter().zip(inputs) {
            let (Some(tensor), Some(declared)) = (value.as_tensor(), &spec.dims) else {
                continue;
            };
            let name = || spec.name.clone();
            if tensor.dims().len() != declared.len() {
                return Err(InputError::Rank {
                    name: name(),
                    expected: declared.len(),
                    actual: tensor.dims().len(),
                    declared: declared
                        .iter()
                        .map(Dim::to_string)
                        .collect::<Vec<_>>()
                        .join("x"),
                });
            }
            for (axis, (dim, &actual)) in declared.iter().zip(tensor.dims()).enumerate() {
                let (expected, reason) = match dim {
                    Dim::Known(size) => (*size, "declared by the model".to_owned()),
                    Dim::Named(symbol) => match named.iter().find(|(s, _, _)| s == symbol) {
                        Some((_, size, first)) => {
                            (*size, format!("'{symbol}' as in input '{first}'"))
                        }
                        None => {
                            named.push((symbol, actual, &spec.name));
                            continue;
                        }
                    },
                    Dim::Unknown => continue,
                };
                if expected != actual {
                    return Err(InputError::Dimension {
                        name: name(),
                        axis,
                        expected,
                        actual,
                        reason,
                    });
                }
            }
        }
        Ok(())
    }
}

fn check_element_type(spec: &InputSpec, actual: ElementType) -> Result<(), InputError> {
    match spec.element_type {
        Some(expected) if expected != actual => Err(InputError::ElementType {
            name: spec.name.clone(),
            expected,
            actual,
        }),
        _ => Ok(()),
    }
}

fn tensor_views(values: &[Value]) -> Option<SmallVec<[TensorView<'_>; 4]>> {
    values
        .iter()
        .map(|value| value.as_tensor().map(Tensor::view))
        .collect()
}

/// Whether a view of booleans holds anything but 0 and 1.
fn has_stray_booleans(view: &TensorView<'_>) -> bool {
    let largest = |bytes: &[u8]| bytes.iter().fold(0, |largest, &byte| byte.max(largest));
    view.element_type() == ElementType::Bool && largest(view.bytes()) > 1
}
