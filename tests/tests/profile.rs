//! `onl profile`: tables, JSON and traces of real runs, and what it refuses.

use onl_tensor::{ElementType, Tensor};
use onl_tests::{ModelBuilder, onl};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;

const RUNS: u64 = 6;

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

    fn model(&self) -> PathBuf {
        let path = self.path("model.onnx");
        std::fs::write(&path, model()).expect("the folder is writable");
        path
    }

    fn profile(&self, arguments: &[&str]) -> Output {
        onl()
            .env("ONL_TUNING_CACHE", self.path("tuning"))
            .arg("profile")
            .arg(self.model())
            .args(["--warmup", "1", "--runs", &RUNS.to_string()])
            .args(arguments)
            .output()
            .expect("the command starts")
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.profile(&[arguments, &["--json"]].concat());
        succeeded(&output);
        serde_json::from_slice(&output.stdout).expect("stdout is one JSON document")
    }
}

/// A product that is worth dividing, and a few elements that are not.
fn model() -> Vec<u8> {
    let weights: Vec<f32> = (0..512 * 512).map(|i| (i % 7) as f32 - 3.0).collect();
    let weights = Tensor::from_slice(&[512, 512], &weights).expect("as many elements as dims");
    ModelBuilder::new(17)
        .input("x", ElementType::Float32, &[256, 512])
        .input("small", ElementType::Float32, &[8])
        .initializer("w", weights)
        .node("MatMul", &["x", "w"], &["product"])
        .node("Relu", &["small"], &["y"])
        .output("product", ElementType::Float32)
        .output("y", ElementType::Float32)
        .bytes()
}

fn succeeded(output: &Output) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
}

fn number(value: &Value, field: &str) -> u64 {
    value[field]
        .as_u64()
        .unwrap_or_else(|| panic!("{field} is a count in {value}"))
}

fn list<'v>(document: &'v Value, field: &str) -> &'v Vec<Value> {
    document[field].as_array().expect("a list")
}

#[test]
fn tables_show_nodes_regions_and_reasons() {
    let bench = Bench::new();
    let output = bench.profile(&["--threads", "2"]);
    succeeded(&output);
    let text = String::from_utf8_lossy(&output.stdout);
    for word in [
        "model.onnx",
        "x f32 256x512",
        "balanced wait",
        "MatMul",
        "Relu",
        "gemm.product",
        "elementwise.unary",
        "below_threshold",
        "6 recorded runs",
        "utilization",
    ] {
        assert!(text.contains(word), "'{word}' is not in:\n{text}");
    }
    assert!(!text.contains("dropped"), "{text}");
}

#[test]
fn figures_of_real_runs_agree_with_each_other() {
    let document = Bench::new().json(&["--threads", "2"]);
    assert_eq!(document["schema"], 1);
    assert_eq!(document["level"], "timing");
    assert_eq!(document["counter_set"], Value::Null);
    let totals = &document["totals"];
    let wall = number(totals, "wall_ns");
    assert_eq!(number(totals, "runs"), RUNS);
    let runs = list(&document, "runs");
    assert_eq!(runs.len() as u64, RUNS);
    let of_runs: u64 = runs.iter().map(|run| number(run, "wall_ns")).sum();
    assert_eq!(of_runs, wall);

    let nodes = list(&document, "nodes");
    assert_eq!(nodes.len(), 2);
    let mut in_nodes = 0;
    let mut shares = 0.0;
    for node in nodes {
        assert_eq!(number(node, "calls"), RUNS, "{node}");
        in_nodes += number(node, "wall_ns");
        shares += node["share"].as_f64().expect("a share");
        let parts = number(node, "in_regions_ns") + number(node, "serial_ns");
        assert_eq!(parts, number(node, "wall_ns"), "{node}");
        assert!(number(node, "in_regions_ns") > 0, "{node}");
    }
    assert!(in_nodes <= wall && shares <= 1.0);
    assert_eq!(number(totals, "outside_nodes_ns"), wall - in_nodes);
    let operators: Vec<&str> = list(&document, "operators")
        .iter()
        .map(|sum| sum["operator"].as_str().expect("a name"))
        .collect();
    assert_eq!(operators, ["MatMul", "Relu"]);

    let mut shares = 0.0;
    for region in list(&document, "regions") {
        shares += region["share"].as_f64().expect("no region is nested");
        let share = region["utilization"]
            .as_f64()
            .expect("all samples are there");
        assert!((0.0..=1.0).contains(&share), "{region}");
        let most = |field: &str| number(&region[field], "maximum");
        assert!(most("participants") <= most("admitted"), "{region}");
        assert!(most("admitted") <= most("requested"), "{region}");
        assert_eq!(number(region, "sampled_calls"), number(region, "calls"));
    }
    assert!(shares <= 1.0);
    let of_node = |operator: &str| -> Vec<&Value> {
        let node = nodes.iter().find(|node| node["operator"] == operator);
        let node = &node.expect("the operator ran")["node"];
        let regions = list(&document, "regions").iter();
        regions.filter(|region| region["node"] == *node).collect()
    };
    for region in of_node("Relu") {
        assert_eq!(region["inline_reasons"]["below_threshold"], RUNS);
    }
    let threads = document["execution"]["threads"].as_str().expect("text");
    for region in of_node("MatMul") {
        assert_eq!(region["site"]["label"], "gemm.product");
        assert!(
            number(region, "total") > number(region, "grain"),
            "{region}"
        );
        assert_eq!(region["inline_reasons"].get("below_threshold"), None);
        let requested = number(&region["requested"], "maximum");
        assert_eq!(requested.to_string(), threads, "{region}");
    }
}

