//! Measurements whose figures are written down instead of taken, for tests of what follows from them.

use super::request::{Answer, OperatorTime, Profile, Request};
use super::{
    Arm, AttributionReport, CONFIDENCE, Count, Counters, InputShape, ModelIdentity, ModelPlan,
    OutputDigest, Phase, PhaseSample, Phases, Protocol, RegionRow, Resources, RunnerError,
    RuntimeLibrary, Sample, SampleRunner, SteadyRuns, attribute_model,
};
use crate::onnxruntime::sha256;
use crate::report::{Report, ReportHead};
use onl::profiling::{COUNTERS, CounterSet, CounterStatus};
use onl::{CpuExecutionPolicy, CpuSystem, Tensor, Value};
use onl_tuning::statistics::SplitMix64;
use std::collections::BTreeMap;
use std::path::Path;

/// Runs of the profiles.
const PROFILED_RUNS: u64 = 20;

/// What an arm takes, in nanoseconds and bytes.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub struct ScriptedArm {
    /// Open, parse, resolve and ready; `None` is within ready.
    pub load: [Option<u64>; 4],
    pub first_run: u64,
    pub steady: u64,
    pub memory: u64,
    /// The only output.
    pub output: Vec<f32>,
    /// Why the arm cannot run the model.
    pub unsupported: Option<String>,
}

/// A slow-down of one phase of one arm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Planted {
    /// The arm.
    pub arm: Arm,
    /// The phase.
    pub phase: Phase,
    /// Its time is multiplied by this.
    pub factor: f64,
}

