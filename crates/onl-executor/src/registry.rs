use crate::budget::LaneBudget;
use crate::error::ExecutorError;
use crate::executor::CpuExecutor;
use crate::fork;
use crate::policy::{ExecutorKey, ResolvedCpuExecutionPolicy};
use crate::sync::{Mutex, lock};
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Weak};

/// Most executors that a process keeps at a time unless told otherwise.
pub const DEFAULT_POOL_LIMIT: usize = 16;

/// The executors of a process: sessions with equal resolved policies share one.
#[derive(Debug)]
pub struct ExecutorRegistry {
    shared: Arc<Shared>,
    generation: u64,
    pool_limit: usize,
}

#[derive(Debug)]
struct Shared {
    live: Mutex<HashMap<ExecutorKey, Entry>>,
    budget: Arc<LaneBudget>,
    /// Lanes of the budget while no live policy asks for more.
    base_budget: usize,
}

#[derive(Debug)]
struct Entry {
    lease: Weak<ExecutorLease>,
    /// Tells an entry from its successor under the same key.
    identity: u64,
    lanes: usize,
}

/// A share in an executor. When the last one is dropped its worker threads are ended and joined.
#[derive(Debug)]
pub struct ExecutorLease {
    /// Present until dropped.
    executor: Option<Arc<CpuExecutor>>,
    key: ExecutorKey,
    registry: Weak<Shared>,
}

impl ExecutorRegistry {
    /// A registry of at most `pools` live executors, whose runs together use `lanes` lanes, their callers included. A
    /// live policy with more participants raises the budget to its number: it was asked for by name.
    pub fn with_limits(pools: usize, lanes: usize) -> Self {
        fork::watch();
        ExecutorRegistry {
            shared: Arc::new(Shared {
                live: Mutex::new(HashMap::new()),
                budget: Arc::new(LaneBudget::new(lanes)),
                base_budget: lanes.max(1),
            }),
            generation: fork::generation(),
            pool_limit: pools.max(1),
        }
    }

    /// The registry of this process, with [`DEFAULT_POOL_LIMIT`] executors and a lane for every logical CPU that the
    /// process may use. A forked child gets its own.
    pub fn global() -> &'static ExecutorRegistry {
        static GLOBAL: AtomicPtr<ExecutorRegistry> = AtomicPtr::new(std::ptr::null_mut());
        loop {
            let current = GLOBAL.load(Ordering::Acquire);
            // SAFETY: null, or a registry that was leaked below and is never freed.
            if let Some(registry) = unsafe { current.as_ref() }
                && registry.generation == fork::generation()
            {
                return registry;
            }
            // A lock of an inherited registry may be held by a thread that does not exist here, so it is left alone.
            let lanes = std::thread::available_parallelism().map_or(1, usize::from);
            let made = Box::into_raw(Box::new(Self::with_limits(DEFAULT_POOL_LIMIT, lanes)));
            if GLOBAL
                .compare_exchange(current, made, Ordering::AcqRel, Ordering::Acquire)
                .is_err()
            {
                // SAFETY: `made` was not published.
                drop(unsafe { Box::from_raw(made) });
            }
        }
    }

    /// The executor of a resolved policy, started if there is none yet.
    ///
    /// # Errors
    /// [`ExecutorError::Forked`] for a registry inherited from a parent process, [`ExecutorError::TooManyPools`], and
    /// [`ExecutorError::Spawn`].
    pub fn lease(
        &self,
        policy: &ResolvedCpuExecutionPolicy,
    ) -> Result<Arc<ExecutorLease>, ExecutorError> {
        if self.generation != fork::generation() {
            return Err(ExecutorError::Forked);
        }
        let key = policy.key();
        let mut live = lock(&self.shared.live);
        if let Some(lease) = live.get(&key).and_then(|entry| entry.lease.upgrade()) {
            return Ok(lease);
        }
        // Entries whose last lease is being dropped still count: their threads are not joined yet.
        if !live.contains_key(&key) && live.len() >= self.pool_limit {
            return Err(ExecutorError::TooManyPools { live: live.len() });
        }
        let plan = key.plan();
        let executor = CpuExecutor::build(&plan, Arc::clone(&self.shared.budget))?;
        let (identity, lanes) = (executor.identity(), executor.participants());
        let lease = Arc::new(ExecutorLease {
            executor: Some(Arc::new(executor)),
            key: key.clone(),
            registry: Arc::downgrade(&self.shared),
        });
        live.insert(
            key,
            Entry {
                lease: Arc::downgrade(&lease),
                identity,
                lanes,
            },
        );
        self.shared.fit_budget(&live);
        Ok(lease)
    }

    /// Executors whose threads exist.
    pub fn live_pools(&self) -> usize {
        lock(&self.shared.live).len()
    }

    /// The lane budget of this registry's runs.
    pub fn budget(&self) -> &LaneBudget {
        &self.shared.budget
    }
}

impl Shared {
    fn fit_budget(&self, live: &HashMap<ExecutorKey, Entry>) {
        let widest = live.values().map(|entry| entry.lanes).max().unwrap_or(0);
        self.budget.set_limit(widest.max(self.base_budget));
    }
}

impl ExecutorLease {
    /// The executor. A clone keeps its threads alive beyond the lease, so it must not outlive it.
    pub fn executor(&self) -> &Arc<CpuExecutor> {
        match &self.executor {
            Some(executor) => executor,
            None => unreachable!("a lease has its executor until it is dropped"),
        }
    }
}

impl Deref for ExecutorLease {
    type Target = CpuExecutor;

    fn deref(&self) -> &CpuExecutor {
        self.executor()
    }
}

impl Drop for ExecutorLease {
    fn drop(&mut self) {
        let Some(executor) = self.executor.take() else {
            return;
        };
        let identity = executor.identity();
        let inherited = executor.is_inherited();
        drop(executor);
        if inherited {
            return;
        }
        if let Some(shared) = self.registry.upgrade() {
            let mut live = lock(&shared.live);
            if live
                .get(&self.key)
                .is_some_and(|entry| entry.identity == identity)
            {
                live.remove(&self.key);
            }
            shared.fit_budget(&live);
        }
    }
}
