//! Tests under an emulated arm64 processor. Shows correctness, never speed, nor faults of weak memory order.

use crate::process;
use anyhow::{Context, Result, bail};
use clap::Args;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "aarch64-unknown-linux-gnu";

/// Name of the toolchain; it has the sources of the standard library, too, where it could be built from them.
pub const TOOLCHAIN: &str = "arm64";

/// Emulated processors, from plain Advanced SIMD to everything.
const LEVELS: [&str; 4] = ["cortex-a53", "cortex-a76", "max,sve=off", "max"];

/// Crates whose bodies depend on the instruction set, and what these stand on.
const PACKAGES: [&str; 9] = [
    "onl-cpu",
    "onl-tensor",
    "onl-simd",
    "onl-executor",
    "onl-gemm",
    "onl-elementwise",
    "onl-reduce",
    "onl-movement",
    "onl-kernels",
];

/// Arguments of `test-arm64`.
#[derive(Args)]
pub struct TestArguments {
    /// Packages to test; the kernel crates and what they stand on by default.
    #[arg(short, long = "package", value_name = "NAME")]
    packages: Vec<String>,
    /// Emulated processors, by the emulator's names; four from the plainest to the fullest by default. Separate repeats.
    #[arg(long = "level", value_name = "CPU")]
    levels: Vec<String>,
    /// Compare digests only, without the other tests.
    #[arg(long)]
    digests_only: bool,
    /// Leave the digests out.
    #[arg(long, conflicts_with = "digests_only")]
    no_digests: bool,
    /// Make the toolchain and stop.
    #[arg(long)]
    setup_only: bool,
    /// Folder that keeps the toolchain [default: onl-arm64 in the user's cache folder].
    #[arg(long, value_name = "DIR")]
    toolchain_folder: Option<PathBuf>,
}

/// Runs `test-arm64`.
pub fn test(arguments: &TestArguments) -> Result<()> {
    make_toolchain(arguments.toolchain_folder.as_deref())?;
    if arguments.setup_only {
        return Ok(());
    }
    let packages = or_default(&arguments.packages, &PACKAGES);
    let levels = or_default(&arguments.levels, &LEVELS);
    if !arguments.digests_only {
        for level in &levels {
            eprintln!("testing on an emulated {level}");
            let mut command = emulated(level);
            command.args(packages.iter().flat_map(|package| ["-p", package.as_str()]));
            process::run(&mut command).with_context(|| format!("tests on an emulated {level}"))?;
        }
    }
    if !arguments.no_digests {
        compare_digests(&levels)?;
    }
    Ok(())
}

/// Makes and links the toolchain unless it is there.
pub fn make_toolchain(folder: Option<&Path>) -> Result<()> {
    let mut setup = Command::new("bash");
    setup
        .arg(process::workspace().join("xtask/arm64.sh"))
        .args(folder);
    process::run(&mut setup).context("the arm64 toolchain could not be made")
}

/// The cargo of the toolchain.
pub fn cargo() -> Command {
    // The toolchain is chosen by the variable: the cargo that runs this task would use its own compiler.
    let mut command = Command::new("cargo");
    command
        .current_dir(process::workspace())
        // Set while a task runs; it would lead the other compiler to this one's libraries.
        .env_remove("LD_LIBRARY_PATH")
        .env_remove("RUSTC")
        .env_remove("RUSTDOC")
        .env_remove("CARGO")
        .env("RUSTUP_TOOLCHAIN", TOOLCHAIN);
    command
}

fn or_default(given: &[String], default: &[&str]) -> Vec<String> {
    if given.is_empty() {
        default.iter().map(ToString::to_string).collect()
    } else {
        given.to_vec()
    }
}

/// `cargo test` for arm64 whose programs run on an emulated `level`.
fn emulated(level: &str) -> Command {
    let workspace = process::workspace();
    let mut command = cargo();
    command
        .env("CARGO_TARGET_DIR", workspace.join("target/arm64"))
        .env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER",
            "aarch64-linux-gnu-gcc",
        )
        .env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER",
            format!("qemu-aarch64-static -cpu {level} -L /usr/aarch64-linux-gnu"),
        )
        .args(["test", "--target", TARGET]);
    command
}

