//! ONNX models on CPUs, with kernels tuned from measured evidence.
//!
//! ```no_run
//! use onl::{Session, Tensor};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let session = Session::builder().model_path("model.onnx").build()?;
//! let input = Tensor::from_slice(&[1, 3], &[0.5f32, 1.0, 1.5])?;
//! let outputs = session.run(&[("x", input.into())])?;
//! println!("{:?}", outputs[0].as_tensor().map(|t| t.dims()));
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod calibration;
mod ceilings;
mod environment;
mod error;
mod files;
mod lane_costs;
mod process;
mod roofline_probe;
mod session;
mod synthetic;

pub use calibration::{calibration_targets, current_execution_descriptor};
pub use ceilings::{measure_ceilings, measure_roofline};
pub use environment::{Environment, ProfileSource};
pub use error::Error;
pub use files::{read_value, write_value};
pub use lane_costs::ExecutorLaneCosts;
pub use onl_cpu::{CpuDescriptor, CpuExecutionDescriptor, CpuSystem, IsaTier};
pub use onl_executor::{
    Affinity, CancelReason, CancelToken, Cancelled, CpuExecutionPolicy, CpuExecutor, Denormals,
    ExecutorLease, ResolvedCpuExecutionPolicy, WaitMode,
};
pub use onl_ir::{Dim, Model, TensorType, TypeInfo};
pub use onl_kernels::{KernelEntry, KernelTable};
pub use onl_onnx::LoadLimits;
pub use onl_profiling as profiling;
pub use onl_runtime::{InputError, RunControl, RunError, SessionError};
pub use onl_snapshot::{
    CalibrationTarget, KernelKey, LaneCosts, ParameterRow, ParameterValue, Search, TuningSnapshot,
    ValueSource,
};
pub use onl_tensor::{ElementType, Shape, Tensor, TensorView, Value};
pub use onl_tuning as tuning;
pub use process::peak_memory_bytes;
pub use roofline_probe::{ProbeWork, RooflineProbe};
pub use session::{InputInfo, LoadPhase, LoadPhases, Session, SessionBuilder};
pub use synthetic::{random_tensor, to_f64};
