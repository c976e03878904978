use onl_cpu::IsaTier;
use onl_executor::{Lanes, RegionSpec};
use onl_snapshot::ParallelConfig;

/// Elements of rows that are not worth dividing.
pub(crate) const SHORT: usize = 256;

/// How a call is executed: with which lanes, divided how, compiled for which tier. Nothing of it changes a result.
#[derive(Clone, Copy)]
pub struct Execution<'run> {
    /// Lanes of the run.
    pub lanes: Lanes<'run>,
    /// Division parameters; sizes count input elements.
    pub config: ParallelConfig,
    /// Instruction-set tier.
    pub tier: IsaTier,
}

impl<'run> Execution<'run> {
    /// A call with these lanes, parameters and tier.
    pub fn new(lanes: Lanes<'run>, config: ParallelConfig, tier: IsaTier) -> Self {
        Execution {
            lanes,
            config,
            tier,
        }
    }

    /// A region of `total` units of `per_unit` elements each, of which an element takes about `picoseconds`.
    pub(crate) fn spec(
        &self,
        total: usize,
        per_unit: usize,
        picoseconds: u64,
        path: &'static str,
    ) -> RegionSpec {
        let per_unit = per_unit.max(1);
        let elements = (total as u64).saturating_mul(per_unit as u64);
        RegionSpec {
            total,
            grain: (self.config.grain_elements / per_unit).max(1),
            minimum_total: self.config.minimum_elements.div_ceil(per_unit),
            max_participants: self.config.maximum_participants,
            serial_ns: elements.saturating_mul(picoseconds) / 1000,
            path,
            tiles: 0,
        }
    }

    /// Whether so few and so long rows are divided among lanes themselves: every lane is to find work, and a row
    /// alone is more than a chunk. Rows of [`SHORT`] elements and fewer never are.
    pub(crate) fn splits(&self, rows: usize, length: usize) -> bool {
        let lanes = self.lanes.count();
        let enough = rows.saturating_mul(length) >= self.config.minimum_elements;
        lanes > 1 && enough && rows < 2 * lanes && length > self.config.grain_elements.max(SHORT)
    }
}
