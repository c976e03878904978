//! The registry of schemas and profiles that sessions take their snapshot from.

use crate::identity::{execution_fields, execution_id, sha256_hex};
use crate::resolution::{self, Explanation};
use crate::{ProfileRow, ProfileScope};
use onl_cpu::CpuExecutionDescriptor;
use onl_snapshot::{
    KernelKey, LaneCosts, ParameterRow, Schema, SchemaError, SizeDomain, TuningSnapshot,
};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use thiserror::Error;

/// Schemas, profiles and overrides of every tunable kernel. Clones share one state. Every change makes a new
/// generation; snapshots taken before keep the one that they saw.
#[derive(Debug, Clone, Default)]
pub struct TuningRegistry {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    generation: RwLock<Arc<Generation>>,
    snapshots: AtomicU64,
    lookups: AtomicU64,
    poisoned: AtomicBool,
}

#[derive(Debug, Clone, Default)]
struct Generation {
    number: u64,
    kernels: BTreeMap<KernelKey, Kernel>,
    lane_costs: BTreeMap<String, LaneCosts>,
}

#[derive(Debug, Clone)]
struct Kernel {
    schema: &'static Schema,
    profiles: Vec<ProfileRow>,
    session_override: Option<ParameterRow>,
}

/// How often a registry was asked; a run of a session leaves all of it unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RegistryCounters {
    /// Snapshots taken.
    pub snapshots: u64,
    /// Resolutions of single keys: one per key and snapshot, and one per explanation.
    pub lookups: u64,
    /// Changes published.
    pub generation: u64,
}

/// Rows and lane costs that are published together or not at all.
#[derive(Debug, Clone, Default)]
pub struct ProfileBatch {
    /// Rows.
    pub rows: Vec<ProfileRow>,
    /// Measured lane costs by execution identity.
    pub lane_costs: Vec<(CpuExecutionDescriptor, LaneCosts)>,
}

/// Why the registry refused a change; nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum RegistryError {
    #[error(
        "kernel {key} revision {revision} is registered already; give each implementation its own name"
    )]
    Duplicate { key: Box<KernelKey>, revision: u32 },
    #[error("schema of {key}: {source}")]
    Schema {
        key: Box<KernelKey>,
        #[source]
        source: SchemaError,
    },
    #[error("kernel {key} revision {revision} is not registered; register its schema first")]
    UnknownKernel { key: Box<KernelKey>, revision: u32 },
    #[error("row of {key} from {origin}: {source}")]
    Row {
        key: Box<KernelKey>,
        origin: String,
        #[source]
        source: SchemaError,
    },
    #[error("row of {key} from {origin}: domain {minimum} to {maximum} is inverted")]
    Domain {
        key: Box<KernelKey>,
        origin: String,
        minimum: u64,
        maximum: u64,
    },
    #[error("selector of {key} from {origin}: {reason}")]
    Selector {
        key: Box<KernelKey>,
        origin: String,
        reason: String,
    },
    #[error(
        "selectors of {key} from {first} and {second} are equally specific, have equal priority and can match the same \
         processor; give one of them another priority"
    )]
    Ambiguous {
        key: Box<KernelKey>,
        first: String,
        second: String,
    },
    #[error(
        "the batch has two rows of {key} for the same scope, from {first} and {second}; keep one"
    )]
    Repeated {
        key: Box<KernelKey>,
        first: String,
        second: String,
    },
    #[error(
        "lane costs must be finite and not negative, got hot {hot_ns} ns and cold {cold_ns} ns"
    )]
    LaneCosts { hot_ns: String, cold_ns: String },
    #[error("the tuning registry was used after it was poisoned: a run must use its snapshot only")]
    Poisoned,
}

impl TuningRegistry {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a kernel's schema.
    ///
    /// # Errors
    /// [`RegistryError::Duplicate`] when the key exists, [`RegistryError::Schema`] when the schema is ill formed or
    /// its defaults do not pass its own check.
    pub fn register(&self, key: KernelKey, schema: &'static Schema) -> Result<(), RegistryError> {
        self.register_all([(key, schema)])
    }

