//! The text of `choices.toml`.
//!
//! The text is a sequence of blocks, each a small TOML document of its own: the head with the format version, one
//! `[execution.ID]` per execution identity, one `[[lane_costs]]` per measured identity, one `[[choice]]` per row. A
//! block that is not valid TOML therefore voids itself alone. Blocks and keys are sorted and the text holds no times and
//! no host names, so equal contents give equal bytes.

use super::folder::{FileState, VoidRow};
use super::{CachedLaneCosts, CachedRow, RowKind};
use crate::identity::execution_id;
use onl_cpu::CpuExecutionDescriptor;
use onl_snapshot::{Device, KernelKey, LaneCosts, ParameterRow, ParameterValue, SizeDomain};
use onl_tensor::ElementType;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use toml::{Table, Value};

/// Version of the format that this crate writes, and the newest that it reads.
pub const FORMAT_VERSION: i64 = 1;

/// Contents of `choices.toml`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Choices {
    /// Rows, at most one per kernel and execution.
    pub rows: Vec<CachedRow>,
    /// Lane costs, at most one per execution.
    pub lane_costs: Vec<CachedLaneCosts>,
    /// Keys of the head that this version does not know.
    pub unknown_head: Table,
    /// Blocks that this version does not know, verbatim.
    pub unknown_blocks: Vec<String>,
}

impl Choices {
    /// The row of a kernel under an execution identity.
    pub fn row(&self, key: &KernelKey, execution: &CpuExecutionDescriptor) -> Option<&CachedRow> {
        self.rows
            .iter()
            .find(|row| row.key == *key && row.execution == *execution)
    }

    /// Adds rows and lane costs; each replaces what the file had for its kernel and execution.
    pub fn merge(&mut self, rows: &[CachedRow], lane_costs: &[CachedLaneCosts]) {
        for row in rows {
            let slot = row.slot();
            self.rows.retain(|other| other.slot() != slot);
            self.rows.push(row.clone());
        }
        for costs in lane_costs {
            self.lane_costs
                .retain(|other| other.execution != costs.execution);
            self.lane_costs.push(costs.clone());
        }
    }

    /// The text of these contents; equal contents in any order give equal bytes.
    pub fn render(&self) -> String {
        let mut text = format!("format = {FORMAT_VERSION}\n");
        write_unknown(&mut text, &self.unknown_head);

        let executions: BTreeMap<String, &CpuExecutionDescriptor> = self
            .rows
            .iter()
            .map(|row| &row.execution)
            .chain(self.lane_costs.iter().map(|costs| &costs.execution))
            .map(|execution| (execution_id(execution), execution))
            .collect();
        for (id, execution) in &executions {
            let _ = writeln!(text, "\n[execution.{id}]");
            write_execution(&mut text, execution);
        }

        let mut costs: Vec<_> = self
            .lane_costs
            .iter()
            .map(|costs| (execution_id(&costs.execution), costs))
            .collect();
        costs.sort_by(|a, b| a.0.cmp(&b.0));
        for (id, costs) in costs {
            let _ = writeln!(text, "\n[[lane_costs]]\nexecution = {}", quoted(&id));
            let _ = writeln!(text, "hot_ns = {}", float(costs.costs.hot_ns));
            let _ = writeln!(text, "cold_ns = {}", float(costs.costs.cold_ns));
            write_unknown(&mut text, &costs.unknown);
        }

        let mut rows: Vec<_> = self.rows.iter().map(|row| (row.slot(), row)).collect();
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        for ((_, id), row) in rows {
            write_row(&mut text, &id, row);
        }

        let mut blocks = self.unknown_blocks.clone();
        blocks.sort();
        blocks.dedup();
        for block in blocks {
            let _ = write!(text, "\n{}\n", block.trim());
        }
        text
    }
}

