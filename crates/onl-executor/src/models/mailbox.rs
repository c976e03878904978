//! Going to sleep against being told, and against being woken.

use super::{Stores, explore};
use crate::claims::Claims;
use crate::sync::{Point, fence_at, thread};
use crate::wait::{Mailbox, WaitMode, Waiter};
use std::sync::Arc;

struct Shared {
    mailbox: Mailbox,
    claims: Claims,
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Shared {
            mailbox: Mailbox::new(),
            claims: Claims::new(1),
        })
    }

    /// Opens a region of two units and tells the lane.
    fn tell(&self, generation: u64) {
        self.claims.open(generation, 2, 1);
        self.mailbox.post(generation);
        fence_at(Point::FenceAfterPost);
        if self.mailbox.is_asleep() {
            self.mailbox.wake();
        }
    }
}

/// A lane gets the last message, asleep or not, and finds the units that the message is about.
#[test]
fn told() {
    let cases = [(1, Stores::Plain, 5), (2, Stores::Exchanges, 4)];
    for mode in [WaitMode::Frugal, WaitMode::Balanced] {
        for (messages, stores, preemptions) in cases {
            explore(stores, preemptions, move || {
                let shared = Shared::new();
                let lane = {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || {
                        let mut waiter = Waiter::new(mode, false, true);
                        let mut seen = 0;
                        while seen != messages {
                            seen = waiter.next(&shared.mailbox, seen);
                            let unit = shared.claims.take(seen, 0);
                            // The second region may have replaced the first.
                            assert!(
                                unit == Some(1) || (seen < messages && unit.is_none()),
                                "message {seen} came before its units"
                            );
                        }
                    })
                };
                // A run wakes its lanes before it tells them anything.
                if shared.mailbox.is_asleep() {
                    shared.mailbox.wake();
                }
                for message in 1..=messages {
                    shared.tell(message);
                }
                lane.join().unwrap();
            });
        }
    }
}

/// A lane that was woken for a message finds it at once.
#[test]
fn woken() {
    explore(Stores::Plain, 5, || {
        let shared = Shared::new();
        let lane = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.mailbox.sleep(0);
                assert_eq!(shared.mailbox.message_other_than(0), Some(1));
            })
        };
        shared.tell(1);
        lane.join().unwrap();
    });
}
