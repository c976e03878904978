//! On which processors a thread may run. Threads of a model run on none in particular.

/// Processors that a thread may run on, up to number 4095.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CpuMask([u64; 64]);

impl CpuMask {
    /// The mask of one processor, when its number is representable.
    pub(crate) fn one(cpu: u32) -> Option<Self> {
        let mut mask = CpuMask([0; 64]);
        *mask.0.get_mut(cpu as usize / 64)? |= 1 << (cpu % 64);
        Some(mask)
    }

    /// The same processors without one; `None` when nothing would be left.
    pub(crate) fn without(mut self, cpu: u32) -> Option<Self> {
        *self.0.get_mut(cpu as usize / 64)? &= !(1 << (cpu % 64));
        self.0.iter().any(|&word| word != 0).then_some(self)
    }

    /// The mask of the calling thread.
    #[cfg(all(target_os = "linux", not(any(loom, shuttle))))]
    pub(crate) fn of_this_thread() -> Option<Self> {
        let mut mask = CpuMask([0; 64]);
        // SAFETY: the kernel writes at most the stated number of bytes into the array.
        let status = unsafe {
            libc::sched_getaffinity(
                0,
                std::mem::size_of_val(&mask.0),
                mask.0.as_mut_ptr().cast::<libc::cpu_set_t>(),
            )
        };
        (status == 0).then_some(mask)
    }

    /// Makes this the mask of the calling thread; false when the system refuses.
    #[cfg(all(target_os = "linux", not(any(loom, shuttle))))]
    pub(crate) fn apply_to_this_thread(&self) -> bool {
        // SAFETY: the kernel reads at most the stated number of bytes from the array.
        unsafe {
            libc::sched_setaffinity(
                0,
                std::mem::size_of_val(&self.0),
                self.0.as_ptr().cast::<libc::cpu_set_t>(),
            ) == 0
        }
    }

    /// The mask of the calling thread.
    #[cfg(any(not(target_os = "linux"), loom, shuttle))]
    pub(crate) fn of_this_thread() -> Option<Self> {
        None
    }

    /// Makes this the mask of the calling thread; false when the system refuses.
    #[cfg(any(not(target_os = "linux"), loom, shuttle))]
    pub(crate) fn apply_to_this_thread(&self) -> bool {
        false
    }
}

/// The processor that the calling thread runs on now, `u32::MAX` when unknown.
#[cfg(all(target_os = "linux", not(any(loom, shuttle))))]
pub(crate) fn current_cpu() -> u32 {
    // SAFETY: no arguments, no memory.
    u32::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(u32::MAX)
}

/// The processor that the calling thread runs on now, `u32::MAX` when unknown.
#[cfg(any(not(target_os = "linux"), loom, shuttle))]
pub(crate) fn current_cpu() -> u32 {
    u32::MAX
}

/// Keeps an unpinned lane off its caller's processor.
///
/// Schedulers like to wake a thread where its waker runs. There it would wait for the caller's time slice, and the
/// caller for it. So a lane takes the caller's processor out of its own mask before it sleeps, and a lane that wakes on
/// the caller's processor all the same, because the caller has moved, leaves it.
pub(crate) struct CallerAvoidance {
    original: Option<CpuMask>,
    avoided: u32,
    enabled: bool,
}

impl CallerAvoidance {
    pub(crate) fn new(enabled: bool) -> Self {
        CallerAvoidance {
            original: None,
            avoided: u32::MAX,
            enabled,
        }
    }

    /// Makes `caller_cpu` the one processor of its original mask that this thread does not run on. Where it could not
    /// run elsewhere, or the system refuses, nothing changes.
    pub(crate) fn avoid(&mut self, caller_cpu: u32) {
        if !self.enabled || caller_cpu == u32::MAX || caller_cpu == self.avoided {
            return;
        }
        let Some(original) = self.original.or_else(CpuMask::of_this_thread) else {
            return;
        };
        self.original = Some(original);
        if let Some(narrowed) = original.without(caller_cpu)
            && narrowed.apply_to_this_thread()
        {
            self.avoided = caller_cpu;
        }
    }

    /// Leaves `caller_cpu` if this thread runs on it and may run elsewhere.
    pub(crate) fn leave(&mut self, caller_cpu: u32) {
        if self.enabled && current_cpu() == caller_cpu {
            self.avoid(caller_cpu);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mask_without_its_only_processor_is_refused() {
        let mask = CpuMask::one(70).unwrap();
        assert_eq!(mask.without(70), None);
        assert_eq!(mask.without(3), Some(mask));
        assert_eq!(CpuMask::one(4096), None);
        assert_eq!(mask.without(4096), None);
    }

    #[cfg(all(target_os = "linux", not(any(loom, shuttle))))]
    #[test]
    #[allow(clippy::disallowed_methods)] // a test thread of its own keeps the harness's mask
    fn a_lane_avoids_one_processor_at_a_time() {
        std::thread::spawn(|| {
            let before = CpuMask::of_this_thread().unwrap();
            let mut avoidance = CallerAvoidance::new(true);
            let cpu = current_cpu();
            avoidance.leave(cpu);
            let Some(narrowed) = before.without(cpu) else {
                assert_eq!(CpuMask::of_this_thread(), Some(before));
                return;
            };
            assert_eq!(CpuMask::of_this_thread(), Some(narrowed));
            let elsewhere = current_cpu();
            assert_ne!(elsewhere, cpu);
            // The caller moved here: its former processor may be used again.
            avoidance.avoid(elsewhere);
            assert_eq!(CpuMask::of_this_thread(), before.without(elsewhere));
            assert_ne!(current_cpu(), elsewhere);
        })
        .join()
        .unwrap();
    }
}
