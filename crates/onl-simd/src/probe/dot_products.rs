/// Whether this processor has dot products of 8-bit integers of whole 512-bit vectors.
pub fn has_dot_products() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        std::arch::is_x86_feature_detected!("avx512f")
            && std::arch::is_x86_feature_detected!("avx512vnni")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Runs `rounds` steps of twelve independent chains of dot products of unsigned and signed 8-bit integers, added to
/// 32-bit sums. Gives the sum of all sums, modulo 2³², and the number of operations, two for each product. `None` where
/// the processor has no such instruction.
pub fn dot_products(rounds: u32) -> Option<(i32, u64)> {
    if !has_dot_products() {
        return None;
    }
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the processor has the features.
    return Some(unsafe { x86::chains(rounds) });
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = rounds;
        None
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::{
        _mm512_add_epi32, _mm512_dpbusd_epi32, _mm512_reduce_add_epi32, _mm512_set1_epi8,
        _mm512_set1_epi32,
    };
    use std::hint::black_box;

    const CHAINS: usize = 12;
    /// Products of a vector.
    const PRODUCTS: u64 = 64;

    /// # Safety
    /// The processor has AVX-512F and its VNNI.
    #[target_feature(enable = "avx512f,avx512vnni")]
    pub(super) unsafe fn chains(rounds: u32) -> (i32, u64) {
        let (a, b) = (
            _mm512_set1_epi8(black_box(3)),
            _mm512_set1_epi8(black_box(-2)),
        );
        let mut chains = [_mm512_set1_epi32(0); CHAINS];
        for (i, chain) in chains.iter_mut().enumerate() {
            *chain = _mm512_set1_epi32(black_box(i as i32));
        }
        for _ in 0..rounds {
            for chain in &mut chains {
                *chain = _mm512_dpbusd_epi32(*chain, a, b);
            }
            // Equal steps would be computed at once.
            for chain in &mut chains {
                // SAFETY: the template is a comment; the register keeps its value.
                unsafe {
                    asm!(
                        "/* {0} */",
                        inout(zmm_reg) * chain,
                        options(pure, nomem, nostack, preserves_flags)
                    );
                }
            }
        }
        let mut total = chains[0];
        for chain in &chains[1..] {
            total = _mm512_add_epi32(total, *chain);
        }
        let operations = u64::from(rounds) * 2 * CHAINS as u64 * PRODUCTS;
        (_mm512_reduce_add_epi32(total), operations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_product_is_counted_and_summed() {
        let Some((sum, operations)) = dot_products(5) else {
            assert!(!has_dot_products());
            return;
        };
        assert_eq!(operations, 5 * 2 * 12 * 64);
        // Each of 16 lanes of chain i starts at i and gains four products of -6 a step.
        let expected: i32 = (0..12).map(|i| 16 * (i - 5 * 4 * 6)).sum();
        assert_eq!(sum, expected);
    }
}
