use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Longest text that is read from one file: above `/proc/cpuinfo` of the largest machines, below what could hurt.
const MAX_BYTES: u64 = 16 << 20;

/// Folder that holds `proc` and `sys`: `/` on a running system, a tree of text files in a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemRoot {
    root: PathBuf,
}

impl SystemRoot {
    /// The files below `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The files of this machine.
    pub fn real() -> Self {
        Self::new("/")
    }

    /// Full path of `path`, which may be written absolute or relative to the root.
    fn full(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Text of a file. Absent when it is no regular file or cannot be read; bytes that are no UTF-8 are replaced.
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let path = self.full(path.as_ref());
        if !path.metadata().ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        File::open(path)
            .ok()?
            .take(MAX_BYTES)
            .read_to_end(&mut bytes)
            .ok()?;
        Some(match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        })
    }

    /// First line of a file without surrounding blanks; absent when empty.
    pub(crate) fn line(&self, path: impl AsRef<Path>) -> Option<String> {
        let text = self.text(path)?;
        let line = text.lines().next()?.trim();
        (!line.is_empty()).then(|| line.to_owned())
    }

    /// A file that holds one decimal number. Absent when it is negative or out of range.
    pub(crate) fn number<T: std::str::FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.line(path)?.parse().ok()
    }

    /// Numbers `n` of the entries `<prefix><n>` of a folder, ascending.
    pub(crate) fn numbered(&self, folder: impl AsRef<Path>, prefix: &str) -> Vec<u32> {
        let Ok(entries) = std::fs::read_dir(self.full(folder.as_ref())) else {
            return Vec::new();
        };
        let mut numbers: Vec<u32> = entries
            .flatten()
            .filter_map(|entry| {
                entry
                    .file_name()
                    .to_str()?
                    .strip_prefix(prefix)?
                    .parse()
                    .ok()
            })
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Whether `path` is a folder.
    pub(crate) fn is_folder(&self, path: impl AsRef<Path>) -> bool {
        self.full(path.as_ref()).is_dir()
    }
}
