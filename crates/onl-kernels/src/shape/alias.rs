//! Identity, Reshape, Squeeze, Unsqueeze, Flatten, Dropout (inference): the output is an input under another shape.

use super::METADATA_ONLY;
use crate::infer::same_as_first;
use crate::movement::support::{
    ALL_TYPES, Integers, axis_flags, check_inputs, known_dims, known_integers, known_shape,
    shape_error,
};
use crate::{
    Example, ExampleInput, InferContext, InferError, KernelEntry, KernelError, KernelIo,
    PrepareContext, PrepareError, PreparedKernel, ShapeDependence, TypeSource,
};
use onl_executor::Lanes;
use onl_ir::{Dim, NodeView, OpId};
use onl_tensor::{Bool, ElementType, Shape, element_count};

pub(super) fn entries() -> Vec<KernelEntry> {
    let base = KernelEntry {
        domain: OpId::ONNX,
        op_type: "Identity",
        opsets: (1, i64::MAX),
        type_source: TypeSource::Input(0),
        element_types: ALL_TYPES,
        implementation: "alias",
        revision: 1,
        prepare: prepare_identity,
        infer: same_as_first,
        shape_dependence: ShapeDependence::Shapes,
        coverage: METADATA_ONLY,
        regions: &[],
        examples: |element_type, size| {
            vec![Example::new(
                "vector",
                vec![ExampleInput::random(element_type, &[size])],
            )]
        },
    };
    vec![
        base.clone(),
        KernelEntry {
            op_type: "Reshape",
            opsets: (1, 4),
            prepare: prepare_reshape,
            infer: infer_reshape,
            examples: |element_type, size| {
                vec![
                    Example::new("flat", vec![ExampleInput::random(element_type, &[size, 1])])
                        .with_attribute("shape", onl_ir::Attribute::Ints(vec![-1])),
                ]
            },
            ..base.clone()
        },
        KernelEntry {
            op_type: "Reshape",
            opsets: (5, i64::MAX),
            prepare: prepare_reshape,
            infer: infer_reshape,
            shape_dependence: ShapeDependence::Values(&[1]),
            examples: |element_type, size| {
                vec![Example::new(
                    "flat",
                    vec![
                        ExampleInput::random(element_type, &[size, 1]),
                        ExampleInput::integers(&[-1]),
                    ],
                )]
            },
            ..base.clone()
        },
        squeeze_entry(&base, "Squeeze", (1, 12)),
        squeeze_entry(&base, "Squeeze", (13, i64::MAX)),
        squeeze_entry(&base, "Unsqueeze", (1, 12)),
        squeeze_entry(&base, "Unsqueeze", (13, i64::MAX)),
        KernelEntry {
            op_type: "Flatten",
            prepare: prepare_flatten,
            infer: infer_flatten,
            examples: |element_type, size| {
                vec![Example::new(
                    "matrix",
                    vec![ExampleInput::random(
                        element_type,
                        &[2, size.div_ceil(2), 1],
                    )],
                )]
            },
            ..base.clone()
        },
        KernelEntry {
            op_type: "Dropout",
            opsets: (7, i64::MAX),
            element_types: &[
                ElementType::Float32,
                ElementType::Float64,
                ElementType::Float16,
                ElementType::BFloat16,
            ],
            prepare: prepare_dropout,
            infer: infer_dropout,
            ..base
        },
    ]
}

fn squeeze_entry(base: &KernelEntry, op_type: &'static str, opsets: (i64, i64)) -> KernelEntry {
    let by_input = opsets.0 >= 13;
    let squeeze = op_type == "Squeeze";
    KernelEntry {
        op_type,
        opsets,
        prepare: if squeeze {
            prepare_squeeze
        } else {
            prepare_unsqueeze
        },
        infer: if squeeze {
            infer_squeeze
        } else {
            infer_unsqueeze
        },
        shape_dependence: if by_input {
            ShapeDependence::Values(&[1])
        } else {
            ShapeDependence::Shapes
        },
        examples: if by_input {
            |element_type, size| {
                vec![Example::new(
                    "leading",
                    vec![
                        ExampleInput::random(element_type, &[1, size]),
                        ExampleInput::integers(&[0]),
                    ],
                )]
            }
        } else {
            |element_type, size| {
                vec![
                    Example::new(
                        "leading",
                        vec![ExampleInput::random(element_type, &[1, size])],
                    )
                    .with_attribute("axes", onl_ir::Attribute::Ints(vec![0])),
                ]
            }
        },
        ..base.clone()
    }
}

struct IdentityKernel;

fn prepare_identity(
    node: &NodeView<'_>,
    _: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 1, 1)?;
    Ok(Box::new(IdentityKernel))
}

