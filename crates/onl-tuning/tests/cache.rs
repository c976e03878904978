//! The cache folder: round trips, damage, concurrent and interrupted writers.

mod support;

use onl_snapshot::{
    KernelKey, LaneCosts, Parameter, ParameterKind, ParameterRow, ParameterValue, Schema,
    SizeDomain, ValueSource,
};
use onl_tensor::ElementType;
use onl_tuning::decision::KeepReason;
use onl_tuning::*;
use proptest::prelude::*;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use support::{execution, key};
use tempfile::TempDir;

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
                minimum: -1e300,
                maximum: 1e300,
            },
            unit: "",
            meaning: "Scripted.",
        },
        Parameter {
            name: "parallel.minimum_elements",
            kind: ParameterKind::Integer {
                default: 32_768,
                minimum: i64::MIN,
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
    check: |_| Ok(()),
};

fn values(minimum: i64) -> ParameterRow {
    SCHEMA.defaults().with(
        "parallel.minimum_elements",
        ParameterValue::Integer(minimum),
    )
}

fn row(kernel: &str, participants: u32, minimum: i64) -> CachedRow {
    CachedRow {
        key: KernelKey {
            kernel: kernel.to_owned().into(),
            ..key("")
        },
        execution: execution(participants),
        kind: RowKind::Promoted,
        values: values(minimum),
        domain: SizeDomain {
            minimum: 1_024,
            maximum: u64::MAX,
        },
        evidence: "ab".repeat(32),
        unknown: toml::Table::new(),
    }
}

fn registry() -> TuningRegistry {
    let registry = TuningRegistry::new();
    for kernel in ["Abs", "Not", "Sin"] {
        registry.register(key(kernel), &SCHEMA).unwrap();
    }
    registry
}

fn source(registry: &TuningRegistry, kernel: &'static str, participants: u32) -> ValueSource {
    let snapshot = registry.snapshot(&execution(participants));
    snapshot.row(&key(kernel)).unwrap().source
}

/// A folder with rows of three kernels.
fn saved() -> (TempDir, CacheFolder) {
    let temporary = TempDir::new().unwrap();
    let folder = CacheFolder::at(temporary.path().join("cache"));
    let rows = [row("Abs", 4, 1), row("Not", 4, 2), row("Sin", 4, 3)];
    let report = folder.update(&rows, &[]).unwrap();
    assert!(report.changed && report.quarantined.is_none());
    (temporary, folder)
}

fn edit(folder: &CacheFolder, change: impl FnOnce(String) -> String) {
    let text = fs::read_to_string(folder.choices_path()).unwrap();
    fs::write(folder.choices_path(), change(text)).unwrap();
}

#[test]
fn a_missing_file_is_the_normal_state() {
    let temporary = TempDir::new().unwrap();
    let folder = CacheFolder::at(temporary.path().join("none"));
    let registry = registry();
    let outcome = load_kernel_tuning_cache(&registry, &folder, &execution(4)).unwrap();
    assert_eq!(outcome.state, FileState::Missing);
    assert!(outcome.diagnostics.is_empty());
    assert_eq!(outcome.missing.len(), 3);
    assert_eq!(source(&registry, "Abs", 4), ValueSource::PortableDefault);
    assert!(!folder.path().exists(), "reading makes no folder");
}

#[test]
fn saved_rows_are_found_by_a_fresh_registry_for_their_execution_only() {
    let (_temporary, folder) = saved();
    let fresh = registry();
    let outcome = load_kernel_tuning_cache(&fresh, &folder, &execution(4)).unwrap();
    assert_eq!(outcome.loaded.len(), 3);
    assert!(outcome.missing.is_empty() && outcome.diagnostics.is_empty());
    assert_eq!(source(&fresh, "Abs", 4), ValueSource::ExactExecution);
    assert_eq!(source(&fresh, "Abs", 2), ValueSource::PortableDefault);

    let other = registry();
    let outcome = load_kernel_tuning_cache(&other, &folder, &execution(2)).unwrap();
    assert_eq!((outcome.loaded.len(), outcome.incompatible.len()), (0, 3));
    assert_eq!(outcome.incompatible[0].reason, "participants: 4, here 2");
    assert_eq!(source(&other, "Abs", 2), ValueSource::PortableDefault);

    fs::remove_file(folder.choices_path()).unwrap();
    let deleted = registry();
    load_kernel_tuning_cache(&deleted, &folder, &execution(4)).unwrap();
    assert_eq!(source(&deleted, "Abs", 4), ValueSource::PortableDefault);
}

#[test]
fn other_revisions_changed_defaults_and_bad_values_are_told_apart() {
    let (_temporary, folder) = saved();
    let mut stale = row("Abs", 4, 1);
    stale.key.revision = 2;
    let mut confirmed = row("Not", 4, 77);
    confirmed.kind = RowKind::DefaultConfirmed;
    let mut invalid = row("Sin", 4, 3);
    let text = ParameterValue::Choice("renamed".to_owned());
    invalid.values = invalid.values.with("algorithm.path", text);
    let unregistered = row("Cosh", 4, 3);
    folder
        .update(&[stale, confirmed, invalid, unregistered], &[])
        .unwrap();
    let outcome = load_kernel_tuning_cache(&registry(), &folder, &execution(4)).unwrap();
    assert!(outcome.loaded.is_empty());
    assert_eq!(outcome.stale.len(), 2, "{:?}", outcome.stale);
    assert!(
        outcome
            .stale
            .iter()
            .any(|u| u.reason.contains("revision 2"))
    );
    assert_eq!(outcome.invalid.len(), 1);
    assert!(outcome.invalid[0].reason.contains("renamed"));
    assert_eq!(outcome.unregistered.len(), 1);
    assert!(outcome.diagnostics[0].contains("choices.toml"));
}

#[test]
fn one_broken_row_is_lost_alone_and_named_with_file_row_and_reason() {
    let breakages: [(&str, fn(String) -> String, &str); 9] = [
        (
            "syntax",
            |t| t.replacen("revision = 1", "revision = = 1", 1),
            "",
        ),
        (
            "type",
            |t| t.replacen("revision = 1", "revision = \"1\"", 1),
            "revision",
        ),
        (
            "negative",
            |t| t.replacen("revision = 1", "revision = -1", 1),
            "revision",
        ),
        (
            "missing",
            |t| t.replacen("kind = \"promoted\"\n", "", 1),
            "kind",
        ),
        (
            "element type",
            |t| t.replacen("\"f32\"", "\"f33\"", 1),
            "f33",
        ),
        (
            "execution",
            |t| t.replacen("\nexecution = \"", "\nexecution = \"0", 1),
            "execution",
        ),
        (
            "domain",
            |t| t.replacen("\"unbounded\"", "3", 1),
            "inverted",
        ),
        ("evidence", |t| t.replacen("abab", "zz", 1), "SHA-256"),
        (
            "value",
            |t| t.replacen("= 0.5", "= nan", 1),
            "algorithm.share",
        ),
    ];
    for (name, breakage, reason) in breakages {
        let (_temporary, folder) = saved();
        edit(&folder, breakage);
        let report = folder.load();
        assert_eq!(report.state, FileState::Read, "{name}");
        assert_eq!(report.choices.rows.len(), 2, "{name}");
        assert_eq!(report.void.len(), 1, "{name}: {:?}", report.void);
        let void = &report.void[0];
        let text = fs::read_to_string(folder.choices_path()).unwrap();
        let line = text.lines().nth(void.line - 1);
        assert_eq!(line, Some("[[choice]]"), "{name}");
        assert!(void.reason.contains(reason), "{name}: {}", void.reason);
        let diagnostics = report.diagnostics().join("\n");
        let place = format!("choices.toml:{}", void.line);
        assert!(diagnostics.contains(&place), "{name}: {diagnostics}");

        // The next change keeps a copy of what it drops.
        let update = folder.update(&[row("Abs", 4, 9)], &[]).unwrap();
        let copy = update.quarantined.expect("a copy");
        assert_eq!(fs::read_to_string(copy).unwrap(), text, "{name}");
        assert!(folder.load().void.is_empty(), "{name}");
    }
}

#[test]
fn a_changed_execution_identity_voids_its_rows() {
    let (_temporary, folder) = saved();
    edit(&folder, |t| {
        t.replace("participants = 4", "participants = 2")
    });
    let report = folder.load();
    assert!(report.choices.rows.is_empty());
    assert_eq!(report.void.len(), 4);
    assert!(report.void[0].reason.contains("changed"));
}

#[test]
fn whole_files_of_another_form_are_reported_and_kept_as_a_copy() {
    let cases: [(&str, &[u8]); 6] = [
        ("empty", b""),
        ("binary", &[0xff, 0xfe, 0x00, 0x80]),
        ("other text", b"onnx_light_kernel_tuning_cache 1\nprofile\n"),
        ("no format", b"answer = 42\n"),
        ("truncated head", b"form"),
        ("newer", b"format = 99\n[[choice]]\nnew = true\n"),
    ];
    for (name, bytes) in cases {
        let temporary = TempDir::new().unwrap();
        let folder = CacheFolder::at(temporary.path());
        fs::write(folder.choices_path(), bytes).unwrap();
        let registry = registry();
        let outcome = load_kernel_tuning_cache(&registry, &folder, &execution(4)).unwrap();
        assert_eq!(outcome.diagnostics.len(), 1, "{name}");
        assert!(outcome.diagnostics[0].contains("choices.toml"), "{name}");
        assert_eq!(source(&registry, "Abs", 4), ValueSource::PortableDefault);
        assert_eq!(fs::read(folder.choices_path()).unwrap(), bytes, "{name}");
        let update = folder.update(&[row("Abs", 4, 9)], &[]).unwrap();
        assert_eq!(fs::read(update.quarantined.unwrap()).unwrap(), bytes);
        assert_eq!(folder.load().choices.rows.len(), 1, "{name}");
    }
}

#[test]
fn unknown_keys_and_blocks_are_kept_and_reported() {
    let (_temporary, folder) = saved();
    edit(&folder, |t| {
        let t = t.replacen("format = 1", "format = 1\nnote = \"mine\"", 1);
        let t = t.replacen(
            "\n[choice.values]",
            "\nweight = { a = [1, 2.5], b = true }\n[choice.values]",
            1,
        );
        t + "\n[later]\nx = 1\n"
    });
    let report = folder.load();
    assert_eq!(report.choices.rows.len(), 3);
    assert_eq!(report.unknown.len(), 3, "{:?}", report.unknown);
    folder.update(&[row("Relu", 4, 9)], &[]).unwrap();
    let text = fs::read_to_string(folder.choices_path()).unwrap();
    for part in [
        "\"note\" = \"mine\"",
        "\"weight\" = { \"a\" = [1, 2.5], \"b\" = true }",
        "[later]\nx = 1",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let again = folder.load();
    assert_eq!(again.choices.rows.len(), 4);
    assert_eq!(again.unknown.len(), 3);
    assert!(!folder.update(&[], &[]).unwrap().changed);
}

#[test]
fn equal_contents_give_equal_bytes_and_nothing_of_the_machine_or_time() {
    let rows = [row("Sin", 2, 3), row("Abs", 4, 1), row("Not", 4, 2)];
    let costs = |participants| CachedLaneCosts {
        execution: execution(participants),
        costs: LaneCosts {
            hot_ns: 350.25,
            cold_ns: 20_000.0,
        },
        unknown: toml::Table::new(),
    };
    let text = |order: &[usize], costs: &[CachedLaneCosts]| {
        let temporary = TempDir::new().unwrap();
        let folder = CacheFolder::at(temporary.path());
        for i in order {
            folder.update(&rows[*i..=*i], costs).unwrap();
        }
        fs::read_to_string(folder.choices_path()).unwrap()
    };
    let one = text(&[0, 1, 2], &[costs(4), costs(2)]);
    assert_eq!(one, text(&[2, 0, 1, 2], &[costs(2), costs(4)]));
    let expected = "\
[[choice]]
library = \"onl\"
kernel = \"Abs\"
implementation = \"scripted\"
element_type = \"f32\"
device = \"cpu\"
revision = 1
execution = \"";
    assert!(one.contains(expected), "{one}");
    assert!(
        one.contains(
            "[choice.values]\n\"algorithm.path\" = \"direct\"\n\"algorithm.share\" = 0.5\n"
        )
    );
    assert!(one.contains("domain.minimum = 1024\ndomain.maximum = \"unbounded\"\n"));
    assert!(one.contains("hot_ns = 350.25\ncold_ns = 20000.0\n"));
}

#[test]
fn a_new_revision_replaces_the_row_of_the_old_one() {
    let (_temporary, folder) = saved();
    let mut newer = row("Abs", 4, 5);
    newer.key.revision = 2;
    folder.update(&[newer.clone()], &[]).unwrap();
    let choices = folder.load().choices;
    assert_eq!(choices.rows.len(), 3);
    assert_eq!(choices.row(&newer.key, &newer.execution), Some(&newer));
    folder.remove(|row| row.key.revision == 2).unwrap();
    assert_eq!(folder.load().choices.rows.len(), 2);
}

#[test]
fn an_interrupted_writer_loses_nothing_committed() {
    for step in UpdateStep::ALL {
        let (_temporary, folder) = saved();
        let before = folder.load().choices;
        let killed = folder.clone().interrupted_after(step);
        assert!(killed.update(&[row("New", 4, 9)], &[]).is_err());
        let after = folder.load();
        assert!(after.void.is_empty(), "{step:?}");
        let kept = before
            .rows
            .iter()
            .all(|row| after.choices.rows.contains(row));
        assert!(kept, "{step:?}");
        assert_eq!(
            after.choices.rows.len(),
            3 + usize::from(step == UpdateStep::Renamed),
            "{step:?}"
        );
        // The next writer is not in its way.
        folder.update(&[row("Next", 4, 9)], &[]).unwrap();
        let choices = folder.load().choices;
        assert!(choices.rows.iter().any(|r| r.key.kernel == "Next"));
        assert!(before.rows.iter().all(|row| choices.rows.contains(row)));
    }
}

#[test]
fn the_previous_file_is_kept() {
    let (temporary, folder) = saved();
    let before = fs::read(folder.choices_path()).unwrap();
    folder.update(&[row("Abs", 4, 9)], &[]).unwrap();
    let previous = temporary.path().join("cache/choices.toml.previous");
    assert_eq!(fs::read(previous).unwrap(), before);
}

#[test]
fn a_held_lock_ends_the_wait_with_an_error() {
    let (_temporary, folder) = saved();
    let lock = fs::File::open(folder.path().join("choices.lock")).unwrap();
    lock.lock().unwrap();
    let impatient = folder
        .clone()
        .with_lock_patience(std::time::Duration::from_millis(20));
    let error = impatient.update(&[row("Abs", 4, 9)], &[]).unwrap_err();
    assert!(matches!(error, CacheError::Locked { .. }));
    assert!(error.to_string().contains("nothing was saved"));
    assert_eq!(folder.load().choices.rows.len(), 3, "reading takes no lock");
    drop(lock);
    folder.update(&[row("Abs", 4, 9)], &[]).unwrap();
}

#[test]
fn an_unwritable_folder_says_that_nothing_was_saved() {
    let temporary = TempDir::new().unwrap();
    let file = temporary.path().join("file");
    fs::write(&file, "in the way").unwrap();
    // A folder below a file cannot be made, whoever asks.
    let folder = CacheFolder::at(file.join("cache"));
    let error = folder.update(&[row("Abs", 4, 9)], &[]).unwrap_err();
    assert!(matches!(error, CacheError::Unwritable { .. }));
    let text = error.to_string();
    assert!(text.contains("nothing was saved") && text.contains("ONL_TUNING_CACHE"));
    assert!(folder.append_evidence("{}").is_err());
    let registry = registry();
    load_kernel_tuning_cache(&registry, &folder, &execution(4)).unwrap();
    assert_eq!(source(&registry, "Abs", 4), ValueSource::PortableDefault);
}

#[test]
fn rows_that_would_not_read_back_are_refused() {
    let (_temporary, folder) = saved();
    let before = fs::read(folder.choices_path()).unwrap();
    let mut no_digest = row("Abs", 4, 9);
    no_digest.evidence = "none".to_owned();
    let mut infinite = row("Abs", 4, 9);
    infinite.values = infinite
        .values
        .with("algorithm.share", ParameterValue::Float(f64::INFINITY));
    for bad in [no_digest, infinite] {
        assert!(matches!(
            folder.update(&[bad], &[]),
            Err(CacheError::Row { .. })
        ));
        assert_eq!(fs::read(folder.choices_path()).unwrap(), before);
    }
}

#[test]
fn evidence_is_named_by_its_digest_and_checked() {
    let (_temporary, folder) = saved();
    let digest = folder.append_evidence("{\"a\":1}").unwrap();
    assert_eq!(digest, folder.append_evidence("{\"a\":1}").unwrap());
    assert_eq!(folder.read_evidence(&digest).unwrap(), "{\"a\":1}");
    fs::write(folder.evidence_path(&digest), "{\"a\":2}").unwrap();
    assert!(folder.read_evidence(&digest).is_err());
    assert!(folder.read_evidence("../choices").is_err());
}

#[test]
fn results_are_saved_with_evidence_and_other_outcomes_leave_what_was_saved() {
    let (_temporary, folder) = saved();
    let ratio = RatioInterval {
        estimate: 0.9,
        lower: 0.89,
        upper: 0.91,
        confidence: 0.99,
    };
    let result = |kernel, outcome| KeyResult {
        key: key(kernel),
        outcome,
        evidence: Vec::new(),
    };
    let domain = SizeDomain {
        minimum: 10,
        maximum: 20,
    };
    let results = [
        result(
            "Abs",
            Outcome::Promoted {
                values: values(4_096),
                domain,
                ratio,
                rounds: 40,
            },
        ),
        result(
            "Not",
            Outcome::DefaultConfirmed {
                values: SCHEMA.defaults(),
                domain,
                reason: KeepReason::BelowMargin,
                ratio: Some(ratio),
                rounds: 40,
            },
        ),
        result(
            "Sin",
            Outcome::Failed {
                reason: "planted".to_owned(),
            },
        ),
    ];
    let costs = LaneCosts {
        hot_ns: 1.5,
        cold_ns: 2.5,
    };
    let report = update_kernel_tuning_cache(&folder, &execution(4), &results, Some(costs)).unwrap();
    assert!(report.changed);
    let fresh = registry();
    let outcome = load_kernel_tuning_cache(&fresh, &folder, &execution(4)).unwrap();
    assert_eq!(outcome.loaded.len(), 3);
    let snapshot = fresh.snapshot(&execution(4));
    assert_eq!(snapshot.lane_costs(), costs);
    let abs = snapshot.row(&key("Abs")).unwrap();
    assert_eq!((abs.values.clone(), abs.domain), (values(4_096), domain));
    let sin = snapshot.row(&key("Sin")).unwrap();
    assert_eq!(sin.values, values(3));
    for row in &folder.load().choices.rows {
        if row.key != key("Sin") {
            let json = folder.read_evidence(&row.evidence).unwrap();
            assert!(serde_json::from_str::<EvidenceRecord>(&json).is_ok());
        }
    }
    // The same results again change no byte.
    let again = update_kernel_tuning_cache(&folder, &execution(4), &results, Some(costs));
    assert!(!again.unwrap().changed);
}

const CHILD: &str = "ONL_TUNING_TEST_CHILD";

/// Not a test of its own: the body of the writers that the next test starts.
#[test]
fn child_writer() {
    let Ok(job) = std::env::var(CHILD) else {
        return;
    };
    let (path, writer) = job.rsplit_once('|').unwrap();
    let folder = CacheFolder::at(path);
    for i in 0..12 {
        let kernel = format!("Kernel_{writer}_{i}");
        folder.update(&[row(&kernel, 4, i)], &[]).unwrap();
        // A line in a file of its own says that the row is committed.
        let log = Path::new(path).join(format!("committed-{writer}"));
        let mut committed = fs::read_to_string(&log).unwrap_or_default();
        committed.push_str(&kernel);
        committed.push('\n');
        fs::write(log, committed).unwrap();
    }
}

#[test]
fn concurrent_and_killed_writers_lose_no_committed_row() {
    let temporary = TempDir::new().unwrap();
    let path = temporary.path();
    let executable = std::env::current_exe().unwrap();
    let mut children: Vec<_> = (0..8)
        .map(|writer| {
            Command::new(&executable)
                .args(["--exact", "child_writer", "--test-threads", "1"])
                .env(CHILD, format!("{}|{writer}", path.display()))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    // The odd writers are killed at some point of their work.
    for (i, child) in children.iter_mut().enumerate() {
        if i % 2 == 1 {
            std::thread::sleep(std::time::Duration::from_millis(15 * i as u64));
            let _ = child.kill();
        }
    }
    for (i, mut child) in children.into_iter().enumerate() {
        let status = child.wait().unwrap();
        assert!(i % 2 == 1 || status.success(), "writer {i}");
    }
    let report = CacheFolder::at(path).load();
    assert_eq!(report.state, FileState::Read);
    assert!(report.void.is_empty(), "{:?}", report.void);
    let mut committed = 0;
    for writer in 0..8 {
        let log = path.join(format!("committed-{writer}"));
        for kernel in fs::read_to_string(log).unwrap_or_default().lines() {
            committed += 1;
            let found = report.choices.rows.iter().any(|r| r.key.kernel == kernel);
            assert!(found, "{kernel} was lost");
        }
    }
    assert!(committed >= 48, "{committed} rows");
}

fn any_value() -> impl Strategy<Value = ParameterValue> {
    prop_oneof![
        any::<i64>().prop_map(ParameterValue::Integer),
        any::<f64>()
            .prop_filter("finite", |v| v.is_finite())
            .prop_map(ParameterValue::Float),
        any::<bool>().prop_map(ParameterValue::Boolean),
        any::<String>().prop_map(ParameterValue::Choice),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn rows_read_back_exactly(
        values in prop::collection::btree_map("[a-z]{1,8}(\\.[a-z_]{1,8})?", any_value(), 0..6),
        kernel in "\\PC{1,12}",
        revision in any::<u32>(),
        participants in any::<u32>(),
        sizes in (0..=i64::MAX as u64, 0..=i64::MAX as u64),
        unbounded in any::<bool>(),
        element in 0_usize..26,
        hot in 0.0..1e12_f64,
    ) {
        let domain = SizeDomain {
            minimum: sizes.0.min(sizes.1),
            maximum: if unbounded { u64::MAX } else { sizes.0.max(sizes.1) },
        };
        let mut row = row(&kernel, participants, 0);
        row.key.revision = revision;
        row.key.element_type = ElementType::ALL[element];
        row.values = ParameterRow(values);
        row.domain = domain;
        let choices = Choices {
            rows: vec![row.clone()],
            lane_costs: vec![CachedLaneCosts {
                execution: execution(participants),
                costs: LaneCosts { hot_ns: hot, cold_ns: 0.1 },
                unknown: toml::Table::new(),
            }],
            ..Choices::default()
        };
        let text = choices.render();
        let report = CacheFolder::parse(Path::new("x"), &text);
        prop_assert!(report.void.is_empty(), "{:?}\n{text}", report.void);
        prop_assert_eq!(&report.choices, &choices);
        prop_assert_eq!(report.choices.render(), text);
    }

    #[test]
    fn every_legal_number_reads_back_bit_for_bit(
        integers in prop::collection::vec(any::<i64>(), 1..20),
        bits in prop::collection::vec(any::<u64>(), 1..20),
        hot in any::<u64>(),
    ) {
        let edges = [
            0, 1 << 63, 1, 0x000f_ffff_ffff_ffff, 0x0010_0000_0000_0000, 0x7fef_ffff_ffff_ffff,
            1e15_f64.to_bits(), 1e16_f64.to_bits(), 1e21_f64.to_bits(), 1e-7_f64.to_bits(),
            9_007_199_254_740_993_f64.to_bits(), 0.1_f64.to_bits(),
        ];
        let floats = bits.iter().copied().chain(edges).map(f64::from_bits).filter(|v| v.is_finite());
        let numbers: Vec<_> = integers
            .iter()
            .copied()
            .chain([i64::MIN, i64::MAX, 0, -1])
            .map(ParameterValue::Integer)
            .chain(floats.map(ParameterValue::Float))
            .enumerate()
            .map(|(i, value)| (format!("n.{i}"), value))
            .collect();
        let mut row = row("Abs", 4, 0);
        row.values = ParameterRow(numbers.iter().cloned().collect());
        let hot = f64::from_bits(hot).abs();
        let hot_ns = if hot.is_finite() { hot } else { 1.0 };
        let costs = CachedLaneCosts {
            execution: execution(4),
            costs: LaneCosts { hot_ns, cold_ns: 5e-324 },
            unknown: toml::Table::new(),
        };
        let choices = Choices { rows: vec![row], lane_costs: vec![costs], ..Choices::default() };
        let report = CacheFolder::parse(Path::new("x"), choices.render());
        prop_assert!(report.void.is_empty(), "{:?}", report.void);
        prop_assert_eq!(report.choices.lane_costs[0].costs.hot_ns.to_bits(), hot_ns.to_bits());
        for (name, value) in &numbers {
            match (value, report.choices.rows[0].values.get(name)) {
                (ParameterValue::Integer(a), Some(ParameterValue::Integer(b))) => prop_assert_eq!(a, b),
                (ParameterValue::Float(a), Some(ParameterValue::Float(b))) => {
                    prop_assert_eq!(a.to_bits(), b.to_bits());
                }
                (a, b) => prop_assert!(false, "{a:?} became {b:?}"),
            }
        }
    }

    #[test]
    fn no_text_makes_reading_fail(text in "(format = 1\n)?(\\[\\[choice\\]\\]|\\[execution\\.|\\[choice\\.values\\]|[a-z]{1,5} = |\\PC{0,6}|\n|\"|\\[|\\]){0,20}") {
        let report = CacheFolder::parse(Path::new("x"), &text);
        let _ = report.diagnostics();
        let again = CacheFolder::parse(Path::new("x"), report.choices.render());
        prop_assert!(again.void.len() <= report.void.len() + report.unknown.len());
    }

    #[test]
    fn cutting_a_file_short_keeps_the_rows_before_the_cut(cut in 0.0..1.0_f64) {
        let choices = Choices {
            rows: vec![row("A", 4, 1), row("B", 4, 2), row("C", 4, 3)],
            ..Choices::default()
        };
        let text = choices.render();
        let cut = (text.len() as f64 * cut) as usize;
        let whole = text[..cut].matches("\n[[choice]]").count().saturating_sub(1);
        let report = CacheFolder::parse(Path::new("x"), &text[..cut]);
        prop_assert!(report.choices.rows.len() >= whole);
    }
}
