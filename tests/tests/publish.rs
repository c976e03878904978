//! Publishing: what is refused, what is written, and that the pages show it.

use onl_evidence::calibration::CalibrationSelection;
use onl_evidence::fixtures::{attribution_report, baseline_report, calibration_report};
use onl_tests::{onl, run, workspace};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The three reports of a machine as JSON, made by a commit of this repository.
fn reports() -> &'static [Value; 3] {
    static REPORTS: OnceLock<[Value; 3]> = OnceLock::new();
    REPORTS.get_or_init(|| {
        let commit = run(Command::new("git")
            .current_dir(workspace())
            .args(["rev-parse", "HEAD"]));
        let mut reports = [
            serde_json::to_value(baseline_report(1, 1.0)).unwrap(),
            serde_json::to_value(calibration_report(CalibrationSelection::default(), 1)).unwrap(),
            serde_json::to_value(attribution_report(1)).unwrap(),
        ];
        // The baseline's digest covers its head.
        let mut baseline = baseline_report(1, 1.0);
        baseline.head.build.commit = commit.trim().to_owned();
        onl_evidence::baseline::derive(&mut baseline);
        reports[0] = serde_json::to_value(baseline).unwrap();
        for report in &mut reports[1..] {
            report["head"]["build"]["commit"] = commit.trim().into();
        }
        reports
    })
}

fn write(folder: &Path, name: &str, report: &Value) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, serde_json::to_string_pretty(report).unwrap()).unwrap();
    path
}

fn xtask(task: &str) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command
        .current_dir(workspace())
        .args(["run", "--quiet", "--package", "xtask", "--", task]);
    command
}