impl PreparedKernel for IdentityKernel {
    fn run(&self, io: &mut KernelIo<'_>, _: Lanes<'_>) -> Result<(), KernelError> {
        match (io.optional_input(0), io.input_value(0)) {
            (None, Some(value)) => io.set_output_value(0, value.clone()),
            _ => {
                let shape = Shape::new(io.input(0)?.dims());
                io.alias_output(0, 0, shape);
            }
        }
        Ok(())
    }
}

struct Reshape {
    target: Integers,
    allow_zero: bool,
}

fn prepare_reshape(
    node: &NodeView<'_>,
    _: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    let target = if node.opset < 5 {
        check_inputs(node, 1, 1)?;
        Integers::attribute(node, "shape")?
    } else {
        check_inputs(node, 2, 2)?;
        Integers::Input(1)
    };
    if matches!(target, Integers::Absent) {
        return Err(PrepareError::Attribute {
            attribute: "shape",
            reason: "the attribute is required".to_owned(),
        });
    }
    Ok(Box::new(Reshape {
        target,
        allow_zero: allow_zero(node)?,
    }))
}

fn allow_zero(node: &NodeView<'_>) -> Result<bool, PrepareError> {
    Ok(node.opset >= 14 && node.int("allowzero")?.unwrap_or(0) != 0)
}

impl PreparedKernel for Reshape {
    fn run(&self, io: &mut KernelIo<'_>, _: Lanes<'_>) -> Result<(), KernelError> {
        let view = io.input(0)?;
        let target = self.target.read(io)?.unwrap_or_default();
        let shape = reshape_dims(view.dims(), &target, self.allow_zero)?;
        io.alias_output(0, 0, shape);
        Ok(())
    }
}

/// The shape that `Reshape` gives: −1 takes what is left, 0 copies the input's size unless zeros are allowed.
pub(crate) fn reshape_dims(
    input: &[usize],
    target: &[i64],
    allow_zero: bool,
) -> Result<Shape, KernelError> {
    let fail = |reason: String| {
        Err(shape_error(
            &[input],
            format!("target {target:?}: {reason}"),
        ))
    };
    let mut shape = Shape::default();
    let mut free = None;
    for (axis, &size) in target.iter().enumerate() {
        match size {
            -1 if free.is_some() => return fail("only one size may be -1".to_owned()),
            -1 => {
                free = Some(axis);
                shape.push(1);
            }
            0 if !allow_zero => match input.get(axis) {
                Some(&copied) => shape.push(copied),
                None => {
                    return fail(format!(
                        "size 0 at axis {axis} copies an axis that the input lacks"
                    ));
                }
            },
            size => match usize::try_from(size) {
                Ok(size) => shape.push(size),
                Err(_) => return fail(format!("size {size} at axis {axis} is negative")),
            },
        }
    }
    let wanted = element_count(&shape);
    let total = element_count(input).unwrap_or(0);
    match (free, wanted) {
        (Some(axis), Some(others)) if others > 0 && total.is_multiple_of(others) => {
            shape.dims_mut()[axis] = total / others;
            Ok(shape)
        }
        (None, Some(wanted)) if wanted == total => Ok(shape),
        _ => fail(format!("the input has {total} elements, which do not fit")),
    }
}

fn infer_reshape(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let element_type = context.element_type(0)?;
    let by_attribute = context.node.opset < 5;
    let target = known_integers(context, by_attribute.then_some("shape"), 1);
    let dims = match target {
        Ok(Some(target)) => {
            let allow_zero = allow_zero(&context.node)?;
            Some(match context.dims(0) {
                Some(input) => match known_shape(input) {
                    Some(known) => known_dims(
                        &reshape_dims(&known, &target, allow_zero)
                            .map_err(|e| InferError::Shapes(e.to_string()))?,
                    ),
                    None => symbolic_reshape(input, &target, allow_zero),
                },
                None => target
                    .iter()
                    .map(|&d| match usize::try_from(d) {
                        Ok(d) if d > 0 || allow_zero => Dim::Known(d),
                        _ => Dim::Unknown,
                    })
                    .collect(),
            })
        }
        _ => match context.dims(1) {
            Some([Dim::Known(rank)]) => Some(vec![Dim::Unknown; *rank]),
            _ => None,
        },
    };
    context.set_output(0, element_type, dims);
    Ok(())
}

