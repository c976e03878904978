//! Output bits are equal for every participant count, tuning value and instruction-set tier, on every kernel path.

use onl_cpu::IsaTier;
use onl_executor::{CpuExecutor, RunOptions};
use onl_kernels::{BenchNode, Coverage, Example, KernelEntry, KernelTable, SearchContext};
use onl_profiling::Collector;
use onl_snapshot::{
    Digest, GRAIN_ELEMENTS, LaneCosts, MINIMUM_ELEMENTS, ParameterKind, ParameterRow,
    ParameterValue, Search, TuningSnapshot,
};
use onl_tensor::ElementType;
use std::sync::Arc;

const LANES: [usize; 4] = [1, 2, 3, 7];
/// Edges of vector loops, and one size that is divided.
const SIZES: [usize; 5] = [1, 17, 64, 1_000, 5_000];

struct Outcome {
    digest: Digest,
    admitted: usize,
    observed: usize,
}

fn run(
    entry: &KernelEntry,
    element_type: ElementType,
    example: &Example,
    row: Option<&ParameterRow>,
    tier: IsaTier,
    executor: &Arc<CpuExecutor>,
) -> Outcome {
    let mut snapshot = TuningSnapshot::portable().with_lane_costs(LaneCosts {
        hot_ns: 0.0,
        cold_ns: 0.0,
    });
    if let Some(row) = row {
        snapshot = snapshot.with_override(entry.key(element_type), row.clone());
    }
    let name = || {
        format!(
            "{} '{}' on {tier}, {row:?}",
            entry.key(element_type),
            example.name
        )
    };
    let mut node = BenchNode::new(entry, example, &snapshot, tier, executor.participants())
        .unwrap_or_else(|error| panic!("{}: {error}", name()));
    let collector = Collector::new(1_024);
    let options = RunOptions {
        collector: Some(&collector),
        ..RunOptions::default()
    };
    {
        let entered = executor
            .enter_with(options)
            .expect("the executor takes runs");
        node.run(entered.lanes())
            .unwrap_or_else(|error| panic!("{}: {error}", name()));
        node.sprinkle_special_values();
        // Some kernels refuse special values; they must do so in every form, which the digest then shows.
        let _ = node.run(entered.lanes());
    }
    let events = collector.drain().regions;
    Outcome {
        digest: node.digest(),
        admitted: events
            .iter()
            .map(|e| e.admitted as usize)
            .max()
            .unwrap_or(1),
        observed: events
            .iter()
            .map(|e| e.participants as usize)
            .max()
            .unwrap_or(1),
    }
}

/// A row that divides even small problems.
fn divided(entry: &KernelEntry) -> Option<ParameterRow> {
    let schema = entry.coverage.schema()?;
    let mut row = schema.defaults();
    for (name, value) in [
        (MINIMUM_ELEMENTS, 1),
        (GRAIN_ELEMENTS, 256),
        ("parallel.fmas_per_work_unit", 1),
    ] {
        if let Some(parameter) = schema.parameter(name) {
            let ParameterKind::Integer { minimum, .. } = parameter.kind else {
                continue;
            };
            row = row.with(name, ParameterValue::Integer(value.max(minimum)));
        }
    }
    schema.check_row(&row).is_ok().then_some(row)
}

#[test]
fn participants_change_no_bit() {
    let executors: Vec<Arc<CpuExecutor>> = LANES.into_iter().map(CpuExecutor::with_lanes).collect();
    let mut most_admitted = vec![0; LANES.len()];
    let mut most_observed = vec![0; LANES.len()];
    for entry in KernelTable::builtin().entries() {
        let row = divided(entry);
        for &element_type in entry.element_types {
            for size in SIZES {
                for example in (entry.examples)(element_type, size) {
                    let mut first: Option<Digest> = None;
                    for (index, executor) in executors.iter().enumerate() {
                        let outcome = run(
                            entry,
                            element_type,
                            &example,
                            row.as_ref(),
                            IsaTier::detect(),
                            executor,
                        );
                        most_admitted[index] = outcome.admitted.max(most_admitted[index]);
                        most_observed[index] = outcome.observed.max(most_observed[index]);
                        assert_eq!(
                            *first.get_or_insert(outcome.digest),
                            outcome.digest,
                            "{} '{}' of size {size} differs on {} lanes",
                            entry.key(element_type),
                            example.name,
                            LANES[index]
                        );
                    }
                }
            }
        }
    }
    assert_eq!(
        most_admitted, LANES,
        "thresholds were crossed on every executor"
    );
    assert!(
        most_observed[1..].iter().all(|&o| o > 1),
        "other lanes took part: {most_observed:?}"
    );
}

#[test]
fn tiers_change_no_bit() {
    let executor = CpuExecutor::with_lanes(1);
    for entry in KernelTable::builtin().entries() {
        for &element_type in entry.element_types {
            for size in SIZES {
                for example in (entry.examples)(element_type, size) {
                    let digest =
                        |tier| run(entry, element_type, &example, None, tier, &executor).digest;
                    let scalar = digest(IsaTier::Scalar);
                    for &tier in IsaTier::available() {
                        assert_eq!(
                            digest(tier),
                            scalar,
                            "{} '{}' of size {size} differs on {tier}",
                            entry.key(element_type),
                            example.name
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn candidates_change_no_bit() {
    let executor = CpuExecutor::with_lanes(3);
    for entry in KernelTable::builtin().entries() {
        let Coverage::Calibratable {
            search,
            schema,
            sizes,
        } = entry.coverage
        else {
            continue;
        };
        for &element_type in entry.element_types {
            let context = SearchContext {
                element_type,
                participants: 3,
                l1d_bytes: Some(32 << 10),
                l2_bytes: None,
            };
            let rows: Vec<ParameterRow> = match search(&context) {
                Search::Crossover {
                    parameter,
                    below,
                    above,
                    grid,
                } => [below, above.clone()]
                    .into_iter()
                    .chain(
                        grid.into_iter()
                            .map(|v| above.clone().with(parameter, ParameterValue::Integer(v))),
                    )
                    .collect(),
                Search::Candidates(candidates) => {
                    candidates.into_iter().map(|c| c.values).collect()
                }
            };
            for size in [sizes[0].min(5_000), 9_000] {
                for example in (entry.examples)(element_type, size) {
                    let digest = |row: &ParameterRow| {
                        run(
                            entry,
                            element_type,
                            &example,
                            Some(row),
                            IsaTier::detect(),
                            &executor,
                        )
                        .digest
                    };
                    let expected = digest(&schema().defaults());
                    for row in &rows {
                        assert_eq!(
                            digest(row),
                            expected,
                            "{} '{}' of size {size} differs under {row}",
                            entry.key(element_type),
                            example.name
                        );
                    }
                }
            }
        }
    }
}
