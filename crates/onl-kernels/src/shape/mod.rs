//! Operators that make or reinterpret shapes and constants: their outputs alias an input or are small.

mod alias;
mod constant;
mod metadata;
mod range;

use crate::{Coverage, KernelEntry, SerialCategory};

/// Coverage of operators that only reinterpret an input.
const METADATA_ONLY: Coverage = Coverage::Serial {
    category: SerialCategory::MetadataOnly,
    reason: "The output is the input under another shape, or is made of the input's shape; no element is computed.",
};

/// Coverage of operators whose outputs are small in practice.
const TINY_PAYLOAD: Coverage = Coverage::Serial {
    category: SerialCategory::TinyPayload,
    reason: "The output is a constant or a short sequence that sessions compute once per input shape.",
};

/// Kernels of the family.
pub(crate) fn entries() -> Vec<KernelEntry> {
    let mut entries = alias::entries();
    entries.extend(constant::entries());
    entries.extend(metadata::entries());
    entries.extend(range::entries());
    entries
}

#[cfg(test)]
mod tests;
