//! Ten thousand trials of each rule under scripted noise: how often the rules are wrong, and how soon they are right.

mod support;

use onl_tuning::decision::{
    ConfirmationSamples, DecisionRule, Pair, Verdict, WorkloadPairs, decide,
};
use support::Noise;

const TRIALS: u64 = 10_000;

/// What a rule did in all trials of a row.
#[derive(Debug, Default)]
struct Confirmed {
    promoted: u64,
    by_20: u64,
    by_40: u64,
    both: u64,
    void: u64,
    rounds: u64,
}

/// Confirms a candidate that takes `ratios[w]` times the default's time on workload `w`.
fn confirm(seed: u64, ratios: &[f64]) -> (Verdict, u32) {
    let rule = DecisionRule::default();
    let mut noise = Noise::new(seed, 1.0);
    let mut samples = ConfirmationSamples {
        workloads: ratios
            .iter()
            .enumerate()
            .map(|(w, _)| WorkloadPairs {
                name: format!("{w}"),
                size: w as u64,
                pairs: Vec::new(),
            })
            .collect(),
        placebo: Vec::new(),
    };
    for round in 0..rule.maximum_rounds() {
        for (w, ratio) in ratios.iter().enumerate() {
            let mut times = [1.0, *ratio, 1.0];
            let arms = if round as usize % ratios.len() == w {
                3
            } else {
                2
            };
            // Every order of the arms comes as often as any other.
            let mut order = [0, 1, 2];
            noise.shuffle(&mut order[..arms]);
            for &arm in &order[..arms] {
                times[arm] *= noise.factor();
            }
            let pair = |second_ns| Pair {
                first_ns: times[0],
                second_ns,
            };
            samples.workloads[w].pairs.push(pair(times[1]));
            if arms == 3 {
                samples.placebo.push(pair(times[2]));
            }
        }
        if rule.looks.contains(&(round + 1)) {
            let decision = decide(&samples, &rule);
            if decision.verdict != Verdict::Undecided {
                return (decision.verdict, decision.rounds);
            }
        }
    }
    panic!("the last look always decides")
}

fn confirmations(ratios: &[f64]) -> Confirmed {
    let mut row = Confirmed::default();
    for seed in 0..TRIALS {
        let (verdict, rounds) = confirm(seed * 7_368_787 + 11, ratios);
        row.rounds += u64::from(rounds);
        row.void += u64::from(matches!(verdict, Verdict::Void { .. }));
        if verdict == Verdict::Promote {
            row.promoted += 1;
            row.by_20 += u64::from(rounds <= 20);
            row.by_40 += u64::from(rounds <= 40);
            let (again, _) = confirm(seed * 15_487_469 + 999_331, ratios);
            row.both += u64::from(again == Verdict::Promote);
        }
    }
    eprintln!(
        "{ratios:?}: promoted {} (by 20 {}, by 40 {}), twice {}, void {}, mean rounds {:.1}",
        row.promoted,
        row.by_20,
        row.by_40,
        row.both,
        row.void,
        row.rounds as f64 / TRIALS as f64
    );
    row
}

/// Trials that are `percent` of all.
fn share(percent: u64) -> u64 {
    TRIALS * percent / 100
}

#[test]
fn equal_and_slower_candidates_are_never_promoted() {
    for ratio in [1.0, 1.02] {
        assert_eq!(confirmations(&[ratio]).promoted, 0, "ratio {ratio}");
        assert_eq!(
            confirmations(&[ratio; 4]).promoted,
            0,
            "ratio {ratio}, four workloads"
        );
    }
}

#[test]
fn a_gain_of_the_margin_is_promoted_no_more_often_than_the_level_says() {
    let row = confirmations(&[0.99]);
    assert!(row.promoted <= share(1), "{row:?}");
    let row = confirmations(&[0.99; 4]);
    assert!(row.promoted <= share(1), "{row:?}");
}

#[test]
fn gains_of_five_and_three_percent_are_found() {
    for workloads in [1, 4] {
        let row = confirmations(&vec![0.95; workloads]);
        assert!(row.by_40 >= share(95), "{row:?}");
        let row = confirmations(&vec![0.97; workloads]);
        assert!(row.promoted >= share(97), "{row:?}");
    }
}

#[test]
fn harm_to_one_workload_of_four_blocks_a_gain_on_the_others() {
    let row = confirmations(&[0.8, 0.8, 0.8, 1.05]);
    assert_eq!(row.promoted, 0, "{row:?}");
    let row = confirmations(&[0.8, 0.8, 0.8, 1.02]);
    // The limit itself is the null hypothesis, at level 5 % and three looks.
    assert!(row.promoted <= share(15), "{row:?}");
    let row = confirmations(&[0.9, 0.9, 0.9, 1.0]);
    assert!(row.promoted >= share(95), "{row:?}");
}
