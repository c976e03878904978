//! What the processor is, what of it this process may use, and which instruction-set tier to run.

mod descriptor;
mod tier;

pub use descriptor::{CpuDescriptor, CpuExecutionDescriptor};
pub use tier::IsaTier;
