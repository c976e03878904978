use crate::MovementError;
use onl_tensor::{ElementType, TensorView, TensorViewMut};

/// What is moved: an element of a certain width, or a string.
pub(crate) trait Unit: Clone + Default + Send + Sync + 'static {
    /// The units of a tensor.
    fn of<'a>(view: &TensorView<'a>) -> Result<&'a [Self], MovementError>;
    /// The units of a tensor that is written.
    fn of_mut<'a>(view: &'a mut TensorViewMut<'_>) -> Result<&'a mut [Self], MovementError>;
}

macro_rules! units {
    ($($t:ty),*) => {$(
        impl Unit for $t {
            fn of<'a>(view: &TensorView<'a>) -> Result<&'a [Self], MovementError> {
                Ok(bytemuck::cast_slice(view.bytes()))
            }
            fn of_mut<'a>(view: &'a mut TensorViewMut<'_>) -> Result<&'a mut [Self], MovementError> {
                Ok(bytemuck::cast_slice_mut(view.bytes_mut()))
            }
        }
    )*};
}
// Complex types are aligned to their parts only.
units!(u8, u16, u32, u64, [u32; 2], [u64; 2]);

impl Unit for String {
    fn of<'a>(view: &TensorView<'a>) -> Result<&'a [Self], MovementError> {
        Ok(view.as_strings()?)
    }
    fn of_mut<'a>(view: &'a mut TensorViewMut<'_>) -> Result<&'a mut [Self], MovementError> {
        Ok(view.as_strings_mut()?)
    }
}

/// Runs an expression with `$unit` bound to the unit of an element type.
macro_rules! by_unit {
    ($element_type:expr, $unit:ident => $body:expr) => {{
        let element_type = $element_type;
        match (element_type, element_type.bits()) {
            (onl_tensor::ElementType::String, _) => {
                type $unit = String;
                $body
            }
            (onl_tensor::ElementType::Complex64, _) => {
                type $unit = [u32; 2];
                $body
            }
            (_, 8) => {
                type $unit = u8;
                $body
            }
            (_, 16) => {
                type $unit = u16;
                $body
            }
            (_, 32) => {
                type $unit = u32;
                $body
            }
            (_, 64) => {
                type $unit = u64;
                $body
            }
            (_, 128) => {
                type $unit = [u64; 2];
                $body
            }
            _ => Err($crate::MovementError::SubByte { element_type }),
        }
    }};
}
pub(crate) use by_unit;

/// Whether an output has the input's type and the shape that the operation gives.
pub(crate) fn check_output(
    input: ElementType,
    output: &TensorViewMut<'_>,
    dims: &[usize],
) -> Result<(), MovementError> {
    if output.element_type() != input {
        return Err(onl_tensor::TensorError::ElementType {
            expected: input,
            actual: output.element_type(),
        }
        .into());
    }
    if output.dims() != dims {
        return Err(MovementError::shapes(
            &[output.dims(), dims],
            "the output must have the second shape",
        ));
    }
    Ok(())
}
