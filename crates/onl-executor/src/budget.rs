use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

/// Lanes that all runs of a process may use together, their callers included.
///
/// A run always gets its caller's lane, and worker lanes only while the budget has them.
#[derive(Debug)]
pub struct LaneBudget {
    limit: AtomicUsize,
    /// `runs entered : 32 | lanes in use : 32`, in one word so that a run learns in one step whether it is alone.
    state: AtomicU64,
}

const ENTERED: u64 = 1 << 32;
const USED_MASK: u64 = ENTERED - 1;

/// A run's place in its budget.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BudgetEntry {
    /// Worker lanes granted.
    pub(crate) workers: usize,
    /// Whether no other run was active.
    alone: bool,
    /// Runs entered so far, this one included, modulo 2³².
    number: u32,
}

impl LaneBudget {
    /// A budget of this many lanes, at least 1.
    pub fn new(limit: usize) -> Self {
        LaneBudget {
            limit: AtomicUsize::new(limit.max(1)),
            state: AtomicU64::new(0),
        }
    }

    /// The budget of executors that belong to no registry; it refuses nothing.
    pub(crate) fn unlimited() -> Arc<Self> {
        static UNLIMITED: LazyLock<Arc<LaneBudget>> =
            LazyLock::new(|| Arc::new(LaneBudget::new(usize::MAX)));
        Arc::clone(&UNLIMITED)
    }

    /// Lanes of the budget.
    pub fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Changes the budget; runs keep what they have.
    pub fn set_limit(&self, limit: usize) {
        self.limit.store(limit.max(1), Ordering::Relaxed);
    }

    /// Lanes in use now. Callers alone may exceed the limit.
    pub fn used(&self) -> usize {
        (self.state.load(Ordering::Relaxed) & USED_MASK) as usize
    }

    /// Takes the caller's lane and up to `workers` more.
    pub(crate) fn take(&self, workers: usize) -> BudgetEntry {
        let limit = self.limit();
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let used = (state & USED_MASK) as usize;
            let granted = workers.min(limit.saturating_sub(used + 1));
            let entered = state.wrapping_add(ENTERED + 1 + granted as u64);
            match self.state.compare_exchange_weak(
                state,
                entered,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    return BudgetEntry {
                        workers: granted,
                        alone: used == 0,
                        number: (entered >> 32) as u32,
                    };
                }
                Err(now) => state = now,
            }
        }
    }

    /// Whether another run was active at some time since `entry`. Only while the run of `entry` has not left.
    pub(crate) fn overlapped(&self, entry: BudgetEntry) -> bool {
        let entered = (self.state.load(Ordering::Relaxed) >> 32) as u32;
        !entry.alone || entered != entry.number
    }

    /// Gives lanes back.
    pub(crate) fn give_back(&self, lanes: usize) {
        self.state.fetch_sub(lanes as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_counted_and_never_refused() {
        let budget = LaneBudget::new(3);
        assert_eq!(budget.take(5).workers, 2);
        assert_eq!(budget.take(5).workers, 0);
        assert_eq!(budget.used(), 4);
        budget.give_back(3);
        assert_eq!(budget.take(1).workers, 1);
        budget.give_back(3);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_run_knows_whether_it_was_alone() {
        let budget = LaneBudget::new(4);
        let first = budget.take(1);
        assert!(!budget.overlapped(first));
        let second = budget.take(1);
        assert!(budget.overlapped(first) && budget.overlapped(second));
        budget.give_back(2);
        assert!(
            budget.overlapped(first),
            "the other run has ended, but was there"
        );
        budget.give_back(2);
        assert!(!budget.overlapped(budget.take(0)));
    }
}