    /// Registers the schemas of several kernels, all or none.
    ///
    /// # Errors
    /// As [`register`](Self::register).
    pub fn register_all(
        &self,
        kernels: impl IntoIterator<Item = (KernelKey, &'static Schema)>,
    ) -> Result<(), RegistryError> {
        self.change(|generation| {
            for (key, schema) in kernels {
                schema
                    .check_definition()
                    .map_err(|source| RegistryError::Schema {
                        key: Box::new(key.clone()),
                        source,
                    })?;
                if generation.kernels.contains_key(&key) {
                    let revision = key.revision;
                    let key = Box::new(key);
                    return Err(RegistryError::Duplicate { key, revision });
                }
                let kernel = Kernel {
                    schema,
                    profiles: Vec::new(),
                    session_override: None,
                };
                generation.kernels.insert(key, kernel);
            }
            Ok(())
        })
    }

    /// Publishes a batch, all or nothing. A row replaces one of an earlier batch for the same key and scope.
    ///
    /// # Errors
    /// The first row that fits no registered kernel, schema, or scope; nothing is published then.
    pub fn publish(&self, batch: ProfileBatch) -> Result<(), RegistryError> {
        check_repetition(&batch.rows)?;
        self.change(|generation| {
            for row in batch.rows {
                generation.insert(row)?;
            }
            for (descriptor, costs) in batch.lane_costs {
                check_lane_costs(costs)?;
                generation
                    .lane_costs
                    .insert(execution_id(&descriptor), costs);
            }
            Ok(())
        })
    }

    /// Publishes, in one change, the lane costs and those rows of a batch that are valid, and says of the other rows,
    /// by their position, what is wrong with them. For rows of a file, where one bad row voids that row alone.
    ///
    /// # Errors
    /// [`RegistryError::LaneCosts`], [`RegistryError::Poisoned`]; nothing is published then.
    pub fn publish_valid(
        &self,
        batch: ProfileBatch,
    ) -> Result<Vec<(usize, RegistryError)>, RegistryError> {
        let mut refused = Vec::new();
        self.change(|generation| {
            let mut published: Vec<ProfileRow> = Vec::with_capacity(batch.rows.len());
            for (i, row) in batch.rows.into_iter().enumerate() {
                let repeated = published
                    .iter()
                    .find(|other| other.key == row.key && other.scope == row.scope)
                    .map(|other| repeated(other, &row));
                match repeated.map_or_else(|| generation.insert(row.clone()), Err) {
                    Ok(()) => published.push(row),
                    Err(error) => refused.push((i, error)),
                }
            }
            for (descriptor, costs) in batch.lane_costs {
                check_lane_costs(costs)?;
                let id = execution_id(&descriptor);
                generation.lane_costs.insert(id, costs);
            }
            Ok(())
        })?;
        Ok(refused)
    }

    /// Checks one row against the registered kernels without publishing it.
    ///
    /// # Errors
    /// What [`publish`](Self::publish) would say of this row.
    pub fn check_row(&self, row: &ProfileRow) -> Result<(), RegistryError> {
        let mut generation = (*self.current()?).clone();
        generation.insert(row.clone())
    }

    /// Forces a row for every size and execution, before all profiles; `None` ends it.
    ///
    /// # Errors
    /// [`RegistryError::UnknownKernel`], [`RegistryError::Row`].
    pub fn set_override(
        &self,
        key: &KernelKey,
        values: Option<ParameterRow>,
    ) -> Result<(), RegistryError> {
        self.change(|generation| {
            let kernel =
                generation
                    .kernels
                    .get_mut(key)
                    .ok_or_else(|| RegistryError::UnknownKernel {
                        key: Box::new(key.clone()),
                        revision: key.revision,
                    })?;
            if let Some(values) = &values {
                kernel
                    .schema
                    .check_row(values)
                    .map_err(|source| RegistryError::Row {
                        key: Box::new(key.clone()),
                        origin: "session override".to_owned(),
                        source,
                    })?;
            }
            kernel.session_override = values;
            Ok(())
        })
    }

    /// Forgets every published profile and lane cost; schemas and overrides stay.
    ///
    /// # Errors
    /// [`RegistryError::Poisoned`].
    pub fn clear_profiles(&self) -> Result<(), RegistryError> {
        self.change(|generation| {
            generation.lane_costs.clear();
            for kernel in generation.kernels.values_mut() {
                kernel.profiles.clear();
            }
            Ok(())
        })
    }

    /// Resolves every registered key for an execution identity.
    ///
    /// # Panics
    /// After [`poison`](Self::poison), which only tests call.
    pub fn snapshot(&self, descriptor: &CpuExecutionDescriptor) -> TuningSnapshot {
        let generation = match self.current() {
            Ok(generation) => generation,
            Err(error) => panic!("{error}"),
        };
        self.shared.snapshots.fetch_add(1, Ordering::Relaxed);
        let count = generation.kernels.len() as u64;
        self.shared.lookups.fetch_add(count, Ordering::Relaxed);

        let costs = generation
            .lane_costs
            .get(&execution_id(descriptor))
            .copied()
            .unwrap_or_default();
        let mut text = String::new();
        for (name, value) in execution_fields(descriptor) {
            let _ = writeln!(text, "{name}={}:{value}", value.len());
        }
        let _ = writeln!(text, "lanes={:?} {:?}", costs.hot_ns, costs.cold_ns);
        let mut rows = HashMap::with_capacity(generation.kernels.len());
        for (key, kernel) in &generation.kernels {
            let (row, _) = kernel.resolve(descriptor);
            let _ = writeln!(
                text,
                "{key}/{} {} {}..{} {}",
                key.revision, row.source, row.domain.minimum, row.domain.maximum, row.values
            );
            rows.insert(key.clone(), row);
        }
        let id = sha256_hex(text.as_bytes())[..32].to_owned();
        TuningSnapshot::new(descriptor.clone(), rows, costs, id)
    }

    /// How a key resolves for an execution identity, and why the other rows do not apply.
    ///
    /// # Errors
    /// [`RegistryError::UnknownKernel`], [`RegistryError::Poisoned`].
    pub fn explain(
        &self,
        key: &KernelKey,
        descriptor: &CpuExecutionDescriptor,
    ) -> Result<Explanation, RegistryError> {
        let generation = self.current()?;
        self.shared.lookups.fetch_add(1, Ordering::Relaxed);
        let kernel = generation
            .kernels
            .get(key)
            .ok_or_else(|| RegistryError::UnknownKernel {
                key: Box::new(key.clone()),
                revision: key.revision,
            })?;
        Ok(resolution::explain(
            key,
            kernel.schema,
            kernel.session_override.as_ref(),
            &kernel.profiles,
            descriptor,
        ))
    }

    /// Registered keys with their schemas, in the order of keys.
    ///
    /// # Errors
    /// [`RegistryError::Poisoned`].
    pub fn kernels(&self) -> Result<Vec<(KernelKey, &'static Schema)>, RegistryError> {
        let generation = self.current()?;
        Ok(generation
            .kernels
            .iter()
            .map(|(key, kernel)| (key.clone(), kernel.schema))
            .collect())
    }

    /// The schema of a registered key.
    ///
    /// # Errors
    /// [`RegistryError::Poisoned`].
    pub fn schema(&self, key: &KernelKey) -> Result<Option<&'static Schema>, RegistryError> {
        Ok(self.current()?.kernels.get(key).map(|k| k.schema))
    }

