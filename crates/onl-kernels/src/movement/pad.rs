//! Pad.

use super::support::{ALL_TYPES, Integers, axis_of, check_inputs, known_integers, shape_error};
use super::{Division, entry};
use crate::{
    Example, ExampleInput, InferContext, InferError, KernelEntry, KernelError, KernelIo,
    PrepareContext, PrepareError, PreparedKernel, ShapeDependence,
};
use onl_executor::Lanes;
use onl_ir::{Attribute, Dim, NodeView};
use onl_movement::{PAD, PadMode, pad};
use onl_tensor::{ElementType, Shape, Tensor, bf16, f16};
use smallvec::SmallVec;
use std::sync::Arc;

pub(super) fn entries() -> Vec<KernelEntry> {
    let base = KernelEntry {
        regions: const { &[&PAD] },
        ..entry("Pad", (2, 10), prepare_pad, infer_pad, examples_2)
    };
    vec![
        KernelEntry {
            element_types: &[
                ElementType::Float32,
                ElementType::Float64,
                ElementType::Float16,
                ElementType::BFloat16,
            ],
            ..base.clone()
        },
        KernelEntry {
            element_types: ALL_TYPES,
            opsets: (11, i64::MAX),
            shape_dependence: ShapeDependence::Values(&[1, 3]),
            examples: examples_11,
            ..base
        },
    ]
}

struct Pad {
    pads: Integers,
    axes: Integers,
    mode: PadMode,
    /// Fill value of an attribute; the input 2 of later versions is read at the run.
    fill: Option<Arc<Tensor>>,
    division: Division,
}

fn mode_of(node: &NodeView<'_>) -> Result<PadMode, PrepareError> {
    match node.string("mode")?.unwrap_or("constant") {
        "constant" => Ok(PadMode::Constant),
        "reflect" => Ok(PadMode::Reflect),
        "edge" => Ok(PadMode::Edge),
        "wrap" if node.opset >= 19 => Ok(PadMode::Wrap),
        other => Err(PrepareError::Attribute {
            attribute: "mode",
            reason: format!(
                "'{other}' is none of constant, reflect, edge and (since version 19) wrap"
            ),
        }),
    }
}

fn prepare_pad(
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    let division = Division::new("Pad", node, context);
    let mode = mode_of(node)?;
    if node.opset >= 11 {
        check_inputs(node, 2, if node.opset >= 18 { 4 } else { 3 })?;
        return Ok(Box::new(Pad {
            pads: Integers::Input(1),
            axes: Integers::input(node, 3),
            mode,
            fill: None,
            division,
        }));
    }
    check_inputs(node, 1, 1)?;
    let pads = Integers::attribute(node, "pads")?;
    if matches!(pads, Integers::Absent) {
        return Err(PrepareError::Attribute {
            attribute: "pads",
            reason: "the attribute is required".to_owned(),
        });
    }
    let value = node.float("value")?.unwrap_or(0.0);
    let fill = match node.input_element_type(0) {
        Some(ElementType::Float64) => Tensor::scalar(f64::from(value)),
        Some(ElementType::Float16) => Tensor::scalar(f16::from_f32(value)),
        Some(ElementType::BFloat16) => Tensor::scalar(bf16::from_f32(value)),
        _ => Tensor::scalar(value),
    }?;
    Ok(Box::new(Pad {
        pads,
        axes: Integers::Absent,
        mode,
        fill: Some(Arc::new(fill)),
        division,
    }))
}

/// Elements added before and after every axis.
fn amounts(
    pads: &[i64],
    axes: Option<&[i64]>,
    rank: usize,
) -> Result<SmallVec<[(isize, isize); 8]>, KernelError> {
    let count = axes.map_or(rank, <[i64]>::len);
    if pads.len() != 2 * count {
        return Err(KernelError::Other(format!(
            "{} pads for {count} axes; two per axis are needed",
            pads.len()
        )));
    }
    let mut result: SmallVec<[(isize, isize); 8]> = SmallVec::from_elem((0, 0), rank);
    for i in 0..count {
        let axis = axis_of(axes.map_or(i as i64, |axes| axes[i]), rank)?;
        result[axis] = (pads[i] as isize, pads[count + i] as isize);
    }
    Ok(result)
}

