//! BatchNormalization, InstanceNormalization, GroupNormalization, MeanVarianceNormalization, LpNormalization.

use super::{Division, along, entry, last_axis_examples};
use crate::infer::same_as_first;
use crate::movement::support::{axis_flags, check_inputs, shape_error};
use crate::{
    Example, ExampleInput, InferContext, InferError, KernelEntry, KernelError, KernelIo,
    PrepareContext, PrepareError, PreparedKernel,
};
use onl_executor::Lanes;
use onl_ir::{Attribute, Dim, NodeView};
use onl_reduce::{
    BatchNorm, CHANNELS, COLUMNS, GroupNorm, ROWS, Standardization, Training, batch_norm,
    batch_norm_workspace, group_norm, group_norm_workspace, lp_normalize, lp_normalize_workspace,
    standardize, standardize_workspace,
};
use onl_tensor::{ElementType, Shape, TensorView};
use smallvec::SmallVec;

pub(super) fn entries() -> Vec<KernelEntry> {
    let batch = KernelEntry {
        regions: const { &[&CHANNELS, &ROWS, &COLUMNS] },
        coverage: super::CALIBRATABLE,
        ..entry(
            "BatchNormalization",
            (7, i64::MAX),
            prepare_batch,
            infer_batch,
            batch_examples,
        )
    };
    let instance = KernelEntry {
        coverage: super::TUNABLE,
        ..entry(
            "InstanceNormalization",
            (1, i64::MAX),
            |node, context| prepare_group("InstanceNormalization", node, context),
            same_as_first,
            |element_type, size| {
                let shapes = [
                    ("image", vec![2, (size / 288).max(1), 12, 12]),
                    ("large_image", vec![1, 1, size.div_ceil(64), 64]),
                ];
                shapes
                    .map(|(name, dims)| channel_example(name, element_type, &dims, 2, dims[1]))
                    .to_vec()
            },
        )
    };
    let instance = KernelEntry {
        regions: batch.regions,
        ..instance
    };
    let group = KernelEntry {
        op_type: "GroupNormalization",
        opsets: (18, 20),
        prepare: |node, context| prepare_group("GroupNormalization", node, context),
        examples: |element_type, size| group_examples(element_type, size, false),
        ..instance.clone()
    };
    let group_by_channel = KernelEntry {
        opsets: (21, i64::MAX),
        examples: |element_type, size| group_examples(element_type, size, true),
        ..group.clone()
    };
    let deviation = KernelEntry {
        op_type: "MeanVarianceNormalization",
        opsets: (9, i64::MAX),
        prepare: prepare_deviation,
        examples: |element_type, size| {
            let dims = [2, 3, (size / 96).max(1), 16];
            let input = || vec![ExampleInput::random(element_type, &dims)];
            vec![
                Example::new("channels", input()),
                Example::new("rows", input()).with_attribute("axes", Attribute::Ints(vec![-1])),
                Example::new("columns", input()).with_attribute("axes", Attribute::Ints(vec![0])),
            ]
        },
        ..instance.clone()
    };
    let norm = KernelEntry {
        op_type: "LpNormalization",
        opsets: (1, i64::MAX),
        prepare: prepare_norm,
        examples: |element_type, size| {
            let mut examples = last_axis_examples(element_type, size);
            examples.push(
                Example::new(
                    "first_axis",
                    vec![ExampleInput::random(
                        element_type,
                        &[(size / 64).max(1), 64],
                    )],
                )
                .with_attribute("axis", Attribute::Int(0))
                .with_attribute("p", Attribute::Int(1)),
            );
            examples
        },
        ..instance.clone()
    };
    vec![batch, instance, group, group_by_channel, deviation, norm]
}

/// Batch, channels, and elements of a channel; a single axis is the batch of one channel.
fn channels(dims: &[usize]) -> Result<[usize; 3], KernelError> {
    match dims {
        [] => Err(shape_error(&[dims], "a scalar has no channels")),
        [batch] => Ok([*batch, 1, 1]),
        [batch, channels, inner @ ..] => Ok([*batch, *channels, inner.iter().product()]),
    }
}

struct Batch {
    epsilon: f32,
    training: Option<Training>,
    /// Whether all axes but the first are one of channels (`spatial` of versions before 9).
    flat: bool,
    element_type: ElementType,
    division: Division,
}

