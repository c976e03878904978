//! A clock that only scripted kernels advance, and kernels whose cost is known.
#![allow(dead_code)]

use onl_cpu::CpuExecutionDescriptor;
use onl_snapshot::{
    CacheState, CalibrationError, CalibrationInstance, CalibrationTarget, Digest, KernelKey,
    Parameter, ParameterKind, ParameterRow, ParameterValue, Schema, Search, Workload,
};
use onl_tensor::ElementType;
use onl_tuning::statistics::SplitMix64;
use onl_tuning::{CalibrationSettings, Calibrator, Clock, Environment, EnvironmentProbe};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The schema of kernels with one choice; row 0 is the default.
pub static TILES: Schema = Schema {
    parameters: &[Parameter {
        name: "algorithm.tile_m",
        kind: ParameterKind::Integer {
            default: 0,
            minimum: 0,
            maximum: 100,
        },
        unit: "rows",
        meaning: "Scripted.",
    }],
    check: |_| Ok(()),
};

/// A row of [`TILES`].
pub fn tile(value: i64) -> ParameterRow {
    TILES
        .defaults()
        .with("algorithm.tile_m", ParameterValue::Integer(value))
}

/// Time in nanoseconds, and the noise of the machine.
pub struct ScriptedMachine {
    now_ns: AtomicU64,
    noise: Mutex<Noise>,
    ramp: Mutex<(f64, f64)>,
    pub longest_call_ns: AtomicU64,
    pub calls: AtomicU64,
}

/// Slow drift of 3 %, jitter of 1.5 %, 5 % of samples late by 40 % on average, 1 % early by 15 %.
pub struct Noise {
    random: SplitMix64,
    drift: f64,
    scale: f64,
}

impl Noise {
    pub fn new(seed: u64, scale: f64) -> Self {
        let mut noise = Noise {
            random: SplitMix64(seed.wrapping_mul(0x9E37_79B9) ^ 0xABCD),
            drift: 0.0,
            scale,
        };
        noise.drift = 0.03 * scale * noise.normal();
        noise
    }

    fn normal(&mut self) -> f64 {
        let a = self.random.next_f64().max(1e-300);
        let b = self.random.next_f64();
        (-2.0 * a.ln()).sqrt() * (2.0 * std::f64::consts::PI * b).cos()
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        self.random.shuffle(items);
    }

    pub fn coin(&mut self) -> bool {
        self.random.next_f64() < 0.5
    }

    /// What the next sample is multiplied by.
    pub fn factor(&mut self) -> f64 {
        self.factor_with_spikes(0.05)
    }

    pub fn factor_with_spikes(&mut self, spikes: f64) -> f64 {
        if self.scale == 0.0 {
            return 1.0;
        }
        let (rho, sd): (f64, f64) = (0.99, 0.03 * self.scale);
        self.drift = rho * self.drift + (1.0 - rho * rho).sqrt() * sd * self.normal();
        let mut factor = self.drift.exp() * (0.015 * self.scale * self.normal()).exp();
        if self.random.next_f64() < spikes {
            factor *= 1.0 - 0.4 * self.scale * self.random.next_f64().max(1e-300).ln();
        }
        if self.random.next_f64() < 0.01 {
            factor *= 0.85;
        }
        factor
    }
}

impl ScriptedMachine {
    pub fn noisy(seed: u64, scale: f64) -> Arc<Self> {
        Arc::new(ScriptedMachine {
            now_ns: AtomicU64::new(0),
            noise: Mutex::new(Noise::new(seed, scale)),
            ramp: Mutex::new((1.0, 1.0)),
            longest_call_ns: AtomicU64::new(0),
            calls: AtomicU64::new(0),
        })
    }

    pub fn quiet() -> Arc<Self> {
        Self::noisy(0, 0.0)
    }

    /// Makes calls take ever longer, up to a factor, over a length of time.
    pub fn ramp(&self, factor: f64, over_ns: u64) {
        *self.ramp.lock().unwrap() = (factor, over_ns as f64);
    }

    /// Lets time go by.
    pub fn pass(&self, ns: u64) {
        self.now_ns.fetch_add(ns, Ordering::Relaxed);
    }

