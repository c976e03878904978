use onl_executor::{CpuExecutor, RegionSpec};
use onl_profiling::{RegionSite, region_site};
use onl_tuning::{CouplingProbe, LaneCostProbe};
use std::time::{Duration, Instant};

static SITE: RegionSite = region_site!("tuning.lane_costs");

/// Work of each of two lanes. A region whose second lane never comes costs the caller as much again, so the work
/// bounds what can be measured: it lies above the expected cost of each state.
const HOT_WORK: Duration = Duration::from_micros(20);
const COLD_WORK: Duration = Duration::from_micros(200);
/// Work of each lane while the coupling of lanes is read: a hand-over takes less.
const COUPLING_WORK: Duration = Duration::from_micros(3);
/// Regions of one reading.
const COUPLING_REGIONS: usize = 7;
/// Regions until a lane that was parked takes part.
const WAKING_REGIONS: usize = 20;
/// Longer than lanes of any waiting mode but `latency` spin.
const COLD_GAP: Duration = Duration::from_millis(3);

/// Measures what a region of two lanes costs beyond its work on an executor.
pub struct ExecutorLaneCosts<'e> {
    executor: &'e CpuExecutor,
}

impl<'e> ExecutorLaneCosts<'e> {
    /// A probe of this executor, which should have at least two lanes.
    pub fn new(executor: &'e CpuExecutor) -> Self {
        ExecutorLaneCosts { executor }
    }

    fn region(&self, work: Duration) -> f64 {
        let run = self.executor.enter();
        let start = Instant::now();
        let result = run.lanes().region(&SITE, RegionSpec::new(2, 1), |_| {
            let start = Instant::now();
            while start.elapsed() < work {
                std::hint::spin_loop();
            }
        });
        let wall = start.elapsed();
        result.map_or(f64::NAN, |()| wall.saturating_sub(work).as_nanos() as f64)
    }
}

impl LaneCostProbe for ExecutorLaneCosts<'_> {
    fn region_ns(&self, hot: bool) -> f64 {
        if hot {
            self.region(HOT_WORK);
            self.region(HOT_WORK)
        } else {
            std::thread::sleep(COLD_GAP);
            self.region(COLD_WORK)
        }
    }
}

impl CouplingProbe for ExecutorLaneCosts<'_> {
    fn handoff_ns(&self) -> f64 {
        let joined = |ns: f64| ns < HOT_WORK.as_nanos() as f64 / 2.0;
        if !(0..WAKING_REGIONS).any(|_| joined(self.region(HOT_WORK))) {
            return f64::NAN;
        }
        let mut times: Vec<f64> = (0..COUPLING_REGIONS)
            .map(|_| self.region(COUPLING_WORK))
            .collect();
        times.sort_by(f64::total_cmp);
        times[COUPLING_REGIONS / 2]
    }
}
