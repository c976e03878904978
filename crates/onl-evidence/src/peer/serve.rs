use super::{PeerAnswer, PeerConsumer, PeerRequest};
use crate::Repeated;
use crate::attribution::{InputFile, MeasureError, OnlSettings, read_inputs, session_settings};
use crate::onnxruntime::{InputValues, Library, OnnxRuntimeSession};
use onl::{ProbeWork, RooflineProbe, RunControl, Session, Tensor, Value};
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Samples of a block; a sample covers more than one run where runs are short.
const SAMPLES: u32 = 20;
const LEAST_SAMPLES: usize = 3;

/// Why the conversation ended.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum PeerError {
    #[error("a request cannot be read: {0}")]
    Request(#[from] serde_json::Error),
    #[error("talking to the process that started this one: {0}")]
    Pipe(#[from] std::io::Error),
}

/// Reads requests, one in each line, and writes an answer to each until the input ends.
///
/// # Errors
/// [`PeerError`]; what cannot be done with a model is an answer instead.
pub fn serve(
    input: &mut dyn BufRead,
    output: &mut dyn Write,
    settings: &OnlSettings,
) -> Result<(), PeerError> {
    let mut server = Server {
        input,
        output,
        settings,
        library: None,
    };
    let mut next = server.request()?;
    while let Some(request) = next {
        next = match server.open(request) {
            Ok(next) => next,
            Err(Stopped::Conversation(error)) => return Err(error),
            Err(Stopped::Work(error)) => {
                server.answer(&PeerAnswer::Failed {
                    reason: error.to_string(),
                })?;
                server.request()?
            }
        };
    }
    Ok(())
}

/// Why a model is no longer served.
enum Stopped {
    Conversation(PeerError),
    Work(MeasureError),
}

impl From<PeerError> for Stopped {
    fn from(error: PeerError) -> Self {
        Stopped::Conversation(error)
    }
}

impl<E: Into<MeasureError>> From<E> for Stopped {
    fn from(error: E) -> Self {
        Stopped::Work(error.into())
    }
}

struct Server<'a> {
    input: &'a mut dyn BufRead,
    output: &'a mut dyn Write,
    settings: &'a OnlSettings,
    /// One can be loaded into a process.
    library: Option<(PathBuf, Library)>,
}

