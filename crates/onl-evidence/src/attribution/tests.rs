use super::fixtures::{Planted, ScriptedRunner};
use super::*;
use crate::report::{Report, read};

const ROUNDS: u32 = 10;

fn report(runner: &mut ScriptedRunner) -> AttributionReport {
    runner.report(ROUNDS).expect("a script has every answer")
}

fn model(runner: &mut ScriptedRunner) -> ModelAttribution {
    report(runner).models.remove(0)
}

/// Scripts that each lead to one decision, with a part of its sentence.
fn scripts() -> Vec<(DecisionKind, &'static str, ScriptedRunner)> {
    let mut native = ScriptedRunner::equal();
    native.onl(|arm| arm.steady = 30_000_000);
    native.onl_operators = vec![("MatMul", 24, 27_000_000), ("Erf", 3, 1_500_000)];

    let mut loading = ScriptedRunner::equal();
    loading.arm(Arm::OnnxruntimeWithOnlLoader, |arm| {
        arm.load[1] = Some(20_000_000)
    });

    let mut provider = ScriptedRunner::equal();
    provider.onl(|arm| arm.steady = 15_000_000);

    let mut format = ScriptedRunner::equal();
    format.arm(Arm::Onnxruntime, |arm| {
        arm.load = [None, None, None, Some(90_000_000)]
    });

    vec![
        (
            DecisionKind::NativeKernel,
            "its operator MatMul in region matmul.rows takes 9.000 ms more",
            native,
        ),
        (DecisionKind::Loading, "the loader is slower", loading),
        (
            DecisionKind::ExecutionProvider,
            "onnxruntime is slow however it is loaded",
            provider,
        ),
        (
            DecisionKind::FormatTradeoff,
            "the format makes the difference",
            format,
        ),
        (
            DecisionKind::None,
            "nothing that is asked differs beyond the noise",
            ScriptedRunner::equal(),
        ),
    ]
}

#[test]
fn every_decision_is_reached_and_its_report_follows_from_its_samples() {
    let scripts = scripts();
    let reached: Vec<DecisionKind> = scripts.iter().map(|(kind, ..)| *kind).collect();
    assert_eq!(reached, DecisionKind::ALL);
    for (kind, words, mut runner) in scripts {
        let report = report(&mut runner);
        let decision = &report.models[0].decision;
        assert_eq!(decision.kind, kind, "{}", decision.sentence);
        assert!(decision.sentence.contains(words), "{}", decision.sentence);
        assert_eq!(report.check(), [], "{}", kind.name());
    }
}

#[test]
fn the_first_question_that_holds_decides() {
    // Slow kernels, a slow loader, and a fast format at once.
    let [(.., native), (.., loading), ..] = &scripts()[..] else {
        panic!("there are five scripts");
    };
    let mut runner = native.clone();
    let loader = loading.arms[&Arm::OnnxruntimeWithOnlLoader].clone();
    runner.arms.insert(Arm::OnnxruntimeWithOnlLoader, loader);
    assert_eq!(model(&mut runner).decision.kind, DecisionKind::NativeKernel);
    // What a profile adds to the nodes of the other runtime does not hide the operator.
    let mut inflated = native.clone();
    inflated.onl_operators = vec![("MatMul", 24, 27_000_000), ("Erf", 3, 1_000)];
    assert_eq!(
        model(&mut inflated).decision.kind,
        DecisionKind::NativeKernel
    );
    // Without operators that explain the gap, kernels are not named, and the next question is asked.
    runner.onl_operators = vec![("MatMul", 24, 19_000_000), ("Erf", 3, 1_500_000)];
    assert_eq!(model(&mut runner).decision.kind, DecisionKind::Loading);
    let mut unexplained = native.clone();
    unexplained.onl_operators = runner.onl_operators;
    let decision = model(&mut unexplained).decision;
    assert_eq!(decision.kind, DecisionKind::None);
    assert!(
        decision
            .sentence
            .contains("no profiled operator explains why onl is slower"),
        "{}",
        decision.sentence
    );
}

