//! Registry, selectors and the order of resolution.

mod support;

use onl_snapshot::{
    LaneCosts, ParallelConfig, Parameter, ParameterKind, ParameterRow, ParameterValue, Schema,
    SchemaError, SizeDomain, TunedConfig, ValueSource,
};
use onl_tuning::*;
use support::{execution, key};

const NAME: &str = onl_snapshot::MINIMUM_ELEMENTS;

fn values(minimum: i64) -> ParameterRow {
    ParallelConfig::schema()
        .defaults()
        .with(NAME, ParameterValue::Integer(minimum))
}

fn row(scope: ProfileScope, minimum: i64, origin: &str) -> ProfileRow {
    ProfileRow {
        key: key("Abs"),
        scope,
        values: values(minimum),
        domain: SizeDomain::ALL,
        origin: origin.to_owned(),
    }
}

fn registry() -> TuningRegistry {
    let registry = TuningRegistry::new();
    registry
        .register(key("Abs"), ParallelConfig::schema())
        .unwrap();
    registry
}

fn publish(registry: &TuningRegistry, rows: Vec<ProfileRow>) -> Result<(), RegistryError> {
    registry.publish(ProfileBatch {
        rows,
        lane_costs: Vec::new(),
    })
}

fn intel() -> CpuSelector {
    CpuSelector {
        architecture: Some("x86_64".to_owned()),
        vendor: Some("intel".to_owned()),
        ..CpuSelector::default()
    }
}

fn isa() -> CpuSelector {
    CpuSelector {
        architecture: Some("x86_64".to_owned()),
        required_features: ["avx2".to_owned()].into(),
        ..CpuSelector::default()
    }
}

fn found(registry: &TuningRegistry, participants: u32) -> (ValueSource, i64) {
    let snapshot = registry.snapshot(&execution(participants));
    let row = snapshot.row(&key("Abs")).unwrap();
    (row.source, row.values.integer(NAME))
}

#[test]
fn resolution_takes_the_sources_in_their_order() {
    let registry = registry();
    let here = execution(4);
    let model = CpuSelector {
        family: Some(6),
        models: vec![106],
        ..intel()
    };
    // Each step adds a more specific source; it must win over all before it.
    assert_eq!(found(&registry, 4), (ValueSource::PortableDefault, 32_768));
    let steps = [
        (
            ProfileScope::selector(isa(), 0),
            ValueSource::InstructionSet,
        ),
        (ProfileScope::selector(intel(), 0), ValueSource::Selector),
        (ProfileScope::selector(model, 0), ValueSource::Selector),
        (ProfileScope::processor(&here), ValueSource::ExactProcessor),
        (ProfileScope::execution(&here), ValueSource::ExactExecution),
    ];
    for (i, (scope, source)) in steps.into_iter().enumerate() {
        let minimum = 100 + i as i64;
        publish(&registry, vec![row(scope, minimum, "step")]).unwrap();
        assert_eq!(found(&registry, 4), (source, minimum), "step {i}");
    }
    // Another thread count is another execution on the same processor.
    assert_eq!(found(&registry, 2), (ValueSource::ExactProcessor, 103));
    registry.set_override(&key("Abs"), Some(values(7))).unwrap();
    assert_eq!(found(&registry, 4), (ValueSource::Override, 7));
    registry.set_override(&key("Abs"), None).unwrap();
    assert_eq!(found(&registry, 4), (ValueSource::ExactExecution, 104));
    registry.clear_profiles().unwrap();
    assert_eq!(found(&registry, 4), (ValueSource::PortableDefault, 32_768));
}

