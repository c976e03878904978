//! Cast and CastLike.

use super::support::check_inputs;
use super::{CALIBRATED_TYPES, Division, calibrated, entry, without_calibrated};
use crate::{
    Example, ExampleInput, InferContext, InferError, KernelEntry, KernelError, KernelIo,
    PrepareContext, PrepareError, PreparedKernel,
};
use onl_executor::Lanes;
use onl_ir::{Attribute, Dim, NodeView};
use onl_movement::{CAST, CastRules, ScaleRounding, cast};
use onl_tensor::{ElementType, Shape};

/// Element types that casts start from and lead to.
const TYPES: &[ElementType] = {
    use ElementType::*;
    &[
        Float32,
        UInt8,
        Int8,
        UInt16,
        Int16,
        Int32,
        Int64,
        String,
        Bool,
        Float16,
        Float64,
        UInt32,
        UInt64,
        BFloat16,
        Float8E4M3FN,
        Float8E4M3FNUZ,
        Float8E5M2,
        Float8E5M2FNUZ,
        Float8E8M0,
        UInt4,
        Int4,
        Float4E2M1,
        UInt2,
        Int2,
    ]
};

pub(super) fn entries() -> Vec<KernelEntry> {
    let cast = KernelEntry {
        regions: const { &[&CAST] },
        ..entry(
            "Cast",
            (6, i64::MAX),
            prepare_cast,
            infer_cast,
            cast_examples,
        )
    };
    let cast_like = KernelEntry {
        op_type: "CastLike",
        opsets: (15, i64::MAX),
        prepare: prepare_cast_like,
        infer: infer_cast_like,
        examples: cast_like_examples,
        ..cast.clone()
    };
    const REST: usize = TYPES.len() - CALIBRATED_TYPES.len();
    [cast, cast_like]
        .into_iter()
        .flat_map(|entry| calibrated(entry, const { &without_calibrated::<REST>(TYPES) }))
        .collect()
}

struct Cast {
    /// `None` takes the type of input 1.
    to: Option<ElementType>,
    rules: CastRules,
    division: Division,
}

fn target(node: &NodeView<'_>) -> Result<ElementType, PrepareError> {
    let number = node.int("to")?.ok_or_else(|| PrepareError::Attribute {
        attribute: "to",
        reason: "the attribute is required".to_owned(),
    })?;
    i32::try_from(number)
        .ok()
        .and_then(ElementType::from_onnx)
        .filter(|t| TYPES.contains(t))
        .ok_or_else(|| PrepareError::Attribute {
            attribute: "to",
            reason: format!("element type number {number} is not served"),
        })
}

fn rules(node: &NodeView<'_>) -> Result<CastRules, PrepareError> {
    let rounding = match node.string("round_mode")?.unwrap_or("up") {
        "up" => ScaleRounding::Up,
        "down" => ScaleRounding::Down,
        "nearest" => ScaleRounding::Nearest,
        other => {
            return Err(PrepareError::Attribute {
                attribute: "round_mode",
                reason: format!("'{other}' is none of up, down and nearest"),
            });
        }
    };
    Ok(CastRules {
        saturate: node.int("saturate")?.unwrap_or(1) != 0,
        rounding,
    })
}

fn prepare_cast(
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 1, 1)?;
    Ok(Box::new(Cast {
        to: Some(target(node)?),
        rules: rules(node)?,
        division: Division::new("Cast", node, context),
    }))
}

fn prepare_cast_like(
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 2, 2)?;
    Ok(Box::new(Cast {
        to: None,
        rules: rules(node)?,
        division: Division::new("CastLike", node, context),
    }))
}

impl PreparedKernel for Cast {
    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let input = io.input(0)?;
        let to = match self.to {
            Some(to) => to,
            None => io.input(1)?.element_type(),
        };
        if to == input.element_type() {
            io.alias_output(0, 0, Shape::new(input.dims()));
            return Ok(());
        }
        let execution = self.division.execution(input.len(), lanes);
        let mut output = io.output(0, to, input.dims())?;
        Ok(cast(input, self.rules, &mut output, &execution)?)
    }
}

fn infer_cast(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let to = target(&context.node)?;
    let dims = context.dims(0).map(<[Dim]>::to_vec);
    context.set_output(0, to, dims);
    Ok(())
}

fn infer_cast_like(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let to = context.element_type(1)?;
    let dims = context.dims(0).map(<[Dim]>::to_vec);
    context.set_output(0, to, dims);
    Ok(())
}

/// A type to cast to that is not the type itself.
fn other_type(element_type: ElementType) -> ElementType {
    match element_type {
        ElementType::Float32 => ElementType::Float16,
        _ => ElementType::Float32,
    }
}

fn cast_examples(element_type: ElementType, size: usize) -> Vec<Example> {
    let to = i64::from(other_type(element_type).onnx_number());
    vec![
        Example::new("vector", vec![ExampleInput::random(element_type, &[size])])
            .with_attribute("to", Attribute::Int(to)),
    ]
}

fn cast_like_examples(element_type: ElementType, size: usize) -> Vec<Example> {
    vec![Example::new(
        "vector",
        vec![
            ExampleInput::random(element_type, &[size]),
            ExampleInput::random(other_type(element_type), &[1]),
        ],
    )]
}
