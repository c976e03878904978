//! Every kernel path with its coverage state.

mod page;

pub use page::markdown;

use crate::verify::{Verdict, VerifiedPath};
use onl_kernels::{Coverage, KernelTable, SerialCategory};
use onl_snapshot::TuningSnapshot;
use onl_tensor::ElementType;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thiserror::Error;

/// Every kernel path with its coverage state.
#[derive(Debug, Clone, Serialize)]
pub struct Inventory {
    /// Version of this structure in JSON.
    pub schema: u32,
    /// Rows by domain, operator and element type.
    pub paths: Vec<InventoryRow>,
    /// Number of paths in each state.
    pub states: BTreeMap<String, usize>,
}

/// One path: operator, device and element type.
#[derive(Debug, Clone, Serialize)]
pub struct InventoryRow {
    /// Operator-set domain.
    pub domain: String,
    /// Operator.
    pub op_type: String,
    /// Device.
    pub device: String,
    /// Element type.
    pub element_type: String,
    /// `serial`, `tunable` or `calibratable`.
    pub state: String,
    /// Implementations by operator-set range.
    pub implementations: Vec<InventoryImplementation>,
    /// Parameters with their resolved values; empty for serial paths.
    pub parameters: Vec<InventoryParameter>,
    /// Why a serial path is serial.
    pub serial_reason: Option<SerialReason>,
    /// Labels of the regions that the path opens.
    pub regions: Vec<String>,
}

/// Kernel that serves a range of operator-set versions.
#[derive(Debug, Clone, Serialize)]
pub struct InventoryImplementation {
    /// Tuning key.
    pub key: String,
    /// Name.
    pub name: String,
    /// Revision.
    pub revision: u32,
    /// First operator-set version.
    pub first_opset: i64,
    /// Last operator-set version; absent while the newest form is served.
    pub last_opset: Option<i64>,
}

/// A parameter with its resolved value.
#[derive(Debug, Clone, Serialize)]
pub struct InventoryParameter {
    /// Dotted name.
    pub name: String,
    /// Resolved value.
    pub value: String,
    /// Portable default.
    pub default: String,
    /// Unit.
    pub unit: String,
    /// What it does.
    pub meaning: String,
    /// Where the value comes from.
    pub source: String,
}

/// Owner category and sentence of a serial path.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct SerialReason {
    /// Category.
    pub category: String,
    /// The reason in a sentence.
    pub reason: String,
    /// Report and row that show that a parallel form would not pay; only of that category.
    #[serde(default)]
    pub evidence: Option<String>,
    /// Size of problems in elements from which to measure again; only of that category.
    #[serde(default)]
    pub look_again_elements: Option<u64>,
}

impl SerialReason {
    /// The reason of a coverage, when it is serial.
    pub fn of(coverage: &Coverage) -> Option<Self> {
        let Coverage::Serial { category, reason } = coverage else {
            return None;
        };
        let (evidence, look_again_elements) = match category {
            SerialCategory::MeasuredNotWorthIt {
                evidence,
                look_again_elements,
            } => (Some((*evidence).to_owned()), Some(*look_again_elements)),
            _ => (None, None),
        };
        Some(SerialReason {
            category: category.name().to_owned(),
            reason: (*reason).to_owned(),
            evidence,
            look_again_elements,
        })
    }
}

/// Why an inventory is not acceptable.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum InventoryError {
    #[error("path {path} is listed twice")]
    Duplicate { path: String },
    #[error("path {path} is served by entries of different states ({states})")]
    MixedStates { path: String, states: String },
    #[error("path {path} has the unknown state '{state}'")]
    Unclassified { path: String, state: String },
    #[error(
        "path {path} is parallel by a policy that no parameter reaches; give what it chooses a name in its schema"
    )]
    FixedPolicy { path: String },
    #[error("path {path} is serial without category or reason")]
    NoReason { path: String },
    #[error("path {path} is serial for the unknown category '{category}'; known: {known}")]
    UnknownCategory {
        path: String,
        category: String,
        known: String,
    },
    #[error(
        "path {path} is serial by measurement, but without the evidence or the size at which to look again"
    )]
    NoEvidence { path: String },
    #[error("path {path} is served twice in operator set {opset}")]
    OverlappingOpsets { path: String, opset: i64 },
    #[error("path {path} is {state} but has no parameters")]
    NoParameters { path: String, state: String },
}

impl InventoryRow {
    /// The path in words.
    pub fn path(&self) -> String {
        format!(
            "{}:{} {} {}",
            self.domain, self.op_type, self.device, self.element_type
        )
    }
}

