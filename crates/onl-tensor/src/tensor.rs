use crate::{
    AlignedBuffer, Bool, Element, ElementType, Shape, TensorError, TensorView, TensorViewMut,
};
use bytes::Bytes;

/// A contiguous row-major tensor that owns its elements or shares mapped bytes.
#[derive(Debug)]
pub struct Tensor {
    element_type: ElementType,
    shape: Shape,
    storage: Storage,
}

#[derive(Debug)]
enum Storage {
    Owned(AlignedBuffer),
    Shared(Bytes),
    Strings(Vec<String>),
}

impl Tensor {
    /// A tensor of zeros (empty strings for [`ElementType::String`]).
    ///
    /// # Errors
    /// [`TensorError::Overflow`] or [`TensorError::OutOfMemory`].
    pub fn zeros(element_type: ElementType, dims: &[usize]) -> Result<Self, TensorError> {
        let bytes = crate::byte_length(element_type, dims)?;
        let storage = if element_type == ElementType::String {
            Storage::Strings(vec![String::new(); crate::element_count(dims).unwrap_or(0)])
        } else {
            Storage::Owned(AlignedBuffer::zeroed(bytes)?)
        };
        Ok(Tensor {
            element_type,
            shape: Shape::new(dims),
            storage,
        })
    }

    /// A tensor with a copy of `elements`.
    ///
    /// # Errors
    /// [`TensorError::Length`] when their number is not that of the shape.
    pub fn from_slice<T: Element>(dims: &[usize], elements: &[T]) -> Result<Self, TensorError> {
        Self::from_bytes(T::TYPE, dims, bytemuck::cast_slice(elements))
    }

    /// A scalar tensor of rank 0.
    ///
    /// # Errors
    /// [`TensorError::OutOfMemory`].
    pub fn scalar<T: Element>(element: T) -> Result<Self, TensorError> {
        Self::from_slice(&[], &[element])
    }

    /// A tensor with a copy of elements in their storage form (little-endian, sub-byte elements packed low
    /// bits first). Booleans other than 0 become 1.
    ///
    /// # Errors
    /// [`TensorError::Length`] when the bytes are not as many as the shape needs.
    pub fn from_bytes(
        element_type: ElementType,
        dims: &[usize],
        bytes: &[u8],
    ) -> Result<Self, TensorError> {
        Self::from_buffer(element_type, dims, AlignedBuffer::from_bytes(bytes)?)
    }

    /// A tensor that takes over a buffer with elements in their storage form. Booleans other than 0 become 1.
    ///
    /// # Errors
    /// [`TensorError::Length`] when the bytes are not as many as the shape needs.
    pub fn from_buffer(
        element_type: ElementType,
        dims: &[usize],
        mut buffer: AlignedBuffer,
    ) -> Result<Self, TensorError> {
        if element_type == ElementType::Bool {
            normalize_booleans(buffer.as_bytes_mut());
        }
        Self::from_canonical_buffer(element_type, dims, buffer)
    }

    /// As [`from_buffer`](Self::from_buffer), without a look at the elements: booleans are 0 or 1, as kernels write them.
    ///
    /// # Errors
    /// [`TensorError::Length`] when the bytes are not as many as the shape needs.
    pub fn from_canonical_buffer(
        element_type: ElementType,
        dims: &[usize],
        buffer: AlignedBuffer,
    ) -> Result<Self, TensorError> {
        TensorView::from_bytes(element_type, dims, buffer.as_bytes())?;
        debug_assert!(
            element_type != ElementType::Bool || buffer.as_bytes().iter().all(|&byte| byte <= 1),
            "booleans are 0 or 1"
        );
        Ok(Tensor {
            element_type,
            shape: Shape::new(dims),
            storage: Storage::Owned(buffer),
        })
    }

    /// A tensor over shared (usually mapped) bytes. Bytes that are not aligned to the element type, and
    /// booleans that are neither 0 nor 1, are copied.
    ///
    /// # Errors
    /// [`TensorError::Length`] when the bytes are not as many as the shape needs.
    pub fn from_shared(
        element_type: ElementType,
        dims: &[usize],
        bytes: Bytes,
    ) -> Result<Self, TensorError> {
        let aligned = (bytes.as_ptr() as usize).is_multiple_of(element_type.alignment());
        let canonical = element_type != ElementType::Bool || bytes.iter().all(|&b| b <= 1);
        if !aligned || !canonical {
            return Self::from_bytes(element_type, dims, &bytes);
        }
        TensorView::from_bytes(element_type, dims, &bytes)?;
        Ok(Tensor {
            element_type,
            shape: Shape::new(dims),
            storage: Storage::Shared(bytes),
        })
    }

