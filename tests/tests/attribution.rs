//! Models in `onl` and in ONNX Runtime: `onl attribute`, its processes, and who loads the other runtime.

use onl_evidence::attribution::{
    Answer, Arm, AttributionReport, Count, InputFile, InputShape, ModelIdentity, ModelPlan, Phase,
    PhaseSample, Protocol, Quantity, Request, RunnerError, Sample, SampleRunner, Subject,
    attribute_model,
};
use onl_evidence::report::{Report, read};
use onl_ir::{
    Attribute, Function, Graph, Model, Node, OpId, OpsetImport, TensorType, TypeInfo, ValueId,
    ValueInfo,
};
use onl_tensor::{ElementType, Tensor, Value};
use onl_tests::{ModelBuilder, model, onl, onnxruntime_library};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

fn waves(dims: &[usize]) -> Tensor {
    let count: usize = dims.iter().product();
    let values: Vec<f32> = (0..count)
        .map(|i| ((i * 37 % 101) as f32 - 50.0) / 64.0)
        .collect();
    Tensor::from_slice(dims, &values).expect("sizes agree")
}

/// Two products with biases; one weight is an initializer, one a constant node.
fn small_model() -> Vec<u8> {
    ModelBuilder::new(17)
        .input("x", ElementType::Float32, &[4, 96])
        .initializer("w", waves(&[96, 64]))
        .initializer("b", waves(&[64]))
        .node_with(
            "Constant",
            &[],
            &["v"],
            &[("value", Attribute::Tensor(Arc::new(waves(&[64, 32]))))],
        )
        .node("MatMul", &["x", "w"], &["p"])
        .node("Add", &["p", "b"], &["q"])
        .node("Relu", &["q"], &["r"])
        .node("MatMul", &["r", "v"], &["y"])
        .output("y", ElementType::Float32)
        .bytes()
}

/// A command that leaves the user's profiles alone.
fn command(folder: &Path) -> Command {
    let mut command = onl();
    command.env("ONL_TUNING_CACHE", folder.join("tuning"));
    command
}

/// Asks the processes of `onl attribute`, as the command does.
struct Processes {
    folder: PathBuf,
}

impl Processes {
    fn output(&self, request: &Request, wrap: impl Fn(&mut Command)) -> Output {
        let mut process = command(&self.folder);
        process
            .arg("attribution-process")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        wrap(&mut process);
        let mut child = process.spawn().expect("the command starts");
        let text = serde_json::to_vec(request).expect("a request is JSON");
        child
            .stdin
            .take()
            .expect("a pipe")
            .write_all(&text)
            .expect("it is read");
        child.wait_with_output().expect("the process ends")
    }
}

impl SampleRunner for Processes {
    fn run(&mut self, request: &Request) -> Result<Answer, RunnerError> {
        let output = self.output(request, |_| {});
        let reason = || String::from_utf8_lossy(&output.stderr).into_owned();
        serde_json::from_slice(&output.stdout).map_err(|_| RunnerError { reason: reason() })
    }
}

fn write_input(folder: &Path, name: &str, tensor: Tensor) -> InputFile {
    let path = folder.join(format!("{name}.pb"));
    onl::write_value(&path, &Value::from(tensor)).expect("the folder is writable");
    InputFile {
        name: name.to_owned(),
        path,
    }
}

fn take(processes: &mut Processes, arm: Arm, model: &Path, inputs: &[InputFile]) -> Sample {
    let request = Request::Sample {
        subject: Subject {
            arm,
            model: model.to_owned(),
            ort_file: model.with_extension("ort"),
            library: onnxruntime_library(),
            inputs: inputs.to_vec(),
        },
        round: 0,
        position: 0,
        warmup: 1,
        min_time_s: 0.0,
        outputs: None,
    };
    match processes.run(&request) {
        Ok(Answer::Sample(sample)) => *sample,
        other => panic!("{arm}: {other:?}"),
    }
}

