use crate::cpu_set::CpuSet;
use crate::cpuinfo::Cpuinfo;
use crate::source::SystemRoot;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Kind of a core on machines that mix kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoreClass {
    /// One of the fast cores of a mixed machine.
    Performance,
    /// One of the small cores of a mixed machine.
    Efficiency,
    /// The machine has one kind of core, or does not tell its kinds apart.
    Uniform,
}

/// One logical CPU that is online.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LogicalCpu {
    /// The kernel's number.
    pub id: u32,
    /// Package (socket).
    pub package: Option<u32>,
    /// Physical core within the package: equal for the SMT siblings of one core. When read from the system it is the
    /// smallest logical CPU number of the core, since the kernel's own core numbers can repeat between clusters.
    pub core: Option<u32>,
    /// Kind of the core.
    pub class: CoreClass,
}

/// Cache sizes as one core sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Caches {
    /// First-level data cache (or unified first level), bytes.
    pub l1d_bytes: Option<u64>,
    /// Second level, bytes.
    pub l2_bytes: Option<u64>,
    /// Third level, bytes, however many cores share it.
    pub l3_bytes: Option<u64>,
    /// Line of the first-level data cache, bytes.
    pub line_bytes: Option<u64>,
}

/// The logical CPUs that are online, how they share cores, and the caches of a fast core.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuTopology {
    /// Ascending by number.
    pub cpus: Vec<LogicalCpu>,
    /// Caches of the first CPU that is not an efficiency core.
    pub caches: Caches,
}

const CPU_FOLDER: &str = "sys/devices/system/cpu";

impl CpuTopology {
    /// Reads the topology files below `root`. Whatever is missing or malformed stays absent.
    pub fn read(root: &SystemRoot) -> Self {
        Self::with_cpuinfo(root, &Cpuinfo::read(root))
    }

    pub(crate) fn with_cpuinfo(root: &SystemRoot, cpuinfo: &Cpuinfo) -> Self {
        let online = online(root, cpuinfo);
        let packages: BTreeMap<u32, u32> = online
            .iter()
            .filter_map(|cpu| {
                let package = root.number(format!(
                    "{CPU_FOLDER}/cpu{cpu}/topology/physical_package_id"
                ));
                Some((cpu, package.or_else(|| cpuinfo.number(cpu, "physical id"))?))
            })
            .collect();
        let cores = cores(root, cpuinfo, &online, &packages);
        let classes = classes(root, &online);
        let cpus: Vec<LogicalCpu> = online
            .iter()
            .map(|id| LogicalCpu {
                id,
                package: packages.get(&id).copied(),
                core: cores.get(&id).copied(),
                class: classes.get(&id).copied().unwrap_or(CoreClass::Uniform),
            })
            .collect();
        let mut topology = Self {
            cpus,
            caches: Caches::default(),
        };
        if let Some(cpu) = topology.representative() {
            topology.caches = caches(root, cpu);
        }
        topology
    }

    /// Number of physical cores. Absent when the core of some CPU is not known.
    pub fn physical_cores(&self) -> Option<u32> {
        let cores: Option<BTreeSet<_>> = self
            .cpus
            .iter()
            .map(|cpu| Some((cpu.package, cpu.core?)))
            .collect();
        cores
            .filter(|cores| !cores.is_empty())
            .map(|cores| cores.len() as u32)
    }

    /// Number of logical CPUs online. Absent when none could be read.
    pub fn logical_cores(&self) -> Option<u32> {
        (!self.cpus.is_empty()).then_some(self.cpus.len() as u32)
    }

    /// The logical CPUs on the same physical core as `cpu`, itself included; only itself when its core is not known,
    /// and none when it is not online.
    pub fn siblings(&self, cpu: u32) -> CpuSet {
        let Some(of) = self.cpus.iter().find(|other| other.id == cpu) else {
            return CpuSet::new();
        };
        self.cpus
            .iter()
            .filter(|other| {
                other.id == cpu
                    || (of.core.is_some() && (of.package, of.core) == (other.package, other.core))
            })
            .map(|other| other.id)
            .collect()
    }

    /// The CPU that stands for the machine's fast cores.
    pub(crate) fn representative(&self) -> Option<u32> {
        let fast = self
            .cpus
            .iter()
            .find(|cpu| cpu.class != CoreClass::Efficiency);
        fast.or(self.cpus.first()).map(|cpu| cpu.id)
    }
}

/// The CPUs online: the kernel's list, else the CPU folders that are not switched off, else the list in cpuinfo.
fn online(root: &SystemRoot, cpuinfo: &Cpuinfo) -> CpuSet {
    let listed = root
        .text(format!("{CPU_FOLDER}/online"))
        .and_then(|text| CpuSet::parse_list(&text));
    if let Some(listed) = listed.filter(|set| !set.is_empty()) {
        return listed;
    }
    let folders: CpuSet = root
        .numbered(CPU_FOLDER, "cpu")
        .into_iter()
        .filter(|cpu| {
            root.line(format!("{CPU_FOLDER}/cpu{cpu}/online"))
                .as_deref()
                != Some("0")
        })
        .collect();
    if folders.is_empty() {
        cpuinfo.ids().collect()
    } else {
        folders
    }
}

