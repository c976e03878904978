use onl::profiling::{COUNTERS, CounterSample, CounterSet, CounterStatus};
use onl_tuning::statistics::median;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What executes a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Consumer {
    /// This runtime alone.
    Onl,
    /// ONNX Runtime, which reads the `.onnx` file itself.
    Onnxruntime,
    /// ONNX Runtime with a graph that this project's loader read, built through its Model Editor; initializers are
    /// borrowed from the loader's mapping.
    OnnxruntimeWithOnlLoader,
    /// ONNX Runtime with an `.ort` file that it wrote itself before.
    OnnxruntimeOrtFormat,
}

/// One arm of the comparison: a consumer, `onl` being there twice so that equal programs show the noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// [`Consumer::Onl`].
    Onl,
    /// [`Consumer::Onl`] a second time.
    OnlAgain,
    /// [`Consumer::Onnxruntime`].
    Onnxruntime,
    /// [`Consumer::OnnxruntimeWithOnlLoader`].
    OnnxruntimeWithOnlLoader,
    /// [`Consumer::OnnxruntimeOrtFormat`].
    OnnxruntimeOrtFormat,
}

impl Arm {
    /// All arms, in the order of tables.
    pub const ALL: [Arm; 5] = [
        Arm::Onl,
        Arm::OnlAgain,
        Arm::Onnxruntime,
        Arm::OnnxruntimeWithOnlLoader,
        Arm::OnnxruntimeOrtFormat,
    ];

    /// What executes the model.
    pub fn consumer(self) -> Consumer {
        match self {
            Arm::Onl | Arm::OnlAgain => Consumer::Onl,
            Arm::Onnxruntime => Consumer::Onnxruntime,
            Arm::OnnxruntimeWithOnlLoader => Consumer::OnnxruntimeWithOnlLoader,
            Arm::OnnxruntimeOrtFormat => Consumer::OnnxruntimeOrtFormat,
        }
    }

    /// Name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Arm::Onl => "onl",
            Arm::OnlAgain => "onl_again",
            Arm::Onnxruntime => "onnxruntime",
            Arm::OnnxruntimeWithOnlLoader => "onnxruntime_with_onl_loader",
            Arm::OnnxruntimeOrtFormat => "onnxruntime_ort_format",
        }
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Stretches of a process's life, in this order and without gaps between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Opening and mapping the model file.
    Open,
    /// From the file's bytes to a graph in memory.
    Parse,
    /// From the graph to what is executed: inlining, typing, folding, fusing.
    Resolve,
    /// Until the first run can start: kernels prepared, constants packed.
    Ready,
    /// The first run.
    FirstRun,
    /// Runs after warm-up.
    Steady,
}

impl Phase {
    /// All phases in their order.
    pub const ALL: [Phase; 6] = [
        Phase::Open,
        Phase::Parse,
        Phase::Resolve,
        Phase::Ready,
        Phase::FirstRun,
        Phase::Steady,
    ];

    /// Name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Open => "open",
            Phase::Parse => "parse",
            Phase::Resolve => "resolve",
            Phase::Ready => "ready",
            Phase::FirstRun => "first_run",
            Phase::Steady => "steady",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A count, or that nobody can count it here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Count {
    /// The count.
    Counted(u64),
    /// The system or the consumer does not tell.
    Unsupported,
}

impl Count {
    /// The count, if there is one.
    pub fn value(self) -> Option<u64> {
        match self {
            Count::Counted(count) => Some(count),
            Count::Unsupported => None,
        }
    }
}

impl From<Option<u64>> for Count {
    fn from(count: Option<u64>) -> Self {
        count.map_or(Count::Unsupported, Count::Counted)
    }
}

/// Performance counters of the calling thread over a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counters {
    /// Which events; [`CounterSet::names`] gives the order of the counts.
    pub set: CounterSet,
    /// Why each count is one or none.
    pub statuses: [CounterStatus; COUNTERS],
    /// The counts; `None` where the status is not valid.
    pub values: [Option<u64>; COUNTERS],
}

impl Counters {
    /// The counts of a sample of this set.
    pub fn new(set: CounterSet, sample: &CounterSample) -> Self {
        Counters {
            set,
            statuses: sample.statuses(),
            values: sample.values(),
        }
    }
}