#[test]
fn four_consumers_run_a_built_model_and_real_ones_with_equal_bits() {
    onnxruntime_library();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let small = folder.path().join("small.onnx");
    std::fs::write(&small, small_model()).expect("the folder is writable");
    let file = folder.path().join("report.json");
    let output = command(folder.path())
        .arg("attribute")
        .args([
            &small,
            &model("paraphrase_minilm_l3"),
            &model("minilm_l6_w8"),
        ])
        .args([
            "--rounds",
            "8",
            "--min-time",
            "0",
            "--warmup",
            "1",
            "--json",
        ])
        .args([
            "--dim",
            "sequence=16",
            "--dim",
            "sequence_length=16",
            "--output",
        ])
        .arg(&file)
        .output()
        .expect("the command starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    // 3: a machine that is busy with other tests may be too noisy to decide.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{errors}");
    let text = String::from_utf8(output.stdout).expect("JSON is text");
    assert_eq!(
        text,
        std::fs::read_to_string(&file).expect("the report was written")
    );
    let report: AttributionReport = read(&text).expect("a report");
    assert_eq!(report.check(), []);
    assert!(
        report.onnxruntime.version.starts_with("1.32."),
        "{:?}",
        report.onnxruntime
    );
    assert_eq!(report.models.len(), 3);
    for model in &report.models {
        let name = &model.model.name;
        assert_eq!(model.unsupported, [], "{name}");
        assert_eq!(model.samples.len(), Arm::ALL.len() * 8, "{name}");
        assert_eq!(model.outputs.loader_equals_protobuf, Some(true), "{name}");
        assert_eq!(model.outputs.unstable, [], "{name}");
        let distance = model.outputs.onl_relative_l2.expect("outputs are numbers");
        assert!(distance < 1e-4, "{name}: {distance}");
        assert!(
            model.operators.onl_runs > 0 && model.operators.onnxruntime_runs > 0,
            "{name}"
        );
        let matmul = model
            .operators
            .operators
            .iter()
            .find(|row| row.operator.contains("MatMul"));
        assert!(
            matmul.is_some_and(|row| row.onl_ns > 0.0),
            "{name}: {matmul:?}"
        );
        for sample in &model.samples {
            let separates = |phase: Phase| sample.phases.get(phase).wall_ns().is_some();
            let whole = matches!(sample.arm, Arm::Onnxruntime | Arm::OnnxruntimeOrtFormat);
            for phase in [Phase::Open, Phase::Parse, Phase::Resolve] {
                assert_eq!(separates(phase), !whole, "{name}, {}, {phase}", sample.arm);
            }
            let PhaseSample::Measured { resources, .. } = sample.phases.ready else {
                panic!("every consumer becomes ready");
            };
            assert!(resources.cpu_ns.value().is_some(), "{name}");
            assert!(
                sample
                    .peak_memory_bytes
                    .value()
                    .is_some_and(|bytes| bytes > 1 << 20),
                "{name}"
            );
            assert_eq!(
                sample.bytes_copied == Count::Unsupported,
                whole,
                "{name}, {}",
                sample.arm
            );
        }
    }
    // The loader copies what is not aligned in the file; handing the rest over copies nothing large.
    let real = &report.models[1];
    let copied = |arm: Arm| {
        let of_arm = |sample: &&Sample| sample.arm == arm;
        let sample = real.samples.iter().find(of_arm);
        sample
            .and_then(|sample| sample.bytes_copied.value())
            .expect("the loader counts")
    };
    let (read, handed) = (copied(Arm::Onl), copied(Arm::OnnxruntimeWithOnlLoader));
    assert!(
        read < real.model.file_bytes / 2,
        "{read} of {}",
        real.model.file_bytes
    );
    assert!(
        handed >= read && handed < read + 100_000,
        "{read}, {handed}"
    );
}