    /// How often the registry was asked and changed; works after [`poison`](Self::poison).
    pub fn counters(&self) -> RegistryCounters {
        RegistryCounters {
            snapshots: self.shared.snapshots.load(Ordering::Relaxed),
            lookups: self.shared.lookups.load(Ordering::Relaxed),
            generation: self.latest().number,
        }
    }

    /// Makes every later access fail, so that a test shows that runs never come here: functions with a `Result`
    /// return [`RegistryError::Poisoned`], [`snapshot`](Self::snapshot) panics.
    pub fn poison(&self) {
        self.shared.poisoned.store(true, Ordering::SeqCst);
    }

    fn latest(&self) -> Arc<Generation> {
        let guard = self.shared.generation.read();
        Arc::clone(&guard.unwrap_or_else(PoisonError::into_inner))
    }

    fn current(&self) -> Result<Arc<Generation>, RegistryError> {
        if self.shared.poisoned.load(Ordering::SeqCst) {
            return Err(RegistryError::Poisoned);
        }
        Ok(self.latest())
    }

    fn change(
        &self,
        change: impl FnOnce(&mut Generation) -> Result<(), RegistryError>,
    ) -> Result<(), RegistryError> {
        if self.shared.poisoned.load(Ordering::SeqCst) {
            return Err(RegistryError::Poisoned);
        }
        let guard = self.shared.generation.write();
        let mut guard = guard.unwrap_or_else(PoisonError::into_inner);
        let mut next = (**guard).clone();
        change(&mut next)?;
        next.number += 1;
        *guard = Arc::new(next);
        Ok(())
    }
}