#[test]
fn every_field_of_the_execution_identity_tells_executions_apart() {
    let base = execution(4);
    let registry = registry();
    publish(
        &registry,
        vec![row(ProfileScope::execution(&base), 9, "saved")],
    )
    .unwrap();
    let changes: Vec<(&str, fn(&mut onl_cpu::CpuExecutionDescriptor))> = vec![
        ("architecture", |d| d.architecture = "aarch64".to_owned()),
        ("vendor", |d| d.vendor = None),
        ("family", |d| d.family = Some(25)),
        ("model", |d| d.model = Some(1)),
        ("stepping", |d| d.stepping = Some(0)),
        ("features", |d| {
            d.features.insert("avx512f".to_owned());
        }),
        ("l1d_bytes", |d| d.l1d_bytes = Some(1)),
        ("l2_bytes", |d| d.l2_bytes = None),
        ("physical_cores", |d| d.physical_cores = Some(2)),
        ("logical_cores", |d| d.logical_cores = Some(4)),
        ("participants", |d| d.participants = 3),
        ("smt_used", |d| d.smt_used = true),
        ("affinity", |d| d.affinity = "explicit".to_owned()),
        ("wait_mode", |d| d.wait_mode = "latency".to_owned()),
        ("quota", |d| d.quota = "quota_2".to_owned()),
    ];
    assert_eq!(
        changes.len(),
        identity::execution_fields(&base).len(),
        "a field is not tested"
    );
    for (name, change) in changes {
        let mut other = base.clone();
        change(&mut other);
        assert_ne!(execution_id(&base), execution_id(&other), "{name}");
        let explanation = registry.explain(&key("Abs"), &other).unwrap();
        assert_eq!(explanation.row.source, ValueSource::PortableDefault);
        let reason = &explanation.rejected[0].reason;
        assert!(reason.starts_with(name), "{name}: {reason}");
    }
}

#[test]
fn explanations_name_the_taken_row_and_why_the_others_are_not() {
    let registry = registry();
    let here = execution(4);
    let amd = CpuSelector {
        vendor: Some("amd".to_owned()),
        ..CpuSelector::default()
    };
    publish(
        &registry,
        vec![
            row(ProfileScope::execution(&execution(2)), 1, "two lanes"),
            row(ProfileScope::execution(&here), 2, "here"),
            row(ProfileScope::processor(&here), 3, "processor"),
            row(ProfileScope::selector(amd, 0), 4, "amd"),
            row(ProfileScope::selector(isa(), 0), 5, "isa"),
        ],
    )
    .unwrap();
    let explanation = kernel_tuning_parameters(&registry, &key("Abs"), &here).unwrap();
    assert_eq!(explanation.origin, "here");
    assert_eq!(explanation.row.values.integer(NAME), 2);
    let listed: Vec<(&str, &str)> = explanation
        .rejected
        .iter()
        .map(|r| (r.origin.as_str(), r.reason.as_str()))
        .collect();
    let specific = "a more specific row applies (exact_execution)";
    assert_eq!(
        listed,
        [
            ("two lanes", "participants: 2, here 4"),
            ("processor", specific),
            ("amd", "vendor: \"amd\", here \"intel\""),
            ("isa", specific),
            ("schema", specific),
        ]
    );
    assert!(matches!(
        registry.explain(&key("Sin"), &here),
        Err(RegistryError::UnknownKernel { .. })
    ));
}

