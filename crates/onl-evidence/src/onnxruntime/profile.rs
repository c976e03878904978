use super::OnnxRuntimeError;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What nodes of one operator took in a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfiledOperator {
    /// Operator as ONNX Runtime names it, which after fusion need not be one of ONNX.
    pub operator: String,
    /// Nodes.
    pub nodes: u64,
    /// Nanoseconds of all their runs; ONNX Runtime counts whole microseconds.
    pub wall_ns: u64,
}

/// An event of the profile; fields beside these are not needed.
#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    cat: String,
    #[serde(default)]
    name: String,
    /// Microseconds.
    #[serde(default)]
    dur: u64,
    #[serde(default)]
    ts: u64,
    #[serde(default)]
    args: Arguments,
}

#[derive(Deserialize, Default)]
struct Arguments {
    #[serde(default)]
    op_name: String,
    #[serde(default)]
    node_index: String,
}

/// End of the names of events that cover a node's kernel.
const KERNEL: &str = "_kernel_time";
/// Name of the event that covers a run.
const RUN: &str = "model_run";

/// Sums the nodes of a profile by operator, over the last `runs` runs; the ones before are warm-up. Nodes of subgraphs lie
/// within the node that the subgraph belongs to and are not counted again.
///
/// # Errors
/// [`OnnxRuntimeError::Profile`] when the file is none or has fewer runs.
pub fn read_profile(path: &Path, runs: usize) -> Result<Vec<ProfiledOperator>, OnnxRuntimeError> {
    let text = std::fs::read_to_string(path).map_err(|source| OnnxRuntimeError::File {
        action: "reading the profile",
        path: path.to_owned(),
        source,
    })?;
    operators(&text, runs)
}

fn operators(text: &str, runs: usize) -> Result<Vec<ProfiledOperator>, OnnxRuntimeError> {
    let events: Vec<Event> =
        serde_json::from_str(text).map_err(|error| OnnxRuntimeError::Profile {
            reason: error.to_string(),
        })?;
    let mut starts: Vec<u64> = events
        .iter()
        .filter(|event| event.name == RUN)
        .map(|event| event.ts)
        .collect();
    starts.sort_unstable();
    let Some(from) = starts
        .len()
        .checked_sub(runs)
        .and_then(|first| starts.get(first))
    else {
        return Err(OnnxRuntimeError::Profile {
            reason: format!("it holds {} runs instead of {runs}", starts.len()),
        });
    };
    let mut nodes: Vec<&Event> = events
        .iter()
        .filter(|event| event.cat == "Node" && event.name.ends_with(KERNEL) && event.ts >= *from)
        .collect();
    nodes.sort_by_key(|event| (event.ts, std::cmp::Reverse(event.dur)));
    let mut operators: BTreeMap<&str, (BTreeSet<(&str, &str)>, u64)> = BTreeMap::new();
    let mut end = 0;
    for event in nodes {
        // A node that ends within the last outer one is a part of its subgraph.
        if event.ts + event.dur <= end && event.dur > 0 {
            continue;
        }
        end = end.max(event.ts + event.dur);
        let (names, sum) = operators.entry(&event.args.op_name).or_default();
        names.insert((&event.name, &event.args.node_index));
        *sum += event.dur;
    }
    let mut sums: Vec<ProfiledOperator> = operators
        .into_iter()
        .map(|(operator, (names, microseconds))| ProfiledOperator {
            operator: operator.to_owned(),
            nodes: names.len() as u64,
            wall_ns: microseconds * 1000,
        })
        .collect();
    sums.sort_by_key(|sum| std::cmp::Reverse(sum.wall_ns));
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILE: &str = r#"[
{"cat":"Session","pid":1,"tid":1,"dur":90,"ts":0,"ph":"X","name":"session_initialization","args":{}},
{"cat":"Node","dur":500,"ts":101,"ph":"X","name":"a_kernel_time","args":{"op_name":"MatMul","node_index":"0"}},
{"cat":"Session","dur":600,"ts":100,"ph":"X","name":"model_run","args":{}},
{"cat":"Node","dur":5,"ts":1001,"ph":"X","name":"a_kernel_time","args":{"op_name":"MatMul","node_index":"0"}},
{"cat":"Node","dur":2,"ts":1010,"ph":"X","name":"inner_kernel_time","args":{"op_name":"Add","node_index":"7"}},
{"cat":"Node","dur":9,"ts":1008,"ph":"X","name":"loop_kernel_time","args":{"op_name":"Loop","node_index":"1"}},
{"cat":"Node","dur":7,"ts":1020,"ph":"X","name":"b_kernel_time","args":{"op_name":"MatMul","node_index":"2"}},
{"cat":"Session","dur":60,"ts":1000,"ph":"X","name":"model_run","args":{}}
]"#;

    #[test]
    fn runs_after_warm_up_are_summed_by_operator_without_subgraphs() {
        let sum = |operator: &str, nodes, wall_ns| ProfiledOperator {
            operator: operator.to_owned(),
            nodes,
            wall_ns,
        };
        assert_eq!(
            operators(PROFILE, 1).unwrap(),
            [sum("MatMul", 2, 12_000), sum("Loop", 1, 9_000)]
        );
        assert_eq!(operators(PROFILE, 2).unwrap()[0].wall_ns, 512_000);
        let few = operators(PROFILE, 3).unwrap_err().to_string();
        assert!(few.contains("2 runs instead of 3"), "{few}");
        assert!(operators("no JSON", 1).is_err());
    }
}
