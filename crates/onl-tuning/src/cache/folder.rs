//! Reading and changing the cache folder.

use super::format::{self, Choices};
use super::{CachedLaneCosts, CachedProfile, CachedRow};
use crate::identity::sha256_hex;
use onl_snapshot::KernelKey;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thiserror::Error;
use toml::Table;

const CHOICES: &str = "choices.toml";
const EVIDENCE: &str = "evidence";

/// Why the cache could not be changed. The saved choices are those from before.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum CacheError {
    #[error(
        "there is no cache folder because neither ONL_TUNING_CACHE nor a home folder is set; set ONL_TUNING_CACHE to a \
         writable folder"
    )]
    NoFolder,
    #[error("{action} '{}' failed: {source}; nothing was saved, set ONL_TUNING_CACHE to a writable folder", path.display())]
    Unwritable {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "another process has held the lock '{}' for {seconds} s; nothing was saved, try again when it has finished",
        path.display()
    )]
    Locked { path: PathBuf, seconds: u64 },
    #[error("row of {kernel} cannot be written: {reason}; nothing was saved")]
    Row { kernel: String, reason: String },
    #[error("evidence '{}' is not readable: {reason}", path.display())]
    Evidence { path: PathBuf, reason: String },
}

/// How the choices file was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum FileState {
    /// There is none, as before the first calibration.
    #[default]
    Missing,
    /// It was read; single rows may be void.
    Read,
    /// It could not be opened or read.
    Unreadable {
        /// Why.
        reason: String,
    },
    /// It is no file of this format; the next change keeps a copy of it.
    Corrupt {
        /// Why.
        reason: String,
    },
    /// A newer version wrote it; the next change keeps a copy of it.
    NewerFormat {
        /// Its version.
        version: i64,
    },
}

impl fmt::Display for FileState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileState::Missing => f.write_str("no choices saved yet"),
            FileState::Read => f.write_str("read"),
            FileState::Unreadable { reason } => write!(f, "unreadable: {reason}"),
            FileState::Corrupt { reason } => write!(f, "corrupt: {reason}"),
            FileState::NewerFormat { version } => {
                write!(f, "written by a newer version (format {version})")
            }
        }
    }
}

/// A part of the file that was not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoidRow {
    /// Line at which it starts, from 1.
    pub line: usize,
    /// What it is, as `choice onl/Abs/simd/f32`.
    pub item: String,
    /// Why it was not used.
    pub reason: String,
}

/// What reading the folder gave. Reading never fails.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadReport {
    /// File that was read.
    pub path: PathBuf,
    /// How it was found.
    pub state: FileState,
    /// What it holds.
    pub choices: Choices,
    /// Parts that were not used.
    pub void: Vec<VoidRow>,
    /// Keys and blocks that this version does not know; they are kept when the file is written.
    pub unknown: Vec<String>,
}

impl LoadReport {
    /// One line per finding, each naming file, line and reason; empty when all is well or nothing was saved yet.
    pub fn diagnostics(&self) -> Vec<String> {
        let path = self.path.display();
        let mut lines = Vec::new();
        match &self.state {
            FileState::Missing | FileState::Read => {}
            state => lines.push(format!("{path}: {state}; defaults are used")),
        }
        for void in &self.void {
            let VoidRow { line, item, reason } = void;
            lines.push(format!("{path}:{line}: {item} is not used: {reason}"));
        }
        for name in &self.unknown {
            lines.push(format!("{path}: {name} is unknown and kept"));
        }
        lines
    }
}

/// What a change of the folder did.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdateReport {
    /// File that was written.
    pub path: PathBuf,
    /// Whether its bytes changed; equal bytes are not written again.
    pub changed: bool,
    /// Copy of a former file that could not be used as a whole or in parts.
    pub quarantined: Option<PathBuf>,
    /// How the former file was read.
    pub before: LoadReport,
}

/// Points between the steps of a change, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateStep {
    /// The lock is held.
    Locked,
    /// The temporary file is written and not yet synced.
    TemporaryWritten,
    /// The temporary file is on disk.
    TemporarySynced,
    /// The former file is kept as `choices.toml.previous`.
    PreviousKept,
    /// The new file has its name.
    Renamed,
}

impl UpdateStep {
    /// All steps, in order.
    pub const ALL: [UpdateStep; 5] = [
        UpdateStep::Locked,
        UpdateStep::TemporaryWritten,
        UpdateStep::TemporarySynced,
        UpdateStep::PreviousKept,
        UpdateStep::Renamed,
    ];
}

