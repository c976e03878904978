use crate::fixtures::Machine;
use crate::*;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::arch::asm;

/// What a machine must be read as.
struct Case {
    name: &'static str,
    system: CpuSystem,
    physical: u32,
    logical: u32,
    allowed: &'static str,
    quota: Option<f64>,
    /// Allowed CPUs by core, cores separated by blanks.
    cores: &'static str,
    threads: u32,
    efficiency: &'static str,
    /// L1d, L2, L3 in KiB; 0 for absent.
    caches: [u64; 3],
}

fn cases() -> Vec<Case> {
    let smt = Case {
        name: "SMT, no limits",
        system: Machine::smt().system(),
        physical: 4,
        logical: 8,
        allowed: "0-7",
        quota: None,
        cores: "0,4 1,5 2,6 3,7",
        threads: 4,
        efficiency: "",
        caches: [48, 2048, 30 * 1024],
    };
    let of_smt = |name, machine: Machine, allowed, quota, cores, threads| Case {
        name,
        system: machine.system(),
        allowed,
        quota,
        cores,
        threads,
        ..smt_like(&smt)
    };
    let mut cases = vec![
        of_smt(
            "container, quota v2 of 2.5 processors",
            Machine::smt().cgroup_v2("/box", Some(250_000), 100_000),
            "0-7",
            Some(2.5),
            "0,4 1,5 2,6 3,7",
            2,
        ),
        of_smt(
            "quota v2 below one processor",
            Machine::smt().cgroup_v2("/box", Some(50_000), 100_000),
            "0-7",
            Some(0.5),
            "0,4 1,5 2,6 3,7",
            1,
        ),
        of_smt(
            "quota v2 larger than the machine",
            Machine::smt().cgroup_v2("/box", Some(1_600_000), 100_000),
            "0-7",
            Some(16.0),
            "0,4 1,5 2,6 3,7",
            4,
        ),
        of_smt(
            "quota v2 of a parent is the tightest",
            Machine::smt()
                .cgroup_v2("/a", Some(200_000), 100_000)
                .cgroup_v2("/a/b", Some(400_000), 100_000)
                .cgroup_v2("/a/b/c", None, 100_000),
            "0-7",
            Some(2.0),
            "0,4 1,5 2,6 3,7",
            2,
        ),
        of_smt(
            "quota v2 seen at the mount's root only, path of the host",
            Machine::smt()
                .cgroup_v2("/", Some(300_000), 100_000)
                .file("proc/self/cgroup", "0::/../../docker/0123\n"),
            "0-7",
            Some(3.0),
            "0,4 1,5 2,6 3,7",
            3,
        ),
        of_smt(
            "quota v1",
            Machine::smt().cgroup_v1("/docker/0123", 150_000, 50_000),
            "0-7",
            Some(3.0),
            "0,4 1,5 2,6 3,7",
            3,
        ),
        of_smt(
            "quota v1 of a parent, own group unlimited",
            Machine::smt().cgroup_v1("/a", 100_000, 100_000).cgroup_v1("/a/b", -1, 100_000),
            "0-7",
            Some(1.0),
            "0,4 1,5 2,6 3,7",
            1,
        ),
        of_smt(
            "quota v1, mount table maps the host's path to a subgroup",
            Machine::smt()
                .cgroup_v1("/sub", 200_000, 100_000)
                .file("proc/self/cgroup", "4:cpu,cpuacct:/docker/0123/sub\n")
                .file(
                    "proc/self/mountinfo",
                    "33 31 0:29 /docker/0123 /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n",
                ),
            "0-7",
            Some(2.0),
            "0,4 1,5 2,6 3,7",
            2,
        ),
        of_smt(
            "cpuset v2 of one core and a half",
            Machine::smt().cgroup_v2("/box", None, 100_000).cpuset_v2("/box", "1-2,5"),
            "1-2,5",
            None,
            "1,5 2",
            2,
        ),
        of_smt(
            "cpuset v1 with quota",
            Machine::smt().cgroup_v1("/box", 300_000, 100_000).cpuset_v1("/box", "0-1,4-5"),
            "0-1,4-5",
            Some(3.0),
            "0,4 1,5",
            2,
        ),
        of_smt(
            "cpuset that names no CPU of the machine says nothing",
            Machine::smt().cgroup_v2("/box", None, 100_000).cpuset_v2("/box", "100-103"),
            "0-7",
            None,
            "0,4 1,5 2,6 3,7",
            4,
        ),
        Case {
            name: "affinity mask of two siblings",
            system: Machine::smt().system_with_mask("2,6"),
            allowed: "2,6",
            cores: "2,6",
            threads: 1,
            ..smt_like(&smt)
        },
        Case {
            name: "affinity mask and cpuset overlap in part",
            system: Machine::smt().cgroup_v2("/b", None, 1).cpuset_v2("/b", "0-3").system_with_mask("2-5"),
            allowed: "2-3",
            cores: "2 3",
            threads: 2,
            ..smt_like(&smt)
        },
        Case {
            name: "SMT off",
            system: Machine::smt_off().system(),
            logical: 4,
            allowed: "0-3",
            cores: "0 1 2 3",
            ..smt_like(&smt)
        },
        Case {
            name: "SMT off, list of CPUs online is missing",
            system: Machine::smt_off().without("sys/devices/system/cpu/online").system(),
            logical: 4,
            allowed: "0-3",
            cores: "0 1 2 3",
            ..smt_like(&smt)
        },
        Case {
            name: "two packages with equal core numbers",
            system: Machine::two_packages().system(),
            cores: "0,4 1,5 2,6 3,7",
            caches: [32, 512, 16 * 1024],
            ..smt_like(&smt)
        },
        Case {
            name: "two-core guest",
            system: Machine::guest().system(),
            physical: 2,
            logical: 2,
            allowed: "0-1",
            cores: "0 1",
            threads: 2,
            caches: [32, 1024, 32 * 1024],
            ..smt_like(&smt)
        },
        Case {
            name: "hybrid with two kinds of cores",
            system: Machine::hybrid().system(),
            physical: 8,
            logical: 12,
            allowed: "0-11",
            cores: "0-1 2-3 4-5 6-7 8 9 10 11",
            threads: 8,
            efficiency: "8-11",
            caches: [48, 1280, 24 * 1024],
            ..smt_like(&smt)
        },
        Case {
            name: "arm64 server",
            system: Machine::arm64_server().system(),
            physical: 4,
            logical: 4,
            allowed: "0-3",
            cores: "0 1 2 3",
            threads: 4,
            caches: [64, 1024, 0],
            ..smt_like(&smt)
        },
        Case {
            name: "arm64 with small cores first, core numbers repeat",
            system: Machine::arm64_mixed().system(),
            physical: 6,
            logical: 6,
            allowed: "0-5",
            cores: "0 1 2 3 4 5",
            threads: 6,
            efficiency: "0-3",
            caches: [64, 1024, 0],
            ..smt_like(&smt)
        },
    ];
    cases.push(smt);
    cases
}

