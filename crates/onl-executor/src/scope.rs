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

const OUTSIDE: Scope = Scope {
    run: 0,
    region: 0,
    lane: 0,
    inside: false,
};

#[cfg(not(any(loom, shuttle)))]
thread_local! {
    static CURRENT: Cell<Scope> = const { Cell::new(OUTSIDE) };
}
// The threads of a model share a thread of the system.
#[cfg(loom)]
loom::thread_local! {
    static CURRENT: Cell<Scope> = Cell::new(OUTSIDE);
}
#[cfg(shuttle)]
shuttle::thread_local! {
    static CURRENT: Cell<Scope> = Cell::new(OUTSIDE);
}

impl Scope {
    /// The scope of this thread.
    pub(crate) fn current() -> Scope {
        CURRENT.with(Cell::get)
    }

    /// Enters a region and returns the scope to come back to.
    pub(crate) fn enter(run: usize, region: u64, lane: usize) -> Scope {
        let inner = Scope {
            run,
            region,
            lane,
            inside: true,
        };
        CURRENT.with(|current| current.replace(inner))
    }

    /// Comes back to an outer scope.
    pub(crate) fn leave(outer: Scope) {
        CURRENT.with(|current| current.set(outer));
    }
}
