//! Proof of coverage states by observation.

use onl_cpu::IsaTier;
use onl_executor::{CpuExecutor, RunOptions};
use onl_kernels::{BenchNode, Coverage, Example, KernelEntry, KernelTable};
use onl_profiling::{Collector, ParallelRegionEvent};
use onl_snapshot::{
    KernelKey, LaneCosts, Parameter, ParameterKind, ParameterRow, ParameterValue, TuningSnapshot,
};
use onl_tensor::ElementType;
use serde::Serialize;

/// Lanes of the executor that verification runs on: more than the smallest limits that a parameter can set.
const LANES: usize = 4;
/// Sizes that examples are asked for until a parameter shows its effect.
const SIZES: [usize; 5] = [4_096, 65_536, 262_144, 1 << 20, 1 << 22];
/// Regions of one run that are looked at.
const EVENTS: usize = 4_096;

/// Whether the declared state of a path is what was observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The state is proved.
    Proved,
    /// Declared serial but opens parallel regions, or a parameter changes nothing that can be observed: parallel
    /// with a policy that no parameter reaches.
    ParallelFixedPolicy,
    /// The path could not be run.
    Failed,
}

/// Result of verifying one path.
#[derive(Debug, Clone, Serialize)]
pub struct VerifiedPath {
    /// Tuning key of the path.
    pub key: String,
    /// Declared state.
    pub state: String,
    /// What observation says.
    pub verdict: Verdict,
    /// Why the verdict is not `proved`; what proved it otherwise.
    pub detail: String,
}

/// Verifies every path of a table.
pub fn verify_table(
    table: &KernelTable,
    tier: IsaTier,
    mut progress: impl FnMut(usize, usize),
) -> Vec<VerifiedPath> {
    let executor = CpuExecutor::with_lanes(LANES);
    let paths: Vec<(&KernelEntry, ElementType)> = table
        .entries()
        .iter()
        .flat_map(|e| e.element_types.iter().map(move |&t| (e, t)))
        .collect();
    let total = paths.len();
    paths
        .into_iter()
        .enumerate()
        .map(|(index, (entry, element_type))| {
            progress(index, total);
            verify_entry(entry, element_type, &executor, tier)
        })
        .collect()
}

/// Verifies one path: a serial one opens no parallel region; every parameter of another one changes an observed
/// attribute of its regions (path, tiles, grain, participants or the reason to run inline) between two legal values.
pub fn verify_entry(
    entry: &KernelEntry,
    element_type: ElementType,
    executor: &CpuExecutor,
    tier: IsaTier,
) -> VerifiedPath {
    let key = entry.key(element_type);
    let (verdict, detail) = match observe(entry, &key, executor, tier) {
        Ok(proof) => (Verdict::Proved, proof),
        Err(Failure::FixedPolicy(why)) => (Verdict::ParallelFixedPolicy, why),
        Err(Failure::Run(why)) => (Verdict::Failed, why),
    };
    VerifiedPath {
        key: key.to_string(),
        state: entry.coverage.state().to_owned(),
        verdict,
        detail,
    }
}

enum Failure {
    FixedPolicy(String),
    Run(String),
}

fn observe(
    entry: &KernelEntry,
    key: &KernelKey,
    executor: &CpuExecutor,
    tier: IsaTier,
) -> Result<String, Failure> {
    let Some(schema) = entry.coverage.schema() else {
        for size in &SIZES[..3] {
            for example in (entry.examples)(key.element_type, *size) {
                let events = run(entry, &example, TuningSnapshot::portable(), executor, tier)?;
                if let Some(event) = events.iter().find(|e| e.admitted > 1) {
                    return Err(Failure::FixedPolicy(format!(
                        "declared serial, but region '{}' ran on {} lanes",
                        event.site.label, event.admitted
                    )));
                }
            }
        }
        return Ok("opens no parallel region".to_owned());
    };
    debug_assert!(!matches!(entry.coverage, Coverage::Serial { .. }));
    let mut proofs = Vec::new();
    for parameter in schema.parameters {
        proofs.push(prove(
            entry,
            key,
            parameter,
            &schema.defaults(),
            schema,
            executor,
            tier,
        )?);
    }
    Ok(proofs.join("; "))
}