#[test]
fn equally_specific_overlapping_selectors_are_refused_whole_batches_with_them() {
    let registry = registry();
    let bounds = |low, high| CpuSelector {
        minimum_participants: low,
        maximum_participants: high,
        ..intel()
    };
    publish(
        &registry,
        vec![row(
            ProfileScope::selector(bounds(Some(1), Some(4)), 0),
            1,
            "a",
        )],
    )
    .unwrap();
    let ambiguous = publish(
        &registry,
        vec![
            row(ProfileScope::execution(&execution(4)), 5, "good"),
            row(ProfileScope::selector(bounds(Some(4), Some(8)), 0), 2, "b"),
        ],
    );
    let Err(RegistryError::Ambiguous { first, second, .. }) = &ambiguous else {
        panic!("{ambiguous:?}");
    };
    assert_eq!((first.as_str(), second.as_str()), ("a", "b"));
    assert_eq!(
        found(&registry, 4),
        (ValueSource::Selector, 1),
        "all or nothing"
    );
    // Another priority, no overlap, or another specificity is fine.
    for (scope, minimum) in [
        (ProfileScope::selector(bounds(Some(4), Some(8)), 1), 3),
        (ProfileScope::selector(bounds(Some(9), Some(12)), 0), 4),
        (ProfileScope::selector(bounds(Some(4), None), 0), 5),
    ] {
        publish(&registry, vec![row(scope, minimum, "c")]).unwrap();
    }
    assert_eq!(found(&registry, 4), (ValueSource::Selector, 3));
    assert_eq!(found(&registry, 10), (ValueSource::Selector, 4));
    assert_eq!(found(&registry, 100), (ValueSource::Selector, 5));
    // Two rows within one batch are compared as well.
    let amd = |minimum| CpuSelector {
        vendor: Some("amd".to_owned()),
        minimum_participants: Some(minimum),
        ..CpuSelector::default()
    };
    assert!(matches!(
        publish(
            &registry,
            vec![
                row(ProfileScope::selector(amd(1), 0), 1, "x"),
                row(ProfileScope::selector(amd(2), 0), 2, "y"),
            ]
        ),
        Err(RegistryError::Ambiguous { .. })
    ));
}

#[test]
fn selectors_are_checked_and_ordered_by_what_they_name() {
    let bad = [
        CpuSelector::default(),
        CpuSelector {
            family: Some(6),
            ..CpuSelector::default()
        },
        CpuSelector {
            models: vec![1],
            ..intel()
        },
        CpuSelector {
            family: Some(6),
            models: vec![1, 1],
            ..intel()
        },
        CpuSelector {
            excluded_features: ["avx2".to_owned()].into(),
            ..isa()
        },
        CpuSelector {
            minimum_participants: Some(5),
            maximum_participants: Some(4),
            ..intel()
        },
        CpuSelector {
            minimum_participants: Some(0),
            ..intel()
        },
    ];
    for selector in bad {
        let result = publish(
            &registry(),
            vec![row(ProfileScope::selector(selector.clone(), 0), 1, "bad")],
        );
        assert!(
            matches!(result, Err(RegistryError::Selector { .. })),
            "{selector:?}"
        );
    }
    let ascending = [
        isa(),
        CpuSelector {
            excluded_features: ["avx512f".to_owned()].into(),
            ..isa()
        },
        intel(),
        CpuSelector {
            family: Some(6),
            ..intel()
        },
        CpuSelector {
            family: Some(6),
            models: vec![106, 108],
            ..intel()
        },
        CpuSelector {
            family: Some(6),
            models: vec![106],
            ..intel()
        },
    ];
    for pair in ascending.windows(2) {
        assert!(pair[0].specificity() < pair[1].specificity(), "{pair:?}");
    }
    // A field that the identity lacks does not match.
    let mut unknown = execution(4);
    unknown.model = None;
    assert!(ascending[5].mismatch(&unknown).is_some());
    assert_eq!(ascending[5].mismatch(&execution(4)), None);
}

#[test]
fn registration_refuses_duplicates_and_schemas_that_fail_their_own_check() {
    static CONTRADICTORY: Schema = Schema {
        parameters: &[Parameter {
            name: "a.b",
            kind: ParameterKind::Boolean { default: true },
            unit: "",
            meaning: "Scripted.",
        }],
        check: |_| Err("never legal".to_owned()),
    };
    let registry = registry();
    assert!(matches!(
        registry.register(key("Abs"), ParallelConfig::schema()),
        Err(RegistryError::Duplicate { .. })
    ));
    let error = registry.register(key("Sin"), &CONTRADICTORY).unwrap_err();
    assert!(matches!(
        error,
        RegistryError::Schema {
            source: SchemaError::Relation(_),
            ..
        }
    ));
    // All or none.
    let both = [
        (key("Cos"), ParallelConfig::schema()),
        (key("Abs"), ParallelConfig::schema()),
    ];
    assert!(registry.register_all(both).is_err());
    assert_eq!(registry.kernels().unwrap().len(), 1);
}

