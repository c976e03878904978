//! Rows from parsed blocks.

use super::{CachedLaneCosts, CachedProfile, CachedRow, RowKind};
use crate::CpuSelector;
use crate::identity::execution_id;
use onl_cpu::CpuExecutionDescriptor;
use onl_snapshot::{Device, KernelKey, LaneCosts, ParameterRow, ParameterValue, SizeDomain};
use onl_tensor::ElementType;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use toml::{Table, Value};

/// Typed access to the keys of a block; keys that nothing takes are unknown.
struct Reader(Table);

impl Reader {
    fn optional(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name)
    }

    fn required(&mut self, name: &str) -> Result<Value, String> {
        self.0
            .remove(name)
            .ok_or_else(|| format!("key '{name}' is missing"))
    }

    fn text(&mut self, name: &str) -> Result<String, String> {
        match self.required(name)? {
            Value::String(text) => Ok(text),
            other => Err(format!("key '{name}' must be a string, it is {other}")),
        }
    }

    fn optional_text(&mut self, name: &str) -> Result<Option<String>, String> {
        match self.optional(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(format!("key '{name}' must be a string, it is {other}")),
        }
    }

    /// The entries of a list; none when the key is absent.
    fn list<T>(&mut self, name: &str, read: impl Fn(Value) -> Option<T>) -> Result<Vec<T>, String> {
        match self.optional(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(values)) => values
                .into_iter()
                .map(|value| {
                    let shown = value.to_string();
                    read(value).ok_or_else(|| format!("key '{name}' must not list {shown}"))
                })
                .collect(),
            Some(other) => Err(format!("key '{name}' must be a list, it is {other}")),
        }
    }

    fn boolean(&mut self, name: &str) -> Result<bool, String> {
        match self.required(name)? {
            Value::Boolean(value) => Ok(value),
            other => Err(format!("key '{name}' must be true or false, it is {other}")),
        }
    }

    fn float(&mut self, name: &str) -> Result<f64, String> {
        match self.required(name)? {
            Value::Float(value) if value.is_finite() => Ok(value),
            other => Err(format!(
                "key '{name}' must be a finite float, it is {other}"
            )),
        }
    }

    fn number<T: TryFrom<i64>>(&mut self, name: &str) -> Result<Option<T>, String> {
        let Some(value) = self.optional(name) else {
            return Ok(None);
        };
        value
            .as_integer()
            .and_then(|number| T::try_from(number).ok())
            .map(Some)
            .ok_or_else(|| format!("key '{name}' is {value}, out of range for its type"))
    }

    fn unknown(self, item: &str, report: &mut Vec<String>) -> Table {
        for name in self.0.keys() {
            report.push(format!("key '{name}' of {item}"));
        }
        self.0
    }
}

pub(super) fn read_execution(id: &str, value: Value) -> Result<CpuExecutionDescriptor, String> {
    let Value::Table(table) = value else {
        return Err("it is not a table".to_owned());
    };
    let mut r = Reader(table);
    let features = match r.required("features")? {
        Value::Array(values) => values
            .into_iter()
            .map(|value| match value {
                Value::String(feature) => Ok(feature),
                other => Err(format!("feature {other} is not a string")),
            })
            .collect::<Result<_, _>>()?,
        other => return Err(format!("key 'features' must be a list, it is {other}")),
    };
    let descriptor = CpuExecutionDescriptor {
        architecture: r.text("architecture")?,
        vendor: r.optional_text("vendor")?,
        family: r.number("family")?,
        model: r.number("model")?,
        stepping: r.number("stepping")?,
        features,
        l1d_bytes: r.number("l1d_bytes")?,
        l2_bytes: r.number("l2_bytes")?,
        physical_cores: r.number("physical_cores")?,
        logical_cores: r.number("logical_cores")?,
        participants: r
            .number("participants")?
            .ok_or("key 'participants' is missing")?,
        smt_used: r.boolean("smt_used")?,
        affinity: r.text("affinity")?,
        wait_mode: r.text("wait_mode")?,
        quota: r.text("quota")?,
    };
    // A field that this version does not know may tell apart executions that look equal here.
    if let Some(name) = r.0.keys().next() {
        return Err(format!("field '{name}' is not known to this version"));
    }
    let expected = execution_id(&descriptor);
    if expected != id {
        return Err(format!(
            "its fields give the name {expected}; they were changed by hand or in transit"
        ));
    }
    Ok(descriptor)
}

fn execution_of(
    r: &mut Reader,
    executions: &BTreeMap<String, CpuExecutionDescriptor>,
) -> Result<CpuExecutionDescriptor, String> {
    let id = r.text("execution")?;
    executions
        .get(&id)
        .cloned()
        .ok_or_else(|| format!("the file has no valid execution '{id}'"))
}

pub(super) fn read_lane_costs(
    entry: Table,
    executions: &BTreeMap<String, CpuExecutionDescriptor>,
    item: &str,
    unknown: &mut Vec<String>,
) -> Result<CachedLaneCosts, String> {
    let mut r = Reader(entry);
    let execution = execution_of(&mut r, executions)?;
    let costs = LaneCosts {
        hot_ns: r.float("hot_ns")?,
        cold_ns: r.float("cold_ns")?,
    };
    if costs.hot_ns < 0.0 || costs.cold_ns < 0.0 {
        return Err("lane costs must not be negative".to_owned());
    }
    Ok(CachedLaneCosts {
        execution,
        costs,
        unknown: r.unknown(item, unknown),
    })
}

