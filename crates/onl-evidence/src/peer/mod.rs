//! One side of a comparison of runtimes on models of one node: a process that opens models and measures blocks of runs
//! when it is told to, so that blocks of several such processes can take turns.

mod serve;

pub use serve::{PeerError, serve};

use crate::attribution::InputFile;
use onl::ProbeWork;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What executes a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerConsumer {
    /// A session of `onl` with bound outputs.
    Onl,
    /// A session of ONNX Runtime through its C interface, with bound inputs and outputs.
    Onnxruntime,
}

/// A task for the process, one JSON document in a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PeerRequest {
    /// Load a model and run it once. What was open before is closed.
    Open {
        /// What executes it.
        consumer: PeerConsumer,
        /// The `.onnx` file.
        model: PathBuf,
        /// The library of ONNX Runtime.
        library: PathBuf,
        /// Inputs in graph order.
        inputs: Vec<InputFile>,
    },
    /// Make a loop at one of the processor's ceilings ready. What was open before is closed.
    Probe {
        /// The loop.
        work: ProbeWork,
        /// Bytes that a pass touches.
        bytes: usize,
    },
    /// Measure a block of runs of what is open.
    Measure {
        /// Nanoseconds of timed runs at least.
        least_ns: u64,
    },
    /// Write the outputs of the first run as `0.pb` and so on.
    Write {
        /// Where to.
        folder: PathBuf,
    },
    /// Close what is open.
    Close,
}

/// What the process answers, one JSON document in a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PeerAnswer {
    /// It is open.
    Opened {
        /// Bytes of all outputs.
        output_bytes: u64,
    },
    /// A block of runs.
    Measured {
        /// Consecutive runs that each time covers.
        runs_per_sample: u32,
        /// Wall nanoseconds of that many runs each, in the order in which they were taken.
        samples_ns: Vec<u64>,
        /// Operations or bytes of a run; only probes count them.
        units: u64,
    },
    /// Done.
    Done,
    /// It could not be done.
    Failed {
        /// Why.
        reason: String,
    },
}
