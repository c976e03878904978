//! Register tiles: the innermost loops, one instance per tier, element type, height and width.
//!
//! A tile keeps up to `rows` × `vectors · lanes` running chains in registers and walks k upwards. Loops around the
//! tile know nothing of instructions; the tile knows nothing of blocking, batches or storage types.

#[cfg(target_arch = "aarch64")]
mod neon;
mod register_tile;
mod rows;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use rows::RowAddend;

use onl_cpu::IsaTier;

/// Vectors per row of the widest tile of every tier.
pub(crate) const VECTORS: usize = 2;

/// What one call of a register tile works on.
pub(crate) struct Tile<T> {
    /// First row of A; elements of a row are adjacent.
    pub a: *const T,
    /// Elements from one row of A to the next.
    pub a_stride: usize,
    /// First row of B; elements of a row are adjacent, whole vectors can be read.
    pub b: *const T,
    /// Elements from one row of B to the next; read by strided tiles only.
    pub b_stride: usize,
    /// Steps of k.
    pub depth: usize,
    /// Where the chains stand before the first step; null for +0.
    pub start: *const T,
    /// Elements from one row of `start` to the next.
    pub start_stride: usize,
    /// Result.
    pub c: *mut T,
    /// Elements from one row of C to the next.
    pub c_stride: usize,
    /// Whether the result is added to what C holds.
    pub merge: bool,
    /// Columns of the last vector that exist in C and `start`: 1 to `lanes`.
    pub last_lanes: usize,
}

/// A register tile of fixed height and number of vectors.
///
/// # Safety
/// The processor has the features of the kernel's tier. With the height `rows` and width of the instance: `a` is
/// valid for reading `rows` rows of `depth` elements, `b` for `depth` rows of whole vectors, `start` (unless null)
/// and `c` for `rows` rows of the existing columns; no other lane touches these parts of `c`.
pub(crate) type TileKernel<T> = unsafe fn(&Tile<T>);

/// The compiled bodies of one tier for one element type.
pub(crate) struct Kernels<T: 'static> {
    /// Elements of a vector.
    pub lanes: usize,
    /// Tiles over packed panels, `packed[height - 1][vectors - 1]`; as many as the tallest tile has rows.
    pub packed: &'static [[TileKernel<T>; VECTORS]],
    /// Tiles over rows of B in place.
    pub strided: &'static [[TileKernel<T>; VECTORS]],
    /// Copies a whole panel out of adjacent columns of B. Arguments: the first element of B, its row stride, rows, the
    /// panel.
    ///
    /// # Safety
    /// The processor has the tier's features; B is valid for reading, the panel for writing that many rows.
    pub copy_panel: unsafe fn(*const T, usize, usize, *mut T),
    /// Continues the chains of one output row. Arguments: the
    /// elements of A, their stride, steps of k, B, its row stride, the row of chains.
    ///
    /// # Safety
    /// The processor has the tier's features; A and B are valid for reading that many elements and rows.
    pub continue_row: unsafe fn(*const T, usize, usize, *const T, usize, &mut [T]),
    /// `row = fma(beta, addend, alpha · row)`.
    ///
    /// # Safety
    /// The processor has the tier's features.
    pub finish_row: unsafe fn(&mut [T], T, T, RowAddend<'_, T>),
}

impl<T> Kernels<T> {
    /// Rows of the tallest tile.
    pub fn rows(&self) -> usize {
        self.packed.len()
    }

    /// Columns of the widest tile, which is the width of a packed panel.
    pub fn columns(&self) -> usize {
        self.lanes * VECTORS
    }
}

/// Kernels of a tier for `f32`; the scalar ones when this architecture does not have the tier.
pub(crate) fn kernels_f32(tier: IsaTier) -> &'static Kernels<f32> {
    match tier {
        #[cfg(target_arch = "x86_64")]
        IsaTier::Avx512 => &x86::AVX512_F32,
        #[cfg(target_arch = "x86_64")]
        IsaTier::Avx2 => &x86::AVX2_F32,
        #[cfg(target_arch = "aarch64")]
        IsaTier::Neon => &neon::NEON_F32,
        _ => &scalar::SCALAR_F32,
    }
}

/// Kernels of a tier for `f64`; the scalar ones when this architecture does not have the tier.
pub(crate) fn kernels_f64(tier: IsaTier) -> &'static Kernels<f64> {
    match tier {
        #[cfg(target_arch = "x86_64")]
        IsaTier::Avx512 => &x86::AVX512_F64,
        #[cfg(target_arch = "x86_64")]
        IsaTier::Avx2 => &x86::AVX2_F64,
        #[cfg(target_arch = "aarch64")]
        IsaTier::Neon => &neon::NEON_F64,
        _ => &scalar::SCALAR_F64,
    }
}

/// Hides from the optimizer how a pointer was computed. Rows of A are addressed from four such pointers: when all of
/// them are visible offsets of one base, LLVM hoists loads across steps and spills accumulators.
#[inline(always)]
#[allow(clippy::pointers_in_nomem_asm_block)]
fn opaque<T>(pointer: *const T) -> *const T {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    {
        let mut hidden = pointer;
        // SAFETY: the template is a comment; the register keeps its value.
        unsafe {
            std::arch::asm!("/* {0} */", inout(reg) hidden, options(pure, nomem, nostack, preserves_flags));
        }
        hidden
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    pointer
}

/// As [`opaque`], for a distance.
#[inline(always)]
fn opaque_distance(distance: usize) -> usize {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    {
        let mut hidden = distance;
        // SAFETY: as in `opaque`.
        unsafe {
            std::arch::asm!("/* {0} */", inout(reg) hidden, options(pure, nomem, nostack, preserves_flags));
        }
        hidden
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    distance
}

/// Asks for a cache line that will be read soon; any address is allowed.
#[inline(always)]
fn prefetch<T>(pointer: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch does not access memory architecturally.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(pointer.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = pointer;
}
