//! The cache folder: chosen rows in `choices.toml`, the records behind them in `evidence/`.

mod folder;
mod format;
mod read;
mod row;
mod write;

pub use folder::{
    CacheError, CacheFolder, FileState, LoadReport, UpdateReport, UpdateStep, VoidRow,
};
pub use format::{Choices, FORMAT_VERSION};
pub use row::{CachedLaneCosts, CachedProfile, CachedRow, RowKind};
