//! Leases, the lane budget, and what a policy does to its lanes.
#![allow(clippy::disallowed_methods)] // leases taken and dropped on several threads at once

use onl_cpu::{CpuSystem, DenormalGuard};
use onl_executor::{
    Affinity, CpuExecutionPolicy, Denormals, ExecutorError, ExecutorRegistry, RegionSpec,
    ResolvedCpuExecutionPolicy, RunOptions, WaitMode,
};
use onl_profiling::{Collector, InlineReason, RegionSite, region_site};
use std::hint::black_box;
use std::sync::{Arc, Barrier};

static SITE: RegionSite = region_site!("test.registry");

fn resolved(threads: u32) -> ResolvedCpuExecutionPolicy {
    resolve(CpuExecutionPolicy {
        threads,
        ..CpuExecutionPolicy::default()
    })
}

fn resolve(policy: CpuExecutionPolicy) -> ResolvedCpuExecutionPolicy {
    policy.resolve(&CpuSystem::current()).unwrap()
}

#[test]
fn equal_policies_share_an_executor_until_the_last_lease_is_dropped() {
    let registry = ExecutorRegistry::with_limits(2, 8);
    let first = registry.lease(&resolved(2)).unwrap();
    let second = registry.lease(&resolved(2)).unwrap();
    assert_eq!(first.identity(), second.identity());
    let other = registry.lease(&resolved(3)).unwrap();
    assert_ne!(first.identity(), other.identity());
    assert_eq!(
        registry.lease(&resolved(4)).unwrap_err(),
        ExecutorError::TooManyPools { live: 2 }
    );
    let identity = first.identity();
    drop(first);
    assert_eq!(registry.live_pools(), 2);
    drop(second);
    assert_eq!(registry.live_pools(), 1);
    let again = registry.lease(&resolved(2)).unwrap();
    assert_ne!(again.identity(), identity);
}

#[test]
fn leases_may_outlive_their_registry() {
    let registry = ExecutorRegistry::with_limits(2, 8);
    let lease = registry.lease(&resolved(2)).unwrap();
    drop(registry);
    assert_eq!(lease.enter().lanes().count(), 2);
}

#[test]
fn leases_come_and_go_on_several_threads() {
    let registry = ExecutorRegistry::with_limits(3, 4);
    std::thread::scope(|scope| {
        for thread in 0..3u32 {
            let registry = &registry;
            scope.spawn(move || {
                for round in 0..50 {
                    let lease = registry.lease(&resolved(1 + (round + thread) % 3)).unwrap();
                    let run = lease.enter();
                    run.lanes()
                        .region(&SITE, RegionSpec::new(8, 1), |_| {})
                        .unwrap();
                }
            });
        }
    });
    assert_eq!(registry.live_pools(), 0);
    assert_eq!(registry.budget().used(), 0);
}

#[test]
fn a_run_without_budget_has_its_caller_only() {
    let registry = ExecutorRegistry::with_limits(4, 3);
    let lease = registry.lease(&resolved(2)).unwrap();
    let wide = registry.lease(&resolved(3)).unwrap();
    let first = wide.enter();
    assert_eq!((first.lanes().count(), registry.budget().used()), (3, 3));
    let collector = Collector::new(4);
    let second = lease
        .enter_with(RunOptions {
            collector: Some(&collector),
            ..RunOptions::default()
        })
        .unwrap();
    assert_eq!(second.lanes().count(), 1);
    second
        .lanes()
        .region(&SITE, RegionSpec::new(4, 1), |_| {})
        .unwrap();
    assert_eq!(
        collector.drain().regions[0].inline_reason,
        Some(InlineReason::Budget)
    );
    drop(first);
    drop(second);
    assert_eq!(lease.enter().lanes().count(), 2);
    assert_eq!(registry.budget().used(), 0);
}

#[test]
fn a_policy_with_more_lanes_than_the_budget_raises_it_while_it_lives() {
    let registry = ExecutorRegistry::with_limits(4, 2);
    let lease = registry.lease(&resolved(5)).unwrap();
    assert_eq!(lease.enter().lanes().count(), 5);
    drop(lease);
    assert_eq!(registry.budget().limit(), 2);
}

#[test]
fn the_process_has_one_registry() {
    assert!(std::ptr::eq(
        ExecutorRegistry::global(),
        ExecutorRegistry::global()
    ));
}

/// Whether denormal numbers survive on each lane of a run.
fn preserved_on_every_lane(policy: &ResolvedCpuExecutionPolicy) -> bool {
    let registry = ExecutorRegistry::with_limits(1, 8);
    let lease = registry.lease(policy).unwrap();
    let run = lease.enter();
    let meeting = Barrier::new(run.lanes().count());
    let mut preserved = vec![false; run.lanes().count()];
    run.lanes()
        .region_over(
            &SITE,
            RegionSpec::new(preserved.len(), 1),
            &mut preserved,
            1,
            |_, part| {
                meeting.wait();
                part[0] = half_is_positive();
            },
        )
        .unwrap();
    assert!(preserved.iter().all(|&lane| lane == preserved[0]));
    preserved[0]
}

fn half_is_positive() -> bool {
    black_box(f32::MIN_POSITIVE) * black_box(0.5) > 0.0
}

#[test]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn lanes_treat_denormals_as_the_policy_says_and_the_caller_gets_its_own_back() {
    let policy = |denormals| {
        resolve(CpuExecutionPolicy {
            threads: 3,
            denormals,
            ..CpuExecutionPolicy::default()
        })
    };
    let (preserve, flush) = (policy(Denormals::Preserve), policy(Denormals::Flush));
    assert!(preserved_on_every_lane(&preserve));
    assert!(!preserved_on_every_lane(&flush));
    assert!(half_is_positive());
    let _application = DenormalGuard::new(Denormals::Flush);
    assert!(preserved_on_every_lane(&preserve));
    assert!(!half_is_positive());
}

#[test]
fn pinned_lanes_run_where_their_policy_says() {
    let system = CpuSystem::current();
    let cpus: Vec<u32> = system.allowed.iter().collect();
    let policy = resolve(CpuExecutionPolicy {
        affinity: Affinity::Explicit(cpus.clone()),
        wait: WaitMode::Frugal,
        ..CpuExecutionPolicy::default()
    });
    let registry = ExecutorRegistry::with_limits(1, cpus.len());
    let lease = registry.lease(&policy).unwrap();
    let run = lease.enter();
    let meeting = Arc::new(Barrier::new(cpus.len()));
    run.lanes()
        .region(&SITE, RegionSpec::new(cpus.len(), 1), |chunk| {
            meeting.wait();
            if chunk.lane > 0 {
                let mask = onl_cpu::current_thread_mask().unwrap();
                assert_eq!(mask.iter().collect::<Vec<_>>(), [cpus[chunk.lane]]);
            }
        })
        .unwrap();
    assert_eq!(lease.refused_pins(), 0);
}