/// What the editor cannot make node by node: a subgraph with a constant of its own that captures an outer value, a call of
/// a model-local function, an attribute that holds a tensor.
fn model_with_a_subgraph_and_a_function() -> Model {
    let named = |name: &str, value_type: Option<TypeInfo>| ValueInfo {
        name: name.to_owned(),
        value_type,
    };
    let f32_of = |dims: &[usize]| {
        Some(TypeInfo::Tensor(TensorType::with_dims(
            ElementType::Float32,
            dims,
        )))
    };
    let node = |op: OpId, inputs: &[ValueId], output: ValueId| Node {
        name: String::new(),
        op,
        overload: String::new(),
        inputs: inputs.iter().copied().map(Some).collect(),
        outputs: vec![Some(output)],
        attributes: BTreeMap::new(),
    };
    let branch = |op: &str, constant: bool| {
        let mut graph = Graph {
            name: op.to_owned(),
            ..Graph::default()
        };
        let captured = graph.add_value(named("z", f32_of(&[2, 64])));
        graph.captures.push(captured);
        let mut inputs = vec![captured];
        if constant {
            let weight = graph.add_value(named("inner_weight", None));
            graph
                .initializers
                .insert(weight, Arc::new(waves(&[64, 64])));
            inputs.push(weight);
        }
        let output = graph.add_value(named(&format!("of_{op}"), f32_of(&[2, 64])));
        graph.nodes.push(node(OpId::new("", op), &inputs, output));
        graph.outputs.push(output);
        Attribute::Graph(Arc::new(graph))
    };
    let mut graph = Graph {
        name: "main".to_owned(),
        ..Graph::default()
    };
    let mut value = |name: &str, value_type| graph.add_value(named(name, value_type));
    let x = value("x", f32_of(&[2, 64]));
    let w = value("w", None);
    let z = value("z", f32_of(&[2, 64]));
    let condition = value("condition", None);
    let chosen = value("chosen", f32_of(&[2, 64]));
    let shape = value("shape", None);
    let filled = value("filled", None);
    let twice = value("twice", None);
    let y = value("y", f32_of(&[2, 64]));
    graph.inputs.push(x);
    graph.outputs.push(y);
    let bools = Tensor::from_bools(&[], &[false]).expect("a scalar");
    let shape_tensor = Tensor::from_slice(&[2], &[2i64, 64]).expect("two sizes");
    graph.initializers.insert(w, Arc::new(waves(&[64, 64])));
    graph.initializers.insert(condition, Arc::new(bools));
    graph.initializers.insert(shape, Arc::new(shape_tensor));
    let mut choose = node(OpId::new("", "If"), &[condition], chosen);
    choose
        .attributes
        .insert("then_branch".to_owned(), branch("Relu", false));
    choose
        .attributes
        .insert("else_branch".to_owned(), branch("MatMul", true));
    let mut fill = node(OpId::new("", "ConstantOfShape"), &[shape], filled);
    let half = Tensor::from_slice(&[1], &[0.5f32]).expect("one element");
    fill.attributes
        .insert("value".to_owned(), Attribute::Tensor(Arc::new(half)));
    graph.nodes = vec![
        node(OpId::new("", "MatMul"), &[x, w], z),
        choose,
        fill,
        node(OpId::new("local", "Twice"), &[chosen], twice),
        node(OpId::new("", "Add"), &[twice, filled], y),
    ];
    let mut body = Graph::default();
    let a = body.add_value(named("a", None));
    let sum = body.add_value(named("sum", None));
    body.inputs.push(a);
    body.outputs.push(sum);
    body.nodes.push(node(OpId::new("", "Add"), &[a, a], sum));
    let import = |domain: &str, version| OpsetImport {
        domain: domain.to_owned(),
        version,
    };
    Model {
        ir_version: 10,
        opset_imports: vec![import(OpId::ONNX, 17), import("local", 1)],
        graph,
        functions: vec![Function {
            op: OpId::new("local", "Twice"),
            overload: String::new(),
            opset_imports: vec![import(OpId::ONNX, 17)],
            attributes: Vec::new(),
            default_attributes: BTreeMap::new(),
            body,
        }],
        ..Model::default()
    }
}

