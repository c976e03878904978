//! Bodies that run at a processor's ceilings: chains of fused multiply-adds, and reads and writes of memory.
//!
//! They measure nothing themselves; each returns a value that depends on all it did, so that nothing is left out.

mod dot_products;

pub use dot_products::{dot_products, has_dot_products};

use crate::{Isa, SimdOp, dispatch};
use onl_cpu::IsaTier;
use std::hint::black_box;

/// Chains that do not depend on each other: more than two pipes of four cycles need.
const CHAINS: usize = 12;
/// Vectors per step of a read.
const LOADS: usize = 8;
/// Vectors per step of a write or copy.
const STORES: usize = 4;

/// Runs `rounds` steps of twelve independent chains of fused multiply-adds of 32-bit floats. Gives their sum and the
/// number of floating-point operations, two for each multiply-add of a lane.
///
/// # Panics
/// When this processor does not run the tier.
pub fn multiply_adds(tier: IsaTier, rounds: u32) -> (f32, u64) {
    dispatch(tier, MultiplyAdds { rounds })
}

/// As [`multiply_adds`], of 64-bit floats.
///
/// # Panics
/// When this processor does not run the tier.
pub fn multiply_adds_f64(tier: IsaTier, rounds: u32) -> (f64, u64) {
    dispatch(tier, MultiplyAddsF64 { rounds })
}

/// Reads every element `passes` times and gives the sum of all that was read.
///
/// # Panics
/// When this processor does not run the tier.
pub fn read(tier: IsaTier, data: &[f32], passes: usize) -> f32 {
    dispatch(tier, Read { data, passes })
}

/// `c = a + b` over the elements that all three have, `passes` times: two reads and one write.
///
/// # Panics
/// When this processor does not run the tier.
pub fn add(tier: IsaTier, a: &[f32], b: &[f32], c: &mut [f32], passes: usize) {
    dispatch(tier, Add { a, b, c, passes });
}

/// Writes `value` to every element, `passes` times.
///
/// # Panics
/// When this processor does not run the tier.
pub fn write(tier: IsaTier, value: f32, target: &mut [f32], passes: usize) {
    let op = Write {
        value,
        target,
        passes,
    };
    dispatch(tier, op);
}

/// Copies the elements that both have, `passes` times.
///
/// # Panics
/// When this processor does not run the tier.
pub fn copy(tier: IsaTier, source: &[f32], target: &mut [f32], passes: usize) {
    let op = Copy {
        source,
        target,
        passes,
    };
    dispatch(tier, op);
}

/// As [`write()`], past the caches where the processor has such stores and `target` begins at a cache line.
///
/// # Panics
/// As [`write()`].
pub fn write_past_caches(tier: IsaTier, value: f32, target: &mut [f32], passes: usize) {
    #[cfg(target_arch = "x86_64")]
    if tier == IsaTier::Avx512 && past_caches::serve(target.as_ptr()) {
        // SAFETY: `serve` found AVX-512F and a target that begins at a cache line.
        return unsafe { past_caches::write(value, target, passes) };
    }
    write(tier, value, target, passes);
}

/// As [`copy`], with writes past the caches where the processor has such stores and `target` begins at a cache line.
///
/// # Panics
/// As [`copy`].
pub fn copy_past_caches(tier: IsaTier, source: &[f32], target: &mut [f32], passes: usize) {
    #[cfg(target_arch = "x86_64")]
    if tier == IsaTier::Avx512 && past_caches::serve(target.as_ptr()) {
        // SAFETY: `serve` found AVX-512F and a target that begins at a cache line.
        return unsafe { past_caches::copy(source, target, passes) };
    }
    copy(tier, source, target, passes);
}

/// Streaming stores of whole cache lines.
#[cfg(target_arch = "x86_64")]
mod past_caches {
    use std::arch::x86_64::{_mm_sfence, _mm512_loadu_ps, _mm512_set1_ps, _mm512_stream_ps};
    use std::hint::black_box;

    /// Elements of a vector, which is a cache line.
    const LANES: usize = 16;

    /// Whether the processor and the start of the target allow them.
    pub(super) fn serve(target: *const f32) -> bool {
        std::arch::is_x86_feature_detected!("avx512f")
            && target.cast::<[f32; LANES]>().addr().is_multiple_of(64)
    }

