//! A race that `cargo xtask test-threads` must find, so that finding none elsewhere means something.

use onl_executor::{CpuExecutor, RegionSpec};
use onl_profiling::{RegionSite, region_site};
use std::cell::UnsafeCell;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};

static SITE: RegionSite = region_site!("test.race");

struct Shared(UnsafeCell<u64>);

// SAFETY: untrue, which is what the test is for.
unsafe impl Sync for Shared {}

impl Shared {
    fn add_one(&self) {
        // SAFETY: in bounds and aligned; the race is planted.
        unsafe { *self.0.get() += black_box(1) }
    }
}

#[test]
#[ignore = "has undefined behaviour, for the thread sanitizer to find"]
fn chunks_that_share_memory() {
    let executor = CpuExecutor::with_lanes(2);
    let run = executor.enter();
    let shared = Shared(UnsafeCell::new(0));
    let arrived = AtomicUsize::new(0);
    let spec = RegionSpec::new(2, 1);
    let result = run.lanes().region(&SITE, spec, |_| {
        // Both chunks run at the same time, on two lanes; a relaxed counter orders nothing.
        arrived.fetch_add(1, Ordering::Relaxed);
        while arrived.load(Ordering::Relaxed) < 2 {
            std::thread::yield_now();
        }
        shared.add_one();
    });
    assert_eq!(result, Ok(()));
}
