//! Real models agree with onnxruntime.

use onl_tensor::{ElementType, Tensor};
use onl_tests::{model, onl, reference_python, run, workspace};
use std::path::Path;
use std::process::Command;

/// Largest |difference| allowed is ABSOLUTE + RELATIVE · |reference|: the runtimes order sums differently, and
/// networks of this depth amplify that to a few units in the fifth digit.
const ABSOLUTE: f64 = 1e-4;
const RELATIVE: f64 = 1e-4;

fn agrees(name: &str, scenario: &str, inputs: &[(&str, &str, &str)]) {
    let path = model(name);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let reference = folder.path().join("reference");
    let ours = folder.path().join("ours");
    run(Command::new(reference_python())
        .arg(workspace().join("tests/python/onnxruntime_reference.py"))
        .arg(&path)
        .arg(&reference)
        .args(
            inputs
                .iter()
                .map(|(name, shape, generator)| format!("{name}:int64:{shape}:{generator}")),
        ));
    let mut command = onl();
    command.arg("run").arg(&path).arg("--output").arg(&ours);
    for (name, _, _) in inputs {
        let file = reference.join(format!("input_{name}.npy"));
        command
            .arg("--input")
            .arg(format!("{name}={}", file.display()));
    }
    run(&mut command);
    let mut compared = 0;
    while reference.join(format!("output_{compared}.npy")).exists() {
        let file = format!("output_{compared}.npy");
        let expected = read(&reference.join(&file));
        let actual = read(&ours.join(&file));
        assert_eq!(
            actual.dims(),
            expected.dims(),
            "{name} {scenario}, {file}: shape"
        );
        assert_eq!(
            actual.element_type(),
            expected.element_type(),
            "{name} {scenario}, {file}: type"
        );
        for (index, (a, e)) in numbers(&actual)
            .into_iter()
            .zip(numbers(&expected))
            .enumerate()
        {
            assert!(
                (a - e).abs() <= ABSOLUTE + RELATIVE * e.abs(),
                "{name} {scenario}, {file}, element {index}: {a} instead of {e}"
            );
        }
        compared += 1;
    }
    assert!(compared > 0, "{name} {scenario}: the reference has outputs");
    assert!(
        !ours.join(format!("output_{compared}.npy")).exists(),
        "{name} {scenario}: more outputs than the reference"
    );
}

fn read(path: &Path) -> Tensor {
    onl_onnx::read_npy(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    match tensor.element_type() {
        ElementType::Float32 => tensor
            .as_slice::<f32>()
            .expect("f32")
            .iter()
            .map(|&v| f64::from(v))
            .collect(),
        ElementType::Int64 => tensor
            .as_slice::<i64>()
            .expect("i64")
            .iter()
            .map(|&v| v as f64)
            .collect(),
        other => panic!("outputs of {other} are not compared here"),
    }
}

fn paraphrase(shape: &str) {
    let inputs = [
        ("input_ids", shape, "int,1000,30000"),
        ("attention_mask", shape, "const,1"),
    ];
    agrees("paraphrase_minilm_l3", shape, &inputs);
}

fn minilm(shape: &str) {
    let inputs = [
        ("input_ids", shape, "int,1000,30000"),
        ("attention_mask", shape, "const,1"),
        ("token_type_ids", shape, "const,0"),
    ];
    agrees("minilm_l6_w8", shape, &inputs);
}

#[test]
fn paraphrase_minilm_l3_1x128() {
    paraphrase("1x128");
}

#[test]
fn paraphrase_minilm_l3_3x50() {
    paraphrase("3x50");
}

#[test]
fn minilm_l6_w8_1x128() {
    minilm("1x128");
}

#[test]
fn minilm_l6_w8_8x128() {
    minilm("8x128");
}
