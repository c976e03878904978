//! Resolution of policies over machines of every shape.

use onl_cpu::{CoreClass, CpuDescriptor, CpuSet, CpuSystem, LogicalCpu};
use onl_executor::{Affinity, CpuExecutionPolicy, PolicyError, WaitMode};
use std::time::Duration;

/// A machine whose logical CPUs have the given cores and classes, all of them allowed.
fn machine(cpus: &[(u32, CoreClass)]) -> CpuSystem {
    let distinct: std::collections::BTreeSet<u32> = cpus.iter().map(|&(core, _)| core).collect();
    CpuSystem {
        descriptor: CpuDescriptor {
            architecture: "x86_64".into(),
            vendor: Some("intel".into()),
            family: Some(6),
            model: Some(143),
            stepping: Some(8),
            features: ["avx2".to_string(), "fma".to_string()].into(),
            l1d_bytes: Some(48 << 10),
            l2_bytes: Some(2 << 20),
            l3_bytes: Some(105 << 20),
            physical_cores: Some(distinct.len() as u32),
            logical_cores: Some(cpus.len() as u32),
            ..CpuDescriptor::default()
        },
        cpus: cpus
            .iter()
            .zip(0..)
            .map(|(&(core, class), id)| LogicalCpu {
                id,
                package: Some(0),
                core: Some(core),
                class,
            })
            .collect(),
        allowed: (0..cpus.len() as u32).collect(),
        quota: None,
    }
}

const U: CoreClass = CoreClass::Uniform;
const P: CoreClass = CoreClass::Performance;
const E: CoreClass = CoreClass::Efficiency;

/// Four cores of two siblings, numbered as Linux does: 0–3 first siblings, 4–7 second.
fn smt() -> CpuSystem {
    machine(&[0, 1, 2, 3, 0, 1, 2, 3].map(|core| (core, U)))
}

/// Four efficiency cores, then two performance cores of two siblings.
fn hybrid() -> CpuSystem {
    machine(&[
        (0, E),
        (1, E),
        (2, E),
        (3, E),
        (4, P),
        (4, P),
        (5, P),
        (5, P),
    ])
}

fn only(mut system: CpuSystem, allowed: &[u32]) -> CpuSystem {
    system.allowed = allowed.iter().copied().collect::<CpuSet>();
    system
}

fn quota(mut system: CpuSystem, quota: f64) -> CpuSystem {
    system.quota = Some(quota);
    system
}

fn policy(threads: u32, affinity: Affinity) -> CpuExecutionPolicy {
    CpuExecutionPolicy {
        threads,
        affinity,
        ..CpuExecutionPolicy::default()
    }
}

#[test]
fn policies_resolve_by_machine() {
    let unknown_cores = {
        let mut system = smt();
        for cpu in &mut system.cpus {
            (cpu.package, cpu.core) = (None, None);
        }
        system
    };
    let uniform2 = || machine(&[(0, U), (1, U)]);
    // name, machine, threads, affinity → participants, processors of the lanes, SMT used, diagnostics
    type Case = (
        &'static str,
        CpuSystem,
        u32,
        Affinity,
        u32,
        &'static [u32],
        bool,
        usize,
    );
    let cases: Vec<Case> = vec![
        ("smt default", smt(), 0, Affinity::None, 4, &[], false, 0),
        ("smt all threads", smt(), 8, Affinity::None, 8, &[], true, 0),
        (
            "smt five threads",
            smt(),
            5,
            Affinity::None,
            5,
            &[],
            true,
            0,
        ),
        (
            "smt physical",
            smt(),
            0,
            Affinity::PhysicalCores,
            4,
            &[0, 1, 2, 3],
            false,
            0,
        ),
        (
            "smt then siblings",
            smt(),
            6,
            Affinity::PhysicalThenSmt,
            6,
            &[0, 1, 2, 3, 4, 5],
            true,
            0,
        ),
        (
            "smt then siblings, few",
            smt(),
            3,
            Affinity::PhysicalThenSmt,
            3,
            &[0, 1, 2],
            false,
            0,
        ),
        (
            "smt under a mask",
            only(smt(), &[1, 2, 5]),
            0,
            Affinity::PhysicalCores,
            2,
            &[1, 2],
            false,
            0,
        ),
        (
            "smt siblings only",
            only(smt(), &[2, 6]),
            0,
            Affinity::None,
            1,
            &[],
            false,
            0,
        ),
        (
            "more threads than CPUs",
            only(smt(), &[2, 6]),
            3,
            Affinity::None,
            3,
            &[],
            true,
            1,
        ),
        (
            "quota",
            quota(smt(), 2.5),
            0,
            Affinity::None,
            2,
            &[],
            false,
            0,
        ),
        (
            "quota below one",
            quota(smt(), 0.5),
            0,
            Affinity::None,
            1,
            &[],
            false,
            0,
        ),
        (
            "more threads than quota",
            quota(smt(), 2.0),
            3,
            Affinity::None,
            3,
            &[],
            false,
            1,
        ),
        (
            "explicit, caller first",
            smt(),
            3,
            Affinity::Explicit(vec![7, 2, 0]),
            3,
            &[7, 2, 0],
            false,
            0,
        ),
        (
            "explicit sets the count",
            smt(),
            0,
            Affinity::Explicit(vec![1, 5]),
            2,
            &[1, 5],
            true,
            0,
        ),
        (
            "hybrid default",
            hybrid(),
            0,
            Affinity::None,
            6,
            &[],
            false,
            0,
        ),
        (
            "hybrid performance",
            hybrid(),
            0,
            Affinity::PerformanceCores,
            2,
            &[4, 6],
            false,
            0,
        ),
        (
            "hybrid physical",
            hybrid(),
            3,
            Affinity::PhysicalCores,
            3,
            &[4, 6, 0],
            false,
            0,
        ),
        (
            "hybrid, performance masked",
            only(hybrid(), &[0, 1]),
            0,
            Affinity::PerformanceCores,
            2,
            &[0, 1],
            false,
            1,
        ),
        (
            "uniform performance",
            uniform2(),
            0,
            Affinity::PerformanceCores,
            2,
            &[0, 1],
            false,
            1,
        ),
        (
            "unknown cores",
            unknown_cores,
            0,
            Affinity::None,
            8,
            &[],
            false,
            0,
        ),
        ("serial", smt(), 1, Affinity::None, 1, &[], false, 0),
    ];
    for (name, system, threads, affinity, participants, cpus, smt_used, diagnostics) in cases {
        let resolved = policy(threads, affinity)
            .resolve(&system)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(resolved.participants(), participants, "{name}");
        assert_eq!(resolved.cpus(), cpus, "{name}");
        assert_eq!(resolved.descriptor().smt_used, smt_used, "{name}");
        assert_eq!(
            resolved.diagnostics.len(),
            diagnostics,
            "{name}: {:?}",
            resolved.diagnostics
        );
    }
}