/// What a process used during a phase, all its threads together except for the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resources {
    /// Processor time in nanoseconds.
    pub cpu_ns: Count,
    /// Page faults that needed no reading.
    pub minor_faults: Count,
    /// Page faults that waited for a device.
    pub major_faults: Count,
    /// Bytes that calls of `read` gave. Mapped pages are not among them: they are faults.
    pub bytes_read: Count,
    /// Performance counters.
    pub counters: Counters,
}

/// A phase of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseSample {
    /// What was measured.
    Measured {
        /// Wall time in nanoseconds.
        wall_ns: u64,
        /// What it used.
        resources: Resources,
    },
    /// The consumer does not separate it: its time is within that of this phase.
    CombinedWith(Phase),
}

impl PhaseSample {
    /// Wall time in nanoseconds, if it was measured by itself.
    pub fn wall_ns(&self) -> Option<u64> {
        match self {
            PhaseSample::Measured { wall_ns, .. } => Some(*wall_ns),
            PhaseSample::CombinedWith(_) => None,
        }
    }
}

/// All phases of one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Phases {
    pub open: PhaseSample,
    pub parse: PhaseSample,
    pub resolve: PhaseSample,
    pub ready: PhaseSample,
    pub first_run: PhaseSample,
    /// The timed runs together, warm-up excluded.
    pub steady: PhaseSample,
}

impl Phases {
    /// One of them.
    pub fn get(&self, phase: Phase) -> &PhaseSample {
        match phase {
            Phase::Open => &self.open,
            Phase::Parse => &self.parse,
            Phase::Resolve => &self.resolve,
            Phase::Ready => &self.ready,
            Phase::FirstRun => &self.first_run,
            Phase::Steady => &self.steady,
        }
    }

    /// One of them, to be changed.
    pub fn get_mut(&mut self, phase: Phase) -> &mut PhaseSample {
        match phase {
            Phase::Open => &mut self.open,
            Phase::Parse => &mut self.parse,
            Phase::Resolve => &mut self.resolve,
            Phase::Ready => &mut self.ready,
            Phase::FirstRun => &mut self.first_run,
            Phase::Steady => &mut self.steady,
        }
    }

    /// Wall nanoseconds from the opening of the file until the model is ready.
    pub fn load_ns(&self) -> u64 {
        [&self.open, &self.parse, &self.resolve, &self.ready]
            .into_iter()
            .filter_map(PhaseSample::wall_ns)
            .sum()
    }
}

/// Times of the runs after warm-up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SteadyRuns {
    /// Consecutive runs that each time covers; more than one where a run is short.
    pub runs_per_sample: u32,
    /// Wall nanoseconds of that many runs, in the order in which they were taken.
    pub samples_ns: Vec<u64>,
}

impl SteadyRuns {
    /// Median nanoseconds of one run; `None` without samples.
    pub fn median_ns(&self) -> Option<f64> {
        let runs = f64::from(self.runs_per_sample.max(1));
        let times: Vec<f64> = self.samples_ns.iter().map(|&ns| ns as f64 / runs).collect();
        median(&times)
    }
}

/// An output of the first run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputDigest {
    /// Name of the graph's output.
    pub name: String,
    /// Element type as it is named everywhere: `f32`.
    pub element_type: String,
    /// Dimensions, outermost first.
    pub dims: Vec<usize>,
    /// SHA-256 of the elements in their storage form, lower-case hexadecimal. Strings are joined, each behind its length
    /// as 8 bytes, the least significant first.
    pub sha256: String,
}

/// One process that loaded and ran a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// Arm that it belongs to.
    pub arm: Arm,
    /// Round, from 0; one process of every arm makes a round.
    pub round: u32,
    /// Position within its round, from 0.
    pub position: u32,
    /// Its phases.
    pub phases: Phases,
    /// The timed runs.
    pub steady: SteadyRuns,
    /// Most memory that was resident, in bytes.
    pub peak_memory_bytes: Count,
    /// Bytes of constants that the loader copied instead of borrowing them from the file.
    pub bytes_copied: Count,
    /// Outputs of the first run, in graph order.
    pub outputs: Vec<OutputDigest>,
}