pub(super) fn read_row(
    entry: Table,
    executions: &BTreeMap<String, CpuExecutionDescriptor>,
    item: &str,
    unknown: &mut Vec<String>,
) -> Result<CachedRow, String> {
    let mut r = Reader(entry);
    let key = read_key(&mut r)?;
    let execution = execution_of(&mut r, executions)?;
    let (kind, domain, evidence) = read_finding(&mut r)?;
    let values = read_values(&mut r)?;
    Ok(CachedRow {
        key,
        execution,
        kind,
        values,
        domain,
        evidence,
        unknown: r.unknown(item, unknown),
    })
}

pub(super) fn read_profile(
    entry: Table,
    item: &str,
    unknown: &mut Vec<String>,
) -> Result<CachedProfile, String> {
    let mut r = Reader(entry);
    let key = read_key(&mut r)?;
    let priority = r.number("priority")?.unwrap_or(0);
    let (kind, domain, evidence) = read_finding(&mut r)?;
    let selector = match r.required("selector")? {
        Value::Table(table) => read_selector(Reader(table))?,
        other => return Err(format!("key 'selector' must be a table, it is {other}")),
    };
    let values = read_values(&mut r)?;
    Ok(CachedProfile {
        key,
        selector,
        priority,
        kind,
        values,
        domain,
        evidence,
        unknown: r.unknown(item, unknown),
    })
}

fn read_key(r: &mut Reader) -> Result<KernelKey, String> {
    let name = |text: String, key: &str| {
        if text.is_empty() {
            Err(format!("key '{key}' is empty"))
        } else {
            Ok(Cow::Owned(text))
        }
    };
    let element_type = r.text("element_type")?;
    Ok(KernelKey {
        library: name(r.text("library")?, "library")?,
        kernel: name(r.text("kernel")?, "kernel")?,
        implementation: name(r.text("implementation")?, "implementation")?,
        element_type: ElementType::from_name(&element_type)
            .ok_or_else(|| format!("element type '{element_type}' is unknown"))?,
        device: match r.text("device")?.as_str() {
            "cpu" => Device::Cpu,
            other => return Err(format!("device '{other}' is unknown")),
        },
        revision: r.number("revision")?.ok_or("key 'revision' is missing")?,
    })
}

fn read_finding(r: &mut Reader) -> Result<(RowKind, SizeDomain, String), String> {
    let kind = r.text("kind")?;
    let kind = RowKind::from_name(&kind).ok_or_else(|| format!("kind '{kind}' is unknown"))?;
    let domain = match r.required("domain")? {
        Value::Table(table) => read_domain(Reader(table))?,
        other => return Err(format!("key 'domain' must be a table, it is {other}")),
    };
    let evidence = r.text("evidence")?;
    if evidence.len() != 64 || !evidence.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(format!("'{evidence}' is not a SHA-256 digest"));
    }
    Ok((kind, domain, evidence))
}

fn read_values(r: &mut Reader) -> Result<ParameterRow, String> {
    match r.required("values")? {
        Value::Table(table) => table
            .into_iter()
            .map(|(name, value)| match value {
                Value::Integer(v) => Ok((name, ParameterValue::Integer(v))),
                Value::Float(v) if v.is_finite() => Ok((name, ParameterValue::Float(v))),
                Value::Boolean(v) => Ok((name, ParameterValue::Boolean(v))),
                Value::String(v) => Ok((name, ParameterValue::Choice(v))),
                other => Err(format!("value '{name}' = {other} has no legal type")),
            })
            .collect::<Result<_, _>>()
            .map(ParameterRow),
        other => Err(format!("key 'values' must be a table, it is {other}")),
    }
}

fn read_selector(mut r: Reader) -> Result<CpuSelector, String> {
    let mut models = r.list("models", |value| {
        value.as_integer().and_then(|n| u32::try_from(n).ok())
    })?;
    models.sort_unstable();
    let names = |value: Value| match value {
        Value::String(name) => Some(name),
        _ => None,
    };
    let selector = CpuSelector {
        architecture: r.optional_text("architecture")?,
        vendor: r.optional_text("vendor")?,
        family: r.number("family")?,
        models,
        required_features: BTreeSet::from_iter(r.list("required_features", names)?),
        excluded_features: BTreeSet::from_iter(r.list("excluded_features", names)?),
        minimum_participants: r.number("minimum_participants")?,
        maximum_participants: r.number("maximum_participants")?,
        smt_used: match r.optional("smt_used") {
            None => None,
            Some(Value::Boolean(used)) => Some(used),
            Some(other) => {
                return Err(format!(
                    "key 'selector.smt_used' must be true or false, it is {other}"
                ));
            }
        },
        affinity: r.optional_text("affinity")?,
        wait_mode: r.optional_text("wait_mode")?,
        quota: r.optional_text("quota")?,
    };
    if let Some(name) = r.0.keys().next() {
        return Err(format!(
            "key 'selector.{name}' is unknown and may restrict the profile"
        ));
    }
    selector.check()?;
    Ok(selector)
}

fn read_domain(mut r: Reader) -> Result<SizeDomain, String> {
    let minimum: u64 = r
        .number("minimum")?
        .ok_or("key 'domain.minimum' is missing")?;
    let maximum = match r.required("maximum")? {
        Value::String(text) if text == "unbounded" => u64::MAX,
        Value::Integer(size) if size >= 0 => size.unsigned_abs(),
        other => {
            return Err(format!(
                "key 'domain.maximum' must be a size or \"unbounded\", it is {other}"
            ));
        }
    };
    if minimum > maximum {
        return Err(format!("domain {minimum} to {maximum} is inverted"));
    }
    if let Some(name) = r.0.keys().next() {
        return Err(format!(
            "key 'domain.{name}' is unknown and may restrict the row"
        ));
    }
    Ok(SizeDomain { minimum, maximum })
}