#[test]
fn impossible_requests_are_typed_errors() {
    let explicit = |cpus: &[u32]| Affinity::Explicit(cpus.to_vec());
    let allowed = "0, 1".to_string();
    let cases = [
        (
            policy(4097, Affinity::None),
            PolicyError::TooManyThreads {
                threads: 4097,
                limit: 4096,
            },
        ),
        (
            policy(0, explicit(&[0, 5])),
            PolicyError::CpuNotAllowed { cpu: 5, allowed },
        ),
        (
            policy(0, explicit(&[1, 0, 1])),
            PolicyError::DuplicateCpu { cpu: 1 },
        ),
        (
            policy(1, explicit(&[0, 1])),
            PolicyError::WrongSize {
                cpus: 2,
                threads: 1,
            },
        ),
        (policy(0, explicit(&[])), PolicyError::EmptySet),
        (
            policy(3, Affinity::PhysicalCores),
            PolicyError::TooFewPlaces {
                affinity: "physical_cores",
                places: 2,
                threads: 3,
            },
        ),
    ];
    for (policy, error) in cases {
        assert_eq!(
            policy.resolve(&only(smt(), &[0, 1])),
            Err(error),
            "{policy:?}"
        );
    }
}

#[test]
fn default_threads_are_those_of_the_system() {
    for system in [
        smt(),
        hybrid(),
        only(hybrid(), &[4, 5]),
        quota(smt(), 1.5),
        CpuSystem::current(),
    ] {
        let resolved = CpuExecutionPolicy::default().resolve(&system).unwrap();
        assert_eq!(resolved.participants(), system.default_threads());
    }
}

/// The policy under which `tune-kernels` saves and the one under which a session looks up must name one identity, on
/// machines with SMT too.
#[test]
fn descriptor_for_saving_is_the_one_for_finding() {
    for system in [smt(), hybrid(), quota(smt(), 2.0)] {
        let saving = CpuExecutionPolicy::default().resolve(&system).unwrap();
        let explicit_count = policy(saving.participants(), Affinity::None)
            .resolve(&system)
            .unwrap();
        assert_eq!(saving.descriptor(), explicit_count.descriptor());
        assert_eq!(saving.descriptor(), saving.clone().descriptor());
    }
}

#[test]
fn descriptor_names_processor_and_policy() {
    let resolved = CpuExecutionPolicy {
        threads: 2,
        wait: WaitMode::Fixed(Duration::from_micros(50)),
        affinity: Affinity::PhysicalThenSmt,
        ..CpuExecutionPolicy::default()
    }
    .resolve(&quota(smt(), 3.7))
    .unwrap();
    let descriptor = resolved.descriptor();
    let processor = resolved.processor();
    assert_eq!(descriptor.architecture, processor.architecture);
    assert_eq!(descriptor.vendor, processor.vendor);
    assert_eq!(
        (descriptor.family, descriptor.model, descriptor.stepping),
        (Some(6), Some(143), Some(8))
    );
    assert_eq!(descriptor.features, processor.features);
    assert_eq!(
        (descriptor.l1d_bytes, descriptor.l2_bytes),
        (Some(48 << 10), Some(2 << 20))
    );
    assert_eq!(
        (descriptor.physical_cores, descriptor.logical_cores),
        (Some(4), Some(8))
    );
    assert_eq!((descriptor.participants, descriptor.smt_used), (2, false));
    assert_eq!(descriptor.affinity, "physical_then_smt");
    assert_eq!(descriptor.wait_mode, "fixed:50us");
    assert_eq!(descriptor.quota, "quota_3");

    let default = CpuExecutionPolicy::default()
        .resolve(&smt())
        .unwrap()
        .descriptor();
    assert_eq!(
        (
            default.affinity.as_str(),
            default.wait_mode.as_str(),
            default.quota.as_str()
        ),
        ("none", "balanced", "unlimited")
    );
}
