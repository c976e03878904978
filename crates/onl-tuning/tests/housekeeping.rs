//! Profiles on their way between machines, and rows on their way out.

mod support;

use onl_cpu::CpuExecutionDescriptor;
use onl_snapshot::{
    KernelKey, ParallelConfig, ParameterRow, ParameterValue, SizeDomain, TunedConfig as _,
    ValueSource,
};
use onl_tuning::drift::DriftReport;
use onl_tuning::*;
use std::path::Path;
use support::{execution, key};

const NAME: &str = onl_snapshot::MINIMUM_ELEMENTS;

fn values(minimum: i64) -> ParameterRow {
    ParallelConfig::schema()
        .defaults()
        .with(NAME, ParameterValue::Integer(minimum))
}

fn row(kernel: &'static str, execution: CpuExecutionDescriptor, minimum: i64) -> CachedRow {
    CachedRow {
        key: key(kernel),
        execution,
        kind: RowKind::Promoted,
        values: values(minimum),
        domain: SizeDomain {
            minimum: 10,
            maximum: 1_000,
        },
        evidence: "ab".repeat(32),
        unknown: toml::Table::new(),
    }
}

fn choices(rows: &[CachedRow]) -> Choices {
    let mut choices = Choices::default();
    choices.merge(rows, &[]);
    choices
}

fn registry() -> TuningRegistry {
    let registry = TuningRegistry::new();
    for kernel in ["Abs", "Not", "Sin"] {
        registry
            .register(key(kernel), ParallelConfig::schema())
            .unwrap();
    }
    registry
}

fn export_all(choices: &Choices, widening: &Widening) -> Export {
    export_profiles(choices, |_| true, true, widening)
}

fn import(text: &str, stored: &Choices) -> Import {
    let offered = CacheFolder::parse(Path::new("file.toml"), text);
    assert_eq!(offered.state, FileState::Read);
    assert_eq!(offered.void, []);
    check_import(&registry(), &offered, stored, None).unwrap()
}

/// Source and value of Abs where a machine has imported profiles.
fn found(profiles: &[CachedProfile], here: &CpuExecutionDescriptor) -> (ValueSource, i64) {
    let mut choices = Choices::default();
    choices.merge_profiles(profiles);
    let registry = registry();
    let report = CacheFolder::parse(Path::new("choices.toml"), choices.render());
    assert_eq!(report.void, []);
    publish_choices(&registry, report, here).unwrap();
    let snapshot = registry.snapshot(here);
    let row = snapshot.row(&key("Abs")).unwrap();
    (row.source, row.values.integer(NAME))
}

#[test]
fn an_imported_profile_is_used_inside_its_class_only() {
    let origin = execution(4);
    let exported = export_all(
        &choices(&[row("Abs", origin.clone(), 77)]),
        &Widening::default(),
    );
    assert_eq!((exported.profiles.len(), exported.skipped.len()), (1, 0));
    let import = import(&exported.render(), &Choices::default());
    assert_eq!(import.accepted, exported.profiles);
    // On an equal machine it is a selector's, never that machine's own.
    assert_eq!(
        found(&import.accepted, &origin),
        (ValueSource::Selector, 77)
    );
    let outside: Vec<(&str, fn(&mut CpuExecutionDescriptor))> = vec![
        ("architecture", |d| d.architecture = "aarch64".to_owned()),
        ("vendor", |d| d.vendor = Some("amd".to_owned())),
        ("family", |d| d.family = Some(7)),
        ("model", |d| d.model = Some(107)),
        ("unknown model", |d| d.model = None),
        ("feature more", |d| {
            d.features.extend(["avx512f".to_owned()])
        }),
        ("feature less", |d| d.features.retain(|f| f != "fma")),
        ("participants", |d| d.participants = 3),
        ("smt", |d| d.smt_used = true),
        ("affinity", |d| d.affinity = "explicit".to_owned()),
        ("wait", |d| d.wait_mode = "latency".to_owned()),
        ("quota", |d| d.quota = "quota_2".to_owned()),
    ];
    for (name, change) in outside {
        let mut other = origin.clone();
        change(&mut other);
        let (source, _) = found(&import.accepted, &other);
        assert_eq!(source, ValueSource::PortableDefault, "{name}");
    }
    // What a class cannot name does not matter to it.
    let mut same = origin;
    same.l2_bytes = None;
    same.logical_cores = Some(96);
    assert_eq!(found(&import.accepted, &same).0, ValueSource::Selector);
}

