//! Conversions between f32 and the 16-bit floats, a vector at a time.

use onl_cpu::IsaTier;
use onl_simd::{Isa, SimdOp, dispatch};
use onl_tensor::{Element, bf16, f16};

/// Vectors of a turn of a loop.
const TOGETHER: usize = 4;

/// A 16-bit float that vectors are widened from and narrowed to.
pub(super) trait Short: Element {
    fn load<I: Isa>(isa: I, source: &[Self]) -> I::F32;
    fn store<I: Isa>(isa: I, value: I::F32, target: &mut [Self]);
}

impl Short for f16 {
    #[inline(always)]
    fn load<I: Isa>(isa: I, source: &[Self]) -> I::F32 {
        isa.load_f16(source)
    }
    #[inline(always)]
    fn store<I: Isa>(isa: I, value: I::F32, target: &mut [Self]) {
        isa.store_f16(value, target);
    }
}

impl Short for bf16 {
    #[inline(always)]
    fn load<I: Isa>(isa: I, source: &[Self]) -> I::F32 {
        isa.load_bf16(source)
    }
    #[inline(always)]
    fn store<I: Isa>(isa: I, value: I::F32, target: &mut [Self]) {
        isa.store_bf16(value, target);
    }
}

/// Widens elements that bytes hold.
pub(super) fn widen<T: Short>(bytes: &[u8], target: &mut [f32], tier: IsaTier) {
    let source: &[T] = bytemuck::cast_slice(bytes);
    dispatch(tier, Widen { source, target });
}

/// Narrows into bytes that hold the elements.
pub(super) fn narrow<T: Short>(source: &[f32], bytes: &mut [u8], tier: IsaTier) {
    let target: &mut [T] = bytemuck::cast_slice_mut(bytes);
    dispatch(tier, Narrow { source, target });
}

struct Widen<'a, T> {
    source: &'a [T],
    target: &'a mut [f32],
}

impl<T: Short> SimdOp for Widen<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        let lanes = I::F32_LANES;
        let mut source = self.source.chunks_exact(TOGETHER * lanes);
        let mut target = self.target.chunks_exact_mut(TOGETHER * lanes);
        for (s, t) in source.by_ref().zip(target.by_ref()) {
            for vector in 0..TOGETHER {
                let at = vector * lanes;
                isa.store_f32(T::load(isa, &s[at..]), &mut t[at..]);
            }
        }
        let mut source = source.remainder().chunks_exact(lanes);
        let mut target = target.into_remainder().chunks_exact_mut(lanes);
        for (s, t) in source.by_ref().zip(target.by_ref()) {
            isa.store_f32(T::load(isa, s), t);
        }
        let (rest, target) = (source.remainder(), target.into_remainder());
        if !rest.is_empty() {
            let mut padded = [T::zeroed(); onl_simd::MAXIMUM_F32_LANES];
            padded[..rest.len()].copy_from_slice(rest);
            isa.store_partial_f32(T::load(isa, &padded), target);
        }
    }
}

struct Narrow<'a, T> {
    source: &'a [f32],
    target: &'a mut [T],
}

impl<T: Short> SimdOp for Narrow<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        let lanes = I::F32_LANES;
        let mut source = self.source.chunks_exact(TOGETHER * lanes);
        let mut target = self.target.chunks_exact_mut(TOGETHER * lanes);
        for (s, t) in source.by_ref().zip(target.by_ref()) {
            for vector in 0..TOGETHER {
                let at = vector * lanes;
                T::store(isa, isa.load_f32(&s[at..]), &mut t[at..]);
            }
        }
        let mut source = source.remainder().chunks_exact(lanes);
        let mut target = target.into_remainder().chunks_exact_mut(lanes);
        for (s, t) in source.by_ref().zip(target.by_ref()) {
            T::store(isa, isa.load_f32(s), t);
        }
        let (rest, target) = (source.remainder(), target.into_remainder());
        if !rest.is_empty() {
            let mut padded = [T::zeroed(); onl_simd::MAXIMUM_F32_LANES];
            T::store(isa, isa.load_partial_f32(rest, 0.0), &mut padded);
            target.copy_from_slice(&padded[..target.len()]);
        }
    }
}
