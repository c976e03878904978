//! Unary, binary and ternary elementwise operations with broadcasting.
//!
//! An operation is chosen once for an element type and an instruction-set tier ([`Unary`], [`Binary`], [`Variadic`],
//! [`Pow`], [`Clip`], [`Select`]) and then run on tensors; a run allocates nothing for tensors of rank 6 and less.
//!
//! # Numerical contract
//!
//! An output element depends on the operand elements at its position alone, so its bits are equal for every division
//! among lanes, every broadcast form and every tier. Arithmetic is IEEE with round to nearest even and denormals;
//! integer arithmetic wraps; 16-bit floats are widened to f32, computed, and rounded once. Transcendental functions are
//! those of `onl_simd::math`. Errors carry the smallest output position at which they occur.
//!
//! # How it works
//!
//! Broadcasting resolves to runs along one axis in which each operand has stride 0 or 1 (`broadcast`); rows
//! that are too short for a loop of their own are gathered into blocks on the stack. A body sees contiguous blocks and
//! single elements only (`body`), and is compiled once per tier.

#![forbid(unsafe_code)]

mod binary;
mod body;
mod broadcast;
mod clip;
mod error;
mod math;
mod operations;
mod pow;
mod quantize;
pub mod region;
mod select;
mod unary;
mod variadic;

pub use binary::{Binary, BinaryOp};
pub use broadcast::broadcast_shape;
pub use clip::Clip;
pub use error::ElementwiseError;
pub use pow::Pow;
pub use quantize::{Granularity, QUANTIZE, Quantization, QuantizeOperands, quantize};
pub use select::Select;
pub use unary::{Unary, UnaryOp};
pub use variadic::{Variadic, VariadicOp};
