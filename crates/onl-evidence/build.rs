//! Records which commit is built, for the heads of reports.

use std::path::Path;
use std::process::Command;

/// What goes into the command, from this crate's folder.
const SOURCES: [&str; 4] = [
    "../../crates",
    "../../Cargo.toml",
    "../../Cargo.lock",
    "../../rust-toolchain.toml",
];

fn main() {
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
    }
    // A commit changes neither sources nor their times, but the log of the head.
    for log in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", log])
            && Path::new(&path).exists()
        {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let commit = git(&["rev-parse", "HEAD"]).unwrap_or_default();
    let mut status = vec!["status", "--porcelain", "--"];
    status.extend(SOURCES);
    let dirty = git(&status).is_none_or(|changes| !changes.is_empty());
    let compiler = std::env::var("RUSTC").ok().and_then(|rustc| {
        let output = Command::new(rustc).arg("--version").output().ok()?;
        String::from_utf8(output.stdout).ok()
    });
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    for (name, value) in [
        ("COMMIT", commit),
        ("DIRTY", dirty.to_string()),
        ("COMPILER", compiler.unwrap_or_default().trim().to_owned()),
        ("TARGET", variable("TARGET")),
        ("OPT_LEVEL", variable("OPT_LEVEL")),
        (
            "FLAGS",
            variable("CARGO_ENCODED_RUSTFLAGS").replace('\u{1f}', " "),
        ),
    ] {
        println!("cargo::rustc-env=ONL_BUILD_{name}={value}");
    }
}

/// Output of a git command that succeeded; `None` when it did not or there is no git.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