fn smt_like(smt: &Case) -> Case {
    Case {
        system: smt.system.clone(),
        ..*smt
    }
}

#[test]
fn machines_are_read_as_they_are() {
    for case in cases() {
        let Case { name, system, .. } = &case;
        let descriptor = &system.descriptor;
        assert_eq!(
            descriptor.physical_cores,
            Some(case.physical),
            "{name}: physical cores"
        );
        assert_eq!(
            descriptor.logical_cores,
            Some(case.logical),
            "{name}: logical cores"
        );
        assert_eq!(system.cpus.len() as u32, case.logical, "{name}: CPUs");
        assert_eq!(system.allowed.to_string(), case.allowed, "{name}: allowed");
        assert_eq!(system.quota, case.quota, "{name}: quota");
        let cores = system
            .allowed_physical_cores()
            .into_iter()
            .map(|core| CpuSet::from_iter(core).to_string());
        assert_eq!(
            cores.collect::<Vec<_>>().join(" "),
            case.cores,
            "{name}: cores"
        );
        assert_eq!(
            system.default_threads(),
            case.threads,
            "{name}: default threads"
        );
        let of_class = |class| {
            system
                .cpus
                .iter()
                .filter(|cpu| cpu.class == class)
                .map(|cpu| cpu.id)
                .collect::<CpuSet>()
        };
        assert_eq!(
            of_class(CoreClass::Efficiency).to_string(),
            case.efficiency,
            "{name}: efficiency cores"
        );
        let uniform = of_class(CoreClass::Uniform).len() as u32;
        let expected = if case.efficiency.is_empty() {
            case.logical
        } else {
            0
        };
        assert_eq!(
            uniform, expected,
            "{name}: CPUs without a class of their own"
        );
        let kib = |bytes: Option<u64>| bytes.unwrap_or(0) / 1024;
        let caches = [
            kib(descriptor.l1d_bytes),
            kib(descriptor.l2_bytes),
            kib(descriptor.l3_bytes),
        ];
        assert_eq!(caches, case.caches, "{name}: caches");
        assert_eq!(descriptor.cache_line_bytes, Some(64), "{name}: cache line");
    }
}

