//! Copies of operands in the order in which register tiles read them.

use crate::tile::Kernels;
use crate::{Compute, GemmError, Matrix, Storage};
use onl_cpu::IsaTier;
use onl_tensor::{AlignedBuffer, Element, TensorError};
use std::marker::PhantomData;
use std::ops::Range;

/// Edge of the squares in which a transpose is copied, so that both sides stay within a few cache lines.
const SQUARE: usize = 16;

/// A constant second operand, widened and laid out for one tier: panels of as many columns as a register tile has,
/// each contiguous over all of k; the columns that the last panel has too many are zero.
pub struct PackedB<S: Storage> {
    panels: AlignedBuffer,
    matrices: usize,
    k: usize,
    n: usize,
    tier: IsaTier,
    _storage: PhantomData<S>,
}

impl<S: Storage> PackedB<S> {
    /// Packs `matrices` matrices of `k` × `n`.
    ///
    /// # Errors
    /// [`GemmError::Operand`] when the elements do not reach that far; [`GemmError::Tensor`] without memory;
    /// [`GemmError::Plan`] for a tier that this processor does not run.
    pub fn new(
        b: &Matrix<'_, S>,
        matrices: usize,
        k: usize,
        n: usize,
        tier: IsaTier,
    ) -> Result<Self, GemmError> {
        if !IsaTier::available().contains(&tier) {
            return Err(GemmError::Plan);
        }
        if !b.covers(matrices, k, n) {
            return Err(GemmError::Operand {
                operand: "B",
                length: b.elements.len(),
            });
        }
        let kernels = S::Compute::kernels(tier);
        let width = kernels.columns();
        let overflow = || TensorError::Overflow {
            dims: vec![matrices, k, n],
            element_type: S::Compute::TYPE,
        };
        let elements = n
            .checked_next_multiple_of(width)
            .and_then(|columns| columns.checked_mul(k))
            .and_then(|elements| elements.checked_mul(matrices))
            .ok_or_else(overflow)?;
        let bytes = elements
            .checked_mul(size_of::<S::Compute>())
            .ok_or_else(overflow)?;
        let mut panels = AlignedBuffer::zeroed(bytes)?;
        let matrix = elements.checked_div(matrices).unwrap_or(0);
        if matrix > 0 {
            let start = panels.as_bytes_mut().as_mut_ptr().cast::<S::Compute>();
            for index in 0..matrices {
                // SAFETY: the buffer holds `matrices` matrices of whole panels and is aligned to a cache line; the
                // elements of B reach as far as `covers` found.
                unsafe {
                    pack_panels(
                        b.elements.as_ptr().add(index * b.batch_stride),
                        b.row_stride,
                        b.column_stride,
                        0..k,
                        0..n,
                        kernels,
                        start.add(index * matrix),
                    );
                }
            }
        }
        Ok(PackedB {
            panels,
            matrices,
            k,
            n,
            tier,
            _storage: PhantomData,
        })
    }

    /// Number of matrices.
    pub fn matrices(&self) -> usize {
        self.matrices
    }

    /// Rows and columns of a matrix.
    pub fn dims(&self) -> (usize, usize) {
        (self.k, self.n)
    }

    /// Tier whose layout this is.
    pub fn tier(&self) -> IsaTier {
        self.tier
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.panels.len()
    }

    /// First element of a matrix.
    pub(crate) fn matrix(&self, index: usize) -> *const S::Compute {
        let width = S::Compute::kernels(self.tier).columns();
        let matrix = self.n.next_multiple_of(width) * self.k;
        self.panels
            .as_bytes()
            .as_ptr()
            .cast::<S::Compute>()
            .wrapping_add(index * matrix)
    }
}

impl<S: Storage> std::fmt::Debug for PackedB<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "PackedB({} x {} x {}, {})",
            self.matrices, self.k, self.n, self.tier
        )
    }
}

/// Copies rows `ks` and columns `columns` of B into panels `[panel][k][width]`; missing columns of the last panel
/// become zero.
///
/// # Safety
/// The processor has the tier's features. `b` is valid for reading the rows and columns at these strides, `target` for writing the panels.
pub(crate) unsafe fn pack_panels<S: Storage>(
    b: *const S,
    row_stride: usize,
    column_stride: usize,
    ks: Range<usize>,
    columns: Range<usize>,
    kernels: &Kernels<S::Compute>,
    target: *mut S::Compute,
) {
    let (depth, width) = (ks.len(), kernels.columns());
    for (panel, first) in columns.clone().step_by(width).enumerate() {
        let live = width.min(columns.end - first);
        let source = b.wrapping_add(ks.start * row_stride + first * column_stride);
        let panel = target.wrapping_add(panel * depth * width);
        if S::NATIVE && column_stride == 1 && live == width {
            // SAFETY: storage is the type of accumulation; B covers these rows and columns, the target this panel.
            unsafe { (kernels.copy_panel)(source.cast(), row_stride, depth, panel) };
            continue;
        }
        // SAFETY: a panel of the target holds depth · width elements.
        let rows = unsafe { std::slice::from_raw_parts_mut(panel, depth * width) };
        if column_stride == 1 {
            for (k, row) in rows.chunks_exact_mut(width).enumerate() {
                // SAFETY: `live` adjacent elements of row k are readable.
                let elements = unsafe {
                    std::slice::from_raw_parts(source.wrapping_add(k * row_stride), live)
                };
                S::widen_slice(elements, &mut row[..live]);
                row[live..].fill(S::Compute::ZERO);
            }
            continue;
        }
        for k0 in (0..depth).step_by(SQUARE) {
            let steps = SQUARE.min(depth - k0);
            for column in 0..live {
                let mut element = source.wrapping_add(k0 * row_stride + column * column_stride);
                for k in k0..k0 + steps {
                    // SAFETY: row k and this column are readable.
                    rows[k * width + column] = unsafe { *element }.widen();
                    element = element.wrapping_add(row_stride);
                }
            }
            for k in k0..k0 + steps {
                rows[k * width + live..(k + 1) * width].fill(S::Compute::ZERO);
            }
        }
    }
}

/// Copies `rows` rows of `depth` elements of A into rows `target_stride` apart.
///
/// # Safety
/// `a` is valid for reading the rows at these strides, `target` for writing them.
pub(crate) unsafe fn pack_rows<S: Storage>(
    a: *const S,
    row_stride: usize,
    column_stride: usize,
    rows: usize,
    depth: usize,
    target: *mut S::Compute,
    target_stride: usize,
) {
    if column_stride == 1 {
        for row in 0..rows {
            // SAFETY: row `row` has `depth` elements on both sides.
            unsafe {
                let source = std::slice::from_raw_parts(a.add(row * row_stride), depth);
                let target = std::slice::from_raw_parts_mut(target.add(row * target_stride), depth);
                S::widen_slice(source, target);
            }
        }
        return;
    }
    for k0 in (0..depth).step_by(SQUARE) {
        let steps = SQUARE.min(depth - k0);
        for row in 0..rows {
            // SAFETY: as above.
            let target = unsafe {
                std::slice::from_raw_parts_mut(target.add(row * target_stride + k0), steps)
            };
            let mut element = a.wrapping_add(row * row_stride + k0 * column_stride);
            for slot in target {
                // SAFETY: as above.
                *slot = unsafe { *element }.widen();
                element = element.wrapping_add(column_stride);
            }
        }
    }
}
