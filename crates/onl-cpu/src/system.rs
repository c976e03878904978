use crate::cgroup::CpuLimits;
use crate::cpu_set::CpuSet;
use crate::cpuinfo::Cpuinfo;
use crate::descriptor::CpuDescriptor;
use crate::source::SystemRoot;
use crate::topology::{CoreClass, CpuTopology, LogicalCpu};
use std::path::Path;

/// The processor and what of it this process may use: everything that a policy is resolved from.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuSystem {
    /// What the processor is.
    pub descriptor: CpuDescriptor,
    /// Logical CPUs that are online, ascending by number.
    pub cpus: Vec<LogicalCpu>,
    /// CPUs that this process may run on: online, in its affinity mask and in its cpuset.
    pub allowed: CpuSet,
    /// Processor time per wall time that control groups grant, in processors; absent when unlimited.
    pub quota: Option<f64>,
}

impl CpuSystem {
    /// Reads this machine, with the affinity mask of the calling thread. Costs some hundred file reads: for the start
    /// of an environment, not for a run.
    pub fn current() -> CpuSystem {
        let root = SystemRoot::real();
        let topology = CpuTopology::read(&root);
        let descriptor = CpuDescriptor::current_with(&topology, &Cpuinfo::read(&root));
        let mask = crate::affinity::current_thread_mask().or_else(|| {
            // Elsewhere than on Linux only the number of CPUs is known.
            let count = std::thread::available_parallelism().ok()?.get();
            topology
                .cpus
                .is_empty()
                .then(|| (0..u32::try_from(count).unwrap_or(1)).collect())
        });
        Self::assemble(&root, descriptor, topology, mask)
    }

    /// Reads the files below `root` instead of the machine. `mask` stands for the affinity mask of the process; absent
    /// for all CPUs.
    pub fn read(root: &Path, mask: Option<CpuSet>) -> CpuSystem {
        let root = SystemRoot::new(root);
        let cpuinfo = Cpuinfo::read(&root);
        let topology = CpuTopology::with_cpuinfo(&root, &cpuinfo);
        let descriptor = CpuDescriptor::read_with(&topology, &cpuinfo);
        Self::assemble(&root, descriptor, topology, mask)
    }

    fn assemble(
        root: &SystemRoot,
        descriptor: CpuDescriptor,
        topology: CpuTopology,
        mask: Option<CpuSet>,
    ) -> CpuSystem {
        let limits = CpuLimits::read(root);
        let mut cpus = topology.cpus;
        if cpus.is_empty() {
            let known = mask.iter().flat_map(CpuSet::iter);
            cpus = known
                .map(|id| LogicalCpu {
                    id,
                    package: None,
                    core: None,
                    class: CoreClass::Uniform,
                })
                .collect();
        }
        let online: CpuSet = cpus.iter().map(|cpu| cpu.id).collect();
        // A process runs somewhere: a limit that leaves nothing was read wrongly and says nothing.
        let mut allowed = online;
        for limit in [mask, limits.cpuset].into_iter().flatten() {
            let within = allowed.intersection(&limit);
            if !within.is_empty() {
                allowed = within;
            }
        }
        CpuSystem {
            descriptor,
            cpus,
            allowed,
            quota: limits.quota,
        }
    }

    /// The allowed CPUs grouped by physical core: cores in order of their smallest allowed CPU, CPUs ascending. A CPU
    /// whose core is not known counts as a core of its own.
    pub fn allowed_physical_cores(&self) -> Vec<Vec<u32>> {
        let mut groups: Vec<((Option<u32>, Option<u32>), Vec<u32>)> = Vec::new();
        for id in self.allowed.iter() {
            let known = self.cpus.iter().find(|cpu| cpu.id == id);
            let key = known.map_or((None, None), |cpu| (cpu.package, cpu.core));
            match groups
                .iter_mut()
                .find(|(other, _)| key.1.is_some() && *other == key)
            {
                Some((_, group)) => group.push(id),
                None => groups.push((key, vec![id])),
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }

    /// Threads that a session uses unless told otherwise: one per allowed physical core, no more than the whole
    /// processors of the quota, and at least one.
    pub fn default_threads(&self) -> u32 {
        let cores = self.allowed_physical_cores().len() as u32;
        let quota = self.quota.map_or(u32::MAX, |quota| quota.floor() as u32);
        cores.min(quota).max(1)
    }
}