#[test]
fn another_machines_own_choices_arrive_as_profiles() {
    let raw = choices(&[row("Abs", execution(4), 77)]);
    let import = import(&raw.render(), &Choices::default());
    assert_eq!(import.skipped, []);
    assert_eq!(
        found(&import.accepted, &execution(4)).0,
        ValueSource::Selector
    );
    let mut anonymous = execution(4);
    anonymous.model = None;
    let raw = choices(&[row("Abs", anonymous, 77)]);
    let import = self::import(&raw.render(), &Choices::default());
    assert_eq!(import.accepted, []);
    assert!(import.skipped[0].reason.contains("model is unknown"));
}

#[test]
fn the_machines_own_row_goes_before_an_imported_one() {
    let exported = export_all(
        &choices(&[row("Abs", execution(4), 77)]),
        &Widening::default(),
    );
    let mut both = choices(&[row("Abs", execution(4), 5)]);
    both.merge_profiles(&exported.profiles);
    let registry = registry();
    let report = CacheFolder::parse(Path::new("c"), both.render());
    let outcome = publish_choices(&registry, report, &execution(4)).unwrap();
    assert_eq!(outcome.loaded, [key("Abs")]);
    let explanation = registry.explain(&key("Abs"), &execution(4)).unwrap();
    assert_eq!(explanation.row.source, ValueSource::ExactExecution);
    assert_eq!(explanation.rejected[0].source, ValueSource::Selector);
    assert!(explanation.rejected[0].reason.contains("more specific"));
}

#[test]
fn a_class_is_widened_only_as_asked() {
    let saved = choices(&[row("Abs", execution(4), 77)]);
    let model = |widening: &Widening, number| {
        let exported = export_all(&saved, widening);
        let mut other = execution(4);
        other.model = Some(number);
        found(&exported.profiles, &other).0
    };
    let narrow = Widening::default();
    assert_eq!(model(&narrow, 143), ValueSource::PortableDefault);
    let listed = Widening {
        more_models: vec![143, 106],
        ..Widening::default()
    };
    assert_eq!(model(&listed, 143), ValueSource::Selector);
    assert_eq!(model(&listed, 144), ValueSource::PortableDefault);
    let any = Widening {
        model: true,
        ..Widening::default()
    };
    assert_eq!(model(&any, 144), ValueSource::Selector);
    let lanes = Widening {
        participants: true,
        usage: true,
        ..Widening::default()
    };
    let exported = export_all(&saved, &lanes);
    let mut other = execution(9);
    other.wait_mode = "latency".to_owned();
    assert_eq!(found(&exported.profiles, &other).0, ValueSource::Selector);
}

#[test]
fn rows_that_nothing_would_choose_between_are_not_exported_together() {
    let saved = choices(&[
        row("Abs", execution(4), 1),
        row("Abs", execution(8), 2),
        row("Not", execution(8), 3),
    ]);
    let exact = export_all(&saved, &Widening::default());
    assert_eq!((exact.profiles.len(), exact.skipped.len()), (3, 0));
    let any_number = Widening {
        participants: true,
        ..Widening::default()
    };
    let wide = export_all(&saved, &any_number);
    assert_eq!((wide.profiles.len(), wide.skipped.len()), (2, 1));
    assert!(wide.skipped[0].reason.contains("choose between"));
    assert_eq!(import(&wide.render(), &Choices::default()).skipped, []);
}

