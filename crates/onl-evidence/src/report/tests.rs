use super::*;
use serde_json::{Value, json};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Times {
    head: ReportHead,
    times: Vec<f64>,
}

impl Report for Times {
    const KIND: ReportKind = ReportKind::Baseline;
    const SCHEMA: u32 = 3;

    fn head(&self) -> &ReportHead {
        &self.head
    }

    fn check(&self) -> Vec<Finding> {
        Vec::new()
    }

    fn corpus(&self) -> Vec<String> {
        Vec::new()
    }

    fn measurements(&self) -> Vec<Measurement> {
        Vec::new()
    }
}

fn document(kind: ReportKind, schema: u32) -> Value {
    let system = onl_cpu::CpuSystem::current();
    let policy = onl_executor::CpuExecutionPolicy::default();
    let execution = policy
        .resolve(&system)
        .expect("a default policy")
        .descriptor();
    json!({
        "head": ReportHead::current(kind, schema, execution),
        "times": [1.5, 0.1],
    })
}

#[test]
fn a_report_is_read_as_it_was_written() {
    let document = document(ReportKind::Baseline, 3);
    let text = document.to_string();
    assert_eq!(kind_of(&text).unwrap(), ReportKind::Baseline);
    let read: Times = read(&text).unwrap();
    assert_eq!(read.times, [1.5, 0.1]);
    assert_eq!(read.head.build, BuildInfo::current());
    assert_eq!(serde_json::to_value(&read).unwrap(), document);
}

#[test]
fn other_kinds_versions_and_fields_are_refused_with_their_reason() {
    let reason = |text: &str| read::<Times>(text).err().expect("an error").to_string();
    let other = document(ReportKind::Attribution, 3).to_string();
    assert_eq!(
        reason(&other),
        "it is of kind attribution, expected baseline"
    );
    let newer = document(ReportKind::Baseline, 4).to_string();
    assert!(reason(&newer).contains("version 4"), "{}", reason(&newer));
    let mut unknown = document(ReportKind::Baseline, 3);
    unknown["extra"] = json!(1);
    assert!(reason(&unknown.to_string()).contains("extra"));
    assert!(reason("{}").contains("head"));
    assert!(reason("not JSON").contains("it is not a report"));
}

#[test]
fn the_build_names_its_compiler_and_target() {
    let build = BuildInfo::current();
    assert!(build.compiler.starts_with("rustc "), "{build:?}");
    assert!(build.target.contains(std::env::consts::ARCH), "{build:?}");
    assert!(!build.commit.is_empty() || build.dirty, "{build:?}");
}
