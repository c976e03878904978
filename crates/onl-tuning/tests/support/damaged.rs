//! What holds for every content of `choices.toml`. The fuzz target includes this file too.
#![allow(dead_code)]

use onl_cpu::CpuExecutionDescriptor;
use onl_snapshot::{
    KernelKey, LaneCosts, Parameter, ParameterKind, ParameterRow, ParameterValue, Schema,
    SizeDomain,
};
use onl_tensor::ElementType;
use onl_tuning::{
    CacheFolder, CachedLaneCosts, CachedProfile, CachedRow, Choices, CpuSelector, FileState,
    RowKind, TuningRegistry, check_import, publish_choices,
};
use std::path::Path;

static SCHEMA: Schema = Schema {
    parameters: &[
        Parameter {
            name: "algorithm.path",
            kind: ParameterKind::Choice {
                default: "direct",
                values: &["direct", "packed"],
            },
            unit: "",
            meaning: "Scripted.",
        },
        Parameter {
            name: "algorithm.share",
            kind: ParameterKind::Float {
                default: 0.5,
                minimum: 0.0,
                maximum: 1.0,
            },
            unit: "",
            meaning: "Scripted.",
        },
        Parameter {
            name: "parallel.minimum_elements",
            kind: ParameterKind::Integer {
                default: 32_768,
                minimum: 1,
                maximum: i64::MAX,
            },
            unit: "elements",
            meaning: "Scripted.",
        },
        Parameter {
            name: "parallel.steal",
            kind: ParameterKind::Boolean { default: true },
            unit: "",
            meaning: "Scripted.",
        },
    ],
    check: |row| {
        if row.choice("algorithm.path") == "packed" && !row.boolean("parallel.steal") {
            return Err("packed needs stealing".to_owned());
        }
        Ok(())
    },
};

fn key(kernel: &'static str) -> KernelKey {
    KernelKey::builtin(kernel, "scripted", ElementType::Float32, 1)
}

fn execution(participants: u32) -> CpuExecutionDescriptor {
    CpuExecutionDescriptor {
        architecture: "x86_64".to_owned(),
        vendor: Some("intel".to_owned()),
        family: Some(6),
        model: Some(106),
        stepping: None,
        features: ["avx2", "fma"].map(str::to_owned).into(),
        l1d_bytes: Some(49_152),
        l2_bytes: Some(1_310_720),
        physical_cores: Some(4),
        logical_cores: Some(8),
        participants,
        smt_used: false,
        affinity: "none".to_owned(),
        wait_mode: "balanced".to_owned(),
        quota: "unlimited".to_owned(),
    }
}

fn registry() -> TuningRegistry {
    let registry = TuningRegistry::new();
    for kernel in ["Abs", "Not", "Sin"] {
        registry.register(key(kernel), &SCHEMA).expect("sound");
    }
    registry
}

fn values(minimum: i64) -> ParameterRow {
    SCHEMA.defaults().with(
        "parallel.minimum_elements",
        ParameterValue::Integer(minimum),
    )
}

/// A file with every kind of block: rows of two executions, profiles, lane costs, unknown keys and blocks.
pub fn valid_text() -> String {
    let row = |kernel, participants, minimum| CachedRow {
        key: key(kernel),
        execution: execution(participants),
        kind: RowKind::Promoted,
        values: values(minimum),
        domain: SizeDomain {
            minimum: 1_024,
            maximum: u64::MAX,
        },
        evidence: "ab".repeat(32),
        unknown: toml::Table::new(),
    };
    let mut selector = CpuSelector::exactly(&execution(2)).expect("a full identity");
    selector.models = vec![106, 143];
    let profile = CachedProfile {
        key: key("Sin"),
        selector,
        priority: -1,
        kind: RowKind::DefaultConfirmed,
        values: SCHEMA.defaults(),
        domain: SizeDomain::ALL,
        evidence: "cd".repeat(32),
        unknown: toml::Table::new(),
    };
    let mut choices = Choices::default();
    let costs = CachedLaneCosts {
        execution: execution(4),
        costs: LaneCosts {
            hot_ns: 350.25,
            cold_ns: 2e4,
        },
        unknown: toml::Table::new(),
    };
    choices.merge(
        &[row("Abs", 4, 1), row("Abs", 2, 2), row("Not", 4, 3)],
        &[costs],
    );
    choices.merge_profiles(&[profile]);
    let text = choices.render();
    let text = text.replacen("format = 1\n", "format = 1\nnote = \"mine\"\n", 1);
    text + "\n[[later]]\nx = { y = [1, 2.5] }\n[later.more]\nz = true\n"
}

