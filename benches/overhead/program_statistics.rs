//! What the kernel counts for an eBPF program: how often it ran and how long that took.

use std::fs;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Runs of the programs that a process holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ProgramRuns {
    pub(crate) count: u64,
    pub(crate) nanoseconds: u64,
}

impl ProgramRuns {
    /// Of the programs that a process has descriptors of; none where nothing is counted.
    pub(crate) fn of_process(pid: u32) -> Self {
        let mut all = Self::default();
        let files = fs::read_dir(format!("/proc/{pid}/fdinfo"))
            .into_iter()
            .flatten();
        for file in files.flatten() {
            let text = fs::read_to_string(file.path()).unwrap_or_default();
            let of = Self::parse(&text);
            all.count += of.count;
            all.nanoseconds += of.nanoseconds;
        }
        all
    }

    fn parse(text: &str) -> Self {
        let number = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key));
            line.and_then(|value| value.trim().parse().ok())
                .unwrap_or(0)
        };
        Self {
            count: number("run_cnt:"),
            nanoseconds: number("run_time_ns:"),
        }
    }
}

/// Has the kernel count runs of programs (`BPF_ENABLE_STATS`) as long as what is returned lives.
pub(crate) fn count_program_runs() -> io::Result<OwnedFd> {
    const ENABLE_STATS: libc::c_int = 32;
    let run_time: u32 = 0;
    // SAFETY: the attributes of this call are one number, which lives as long as it does.
    let raw = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            ENABLE_STATS,
            &raw const run_time,
            size_of::<u32>(),
        )
    };
    match i32::try_from(raw) {
        // SAFETY: the call returned a new descriptor that nothing else owns.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_read_from_fdinfo() {
        let text = "pos:\t0\nprog_type:\t7\nrun_time_ns:\t1200\nrun_cnt:\t3\nverified_insns:\t9\n";
        let runs = ProgramRuns {
            count: 3,
            nanoseconds: 1200,
        };
        assert_eq!(ProgramRuns::parse(text), runs);
        assert_eq!(ProgramRuns::parse("pos:\t0\n"), ProgramRuns::default());
    }
}
