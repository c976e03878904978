//! Keys, schemas, rows and snapshots as kernels and reports see them.

use onl_snapshot::*;
use onl_tensor::ElementType;
use proptest::prelude::*;
use std::collections::HashMap;

const fn integer(name: &'static str) -> Parameter {
    Parameter {
        name,
        kind: ParameterKind::Integer {
            default: 4,
            minimum: 1,
            maximum: 9,
        },
        unit: "",
        meaning: "Scripted.",
    }
}

static EVERY_KIND: Schema = Schema {
    parameters: &[
        integer("tile.m"),
        integer("tile.n"),
        Parameter {
            name: "share",
            kind: ParameterKind::Float {
                default: 0.5,
                minimum: 0.0,
                maximum: f64::INFINITY,
            },
            unit: "",
            meaning: "Scripted.",
        },
        Parameter {
            name: "pack",
            kind: ParameterKind::Boolean { default: false },
            unit: "",
            meaning: "Scripted.",
        },
        Parameter {
            name: "path",
            kind: ParameterKind::Choice {
                default: "direct",
                values: &["direct", "packed"],
            },
            unit: "",
            meaning: "Scripted.",
        },
    ],
    check: |row| {
        if row.integer("tile.m") <= row.integer("tile.n") {
            Ok(())
        } else {
            Err("tile.m exceeds tile.n".to_owned())
        }
    },
};

#[test]
fn defaults_pass_their_own_check_and_read_back_typed() {
    EVERY_KIND.check_definition().unwrap();
    ParallelConfig::schema().check_definition().unwrap();
    let row = EVERY_KIND.defaults();
    assert_eq!(row.integer("tile.m"), 4);
    assert_eq!(row.float("share"), 0.5);
    assert!(!row.boolean("pack"));
    assert_eq!(row.choice("path"), "direct");
    assert_eq!(
        row.to_string(),
        "pack=false, path=direct, share=0.5, tile.m=4, tile.n=4"
    );
}

#[test]
fn rows_that_do_not_fit_are_refused_by_name() {
    use ParameterValue::{Boolean, Choice, Float, Integer};
    let cases: [(&str, &str, ParameterValue, fn(&SchemaError) -> bool); 10] = [
        ("below", "tile.m", Integer(0), |e| {
            matches!(e, SchemaError::Range { .. })
        }),
        ("above", "tile.m", Integer(10), |e| {
            matches!(e, SchemaError::Range { .. })
        }),
        ("float for integer", "tile.m", Float(4.0), |e| {
            matches!(e, SchemaError::Type { .. })
        }),
        ("integer for float", "share", Integer(1), |e| {
            matches!(e, SchemaError::Type { .. })
        }),
        ("NaN", "share", Float(f64::NAN), |e| {
            matches!(e, SchemaError::Range { .. })
        }),
        ("infinite", "share", Float(f64::INFINITY), |e| {
            matches!(e, SchemaError::Range { .. })
        }),
        ("name for truth value", "pack", Choice("true".into()), |e| {
            matches!(e, SchemaError::Type { .. })
        }),
        ("unknown name", "path", Choice("Direct".into()), |e| {
            matches!(e, SchemaError::Range { .. })
        }),
        ("unknown parameter", "other", Boolean(true), |e| {
            matches!(e, SchemaError::Unknown { .. })
        }),
        ("relation", "tile.m", Integer(5), |e| {
            matches!(e, SchemaError::Relation(_))
        }),
    ];
    for (case, name, value, expected) in cases {
        let row = EVERY_KIND.defaults().with(name, value);
        let error = EVERY_KIND.check_row(&row).unwrap_err();
        assert!(expected(&error), "{case}: {error}");
    }
    let mut missing = EVERY_KIND.defaults();
    missing.0.remove("pack");
    assert!(matches!(
        EVERY_KIND.check_row(&missing),
        Err(SchemaError::Missing { parameter }) if parameter == "pack"
    ));
}

