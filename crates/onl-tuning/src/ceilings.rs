//! What the processor can do at most, and measurements that claim more.

use onl_snapshot::Workload;
use serde::{Deserialize, Serialize};

/// Share of a ceiling above which a measurement is not believed.
const IMPLAUSIBLE: f64 = 1.05;
/// A working set this many times larger than one that was measured may still find part of itself in that cache.
const SPILL: u64 = 4;

/// Bandwidth over a working set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BandwidthCeiling {
    /// Bytes of the working set, of all participants together.
    pub working_set_bytes: u64,
    /// Most bytes read and written per nanosecond (GB/s).
    pub bytes_per_ns: f64,
}

/// Measured ceilings of an execution: those of all its participants together. The name of such a figure beside achieved
/// ones is roofline (Williams, Waterman and Patterson 2009).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Ceilings {
    /// Most 32-bit floating-point operations per nanosecond (GFLOP/s); a fused multiply-add counts as two.
    pub flops_per_ns: f64,
    /// Bandwidths by ascending working set; the last holds for everything larger.
    pub bandwidth: Vec<BandwidthCeiling>,
}

impl Ceilings {
    /// The bandwidth that a working set may reach: that of the fastest level in which part of it may stay. `None` when
    /// none was measured.
    pub fn bytes_per_ns(&self, working_set_bytes: u64) -> Option<f64> {
        let fits = |level: &&BandwidthCeiling| {
            level.working_set_bytes.saturating_mul(SPILL) >= working_set_bytes
        };
        let fastest = self
            .bandwidth
            .iter()
            .filter(fits)
            .map(|level| level.bytes_per_ns)
            .reduce(f64::max);
        fastest.or_else(|| self.bandwidth.last().map(|level| level.bytes_per_ns))
    }

    /// Share of the nearer ceiling that a call of this many nanoseconds reaches; `None` when the workload does not say
    /// what it does or nothing was measured.
    pub fn efficiency(&self, workload: &Workload, ns: f64) -> Option<f64> {
        self.rates(workload, ns)
            .into_iter()
            .flatten()
            .map(|(_, achieved, ceiling)| achieved / ceiling)
            .reduce(f64::max)
    }

    /// Why a call cannot have taken so few nanoseconds: it would be above 105 % of a ceiling. `None` when it can.
    pub fn implausible(&self, workload: &Workload, ns: f64) -> Option<String> {
        let (unit, achieved, ceiling) = self
            .rates(workload, ns)
            .into_iter()
            .flatten()
            .find(|(_, achieved, ceiling)| *achieved > IMPLAUSIBLE * ceiling)?;
        Some(format!(
            "workload '{}' took {ns:.1} ns, which is {achieved:.1} {unit} where the processor was measured to do at \
             most {ceiling:.1}; the clock or the workload's figures are wrong",
            workload.name
        ))
    }

    /// Unit, achieved rate and ceiling of operations and of bytes.
    fn rates(&self, workload: &Workload, ns: f64) -> [Option<(&'static str, f64, f64)>; 2] {
        let rate = |unit, amount: u64, ceiling: Option<f64>| {
            let ceiling = ceiling.filter(|ceiling| *ceiling > 0.0)?;
            (amount > 0).then(|| (unit, amount as f64 / ns, ceiling))
        };
        [
            rate("GFLOP/s", workload.flops, Some(self.flops_per_ns)),
            rate("GB/s", workload.bytes, self.bytes_per_ns(workload.bytes)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onl_snapshot::CacheState;

    fn workload(flops: u64, bytes: u64) -> Workload {
        Workload {
            name: "case".to_owned(),
            size: 1,
            memory_bytes: 0,
            flops,
            bytes,
            cache_state: CacheState::OwnWarm,
        }
    }

    fn ceilings() -> Ceilings {
        let level = |working_set_bytes, bytes_per_ns| BandwidthCeiling {
            working_set_bytes,
            bytes_per_ns,
        };
        Ceilings {
            flops_per_ns: 100.0,
            bandwidth: vec![
                level(1_000, 200.0),
                level(10_000, 50.0),
                level(100_000, 20.0),
            ],
        }
    }

    #[test]
    fn values_above_a_ceiling_are_named_with_both_figures() {
        let at = |flops, bytes, ns| ceilings().implausible(&workload(flops, bytes), ns);
        assert_eq!(at(100_000, 0, 1_000.0), None);
        assert_eq!(at(100_000, 0, 960.0), None);
        let reason = at(100_000, 0, 500.0).unwrap();
        assert!(
            reason.contains("200.0 GFLOP/s") && reason.contains("100.0"),
            "{reason}"
        );
        let reason = at(0, 30_000, 100.0).unwrap();
        assert!(
            reason.contains("300.0 GB/s") && reason.contains("50.0"),
            "{reason}"
        );
        assert_eq!(at(0, 0, 0.001), None, "nothing is known of the workload");
        assert_eq!(
            Ceilings::default().implausible(&workload(9, 9), 0.001),
            None
        );
    }

    #[test]
    fn the_level_is_chosen_by_the_working_set_and_generously() {
        let rate = |bytes| ceilings().bytes_per_ns(bytes);
        assert_eq!(rate(500), Some(200.0));
        assert_eq!(rate(4_000), Some(200.0));
        assert_eq!(rate(4_001), Some(50.0));
        assert_eq!(rate(1 << 40), Some(20.0));
        assert_eq!(Ceilings::default().bytes_per_ns(1), None);
    }

    #[test]
    fn efficiency_is_that_of_the_nearer_ceiling() {
        let share = ceilings().efficiency(&workload(50_000, 1_000), 1_000.0);
        assert_eq!(share, Some(0.5));
        assert_eq!(ceilings().efficiency(&workload(0, 0), 1_000.0), None);
    }
}
