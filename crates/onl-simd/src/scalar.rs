use crate::{Isa, VectorOps};
use half::{bf16, f16};
use onl_cpu::IsaTier;

/// Token of the portable tier: one lane, plain Rust.
#[derive(Debug, Clone, Copy)]
pub struct Scalar(());

impl Scalar {
    /// The token; every processor runs this tier.
    pub const fn new() -> Self {
        Scalar(())
    }
}

impl Default for Scalar {
    fn default() -> Self {
        Self::new()
    }
}

impl VectorOps for Scalar {
    const F32_LANES: usize = 1;
    const F64_LANES: usize = 1;
    type F32 = f32;
    type I32 = i32;
    type M32 = bool;
    type F64 = f64;
    type I64 = i64;
    type M64 = bool;
    #[inline(always)]
    fn splat_f32(self, value: f32) -> f32 {
        value
    }

    #[inline(always)]
    fn load_f32(self, source: &[f32]) -> f32 {
        source[0]
    }

    #[inline(always)]
    unsafe fn load_ptr_f32(self, source: *const f32) -> f32 {
        // SAFETY: valid for one element by contract.
        unsafe { source.read() }
    }

    #[inline(always)]
    fn load_partial_f32(self, source: &[f32], fill: f32) -> f32 {
        assert!(
            source.len() <= 1,
            "a vector has one lane, not {}",
            source.len()
        );
        source.first().copied().unwrap_or(fill)
    }

    #[inline(always)]
    fn store_f32(self, value: f32, target: &mut [f32]) {
        target[0] = value;
    }

    #[inline(always)]
    unsafe fn store_ptr_f32(self, value: f32, target: *mut f32) {
        // SAFETY: valid for one element by contract.
        unsafe { target.write(value) }
    }

    #[inline(always)]
    fn store_partial_f32(self, value: f32, target: &mut [f32]) {
        assert!(
            target.len() <= 1,
            "a vector has one lane, not {}",
            target.len()
        );
        if let Some(first) = target.first_mut() {
            *first = value;
        }
    }

    #[inline(always)]
    fn add_f32(self, a: f32, b: f32) -> f32 {
        a + b
    }

    #[inline(always)]
    fn sub_f32(self, a: f32, b: f32) -> f32 {
        a - b
    }

    #[inline(always)]
    fn mul_f32(self, a: f32, b: f32) -> f32 {
        a * b
    }

    #[inline(always)]
    fn div_f32(self, a: f32, b: f32) -> f32 {
        a / b
    }

    #[inline(always)]
    fn fma_f32(self, a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }

    #[inline(always)]
    fn sqrt_f32(self, a: f32) -> f32 {
        a.sqrt()
    }

    #[inline(always)]
    fn abs_f32(self, a: f32) -> f32 {
        a.abs()
    }

    #[inline(always)]
    fn neg_f32(self, a: f32) -> f32 {
        -a
    }

    #[inline(always)]
    fn min_f32(self, a: f32, b: f32) -> f32 {
        if a < b { a } else { b }
    }

    #[inline(always)]
    fn max_f32(self, a: f32, b: f32) -> f32 {
        if a > b { a } else { b }
    }

    #[inline(always)]
    fn lt_f32(self, a: f32, b: f32) -> bool {
        a < b
    }

    #[inline(always)]
    fn le_f32(self, a: f32, b: f32) -> bool {
        a <= b
    }

    #[inline(always)]
    fn eq_f32(self, a: f32, b: f32) -> bool {
        a == b
    }

    #[inline(always)]
    fn is_nan_f32(self, a: f32) -> bool {
        a.is_nan()
    }

    #[inline(always)]
    fn select_f32(self, mask: bool, a: f32, b: f32) -> f32 {
        if mask { a } else { b }
    }

    #[inline(always)]
    fn bits_f32(self, a: f32) -> i32 {
        a.to_bits() as i32
    }

    #[inline(always)]
    fn from_bits_f32(self, a: i32) -> f32 {
        f32::from_bits(a as u32)
    }

    #[inline(always)]
    fn lookup8_f32(self, table: &[f32; 8], index: i32) -> f32 {
        table[(index & 7) as usize]
    }

