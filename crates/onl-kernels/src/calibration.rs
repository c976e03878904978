//! Calibration of any kernel entry through its examples.

use crate::{BenchMemory, BenchNode, Coverage, Example, KernelEntry, PrepareError, SearchContext};
use onl_cpu::IsaTier;
use onl_executor::{CpuExecutor, RunOptions};
use onl_profiling::{Collector, InlineReason};
use onl_snapshot::{
    CacheState, CalibrationError, CalibrationInstance, CalibrationTarget, Digest, KernelKey,
    LaneCosts, ParameterRow, Schema, Search, TuningSnapshot, Workload,
};
use onl_tensor::{ElementType, Tensor};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Regions of one run that name its path.
const OBSERVED_REGIONS: usize = 256;

/// What calibration targets are built with.
#[derive(Clone)]
pub struct CalibrationContext {
    /// Executor that candidates run on.
    pub executor: Arc<CpuExecutor>,
    /// Instruction-set tier.
    pub tier: IsaTier,
    /// Costs of getting lanes to work, as the session will see them.
    pub lane_costs: LaneCosts,
    /// Bytes of level-1 data cache, if known.
    pub l1d_bytes: Option<u64>,
    /// Bytes of level-2 cache, if known.
    pub l2_bytes: Option<u64>,
}

/// One key of a calibratable entry.
pub struct NodeCalibration {
    entry: KernelEntry,
    key: KernelKey,
    context: CalibrationContext,
    schema: &'static Schema,
    sizes: &'static [usize],
    search: fn(&SearchContext) -> Search,
    /// Data of the workloads whose instances live, by name.
    data: Mutex<HashMap<String, Weak<WorkloadData>>>,
}

/// Inputs and memory that all instances of a workload share: rows then differ in nothing but their values, least of all
/// in where their data happen to lie.
struct WorkloadData {
    inputs: Vec<Option<Arc<Tensor>>>,
    memory: Mutex<BenchMemory>,
}

impl NodeCalibration {
    /// The target for one element type of an entry; `None` when the entry is not calibratable.
    pub fn new(
        entry: &KernelEntry,
        element_type: ElementType,
        context: &CalibrationContext,
    ) -> Option<Self> {
        match entry.coverage {
            Coverage::Calibratable {
                schema,
                sizes,
                search,
            } => Some(NodeCalibration {
                entry: entry.clone(),
                key: entry.key(element_type),
                context: context.clone(),
                schema: schema(),
                sizes,
                search,
                data: Mutex::default(),
            }),
            _ => None,
        }
    }

    fn data(
        &self,
        workload: &Workload,
        example: &Example,
    ) -> Result<Arc<WorkloadData>, PrepareError> {
        let mut live = self.data.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(data) = live.get(&workload.name).and_then(Weak::upgrade) {
            return Ok(data);
        }
        let data = Arc::new(WorkloadData {
            inputs: example.materialize()?,
            memory: Mutex::default(),
        });
        live.insert(workload.name.clone(), Arc::downgrade(&data));
        Ok(data)
    }

    fn example(&self, workload: &Workload) -> Option<Example> {
        let (name, size) = workload.name.split_once('/')?;
        let size = size.parse().ok()?;
        (self.entry.examples)(self.key.element_type, size)
            .into_iter()
            .find(|e| e.name == name)
    }
}

impl CalibrationTarget for NodeCalibration {
    fn key(&self) -> &KernelKey {
        &self.key
    }

