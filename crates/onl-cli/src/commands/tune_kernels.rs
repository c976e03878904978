use crate::exit::Exit;
use crate::table::table;
use crate::{Common, commands};
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use onl::tuning::process::{
    Confirmations, KeyResult, Outcome, ProcessError, ProcessRunner, Proposals,
};
use onl::tuning::{
    CalibrationSettings, Calibrator, Controls, MonotonicClock, Progress, RatioInterval,
    SystemEnvironment, calibrate_registered_kernels, measure_lane_costs,
    update_kernel_tuning_cache,
};
use onl::{
    CalibrationTarget, CpuExecutionDescriptor, Environment, ExecutorLaneCosts, KernelKey,
    LaneCosts, ParameterRow, calibration_targets, measure_ceilings,
};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Share of the budget that the first of the two processes gets; the second only confirms what won.
const FIRST_SHARE: f64 = 0.75;
/// Most seconds of one kernel in one process.
const KEY_SECONDS: f64 = 3.0;

#[derive(clap::Args)]
pub struct Arguments {
    /// Measure, and save what was decided.
    #[arg(long)]
    apply: bool,
    /// Only these kernels: Gemm, Gemm/f32 or onl/Gemm/packed/f32; repeat for more.
    #[arg(long = "kernel", value_name = "KEY")]
    kernels: Vec<String>,
    /// Only this element type.
    #[arg(long, value_name = "TYPE")]
    element_type: Option<String>,
    /// Only kernels without a saved choice for this machine and policy.
    #[arg(long)]
    only_missing: bool,
    #[command(flatten)]
    limits: Limits,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args, Clone)]
struct Limits {
    /// Most seconds of measuring, both processes together.
    #[arg(long, default_value_t = 60.0, value_name = "SECONDS", value_parser = positive)]
    budget: f64,
    /// Most mebibytes of inputs and outputs held at once.
    #[arg(long, default_value_t = 512, value_name = "MIB")]
    memory: u64,
}

#[derive(clap::Args)]
pub struct ConfirmArguments {
    #[command(flatten)]
    limits: Limits,
    /// Lane costs of the first process as HOT,COLD nanoseconds.
    #[arg(long, value_parser = costs)]
    lane_costs: LaneCosts,
    #[command(flatten)]
    common: Common,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 && value <= 86_400.0 => Ok(value),
        _ => Err("expected seconds above 0 and at most 86400".to_owned()),
    }
}

fn costs(text: &str) -> Result<LaneCosts, String> {
    let parsed = text
        .split_once(',')
        .and_then(|(hot, cold)| Some((hot.parse().ok()?, cold.parse().ok()?)));
    parsed
        .map(|(hot_ns, cold_ns)| LaneCosts { hot_ns, cold_ns })
        .ok_or_else(|| "expected HOT,COLD".to_owned())
}

/// What both processes calibrate with.
struct Setup {
    environment: Environment,
    execution: CpuExecutionDescriptor,
    targets: Vec<Box<dyn CalibrationTarget>>,
    lane_costs: LaneCosts,
    /// Measured here rather than assumed or handed over.
    measured_costs: Option<LaneCosts>,
    // Targets go before the executor that they run on.
    lease: Arc<onl::ExecutorLease>,
}

impl Setup {
    fn new(common: &Common, given: Option<LaneCosts>, measure: bool) -> Result<Self> {
        let environment = commands::environment(common);
        let resolved = environment.resolve(&commands::policy(common))?;
        for diagnostic in &resolved.diagnostics {
            eprintln!("note: {diagnostic}");
        }
        let execution = resolved.descriptor();
        let lease = environment.lease(&resolved)?;
        let measured_costs = if measure && execution.participants > 1 {
            measure_lane_costs(&ExecutorLaneCosts::new(&lease))
        } else {
            None
        };
        let saved = environment.snapshot(&resolved)?.lane_costs();
        let lane_costs = given.or(measured_costs).unwrap_or(saved);
        let targets = calibration_targets(&environment, &lease, &resolved, lane_costs);
        Ok(Setup {
            environment,
            execution,
            targets,
            lane_costs,
            measured_costs,
            lease,
        })
    }

    fn calibrator<'a>(
        &self,
        clock: &'a MonotonicClock,
        probe: &'a SystemEnvironment,
        limits: &Limits,
        share: f64,
    ) -> Calibrator<'a> {
        let budget = (limits.budget * share * 1e9) as u64;
        let settings = CalibrationSettings {
            total_budget_ns: Some(budget),
            key_budget_ns: (KEY_SECONDS * 1e9) as u64,
            memory_bytes: limits.memory << 20,
            ..CalibrationSettings::default()
        };
        let build = BTreeMap::from([
            ("version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            (
                "profile".to_owned(),
                if cfg!(debug_assertions) {
                    "debug"
                } else {
                    "release"
                }
                .to_owned(),
            ),
        ]);
        Calibrator {
            clock,
            environment: probe,
            settings,
            execution: self.execution.clone(),
            build,
            ceilings: Some(measure_ceilings(&self.lease, &self.execution)),
        }
    }
}

