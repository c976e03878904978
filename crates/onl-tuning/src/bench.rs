//! Timed samples of a target's rows on its workloads, inside budgets.

use crate::calibrator::{CalibrationSettings, panic_text};
use crate::clock::Clock;
use crate::coupling::{CouplingLevel, Gate};
use crate::statistics::SplitMix64;
use onl_snapshot::{
    CalibrationError, CalibrationInstance, CalibrationTarget, Digest, ParameterRow, Workload,
};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// Why measuring a key stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The time of the key or of the whole calibration is used up.
    Budget,
    /// The user stopped the calibration.
    Cancelled,
    /// The lanes are coupled otherwise than the samples before them.
    LevelLeft,
    /// The key cannot be measured, or its outputs differ.
    Failed(String),
    /// One arm failed; the others can go on without it.
    Arm { arm: usize, reason: String },
}

/// A row under a name.
#[derive(Debug, Clone)]
pub(crate) struct Arm {
    pub name: String,
    pub values: ParameterRow,
}

struct Entry {
    arm: usize,
    workload: usize,
    instance: Box<dyn CalibrationInstance>,
    estimate_ns: f64,
    used: u64,
}

/// Most calls of one sample.
const MAXIMUM_CALLS: u32 = 1 << 20;
/// Blocks in a row that a change of the lanes' coupling may spoil.
const BLOCK_ATTEMPTS: u32 = 20;

pub(crate) struct Bench<'a> {
    target: &'a dyn CalibrationTarget,
    clock: &'a dyn Clock,
    settings: &'a CalibrationSettings,
    sample_ns: u64,
    cancel: Option<&'a AtomicBool>,
    deadline_ns: u64,
    gate: Option<Gate<'a>>,
    pub workloads: Vec<Workload>,
    pub arms: Vec<Arm>,
    pub random: SplitMix64,
    entries: Vec<Entry>,
    uses: u64,
    references: BTreeMap<usize, (usize, Digest)>,
    paths: BTreeMap<(usize, usize), String>,
    fastest: BTreeMap<usize, f64>,
}

/// Calls a kernel; its panic is a failure of its arm.
fn call<T>(arm: usize, work: impl FnOnce() -> Result<T, CalibrationError>) -> Result<T, Stop> {
    let reason = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => format!("the kernel panicked: {}", panic_text(&*panic)),
    };
    Err(Stop::Arm { arm, reason })
}

impl<'a> Bench<'a> {
    pub fn new(
        target: &'a dyn CalibrationTarget,
        clock: &'a dyn Clock,
        settings: &'a CalibrationSettings,
        sample_ns: u64,
        cancel: Option<&'a AtomicBool>,
        deadline_ns: u64,
        gate: Option<Gate<'a>>,
        workloads: Vec<Workload>,
        seed: u64,
    ) -> Self {
        Bench {
            target,
            clock,
            settings,
            sample_ns,
            cancel,
            deadline_ns,
            gate,
            workloads,
            arms: Vec::new(),
            random: SplitMix64(seed),
            entries: Vec::new(),
            uses: 0,
            references: BTreeMap::new(),
            paths: BTreeMap::new(),
            fastest: BTreeMap::new(),
        }
    }

    /// Adds a row and gives its index.
    pub fn arm(&mut self, name: &str, values: &ParameterRow) -> usize {
        self.arms.push(Arm {
            name: name.to_owned(),
            values: values.clone(),
        });
        self.arms.len() - 1
    }

    /// Drops every instance, so that the next ones get fresh memory.
    pub fn release(&mut self) {
        self.entries.clear();
    }

