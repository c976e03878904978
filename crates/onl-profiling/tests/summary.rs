//! Sums over runs: shares, utilization, and what is missing.

mod common;

use common::{lane, node, region, run};
use onl_profiling::{
    CounterSet, CounterStatus, Dropped, Events, InlineReason, ProcessCpu, Spread, Summary,
};

/// Two runs of 1000 ns: node 0 has a divided region, node 1 an inline one, node 2 none.
fn two_runs() -> Events {
    let mut events = Events::default();
    for number in 1..=2u64 {
        let start = number * 10_000;
        events.runs.push(run(number, start, 1_000));
        events.nodes.push(node(number, 0, start, 600));
        events.nodes.push(node(number, 1, start + 600, 200));
        events.nodes.push(node(number, 2, start + 800, 100));
        let samples = [lane(0, start, 400), lane(1, start + 100, 200)];
        events
            .regions
            .push(region(number, 2 * number, 0, start, 500, &samples));
        let alone = [lane(0, start + 600, 150)];
        events
            .regions
            .push(region(number, 2 * number + 1, 1, start + 600, 160, &alone));
    }
    events
}

#[test]
fn shares_are_parts_of_the_wall_time_of_runs() {
    let summary = Summary::new(&two_runs(), Dropped::default());
    assert_eq!((summary.runs, summary.wall_ns), (2, 2_000));
    assert_eq!(summary.median_wall_ns, 1_000);
    assert_eq!(summary.outside_nodes_ns, Some(200));
    let nodes: Vec<_> = summary
        .nodes
        .iter()
        .map(|sum| (sum.node, sum.calls, sum.wall_ns, sum.share))
        .collect();
    assert_eq!(
        nodes,
        [(0, 2, 1_200, 0.6), (1, 2, 400, 0.2), (2, 2, 200, 0.1)]
    );
    let inside: Vec<_> = summary
        .nodes
        .iter()
        .map(|sum| (sum.in_regions_ns, sum.serial_ns))
        .collect();
    assert_eq!(
        inside,
        [
            (Some(1_000), Some(200)),
            (Some(320), Some(80)),
            (Some(0), Some(200))
        ]
    );
}

#[test]
fn utilization_and_imbalance_are_ratios_of_sums() {
    let mut events = two_runs();
    // The second call is twice as long and perfectly shared.
    let second = &mut events.regions[2];
    second.wall_ns = 1_000;
    second.lanes[0].busy_ns = 1_000;
    second.lanes[1].busy_ns = 1_000;
    let summary = Summary::new(&events, Dropped::default());
    let divided = &summary.regions[0];
    assert_eq!((divided.node, divided.calls), (Some(0), 2));
    let busy = 400.0 + 200.0 + 1_000.0 + 1_000.0;
    assert_eq!(divided.utilization, Some(busy / (2.0 * (500.0 + 1_000.0))));
    assert_eq!(divided.imbalance, Some((400.0 + 1_000.0) / (busy / 2.0)));
    let both = Spread {
        minimum: 2,
        median: 2,
        maximum: 2,
    };
    assert_eq!(divided.participants, both);
    assert!(divided.inline_reasons.is_empty());
    let inline = &summary.regions[1];
    assert_eq!(inline.inline_reasons.get("below_threshold"), Some(&2));
    assert_eq!((inline.admitted.maximum, inline.requested.maximum), (1, 2));
    assert_eq!(inline.utilization, Some(150.0 / 160.0));
}

#[test]
fn a_call_without_all_samples_is_left_out_and_counted() {
    let mut events = two_runs();
    events.regions[0].lanes.pop();
    let summary = Summary::new(&events, Dropped::default());
    let divided = &summary.regions[0];
    assert_eq!((divided.calls, divided.sampled_calls), (2, 1));
    assert_eq!(divided.utilization, Some(0.6));
    assert_eq!(divided.counters.status(), CounterStatus::Partial);
    events.regions[2].lanes.clear();
    let summary = Summary::new(&events, Dropped::default());
    let divided = &summary.regions[0];
    assert_eq!((divided.utilization, divided.imbalance), (None, None));
    assert_eq!(divided.sampled_calls, 0);
}

