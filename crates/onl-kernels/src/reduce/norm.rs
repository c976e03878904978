//! LayerNormalization and RMSNormalization.

use super::{Division, entry};
use crate::infer::resolve_axis;
use crate::movement::support::{axis_of, check_inputs, shape_error};
use crate::{
    Example, ExampleInput, InferContext, InferError, KernelEntry, KernelError, KernelIo,
    PrepareContext, PrepareError, PreparedKernel,
};
use onl_executor::Lanes;
use onl_ir::{Dim, NodeView};
use onl_reduce::{LayerNorm, NORMALIZATION, ROWS, layer_norm, layer_norm_workspace};
use onl_tensor::{ElementType, Shape, TensorView};
use smallvec::SmallVec;

pub(super) fn entries() -> Vec<KernelEntry> {
    let layer = KernelEntry {
        regions: const { &[&NORMALIZATION, &ROWS] },
        coverage: super::CALIBRATABLE,
        ..entry(
            "LayerNormalization",
            (17, i64::MAX),
            |node, context| prepare("LayerNormalization", true, node, context),
            infer,
            examples,
        )
    };
    let root_mean_square = KernelEntry {
        op_type: "RMSNormalization",
        opsets: (23, i64::MAX),
        prepare: |node, context| prepare("RMSNormalization", false, node, context),
        examples: |element_type, size| {
            let mut examples = examples(element_type, size);
            for example in &mut examples {
                example.inputs.truncate(2);
            }
            examples
        },
        ..layer.clone()
    };
    vec![layer, root_mean_square]
}

struct Normalization {
    axis: i64,
    epsilon: f32,
    centre: bool,
    element_type: ElementType,
    division: Division,
}

fn prepare(
    op_type: &'static str,
    centre: bool,
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 2, if centre { 3 } else { 2 })?;
    super::check_stash_type(node)?;
    let outputs = if centre { 3 } else { 1 };
    if node.output_count() > outputs {
        return Err(PrepareError::Arity {
            what: "number of",
            expected: format!("at most {outputs}"),
            actual: node.output_count(),
        });
    }
    Ok(Box::new(Normalization {
        axis: node.int("axis")?.unwrap_or(-1),
        epsilon: node.float("epsilon")?.unwrap_or(1e-5),
        centre,
        element_type: node.input_element_type(0).unwrap_or(ElementType::Float64),
        division: Division::new(op_type, node, context),
    }))
}

/// How a parameter is laid over the elements of a row.
#[derive(Clone, Copy, PartialEq)]
enum Fit {
    /// One element, or one per element of the row.
    Direct,
    /// Some axes of the row are broadcast.
    Broadcast,
    /// Not at all, or differently for different rows.
    None,
}

/// A shape without its leading axes of size 1 beyond a rank.
fn trimmed(mut dims: &[usize], rank: usize) -> &[usize] {
    while dims.len() > rank && dims[0] == 1 {
        dims = &dims[1..];
    }
    dims
}

fn fit(dims: &[usize], row: &[usize]) -> Fit {
    let dims = trimmed(dims, row.len());
    let Some(missing) = row.len().checked_sub(dims.len()) else {
        return Fit::None;
    };
    let same = row[missing..] == *dims && row[..missing].iter().all(|&d| d == 1);
    if same || dims.iter().all(|&d| d == 1) {
        Fit::Direct
    } else if dims
        .iter()
        .zip(&row[missing..])
        .all(|(&d, &r)| d == r || d == 1)
    {
        Fit::Broadcast
    } else {
        Fit::None
    }
}

fn check_parameter(
    index: usize,
    parameter: &TensorView<'_>,
    input: &TensorView<'_>,
    row: &[usize],
) -> Result<Fit, KernelError> {
    if parameter.element_type() != input.element_type() {
        return Err(KernelError::InvalidInput {
            index,
            reason: format!(
                "its elements are {}, those of input 0 {}",
                parameter.element_type(),
                input.element_type()
            ),
        });
    }
    match fit(parameter.dims(), row) {
        Fit::None => Err(shape_error(
            &[input.dims(), parameter.dims()],
            format!(
                "input {index} cannot be broadcast to the shape {row:?} of the normalized axes"
            ),
        )),
        fit => Ok(fit),
    }
}

/// Writes the elements of a parameter as those of a whole row.
fn expand(parameter: &TensorView<'_>, row: &[usize], target: &mut [u8]) {
    let size = parameter.bytes().len() / parameter.len().max(1);
    let dims = trimmed(parameter.dims(), row.len());
    let missing = row.len() - dims.len();
    for (flat, slot) in target.chunks_exact_mut(size.max(1)).enumerate() {
        let (mut rest, mut from, mut step) = (flat, 0, 1);
        for (&extent, &own) in row[missing..].iter().zip(dims).rev() {
            from += rest % extent % own * step;
            rest /= extent;
            step *= own;
        }
        slot.copy_from_slice(&parameter.bytes()[from * size..(from + 1) * size]);
    }
}