impl Server<'_> {
    fn request(&mut self) -> Result<Option<PeerRequest>, PeerError> {
        let mut line = String::new();
        if self.input.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        Ok(Some(serde_json::from_str(&line)?))
    }

    fn answer(&mut self, answer: &PeerAnswer) -> Result<(), PeerError> {
        serde_json::to_writer(&mut *self.output, answer)?;
        self.output.write_all(b"\n")?;
        Ok(self.output.flush()?)
    }

    /// Carries out a request and those on what it opens; gives the first that opens something else.
    fn open(&mut self, request: PeerRequest) -> Result<Option<PeerRequest>, Stopped> {
        match request {
            PeerRequest::Open {
                consumer: PeerConsumer::Onl,
                model,
                inputs,
                ..
            } => self.open_onl(&model, &inputs),
            PeerRequest::Open {
                consumer: PeerConsumer::Onnxruntime,
                model,
                library,
                inputs,
            } => self.open_onnxruntime(&model, &library, &inputs),
            PeerRequest::Probe { work, bytes } => self.open_probe(work, bytes),
            PeerRequest::Close => {
                self.answer(&PeerAnswer::Done)?;
                Ok(self.request()?)
            }
            PeerRequest::Measure { .. } | PeerRequest::Write { .. } => {
                self.answer(&PeerAnswer::Failed {
                    reason: "nothing is open".to_owned(),
                })?;
                Ok(self.request()?)
            }
        }
    }

    fn open_onl(
        &mut self,
        model: &Path,
        inputs: &[InputFile],
    ) -> Result<Option<PeerRequest>, Stopped> {
        let session = Session::builder()
            .environment(self.settings.environment.clone())
            .policy(self.settings.policy.clone())
            .model_path(model)
            .build()?;
        let inputs: Vec<(String, Value)> = read_inputs(inputs)?
            .into_iter()
            .map(|(name, tensor)| (name, tensor.into()))
            .collect();
        let named: Vec<(&str, Value)> = inputs
            .iter()
            .map(|(name, value)| (name.as_str(), value.clone()))
            .collect();
        let values = session.run(&named)?;
        let outputs = values
            .iter()
            .map(|value| match value.as_tensor() {
                Some(tensor) => Ok(tensor.try_clone()?),
                None => Err(onl::Error::Other("an output is not a tensor".to_owned())),
            })
            .collect::<Result<Vec<Tensor>, onl::Error>>()?;
        let mut repeated = Repeated::new(&session, &inputs, &values)?;
        self.measure(&outputs, &mut || {
            repeated.run(RunControl::default())?;
            Ok(0)
        })
    }

    fn open_onnxruntime(
        &mut self,
        model: &Path,
        library: &Path,
        inputs: &[InputFile],
    ) -> Result<Option<PeerRequest>, Stopped> {
        let settings = session_settings(self.settings)?;
        if self
            .library
            .as_ref()
            .is_none_or(|(path, _)| path != library)
        {
            self.library = Some((library.to_owned(), Library::load(library)?));
        }
        let (mut session, outputs, _values) = {
            let Some((_, library)) = &self.library else {
                unreachable!("the library was just loaded");
            };
            let values: InputValues = library.inputs(&read_inputs(inputs)?)?;
            let mut session: OnnxRuntimeSession = library.session(model, &settings)?;
            let outputs = session.run(&values)?.tensors()?;
            session.bind(&values, &outputs)?;
            (session, outputs, values)
        };
        let outputs: Vec<Tensor> = outputs.into_iter().map(|(_, tensor)| tensor).collect();
        self.measure(&outputs, &mut || {
            session.run_bound()?;
            Ok(0)
        })
    }

    fn open_probe(
        &mut self,
        work: ProbeWork,
        bytes: usize,
    ) -> Result<Option<PeerRequest>, Stopped> {
        let (environment, policy) = (&self.settings.environment, &self.settings.policy);
        let Some(mut probe) = RooflineProbe::new(environment, policy, work, bytes)? else {
            let error = onl::Error::Other("this processor has no such instructions".to_owned());
            return Err(error.into());
        };
        self.measure(&[], &mut || Ok(probe.run()?))
    }

    /// Tells that something is open, and answers requests on it.
    fn measure(
        &mut self,
        outputs: &[Tensor],
        run: &mut dyn FnMut() -> Result<u64, MeasureError>,
    ) -> Result<Option<PeerRequest>, Stopped> {
        let output_bytes = outputs.iter().map(|tensor| tensor.bytes().len() as u64);
        self.answer(&PeerAnswer::Opened {
            output_bytes: output_bytes.sum(),
        })?;
        loop {
            match self.request()? {
                Some(PeerRequest::Measure { least_ns }) => {
                    let measured = block(Duration::from_nanos(least_ns), run)?;
                    self.answer(&measured)?;
                }
                Some(PeerRequest::Write { folder }) => {
                    for (index, tensor) in outputs.iter().enumerate() {
                        let path = folder.join(format!("{index}.pb"));
                        let value = Value::from(tensor.try_clone().map_err(onl::Error::from)?);
                        onl::write_value(&path, &value).map_err(|source| MeasureError::Output {
                            index,
                            path,
                            source: Box::new(source),
                        })?;
                    }
                    self.answer(&PeerAnswer::Done)?;
                }
                other => return Ok(other),
            }
        }
    }
}

/// Runs for a quarter of the time untimed, then takes the samples.
fn block(
    least: Duration,
    run: &mut dyn FnMut() -> Result<u64, MeasureError>,
) -> Result<PeerAnswer, MeasureError> {
    let warming = Instant::now();
    let mut shortest = Duration::MAX;
    let mut units = 0;
    loop {
        let start = Instant::now();
        units = run()?.max(units);
        shortest = shortest.min(start.elapsed());
        if warming.elapsed() >= least / 4 {
            break;
        }
    }
    let of_sample = (least / SAMPLES).as_nanos();
    let runs_per_sample = (of_sample / shortest.as_nanos().max(1)).clamp(1, 1_000_000) as u32;
    let mut samples_ns = Vec::with_capacity(2 * SAMPLES as usize);
    let started = Instant::now();
    while samples_ns.len() < LEAST_SAMPLES
        || (started.elapsed() < least && samples_ns.len() < samples_ns.capacity())
    {
        let start = Instant::now();
        for _ in 0..runs_per_sample {
            run()?;
        }
        samples_ns.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    Ok(PeerAnswer::Measured {
        runs_per_sample,
        samples_ns,
        units,
    })
}