#[test]
fn the_loader_hands_over_subgraphs_functions_and_tensor_attributes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("parts.onnx");
    let parts = model_with_a_subgraph_and_a_function();
    std::fs::write(&path, onl_onnx::model_to_bytes(&parts)).expect("the folder is writable");
    let mut processes = Processes {
        folder: folder.path().to_owned(),
    };
    let inputs = [write_input(folder.path(), "x", waves(&[2, 64]))];
    let protobuf = take(&mut processes, Arm::Onnxruntime, &path, &inputs);
    let loader = take(
        &mut processes,
        Arm::OnnxruntimeWithOnlLoader,
        &path,
        &inputs,
    );
    assert_eq!(loader.outputs, protobuf.outputs);
    assert_eq!(loader.outputs[0].dims, [2, 64]);
    // The loader copies both weights at most, if they are not aligned in the file; the editor copies the subgraph's
    // weight, two sizes, a condition and a half, and borrows the main graph's weight.
    let copied = loader.bytes_copied.value().expect("the loader counts");
    let weight = 64 * 64 * 4;
    assert!((weight..3 * weight + 100).contains(&copied), "{copied}");
}

#[test]
fn wrong_libraries_models_and_rounds_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let small = folder.path().join("small.onnx");
    std::fs::write(&small, small_model()).expect("the folder is writable");
    let text = folder.path().join("text.so");
    std::fs::write(&text, "no library").expect("the folder is writable");
    let library = onnxruntime_library();
    let (small, text) = (small.display().to_string(), text.display().to_string());
    let (library, missing) = (library.display().to_string(), format!("{text}.missing"));
    // The C library is a library, but not this one.
    let other = std::fs::read_to_string("/proc/self/maps")
        .ok()
        .and_then(|maps| {
            let line = maps.lines().find(|line| line.contains("/libc.so"))?;
            line.split_whitespace().last().map(str::to_owned)
        });
    let mut cases: Vec<(&str, Vec<&str>, i32, Vec<&str>)> = vec![
        (
            "missing library",
            vec![&small, "--ort-lib", &missing],
            1,
            vec![
                "there is no library",
                &missing,
                "fetch-models onnxruntime",
                "--ort-lib",
            ],
        ),
        (
            "file that is no library",
            vec![&small, "--ort-lib", &text],
            1,
            vec![
                "is not the library of ONNX Runtime 1.32",
                "fetch-models onnxruntime",
            ],
        ),
        (
            "file that is no model",
            vec![&text, "--ort-lib", &library],
            1,
            vec!["text.so"],
        ),
        (
            "missing model",
            vec![&missing, "--ort-lib", &library],
            1,
            vec!["missing"],
        ),
        ("no model", vec![], 2, vec!["MODEL"]),
        (
            "too few rounds",
            vec![&small, "--rounds", "7"],
            2,
            vec!["8 to 1000 rounds", "99 %"],
        ),
        (
            "a model twice",
            vec![&small, &small],
            2,
            vec!["is given twice"],
        ),
    ];
    if let Some(other) = &other {
        cases.push((
            "another library",
            vec![&small, "--ort-lib", other],
            1,
            vec!["it has no function OrtGetApiBase"],
        ));
    }
    for (case, arguments, code, words) in cases {
        let output = command(folder.path())
            .arg("attribute")
            .args(&arguments)
            .output()
            .expect("the command starts");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{case}: {errors}");
        assert!(!errors.contains("panicked"), "{case}: {errors}");
        assert_eq!(output.stdout, b"", "{case}");
        for word in words {
            assert!(
                errors.contains(word),
                "{case}: '{word}' is not in: {errors}"
            );
        }
    }
}

