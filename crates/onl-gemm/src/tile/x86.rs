//! AVX-512 and AVX2 tiles. Twelve rows of two 512-bit vectors, or six of two 256-bit ones, leave registers for the
//! row of B and one broadcast element of A.

use super::register_tile::register_tile;
use super::scalar::no_halves;
use std::arch::x86_64::*;

register_tile!(
    avx512_f32, AVX512_F32, Avx512, feature = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma", element = f32,
    lanes = 16, rows = [1 2 3 4 5 6 7 8 9 10 11 12], sliver = [], strided = [1 2 3 4 5 6 7 8],
    packed_wide = [1: 4 2: 4 3: 2 4: 2], strided_wide = [1: 2 2: 2 3: 2 4: 2 5: 2 6: 2], halves = yes,
    zero = _mm512_setzero_ps(), splat = _mm512_set1_ps, load = _mm512_loadu_ps, store = _mm512_storeu_ps,
    load_partial = load_partial_512, store_partial = store_partial_512,
    widen_f16 = widen_f16_512, widen_bf16 = widen_bf16_512, widen_plain = widen_plain_bf16_512,
    turn = turn_512, fma = _mm512_fmadd_ps, add = _mm512_add_ps
);

register_tile!(
    avx512_f64, AVX512_F64, Avx512, feature = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma", element = f64,
    lanes = 8, rows = [1 2 3 4 5 6 7 8 9 10 11 12], sliver = [], strided = [1 2 3 4 5 6 7 8],
    packed_wide = [1: 4 2: 4 3: 2 4: 2], strided_wide = [1: 2 2: 2 3: 2 4: 2 5: 2 6: 2], halves = no,
    zero = _mm512_setzero_pd(), splat = _mm512_set1_pd, load = _mm512_loadu_pd, store = _mm512_storeu_pd,
    load_partial = load_partial_512d, store_partial = store_partial_512d,
    widen_f16 = no_halves, widen_bf16 = no_halves, widen_plain = no_halves,
    turn = turn_512d, fma = _mm512_fmadd_pd, add = _mm512_add_pd
);

register_tile!(
    avx2_f32, AVX2_F32, Avx2, feature = "avx2,fma,f16c", element = f32,
    lanes = 8, rows = [1 2 3 4 5 6], sliver = [1 2 3 4 5 6], strided = [1 2 3 4 5 6],
    packed_wide = [1: 4 2: 2], strided_wide = [], halves = yes,
    zero = _mm256_setzero_ps(), splat = _mm256_set1_ps, load = _mm256_loadu_ps, store = _mm256_storeu_ps,
    load_partial = load_partial_256, store_partial = store_partial_256,
    widen_f16 = widen_f16_256, widen_bf16 = widen_bf16_256, widen_plain = widen_plain_bf16_256,
    turn = turn_256, fma = _mm256_fmadd_ps, add = _mm256_add_ps
);

register_tile!(
    avx2_f64, AVX2_F64, Avx2, feature = "avx2,fma", element = f64,
    lanes = 4, rows = [1 2 3 4 5 6], sliver = [1 2 3 4 5 6], strided = [1 2 3 4 5 6],
    packed_wide = [1: 4 2: 2], strided_wide = [], halves = no,
    zero = _mm256_setzero_pd(), splat = _mm256_set1_pd, load = _mm256_loadu_pd, store = _mm256_storeu_pd,
    load_partial = load_partial_256d, store_partial = store_partial_256d,
    widen_f16 = no_halves, widen_bf16 = no_halves, widen_plain = no_halves,
    turn = turn_256d, fma = _mm256_fmadd_pd, add = _mm256_add_pd
);

/// # Safety
/// `source` is valid for reading `count` elements, 1 to 16.
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn load_partial_512(source: *const f32, count: usize) -> __m512 {
    // SAFETY: masked-off lanes are not accessed.
    unsafe { _mm512_maskz_loadu_ps((0xffff_u32 >> (16 - count)) as u16, source) }
}

