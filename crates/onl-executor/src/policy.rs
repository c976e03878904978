use crate::executor::ExecutorPlan;
use crate::pool::MAX_LANES;
use crate::wait::WaitMode;
use onl_cpu::{CoreClass, CpuDescriptor, CpuExecutionDescriptor, CpuSystem, DenormalMode};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// On which processors the lanes of an executor run.
///
/// Only worker lanes are pinned. The first processor of a placement belongs to the caller: no worker is put there, and
/// the calling thread, which is the application's, keeps its own mask.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Affinity {
    /// Wherever the system puts them.
    #[default]
    None,
    /// One lane per physical core.
    PhysicalCores,
    /// One lane per performance core of a machine with several kinds.
    PerformanceCores,
    /// One lane per physical core first, then further logical CPUs of the same cores.
    PhysicalThenSmt,
    /// These logical CPUs, by the system's numbers, the caller's first.
    Explicit(Vec<u32>),
}

impl Affinity {
    /// Name in the execution identity.
    pub const fn name(&self) -> &'static str {
        match self {
            Affinity::None => "none",
            Affinity::PhysicalCores => "physical_cores",
            Affinity::PerformanceCores => "performance_cores",
            Affinity::PhysicalThenSmt => "physical_then_smt",
            Affinity::Explicit(_) => "explicit",
        }
    }
}

/// How a session wants to use the processor.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct CpuExecutionPolicy {
    /// Lanes, the caller included; 0 for one per physical core that mask and quota allow.
    pub threads: u32,
    /// How lanes wait between regions.
    pub wait: WaitMode,
    /// Where lanes run.
    pub affinity: Affinity,
    /// What lanes do with denormal numbers.
    pub denormals: DenormalMode,
}

/// Why a policy cannot be kept on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PolicyError {
    /// More lanes than an executor can have.
    #[error("{threads} threads are asked for, at most {limit} are possible; use fewer")]
    TooManyThreads {
        /// Threads of the policy.
        threads: u64,
        /// Most possible.
        limit: usize,
    },
    /// An explicit set names a processor that this process may not use.
    #[error(
        "CPU {cpu} of the explicit affinity is not among the CPUs this process may use ({allowed}); change the set or \
         the process's mask"
    )]
    CpuNotAllowed {
        /// Processor of the set.
        cpu: u32,
        /// Processors of the process.
        allowed: String,
    },
    /// An explicit set names a processor twice.
    #[error("CPU {cpu} stands twice in the explicit affinity; name each lane's CPU once")]
    DuplicateCpu {
        /// Processor of the set.
        cpu: u32,
    },
    /// An explicit set does not have one processor per lane.
    #[error(
        "the explicit affinity names {cpus} CPUs for {threads} threads; name one per thread, the caller's first"
    )]
    WrongSize {
        /// Processors of the set.
        cpus: usize,
        /// Threads of the policy.
        threads: u32,
    },
    /// An explicit set is empty.
    #[error(
        "the explicit affinity names no CPU; name one per thread, the caller's first, or use none"
    )]
    EmptySet,
    /// The affinity class has too few places for the threads asked for.
    #[error(
        "affinity {affinity} has {places} places for {threads} threads; use fewer threads, or another affinity"
    )]
    TooFewPlaces {
        /// Name of the affinity.
        affinity: &'static str,
        /// Places that the process may use.
        places: usize,
        /// Threads of the policy.
        threads: u32,
    },
}

/// A policy with every choice made for one machine.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedCpuExecutionPolicy {
    participants: u32,
    wait: WaitMode,
    affinity: Affinity,
    denormals: DenormalMode,
    cpus: Vec<u32>,
    smt_used: bool,
    processors: u32,
    quota: Option<u32>,
    processor: CpuDescriptor,
    /// What was decided otherwise than one might expect, in sentences.
    pub diagnostics: Vec<String>,
}