#[test]
fn operators_of_one_runtime_are_set_against_each_other_together() {
    let mut runner = ScriptedRunner::equal();
    runner.onl(|arm| arm.steady = 30_000_000);
    runner.onl_operators = vec![("MatMul", 24, 18_000_000), ("Erf", 3, 11_500_000)];
    let decision = model(&mut runner).decision;
    assert_eq!(decision.kind, DecisionKind::NativeKernel);
    let leading = &decision.figures.leading_operators[0];
    assert_eq!(leading.operator, UNSHARED);
    assert_eq!(leading.excess_ns, 10_000_000.0);
    assert_eq!(leading.region.as_deref(), Some("erf.rows"));
}

#[test]
fn noise_widens_what_counts_as_a_difference() {
    let [.., (_, _, provider), _, _] = &scripts()[..] else {
        panic!("there are five scripts");
    };
    let mut noisy = provider.clone();
    noisy.jitter = 0.6;
    let model = model(&mut noisy);
    let floor = model.decision.figures.steady_floor.expect("enough rounds");
    assert!(floor > 0.2, "{floor}");
    assert_eq!(model.decision.kind, DecisionKind::None);
}

/// Quantities in which a planted slow-down of a phase shows.
fn shows(phase: Phase, quantity: Quantity) -> bool {
    match phase {
        Phase::Open => quantity == Quantity::Open,
        Phase::Parse => matches!(quantity, Quantity::Parse | Quantity::Load),
        Phase::Resolve => quantity == Quantity::Resolve,
        Phase::Ready => matches!(quantity, Quantity::Ready | Quantity::Load),
        Phase::FirstRun => quantity == Quantity::FirstRun,
        Phase::Steady => quantity == Quantity::Steady,
    }
}

#[test]
fn a_slow_down_of_a_tenth_is_attributed_to_its_phase() {
    for phase in Phase::ALL {
        // Between two consumers, beyond the noise.
        let mut runner = ScriptedRunner::equal();
        runner.planted = Some(Planted {
            arm: Arm::OnnxruntimeWithOnlLoader,
            phase,
            factor: 1.1,
        });
        let found = model(&mut runner);
        let pair = (Arm::OnnxruntimeWithOnlLoader, Arm::Onnxruntime);
        let comparison = found
            .comparisons
            .iter()
            .find(|c| (c.arm, c.reference) == pair)
            .expect("both arms have samples");
        for ratio in &comparison.ratios {
            let phase_quantity = Phase::ALL.iter().any(|p| p.name() == ratio.quantity.name());
            if !phase_quantity {
                continue;
            }
            let expected = if shows(phase, ratio.quantity) {
                RatioVerdict::Greater
            } else {
                RatioVerdict::WithinNoise
            };
            assert_eq!(ratio.verdict, expected, "{phase}: {}", ratio.quantity);
            if expected == RatioVerdict::Greater {
                assert!(
                    (ratio.ratio.estimate - 1.1).abs() < 0.01,
                    "{phase}: {ratio:?}"
                );
            }
        }
        // Between equal programs, as a disagreement of the two.
        runner.planted = Some(Planted {
            arm: Arm::OnlAgain,
            phase,
            factor: 1.1,
        });
        let found = model(&mut runner);
        for noise in found
            .noise
            .iter()
            .filter(|noise| noise.quantity != Quantity::Load)
        {
            let (ratio, floor) = (noise.ratio.expect("rounds"), noise.floor.expect("rounds"));
            if shows(phase, noise.quantity) {
                assert_eq!(noise.agrees, Some(false), "{phase}: {noise:?}");
                assert!((ratio.estimate - 1.1).abs() < 0.01, "{phase}: {noise:?}");
            } else {
                assert!(floor < 0.02, "{phase}: {noise:?}");
            }
        }
    }
}

