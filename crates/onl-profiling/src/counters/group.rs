//! Counter groups of Linux: `perf_event_open(2)` through the `perf-event` crate.

use super::{COUNTERS, CounterReading, CounterSet, CounterStatus};
use perf_event::events::{Cache, CacheOp, CacheResult, Event, Hardware, Software, WhichCache};
use perf_event::{Builder, Counter, Group};
use std::cell::RefCell;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words in front of the counts of a group: their number, the time enabled, the time running.
const HEADER: usize = 3;
/// A group's own placeholder event and its counters, each a count and the id of its event.
const WORDS: usize = HEADER + 2 * (1 + COUNTERS);

/// Forks between the first process that opened a group and this one.
static FORKS: AtomicU64 = AtomicU64::new(0);

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Begins to count forks.
fn watch_forks() -> io::Result<()> {
    static RESULT: OnceLock<libc::c_int> = OnceLock::new();
    let result = *RESULT.get_or_init(|| {
        // SAFETY: the handler only adds to an atomic, which is allowed in a forked child.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) }
    });
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(result))
    }
}

thread_local! {
    static GROUPS: RefCell<[Option<ThreadGroup>; CounterSet::ALL.len()]> =
        const { RefCell::new([None, None]) };
}

pub(super) fn read_this_thread(set: CounterSet) -> CounterReading {
    let process = FORKS.load(Ordering::Relaxed);
    GROUPS
        .try_with(|groups| {
            let mut groups = groups.try_borrow_mut().ok()?;
            let slot = &mut groups[set as usize];
            let group = match slot {
                Some(group) if group.process == process => group,
                // None yet, or the group of the thread that forked this process.
                _ => slot.insert(ThreadGroup::open(set, process)),
            };
            Some(group.read())
        })
        .ok()
        .flatten()
        // The thread is ending and its groups are closed.
        .unwrap_or(CounterReading::without(
            set,
            [CounterStatus::Disabled; COUNTERS],
        ))
}

/// The counters of one thread for one set, or why there are none.
struct ThreadGroup {
    /// [`FORKS`] of the process that opened it: another one must not read what its parent's thread does.
    process: u64,
    set: CounterSet,
    statuses: [CounterStatus; COUNTERS],
    opened: Option<OpenedGroup>,
}

/// At least one counter. A counter leaves its group when it is dropped.
struct OpenedGroup {
    group: Group,
    counters: [Option<Counter>; COUNTERS],
}

impl ThreadGroup {
    fn open(set: CounterSet, process: u64) -> Self {
        let mut statuses = [CounterStatus::Disabled; COUNTERS];
        let opened = OpenedGroup::open(set, &mut statuses).unwrap_or_else(|error| {
            statuses = [reason(&error); COUNTERS];
            None
        });
        ThreadGroup {
            process,
            set,
            statuses,
            opened,
        }
    }

    fn read(&self) -> CounterReading {
        let missing = CounterReading::without(self.set, self.statuses);
        let Some(opened) = &self.opened else {
            return missing;
        };
        opened.read(missing).unwrap_or_else(|| {
            // Someone closed the descriptor.
            CounterReading::without(self.set, [CounterStatus::Disabled; COUNTERS])
        })
    }
}

impl OpenedGroup {
    /// Opens what the system allows and writes the status of every counter; `None` when it allows none of them.
    fn open(
        set: CounterSet,
        statuses: &mut [CounterStatus; COUNTERS],
    ) -> io::Result<Option<OpenedGroup>> {
        watch_forks()?;
        let mut group = Group::new()?;
        close_on_exec(&group)?;
        let mut counters = [const { None }; COUNTERS];
        for (i, (event, in_kernel)) in events(set).into_iter().enumerate() {
            let mut builder = Builder::new().group(&mut group).kind(event);
            builder.exclude_kernel(!in_kernel);
            match builder.build() {
                Ok(counter) => {
                    close_on_exec(&counter)?;
                    counters[i] = Some(counter);
                    statuses[i] = CounterStatus::Valid;
                }
                Err(error) => statuses[i] = reason(&error),
            }
        }
        if counters.iter().all(Option::is_none) {
            return Ok(None);
        }
        group.enable()?;
        Ok(Some(OpenedGroup { group, counters }))
    }

