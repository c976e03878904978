//! Slice, Gather, GatherElements, GatherND, ReverseSequence.

use super::support::{BYTE_TYPES, Integers, axis_of, check_inputs, known_integers, shape_error};
use super::{CALIBRATED_TYPES, Division, calibrated, entry, without_calibrated};
use crate::infer::{resolve_axis, same_as_first};
use crate::{
    Example, ExampleInput, InferContext, InferError, KernelEntry, KernelError, KernelIo,
    PrepareContext, PrepareError, PreparedKernel, ShapeDependence,
};
use onl_executor::Lanes;
use onl_ir::{Attribute, Dim, NodeView};
use onl_movement::{
    GATHER, STRIDED, SliceAxis, gather, gather_elements, gather_nd, reverse_sequence, slice,
};
use onl_tensor::{ElementType, Shape, Tensor};
use smallvec::SmallVec;
use std::sync::Arc;

pub(super) fn entries() -> Vec<KernelEntry> {
    let slice = KernelEntry {
        regions: const { &[&STRIDED] },
        ..entry(
            "Slice",
            (1, 9),
            prepare_slice,
            infer_slice,
            slice_examples_1,
        )
    };
    let gather = KernelEntry {
        regions: const { &[&GATHER] },
        ..entry(
            "Gather",
            (1, i64::MAX),
            prepare_gather,
            infer_gather,
            gather_examples,
        )
    };
    let gathers = [
        gather.clone(),
        KernelEntry {
            op_type: "GatherElements",
            opsets: (11, i64::MAX),
            prepare: prepare_gather_elements,
            infer: infer_gather_elements,
            examples: gather_elements_examples,
            ..gather.clone()
        },
        KernelEntry {
            op_type: "GatherND",
            opsets: (11, i64::MAX),
            prepare: prepare_gather_nd,
            infer: infer_gather_nd,
            examples: gather_nd_examples,
            ..gather
        },
    ];
    const REST: usize = BYTE_TYPES.len() - CALIBRATED_TYPES.len();
    let gathers = gathers
        .into_iter()
        .flat_map(|entry| calibrated(entry, const { &without_calibrated::<REST>(BYTE_TYPES) }));
    let others = [
        slice.clone(),
        KernelEntry {
            opsets: (10, i64::MAX),
            shape_dependence: ShapeDependence::Values(&[1, 2, 3, 4]),
            examples: slice_examples_10,
            ..slice
        },
        KernelEntry {
            regions: const { &[&STRIDED] },
            ..entry(
                "ReverseSequence",
                (10, i64::MAX),
                prepare_reverse,
                same_as_first,
                reverse_examples,
            )
        },
    ];
    others.into_iter().chain(gathers).collect()
}

struct Slice {
    starts: Integers,
    ends: Integers,
    axes: Integers,
    steps: Integers,
    division: Division,
}

fn prepare_slice(
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    let division = Division::new("Slice", node, context);
    if node.opset >= 10 {
        check_inputs(node, 3, 5)?;
        return Ok(Box::new(Slice {
            starts: Integers::Input(1),
            ends: Integers::Input(2),
            axes: Integers::input(node, 3),
            steps: Integers::input(node, 4),
            division,
        }));
    }
    check_inputs(node, 1, 1)?;
    let required = |name: &'static str| match Integers::attribute(node, name)? {
        Integers::Absent => Err(PrepareError::Attribute {
            attribute: name,
            reason: "the attribute is required".to_owned(),
        }),
        values => Ok(values),
    };
    Ok(Box::new(Slice {
        starts: required("starts")?,
        ends: required("ends")?,
        axes: Integers::attribute(node, "axes")?,
        steps: Integers::Absent,
        division,
    }))
}

