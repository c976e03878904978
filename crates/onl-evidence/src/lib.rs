//! Inventory of kernel paths with the proof of their coverage states, and reports that a reader can check.

#![deny(unsafe_code)]

pub mod attribution;
pub mod baseline;
pub mod calibration;
pub mod compare;
#[cfg(any(test, feature = "fixtures"))]
#[doc(hidden)]
pub mod fixtures;
mod inventory;
// Calls a library that is written in another language.
#[allow(unsafe_code)]
pub mod onnxruntime;
pub mod peer;
mod repeated;
pub mod report;
mod verify;

pub use inventory::{
    Inventory, InventoryError, InventoryImplementation, InventoryParameter, InventoryRow,
    SerialReason, apply_verdicts, inventory, markdown, validate_inventory,
};
pub use repeated::{Repeated, Room};
pub use verify::{Verdict, VerifiedPath, verify_entry, verify_table};
