use crate::Error;
use onl_kernels::ExampleInput;
use onl_tensor::{Bool, ElementType, Shape, Tensor, bf16, f16};

/// A tensor of seeded random elements: floats near normal with unit variance; integers and booleans 0 or 1, which
/// every index and mask input accepts. Equal on every architecture for equal seeds.
///
/// # Errors
/// [`Error::Tensor`] when memory for it cannot be had.
pub fn random_tensor(
    element_type: ElementType,
    dims: &[usize],
    seed: u64,
) -> Result<Tensor, Error> {
    let shape = Shape::new(dims);
    let input = if element_type.is_float() {
        ExampleInput::Random {
            element_type,
            shape,
            constant: false,
        }
    } else {
        ExampleInput::Uniform {
            element_type,
            shape,
            low: 0.0,
            high: 1.0,
        }
    };
    onl_tensor::byte_length(element_type, dims)?;
    let tensor = input
        .materialize(seed.wrapping_add(1))
        .map_err(|error| Error::Other(error.to_string()))?;
    Ok(tensor.try_clone()?)
}

/// Elements of a numeric or boolean tensor as `f64`; `None` for other types.
pub fn to_f64(tensor: &Tensor) -> Option<Vec<f64>> {
    macro_rules! typed {
        ($($rust:ty: $convert:expr),* $(,)?) => {
            $(if let Ok(values) = tensor.as_slice::<$rust>() {
                return Some(values.iter().map(|&v| $convert(v)).collect());
            })*
        };
    }
    typed!(
        f32: f64::from, f64: |v| v, f16: f64::from, bf16: f64::from, i64: |v| v as f64, i32: f64::from,
        i16: f64::from, i8: f64::from, u64: |v| v as f64, u32: f64::from, u16: f64::from, u8: f64::from,
        Bool: |v: Bool| f64::from(v.0),
    );
    None
}
