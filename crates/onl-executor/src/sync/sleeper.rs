use super::{AtomicU32, Condvar, Mutex, Ordering, lock};

/// A word that one thread sleeps on while it holds a value.
pub(crate) struct Sleeper {
    word: AtomicU32,
    guard: Mutex<()>,
    changed: Condvar,
}

impl Sleeper {
    pub(crate) fn new() -> Self {
        Sleeper {
            word: AtomicU32::new(0),
            guard: Mutex::new(()),
            changed: Condvar::new(),
        }
    }

    /// The word; a sleeper sleeps while it holds the value passed to [`sleep`](Self::sleep).
    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// Sleeps until woken if the word still holds `value`; may return early.
    pub(crate) fn sleep(&self, value: u32) {
        let guard = lock(&self.guard);
        if self.word.load(Ordering::Relaxed) == value {
            let _ = self.changed.wait(guard);
        }
    }

    /// Wakes the sleeper. The word must have been changed before.
    pub(crate) fn wake(&self) {
        drop(lock(&self.guard));
        self.changed.notify_one();
    }
}
