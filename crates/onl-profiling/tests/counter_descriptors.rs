//! The descriptors of counter groups: closed with their threads, and kept from other programs. A process of its own,
//! because it looks at all descriptors of the process.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods)] // groups belong to threads, and the test needs some of their own

use onl_profiling::{CounterReading, CounterSet};
use std::fs;

/// Counter descriptors of this process.
fn counter_descriptors() -> Vec<i32> {
    fs::read_dir("/proc/self/fd")
        .unwrap()
        .flatten()
        .filter(|entry| {
            fs::read_link(entry.path())
                .is_ok_and(|target| target.to_string_lossy().contains("perf_event"))
        })
        .map(|entry| entry.file_name().to_string_lossy().parse().unwrap())
        .collect()
}

#[test]
fn descriptors_end_with_their_thread_and_stay_in_the_program() {
    for _ in 0..10 {
        let opened = std::thread::spawn(|| {
            for set in CounterSet::ALL {
                CounterReading::of_this_thread(set);
            }
            let opened = counter_descriptors();
            for &descriptor in &opened {
                // SAFETY: asks for the flags of a descriptor that this thread keeps open.
                let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
                assert_eq!(flags, libc::FD_CLOEXEC, "descriptor {descriptor}");
            }
            opened.len()
        })
        .join()
        .unwrap();
        // A group and its counters, of each set; fewer where the system refuses some.
        assert!(opened <= 10, "{opened} descriptors");
        if opened == 0 {
            eprintln!("this system counts nothing here");
        }
        assert_eq!(counter_descriptors(), [0i32; 0]);
    }
}