#[test]
fn an_import_takes_row_by_row_what_fits_the_registered_kernels() {
    let profile = |kernel, minimum: i64| {
        let row = row(kernel, execution(4), minimum);
        export_all(&choices(&[row]), &Widening::default()).profiles[0].clone()
    };
    let mut unregistered = profile("Cosh", 1);
    unregistered.key.kernel = "Cosh".into();
    let mut stale = profile("Not", 2);
    stale.key.revision = 9;
    let mut range = profile("Not", 0);
    range.priority = 1;
    let mut wrong_type = profile("Not", 3);
    wrong_type.priority = 2;
    wrong_type.values = wrong_type.values.with(NAME, ParameterValue::Float(1.0));
    let mut more = profile("Not", 4);
    more.priority = 3;
    more.values = more.values.with("x.y", ParameterValue::Boolean(true));
    let mut confirmed = profile("Not", 4);
    confirmed.priority = 4;
    confirmed.kind = RowKind::DefaultConfirmed;
    let offered = Export {
        profiles: vec![
            profile("Abs", 5),
            unregistered,
            stale,
            range,
            wrong_type,
            more,
            confirmed,
        ],
        skipped: Vec::new(),
    };
    let import = import(&offered.render(), &Choices::default());
    let accepted: Vec<_> = import.accepted.iter().map(|p| &p.key).collect();
    assert_eq!(accepted, [&key("Abs")]);
    for part in [
        "no such kernel",
        "measured at revision 9, the kernel is at 1",
        "1 to",
        "of type integer",
        "x.y",
        "portable default has changed",
    ] {
        let skipped = &import.skipped;
        assert!(
            skipped.iter().any(|s| s.reason.contains(part)),
            "'{part}' is not in {skipped:?}"
        );
    }
    assert_eq!(import.skipped.len(), 6);
}

#[test]
fn an_ambiguous_import_is_refused_and_a_priority_decides() {
    let vendor = |feature: &str| {
        let mut profile = export_all(
            &choices(&[row("Abs", execution(4), 7)]),
            &Widening::default(),
        )
        .profiles[0]
            .clone();
        profile.selector = CpuSelector {
            vendor: Some("intel".to_owned()),
            required_features: [feature.to_owned()].into(),
            ..CpuSelector::default()
        };
        profile
    };
    let mut stored = Choices::default();
    stored.merge_profiles(&[vendor("avx2")]);
    let text = Export {
        profiles: vec![vendor("fma")],
        skipped: Vec::new(),
    }
    .render();
    let refused = import(&text, &stored);
    assert_eq!(refused.accepted, []);
    assert!(refused.skipped[0].reason.contains("priority"));
    let offered = CacheFolder::parse(Path::new("f"), &text);
    let import = check_import(&registry(), &offered, &stored, Some(1)).unwrap();
    assert_eq!(import.accepted[0].priority, 1);
    // The same class again replaces what is stored.
    let again = Export {
        profiles: vec![vendor("avx2")],
        skipped: Vec::new(),
    };
    let import = self::import(&again.render(), &stored);
    stored.merge_profiles(&import.accepted);
    assert_eq!(stored.profiles.len(), 1);
}

#[test]
fn an_ambiguous_file_costs_the_later_row_alone() {
    let mut profiles = Vec::new();
    for (feature, minimum) in [("avx2", 1), ("fma", 2)] {
        let row = row("Abs", execution(4), minimum);
        let mut profile = export_all(&choices(&[row]), &Widening::default()).profiles[0].clone();
        profile.selector = CpuSelector {
            vendor: Some("intel".to_owned()),
            required_features: [feature.to_owned()].into(),
            ..CpuSelector::default()
        };
        profiles.push(profile);
    }
    let mut file = choices(&[row("Not", execution(4), 3)]);
    file.merge_profiles(&profiles);
    let registry = registry();
    let report = CacheFolder::parse(Path::new("choices.toml"), file.render());
    let outcome = publish_choices(&registry, report, &execution(4)).unwrap();
    assert_eq!(outcome.loaded.len(), 2, "{:?}", outcome.loaded);
    assert_eq!(outcome.invalid.len(), 1);
    assert!(outcome.invalid[0].reason.contains("equally specific"));
    assert_eq!(registry.counters().generation, 4, "one change for the file");
}

#[test]
fn exports_are_equal_bytes_whatever_the_order() {
    let rows = [
        row("Sin", execution(2), 1),
        row("Abs", execution(4), 2),
        row("Abs", execution(2), 3),
    ];
    let text = |order: [usize; 3]| {
        let rows = order.map(|i| rows[i].clone());
        export_all(&choices(&rows), &Widening::default()).render()
    };
    assert_eq!(text([0, 1, 2]), text([2, 0, 1]));
    let round = import(&text([0, 1, 2]), &Choices::default());
    let again = Export {
        profiles: round.accepted,
        skipped: Vec::new(),
    };
    assert_eq!(again.render(), text([0, 1, 2]));
}

