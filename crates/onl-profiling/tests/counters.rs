//! Counters against the real system, and against systems played by intercepted system calls.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods)] // groups belong to threads, and tests need some of their own

use onl_profiling::CounterStatus::{
    Disabled, Multiplexed, Partial, PermissionDenied, Unsupported, Valid,
};
use onl_profiling::{CounterReading, CounterSample, CounterSet, CounterStatus};
use perf_event::hooks::sys::bindings as perf;
use perf_event::hooks::{Hooks, RealHooks, set_thread_hooks};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::{c_int, c_uint, c_ulong};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

const TASK_CLOCK: usize = 0;
const PAGE_FAULTS: usize = 1;
const CONTEXT_SWITCHES: usize = 2;
const CPU_MIGRATIONS: usize = 3;
/// Faults that an interval may have besides those of the test: its stack, its code, lazily bound symbols.
const OTHER_FAULTS: u64 = 64;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Counts the allocations of each thread.
struct CountingAllocator;

// SAFETY: every call goes to the system's allocator unchanged; the count lives in storage that needs no allocation.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's obligations are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's obligations are those of the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn on_own_thread<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(body).join()).unwrap_or_else(|panic| {
        std::panic::resume_unwind(panic);
    })
}

/// Whether the system refuses every counter to this process, as sandboxes do; says so.
fn refused(sample: &CounterSample) -> bool {
    let refused = sample.statuses()[TASK_CLOCK] != Valid;
    if refused {
        eprintln!("this system counts no software events here: {sample:?}");
        assert!(
            [PermissionDenied, Unsupported].contains(&sample.status()),
            "software events of a willing system: {sample:?}"
        );
    }
    refused
}

/// Memory whose pages the system makes one by one, each at its first touch.
struct FreshPages {
    start: *mut u8,
    pages: usize,
    page: usize,
}

impl FreshPages {
    fn map(pages: usize) -> Self {
        // SAFETY: reads a constant of the system.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        // SAFETY: a new private mapping at an address of the system's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                pages * page,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(start, libc::MAP_FAILED, "mmap");
        // SAFETY: the range is the mapping made above. Systems without huge pages refuse, and need no advice.
        unsafe { libc::madvise(start, pages * page, libc::MADV_NOHUGEPAGE) };
        FreshPages {
            start: start.cast(),
            pages,
            page,
        }
    }

    fn touch(&self) {
        for i in 0..self.pages {
            // SAFETY: the offset lies in the mapping, which is writable and shared with nobody.
            unsafe { self.start.add(i * self.page).write_volatile(1) };
        }
    }
}

impl Drop for FreshPages {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own and no reference to it remains.
        unsafe { libc::munmap(self.start.cast(), self.pages * self.page) };
    }
}

fn software() -> CounterReading {
    CounterReading::of_this_thread(CounterSet::Software)
}

fn counted(set: CounterSet, body: impl FnOnce()) -> CounterSample {
    let start = CounterReading::of_this_thread(set);
    body();
    CounterReading::of_this_thread(set).since(&start)
}

/// Software counts of a fresh thread that touches fresh pages.
fn counted_faults(pages: usize) -> CounterSample {
    on_own_thread(|| {
        let memory = FreshPages::map(pages);
        counted(CounterSet::Software, || memory.touch())
    })
}

fn spin(duration: Duration) {
    let start = Instant::now();
    while start.elapsed() < duration {
        std::hint::spin_loop();
    }
}

fn assert_faults(sample: &CounterSample, pages: u64) {
    let faults = sample.values()[PAGE_FAULTS].expect("page faults are counted");
    assert!(
        (pages..=pages + OTHER_FAULTS).contains(&faults),
        "{faults} faults for {pages} pages"
    );
}

#[test]
fn page_faults_are_those_of_the_interval() {
    for pages in [1, 100, 1000] {
        let sample = counted_faults(pages);
        if refused(&sample) {
            return;
        }
        assert_faults(&sample, pages as u64);
        assert!(sample.values()[TASK_CLOCK].unwrap() > 0);
    }
    on_own_thread(|| {
        let memory = FreshPages::map(500);
        let start = software();
        memory.touch();
        let middle = software();
        memory.touch();
        let end = software();
        assert_faults(&middle.since(&start), 500);
        assert_faults(&end.since(&middle), 0);
        assert_faults(&end.since(&start), 500);
    });
}

