//! Tests that cross crates live in `tests/`; this library holds what they share.

#![forbid(unsafe_code)]
