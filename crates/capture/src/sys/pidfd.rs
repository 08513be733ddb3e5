//! A descriptor that stands for one process and never for another with the same pid.

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
        let ready = poll([self.0.as_raw_fd()].into_iter(), Duration::ZERO);
        ready.is_ok_and(|ready| ready.iter().any(|ready| *ready != 0))
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

    /// What ends a wait when the process ends.
    pub(crate) fn waker(&self) -> Waker {
        Waker::Process(self.0.as_raw_fd())
    }
}

/// A descriptor that ends a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waker {
    /// A ring has samples, again and again.
    Ring(i32),
    /// A ring has other records, again and again.
    Sideband(i32),
    /// A process has ended, which it does once: its pidfd stays readable for ever, and hangs up only
    /// when the process is reaped as well.
    Process(i32),
}

impl Waker {
    fn fd(self) -> i32 {
        match self {
            Self::Ring(fd) | Self::Sideband(fd) | Self::Process(fd) => fd,
        }
    }

    /// Whether it would end every wait from now on.
    fn is_spent(self, ready: libc::c_short) -> bool {
        match self {
            Self::Ring(_) | Self::Sideband(_) => {
                ready & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0
            }
            Self::Process(_) => ready != 0,
        }
    }
}

/// What has ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    Timeout,
    /// Rings of samples alone.
    BySamples,
    /// Sideband rings alone.
    BySideband,
    Otherwise,
}

/// Waits until one of the wakers is ready, and drops those that can't become ready again.
pub(crate) fn wait_for(wakers: &mut Vec<Waker>, timeout: Duration) -> io::Result<Woken> {
    let ready = poll(wakers.iter().map(|waker| waker.fd()), timeout)?;
    let of_ready = wakers.iter().zip(&ready).filter(|(_, ready)| **ready != 0);
    let woken = of_ready.fold(Woken::Timeout, |woken, (waker, _)| match (woken, waker) {
        (Woken::Timeout | Woken::BySamples, Waker::Ring(_)) => Woken::BySamples,
        (Woken::Timeout | Woken::BySideband, Waker::Sideband(_)) => Woken::BySideband,
        _ => Woken::Otherwise,
    });
    let mut ready = ready.into_iter();
    wakers.retain(|waker| !ready.next().is_some_and(|ready| waker.is_spent(ready)));
    Ok(woken)
}

/// Waits until one of these descriptors is ready, which are two: whether each of them is.
pub(crate) fn wait_for_either(fds: [i32; 2]) -> io::Result<[bool; 2]> {
    let ready = poll(fds.into_iter(), Duration::MAX)?;
    Ok([0, 1].map(|at| ready.get(at).is_some_and(|ready| *ready != 0)))
}

/// Whether one of these descriptors can be read, or has failed, within this time.
pub(crate) fn is_readable_within(fds: Vec<i32>, timeout: Duration) -> bool {
    poll(fds.into_iter(), timeout).is_ok_and(|ready| ready.iter().any(|ready| *ready != 0))
}

/// What each descriptor is ready for.
fn poll(fds: impl Iterator<Item = i32>, timeout: Duration) -> io::Result<Vec<libc::c_short>> {
    let mut polled: Vec<libc::pollfd> = fds
        .map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    let timeout = libc::timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    // SAFETY: `polled` is a valid array of the length given, the timeout a valid time; without a set
    // of signals the mask stays as it is.
    let result = unsafe {
        libc::ppoll(
            polled.as_mut_ptr(),
            polled.len() as libc::nfds_t,
            &timeout,
            std::ptr::null(),
        )
    };
    match checked(result.into()) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        // Nothing is ready after a signal.
        _ => Ok(polled.iter().map(|entry| entry.revents).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::Instant;

    #[test]
    fn a_zombie_ends_one_wait_only() {
        let mut child = Command::new("true").spawn().unwrap();
        let pidfd = PidFd::open(child.id()).unwrap();
        let mut wakers = vec![pidfd.waker()];
        wait_for(&mut wakers, Duration::from_secs(60)).unwrap();
        assert!(pidfd.has_ended());
        let started = Instant::now();
        wait_for(&mut wakers, Duration::from_millis(50)).unwrap();
        assert!(started.elapsed() >= Duration::from_millis(50));
        child.wait().unwrap();
    }
}