pub fn run(arguments: &Arguments) -> Result<Exit> {
    let setup = Setup::new(&arguments.common, None, arguments.apply)?;
    let resolved = setup
        .environment
        .resolve(&commands::policy(&arguments.common))?;
    for diagnostic in setup.environment.profile_diagnostics(&resolved)? {
        eprintln!("note: {diagnostic}");
    }
    let saved = setup.environment.load_profiles(&resolved)?;
    let has_choice = |key: &KernelKey| saved.as_ref().is_some_and(|s| s.loaded.contains(key));
    let selected: Vec<&dyn CalibrationTarget> = setup
        .targets
        .iter()
        .map(AsRef::as_ref)
        .filter(|t| {
            arguments.kernels.is_empty() || arguments.kernels.iter().any(|k| t.key().matches(k))
        })
        .filter(|t| {
            arguments
                .element_type
                .as_ref()
                .is_none_or(|e| t.key().element_type.name() == e)
        })
        .filter(|t| !arguments.only_missing || !has_choice(t.key()))
        .collect();
    if selected.is_empty() && !arguments.only_missing {
        bail!(
            "no calibratable kernel is selected; `onl inventory --state calibratable` lists them"
        );
    }
    if !arguments.apply {
        return plan(arguments, &setup, &selected, &has_choice);
    }
    let Some(folder) = setup.environment.cache_folder() else {
        bail!("nothing was saved: there is no profile folder; set ONL_TUNING_CACHE");
    };
    // Better now than after a minute of measuring.
    folder.check_writable().context("nothing was saved")?;
    let before: BTreeMap<KernelKey, ParameterRow> = selected
        .iter()
        .map(|t| {
            let row = setup
                .environment
                .registry()
                .explain(t.key(), &setup.execution)
                .map(|e| e.row.values);
            (
                t.key().clone(),
                row.unwrap_or_else(|_| t.schema().defaults()),
            )
        })
        .collect();
    let results = measure(arguments, &setup, &selected)?;
    let decided = |r: &KeyResult| {
        matches!(
            r.outcome,
            Outcome::Promoted { .. } | Outcome::DefaultConfirmed { .. }
        )
    };
    let noisy = results.iter().find_map(|r| match &r.outcome {
        Outcome::TooNoisy { reason } => Some(reason.clone()),
        _ => None,
    });
    if let Some(reason) = noisy.filter(|_| !results.iter().any(decided)) {
        eprintln!("too noisy to decide, nothing was changed: {reason}");
        return Ok(Exit::TooNoisy);
    }
    update_kernel_tuning_cache(folder, &setup.execution, &results, setup.measured_costs)
        .context("nothing was saved")?;
    let fresh = resolve_in_fresh_process(&arguments.common)?;
    report(arguments, &setup, &before, &results, &fresh)?;
    let failed = results
        .iter()
        .any(|r| matches!(r.outcome, Outcome::Failed { .. }));
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

fn plan(
    arguments: &Arguments,
    setup: &Setup,
    selected: &[&dyn CalibrationTarget],
    has_choice: &dyn Fn(&KernelKey) -> bool,
) -> Result<Exit> {
    let seconds = (KEY_SECONDS * selected.len() as f64).min(arguments.limits.budget);
    if arguments.common.json {
        let rows: Vec<serde_json::Value> = selected
            .iter()
            .map(|t| {
                serde_json::json!({
                    "key": t.key().to_string(),
                    "candidates": candidates(*t),
                    "workloads": t.workloads().len(),
                    "saved": has_choice(t.key()),
                })
            })
            .collect();
        let document = serde_json::json!({
            "schema": 1,
            "threads": setup.execution.participants,
            "seconds_at_most": seconds,
            "kernels": rows,
        });
        println!("{}", serde_json::to_string_pretty(&document)?);
    } else {
        let mut rows = table(
            &["key", "candidates", "workloads", "saved choice"],
            &["candidates", "workloads"],
        );
        for target in selected {
            rows.add_row([
                target.key().to_string(),
                candidates(*target).to_string(),
                target.workloads().len().to_string(),
                if has_choice(target.key()) {
                    "yes"
                } else {
                    "no"
                }
                .to_owned(),
            ]);
        }
        println!("{rows}");
        println!(
            "{} kernels, at most {seconds:.0} s of measuring; run again with --apply",
            selected.len()
        );
        eprintln!(
            "{} threads, {} wait",
            setup.execution.participants, setup.execution.wait_mode
        );
    }
    Ok(Exit::Done)
}

fn candidates(target: &dyn CalibrationTarget) -> usize {
    match target.search() {
        onl::Search::Crossover { grid, .. } => grid.len(),
        onl::Search::Candidates(candidates) => candidates.len(),
    }
}

fn measure(
    arguments: &Arguments,
    setup: &Setup,
    selected: &[&dyn CalibrationTarget],
) -> Result<Vec<KeyResult>> {
    let (clock, probe) = (MonotonicClock::new(), SystemEnvironment);
    let calibrator = setup.calibrator(&clock, &probe, &arguments.limits, FIRST_SHARE);
    let cancel = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&cancel);
    ctrlc::set_handler(move || flag.store(true, Ordering::SeqCst))
        .context("Ctrl-C cannot be watched")?;
    let bar = ProgressBar::new(selected.len() as u64);
    bar.set_style(
        ProgressStyle::with_template(
            "{bar:30} {pos}/{len} kernels, {elapsed} of at most {prefix}: {wide_msg}",
        )
        .context("the progress bar has a legal template")?,
    );
    bar.set_prefix(format!("{:.0} s", arguments.limits.budget));
    let mut progress = |p: &Progress<'_>| {
        bar.set_position(p.done as u64);
        bar.set_message(format!("{} {}", p.key, p.step));
    };
    let second = SecondProcess {
        common: &arguments.common,
        limits: &arguments.limits,
        costs: setup.lane_costs,
    };
    let mut controls = Controls {
        progress: Some(&mut progress),
        cancel: Some(&cancel),
    };
    let results = calibrate_registered_kernels(&calibrator, selected, &second, &mut controls);
    bar.finish_and_clear();
    Ok(results)
}

