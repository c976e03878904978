use crate::{Example, InferContext, InferError, PrepareContext, PrepareError, PreparedKernel};
use onl_ir::{NodeView, OpId};
use onl_profiling::RegionSite;
use onl_snapshot::{KernelKey, Schema, Search};
use onl_tensor::ElementType;
use std::collections::HashMap;
use thiserror::Error;

/// Newest version of the operator set `ai.onnx` whose operator texts the builtin kernels were read against (ONNX 1.23).
pub const NEWEST_OPSET: i64 = 28;

/// Why a path stays serial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum SerialCategory {
    Ordered,
    ControlFlow,
    MetadataOnly,
    TinyPayload,
    ConflictingWrites,
    DeterministicRng,
    /// Measured: a parallel form would not pay.
    MeasuredNotWorthIt {
        /// Report and row that show it.
        evidence: &'static str,
        /// Size of problems, in elements, from which to measure again.
        look_again_elements: u64,
    },
}

impl SerialCategory {
    /// Names of all categories.
    pub const NAMES: [&'static str; 7] = [
        "ordered",
        "control_flow",
        "metadata_only",
        "tiny_payload",
        "conflicting_writes",
        "deterministic_rng",
        "measured_not_worth_it",
    ];

    /// Name in the inventory.
    pub const fn name(self) -> &'static str {
        match self {
            SerialCategory::Ordered => "ordered",
            SerialCategory::ControlFlow => "control_flow",
            SerialCategory::MetadataOnly => "metadata_only",
            SerialCategory::TinyPayload => "tiny_payload",
            SerialCategory::ConflictingWrites => "conflicting_writes",
            SerialCategory::DeterministicRng => "deterministic_rng",
            SerialCategory::MeasuredNotWorthIt { .. } => "measured_not_worth_it",
        }
    }
}

/// What a family may look at when it proposes candidates.
#[derive(Debug, Clone, Copy)]
pub struct SearchContext {
    /// Element type of the key.
    pub element_type: ElementType,
    /// Lanes of the session, the caller included.
    pub participants: usize,
    /// Bytes of level-1 data cache; orders candidates, never decides.
    pub l1d_bytes: Option<u64>,
    /// Bytes of level-2 cache; orders candidates, never decides.
    pub l2_bytes: Option<u64>,
}

/// How far a path is covered by tuning.
#[derive(Clone, Copy)]
pub enum Coverage {
    /// No parallel form.
    Serial {
        /// Category of the reason.
        category: SerialCategory,
        /// The reason in a sentence.
        reason: &'static str,
    },
    /// Parameters without calibration.
    Tunable(fn() -> &'static Schema),
    /// Parameters with calibration over the entry's examples.
    Calibratable {
        /// Schema of the parameters.
        schema: fn() -> &'static Schema,
        /// Sizes that [`KernelEntry::examples`] is asked for, ascending.
        sizes: &'static [usize],
        /// What is searched.
        search: fn(&SearchContext) -> Search,
    },
}

impl Coverage {
    /// Schema, if the path has parameters.
    pub fn schema(&self) -> Option<&'static Schema> {
        match self {
            Coverage::Serial { .. } => None,
            Coverage::Tunable(schema) | Coverage::Calibratable { schema, .. } => Some(schema()),
        }
    }

    /// Name of the state in the inventory.
    pub const fn state(&self) -> &'static str {
        match self {
            Coverage::Serial { .. } => "serial",
            Coverage::Tunable(_) => "tunable",
            Coverage::Calibratable { .. } => "calibratable",
        }
    }
}

/// What of its inputs an output's shape depends on, beside their shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShapeDependence {
    /// Nothing else.
    Shapes,
    /// The values of these inputs (as `Reshape` on its input 1).
    Values(&'static [usize]),
    /// The values of all inputs (as `NonZero`).
    AllValues,
    /// The output's values depend on input shapes only (as `Shape`, `Size`).
    MetadataOnly,
}

/// Which value of a node selects its element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeSource {
    /// An input.
    Input(usize),
    /// Output 0, for operators whose inputs do not tell (as `Constant`).
    Output,
}

/// One kernel of the table: an operator over a range of versions and a list of element types.
#[derive(Clone)]
pub struct KernelEntry {
    /// Domain; `ai.onnx` for the default one.
    pub domain: &'static str,
    /// Operator type.
    pub op_type: &'static str,
    /// First and last operator-set version served; the last is `i64::MAX` while the newest form is served.
    pub opsets: (i64, i64),
    /// Value that selects the element type.
    pub type_source: TypeSource,
    /// Element types served.
    pub element_types: &'static [ElementType],
    /// Name of the implementation.
    pub implementation: &'static str,
    /// Bumped when a body, a unit or a meaning changes.
    pub revision: u32,
    /// Makes a node ready to run.
    pub prepare:
        fn(&NodeView<'_>, &PrepareContext<'_>) -> Result<Box<dyn PreparedKernel>, PrepareError>,
    /// Gives the output types.
    pub infer: fn(&mut InferContext<'_>) -> Result<(), InferError>,
    /// What the output shape depends on.
    pub shape_dependence: ShapeDependence,
    /// State of the path.
    pub coverage: Coverage,
    /// Sites of the regions that the kernel opens.
    pub regions: &'static [&'static RegionSite],
    /// Nodes of about `size` units of work (in the unit of the entry's size domain: elements, or multiply-adds for
    /// products) that calibration, verification, bit tests and benches run. The first is the ordinary case.
    pub examples: fn(element_type: ElementType, size: usize) -> Vec<Example>,
}