fn padded(size: usize, (before, after): (isize, isize)) -> Option<usize> {
    let total = size as i128 + before as i128 + after as i128;
    usize::try_from(total).ok()
}

impl PreparedKernel for Pad {
    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let input = io.input(0)?;
        let dims = input.dims();
        let pads = self.pads.read(io)?.unwrap_or_default();
        let amounts = amounts(&pads, self.axes.read(io)?.as_deref(), dims.len())?;
        let shape = dims
            .iter()
            .zip(&amounts)
            .map(|(&size, &amount)| {
                padded(size, amount).ok_or_else(|| {
                    shape_error(&[dims], format!("pads {pads:?} remove more than there is"))
                })
            })
            .collect::<Result<Shape, _>>()?;
        let fill = match &self.fill {
            Some(fill) => Some(fill.view()),
            None => io.optional_input(2),
        };
        if let Some(fill) = &fill
            && (fill.element_type() != input.element_type() || fill.len() != 1)
        {
            return Err(KernelError::InvalidInput {
                index: 2,
                reason: format!(
                    "the fill value must be one element of {}, it is {} of {}",
                    input.element_type(),
                    fill.len(),
                    fill.element_type()
                ),
            });
        }
        let before: SmallVec<[isize; 8]> = amounts.iter().map(|a| a.0).collect();
        let mut output = io.output(0, input.element_type(), &shape)?;
        let execution = self.division.execution(output.len(), lanes);
        Ok(pad(
            input,
            &before,
            self.mode,
            fill,
            &mut output,
            &execution,
        )?)
    }
}

fn infer_pad(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let element_type = context.element_type(0)?;
    let old = context.node.opset < 11;
    let pads = known_integers(context, old.then_some("pads"), 1);
    let axes = if old {
        Ok(None)
    } else {
        known_integers(context, None, 3)
    };
    let dims = match (context.dims(0), pads, axes) {
        (Some(dims), Ok(Some(pads)), Ok(axes)) => {
            let amounts = amounts(&pads, axes.as_deref(), dims.len())
                .map_err(|e| InferError::Shapes(e.to_string()))?;
            let sizes = dims.iter().zip(&amounts);
            Some(
                sizes
                    .map(|(dim, &amount)| match (dim, amount) {
                        (dim, (0, 0)) => Ok(dim.clone()),
                        (Dim::Known(size), amount) => {
                            padded(*size, amount).map(Dim::Known).ok_or_else(|| {
                                InferError::Shapes(format!(
                                    "pads {pads:?} remove more than there is"
                                ))
                            })
                        }
                        _ => Ok(Dim::Unknown),
                    })
                    .collect::<Result<Vec<Dim>, _>>()?,
            )
        }
        (Some(dims), ..) => Some(vec![Dim::Unknown; dims.len()]),
        _ => None,
    };
    context.set_output(0, element_type, dims);
    Ok(())
}

fn image(element_type: ElementType, size: usize) -> ExampleInput {
    let side = ((size as f64 / 4.0).sqrt() as usize).max(3);
    ExampleInput::random(element_type, &[1, 4, side, side])
}

const BORDER: [i64; 8] = [0, 0, 1, 1, 0, 0, 1, 1];

fn examples_2(element_type: ElementType, size: usize) -> Vec<Example> {
    vec![
        Example::new("border", vec![image(element_type, size)])
            .with_attribute("pads", Attribute::Ints(BORDER.to_vec())),
    ]
}

fn examples_11(element_type: ElementType, size: usize) -> Vec<Example> {
    ["constant", "reflect", "edge"]
        .into_iter()
        .map(|mode| {
            Example::new(
                mode,
                vec![image(element_type, size), ExampleInput::integers(&BORDER)],
            )
            .with_attribute("mode", Attribute::String(mode.into()))
        })
        .collect()
}
