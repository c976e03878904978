use crate::{ElementType, TensorError};
use smallvec::SmallVec;
use std::fmt;
use std::ops::Deref;

/// Dimensions of a tensor, outermost first; shapes of rank 6 and less live without heap memory.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Shape(SmallVec<[usize; 6]>);

impl Shape {
    /// The shape with these dimensions.
    pub fn new(dims: &[usize]) -> Self {
        Shape(SmallVec::from_slice(dims))
    }

    /// The shape of a scalar.
    pub fn scalar() -> Self {
        Shape::default()
    }

    /// The dimensions, outermost first.
    pub fn dims(&self) -> &[usize] {
        &self.0
    }

    /// The dimensions, to be changed in place.
    pub fn dims_mut(&mut self) -> &mut [usize] {
        &mut self.0
    }

    /// Adds an innermost dimension.
    pub fn push(&mut self, dim: usize) {
        self.0.push(dim);
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.0.len()
    }
}

impl Deref for Shape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl From<&[usize]> for Shape {
    fn from(dims: &[usize]) -> Self {
        Shape::new(dims)
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(dims: [usize; N]) -> Self {
        Shape::new(&dims)
    }
}

impl FromIterator<usize> for Shape {
    fn from_iter<I: IntoIterator<Item = usize>>(iter: I) -> Self {
        Shape(iter.into_iter().collect())
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, d) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("x")?;
            }
            write!(f, "{d}")?;
        }
        f.write_str("]")
    }
}

/// Number of elements of a shape, or `None` when it overflows. Dimensions of size zero give zero even beside
/// dimensions whose product would overflow.
pub fn element_count(dims: &[usize]) -> Option<usize> {
    if dims.contains(&0) {
        return Some(0);
    }
    dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d))
}

/// Bytes that a tensor of this type and shape takes; sub-byte elements are packed, the last byte is padded.
/// Strings count as zero bytes.
///
/// # Errors
/// [`TensorError::Overflow`] when the size exceeds `isize::MAX`.
pub fn byte_length(element_type: ElementType, dims: &[usize]) -> Result<usize, TensorError> {
    element_count(dims)
        .and_then(|n| n.checked_mul(element_type.bits()))
        .map(|bits| bits.div_ceil(8))
        .filter(|&bytes| bytes <= isize::MAX as usize)
        .ok_or_else(|| TensorError::Overflow {
            dims: dims.to_vec(),
            element_type,
        })
}

/// Strides in elements of a contiguous row-major tensor.
pub fn row_major_strides(dims: &[usize]) -> SmallVec<[usize; 6]> {
    let mut strides: SmallVec<[usize; 6]> = SmallVec::from_elem(1, dims.len());
    for axis in (1..dims.len()).rev() {
        strides[axis - 1] = strides[axis].wrapping_mul(dims[axis].max(1));
    }
    strides
}
