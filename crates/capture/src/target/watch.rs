//! One process to record, held so that another with the same number is never taken for it.

use nodespy_model::{Nanoseconds, Process};

use super::{labels, proc, program};
use crate::error::CaptureError;
use crate::sys::pidfd::{PidFd, Waker};

/// A process to record.
#[derive(Debug)]
pub struct Target {
    pid: u32,
    start_time: u64,
    pidfd: Option<PidFd>,
    cpu_time_at_start: Nanoseconds,
}

impl Target {
    /// Takes hold of process `pid`. A thread's number is taken for its process's.
    pub fn hold(pid: u32) -> Result<Self, CaptureError> {
        Self::hold_by(pid, &proc::start_time)
    }

    fn hold_by(pid: u32, start_time: &dyn Fn(u32) -> Option<u64>) -> Result<Self, CaptureError> {
        let status = proc::read_status(pid).ok_or(CaptureError::NoSuchProcess { pid })?;
        if status.is_zombie {
            return Err(CaptureError::Gone { pid });
        }
        let pid = if status.tgid == 0 { pid } else { status.tgid };
        let started = start_time(pid).ok_or(CaptureError::Gone { pid })?;
        let pidfd = PidFd::open(pid).ok();
        // The process may have ended in between, and the descriptor be another's that got its number.
        if start_time(pid) != Some(started) {
            return Err(CaptureError::Gone { pid });
        }
        Ok(Self {
            pid,
            start_time: started,
            pidfd,
            cpu_time_at_start: crate::process_cpu_time(pid).unwrap_or(0),
        })
    }

    /// Takes hold of the process with this number that started at `start_time`, and of no other that
    /// got the number since.
    pub fn hold_started(pid: u32, start_time: u64) -> Result<Self, CaptureError> {
        let target = Self::hold(pid).map_err(|_| CaptureError::Gone { pid })?;
        match target.start_time == start_time && !target.has_ended() {
            true => Ok(target),
            false => Err(CaptureError::Gone { pid }),
        }
    }

    /// Its pid.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// When it started, in clock ticks since boot.
    pub(crate) fn start_time(&self) -> u64 {
        self.start_time
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        match &self.pidfd {
            Some(pidfd) => pidfd.has_ended(),
            None => proc::start_time(self.pid) != Some(self.start_time),
        }
    }

    /// Counts its CPU time from now on.
    pub fn restart_cpu_time(&mut self) {
        self.cpu_time_at_start = crate::process_cpu_time(self.pid).unwrap_or(0);
    }

    /// CPU time it has used since it was taken hold of, or since [`Self::restart_cpu_time`]; none when it is gone.
    pub fn cpu_time(&self) -> Option<Nanoseconds> {
        let now = crate::process_cpu_time(self.pid)?;
        (!self.has_ended()).then(|| now.saturating_sub(self.cpu_time_at_start))
    }

    /// Sends it a signal; never another process with the same pid.
    pub(crate) fn send_signal(&self, signal: i32) -> Result<(), CaptureError> {
        let Some(pidfd) = &self.pidfd else {
            return Err(CaptureError::refused(
                "this kernel has no pidfd_open, so a signal could reach another process".to_owned(),
            ));
        };
        pidfd.send_signal(signal).map_err(|source| match source.raw_os_error() {
            Some(libc::ESRCH) => CaptureError::Gone { pid: self.pid },
            Some(libc::EPERM) => CaptureError::NotPermitted {
                sentence: format!(
                    "process {} belongs to another user, so it can't be sent the signal that opens \
                     its inspector: run nodespy as root or as that user",
                    self.pid
                ),
                source,
            },
            _ => CaptureError::call(format!("signalling process {}", self.pid), source),
        })
    }

    /// Asks it to end (SIGTERM), if it has not.
    pub fn terminate(&self) {
        let _ = self.send_signal(libc::SIGTERM);
    }

    /// Ends it (SIGKILL), if it has not ended.
    pub fn kill(&self) {
        let _ = self.send_signal(libc::SIGKILL);
    }

    /// What ends a wait when it ends.
    pub(crate) fn waker(&self) -> Option<Waker> {
        self.pidfd.as_ref().map(PidFd::waker)
    }
}

/// What is known of a process now; none when it is gone.
pub fn describe(pid: u32) -> Option<Process> {
    let status = proc::read_status(pid)?;
    let program = program(pid);
    let (name, labels) = labels::name_and_labels(pid, program.as_ref());
    Some(Process {
        pid,
        parent_pid: status.parent_pid,
        name,
        command: proc::command_line(pid).join(" "),
        node_version: program
            .as_ref()
            .and_then(|program| program.node_version().map(str::to_owned)),
        labels,
        ..Default::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_got_the_number_while_it_was_taken_hold_of_is_not_taken() {
        let reads = std::cell::Cell::new(7);
        let start_time = |_: u32| Some(reads.replace(reads.get() + 1));
        let held = Target::hold_by(std::process::id(), &start_time);
        assert!(matches!(held, Err(CaptureError::Gone { .. })), "{held:?}");
    }

    #[test]
    fn another_process_with_the_same_number_is_not_taken() {
        let pid = std::process::id();
        let started = proc::start_time(pid).unwrap();
        assert!(Target::hold_started(pid, started).is_ok());
        let other = Target::hold_started(pid, started + 1);
        assert!(matches!(other, Err(CaptureError::Gone { .. })), "{other:?}");
    }
}