/// Reshape of a shape with unknown sizes: equal dimensions cancel, and −1 is what is left when that is one
/// dimension or a number.
fn symbolic_reshape(input: &[Dim], target: &[i64], allow_zero: bool) -> Vec<Dim> {
    let mut output: Vec<Dim> = target
        .iter()
        .enumerate()
        .map(|(axis, &size)| match size {
            0 if !allow_zero => input.get(axis).cloned().unwrap_or(Dim::Unknown),
            size => usize::try_from(size).map_or(Dim::Unknown, Dim::Known),
        })
        .collect();
    let Some(free) = target.iter().position(|&d| d == -1) else {
        return output;
    };
    let (mut above, mut below) = (1usize, 1usize);
    let mut rest: Vec<&Dim> = Vec::new();
    for (axis, dim) in input.iter().enumerate() {
        match dim {
            Dim::Known(size) => above = above.saturating_mul(*size),
            // A size copied by 0 is the same value even when it has no name.
            _ if target.get(axis) == Some(&0) && !allow_zero => {}
            dim => rest.push(dim),
        }
    }
    for dim in &output {
        if let Dim::Known(size) = dim {
            below = below.saturating_mul(*size);
        }
    }
    if below == 0 || above % below != 0 {
        return output;
    }
    output[free] = match (rest.as_slice(), above / below) {
        ([], size) => Dim::Known(size),
        ([one], 1) => (*one).clone(),
        _ => Dim::Unknown,
    };
    output
}

struct Squeeze {
    axes: Integers,
}

fn axes_source(node: &NodeView<'_>) -> Result<Integers, PrepareError> {
    if node.opset < 13 {
        check_inputs(node, 1, 1)?;
        Integers::attribute(node, "axes")
    } else {
        check_inputs(node, 1, 2)?;
        Ok(Integers::input(node, 1))
    }
}

fn prepare_squeeze(
    node: &NodeView<'_>,
    _: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    let axes = axes_source(node)?;
    Ok(Box::new(Squeeze { axes }))
}

impl PreparedKernel for Squeeze {
    fn run(&self, io: &mut KernelIo<'_>, _: Lanes<'_>) -> Result<(), KernelError> {
        let dims = io.input(0)?.dims();
        let shape = match self.axes.read(io)? {
            Some(axes) => {
                let flags = axis_flags(&axes, dims.len())?;
                if let Some(axis) = (0..dims.len()).find(|&a| flags[a] && dims[a] != 1) {
                    return Err(shape_error(
                        &[dims],
                        format!("axis {axis} of size {} cannot be squeezed", dims[axis]),
                    ));
                }
                (0..dims.len())
                    .filter(|&a| !flags[a])
                    .map(|a| dims[a])
                    .collect()
            }
            None => dims.iter().copied().filter(|&d| d != 1).collect(),
        };
        io.alias_output(0, 0, shape);
        Ok(())
    }
}

fn infer_axes(context: &InferContext<'_>) -> Result<Option<Vec<i64>>, ()> {
    let by_attribute = context.node.opset < 13;
    known_integers(context, by_attribute.then_some("axes"), 1)
}

fn infer_squeeze(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let element_type = context.element_type(0)?;
    let dims = match (context.dims(0), infer_axes(context)) {
        (Some(dims), Ok(Some(axes))) => {
            let flags =
                axis_flags(&axes, dims.len()).map_err(|e| InferError::Shapes(e.to_string()))?;
            Some(
                (0..dims.len())
                    .filter(|&a| !flags[a])
                    .map(|a| dims[a].clone())
                    .collect(),
            )
        }
        (Some(dims), Ok(None)) => known_shape(dims).map(|shape| {
            shape
                .iter()
                .filter(|&&d| d != 1)
                .map(|&d| Dim::Known(d))
                .collect()
        }),
        _ => None,
    };
    context.set_output(0, element_type, dims);
    Ok(())
}

struct Unsqueeze {
    axes: Integers,
}

fn prepare_unsqueeze(
    node: &NodeView<'_>,
    _: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    let axes = axes_source(node)?;
    if matches!(axes, Integers::Absent) {
        return Err(if node.opset < 13 {
            PrepareError::Attribute {
                attribute: "axes",
                reason: "the attribute is required".to_owned(),
            }
        } else {
            PrepareError::MissingInput { index: 1 }
        });
    }
    Ok(Box::new(Unsqueeze { axes }))
}

impl PreparedKernel for Unsqueeze {
    fn run(&self, io: &mut KernelIo<'_>, _: Lanes<'_>) -> Result<(), KernelError> {
        let dims = io.input(0)?.dims();
        let axes = self.axes.read(io)?.unwrap_or_default();
        let flags = axis_flags(&axes, dims.len() + axes.len())?;
        let mut rest = dims.iter();
        let shape = flags
            .iter()
            .map(|&new| {
                if new {
                    1
                } else {
                    *rest.next().expect("one flag per axis of the output")
                }
            })
            .collect();
        io.alias_output(0, 0, shape);
        Ok(())
    }
}

