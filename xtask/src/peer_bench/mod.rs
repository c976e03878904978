//! Kernels beside other libraries: one-node models in `onl` and in ONNX Runtime, products also in the OpenBLAS of NumPy and
//! in the crate `gemm`, each in a process of its own, in turns.

mod cases;
mod model;
mod peers;
mod plot;
mod report;
mod statistics;

use crate::{models, process};
use anyhow::{Context, Result, bail};
use cases::{Case, ElementType, Group};
use clap::Args;
use peers::Peer;
use report::{Arm, CaseReport, GroupReport, Report};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIST: &str = "xtask/peer-bench.toml";
const GEMM_PEER: &str = "xtask/peers/gemm";
const OPENBLAS_PEER: &str = "xtask/peers/openblas.py";
const NUMPY: &str = "numpy==2.3.4";
/// Largest relative difference from ONNX Runtime by the type of the first output: sums of thousands of terms in another
/// order for 32 and 64 bits; half a unit in the last place, and operands rounded once more there, for 16 bits.
const TOLERANCES: [(ElementType, f64); 4] = [
    (ElementType::F32, 1e-4),
    (ElementType::F64, 1e-9),
    (ElementType::F16, 1e-2),
    (ElementType::BF16, 3e-2),
];

/// Arguments of `peer-bench`.
#[derive(Args)]
pub struct PeerArguments {
    /// Groups to measure; all when none is named.
    #[arg(long, value_name = "NAME")]
    group: Vec<String>,
    /// Only cases that contain this text.
    #[arg(long, value_name = "TEXT")]
    case: Option<String>,
    /// Numbers of threads.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2], value_name = "N")]
    threads: Vec<u32>,
    /// Rounds; every process measures one block in each.
    #[arg(long, default_value_t = 15, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Milliseconds of a block of runs.
    #[arg(long, default_value_t = 10, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    block_ms: u64,
    /// Let onl use the saved profiles of this machine instead of its portable defaults.
    #[arg(long)]
    profiles: bool,
    /// Leave OpenBLAS and the crate gemm out.
    #[arg(long)]
    only_onnxruntime: bool,
    /// Folder for peers.json, peers.md and peers.svg.
    #[arg(long, default_value = "target/peer-bench", value_name = "FOLDER")]
    output: PathBuf,
    /// Write them to reports/ instead, named after the architecture; the tree must be committed.
    #[arg(long)]
    publish: bool,
    /// Show the cases and measure nothing.
    #[arg(long)]
    list: bool,
    /// End with an error when a gate is not met.
    #[arg(long)]
    check: bool,
}

/// Runs `peer-bench`.
pub fn bench(arguments: &PeerArguments) -> Result<()> {
    let workspace = process::workspace();
    let list = cases::read(&workspace.join(LIST))?;
    for name in &arguments.group {
        if !list.group.iter().any(|group| group.name == *name) {
            let names: Vec<&str> = list.group.iter().map(|group| group.name.as_str()).collect();
            bail!("there is no group '{name}'; groups: {}", names.join(", "));
        }
    }
    let selected =
        |group: &&Group| arguments.group.is_empty() || arguments.group.contains(&group.name);
    let wanted = |case: &&String| {
        arguments
            .case
            .as_ref()
            .is_none_or(|text| case.contains(text))
    };
    let groups: Vec<(&Group, Vec<&String>)> = list
        .group
        .iter()
        .filter(selected)
        .map(|group| (group, group.cases.iter().filter(wanted).collect::<Vec<_>>()))
        .filter(|(_, cases)| !cases.is_empty())
        .collect();
    if groups.is_empty() {
        bail!("no case is selected; --list shows them");
    }
    if arguments.list {
        for (group, cases) in &groups {
            println!("{}: {}", group.name, group.title);
            for case in cases {
                println!("    {case}");
            }
        }
        return Ok(());
    }
    let (commit, modified) = commit()?;
    if arguments.publish && modified {
        bail!(
            "the tree has changes that are not committed; published figures name the commit that they are of"
        );
    }
    let mut bench = Bench::start(arguments, &groups)?;
    let mut report = Report {
        schema: 1,
        kind: "peers",
        processor: processor(),
        commit,
        modified,
        versions: bench.versions.clone(),
        profiles: arguments.profiles,
        rounds: arguments.rounds,
        block_ms: arguments.block_ms,
        groups: Vec::new(),
    };
    let total: usize = groups.iter().map(|(_, cases)| cases.len()).sum();
    let mut done = 0;
    for (group, cases) in &groups {
        let mut measured = Vec::new();
        for text in cases {
            done += 1;
            eprintln!("[{done}/{total}] {}: {text}", group.name);
            let case = Case::parse(text, list.defaults.opset)?;
            let case = bench
                .measure(group, text, &case)
                .with_context(|| format!("case '{text}'"))?;
            for ratio in &case.ratios {
                eprintln!(
                    "    {} {}T {:.2} [{:.2}, {:.2}]",
                    ratio.peer, ratio.threads, ratio.median, ratio.low, ratio.high
                );
            }
            for (peer, reason) in &case.without {
                eprintln!("    without {peer}: {reason}");
            }
            measured.push(case);
        }
        let group = GroupReport::new(group, measured, list.defaults.scaling);
        report.groups.push(group);
        write(arguments, &report)?;
    }
    println!("{}", report::markdown(&report));
    let gates = report.groups.iter().flat_map(|group| &group.gates);
    let unmet = gates.filter(|gate| !gate.met).count();
    eprintln!("{}", written(arguments).0.display());
    if arguments.check && unmet > 0 {
        bail!("{unmet} gates are not met");
    }
    Ok(())
}

