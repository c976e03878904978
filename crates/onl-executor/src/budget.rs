use crate::sync::{AtomicUsize, Ordering};

/// Lanes that all runs of a process may use together, their callers included.
///
/// A run always gets its caller's lane, and worker lanes only while the budget has them.
#[derive(Debug)]
pub struct LaneBudget {
    limit: AtomicUsize,
    used: AtomicUsize,
}

impl LaneBudget {
    /// A budget of this many lanes, at least 1.
    pub fn new(limit: usize) -> Self {
        LaneBudget {
            limit: AtomicUsize::new(limit.max(1)),
            used: AtomicUsize::new(0),
        }
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
        self.used.load(Ordering::Relaxed)
    }

    /// Takes the caller's lane and up to `workers` more; returns how many more.
    pub(crate) fn take(&self, workers: usize) -> usize {
        let limit = self.limit();
        let mut used = self.used.load(Ordering::Relaxed);
        loop {
            let granted = workers.min(limit.saturating_sub(used + 1));
            match self.used.compare_exchange_weak(
                used,
                used + 1 + granted,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return granted,
                Err(now) => used = now,
            }
        }
    }

    /// Gives lanes back.
    pub(crate) fn give_back(&self, lanes: usize) {
        self.used.fetch_sub(lanes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_counted_and_never_refused() {
        let budget = LaneBudget::new(3);
        assert_eq!(budget.take(5), 2);
        assert_eq!(budget.take(5), 0);
        assert_eq!(budget.used(), 4);
        budget.give_back(3);
        assert_eq!(budget.take(1), 1);
        budget.give_back(3);
        assert_eq!(budget.used(), 0);
    }
}
