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
use onl_reduce::{LayerNorm, NORMALIZATION, layer_norm};
use onl_tensor::{ElementType, Shape, TensorView};
use smallvec::SmallVec;

pub(super) fn entries() -> Vec<KernelEntry> {
    let layer = KernelEntry {
        regions: const { &[&NORMALIZATION] },
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
        division: Division::new(op_type, node, context),
    }))
}

/// Whether a parameter has one element per element of a row, or one element: the broadcasts that are served.
fn check_parameter(
    index: usize,
    parameter: &TensorView<'_>,
    input: &TensorView<'_>,
    row: &[usize],
) -> Result<(), KernelError> {
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
    let mut dims = parameter.dims();
    while dims.len() > row.len() && dims[0] == 1 {
        dims = &dims[1..];
    }
    let padded = row
        .len()
        .checked_sub(dims.len())
        .is_some_and(|missing| row[..missing].iter().all(|&d| d == 1) && row[missing..] == *dims);
    if padded || parameter.len() == 1 {
        return Ok(());
    }
    Err(shape_error(
        &[input.dims(), parameter.dims()],
        format!("input {index} must have the shape {row:?} of the normalized axes, or one element"),
    ))
}

impl PreparedKernel for Normalization {
    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let (input, scale, bias) = (io.input(0)?, io.input(1)?, io.optional_input(2));
        let dims = input.dims();
        let axis = axis_of(self.axis, dims.len())?;
        let (outer, row) = dims.split_at(axis);
        check_parameter(1, &scale, &input, row)?;
        if let Some(bias) = &bias {
            check_parameter(2, bias, &input, row)?;
        }
        let mut statistics = Shape::new(outer);
        for _ in row {
            statistics.push(1);
        }
        let norm = LayerNorm {
            length: row.iter().product(),
            epsilon: self.epsilon,
            centre: self.centre,
            scale,
            bias,
        };
        let execution = self.division.execution(input.len(), lanes);
        let specifications: [(ElementType, &[usize]); 3] = [
            (input.element_type(), dims),
            (ElementType::Float32, &statistics),
            (ElementType::Float32, &statistics),
        ];
        let mut outputs = io.all_outputs(&specifications)?.into_iter();
        let mut output = outputs
            .next()
            .ok_or_else(|| KernelError::Other("the node has no output to write to".to_owned()))?;
        let mut statistics: SmallVec<[_; 2]> = outputs.collect();
        if norm.length == 0 {
            // Rows without elements: the mean of nothing is NaN.
            for statistic in &mut statistics {
                statistic.as_slice_mut::<f32>()?.fill(f32::NAN);
            }
            return Ok(());
        }
        let mut slices = statistics.iter_mut();
        let mean = slices.next().map(|m| m.as_slice_mut::<f32>()).transpose()?;
        let deviation = slices.next().map(|d| d.as_slice_mut::<f32>()).transpose()?;
        Ok(layer_norm(
            input,
            &norm,
            &mut output,
            mean,
            deviation,
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
    let parameter = ExampleInput::Random {
        element_type,
        shape: Shape::new(&[768]),
        constant: true,
    };
    vec![Example::new(
        "hidden",
        vec![
            ExampleInput::random(element_type, &[(size / 768).max(1), 768]),
            parameter.clone(),
            parameter,
        ],
    )]
}