    fn schema(&self) -> &'static Schema {
        self.schema
    }

    fn workloads(&self) -> Vec<Workload> {
        let mut workloads = Vec::new();
        for &size in self.sizes {
            for example in (self.entry.examples)(self.key.element_type, size) {
                // Outputs of the calibrated families are about as large as their largest input.
                let largest = example.input_bytes().max().unwrap_or(0);
                let inputs = example.input_bytes().sum::<u64>();
                let work = example.work(self.entry.op_type);
                workloads.push(Workload {
                    name: format!("{}/{size}", example.name),
                    size: size as u64,
                    memory_bytes: inputs + 2 * largest,
                    flops: work.flops,
                    bytes: work.bytes,
                    cache_state: CacheState::Produced,
                });
            }
        }
        workloads
    }

    fn search(&self) -> Search {
        (self.search)(&SearchContext {
            element_type: self.key.element_type,
            participants: self.context.executor.participants(),
            l1d_bytes: self.context.l1d_bytes,
            l2_bytes: self.context.l2_bytes,
        })
    }

    fn instance(
        &self,
        workload: &Workload,
        values: &ParameterRow,
    ) -> Result<Box<dyn CalibrationInstance>, CalibrationError> {
        let failed = |reason: String| CalibrationError {
            kernel: self.key.to_string(),
            workload: workload.name.clone(),
            reason,
        };
        self.schema
            .check_row(values)
            .map_err(|error| failed(error.to_string()))?;
        let example = self
            .example(workload)
            .ok_or_else(|| failed("the kernel has no such example".into()))?;
        let snapshot = TuningSnapshot::portable()
            .with_lane_costs(self.context.lane_costs)
            .with_override(self.key.clone(), values.clone());
        let executor = Arc::clone(&self.context.executor);
        let data = self
            .data(workload, &example)
            .map_err(|error| failed(error.to_string()))?;
        let node = BenchNode::with_inputs(
            &self.entry,
            &example,
            data.inputs.clone(),
            &snapshot,
            self.context.tier,
            executor.participants(),
        )
        .map_err(|error| failed(error.to_string()))?;
        let mut instance = NodeInstance {
            node,
            data,
            executor,
            lane_costs: self.context.lane_costs,
            kernel: self.key.to_string(),
            workload: workload.name.clone(),
            path: String::new(),
        };
        instance.with_memory(NodeInstance::observe)?;
        Ok(Box::new(instance))
    }
}

struct NodeInstance {
    node: BenchNode,
    data: Arc<WorkloadData>,
    executor: Arc<CpuExecutor>,
    lane_costs: LaneCosts,
    kernel: String,
    workload: String,
    path: String,
}

impl NodeInstance {
    /// Lends the workload's memory to the node.
    fn with_memory<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let data = Arc::clone(&self.data);
        let mut memory = data.memory.lock().unwrap_or_else(PoisonError::into_inner);
        self.node.swap_memory(&mut memory);
        let result = work(self);
        self.node.swap_memory(&mut memory);
        result
    }

    /// Runs once under a collector and notes what its regions were.
    fn observe(&mut self) -> Result<(), CalibrationError> {
        let collector = Collector::new(OBSERVED_REGIONS);
        let executor = Arc::clone(&self.executor);
        let options = RunOptions {
            collector: Some(&collector),
            ..self.options()
        };
        let run = executor
            .enter_with(options)
            .map_err(|error| self.error(error.to_string()))?;
        self.node
            .run(run.lanes())
            .map_err(|error| self.error(error.to_string()))?;
        drop(run);
        self.path = collector
            .drain()
            .regions
            .iter()
            .map(|e| {
                // A region that is not divided takes the same path whatever its grain. Whether lanes were free when it
                // was observed is chance and no part of the path.
                let grain = match e.inline_reason {
                    None | Some(InlineReason::NoLane | InlineReason::Budget) => e.grain,
                    Some(_) => e.total,
                };
                format!(
                    "{} {} {} tiles, {} by {grain} on {}",
                    e.site.label, e.path, e.tiles, e.total, e.requested
                )
            })
            .collect::<Vec<_>>()
            .join("; ");
        Ok(())
    }

    fn options(&self) -> RunOptions<'static> {
        RunOptions {
            hot_ns: self.lane_costs.hot_ns,
            cold_ns: self.lane_costs.cold_ns,
            ..RunOptions::default()
        }
    }

    fn error(&self, reason: String) -> CalibrationError {
        CalibrationError {
            kernel: self.kernel.clone(),
            workload: self.workload.clone(),
            reason,
        }
    }
}

impl CalibrationInstance for NodeInstance {
    fn restore(&mut self) {
        self.with_memory(|instance| instance.node.clear_outputs());
    }

    fn run(&mut self, times: u32) -> Result<(), CalibrationError> {
        let executor = Arc::clone(&self.executor);
        self.with_memory(|instance| {
            let run = executor
                .enter_with(instance.options())
                .map_err(|error| instance.error(error.to_string()))?;
            for _ in 0..times {
                instance
                    .node
                    .produce_inputs(run.lanes())
                    .and_then(|()| instance.node.run(run.lanes()))
                    .map_err(|error| instance.error(error.to_string()))?;
            }
            Ok(())
        })
    }

    fn output_digest(&mut self) -> Digest {
        self.with_memory(|instance| instance.node.digest())
    }

    fn execution_path(&self) -> String {
        self.path.clone()
    }
}