    fn check(&self) -> Result<(), Stop> {
        if self.cancel.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            Err(Stop::Cancelled)
        } else if self.clock.now_ns() >= self.deadline_ns {
            Err(Stop::Budget)
        } else {
            Ok(())
        }
    }

    /// The path that an arm takes on a workload; runs it when it has not run yet.
    pub fn path(&mut self, arm: usize, workload: usize) -> Result<&str, Stop> {
        if !self.paths.contains_key(&(arm, workload)) {
            self.open(arm, workload)?;
        }
        Ok(&self.paths[&(arm, workload)])
    }

    /// The fewest nanoseconds per call seen so far.
    pub fn estimate(&mut self, arm: usize, workload: usize) -> Result<f64, Stop> {
        let index = self.open(arm, workload)?;
        Ok(self.entries[index].estimate_ns)
    }

    /// The fewest nanoseconds per call of any arm on a workload; infinite before the first.
    pub fn fastest(&self, workload: usize) -> f64 {
        self.fastest
            .get(&workload)
            .copied()
            .unwrap_or(f64::INFINITY)
    }

    fn note(&mut self, workload: usize, ns: f64) {
        let fastest = self.fastest.entry(workload).or_insert(ns);
        *fastest = fastest.min(ns);
    }

    /// Index of the instance of an arm on a workload. A new one runs once, its output is compared with that of the
    /// first arm of the workload, and its time per call is estimated.
    fn open(&mut self, arm: usize, workload: usize) -> Result<usize, Stop> {
        self.uses += 1;
        let found = self
            .entries
            .iter()
            .position(|e| e.arm == arm && e.workload == workload);
        if let Some(index) = found {
            self.entries[index].used = self.uses;
            return Ok(index);
        }
        self.check()?;
        self.make_room(workload);
        let mut instance = call(arm, || {
            let mut instance = self
                .target
                .instance(&self.workloads[workload], &self.arms[arm].values)?;
            instance.restore();
            Ok(instance)
        })?;
        self.check()?;
        call(arm, || instance.run(1))?;
        if !self.paths.contains_key(&(arm, workload)) {
            self.compare(arm, workload, instance.output_digest())?;
        }

        let enough = self.sample_ns / 8;
        let mut calls = 1_u32;
        let estimate_ns = loop {
            self.check()?;
            instance.restore();
            let elapsed = self.timed(instance.as_mut(), arm, calls)?;
            if elapsed >= enough.max(1) || calls >= MAXIMUM_CALLS {
                break (elapsed.max(1)) as f64 / f64::from(calls);
            }
            calls *= 4;
        };
        self.note(workload, estimate_ns);
        self.paths
            .insert((arm, workload), instance.execution_path());
        self.entries.push(Entry {
            arm,
            workload,
            instance,
            estimate_ns,
            used: self.uses,
        });
        Ok(self.entries.len() - 1)
    }

    fn make_room(&mut self, workload: usize) {
        let needed = self.workloads[workload].memory_bytes;
        loop {
            let held: u64 = self
                .entries
                .iter()
                .map(|e| self.workloads[e.workload].memory_bytes)
                .fold(needed, u64::saturating_add);
            let oldest = (0..self.entries.len()).min_by_key(|i| self.entries[*i].used);
            match oldest {
                Some(index) if held > self.settings.memory_bytes => {
                    self.entries.swap_remove(index);
                }
                _ => return,
            }
        }
    }

    fn compare(&mut self, arm: usize, workload: usize, digest: Digest) -> Result<(), Stop> {
        let (reference, expected) = *self.references.entry(workload).or_insert((arm, digest));
        if digest == expected {
            return Ok(());
        }
        Err(Stop::Failed(format!(
            "outputs differ on workload '{}': row '{}' gives {digest}, row '{}' gives {expected}; candidates must agree \
             bit for bit, correct the kernel before it is tuned",
            self.workloads[workload].name, self.arms[arm].name, self.arms[reference].name
        )))
    }

    fn timed(
        &self,
        instance: &mut dyn CalibrationInstance,
        arm: usize,
        calls: u32,
    ) -> Result<u64, Stop> {
        let start = self.clock.now_ns();
        let result = call(arm, || instance.run(calls));
        let end = self.clock.now_ns();
        result?;
        end.checked_sub(start)
            .ok_or_else(|| Stop::Failed("the clock went backwards".to_owned()))
    }

    /// One sample in nanoseconds per call: restore, untimed calls, then a timed batch. `jitter` scales the batch.
    fn sample(&mut self, arm: usize, workload: usize, jitter: f64) -> Result<f64, Stop> {
        self.check()?;
        let index = self.open(arm, workload)?;
        self.check()?;
        let mut entry = self.entries.swap_remove(index);
        let result = self.sample_of(&mut entry, jitter);
        if let Ok(ns) = result {
            self.note(workload, ns);
            self.entries.push(entry);
        }
        result
    }

    fn sample_of(&self, entry: &mut Entry, jitter: f64) -> Result<f64, Stop> {
        let target = self.sample_ns as f64;
        let calls = |share: f64| {
            let calls = (share * target / entry.estimate_ns).round();
            calls.clamp(1.0, f64::from(MAXIMUM_CALLS)) as u32
        };
        let mut timed = calls(jitter);
        let warm = calls(self.settings.warm_share).min(self.settings.warm_calls.max(1));
        let arm = entry.arm;
        call(arm, || {
            entry.instance.restore();
            entry.instance.run(warm)
        })?;
        loop {
            self.check()?;
            let elapsed = self.timed(entry.instance.as_mut(), arm, timed)?;
            if elapsed > 0 {
                let ns = elapsed as f64 / f64::from(timed);
                entry.estimate_ns = entry.estimate_ns.min(ns);
                return Ok(ns);
            }
            if timed >= MAXIMUM_CALLS {
                return Err(Stop::Failed(
                    "the clock does not advance during a sample".to_owned(),
                ));
            }
            timed = timed.saturating_mul(4).min(MAXIMUM_CALLS);
        }
    }

    /// The level at which samples were taken until something stopped them; `None` when they were taken at any.
    pub fn level(&self, stop: Option<&Stop>) -> Option<CouplingLevel> {
        let mut level = self.gate.as_ref()?.level();
        level.left = match stop {
            Some(Stop::LevelLeft) => true,
            Some(Stop::Budget) => level.discarded >= BLOCK_ATTEMPTS,
            _ => false,
        };
        Some(level)
    }

    /// One sample of each arm on a workload, back to back in shuffled order; results in the order of `arms`. Samples
    /// during which the lanes' coupling changed are taken again.
    pub fn block(&mut self, arms: &[usize], workload: usize) -> Result<Vec<f64>, Stop> {
        if self.gate.is_none() {
            return self.samples(arms, workload);
        }
        for _ in 0..BLOCK_ATTEMPTS {
            self.check()?;
            self.gate.as_ref().map_or(Ok(()), Gate::enter)?;
            let times = self.samples(arms, workload)?;
            if self.gate.as_ref().is_none_or(Gate::holds) {
                return Ok(times);
            }
        }
        Err(Stop::LevelLeft)
    }

    fn samples(&mut self, arms: &[usize], workload: usize) -> Result<Vec<f64>, Stop> {
        let spread = self.settings.sample_jitter;
        let jitter = 1.0 + spread * (2.0 * self.random.next_f64() - 1.0);
        let mut order: Vec<usize> = (0..arms.len()).collect();
        self.random.shuffle(&mut order);
        let mut times = vec![0.0; arms.len()];
        for i in order {
            times[i] = self.sample(arms[i], workload, jitter)?;
        }
        Ok(times)
    }
}
