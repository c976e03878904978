//! Notices that the process is a forked child, in which the parent's worker threads do not exist.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

static GENERATION: AtomicU64 = AtomicU64::new(0);
static REGISTERED: Once = Once::new();

#[cfg(unix)]
extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Number of forks between the first process that asked and this one. Reading it takes no system call.
pub(crate) fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// Begins to count; called before the first executor is made.
pub(crate) fn watch() {
    REGISTERED.call_once(|| {
        #[cfg(unix)]
        // SAFETY: the handler only adds to an atomic, which is allowed in a forked child.
        unsafe {
            unsafe extern "C" {
                fn pthread_atfork(
                    prepare: Option<extern "C" fn()>,
                    parent: Option<extern "C" fn()>,
                    child: Option<extern "C" fn()>,
                ) -> i32;
            }
            pthread_atfork(None, None, Some(in_child));
        }
    });
}
