//! Profiles: rows of values for a kernel and the executions they are for.

use crate::{CpuSelector, ProcessorIdentity};
use onl_cpu::CpuExecutionDescriptor;
use onl_snapshot::{KernelKey, ParameterRow, SizeDomain, ValueSource};

/// The executions that a profile is for.
#[derive(Debug, Clone, PartialEq)]
pub enum ProfileScope {
    /// One execution identity, exactly.
    Execution(Box<CpuExecutionDescriptor>),
    /// One processor, exactly, however a session uses it.
    Processor(Box<ProcessorIdentity>),
    /// A class of processors; `priority` orders selectors of equal specificity, higher first.
    Selector {
        /// The class.
        selector: Box<CpuSelector>,
        /// Order among selectors of equal specificity.
        priority: i32,
    },
}

impl ProfileScope {
    /// The scope of one execution identity.
    pub fn execution(descriptor: &CpuExecutionDescriptor) -> Self {
        ProfileScope::Execution(Box::new(descriptor.clone()))
    }

    /// The scope of the processor of an execution identity.
    pub fn processor(descriptor: &CpuExecutionDescriptor) -> Self {
        ProfileScope::Processor(Box::new(ProcessorIdentity::of(descriptor)))
    }

    /// The scope of a class of processors.
    pub fn selector(selector: CpuSelector, priority: i32) -> Self {
        ProfileScope::Selector {
            selector: Box::new(selector),
            priority,
        }
    }

    /// The rank in which profiles of this scope are found.
    pub fn source(&self) -> ValueSource {
        match self {
            ProfileScope::Execution(_) => ValueSource::ExactExecution,
            ProfileScope::Processor(_) => ValueSource::ExactProcessor,
            ProfileScope::Selector { selector, .. } => selector.source(),
        }
    }
}

/// A row of values for one kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileRow {
    /// Kernel, with the revision that the row was measured for.
    pub key: KernelKey,
    /// Executions it is for.
    pub scope: ProfileScope,
    /// Values, by name.
    pub values: ParameterRow,
    /// Sizes it applies to.
    pub domain: SizeDomain,
    /// Where the row comes from, for reports: a file, a digest of evidence, `builtin`.
    pub origin: String,
}