fn prove(
    entry: &KernelEntry,
    key: &KernelKey,
    parameter: &Parameter,
    defaults: &ParameterRow,
    schema: &onl_snapshot::Schema,
    executor: &CpuExecutor,
    tier: IsaTier,
) -> Result<String, Failure> {
    let rows: Vec<ParameterRow> = legal_values(parameter)
        .into_iter()
        .map(|value| defaults.clone().with(parameter.name, value))
        .filter(|row| schema.check_row(row).is_ok())
        .collect();
    for size in SIZES {
        for example in (entry.examples)(key.element_type, size) {
            let mut first: Option<(Vec<Observed>, String)> = None;
            for row in &rows {
                let value = row
                    .get(parameter.name)
                    .map_or_else(String::new, ParameterValue::to_string);
                let snapshot = TuningSnapshot::portable()
                    .with_lane_costs(LaneCosts {
                        hot_ns: 0.0,
                        cold_ns: 0.0,
                    })
                    .with_override(key.clone(), row.clone());
                let observed: Vec<Observed> = run(entry, &example, snapshot, executor, tier)?
                    .iter()
                    .map(Observed::of)
                    .collect();
                match &first {
                    None => first = Some((observed, value)),
                    Some((other, other_value)) if *other != observed => {
                        return Ok(format!(
                            "{}: {other_value} and {value} differ on {}/{size}",
                            parameter.name, example.name
                        ));
                    }
                    Some(_) => {}
                }
            }
        }
    }
    Err(Failure::FixedPolicy(format!(
        "parameter '{}' changes nothing that can be observed, over {} legal values and sizes up to {}",
        parameter.name,
        rows.len(),
        SIZES[SIZES.len() - 1]
    )))
}

/// Legal values that are far apart, the default first.
fn legal_values(parameter: &Parameter) -> Vec<ParameterValue> {
    match parameter.kind {
        ParameterKind::Integer {
            default,
            minimum,
            maximum,
        } => {
            let tries = [
                default,
                minimum,
                maximum,
                default.saturating_mul(4),
                default / 4,
                default.saturating_mul(2),
                default / 2,
                1,
                2,
                1_024,
                65_536,
            ];
            let mut values: Vec<i64> = Vec::new();
            for value in tries {
                if (minimum..=maximum).contains(&value) && !values.contains(&value) {
                    values.push(value);
                }
            }
            values.into_iter().map(ParameterValue::Integer).collect()
        }
        ParameterKind::Float {
            default,
            minimum,
            maximum,
        } => [default, minimum, maximum]
            .into_iter()
            .map(ParameterValue::Float)
            .collect(),
        ParameterKind::Boolean { default } => [default, !default]
            .into_iter()
            .map(ParameterValue::Boolean)
            .collect(),
        ParameterKind::Choice { default, values } => std::iter::once(default)
            .chain(values.iter().copied().filter(|v| *v != default))
            .map(|v| ParameterValue::Choice(v.to_owned()))
            .collect(),
    }
}

/// What of a region can be observed and follows from parameters alone: not times, and not how many lanes happened to
/// be free.
#[derive(Debug, PartialEq, Eq)]
struct Observed {
    path: &'static str,
    tiles: u64,
    total: usize,
    grain: usize,
    requested: usize,
    inline_reason: Option<&'static str>,
}

impl Observed {
    fn of(event: &ParallelRegionEvent) -> Self {
        Observed {
            path: event.path,
            tiles: event.tiles,
            total: event.total as usize,
            grain: event.grain as usize,
            requested: event.requested as usize,
            inline_reason: event.inline_reason.map(|r| r.name()),
        }
    }
}

fn run(
    entry: &KernelEntry,
    example: &Example,
    snapshot: TuningSnapshot,
    executor: &CpuExecutor,
    tier: IsaTier,
) -> Result<Vec<ParallelRegionEvent>, Failure> {
    let failed = |why: String| Failure::Run(format!("example '{}': {why}", example.name));
    let mut node = BenchNode::new(entry, example, &snapshot, tier, LANES)
        .map_err(|error| failed(error.to_string()))?;
    let collector = Collector::new(EVENTS);
    {
        let entered = executor
            .enter_with(RunOptions {
                collector: Some(&collector),
                ..RunOptions::default()
            })
            .map_err(|error| failed(error.to_string()))?;
        node.run(entered.lanes())
            .map_err(|error| failed(error.to_string()))?;
    }
    Ok(collector.drain().regions)
}
