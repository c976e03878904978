use crate::{Isa, SimdOp, VectorOps};
use half::{bf16, f16};
use onl_cpu::IsaTier;
use std::arch::x86_64::*;

/// Token of the AVX-512 tier (F, BW, DQ, VL): 16 lanes of 32 bits, 8 of 64.
#[derive(Debug, Clone, Copy)]
pub struct Avx512(());

impl Avx512 {
    /// The token, when this processor has the tier's features.
    pub fn detect() -> Option<Self> {
        IsaTier::available()
            .contains(&IsaTier::Avx512)
            .then_some(Avx512(()))
    }

    /// Runs `op` compiled for the tier.
    pub fn run<O: SimdOp>(self, op: O) -> O::Output {
        // SAFETY: the token proves the features.
        unsafe { run(op) }
    }
}

/// # Safety
/// The processor has every feature named here.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi2,popcnt")]
unsafe fn run<O: SimdOp>(op: O) -> O::Output {
    op.eval(Avx512(()))
}

/// The lowest `count` of 16 lanes.
#[inline(always)]
fn first_16(count: usize) -> __mmask16 {
    assert!(count <= 16, "a vector has 16 lanes, not {count}");
    ((1u32 << count) - 1) as __mmask16
}

/// The lowest `count` of 8 lanes.
#[inline(always)]
fn first_8(count: usize) -> __mmask8 {
    assert!(count <= 8, "a vector has 8 lanes, not {count}");
    ((1u32 << count) - 1) as __mmask8
}

/// Defines methods whose body is one expression of intrinsics without memory operands.
macro_rules! register_methods {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty = $body:expr;)*) => {$(
        #[inline(always)]
        fn $name(self, $($argument: $kind),*) -> $result {
            // SAFETY: the token proves the features; the intrinsics touch registers only.
            unsafe { $body }
        }
    )*};
}

/// Nearest even by the eight leading bits, NaN quieted; the 16 results in the low halves of the lanes.
#[inline(always)]
unsafe fn round_bf16(value: __m512) -> __m512i {
    // SAFETY: called by methods of the token only, which proves the features.
    unsafe {
        let bits = _mm512_castps_si512(value);
        let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
        let rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
        let quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x0040_0000));
        let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(value, value);
        _mm512_srli_epi32::<16>(_mm512_mask_blend_epi32(nan, rounded, quiet))
    }
}

