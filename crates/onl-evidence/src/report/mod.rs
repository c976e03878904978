//! What all reports have in common: who measured what where, how one is read, and how it is checked.
//!
//! A report is one JSON document of one machine. Its head says which build, processor and execution it is of; its body
//! keeps raw samples, and everything derived from them (intervals, verdicts, ranks) is derived again when it is checked.

mod any;
mod build;

pub use any::{CheckedReport, ReportFigures, check_text, read_figures};
pub use build::BuildInfo;

use onl_cpu::{CpuDescriptor, CpuExecutionDescriptor};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;
use thiserror::Error;

/// Kinds of reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportKind {
    /// Times of the kernel corpus and ranked lists: `onl kernel-baseline`.
    Baseline,
    /// Choices of a calibration with their evidence: `onl tune-kernels --apply`.
    Calibration,
    /// Models in several runtimes: `onl attribute`.
    Attribution,
}

impl ReportKind {
    /// All kinds.
    pub const ALL: [ReportKind; 3] = [
        ReportKind::Baseline,
        ReportKind::Calibration,
        ReportKind::Attribution,
    ];

    /// Name in documents and file names.
    pub fn name(self) -> &'static str {
        match self {
            ReportKind::Baseline => "baseline",
            ReportKind::Calibration => "calibration",
            ReportKind::Attribution => "attribution",
        }
    }
}

impl fmt::Display for ReportKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// First fields of every report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportHead {
    /// Kind of report.
    pub kind: ReportKind,
    /// Version of the kind's structure.
    pub schema: u32,
    /// Build that measured.
    pub build: BuildInfo,
    /// Processor that was measured.
    pub cpu: CpuDescriptor,
    /// Whether an emulator stood in for the processor: such a report shows correctness, never speed.
    pub emulated: bool,
    /// How the measured sessions used the processor.
    pub execution: CpuExecutionDescriptor,
}

impl ReportHead {
    /// The head of a report that the running build makes on this machine.
    pub fn current(kind: ReportKind, schema: u32, execution: CpuExecutionDescriptor) -> Self {
        ReportHead {
            kind,
            schema,
            build: BuildInfo::current(),
            cpu: CpuDescriptor::current(),
            emulated: onl_cpu::emulated(),
            execution,
        }
    }
}

/// Something in a report that does not follow from its samples, or is missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Where: fields from the top of the document, as in `cases[3].ratio`.
    pub place: String,
    /// What is wrong, with the value found and the value expected.
    pub problem: String,
}

impl Finding {
    /// A finding.
    pub fn new(place: impl Into<String>, problem: impl Into<String>) -> Self {
        Finding {
            place: place.into(),
            problem: problem.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.problem)
    }
}

/// One figure of a report that another report of the kind can be compared by.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// What was measured, the same in every report of the kind: `Gemm/f32 1024x1024x1024, 2 threads`.
    pub name: String,
    /// Raw samples in nanoseconds, in the order in which they were taken.
    pub samples_ns: Vec<f64>,
}

/// A report of one kind.
pub trait Report: Serialize + DeserializeOwned {
    /// The kind.
    const KIND: ReportKind;
    /// Version of the structure that this build writes and reads.
    const SCHEMA: u32;

    /// Its head.
    fn head(&self) -> &ReportHead;

    /// Everything that does not follow from the samples, and every case that is missing.
    fn check(&self) -> Vec<Finding>;

    /// What was measured, in words; reports of different corpora cannot be compared.
    fn corpus(&self) -> Vec<String>;

    /// Every figure with its samples.
    fn measurements(&self) -> Vec<Measurement>;
}

/// Why a report cannot be read.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum ReportError {
    #[error("it is not a report: {reason}; expected a JSON document of `onl`")]
    NotAReport { reason: String },
    #[error("it is of kind {found}, expected {expected}")]
    Kind {
        found: ReportKind,
        expected: ReportKind,
    },
    #[error(
        "its structure is version {found}, this build reads version {expected}; make the report again, or read it with the build that made it"
    )]
    Schema { found: u32, expected: u32 },
}

#[derive(Deserialize)]
struct KindOnly {
    head: KindAndSchema,
}

#[derive(Deserialize)]
struct KindAndSchema {
    kind: ReportKind,
    schema: u32,
}

fn kind_and_schema(text: &str) -> Result<KindAndSchema, ReportError> {
    let document: KindOnly = serde_json::from_str(text).map_err(|error| not_a_report(&error))?;
    Ok(document.head)
}

fn not_a_report(error: &serde_json::Error) -> ReportError {
    ReportError::NotAReport {
        reason: error.to_string(),
    }
}

/// The kind of a report's text.
///
/// # Errors
/// [`ReportError::NotAReport`].
pub fn kind_of(text: &str) -> Result<ReportKind, ReportError> {
    Ok(kind_and_schema(text)?.kind)
}

/// Reads a report of a kind from its text.
///
/// # Errors
/// Every [`ReportError`].
pub fn read<R: Report>(text: &str) -> Result<R, ReportError> {
    let head = kind_and_schema(text)?;
    if head.kind != R::KIND {
        return Err(ReportError::Kind {
            found: head.kind,
            expected: R::KIND,
        });
    }
    if head.schema != R::SCHEMA {
        return Err(ReportError::Schema {
            found: head.schema,
            expected: R::SCHEMA,
        });
    }
    serde_json::from_str(text).map_err(|error| not_a_report(&error))
}

/// The text of a report as it is kept in files.
///
/// # Errors
/// When a field has no JSON form.
pub fn write<R: Report>(report: &R) -> Result<String, serde_json::Error> {
    Ok(serde_json::to_string_pretty(report)? + "\n")
}

#[cfg(test)]
mod tests;
