//! What was measured, and what follows from it.

use super::cases::{Gate, Group};
use super::statistics::{geometric_mean, median, median_interval};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Times of one process for one case: the median of each round, in nanoseconds of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Arm {
    pub peer: String,
    pub threads: u32,
    pub rounds_ns: Vec<f64>,
    /// Operations or bytes of a run; only loops at a ceiling count them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units: Option<u64>,
}

/// A ratio of times, round by round, with its interval.
#[derive(Debug, Clone, Serialize)]
pub struct Ratio {
    pub peer: String,
    pub threads: u32,
    pub median: f64,
    /// Bounds that hold the median with a probability of at least 95 %.
    pub low: f64,
    pub high: f64,
}

/// Share of the ceiling that our kernel reached.
#[derive(Debug, Clone, Serialize)]
pub struct Share {
    pub threads: u32,
    pub of: String,
    pub share: f64,
}

/// One case.
#[derive(Debug, Clone, Serialize)]
pub struct CaseReport {
    pub case: String,
    /// Operations of a product, or bytes read and written.
    pub units: u64,
    pub arms: Vec<Arm>,
    /// Time of a peer over ours.
    pub ratios: Vec<Ratio>,
    /// Our time with one thread over ours with more.
    pub scaling: Vec<Ratio>,
    pub shares: Vec<Share>,
    /// Largest relative difference of an output from ONNX Runtime's; absent where it does not run the case.
    pub distance: Option<f64>,
    /// Peers that cannot run it, with their reasons.
    pub without: BTreeMap<String, String>,
}

/// A gate with what was seen.
#[derive(Debug, Clone, Serialize)]
pub struct GateReport {
    pub what: String,
    pub asked: f64,
    pub seen: Option<f64>,
    pub met: bool,
    /// The case that decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub case: Option<String>,
}

/// One group.
#[derive(Debug, Clone, Serialize)]
pub struct GroupReport {
    pub group: String,
    pub title: String,
    pub ceiling: String,
    pub cases: Vec<CaseReport>,
    pub gates: Vec<GateReport>,
}

/// The whole.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    pub schema: u32,
    pub kind: &'static str,
    pub processor: String,
    pub commit: String,
    pub modified: bool,
    pub versions: BTreeMap<String, String>,
    pub profiles: bool,
    pub rounds: u32,
    pub block_ms: u64,
    pub groups: Vec<GroupReport>,
}

/// Ratio of two arms, round by round.
pub fn ratio(peer: &str, threads: u32, theirs: &Arm, ours: &Arm) -> Option<Ratio> {
    let rounds = theirs.rounds_ns.iter().zip(&ours.rounds_ns);
    let ratios: Vec<f64> = rounds.map(|(theirs, ours)| theirs / ours).collect();
    let [low, median, high] = median_interval(&ratios)?;
    Some(Ratio {
        peer: peer.to_owned(),
        threads,
        median,
        low,
        high,
    })
}

impl CaseReport {
    /// Derives ratios, scaling and shares from the arms.
    pub fn derive(&mut self, ceiling: &str) {
        let arm = |peer: &str, threads: u32| {
            self.arms
                .iter()
                .find(|arm| arm.peer == peer && arm.threads == threads)
        };
        let (mut ratios, mut scaling, mut shares) = (Vec::new(), Vec::new(), Vec::new());
        for theirs in &self.arms {
            let Some(ours) = arm("onl", theirs.threads) else {
                continue;
            };
            match theirs.peer.as_str() {
                "onl" => {
                    if ours.threads > 1
                        && let Some(serial) = arm("onl", 1)
                    {
                        scaling.extend(ratio("onl", ours.threads, serial, ours));
                    }
                }
                "probe" => {
                    let rate = |arm: &Arm, units: u64| Some(units as f64 / median(&arm.rounds_ns)?);
                    let shares_of = rate(ours, self.units)
                        .zip(rate(theirs, theirs.units.unwrap_or(0)))
                        .map(|(ours, theirs)| ours / theirs);
                    shares.extend(shares_of.map(|share| Share {
                        threads: ours.threads,
                        of: ceiling.to_owned(),
                        share,
                    }));
                }
                peer => ratios.extend(ratio(peer, ours.threads, theirs, ours)),
            }
        }
        (self.ratios, self.scaling, self.shares) = (ratios, scaling, shares);
    }

    fn ratio(&self, peer: &str, threads: u32) -> Option<&Ratio> {
        self.ratios
            .iter()
            .find(|ratio| ratio.peer == peer && ratio.threads == threads)
    }
}

