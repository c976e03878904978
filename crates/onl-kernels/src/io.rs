use crate::KernelError;
use onl_tensor::{
    AlignedBuffer, Element, ElementType, Shape, Tensor, TensorView, TensorViewMut, Value,
    byte_length,
};
use smallvec::SmallVec;

/// Place of one output while a kernel runs.
#[derive(Debug, Default)]
pub enum OutputSlot {
    /// No memory is planned, or the node does not want this output: asking for it allocates.
    #[default]
    Unplanned,
    /// Planned memory for exactly this type and shape.
    Planned {
        /// Element type of the plan.
        element_type: ElementType,
        /// Shape of the plan.
        shape: Shape,
        /// Memory, of at least the planned size.
        buffer: AlignedBuffer,
        /// Whether the kernel wrote here; otherwise it gave no output.
        used: bool,
    },
    /// Memory of the output's own, allocated because there was no plan or the plan did not fit.
    Allocated {
        /// The output.
        tensor: Tensor,
        /// The planned memory that did not fit, to be given back.
        planned: Option<AlignedBuffer>,
    },
    /// The output has the elements of an input under another shape.
    Alias {
        /// Index of the input.
        input: usize,
        /// Shape of the output.
        shape: Shape,
        /// The planned memory that was not needed, to be given back.
        planned: Option<AlignedBuffer>,
    },
    /// A value that is not a tensor.
    Value(Value),
}

impl OutputSlot {
    fn take_planned(&mut self) -> Option<AlignedBuffer> {
        match std::mem::take(self) {
            OutputSlot::Planned { buffer, .. } => Some(buffer),
            OutputSlot::Allocated { planned, .. } | OutputSlot::Alias { planned, .. } => planned,
            OutputSlot::Unplanned | OutputSlot::Value(_) => None,
        }
    }

    /// Makes allocated memory the planned memory of the next run.
    pub(crate) fn keep_as_plan(&mut self) {
        if let OutputSlot::Allocated { .. } = self
            && let OutputSlot::Allocated { tensor, .. } = std::mem::take(self)
        {
            let (element_type, shape) = (tensor.element_type(), tensor.shape().clone());
            *self = match tensor.into_buffer() {
                Ok(buffer) => OutputSlot::Planned {
                    element_type,
                    shape,
                    buffer,
                    used: true,
                },
                Err(tensor) => OutputSlot::Allocated {
                    tensor,
                    planned: None,
                },
            };
        }
    }

    fn open(
        &mut self,
        element_type: ElementType,
        dims: &[usize],
    ) -> Result<TensorViewMut<'_>, KernelError> {
        let fits = matches!(
            self,
            OutputSlot::Planned { element_type: t, shape, .. } if *t == element_type && shape.dims() == dims
        );
        if !fits {
            let planned = self.take_planned();
            *self = OutputSlot::Allocated {
                tensor: Tensor::zeros(element_type, dims)?,
                planned,
            };
        }
        match self {
            OutputSlot::Planned {
                element_type,
                shape,
                buffer,
                used,
            } => {
                *used = true;
                let length = byte_length(*element_type, shape)?;
                let bytes = &mut buffer.as_bytes_mut()[..length];
                Ok(TensorViewMut::from_bytes(*element_type, shape, bytes)?)
            }
            OutputSlot::Allocated { tensor, .. } => Ok(tensor.view_mut()?),
            _ => unreachable!("slot was replaced above"),
        }
    }
}

/// What a kernel reads and writes in one run.
pub struct KernelIo<'a> {
    inputs: &'a [Option<TensorView<'a>>],
    values: &'a [Option<&'a Value>],
    outputs: &'a mut [OutputSlot],
    workspace: &'a mut [u8],
}

