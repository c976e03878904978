use crate::TensorError;
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::fmt;
use std::ptr::NonNull;

const LINE: usize = 64;
const HUGE_PAGE: usize = 2 << 20;

/// Owned bytes, zeroed at first and aligned to a cache line; buffers of at least half a huge page are aligned to one
/// and ask the system for them (`madvise(MADV_HUGEPAGE)`), whole pages of a longer buffer, one page for a shorter one.
pub struct AlignedBuffer {
    start: NonNull<u8>,
    length: usize,
}

/// How `length` bytes are allocated.
fn layout(length: usize) -> Result<Layout, TensorError> {
    let (size, alignment) = if length >= HUGE_PAGE / 2 {
        (length.max(HUGE_PAGE), HUGE_PAGE)
    } else {
        (length, LINE)
    };
    Layout::from_size_align(size, alignment).map_err(|_| TensorError::OutOfMemory { bytes: length })
}

// SAFETY: the buffer is the only owner of its memory; shared references give shared reads only.
unsafe impl Send for AlignedBuffer {}
// SAFETY: as above.
unsafe impl Sync for AlignedBuffer {}

impl AlignedBuffer {
    /// A buffer without bytes; allocates nothing.
    pub const fn empty() -> Self {
        AlignedBuffer {
            start: NonNull::<Line>::dangling().cast(),
            length: 0,
        }
    }

    /// A zeroed buffer of `length` bytes.
    ///
    /// # Errors
    /// [`TensorError::OutOfMemory`] when the system refuses the memory.
    pub fn zeroed(length: usize) -> Result<Self, TensorError> {
        if length == 0 {
            return Ok(Self::empty());
        }
        let layout = layout(length)?;
        let start = if layout.align() == HUGE_PAGE {
            // SAFETY: the layout has a size above zero.
            let start = NonNull::new(unsafe { alloc(layout) });
            let start = start.ok_or(TensorError::OutOfMemory { bytes: length })?;
            // Pages take the advice only before they are first touched, which zeroing does.
            #[cfg(target_os = "linux")]
            // SAFETY: the range is owned memory aligned to a page; the advice changes no contents, and a refusal
            // leaves ordinary pages.
            unsafe {
                libc::madvise(start.as_ptr().cast(), layout.size(), libc::MADV_HUGEPAGE);
            }
            // SAFETY: the allocation has `length` bytes.
            unsafe { start.as_ptr().write_bytes(0, length) };
            start
        } else {
            // SAFETY: the layout has a size above zero.
            NonNull::new(unsafe { alloc_zeroed(layout) })
                .ok_or(TensorError::OutOfMemory { bytes: length })?
        };
        Ok(AlignedBuffer { start, length })
    }

    /// A buffer with a copy of `bytes`.
    ///
    /// # Errors
    /// As [`zeroed`](Self::zeroed).
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TensorError> {
        let mut buffer = Self::zeroed(bytes.len())?;
        buffer.as_bytes_mut().copy_from_slice(bytes);
        Ok(buffer)
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: `start` is valid for `length` initialized bytes (zeroed when allocated) for the buffer's life.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    /// The bytes, to be changed in place.
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_bytes`; the exclusive borrow of the buffer makes it the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

#[repr(align(64))]
struct Line(#[allow(dead_code)] [u8; LINE]);

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        if self.length > 0
            && let Ok(layout) = layout(self.length)
        {
            // SAFETY: allocated in `zeroed` with exactly this layout, which was valid there.
            unsafe { dealloc(self.start.as_ptr(), layout) };
        }
    }
}

impl Default for AlignedBuffer {
    fn default() -> Self {
        Self::empty()
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuffer({} bytes)", self.length)
    }
}
