//! The table of cases in which other tuners failed their users: every case is there, and every test that it names exists.

use crate::process;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The table, from the root of the workspace.
const TABLE: &str = "docs/tuning-cases.md";
/// Number of cases.
const CASES: u32 = 60;
/// How a row begins that names no test.
const CANNOT_OCCUR: &str = "Cannot occur: ";

/// Checks the table of this workspace.
pub fn check_workspace() -> Result<()> {
    let root = process::workspace();
    let path = root.join(TABLE);
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let (tests, problems) = check(&root, &text);
    for problem in &problems {
        eprintln!("{problem}");
    }
    if !problems.is_empty() {
        bail!("{TABLE} is wrong in {} places", problems.len());
    }
    println!("{CASES} cases are covered; {tests} tests exist");
    Ok(())
}

/// Number of distinct tests that a table names, and what is wrong with it.
fn check(root: &Path, table: &str) -> (usize, Vec<String>) {
    let mut problems = Vec::new();
    let mut files: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut tests = BTreeMap::new();
    let mut expected = 1;
    for line in table.lines() {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').collect();
        let Ok(number) = cells[0].trim().parse::<u32>() else {
            continue;
        };
        if number != expected {
            problems.push(format!("case {expected} is followed by case {number}"));
        }
        expected = number + 1;
        let [_, failure, behaviour, evidence] = cells.as_slice() else {
            problems.push(format!(
                "case {number} has {} cells, 4 are needed: number, failure, behaviour, tests",
                cells.len()
            ));
            continue;
        };
        if failure.trim().is_empty() || behaviour.trim().is_empty() {
            problems.push(format!("case {number} has an empty cell"));
        }
        let names = test_names(evidence);
        if names.is_empty() && !evidence.trim().starts_with(CANNOT_OCCUR) {
            problems.push(format!(
                "case {number} names no test as `path/file.rs::name` and does not say '{CANNOT_OCCUR}' with the reason"
            ));
        }
        for (file, name) in names {
            let text = files
                .entry(file.to_owned())
                .or_insert_with(|| fs::read_to_string(root.join(file)).ok());
            let found = match text {
                None => Err(format!("case {number}: {file} does not exist")),
                Some(text) if has_test(text, name) => Ok(()),
                Some(_) => Err(format!("case {number}: {file} has no test '{name}'")),
            };
            match found {
                Ok(()) => {
                    tests.insert((file.to_owned(), name.to_owned()), ());
                }
                Err(problem) => problems.push(problem),
            }
        }
    }
    if expected != CASES + 1 {
        problems.push(format!(
            "the table ends after case {}, there are {CASES}",
            expected - 1
        ));
    }
    (tests.len(), problems)
}

/// File and name of every `path/file.rs::name` between backticks.
fn test_names(cell: &str) -> Vec<(&str, &str)> {
    let quoted = cell.split('`').skip(1).step_by(2);
    quoted
        .filter_map(|word| {
            word.split_once(".rs::").map(|(file, name)| {
                let file = &word[..file.len() + ".rs".len()];
                (file, name)
            })
        })
        .collect()
}

/// Whether a source file has a function of this name with the attribute `#[test]`.
fn has_test(text: &str, name: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let start = format!("fn {name}(");
    lines.iter().enumerate().any(|(at, line)| {
        line.starts_with(&start)
            && lines[..at]
                .iter()
                .rev()
                .take_while(|line| line.starts_with("#[") || line.starts_with("//"))
                .any(|line| *line == "#[test]")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(change: impl Fn(u32) -> Option<String>) -> String {
        let mut text =
            "| case | failure | behaviour | tests |\n| --- | --- | --- | --- |\n".to_owned();
        for number in 1..=CASES {
            let row =
                || format!("| {number} | A hang. | It ends. | Cannot occur: nothing waits. |\n");
            text += &change(number).unwrap_or_else(row);
        }
        text
    }

    fn problems(text: &str) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        let source = "#[test]\nfn plain() {}\nfn helper() {}\nproptest! {\n    #[test]\n    // Why.\n    #[ignore]\n    fn \
                      drawn(x in 0..1) {}\n}\n";
        fs::write(root.path().join("a.rs"), source).unwrap();
        check(root.path(), text).1
    }

    #[test]
    fn complete_tables_pass() {
        assert_eq!(problems(&table(|_| None)), [""; 0]);
        let named = table(|n| {
            (n == 7).then(|| "| 7 | a | b | `a.rs::plain`, `a.rs::drawn` |\n".to_owned())
        });
        assert_eq!(problems(&named), [""; 0]);
    }

    #[test]
    fn what_is_missing_is_named() {
        let row = |text: &'static str| {
            let mut found = problems(&table(|n| (n == 9).then(|| text.to_owned())));
            assert_eq!(found.len(), 1, "{found:?}");
            found.remove(0)
        };
        let cases = [
            (
                "| 9 | a | b | `a.rs::helper` |\n",
                "a.rs has no test 'helper'",
            ),
            ("| 9 | a | b | `a.rs::gone` |\n", "a.rs has no test 'gone'"),
            ("| 9 | a | b | `b.rs::plain` |\n", "b.rs does not exist"),
            ("| 9 | a | b | It is fine. |\n", "names no test"),
            ("| 9 | a |  | `a.rs::plain` |\n", "empty cell"),
            ("| 9 | a | `a.rs::plain` |\n", "has 3 cells"),
            ("", "case 9 is followed by case 10"),
        ];
        for (text, expected) in cases {
            let found = row(text);
            assert!(found.contains(expected), "{text}: {found}");
        }
        let short = table(|n| (n == CASES).then(String::new));
        assert!(problems(&short)[0].contains("ends after case 59"));
    }
}
