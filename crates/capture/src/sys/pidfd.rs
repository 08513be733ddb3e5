//! A descriptor that stands for one process and never for the next one with its number.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use super::checked;

/// A process held by descriptor.
#[derive(Debug)]
pub(crate) struct PidFd(OwnedFd);

impl PidFd {
    pub(crate) fn open(pid: u32) -> io::Result<Self> {
        // SAFETY: the call takes two integers.
        let raw = checked(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
        // SAFETY: the kernel gave us this descriptor just now; we are its only owner.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(raw as i32) }))
    }

    /// Whether the process has ended.
    pub(crate) fn has_ended(&self) -> bool {
        wait_readable(&[self.0.as_raw_fd()], Duration::ZERO).is_ok_and(|ready| !ready.is_empty())
    }

    /// Sends the process a signal.
    pub(crate) fn send_signal(&self, signal: i32) -> io::Result<()> {
        // SAFETY: the descriptor is open, and without a siginfo the call takes integers only.
        checked(unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.0.as_raw_fd(),
                signal,
                std::ptr::null::<libc::siginfo_t>(),
                0,
            )
        })?;
        Ok(())
    }

    pub(crate) fn as_raw_fd(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

/// Waits until one of the descriptors has something to say. Returns (position, hung up) pairs.
pub(crate) fn wait_readable(fds: &[i32], timeout: Duration) -> io::Result<Vec<(usize, bool)>> {
    let mut polled: Vec<libc::pollfd> = fds
        .iter()
        .map(|&fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    let timeout = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: `polled` is a valid array of the length given.
    let result = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout) };
    match checked(result.into()) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(Vec::new()),
        Err(error) => return Err(error),
    }
    Ok(polled
        .iter()
        .enumerate()
        .filter(|(_, entry)| entry.revents != 0)
        .map(|(position, entry)| {
            (
                position,
                entry.revents & (libc::POLLHUP | libc::POLLERR) != 0,
            )
        })
        .collect())
}