fn write_row(text: &mut String, execution: &str, row: &CachedRow) {
    let key = &row.key;
    let _ = writeln!(text, "\n[[choice]]");
    let _ = writeln!(text, "library = {}", quoted(&key.library));
    let _ = writeln!(text, "kernel = {}", quoted(&key.kernel));
    let _ = writeln!(text, "implementation = {}", quoted(&key.implementation));
    let _ = writeln!(text, "element_type = {}", quoted(key.element_type.name()));
    let _ = writeln!(text, "device = {}", quoted(device_name(key.device)));
    let _ = writeln!(text, "revision = {}", key.revision);
    let _ = writeln!(text, "execution = {}", quoted(execution));
    let _ = writeln!(text, "kind = {}", quoted(row.kind.name()));
    let bound = |size: u64| match i64::try_from(size) {
        Ok(size) => size.to_string(),
        Err(_) => quoted("unbounded"),
    };
    let _ = writeln!(text, "domain.minimum = {}", bound(row.domain.minimum));
    let _ = writeln!(text, "domain.maximum = {}", bound(row.domain.maximum));
    let _ = writeln!(text, "evidence = {}", quoted(&row.evidence));
    write_unknown(text, &row.unknown);
    let _ = writeln!(text, "[choice.values]");
    for (name, value) in &row.values.0 {
        let value = match value {
            ParameterValue::Integer(v) => v.to_string(),
            ParameterValue::Float(v) => float(*v),
            ParameterValue::Boolean(v) => v.to_string(),
            ParameterValue::Choice(v) => quoted(v),
        };
        let _ = writeln!(text, "{} = {value}", quoted(name));
    }
}

fn write_execution(text: &mut String, d: &CpuExecutionDescriptor) {
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
fn write_unknown(text: &mut String, table: &Table) {
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
fn float(value: f64) -> String {
    if value.is_nan() {
        "nan".to_owned()
    } else {
        format!("{value:?}")
    }
}

/// A TOML basic string.
fn quoted(text: &str) -> String {
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

/// What reading a text gave.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    pub choices: Choices,
    pub state: FileState,
    pub void: Vec<VoidRow>,
    pub unknown: Vec<String>,
}

struct Block<'a> {
    line: usize,
    text: &'a str,
}

/// Cuts a text before every line that opens a top-level block.
fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let (mut start, mut start_line, mut offset) = (0, 1, 0);
    for (i, line) in text.split_inclusive('\n').enumerate() {
        let opens = line.starts_with('[') && !line.starts_with("[choice.");
        if opens && offset > start {
            blocks.push(Block {
                line: start_line,
                text: &text[start..offset],
            });
            (start, start_line) = (offset, i + 1);
        }
        offset += line.len();
    }
    blocks.push(Block {
        line: start_line,
        text: &text[start..],
    });
    blocks
}

