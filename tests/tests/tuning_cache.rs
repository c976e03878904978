//! The commands of `onl tuning`, and sessions beside writers of the cache.

use onl::tuning::{
    CacheFolder, CachedProfile, CachedRow, Choices, CpuSelector, FileState, RowKind, Widening,
    export_profiles,
};
use onl::{
    CpuExecutionDescriptor, CpuExecutionPolicy, Environment, KernelKey, ProfileSource, Session,
    Tensor, current_execution_descriptor,
};
use onl_snapshot::{ParameterValue, SizeDomain};
use onl_tensor::ElementType;
use onl_tests::{ModelBuilder, onl};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use tempfile::TempDir;

const THRESHOLD: &str = "parallel.minimum_elements";

struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Ran {
    fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        serde_json::from_str(&self.stdout).expect("one JSON document")
    }
}

/// `onl tuning` with arguments, on two lanes unless the arguments say otherwise.
fn tuning(folder: &Path, arguments: &[&str]) -> Ran {
    let output = onl()
        .env("ONL_TUNING_CACHE", folder)
        .arg("tuning")
        .args(arguments)
        .output()
        .expect("the command starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Ran {
        code: output.status.code(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

fn list<'a>(document: &'a Value, name: &str) -> &'a Vec<Value> {
    document[name].as_array().expect("a list")
}

fn execution(threads: u32) -> CpuExecutionDescriptor {
    let policy = CpuExecutionPolicy {
        threads,
        ..CpuExecutionPolicy::default()
    };
    current_execution_descriptor(&Environment::new(ProfileSource::None), &policy)
        .expect("a small policy fits")
}

fn key(kernel: &str) -> KernelKey {
    Environment::new(ProfileSource::None)
        .registry()
        .kernels()
        .expect("a sound registry")
        .into_iter()
        .map(|(key, _)| key)
        .find(|key| key.kernel == kernel && key.element_type == ElementType::Float32)
        .expect("a tuned kernel")
}

fn row(kernel: &str, execution: CpuExecutionDescriptor, minimum: i64) -> CachedRow {
    let environment = Environment::new(ProfileSource::None);
    let key = key(kernel);
    let defaults = environment.schema(&key).expect("registered").defaults();
    CachedRow {
        values: defaults.with(THRESHOLD, ParameterValue::Integer(minimum)),
        key,
        execution,
        kind: RowKind::Promoted,
        domain: SizeDomain::ALL,
        evidence: "ab".repeat(32),
        unknown: toml::Table::new(),
    }
}

/// A folder with rows of two kernels for one lane and of one for two lanes.
fn saved() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let rows = [
        row("Abs", execution(1), 1_111),
        row("Sigmoid", execution(1), 2_222),
        row("Abs", execution(2), 3_333),
    ];
    CacheFolder::at(folder.path())
        .update(&rows, &[])
        .expect("a writable folder");
    folder
}

fn shown(folder: &Path, kernel: &str, threads: &str) -> Value {
    let pattern = format!("{kernel}/f32");
    let ran = tuning(folder, &["show", &pattern, "--threads", threads, "--json"]);
    let document = ran.json();
    list(&document, "kernels")[0].clone()
}

/// Bytes and time of every file below a folder.
fn contents(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable folder").path();
        let time = fs::metadata(&path)
            .and_then(|m| m.modified())
            .expect("a time");
        if path.is_dir() {
            found.extend(contents(&path));
            found.insert(path, (Vec::new(), time));
        } else {
            found.insert(path.clone(), (fs::read(&path).expect("readable"), time));
        }
    }
    found
}

