//! Carries out what a process of a measurement is asked.

use super::constants::copied_bytes;
use super::probe::Probe;
use super::request::{Answer, InputFile, OperatorTime, Profile, Request, Subject};
use super::{
    Arm, Consumer, Count, OutputDigest, Phase, PhaseSample, Phases, RegionRow, Sample, SteadyRuns,
};
use crate::Repeated;
use crate::onnxruntime::{
    InputValues, Library, OnnxRuntimeError, OnnxRuntimeSession, SessionSettings, hexadecimal,
    read_profile,
};
use onl::profiling::{Collector, CollectorOptions, ProfilingLevel, Summary};
use onl::{
    CpuExecutionPolicy, Environment, LoadLimits, LoadPhase, RunControl, Session, Tensor, Value,
    WaitMode,
};
use onl_cpu::CpuSystem;
use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Steady samples that a process takes for the time it is given; a sample covers more than one run where runs are short.
const STEADY_SAMPLES: u32 = 100;
/// Steady samples at least.
const LEAST_SAMPLES: usize = 3;

/// Why a process of a measurement failed.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum MeasureError {
    #[error(transparent)]
    Onl(#[from] onl::Error),
    #[error(transparent)]
    OnnxRuntime(#[from] OnnxRuntimeError),
    #[error("input '{name}' from {}: {reason}", path.display())]
    Input {
        name: String,
        path: PathBuf,
        reason: String,
    },
    #[error("writing output {index} to {}: {source}", path.display())]
    Output {
        index: usize,
        path: PathBuf,
        source: Box<onl::Error>,
    },
}

/// Sessions of `onl` are made with these.
#[derive(Clone)]
pub struct OnlSettings {
    /// How sessions use the processor; those of ONNX Runtime follow it as far as they can.
    pub policy: CpuExecutionPolicy,
    /// Kernels and profiles.
    pub environment: Environment,
}

/// Carries out a request in this process.
///
/// # Errors
/// [`MeasureError`]; what the consumer cannot do with the model is an answer instead.
pub fn answer(request: &Request, settings: &OnlSettings) -> Result<Answer, MeasureError> {
    let answered = match request {
        Request::Describe { library } => return describe(library),
        Request::WriteOrtFormat {
            library,
            model,
            ort_file,
        } => Library::load(library)
            .and_then(|library| library.write_ort_format(model, ort_file))
            .map(|()| Answer::Written)
            .map_err(MeasureError::from),
        Request::Sample {
            subject,
            round,
            position,
            warmup,
            min_time_s,
            outputs,
        } => {
            let steady = Steady {
                warmup: *warmup,
                least: Duration::from_secs_f64(min_time_s.clamp(0.0, 86_400.0)),
            };
            sample(subject, steady, settings, outputs.as_deref()).map(|mut sample| {
                sample.round = *round;
                sample.position = *position;
                Answer::Sample(Box::new(sample))
            })
        }
        Request::Profile {
            subject,
            warmup,
            runs,
            folder,
        } => match subject.arm.consumer() {
            Consumer::Onl => profile_onl(subject, *warmup, *runs, settings).map(Answer::Profile),
            _ => {
                profile_onnxruntime(subject, *warmup, *runs, settings, folder).map(Answer::Profile)
            }
        },
    };
    match answered {
        // What ONNX Runtime refuses is a property of the model, told in the report.
        Err(MeasureError::OnnxRuntime(
            error @ (OnnxRuntimeError::Call { .. } | OnnxRuntimeError::Unsupported { .. }),
        )) => Ok(Answer::Unsupported {
            reason: error.to_string(),
        }),
        other => other,
    }
}

fn describe(library: &Path) -> Result<Answer, MeasureError> {
    Ok(Answer::Library(Library::load(library)?.describe()?))
}

/// How steady runs are taken.
#[derive(Clone, Copy)]
struct Steady {
    warmup: u32,
    least: Duration,
}

impl Steady {
    /// Warms up and takes the samples.
    fn take(
        self,
        first: Duration,
        mut run: impl FnMut() -> Result<(), MeasureError>,
    ) -> Result<(PhaseSample, SteadyRuns), MeasureError> {
        let mut shortest = first;
        for _ in 0..self.warmup {
            let started = Instant::now();
            run()?;
            shortest = shortest.min(started.elapsed());
        }
        let per_sample = self.least / STEADY_SAMPLES;
        let runs_per_sample =
            (per_sample.as_nanos() / shortest.as_nanos().max(1)).clamp(1, 1_000_000) as u32;
        let most = 4 * STEADY_SAMPLES as usize;
        let mut samples_ns = Vec::with_capacity(most);
        let probe = Probe::begin();
        let started = Instant::now();
        while samples_ns.len() < LEAST_SAMPLES
            || (started.elapsed() < self.least && samples_ns.len() < most)
        {
            let start = Instant::now();
            for _ in 0..runs_per_sample {
                run()?;
            }
            samples_ns.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
        let phase = probe.end();
        Ok((
            phase,
            SteadyRuns {
                runs_per_sample,
                samples_ns,
            },
        ))
    }
}

fn sample(
    subject: &Subject,
    steady: Steady,
    settings: &OnlSettings,
    outputs: Option<&Path>,
) -> Result<Sample, MeasureError> {
    let inputs = read_inputs(&subject.inputs)?;
    let (sample, tensors) = match subject.arm.consumer() {
        Consumer::Onl => sample_onl(subject, &inputs, steady, settings)?,
        _ => sample_onnxruntime(subject, &inputs, steady, settings)?,
    };
    if let Some(folder) = outputs {
        for (index, (_, tensor)) in tensors.into_iter().enumerate() {
            let path = output_path(folder, index);
            onl::write_value(&path, &Value::from(tensor)).map_err(|source| {
                MeasureError::Output {
                    index,
                    path,
                    source: Box::new(source),
                }
            })?;
        }
    }
    Ok(sample)
}

/// SHA-256 of a file's bytes, lower-case hexadecimal.
///
/// # Errors
/// When the file cannot be read.
pub fn file_sha256(path: &Path) -> std::io::Result<String> {
    let mut hasher = Sha256::new();
    std::io::copy(&mut std::fs::File::open(path)?, &mut hasher)?;
    Ok(hexadecimal(&hasher.finalize()))
}

/// Where an output is written.
pub(super) fn output_path(folder: &Path, index: usize) -> PathBuf {
    folder.join(format!("{index}.pb"))
}

pub(crate) fn read_inputs(files: &[InputFile]) -> Result<Vec<(String, Tensor)>, MeasureError> {
    let read = |file: &InputFile| {
        let failed = |reason: String| MeasureError::Input {
            name: file.name.clone(),
            path: file.path.clone(),
            reason,
        };
        let value = onl::read_value(&file.path, None).map_err(|e| failed(e.to_string()))?;
        let tensor = value
            .as_tensor()
            .ok_or_else(|| failed("it is not a tensor".to_owned()))?;
        Ok((
            file.name.clone(),
            tensor.try_clone().map_err(|e| failed(e.to_string()))?,
        ))
    };
    files.iter().map(read).collect()
}

/// Digests of outputs, with the tensors that they are of.
fn digests(outputs: &[(String, Tensor)]) -> Vec<OutputDigest> {
    let digest = |(name, tensor): &(String, Tensor)| {
        let mut hasher = Sha256::new();
        match tensor.as_strings() {
            Ok(strings) => {
                for text in strings {
                    hasher.update((text.len() as u64).to_le_bytes());
                    hasher.update(text.as_bytes());
                }
            }
            Err(_) => hasher.update(tensor.bytes()),
        }
        OutputDigest {
            name: name.clone(),
            element_type: tensor.element_type().to_string(),
            dims: tensor.dims().to_vec(),
            sha256: hexadecimal(&hasher.finalize()),
        }
    };
    outputs.iter().map(digest).collect()
}

type Measured = (Sample, Vec<(String, Tensor)>);

fn finished(
    arm: Arm,
    phases: Phases,
    steady: SteadyRuns,
    bytes_copied: Count,
    outputs: Vec<(String, Tensor)>,
) -> Measured {
    let sample = Sample {
        arm,
        round: 0,
        position: 0,
        phases,
        steady,
        peak_memory_bytes: onl::peak_memory_bytes().into(),
        bytes_copied,
        outputs: digests(&outputs),
    };
    (sample, outputs)
}

/// A session of `onl` with its load phases and what its loader copied.
struct LoadedOnl {
    session: Session,
    load: [PhaseSample; 4],
    copied_bytes: u64,
}

fn load_onl(model: &Path, settings: &OnlSettings) -> Result<LoadedOnl, MeasureError> {
    let probe = Probe::begin();
    let bytes = onl_onnx::open_model(model).map_err(onl::Error::from)?;
    let open = probe.end();
    let probe = Probe::begin();
    let read = onl_onnx::read_opened_model(bytes, model, &LoadLimits::default())
        .map_err(onl::Error::from)?;
    let parse = probe.end();
    let copied_bytes = copied_bytes(&read);
    let builder = Session::builder()
        .environment(settings.environment.clone())
        .policy(settings.policy.clone())
        .model(read);
    let later: Rc<RefCell<Vec<PhaseSample>>> = Rc::default();
    let seen = Rc::clone(&later);
    let mut probe = Probe::begin();
    let session = builder
        .observe(move |phase| {
            if matches!(phase, LoadPhase::Resolve | LoadPhase::Ready) {
                seen.borrow_mut().push(probe.end());
                probe = Probe::begin();
            }
        })
        .build()?;
    let later = later.take();
    let [resolve, ready] = later[..] else {
        return Err(
            onl::Error::Other("a session told of other phases than expected".into()).into(),
        );
    };
    Ok(LoadedOnl {
        session,
        load: [open, parse, resolve, ready],
        copied_bytes,
    })
}

fn owned(inputs: &[(String, Tensor)]) -> Result<Vec<(String, Value)>, MeasureError> {
    inputs
        .iter()
        .map(|(name, tensor)| {
            let copy = tensor.try_clone().map_err(onl::Error::from)?;
            Ok((name.clone(), copy.into()))
        })
        .collect()
}

fn sample_onl(
    subject: &Subject,
    inputs: &[(String, Tensor)],
    steady: Steady,
    settings: &OnlSettings,
) -> Result<Measured, MeasureError> {
    let inputs = owned(inputs)?;
    let LoadedOnl {
        session,
        load,
        copied_bytes,
    } = load_onl(&subject.model, settings)?;
    let named: Vec<(&str, Value)> = inputs
        .iter()
        .map(|(name, value)| (name.as_str(), value.clone()))
        .collect();
    let probe = Probe::begin();
    let values = session.run(&named)?;
    let first_run = probe.end();
    let mut repeated = Repeated::new(&session, &inputs, &values)?;
    let first = Duration::from_nanos(first_run.wall_ns().unwrap_or(0));
    let (steady_phase, steady) = steady.take(first, || Ok(repeated.run(RunControl::default())?))?;
    let outputs = session
        .output_names()
        .zip(&values)
        .map(|(name, value)| {
            let tensor = value.as_tensor().ok_or_else(|| {
                onl::Error::Other(format!(
                    "output '{name}' is not a tensor, only tensors are compared"
                ))
            })?;
            Ok((
                name.to_owned(),
                tensor.try_clone().map_err(onl::Error::from)?,
            ))
        })
        .collect::<Result<Vec<_>, MeasureError>>()?;
    let [open, parse, resolve, ready] = load;
    let phases = Phases {
        open,
        parse,
        resolve,
        ready,
        first_run,
        steady: steady_phase,
    };
    let copied = Count::Counted(copied_bytes);
    Ok(finished(subject.arm, phases, steady, copied, outputs))
}

/// Settings of ONNX Runtime that use the processor as a policy of `onl` does.
pub(crate) fn session_settings(settings: &OnlSettings) -> Result<SessionSettings, MeasureError> {
    let resolved = settings
        .policy
        .resolve(&CpuSystem::current())
        .map_err(onl::Error::from)?;
    Ok(SessionSettings {
        threads: resolved.participants() as usize,
        spin: resolved.wait() != WaitMode::Frugal,
        cpus: resolved.cpus().to_vec(),
        flush_denormals: resolved.denormals() == onl_cpu::DenormalMode::Flush,
        profile: None,
    })
}

/// A session of ONNX Runtime with its load phases and what this project's loader copied.
fn load_onnxruntime(
    library: &Library,
    subject: &Subject,
    settings: &SessionSettings,
) -> Result<(OnnxRuntimeSession, [PhaseSample; 4], Count), MeasureError> {
    let whole = |path: &Path| -> Result<_, MeasureError> {
        let probe = Probe::begin();
        let session = library.session(path, settings)?;
        let with_ready = PhaseSample::CombinedWith(Phase::Ready);
        let load = [with_ready, with_ready, with_ready, probe.end()];
        Ok((session, load, Count::Unsupported))
    };
    match subject.arm.consumer() {
        Consumer::OnnxruntimeOrtFormat => whole(&subject.ort_file),
        Consumer::OnnxruntimeWithOnlLoader => {
            let probe = Probe::begin();
            let bytes = onl_onnx::open_model(&subject.model).map_err(onl::Error::from)?;
            let open = probe.end();
            let probe = Probe::begin();
            let model = onl_onnx::read_opened_model(bytes, &subject.model, &LoadLimits::default())
                .map_err(onl::Error::from)?;
            let parse = probe.end();
            let copied = copied_bytes(&model);
            let model = Arc::new(model);
            let probe = Probe::begin();
            let edited = library.edited_model(model)?;
            let resolve = probe.end();
            let copied = copied + edited.copied_bytes();
            let probe = Probe::begin();
            let session = library.session_of_model(edited, settings)?;
            let load = [open, parse, resolve, probe.end()];
            Ok((session, load, Count::Counted(copied)))
        }
        Consumer::Onl | Consumer::Onnxruntime => whole(&subject.model),
    }
}

/// Library, inputs in its memory, and settings: what is there before a model is opened.
fn prepare_onnxruntime(
    subject: &Subject,
    inputs: &[(String, Tensor)],
    settings: &OnlSettings,
) -> Result<(Library, InputValues, SessionSettings), MeasureError> {
    let library = Library::load(&subject.library)?;
    let values = library.inputs(inputs)?;
    Ok((library, values, session_settings(settings)?))
}

fn sample_onnxruntime(
    subject: &Subject,
    inputs: &[(String, Tensor)],
    steady: Steady,
    settings: &OnlSettings,
) -> Result<Measured, MeasureError> {
    let (library, values, settings) = prepare_onnxruntime(subject, inputs, settings)?;
    let (mut session, load, copied) = load_onnxruntime(&library, subject, &settings)?;
    let probe = Probe::begin();
    let ran = session.run(&values)?;
    let first_run = probe.end();
    let outputs = ran.tensors()?;
    drop(ran);
    session.bind(&values, &outputs)?;
    let first = Duration::from_nanos(first_run.wall_ns().unwrap_or(0));
    let (steady_phase, steady) = steady.take(first, || Ok(session.run_bound()?))?;
    let [open, parse, resolve, ready] = load;
    let phases = Phases {
        open,
        parse,
        resolve,
        ready,
        first_run,
        steady: steady_phase,
    };
    Ok(finished(subject.arm, phases, steady, copied, outputs))
}

fn profile_onl(
    subject: &Subject,
    warmup: u32,
    runs: u32,
    settings: &OnlSettings,
) -> Result<Profile, MeasureError> {
    let inputs = owned(&read_inputs(&subject.inputs)?)?;
    let session = load_onl(&subject.model, settings)?.session;
    let named: Vec<(&str, Value)> = inputs
        .iter()
        .map(|(name, value)| (name.as_str(), value.clone()))
        .collect();
    let outputs = session.run(&named)?;
    let mut repeated = Repeated::new(&session, &inputs, &outputs)?;
    let room = repeated.room(runs)?;
    for _ in 0..warmup {
        repeated.run(RunControl::default())?;
    }
    let collector = Collector::with_options(CollectorOptions {
        level: ProfilingLevel::Timing,
        regions: room.regions,
        nodes: room.nodes,
        lanes: session.policy().participants() as usize,
        ..CollectorOptions::default()
    });
    for _ in 0..runs {
        repeated.run(RunControl {
            collector: Some(&collector),
            ..RunControl::default()
        })?;
    }
    let summary = Summary::new(&collector.drain(), collector.dropped());
    let names: Vec<String> = session
        .runtime()
        .nodes()
        .map(|node| without_domain(&node.op_type).to_owned())
        .collect();
    let name = |node: u32| {
        let known = names.get(node as usize).cloned();
        known.unwrap_or_else(|| "unknown".to_owned())
    };
    let per_run = |total: u64| total as f64 / summary.runs.max(1) as f64;
    let mut regions: Vec<RegionRow> = Vec::new();
    for region in summary.regions.iter().filter(|region| !region.nested) {
        let operator = region.node.map_or_else(|| "none".to_owned(), name);
        let (calls, wall_ns) = (per_run(region.calls), per_run(region.wall_ns));
        let same = regions.iter_mut().find(|row| {
            row.operator == operator && row.site == region.site.label && row.path == region.path
        });
        match same {
            // Busy parts are averaged by time.
            Some(row) => {
                row.utilization = row.utilization.zip(region.utilization).map(|(a, b)| {
                    (a * row.wall_ns + b * wall_ns) / (row.wall_ns + wall_ns).max(1.0)
                });
                row.calls += calls;
                row.wall_ns += wall_ns;
            }
            None => regions.push(RegionRow {
                operator,
                site: region.site.label.to_owned(),
                path: region.path.to_owned(),
                calls,
                wall_ns,
                utilization: region.utilization,
            }),
        }
    }
    regions.sort_by(|a, b| b.wall_ns.total_cmp(&a.wall_ns));
    let operators = summary.operators(name).into_iter();
    Ok(Profile {
        runs: summary.runs,
        outside_nodes_ns: summary.outside_nodes_ns,
        operators: operators
            .map(|sum| OperatorTime {
                operator: sum.operator,
                nodes: sum.nodes,
                wall_ns: sum.wall_ns,
            })
            .collect(),
        regions,
    })
}

/// ONNX Runtime's profile names operators without their domain.
fn without_domain(operator: &str) -> &str {
    operator.rsplit(':').next().unwrap_or(operator)
}

fn profile_onnxruntime(
    subject: &Subject,
    warmup: u32,
    runs: u32,
    settings: &OnlSettings,
    folder: &Path,
) -> Result<Profile, MeasureError> {
    let inputs = read_inputs(&subject.inputs)?;
    let (library, values, mut settings) = prepare_onnxruntime(subject, &inputs, settings)?;
    settings.profile = Some(folder.join("onnxruntime"));
    let (mut session, _, _) = load_onnxruntime(&library, subject, &settings)?;
    let outputs = session.run(&values)?.tensors()?;
    session.bind(&values, &outputs)?;
    for _ in 0..warmup + runs {
        session.run_bound()?;
    }
    let file = session.end_profile()?;
    let operators = read_profile(&file, runs as usize)?;
    Ok(Profile {
        runs: u64::from(runs),
        outside_nodes_ns: None,
        operators: operators
            .into_iter()
            .map(|sum| OperatorTime {
                operator: sum.operator,
                nodes: sum.nodes,
                wall_ns: sum.wall_ns,
            })
            .collect(),
        regions: Vec::new(),
    })
}
