//! Any bytes as `choices.toml`: no panic, no partial row, always a reason.

#![no_main]

#[path = "../../../crates/onl-tuning/tests/support/damaged.rs"]
mod damaged;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| damaged::check(bytes));
