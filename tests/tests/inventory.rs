//! The inventory is complete and true: planted lies are found.

use onl_evidence::{InventoryError, Verdict, inventory, validate_inventory, verify_table};
use onl_kernels::KernelTable;
use onl_snapshot::TuningSnapshot;
use onl_tests::{grain_table, ignoring_table, onl, run, secretly_parallel_table};
use std::collections::{BTreeMap, BTreeSet};

fn verdicts(table: &KernelTable) -> Vec<(Verdict, String)> {
    verify_table(table, onl::IsaTier::detect(), |_, _| ())
        .into_iter()
        .map(|v| (v.verdict, v.detail))
        .collect()
}

#[test]
fn builtin_inventory_is_valid() {
    let list = inventory(&KernelTable::builtin(), &TuningSnapshot::portable());
    assert_eq!(validate_inventory(&list), Ok(()));
    assert!(list.states["calibratable"] >= 37, "{:?}", list.states);
}

/// Portable defaults change only on reports from two architectures; this file makes a change visible.
#[test]
fn portable_defaults_stand_in_a_golden_file() {
    let mut defaults: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in inventory(&KernelTable::builtin(), &TuningSnapshot::portable()).paths {
        for parameter in row.parameters {
            let line = format!(
                "{} = {} {}",
                parameter.name, parameter.default, parameter.unit
            );
            defaults
                .entry(line)
                .or_default()
                .insert(row.op_type.clone());
        }
    }
    let text: Vec<String> = defaults
        .into_iter()
        .map(|(line, operators)| {
            let operators: Vec<String> = operators.into_iter().collect();
            format!("{}\n    {}", line.trim_end(), operators.join(" "))
        })
        .collect();
    insta::assert_snapshot!("portable_defaults", text.join("\n"));
}

#[test]
fn planted_rows_are_refused() {
    let mut list = inventory(&KernelTable::builtin(), &TuningSnapshot::portable());
    let copy = list.paths[0].clone();
    list.paths.push(copy);
    list.paths[1].state = "parallel_fixed_policy".to_owned();
    list.paths[1].serial_reason = None;
    let serial = list
        .paths
        .iter()
        .position(|row| row.state == "serial")
        .expect("some path is serial");
    list.paths[serial].serial_reason = None;
    let errors = validate_inventory(&list).expect_err("three lies");
    assert!(
        errors
            .iter()
            .any(|e| matches!(e, InventoryError::Duplicate { .. }))
    );
    assert!(
        errors
            .iter()
            .any(|e| matches!(e, InventoryError::Unclassified { .. }))
    );
    assert!(
        errors
            .iter()
            .any(|e| matches!(e, InventoryError::NoReason { .. }))
    );
}

#[test]
fn a_kernel_that_obeys_its_grain_is_proved() {
    assert_eq!(verdicts(&grain_table(true))[0].0, Verdict::Proved);
}

#[test]
fn a_constant_grain_is_found() {
    let (verdict, detail) = verdicts(&grain_table(false)).remove(0);
    assert_eq!(verdict, Verdict::ParallelFixedPolicy);
    assert!(detail.contains("parallel.grain_elements"), "{detail}");
}

#[test]
fn an_ignored_parameter_is_found() {
    let (verdict, detail) = verdicts(&ignoring_table()).remove(0);
    assert_eq!(verdict, Verdict::ParallelFixedPolicy);
    assert!(detail.contains("algorithm.path"), "{detail}");
}

#[test]
fn a_serial_path_that_is_parallel_is_found() {
    let (verdict, detail) = verdicts(&secretly_parallel_table()).remove(0);
    assert_eq!(verdict, Verdict::ParallelFixedPolicy);
    assert!(detail.contains("declared serial"), "{detail}");
}

#[test]
fn inventory_command_prints_every_state() {
    let text = run(onl().args(["inventory", "--no-profiles", "--json"]));
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(document["errors"].as_array().map(Vec::len), Some(0));
    let states = &document["inventory"]["states"];
    for state in ["serial", "tunable", "calibratable"] {
        assert!(states[state].as_u64().unwrap_or(0) > 0, "{states}");
    }
}