#[test]
fn identity_comes_from_cpuinfo() {
    let intel = Machine::smt().system().descriptor;
    assert_eq!(intel.architecture, "x86_64");
    assert_eq!(intel.vendor.as_deref(), Some("intel"));
    assert_eq!(
        (intel.family, intel.model, intel.stepping),
        (Some(6), Some(143), Some(8))
    );
    assert_eq!(intel.brand.as_deref(), Some("Fixture CPU @ 2.00GHz"));
    assert_eq!(intel.hypervisor, Some(false));
    for feature in ["avx2", "fma", "f16c", "sse4.1", "avx512f", "avx512vl"] {
        assert!(intel.features.contains(feature), "{feature}");
    }
    assert!(!intel.features.contains("avx512vnni"));

    let guest = Machine::guest().system().descriptor;
    assert_eq!(
        (guest.vendor.as_deref(), guest.hypervisor),
        (Some("amd"), Some(true))
    );

    let arm = Machine::arm64_server().system().descriptor;
    assert_eq!(arm.architecture, "aarch64");
    assert_eq!(arm.vendor.as_deref(), Some("arm"));
    assert_eq!(
        (arm.family, arm.model, arm.stepping),
        (Some(8), Some(0xd0c), Some(0x31))
    );
    assert_eq!((arm.brand, arm.hypervisor), (None, None));
    let features: Vec<&str> = arm.features.iter().map(String::as_str).collect();
    assert_eq!(
        features,
        ["crc", "dotprod", "fcma", "fp16", "lse", "neon", "rdm"]
    );

    let mixed = Machine::arm64_mixed().system().descriptor;
    assert_eq!(
        mixed.model,
        Some(0xd0b),
        "a mixed machine is named after its fast cores"
    );
    let hybrid = Machine::hybrid().system().descriptor;
    assert!(hybrid.features.contains("avxvnni"));
}

#[test]
fn unknown_implementer_is_shown_by_number() {
    let text = "processor : 0\nFeatures : asimd\nCPU implementer : 0x99\nCPU architecture: 8\nCPU part : 0x1\n";
    let descriptor = Machine::empty()
        .file("proc/cpuinfo", text)
        .system()
        .descriptor;
    assert_eq!(descriptor.vendor.as_deref(), Some("implementer_0x99"));
    assert_eq!(
        descriptor.stepping, None,
        "variant and revision are missing"
    );
}

