//! Products of 8-bit integers with zero points, as 32-bit sums or requantized to 8 bits.
//!
//! # Arithmetic
//! Element (i, j) is `Σ (a[i][k] − za[i]) · (b[k][j] − zb[j])` modulo 2³², for operands and zero points of either sign.
//! It is computed as one sum of products of bytes and two corrections of rank 1, of the row sums of A and the column
//! sums of B; integers make every order of these operations equal.
//!
//! Requantization takes the sum as a signed integer and computes in `f32`, each operation rounded once to nearest even:
//!
//! 1. the scale `(a_scale[i] · b_scale[j]) / y_scale`, scales of 16-bit types widened exactly;
//! 2. the sum converted to `f32`, times the scale;
//! 3. clamped to the output type's range less the zero point (NaN becomes the lower end), rounded to the nearest
//!    integer, ties to even, and the zero point added as an integer.
//!
//! So the problem alone determines the bits: instructions, tiles, path and the number of lanes do not.
//!
//! # Structure
//! Both operands are read in groups of k that fill 32 bits: four bytes, or two 16-bit integers where the processor
//! multiplies no bytes. B is packed into panels of `[group][column]`, its column sums beside them. Instructions that
//! would saturate sums of products of bytes multiply bytes in those strips of B whose values keep such sums in range,
//! and 16-bit integers in the others; packing finds out. A is read in place, unless the instructions want the other
//! sign or 16 bits: then a first region copies it, once. Where zero points ask
//! for row sums, that region computes them. A second region computes units of (batch entry, block of columns, group of
//! rows). Accumulators start from the corrections, and a register tile is requantized while it is in the cache.

mod config;
mod instructions;
mod pack;
mod plan;
mod problem;
mod product;
mod requantize;
mod rows;
mod tile;

pub use config::{QuantizedConfig, QuantizedPath};
pub use instructions::Instructions;
pub use pack::PackedQuantized;
pub use plan::{QuantizedPlan, QuantizedShape};
pub use problem::{
    QuantizedFactor, QuantizedMatrix, QuantizedOutput, QuantizedProblem, Requantization, Scales,
    ZeroPoints,
};
pub use product::{QUANTIZED_PRODUCT_REGION, QUANTIZED_ROWS_REGION, quantized_product};