#[test]
fn equal_programs_agree_within_the_noise_floor() {
    let found = model(&mut ScriptedRunner::equal());
    for noise in &found.noise {
        let (ratio, floor) = (
            noise.ratio.expect("enough rounds"),
            noise.floor.expect("a ratio"),
        );
        assert!(ratio.upper <= 1.0 + floor + 1e-12, "{noise:?}");
        assert!(1.0 / ratio.lower <= 1.0 + floor + 1e-12, "{noise:?}");
    }
}

#[test]
fn phases_are_compared_only_where_both_separate_them_alike() {
    let mut runner = ScriptedRunner::equal();
    runner.arm(Arm::Onnxruntime, |arm| {
        arm.load = [None, None, None, Some(41_040_000)]
    });
    let found = model(&mut runner);
    let figures = |arm: Arm| found.figures.iter().find(|figures| figures.arm == arm);
    assert_eq!(figures(Arm::Onnxruntime).expect("figures").parse_ns, None);
    let pair = found
        .comparisons
        .iter()
        .find(|c| (c.arm, c.reference) == (Arm::Onl, Arm::Onnxruntime));
    let compared: Vec<Quantity> = pair
        .expect("both")
        .ratios
        .iter()
        .map(|ratio| ratio.quantity)
        .collect();
    assert_eq!(
        compared,
        [
            Quantity::Load,
            Quantity::FirstRun,
            Quantity::Steady,
            Quantity::PeakMemory
        ]
    );
}

#[test]
fn arms_that_cannot_run_a_model_are_told_and_not_missed() {
    let mut runner = ScriptedRunner::equal();
    runner.onl(|arm| arm.steady = 15_000_000);
    for arm in [Arm::OnnxruntimeWithOnlLoader, Arm::OnnxruntimeOrtFormat] {
        runner.arm(arm, |scripted| {
            scripted.unsupported = Some("too large".to_owned())
        });
    }
    let report = report(&mut runner);
    let model = &report.models[0];
    assert_eq!(report.check(), []);
    let told: Vec<Arm> = model
        .unsupported
        .iter()
        .map(|unsupported| unsupported.arm)
        .collect();
    assert_eq!(
        told,
        [Arm::OnnxruntimeWithOnlLoader, Arm::OnnxruntimeOrtFormat]
    );
    assert_eq!(model.outputs.loader_equals_protobuf, None);
    // Slow in one loading only is not slow in both.
    assert_eq!(model.decision.kind, DecisionKind::None);
    let mut refused = ScriptedRunner::equal();
    refused.onl(|arm| arm.unsupported = Some("no kernel".to_owned()));
    let error = refused.report(ROUNDS).unwrap_err();
    assert_eq!(error, "onl cannot run the model: no kernel");
}

#[test]
fn outputs_are_compared_bit_by_bit_and_by_distance() {
    let mut runner = ScriptedRunner::equal();
    runner.onl(|arm| arm.output = vec![3.0, 4.5]);
    runner.arm(Arm::OnnxruntimeOrtFormat, |arm| {
        arm.output = vec![-3.0, 4.0]
    });
    let outputs = model(&mut runner).outputs;
    assert_eq!(outputs.loader_equals_protobuf, Some(true));
    assert_eq!(outputs.ort_format_equals_protobuf, Some(false));
    assert_eq!(outputs.onl_relative_l2, Some(0.1));
    assert_eq!(outputs.unstable, []);
}

/// A report in which something was changed, and the places where that must be found.
type Forgery = (&'static str, fn(&mut AttributionReport), &'static str);

