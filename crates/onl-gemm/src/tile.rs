//! Register tiles: the innermost loops, one instance per tier, element type, height, width and form of operands.
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

pub(crate) use rows::Finish;

use onl_cpu::IsaTier;

/// Vectors per row of a panel on every tier.
pub(crate) const VECTORS: usize = 2;

/// Forms of the operands of a tile, as constants because they select instances.
pub(crate) mod form {
    /// Panels of accumulators, rows of A in place.
    pub const PACKED: u8 = 0;
    /// Panels of accumulators, A as a sliver `[k][rows]`.
    pub const SLIVER: u8 = 1;
    /// Rows of B in place.
    pub const STRIDED: u8 = 2;
    /// Rows of B in place, copied into a panel on the way.
    pub const PACKING: u8 = 3;
    /// Panels of f16.
    pub const F16: u8 = 4;
    /// Panels of bf16 whose 32-bit words hold column `c` of the first vector low and of the second vector high.
    pub const BF16: u8 = 5;
    /// Rows of bf16 in order; no tiles read it.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub const PLAIN_BF16: u8 = 6;
}

/// What one call of a register tile works on.
pub(crate) struct Tile<T> {
    /// First row of A, elements of a row adjacent; or a sliver.
    pub a: *const T,
    /// Elements from one row of A to the next; not read by tiles over slivers.
    pub a_stride: usize,
    /// First row of B; elements of a row are adjacent, whole vectors can be read.
    pub b: *const T,
    /// Elements from one row of B to the next; read by tiles over rows in place only.
    pub b_stride: usize,
    /// Bytes from one panel of B to the next; read by tiles of several panels only.
    pub panel_stride: usize,
    /// Panel that a packing tile writes.
    pub pack: *mut T,
    /// First cache line of this tile's share of the panel that comes next.
    pub next: *const u8,
    /// Lines of that share to ask for at every unrolled turn: 0, 1, 2, 4 or 8.
    pub next_lines: usize,
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

/// A register tile of fixed height, number of vectors and form of operands.
///
/// # Safety
/// The processor has the features of the kernel's tier. With the height `rows` and width of the instance: `a` is
/// valid for reading `rows` rows of `depth` elements, `b` for `depth` rows of whole vectors, `start` (unless null)
/// and `c` for `rows` rows of the existing columns, `pack` for writing `depth` rows of a panel if the form packs; no
/// other lane touches these parts of `c` and `pack`.
pub(crate) type TileKernel<T> = unsafe fn(&Tile<T>);

/// Tiles by `[height - 1][vectors - 1]`.
pub(crate) type TileTable<T> = &'static [[TileKernel<T>; VECTORS]];

/// Tiles over several whole panels by `[height - 1]`, each with its number of panels.
pub(crate) type WideTable<T> = &'static [(usize, TileKernel<T>)];

/// Tiles over panels of 16-bit elements.
pub(crate) struct Halves<T: 'static> {
    /// Tiles over one panel.
    pub tiles: TileTable<T>,
    /// Tiles over several panels.
    pub wide: WideTable<T>,
    /// Widens a panel. Arguments: the panel, elements from one row to the next, rows, the widened panel.
    ///
    /// # Safety
    /// The processor has the tier's features; both panels have that many rows.
    pub widen_panel: unsafe fn(*const u16, usize, usize, *mut T),
    /// As `widen_panel`, of rows whose columns are in order.
    pub widen_rows: unsafe fn(*const u16, usize, usize, *mut T),
    /// As [`Kernels::continue_row`], with adjacent elements of A, over rows of B whose columns are in order. Arguments:
    /// A, steps of k, B, its row stride, the chains.
    ///
    /// # Safety
    /// The processor has the tier's features; A and B are valid for reading that many elements and rows.
    pub continue_row: unsafe fn(*const T, usize, *const u16, usize, &mut [T]),
}

/// The compiled bodies of one tier for one element type.
pub(crate) struct Kernels<T: 'static> {
    /// Tier whose features the bodies use.
    pub tier: IsaTier,
    /// Elements of a vector.
    pub lanes: usize,
    /// Tiles over panels; as many as the tallest tile has rows.
    pub packed: TileTable<T>,
    /// Tiles over several panels.
    pub packed_wide: WideTable<T>,
    /// Tiles over panels and slivers of A; empty where rows of A are better read in place.
    pub sliver: TileTable<T>,
    /// Tiles over rows of B in place; as many as the tallest of them has rows.
    pub strided: TileTable<T>,
    /// Tiles over rows of B in place, of the width of several panels.
    pub strided_wide: WideTable<T>,
    /// Tiles over rows of B in place that fill a panel, by `[height - 1]`, whole panels only.
    pub packing: &'static [TileKernel<T>],
    /// Tiles over panels of f16 and of bf16; `None` where panels are widened beforehand.
    pub halves: Option<&'static [Halves<T>; 2]>,
    /// Copies a whole panel out of adjacent columns of B. Arguments: the first element of B, its row stride, rows, the
    /// panel.
    ///
    /// # Safety
    /// The processor has the tier's features; B is valid for reading, the panel for writing that many rows.
    pub copy_panel: unsafe fn(*const T, usize, usize, *mut T),
    /// Transposes a square of `lanes` × `lanes` elements. Arguments: the source, elements between its rows, the
    /// target, elements between its rows.
    ///
    /// # Safety
    /// The processor has the tier's features; source and target are valid for such a square and do not overlap.
    pub transpose: unsafe fn(*const T, usize, *mut T, usize),
    /// Copies rows of A into a sliver `[k][rows]`. Arguments: the first element of A, elements between its rows, rows,
    /// steps of k, the sliver.
    ///
    /// # Safety
    /// The processor has the tier's features; A is valid for reading that many rows and steps, the target for writing
    /// the sliver and a vector beyond it.
    pub pack_sliver: unsafe fn(*const T, usize, usize, usize, *mut T),
    /// Continues the chains of one output row. Arguments: the
    /// elements of A, their stride, steps of k, B, its row stride, the row of chains.
    ///
    /// # Safety
    /// The processor has the tier's features; A and B are valid for reading that many elements and rows.
    pub continue_row: unsafe fn(*const T, usize, usize, *const T, usize, &mut [T]),
    /// Continues the chains of at most a vector of columns of one output row, where elements of a column of B are
    /// adjacent. Arguments: the elements of A, their stride, steps of k, B, elements between its columns, the chains.
    ///
    /// # Safety
    /// The processor has the tier's features; A and B are valid for reading that many elements and columns.
    pub continue_columns: unsafe fn(*const T, usize, usize, *const T, usize, &mut [T]),
    /// Scales finished sums and adds to them; see [`Finish`].
    ///
    /// # Safety
    /// The processor has the tier's features; the pointers are valid for the rows and columns.
    pub finish: unsafe fn(&Finish<T>),
}

impl<T> Kernels<T> {
    /// Rows of the tallest tile.
    pub fn rows(&self) -> usize {
        self.packed.len()
    }

    /// Columns of a packed panel.
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

/// As [`prefetch`], for the panel that comes next: into the second-level cache, but where vectors have 32 bytes. Panels
/// are half as large there, and processors of this kind take longer over such requests when the line is near already.
#[inline(always)]
fn prefetch_next<const VECTOR_BYTES: usize>(pointer: *const u8) {
    if VECTOR_BYTES == 32 {
        prefetch(pointer);
        return;
    }
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch does not access memory architecturally.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(pointer.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = pointer;
}
