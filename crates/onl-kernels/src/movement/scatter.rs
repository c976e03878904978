//! Scatter, ScatterElements, ScatterND, TensorScatter.

use super::support::{axis_of, check_inputs};
use super::{Division, entry};
use crate::infer::same_as_first;
use crate::{
    Example, ExampleInput, KernelEntry, KernelError, KernelIo, PrepareContext, PrepareError,
    PreparedKernel,
};
use onl_executor::Lanes;
use onl_ir::{Attribute, NodeView};
use onl_movement::{Reduction, SCATTER, scatter_elements, scatter_nd, scatter_sequence};
use onl_tensor::{ElementType, Tensor};
use std::sync::Arc;

pub(super) fn entries() -> Vec<KernelEntry> {
    let elements = KernelEntry {
        regions: const { &[&SCATTER] },
        ..entry(
            "ScatterElements",
            (11, i64::MAX),
            prepare_elements,
            same_as_first,
            elements_examples,
        )
    };
    vec![
        KernelEntry {
            op_type: "Scatter",
            opsets: (9, 10),
            ..elements.clone()
        },
        elements.clone(),
        KernelEntry {
            op_type: "ScatterND",
            prepare: prepare_nd,
            examples: nd_examples,
            ..elements.clone()
        },
        KernelEntry {
            op_type: "TensorScatter",
            opsets: (24, i64::MAX),
            prepare: prepare_sequence,
            examples: sequence_examples,
            ..elements
        },
    ]
}

/// The reduction of a node, which came with version 16 (max and min with 18).
fn reduction(node: &NodeView<'_>) -> Result<Reduction, PrepareError> {
    let name = node.string("reduction")?.unwrap_or("none");
    let reduction = match name {
        "none" => Reduction::None,
        "add" if node.opset >= 16 => Reduction::Add,
        "mul" if node.opset >= 16 => Reduction::Mul,
        "max" if node.opset >= 18 => Reduction::Max,
        "min" if node.opset >= 18 => Reduction::Min,
        _ => {
            return Err(PrepareError::Attribute {
                attribute: "reduction",
                reason: format!(
                    "'{name}' is none of none, add and mul (since version 16), max and min (since version 18)"
                ),
            });
        }
    };
    match node.input_element_type(0) {
        Some(element_type) if !reduction.serves(element_type) => Err(PrepareError::ElementType {
            index: 0,
            element_type,
            allowed: format!("the reduction '{name}' is not defined for it"),
        }),
        _ => Ok(reduction),
    }
}

struct Elements {
    axis: i64,
    reduction: Reduction,
    division: Division,
}

fn prepare_elements(
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 3, 3)?;
    let op_type = if node.opset < 11 {
        "Scatter"
    } else {
        "ScatterElements"
    };
    Ok(Box::new(Elements {
        axis: node.int("axis")?.unwrap_or(0),
        reduction: reduction(node)?,
        division: Division::new(op_type, node, context),
    }))
}

impl PreparedKernel for Elements {
    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let (input, indices, updates) = (io.input(0)?, io.input(1)?, io.input(2)?);
        let axis = axis_of(self.axis, input.rank())?;
        let execution = self.division.execution(input.len(), lanes);
        let mut output = io.output(0, input.element_type(), input.dims())?;
        Ok(scatter_elements(
            input,
            indices,
            updates,
            axis,
            self.reduction,
            &mut output,
            &execution,
        )?)
    }
}

/// Indices `i · 31 mod below`, an i64 tensor.
fn spread(dims: &[usize], below: usize) -> ExampleInput {
    let count: usize = dims.iter().product();
    let values: Vec<i64> = (0..count).map(|i| (i * 31 % below) as i64).collect();
    let tensor = Tensor::from_slice(dims, &values).expect("as many indices as elements");
    ExampleInput::Constant(Arc::new(tensor))
}

fn elements_examples(element_type: ElementType, size: usize) -> Vec<Example> {
    let rows = (size / 64).max(1);
    let inputs = |below: usize| {
        vec![
            ExampleInput::random(element_type, &[rows, 64]),
            spread(&[rows, 64], below),
            ExampleInput::random(element_type, &[rows, 64]),
        ]
    };
    vec![
        Example::new("along_rows", inputs(64)).with_attribute("axis", Attribute::Int(1)),
        Example::new("along_columns", inputs(rows)).with_attribute("axis", Attribute::Int(0)),
    ]
}

struct Nd {
    reduction: Reduction,
    division: Division,
}

fn prepare_nd(
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 3, 3)?;
    Ok(Box::new(Nd {
        reduction: reduction(node)?,
        division: Division::new("ScatterND", node, context),
    }))
}

impl PreparedKernel for Nd {
    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let (input, indices, updates) = (io.input(0)?, io.input(1)?, io.input(2)?);
        let execution = self.division.execution(input.len(), lanes);
        let mut output = io.output(0, input.element_type(), input.dims())?;
        Ok(scatter_nd(
            input,
            indices,
            updates,
            self.reduction,
            &mut output,
            &execution,
        )?)
    }
}

fn nd_examples(element_type: ElementType, size: usize) -> Vec<Example> {
    let rows = (size / 256).max(1);
    vec![
        Example::new(
            "slices",
            vec![
                ExampleInput::random(element_type, &[rows, 256]),
                spread(&[rows, 1], rows),
                ExampleInput::random(element_type, &[rows, 256]),
            ],
        ),
        Example::new(
            "elements",
            vec![
                ExampleInput::random(element_type, &[rows, 256]),
                spread(&[rows, 2], rows.min(256)),
                ExampleInput::random(element_type, &[rows]),
            ],
        ),
    ]
}

struct Sequence {
    axis: i64,
    circular: bool,
    division: Division,
}

fn prepare_sequence(
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 2, 3)?;
    let circular = match node.string("mode")?.unwrap_or("linear") {
        "linear" => false,
        "circular" => true,
        other => {
            return Err(PrepareError::Attribute {
                attribute: "mode",
                reason: format!("'{other}' is neither linear nor circular"),
            });
        }
    };
    Ok(Box::new(Sequence {
        axis: node.int("axis")?.unwrap_or(-2),
        circular,
        division: Division::new("TensorScatter", node, context),
    }))
}

impl PreparedKernel for Sequence {
    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let (input, updates) = (io.input(0)?, io.input(1)?);
        let starts = io.optional_input(2);
        let axis = axis_of(self.axis, input.rank())?;
        let execution = self.division.execution(input.len(), lanes);
        let mut output = io.output(0, input.element_type(), input.dims())?;
        Ok(scatter_sequence(
            input,
            updates,
            starts,
            axis,
            self.circular,
            &mut output,
            &execution,
        )?)
    }
}

fn sequence_examples(element_type: ElementType, size: usize) -> Vec<Example> {
    let batch = (size / 1024).max(1);
    let starts: Vec<i64> = (0..batch as i64).map(|b| b % 13).collect();
    vec![Example::new(
        "cache",
        vec![
            ExampleInput::random(element_type, &[batch, 16, 64]),
            ExampleInput::random(element_type, &[batch, 4, 64]),
            ExampleInput::integers(&starts),
        ],
    )]
}
