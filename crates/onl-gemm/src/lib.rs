//! Matrix products over `f32`, `f64`, `f16` and `bf16`: blocked, vectorized, parallel, with equal bits everywhere.
//!
//! # Order of arithmetic, version 1
//! Element (i, j) of `A · B`, with A of m × k and B of k × n, is computed in the type of accumulation (`f64` for
//! `f64`, `f32` for the other types, operands widened exactly):
//!
//! 1. k is cut into blocks of [`BLOCK`] steps, the last one shorter; nothing is padded.
//! 2. Each block is one chain: it starts from +0, and for every k of the block in increasing order
//!    `chain = fma(a[i][k], b[k][j], chain)`, rounded once.
//! 3. The result is the chain of block 0, to which the chains of blocks 1, 2, … are added in this order, each
//!    addition rounded. With k = 0 it is +0.
//! 4. The epilogue gives `alpha · result`, rounded, and with an addend `fma(beta, c, alpha · result)`, rounded once;
//!    then comes the addition of a residual, rounded, and an activation. Factors of 1 change nothing. 16-bit results
//!    are then rounded once, to nearest even.
//!
//! The problem alone determines the bits (any NaN equals any NaN): tier, tiles, packing, path and the number of
//! lanes do not.
//!
//! # Structure
//! A [`Plan`] divides the output into units of (batch entry, group of rows, panel of columns), numbered with the panels
//! innermost; a chunk of a region is a range of units. Within a group of rows, slices of k come first, then panels of
//! B, then register tiles, so that a panel is used by all tiles while the cache holds it. Rows are cut into tiles whose
//! heights differ by at most one. Register tiles read A in place, or from a copy where it is transposed, of a 16-bit
//! type, or where the tier has too few registers for addresses of rows. A B that is not constant is packed by the
//! first tile that reads it; for few rows, or when it is tiny, it is read in place.

mod activation;
mod blocks;
mod config;
mod constant;
mod element;
mod integer;
mod pack;
mod plan;
mod problem;
mod product;
mod quantized;
mod tile;

pub use activation::Activation;
pub use config::{GemmConfig, PathChoice};
pub use constant::PackedB;
pub use element::{Compute, Storage};
pub use integer::{WrappingElement, wrapping_product};
pub use plan::{BForm, Dimensions, Plan};
pub use problem::{Addend, Batch, Epilogue, GemmError, Matrix};
pub use product::{Factor, Output, PRODUCT_REGION, Problem, gemm};
pub use quantized::{
    Instructions, PackedQuantized, QUANTIZED_PRODUCT_REGION, QUANTIZED_ROWS_REGION,
    QuantizedConfig, QuantizedFactor, QuantizedMatrix, QuantizedOutput, QuantizedPath,
    QuantizedPlan, QuantizedProblem, QuantizedShape, Requantization, Scales, ZeroPoints,
    quantized_product,
};

/// Steps of k in one chain of the order of arithmetic.
pub const BLOCK: usize = 4096;
