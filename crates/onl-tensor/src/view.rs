use crate::{Element, ElementType, TensorError};

/// A borrowed, contiguous, row-major tensor.
#[derive(Debug, Clone, Copy)]
pub struct TensorView<'a> {
    element_type: ElementType,
    dims: &'a [usize],
    data: Data<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Data<'a> {
    Bytes(&'a [u8]),
    Strings(&'a [String]),
}

impl<'a> TensorView<'a> {
    /// A view of elements in their storage form. `bytes` must be aligned to the element type and have exactly
    /// the length of the shape.
    ///
    /// # Errors
    /// [`TensorError::Length`] for another length, [`TensorError::Overflow`] for an impossible shape.
    pub fn from_bytes(
        element_type: ElementType,
        dims: &'a [usize],
        bytes: &'a [u8],
    ) -> Result<Self, TensorError> {
        check_length(element_type, dims, bytes.len())?;
        assert_eq!(
            bytes.as_ptr() as usize % element_type.alignment(),
            0,
            "bytes of a view are element-aligned"
        );
        Ok(TensorView {
            element_type,
            dims,
            data: Data::Bytes(bytes),
        })
    }

    /// A view of typed elements.
    ///
    /// # Errors
    /// [`TensorError::Length`] when the number of elements is not that of the shape.
    pub fn from_slice<T: Element>(
        dims: &'a [usize],
        elements: &'a [T],
    ) -> Result<Self, TensorError> {
        Self::from_bytes(T::TYPE, dims, bytemuck::cast_slice(elements))
    }

    /// A view of strings.
    ///
    /// # Errors
    /// [`TensorError::Length`] when the number of strings is not that of the shape.
    pub fn from_strings(dims: &'a [usize], strings: &'a [String]) -> Result<Self, TensorError> {
        check_strings(dims, strings.len())?;
        Ok(TensorView {
            element_type: ElementType::String,
            dims,
            data: Data::Strings(strings),
        })
    }

    /// Element type.
    pub fn element_type(&self) -> ElementType {
        self.element_type
    }

    /// Dimensions, outermost first.
    pub fn dims(&self) -> &'a [usize] {
        self.dims
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        crate::element_count(self.dims).expect("the size was checked when the view was made")
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.dims.contains(&0)
    }

    /// The elements in their storage form; empty for strings.
    pub fn bytes(&self) -> &'a [u8] {
        match self.data {
            Data::Bytes(bytes) => bytes,
            Data::Strings(_) => &[],
        }
    }

    /// The elements.
    ///
    /// # Errors
    /// [`TensorError::ElementType`] when the tensor holds another type.
    pub fn as_slice<T: Element>(&self) -> Result<&'a [T], TensorError> {
        if self.element_type != T::TYPE {
            return Err(TensorError::ElementType {
                expected: T::TYPE,
                actual: self.element_type,
            });
        }
        Ok(bytemuck::cast_slice(self.bytes()))
    }

    /// The strings.
    ///
    /// # Errors
    /// [`TensorError::ElementType`] when the tensor holds another type.
    pub fn as_strings(&self) -> Result<&'a [String], TensorError> {
        match self.data {
            Data::Strings(strings) => Ok(strings),
            Data::Bytes(_) => Err(TensorError::ElementType {
                expected: ElementType::String,
                actual: self.element_type,
            }),
        }
    }

    /// The same elements under another shape of the same size.
    ///
    /// # Errors
    /// [`TensorError::Length`] when the sizes differ.
    pub fn with_dims(self, dims: &'a [usize]) -> Result<Self, TensorError> {
        match self.data {
            Data::Bytes(bytes) => Self::from_bytes(self.element_type, dims, bytes),
            Data::Strings(strings) => Self::from_strings(dims, strings),
        }
    }
}

/// A borrowed, contiguous, row-major tensor that is written.
#[derive(Debug)]
pub struct TensorViewMut<'a> {
    element_type: ElementType,
    dims: &'a [usize],
    data: DataMut<'a>,
}

