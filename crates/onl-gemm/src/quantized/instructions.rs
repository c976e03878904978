use super::tile::{self, Kernels};
use onl_cpu::IsaTier;
use std::fmt;

/// Instructions that multiply and add bytes. A tier may have several, by features beyond it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Instructions {
    /// Portable Rust.
    Scalar,
    /// AArch64 widening multiplications of 16-bit integers.
    Neon,
    /// AArch64 dot products of bytes (`sdot`, `udot`).
    NeonDot,
    /// 256-bit `vpmaddubsw` over strips of B whose products with every A fit into 16 bits; over others `vpmaddwd` of
    /// 16-bit integers, which cannot saturate.
    Avx2,
    /// 256-bit `vpdpbusd` (AVX-VNNI).
    AvxVnni,
    /// 512-bit `vpmaddwd`.
    Avx512,
    /// 512-bit `vpdpbusd` (AVX512-VNNI).
    Avx512Vnni,
}

impl Instructions {
    /// All that this processor runs, from the portable ones to the best.
    pub fn available() -> Vec<Instructions> {
        use Instructions::*;
        [Scalar, Neon, NeonDot, Avx2, AvxVnni, Avx512, Avx512Vnni]
            .into_iter()
            .filter(|instructions| instructions.is_available())
            .collect()
    }

    /// The best of a tier on this processor.
    pub fn of_tier(tier: IsaTier) -> Instructions {
        let better = |better: Instructions, base| if better.is_available() { better } else { base };
        match tier {
            IsaTier::Scalar => Instructions::Scalar,
            IsaTier::Neon => better(Instructions::NeonDot, Instructions::Neon),
            IsaTier::Avx2 => better(Instructions::AvxVnni, Instructions::Avx2),
            IsaTier::Avx512 => better(Instructions::Avx512Vnni, Instructions::Avx512),
        }
    }

    /// Whether this processor runs them.
    pub fn is_available(self) -> bool {
        let tier = match self {
            Instructions::Scalar => IsaTier::Scalar,
            Instructions::Neon | Instructions::NeonDot => IsaTier::Neon,
            Instructions::Avx2 | Instructions::AvxVnni => IsaTier::Avx2,
            Instructions::Avx512 | Instructions::Avx512Vnni => IsaTier::Avx512,
        };
        #[cfg(target_arch = "x86_64")]
        let feature = match self {
            Instructions::AvxVnni => std::arch::is_x86_feature_detected!("avxvnni"),
            Instructions::Avx512Vnni => std::arch::is_x86_feature_detected!("avx512vnni"),
            _ => true,
        };
        #[cfg(target_arch = "aarch64")]
        let feature =
            self != Instructions::NeonDot || std::arch::is_aarch64_feature_detected!("dotprod");
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let feature = true;
        IsaTier::available().contains(&tier) && feature
    }

    /// Compiled bodies for an A of this sign.
    ///
    /// # Panics
    /// On another architecture.
    pub(super) fn kernels(self, a_signed: bool) -> &'static Kernels {
        tile::kernels(self, a_signed)
            .unwrap_or_else(|| panic!("{self} instructions belong to another architecture"))
    }

    /// Bodies for strips of B that [`kernels`](Self::kernels) would not multiply exactly, if there can be any.
    pub(super) fn wide_kernels(self) -> Option<&'static Kernels> {
        tile::wide_kernels(self)
    }

    /// Multiply-adds in a nanosecond, coarsely: for the decision whether parked lanes are worth waking.
    pub(super) fn fmas_per_nanosecond(self) -> u64 {
        match self {
            Instructions::Scalar => 1,
            Instructions::Neon => 20,
            Instructions::NeonDot => 80,
            Instructions::Avx2 => 70,
            Instructions::AvxVnni => 130,
            Instructions::Avx512 => 80,
            Instructions::Avx512Vnni => 250,
        }
    }
}

impl fmt::Display for Instructions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Instructions::Scalar => "scalar",
            Instructions::Neon => "neon",
            Instructions::NeonDot => "neon_dot",
            Instructions::Avx2 => "avx2",
            Instructions::AvxVnni => "avx_vnni",
            Instructions::Avx512 => "avx512",
            Instructions::Avx512Vnni => "avx512_vnni",
        })
    }
}
