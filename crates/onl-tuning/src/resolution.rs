//! Resolution: which of the profiles of a kernel applies to an execution identity.
//!
//! Order: session override, exact execution, exact processor, most specific selector, instruction set, portable
//! default. Among selectors the more specific one comes first, then the one of higher priority.

use crate::identity::{execution_differences, execution_id, processor_differences};
use crate::{ProcessorIdentity, ProfileRow, ProfileScope};
use onl_cpu::CpuExecutionDescriptor;
use onl_snapshot::{KernelKey, ParameterRow, ResolvedRow, Schema, SizeDomain, ValueSource};
use std::cmp::Ordering;

/// A row that resolution looked at and did not take.
#[derive(Debug, Clone, PartialEq)]
pub struct RejectedRow {
    /// Rank of the row.
    pub source: ValueSource,
    /// Where the row comes from.
    pub origin: String,
    /// Why it was not taken.
    pub reason: String,
}

/// How a key resolves for an execution identity.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The key.
    pub key: KernelKey,
    /// Name of the execution identity.
    pub execution: String,
    /// The row that applies.
    pub row: ResolvedRow,
    /// Where the row comes from.
    pub origin: String,
    /// The portable defaults, which apply outside the row's domain.
    pub defaults: ParameterRow,
    /// Rows that do not apply, most specific first.
    pub rejected: Vec<RejectedRow>,
}

/// Why a row is not for an execution identity; `None` when it is.
pub(crate) fn mismatch(
    scope: &ProfileScope,
    descriptor: &CpuExecutionDescriptor,
) -> Option<String> {
    let listed = |fields: Vec<String>| (!fields.is_empty()).then(|| fields.join("; "));
    match scope {
        ProfileScope::Execution(saved) if **saved == *descriptor => None,
        ProfileScope::Execution(saved) => listed(execution_differences(saved, descriptor)),
        ProfileScope::Processor(saved) => {
            let here = ProcessorIdentity::of(descriptor);
            listed(processor_differences(saved, &here))
        }
        ProfileScope::Selector { selector, .. } => selector.mismatch(descriptor),
    }
}

/// Most preferred first. Registration made sure that no two selectors that can match together compare equal.
fn preference(a: &ProfileRow, b: &ProfileRow) -> Ordering {
    a.scope
        .source()
        .cmp(&b.scope.source())
        .then_with(|| match (&a.scope, &b.scope) {
            (
                ProfileScope::Selector {
                    selector: x,
                    priority: p,
                },
                ProfileScope::Selector {
                    selector: y,
                    priority: q,
                },
            ) => (y.specificity(), q).cmp(&(x.specificity(), p)),
            _ => Ordering::Equal,
        })
}

/// The row that applies, without a list of the others.
pub(crate) fn resolve(
    schema: &Schema,
    session_override: Option<&ParameterRow>,
    profiles: &[ProfileRow],
    descriptor: &CpuExecutionDescriptor,
) -> (ResolvedRow, String) {
    if let Some(values) = session_override {
        let row = ResolvedRow {
            values: values.clone(),
            source: ValueSource::Override,
            domain: SizeDomain::ALL,
        };
        return (row, "session override".to_owned());
    }
    let best = profiles
        .iter()
        .filter(|row| mismatch(&row.scope, descriptor).is_none())
        .min_by(|a, b| preference(a, b));
    match best {
        Some(row) => (
            ResolvedRow {
                values: row.values.clone(),
                source: row.scope.source(),
                domain: row.domain,
            },
            row.origin.clone(),
        ),
        None => (
            ResolvedRow {
                values: schema.defaults(),
                source: ValueSource::PortableDefault,
                domain: SizeDomain::ALL,
            },
            "schema".to_owned(),
        ),
    }
}

/// The row that applies and why every other one does not.
pub(crate) fn explain(
    key: &KernelKey,
    schema: &Schema,
    session_override: Option<&ParameterRow>,
    profiles: &[ProfileRow],
    descriptor: &CpuExecutionDescriptor,
) -> Explanation {
    let (row, origin) = resolve(schema, session_override, profiles, descriptor);
    let mut ordered: Vec<&ProfileRow> = profiles.iter().collect();
    ordered.sort_by(|a, b| preference(a, b));
    let mut taken = row.source == ValueSource::Override;
    let mut rejected = Vec::new();
    for candidate in ordered {
        let reason = match mismatch(&candidate.scope, descriptor) {
            Some(reason) => reason,
            None if taken => format!("a more specific row applies ({})", row.source),
            None => {
                taken = true;
                continue;
            }
        };
        rejected.push(RejectedRow {
            source: candidate.scope.source(),
            origin: candidate.origin.clone(),
            reason,
        });
    }
    if row.source != ValueSource::PortableDefault {
        rejected.push(RejectedRow {
            source: ValueSource::PortableDefault,
            origin: "schema".to_owned(),
            reason: format!("a more specific row applies ({})", row.source),
        });
    }
    Explanation {
        key: key.clone(),
        execution: execution_id(descriptor),
        row,
        origin,
        defaults: schema.defaults(),
        rejected,
    }
}
