use super::tile::{Kernels, Strip};
use super::{Instructions, QuantizedMatrix};
use crate::GemmError;
use onl_tensor::{AlignedBuffer, ElementType, TensorError};
use std::ops::Range;

/// A constant second operand with its column sums, laid out for one kind of instructions and one sign of A: panels of as
/// many columns as a register tile has, each contiguous over all of k; columns that the last ones have too many are zero.
pub struct PackedQuantized {
    panels: AlignedBuffer,
    column_sums: AlignedBuffer,
    matrices: usize,
    k: usize,
    n: usize,
    instructions: Instructions,
    a_signed: bool,
    b_signed: bool,
}

impl PackedQuantized {
    /// Packs `matrices` matrices of `k` × `n` for products with an A whose sign `a_signed` tells.
    ///
    /// # Errors
    /// [`GemmError::Operand`] when the elements do not reach that far; [`GemmError::Tensor`] without memory;
    /// [`GemmError::Plan`] for instructions that this processor does not run.
    pub fn new(
        b: &QuantizedMatrix<'_>,
        matrices: usize,
        k: usize,
        n: usize,
        instructions: Instructions,
        a_signed: bool,
    ) -> Result<Self, GemmError> {
        if !instructions.is_available() {
            return Err(GemmError::Plan);
        }
        if !b.bytes.covers(matrices, k, n) {
            return Err(GemmError::Operand {
                operand: "B",
                length: b.bytes.elements.len(),
            });
        }
        let kernels = instructions.kernels(a_signed);
        let overflow = || TensorError::Overflow {
            dims: vec![matrices, k, n],
            element_type: ElementType::Int8,
        };
        let columns = n
            .checked_next_multiple_of(kernels.strip())
            .and_then(|columns| columns.checked_mul(matrices))
            .and_then(|columns| columns.checked_mul(size_of::<i32>()))
            .ok_or_else(overflow)?;
        let bytes = columns
            .checked_mul(groups(k, kernels))
            .ok_or_else(overflow)?;
        let mut packed = PackedQuantized {
            panels: AlignedBuffer::zeroed(bytes)?,
            column_sums: AlignedBuffer::zeroed(columns)?,
            matrices,
            k,
            n,
            instructions,
            a_signed,
            b_signed: b.signed,
        };
        if bytes == 0 {
            return Ok(packed);
        }
        for index in 0..matrices {
            let panels = packed
                .panels
                .as_bytes_mut()
                .as_mut_ptr()
                .cast::<i32>()
                .wrapping_add(index * packed.matrix_words());
            let sums = packed
                .column_sums
                .as_bytes_mut()
                .as_mut_ptr()
                .cast::<i32>()
                .wrapping_add(index * packed.matrix_columns());
            // SAFETY: the buffers hold whole strips of all matrices and are aligned to a cache line; `covers` found that
            // B reaches as far.
            unsafe { pack_strips(b, index, k, n, 0..packed.strips(), kernels, panels, sums) };
        }
        Ok(packed)
    }

    /// Number of matrices.
    pub fn matrices(&self) -> usize {
        self.matrices
    }

    /// Rows and columns of a matrix.
    pub fn dims(&self) -> (usize, usize) {
        (self.k, self.n)
    }

    /// Instructions and sign of A that this was packed for.
    pub fn layout(&self) -> (Instructions, bool) {
        (self.instructions, self.a_signed)
    }

    /// Whether the elements of B are `i8`, otherwise `u8`.
    pub fn signed(&self) -> bool {
        self.b_signed
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.panels.len() + self.column_sums.len()
    }

    fn strips(&self) -> usize {
        self.n
            .div_ceil(self.instructions.kernels(self.a_signed).strip())
    }

    fn matrix_columns(&self) -> usize {
        self.strips() * self.instructions.kernels(self.a_signed).strip()
    }

    fn matrix_words(&self) -> usize {
        self.matrix_columns() * groups(self.k, self.instructions.kernels(self.a_signed))
    }

    /// Panels of a matrix, and its column sums.
    pub(super) fn matrix(&self, index: usize) -> (*const i32, *const i32) {
        let words = |buffer: &AlignedBuffer| buffer.as_bytes().as_ptr().cast::<i32>();
        (
            words(&self.panels).wrapping_add(index * self.matrix_words()),
            words(&self.column_sums).wrapping_add(index * self.matrix_columns()),
        )
    }
}

impl std::fmt::Debug for PackedQuantized {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "PackedQuantized({} x {} x {}, {})",
            self.matrices, self.k, self.n, self.instructions
        )
    }
}

/// Groups of `k` elements, the last one perhaps not full.
pub(super) fn groups(k: usize, kernels: &Kernels) -> usize {
    k.div_ceil(kernels.b_form.group())
}

/// Packs strips of matrix `matrix` of B into adjacent panels, and adds up their columns.
///
/// # Safety
/// The processor has the kernels' features; B is valid for reading the matrix, `panels` and `sums` for writing all
/// groups and columns of the strips.
pub(super) unsafe fn pack_strips(
    b: &QuantizedMatrix<'_>,
    matrix: usize,
    k: usize,
    n: usize,
    strips: Range<usize>,
    kernels: &Kernels,
    panels: *mut i32,
    sums: *mut i32,
) {
    let width = kernels.strip();
    let source = b
        .bytes
        .elements
        .as_ptr()
        .wrapping_add(matrix * b.bytes.batch_stride);
    for (index, strip) in strips.enumerate() {
        let first = strip * width;
        let strip = Strip {
            a: std::ptr::null(),
            a_stride: 0,
            b: source.wrapping_add(first * b.bytes.column_stride),
            b_stride: b.bytes.row_stride,
            b_column_stride: b.bytes.column_stride,
            depth: k,
            columns: width.min(n - first),
            conversion: kernels.b_form.conversion(b.signed),
            sums: sums.wrapping_add(index * width),
            sums_stride: 0,
        };
        let panels = panels.wrapping_add(index * width * groups(k, kernels));
        // SAFETY: the strip lies within the matrix, the panels within what the caller gave.
        unsafe { (kernels.pack_strip)(&strip, panels) };
    }
}
