//! Ten thousand trials of each rule under scripted noise: how often the rules are wrong, and how soon they are right.

mod support;

use onl_tuning::decision::{
    ConfirmationSamples, DecisionRule, Pair, Verdict, WorkloadPairs, decide,
};
use onl_tuning::search::{
    CrossoverChoice, CrossoverSamples, CrossoverStep, FitPoint, RaceSample, RaceSamples, RaceStep,
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
    let expected = DecisionRule::default().expected_false_promotions(TRIALS as usize);
    assert!((expected - 1.0).abs() < 1e-9, "{expected}");
    for workloads in [1, 4] {
        let row = confirmations(&vec![0.99; workloads]);
        assert!(row.promoted <= share(1), "{row:?}");
        // One is expected in both processes; of a Poisson distribution with mean 1 more than 5 come once in 1 700.
        assert!(row.both <= 5, "{row:?}");
    }
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

/// Races candidates as the calibrator does and confirms the finalist twice; `None` when the default stays.
fn race(seed: u64, ratios: &[f64]) -> Option<f64> {
    let mut noise = Noise::new(seed, 1.0);
    let mut race = RaceSamples {
        candidates: (0..ratios.len()).map(|i| i.to_string()).collect(),
        rounds: Vec::new(),
    };
    let index = |name: &str| name.parse::<usize>().expect("names are indices");
    let finalist = loop {
        match race.step() {
            RaceStep::Empty => return None,
            RaceStep::Finalist(name) => break ratios[index(&name)],
            RaceStep::Round(live) => {
                let mut order: Vec<Option<&String>> = live.iter().map(Some).chain([None]).collect();
                noise.shuffle(&mut order);
                let mut default_ns = 0.0;
                let mut times = Vec::new();
                for arm in order {
                    match arm {
                        None => default_ns = noise.factor(),
                        Some(name) => times.push((name, ratios[index(name)] * noise.factor())),
                    }
                }
                let sample = |(name, second_ns): (&String, f64)| RaceSample {
                    candidate: name.clone(),
                    workload: "case".to_owned(),
                    pair: Pair {
                        first_ns: default_ns,
                        second_ns,
                    },
                };
                race.rounds.push(times.into_iter().map(sample).collect());
            }
        }
    };
    let promoted = |seed| confirm(seed, &[finalist]).0 == Verdict::Promote;
    (promoted(seed + 1) && promoted(seed + 2)).then_some(finalist)
}

#[test]
fn races_promote_the_right_candidate_and_none_that_is_not_faster() {
    let with = |rest: f64, others: &[(usize, f64)]| {
        let mut ratios = vec![rest; 12];
        for (i, ratio) in others {
            ratios[*i] = *ratio;
        }
        ratios
    };
    let steps = (0..12).map(|i| 0.96 + 0.04 * f64::from(i)).collect();
    let rows: [(&str, Vec<f64>); 6] = [
        ("all equal", with(1.0, &[])),
        ("all 2 % slower", with(1.02, &[])),
        ("one 5 % faster", with(1.0, &[(4, 0.95)])),
        ("one 10 % faster, rest slower", with(1.02, &[(7, 0.9)])),
        ("0.96 to 1.40", steps),
        ("three ties", with(1.05, &[(1, 0.97), (5, 0.97), (9, 0.97)])),
    ];
    for (name, ratios) in rows {
        let best = ratios.iter().copied().fold(1.0, f64::min);
        let (mut right, mut harm) = (0, 0);
        for trial in 0..TRIALS {
            let promoted = race(trial * 49_979_687 + 3, &ratios);
            right += u64::from(promoted == Some(best));
            harm += u64::from(promoted.is_some_and(|ratio| ratio >= 1.0));
        }
        eprintln!("race, {name}: right {right}, not faster {harm}");
        assert_eq!(harm, 0, "{name}");
        if best < 1.0 {
            assert!(right >= share(97), "{name}: {right}");
        }
    }
}

/// Times of both forms over the size.
struct Scenario {
    name: &'static str,
    serial: fn(f64) -> f64,
    parallel: fn(f64) -> f64,
}

const SCENARIOS: [Scenario; 3] = [
    Scenario {
        name: "clear, six times as fast",
        serial: |n| 200.0 + n,
        parallel: |n| 6_000.0 + n / 6.0,
    },
    Scenario {
        name: "shallow, one and a half times as fast",
        serial: |n| 200.0 + n,
        parallel: |n| 6_000.0 + n / 1.5,
    },
    Scenario {
        name: "cache cliffs",
        serial: |n| 200.0 + n + 0.6 * (n - 12_000.0).max(0.0),
        parallel: |n| 9_000.0 + n / 1.5 + 0.8 * (n - 65_536.0).max(0.0),
    },
];

/// 256 to 262 144 in steps of equal ratio.
fn log_sizes(count: u32) -> impl Iterator<Item = f64> {
    (0..count).map(move |i| 256.0 * 1024_f64.powf(f64::from(i) / f64::from(count - 1)))
}

/// Threshold that the search finds on the scripted scenario; the parallel form meets spikes three times as often.
fn crossover(seed: u64, scenario: &Scenario, sizes: &[u64]) -> (i64, usize) {
    let mut noise = Noise::new(seed, 1.0);
    let mut pair = |size: u64| {
        let n = size as f64;
        let swapped = noise.coin();
        let mut factors = [1.0; 2];
        for arm in if swapped { [1, 0] } else { [0, 1] } {
            factors[arm] = noise.factor_with_spikes([0.05, 0.15][arm]);
        }
        Pair {
            first_ns: (scenario.serial)(n) * factors[0],
            second_ns: (scenario.parallel)(n) * factors[1],
        }
    };
    let mut samples = CrossoverSamples {
        sizes: sizes.to_vec(),
        grid: sizes.iter().map(|n| *n as i64).chain([i64::MAX]).collect(),
        ..CrossoverSamples::default()
    };
    for index in samples.fit_sizes() {
        for _ in 0..2 {
            let size = sizes[index];
            samples.fit.push(FitPoint {
                size,
                pair: pair(size),
            });
        }
    }
    loop {
        match samples.step() {
            CrossoverStep::Measure(index) => {
                let size = sizes[index];
                let probe = WorkloadPairs {
                    name: "case".to_owned(),
                    size,
                    pairs: (0..5).map(|_| pair(size)).collect(),
                };
                samples.add(index, vec![probe]);
            }
            CrossoverStep::Done(choice) => {
                let of_probes = samples.probes.values().map(|w| w[0].pairs.len());
                let pairs = samples.fit.len() + of_probes.sum::<usize>();
                let value = match choice {
                    CrossoverChoice::Threshold { value, .. }
                    | CrossoverChoice::Always { value }
                    | CrossoverChoice::Never { value } => value,
                    // The portable default stays.
                    CrossoverChoice::NotMonotone { .. } => 32_768,
                };
                return (value, pairs);
            }
        }
    }
}

#[test]
fn crossovers_cost_little_beside_the_best_choice() {
    let sizes: Vec<u64> = log_sizes(40).map(|n| n.round() as u64).collect();
    for scenario in &SCENARIOS {
        let times: Vec<(f64, f64, f64)> = log_sizes(400)
            .map(|n| (n, (scenario.serial)(n), (scenario.parallel)(n)))
            .collect();
        let regret = |threshold: f64| {
            let excess = times.iter().map(|(n, serial, parallel)| {
                let taken = if *n >= threshold { parallel } else { serial };
                taken / serial.min(*parallel) - 1.0
            });
            excess.sum::<f64>() / times.len() as f64
        };
        let (mut regrets, mut pairs) = (Vec::new(), 0);
        for trial in 0..TRIALS {
            let (threshold, used) = crossover(trial * 32_452_843 + 31, scenario, &sizes);
            regrets.push(regret(threshold as f64));
            pairs += used;
        }
        regrets.sort_by(f64::total_cmp);
        let mean = regrets.iter().sum::<f64>() / regrets.len() as f64;
        eprintln!(
            "crossover, {}: mean regret {:.4} %, 95th percentile {:.3} %, worst {:.2} %, mean pairs {:.0}",
            scenario.name,
            100.0 * mean,
            100.0 * regrets[regrets.len() * 95 / 100],
            100.0 * regrets[regrets.len() - 1],
            pairs as f64 / TRIALS as f64
        );
        assert!(mean <= 0.002, "{}: mean regret {mean}", scenario.name);
    }
}