/// For each sliced axis: axis, start, end, step.
fn slice_requests(
    starts: &[i64],
    ends: &[i64],
    axes: Option<&[i64]>,
    steps: Option<&[i64]>,
    rank: usize,
) -> Result<SmallVec<[(usize, i64, i64, i64); 8]>, KernelError> {
    let count = starts.len();
    let lengths = [
        ends.len(),
        axes.map_or(count, <[i64]>::len),
        steps.map_or(count, <[i64]>::len),
    ];
    if lengths.iter().any(|&length| length != count) {
        return Err(KernelError::Other(format!(
            "starts, ends, axes and steps must have one length, they have {count}, {}, {} and {}",
            lengths[0], lengths[1], lengths[2]
        )));
    }
    let mut seen: SmallVec<[bool; 8]> = SmallVec::from_elem(false, rank);
    (0..count)
        .map(|i| {
            let axis = axis_of(axes.map_or(i as i64, |axes| axes[i]), rank)?;
            if std::mem::replace(&mut seen[axis], true) {
                return Err(KernelError::Other(format!("axis {axis} is sliced twice")));
            }
            let step = steps.map_or(1, |steps| steps[i]);
            if step == 0 {
                return Err(KernelError::Other(format!(
                    "the step of axis {axis} is 0; steps are positive or negative"
                )));
            }
            Ok((axis, starts[i], ends[i], step))
        })
        .collect()
}

impl PreparedKernel for Slice {
    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let input = io.input(0)?;
        let dims = input.dims();
        let requests = slice_requests(
            &self.starts.read(io)?.unwrap_or_default(),
            &self.ends.read(io)?.unwrap_or_default(),
            self.axes.read(io)?.as_deref(),
            self.steps.read(io)?.as_deref(),
            dims.len(),
        )?;
        let mut parts: SmallVec<[SliceAxis; 8]> =
            dims.iter().map(|&size| SliceAxis::whole(size)).collect();
        for &(axis, start, end, step) in &requests {
            parts[axis] =
                SliceAxis::clamped(start, end, step, dims[axis]).expect("steps of 0 were refused");
        }
        let shape: Shape = parts.iter().map(|p| p.length).collect();
        if *shape == *dims && requests.iter().all(|r| r.3 == 1) {
            io.alias_output(0, 0, shape);
            return Ok(());
        }
        let mut output = io.output(0, input.element_type(), &shape)?;
        let execution = self.division.execution(output.len(), lanes);
        Ok(slice(input, &parts, &mut output, &execution)?)
    }
}

fn infer_slice(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let element_type = context.element_type(0)?;
    let Some(dims) = context.dims(0) else {
        context.set_output(0, element_type, None);
        return Ok(());
    };
    let old = context.node.opset < 10;
    let name = |name: &'static str| old.then_some(name);
    let starts = known_integers(context, name("starts"), 1);
    let ends = known_integers(context, name("ends"), 2);
    let axes = known_integers(context, name("axes"), 3);
    let steps = if old {
        Ok(None)
    } else {
        known_integers(context, None, 4)
    };
    let mut result = dims.to_vec();
    match (starts, ends, axes, steps) {
        (Ok(Some(starts)), Ok(Some(ends)), Ok(axes), Ok(steps)) => {
            let requests = slice_requests(
                &starts,
                &ends,
                axes.as_deref(),
                steps.as_deref(),
                dims.len(),
            )
            .map_err(|e| InferError::Shapes(e.to_string()))?;
            for (axis, start, end, step) in requests {
                result[axis] = match &dims[axis] {
                    Dim::Known(size) => SliceAxis::clamped(start, end, step, *size)
                        .map_or(Dim::Unknown, |part| Dim::Known(part.length)),
                    // From the first element to beyond any size, forwards: the whole axis.
                    dim if start == 0 && step == 1 && end >= i64::from(i32::MAX) => dim.clone(),
                    _ => Dim::Unknown,
                };
            }
        }
        (_, _, Ok(Some(axes)), _) => {
            for axis in axes {
                result[resolve_axis(axis, dims.len())?] = Dim::Unknown;
            }
        }
        _ => result.fill(Dim::Unknown),
    }
    context.set_output(0, element_type, Some(result));
    Ok(())
}

fn slice_input(element_type: ElementType, size: usize) -> ExampleInput {
    ExampleInput::random(element_type, &[(size / 64).max(1), 128])
}

fn slice_examples_1(element_type: ElementType, size: usize) -> Vec<Example> {
    vec![
        Example::new("columns", vec![slice_input(element_type, size)])
            .with_attribute("starts", Attribute::Ints(vec![32]))
            .with_attribute("ends", Attribute::Ints(vec![96]))
            .with_attribute("axes", Attribute::Ints(vec![1])),
    ]
}

