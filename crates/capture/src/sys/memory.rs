//! Reading another process's memory without stopping it.

/// Reads memory of process `pid`; returns how many bytes were read, 0 when none could be.
pub(crate) fn read_process_memory(pid: u32, address: u64, buffer: &mut [u8]) -> usize {
    read_process_memories(pid, [(address, buffer)])
}

/// Reads memory in several places with one call; returns how many bytes were read, which are those of the first places
/// where not all could be.
pub(crate) fn read_process_memories<const PLACES: usize>(
    pid: u32,
    places: [(u64, &mut [u8]); PLACES],
) -> usize {
    let remote = places.each_ref().map(|(address, buffer)| libc::iovec {
        iov_base: *address as *mut libc::c_void,
        iov_len: buffer.len(),
    });
    let local = places.map(|(_, buffer)| libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    });
    let count = PLACES as libc::c_ulong;
    // SAFETY: `local` describes buffers that are borrowed by the caller through the call; the kernel checks the
    // remote addresses and never writes to them.
    let read = unsafe {
        libc::process_vm_readv(
            pid as libc::pid_t,
            local.as_ptr(),
            count,
            remote.as_ptr(),
            count,
            0,
        )
    };
    usize::try_from(read).unwrap_or(0)
}