#[test]
fn counts_of_a_group_cover_one_interval() {
    on_own_thread(|| {
        let start = software();
        let memory = FreshPages::map(300);
        let mut parts = Vec::new();
        let mut last = start;
        for _ in 0..20 {
            memory.touch();
            std::thread::sleep(Duration::from_micros(100));
            let now = software();
            parts.push(now.since(&last));
            last = now;
        }
        let whole = last.since(&start);
        if refused(&whole) {
            return;
        }
        // Consecutive intervals share their ends, so every counter's parts make exactly its whole.
        assert_eq!(CounterSample::sum(parts), whole);
    });
}

#[test]
fn sleeping_switches_contexts() {
    let sample = on_own_thread(|| {
        counted(CounterSet::Software, || {
            for _ in 0..5 {
                std::thread::sleep(Duration::from_millis(2));
            }
        })
    });
    if refused(&sample) {
        return;
    }
    match (
        sample.statuses()[CONTEXT_SWITCHES],
        sample.values()[CONTEXT_SWITCHES],
    ) {
        (Valid, Some(switches)) => assert!(switches >= 5, "{switches} switches in 5 sleeps"),
        (PermissionDenied, None) => {
            eprintln!("this process may not observe the kernel: {sample:?}");
            let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
            assert!(paranoid.trim().parse::<i32>().unwrap() >= 2);
            assert_eq!(sample.status(), Partial);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn lanes_sum_when_all_are_valid() {
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(|| counted_faults(300));
        let second = scope.spawn(|| counted_faults(700));
        (first.join().unwrap(), second.join().unwrap())
    });
    if refused(&first) || refused(&second) {
        return;
    }
    let sum = CounterSample::sum([first, second]);
    let faults = sum.values()[PAGE_FAULTS].unwrap();
    assert!(
        (1000..=1000 + 2 * OTHER_FAULTS).contains(&faults),
        "{faults}"
    );

    let missing = CounterSample::sum([first, CounterSample::without(Unsupported), second]);
    assert_eq!(missing.status(), Partial);
    assert_eq!(missing.values(), [None; 4]);
}

#[test]
fn readings_of_two_threads_make_no_interval() {
    let here = software();
    let there = on_own_thread(software);
    let again = software();
    if refused(&again.since(&here)) {
        return;
    }
    assert_eq!(there.since(&here).statuses()[TASK_CLOCK], Partial);
    assert_eq!(here.since(&there).statuses()[TASK_CLOCK], Partial);
}

#[test]
fn second_group_leaves_the_first_one_its_counts() {
    on_own_thread(|| {
        let memory = FreshPages::map(200);
        let start = software();
        let _hardware = CounterReading::of_this_thread(CounterSet::Hardware);
        memory.touch();
        let sample = software().since(&start);
        if refused(&sample) {
            return;
        }
        // Opening a group may stop the others of the thread for a moment, which the first one then says.
        match sample.statuses()[PAGE_FAULTS] {
            Valid => assert_faults(&sample, 200),
            status => assert_eq!(status, Multiplexed),
        }
    });
}

/// Whether the kernel drives a performance monitoring unit of the processor's cores.
fn has_core_pmu() -> bool {
    let Ok(devices) = std::fs::read_dir(Path::new("/sys/bus/event_source/devices")) else {
        return false;
    };
    devices.flatten().any(|device| {
        let name = device.file_name().to_string_lossy().into_owned();
        // x86 has `cpu`, or `cpu_core` and `cpu_atom`; Arm has `armv8_pmuv3_0` or `armv8_cortex_a76`.
        name == "cpu" || name.starts_with("cpu_") || name.starts_with("armv8")
    })
}

#[test]
fn hardware_counters_tell_what_the_system_has() {
    let (hardware, software) = on_own_thread(|| {
        (
            counted(CounterSet::Hardware, || spin(Duration::from_millis(2))),
            counted(CounterSet::Software, || {}),
        )
    });
    eprintln!("core PMU: {}, counted: {hardware:?}", has_core_pmu());
    for (name, (status, value)) in CounterSet::Hardware
        .names()
        .into_iter()
        .zip(hardware.statuses().into_iter().zip(hardware.values()))
    {
        assert_eq!(status == Valid, value.is_some(), "{name}");
    }
    if refused(&software) {
        assert_eq!(hardware.status(), software.status());
    } else if !has_core_pmu() {
        assert_eq!(hardware, CounterSample::without(Unsupported));
    } else {
        match hardware.statuses()[0] {
            Valid => assert!(hardware.values()[0].unwrap() > 0),
            status => assert!(
                [Multiplexed, PermissionDenied, Unsupported].contains(&status),
                "{status}"
            ),
        }
    }
}

#[test]
fn reading_allocates_nothing_once_the_group_is_open() {
    for set in CounterSet::ALL {
        on_own_thread(|| {
            let start = CounterReading::of_this_thread(set);
            let before = ALLOCATIONS.get();
            let mut sum = CounterSample::without(Disabled);
            let mut last = start;
            for _ in 0..1000 {
                let now = CounterReading::of_this_thread(set);
                sum = CounterSample::sum([sum, now.since(&last)]);
                last = now;
            }
            assert_eq!(ALLOCATIONS.get() - before, 0, "{set}");
            std::hint::black_box(sum);

            let mut batches: Vec<Duration> = (0..301)
                .map(|_| {
                    let clock = Instant::now();
                    for _ in 0..100 {
                        std::hint::black_box(CounterReading::of_this_thread(set));
                    }
                    clock.elapsed() / 100
                })
                .collect();
            batches.sort_unstable();
            let each = batches[batches.len() / 2];
            eprintln!(
                "a reading of the {set} set takes {each:?}: {:?}",
                last.since(&start)
            );
        });
    }
}

/// A `perf_event_open` made of a closure that may change the event and its processor, or return an error number.
struct Interposed<F>(F);

impl<F: FnMut(&mut perf::perf_event_attr, &mut c_int) -> c_int> Hooks for Interposed<F> {
    unsafe fn perf_event_open(
        &mut self,
        event: *mut perf::perf_event_attr,
        pid: libc::pid_t,
        mut cpu: c_int,
        group: c_int,
        flags: c_ulong,
    ) -> c_int {
        // SAFETY: the caller gives a pointer to its own description of the event.
        let error = (self.0)(unsafe { &mut *event }, &mut cpu);
        if error != 0 {
            // SAFETY: the address of this thread's own error number.
            unsafe { *libc::__errno_location() = error };
            return -1;
        }
        // SAFETY: the caller's obligations are those of the real call; another processor or event changes none.
        unsafe { RealHooks.perf_event_open(event, pid, cpu, group, flags) }
    }

    unsafe fn ENABLE(&mut self, descriptor: c_int, argument: c_uint) -> c_int {
        // SAFETY: the caller's obligations are those of the real call.
        unsafe { RealHooks.ENABLE(descriptor, argument) }
    }

    unsafe fn ID(&mut self, descriptor: c_int, id: *mut u64) -> c_int {
        // SAFETY: the caller's obligations are those of the real call.
        unsafe { RealHooks.ID(descriptor, id) }
    }
}

/// Directs the `perf_event_open` of this thread, which must end with the test, to `body`.
fn interpose(body: impl FnMut(&mut perf::perf_event_attr, &mut c_int) -> c_int + 'static) {
    // SAFETY: the thread has no counters yet, and its hooks pass all calls on descriptors to the system.
    unsafe { set_thread_hooks(Box::new(Interposed(body))) };
}

/// Moves the calling thread to a processor.
fn move_to(cpu: usize) {
    // SAFETY: an all-zero set is a valid empty one; the call reads it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &set), 0);
    }
}