#[test]
fn serial_runs_say_that_they_were_limited() {
    let document = Bench::new().json(&["--threads", "1"]);
    for region in list(&document, "regions") {
        assert_eq!(number(&region["participants"], "maximum"), 1);
        let reasons = region["inline_reasons"].as_object().expect("reasons");
        assert!(!reasons.is_empty(), "{region}");
    }
}

#[test]
fn traces_are_files_whose_slices_nest() {
    let bench = Bench::new();
    let path = bench.path("trace.json");
    let arguments = ["--trace", path.to_str().expect("the path is text")];
    succeeded(&bench.profile(&arguments));
    let bytes = std::fs::read(&path).expect("the trace was written");
    let trace: Value = serde_json::from_slice(&bytes).expect("the trace is JSON");
    let events = list(&trace, "traceEvents");
    let mut open: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut categories: BTreeMap<&str, u64> = BTreeMap::new();
    let mut names: Vec<&str> = Vec::new();
    for event in events {
        let name = event["name"].as_str().expect("every event has a name");
        if event["ph"] == "M" {
            names.extend(event["args"]["name"].as_str());
            continue;
        }
        names.push(name);
        assert_eq!(event["ph"], "X");
        let category = event["cat"].as_str().expect("a category");
        *categories.entry(category).or_default() += 1;
        let cut = |field: &str| (event[field].as_f64().expect("a number") * 1000.0) as u64;
        let (start, end) = (cut("ts"), cut("ts") + cut("dur"));
        let stack = open.entry(number(event, "tid")).or_default();
        while stack.last().is_some_and(|&outer| outer <= start) {
            stack.pop();
        }
        assert!(stack.last().is_none_or(|&outer| end <= outer), "{event}");
        stack.push(end);
    }
    assert_eq!(categories["run"], RUNS);
    assert_eq!(categories["node"], 2 * RUNS);
    assert!(categories["region"] >= 2 * RUNS);
    assert!(categories["lane"] >= categories["region"]);
    for name in ["runs", "lane 0", "MatMul node_0", "gemm.product"] {
        assert!(names.contains(&name), "'{name}' is not in {names:?}");
    }
}

#[test]
fn a_trace_that_cannot_be_written_is_an_error() {
    let bench = Bench::new();
    let path = bench.path("no_such_folder").join("trace.json");
    let output = bench.profile(&["--trace", path.to_str().expect("the path is text")]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("trace file") && text.contains("no_such_folder"));
    assert!(output.stdout.is_empty(), "nothing is shown");
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error() {
    let output = Bench::new().profile(&["--trace", "/dev/full"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("trace file /dev/full"), "{text}");
}

#[test]
fn events_without_room_are_counted_and_what_needs_them_is_missing() {
    let bench = Bench::new();
    let document = bench.json(&["--events", "1"]);
    let dropped = &document["totals"]["dropped"];
    assert!(number(dropped, "nodes") > 0 && number(dropped, "regions") > 0);
    assert_eq!(document["totals"]["outside_nodes_ns"], Value::Null);
    for node in list(&document, "nodes") {
        assert_eq!(node["serial_ns"], Value::Null);
    }
    let output = bench.profile(&["--events", "1"]);
    succeeded(&output);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("dropped") && text.contains("--events"),
        "{text}"
    );
}

#[test]
fn a_count_is_valid_or_absent() {
    for set in ["hardware", "software"] {
        let document = Bench::new().json(&["--counters", "--counter-set", set]);
        assert_eq!(document["level"], "counters");
        assert_eq!(document["counter_set"], set);
        assert_eq!(list(&document, "counter_names").len(), 4);
        let regions = list(&document, "regions").iter();
        let samples = regions.map(|region| &region["counters"]);
        for counters in samples.chain([&document["totals"]["counters"]]) {
            let statuses = list(counters, "statuses");
            for (value, status) in list(counters, "values").iter().zip(statuses) {
                assert_eq!(value.is_u64(), status == "valid", "{counters}");
            }
        }
    }
}

#[test]
fn saved_profiles_are_not_touched() {
    let bench = Bench::new();
    succeeded(&bench.profile(&[]));
    let folder = bench.path("tuning");
    assert!(!folder.exists(), "no folder is made");
    std::fs::create_dir(&folder).expect("the folder is writable");
    std::fs::write(folder.join("choices.toml"), "not a table of choices")
        .expect("the folder is writable");
    succeeded(&bench.profile(&[]));
    assert_eq!(contents(&folder), [("choices.toml".to_owned(), 22)]);
}

fn contents(folder: &Path) -> Vec<(String, u64)> {
    std::fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| {
            let entry = entry.expect("an entry");
            let size = entry.metadata().expect("of known size").len();
            (entry.file_name().to_string_lossy().into_owned(), size)
        })
        .collect()
}

#[test]
fn wrong_usage_ends_with_2() {
    let bench = Bench::new();
    for arguments in [
        &["--runs", "0"][..],
        &["--top", "0"],
        &["--by", "weather"],
        &["--counter-set", "software"],
        &["--input", "x"],
    ] {
        let output = onl()
            .arg("profile")
            .arg(bench.model())
            .args(arguments)
            .output()
            .expect("the command starts");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
}
