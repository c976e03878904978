//! AVX-512 and AVX2 bodies. Twelve rows of two 512-bit vectors, or six of two 256-bit ones, leave registers for a row of
//! the panel and one broadcast group of A.
//!
//! `vpdpbusd` multiplies unsigned bytes of A by signed ones of B without saturation. Where it is missing, `vpmaddwd`
//! multiplies 16-bit integers, or `vpmaddubsw` bytes of a B that leaves its sums of two products within 16 bits.

use super::register_tile::register_tile;
use super::{Form, always, unwatched};
use std::arch::x86_64::*;

mod wide {
    use super::*;

    type V = __m512i;

    register_tile!(
            vnni, AVX512_VNNI, feature = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma", lanes = 16,
            rows = [1 2 3 4 5 6 7 8 9 10 11 12], strips = [1 2 3 4], a_form = Form::Unsigned, b_form = Form::Signed,
            zero = _mm512_setzero_si512(), splat = _mm512_set1_epi32, load = load, store = store,
            store_partial = store_partial, add = _mm512_add_epi32, multiply = _mm512_mullo_epi32,
            interleave = interleave_bytes, dot = _mm512_dpbusd_epi32, watch = unwatched, exact = always
    );

    register_tile!(
            words, AVX512, feature = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma", lanes = 16,
            rows = [1 2 3 4 5 6 7 8 9 10 11 12], strips = [1 2 3 4], a_form = Form::Words, b_form = Form::Words,
            zero = _mm512_setzero_si512(), splat = _mm512_set1_epi32, load = load, store = store,
            store_partial = store_partial, add = _mm512_add_epi32, multiply = _mm512_mullo_epi32,
            interleave = interleave_words, dot = dot_words, watch = unwatched, exact = always
    );

    /// # Safety
    /// `source` is valid for reading a vector.
    #[target_feature(enable = "avx512f")]
    #[inline]
    unsafe fn load(source: *const i32) -> V {
        // SAFETY: as above.
        unsafe { _mm512_loadu_si512(source.cast()) }
    }

    /// # Safety
    /// `target` is valid for writing a vector.
    #[target_feature(enable = "avx512f")]
    #[inline]
    unsafe fn store(target: *mut i32, value: V) {
        // SAFETY: as above.
        unsafe { _mm512_storeu_si512(target.cast(), value) }
    }

    /// # Safety
    /// `target` is valid for writing `count` elements, 1 to 16.
    #[target_feature(enable = "avx512f")]
    #[inline]
    unsafe fn store_partial(target: *mut i32, count: usize, value: V) {
        // SAFETY: masked-off lanes are not accessed.
        unsafe { _mm512_mask_storeu_epi32(target, (0xffff_u32 >> (16 - count)) as u16, value) }
    }

    #[target_feature(enable = "avx512bw")]
    #[inline]
    fn dot_words(sum: V, a: V, b: V) -> V {
        _mm512_add_epi32(sum, _mm512_madd_epi16(a, b))
    }

    /// Unpacking works within quarters of a vector, so the columns of each result are first dealt out to them.
    ///
    /// # Safety
    /// `source` is valid for reading four rows of 64 bytes.
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    unsafe fn interleave_bytes(source: *const u8, stride: usize, flip: u32) -> [V; 4] {
        let flip = _mm512_set1_epi32(flip as i32);
        let dealt = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        let row = |row: usize| {
            // SAFETY: as above.
            let row = unsafe { load(source.wrapping_add(row * stride).cast()) };
            _mm512_permutexvar_epi32(dealt, _mm512_xor_si512(row, flip))
        };
        let (r0, r1, r2, r3) = (row(0), row(1), row(2), row(3));
        let (low01, low23) = (_mm512_unpacklo_epi8(r0, r1), _mm512_unpacklo_epi8(r2, r3));
        let (high01, high23) = (_mm512_unpackhi_epi8(r0, r1), _mm512_unpackhi_epi8(r2, r3));
        [
            _mm512_unpacklo_epi16(low01, low23),
            _mm512_unpackhi_epi16(low01, low23),
            _mm512_unpacklo_epi16(high01, high23),
            _mm512_unpackhi_epi16(high01, high23),
        ]
    }

