use crate::Lanes;
use std::marker::PhantomData;
use std::sync::Arc;

/// The worker lanes of one resolved policy.
pub struct CpuExecutor {
    lanes: usize,
}

/// One run on an executor; leaves its team when dropped.
pub struct Run<'e> {
    lanes: usize,
    _executor: PhantomData<&'e CpuExecutor>,
}

impl CpuExecutor {
    /// An executor with exactly this many lanes, the caller included, however many processors there are. For
    /// tests; sessions resolve a policy.
    pub fn with_lanes(lanes: usize) -> Arc<Self> {
        Arc::new(CpuExecutor {
            lanes: lanes.max(1),
        })
    }

    /// Most lanes that a run can have.
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    /// Takes a team for one run.
    pub fn enter(&self) -> Run<'_> {
        Run {
            lanes: self.lanes,
            _executor: PhantomData,
        }
    }
}

impl Run<'_> {
    /// The lanes of this run.
    pub fn lanes(&self) -> Lanes<'_> {
        Lanes::with_count(self.lanes)
    }
}
