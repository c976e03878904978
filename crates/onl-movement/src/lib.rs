//! Kernels that move data: transpose, concat, split, slice, gather, expand, tile, pad, cast.
//!
//! Movement works by the width of an element, not by its type: 1, 2, 4, 8 and 16 bytes, and strings. Every output
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
mod pad;
mod strided;
mod transpose;
mod turn;
mod unit;

pub use cast::cast;
pub use concat::{concat, split};
pub use error::MovementError;
pub use execution::Execution;
pub use float8::{Float8, Float8Kind};
pub use gather::{gather, gather_elements, gather_nd};
pub use pad::{PadMode, pad};
pub use strided::{SliceAxis, expand, slice, tile, triangle};
pub use transpose::transpose;

use onl_profiling::{RegionSite, region_site};

/// Region of strided copies: slices, expansion, tiling.
pub static STRIDED: RegionSite = region_site!("movement.strided");
/// Region of transpositions.
pub static TRANSPOSE: RegionSite = region_site!("movement.transpose");
/// Region of concatenations.
pub static CONCAT: RegionSite = region_site!("movement.concat");
/// Region of splits.
pub static SPLIT: RegionSite = region_site!("movement.split");
/// Region of gathers.
pub static GATHER: RegionSite = region_site!("movement.gather");
/// Region of paddings.
pub static PAD: RegionSite = region_site!("movement.pad");
/// Region of casts.
pub static CAST: RegionSite = region_site!("movement.cast");
