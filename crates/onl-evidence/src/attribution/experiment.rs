//! Takes the samples of a model, one process each, and puts the report's entry together.

use super::decision::decide;
use super::derive::{agreement, comparisons, figures, noise, order, samples_digest};
use super::measure::output_path;
use super::request::{Answer, InputFile, Profile, Request, Subject};
use super::{
    Arm, ModelAttribution, ModelIdentity, OperatorRow, OperatorTable, Protocol, RuntimeLibrary,
    Sample, UnsupportedArm,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Runs of a profile.
const PROFILED_RUNS: u32 = 20;

/// Carries out requests, each in a process of its own.
pub trait SampleRunner {
    /// The answer to a request.
    ///
    /// # Errors
    /// [`RunnerError`] when the process fails.
    fn run(&mut self, request: &Request) -> Result<Answer, RunnerError>;
}

/// Why a process gave no answer.
#[derive(Debug, Error)]
#[error("{reason}")]
pub struct RunnerError {
    /// In words.
    pub reason: String,
}

/// Why a model cannot be attributed.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum AttributionError {
    #[error("{what}")]
    Process { what: String, source: RunnerError },
    #[error("{what}: the process answered something else")]
    Answer { what: String },
    #[error("{arm} cannot run the model: {reason}")]
    Onl { arm: Arm, reason: String },
    #[error("{arm}, round {round}: it ran the model before and now says {reason}")]
    Unsteady {
        arm: Arm,
        round: u32,
        reason: String,
    },
    #[error("{action} {}: {reason}", path.display())]
    File {
        action: &'static str,
        path: PathBuf,
        reason: String,
    },
    #[error("stopped by the user")]
    Stopped,
}

/// A model to attribute.
#[derive(Debug, Clone)]
pub struct ModelPlan {
    /// Which model on which inputs.
    pub identity: ModelIdentity,
    /// The `.onnx` file.
    pub model: PathBuf,
    /// The library of ONNX Runtime.
    pub library: PathBuf,
    /// Inputs in graph order.
    pub inputs: Vec<InputFile>,
    /// Folder for files that are needed meanwhile.
    pub folder: PathBuf,
}

/// What the library tells of itself, asked in a process of its own.
///
/// # Errors
/// [`AttributionError::Process`] with the reason why it cannot be loaded.
pub fn describe_library(
    runner: &mut dyn SampleRunner,
    library: &Path,
) -> Result<RuntimeLibrary, AttributionError> {
    let what = || "the library of ONNX Runtime".to_owned();
    let request = Request::Describe {
        library: library.to_owned(),
    };
    match runner.run(&request) {
        Ok(Answer::Library(library)) => Ok(library),
        Ok(_) => Err(AttributionError::Answer { what: what() }),
        Err(source) => Err(AttributionError::Process {
            what: what(),
            source,
        }),
    }
}

/// Takes all samples and profiles of a model. `progress` is told of every process before it starts, and stops the
/// measurement by returning `false`.
///
/// # Errors
/// [`AttributionError`]; a consumer of ONNX Runtime that cannot run the model is told in the result instead.
pub fn attribute_model(
    runner: &mut dyn SampleRunner,
    plan: &ModelPlan,
    protocol: &Protocol,
    progress: &mut dyn FnMut(Arm, u32) -> bool,
) -> Result<ModelAttribution, AttributionError> {
    let mut experiment = Experiment {
        runner,
        plan,
        protocol,
        unsupported: Vec::new(),
        samples: Vec::new(),
    };
    experiment.write_ort_format()?;
    experiment.take_samples(progress)?;
    let onl_relative_l2 = experiment.distance()?;
    let onl = experiment.profile(Arm::Onl)?;
    let onnxruntime = experiment.profile(Arm::Onnxruntime)?;
    let operators = operator_table(onl.as_ref(), onnxruntime.as_ref());
    let Experiment {
        mut unsupported,
        samples,
        ..
    } = experiment;
    unsupported.sort_by_key(|unsupported| unsupported.arm);
    let figures = figures(&samples);
    let noise = noise(&samples);
    let comparisons = comparisons(&samples, &noise);
    let decision = decide(&figures, &noise, &comparisons, &operators);
    Ok(ModelAttribution {
        model: plan.identity.clone(),
        unsupported,
        samples_sha256: samples_digest(&samples),
        outputs: agreement(&samples, onl_relative_l2),
        samples,
        figures,
        noise,
        comparisons,
        operators,
        decision,
    })
}