/// Paths of the document, the table and the picture.
fn written(arguments: &PeerArguments) -> (PathBuf, PathBuf, PathBuf) {
    let (folder, stem) = if arguments.publish {
        let stem = format!("{}_peers", std::env::consts::ARCH);
        (process::workspace().join("reports"), stem)
    } else {
        let folder = process::workspace().join(&arguments.output);
        (folder, "peers".to_owned())
    };
    let file = |extension: &str| folder.join(format!("{stem}.{extension}"));
    (file("json"), file("md"), file("svg"))
}

fn write(arguments: &PeerArguments, report: &Report) -> Result<()> {
    let (document, table, picture) = written(arguments);
    if let Some(folder) = document.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    let text = serde_json::to_string_pretty(report)? + "\n";
    std::fs::write(&document, text).with_context(|| format!("writing {}", document.display()))?;
    std::fs::write(&table, report::markdown(report))
        .with_context(|| format!("writing {}", table.display()))?;
    plot::draw(report, &picture)
}

/// Short name of the commit, and whether the tree differs from it.
fn commit() -> Result<(String, bool)> {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.current_dir(process::workspace()).args(arguments);
        process::output(&mut command)
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changes = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Ok((commit.trim().to_owned(), !changes.trim().is_empty()))
}

/// Name that the system has for the processor.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        text.lines()
            .find(|line| line.starts_with(name))
            .and_then(|line| line.split_once(':'))
            .map(|(_, value)| value.trim().to_owned())
    };
    let name = field("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    match field("cpu family").zip(field("model\t")) {
        Some((family, model)) => format!("{name}, family {family}, model {model}"),
        None => name,
    }
}

/// The processes, and what they need.
struct Bench {
    peers: Vec<Peer>,
    library: PathBuf,
    work: PathBuf,
    rounds: u32,
    block: Duration,
    versions: BTreeMap<String, String>,
}

impl Bench {
    fn start(arguments: &PeerArguments, groups: &[(&Group, Vec<&String>)]) -> Result<Self> {
        let workspace = process::workspace();
        process::run(process::cargo().args(["build", "--release", "--package", "onl-cli"]))?;
        let onl = workspace.join("target/release/onl");
        let library = models::onnxruntime_library()?;
        let mut versions = BTreeMap::new();
        versions.insert(
            "onnxruntime".to_owned(),
            models::ONNXRUNTIME_VERSION.to_owned(),
        );
        let asked = |name: &str| {
            !arguments.only_onnxruntime
                && groups
                    .iter()
                    .any(|(group, _)| group.peers.iter().any(|peer| peer == name))
        };
        let python = if asked("openblas") {
            let (python, version) = python()?;
            versions.insert("numpy".to_owned(), version);
            Some(python)
        } else {
            None
        };
        let gemm = if asked("gemm") {
            versions.insert("gemm".to_owned(), "0.19.0".to_owned());
            Some(gemm_peer()?)
        } else {
            None
        };
        let beside = groups.iter().any(|(group, _)| group.beside.is_some());
        let mut peers = Vec::new();
        for &threads in &arguments.threads {
            let ours = |profiles: bool| {
                let mut command = Command::new(&onl);
                command.args(["peer-process", "--threads", &threads.to_string()]);
                command.args((!profiles).then_some("--no-profiles"));
                command
            };
            peers.push(Peer::start("onl", threads, &mut ours(arguments.profiles))?);
            peers.push(Peer::start("onnxruntime", threads, &mut ours(false))?);
            peers.push(Peer::start("probe", threads, &mut ours(false))?);
            if beside {
                peers.push(Peer::start("f32", threads, &mut ours(arguments.profiles))?);
            }
            if let Some(python) = &python {
                let mut command = Command::new(python);
                command
                    .arg(workspace.join(OPENBLAS_PEER))
                    .env("OPENBLAS_NUM_THREADS", threads.to_string())
                    .env_remove("OPENBLAS_CORETYPE")
                    .env_remove("OPENBLAS_L2_SIZE");
                peers.push(Peer::start("openblas", threads, &mut command)?);
            }
            if let Some(gemm) = &gemm {
                let mut command = Command::new(gemm);
                command.arg(threads.to_string());
                peers.push(Peer::start("gemm", threads, &mut command)?);
            }
        }
        Ok(Bench {
            peers,
            library,
            work: workspace.join("target/peer-bench/work"),
            rounds: arguments.rounds,
            block: Duration::from_millis(arguments.block_ms),
            versions,
        })
    }