fn slice_examples_10(element_type: ElementType, size: usize) -> Vec<Example> {
    let example = |name, start: i64, end: i64, step: i64| {
        Example::new(
            name,
            vec![
                slice_input(element_type, size),
                ExampleInput::integers(&[start]),
                ExampleInput::integers(&[end]),
                ExampleInput::integers(&[1]),
                ExampleInput::integers(&[step]),
            ],
        )
    };
    vec![
        example("columns", 32, 96, 1),
        example("steps", 127, -1000, -2),
    ]
}

struct Gather {
    axis: i64,
    division: Division,
}

fn prepare_gather(
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 2, 2)?;
    Ok(Box::new(Gather {
        axis: node.int("axis")?.unwrap_or(0),
        division: Division::new("Gather", node, context),
    }))
}

impl PreparedKernel for Gather {
    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let (input, indices) = (io.input(0)?, io.input(1)?);
        let dims = input.dims();
        let axis = axis_of(self.axis, dims.len())?;
        let shape: Shape = dims[..axis]
            .iter()
            .chain(indices.dims())
            .chain(&dims[axis + 1..])
            .copied()
            .collect();
        let mut output = io.output(0, input.element_type(), &shape)?;
        let execution = self.division.execution(output.len(), lanes);
        Ok(gather(input, indices, axis, &mut output, &execution)?)
    }
}

fn infer_gather(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let element_type = context.element_type(0)?;
    let axis = context.node.int("axis")?.unwrap_or(0);
    let dims = match (context.dims(0), context.dims(1)) {
        (Some(dims), Some(indices)) => {
            let axis = resolve_axis(axis, dims.len())?;
            let parts = dims[..axis].iter().chain(indices).chain(&dims[axis + 1..]);
            Some(parts.cloned().collect())
        }
        _ => None,
    };
    context.set_output(0, element_type, dims);
    Ok(())
}

fn counting(count: usize, below: usize) -> ExampleInput {
    // A stride that shares no factor with powers of two visits rows in no order.
    let values: Vec<i64> = (0..count)
        .map(|i| (i * 7919 % below.max(1)) as i64)
        .collect();
    ExampleInput::integers(&values)
}

fn gather_examples(element_type: ElementType, size: usize) -> Vec<Example> {
    let rows = (size / 256).max(1);
    vec![
        Example::new(
            "rows",
            vec![
                ExampleInput::random(element_type, &[512, 256]),
                counting(rows, 512),
            ],
        ),
        Example::new(
            "columns",
            vec![
                ExampleInput::random(element_type, &[rows, 256]),
                counting(256, 256),
            ],
        )
        .with_attribute("axis", Attribute::Int(1)),
    ]
}

struct GatherElements {
    axis: i64,
    division: Division,
}

fn prepare_gather_elements(
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 2, 2)?;
    Ok(Box::new(GatherElements {
        axis: node.int("axis")?.unwrap_or(0),
        division: Division::new("GatherElements", node, context),
    }))
}

impl PreparedKernel for GatherElements {
    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let (input, indices) = (io.input(0)?, io.input(1)?);
        let axis = axis_of(self.axis, input.rank())?;
        let execution = self.division.execution(indices.len(), lanes);
        let mut output = io.output(0, input.element_type(), indices.dims())?;
        Ok(gather_elements(
            input,
            indices,
            axis,
            &mut output,
            &execution,
        )?)
    }
}

fn infer_gather_elements(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let element_type = context.element_type(0)?;
    let dims = context.dims(1).map(<[Dim]>::to_vec);
    context.set_output(0, element_type, dims);
    Ok(())
}

fn gather_elements_examples(element_type: ElementType, size: usize) -> Vec<Example> {
    let rows = (size / 64).max(1);
    let values: Vec<i64> = (0..rows * 64).map(|i| (i * 31 % 64) as i64).collect();
    let indices = Tensor::from_slice(&[rows, 64], &values).expect("as many indices as elements");
    vec![
        Example::new(
            "inner",
            vec![
                ExampleInput::random(element_type, &[rows, 64]),
                ExampleInput::Constant(Arc::new(indices)),
            ],
        )
        .with_attribute("axis", Attribute::Int(1)),
    ]
}

struct GatherNd {
    batch_dims: usize,
    division: Division,
}

