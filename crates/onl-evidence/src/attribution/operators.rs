use serde::{Deserialize, Serialize};

/// Times by operator in both runtimes. They come from profiled processes of their own, never from the timed ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorTable {
    /// Profiled runs of `onl`.
    pub onl_runs: u64,
    /// Nanoseconds of a run of `onl` outside of nodes; `None` when events were dropped.
    pub onl_outside_nodes_ns: Option<f64>,
    /// Profiled runs of ONNX Runtime; 0 when it could not be profiled.
    pub onnxruntime_runs: u64,
    /// Operators, those with the largest time in either runtime first. Operators that ONNX Runtime fused stand under the
    /// name that it gives them.
    pub operators: Vec<OperatorRow>,
    /// Parallel regions of `onl`, those with the largest time first.
    pub regions: Vec<RegionRow>,
}

/// An operator in both runtimes; times are means of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorRow {
    /// Operator, with its domain unless that is the default one.
    pub operator: String,
    /// Nodes in `onl`'s plan; 0 when it has none.
    pub onl_nodes: u64,
    /// Nanoseconds in `onl`.
    pub onl_ns: f64,
    /// Nodes in ONNX Runtime's graph; 0 when it has none.
    pub onnxruntime_nodes: u64,
    /// Nanoseconds in ONNX Runtime.
    pub onnxruntime_ns: f64,
}

/// A parallel region of `onl`; times are means of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegionRow {
    /// Operator of the nodes that open it.
    pub operator: String,
    /// Label of its site.
    pub site: String,
    /// Algorithm that the kernel chose; empty when it has only one.
    pub path: String,
    /// Times that it is opened in a run.
    pub calls: f64,
    /// Nanoseconds.
    pub wall_ns: f64,
    /// Part of admitted lanes' time that they were busy; `None` when no sample is complete.
    pub utilization: Option<f64>,
}