fn prepare_batch(
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 5, 5)?;
    let modern = node.opset >= 14;
    let training = modern && node.int("training_mode")?.unwrap_or(0) != 0;
    let outputs = if training { 3 } else { 1 };
    if node.output_count() > outputs {
        return Err(PrepareError::Arity {
            what: "number of",
            expected: if modern {
                format!("at most {outputs} outputs under this training_mode")
            } else {
                "1 output; training is served from operator set 14 on".to_owned()
            },
            actual: node.output_count(),
        });
    }
    let momentum = node.float("momentum")?.unwrap_or(0.9);
    Ok(Box::new(Batch {
        epsilon: node.float("epsilon")?.unwrap_or(1e-5),
        training: training.then_some(Training { momentum }),
        flat: node.opset < 9 && node.int("spatial")?.unwrap_or(1) == 0,
        element_type: node.input_element_type(0).unwrap_or(ElementType::Float64),
        division: Division::new("BatchNormalization", node, context),
    }))
}

impl Batch {
    fn shape(&self, dims: &[usize]) -> Result<[usize; 3], KernelError> {
        let [batch, channels, inner] = channels(dims)?;
        Ok(if self.flat {
            [batch, channels * inner, 1]
        } else {
            [batch, channels, inner]
        })
    }
}

impl PreparedKernel for Batch {
    fn workspace(&self, input_dims: &[&[usize]], _: usize) -> usize {
        let dims = input_dims.first().copied().unwrap_or(&[]);
        self.shape(dims).map_or(0, |shape| {
            batch_norm_workspace(self.element_type, shape, self.training.is_some())
        })
    }

    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let input = io.input(0)?;
        let norm = BatchNorm {
            shape: self.shape(input.dims())?,
            epsilon: self.epsilon,
            scale: io.input(1)?,
            bias: io.input(2)?,
            mean: io.input(3)?,
            variance: io.input(4)?,
            training: self.training,
        };
        let execution = self.division.execution(input.len(), lanes);
        let statistics = [norm.shape[1]];
        let specifications: [(ElementType, &[usize]); 3] = [
            (input.element_type(), input.dims()),
            (norm.mean.element_type(), &statistics),
            (norm.variance.element_type(), &statistics),
        ];
        let (outputs, workspace) = io.all_outputs_and_workspace(&specifications)?;
        let mut outputs = outputs.into_iter();
        let mut output = outputs
            .next()
            .ok_or_else(|| KernelError::Other("the node has no output to write to".to_owned()))?;
        let mut running: SmallVec<[_; 2]> = outputs.collect();
        let running = match running.as_mut_slice() {
            [mean, variance] => Some([mean, variance]),
            [] => None,
            _ => {
                return Err(KernelError::Other(
                    "running mean and running variance are given together".to_owned(),
                ));
            }
        };
        Ok(batch_norm(
            input,
            &norm,
            &mut output,
            running,
            workspace,
            &execution,
        )?)
    }
}

fn infer_batch(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let element_type = context.element_type(0)?;
    let dims = context.dims(0).map(<[Dim]>::to_vec);
    context.set_output(0, element_type, dims);
    for (output, input) in [(1, 3), (2, 4)] {
        let element_type = context.element_type(input)?;
        let dims = context.dims(input).map(<[Dim]>::to_vec);
        context.set_output(output, element_type, dims);
    }
    Ok(())
}

/// A node with `parameters` constant inputs of one value per channel.
fn channel_example(
    name: &'static str,
    element_type: ElementType,
    dims: &[usize],
    parameters: usize,
    values: usize,
) -> Example {
    let mut inputs = vec![ExampleInput::random(element_type, dims)];
    inputs.extend((0..parameters).map(|_| ExampleInput::Uniform {
        element_type,
        shape: Shape::new(&[values]),
        low: 0.5,
        high: 1.5,
    }));
    Example::new(name, inputs)
}

fn batch_examples(element_type: ElementType, size: usize) -> Vec<Example> {
    let image = [1, 8, size.div_ceil(128).max(1), 16];
    let features = [size.div_ceil(128), 128];
    vec![
        channel_example("image", element_type, &image, 4, 8),
        channel_example("features", element_type, &features, 4, 128),
    ]
}

fn group_examples(element_type: ElementType, size: usize, by_channel: bool) -> Vec<Example> {
    let dims = [2, 8, size.div_ceil(192), 12];
    let values = if by_channel { 8 } else { 4 };
    let few = [1, 2, size.div_ceil(2)];
    let two = if by_channel { 2 } else { 1 };
    vec![
        channel_example("image", element_type, &dims, 2, values)
            .with_attribute("num_groups", Attribute::Int(4)),
        channel_example("one_group", element_type, &few, 2, two)
            .with_attribute("num_groups", Attribute::Int(1)),
    ]
}

struct Group {
    epsilon: f32,
    /// Groups; none for one group per channel.
    groups: Option<usize>,
    /// Whether scale and bias have one value per group.
    by_group: bool,
    element_type: ElementType,
    division: Division,
}

