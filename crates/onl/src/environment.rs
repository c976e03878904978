use crate::Error;
use onl_cpu::CpuSystem;
use onl_executor::{
    CpuExecutionPolicy, ExecutorLease, ExecutorRegistry, ResolvedCpuExecutionPolicy,
};
use onl_kernels::KernelTable;
use onl_snapshot::{KernelKey, Schema, TuningSnapshot};
use onl_tuning::{
    CacheFolder, LoadOutcome, TuningRegistry, execution_id, load_kernel_tuning_cache,
};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Where saved profiles come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ProfileSource {
    /// The folder `ONL_TUNING_CACHE`, else the user's cache folder.
    #[default]
    UserFolder,
    /// This folder.
    Folder(PathBuf),
    /// Nowhere: portable defaults.
    None,
}

/// What sessions share: kernel table, tuning registry with the loaded profiles, and executors. Cheap to clone.
#[derive(Clone)]
pub struct Environment(Arc<Shared>);

struct Shared {
    table: Arc<KernelTable>,
    registry: TuningRegistry,
    system: CpuSystem,
    folder: Option<CacheFolder>,
    diagnostics: Vec<String>,
    /// What loading the folder gave, by execution identity: each is loaded once.
    loaded: Mutex<HashMap<String, Arc<LoadOutcome>>>,
}

impl Environment {
    /// The builtin kernels, with profiles from a folder.
    pub fn new(profiles: ProfileSource) -> Self {
        Self::with_table(KernelTable::builtin(), profiles)
    }

    /// Kernels of the caller's own beside or instead of the builtin ones.
    pub fn with_table(table: KernelTable, profiles: ProfileSource) -> Self {
        Self::with_system(table, profiles, CpuSystem::current())
    }

    /// As [`with_table`](Self::with_table), on a machine that was described elsewhere.
    pub fn with_system(table: KernelTable, profiles: ProfileSource, system: CpuSystem) -> Self {
        let registry = TuningRegistry::new();
        let mut diagnostics = Vec::new();
        for entry in table.entries() {
            let Some(schema) = entry.coverage.schema() else {
                continue;
            };
            for &element_type in entry.element_types {
                let key = entry.key(element_type);
                // Entries of one operator for several operator-set ranges share a key.
                if registry.schema(&key).ok().flatten().is_none()
                    && let Err(error) = registry.register(key, schema)
                {
                    diagnostics.push(error.to_string());
                }
            }
        }
        let folder = match profiles {
            ProfileSource::None => None,
            ProfileSource::Folder(path) => Some(CacheFolder::at(path)),
            ProfileSource::UserFolder => match CacheFolder::locate() {
                Ok(folder) => Some(folder),
                Err(error) => {
                    diagnostics.push(error.to_string());
                    None
                }
            },
        };
        Environment(Arc::new(Shared {
            table: Arc::new(table),
            registry,
            system,
            folder,
            diagnostics,
            loaded: Mutex::new(HashMap::new()),
        }))
    }

    /// The kernels.
    pub fn table(&self) -> &Arc<KernelTable> {
        &self.0.table
    }

    /// The tuning registry.
    pub fn registry(&self) -> &TuningRegistry {
        &self.0.registry
    }

    /// The processor and what of it this process may use.
    pub fn system(&self) -> &CpuSystem {
        &self.0.system
    }

    /// Folder of saved profiles, if there is one.
    pub fn cache_folder(&self) -> Option<&CacheFolder> {
        self.0.folder.as_ref()
    }

    /// What went wrong while the environment was made, one sentence each.
    pub fn diagnostics(&self) -> &[String] {
        &self.0.diagnostics
    }

    /// What the profile folder holds for a policy; `None` without a folder. A folder or file that cannot be read is in
    /// the outcome, never an error.
    ///
    /// # Errors
    /// [`Error::Registry`] when the registry was poisoned.
    pub fn load_profiles(
        &self,
        resolved: &ResolvedCpuExecutionPolicy,
    ) -> Result<Option<Arc<LoadOutcome>>, Error> {
        let Some(folder) = &self.0.folder else {
            return Ok(None);
        };
        let descriptor = resolved.descriptor();
        let mut loaded = self.0.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let id = execution_id(&descriptor);
        if let Some(outcome) = loaded.get(&id) {
            return Ok(Some(Arc::clone(outcome)));
        }
        let outcome = Arc::new(load_kernel_tuning_cache(
            &self.0.registry,
            folder,
            &descriptor,
        )?);
        loaded.insert(id, Arc::clone(&outcome));
        Ok(Some(outcome))
    }

    /// Resolves a policy on this machine.
    ///
    /// # Errors
    /// [`Error::Policy`] when the machine cannot give what the policy asks for.
    pub fn resolve(
        &self,
        policy: &CpuExecutionPolicy,
    ) -> Result<ResolvedCpuExecutionPolicy, Error> {
        Ok(policy.resolve(&self.0.system)?)
    }

    /// The snapshot that a session of this policy captures, with saved profiles loaded first.
    ///
    /// # Errors
    /// [`Error::Registry`] when the registry was poisoned.
    pub fn snapshot(&self, resolved: &ResolvedCpuExecutionPolicy) -> Result<TuningSnapshot, Error> {
        self.load_profiles(resolved)?;
        Ok(self.0.registry.snapshot(&resolved.descriptor()))
    }

    /// What a user should know about the profiles of a policy.
    ///
    /// # Errors
    /// [`Error::Registry`] when the registry was poisoned.
    pub fn profile_diagnostics(
        &self,
        resolved: &ResolvedCpuExecutionPolicy,
    ) -> Result<Vec<String>, Error> {
        let mut lines = self.0.diagnostics.clone();
        if let Some(outcome) = self.load_profiles(resolved)? {
            lines.extend(outcome.diagnostics.iter().cloned());
            for (rows, what) in [
                (&outcome.stale, "stale"),
                (&outcome.unregistered, "of an unknown kernel"),
            ] {
                for row in rows {
                    lines.push(format!(
                        "{}: row {} is {what}: {}",
                        outcome.path.display(),
                        row.key,
                        row.reason
                    ));
                }
            }
        }
        Ok(lines)
    }

    /// The executor of a policy; equal policies share one.
    ///
    /// # Errors
    /// [`Error::Executor`] when too many executors live or threads cannot be made.
    pub fn lease(
        &self,
        resolved: &ResolvedCpuExecutionPolicy,
    ) -> Result<Arc<ExecutorLease>, Error> {
        Ok(ExecutorRegistry::global().lease(resolved)?)
    }

    /// Schema of a registered kernel.
    ///
    /// # Errors
    /// [`Error::Other`] when no such kernel is registered.
    pub fn schema(&self, key: &KernelKey) -> Result<&'static Schema, Error> {
        self.0.registry.schema(key)?.ok_or_else(|| {
            Error::Other(format!(
                "kernel {key} revision {} has no parameters",
                key.revision
            ))
        })
    }
}