    #[inline(always)]
    fn splat_i32(self, value: i32) -> i32 {
        value
    }

    #[inline(always)]
    fn add_i32(self, a: i32, b: i32) -> i32 {
        a.wrapping_add(b)
    }

    #[inline(always)]
    fn sub_i32(self, a: i32, b: i32) -> i32 {
        a.wrapping_sub(b)
    }

    #[inline(always)]
    fn and_i32(self, a: i32, b: i32) -> i32 {
        a & b
    }

    #[inline(always)]
    fn shl_i32<const BITS: i32>(self, a: i32) -> i32 {
        ((a as u32) << BITS) as i32
    }

    #[inline(always)]
    fn shr_i32<const BITS: i32>(self, a: i32) -> i32 {
        (a as u32 >> BITS) as i32
    }

    #[inline(always)]
    fn or_i32(self, a: i32, b: i32) -> i32 {
        a | b
    }

    #[inline(always)]
    fn xor_i32(self, a: i32, b: i32) -> i32 {
        a ^ b
    }

    #[inline(always)]
    fn sar_i32<const BITS: i32>(self, a: i32) -> i32 {
        a >> BITS
    }

    #[inline(always)]
    fn lt_i32(self, a: i32, b: i32) -> bool {
        a < b
    }

    #[inline(always)]
    fn eq_i32(self, a: i32, b: i32) -> bool {
        a == b
    }

    #[inline(always)]
    fn select_i32(self, mask: bool, a: i32, b: i32) -> i32 {
        if mask { a } else { b }
    }

    #[inline(always)]
    fn to_f32(self, a: i32) -> f32 {
        a as f32
    }

    #[inline(always)]
    fn and_m32(self, a: bool, b: bool) -> bool {
        a & b
    }

    #[inline(always)]
    fn or_m32(self, a: bool, b: bool) -> bool {
        a | b
    }

    #[inline(always)]
    fn not_m32(self, a: bool) -> bool {
        !a
    }

    #[inline(always)]
    fn any_m32(self, a: bool) -> bool {
        a
    }

    #[inline(always)]
    fn splat_f64(self, value: f64) -> f64 {
        value
    }

    #[inline(always)]
    fn load_f64(self, source: &[f64]) -> f64 {
        source[0]
    }

    #[inline(always)]
    unsafe fn load_ptr_f64(self, source: *const f64) -> f64 {
        // SAFETY: valid for one element by contract.
        unsafe { source.read() }
    }

    #[inline(always)]
    fn load_partial_f64(self, source: &[f64], fill: f64) -> f64 {
        assert!(
            source.len() <= 1,
            "a vector has one lane, not {}",
            source.len()
        );
        source.first().copied().unwrap_or(fill)
    }

    #[inline(always)]
    fn store_f64(self, value: f64, target: &mut [f64]) {
        target[0] = value;
    }

    #[inline(always)]
    unsafe fn store_ptr_f64(self, value: f64, target: *mut f64) {
        // SAFETY: valid for one element by contract.
        unsafe { target.write(value) }
    }

    #[inline(always)]
    fn store_partial_f64(self, value: f64, target: &mut [f64]) {
        assert!(
            target.len() <= 1,
            "a vector has one lane, not {}",
            target.len()
        );
        if let Some(first) = target.first_mut() {
            *first = value;
        }
    }

    #[inline(always)]
    fn add_f64(self, a: f64, b: f64) -> f64 {
        a + b
    }

    #[inline(always)]
    fn sub_f64(self, a: f64, b: f64) -> f64 {
        a - b
    }

    #[inline(always)]
    fn mul_f64(self, a: f64, b: f64) -> f64 {
        a * b
    }

    #[inline(always)]
    fn div_f64(self, a: f64, b: f64) -> f64 {
        a / b
    }

    #[inline(always)]
    fn fma_f64(self, a: f64, b: f64, c: f64) -> f64 {
        a.mul_add(b, c)
    }

    #[inline(always)]
    fn sqrt_f64(self, a: f64) -> f64 {
        a.sqrt()
    }