    /// # Safety
    /// `source` is valid for reading two rows of 64 bytes.
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    unsafe fn interleave_words(source: *const u8, stride: usize, sign: u32) -> [V; 4] {
        let sign = _mm512_set1_epi32(sign as i32);
        let mut vectors = [_mm512_setzero_si512(); 4];
        for (index, vector) in vectors.iter_mut().enumerate() {
            let part = |row: usize| {
                // SAFETY: as above.
                let bytes = unsafe {
                    _mm_loadu_si128(source.wrapping_add(row * stride + 16 * index).cast())
                };
                _mm512_cvtepu8_epi32(bytes)
            };
            let pairs = _mm512_or_si512(part(0), _mm512_slli_epi32::<16>(part(1)));
            *vector = _mm512_sub_epi16(_mm512_xor_si512(pairs, sign), sign);
        }
        vectors
    }
}

mod narrow {
    use super::*;

    type V = __m256i;

    register_tile!(
            vnni, AVX_VNNI, feature = "avx2,fma,avxvnni", lanes = 8, rows = [1 2 3 4 5 6], strips = [1 2],
            a_form = Form::Unsigned, b_form = Form::Signed,
            zero = _mm256_setzero_si256(), splat = _mm256_set1_epi32, load = load, store = store,
            store_partial = store_partial, add = _mm256_add_epi32, multiply = _mm256_mullo_epi32,
            interleave = interleave_bytes, dot = _mm256_dpbusd_avx_epi32, watch = unwatched, exact = always
    );

    register_tile!(
        bytes, AVX2_BYTES, feature = "avx2,fma", lanes = 8, rows = [1 2 3 4 5 6], strips = [1 2],
        a_form = Form::Unsigned, b_form = Form::Signed,
        zero = _mm256_setzero_si256(), splat = _mm256_set1_epi32, load = load, store = store,
        store_partial = store_partial, add = _mm256_add_epi32, multiply = _mm256_mullo_epi32,
        interleave = interleave_bytes, dot = dot_bytes, watch = watch_pairs, exact = pairs_fit
    );

    register_tile!(
        words, AVX2_WORDS, feature = "avx2,fma", lanes = 8, rows = [1 2 3 4 5 6], strips = [1 2],
        a_form = Form::UnsignedWords, b_form = Form::SignedWords,
        zero = _mm256_setzero_si256(), splat = _mm256_set1_epi32, load = load, store = store,
        store_partial = store_partial, add = _mm256_add_epi32, multiply = _mm256_mullo_epi32,
        interleave = interleave_words, dot = dot_words, watch = unwatched, exact = always
    );

    /// # Safety
    /// `source` is valid for reading a vector.
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn load(source: *const i32) -> V {
        // SAFETY: as above.
        unsafe { _mm256_loadu_si256(source.cast()) }
    }

    /// # Safety
    /// `target` is valid for writing a vector.
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn store(target: *mut i32, value: V) {
        // SAFETY: as above.
        unsafe { _mm256_storeu_si256(target.cast(), value) }
    }

