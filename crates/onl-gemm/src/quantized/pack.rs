use super::tile::{Kernels, Strip};
use super::{Instructions, QuantizedMatrix};
use crate::GemmError;
use onl_tensor::{AlignedBuffer, ElementType, TensorError};

/// A constant second operand with its column sums, laid out for one kind of instructions and one sign of A: panels of as
/// many columns as a register tile has, each contiguous over all of k; columns that the last ones have too many are zero.
/// Two panels are a strip, which has elements of 8 bits where the instructions multiply these exactly.
pub struct PackedQuantized {
    panels: AlignedBuffer,
    column_sums: AlignedBuffer,
    /// Strips of all matrices.
    places: Vec<StripPlace>,
    matrices: usize,
    k: usize,
    n: usize,
    instructions: Instructions,
    a_signed: bool,
    b_signed: bool,
}

/// Where a strip is among others.
#[derive(Debug, Clone, Copy)]
struct StripPlace {
    /// Words of 32 bits before it.
    offset: usize,
    /// Whether it is laid out for [`Instructions::wide_kernels`].
    wide: bool,
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
        let width = kernels.strip();
        let overflow = || TensorError::Overflow {
            dims: vec![matrices, k, n],
            element_type: ElementType::Int8,
        };
        let columns = n
            .checked_next_multiple_of(width)
            .and_then(|columns| columns.checked_mul(matrices))
            .and_then(|columns| columns.checked_mul(size_of::<i32>()))
            .ok_or_else(overflow)?;
        let most = largest_groups(k, instructions, a_signed);
        columns.checked_mul(most).ok_or_else(overflow)?;
        let mut packed = PackedQuantized {
            panels: AlignedBuffer::zeroed(0)?,
            column_sums: AlignedBuffer::zeroed(columns)?,
            places: Vec::new(),
            matrices,
            k,
            n,
            instructions,
            a_signed,
            b_signed: b.signed,
        };
        if columns == 0 {
            return Ok(packed);
        }
        let mut strip = AlignedBuffer::zeroed(width * most * size_of::<i32>())?;
        let sums = words_mut(&mut packed.column_sums);
        let strips = n.div_ceil(width);
        let mut offset = 0;
        let pack = |index: usize, target: *mut i32| {
            // SAFETY: the target has room for the strip, the sums for all columns; `covers` found that B reaches as far.
            unsafe {
                pack_strip(
                    b,
                    index / strips,
                    k,
                    n,
                    index % strips,
                    (instructions, a_signed),
                    target,
                    sums.wrapping_add(index * width),
                )
            }
        };
        // Sizes are known when every strip has been packed, so that is done twice where they differ.
        for index in 0..matrices * strips {
            let wide = instructions.wide_kernels();
            let is_wide = wide.is_some() && pack(index, words_mut(&mut strip));
            let of_strip = wide.filter(|_| is_wide).unwrap_or(kernels);
            packed.places.push(StripPlace {
                offset,
                wide: is_wide,
            });
            offset += width * groups(k, of_strip);
        }
        packed.panels = AlignedBuffer::zeroed(offset * size_of::<i32>())?;
        let panels = words_mut(&mut packed.panels);
        if offset > 0 {
            for (index, place) in packed.places.iter().enumerate() {
                pack(index, panels.wrapping_add(place.offset));
            }
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
        self.panels.len() + self.column_sums.len() + size_of_val(&self.places[..])
    }

    fn strips(&self) -> usize {
        self.n
            .div_ceil(self.instructions.kernels(self.a_signed).strip())
    }

    /// Whether there are strips of 8 bits, and wider ones.
    pub(super) fn widths(&self) -> (bool, bool) {
        let has = |wide| self.places.iter().any(|place| place.wide == wide);
        (has(false), has(true))
    }

    /// The first panel of a strip of a matrix, and whether the strip is wide.
    pub(super) fn strip(&self, matrix: usize, strip: usize) -> (*const i32, bool) {
        let StripPlace { offset, wide } = self.places[matrix * self.strips() + strip];
        let panels = self.panels.as_bytes().as_ptr().cast::<i32>();
        (panels.wrapping_add(offset), wide)
    }

    /// Column sums of a matrix.
    pub(super) fn column_sums(&self, matrix: usize) -> *const i32 {
        let columns = self.strips() * self.instructions.kernels(self.a_signed).strip();
        let sums = self.column_sums.as_bytes().as_ptr().cast::<i32>();
        sums.wrapping_add(matrix * columns)
    }
}

fn words_mut(buffer: &mut AlignedBuffer) -> *mut i32 {
    buffer.as_bytes_mut().as_mut_ptr().cast()
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

/// The most groups that a strip of `k` steps has, whatever its width.
pub(super) fn largest_groups(k: usize, instructions: Instructions, a_signed: bool) -> usize {
    let narrow = groups(k, instructions.kernels(a_signed));
    let wide = instructions.wide_kernels();
    wide.map_or(narrow, |wide| narrow.max(groups(k, wide)))
}

/// Packs a strip of matrix `matrix` of B for instructions and sign of A, adds up its columns, and returns whether it is
/// wide.
///
/// # Safety
/// The processor has the instructions; B is valid for reading the matrix, `panels` and `sums` for writing all groups of
/// the width that the strip turns out to have, and its columns.
pub(super) unsafe fn pack_strip(
    b: &QuantizedMatrix<'_>,
    matrix: usize,
    k: usize,
    n: usize,
    strip: usize,
    (instructions, a_signed): (Instructions, bool),
    panels: *mut i32,
    sums: *mut i32,
) -> bool {
    let source = b
        .bytes
        .elements
        .as_ptr()
        .wrapping_add(matrix * b.bytes.batch_stride);
    let pack = |kernels: &Kernels| {
        let width = kernels.strip();
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
            sums,
            sums_stride: 0,
        };
        // SAFETY: the strip lies within the matrix, the panels within what the caller gave.
        unsafe { (kernels.pack_strip)(&strip, panels) }
    };
    if pack(instructions.kernels(a_signed)) {
        return false;
    }
    instructions.wide_kernels().is_some_and(pack)
}
