//! CumSum and CumProd.

use super::{Division, along, entry};
use crate::infer::same_as_first;
use crate::movement::support::{Integers, check_inputs};
use crate::{
    Example, ExampleInput, KernelEntry, KernelError, KernelIo, PrepareContext, PrepareError,
    PreparedKernel,
};
use onl_executor::Lanes;
use onl_ir::{Attribute, NodeView};
use onl_reduce::{CUMULATIVE, Cumulation, cumulate, cumulate_workspace};
use onl_tensor::ElementType;
use smallvec::SmallVec;

const TYPES: &[ElementType] = &[
    ElementType::Float32,
    ElementType::Float64,
    ElementType::Float16,
    ElementType::BFloat16,
    ElementType::Int32,
    ElementType::Int64,
    ElementType::UInt32,
    ElementType::UInt64,
];

pub(super) fn entries() -> Vec<KernelEntry> {
    let sum = KernelEntry {
        element_types: TYPES,
        regions: const { &[&CUMULATIVE] },
        ..entry(
            "CumSum",
            (11, i64::MAX),
            |node, context| prepare("CumSum", false, node, context),
            same_as_first,
            examples,
        )
    };
    let product = KernelEntry {
        op_type: "CumProd",
        opsets: (26, i64::MAX),
        prepare: |node, context| prepare("CumProd", true, node, context),
        ..sum.clone()
    };
    vec![sum, product]
}

struct Cumulative {
    axis: Integers,
    product: bool,
    exclusive: bool,
    reverse: bool,
    division: Division,
}

fn prepare(
    op_type: &'static str,
    product: bool,
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 2, 2)?;
    let axis = match context.constant_input(node, 1) {
        Some(constant) => match (constant.as_slice::<i64>(), constant.as_slice::<i32>()) {
            (Ok([axis]), _) => Integers::Fixed(SmallVec::from_slice(&[*axis])),
            (_, Ok([axis])) => Integers::Fixed(SmallVec::from_slice(&[i64::from(*axis)])),
            _ => Integers::input(node, 1),
        },
        None => Integers::input(node, 1),
    };
    Ok(Box::new(Cumulative {
        axis,
        product,
        exclusive: node.int("exclusive")?.unwrap_or(0) != 0,
        reverse: node.int("reverse")?.unwrap_or(0) != 0,
        division: Division::new(op_type, node, context),
    }))
}

impl Cumulative {
    fn cumulation(&self, dims: &[usize], axis: i64) -> Result<Cumulation, KernelError> {
        Ok(Cumulation {
            shape: along(dims, axis)?,
            product: self.product,
            exclusive: self.exclusive,
            reverse: self.reverse,
        })
    }
}

impl PreparedKernel for Cumulative {
    fn workspace(&self, input_dims: &[&[usize]], _: usize) -> usize {
        let dims = input_dims.first().copied().unwrap_or(&[]);
        let bytes = |axis: i64| {
            self.cumulation(dims, axis)
                .map_or(0, |cumulation| cumulate_workspace(&cumulation))
        };
        match &self.axis {
            Integers::Fixed(axis) => axis.first().map_or(0, |&axis| bytes(axis)),
            _ => (0..dims.len() as i64).map(bytes).max().unwrap_or(0),
        }
    }

    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let input = io.input(0)?;
        let axis = self.axis.read(io)?;
        let axis = match axis.as_deref() {
            Some([axis]) => *axis,
            other => {
                return Err(KernelError::InvalidInput {
                    index: 1,
                    reason: format!(
                        "{} values instead of one axis",
                        other.map_or(0, <[i64]>::len)
                    ),
                });
            }
        };
        let cumulation = self.cumulation(input.dims(), axis)?;
        let execution = self.division.execution(input.len(), lanes);
        let (mut output, workspace) =
            io.output_and_workspace(0, input.element_type(), input.dims())?;
        Ok(cumulate(
            input,
            &cumulation,
            &mut output,
            workspace,
            &execution,
        )?)
    }
}

fn examples(element_type: ElementType, size: usize) -> Vec<Example> {
    let example = |name, dims: [usize; 2], axis| {
        Example::new(
            name,
            vec![
                ExampleInput::random(element_type, &dims),
                ExampleInput::integers(&[axis]),
            ],
        )
    };
    vec![
        example("last_axis", [(size / 768).max(1), 768], 1),
        example("first_axis", [(size / 256).max(1), 256], 0),
        example("one_row", [1, size], 1)
            .with_attribute("exclusive", Attribute::Int(1))
            .with_attribute("reverse", Attribute::Int(1)),
        example("long_columns", [size, 3], 0).with_attribute("reverse", Attribute::Int(1)),
    ]
}
