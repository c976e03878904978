use crate::Error;
use onl_cpu::CpuSystem;
use onl_executor::{CpuExecutionPolicy, ExecutorLease, ExecutorRegistry, ResolvedCpuExecutionPolicy};
use onl_kernels::KernelTable;
use onl_snapshot::{KernelKey, Schema, TuningSnapshot};
use onl_tuning::{CacheFolder, TuningRegistry, load_kernel_tuning_cache};
use std::path::PathBuf;
use std::sync::Arc;

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
    executors: ExecutorRegistry,
    folder: Option<CacheFolder>,
    diagnostics: Vec<String>,
}

impl Environment {
    /// The builtin kernels, with profiles from a folder. A folder that cannot be read is a diagnostic, never an error.
    pub fn new(profiles: ProfileSource) -> Self {
        Self::with_table(KernelTable::builtin(), profiles)
    }

    /// Kernels of the caller's own beside or instead of the builtin ones.
    pub fn with_table(table: KernelTable, profiles: ProfileSource) -> Self {
        let registry = TuningRegistry::new();
        let mut diagnostics = Vec::new();
        for entry in table.entries() {
            let Some(schema) = entry.coverage.schema() else { continue };
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
        if let Some(folder) = &folder {
            diagnostics.extend(load_kernel_tuning_cache(&registry, folder).diagnostics());
        }
        Environment(Arc::new(Shared {
            table: Arc::new(table),
            registry,
            system: CpuSystem::current(),
            executors: ExecutorRegistry::global(),
            folder,
            diagnostics,
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

    /// What went wrong with saved profiles, one sentence each, naming file, row and reason.
    pub fn cache_diagnostics(&self) -> &[String] {
        &self.0.diagnostics
    }

    /// Resolves a policy on this machine.
    ///
    /// # Errors
    /// [`Error::Policy`] when the machine cannot give what the policy asks for.
    pub fn resolve(&self, policy: &CpuExecutionPolicy) -> Result<ResolvedCpuExecutionPolicy, Error> {
        Ok(policy.resolve(&self.0.system)?)
    }

    /// The snapshot that a session of this policy captures.
    pub fn snapshot(&self, resolved: &ResolvedCpuExecutionPolicy) -> TuningSnapshot {
        self.0.registry.snapshot(&resolved.descriptor())
    }

    /// The executor of a policy; equal policies share one.
    ///
    /// # Errors
    /// [`Error::Executor`] when too many executors live or threads cannot be made.
    pub fn lease(&self, resolved: &ResolvedCpuExecutionPolicy) -> Result<ExecutorLease, Error> {
        Ok(self.0.executors.lease(resolved)?)
    }

    /// Schema of a registered kernel.
    ///
    /// # Errors
    /// [`Error::Other`] when no such kernel is registered.
    pub fn schema(&self, key: &KernelKey) -> Result<&'static Schema, Error> {
        self.0
            .registry
            .schema(key)?
            .ok_or_else(|| Error::Other(format!("kernel {key} revision {} has no parameters", key.revision)))
    }
}
