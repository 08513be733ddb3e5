//! Runs a command line and tells what it and everything it started cost.

use std::process::{Command, Stdio};

use crate::Failure;

/// What a command took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    /// User and system time, of all its processes.
    pub(crate) cpu_seconds: f64,
    /// Of its largest process.
    pub(crate) memory_megabytes: f64,
    pub(crate) is_success: bool,
}

/// Runs a line of shell to its end.
pub(crate) fn run(line: &str) -> Result<Cost, Failure> {
    let child = Command::new("bash")
        .args(["-c", &format!("set -o pipefail; {line}")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let mut status = 0;
    // SAFETY: all fields of a rusage are numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call, and the child is ours and not waited for elsewhere.
    let waited = unsafe { libc::wait4(child.id() as libc::pid_t, &mut status, 0, &mut usage) };
    if waited < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Ok(Cost {
        cpu_seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        memory_megabytes: usage.ru_maxrss as f64 * 1024.0 / 1e6,
        is_success: status == 0,
    })
}
