//! Runs the corpus as ordinary sessions.

use super::corpus::{CORPUS, CaseModel, CorpusCase, CorpusError};
use super::derive::derive;
use super::report::{
    BaselinePolicy, BaselineSettings, CaseOrigin, CaseRow, CounterFigure, CounterFigures,
    MedianTime, ModelProfile, NoiseFloor, NoisePair, Operand, RegionFigures, ThreadSetting,
};
use super::{BASELINE_SCHEMA, BaselineReport};
use crate::report::{ReportHead, ReportKind};
use onl::{
    CpuExecutionPolicy, Environment, IsaTier, RunControl, Session, Tensor, TensorView,
    measure_roofline,
};
use onl_profiling::{
    Collector, CollectorOptions, CounterSample, CounterSet, Events, ProfilingLevel, RegionSummary,
    Summary,
};
use onl_snapshot::{CacheState, KernelKey, MINIMUM_ELEMENTS, ParameterValue};
use onl_tuning::statistics::SplitMix64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Most runs in a sample.
const MOST_RUNS: f64 = 1e6;
/// Nanoseconds of recorded runs after which no other is recorded, once there are [`FEWEST_RECORDED`].
const RECORDED_NS: u128 = 500_000_000;
const FEWEST_RECORDED: usize = 3;
/// Regions of a case's run at most.
const REGIONS_OF_A_RUN: usize = 64;
/// A resolved threshold gets a case of its own when it lies this many times above or below the corpus's.
const FAR: i64 = 4;
/// Largest size of such a case.
const LARGEST_THRESHOLD: i64 = 1 << 24;

/// What was measured counts of processor events with.
const COUNTERS: CounterSet = CounterSet::Hardware;

/// Why the corpus could not be measured.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum MeasureError {
    #[error(transparent)]
    Corpus(#[from] CorpusError),
    #[error("case {case}: {reason}")]
    Session {
        case: String,
        reason: Box<onl::Error>,
    },
    #[error(transparent)]
    Policy(Box<onl::Error>),
    #[error("case {case}: its model came to {nodes} nodes instead of one")]
    Nodes { case: String, nodes: usize },
    #[error("case {case}: output {index} is not a tensor")]
    Output { case: String, index: usize },
    #[error(
        "no case of the corpus is of an operator that matches {patterns}; its operators are: {operators}"
    )]
    NothingSelected { patterns: String, operators: String },
    #[error("cancelled; nothing was written")]
    Cancelled,
}

/// What a measurement of the corpus gave.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MeasuredCorpus {
    /// Rows, derived figures left for [`derive`](super::derive()).
    pub rows: Vec<CaseRow>,
    /// Pairs of the noise floor.
    pub pairs: Vec<NoisePair>,
}

/// What a measurement tells while it goes on, and how it is stopped.
pub struct MeasureControls<'c> {
    /// Called before each case with its name, its place and the number of cases.
    pub progress: &'c mut dyn FnMut(&str, usize, usize),
    /// Ends the measurement between two samples.
    pub cancel: &'c AtomicBool,
}

/// A case at a size.
#[derive(Debug, Clone, Copy)]
struct Sized {
    case: &'static CorpusCase,
    size: usize,
    origin: CaseOrigin,
}

/// Cases of the corpus whose operators match one of the patterns (`Kernel` or `Kernel/type`); all without patterns.
///
/// # Errors
/// [`MeasureError::NothingSelected`].
pub fn selected(patterns: &[String]) -> Result<Vec<&'static CorpusCase>, MeasureError> {
    let matches = |case: &&CorpusCase| {
        let pair = format!("{}/{}", case.operator, case.element_type);
        patterns.is_empty() || patterns.iter().any(|p| *p == case.operator || *p == pair)
    };
    let cases: Vec<_> = CORPUS.iter().filter(matches).collect();
    if cases.is_empty() {
        let mut operators: Vec<&str> = CORPUS.iter().map(|case| case.operator).collect();
        operators.sort_unstable();
        operators.dedup();
        return Err(MeasureError::NothingSelected {
            patterns: patterns.join(", "),
            operators: operators.join(", "),
        });
    }
    Ok(cases)
}

