//! External data stay in the model's folder and in their file.

use super::{assert_problem, graph, model, node, weight};
use crate::proto::*;
use crate::{
    ExternalProblem, LoadLimits, OnnxError, Problem, WriteOptions, read_model, read_model_bytes,
    write_model_with,
};
use onl_ir::Model;
use prost::Message;
use std::fs;
use std::path::Path;

/// A model with one initializer of 8 bytes and these entries of external data.
fn external_model(entries: &[(&str, &str)]) -> ModelProto {
    let mut graph = graph(vec![node("Add", &["x", "w"], &["y"])], &["x"], &["y"]);
    graph.initializer.push(TensorProto {
        float_data: Vec::new(),
        data_location: DATA_LOCATION_EXTERNAL,
        external_data: entries
            .iter()
            .map(|(key, value)| StringStringEntryProto {
                key: (*key).to_owned(),
                value: (*value).to_owned(),
            })
            .collect(),
        ..weight("w")
    });
    model(9, graph)
}

fn read_in(folder: &Path, entries: &[(&str, &str)]) -> Result<Model, OnnxError> {
    let path = folder.join("model.onnx");
    fs::write(&path, external_model(entries).encode_to_vec()).unwrap();
    read_model(&path, &LoadLimits::default())
}

fn first_bytes(model: &Model) -> &[u8] {
    model.graph.initializers.values().next().unwrap().bytes()
}

#[test]
fn references_are_confined() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("model");
    fs::create_dir_all(folder.join("weights")).unwrap();
    let bytes: Vec<u8> = (0..16).collect();
    fs::write(outer.path().join("secret.bin"), &bytes).unwrap();
    fs::write(folder.join("w.bin"), &bytes).unwrap();
    fs::write(folder.join("weights/w.bin"), &bytes).unwrap();
    fs::write(folder.join("empty.bin"), []).unwrap();

    for (location, offset, expected) in [
        ("w.bin", "0", &bytes[..8]),
        ("w.bin", "8", &bytes[8..]),
        ("./w.bin", "4", &bytes[4..12]),
        ("weights/w.bin", "3", &bytes[3..11]),
    ] {
        let model = read_in(&folder, &[("location", location), ("offset", offset)])
            .unwrap_or_else(|e| panic!("{location}: {e}"));
        assert_eq!(first_bytes(&model), expected, "{location} at {offset}");
    }

    use ExternalProblem as E;
    let absolute = outer.path().join("secret.bin");
    type Expected = fn(&E) -> bool;
    let cases: [(&str, &[(&str, &str)], Expected, &str); 16] = [
        (
            "no location",
            &[("offset", "0")],
            |e| matches!(e, E::NoLocation),
            "location",
        ),
        (
            "absolute",
            &[("location", absolute.to_str().unwrap())],
            |e| matches!(e, E::Absolute),
            "absolute",
        ),
        (
            "drive",
            &[("location", "C:\\w.bin")],
            |e| matches!(e, E::Absolute),
            "absolute",
        ),
        (
            "parent",
            &[("location", "../secret.bin")],
            |e| matches!(e, E::Climbs),
            "'..'",
        ),
        (
            "parent within",
            &[("location", "weights/../w.bin")],
            |e| matches!(e, E::Climbs),
            "'..'",
        ),
        (
            "parent with backslashes",
            &[("location", "..\\secret.bin")],
            |e| matches!(e, E::Climbs),
            "'..'",
        ),
        (
            "missing",
            &[("location", "gone.bin")],
            |e| matches!(e, E::NotFound { .. }),
            "no such file",
        ),
        (
            "below a file",
            &[("location", "w.bin/x")],
            |e| matches!(e, E::NotFound { .. }),
            "no such file",
        ),
        (
            "folder",
            &[("location", "weights")],
            |e| matches!(e, E::NotAFile),
            "regular file",
        ),
        (
            "offset is text",
            &[("location", "w.bin"), ("offset", "two")],
            |e| matches!(e, E::NotANumber { key: "offset", .. }),
            "'two'",
        ),
        (
            "negative length",
            &[("location", "w.bin"), ("length", "-8")],
            |e| matches!(e, E::NotANumber { key: "length", .. }),
            "'-8'",
        ),
        (
            "offset past the end",
            &[("location", "w.bin"), ("offset", "17")],
            |e| {
                matches!(
                    e,
                    E::OffsetPastEnd {
                        offset: 17,
                        size: 16
                    }
                )
            },
            "17",
        ),
        (
            "end past the end",
            &[("location", "w.bin"), ("offset", "9")],
            |e| {
                matches!(
                    e,
                    E::LengthPastEnd {
                        offset: 9,
                        length: 8,
                        size: 16
                    }
                )
            },
            "end at 16",
        ),
        (
            "huge offset",
            &[
                ("location", "w.bin"),
                ("offset", "18446744073709551615"),
                ("length", "8"),
            ],
            |e| matches!(e, E::OffsetPastEnd { .. }),
            "past",
        ),
        (
            "length of another tensor",
            &[("location", "w.bin"), ("length", "12")],
            |e| {
                matches!(
                    e,
                    E::LengthMismatch {
                        length: 12,
                        expected: 8
                    }
                )
            },
            "12",
        ),
        (
            "empty file",
            &[("location", "empty.bin")],
            |e| matches!(e, E::LengthPastEnd { size: 0, .. }),
            "end at 0",
        ),
    ];
    for (case, entries, expected, part) in cases {
        assert_problem(
            case,
            read_in(&folder, entries),
            |p| matches!(p, Problem::External { reason, .. } if expected(reason)),
            &[part, "model.onnx", "initializer 'w'"],
        );
    }
}

