use std::marker::PhantomData;

/// What float instructions do with subnormal numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DenormalMode {
    /// Computed as IEEE 754 says. The only mode in which results agree between instruction sets.
    #[default]
    Preserve,
    /// Read and written as zero.
    Flush,
}

/// `preserve` or `flush`.
impl std::fmt::Display for DenormalMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            DenormalMode::Preserve => "preserve",
            DenormalMode::Flush => "flush",
        })
    }
}

impl std::str::FromStr for DenormalMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "preserve" => Ok(DenormalMode::Preserve),
            "flush" => Ok(DenormalMode::Flush),
            _ => Err(format!(
                "'{text}' is no treatment of denormal numbers; expected preserve or flush"
            )),
        }
    }
}

/// Holds the calling thread's float control word at round to nearest, exceptions masked and the wanted treatment of
/// subnormal numbers; puts the earlier control word back when dropped. Guards nest.
///
/// Costs a read of the control word, and a write where it differs. On processors other than x86-64 and AArch64 it does
/// nothing.
#[derive(Debug)]
#[must_use = "the mode ends when the guard is dropped"]
pub struct DenormalGuard {
    saved: ControlWord,
    /// The control word belongs to the thread.
    _thread: PhantomData<*const ()>,
}

impl DenormalGuard {
    /// Sets `mode` for the calling thread until the guard is dropped.
    pub fn new(mode: DenormalMode) -> Self {
        let saved = control_word();
        apply(saved, wanted(mode));
        Self {
            saved,
            _thread: PhantomData,
        }
    }

    /// Sets [`DenormalMode::Preserve`], the library's promise.
    pub fn preserve() -> Self {
        Self::new(DenormalMode::Preserve)
    }
}

impl Drop for DenormalGuard {
    fn drop(&mut self) {
        apply(control_word(), self.saved);
    }
}

/// Writes the control bits of `target` unless they stand already; bits that only report (sticky flags) stay as they are.
fn apply(present: ControlWord, target: ControlWord) {
    let word = (present & STATUS) | (target & !STATUS);
    if word != present {
        set_control_word(word);
    }
}

#[cfg(target_arch = "x86_64")]
use x86_64::*;

/// MXCSR (Intel SDM volume 1, 10.2.3).
#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::DenormalMode;
    use std::arch::asm;

    pub type ControlWord = u32;
    /// Exceptions seen since they were last cleared.
    pub const STATUS: u32 = 0x3f;
    const ALL_EXCEPTIONS_MASKED: u32 = 0x3f << 7;
    const FLUSH_TO_ZERO: u32 = 1 << 15;
    const DENORMALS_ARE_ZERO: u32 = 1 << 6;

    pub fn wanted(mode: DenormalMode) -> u32 {
        match mode {
            DenormalMode::Preserve => ALL_EXCEPTIONS_MASKED,
            DenormalMode::Flush => ALL_EXCEPTIONS_MASKED | FLUSH_TO_ZERO | DENORMALS_ARE_ZERO,
        }
    }

    pub fn control_word() -> u32 {
        let mut word = 0u32;
        // SAFETY: SSE is part of x86-64; the instruction writes the four bytes of `word` and nothing else.
        unsafe { asm!("stmxcsr [{}]", in(reg) &mut word, options(nostack, preserves_flags)) };
        word
    }

    pub fn set_control_word(word: u32) {
        // SAFETY: SSE is part of x86-64; `word` is built from a word that was read and from defined bits, so no reserved
        // bit is set; exceptions are masked unless the caller itself had unmasked them before the guard.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &word, options(nostack, preserves_flags)) };
    }
}

#[cfg(target_arch = "aarch64")]
use aarch64::*;

/// FPCR (Arm ARM, C5.2). The reporting bits are in another register.
#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use super::DenormalMode;
    use std::arch::asm;

    pub type ControlWord = u64;
    pub const STATUS: u64 = 0;
    const FLUSH_TO_ZERO: u64 = 1 << 24;
    const FLUSH_TO_ZERO_HALF: u64 = 1 << 19;

    pub fn wanted(mode: DenormalMode) -> u64 {
        match mode {
            DenormalMode::Preserve => 0,
            DenormalMode::Flush if std::arch::is_aarch64_feature_detected!("fp16") => {
                FLUSH_TO_ZERO | FLUSH_TO_ZERO_HALF
            }
            DenormalMode::Flush => FLUSH_TO_ZERO,
        }
    }

    pub fn control_word() -> u64 {
        let word: u64;
        // SAFETY: reading FPCR is allowed in user mode and changes nothing.
        unsafe { asm!("mrs {}, fpcr", out(reg) word, options(nostack, preserves_flags)) };
        word
    }

    pub fn set_control_word(word: u64) {
        // SAFETY: writing FPCR is allowed in user mode; `word` was read from it or has defined bits only.
        unsafe { asm!("msr fpcr, {}", in(reg) word, options(nostack, preserves_flags)) };
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
use other::*;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod other {
    use super::DenormalMode;

    pub type ControlWord = u32;
    pub const STATUS: u32 = 0;

    pub fn wanted(_: DenormalMode) -> u32 {
        0
    }

    pub fn control_word() -> u32 {
        0
    }

    pub fn set_control_word(_: u32) {}
}
