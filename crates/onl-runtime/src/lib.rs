//! Graph optimization, memory planning and the runtime session.
//!
//! A [`RuntimeSession`] is handed a model, a kernel table, one [`TuningSnapshot`](onl_snapshot::TuningSnapshot) and an
//! executor lease; it knows no profile files and no statistics. The first run with a set of input shapes records what
//! every node gives and makes a plan of it: values that depend on shapes alone become constants, every other
//! value gets a place in reused memory. Later runs with the same shapes follow the plan and allocate nothing.

#![forbid(unsafe_code)]

mod error;
mod functions;
mod plan;
mod prepared;
mod recording;
mod session;
mod state;
mod subgraph;
mod waking;

pub use error::{InputError, RunError, SessionError};
pub use prepared::PreparedNodeInfo;
pub use session::{PlannedInput, RunControl, RuntimeSession, SessionOptions};