/// # Safety
/// `target` is valid for writing `count` elements, 1 to 16.
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn store_partial_512(target: *mut f32, count: usize, value: __m512) {
    // SAFETY: masked-off lanes are not accessed.
    unsafe { _mm512_mask_storeu_ps(target, (0xffff_u32 >> (16 - count)) as u16, value) }
}

/// # Safety
/// `source` is valid for reading `count` elements, 1 to 8.
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn load_partial_512d(source: *const f64, count: usize) -> __m512d {
    // SAFETY: masked-off lanes are not accessed.
    unsafe { _mm512_maskz_loadu_pd((0xff_u32 >> (8 - count)) as u8, source) }
}

/// # Safety
/// `target` is valid for writing `count` elements, 1 to 8.
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn store_partial_512d(target: *mut f64, count: usize, value: __m512d) {
    // SAFETY: masked-off lanes are not accessed.
    unsafe { _mm512_mask_storeu_pd(target, (0xff_u32 >> (8 - count)) as u8, value) }
}

#[target_feature(enable = "avx2")]
#[inline]
fn mask_256(count: usize) -> __m256i {
    _mm256_cmpgt_epi32(
        _mm256_set1_epi32(count as i32),
        _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
    )
}

#[target_feature(enable = "avx2")]
#[inline]
fn mask_256d(count: usize) -> __m256i {
    _mm256_cmpgt_epi64(
        _mm256_set1_epi64x(count as i64),
        _mm256_setr_epi64x(0, 1, 2, 3),
    )
}

/// # Safety
/// `source` is valid for reading `count` elements.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn load_partial_256(source: *const f32, count: usize) -> __m256 {
    // SAFETY: masked-off lanes are not accessed.
    unsafe { _mm256_maskload_ps(source, mask_256(count)) }
}

/// # Safety
/// `target` is valid for writing `count` elements.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn store_partial_256(target: *mut f32, count: usize, value: __m256) {
    if count == 8 {
        // Masked stores are slow, and most vectors are whole.
        // SAFETY: as above.
        unsafe { _mm256_storeu_ps(target, value) };
        return;
    }
    // SAFETY: masked-off lanes are not accessed.
    unsafe { _mm256_maskstore_ps(target, mask_256(count), value) }
}

/// # Safety
/// `source` is valid for reading `count` elements.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn load_partial_256d(source: *const f64, count: usize) -> __m256d {
    // SAFETY: masked-off lanes are not accessed.
    unsafe { _mm256_maskload_pd(source, mask_256d(count)) }
}

/// # Safety
/// `target` is valid for writing `count` elements.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn store_partial_256d(target: *mut f64, count: usize, value: __m256d) {
    if count == 4 {
        // As in `store_partial_256`.
        // SAFETY: as above.
        unsafe { _mm256_storeu_pd(target, value) };
        return;
    }
    // SAFETY: masked-off lanes are not accessed.
    unsafe { _mm256_maskstore_pd(target, mask_256d(count), value) }
}

/// # Safety
/// `source` is valid for reading 32 elements.
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn widen_f16_512(source: *const u16) -> [__m512; 2] {
    // SAFETY: handed on from the caller.
    unsafe {
        [
            _mm512_cvtph_ps(_mm256_loadu_si256(source.cast())),
            _mm512_cvtph_ps(_mm256_loadu_si256(source.wrapping_add(16).cast())),
        ]
    }
}

/// Words of 32 bits with the first vector's column low and the second's high.
///
/// # Safety
/// `source` is valid for reading 32 elements.
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn widen_bf16_512(source: *const u16) -> [__m512; 2] {
    // SAFETY: handed on from the caller.
    let words = unsafe { _mm512_loadu_si512(source.cast()) };
    [
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(words)),
        _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(-65_536))),
    ]
}

/// As [`widen_bf16_512`], of columns in order.
///
/// # Safety
/// `source` is valid for reading 32 elements.
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn widen_plain_bf16_512(source: *const u16) -> [__m512; 2] {
    // SAFETY: handed on from the caller.
    unsafe {
        [0, 16].map(|first| {
            let words = _mm256_loadu_si256(source.wrapping_add(first).cast());
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(words)))
        })
    }
}

