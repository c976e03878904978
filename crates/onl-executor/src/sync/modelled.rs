//! The primitives of a model checker.

use super::Point;
#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    hint::spin_loop,
    sync::atomic::{Ordering, fence},
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
std::thread_local! {
    static EXCHANGES: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Makes every store of the following models of this thread an exchange, or a store again.
///
/// loom leaves a store and an exchange by another thread without an order among the modifications of a location, so
/// that a later exchange may return the older value of the two. By the rules of exchanges it cannot: an exchange comes
/// directly after what it read. A program that depends on this, as lanes that are told to sleep and woken over and over,
/// fails without reason. With exchanges only, loom keeps the order and explores both cases of every race. But an
/// exchange also reads, which with a later fence orders more than a store does, so short models use stores.
#[cfg(all(test, loom))]
pub(crate) fn exchange_instead_of_store(exchange: bool) {
    EXCHANGES.set(exchange);
}

/// An atomic of loom whose stores can be made exchanges.
#[cfg(loom)]
macro_rules! atomics {
    ($($name:ident: $value:ty,)+) => { $(
        pub(crate) struct $name(loom::sync::atomic::$name);

        #[allow(dead_code)] // not every method is used on every type
        impl $name {
            #[track_caller]
            pub(crate) fn new(value: $value) -> Self {
                $name(loom::sync::atomic::$name::new(value))
            }

            #[track_caller]
            pub(crate) fn store(&self, value: $value, ordering: Ordering) {
                if EXCHANGES.get() {
                    self.0.swap(value, ordering);
                } else {
                    self.0.store(value, ordering);
                }
            }
        }

        impl std::ops::Deref for $name {
            type Target = loom::sync::atomic::$name;

            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    )+ };
}
#[cfg(loom)]
atomics! {
    AtomicBool: bool,
    AtomicU32: u32,
    AtomicU64: u64,
    AtomicUsize: usize,
}

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
const WEAKENED: &str = "ONL_WEAKENED";

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
