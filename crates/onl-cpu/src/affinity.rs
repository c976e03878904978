use crate::cpu_set::CpuSet;

/// The affinity mask of the calling thread; absent where the system has none.
#[cfg(target_os = "linux")]
pub fn current_thread_mask() -> Option<CpuSet> {
    // The kernel refuses a buffer shorter than its own mask, whose length depends on how it was built.
    let mut words = vec![0u64; 16];
    loop {
        let bytes = size_of_val(words.as_slice());
        // SAFETY: the buffer is valid for `bytes` bytes and aligned at least as `cpu_set_t`, an array of words; the
        // call writes no more than `bytes` bytes, any values of which are valid for u64.
        let result = unsafe { libc::sched_getaffinity(0, bytes, words.as_mut_ptr().cast()) };
        if result == 0 {
            break;
        }
        let too_short = std::io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL);
        if !too_short || words.len() >= 1024 {
            return None;
        }
        words.resize(words.len() * 2, 0);
    }
    // The mask is an array of C longs: bit order by words matters on big-endian and 32-bit systems only.
    let cpus = (0..words.len() as u32 * 64)
        .filter(|cpu| words[(cpu / 64) as usize] >> (cpu % 64) & 1 == 1);
    Some(cpus.collect())
}

/// The affinity mask of the calling thread; absent where the system has none.
#[cfg(not(target_os = "linux"))]
pub fn current_thread_mask() -> Option<CpuSet> {
    None
}