impl Kernel {
    fn resolve(&self, descriptor: &CpuExecutionDescriptor) -> (onl_snapshot::ResolvedRow, String) {
        resolution::resolve(
            self.schema,
            self.session_override.as_ref(),
            &self.profiles,
            descriptor,
        )
    }
}

impl Generation {
    fn insert(&mut self, row: ProfileRow) -> Result<(), RegistryError> {
        let kernel =
            self.kernels
                .get_mut(&row.key)
                .ok_or_else(|| RegistryError::UnknownKernel {
                    key: Box::new(row.key.clone()),
                    revision: row.key.revision,
                })?;
        kernel
            .schema
            .check_row(&row.values)
            .map_err(|source| RegistryError::Row {
                key: Box::new(row.key.clone()),
                origin: row.origin.clone(),
                source,
            })?;
        let SizeDomain { minimum, maximum } = row.domain;
        if minimum > maximum {
            return Err(RegistryError::Domain {
                key: Box::new(row.key),
                origin: row.origin,
                minimum,
                maximum,
            });
        }
        if let ProfileScope::Selector { selector, priority } = &row.scope {
            selector.check().map_err(|reason| RegistryError::Selector {
                key: Box::new(row.key.clone()),
                origin: row.origin.clone(),
                reason,
            })?;
            let rival = kernel.profiles.iter().find(|other| match &other.scope {
                ProfileScope::Selector {
                    selector: s,
                    priority: p,
                } => {
                    other.scope != row.scope
                        && p == priority
                        && s.source() == selector.source()
                        && s.specificity() == selector.specificity()
                        && s.overlaps(selector)
                }
                _ => false,
            });
            if let Some(rival) = rival {
                return Err(RegistryError::Ambiguous {
                    first: rival.origin.clone(),
                    second: row.origin,
                    key: Box::new(row.key),
                });
            }
        }
        kernel.profiles.retain(|other| other.scope != row.scope);
        kernel.profiles.push(row);
        Ok(())
    }
}

fn check_repetition(rows: &[ProfileRow]) -> Result<(), RegistryError> {
    for (i, row) in rows.iter().enumerate() {
        let earlier = rows[..i]
            .iter()
            .find(|other| other.key == row.key && other.scope == row.scope);
        if let Some(earlier) = earlier {
            return Err(repeated(earlier, row));
        }
    }
    Ok(())
}

fn repeated(earlier: &ProfileRow, row: &ProfileRow) -> RegistryError {
    RegistryError::Repeated {
        key: Box::new(row.key.clone()),
        first: earlier.origin.clone(),
        second: row.origin.clone(),
    }
}

fn check_lane_costs(costs: LaneCosts) -> Result<(), RegistryError> {
    let legal = |ns: f64| ns.is_finite() && ns >= 0.0;
    if legal(costs.hot_ns) && legal(costs.cold_ns) {
        Ok(())
    } else {
        Err(RegistryError::LaneCosts {
            hot_ns: format!("{:?}", costs.hot_ns),
            cold_ns: format!("{:?}", costs.cold_ns),
        })
    }
}
