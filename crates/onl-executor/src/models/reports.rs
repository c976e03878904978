//! A caller that waits for reports, awake or asleep.

use super::{Stores, explore};
use crate::sync::thread;
use crate::wait::Reports;
use std::sync::Arc;

/// A caller wakes when the last unit is reported, whichever lane reports it, and in the next region too, even if a lane is late
/// in waking it for the first.
#[test]
fn awaited() {
    for (lanes, regions, stores, preemptions) in [
        (1, 1, Stores::Plain, 5),
        (2, 1, Stores::Exchanges, 3),
        (1, 2, Stores::Exchanges, 3),
    ] {
        explore(stores, preemptions, move || {
            let reports = Arc::new(Reports::new());
            let mut threads = Vec::new();
            for _ in 0..regions {
                reports.reset();
                for _ in 0..lanes {
                    let reports = Arc::clone(&reports);
                    threads.push(thread::spawn(move || reports.report(1)));
                }
                reports.wait_for(lanes, false);
                assert_eq!(reports.lanes() as usize, lanes);
            }
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }
}
