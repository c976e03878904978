//! Loops at a processor's ceilings, run as a kernel is run: one pass over its memory, divided among the lanes.

use crate::{CpuExecutionPolicy, Environment, Error};
use onl_cpu::IsaTier;
use onl_executor::{ExecutorLease, RegionSpec};
use onl_profiling::{RegionSite, region_site};
use onl_simd::probe;
use onl_tensor::AlignedBuffer;
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::sync::{Arc, Mutex, PoisonError};

static SITE: RegionSite = region_site!("roofline.probe");

/// Steps of twelve multiply-adds, or dot products, in a lane's share of a run.
const ROUNDS: u32 = 20_000;
const F32_BYTES: usize = 4;
/// Elements between arrays beyond their lengths: whole cache lines, and no multiple of 4 KiB, at which processors take
/// loads for dependent on earlier stores.
const GAP: usize = 272;

/// What a [`RooflineProbe`] does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeWork {
    /// Independent chains of fused multiply-adds of 32-bit floats; a multiply-add counts as two operations.
    MultiplyAdds,
    /// Independent chains of fused multiply-adds of 64-bit floats; a multiply-add counts as two operations.
    DoubleMultiplyAdds,
    /// Independent chains of dot products of 8-bit integers with 32-bit sums; a multiplication and its addition count as
    /// two operations.
    DotProducts,
    /// Reading memory.
    Read,
    /// Copying one half of the memory to the other.
    Copy,
}

/// A loop that a kernel can at best be as fast as.
pub struct RooflineProbe {
    lease: Arc<ExecutorLease>,
    work: ProbeWork,
    tier: IsaTier,
    memory: AlignedBuffer,
    /// Elements of each lane's arrays together.
    share: usize,
}

impl RooflineProbe {
    /// A probe that touches `bytes` in each run; those of arithmetic touch none. `None` when this processor has no such
    /// instructions.
    ///
    /// # Errors
    /// [`Error`] when the policy cannot be resolved or the system refuses memory.
    pub fn new(
        environment: &Environment,
        policy: &CpuExecutionPolicy,
        work: ProbeWork,
        bytes: usize,
    ) -> Result<Option<Self>, Error> {
        let tier = IsaTier::detect();
        if work == ProbeWork::DotProducts && !probe::has_dot_products() {
            return Ok(None);
        }
        let lease = environment.lease(&environment.resolve(policy)?)?;
        let lanes = lease.participants().max(1);
        let share = match work {
            ProbeWork::Read | ProbeWork::Copy => bytes.div_ceil(F32_BYTES * lanes).max(1),
            _ => 0,
        };
        let elements = lanes * (share + 1 + 2 * GAP);
        let mut memory = AlignedBuffer::zeroed(elements * F32_BYTES)?;
        // Pages that were never written are all the same one.
        memory.as_bytes_mut().fill(1);
        Ok(Some(RooflineProbe {
            lease,
            work,
            tier,
            memory,
            share,
        }))
    }

    /// One pass; gives operations, or bytes that were read and written.
    ///
    /// # Errors
    /// [`Error`] when a lane fails.
    pub fn run(&mut self) -> Result<u64, Error> {
        let (work, tier, share) = (self.work, self.tier, self.share);
        let lanes = self.lease.participants().max(1);
        let memory: &mut [f32] = bytemuck::cast_slice_mut(self.memory.as_bytes_mut());
        let stride = share + 1 + 2 * GAP;
        let parts: Vec<Mutex<(&mut [f32], u64)>> = memory
            .chunks_exact_mut(stride)
            .take(lanes)
            .map(|part| Mutex::new((part, 0)))
            .collect();
        let run = self.lease.enter();
        let spec = RegionSpec::new(lanes, 1);
        run.lanes()
            .region(&SITE, spec, |chunk| {
                let mut part = parts[chunk.index]
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                let (memory, units) = &mut *part;
                *units = pass(work, tier, memory, share);
            })
            .map_err(|error| Error::Other(error.to_string()))?;
        drop(run);
        Ok(parts
            .into_iter()
            .map(|part| part.into_inner().unwrap_or_else(PoisonError::into_inner).1)
            .sum())
    }
}

fn pass(work: ProbeWork, tier: IsaTier, memory: &mut [f32], share: usize) -> u64 {
    match work {
        ProbeWork::MultiplyAdds => {
            let (sum, operations) = probe::multiply_adds(tier, ROUNDS);
            black_box(sum);
            operations
        }
        ProbeWork::DoubleMultiplyAdds => {
            let (sum, operations) = probe::multiply_adds_f64(tier, ROUNDS);
            black_box(sum);
            operations
        }
        ProbeWork::DotProducts => {
            let (sum, operations) = probe::dot_products(ROUNDS).unwrap_or_default();
            black_box(sum);
            operations
        }
        ProbeWork::Read => {
            black_box(probe::read(tier, &memory[..share], 1));
            (share * F32_BYTES) as u64
        }
        ProbeWork::Copy => {
            let half = share.div_ceil(2);
            let (from, to) = memory.split_at_mut(half + GAP);
            probe::copy(tier, &from[..half], &mut to[..half], 1);
            (2 * half * F32_BYTES) as u64
        }
    }
}