#[test]
fn rows_are_checked_against_the_schema_before_anything_is_published() {
    let registry = registry();
    let here = ProfileScope::execution(&execution(4));
    let good = row(here.clone(), 5, "good");
    let mut out_of_range = row(ProfileScope::processor(&execution(4)), 0, "range");
    let cases: Vec<(&str, ProfileRow)> = vec![
        ("range", out_of_range.clone()),
        ("type", {
            out_of_range.values = values(1).with(NAME, ParameterValue::Float(3.0));
            out_of_range.clone()
        }),
        ("unknown parameter", {
            out_of_range.values = values(1).with("x.y", ParameterValue::Integer(1));
            out_of_range.clone()
        }),
        ("unknown kernel", {
            out_of_range.values = values(1);
            out_of_range.key = key("Sin");
            out_of_range.clone()
        }),
        ("domain", {
            out_of_range.key = key("Abs");
            out_of_range.domain = SizeDomain {
                minimum: 2,
                maximum: 1,
            };
            out_of_range.clone()
        }),
        ("twice", row(here, 6, "again")),
    ];
    for (name, bad) in cases {
        assert!(
            publish(&registry, vec![good.clone(), bad]).is_err(),
            "{name}"
        );
        assert_eq!(
            found(&registry, 4).0,
            ValueSource::PortableDefault,
            "{name}"
        );
    }
    let costs = LaneCosts {
        hot_ns: f64::NAN,
        cold_ns: 1.0,
    };
    let batch = ProfileBatch {
        rows: vec![good],
        lane_costs: vec![(execution(4), costs)],
    };
    assert!(matches!(
        registry.publish(batch),
        Err(RegistryError::LaneCosts { .. })
    ));
    assert_eq!(found(&registry, 4).0, ValueSource::PortableDefault);
}

#[test]
fn snapshots_keep_their_generation_and_their_id_names_the_contents() {
    let registry = registry();
    let before = registry.snapshot(&execution(4));
    let same = registry.snapshot(&execution(4));
    assert_eq!(before.id(), same.id());
    assert_ne!(before.id(), registry.snapshot(&execution(2)).id());
    let costs = LaneCosts {
        hot_ns: 350.0,
        cold_ns: 21_000.0,
    };
    registry
        .clone()
        .publish(ProfileBatch {
            rows: vec![row(ProfileScope::execution(&execution(4)), 5, "row")],
            lane_costs: vec![(execution(4), costs)],
        })
        .unwrap();
    let after = registry.snapshot(&execution(4));
    assert_ne!(before.id(), after.id());
    assert_eq!(after.lane_costs(), costs);
    assert_eq!(before.lane_costs(), LaneCosts::default());
    assert_eq!(
        before.row(&key("Abs")).unwrap().source,
        ValueSource::PortableDefault
    );
    assert_eq!(after.descriptor(), Some(&execution(4)));
    let tuned = after.config::<ParallelConfig>(&key("Abs"));
    assert_eq!(tuned.at(1).minimum_elements, 5);
}

