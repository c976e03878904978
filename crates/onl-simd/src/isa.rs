use half::{bf16, f16};
use onl_cpu::IsaTier;

/// `F32_LANES` of pairs of vectors of the widest tier: size of buffers that hold the lanes of any `F32` or `F64`.
pub const MAXIMUM_F32_LANES: usize = 32;

/// An operation with one body for every instruction set.
pub trait SimdOp {
    /// What the operation gives.
    type Output;

    /// The body; implementations are `#[inline(always)]`.
    fn eval<I: Isa>(self, isa: I) -> Self::Output;
}

/// Operations on vectors of 32-bit and 64-bit lanes.
///
/// Vectors of 32-bit floats and integers have [`F32_LANES`](Self::F32_LANES) lanes and share the mask type `M32`;
/// vectors of 64-bit floats and integers have [`F64_LANES`](Self::F64_LANES) lanes and share `M64`.
// The token is the receiver of every method, conversions included.
#[allow(clippy::wrong_self_convention)]
pub trait VectorOps: Copy + Send + Sync + 'static {
    /// Lanes of an `F32`, `I32` or `M32`: 16, 8, 4 or 1, or twice as many.
    const F32_LANES: usize;
    /// Lanes of an `F64`, `I64` or `M64`: 8, 4, 2 or 1, or twice as many.
    const F64_LANES: usize;

    /// Vector of `f32`.
    type F32: Copy;
    /// Vector of 32-bit integers; additions wrap.
    type I32: Copy;
    /// Mask over 32-bit lanes.
    type M32: Copy;
    /// Vector of `f64`.
    type F64: Copy;
    /// Vector of 64-bit integers; additions wrap.
    type I64: Copy;
    /// Mask over 64-bit lanes.
    type M64: Copy;

    // --- f32 ---------------------------------------------------------------------------------------------------
    /// All lanes equal.
    fn splat_f32(self, value: f32) -> Self::F32;
    /// First `F32_LANES` elements; panics when there are fewer.
    fn load_f32(self, source: &[f32]) -> Self::F32;
    /// As `load_f32`, without a check.
    ///
    /// # Safety
    /// `source` is valid for reading `F32_LANES` elements.
    unsafe fn load_ptr_f32(self, source: *const f32) -> Self::F32;
    /// All of `source` (at most `F32_LANES` elements, more panic), the rest filled.
    fn load_partial_f32(self, source: &[f32], fill: f32) -> Self::F32;
    /// Into the first `F32_LANES` elements; panics when there are fewer.
    fn store_f32(self, value: Self::F32, target: &mut [f32]);
    /// As `store_f32`, without a check.
    ///
    /// # Safety
    /// `target` is valid for writing `F32_LANES` elements.
    unsafe fn store_ptr_f32(self, value: Self::F32, target: *mut f32);
    /// The first lanes into all of `target` (at most `F32_LANES` elements).
    fn store_partial_f32(self, value: Self::F32, target: &mut [f32]);
    /// a + b.
    fn add_f32(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// a − b.
    fn sub_f32(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// a · b.
    fn mul_f32(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// a / b, correctly rounded.
    fn div_f32(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// a · b + c with one rounding.
    fn fma_f32(self, a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32;
    /// The same two vectors, of which the compiler believes that neither is known before both are: it does not move one
    /// chain of operations behind the other.
    #[inline(always)]
    fn side_by_side_f32(self, pair: [Self::F32; 2]) -> [Self::F32; 2] {
        pair
    }
    /// Square root, correctly rounded.
    fn sqrt_f32(self, a: Self::F32) -> Self::F32;
    /// Sign bit cleared.
    fn abs_f32(self, a: Self::F32) -> Self::F32;
    /// Sign bit flipped.
    fn neg_f32(self, a: Self::F32) -> Self::F32;
    /// `a < b ? a : b`: b when either is NaN.
    fn min_f32(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// `a > b ? a : b`: b when either is NaN.
    fn max_f32(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// a < b; false for NaN.
    fn lt_f32(self, a: Self::F32, b: Self::F32) -> Self::M32;
    /// a ≤ b; false for NaN.
    fn le_f32(self, a: Self::F32, b: Self::F32) -> Self::M32;
    /// a = b; false for NaN.
    fn eq_f32(self, a: Self::F32, b: Self::F32) -> Self::M32;
    /// Whether the lane is NaN.
    fn is_nan_f32(self, a: Self::F32) -> Self::M32;
    /// `mask ? a : b`.
    fn select_f32(self, mask: Self::M32, a: Self::F32, b: Self::F32) -> Self::F32;
    /// Bits as integers.
    fn bits_f32(self, a: Self::F32) -> Self::I32;
    /// Bits as floats.
    fn from_bits_f32(self, a: Self::I32) -> Self::F32;
    /// `table[index & 7]` per lane.
    fn lookup8_f32(self, table: &[f32; 8], index: Self::I32) -> Self::F32;

    // --- 32-bit integers and masks ---------------------------------------------------------------------------
    /// All lanes equal.
    fn splat_i32(self, value: i32) -> Self::I32;
    /// Wrapping a + b.
    fn add_i32(self, a: Self::I32, b: Self::I32) -> Self::I32;
    /// Wrapping a − b.
    fn sub_i32(self, a: Self::I32, b: Self::I32) -> Self::I32;
    /// Bitwise and.
    fn and_i32(self, a: Self::I32, b: Self::I32) -> Self::I32;
    /// Bitwise or.
    fn or_i32(self, a: Self::I32, b: Self::I32) -> Self::I32;
    /// Bitwise exclusive or.
    fn xor_i32(self, a: Self::I32, b: Self::I32) -> Self::I32;
    /// Left shift by a constant below 32.
    fn shl_i32<const BITS: i32>(self, a: Self::I32) -> Self::I32;
    /// Logical right shift by a constant below 32.
    fn shr_i32<const BITS: i32>(self, a: Self::I32) -> Self::I32;
    /// Arithmetic right shift by a constant below 32.
    fn sar_i32<const BITS: i32>(self, a: Self::I32) -> Self::I32;
    /// Signed a < b.
    fn lt_i32(self, a: Self::I32, b: Self::I32) -> Self::M32;
    /// a = b.
    fn eq_i32(self, a: Self::I32, b: Self::I32) -> Self::M32;
    /// `mask ? a : b`.
    fn select_i32(self, mask: Self::M32, a: Self::I32, b: Self::I32) -> Self::I32;
    /// Signed integers as floats, rounded to nearest even.
    fn to_f32(self, a: Self::I32) -> Self::F32;
    /// Mask and.
    fn and_m32(self, a: Self::M32, b: Self::M32) -> Self::M32;
    /// Mask or.
    fn or_m32(self, a: Self::M32, b: Self::M32) -> Self::M32;
    /// Mask not.
    fn not_m32(self, a: Self::M32) -> Self::M32;
    /// Whether any lane is set.
    fn any_m32(self, a: Self::M32) -> bool;

    // --- 16-bit floats, widened and narrowed (nearest even, denormals kept, NaN quieted with its sign) --------------
    /// First `F32_LANES` elements, widened.
    fn load_f16(self, source: &[f16]) -> Self::F32;
    /// Narrowed into the first `F32_LANES` elements.
    fn store_f16(self, value: Self::F32, target: &mut [f16]);
    /// First `F32_LANES` elements, widened; a NaN keeps its bits.
    fn load_bf16(self, source: &[bf16]) -> Self::F32;
    /// Narrowed into the first `F32_LANES` elements.
    fn store_bf16(self, value: Self::F32, target: &mut [bf16]);
    /// All of `source` (at most `F32_LANES` elements) widened, the rest filled.
    #[inline(always)]
    fn load_partial_f16(self, source: &[f16], fill: f16) -> Self::F32 {
        let mut whole = [fill; MAXIMUM_F32_LANES];
        whole[..Self::F32_LANES][..source.len()].copy_from_slice(source);
        self.load_f16(&whole)
    }
    /// The first lanes, narrowed, into all of `target` (at most `F32_LANES` elements).
    #[inline(always)]
    fn store_partial_f16(self, value: Self::F32, target: &mut [f16]) {
        let mut whole = [f16::ZERO; MAXIMUM_F32_LANES];
        self.store_f16(value, &mut whole);
        target.copy_from_slice(&whole[..Self::F32_LANES][..target.len()]);
    }
    /// All of `source` (at most `F32_LANES` elements) widened, the rest filled.
    #[inline(always)]
    fn load_partial_bf16(self, source: &[bf16], fill: bf16) -> Self::F32 {
        let mut whole = [fill; MAXIMUM_F32_LANES];
        whole[..Self::F32_LANES][..source.len()].copy_from_slice(source);
        self.load_bf16(&whole)
    }
    /// The first lanes, narrowed, into all of `target` (at most `F32_LANES` elements).
    #[inline(always)]
    fn store_partial_bf16(self, value: Self::F32, target: &mut [bf16]) {
        let mut whole = [bf16::ZERO; MAXIMUM_F32_LANES];
        self.store_bf16(value, &mut whole);
        target.copy_from_slice(&whole[..Self::F32_LANES][..target.len()]);
    }

    // --- f64 ---------------------------------------------------------------------------------------------------
    /// All lanes equal.
    fn splat_f64(self, value: f64) -> Self::F64;
    /// First `F64_LANES` elements; panics when there are fewer.
    fn load_f64(self, source: &[f64]) -> Self::F64;
    /// As `load_f64`, without a check.
    ///
    /// # Safety
    /// `source` is valid for reading `F64_LANES` elements.
    unsafe fn load_ptr_f64(self, source: *const f64) -> Self::F64;
    /// All of `source` (at most `F64_LANES` elements), the rest filled.
    fn load_partial_f64(self, source: &[f64], fill: f64) -> Self::F64;
    /// Into the first `F64_LANES` elements; panics when there are fewer.
    fn store_f64(self, value: Self::F64, target: &mut [f64]);
    /// As `store_f64`, without a check.
    ///
    /// # Safety
    /// `target` is valid for writing `F64_LANES` elements.
    unsafe fn store_ptr_f64(self, value: Self::F64, target: *mut f64);
    /// The first lanes into all of `target` (at most `F64_LANES` elements).
    fn store_partial_f64(self, value: Self::F64, target: &mut [f64]);
    /// a + b.
    fn add_f64(self, a: Self::F64, b: Self::F64) -> Self::F64;
    /// a − b.
    fn sub_f64(self, a: Self::F64, b: Self::F64) -> Self::F64;
    /// a · b.
    fn mul_f64(self, a: Self::F64, b: Self::F64) -> Self::F64;
    /// a / b, correctly rounded.
    fn div_f64(self, a: Self::F64, b: Self::F64) -> Self::F64;
    /// a · b + c with one rounding.
    fn fma_f64(self, a: Self::F64, b: Self::F64, c: Self::F64) -> Self::F64;
    /// Square root, correctly rounded.
    fn sqrt_f64(self, a: Self::F64) -> Self::F64;
    /// Sign bit cleared.
    fn abs_f64(self, a: Self::F64) -> Self::F64;
    /// Sign bit flipped.
    fn neg_f64(self, a: Self::F64) -> Self::F64;
    /// `a < b ? a : b`.
    fn min_f64(self, a: Self::F64, b: Self::F64) -> Self::F64;
    /// `a > b ? a : b`.
    fn max_f64(self, a: Self::F64, b: Self::F64) -> Self::F64;
    /// a < b; false for NaN.
    fn lt_f64(self, a: Self::F64, b: Self::F64) -> Self::M64;
    /// a ≤ b; false for NaN.
    fn le_f64(self, a: Self::F64, b: Self::F64) -> Self::M64;
    /// a = b; false for NaN.
    fn eq_f64(self, a: Self::F64, b: Self::F64) -> Self::M64;
    /// Whether the lane is NaN.
    fn is_nan_f64(self, a: Self::F64) -> Self::M64;
    /// `mask ? a : b`.
    fn select_f64(self, mask: Self::M64, a: Self::F64, b: Self::F64) -> Self::F64;
    /// Bits as integers.
    fn bits_f64(self, a: Self::F64) -> Self::I64;
    /// Bits as floats.
    fn from_bits_f64(self, a: Self::I64) -> Self::F64;
    /// The lanes of an `F32` as two `F64`, low half first (exact). With one lane both results are that lane.
    fn widen_f64(self, a: Self::F32) -> (Self::F64, Self::F64);
    /// Two `F64` as one `F32`, low half first, rounded to nearest even. With one lane `high` is ignored.
    fn narrow_f64(self, low: Self::F64, high: Self::F64) -> Self::F32;
    /// All lanes equal.
    fn splat_i64(self, value: i64) -> Self::I64;
    /// Wrapping a + b.
    fn add_i64(self, a: Self::I64, b: Self::I64) -> Self::I64;
    /// Wrapping a − b.
    fn sub_i64(self, a: Self::I64, b: Self::I64) -> Self::I64;
    /// Bitwise and.
    fn and_i64(self, a: Self::I64, b: Self::I64) -> Self::I64;
    /// Bitwise or.
    fn or_i64(self, a: Self::I64, b: Self::I64) -> Self::I64;
    /// Bitwise exclusive or.
    fn xor_i64(self, a: Self::I64, b: Self::I64) -> Self::I64;
    /// Left shift by a constant below 64.
    fn shl_i64<const BITS: i32>(self, a: Self::I64) -> Self::I64;
    /// Logical right shift by a constant below 64.
    fn shr_i64<const BITS: i32>(self, a: Self::I64) -> Self::I64;
    /// Mask and.
    fn and_m64(self, a: Self::M64, b: Self::M64) -> Self::M64;
    /// Mask or.
    fn or_m64(self, a: Self::M64, b: Self::M64) -> Self::M64;
    /// Mask not.
    fn not_m64(self, a: Self::M64) -> Self::M64;
    /// Whether any lane is set.
    fn any_m64(self, a: Self::M64) -> bool;
}

/// Token of an instruction set whose features the processor was seen to have.
pub trait Isa: VectorOps {
    /// Tier of the token.
    const TIER: IsaTier;
    /// Exactly 64 virtual `f32` lanes: `[Self::F32; 64 / Self::F32_LANES]`.
    type F32x64: Copy + AsRef<[Self::F32]> + AsMut<[Self::F32]>;
    /// Exactly 64 virtual `f64` lanes: `[Self::F64; 64 / Self::F64_LANES]`.
    type F64x64: Copy + AsRef<[Self::F64]> + AsMut<[Self::F64]>;

    // --- 64 virtual lanes (the order of reductions) ----------------------------------------------------------------
    /// 64 equal virtual lanes; virtual lane `v` is lane `v % F32_LANES` of vector `v / F32_LANES`.
    fn splat_f32x64(self, value: f32) -> Self::F32x64;
    /// 64 equal virtual lanes.
    fn splat_f64x64(self, value: f64) -> Self::F64x64;
    /// Lane i gets lane i xor `STEP`, a power of two below `F32_LANES`.
    #[inline(always)]
    fn swap_f32<const STEP: usize>(self, a: Self::F32) -> Self::F32 {
        let (mut lanes, mut swapped) = ([0.0; MAXIMUM_F32_LANES], [0.0; MAXIMUM_F32_LANES]);
        self.store_f32(a, &mut lanes);
        for lane in 0..Self::F32_LANES {
            swapped[lane] = lanes[(lane ^ STEP) % Self::F32_LANES];
        }
        self.load_f32(&swapped)
    }
    /// Lane i gets lane i xor `STEP`, a power of two below `F64_LANES`.
    #[inline(always)]
    fn swap_f64<const STEP: usize>(self, a: Self::F64) -> Self::F64 {
        let (mut lanes, mut swapped) = ([0.0; MAXIMUM_F32_LANES], [0.0; MAXIMUM_F32_LANES]);
        self.store_f64(a, &mut lanes);
        for lane in 0..Self::F64_LANES {
            swapped[lane] = lanes[(lane ^ STEP) % Self::F64_LANES];
        }
        self.load_f64(&swapped)
    }
    /// Lanes of a vector as an array prefix: the first `F32_LANES` elements are written.
    #[inline(always)]
    fn spill_f32(self, value: Self::F32, target: &mut [f32; 64]) {
        self.store_f32(value, target);
    }
}