struct Experiment<'a> {
    runner: &'a mut dyn SampleRunner,
    plan: &'a ModelPlan,
    protocol: &'a Protocol,
    unsupported: Vec<UnsupportedArm>,
    samples: Vec<Sample>,
}

impl Experiment<'_> {
    fn ort_file(&self) -> PathBuf {
        self.plan.folder.join("model.ort")
    }

    fn subject(&self, arm: Arm) -> Subject {
        Subject {
            arm,
            model: self.plan.model.clone(),
            ort_file: self.ort_file(),
            library: self.plan.library.clone(),
            inputs: self.plan.inputs.clone(),
        }
    }

    fn outputs(&self, arm: Arm) -> PathBuf {
        self.plan.folder.join(arm.name())
    }

    fn ask(&mut self, request: &Request, what: String) -> Result<Answer, AttributionError> {
        self.runner
            .run(request)
            .map_err(|source| AttributionError::Process { what, source })
    }

    fn write_ort_format(&mut self) -> Result<(), AttributionError> {
        let what = || "the .ort file of ONNX Runtime".to_owned();
        let request = Request::WriteOrtFormat {
            library: self.plan.library.clone(),
            model: self.plan.model.clone(),
            ort_file: self.ort_file(),
        };
        match self.ask(&request, what())? {
            Answer::Written => Ok(()),
            Answer::Unsupported { reason } => {
                self.unsupported.push(UnsupportedArm {
                    arm: Arm::OnnxruntimeOrtFormat,
                    reason,
                });
                Ok(())
            }
            _ => Err(AttributionError::Answer { what: what() }),
        }
    }

    /// Rounds in their seeded order. Before them every arm shows once that it can run the model, and leaves its outputs.
    fn take_samples(
        &mut self,
        progress: &mut dyn FnMut(Arm, u32) -> bool,
    ) -> Result<(), AttributionError> {
        for arm in Arm::ALL {
            let known = self
                .unsupported
                .iter()
                .any(|unsupported| unsupported.arm == arm);
            if known || arm == Arm::OnlAgain {
                continue;
            }
            let folder = self.outputs(arm);
            std::fs::create_dir_all(&folder).map_err(|error| AttributionError::File {
                action: "making the folder",
                path: folder.clone(),
                reason: error.to_string(),
            })?;
            let request = Request::Sample {
                subject: self.subject(arm),
                round: 0,
                position: 0,
                warmup: 0,
                min_time_s: 0.0,
                outputs: Some(folder),
            };
            match self.ask(&request, format!("trying {arm}"))? {
                Answer::Sample(_) => {}
                Answer::Unsupported { reason } if arm == Arm::Onl => {
                    return Err(AttributionError::Onl { arm, reason });
                }
                Answer::Unsupported { reason } => {
                    self.unsupported.push(UnsupportedArm { arm, reason });
                }
                _ => {
                    return Err(AttributionError::Answer {
                        what: arm.to_string(),
                    });
                }
            }
        }
        let arms: Vec<Arm> = Arm::ALL
            .into_iter()
            .filter(|arm| {
                !self
                    .unsupported
                    .iter()
                    .any(|unsupported| unsupported.arm == *arm)
            })
            .collect();
        for round in 0..self.protocol.rounds {
            let order = order(&arms, self.protocol.order_seed, round);
            for (position, arm) in (0..).zip(order) {
                if !progress(arm, round) {
                    return Err(AttributionError::Stopped);
                }
                let request = Request::Sample {
                    subject: self.subject(arm),
                    round,
                    position,
                    warmup: self.protocol.warmup,
                    min_time_s: self.protocol.min_time_s,
                    outputs: None,
                };
                match self.ask(&request, format!("{arm}, round {round}"))? {
                    Answer::Sample(sample) => self.samples.push(*sample),
                    Answer::Unsupported { reason } => {
                        return Err(AttributionError::Unsteady { arm, round, reason });
                    }
                    _ => {
                        return Err(AttributionError::Answer {
                            what: arm.to_string(),
                        });
                    }
                }
            }
        }
        Ok(())
    }

    /// Largest relative L2 distance of an output of `onl` from ONNX Runtime's.
    fn distance(&self) -> Result<Option<f64>, AttributionError> {
        if !self
            .samples
            .iter()
            .any(|sample| sample.arm == Arm::Onnxruntime)
        {
            return Ok(None);
        }
        let Some(outputs) = self.samples.iter().find(|sample| sample.arm == Arm::Onl) else {
            return Ok(None);
        };
        let read = |arm: Arm, index: usize| -> Result<Option<Vec<f64>>, AttributionError> {
            let path = output_path(&self.outputs(arm), index);
            let value = onl::read_value(&path, None).map_err(|error| AttributionError::File {
                action: "reading the output",
                path,
                reason: error.to_string(),
            })?;
            Ok(value.as_tensor().and_then(onl::to_f64))
        };
        let mut largest: Option<f64> = None;
        for index in 0..outputs.outputs.len() {
            let (ours, theirs) = (read(Arm::Onl, index)?, read(Arm::Onnxruntime, index)?);
            if let Some(distance) = ours.zip(theirs).and_then(|(a, b)| relative_l2(&a, &b)) {
                largest = Some(largest.map_or(distance, |largest| largest.max(distance)));
            }
        }
        Ok(largest)
    }

    fn profile(&mut self, arm: Arm) -> Result<Option<Profile>, AttributionError> {
        if self
            .unsupported
            .iter()
            .any(|unsupported| unsupported.arm == arm)
        {
            return Ok(None);
        }
        let request = Request::Profile {
            subject: self.subject(arm),
            warmup: self.protocol.warmup,
            runs: PROFILED_RUNS,
            folder: self.plan.folder.clone(),
        };
        match self.ask(&request, format!("profiling {arm}"))? {
            Answer::Profile(profile) => Ok(Some(profile)),
            Answer::Unsupported { .. } => Ok(None),
            _ => Err(AttributionError::Answer {
                what: format!("profiling {arm}"),
            }),
        }
    }
}

