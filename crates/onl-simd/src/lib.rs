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

mod dispatch;
mod isa;
pub mod math;
#[cfg(target_arch = "aarch64")]
mod neon;
pub mod reduce;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use dispatch::dispatch;
pub use isa::{Isa, MAXIMUM_F32_LANES, SimdOp};
#[cfg(target_arch = "aarch64")]
pub use neon::Neon;
pub use scalar::Scalar;
#[cfg(target_arch = "x86_64")]
pub use x86::{Avx2, Avx512};
