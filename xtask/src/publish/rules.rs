//! What is refused.

use super::input::{Input, Kind};
use crate::process;
use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// Findings that a message lists before it only counts.
const LISTED: usize = 8;

/// Reasons to refuse a report that can be seen without deciding anything again.
pub fn refusals(input: &Input) -> Vec<String> {
    let mut reasons = structure(input);
    if reasons.is_empty() {
        reasons = origin(input);
        reasons.extend(gaps(input));
    }
    reasons
}

/// Compares the document with the committed schema of its kind.
fn structure(input: &Input) -> Vec<String> {
    let schema: Value = match serde_json::from_str(input.kind.schema()) {
        Ok(schema) => schema,
        Err(error) => return vec![format!("the committed schema is not JSON: {error}")],
    };
    let known = &schema["$defs"]["head"]["properties"]["schema"]["const"];
    let found = input.head().schema;
    if known.as_u64() != Some(found) {
        return vec![format!(
            "its structure is version {found}, published are reports of version {known}; make it again with the present \
             onl"
        )];
    }
    let validator = match jsonschema::draft202012::new(&schema) {
        Ok(validator) => validator,
        Err(error) => return vec![format!("the committed schema is not legal: {error}")],
    };
    let errors: Vec<String> = validator
        .iter_errors(&input.document)
        .map(|error| match error.instance_path().to_string() {
            top if top.is_empty() => format!("at the top: {error}"),
            path => format!("at {path}: {error}"),
        })
        .collect();
    listed(errors)
}

/// Who measured, and on what.
fn origin(input: &Input) -> Vec<String> {
    let head = input.head();
    let build = &head.build;
    let mut reasons = Vec::new();
    let hexadecimal =
        build.commit.len() == 40 && build.commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !hexadecimal {
        reasons.push(format!(
            "its build names no commit ('{}'); build in a clone of the repository",
            build.commit
        ));
    } else if !is_known(&build.commit) {
        reasons.push(format!(
            "its commit {} is not in this repository; fetch it, or measure a commit that is",
            build.commit
        ));
    }
    if build.dirty {
        reasons.push(
            "its build had changes that no commit holds; commit them, build and measure again"
                .to_owned(),
        );
    }
    if build.profile != "release" {
        reasons.push(format!(
            "it was measured by a {} build, whose times say nothing; build with --release",
            build.profile
        ));
    }
    if head.emulated {
        reasons.push(
            "it was measured on an emulated processor: that shows correctness, never speed"
                .to_owned(),
        );
    }
    let architecture = head.architecture();
    if head.execution["architecture"].as_str() != Some(architecture)
        || !build.target.starts_with(architecture)
    {
        reasons.push(format!(
            "processor, execution and build are of different architectures: {architecture}, {}, {}",
            head.execution["architecture"], build.target
        ));
    }
    reasons
}

/// Whether the repository has a commit.
fn is_known(commit: &str) -> bool {
    let mut git = Command::new("git");
    git.current_dir(process::workspace())
        .args(["cat-file", "-e", &format!("{commit}^{{commit}}")])
        .stderr(Stdio::null());
    git.status().is_ok_and(|status| status.success())
}

/// What a published report of the kind has and this one does not.
fn gaps(input: &Input) -> Vec<String> {
    let document = &input.document;
    let empty = |value: &Value| value.as_array().is_none_or(Vec::is_empty);
    let mut reasons = Vec::new();
    match input.kind {
        Kind::Baseline => {
            if !empty(&document["settings"]["operators"]) {
                reasons.push(
                    "it holds selected operators only; run kernel-baseline without --op".to_owned(),
                );
            }
            if empty(&document["cases"]) {
                reasons.push("it has no cases".to_owned());
            }
            if empty(&document["models"]) {
                reasons.push(
                    "it has no models, so nothing is ranked; give kernel-baseline the models"
                        .to_owned(),
                );
            }
        }
        Kind::Calibration => {
            let selection = &document["selection"];
            if !empty(&selection["kernels"])
                || !selection["element_type"].is_null()
                || selection["only_missing"] == true
            {
                reasons.push(
                    "it holds selected kernels only; run tune-kernels --apply without --kernel, --element-type and \
                     --only-missing"
                        .to_owned(),
                );
            }
            let kernels = document["kernels"].as_array();
            let unsettled: Vec<String> = kernels
                .into_iter()
                .flatten()
                .filter(|kernel| {
                    kernel["outcome"]["not_measured"].is_object() || empty(&kernel["evidence"])
                })
                .map(|kernel| kernel_name(&kernel["key"]))
                .collect();
            if !unsettled.is_empty() {
                reasons.push(format!(
                    "{} kernels were not measured ({}); go on with tune-kernels --apply --resume and a larger --budget",
                    unsettled.len(),
                    listed(unsettled).join(", ")
                ));
            }
        }
        Kind::Attribution => {
            if empty(&document["models"]) {
                reasons.push("it has no models".to_owned());
            }
        }
    }
    reasons
}

/// A kernel key as command lines take it.
pub fn kernel_name(key: &Value) -> String {
    let part = |name: &str| key[name].as_str().unwrap_or("?").to_owned();
    ["library", "kernel", "implementation", "element_type"]
        .map(part)
        .join("/")
}

/// What `onl check-report` finds: everything that does not follow from the samples, and every missing case.
///
/// # Errors
/// When the command cannot be run or says nothing.
pub fn recomputed(input: &Input, onl: &Path) -> Result<Vec<String>> {
    #[derive(Deserialize)]
    struct Checked {
        findings: Vec<Finding>,
    }
    #[derive(Deserialize)]
    struct Finding {
        place: String,
        problem: String,
    }
    let mut command = Command::new(onl);
    command.arg("check-report").arg("--json").arg(&input.path);
    let output = command
        .output()
        .with_context(|| format!("cannot start {}", process::shown(&command)))?;
    if output.stdout.is_empty() {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Ok(vec![format!("onl cannot check it: {why}")]);
    }
    let checked: Checked = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("the answer of {}", process::shown(&command)))?;
    let findings = checked.findings.into_iter();
    let findings: Vec<String> = findings
        .map(|f| format!("{}: {}", f.place, f.problem))
        .collect();
    if findings.is_empty() && !output.status.success() {
        return Ok(vec![format!(
            "onl check-report ended with {} and named no finding",
            output.status
        )]);
    }
    Ok(listed(findings))
}

fn listed(mut all: Vec<String>) -> Vec<String> {
    let more = all.len().saturating_sub(LISTED);
    all.truncate(LISTED);
    if more > 0 {
        all.push(format!("and {more} more"));
    }
    all
}