#[test]
fn nothing_readable_leaves_everything_absent() {
    let system = Machine::empty().system();
    let unknown = CpuDescriptor {
        architecture: "unknown".to_owned(),
        ..CpuDescriptor::default()
    };
    assert_eq!(system.descriptor, unknown);
    assert!(system.cpus.is_empty() && system.allowed.is_empty() && system.quota.is_none());
    assert_eq!(system.default_threads(), 1);

    let masked = Machine::empty().system_with_mask("0-2");
    assert_eq!(
        masked.allowed.to_string(),
        "0-2",
        "the mask alone names real CPUs"
    );
    assert_eq!(
        masked.descriptor.logical_cores, None,
        "but not how many the machine has"
    );
    assert_eq!(masked.default_threads(), 3);
}

#[test]
fn topology_falls_back_to_core_numbers_and_cpuinfo() {
    let mut machine = Machine::smt();
    for cpu in 0..8 {
        machine = machine.without(format!(
            "sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list"
        ));
    }
    let by_core_id = machine.system();
    assert_eq!(by_core_id.cpus, Machine::smt().system().cpus, "core_id");
    let by_cpuinfo = machine.without("sys").system();
    assert_eq!(by_cpuinfo.cpus, Machine::smt().system().cpus, "cpuinfo");
    assert_eq!(by_cpuinfo.descriptor.l1d_bytes, None);
}

#[test]
fn siblings_of_a_cpu() {
    let machine = Machine::hybrid();
    let topology = CpuTopology::read(&SystemRoot::new(machine.root()));
    for (cpu, siblings) in [(0, "0-1"), (7, "6-7"), (9, "9"), (12, "")] {
        assert_eq!(topology.siblings(cpu).to_string(), siblings, "CPU {cpu}");
    }
}

#[test]
fn capacities_that_hardly_differ_are_one_kind() {
    let machine = (0..4).fold(Machine::smt_off(), |machine, cpu: u32| {
        machine.file(
            format!("sys/devices/system/cpu/cpu{cpu}/cpu_capacity"),
            &format!("{}\n", 1024 - 16 * cpu),
        )
    });
    assert!(
        machine
            .system()
            .cpus
            .iter()
            .all(|cpu| cpu.class == CoreClass::Uniform)
    );
}

#[test]
fn core_types_of_the_topology_folder() {
    let machine = (0..4).fold(Machine::smt_off(), |machine, cpu: u32| {
        let kind = if cpu < 1 {
            "intel_core\n"
        } else {
            "intel_atom\n"
        };
        machine.file(
            format!("sys/devices/system/cpu/cpu{cpu}/topology/core_type"),
            kind,
        )
    });
    let classes: Vec<CoreClass> = machine.system().cpus.iter().map(|cpu| cpu.class).collect();
    use CoreClass::{Efficiency, Performance};
    assert_eq!(classes, [Performance, Efficiency, Efficiency, Efficiency]);
}

#[test]
fn lists_of_cpus() {
    let good = [
        ("", ""),
        ("\n", ""),
        ("0\n", "0"),
        ("0-3,8-11\n", "0-3,8-11"),
        ("3,1,2", "1-3"),
        ("0,2,4", "0,2,4"),
        ("5-5", "5"),
        (" 1 , 3 ", "1,3"),
    ];
    for (text, shown) in good {
        assert_eq!(
            CpuSet::parse_list(text)
                .map(|set| set.to_string())
                .as_deref(),
            Some(shown),
            "{text:?}"
        );
    }
    let bad = [
        "0-",
        "-3",
        "3-1",
        "a",
        "0,,1",
        ",",
        "0-1-2",
        "0x3",
        "1.5",
        "+1",
        "99999999999999999999",
        "0-4294967295",
    ];
    for text in bad {
        assert_eq!(CpuSet::parse_list(text), None, "{text:?}");
    }
}