#[test]
fn pruning_removes_what_no_session_can_use_and_spares_libraries_of_programs() {
    let mut stale = row("Abs", execution(4), 1);
    stale.key.revision = 7;
    let mut range = row("Not", execution(4), 0);
    range.values = values(0);
    let gone = row("Cosh", execution(2), 1);
    let mut custom = row("Mine", execution(4), 1);
    custom.key.library = "custom".into();
    let good = row("Sin", execution(4), 1);
    let foreign = row("Sin", execution(64), 1);
    let mut choices = choices(&[
        stale,
        range,
        gone,
        custom.clone(),
        good.clone(),
        foreign.clone(),
    ]);
    let removal = prune_unusable(&registry(), &mut choices).unwrap();
    assert_eq!(removal.removed.len(), 3, "{:?}", removal.removed);
    for part in ["revision 7", "1 to", "no such kernel"] {
        assert!(
            removal.removed.iter().any(|r| r.reason.contains(part)),
            "{part}"
        );
    }
    assert_eq!(removal.kept.len(), 1);
    assert!(removal.kept[0].reason.contains("custom"));
    for kept in [&custom, &good, &foreign] {
        assert!(choices.rows.contains(kept));
    }
    assert_eq!(choices.rows.len(), 3);
}

fn drift(kernels: &[(&str, u32, &str)]) -> serde_json::Value {
    let kernels: Vec<_> = kernels
        .iter()
        .map(|(key, revision, verdict)| {
            serde_json::json!({
                "key": key, "revision": revision, "verdict": verdict,
                "ratio": { "estimate": 1.1, "lower": 1.05, "upper": 1.15, "confidence": 0.99 },
            })
        })
        .collect();
    serde_json::json!({
        "schema": 1, "kind": "drift", "execution": execution(4), "kernels": kernels, "seed": 7,
    })
}

#[test]
fn a_drift_report_removes_its_rows_for_its_execution_only() {
    let mut choices = choices(&[
        row("Abs", execution(4), 1),
        row("Abs", execution(2), 2),
        row("Not", execution(4), 3),
        row("Sin", execution(4), 4),
    ]);
    let report = drift(&[
        ("onl/Abs/scripted/f32", 1, "drifted"),
        ("onl/Not/scripted/f32", 1, "holds"),
        ("onl/Sin/scripted/f32", 2, "drifted"),
        ("onl/Cosh/scripted/f32", 1, "undecided"),
    ]);
    let report = DriftReport::from_json(report.to_string().as_bytes()).unwrap();
    let removal = prune_drifted(&mut choices, &report);
    assert_eq!(removal.removed.len(), 1);
    assert_eq!(removal.removed[0].key, key("Abs"));
    assert_eq!(removal.kept.len(), 1, "another revision than the report's");
    assert_eq!(choices.rows.len(), 3);
    assert!(choices.row(&key("Abs"), &execution(2)).is_some());
}

#[test]
fn texts_that_are_no_drift_report_say_why() {
    let mut newer = drift(&[]);
    newer["schema"] = 2.into();
    let mut other = drift(&[]);
    other["kind"] = "baseline".into();
    let mut verdict = drift(&[("onl/Abs/scripted/f32", 1, "perhaps")]);
    verdict["schema"] = 1.into();
    for (text, reason) in [
        (newer.to_string(), "schema is 2"),
        (other.to_string(), "baseline"),
        (verdict.to_string(), "perhaps"),
        ("{}".to_owned(), "missing field"),
        (String::new(), "no drift report"),
    ] {
        let error = DriftReport::from_json(text.as_bytes()).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn removing_kernels_takes_rows_and_profiles_of_every_execution() {
    let mut choices = choices(&[
        row("Abs", execution(4), 1),
        row("Abs", execution(2), 2),
        row("Not", execution(4), 3),
    ]);
    let exported = export_all(&choices, &Widening::default());
    choices.merge_profiles(&exported.profiles);
    let removal = remove_kernels(&mut choices, |key: &KernelKey| key.matches("Abs/f32"));
    assert_eq!(removal.removed.len(), 4);
    assert_eq!((choices.rows.len(), choices.profiles.len()), (1, 1));
}
