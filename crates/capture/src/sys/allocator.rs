//! What the C library does with memory that is given back to it.

/// Keep what is freed up to this size, to be used again.
const KEPT_BYTES: libc::c_int = 1 << 30;
/// Ask the kernel for at least this much at a time.
const STEP_BYTES: libc::c_int = 16 << 20;

/// Keeps freed memory for the next use instead of giving it back to the kernel, which would have to
/// clear it again: for commands that take a file in, write another and end.
pub fn keep_freed_memory() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [
        (libc::M_MMAP_THRESHOLD, KEPT_BYTES),
        (libc::M_TRIM_THRESHOLD, KEPT_BYTES),
        (libc::M_TOP_PAD, STEP_BYTES),
    ] {
        // SAFETY: it sets a number of the allocator, which may be done at any time.
        unsafe { libc::mallopt(parameter, value) };
    }
}

/// Gives freed memory back to the kernel, for what goes on for long: pages between what is in use
/// would stay with the process, and the largest batch ever would count for good.
pub fn return_freed_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it may be called at any time, and touches memory that is not in use only.
    unsafe {
        libc::malloc_trim(0);
    }
}
