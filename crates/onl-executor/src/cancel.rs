//! How a run is ended before its end.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use thiserror::Error;

/// A request to end runs, shared by whoever makes it and the runs that it is given to. Clones are the same token.
#[derive(Debug, Clone, Default)]
pub struct CancelToken {
    requested: Arc<AtomicBool>,
}

impl CancelToken {
    /// A token that nobody has cancelled.
    pub fn new() -> Self {
        CancelToken::default()
    }

    /// Ends the runs that have this token, and those that will get it: at their next node or chunk. It cannot be taken
    /// back.
    pub fn cancel(&self) {
        self.requested.store(true, Ordering::Relaxed);
    }

    /// Whether [`cancel`](Self::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }
}

/// Why a run was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CancelReason {
    /// Its [`CancelToken`] was cancelled.
    Requested,
    /// Its deadline passed.
    Deadline,
}

impl fmt::Display for CancelReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CancelReason::Requested => "its token was cancelled",
            CancelReason::Deadline => "its deadline passed",
        })
    }
}

/// The run was cancelled; its outputs are undefined, and the executor stays usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the run was cancelled: {reason}")]
pub struct Cancelled {
    /// Why.
    pub reason: CancelReason,
}

/// When a run has to end. The clock is read only for runs with a deadline.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StopCondition<'e> {
    pub(crate) token: Option<&'e CancelToken>,
    pub(crate) deadline: Option<Instant>,
}

impl StopCondition<'_> {
    /// Whether it can ever be met.
    pub(crate) fn is_possible(&self) -> bool {
        self.token.is_some() || self.deadline.is_some()
    }

    /// `Err` once it is met.
    pub(crate) fn check(&self) -> Result<(), Cancelled> {
        let reason = if self.token.is_some_and(CancelToken::is_cancelled) {
            CancelReason::Requested
        } else if self
            .deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
        {
            CancelReason::Deadline
        } else {
            return Ok(());
        };
        Err(Cancelled { reason })
    }
}