#[test]
fn an_export_is_imported_as_a_selector_and_applies_in_its_class_only() {
    let from = saved();
    let file = from.path().join("export.toml");
    let file = file.to_str().expect("a path of text");
    let ran = tuning(from.path(), &["export", "--output", file]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("3 profiles written"), "{}", ran.stderr);
    let text = fs::read_to_string(file).expect("written");
    for part in [
        "[profile.selector]",
        "vendor = ",
        "models = ",
        "required_features = ",
    ] {
        assert!(text.contains(part), "{part}");
    }
    // Standard output has the same bytes, and a second export too.
    assert_eq!(tuning(from.path(), &["export"]).stdout, text);

    let to = tempfile::tempdir().expect("a temporary folder");
    let dry = tuning(to.path(), &["import", file, "--dry-run", "--json"]).json();
    assert_eq!(list(&dry, "imported").len(), 3);
    assert!(contents(to.path()).is_empty(), "a dry run writes nothing");
    let import = tuning(to.path(), &["import", file, "--json"]).json();
    assert_eq!(import["changed"], true);
    assert_eq!(list(&import, "imported").len(), 3);
    assert_eq!(list(&import, "imported")[0]["source"], "selector");

    let abs = shown(to.path(), "Abs", "1");
    assert_eq!(abs["source"], "selector");
    assert_eq!(abs["values"][THRESHOLD], 1_111);
    assert_eq!(shown(to.path(), "Abs", "2")["values"][THRESHOLD], 3_333);
    let outside = shown(to.path(), "Sigmoid", "2");
    assert_eq!(outside["source"], "portable_default");
    let rejected = &list(&outside, "rejected")[0];
    assert_eq!(rejected["source"], "selector");
    let reason = rejected["reason"].as_str().expect("text");
    assert!(reason.contains("participants: 1 to 1, here 2"), "{reason}");

    // Importing again changes no byte.
    let before = contents(to.path());
    let again = tuning(to.path(), &["import", file, "--json"]).json();
    assert_eq!(again["changed"], false);
    let bytes = |map: BTreeMap<PathBuf, (Vec<u8>, SystemTime)>| -> Vec<Vec<u8>> {
        map.into_values().map(|(bytes, _)| bytes).collect()
    };
    assert_eq!(bytes(before), bytes(contents(to.path())));
}

#[test]
fn export_selects_processors_and_widens_only_as_asked() {
    let folder = saved();
    let mut foreign = execution(1);
    (foreign.vendor, foreign.family, foreign.model) = (Some("other".to_owned()), Some(3), Some(9));
    CacheFolder::at(folder.path())
        .update(&[row("Abs", foreign, 4_444)], &[])
        .expect("a writable folder");
    let count = |arguments: &[&str]| {
        let arguments = [&["export", "--json"], arguments].concat();
        list(&tuning(folder.path(), &arguments).json(), "profiles").len()
    };
    assert_eq!(count(&[]), 3);
    assert_eq!(count(&["--processor", "other,3,9"]), 1);
    assert_eq!(count(&["--processor", "other"]), 1);
    assert_eq!(count(&["--all"]), 4);
    // Two rows of Abs would be for the same class.
    assert_eq!(count(&["--relax", "threads"]), 2);
    let none = tuning(folder.path(), &["export", "--processor", "other,3,8"]);
    assert_eq!((none.code, none.stdout.as_str()), (Some(1), ""));
    assert!(none.stderr.contains("nothing to export"), "{}", none.stderr);
    for wrong in ["", "a,b", "a,1,2,3"] {
        let ran = tuning(folder.path(), &["export", "--processor", wrong]);
        assert_eq!(ran.code, Some(2), "{wrong}");
    }
    let relaxed = tuning(
        folder.path(),
        &["export", "--relax", "model", "--relax", "features"],
    );
    assert!(!relaxed.stdout.contains("models ="));
    assert!(!relaxed.stdout.contains("required_features"));
    let wide = tuning(folder.path(), &["export", "--also-model", "4095"]);
    assert!(wide.stdout.contains(", 4095]") || wide.stdout.contains("[4095, "));
}

#[test]
fn import_lists_bad_rows_with_reasons_and_saves_the_rest() {
    let folder = saved();
    let text = tuning(folder.path(), &["export"]).stdout;
    let text = text.replacen("= 2222", "= -5", 1);
    let (head, rest) = text.split_once("revision = ").expect("a revision");
    let (_, rest) = rest.split_once('\n').expect("more lines");
    let text = format!("{head}revision = 77\n{rest}\n[[profile]]\nkernel = 3\n");
    let file = folder.path().join("bad.toml");
    fs::write(&file, text).expect("writable");
    let to = tempfile::tempdir().expect("a temporary folder");
    let ran = tuning(
        to.path(),
        &["import", file.to_str().expect("text"), "--json"],
    );
    let document = ran.json();
    assert_eq!(list(&document, "imported").len(), 1);
    assert_eq!(list(&document, "void").len(), 1);
    let skipped = list(&document, "skipped");
    assert_eq!(skipped.len(), 2, "{skipped:?}");
    let reasons = format!("{skipped:?}");
    assert!(
        reasons.contains("revision 77") && reasons.contains("-5"),
        "{reasons}"
    );
    // Nothing usable is a failure, and saves nothing.
    let only_bad = tuning(folder.path(), &["export", "--threads", "1"]).stdout;
    fs::write(&file, only_bad.replace("revision = ", "revision = 9")).expect("writable");
    let before = contents(to.path());
    let ran = tuning(to.path(), &["import", file.to_str().expect("text")]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.contains("skipped onl/Abs/"), "{}", ran.stdout);
    assert_eq!(before, contents(to.path()));
}

