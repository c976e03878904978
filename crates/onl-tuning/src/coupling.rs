//! How closely lanes are coupled, and samples that belong to one such level.
//!
//! A host may move the virtual processors of a guest while it runs: two that share a cache hand a word over several
//! times faster than two that do not. What a region costs, and so the size from which it pays, then has several true
//! answers, each for seconds. Samples of different levels are never mixed: a threshold is searched at the slowest level
//! that was seen, and what a search finds has to win at every level.

use crate::bench::Stop;
use crate::environment::EnvironmentProbe;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::time::Duration;

/// Measures how long a region takes to reach its other lanes; implemented beside the executor.
pub trait CouplingProbe {
    /// Nanoseconds that a region costs beyond its work while its lanes spin, in at most a part of a millisecond.
    fn handoff_ns(&self) -> f64;
}

/// Readings whose ratio is smaller are of one level.
const SAME_LEVEL: f64 = 1.7;
/// Least reading that is told from others.
const LEAST_NS: f64 = 20.0;
/// Levels that are told apart.
const MOST_LEVELS: usize = 3;
/// Readings in a row that make a level.
const SETTLED: usize = 3;
/// Readings before none is said to be settled.
const READINGS: usize = 12;
/// Between readings.
const READING_PAUSE: Duration = Duration::from_millis(2);

/// Whether two readings are of one level.
pub(crate) fn same_level(a: f64, b: f64) -> bool {
    let (a, b) = (a.max(LEAST_NS), b.max(LEAST_NS));
    (a / b).max(b / a) < SAME_LEVEL
}

/// The level at which the samples of a record were taken.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CouplingLevel {
    /// Cost of handing a region to lanes that spin, in nanoseconds.
    pub handoff_ns: f64,
    /// Whether the level was left before there were enough samples.
    pub left: bool,
    /// Samples that were thrown away because the level changed while they were taken.
    pub discarded: u32,
}

/// Levels that were seen, and the present one.
pub(crate) struct Levels<'a> {
    probe: &'a dyn CouplingProbe,
    environment: &'a dyn EnvironmentProbe,
    known: Vec<f64>,
}

impl<'a> Levels<'a> {
    pub fn new(probe: &'a dyn CouplingProbe, environment: &'a dyn EnvironmentProbe) -> Self {
        Levels {
            probe,
            environment,
            known: Vec::new(),
        }
    }

    /// The present level; `None` while readings do not settle.
    pub fn now(&mut self) -> Option<f64> {
        let mut last: Vec<f64> = Vec::new();
        for _ in 0..READINGS {
            let ns = self.probe.handoff_ns();
            if !ns.is_finite() || last.iter().any(|other| !same_level(*other, ns)) {
                last.clear();
            }
            if ns.is_finite() {
                last.push(ns.max(LEAST_NS));
            }
            if last.len() == SETTLED {
                last.sort_by(f64::total_cmp);
                return Some(self.note(last[SETTLED / 2]));
            }
            self.environment.pause(READING_PAUSE);
        }
        None
    }

    /// The known level of a reading, which is a new one when it is far from all.
    fn note(&mut self, ns: f64) -> f64 {
        let distance = |level: &f64| (level / ns).ln().abs();
        let nearest = self
            .known
            .iter()
            .copied()
            .min_by(|a, b| distance(a).total_cmp(&distance(b)));
        match nearest {
            Some(level) if same_level(level, ns) || self.known.len() == MOST_LEVELS => level,
            _ => {
                self.known.push(ns);
                ns
            }
        }
    }

    /// Levels seen and not forgotten.
    pub fn known(&self) -> &[f64] {
        &self.known
    }

    /// The slowest known level.
    pub fn slowest(&self) -> Option<f64> {
        self.known.iter().copied().reduce(f64::max)
    }

    /// Forgets every level but one, as those that do not come back.
    pub fn keep_only(&mut self, level: f64) {
        self.known = vec![level];
    }
}

