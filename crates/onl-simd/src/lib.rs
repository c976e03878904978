//! Instruction-set tokens and generic vector operations.
//!
//! A kernel body is written once as a [`SimdOp`] whose [`eval`](SimdOp::eval) is generic over an [`Isa`] token. The
//! token proves that the processor has the tier's features; [`dispatch`] wraps the body in a function compiled for
//! the tier. Every method of a token is `#[inline(always)]`, and so must be every `eval` and every helper that takes
//! a token: otherwise the intrinsics are not inlined.
//!
//! Bits are equal on every tier: operations are the IEEE ones, multiply-add is always fused where it is written as
//! [`Isa::fma_f32`] and never otherwise, minimum and maximum are compare-and-select, and no reciprocal estimate is
//! used.

mod isa;
mod scalar;

pub use isa::{Isa, SimdOp};
pub use scalar::Scalar;

use onl_cpu::IsaTier;

/// Runs an operation compiled for a tier.
///
/// # Panics
/// When this processor does not run the tier.
pub fn dispatch<O: SimdOp>(tier: IsaTier, op: O) -> O::Output {
    assert!(
        IsaTier::available().contains(&tier),
        "tier {tier} is not available on this processor"
    );
    op.eval(Scalar::new())
}
