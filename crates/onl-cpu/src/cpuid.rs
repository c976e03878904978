//! Identity of an x86-64 processor by the CPUID instruction (Intel SDM volume 2A, AMD APM volume 3).

#![cfg(target_arch = "x86_64")]

use crate::cpuinfo::{Identity, x86_vendor};
use crate::topology::Caches;
use std::arch::x86_64::{__cpuid, __cpuid_count, CpuidResult};

pub(crate) fn identity() -> Identity {
    let CpuidResult {
        eax: highest,
        ebx,
        ecx,
        edx,
    } = __cpuid(0);
    let vendor: Vec<u8> = [ebx, edx, ecx]
        .into_iter()
        .flat_map(u32::to_le_bytes)
        .collect();
    let mut identity = Identity {
        architecture: Some("x86_64"),
        vendor: text(&vendor).and_then(|vendor| x86_vendor(&vendor)),
        features: features(),
        brand: brand(),
        ..Identity::default()
    };
    if highest >= 1 {
        let CpuidResult { eax, ecx, .. } = __cpuid(1);
        let (family, model) = (eax >> 8 & 15, eax >> 4 & 15);
        let extended_model = if family == 6 || family == 15 {
            (eax >> 16 & 15) << 4
        } else {
            0
        };
        identity.family = Some(if family == 15 {
            family + (eax >> 20 & 255)
        } else {
            family
        });
        identity.model = Some(extended_model | model);
        identity.stepping = Some(eax & 15);
        identity.hypervisor = Some(ecx >> 31 == 1);
    }
    identity
}

/// Signature of the hypervisor, where one shows itself.
pub(crate) fn hypervisor() -> Option<String> {
    if __cpuid(0).eax < 1 || __cpuid(1).ecx >> 31 == 0 {
        return None;
    }
    let CpuidResult { ebx, ecx, edx, .. } = __cpuid(0x4000_0000);
    let signature: Vec<u8> = [ebx, ecx, edx]
        .into_iter()
        .flat_map(u32::to_le_bytes)
        .collect();
    text(&signature)
}

fn text(bytes: &[u8]) -> Option<String> {
    let text: String = bytes
        .iter()
        .take_while(|&&byte| byte != 0)
        .map(|&byte| byte as char)
        .collect();
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn brand() -> Option<String> {
    if __cpuid(0x8000_0000).eax < 0x8000_0004 {
        return None;
    }
    let bytes: Vec<u8> = (0x8000_0002..=0x8000_0004)
        .map(__cpuid)
        .flat_map(|CpuidResult { eax, ebx, ecx, edx }| [eax, ebx, ecx, edx])
        .flat_map(u32::to_le_bytes)
        .collect();
    text(&bytes)
}

/// Caches by the deterministic cache parameters, for systems that show no cache files.
pub(crate) fn caches() -> Caches {
    let leaf = if __cpuid(0).eax >= 4 && __cpuid_count(4, 0).eax & 31 != 0 {
        4
    } else if __cpuid(0x8000_0000).eax >= 0x8000_001d {
        0x8000_001d
    } else {
        return Caches::default();
    };
    let mut caches = Caches::default();
    for index in 0..16 {
        let CpuidResult { eax, ebx, ecx, .. } = __cpuid_count(leaf, index);
        let (kind, level) = (eax & 31, eax >> 5 & 7);
        if kind == 0 {
            break;
        }
        let line = u64::from(ebx & 0xfff) + 1;
        let ways = u64::from(ebx >> 22) + 1;
        let partitions = u64::from(ebx >> 12 & 0x3ff) + 1;
        let bytes = line * ways * partitions * (u64::from(ecx) + 1);
        const INSTRUCTION: u32 = 2;
        match level {
            1 if kind != INSTRUCTION => {
                caches.l1d_bytes = Some(bytes);
                caches.line_bytes = Some(line);
            }
            2 if kind != INSTRUCTION => caches.l2_bytes = Some(bytes),
            3 if kind != INSTRUCTION => caches.l3_bytes = Some(bytes),
            _ => {}
        }
    }
    caches
}

macro_rules! detected {
    ($($name:tt),* $(,)?) => {
        [$(($name, is_x86_feature_detected!($name))),*]
    };
}

/// Features that the processor has and the system has enabled.
fn features() -> std::collections::BTreeSet<String> {
    detected!(
        "avx",
        "avx2",
        "avx512bf16",
        "avx512bitalg",
        "avx512bw",
        "avx512cd",
        "avx512dq",
        "avx512f",
        "avx512fp16",
        "avx512ifma",
        "avx512vbmi",
        "avx512vbmi2",
        "avx512vl",
        "avx512vnni",
        "avx512vpopcntdq",
        "avxvnni",
        "bmi1",
        "bmi2",
        "f16c",
        "fma",
        "gfni",
        "popcnt",
        "sse4.1",
        "sse4.2",
        "ssse3",
    )
    .into_iter()
    .filter(|(_, present)| *present)
    .map(|(name, _)| name.to_owned())
    .collect()
}
