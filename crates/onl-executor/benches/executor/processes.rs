//! Copies of this program and other programs that measure in a process of their own.
//!
//! A measuring process prints lines of a label and numbers, parted by tabs.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::{Child, Command, Stdio};

/// First argument of a copy of this program.
pub(crate) const CHILD: &str = "--child";

/// What measuring processes printed: the numbers of each label.
pub(crate) type Samples = BTreeMap<String, Vec<f64>>;

/// A copy of this program.
pub(crate) fn own(arguments: &[&str]) -> Result<Command, String> {
    let program = std::env::current_exe().map_err(|error| format!("own program: {error}"))?;
    let mut command = Command::new(program);
    command.arg(CHILD).args(arguments);
    Ok(command)
}

/// Hands numbers to the parent.
pub(crate) fn emit(label: &str, numbers: &[f64]) {
    let mut line = label.to_owned();
    for number in numbers {
        // Writing into a string does not fail.
        let _ = write!(line, "\t{number}");
    }
    println!("{line}");
}

/// Runs a measuring process to its end and adds its numbers to `samples`.
pub(crate) fn collect(mut command: Command, samples: &mut Samples) -> Result<(), String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{}: {error}", command.get_program().to_string_lossy()))?;
    add_numbers(&output, samples)
}

/// As [`collect`], for a process that was started with its output piped.
pub(crate) fn collect_child(child: Child, samples: &mut Samples) -> Result<(), String> {
    let output = child
        .wait_with_output()
        .map_err(|error| format!("waiting for a measuring process: {error}"))?;
    add_numbers(&output, samples)
}

fn add_numbers(output: &std::process::Output, samples: &mut Samples) -> Result<(), String> {
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{} ({})", reason.trim(), output.status));
    }
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let mut cells = line.split('\t');
        let label = cells.next().unwrap_or_default();
        let numbers: Result<Vec<f64>, _> = cells.map(str::parse).collect();
        let numbers =
            numbers.map_err(|error| format!("a measuring process printed '{line}': {error}"))?;
        samples.entry(label.to_owned()).or_default().extend(numbers);
    }
    Ok(())
}

/// A process that runs until this is dropped. It also sees its input end when this process dies.
pub(crate) struct Background(Child);

impl Background {
    pub(crate) fn start(mut command: Command) -> Result<Self, String> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .map(Background)
            .map_err(|error| format!("{}: {error}", command.get_program().to_string_lossy()))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
