//! Selectors: profiles for classes of processors.

use onl_cpu::{CpuExecutionDescriptor, known_features};
use onl_snapshot::ValueSource;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// A class of processors. Fields left empty do not restrict it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CpuSelector {
    /// Architecture, as `x86_64`.
    pub architecture: Option<String>,
    /// Vendor, as `intel`.
    pub vendor: Option<String>,
    /// Family number; needs a vendor.
    pub family: Option<u32>,
    /// Model numbers, any of which matches; empty for all.
    pub models: Vec<u32>,
    /// Instruction-set features that must be present.
    pub required_features: BTreeSet<String>,
    /// Instruction-set features that must be absent.
    pub excluded_features: BTreeSet<String>,
    /// Fewest participants.
    pub minimum_participants: Option<u32>,
    /// Most participants.
    pub maximum_participants: Option<u32>,
    /// Whether two lanes may share a physical core.
    pub smt_used: Option<bool>,
    /// Affinity class, as `physical_cores`.
    pub affinity: Option<String>,
    /// Wait mode, as `balanced`.
    pub wait_mode: Option<String>,
    /// Quota class, as `unlimited` or `quota_2`.
    pub quota: Option<String>,
}

/// How specific a selector is. Compared field by field in this order: the number of vendor, family and models given;
/// the narrowness of the model list; the number of features named; the number of participant bounds; the
/// number of conditions on the use of the processor (lanes that share a core, affinity, wait mode, quota); whether the
/// architecture is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Specificity {
    processor_fields: u32,
    model_narrowness: u32,
    features: usize,
    participant_bounds: u32,
    use_conditions: u32,
    architecture: u32,
}

impl CpuSelector {
    /// The narrowest class that an execution identity is in: its architecture, vendor, family, model, features, number
    /// of participants and use. Features that [`known_features`] lists and the processor lacks are excluded.
    ///
    /// # Errors
    /// A sentence that says which part of the processor's identity is unknown: a class without it would hold other
    /// processors too.
    pub fn exactly(d: &CpuExecutionDescriptor) -> Result<Self, String> {
        let unknown = |name: &str| format!("the processor's {name} is unknown");
        Ok(CpuSelector {
            architecture: Some(d.architecture.clone()),
            vendor: Some(d.vendor.clone().ok_or_else(|| unknown("vendor"))?),
            family: Some(d.family.ok_or_else(|| unknown("family"))?),
            models: vec![d.model.ok_or_else(|| unknown("model"))?],
            required_features: d.features.clone(),
            excluded_features: known_features(&d.architecture)
                .map(str::to_owned)
                .filter(|feature| !d.features.contains(feature))
                .collect(),
            minimum_participants: Some(d.participants),
            maximum_participants: Some(d.participants),
            smt_used: Some(d.smt_used),
            affinity: Some(d.affinity.clone()),
            wait_mode: Some(d.wait_mode.clone()),
            quota: Some(d.quota.clone()),
        })
    }

    /// Whether the selector is well formed.
    ///
    /// # Errors
    /// A sentence that says which field contradicts what.
    pub fn check(&self) -> Result<(), String> {
        if *self == CpuSelector::default() {
            return Err("the selector is empty; give at least one field".to_owned());
        }
        if self.family.is_some() && self.vendor.is_none() {
            return Err("'family' needs 'vendor', family numbers are the vendor's".to_owned());
        }
        if !self.models.is_empty() && self.family.is_none() {
            return Err("'models' need 'family', model numbers count within it".to_owned());
        }
        if self.models.iter().collect::<BTreeSet<_>>().len() != self.models.len() {
            return Err("'models' lists a number twice".to_owned());
        }
        if let Some(feature) = self
            .required_features
            .intersection(&self.excluded_features)
            .next()
        {
            return Err(format!("feature '{feature}' is required and excluded"));
        }
        match (self.minimum_participants, self.maximum_participants) {
            (Some(0), _) | (_, Some(0)) => Err("participant bounds start at 1".to_owned()),
            (Some(low), Some(high)) if low > high => {
                Err(format!("participant bounds {low} to {high} are inverted"))
            }
            _ => Ok(()),
        }
    }

    /// The rank in which the selector's profiles are found: [`ValueSource::InstructionSet`] when architecture and
    /// features alone select, otherwise [`ValueSource::Selector`].
    pub fn source(&self) -> ValueSource {
        let isa_only = self.vendor.is_none()
            && self.family.is_none()
            && self.models.is_empty()
            && self.minimum_participants.is_none()
            && self.maximum_participants.is_none()
            && self.use_conditions() == 0;
        if isa_only {
            ValueSource::InstructionSet
        } else {
            ValueSource::Selector
        }
    }

    fn use_conditions(&self) -> u32 {
        let given = [
            self.smt_used.is_some(),
            self.affinity.is_some(),
            self.wait_mode.is_some(),
            self.quota.is_some(),
        ];
        given.into_iter().map(u32::from).sum()
    }