fn publish(folder: &Path, inputs: &[PathBuf]) -> Output {
    xtask("publish-report")
        .arg("--onl")
        .arg(onl().get_program())
        .arg("--folder")
        .arg(folder)
        .args(inputs)
        .output()
        .expect("cargo starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A folder with all three reports published.
fn published(folder: &Path) {
    let names = ["baseline.json", "calibration.json", "attribution.json"];
    let inputs: Vec<PathBuf> = names
        .iter()
        .zip(reports())
        .map(|(name, report)| write(folder, name, report))
        .collect();
    let output = publish(&folder.join("reports"), &inputs);
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn complete_reports_of_a_clean_build_are_published_and_can_be_published_again() {
    let folder = tempfile::tempdir().unwrap();
    published(folder.path());
    let reports = folder.path().join("reports");
    let readme = std::fs::read_to_string(reports.join("README.md")).unwrap();
    assert!(
        readme.contains("| x86_64 | [page](x86_64_baseline.html)"),
        "{readme}"
    );
    assert!(
        readme.contains("| aarch64 | pending hardware: emulation shows"),
        "{readme}"
    );
    for (kind, original) in ["baseline", "calibration", "attribution"]
        .iter()
        .zip(self::reports())
    {
        let path = reports.join(format!("x86_64_{kind}.json"));
        let text = std::fs::read_to_string(&path).unwrap();
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read, *original, "{kind}");
        assert!(text.starts_with("{\n  \"head\": {"), "{kind}");
        let page = std::fs::read_to_string(reports.join(format!("x86_64_{kind}.html"))).unwrap();
        assert!(page.contains("<svg role=\"img\""), "{kind}");
        for outside in ["<script", "src=", "@import", "url("] {
            assert!(!page.contains(outside), "{kind} has {outside}");
        }
        // What was published is a report like its input, to the byte.
        let again = publish(&folder.path().join("again"), &[path]);
        assert!(again.status.success(), "{}", stderr(&again));
        let second = folder
            .path()
            .join("again")
            .join(format!("x86_64_{kind}.json"));
        assert_eq!(std::fs::read_to_string(second).unwrap(), text);
    }
}

/// A change to a report, and what the refusal says.
struct Forgery {
    name: &'static str,
    report: usize,
    edit: fn(&mut Value),
    refusal: &'static str,
}

const BASELINE: usize = 0;
const CALIBRATION: usize = 1;
const ATTRIBUTION: usize = 2;

/// Index of a kernel whose outcome is of this name.
fn kernel(report: &Value, outcome: &str) -> usize {
    let kernels = report["kernels"].as_array().unwrap();
    let of_outcome = |kernel: &Value| !kernel["outcome"][outcome].is_null();
    kernels.iter().position(of_outcome).expect("there is one")
}

const FORGERIES: &[Forgery] = &[
    Forgery {
        name: "another kind",
        report: BASELINE,
        edit: |report| report["head"]["kind"] = "acceptance".into(),
        refusal: "its kind is 'acceptance'",
    },
    Forgery {
        name: "another version",
        report: CALIBRATION,
        edit: |report| report["head"]["schema"] = 99.into(),
        refusal: "its structure is version 99",
    },
    Forgery {
        name: "an unknown field",
        report: ATTRIBUTION,
        edit: |report| report["models"][0]["speed"] = 1.into(),
        refusal: "speed",
    },
    Forgery {
        name: "an unknown field deep in the evidence",
        report: CALIBRATION,
        edit: |report| report["kernels"][0]["evidence"][0]["note"] = "x".into(),
        refusal: "at /kernels/0/evidence/0",
    },
    Forgery {
        name: "a missing field",
        report: BASELINE,
        edit: |report| {
            report["cases"][3]
                .as_object_mut()
                .unwrap()
                .remove("samples_ns");
        },
        refusal: "samples_ns",
    },
    Forgery {
        name: "changes that no commit holds",
        report: BASELINE,
        edit: |report| report["head"]["build"]["dirty"] = true.into(),
        refusal: "changes that no commit holds",
    },
    Forgery {
        name: "no commit",
        report: CALIBRATION,
        edit: |report| report["head"]["build"]["commit"] = "".into(),
        refusal: "names no commit",
    },
    Forgery {
        name: "a commit of another repository",
        report: ATTRIBUTION,
        edit: |report| report["head"]["build"]["commit"] = "12".repeat(20).into(),
        refusal: "is not in this repository",
    },
    Forgery {
        name: "a debug build",
        report: ATTRIBUTION,
        edit: |report| report["head"]["build"]["profile"] = "debug".into(),
        refusal: "by a debug build",
    },
    Forgery {
        name: "an emulated processor",
        report: BASELINE,
        edit: |report| report["head"]["emulated"] = true.into(),
        refusal: "emulated processor",
    },
    Forgery {
        name: "another architecture than the build's",
        report: BASELINE,
        edit: |report| report["head"]["cpu"]["architecture"] = "aarch64".into(),
        refusal: "different architectures",
    },
    Forgery {
        name: "a missing case",
        report: BASELINE,
        edit: |report| {
            report["cases"].as_array_mut().unwrap().remove(4);
        },
        refusal: "is missing",
    },
    Forgery {
        name: "selected operators only",
        report: BASELINE,
        edit: |report| report["settings"]["operators"] = json!(["Abs"]),
        refusal: "selected operators only",
    },
    Forgery {
        name: "no model",
        report: BASELINE,
        edit: |report| report["models"] = json!([]),
        refusal: "nothing is ranked",
    },
    Forgery {
        name: "an edited sample of a case",
        report: BASELINE,
        edit: |report| report["cases"][2]["samples_ns"][0] = 1.5.into(),
        refusal: "edited after it was written",
    },
    Forgery {
        name: "an edited rank",
        report: BASELINE,
        edit: |report| report["serial_regions"][0]["score"] = 0.9.into(),
        refusal: "serial_regions[0].score",
    },
    Forgery {
        name: "a missing kernel",
        report: CALIBRATION,
        edit: |report| {
            report["kernels"].as_array_mut().unwrap().remove(7);
        },
        refusal: "of the plan is missing",
    },
    Forgery {
        name: "a kernel that neither plan nor results have",
        report: CALIBRATION,
        edit: |report| {
            report["kernels"].as_array_mut().unwrap().remove(7);
            report["plan"].as_array_mut().unwrap().remove(7);
        },
        refusal: "was asked for and is missing",
    },
    Forgery {
        name: "selected kernels only",
        report: CALIBRATION,
        edit: |report| report["selection"]["kernels"] = json!(["Tanh/f32"]),
        refusal: "selected kernels only",
    },
    Forgery {
        name: "kernels without samples",
        report: CALIBRATION,
        edit: |report| {
            report["kernels"][2]["evidence"] = json!([]);
            report["kernels"][2]["outcome"] = json!({ "not_measured": { "reason": "time" } });
        },
        refusal: "1 kernels were not measured",
    },
    Forgery {
        name: "an edited sample of a calibration",
        report: CALIBRATION,
        edit: |report| {
            let index = kernel(report, "promoted");
            let evidence = &mut report["kernels"][index]["evidence"][0];
            evidence["samples"]["placebo"][0]["first_ns"] = 1e3.into();
        },
        refusal: "samples or decisions were changed",
    },
    Forgery {
        name: "a larger gain than was measured",
        report: CALIBRATION,
        edit: |report| {
            let index = kernel(report, "promoted");
            report["kernels"][index]["outcome"]["promoted"]["ratio"]["estimate"] = 0.25.into();
        },
        refusal: "the samples lead to",
    },
    Forgery {
        name: "a value outside of its schema",
        report: CALIBRATION,
        edit: |report| {
            let index = kernel(report, "promoted");
            report["kernels"][index]["values"][0]["value"] = json!(-3);
        },
        refusal: "-3",
    },
    Forgery {
        name: "an edited sample of an attribution",
        report: ATTRIBUTION,
        edit: |report| {
            report["models"][0]["samples"][1]["steady"]["samples_ns"][0] = 1_000.into();
        },
        refusal: "samples were changed",
    },
    Forgery {
        name: "an edited decision",
        report: ATTRIBUTION,
        edit: |report| report["models"][0]["decision"]["kind"] = "none".into(),
        refusal: "decision",
    },
    Forgery {
        name: "a missing round",
        report: ATTRIBUTION,
        edit: |report| {
            let samples = report["models"][0]["samples"].as_array_mut().unwrap();
            samples.truncate(samples.len() - 5);
        },
        refusal: "round",
    },
];

#[test]
fn every_planted_forgery_is_refused_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("reports");
    for forgery in FORGERIES {
        let mut report = reports()[forgery.report].clone();
        (forgery.edit)(&mut report);
        assert_ne!(report, reports()[forgery.report], "{}", forgery.name);
        let input = write(folder.path(), "forged.json", &report);
        let output = publish(&target, &[input]);
        let reason = stderr(&output);
        assert_eq!(
            output.status.code(),
            Some(1),
            "{} is published",
            forgery.name
        );
        assert!(
            reason.contains("nothing is published"),
            "{}: {reason}",
            forgery.name
        );
        assert!(
            reason.contains(forgery.refusal),
            "{}: {reason}",
            forgery.name
        );
        assert!(!target.exists(), "{} left something", forgery.name);
    }
}

#[test]
fn reports_of_two_machines_and_two_of_one_kind_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("reports");
    let attribution = write(folder.path(), "a.json", &reports()[ATTRIBUTION]);
    let mut other = reports()[CALIBRATION].clone();
    other["head"]["cpu"]["l3_bytes"] = (64 << 20).into();
    let calibration = write(folder.path(), "b.json", &other);
    let output = publish(&target, &[attribution.clone(), calibration]);
    assert!(
        stderr(&output).contains("of different machines"),
        "{}",
        stderr(&output)
    );
    let output = publish(&target, &[attribution.clone(), attribution]);
    assert!(
        stderr(&output).contains("a second report of kind"),
        "{}",
        stderr(&output)
    );
    assert!(!target.exists());
}

