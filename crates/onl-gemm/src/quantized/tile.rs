//! Register tiles over groups of k, one set of bodies per kind of instructions.
//!
//! A group is 32 bits of a row of A, and as many of a column of B; a vector holds one group of as many columns as it
//! has 32-bit lanes. One instruction (or a short sequence) multiplies the elements of groups and adds the products to
//! 32-bit sums. Which elements a group has is the business of its [`Form`].

#[cfg(target_arch = "aarch64")]
mod neon;
mod register_tile;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::Instructions;
use super::requantize::{Rounding, RowScale};

/// Vectors of a panel of B.
pub(super) const VECTORS: usize = 2;
/// Panels of a strip, which is read from rows of B at once.
pub(super) const PANELS: usize = 2;
/// Vectors of a strip.
pub(super) const STRIP_VECTORS: usize = PANELS * VECTORS;
/// Most 32-bit lanes of a strip.
pub(super) const MAXIMUM_STRIP: usize = STRIP_VECTORS * 16;
/// Most rows of a register tile.
pub(super) const MAXIMUM_ROWS: usize = 12;

/// Elements that instructions read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Four `u8`.
    Unsigned,
    /// Four `i8`.
    Signed,
    /// Two `i16`.
    Words,
    /// Two values of [`Unsigned`](Form::Unsigned) as `i16`.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    UnsignedWords,
    /// Two values of [`Signed`](Form::Signed) as `i16`.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    SignedWords,
}

impl Form {
    /// Bits that turn a byte of an operand into the byte of this form.
    pub const fn flip(self, signed: bool) -> u8 {
        match (self, signed) {
            (Form::Unsigned | Form::UnsignedWords, true)
            | (Form::Signed | Form::SignedWords, false) => 0x80,
            _ => 0,
        }
    }

    /// What the form adds to an element, and so to its zero point.
    pub const fn offset(self, signed: bool) -> i32 {
        match (self, signed) {
            (Form::Unsigned | Form::UnsignedWords, true) => 128,
            (Form::Signed | Form::SignedWords, false) => -128,
            _ => 0,
        }
    }

    /// Whether elements of this sign are read as they are.
    pub const fn is_native(self, signed: bool) -> bool {
        matches!(
            (self, signed),
            (Form::Unsigned, false) | (Form::Signed, true)
        )
    }

    /// Bytes of an element.
    pub const fn bytes(self) -> usize {
        match self {
            Form::Words | Form::UnsignedWords | Form::SignedWords => 2,
            _ => 1,
        }
    }

    /// Elements of a group.
    pub const fn group(self) -> usize {
        4 / self.bytes()
    }

    /// A group of ones.
    pub const fn ones(self) -> u32 {
        match self.bytes() {
            2 => 0x0001_0001,
            _ => 0x0101_0101,
        }
    }

    /// The 32 bits that [`Kernels::pack_strip`] converts a group of B with, and the byte of B that becomes zero.
    pub const fn conversion(self, signed: bool) -> (u32, u8) {
        match self {
            Form::Words if signed => (0x0080_0080, 0),
            Form::Words => (0, 0),
            // The interleaving subtracts 128 afterwards, so here signed bytes are flipped.
            Form::SignedWords => (0x0080_0080 * signed as u32, self.flip(signed)),
            _ => (self.flip(signed) as u32 * 0x0101_0101, self.flip(signed)),
        }
    }
}

/// Corrections of a register tile: the sum of row i and column j starts from `columns[j] + rows[i]`, and with factors
/// from that plus `a_factors[i] · column_sums[j] + b_factors[i] · b_zero_points[j]`.
#[derive(Clone, Copy)]
pub(super) struct Starts {
    /// One for each column of a panel.
    pub columns: *const i32,
    /// One for each row.
    pub rows: *const i32,
    /// Whether the following are read.
    pub factored: bool,
    /// One for each row.
    pub a_factors: *const i32,
    /// One for each column of a panel.
    pub column_sums: *const i32,
    /// One for each row.
    pub b_factors: *const i32,
    /// One for each column of a panel.
    pub b_zero_points: *const i32,
}

