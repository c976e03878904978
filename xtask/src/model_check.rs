//! Model checks of the executor: every model as the source is written, then with each point of the protocol weakened.
//!
//! The models are unit tests of `onl-executor` that exist under `cfg(loom)` or `cfg(shuttle)` only. The test
//! `models::weakenings` prints which model must fail when which points are weakened by the variable `ONL_WEAKENED`.

use crate::process;
use anyhow::{Context, Result, bail};
use clap::Args;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const PACKAGE: &str = "onl-executor";
const CHECKERS: [&str; 2] = ["loom", "shuttle"];
/// The test that prints the weakenings; every other one of the module is a model.
const WEAKENINGS: &str = "models::weakenings";

/// Arguments of `model-check`.
#[derive(Args)]
pub struct ModelArguments {
    /// Check only models whose name contains this.
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    model: String,
    /// Leave the runs with weakened points out.
    #[arg(long)]
    no_weakening: bool,
    /// Seconds after which a model counts as undecided.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    limit: u64,
}

/// What one run of a model showed.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Passed,
    /// With what the checker said.
    Failed(String),
    /// With the reason.
    Undecided(String),
}

/// Runs `model-check`.
pub fn check(arguments: &ModelArguments) -> Result<()> {
    let limit = Duration::from_secs(arguments.limit);
    let mut wrong = Vec::new();
    println!(
        "{:<8} {:<30} {:<18} {:>7}  result",
        "checker", "model", "weakened", "time"
    );
    for checker in CHECKERS {
        let program = build(checker)?;
        let listed = process::output(Command::new(&program).args(["--list", "models::"]))?;
        let models = models(&listed);
        let printed =
            process::output(Command::new(&program).args(["--exact", WEAKENINGS, "--nocapture"]))?;
        let weakenings = weakenings(&printed, &models)?;
        let as_written = models.iter().map(|model| (String::new(), model.clone()));
        let weakened = weakenings.into_iter().filter(|_| !arguments.no_weakening);
        for (points, model) in as_written.chain(weakened) {
            if !model.contains(&arguments.model) {
                continue;
            }
            let started = Instant::now();
            let verdict = run(&program, &model, &points, limit)?;
            let (right, shown) = judge(&points, &verdict);
            println!(
                "{checker:<8} {:<30} {:<18} {:>5.1} s  {shown}",
                model.trim_start_matches("models::"),
                if points.is_empty() { "-" } else { &points },
                started.elapsed().as_secs_f64(),
            );
            if !right {
                wrong.push(format!("{checker} {model} {points}: {shown}"));
            }
        }
    }
    if !wrong.is_empty() {
        bail!("model checks went wrong:\n{}", wrong.join("\n"));
    }
    Ok(())
}

/// Builds the models for a checker and gives the test program.
fn build(checker: &str) -> Result<PathBuf> {
    let mut command = process::cargo();
    command
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", format!("--cfg {checker}"))
        .args(["test", "--package", PACKAGE, "--lib", "--release"])
        .args(["--quiet", "--no-run", "--message-format=json"])
        .arg("--target-dir")
        .arg(process::workspace().join("target").join(checker));
    let messages = process::output(&mut command)?;
    executable(&messages).with_context(|| format!("cargo built no test of {PACKAGE}"))
}

/// The test program among cargo's messages.
fn executable(messages: &str) -> Option<PathBuf> {
    messages.lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let is_test = message["profile"]["test"].as_bool()?;
        let path = message["executable"].as_str()?;
        is_test.then(|| PathBuf::from(path))
    })
}

/// Names of the models in a list of tests.
fn models(listed: &str) -> Vec<String> {
    listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .filter(|name| *name != WEAKENINGS)
        .map(str::to_owned)
        .collect()
}

/// Lines `weaken POINTS MODEL` as points and model.
fn weakenings(printed: &str, models: &[String]) -> Result<Vec<(String, String)>> {
    let mut weakenings = Vec::new();
    for line in printed.lines() {
        // The harness may write the name of the test before the first line.
        let Some(at) = line.find("weaken ") else {
            continue;
        };
        let words: Vec<&str> = line[at..].split_ascii_whitespace().collect();
        let [_, points, model] = words[..] else {
            bail!("{line:?} is not of the form `weaken POINTS MODEL`")
        };
        let model = format!("models::{model}");
        if !models.contains(&model) {
            bail!("{points} is to be found by {model}, which does not exist");
        }
        weakenings.push((points.to_owned(), model));
    }
    if weakenings.is_empty() {
        bail!("{WEAKENINGS} printed no line `weaken POINTS MODEL`");
    }
    Ok(weakenings)
}

