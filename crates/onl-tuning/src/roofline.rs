//! Ceilings by participants and level of cache, and the least time that they allow: the roofline (Williams, Waterman and
//! Patterson 2009).

use crate::ceilings::{BandwidthCeiling, Ceilings};
use serde::{Deserialize, Serialize};

/// Name of the ceiling of operations.
pub const FMA: &str = "fma";
/// Name of the level beyond all caches.
pub const DRAM: &str = "DRAM";

/// A measured rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CeilingRate {
    /// The highest repetition, in units per nanosecond.
    pub best: f64,
    /// Every repetition that counts, each the sum over all participants.
    pub repetitions: Vec<f64>,
}

impl CeilingRate {
    /// The rate that repetitions reached; 0 of none.
    pub fn new(repetitions: Vec<f64>) -> Self {
        CeilingRate {
            best: highest(&repetitions),
            repetitions,
        }
    }
}

/// The highest of some rates; 0 of none.
pub fn highest(repetitions: &[f64]) -> f64 {
    repetitions.iter().copied().fold(0.0, f64::max)
}

/// Bandwidths over a working set, in bytes per nanosecond (GB/s).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LevelCeilings {
    /// `L1d`, `L2`, `L3` or `DRAM`.
    pub level: String,
    /// Largest working set that the level holds, of all participants together. Absent for `DRAM`, which holds everything.
    pub capacity_bytes: Option<u64>,
    /// Bytes of the measured working set, of all participants together.
    pub working_set_bytes: u64,
    /// Bytes read by reads alone.
    pub read: CeilingRate,
    /// Bytes read and written by additions of two arrays into a third.
    pub add: CeilingRate,
    /// Bytes read and written by copies.
    pub copy: CeilingRate,
    /// Bytes written by writes alone.
    pub write: CeilingRate,
}

impl LevelCeilings {
    /// Least nanoseconds in which so many bytes are read and written: the time per byte is that of the two measured
    /// mixtures of reads and writes that the bytes lie between. `None` without bytes or rates.
    pub fn least_ns(&self, bytes_read: u64, bytes_written: u64) -> Option<f64> {
        let bytes = bytes_read as f64 + bytes_written as f64;
        let written = bytes_written as f64 / bytes;
        let mixtures = [
            (0.0, &self.read),
            (1.0 / 3.0, &self.add),
            (0.5, &self.copy),
            (1.0, &self.write),
        ];
        let pair = mixtures.windows(2).find(|pair| written <= pair[1].0)?;
        let [(from, low), (to, high)] = [pair[0], pair[1]];
        let weight = (written - from) / (to - from);
        let ns_per_byte = (1.0 - weight) / low.best + weight / high.best;
        (bytes > 0.0 && ns_per_byte.is_finite()).then_some(bytes * ns_per_byte)
    }
}

/// What a number of participants can do at most, together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParticipantCeilings {
    /// Participants.
    pub participants: u32,
    /// 32-bit floating-point operations per nanosecond (GFLOP/s), a fused multiply-add counting as two.
    pub fma: CeilingRate,
    /// Bandwidths, the nearest level first.
    pub bandwidth: Vec<LevelCeilings>,
}

impl ParticipantCeilings {
    /// The nearest level that holds a working set; `None` when no bandwidth was measured.
    pub fn level(&self, working_set_bytes: u64) -> Option<&LevelCeilings> {
        let holds = |level: &&LevelCeilings| {
            level
                .capacity_bytes
                .is_none_or(|capacity| capacity >= working_set_bytes)
        };
        self.bandwidth
            .iter()
            .find(holds)
            .or_else(|| self.bandwidth.last())
    }

