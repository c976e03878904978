use crate::{Scalar, SimdOp};
use onl_cpu::IsaTier;

/// Runs an operation compiled for a tier.
///
/// # Panics
/// When this processor does not run the tier.
pub fn dispatch<O: SimdOp>(tier: IsaTier, op: O) -> O::Output {
    match tier {
        IsaTier::Scalar => op.eval(Scalar::new()),
        #[cfg(target_arch = "x86_64")]
        IsaTier::Avx2 => match crate::Avx2::detect() {
            Some(isa) => isa.run(op),
            None => unavailable(tier),
        },
        #[cfg(target_arch = "x86_64")]
        IsaTier::Avx512 => match crate::Avx512::detect() {
            Some(isa) => isa.run(op),
            None => unavailable(tier),
        },
        #[cfg(target_arch = "aarch64")]
        IsaTier::Neon => match crate::Neon::detect() {
            Some(isa) => isa.run(op),
            None => unavailable(tier),
        },
        #[allow(unreachable_patterns)]
        _ => unavailable(tier),
    }
}

#[cold]
#[inline(never)]
fn unavailable(tier: IsaTier) -> ! {
    panic!("tier {tier} is not available on this processor; choose one of IsaTier::available()")
}
