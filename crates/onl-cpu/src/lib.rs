//! What the processor is, what of it this process may use, and which instruction-set tier to run.
//!
//! [`CpuSystem::current`] reads the machine once: identity by CPUID where there is one, topology and control-group limits
//! from the files of Linux. [`CpuSystem::read`] reads the same files below any folder, so that every layout can be tested
//! on any machine. What cannot be read stays absent.

mod affinity;
mod cgroup;
mod cpu_set;
mod cpuid;
mod cpuinfo;
mod denormal;
mod descriptor;
mod emulation;
mod source;
mod system;
mod tier;
mod topology;

#[cfg(any(test, feature = "fixtures"))]
#[doc(hidden)]
pub mod fixtures;

pub use affinity::current_thread_mask;
pub use cpu_set::CpuSet;
pub use cpuinfo::known_features;
pub use denormal::{DenormalGuard, DenormalMode};
pub use descriptor::{CpuDescriptor, CpuExecutionDescriptor};
pub use emulation::emulated;
pub use source::SystemRoot;
pub use system::CpuSystem;
pub use tier::IsaTier;
pub use topology::{Caches, CoreClass, CpuTopology, LogicalCpu};

#[cfg(test)]
mod tests;