/// Reads bytes as `choices.toml` and panics when a promise is broken:
/// every block of a row is a row, or void with a reason; nothing is lost without a word; what was read is written as bytes
/// that read back as the same; every row is published, or refused with a reason; published rows pass their schema.
pub fn check(bytes: &[u8]) {
    let report = CacheFolder::parse(Path::new("choices.toml"), bytes);
    let diagnostics = report.diagnostics();
    let choices = &report.choices;
    if report.state != FileState::Read {
        assert!(*choices == Choices::default(), "rows of an unusable file");
        assert_eq!(diagnostics.len(), 1, "{diagnostics:?}");
        return;
    }
    assert!(report.void.iter().all(|void| !void.reason.is_empty()));
    assert_eq!(diagnostics.len(), report.void.len() + report.unknown.len());
    let lines: Vec<&[u8]> = bytes.split(|b| *b == b'\n').collect();
    let blocks = lines
        .iter()
        .filter(|line| line.starts_with(b"[[choice]]") || line.starts_with(b"[[profile]]"))
        .count();
    let rows = choices.rows.len() + choices.profiles.len();
    assert!(blocks <= rows + report.void.len(), "a row is lost");
    for void in &report.void {
        assert!((1..=lines.len()).contains(&void.line));
    }

    let text = choices.render();
    let again = CacheFolder::parse(Path::new("choices.toml"), &text);
    assert_eq!(again.state, FileState::Read);
    assert_eq!(again.void, [], "{text}");
    assert_eq!(again.choices.rows.len(), choices.rows.len());
    assert_eq!(again.choices.profiles.len(), choices.profiles.len());
    assert_eq!(again.choices.lane_costs.len(), choices.lane_costs.len());
    // An unknown block with an indented header may be written as several.
    assert!(again.unknown.len() >= report.unknown.len(), "{text}");
    assert_eq!(again.choices.render(), text);

    let registry = registry();
    let imported = check_import(&registry, &report, choices, None).expect("not poisoned");
    assert_eq!(imported.accepted.len() + imported.skipped.len(), rows);

    let here = execution(4);
    let outcome = publish_choices(&registry, report, &here).expect("not poisoned");
    let refused = [
        &outcome.incompatible,
        &outcome.stale,
        &outcome.invalid,
        &outcome.unregistered,
    ];
    assert!(
        refused
            .iter()
            .copied()
            .flatten()
            .all(|row| !row.reason.is_empty())
    );
    let snapshot = registry.snapshot(&here);
    let resolved = ["Abs", "Not", "Sin"].map(|kernel| {
        let row = snapshot.row(&key(kernel)).expect("registered");
        SCHEMA.check_row(&row.values).expect("a checked row");
        assert!(row.domain.minimum <= row.domain.maximum);
        row.source
    });
    for key in &outcome.loaded {
        assert!(!outcome.missing.contains(key));
    }
    assert_eq!(
        resolved
            .iter()
            .filter(|source| **source != onl_snapshot::ValueSource::PortableDefault)
            .count(),
        outcome.loaded.len()
    );
    // Several rows of one kernel may be for this execution; the kernel is then listed once.
    let refused: usize = refused.iter().map(|list| list.len()).sum();
    assert!(
        refused + outcome.loaded.len() <= rows,
        "{refused} of {rows}"
    );
    assert_eq!(refused < rows, !outcome.loaded.is_empty());
}
