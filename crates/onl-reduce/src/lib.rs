//! Reductions, softmax, normalization, selection and cumulation.
//!
//! # The order of arithmetic, revision 1
//!
//! The elements that one output element reduces form a row: element 0, 1, … in row-major order of the reduced axes.
//!
//! 1. A row is cut into blocks of [`BLOCK`] elements; the last may be shorter.
//! 2. Within a block, element i goes to virtual lane i mod 64; a lane takes its elements in order, starting from the
//!    neutral element (−0 for sums, so that a sum of negative zeros keeps its sign).
//! 3. Lanes fold as i with i + 32, then 16, 8, 4, 2, 1; the lower lane is the first operand.
//! 4. Blocks are merged left to right.
//!
//! The shape alone selects this order; it does not depend on lanes, chunks, tier, or on whether the reduced axis is
//! the innermost one. f16 and bf16 are widened to f32, reduced as f32, and rounded once at the end. f64 uses 64 lanes
//! of f64. Squares are accumulated by fused multiply-adds. Maximum and minimum are compare-and-select, and a NaN in
//! the row gives NaN. Integers wrap, and need no order.
//!
//! Selections (ArgMax, Hardmax, TopK) have one right answer and need no order either. Cumulations have an order of
//! their own, which the page of [`cumulate`] states.

mod apply;
mod arg;
mod channel;
mod column;
mod cumulative;
mod error;
mod execution;
mod exponential;
mod integer;
mod layout;
mod norm;
mod operation;
mod order;
mod real;
mod reduce;
mod row;
mod softmax;
mod topk;

pub use arg::{arg_extreme, arg_workspace, hardmax, hardmax_workspace};
pub use channel::{
    BatchNorm, GroupNorm, Standardization, Training, batch_norm, batch_norm_workspace, group_norm,
    group_norm_workspace, lp_normalize, lp_normalize_workspace, standardize, standardize_workspace,
};
pub use cumulative::{Cumulation, cumulate, cumulate_workspace};
pub use error::ReduceError;
pub use execution::Execution;
pub use norm::{LayerNorm, layer_norm, layer_norm_workspace};
pub use operation::ReduceKind;
pub use reduce::{reduce, reduce_workspace};
pub use softmax::{softmax, softmax_workspace};
pub use topk::{TopK, top_k, top_k_workspace};

use onl_profiling::{RegionSite, region_site};

/// Elements of a row that are reduced together before blocks are merged.
pub const BLOCK: usize = 4096;

/// Region of reductions along the innermost axis.
pub static ROWS: RegionSite = region_site!("reduce.rows");
/// Region of reductions along an outer axis.
pub static COLUMNS: RegionSite = region_site!("reduce.columns");
/// Region of reductions of integers.
pub static INTEGERS: RegionSite = region_site!("reduce.integers");
/// Region of softmax and log-softmax.
pub static SOFTMAX: RegionSite = region_site!("reduce.softmax");
/// Region of layer and root-mean-square normalization.
pub static NORMALIZATION: RegionSite = region_site!("reduce.normalization");
/// Region of batch, group and instance normalization and of those by norm or deviation over any axes.
pub static CHANNELS: RegionSite = region_site!("reduce.channels");
/// Region of ArgMax, ArgMin and Hardmax.
pub static SELECTION: RegionSite = region_site!("reduce.selection");
/// Region of TopK.
pub static TOP_K: RegionSite = region_site!("reduce.top_k");
/// Region of cumulative sums and products.
pub static CUMULATIVE: RegionSite = region_site!("reduce.cumulative");
