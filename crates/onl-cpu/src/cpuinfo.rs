//! `/proc/cpuinfo`: identity and features where the instruction set gives no direct way to read them.

use crate::cpu_set::cpu_number;
use crate::source::SystemRoot;
use std::collections::{BTreeMap, BTreeSet};

/// Names of Rust's feature detection beside those of Linux, for x86-64.
const X86_FEATURES: &[(&str, &str)] = &[
    ("avx", "avx"),
    ("avx2", "avx2"),
    ("avx512bf16", "avx512_bf16"),
    ("avx512bitalg", "avx512_bitalg"),
    ("avx512bw", "avx512bw"),
    ("avx512cd", "avx512cd"),
    ("avx512dq", "avx512dq"),
    ("avx512f", "avx512f"),
    ("avx512fp16", "avx512_fp16"),
    ("avx512ifma", "avx512ifma"),
    ("avx512vbmi", "avx512vbmi"),
    ("avx512vbmi2", "avx512_vbmi2"),
    ("avx512vl", "avx512vl"),
    ("avx512vnni", "avx512_vnni"),
    ("avx512vpopcntdq", "avx512_vpopcntdq"),
    ("avxvnni", "avx_vnni"),
    ("bmi1", "bmi1"),
    ("bmi2", "bmi2"),
    ("f16c", "f16c"),
    ("fma", "fma"),
    ("gfni", "gfni"),
    ("popcnt", "popcnt"),
    ("sse4.1", "sse4_1"),
    ("sse4.2", "sse4_2"),
    ("ssse3", "ssse3"),
];

/// The same for AArch64. Linux shows half-precision arithmetic as two flags, which always come together.
const AARCH64_FEATURES: &[(&str, &str)] = &[
    ("bf16", "bf16"),
    ("crc", "crc32"),
    ("dotprod", "asimddp"),
    ("fcma", "fcma"),
    ("fhm", "asimdfhm"),
    ("fp16", "asimdhp"),
    ("i8mm", "i8mm"),
    ("lse", "atomics"),
    ("neon", "asimd"),
    ("rdm", "asimdrdm"),
    ("sve", "sve"),
    ("sve2", "sve2"),
];

/// Names of the instruction-set features that are looked for on processors of an architecture; none for others than
/// `x86_64`, `x86` and `aarch64`.
pub fn known_features(architecture: &str) -> impl Iterator<Item = &'static str> {
    let known = match architecture {
        "x86_64" | "x86" => X86_FEATURES,
        "aarch64" => AARCH64_FEATURES,
        _ => &[],
    };
    known.iter().map(|(name, _)| *name)
}

/// Implementer codes of the Arm main identification register.
const ARM_IMPLEMENTERS: &[(u32, &str)] = &[
    (0x41, "arm"),
    (0x42, "broadcom"),
    (0x43, "cavium"),
    (0x46, "fujitsu"),
    (0x48, "hisilicon"),
    (0x4e, "nvidia"),
    (0x50, "apm"),
    (0x51, "qualcomm"),
    (0x53, "samsung"),
    (0x56, "marvell"),
    (0x61, "apple"),
    (0x69, "intel"),
    (0x6d, "microsoft"),
    (0x70, "phytium"),
    (0xc0, "ampere"),
];

/// Parsed `/proc/cpuinfo`: the fields of each processor.
#[derive(Debug, Default)]
pub(crate) struct Cpuinfo {
    processors: BTreeMap<u32, BTreeMap<String, String>>,
}

/// What `/proc/cpuinfo` says about one processor.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// `x86_64`, `x86`, `aarch64` or `arm`.
    pub architecture: Option<&'static str>,
    pub vendor: Option<String>,
    pub family: Option<u32>,
    pub model: Option<u32>,
    pub stepping: Option<u32>,
    pub features: BTreeSet<String>,
    pub brand: Option<String>,
    pub hypervisor: Option<bool>,
}

impl Cpuinfo {
    pub fn read(root: &SystemRoot) -> Self {
        root.text("proc/cpuinfo")
            .map(|text| Self::parse(&text))
            .unwrap_or_default()
    }

