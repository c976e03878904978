//! The journal of a calibration: every key's result is on disk before the next key is measured.
//!
//! A journal is a file of JSON lines in the evidence folder: `begin` with the setup, one `key` per measured key, `end`
//! when every key has been looked at. It is only ever appended to, and every line is synced, so a killed calibration
//! loses the key in flight and nothing else.

use crate::calibrator::CalibrationSettings;
use crate::identity::sha256_hex;
use crate::process::{KeyResult, Outcome};
use onl_cpu::CpuExecutionDescriptor;
use onl_snapshot::{KernelKey, LaneCosts};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Version of the journals that this crate writes and reads.
pub const JOURNAL_FORMAT: u32 = 1;

const EXTENSION: &str = "journal";

/// Why a journal cannot be written or read.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum JournalError {
    #[error("{action} the journal '{}' failed: {source}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("another process is writing the journal '{}'; wait until it has finished", path.display())]
    InUse { path: PathBuf },
    #[error("'{}' is not a journal of format {JOURNAL_FORMAT}: {reason}", path.display())]
    Format { path: PathBuf, reason: String },
}

/// What a calibration was started with. Two calibrations of equal setup measure the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JournalSetup {
    /// Execution identity.
    pub execution: CpuExecutionDescriptor,
    /// Compiler, flags, executable and the like.
    pub build: BTreeMap<String, String>,
    /// Settings; the budget of all keys together and how long is waited do not count for equality of setups.
    pub settings: CalibrationSettings,
    /// How the user selected keys, in words that are equal when the selection is.
    pub selection: Vec<String>,
    /// The selected keys in the order in which they are measured.
    pub keys: Vec<KernelKey>,
    /// Lane costs that the targets were made with.
    pub lane_costs: LaneCosts,
    /// Whether the lane costs were measured at the start, rather than taken over or assumed.
    pub lane_costs_measured: bool,
}

impl JournalSetup {
    /// Why a calibration of another setup cannot go on with this one's results; `None` when it can. Keys and lane costs
    /// are those of the journal and are not compared.
    pub fn refuses(&self, other: &JournalSetup) -> Option<String> {
        let timeless = |settings: &CalibrationSettings| CalibrationSettings {
            total_budget_ns: None,
            coupling_watch_ns: 0,
            ..settings.clone()
        };
        let reason = if self.execution != other.execution {
            "it is of another execution identity"
        } else if self.build != other.build {
            "it was written by another build"
        } else if timeless(&self.settings) != timeless(&other.settings) {
            "it was measured with other settings"
        } else if self.selection != other.selection {
            "it selected other kernels"
        } else {
            return None;
        };
        Some(reason.to_owned())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Record {
    Begin {
        format: u32,
        setup: Box<JournalSetup>,
    },
    Key {
        result: Box<KeyResult>,
    },
    End {
        unfinished: usize,
    },
}

/// Whether an outcome settles a key: time, noise and the user can end a key without one.
pub fn settles(outcome: &Outcome) -> bool {
    !matches!(
        outcome,
        Outcome::NotMeasured { .. } | Outcome::TooNoisy { .. }
    )
}

/// A journal as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalContents {
    /// File.
    pub path: PathBuf,
    /// What the calibration was started with.
    pub setup: JournalSetup,
    /// The last result of every key that has one, in the order of the file.
    pub results: Vec<KeyResult>,
    /// Whether the calibration looked at every key and settled it.
    pub complete: bool,
    /// Lines that could not be read, as a killed writer leaves one.
    pub damaged: usize,
}

impl JournalContents {
    /// Results of settled keys.
    pub fn settled(&self) -> Vec<KeyResult> {
        let settled = self.results.iter().filter(|r| settles(&r.outcome));
        settled.cloned().collect()
    }

    /// Reads a journal.
    ///
    /// # Errors
    /// [`JournalError`] when the file cannot be read or does not begin as a journal.
    pub fn read(path: &Path) -> Result<Self, JournalError> {
        let bytes = fs::read(path).map_err(|e| failed("reading", path, e))?;
        Self::parse(path, &bytes)
    }

    /// Reads a journal from its bytes; `path` is for messages.
    ///
    /// # Errors
    /// [`JournalError::Format`] when the bytes do not begin as a journal.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, JournalError> {
        let format = |reason: String| JournalError::Format {
            path: path.to_owned(),
            reason,
        };
        let mut lines = bytes
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        let first = lines.next().ok_or_else(|| format("it is empty".into()))?;
        let setup = match serde_json::from_slice(first) {
            Ok(Record::Begin {
                format: JOURNAL_FORMAT,
                setup,
            }) => *setup,
            Ok(Record::Begin { format: found, .. }) => {
                return Err(format(format!("it has format {found}")));
            }
            Ok(_) => return Err(format("its first record is not its beginning".to_owned())),
            Err(error) => return Err(format(error.to_string())),
        };
        let mut contents = JournalContents {
            path: path.to_owned(),
            setup,
            results: Vec::new(),
            complete: false,
            damaged: 0,
        };
        for line in lines {
            match serde_json::from_slice(line) {
                Ok(Record::Key { result }) => {
                    contents.results.retain(|known| known.key != result.key);
                    contents.results.push(*result);
                    contents.complete = false;
                }
                Ok(Record::End { unfinished }) => contents.complete = unfinished == 0,
                Ok(Record::Begin { .. }) | Err(_) => contents.damaged += 1,
            }
        }
        Ok(contents)
    }