    /// # Safety
    /// The processor has AVX-512F, and `target` begins at a multiple of 64 bytes.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn write(value: f32, target: &mut [f32], passes: usize) {
        let vector = _mm512_set1_ps(value);
        for _ in 0..passes {
            let mut lines = black_box(&mut *target).chunks_exact_mut(LANES);
            for line in &mut lines {
                // SAFETY: a line holds the elements of a vector and begins at a multiple of 64 bytes, as `target` does.
                unsafe { _mm512_stream_ps(line.as_mut_ptr(), vector) };
            }
            lines.into_remainder().fill(value);
        }
        _mm_sfence();
    }

    /// # Safety
    /// The processor has AVX-512F, and `target` begins at a multiple of 64 bytes.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn copy(source: &[f32], target: &mut [f32], passes: usize) {
        let length = source.len().min(target.len());
        for _ in 0..passes {
            let mut from = source[..length].chunks_exact(LANES);
            let mut lines = black_box(&mut target[..length]).chunks_exact_mut(LANES);
            for (line, from) in (&mut lines).zip(&mut from) {
                // SAFETY: both hold the elements of a vector, and the line begins at a multiple of 64 bytes.
                unsafe { _mm512_stream_ps(line.as_mut_ptr(), _mm512_loadu_ps(from.as_ptr())) };
            }
            lines.into_remainder().copy_from_slice(from.remainder());
        }
        _mm_sfence();
    }
}

#[inline(always)]
fn lane_sum<I: Isa>(isa: I, vectors: &[I::F32]) -> f32 {
    let mut total = isa.splat_f32(0.0);
    for vector in vectors {
        total = isa.add_f32(total, *vector);
    }
    let mut lanes = [0.0; 64];
    isa.spill_f32(total, &mut lanes);
    lanes.iter().sum()
}

struct MultiplyAdds {
    rounds: u32,
}

impl SimdOp for MultiplyAdds {
    type Output = (f32, u64);

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) -> (f32, u64) {
        let (scale, offset) = (black_box(0.5), black_box(1.0));
        let (scale, offset) = (isa.splat_f32(scale), isa.splat_f32(offset));
        // Different starts keep the chains apart.
        let mut chains = [scale; CHAINS];
        for (i, chain) in chains.iter_mut().enumerate() {
            *chain = isa.splat_f32(black_box(i as f32));
        }
        for _ in 0..self.rounds {
            for chain in &mut chains {
                *chain = isa.fma_f32(*chain, scale, offset);
            }
        }
        let operations = u64::from(self.rounds) * 2 * (CHAINS * I::F32_LANES) as u64;
        (lane_sum(isa, &chains), operations)
    }
}

struct MultiplyAddsF64 {
    rounds: u32,
}

impl SimdOp for MultiplyAddsF64 {
    type Output = (f64, u64);

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) -> (f64, u64) {
        let (scale, offset) = (black_box(0.5), black_box(1.0));
        let (scale, offset) = (isa.splat_f64(scale), isa.splat_f64(offset));
        let mut chains = [scale; CHAINS];
        for (i, chain) in chains.iter_mut().enumerate() {
            *chain = isa.splat_f64(black_box(i as f64));
        }
        for _ in 0..self.rounds {
            for chain in &mut chains {
                *chain = isa.fma_f64(*chain, scale, offset);
            }
        }
        let operations = u64::from(self.rounds) * 2 * (CHAINS * I::F64_LANES) as u64;
        let mut total = chains[0];
        for chain in &chains[1..] {
            total = isa.add_f64(total, *chain);
        }
        let mut lanes = [0.0; 64];
        isa.store_f64(total, &mut lanes);
        (lanes.iter().sum(), operations)
    }
}

struct Read<'a> {
    data: &'a [f32],
    passes: usize,
}

impl SimdOp for Read<'_> {
    type Output = f32;

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) -> f32 {
        let mut sums = [isa.splat_f32(0.0); LOADS];
        let mut rest = 0.0;
        for _ in 0..self.passes {
            let mut steps = self.data.chunks_exact(LOADS * I::F32_LANES);
            for step in &mut steps {
                for (i, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: a step has LOADS vectors of F32_LANES elements, and i is below LOADS.
                    let vector = unsafe { isa.load_ptr_f32(step.as_ptr().add(i * I::F32_LANES)) };
                    *sum = isa.add_f32(*sum, vector);
                }
            }
            rest += steps.remainder().iter().sum::<f32>();
        }
        lane_sum(isa, &sums) + rest
    }
}

struct Add<'a> {
    a: &'a [f32],
    b: &'a [f32],
    c: &'a mut [f32],
    passes: usize,
}