impl CpuExecutionPolicy {
    /// Decides every choice for a machine.
    ///
    /// # Errors
    /// [`PolicyError`] for a request that the machine cannot fulfil. What can be fulfilled otherwise becomes a
    /// diagnostic.
    pub fn resolve(&self, system: &CpuSystem) -> Result<ResolvedCpuExecutionPolicy, PolicyError> {
        let mut diagnostics = Vec::new();
        if self.threads as usize > MAX_LANES {
            return Err(too_many(u64::from(self.threads)));
        }
        let cores = ordered_cores(system);
        let mut affinity = self.affinity.clone();
        if affinity == Affinity::PerformanceCores && !has_classes(system) {
            diagnostics.push(
                "performance cores cannot be told apart on this machine; physical cores are used"
                    .to_owned(),
            );
            affinity = Affinity::PhysicalCores;
        }
        if affinity == Affinity::PerformanceCores && cores.iter().all(|core| !core.fast) {
            diagnostics.push(
                "no performance core is among the CPUs this process may use; physical cores are used"
                    .to_owned(),
            );
            affinity = Affinity::PhysicalCores;
        }
        let quota = whole_quota(system);
        let default_threads = default_threads(&cores, &affinity, system);
        let participants = match (&affinity, self.threads) {
            (Affinity::Explicit(cpus), 0) => {
                u32::try_from(cpus.len()).map_err(|_| too_many(cpus.len() as u64))?
            }
            (_, 0) => default_threads,
            (_, threads) => threads,
        };
        if participants as usize > MAX_LANES {
            return Err(too_many(u64::from(participants)));
        }
        let cpus = place(&affinity, participants, &cores, system)?;
        let processors = system.allowed.len().max(1) as u32;
        if participants > processors {
            diagnostics.push(format!(
                "{participants} threads share {processors} CPUs; lanes will wait for each other"
            ));
        }
        if let Some(quota) = quota
            && participants > quota
        {
            diagnostics.push(format!(
                "{participants} threads share a processor quota of {quota}; the system will stop them at times"
            ));
        }
        Ok(ResolvedCpuExecutionPolicy {
            participants,
            wait: self.wait,
            smt_used: smt_used(&cpus, participants, &cores),
            affinity,
            denormals: self.denormals,
            cpus,
            processors,
            quota,
            processor: system.descriptor.clone(),
            diagnostics,
        })
    }
}

impl ResolvedCpuExecutionPolicy {
    /// Lanes, the caller included.
    pub fn participants(&self) -> u32 {
        self.participants
    }

    /// How lanes wait between regions.
    pub fn wait(&self) -> WaitMode {
        self.wait
    }

    /// Where lanes run; what the request fell back to when it could not be kept.
    pub fn affinity(&self) -> &Affinity {
        &self.affinity
    }

    /// What lanes do with denormal numbers.
    pub fn denormals(&self) -> DenormalMode {
        self.denormals
    }

    /// Logical CPU of each lane, the caller's first; empty without affinity.
    pub fn cpus(&self) -> &[u32] {
        &self.cpus
    }

    /// Logical CPUs that the process may use.
    pub fn processors(&self) -> u32 {
        self.processors
    }

    /// The processor the policy was resolved for.
    pub fn processor(&self) -> &CpuDescriptor {
        &self.processor
    }

    /// The execution identity: under it a profile is saved and found, and no other function makes one.
    pub fn descriptor(&self) -> CpuExecutionDescriptor {
        let processor = &self.processor;
        CpuExecutionDescriptor {
            architecture: processor.architecture.clone(),
            vendor: processor.vendor.clone(),
            family: processor.family,
            model: processor.model,
            stepping: processor.stepping,
            features: processor.features.clone(),
            l1d_bytes: processor.l1d_bytes,
            l2_bytes: processor.l2_bytes,
            physical_cores: processor.physical_cores,
            logical_cores: processor.logical_cores,
            participants: self.participants,
            smt_used: self.smt_used,
            affinity: self.affinity.name().to_owned(),
            wait_mode: self.wait.to_string(),
            quota: match self.quota {
                None => "unlimited".to_owned(),
                Some(processors) => format!("quota_{processors}"),
            },
        }
    }

    pub(crate) fn key(&self) -> ExecutorKey {
        ExecutorKey {
            participants: self.participants,
            wait: self.wait,
            denormals: self.denormals,
            cpus: self.cpus.clone(),
            processors: self.processors,
        }
    }
}

/// What makes two resolved policies share an executor.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ExecutorKey {
    participants: u32,
    wait: WaitMode,
    denormals: DenormalMode,
    cpus: Vec<u32>,
    processors: u32,
}

impl ExecutorKey {
    pub(crate) fn plan(&self) -> ExecutorPlan {
        ExecutorPlan {
            lanes: self.participants as usize,
            wait: self.wait,
            denormals: self.denormals,
            cpus: self.cpus.clone(),
            processors: self.processors as usize,
        }
    }
}

