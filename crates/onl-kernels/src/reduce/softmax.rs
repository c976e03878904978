//! Softmax and LogSoftmax.

use super::{Division, along, entry};
use crate::infer::same_as_first;
use crate::movement::support::{axis_of, check_inputs};
use crate::{
    Example, ExampleInput, KernelEntry, KernelError, KernelIo, PrepareContext, PrepareError,
    PreparedKernel,
};
use onl_executor::Lanes;
use onl_ir::{Attribute, NodeView};
use onl_reduce::{COLUMNS, ROWS, SOFTMAX, softmax, softmax_workspace};
use onl_tensor::ElementType;

pub(super) fn entries() -> Vec<KernelEntry> {
    let softmax = KernelEntry {
        regions: const { &[&SOFTMAX, &ROWS, &COLUMNS] },
        coverage: super::CALIBRATABLE,
        ..entry(
            "Softmax",
            (1, i64::MAX),
            |node, context| prepare("Softmax", false, node, context),
            same_as_first,
            examples,
        )
    };
    let logarithm = KernelEntry {
        op_type: "LogSoftmax",
        prepare: |node, context| prepare("LogSoftmax", true, node, context),
        ..softmax.clone()
    };
    vec![softmax, logarithm]
}

struct Softmax {
    axis: i64,
    /// Whether the axis and all after it are one (before version 13).
    coerced: bool,
    logarithm: bool,
    element_type: ElementType,
    division: Division,
}

fn prepare(
    op_type: &'static str,
    logarithm: bool,
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 1, 1)?;
    let coerced = node.opset < 13;
    Ok(Box::new(Softmax {
        axis: node.int("axis")?.unwrap_or(if coerced { 1 } else { -1 }),
        coerced,
        logarithm,
        element_type: node.input_element_type(0).unwrap_or(ElementType::Float64),
        division: Division::new(op_type, node, context),
    }))
}

/// Outer rows, elements of a row, and their distance.
pub(super) fn rows(dims: &[usize], axis: i64, coerced: bool) -> Result<[usize; 3], KernelError> {
    let product = |dims: &[usize]| dims.iter().product::<usize>();
    if dims.is_empty() {
        // A scalar is a row of one element.
        return Ok([1, 1, 1]);
    }
    if coerced && axis == dims.len() as i64 {
        return Ok([product(dims), 1, 1]);
    }
    if coerced {
        let axis = axis_of(axis, dims.len())?;
        return Ok([product(&dims[..axis]), product(&dims[axis..]), 1]);
    }
    along(dims, axis)
}

impl PreparedKernel for Softmax {
    fn workspace(&self, input_dims: &[&[usize]], _: usize) -> usize {
        let dims = input_dims.first().copied().unwrap_or(&[]);
        match rows(dims, self.axis, self.coerced) {
            Ok([outer, length, inner]) => {
                softmax_workspace(self.element_type, outer, length, inner)
            }
            Err(_) => 0,
        }
    }

    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let input = io.input(0)?;
        let rows = rows(input.dims(), self.axis, self.coerced)?;
        let execution = self.division.execution(input.len(), lanes);
        let (mut output, workspace) =
            io.output_and_workspace(0, input.element_type(), input.dims())?;
        Ok(softmax(
            input,
            rows,
            self.logarithm,
            &mut output,
            workspace,
            &execution,
        )?)
    }
}

pub(super) fn examples(element_type: ElementType, size: usize) -> Vec<Example> {
    vec![
        Example::new(
            "attention",
            vec![ExampleInput::random(
                element_type,
                &[(size / 128).max(1), 128],
            )],
        ),
        Example::new(
            "classes",
            vec![ExampleInput::random(
                element_type,
                &[(size / 1000).max(1), 1000],
            )],
        ),
        Example::new(
            "one_row",
            vec![ExampleInput::random(element_type, &[1, size])],
        ),
        Example::new(
            "first_axis",
            vec![ExampleInput::random(
                element_type,
                &[(size / 64).max(1), 64],
            )],
        )
        .with_attribute("axis", Attribute::Int(0)),
    ]
}