    /// Measures a case in all processes that can run it.
    fn measure(&mut self, group: &Group, text: &str, case: &Case) -> Result<CaseReport> {
        let files = model::write(case, &self.work.join("case"))?;
        let wide = match &group.beside {
            Some(name) => {
                let wide = case.in_type(ElementType::named(name)?);
                Some(model::write(&wide, &self.work.join("beside"))?)
            }
            None => None,
        };
        let mut without = BTreeMap::new();
        let mut active = Vec::new();
        let mut output_bytes = 0;
        for index in 0..self.peers.len() {
            let peer = &mut self.peers[index];
            let named = group.peers.iter().any(|name| name == peer.name);
            let opened = match peer.name {
                "onl" => {
                    let opened = peer.open("onl", &files, &self.library);
                    opened.map(|bytes| output_bytes = bytes)
                }
                "onnxruntime" if group.beside.is_none() => {
                    let opened = peer.open("onnxruntime", &files, &self.library);
                    opened.map(|_| ())
                }
                "f32" => match &wide {
                    Some(files) => peer.open("onl", files, &self.library).map(|_| ()),
                    None => continue,
                },
                "openblas" | "gemm" if named => match case.product() {
                    Some(product) => {
                        let first = case.inputs.iter().flatten().next();
                        let element_type = first.context("a product has operands")?.element_type;
                        peer.product(product, element_type)
                    }
                    None => continue,
                },
                _ => continue,
            };
            match opened {
                Ok(()) => active.push(index),
                Err(error) => {
                    without.insert(peer.name.to_owned(), format!("{error:#}"));
                }
            }
        }
        let mut report = CaseReport {
            case: text.to_owned(),
            units: 0,
            arms: Vec::new(),
            ratios: Vec::new(),
            scaling: Vec::new(),
            shares: Vec::new(),
            distance: None,
            without,
        };
        if report.without.contains_key("onl") {
            return Ok(report);
        }
        let bytes = case.input_bytes() + output_bytes;
        let arithmetic = group.ceiling.ends_with("_adds") || group.ceiling == "dot_products";
        report.units = match case.product() {
            Some((batches, m, k, n)) if arithmetic => 2 * (batches * m * k * n) as u64,
            _ => bytes,
        };
        for index in 0..self.peers.len() {
            let peer = &mut self.peers[index];
            if peer.name == "probe" {
                match peer.probe(&group.ceiling, bytes) {
                    Ok(()) => active.push(index),
                    Err(error) => {
                        let reason = format!("{error:#}");
                        report.without.insert("probe".to_owned(), reason);
                    }
                }
            }
        }
        report.distance = self.distance(&active, case)?;
        let mut arms: BTreeMap<usize, Arm> = BTreeMap::new();
        for round in 0..self.rounds as usize {
            for position in 0..active.len() {
                // Every process comes first, second, … equally often.
                let index = active[(position + round) % active.len()];
                let peer = &mut self.peers[index];
                let block = peer.measure(self.block)?;
                let median = statistics::median(&block.samples_ns).context("no samples")?;
                let arm = arms.entry(index).or_insert_with(|| Arm {
                    peer: peer.name.to_owned(),
                    threads: peer.threads,
                    rounds_ns: Vec::new(),
                    units: (block.units > 0).then_some(block.units),
                });
                arm.rounds_ns.push(median);
            }
        }
        for &index in &active {
            self.peers[index].close()?;
        }
        report.arms = arms.into_values().collect();
        report.derive(&group.ceiling);
        Ok(report)
    }

