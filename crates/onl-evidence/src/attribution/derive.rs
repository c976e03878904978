//! What follows from the samples of a model: medians, ratios paired by round, noise, agreement of outputs.

use super::{
    Arm, ArmFigures, Comparison, NoiseFloor, OutputAgreement, Phase, PhaseSample, Quantity,
    QuantityRatio, RatioVerdict, Sample,
};
use crate::onnxruntime::sha256;
use onl_tuning::statistics::{RatioInterval, SplitMix64, WalshAverages, median};

/// Two-sided confidence of intervals.
pub const CONFIDENCE: f64 = 0.99;

/// Rounds below which an interval of this confidence does not exist: the smallest level of the signed-rank test of n
/// pairs is 2^-n on each side.
pub const LEAST_ROUNDS: u32 = 8;

/// Arms that are compared, each with its reference.
const PAIRS: [(Arm, Arm); 6] = [
    (Arm::OnlAgain, Arm::Onl),
    (Arm::Onl, Arm::Onnxruntime),
    (Arm::Onl, Arm::OnnxruntimeWithOnlLoader),
    (Arm::Onl, Arm::OnnxruntimeOrtFormat),
    (Arm::OnnxruntimeWithOnlLoader, Arm::Onnxruntime),
    (Arm::OnnxruntimeOrtFormat, Arm::Onnxruntime),
];

/// The order of arms within a round.
pub fn order(arms: &[Arm], order_seed: u64, round: u32) -> Vec<Arm> {
    let mut order = arms.to_vec();
    SplitMix64(order_seed.wrapping_add(u64::from(round))).shuffle(&mut order);
    order
}

/// SHA-256 of the samples as compact JSON.
pub fn samples_digest(samples: &[Sample]) -> String {
    // Samples hold integers and text only, so their JSON is the same wherever it is written.
    serde_json::to_vec(samples).map_or_else(|_| String::new(), |bytes| sha256(&bytes))
}

/// A quantity of one process; `None` when its consumer does not separate or tell it.
pub(super) fn quantity(sample: &Sample, quantity: Quantity) -> Option<f64> {
    let wall = |phase: Phase| sample.phases.get(phase).wall_ns().map(|ns| ns as f64);
    match quantity {
        Quantity::Open => wall(Phase::Open),
        Quantity::Parse => wall(Phase::Parse),
        Quantity::Resolve => wall(Phase::Resolve),
        Quantity::Ready => wall(Phase::Ready),
        Quantity::Load => Some(sample.phases.load_ns() as f64),
        Quantity::FirstRun => wall(Phase::FirstRun),
        Quantity::Steady => sample.steady.median_ns(),
        Quantity::PeakMemory => sample.peak_memory_bytes.value().map(|bytes| bytes as f64),
    }
}

/// The phase that a quantity is the time of.
fn phase_of(quantity: Quantity) -> Option<Phase> {
    match quantity {
        Quantity::Open => Some(Phase::Open),
        Quantity::Parse => Some(Phase::Parse),
        Quantity::Resolve => Some(Phase::Resolve),
        Quantity::Ready => Some(Phase::Ready),
        Quantity::Load | Quantity::FirstRun | Quantity::Steady | Quantity::PeakMemory => None,
    }
}

/// Phases whose time is within that of `phase`.
fn within(sample: &Sample, phase: Phase) -> Vec<Phase> {
    let inside = |other: &Phase| *sample.phases.get(*other) == PhaseSample::CombinedWith(phase);
    Phase::ALL.into_iter().filter(inside).collect()
}

fn of_arm(samples: &[Sample], arm: Arm) -> Vec<&Sample> {
    let mut found: Vec<&Sample> = samples.iter().filter(|sample| sample.arm == arm).collect();
    found.sort_by_key(|sample| sample.round);
    found
}

/// Log ratios `ln(reference / arm)`, paired by round; `None` when the arms have no such quantity in common.
fn gains(samples: &[Sample], arm: Arm, reference: Arm, of: Quantity) -> Option<WalshAverages> {
    let (arms, references) = (of_arm(samples, arm), of_arm(samples, reference));
    let mut gains = Vec::new();
    for sample in arms {
        let Some(other) = references.iter().find(|other| other.round == sample.round) else {
            continue;
        };
        if let Some(phase) = phase_of(of)
            && within(sample, phase) != within(other, phase)
        {
            return None;
        }
        let (value, reference) = (quantity(sample, of)?, quantity(other, of)?);
        let gain = (reference / value).ln();
        if !gain.is_finite() {
            return None;
        }
        gains.push(gain);
    }
    (!gains.is_empty()).then(|| WalshAverages::new(&gains))
}

