//! The order in which kernels should be migrated, from the published reports.

use crate::process;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Architectures in the order of the page.
const ARCHITECTURES: [&str; 2] = ["x86_64", "aarch64"];
/// Least score of a row that is worth a migration: a thousandth of the time of one model.
const LEAST_SCORE: f64 = 0.001;

#[derive(clap::Args)]
pub struct NextMigrationsArguments {
    /// Fail when the page is not what the reports give; write nothing.
    #[arg(long)]
    check: bool,
    /// Folder of published reports.
    #[arg(long, value_name = "FOLDER", default_value = "reports")]
    folder: PathBuf,
    /// Page to write.
    #[arg(long, value_name = "FILE", default_value = "docs/next-migrations.md")]
    page: PathBuf,
}

#[derive(Deserialize)]
struct Baseline {
    head: Head,
    cases: Vec<Case>,
    models: Vec<serde_json::Value>,
    serial_regions: Vec<Ranked>,
    parallel_regions: Vec<Ranked>,
}

#[derive(Deserialize)]
struct Head {
    build: Build,
    cpu: Cpu,
}

#[derive(Deserialize)]
struct Build {
    commit: String,
}

#[derive(Deserialize)]
struct Cpu {
    brand: Option<String>,
}

#[derive(Deserialize)]
struct Case {
    key: String,
    threads: String,
    size: u64,
    roofline: Option<Roofline>,
}

#[derive(Deserialize)]
struct Roofline {
    share: f64,
    ceiling: String,
}

#[derive(Deserialize)]
struct Ranked {
    rank: u32,
    score: f64,
    share: f64,
    operator: String,
    element_type: String,
    key: String,
    state: String,
    serial_reason: Option<SerialReason>,
    region: Option<String>,
    models: Vec<String>,
    utilization: Option<f64>,
}

#[derive(Deserialize)]
struct SerialReason {
    category: String,
}

#[derive(Deserialize)]
struct Attribution {
    models: Vec<AttributedModel>,
}

#[derive(Deserialize)]
struct AttributedModel {
    model: ModelName,
    decision: Decision,
}

#[derive(Deserialize)]
struct ModelName {
    name: String,
}

#[derive(Deserialize)]
struct Decision {
    kind: String,
    figures: Figures,
}

#[derive(Deserialize)]
struct Figures {
    leading_operators: Vec<Excess>,
}

#[derive(Deserialize)]
struct Excess {
    operator: String,
    excess_ns: f64,
}

/// Writes the page, or compares it.
pub fn generate(arguments: &NextMigrationsArguments) -> Result<()> {
    let workspace = process::workspace();
    let path = workspace.join(&arguments.page);
    let page = page(&workspace.join(&arguments.folder))?;
    if !arguments.check {
        std::fs::write(&path, page).with_context(|| format!("writing {}", path.display()))?;
        println!("wrote {}", path.display());
        return Ok(());
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    if found != page {
        bail!(
            "{} is not what the published reports give; run `cargo xtask next-migrations` and commit the page",
            path.display()
        );
    }
    Ok(())
}

fn read<T: for<'d> Deserialize<'d>>(path: &Path) -> Result<Option<T>> {
    let context = || format!("{}", path.display());
    match std::fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text).map(Some).with_context(context),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(context),
    }
}

fn page(folder: &Path) -> Result<String> {
    let mut text = String::from(
        "# Next migrations\n\n\
         Written by `cargo xtask next-migrations` from the published reports; do not edit.\n\n\
         The order in which kernels should get a parallel or a faster form. Rows are those of the two ranked lists of \
         `onl kernel-baseline`, ordered by their score: the most that could be gained, as a sum over the models of shares of \
         their time (1 is the whole time of one model). What `onl attribute` decided of these models stands beside it; \
         a kernel that `onl` runs slower than ONNX Runtime in a model that its kernels decide goes first among equals.\n",
    );
    let mut any = false;
    for architecture in ARCHITECTURES {
        let baseline = folder.join(format!("{architecture}_baseline.json"));
        let Some(baseline) = read::<Baseline>(&baseline)? else {
            continue;
        };
        let attribution = folder.join(format!("{architecture}_attribution.json"));
        let attribution: Option<Attribution> = read(&attribution)?;
        any = true;
        section(architecture, &baseline, attribution.as_ref(), &mut text);
    }
    if !any {
        text.push_str("\nNo baseline is published yet, so nothing is ranked.\n");
    }
    Ok(text)
}

/// A row of either list.
struct Row<'a> {
    list: &'static str,
    ranked: &'a Ranked,
    decisions: String,
    /// Nanoseconds beyond ONNX Runtime in models that kernels decide.
    excess_ns: f64,
}