/// Answers from a script, with jitter that depends on arm, round and phase alone.
#[derive(Debug, Clone)]
pub struct ScriptedRunner {
    /// What each arm takes.
    pub arms: BTreeMap<Arm, ScriptedArm>,
    /// Largest relative deviation of a time from the script.
    pub jitter: f64,
    /// A slow-down beyond the script.
    pub planted: Option<Planted>,
    /// Operators of `onl`: name, nodes, nanoseconds of a run.
    pub onl_operators: Vec<(&'static str, u64, u64)>,
    /// Operators of ONNX Runtime.
    pub onnxruntime_operators: Vec<(&'static str, u64, u64)>,
}

impl ScriptedRunner {
    /// All arms take the same time, and separate the same phases.
    pub fn equal() -> Self {
        let arm = ScriptedArm {
            load: [
                Some(40_000),
                Some(9_000_000),
                Some(2_000_000),
                Some(30_000_000),
            ],
            first_run: 50_000_000,
            steady: 20_000_000,
            memory: 80 << 20,
            output: vec![3.0, 4.0],
            unsupported: None,
        };
        ScriptedRunner {
            arms: Arm::ALL.into_iter().map(|of| (of, arm.clone())).collect(),
            jitter: 0.005,
            planted: None,
            onl_operators: vec![("MatMul", 24, 18_000_000), ("Erf", 3, 1_500_000)],
            onnxruntime_operators: vec![("MatMul", 21, 18_000_000), ("BiasGelu", 3, 1_500_000)],
        }
    }

    /// Both arms of `onl`, to be changed alike.
    pub fn onl(&mut self, change: impl Fn(&mut ScriptedArm)) {
        self.arm(Arm::Onl, &change);
        self.arm(Arm::OnlAgain, &change);
    }

    /// An arm, to be changed.
    pub fn arm(&mut self, arm: Arm, change: impl Fn(&mut ScriptedArm)) {
        if let Some(scripted) = self.arms.get_mut(&arm) {
            change(scripted);
        }
    }

    /// The report of a model by this script, with the given number of rounds.
    ///
    /// # Errors
    /// What [`attribute_model`] gives, in words.
    pub fn report(&mut self, rounds: u32) -> Result<AttributionReport, String> {
        let folder = std::env::temp_dir().join(format!(
            "onl-scripted-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let made = self.report_in(&folder, rounds);
        // Nothing else uses the folder, whether or not it was made.
        let _ = std::fs::remove_dir_all(&folder);
        made
    }

    fn report_in(&mut self, folder: &Path, rounds: u32) -> Result<AttributionReport, String> {
        std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        let plan = ModelPlan {
            identity: ModelIdentity {
                name: "scripted".to_owned(),
                file_bytes: 1,
                sha256: sha256(b"scripted"),
                inputs: vec![InputShape {
                    name: "x".to_owned(),
                    element_type: "f32".to_owned(),
                    dims: vec![1, 128],
                }],
            },
            model: folder.join("scripted.onnx"),
            library: folder.join("library"),
            inputs: Vec::new(),
            folder: folder.to_owned(),
        };
        let protocol = Protocol {
            rounds,
            warmup: 5,
            min_time_s: 0.3,
            order_seed: 0,
            confidence: CONFIDENCE,
        };
        let model = attribute_model(self, &plan, &protocol, &mut |_, _| true)
            .map_err(|error| error.to_string())?;
        let policy = CpuExecutionPolicy {
            threads: 2,
            ..CpuExecutionPolicy::default()
        };
        let execution = policy
            .resolve(&CpuSystem::current())
            .map_err(|error| error.to_string())?
            .descriptor();
        Ok(AttributionReport {
            head: ReportHead::current(
                AttributionReport::KIND,
                AttributionReport::SCHEMA,
                execution,
            ),
            onnxruntime: RuntimeLibrary {
                version: "1.32.0".to_owned(),
                build: "scripted".to_owned(),
                sha256: sha256(b"library"),
            },
            protocol,
            models: vec![model],
        })
    }

    fn sample(&self, arm: Arm, round: u32, position: u32) -> Sample {
        let scripted = &self.arms[&arm];
        let mut random = SplitMix64(u64::from(round) << 8 | arm as u64);
        let mut time = |phase: Phase, ns: u64| {
            let jitter = 1.0 + self.jitter * (2.0 * random.next_f64() - 1.0);
            let slower = match self.planted {
                Some(planted) if planted.arm == arm && planted.phase == phase => planted.factor,
                _ => 1.0,
            };
            (ns as f64 * jitter * slower) as u64
        };
        let measured = |wall_ns: u64| PhaseSample::Measured {
            wall_ns,
            resources: Resources {
                cpu_ns: Count::Counted(wall_ns),
                minor_faults: Count::Counted(7),
                major_faults: Count::Counted(0),
                bytes_read: Count::Counted(0),
                counters: Counters {
                    set: CounterSet::Hardware,
                    statuses: [CounterStatus::Unsupported; COUNTERS],
                    values: [None; COUNTERS],
                },
            },
        };
        let mut load = |phase: Phase, ns: Option<u64>| match ns {
            Some(ns) => measured(time(phase, ns)),
            None => PhaseSample::CombinedWith(Phase::Ready),
        };
        let [open, parse, resolve, ready] = scripted.load;
        let load = [
            load(Phase::Open, open),
            load(Phase::Parse, parse),
            load(Phase::Resolve, resolve),
            load(Phase::Ready, ready),
        ];
        let first_run = measured(time(Phase::FirstRun, scripted.first_run));
        let samples_ns: Vec<u64> = (0..3)
            .map(|_| time(Phase::Steady, scripted.steady))
            .collect();
        let output: Vec<u8> = scripted
            .output
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect();
        Sample {
            arm,
            round,
            position,
            phases: Phases {
                open: load[0],
                parse: load[1],
                resolve: load[2],
                ready: load[3],
                first_run,
                steady: measured(samples_ns.iter().sum::<u64>() + 1_000),
            },
            steady: SteadyRuns {
                runs_per_sample: 1,
                samples_ns,
            },
            peak_memory_bytes: Count::Counted(scripted.memory + u64::from(round % 3) * 4096),
            bytes_copied: Count::Unsupported,
            outputs: vec![OutputDigest {
                name: "y".to_owned(),
                element_type: "f32".to_owned(),
                dims: vec![scripted.output.len()],
                sha256: sha256(&output),
            }],
        }
    }

    fn profile(&self, arm: Arm) -> Profile {
        let ours = arm == Arm::Onl;
        let operators = if ours {
            &self.onl_operators
        } else {
            &self.onnxruntime_operators
        };
        let regions = operators
            .iter()
            .filter(|_| ours)
            .map(|(operator, nodes, ns)| RegionRow {
                operator: (*operator).to_owned(),
                site: format!("{}.rows", operator.to_lowercase()),
                path: String::new(),
                calls: *nodes as f64,
                wall_ns: *ns as f64,
                utilization: Some(0.9),
            });
        Profile {
            runs: PROFILED_RUNS,
            outside_nodes_ns: ours.then_some(PROFILED_RUNS * 10_000),
            operators: operators
                .iter()
                .map(|(operator, nodes, ns)| OperatorTime {
                    operator: (*operator).to_owned(),
                    nodes: *nodes,
                    wall_ns: PROFILED_RUNS * ns,
                })
                .collect(),
            regions: regions.collect(),
        }
    }
}

impl SampleRunner for ScriptedRunner {
    fn run(&mut self, request: &Request) -> Result<Answer, RunnerError> {
        let unsupported = |arm: &Arm| {
            let reason = self.arms[arm].unsupported.clone()?;
            Some(Answer::Unsupported { reason })
        };
        match request {
            Request::Describe { .. } => Err(RunnerError {
                reason: "there is no library in a script".to_owned(),
            }),
            Request::WriteOrtFormat { .. } => {
                Ok(unsupported(&Arm::OnnxruntimeOrtFormat).unwrap_or(Answer::Written))
            }
            Request::Sample {
                subject,
                round,
                position,
                outputs,
                ..
            } => {
                if let Some(refused) = unsupported(&subject.arm) {
                    return Ok(refused);
                }
                if let Some(folder) = outputs {
                    let output = &self.arms[&subject.arm].output;
                    Tensor::from_slice(&[output.len()], output)
                        .map_err(onl::Error::from)
                        .and_then(|tensor| {
                            onl::write_value(&folder.join("0.pb"), &Value::from(tensor))
                        })
                        .map_err(|error| RunnerError {
                            reason: error.to_string(),
                        })?;
                }
                let sample = self.sample(subject.arm, *round, *position);
                Ok(Answer::Sample(Box::new(sample)))
            }
            Request::Profile { subject, .. } => Ok(unsupported(&subject.arm)
                .unwrap_or_else(|| Answer::Profile(self.profile(subject.arm)))),
        }
    }
}
