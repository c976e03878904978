//! Kernels that move data: transpose, concat, split, slice, gather, scatter, expand, tile, pad, cast and their kin.
//!
//! Movement works by the width of an element, not by its type: 1, 2, 4, 8 and 16 bytes, strings,
//! and for some operators 2 and 4 bits. Every output
//! element is written exactly once with a copy of one input element (or a fill value), so bits cannot depend on how
//! the work is divided. Casts are the exception: they compute, element by element.
//!
//! Functions take views whose shapes were already worked out by the caller; shapes that do not fit are errors of the
//! caller and are reported as [`MovementError::Shapes`].

mod cast;
mod concat;
mod error;
mod execution;
mod float8;
mod gather;
mod indices;
mod packed;
mod pad;
mod scatter;
mod select;
mod strided;
mod transpose;
mod turn;
mod unit;

pub use cast::{CastRules, ScaleRounding, cast};
pub use concat::{concat, split};
pub use error::MovementError;
pub use execution::Execution;
pub use float8::{Float8, Float8Kind};
pub use gather::{gather, gather_elements, gather_nd};
pub use pad::{PadMode, pad};
pub use scatter::{Reduction, scatter_elements, scatter_nd, scatter_sequence};
pub use select::{count_blocks, count_chosen, one_hot, reverse_sequence, words, write_positions};
pub use strided::{SliceAxis, expand, slice, tile, triangle};
pub use transpose::{rearrange, transpose};

use onl_profiling::{RegionSite, region_site};

/// Region of strided copies: slices, expansion, tiling, reversal.
pub static STRIDED: RegionSite = region_site!("movement.strided");
/// Region of transpositions.
pub static TRANSPOSE: RegionSite = region_site!("movement.transpose");
/// Region of concatenations.
pub static CONCAT: RegionSite = region_site!("movement.concat");
/// Region of splits.
pub static SPLIT: RegionSite = region_site!("movement.split");
/// Region of gathers.
pub static GATHER: RegionSite = region_site!("movement.gather");
/// Region of scatters.
pub static SCATTER: RegionSite = region_site!("movement.scatter");
/// Region of searches for elements that are not zero.
pub static POSITIONS: RegionSite = region_site!("movement.positions");
/// Region of one-hot encodings.
pub static ONE_HOT: RegionSite = region_site!("movement.one_hot");
/// Region of paddings.
pub static PAD: RegionSite = region_site!("movement.pad");
/// Region of casts.
pub static CAST: RegionSite = region_site!("movement.cast");
