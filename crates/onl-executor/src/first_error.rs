use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Keeps the error of the smallest position, whichever lane met it first.
///
/// A fallible kernel records errors under the position at which its serial form would have met them and returns the
/// kept one after the region: all lane counts then report the same error. While there is none, lanes touch no lock.
#[derive(Debug)]
pub struct FirstError<E> {
    /// Position of the kept error, `usize::MAX` while there is none.
    position: AtomicUsize,
    kept: Mutex<Option<(usize, E)>>,
}

impl<E> FirstError<E> {
    /// No error yet.
    pub const fn new() -> Self {
        FirstError {
            position: AtomicUsize::new(usize::MAX),
            kept: Mutex::new(None),
        }
    }

    /// Keeps `error` unless one of a smaller or equal position is kept.
    pub fn record(&self, position: usize, error: E) {
        if self.precedes(position) {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept
            .as_ref()
            .is_none_or(|(smallest, _)| position < *smallest)
        {
            self.position.store(position, Ordering::Relaxed);
            *kept = Some((position, error));
        }
    }

    /// Whether an error before `position` is kept already, so that work from there on need not be done.
    pub fn precedes(&self, position: usize) -> bool {
        self.position.load(Ordering::Relaxed) < position
    }

    /// The kept error with its position.
    pub fn into_inner(self) -> Option<(usize, E)> {
        self.kept
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// `Ok` when no error was recorded.
    ///
    /// # Errors
    /// The kept error.
    pub fn into_result(self) -> Result<(), E> {
        match self.into_inner() {
            None => Ok(()),
            Some((_, error)) => Err(error),
        }
    }
}

impl<E> Default for FirstError<E> {
    fn default() -> Self {
        FirstError::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smallest_position_wins_in_any_order() {
        for order in [
            [0, 1, 2],
            [0, 2, 1],
            [1, 0, 2],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0],
        ] {
            let errors = FirstError::new();
            for position in order {
                errors.record(position * 10, position);
            }
            assert_eq!(errors.into_inner(), Some((0, 0)), "order {order:?}");
        }
    }

    #[test]
    fn last_position_is_a_position() {
        let errors = FirstError::new();
        errors.record(usize::MAX, "last");
        assert_eq!(errors.into_result(), Err("last"));
        assert_eq!(FirstError::<()>::new().into_result(), Ok(()));
    }

    #[test]
    fn work_after_a_kept_error_may_be_skipped() {
        let errors = FirstError::new();
        assert!(!errors.precedes(5));
        errors.record(5, ());
        assert!(!errors.precedes(4) && !errors.precedes(5) && errors.precedes(6));
    }
}