/// Runs the confirmation in a process of its own, started from this very file.
struct SecondProcess<'a> {
    common: &'a Common,
    limits: &'a Limits,
    costs: LaneCosts,
}

impl ProcessRunner for SecondProcess<'_> {
    fn confirm(&self, proposals: &Proposals) -> Result<Confirmations, ProcessError> {
        let failed = |reason: String| ProcessError { reason };
        let request = serde_json::to_vec(proposals).map_err(|e| failed(e.to_string()))?;
        let mut child = myself()
            .map_err(|e| failed(e.to_string()))?
            .arg("confirm-calibration")
            .args(common_arguments(self.common))
            .args([
                "--budget",
                &self.limits.budget.to_string(),
                "--memory",
                &self.limits.memory.to_string(),
            ])
            .arg(format!(
                "--lane-costs={:?},{:?}",
                self.costs.hot_ns, self.costs.cold_ns
            ))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| failed(e.to_string()))?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin
                .write_all(&request)
                .map_err(|e| failed(e.to_string()))?;
        }
        let output = child
            .wait_with_output()
            .map_err(|e| failed(e.to_string()))?;
        if !output.status.success() {
            return Err(failed(format!("it ended with {}", output.status)));
        }
        serde_json::from_slice(&output.stdout).map_err(|e| failed(e.to_string()))
    }
}

/// The second process: reads proposals from stdin and writes what it confirmed to stdout.
pub fn confirm(arguments: &ConfirmArguments) -> Result<Exit> {
    let mut request = Vec::new();
    std::io::stdin().read_to_end(&mut request)?;
    let proposals: Proposals = serde_json::from_slice(&request).context("proposals on stdin")?;
    let setup = Setup::new(&arguments.common, Some(arguments.lane_costs), false)?;
    let targets: Vec<&dyn CalibrationTarget> = setup.targets.iter().map(AsRef::as_ref).collect();
    let (clock, probe) = (MonotonicClock::new(), SystemEnvironment);
    let calibrator = setup.calibrator(&clock, &probe, &arguments.limits, 1.0 - FIRST_SHARE);
    let confirmations = calibrator.confirm(&targets, &proposals, &mut Controls::default());
    println!("{}", serde_json::to_string(&confirmations)?);
    Ok(Exit::Done)
}

/// The command that is running, to be started anew.
fn myself() -> Result<Command> {
    Ok(Command::new(
        std::env::current_exe().context("the command's own file")?,
    ))
}

fn common_arguments(common: &Common) -> Vec<String> {
    vec![
        "--threads".to_owned(),
        common.threads.to_string(),
        "--wait".to_owned(),
        common.wait.to_string(),
        "--affinity".to_owned(),
        common.affinity.to_string(),
        "--denormals".to_owned(),
        common.denormals.to_string(),
    ]
}

