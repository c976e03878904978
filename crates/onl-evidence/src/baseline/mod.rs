//! The kernel corpus under one lane and under the session default, measured ceilings, and ranked regions of models.

mod check;
mod corpus;
mod derive;
#[doc(hidden)]
pub mod fixture;
mod measure;
mod models;
mod rank;
mod report;

pub use corpus::{CORPUS, CaseModel, CorpusCase, CorpusError};
pub use derive::derive;
pub use measure::{
    MeasureControls, MeasureError, MeasuredCorpus, measure_baseline, measure_corpus, selected,
};
pub use models::RecordedModel;
pub use onl_tuning::roofline::{CeilingRate, LevelCeilings, ParticipantCeilings};
pub use rank::lists;
pub use report::*;

use crate::report::{Finding, Measurement, Report, ReportHead, ReportKind};

/// Version of the structure of baseline reports.
pub const BASELINE_SCHEMA: u32 = 1;

impl Report for BaselineReport {
    const KIND: ReportKind = ReportKind::Baseline;
    const SCHEMA: u32 = BASELINE_SCHEMA;

    fn head(&self) -> &ReportHead {
        &self.head
    }

    fn check(&self) -> Vec<Finding> {
        check::check(self)
    }

    fn corpus(&self) -> Vec<String> {
        let of_corpus = |row: &&CaseRow| row.origin == CaseOrigin::Corpus;
        self.cases
            .iter()
            .filter(of_corpus)
            .map(measurement_name)
            .collect()
    }

    fn measurements(&self) -> Vec<Measurement> {
        let of_corpus = |row: &&CaseRow| row.origin == CaseOrigin::Corpus;
        self.cases
            .iter()
            .filter(of_corpus)
            .map(|row| Measurement {
                name: measurement_name(row),
                samples_ns: row.samples_ns.clone(),
            })
            .collect()
    }
}

fn measurement_name(row: &CaseRow) -> String {
    format!("{}, {}", row.case, row.threads.name())
}

#[cfg(test)]
mod tests;
