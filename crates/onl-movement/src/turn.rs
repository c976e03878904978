//! Transposition of a block in registers.
//!
//! A register holds 16-byte pieces of `PIECES` times `16 / W` source lines. Interleaving the halves of the lines
//! log2(16 / W) times (a perfect shuffle each) turns pieces of `16 / W` lines of as many elements into their
//! transposition, in every piece of the register at once.

use crate::unit::{Unit, copy_bytes};
use onl_cpu::IsaTier;
use onl_simd::Isa;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Most bytes from one source line to the next of blocks that are turned in squares.
#[cfg(target_arch = "x86_64")]
const NEAR: usize = 1024;

/// A register of 16-byte pieces.
trait Register: Copy {
    /// Number of pieces.
    const PIECES: usize;
    /// Loads pieces that lie `step` bytes apart.
    ///
    /// # Safety
    /// All pieces are valid for reading.
    unsafe fn load(source: *const u8, step: isize) -> Self;
    /// Stores the whole register.
    ///
    /// # Safety
    /// `target` is valid for writing `16 · PIECES` bytes.
    unsafe fn store(self, target: *mut u8);
    /// Interleaves elements of `W` bytes of the low halves of each piece.
    fn low<const W: usize>(self, other: Self) -> Self;
    /// Interleaves elements of `W` bytes of the high halves of each piece.
    fn high<const W: usize>(self, other: Self) -> Self;
}

/// The register of the scalar tier.
#[derive(Clone, Copy)]
struct Portable([u8; 16]);

impl Portable {
    #[inline(always)]
    fn interleave<const W: usize>(self, other: Self, from: usize) -> Self {
        let mut result = [0; 16];
        for (at, slot) in result.iter_mut().enumerate() {
            let element = at / W;
            let byte = from + element / 2 * W + at % W;
            *slot = if element.is_multiple_of(2) {
                self.0[byte]
            } else {
                other.0[byte]
            };
        }
        Portable(result)
    }
}

