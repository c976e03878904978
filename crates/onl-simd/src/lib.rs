//! Instruction-set tokens, generic vector operations and vector mathematics.
//!
//! # Design
//!
//! A kernel body is written once, as a [`SimdOp`] whose [`eval`](SimdOp::eval) is generic over an [`Isa`]. An `Isa` is a
//! *token*: a value of a type of size zero that can only be had where the processor has the tier's features
//! ([`Avx512`], [`Avx2`], `Neon`; [`Scalar`] everywhere). Holding it is the proof that its methods, which are the
//! tier's instructions, may run: they are safe to call. [`dispatch`] checks the tier, makes the token, and calls `eval`
//! inside a function compiled with the tier's features. A kernel calls it once per block of work, not per vector.
//!
//! | Tier | Token | `f32` lanes | `f64` lanes | Masks |
//! | --- | --- | --- | --- | --- |
//! | AVX-512 F, BW, DQ, VL | [`Avx512`] | 16 | 8 | mask registers |
//! | AVX2, FMA, F16C | [`Avx2`] | 8 | 4 | vectors |
//! | Advanced SIMD | `Neon` | 4 | 2 | vectors |
//! | portable Rust | [`Scalar`] | 1 | 1 | `bool` |
//!
//! Operations on registers are those of [`VectorOps`], which every token has, and which [`Paired`] has too: two vectors in
//! the place of one. The functions of [`math`] are generic over it, and loops over blocks call them with pairs.
//!
//! # Equal bits
//!
//! A body gives the same bits on every tier (any NaN equals any NaN), provided that a lane's result depends on that lane
//! only or that lanes are combined through [`reduce`], and because of these rules:
//!
//! - operations are the IEEE ones, rounded to nearest even, denormals kept; there is no reciprocal estimate;
//! - a multiply-add is fused exactly where it is written as [`VectorOps::fma_f32`];
//! - minimum and maximum are compare-and-select: the second operand is returned when either is NaN, and when both are
//!   zeros, so the order of operands is part of the meaning;
//! - NaN results are selected, never left to arithmetic, where their bits can matter;
//! - 16-bit floats are computed on in `f32` and rounded once.
//!
//! [`Scalar`] is the reference of the tests and serves processors without a vector tier; it is not fast, since each fused
//! multiply-add may be a call.
//!
//! # Inlining rules
//!
//! A vector instruction is inlined only into a function that has its feature, and `#[target_feature]` does not combine
//! with `#[inline(always)]`. So the only functions with features are the wrappers behind [`dispatch`], and all that they
//! call down to the instructions has to melt into them:
//!
//! - every `eval`, and every helper that takes a token, is `#[inline(always)]`;
//! - no closure takes or captures a token or a vector: a closure is a function of its own, without the features. Pass
//!   a type with a generic method instead ([`math::UnaryF32`] is one);
//! - cold code leaves through arrays, not vectors, to a `#[cold] #[inline(never)]` function that takes no token.
//!
//! # Example
//!
//! A scaled addition, with its tail: a partial load fills the other lanes, a partial store leaves them out.
//!
//! ```
//! use onl_simd::{Isa, SimdOp, dispatch};
//!
//! struct ScaledAdd<'a> {
//!     scale: f32,
//!     x: &'a [f32],
//!     y: &'a mut [f32],
//! }
//!
//! impl SimdOp for ScaledAdd<'_> {
//!     type Output = ();
//!
//!     #[inline(always)]
//!     fn eval<I: Isa>(self, isa: I) {
//!         let scale = isa.splat_f32(self.scale);
//!         let mut inputs = self.x.chunks_exact(I::F32_LANES);
//!         let mut outputs = self.y.chunks_exact_mut(I::F32_LANES);
//!         for (x, y) in (&mut inputs).zip(&mut outputs) {
//!             let sum = isa.fma_f32(scale, isa.load_f32(x), isa.load_f32(y));
//!             isa.store_f32(sum, y);
//!         }
//!         let (x, y) = (inputs.remainder(), outputs.into_remainder());
//!         let (vx, vy) = (isa.load_partial_f32(x, 0.0), isa.load_partial_f32(y, 0.0));
//!         isa.store_partial_f32(isa.fma_f32(scale, vx, vy), y);
//!     }
//! }
//!
//! let x: Vec<f32> = (0..21).map(|i| i as f32).collect();
//! for &tier in onl_cpu::IsaTier::available() {
//!     let mut y = vec![1.0; 21];
//!     dispatch(tier, ScaledAdd { scale: 2.0, x: &x, y: &mut y });
//!     assert_eq!(y[20], 41.0);
//! }
//! ```
#![cfg_attr(not(target_arch = "x86_64"), allow(rustdoc::broken_intra_doc_links))]

mod dispatch;
mod isa;
pub mod math;
#[cfg(target_arch = "aarch64")]
mod neon;
mod paired;
pub mod probe;
pub mod reduce;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use dispatch::dispatch;
pub use isa::{Isa, MAXIMUM_F32_LANES, SimdOp, VectorOps};
#[cfg(target_arch = "aarch64")]
pub use neon::Neon;
pub use paired::Paired;
pub use scalar::Scalar;
#[cfg(target_arch = "x86_64")]
pub use x86::{Avx2, Avx512};