/// Processors that the calling thread may run on.
fn allowed_cpus() -> Vec<usize> {
    // SAFETY: an all-zero set is valid and the call writes no more than its size; indices stay below its length.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of_val(&set), &mut set) != 0 {
            return Vec::new();
        }
        (0..libc::CPU_SETSIZE as usize)
            .filter(|&cpu| libc::CPU_ISSET(cpu, &set))
            .collect()
    }
}

/// A group that counts on one processor only is on while its thread runs elsewhere, but does not count: to the reader
/// that is what a group is that had to leave its counters to another one.
#[test]
fn time_off_the_counters_makes_an_interval_multiplexed() {
    on_own_thread(|| {
        let &[here, there, ..] = allowed_cpus().as_slice() else {
            eprintln!("one processor: nowhere to go");
            return;
        };
        interpose(move |_, cpu| {
            *cpu = here as c_int;
            0
        });
        move_to(here);
        let start = software();
        spin(Duration::from_millis(1));
        let counting = software();
        if refused(&counting.since(&start)) {
            return;
        }
        move_to(there);
        let moved = software();
        spin(Duration::from_millis(1));
        let away = software();
        move_to(here);
        let returned = software();
        spin(Duration::from_millis(1));
        let end = software();

        let status = |later: &CounterReading, earlier| later.since(earlier).statuses()[TASK_CLOCK];
        assert_eq!(status(&counting, &start), Valid, "on its processor");
        assert_eq!(status(&away, &moved), Multiplexed, "on another one");
        assert_eq!(
            status(&returned, &counting),
            Multiplexed,
            "partly on another one"
        );
        assert_eq!(status(&end, &returned), Valid, "back on its processor");
        assert_eq!(status(&end, &start), Multiplexed, "all of it");
        assert_eq!(end.since(&start).values()[TASK_CLOCK], None);

        let lanes = [end.since(&returned), away.since(&moved)];
        assert_eq!(CounterSample::sum(lanes).statuses()[TASK_CLOCK], Partial);
        let lanes = [away.since(&moved), away.since(&moved)];
        assert_eq!(
            CounterSample::sum(lanes).statuses()[TASK_CLOCK],
            Multiplexed
        );
    });
}