    fn parse(text: &str) -> Self {
        let mut processors: BTreeMap<u32, BTreeMap<String, String>> = BTreeMap::new();
        let mut current = None;
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let (key, value) = (key.trim(), value.trim());
            if key == "processor" {
                current = cpu_number(value);
                if let Some(id) = current {
                    processors.entry(id).or_default();
                }
            } else if let Some(fields) = current.and_then(|id| processors.get_mut(&id)) {
                fields.insert(key.to_owned(), value.to_owned());
            }
        }
        Self { processors }
    }

    /// Numbers of the processors listed; the kernel lists the ones that are online.
    pub fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.processors.keys().copied()
    }

    /// A decimal field of processor `id`.
    pub fn number(&self, id: u32, key: &str) -> Option<u32> {
        self.processors.get(&id)?.get(key)?.parse().ok()
    }

    /// Identity of processor `id`, or of the first one when `id` is not listed.
    pub fn identity(&self, id: Option<u32>) -> Identity {
        let listed = id.and_then(|id| self.processors.get(&id));
        let Some(fields) = listed.or_else(|| self.processors.values().next()) else {
            return Identity::default();
        };
        if fields.contains_key("CPU implementer") {
            arm_identity(fields)
        } else if fields.contains_key("vendor_id") && fields.contains_key("flags") {
            x86_identity(fields)
        } else {
            Identity::default()
        }
    }
}

/// Rust names of the features whose Linux names stand in `flags`.
fn features(flags: &str, names: &[(&str, &str)]) -> BTreeSet<String> {
    let flags: BTreeSet<&str> = flags.split_ascii_whitespace().collect();
    names
        .iter()
        .filter(|(_, linux)| flags.contains(linux))
        .map(|(rust, _)| (*rust).to_owned())
        .collect()
}

fn x86_identity(fields: &BTreeMap<String, String>) -> Identity {
    let flags = fields.get("flags").map(String::as_str).unwrap_or_default();
    let has = |flag: &str| {
        flags
            .split_ascii_whitespace()
            .any(|present| present == flag)
    };
    let number = |key: &str| fields.get(key).and_then(|value| value.parse().ok());
    Identity {
        architecture: Some(if has("lm") { "x86_64" } else { "x86" }),
        vendor: fields.get("vendor_id").and_then(|id| x86_vendor(id)),
        family: number("cpu family"),
        model: number("model"),
        stepping: number("stepping"),
        features: features(flags, X86_FEATURES),
        brand: fields
            .get("model name")
            .filter(|name| !name.is_empty() && *name != "unknown")
            .cloned(),
        hypervisor: Some(has("hypervisor")),
    }
}

fn arm_identity(fields: &BTreeMap<String, String>) -> Identity {
    let number = |key: &str| {
        let value = fields.get(key)?;
        match value.strip_prefix("0x") {
            Some(hex) => u32::from_str_radix(hex, 16).ok(),
            None => value.parse().ok(),
        }
    };
    let flags = fields
        .get("Features")
        .map(String::as_str)
        .unwrap_or_default();
    let family = number("CPU architecture");
    let vendor = number("CPU implementer").map(|code| {
        match ARM_IMPLEMENTERS.iter().find(|(known, _)| *known == code) {
            Some((_, name)) => (*name).to_owned(),
            None => format!("implementer_{code:#04x}"),
        }
    });
    // Each half is a nibble of the main identification register.
    let stepping = number("CPU variant")
        .zip(number("CPU revision"))
        .filter(|(variant, revision)| *variant < 16 && *revision < 16)
        .map(|(variant, revision)| variant << 4 | revision);
    Identity {
        architecture: family.map(|family| if family >= 8 { "aarch64" } else { "arm" }),
        vendor,
        family,
        model: number("CPU part"),
        stepping,
        features: features(flags, AARCH64_FEATURES),
        brand: fields
            .get("model name")
            .filter(|name| !name.is_empty())
            .cloned(),
        hypervisor: None,
    }
}

/// Vendor name for the 12 characters that the processor gives; the characters themselves when they are not known.
pub(crate) fn x86_vendor(id: &str) -> Option<String> {
    let name = match id.trim() {
        "" | "unknown" => return None,
        "GenuineIntel" => "intel",
        "AuthenticAMD" => "amd",
        "HygonGenuine" => "hygon",
        "CentaurHauls" => "centaur",
        "Shanghai" => "zhaoxin",
        other => return Some(other.to_ascii_lowercase()),
    };
    Some(name.to_owned())
}
