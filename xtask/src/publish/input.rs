//! A report as it was found.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Kinds of reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `onl kernel-baseline`.
    Baseline,
    /// `onl tune-kernels --apply`.
    Calibration,
    /// `onl attribute`.
    Attribution,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 3] = [Kind::Baseline, Kind::Calibration, Kind::Attribution];

    /// Name in documents and file names.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Baseline => "baseline",
            Kind::Calibration => "calibration",
            Kind::Attribution => "attribution",
        }
    }

    /// Text of the committed schema of this kind.
    pub fn schema(self) -> &'static str {
        match self {
            Kind::Baseline => include_str!("../../../reports/schema/baseline.schema.json"),
            Kind::Calibration => include_str!("../../../reports/schema/calibration.schema.json"),
            Kind::Attribution => include_str!("../../../reports/schema/attribution.schema.json"),
        }
    }
}

/// What rules and pages ask of a head; the schema holds the rest.
#[derive(Debug, Clone, Deserialize)]
pub struct Head {
    /// Version of the structure.
    pub schema: u64,
    /// Build that measured.
    pub build: Build,
    /// Processor.
    pub cpu: Value,
    /// Whether an emulator stood in for the processor.
    pub emulated: bool,
    /// How the sessions used the processor.
    pub execution: Value,
}

/// Build of a head.
#[derive(Debug, Clone, Deserialize)]
#[allow(missing_docs)]
pub struct Build {
    pub version: String,
    pub commit: String,
    pub dirty: bool,
    pub profile: String,
    pub compiler: String,
    pub target: String,
    pub flags: String,
}

impl Head {
    /// Architecture of the processor.
    pub fn architecture(&self) -> &str {
        self.cpu["architecture"].as_str().unwrap_or("unknown")
    }

    /// Marketing name of the processor, else its architecture.
    pub fn processor(&self) -> &str {
        self.cpu["brand"].as_str().unwrap_or(self.architecture())
    }

    /// Lanes of the session.
    pub fn participants(&self) -> u64 {
        self.execution["participants"].as_u64().unwrap_or(1)
    }
}

/// A report that may be published.
pub struct Input {
    /// Where it was found.
    pub path: PathBuf,
    /// Its kind.
    pub kind: Kind,
    /// All of it.
    pub document: Value,
    head: Head,
}

impl Input {
    /// Reads a report and looks no further than its head.
    ///
    /// # Errors
    /// When the file is no report of a known kind.
    pub fn read(path: &Path) -> Result<Self> {
        let context = || format!("{} is refused", path.display());
        let text = std::fs::read_to_string(path).with_context(context)?;
        let document: Value = serde_json::from_str(&text)
            .context("it is not JSON")
            .with_context(context)?;
        let name = document["head"]["kind"].as_str().unwrap_or_default();
        let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.name() == name) else {
            bail!(
                "{} is refused: its kind is '{name}'; known are baseline, calibration and attribution",
                path.display()
            );
        };
        let head = Head::deserialize(&document["head"])
            .context("its head cannot be read")
            .with_context(context)?;
        Ok(Input {
            path: path.to_owned(),
            kind,
            document,
            head,
        })
    }

    /// Its head.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Name of the published files without their endings.
    pub fn published_name(&self) -> String {
        format!("{}_{}", self.head.architecture(), self.kind.name())
    }
}