impl<'a> KernelIo<'a> {
    /// Inputs as views (`None` when omitted or not a tensor), the same inputs as values (empty when all are
    /// tensors), one slot per output, and scratch memory of the size that
    /// [`PreparedKernel::workspace`](crate::PreparedKernel::workspace) asked for, aligned to a cache line.
    pub fn new(
        inputs: &'a [Option<TensorView<'a>>],
        values: &'a [Option<&'a Value>],
        outputs: &'a mut [OutputSlot],
        workspace: &'a mut [u8],
    ) -> Self {
        KernelIo {
            inputs,
            values,
            outputs,
            workspace,
        }
    }

    /// Number of inputs written in the node.
    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// Number of outputs written in the node.
    pub fn output_count(&self) -> usize {
        self.outputs.len()
    }

    /// An input tensor; `None` when it is omitted.
    pub fn optional_input(&self, index: usize) -> Option<TensorView<'a>> {
        self.inputs.get(index).copied().flatten()
    }

    /// An input tensor that must be there.
    ///
    /// # Errors
    /// [`KernelError::InvalidInput`] when it is omitted or not a tensor.
    pub fn input(&self, index: usize) -> Result<TensorView<'a>, KernelError> {
        self.optional_input(index)
            .ok_or_else(|| KernelError::InvalidInput {
                index,
                reason: "a tensor is required".to_owned(),
            })
    }

    /// An input that is not a tensor.
    pub fn input_value(&self, index: usize) -> Option<&'a Value> {
        self.values.get(index).copied().flatten()
    }

    /// Integers of a small input (shape, axes, indices) of type i64 or i32.
    ///
    /// # Errors
    /// [`KernelError::InvalidInput`] when the input is missing or of another type.
    pub fn integers(&self, index: usize) -> Result<SmallVec<[i64; 8]>, KernelError> {
        let view = self.input(index)?;
        if let Ok(values) = view.as_slice::<i64>() {
            return Ok(SmallVec::from_slice(values));
        }
        match view.as_slice::<i32>() {
            Ok(values) => Ok(values.iter().map(|&v| i64::from(v)).collect()),
            Err(error) => Err(KernelError::InvalidInput {
                index,
                reason: error.to_string(),
            }),
        }
    }

    /// Memory for an output. The elements have no defined value before they are written.
    ///
    /// # Errors
    /// [`KernelError::Tensor`] when a new allocation fails.
    pub fn output(
        &mut self,
        index: usize,
        element_type: ElementType,
        dims: &[usize],
    ) -> Result<TensorViewMut<'_>, KernelError> {
        self.outputs[index].open(element_type, dims)
    }

    /// Memory for all outputs at once, in order; the node must have as many outputs as there are specifications, or
    /// fewer (trailing optional outputs that it does not write get none).
    ///
    /// # Errors
    /// As [`output`](Self::output).
    pub fn all_outputs(
        &mut self,
        specifications: &[(ElementType, &[usize])],
    ) -> Result<SmallVec<[TensorViewMut<'_>; 4]>, KernelError> {
        self.outputs
            .iter_mut()
            .zip(specifications)
            .map(|(slot, (element_type, dims))| slot.open(*element_type, dims))
            .collect()
    }

    /// An output and the scratch memory together.
    ///
    /// # Errors
    /// As [`output`](Self::output).
    pub fn output_and_workspace(
        &mut self,
        index: usize,
        element_type: ElementType,
        dims: &[usize],
    ) -> Result<(TensorViewMut<'_>, &mut [u8]), KernelError> {
        Ok((
            self.outputs[index].open(element_type, dims)?,
            self.workspace,
        ))
    }

    /// The scratch memory, for what must be known before an output can be asked for.
    pub fn workspace(&mut self) -> &mut [u8] {
        self.workspace
    }

    /// Memory for all outputs, as [`all_outputs`](Self::all_outputs) gives it, and the scratch memory together.
    ///
    /// # Errors
    /// As [`output`](Self::output).
    pub fn all_outputs_and_workspace(
        &mut self,
        specifications: &[(ElementType, &[usize])],
    ) -> Result<(SmallVec<[TensorViewMut<'_>; 4]>, &mut [u8]), KernelError> {
        let outputs = self
            .outputs
            .iter_mut()
            .zip(specifications)
            .map(|(slot, (element_type, dims))| slot.open(*element_type, dims))
            .collect::<Result<_, _>>()?;
        Ok((outputs, self.workspace))
    }

    /// Declares that an output has the elements of an input under another shape; nothing is copied.
    pub fn alias_output(&mut self, index: usize, input: usize, shape: Shape) {
        let planned = self.outputs[index].take_planned();
        self.outputs[index] = OutputSlot::Alias {
            input,
            shape,
            planned,
        };
    }

    /// Gives an output that is not a tensor.
    pub fn set_output_value(&mut self, index: usize, value: Value) {
        self.outputs[index] = OutputSlot::Value(value);
    }

    /// Writes a whole small output.
    ///
    /// # Errors
    /// As [`output`](Self::output).
    pub fn write_output<T: Element>(
        &mut self,
        index: usize,
        dims: &[usize],
        elements: &[T],
    ) -> Result<(), KernelError> {
        self.output(index, T::TYPE, dims)?
            .as_slice_mut::<T>()?
            .copy_from_slice(elements);
        Ok(())
    }
}
