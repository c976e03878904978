//! The library of ONNX Runtime, which models are measured beside.

use super::download::Downloads;
use super::{Presence, download, presence};
use crate::models::list::Package;
use crate::process;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// Name under which it is fetched.
pub const NAME: &str = "onnxruntime";

/// Release of the library.
pub const VERSION: &str = "1.32.0";
const PACKAGE: &str = "onnxruntime==1.32.0";
const FILE: &str = "libonnxruntime.so.1.32.0";

/// Platform of a wheel and the SHA-256 of the library in it, by architecture. Wheels for other versions of Python hold
/// other builds, so the version belongs to the pin.
const BUILDS: [(&str, &str, &str); 2] = [
    (
        "x86_64",
        "manylinux_2_28_x86_64",
        "6c1585d1bbf45b0712ea4a21b705c5fcb4ba04ff2e30f1fbf81a49faf658638f",
    ),
    (
        "aarch64",
        "manylinux_2_28_aarch64",
        "49852228a93995158b2a813d4df487d47a1b76b0eaa894507ef49e91b6d7954a",
    ),
];

/// Path of the library, which is fetched when it is missing.
pub fn path() -> Result<PathBuf> {
    let models = process::workspace().join("target/models");
    fs::create_dir_all(&models).with_context(|| format!("cannot create {}", models.display()))?;
    let scratch = tempfile::Builder::new()
        .prefix(".fetch-")
        .tempdir_in(&models)?;
    provide(&models, scratch.path(), &mut Downloads::new(scratch.path()))?;
    Ok(models.with_file_name(NAME).join(FILE))
}

/// Brings the library to the folder `onnxruntime` beside that of the models, unless it is there.
pub fn provide(models: &Path, scratch: &Path, downloads: &mut Downloads<'_>) -> Result<()> {
    let architecture = std::env::consts::ARCH;
    let build = BUILDS.iter().find(|(name, ..)| *name == architecture);
    let Some((_, platform, sha256)) = build else {
        bail!("no library is listed for {architecture}");
    };
    let folder = models.with_file_name(NAME);
    let place = folder.join(FILE);
    if presence(&place, sha256)? == Presence::Right {
        println!("{NAME}: there, sha256 {sha256}");
        return Ok(());
    }
    let archive = downloads.wheel(PACKAGE, platform)?;
    let package = Package {
        packages: vec![PACKAGE.to_owned()],
        member: format!("onnxruntime/capi/{FILE}"),
        assembly: None,
    };
    let made = scratch.join(FILE);
    download::assemble(&[archive], &package, &made)?;
    if let Presence::Different(hash) = presence(&made, sha256)? {
        bail!("verify: the library of {PACKAGE} has sha256 {hash}, {sha256} is pinned");
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    fs::rename(&made, &place)
        .with_context(|| format!("cannot move the library to {}", place.display()))?;
    println!(
        "{NAME}: {} bytes, sha256 {sha256} as pinned",
        place.metadata()?.len()
    );
    Ok(())
}
