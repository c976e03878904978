//! Constant and ConstantOfShape.

use super::TINY_PAYLOAD;
use crate::movement::support::{ALL_TYPES, check_inputs, known_dims};
use crate::{
    Example, ExampleInput, InferContext, InferError, KernelEntry, KernelError, KernelIo,
    PrepareContext, PrepareError, PreparedKernel, ShapeDependence, TypeSource,
};
use onl_executor::Lanes;
use onl_ir::{Attribute, Dim, NodeView, OpId};
use onl_tensor::{ElementType, Shape, Tensor, TensorViewMut, Value};
use std::sync::Arc;

pub(super) fn entries() -> Vec<KernelEntry> {
    let constant = KernelEntry {
        domain: OpId::ONNX,
        op_type: "Constant",
        opsets: (1, i64::MAX),
        type_source: TypeSource::Output,
        element_types: ALL_TYPES,
        implementation: "copy",
        revision: 1,
        prepare: prepare_constant,
        infer: infer_constant,
        shape_dependence: ShapeDependence::Shapes,
        coverage: TINY_PAYLOAD,
        regions: &[],
        examples: |element_type, size| match Tensor::zeros(element_type, &[size]) {
            Ok(tensor) => vec![
                Example::new("zeros", Vec::new())
                    .with_attribute("value", Attribute::Tensor(Arc::new(tensor))),
            ],
            Err(_) => Vec::new(),
        },
    };
    let of_shape = KernelEntry {
        op_type: "ConstantOfShape",
        opsets: (9, i64::MAX),
        element_types: FILL_TYPES,
        implementation: "fill",
        prepare: prepare_of_shape,
        infer: infer_of_shape,
        shape_dependence: ShapeDependence::AllValues,
        examples: |element_type, size| match Tensor::zeros(element_type, &[1]) {
            Ok(tensor) => vec![
                Example::new("vector", vec![ExampleInput::integers(&[size as i64])])
                    .with_attribute("value", Attribute::Tensor(Arc::new(tensor))),
            ],
            Err(_) => Vec::new(),
        },
        ..constant.clone()
    };
    vec![constant, of_shape]
}

/// Element types that `ConstantOfShape` fills with: those of whole bytes.
const FILL_TYPES: &[ElementType] = crate::movement::support::BYTE_TYPES;

struct Constant {
    value: Arc<Tensor>,
}

fn prepare_constant(
    node: &NodeView<'_>,
    _: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 0, 0)?;
    Ok(Box::new(Constant {
        value: constant_value(node)?,
    }))
}

impl PreparedKernel for Constant {
    fn run(&self, io: &mut KernelIo<'_>, _: Lanes<'_>) -> Result<(), KernelError> {
        let mut output = io.output(0, self.value.element_type(), self.value.dims())?;
        if let Ok(strings) = self.value.as_strings() {
            output.as_strings_mut()?.clone_from_slice(strings);
        } else {
            output.bytes_mut().copy_from_slice(self.value.bytes());
        }
        Ok(())
    }
}

fn infer_constant(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let value = constant_value(&context.node)?;
    context.set_output(0, value.element_type(), Some(known_dims(value.dims())));
    Ok(())
}

