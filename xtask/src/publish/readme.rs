//! The table of published reports.

use super::input::{Input, Kind};
use anyhow::{Context, Result, bail};
use std::path::Path;

const BEGIN: &str = "<!-- published: written by cargo xtask publish-report -->";
const END: &str = "<!-- end of published -->";

/// Architectures that are shown, with why a report of them may be missing.
const ARCHITECTURES: [(&str, &str); 2] = [
    ("x86_64", "pending: no report is published yet"),
    (
        "aarch64",
        "pending hardware: emulation shows correctness, never speed",
    ),
];

/// Writes the table anew from the reports in the folder; the rest of the page stays.
///
/// # Errors
/// When the page cannot be read or written, or has no place for the table.
pub fn update(folder: &Path) -> Result<()> {
    let path = folder.join("README.md");
    let context = || format!("{}", path.display());
    let page = match std::fs::read_to_string(&path) {
        Ok(page) => page,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            format!("# Reports\n\n{BEGIN}\n{END}\n")
        }
        Err(error) => return Err(error).with_context(context),
    };
    let (Some(begin), Some(end)) = (page.find(BEGIN), page.find(END)) else {
        bail!(
            "{} has no lines '{BEGIN}' and '{END}' between which the table belongs",
            path.display()
        );
    };
    let table = table(folder)?;
    let page = format!("{}{BEGIN}\n{table}{}", &page[..begin], &page[end..]);
    std::fs::write(&path, page).with_context(context)
}

fn table(folder: &Path) -> Result<String> {
    let mut text = String::from(
        "| architecture | baseline | calibration | attribution |\n| --- | --- | --- | --- |\n",
    );
    for (architecture, pending) in ARCHITECTURES {
        let mut cells = Vec::new();
        for kind in Kind::ALL {
            let path = folder.join(format!("{architecture}_{}.json", kind.name()));
            cells.push(if path.is_file() {
                published(&Input::read(&path)?)
            } else {
                pending.to_owned()
            });
        }
        text.push_str(&format!("| {architecture} | {} |\n", cells.join(" | ")));
    }
    Ok(text)
}

fn published(input: &Input) -> String {
    let name = input.published_name();
    let head = input.head();
    let commit = head.build.commit.get(..12).unwrap_or_default();
    format!(
        "[page]({name}.html), [data]({name}.json): {}, {} lanes, commit `{commit}`",
        head.processor(),
        head.participants()
    )
}
