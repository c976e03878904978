//! What the tests that cross crates share: the built command, fetched models, and onnxruntime as reference.

#![forbid(unsafe_code)]

mod build;
mod planted;

pub use build::ModelBuilder;
pub use planted::{grain_table, ignoring_table, planted_table, secretly_parallel_table};

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Release of onnxruntime that models are compared with.
pub const ONNXRUNTIME: &str = "onnxruntime==1.32.0";
/// Release of numpy that its reference script uses.
pub const NUMPY: &str = "numpy==2.2.6";

/// Top folder of the workspace.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the package lies in the workspace")
        .to_owned()
}

/// Folder of build products.
pub fn target() -> PathBuf {
    let executable = std::env::current_exe().expect("a test has a path");
    let folder = executable
        .ancestors()
        .find(|p| p.join("CACHEDIR.TAG").exists());
    folder.map_or_else(|| workspace().join("target"), Path::to_owned)
}

/// Folder of this build's programs: `debug` or `release` within [`target`].
fn programs() -> PathBuf {
    let executable = std::env::current_exe().expect("a test has a path");
    let tests = executable.parent().expect("a test lies in a folder");
    tests
        .parent()
        .expect("tests lie in a folder of the build")
        .to_owned()
}

/// The built `onl` command. `cargo test --workspace` and `cargo test -p onl-cli -p onl-tests` build it beside the tests; it is
/// built here only when there is none.
pub fn onl() -> Command {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let path = BUILT.get_or_init(|| {
        let path = programs().join(format!("onl{}", std::env::consts::EXE_SUFFIX));
        if !path.exists() {
            let mut build = Command::new(env!("CARGO"));
            build
                .current_dir(workspace())
                .args(["build", "--quiet", "--package", "onl-cli"]);
            if !cfg!(debug_assertions) {
                build.arg("--release");
            }
            run(&mut build);
        }
        path
    });
    Command::new(path)
}

/// Path of a model of the list in `tests/models/models.json`, fetched when it is not there yet.
pub fn model(name: &str) -> PathBuf {
    let path = target().join("models").join(format!("{name}.onnx"));
    fetch(name, &path);
    path
}

/// Path of the library of ONNX Runtime, fetched when it is not there yet. `onl attribute` looks for it there.
pub fn onnxruntime_library() -> PathBuf {
    let path = target().join("onnxruntime/libonnxruntime.so.1.32.0");
    fetch("onnxruntime", &path);
    path
}

/// Fetches a file of this name to its path, unless it is there.
fn fetch(name: &str, path: &Path) {
    static FETCHING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = FETCHING.lock().unwrap_or_else(PoisonError::into_inner);
    if !path.exists() {
        let folder = target().join("models");
        run(Command::new(env!("CARGO"))
            .current_dir(workspace())
            .args([
                "run",
                "--quiet",
                "--package",
                "xtask",
                "--",
                "fetch-models",
                name,
                "--folder",
            ])
            .arg(folder));
    }
}

/// Python of a virtual environment with the pinned onnxruntime; made when it is not there yet.
pub fn reference_python() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let folder = target().join("reference-venv");
        let python = folder.join("bin").join("python");
        let complete = folder.join("complete");
        let wanted = format!("{ONNXRUNTIME} {NUMPY}");
        if std::fs::read_to_string(&complete).is_ok_and(|have| have == wanted) {
            return python;
        }
        run(Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(&folder));
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", ONNXRUNTIME, NUMPY]));
        std::fs::write(&complete, wanted).expect("the new environment is writable");
        python
    })
    .clone()
}

/// Runs a command and panics with its output when it fails.
pub fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?} ended with {}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
