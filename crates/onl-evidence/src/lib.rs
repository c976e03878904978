//! Inventory of kernel paths with the proof of their coverage states, and reports that a reader can check.

#![forbid(unsafe_code)]

pub mod attribution;
mod inventory;
pub mod report;
mod verify;

pub use inventory::{
    Inventory, InventoryError, InventoryImplementation, InventoryParameter, InventoryRow,
    SerialReason, inventory, validate_inventory,
};
pub use verify::{Verdict, VerifiedPath, verify_entry, verify_table};