    /// The interrupted journal in a folder with which a calibration of `setup` can go on: the newest that settled a key,
    /// else the newest, and none from before a complete one. Beside it what was found of other journals, one sentence
    /// each. A folder that does not exist has none.
    ///
    /// # Errors
    /// [`JournalError::Io`] when the folder cannot be listed.
    pub fn interrupted(
        folder: &Path,
        setup: &JournalSetup,
    ) -> Result<(Option<Self>, Vec<String>), JournalError> {
        let mut notes = Vec::new();
        let mut without_results = None;
        for path in journals(folder)?.into_iter().rev() {
            let name = path.display();
            let contents = match Self::read(&path) {
                Ok(contents) => contents,
                Err(error) => {
                    notes.push(error.to_string());
                    continue;
                }
            };
            if let Some(reason) = contents.setup.refuses(setup) {
                notes.push(format!("'{name}' is not resumed: {reason}"));
            } else if contents.complete {
                notes.push(format!(
                    "'{name}' is complete: there is nothing to go on with"
                ));
                break;
            } else if contents.settled().is_empty() {
                without_results.get_or_insert(contents);
            } else {
                return Ok((Some(contents), notes));
            }
        }
        Ok((without_results, notes))
    }
}

/// Journals of a folder, the oldest first; none of a folder that does not exist.
///
/// # Errors
/// [`JournalError::Io`] when the folder cannot be listed.
pub fn journals(folder: &Path) -> Result<Vec<PathBuf>, JournalError> {
    let mut found: Vec<(u64, PathBuf)> = Vec::new();
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("listing the folder of", folder, error)),
    };
    for entry in entries {
        let path = entry
            .map_err(|e| failed("listing the folder of", folder, e))?
            .path();
        if path.extension().is_some_and(|e| e == EXTENSION)
            && let Some(number) = number(&path)
        {
            found.push((number, path));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Number in a journal's name, `<number>-<digest of its setup>.journal`.
fn number(path: &Path) -> Option<u64> {
    let stem = path.file_stem()?.to_str()?;
    stem.split_once('-')?.0.parse().ok()
}

/// A journal that is being written; its file is locked as long.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
}

impl Journal {
    /// Begins a journal in a folder, which is made when it does not exist.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn begin(folder: &Path, setup: &JournalSetup) -> Result<Self, JournalError> {
        fs::create_dir_all(folder).map_err(|e| failed("making the folder of", folder, e))?;
        let digest = sha256_hex(&line(
            folder,
            &Record::Begin {
                format: JOURNAL_FORMAT,
                setup: Box::new(setup.clone()),
            },
        )?);
        let mut next = journals(folder)?
            .last()
            .and_then(|path| number(path))
            .map_or(1, |number| number.saturating_add(1));
        let (file, path) = loop {
            let path = folder.join(format!("{next:06}-{}.{EXTENSION}", &digest[..16]));
            match OpenOptions::new().append(true).create_new(true).open(&path) {
                Ok(file) => break (file, path),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    next = next.saturating_add(1);
                }
                Err(error) => return Err(failed("making", &path, error)),
            }
        };
        lock(&file, &path)?;
        let mut journal = Journal { file, path };
        journal.write(&Record::Begin {
            format: JOURNAL_FORMAT,
            setup: Box::new(setup.clone()),
        })?;
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|e| failed("syncing the folder of", &journal.path, e))?;
        Ok(journal)
    }

    /// Goes on with a journal; its contents are read under the lock.
    ///
    /// # Errors
    /// [`JournalError`], [`InUse`](JournalError::InUse) when another process writes it.
    pub fn resume(path: &Path) -> Result<(Self, JournalContents), JournalError> {
        let io = |action| move |error| failed(action, path, error);
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .open(path)
            .map_err(io("opening"))?;
        lock(&file, path)?;
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0))
            .and_then(|_| file.read_to_end(&mut bytes))
            .map_err(io("reading"))?;
        let contents = JournalContents::parse(path, &bytes)?;
        if bytes.last() != Some(&b'\n') {
            // The writer was killed inside a line: the next one begins on its own.
            file.write_all(b"\n").map_err(io("writing"))?;
        }
        let path = path.to_owned();
        Ok((Journal { file, path }, contents))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds the result of a key and syncs it. A result without evidence says nothing and is not written.
    ///
    /// # Errors
    /// [`JournalError::Io`].
    pub fn key(&mut self, result: &KeyResult) -> Result<(), JournalError> {
        if result.evidence.is_empty() && !settles(&result.outcome) {
            return Ok(());
        }
        self.write(&Record::Key {
            result: Box::new(result.clone()),
        })
    }

    /// Ends the journal; it is complete when no key is unfinished, else it can be resumed.
    ///
    /// # Errors
    /// [`JournalError::Io`].
    pub fn end(mut self, unfinished: usize) -> Result<(), JournalError> {
        self.write(&Record::End { unfinished })
    }

    /// Removes a journal that holds no result.
    ///
    /// # Errors
    /// [`JournalError::Io`].
    pub fn discard(self) -> Result<(), JournalError> {
        fs::remove_file(&self.path).map_err(|e| failed("removing", &self.path, e))
    }

    fn write(&mut self, record: &Record) -> Result<(), JournalError> {
        let mut bytes = line(&self.path, record)?;
        bytes.push(b'\n');
        self.file
            .write_all(&bytes)
            .and_then(|()| self.file.sync_data())
            .map_err(|e| failed("writing", &self.path, e))
    }
}

fn line(path: &Path, record: &Record) -> Result<Vec<u8>, JournalError> {
    serde_json::to_vec(record).map_err(|e| failed("writing", path, e.into()))
}

fn lock(file: &File, path: &Path) -> Result<(), JournalError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(JournalError::InUse {
            path: path.to_owned(),
        }),
        Err(TryLockError::Error(error)) => Err(failed("locking", path, error)),
    }
}

fn failed(action: &'static str, path: &Path, source: io::Error) -> JournalError {
    JournalError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}
