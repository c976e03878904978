use super::derive::{floor_of, verdict};
use super::{Arm, ArmFigures, Comparison, NoiseFloor, OperatorTable, Quantity, RatioVerdict};
use onl_tuning::statistics::RatioInterval;
use serde::{Deserialize, Serialize};

/// Part of the steady gap that one profiled operator must account for before kernels are named as its owner. Operators are
/// not summed: the profile of ONNX Runtime adds some microseconds to each node, which would cover any small gap.
pub const EXPLAINED_PART: f64 = 0.5;

/// Name of the operators together that only one of the runtimes has: a fused operator stands for several of the other
/// runtime, so they cannot be set against each other one by one.
pub const UNSHARED: &str = "operators of one runtime only";

/// Leading operators that a decision lists.
const MOST_LEADING: usize = 5;

/// Who owns the difference. Asked in this order; the first that holds is the decision.
///
/// "Slower" and "faster" mean that the whole interval of the ratio lies beyond the noise floor of its quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionKind {
    /// Kernels of `onl`: steady runs of `onl` are slower than those of ONNX Runtime with protobuf, and one of its profiled
    /// operators takes longer than in ONNX Runtime by at least [`EXPLAINED_PART`] of the gap.
    NativeKernel,
    /// The loader of `onl`: ONNX Runtime fed by it is ready later than ONNX Runtime with protobuf.
    Loading,
    /// The execution provider of ONNX Runtime: its steady runs are slower than those of `onl` both with protobuf and with
    /// the loader of `onl`.
    ExecutionProvider,
    /// The file format: `onl` is ready earlier than ONNX Runtime with the `.onnx` file, but not earlier than with the
    /// `.ort` file.
    FormatTradeoff,
    /// Nobody: none of these holds beyond the noise.
    None,
}

impl DecisionKind {
    /// All kinds, in the order in which they are asked.
    pub const ALL: [DecisionKind; 5] = [
        DecisionKind::NativeKernel,
        DecisionKind::Loading,
        DecisionKind::ExecutionProvider,
        DecisionKind::FormatTradeoff,
        DecisionKind::None,
    ];

    /// Name in documents.
    pub fn name(self) -> &'static str {
        match self {
            DecisionKind::NativeKernel => "native_kernel",
            DecisionKind::Loading => "loading",
            DecisionKind::ExecutionProvider => "execution_provider",
            DecisionKind::FormatTradeoff => "format_tradeoff",
            DecisionKind::None => "none",
        }
    }
}

/// What a model's samples say, with the figures that led to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// Who owns the difference.
    pub kind: DecisionKind,
    /// The same in a sentence with figures.
    pub sentence: String,
    /// What was looked at.
    pub figures: DecisionFigures,
}

/// Figures of a decision. Ratios are `None` when an arm is missing or there are too few rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecisionFigures {
    /// Noise floor of steady runs.
    pub steady_floor: Option<f64>,
    /// Noise floor of loading.
    pub load_floor: Option<f64>,
    /// Steady runs: `onl` over `onnxruntime`.
    pub steady_onl_to_onnxruntime: Option<RatioInterval>,
    /// Steady runs: `onl` over `onnxruntime_with_onl_loader`.
    pub steady_onl_to_loader: Option<RatioInterval>,
    /// Loading: `onnxruntime_with_onl_loader` over `onnxruntime`.
    pub load_loader_to_onnxruntime: Option<RatioInterval>,
    /// Loading: `onl` over `onnxruntime`.
    pub load_onl_to_onnxruntime: Option<RatioInterval>,
    /// Loading: `onl` over `onnxruntime_ort_format`.
    pub load_onl_to_ort_format: Option<RatioInterval>,
    /// Nanoseconds that a steady run of `onl` takes longer than one of `onnxruntime`; negative when it is shorter.
    pub gap_ns: Option<f64>,
    /// Nanoseconds that the profiled operators of `onl` take longer than those of `onnxruntime`, all together.
    pub operators_gap_ns: Option<f64>,
    /// Operators of `onl` that take longest beyond ONNX Runtime's, the largest excess first.
    pub leading_operators: Vec<OperatorExcess>,
}