    /// # Safety
    /// `target` is valid for writing `count` elements.
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn store_partial(target: *mut i32, count: usize, value: V) {
        if count == 8 {
            // Masked stores are slow, and most vectors are whole.
            // SAFETY: as above.
            unsafe { store(target, value) };
            return;
        }
        let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        let mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), lanes);
        // SAFETY: masked-off lanes are not accessed.
        unsafe { _mm256_maskstore_epi32(target, mask, value) }
    }

    #[repr(align(32))]
    struct Ones(#[allow(dead_code)] [i16; 16]);

    static ONES: Ones = Ones([1; 16]);

    /// Exact where [`pairs_fit`]. Written out, since the compiler regroups sums of several steps, for which twelve sums
    /// leave it no registers.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn dot_bytes(sum: V, a: V, b: V) -> V {
        let mut sum = sum;
        // SAFETY: the instructions read registers and the constant alone, and the feature is enabled.
        unsafe {
            std::arch::asm!(
                "vpmaddubsw {pairs}, {a}, {b}",
                "vpmaddwd {pairs}, {pairs}, ymmword ptr [rip + {ones}]",
                "vpaddd {sum}, {sum}, {pairs}",
                sum = inout(ymm_reg) sum, a = in(ymm_reg) a, b = in(ymm_reg) b, pairs = out(ymm_reg) _,
                ones = sym ONES, options(pure, readonly, nostack, preserves_flags)
            );
        }
        sum
    }

    /// Largest sum of the positive parts, and least one of the negative parts, of adjacent pairs of bytes.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn watch_pairs([most, least]: [V; 2], b: V) -> [V; 2] {
        let (zero, ones) = (_mm256_setzero_si256(), _mm256_set1_epi8(1));
        let positive = _mm256_maddubs_epi16(ones, _mm256_max_epi8(b, zero));
        let negative = _mm256_maddubs_epi16(ones, _mm256_min_epi8(b, zero));
        [
            _mm256_max_epi16(most, positive),
            _mm256_min_epi16(least, negative),
        ]
    }

    /// Whether products of such pairs with any two unsigned bytes add up to 16 bits: 255 · 128 does, 255 · 129 does not.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn pairs_fit([most, least]: [V; 2]) -> bool {
        let above = _mm256_cmpgt_epi16(most, _mm256_set1_epi16(128));
        let below = _mm256_cmpgt_epi16(_mm256_set1_epi16(-128), least);
        _mm256_movemask_epi8(_mm256_or_si256(above, below)) == 0
    }

    /// Written out, as [`dot_bytes`].
    #[target_feature(enable = "avx2")]
    #[inline]
    fn dot_words(sum: V, a: V, b: V) -> V {
        let mut sum = sum;
        // SAFETY: the instructions work on registers alone, and the feature is enabled.
        unsafe {
            std::arch::asm!(
                "vpmaddwd {products}, {a}, {b}",
                "vpaddd {sum}, {sum}, {products}",
                sum = inout(ymm_reg) sum, a = in(ymm_reg) a, b = in(ymm_reg) b, products = out(ymm_reg) _,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        sum
    }

    /// As the 512-bit form, over halves of a vector.
    ///
    /// # Safety
    /// `source` is valid for reading four rows of 32 bytes.
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn interleave_bytes(source: *const u8, stride: usize, flip: u32) -> [V; 4] {
        let flip = _mm256_set1_epi32(flip as i32);
        let dealt = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
        let row = |row: usize| {
            // SAFETY: as above.
            let row = unsafe { load(source.wrapping_add(row * stride).cast()) };
            _mm256_permutevar8x32_epi32(_mm256_xor_si256(row, flip), dealt)
        };
        let (r0, r1, r2, r3) = (row(0), row(1), row(2), row(3));
        let (low01, low23) = (_mm256_unpacklo_epi8(r0, r1), _mm256_unpacklo_epi8(r2, r3));
        let (high01, high23) = (_mm256_unpackhi_epi8(r0, r1), _mm256_unpackhi_epi8(r2, r3));
        [
            _mm256_unpacklo_epi16(low01, low23),
            _mm256_unpackhi_epi16(low01, low23),
            _mm256_unpacklo_epi16(high01, high23),
            _mm256_unpackhi_epi16(high01, high23),
        ]
    }

    /// Words of `flip`ped bytes less 128.
    ///
    /// # Safety
    /// `source` is valid for reading two rows of 32 bytes.
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn interleave_words(source: *const u8, stride: usize, flip: u32) -> [V; 4] {
        let flip = _mm256_set1_epi32(flip as i32);
        let mut vectors = [_mm256_setzero_si256(); 4];
        for (index, vector) in vectors.iter_mut().enumerate() {
            let part = |row: usize| {
                // SAFETY: as above.
                let bytes = unsafe {
                    _mm_loadl_epi64(source.wrapping_add(row * stride + 8 * index).cast())
                };
                _mm256_cvtepu8_epi32(bytes)
            };
            let pairs = _mm256_or_si256(part(0), _mm256_slli_epi32::<16>(part(1)));
            *vector = _mm256_sub_epi16(_mm256_xor_si256(pairs, flip), _mm256_set1_epi16(128));
        }
        vectors
    }
}

pub(in crate::quantized) use narrow::{AVX_VNNI, AVX2_BYTES, AVX2_WORDS};
pub(in crate::quantized) use wide::{AVX512, AVX512_VNNI};