/// The system's loader tells of every library that a process opens.
#[cfg(target_os = "linux")]
#[test]
fn only_attribution_loads_the_other_runtime() {
    let library = onnxruntime_library();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let small = folder.path().join("small.onnx");
    std::fs::write(&small, small_model()).expect("the folder is writable");
    let watched = |process: &mut Command| {
        process.env("LD_DEBUG", "files");
    };
    let processes = Processes {
        folder: folder.path().to_owned(),
    };
    let loads =
        |output: &Output| String::from_utf8_lossy(&output.stderr).contains("libonnxruntime");
    let asked = processes.output(&Request::Describe { library }, watched);
    assert!(loads(&asked), "the loader tells of the library");
    let small = small.display().to_string();
    for arguments in [
        vec!["run", &small],
        vec!["bench", &small, "--min-time", "0"],
        vec!["profile", &small, "--runs", "1"],
        vec!["inventory"],
        vec!["kernel-baseline", "--check"],
        vec!["attribute", "--help"],
    ] {
        let mut process = command(folder.path());
        process.args(&arguments);
        watched(&mut process);
        let output = process.output().expect("the command starts");
        assert!(output.status.success(), "{arguments:?}");
        assert!(!loads(&output), "{arguments:?}");
    }
}

/// Real processes, of which the second one of `onl` is the first one's with one phase a tenth longer.
struct Planting {
    processes: Processes,
    phase: Phase,
    of_onl: BTreeMap<u32, Sample>,
}

impl Planting {
    fn planted(&mut self, round: u32) -> Sample {
        let mut sample = self.of_onl[&round].clone();
        sample.arm = Arm::OnlAgain;
        if let PhaseSample::Measured { wall_ns, .. } = sample.phases.get_mut(self.phase) {
            *wall_ns += *wall_ns / 10;
        }
        if self.phase == Phase::Steady {
            sample
                .steady
                .samples_ns
                .iter_mut()
                .for_each(|ns| *ns += *ns / 10);
        }
        sample
    }
}

impl SampleRunner for Planting {
    fn run(&mut self, request: &Request) -> Result<Answer, RunnerError> {
        let Request::Sample {
            subject,
            round,
            position,
            ..
        } = request
        else {
            return self.processes.run(request);
        };
        let ours = matches!(subject.arm, Arm::Onl | Arm::OnlAgain);
        if !ours {
            return self.processes.run(request);
        }
        // Whichever of the two arms comes first in a round is measured.
        if !self.of_onl.contains_key(round) {
            let Answer::Sample(sample) = self.processes.run(request)? else {
                panic!("onl runs the model");
            };
            self.of_onl.insert(*round, *sample);
        }
        let mut sample = if subject.arm == Arm::OnlAgain {
            self.planted(*round)
        } else {
            self.of_onl[round].clone()
        };
        sample.arm = subject.arm;
        sample.position = *position;
        Ok(Answer::Sample(Box::new(sample)))
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "measures; run it in release")]
fn a_tenth_planted_into_a_real_phase_is_attributed_to_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("small.onnx");
    std::fs::write(&path, small_model()).expect("the folder is writable");
    let plan = ModelPlan {
        identity: ModelIdentity {
            name: "small".to_owned(),
            file_bytes: 0,
            sha256: String::new(),
            inputs: vec![InputShape {
                name: "x".to_owned(),
                element_type: "f32".to_owned(),
                dims: vec![4, 96],
            }],
        },
        model: path,
        library: onnxruntime_library(),
        inputs: vec![write_input(folder.path(), "x", waves(&[4, 96]))],
        folder: folder.path().to_owned(),
    };
    let protocol = Protocol {
        rounds: 8,
        warmup: 1,
        min_time_s: 0.0,
        order_seed: 0,
        confidence: 0.99,
    };
    for phase in Phase::ALL {
        let mut runner = Planting {
            processes: Processes {
                folder: folder.path().to_owned(),
            },
            phase,
            of_onl: BTreeMap::new(),
        };
        let found = attribute_model(&mut runner, &plan, &protocol, &mut |_, _| true)
            .expect("all consumers run the model");
        for noise in &found.noise {
            let ratio = noise.ratio.expect("enough rounds");
            let planted = noise.quantity.name() == phase.name();
            if planted {
                assert_eq!(noise.agrees, Some(false), "{phase}: {noise:?}");
                assert!((ratio.estimate - 1.1).abs() < 0.005, "{phase}: {noise:?}");
            } else if noise.quantity != Quantity::Load {
                assert_eq!(ratio.estimate, 1.0, "{phase}: {noise:?}");
            }
        }
    }
}
