//! Reading another process's memory without stopping it.

/// Reads memory of process `pid`; returns how many bytes were read, 0 when none could be.
pub(crate) fn read_process_memory(pid: u32, address: u64, buffer: &mut [u8]) -> usize {
    let local = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let remote = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: buffer.len(),
    };
    // SAFETY: `local` describes `buffer`, which lives through the call; the kernel checks the
    // remote address and never writes to it.
    let read = unsafe { libc::process_vm_readv(pid as libc::pid_t, &local, 1, &remote, 1, 0) };
    usize::try_from(read).unwrap_or(0)
}