/// Files whose text the properties below replace.
const FILES: &[&str] = &[
    "proc/cpuinfo",
    "proc/self/cgroup",
    "proc/self/mountinfo",
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/cpu0/topology/core_cpus_list",
    "sys/devices/system/cpu/cpu1/topology/physical_package_id",
    "sys/devices/system/cpu/cpu0/cache/index0/size",
    "sys/devices/system/cpu/cpu0/cache/index0/level",
    "sys/devices/system/cpu/cpu1/cpu_capacity",
    "sys/devices/cpu_core/cpus",
    "sys/devices/cpu_atom/cpus",
    "sys/fs/cgroup/box/cpu.max",
    "sys/fs/cgroup/box/cpuset.cpus.effective",
];

#[test]
fn malformed_files_are_no_facts() {
    let texts = [
        "",
        "\n\n\n",
        ":",
        "0-",
        "-1",
        "99999999999999999999999999",
        "18446744073709551615 1",
        "0 0",
        "max",
        "0-65535",
        "\0\u{fffd}",
        "0::/../../..//\n:::::\n1:cpu\n",
        "processor : 4294967296\nprocessor : x\nvendor_id\nflags :\n",
        "18446744073709551615G",
    ];
    let machine = boxed();
    for file in FILES {
        let before = std::fs::read_to_string(machine.root().join(file)).ok();
        for text in texts {
            machine.write(file, text);
            let system = machine.system();
            let threads = system.default_threads();
            assert!(
                threads >= 1 && threads as usize <= system.cpus.len().max(1),
                "{file}: {text:?}: {threads} threads"
            );
            assert!(
                system
                    .quota
                    .is_none_or(|quota| quota > 0.0 && quota.is_finite()),
                "{file}: {text:?}"
            );
            let l1d = system.descriptor.l1d_bytes;
            assert!(
                l1d.is_none_or(|bytes| bytes > 0),
                "{file}: {text:?}: {l1d:?}"
            );
        }
        match before {
            Some(before) => machine.write(file, &before),
            None => std::fs::remove_file(machine.root().join(file)).unwrap(),
        }
    }
    assert_eq!(
        machine.system(),
        boxed().system(),
        "every file is as before"
    );
    let bytes = Machine::smt();
    std::fs::write(bytes.root().join("proc/cpuinfo"), [0xff, 0xfe, b'\n', 0x80]).unwrap();
    assert_eq!(bytes.system().descriptor.architecture, "unknown");
    let folder = Machine::smt()
        .without("proc/cpuinfo")
        .file("proc/cpuinfo/inner", "");
    assert_eq!(
        folder.system().descriptor.architecture,
        "unknown",
        "a folder in place of a file"
    );
}

/// A small machine in a group with both limits.
fn boxed() -> Machine {
    Machine::guest()
        .cgroup_v2("/box", Some(150_000), 100_000)
        .cpuset_v2("/box", "0-1")
}

#[test]
fn arbitrary_text_never_panics() {
    let machine = boxed();
    let case = (0..FILES.len(), "[-0-9,:/ a-z.\\n]{0,60}|\\PC{0,40}");
    let mut runner = TestRunner::new(ProptestConfig::with_cases(96));
    let result = runner.run(&case, |(file, text)| {
        machine.write(FILES[file], &text);
        let system = machine.system();
        prop_assert!(system.default_threads() >= 1);
        prop_assert!(system.cpus.iter().all(|cpu| cpu.id < 65536));
        Ok(())
    });
    result.unwrap();
}

proptest! {
    #[test]
    fn lists_round_trip(cpus in proptest::collection::btree_set(0u32..200, 0..40)) {
        let set = CpuSet(cpus);
        prop_assert_eq!(CpuSet::parse_list(&set.to_string()), Some(set));
    }
}

