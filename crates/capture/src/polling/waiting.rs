//! What a waiting thread waits in, and its stack.

use std::fs;

use nodespy_model::{Registers, UserStack, WaitingIn};

use super::copies::StackCopies;
use crate::target::proc::{MappedRange, WaitingAt, path_of};

/// The stack of a thread that waits in the kernel. The kernel reports its stack and instruction
/// pointers; the other registers stay unknown. Whether it still waits is to be asked afterwards.
pub(crate) fn copy_waiting_stack(
    pid: u32,
    call: &WaitingAt,
    ranges: &[MappedRange],
    copies: &mut StackCopies,
) -> UserStack<'static> {
    let mut registers = Registers::default();
    registers.0[Registers::STACK_POINTER] = call.stack_pointer;
    registers.0[Registers::INSTRUCTION_POINTER] = call.instruction_pointer;
    let copied = copies.copy(pid, &registers, ranges);
    UserStack::Copy {
        registers,
        stack: copies.take(copied).into(),
    }
}

/// What a thread entered the kernel for.
pub(super) fn waiting_in(pid: u32, call: &WaitingAt) -> WaitingIn {
    let Some(number) = call.number else {
        return WaitingIn::PageFault;
    };
    match number {
        libc::SYS_futex | libc::SYS_futex_waitv => WaitingIn::Futex,
        libc::SYS_epoll_wait
        | libc::SYS_epoll_pwait
        | libc::SYS_epoll_pwait2
        | libc::SYS_poll
        | libc::SYS_ppoll
        | libc::SYS_select
        | libc::SYS_pselect6
        | libc::SYS_io_uring_enter => WaitingIn::Poll,
        libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_splice
        | libc::SYS_sendfile => of_descriptor(pid, call.argument),
        libc::SYS_open
        | libc::SYS_openat
        | libc::SYS_openat2
        | libc::SYS_close
        | libc::SYS_pread64
        | libc::SYS_preadv
        | libc::SYS_pwrite64
        | libc::SYS_pwritev
        | libc::SYS_fsync
        | libc::SYS_fdatasync
        | libc::SYS_sync_file_range
        | libc::SYS_stat
        | libc::SYS_lstat
        | libc::SYS_fstat
        | libc::SYS_statx
        | libc::SYS_newfstatat
        | libc::SYS_getdents64
        | libc::SYS_rename
        | libc::SYS_renameat2
        | libc::SYS_unlink
        | libc::SYS_mkdir
        | libc::SYS_rmdir
        | libc::SYS_ftruncate
        | libc::SYS_copy_file_range
        | libc::SYS_flock => WaitingIn::File,
        libc::SYS_connect
        | libc::SYS_accept
        | libc::SYS_accept4
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_recvmmsg
        | libc::SYS_sendto
        | libc::SYS_sendmsg
        | libc::SYS_sendmmsg => WaitingIn::Socket,
        libc::SYS_wait4 | libc::SYS_waitid => WaitingIn::Child,
        libc::SYS_nanosleep | libc::SYS_clock_nanosleep => WaitingIn::Sleep,
        _ => WaitingIn::Other,
    }
}

/// What is read from or written to.
fn of_descriptor(pid: u32, descriptor: u64) -> WaitingIn {
    let link = fs::read_link(path_of(pid, &format!("fd/{descriptor}")));
    let name = link.unwrap_or_default();
    let name = name.as_os_str().as_encoded_bytes();
    if name.starts_with(b"socket:") {
        WaitingIn::Socket
    } else if name.starts_with(b"pipe:")
        || name.starts_with(b"anon_inode:")
        || name.starts_with(b"/dev/")
    {
        WaitingIn::Pipe
    } else {
        WaitingIn::File
    }
}