/// How much longer an operator takes in `onl` than in ONNX Runtime.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorExcess {
    /// Operator, or what operators that only one of the runtimes has are together.
    pub operator: String,
    /// Nanoseconds of a run.
    pub excess_ns: f64,
    /// The operator's region of `onl` with the largest time; `None` when its nodes open none.
    pub region: Option<String>,
}

/// Decides from what was derived of a model's samples, and from its profiles. A pure function.
pub fn decide(
    figures: &[ArmFigures],
    noise: &[NoiseFloor],
    comparisons: &[Comparison],
    operators: &OperatorTable,
) -> Decision {
    let ratio = |arm: Arm, reference: Arm, quantity: Quantity| {
        let pair = comparisons
            .iter()
            .find(|pair| pair.arm == arm && pair.reference == reference)?;
        let found = pair
            .ratios
            .iter()
            .find(|ratio| ratio.quantity == quantity)?;
        Some(found.ratio)
    };
    let steady_ns = |arm: Arm| figures.iter().find(|figures| figures.arm == arm)?.steady_ns;
    let gap_ns = steady_ns(Arm::Onl)
        .zip(steady_ns(Arm::Onnxruntime))
        .map(|(onl, other)| onl - other);
    let profiled = operators.onl_runs > 0 && operators.onnxruntime_runs > 0;
    let excesses = if profiled {
        excesses(operators)
    } else {
        Vec::new()
    };
    let figures = DecisionFigures {
        steady_floor: floor_of(noise, Quantity::Steady),
        load_floor: floor_of(noise, Quantity::Load),
        steady_onl_to_onnxruntime: ratio(Arm::Onl, Arm::Onnxruntime, Quantity::Steady),
        steady_onl_to_loader: ratio(Arm::Onl, Arm::OnnxruntimeWithOnlLoader, Quantity::Steady),
        load_loader_to_onnxruntime: ratio(
            Arm::OnnxruntimeWithOnlLoader,
            Arm::Onnxruntime,
            Quantity::Load,
        ),
        load_onl_to_onnxruntime: ratio(Arm::Onl, Arm::Onnxruntime, Quantity::Load),
        load_onl_to_ort_format: ratio(Arm::Onl, Arm::OnnxruntimeOrtFormat, Quantity::Load),
        gap_ns,
        operators_gap_ns: profiled.then(|| excesses.iter().map(|excess| excess.excess_ns).sum()),
        leading_operators: excesses
            .into_iter()
            .filter(|excess| excess.excess_ns > 0.0)
            .take(MOST_LEADING)
            .collect(),
    };
    let kind = kind(&figures);
    Decision {
        kind,
        sentence: sentence(kind, &figures),
        figures,
    }
}

/// What operators of `onl` take beyond those of ONNX Runtime, the largest excess first.
fn excesses(operators: &OperatorTable) -> Vec<OperatorExcess> {
    let region = |operator: &str| {
        let row = operators
            .regions
            .iter()
            .find(|row| row.operator == operator);
        row.map(|row| match row.path.as_str() {
            "" => row.site.clone(),
            path => format!("{} ({path})", row.site),
        })
    };
    let mut shared = Vec::new();
    let mut unshared = OperatorExcess {
        operator: UNSHARED.to_owned(),
        excess_ns: 0.0,
        region: None,
    };
    let mut longest_ns = 0.0;
    for row in &operators.operators {
        let excess_ns = row.onl_ns - row.onnxruntime_ns;
        if row.onl_nodes > 0 && row.onnxruntime_nodes > 0 {
            shared.push(OperatorExcess {
                operator: row.operator.clone(),
                excess_ns,
                region: region(&row.operator),
            });
        } else {
            unshared.excess_ns += excess_ns;
            if row.onl_ns > longest_ns {
                longest_ns = row.onl_ns;
                unshared.region = region(&row.operator);
            }
        }
    }
    shared.push(unshared);
    shared.sort_by(|a, b| b.excess_ns.total_cmp(&a.excess_ns));
    shared
}

fn is(ratio: &Option<RatioInterval>, floor: Option<f64>, wanted: RatioVerdict) -> bool {
    ratio.is_some_and(|ratio| verdict(&ratio, floor) == wanted)
}

