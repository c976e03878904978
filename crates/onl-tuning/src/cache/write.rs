//! Rows as text.

use super::{CachedProfile, CachedRow, RowKind};
use crate::CpuSelector;
use onl_cpu::CpuExecutionDescriptor;
use onl_snapshot::{Device, KernelKey, ParameterRow, ParameterValue, SizeDomain};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use toml::{Table, Value};

pub(super) fn write_row(text: &mut String, execution: &str, row: &CachedRow) {
    let _ = writeln!(text, "\n[[choice]]");
    write_key(text, &row.key);
    let _ = writeln!(text, "execution = {}", quoted(execution));
    write_finding(text, row.kind, row.domain, &row.evidence);
    write_unknown(text, &row.unknown);
    let _ = writeln!(text, "[choice.values]");
    write_values(text, &row.values);
}

pub(super) fn write_profile(text: &mut String, profile: &CachedProfile) {
    let _ = writeln!(text, "\n[[profile]]");
    write_key(text, &profile.key);
    let _ = writeln!(text, "priority = {}", profile.priority);
    write_finding(text, profile.kind, profile.domain, &profile.evidence);
    write_unknown(text, &profile.unknown);
    let _ = writeln!(text, "[profile.selector]");
    write_selector(text, &profile.selector);
    let _ = writeln!(text, "[profile.values]");
    write_values(text, &profile.values);
}

fn write_key(text: &mut String, key: &KernelKey) {
    let _ = writeln!(text, "library = {}", quoted(&key.library));
    let _ = writeln!(text, "kernel = {}", quoted(&key.kernel));
    let _ = writeln!(text, "implementation = {}", quoted(&key.implementation));
    let _ = writeln!(text, "element_type = {}", quoted(key.element_type.name()));
    let _ = writeln!(text, "device = {}", quoted(device_name(key.device)));
    let _ = writeln!(text, "revision = {}", key.revision);
}

fn write_finding(text: &mut String, kind: RowKind, domain: SizeDomain, evidence: &str) {
    let bound = |size: u64| match i64::try_from(size) {
        Ok(size) => size.to_string(),
        Err(_) => quoted("unbounded"),
    };
    let _ = writeln!(text, "kind = {}", quoted(kind.name()));
    let _ = writeln!(text, "domain.minimum = {}", bound(domain.minimum));
    let _ = writeln!(text, "domain.maximum = {}", bound(domain.maximum));
    let _ = writeln!(text, "evidence = {}", quoted(evidence));
}

fn write_values(text: &mut String, values: &ParameterRow) {
    for (name, value) in &values.0 {
        let value = match value {
            ParameterValue::Integer(v) => v.to_string(),
            ParameterValue::Float(v) => float(*v),
            ParameterValue::Boolean(v) => v.to_string(),
            ParameterValue::Choice(v) => quoted(v),
        };
        let _ = writeln!(text, "{} = {value}", quoted(name));
    }
}

/// The fields that a selector gives, one a line; equal classes give equal text.
pub(super) fn write_selector(text: &mut String, selector: &CpuSelector) {
    let mut field = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = writeln!(text, "{name} = {value}");
        }
    };
    let name = |value: &Option<String>| value.as_deref().map(quoted);
    let list =
        |values: Vec<String>| (!values.is_empty()).then(|| format!("[{}]", values.join(", ")));
    let names = |values: &BTreeSet<String>| list(values.iter().map(|v| quoted(v)).collect());
    let models: BTreeSet<u32> = selector.models.iter().copied().collect();
    field("architecture", name(&selector.architecture));
    field("vendor", name(&selector.vendor));
    field("family", selector.family.map(|n| n.to_string()));
    field("models", list(models.iter().map(u32::to_string).collect()));
    field("required_features", names(&selector.required_features));
    field("excluded_features", names(&selector.excluded_features));
    let bound = |bound: Option<u32>| bound.map(|n| n.to_string());
    field("minimum_participants", bound(selector.minimum_participants));
    field("maximum_participants", bound(selector.maximum_participants));
    field("smt_used", selector.smt_used.map(|used| used.to_string()));
    field("affinity", name(&selector.affinity));
    field("wait_mode", name(&selector.wait_mode));
    field("quota", name(&selector.quota));
}

pub(super) fn write_execution(text: &mut String, d: &CpuExecutionDescriptor) {
    let _ = writeln!(text, "architecture = {}", quoted(&d.architecture));
    if let Some(vendor) = &d.vendor {
        let _ = writeln!(text, "vendor = {}", quoted(vendor));
    }
    let numbers = [
        ("family", d.family.map(u64::from)),
        ("model", d.model.map(u64::from)),
        ("stepping", d.stepping.map(u64::from)),
        ("l1d_bytes", d.l1d_bytes),
        ("l2_bytes", d.l2_bytes),
        ("physical_cores", d.physical_cores.map(u64::from)),
        ("logical_cores", d.logical_cores.map(u64::from)),
        ("participants", Some(u64::from(d.participants))),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            let _ = writeln!(text, "{name} = {number}");
        }
    }
    let _ = writeln!(text, "smt_used = {}", d.smt_used);
    let _ = writeln!(text, "affinity = {}", quoted(&d.affinity));
    let _ = writeln!(text, "wait_mode = {}", quoted(&d.wait_mode));
    let _ = writeln!(text, "quota = {}", quoted(&d.quota));
    let features: Vec<String> = d.features.iter().map(|f| quoted(f)).collect();
    let _ = writeln!(text, "features = [{}]", features.join(", "));
}

/// Unknown keys as one line each; tables are written inline so that a line stays in its block.
pub(super) fn write_unknown(text: &mut String, table: &Table) {
    let sorted: BTreeMap<_, _> = table.iter().collect();
    for (name, value) in sorted {
        let _ = writeln!(text, "{} = {}", quoted(name), inline(value));
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(v) => quoted(v),
        Value::Integer(v) => v.to_string(),
        Value::Float(v) => float(*v),
        Value::Boolean(v) => v.to_string(),
        Value::Datetime(v) => v.to_string(),
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(inline).collect();
            format!("[{}]", values.join(", "))
        }
        Value::Table(table) => {
            let sorted: BTreeMap<_, _> = table.iter().collect();
            let entries: Vec<String> = sorted
                .into_iter()
                .map(|(name, value)| format!("{} = {}", quoted(name), inline(value)))
                .collect();
            format!("{{ {} }}", entries.join(", "))
        }
    }
}

/// The shortest decimal text that reads back as the same float.
pub(super) fn float(value: f64) -> String {
    if value.is_nan() {
        "nan".to_owned()
    } else {
        format!("{value:?}")
    }
}

/// A TOML basic string.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn device_name(device: Device) -> &'static str {
    match device {
        Device::Cpu => "cpu",
    }
}
