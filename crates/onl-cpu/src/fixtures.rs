//! Machines as trees of text files, for tests. The files say what the kernel of such a machine says; tests change single
//! files to make a case.

use crate::cpu_set::CpuSet;
use crate::system::CpuSystem;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const CPU_FOLDER: &str = "sys/devices/system/cpu";

const X86_FLAGS: &str =
    "fpu tsc sse sse2 ht lm ssse3 fma sse4_1 sse4_2 popcnt avx f16c bmi1 avx2 bmi2";
const ARM_FLAGS: &str = "fp asimd aes crc32 atomics fphp asimdhp asimdrdm fcma asimddp";

/// A machine below a temporary folder, which is removed with this value.
#[derive(Debug)]
pub struct Machine {
    folder: TempDir,
}

/// One logical CPU to describe.
#[derive(Debug, Clone, Copy)]
struct Cpu {
    package: u32,
    core: u32,
    capacity: Option<u32>,
    caches: [&'static str; 3],
}

impl Machine {
    /// A machine without any file.
    pub fn empty() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder is needed for this test");
        Self { folder }
    }

    /// One package of 4 cores with 2 threads each; siblings are `n` and `n + 4`. Intel, with AVX-512.
    pub fn smt() -> Self {
        let cpus: Vec<Cpu> = (0..8)
            .map(|id| cpu(0, id % 4, ["48K", "2048K", "30M"]))
            .collect();
        let cpuinfo = x86_cpuinfo(
            &cpus,
            "GenuineIntel",
            6,
            143,
            8,
            "avx512f avx512bw avx512cd avx512dq avx512vl",
        );
        Self::empty().cpus(&cpus).file("proc/cpuinfo", &cpuinfo)
    }

    /// The same processor with SMT switched off: CPUs 4 to 7 exist and are offline.
    pub fn smt_off() -> Self {
        let cpus: Vec<Cpu> = (0..4)
            .map(|id| cpu(0, id, ["48K", "2048K", "30M"]))
            .collect();
        let cpuinfo = x86_cpuinfo(
            &cpus,
            "GenuineIntel",
            6,
            143,
            8,
            "avx512f avx512bw avx512cd avx512dq avx512vl",
        );
        let machine = Self::empty().cpus(&cpus).file("proc/cpuinfo", &cpuinfo);
        (4..8).fold(machine, |machine, id| {
            machine.file(format!("{CPU_FOLDER}/cpu{id}/online"), "0\n")
        })
    }

    /// Two packages of 2 cores with 2 threads each; the numbers of the cores repeat in each package. AMD.
    pub fn two_packages() -> Self {
        let cpus: Vec<Cpu> = (0..8)
            .map(|id| cpu(id / 2 % 2, id % 2, ["32K", "512K", "16384K"]))
            .collect();
        let cpuinfo = x86_cpuinfo(&cpus, "AuthenticAMD", 25, 1, 1, "");
        Self::empty().cpus(&cpus).file("proc/cpuinfo", &cpuinfo)
    }

    /// A guest with 2 cores of one thread under a hypervisor, control groups of version 1 without limits.
    pub fn guest() -> Self {
        let cpus: Vec<Cpu> = (0..2)
            .map(|id| cpu(0, id, ["32K", "1024K", "32768K"]))
            .collect();
        let cpuinfo = x86_cpuinfo(
            &cpus,
            "AuthenticAMD",
            25,
            17,
            1,
            "hypervisor avx512f avx512bw avx512dq avx512vl",
        );
        Self::empty()
            .cpus(&cpus)
            .file("proc/cpuinfo", &cpuinfo)
            .cgroup_v1("/", -1, 100_000)
            .cpuset_v1("/", "0-1")
    }

