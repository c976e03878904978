//! What a process uses from one moment to another.

use super::{Count, Counters, PhaseSample, Resources};
use onl::profiling::{CounterReading, CounterSet, process_cpu_ns};
use std::sync::OnceLock;
use std::time::Instant;

/// Counters that are read; what a machine does not count has its status instead.
const COUNTERS: CounterSet = CounterSet::Hardware;

/// Readings of a moment.
struct Reading {
    cpu_ns: Option<u64>,
    faults: Option<(u64, u64)>,
    read_bytes: Option<u64>,
    counters: CounterReading,
}

impl Reading {
    fn now() -> Self {
        let stat = std::fs::read_to_string("/proc/self/stat").ok();
        let io = std::fs::read_to_string("/proc/self/io").ok();
        Reading {
            faults: stat.as_deref().and_then(faults),
            read_bytes: io.as_deref().and_then(read_bytes),
            counters: CounterReading::of_this_thread(COUNTERS),
            cpu_ns: process_cpu_ns(),
        }
    }

    fn since(&self, earlier: &Reading) -> Resources {
        let difference = |now: Option<u64>, before: Option<u64>| -> Count {
            now.zip(before)
                .map(|(now, before)| now.saturating_sub(before))
                .into()
        };
        let of = |pick: fn((u64, u64)) -> u64, reading: &Reading| reading.faults.map(pick);
        Resources {
            cpu_ns: difference(self.cpu_ns, earlier.cpu_ns),
            minor_faults: difference(of(|f| f.0, self), of(|f| f.0, earlier)),
            major_faults: difference(of(|f| f.1, self), of(|f| f.1, earlier)),
            bytes_read: difference(
                self.read_bytes,
                earlier
                    .read_bytes
                    .map(|bytes| bytes.saturating_add(read_by_readings())),
            ),
            counters: Counters::new(COUNTERS, &self.counters.since(&earlier.counters)),
        }
    }
}

/// Bytes that taking readings adds to what is counted between two of them.
fn read_by_readings() -> u64 {
    static BYTES: OnceLock<u64> = OnceLock::new();
    *BYTES.get_or_init(|| {
        // The thread's counters are open after the first one.
        Reading::now();
        let (first, second) = (Reading::now(), Reading::now());
        let counted = second.read_bytes.zip(first.read_bytes);
        counted.map_or(0, |(second, first)| second.saturating_sub(first))
    })
}

/// Minor and major faults of a process, from `/proc/self/stat`.
fn faults(stat: &str) -> Option<(u64, u64)> {
    // The name of the program, in parentheses, may hold spaces; the tenth and twelfth field are meant.
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_whitespace().collect();
    Some((fields.get(7)?.parse().ok()?, fields.get(9)?.parse().ok()?))
}

/// Bytes that calls of `read` gave, from `/proc/self/io`.
fn read_bytes(io: &str) -> Option<u64> {
    let line = io.lines().find_map(|line| line.strip_prefix("rchar:"))?;
    line.trim().parse().ok()
}

/// Measures phases one after the other. What lies between [`end`](Probe::end) and [`begin`](Probe::begin) belongs to none.
pub(super) struct Probe {
    from: Reading,
    started: Instant,
}

impl Probe {
    /// Begins a phase.
    pub(super) fn begin() -> Self {
        read_by_readings();
        let from = Reading::now();
        Probe {
            from,
            started: Instant::now(),
        }
    }

    /// Ends the phase.
    pub(super) fn end(&self) -> PhaseSample {
        let wall = self.started.elapsed();
        PhaseSample::Measured {
            wall_ns: u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX),
            resources: Reading::now().since(&self.from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn fields_are_found_behind_names_with_spaces() {
        let stat = "7 (a b) c) R 1 7 7 0 -1 4194304 123 0 45 0 6 7 0 0 20 0 1 0 5 6 7";
        assert_eq!(faults(stat), Some((123, 45)));
        assert_eq!(faults("no"), None);
        assert_eq!(read_bytes("wchar: 1\nrchar: 20\nsyscr: 3\n"), Some(20));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn bytes_are_those_of_others_reads() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[7; 100_000]).unwrap();
        let probe = Probe::begin();
        let read = std::fs::read(file.path()).unwrap();
        let PhaseSample::Measured { resources, .. } = probe.end() else {
            panic!("a probe measures");
        };
        let counted = resources.bytes_read.value().expect("Linux counts reads");
        // Other tests of this process read too, so only the lower end is exact.
        assert!(counted >= read.len() as u64, "{counted}");
        assert!(resources.minor_faults.value().is_some());
    }
}