/// `arm` over `reference`, paired by round. `None` when there are too few rounds, or when the two do not separate the
/// quantity in the same way.
pub fn ratio(samples: &[Sample], arm: Arm, reference: Arm, of: Quantity) -> Option<RatioInterval> {
    RatioInterval::of_gains(&gains(samples, arm, reference, of)?, CONFIDENCE)
}

/// Medians of the arms that have samples.
pub fn figures(samples: &[Sample]) -> Vec<ArmFigures> {
    let present = |arm: &Arm| samples.iter().any(|sample| sample.arm == *arm);
    let of = |arm: Arm| {
        let arms = of_arm(samples, arm);
        let median_of = |of: Quantity| -> Option<f64> {
            let values: Vec<f64> = arms
                .iter()
                .filter_map(|sample| quantity(sample, of))
                .collect();
            median(&values)
        };
        ArmFigures {
            arm,
            open_ns: median_of(Quantity::Open),
            parse_ns: median_of(Quantity::Parse),
            resolve_ns: median_of(Quantity::Resolve),
            ready_ns: median_of(Quantity::Ready),
            load_ns: median_of(Quantity::Load),
            first_run_ns: median_of(Quantity::FirstRun),
            steady_ns: median_of(Quantity::Steady),
            peak_memory_bytes: median_of(Quantity::PeakMemory),
        }
    };
    Arm::ALL.into_iter().filter(present).map(of).collect()
}

/// Noise of every quantity, from the two arms of `onl`.
pub fn noise(samples: &[Sample]) -> Vec<NoiseFloor> {
    let of = |quantity: Quantity| {
        let ratio = ratio(samples, Arm::OnlAgain, Arm::Onl, quantity);
        NoiseFloor {
            quantity,
            ratio,
            floor: ratio.map(|r| r.upper.max(1.0 / r.lower).max(1.0) - 1.0),
            agrees: ratio.map(|r| r.lower <= 1.0 && r.upper >= 1.0),
        }
    };
    Quantity::ALL.into_iter().map(of).collect()
}

/// What a ratio says against a noise floor; without a floor nothing.
pub fn verdict(ratio: &RatioInterval, floor: Option<f64>) -> RatioVerdict {
    match floor {
        Some(floor) if ratio.lower > 1.0 + floor => RatioVerdict::Greater,
        Some(floor) if ratio.upper < 1.0 / (1.0 + floor) => RatioVerdict::Less,
        _ => RatioVerdict::WithinNoise,
    }
}

/// The floor of a quantity.
pub(super) fn floor_of(noise: &[NoiseFloor], quantity: Quantity) -> Option<f64> {
    let found = noise.iter().find(|floor| floor.quantity == quantity);
    found.and_then(|floor| floor.floor)
}

/// Ratios of all pairs of arms that have samples.
pub fn comparisons(samples: &[Sample], noise: &[NoiseFloor]) -> Vec<Comparison> {
    let present = |arm: Arm| samples.iter().any(|sample| sample.arm == arm);
    let of = |(arm, reference): (Arm, Arm)| {
        let ratios = Quantity::ALL.into_iter().filter_map(|quantity| {
            let ratio = ratio(samples, arm, reference, quantity)?;
            Some(QuantityRatio {
                quantity,
                ratio,
                verdict: verdict(&ratio, floor_of(noise, quantity)),
            })
        });
        Comparison {
            arm,
            reference,
            ratios: ratios.collect(),
        }
    };
    PAIRS
        .into_iter()
        .filter(|(arm, reference)| present(*arm) && present(*reference))
        .map(of)
        .collect()
}

/// Whether outputs agree. The distance of `onl` cannot be derived from digests and is given.
pub fn agreement(samples: &[Sample], onl_relative_l2: Option<f64>) -> OutputAgreement {
    let outputs = |arm: Arm| of_arm(samples, arm).first().map(|sample| &sample.outputs);
    let unstable = |arm: &Arm| {
        let first = outputs(*arm);
        of_arm(samples, *arm)
            .iter()
            .any(|sample| Some(&sample.outputs) != first)
    };
    let equals = |arm: Arm| Some(outputs(arm)? == outputs(Arm::Onnxruntime)?);
    OutputAgreement {
        unstable: Arm::ALL.into_iter().filter(unstable).collect(),
        loader_equals_protobuf: equals(Arm::OnnxruntimeWithOnlLoader),
        ort_format_equals_protobuf: equals(Arm::OnnxruntimeOrtFormat),
        onl_relative_l2,
    }
}
