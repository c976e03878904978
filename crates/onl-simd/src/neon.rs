//! Token of the AArch64 tier.

use crate::{Isa, SimdOp, VectorOps};
use half::{bf16, f16};
use onl_cpu::IsaTier;
use std::arch::aarch64::*;

/// Token of the AArch64 Advanced SIMD tier: 4 lanes of 32 bits, 2 of 64.
#[derive(Debug, Clone, Copy)]
pub struct Neon(());

impl Neon {
    /// The token, when this processor has the tier's features.
    pub fn detect() -> Option<Self> {
        IsaTier::available()
            .contains(&IsaTier::Neon)
            .then_some(Neon(()))
    }

    /// Runs `op` compiled for the tier.
    pub fn run<O: SimdOp>(self, op: O) -> O::Output {
        // SAFETY: the token proves the features.
        unsafe { run(op) }
    }
}

/// # Safety
/// The processor has every feature named here.
#[target_feature(enable = "neon")]
unsafe fn run<O: SimdOp>(op: O) -> O::Output {
    op.eval(Neon(()))
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

/// Nearest even by the eight leading bits, NaN quieted; four 16-bit results.
#[inline(always)]
unsafe fn round_bf16(value: float32x4_t) -> uint16x4_t {
    // SAFETY: called by methods of the token only, which proves the features.
    unsafe {
        let bits = vreinterpretq_u32_f32(value);
        let odd = vandq_u32(vshrq_n_u32::<16>(bits), vdupq_n_u32(1));
        let rounded = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
        let quiet = vorrq_u32(bits, vdupq_n_u32(0x0040_0000));
        let number = vceqq_f32(value, value);
        vshrn_n_u32::<16>(vbslq_u32(number, rounded, quiet))
    }
}

impl VectorOps for Neon {
    const F32_LANES: usize = 4;
    const F64_LANES: usize = 2;
    type F32 = float32x4_t;
    type I32 = int32x4_t;
    type M32 = uint32x4_t;
    type F64 = float64x2_t;
    type I64 = int64x2_t;
    type M64 = uint64x2_t;
    register_methods! {
        splat_f32(value: f32) -> float32x4_t = vdupq_n_f32(value);
        add_f32(a: float32x4_t, b: float32x4_t) -> float32x4_t = vaddq_f32(a, b);
        sub_f32(a: float32x4_t, b: float32x4_t) -> float32x4_t = vsubq_f32(a, b);
        mul_f32(a: float32x4_t, b: float32x4_t) -> float32x4_t = vmulq_f32(a, b);
        div_f32(a: float32x4_t, b: float32x4_t) -> float32x4_t = vdivq_f32(a, b);
        fma_f32(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t = vfmaq_f32(c, a, b);
        sqrt_f32(a: float32x4_t) -> float32x4_t = vsqrtq_f32(a);
        abs_f32(a: float32x4_t) -> float32x4_t = vabsq_f32(a);
        neg_f32(a: float32x4_t) -> float32x4_t = vnegq_f32(a);
        // The native minimum and maximum order zeros and spread NaN.
        min_f32(a: float32x4_t, b: float32x4_t) -> float32x4_t = vbslq_f32(vcltq_f32(a, b), a, b);
        max_f32(a: float32x4_t, b: float32x4_t) -> float32x4_t = vbslq_f32(vcgtq_f32(a, b), a, b);
        lt_f32(a: float32x4_t, b: float32x4_t) -> uint32x4_t = vcltq_f32(a, b);
        le_f32(a: float32x4_t, b: float32x4_t) -> uint32x4_t = vcleq_f32(a, b);
        eq_f32(a: float32x4_t, b: float32x4_t) -> uint32x4_t = vceqq_f32(a, b);
        is_nan_f32(a: float32x4_t) -> uint32x4_t = vmvnq_u32(vceqq_f32(a, a));
        select_f32(mask: uint32x4_t, a: float32x4_t, b: float32x4_t) -> float32x4_t = vbslq_f32(mask, a, b);
        bits_f32(a: float32x4_t) -> int32x4_t = vreinterpretq_s32_f32(a);
        from_bits_f32(a: int32x4_t) -> float32x4_t = vreinterpretq_f32_s32(a);

        splat_i32(value: i32) -> int32x4_t = vdupq_n_s32(value);
        add_i32(a: int32x4_t, b: int32x4_t) -> int32x4_t = vaddq_s32(a, b);
        sub_i32(a: int32x4_t, b: int32x4_t) -> int32x4_t = vsubq_s32(a, b);
        and_i32(a: int32x4_t, b: int32x4_t) -> int32x4_t = vandq_s32(a, b);
        or_i32(a: int32x4_t, b: int32x4_t) -> int32x4_t = vorrq_s32(a, b);
        xor_i32(a: int32x4_t, b: int32x4_t) -> int32x4_t = veorq_s32(a, b);
        lt_i32(a: int32x4_t, b: int32x4_t) -> uint32x4_t = vcltq_s32(a, b);
        eq_i32(a: int32x4_t, b: int32x4_t) -> uint32x4_t = vceqq_s32(a, b);
        select_i32(mask: uint32x4_t, a: int32x4_t, b: int32x4_t) -> int32x4_t = vbslq_s32(mask, a, b);
        to_f32(a: int32x4_t) -> float32x4_t = vcvtq_f32_s32(a);
        and_m32(a: uint32x4_t, b: uint32x4_t) -> uint32x4_t = vandq_u32(a, b);
        or_m32(a: uint32x4_t, b: uint32x4_t) -> uint32x4_t = vorrq_u32(a, b);
        not_m32(a: uint32x4_t) -> uint32x4_t = vmvnq_u32(a);
        any_m32(a: uint32x4_t) -> bool = vmaxvq_u32(a) != 0;

        splat_f64(value: f64) -> float64x2_t = vdupq_n_f64(value);
        add_f64(a: float64x2_t, b: float64x2_t) -> float64x2_t = vaddq_f64(a, b);
        sub_f64(a: float64x2_t, b: float64x2_t) -> float64x2_t = vsubq_f64(a, b);
        mul_f64(a: float64x2_t, b: float64x2_t) -> float64x2_t = vmulq_f64(a, b);
        div_f64(a: float64x2_t, b: float64x2_t) -> float64x2_t = vdivq_f64(a, b);
        fma_f64(a: float64x2_t, b: float64x2_t, c: float64x2_t) -> float64x2_t = vfmaq_f64(c, a, b);
        sqrt_f64(a: float64x2_t) -> float64x2_t = vsqrtq_f64(a);
        abs_f64(a: float64x2_t) -> float64x2_t = vabsq_f64(a);
        neg_f64(a: float64x2_t) -> float64x2_t = vnegq_f64(a);
        min_f64(a: float64x2_t, b: float64x2_t) -> float64x2_t = vbslq_f64(vcltq_f64(a, b), a, b);
        max_f64(a: float64x2_t, b: float64x2_t) -> float64x2_t = vbslq_f64(vcgtq_f64(a, b), a, b);
        lt_f64(a: float64x2_t, b: float64x2_t) -> uint64x2_t = vcltq_f64(a, b);
        le_f64(a: float64x2_t, b: float64x2_t) -> uint64x2_t = vcleq_f64(a, b);
        eq_f64(a: float64x2_t, b: float64x2_t) -> uint64x2_t = vceqq_f64(a, b);
        is_nan_f64(a: float64x2_t) -> uint64x2_t =
            vreinterpretq_u64_u32(vmvnq_u32(vreinterpretq_u32_u64(vceqq_f64(a, a))));
        select_f64(mask: uint64x2_t, a: float64x2_t, b: float64x2_t) -> float64x2_t = vbslq_f64(mask, a, b);
        bits_f64(a: float64x2_t) -> int64x2_t = vreinterpretq_s64_f64(a);
        from_bits_f64(a: int64x2_t) -> float64x2_t = vreinterpretq_f64_s64(a);
        widen_f64(a: float32x4_t) -> (float64x2_t, float64x2_t) = (vcvt_f64_f32(vget_low_f32(a)), vcvt_high_f64_f32(a));
        narrow_f64(low: float64x2_t, high: float64x2_t) -> float32x4_t = vcvt_high_f32_f64(vcvt_f32_f64(low), high);

        splat_i64(value: i64) -> int64x2_t = vdupq_n_s64(value);
        add_i64(a: int64x2_t, b: int64x2_t) -> int64x2_t = vaddq_s64(a, b);
        sub_i64(a: int64x2_t, b: int64x2_t) -> int64x2_t = vsubq_s64(a, b);
        and_i64(a: int64x2_t, b: int64x2_t) -> int64x2_t = vandq_s64(a, b);
        or_i64(a: int64x2_t, b: int64x2_t) -> int64x2_t = vorrq_s64(a, b);
        xor_i64(a: int64x2_t, b: int64x2_t) -> int64x2_t = veorq_s64(a, b);
        and_m64(a: uint64x2_t, b: uint64x2_t) -> uint64x2_t = vandq_u64(a, b);
        or_m64(a: uint64x2_t, b: uint64x2_t) -> uint64x2_t = vorrq_u64(a, b);
        not_m64(a: uint64x2_t) -> uint64x2_t = vreinterpretq_u64_u32(vmvnq_u32(vreinterpretq_u32_u64(a)));
        any_m64(a: uint64x2_t) -> bool = vmaxvq_u32(vreinterpretq_u32_u64(a)) != 0;
    }

    #[inline(always)]
    fn load_f32(self, source: &[f32]) -> float32x4_t {
        let source = &source[..4];
        // SAFETY: 4 elements are readable; the token proves the features.
        unsafe { vld1q_f32(source.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn load_ptr_f32(self, source: *const f32) -> float32x4_t {
        // SAFETY: 4 elements are readable by contract; the token proves the features.
        unsafe { vld1q_f32(source) }
    }

    #[inline(always)]
    fn load_partial_f32(self, source: &[f32], fill: f32) -> float32x4_t {
        let mut whole = [fill; 4];
        whole[..source.len()].copy_from_slice(source);
        self.load_f32(&whole)
    }

    #[inline(always)]
    fn store_f32(self, value: float32x4_t, target: &mut [f32]) {
        let target = &mut target[..4];
        // SAFETY: 4 elements are writable; the token proves the features.
        unsafe { vst1q_f32(target.as_mut_ptr(), value) }
    }

    #[inline(always)]
    unsafe fn store_ptr_f32(self, value: float32x4_t, target: *mut f32) {
        // SAFETY: 4 elements are writable by contract; the token proves the features.
        unsafe { vst1q_f32(target, value) }
    }

    #[inline(always)]
    fn store_partial_f32(self, value: float32x4_t, target: &mut [f32]) {
        let mut whole = [0.0; 4];
        self.store_f32(value, &mut whole);
        target.copy_from_slice(&whole[..target.len()]);
    }

    #[inline(always)]
    fn lookup8_f32(self, table: &[f32; 8], index: int32x4_t) -> float32x4_t {
        // SAFETY: the table has 32 readable bytes; the token proves the features.
        unsafe {
            let bytes = table.as_ptr().cast::<u8>();
            let registers = uint8x16x2_t(vld1q_u8(bytes), vld1q_u8(bytes.add(16)));
            // Bytes 4 i to 4 i + 3 of the table.
            let index = vandq_s32(index, vdupq_n_s32(7));
            let places = vmlaq_s32(vdupq_n_s32(0x0302_0100), index, vdupq_n_s32(0x0404_0404));
            vreinterpretq_f32_u8(vqtbl2q_u8(registers, vreinterpretq_u8_s32(places)))
        }
    }

    #[inline(always)]
    fn shl_i32<const BITS: i32>(self, a: int32x4_t) -> int32x4_t {
        // SAFETY: the token proves the features.
        unsafe { vshlq_s32(a, vdupq_n_s32(BITS)) }
    }

    #[inline(always)]
    fn shr_i32<const BITS: i32>(self, a: int32x4_t) -> int32x4_t {
        // SAFETY: the token proves the features.
        unsafe { vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(a), vdupq_n_s32(-BITS))) }
    }

    #[inline(always)]
    fn sar_i32<const BITS: i32>(self, a: int32x4_t) -> int32x4_t {
        // SAFETY: the token proves the features.
        unsafe { vshlq_s32(a, vdupq_n_s32(-BITS)) }
    }

    #[inline(always)]
    fn load_f16(self, source: &[f16]) -> float32x4_t {
        let source = &source[..4];
        // SAFETY: 8 bytes are readable; the token proves the features.
        unsafe { vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(source.as_ptr().cast()))) }
    }

    #[inline(always)]
    fn store_f16(self, value: float32x4_t, target: &mut [f16]) {
        let target = &mut target[..4];
        // SAFETY: 8 bytes are writable; the token proves the features.
        unsafe {
            vst1_u16(
                target.as_mut_ptr().cast(),
                vreinterpret_u16_f16(vcvt_f16_f32(value)),
            )
        }
    }

    #[inline(always)]
    fn load_bf16(self, source: &[bf16]) -> float32x4_t {
        let source = &source[..4];
        // SAFETY: 8 bytes are readable; the token proves the features.
        unsafe { vreinterpretq_f32_u32(vshll_n_u16::<16>(vld1_u16(source.as_ptr().cast()))) }
    }

    #[inline(always)]
    fn store_bf16(self, value: float32x4_t, target: &mut [bf16]) {
        let target = &mut target[..4];
        // SAFETY: 8 bytes are writable; the token proves the features.
        unsafe { vst1_u16(target.as_mut_ptr().cast(), round_bf16(value)) }
    }

    #[inline(always)]
    fn load_f64(self, source: &[f64]) -> float64x2_t {
        let source = &source[..2];
        // SAFETY: 2 elements are readable; the token proves the features.
        unsafe { vld1q_f64(source.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn load_ptr_f64(self, source: *const f64) -> float64x2_t {
        // SAFETY: 2 elements are readable by contract; the token proves the features.
        unsafe { vld1q_f64(source) }
    }

    #[inline(always)]
    fn load_partial_f64(self, source: &[f64], fill: f64) -> float64x2_t {
        let mut whole = [fill; 2];
        whole[..source.len()].copy_from_slice(source);
        self.load_f64(&whole)
    }

    #[inline(always)]
    fn store_f64(self, value: float64x2_t, target: &mut [f64]) {
        let target = &mut target[..2];
        // SAFETY: 2 elements are writable; the token proves the features.
        unsafe { vst1q_f64(target.as_mut_ptr(), value) }
    }

    #[inline(always)]
    unsafe fn store_ptr_f64(self, value: float64x2_t, target: *mut f64) {
        // SAFETY: 2 elements are writable by contract; the token proves the features.
        unsafe { vst1q_f64(target, value) }
    }

    #[inline(always)]
    fn store_partial_f64(self, value: float64x2_t, target: &mut [f64]) {
        let mut whole = [0.0; 2];
        self.store_f64(value, &mut whole);
        target.copy_from_slice(&whole[..target.len()]);
    }

    #[inline(always)]
    fn shl_i64<const BITS: i32>(self, a: int64x2_t) -> int64x2_t {
        // SAFETY: the token proves the features.
        unsafe { vshlq_s64(a, vdupq_n_s64(BITS as i64)) }
    }

    #[inline(always)]
    fn shr_i64<const BITS: i32>(self, a: int64x2_t) -> int64x2_t {
        // SAFETY: the token proves the features.
        unsafe {
            vreinterpretq_s64_u64(vshlq_u64(
                vreinterpretq_u64_s64(a),
                vdupq_n_s64(-(BITS as i64)),
            ))
        }
    }
}

impl Isa for Neon {
    const TIER: IsaTier = IsaTier::Neon;
    type F32x64 = [float32x4_t; 16];
    type F64x64 = [float64x2_t; 32];

    #[inline(always)]
    fn splat_f32x64(self, value: f32) -> [float32x4_t; 16] {
        [self.splat_f32(value); 16]
    }

    #[inline(always)]
    fn splat_f64x64(self, value: f64) -> [float64x2_t; 32] {
        [self.splat_f64(value); 32]
    }

    #[inline(always)]
    fn swap_f32<const STEP: usize>(self, a: float32x4_t) -> float32x4_t {
        // SAFETY: the token proves the features.
        unsafe {
            match STEP {
                2 => vextq_f32::<2>(a, a),
                _ => vrev64q_f32(a),
            }
        }
    }

    #[inline(always)]
    fn swap_f64<const STEP: usize>(self, a: float64x2_t) -> float64x2_t {
        // SAFETY: the token proves the features.
        unsafe { vextq_f64::<1>(a, a) }
    }
}