impl VectorOps for Avx512 {
    const F32_LANES: usize = 16;
    const F64_LANES: usize = 8;
    type F32 = __m512;
    type I32 = __m512i;
    type M32 = __mmask16;
    type F64 = __m512d;
    type I64 = __m512i;
    type M64 = __mmask8;
    register_methods! {
        splat_f32(value: f32) -> __m512 = _mm512_set1_ps(value);
        add_f32(a: __m512, b: __m512) -> __m512 = _mm512_add_ps(a, b);
        sub_f32(a: __m512, b: __m512) -> __m512 = _mm512_sub_ps(a, b);
        mul_f32(a: __m512, b: __m512) -> __m512 = _mm512_mul_ps(a, b);
        div_f32(a: __m512, b: __m512) -> __m512 = _mm512_div_ps(a, b);
        fma_f32(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fmadd_ps(a, b, c);
        sqrt_f32(a: __m512) -> __m512 = _mm512_sqrt_ps(a);
        abs_f32(a: __m512) -> __m512 = _mm512_abs_ps(a);
        neg_f32(a: __m512) -> __m512 = _mm512_xor_ps(a, _mm512_set1_ps(-0.0));
        min_f32(a: __m512, b: __m512) -> __m512 = _mm512_min_ps(a, b);
        max_f32(a: __m512, b: __m512) -> __m512 = _mm512_max_ps(a, b);
        lt_f32(a: __m512, b: __m512) -> __mmask16 = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b);
        le_f32(a: __m512, b: __m512) -> __mmask16 = _mm512_cmp_ps_mask::<_CMP_LE_OQ>(a, b);
        eq_f32(a: __m512, b: __m512) -> __mmask16 = _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b);
        is_nan_f32(a: __m512) -> __mmask16 = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, a);
        select_f32(mask: __mmask16, a: __m512, b: __m512) -> __m512 = _mm512_mask_blend_ps(mask, b, a);
        bits_f32(a: __m512) -> __m512i = _mm512_castps_si512(a);
        from_bits_f32(a: __m512i) -> __m512 = _mm512_castsi512_ps(a);

        splat_i32(value: i32) -> __m512i = _mm512_set1_epi32(value);
        add_i32(a: __m512i, b: __m512i) -> __m512i = _mm512_add_epi32(a, b);
        sub_i32(a: __m512i, b: __m512i) -> __m512i = _mm512_sub_epi32(a, b);
        and_i32(a: __m512i, b: __m512i) -> __m512i = _mm512_and_si512(a, b);
        or_i32(a: __m512i, b: __m512i) -> __m512i = _mm512_or_si512(a, b);
        xor_i32(a: __m512i, b: __m512i) -> __m512i = _mm512_xor_si512(a, b);
        lt_i32(a: __m512i, b: __m512i) -> __mmask16 = _mm512_cmplt_epi32_mask(a, b);
        eq_i32(a: __m512i, b: __m512i) -> __mmask16 = _mm512_cmpeq_epi32_mask(a, b);
        select_i32(mask: __mmask16, a: __m512i, b: __m512i) -> __m512i = _mm512_mask_blend_epi32(mask, b, a);
        to_f32(a: __m512i) -> __m512 = _mm512_cvtepi32_ps(a);

        splat_f64(value: f64) -> __m512d = _mm512_set1_pd(value);
        add_f64(a: __m512d, b: __m512d) -> __m512d = _mm512_add_pd(a, b);
        sub_f64(a: __m512d, b: __m512d) -> __m512d = _mm512_sub_pd(a, b);
        mul_f64(a: __m512d, b: __m512d) -> __m512d = _mm512_mul_pd(a, b);
        div_f64(a: __m512d, b: __m512d) -> __m512d = _mm512_div_pd(a, b);
        fma_f64(a: __m512d, b: __m512d, c: __m512d) -> __m512d = _mm512_fmadd_pd(a, b, c);
        sqrt_f64(a: __m512d) -> __m512d = _mm512_sqrt_pd(a);
        abs_f64(a: __m512d) -> __m512d = _mm512_abs_pd(a);
        neg_f64(a: __m512d) -> __m512d = _mm512_xor_pd(a, _mm512_set1_pd(-0.0));
        min_f64(a: __m512d, b: __m512d) -> __m512d = _mm512_min_pd(a, b);
        max_f64(a: __m512d, b: __m512d) -> __m512d = _mm512_max_pd(a, b);
        lt_f64(a: __m512d, b: __m512d) -> __mmask8 = _mm512_cmp_pd_mask::<_CMP_LT_OQ>(a, b);
        le_f64(a: __m512d, b: __m512d) -> __mmask8 = _mm512_cmp_pd_mask::<_CMP_LE_OQ>(a, b);
        eq_f64(a: __m512d, b: __m512d) -> __mmask8 = _mm512_cmp_pd_mask::<_CMP_EQ_OQ>(a, b);
        is_nan_f64(a: __m512d) -> __mmask8 = _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(a, a);
        select_f64(mask: __mmask8, a: __m512d, b: __m512d) -> __m512d = _mm512_mask_blend_pd(mask, b, a);
        bits_f64(a: __m512d) -> __m512i = _mm512_castpd_si512(a);
        from_bits_f64(a: __m512i) -> __m512d = _mm512_castsi512_pd(a);
        widen_f64(a: __m512) -> (__m512d, __m512d) = (
            _mm512_cvtps_pd(_mm512_castps512_ps256(a)),
            _mm512_cvtps_pd(_mm512_extractf32x8_ps::<1>(a)),
        );
        narrow_f64(low: __m512d, high: __m512d) -> __m512 = _mm512_insertf32x8::<1>(
            _mm512_castps256_ps512(_mm512_cvtpd_ps(low)),
            _mm512_cvtpd_ps(high),
        );

        splat_i64(value: i64) -> __m512i = _mm512_set1_epi64(value);
        add_i64(a: __m512i, b: __m512i) -> __m512i = _mm512_add_epi64(a, b);
        sub_i64(a: __m512i, b: __m512i) -> __m512i = _mm512_sub_epi64(a, b);
        and_i64(a: __m512i, b: __m512i) -> __m512i = _mm512_and_si512(a, b);
        or_i64(a: __m512i, b: __m512i) -> __m512i = _mm512_or_si512(a, b);
        xor_i64(a: __m512i, b: __m512i) -> __m512i = _mm512_xor_si512(a, b);
    }

    #[inline(always)]
    fn load_f32(self, source: &[f32]) -> __m512 {
        let source = &source[..16];
        // SAFETY: 16 elements are readable; the token proves the features.
        unsafe { _mm512_loadu_ps(source.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn load_ptr_f32(self, source: *const f32) -> __m512 {
        // SAFETY: 16 elements are readable by contract; the token proves the features.
        unsafe { _mm512_loadu_ps(source) }
    }

    #[inline(always)]
    fn load_partial_f32(self, source: &[f32], fill: f32) -> __m512 {
        let mask = first_16(source.len());
        // SAFETY: only the lanes of the mask are read, and they lie in `source`; the token proves the features.
        unsafe { _mm512_mask_loadu_ps(_mm512_set1_ps(fill), mask, source.as_ptr()) }
    }

    #[inline(always)]
    fn store_f32(self, value: __m512, target: &mut [f32]) {
        let target = &mut target[..16];
        // SAFETY: 16 elements are writable; the token proves the features.
        unsafe { _mm512_storeu_ps(target.as_mut_ptr(), value) }
    }

    #[inline(always)]
    unsafe fn store_ptr_f32(self, value: __m512, target: *mut f32) {
        // SAFETY: 16 elements are writable by contract; the token proves the features.
        unsafe { _mm512_storeu_ps(target, value) }
    }

    #[inline(always)]
    fn store_partial_f32(self, value: __m512, target: &mut [f32]) {
        let mask = first_16(target.len());
        // SAFETY: only the lanes of the mask are written, and they lie in `target`; the token proves the features.
        unsafe { _mm512_mask_storeu_ps(target.as_mut_ptr(), mask, value) }
    }

    #[inline(always)]
    fn lookup8_f32(self, table: &[f32; 8], index: __m512i) -> __m512 {
        // SAFETY: the table has eight readable elements; the token proves the features.
        unsafe {
            let twice = _mm512_broadcast_f32x8(_mm256_loadu_ps(table.as_ptr()));
            _mm512_permutexvar_ps(index, twice)
        }
    }

    #[inline(always)]
    fn shl_i32<const BITS: i32>(self, a: __m512i) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { _mm512_sll_epi32(a, _mm_cvtsi32_si128(BITS)) }
    }

    #[inline(always)]
    fn shr_i32<const BITS: i32>(self, a: __m512i) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { _mm512_srl_epi32(a, _mm_cvtsi32_si128(BITS)) }
    }

    #[inline(always)]
    fn sar_i32<const BITS: i32>(self, a: __m512i) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { _mm512_sra_epi32(a, _mm_cvtsi32_si128(BITS)) }
    }

    #[inline(always)]
    fn and_m32(self, a: __mmask16, b: __mmask16) -> __mmask16 {
        a & b
    }

    #[inline(always)]
    fn or_m32(self, a: __mmask16, b: __mmask16) -> __mmask16 {
        a | b
    }

    #[inline(always)]
    fn not_m32(self, a: __mmask16) -> __mmask16 {
        !a
    }

    #[inline(always)]
    fn any_m32(self, a: __mmask16) -> bool {
        a != 0
    }

    #[inline(always)]
    fn load_f16(self, source: &[f16]) -> __m512 {
        let source = &source[..16];
        // SAFETY: 32 bytes are readable; the token proves the features.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(source.as_ptr().cast())) }
    }

    #[inline(always)]
    fn load_partial_f16(self, source: &[f16], fill: f16) -> __m512 {
        let mask = first_16(source.len());
        // SAFETY: only the lanes of the mask are read, and they lie in `source`; the token proves the features.
        unsafe {
            let fill = _mm256_set1_epi16(fill.to_bits() as i16);
            _mm512_cvtph_ps(_mm256_mask_loadu_epi16(fill, mask, source.as_ptr().cast()))
        }
    }

    #[inline(always)]
    fn store_f16(self, value: __m512, target: &mut [f16]) {
        let target = &mut target[..16];
        // SAFETY: 32 bytes are writable; the token proves the features.
        unsafe {
            let narrow = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(value);
            _mm256_storeu_si256(target.as_mut_ptr().cast(), narrow);
        }
    }

    #[inline(always)]
    fn store_partial_f16(self, value: __m512, target: &mut [f16]) {
        let mask = first_16(target.len());
        // SAFETY: only the lanes of the mask are written, and they lie in `target`; the token proves the features.
        unsafe {
            let narrow = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(value);
            _mm256_mask_storeu_epi16(target.as_mut_ptr().cast(), mask, narrow);
        }
    }

    #[inline(always)]
    fn load_bf16(self, source: &[bf16]) -> __m512 {
        let source = &source[..16];
        // SAFETY: 32 bytes are readable; the token proves the features.
        unsafe {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(source.as_ptr().cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
        }
    }

    #[inline(always)]
    fn load_partial_bf16(self, source: &[bf16], fill: bf16) -> __m512 {
        let mask = first_16(source.len());
        // SAFETY: only the lanes of the mask are read, and they lie in `source`; the token proves the features.
        unsafe {
            let fill = _mm256_set1_epi16(fill.to_bits() as i16);
            let narrow = _mm256_mask_loadu_epi16(fill, mask, source.as_ptr().cast());
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(narrow)))
        }
    }

    #[inline(always)]
    fn store_bf16(self, value: __m512, target: &mut [bf16]) {
        let target = &mut target[..16];
        // SAFETY: 32 bytes are writable; the token proves the features.
        unsafe {
            let narrow = _mm512_cvtepi32_epi16(round_bf16(value));
            _mm256_storeu_si256(target.as_mut_ptr().cast(), narrow);
        }
    }

    #[inline(always)]
    fn store_partial_bf16(self, value: __m512, target: &mut [bf16]) {
        let mask = first_16(target.len());
        // SAFETY: only the lanes of the mask are written, and they lie in `target`; the token proves the features.
        unsafe {
            let narrow = _mm512_cvtepi32_epi16(round_bf16(value));
            _mm256_mask_storeu_epi16(target.as_mut_ptr().cast(), mask, narrow);
        }
    }

    #[inline(always)]
    fn load_f64(self, source: &[f64]) -> __m512d {
        let source = &source[..8];
        // SAFETY: 8 elements are readable; the token proves the features.
        unsafe { _mm512_loadu_pd(source.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn load_ptr_f64(self, source: *const f64) -> __m512d {
        // SAFETY: 8 elements are readable by contract; the token proves the features.
        unsafe { _mm512_loadu_pd(source) }
    }

    #[inline(always)]
    fn load_partial_f64(self, source: &[f64], fill: f64) -> __m512d {
        let mask = first_8(source.len());
        // SAFETY: only the lanes of the mask are read, and they lie in `source`; the token proves the features.
        unsafe { _mm512_mask_loadu_pd(_mm512_set1_pd(fill), mask, source.as_ptr()) }
    }

    #[inline(always)]
    fn store_f64(self, value: __m512d, target: &mut [f64]) {
        let target = &mut target[..8];
        // SAFETY: 8 elements are writable; the token proves the features.
        unsafe { _mm512_storeu_pd(target.as_mut_ptr(), value) }
    }

    #[inline(always)]
    unsafe fn store_ptr_f64(self, value: __m512d, target: *mut f64) {
        // SAFETY: 8 elements are writable by contract; the token proves the features.
        unsafe { _mm512_storeu_pd(target, value) }
    }

    #[inline(always)]
    fn store_partial_f64(self, value: __m512d, target: &mut [f64]) {
        let mask = first_8(target.len());
        // SAFETY: only the lanes of the mask are written, and they lie in `target`; the token proves the features.
        unsafe { _mm512_mask_storeu_pd(target.as_mut_ptr(), mask, value) }
    }

    #[inline(always)]
    fn shl_i64<const BITS: i32>(self, a: __m512i) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { _mm512_sll_epi64(a, _mm_cvtsi32_si128(BITS)) }
    }

    #[inline(always)]
    fn shr_i64<const BITS: i32>(self, a: __m512i) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { _mm512_srl_epi64(a, _mm_cvtsi32_si128(BITS)) }
    }

    #[inline(always)]
    fn and_m64(self, a: __mmask8, b: __mmask8) -> __mmask8 {
        a & b
    }

    #[inline(always)]
    fn or_m64(self, a: __mmask8, b: __mmask8) -> __mmask8 {
        a | b
    }

    #[inline(always)]
    fn not_m64(self, a: __mmask8) -> __mmask8 {
        !a
    }

    #[inline(always)]
    fn any_m64(self, a: __mmask8) -> bool {
        a != 0
    }
}