    /// A hybrid Intel processor: 4 performance cores with 2 threads (0 to 7, siblings adjacent), 4 efficiency cores
    /// (8 to 11).
    pub fn hybrid() -> Self {
        let fast = (0..8).map(|id| cpu(0, id / 2 * 4, ["48K", "1280K", "24M"]));
        let small = (8..12).map(|id| cpu(0, 8 + id, ["32K", "2048K", "24M"]));
        let cpus: Vec<Cpu> = fast.chain(small).collect();
        let cpuinfo = x86_cpuinfo(&cpus, "GenuineIntel", 6, 151, 2, "avx_vnni");
        Self::empty()
            .cpus(&cpus)
            .file("proc/cpuinfo", &cpuinfo)
            .file("sys/devices/cpu_core/cpus", "0-7\n")
            .file("sys/devices/cpu_atom/cpus", "8-11\n")
    }

    /// An arm64 server with 4 cores of one thread and no third-level cache.
    pub fn arm64_server() -> Self {
        let cpus: Vec<Cpu> = (0..4).map(|id| cpu(0, id, ["64K", "1024K", ""])).collect();
        let cpuinfo = arm_cpuinfo(&[0xd0c; 4]);
        Self::empty().cpus(&cpus).file("proc/cpuinfo", &cpuinfo)
    }

    /// An arm64 machine with 4 small cores (0 to 3) and 2 fast ones (4, 5), whose core numbers repeat between clusters.
    pub fn arm64_mixed() -> Self {
        let small = (0..4).map(|id| Cpu {
            capacity: Some(485),
            ..cpu(0, id, ["32K", "512K", ""])
        });
        let fast = (0..2).map(|id| Cpu {
            capacity: Some(1024),
            ..cpu(0, id, ["64K", "1024K", ""])
        });
        let cpus: Vec<Cpu> = small.chain(fast).collect();
        let cpuinfo = arm_cpuinfo(&[0xd05, 0xd05, 0xd05, 0xd05, 0xd0b, 0xd0b]);
        let machine = Self::empty().cpus(&cpus).file("proc/cpuinfo", &cpuinfo);
        (0..6).fold(machine, |machine, id: u32| {
            machine.file(
                format!("{CPU_FOLDER}/cpu{id}/topology/core_cpus_list"),
                &format!("{id}\n"),
            )
        })
    }

    /// Writes a file below the root.
    #[must_use]
    pub fn file(self, path: impl AsRef<Path>, text: &str) -> Self {
        self.write(path, text);
        self
    }

    /// Writes a file below the root of a machine that is shared.
    pub fn write(&self, path: impl AsRef<Path>, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a file is in a folder"))
            .expect("the temporary folder is writable");
        fs::write(path, text).expect("the temporary folder is writable");
    }

    /// Removes a file or folder.
    #[must_use]
    pub fn without(self, path: impl AsRef<Path>) -> Self {
        let path = self.path(path);
        let removed = if path.is_dir() {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
        removed.expect("the machine has this file");
        self
    }

    /// Puts the process into the version 2 group `path` with a limit of `quota` of each `period`, microseconds; an absent
    /// quota is unlimited.
    #[must_use]
    pub fn cgroup_v2(self, path: &str, quota: Option<u64>, period: u64) -> Self {
        let quota = quota.map_or("max".to_owned(), |quota| quota.to_string());
        self.file("proc/self/cgroup", &format!("0::{path}\n")).file(
            format!("sys/fs/cgroup{path}/cpu.max"),
            &format!("{quota} {period}\n"),
        )
    }

    /// Gives the version 2 group `path` a list of CPUs.
    #[must_use]
    pub fn cpuset_v2(self, path: &str, cpus: &str) -> Self {
        self.file(
            format!("sys/fs/cgroup{path}/cpuset.cpus.effective"),
            &format!("{cpus}\n"),
        )
    }

    /// Puts the process into the version 1 groups `path` with a limit, microseconds; −1 is unlimited.
    #[must_use]
    pub fn cgroup_v1(self, path: &str, quota: i64, period: u64) -> Self {
        let folder = format!("sys/fs/cgroup/cpu,cpuacct{path}");
        self.file(
            "proc/self/cgroup",
            &format!("4:cpu,cpuacct:{path}\n3:cpuset:{path}\n1:name=systemd:/\n"),
        )
        .file(format!("{folder}/cpu.cfs_quota_us"), &format!("{quota}\n"))
        .file(
            format!("{folder}/cpu.cfs_period_us"),
            &format!("{period}\n"),
        )
    }

    /// Gives the version 1 group `path` a list of CPUs.
    #[must_use]
    pub fn cpuset_v1(self, path: &str, cpus: &str) -> Self {
        self.file(
            format!("sys/fs/cgroup/cpuset{path}/cpuset.cpus"),
            &format!("{cpus}\n"),
        )
    }

    /// The folder that stands for `/`.
    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    /// Reads the machine, with an affinity mask of all CPUs.
    pub fn system(&self) -> CpuSystem {
        CpuSystem::read(self.root(), None)
    }

    /// Reads the machine, with an affinity mask in list form.
    pub fn system_with_mask(&self, mask: &str) -> CpuSystem {
        CpuSystem::read(
            self.root(),
            Some(CpuSet::parse_list(mask).expect("the test's mask is a list")),
        )
    }

    fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root().join(path.strip_prefix("/").unwrap_or(path))
    }