impl SimdOp for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        let length = self.a.len().min(self.b.len()).min(self.c.len());
        let step = STORES * I::F32_LANES;
        let whole = length / step * step;
        for _ in 0..self.passes {
            let c = black_box(&mut *self.c);
            let mut start = 0;
            while start < whole {
                for i in 0..STORES {
                    let at = start + i * I::F32_LANES;
                    // SAFETY: `at + F32_LANES` is at most `whole`, which none of the three slices falls short of.
                    unsafe {
                        let a = isa.load_ptr_f32(self.a.as_ptr().add(at));
                        let b = isa.load_ptr_f32(self.b.as_ptr().add(at));
                        isa.store_ptr_f32(isa.add_f32(a, b), c.as_mut_ptr().add(at));
                    }
                }
                start += step;
            }
            for i in whole..length {
                c[i] = self.a[i] + self.b[i];
            }
        }
    }
}

struct Write<'a> {
    value: f32,
    target: &'a mut [f32],
    passes: usize,
}

impl SimdOp for Write<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        let vector = isa.splat_f32(self.value);
        for _ in 0..self.passes {
            let target = black_box(&mut *self.target);
            let mut steps = target.chunks_exact_mut(STORES * I::F32_LANES);
            for step in &mut steps {
                for i in 0..STORES {
                    // SAFETY: a step has STORES vectors of F32_LANES elements, and i is below STORES.
                    unsafe { isa.store_ptr_f32(vector, step.as_mut_ptr().add(i * I::F32_LANES)) };
                }
            }
            steps.into_remainder().fill(self.value);
        }
    }
}

struct Copy<'a> {
    source: &'a [f32],
    target: &'a mut [f32],
    passes: usize,
}

impl SimdOp for Copy<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        let length = self.source.len().min(self.target.len());
        // Compilers take a loop that only moves for a call of `memcpy`.
        let zero = isa.splat_f32(black_box(0.0));
        for _ in 0..self.passes {
            let target = black_box(&mut self.target[..length]);
            let mut from = self.source[..length].chunks_exact(STORES * I::F32_LANES);
            let mut to = target.chunks_exact_mut(STORES * I::F32_LANES);
            for (to, from) in (&mut to).zip(&mut from) {
                let mut vectors = [zero; STORES];
                for (i, vector) in vectors.iter_mut().enumerate() {
                    // SAFETY: a step has STORES vectors of F32_LANES elements, and i is below STORES.
                    let loaded = unsafe { isa.load_ptr_f32(from.as_ptr().add(i * I::F32_LANES)) };
                    *vector = isa.add_f32(loaded, zero);
                }
                for (i, vector) in vectors.into_iter().enumerate() {
                    // SAFETY: as above.
                    unsafe { isa.store_ptr_f32(vector, to.as_mut_ptr().add(i * I::F32_LANES)) };
                }
            }
            to.into_remainder().copy_from_slice(from.remainder());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_do_what_they_say_on_every_tier() {
        for &tier in IsaTier::available() {
            // A chain from any start converges to 2: x = x / 2 + 1.
            let (sum, operations) = multiply_adds(tier, 60);
            let lanes = operations / (60 * 2 * CHAINS as u64);
            assert_eq!(sum, (2 * CHAINS as u64 * lanes) as f32, "{tier}");
            let (sum, operations) = multiply_adds_f64(tier, 60);
            let lanes = operations / (60 * 2 * CHAINS as u64);
            assert_eq!(sum, (2 * CHAINS as u64 * lanes) as f64, "{tier}");
            for length in [0, 1, 7, 128, 1_001] {
                let data: Vec<f32> = (0..length).map(|i| (i % 9) as f32).collect();
                let sum = data.iter().sum::<f32>();
                assert_eq!(read(tier, &data, 3), 3.0 * sum, "{tier} {length}");
                let mut sums = vec![-1.0; length];
                add(tier, &data, &data, &mut sums, 2);
                assert!(data.iter().zip(&sums).all(|(a, c)| 2.0 * a == *c));
                let mut memory = vec![-1.0; length + 64];
                let line = memory.as_ptr().align_offset(64);
                // Stores past the caches need a target that begins at a line, the others take any.
                for start in [line, line + 1] {
                    let target = &mut memory[start..start + length];
                    for copy in [copy, copy_past_caches] {
                        target.fill(-1.0);
                        copy(tier, &data, target, 2);
                        assert_eq!(target, data, "{tier} {length}");
                    }
                    for write in [write, write_past_caches] {
                        target.fill(-1.0);
                        write(tier, 2.5, target, 2);
                        assert!(target.iter().all(|v| *v == 2.5), "{tier} {length}");
                    }
                }
            }
        }
    }
}