impl KernelEntry {
    /// Tuning key of the entry for one element type.
    pub fn key(&self, element_type: ElementType) -> KernelKey {
        let mut key = KernelKey::builtin(
            self.op_type,
            self.implementation,
            element_type,
            self.revision,
        );
        if self.domain != OpId::ONNX {
            key.kernel = format!("{}:{}", self.domain, self.op_type).into();
        }
        key
    }

    /// Whether the entry serves an operator-set version.
    pub fn serves(&self, opset: i64) -> bool {
        self.opsets.0 <= opset && opset <= self.opsets.1
    }
}

/// Why no kernel was found.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum LookupError {
    #[error(
        "operator {op} is unknown to this runtime; register a kernel for it or export the model without it"
    )]
    UnknownOperator { op: OpId },
    #[error("operator {op} has no kernel for operator set {opset}; served: {served}")]
    UnsupportedOpset {
        op: OpId,
        opset: i64,
        served: String,
    },
    #[error("operator {op} does not take element type {element_type}; served: {served}")]
    UnsupportedElementType {
        op: OpId,
        element_type: ElementType,
        served: String,
    },
    #[error("two kernels serve {op} for {element_type} in operator set {opset}")]
    Ambiguous {
        op: OpId,
        element_type: ElementType,
        opset: i64,
    },
}

/// All kernels that a session can choose from.
#[derive(Clone, Default)]
pub struct KernelTable {
    entries: Vec<KernelEntry>,
    by_operator: HashMap<OpId, Vec<usize>>,
}

impl KernelTable {
    /// A table without kernels.
    pub fn empty() -> Self {
        Self::default()
    }

    /// The builtin kernels.
    pub fn builtin() -> Self {
        let mut table = Self::empty();
        for group in [
            crate::elementwise::entries(),
            crate::gemm::entries(),
            crate::reduce::entries(),
            crate::movement::entries(),
            crate::shape::entries(),
            crate::quantize::entries(),
        ] {
            for entry in group {
                table
                    .register(entry)
                    .expect("builtin kernels do not overlap");
            }
        }
        table
    }

    /// Adds a kernel, builtin or of the caller's own.
    ///
    /// # Errors
    /// [`LookupError::Ambiguous`] when a registered kernel already serves one of its paths.
    pub fn register(&mut self, entry: KernelEntry) -> Result<(), LookupError> {
        let op = OpId::new(entry.domain, entry.op_type);
        let indices = self.by_operator.entry(op.clone()).or_default();
        for &index in indices.iter() {
            let other = &self.entries[index];
            let overlap = other.opsets.0.max(entry.opsets.0);
            if overlap <= other.opsets.1.min(entry.opsets.1)
                && let Some(&element_type) = entry
                    .element_types
                    .iter()
                    .find(|t| other.element_types.contains(t))
            {
                return Err(LookupError::Ambiguous {
                    op,
                    element_type,
                    opset: overlap,
                });
            }
        }
        indices.push(self.entries.len());
        self.entries.push(entry);
        Ok(())
    }

    /// All kernels in the order of registration.
    pub fn entries(&self) -> &[KernelEntry] {
        &self.entries
    }

    /// Kernels of one operator that serve a version.
    ///
    /// # Errors
    /// [`LookupError::UnknownOperator`] or [`LookupError::UnsupportedOpset`].
    pub fn operator(&self, op: &OpId, opset: i64) -> Result<Vec<&KernelEntry>, LookupError> {
        let indices = self
            .by_operator
            .get(op)
            .ok_or_else(|| LookupError::UnknownOperator { op: op.clone() })?;
        let entries: Vec<&KernelEntry> = indices
            .iter()
            .map(|&i| &self.entries[i])
            .filter(|e| e.serves(opset))
            .collect();
        if entries.is_empty() {
            let served = indices.iter().map(|&i| {
                let (first, last) = self.entries[i].opsets;
                if last == i64::MAX {
                    format!("{first} and later")
                } else {
                    format!("{first} to {last}")
                }
            });
            let served = served.collect::<Vec<_>>().join(", ");
            return Err(LookupError::UnsupportedOpset {
                op: op.clone(),
                opset,
                served,
            });
        }
        Ok(entries)
    }

    /// The kernel of one path.
    ///
    /// # Errors
    /// [`LookupError`] that says whether operator, version or element type is missing.
    pub fn find(
        &self,
        op: &OpId,
        opset: i64,
        element_type: ElementType,
    ) -> Result<&KernelEntry, LookupError> {
        let entries = self.operator(op, opset)?;
        entries
            .iter()
            .find(|e| e.element_types.contains(&element_type))
            .copied()
            .ok_or_else(|| {
                let mut served: Vec<&str> = entries
                    .iter()
                    .flat_map(|e| e.element_types)
                    .map(|t| t.name())
                    .collect();
                served.dedup();
                LookupError::UnsupportedElementType {
                    op: op.clone(),
                    element_type,
                    served: served.join(", "),
                }
            })
    }
}