    fn cpus(mut self, cpus: &[Cpu]) -> Self {
        self = self.file(
            format!("{CPU_FOLDER}/online"),
            &format!("0-{}\n", cpus.len() - 1),
        );
        for (id, cpu) in cpus.iter().enumerate() {
            let folder = format!("{CPU_FOLDER}/cpu{id}");
            let siblings: CpuSet = cpus
                .iter()
                .enumerate()
                .filter(|(_, other)| (other.package, other.core) == (cpu.package, cpu.core))
                .map(|(id, _)| id as u32)
                .collect();
            self = self
                .file(
                    format!("{folder}/topology/physical_package_id"),
                    &format!("{}\n", cpu.package),
                )
                .file(
                    format!("{folder}/topology/core_id"),
                    &format!("{}\n", cpu.core),
                )
                .file(
                    format!("{folder}/topology/core_cpus_list"),
                    &format!("{siblings}\n"),
                );
            if let Some(capacity) = cpu.capacity {
                self = self.file(format!("{folder}/cpu_capacity"), &format!("{capacity}\n"));
            }
            let [l1, l2, l3] = cpu.caches;
            let levels = [
                ("1", "Data", l1),
                ("1", "Instruction", "16K"),
                ("2", "Unified", l2),
                ("3", "Unified", l3),
            ];
            for (index, (level, kind, size)) in levels
                .into_iter()
                .enumerate()
                .filter(|(_, (.., size))| !size.is_empty())
            {
                let folder = format!("{folder}/cache/index{index}");
                self = self
                    .file(format!("{folder}/level"), &format!("{level}\n"))
                    .file(format!("{folder}/type"), &format!("{kind}\n"))
                    .file(format!("{folder}/size"), &format!("{size}\n"))
                    .file(format!("{folder}/coherency_line_size"), "64\n");
            }
        }
        self
    }
}

fn cpu(package: u32, core: u32, caches: [&'static str; 3]) -> Cpu {
    Cpu {
        package,
        core,
        capacity: None,
        caches,
    }
}

fn x86_cpuinfo(
    cpus: &[Cpu],
    vendor: &str,
    family: u32,
    model: u32,
    stepping: u32,
    flags: &str,
) -> String {
    let mut text = String::new();
    for (id, Cpu { package, core, .. }) in cpus.iter().enumerate() {
        let _ = write!(
            text,
            "processor\t: {id}\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n\
             model name\t: Fixture CPU @ 2.00GHz\nstepping\t: {stepping}\nphysical id\t: {package}\ncore id\t\t: {core}\n\
             flags\t\t: {X86_FLAGS} {flags}\n\n"
        );
    }
    text
}

fn arm_cpuinfo(parts: &[u32]) -> String {
    let mut text = String::new();
    for (id, part) in parts.iter().enumerate() {
        let _ = write!(
            text,
            "processor\t: {id}\nBogoMIPS\t: 50.00\nFeatures\t: {ARM_FLAGS}\nCPU implementer\t: 0x41\n\
             CPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: {part:#x}\nCPU revision\t: 1\n\n"
        );
    }
    text
}