#[test]
fn the_order_of_migrations_follows_from_what_is_published() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("next-migrations.md");
    let task = |check: bool| {
        let mut command = xtask("next-migrations");
        command
            .arg("--folder")
            .arg(folder.path().join("reports"))
            .arg("--page")
            .arg(&page);
        if check {
            command.arg("--check");
        }
        command.output().expect("cargo starts")
    };
    published(folder.path());
    assert_eq!(task(true).status.code(), Some(1), "there is no page yet");
    assert!(task(false).status.success());
    assert!(task(true).status.success());
    let text = std::fs::read_to_string(&page).unwrap();
    let commit = reports()[BASELINE]["head"]["build"]["commit"]
        .as_str()
        .unwrap();
    insta::assert_snapshot!(text.replace(&commit[..12], "0123456789ab"));
    std::fs::write(&page, text.replace("| 1 |", "| 2 |")).unwrap();
    let output = task(true);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("next-migrations"),
        "{}",
        stderr(&output)
    );
}

/// Chromium, installed from the system's packages when there is none.
fn chromium() -> PathBuf {
    let found = || {
        let path = std::env::var_os("PATH")?;
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let mut places =
            std::env::split_paths(&path).flat_map(|folder| names.map(|n| folder.join(n)));
        places.find(|place| place.is_file())
    };
    if let Some(path) = found() {
        return path;
    }
    run(Command::new("apt-get").args(["update", "-qq"]));
    run(Command::new("apt-get").args([
        "install",
        "-y",
        "-qq",
        "--no-install-recommends",
        "chromium",
    ]));
    found().expect("the package has the program")
}

