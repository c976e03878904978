use super::write::write_selector;
use crate::CpuSelector;
use crate::identity::execution_id;
use onl_cpu::CpuExecutionDescriptor;
use onl_snapshot::{KernelKey, LaneCosts, ParameterRow, SizeDomain};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a saved row says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowKind {
    /// The values beat the default.
    Promoted,
    /// The default's values held against the candidates.
    DefaultConfirmed,
}

impl RowKind {
    /// Name in files and tables.
    pub const fn name(self) -> &'static str {
        match self {
            RowKind::Promoted => "promoted",
            RowKind::DefaultConfirmed => "default_confirmed",
        }
    }

    /// The kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [RowKind::Promoted, RowKind::DefaultConfirmed]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

impl fmt::Display for RowKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A saved choice for one kernel under one execution identity. A file has at most one row per kernel and execution,
/// whatever the revision.
#[derive(Debug, Clone, PartialEq)]
pub struct CachedRow {
    /// Kernel and the revision that was measured.
    pub key: KernelKey,
    /// Execution identity that it was measured under.
    pub execution: CpuExecutionDescriptor,
    /// What the row says.
    pub kind: RowKind,
    /// Values, by name.
    pub values: ParameterRow,
    /// Measured sizes.
    pub domain: SizeDomain,
    /// SHA-256 of the evidence record, in hexadecimal.
    pub evidence: String,
    /// Keys of the file that this version does not know; kept when the file is written again.
    pub unknown: toml::Table,
}

impl CachedRow {
    /// What makes a row unique within a file: everything of the key but the revision, and the execution.
    pub(crate) fn slot(&self) -> (String, String) {
        let device = format!("{:?}", self.key.device);
        (
            format!("{}/{device}", self.key),
            execution_id(&self.execution),
        )
    }
}

/// A saved choice for one kernel on a class of processors, from an import. A file has at most one per kernel, class and
/// priority, whatever the revision.
#[derive(Debug, Clone, PartialEq)]
pub struct CachedProfile {
    /// Kernel and the revision that was measured.
    pub key: KernelKey,
    /// The class; the row is used inside it only.
    pub selector: CpuSelector,
    /// Order among selectors of equal specificity, higher first.
    pub priority: i32,
    /// What the row says.
    pub kind: RowKind,
    /// Values, by name.
    pub values: ParameterRow,
    /// Measured sizes.
    pub domain: SizeDomain,
    /// SHA-256 of the evidence record of the machine that measured, in hexadecimal.
    pub evidence: String,
    /// Keys of the file that this version does not know; kept when the file is written again.
    pub unknown: toml::Table,
}

impl CachedProfile {
    /// What makes a profile unique within a file.
    pub(crate) fn slot(&self) -> (String, String, i32) {
        let device = format!("{:?}", self.key.device);
        let mut selector = String::new();
        write_selector(&mut selector, &self.selector);
        (format!("{}/{device}", self.key), selector, self.priority)
    }
}

/// Measured lane costs of one execution identity.
#[derive(Debug, Clone, PartialEq)]
pub struct CachedLaneCosts {
    /// Execution identity that they were measured under.
    pub execution: CpuExecutionDescriptor,
    /// The costs.
    pub costs: LaneCosts,
    /// Keys of the file that this version does not know.
    pub unknown: toml::Table,
}