/// A folder of saved choices and evidence. Making the value touches no file.
#[derive(Debug, Clone)]
pub struct CacheFolder {
    path: PathBuf,
    lock_patience: Duration,
    interrupt: Option<UpdateStep>,
}

impl CacheFolder {
    /// The folder at a path.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        CacheFolder {
            path: path.into(),
            lock_patience: Duration::from_secs(30),
            interrupt: None,
        }
    }

    /// The folder `ONL_TUNING_CACHE` when it is set and not empty, else `onl/tuning` in the user's cache folder
    /// (`XDG_CACHE_HOME` or `~/.cache`; `~/Library/Caches` on macOS; the local application data on Windows).
    ///
    /// # Errors
    /// [`CacheError::NoFolder`] when neither exists.
    pub fn locate() -> Result<Self, CacheError> {
        use etcetera::BaseStrategy as _;
        let user = etcetera::base_strategy::choose_native_strategy()
            .ok()
            .map(|base| base.cache_dir());
        Self::choose(std::env::var_os("ONL_TUNING_CACHE"), user)
    }

    fn choose(variable: Option<OsString>, user: Option<PathBuf>) -> Result<Self, CacheError> {
        match (variable.filter(|value| !value.is_empty()), user) {
            (Some(path), _) => Ok(Self::at(path)),
            (None, Some(user)) => Ok(Self::at(user.join("onl").join("tuning"))),
            (None, None) => Err(CacheError::NoFolder),
        }
    }

    /// How long a change waits for another process's lock.
    pub fn with_lock_patience(mut self, patience: Duration) -> Self {
        self.lock_patience = patience;
        self
    }

    /// Makes changes stop with an error after a step, leaving the files as a killed process would.
    #[doc(hidden)]
    pub fn interrupted_after(mut self, step: UpdateStep) -> Self {
        self.interrupt = Some(step);
        self
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file of choices.
    pub fn choices_path(&self) -> PathBuf {
        self.path.join(CHOICES)
    }

    /// The copy of the choices from before the last change.
    pub fn previous_path(&self) -> PathBuf {
        self.path.join(format!("{CHOICES}.previous"))
    }

    /// The evidence record with this digest.
    pub fn evidence_path(&self, digest: &str) -> PathBuf {
        self.path.join(EVIDENCE).join(format!("{digest}.json"))
    }

    /// Whether rows could be saved: the folder is made, its lock taken, and a file written and removed. Choices are
    /// neither read nor changed.
    ///
    /// # Errors
    /// [`CacheError`] that says what cannot be done.
    pub fn check_writable(&self) -> Result<(), CacheError> {
        fs::create_dir_all(&self.path).map_err(|e| unwritable("creating", &self.path, e))?;
        let _lock = self.lock()?;
        tempfile::NamedTempFile::new_in(&self.path)
            .map(drop)
            .map_err(|e| unwritable("writing to", &self.path, e))
    }

    /// Reads the choices. Never fails: what cannot be used is in the report.
    pub fn load(&self) -> LoadReport {
        self.read().0
    }

    fn read(&self) -> (LoadReport, Vec<u8>) {
        let path = self.choices_path();
        let mut report = LoadReport {
            path,
            state: FileState::Missing,
            choices: Choices::default(),
            void: Vec::new(),
            unknown: Vec::new(),
        };
        // Opening a pipe would wait for a writer.
        let other = fs::metadata(&report.path).is_ok_and(|known| !known.is_file());
        let bytes = if other {
            Err(io::Error::other("it is not a regular file"))
        } else {
            fs::read(&report.path)
        };
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return (report, Vec::new()),
            Err(error) => {
                report.state = FileState::Unreadable {
                    reason: error.to_string(),
                };
                return (report, Vec::new());
            }
        };
        (Self::parse(&report.path, &bytes), bytes)
    }

    /// Reads choices from bytes of the same format, as an export; for import through [`modify`](Self::modify).
    pub fn parse(path: &Path, bytes: impl AsRef<[u8]>) -> LoadReport {
        let parsed = match std::str::from_utf8(bytes.as_ref()) {
            Ok(text) => format::parse(text),
            Err(error) => format::Parsed {
                state: FileState::Corrupt {
                    reason: format!("it is not UTF-8 text: {error}"),
                },
                ..format::Parsed::default()
            },
        };
        LoadReport {
            path: path.to_owned(),
            state: parsed.state,
            choices: parsed.choices,
            void: parsed.void,
            unknown: parsed.unknown,
        }
    }

    /// Merges rows and lane costs into the file: under the lock it reads the file again, replaces what is for the same
    /// kernel and execution, keeps everything else, and replaces the file in one step.
    ///
    /// # Errors
    /// [`CacheError`]; the saved choices are then those from before.
    pub fn update(
        &self,
        rows: &[CachedRow],
        lane_costs: &[CachedLaneCosts],
    ) -> Result<UpdateReport, CacheError> {
        self.modify(|choices| choices.merge(rows, lane_costs))
    }

    /// Removes the rows that a predicate selects.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub fn remove(
        &self,
        mut selects: impl FnMut(&CachedRow) -> bool,
    ) -> Result<UpdateReport, CacheError> {
        self.modify(|choices| choices.rows.retain(|row| !selects(row)))
    }

    /// Changes the contents under the lock.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub fn modify(&self, change: impl FnOnce(&mut Choices)) -> Result<UpdateReport, CacheError> {
        fs::create_dir_all(&self.path).map_err(|e| unwritable("creating", &self.path, e))?;
        let _lock = self.lock()?;
        self.reached(UpdateStep::Locked)?;

        let (before, bytes) = self.read();
        let target = before.path.clone();
        if let FileState::Unreadable { reason } = &before.state {
            let error = io::Error::other(reason.clone());
            return Err(unwritable("reading", &target, error));
        }
        let mut choices = before.choices.clone();
        change(&mut choices);
        if before.state == FileState::Missing && choices == Choices::default() {
            return Ok(UpdateReport {
                path: target,
                changed: false,
                quarantined: None,
                before,
            });
        }
        let text = choices.render();
        check_rendered(&choices, &text)?;
        if text.as_bytes() == bytes {
            return Ok(UpdateReport {
                path: target,
                changed: false,
                quarantined: None,
                before,
            });
        }

        let partial = !before.void.is_empty();
        let whole = !matches!(before.state, FileState::Read | FileState::Missing);
        let quarantined = if partial || whole {
            let name = format!("{CHOICES}.quarantined-{}", &sha256_hex(&bytes)[..16]);
            let copy = self.path.join(name);
            place(&copy, "", &bytes)?;
            Some(copy)
        } else {
            None
        };

        let temporary = self.path.join(format!("{CHOICES}.tmp"));
        let written = File::create(&temporary).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            Ok(file)
        });
        let file = written.map_err(|e| unwritable("writing", &temporary, e))?;
        self.reached(UpdateStep::TemporaryWritten)?;
        file.sync_all()
            .map_err(|e| unwritable("syncing", &temporary, e))?;
        drop(file);
        self.reached(UpdateStep::TemporarySynced)?;
        if before.state != FileState::Missing {
            place(&self.previous_path(), "", &bytes)?;
        }
        self.reached(UpdateStep::PreviousKept)?;
        fs::rename(&temporary, &target).map_err(|e| unwritable("replacing", &target, e))?;
        self.reached(UpdateStep::Renamed)?;
        sync_folder(&self.path).map_err(|e| unwritable("syncing", &self.path, e))?;
        Ok(UpdateReport {
            path: target,
            changed: true,
            quarantined,
            before,
        })
    }

    /// Appends a record of evidence and gives its digest, the SHA-256 of its bytes. A record that exists is not written
    /// again.
    ///
    /// # Errors
    /// [`CacheError::Unwritable`].
    pub fn append_evidence(&self, json: &str) -> Result<String, CacheError> {
        let digest = sha256_hex(json.as_bytes());
        let path = self.evidence_path(&digest);
        let folder = self.path.join(EVIDENCE);
        fs::create_dir_all(&folder).map_err(|e| unwritable("creating", &folder, e))?;
        if fs::read(&path).is_ok_and(|bytes| bytes == json.as_bytes()) {
            return Ok(digest);
        }
        // Without the lock, so another writer must not share the temporary file.
        static WRITES: AtomicU64 = AtomicU64::new(0);
        let write = WRITES.fetch_add(1, Ordering::Relaxed);
        let suffix = format!("-{}-{write}", std::process::id());
        place(&path, &suffix, json.as_bytes())?;
        Ok(digest)
    }

    /// The text of a record of evidence, checked against its digest.
    ///
    /// # Errors
    /// [`CacheError::Evidence`].
    pub fn read_evidence(&self, digest: &str) -> Result<String, CacheError> {
        let path = self.evidence_path(digest);
        let fail = |reason: String| CacheError::Evidence {
            path: path.clone(),
            reason,
        };
        if !digest.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(fail("the digest is not hexadecimal".to_owned()));
        }
        let text = fs::read_to_string(&path).map_err(|e| fail(e.to_string()))?;
        if sha256_hex(text.as_bytes()) == digest {
            Ok(text)
        } else {
            Err(fail("its bytes do not match its digest".to_owned()))
        }
    }

    /// Takes the exclusive lock. The system frees it when the process ends, so no lock outlives a crash.
    fn lock(&self) -> Result<File, CacheError> {
        let path = self.path.join("choices.lock");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|e| unwritable("opening", &path, e))?;
        let start = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if start.elapsed() < self.lock_patience => {
                    // Short against a change, so that writers in a loop leave gaps to each other.
                    std::thread::sleep(Duration::from_micros(500));
                }
                Err(TryLockError::WouldBlock) => {
                    let seconds = self.lock_patience.as_secs();
                    return Err(CacheError::Locked { path, seconds });
                }
                Err(TryLockError::Error(e)) => return Err(unwritable("locking", &path, e)),
            }
        }
    }

    fn reached(&self, step: UpdateStep) -> Result<(), CacheError> {
        if self.interrupt == Some(step) {
            let error = io::Error::from(io::ErrorKind::Interrupted);
            return Err(unwritable("changing", &self.path, error));
        }
        Ok(())
    }
}

