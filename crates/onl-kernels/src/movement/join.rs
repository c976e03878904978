//! Concat and Split.

use super::support::{Integers, axis_of, check_inputs, known_integers, shape_error};
use super::{Division, entry};
use crate::infer::resolve_axis;
use crate::{
    Example, ExampleInput, InferContext, InferError, KernelEntry, KernelError, KernelIo,
    PrepareContext, PrepareError, PreparedKernel, ShapeDependence,
};
use onl_executor::Lanes;
use onl_ir::{Attribute, Dim, NodeView};
use onl_movement::{CONCAT, SPLIT, concat, split};
use onl_tensor::{ElementType, Shape, TensorView};
use smallvec::SmallVec;

pub(super) fn entries() -> Vec<KernelEntry> {
    let split = KernelEntry {
        regions: const { &[&SPLIT] },
        ..entry("Split", (2, 12), prepare_split, infer_split, split_examples)
    };
    vec![
        KernelEntry {
            regions: const { &[&CONCAT] },
            ..entry(
                "Concat",
                (1, i64::MAX),
                prepare_concat,
                infer_concat,
                concat_examples,
            )
        },
        split.clone(),
        KernelEntry {
            opsets: (13, i64::MAX),
            shape_dependence: ShapeDependence::Values(&[1]),
            ..split
        },
    ]
}

struct Concat {
    axis: i64,
    division: Division,
}

/// The axis of a `Concat`: required since version 4, 1 before.
fn concat_axis(node: &NodeView<'_>) -> Result<i64, PrepareError> {
    match node.int("axis")? {
        Some(axis) => Ok(axis),
        None if node.opset < 4 => Ok(1),
        None => Err(PrepareError::Attribute {
            attribute: "axis",
            reason: "the attribute is required".to_owned(),
        }),
    }
}

fn prepare_concat(
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 1, usize::MAX)?;
    Ok(Box::new(Concat {
        axis: concat_axis(node)?,
        division: Division::new("Concat", node, context),
    }))
}

impl PreparedKernel for Concat {
    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let inputs = (0..io.input_count())
            .map(|index| io.input(index))
            .collect::<Result<SmallVec<[TensorView<'_>; 16]>, _>>()?;
        let first = inputs[0];
        let axis = axis_of(self.axis, first.rank())?;
        let mut shape = Shape::new(first.dims());
        if inputs.len() == 1 {
            io.alias_output(0, 0, shape);
            return Ok(());
        }
        shape.dims_mut()[axis] = inputs
            .iter()
            .map(|i| i.dims().get(axis).copied().unwrap_or(0))
            .sum();
        let mut output = io.output(0, first.element_type(), &shape)?;
        let execution = self.division.execution(output.len(), lanes);
        Ok(concat(&inputs, axis, &mut output, &execution)?)
    }
}

fn infer_concat(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let element_type = context.element_type(0)?;
    let axis = concat_axis(&context.node)?;
    let inputs: Vec<Option<&[Dim]>> = (0..context.node.input_count())
        .map(|index| context.dims(index))
        .collect();
    let Some(rank) = inputs.iter().flatten().map(|d| d.len()).next() else {
        context.set_output(0, element_type, None);
        return Ok(());
    };
    let axis = resolve_axis(axis, rank)?;
    let mut dims = vec![Dim::Unknown; rank];
    let mut total = Some(0);
    for input in &inputs {
        let Some(input) = input else {
            total = None;
            continue;
        };
        if input.len() != rank {
            return Err(InferError::Shapes(format!(
                "inputs of rank {rank} and {} cannot be joined",
                input.len()
            )));
        }
        for (a, dim) in input.iter().enumerate() {
            match (&dims[a], dim) {
                _ if a == axis => {
                    total = total.and_then(|t: usize| dim.known().map(|d| t + d));
                }
                (Dim::Known(x), Dim::Known(y)) if x != y => {
                    return Err(InferError::Shapes(format!(
                        "sizes {x} and {y} of axis {a} differ; only axis {axis} may"
                    )));
                }
                (Dim::Known(_), _) | (_, Dim::Unknown) => {}
                (Dim::Named(_), Dim::Named(_)) => {}
                _ => dims[a] = dim.clone(),
            }
        }
    }
    dims[axis] = match (total, inputs.as_slice()) {
        (Some(total), _) => Dim::Known(total),
        (None, [Some(only)]) => only[axis].clone(),
        _ => Dim::Unknown,
    };
    context.set_output(0, element_type, Some(dims));
    Ok(())
}

fn concat_examples(element_type: ElementType, size: usize) -> Vec<Example> {
    let half = (size / 2).max(1);
    let rows = (half / 64).max(1);
    vec![
        Example::new(
            "outer",
            vec![
                ExampleInput::random(element_type, &[half]),
                ExampleInput::random(element_type, &[half]),
            ],
        )
        .with_attribute("axis", Attribute::Int(0)),
        Example::new(
            "inner",
            vec![
                ExampleInput::random(element_type, &[rows, 64]),
                ExampleInput::random(element_type, &[rows, 64]),
            ],
        )
        .with_attribute("axis", Attribute::Int(-1)),
    ]
}

struct Split {
    axis: i64,
    sizes: Integers,
    /// Number of parts when no sizes are given.
    parts: usize,
    /// Whether the last part may be smaller (version 18 with `num_outputs`).
    uneven: bool,
    division: Division,
}

