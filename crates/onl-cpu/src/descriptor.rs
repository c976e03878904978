use crate::cpuinfo::{Cpuinfo, Identity};
use crate::source::SystemRoot;
use crate::topology::CpuTopology;
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
    /// x86: the displayed family. Arm: version of the architecture.
    pub family: Option<u32>,
    /// x86: the displayed model. Arm: part number. On a mixed machine, that of a fast core.
    pub model: Option<u32>,
    /// x86: stepping. Arm: variant times 16 plus revision.
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

impl CpuDescriptor {
    /// Describes this machine: by CPUID on x86-64, by feature detection and cpuinfo elsewhere. Cores and caches are those
    /// of the whole machine, whatever this process may use of them.
    pub fn current() -> Self {
        let root = SystemRoot::real();
        let cpuinfo = Cpuinfo::read(&root);
        Self::current_with(&CpuTopology::with_cpuinfo(&root, &cpuinfo), &cpuinfo)
    }

    /// Describes the machine whose files are below `source`, whatever machine this is. The architecture is `unknown` when
    /// its cpuinfo does not show it.
    pub fn read(source: &SystemRoot) -> Self {
        let cpuinfo = Cpuinfo::read(source);
        Self::read_with(&CpuTopology::with_cpuinfo(source, &cpuinfo), &cpuinfo)
    }

    pub(crate) fn read_with(topology: &CpuTopology, cpuinfo: &Cpuinfo) -> Self {
        Self::assemble(cpuinfo.identity(topology.representative()), topology)
    }

    #[cfg(target_arch = "x86_64")]
    pub(crate) fn current_with(topology: &CpuTopology, _: &Cpuinfo) -> Self {
        let mut descriptor = Self::assemble(crate::cpuid::identity(), topology);
        let caches = crate::cpuid::caches();
        descriptor.l1d_bytes = descriptor.l1d_bytes.or(caches.l1d_bytes);
        descriptor.l2_bytes = descriptor.l2_bytes.or(caches.l2_bytes);
        descriptor.l3_bytes = descriptor.l3_bytes.or(caches.l3_bytes);
        descriptor.cache_line_bytes = descriptor.cache_line_bytes.or(caches.line_bytes);
        descriptor
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn current_with(topology: &CpuTopology, cpuinfo: &Cpuinfo) -> Self {
        // Under user-mode emulation the file may describe the host.
        let mut identity = cpuinfo.identity(topology.representative());
        if identity.architecture != Some(std::env::consts::ARCH) {
            identity = Identity {
                architecture: Some(std::env::consts::ARCH),
                ..Identity::default()
            };
        }
        #[cfg(target_arch = "aarch64")]
        {
            identity.features = aarch64_features();
        }
        Self::assemble(identity, topology)
    }

    fn assemble(identity: Identity, topology: &CpuTopology) -> Self {
        Self {
            architecture: identity.architecture.unwrap_or("unknown").to_owned(),
            vendor: identity.vendor,
            family: identity.family,
            model: identity.model,
            stepping: identity.stepping,
            features: identity.features,
            l1d_bytes: topology.caches.l1d_bytes,
            l2_bytes: topology.caches.l2_bytes,
            l3_bytes: topology.caches.l3_bytes,
            cache_line_bytes: topology.caches.line_bytes,
            physical_cores: topology.physical_cores(),
            logical_cores: topology.logical_cores(),
            brand: identity.brand,
            hypervisor: identity.hypervisor,
        }
    }
}

/// Features that the processor has and the system has enabled.
#[cfg(target_arch = "aarch64")]
fn aarch64_features() -> BTreeSet<String> {
    use std::arch::is_aarch64_feature_detected as detected;
    [
        ("bf16", detected!("bf16")),
        ("crc", detected!("crc")),
        ("dotprod", detected!("dotprod")),
        ("fcma", detected!("fcma")),
        ("fhm", detected!("fhm")),
        ("fp16", detected!("fp16")),
        ("i8mm", detected!("i8mm")),
        ("lse", detected!("lse")),
        ("neon", detected!("neon")),
        ("rdm", detected!("rdm")),
        ("sve", detected!("sve")),
        ("sve2", detected!("sve2")),
    ]
    .into_iter()
    .filter(|(_, present)| *present)
    .map(|(name, _)| name.to_owned())
    .collect()
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