impl GroupReport {
    /// A group of measured cases with its gates.
    pub fn new(group: &Group, cases: Vec<CaseReport>, least_scaling: f64) -> Self {
        let mut gates = Vec::new();
        let missing = cases.iter().filter(|case| case.without.contains_key("onl"));
        gates.extend(missing.map(|case| GateReport {
            what: "onl runs the case".to_owned(),
            asked: 1.0,
            seen: Some(0.0),
            met: false,
            case: Some(case.case.clone()),
        }));
        for gate in &group.gates {
            gates.extend(ratio_gates(gate, &cases));
        }
        for asked in &group.least_share {
            let case = cases.iter().find(|case| case.case == asked.case);
            let seen = case.and_then(|case| {
                let mut shares = case.shares.iter();
                Some(shares.find(|share| share.threads == asked.threads)?.share)
            });
            gates.push(GateReport {
                what: format!("share of {}, {} thread", group.ceiling, asked.threads),
                asked: asked.share,
                seen,
                met: seen.is_some_and(|seen| seen >= asked.share),
                case: Some(asked.case.clone()),
            });
        }
        let scaling = cases
            .iter()
            .flat_map(|case| case.scaling.iter().map(move |ratio| (case, ratio)));
        if let Some((case, least)) = scaling.min_by(|a, b| a.1.low.total_cmp(&b.1.low)) {
            gates.push(GateReport {
                what: format!("one thread over {}, least lower bound", least.threads),
                asked: least_scaling,
                seen: Some(least.low),
                met: least.low >= least_scaling,
                case: Some(case.case.clone()),
            });
        }
        GroupReport {
            group: group.name.clone(),
            title: group.title.clone(),
            ceiling: group.ceiling.clone(),
            cases,
            gates,
        }
    }
}

fn ratio_gates(gate: &Gate, cases: &[CaseReport]) -> Vec<GateReport> {
    let ratios: Vec<(&CaseReport, &Ratio)> = cases
        .iter()
        .filter_map(|case| Some((case, case.ratio(&gate.peer, gate.threads)?)))
        .collect();
    if ratios.is_empty() {
        return Vec::new();
    }
    let what = |kind: &str| format!("{} over onl, {} threads, {kind}", gate.peer, gate.threads);
    let mut gates = Vec::new();
    if let Some(asked) = gate.mean {
        let medians: Vec<f64> = ratios.iter().map(|(_, ratio)| ratio.median).collect();
        let seen = geometric_mean(&medians);
        gates.push(GateReport {
            what: what("geometric mean"),
            asked,
            seen,
            met: seen.is_some_and(|seen| seen >= asked),
            case: None,
        });
    }
    if let Some(asked) = gate.least {
        let least = ratios.iter().min_by(|a, b| a.1.low.total_cmp(&b.1.low));
        gates.extend(least.map(|(case, ratio)| GateReport {
            what: what("least lower bound"),
            asked,
            seen: Some(ratio.low),
            met: ratio.low >= asked,
            case: Some(case.case.clone()),
        }));
    }
    gates
}

