//! Commands that look at profiles or use them leave the folder of profiles as it was: names, bytes and times.

use onl::tuning::process::{KeyResult, Outcome};
use onl::tuning::{CacheFolder, KeepReason, update_kernel_tuning_cache};
use onl::{CpuExecutionPolicy, Environment, ProfileSource, current_execution_descriptor};
use onl_snapshot::SizeDomain;
use onl_tensor::ElementType;
use onl_tests::{ModelBuilder, onl, run};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Bytes of a file, `None` of a folder, and the time of the last change.
type Contents = BTreeMap<PathBuf, (Option<Vec<u8>>, SystemTime)>;

fn contents(path: &Path) -> Contents {
    let mut found = Contents::new();
    let Ok(metadata) = std::fs::metadata(path) else {
        return found;
    };
    let modified = metadata.modified().expect("the system keeps times");
    if metadata.is_dir() {
        found.insert(path.to_owned(), (None, modified));
        for entry in std::fs::read_dir(path).expect("a readable folder") {
            found.extend(contents(&entry.expect("an entry").path()));
        }
    } else {
        let bytes = std::fs::read(path).expect("a readable file");
        found.insert(path.to_owned(), (Some(bytes), modified));
    }
    found
}

/// A confirmed default for some kernels, as a calibration saves it.
fn save_some(folder: &Path) {
    let environment = Environment::new(ProfileSource::None);
    let execution = current_execution_descriptor(&environment, &CpuExecutionPolicy::default())
        .expect("a policy");
    let results: Vec<KeyResult> = environment
        .table()
        .entries()
        .iter()
        .filter(|entry| ["Abs", "Add"].contains(&entry.op_type))
        .filter(|entry| entry.element_types.contains(&ElementType::Float32))
        .map(|entry| {
            let key = entry.key(ElementType::Float32);
            let values = environment.schema(&key).expect("registered").defaults();
            let outcome = Outcome::DefaultConfirmed {
                values,
                domain: SizeDomain::ALL,
                reason: KeepReason::BelowMargin,
                ratio: None,
                rounds: 20,
            };
            KeyResult {
                key,
                outcome,
                evidence: Vec::new(),
            }
        })
        .collect();
    assert_eq!(results.len(), 2);
    update_kernel_tuning_cache(&CacheFolder::at(folder), &execution, &results, None)
        .expect("a writable folder");
}

/// Whether the built command has a subcommand or an option.
fn has(arguments: &[&str], word: &str) -> bool {
    let help = onl()
        .args(arguments)
        .arg("--help")
        .output()
        .expect("the command starts");
    help.status.success() && String::from_utf8_lossy(&help.stdout).contains(word)
}

/// Command lines that must not write profiles, with the exit codes that are no failure.
fn commands(model: &str, output: &str, export: &str) -> Vec<(Vec<String>, &'static [i32])> {
    let mut commands: Vec<(Vec<&str>, &'static [i32])> = vec![
        (vec!["inventory"], &[0]),
        (vec!["inventory", "--json"], &[0]),
        (vec!["run", model], &[0]),
        (vec!["run", model, "--output", output], &[0]),
        (
            vec!["bench", model, "--warmup", "1", "--min-time", "0.01"],
            &[0],
        ),
        (vec!["profile", model, "--runs", "3"], &[0]),
        (vec!["tuning", "show"], &[0]),
        (vec!["tuning", "show", "Abs/f32", "--json"], &[0]),
        (vec!["tuning", "path"], &[0]),
        (vec!["tune-kernels"], &[0]),
        (vec!["tune-kernels", "--only-missing", "--json"], &[0]),
    ];
    // Without a saved row for this machine there is nothing to export.
    let tuning = [
        (
            "export",
            "--output",
            vec!["tuning", "export", "--output", export],
        ),
        ("prune", "--dry-run", vec!["tuning", "prune", "--dry-run"]),
        (
            "remove",
            "--dry-run",
            vec!["tuning", "remove", "Abs", "--dry-run"],
        ),
    ];
    for (action, option, words) in tuning {
        if has(&["tuning"], action) && has(&["tuning", action], option) {
            commands.push((words, &[0, 1]));
        }
    }
    // A machine that is too noisy to measure ends these with 3.
    let baseline = [
        (
            "--op",
            vec!["kernel-baseline", "--op", "Abs", "--repeat", "1"],
        ),
        ("--check", vec!["kernel-baseline", "--check"]),
    ];
    for (option, words) in baseline {
        if has(&[], "kernel-baseline") && has(&["kernel-baseline"], option) {
            commands.push((words, &[0, 3]));
        }
    }
    commands
        .into_iter()
        .map(|(words, codes)| (words.into_iter().map(str::to_owned).collect(), codes))
        .collect()
}

/// Runs all commands on a folder and compares it after each.
fn leave_untouched(name: &str, folder: &Path) {
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let model = scratch.path().join("model.onnx");
    let bytes = ModelBuilder::new(17)
        .input("x", ElementType::Float32, &[4096])
        .node("Abs", &["x"], &["a"])
        .node("Add", &["a", "x"], &["y"])
        .output("y", ElementType::Float32)
        .bytes();
    std::fs::write(&model, bytes).expect("the folder is writable");
    let model = model.display().to_string();
    let [output, export] =
        ["out", "export.toml"].map(|name| scratch.path().join(name).display().to_string());
    let before = contents(folder);
    for (arguments, codes) in commands(&model, &output, &export) {
        let done = onl()
            .current_dir(scratch.path())
            .env("ONL_TUNING_CACHE", folder)
            .args(&arguments)
            .output()
            .expect("the command starts");
        let code = done.status.code();
        assert!(
            code.is_some_and(|code| codes.contains(&code)),
            "{name}: {arguments:?} ended with {code:?}\n{}",
            String::from_utf8_lossy(&done.stderr)
        );
        assert_eq!(contents(folder), before, "{name}: {arguments:?}");
    }
}

#[test]
fn a_saved_profile_keeps_its_bytes_and_times() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    save_some(folder.path());
    assert!(contents(folder.path()).len() > 2, "something was saved");
    leave_untouched("saved", folder.path());
}

#[test]
fn a_damaged_profile_keeps_its_bytes_and_times() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    save_some(folder.path());
    let choices = folder.path().join("choices.toml");
    std::fs::write(&choices, [b'\xff', b'[', 0]).expect("the folder is writable");
    leave_untouched("damaged", folder.path());
}

#[test]
fn no_folder_is_made() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    let folder = parent.path().join("not").join("there");
    leave_untouched("missing", &folder);
    assert_eq!(contents(&folder), Contents::new());
    assert_eq!(contents(parent.path()).len(), 1, "only the parent itself");
}

/// Where modes bind the user of the test, a folder without the right to write is no obstacle; the superuser, whom they
/// do not bind, changes nothing in it either.
#[cfg(unix)]
#[test]
fn a_folder_without_the_right_to_write_is_enough() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a temporary folder");
    save_some(folder.path());
    let set = |mode| {
        let folders = contents(folder.path())
            .into_iter()
            .filter(|(_, (bytes, _))| bytes.is_none());
        for (path, _) in folders {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("it is ours");
        }
    };
    set(0o555);
    leave_untouched("read-only", folder.path());
    set(0o755);
}

#[test]
fn the_path_is_printed_and_nothing_made() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    let folder = parent.path().join("tuning");
    let text = run(onl()
        .env("ONL_TUNING_CACHE", &folder)
        .args(["tuning", "path"]));
    assert_eq!(text.trim(), folder.display().to_string());
    assert!(!folder.exists());
}