/// What one call of a register tile works on.
pub(super) struct Tile {
    /// First row of A.
    pub a: *const u8,
    /// Bytes from one row of A to the next.
    pub a_stride: usize,
    /// Whole groups of a row of A.
    pub groups: usize,
    /// Elements of a last group of which the row of A has only these; bytes only.
    pub tail: usize,
    /// Panel of B, the last group included.
    pub b: *const i32,
    /// Corrections.
    pub starts: Starts,
    /// Result.
    pub c: *mut i32,
    /// Elements from one row of C to the next.
    pub c_stride: usize,
    /// Columns of the last vector that C has: 1 to the lanes of a vector.
    pub last_lanes: usize,
    /// Where the tile's share of the next panel begins, to be brought near.
    pub next: *const u8,
    /// Cache lines of it for every four groups.
    pub next_lines: usize,
}

/// What one call works on that multiplies rows of A by a strip of B in memory.
pub(super) struct Strip {
    /// First row of A, in the form of the instructions, groups padded.
    pub a: *const u8,
    /// Bytes from one row of A to the next.
    pub a_stride: usize,
    /// First element of B.
    pub b: *const u8,
    /// Elements from one row of B to the next.
    pub b_stride: usize,
    /// Elements from one column of B to the next.
    pub b_column_stride: usize,
    /// Rows of B.
    pub depth: usize,
    /// Columns of B that exist: 1 to a whole strip.
    pub columns: usize,
    /// See [`Form::conversion`].
    pub conversion: (u32, u8),
    /// Sums that are continued: a row for each row of A, then one of column sums, whole strips.
    pub sums: *mut i32,
    /// Elements from one row of sums to the next.
    pub sums_stride: usize,
}

/// # Safety
/// The processor has the kernels' features. With the height and the number of vectors of the instance: `a` is valid
/// for reading as many rows of the groups and the tail, `b` for the panel, `starts` and `c` for their rows and the
/// columns of whole vectors (of `c`: the existing columns); no other lane touches these parts of `c`.
pub(super) type TileKernel = unsafe fn(&Tile);

/// # Safety
/// The processor has the kernels' features; operands and sums are valid as [`Strip`] says, with the height of the
/// instance.
pub(super) type StripKernel = unsafe fn(&Strip);

/// The compiled bodies of one kind of instructions.
pub(super) struct Kernels {
    /// 32-bit lanes of a vector.
    pub lanes: usize,
    /// Form of A.
    pub a_form: Form,
    /// Form of B.
    pub b_form: Form,
    /// Tiles over panels: `packed[height - 1][vectors - 1]`.
    pub packed: &'static [[TileKernel; VECTORS]],
    /// Products with rows of B in memory: `strips[height - 1]`.
    pub strips: &'static [StripKernel],
    /// Packs a strip into two adjacent panels and adds up its columns. Of [`Strip`] it reads what concerns B, and
    /// the place of the column sums; the last argument is the first panel. Returns whether the instructions multiply
    /// every A by this strip exactly.
    ///
    /// # Safety
    /// As of [`StripKernel`]; the panels hold all groups.
    pub pack_strip: unsafe fn(&Strip, *mut i32) -> bool,
    /// Copies a row of A, given whether it is signed, into whole groups.
    ///
    /// # Safety
    /// The processor has the kernels' features.
    pub copy_row: unsafe fn(&[u8], bool, &mut [u8]),
    /// The sum of a row's elements in A's form.
    ///
    /// # Safety
    /// The processor has the kernels' features.
    pub row_sum: unsafe fn(&[u8], bool) -> i32,
    /// See [`correct_row`](super::requantize::correct_row).
    ///
    /// # Safety
    /// The processor has the kernels' features.
    pub correct_row: unsafe fn(&mut [i32], i32, (i32, &[i32]), (i32, &[i32])),
    /// See [`requantize_row`](super::requantize::requantize_row).
    ///
    /// # Safety
    /// The processor has the kernels' features.
    pub requantize_row: unsafe fn(&[i32], RowScale<'_>, Rounding, &mut [u8]),
}

impl Kernels {
    /// Rows of the tallest tile.
    pub fn rows(&self) -> usize {
        self.packed.len()
    }