#[cfg(unix)]
#[test]
fn symbolic_links_must_stay_in_the_folder() {
    use std::os::unix::fs::symlink;
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("model");
    fs::create_dir(&folder).unwrap();
    fs::write(outer.path().join("secret.bin"), [7; 8]).unwrap();
    fs::write(folder.join("w.bin"), [1; 8]).unwrap();
    symlink("w.bin", folder.join("inside.bin")).unwrap();
    symlink("../secret.bin", folder.join("outside.bin")).unwrap();
    symlink(outer.path(), folder.join("up")).unwrap();
    symlink("loop.bin", folder.join("loop.bin")).unwrap();

    let model = read_in(&folder, &[("location", "inside.bin")]).unwrap();
    assert_eq!(first_bytes(&model), [1; 8]);
    for location in ["outside.bin", "up/secret.bin"] {
        assert_problem(
            location,
            read_in(&folder, &[("location", location)]),
            |p| {
                matches!(
                    p,
                    Problem::External {
                        reason: ExternalProblem::Leaves { .. },
                        ..
                    }
                )
            },
            &["secret.bin", "symbolic link"],
        );
    }
    assert_problem(
        "loop of links",
        read_in(&folder, &[("location", "loop.bin")]),
        |p| matches!(p, Problem::External { .. }),
        &["loop.bin"],
    );
    // The folder itself may be reached through a link.
    let link = outer.path().join("link");
    symlink(&folder, &link).unwrap();
    assert!(read_in(&link, &[("location", "w.bin")]).is_ok());
}

#[cfg(unix)]
#[test]
fn a_linked_model_may_use_data_beside_its_target() {
    use std::os::unix::fs::symlink;
    let outer = tempfile::tempdir().unwrap();
    let (contents, snapshot) = (outer.path().join("contents"), outer.path().join("snapshot"));
    fs::create_dir(&contents).unwrap();
    fs::create_dir(&snapshot).unwrap();
    let proto = external_model(&[("location", "w.bin")]);
    fs::write(contents.join("0a1b"), proto.encode_to_vec()).unwrap();
    fs::write(contents.join("2c3d"), [5; 8]).unwrap();
    symlink("../contents/0a1b", snapshot.join("model.onnx")).unwrap();
    symlink("../contents/2c3d", snapshot.join("w.bin")).unwrap();
    let model = read_model(snapshot.join("model.onnx"), &LoadLimits::default()).unwrap();
    assert_eq!(first_bytes(&model), [5; 8]);
}

#[test]
fn models_from_memory_need_a_folder_for_their_data() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("w.bin"), [3; 8]).unwrap();
    let bytes = external_model(&[("location", "w.bin")]).encode_to_vec();
    let limits = LoadLimits::default();
    assert_problem(
        "no folder",
        read_model_bytes(bytes.clone().into(), None, &limits),
        |p| {
            matches!(
                p,
                Problem::External {
                    reason: ExternalProblem::NoFolder,
                    ..
                }
            )
        },
        &["folder"],
    );
    let model = read_model_bytes(bytes.into(), Some(folder.path()), &limits).unwrap();
    assert_eq!(first_bytes(&model), [3; 8]);
}

#[test]
fn large_initializers_are_written_beside_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.onnx");
    let mut graph = graph(vec![node("Add", &["x", "w"], &["y"])], &["x"], &["y"]);
    graph.initializer.push(weight("w"));
    graph.initializer.push(TensorProto {
        dims: vec![300],
        float_data: (0..300).map(|i| i as f32).collect(),
        ..weight("large")
    });
    graph.initializer.push(TensorProto {
        dims: vec![2, 100],
        float_data: (0..200).map(|i| -i as f32).collect(),
        ..weight("larger")
    });
    let model = super::read(&model(9, graph)).unwrap();
    let options = WriteOptions {
        external_from_bytes: Some(100),
    };
    write_model_with(&model, &path, &options).unwrap();
    let data = folder.path().join("m.onnx.data");
    assert_eq!(fs::metadata(&data).unwrap().len(), 4096 + 800);
    let read = read_model(&path, &LoadLimits::default()).unwrap();
    assert_eq!(read, model);
    let shared: Vec<bool> = read
        .graph
        .initializers
        .iter()
        .filter(|(id, _)| read.graph.value_name(**id).starts_with("large"))
        .map(|(_, tensor)| tensor.is_shared())
        .collect();
    assert_eq!(shared, [true, true]);

    // A model may be written over the files that it is mapped from.
    write_model_with(&read, &path, &options).unwrap();
    assert_eq!(read, model);
    assert_eq!(read_model(&path, &LoadLimits::default()).unwrap(), model);
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(names.len(), 2, "no temporary file is left");
}

#[test]
fn files_that_cannot_be_mapped_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let limits = LoadLimits::default();
    let is_io = |p: &Problem| matches!(p, Problem::Io { .. });
    assert_problem(
        "folder",
        read_model(folder.path(), &limits),
        is_io,
        &["regular file"],
    );
    assert_problem(
        "missing",
        read_model(folder.path().join("gone.onnx"), &limits),
        is_io,
        &["gone.onnx"],
    );
    fs::write(folder.path().join("empty.onnx"), []).unwrap();
    assert_problem(
        "empty",
        read_model(folder.path().join("empty.onnx"), &limits),
        |p| matches!(p, Problem::Empty),
        &["empty.onnx", "empty"],
    );
    let model = super::read(&model(9, graph(vec![], &["x"], &["x"]))).unwrap();
    assert_problem(
        "no such folder to write to",
        crate::write_model(&model, folder.path().join("none/m.onnx")),
        is_io,
        &["none"],
    );
}