/// Lets samples through that are taken at one level.
pub(crate) struct Gate<'a> {
    probe: &'a dyn CouplingProbe,
    environment: &'a dyn EnvironmentProbe,
    level_ns: f64,
    open: Cell<bool>,
    discarded: Cell<u32>,
}

/// Readings before a level counts as changed: one may be late.
const CHECKS: usize = 3;
/// How often it is looked whether the level has come back.
const AWAY_PAUSE: Duration = Duration::from_millis(5);
const AWAY_LOOKS: usize = 60;

impl<'a> Gate<'a> {
    pub fn new(
        probe: &'a dyn CouplingProbe,
        environment: &'a dyn EnvironmentProbe,
        level_ns: f64,
    ) -> Self {
        Gate {
            probe,
            environment,
            level_ns,
            open: Cell::new(false),
            discarded: Cell::new(0),
        }
    }

    fn look(&self) -> bool {
        (0..CHECKS).any(|_| same_level(self.probe.handoff_ns(), self.level_ns))
    }

    /// Waits a moment for the level.
    pub fn enter(&self) -> Result<(), Stop> {
        if self.open.get() || self.look() {
            return Ok(());
        }
        for _ in 0..AWAY_LOOKS {
            self.environment.pause(AWAY_PAUSE);
            if self.look() {
                return Ok(());
            }
        }
        Err(Stop::LevelLeft)
    }

    /// Whether the level held until now, so that what was sampled since [`enter`](Self::enter) counts.
    pub fn holds(&self) -> bool {
        self.open.set(self.look());
        if !self.open.get() {
            self.discarded.set(self.discarded.get() + 1);
        }
        self.open.get()
    }

    /// For the record.
    pub fn level(&self) -> CouplingLevel {
        CouplingLevel {
            handoff_ns: self.level_ns,
            left: false,
            discarded: self.discarded.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Environment;
    use std::cell::RefCell;

    struct Readings(RefCell<Vec<f64>>);

    impl CouplingProbe for Readings {
        fn handoff_ns(&self) -> f64 {
            let mut rest = self.0.borrow_mut();
            if rest.len() > 1 {
                rest.remove(0)
            } else {
                rest[0]
            }
        }
    }

    struct NoWait;

    impl EnvironmentProbe for NoWait {
        fn observe(&self) -> Environment {
            Environment::UNKNOWN
        }

        fn pause(&self, _: Duration) {}
    }

    fn readings(values: &[f64]) -> Readings {
        Readings(RefCell::new(values.to_vec()))
    }

    #[test]
    fn single_readings_make_no_level_and_three_do() {
        let probe = readings(&[
            250.0, 900.0, 250.0, 260.0, 240.0, 900.0, 910.0, 950.0, 270.0,
        ]);
        let mut levels = Levels::new(&probe, &NoWait);
        assert_eq!(levels.now(), Some(250.0));
        assert_eq!(levels.now(), Some(910.0));
        assert_eq!(levels.now(), Some(250.0), "a known level keeps its name");
        assert_eq!((levels.known().len(), levels.slowest()), (2, Some(910.0)));
        levels.keep_only(250.0);
        assert_eq!(levels.slowest(), Some(250.0));
    }

    #[test]
    fn readings_that_never_settle_are_no_level() {
        let wild: Vec<f64> = (0..READINGS + 1)
            .map(|i| if i % 2 == 0 { 100.0 } else { f64::NAN })
            .collect();
        let probe = readings(&wild);
        assert_eq!(Levels::new(&probe, &NoWait).now(), None);
    }

    #[test]
    fn a_gate_forgives_one_late_reading_and_notices_a_change() {
        let probe = readings(&[250.0, 5_000.0, 240.0, 900.0]);
        let gate = Gate::new(&probe, &NoWait, 250.0);
        assert_eq!(gate.enter(), Ok(()));
        assert!(gate.holds(), "one reading was late");
        assert!(!gate.holds());
        assert_eq!(gate.enter(), Err(Stop::LevelLeft));
        assert_eq!(gate.level().discarded, 1);
    }
}