fn split_of(node: &NodeView<'_>, division: Division) -> Result<Split, PrepareError> {
    let sizes = if node.opset < 13 {
        check_inputs(node, 1, 1)?;
        Integers::attribute(node, "split")?
    } else {
        check_inputs(node, 1, 2)?;
        Integers::input(node, 1)
    };
    let mut parts = node.output_count();
    let mut uneven = false;
    if node.opset >= 18
        && let Some(count) = node.int("num_outputs")?
    {
        if !matches!(sizes, Integers::Absent) {
            return Err(PrepareError::Attribute {
                attribute: "num_outputs",
                reason: "it cannot be given together with the input of sizes".to_owned(),
            });
        }
        parts = usize::try_from(count)
            .ok()
            .filter(|&count| count > 0 && count >= node.output_count())
            .ok_or_else(|| PrepareError::Attribute {
                attribute: "num_outputs",
                reason: format!("{count} for a node with {} outputs", node.output_count()),
            })?;
        uneven = true;
    }
    Ok(Split {
        axis: node.int("axis")?.unwrap_or(0),
        sizes,
        parts,
        uneven,
        division,
    })
}

fn prepare_split(
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    let division = Division::new("Split", node, context);
    Ok(Box::new(split_of(node, division)?))
}

/// Sizes of the parts of an axis.
fn part_sizes(
    sizes: Option<&[i64]>,
    parts: usize,
    uneven: bool,
    axis: usize,
    size: usize,
) -> Result<SmallVec<[usize; 8]>, KernelError> {
    let fail = |reason: String| {
        Err(KernelError::Other(format!(
            "axis {axis} of size {size} cannot be split: {reason}"
        )))
    };
    match sizes {
        Some(sizes) => {
            let parts: Result<SmallVec<[usize; 8]>, _> =
                sizes.iter().map(|&s| usize::try_from(s)).collect();
            match parts {
                Ok(parts)
                    if parts.iter().try_fold(0usize, |a, &b| a.checked_add(b)) == Some(size) =>
                {
                    Ok(parts)
                }
                _ => fail(format!("parts {sizes:?} do not sum to the size")),
            }
        }
        None if uneven => {
            let each = size.div_ceil(parts);
            let mut rest = size;
            Ok((0..parts)
                .map(|_| {
                    let part = each.min(rest);
                    rest -= part;
                    part
                })
                .collect())
        }
        None if size.is_multiple_of(parts) => Ok(SmallVec::from_elem(size / parts, parts)),
        None => fail(format!("the size is no multiple of the {parts} parts")),
    }
}

impl PreparedKernel for Split {
    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let input = io.input(0)?;
        let dims = input.dims();
        let axis = axis_of(self.axis, dims.len())?;
        let sizes = self.sizes.read(io)?;
        let sizes = part_sizes(sizes.as_deref(), self.parts, self.uneven, axis, dims[axis])?;
        if sizes.len() < io.output_count() {
            return Err(shape_error(
                &[dims],
                format!("{} parts for {} outputs", sizes.len(), io.output_count()),
            ));
        }
        let shapes: SmallVec<[Shape; 4]> = sizes
            .iter()
            .map(|&size| {
                let mut shape = Shape::new(dims);
                shape.dims_mut()[axis] = size;
                shape
            })
            .collect();
        let specifications: SmallVec<[(ElementType, &[usize]); 4]> = shapes
            .iter()
            .map(|shape| (input.element_type(), shape.dims()))
            .collect();
        let execution = self.division.execution(input.len(), lanes);
        let mut outputs = io.all_outputs(&specifications)?;
        Ok(split(input, axis, &mut outputs, &execution)?)
    }
}

fn infer_split(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let element_type = context.element_type(0)?;
    let by_attribute = context.node.opset < 13;
    let outputs = context.node.output_count();
    let mut parts = outputs.max(1);
    let mut uneven = false;
    if context.node.opset >= 18
        && let Some(count) = context.node.int("num_outputs")?
    {
        parts = usize::try_from(count).unwrap_or(0).max(1);
        uneven = true;
    }
    let sizes = known_integers(context, by_attribute.then_some("split"), 1);
    let axis = context.node.int("axis")?.unwrap_or(0);
    let Some(dims) = context.dims(0) else {
        for index in 0..outputs {
            context.set_output(index, element_type, None);
        }
        return Ok(());
    };
    let axis = resolve_axis(axis, dims.len())?;
    let known: Option<Vec<usize>> = match (dims[axis].known(), sizes) {
        (Some(size), Ok(sizes)) => Some(
            part_sizes(sizes.as_deref(), parts, uneven, axis, size)
                .map_err(|e| InferError::Shapes(e.to_string()))?
                .to_vec(),
        ),
        (None, Ok(Some(sizes))) => sizes.iter().map(|&s| usize::try_from(s).ok()).collect(),
        _ => None,
    };
    for index in 0..outputs {
        let mut dims = dims.to_vec();
        dims[axis] = known
            .as_ref()
            .and_then(|sizes| sizes.get(index))
            .map_or(Dim::Unknown, |&size| Dim::Known(size));
        context.set_output(index, element_type, Some(dims));
    }
    Ok(())
}

fn split_examples(element_type: ElementType, size: usize) -> Vec<Example> {
    let rows = (size / 192).max(1);
    let mut example = Example::new(
        "three",
        vec![ExampleInput::random(element_type, &[rows, 192])],
    )
    .with_attribute("axis", Attribute::Int(1));
    example.outputs = 3;
    vec![example]
}
