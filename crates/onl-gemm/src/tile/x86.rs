//! AVX-512 and AVX2 tiles. Twelve rows of two 512-bit vectors, or six of two 256-bit ones, leave registers for the
//! row of B and one broadcast element of A.

use super::register_tile::register_tile;
use std::arch::x86_64::*;

register_tile!(
    avx512_f32, AVX512_F32, feature = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma", element = f32,
    lanes = 16, rows = [1 2 3 4 5 6 7 8 9 10 11 12],
    zero = _mm512_setzero_ps(), splat = _mm512_set1_ps, load = _mm512_loadu_ps, store = _mm512_storeu_ps,
    load_partial = load_partial_512, store_partial = store_partial_512,
    fma = _mm512_fmadd_ps, add = _mm512_add_ps
);

register_tile!(
    avx512_f64, AVX512_F64, feature = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma", element = f64,
    lanes = 8, rows = [1 2 3 4 5 6 7 8 9 10 11 12],
    zero = _mm512_setzero_pd(), splat = _mm512_set1_pd, load = _mm512_loadu_pd, store = _mm512_storeu_pd,
    load_partial = load_partial_512d, store_partial = store_partial_512d,
    fma = _mm512_fmadd_pd, add = _mm512_add_pd
);

register_tile!(
    avx2_f32, AVX2_F32, feature = "avx2,fma", element = f32,
    lanes = 8, rows = [1 2 3 4 5 6],
    zero = _mm256_setzero_ps(), splat = _mm256_set1_ps, load = _mm256_loadu_ps, store = _mm256_storeu_ps,
    load_partial = load_partial_256, store_partial = store_partial_256,
    fma = _mm256_fmadd_ps, add = _mm256_add_ps
);

register_tile!(
    avx2_f64, AVX2_F64, feature = "avx2,fma", element = f64,
    lanes = 4, rows = [1 2 3 4 5 6],
    zero = _mm256_setzero_pd(), splat = _mm256_set1_pd, load = _mm256_loadu_pd, store = _mm256_storeu_pd,
    load_partial = load_partial_256d, store_partial = store_partial_256d,
    fma = _mm256_fmadd_pd, add = _mm256_add_pd
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
    // SAFETY: masked-off lanes are not accessed.
    unsafe { _mm256_maskstore_pd(target, mask_256d(count), value) }
}
