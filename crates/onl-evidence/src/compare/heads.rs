//! What differs between the heads of two reports, and what in them warns.

use crate::report::ReportHead;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// A field of the heads that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeadDifference {
    /// Dotted name, as `build.commit`.
    pub field: String,
    /// In the first report; of a list what the second does not have.
    pub first: String,
    /// In the second report; of a list what the first does not have.
    pub second: String,
}

/// Reasons not to trust the times of a report.
pub(super) fn warnings(first: &ReportHead, second: &ReportHead) -> Vec<String> {
    let mut warnings = Vec::new();
    for (which, head) in [("first", first), ("second", second)] {
        if head.emulated {
            warnings.push(format!(
                "the {which} report was made on an emulated processor: its times say nothing of speed"
            ));
        }
        if head.build.profile != "release" {
            warnings.push(format!(
                "the {which} report was made by a {} build: its times say nothing of what people run",
                head.build.profile
            ));
        }
        if head.build.dirty {
            warnings.push(format!(
                "the {which} report was made by a build that no commit describes"
            ));
        }
    }
    warnings
}

/// Fields of two heads that differ, in alphabetical order.
pub(super) fn differences(first: &ReportHead, second: &ReportHead) -> Vec<HeadDifference> {
    let mut found = Vec::new();
    let document = |head: &ReportHead| serde_json::to_value(head).unwrap_or_default();
    differ(&document(first), &document(second), "", &mut found);
    found
}

fn differ(first: &Value, second: &Value, place: &str, found: &mut Vec<HeadDifference>) {
    if first == second {
        return;
    }
    let (one, other) = match (first, second) {
        (Value::Object(a), Value::Object(b)) => {
            let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in names {
                let below = match place {
                    "" => name.clone(),
                    place => format!("{place}.{name}"),
                };
                let field = |map: &Map<String, Value>| map.get(name).cloned().unwrap_or_default();
                differ(&field(a), &field(b), &below, found);
            }
            return;
        }
        (Value::Array(a), Value::Array(b)) => (lacking(a, b), lacking(b, a)),
        (a, b) => (text(a), text(b)),
    };
    found.push(HeadDifference {
        field: place.to_owned(),
        first: one,
        second: other,
    });
}

/// Values of the first list that the second does not have.
fn lacking(these: &[Value], those: &[Value]) -> String {
    let these = these.iter().filter(|value| !those.contains(value));
    these.map(text).collect::<Vec<_>>().join(" ")
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "unknown".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
