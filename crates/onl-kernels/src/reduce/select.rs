//! ArgMax, ArgMin, Hardmax, TopK.

use super::{Division, along, entry, last_axis_examples};
use crate::infer::{resolve_axis, same_as_first};
use crate::movement::support::{axis_of, check_inputs};
use crate::{
    Example, ExampleInput, InferContext, InferError, KernelEntry, KernelError, KernelIo,
    PrepareContext, PrepareError, PreparedKernel, ShapeDependence,
};
use onl_executor::Lanes;
use onl_ir::{Attribute, Dim, NodeView};
use onl_reduce::{
    SELECTION, TOP_K, TopK, arg_extreme, arg_workspace, hardmax, hardmax_workspace, top_k,
    top_k_workspace,
};
use onl_tensor::{ElementType, Shape};

/// Element types of ArgMax, ArgMin and TopK.
const ORDERED: &[ElementType] = &[
    ElementType::Float32,
    ElementType::Float64,
    ElementType::Float16,
    ElementType::BFloat16,
    ElementType::Int8,
    ElementType::Int16,
    ElementType::Int32,
    ElementType::Int64,
    ElementType::UInt8,
    ElementType::UInt16,
    ElementType::UInt32,
    ElementType::UInt64,
];

pub(super) fn entries() -> Vec<KernelEntry> {
    let maximum = KernelEntry {
        element_types: ORDERED,
        regions: const { &[&SELECTION] },
        ..entry(
            "ArgMax",
            (1, i64::MAX),
            |node, context| prepare_arg("ArgMax", true, node, context),
            infer_arg,
            arg_examples,
        )
    };
    let minimum = KernelEntry {
        op_type: "ArgMin",
        prepare: |node, context| prepare_arg("ArgMin", false, node, context),
        ..maximum.clone()
    };
    let hardmax = KernelEntry {
        regions: const { &[&SELECTION] },
        ..entry(
            "Hardmax",
            (1, i64::MAX),
            prepare_hardmax,
            same_as_first,
            super::softmax::examples,
        )
    };
    let top = KernelEntry {
        element_types: ORDERED,
        regions: const { &[&TOP_K] },
        shape_dependence: ShapeDependence::Values(&[1]),
        ..entry(
            "TopK",
            (10, i64::MAX),
            prepare_top,
            infer_top,
            |element_type, size| {
                let mut examples = top_examples(element_type, size);
                for example in &mut examples {
                    let k = match example.attributes.remove("k") {
                        Some(Attribute::Int(k)) => k,
                        _ => 1,
                    };
                    example.inputs.push(Some(ExampleInput::integers(&[k])));
                }
                examples
            },
        )
    };
    let top_by_attribute = KernelEntry {
        opsets: (1, 9),
        shape_dependence: ShapeDependence::Shapes,
        examples: top_examples,
        ..top.clone()
    };
    vec![maximum, minimum, hardmax, top, top_by_attribute]
}

struct Arg {
    axis: i64,
    keep_dims: bool,
    largest: bool,
    last: bool,
    division: Division,
}

fn prepare_arg(
    op_type: &'static str,
    largest: bool,
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 1, 1)?;
    Ok(Box::new(Arg {
        axis: node.int("axis")?.unwrap_or(0),
        keep_dims: node.int("keepdims")?.unwrap_or(1) != 0,
        largest,
        last: node.opset >= 12 && node.int("select_last_index")?.unwrap_or(0) != 0,
        division: Division::new(op_type, node, context),
    }))
}

