//! The fork-join executor that all kernel work runs on.
//!
//! A session leases a [`CpuExecutor`] for its resolved [`CpuExecutionPolicy`]. A run enters it and gets [`Lanes`], which
//! kernels use to open regions; the caller is lane 0. A region's chunks depend on its [`RegionSpec`] alone; which lanes
//! work on them depends on what is free, awake and worth the cost, and the region's event says so.

mod budget;
mod cancel;
mod claims;
mod disjoint;
mod error;
mod executor;
mod first_error;
mod fork;
mod lanes;
#[cfg(all(test, any(loom, shuttle)))]
mod models;
mod policy;
mod policy_text;
mod pool;
mod registry;
mod scope;
mod sync;
mod thread_affinity;
mod wait;

pub use budget::LaneBudget;
pub use cancel::{CancelReason, CancelToken, Cancelled};
pub use disjoint::DisjointSlice;
pub use error::ExecutorError;
pub use executor::{CpuExecutor, Run, RunOptions};
pub use first_error::FirstError;
pub use lanes::{Chunk, Lanes, NodeTimer, RegionError, RegionSpec};
pub use onl_cpu::DenormalMode as Denormals;
pub use policy::{Affinity, CpuExecutionPolicy, PolicyError, ResolvedCpuExecutionPolicy};
pub use policy_text::PolicyTextError;
pub use registry::{DEFAULT_POOL_LIMIT, ExecutorLease, ExecutorRegistry};
pub use wait::WaitMode;