#[test]
fn files_that_are_no_export_are_refused_with_their_reason() {
    let folder = saved();
    let before = contents(folder.path());
    let other = tempfile::tempdir().expect("a temporary folder");
    for (name, bytes, reason) in [
        ("empty", &b""[..], "format"),
        ("binary", b"\xff\xfe\0", "UTF-8"),
        ("other text", b"answer = 42\n", "format"),
        ("newer", b"format = 9\n", "newer version"),
        ("duplicate key", b"format = 1\nformat = 1\n", "duplicate"),
    ] {
        let file = other.path().join("file");
        fs::write(&file, bytes).expect("writable");
        let ran = tuning(folder.path(), &["import", file.to_str().expect("text")]);
        assert_eq!(ran.code, Some(1), "{name}");
        assert!(ran.stderr.contains(reason), "{name}: {}", ran.stderr);
    }
    let ran = tuning(folder.path(), &["import", "/no/such/file"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("/no/such/file"));
    assert_eq!(before, contents(folder.path()));
}

#[test]
fn prune_removes_what_is_gone_and_keeps_the_previous_file() {
    let folder = saved();
    let cache = CacheFolder::at(folder.path());
    let mut stale = row("Sigmoid", execution(2), 5);
    stale.key.revision += 40;
    let mut gone = row("Abs", execution(2), 6);
    gone.key.kernel = "Gone".into();
    let mut custom = gone.clone();
    custom.key.library = "custom".into();
    cache.update(&[stale, gone, custom], &[]).expect("writable");
    let before = fs::read(cache.choices_path()).expect("saved");
    let dry = tuning(folder.path(), &["prune", "--dry-run", "--json"]).json();
    assert_eq!(fs::read(cache.choices_path()).expect("saved"), before);
    let done = tuning(folder.path(), &["prune", "--json"]).json();
    assert_eq!(dry["removed"], done["removed"]);
    assert_eq!(
        (list(&done, "removed").len(), list(&done, "kept").len()),
        (2, 1)
    );
    assert_eq!(done["changed"], true);
    assert_eq!(fs::read(cache.previous_path()).expect("kept"), before);
    assert_eq!(cache.load().choices.rows.len(), 4);
    let again = tuning(folder.path(), &["prune"]);
    assert!(
        again.stdout.contains("nothing to remove"),
        "{}",
        again.stdout
    );
}

#[test]
fn prune_by_a_drift_report_acts_on_its_execution_only() {
    let folder = saved();
    let document = tuning(
        folder.path(),
        &["show", "Abs/f32", "--threads", "1", "--json"],
    )
    .json();
    let abs = &list(&document, "kernels")[0];
    let report = serde_json::json!({
        "schema": 1,
        "kind": "drift",
        "execution": document["execution"],
        "kernels": [{
            "key": abs["key"], "revision": abs["revision"], "verdict": "drifted",
            "ratio": { "estimate": 1.04, "lower": 1.02, "upper": 1.06, "confidence": 0.99 },
        }],
    });
    let file = folder.path().join("drift.json");
    fs::write(&file, report.to_string()).expect("writable");
    let file = file.to_str().expect("text");
    let ran = tuning(folder.path(), &["prune", "--drifted", file, "--json"]);
    let removed = ran.json();
    assert_eq!(list(&removed, "removed").len(), 1);
    assert_eq!(
        shown(folder.path(), "Abs", "1")["source"],
        "portable_default"
    );
    assert_eq!(
        shown(folder.path(), "Abs", "2")["source"],
        "exact_execution"
    );
    assert_eq!(
        shown(folder.path(), "Sigmoid", "1")["source"],
        "exact_execution"
    );
    fs::write(file, "{\"schema\": 1, \"kind\": \"baseline\"}").expect("writable");
    let ran = tuning(folder.path(), &["prune", "--drifted", file]);
    assert!(
        ran.code == Some(1) && ran.stderr.contains("drift"),
        "{}",
        ran.stderr
    );
}

#[test]
fn remove_takes_the_rows_of_a_kernel_or_all() {
    let folder = saved();
    let cache = CacheFolder::at(folder.path());
    let unknown = tuning(folder.path(), &["remove", "Nonesuch"]);
    assert_eq!(unknown.code, Some(1));
    assert!(unknown.stderr.contains("no kernel matches"));
    assert_eq!(tuning(folder.path(), &["remove"]).code, Some(2));
    let dry = tuning(folder.path(), &["remove", "Abs", "--dry-run"]);
    assert_eq!(dry.stdout.matches("would remove onl/Abs/").count(), 2);
    assert_eq!(cache.load().choices.rows.len(), 3);
    let done = tuning(folder.path(), &["remove", "Abs"]);
    assert_eq!(done.stdout.matches("removed onl/Abs/").count(), 2);
    assert!(
        done.stderr.contains("choices.toml.previous"),
        "{}",
        done.stderr
    );
    assert_eq!(cache.load().choices.rows.len(), 1);
    let all = tuning(folder.path(), &["remove", "--all", "--json"]).json();
    assert_eq!(list(&all, "removed").len(), 1);
    assert_eq!(cache.load().choices, Choices::default());
    assert_eq!(cache.load().state, FileState::Read);
}

#[test]
fn what_reads_leaves_every_byte_and_time_and_works_where_nothing_can_be_written() {
    let folder = saved();
    let file = tempfile::tempdir().expect("a temporary folder");
    let file = file.path().join("export.toml");
    let file = file.to_str().expect("text");
    assert_eq!(
        tuning(folder.path(), &["export", "--output", file]).code,
        Some(0)
    );
    // A folder in place of the lock fails every writer, the superuser's too.
    fs::remove_file(folder.path().join("choices.lock")).expect("there was a lock");
    fs::create_dir(folder.path().join("choices.lock")).expect("a writable folder");
    let before = contents(folder.path());
    for arguments in [
        &["show"][..],
        &["show", "Abs", "--json"],
        &["path"],
        &["export"],
        &["import", file, "--dry-run"],
        &["prune", "--dry-run"],
        &["remove", "--all", "--dry-run"],
    ] {
        let ran = tuning(folder.path(), arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.stderr);
    }
    for arguments in [&["import", file][..], &["prune"], &["remove", "--all"]] {
        let ran = tuning(folder.path(), arguments);
        assert_eq!(ran.code, Some(1), "{arguments:?}");
        assert!(
            ran.stderr.contains("nothing was saved") && ran.stderr.contains("choices.lock"),
            "{arguments:?}: {}",
            ran.stderr
        );
    }
    assert_eq!(before, contents(folder.path()));
}

#[test]
fn missing_and_unusable_files_are_told_and_left_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let none = folder.path().join("none");
    for arguments in [&["prune"][..], &["remove", "--all"], &["show"]] {
        let ran = tuning(&none, arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.stderr);
        assert!(!none.exists(), "{arguments:?} made a folder");
    }
    assert_eq!(tuning(&none, &["export"]).code, Some(1));
    for bytes in [&b"\xff"[..], b"format = 9\n[[choice]]\n"] {
        fs::write(folder.path().join("choices.toml"), bytes).expect("writable");
        let before = contents(folder.path());
        for arguments in [&["prune"][..], &["remove", "--all"], &["export"]] {
            let ran = tuning(folder.path(), arguments);
            assert_eq!(ran.code, Some(1), "{arguments:?}");
            assert!(ran.stderr.contains("choices.toml"), "{}", ran.stderr);
        }
        assert_eq!(before, contents(folder.path()));
    }
    let own = folder.path().join("choices.toml");
    fs::remove_file(&own).expect("writable");
    let saved = saved();
    let own = saved.path().join("choices.toml");
    let ran = tuning(
        saved.path(),
        &["export", "--output", own.to_str().expect("text")],
    );
    assert!(ran.code == Some(1) && ran.stderr.contains("the choices themselves"));
}

