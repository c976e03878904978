//! The primitives of the system.

use super::Point;
#[cfg(not(target_os = "linux"))]
pub(crate) use std::sync::Condvar;
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub(crate) use std::sync::{Mutex, MutexGuard};
pub(crate) use std::time::Instant;

pub(crate) mod thread {
    pub(crate) use std::thread::{Builder, JoinHandle, yield_now};
}
pub(crate) use std::hint::spin_loop;

/// Whether a point of the protocol is as written; a model run may weaken one.
#[inline(always)]
pub(crate) const fn kept(_: Point) -> bool {
    true
}

/// Memory that threads share by agreement. The closures must not keep the pointer.
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    /// Lends the value for reading.
    #[inline(always)]
    pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// Lends the value for writing.
    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

/// A word that one thread sleeps on while it holds a value.
#[cfg(target_os = "linux")]
pub(crate) struct Sleeper {
    word: AtomicU32,
}

#[cfg(target_os = "linux")]
impl Sleeper {
    pub(crate) fn new() -> Self {
        Sleeper {
            word: AtomicU32::new(0),
        }
    }

    /// The word; a sleeper sleeps while it holds the value passed to [`sleep`](Self::sleep).
    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// Sleeps until woken if the word still holds `value`; may return early.
    pub(crate) fn sleep(&self, value: u32) {
        // SAFETY: the word outlives the call, and FUTEX_WAIT with a null timeout reads nothing else.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.word.as_ptr(),
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                value,
                std::ptr::null::<libc::timespec>(),
            );
        }
    }

    /// Wakes the sleeper. The word must have been changed before.
    pub(crate) fn wake(&self) {
        // SAFETY: FUTEX_WAKE only uses the address as a key.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.word.as_ptr(),
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                1,
            );
        }
    }
}
