//! Inventory and verification of kernel paths.
