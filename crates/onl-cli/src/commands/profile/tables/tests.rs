use super::*;
use onl::profiling::{CounterSample, ProcessCpuSummary, RegionSite};
use std::collections::BTreeMap;

static PRODUCT: RegionSite = RegionSite {
    label: "gemm.product",
    file: "product.rs",
    line: 1,
};

fn label(operator: &str, name: &str) -> NodeLabel {
    NodeLabel {
        operator: operator.to_owned(),
        name: name.to_owned(),
        kernel: format!("onl/{operator}"),
    }
}

fn labels() -> Vec<NodeLabel> {
    vec![
        label("MatMul", "/encoder/layer.0/attention/self/query/MatMul"),
        label("Relu", ""),
        label("MatMul", "/head/MatMul"),
    ]
}

fn node(node: u32, wall_ns: u64, in_regions_ns: Option<u64>) -> NodeSummary {
    NodeSummary {
        node,
        calls: 20,
        wall_ns,
        median_wall_ns: wall_ns / 20,
        share: wall_ns as f64 / 100e6,
        in_regions_ns,
        serial_ns: in_regions_ns.map(|inside| wall_ns - inside),
    }
}

fn every(count: u32) -> Spread {
    Spread {
        minimum: count,
        median: count,
        maximum: count,
    }
}

fn region(node: u32, wall_ns: u64) -> RegionSummary {
    RegionSummary {
        node: Some(node),
        site: &PRODUCT,
        path: "packed",
        tiles: 24,
        total: 96,
        grain: 4,
        nested: false,
        calls: 20,
        wall_ns,
        median_wall_ns: wall_ns / 20,
        share: Some(wall_ns as f64 / 100e6),
        requested: every(2),
        admitted: every(2),
        participants: Spread {
            minimum: 1,
            median: 2,
            maximum: 2,
        },
        inline_reasons: BTreeMap::new(),
        wait_ns: wall_ns / 50,
        sampled_calls: 20,
        utilization: Some(0.934),
        imbalance: Some(1.063),
        counters: CounterSample::without(CounterStatus::Unsupported),
    }
}

fn summary() -> Summary {
    let inline = RegionSummary {
        path: "",
        tiles: 0,
        admitted: every(1),
        participants: every(1),
        inline_reasons: BTreeMap::from([("cost", 1), ("below_threshold", 19)]),
        utilization: Some(0.99),
        imbalance: Some(1.0),
        ..region(1, 8_000_000)
    };
    let nested = RegionSummary {
        nested: true,
        share: None,
        inline_reasons: BTreeMap::from([("nested", 20)]),
        ..region(2, 2_000_000)
    };
    Summary {
        runs: 20,
        wall_ns: 100_000_000,
        median_wall_ns: 5_000_000,
        process_cpu: ProcessCpuSummary {
            valid_runs: 20,
            cpu_ns: 180_000_000,
            wall_ns: 100_000_000,
            overlapped_runs: 0,
            unsupported_runs: 0,
        },
        outside_nodes_ns: Some(1_000_000),
        counters: CounterSample::without(CounterStatus::Unsupported),
        dropped: Dropped::default(),
        nodes: vec![
            node(0, 60_000_000, Some(59_000_000)),
            node(2, 29_000_000, Some(28_500_000)),
            node(1, 10_000_000, Some(8_000_000)),
        ],
        regions: vec![region(0, 59_000_000), region(2, 28_500_000), inline, nested],
    }
}

fn rendered(summary: &Summary, by: &str, top: usize, counters: Option<CounterSet>) -> String {
    let labels = labels();
    let rendering = Rendering {
        summary,
        labels: &labels,
        by,
        top,
        counters,
    };
    // Cells are padded; snapshots are easier to edit without the padding at the ends of lines.
    let text = rendering.to_string();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n")
}

#[test]
fn all_tables() {
    insta::assert_snapshot!(rendered(&summary(), "all", 20, None));
}

#[test]
fn the_rest_of_a_long_table_is_one_row() {
    insta::assert_snapshot!(rendered(&summary(), "all", 1, None));
}

#[test]
fn figures_that_are_missing_say_so() {
    let mut summary = summary();
    summary.dropped = Dropped {
        runs: 0,
        nodes: 2,
        regions: 3,
        lane_samples: 5,
    };
    summary.outside_nodes_ns = None;
    for node in &mut summary.nodes {
        (node.in_regions_ns, node.serial_ns) = (None, None);
    }
    summary.regions.truncate(2);
    summary.regions[0].sampled_calls = 15;
    summary.regions[1].sampled_calls = 0;
    (summary.regions[1].utilization, summary.regions[1].imbalance) = (None, None);
    summary.counters = CounterSample::without(CounterStatus::PermissionDenied);
    summary.process_cpu = ProcessCpuSummary {
        valid_runs: 0,
        cpu_ns: 0,
        wall_ns: 0,
        overlapped_runs: 20,
        unsupported_runs: 0,
    };
    insta::assert_snapshot!(rendered(&summary, "all", 20, Some(CounterSet::Hardware)));
}

#[test]
fn a_single_table_is_printed_when_asked_for() {
    for (by, present, absent) in [
        ("op", "nodes", "grain"),
        ("node", "median", "grain"),
        ("region", "grain", "serial"),
    ] {
        let text = rendered(&summary(), by, 20, None);
        assert!(text.contains(present) && !text.contains(absent), "{by}");
    }
}

#[test]
fn long_names_keep_their_ends() {
    let name = "é".repeat(50) + "/MatMul";
    let short = shortened(&name);
    assert_eq!(short.chars().count(), NAME_WIDTH);
    assert!(short.starts_with('…') && short.ends_with("/MatMul"));
    assert_eq!(shortened("/MatMul"), "/MatMul");
}
