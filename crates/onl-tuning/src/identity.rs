//! Identities of executions and processors: digests that name them and the fields in which two of them differ.

use onl_cpu::CpuExecutionDescriptor;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Lower-case hexadecimal SHA-256 of bytes.
pub fn sha256_hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Name and canonical text of every field of an execution identity, in a fixed order. Absent values read `absent`.
pub fn execution_fields(descriptor: &CpuExecutionDescriptor) -> Vec<(&'static str, String)> {
    let d = descriptor;
    let mut fields = processor_fields(&ProcessorIdentity::of(d));
    fields.extend([
        ("participants", d.participants.to_string()),
        ("smt_used", d.smt_used.to_string()),
        ("affinity", d.affinity.clone()),
        ("wait_mode", d.wait_mode.clone()),
        ("quota", d.quota.clone()),
    ]);
    fields
}

fn processor_fields(p: &ProcessorIdentity) -> Vec<(&'static str, String)> {
    fn text<T: ToString>(value: &Option<T>) -> String {
        value
            .as_ref()
            .map_or_else(|| "absent".to_owned(), T::to_string)
    }
    vec![
        ("architecture", p.architecture.clone()),
        ("vendor", text(&p.vendor)),
        ("family", text(&p.family)),
        ("model", text(&p.model)),
        ("stepping", text(&p.stepping)),
        (
            "features",
            p.features.iter().cloned().collect::<Vec<_>>().join(" "),
        ),
        ("l1d_bytes", text(&p.l1d_bytes)),
        ("l2_bytes", text(&p.l2_bytes)),
        ("physical_cores", text(&p.physical_cores)),
        ("logical_cores", text(&p.logical_cores)),
    ]
}

/// Short name of an execution identity: 16 hexadecimal digits of the SHA-256 of all its fields. The list of fields is
/// the same for every kernel.
pub fn execution_id(descriptor: &CpuExecutionDescriptor) -> String {
    let mut text = String::new();
    for (name, value) in execution_fields(descriptor) {
        let _ = writeln!(text, "{name}={}:{value}", value.len());
    }
    sha256_hex(text.as_bytes())[..16].to_owned()
}

/// The fields in which two execution identities differ, as `participants: 4, here 2`; empty when they are equal.
pub fn execution_differences(
    saved: &CpuExecutionDescriptor,
    here: &CpuExecutionDescriptor,
) -> Vec<String> {
    differences(&execution_fields(saved), &execution_fields(here))
}

/// The fields in which two processors differ; empty when they are equal.
pub fn processor_differences(saved: &ProcessorIdentity, here: &ProcessorIdentity) -> Vec<String> {
    differences(&processor_fields(saved), &processor_fields(here))
}

fn differences(saved: &[(&str, String)], here: &[(&str, String)]) -> Vec<String> {
    saved
        .iter()
        .zip(here)
        .filter(|((_, a), (_, b))| a != b)
        .map(|((name, a), (_, b))| match *name {
            "features" => {
                let set = |text: &str| -> BTreeSet<String> {
                    text.split_whitespace().map(str::to_owned).collect()
                };
                let (a, b) = (set(a), set(b));
                let list = |x: &BTreeSet<String>, y: &BTreeSet<String>| {
                    x.difference(y).cloned().collect::<Vec<_>>().join(" ")
                };
                format!(
                    "features: only saved [{}], only here [{}]",
                    list(&a, &b),
                    list(&b, &a)
                )
            }
            name => format!("{name}: {a}, here {b}"),
        })
        .collect()
}

/// The part of an execution identity that describes the processor and not its use.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct ProcessorIdentity {
    pub architecture: String,
    pub vendor: Option<String>,
    pub family: Option<u32>,
    pub model: Option<u32>,
    pub stepping: Option<u32>,
    pub features: BTreeSet<String>,
    pub l1d_bytes: Option<u64>,
    pub l2_bytes: Option<u64>,
    pub physical_cores: Option<u32>,
    pub logical_cores: Option<u32>,
}

impl ProcessorIdentity {
    /// The processor of an execution identity.
    pub fn of(descriptor: &CpuExecutionDescriptor) -> Self {
        ProcessorIdentity {
            architecture: descriptor.architecture.clone(),
            vendor: descriptor.vendor.clone(),
            family: descriptor.family,
            model: descriptor.model,
            stepping: descriptor.stepping,
            features: descriptor.features.clone(),
            l1d_bytes: descriptor.l1d_bytes,
            l2_bytes: descriptor.l2_bytes,
            physical_cores: descriptor.physical_cores,
            logical_cores: descriptor.logical_cores,
        }
    }
}