    #[inline(always)]
    fn abs_f64(self, a: f64) -> f64 {
        a.abs()
    }

    #[inline(always)]
    fn neg_f64(self, a: f64) -> f64 {
        -a
    }

    #[inline(always)]
    fn min_f64(self, a: f64, b: f64) -> f64 {
        if a < b { a } else { b }
    }

    #[inline(always)]
    fn max_f64(self, a: f64, b: f64) -> f64 {
        if a > b { a } else { b }
    }

    #[inline(always)]
    fn lt_f64(self, a: f64, b: f64) -> bool {
        a < b
    }

    #[inline(always)]
    fn le_f64(self, a: f64, b: f64) -> bool {
        a <= b
    }

    #[inline(always)]
    fn eq_f64(self, a: f64, b: f64) -> bool {
        a == b
    }

    #[inline(always)]
    fn is_nan_f64(self, a: f64) -> bool {
        a.is_nan()
    }

    #[inline(always)]
    fn select_f64(self, mask: bool, a: f64, b: f64) -> f64 {
        if mask { a } else { b }
    }

    #[inline(always)]
    fn bits_f64(self, a: f64) -> i64 {
        a.to_bits() as i64
    }

    #[inline(always)]
    fn from_bits_f64(self, a: i64) -> f64 {
        f64::from_bits(a as u64)
    }

    #[inline(always)]
    fn splat_i64(self, value: i64) -> i64 {
        value
    }

    #[inline(always)]
    fn add_i64(self, a: i64, b: i64) -> i64 {
        a.wrapping_add(b)
    }

    #[inline(always)]
    fn sub_i64(self, a: i64, b: i64) -> i64 {
        a.wrapping_sub(b)
    }

    #[inline(always)]
    fn and_i64(self, a: i64, b: i64) -> i64 {
        a & b
    }

    #[inline(always)]
    fn or_i64(self, a: i64, b: i64) -> i64 {
        a | b
    }

    #[inline(always)]
    fn xor_i64(self, a: i64, b: i64) -> i64 {
        a ^ b
    }

    #[inline(always)]
    fn widen_f64(self, a: f32) -> (f64, f64) {
        (f64::from(a), f64::from(a))
    }

    #[inline(always)]
    fn narrow_f64(self, low: f64, _high: f64) -> f32 {
        low as f32
    }

    #[inline(always)]
    fn shl_i64<const BITS: i32>(self, a: i64) -> i64 {
        ((a as u64) << BITS) as i64
    }

    #[inline(always)]
    fn shr_i64<const BITS: i32>(self, a: i64) -> i64 {
        (a as u64 >> BITS) as i64
    }

    #[inline(always)]
    fn and_m64(self, a: bool, b: bool) -> bool {
        a & b
    }

    #[inline(always)]
    fn or_m64(self, a: bool, b: bool) -> bool {
        a | b
    }

    #[inline(always)]
    fn not_m64(self, a: bool) -> bool {
        !a
    }

    #[inline(always)]
    fn any_m64(self, a: bool) -> bool {
        a
    }

    #[inline(always)]
    fn load_f16(self, source: &[f16]) -> f32 {
        source[0].to_f32_const()
    }

    #[inline(always)]
    fn store_f16(self, value: f32, target: &mut [f16]) {
        target[0] = f16::from_f32_const(value);
    }

    #[inline(always)]
    fn load_bf16(self, source: &[bf16]) -> f32 {
        f32::from_bits(u32::from(source[0].to_bits()) << 16)
    }

    #[inline(always)]
    fn store_bf16(self, value: f32, target: &mut [bf16]) {
        target[0] = bf16::from_f32_const(value);
    }
}

impl Isa for Scalar {
    const TIER: IsaTier = IsaTier::Scalar;
    type F32x64 = [f32; 64];
    type F64x64 = [f64; 64];

    #[inline(always)]
    fn splat_f32x64(self, value: f32) -> [f32; 64] {
        [value; 64]
    }

    #[inline(always)]
    fn splat_f64x64(self, value: f64) -> [f64; 64] {
        [value; 64]
    }
}