/// Measures every selected case under one lane and under the session default, samples interleaved.
///
/// # Errors
/// Every [`MeasureError`].
pub fn measure_corpus(
    environment: &Environment,
    policy: &CpuExecutionPolicy,
    settings: &BaselineSettings,
    controls: &mut MeasureControls<'_>,
) -> Result<MeasuredCorpus, MeasureError> {
    let mut cases = Vec::new();
    for case in selected(&settings.operators)? {
        for &size in case.sizes {
            cases.push(Sized {
                case,
                size,
                origin: CaseOrigin::Corpus,
            });
        }
        if let Some(size) = threshold_size(environment, policy, case) {
            cases.push(Sized {
                case,
                size,
                origin: CaseOrigin::ResolvedThreshold,
            });
        }
    }
    let mut random = SplitMix64(settings.seed);
    let mut measured = MeasuredCorpus::default();
    for (place, case) in cases.iter().enumerate() {
        (controls.progress)(&case.case.name(case.size), place, cases.len());
        measure_case(
            environment,
            policy,
            settings,
            *case,
            &mut random,
            controls.cancel,
            &mut measured,
        )?;
    }
    Ok(measured)
}

/// The resolved threshold of a case's kernel when the corpus has no size near it.
fn threshold_size(
    environment: &Environment,
    policy: &CpuExecutionPolicy,
    case: &CorpusCase,
) -> Option<usize> {
    let key = case.entry(environment.table()).ok()?.key(case.element_type);
    let resolved = environment.resolve(policy).ok()?;
    let snapshot = environment.snapshot(&resolved).ok()?;
    let threshold = match snapshot.row(&key)?.values.get(MINIMUM_ELEMENTS)? {
        ParameterValue::Integer(threshold) => *threshold,
        _ => return None,
    };
    let near = |size: &usize| {
        let size = *size as i64;
        size <= threshold.saturating_mul(FAR) && threshold <= size.saturating_mul(FAR)
    };
    let measurable = (1..=LARGEST_THRESHOLD).contains(&threshold);
    (measurable && !case.sizes.iter().any(near)).then_some(threshold as usize)
}

/// A session on a case with its bound outputs.
struct Arm<'i> {
    case: String,
    threads: ThreadSetting,
    session: Session,
    inputs: &'i [TensorView<'i>],
    outputs: Vec<Tensor>,
    build_ns: f64,
    startup_ns: f64,
    runs_per_sample: u32,
    samples: Vec<f64>,
}