/// Whether a verdict is the wanted one, and the verdict in words.
fn judge(points: &str, verdict: &Verdict) -> (bool, String) {
    match (points.is_empty(), verdict) {
        (true, Verdict::Passed) => (true, "holds".to_owned()),
        (true, Verdict::Failed(said)) => (false, format!("FAILS: {said}")),
        (false, Verdict::Passed) => (false, "NOT FOUND".to_owned()),
        (false, Verdict::Failed(said)) => (true, format!("found: {said}")),
        (_, Verdict::Undecided(reason)) => (false, format!("UNDECIDED: {reason}")),
    }
}

/// Runs one model. The output of a failing run as written is shown: it says how to repeat it.
fn run(program: &Path, model: &str, points: &str, limit: Duration) -> Result<Verdict> {
    let mut file = tempfile::tempfile().context("a file for the output of a model")?;
    let mut command = Command::new(program);
    command
        .args(["--exact", model, "--nocapture"])
        .env("ONL_WEAKENED", points)
        .env("RUST_BACKTRACE", "0")
        .stdout(file.try_clone()?)
        .stderr(file.try_clone()?)
        .stdin(Stdio::null());
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start {}", process::shown(&command)))?;
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if started.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(Verdict::Undecided(format!("no end after {limit:?}")));
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let mut output = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut output)?;
    let output = String::from_utf8_lossy(&output);
    let verdict = verdict(status, &output);
    if points.is_empty() && verdict != Verdict::Passed {
        eprintln!("{output}");
    }
    Ok(verdict)
}

fn verdict(status: ExitStatus, output: &str) -> Verdict {
    let said = first_panic(output);
    if status.success() {
        if output.contains("test result: ok. 1 passed") {
            Verdict::Passed
        } else {
            Verdict::Undecided("the model did not run".to_owned())
        }
    } else if said.is_some_and(|said| said.contains("exceeded maximum number of branches")) {
        // loom's way to say that an execution is too long, which proves nothing.
        Verdict::Undecided("executions are too long".to_owned())
    } else {
        Verdict::Failed(said.map_or_else(|| status.to_string(), str::to_owned))
    }
}

/// The first line of what the first panic said.
fn first_panic(output: &str) -> Option<&str> {
    let mut lines = output
        .lines()
        .skip_while(|line| !(line.starts_with("thread ") && line.contains(" panicked at ")));
    lines.next()?;
    lines.map(str::trim).find(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_and_weakenings_are_read_from_the_test_program() {
        let models = models(
            "models::pool::stop: test\nmodels::weakenings: test\nmodels::told: test\n\n3 tests, 0 benchmarks\n",
        );
        assert_eq!(models, ["models::pool::stop", "models::told"]);
        let printed = "\nrunning 1 test\ntest models::weakenings ... weaken A pool::stop\nweaken B+C told\nok\n";
        let pair = |points: &str, model: &str| (points.to_owned(), model.to_owned());
        assert_eq!(
            weakenings(printed, &models).unwrap(),
            [pair("A", "models::pool::stop"), pair("B+C", "models::told")]
        );
        for bad in ["", "weaken A", "weaken A pool::start", "weaken A B told"] {
            assert!(weakenings(bad, &models).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn test_programs_are_told_from_libraries() {
        let library =
            r#"{"reason":"compiler-artifact","profile":{"test":false},"executable":null}"#;
        let test = r#"{"reason":"compiler-artifact","profile":{"test":true},"executable":"/a/b"}"#;
        assert_eq!(
            executable(&format!("{library}\nnoise\n{test}")),
            Some(PathBuf::from("/a/b"))
        );
        assert_eq!(executable(library), None);
    }

    #[test]
    fn only_a_found_weakening_and_a_holding_model_are_right() {
        let failed = || Verdict::Failed("deadlock".to_owned());
        let undecided = || Verdict::Undecided("slow".to_owned());
        for (points, verdict, right) in [
            ("", Verdict::Passed, true),
            ("", failed(), false),
            ("", undecided(), false),
            ("Open", Verdict::Passed, false),
            ("Open", failed(), true),
            ("Open", undecided(), false),
        ] {
            assert_eq!(judge(points, &verdict).0, right, "{points:?} {verdict:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn verdicts_need_a_model_that_ran() {
        use std::os::unix::process::ExitStatusExt;
        let (success, failure) = (ExitStatus::from_raw(0), ExitStatus::from_raw(101 << 8));
        let ran = "test result: ok. 1 passed; 0 failed";
        assert_eq!(verdict(success, ran), Verdict::Passed);
        let none = "test result: ok. 0 passed; 0 failed";
        assert!(matches!(verdict(success, none), Verdict::Undecided(_)));
        let panicked = "failing seed\nthread 'm' (1) panicked at a.rs:1:2:\n\ndeadlock; threads\n";
        assert_eq!(
            verdict(failure, panicked),
            Verdict::Failed("deadlock; threads".to_owned())
        );
        let long = "thread 'm' panicked at a.rs:1:2:\nModel exceeded maximum number of branches.\n";
        assert!(matches!(verdict(failure, long), Verdict::Undecided(_)));
    }
}