/// Smallest CPU number of each CPU's physical core.
fn cores(
    root: &SystemRoot,
    cpuinfo: &Cpuinfo,
    online: &CpuSet,
    packages: &BTreeMap<u32, u32>,
) -> BTreeMap<u32, u32> {
    // Lists of siblings are exact; numbers of cores are exact only within the kernel's idea of a package.
    let listed: Option<BTreeMap<u32, u32>> = online
        .iter()
        .map(|cpu| {
            let siblings = ["core_cpus_list", "thread_siblings_list"]
                .iter()
                .find_map(|name| {
                    let text = root.text(format!("{CPU_FOLDER}/cpu{cpu}/topology/{name}"))?;
                    CpuSet::parse_list(&text).filter(|set| set.contains(cpu))
                })?;
            Some((cpu, siblings.intersection(online).iter().next()?))
        })
        .collect();
    if let Some(listed) = listed {
        return listed;
    }
    let mut first: BTreeMap<(Option<u32>, u32), u32> = BTreeMap::new();
    let mut cores = BTreeMap::new();
    for cpu in online.iter() {
        let id = root.number(format!("{CPU_FOLDER}/cpu{cpu}/topology/core_id"));
        if let Some(id) = id.or_else(|| cpuinfo.number(cpu, "core id")) {
            cores.insert(
                cpu,
                *first
                    .entry((packages.get(&cpu).copied(), id))
                    .or_insert(cpu),
            );
        }
    }
    cores
}

/// Classes of the CPUs of a mixed machine; empty on a uniform one.
fn classes(root: &SystemRoot, online: &CpuSet) -> BTreeMap<u32, CoreClass> {
    let by_unit = |unit: &str| {
        let text = root.text(format!("sys/devices/{unit}/cpus"))?;
        CpuSet::parse_list(&text)
    };
    let mut classes = BTreeMap::new();
    // Performance monitoring units of Intel's hybrid processors.
    if let (Some(fast), Some(small)) = (by_unit("cpu_core"), by_unit("cpu_atom")) {
        classes.extend(fast.iter().map(|cpu| (cpu, CoreClass::Performance)));
        classes.extend(small.iter().map(|cpu| (cpu, CoreClass::Efficiency)));
    }
    if classes.is_empty() {
        classes.extend(online.iter().filter_map(|cpu| {
            let kind = root
                .line(format!("{CPU_FOLDER}/cpu{cpu}/topology/core_type"))?
                .to_ascii_lowercase();
            let class = match kind.as_str() {
                "core" | "intel_core" | "performance" => CoreClass::Performance,
                "atom" | "intel_atom" | "efficiency" | "efficient" => CoreClass::Efficiency,
                _ => return None,
            };
            Some((cpu, class))
        }));
    }
    if classes.is_empty() {
        // Relative capacity, 1024 at the most. Favoured cores of one kind differ by a few per cent and the fast
        // clusters of three-cluster chips by a fifth; small cores lie below two thirds of the largest.
        let capacities: BTreeMap<u32, u64> = online
            .iter()
            .filter_map(|cpu| {
                Some((
                    cpu,
                    root.number::<u32>(format!("{CPU_FOLDER}/cpu{cpu}/cpu_capacity"))?
                        .into(),
                ))
            })
            .collect();
        let largest = capacities.values().copied().max().unwrap_or(0);
        classes.extend(capacities.into_iter().map(|(cpu, capacity)| {
            let small = capacity * 3 < largest * 2;
            (
                cpu,
                if small {
                    CoreClass::Efficiency
                } else {
                    CoreClass::Performance
                },
            )
        }));
    }
    classes.retain(|cpu, _| online.contains(*cpu));
    let kinds: BTreeSet<CoreClass> = classes.values().copied().collect();
    if kinds.len() < 2 {
        classes.clear();
    }
    classes
}

fn caches(root: &SystemRoot, cpu: u32) -> Caches {
    let folder = format!("{CPU_FOLDER}/cpu{cpu}/cache");
    let mut caches = Caches::default();
    for index in root.numbered(&folder, "index") {
        let file = |name: &str| format!("{folder}/index{index}/{name}");
        if root
            .line(file("type"))
            .is_none_or(|kind| kind == "Instruction")
        {
            continue;
        }
        let bytes = root.line(file("size")).and_then(|text| byte_size(&text));
        match root.number::<u32>(file("level")) {
            Some(1) => {
                caches.l1d_bytes = caches.l1d_bytes.or(bytes);
                caches.line_bytes = caches.line_bytes.or_else(|| {
                    root.number(file("coherency_line_size"))
                        .filter(|&bytes| bytes > 0)
                });
            }
            Some(2) => caches.l2_bytes = caches.l2_bytes.or(bytes),
            Some(3) => caches.l3_bytes = caches.l3_bytes.or(bytes),
            _ => {}
        }
    }
    caches
}

/// Reads a size such as `32K`; absent when malformed or zero.
fn byte_size(text: &str) -> Option<u64> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        b'G' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    digits
        .parse::<u64>()
        .ok()?
        .checked_mul(unit)
        .filter(|&bytes| bytes > 0)
}
