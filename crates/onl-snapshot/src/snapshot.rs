use crate::{KernelKey, ParameterRow, Schema};
use onl_cpu::CpuExecutionDescriptor;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;

/// Where a resolved row comes from, most specific first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum ValueSource {
    Override,
    ExactExecution,
    ExactProcessor,
    Selector,
    InstructionSet,
    PortableDefault,
}

impl ValueSource {
    /// Name in reports and tables.
    pub const fn name(self) -> &'static str {
        match self {
            ValueSource::Override => "override",
            ValueSource::ExactExecution => "exact_execution",
            ValueSource::ExactProcessor => "exact_processor",
            ValueSource::Selector => "selector",
            ValueSource::InstructionSet => "instruction_set",
            ValueSource::PortableDefault => "portable_default",
        }
    }
}

impl fmt::Display for ValueSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Problem sizes, in the kernel's own size unit, for which a row was measured. A tuned value applies inside only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeDomain {
    /// Smallest measured size.
    pub minimum: u64,
    /// Largest measured size; `u64::MAX` when the choice was confirmed to hold upwards without bound.
    pub maximum: u64,
}

impl SizeDomain {
    /// Every size.
    pub const ALL: SizeDomain = SizeDomain {
        minimum: 0,
        maximum: u64::MAX,
    };

    /// Whether a size lies inside.
    pub const fn contains(&self, size: u64) -> bool {
        self.minimum <= size && size <= self.maximum
    }
}

/// What it costs to get the other lanes to work, measured per execution identity.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LaneCosts {
    /// Extra nanoseconds of a region whose lanes are spinning.
    pub hot_ns: f64,
    /// Extra nanoseconds of a region whose lanes are parked.
    pub cold_ns: f64,
}

impl Default for LaneCosts {
    /// The portable assumption of a cloud guest that was never measured.
    fn default() -> Self {
        LaneCosts {
            hot_ns: 1_000.0,
            cold_ns: 60_000.0,
        }
    }
}

/// The row that resolution found for a key.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedRow {
    /// Values, checked against the schema.
    pub values: ParameterRow,
    /// Where they come from.
    pub source: ValueSource,
    /// Sizes they apply to.
    pub domain: SizeDomain,
}

/// A kernel family's parameters as a typed value, built once at preparation.
pub trait TunedConfig: Clone + fmt::Debug + Send + Sync + 'static {
    /// The schema that [`from_row`](Self::from_row) reads.
    fn schema() -> &'static Schema;

    /// The typed value of a row that passed [`Schema::check_row`].
    fn from_row(row: &ParameterRow) -> Self;
}

/// A family's portable defaults beside its tuned values and the sizes these apply to.
#[derive(Debug, Clone)]
pub struct Tuned<C> {
    default: C,
    tuned: Option<(C, SizeDomain)>,
    source: ValueSource,
}

impl<C> Tuned<C> {
    /// Values that apply to every size, as tests and overrides use them.
    pub fn fixed(config: C) -> Self
    where
        C: Clone,
    {
        Tuned {
            default: config.clone(),
            tuned: Some((config, SizeDomain::ALL)),
            source: ValueSource::Override,
        }
    }

    /// The values for a problem of this size.
    pub fn at(&self, size: u64) -> &C {
        match &self.tuned {
            Some((config, domain)) if domain.contains(size) => config,
            _ => &self.default,
        }
    }

    /// Where the tuned values come from.
    pub fn source(&self) -> ValueSource {
        self.source
    }
}

/// Immutable result of resolving every registered key for one execution identity. A session captures one and
/// never asks for another.
#[derive(Debug, Clone, Default)]
pub struct TuningSnapshot {
    descriptor: Option<CpuExecutionDescriptor>,
    rows: HashMap<KernelKey, ResolvedRow>,
    lane_costs: LaneCosts,
    id: String,
}

impl TuningSnapshot {
    /// A snapshot of resolved rows. `id` is a digest of descriptor and rows that reports carry.
    pub fn new(
        descriptor: CpuExecutionDescriptor,
        rows: HashMap<KernelKey, ResolvedRow>,
        lane_costs: LaneCosts,
        id: String,
    ) -> Self {
        TuningSnapshot {
            descriptor: Some(descriptor),
            rows,
            lane_costs,
            id,
        }
    }

    /// The snapshot in which every key resolves to its portable default, for any execution identity.
    pub fn portable() -> Self {
        TuningSnapshot {
            id: "portable".to_owned(),
            ..Self::default()
        }
    }

    /// The portable snapshot with one row forced for every size: how calibration and tests hand a kernel its
    /// candidate.
    pub fn with_override(mut self, key: KernelKey, values: ParameterRow) -> Self {
        let row = ResolvedRow {
            values,
            source: ValueSource::Override,
            domain: SizeDomain::ALL,
        };
        self.rows.insert(key, row);
        self.id.push_str("+override");
        self
    }

    /// The snapshot with other costs of getting lanes to work.
    pub fn with_lane_costs(mut self, lane_costs: LaneCosts) -> Self {
        self.lane_costs = lane_costs;
        self
    }

    /// Execution identity that the rows were resolved for; `None` for the portable snapshot, which fits any.
    pub fn descriptor(&self) -> Option<&CpuExecutionDescriptor> {
        self.descriptor.as_ref()
    }

    /// Costs of getting lanes to work.
    pub fn lane_costs(&self) -> LaneCosts {
        self.lane_costs
    }

    /// Digest that identifies the snapshot in reports.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The resolved row of a key, if the key was registered.
    pub fn row(&self, key: &KernelKey) -> Option<&ResolvedRow> {
        self.rows.get(key)
    }

    /// All resolved rows, in no order.
    pub fn rows(&self) -> impl Iterator<Item = (&KernelKey, &ResolvedRow)> {
        self.rows.iter()
    }

    /// The typed parameters of a key; portable defaults when the key was not registered.
    pub fn config<C: TunedConfig>(&self, key: &KernelKey) -> Tuned<C> {
        let default = C::from_row(&C::schema().defaults());
        match self.rows.get(key) {
            Some(row) if row.source != ValueSource::PortableDefault => Tuned {
                default,
                tuned: Some((C::from_row(&row.values), row.domain)),
                source: row.source,
            },
            _ => Tuned {
                default,
                tuned: None,
                source: ValueSource::PortableDefault,
            },
        }
    }
}