/// Lists every path of a table, with values as a snapshot resolved them.
pub fn inventory(table: &KernelTable, snapshot: &TuningSnapshot) -> Inventory {
    let mut rows: BTreeMap<(String, String, ElementType), InventoryRow> = BTreeMap::new();
    for entry in table.entries() {
        for &element_type in entry.element_types {
            let key = entry.key(element_type);
            let implementation = InventoryImplementation {
                key: key.to_string(),
                name: entry.implementation.to_owned(),
                revision: entry.revision,
                first_opset: entry.opsets.0,
                last_opset: (entry.opsets.1 != i64::MAX).then_some(entry.opsets.1),
            };
            let resolved = snapshot.row(&key);
            let parameters = entry.coverage.schema().map_or_else(Vec::new, |schema| {
                schema
                    .parameters
                    .iter()
                    .map(|parameter| InventoryParameter {
                        name: parameter.name.to_owned(),
                        value: resolved
                            .and_then(|row| row.values.get(parameter.name).cloned())
                            .unwrap_or_else(|| parameter.default_value())
                            .to_string(),
                        default: parameter.default_value().to_string(),
                        unit: parameter.unit.to_owned(),
                        meaning: parameter.meaning.to_owned(),
                        source: resolved
                            .map_or("portable_default", |row| row.source.name())
                            .to_owned(),
                    })
                    .collect()
            });
            let row = rows
                .entry((
                    entry.domain.to_owned(),
                    entry.op_type.to_owned(),
                    element_type,
                ))
                .or_insert_with(|| InventoryRow {
                    domain: entry.domain.to_owned(),
                    op_type: entry.op_type.to_owned(),
                    device: "cpu".to_owned(),
                    element_type: element_type.name().to_owned(),
                    state: entry.coverage.state().to_owned(),
                    implementations: Vec::new(),
                    parameters,
                    serial_reason: SerialReason::of(&entry.coverage),
                    regions: Vec::new(),
                });
            if row.state != entry.coverage.state() {
                row.state = format!("{}+{}", row.state, entry.coverage.state());
            }
            row.implementations.push(implementation);
            for site in entry.regions {
                if !row.regions.iter().any(|label| label == site.label) {
                    row.regions.push(site.label.to_owned());
                }
            }
        }
    }
    let mut inventory = Inventory {
        schema: 1,
        paths: rows.into_values().collect(),
        states: BTreeMap::new(),
    };
    inventory.count_states();
    inventory
}

/// Gives rows the state that observation found: a path of which nothing reaches the policy is `parallel_fixed_policy`.
pub fn apply_verdicts(inventory: &mut Inventory, verified: &[VerifiedPath]) {
    let fixed = verified
        .iter()
        .filter(|path| path.verdict == Verdict::ParallelFixedPolicy);
    for path in fixed {
        let mut rows = inventory.paths.iter_mut();
        if let Some(row) = rows.find(|row| row.implementations.iter().any(|i| i.key == path.key)) {
            FIXED_POLICY.clone_into(&mut row.state);
        }
    }
    inventory.count_states();
}

impl Inventory {
    fn count_states(&mut self) {
        self.states.clear();
        for row in &self.paths {
            *self.states.entry(row.state.clone()).or_insert(0) += 1;
        }
    }
}

/// State of a path that observation found to be parallel by a policy that no parameter reaches.
const FIXED_POLICY: &str = "parallel_fixed_policy";

/// Checks that no path is listed twice or served twice in an operator set, none is unclassified or of fixed policy,
/// every serial one has a known category and a reason, and, if it is serial by measurement, the evidence and the size at
/// which to look again.
///
/// # Errors
/// Every [`InventoryError`] found.
pub fn validate_inventory(inventory: &Inventory) -> Result<(), Vec<InventoryError>> {
    let mut errors = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for row in &inventory.paths {
        let path = row.path();
        if !seen.insert(path.clone()) {
            errors.push(InventoryError::Duplicate { path: path.clone() });
        }
        validate_opsets(row, &mut errors);
        match row.state.as_str() {
            "serial" => validate_reason(row, &mut errors),
            "tunable" | "calibratable" => {
                if row.parameters.is_empty() {
                    errors.push(InventoryError::NoParameters {
                        path,
                        state: row.state.clone(),
                    });
                }
            }
            FIXED_POLICY => errors.push(InventoryError::FixedPolicy { path }),
            mixed if mixed.contains('+') => {
                errors.push(InventoryError::MixedStates {
                    path,
                    states: mixed.to_owned(),
                });
            }
            state => errors.push(InventoryError::Unclassified {
                path,
                state: state.to_owned(),
            }),
        }
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors)
    }
}

fn validate_opsets(row: &InventoryRow, errors: &mut Vec<InventoryError>) {
    let mut ranges: Vec<(i64, i64)> = row
        .implementations
        .iter()
        .map(|i| (i.first_opset, i.last_opset.unwrap_or(i64::MAX)))
        .collect();
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        if pair[1].0 <= pair[0].1 {
            errors.push(InventoryError::OverlappingOpsets {
                path: row.path(),
                opset: pair[1].0,
            });
        }
    }
}

fn validate_reason(row: &InventoryRow, errors: &mut Vec<InventoryError>) {
    let path = row.path();
    let Some(reason) = &row.serial_reason else {
        errors.push(InventoryError::NoReason { path });
        return;
    };
    if reason.category.is_empty() || reason.reason.is_empty() {
        errors.push(InventoryError::NoReason { path });
    } else if !SerialCategory::NAMES.contains(&reason.category.as_str()) {
        errors.push(InventoryError::UnknownCategory {
            path,
            category: reason.category.clone(),
            known: SerialCategory::NAMES.join(", "),
        });
    } else if reason.category == "measured_not_worth_it"
        && (reason.evidence.as_ref().is_none_or(String::is_empty)
            || reason.look_again_elements.is_none_or(|size| size == 0))
    {
        errors.push(InventoryError::NoEvidence { path });
    }
}
