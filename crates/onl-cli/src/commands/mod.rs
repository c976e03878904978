//! One module per command.

pub mod attribute;
pub mod bench;
pub mod check_report;
pub mod compare;
pub mod inventory;
pub mod kernel_baseline;
pub mod peer_process;
pub mod profile;
pub mod run;
pub mod tune_kernels;
pub mod tuning;

use crate::Common;
use anyhow::{Context, Result};
use onl::{CpuExecutionPolicy, Environment, ProfileSource, Session};
use std::path::Path;

/// The executor policy that the common options ask for.
pub fn policy(common: &Common) -> CpuExecutionPolicy {
    CpuExecutionPolicy {
        threads: common.threads,
        wait: common.wait,
        affinity: common.affinity.clone(),
        denormals: common.denormals,
    }
}

/// Table, registry and profiles as the common options ask for.
pub fn environment(common: &Common) -> Environment {
    let profiles = if common.no_profiles {
        ProfileSource::None
    } else {
        ProfileSource::UserFolder
    };
    Environment::new(profiles)
}

/// A session on a model file; diagnostics go to stderr.
pub fn session(common: &Common, model: &Path) -> Result<Session> {
    let environment = environment(common);
    let session = Session::builder()
        .environment(environment)
        .policy(policy(common))
        .model_path(model)
        .build();
    let session = match session {
        // These name the file already.
        Err(error @ onl::Error::Onnx(_)) => return Err(error.into()),
        other => other.with_context(|| format!("model {}", model.display()))?,
    };
    for diagnostic in session.diagnostics() {
        eprintln!("note: {diagnostic}");
    }
    Ok(session)
}