    /// Compares the outputs with ONNX Runtime's, and those of one thread with those of more.
    fn distance(&mut self, active: &[usize], case: &Case) -> Result<Option<f64>> {
        let mut folders: Vec<(&'static str, PathBuf)> = Vec::new();
        for &index in active {
            let peer = &mut self.peers[index];
            if matches!(peer.name, "onl" | "onnxruntime") {
                let folder = self.work.join(format!("{}-{}", peer.name, peer.threads));
                peer.write(&folder)?;
                folders.push((peer.name, folder));
            }
        }
        let mut ours = folders.iter().filter(|(name, _)| *name == "onl");
        let Some((_, first)) = ours.next() else {
            return Ok(None);
        };
        for (_, other) in ours {
            for output in 0..case.outputs.len() {
                let read = |folder: &Path| std::fs::read(folder.join(format!("{output}.pb")));
                if read(first)? != read(other)? {
                    bail!("output {output} differs between numbers of threads");
                }
            }
        }
        let Some((_, reference)) = folders.iter().find(|(name, _)| *name == "onnxruntime") else {
            return Ok(None);
        };
        let mut largest = 0.0f64;
        for output in 0..case.outputs.len() {
            let name = format!("{output}.pb");
            let ours = model::read_elements(&first.join(&name))?;
            let theirs = model::read_elements(&reference.join(&name))?;
            if let Some(((ours, float), (theirs, _))) = ours.zip(theirs) {
                let distance = distance(&ours, &theirs, float)
                    .with_context(|| format!("output {output} differs from ONNX Runtime's"))?;
                largest = largest.max(distance);
            }
        }
        let tolerance = TOLERANCES
            .iter()
            .find(|(element_type, _)| *element_type == case.outputs[0])
            .map_or(0.0, |(_, tolerance)| *tolerance);
        if largest > tolerance {
            bail!(
                "outputs differ from ONNX Runtime's by {largest:.1e}, at most {tolerance:.0e} is expected"
            );
        }
        Ok(Some(largest))
    }
}

/// Relative distance in the Euclidean norm of floats; integers must be equal, except that results that were rounded to few
/// values may lie one apart.
fn distance(ours: &[f64], theirs: &[f64], float: bool) -> Result<f64> {
    if ours.len() != theirs.len() {
        bail!("{} elements in place of {}", ours.len(), theirs.len());
    }
    let (mut difference, mut norm) = (0.0, 0.0);
    for (index, (&a, &b)) in ours.iter().zip(theirs).enumerate() {
        if a == b || (a.is_nan() && b.is_nan()) {
            norm += if b.is_finite() { b * b } else { 0.0 };
            continue;
        }
        if !float && (a - b).abs() > 1.0 {
            bail!("element {index} is {a} in place of {b}");
        }
        if !(a.is_finite() && b.is_finite()) {
            bail!("element {index} is {a} in place of {b}");
        }
        difference += (a - b) * (a - b);
        norm += b * b;
    }
    if !float {
        return Ok(0.0);
    }
    Ok(if norm > 0.0 {
        (difference / norm).sqrt()
    } else {
        f64::sqrt(difference)
    })
}

/// Python with NumPy below `target`, and its version.
fn python() -> Result<(PathBuf, String)> {
    let folder = process::workspace().join("target/peer-python");
    let python = folder.join("bin/python");
    let stamp = folder.join("installed.txt");
    if !(python.is_file() && std::fs::read_to_string(&stamp).is_ok_and(|text| text == NUMPY)) {
        eprintln!("installing {NUMPY} below target");
        let mut make = Command::new("python3");
        make.args(["-m", "venv", "--clear"]).arg(&folder);
        process::quiet(&mut make).context("python3 with its module venv is needed")?;
        let mut install = Command::new(&python);
        install.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--only-binary",
            ":all:",
            NUMPY,
        ]);
        process::quiet(&mut install).context("NumPy could not be installed")?;
        std::fs::write(&stamp, NUMPY)?;
    }
    let version = NUMPY.split("==").nth(1).unwrap_or(NUMPY);
    Ok((python, format!("{version} (OpenBLAS)")))
}

/// The program around the crate `gemm`, built below `target`.
fn gemm_peer() -> Result<PathBuf> {
    let workspace = process::workspace();
    let target = workspace.join("target/gemm-peer");
    let mut command = process::cargo();
    command
        .current_dir(workspace.join(GEMM_PEER))
        .args(["build", "--release", "--locked", "--target-dir"])
        .arg(&target);
    process::run(&mut command)?;
    Ok(target.join("release/gemm-peer"))
}
