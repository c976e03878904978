use std::marker::PhantomData;
use std::ops::Range;

/// A slice of which lanes write disjoint parts.
pub struct DisjointSlice<'a, T> {
    start: *mut T,
    length: usize,
    _elements: PhantomData<&'a mut [T]>,
}

// SAFETY: the only access is `part`, whose contract gives every element to at most one lane at a time.
unsafe impl<T: Send> Send for DisjointSlice<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for DisjointSlice<'_, T> {}

impl<'a, T> DisjointSlice<'a, T> {
    /// Shares out `elements` for the life of the borrow.
    pub fn new(elements: &'a mut [T]) -> Self {
        DisjointSlice {
            start: elements.as_mut_ptr(),
            length: elements.len(),
            _elements: PhantomData,
        }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The elements of a range.
    ///
    /// # Safety
    /// No two parts that live at the same time may overlap.
    ///
    /// # Panics
    /// When the range is not inside the slice.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        assert!(
            range.start <= range.end && range.end <= self.length,
            "part lies inside the slice"
        );
        // SAFETY: inside the borrowed slice; the caller keeps parts disjoint.
        unsafe {
            std::slice::from_raw_parts_mut(self.start.add(range.start), range.end - range.start)
        }
    }
}
