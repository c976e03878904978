/// When the runs of a plan wake sleeping lanes.
///
/// A run whose regions together save more than waking costs wakes them at its start. The runs of a smaller plan let them
/// sleep, and so lose what awake lanes would have saved; once they have lost many times the cost, one run wakes the lanes
/// all the same. Runs that follow each other closely keep them awake from then on, as lanes wait for work a while before
/// they sleep; runs with pauses between them spend a small share of their time on it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Waking {
    /// Nanoseconds that awake lanes save a run.
    saving_ns: u64,
    /// Nanoseconds that joining a sleeping lane costs.
    cold_ns: u64,
}

/// Costs that runs lose before one of them wakes the lanes.
const PATIENCE: u64 = 8;

impl Waking {
    /// For runs with regions of `divisible_ns` in all, where joining a sleeping lane costs `cold_ns`. Two lanes save half.
    pub fn new(divisible_ns: u64, cold_ns: f64) -> Self {
        Waking {
            saving_ns: divisible_ns / 2,
            cold_ns: cold_ns.max(1.0) as u64,
        }
    }

    /// Whether the next run wakes the lanes; `lost_ns` is what earlier ones have lost.
    pub fn wakes(&self, lost_ns: &mut u64) -> bool {
        if self.saving_ns > self.cold_ns {
            return true;
        }
        *lost_ns = lost_ns.saturating_add(self.saving_ns);
        let wakes = *lost_ns >= self.cold_ns.saturating_mul(PATIENCE);
        if wakes {
            *lost_ns = 0;
        }
        wakes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_waking_run(divisible_ns: u64) -> Option<usize> {
        let waking = Waking::new(divisible_ns, 50_000.0);
        let mut lost = 0;
        (1..=1_000).find(|_| waking.wakes(&mut lost))
    }

    #[test]
    fn a_run_that_pays_for_it_wakes_lanes_at_once() {
        assert_eq!(first_waking_run(100_002), Some(1));
    }

    #[test]
    fn smaller_runs_wake_lanes_after_they_have_lost_many_times_the_cost() {
        assert_eq!(first_waking_run(100_000), Some(8));
        assert_eq!(first_waking_run(20_000), Some(40));
        assert_eq!(first_waking_run(1), None);
        assert_eq!(first_waking_run(0), None);
    }

    #[test]
    fn runs_begin_to_lose_anew_after_one_has_woken_the_lanes() {
        let waking = Waking::new(20_000, 50_000.0);
        let mut lost = 0;
        let waking_runs: Vec<usize> = (1..=100).filter(|_| waking.wakes(&mut lost)).collect();
        assert_eq!(waking_runs, [40, 80]);
    }
}