impl<'i> Arm<'i> {
    fn new(
        environment: &Environment,
        policy: &CpuExecutionPolicy,
        threads: ThreadSetting,
        case: &str,
        model: &[u8],
        inputs: &'i [TensorView<'i>],
        outputs: usize,
    ) -> Result<Self, MeasureError> {
        let failed = |error: onl::Error| MeasureError::Session {
            case: case.to_owned(),
            reason: Box::new(error),
        };
        let policy = CpuExecutionPolicy {
            threads: threads.num_threads(),
            ..policy.clone()
        };
        let bytes = model.to_vec();
        let start = Instant::now();
        let session = Session::builder()
            .environment(environment.clone())
            .policy(policy)
            .model_bytes(bytes)
            .build()
            .map_err(failed)?;
        let build_ns = start.elapsed().as_nanos() as f64;
        let nodes = session.runtime().nodes().len();
        if nodes != 1 {
            return Err(MeasureError::Nodes {
                case: case.to_owned(),
                nodes,
            });
        }
        let mut outputs: Vec<Tensor> = (0..outputs)
            .map(|_| Tensor::zeros(onl::ElementType::UInt8, &[0]))
            .collect::<Result<_, _>>()
            .map_err(|error| failed(onl::Error::from(error)))?;
        session.run_into(inputs, &mut outputs).map_err(failed)?;
        let startup_ns = start.elapsed().as_nanos() as f64;
        Ok(Arm {
            case: case.to_owned(),
            threads,
            session,
            inputs,
            outputs,
            build_ns,
            startup_ns,
            runs_per_sample: 1,
            samples: Vec::new(),
        })
    }

    fn run(&mut self, control: RunControl<'_>) -> Result<(), MeasureError> {
        self.session
            .run_into_with(self.inputs, &mut self.outputs, control)
            .map_err(|error| MeasureError::Session {
                case: self.case.clone(),
                reason: Box::new(error),
            })
    }

    /// Warms up and chooses how many runs make a sample.
    fn prepare(&mut self, settings: &BaselineSettings) -> Result<(), MeasureError> {
        let mut fastest = f64::INFINITY;
        for _ in 0..=settings.warmup {
            let start = Instant::now();
            self.run(RunControl::default())?;
            fastest = fastest.min(start.elapsed().as_nanos() as f64);
        }
        let runs = settings.sample_ns as f64 / fastest.max(1.0);
        self.runs_per_sample = runs.ceil().clamp(1.0, MOST_RUNS) as u32;
        Ok(())
    }

    /// One sample, after a run that is not timed and finds lanes and caches as the other arms left them.
    fn sample(&mut self) -> Result<(), MeasureError> {
        self.run(RunControl::default())?;
        let start = Instant::now();
        for _ in 0..self.runs_per_sample {
            self.run(RunControl::default())?;
        }
        let ns = start.elapsed().as_nanos() as f64 / f64::from(self.runs_per_sample);
        self.samples.push(ns);
        Ok(())
    }

    fn record(&mut self, settings: &BaselineSettings) -> Result<Recorded, MeasureError> {
        let lanes = self.session.policy().descriptor().participants as usize;
        let runs = settings.recorded_runs as usize;
        let collector = Collector::with_options(CollectorOptions {
            level: ProfilingLevel::Counters,
            counters: COUNTERS,
            regions: REGIONS_OF_A_RUN * runs,
            nodes: 2 * runs,
            lanes,
        });
        let start = Instant::now();
        for done in 0..runs {
            if done >= FEWEST_RECORDED && start.elapsed().as_nanos() > RECORDED_NS {
                break;
            }
            self.run(RunControl {
                collector: Some(&collector),
                ..RunControl::default()
            })?;
        }
        let events = collector.drain();
        let dispatch = dispatch(&events);
        let summary = Summary::new(&events, collector.dropped());
        let outer = summary.regions.iter().filter(|region| !region.nested);
        Ok(Recorded {
            dispatch,
            regions: outer.map(region_figures).collect(),
        })
    }
}

struct Recorded {
    dispatch: Vec<f64>,
    regions: Vec<RegionFigures>,
}

/// Time of each run outside its nodes.
fn dispatch(events: &Events) -> Vec<f64> {
    let outside = |run: &onl_profiling::RunEvent| {
        let nodes = events.nodes.iter().filter(|node| node.run == run.run);
        let inside: u64 = nodes.map(|node| node.wall_ns).sum();
        run.wall_ns.saturating_sub(inside) as f64
    };
    events.runs.iter().map(outside).collect()
}

/// What a report keeps of a region.
pub(super) fn region_figures(region: &RegionSummary) -> RegionFigures {
    RegionFigures {
        label: region.site.label.to_owned(),
        path: region.path.to_owned(),
        tiles: region.tiles,
        total: region.total,
        grain: region.grain,
        calls: region.calls,
        wall_ns: region.wall_ns,
        requested: region.requested,
        admitted: region.admitted,
        participants: region.participants,
        inline_reasons: region
            .inline_reasons
            .iter()
            .map(|(reason, calls)| ((*reason).to_owned(), *calls))
            .collect(),
        utilization: region.utilization,
        imbalance: region.imbalance,
        counters: counter_figures(&region.counters, COUNTERS),
    }
}