    /// A tensor of strings.
    ///
    /// # Errors
    /// [`TensorError::Length`] when their number is not that of the shape.
    pub fn from_strings(dims: &[usize], strings: Vec<String>) -> Result<Self, TensorError> {
        TensorView::from_strings(dims, &strings)?;
        Ok(Tensor {
            element_type: ElementType::String,
            shape: Shape::new(dims),
            storage: Storage::Strings(strings),
        })
    }

    /// A tensor of booleans.
    ///
    /// # Errors
    /// [`TensorError::Length`] when their number is not that of the shape.
    pub fn from_bools(dims: &[usize], elements: &[bool]) -> Result<Self, TensorError> {
        let elements: Vec<Bool> = elements.iter().map(|&b| Bool::from(b)).collect();
        Self::from_slice(dims, &elements)
    }

    /// Element type.
    pub fn element_type(&self) -> ElementType {
        self.element_type
    }

    /// Shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Dimensions, outermost first.
    pub fn dims(&self) -> &[usize] {
        self.shape.dims()
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        crate::element_count(&self.shape).expect("the size was checked when the tensor was made")
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Whether the elements are shared (mapped) bytes rather than owned ones.
    pub fn is_shared(&self) -> bool {
        matches!(self.storage, Storage::Shared(_))
    }

    /// The elements in their storage form; empty for strings.
    pub fn bytes(&self) -> &[u8] {
        match &self.storage {
            Storage::Owned(buffer) => buffer.as_bytes(),
            Storage::Shared(bytes) => bytes,
            Storage::Strings(_) => &[],
        }
    }

    /// A borrowed view.
    pub fn view(&self) -> TensorView<'_> {
        match &self.storage {
            Storage::Strings(strings) => TensorView::from_strings(&self.shape, strings),
            _ => TensorView::from_bytes(self.element_type, &self.shape, self.bytes()),
        }
        .expect("a tensor keeps data of the length of its shape")
    }

    /// A borrowed view that is written; shared bytes are copied into owned ones first.
    ///
    /// # Errors
    /// [`TensorError::OutOfMemory`] when the copy cannot be made.
    pub fn view_mut(&mut self) -> Result<TensorViewMut<'_>, TensorError> {
        if let Storage::Shared(bytes) = &self.storage {
            self.storage = Storage::Owned(AlignedBuffer::from_bytes(bytes)?);
        }
        match &mut self.storage {
            Storage::Owned(buffer) => {
                TensorViewMut::from_bytes(self.element_type, &self.shape, buffer.as_bytes_mut())
            }
            Storage::Strings(strings) => TensorViewMut::from_strings(&self.shape, strings),
            Storage::Shared(_) => unreachable!("shared storage was replaced above"),
        }
    }

    /// The elements.
    ///
    /// # Errors
    /// [`TensorError::ElementType`] when the tensor holds another type.
    pub fn as_slice<T: Element>(&self) -> Result<&[T], TensorError> {
        self.view().as_slice()
    }

    /// The strings.
    ///
    /// # Errors
    /// [`TensorError::ElementType`] when the tensor holds another type.
    pub fn as_strings(&self) -> Result<&[String], TensorError> {
        self.view().as_strings()
    }

    /// The same elements under another shape of the same size.
    ///
    /// # Errors
    /// [`TensorError::Length`] when the sizes differ.
    pub fn reshaped(mut self, dims: &[usize]) -> Result<Self, TensorError> {
        self.view().with_dims(dims)?;
        self.shape = Shape::new(dims);
        Ok(self)
    }

    /// A deep copy; shared bytes stay shared.
    ///
    /// # Errors
    /// [`TensorError::OutOfMemory`].
    pub fn try_clone(&self) -> Result<Self, TensorError> {
        let storage = match &self.storage {
            Storage::Owned(buffer) => Storage::Owned(AlignedBuffer::from_bytes(buffer.as_bytes())?),
            Storage::Shared(bytes) => Storage::Shared(bytes.clone()),
            Storage::Strings(strings) => Storage::Strings(strings.clone()),
        };
        Ok(Tensor {
            element_type: self.element_type,
            shape: self.shape.clone(),
            storage,
        })
    }

    /// Takes the owned buffer out, or `None` (and the tensor back) when the elements are shared or strings.
    ///
    /// # Errors
    /// The tensor itself when it owns no buffer.
    pub fn into_buffer(self) -> Result<AlignedBuffer, Tensor> {
        match self.storage {
            Storage::Owned(buffer) => Ok(buffer),
            _ => Err(self),
        }
    }
}

impl PartialEq for Tensor {
    /// Equal type, shape and storage bits.
    fn eq(&self, other: &Self) -> bool {
        self.element_type == other.element_type
            && self.shape == other.shape
            && match (&self.storage, &other.storage) {
                (Storage::Strings(a), Storage::Strings(b)) => a == b,
                _ => self.bytes() == other.bytes(),
            }
    }
}

fn normalize_booleans(bytes: &mut [u8]) {
    for byte in bytes {
        *byte = (*byte != 0) as u8;
    }
}
