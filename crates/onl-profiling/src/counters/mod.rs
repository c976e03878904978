//! Performance counters of single threads, and their sum over the lanes of a region.
//!
//! A thread that asks for a [`CounterReading`] gets a group of four counters of its own, which the system starts and
//! stops together. The difference of two readings is a [`CounterSample`]. What could not be counted has a status
//! instead of a count: no sample contains a zero that nobody counted.

#[cfg(target_os = "linux")]
#[path = "group.rs"]
mod system;
#[cfg(not(target_os = "linux"))]
#[path = "unsupported.rs"]
mod system;

use serde::{Deserialize, Serialize, Serializer};
use std::fmt;

/// Counters of a group.
pub const COUNTERS: usize = 4;

/// Whether a count is one, or why it is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CounterStatus {
    /// Counted over the whole interval.
    Valid,
    /// Nothing was counting: nobody asked, or the system had no descriptor or memory left for the counters.
    Disabled,
    /// This system or processor does not count the event, or not together with the others.
    Unsupported,
    /// The system counts the event, but not for this process (`perf_event_paranoid`, capabilities, a sandbox).
    PermissionDenied,
    /// Others held the processor's counters for a part of the interval; the count would be an estimate.
    Multiplexed,
    /// Some of several counts are valid and others are not, or they are missing for different reasons.
    Partial,
}

impl CounterStatus {
    /// Every status.
    pub const ALL: [CounterStatus; 6] = [
        CounterStatus::Valid,
        CounterStatus::Disabled,
        CounterStatus::Unsupported,
        CounterStatus::PermissionDenied,
        CounterStatus::Multiplexed,
        CounterStatus::Partial,
    ];

    /// Name used in files and tables.
    pub const fn name(self) -> &'static str {
        match self {
            CounterStatus::Valid => "valid",
            CounterStatus::Disabled => "disabled",
            CounterStatus::Unsupported => "unsupported",
            CounterStatus::PermissionDenied => "permission_denied",
            CounterStatus::Multiplexed => "multiplexed",
            CounterStatus::Partial => "partial",
        }
    }

    /// Status of two counts taken as one: the common status of both, else [`Partial`](CounterStatus::Partial).
    fn and(self, other: CounterStatus) -> CounterStatus {
        if self == other {
            self
        } else {
            CounterStatus::Partial
        }
    }
}

impl fmt::Display for CounterStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Which events a group counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CounterSet {
    /// Core cycles, retired instructions, references to the last-level cache and misses of it, all in user mode only.
    ///
    /// On Intel processors the cache events are the architectural ones (LLC Reference, LLC Misses). Elsewhere the
    /// system's generic cache events count another level (L2 on AMD, L1 on Arm), so only its last-level read events
    /// are taken, and where these are absent the two counts are *unsupported*.
    Hardware,
    /// Nanoseconds on a processor, page faults raised in user mode, context switches, and migrations between
    /// processors. The system counts the last two for processes only that may observe the kernel.
    Software,
}

impl CounterSet {
    /// Every set.
    pub const ALL: [CounterSet; 2] = [CounterSet::Hardware, CounterSet::Software];

    /// Name used in files and tables.
    pub const fn name(self) -> &'static str {
        match self {
            CounterSet::Hardware => "hardware",
            CounterSet::Software => "software",
        }
    }

    /// Names of the counts, in the order in which samples hold them.
    pub const fn names(self) -> [&'static str; COUNTERS] {
        match self {
            CounterSet::Hardware => ["cycles", "instructions", "llc_references", "llc_misses"],
            CounterSet::Software => [
                "task_clock_ns",
                "page_faults",
                "context_switches",
                "cpu_migrations",
            ],
        }
    }
}

impl fmt::Display for CounterSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Counts over one interval, of one lane or summed over lanes, each with its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterSample {
    /// 0 where the status is not valid.
    counts: [u64; COUNTERS],
    statuses: [CounterStatus; COUNTERS],
}

impl CounterSample {
    /// A sample without any count, for the given reason. A sample without counts cannot be valid:
    /// [`Valid`](CounterStatus::Valid) is taken as [`Disabled`](CounterStatus::Disabled).
    pub const fn without(reason: CounterStatus) -> Self {
        let status = match reason {
            CounterStatus::Valid => CounterStatus::Disabled,
            missing => missing,
        };
        CounterSample {
            counts: [0; COUNTERS],
            statuses: [status; COUNTERS],
        }
    }

    /// Valid when all counts are; the common reason when all are missing for the same one; else
    /// [`Partial`](CounterStatus::Partial), in which case [`values`](Self::values) may still hold some.
    pub fn status(&self) -> CounterStatus {
        let [first, rest @ ..] = self.statuses;
        rest.into_iter().fold(first, CounterStatus::and)
    }

    /// Status of each count, in the order of [`CounterSet::names`].
    pub const fn statuses(&self) -> [CounterStatus; COUNTERS] {
        self.statuses
    }