#[test]
fn this_machine_is_consistent() {
    let system = CpuSystem::current();
    assert_eq!(system.descriptor, CpuDescriptor::current());
    assert_eq!(system.descriptor.architecture, std::env::consts::ARCH);
    assert!(!system.allowed.is_empty());
    assert!(
        system
            .allowed
            .iter()
            .all(|id| system.cpus.iter().any(|cpu| cpu.id == id))
    );
    if let Some(mask) = current_thread_mask() {
        assert!(!mask.is_empty() && system.allowed.iter().all(|cpu| mask.contains(cpu)));
    }
    let expected = if IsaTier::detect() >= IsaTier::Avx2 {
        "avx2"
    } else {
        ""
    };
    assert!(expected.is_empty() || system.descriptor.features.contains(expected));
}

/// CPUID and the kernel's text must name the same processor, or fixtures would not stand for machines.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[test]
fn cpuid_and_cpuinfo_agree() {
    let (by_cpuid, by_text) = (
        CpuDescriptor::current(),
        CpuDescriptor::read(&SystemRoot::real()),
    );
    if by_text.architecture == "x86_64" {
        assert_eq!(
            by_cpuid,
            CpuDescriptor {
                brand: by_cpuid.brand.clone(),
                ..by_text
            }
        );
    }
    let caches = crate::cpuid::caches();
    assert!(
        caches
            .l1d_bytes
            .is_none_or(|bytes| (4 << 10..4 << 20).contains(&bytes)),
        "{caches:?}"
    );
}

#[test]
fn descriptors_survive_serialization() {
    for machine in [Machine::smt(), Machine::arm64_server(), Machine::empty()] {
        let descriptor = machine.system().descriptor;
        let text = serde_json::to_string(&descriptor).unwrap();
        assert_eq!(
            serde_json::from_str::<CpuDescriptor>(&text).unwrap(),
            descriptor
        );
    }
}

/// Half of the smallest normal number, by an instruction that the compiler does not compute itself.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn half_of_smallest_normal() -> f32 {
    let mut value = f32::MIN_POSITIVE;
    let half = 0.5f32;
    // SAFETY: one multiplication of two registers.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("mulss {0}, {1}", inout(xmm_reg) value, in(xmm_reg) half, options(nomem, nostack));
        #[cfg(target_arch = "aarch64")]
        asm!("fmul {0:s}, {0:s}, {1:s}", inout(vreg) value, in(vreg) half, options(nomem, nostack));
    }
    value
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[test]
fn denormal_guards_nest_and_restore() {
    let subnormal = f32::from_bits(0x0040_0000);
    assert_eq!(
        half_of_smallest_normal(),
        subnormal,
        "Rust programs start with subnormal numbers preserved"
    );
    {
        let _flush = DenormalGuard::new(DenormalMode::Flush);
        assert_eq!(half_of_smallest_normal().to_bits(), 0);
        {
            let _preserve = DenormalGuard::preserve();
            assert_eq!(half_of_smallest_normal(), subnormal);
        }
        assert_eq!(
            half_of_smallest_normal().to_bits(),
            0,
            "the inner guard restored the outer one's mode"
        );
    }
    assert_eq!(half_of_smallest_normal(), subnormal);
    let panicked = std::panic::catch_unwind(|| {
        let _flush = DenormalGuard::new(DenormalMode::Flush);
        panic!("inside a guard");
    });
    assert!(panicked.is_err());
    assert_eq!(
        half_of_smallest_normal(),
        subnormal,
        "restored while unwinding"
    );
}

#[test]
fn user_mode_emulation_shows_in_the_name_of_the_process() {
    let root = tempfile::tempdir().expect("a folder");
    let folder = root.path().join("proc/self");
    std::fs::create_dir_all(&folder).expect("a folder");
    let named = |name: &str| {
        std::fs::write(folder.join("comm"), name).expect("a file");
        crate::emulation::user_mode(&crate::SystemRoot::new(root.path()))
    };
    assert!(named("qemu-aarch64-st\n"));
    assert!(!named("onl\n"));
}
