use super::*;
use CounterStatus::{Disabled, Multiplexed, Partial, PermissionDenied, Unsupported, Valid};

fn sample(counts: [u64; COUNTERS], statuses: [CounterStatus; COUNTERS]) -> CounterSample {
    let mut sample = CounterSample::without(Disabled);
    for i in 0..COUNTERS {
        sample.set(i, statuses[i], counts[i]);
    }
    sample
}

fn reading(set: CounterSet, times: [u64; 2], counts: [u64; COUNTERS]) -> CounterReading {
    CounterReading {
        set,
        group: 7,
        enabled_ns: times[0],
        running_ns: times[1],
        counts,
        statuses: [Valid; COUNTERS],
    }
}

#[test]
fn samples_are_small() {
    assert!(size_of::<CounterSample>() <= 40);
}

#[test]
fn names_are_the_serialized_ones_and_distinct() {
    for status in CounterStatus::ALL {
        let text = serde_json::to_string(&status).unwrap();
        assert_eq!(text, format!("\"{status}\""));
        assert_eq!(
            serde_json::from_str::<CounterStatus>(&text).unwrap(),
            status
        );
    }
    for set in CounterSet::ALL {
        let text = serde_json::to_string(&set).unwrap();
        assert_eq!(text, format!("\"{set}\""));
        let mut names = set.names().to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), COUNTERS);
    }
}

#[test]
fn sample_without_counts_has_none() {
    for reason in CounterStatus::ALL {
        let sample = CounterSample::without(reason);
        let expected = if reason == Valid { Disabled } else { reason };
        assert_eq!(sample.status(), expected, "{reason}");
        assert_eq!(sample.values(), [None; COUNTERS], "{reason}");
    }
}

#[test]
fn sum_is_valid_only_where_every_lane_is() {
    let valid = sample([1, 2, 3, 0], [Valid; COUNTERS]);
    let mixed = sample(
        [10, 20, 0, 0],
        [Valid, Valid, Unsupported, PermissionDenied],
    );
    let cases = [
        ("no lane", vec![], CounterSample::without(Disabled)),
        ("one lane", vec![valid], valid),
        (
            "valid lanes",
            vec![valid, valid, valid],
            sample([3, 6, 9, 0], [Valid; COUNTERS]),
        ),
        (
            "count by count",
            vec![valid, mixed],
            sample([11, 22, 0, 0], [Valid, Valid, Partial, Partial]),
        ),
        (
            "missing everywhere",
            vec![mixed, mixed],
            sample(
                [20, 40, 0, 0],
                [Valid, Valid, Unsupported, PermissionDenied],
            ),
        ),
        (
            "one lane multiplexed",
            vec![valid, CounterSample::without(Multiplexed), valid],
            CounterSample::without(Partial),
        ),
        (
            "all multiplexed",
            vec![CounterSample::without(Multiplexed); 3],
            CounterSample::without(Multiplexed),
        ),
        (
            "two reasons",
            vec![
                CounterSample::without(Unsupported),
                CounterSample::without(PermissionDenied),
                CounterSample::without(Unsupported),
            ],
            CounterSample::without(Partial),
        ),
        (
            "more than 64 bits",
            vec![sample([u64::MAX, 1, 1, 1], [Valid; COUNTERS]); 2],
            sample([0, 2, 2, 2], [Partial, Valid, Valid, Valid]),
        ),
    ];
    for (name, samples, expected) in cases {
        assert_eq!(CounterSample::sum(samples), expected, "{name}");
    }
}

#[test]
fn missing_counts_are_written_as_null() {
    let sample = sample([5, 0, 0, 0], [Valid, Valid, Unsupported, Unsupported]);
    assert_eq!(
        serde_json::to_value(sample).unwrap(),
        serde_json::json!({
            "status": "partial",
            "statuses": ["valid", "valid", "unsupported", "unsupported"],
            "values": [5, 0, null, null],
        })
    );
}

#[test]
fn interval_is_judged_by_its_own_times() {
    use CounterSet::{Hardware, Software};
    let start = reading(Software, [100, 40], [1, 1, 1, 1]);
    let cases = [
        (
            "multiplexed before the interval only",
            reading(Software, [150, 90], [2, 3, 4, 1]),
            sample([1, 2, 3, 0], [Valid; COUNTERS]),
        ),
        (
            "multiplexed in the interval",
            reading(Software, [150, 89], [2, 3, 4, 5]),
            CounterSample::without(Multiplexed),
        ),
        (
            "never on a counter",
            reading(Software, [150, 40], [1, 1, 1, 1]),
            CounterSample::without(Multiplexed),
        ),
        (
            "the same moment",
            start,
            sample([0; COUNTERS], [Valid; COUNTERS]),
        ),
        (
            "the wrong order",
            reading(Software, [50, 40], [2, 2, 2, 2]),
            CounterSample::without(Partial),
        ),
        (
            "counts that fall",
            reading(Software, [150, 90], [2, 0, 2, 2]),
            sample([1, 0, 1, 1], [Valid, Partial, Valid, Valid]),
        ),
        (
            "another set",
            reading(Hardware, [150, 90], [2, 2, 2, 2]),
            CounterSample::without(Partial),
        ),
        (
            "another group",
            CounterReading {
                group: 8,
                ..reading(Software, [150, 90], [2, 2, 2, 2])
            },
            CounterSample::without(Partial),
        ),
        (
            "a group that is gone",
            CounterReading::without(Software, [Disabled; COUNTERS]),
            CounterSample::without(Partial),
        ),
    ];
    for (name, end, expected) in cases {
        assert_eq!(end.since(&start), expected, "{name}");
    }
}

#[test]
fn missing_counters_keep_their_reasons() {
    let statuses = [Unsupported, PermissionDenied, Disabled, Multiplexed];
    let reading = CounterReading::without(CounterSet::Hardware, statuses);
    let sample = reading.since(&reading);
    assert_eq!(sample.statuses(), statuses);
    assert_eq!(sample.status(), Partial);
}

#[test]
fn hardware_that_counts_nothing_is_unsupported() {
    let start = reading(CounterSet::Hardware, [100, 100], [5; COUNTERS]);
    let cases = [
        (
            "no cycles at all",
            [5, 5, 5, 5],
            CounterSample::without(Unsupported),
        ),
        (
            "cycles only",
            [9, 5, 5, 5],
            sample([4, 0, 0, 0], [Valid, Unsupported, Unsupported, Unsupported]),
        ),
        (
            "no cache miss",
            [9, 9, 6, 5],
            sample([4, 4, 1, 0], [Valid; COUNTERS]),
        ),
    ];
    for (name, counts, expected) in cases {
        let end = reading(CounterSet::Hardware, [200, 200], counts);
        assert_eq!(end.since(&start), expected, "{name}");
    }
}
