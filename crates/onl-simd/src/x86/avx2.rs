use crate::{Isa, SimdOp, VectorOps};
use half::{bf16, f16};
use onl_cpu::IsaTier;
use std::arch::x86_64::*;

/// Token of the AVX2 tier (with FMA and F16C): 8 lanes of 32 bits, 4 of 64.
#[derive(Debug, Clone, Copy)]
pub struct Avx2(());

impl Avx2 {
    /// The token, when this processor has the tier's features.
    pub fn detect() -> Option<Self> {
        IsaTier::available()
            .contains(&IsaTier::Avx2)
            .then_some(Avx2(()))
    }

    /// Runs `op` compiled for the tier.
    pub fn run<O: SimdOp>(self, op: O) -> O::Output {
        // SAFETY: the token proves the features.
        unsafe { run(op) }
    }
}

/// # Safety
/// The processor has every feature named here.
#[target_feature(enable = "avx2,fma,f16c,bmi2,popcnt")]
unsafe fn run<O: SimdOp>(op: O) -> O::Output {
    op.eval(Avx2(()))
}

/// A window that starts `8 - n` elements in has its first n lanes set.
static FIRST_32: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
/// A window that starts `4 - n` elements in has its first n lanes set.
static FIRST_64: [i64; 8] = [-1, -1, -1, -1, 0, 0, 0, 0];

/// The lowest `count` of 8 lanes.
#[inline(always)]
fn first_8(count: usize) -> __m256i {
    let window = &FIRST_32[8 - count..][..8];
    // SAFETY: the window has 32 readable bytes; called by methods of the token only, which proves the features.
    unsafe { _mm256_loadu_si256(window.as_ptr().cast()) }
}

/// The lowest `count` of 4 lanes.
#[inline(always)]
fn first_4(count: usize) -> __m256i {
    let window = &FIRST_64[4 - count..][..4];
    // SAFETY: the window has 32 readable bytes; called by methods of the token only, which proves the features.
    unsafe { _mm256_loadu_si256(window.as_ptr().cast()) }
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

/// Nearest even by the eight leading bits, NaN quieted; eight 16-bit results.
#[inline(always)]
unsafe fn round_bf16(value: __m256) -> __m128i {
    // SAFETY: called by methods of the token only, which proves the features.
    unsafe {
        let bits = _mm256_castps_si256(value);
        let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
        let rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
        let quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x0040_0000));
        let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(value, value));
        let halves = _mm256_srli_epi32::<16>(_mm256_blendv_epi8(rounded, quiet, nan));
        let packed = _mm256_packus_epi32(halves, halves);
        _mm256_castsi256_si128(_mm256_permute4x64_epi64::<0b1000>(packed))
    }
}

#[inline(always)]
unsafe fn select_pd(mask: __m256i, a: __m256d, b: __m256d) -> __m256d {
    // SAFETY: called by methods of the token only, which proves the features.
    unsafe { _mm256_blendv_pd(b, a, _mm256_castsi256_pd(mask)) }
}

#[inline(always)]
unsafe fn select_ps(mask: __m256i, a: __m256, b: __m256) -> __m256 {
    // SAFETY: called by methods of the token only, which proves the features.
    unsafe { _mm256_blendv_ps(b, a, _mm256_castsi256_ps(mask)) }
}

#[target_feature(enable = "avx2")]
#[inline]
fn side_by_side([mut a, mut b]: [__m256; 2]) -> [__m256; 2] {
    // SAFETY: the template is a comment; the registers keep their values.
    unsafe {
        std::arch::asm!("/* {0} {1} */", inout(ymm_reg) a, inout(ymm_reg) b, options(pure, nomem, nostack, preserves_flags));
    }
    [a, b]
}

