//! Which threads of a process may run JavaScript.
//!
//! A breakpoint is closed in some 90 ms, for each thread and CPU it was opened on: where only JavaScript leads to
//! one, it is not opened on the others.

use crate::target::proc::{self, SystemCall};

/// How Node and V8 name the threads that run none, as far as the kernel keeps names.
const OTHERS: [&str; 5] = [
    "libuv-worker",
    "node-V8Worker",
    "V8Worker",
    "DelayedTaskSche",
    "SignalInspector",
];

/// Whether a thread may run JavaScript. Up to Node 20 threads have no names of their own: one that waits for a lock has
/// nothing to do, as those of V8 and of libuv's pool. A worker that does so in `Atomics.wait` is taken for one of them.
pub(crate) fn may_run_javascript(pid: u32, tid: u32) -> bool {
    if tid == pid {
        return true;
    }
    let name = proc::thread_name(pid, tid).unwrap_or_default();
    if OTHERS.contains(&&*name) {
        return false;
    }
    let call = proc::system_call(pid, tid);
    !matches!(call, Ok(SystemCall::Waiting(at)) if at.number == Some(libc::SYS_futex))
}
