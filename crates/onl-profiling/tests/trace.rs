//! A trace has what the Chrome trace event format asks for, and the slices of each of its tracks nest.

mod common;

use common::{lane, node, region, run};
use onl_profiling::{CounterSample, CounterSet, CounterStatus, Dropped, Events, ProcessCpu, Trace};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;

fn written(trace: &Trace<'_>) -> Value {
    let mut bytes = Vec::new();
    trace.write(&mut bytes).expect("a vector is writable");
    serde_json::from_slice(&bytes).expect("the trace is JSON")
}

/// A complete event as a viewer reads it: microseconds are cut to nanoseconds.
#[derive(Debug, Clone, PartialEq)]
struct Slice {
    name: String,
    category: String,
    start: u64,
    end: u64,
    args: Value,
}

/// The slices of each track by its name, in the order of the file. Checks every field on the way.
fn tracks(trace: &Value) -> BTreeMap<String, Vec<Slice>> {
    let events = trace["traceEvents"].as_array().expect("a list of events");
    let mut names = BTreeMap::new();
    let mut processes = 0;
    for event in events.iter().filter(|event| event["ph"] == "M") {
        assert!(event["pid"].is_u64() && event["tid"].is_u64(), "{event}");
        let thread = event["tid"].as_u64();
        match event["name"].as_str().expect("metadata have names") {
            "process_name" => processes += 1,
            "thread_name" => {
                let name = event["args"]["name"].as_str().expect("a name").to_owned();
                assert_eq!(names.insert(thread, name), None, "{event}");
            }
            "thread_sort_index" => assert!(event["args"]["sort_index"].is_u64(), "{event}"),
            other => panic!("unknown metadata '{other}'"),
        }
    }
    assert_eq!(processes, 1);
    let mut tracks: BTreeMap<String, Vec<Slice>> = BTreeMap::new();
    for event in events.iter().filter(|event| event["ph"] != "M") {
        assert_eq!(event["ph"], "X", "{event}");
        assert_eq!(event["pid"], 1, "{event}");
        assert!(event["args"].is_object(), "{event}");
        let cut = |field: &str| (event[field].as_f64().expect("a number") * 1000.0) as u64;
        let start = cut("ts");
        let text = |field: &str| event[field].as_str().expect("text").to_owned();
        let track = names[&event["tid"].as_u64()].clone();
        tracks.entry(track).or_default().push(Slice {
            name: text("name"),
            category: text("cat"),
            start,
            end: start + cut("dur"),
            args: event["args"].clone(),
        });
    }
    assert_eq!(tracks.len(), names.len(), "every named track has slices");
    tracks
}

/// Every slice ends before the one that contains it; gives the depth of each.
fn depths(track: &str, slices: &[Slice]) -> Vec<usize> {
    let mut open: Vec<u64> = Vec::new();
    let mut last_start = 0;
    slices
        .iter()
        .map(|slice| {
            assert!(
                last_start <= slice.start,
                "{track}: not in order: {slice:?}"
            );
            last_start = slice.start;
            while open.last().is_some_and(|&end| end <= slice.start) {
                open.pop();
            }
            if let Some(&end) = open.last() {
                assert!(slice.end <= end, "{track}: overlaps another: {slice:?}");
            }
            open.push(slice.end);
            open.len() - 1
        })
        .collect()
}

fn one_run() -> Events {
    let mut nested = region(1, 2, 7, 1_250, 200, &[lane(1, 1_260, 150)]);
    nested.parent = Some(1);
    nested.opener = 1;
    Events {
        runs: vec![run(1, 1_000, 1_000)],
        nodes: vec![node(1, 7, 1_100, 700)],
        regions: vec![
            nested,
            region(
                1,
                1,
                7,
                1_200,
                500,
                &[lane(0, 1_200, 400), lane(1, 1_210, 450)],
            ),
        ],
    }
}