impl Register for Portable {
    const PIECES: usize = 1;
    #[inline(always)]
    unsafe fn load(source: *const u8, _: isize) -> Self {
        // SAFETY: the caller's promise; byte arrays have no alignment.
        Portable(unsafe { source.cast::<[u8; 16]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, target: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { target.cast::<[u8; 16]>().write_unaligned(self.0) };
    }
    #[inline(always)]
    fn low<const W: usize>(self, other: Self) -> Self {
        self.interleave::<W>(other, 0)
    }
    #[inline(always)]
    fn high<const W: usize>(self, other: Self) -> Self {
        self.interleave::<W>(other, 8)
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    //! Registers that are used by code compiled for tiers that have them only.

    use super::Register;
    use std::arch::x86_64::*;

    /// Interleaving by element width.
    macro_rules! interleave {
        ($(#[$doc:meta])* $name:ident: $b1:ident $b2:ident $b4:ident $b8:ident) => {
            #[inline(always)]
            fn $name<const W: usize>(self, other: Self) -> Self {
                // SAFETY: registers of this width occur in code of tiers that have these instructions only.
                unsafe {
                    match W {
                        1 => $b1(self, other),
                        2 => $b2(self, other),
                        4 => $b4(self, other),
                        _ => $b8(self, other),
                    }
                }
            }
        };
    }

    impl Register for __m128i {
        const PIECES: usize = 1;
        #[inline(always)]
        unsafe fn load(source: *const u8, _: isize) -> Self {
            // SAFETY: the caller's promise.
            unsafe { _mm_loadu_si128(source.cast()) }
        }
        #[inline(always)]
        unsafe fn store(self, target: *mut u8) {
            // SAFETY: the caller's promise.
            unsafe { _mm_storeu_si128(target.cast(), self) }
        }
        interleave!(low: _mm_unpacklo_epi8 _mm_unpacklo_epi16 _mm_unpacklo_epi32 _mm_unpacklo_epi64);
        interleave!(high: _mm_unpackhi_epi8 _mm_unpackhi_epi16 _mm_unpackhi_epi32 _mm_unpackhi_epi64);
    }

    impl Register for __m256i {
        const PIECES: usize = 2;
        #[inline(always)]
        unsafe fn load(source: *const u8, step: isize) -> Self {
            // SAFETY: the caller's promise, and AVX2 as for `interleave`.
            unsafe { _mm256_loadu2_m128i(source.offset(step).cast(), source.cast()) }
        }
        #[inline(always)]
        unsafe fn store(self, target: *mut u8) {
            // SAFETY: the caller's promise, and AVX2 as for `interleave`.
            unsafe { _mm256_storeu_si256(target.cast(), self) }
        }
        interleave!(low: _mm256_unpacklo_epi8 _mm256_unpacklo_epi16 _mm256_unpacklo_epi32 _mm256_unpacklo_epi64);
        interleave!(high: _mm256_unpackhi_epi8 _mm256_unpackhi_epi16 _mm256_unpackhi_epi32 _mm256_unpackhi_epi64);
    }

    impl Register for __m512i {
        const PIECES: usize = 4;
        #[inline(always)]
        unsafe fn load(source: *const u8, step: isize) -> Self {
            // SAFETY: the caller's promise, and AVX-512 as for `interleave`.
            unsafe {
                let piece = |k: isize| _mm_loadu_si128(source.offset(k * step).cast());
                let low = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(piece(0)), piece(1));
                let high = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(piece(2)), piece(3));
                _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
            }
        }
        #[inline(always)]
        unsafe fn store(self, target: *mut u8) {
            // SAFETY: the caller's promise, and AVX-512 as for `interleave`.
            unsafe { _mm512_storeu_si512(target.cast(), self) }
        }
        interleave!(low: _mm512_unpacklo_epi8 _mm512_unpacklo_epi16 _mm512_unpacklo_epi32 _mm512_unpacklo_epi64);
        interleave!(high: _mm512_unpackhi_epi8 _mm512_unpackhi_epi16 _mm512_unpackhi_epi32 _mm512_unpackhi_epi64);
    }
}

#[cfg(target_arch = "aarch64")]
mod neon {
    use super::Register;
    use std::arch::aarch64::*;

    /// Interleaving by element width; every aarch64 processor has NEON.
    macro_rules! interleave {
        ($name:ident: $b1:ident $b2:ident $b4:ident $b8:ident) => {
            #[inline(always)]
            fn $name<const W: usize>(self, other: Self) -> Self {
                // SAFETY: NEON is part of the architecture.
                unsafe {
                    match W {
                        1 => $b1(self, other),
                        2 => vreinterpretq_u8_u16($b2(
                            vreinterpretq_u16_u8(self),
                            vreinterpretq_u16_u8(other),
                        )),
                        4 => vreinterpretq_u8_u32($b4(
                            vreinterpretq_u32_u8(self),
                            vreinterpretq_u32_u8(other),
                        )),
                        _ => vreinterpretq_u8_u64($b8(
                            vreinterpretq_u64_u8(self),
                            vreinterpretq_u64_u8(other),
                        )),
                    }
                }
            }
        };
    }

    impl Register for uint8x16_t {
        const PIECES: usize = 1;
        #[inline(always)]
        unsafe fn load(source: *const u8, _: isize) -> Self {
            // SAFETY: the caller's promise.
            unsafe { vld1q_u8(source) }
        }
        #[inline(always)]
        unsafe fn store(self, target: *mut u8) {
            // SAFETY: the caller's promise.
            unsafe { vst1q_u8(target, self) }
        }
        interleave!(low: vzip1q_u8 vzip1q_u16 vzip1q_u32 vzip1q_u64);
        interleave!(high: vzip2q_u8 vzip2q_u16 vzip2q_u32 vzip2q_u64);
    }
}

/// Transposes the elements of every piece of `R` registers by perfect shuffles.
#[inline(always)]
fn interleave<V: Register, const W: usize, const R: usize>(lines: &mut [V; R]) {
    // A loop over the shuffles would keep the registers in memory between them.
    if R > 1 {
        shuffle::<V, W, R>(lines);
    }
    if R > 2 {
        shuffle::<V, W, R>(lines);
    }
    if R > 4 {
        shuffle::<V, W, R>(lines);
    }
    if R > 8 {
        shuffle::<V, W, R>(lines);
    }
}

/// One perfect shuffle: line `k` and the line half of all further on are interleaved into lines `2k` and `2k + 1`.
#[inline(always)]
fn shuffle<V: Register, const W: usize, const R: usize>(lines: &mut [V; R]) {
    let before = *lines;
    for k in 0..R / 2 {
        lines[2 * k] = before[k].low::<W>(before[k + R / 2]);
        lines[2 * k + 1] = before[k].high::<W>(before[k + R / 2]);
    }
}

/// The register of one piece that every processor of the architecture has.
#[cfg(target_arch = "x86_64")]
type Small = std::arch::x86_64::__m128i;
/// The register of one piece that every processor of the architecture has.
#[cfg(target_arch = "aarch64")]
type Small = std::arch::aarch64::uint8x16_t;
/// The register of one piece.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
type Small = Portable;

/// A block to transpose: `target[row · row_step + column] = source[column · column_step + row]`.
#[derive(Clone, Copy)]
pub(crate) struct Block<T> {
    /// First source element.
    pub source: *const T,
    /// Source elements from one column to the next.
    pub column_step: isize,
    /// First target element.
    pub target: *mut T,
    /// Target elements from one row to the next.
    pub row_step: usize,
    /// Rows of the target, contiguous in the source.
    pub rows: usize,
    /// Columns of the target, contiguous in it.
    pub columns: usize,
}

impl<T: Unit> Block<T> {
    /// Transposes the block.
    ///
    /// # Safety
    /// Every element that the block names is valid for reading in the source and for writing in the target, and
    /// target elements are written by nobody else meanwhile. The token `I` is of this processor.
    #[inline(always)]
    pub(crate) unsafe fn turn<I: Isa>(self) {
        // SAFETY: the caller's promise.
        unsafe {
            match T::WIDTH {
                1 => self.turn_width::<I, 1, 16>(),
                2 => self.turn_width::<I, 2, 8>(),
                4 => self.turn_width::<I, 4, 4>(),
                8 => self.turn_width::<I, 8, 2>(),
                _ => self.elements(0, self.columns),
            }
        }
    }

    /// Transposes the block in groups of rows that come from one cache line of each column: what is read of a line is
    /// used at once, and the group's rows are written from end to end.
    ///
    /// # Safety
    /// As [`turn`](Self::turn); elements are of `W` bytes, and `R · W` is 16.
    #[inline(always)]
    unsafe fn turn_width<I: Isa, const W: usize, const R: usize>(self) {
        // SAFETY: the caller's promise; groups lie inside the block.
        unsafe {
            if self.rows < R {
                match (self.rows, self.column_step) {
                    (2, 2) => self.few_rows::<2>(),
                    (3, 3) => self.few_rows::<3>(),
                    (4, 4) => self.few_rows::<4>(),
                    _ if self.columns >= R => self.flat::<W, R>(),
                    _ => self.elements(0, self.columns),
                }
                return;
            }
            if self.row_step == self.columns {
                match self.columns {
                    2 => return self.few_columns::<2>(),
                    3 => return self.few_columns::<3>(),
                    _ => {}
                }
            }
            let mut row = 0;
            while row < self.rows {
                let first = row.min(self.rows - R);
                let rows = (self.rows - first).min(LINE / W);
                let group = Block {
                    source: self.source.add(first),
                    target: self.target.add(first * self.row_step),
                    rows,
                    ..self
                };
                group.turn_group::<I, W, R>();
                row = first + rows;
            }
        }
    }

    /// # Safety
    /// As [`turn_width`](Self::turn_width), with at least `R` rows.
    #[inline(always)]
    unsafe fn turn_group<I: Isa, const W: usize, const R: usize>(self) {
        let mut column = 0;
        // SAFETY: the caller's promise; each register is one of the tier.
        unsafe {
            match I::TIER {
                #[cfg(target_arch = "x86_64")]
                IsaTier::Avx512 => {
                    // Stores of a line that lie across two cost more than twice as many that mostly do not.
                    let target = self.target as usize | (self.row_step * W);
                    if target.is_multiple_of(LINE) {
                        self.strips::<std::arch::x86_64::__m512i, W, R>(&mut column);
                    }
                    self.strips::<std::arch::x86_64::__m256i, W, R>(&mut column);
                    self.strips::<std::arch::x86_64::__m128i, W, R>(&mut column);
                }
                #[cfg(target_arch = "x86_64")]
                IsaTier::Avx2 => {
                    // Registers of fewer lines pay where lines are near each other.
                    if W >= 4 && self.column_step.unsigned_abs() * W <= NEAR {
                        self.squares::<W, R>(&mut column);
                    }
                    self.strips::<std::arch::x86_64::__m256i, W, R>(&mut column);
                    self.strips::<std::arch::x86_64::__m128i, W, R>(&mut column);
                }
                #[cfg(target_arch = "aarch64")]
                IsaTier::Neon => {
                    self.strips::<std::arch::aarch64::uint8x16_t, W, R>(&mut column);
                }
                _ => self.strips::<Portable, W, R>(&mut column),
            }
            if column < self.columns {
                self.narrow_strip::<W, R>(column);
            }
        }
    }

    /// Transposes the last columns, fewer than a piece has elements: lines that are not there are stood in for by the
    /// last one, and of each row only what is there is stored.
    ///
    /// # Safety
    /// As [`turn_group`](Self::turn_group); between 1 and `R − 1` columns are left.
    #[inline(always)]
    unsafe fn narrow_strip<const W: usize, const R: usize>(&self, column: usize) {
        let count = self.columns - column;
        let mut row = 0;
        while row < self.rows {
            let first = row.min(self.rows - R);
            // SAFETY: the columns named and `R` rows from `first` on lie inside the block.
            unsafe {
                let mut lines = [Small::load([0_u8; 16].as_ptr(), 0); R];
                for (k, line) in lines.iter_mut().enumerate() {
                    let column = (column + k.min(count - 1)) as isize;
                    let source = self.source.offset(column * self.column_step).add(first);
                    *line = Small::load(source.cast(), 0);
                }
                interleave::<_, W, R>(&mut lines);
                for (k, line) in lines.iter().enumerate() {
                    let target = self.target.add((first + k) * self.row_step + column);
                    copy_bytes(std::ptr::from_ref(line).cast(), target.cast(), count * W);
                }
            }
            row = first + R;
        }
    }

    /// Transposes a block of fewer rows than a piece has elements; the counterpart of
    /// [`narrow_strip`](Self::narrow_strip).
    ///
    /// # Safety
    /// As [`turn_width`](Self::turn_width), with fewer than `R` rows and at least `R` columns.
    #[inline(always)]
    unsafe fn flat<const W: usize, const R: usize>(&self) {
        let mut column = 0;
        while column < self.columns {
            let first = column.min(self.columns - R);
            // SAFETY: `R` columns from `first` on and the block's rows lie inside it.
            unsafe {
                let mut lines = [Small::load([0_u8; 16].as_ptr(), 0); R];
                for (k, line) in lines.iter_mut().enumerate() {
                    let column = (first + k) as isize;
                    let source = self.source.offset(column * self.column_step);
                    copy_bytes(
                        source.cast(),
                        std::ptr::from_mut(line).cast(),
                        self.rows * W,
                    );
                }
                interleave::<_, W, R>(&mut lines);
                for (row, line) in lines.into_iter().enumerate().take(self.rows) {
                    line.store(self.target.add(row * self.row_step + first).cast());
                }
            }
            column = first + R;
        }
    }

    /// Transposes columns from `column` on in strips of one register, and moves `column` behind them. Where a whole
    /// strip fits the block but not the rest, the last strip overlaps the one before.
    ///
    /// # Safety
    /// As [`turn_width`](Self::turn_width), the register is one of the tier, and there are at least `R` rows.
    #[inline(always)]
    unsafe fn strips<V: Register, const W: usize, const R: usize>(&self, column: &mut usize) {
        let width = V::PIECES * R;
        if self.columns < width {
            return;
        }
        while *column < self.columns {
            let first = (*column).min(self.columns - width);
            let mut row = 0;
            while row < self.rows {
                // SAFETY: the tile of `R` rows and `width` columns from here lies inside the block.
                unsafe { self.tile::<V, W, R>(row.min(self.rows - R), first) };
                row += R;
            }
            *column = first + width;
        }
    }

    /// As [`strips`](Self::strips), of squares of as many rows as columns: a load takes what a register holds of one
    /// column, and halves of registers change places at the end.
    ///
    /// # Safety
    /// As [`turn_width`](Self::turn_width), and the tier has AVX2.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn squares<const W: usize, const R: usize>(&self, column: &mut usize) {
        use std::arch::x86_64::*;
        let side = 2 * R;
        if self.columns < side || self.rows < side {
            return;
        }
        while *column < self.columns {
            let first = (*column).min(self.columns - side);
            let mut row = 0;
            while row < self.rows {
                let top = row.min(self.rows - side);
                // SAFETY: the square from here lies inside the block; the caller's promise.
                unsafe {
                    let source = self.source.offset(first as isize * self.column_step);
                    let source = source.add(top).cast::<u8>();
                    let step = self.column_step * W as isize;
                    let mut low = [_mm256_setzero_si256(); R];
                    let mut high = low;
                    for k in 0..R {
                        let line = source.offset(k as isize * step);
                        low[k] = _mm256_loadu_si256(line.cast());
                        high[k] = _mm256_loadu_si256(line.offset(R as isize * step).cast());
                    }
                    interleave::<_, W, R>(&mut low);
                    interleave::<_, W, R>(&mut high);
                    for k in 0..R {
                        let target = self.target.add((top + k) * self.row_step + first);
                        let halves = _mm256_permute2x128_si256::<0x20>(low[k], high[k]);
                        _mm256_storeu_si256(target.cast(), halves);
                        let target = target.add(R * self.row_step);
                        let halves = _mm256_permute2x128_si256::<0x31>(low[k], high[k]);
                        _mm256_storeu_si256(target.cast(), halves);
                    }
                }
                row += side;
            }
            *column = first + side;
        }
    }

    /// Transposes `R` rows of one register's columns.
    ///
    /// # Safety
    /// As [`strips`](Self::strips); the tile lies inside the block.
    #[inline(always)]
    unsafe fn tile<V: Register, const W: usize, const R: usize>(&self, row: usize, column: usize) {
        // SAFETY: inside the block.
        unsafe {
            let source = self
                .source
                .offset(column as isize * self.column_step)
                .add(row)
                .cast::<u8>();
            let step = self.column_step * W as isize;
            let mut lines = [V::load(source, step * R as isize); R];
            for (k, line) in lines.iter_mut().enumerate().skip(1) {
                *line = V::load(source.offset(step * k as isize), step * R as isize);
            }
            interleave::<_, W, R>(&mut lines);
            let target = self.target.add(row * self.row_step + column).cast::<u8>();
            for (k, line) in lines.into_iter().enumerate() {
                line.store(target.add(k * self.row_step * W));
            }
        }
    }

    /// Transposes some columns of the block element by element.
    ///
    /// # Safety
    /// As [`turn`](Self::turn); the columns lie inside the block.
    #[inline(always)]
    unsafe fn elements(&self, column: usize, columns: usize) {
        for row in 0..self.rows {
            for column in column..columns {
                // SAFETY: inside the block.
                unsafe {
                    let at = column as isize * self.column_step + row as isize;
                    let element = &*self.source.offset(at);
                    (*self.target.add(row * self.row_step + column)).clone_from(element);
                }
            }
        }
    }

    /// Takes `N` rows apart that are interleaved in the source.
    ///
    /// # Safety
    /// As [`turn`](Self::turn); there are `N` rows, and `column_step` is `N`.
    #[inline(always)]
    unsafe fn few_rows<const N: usize>(&self) {
        for column in 0..self.columns {
            for row in 0..N {
                // SAFETY: inside the block.
                unsafe {
                    let element = &*self.source.add(column * N + row);
                    (*self.target.add(row * self.row_step + column)).clone_from(element);
                }
            }
        }
    }

    /// Interleaves `N` columns that fill the target's rows.
    ///
    /// # Safety
    /// As [`turn`](Self::turn); there are `N` columns, and `row_step` is `N`.
    #[inline(always)]
    unsafe fn few_columns<const N: usize>(&self) {
        for row in 0..self.rows {
            for column in 0..N {
                // SAFETY: inside the block.
                unsafe {
                    let element = &*self
                        .source
                        .offset(column as isize * self.column_step + row as isize);
                    (*self.target.add(row * N + column)).clone_from(element);
                }
            }
        }
    }
}