/// What a report keeps of counts.
pub(super) fn counter_figures(sample: &CounterSample, set: CounterSet) -> CounterFigures {
    let counts = set
        .names()
        .into_iter()
        .zip(sample.statuses())
        .zip(sample.values())
        .map(|((name, status), value)| CounterFigure {
            name: name.to_owned(),
            status,
            value,
        });
    CounterFigures {
        set,
        status: sample.status(),
        counts: counts.collect(),
    }
}

fn measure_case(
    environment: &Environment,
    policy: &CpuExecutionPolicy,
    settings: &BaselineSettings,
    sized: Sized,
    random: &mut SplitMix64,
    cancel: &AtomicBool,
    measured: &mut MeasuredCorpus,
) -> Result<(), MeasureError> {
    let Sized { case, size, origin } = sized;
    let name = case.name(size);
    let entry = case.entry(environment.table())?;
    let model = case.build(environment.table(), size)?;
    let bytes = model.bytes();
    let views: Vec<TensorView<'_>> = model.inputs.iter().map(|input| input.view()).collect();
    let outputs = model.model.graph.outputs.len();
    let arm = |threads| Arm::new(environment, policy, threads, &name, &bytes, &views, outputs);
    let mut arms: Vec<Arm<'_>> = ThreadSetting::ALL
        .into_iter()
        .map(arm)
        .collect::<Result<_, _>>()?;
    if case.twice && origin == CaseOrigin::Corpus {
        for threads in ThreadSetting::ALL {
            arms.push(arm(threads)?);
        }
    }
    for arm in &mut arms {
        arm.prepare(settings)?;
    }
    // The two arms of a pair repeat their runs equally often.
    let (firsts, seconds) = arms.split_at_mut(ThreadSetting::ALL.len());
    for (second, first) in seconds.iter_mut().zip(firsts.iter()) {
        second.runs_per_sample = first.runs_per_sample;
    }
    let mut order: Vec<usize> = (0..arms.len()).collect();
    for _ in 0..settings.repeat {
        random.shuffle(&mut order);
        for &arm in &order {
            if cancel.load(Ordering::Relaxed) {
                return Err(MeasureError::Cancelled);
            }
            arms[arm].sample()?;
        }
    }
    let key = entry.key(case.element_type);
    let (firsts, seconds) = arms.split_at_mut(ThreadSetting::ALL.len());
    for (second, first) in seconds.iter().zip(firsts.iter()) {
        measured.pairs.push(NoisePair {
            case: name.clone(),
            threads: first.threads,
            a_ns: first.samples.clone(),
            b_ns: second.samples.clone(),
            ratio: 0.0,
        });
    }
    for arm in firsts {
        let recorded = arm.record(settings)?;
        measured
            .rows
            .push(row(arm, recorded, sized, &key, &model, environment));
    }
    Ok(())
}

fn row(
    arm: &Arm<'_>,
    recorded: Recorded,
    sized: Sized,
    key: &KernelKey,
    model: &CaseModel,
    environment: &Environment,
) -> CaseRow {
    let operand = |tensor: &Tensor, constant| Operand {
        element_type: tensor.element_type().to_string(),
        dims: tensor.dims().to_vec(),
        constant,
    };
    let bytes_written: u64 = arm.outputs.iter().map(bytes_of).sum();
    let bytes_read = bytes_read(sized.case.operator, model, bytes_written);
    let resolved = arm.session.snapshot().row(key);
    let threshold = resolved.and_then(|row| match row.values.get(MINIMUM_ELEMENTS) {
        Some(ParameterValue::Integer(threshold)) => Some(*threshold),
        _ => None,
    });
    let l3 = environment.system().descriptor.l3_bytes;
    let streams = l3.is_some_and(|l3| bytes_read + bytes_written > l3);
    CaseRow {
        case: arm.case.clone(),
        origin: sized.origin,
        key: key.to_string(),
        revision: key.revision,
        operator: sized.case.operator.to_owned(),
        element_type: sized.case.element_type.to_string(),
        size: sized.size as u64,
        inputs: model
            .operands
            .iter()
            .map(|input| {
                let (tensor, constant) = input.as_ref()?;
                Some(operand(tensor, *constant))
            })
            .collect(),
        outputs: arm
            .outputs
            .iter()
            .map(|output| operand(output, false))
            .collect(),
        cache_state: if streams {
            CacheState::Streaming
        } else {
            CacheState::OwnWarm
        },
        flops: model.flops,
        bytes_read,
        bytes_written,
        threads: arm.threads,
        session_lanes: arm.session.policy().descriptor().participants,
        threshold,
        value_source: resolved.map(|row| row.source.name().to_owned()),
        startup_ns: arm.startup_ns,
        build_ns: arm.build_ns,
        runs_per_sample: arm.runs_per_sample,
        samples_ns: arm.samples.clone(),
        time: MedianTime::default(),
        dispatch_samples_ns: recorded.dispatch,
        dispatch_ns: None,
        regions: recorded.regions,
        gflops: None,
        gbytes: None,
        roofline: None,
    }
}

