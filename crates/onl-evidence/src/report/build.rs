use serde::{Deserialize, Serialize};

/// The build that measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuildInfo {
    /// Version of the workspace.
    pub version: String,
    /// Commit that was built; empty when the sources are not in a repository.
    pub commit: String,
    /// Whether the sources differed from the commit, or no commit is known.
    pub dirty: bool,
    /// `release` or `debug`.
    pub profile: String,
    /// The compiler with its version.
    pub compiler: String,
    /// Target triple.
    pub target: String,
    /// Flags that the compiler was given beside those of the profile.
    pub flags: String,
}

impl BuildInfo {
    /// The running build.
    pub fn current() -> Self {
        let profile = if cfg!(debug_assertions) {
            "debug"
        } else {
            "release"
        };
        BuildInfo {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: env!("ONL_BUILD_COMMIT").to_owned(),
            dirty: env!("ONL_BUILD_DIRTY") == "true" || env!("ONL_BUILD_COMMIT").is_empty(),
            profile: profile.to_owned(),
            compiler: env!("ONL_BUILD_COMPILER").to_owned(),
            target: env!("ONL_BUILD_TARGET").to_owned(),
            flags: env!("ONL_BUILD_FLAGS").to_owned(),
        }
    }
}
