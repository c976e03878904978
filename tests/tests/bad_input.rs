//! Bad input of every kind gets an error that says what is wrong, and the exit code for it.

use onl_ir::Attribute;
use onl_tensor::{ElementType, Tensor};
use onl_tests::{ModelBuilder, onl};
use std::path::{Path, PathBuf};
use std::process::Output;

struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Bench {
            folder: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("the folder is writable");
        path
    }

    fn npy(&self, name: &str, tensor: &Tensor) -> PathBuf {
        let path = self.path(name);
        onl_onnx::write_npy(&path, tensor).expect("a plain tensor fits a .npy file");
        path
    }

    fn run(&self, model: &Path, arguments: &[&str]) -> Output {
        onl()
            .env("ONL_TUNING_CACHE", self.path("tuning"))
            .arg("run")
            .arg(model)
            .args(arguments)
            .output()
            .expect("the command starts")
    }
}

/// The command ended with this code, printed an error with all of these words, and did not panic.
fn refused(case: &str, output: &Output, code: i32, words: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{case}: {text}");
    assert!(!text.contains("panicked"), "{case}: {text}");
    for word in words {
        assert!(
            text.to_lowercase().contains(&word.to_lowercase()),
            "{case}: '{word}' is not in: {text}"
        );
    }
}

fn relu() -> ModelBuilder {
    ModelBuilder::new(17)
        .input("x", ElementType::Float32, &[2, -1])
        .node("Relu", &["x"], &["y"])
        .output("y", ElementType::Float32)
}

#[test]
fn a_good_model_runs() {
    let bench = Bench::new();
    let model = bench.write("model.onnx", &relu().bytes());
    let output = bench.run(&model, &["--dim", "x_1=3"]);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(String::from_utf8_lossy(&output.stdout).contains("2x3"));
}

