//! Runs single nodes, for tests of kernels.

use crate::{InferContext, KernelIo, KernelTable, NoSubgraphs, OutputSlot, PrepareContext};
use onl_cpu::IsaTier;
use onl_executor::CpuExecutor;
use onl_ir::{Attribute, Graph, Node, NodeView, OpId, TensorType, TypeInfo, ValueId, ValueInfo};
use onl_snapshot::TuningSnapshot;
use onl_tensor::{Tensor, TensorView};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Runs a node of the default domain with one output under portable defaults.
///
/// # Errors
/// Text of the look-up, inference, preparation or kernel error.
pub fn run_node(
    op: &str,
    opset: i64,
    inputs: &[Option<Tensor>],
    attributes: &[(&str, Attribute)],
    lanes: usize,
    tier: IsaTier,
) -> Result<Vec<Tensor>, String> {
    let snapshot = TuningSnapshot::portable();
    run_node_with(&snapshot, op, opset, inputs, attributes, 1, lanes, tier)
}

/// As [`run_node`], under a snapshot of the caller's and with any number of outputs.
///
/// # Errors
/// As [`run_node`], and when an inferred element type or known shape is not that of the output.
pub fn run_node_with(
    snapshot: &TuningSnapshot,
    op: &str,
    opset: i64,
    inputs: &[Option<Tensor>],
    attributes: &[(&str, Attribute)],
    output_count: usize,
    lanes: usize,
    tier: IsaTier,
) -> Result<Vec<Tensor>, String> {
    let mut graph = Graph::default();
    let input_ids: Vec<Option<ValueId>> = inputs
        .iter()
        .enumerate()
        .map(|(i, input)| {
            let tensor = input.as_ref()?;
            let value_type =
                TypeInfo::Tensor(TensorType::with_dims(tensor.element_type(), tensor.dims()));
            let id = graph.add_value(ValueInfo {
                name: format!("input_{i}"),
                value_type: Some(value_type),
            });
            graph.inputs.push(id);
            Some(id)
        })
        .collect();
    for i in 0..output_count {
        let id = graph.add_value(ValueInfo {
            name: format!("output_{i}"),
            value_type: None,
        });
        graph.outputs.push(id);
    }
    graph.nodes.push(Node {
        name: String::new(),
        op: OpId::new("", op),
        overload: String::new(),
        inputs: input_ids,
        outputs: graph.outputs.iter().copied().map(Some).collect(),
        attributes: attributes
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect::<BTreeMap<_, _>>(),
    });
    let node = NodeView {
        graph: &graph,
        node: &graph.nodes[0],
        index: 0,
        opset,
    };

    let table = KernelTable::builtin();
    let entries = table
        .operator(&node.node.op, opset)
        .map_err(|e| e.to_string())?;
    let entry = entries
        .iter()
        .find(|entry| match entry.type_source {
            crate::TypeSource::Input(index) => node
                .input_element_type(index)
                .is_some_and(|t| entry.element_types.contains(&t)),
            crate::TypeSource::Output => true,
        })
        .ok_or_else(|| format!("no kernel of {op} takes these element types"))?;

    let constants = |id: ValueId| -> Option<Arc<Tensor>> {
        let index = node.node.inputs.iter().position(|i| *i == Some(id))?;
        inputs[index].as_ref()?.try_clone().ok().map(Arc::new)
    };
    let types: Vec<Option<TypeInfo>> = (0..inputs.len())
        .map(|i| {
            node.input(i)
                .and_then(|id| graph.values[id.index()].value_type.clone())
        })
        .collect();
    let mut inference = InferContext::new(node, &types, &constants);
    (entry.infer)(&mut inference).map_err(|e| e.to_string())?;
    let inferred = inference.into_outputs();

    let context = PrepareContext {
        snapshot,
        tier,
        lanes,
        constants: &constants,
        subgraphs: &NoSubgraphs,
    };
    let kernel = (entry.prepare)(&node, &context).map_err(|e| e.to_string())?;
    let views: Vec<Option<TensorView<'_>>> = inputs
        .iter()
        .map(|t| t.as_ref().map(Tensor::view))
        .collect();
    let dims: Vec<&[usize]> = views
        .iter()
        .map(|v| v.map_or(&[] as &[usize], |v| v.dims()))
        .collect();
    let mut workspace = onl_tensor::AlignedBuffer::zeroed(kernel.workspace(&dims, lanes))
        .map_err(|e| e.to_string())?;
    let mut slots: Vec<OutputSlot> = (0..output_count).map(|_| OutputSlot::Unplanned).collect();
    let executor = CpuExecutor::with_lanes(lanes);
    let run = executor.enter();
    let mut io = KernelIo::new(&views, &[], &mut slots, workspace.as_bytes_mut());
    kernel
        .run(&mut io, run.lanes())
        .map_err(|e| e.to_string())?;

    let outputs = slots
        .into_iter()
        .map(|slot| match slot {
            OutputSlot::Allocated { tensor, .. } => Ok(tensor),
            OutputSlot::Alias { input, shape, .. } => inputs[input]
                .as_ref()
                .ok_or("an output aliases an omitted input")?
                .try_clone()
                .map_err(|e| e.to_string())?
                .reshaped(&shape)
                .map_err(|e| e.to_string()),
            other => Err(format!("the kernel left no tensor: {other:?}")),
        })
        .collect::<Result<Vec<_>, String>>()?;
    for (output, inferred) in outputs.iter().zip(&inferred) {
        let Some(TypeInfo::Tensor(inferred)) = inferred else {
            continue;
        };
        let fits = inferred.element_type == output.element_type()
            && inferred.dims.as_ref().is_none_or(|dims| {
                dims.len() == output.dims().len()
                    && dims
                        .iter()
                        .zip(output.dims())
                        .all(|(d, &n)| d.known().is_none_or(|d| d == n))
            });
        if !fits {
            return Err(format!(
                "inferred {inferred:?}, the output is {} {:?}",
                output.element_type(),
                output.dims()
            ));
        }
    }
    Ok(outputs)
}