/// What is written must read back as the same rows, so that nothing unreadable ever replaces a good file.
fn check_rendered(choices: &Choices, text: &str) -> Result<(), CacheError> {
    let parsed = format::parse(text);
    if let Some(void) = parsed.void.into_iter().next() {
        return Err(CacheError::Row {
            kernel: void.item,
            reason: void.reason,
        });
    }
    // Unknown keys may hold NaN, which equals nothing; the rest must be equal.
    let rows: HashMap<_, _> = parsed.choices.rows.iter().map(|r| (r.slot(), r)).collect();
    for row in &choices.rows {
        let same = rows.get(&row.slot()).is_some_and(|other| {
            CachedRow {
                unknown: Table::new(),
                ..row.clone()
            } == CachedRow {
                unknown: Table::new(),
                ..(*other).clone()
            }
        });
        if !same {
            return Err(unequal(&row.key));
        }
    }
    let profiles: HashMap<_, _> = parsed
        .choices
        .profiles
        .iter()
        .map(|p| (p.slot(), p))
        .collect();
    for profile in &choices.profiles {
        let same = profiles.get(&profile.slot()).is_some_and(|other| {
            CachedProfile {
                unknown: Table::new(),
                ..profile.clone()
            } == CachedProfile {
                unknown: Table::new(),
                ..(*other).clone()
            }
        });
        if !same {
            return Err(unequal(&profile.key));
        }
    }
    Ok(())
}