fn batch_dims(node: &NodeView<'_>) -> Result<usize, PrepareError> {
    let value = node.int("batch_dims")?.unwrap_or(0);
    usize::try_from(value).map_err(|_| PrepareError::Attribute {
        attribute: "batch_dims",
        reason: format!("{value} is negative"),
    })
}

fn prepare_gather_nd(
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 2, 2)?;
    Ok(Box::new(GatherNd {
        batch_dims: batch_dims(node)?,
        division: Division::new("GatherND", node, context),
    }))
}

impl PreparedKernel for GatherNd {
    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let (input, indices) = (io.input(0)?, io.input(1)?);
        let (dims, tuples) = (input.dims(), indices.dims());
        let depth = tuples.last().copied().unwrap_or(0);
        let fixed = self.batch_dims.saturating_add(depth);
        if tuples.is_empty() || fixed > dims.len() {
            return Err(shape_error(
                &[dims, tuples],
                format!(
                    "tuples of {depth} indices do not fit after {} batch axes",
                    self.batch_dims
                ),
            ));
        }
        let shape: Shape = tuples[..tuples.len() - 1]
            .iter()
            .chain(&dims[fixed..])
            .copied()
            .collect();
        let mut output = io.output(0, input.element_type(), &shape)?;
        let execution = self.division.execution(output.len(), lanes);
        Ok(gather_nd(
            input,
            indices,
            self.batch_dims,
            &mut output,
            &execution,
        )?)
    }
}

fn infer_gather_nd(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let element_type = context.element_type(0)?;
    let batch = batch_dims(&context.node)?;
    let dims = match (context.dims(0), context.dims(1)) {
        (Some(dims), Some([leading @ .., Dim::Known(depth)])) => {
            let fixed = batch.saturating_add(*depth);
            let rest = dims.get(fixed..).ok_or_else(|| {
                InferError::Shapes(format!(
                    "tuples of {depth} indices do not fit after {batch} batch axes of a tensor of rank {}",
                    dims.len()
                ))
            })?;
            Some(leading.iter().chain(rest).cloned().collect())
        }
        _ => None,
    };
    context.set_output(0, element_type, dims);
    Ok(())
}

fn gather_nd_examples(element_type: ElementType, size: usize) -> Vec<Example> {
    let rows = (size / 64).max(1);
    let values: Vec<i64> = (0..rows)
        .flat_map(|i| [(i * 7 % 16) as i64, (i * 13 % 16) as i64])
        .collect();
    let indices = Tensor::from_slice(&[rows, 2], &values).expect("two indices a row");
    vec![Example::new(
        "pairs",
        vec![
            ExampleInput::random(element_type, &[16, 16, 64]),
            ExampleInput::Constant(Arc::new(indices)),
        ],
    )]
}

struct ReverseSequence {
    time: usize,
    division: Division,
}

fn prepare_reverse(
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 2, 2)?;
    let time = node.int("time_axis")?.unwrap_or(0);
    let batch = node.int("batch_axis")?.unwrap_or(1);
    if !matches!((time, batch), (0, 1) | (1, 0)) {
        return Err(PrepareError::Attribute {
            attribute: "time_axis",
            reason: format!(
                "time and batch axis must be 0 and 1 or 1 and 0, not {time} and {batch}"
            ),
        });
    }
    Ok(Box::new(ReverseSequence {
        time: time as usize,
        division: Division::new("ReverseSequence", node, context),
    }))
}

impl PreparedKernel for ReverseSequence {
    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let (input, lengths) = (io.input(0)?, io.input(1)?);
        let execution = self.division.execution(input.len(), lanes);
        let mut output = io.output(0, input.element_type(), input.dims())?;
        Ok(reverse_sequence(
            input,
            lengths,
            self.time,
            &mut output,
            &execution,
        )?)
    }
}

fn reverse_examples(element_type: ElementType, size: usize) -> Vec<Example> {
    let steps = (size / 256).max(1);
    let lengths: Vec<i64> = (0..4).map(|b| (steps / (b + 1)) as i64).collect();
    vec![Example::new(
        "batch",
        vec![
            ExampleInput::random(element_type, &[steps, 4, 64]),
            ExampleInput::integers(&lengths),
        ],
    )]
}