fn too_many(threads: u64) -> PolicyError {
    PolicyError::TooManyThreads {
        threads,
        limit: MAX_LANES,
    }
}

/// A physical core of which the process may use at least one logical CPU.
struct Core {
    cpus: Vec<u32>,
    fast: bool,
    slow: bool,
}

/// The allowed cores, those of the faster kind first.
fn ordered_cores(system: &CpuSystem) -> Vec<Core> {
    let classes: BTreeMap<u32, CoreClass> =
        system.cpus.iter().map(|cpu| (cpu.id, cpu.class)).collect();
    let is = |cpus: &[u32], class: CoreClass| {
        cpus.first().and_then(|cpu| classes.get(cpu)) == Some(&class)
    };
    let mut cores: Vec<Core> = system
        .allowed_physical_cores()
        .into_iter()
        .map(|cpus| Core {
            fast: is(&cpus, CoreClass::Performance),
            slow: is(&cpus, CoreClass::Efficiency),
            cpus,
        })
        .collect();
    cores.sort_by_key(|core| core.slow);
    cores
}

fn has_classes(system: &CpuSystem) -> bool {
    system
        .cpus
        .iter()
        .any(|cpu| cpu.class == CoreClass::Performance)
}

/// Whole processors of the quota, at least 1.
fn whole_quota(system: &CpuSystem) -> Option<u32> {
    system.quota.map(|quota| (quota.floor() as u32).max(1))
}

fn default_threads(cores: &[Core], affinity: &Affinity, system: &CpuSystem) -> u32 {
    let threads = system.default_threads();
    let threads = match affinity {
        Affinity::PerformanceCores => {
            threads.min(cores.iter().filter(|core| core.fast).count() as u32)
        }
        _ => threads,
    };
    threads.clamp(1, MAX_LANES as u32)
}

/// The processor of each lane.
fn place(
    affinity: &Affinity,
    participants: u32,
    cores: &[Core],
    system: &CpuSystem,
) -> Result<Vec<u32>, PolicyError> {
    let first = |core: &Core| core.cpus.first().copied();
    let places: Vec<u32> = match affinity {
        Affinity::None => return Ok(Vec::new()),
        Affinity::PhysicalCores => cores.iter().filter_map(first).collect(),
        Affinity::PerformanceCores => cores
            .iter()
            .filter(|core| core.fast)
            .filter_map(first)
            .collect(),
        Affinity::PhysicalThenSmt => {
            let widest = cores.iter().map(|core| core.cpus.len()).max().unwrap_or(0);
            (0..widest)
                .flat_map(|sibling| {
                    cores
                        .iter()
                        .filter_map(move |core| core.cpus.get(sibling).copied())
                })
                .collect()
        }
        Affinity::Explicit(cpus) => {
            check_explicit(cpus, participants, system)?;
            cpus.clone()
        }
    };
    if places.len() < participants as usize {
        return Err(PolicyError::TooFewPlaces {
            affinity: affinity.name(),
            places: places.len(),
            threads: participants,
        });
    }
    Ok(places.into_iter().take(participants as usize).collect())
}

fn check_explicit(cpus: &[u32], participants: u32, system: &CpuSystem) -> Result<(), PolicyError> {
    if cpus.is_empty() {
        return Err(PolicyError::EmptySet);
    }
    let mut seen = BTreeSet::new();
    for &cpu in cpus {
        if !seen.insert(cpu) {
            return Err(PolicyError::DuplicateCpu { cpu });
        }
        if !system.allowed.contains(cpu) {
            let allowed: Vec<String> = system.allowed.iter().map(|cpu| cpu.to_string()).collect();
            return Err(PolicyError::CpuNotAllowed {
                cpu,
                allowed: allowed.join(", "),
            });
        }
    }
    if cpus.len() != participants as usize {
        return Err(PolicyError::WrongSize {
            cpus: cpus.len(),
            threads: participants,
        });
    }
    Ok(())
}

/// Whether two lanes may share a physical core.
fn smt_used(cpus: &[u32], participants: u32, cores: &[Core]) -> bool {
    if cpus.is_empty() {
        return participants as usize > cores.len() && cores.iter().any(|core| core.cpus.len() > 1);
    }
    cores.iter().any(|core| {
        let lanes = core.cpus.iter().filter(|cpu| cpus.contains(cpu)).count();
        lanes > 1
    })
}