    /// Least nanoseconds for so many 32-bit floating-point operations, and bytes that all are part of the working set,
    /// with the name of the ceiling that gives them: [`FMA`] or a level. `None` when there is nothing to do or to
    /// compare with.
    pub fn least_ns(&self, flops: u64, bytes_read: u64, bytes_written: u64) -> Option<(f64, &str)> {
        let operations =
            (flops > 0 && self.fma.best > 0.0).then(|| (flops as f64 / self.fma.best, FMA));
        let bytes = self
            .level(bytes_read.saturating_add(bytes_written))
            .and_then(|level| {
                let ns = level.least_ns(bytes_read, bytes_written)?;
                Some((ns, level.level.as_str()))
            });
        [operations, bytes]
            .into_iter()
            .flatten()
            .max_by(|a, b| a.0.total_cmp(&b.0))
    }
}

impl From<&ParticipantCeilings> for Ceilings {
    fn from(measured: &ParticipantCeilings) -> Self {
        let bandwidth = measured.bandwidth.iter().map(|level| BandwidthCeiling {
            working_set_bytes: level.capacity_bytes.unwrap_or(level.working_set_bytes),
            bytes_per_ns: [&level.read, &level.add, &level.copy, &level.write]
                .map(|rate| rate.best)
                .into_iter()
                .fold(0.0, f64::max),
        });
        Ceilings {
            flops_per_ns: measured.fma.best,
            bandwidth: bandwidth.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(name: &str, capacity_bytes: Option<u64>, rates: [f64; 4]) -> LevelCeilings {
        let [read, add, copy, write] = rates.map(|rate| CeilingRate::new(vec![0.5 * rate, rate]));
        LevelCeilings {
            level: name.to_owned(),
            capacity_bytes,
            working_set_bytes: 1,
            read,
            add,
            copy,
            write,
        }
    }

    fn ceilings() -> ParticipantCeilings {
        ParticipantCeilings {
            participants: 1,
            fma: CeilingRate::new(vec![100.0, 90.0]),
            bandwidth: vec![
                level("L1d", Some(1_000), [400.0, 500.0, 200.0, 100.0]),
                level(DRAM, None, [20.0, 18.0, 16.0, 10.0]),
            ],
        }
    }

    #[test]
    fn measured_mixtures_have_their_own_rate_and_others_lie_between() {
        let near = &ceilings().bandwidth[0];
        let rate = |read, written| {
            let ns: f64 = near.least_ns(read, written).unwrap();
            ((read + written) as f64 / ns).round()
        };
        assert_eq!(rate(600, 0), 400.0);
        assert_eq!(rate(400, 200), 500.0);
        assert_eq!(rate(300, 300), 200.0);
        assert_eq!(rate(0, 600), 100.0);
        assert_eq!(rate(150, 450), 133.0, "halfway in time between 200 and 100");
        assert_eq!(near.least_ns(0, 0), None);
        let unmeasured = level("L1d", None, [0.0; 4]);
        assert_eq!(unmeasured.least_ns(1, 1), None);
    }

    #[test]
    fn the_slower_ceiling_bounds_and_the_working_set_chooses_the_level() {
        let ceilings = ceilings();
        assert_eq!(ceilings.least_ns(0, 1_000, 0), Some((2.5, "L1d")));
        let (ns, level) = ceilings.least_ns(0, 1_001, 0).unwrap();
        assert!((ns - 50.05).abs() < 1e-9 && level == DRAM, "{ns} {level}");
        assert_eq!(ceilings.least_ns(10_000, 1_000, 0), Some((100.0, FMA)));
        assert_eq!(ceilings.least_ns(100, 0, 0), Some((1.0, FMA)));
        assert_eq!(ceilings.least_ns(0, 0, 0), None);
    }

    #[test]
    fn plausibility_takes_the_highest_bandwidth_of_each_level() {
        let plausible = Ceilings::from(&ceilings());
        assert_eq!(plausible.flops_per_ns, 100.0);
        let rates: Vec<f64> = plausible.bandwidth.iter().map(|b| b.bytes_per_ns).collect();
        assert_eq!(rates, [500.0, 20.0]);
        assert_eq!(plausible.bandwidth[0].working_set_bytes, 1_000);
    }
}