/// The value of a `Constant` node, whichever attribute gives it; a sparse value becomes dense.
fn constant_value(node: &NodeView<'_>) -> Result<Arc<Tensor>, PrepareError> {
    const NAMES: [&str; 8] = [
        "value",
        "sparse_value",
        "value_float",
        "value_floats",
        "value_int",
        "value_ints",
        "value_string",
        "value_strings",
    ];
    let mut given = NAMES
        .iter()
        .filter_map(|&name| node.attribute(name).map(|value| (name, value)));
    let (name, attribute) = match (given.next(), given.next()) {
        (Some(one), None) => one,
        (None, _) => {
            return Err(PrepareError::Attribute {
                attribute: "value",
                reason: "a constant needs one of value, sparse_value, value_float(s), value_int(s), value_string(s)"
                    .to_owned(),
            });
        }
        (Some(_), Some((second, _))) => {
            return Err(PrepareError::Attribute {
                attribute: second,
                reason: "a constant takes one value attribute only".to_owned(),
            });
        }
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(match (name, attribute) {
        ("value", Attribute::Tensor(tensor)) => tensor.clone(),
        ("sparse_value", Attribute::SparseTensor(value)) => Arc::new(densify(value)?),
        ("value_float", Attribute::Float(value)) => Arc::new(Tensor::scalar(*value)?),
        ("value_floats", Attribute::Floats(values)) => {
            Arc::new(Tensor::from_slice(&[values.len()], values)?)
        }
        ("value_int", Attribute::Int(value)) => Arc::new(Tensor::scalar(*value)?),
        ("value_ints", Attribute::Ints(values)) => {
            Arc::new(Tensor::from_slice(&[values.len()], values)?)
        }
        ("value_string", Attribute::String(value)) => {
            Arc::new(Tensor::from_strings(&[], vec![text(value)])?)
        }
        ("value_strings", Attribute::Strings(values)) => Arc::new(Tensor::from_strings(
            &[values.len()],
            values.iter().map(|v| text(v)).collect(),
        )?),
        (name, other) => {
            return Err(PrepareError::Attribute {
                attribute: name,
                reason: format!("the attribute is of kind {:?}", other.kind()),
            });
        }
    })
}

/// The dense form of a sparse tensor in coordinate form.
fn densify(value: &Value) -> Result<Tensor, PrepareError> {
    let fail = |reason: String| PrepareError::Attribute {
        attribute: "sparse_value",
        reason,
    };
    let Value::SparseTensor {
        values,
        indices,
        dims,
    } = value
    else {
        return Err(fail("the value is not a sparse tensor".to_owned()));
    };
    let positions = indices
        .as_slice::<i64>()
        .map_err(|_| fail("indices must be 64-bit integers".to_owned()))?;
    let count = values.len();
    let coordinates = match indices.dims() {
        [n] if *n == count => 1,
        [n, rank] if *n == count && *rank == dims.len() => *rank,
        other => {
            return Err(fail(format!(
                "indices of shape {other:?} do not fit {count} values in {} dimensions",
                dims.len()
            )));
        }
    };
    let linear = indices.dims().len() == 1;
    let mut dense = Tensor::zeros(values.element_type(), dims)?;
    let total = dense.len();
    let width = values.element_type().bits() / 8;
    if width == 0 && values.element_type() != ElementType::String {
        return Err(fail(format!(
            "elements of {} are narrower than a byte",
            values.element_type()
        )));
    }
    for index in 0..count {
        let mut position = 0usize;
        for (axis, &at) in positions[index * coordinates..][..coordinates]
            .iter()
            .enumerate()
        {
            let size = if linear { total } else { dims[axis] };
            let at = usize::try_from(at)
                .ok()
                .filter(|&at| at < size)
                .ok_or_else(|| fail(format!("index {at} of value {index} is outside {size}")))?;
            position = position * if linear { 1 } else { size } + at;
        }
        let mut view = dense.view_mut()?;
        match values.as_strings() {
            Ok(strings) => view.as_strings_mut()?[position].clone_from(&strings[index]),
            Err(_) => view.bytes_mut()[position * width..][..width]
                .copy_from_slice(&values.bytes()[index * width..][..width]),
        }
    }
    Ok(dense)
}

struct ConstantOfShape {
    value: Arc<Tensor>,
}

/// The element that `ConstantOfShape` repeats: one f32 zero without the attribute.
fn fill_value(node: &NodeView<'_>) -> Result<Arc<Tensor>, PrepareError> {
    match node.tensor("value")? {
        Some(value) if value.len() == 1 => Ok(value.clone()),
        Some(value) => Err(PrepareError::Attribute {
            attribute: "value",
            reason: format!("the tensor must have one element, it has {}", value.len()),
        }),
        None => Ok(Arc::new(Tensor::from_slice(&[1], &[0f32])?)),
    }
}

fn prepare_of_shape(
    node: &NodeView<'_>,
    _: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 1, 1)?;
    Ok(Box::new(ConstantOfShape {
        value: fill_value(node)?,
    }))
}

fn shape_of(sizes: &[i64]) -> Result<Shape, KernelError> {
    sizes
        .iter()
        .map(|&size| {
            usize::try_from(size).map_err(|_| KernelError::InvalidInput {
                index: 0,
                reason: format!("size {size} is negative"),
            })
        })
        .collect()
}

impl PreparedKernel for ConstantOfShape {
    fn run(&self, io: &mut KernelIo<'_>, _: Lanes<'_>) -> Result<(), KernelError> {
        let shape = shape_of(&io.integers(0)?)?;
        let output = io.output(0, self.value.element_type(), &shape)?;
        fill(output, &self.value)
    }
}

fn fill(mut output: TensorViewMut<'_>, value: &Tensor) -> Result<(), KernelError> {
    if let Ok(strings) = value.as_strings() {
        output.as_strings_mut()?.fill(strings[0].clone());
        return Ok(());
    }
    let element = value.bytes();
    let target = output.bytes_mut();
    if element.iter().all(|&byte| byte == element[0]) {
        target.fill(element[0]);
    } else {
        for slot in target.chunks_exact_mut(element.len()) {
            slot.copy_from_slice(element);
        }
    }
    Ok(())
}

fn infer_of_shape(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let element_type = fill_value(&context.node)?.element_type();
    let dims = match context.constant_integers(0) {
        Some(sizes) => Some(known_dims(
            &shape_of(&sizes).map_err(|e| InferError::Shapes(e.to_string()))?,
        )),
        None => match context.dims(0) {
            Some([Dim::Known(rank)]) => Some(vec![Dim::Unknown; *rank]),
            _ => None,
        },
    };
    context.set_output(0, element_type, dims);
    Ok(())
}
