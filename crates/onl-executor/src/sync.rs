//! Every atomic, cell and sleeping primitive of the pool comes from here: the system's in shipping builds, those of a
//! model checker under `cfg(loom)` and `cfg(shuttle)`. loom explores what weak memory allows, shuttle explores larger
//! programs whose accesses all happen in one order.
//!
//! The protocol names its own [`Point`]s, so that a model run can weaken one and show that its models would notice.

#[cfg(any(loom, shuttle))]
mod modelled;
#[cfg(not(any(loom, shuttle)))]
mod native;
#[cfg(any(not(target_os = "linux"), loom, shuttle))]
mod sleeper;

#[cfg(any(loom, shuttle))]
pub(crate) use modelled::*;
#[cfg(not(any(loom, shuttle)))]
pub(crate) use native::*;
#[cfg(any(not(target_os = "linux"), loom, shuttle))]
pub(crate) use sleeper::Sleeper;

/// Locks a mutex whose data stays whole even when a holder panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Declares [`Point`] with the list of its values.
macro_rules! points {
    ($(#[doc = $meaning:literal] $point:ident,)+) => {
        /// A place of the protocol that something depends on: an ordering, a fence or a step.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Point {
            $(#[doc = $meaning] $point,)+
        }

        #[cfg(all(test, any(loom, shuttle)))]
        impl Point {
            pub(crate) const ALL: &'static [Point] = &[$(Point::$point),+];
        }
    };
}

points! {
    /// Claim words are stored after the descriptor.
    Publish,
    /// A unit is taken before the descriptor is read.
    Claim,
    /// Only units of the own generation are taken.
    CompareGeneration,
    /// A message is left after the claim words.
    Post,
    /// A message is read before the claim words.
    Receive,
    /// A caller looks whether a lane sleeps after it left the message.
    FenceAfterPost,
    /// A lane looks for a message after it said that it sleeps.
    FenceAsleep,
    /// A lane that goes to sleep looks for a message once more.
    LookAgain,
    /// A woken lane reads the message after it found itself woken.
    Woken,
    /// Units are reported after their work and after the descriptor was read.
    Report,
    /// Reports are read before a region returns.
    Reported,
    /// A region returns after all reports.
    AwaitReports,
    /// A caller that goes to sleep looks for reports once more.
    LookForReports,
    /// A lane that reports wakes a sleeping caller.
    WakeCaller,
    /// A region is opened after the one before it in the same descriptor was closed.
    Open,
    /// As [`Open`](Point::Open), on the closing side.
    Close,
    /// One region at a time uses a descriptor.
    OpenAlone,
    /// The units that a panic leaves are dropped.
    DropUnits,
    /// A worker is taken after its last owner gave it back.
    TakeWorker,
    /// As [`TakeWorker`](Point::TakeWorker), on the owner's side.
    GiveBack,
    /// A worker that is told to stop sees the message or is seen asleep.
    FenceAfterStop,
    /// Sleeping workers are woken to stop.
    WakeToStop,
}

/// The ordering at a point.
#[inline(always)]
pub(crate) fn ordering_at(point: Point, ordering: Ordering) -> Ordering {
    if kept(point) {
        ordering
    } else {
        Ordering::Relaxed
    }
}

/// A sequentially consistent fence at a point.
#[inline(always)]
pub(crate) fn fence_at(point: Point) {
    if kept(point) {
        fence(Ordering::SeqCst);
    }
}
