//! Runs one node, for the tests of adapters.

use crate::{KernelIo, KernelTable, NoSubgraphs, OutputSlot, PrepareContext, infer::InferContext};
use onl_cpu::IsaTier;
use onl_executor::CpuExecutor;
use onl_ir::{Attribute, Graph, Node, NodeView, OpId, TypeInfo, ValueId, ValueInfo};
use onl_snapshot::{
    GRAIN_ELEMENTS, KernelKey, MINIMUM_ELEMENTS, ParallelConfig, ParameterValue, TunedConfig,
    TuningSnapshot,
};
use onl_tensor::{AlignedBuffer, Shape, Tensor, TensorView};
use std::sync::Arc;

/// A node to run.
pub(crate) struct Case<'a> {
    pub op: &'a str,
    pub opset: i64,
    pub inputs: Vec<Option<Tensor>>,
    pub attributes: Vec<(&'a str, Attribute)>,
    pub outputs: usize,
    pub lanes: usize,
    pub tier: IsaTier,
    /// Forced chunk size and no threshold.
    pub grain: Option<i64>,
    /// Whether inputs count as constants of the graph.
    pub constant: bool,
}

impl<'a> Case<'a> {
    pub(crate) fn new(op: &'a str, opset: i64, inputs: Vec<Tensor>) -> Self {
        Case {
            op,
            opset,
            inputs: inputs.into_iter().map(Some).collect(),
            attributes: Vec::new(),
            outputs: 1,
            lanes: 1,
            tier: IsaTier::detect(),
            grain: None,
            constant: true,
        }
    }

    pub(crate) fn with(mut self, name: &'a str, value: Attribute) -> Self {
        self.attributes.push((name, value));
        self
    }

    pub(crate) fn ints(self, name: &'a str, values: &[i64]) -> Self {
        self.with(name, Attribute::Ints(values.to_vec()))
    }

    pub(crate) fn int(self, name: &'a str, value: i64) -> Self {
        self.with(name, Attribute::Int(value))
    }

    pub(crate) fn outputs(mut self, count: usize) -> Self {
        self.outputs = count;
        self
    }