#[test]
fn files_that_are_no_models() {
    let bench = Bench::new();
    let whole = relu().bytes();
    let noise: Vec<u8> = (0..4096u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    for (case, bytes) in [
        ("empty", &[][..]),
        ("truncated", &whole[..whole.len() - 7]),
        ("random", &noise[..]),
    ] {
        let model = bench.write("model.onnx", bytes);
        refused(case, &bench.run(&model, &[]), 1, &["model.onnx"]);
    }
    refused(
        "missing",
        &bench.run(&bench.path("nowhere.onnx"), &[]),
        1,
        &["nowhere.onnx"],
    );
}

#[test]
fn graphs_that_break_the_rules() {
    let f32s = ElementType::Float32;
    let x = |opset| ModelBuilder::new(opset).input("x", f32s, &[2, 2]);
    let cases: Vec<(&str, Vec<u8>, &[&str])> = vec![
        (
            "cycle",
            x(17)
                .node("Add", &["x", "b"], &["a"])
                .node("Relu", &["a"], &["b"])
                .output("b", f32s)
                .bytes(),
            &["depends on its own output"],
        ),
        (
            "duplicate name",
            x(17)
                .node("Relu", &["x"], &["y"])
                .node("Abs", &["x"], &["y"])
                .output("y", f32s)
                .bytes(),
            &["'y'", "already"],
        ),
        (
            "missing value",
            x(17)
                .node("Add", &["x", "z"], &["y"])
                .output("y", f32s)
                .bytes(),
            &["'z'"],
        ),
        (
            "unknown operator",
            x(17)
                .node("Frobnicate", &["x"], &["y"])
                .output("y", f32s)
                .bytes(),
            &["Frobnicate"],
        ),
        (
            "unknown opset",
            x(999)
                .node("Relu", &["x"], &["y"])
                .output("y", f32s)
                .bytes(),
            &["999"],
        ),
        (
            "forbidden element type",
            ModelBuilder::new(17)
                .input("x", ElementType::Bool, &[2])
                .node("Exp", &["x"], &["y"])
                .output("y", ElementType::Bool)
                .bytes(),
            &["Exp", "bool"],
        ),
        (
            "attribute of a wrong kind",
            x(17)
                .node_with(
                    "Softmax",
                    &["x"],
                    &["y"],
                    &[("axis", Attribute::Float(1.0))],
                )
                .output("y", f32s)
                .bytes(),
            &["axis", "Int"],
        ),
        (
            "attribute out of range",
            x(17)
                .node_with("Softmax", &["x"], &["y"], &[("axis", Attribute::Int(7))])
                .output("y", f32s)
                .bytes(),
            &["axis"],
        ),
        (
            "permutation that is none",
            x(17)
                .node_with(
                    "Transpose",
                    &["x"],
                    &["y"],
                    &[("perm", Attribute::Ints(vec![0, 0]))],
                )
                .output("y", f32s)
                .bytes(),
            &["perm"],
        ),
        (
            "shapes that cannot be broadcast",
            x(17)
                .input("z", f32s, &[3, 3])
                .node("Add", &["x", "z"], &["y"])
                .output("y", f32s)
                .bytes(),
            &["broadcast"],
        ),
        (
            "too few inputs",
            x(17).node("Add", &["x"], &["y"]).output("y", f32s).bytes(),
            &["Add"],
        ),
    ];
    let bench = Bench::new();
    for (case, bytes, words) in cases {
        let model = bench.write("model.onnx", &bytes);
        refused(case, &bench.run(&model, &[]), 1, words);
    }
}

#[test]
fn inputs_that_do_not_fit() {
    let bench = Bench::new();
    let model = bench.write("model.onnx", &relu().bytes());
    let rank = bench.npy(
        "rank.npy",
        &Tensor::from_slice(&[2], &[1f32, 2.0]).expect("two"),
    );
    let shape = bench.npy(
        "shape.npy",
        &Tensor::from_slice(&[3, 1], &[1f32, 2.0, 3.0]).expect("three"),
    );
    let kind = bench.npy(
        "kind.npy",
        &Tensor::from_slice(&[2, 1], &[1i64, 2]).expect("two"),
    );
    let text = bench.write("text.npy", b"these are no numbers");
    let given = |path: &Path| format!("x={}", path.display());
    refused(
        "name",
        &bench.run(&model, &["--input", "z=rank.npy"]),
        1,
        &["'z'", "x"],
    );
    refused(
        "rank",
        &bench.run(&model, &["--input", &given(&rank)]),
        1,
        &["rank"],
    );
    refused(
        "shape",
        &bench.run(&model, &["--input", &given(&shape)]),
        1,
        &["size 3", "axis 0"],
    );
    refused(
        "type",
        &bench.run(&model, &["--input", &given(&kind)]),
        1,
        &["i64", "f32"],
    );
    refused(
        "not npy",
        &bench.run(&model, &["--input", &given(&text)]),
        1,
        &["text.npy"],
    );
    refused(
        "no file",
        &bench.run(&model, &["--input", "x=absent.npy"]),
        1,
        &["absent.npy"],
    );
    refused(
        "huge",
        &bench.run(&model, &["--dim", "x_1=18446744073709551615"]),
        1,
        &["overflow"],
    );
}

#[test]
fn usage_errors_end_with_two() {
    let bench = Bench::new();
    let model = bench.write("model.onnx", &relu().bytes());
    refused(
        "negative threads",
        &bench.run(&model, &["--threads", "-1"]),
        2,
        &["-1"],
    );
    refused(
        "negative threads, joined",
        &bench.run(&model, &["--threads=-1"]),
        2,
        &["-1"],
    );
    refused(
        "no pair",
        &bench.run(&model, &["--input", "x"]),
        2,
        &["NAME=VALUE"],
    );
    refused(
        "unknown option",
        &bench.run(&model, &["--frobnicate"]),
        2,
        &["--frobnicate"],
    );
    refused(
        "impossible threads",
        &bench.run(&model, &["--threads", "1000000"]),
        1,
        &["threads"],
    );
}

#[test]
fn unwritable_cache_does_not_stop_a_run() {
    let bench = Bench::new();
    let model = bench.write("model.onnx", &relu().bytes());
    // A file where the folder should be cannot be written by anyone, the superuser included.
    let blocked = bench.write("blocked", b"");
    let output = onl()
        .env("ONL_TUNING_CACHE", &blocked)
        .arg("run")
        .arg(&model)
        .output()
        .expect("the command starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(
        text.contains("blocked"),
        "the warning names the folder: {text}"
    );
    let output = onl()
        .env("ONL_TUNING_CACHE", &blocked)
        .args([
            "tune-kernels",
            "--apply",
            "--kernel",
            "Not",
            "--budget",
            "5",
        ])
        .output()
        .expect("the command starts");
    refused("apply", &output, 1, &["nothing was saved", "blocked"]);
}

/// A model whose weights are in a file beside it.
fn external(bench: &Bench) -> PathBuf {
    let weights = Tensor::from_slice(&[64], &[0.5f32; 64]).expect("sizes agree");
    let model = ModelBuilder::new(17)
        .input("x", ElementType::Float32, &[64])
        .initializer("w", weights)
        .node("Add", &["x", "w"], &["y"])
        .output("y", ElementType::Float32)
        .build();
    let path = bench.path("model.onnx");
    let options = onl_onnx::WriteOptions {
        external_from_bytes: Some(16),
    };
    onl_onnx::write_model_with(&model, &path, &options).expect("the folder is writable");
    path
}

/// Writes another location of the same length into the model file.
fn relocate(model: &Path, location: &str) {
    let mut bytes = std::fs::read(model).expect("just written");
    let old = b"model.onnx.data";
    assert_eq!(old.len(), location.len());
    let place = bytes
        .windows(old.len())
        .position(|w| w == old)
        .expect("the location is in the file");
    bytes[place..place + old.len()].copy_from_slice(location.as_bytes());
    std::fs::write(model, bytes).expect("the folder is writable");
}

#[test]
fn external_data_stay_in_the_folder() {
    let bench = Bench::new();
    let model = external(&bench);
    let data = bench.path("model.onnx.data");
    assert_eq!(
        bench.run(&model, &[]).status.code(),
        Some(0),
        "external data beside the model are read"
    );

    let whole = std::fs::read(&data).expect("written beside the model");
    std::fs::write(&data, &whole[..100]).expect("the folder is writable");
    refused(
        "past the end",
        &bench.run(&model, &[]),
        1,
        &["model.onnx.data", "'w'"],
    );

    std::fs::remove_file(&data).expect("the folder is writable");
    refused("missing", &bench.run(&model, &[]), 1, &["model.onnx.data"]);

    let outside = tempfile::tempdir().expect("a temporary folder");
    let secret = outside.path().join("secret");
    std::fs::write(&secret, &whole).expect("the folder is writable");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&secret, &data).expect("the folder is writable");
        refused(
            "symbolic link",
            &bench.run(&model, &[]),
            1,
            &["model.onnx.data"],
        );
        std::fs::remove_file(&data).expect("the folder is writable");
    }

    relocate(&model, "../../etc/passw");
    refused(
        "parent folder",
        &bench.run(&model, &[]),
        1,
        &["../../etc/passw"],
    );
    let model = external(&bench);
    relocate(&model, "/etc/passwd////");
    refused(
        "absolute path",
        &bench.run(&model, &[]),
        1,
        &["/etc/passwd"],
    );
}

