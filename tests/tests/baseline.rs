//! The baseline: every case of the corpus runs as an ordinary session, and the command prints what can be checked.

use onl::{CpuExecutionPolicy, Environment, ProfileSource};
use onl_evidence::baseline::{
    BaselineReport, BaselineSettings, CORPUS, MeasureControls, ThreadSetting, measure_corpus,
};
use onl_evidence::report::{Report, read};
use onl_tensor::ElementType;
use onl_tests::{ModelBuilder, onl, run};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;

/// Everything is done once.
fn once() -> BaselineSettings {
    BaselineSettings {
        repeat: 1,
        warmup: 0,
        sample_ns: 1,
        recorded_runs: 1,
        ..BaselineSettings::default()
    }
}

#[test]
fn every_case_runs_and_opens_the_regions_of_its_kernel() {
    let environment = Environment::new(ProfileSource::None);
    let policy = CpuExecutionPolicy::default();
    let cancel = AtomicBool::new(false);
    let mut named = Vec::new();
    let mut progress = |name: &str, _: usize, _: usize| named.push(name.to_owned());
    let mut controls = MeasureControls {
        progress: &mut progress,
        cancel: &cancel,
    };
    let measured =
        measure_corpus(&environment, &policy, &once(), &mut controls).expect("every case runs");
    let cases: usize = CORPUS.iter().map(|case| case.sizes.len()).sum();
    assert_eq!(named.len(), cases, "the portable thresholds add no case");
    assert_eq!(measured.rows.len(), 2 * cases);
    let twice: usize = CORPUS
        .iter()
        .filter(|c| c.twice)
        .map(|c| c.sizes.len())
        .sum();
    assert_eq!(measured.pairs.len(), 2 * twice);
    for (row, name) in measured.rows.iter().zip(named.iter().flat_map(|n| [n, n])) {
        assert_eq!(&row.case, name);
        assert_eq!(
            (row.samples_ns.len(), row.dispatch_samples_ns.len()),
            (1, 1),
            "{name}"
        );
        assert!(row.bytes_read > 0 && row.bytes_written > 0, "{name}");
        assert!(
            row.startup_ns > row.build_ns && row.build_ns > 0.0,
            "{name}"
        );
        let case = CORPUS
            .iter()
            .find(|case| case.sizes.iter().any(|&size| case.name(size) == *name))
            .expect("a case of the corpus");
        let entry = case.entry(environment.table()).expect("a kernel");
        let labels: Vec<&str> = entry.regions.iter().map(|site| site.label).collect();
        let largest = case.sizes.last().map(|&size| case.name(size));
        if entry.coverage.schema().is_some() && largest.as_ref() == Some(name) {
            assert!(!row.regions.is_empty(), "{name} opens no region");
        }
        for region in &row.regions {
            assert!(
                labels.contains(&region.label.as_str()),
                "{name}: {}",
                region.label
            );
            if row.threads == ThreadSetting::Serial {
                assert_eq!(region.admitted.maximum, 1, "{name}");
            }
        }
        let product = matches!(case.operator, "Gemm" | "MatMul") && case.element_type.is_float();
        assert_eq!(row.flops > 0, product, "{name}");
    }
}

#[test]
fn a_cancelled_measurement_says_so() {
    let environment = Environment::new(ProfileSource::None);
    let cancel = AtomicBool::new(true);
    let mut controls = MeasureControls {
        progress: &mut |_, _, _| (),
        cancel: &cancel,
    };
    let settings = BaselineSettings {
        operators: vec!["Abs".to_owned()],
        ..once()
    };
    let policy = CpuExecutionPolicy::default();
    let error = measure_corpus(&environment, &policy, &settings, &mut controls)
        .expect_err("it was cancelled before the first sample");
    assert!(error.to_string().contains("cancelled"), "{error}");
}

/// A model with a product, a small addition, and a serial node whose output depends on values.
fn save_model(path: &Path) {
    let bytes = ModelBuilder::new(17)
        .input("x", ElementType::Float32, &[-1, 256])
        .initializer(
            "w",
            onl_tensor::Tensor::zeros(ElementType::Float32, &[256, 256]).expect("memory"),
        )
        .node("MatMul", &["x", "w"], &["y"])
        .node("Add", &["y", "x"], &["z"])
        .output("z", ElementType::Float32)
        .bytes();
    std::fs::write(path, bytes).expect("the folder is writable");
}