impl Isa for Avx512 {
    const TIER: IsaTier = IsaTier::Avx512;
    type F32x64 = [__m512; 4];
    type F64x64 = [__m512d; 8];

    #[inline(always)]
    fn splat_f32x64(self, value: f32) -> [__m512; 4] {
        [self.splat_f32(value); 4]
    }

    #[inline(always)]
    fn splat_f64x64(self, value: f64) -> [__m512d; 8] {
        [self.splat_f64(value); 8]
    }

    #[inline(always)]
    fn swap_f32<const STEP: usize>(self, a: __m512) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe {
            match STEP {
                8 => _mm512_shuffle_f32x4::<0b01_00_11_10>(a, a),
                4 => _mm512_shuffle_f32x4::<0b10_11_00_01>(a, a),
                2 => _mm512_permute_ps::<0b01_00_11_10>(a),
                _ => _mm512_permute_ps::<0b10_11_00_01>(a),
            }
        }
    }

    #[inline(always)]
    fn swap_f64<const STEP: usize>(self, a: __m512d) -> __m512d {
        // SAFETY: the token proves the features.
        unsafe {
            match STEP {
                4 => _mm512_shuffle_f64x2::<0b01_00_11_10>(a, a),
                2 => _mm512_shuffle_f64x2::<0b10_11_00_01>(a, a),
                _ => _mm512_permute_pd::<0b0101_0101>(a),
            }
        }
    }
}