/// A Markdown table for every group.
pub fn markdown(report: &Report) -> String {
    let mut text = String::new();
    let modified = if report.modified { ", modified" } else { "" };
    let _ = writeln!(
        text,
        "# Kernels beside other libraries\n\nWritten by `cargo xtask peer-bench`; do not edit.\n\n{}, commit `{}`{modified}, {}, {} rounds.\n\n\
         Ratios are times of the other over ours, the median of the rounds with its interval; above 1 ours is faster. Shares\n\
         are of the loop that the group names, measured in the same rounds.",
        report.processor,
        report.commit,
        if report.profiles {
            "saved profiles"
        } else {
            "portable defaults"
        },
        report.rounds,
    );
    for (name, version) in &report.versions {
        let _ = write!(text, "\n{name} {version}.");
    }
    text.push('\n');
    for group in &report.groups {
        let _ = writeln!(text, "\n## {}\n", group.title);
        if !group.gates.is_empty() {
            let _ = writeln!(
                text,
                "| gate | asked | seen | | case |\n| --- | ---: | ---: | --- | --- |"
            );
        }
        for gate in &group.gates {
            let seen = gate
                .seen
                .map_or_else(String::new, |seen| format!("{seen:.2}"));
            let case = gate
                .case
                .as_ref()
                .map_or_else(String::new, |case| format!("`{case}`"));
            let met = if gate.met { "met" } else { "**not met**" };
            let _ = writeln!(
                text,
                "| {} | {} | {seen} | {met} | {case} |",
                gate.what, gate.asked
            );
        }
        let mut columns: Vec<(String, u32)> = Vec::new();
        for ratio in group.cases.iter().flat_map(|case| &case.ratios) {
            let column = (ratio.peer.clone(), ratio.threads);
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        columns.sort_by_key(|(peer, threads)| (peer != "onnxruntime", peer.clone(), *threads));
        let mut threads: Vec<u32> = group
            .cases
            .iter()
            .flat_map(|case| case.shares.iter().map(|share| share.threads))
            .collect();
        threads.sort_unstable();
        threads.dedup();
        let _ = write!(text, "\n| case | time |");
        for (peer, threads) in &columns {
            let _ = write!(text, " {peer} {threads}T |");
        }
        let _ = write!(text, " scaling |");
        for threads in &threads {
            let _ = write!(text, " of {} {threads}T |", group.ceiling);
        }
        let _ = writeln!(
            text,
            "\n| --- | ---: |{}",
            " ---: |".repeat(columns.len() + 1 + threads.len())
        );
        for case in &group.cases {
            let _ = write!(text, "| `{}` | {} |", case.case, time(case));
            for (peer, threads) in &columns {
                let cell = case.ratio(peer, *threads).map_or_else(String::new, cell);
                let _ = write!(text, " {cell} |");
            }
            let scaling = case.scaling.first().map_or_else(String::new, cell);
            let _ = write!(text, " {scaling} |");
            for threads in &threads {
                let share = case.shares.iter().find(|share| share.threads == *threads);
                let share = share.map_or_else(String::new, |s| format!("{:.0} %", 100.0 * s.share));
                let _ = write!(text, " {share} |");
            }
            text.push('\n');
        }
        for case in &group.cases {
            for (peer, reason) in &case.without {
                let _ = writeln!(text, "\n{peer} does not run `{}`: {reason}", case.case);
            }
        }
    }
    text
}

fn cell(ratio: &Ratio) -> String {
    format!("{:.2} [{:.2}, {:.2}]", ratio.median, ratio.low, ratio.high)
}

fn time(case: &CaseReport) -> String {
    let ours = case.arms.iter().find(|arm| arm.peer == "onl");
    match ours.and_then(|arm| median(&arm.rounds_ns)) {
        None => String::new(),
        Some(ns) if ns < 1e3 => format!("{ns:.0} ns"),
        Some(ns) if ns < 1e6 => format!("{:.1} µs", ns / 1e3),
        Some(ns) => format!("{:.2} ms", ns / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arm(peer: &str, threads: u32, rounds_ns: &[f64], units: Option<u64>) -> Arm {
        Arm {
            peer: peer.to_owned(),
            threads,
            rounds_ns: rounds_ns.to_vec(),
            units,
        }
    }

    fn case() -> CaseReport {
        let mut case = CaseReport {
            case: "Add".to_owned(),
            units: 1_000,
            arms: vec![
                arm("onl", 1, &[100.0, 110.0, 90.0], None),
                arm("onl", 2, &[50.0, 55.0, 45.0], None),
                arm("onnxruntime", 1, &[150.0, 165.0, 180.0], None),
                arm("probe", 1, &[80.0, 80.0, 80.0], Some(1_000)),
            ],
            ratios: Vec::new(),
            scaling: Vec::new(),
            shares: Vec::new(),
            distance: Some(0.0),
            without: BTreeMap::new(),
        };
        case.derive("copy");
        case
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let case = case();
        let ratio = case.ratio("onnxruntime", 1).expect("a ratio");
        assert_eq!((ratio.low, ratio.median, ratio.high), (1.5, 1.5, 2.0));
        assert_eq!(case.scaling[0].median, 2.0);
        assert_eq!(case.shares[0].share, 0.8);
    }

    #[test]
    fn gates_follow_from_the_ratios() {
        let gate = |mean, least| Gate {
            peer: "onnxruntime".to_owned(),
            threads: 1,
            mean,
            least,
        };
        let gates = ratio_gates(&gate(Some(1.4), Some(1.6)), &[case()]);
        assert!(gates[0].met);
        assert!(!gates[1].met);
        assert_eq!(gates[1].case.as_deref(), Some("Add"));
        let other = Gate {
            threads: 2,
            ..gate(Some(1.0), None)
        };
        assert!(ratio_gates(&other, &[case()]).is_empty());
    }
}
