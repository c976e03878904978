use crate::{KernelError, KernelIo, PrepareError};
use onl_cpu::IsaTier;
use onl_executor::Lanes;
use onl_ir::{Graph, NodeView, ValueId};
use onl_snapshot::TuningSnapshot;
use onl_tensor::{Tensor, Value};
use std::sync::Arc;

/// A kernel that is ready to run one node: attributes read, tier and parameters chosen, constants packed.
pub trait PreparedKernel: Send + Sync {
    /// Bytes of scratch memory that a run on inputs of these shapes with this many lanes needs; omitted inputs have
    /// an empty shape.
    fn workspace(&self, input_dims: &[&[usize]], lanes: usize) -> usize {
        let _ = (input_dims, lanes);
        0
    }

    /// Computes the node.
    ///
    /// # Errors
    /// [`KernelError`] when the values do not fit the operator.
    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError>;
}

/// What a kernel may know when it is prepared.
pub struct PrepareContext<'a> {
    /// Tuning parameters of the session.
    pub snapshot: &'a TuningSnapshot,
    /// Instruction-set tier to run.
    pub tier: IsaTier,
    /// Most lanes that a run can have.
    pub lanes: usize,
    /// Values of the graph that are constant for the session, for packing them once.
    pub constants: &'a dyn Fn(ValueId) -> Option<Arc<Tensor>>,
    /// Prepares subgraphs for control flow.
    pub subgraphs: &'a dyn SubgraphRunner,
}

impl PrepareContext<'_> {
    /// An input's constant value, if it has one.
    pub fn constant_input(&self, node: &NodeView<'_>, index: usize) -> Option<Arc<Tensor>> {
        node.input(index).and_then(self.constants)
    }
}

/// Prepares and runs the body of a control-flow node; implemented by the runtime.
pub trait SubgraphRunner {
    /// Prepares a body. The result runs it on its inputs and on the captured outer values, in the order of
    /// [`Graph::captures`].
    ///
    /// # Errors
    /// [`PrepareError`] when a node of the body cannot be prepared.
    fn prepare(&self, body: &Arc<Graph>) -> Result<Arc<dyn PreparedSubgraph>, PrepareError>;
}

/// A body of a control-flow node that is ready to run.
pub trait PreparedSubgraph: Send + Sync {
    /// Runs the body.
    ///
    /// # Errors
    /// [`KernelError`] of the first node that fails.
    fn run(
        &self,
        inputs: &[Value],
        captures: &[Value],
        lanes: Lanes<'_>,
    ) -> Result<Vec<Value>, KernelError>;
}

/// A runner for graphs without control flow.
pub struct NoSubgraphs;

impl SubgraphRunner for NoSubgraphs {
    fn prepare(&self, _: &Arc<Graph>) -> Result<Arc<dyn PreparedSubgraph>, PrepareError> {
        Err(PrepareError::Other(
            "subgraphs are not available here".to_owned(),
        ))
    }
}