fn kind(figures: &DecisionFigures) -> DecisionKind {
    use RatioVerdict::{Greater, Less};
    let steady = |ratio, wanted| is(ratio, figures.steady_floor, wanted);
    let load = |ratio, wanted| is(ratio, figures.load_floor, wanted);
    if steady(&figures.steady_onl_to_onnxruntime, Greater) && explained(figures).is_some() {
        DecisionKind::NativeKernel
    } else if load(&figures.load_loader_to_onnxruntime, Greater) {
        DecisionKind::Loading
    } else if steady(&figures.steady_onl_to_onnxruntime, Less)
        && steady(&figures.steady_onl_to_loader, Less)
    {
        DecisionKind::ExecutionProvider
    } else if load(&figures.load_onl_to_onnxruntime, Less)
        && figures.load_onl_to_ort_format.is_some()
        && !load(&figures.load_onl_to_ort_format, Less)
    {
        DecisionKind::FormatTradeoff
    } else {
        DecisionKind::None
    }
}

/// The operator that leads, when it explains the gap.
fn explained(figures: &DecisionFigures) -> Option<&OperatorExcess> {
    let gap_ns = figures.gap_ns.filter(|gap_ns| *gap_ns > 0.0)?;
    let leading = figures.leading_operators.first()?;
    (leading.excess_ns >= EXPLAINED_PART * gap_ns).then_some(leading)
}

fn times(ratio: &Option<RatioInterval>) -> String {
    ratio.map_or_else(
        || "an unknown part".to_owned(),
        |r| format!("{:.3} [{:.3}, {:.3}]", r.estimate, r.lower, r.upper),
    )
}

fn floor(floor: Option<f64>) -> String {
    floor.map_or_else(
        || "unknown".to_owned(),
        |floor| format!("{:.1} %", 100.0 * floor),
    )
}

fn sentence(kind: DecisionKind, figures: &DecisionFigures) -> String {
    match kind {
        DecisionKind::NativeKernel => {
            let leading = figures.leading_operators.first();
            let (name, region) = leading.map_or(("", None), |leading| {
                (leading.operator.as_str(), leading.region.as_deref())
            });
            format!(
                "Steady runs of onl take {} of onnxruntime's time (noise {}), {:.3} ms more; its operator {name}{} \
                 takes {:.3} ms more.",
                times(&figures.steady_onl_to_onnxruntime),
                floor(figures.steady_floor),
                figures.gap_ns.unwrap_or(0.0) / 1e6,
                region.map_or_else(String::new, |region| format!(" in region {region}")),
                leading.map_or(0.0, |leading| leading.excess_ns / 1e6),
            )
        }
        DecisionKind::Loading => format!(
            "onnxruntime fed by onl's loader takes {} of the time until ready that it takes with protobuf (noise {}): the \
             loader is slower.",
            times(&figures.load_loader_to_onnxruntime),
            floor(figures.load_floor),
        ),
        DecisionKind::ExecutionProvider => format!(
            "Steady runs of onl take {} of onnxruntime's time with protobuf and {} with onl's loader (noise {}): onnxruntime \
             is slow however it is loaded.",
            times(&figures.steady_onl_to_onnxruntime),
            times(&figures.steady_onl_to_loader),
            floor(figures.steady_floor),
        ),
        DecisionKind::FormatTradeoff => format!(
            "onl is ready in {} of the time that onnxruntime needs with the .onnx file, but in {} of the time with the .ort \
             file (noise {}): the format makes the difference.",
            times(&figures.load_onl_to_onnxruntime),
            times(&figures.load_onl_to_ort_format),
            floor(figures.load_floor),
        ),
        DecisionKind::None => {
            let unexplained = is(
                &figures.steady_onl_to_onnxruntime,
                figures.steady_floor,
                RatioVerdict::Greater,
            );
            let reason = if unexplained {
                "no profiled operator explains why onl is slower"
            } else {
                "nothing that is asked differs beyond the noise"
            };
            format!(
                "No owner: {reason}. Steady runs of onl take {} of onnxruntime's time (noise {}), loading {} (noise {}).",
                times(&figures.steady_onl_to_onnxruntime),
                floor(figures.steady_floor),
                times(&figures.load_onl_to_onnxruntime),
                floor(figures.load_floor),
            )
        }
    }
}