impl PreparedKernel for Arg {
    fn workspace(&self, input_dims: &[&[usize]], _: usize) -> usize {
        let dims = input_dims.first().copied().unwrap_or(&[]);
        along(dims, self.axis).map_or(0, arg_workspace)
    }

    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let input = io.input(0)?;
        let dims = input.dims();
        let rows = along(dims, self.axis)?;
        let mut shape = Shape::new(dims);
        if !dims.is_empty() {
            let axis = axis_of(self.axis, dims.len())?;
            shape = dims
                .iter()
                .enumerate()
                .filter(|&(a, _)| a != axis || self.keep_dims)
                .map(|(a, &size)| if a == axis { 1 } else { size })
                .collect();
        }
        let execution = self.division.execution(input.len(), lanes);
        let (mut output, workspace) = io.output_and_workspace(0, ElementType::Int64, &shape)?;
        Ok(arg_extreme(
            input,
            rows,
            self.largest,
            self.last,
            &mut output,
            workspace,
            &execution,
        )?)
    }
}

fn infer_arg(context: &mut InferContext<'_>) -> Result<(), InferError> {
    context.element_type(0)?;
    let axis = context.node.int("axis")?.unwrap_or(0);
    let keep_dims = context.node.int("keepdims")?.unwrap_or(1) != 0;
    let dims = match context.dims(0) {
        None => None,
        Some([]) => Some(Vec::new()),
        Some(dims) => {
            let axis = resolve_axis(axis, dims.len())?;
            let mut dims = dims.to_vec();
            if keep_dims {
                dims[axis] = Dim::Known(1);
            } else {
                dims.remove(axis);
            }
            Some(dims)
        }
    };
    context.set_output(0, ElementType::Int64, dims);
    Ok(())
}

fn arg_examples(element_type: ElementType, size: usize) -> Vec<Example> {
    let columns = [3, (size / 192).max(1), 64];
    let mut examples = last_axis_examples(element_type, size);
    examples.push(
        Example::new(
            "middle_axis",
            vec![ExampleInput::random(element_type, &columns)],
        )
        .with_attribute("axis", Attribute::Int(1)),
    );
    examples
}

struct Hardmax {
    axis: i64,
    coerced: bool,
    division: Division,
}

fn prepare_hardmax(
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 1, 1)?;
    let coerced = node.opset < 13;
    Ok(Box::new(Hardmax {
        axis: node.int("axis")?.unwrap_or(if coerced { 1 } else { -1 }),
        coerced,
        division: Division::new("Hardmax", node, context),
    }))
}

impl PreparedKernel for Hardmax {
    fn workspace(&self, input_dims: &[&[usize]], _: usize) -> usize {
        let dims = input_dims.first().copied().unwrap_or(&[]);
        super::softmax::rows(dims, self.axis, self.coerced).map_or(0, hardmax_workspace)
    }

    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let input = io.input(0)?;
        let rows = super::softmax::rows(input.dims(), self.axis, self.coerced)?;
        let execution = self.division.execution(input.len(), lanes);
        let (mut output, workspace) =
            io.output_and_workspace(0, input.element_type(), input.dims())?;
        Ok(hardmax(input, rows, &mut output, workspace, &execution)?)
    }
}

struct Top {
    axis: i64,
    largest: bool,
    /// Number of elements, when it is known before the run.
    k: Option<i64>,
    element_type: ElementType,
    division: Division,
}

fn prepare_top(
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    let by_attribute = node.opset < 10;
    check_inputs(node, if by_attribute { 1 } else { 2 }, 2)?;
    if node.output_count() != 2 {
        return Err(PrepareError::Arity {
            what: "number of",
            expected: "2 outputs".to_owned(),
            actual: node.output_count(),
        });
    }
    let k = if by_attribute {
        let k = node.int("k")?.ok_or_else(|| PrepareError::Attribute {
            attribute: "k",
            reason: "it is required before operator set 10".to_owned(),
        })?;
        Some(k)
    } else {
        let constant = context.constant_input(node, 1);
        let values = constant.as_ref().and_then(|t| t.as_slice::<i64>().ok());
        values.and_then(|values| values.first().copied())
    };
    Ok(Box::new(Top {
        axis: node.int("axis")?.unwrap_or(-1),
        largest: node.int("largest")?.unwrap_or(1) != 0,
        k,
        element_type: node.input_element_type(0).unwrap_or(ElementType::Float64),
        division: Division::new("TopK", node, context),
    }))
}

