use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What the processor is. Fields that could not be read are absent, never guessed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct CpuDescriptor {
    /// `x86_64`, `aarch64`, …
    pub architecture: String,
    /// `intel`, `amd`, `arm`, …
    pub vendor: Option<String>,
    pub family: Option<u32>,
    pub model: Option<u32>,
    pub stepping: Option<u32>,
    /// Instruction-set features that kernels can depend on, by the names of Rust's feature detection.
    pub features: BTreeSet<String>,
    pub l1d_bytes: Option<u64>,
    pub l2_bytes: Option<u64>,
    pub l3_bytes: Option<u64>,
    pub cache_line_bytes: Option<u64>,
    pub physical_cores: Option<u32>,
    pub logical_cores: Option<u32>,
    /// Marketing name; evidence, not identity.
    pub brand: Option<String>,
    /// Whether a hypervisor is present; evidence, not identity.
    pub hypervisor: Option<bool>,
}

/// Identity under which a profile is saved and found: the processor and how a session uses it. Made by
/// `onl_executor::ResolvedCpuExecutionPolicy::descriptor` and by nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct CpuExecutionDescriptor {
    pub architecture: String,
    pub vendor: Option<String>,
    pub family: Option<u32>,
    pub model: Option<u32>,
    pub stepping: Option<u32>,
    pub features: BTreeSet<String>,
    pub l1d_bytes: Option<u64>,
    pub l2_bytes: Option<u64>,
    pub physical_cores: Option<u32>,
    pub logical_cores: Option<u32>,
    /// Lanes of the session, the caller included.
    pub participants: u32,
    /// Whether two lanes may share a physical core.
    pub smt_used: bool,
    /// `none`, `physical_cores`, `performance_cores`, `physical_then_smt` or `explicit`.
    pub affinity: String,
    /// `latency`, `balanced`, `frugal` or `fixed`.
    pub wait_mode: String,
    /// `unlimited`, or the whole number of processors that the quota amounts to, as `quota_<n>`.
    pub quota: String,
}
