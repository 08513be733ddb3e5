//! Stopping one thread for a moment.
//!
//! `PTRACE_SEIZE` sends no signal and leaves no trace in the target; what it can see is that a
//! wait without restart (`epoll_wait`) ends early with EINTR, as after any stop and continue.
//! The kernel lets go of every thread whose tracer ends, so whatever happens to nodespy, nothing
//! stays stopped.

use std::io;
use std::time::{Duration, Instant};

use nodespy_model::Registers;

use super::checked;

/// How long we poll without sleeping: a thread that can stop mostly does so in 20 µs.
const EAGER: Duration = Duration::from_micros(60);
/// A stop wakes us; this is for the one that happened between polling and sleeping.
const PAUSE: Duration = Duration::from_millis(1);

/// A thread we trace; let go when dropped.
#[derive(Debug)]
pub(crate) struct Traced {
    tid: libc::pid_t,
    /// When it was last known to run.
    ran_at: Instant,
    stop: Option<Stop>,
}

/// What stopped a thread.
#[derive(Debug, Clone, Copy)]
struct Stop {
    /// A signal that was on its way to the thread and that it still has to get.
    signal: libc::c_int,
}

/// Lets this thread go first where that is allowed, so that on a busy machine no thread stays
/// stopped while the one that stopped it waits for a CPU.
pub(crate) fn hurry() {
    // SAFETY: the call takes three integers; zero is the calling thread. Refusal changes nothing.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
}

/// Sleeps until a thread we trace stops, or for `longest`. Unlike a plain sleep this wakes at once,
/// which on a busy machine is the difference between holding a thread for microseconds and for
/// as long as another thread's time slice.
fn sleep_until_a_stop(longest: Duration) {
    let timeout = libc::timespec {
        tv_sec: 0,
        tv_nsec: longest.subsec_nanos().into(),
    };
    // SAFETY: `signals` is initialized by sigemptyset before it is used, and both it and `timeout`
    // live through the calls; no information about the signal is asked for.
    unsafe {
        let mut signals: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut signals);
        libc::sigaddset(&mut signals, libc::SIGCHLD);
        // A signal that is not blocked is ignored before anybody can wait for it.
        libc::pthread_sigmask(libc::SIG_BLOCK, &signals, std::ptr::null_mut());
        libc::sigtimedwait(&signals, std::ptr::null_mut(), &timeout);
    }
}

/// How waiting for a stop went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waited {
    Stopped,
    /// It did not stop in time.
    TimedOut,
    /// It ended.
    Ended,
}

impl Traced {
    /// Becomes the tracer of a thread, which runs on.
    pub(crate) fn seize(tid: u32) -> io::Result<Self> {
        let tid = tid as libc::pid_t;
        // SAFETY: PTRACE_SEIZE reads no memory of ours; address and options are zero.
        checked(unsafe { libc::ptrace(libc::PTRACE_SEIZE, tid, 0, 0) })?;
        Ok(Self {
            tid,
            ran_at: Instant::now(),
            stop: None,
        })
    }

    /// Asks the thread to stop and waits until it did, at most until `deadline`.
    pub(crate) fn stop(&mut self, deadline: Instant) -> io::Result<Waited> {
        self.ran_at = Instant::now();
        // SAFETY: PTRACE_INTERRUPT reads no memory of ours.
        let asked = checked(unsafe { libc::ptrace(libc::PTRACE_INTERRUPT, self.tid, 0, 0) });
        match asked {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(Waited::Ended),
            asked => asked?,
        };
        let eager_until = Instant::now() + EAGER;
        loop {
            let now = Instant::now();
            if let Some(waited) = self.poll()? {
                return Ok(waited);
            }
            self.ran_at = now;
            if now >= deadline {
                return Ok(Waited::TimedOut);
            }
            if now < eager_until {
                std::hint::spin_loop();
            } else {
                sleep_until_a_stop(PAUSE);
            }
        }
    }

    /// Whether the thread has stopped or ended; none when it still runs.
    fn poll(&mut self) -> io::Result<Option<Waited>> {
        let mut status = 0;
        let flags = libc::__WALL | libc::WNOHANG;
        // SAFETY: `status` is a valid place for the answer.
        let waited = checked(unsafe { libc::waitpid(self.tid, &mut status, flags) }.into());
        match waited {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(None),
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => {
                return Ok(Some(Waited::Ended));
            }
            Err(error) => return Err(error),
        }
        if !libc::WIFSTOPPED(status) {
            return Ok(Some(Waited::Ended));
        }
        // Any stop will do. Without an event it is a signal on its way, which must arrive.
        let is_event = status >> 16 != 0;
        let signal = if is_event { 0 } else { libc::WSTOPSIG(status) };
        self.stop = Some(Stop { signal });
        Ok(Some(Waited::Stopped))
    }

    /// The earliest moment at which it may have stopped.
    pub(crate) fn stopped_since(&self) -> Instant {
        self.ran_at
    }

    /// The registers in user mode of the stopped thread.
    pub(crate) fn registers(&self) -> io::Result<Registers> {
        // SAFETY: the structure is plain numbers, for which zero is a value.
        let mut values: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        let size = size_of::<libc::user_regs_struct>();
        let mut place = libc::iovec {
            iov_base: (&raw mut values).cast(),
            iov_len: size,
        };
        // SAFETY: `place` describes `values`, which lives through the call.
        checked(unsafe {
            libc::ptrace(
                libc::PTRACE_GETREGSET,
                self.tid,
                libc::NT_PRSTATUS,
                &raw mut place,
            )
        })?;
        if place.iov_len != size {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "not a 64-bit thread",
            ));
        }
        Ok(dwarf_registers(&values))
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        // A thread that stopped after we gave up waiting can be let go now; one that did not is
        // let go by the kernel when the tracing thread of nodespy ends.
        if self.stop.is_none() {
            let _ = self.poll();
        }
        if let Some(stop) = self.stop {
            // SAFETY: PTRACE_DETACH reads no memory of ours; the signal is one the kernel gave us.
            unsafe { libc::ptrace(libc::PTRACE_DETACH, self.tid, 0, stop.signal) };
        }
    }
}

/// Registers as ptrace gives them, in DWARF's order.
fn dwarf_registers(values: &libc::user_regs_struct) -> Registers {
    Registers([
        values.rax, values.rdx, values.rcx, values.rbx, values.rsi, values.rdi, values.rbp,
        values.rsp, values.r8, values.r9, values.r10, values.r11, values.r12, values.r13,
        values.r14, values.r15, values.rip,
    ])
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_stopped_thread_runs_on_when_it_is_dropped() {
        let mut child = Command::new("sleep")
            .arg("60")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let tracer = |pid| {
            let path = format!("/proc/{pid}/status");
            let text = std::fs::read_to_string(path).unwrap();
            let line = text.lines().find(|line| line.starts_with("TracerPid"));
            line.unwrap().split_whitespace().nth(1).unwrap().to_owned()
        };
        let mut traced = Traced::seize(child.id()).unwrap();
        let waited = traced
            .stop(Instant::now() + Duration::from_secs(10))
            .unwrap();
        assert_eq!(waited, Waited::Stopped);
        assert_ne!(traced.registers().unwrap().stack_pointer(), 0);
        assert_ne!(tracer(child.id()), "0");
        drop(traced);
        assert_eq!(tracer(child.id()), "0");
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_thread_that_does_not_exist_is_an_error() {
        assert!(Traced::seize(u32::MAX >> 2).is_err());
    }
}