    /// Fills `reading` with the counts of the moment; `None` when the system gives something else than this group.
    fn read(&self, mut reading: CounterReading) -> Option<CounterReading> {
        let mut words = [0u64; WORDS];
        // SAFETY: the buffer is valid for writes of its own size, which bounds the call, and every value is a valid u64.
        let bytes = unsafe {
            libc::read(
                self.group.as_raw_fd(),
                words.as_mut_ptr().cast(),
                size_of_val(&words),
            )
        };
        let [members, enabled, running, pairs @ ..] = &words;
        let opened = self.counters.iter().flatten().count();
        let expected = (HEADER + 2 * (1 + opened)) * size_of::<u64>();
        if bytes != expected as isize || *members != 1 + opened as u64 {
            return None;
        }
        reading.group = pairs[1];
        reading.enabled_ns = *enabled;
        reading.running_ns = *running;
        let (pairs, _) = pairs.as_chunks::<2>();
        for (i, counter) in self.counters.iter().enumerate() {
            if let Some(counter) = counter {
                let [count, _] = pairs[1..=opened]
                    .iter()
                    .find(|[_, id]| *id == counter.id())?;
                reading.counts[i] = *count;
            }
        }
        Some(reading)
    }
}

/// The events of a set, and whether they must be counted in the kernel too.
fn events(set: CounterSet) -> [(Event, bool); COUNTERS] {
    match set {
        CounterSet::Hardware => {
            let [references, misses] = last_level_cache();
            [
                (Hardware::CPU_CYCLES.into(), false),
                (Hardware::INSTRUCTIONS.into(), false),
                (references, false),
                (misses, false),
            ]
        }
        // The scheduler raises the last two in kernel mode: counted in user mode only, they would always be zero.
        CounterSet::Software => [
            (Software::TASK_CLOCK.into(), false),
            (Software::PAGE_FAULTS.into(), false),
            (Software::CONTEXT_SWITCHES.into(), true),
            (Software::CPU_MIGRATIONS.into(), true),
        ],
    }
}

/// References to the last-level cache and misses of it.
fn last_level_cache() -> [Event; 2] {
    if generic_cache_events_are_last_level() {
        return [
            Hardware::CACHE_REFERENCES.into(),
            Hardware::CACHE_MISSES.into(),
        ];
    }
    [CacheResult::ACCESS, CacheResult::MISS].map(|result| {
        Event::from(Cache {
            which: WhichCache::LL,
            operation: CacheOp::READ,
            result,
        })
    })
}

/// Whether `PERF_COUNT_HW_CACHE_REFERENCES` and `_MISSES` count the last-level cache: on Intel they are the
/// architectural events 2EH/4FH and 2EH/41H (Intel SDM, volume 3, performance monitoring).
#[cfg(target_arch = "x86_64")]
fn generic_cache_events_are_last_level() -> bool {
    let leaf = std::arch::x86_64::__cpuid(0);
    let vendor = [leaf.ebx, leaf.edx, leaf.ecx].map(u32::to_le_bytes);
    vendor.as_flattened() == b"GenuineIntel"
}

#[cfg(not(target_arch = "x86_64"))]
fn generic_cache_events_are_last_level() -> bool {
    false
}

/// Keeps programs that this process starts from inheriting the descriptor.
fn close_on_exec(descriptor: &impl AsRawFd) -> io::Result<()> {
    // SAFETY: the descriptor is open, and the command takes an integer and touches no memory.
    let result = unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Why `perf_event_open` failed.
fn reason(error: &io::Error) -> CounterStatus {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => CounterStatus::PermissionDenied,
        // EINVAL, and ENOSPC before Linux 3.3: the processor cannot count the event beside the others of its group.
        Some(
            libc::ENOENT
            | libc::ENODEV
            | libc::ENXIO
            | libc::EOPNOTSUPP
            | libc::ENOSYS
            | libc::EINVAL
            | libc::ENOSPC
            | libc::E2BIG,
        ) => CounterStatus::Unsupported,
        // Another event holds the counters exclusively.
        Some(libc::EBUSY) => CounterStatus::Multiplexed,
        // No descriptor or memory left.
        _ => CounterStatus::Disabled,
    }
}
