use crate::statistics::median;
use onl_snapshot::LaneCosts;

/// Measures what a region costs beyond its work; implemented beside the executor.
pub trait LaneCostProbe {
    /// Extra nanoseconds of one region whose lanes are spinning (`hot`) or parked.
    fn region_ns(&self, hot: bool) -> f64;
}

/// Regions measured per state: enough for a median that single late wakes do not move.
const HOT_REGIONS: usize = 101;
const COLD_REGIONS: usize = 31;

/// Medians over many regions; `None` when a figure is not a finite number of nanoseconds or negative in the middle.
pub fn measure_lane_costs(probe: &dyn LaneCostProbe) -> Option<LaneCosts> {
    let middle = |hot: bool, count: usize| {
        let times: Vec<f64> = (0..count).map(|_| probe.region_ns(hot)).collect();
        median(&times).filter(|ns| ns.is_finite() && *ns >= 0.0)
    };
    Some(LaneCosts {
        hot_ns: middle(true, HOT_REGIONS)?,
        cold_ns: middle(false, COLD_REGIONS)?,
    })
}