#[test]
fn counters_show_use_and_a_poisoned_registry_refuses_it() {
    let registry = registry();
    let before = registry.counters();
    let snapshot = registry.snapshot(&execution(4));
    let after = registry.counters();
    assert_eq!(after.snapshots, before.snapshots + 1);
    assert_eq!(after.lookups, before.lookups + 1);
    registry.poison();
    // A snapshot lives on without its registry.
    assert_eq!(
        snapshot
            .config::<ParallelConfig>(&key("Abs"))
            .at(1)
            .minimum_elements,
        32_768
    );
    assert_eq!(registry.counters(), after);
    let poisoned = |result: Result<(), RegistryError>| {
        assert_eq!(result, Err(RegistryError::Poisoned));
    };
    poisoned(publish(&registry, Vec::new()));
    poisoned(registry.explain(&key("Abs"), &execution(4)).map(|_| ()));
    poisoned(registry.kernels().map(|_| ()));
    poisoned(registry.set_override(&key("Abs"), None));
    let clone = registry.clone();
    assert!(std::panic::catch_unwind(move || clone.snapshot(&execution(4))).is_err());
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "two publishers and a reader, no kernel work"
)]
fn no_snapshot_ever_sees_half_of_a_batch() {
    let registry = registry();
    registry
        .register(key("Sin"), ParallelConfig::schema())
        .unwrap();
    let here = execution(4);
    let publish_pair = |minimum: i64| {
        let scope = ProfileScope::execution(&here);
        let abs = row(scope, minimum, "pair");
        let sin = ProfileRow {
            key: key("Sin"),
            ..abs.clone()
        };
        let bad = ProfileRow {
            key: key("Cos"),
            ..abs.clone()
        };
        // A batch with a bad row must leave no trace of its good ones.
        let half = row(ProfileScope::execution(&here), -minimum, "half");
        assert!(publish(&registry, vec![half, bad]).is_err());
        publish(&registry, vec![abs, sin]).unwrap();
    };
    publish_pair(1);
    std::thread::scope(|scope| {
        for first in [1, 1_000_000] {
            scope.spawn(move || (0..300).for_each(|i| publish_pair(first + i)));
        }
        for _ in 0..1_000 {
            let snapshot = registry.snapshot(&here);
            let of = |kernel| snapshot.row(&key(kernel)).unwrap().values.integer(NAME);
            let pair = (of("Abs"), of("Sin"));
            assert!(pair.0 > 0 && pair.0 == pair.1, "{pair:?}");
        }
    });
}

#[test]
fn rows_of_a_file_are_published_without_the_bad_ones() {
    let registry = registry();
    let here = execution(4);
    let before = registry.counters().generation;
    let batch = ProfileBatch {
        rows: vec![
            row(ProfileScope::execution(&here), 0, "out of range"),
            row(ProfileScope::selector(intel(), 0), 5, "good"),
            row(ProfileScope::selector(intel(), 0), 6, "twice"),
            row(
                ProfileScope::selector(CpuSelector::default(), 0),
                7,
                "empty",
            ),
        ],
        lane_costs: Vec::new(),
    };
    let refused = registry.publish_valid(batch).unwrap();
    let positions: Vec<usize> = refused.iter().map(|(i, _)| *i).collect();
    assert_eq!(positions, [0, 2, 3]);
    assert!(matches!(refused[0].1, RegistryError::Row { .. }));
    assert!(matches!(refused[1].1, RegistryError::Repeated { .. }));
    assert!(matches!(refused[2].1, RegistryError::Selector { .. }));
    assert_eq!(found(&registry, 4), (ValueSource::Selector, 5));
    assert_eq!(registry.counters().generation, before + 1);
}

#[test]
fn how_lanes_are_used_restricts_a_class_and_makes_it_more_specific() {
    let used = |change: fn(&mut CpuSelector)| {
        let mut selector = intel();
        change(&mut selector);
        selector
    };
    for (name, selector) in [
        ("smt_used", used(|s| s.smt_used = Some(true))),
        (
            "affinity",
            used(|s| s.affinity = Some("explicit".to_owned())),
        ),
        (
            "wait_mode",
            used(|s| s.wait_mode = Some("latency".to_owned())),
        ),
        ("quota", used(|s| s.quota = Some("quota_2".to_owned()))),
    ] {
        let reason = selector.mismatch(&execution(4)).expect(name);
        assert!(reason.starts_with(name), "{name}: {reason}");
        assert!(selector.specificity() > intel().specificity(), "{name}");
        let mut other = selector.clone();
        for field in [&mut other.affinity, &mut other.wait_mode, &mut other.quota] {
            *field = field.take().map(|text| text + "x");
        }
        other.smt_used = other.smt_used.map(|used| !used);
        assert!(!selector.overlaps(&other), "{name}");
        assert!(selector.overlaps(&intel()), "{name}");
    }
}