#[test]
fn the_command_ranks_models_and_writes_a_report_that_follows_from_its_samples() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let models = folder.path().join("models");
    std::fs::create_dir(&models).expect("the folder is writable");
    save_model(&models.join("product.onnx"));
    std::fs::write(models.join("broken.onnx"), b"no model").expect("the folder is writable");
    let output = folder.path().join("baseline.json");
    let done = onl()
        .args([
            "kernel-baseline",
            "--no-profiles",
            "--op",
            "Abs/f32",
            "--repeat",
            "6",
        ])
        .args(["--model-runs", "3", "--dim", "product:x_0=64", "--models"])
        .arg(&models)
        .arg("--output")
        .arg(&output)
        .output()
        .expect("the command starts");
    let (text, notes) = (
        String::from_utf8_lossy(&done.stdout).into_owned(),
        String::from_utf8_lossy(&done.stderr).into_owned(),
    );
    assert!(done.status.success(), "{notes}");
    assert!(notes.contains("model broken is left out"), "{notes}");
    for words in [
        "Abs/f32 contiguous/4000000",
        "noise floor",
        "serial regions",
        "divided regions",
    ] {
        assert!(text.contains(words), "no '{words}' in\n{text}");
    }
    let document = std::fs::read_to_string(&output).expect("the report");
    let report: BaselineReport = read(&document).expect("a baseline report");
    let problems: Vec<String> = report.check().iter().map(ToString::to_string).collect();
    let others: Vec<&String> = problems
        .iter()
        .filter(|p| !p.contains("is missing"))
        .collect();
    assert!(others.is_empty(), "{others:?}");
    assert!(!problems.is_empty(), "other operators are missing");
    assert_eq!(report.cases.len(), 6);
    assert!(report.cases.iter().all(|row| row.time.lower_ns.is_some()));
    let model = &report.models[0];
    assert_eq!((model.model.as_str(), report.models.len()), ("product", 1));
    assert_eq!((model.run_ns.len(), model.complete), (3, true));
    let product = &model.nodes[0];
    let dims: Vec<&[usize]> = product
        .inputs
        .iter()
        .flatten()
        .map(|i| &i.dims[..])
        .collect();
    assert_eq!(dims, [&[64, 256][..], &[256, 256]]);
    let constants: Vec<bool> = product
        .inputs
        .iter()
        .flatten()
        .map(|i| i.constant)
        .collect();
    assert_eq!(constants, [false, true]);
    assert!(product.serial_ns <= product.wall_ns && product.wall_ns > 0);
    let ranked = report.serial_regions.iter().chain(&report.parallel_regions);
    let of_product = ranked.filter(|region| region.operator == "MatMul").count();
    assert!(of_product >= 2, "its region, and its time outside");
}

#[test]
fn wrong_usage_is_told_before_anything_is_measured() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let empty = folder.path().display().to_string();
    for (arguments, code, words) in [
        (vec!["--op", "Nope"], 2, "no case of the corpus"),
        (vec!["--threads", "2"], 2, "--threads"),
        (vec!["--kernel", "Abs"], 2, "--op"),
        (vec!["--check", "--op", "Abs"], 2, "cannot be used"),
        (vec!["--op", "Abs", "--models", &empty], 1, "holds no file"),
        (vec!["--op", "Abs", "--model", "none.onnx"], 1, "none.onnx"),
        (
            vec!["--op", "Abs", "--dim", "m:x=1"],
            1,
            "names the model 'm'",
        ),
        (
            vec!["--op", "Abs", "--output", "/no/such/folder/r.json"],
            1,
            "/no/such/folder",
        ),
    ] {
        let done = onl()
            .arg("kernel-baseline")
            .args(&arguments)
            .output()
            .expect("the command starts");
        let notes = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(code), "{arguments:?}\n{notes}");
        assert!(notes.contains(words), "{arguments:?}\n{notes}");
        assert!(done.stdout.is_empty(), "{arguments:?}");
    }
}

/// Looks at what the process has mapped for as long as it lives.
#[cfg(target_os = "linux")]
#[test]
fn no_other_runtime_is_loaded() {
    let mut child = onl()
        .args([
            "kernel-baseline",
            "--no-profiles",
            "--op",
            "Not",
            "--repeat",
            "2",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command starts");
    let maps = format!("/proc/{}/maps", child.id());
    let (mut seen, mut own) = (0, false);
    let status = loop {
        if let Ok(text) = std::fs::read_to_string(&maps)
            && !text.is_empty()
        {
            seen += 1;
            own |= text.contains("/onl\n");
            assert!(!text.contains("onnxruntime"), "{text}");
        }
        if let Some(status) = child.try_wait().expect("it is our child") {
            break status;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    assert!(status.success());
    assert!(seen > 1 && own, "its maps were read {seen} times");
}

#[test]
fn json_is_the_report() {
    let text = run(onl().args([
        "kernel-baseline",
        "--no-profiles",
        "--op",
        "Not",
        "--repeat",
        "1",
        "--json",
    ]));
    let report: BaselineReport = read(&text).expect("a baseline report");
    assert_eq!(report.settings.operators, ["Not"]);
    assert!(report.cases.iter().all(|row| row.operator == "Not"));
    assert!(
        report
            .ceilings
            .iter()
            .any(|c| c.participants == 1 && !c.bandwidth.is_empty())
    );
}