/// Source of every tuned key as a fresh process resolves it.
fn resolve_in_fresh_process(common: &Common) -> Result<BTreeMap<String, String>> {
    let output = myself()?
        .args(["tuning", "show", "--json"])
        .args(common_arguments(common))
        .output()
        .context("starting a fresh process")?;
    if !output.status.success() {
        bail!(
            "a fresh process ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let document: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("answer of the fresh process")?;
    let kernels = document["kernels"].as_array().cloned().unwrap_or_default();
    Ok(kernels
        .iter()
        .filter_map(|k| {
            Some((
                k["key"].as_str()?.to_owned(),
                k["source"].as_str()?.to_owned(),
            ))
        })
        .collect())
}

fn report(
    arguments: &Arguments,
    setup: &Setup,
    before: &BTreeMap<KernelKey, ParameterRow>,
    results: &[KeyResult],
    fresh: &BTreeMap<String, String>,
) -> Result<()> {
    let source = |key: &KernelKey| {
        fresh
            .get(&key.to_string())
            .map_or("portable_default", String::as_str)
    };
    let count = |name: &str| results.iter().filter(|r| r.outcome.name() == name).count();
    let resolved = results
        .iter()
        .filter(|r| source(&r.key) == "exact_execution")
        .count();
    if arguments.common.json {
        let rows: Vec<serde_json::Value> = results
            .iter()
            .map(|r| {
                serde_json::json!({
                    "key": r.key.to_string(),
                    "before": before.get(&r.key),
                    "outcome": r.outcome,
                    "source": source(&r.key),
                })
            })
            .collect();
        let document = serde_json::json!({
            "schema": 1,
            "threads": setup.execution.participants,
            "lane_costs": { "hot_ns": setup.lane_costs.hot_ns, "cold_ns": setup.lane_costs.cold_ns },
            "kernels": rows,
        });
        println!("{}", serde_json::to_string_pretty(&document)?);
        return Ok(());
    }
    let mut rows = table(
        &["key", "before", "now", "time ratio", "samples", "source"],
        &["samples"],
    );
    for result in results {
        let empty = ParameterRow::default();
        let old = before.get(&result.key).unwrap_or(&empty);
        let (was, now, ratio, samples) = match &result.outcome {
            Outcome::Promoted {
                values,
                ratio,
                rounds,
                ..
            } => {
                let (was, now) = difference(old, values);
                (was, now, interval(Some(ratio)), rounds.to_string())
            }
            Outcome::DefaultConfirmed {
                ratio,
                rounds,
                values,
                reason,
                ..
            } => {
                let (was, _) = difference(old, values);
                (
                    was,
                    format!("default confirmed: {reason}"),
                    interval(ratio.as_ref()),
                    rounds.to_string(),
                )
            }
            Outcome::Void { .. } => (
                String::new(),
                "void: placebo told apart".to_owned(),
                String::new(),
                String::new(),
            ),
            Outcome::Failed { reason } => (
                String::new(),
                format!("failed: {reason}"),
                String::new(),
                String::new(),
            ),
            Outcome::NotMeasured { reason } | Outcome::TooNoisy { reason } => (
                String::new(),
                format!("not decided: {reason}"),
                String::new(),
                String::new(),
            ),
        };
        rows.add_row([
            result.key.to_string(),
            was,
            now,
            ratio,
            samples,
            source(&result.key).to_owned(),
        ]);
    }
    println!("{rows}");
    println!(
        "{} promoted, {} defaults confirmed, {} not decided; a fresh process resolves {resolved} of {} from \
         exact_execution",
        count("promoted"),
        count("default_confirmed"),
        results.len() - count("promoted") - count("default_confirmed"),
        results.len()
    );
    eprintln!(
        "{} threads, {} wait; lanes cost {} hot and {} parked",
        setup.execution.participants,
        setup.execution.wait_mode,
        crate::table::duration(setup.lane_costs.hot_ns),
        crate::table::duration(setup.lane_costs.cold_ns)
    );
    Ok(())
}

/// The values that differ, before and after.
fn difference(old: &ParameterRow, new: &ParameterRow) -> (String, String) {
    let mut was = Vec::new();
    let mut now = Vec::new();
    for (name, value) in &new.0 {
        if old.get(name) != Some(value) {
            was.push(
                old.get(name)
                    .map_or_else(String::new, |v| format!("{name}={}", shown(v))),
            );
            now.push(format!("{name}={}", shown(value)));
        }
    }
    (was.join("\n"), now.join("\n"))
}

fn shown(value: &onl::ParameterValue) -> String {
    match value {
        onl::ParameterValue::Integer(i64::MAX) => "never".to_owned(),
        other => other.to_string(),
    }
}

fn interval(ratio: Option<&RatioInterval>) -> String {
    ratio.map_or_else(String::new, |r| {
        format!("{:.3} [{:.3}, {:.3}]", r.estimate, r.lower, r.upper)
    })
}
