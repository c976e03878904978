//! What a process of a measurement is asked, and what it answers.

use super::{Arm, RegionRow, RuntimeLibrary, Sample};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A tensor in a `.pb` file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputFile {
    /// Name of the graph's input.
    pub name: String,
    /// The file.
    pub path: PathBuf,
}

/// What is executed, and on what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// The arm.
    pub arm: Arm,
    /// The `.onnx` file.
    pub model: PathBuf,
    /// What ONNX Runtime made of it in its own format.
    pub ort_file: PathBuf,
    /// The library of ONNX Runtime.
    pub library: PathBuf,
    /// Inputs in graph order.
    pub inputs: Vec<InputFile>,
}

/// A task for a process of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Load the library of ONNX Runtime and tell what it is.
    Describe {
        /// The library.
        library: PathBuf,
    },
    /// Let ONNX Runtime write a model in its own format.
    WriteOrtFormat {
        /// The library.
        library: PathBuf,
        /// The `.onnx` file.
        model: PathBuf,
        /// The file to write.
        ort_file: PathBuf,
    },
    /// Load, run and measure.
    Sample {
        /// What is measured.
        subject: Subject,
        /// Round that the sample belongs to.
        round: u32,
        /// Position within the round.
        position: u32,
        /// Untimed runs before the steady ones.
        warmup: u32,
        /// Seconds of steady runs at least.
        min_time_s: f64,
        /// Folder that the outputs are written to, as `0.pb` and so on.
        outputs: Option<PathBuf>,
    },
    /// Load, run and tell what the operators take.
    Profile {
        /// What is profiled.
        subject: Subject,
        /// Runs before the recorded ones.
        warmup: u32,
        /// Recorded runs.
        runs: u32,
        /// Folder for files of the profile.
        folder: PathBuf,
    },
}

/// What a process answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Answer {
    /// To [`Request::Describe`].
    Library(RuntimeLibrary),
    /// To [`Request::WriteOrtFormat`].
    Written,
    /// To [`Request::Sample`].
    Sample(Box<Sample>),
    /// To [`Request::Profile`].
    Profile(Profile),
    /// The consumer cannot do this with this model.
    Unsupported {
        /// Why.
        reason: String,
    },
}

/// What the operators of one consumer took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Recorded runs.
    pub runs: u64,
    /// Nanoseconds of all runs that lie in no node; `None` when that is not known.
    pub outside_nodes_ns: Option<u64>,
    /// Times by operator.
    pub operators: Vec<OperatorTime>,
    /// Regions, the longest first; only `onl` has any.
    pub regions: Vec<RegionRow>,
}

/// What the nodes of one operator took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorTime {
    /// Operator, without its domain.
    pub operator: String,
    /// Nodes.
    pub nodes: u64,
    /// Nanoseconds of all recorded runs.
    pub wall_ns: u64,
}