#[test]
fn a_run_is_nested_slices() {
    let events = one_run();
    let name = |node: u32| (node == 7).then(|| "Gemm head".to_owned());
    let dropped = Dropped {
        nodes: 3,
        ..Dropped::default()
    };
    let trace = Trace::new(&events)
        .node_names(&name)
        .dropped(dropped)
        .counters(CounterSet::Hardware);
    let trace = written(&trace);
    assert_eq!(trace["displayTimeUnit"], "ns");
    assert_eq!(trace["otherData"]["schema"], 1);
    assert_eq!(trace["otherData"]["dropped"]["nodes"], 3);
    let tracks = tracks(&trace);
    let shape = |track: &str| -> Vec<(usize, String, String, u64, u64)> {
        let slices = &tracks[track];
        depths(track, slices)
            .into_iter()
            .zip(slices)
            .map(|(depth, s)| (depth, s.category.clone(), s.name.clone(), s.start, s.end))
            .collect()
    };
    let slice = |depth, category: &str, name: &str, start, end| {
        (depth, category.to_owned(), name.to_owned(), start, end)
    };
    assert_eq!(
        shape("runs"),
        [
            slice(0, "run", "run 1", 1_000, 2_000),
            slice(1, "node", "Gemm head", 1_100, 1_800),
            slice(2, "region", "test.region", 1_200, 1_700),
        ]
    );
    assert_eq!(
        shape("lane 0"),
        [slice(0, "lane", "test.region", 1_200, 1_600)]
    );
    assert_eq!(
        shape("lane 1"),
        [
            slice(0, "lane", "test.region", 1_210, 1_660),
            slice(1, "region", "test.region", 1_250, 1_450),
            slice(2, "lane", "test.region", 1_260, 1_410),
        ]
    );
    let args = &tracks["runs"][0].args;
    assert_eq!(args["process_cpu"]["status"], "valid");
    assert_eq!(args["process_cpu"]["nanoseconds"], 2_000);
    let args = &tracks["runs"][2].args;
    for (name, value) in [
        ("total", 100),
        ("grain", 10),
        ("requested", 2),
        ("admitted", 2),
        ("participants", 2),
        ("node", 7),
    ] {
        assert_eq!(args[name], value, "{name}");
    }
    assert_eq!(args["utilization"], 0.85);
    assert_eq!(args.get("inline_reason"), None);
    let args = &tracks["lane 1"][1].args;
    assert_eq!(args["inline_reason"], "below_threshold");
    assert_eq!(args["parent"], 1);
}

#[test]
fn what_is_missing_is_never_a_number() {
    let mut events = one_run();
    events.regions[1].lanes.pop();
    events.runs[0].process_cpu = ProcessCpu::Overlapped;
    let trace = written(&Trace::new(&events).counters(CounterSet::Hardware));
    let tracks = tracks(&trace);
    let run = &tracks["runs"][0].args;
    assert_eq!(run["process_cpu"]["status"], "overlapped");
    assert_eq!(run["process_cpu"].get("nanoseconds"), None);
    let region = &tracks["runs"][2].args;
    assert_eq!(region["utilization"], "missing");
    assert_eq!(region["imbalance"], "missing");
    assert_eq!(region["counters"]["cycles"], "partial");
    assert_eq!(
        tracks["lane 0"][0].args["counters"]["llc_misses"],
        "unsupported"
    );
}

#[test]
fn counts_appear_only_when_somebody_asked() {
    let mut events = one_run();
    for region in &mut events.regions {
        for lane in &mut region.lanes {
            lane.counters = CounterSample::without(CounterStatus::Disabled);
        }
    }
    let silent = tracks(&written(&Trace::new(&events)));
    assert_eq!(silent["runs"][2].args.get("counters"), None);
    let asked = tracks(&written(
        &Trace::new(&events).counters(CounterSet::Software),
    ));
    let counters = &asked["runs"][2].args["counters"];
    assert_eq!(counters["page_faults"], "disabled");
}

#[test]
fn runs_that_overlap_have_tracks_of_their_own() {
    let mut events = Events::default();
    for (number, start) in [(1, 0), (2, 500), (3, 1_000), (4, 1_200)] {
        events.runs.push(run(number, start, 1_000));
        let samples = [lane(0, start + 20, 900), lane(1, start + 30, 900)];
        events
            .regions
            .push(region(number, number, 0, start + 10, 950, &samples));
    }
    let tracks = tracks(&written(&Trace::new(&events)));
    let runs = |track: &str| -> Vec<&str> {
        let slices = tracks[track].iter().filter(|s| s.category == "run");
        slices.map(|slice| slice.name.as_str()).collect()
    };
    assert_eq!(runs("runs"), ["run 1", "run 3"]);
    assert_eq!(runs("runs (2)"), ["run 2"]);
    assert_eq!(runs("runs (3)"), ["run 4"]);
    for (track, slices) in &tracks {
        depths(track, slices);
    }
    assert_eq!(tracks["lane 1"].len(), 2);
    assert_eq!(tracks["lane 1 (2)"].len(), 1);
}

