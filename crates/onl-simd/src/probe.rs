//! Bodies that run at a processor's ceilings: chains of fused multiply-adds, and reads and writes of memory.
//!
//! They measure nothing themselves; each returns a value that depends on all it did, so that nothing is left out.

use crate::{Isa, SimdOp, dispatch};
use onl_cpu::IsaTier;
use std::hint::black_box;

/// Chains that do not depend on each other: more than two pipes of four cycles need.
const CHAINS: usize = 12;
/// Vectors per step of a read.
const LOADS: usize = 8;

/// Runs `rounds` steps of twelve independent chains of fused multiply-adds of 32-bit floats. Gives their sum and the
/// number of floating-point operations, two for each multiply-add of a lane.
///
/// # Panics
/// When this processor does not run the tier.
pub fn multiply_adds(tier: IsaTier, rounds: u32) -> (f32, u64) {
    dispatch(tier, MultiplyAdds { rounds })
}

/// Reads every element `passes` times and gives the sum of all that was read.
///
/// # Panics
/// When this processor does not run the tier.
pub fn read(tier: IsaTier, data: &[f32], passes: usize) -> f32 {
    dispatch(tier, Read { data, passes })
}

/// `c = a + b` over the elements that all three have: two reads and one write.
///
/// # Panics
/// When this processor does not run the tier.
pub fn add(tier: IsaTier, a: &[f32], b: &[f32], c: &mut [f32]) {
    dispatch(tier, Add { a, b, c });
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
}

impl SimdOp for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        let length = self.a.len().min(self.b.len()).min(self.c.len());
        let vectors = length / I::F32_LANES;
        for i in 0..vectors {
            let at = i * I::F32_LANES;
            // SAFETY: `at + F32_LANES` is at most `length`, which none of the three slices falls short of.
            unsafe {
                let a = isa.load_ptr_f32(self.a.as_ptr().add(at));
                let b = isa.load_ptr_f32(self.b.as_ptr().add(at));
                isa.store_ptr_f32(isa.add_f32(a, b), self.c.as_mut_ptr().add(at));
            }
        }
        for i in vectors * I::F32_LANES..length {
            self.c[i] = self.a[i] + self.b[i];
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
            for length in [0, 1, 7, 128, 1_001] {
                let data: Vec<f32> = (0..length).map(|i| (i % 9) as f32).collect();
                let sum = data.iter().sum::<f32>();
                assert_eq!(read(tier, &data, 3), 3.0 * sum, "{tier} {length}");
                let mut sums = vec![-1.0; length];
                add(tier, &data, &data, &mut sums);
                assert!(data.iter().zip(&sums).all(|(a, c)| 2.0 * a == *c));
            }
        }
    }
}