#[test]
fn dimensions_that_overflow_or_are_negative() {
    let bench = Bench::new();
    let shape = |dims: &[i64]| Tensor::from_slice(&[dims.len()], dims).expect("sizes agree");
    let model = |dims: &[i64]| {
        ModelBuilder::new(17)
            .input("x", ElementType::Float32, &[4])
            .initializer("shape", shape(dims))
            .node("Reshape", &["x", "shape"], &["y"])
            .output("y", ElementType::Float32)
            .bytes()
    };
    for (case, dims) in [
        ("overflowing", &[i64::MAX, i64::MAX][..]),
        ("negative", &[-7, 2][..]),
        ("two unknown", &[-1, -1][..]),
        ("other size", &[3][..]),
    ] {
        let path = bench.write("model.onnx", &model(dims));
        refused(case, &bench.run(&path, &[]), 1, &["Reshape"]);
    }
    let expand = ModelBuilder::new(17)
        .input("x", ElementType::Float32, &[1])
        .initializer("shape", shape(&[1 << 40, 1 << 40]))
        .node("Expand", &["x", "shape"], &["y"])
        .output("y", ElementType::Float32)
        .bytes();
    let path = bench.write("model.onnx", &expand);
    refused("huge output", &bench.run(&path, &[]), 1, &["overflow"]);
}