    /// Columns of a panel.
    pub fn panel(&self) -> usize {
        VECTORS * self.lanes
    }

    /// Columns of a strip.
    pub fn strip(&self) -> usize {
        STRIP_VECTORS * self.lanes
    }
}

/// The bodies of these instructions for an A of this sign; `None` on another architecture.
pub(super) fn kernels(instructions: Instructions, a_signed: bool) -> Option<&'static Kernels> {
    let _ = a_signed;
    match instructions {
        Instructions::Scalar => Some(&scalar::SCALAR),
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 => Some(&x86::AVX2_BYTES),
        #[cfg(target_arch = "x86_64")]
        Instructions::AvxVnni => Some(&x86::AVX_VNNI),
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512 => Some(&x86::AVX512),
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512Vnni => Some(&x86::AVX512_VNNI),
        #[cfg(target_arch = "aarch64")]
        Instructions::Neon => Some(&neon::NEON),
        #[cfg(target_arch = "aarch64")]
        Instructions::NeonDot if a_signed => Some(&neon::NEON_SDOT),
        #[cfg(target_arch = "aarch64")]
        Instructions::NeonDot => Some(&neon::NEON_UDOT),
        #[allow(unreachable_patterns)]
        _ => None,
    }
}

/// The bodies for strips that those of [`kernels`] cannot multiply exactly, if there are such strips. Forms differ from
/// theirs in width alone, and vectors, heights and strips not at all.
pub(super) fn wide_kernels(instructions: Instructions) -> Option<&'static Kernels> {
    match instructions {
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 => Some(&x86::AVX2_WORDS),
        _ => None,
    }
}

/// Bounds of a strip that are of no interest.
#[inline(always)]
fn unwatched<V>(bounds: [V; 2], _: V) -> [V; 2] {
    bounds
}

/// Of a strip that is multiplied exactly whatever it holds.
#[inline(always)]
fn always<V>(_: [V; 2]) -> bool {
    true
}

/// Brings a cache line near; the address need not be valid.
#[inline(always)]
fn prefetch<T>(address: *const T) {
    // SAFETY: a prefetch reads nothing and faults never.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast())
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Brings a cache line into the second level.
#[inline(always)]
fn prefetch_second_level<T>(address: *const T) {
    // SAFETY: as above.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(address.cast())
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// The same address, of which the compiler knows nothing: it then keeps base pointers apart instead of deriving each row
/// of A from one, which costs it registers and spills sums.
#[inline(always)]
#[allow(clippy::pointers_in_nomem_asm_block)]
fn opaque(address: *const u32) -> *const u32 {
    #[allow(unused_mut)]
    let mut address = address;
    // SAFETY: the template is a comment.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    unsafe {
        std::arch::asm!("/* {0} */", inout(reg) address, options(pure, nomem, nostack, preserves_flags));
    }
    address
}

/// As [`opaque`], for a distance.
#[inline(always)]
fn opaque_distance(distance: usize) -> usize {
    #[allow(unused_mut)]
    let mut distance = distance;
    // SAFETY: the template is a comment.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    unsafe {
        std::arch::asm!("/* {0} */", inout(reg) distance, options(pure, nomem, nostack, preserves_flags));
    }
    distance
}

/// A whole group of a row.
///
/// # Safety
/// `address` is valid for reading four bytes.
#[inline(always)]
unsafe fn whole_group(address: *const u32, _: usize) -> u32 {
    // SAFETY: handed on from the caller.
    unsafe { address.read_unaligned() }
}

/// The last group of a row of bytes: its first `tail` bytes, then zeros.
///
/// # Safety
/// `address` is valid for reading `tail` bytes, fewer than four.
#[inline(always)]
unsafe fn last_group(address: *const u32, tail: usize) -> u32 {
    let mut bytes = [0; 4];
    // SAFETY: handed on from the caller.
    unsafe { std::ptr::copy_nonoverlapping(address.cast::<u8>(), bytes.as_mut_ptr(), tail.min(3)) };
    u32::from_le_bytes(bytes)
}