    /// Infers, prepares and runs the node; checks that inferred types agree with what was computed.
    pub(crate) fn run(&self) -> Result<Vec<Tensor>, String> {
        let mut graph = Graph::default();
        let mut inputs = Vec::new();
        let mut types = Vec::new();
        for (i, input) in self.inputs.iter().enumerate() {
            let Some(tensor) = input else {
                inputs.push(None);
                types.push(None);
                continue;
            };
            let value_type = TypeInfo::Tensor(onl_ir::TensorType::with_dims(
                tensor.element_type(),
                tensor.dims(),
            ));
            types.push(Some(value_type.clone()));
            inputs.push(Some(graph.add_value(ValueInfo {
                name: format!("input{i}"),
                value_type: Some(value_type),
            })));
        }
        let outputs = (0..self.outputs)
            .map(|i| {
                Some(graph.add_value(ValueInfo {
                    name: format!("output{i}"),
                    value_type: None,
                }))
            })
            .collect();
        let op = OpId::new("", self.op);
        graph.nodes.push(Node {
            name: "node".to_owned(),
            op: op.clone(),
            overload: String::new(),
            inputs: inputs.clone(),
            outputs,
            attributes: self
                .attributes
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect(),
        });
        let constants = |id: ValueId| {
            let index = inputs.iter().position(|&v| v == Some(id))?;
            let tensor = self.constant.then(|| self.inputs[index].as_ref())??;
            tensor.try_clone().ok().map(Arc::new)
        };
        let node = NodeView {
            graph: &graph,
            node: &graph.nodes[0],
            index: 0,
            opset: self.opset,
        };
        let table = KernelTable::builtin();
        let entries = table.operator(&op, self.opset).map_err(|e| e.to_string())?;
        let mut context = InferContext::new(node, &types, &constants);
        (entries[0].infer)(&mut context).map_err(|e| e.to_string())?;
        let inferred = context.into_outputs();
        let element_type = match entries[0].type_source {
            crate::TypeSource::Input(index) => {
                self.inputs[index].as_ref().map(|t| t.element_type())
            }
            crate::TypeSource::Output => inferred[0]
                .as_ref()
                .and_then(TypeInfo::as_tensor)
                .map(|t| t.element_type),
        }
        .ok_or("no element type")?;
        let entry = table
            .find(&op, self.opset, element_type)
            .map_err(|e| e.to_string())?;
        let mut snapshot = TuningSnapshot::portable();
        if let Some(grain) = self.grain {
            let key: KernelKey = entry.key(element_type);
            let row = ParallelConfig::schema()
                .defaults()
                .with(GRAIN_ELEMENTS, ParameterValue::Integer(grain))
                .with(MINIMUM_ELEMENTS, ParameterValue::Integer(1));
            snapshot = snapshot.with_override(key, row);
        }
        let context = PrepareContext {
            snapshot: &snapshot,
            tier: self.tier,
            lanes: self.lanes,
            constants: &constants,
            subgraphs: &NoSubgraphs,
        };
        let kernel = (entry.prepare)(&node, &context).map_err(|e| e.to_string())?;
        let dims: Vec<&[usize]> = self
            .inputs
            .iter()
            .map(|i| i.as_ref().map_or(&[] as &[usize], |t| t.dims()))
            .collect();
        let size = kernel.workspace(&dims, self.lanes);
        let mut workspace = AlignedBuffer::zeroed(size).map_err(|e| e.to_string())?;
        let views: Vec<Option<TensorView<'_>>> = self
            .inputs
            .iter()
            .map(|i| i.as_ref().map(Tensor::view))
            .collect();
        let mut slots: Vec<OutputSlot> = (0..self.outputs).map(|_| OutputSlot::default()).collect();
        let executor = CpuExecutor::with_lanes(self.lanes);
        let run = executor.enter();
        let mut io = KernelIo::new(&views, &[], &mut slots, workspace.as_bytes_mut());
        kernel
            .run(&mut io, run.lanes())
            .map_err(|e| e.to_string())?;
        let results: Vec<Tensor> = slots
            .into_iter()
            .map(|slot| match slot {
                OutputSlot::Allocated { tensor, .. } => Ok(tensor),
                OutputSlot::Alias { input, shape, .. } => {
                    let tensor = self.inputs[input].as_ref().ok_or("alias of nothing")?;
                    let copy = tensor.try_clone().map_err(|e| e.to_string())?;
                    copy.reshaped(&shape).map_err(|e| e.to_string())
                }
                other => Err(format!("unexpected output {other:?}")),
            })
            .collect::<Result<_, _>>()?;
        for (index, (tensor, inferred)) in results.iter().zip(&inferred).enumerate() {
            let Some(inferred) = inferred.as_ref().and_then(TypeInfo::as_tensor) else {
                continue;
            };
            let fits = inferred.element_type == tensor.element_type()
                && inferred.dims.as_ref().is_none_or(|dims| {
                    dims.len() == tensor.dims().len()
                        && dims
                            .iter()
                            .zip(tensor.dims())
                            .all(|(d, &size)| d.known().is_none_or(|k| k == size))
                });
            if !fits {
                return Err(format!(
                    "output {index} of {} {:?} was inferred as {inferred:?}",
                    tensor.element_type(),
                    Shape::new(tensor.dims())
                ));
            }
        }
        Ok(results)
    }

    /// As [`run`](Self::run), for every lane count and several grains; all results must be equal.
    pub(crate) fn run_divided(mut self) -> Result<Vec<Tensor>, String> {
        let first = self.run();
        for (lanes, grain) in [(1, 256), (2, 256), (3, 1000), (7, 256)] {
            self.lanes = lanes;
            self.grain = Some(grain);
            let again = self.run();
            assert_eq!(first, again, "{} lanes, grain {grain}", lanes);
        }
        first
    }
}

/// A tensor of f32.
pub(crate) fn floats(dims: &[usize], values: &[f32]) -> Tensor {
    Tensor::from_slice(dims, values).expect("values fit the shape")
}

/// A tensor of i64.
pub(crate) fn integers(dims: &[usize], values: &[i64]) -> Tensor {
    Tensor::from_slice(dims, values).expect("values fit the shape")
}

/// A tensor of f32 counting from 0.
pub(crate) fn counting(dims: &[usize]) -> Tensor {
    let values: Vec<f32> = (0..dims.iter().product())
        .map(|i: usize| i as f32)
        .collect();
    floats(dims, &values)
}
