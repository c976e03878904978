//! Publishing a descriptor by claim words, and claiming its units.

use super::{Stores, explore};
use crate::claims::Claims;
use crate::sync::{UnsafeCell, thread};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A unit is taken once, and whoever takes it sees the descriptor, whatever told it of the region.
#[test]
fn published() {
    const UNITS: usize = 4;
    struct Shared {
        claims: Claims,
        descriptor: UnsafeCell<u64>,
        /// Times that a unit was taken; invisible to the model.
        taken: [AtomicUsize; UNITS],
    }
    impl Shared {
        fn work(&self, lane: usize, in_hand: Option<usize>) {
            let mut unit = in_hand.or_else(|| self.claims.take(7, lane));
            while let Some(taken) = unit {
                // SAFETY: written before the claim words were.
                let descriptor = self.descriptor.with(|descriptor| unsafe { *descriptor });
                assert_eq!(descriptor, 11);
                self.taken[taken].fetch_add(1, Ordering::Relaxed);
                unit = self.claims.take(7, lane);
            }
        }
    }
    // SAFETY: the model checks how the descriptor is accessed.
    unsafe impl Sync for Shared {}

    explore(Stores::Plain, 4, || {
        let shared = Arc::new(Shared {
            claims: Claims::new(2),
            descriptor: UnsafeCell::new(0),
            taken: Default::default(),
        });
        let lane = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.work(1, None))
        };
        // SAFETY: nothing is published yet.
        shared
            .descriptor
            .with_mut(|descriptor| unsafe { *descriptor = 11 });
        shared.claims.open(7, UNITS, 2);
        shared.work(0, Some(0));
        lane.join().unwrap();
        for taken in &shared.taken {
            assert_eq!(taken.load(Ordering::Relaxed), 1);
        }
    });
}
