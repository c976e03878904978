use crate::{ExternalProblem, OnnxError, Problem};
use bytes::Bytes;
use onl_tensor::MappedFile;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

/// The data files beside a model; each is mapped once.
///
/// A file is used only if it lies in the model's folder after symbolic links are followed. When the model file
/// is itself a link, the folder of its target counts as the model's folder too: download caches keep a model and
/// its data as links into one folder of contents.
#[derive(Debug, Default)]
pub(crate) struct ExternalData {
    folder: Option<PathBuf>,
    allowed: Vec<PathBuf>,
    /// Mappings by canonical path.
    mapped: HashMap<PathBuf, Bytes>,
    /// The same by the text in the model, which large models repeat for every tensor.
    located: HashMap<String, Bytes>,
}

impl ExternalData {
    /// Data beside the model file at `path`.
    pub(crate) fn beside(path: &Path) -> Self {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
        let mut external = Self::in_folder(folder.unwrap_or(Path::new(".")));
        if path.is_symlink()
            && let Ok(target) = path.canonicalize()
            && let Some(folder) = target.parent()
        {
            external.allowed.push(folder.to_owned());
        }
        external
    }

    /// Data in `folder`.
    pub(crate) fn in_folder(folder: &Path) -> Self {
        ExternalData {
            folder: Some(folder.to_owned()),
            allowed: folder.canonicalize().into_iter().collect(),
            ..ExternalData::default()
        }
    }

    /// The bytes that the entries of a `TensorProto.external_data` name, `expected` many.
    pub(crate) fn bytes<'k>(
        &mut self,
        entries: impl Iterator<Item = (&'k str, &'k str)>,
        expected: u64,
    ) -> Result<Bytes, OnnxError> {
        let (mut location, mut offset, mut length) = ("", None, None);
        for (key, value) in entries {
            match key {
                "location" => location = value,
                "offset" => offset = Some(("offset", value)),
                "length" => length = Some(("length", value)),
                // `checksum` and keys of other runtimes do not change what is read.
                _ => {}
            }
        }
        self.locate(location, offset, length, expected)
            .map_err(|reason| {
                OnnxError::new(Problem::External {
                    location: location.to_owned(),
                    reason,
                })
            })
    }

    fn locate(
        &mut self,
        location: &str,
        offset: Option<(&'static str, &str)>,
        length: Option<(&'static str, &str)>,
        expected: u64,
    ) -> Result<Bytes, ExternalProblem> {
        if location.is_empty() {
            return Err(ExternalProblem::NoLocation);
        }
        let offset = offset.map_or(Ok(0), number)?;
        let length = length.map_or(Ok(expected), number)?;
        if length != expected {
            return Err(ExternalProblem::LengthMismatch { length, expected });
        }
        let file = match self.located.get(location) {
            Some(file) => file.clone(),
            None => {
                let file = self.file(location)?;
                self.located.insert(location.to_owned(), file.clone());
                file
            }
        };
        let size = file.len() as u64;
        if offset > size {
            return Err(ExternalProblem::OffsetPastEnd { offset, size });
        }
        if length > size - offset {
            return Err(ExternalProblem::LengthPastEnd {
                offset,
                length,
                size,
            });
        }
        Ok(file.slice(offset as usize..(offset + length) as usize))
    }

    fn file(&mut self, location: &str) -> Result<Bytes, ExternalProblem> {
        let Some(folder) = &self.folder else {
            return Err(ExternalProblem::NoFolder);
        };
        let relative = Path::new(location);
        for component in relative.components() {
            match component {
                Component::Prefix(_) | Component::RootDir => return Err(ExternalProblem::Absolute),
                Component::ParentDir => return Err(ExternalProblem::Climbs),
                Component::CurDir | Component::Normal(_) => {}
            }
        }
        // A drive letter is an ordinary name to a Unix path, but a model that carries one means an absolute path.
        let mut characters = location.chars();
        if characters.next().is_some_and(|c| c.is_ascii_alphabetic())
            && characters.next() == Some(':')
            && matches!(characters.next(), Some('\\' | '/'))
        {
            return Err(ExternalProblem::Absolute);
        }
        if location.split('\\').any(|part| part == "..") {
            return Err(ExternalProblem::Climbs);
        }
        let path = folder
            .join(relative)
            .canonicalize()
            .map_err(|e| match e.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory => ExternalProblem::NotFound {
                    folder: folder.clone(),
                },
                _ => ExternalProblem::Map(e.to_string()),
            })?;
        if let Some(bytes) = self.mapped.get(&path) {
            return Ok(bytes.clone());
        }
        if !self.allowed.iter().any(|folder| path.starts_with(folder)) {
            return Err(ExternalProblem::Leaves { target: path });
        }
        if !path.is_file() {
            return Err(ExternalProblem::NotAFile);
        }
        let bytes = MappedFile::open(&path).map_err(|e| ExternalProblem::Map(e.to_string()))?;
        self.mapped.insert(path, bytes.clone());
        Ok(bytes)
    }
}

fn number((key, text): (&'static str, &str)) -> Result<u64, ExternalProblem> {
    text.trim()
        .parse()
        .map_err(|_| ExternalProblem::NotANumber {
            key,
            value: text.to_owned(),
        })
}
