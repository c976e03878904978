//! What a calibration works with: environment, execution identity, targets, build.

use crate::{Common, commands};
use anyhow::{Context, Result, bail};
use onl::tuning::{
    CalibrationSettings, Calibrator, Ceilings, Clock, EnvironmentProbe, LoadOutcome,
    measure_lane_costs,
};
use onl::{
    CalibrationTarget, CpuExecutionDescriptor, Environment, ExecutorLaneCosts, KernelKey,
    LaneCosts, ResolvedCpuExecutionPolicy, calibration_targets, measure_ceilings,
};
use onl_evidence::calibration::CalibrationSelection;
use onl_evidence::report::BuildInfo;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Most seconds of one kernel in one process.
pub const KEY_SECONDS: f64 = 3.0;

/// Which kernels.
#[derive(clap::Args, Clone)]
pub struct Selection {
    /// Only these kernels: Gemm, Gemm/f32 or onl/Gemm/packed/f32; repeat for more.
    #[arg(long = "kernel", value_name = "KEY")]
    pub kernels: Vec<String>,
    /// Only this element type.
    #[arg(long, value_name = "TYPE")]
    pub element_type: Option<String>,
}

impl Selection {
    /// Whether a key is selected.
    pub fn holds(&self, key: &KernelKey) -> bool {
        self.of_report(false).holds(key)
    }

    /// The selection as reports hold it.
    pub fn of_report(&self, only_missing: bool) -> CalibrationSelection {
        CalibrationSelection {
            kernels: self.kernels.clone(),
            element_type: self.element_type.clone(),
            only_missing,
        }
    }

    /// The selection in words that are equal when it is.
    pub fn words(&self) -> Vec<String> {
        let mut kernels = self.kernels.clone();
        kernels.sort();
        kernels.dedup();
        let kernels = kernels.iter().map(|k| format!("--kernel {k}"));
        let element_type = self.element_type.iter();
        kernels
            .chain(element_type.map(|t| format!("--element-type {t}")))
            .collect()
    }
}

/// How much may be used.
#[derive(clap::Args, Clone)]
pub struct Limits {
    /// Most seconds of measuring, both processes together.
    #[arg(long, default_value_t = 150.0, value_name = "SECONDS", value_parser = positive)]
    pub budget: f64,
    /// Most mebibytes of inputs and outputs held at once.
    #[arg(long, default_value_t = 512, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub memory: u64,
}

pub fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 && value <= 86_400.0 => Ok(value),
        _ => Err("expected seconds above 0 and at most 86400".to_owned()),
    }
}

/// An executor of the policy, and what is saved for it.
pub struct Setup {
    pub environment: Environment,
    pub resolved: ResolvedCpuExecutionPolicy,
    pub execution: CpuExecutionDescriptor,
    pub saved: Option<Arc<LoadOutcome>>,
    pub lease: Arc<onl::ExecutorLease>,
}

impl Setup {
    pub fn new(common: &Common) -> Result<Self> {
        let environment = commands::environment(common);
        let resolved = environment.resolve(&commands::policy(common))?;
        for diagnostic in &resolved.diagnostics {
            eprintln!("note: {diagnostic}");
        }
        let lease = environment.lease(&resolved)?;
        let saved = environment.load_profiles(&resolved)?;
        Ok(Setup {
            execution: resolved.descriptor(),
            environment,
            resolved,
            saved,
            lease,
        })
    }

    /// Says what is wrong with saved profiles.
    pub fn print_diagnostics(&self) -> Result<()> {
        for diagnostic in self.environment.profile_diagnostics(&self.resolved)? {
            eprintln!("note: {diagnostic}");
        }
        Ok(())
    }

    /// Whether a choice for a key is saved and in use.
    pub fn has_choice(&self, key: &KernelKey) -> bool {
        self.saved.as_ref().is_some_and(|s| s.loaded.contains(key))
    }

    /// Lane costs that sessions use now.
    pub fn saved_lane_costs(&self) -> Result<LaneCosts> {
        Ok(self.environment.snapshot(&self.resolved)?.lane_costs())
    }

    /// What a region costs beyond its work; `None` with one lane.
    pub fn lane_cost_probe(&self) -> Option<ExecutorLaneCosts<'_>> {
        let several = self.execution.participants > 1;
        several.then(|| ExecutorLaneCosts::new(&self.lease))
    }

    /// Lane costs measured now; `None` with one lane.
    pub fn measured_lane_costs(&self) -> Option<LaneCosts> {
        measure_lane_costs(&self.lane_cost_probe()?)
    }

    /// Every calibratable kernel. The targets run on this setup's executor.
    pub fn targets(&self, lane_costs: LaneCosts) -> Vec<Box<dyn CalibrationTarget>> {
        calibration_targets(&self.environment, &self.lease, &self.resolved, lane_costs)
    }

    /// Folder of evidence, with whether anything can be written there.
    pub fn evidence_folder(&self) -> Option<PathBuf> {
        let folder = self.environment.cache_folder()?;
        Some(folder.path().join("evidence"))
    }

    pub fn calibrator<'a>(
        &self,
        clock: &'a dyn Clock,
        probe: &'a dyn EnvironmentProbe,
        settings: CalibrationSettings,
        build: BTreeMap<String, String>,
        ceilings: Option<Ceilings>,
    ) -> Calibrator<'a> {
        Calibrator {
            clock,
            environment: probe,
            settings,
            execution: self.execution.clone(),
            build,
            coupling: None,
            ceilings,
        }
    }

    /// What this executor reaches at most, measured now in a part of a second.
    pub fn ceilings(&self) -> Ceilings {
        measure_ceilings(&self.lease, &self.execution)
    }
}

/// Settings under limits.
pub fn settings(limits: &Limits) -> CalibrationSettings {
    CalibrationSettings {
        total_budget_ns: Some((limits.budget * 1e9) as u64),
        key_budget_ns: (KEY_SECONDS * 1e9) as u64,

        memory_bytes: limits.memory << 20,
        ..CalibrationSettings::default()
    }
}

/// What the running executable is: evidence, and what has to be equal for a calibration to go on.
pub fn build() -> Result<BTreeMap<String, String>> {
    let path = std::env::current_exe().context("the command's own file")?;
    let bytes = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
    let info = BuildInfo::current();
    Ok(BTreeMap::from([
        ("version".to_owned(), info.version),
        ("profile".to_owned(), info.profile),
        (
            "executable".to_owned(),
            onl::tuning::identity::sha256_hex(&bytes),
        ),
    ]))
}

/// Refuses to measure with a debug build: what it measures says nothing about the kernels that people run.
pub fn refuse_debug_build(nothing_done: &str) -> Result<()> {
    if cfg!(debug_assertions) {
        bail!(
            "{nothing_done}: this is a debug build, whose times say nothing; build with --release and run that"
        );
    }
    Ok(())
}