    pub fn spend(&self, ns: f64) {
        let (top, over_ns) = *self.ramp.lock().unwrap();
        let part = (self.now_ns() as f64 / over_ns).min(1.0);
        let factor = self.noise.lock().unwrap().factor() * (1.0 + (top - 1.0) * part);
        let ns = (ns * factor).round() as u64;
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.longest_call_ns.fetch_max(ns, Ordering::Relaxed);
        self.now_ns.fetch_add(ns, Ordering::Relaxed);
    }
}

impl Clock for ScriptedMachine {
    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }
}

/// An environment of which nothing is known.
pub struct NoProbe;

impl EnvironmentProbe for NoProbe {
    fn observe(&self) -> Environment {
        Environment::UNKNOWN
    }
}

/// Time of one call, path and output of a row on a size.
pub type Script = Arc<dyn Fn(&ParameterRow, u64) -> Behaviour + Send + Sync>;

pub struct Behaviour {
    pub ns: f64,
    pub path: String,
    pub output: u64,
    pub fault: Fault,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Fault {
    None,
    Error,
    Panic,
}

pub fn behaves(ns: f64, path: impl Into<String>) -> Behaviour {
    Behaviour {
        ns,
        path: path.into(),
        output: 42,
        fault: Fault::None,
    }
}

pub struct ScriptedTarget {
    pub machine: Arc<ScriptedMachine>,
    pub key: KernelKey,
    pub schema: &'static Schema,
    pub sizes: Vec<u64>,
    pub search: Search,
    pub script: Script,
    pub memory_bytes: u64,
    pub flops: u64,
}

struct ScriptedInstance {
    machine: Arc<ScriptedMachine>,
    behaviour: Behaviour,
    swing: Cell<u32>,
}

impl CalibrationTarget for ScriptedTarget {
    fn key(&self) -> &KernelKey {
        &self.key
    }

    fn schema(&self) -> &'static Schema {
        self.schema
    }

    fn workloads(&self) -> Vec<Workload> {
        self.sizes
            .iter()
            .map(|size| Workload {
                name: format!("case/{size}"),
                size: *size,
                memory_bytes: self.memory_bytes,
                flops: self.flops,
                bytes: 0,
                cache_state: CacheState::OwnWarm,
            })
            .collect()
    }

    fn search(&self) -> Search {
        self.search.clone()
    }

    fn instance(
        &self,
        workload: &Workload,
        values: &ParameterRow,
    ) -> Result<Box<dyn CalibrationInstance>, CalibrationError> {
        Ok(Box::new(ScriptedInstance {
            machine: Arc::clone(&self.machine),
            behaviour: (self.script)(values, workload.size),
            swing: Cell::new(0),
        }))
    }
}

impl CalibrationInstance for ScriptedInstance {
    fn restore(&mut self) {}

    fn run(&mut self, times: u32) -> Result<(), CalibrationError> {
        match self.behaviour.fault {
            Fault::None => {
                self.machine.spend(self.behaviour.ns * f64::from(times));
                Ok(())
            }
            Fault::Error => Err(CalibrationError {
                kernel: "scripted".to_owned(),
                workload: "case".to_owned(),
                reason: "planted failure".to_owned(),
            }),
            Fault::Panic => panic!("planted panic"),
        }
    }

    fn output_digest(&mut self) -> Digest {
        Digest([self.behaviour.output; 4])
    }

    fn execution_path(&self) -> String {
        self.behaviour.path.clone()
    }
}

pub fn key(kernel: &'static str) -> KernelKey {
    KernelKey::builtin(kernel, "scripted", ElementType::Float32, 1)
}

pub fn execution(participants: u32) -> CpuExecutionDescriptor {
    CpuExecutionDescriptor {
        architecture: "x86_64".to_owned(),
        vendor: Some("intel".to_owned()),
        family: Some(6),
        model: Some(106),
        stepping: None,
        features: ["avx2", "fma"].map(str::to_owned).into(),
        l1d_bytes: Some(49_152),
        l2_bytes: Some(1_310_720),
        physical_cores: Some(4),
        logical_cores: Some(8),
        participants,
        smt_used: false,
        affinity: "none".to_owned(),
        wait_mode: "balanced".to_owned(),
        quota: "unlimited".to_owned(),
    }
}

pub fn calibrator<'a>(
    machine: &'a ScriptedMachine,
    settings: CalibrationSettings,
) -> Calibrator<'a> {
    Calibrator {
        clock: machine,
        environment: &NoProbe,
        settings,
        execution: execution(4),
        build: BTreeMap::new(),
        coupling: None,
        ceilings: None,
    }
}