fn bytes_of(tensor: &Tensor) -> u64 {
    tensor.bytes().len() as u64
}

/// Bytes that a run has to read: all of its inputs, but of an input that is selected from no more than what is selected.
fn bytes_read(operator: &str, model: &CaseModel, bytes_written: u64) -> u64 {
    let inputs = model.operands.iter().flatten();
    let sizes: Vec<u64> = inputs.map(|(tensor, _)| bytes_of(tensor)).collect();
    let selects = matches!(operator, "Gather" | "GatherElements" | "GatherND" | "Slice");
    match sizes.split_first() {
        Some((data, rest)) if selects => (*data).min(bytes_written) + rest.iter().sum::<u64>(),
        _ => sizes.iter().sum(),
    }
}

/// Settings of a measurement that publishes: enough samples for an interval at 95 %.
impl Default for BaselineSettings {
    fn default() -> Self {
        BaselineSettings {
            repeat: 15,
            warmup: 3,
            sample_ns: Duration::from_millis(2).as_nanos() as u64,
            recorded_runs: 20,
            confidence: 0.95,
            seed: 0,
            operators: Vec::new(),
            model_runs: 10,
        }
    }
}

fn policy_error(error: onl::Error) -> MeasureError {
    MeasureError::Policy(Box::new(error))
}

/// Measures ceilings and corpus under a policy and puts them together with recorded models.
///
/// # Errors
/// Every [`MeasureError`].
pub fn measure_baseline(
    environment: &Environment,
    policy: &CpuExecutionPolicy,
    settings: BaselineSettings,
    models: Vec<ModelProfile>,
    controls: &mut MeasureControls<'_>,
) -> Result<BaselineReport, MeasureError> {
    selected(&settings.operators)?;
    let execution = |threads: ThreadSetting| {
        environment.resolve(&CpuExecutionPolicy {
            threads: threads.num_threads(),
            ..policy.clone()
        })
    };
    let serial = execution(ThreadSetting::Serial).map_err(policy_error)?;
    let session = execution(ThreadSetting::Session).map_err(policy_error)?;
    let descriptor = session.descriptor();
    (controls.progress)("ceilings", 0, 1);
    let ceilings = {
        let lease = environment.lease(&session).map_err(policy_error)?;
        measure_roofline(&lease, &descriptor, &environment.system().descriptor)
            .map_err(policy_error)?
    };
    let measured = measure_corpus(environment, policy, &settings, controls)?;
    let mut report = BaselineReport {
        head: ReportHead::current(ReportKind::Baseline, BASELINE_SCHEMA, descriptor.clone()),
        settings,
        policy: BaselinePolicy {
            denormals: policy.denormals.to_string(),
            tier: IsaTier::detect().to_string(),
            profiles: environment.cache_folder().is_some(),
            serial: serial.descriptor(),
            session: descriptor,
        },
        ceilings,
        noise: NoiseFloor {
            pairs: measured.pairs,
            ..NoiseFloor::default()
        },
        cases: measured.rows,
        models,
        serial_regions: Vec::new(),
        parallel_regions: Vec::new(),
        digest: String::new(),
    };
    derive(&mut report);
    Ok(report)
}