/// Runs the digest tests here and on each level, and requires equal lines.
fn compare_digests(levels: &[String]) -> Result<()> {
    let arguments = [
        "-p",
        "onl-kernels",
        "--test",
        "digests",
        "--",
        "--nocapture",
    ];
    let mut native = process::cargo();
    native.arg("test").args(arguments);
    let here = digests(&process::output(&mut native)?).context("digests of this machine")?;
    let mut different = 0;
    for level in levels {
        let there = digests(&process::output(emulated(level).args(arguments))?)
            .with_context(|| format!("digests on an emulated {level}"))?;
        let differences = differences(&here, &there);
        for difference in &differences {
            eprintln!("{level}: {difference}");
        }
        different += differences.len();
        println!(
            "{level}: {} of {} digests agree",
            here.len() - differences.len().min(here.len()),
            here.len()
        );
    }
    if different > 0 {
        bail!("{different} digests differ between this machine and arm64");
    }
    Ok(())
}

/// Lines `digest PATH HEX` of a test's output. The harness may write the name of a test before the first one.
fn digests(output: &str) -> Result<BTreeMap<String, String>> {
    let mut digests = BTreeMap::new();
    for line in output.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let Some(at) = words.iter().position(|word| *word == "digest") else {
            continue;
        };
        let [path, hex] = words[at + 1..] else {
            bail!("{line:?} is not of the form `digest PATH HEX`")
        };
        if hex.is_empty() || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            bail!("{line:?} is not of the form `digest PATH HEX`");
        }
        if digests
            .insert(path.to_owned(), hex.to_owned())
            .is_some_and(|earlier| earlier != hex)
        {
            bail!("{path} has two digests in one run");
        }
    }
    if digests.is_empty() {
        bail!("the test target `digests` of onl-kernels printed no digest");
    }
    Ok(digests)
}

fn differences(here: &BTreeMap<String, String>, there: &BTreeMap<String, String>) -> Vec<String> {
    let changed = here.iter().filter_map(|(path, hex)| match there.get(path) {
        Some(other) if other == hex => None,
        Some(other) => Some(format!("{path}: {other}, here {hex}")),
        None => Some(format!("{path}: no digest, here {hex}")),
    });
    let new = there
        .keys()
        .filter(|path| !here.contains_key(*path))
        .map(|path| format!("{path}: no digest here"));
    changed.chain(new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_lines_are_found_among_other_output() {
        let output = "\nrunning 1 test\ntest all ... digest add/f32 00ff\ndigest gemm/f32 0a\nok\n\ntest result: ok.\n";
        let found = digests(output).unwrap();
        let found: Vec<(&str, &str)> = found
            .iter()
            .map(|(path, hex)| (path.as_str(), hex.as_str()))
            .collect();
        assert_eq!(found, [("add/f32", "00ff"), ("gemm/f32", "0a")]);
    }

    #[test]
    fn malformed_or_missing_digests_are_errors() {
        let cases = [
            ("none", "test result: ok. 0 passed"),
            ("no value", "digest add/f32"),
            ("no hexadecimal", "digest add/f32 xyz"),
            ("too long", "digest add/f32 00 11"),
            ("two values", "digest add/f32 00\ndigest add/f32 01"),
        ];
        for (case, output) in cases {
            assert!(digests(output).is_err(), "{case}");
        }
        assert!(
            digests("digest add/f32 00\ndigest add/f32 00").is_ok(),
            "the same twice"
        );
    }

    #[test]
    fn every_difference_is_named() {
        let here = digests("digest a 00\ndigest b 01\ndigest c 02").unwrap();
        let there = digests("digest a 00\ndigest b 11\ndigest d 02").unwrap();
        assert_eq!(differences(&here, &here), Vec::<String>::new());
        assert_eq!(
            differences(&here, &there),
            [
                "b: 11, here 01",
                "c: no digest, here 02",
                "d: no digest here"
            ]
        );
    }
}