const FORGERIES: [Forgery; 15] = [
    (
        "a steady sample",
        |r| r.models[0].samples[7].steady.samples_ns[0] -= 1,
        "samples_sha256",
    ),
    (
        "a phase",
        |r| forge_phase(&mut r.models[0].samples[3]),
        "samples_sha256",
    ),
    (
        "a peak",
        |r| r.models[0].samples[0].peak_memory_bytes = Count::Counted(1),
        "samples_sha256",
    ),
    (
        "a digest",
        |r| r.models[0].samples_sha256 = "0".repeat(64),
        "samples_sha256",
    ),
    (
        "an output",
        |r| r.models[0].samples[1].outputs[0].sha256 = "0".repeat(64),
        "outputs.unstable",
    ),
    (
        "a verdict",
        |r| r.models[0].decision.kind = DecisionKind::None,
        "decision.kind",
    ),
    (
        "a sentence",
        |r| r.models[0].decision.sentence.push('!'),
        "decision.sentence",
    ),
    (
        "an interval",
        |r| r.models[0].comparisons[1].ratios[0].ratio.upper *= 1.01,
        "comparisons[1]",
    ),
    (
        "a floor",
        |r| r.models[0].noise[6].floor = Some(0.0),
        "noise[6].floor",
    ),
    (
        "a median",
        |r| r.models[0].figures[2].steady_ns = Some(1.0),
        "figures[2].steady_ns",
    ),
    (
        "a missing round",
        |r| r.models[0].samples.retain(|s| s.round != 4),
        "has 9 samples",
    ),
    (
        "a missing consumer",
        |r| {
            r.models[0]
                .samples
                .retain(|s| s.arm != Arm::OnnxruntimeOrtFormat)
        },
        "onnxruntime_ort_format is missing",
    ),
    (
        "two samples exchanged",
        |r| exchange(&mut r.models[0].samples),
        "the seed gives",
    ),
    ("fewer rounds", |r| r.protocol.rounds = 5, "protocol.rounds"),
    (
        "operators",
        |r| r.models[0].operators.operators[0].onl_ns /= 2.0,
        "decision",
    ),
];

fn forge_phase(sample: &mut Sample) {
    if let PhaseSample::Measured { wall_ns, .. } = sample.phases.get_mut(Phase::Ready) {
        *wall_ns /= 2;
    }
}

fn exchange(samples: &mut [Sample]) {
    let first = samples[0].position;
    samples[0].position = samples[1].position;
    samples[1].position = first;
}

#[test]
fn every_forgery_is_found() {
    let (_, _, native) = &mut scripts()[0];
    let honest = report(native);
    assert_eq!(honest.check(), []);
    for (what, forge, place) in FORGERIES {
        let mut forged = honest.clone();
        forge(&mut forged);
        let findings: Vec<String> = forged
            .check()
            .iter()
            .map(|finding| finding.to_string())
            .collect();
        assert!(
            findings.iter().any(|finding| finding.contains(place)),
            "{what}: {findings:?}"
        );
    }
    let mut empty = honest;
    empty.models.clear();
    assert_eq!(empty.check()[0].place, "models");
}

#[test]
fn a_report_is_read_as_it_was_written_and_nothing_is_added() {
    let report = report(&mut ScriptedRunner::equal());
    let text = serde_json::to_string(&report).unwrap();
    let again: AttributionReport = read(&text).unwrap();
    assert_eq!(again.models[0].samples, report.models[0].samples);
    assert_eq!(again.check(), []);
    let mut document = serde_json::to_value(&report).unwrap();
    document["models"][0]["samples"][0]["note"] = "added".into();
    let refused = read::<AttributionReport>(&document.to_string()).unwrap_err();
    assert!(refused.to_string().contains("note"), "{refused}");
}

#[test]
fn measurements_are_named_by_model_arm_and_quantity() {
    let report = report(&mut ScriptedRunner::equal());
    assert_eq!(report.corpus(), ["scripted (x f32 1x128)"]);
    let measurements = report.measurements();
    assert_eq!(measurements.len(), Arm::ALL.len() * 3);
    assert_eq!(measurements[0].name, "scripted (x f32 1x128), onl, load");
    assert_eq!(measurements[0].samples_ns.len(), ROUNDS as usize);
}