    /// The counts, in the order of [`CounterSet::names`]; `None` where the status is not valid. Those present cover
    /// the same interval, so their ratios mean something.
    pub fn values(&self) -> [Option<u64>; COUNTERS] {
        std::array::from_fn(|i| {
            (self.statuses[i] == CounterStatus::Valid).then_some(self.counts[i])
        })
    }

    /// Sum over lanes, count by count: valid when that count of every lane is, the common reason when it is missing
    /// everywhere for the same one, else [`Partial`](CounterStatus::Partial). Without lanes,
    /// [`Disabled`](CounterStatus::Disabled). The samples must be of the same [`CounterSet`].
    pub fn sum(samples: impl IntoIterator<Item = CounterSample>) -> CounterSample {
        samples
            .into_iter()
            .reduce(CounterSample::add)
            .unwrap_or(CounterSample::without(CounterStatus::Disabled))
    }

    fn add(mut self, other: CounterSample) -> CounterSample {
        for i in 0..COUNTERS {
            let sum = self.counts[i].checked_add(other.counts[i]);
            let mut status = self.statuses[i].and(other.statuses[i]);
            if sum.is_none() {
                status = CounterStatus::Partial;
            }
            self.set(i, status, sum.unwrap_or(0));
        }
        self
    }

    fn set(&mut self, i: usize, status: CounterStatus, count: u64) {
        self.statuses[i] = status;
        self.counts[i] = if status == CounterStatus::Valid {
            count
        } else {
            0
        };
    }
}

impl Serialize for CounterSample {
    /// `{"status": …, "statuses": [four], "values": [four]}`, a missing count being null.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename = "CounterSample")]
        struct View {
            status: CounterStatus,
            statuses: [CounterStatus; COUNTERS],
            values: [Option<u64>; COUNTERS],
        }
        View {
            status: self.status(),
            statuses: self.statuses,
            values: self.values(),
        }
        .serialize(serializer)
    }
}

/// The running counts of one thread's group at a moment. Only the difference of two readings means anything.
#[derive(Debug, Clone, Copy)]
pub struct CounterReading {
    set: CounterSet,
    /// The system's number of the group, never used twice until it restarts; 0 when nothing was counting.
    group: u64,
    /// Nanoseconds that the thread ran while the group was on.
    enabled_ns: u64,
    /// Those of them in which the group really counted.
    running_ns: u64,
    counts: [u64; COUNTERS],
    /// Whether each count exists; [`CounterStatus::Valid`] only together with a group.
    statuses: [CounterStatus; COUNTERS],
}

impl CounterReading {
    /// Reads the calling thread's group, opening it at the thread's first reading of the set. Later readings take one
    /// system call, or none when the group has no counters, and do not allocate.
    ///
    /// What could not be opened is remembered, not retried. The group is closed when its thread ends. After `fork` the
    /// child opens a group of its own.
    pub fn of_this_thread(set: CounterSet) -> Self {
        system::read_this_thread(set)
    }

    /// What was counted after `earlier` and up to this reading.
    ///
    /// [`Multiplexed`](CounterStatus::Multiplexed) when the group did not count all the time in between;
    /// [`Partial`](CounterStatus::Partial) when the readings are of two groups (two threads, two processes, two sets)
    /// or stand in the wrong order. Hardware counters that show no cycle or no instruction of a thread that ran are
    /// stubs of a hypervisor: their zeros are [`Unsupported`](CounterStatus::Unsupported).
    pub fn since(&self, earlier: &CounterReading) -> CounterSample {
        let mut sample = CounterSample::without(CounterStatus::Partial);
        let same_group = self.group == earlier.group && self.set == earlier.set;
        let enabled = self.enabled_ns.checked_sub(earlier.enabled_ns);
        let running = self.running_ns.checked_sub(earlier.running_ns);
        for i in 0..COUNTERS {
            let status = self.statuses[i].and(earlier.statuses[i]);
            let count = self.counts[i].checked_sub(earlier.counts[i]);
            match (status, count) {
                (CounterStatus::Valid, Some(count)) if same_group && enabled.is_some() => {
                    let status = if running == enabled {
                        CounterStatus::Valid
                    } else {
                        CounterStatus::Multiplexed
                    };
                    sample.set(i, status, count);
                }
                (CounterStatus::Valid, _) => {}
                (missing, _) => sample.set(i, missing, 0),
            }
        }
        let ran = enabled.is_some_and(|nanoseconds| nanoseconds > 0);
        if self.set == CounterSet::Hardware && ran && sample.values()[..2].contains(&Some(0)) {
            for i in 0..COUNTERS {
                if sample.values()[i] == Some(0) {
                    sample.set(i, CounterStatus::Unsupported, 0);
                }
            }
        }
        sample
    }

    /// A reading where nothing counts.
    fn without(set: CounterSet, statuses: [CounterStatus; COUNTERS]) -> Self {
        CounterReading {
            set,
            group: 0,
            enabled_ns: 0,
            running_ns: 0,
            counts: [0; COUNTERS],
            statuses,
        }
    }
}

#[cfg(test)]
mod tests;