fn is_hardware(event: &perf::perf_event_attr) -> bool {
    event.type_ == perf::PERF_TYPE_HARDWARE || event.type_ == perf::PERF_TYPE_HW_CACHE
}

fn become_software(event: &mut perf::perf_event_attr, kind: u32) {
    event.type_ = perf::PERF_TYPE_SOFTWARE;
    event.config = u64::from(kind);
}

/// Whether software events can be opened at all, without which the played systems have nothing to play with.
fn system_counts() -> bool {
    !refused(&on_own_thread(|| counted(CounterSet::Software, || {})))
}

#[test]
fn failures_to_open_have_their_reasons() {
    let cases = [
        (libc::EACCES, PermissionDenied),
        (libc::EPERM, PermissionDenied),
        (libc::ENOENT, Unsupported),
        (libc::ENODEV, Unsupported),
        (libc::EOPNOTSUPP, Unsupported),
        (libc::ENOSYS, Unsupported),
        (libc::EINVAL, Unsupported),
        (libc::EBUSY, Multiplexed),
        (libc::EMFILE, Disabled),
        (libc::ENFILE, Disabled),
        (libc::ENOMEM, Disabled),
    ];
    let counts = system_counts();
    for (error, expected) in cases {
        for whole_call in [true, false] {
            if !whole_call && !counts {
                continue;
            }
            let sample = on_own_thread(move || {
                interpose(move |event, _| {
                    if whole_call || is_hardware(event) {
                        error
                    } else {
                        0
                    }
                });
                counted(CounterSet::Hardware, || {})
            });
            assert_eq!(
                sample,
                CounterSample::without(expected),
                "error {error}, of every event: {whole_call}"
            );
        }
    }
}