impl VectorOps for Avx2 {
    const F32_LANES: usize = 8;
    const F64_LANES: usize = 4;
    type F32 = __m256;
    type I32 = __m256i;
    type M32 = __m256i;
    type F64 = __m256d;
    type I64 = __m256i;
    type M64 = __m256i;
    register_methods! {
        splat_f32(value: f32) -> __m256 = _mm256_set1_ps(value);
        add_f32(a: __m256, b: __m256) -> __m256 = _mm256_add_ps(a, b);
        sub_f32(a: __m256, b: __m256) -> __m256 = _mm256_sub_ps(a, b);
        mul_f32(a: __m256, b: __m256) -> __m256 = _mm256_mul_ps(a, b);
        div_f32(a: __m256, b: __m256) -> __m256 = _mm256_div_ps(a, b);
        fma_f32(a: __m256, b: __m256, c: __m256) -> __m256 = _mm256_fmadd_ps(a, b, c);
        sqrt_f32(a: __m256) -> __m256 = _mm256_sqrt_ps(a);
        abs_f32(a: __m256) -> __m256 = _mm256_andnot_ps(_mm256_set1_ps(-0.0), a);
        neg_f32(a: __m256) -> __m256 = _mm256_xor_ps(a, _mm256_set1_ps(-0.0));
        min_f32(a: __m256, b: __m256) -> __m256 = _mm256_min_ps(a, b);
        max_f32(a: __m256, b: __m256) -> __m256 = _mm256_max_ps(a, b);
        lt_f32(a: __m256, b: __m256) -> __m256i = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_LT_OQ>(a, b));
        le_f32(a: __m256, b: __m256) -> __m256i = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_LE_OQ>(a, b));
        eq_f32(a: __m256, b: __m256) -> __m256i = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_EQ_OQ>(a, b));
        is_nan_f32(a: __m256) -> __m256i = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(a, a));
        select_f32(mask: __m256i, a: __m256, b: __m256) -> __m256 = select_ps(mask, a, b);
        bits_f32(a: __m256) -> __m256i = _mm256_castps_si256(a);
        from_bits_f32(a: __m256i) -> __m256 = _mm256_castsi256_ps(a);

        splat_i32(value: i32) -> __m256i = _mm256_set1_epi32(value);
        add_i32(a: __m256i, b: __m256i) -> __m256i = _mm256_add_epi32(a, b);
        sub_i32(a: __m256i, b: __m256i) -> __m256i = _mm256_sub_epi32(a, b);
        and_i32(a: __m256i, b: __m256i) -> __m256i = _mm256_and_si256(a, b);
        or_i32(a: __m256i, b: __m256i) -> __m256i = _mm256_or_si256(a, b);
        xor_i32(a: __m256i, b: __m256i) -> __m256i = _mm256_xor_si256(a, b);
        lt_i32(a: __m256i, b: __m256i) -> __m256i = _mm256_cmpgt_epi32(b, a);
        eq_i32(a: __m256i, b: __m256i) -> __m256i = _mm256_cmpeq_epi32(a, b);
        select_i32(mask: __m256i, a: __m256i, b: __m256i) -> __m256i = _mm256_blendv_epi8(b, a, mask);
        to_f32(a: __m256i) -> __m256 = _mm256_cvtepi32_ps(a);
        and_m32(a: __m256i, b: __m256i) -> __m256i = _mm256_and_si256(a, b);
        or_m32(a: __m256i, b: __m256i) -> __m256i = _mm256_or_si256(a, b);
        not_m32(a: __m256i) -> __m256i = _mm256_xor_si256(a, _mm256_set1_epi32(-1));
        any_m32(a: __m256i) -> bool = _mm256_movemask_ps(_mm256_castsi256_ps(a)) != 0;

        splat_f64(value: f64) -> __m256d = _mm256_set1_pd(value);
        add_f64(a: __m256d, b: __m256d) -> __m256d = _mm256_add_pd(a, b);
        sub_f64(a: __m256d, b: __m256d) -> __m256d = _mm256_sub_pd(a, b);
        mul_f64(a: __m256d, b: __m256d) -> __m256d = _mm256_mul_pd(a, b);
        div_f64(a: __m256d, b: __m256d) -> __m256d = _mm256_div_pd(a, b);
        fma_f64(a: __m256d, b: __m256d, c: __m256d) -> __m256d = _mm256_fmadd_pd(a, b, c);
        sqrt_f64(a: __m256d) -> __m256d = _mm256_sqrt_pd(a);
        abs_f64(a: __m256d) -> __m256d = _mm256_andnot_pd(_mm256_set1_pd(-0.0), a);
        neg_f64(a: __m256d) -> __m256d = _mm256_xor_pd(a, _mm256_set1_pd(-0.0));
        min_f64(a: __m256d, b: __m256d) -> __m256d = _mm256_min_pd(a, b);
        max_f64(a: __m256d, b: __m256d) -> __m256d = _mm256_max_pd(a, b);
        lt_f64(a: __m256d, b: __m256d) -> __m256i = _mm256_castpd_si256(_mm256_cmp_pd::<_CMP_LT_OQ>(a, b));
        le_f64(a: __m256d, b: __m256d) -> __m256i = _mm256_castpd_si256(_mm256_cmp_pd::<_CMP_LE_OQ>(a, b));
        eq_f64(a: __m256d, b: __m256d) -> __m256i = _mm256_castpd_si256(_mm256_cmp_pd::<_CMP_EQ_OQ>(a, b));
        is_nan_f64(a: __m256d) -> __m256i = _mm256_castpd_si256(_mm256_cmp_pd::<_CMP_UNORD_Q>(a, a));
        select_f64(mask: __m256i, a: __m256d, b: __m256d) -> __m256d = select_pd(mask, a, b);
        bits_f64(a: __m256d) -> __m256i = _mm256_castpd_si256(a);
        from_bits_f64(a: __m256i) -> __m256d = _mm256_castsi256_pd(a);
        widen_f64(a: __m256) -> (__m256d, __m256d) = (
            _mm256_cvtps_pd(_mm256_castps256_ps128(a)),
            _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(a)),
        );
        narrow_f64(low: __m256d, high: __m256d) -> __m256 =
            _mm256_set_m128(_mm256_cvtpd_ps(high), _mm256_cvtpd_ps(low));

        splat_i64(value: i64) -> __m256i = _mm256_set1_epi64x(value);
        add_i64(a: __m256i, b: __m256i) -> __m256i = _mm256_add_epi64(a, b);
        sub_i64(a: __m256i, b: __m256i) -> __m256i = _mm256_sub_epi64(a, b);
        and_i64(a: __m256i, b: __m256i) -> __m256i = _mm256_and_si256(a, b);
        or_i64(a: __m256i, b: __m256i) -> __m256i = _mm256_or_si256(a, b);
        xor_i64(a: __m256i, b: __m256i) -> __m256i = _mm256_xor_si256(a, b);
        and_m64(a: __m256i, b: __m256i) -> __m256i = _mm256_and_si256(a, b);
        or_m64(a: __m256i, b: __m256i) -> __m256i = _mm256_or_si256(a, b);
        not_m64(a: __m256i) -> __m256i = _mm256_xor_si256(a, _mm256_set1_epi32(-1));
        any_m64(a: __m256i) -> bool = _mm256_movemask_pd(_mm256_castsi256_pd(a)) != 0;
    }

    #[inline(always)]
    fn side_by_side_f32(self, pair: [__m256; 2]) -> [__m256; 2] {
        // SAFETY: the token proves the features.
        unsafe { side_by_side(pair) }
    }

    #[inline(always)]
    fn load_f32(self, source: &[f32]) -> __m256 {
        let source = &source[..8];
        // SAFETY: 8 elements are readable; the token proves the features.
        unsafe { _mm256_loadu_ps(source.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn load_ptr_f32(self, source: *const f32) -> __m256 {
        // SAFETY: 8 elements are readable by contract; the token proves the features.
        unsafe { _mm256_loadu_ps(source) }
    }

    #[inline(always)]
    fn load_partial_f32(self, source: &[f32], fill: f32) -> __m256 {
        let mask = first_8(source.len());
        // SAFETY: only the lanes of the mask are read, and they lie in `source`; the token proves the features.
        unsafe {
            let loaded = _mm256_maskload_ps(source.as_ptr(), mask);
            select_ps(mask, loaded, _mm256_set1_ps(fill))
        }
    }

    #[inline(always)]
    fn store_f32(self, value: __m256, target: &mut [f32]) {
        let target = &mut target[..8];
        // SAFETY: 8 elements are writable; the token proves the features.
        unsafe { _mm256_storeu_ps(target.as_mut_ptr(), value) }
    }

    #[inline(always)]
    unsafe fn store_ptr_f32(self, value: __m256, target: *mut f32) {
        // SAFETY: 8 elements are writable by contract; the token proves the features.
        unsafe { _mm256_storeu_ps(target, value) }
    }

    #[inline(always)]
    fn store_partial_f32(self, value: __m256, target: &mut [f32]) {
        let mask = first_8(target.len());
        // SAFETY: only the lanes of the mask are written, and they lie in `target`; the token proves the features.
        unsafe { _mm256_maskstore_ps(target.as_mut_ptr(), mask, value) }
    }

    #[inline(always)]
    fn lookup8_f32(self, table: &[f32; 8], index: __m256i) -> __m256 {
        // SAFETY: the table has eight readable elements; the token proves the features.
        unsafe { _mm256_permutevar8x32_ps(_mm256_loadu_ps(table.as_ptr()), index) }
    }

    #[inline(always)]
    fn shl_i32<const BITS: i32>(self, a: __m256i) -> __m256i {
        // SAFETY: the token proves the features.
        unsafe { _mm256_slli_epi32::<BITS>(a) }
    }

    #[inline(always)]
    fn shr_i32<const BITS: i32>(self, a: __m256i) -> __m256i {
        // SAFETY: the token proves the features.
        unsafe { _mm256_srli_epi32::<BITS>(a) }
    }

    #[inline(always)]
    fn sar_i32<const BITS: i32>(self, a: __m256i) -> __m256i {
        // SAFETY: the token proves the features.
        unsafe { _mm256_srai_epi32::<BITS>(a) }
    }

    #[inline(always)]
    fn load_f16(self, source: &[f16]) -> __m256 {
        let source = &source[..8];
        // SAFETY: 16 bytes are readable; the token proves the features.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(source.as_ptr().cast())) }
    }

    #[inline(always)]
    fn store_f16(self, value: __m256, target: &mut [f16]) {
        let target = &mut target[..8];
        // SAFETY: 16 bytes are writable; the token proves the features.
        unsafe {
            let narrow = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(value);
            _mm_storeu_si128(target.as_mut_ptr().cast(), narrow);
        }
    }

    #[inline(always)]
    fn load_bf16(self, source: &[bf16]) -> __m256 {
        let source = &source[..8];
        // SAFETY: 16 bytes are readable; the token proves the features.
        unsafe {
            let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(source.as_ptr().cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
        }
    }

    #[inline(always)]
    fn store_bf16(self, value: __m256, target: &mut [bf16]) {
        let target = &mut target[..8];
        // SAFETY: 16 bytes are writable; the token proves the features.
        unsafe { _mm_storeu_si128(target.as_mut_ptr().cast(), round_bf16(value)) }
    }

    #[inline(always)]
    fn load_f64(self, source: &[f64]) -> __m256d {
        let source = &source[..4];
        // SAFETY: 4 elements are readable; the token proves the features.
        unsafe { _mm256_loadu_pd(source.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn load_ptr_f64(self, source: *const f64) -> __m256d {
        // SAFETY: 4 elements are readable by contract; the token proves the features.
        unsafe { _mm256_loadu_pd(source) }
    }

    #[inline(always)]
    fn load_partial_f64(self, source: &[f64], fill: f64) -> __m256d {
        let mask = first_4(source.len());
        // SAFETY: only the lanes of the mask are read, and they lie in `source`; the token proves the features.
        unsafe {
            let loaded = _mm256_maskload_pd(source.as_ptr(), mask);
            select_pd(mask, loaded, _mm256_set1_pd(fill))
        }
    }

    #[inline(always)]
    fn store_f64(self, value: __m256d, target: &mut [f64]) {
        let target = &mut target[..4];
        // SAFETY: 4 elements are writable; the token proves the features.
        unsafe { _mm256_storeu_pd(target.as_mut_ptr(), value) }
    }

    #[inline(always)]
    unsafe fn store_ptr_f64(self, value: __m256d, target: *mut f64) {
        // SAFETY: 4 elements are writable by contract; the token proves the features.
        unsafe { _mm256_storeu_pd(target, value) }
    }

    #[inline(always)]
    fn store_partial_f64(self, value: __m256d, target: &mut [f64]) {
        let mask = first_4(target.len());
        // SAFETY: only the lanes of the mask are written, and they lie in `target`; the token proves the features.
        unsafe { _mm256_maskstore_pd(target.as_mut_ptr(), mask, value) }
    }

    #[inline(always)]
    fn shl_i64<const BITS: i32>(self, a: __m256i) -> __m256i {
        // SAFETY: the token proves the features.
        unsafe { _mm256_slli_epi64::<BITS>(a) }
    }

    #[inline(always)]
    fn shr_i64<const BITS: i32>(self, a: __m256i) -> __m256i {
        // SAFETY: the token proves the features.
        unsafe { _mm256_srli_epi64::<BITS>(a) }
    }
}

impl Isa for Avx2 {
    const TIER: IsaTier = IsaTier::Avx2;
    type F32x64 = [__m256; 8];
    type F64x64 = [__m256d; 16];

    #[inline(always)]
    fn splat_f32x64(self, value: f32) -> [__m256; 8] {
        [self.splat_f32(value); 8]
    }

    #[inline(always)]
    fn splat_f64x64(self, value: f64) -> [__m256d; 16] {
        [self.splat_f64(value); 16]
    }

    #[inline(always)]
    fn swap_f32<const STEP: usize>(self, a: __m256) -> __m256 {
        // SAFETY: the token proves the features.
        unsafe {
            match STEP {
                4 => _mm256_permute2f128_ps::<0x01>(a, a),
                2 => _mm256_permute_ps::<0b01_00_11_10>(a),
                _ => _mm256_permute_ps::<0b10_11_00_01>(a),
            }
        }
    }

    #[inline(always)]
    fn swap_f64<const STEP: usize>(self, a: __m256d) -> __m256d {
        // SAFETY: the token proves the features.
        unsafe {
            match STEP {
                2 => _mm256_permute2f128_pd::<0x01>(a, a),
                _ => _mm256_permute_pd::<0b0101>(a),
            }
        }
    }
}