#[test]
fn show_names_the_source_and_why_every_other_row_is_not_taken() {
    let folder = saved();
    let cache = CacheFolder::at(folder.path());
    let mut elsewhere = execution(1);
    elsewhere.vendor = Some("other".to_owned());
    let choices = Choices {
        rows: vec![row("Abs", elsewhere, 9)],
        ..Choices::default()
    };
    let imported = export_profiles(&choices, |_| true, false, &Widening::default()).profiles;
    let isa = CachedProfile {
        selector: CpuSelector {
            architecture: Some(execution(1).architecture),
            ..CpuSelector::default()
        },
        ..imported[0].clone()
    };
    cache
        .modify(|choices| choices.merge_profiles(&[imported[0].clone(), isa]))
        .expect("writable");
    let abs = shown(folder.path(), "Abs", "1");
    assert_eq!(abs["source"], "exact_execution");
    let rejected: Vec<(&str, &str)> = list(&abs, "rejected")
        .iter()
        .map(|r| (r["source"].as_str().unwrap(), r["reason"].as_str().unwrap()))
        .collect();
    let sources: Vec<&str> = rejected.iter().map(|(source, _)| *source).collect();
    assert_eq!(
        sources,
        [
            "exact_execution",
            "selector",
            "instruction_set",
            "portable_default"
        ]
    );
    assert!(
        rejected[0].1.contains("participants: 2, here 1"),
        "{rejected:?}"
    );
    assert!(rejected[1].1.contains("vendor: \"other\""), "{rejected:?}");
    assert!(rejected[2].1.contains("more specific"), "{rejected:?}");
    // Of another execution there is one line for all rows, with the field that differs.
    let other = tuning(folder.path(), &["show", "--threads", "1"]);
    let lines: Vec<&str> = other
        .stderr
        .lines()
        .filter(|line| line.contains("participants: 2, here 1"))
        .collect();
    assert_eq!(lines.len(), 1, "{}", other.stderr);
}

