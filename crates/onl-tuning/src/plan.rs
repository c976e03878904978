//! What tuning a kernel could be worth to a model, before anything is measured.

use crate::decision::{KeepReason, Verdict};
use crate::evidence::KeyEvidence;
use crate::statistics::RatioInterval;
use onl_snapshot::KernelKey;
use serde::Serialize;

/// What one kernel does in runs of a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KernelUse {
    /// Kernel.
    #[serde(skip)]
    pub key: KernelKey,
    /// Nodes of the model that it runs.
    pub nodes: u64,
    /// Calls per run.
    pub calls: f64,
    /// Nanoseconds per run.
    pub ns: f64,
    /// Part of the runs' time.
    pub share: f64,
    /// Nanoseconds per run that one lane spends alone: outside regions, and in regions that ran inline; `None` when
    /// events were dropped.
    pub serial_ns: Option<f64>,
    /// Nanoseconds per run that the lanes of divided regions did not use: wall × (1 − utilization).
    pub unused_ns: Option<f64>,
}

/// What is saved of a kernel for this execution identity.
#[derive(Debug, Clone, PartialEq)]
pub enum Saved {
    /// Nothing.
    Nothing,
    /// A promoted row with its time over the default's; `in_use` when the model was profiled with it.
    Promoted {
        /// Its time over the default's, when the evidence is there.
        ratio: Option<RatioInterval>,
        /// Whether the profiled model ran with the row.
        in_use: bool,
    },
    /// The default was confirmed; with the best candidate's time over the default's when one was measured.
    DefaultConfirmed {
        /// Of the best candidate.
        ratio: Option<RatioInterval>,
    },
}

impl Saved {
    /// The ratio that evidence of one key holds: of the processes that measured it, the one with the smaller gain.
    pub fn ratio_of(processes: &[KeyEvidence]) -> Option<RatioInterval> {
        processes
            .iter()
            .filter_map(|p| p.decision.as_ref())
            .filter(|d| !matches!(d.verdict, Verdict::Keep(KeepReason::SamePath)))
            .filter_map(|d| d.ratio)
            .max_by(|a, b| a.estimate.total_cmp(&b.estimate))
    }
}

/// What tuning one kernel could save of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "basis")]
pub enum Worth {
    /// By stored evidence, in nanoseconds per run.
    Measured {
        /// Least.
        lower_ns: f64,
        /// Best estimate.
        ns: f64,
        /// Most.
        upper_ns: f64,
    },
    /// At most this much can come from dividing the work better; what another algorithm would give is not known.
    AtMost {
        /// Nanoseconds per run.
        ns: f64,
    },
    /// The promoted row is in use already.
    InUse {
        /// Nanoseconds per run that it saves, when the evidence is there.
        saves_ns: Option<f64>,
    },
    /// Nothing is known.
    Unknown,
}

impl Worth {
    /// Most nanoseconds per run that tuning could still save; `None` when that is not known.
    pub fn most_ns(&self) -> Option<f64> {
        match self {
            Worth::Measured { upper_ns, .. } => Some(*upper_ns),
            Worth::AtMost { ns } => Some(*ns),
            Worth::InUse { .. } => Some(0.0),
            Worth::Unknown => None,
        }
    }
}

/// What tuning a kernel could save per run with `participants` lanes. With stored evidence the measured ratio answers.
/// Without, the time that one lane spends alone could fall by 1 − 1/participants at most, and the unused time of divided
/// regions could vanish.
pub fn worth(kernel: &KernelUse, saved: &Saved, participants: u32) -> Worth {
    let positive = |ns: f64| ns.max(0.0);
    match saved {
        Saved::Promoted {
            ratio,
            in_use: true,
        } => Worth::InUse {
            saves_ns: ratio.map(|r| positive(kernel.ns * (1.0 / r.estimate - 1.0))),
        },
        Saved::Promoted {
            ratio: Some(ratio), ..
        } => Worth::Measured {
            lower_ns: positive(kernel.ns * (1.0 - ratio.upper)),
            ns: positive(kernel.ns * (1.0 - ratio.estimate)),
            upper_ns: positive(kernel.ns * (1.0 - ratio.lower)),
        },
        // The candidate was not shown to win: its interval bounds what it could.
        Saved::DefaultConfirmed { ratio } => Worth::Measured {
            lower_ns: 0.0,
            ns: 0.0,
            upper_ns: ratio.map_or(0.0, |r| positive(kernel.ns * (1.0 - r.lower))),
        },
        Saved::Promoted { ratio: None, .. } | Saved::Nothing => {
            match (kernel.serial_ns, kernel.unused_ns) {
                (Some(serial), Some(unused)) if participants > 1 => Worth::AtMost {
                    ns: serial * (1.0 - 1.0 / f64::from(participants)) + unused,
                },
                _ => Worth::Unknown,
            }
        }
    }
}