/// # Safety
/// `source` is valid for reading 16 elements.
#[target_feature(enable = "avx2,f16c")]
#[inline]
unsafe fn widen_f16_256(source: *const u16) -> [__m256; 2] {
    let (low, high): (__m256, __m256);
    // SAFETY: the instructions read what the caller vouches for, and write registers alone.
    unsafe {
        // Written out and not `pure`, so that conversions of later steps are not begun before there are registers.
        std::arch::asm!(
            "vcvtph2ps {low}, xmmword ptr [{source}]",
            "vcvtph2ps {high}, xmmword ptr [{source} + 16]",
            low = out(ymm_reg) low, high = lateout(ymm_reg) high, source = in(reg) source,
            options(readonly, nostack, preserves_flags)
        );
    }
    [low, high]
}

/// Words of 32 bits with the first vector's column low and the second's high.
///
/// # Safety
/// `source` is valid for reading 16 elements.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn widen_bf16_256(source: *const u16) -> [__m256; 2] {
    // SAFETY: handed on from the caller.
    let words = unsafe { _mm256_loadu_si256(source.cast()) };
    [
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(words)),
        _mm256_castsi256_ps(_mm256_and_si256(words, _mm256_set1_epi32(-65_536))),
    ]
}

/// As [`widen_bf16_256`], of columns in order.
///
/// # Safety
/// `source` is valid for reading 16 elements.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn widen_plain_bf16_256(source: *const u16) -> [__m256; 2] {
    // SAFETY: handed on from the caller.
    unsafe {
        [0, 8].map(|first| {
            let words = _mm_loadu_si128(source.wrapping_add(first).cast());
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(words)))
        })
    }
}

/// Transposes 16 × 16: pairs of elements, of pairs, of quads, of halves change places.
#[target_feature(enable = "avx512f")]
#[inline]
fn turn_512(rows: [__m512; 16]) -> [__m512; 16] {
    let mut pairs = [_mm512_setzero_ps(); 16];
    for i in 0..8 {
        pairs[2 * i] = _mm512_unpacklo_ps(rows[2 * i], rows[2 * i + 1]);
        pairs[2 * i + 1] = _mm512_unpackhi_ps(rows[2 * i], rows[2 * i + 1]);
    }
    // `quads[4 i + c]`: in each 128-bit part p, column 4 p + c of rows 4 i to 4 i + 3.
    let mut quads = [_mm512_setzero_ps(); 16];
    for i in 0..4 {
        for half in 0..2 {
            let (x, y) = (
                _mm512_castps_pd(pairs[4 * i + half]),
                _mm512_castps_pd(pairs[4 * i + 2 + half]),
            );
            quads[4 * i + 2 * half] = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y));
            quads[4 * i + 2 * half + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
        }
    }
    let mut columns = [_mm512_setzero_ps(); 16];
    for c in 0..4 {
        let even_low = _mm512_shuffle_f32x4::<0b10_00_10_00>(quads[c], quads[4 + c]);
        let odd_low = _mm512_shuffle_f32x4::<0b11_01_11_01>(quads[c], quads[4 + c]);
        let even_high = _mm512_shuffle_f32x4::<0b10_00_10_00>(quads[8 + c], quads[12 + c]);
        let odd_high = _mm512_shuffle_f32x4::<0b11_01_11_01>(quads[8 + c], quads[12 + c]);
        columns[c] = _mm512_shuffle_f32x4::<0b10_00_10_00>(even_low, even_high);
        columns[4 + c] = _mm512_shuffle_f32x4::<0b10_00_10_00>(odd_low, odd_high);
        columns[8 + c] = _mm512_shuffle_f32x4::<0b11_01_11_01>(even_low, even_high);
        columns[12 + c] = _mm512_shuffle_f32x4::<0b11_01_11_01>(odd_low, odd_high);
    }
    columns
}