fn infer_unsqueeze(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let element_type = context.element_type(0)?;
    let dims = match (context.dims(0), infer_axes(context)) {
        (Some(dims), Ok(Some(axes))) => {
            let flags = axis_flags(&axes, dims.len() + axes.len())
                .map_err(|e| InferError::Shapes(e.to_string()))?;
            let mut rest = dims.iter();
            Some(
                flags
                    .iter()
                    .map(|&new| {
                        if new {
                            Dim::Known(1)
                        } else {
                            rest.next()
                                .expect("one flag per axis of the output")
                                .clone()
                        }
                    })
                    .collect(),
            )
        }
        _ => None,
    };
    context.set_output(0, element_type, dims);
    Ok(())
}

struct Flatten {
    axis: i64,
}

fn prepare_flatten(
    node: &NodeView<'_>,
    _: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 1, 1)?;
    let axis = node.int("axis")?.unwrap_or(1);
    Ok(Box::new(Flatten { axis }))
}

/// Where `Flatten` divides the axes: `axis` lies in `[-rank, rank]`.
fn flatten_split(axis: i64, rank: usize) -> Result<usize, KernelError> {
    let split = if axis < 0 { axis + rank as i64 } else { axis };
    if (0..=rank as i64).contains(&split) {
        Ok(split as usize)
    } else {
        Err(KernelError::Other(format!(
            "axis {axis} is outside a tensor of rank {rank}; it must lie in [-{rank}, {rank}]"
        )))
    }
}

impl PreparedKernel for Flatten {
    fn run(&self, io: &mut KernelIo<'_>, _: Lanes<'_>) -> Result<(), KernelError> {
        let dims = io.input(0)?.dims();
        let (rows, columns) = dims.split_at(flatten_split(self.axis, dims.len())?);
        let shape = Shape::new(&[rows.iter().product(), columns.iter().product()]);
        io.alias_output(0, 0, shape);
        Ok(())
    }
}

fn infer_flatten(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let element_type = context.element_type(0)?;
    let axis = context.node.int("axis")?.unwrap_or(1);
    let dims = match context.dims(0) {
        Some(dims) => {
            let split =
                flatten_split(axis, dims.len()).map_err(|e| InferError::Shapes(e.to_string()))?;
            Some(vec![product(&dims[..split]), product(&dims[split..])])
        }
        None => Some(vec![Dim::Unknown, Dim::Unknown]),
    };
    context.set_output(0, element_type, dims);
    Ok(())
}

fn product(dims: &[Dim]) -> Dim {
    let unknown: Vec<&Dim> = dims.iter().filter(|d| d.known().is_none()).collect();
    let known: usize = dims.iter().filter_map(Dim::known).product();
    match (unknown.as_slice(), known) {
        ([], size) => Dim::Known(size),
        ([one], 1) => (*one).clone(),
        _ => Dim::Unknown,
    }
}

/// Dropout outside training: the data pass unchanged, the mask is all ones.
struct Dropout {
    bool_mask: bool,
}

fn prepare_dropout(
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 1, 3)?;
    if node.input(2).is_some() {
        let training = context.constant_input(node, 2);
        let inference = training
            .as_ref()
            .and_then(|t| t.as_slice::<Bool>().ok())
            .is_some_and(|v| v.first() == Some(&Bool(0)));
        if !inference {
            return Err(PrepareError::Other(
                "Dropout is served for inference only; make input 2 (training_mode) a constant false".to_owned(),
            ));
        }
    }
    Ok(Box::new(Dropout {
        bool_mask: node.opset >= 10,
    }))
}

impl PreparedKernel for Dropout {
    fn run(&self, io: &mut KernelIo<'_>, _: Lanes<'_>) -> Result<(), KernelError> {
        let input = io.input(0)?;
        io.alias_output(0, 0, Shape::new(input.dims()));
        if io.output_count() < 2 {
            return Ok(());
        }
        if self.bool_mask {
            let mut mask = io.output(1, ElementType::Bool, input.dims())?;
            mask.bytes_mut().fill(1);
            return Ok(());
        }
        let one: &[u8] = match input.element_type() {
            ElementType::Float64 => &1f64.to_le_bytes(),
            ElementType::Float16 => &onl_tensor::f16::ONE.to_le_bytes(),
            ElementType::BFloat16 => &onl_tensor::bf16::ONE.to_le_bytes(),
            _ => &1f32.to_le_bytes(),
        };
        let mut mask = io.output(1, input.element_type(), input.dims())?;
        for element in mask.bytes_mut().chunks_exact_mut(one.len()) {
            element.copy_from_slice(one);
        }
        Ok(())
    }
}

fn infer_dropout(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let element_type = context.element_type(0)?;
    let dims = context.dims(0).map(<[Dim]>::to_vec);
    let mask = if context.node.opset >= 10 {
        ElementType::Bool
    } else {
        element_type
    };
    context.set_output(0, element_type, dims.clone());
    context.set_output(1, mask, dims);
    Ok(())
}
