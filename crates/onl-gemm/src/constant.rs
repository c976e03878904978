//! Constant factors, packed once and shared by everything that holds the same matrix.

use crate::pack::{Strided, pack_panels};
use crate::{Compute, GemmError, Matrix, Storage};
use onl_cpu::IsaTier;
use onl_tensor::{AlignedBuffer, Element, ElementType, TensorError};
use std::any::Any;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::marker::PhantomData;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

/// A constant second operand, laid out for one tier: panels of as many columns as a register tile has, each
/// contiguous over all of k; the columns that the last panel has too many are zero. Elements have the type of
/// accumulation, or 16 bits where the tier's tiles widen them.
pub struct PackedB<S: Storage> {
    panels: AlignedBuffer,
    matrices: usize,
    k: usize,
    n: usize,
    tier: IsaTier,
    _storage: PhantomData<S>,
}

/// Whether constants of type `S` keep their 16 bits on a tier.
pub(crate) fn keeps_halves<S: Storage>(tier: IsaTier) -> bool {
    S::HALF.is_some() && S::Compute::kernels(tier).halves.is_some()
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
        let halves = keeps_halves::<S>(tier);
        let matrix = n
            .checked_next_multiple_of(width)
            .and_then(|columns| columns.checked_mul(k))
            .ok_or_else(overflow)?;
        let bytes = matrix
            .checked_mul(matrices)
            .and_then(|elements| elements.checked_mul(element_bytes::<S>(tier)))
            .ok_or_else(overflow)?;
        let mut panels = AlignedBuffer::zeroed(bytes)?;
        let start = panels.as_bytes_mut().as_mut_ptr();
        for index in 0..if bytes > 0 { matrices } else { 0 } {
            let source = Strided {
                first: b.elements.as_ptr().wrapping_add(index * b.batch_stride),
                row_stride: b.row_stride,
                column_stride: b.column_stride,
            };
            // SAFETY: the buffer holds `matrices` matrices of whole panels and is aligned to a cache line; the
            // elements of B reach as far as `covers` found.
            unsafe {
                if halves {
                    let target = start.cast::<S>().add(index * matrix);
                    pack_halves(&source, k, n, width, target);
                } else {
                    let target = start.cast::<S::Compute>().add(index * matrix);
                    pack_panels(&source, 0..k, 0..n, kernels, target);
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

    /// As [`new`](Self::new); when the process already holds the same matrix packed for the tier, that copy. A copy
    /// lives as long as somebody holds it.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn shared(
        b: &Matrix<'_, S>,
        matrices: usize,
        k: usize,
        n: usize,
        tier: IsaTier,
    ) -> Result<Arc<Self>, GemmError> {
        if !b.covers(matrices, k, n) {
            return Err(GemmError::Operand {
                operand: "B",
                length: b.elements.len(),
            });
        }
        let key = Key {
            digest: digest(b, matrices, k, n),
            dims: [matrices, k, n],
            element_type: S::TYPE,
            tier,
        };
        let candidates = with_table(|table| {
            let copies = table.get(&key).into_iter().flatten();
            copies.filter_map(Weak::upgrade).collect::<Vec<_>>()
        });
        for candidate in candidates {
            if let Ok(packed) = candidate.downcast::<Self>()
                && packed.holds(b, matrices)
            {
                return Ok(packed);
            }
        }
        let packed = Arc::new(Self::new(b, matrices, k, n, tier)?);
        let copy: Arc<dyn Any + Send + Sync> = packed.clone();
        with_table(|table| {
            table.retain(|_, copies| {
                copies.retain(|copy| copy.strong_count() > 0);
                !copies.is_empty()
            });
            table.entry(key).or_default().push(Arc::downgrade(&copy));
        });
        Ok(packed)
    }

    /// Whether this is a copy of the matrices, bit for bit; [`shared`](Self::shared) does not trust a digest.
    fn holds(&self, b: &Matrix<'_, S>, matrices: usize) -> bool {
        let width = S::Compute::kernels(self.tier).columns();
        let halves = keeps_halves::<S>(self.tier);
        (0..matrices).all(|matrix| {
            let panels = self.matrix(matrix);
            (0..self.k).all(|k| {
                (0..self.n).all(|column| {
                    let element = b.elements
                        [matrix * b.batch_stride + k * b.row_stride + column * b.column_stride];
                    let row = column / width * width * self.k + k * width;
                    // SAFETY: row and column lie inside the matrix's panels, whose elements have this type.
                    unsafe {
                        if halves {
                            let place = half_place::<S>(column % width, width);
                            let held = *panels.cast::<S>().wrapping_add(row + place);
                            held.widen().bits() == element.widen().bits()
                        } else {
                            let held = *panels
                                .cast::<S::Compute>()
                                .wrapping_add(row + column % width);
                            held.bits() == element.widen().bits()
                        }
                    }
                })
            })
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

    /// First panel of a matrix.
    pub(crate) fn matrix(&self, index: usize) -> *const u8 {
        let width = S::Compute::kernels(self.tier).columns();
        let matrix = self.n.next_multiple_of(width) * self.k * element_bytes::<S>(self.tier);
        self.panels.as_bytes().as_ptr().wrapping_add(index * matrix)
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

/// Bytes of a packed element.
pub(crate) fn element_bytes<S: Storage>(tier: IsaTier) -> usize {
    if keeps_halves::<S>(tier) {
        size_of::<S>()
    } else {
        size_of::<S::Compute>()
    }
}

/// Where a column stands in a row of a panel of 16-bit elements; see `form::BF16`.
fn half_place<S: Storage>(column: usize, width: usize) -> usize {
    if S::INTERLEAVED {
        column % (width / 2) * 2 + column / (width / 2)
    } else {
        column
    }
}

/// # Safety
/// The source covers `k` × `n`; `target` is valid for writing as many elements of whole panels.
unsafe fn pack_halves<S: Storage>(
    source: &Strided<S>,
    k: usize,
    n: usize,
    width: usize,
    target: *mut S,
) {
    for column in 0..n {
        let place = half_place::<S>(column % width, width);
        for row in 0..k {
            let element = source
                .first
                .wrapping_add(row * source.row_stride + column * source.column_stride);
            let slot = target.wrapping_add(column / width * width * k + row * width + place);
            // SAFETY: handed on from the caller.
            unsafe { *slot = *element };
        }
    }
}

#[derive(PartialEq, Eq, Hash)]
struct Key {
    digest: u64,
    dims: [usize; 3],
    element_type: ElementType,
    tier: IsaTier,
}

type Copies = Vec<Weak<dyn Any + Send + Sync>>;

/// Packed constants that live. Several may share a digest.
static TABLE: LazyLock<Mutex<HashMap<Key, Copies>>> = LazyLock::new(Mutex::default);

fn with_table<R>(body: impl FnOnce(&mut HashMap<Key, Copies>) -> R) -> R {
    body(&mut TABLE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Digest of the bytes that the matrices span, and of how they are read.
fn digest<S: Storage>(b: &Matrix<'_, S>, matrices: usize, k: usize, n: usize) -> u64 {
    let mut hasher = DefaultHasher::new();
    (b.row_stride, b.column_stride, b.batch_stride).hash(&mut hasher);
    if matrices > 0 && k > 0 && n > 0 {
        let span = (matrices - 1) * b.batch_stride
            + (k - 1) * b.row_stride
            + (n - 1) * b.column_stride
            + 1;
        hasher.write(S::bytes(&b.elements[..span]));
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use onl_tensor::{bf16, f16};

    fn share<S: Storage>(elements: &[S], k: usize, n: usize) -> Arc<PackedB<S>> {
        PackedB::shared(
            &Matrix::row_major(elements, k, n),
            1,
            k,
            n,
            IsaTier::detect(),
        )
        .expect("elements cover the matrix")
    }

    #[test]
    fn equal_constants_are_held_once_and_dropped_with_the_last_holder() {
        let elements: Vec<f32> = (0..70 * 45).map(|i| i as f32 - 7.25).collect();
        let first = share(&elements, 70, 45);
        let second = share(&elements.clone(), 70, 45);
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(Arc::strong_count(&first), 2);
        let transposed = PackedB::shared(
            &Matrix::transposed(&elements, 45, 70),
            1,
            45,
            70,
            IsaTier::detect(),
        )
        .expect("elements cover the matrix");
        assert_eq!(transposed.dims(), (45, 70));
        let alive = Arc::downgrade(&first);
        drop((first, second));
        assert!(alive.upgrade().is_none());
    }

    #[test]
    fn another_constant_is_never_taken_for_the_same() {
        fn check<S: Storage>(one: S, other: S) {
            let mut elements = vec![one; 33 * 35];
            let packed = share(&elements, 33, 35);
            assert!(packed.holds(&Matrix::row_major(&elements, 33, 35), 1));
            for place in [0, 34, 35 * 20 + 17, 33 * 35 - 1] {
                elements[place] = other;
                assert!(!packed.holds(&Matrix::row_major(&elements, 33, 35), 1));
                assert!(!Arc::ptr_eq(&packed, &share(&elements, 33, 35)));
                elements[place] = one;
            }
        }
        check(0.0f32, -0.0);
        check(1.0f64, 1.0 + f64::EPSILON);
        check(f16::ONE, f16::NEG_ONE);
        check(bf16::ONE, bf16::NEG_ONE);
    }
}
