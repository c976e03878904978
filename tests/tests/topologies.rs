//! What policies resolve to on every described machine, with and without a quota.

use onl::{Affinity, CpuExecutionPolicy};
use onl_cpu::fixtures::Machine;
use std::fmt::Write;

fn machines() -> [(&'static str, fn() -> Machine); 7] {
    [
        ("smt", Machine::smt),
        ("smt_off", Machine::smt_off),
        ("two_packages", Machine::two_packages),
        ("guest", Machine::guest),
        ("hybrid", Machine::hybrid),
        ("arm64_server", Machine::arm64_server),
        ("arm64_mixed", Machine::arm64_mixed),
    ]
}

#[test]
fn every_machine_resolves_as_written() {
    let mut text = String::new();
    let mut line = |parts: std::fmt::Arguments<'_>| {
        text.write_fmt(parts).expect("a string takes text");
        text.push('\n');
    };
    for (name, machine) in machines() {
        for quota in [None, Some(150_000), Some(300_000)] {
            let machine = match quota {
                None => machine(),
                Some(_) => machine().cgroup_v2("/service", quota, 100_000),
            };
            let system = machine.system();
            let of_quota = quota.map_or(String::new(), |microseconds| {
                format!(" with a quota of {} CPUs", microseconds as f64 / 1e5)
            });
            line(format_args!("{name}{of_quota}"));
            for (threads, affinity) in [
                (0, Affinity::None),
                (0, Affinity::PhysicalCores),
                (0, Affinity::PerformanceCores),
                (0, Affinity::PhysicalThenSmt),
                (6, Affinity::PhysicalThenSmt),
                (2, Affinity::Explicit(vec![1, 0])),
            ] {
                let policy = CpuExecutionPolicy {
                    threads,
                    affinity,
                    ..CpuExecutionPolicy::default()
                };
                let asked = format!("{threads} threads, {}", policy.affinity.name());
                match policy.resolve(&system) {
                    Ok(resolved) => {
                        let descriptor = resolved.descriptor();
                        line(format_args!(
                            "  {asked}: {} lanes on {:?}, SMT used {}, {}",
                            resolved.participants(),
                            resolved.cpus(),
                            descriptor.smt_used,
                            descriptor.quota
                        ));
                        for diagnostic in &resolved.diagnostics {
                            line(format_args!("    note: {diagnostic}"));
                        }
                    }
                    Err(error) => line(format_args!("  {asked}: error: {error}")),
                }
            }
        }
    }
    insta::assert_snapshot!("topologies", text);
}