impl Normalization {
    /// Bytes of a parameter that is laid out for a whole row, aligned for what follows.
    fn row_bytes(&self, row: &[usize]) -> usize {
        let bytes = onl_tensor::byte_length(self.element_type, row).unwrap_or(0);
        bytes.next_multiple_of(8)
    }
}

impl PreparedKernel for Normalization {
    fn workspace(&self, input_dims: &[&[usize]], _: usize) -> usize {
        let dims = input_dims.first().copied().unwrap_or(&[]);
        axis_of(self.axis, dims.len()).map_or(0, |axis| {
            let (outer, row) = dims.split_at(axis);
            let product = |dims: &[usize]| dims.iter().product::<usize>();
            let parameters = input_dims.iter().skip(1);
            let expanded = parameters.filter(|dims| fit(dims, row) == Fit::Broadcast);
            expanded.count() * self.row_bytes(row)
                + layer_norm_workspace(self.element_type, product(outer), product(row))
        })
    }

    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let (input, scale, bias) = (io.input(0)?, io.input(1)?, io.optional_input(2));
        let dims = input.dims();
        let axis = axis_of(self.axis, dims.len())?;
        let (outer, row) = dims.split_at(axis);
        let scale_fit = check_parameter(1, &scale, &input, row)?;
        let bias_fit = match &bias {
            Some(bias) => check_parameter(2, bias, &input, row)?,
            None => Fit::Direct,
        };
        let mut statistics = Shape::new(outer);
        for _ in row {
            statistics.push(1);
        }
        let length = row.iter().product();
        let execution = self.division.execution(input.len(), lanes);
        let specifications: [(ElementType, &[usize]); 3] = [
            (input.element_type(), dims),
            (ElementType::Float32, &statistics),
            (ElementType::Float32, &statistics),
        ];
        let (outputs, workspace) = io.all_outputs_and_workspace(&specifications)?;
        let mut outputs = outputs.into_iter();
        let mut output = outputs
            .next()
            .ok_or_else(|| KernelError::Other("the node has no output to write to".to_owned()))?;
        let mut statistics: SmallVec<[_; 2]> = outputs.collect();
        if length == 0 {
            // Rows without elements: the mean of nothing is NaN.
            for statistic in &mut statistics {
                statistic.as_slice_mut::<f32>()?.fill(f32::NAN);
            }
            return Ok(());
        }
        let mut slices = statistics.iter_mut();
        let mean = slices.next().map(|m| m.as_slice_mut::<f32>()).transpose()?;
        let deviation = slices.next().map(|d| d.as_slice_mut::<f32>()).transpose()?;
        let bytes = self.row_bytes(row);
        let own = onl_tensor::byte_length(input.element_type(), row)?;
        let mut workspace = workspace;
        let (mut scale, mut bias) = (scale, bias);
        for (parameter, fit) in [(Some(&mut scale), scale_fit), (bias.as_mut(), bias_fit)] {
            if let Some(parameter) = parameter
                && fit == Fit::Broadcast
            {
                let (expanded, rest) = workspace
                    .split_at_mut_checked(bytes)
                    .ok_or_else(|| KernelError::Other("scratch memory is missing".to_owned()))?;
                expand(parameter, row, &mut expanded[..own]);
                *parameter = TensorView::from_bytes(input.element_type(), row, &expanded[..own])?;
                workspace = rest;
            }
        }
        let norm = LayerNorm {
            length,
            epsilon: self.epsilon,
            centre: self.centre,
            scale,
            bias,
        };
        Ok(layer_norm(
            input,
            &norm,
            &mut output,
            mean,
            deviation,
            workspace,
            &execution,
        )?)
    }
}

fn infer(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let element_type = context.element_type(0)?;
    let axis = context.node.int("axis")?.unwrap_or(-1);
    let dims = context.dims(0).map(<[Dim]>::to_vec);
    let statistics = match &dims {
        Some(dims) => {
            let axis = resolve_axis(axis, dims.len())?;
            let mut statistics = dims.clone();
            statistics[axis..].fill(Dim::Known(1));
            Some(statistics)
        }
        None => None,
    };
    context.set_output(0, element_type, dims);
    context.set_output(1, ElementType::Float32, statistics.clone());
    context.set_output(2, ElementType::Float32, statistics);
    Ok(())
}

fn examples(element_type: ElementType, size: usize) -> Vec<Example> {
    let example = |name, dims: [usize; 2]| {
        let parameter = ExampleInput::Random {
            element_type,
            shape: Shape::new(&dims[1..]),
            constant: true,
        };
        let input = ExampleInput::random(element_type, &dims);
        Example::new(name, vec![input, parameter.clone(), parameter])
    };
    vec![
        example("hidden", [(size / 768).max(1), 768]),
        example("one_row", [1, size]),
    ]
}
