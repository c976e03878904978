//! Systems without per-thread counters that this crate knows of.

use super::{COUNTERS, CounterReading, CounterSet, CounterStatus};

pub(super) fn read_this_thread(set: CounterSet) -> CounterReading {
    CounterReading::without(set, [CounterStatus::Unsupported; COUNTERS])
}