/// ‖a − b‖ / ‖b‖ in double precision, ‖a‖ where b is zero. Elements that are NaN on both sides, or equal infinities, are
/// equal. `None` for tensors of different sizes, without elements, or with infinities or NaN on one side only.
fn relative_l2(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.len() != b.len() || a.is_empty() {
        return None;
    }
    let (mut difference, mut norm) = (0.0, 0.0);
    for (&a, &b) in a.iter().zip(b) {
        if a == b || (a.is_nan() && b.is_nan()) {
            norm += if b.is_finite() { b * b } else { 0.0 };
            continue;
        }
        difference += (a - b) * (a - b);
        norm += b * b;
    }
    let distance = if norm > 0.0 {
        (difference / norm).sqrt()
    } else {
        f64::sqrt(difference)
    };
    distance.is_finite().then_some(distance)
}

/// Operators of both profiles side by side.
fn operator_table(onl: Option<&Profile>, onnxruntime: Option<&Profile>) -> OperatorTable {
    let mut rows: BTreeMap<String, OperatorRow> = BTreeMap::new();
    for (profile, ours) in [(onl, true), (onnxruntime, false)] {
        let Some(profile) = profile else { continue };
        for time in &profile.operators {
            let row = rows.entry(time.operator.clone()).or_insert(OperatorRow {
                operator: time.operator.clone(),
                onl_nodes: 0,
                onl_ns: 0.0,
                onnxruntime_nodes: 0,
                onnxruntime_ns: 0.0,
            });
            let (nodes, ns) = if ours {
                (&mut row.onl_nodes, &mut row.onl_ns)
            } else {
                (&mut row.onnxruntime_nodes, &mut row.onnxruntime_ns)
            };
            *nodes += time.nodes;
            *ns += time.wall_ns as f64 / profile.runs.max(1) as f64;
        }
    }
    let mut operators: Vec<OperatorRow> = rows.into_values().collect();
    let largest = |row: &OperatorRow| row.onl_ns.max(row.onnxruntime_ns);
    operators.sort_by(|a, b| largest(b).total_cmp(&largest(a)));
    let runs = |profile: Option<&Profile>| profile.map_or(0, |profile| profile.runs);
    OperatorTable {
        onl_runs: runs(onl),
        onl_outside_nodes_ns: onl.and_then(|profile| {
            Some(profile.outside_nodes_ns? as f64 / profile.runs.max(1) as f64)
        }),
        onnxruntime_runs: runs(onnxruntime),
        operators,
        regions: onl.map_or_else(Vec::new, |profile| profile.regions.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_relative_to_the_reference() {
        assert_eq!(relative_l2(&[3.0, 4.0], &[3.0, 4.0]), Some(0.0));
        assert_eq!(relative_l2(&[3.0, 4.5], &[3.0, 4.0]), Some(0.1));
        assert_eq!(relative_l2(&[f64::NAN, 2.0], &[f64::NAN, 1.0]), Some(1.0));
        assert_eq!(relative_l2(&[0.5], &[0.0]), Some(0.5));
        assert_eq!(relative_l2(&[f64::INFINITY], &[1.0]), None);
        assert_eq!(relative_l2(&[1.0], &[1.0, 2.0]), None);
    }
}