fn section(
    architecture: &str,
    baseline: &Baseline,
    attribution: Option<&Attribution>,
    text: &mut String,
) {
    let lists = [
        ("serial", &baseline.serial_regions),
        ("parallel", &baseline.parallel_regions),
    ];
    let mut rows: Vec<Row<'_>> = Vec::new();
    let mut small = 0;
    for (list, ranked) in lists {
        for ranked in ranked {
            if ranked.score < LEAST_SCORE {
                small += 1;
                continue;
            }
            let (decisions, excess_ns) = decisions(ranked, attribution);
            rows.push(Row {
                list,
                ranked,
                decisions,
                excess_ns,
            });
        }
    }
    // Scores that agree to a thousandth are equal.
    let score = |row: &Row<'_>| (row.ranked.score * 1e3).round();
    rows.sort_by(|a, b| {
        let by_score = score(b).total_cmp(&score(a));
        let by_excess = b.excess_ns.total_cmp(&a.excess_ns);
        by_score
            .then(by_excess)
            .then(a.ranked.key.cmp(&b.ranked.key))
    });
    let commit = baseline.head.build.commit.get(..12).unwrap_or_default();
    let processor = baseline.head.cpu.brand.as_deref().unwrap_or(architecture);
    // Writing into a string cannot fail.
    let _ = write!(
        text,
        "\n## {architecture}\n\n{processor}, commit `{commit}`, {} models.\n\n\
         | order | kernel | region | score | list and rank | share of model time | utilization | roofline share | models | \
         attribution | state |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
        baseline.models.len()
    );
    let rooflines = rooflines(&baseline.cases);
    for (index, row) in rows.iter().enumerate() {
        let ranked = row.ranked;
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let state = match &ranked.serial_reason {
            Some(reason) => format!("{}: {}", ranked.state, reason.category),
            None => ranked.state.clone(),
        };
        let cells = [
            (index + 1).to_string(),
            format!(
                "{}/{} `{}`",
                ranked.operator, ranked.element_type, ranked.key
            ),
            ranked
                .region
                .clone()
                .unwrap_or_else(|| "outside regions".to_owned()),
            format!("{:.4}", ranked.score),
            format!("{} {}", row.list, ranked.rank),
            percent(ranked.share),
            ranked.utilization.map(percent).unwrap_or_default(),
            rooflines
                .get(ranked.key.as_str())
                .cloned()
                .unwrap_or_default(),
            ranked.models.join(", "),
            row.decisions.clone(),
            state,
        ];
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    if rows.is_empty() {
        text.push_str("\nNo row is worth a thousandth of the time of one model.\n");
    } else if small > 0 {
        let _ = write!(
            text,
            "\n{small} more rows are worth less than {LEAST_SCORE} each and are left out.\n"
        );
    }
    if attribution.is_none() {
        text.push_str("\nNo attribution is published for this architecture.\n");
    }
}

/// Share of the roofline of each kernel's largest case under the session default.
fn rooflines(cases: &[Case]) -> BTreeMap<&str, String> {
    let mut largest: BTreeMap<&str, &Case> = BTreeMap::new();
    for case in cases.iter().filter(|case| case.threads == "session") {
        let known = largest.entry(&case.key).or_insert(case);
        if case.size > known.size {
            *known = case;
        }
    }
    let words = |case: &Case| {
        let roofline = case.roofline.as_ref()?;
        Some(format!(
            "{:.1} % of {}",
            100.0 * roofline.share,
            roofline.ceiling
        ))
    };
    largest
        .into_iter()
        .filter_map(|(key, case)| Some((key, words(case)?)))
        .collect()
}

/// What was decided of a row's models, each with the operator's excess over ONNX Runtime where the decision names it.
fn decisions(ranked: &Ranked, attribution: Option<&Attribution>) -> (String, f64) {
    let mut words: Vec<String> = Vec::new();
    let mut excess_ns = 0.0;
    for model in attribution.into_iter().flat_map(|a| &a.models) {
        if !ranked.models.contains(&model.model.name) {
            continue;
        }
        let decision = &model.decision;
        let mut leading = decision.figures.leading_operators.iter();
        let of_operator = leading.find(|excess| excess.operator == ranked.operator);
        let mut entry = format!("{}: {}", model.model.name, decision.kind.replace('_', " "));
        if let Some(excess) = of_operator {
            let _ = write!(entry, " ({:+.3} ms a run)", excess.excess_ns / 1e6);
            if decision.kind == "native_kernel" {
                excess_ns += excess.excess_ns;
            }
        }
        words.push(entry);
    }
    (words.join("; "), excess_ns)
}
