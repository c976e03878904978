//! The primitives of a model checker.

use super::Point;
#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    sync::{Condvar, Mutex, MutexGuard},
    thread,
};
#[cfg(shuttle)]
pub(crate) use shuttle::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    sync::{Condvar, Mutex, MutexGuard},
    thread,
};
use std::sync::OnceLock;
use std::time::Duration;

#[cfg(loom)]
pub(crate) use loom::cell::UnsafeCell;

/// Memory that threads share by agreement.
#[cfg(shuttle)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(shuttle)]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    /// Lends the value for reading.
    pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// Lends the value for writing.
    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

/// A clock on which every wait has lasted long: a bounded spin ends at its first look at the clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Instant;

impl Instant {
    pub(crate) fn now() -> Self {
        Instant
    }

    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_secs(1)
    }
}

/// Variable with the names of the points to weaken, separated by `+`.
pub(crate) const WEAKENED: &str = "ONL_WEAKENED";

/// Whether a point of the protocol is as written in this process.
pub(crate) fn kept(point: Point) -> bool {
    static WEAK: OnceLock<Vec<String>> = OnceLock::new();
    let weak = WEAK.get_or_init(|| {
        let names = std::env::var(WEAKENED).unwrap_or_default();
        names.split('+').map(str::to_owned).collect()
    });
    // Most runs weaken nothing.
    weak[0].is_empty() || !weak.contains(&format!("{point:?}"))
}