#[test]
fn ill_formed_schemas_are_refused() {
    static TWICE: [Parameter; 2] = [integer("a"), integer("a")];
    static NO_NAME: [Parameter; 1] = [integer("")];
    static DIGIT: [Parameter; 1] = [integer("a.1b")];
    static SPACE: [Parameter; 1] = [integer("a b")];
    static REPEATED: [Parameter; 1] = [Parameter {
        name: "path",
        kind: ParameterKind::Choice {
            default: "x",
            values: &["x", "x"],
        },
        unit: "",
        meaning: "Scripted.",
    }];
    static OUTSIDE: [Parameter; 1] = [Parameter {
        name: "path",
        kind: ParameterKind::Choice {
            default: "z",
            values: &["x"],
        },
        unit: "",
        meaning: "Scripted.",
    }];
    let cases: [(&str, &'static [Parameter]); 7] = [
        ("no parameters", &[]),
        ("a name twice", &TWICE),
        ("an empty name", &NO_NAME),
        ("a segment that starts with a digit", &DIGIT),
        ("a space", &SPACE),
        ("a choice twice", &REPEATED),
        ("a default outside its choices", &OUTSIDE),
    ];
    for (case, parameters) in cases {
        let schema = Schema {
            parameters,
            check: |_| Ok(()),
        };
        assert!(schema.check_definition().is_err(), "{case}");
    }
}

#[test]
fn patterns_select_keys() {
    let key = KernelKey::builtin("Gemm", "packed", ElementType::Float32, 3);
    for (pattern, expected) in [
        ("Gemm", true),
        ("Gemm/f32", true),
        ("onl/Gemm/packed/f32", true),
        ("gemm", false),
        ("Gemm/f16", false),
        ("onl/Gemm/packed", false),
        ("other/Gemm/packed/f32", false),
        ("onl/Gemm/packed/f32/3", false),
        ("", false),
    ] {
        assert_eq!(key.matches(pattern), expected, "{pattern}");
    }
    assert_eq!(key.to_string(), "onl/Gemm/packed/f32");
}

#[test]
fn keys_travel_by_names() {
    let key = KernelKey::builtin("Gemm", "packed", ElementType::BFloat16, 3);
    let json = serde_json::to_string(&key).unwrap();
    assert!(
        json.contains("\"bf16\"") && json.contains("\"cpu\""),
        "{json}"
    );
    assert_eq!(serde_json::from_str::<KernelKey>(&json).unwrap(), key);
    let unknown = json.replace("bf16", "bf17");
    assert!(serde_json::from_str::<KernelKey>(&unknown).is_err());
}

fn resolved(minimum: i64, source: ValueSource, domain: SizeDomain) -> ResolvedRow {
    let values = ParallelConfig::schema()
        .defaults()
        .with(MINIMUM_ELEMENTS, ParameterValue::Integer(minimum));
    ResolvedRow {
        values,
        source,
        domain,
    }
}

#[test]
fn tuned_values_apply_inside_their_domain_only() {
    let key = KernelKey::builtin("Abs", "simd", ElementType::Float32, 1);
    let domain = SizeDomain {
        minimum: 100,
        maximum: 200,
    };
    let row = resolved(7, ValueSource::ExactExecution, domain);
    let snapshot = TuningSnapshot::new(
        descriptor(),
        HashMap::from([(key.clone(), row)]),
        LaneCosts::default(),
        "id".to_owned(),
    );
    let config = snapshot.config::<ParallelConfig>(&key);
    for (size, expected) in [
        (0, 32_768),
        (99, 32_768),
        (100, 7),
        (200, 7),
        (201, 32_768),
        (u64::MAX, 32_768),
    ] {
        assert_eq!(config.at(size).minimum_elements, expected, "size {size}");
    }
    assert_eq!(config.source(), ValueSource::ExactExecution);
    let other = KernelKey { revision: 2, ..key };
    let config = snapshot.config::<ParallelConfig>(&other);
    assert_eq!(config.source(), ValueSource::PortableDefault);
    assert_eq!(config.at(150).minimum_elements, 32_768);
}

/// A descriptor of which little is known.
fn descriptor() -> onl_cpu::CpuExecutionDescriptor {
    onl_cpu::CpuExecutionDescriptor {
        architecture: "x86_64".to_owned(),
        vendor: None,
        family: None,
        model: None,
        stepping: None,
        features: Default::default(),
        l1d_bytes: None,
        l2_bytes: None,
        physical_cores: None,
        logical_cores: None,
        participants: 1,
        smt_used: false,
        affinity: "none".to_owned(),
        wait_mode: "fixed".to_owned(),
        quota: "unlimited".to_owned(),
    }
}

#[test]
fn an_override_holds_for_every_size_and_changes_the_id() {
    let key = KernelKey::builtin("Abs", "simd", ElementType::Float32, 1);
    let portable = TuningSnapshot::portable();
    let row = resolved(7, ValueSource::Override, SizeDomain::ALL).values;
    let forced = TuningSnapshot::portable().with_override(key.clone(), row);
    assert_ne!(portable.id(), forced.id());
    assert_eq!(forced.descriptor(), None);
    let config = forced.config::<ParallelConfig>(&key);
    assert_eq!(config.at(0).minimum_elements, 7);
    assert_eq!(config.at(u64::MAX).minimum_elements, 7);
    assert_eq!(config.source(), ValueSource::Override);
}

#[test]
fn the_largest_threshold_means_never() {
    let row = resolved(i64::MAX, ValueSource::Override, SizeDomain::ALL).values;
    let config = ParallelConfig::from_row(&row);
    assert_eq!(config.minimum_elements, i64::MAX as usize);
}

proptest! {
    #[test]
    fn values_survive_json_exactly_and_keep_their_type(
        int in any::<i64>(),
        float in any::<f64>().prop_filter("finite", |v| v.is_finite()),
        flag in any::<bool>(),
        text in any::<String>(),
    ) {
        let row = ParameterRow::default()
            .with("a", ParameterValue::Integer(int))
            .with("b", ParameterValue::Float(float))
            .with("c", ParameterValue::Boolean(flag))
            .with("d", ParameterValue::Choice(text))
            .with("e", ParameterValue::Float(int as i32 as f64));
        let json = serde_json::to_string(&row).unwrap();
        let back: ParameterRow = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(back, row);
    }

    #[test]
    fn domains_contain_what_lies_between(low in any::<u64>(), high in any::<u64>(), size in any::<u64>()) {
        let domain = SizeDomain { minimum: low, maximum: high };
        prop_assert_eq!(domain.contains(size), (low..=high).contains(&size));
        prop_assert!(SizeDomain::ALL.contains(size));
    }
}