fn prepare_group(
    op_type: &'static str,
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 3, 3)?;
    let grouped = op_type == "GroupNormalization";
    let groups = if grouped {
        let groups = node.int("num_groups")?.unwrap_or(0);
        let groups = usize::try_from(groups).ok().filter(|&g| g > 0);
        Some(groups.ok_or_else(|| PrepareError::Attribute {
            attribute: "num_groups",
            reason: "a positive number of groups is required".to_owned(),
        })?)
    } else {
        None
    };
    if grouped {
        super::check_stash_type(node)?;
    }
    Ok(Box::new(Group {
        epsilon: node.float("epsilon")?.unwrap_or(1e-5),
        groups,
        by_group: grouped && node.opset < 21,
        element_type: node.input_element_type(0).unwrap_or(ElementType::Float64),
        division: Division::new(op_type, node, context),
    }))
}

impl PreparedKernel for Group {
    fn workspace(&self, input_dims: &[&[usize]], _: usize) -> usize {
        let dims = input_dims.first().copied().unwrap_or(&[]);
        channels(dims).map_or(0, |shape| {
            group_norm_workspace(self.element_type, shape, self.groups.unwrap_or(shape[1]))
        })
    }

    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let input = io.input(0)?;
        let dims = input.dims();
        let shape = channels(dims)?;
        if dims.len() < 2 {
            return Err(shape_error(
                &[dims],
                "axes of batch and channels are required",
            ));
        }
        let groups = self.groups.unwrap_or(shape[1]);
        let (scale, bias) = (io.input(1)?, io.input(2)?);
        let expected = if self.by_group { groups } else { shape[1] };
        let fits = |p: &TensorView<'_>| p.len() == expected;
        if !fits(&scale) || !fits(&bias) {
            return Err(shape_error(
                &[dims, scale.dims(), bias.dims()],
                format!("scale and bias must have {expected} values"),
            ));
        }
        let execution = self.division.execution(input.len(), lanes);
        let (mut output, workspace) = io.output_and_workspace(0, input.element_type(), dims)?;
        if input.is_empty() {
            return Ok(());
        }
        let norm = GroupNorm {
            shape,
            groups,
            epsilon: self.epsilon,
            scale,
            bias,
        };
        Ok(group_norm(
            input,
            &norm,
            &mut output,
            workspace,
            &execution,
        )?)
    }
}

struct Deviation {
    axes: SmallVec<[i64; 8]>,
    element_type: ElementType,
    division: Division,
}

fn prepare_deviation(
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 1, 1)?;
    Ok(Box::new(Deviation {
        axes: SmallVec::from_slice(node.ints("axes")?.unwrap_or(&[0, 2, 3])),
        element_type: node.input_element_type(0).unwrap_or(ElementType::Float64),
        division: Division::new("MeanVarianceNormalization", node, context),
    }))
}

impl PreparedKernel for Deviation {
    fn workspace(&self, input_dims: &[&[usize]], _: usize) -> usize {
        let dims = input_dims.first().copied().unwrap_or(&[]);
        axis_flags(&self.axes, dims.len()).map_or(0, |flags| {
            standardize_workspace(self.element_type, dims, &flags)
        })
    }

    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let input = io.input(0)?;
        let flags = axis_flags(&self.axes, input.rank())?;
        // What the operator's text adds to the deviation.
        let how = Standardization {
            axes: &flags,
            epsilon: 1e-9,
        };
        let execution = self.division.execution(input.len(), lanes);
        let (mut output, workspace) =
            io.output_and_workspace(0, input.element_type(), input.dims())?;
        Ok(standardize(
            input,
            &how,
            &mut output,
            workspace,
            &execution,
        )?)
    }
}

struct Norm {
    axis: i64,
    euclidean: bool,
    element_type: ElementType,
    division: Division,
}

fn prepare_norm(
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 1, 1)?;
    let euclidean = match node.int("p")?.unwrap_or(2) {
        1 => false,
        2 => true,
        p => {
            return Err(PrepareError::Attribute {
                attribute: "p",
                reason: format!("the norm is 1 or 2, not {p}"),
            });
        }
    };
    Ok(Box::new(Norm {
        axis: node.int("axis")?.unwrap_or(-1),
        euclidean,
        element_type: node.input_element_type(0).unwrap_or(ElementType::Float64),
        division: Division::new("LpNormalization", node, context),
    }))
}

impl PreparedKernel for Norm {
    fn workspace(&self, input_dims: &[&[usize]], _: usize) -> usize {
        let dims = input_dims.first().copied().unwrap_or(&[]);
        along(dims, self.axis).map_or(0, |shape| lp_normalize_workspace(self.element_type, shape))
    }

    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let input = io.input(0)?;
        let shape = along(input.dims(), self.axis)?;
        let execution = self.division.execution(input.len(), lanes);
        let (mut output, workspace) =
            io.output_and_workspace(0, input.element_type(), input.dims())?;
        Ok(lp_normalize(
            input,
            shape,
            self.euclidean,
            &mut output,
            workspace,
            &execution,
        )?)
    }
}
