//! Mapped files.

use onl_tensor::{ElementType, MappedFile, Tensor};
use std::fs;
use std::io::ErrorKind;

#[test]
fn mapped_bytes_outlive_the_name_of_their_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let content: Vec<u8> = (0..10_000u32).flat_map(u32::to_le_bytes).collect();
    fs::write(&path, &content).unwrap();
    let bytes = MappedFile::open(&path).unwrap();
    let tensor = Tensor::from_shared(ElementType::UInt32, &[9_999], bytes.slice(4..)).unwrap();
    assert!(tensor.is_shared());
    // Replacing by renaming leaves the mapping whole.
    let other = folder.path().join("other");
    fs::write(&other, [0; 3]).unwrap();
    fs::rename(&other, &path).unwrap();
    fs::remove_file(&path).unwrap();
    drop(bytes);
    assert_eq!(tensor.as_slice::<u32>().unwrap()[9_998], 9_999);
}

#[test]
fn empty_files_and_files_that_cannot_be_mapped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty");
    fs::write(&path, []).unwrap();
    assert!(MappedFile::open(&path).unwrap().is_empty());
    let missing = MappedFile::open(folder.path().join("missing")).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    let not_a_file = MappedFile::open(folder.path()).unwrap_err();
    assert_eq!(not_a_file.kind(), ErrorKind::InvalidInput);
    #[cfg(target_os = "linux")]
    assert_eq!(
        MappedFile::open("/dev/null").unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}