/// The document that a page becomes in a browser, and what the browser says of it.
fn opened(page: &Path, profile: &Path) -> (String, String) {
    let output = Command::new(chromium())
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ])
        .args([
            "--enable-logging=stderr",
            "--v=0",
            "--virtual-time-budget=5000",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("chromium starts");
    assert!(output.status.success(), "{}", stderr(&output));
    (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr(&output),
    )
}

/// Whether a figure of the JSON stands in the document, exactly.
fn shows(dom: &str, figure: &Value) -> bool {
    let number = figure.as_f64().expect("a number");
    let exact = serde_json::Number::from_f64(number)
        .expect("finite")
        .to_string();
    dom.contains(&format!("value=\"{exact}\""))
}

#[test]
#[ignore = "installs a browser when there is none"]
fn pages_open_in_a_browser_without_errors_and_show_the_figures() {
    let folder = tempfile::tempdir().unwrap();
    published(folder.path());
    let open = |kind: &str| {
        let page = folder
            .path()
            .join("reports")
            .join(format!("x86_64_{kind}.html"));
        let (dom, log) = opened(&page, &folder.path().join("profile"));
        let errors: Vec<&str> = log
            .lines()
            .filter(|line| line.contains("CONSOLE"))
            .collect();
        assert!(errors.is_empty(), "{kind}: {errors:?}");
        assert!(dom.contains("</svg>"), "{kind}");
        dom
    };
    let [baseline, calibration, attribution] = reports();

    let dom = open("baseline");
    for case in baseline["cases"].as_array().unwrap() {
        for name in ["median_ns", "lower_ns", "upper_ns"] {
            assert!(shows(&dom, &case["time"][name]), "{} {name}", case["case"]);
        }
        assert!(shows(&dom, &case["roofline"]["share"]), "{}", case["case"]);
    }
    for list in ["serial_regions", "parallel_regions"] {
        for row in baseline[list].as_array().unwrap() {
            assert!(shows(&dom, &row["score"]), "{row}");
            // The bar says it too.
            let shown = format!("{:.4}", row["score"].as_f64().unwrap());
            assert!(dom.matches(&shown).count() >= 2, "{row}");
        }
    }
    let cases = baseline["cases"].as_array().unwrap();
    let serial = cases.iter().filter(|c| c["threads"] == "serial");
    let (all, products) = serial.fold((0, 0), |(all, products), case| {
        (all + 1, products + usize::from(!case["gflops"].is_null()))
    });
    assert_eq!(
        dom.matches("<circle").count(),
        all + products,
        "a point per case and chart"
    );

    let dom = open("calibration");
    let mut promoted = 0;
    for kernel in calibration["kernels"].as_array().unwrap() {
        let ratio = &kernel["outcome"]["promoted"]["ratio"];
        if ratio.is_object() {
            promoted += 1;
            for name in ["estimate", "lower", "upper"] {
                assert!(shows(&dom, &ratio[name]), "{}", kernel["key"]);
            }
            // In the table and beside the interval of the chart.
            let shown = format!("{:.3}", ratio["estimate"].as_f64().unwrap());
            assert!(dom.matches(&shown).count() >= 2, "{}", kernel["key"]);
        }
    }
    assert!(
        promoted > 3,
        "{promoted} kernels are promoted by the script"
    );
    let crossover = |kernel: &&Value| kernel["evidence"][0]["search"]["crossover"].is_object();
    let searched = calibration["kernels"]
        .as_array()
        .unwrap()
        .iter()
        .filter(crossover)
        .count();
    assert_eq!(dom.matches("Crossover of onl/").count(), searched);

    let dom = open("attribution");
    for model in attribution["models"].as_array().unwrap() {
        assert!(dom.contains(model["decision"]["sentence"].as_str().unwrap()));
        for figures in model["figures"].as_array().unwrap() {
            for name in ["load_ns", "first_run_ns", "steady_ns"] {
                assert!(shows(&dom, &figures[name]), "{} {name}", figures["arm"]);
            }
        }
        for comparison in model["comparisons"].as_array().unwrap() {
            for ratio in comparison["ratios"].as_array().unwrap() {
                assert!(shows(&dom, &ratio["ratio"]["lower"]), "{ratio}");
                assert!(shows(&dom, &ratio["ratio"]["upper"]), "{ratio}");
            }
        }
    }
}
