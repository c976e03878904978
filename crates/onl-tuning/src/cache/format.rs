//! The text of `choices.toml`.
//!
//! The text is a sequence of blocks, each a small TOML document of its own: the head with the format version, one
//! `[execution.ID]` per execution identity, one `[[lane_costs]]` per measured identity, one `[[choice]]` per row, one
//! `[[profile]]` per row for a class of processors. A block that is not valid TOML therefore voids itself alone. Blocks
//! and keys are sorted and the text holds no times and no host names, so equal contents give equal bytes. Blocks of a
//! later version stand last, as they were.

use super::folder::{FileState, VoidRow};
use super::read::{read_execution, read_lane_costs, read_profile, read_row};
use super::write::{float, quoted, write_execution, write_profile, write_row, write_unknown};
use super::{CachedLaneCosts, CachedProfile, CachedRow};
use crate::identity::execution_id;
use onl_cpu::CpuExecutionDescriptor;
use onl_snapshot::KernelKey;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use toml::{Table, Value};

/// Version of the format that this crate writes, and the newest that it reads.
pub const FORMAT_VERSION: i64 = 1;

/// Contents of `choices.toml`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Choices {
    /// Rows, at most one per kernel and execution.
    pub rows: Vec<CachedRow>,
    /// Imported rows for classes of processors, at most one per kernel, class and priority.
    pub profiles: Vec<CachedProfile>,
    /// Lane costs, at most one per execution.
    pub lane_costs: Vec<CachedLaneCosts>,
    /// Keys of the head that this version does not know.
    pub unknown_head: Table,
    /// Blocks that this version does not know, in their order.
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
        let slots: HashSet<_> = rows.iter().map(CachedRow::slot).collect();
        self.rows.retain(|other| !slots.contains(&other.slot()));
        for (i, row) in rows.iter().enumerate() {
            // The last of several for one slot stays.
            if rows[i + 1..].iter().all(|later| later.slot() != row.slot()) {
                self.rows.push(row.clone());
            }
        }
        for costs in lane_costs {
            self.lane_costs
                .retain(|other| other.execution != costs.execution);
            self.lane_costs.push(costs.clone());
        }
    }

    /// Adds profiles; each replaces what the file had for its kernel, class and priority.
    pub fn merge_profiles(&mut self, profiles: &[CachedProfile]) {
        for profile in profiles {
            let mut profile = profile.clone();
            profile.selector.models.sort_unstable();
            let slot = profile.slot();
            self.profiles.retain(|other| other.slot() != slot);
            self.profiles.push(profile);
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

        let mut profiles: Vec<_> = self.profiles.iter().map(|p| (p.slot(), p)).collect();
        profiles.sort_by(|a, b| a.0.cmp(&b.0));
        for (_, profile) in profiles {
            write_profile(&mut text, profile);
        }

        for block in &self.unknown_blocks {
            let _ = write!(text, "\n{}\n", block.trim());
        }
        text
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

/// Cuts a text before every line that opens a top-level block in its first column.
fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let (mut start, mut start_line, mut offset) = (0, 1, 0);
    for (i, line) in text.split_inclusive('\n').enumerate() {
        let within = ["[choice.", "[profile."];
        let opens = line.starts_with('[') && !within.iter().any(|name| line.starts_with(name));
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
        // More than one only where a header is indented.
        let alone = table.len() == 1;
        for (name, value) in table {
            match (name.as_str(), value) {
                ("execution", Value::Table(tables)) => {
                    for (id, value) in tables {
                        match read_execution(&id, value) {
                            Ok(execution) => {
                                executions.insert(id, execution);
                            }
                            Err(reason) => void(format!("execution {id}"), reason),
                        }
                    }
                }
                ("lane_costs" | "choice" | "profile", Value::Array(entries)) => {
                    for entry in entries {
                        match entry {
                            Value::Table(entry) => waiting.push((block.line, name.clone(), entry)),
                            _ => void(header.to_owned(), "it is not a table".to_owned()),
                        }
                    }
                }
                ("lane_costs" | "choice" | "profile" | "execution", _) => {
                    void(header.to_owned(), "it is not written as a table".to_owned());
                }
                (_, value) => {
                    let text = if alone {
                        block.text.trim().to_owned()
                    } else {
                        Table::from_iter([(name.clone(), value)]).to_string()
                    };
                    let line = block.line;
                    parsed
                        .unknown
                        .push(format!("block '{name}' at line {line}"));
                    parsed.choices.unknown_blocks.push(text);
                }
            }
        }
    }
    let (mut slots, mut profile_slots) = (HashSet::new(), HashSet::new());
    for (line, name, entry) in waiting {
        let item = describe(&name, &entry);
        // Of a row that is void nothing is kept.
        let mut unknown = Vec::new();
        let result = if name == "choice" {
            read_row(entry, &executions, &item, &mut unknown).and_then(|row| {
                if !slots.insert(row.slot()) {
                    return Err("an earlier row is for the same kernel and execution".to_owned());
                }
                parsed.choices.rows.push(row);
                Ok(())
            })
        } else if name == "profile" {
            read_profile(entry, &item, &mut unknown).and_then(|profile| {
                if !profile_slots.insert(profile.slot()) {
                    return Err(
                        "an earlier profile is for the same kernel, class and priority".to_owned(),
                    );
                }
                parsed.choices.profiles.push(profile);
                Ok(())
            })
        } else {
            read_lane_costs(entry, &executions, &item, &mut unknown).and_then(|costs| {
                let list = &mut parsed.choices.lane_costs;
                if list.iter().any(|c| c.execution == costs.execution) {
                    return Err("an earlier entry is for the same execution".to_owned());
                }
                list.push(costs);
                Ok(())
            })
        };
        match result {
            Ok(()) => parsed.unknown.append(&mut unknown),
            Err(reason) => parsed.void.push(VoidRow { line, item, reason }),
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
    if block == "choice" || block == "profile" {
        format!(
            "{block} {}/{}/{}/{}",
            part("library"),
            part("kernel"),
            part("implementation"),
            part("element_type")
        )
    } else {
        format!("{block} {}", part("execution"))
    }
}