/// Transposes 8 × 8.
#[target_feature(enable = "avx512f")]
#[inline]
fn turn_512d(rows: [__m512d; 8]) -> [__m512d; 8] {
    let mut pairs = [_mm512_setzero_pd(); 8];
    for i in 0..4 {
        pairs[2 * i] = _mm512_unpacklo_pd(rows[2 * i], rows[2 * i + 1]);
        pairs[2 * i + 1] = _mm512_unpackhi_pd(rows[2 * i], rows[2 * i + 1]);
    }
    let mut columns = [_mm512_setzero_pd(); 8];
    for c in 0..2 {
        // In each 128-bit part p, column 2 p + c of two rows.
        let even_low = _mm512_shuffle_f64x2::<0b10_00_10_00>(pairs[c], pairs[2 + c]);
        let odd_low = _mm512_shuffle_f64x2::<0b11_01_11_01>(pairs[c], pairs[2 + c]);
        let even_high = _mm512_shuffle_f64x2::<0b10_00_10_00>(pairs[4 + c], pairs[6 + c]);
        let odd_high = _mm512_shuffle_f64x2::<0b11_01_11_01>(pairs[4 + c], pairs[6 + c]);
        columns[c] = _mm512_shuffle_f64x2::<0b10_00_10_00>(even_low, even_high);
        columns[2 + c] = _mm512_shuffle_f64x2::<0b10_00_10_00>(odd_low, odd_high);
        columns[4 + c] = _mm512_shuffle_f64x2::<0b11_01_11_01>(even_low, even_high);
        columns[6 + c] = _mm512_shuffle_f64x2::<0b11_01_11_01>(odd_low, odd_high);
    }
    columns
}

/// Transposes 8 × 8.
#[target_feature(enable = "avx2")]
#[inline]
fn turn_256(rows: [__m256; 8]) -> [__m256; 8] {
    let mut pairs = [_mm256_setzero_ps(); 8];
    for i in 0..4 {
        pairs[2 * i] = _mm256_unpacklo_ps(rows[2 * i], rows[2 * i + 1]);
        pairs[2 * i + 1] = _mm256_unpackhi_ps(rows[2 * i], rows[2 * i + 1]);
    }
    // `quads[4 i + c]`: in each half p, column 4 p + c of rows 4 i to 4 i + 3.
    let mut quads = [_mm256_setzero_ps(); 8];
    for i in 0..2 {
        for half in 0..2 {
            let (x, y) = (
                _mm256_castps_pd(pairs[4 * i + half]),
                _mm256_castps_pd(pairs[4 * i + 2 + half]),
            );
            quads[4 * i + 2 * half] = _mm256_castpd_ps(_mm256_unpacklo_pd(x, y));
            quads[4 * i + 2 * half + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(x, y));
        }
    }
    let mut columns = [_mm256_setzero_ps(); 8];
    for c in 0..4 {
        columns[c] = _mm256_permute2f128_ps::<0x20>(quads[c], quads[4 + c]);
        columns[4 + c] = _mm256_permute2f128_ps::<0x31>(quads[c], quads[4 + c]);
    }
    columns
}

/// Transposes 4 × 4.
#[target_feature(enable = "avx2")]
#[inline]
fn turn_256d(rows: [__m256d; 4]) -> [__m256d; 4] {
    let (even_low, odd_low) = (
        _mm256_unpacklo_pd(rows[0], rows[1]),
        _mm256_unpackhi_pd(rows[0], rows[1]),
    );
    let (even_high, odd_high) = (
        _mm256_unpacklo_pd(rows[2], rows[3]),
        _mm256_unpackhi_pd(rows[2], rows[3]),
    );
    [
        _mm256_permute2f128_pd::<0x20>(even_low, even_high),
        _mm256_permute2f128_pd::<0x20>(odd_low, odd_high),
        _mm256_permute2f128_pd::<0x31>(even_low, even_high),
        _mm256_permute2f128_pd::<0x31>(odd_low, odd_high),
    ]
}