impl PreparedKernel for Top {
    fn workspace(&self, input_dims: &[&[usize]], lanes: usize) -> usize {
        let dims = input_dims.first().copied().unwrap_or(&[]);
        let Ok(shape) = along(dims, self.axis) else {
            return 0;
        };
        let k = match self.k.map(usize::try_from) {
            Some(Ok(k)) => Some(k),
            Some(Err(_)) => return 0,
            None => None,
        };
        top_k_workspace(self.element_type, shape, k, lanes)
    }

    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let input = io.input(0)?;
        let dims = input.dims();
        let invalid = |reason: String| KernelError::InvalidInput { index: 1, reason };
        let k = match self.k {
            Some(k) => k,
            None => match io.integers(1)?.as_slice() {
                [k] => *k,
                other => return Err(invalid(format!("{} values instead of one k", other.len()))),
            },
        };
        let shape = along(dims, self.axis)?;
        let k = usize::try_from(k)
            .ok()
            .filter(|&k| k <= shape[1])
            .ok_or_else(|| invalid(format!("k is {k}, but the axis has {} elements", shape[1])))?;
        let axis = match dims {
            [] => None,
            dims => Some(axis_of(self.axis, dims.len())?),
        };
        let output_dims: Shape = dims
            .iter()
            .enumerate()
            .map(|(a, &size)| if Some(a) == axis { k } else { size })
            .collect();
        let top = TopK {
            shape,
            k,
            largest: self.largest,
        };
        let execution = self.division.execution(input.len(), lanes);
        let specifications: [(ElementType, &[usize]); 2] = [
            (input.element_type(), &output_dims),
            (ElementType::Int64, &output_dims),
        ];
        let (outputs, workspace) = io.all_outputs_and_workspace(&specifications)?;
        let mut outputs = outputs.into_iter();
        let (Some(mut values), Some(mut places)) = (outputs.next(), outputs.next()) else {
            return Err(KernelError::Other("TopK has two outputs".to_owned()));
        };
        Ok(top_k(
            input,
            &top,
            &mut values,
            &mut places,
            workspace,
            &execution,
        )?)
    }
}

fn infer_top(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let element_type = context.element_type(0)?;
    let axis = context.node.int("axis")?.unwrap_or(-1);
    let k = if context.node.opset < 10 {
        context.node.int("k")?
    } else {
        context
            .constant_integers(1)
            .and_then(|k| k.first().copied())
    };
    let dims = match context.dims(0) {
        None => None,
        Some([]) => Some(Vec::new()),
        Some(dims) => {
            let axis = resolve_axis(axis, dims.len())?;
            let mut dims = dims.to_vec();
            let known = k.and_then(|k| usize::try_from(k).ok());
            dims[axis] = known.map_or(Dim::Unknown, Dim::Known);
            Some(dims)
        }
    };
    context.set_output(0, element_type, dims.clone());
    context.set_output(1, ElementType::Int64, dims);
    Ok(())
}

/// Rows to choose from, with `k` as an attribute.
fn top_examples(element_type: ElementType, size: usize) -> Vec<Example> {
    let shapes: [(&'static str, Vec<usize>, i64, usize); 3] = [
        ("classes", vec![(size / 1000).max(1), size.min(1000)], -1, 5),
        ("one_row", vec![1, size], -1, 100),
        ("middle_axis", vec![2, (size / 32).max(1), 16], 1, 3),
    ];
    shapes
        .into_iter()
        .map(|(name, dims, axis, k)| {
            let k = k.min(dims[1]) as i64;
            let mut example = Example::new(name, vec![ExampleInput::random(element_type, &dims)])
                .with_attribute("axis", Attribute::Int(axis))
                .with_attribute("k", Attribute::Int(k));
            example.outputs = 2;
            example
        })
        .collect()
}
