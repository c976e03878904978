//! The table of layers against the dependency graph.

use crate::process;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Members outside the table: tests may use every crate, tasks none.
const TESTS: &str = "onl-tests";
const TASKS: &str = "xtask";

/// The part of `cargo metadata --no-deps` that is needed.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    /// `[workspace.metadata]`.
    metadata: Option<WorkspaceMetadata>,
}

#[derive(Deserialize)]
struct WorkspaceMetadata {
    layers: Option<BTreeMap<String, u32>>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// Absent for a normal dependency.
    kind: Option<String>,
}

/// One thing that the table forbids.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Violation {
    /// A crate depends on one that is not below it.
    Upward {
        from: String,
        from_layer: u32,
        to: String,
        to_layer: u32,
        kind: String,
    },
    /// A crate has no layer.
    NoLayer { name: String },
    /// The table names a crate that the workspace does not have.
    NoCrate { name: String },
    /// A crate inside the table uses tests or tasks, or tasks use a crate.
    Outside {
        from: String,
        to: String,
        kind: String,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Upward {
                from,
                from_layer,
                to,
                to_layer,
                kind,
            } => write!(
                f,
                "{from} (layer {from_layer}) has a {kind} dependency on {to} (layer {to_layer}): only crates of lower \
                 layers are allowed; move the shared part below both, or hand it in through a trait"
            ),
            Self::NoLayer { name } => {
                write!(
                    f,
                    "{name} has no layer: add it to [workspace.metadata.layers] of the root Cargo.toml"
                )
            }
            Self::NoCrate { name } => {
                write!(
                    f,
                    "[workspace.metadata.layers] names {name}, which is no member: remove the row"
                )
            }
            Self::Outside { from, to, kind } if from == TASKS => {
                write!(
                    f,
                    "{from} has a {kind} dependency on {to}: tasks link nothing of the workspace, run its programs"
                )
            }
            Self::Outside { from, to, kind } => {
                write!(
                    f,
                    "{from} has a {kind} dependency on {to}, which stands outside the layers"
                )
            }
        }
    }
}

/// Checks the workspace that this program was built from.
pub fn check_workspace() -> Result<()> {
    let json =
        process::output(process::cargo().args(["metadata", "--format-version", "1", "--no-deps"]))?;
    let (crates, violations) = check(&json)?;
    if violations.is_empty() {
        println!("{crates} crates keep their layers");
        return Ok(());
    }
    for violation in &violations {
        eprintln!("{violation}");
    }
    bail!("the layers are broken in {} places", violations.len())
}

