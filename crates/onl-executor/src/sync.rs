//! Every atomic, cell and sleeping primitive of the pool comes from here, so that a model checker can replace them
//! in one place.

pub(crate) use std::cell::UnsafeCell;
pub(crate) use std::sync::Mutex;
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

use std::sync::MutexGuard;

/// Locks a mutex whose data stays whole even when a holder panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
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

/// A word that one thread sleeps on while it holds a value.
#[cfg(not(target_os = "linux"))]
pub(crate) struct Sleeper {
    word: AtomicU32,
    guard: Mutex<()>,
    changed: std::sync::Condvar,
}

#[cfg(not(target_os = "linux"))]
impl Sleeper {
    pub(crate) fn new() -> Self {
        Sleeper {
            word: AtomicU32::new(0),
            guard: Mutex::new(()),
            changed: std::sync::Condvar::new(),
        }
    }

    /// The word; a sleeper sleeps while it holds the value passed to [`sleep`](Self::sleep).
    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// Sleeps until woken if the word still holds `value`; may return early.
    pub(crate) fn sleep(&self, value: u32) {
        let guard = lock(&self.guard);
        if self.word.load(Ordering::Acquire) == value {
            let _ = self.changed.wait(guard);
        }
    }

    /// Wakes the sleeper. The word must have been changed before.
    pub(crate) fn wake(&self) {
        drop(lock(&self.guard));
        self.changed.notify_one();
    }
}
