//! The inventory is complete and true: planted lies are found.

use onl_evidence::{
    InventoryError, SerialReason, Verdict, apply_verdicts, inventory, markdown, validate_inventory,
    verify_table,
};
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
    let portable = || inventory(&KernelTable::builtin(), &TuningSnapshot::portable());
    let paths = portable().paths;
    let at = |state: &str| paths.iter().position(|row| row.state == state);
    let serial = at("serial").expect("some path is serial");
    let tunable = at("tunable").expect("some path is tunable");
    let planted = |plant: &dyn Fn(&mut onl_evidence::Inventory)| {
        let mut list = portable();
        plant(&mut list);
        validate_inventory(&list).expect_err("a lie was planted")
    };
    let errors = planted(&|list| list.paths.push(list.paths[0].clone()));
    assert!(
        matches!(errors[..], [InventoryError::Duplicate { .. }]),
        "{errors:?}"
    );
    let errors = planted(&|list| list.paths[tunable].state = "parallel_fixed_policy".to_owned());
    assert!(
        matches!(errors[..], [InventoryError::FixedPolicy { .. }]),
        "{errors:?}"
    );
    let errors = planted(&|list| list.paths[tunable].state = "unknown".to_owned());
    assert!(
        matches!(errors[..], [InventoryError::Unclassified { .. }]),
        "{errors:?}"
    );
    let errors = planted(&|list| list.paths[tunable].state = "serial+tunable".to_owned());
    assert!(
        matches!(errors[..], [InventoryError::MixedStates { .. }]),
        "{errors:?}"
    );
    let errors = planted(&|list| list.paths[tunable].parameters.clear());
    assert!(
        matches!(errors[..], [InventoryError::NoParameters { .. }]),
        "{errors:?}"
    );
    let errors = planted(&|list| list.paths[serial].serial_reason = None);
    assert!(
        matches!(errors[..], [InventoryError::NoReason { .. }]),
        "{errors:?}"
    );
    let errors = planted(&|list| {
        let implementation = list.paths[tunable].implementations[0].clone();
        list.paths[tunable].implementations.push(implementation);
    });
    assert!(
        matches!(errors[..], [InventoryError::OverlappingOpsets { .. }]),
        "{errors:?}"
    );
    let reason = |category: &str, evidence: Option<&str>, look_again_elements| SerialReason {
        category: category.to_owned(),
        reason: "A sentence.".to_owned(),
        evidence: evidence.map(str::to_owned),
        look_again_elements,
    };
    let because = |reason: SerialReason| {
        planted(&|list| list.paths[serial].serial_reason = Some(reason.clone()))
    };
    let errors = because(reason("lazy", None, None));
    assert!(
        matches!(errors[..], [InventoryError::UnknownCategory { .. }]),
        "{errors:?}"
    );
    for (evidence, elements) in [
        (None, Some(4096)),
        (Some("a report"), None),
        (Some(""), Some(1)),
    ] {
        let errors = because(reason("measured_not_worth_it", evidence, elements));
        assert!(
            matches!(errors[..], [InventoryError::NoEvidence { .. }]),
            "{errors:?}"
        );
    }
    let mut list = portable();
    let complete = reason(
        "measured_not_worth_it",
        Some("reports/x86_64_baseline.json"),
        Some(4096),
    );
    list.paths[serial].serial_reason = Some(complete);
    assert_eq!(validate_inventory(&list), Ok(()));
    let page = markdown(&list);
    assert!(
        page.contains("look again from 4096 elements"),
        "the page says when to look again"
    );
}

#[test]
fn a_path_that_observation_refutes_takes_the_state_that_is_refused() {
    let table = secretly_parallel_table();
    let mut list = inventory(&table, &TuningSnapshot::portable());
    assert_eq!(validate_inventory(&list), Ok(()));
    apply_verdicts(
        &mut list,
        &verify_table(&table, onl::IsaTier::detect(), |_, _| ()),
    );
    assert_eq!(list.states["parallel_fixed_policy"], 1);
    let errors = validate_inventory(&list).expect_err("its state is refused");
    assert!(
        matches!(errors[..], [InventoryError::FixedPolicy { .. }]),
        "{errors:?}"
    );
}

/// `onl inventory --markdown > docs/inventory.md` makes it again.
#[test]
fn the_committed_page_is_what_the_command_prints() {
    let printed = run(onl().args(["inventory", "--markdown"]));
    let path = onl_tests::workspace().join("docs").join("inventory.md");
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == printed,
        "{} is not the page of this table; run `onl inventory --markdown > docs/inventory.md`",
        path.display()
    );
    assert!(
        printed.lines().count() < 300,
        "{} lines",
        printed.lines().count()
    );
    for row in inventory(&KernelTable::builtin(), &TuningSnapshot::portable()).paths {
        let operator = match row.domain.as_str() {
            "ai.onnx" => row.op_type,
            domain => format!("{domain}:{}", row.op_type),
        };
        assert!(printed.contains(&format!("| {operator} |")), "{operator}");
    }
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