/// Number of crates in the table, and everything that `cargo metadata` shows against it.
fn check(json: &str) -> Result<(usize, BTreeSet<Violation>)> {
    let metadata: Metadata =
        serde_json::from_str(json).context("cannot read the output of cargo metadata")?;
    let layers = metadata.metadata.and_then(|metadata| metadata.layers);
    let layers = layers.context("the root Cargo.toml has no [workspace.metadata.layers]")?;
    let members: BTreeSet<&str> = metadata
        .packages
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    let mut violations = BTreeSet::new();
    for name in layers
        .keys()
        .filter(|name| !members.contains(name.as_str()))
    {
        violations.insert(Violation::NoCrate { name: name.clone() });
    }
    for package in &metadata.packages {
        let from = &package.name;
        let from_layer = layers.get(from).copied();
        if from_layer.is_none() && from != TESTS && from != TASKS {
            violations.insert(Violation::NoLayer { name: from.clone() });
        }
        for dependency in package
            .dependencies
            .iter()
            .filter(|dependency| members.contains(dependency.name.as_str()))
        {
            let to = &dependency.name;
            let kind = dependency.kind.as_deref().unwrap_or("normal").to_owned();
            match (from_layer, layers.get(to).copied()) {
                (Some(from_layer), Some(to_layer)) if to_layer >= from_layer => {
                    let (from, to) = (from.clone(), to.clone());
                    violations.insert(Violation::Upward {
                        from,
                        from_layer,
                        to,
                        to_layer,
                        kind,
                    });
                }
                (from_layer, to_layer) => {
                    let to_outside = to == TESTS || to == TASKS;
                    if from == TASKS
                        || to == TASKS
                        || (from_layer.is_some() && to_layer.is_none() && to_outside)
                    {
                        violations.insert(Violation::Outside {
                            from: from.clone(),
                            to: to.clone(),
                            kind,
                        });
                    }
                }
            }
        }
    }
    Ok((layers.len(), violations))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Metadata of crates with `(name, [(dependency, kind)])` under a table of layers.
    fn metadata(layers: &[(&str, u32)], crates: &[(&str, &[(&str, Option<&str>)])]) -> String {
        let packages: Vec<_> = crates
            .iter()
            .map(|(name, dependencies)| {
                let dependencies: Vec<_> = dependencies
                    .iter()
                    .map(|(name, kind)| serde_json::json!({ "name": name, "kind": kind, "req": "*" }))
                    .collect();
                serde_json::json!({ "name": name, "version": "0.1.0", "dependencies": dependencies })
            })
            .collect();
        let layers: BTreeMap<_, _> = layers.iter().copied().collect();
        serde_json::json!({ "packages": packages, "metadata": { "layers": layers }, "version": 1 })
            .to_string()
    }

    fn messages(json: &str) -> Vec<String> {
        check(json)
            .unwrap()
            .1
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    const LAYERS: &[(&str, u32)] = &[("onl-cpu", 0), ("onl-tensor", 0), ("onl-ir", 1), ("onl", 2)];

    #[test]
    fn dependencies_downward_are_allowed() {
        let json = metadata(
            LAYERS,
            &[
                ("onl-cpu", &[("serde", None)]),
                ("onl-tensor", &[("proptest", Some("dev"))]),
                ("onl-ir", &[("onl-tensor", None), ("onl-cpu", Some("dev"))]),
                ("onl", &[("onl-ir", None), ("onl-cpu", Some("build"))]),
                ("onl-tests", &[("onl", Some("dev")), ("onl-cpu", None)]),
                ("xtask", &[("serde", None)]),
            ],
        );
        let (crates, violations) = check(&json).unwrap();
        assert_eq!((crates, violations), (4, BTreeSet::new()));
    }

    #[test]
    fn each_violation_names_both_crates_their_layers_and_the_kind() {
        let all: &[(&str, &[(&str, Option<&str>)])] = &[
            ("onl-cpu", &[]),
            ("onl-tensor", &[]),
            ("onl-ir", &[]),
            ("onl", &[]),
        ];
        // Case, the crate that is changed, its dependencies, what the message must hold.
        let cases: &[(&str, &str, &[(&str, Option<&str>)], &[&str])] = &[
            (
                "upward",
                "onl-tensor",
                &[("onl-ir", None)],
                &["onl-tensor (layer 0)", "onl-ir (layer 1)", "normal"],
            ),
            (
                "two layers up",
                "onl-cpu",
                &[("onl", None)],
                &["onl-cpu (layer 0)", "onl (layer 2)", "normal"],
            ),
            (
                "equal layer",
                "onl-cpu",
                &[("onl-tensor", None)],
                &["onl-cpu (layer 0)", "onl-tensor (layer 0)"],
            ),
            (
                "dev upward",
                "onl-ir",
                &[("onl", Some("dev"))],
                &["onl-ir (layer 1)", "onl (layer 2)", "dev"],
            ),
            (
                "build, equal",
                "onl-tensor",
                &[("onl-cpu", Some("build"))],
                &["onl-cpu (layer 0)", "build"],
            ),
            (
                "itself",
                "onl-ir",
                &[("onl-ir", Some("dev"))],
                &["onl-ir (layer 1)", "dev"],
            ),
        ];
        for (case, changed, dependencies, parts) in cases {
            let crates: Vec<_> = all
                .iter()
                .map(|(name, none)| {
                    (
                        *name,
                        if name == changed {
                            *dependencies
                        } else {
                            *none
                        },
                    )
                })
                .collect();
            let messages = messages(&metadata(LAYERS, &crates));
            assert_eq!(messages.len(), 1, "{case}: {messages:?}");
            for part in *parts {
                assert!(
                    messages[0].contains(part),
                    "{case}: {part:?} is not in {:?}",
                    messages[0]
                );
            }
        }
    }

    #[test]
    fn the_table_and_the_members_must_match() {
        let json = metadata(
            &[("onl-cpu", 0), ("onl-gone", 1)],
            &[("onl-cpu", &[]), ("onl-new", &[("onl-cpu", None)])],
        );
        let messages = messages(&json);
        assert_eq!(messages.len(), 2, "{messages:?}");
        assert!(
            messages
                .iter()
                .any(|message| message.starts_with("onl-new has no layer")),
            "{messages:?}"
        );
        assert!(
            messages.iter().any(|message| message.contains("onl-gone")),
            "{messages:?}"
        );
    }

    #[test]
    fn tasks_and_tests_stay_outside() {
        let layers = &[("onl-cpu", 0), ("onl", 1)];
        let uses_crate = metadata(
            layers,
            &[("onl-cpu", &[]), ("onl", &[]), ("xtask", &[("onl", None)])],
        );
        assert!(messages(&uses_crate)[0].starts_with("xtask has a normal dependency on onl"));
        let uses_tests = metadata(
            layers,
            &[
                ("onl-cpu", &[]),
                ("onl", &[("onl-tests", Some("dev"))]),
                ("onl-tests", &[]),
            ],
        );
        assert!(messages(&uses_tests)[0].starts_with("onl has a dev dependency on onl-tests"));
    }

    #[test]
    fn broken_metadata_is_an_error() {
        for json in [
            "",
            "{}",
            "{\"packages\": []}",
            "{\"packages\": [], \"metadata\": null}",
            "{\"packages\": [], \"metadata\": {}}",
        ] {
            assert!(check(json).is_err(), "{json:?}");
        }
    }
}