#[derive(Debug)]
enum DataMut<'a> {
    Bytes(&'a mut [u8]),
    Strings(&'a mut [String]),
}

impl<'a> TensorViewMut<'a> {
    /// A view of elements in their storage form; conditions as for [`TensorView::from_bytes`].
    ///
    /// # Errors
    /// As [`TensorView::from_bytes`].
    pub fn from_bytes(
        element_type: ElementType,
        dims: &'a [usize],
        bytes: &'a mut [u8],
    ) -> Result<Self, TensorError> {
        check_length(element_type, dims, bytes.len())?;
        assert_eq!(
            bytes.as_ptr() as usize % element_type.alignment(),
            0,
            "bytes of a view are element-aligned"
        );
        Ok(TensorViewMut {
            element_type,
            dims,
            data: DataMut::Bytes(bytes),
        })
    }

    /// A view of typed elements.
    ///
    /// # Errors
    /// As [`TensorView::from_slice`].
    pub fn from_slice<T: Element>(
        dims: &'a [usize],
        elements: &'a mut [T],
    ) -> Result<Self, TensorError> {
        Self::from_bytes(T::TYPE, dims, bytemuck::cast_slice_mut(elements))
    }

    /// A view of strings.
    ///
    /// # Errors
    /// As [`TensorView::from_strings`].
    pub fn from_strings(dims: &'a [usize], strings: &'a mut [String]) -> Result<Self, TensorError> {
        check_strings(dims, strings.len())?;
        Ok(TensorViewMut {
            element_type: ElementType::String,
            dims,
            data: DataMut::Strings(strings),
        })
    }

    /// Element type.
    pub fn element_type(&self) -> ElementType {
        self.element_type
    }

    /// Dimensions, outermost first.
    pub fn dims(&self) -> &'a [usize] {
        self.dims
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        crate::element_count(self.dims).expect("the size was checked when the view was made")
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.dims.contains(&0)
    }

    /// The elements in their storage form; empty for strings.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.data {
            DataMut::Bytes(bytes) => bytes,
            DataMut::Strings(_) => &mut [],
        }
    }

    /// The elements.
    ///
    /// # Errors
    /// [`TensorError::ElementType`] when the tensor holds another type.
    pub fn as_slice_mut<T: Element>(&mut self) -> Result<&mut [T], TensorError> {
        if self.element_type != T::TYPE {
            return Err(TensorError::ElementType {
                expected: T::TYPE,
                actual: self.element_type,
            });
        }
        Ok(bytemuck::cast_slice_mut(self.bytes_mut()))
    }

    /// The strings.
    ///
    /// # Errors
    /// [`TensorError::ElementType`] when the tensor holds another type.
    pub fn as_strings_mut(&mut self) -> Result<&mut [String], TensorError> {
        match &mut self.data {
            DataMut::Strings(strings) => Ok(strings),
            DataMut::Bytes(_) => Err(TensorError::ElementType {
                expected: ElementType::String,
                actual: self.element_type,
            }),
        }
    }

    /// The same view for reading.
    pub fn as_view(&self) -> TensorView<'_> {
        let data = match &self.data {
            DataMut::Bytes(bytes) => Data::Bytes(bytes),
            DataMut::Strings(strings) => Data::Strings(strings),
        };
        TensorView {
            element_type: self.element_type,
            dims: self.dims,
            data,
        }
    }
}

fn check_length(
    element_type: ElementType,
    dims: &[usize],
    actual: usize,
) -> Result<(), TensorError> {
    let expected = crate::byte_length(element_type, dims)?;
    if element_type == ElementType::String {
        return Err(TensorError::ElementType {
            expected: ElementType::UInt8,
            actual: element_type,
        });
    }
    if expected != actual {
        return Err(TensorError::Length {
            dims: dims.to_vec(),
            element_type,
            unit: "bytes",
            expected,
            actual,
        });
    }
    Ok(())
}

fn check_strings(dims: &[usize], actual: usize) -> Result<(), TensorError> {
    let expected = crate::element_count(dims).ok_or_else(|| TensorError::Overflow {
        dims: dims.to_vec(),
        element_type: ElementType::String,
    })?;
    if expected != actual {
        return Err(TensorError::Length {
            dims: dims.to_vec(),
            element_type: ElementType::String,
            unit: "strings",
            expected,
            actual,
        });
    }
    Ok(())
}
