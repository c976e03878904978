use serde::{Deserialize, Serialize};
use std::fmt;

/// Instruction-set tier that kernel bodies are compiled for. A kernel chooses its tier once, at preparation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IsaTier {
    /// Portable Rust; the reference for bits.
    Scalar,
    /// AArch64 Advanced SIMD.
    Neon,
    /// x86-64 AVX2 with FMA, F16C, BMI2 and POPCNT.
    Avx2,
    /// x86-64 AVX-512 F, BW, DQ, VL (with all of the AVX2 tier).
    Avx512,
}

impl IsaTier {
    /// The best tier that this processor runs.
    pub fn detect() -> Self {
        Self::available().last().copied().unwrap_or(IsaTier::Scalar)
    }

    /// Every tier that this processor runs, from the portable one to the best.
    pub fn available() -> &'static [IsaTier] {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("popcnt");
            let avx512 = avx2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            if avx512 {
                &[IsaTier::Scalar, IsaTier::Avx2, IsaTier::Avx512]
            } else if avx2 {
                &[IsaTier::Scalar, IsaTier::Avx2]
            } else {
                &[IsaTier::Scalar]
            }
        }
        #[cfg(target_arch = "aarch64")]
        {
            &[IsaTier::Scalar, IsaTier::Neon]
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        {
            &[IsaTier::Scalar]
        }
    }

    /// Name used in files and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            IsaTier::Scalar => "scalar",
            IsaTier::Neon => "neon",
            IsaTier::Avx2 => "avx2",
            IsaTier::Avx512 => "avx512",
        }
    }
}

impl fmt::Display for IsaTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
