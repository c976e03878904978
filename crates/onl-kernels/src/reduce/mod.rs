//! Adapters of the reduce family.

use crate::KernelEntry;

/// Kernels of the family.
pub(crate) fn entries() -> Vec<KernelEntry> {
    Vec::new()
}