#[test]
fn unknown_keys_and_sections_are_reported_and_outlive_every_change() {
    let folder = saved();
    let path = folder.path().join("choices.toml");
    let text = fs::read_to_string(&path).expect("saved");
    let text = text.replacen("format = 1\n", "format = 1\nnote = \"mine\"\n", 1)
        + "\n[[later]]\nx = 1\n[later.more]\ny = 2\n[[later]]\nx = 1\n";
    fs::write(&path, text).expect("writable");
    let ran = tuning(folder.path(), &["remove", "Abs"]);
    assert_eq!(ran.code, Some(0));
    for part in ["'note'", "'later'"] {
        assert!(ran.stderr.contains(part), "{}", ran.stderr);
    }
    let after = fs::read_to_string(&path).expect("saved");
    assert!(after.contains("\"note\" = \"mine\""), "{after}");
    let table: toml::Table = after.parse().expect("TOML");
    let later = table["later"].as_array().expect("a list");
    assert_eq!(later.len(), 2, "{after}");
    assert_eq!(later[0]["more"]["y"].as_integer(), Some(2));
}

#[test]
fn a_running_session_keeps_its_snapshot_while_another_process_publishes() {
    let folder = saved();
    let model = ModelBuilder::new(17)
        .input("x", ElementType::Float32, &[4])
        .node("Abs", &["x"], &["y"])
        .output("y", ElementType::Float32)
        .bytes();
    let session = || {
        Session::builder()
            .environment(Environment::new(ProfileSource::Folder(
                folder.path().to_owned(),
            )))
            .policy(CpuExecutionPolicy {
                threads: 1,
                ..CpuExecutionPolicy::default()
            })
            .model_bytes(model.clone())
            .build()
            .expect("a sound model")
    };
    let threshold = |session: &Session| {
        let snapshot = session.snapshot();
        let row = snapshot.row(&key("Abs")).expect("registered");
        row.values.integer(THRESHOLD)
    };
    let running = session();
    let id = running.snapshot().id().to_owned();
    assert_eq!(threshold(&running), 1_111);
    // Another process takes the row away.
    assert_eq!(tuning(folder.path(), &["remove", "Abs"]).code, Some(0));
    let input = Tensor::from_slice(&[4], &[-1.0_f32, 2.0, -3.0, 4.0]).expect("four numbers");
    running.run(&[("x", input.into())]).expect("a run");
    assert_eq!(running.snapshot().id(), id);
    assert_eq!(threshold(&running), 1_111);
    let later = session();
    assert_ne!(later.snapshot().id(), id);
    assert_ne!(threshold(&later), 1_111);
}
