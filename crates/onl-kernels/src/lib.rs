//! The kernel table, and the adapters and families behind it.
//!
//! A [`KernelEntry`] is plain data: which operator, versions and element types it serves, how a node becomes a
//! [`PreparedKernel`], how output types follow from input types, and how far the path is covered by tuning. The
//! [`KernelTable`] drives dispatch, inventory, schemas, calibration, conformance and benches.

mod bench_node;
mod calibration;
mod elementwise;
mod error;
mod example;
mod gemm;
pub mod infer;
mod io;
mod movement;
mod prepare;
mod quantize;
mod reduce;
mod shape;
mod table;
#[doc(hidden)]
pub mod testing;

pub use bench_node::{BenchMemory, BenchNode};
pub use calibration::{CalibrationContext, NodeCalibration};
pub use error::{KernelError, PrepareError};
pub use example::{Example, ExampleInput, Work};
pub use infer::{InferContext, InferError};
pub use io::{KernelIo, OutputSlot};
pub use prepare::{NoSubgraphs, PrepareContext, PreparedKernel, PreparedSubgraph, SubgraphRunner};
pub use table::{
    Coverage, KernelEntry, KernelTable, LookupError, NEWEST_OPSET, SearchContext, SerialCategory,
    ShapeDependence, TypeSource,
};