/// Reads a text; what cannot be read is reported, nothing fails.
pub(super) fn parse(text: &str) -> Parsed {
    let mut parsed = Parsed::default();
    let blocks = blocks(text);
    let (head, blocks) = blocks.split_first().expect("a text has a first block");
    match read_head(head.text) {
        Ok(unknown) => {
            for name in unknown.keys() {
                parsed.unknown.push(format!("key '{name}' of the head"));
            }
            parsed.choices.unknown_head = unknown;
        }
        Err(state) => {
            parsed.state = state;
            return parsed;
        }
    }
    parsed.state = FileState::Read;

    let mut executions = BTreeMap::new();
    let mut waiting = Vec::new();
    for block in blocks {
        let mut void = |item: String, reason: String| {
            parsed.void.push(VoidRow {
                line: block.line,
                item,
                reason,
            });
        };
        let header = block.text.lines().next().unwrap_or("").trim();
        let table: Table = match block.text.parse() {
            Ok(table) => table,
            Err(error) => {
                void(header.to_owned(), one_line(&error.to_string()));
                continue;
            }
        };
        let Some((name, value)) = table.into_iter().next() else {
            continue;
        };
        match (name.as_str(), value) {
            ("execution", Value::Table(tables)) => {
                for (id, value) in tables {
                    match read_execution(&id, value, &mut parsed.unknown) {
                        Ok(execution) => {
                            executions.insert(id, execution);
                        }
                        Err(reason) => void(format!("execution {id}"), reason),
                    }
                }
            }
            ("lane_costs" | "choice", Value::Array(entries)) => {
                for entry in entries {
                    match entry {
                        Value::Table(entry) => waiting.push((block.line, name.clone(), entry)),
                        _ => void(header.to_owned(), "it is not a table".to_owned()),
                    }
                }
            }
            ("lane_costs" | "choice" | "execution", _) => {
                void(header.to_owned(), "it is not written as a table".to_owned());
            }
            _ => {
                parsed
                    .unknown
                    .push(format!("block '{header}' at line {}", block.line));
                parsed
                    .choices
                    .unknown_blocks
                    .push(block.text.trim().to_owned());
            }
        }
    }
    for (line, name, entry) in waiting {
        let item = describe(&name, &entry);
        let result = if name == "choice" {
            read_row(entry, &executions, &item, &mut parsed.unknown).and_then(|row| {
                let slot = row.slot();
                if parsed.choices.rows.iter().any(|r| r.slot() == slot) {
                    return Err("an earlier row is for the same kernel and execution".to_owned());
                }
                parsed.choices.rows.push(row);
                Ok(())
            })
        } else {
            read_lane_costs(entry, &executions, &item, &mut parsed.unknown).and_then(|costs| {
                let list = &mut parsed.choices.lane_costs;
                if list.iter().any(|c| c.execution == costs.execution) {
                    return Err("an earlier entry is for the same execution".to_owned());
                }
                list.push(costs);
                Ok(())
            })
        };
        if let Err(reason) = result {
            parsed.void.push(VoidRow { line, item, reason });
        }
    }
    parsed.void.sort_by_key(|row| row.line);
    parsed
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn read_head(text: &str) -> Result<Table, FileState> {
    let corrupt = |reason: String| FileState::Corrupt { reason };
    let mut table: Table = text
        .parse()
        .map_err(|e: toml::de::Error| corrupt(one_line(&e.to_string())))?;
    match table.remove("format") {
        Some(Value::Integer(FORMAT_VERSION)) => Ok(table),
        Some(Value::Integer(version)) if version > FORMAT_VERSION => {
            Err(FileState::NewerFormat { version })
        }
        Some(value) => Err(corrupt(format!("'format' is {value}, expected 1"))),
        None => Err(corrupt("the first key 'format' is missing".to_owned())),
    }
}

fn describe(block: &str, entry: &Table) -> String {
    let part = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or("?");
    if block == "choice" {
        format!(
            "choice {}/{}/{}/{}",
            part("library"),
            part("kernel"),
            part("implementation"),
            part("element_type")
        )
    } else {
        format!("{block} {}", part("execution"))
    }
}

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

fn read_execution(
    id: &str,
    value: Value,
    unknown: &mut Vec<String>,
) -> Result<CpuExecutionDescriptor, String> {
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
        vendor: match r.optional("vendor") {
            None => None,
            Some(Value::String(vendor)) => Some(vendor),
            Some(other) => return Err(format!("key 'vendor' must be a string, it is {other}")),
        },
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
    let rest = r.unknown(&format!("execution {id}"), unknown);
    if let Some(name) = rest.keys().next() {
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

fn read_lane_costs(
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

fn read_row(
    entry: Table,
    executions: &BTreeMap<String, CpuExecutionDescriptor>,
    item: &str,
    unknown: &mut Vec<String>,
) -> Result<CachedRow, String> {
    let mut r = Reader(entry);
    let name = |text: String, key: &str| {
        if text.is_empty() {
            Err(format!("key '{key}' is empty"))
        } else {
            Ok(Cow::Owned(text))
        }
    };
    let element_type = r.text("element_type")?;
    let key = KernelKey {
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
    };
    let execution = execution_of(&mut r, executions)?;
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
    let values = match r.required("values")? {
        Value::Table(table) => table
            .into_iter()
            .map(|(name, value)| match value {
                Value::Integer(v) => Ok((name, ParameterValue::Integer(v))),
                Value::Float(v) if v.is_finite() => Ok((name, ParameterValue::Float(v))),
                Value::Boolean(v) => Ok((name, ParameterValue::Boolean(v))),
                Value::String(v) => Ok((name, ParameterValue::Choice(v))),
                other => Err(format!("value '{name}' = {other} has no legal type")),
            })
            .collect::<Result<_, _>>()?,
        other => return Err(format!("key 'values' must be a table, it is {other}")),
    };
    Ok(CachedRow {
        key,
        execution,
        kind,
        values: ParameterRow(values),
        domain,
        evidence,
        unknown: r.unknown(item, unknown),
    })
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
