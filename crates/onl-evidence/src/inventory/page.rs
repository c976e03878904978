//! The inventory as a page for people.

use super::{Inventory, InventoryImplementation, InventoryRow, SerialReason};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The inventory as Markdown: paths with parameters by the values that these have, serial ones by category; paths that
/// differ in nothing but their element type are one line.
pub fn markdown(inventory: &Inventory) -> String {
    let mut page = String::new();
    // Writing to a string does not fail.
    let _ = write(inventory, &mut page);
    page
}

/// What paths of one line have in common.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    regions: String,
    operator: String,
    state: String,
    implementations: Vec<(String, u32)>,
    opsets: Vec<String>,
    reason: Option<(String, String)>,
}

impl Line {
    fn of(row: &InventoryRow) -> Self {
        let mut implementations: Vec<(String, u32)> = row
            .implementations
            .iter()
            .map(|i| (i.name.clone(), i.revision))
            .collect();
        implementations.dedup();
        let mut ranges: Vec<&InventoryImplementation> = row.implementations.iter().collect();
        ranges.sort_by_key(|i| i.first_opset);
        Line {
            regions: row.regions.join(", "),
            operator: if row.domain == "ai.onnx" {
                row.op_type.clone()
            } else {
                format!("{}:{}", row.domain, row.op_type)
            },
            state: row.state.clone(),
            implementations,
            opsets: ranges.into_iter().map(opsets).collect(),
            reason: row
                .serial_reason
                .as_ref()
                .map(|r| (r.category.clone(), sentence(r))),
        }
    }

    fn implementation(&self) -> String {
        let words = self
            .implementations
            .iter()
            .map(|(name, revision)| format!("{name} r{revision}"));
        words.collect::<Vec<_>>().join(", ")
    }
}

fn opsets(implementation: &InventoryImplementation) -> String {
    let first = implementation.first_opset;
    match implementation.last_opset {
        None => format!("{first}+"),
        Some(last) if last == first => first.to_string(),
        Some(last) => format!("{first}–{last}"),
    }
}

fn sentence(reason: &SerialReason) -> String {
    match (&reason.evidence, reason.look_again_elements) {
        (Some(evidence), Some(elements)) => format!(
            "{} Evidence: {evidence}; look again from {elements} elements.",
            reason.reason
        ),
        _ => reason.reason.clone(),
    }
}

/// Lines with their element types, in the order in which the table lists them.
type Lines = BTreeMap<Line, Vec<String>>;

fn write(inventory: &Inventory, page: &mut String) -> std::fmt::Result {
    writeln!(page, "# Kernel inventory\n")?;
    writeln!(
        page,
        "Every path of a kernel: an operator for an element type on the processor, and how far tuning covers it. Values are the\n\
         portable defaults. `onl inventory --markdown` prints this page; `onl inventory` shows the values that this machine\n\
         resolves, and `onl inventory --verify` proves the states by observation.\n"
    )?;
    writeln!(page, "| State | Paths | Meaning |\n| --- | ---: | --- |")?;
    for (state, count) in &inventory.states {
        writeln!(page, "| {state} | {count} | {} |", meaning(state))?;
    }
    let total: usize = inventory.states.values().sum();
    writeln!(page, "| all | {total} | |\n")?;
    let mut families: BTreeMap<Vec<(String, String)>, Lines> = BTreeMap::new();
    let mut serial: BTreeMap<String, Lines> = BTreeMap::new();
    for row in &inventory.paths {
        let line = Line::of(row);
        let lines = match &row.serial_reason {
            Some(reason) => serial.entry(reason.category.clone()).or_default(),
            None => {
                let values = row.parameters.iter();
                let values = values.map(|p| (p.name.clone(), p.value.clone()));
                families.entry(values.collect()).or_default()
            }
        };
        lines
            .entry(line)
            .or_default()
            .push(row.element_type.clone());
    }
    writeln!(page, "## With parameters\n")?;
    writeln!(
        page,
        "By the values of the parameters. Regions have the names of [profiles and reports](profiling.md).\n"
    )?;
    for (values, lines) in &families {
        let values = values
            .iter()
            .map(|(name, value)| format!("`{name}` = {value}"));
        writeln!(page, "{}\n", values.collect::<Vec<_>>().join(", "))?;
        writeln!(
            page,
            "| Regions | Operator | Element types | State | Operator sets | Implementation |"
        )?;
        writeln!(page, "| --- | --- | --- | --- | --- | --- |")?;
        for (line, element_types) in lines {
            writeln!(
                page,
                "| {} | {} | {} | {} | {} | {} |",
                line.regions,
                line.operator,
                element_types.join(" "),
                line.state,
                line.opsets.join(", "),
                line.implementation()
            )?;
        }
        writeln!(page)?;
    }
    writeln!(page, "## Serial\n")?;
    for (category, lines) in &serial {
        writeln!(page, "### {category}\n")?;
        writeln!(
            page,
            "| Operator | Element types | Operator sets | Implementation | Reason |"
        )?;
        writeln!(page, "| --- | --- | --- | --- | --- |")?;
        for (line, element_types) in lines {
            writeln!(
                page,
                "| {} | {} | {} | {} | {} |",
                line.operator,
                element_types.join(" "),
                line.opsets.join(", "),
                line.implementation(),
                line.reason.as_ref().map_or("", |(_, sentence)| sentence)
            )?;
        }
        writeln!(page)?;
    }
    writeln!(page, "## Parameters\n")?;
    writeln!(page, "| Name | Unit | Meaning |\n| --- | --- | --- |")?;
    let parameters = inventory.paths.iter().flat_map(|row| &row.parameters);
    let parameters: BTreeMap<(&str, &str), &str> = parameters
        .map(|p| ((p.name.as_str(), p.meaning.as_str()), p.unit.as_str()))
        .collect();
    for ((name, meaning), unit) in parameters {
        writeln!(page, "| `{name}` | {unit} | {meaning} |")?;
    }
    Ok(())
}

fn meaning(state: &str) -> &'static str {
    match state {
        "serial" => "No parallel form, for the reason given.",
        "tunable" => "Parallel; everything that it chooses has a name and a default.",
        "calibratable" => "Tunable, and `onl tune-kernels` measures its choices.",
        _ => "",
    }
}