#[test]
fn figures_that_need_dropped_events_are_missing() {
    let dropped = Dropped {
        regions: 1,
        nodes: 1,
        ..Dropped::default()
    };
    let summary = Summary::new(&two_runs(), dropped);
    assert_eq!(summary.outside_nodes_ns, None);
    assert_eq!(summary.counters.status(), CounterStatus::Partial);
    for sum in &summary.nodes {
        assert_eq!((sum.in_regions_ns, sum.serial_ns), (None, None));
    }
    for sum in summary.operators(|_| "any".to_owned()) {
        assert_eq!((sum.in_regions_ns, sum.serial_ns), (None, None));
    }
}

#[test]
fn events_of_runs_that_have_not_ended_are_left_out() {
    let mut events = two_runs();
    events.runs.pop();
    let summary = Summary::new(&events, Dropped::default());
    assert_eq!(summary.runs, 1);
    assert!(summary.nodes.iter().all(|sum| sum.calls == 1));
    assert!(summary.regions.iter().all(|sum| sum.calls == 1));
    assert!(summary.nodes.iter().map(|sum| sum.share).sum::<f64>() <= 1.0);
}

#[test]
fn nested_regions_and_nodes_are_not_counted_twice() {
    let mut events = two_runs();
    let mut nested = region(1, 100, 0, 10_010, 300, &[lane(1, 10_010, 300)]);
    nested.parent = Some(2);
    nested.inline_reason = Some(InlineReason::Nested);
    events.regions.push(nested);
    events.nodes.push(node(1, 0, 10_100, 50));
    let summary = Summary::new(&events, Dropped::default());
    assert_eq!(summary.nodes[0].calls, 2);
    assert_eq!(summary.nodes[0].in_regions_ns, Some(1_000));
    let last = summary.regions.last().expect("there are regions");
    assert!(last.nested);
    assert_eq!(last.share, None);
    assert_eq!(last.inline_reasons.get("nested"), Some(&1));
}

#[test]
fn regions_of_another_division_stand_apart() {
    let mut events = two_runs();
    events.regions[2].grain = 50;
    let summary = Summary::new(&events, Dropped::default());
    let grains: Vec<_> = summary
        .regions
        .iter()
        .filter(|sum| sum.node == Some(0))
        .map(|sum| (sum.grain, sum.calls))
        .collect();
    assert_eq!(grains, [(10, 1), (50, 1)]);
}

#[test]
fn operators_sum_their_nodes() {
    let summary = Summary::new(&two_runs(), Dropped::default());
    let operators = summary.operators(|node| if node == 1 { "Relu" } else { "Gemm" }.to_owned());
    let rows: Vec<_> = operators
        .iter()
        .map(|sum| (sum.operator.as_str(), sum.nodes, sum.calls, sum.wall_ns))
        .collect();
    assert_eq!(rows, [("Gemm", 2, 4, 1_400), ("Relu", 1, 2, 400)]);
    assert_eq!(operators[0].share, 0.7);
    assert_eq!(operators[0].serial_ns, Some(400));
}

#[test]
fn processor_time_is_of_the_runs_that_have_it() {
    let mut events = two_runs();
    let cpu = Summary::new(&events, Dropped::default()).process_cpu;
    assert_eq!((cpu.valid_runs, cpu.processors()), (2, Some(2.0)));
    events.runs[0].process_cpu = ProcessCpu::Overlapped;
    events.runs[1].process_cpu = ProcessCpu::Unsupported;
    let cpu = Summary::new(&events, Dropped::default()).process_cpu;
    assert_eq!((cpu.overlapped_runs, cpu.unsupported_runs), (1, 1));
    assert_eq!(cpu.processors(), None);
}

#[test]
fn missing_counters_keep_their_reason() {
    let summary = Summary::new(&two_runs(), Dropped::default());
    let unsupported = Err(CounterStatus::Unsupported);
    assert_eq!(
        summary.instructions_per_cycle(CounterSet::Hardware),
        unsupported
    );
    assert_eq!(
        summary.regions[0].instructions_per_cycle(CounterSet::Hardware),
        unsupported
    );
    assert_eq!(
        summary.instructions_per_cycle(CounterSet::Software),
        Err(CounterStatus::Disabled)
    );
}

#[test]
fn nothing_recorded_divides_nothing_by_zero() {
    let summary = Summary::new(&Events::default(), Dropped::default());
    assert_eq!((summary.runs, summary.median_wall_ns), (0, 0));
    assert_eq!(summary.process_cpu.processors(), None);
    assert_eq!(summary.counters.status(), CounterStatus::Disabled);
}
