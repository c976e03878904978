//! Which region the current thread works in.

use std::cell::Cell;

/// The innermost chunk that a thread is in.
#[derive(Clone, Copy)]
pub(crate) struct Scope {
    /// Identity of the run, 0 for lanes without a run.
    pub(crate) run: usize,
    /// Number of the region, 0 when it is not recorded.
    pub(crate) region: u64,
    pub(crate) lane: usize,
    pub(crate) inside: bool,
}

thread_local! {
    static CURRENT: Cell<Scope> = const {
        Cell::new(Scope { run: 0, region: 0, lane: 0, inside: false })
    };
}

impl Scope {
    /// The scope of this thread.
    pub(crate) fn current() -> Scope {
        CURRENT.get()
    }

    /// Enters a region and returns the scope to come back to.
    pub(crate) fn enter(run: usize, region: u64, lane: usize) -> Scope {
        CURRENT.replace(Scope {
            run,
            region,
            lane,
            inside: true,
        })
    }

    /// Comes back to an outer scope.
    pub(crate) fn leave(outer: Scope) {
        CURRENT.set(outer);
    }
}
