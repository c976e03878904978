use bytes::Bytes;
use memmap2::Mmap;
use std::fs::File;
use std::io;
use std::path::Path;

/// Opens files as shared bytes that the system reads on demand.
pub struct MappedFile;

impl MappedFile {
    /// Maps a regular file for reading; an empty file gives empty bytes without a mapping.
    ///
    /// The bytes are those of the file, not a copy: whoever truncates or overwrites the file in place while it is
    /// mapped changes the bytes or ends the process with a bus error. Replace such a file by writing another one
    /// and renaming it, which leaves existing mappings whole.
    ///
    /// # Errors
    /// What the system gives for opening and mapping; [`io::ErrorKind::InvalidInput`] for a folder, pipe or device.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Bytes> {
        let path = path.as_ref();
        // Asked before opening, because opening a pipe waits for its writer.
        if !std::fs::metadata(path)?.is_file() {
            return Err(not_a_regular_file());
        }
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(not_a_regular_file());
        }
        if metadata.len() == 0 {
            return Ok(Bytes::new());
        }
        // SAFETY: the mapping is private and read-only, and nothing in this process writes mapped files in place
        // (the writers of this workspace write beside and rename). That no other process truncates the file is the
        // user's duty, stated above.
        let mapping = unsafe { Mmap::map(&file) }?;
        Ok(Bytes::from_owner(mapping))
    }
}

fn not_a_regular_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")
}
