//! Inventory of kernel paths, and the proof that their coverage states are true.

#![forbid(unsafe_code)]

mod inventory;
mod verify;

pub use inventory::{
    Inventory, InventoryError, InventoryImplementation, InventoryParameter, InventoryRow,
    SerialReason, inventory, validate_inventory,
};
pub use verify::{Verdict, VerifiedPath, verify_entry, verify_table};