#[test]
fn no_events_make_an_empty_trace() {
    let trace = written(&Trace::new(&Events::default()));
    assert_eq!(trace["traceEvents"].as_array().map(Vec::len), Some(1));
}

#[test]
fn parts_of_a_run_that_is_not_recorded_have_a_place() {
    let mut events = one_run();
    events.runs.clear();
    events.regions.remove(1);
    let tracks = tracks(&written(&Trace::new(&events)));
    assert_eq!(tracks["runs"][0].name, "node 7");
    assert_eq!(tracks["lane 1"].len(), 2);
}

/// A run of nodes that hold regions, on a clock whose rounding moves ends by `jitter`.
#[derive(Debug, Clone)]
struct Planned {
    start: u64,
    nodes: Vec<(u64, Vec<(u64, bool)>)>,
}

fn planned() -> impl Strategy<Value = Planned> {
    let regions = prop::collection::vec((1u64..2_000, any::<bool>()), 0..4);
    let nodes = prop::collection::vec((0u64..50, regions), 0..5);
    (0u64..20_000, nodes).prop_map(|(start, nodes)| Planned { start, nodes })
}

fn events_of(plan: &[Planned], jitter: &[u64]) -> Events {
    let mut jitters = jitter.iter().cycle();
    let mut late = || *jitters.next().expect("an endless list");
    let mut events = Events::default();
    let mut regions = 0;
    for (index, planned) in plan.iter().enumerate() {
        let number = index as u64 + 1;
        let mut now = planned.start;
        for (position, (gap, inner)) in planned.nodes.iter().enumerate() {
            let node_start = now;
            for &(wall, nested) in inner {
                regions += 1;
                let outer = regions;
                let samples = [lane(0, now, wall + late()), lane(1, now, wall + late())];
                let position = position as u32;
                if nested {
                    regions += 1;
                    let sample = lane(1, now, wall + late());
                    let mut event =
                        region(number, regions, position, now, wall + late(), &[sample]);
                    event.parent = Some(outer);
                    event.opener = 1;
                    events.regions.push(event);
                }
                let wall_ns = wall + late();
                events
                    .regions
                    .push(region(number, outer, position, now, wall_ns, &samples));
                now += wall;
            }
            now += gap;
            let wall_ns = now - node_start + late();
            events
                .nodes
                .push(node(number, position as u32, node_start, wall_ns));
        }
        events
            .runs
            .push(run(number, planned.start, now - planned.start + late()));
    }
    events
}

proptest! {
    #[test]
    fn slices_nest_on_every_track(
        plan in prop::collection::vec(planned(), 0..6),
        jitter in prop::collection::vec(0u64..3, 1..16),
    ) {
        let events = events_of(&plan, &jitter);
        let samples: usize = events.regions.iter().map(|region| region.lanes.len()).sum();
        let expected = events.runs.len() + events.nodes.len() + events.regions.len() + samples;
        let tracks = tracks(&written(&Trace::new(&events)));
        prop_assert_eq!(tracks.values().map(Vec::len).sum::<usize>(), expected);
        let mut longest = BTreeMap::new();
        for (track, slices) in &tracks {
            depths(track, slices);
            for slice in slices {
                *longest.entry(slice.category.clone()).or_insert(0) += slice.end - slice.start;
            }
        }
        // Only what rounding moved is corrected, by a few nanoseconds a slice.
        let recorded: u64 = events.runs.iter().map(|run| run.wall_ns).sum::<u64>()
            + events.nodes.iter().map(|node| node.wall_ns).sum::<u64>()
            + events.regions.iter().map(|region| region.wall_ns).sum::<u64>()
            + events.regions.iter().flat_map(|region| &region.lanes).map(|lane| lane.busy_ns).sum::<u64>();
        let shown: u64 = longest.values().sum();
        prop_assert!(shown <= recorded);
        prop_assert!(recorded - shown <= 8 * expected as u64, "{} of {}", shown, recorded);
    }

    #[test]
    fn viewers_read_back_whole_nanoseconds(start in 0u64..1 << 48, wall in 0u64..1 << 40) {
        let events = Events { runs: vec![run(1, start, wall)], ..Events::default() };
        let tracks = tracks(&written(&Trace::new(&events)));
        let slice = &tracks["runs"][0];
        prop_assert_eq!((slice.start, slice.end), (start, start + wall));
    }
}
