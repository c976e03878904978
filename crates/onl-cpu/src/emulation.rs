//! Signs of an emulator: a program shows there what it computes, never how fast a processor is.

use crate::source::SystemRoot;

/// Whether an emulator stands in for the processor. Recognized are the user-mode and system emulation of QEMU; a
/// virtual machine that runs on the processor itself is none.
pub fn emulated() -> bool {
    user_mode(&SystemRoot::real()) || translated()
}

/// User-mode emulation: the kernel knows the process by the emulator's name.
pub(crate) fn user_mode(root: &SystemRoot) -> bool {
    root.text("proc/self/comm")
        .is_some_and(|name| name.starts_with("qemu-"))
}

/// System emulation: the hypervisor's signature is that of QEMU's translator.
#[cfg(target_arch = "x86_64")]
fn translated() -> bool {
    crate::cpuid::hypervisor().as_deref() == Some("TCGTCGTCGTCG")
}

#[cfg(not(target_arch = "x86_64"))]
fn translated() -> bool {
    false
}