fn unequal(key: &KernelKey) -> CacheError {
    CacheError::Row {
        kernel: key.to_string(),
        reason: "it does not read back as it was written".to_owned(),
    }
}

/// Puts bytes under a name in one step, through a synced temporary file beside it.
fn place(path: &Path, suffix: &str, bytes: &[u8]) -> Result<(), CacheError> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".tmp{suffix}"));
    let temporary = PathBuf::from(name);
    let mut placed = File::create(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    if placed.is_ok() {
        placed = fs::rename(&temporary, path);
    }
    placed.map_err(|e| {
        let _ = fs::remove_file(&temporary);
        unwritable("writing", path, e)
    })
}

fn unwritable(action: &'static str, path: &Path, source: io::Error) -> CacheError {
    CacheError::Unwritable {
        action,
        path: path.to_owned(),
        source,
    }
}

fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        File::open(path)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_follows_the_variable_then_the_users_cache() {
        let user = || Some(PathBuf::from("/home/someone/.cache"));
        let path = |variable: Option<&str>, user| {
            CacheFolder::choose(variable.map(OsString::from), user).map(|f| f.path)
        };
        assert_eq!(
            path(Some("/elsewhere"), user()).unwrap(),
            PathBuf::from("/elsewhere")
        );
        let expected = PathBuf::from("/home/someone/.cache/onl/tuning");
        assert_eq!(path(None, user()).unwrap(), expected);
        assert_eq!(path(Some(""), user()).unwrap(), expected);
        assert!(matches!(path(None, None), Err(CacheError::NoFolder)));
    }
}
