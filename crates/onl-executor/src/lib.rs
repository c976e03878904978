//! The fork-join executor that all kernel work runs on.
//!
//! A session holds one [`CpuExecutor`]. A run enters it and gets [`Lanes`], which kernels use to open regions. The
//! caller is lane 0.

mod disjoint;
mod executor;
mod lanes;

pub use disjoint::DisjointSlice;
pub use executor::{CpuExecutor, Run};
pub use lanes::{Chunk, Lanes, RegionError, RegionSpec};