    /// How specific the selector is.
    pub fn specificity(&self) -> Specificity {
        let count = |given: bool| u32::from(given);
        Specificity {
            processor_fields: count(self.vendor.is_some())
                + count(self.family.is_some())
                + count(!self.models.is_empty()),
            model_narrowness: match u32::try_from(self.models.len()) {
                Ok(0) => 0,
                Ok(n) => u32::MAX - n,
                Err(_) => 1,
            },
            features: self.required_features.len() + self.excluded_features.len(),
            participant_bounds: count(self.minimum_participants.is_some())
                + count(self.maximum_participants.is_some()),
            use_conditions: self.use_conditions(),
            architecture: count(self.architecture.is_some()),
        }
    }

    /// Why an execution identity is outside the class; `None` when it is inside. A field that the identity lacks does
    /// not match.
    pub fn mismatch(&self, d: &CpuExecutionDescriptor) -> Option<String> {
        fn differs<T: PartialEq + std::fmt::Debug>(
            name: &str,
            wanted: &Option<T>,
            found: Option<&T>,
        ) -> Option<String> {
            match wanted {
                Some(w) if found != Some(w) => Some(match found {
                    Some(f) => format!("{name}: {w:?}, here {f:?}"),
                    None => format!("{name}: {w:?}, unknown here"),
                }),
                _ => None,
            }
        }
        differs("architecture", &self.architecture, Some(&d.architecture))
            .or_else(|| differs("vendor", &self.vendor, d.vendor.as_ref()))
            .or_else(|| differs("family", &self.family, d.family.as_ref()))
            .or_else(|| match d.model {
                _ if self.models.is_empty() => None,
                Some(model) if self.models.contains(&model) => None,
                Some(model) => Some(format!("model: one of {:?}, here {model}", self.models)),
                None => Some(format!("model: one of {:?}, unknown here", self.models)),
            })
            .or_else(|| {
                let missing = self.required_features.difference(&d.features).next()?;
                Some(format!("feature '{missing}' is required, absent here"))
            })
            .or_else(|| {
                let present = self.excluded_features.intersection(&d.features).next()?;
                Some(format!("feature '{present}' is excluded, present here"))
            })
            .or_else(|| {
                let low = self.minimum_participants.unwrap_or(0);
                let high = self.maximum_participants.unwrap_or(u32::MAX);
                (!(low..=high).contains(&d.participants)).then(|| {
                    format!(
                        "participants: {low} to {}, here {}",
                        self.maximum_participants
                            .map_or_else(|| "any".to_owned(), |h| h.to_string()),
                        d.participants
                    )
                })
            })
            .or_else(|| differs("smt_used", &self.smt_used, Some(&d.smt_used)))
            .or_else(|| differs("affinity", &self.affinity, Some(&d.affinity)))
            .or_else(|| differs("wait_mode", &self.wait_mode, Some(&d.wait_mode)))
            .or_else(|| differs("quota", &self.quota, Some(&d.quota)))
    }

    /// Whether some execution identity lies in both classes.
    pub fn overlaps(&self, other: &CpuSelector) -> bool {
        fn compatible<T: PartialEq>(a: &Option<T>, b: &Option<T>) -> bool {
            a.is_none() || b.is_none() || a == b
        }
        let bounds = |s: &CpuSelector| {
            (
                s.minimum_participants.unwrap_or(0),
                s.maximum_participants.unwrap_or(u32::MAX),
            )
        };
        let ((low_a, high_a), (low_b, high_b)) = (bounds(self), bounds(other));
        compatible(&self.architecture, &other.architecture)
            && compatible(&self.vendor, &other.vendor)
            && compatible(&self.family, &other.family)
            && (self.models.is_empty()
                || other.models.is_empty()
                || self.models.iter().any(|m| other.models.contains(m)))
            && self.required_features.is_disjoint(&other.excluded_features)
            && other.required_features.is_disjoint(&self.excluded_features)
            && low_a.max(low_b) <= high_a.min(high_b)
            && compatible(&self.smt_used, &other.smt_used)
            && compatible(&self.affinity, &other.affinity)
            && compatible(&self.wait_mode, &other.wait_mode)
            && compatible(&self.quota, &other.quota)
    }
}

impl fmt::Display for CpuSelector {
    /// The fields given, features by their number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        let mut part = |name: &str, value: Option<String>| {
            parts.extend(value.map(|value| format!("{name} {value}")));
        };
        let count = |n: usize| (n > 0).then(|| n.to_string());
        part("architecture", self.architecture.clone());
        part("vendor", self.vendor.clone());
        part("family", self.family.map(|n| n.to_string()));
        let models: Vec<String> = self.models.iter().map(u32::to_string).collect();
        part("model", (!models.is_empty()).then(|| models.join("|")));
        part("features required", count(self.required_features.len()));
        part("features excluded", count(self.excluded_features.len()));
        part(
            "participants",
            match (self.minimum_participants, self.maximum_participants) {
                (None, None) => None,
                (Some(low), Some(high)) if low == high => Some(low.to_string()),
                (Some(low), Some(high)) => Some(format!("{low} to {high}")),
                (Some(low), None) => Some(format!("from {low}")),
                (None, Some(high)) => Some(format!("up to {high}")),
            },
        );
        part("smt_used", self.smt_used.map(|used| used.to_string()));
        part("affinity", self.affinity.clone());
        part("wait_mode", self.wait_mode.clone());
        part("quota", self.quota.clone());
        f.write_str(&parts.join(", "))
    }
}
