//! Runs and regions take nothing from the heap.
//!
//! Alone in its binary: the allocator counts what every thread of the process takes.

use onl_executor::{CpuExecutor, RegionSpec, RunOptions, WaitMode};
use onl_profiling::{Collector, RegionSite, region_site};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

static SITE: RegionSite = region_site!("test.allocation");

struct Counting;

static COUNTING: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

fn count() {
    if COUNTING.load(Ordering::Relaxed) {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: everything is left to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's obligation.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller's obligation.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's obligation.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(f: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    COUNTING.store(true, Ordering::Relaxed);
    f();
    COUNTING.store(false, Ordering::Relaxed);
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

#[test]
fn runs_and_regions_do_not_allocate() {
    let collector = Collector::new(100);
    for mode in [WaitMode::Latency, WaitMode::Balanced, WaitMode::Frugal] {
        let executor = CpuExecutor::with_wait_mode(3, mode);
        let work = |collector| {
            for _ in 0..20 {
                let options = RunOptions {
                    collector,
                    expects_regions: true,
                    hot_ns: 1.0,
                    cold_ns: 2.0,
                    ..RunOptions::default()
                };
                let run = executor.enter_with(options).expect("not forked");
                for total in [0, 1, 2, 50] {
                    let lanes = run.lanes().for_node(total as u32);
                    let spec = RegionSpec {
                        serial_ns: 1000,
                        ..RegionSpec::new(total, 1)
                    };
                    let nested = |_| {
                        let result = lanes.region(&SITE, RegionSpec::new(2, 1), |_| {});
                        assert!(result.is_ok());
                    };
                    assert!(lanes.region(&SITE, spec, nested).is_ok());
                }
            }
        };
        // A thread that starts allocates: every lane has to have come once.
        let meeting = Barrier::new(3);
        let met = executor
            .enter()
            .lanes()
            .region(&SITE, RegionSpec::new(3, 1), |_| {
                meeting.wait();
            });
        assert!(met.is_ok());
        assert_eq!(allocations(|| work(None)), 0, "{mode:?}");
        // The collector fills up in between: dropping allocates as little.
        assert_eq!(
            allocations(|| work(Some(&collector))),
            0,
            "{mode:?} recorded"
        );
    }
    assert_eq!(collector.len(), 100);
    assert!(!collector.dropped().is_none());
    assert!(allocations(|| drop(vec![1u8])) >= 2, "the allocator counts");
}