/// The processor of this test counts cycles and instructions (played by two clocks), not its last-level cache.
#[test]
fn counts_stay_valid_beside_unsupported_ones() {
    if !system_counts() {
        return;
    }
    let sample = on_own_thread(|| {
        let mut opened = 0;
        interpose(move |event, _| {
            opened += 1;
            match opened {
                1 => 0, // the group itself
                2 => {
                    become_software(event, perf::PERF_COUNT_SW_TASK_CLOCK);
                    0
                }
                3 => {
                    become_software(event, perf::PERF_COUNT_SW_CPU_CLOCK);
                    0
                }
                _ => libc::ENOENT,
            }
        });
        counted(CounterSet::Hardware, || spin(Duration::from_millis(1)))
    });
    assert_eq!(sample.statuses(), [Valid, Valid, Unsupported, Unsupported]);
    assert_eq!(sample.status(), Partial);
    let [cycles, instructions, references, misses] = sample.values();
    assert!(
        cycles.unwrap() > 0 && instructions.unwrap() > 0,
        "{sample:?}"
    );
    assert_eq!((references, misses), (None, None));
}

/// Hypervisors exist whose counters can be opened and stay at zero.
#[test]
fn counters_that_never_count_are_unsupported() {
    if !system_counts() {
        return;
    }
    let sample = on_own_thread(|| {
        interpose(|event, _| {
            if is_hardware(event) {
                become_software(event, perf::PERF_COUNT_SW_DUMMY);
            }
            0
        });
        counted(CounterSet::Hardware, || spin(Duration::from_millis(1)))
    });
    assert_eq!(sample, CounterSample::without(Unsupported));
}

/// As for an ordinary user at `perf_event_paranoid` 2.
#[test]
fn events_of_the_kernel_may_be_denied_alone() {
    if !system_counts() {
        return;
    }
    let sample = on_own_thread(|| {
        interpose(|event, _| {
            if event.exclude_kernel() == 0 {
                libc::EACCES
            } else {
                0
            }
        });
        let memory = FreshPages::map(100);
        counted(CounterSet::Software, || memory.touch())
    });
    assert_faults(&sample, 100);
    assert_eq!(sample.statuses()[CONTEXT_SWITCHES], PermissionDenied);
    assert_eq!(sample.statuses()[CPU_MIGRATIONS], PermissionDenied);
    assert_eq!(sample.status(), Partial);
}

#[test]
fn failure_is_not_tried_again() {
    let statuses: [CounterStatus; 2] = on_own_thread(|| {
        let calls = Rc::new(Cell::new(0));
        let counter = Rc::clone(&calls);
        interpose(move |_, _| {
            counter.set(counter.get() + 1);
            libc::EACCES
        });
        let first = counted(CounterSet::Hardware, || {});
        let tried = calls.get();
        let second = counted(CounterSet::Hardware, || {});
        assert_eq!(calls.get(), tried);
        assert_eq!(tried, 1);
        [first.status(), second.status()]
    });
    assert_eq!(statuses, [PermissionDenied; 2]);
}

#[test]
fn forked_process_counts_for_itself() {
    on_own_thread(|| {
        let memory = FreshPages::map(200);
        let parent = software();
        if refused(&software().since(&parent)) {
            return;
        }
        // SAFETY: the child of this thread reads counters, touches its own memory and leaves without unwinding or
        // running the parent's exit handlers; the system's allocator can be used in a forked child.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "fork");
        if child == 0 {
            let start = software();
            memory.touch();
            let sample = software().since(&start);
            let foreign = start.since(&parent).statuses()[TASK_CLOCK];
            let counted = sample.values()[PAGE_FAULTS]
                .is_some_and(|faults| (200..=200 + OTHER_FAULTS).contains(&faults));
            let code = match (counted, foreign) {
                (true, Partial) => 0,
                (false, _) => 1,
                (true, _) => 2,
            };
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(code) };
        }
        let mut status = 0;
        // SAFETY: waits for the child made above, writing its status.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert!(libc::WIFEXITED(status), "{status}");
        assert_eq!(
            libc::WEXITSTATUS(status),
            0,
            "1: the child's faults are not counted, 2: its counts continue the parent's"
        );
        // The parent's group goes on.
        assert_eq!(software().since(&parent).statuses()[TASK_CLOCK], Valid);
    });
}
