//! Linux calls, each behind a safe function. All `unsafe` code of this crate is here.

pub(crate) mod allocator;
pub(crate) mod bpf;
pub(crate) mod clock;
pub(crate) mod files;
pub(crate) mod fork;
pub(crate) mod group;
pub(crate) mod memory;
pub(crate) mod namespaces;
pub(crate) mod one_in;
pub(crate) mod perf_event;
pub(crate) mod pid_bits;
pub(crate) mod pidfd;
pub(crate) mod priority;
pub(crate) mod ptrace;
pub(crate) mod ring;
pub(crate) mod ring_cursor;
pub(crate) mod signals;
pub(crate) mod walk;

use std::io;

/// The error of the last call, or the value it returned.
fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
